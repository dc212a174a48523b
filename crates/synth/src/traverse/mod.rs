//! Synthesis proper: packets travel as groups of filters through the models, element by element, until every group has
//! left, been dropped, or must be classified anew.
//!
//! A stage starts with one filter (what is known there). At an element every filter of a group is intersected with
//! every case, in order; the parts that take cases with equal operations and exit stay one group. Groups that come to
//! the same input in the same state join. Order is kept by *ranks*: the choices a filter has made so far, first-match
//! order being the lexicographic order of ranks; nothing is ever subtracted (SNF's lazy subtraction, carried to its
//! end).
//!
//! Bounds: a stage has at most [`Budget::rules`] rules, a program [`Budget::stages`] stages whose rules together have
//! the [`Budget::size`], a path passes an input at most [`MAX_VISITS`] times and a link between functions
//! [`MAX_CROSSINGS`] times, a stage is done over at most [`MAX_ROUNDS`] times while more becomes known to reach it, all
//! of which together make rules of at most [`MAX_WORK`] times that size.

mod assemble;
mod bind;
mod carry;
mod cases;
mod element;
mod exits;
mod flows;
mod groups;
mod known;
mod order;
mod prune;
mod sweep;

use crate::input::{Budget, Input};
use crate::program::{
    Action, End, Entry, Filter, Origin, Program, Slot, SlotInfo, Stage, StageId, Why,
};
use crate::progress;
use crate::state::State;
use carry::carried;
use flows::{Ask, Begun};
use groups::Traversal;
use known::Known;
use onefold_element::ElemId;
use order::order;
use std::collections::{BTreeSet, HashMap};

/// Most times that a path passes one input: cycles inside a function end here.
pub const MAX_VISITS: usize = 32;
// packets that go round with no hop counted down end at the same number
const _: () = assert!(MAX_VISITS == onefold_element::model::MAX_ROUNDS as usize);
/// Most times that a path crosses one link between functions. Packets that come to it once more go round, as between
/// routers that send a prefix to each other: the reference graph goes on with them to the end of their time to live.
pub const MAX_CROSSINGS: usize = 2;
/// Class of links between functions.
const LINK: &str = "NFLink";
/// Most times that a stage is made again because more can reach it than was known; then everything is taken to reach
/// it.
pub const MAX_ROUNDS: u32 = 24;

/// Most that is made while stages are done over, in sizes that the budget allows a program.
pub const MAX_WORK: usize = 8;

/// A filter on its way.
#[derive(Debug, Clone)]
struct Part {
    rank: Vec<u32>,
    filter: Filter,
    origin: Vec<Origin>,
}

impl Part {
    /// What it takes of [`Budget::size`].
    fn size(&self) -> usize {
        1 + self.filter.0.len() + self.rank.len() + self.origin.len()
    }
}

#[derive(Debug, Clone, Default)]
struct Group {
    parts: Vec<Part>,
    path: Vec<ElemId>,
}

impl Group {
    /// What it takes of [`Budget::size`].
    fn size(&self) -> usize {
        self.parts.iter().map(Part::size).sum()
    }
}

/// What a stage is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    elem: ElemId,
    port: u16,
    fresh: bool,
    state: State,
    /// Instead of going on at the element: write out and go to the fresh stage there.
    write: bool,
}

struct Work {
    key: Key,
    why: Why,
    known: Known,
    dirty: bool,
    rounds: u32,
    /// Where the stages began that led here first, and the links between functions on the way.
    trail: Vec<(ElemId, u16)>,
    done: Option<Stage>,
    /// What its rules take of [`Budget::size`].
    size: usize,
    /// Packets are punted here, for this cause.
    cut: Option<&'static str>,
}

struct Leaf {
    part: Part,
    /// Index into the traversal's actions.
    action: u32,
}

struct Synthesizer<'a> {
    input: &'a Input,
    budget: Budget,
    topo: Vec<u32>,
    stages: Vec<Work>,
    index: HashMap<Key, StageId>,
    slots: Vec<SlotInfo>,
    slot_index: HashMap<(ElemId, u16, u16, u8), Slot>,
    /// Flows that begin, by rewriter and input.
    begun: HashMap<(ElemId, u16), Begun>,
    /// What rewriters are asked.
    asking: HashMap<ElemId, Vec<Ask>>,
    /// Rewriters at which more is known to begin than when they were asked.
    more: BTreeSet<ElemId>,
    /// Behind these, packets come that the program does not see.
    loosened: BTreeSet<(ElemId, u16)>,
    /// Which fields of first packets may be other ports than the program's packets have there.
    kept_ports: HashMap<(ElemId, u16), [bool; 4]>,
    notes: Vec<String>,
    /// What the rules of the stages that are done take of [`Budget::size`].
    size: usize,
    /// The same of all that was ever made.
    work: usize,
}

/// Composes the models of a configured graph. Never fails: what has no model is punted.
pub fn synthesize(input: &Input, budget: Budget) -> Program {
    let mut s = Synthesizer {
        input,
        budget,
        topo: order(input),
        stages: Vec::new(),
        index: HashMap::new(),
        slots: Vec::new(),
        slot_index: HashMap::new(),
        begun: HashMap::new(),
        asking: HashMap::new(),
        more: BTreeSet::new(),
        loosened: BTreeSet::new(),
        kept_ports: HashMap::new(),
        notes: Vec::new(),
        size: 0,
        work: 0,
    };
    s.loosen_makers();
    s.keep_ports();
    let mut entries = Vec::new();
    for source in &input.sources {
        let key = Key {
            elem: *source,
            port: 0,
            fresh: true,
            state: State::entry(),
            write: false,
        };
        let stage = s.stage(None, key, Why::Entry, &Known::anything());
        entries.push(Entry {
            source: *source,
            stage,
        });
    }
    s.run_all();
    // Bound: each time one more stage is cut.
    while let Some(i) = progress::loops(s.stages.iter().map(|w| w.done.as_ref())) {
        s.stages[i].cut = Some("copies come round to here");
        s.stages[i].dirty = true;
        s.run_all();
    }
    let stages = s.stages.into_iter().filter_map(|w| w.done);
    let mut p = Program {
        elements: input.elements.iter().map(|e| e.name.clone()).collect(),
        entries,
        stages: stages.collect(),
        slots: s.slots,
        notes: s.notes,
        ..Program::default()
    };
    p.notes.dedup();
    sweep::sweep(&mut p);
    if cfg!(debug_assertions) {
        let report = crate::check::check(&p);
        debug_assert!(report.violations.is_empty(), "{:#?}", report.violations);
    }
    p
}

