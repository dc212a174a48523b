//! The fixed point: stages, their arrivals, and flows that rewriters may know.

use super::apply::after;
use super::bind::{Answer, Flows, Question, fields_of, flow_of};
use super::facts::Facts;
use super::{Arrived, From, meet};
use crate::cubes::{Left, PER_STEP, either, left, tightened};
use crate::generate::index::Index;
use crate::stop::Stop;
use onefold_element::ElemId;
use onefold_element::model::BindKind;
use onefold_synth::program::{Action, Dim, End, Expect, Filter, Image, Next, Program, Step};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::OnceLock;

/// Cubes that are kept apart at a stage, in programs of few stages.
const MAX_CUBES: usize = 48;
/// The same where there are many.
const FEW_CUBES: usize = 6;
/// More stages than this are many.
const MANY_STAGES: usize = 200;
/// From so many arrivals at a stage on, what differs becomes anything.
const MAX_ARRIVALS: usize = 400;
/// Intervals of a dimension where cubes are joined.
const MAX_INTERVALS: usize = 64;
/// Parts that a rule's packets are kept in, behind the rules before it.
const MAX_PARTS: usize = 6;
/// Steps of the search for them.
const SEARCH_STEPS: usize = 1500;
/// Earlier rules looked at for them, in all; behind it, a rule's packets are all that fit its filter.
const MAX_LOOKS: usize = 10_000_000;
/// Stages looked at, in all; behind it, everything can come everywhere.
const MAX_VISITS: usize = 200_000;
/// Reasons remembered for a stage.
const MAX_REASONS: usize = 4;

/// A stage's arrivals; each has a number of its own.
#[derive(Default, Clone)]
struct At {
    list: Vec<(u64, Arrived)>,
    arrivals: usize,
}

struct Forward<'a> {
    p: &'a Program,
    /// Others than the program's packets may begin flows there.
    loose: BTreeSet<ElemId>,
    at: Vec<At>,
    flows: Flows,
    blocked: Vec<Vec<String>>,
    queue: VecDeque<usize>,
    queued: Vec<bool>,
    /// Of an arrival and a rule: what of it the rule takes.
    taken: HashMap<(u64, u32), Vec<Filter>>,
    /// Of each stage's rules.
    indices: Vec<OnceLock<Index>>,
    /// Earlier rules that may still be looked at.
    looks: usize,
    stop: Stop,
    next: u64,
    limit: usize,
    ways: BTreeSet<(usize, usize, bool, usize)>,
    /// Stages that ask a rewriter.
    asking: HashMap<ElemId, Vec<usize>>,
    /// What is expected at inputs of rewriters, and how flows are found there; nothing where none begin.
    begins: HashMap<(ElemId, u16), (BindKind, Option<&'a Expect>)>,
}

/// What was found.
pub(super) struct Found {
    /// By stage: what arrives.
    pub arrived: Vec<Vec<Arrived>>,
    /// By stage: why ways to it are none.
    pub blocked: Vec<Vec<String>>,
    /// Ways that packets take: stage, rule, by another binding than the expected, next stage.
    pub ways: BTreeSet<(usize, usize, bool, usize)>,
    /// Flows that may begin; none are told when the bound on work was reached.
    pub flows: Flows,
    /// Of each stage's rules; made when first asked for.
    pub indices: Vec<OnceLock<Index>>,
    /// Rewriters at which others than the program's packets may begin flows.
    pub loose: BTreeSet<ElemId>,
    /// The bound on work was not reached.
    pub whole: bool,
}

