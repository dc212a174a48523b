//! The steps that a packet takes.

use crate::graph::visits::Visit;
use onefold_element::{ElemId, GraphSpec, Port, SourceLoc};

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
    /// Of a list of rules: those before the one that decided, nearest first, and why they did not; not all of them.
    pub passed: Vec<Decision>,
    /// So many in all.
    pub passed_in_all: usize,
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

impl Trace {
    /// The innermost step of an element that is under way.
    fn step_of(&mut self, elem: ElemId) -> Option<&mut TraceStep> {
        let is = |i: &&usize| self.steps.get(**i).is_some_and(|s| s.element == elem);
        let at = self.open.iter().rev().find(is).copied()?;
        self.steps.get_mut(at)
    }

    /// An element has decided.
    pub fn decided(
        &mut self,
        spec: &GraphSpec,
        elem: ElemId,
        (argument, text): (Option<usize>, String),
    ) {
        let Some(step) = self.step_of(elem) else {
            return;
        };
        let loc = match argument {
            Some(i) => spec.arg_loc(elem.0 as usize, i),
            None => step.loc.clone(),
        };
        step.decisions.push(Decision {
            argument,
            loc,
            text,
        });
    }

    /// Rules of an element have not.
    pub fn passed(
        &mut self,
        spec: &GraphSpec,
        elem: ElemId,
        (nearest, of): (Vec<(usize, String)>, usize),
    ) {
        let Some(step) = self.step_of(elem) else {
            return;
        };
        let one = |(i, text)| Decision {
            argument: Some(i),
            loc: spec.arg_loc(elem.0 as usize, i),
            text,
        };
        step.passed.extend(nearest.into_iter().map(one));
        step.passed_in_all += of;
    }
}

/// Most steps that a trace keeps.
pub const MAX_TRACE_STEPS: usize = 100_000;
