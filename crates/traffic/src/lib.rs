//! The traffic generator on live ports: packets leave on time, carry a stamp, and are counted and timed when they come
//! back.
//!
//! - [`Load`] is what is sent: frames made before the clock starts, and their order.
//! - [`Schedule`] says when: intended send times, evenly, as a Poisson process, in bursts, as recorded, or whenever the
//!   port takes a packet. They do not wait for the generator or the chain: latency is measured from them, so that a
//!   stall counts for every packet that should have been sent meanwhile (no coordinated omission).
//! - [`stamp`] is what each packet carries in its payload; [`Account`] what became of packets, [`Histogram`] how long
//!   they took.
//! - [`Generator`] sends and receives, trial by trial; [`search()`] finds the highest rate without too much loss, as of
//!   RFC 2544, section 26.1.
//!
//! Traffic is made by whoever calls: this crate knows ports and packets only.
#![forbid(unsafe_code)]

mod account;
mod generator;
mod load;
pub mod neighbor;
mod schedule;
mod search;
pub mod stamp;
mod trial;

pub use account::{Account, Counts, WINDOW};
pub use generator::{Generator, How, PortSpec, Watch};
pub use load::{Load, LoadError, MAX_BYTES, Outgoing, Stamping};
pub use onefold_runtime::{Histogram, Percentiles};
pub use schedule::{Arrivals, Rate, Schedule};
pub use search::{Bound, Found, Goal, Tried, search};
pub use trial::{Limit, PortCounts, Trial};