/// The analysis. Stopped, it knows as little as when the bound on work is reached.
pub(super) fn run(p: &Program, facts: &Facts, stop: Stop) -> Found {
    let n = p.stages.len();
    let mut asking: HashMap<ElemId, Vec<usize>> = HashMap::new();
    let mut begins: HashMap<(ElemId, u16), (BindKind, Option<&Expect>)> = HashMap::new();
    for (i, s) in p.stages.iter().enumerate() {
        for step in s.actions.iter().flat_map(|a| &a.steps) {
            if let Step::Bind {
                elem,
                port,
                kind,
                expect,
                ..
            } = step
            {
                let b = begins.entry((*elem, *port)).or_insert((*kind, None));
                b.1 = b.1.or(expect.as_ref());
                let l = asking.entry(*elem).or_default();
                if l.last() != Some(&i) {
                    l.push(i);
                }
            }
        }
    }
    let mut f = Forward {
        p,
        loose: facts.loose.clone(),
        at: vec![At::default(); n],
        flows: Flows::default(),
        blocked: vec![Vec::new(); n],
        queue: VecDeque::new(),
        queued: vec![false; n],
        taken: HashMap::new(),
        indices: vec![OnceLock::new(); n],
        looks: MAX_LOOKS,
        stop,
        next: 0,
        limit: if n > MANY_STAGES {
            FEW_CUBES
        } else {
            MAX_CUBES
        },
        ways: BTreeSet::new(),
        asking,
        begins,
    };
    for e in &p.entries {
        f.arrive(e.stage.0 as usize, Arrived::entering());
    }
    let mut visits = 0;
    // Bound: each time that the queue is filled again there is one more rewriter of which nothing is known.
    while let Some(s) = f.queue.pop_front().or_else(|| f.unknown(facts)) {
        f.queued[s] = false;
        visits += 1;
        if visits > MAX_VISITS || f.stop.asked() {
            let anything = Arrived {
                zero: false,
                ..Arrived::entering()
            };
            return Found {
                arrived: vec![vec![anything]; n],
                blocked: vec![Vec::new(); n],
                ways: f.ways,
                flows: Flows::default(),
                indices: f.indices,
                loose: f.loose,
                whole: false,
            };
        }
        f.stage(s);
        if f.stop.asked() {
            // it was not looked through
            f.queue.push_back(s);
        }
    }
    let at = f.at.into_iter();
    let lists = at.map(|a| a.list.into_iter().map(|(_, a)| a).collect());
    Found {
        arrived: lists.collect(),
        blocked: f.blocked,
        ways: f.ways,
        flows: f.flows,
        indices: f.indices,
        loose: f.loose,
        whole: true,
    }
}

