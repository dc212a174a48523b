//! Program and models side by side: for every action of a stage, the models are followed for the packets that take
//! it, up to where the action says that something happens; there both must have the same packet.
//!
//! One epoch of the program is followed at a time, from its fresh stage, where both sides have the same packet: what
//! is known of it is a function ([`Meeting::all`]). Where an epoch ends, both sides must have the same packet again,
//! and the next meeting is told what is known. This goes on until nothing new is known anywhere. Then the program
//! behaves as the models do, from every meeting on: whatever leaves, is dropped, counted, bound or handed over until
//! the next one is the same.

use crate::prove::Finer;
use crate::prove::Options;
use crate::prove::dd::{NO, Ref, YES};
use crate::prove::element::{self, Cases};
use crate::prove::image::Slots;
use crate::prove::lists::{self, Compared};
use crate::prove::packet::{CHECKSUM, Cause, Facts, Scope, Sym, World};
use crate::prove::sum::Sum;
use onefold_element::ElemId;
use onefold_element::model::{Bind, BindKind, Case, Exit, Model, Op, Rewritten, ValueSet};
use onefold_synth::Input;
use onefold_synth::program::{
    Action, End, Expect, Image, LenAt, Next, Program, Slot, Stage, StageId, Step,
};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

mod bind;
mod drive;
mod finer;
mod follow;
mod listed;

use listed::Comparisons;

/// Most elements on the way of one packet between two meetings.
const MAX_HOPS: u32 = 4_000;
/// Most places where something differs, or is not known, that are told.
const MAX_TOLD: usize = 200;
/// Drop reason of an output that is not connected.
const UNCONNECTED: &str = "unconnected output";

/// A place in the graph: element and input.
pub type Place = (ElemId, u16);

/// Where a program's epoch begins and the reference graph is at the same place with the same packet.
pub struct Meeting {
    /// The program's stage.
    pub stage: StageId,
    /// The graph's place.
    pub place: Place,
    /// What is known besides.
    pub facts: Facts,
    /// The packets that may come.
    pub all: Ref,
    /// Those that have been followed.
    done: Ref,
    /// Packets for which the program hands over to the reference graph in this epoch.
    pub punted: Ref,
    /// Packets of which something is not known in this epoch.
    pub unknown: Ref,
    /// Packets for which something differs in this epoch.
    pub different: Ref,
    /// Meetings that come next, for which packets.
    pub next: HashMap<usize, Ref>,
    /// The first meeting that led here.
    pub from: Option<usize>,
}

/// Something that is not the same, or of which it is not known whether it is.
pub struct Told {
    /// In the epoch of this meeting.
    pub meeting: usize,
    /// The program's stage and action.
    pub stage: StageId,
    /// Its action.
    pub action: Option<u32>,
    /// The element where the graph was.
    pub elem: ElemId,
    /// In words.
    pub what: String,
    /// For these packets.
    pub here: Ref,
    /// Whoever is one of them shows it: no binding came before, and models say what there is to say.
    pub plain: bool,
    /// Models and program contradict each other, for these values of bindings.
    pub contradicts: bool,
    /// What the program's slots hold there.
    pub slots: Slots,
    /// A checksum differs, where this is not zero: of the packets here whoever gives it another value shows it.
    pub sum: Option<Sum>,
    /// Only checksums differ, and only a rewriter that is asked has them: nobody sees it unless the packet is handed
    /// over to it.
    pub unless_bound: bool,
}

/// Only checksums differ where an epoch ends: that is told if anything comes of it.
struct Held {
    told: Told,
    /// The meeting behind which it would show.
    at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Models and program contradict each other.
    Plain,
    /// They may.
    Beyond,
    /// It cannot be said.
    Unknown,
}

/// A packet in the graph.
#[derive(Clone)]
struct At {
    place: Option<Place>,
    /// Dropped instead.
    dropped: Option<(ElemId, &'static str)>,
    sym: Rc<Sym>,
}

/// Something that an element counts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Count {
    elem: ElemId,
    tag: u16,
    len: LenAt,
}

/// Where the program is on a packet's way.
#[derive(Clone)]
struct Position {
    here: Ref,
    at: At,
    /// Counted by the program, not yet by the graph.
    counts: Vec<Count>,
    slots: Slots,
    /// Bindings so far.
    nth: u32,
    stage: StageId,
    action: Option<u32>,
}

