//! Is it the same? The same packets through two executions of a chain; every difference found, shrunk and shown.
//!
//! - [`Subject`]: an execution: [`Reference`] (the reference graph, scalar), [`Batched`] (the batched engine),
//!   [`Synthesized`] (the program).
//! - [`Pair`]: two of them side by side; [`Pair::step`] compares after every packet what left (bytes, ports, order),
//!   [`Pair::checkpoint`] drop reasons, account, states and handler values.
//! - [`generate`]: where packets come from: traffic made of the values that the configuration names, captures.
//! - [`states`]: whether rewriters and balancers keep their promises over time.
//! - [`run()`]: all of it; [`Outcome`] has what was found, each difference shrunk ([`shrink`]) to a short sequence of
//!   simple packets and traced in both executions.
//!
//! ```
//! use onefold_engine::{BuildOptions, Graph, spec_from_flat};
//! use onefold_verify::{Batched, Options, Pair, Reference, generate, run};
//! let text = "FromDevice(in) -> Counter -> CheckIPHeader(14) -> ToDevice(out);";
//! let flat = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
//! let ports = [generate::Port {
//!     name: "in".into(),
//!     source: graph.source("in"),
//!     sinks: graph.sinks("out"),
//! }];
//! let hints = generate::hints::Hints::of(graph.spec());
//! let mut traffic = generate::traffic::Traffic::new(&ports, hints, 1, 2000, Default::default(), 8).unwrap();
//! let pair = Pair::new(
//!     Box::new(Reference(graph.fork())),
//!     Box::new(Batched::new(graph.fork())),
//!     8,
//! );
//! let outcome = run(&pair, &mut traffic, &Options::default(), &mut |_| true);
//! assert_eq!((outcome.packets, outcome.findings.len()), (2000, 0));
//! ```
#![forbid(unsafe_code)]

pub mod answers;
pub mod compare;
pub mod cubes;
pub mod event;
pub mod frame;
mod gap;
pub mod generate;
mod order;
pub mod prove;
pub mod reach;
mod rng;
mod run;
pub mod shrink;
pub mod solicitation;
pub mod states;
mod stop;
mod subject;

pub use compare::{Difference, Pair, What};
pub use event::{Event, Record};
pub use rng::Rng;
pub use run::{At, Finding, Options, Outcome, examine, run, traces};
pub use stop::Stop;
pub use subject::{Batched, Flow, Outputs, Reference, Subject, Synthesized, lines};
