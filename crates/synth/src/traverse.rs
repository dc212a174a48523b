//! Synthesis proper: packets travel as groups of filters through the models, element by element, until every group has left,
//! been dropped, or must be classified anew.
//!
//! A stage starts with one filter (what is known there). At an element every filter of a group is intersected with every case,
//! in order; the parts that take cases with equal operations and exit stay one group. Groups that come to the same input in the
//! same state join. Order is kept by *ranks*: the choices a filter has made so far, first-match order being the lexicographic
//! order of ranks; nothing is ever subtracted (SNF's lazy subtraction, carried to its end).
//!
//! Bounds: a stage has at most [`Budget::rules`] rules, a program [`Budget::stages`] stages, a path passes an input at most
//! [`MAX_VISITS`] times, a stage is done over at most [`MAX_ROUNDS`] times while more becomes known to reach it.

use crate::cond::{self, Trouble};
use crate::input::{Budget, Input};
use crate::layout::Layout;
use crate::program::{
    Action, ActionId, Dim, End, EndAt, Entry, Expect, Expr, Filter, Mark, Next, Origin, Program,
    Rule, Slot, SlotInfo, Stage, StageId, Step, SumKind, SumTerm, Why,
};
use crate::state::{Got, Need, PathSlot, State};
use onefold_elements::ElemId;
use onefold_elements::model::{
    Bind, BindKind, Case, Cond, Exit, HeaderCheck, Model, Op, Read, Rewritten, ValueSet, field,
};
use onefold_packet::anno_field;
use std::collections::{BTreeMap, HashMap};

/// Most times that a path passes one input: cycles inside a function end here.
pub const MAX_VISITS: usize = 32;
/// Most times that a stage is made again because more can reach it than was known; then everything is taken to reach it.
pub const MAX_ROUNDS: u32 = 24;
/// Most intervals of a set in what is known of a stage.
const KNOWN_INTERVALS: usize = 256;
/// Most intervals that taking one case out of a filter may leave in a dimension.
const MAX_LEFT: usize = 32;
/// Most groups at one element in one stage.
const MAX_GROUPS: u32 = 4096;

/// A filter on its way.
#[derive(Debug, Clone)]
struct Part {
    rank: Vec<u32>,
    filter: Filter,
    origin: Vec<Origin>,
}

#[derive(Debug, Clone, Default)]
struct Group {
    parts: Vec<Part>,
    path: Vec<ElemId>,
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
    known: Option<Filter>,
    dirty: bool,
    rounds: u32,
    /// Where the stages began that led here first.
    trail: Vec<(ElemId, u16)>,
    done: Option<Stage>,
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
    notes: Vec<String>,
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
        notes: Vec::new(),
    };
    let mut entries = Vec::new();
    for source in &input.sources {
        let key = Key {
            elem: *source,
            port: 0,
            fresh: true,
            state: State::entry(),
            write: false,
        };
        let stage = s.stage(None, key, Why::Entry, &Filter::default());
        entries.push(Entry {
            source: *source,
            stage,
        });
    }
    // Bound: MAX_ROUNDS for each of at most `budget.stages` stages.
    while let Some(i) = s.next_dirty() {
        s.run(i);
    }
    let stages = s.stages.into_iter().filter_map(|w| w.done);
    let mut p = Program {
        elements: input.elements.iter().map(|e| e.name.clone()).collect(),
        entries,
        stages: stages.collect(),
        slots: s.slots,
        notes: s.notes,
    };
    p.notes.dedup();
    if cfg!(debug_assertions) {
        let report = crate::check::check(&p);
        debug_assert!(report.violations.is_empty(), "{:#?}", report.violations);
    }
    p
}

/// Position of every element in an order in which packets pass them (cycles cut where they close).
fn order(input: &Input) -> Vec<u32> {
    let n = input.elements.len();
    let mut state = vec![0u8; n];
    let mut post = Vec::with_capacity(n);
    for root in input.sources.iter().map(|s| s.0 as usize).chain(0..n) {
        if root >= n || state[root] != 0 {
            continue;
        }
        let mut stack = vec![(root, 0usize)];
        state[root] = 1;
        while let Some((e, next)) = stack.pop() {
            let outputs = &input.elements[e].outputs;
            match outputs.get(next) {
                Some(to) => {
                    stack.push((e, next + 1));
                    if let Some((t, _)) = to
                        && let Some(0) = state.get(t.0 as usize)
                    {
                        state[t.0 as usize] = 1;
                        stack.push((t.0 as usize, 0));
                    }
                }
                None => post.push(e),
            }
        }
    }
    let mut topo = vec![0; n];
    for (i, e) in post.iter().rev().enumerate() {
        topo[*e] = i as u32;
    }
    topo
}