/// What happens next, says the program.
enum Want<'a> {
    Bind(Place, BindKind, Sym),
    Ask(Place, Sym),
    Output(ElemId, Sym),
    Drop(ElemId, &'a str),
    Fork(usize),
    Punt(Place, Sym),
    Write(Place, Sym),
}

/// It does, in the graph, too.
struct Met<'a> {
    here: Ref,
    sym: Rc<Sym>,
    bind: Option<&'a Bind>,
    ports: &'a [usize],
    elem: ElemId,
    place: Place,
    /// Checksums in which the program's packet may differ, and what there is to tell of it.
    apart: Option<(Vec<i32>, Box<Told>)>,
}

/// The search.
pub struct Search<'a> {
    input: &'a Input,
    program: &'a Program,
    /// Functions and variables.
    pub w: World,
    cases: HashMap<Place, Cases<'a>>,
    finer: &'a Finer<'a>,
    /// What it has said.
    beyond: HashMap<Place, Option<Rc<Vec<Case>>>>,
    rules: HashMap<(StageId, Vec<Ref>), Result<Ref, Cause>>,
    /// All meetings.
    pub meetings: Vec<Meeting>,
    index: HashMap<(StageId, Place, Facts), usize>,
    me: usize,
    /// What differs.
    pub different: Vec<Told>,
    /// What is not known.
    pub unknown: Vec<Told>,
    held: Vec<Held>,
    /// Stages that some packet may come to.
    pub visited: BTreeSet<StageId>,
    /// Steps of packets through elements.
    pub steps: u64,
    /// Most of them.
    max_steps: u64,
    /// A list with at least so many cases is compared rule by rule.
    long: usize,
    /// Comparisons of long lists in this epoch.
    listed: Comparisons,
    /// All comparisons.
    pub compared: lists::All,
    /// The bound on them was reached.
    pub exhausted: bool,
}

impl<'a> Search<'a> {
    /// Nothing has been looked at.
    pub fn new(
        input: &'a Input,
        program: &'a Program,
        finer: &'a Finer<'a>,
        w: World,
        options: &Options,
    ) -> Self {
        Search {
            input,
            program,
            w,
            cases: HashMap::new(),
            finer,
            beyond: HashMap::new(),
            rules: HashMap::new(),
            meetings: Vec::new(),
            index: HashMap::new(),
            me: 0,
            different: Vec::new(),
            unknown: Vec::new(),
            held: Vec::new(),
            visited: BTreeSet::new(),
            steps: 0,
            max_steps: options.steps,
            long: options.long,
            listed: Comparisons::new(),
            compared: lists::All::new(),
            exhausted: false,
        }
    }

    /// Follows everything that comes from outside through a source. False when a bound ended it.
    pub fn entry(&mut self, source: ElemId, stage: StageId) -> bool {
        self.meet(stage, (source, 0), Facts::entry(), YES);
        // Bound: steps, nodes and time.
        while let Some(i) = self.next() {
            self.follow(i);
            if self.w.dd.stopped().is_some() || self.exhausted {
                return false;
            }
        }
        self.release();
        true
    }

    /// Differences in checksums alone that were held back are told where something comes of them: where packets of
    /// which they are not the same any more are not shown to be treated alike. Where not, nobody can see them.
    fn release(&mut self) {
        let apart = |m: &Meeting| !m.facts.apart.is_empty();
        let mut shows: Vec<bool> = (self.meetings.iter())
            .map(|m| apart(m) && (m.different != NO || m.unknown != NO))
            .collect();
        // Bound: every round marks another meeting.
        loop {
            let leads = |m: &Meeting| m.next.keys().any(|to| shows.get(*to) == Some(&true));
            let more = (self.meetings.iter().enumerate())
                .find(|(i, m)| apart(m) && shows.get(*i) == Some(&false) && leads(m));
            match more.map(|(i, _)| i).and_then(|i| shows.get_mut(i)) {
                Some(s) => *s = true,
                None => break,
            }
        }
        // what is not known behind a difference is a difference
        for m in self.meetings.iter_mut().filter(|m| apart(m)) {
            m.different = self.w.dd.or(m.different, m.unknown);
            m.unknown = NO;
        }
        let meetings = &self.meetings;
        self.unknown
            .retain(|t| meetings.get(t.meeting).is_some_and(|m| !apart(m)));
        let mut all = Vec::new();
        for h in std::mem::take(&mut self.held) {
            let shown = shows.get(h.at) == Some(&true);
            let Some(m) = self.meetings.get_mut(h.told.meeting).filter(|_| shown) else {
                continue;
            };
            m.different = self.w.dd.or(m.different, h.told.here);
            all.push(h.told);
        }
        all.append(&mut self.different);
        self.different = all;
    }

