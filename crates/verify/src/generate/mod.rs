//! Where the packets of a verification come from.
//!
//! - [`traffic::Traffic`]: flows with answers, close misses and time jumps, from values that the configuration names.
//! - [`capture::Capture`]: captures, merged by time.

pub mod capture;
pub mod coverage;
pub mod hints;
pub mod read;
pub mod solve;
pub mod traffic;

use crate::event::Event;
use crate::subject::Outputs;
use onefold_elements::ElemId;

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
    /// What left the reference for these frames: one, or a batch.
    fn seen(&mut self, events: &[Event], outputs: &Outputs);
}
