//! The steps that a packet takes.

use crate::graph::visits::Visit;
use onefold_element::{ElemId, Port, SourceLoc};

/// A choice that an element made about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The configuration argument (rule, route) that made it.
    pub argument: Option<usize>,
    /// Where that argument was written; the element's declaration when no argument is named.
    pub loc: SourceLoc,
    /// What was decided.
    pub text: String,
}

/// How a packet came to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Pushed into an input.
    Push(Port),
    /// Pulled from an output.
    Pull(Port),
    /// The element's task ran.
    Task,
    /// The element's timer expired.
    Timer,
}

/// One element's part in what happened to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// The element.
    pub element: ElemId,
    /// Its full name; the first component is the network function in a stitched chain.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Where it is declared.
    pub loc: SourceLoc,
    /// How the packet came.
    pub entry: Entry,
    /// Virtual time.
    pub at: onefold_packet::Timestamp,
    /// What it decided.
    pub decisions: Vec<Decision>,
    /// Outputs that packets left at, in order, with their lengths.
    pub outputs: Vec<(Port, usize)>,
    /// Reasons of drops.
    pub drops: Vec<String>,
    /// Packets that left the graph here.
    pub transmitted: usize,
}

/// A trace while it is taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub steps: Vec<TraceStep>,
    /// Steps that are under way, outermost first.
    pub open: Vec<usize>,
    /// More happened than is kept.
    pub truncated: bool,
    /// Only the elements are noted, once per visit; elements are not asked what they decide.
    pub visits: Option<Vec<Visit>>,
}

/// Most steps that a trace keeps.
pub const MAX_TRACE_STEPS: usize = 100_000;