    fn next(&self) -> Option<usize> {
        let open = self.meetings.iter().enumerate();
        let open = open.filter(|(_, m)| m.all != m.done);
        open.min_by_key(|(i, m)| (m.stage, *i)).map(|(i, _)| i)
    }

    fn meet(&mut self, stage: StageId, place: Place, facts: Facts, set: Ref) -> usize {
        let n = self.meetings.len();
        let i = *(self.index)
            .entry((stage, place, facts.clone()))
            .or_insert(n);
        if i == n {
            self.meetings.push(Meeting {
                stage,
                place,
                facts,
                all: NO,
                done: NO,
                punted: NO,
                unknown: NO,
                different: NO,
                next: HashMap::new(),
                from: (n > 0).then_some(self.me),
            });
        }
        if let Some(m) = self.meetings.get_mut(i) {
            m.all = self.w.dd.or(m.all, set);
        }
        i
    }

    fn follow(&mut self, i: usize) {
        let Some(m) = self.meetings.get_mut(i) else {
            return;
        };
        let new = self.w.dd.minus(m.all, m.done);
        m.done = m.all;
        self.me = i;
        if self.w.facts != m.facts {
            self.rules.clear();
            self.listed.clear();
            self.cases.values_mut().for_each(Cases::forget);
        }
        self.w.facts = m.facts.clone();
        let (stage, place) = (m.stage, m.place);
        let sym = self.w.fresh_apart();
        let way = Position {
            here: new,
            at: At {
                place: Some(place),
                dropped: None,
                sym: Rc::new(sym),
            },
            counts: Vec::new(),
            slots: Slots::new(),
            nth: 0,
            stage,
            action: None,
        };
        self.stage(way, stage);
    }

    fn tell(&mut self, way: &Position, elem: ElemId, here: Ref, what: String, kind: Kind) {
        if let Some(t) = self.told(way, elem, here, what, kind) {
            self.add(t, kind);
        }
    }
    fn told(
        &mut self,
        way: &Position,
        elem: ElemId,
        here: Ref,
        what: String,
        kind: Kind,
    ) -> Option<Told> {
        self.w.may_be(here).then(|| Told {
            meeting: self.me,
            stage: way.stage,
            action: way.action,
            elem,
            what,
            here,
            plain: kind == Kind::Plain && way.nth == 0,
            contradicts: kind == Kind::Plain,
            slots: way.slots.clone(),
            unless_bound: false,
            sum: None,
        })
    }
    fn add(&mut self, t: Told, kind: Kind) {
        if let Some(m) = self.meetings.get_mut(self.me) {
            let to = match kind {
                Kind::Unknown => &mut m.unknown,
                _ => &mut m.different,
            };
            *to = self.w.dd.or(*to, t.here);
        }
        let list = match kind {
            Kind::Unknown => &mut self.unknown,
            _ => &mut self.different,
        };
        if list.len() < MAX_TOLD {
            list.push(t);
        }
    }
    fn differs(&mut self, way: &Position, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Plain);
    }
    /// The program says what no model says.
    fn exceeds(&mut self, way: &Position, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Beyond);
    }
    fn cannot(&mut self, way: &Position, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Unknown);
    }
    /// The packets are not the same there.
    fn packets(&mut self, way: &Position, elem: ElemId, here: Ref, what: &str, place: &str) {
        self.packets_by(way, elem, here, what, place, None);
    }
    fn packets_by(
        &mut self,
        way: &Position,
        elem: ElemId,
        here: Ref,
        what: &str,
        place: &str,
        sum: Option<Sum>,
    ) {
        let kind = match what == CHECKSUM {
            true => Kind::Beyond,
            false => Kind::Plain,
        };
        if let Some(t) = self.told(way, elem, here, format!("{what} differs{place}"), kind) {
            self.add(Told { sum, ..t }, kind);
        }
    }
    fn elem_of(way: &Position) -> ElemId {
        way.at.place.map_or(ElemId(0), |p| p.0)
    }

    fn successor(&self, e: ElemId, output: usize) -> Option<Place> {
        let e = self.input.elements.get(e.0 as usize)?;
        e.outputs.get(output).copied().flatten()
    }
}
