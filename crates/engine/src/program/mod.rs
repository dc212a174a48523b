//! Synthesized programs, executed.
//!
//! A [`ProgramRunner`] is a [`Graph`] and a [`Program`] made for it. [`ProgramRunner::inject`] does what [`Graph::inject`] does
//! (the clock, what is due before, the packet, then quiescence), but the packet goes through the program: entry stage, first
//! rule that fits, steps, end. Bytes, order, ports, drops and the state left behind are those of the reference graph, with which
//! the program shares every element's state.
//!
//! - Loading checks every number in the program ([`LoadError`]); whatever it says, the executor does not panic and comes to an
//!   end: stages within an epoch form no circle, epochs per packet and stages per injection are bounded.
//! - A program is compiled into flat arrays: registers (what filters read, taken out once per epoch), tests, tree nodes, images.
//! - Where a packet leaves the program (a punt), it goes into the reference graph as it would be there.
//! - When a write handler has changed a model, packets take the reference graph until a new program is loaded
//!   ([`ProgramRunner::needs_synthesis`]).
//!
//! ```
//! use onefold_engine::program::ProgramRunner;
//! use onefold_engine::{BuildOptions, Graph, spec_from_flat};
//! use onefold_synth::program::{Action, ActionId, End, Entry, Filter, Program, Rule, Stage, StageId, Why};
//! let text = "FromDevice(a) -> d :: Discard;";
//! let flat = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
//! let (a, d) = (graph.source("a").unwrap(), graph.find("d").unwrap());
//! let rule = Rule { filter: Filter::default(), action: ActionId(0), origin: vec![] };
//! let end = End::Drop { elem: d, reason: "Discard".into() };
//! let action = Action { steps: vec![], end, path: vec![a, d] };
//! let program = Program {
//!     elements: (0..graph.len()).map(|i| graph.spec().elements[i].name.clone()).collect(),
//!     entries: vec![Entry { source: a, stage: StageId(0) }],
//!     stages: vec![Stage {
//!         at: (a, 0),
//!         why: Why::Entry,
//!         fresh: true,
//!         known: Filter::default(),
//!         among: Vec::new(),
//!         rules: vec![rule],
//!         actions: vec![action],
//!     }],
//!     ..Program::default()
//! };
//! let mut runner = ProgramRunner::with_program(graph, &program).unwrap();
//! runner.inject(a, &[0; 60], Default::default());
//! assert_eq!(runner.report().classes()[0].packets, 1);
//! assert!(runner.graph().totals().balanced());
//! ```

pub(crate) mod code;
pub(crate) mod enter;
pub(crate) mod error;
pub(crate) mod exec;
pub(crate) mod followers;
pub(crate) mod headers;
pub(crate) mod load;
pub(crate) mod lookup;
pub(crate) mod path;
pub(crate) mod plan;
pub(crate) mod reads;
pub(crate) mod report;
pub(crate) mod rewrite;
pub(crate) mod runner;
pub(crate) mod trace;

pub use crate::program::error::LoadError;
pub use crate::program::lookup::report::{StageReport, StructureReport, Tried, ViewReport};
pub use crate::program::lookup::using::{Structures, Using};
pub use crate::program::plan::{Plan, PreparedStages};
pub use crate::program::report::{ClassCount, PuntCount, Report, RuleCount};
pub use crate::program::runner::ProgramRunner;
pub use crate::program::trace::{Passed, ProgramStep};
pub use onefold_classify::Kind;
