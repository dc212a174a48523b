//! Measures chains on one core, from memory to memory.
//!
//! - [`aim()`] makes packets that a chain forwards and opens their flows; [`Templates`], [`Order`] and [`Ring`] have
//!   them ready before the clock starts.
//! - [`Subject`] is what is measured: the reference graph, the synthesized program; a further execution level is one
//!   more of them.
//! - [`alternate()`] measures all of them in alternation, with the ceiling (the same packets, copied and looked at, no
//!   processing) and a MAC swap in the same run.
//! - [`matcher()`] measures a chain's payload matchers alone.
//! - [`Report`] is what is told of it.
//!
//! How and why: docs/decisions, "How bench measures".

mod aim;
mod alternate;
mod clock;
mod feed;
mod machine;
mod matcher;
mod report;
mod seen;
mod subject;
mod unseen;
mod unseen_frames;
mod usual;

pub use aim::{AimError, AimParams, Aimed, Lane, MAX_PER_FLOW, Opening, aim};
pub use alternate::{Candidate, Measured, Outcome, Sample, Settings, alternate};
pub use clock::{PinError, Times, cores, on_all_cores, pin};
pub use feed::{BATCH, BUFFERS, Order, Ring, STRIDE, Templates};
pub use machine::Machine;
pub use matcher::{MatcherReport, matcher};
pub use report::{ChainReport, FlowReport, Parameters, Report, Spread, TrafficReport};
pub use subject::{Account, Ceiling, Executed, MacSwap, Subject};
pub use unseen::{Unseen, Vary, frame_of};