impl Forward<'_> {
    /// The fixed point is reached: a rewriter of which the program says that flows begin at some input, where none of
    /// its packets begins any, while packets that the reference graph has taken over can come there. These are all
    /// that is there: nothing says what they are like, so that anything is possible. Gives the first of the stages
    /// that are to be looked at again.
    fn unknown(&mut self, facts: &Facts) -> Option<usize> {
        let p = self.p;
        for step in (p.stages.iter().flat_map(|s| &s.actions)).flat_map(|a| &a.steps) {
            let Step::Bind { elem, sides, .. } = step else {
                continue;
            };
            if self.loose.contains(elem) || !facts.punted.contains(elem) {
                continue;
            }
            let origins = sides.iter().flatten().map(|s| s.origin);
            let begins = |o: u16| self.flows.0.contains_key(&(*elem, o));
            if !origins.into_iter().all(begins) {
                self.loosen(*elem);
            }
        }
        self.queue.pop_front()
    }

    /// From now on anything is possible at a rewriter.
    fn loosen(&mut self, elem: ElemId) {
        if self.loose.insert(elem) {
            for s in self.asking.get(&elem).cloned().unwrap_or_default() {
                self.enqueue(s);
            }
        }
    }

    /// Packets that the reference graph takes over at a rewriter itself may begin flows there.
    fn punted(&mut self, elem: ElemId, port: u16, image: &Image, a: &Arrived) {
        match self.begins.get(&(elem, port)).copied() {
            Some((kind, Some(expect))) => {
                let flow = flow_of(self.p, a, &fields_of(image, kind));
                if self.flows.add((elem, port), kind, expect, flow) {
                    for s in self.asking.get(&elem).cloned().unwrap_or_default() {
                        self.enqueue(s);
                    }
                }
            }
            // none begin there
            Some((_, None)) => {}
            None if self.asking.contains_key(&elem) => self.loosen(elem),
            None => {}
        }
    }

    fn enqueue(&mut self, stage: usize) {
        if let Some(q @ false) = self.queued.get_mut(stage) {
            *q = true;
            self.queue.push_back(stage);
        }
    }

    /// Packets come to a stage.
    fn arrive(&mut self, stage: usize, a: Arrived) {
        let Some(cube) = tightened(&a.cube, a.tight) else {
            return;
        };
        let mut a = Arrived { cube, ..a };
        if let Some(f) = a.from {
            self.ways.insert((f.stage, f.rule, f.bound, stage));
        }
        let Some(at) = self.at.get_mut(stage) else {
            return;
        };
        if at.list.iter().any(|(_, o)| o.covers(&a)) {
            return;
        }
        at.arrivals += 1;
        let widen = at.arrivals > MAX_ARRIVALS;
        at.list.retain(|(_, o)| !a.covers(o));
        if at.list.len() >= self.limit || widen {
            // joined with the one that it has most in common with
            let differs = |o: &Arrived| {
                let same = (a.cube.0.iter())
                    .filter(|(d, s)| o.cube.get(*d) == Some(s))
                    .count();
                a.cube.0.len() + o.cube.0.len() - 2 * same
            };
            let near = (at.list.iter().enumerate()).min_by_key(|(_, (_, o))| differs(o));
            if let Some((i, _)) = near {
                let (_, o) = at.list.swap_remove(i);
                let mut cube = either(self.p, &a.cube, &o.cube, MAX_INTERVALS);
                if widen {
                    cube.0.retain(|(d, s)| o.cube.get(*d) == Some(s));
                }
                let mut set = [a.set, o.set].concat();
                set.sort_unstable();
                set.dedup();
                a = Arrived {
                    cube,
                    tight: a.tight.filter(|t| o.tight == Some(*t)),
                    zero: a.zero && o.zero,
                    set,
                    from: o.from,
                };
                at.list.retain(|(_, o)| !a.covers(o));
            }
        }
        at.list.push((self.next, a));
        self.next += 1;
        self.enqueue(stage);
    }

    fn stage(&mut self, s: usize) {
        let p = self.p;
        let Some(stage) = p.stages.get(s) else { return };
        let arrivals = self.at[s].list.clone();
        for (i, rule) in stage.rules.iter().enumerate() {
            let Some(action) = stage.actions.get(rule.action.0 as usize) else {
                continue;
            };
            if self.stop.asked() {
                return;
            }
            if !self.goes_on(action) {
                continue;
            }
            for (id, a) in &arrivals {
                let key = (*id, i as u32);
                if !self.taken.contains_key(&key) {
                    let parts = self.parts(s, i, a);
                    self.taken.insert(key, parts);
                }
                let parts = self.taken.get(&key).cloned().unwrap_or_default();
                for cube in parts {
                    let part = Arrived { cube, ..a.clone() };
                    self.act(s, i, action, part);
                }
            }
        }
    }

    /// What of an arrival a rule takes.
    fn parts(&mut self, s: usize, rule: usize, a: &Arrived) -> Vec<Filter> {
        let Some(stage) = self.p.stages.get(s) else {
            return Vec::new();
        };
        let Some(r) = stage.rules.get(rule) else {
            return Vec::new();
        };
        let Some(cube) = meet(self.p, a, &r.filter).and_then(|c| tightened(&c, a.tight)) else {
            return Vec::new();
        };
        let index = match self.indices.get(s) {
            Some(i) if self.looks > 0 => i,
            _ => return vec![cube],
        };
        let index = index.get_or_init(|| Index::new(stage.rules.iter().map(|r| &r.filter)));
        let mut earlier: Vec<&Filter> = Vec::new();
        index.overlapping(&cube, rule, &mut |i| {
            let e = stage.rules.get(i).map(|e| &e.filter);
            earlier.extend(e.filter(|e| !e.is_disjoint(&cube)));
        });
        let mut parts: Vec<Filter> = Vec::new();
        let mut steps = SEARCH_STEPS;
        let found = left(self.p, &cube, a.tight, &earlier, &mut steps, &mut |part| {
            parts.push(part.clone());
            parts.len() > MAX_PARTS
        });
        let looked = 1 + earlier.len() + (SEARCH_STEPS - steps) * PER_STEP;
        self.looks = self.looks.saturating_sub(looked);
        match found {
            Left::Nothing => parts,
            _ => vec![cube],
        }
    }

    fn act(&mut self, s: usize, rule: usize, action: &Action, mut a: Arrived) {
        let p = self.p;
        let from = |bound: bool| {
            Some(From {
                stage: s,
                rule,
                bound,
            })
        };
        for step in &action.steps {
            let Step::Bind {
                elem,
                port,
                kind,
                image,
                first,
                anno,
                expect,
                bound,
                sides,
                pass,
            } = step
            else {
                continue;
            };
            a.from = from(false);
            for n in pass {
                if let Next::Stage(to) = n {
                    self.arrive(to.0 as usize, a.clone());
                }
            }
            let question = Question {
                at: (*elem, *port),
                kind: *kind,
                image,
                first: *first,
                expect: expect.as_ref(),
                loose: self.loose.contains(elem),
                sides: sides.as_deref(),
            };
            let answers = question.answers(p, &mut self.flows, &a);
            if answers.news {
                for s in self.asking.get(elem).cloned().unwrap_or_default() {
                    self.enqueue(s);
                }
            }
            for (i, n) in bound.iter().enumerate() {
                let Next::Stage(to) = n else { continue };
                let to = to.0 as usize;
                let mut any = false;
                for Answer { packets, outputs } in &answers.bound {
                    if (outputs.as_ref()).is_none_or(|o| o.contains(&(i as u16))) {
                        any = true;
                        let mut packets = packets.clone();
                        packets.from = from(true);
                        if let Some((_, s)) = anno {
                            // whatever the annotation is
                            packets.cube.0.retain(|(d, _)| *d != Dim::Slot(*s));
                        }
                        self.arrive(to, packets);
                    }
                }
                if !any && let Some(l) = self.blocked.get_mut(to) {
                    let name = p.elements.get(elem.0 as usize).map_or("", |n| n);
                    let elsewhere = format!("none leaves at output {i}");
                    let why_not = match answers.bound.is_empty() {
                        true => &answers.why_not[..],
                        false => std::slice::from_ref(&elsewhere),
                    };
                    for why in why_not {
                        let text = format!("no other binding of {name} than the expected: {why}");
                        if l.len() < MAX_REASONS && !l.contains(&text) {
                            l.push(text);
                        }
                    }
                }
            }
            match answers.expected {
                Some(on) => a = on,
                None => return,
            }
        }
        a.from = from(false);
        let go = |f: &mut Self, list: &[Next], a: &Arrived| {
            for n in list {
                if let Next::Stage(to) = n {
                    f.arrive(to.0 as usize, a.clone());
                }
            }
        };
        match &action.end {
            End::Goto(to) => go(self, &[Next::Stage(*to)], &a),
            End::Fork(ways) => go(self, ways, &a),
            End::Write { image, next } => {
                let Some(cube) = tightened(&a.cube, a.tight) else {
                    return;
                };
                let b = after(p, &Arrived { cube, ..a }, image);
                go(self, &[Next::Stage(*next)], &b);
            }
            End::Ask { image, outputs, .. } => {
                let Some(cube) = tightened(&a.cube, a.tight) else {
                    return;
                };
                let b = after(p, &Arrived { cube, ..a }, image);
                go(self, outputs, &b);
            }
            End::Punt {
                elem, port, image, ..
            } => {
                if let Some(cube) = tightened(&a.cube, a.tight) {
                    self.punted(*elem, *port, image, &Arrived { cube, ..a });
                }
            }
            _ => {}
        }
    }

    /// Does anything come of it?
    fn goes_on(&self, a: &Action) -> bool {
        let binds = a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
        let ends = match &a.end {
            End::Goto(_) | End::Fork(_) | End::Write { .. } | End::Ask { .. } => true,
            End::Punt { elem, .. } => self.asking.contains_key(elem),
            _ => false,
        };
        binds || ends
    }
}