/// What both allow at most: per dimension the union, where both have one.
fn hull(a: &Filter, b: &Filter) -> Filter {
    let mut out = Vec::new();
    for (d, s) in &a.0 {
        if let Some(o) = b.get(*d) {
            let u = if o.is_subset(s) {
                s.clone()
            } else {
                s.union(o)
            };
            let u = match u.intervals() {
                [(lo, _), .., (_, hi)] if u.intervals().len() > KNOWN_INTERVALS => {
                    ValueSet::range(*lo, *hi)
                }
                _ => u,
            };
            if !u.is_full(d.width()) {
                out.push((*d, u));
            }
        }
    }
    Filter(out)
}

/// What is known of the packets of a group, said of the epoch that begins when they are written out in this state.
fn carried(known: &Filter, s: &State) -> Filter {
    let mut f = Filter::default();
    let shift = s.start * 8;
    for (d, set) in &known.0 {
        match *d {
            Dim::Bits { bit, bits } if !s.touched(bit, bits) => {
                let d = Dim::Bits {
                    bit: bit - shift,
                    bits,
                };
                f.narrow(d, set, bits);
            }
            // a header checksum is as right or wrong as before where all that changed was followed
            Dim::Check {
                check: check @ HeaderCheck::Ip4Checksum,
                at,
                end: EndAt::Same,
            } if !s.ip_dirty && !s.overwritten(at + 10) && !s.sums.iter().any(|s| s.anew) => {
                let d = Dim::Check {
                    check,
                    at: at - s.start,
                    end: EndAt::Same,
                };
                f.narrow(d, set, 1);
            }
            _ => {}
        }
    }
    let (length, less) = match s.end {
        EndAt::Same => (Dim::Len, s.start),
        EndAt::Ip4(at) => {
            let fits = Dim::Check {
                check: HeaderCheck::Ip4Fits,
                at: at - s.start,
                end: EndAt::Same,
            };
            f.narrow(fits, &ValueSet::one(1), 1);
            let bits = (at + 2) * 8;
            (
                Dim::Bits {
                    bit: bits,
                    bits: 16,
                },
                s.start - at,
            )
        }
        EndAt::Ip6(at) => {
            let fits = Dim::Check {
                check: HeaderCheck::Ip6Fits,
                at: at - s.start,
                end: EndAt::Same,
            };
            f.narrow(fits, &ValueSet::one(1), 1);
            let bits = (at + 4) * 8;
            (
                Dim::Bits {
                    bit: bits,
                    bits: 16,
                },
                s.start - at - 40,
            )
        }
    };
    if let Some(set) = known.get(length) {
        let moved = set.intervals().iter().filter_map(|(l, h)| {
            let down = |v: &u128| i128::try_from(*v).unwrap_or(i128::MAX) - i128::from(less);
            let (l, h) = (down(l).max(0), down(h).min(i128::from(u32::MAX)));
            (l <= h).then_some((l as u128, h as u128))
        });
        f.narrow(Dim::Len, &ValueSet::from_intervals(moved), 32);
    }
    for w in &s.writes {
        if let Expr::Const(c) = w.value {
            let d = Dim::Bits {
                bit: w.bit - shift,
                bits: w.bits,
            };
            f.narrow(d, &ValueSet::one(c), w.bits);
        }
    }
    f
}

