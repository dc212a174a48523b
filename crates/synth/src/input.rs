//! What the synthesizer works on: a configured graph's models and wiring, free of engine and files.

use onefold_element::ElemId;
use onefold_element::model::Model;

/// An element as the synthesizer sees it.
#[derive(Debug, Clone)]
pub struct ElementInfo {
    /// Full name.
    pub name: String,
    /// Class name.
    pub class: String,
    /// Model of each input; a source has one for the packets that arrive from outside.
    pub models: Vec<Model>,
    /// Where each output leads: element and input.
    pub outputs: Vec<Option<(ElemId, u16)>>,
    /// Per input: packets are pulled, not pushed; no model holds there.
    pub input_is_pull: Vec<bool>,
}

/// A configured graph.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// By [`ElemId`].
    pub elements: Vec<ElementInfo>,
    /// Where packets enter.
    pub sources: Vec<ElemId>,
}

/// Bounds on what is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most rules in a stage; more than these split the stage.
    pub rules: usize,
    /// Most stages.
    pub stages: usize,
    /// Most alternatives that one condition may have.
    pub terms: usize,
    /// Most tests, choices and origins in the rules of all stages together, about 100 bytes each. Packets that would
    /// need more are punted.
    pub size: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            rules: 200_000,
            stages: 4096,
            terms: 4096,
            size: 16_000_000,
        }
    }
}
