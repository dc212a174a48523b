//! A packet's way through a program, written down so that it can be gone again without asking.

use onefold_nat::{BoundBy, LastingBinding};
use onefold_synth::program::LenAt;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum PathEnd {
    /// In a way that is not for repetition: at the reference graph, at an element that was asked, in copies.
    #[default]
    Elsewhere,
    /// It left at this sink, with this image.
    Output(u32, u32),
    /// This element dropped it.
    Drop(u32, &'static str),
    /// The epoch ended: it was written out with this image, and goes on at this stage.
    Write { image: u32, next: u32 },
    /// The epoch ended: it was written out with this image, and an element is asked at this input; [`Code`]'s places
    /// of the outputs' nexts, and what counts it.
    ///
    /// [`Code`]: crate::program::code::Code
    Ask {
        image: u32,
        node: u32,
        port: u32,
        outputs: (u32, u32),
        site: u32,
    },
}

impl PathEnd {
    /// Does the packet go on, in another epoch?
    pub fn goes_on(self) -> bool {
        matches!(self, PathEnd::Write { .. } | PathEnd::Ask { .. })
    }
}

/// All stages of one epoch that a packet passed, and what happened there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// Among all.
    pub rules: Vec<u32>,
    /// Element, tag, length: in order.
    pub counts: Vec<(u32, u16, LenAt)>,
    /// Rules whose action the packet left, at their bindings of these numbers.
    pub left: Vec<(u32, u16)>,
    /// The bindings that were used.
    pub flows: Vec<LastingBinding>,
    pub end: PathEnd,
    /// Registers at the end, where it left.
    pub values: Vec<u128>,
    /// Bindings have set annotations that no image names.
    pub late: bool,
    /// Why it is not to be gone again, if something that happened may not happen again.
    pub once: Option<&'static str>,
}

impl Path {
    /// For the next packet.
    pub fn clear(&mut self) {
        self.rules.clear();
        self.counts.clear();
        self.left.clear();
        self.flows.clear();
        self.end = PathEnd::Elsewhere;
        self.values.clear();
        (self.once, self.late) = (None, false);
    }
    /// A rule took the packet.
    pub fn rule(&mut self, at: usize, fresh: bool) {
        if fresh && !self.rules.is_empty() {
            self.once = Some("written out on the way");
        }
        self.rules.push(at as u32);
    }
    /// A binding was used.
    pub fn flow(&mut self, lasting: Option<LastingBinding>) {
        match lasting {
            Some(l) if l.by == BoundBy::Earlier && !self.has(&l) => {
                self.once = Some("a binding of what another part of the way has bound");
            }
            Some(l) => self.flows.push(l),
            None => self.once = Some("a binding that is still changing"),
        }
    }
    /// Has the same binding been used before?
    fn has(&self, l: &LastingBinding) -> bool {
        let same = |f: &LastingBinding| (f.table, f.flow) == (l.table, l.flow);
        self.flows.iter().any(same)
    }
    /// May it be gone again? Else the reason.
    pub fn repeats(&self) -> Result<(), &'static str> {
        match (self.once, self.end) {
            (Some(why), _) => Err(why),
            (None, PathEnd::Elsewhere) => Err("the reference graph, or an element that is asked"),
            (None, _) if self.rules.is_empty() => Err("no program"),
            (None, _) => Ok(()),
        }
    }
}
