//! A program as the executor has it: flat arrays, everything that can be known in advance known.

use crate::graph::topology::Edge;
use crate::program::headers::registers::Source;
use crate::program::lookup::tree::{Classifier, StageIndex};
use crate::program::lookup::{Lookup, StageLookup};
use crate::program::reads::{EntryReads, LaterReads};
use crate::program::rewrite::image::Image;
use onefold_element::model::{BindKind, FlowSide, ValueSet};
use onefold_synth::program::{self as synth, EndAt, LenAt};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No stage.
pub(crate) const NONE: u32 = u32::MAX;

/// A part of an array.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub from: u32,
    pub to: u32,
}

impl Span {
    pub fn of<T>(self, list: &[T]) -> &[T] {
        list.get(self.from as usize..self.to as usize)
            .unwrap_or_default()
    }
}

/// Where a packet goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    Stage(u32),
    Unconnected(u32),
    Never,
}

/// What is expected of a binding.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    pub output: u16,
    pub kept: [bool; 4],
    /// Of what is not kept; `None`: it may be anything.
    pub sets: [Option<ValueSet>; 4],
    /// All of it may.
    pub any: bool,
}

impl Expect {
    /// What a program expects.
    pub fn of(e: &synth::Expect) -> Expect {
        let any = |i: usize| ValueSet::full(if i < 2 { 32 } else { 16 });
        let sets = [0, 1, 2, 3].map(|i| Some(e.sets[i].clone()).filter(|s| *s != any(i)));
        Expect {
            output: e.output,
            kept: e.kept,
            any: (0..4).all(|i| e.kept[i] || sets[i].is_none()),
            sets,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Count {
        elem: u32,
        tag: u16,
        len: LenAt,
        /// Of element and tag, in [`Code::counts`].
        number: u32,
    },
    Bind {
        elem: u32,
        port: u16,
        kind: BindKind,
        image: u32,
        first: u16,
        /// Annotation byte and slot.
        anno: Option<(u8, u16)>,
        expect: Option<Box<Expect>>,
        bound: Span,
        sides: Option<Box<[FlowSide]>>,
        pass: Span,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Output {
        sink: u32,
        image: u32,
    },
    Drop {
        elem: u32,
        reason: &'static str,
    },
    /// `site` counts it.
    Punt {
        to: Edge,
        image: u32,
        site: u32,
    },
    Ask {
        to: Edge,
        image: u32,
        outputs: Span,
        site: u32,
    },
    Write {
        image: u32,
        next: u32,
    },
    Goto(u32),
    Fork(Span),
    Unreachable,
}

/// Positions (in bytes) are nearer to the packet's start than this.
pub(crate) const MAX_POSITION: i64 = 1 << 24;

/// Where the packets of an action end for the lists of rules that decided about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Where they ended when the epoch began.
    No,
    /// For some lists as a header says.
    At(EndAt),
    /// As several headers say.
    Several,
}

#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub cut: Cut,
    /// Lists decide about its packets behind so many of its bindings, at most.
    pub behind: u16,
    /// Registers that its values read, in [`Code::lists`].
    pub needs: Span,
    pub steps: Span,
    /// Bindings that can be foreseen, in [`Code::binds`].
    pub binds: Span,
    pub end: End,
}

#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// Where in the reference graph.
    pub at: Edge,
    /// Registers that its rules read at once, in [`Code::lists`].
    pub needs: Span,
    pub index: StageIndex,
    pub lookup: Arc<Lookup>,
    /// So many bytes of a packet its rules read, if nothing else.
    pub reach: Option<u32>,
    /// Of its first rule among all, and of its first action.
    pub rules: u32,
    pub actions: u32,
}

/// A place where packets leave the program for the reference graph, or an element is asked.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub elem: u32,
    pub cause: String,
    pub asked: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Code {
    pub sources: Vec<Source>,
    /// How many of them are slots.
    pub slots: usize,
    pub classifier: Classifier,
    pub stages: Vec<Stage>,
    /// Action (among all) of every rule.
    pub rule_action: Vec<u32>,
    pub actions: Vec<Action>,
    pub steps: Vec<Step>,
    pub images: Vec<Image>,
    /// Elements and tags that are counted.
    pub counts: Vec<(u32, u16)>,
    pub nexts: Vec<Next>,
    /// Rewriters with an input and the image that they see.
    pub binds: Vec<(u32, u16, u32)>,
    pub lists: Vec<u16>,
    pub sites: Vec<Site>,
    /// Elements are asked at some of them.
    pub asks_elements: bool,
    /// First stage by source element, or [`NONE`].
    pub entries: Vec<u32>,
    /// Elements whose tables (of routes, of neighbours) are asked.
    pub tables: Vec<u32>,
    /// By rule (among all): registers of questions to tables of neighbours that must be known for its packets.
    pub asks: BTreeMap<u32, Box<[u16]>>,
    /// What decides ways, by entry.
    pub reads: Vec<EntryReads>,
    /// What decides ways behind write-outs and asked elements, if there are any.
    pub later: Option<Arc<LaterReads>>,
}

impl Code {
    /// A stage as it is looked up.
    #[inline]
    pub fn lookup_of<'a>(&'a self, stage: &'a Stage) -> StageLookup<'a> {
        StageLookup {
            lookup: &stage.lookup,
            classifier: &self.classifier,
            index: stage.index,
            sources: &self.sources,
            needs: stage.needs.of(&self.lists),
        }
    }

    /// The action of a rule, among all.
    pub fn action_of(&self, rule: u32) -> Option<&Action> {
        self.actions
            .get(*self.rule_action.get(rule as usize)? as usize)
    }

    /// Does the action of this rule, among all, do nothing on its way but count?
    pub fn only_counts(&self, rule: u32) -> bool {
        let action = self.action_of(rule);
        let counts = |s: &Step| matches!(s, Step::Count { .. });
        action.is_some_and(|a| a.steps.of(&self.steps).iter().all(counts))
    }

    /// Is the action a matter of counts that may wait, and of an output or a drop? `waits`: by number of what is
    /// counted.
    pub fn is_fast(&self, action: &Action, waits: &[bool]) -> bool {
        let counted = |s: &Step| match s {
            Step::Count { number, .. } => waits.get(*number as usize) == Some(&true),
            Step::Bind { .. } => false,
        };
        action.steps.of(&self.steps).iter().all(counted)
            && matches!(action.end, End::Output { .. } | End::Drop { .. })
    }

    /// How many rules a stage has.
    pub fn rules_of(&self, stage: usize) -> usize {
        let from = self.stages.get(stage).map_or(0, |s| s.rules as usize);
        let to = self.stages.get(stage + 1).map(|s| s.rules as usize);
        to.unwrap_or(self.rule_action.len()).saturating_sub(from)
    }
}

impl Step {
    pub fn elem(&self) -> u32 {
        match self {
            Step::Count { elem, .. } | Step::Bind { elem, .. } => *elem,
        }
    }
}
