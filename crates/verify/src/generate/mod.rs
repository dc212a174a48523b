//! Where the packets of a verification come from.
//!
//! - [`directed::Directed`]: packets derived from a program's rules and their boundaries ([`coverage`], [`ways`],
//!   [`solve`]).
//! - [`traffic::Traffic`]: flows with answers, close misses and time jumps, from values that the configuration names.
//! - [`again::Again`]: packets of another source's flows again, the same or a little different.
//! - [`capture::Capture`]: captures, merged by time; [`adapt`] makes them fit a chain.

pub mod adapt;
pub mod again;
pub mod capture;
mod corners;
pub mod coverage;
pub mod directed;
pub mod goals;
pub mod hints;
pub(crate) mod index;
pub mod paths;
pub mod plan;
pub mod read;
pub mod solve;
pub mod tables;
pub mod traffic;
pub mod ways;

use crate::event::Event;
use crate::subject::Outputs;
use onefold_element::ElemId;
use onefold_engine::program::ProgramStep;

/// A port of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The element that packets enter through.
    pub source: Option<ElemId>,
    /// The elements that packets leave through.
    pub sinks: Vec<ElemId>,
}

/// Where events come from.
pub trait Source {
    /// The next event; `None` when there are no more.
    fn next(&mut self) -> Option<Event>;
    /// Is the program to note which rules take the event that [`Source::next`] gave last?
    fn watches(&self) -> bool {
        false
    }
    /// What left the reference for these frames (one, or a batch), and the rules that took them, if they were noted.
    fn seen(&mut self, events: &[Event], outputs: &Outputs, steps: &[ProgramStep]);
}
