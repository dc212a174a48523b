//! Executes graphs of elements: the reference graph, the meaning of a chain.
//!
//! - [`Graph::build`] makes a running [`Graph`] from a [`GraphSpec`](onefold_element::GraphSpec), checking everything first:
//!   classes, port counts, push and pull, configurations. All errors come back at once, with their places.
//! - The **scalar engine** ([`Graph::inject`]) pushes one packet depth first, as Click does, on a virtual clock, and runs
//!   tasks and due timers until nothing more happens. Bounds on what a packet may cause are in [`limits`].
//! - The **batched engine** ([`Graph::inject_stamped`], [`Graph::inject_batch`]) takes a batch at a time through the same graph,
//!   each packet at its own time; what comes of it is what comes of its packets one by one. Rates are measured with it.
//! - [`program`] executes synthesized programs in a graph's stead; [`shadow`] compares some of what they do with the graph.
//! - [`Graph::read_handler`] and [`Graph::write_handler`] reach the elements' handlers; [`Graph::start_trace`] records every
//!   step and decision; [`Graph::fork`] copies a graph, state and all; [`Graph::totals`] is the account of packets.
//!
//! ```
//! use onefold_engine::{BuildOptions, Graph, spec_from_flat};
//! let text = "i :: Idle -> c :: Counter -> Discard;";
//! let flat = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let mut graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
//! let c = graph.find("c").unwrap();
//! let p = graph.make_packet(&[0; 60]);
//! graph.inject_packet(c, 0, p, Default::default());
//! assert_eq!(graph.read_handler("c.count").unwrap(), "1");
//! assert!(graph.totals().balanced());
//! ```
#![deny(unsafe_code)]

mod executor;
pub mod flow;
mod graph;
mod level;
pub mod program;
pub mod shadow;
mod simd;

pub use crate::executor::Executor;
pub use crate::graph::build::{Bound, BuildOptions};
pub use crate::graph::core::Log;
pub use crate::graph::diag::{BuildError, Diagnostic, Severity, Stage};
pub use crate::graph::discarded::Discarded;
pub use crate::graph::driver::{DriverOptions, Ended};
pub use crate::graph::flat::spec_from_flat;
pub use crate::graph::handlers::VERSION;
pub use crate::graph::hotswap::{Begins, TakenOver};
pub use crate::graph::reference::{DropCount, Graph, Totals};
pub use crate::graph::trace::{Decision, Entry, MAX_TRACE_STEPS, TraceStep};
pub use crate::graph::visits::Visits;
pub use crate::graph::{click, limits};
pub use crate::level::{Level, Stopwatch};