impl Synthesizer<'_> {
    /// Bound: `MAX_ROUNDS` for each of at most `budget.stages` stages, and once more whenever another flow begins, for
    /// those that ask its rewriter.
    fn run_all(&mut self) {
        while let Some(i) = self.next_dirty() {
            self.forget(i);
            self.run(i);
            self.ask_again();
        }
    }

    /// What is left of [`Budget::size`].
    fn room(&self) -> usize {
        let done = self.budget.size.saturating_sub(self.size);
        let made = self.budget.size.saturating_mul(MAX_WORK);
        done.min(made.saturating_sub(self.work))
    }

    fn next_dirty(&self) -> Option<usize> {
        let dirty = self.stages.iter().enumerate().filter(|(_, w)| w.dirty);
        dirty
            .min_by_key(|(i, w)| (self.topo.get(w.key.elem.0 as usize).copied(), *i))
            .map(|(i, _)| i)
    }

    /// The stage of that key; `known` can reach it.
    /// It comes from a stage, by this path there.
    fn stage(
        &mut self,
        from: Option<(usize, &[ElemId])>,
        key: Key,
        why: Why,
        known: &Known,
    ) -> StageId {
        if let Some(id) = self.index.get(&key) {
            let w = &mut self.stages[id.0 as usize];
            if w.known.join(known, &self.slots) {
                w.rounds += 1;
                if w.rounds >= MAX_ROUNDS {
                    w.known = Known::anything();
                }
                w.dirty = true;
            }
            return *id;
        }
        let id = StageId(self.stages.len() as u32);
        let mut trail = Vec::new();
        if let Some((i, path)) = from {
            trail.extend(self.stages.get(i).into_iter().flat_map(|w| &w.trail));
            let crossed = path.iter().filter(|e| self.is_link(**e));
            trail.extend(crossed.map(|e| (*e, 0)));
        }
        trail.push((key.elem, key.port));
        self.index.insert(key.clone(), id);
        self.stages.push(Work {
            key,
            why,
            known: known.clone(),
            dirty: true,
            rounds: 0,
            trail,
            done: None,
            size: 0,
            cut: None,
        });
        id
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < 100 && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn name(&self, e: ElemId) -> &str {
        self.input
            .elements
            .get(e.0 as usize)
            .map_or("?", |e| e.name.as_str())
    }

    fn is_link(&self, e: ElemId) -> bool {
        let e = self.input.elements.get(e.0 as usize);
        e.is_some_and(|e| e.class == LINK)
    }

    fn successor(&self, e: ElemId, port: usize) -> Option<(ElemId, u16)> {
        let e = self.input.elements.get(e.0 as usize)?;
        e.outputs.get(port).copied().flatten()
    }

    fn run(&mut self, i: usize) {
        let w = &mut self.stages[i];
        w.dirty = false;
        let known = w.known.clone();
        let (key, why) = (w.key.clone(), w.why);
        let here = (key.elem, key.port);
        let again = w.trail.iter().filter(|t| **t == here).count();
        self.size -= std::mem::take(&mut self.stages[i].size);
        let cut = match self.stages[i].cut {
            Some(cause) => Some(cause),
            None if again > MAX_VISITS => Some("a loop through several functions"),
            None if i >= self.budget.stages => Some("too many stages"),
            None if self.room() == 0 => Some("the rules of all stages exceed the budget"),
            None => None,
        };
        let leaves = if let Some(cause) = cut {
            self.note(format!("{}: {cause}", self.name(key.elem)));
            let mut t = Traversal::new(self, i);
            let group = Group {
                parts: vec![Part {
                    rank: Vec::new(),
                    filter: Filter::default(),
                    origin: Vec::new(),
                }],
                path: Vec::new(),
            };
            t.punt(key.elem, key.port, &key.state, group, cause);
            (t.leaves, t.actions)
        } else if key.write {
            let fresh = Key {
                state: key.state.written(),
                fresh: true,
                write: false,
                ..key.clone()
            };
            let behind = known.map(&self.slots, |f| carried(f, &key.state));
            let to = self.stage(Some((i, &[])), fresh, Why::Written, &behind);
            let part = Part {
                rank: Vec::new(),
                filter: Filter::default(),
                origin: Vec::new(),
            };
            let action = Action {
                steps: Vec::new(),
                end: End::Write {
                    image: key.state.image(true),
                    next: to,
                },
                path: Vec::new(),
            };
            (vec![Leaf { part, action: 0 }], vec![action])
        } else {
            Traversal::new(self, i).run(&key, &known)
        };
        let size = leaves.0.iter().map(|l| l.part.size()).sum();
        self.stages[i].size = size;
        self.size += size;
        self.work = self.work.saturating_add(size);
        let stage = self.assemble(&key, why, known, leaves);
        self.stages[i].done = Some(stage);
    }
}