impl Synthesizer<'_> {
    fn next_dirty(&self) -> Option<usize> {
        let dirty = self.stages.iter().enumerate().filter(|(_, w)| w.dirty);
        dirty
            .min_by_key(|(i, w)| (self.topo.get(w.key.elem.0 as usize).copied(), *i))
            .map(|(i, _)| i)
    }

    /// The stage of that key; `known` can reach it.
    fn stage(&mut self, from: Option<usize>, key: Key, why: Why, known: &Filter) -> StageId {
        if let Some(id) = self.index.get(&key) {
            let w = &mut self.stages[id.0 as usize];
            let all = match &w.known {
                Some(k) => hull(k, known),
                None => known.clone(),
            };
            if w.known.as_ref() != Some(&all) {
                w.known = Some(match w.rounds {
                    MAX_ROUNDS.. => Filter::default(),
                    _ => all,
                });
                w.dirty = true;
            }
            return *id;
        }
        let id = StageId(self.stages.len() as u32);
        let mut trail = match from.and_then(|i| self.stages.get(i)) {
            Some(w) => w.trail.clone(),
            None => Vec::new(),
        };
        trail.push((key.elem, key.port));
        self.index.insert(key.clone(), id);
        self.stages.push(Work {
            key,
            why,
            known: Some(known.clone()),
            dirty: true,
            rounds: 0,
            trail,
            done: None,
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

    fn successor(&self, e: ElemId, port: usize) -> Option<(ElemId, u16)> {
        let e = self.input.elements.get(e.0 as usize)?;
        e.outputs.get(port).copied().flatten()
    }

    fn run(&mut self, i: usize) {
        let w = &mut self.stages[i];
        w.dirty = false;
        w.rounds += 1;
        let known = w.known.clone().unwrap_or_default();
        let (key, why) = (w.key.clone(), w.why);
        let here = (key.elem, key.port);
        let again = w.trail.iter().filter(|t| **t == here).count();
        let leaves = if again > MAX_VISITS || i >= self.budget.stages {
            let cause = match again > MAX_VISITS {
                true => "a loop through several functions",
                false => "too many stages",
            };
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
            let to = self.stage(Some(i), fresh, Why::Written, &carried(&known, &key.state));
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
        let stage = self.assemble(&key, why, known, leaves);
        self.stages[i].done = Some(stage);
    }

    /// Leaves to rules and actions.
    fn assemble(
        &mut self,
        key: &Key,
        why: Why,
        known: Filter,
        (mut leaves, made): (Vec<Leaf>, Vec<Action>),
    ) -> Stage {
        leaves.sort_by(|a, b| a.part.rank.cmp(&b.part.rank));
        // equal actions are one; numbered in the order of the rules
        let mut by: HashMap<(&[Step], &End), ActionId> = HashMap::new();
        let mut ids: Vec<Option<ActionId>> = vec![None; made.len()];
        let mut actions: Vec<Action> = Vec::new();
        let mut rules: Vec<Rule> = Vec::with_capacity(leaves.len());
        for l in leaves {
            let Some(a) = made.get(l.action as usize) else {
                continue;
            };
            let id = *ids[l.action as usize].get_or_insert_with(|| {
                *by.entry((&a.steps, &a.end)).or_insert_with(|| {
                    actions.push(a.clone());
                    ActionId(actions.len() as u32 - 1)
                })
            });
            // what is known of all packets need not be asked
            let mut filter = l.part.filter;
            filter.0.retain(|(d, s)| known.get(*d) != Some(s));
            rules.push(Rule {
                filter,
                action: id,
                origin: l.part.origin,
            });
        }
        Stage {
            at: (key.elem, key.port),
            why,
            fresh: key.fresh,
            known,
            rules,
            actions,
        }
    }
}

/// Of a list of alternatives of cases, those that one earlier alternative covers: no packet gets to them.
fn covered(all: &[Vec<Filter>]) -> Vec<Vec<bool>> {
    let mut before: Vec<&Filter> = Vec::new();
    let mut out = Vec::with_capacity(all.len());
    for terms in all {
        let dead: Vec<bool> = terms
            .iter()
            .map(|t| before.iter().any(|b| b.covers(t)))
            .collect();
        let live = terms.iter().zip(&dead).filter(|(_, d)| !**d);
        before.extend(live.map(|(t, _)| t));
        out.push(dead);
    }
    out
}

/// How a filter and an alternative stand to each other.
enum Meet {
    /// No packet fits both.
    Never,
    /// Every packet that fits the filter fits the alternative.
    Whole,
    /// Some do.
    Part,
}

fn meet(f: &Filter, t: &Filter) -> Meet {
    let mut whole = true;
    for (d, set) in &t.0 {
        match f.get(*d) {
            Some(have) if have.is_disjoint(set) => return Meet::Never,
            Some(have) => whole &= have.is_subset(set),
            None => whole = false,
        }
    }
    if whole { Meet::Whole } else { Meet::Part }
}

/// Takes what fits `t` out of `f` where that leaves one filter; where it does not, `f` stays, and order does it (the first
/// match counts). False when nothing is left.
fn subtract(f: &mut Filter, t: &Filter, width: impl Fn(Dim) -> u8) -> bool {
    let mut only = None;
    for (d, set) in &t.0 {
        if f.get(*d).is_some_and(|have| have.is_subset(set)) {
            continue;
        }
        if only.is_some() {
            return true;
        }
        only = Some((d, set));
    }
    let Some((d, set)) = only else { return false };
    let out = set.complement(width(*d));
    let mut narrowed = f.clone();
    if !narrowed.narrow(*d, &out, width(*d)) {
        return false;
    }
    if narrowed
        .get(*d)
        .is_none_or(|s| s.intervals().len() <= MAX_LEFT)
    {
        *f = narrowed;
    }
    true
}

/// One stage being made.
struct Traversal<'a, 'b> {
    s: &'a mut Synthesizer<'b>,
    me: usize,
    waiting: BTreeMap<(u32, u32), (ElemId, u16, State, Group)>,
    at: HashMap<(ElemId, u16, State), (u32, u32)>,
    seq: u32,
    visits: HashMap<ElemId, u32>,
    leaves: Vec<Leaf>,
    actions: Vec<Action>,
}

impl<'a, 'b> Traversal<'a, 'b> {
    fn new(s: &'a mut Synthesizer<'b>, me: usize) -> Self {
        Traversal {
            s,
            me,
            waiting: BTreeMap::new(),
            at: HashMap::new(),
            seq: 0,
            visits: HashMap::new(),
            leaves: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn run(mut self, key: &Key, known: &Filter) -> (Vec<Leaf>, Vec<Action>) {
        let first = Part {
            rank: Vec::new(),
            filter: known.clone(),
            origin: Vec::new(),
        };
        self.arrive(
            key.elem,
            key.port,
            key.state.clone(),
            Group {
                parts: vec![first],
                path: Vec::new(),
            },
        );
        // Bound: MAX_GROUPS per element.
        while let Some((_, (elem, port, state, group))) = self.waiting.pop_first() {
            self.at.remove(&(elem, port, state.clone()));
            self.element(elem, port, state, group);
        }
        (self.leaves, self.actions)
    }

    fn arrive(&mut self, elem: ElemId, port: u16, state: State, group: Group) {
        if group.parts.is_empty() {
            return;
        }
        let k = (elem, port, state);
        if let Some(place) = self.at.get(&k)
            && let Some((_, _, _, g)) = self.waiting.get_mut(place)
        {
            g.parts.extend(group.parts);
            return;
        }
        let topo = self.s.topo.get(elem.0 as usize).copied().unwrap_or(0);
        self.seq += 1;
        let place = (topo, self.seq);
        self.at.insert(k.clone(), place);
        self.waiting.insert(place, (k.0, k.1, k.2, group));
    }

    fn leave(&mut self, group: Group, steps: Vec<Step>, end: End) {
        let action = self.actions.len() as u32;
        self.actions.push(Action {
            steps,
            end,
            path: group.path,
        });
        let leaves = group.parts.into_iter().map(|part| Leaf { part, action });
        self.leaves.extend(leaves);
    }

    fn punt(&mut self, elem: ElemId, port: u16, s: &State, group: Group, cause: &str) {
        let end = End::Punt {
            elem,
            port,
            cause: cause.to_string(),
            image: s.image(true),
        };
        self.leave(group, s.steps.clone(), end);
    }

    fn known(&self, g: &Group) -> Filter {
        let mut it = g.parts.iter();
        let Some(first) = it.next() else {
            return Filter::default();
        };
        let mut f = first.filter.clone();
        for p in it {
            if f.0.is_empty() {
                break;
            }
            f = hull(&f, &p.filter);
        }
        f
    }

    /// The group goes on in another stage of this epoch.
    fn goto(&mut self, elem: ElemId, port: u16, s: &State, group: Group, why: Why) {
        let known = self.known(&group);
        let key = Key {
            elem,
            port,
            fresh: false,
            state: s.clone().at_stage(),
            write: false,
        };
        let id = self.s.stage(Some(self.me), key, why, &known);
        self.leave(group, s.steps.clone(), End::Goto(id));
    }

    /// The group is written out and goes on in a new epoch.
    fn write_out(&mut self, elem: ElemId, port: u16, s: &State, group: Group) {
        let known = carried(&self.known(&group), s);
        let key = Key {
            elem,
            port,
            fresh: true,
            state: s.written(),
            write: false,
        };
        let next = self.s.stage(Some(self.me), key, Why::Written, &known);
        let end = End::Write {
            image: s.image(true),
            next,
        };
        self.leave(group, s.steps.clone(), end);
    }

    /// Is nothing gained by a new stage here, because this one began here?
    fn just_begun(&self, elem: ElemId, port: u16, s: &State, fresh: bool) -> bool {
        let k = &self.s.stages[self.me].key;
        k.elem == elem && k.port == port && k.state == *s && (k.fresh || !fresh)
    }

    fn help(&mut self, need: Need, elem: ElemId, port: u16, s: &State, group: Group) {
        match need {
            Need::Stage if !self.just_begun(elem, port, s, false) => {
                self.goto(elem, port, s, group, Why::Dynamic)
            }
            Need::Write
                if !(self.just_begun(elem, port, s, true)
                    && s.writes.is_empty()
                    && s.sums.is_empty()) =>
            {
                self.write_out(elem, port, s, group)
            }
            Need::Punt(cause) => self.punt(elem, port, s, group, cause),
            _ => self.punt(elem, port, s, group, "cannot be expressed"),
        }
    }

    fn element(&mut self, elem: ElemId, port: u16, s: State, mut group: Group) {
        let v = self.visits.entry(elem).or_default();
        *v += 1;
        let again = *v;
        let again_on_path = group.path.iter().filter(|e| **e == elem).count();
        if again > MAX_GROUPS || again_on_path >= MAX_VISITS {
            return self.punt(elem, port, &s, group, "too many rounds of a cycle");
        }
        group.parts.sort_by(|a, b| a.rank.cmp(&b.rank));
        let input = self.s.input;
        let Some(info) = input.elements.get(elem.0 as usize) else {
            return self.punt(elem, port, &s, group, "no such element");
        };
        if info.input_is_pull.get(usize::from(port)) == Some(&true) {
            return self.punt(elem, port, &s, group, "packets are pulled here");
        }
        let cases = match info.models.get(usize::from(port)) {
            Some(Model::Cases(c)) => c,
            Some(Model::None(cause)) => return self.punt(elem, port, &s, group, cause),
            None => return self.punt(elem, port, &s, group, "no model of this input"),
        };
        if let [
            Case {
                when: Cond::Always, ..
            },
        ] = &cases[..]
        {
            group.path.push(elem);
            return self.take(elem, port, &s, group, &cases[0]);
        }
        let hint = self.hint(&group);
        // conditions, once for all parts
        let mut all = Vec::with_capacity(cases.len());
        for c in cases {
            match cond::terms(&c.when, &s, hint, self.s.budget.terms) {
                Ok(t) => all.push(t),
                Err(Trouble::Need(n)) => {
                    // a need of a later case concerns only packets that no earlier case takes
                    if !self.can_reach(&group, &all) {
                        break;
                    }
                    return self.help(n, elem, port, &s, group);
                }
                Err(Trouble::TooBig) => {
                    return self.punt(
                        elem,
                        port,
                        &s,
                        group,
                        "the condition has too many alternatives",
                    );
                }
            }
        }
        let total: usize = all.iter().map(Vec::len).sum();
        if group.parts.len() > 1
            && group.parts.len().saturating_mul(total) > self.s.budget.rules.saturating_mul(64)
            && !self.just_begun(elem, port, &s, false)
        {
            let text = format!(
                "{}: the rules so far times its cases exceed the budget; a new stage begins there",
                self.s.name(elem)
            );
            self.s.note(text);
            return self.goto(elem, port, &s, group, Why::Budget);
        }
        // parts by case; cases with equal operations and exit share a group
        let mut same: HashMap<(&[Op], &Exit), usize> = HashMap::new();
        let class_of: Vec<usize> = cases
            .iter()
            .enumerate()
            .map(|(i, c)| *same.entry((&c.ops, &c.exit)).or_insert(i))
            .collect();
        let dead = covered(&all);
        let mut out: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
        let mut made = 0usize;
        let waiting: usize = self.waiting.values().map(|w| w.3.parts.len()).sum();
        let room = self
            .s
            .budget
            .rules
            .saturating_sub(waiting + self.leaves.len());
        for p in &group.parts {
            let mut rest = p.filter.clone();
            'cases: for (i, alternatives) in all.iter().enumerate() {
                for (t, dead) in alternatives.iter().zip(&dead[i]) {
                    if *dead {
                        continue;
                    }
                    let width = |d| cond::width(&s, d);
                    let (filter, left) = match meet(&rest, t) {
                        Meet::Never => continue,
                        Meet::Whole => (rest.clone(), false),
                        Meet::Part => {
                            let mut filter = rest.clone();
                            for (d, set) in &t.0 {
                                filter.narrow(*d, set, width(*d));
                            }
                            (filter, subtract(&mut rest, t, width))
                        }
                    };
                    let mut rank = p.rank.clone();
                    rank.push(i as u32);
                    let mut origin = p.origin.clone();
                    if let Some(arg) = cases[i].origin {
                        origin.push(Origin {
                            elem,
                            arg: Some(arg as u32),
                        });
                    }
                    let part = Part {
                        rank,
                        filter,
                        origin,
                    };
                    out.entry(class_of[i]).or_default().push(part);
                    made += 1;
                    if !left {
                        // nothing of it is left for later cases
                        break 'cases;
                    }
                }
            }
            if made > room {
                break;
            }
        }
        if made > room {
            if self.just_begun(elem, port, &s, false) {
                let text = format!(
                    "{}: more cases than the budget of rules allows",
                    self.s.name(elem)
                );
                self.s.note(text);
                return self.punt(
                    elem,
                    port,
                    &s,
                    group,
                    "more cases than the budget of rules allows",
                );
            }
            let text = format!(
                "{}: the budget of rules is exceeded; a new stage begins there",
                self.s.name(elem)
            );
            self.s.note(text);
            return self.goto(elem, port, &s, group, Why::Budget);
        }
        group.path.push(elem);
        for (i, parts) in out {
            let g = Group {
                parts,
                path: group.path.clone(),
            };
            self.take(elem, port, &s, g, &cases[i]);
        }
    }

    /// Does anything of the group get past these cases?
    fn can_reach(&self, group: &Group, earlier: &[Vec<Filter>]) -> bool {
        group
            .parts
            .iter()
            .any(|p| !earlier.iter().flatten().any(|t| t.covers(&p.filter)))
    }

    fn hint(&self, group: &Group) -> Layout {
        let mut it = group.parts.iter().map(|p| Layout::of_frame(&p.filter));
        match it.next() {
            Some(l) if it.all(|o| o == l) => l,
            _ => Layout::Unknown,
        }
    }

    /// The IP protocol, if the group has but one.
    fn proto(&self, s: &State, group: &Group) -> Option<u128> {
        match s.read(Read::Field(field::IP_PROTO)).ok()? {
            Got::Expr(Expr::Const(c)) => Some(c),
            Got::Expr(Expr::Of(d, 0)) => {
                let mut all = group
                    .parts
                    .iter()
                    .map(|p| p.filter.get(d).and_then(ValueSet::single));
                let first = all.next()??;
                all.all(|v| v == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    /// A group takes a case.
    fn take(&mut self, elem: ElemId, port: u16, before: &State, mut group: Group, case: &Case) {
        let mut s = before.clone();
        let wants_proto = case.ops.iter().any(|o| {
            matches!(o, Op::Write { fix, .. } if matches!(fix, onefold_elements::model::Fix::Transport | onefold_elements::model::Fix::Both))
        });
        let proto = if wants_proto {
            match self.proto(before, &group) {
                Some(p) => Some(p),
                None => return self.by_protocol(elem, port, before, group, case),
            }
        } else {
            None
        };
        for op in &case.ops {
            if let Op::Count(tag) = op {
                s.steps.push(Step::Count {
                    elem,
                    tag: *tag,
                    len: s.len_at(),
                });
                continue;
            }
            if let Err(need) = s.apply(op, before, proto) {
                group.path.pop();
                return self.help(need, elem, port, before, group);
            }
        }
        match &case.exit {
            Exit::Port(p) => self.go(elem, *p, s, group, "unconnected output"),
            Exit::PortOrDrop(p, reason) => self.go(elem, *p, s, group, reason),
            Exit::Drop(reason) => self.drop(elem, s, group, reason),
            Exit::Transmit => {
                let end = End::Output {
                    sink: elem,
                    image: s.image(false),
                };
                self.leave(group, s.steps, end);
            }
            Exit::Punt(cause) => {
                group.path.pop();
                self.punt(elem, port, before, group, cause);
            }
            Exit::Each(ports) => self.fork(elem, ports, s, group),
            Exit::Ask(cause) => self.ask(elem, port, s, group, cause),
            Exit::Bind(b) => self.bind(elem, port, before, s, group, b, case),
        }
    }

    /// Takes a case protocol by protocol: checksums lie at different places.
    fn by_protocol(&mut self, elem: ElemId, port: u16, s: &State, mut group: Group, case: &Case) {
        let d = match s.read(Read::Field(field::IP_PROTO)) {
            Ok(Got::Expr(Expr::Of(d, 0))) => d,
            _ => {
                group.path.pop();
                return self.punt(elem, port, s, group, "checksum of an unknown protocol");
            }
        };
        for v in [6u128, 17] {
            let parts = group.parts.iter().filter_map(|p| {
                Some(Part {
                    filter: p.filter.and(d, &ValueSet::one(v), 8)?,
                    ..p.clone()
                })
            });
            let g = Group {
                parts: parts.collect(),
                path: group.path.clone(),
            };
            if !g.parts.is_empty() {
                self.take(elem, port, s, g, case);
            }
        }
        let other = ValueSet::from_intervals([(6, 6), (17, 17)]).complement(8);
        let mut rest = Vec::new();
        for p in group.parts {
            if let Some(filter) = p.filter.and(d, &other, 8) {
                rest.push(Part { filter, ..p });
            }
        }
        group.path.pop();
        if !rest.is_empty() {
            let g = Group {
                parts: rest,
                path: group.path,
            };
            self.punt(
                elem,
                port,
                s,
                g,
                "checksum of a protocol other than TCP and UDP",
            );
        }
    }

    fn drop(&mut self, elem: ElemId, s: State, group: Group, reason: &str) {
        let end = End::Drop {
            elem,
            reason: reason.to_string(),
        };
        self.leave(group, s.steps, end);
    }

    fn go(&mut self, elem: ElemId, output: usize, s: State, group: Group, reason: &str) {
        match self.s.successor(elem, output) {
            Some((e, p)) => self.arrive(e, p, s, group),
            None => self.drop(elem, s, group, reason),
        }
    }

    fn fork(&mut self, elem: ElemId, ports: &[usize], s: State, group: Group) {
        match ports {
            [] => return self.drop(elem, s, group, "no output"),
            [one] => return self.go(elem, *one, s, group, "unconnected output"),
            _ => {}
        }
        let known = self.known(&group);
        let next = ports.iter().map(|p| match self.s.successor(elem, *p) {
            None => Next::Unconnected(elem),
            Some((e, port)) => {
                let key = Key {
                    elem: e,
                    port,
                    fresh: false,
                    state: s.clone().at_stage(),
                    write: false,
                };
                Next::Stage(self.s.stage(Some(self.me), key, Why::Copy, &known))
            }
        });
        let next = next.collect();
        self.leave(group, s.steps, End::Fork(next));
    }

    fn ask(&mut self, elem: ElemId, port: u16, s: State, group: Group, cause: &str) {
        let known = carried(&self.known(&group), &s);
        let n = self
            .s
            .input
            .elements
            .get(elem.0 as usize)
            .map_or(0, |e| e.outputs.len());
        let outputs = (0..n).map(|q| match self.s.successor(elem, q) {
            None => Next::Unconnected(elem),
            Some((e, p)) => {
                let key = Key {
                    elem: e,
                    port: p,
                    fresh: true,
                    state: s.written(),
                    write: false,
                };
                Next::Stage(self.s.stage(Some(self.me), key, Why::Asked, &known))
            }
        });
        let outputs = outputs.collect();
        let end = End::Ask {
            elem,
            port,
            cause: cause.to_string(),
            image: s.image(true),
            outputs,
        };
        self.leave(group, s.steps, end);
    }

    fn slot(&mut self, elem: ElemId, port: u16, nth: u16, what: u8, bits: u8) -> Slot {
        let slots = &mut self.s.slots;
        *self
            .s
            .slot_index
            .entry((elem, port, nth, what))
            .or_insert_with(|| {
                slots.push(SlotInfo {
                    bits,
                    set: ValueSet::full(bits),
                });
                Slot(slots.len() as u16 - 1)
            })
    }

    /// Where forward packets of flows that begin at any input of a rewriter are expected to leave.
    fn forward_outputs(&self, elem: ElemId) -> Vec<usize> {
        let models = self
            .s
            .input
            .elements
            .get(elem.0 as usize)
            .map(|e| &e.models[..]);
        let mut out: Vec<usize> = Vec::new();
        for m in models.unwrap_or(&[]) {
            let Model::Cases(cases) = m else { continue };
            out.extend(cases.iter().filter_map(|c| match &c.exit {
                Exit::Bind(b) => b.expected.as_ref().map(|e| e.output),
                _ => None,
            }));
        }
        out
    }

    #[allow(clippy::too_many_arguments)]
    fn bind(
        &mut self,
        elem: ElemId,
        port: u16,
        before: &State,
        s: State,
        mut group: Group,
        b: &Bind,
        case: &Case,
    ) {
        let Some(proto) = self.proto(&s, &group) else {
            return match b.kind {
                BindKind::Ping => {
                    group.path.pop();
                    self.punt(elem, port, before, group, "a ping of unknown protocol")
                }
                _ => self.by_protocol(elem, port, before, group, case),
            };
        };
        if let Err(n) = self.try_bind(elem, port, &s, &mut group, b, proto) {
            group.path.pop();
            self.help(n, elem, port, before, group);
        }
    }

    fn try_bind(
        &mut self,
        elem: ElemId,
        port: u16,
        s: &State,
        group: &mut Group,
        b: &Bind,
        proto: u128,
    ) -> Result<(), Need> {
        if self.s.slots.len() + 6 > usize::from(u16::MAX) {
            return Err(Need::Punt("too many slots"));
        }
        let (net, transport) = (s.net_at()?, s.transport_at()?);
        if !matches!(s.net, Mark::At(_, 20)) {
            return Err(Need::Punt("a binding of another network protocol"));
        }
        let places = [
            (net + 12, 32u8),
            (net + 16, 32),
            (transport, 16),
            (transport + 2, 16),
        ];
        let places = match b.kind {
            BindKind::Ping => [
                places[0],
                places[1],
                (transport + 4, 16),
                (transport + 4, 0),
            ],
            _ => places,
        };
        let used = match b.kind {
            BindKind::Flow => 4,
            BindKind::Addresses => 2,
            BindKind::Ping => 3,
        };
        let now: Vec<Expr> = places
            .iter()
            .take(used)
            .map(|(at, bits)| s.bits_now(at * 8, *bits))
            .collect::<Result<_, _>>()?;
        let nth = s.slots.len() as u16;
        let widths = [32u8, 32, 16, 16, 16, 16];
        let slots: Vec<Slot> = widths
            .iter()
            .enumerate()
            .map(|(i, w)| self.slot(elem, port, nth, i as u8, *w))
            .collect();
        let first = slots[0];
        // six in a row, or an earlier path has made some of them: then they were made together
        debug_assert!(
            slots
                .iter()
                .enumerate()
                .all(|(i, s)| s.0 == first.0 + i as u16)
        );
        let sum = match b.kind {
            BindKind::Ping => Some((SumKind::Icmp, transport + 2)),
            _ => s.transport_sum(proto)?,
        };
        // a state in which the binding's values are in the slots; `fixed` says what they may be
        let bound = |fixed: Option<&[Rewritten; 4]>| -> Result<State, Need> {
            let mut t = s.clone();
            for (i, w) in widths.iter().enumerate() {
                let set = match fixed.and_then(|f| f.get(i)) {
                    Some(Rewritten::To(set)) => set.clone(),
                    _ => ValueSet::full(*w),
                };
                t.slots.push(PathSlot {
                    slot: slots[i],
                    bits: *w,
                    set,
                    readable: false,
                });
            }
            let mut dst = now[1];
            for i in 0..used {
                let value = match fixed.map(|f| &f[i]) {
                    Some(Rewritten::Kept) => continue,
                    Some(Rewritten::To(set)) => match set.single() {
                        Some(v) => Expr::Const(v),
                        None => Expr::Of(Dim::Slot(slots[i]), 0),
                    },
                    None => Expr::Of(Dim::Slot(slots[i]), 0),
                };
                if i == 1 {
                    dst = value;
                }
                t.put(places[i].0 * 8, places[i].1, value)?;
            }
            t.add_sum(SumKind::Ip4, net, net + 10, vec![SumTerm::Slot(slots[4])])?;
            if let Some((kind, at)) = sum {
                t.add_sum(kind, net, at, vec![SumTerm::Slot(slots[5])])?;
            }
            if b.dst_anno {
                let k = anno_field::DST_IP.into();
                t.annos.retain(|(o, _)| *o != k);
                t.annos.push((k, dst));
                t.annos.sort_unstable_by_key(|(k, _)| *k);
            }
            Ok(t)
        };
        let expected = match &b.expected {
            None => None,
            Some(e) => {
                let fixed = [
                    e.saddr.clone(),
                    e.daddr.clone(),
                    e.sport.clone(),
                    e.dport.clone(),
                ];
                Some((e.output, bound(Some(&fixed))?, fixed))
            }
        };
        let free = bound(None)?;
        let known = self.known(group);
        let n = self
            .s
            .input
            .elements
            .get(elem.0 as usize)
            .map_or(0, |e| e.outputs.len());
        // Unexpected outcomes of a binding that has an expected one are written out, and so are packets that leave where
        // forward packets of other inputs do: the stages behind are then the same whatever happened before, and their
        // number grows with the square of the chain's length, not exponentially (1, 2, 4, 10 NAPTs: 16, 44, 132, 684).
        let forward = self.forward_outputs(elem);
        let some_expected = expected.is_some();
        let write = |q: usize| some_expected || forward.contains(&q);
        let mut to = |state: &State, q: usize| match self.s.successor(elem, q) {
            None => Next::Unconnected(elem),
            Some((e, p)) => {
                let key = Key {
                    elem: e,
                    port: p,
                    fresh: false,
                    state: state.clone().at_stage(),
                    write: write(q),
                };
                Next::Stage(self.s.stage(Some(self.me), key, Why::Bound, &known))
            }
        };
        let outputs: Vec<Next> = (0..n).map(|q| to(&free, q)).collect();
        // only an input that lets packets through has somewhere to pass them to
        let pass: Vec<Next> = match b.pass {
            Some(o) => (0..n)
                .map(|q| {
                    if q == o {
                        to(s, q)
                    } else {
                        Next::Unconnected(elem)
                    }
                })
                .collect(),
            None => Vec::new(),
        };
        let expect = expected.as_ref().map(|(output, _, fixed)| {
            let set = |i: usize| match &fixed[i] {
                Rewritten::Kept => ValueSet::full(widths[i]),
                Rewritten::To(set) => set.clone(),
            };
            Expect {
                output: *output as u16,
                kept: [0, 1, 2, 3].map(|i| matches!(fixed[i], Rewritten::Kept)),
                sets: [set(0), set(1), set(2), set(3)],
            }
        });
        let step = Step::Bind {
            elem,
            port,
            kind: b.kind,
            image: s.image(true),
            first,
            expect,
            bound: outputs,
            pass,
        };
        let group = std::mem::take(group);
        match expected {
            Some((output, mut state, _)) => {
                state.steps.push(step);
                self.go(elem, output, state, group, "unconnected output");
            }
            None => {
                let mut steps = s.steps.clone();
                steps.push(step);
                self.leave(group, steps, End::Unreachable);
            }
        }
        Ok(())
    }
}
