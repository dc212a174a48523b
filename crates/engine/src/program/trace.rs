//! The stages that a packet passes, recorded.

use onefold_element::ElemId;
use onefold_element::model::Binding;

/// Most stages that a trace keeps.
const MAX_STEPS: usize = 10_000;

/// A stage that a packet passed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramStep {
    /// Stage.
    pub stage: usize,
    /// The rule that took the packet, if one did.
    pub rule: Option<usize>,
    /// Elements that accounted for it: element and length there.
    pub counted: Vec<(ElemId, u64)>,
    /// Bindings that were found or made: the rewriter and what it answered.
    pub bound: Vec<(ElemId, Binding)>,
    /// It left the chain here, so long.
    pub left: Option<usize>,
}

/// A class that a packet was of on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Passed {
    /// Stage.
    pub stage: usize,
    /// Action of the stage.
    pub action: usize,
    /// An epoch began with it: here the reference graph can take over.
    pub fresh: bool,
}

/// Collects steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    pub steps: Vec<ProgramStep>,
    pub truncated: bool,
}

impl Recorder {
    #[cold]
    pub fn stage(&mut self, stage: u32, rule: Option<u32>) {
        if self.steps.len() >= MAX_STEPS {
            self.truncated = true;
            return;
        }
        self.steps.push(ProgramStep {
            stage: stage as usize,
            rule: rule.map(|r| r as usize),
            ..ProgramStep::default()
        });
    }
    #[cold]
    pub fn count(&mut self, elem: u32, bytes: u64) {
        if let (Some(s), false) = (self.steps.last_mut(), self.truncated) {
            s.counted.push((ElemId(elem), bytes));
        }
    }
    #[cold]
    pub fn bound(&mut self, elem: u32, b: &Binding) {
        if let (Some(s), false) = (self.steps.last_mut(), self.truncated) {
            s.bound.push((ElemId(elem), *b));
        }
    }
    #[cold]
    pub fn left(&mut self, len: usize) {
        if let (Some(s), false) = (self.steps.last_mut(), self.truncated) {
            s.left = Some(len);
        }
    }
}
