//! Packets that need others before them: an answer needs a flow that has gone forward, perhaps through several rewriters.
//!
//! The planner remembers flows that it has seen begin. For a goal it takes a path and looks for flows that fit where the path
//! needs another binding than the expected; if there are none, it makes the first packet of one, and the goal waits.

use super::paths::{Answer, Passed, Path, Paths, Site, narrow};
use super::read::Seen;
use super::solve::{Maker, place};
use crate::cubes::{left, tightened, values, width};
use crate::frame::{self, Keep};
use crate::reach::Reach;
use crate::reach::bind::{BITS, Fields, fields_of};
use crate::rng::Rng;
use onefold_elements::ElemId;
use onefold_elements::model::{BindKind, ValueSet, max_of};
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, Expr, Filter, Program, Slot, Step, Why};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Flows remembered for a rewriter.
const MAX_FLOWS: usize = 384;
/// After this time flows may be forgotten by their rewriter.
const FRESH: Timestamp = Timestamp::from_secs(50);
/// Paths tried for a goal.
const PATHS: usize = 24;
/// Ways to answer a path's rewriters with flows that are tried.
const CHOICES: usize = 6;
/// Sites tried for a flow.
const SITES: usize = 6;
/// Flows that need flows that need flows ...
const DEPTH: usize = 4;
/// Steps of a search.
const SEARCH_STEPS: usize = 1500;
/// Frames made in one search.
const MAX_FRAMES: usize = 12;

/// A flow that has begun.
#[derive(Debug, Clone)]
struct Flow {
    port: u16,
    /// Addresses and ports before and after.
    old: [u128; 4],
    new: [u128; 4],
    proto: u128,
    at: Timestamp,
}

/// A flow that is wanted.
#[derive(Debug, Clone)]
struct Need {
    elem: ElemId,
    kind: BindKind,
    old: [ValueSet; 4],
    new: [ValueSet; 4],
    proto: ValueSet,
}

/// A frame.
pub struct Shot {
    /// Its entry.
    pub source: ElemId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Only the first packet of a flow that the goal needs.
    pub before: bool,
}

/// The planner.
pub struct Planner {
    program: Arc<Program>,
    paths: Paths,
    sites: HashMap<ElemId, Vec<Site>>,
    flows: HashMap<ElemId, VecDeque<Flow>>,
    maker: Maker,
    /// Stages behind elements that are asked.
    asked: Vec<bool>,
    /// What elements that look at payload may look for.
    texts: Vec<Vec<u8>>,
    /// Frames of the traffic.
    pub bases: Vec<Vec<u8>>,
}

impl Planner {
    /// For a program of which is known what can be reached.
    pub fn new(program: Arc<Program>, reach: &Reach, texts: Vec<Vec<u8>>) -> Planner {
        let paths = Paths::of(&program, reach);
        let mut sites: HashMap<ElemId, Vec<Site>> = HashMap::new();
        for (stage, s) in program.stages.iter().enumerate() {
            if paths.distance(stage).is_none() {
                continue;
            }
            for (rule, r) in s.rules.iter().enumerate() {
                let Some(a) = s.actions.get(r.action.0 as usize) else {
                    continue;
                };
                for (step, x) in a.steps.iter().enumerate() {
                    if let Step::Bind {
                        elem,
                        expect: Some(_),
                        ..
                    } = x
                    {
                        let site = Site { stage, rule, step };
                        sites.entry(*elem).or_default().push(site);
                    }
                }
            }
        }
        let asked = (program.stages.iter())
            .map(|s| s.why == Why::Asked)
            .collect();
        Planner {
            program,
            paths,
            sites,
            flows: HashMap::new(),
            maker: Maker::default(),
            asked,
            texts,
            bases: Vec::new(),
        }
    }

    /// Does an element that is asked decide whether a packet comes there?
    pub fn asks(&self, stage: usize) -> bool {
        self.asked.get(stage).copied().unwrap_or(false)
    }

    /// A packet has taken a step; `seen` with the slots that it filled.
    pub fn note(&mut self, step: &ProgramStep, seen: &Seen, now: Timestamp) {
        let p = self.program.clone();
        let action = p.stages.get(step.stage).and_then(|s| {
            let r = s.rules.get(step.rule?)?;
            s.actions.get(r.action.0 as usize)
        });
        let Some(action) = action else { return };
        let binds = action
            .steps
            .iter()
            .filter(|s| matches!(s, Step::Bind { .. }));
        for (s, (elem, b)) in binds.zip(&step.bound) {
            let Step::Bind { image, kind, .. } = s else {
                continue;
            };
            if b.reply {
                continue;
            }
            let fields = fields_of(image, *kind);
            let old = |i: usize| fields[i].and_then(|e| seen.expr(e)).unwrap_or(0);
            let flow = Flow {
                port: b.origin,
                old: [old(0), old(1), old(2), old(3)],
                new: [
                    b.saddr.into(),
                    b.daddr.into(),
                    b.sport.into(),
                    b.dport.into(),
                ],
                proto: old(4),
                at: now,
            };
            let list = self.flows.entry(*elem).or_default();
            if let Some(same) = list.iter_mut().find(|f| f.old == flow.old) {
                *same = flow;
                continue;
            }
            if list.len() >= MAX_FLOWS {
                list.pop_front();
            }
            list.push_back(flow);
        }
    }

    /// A frame for a goal: packets of `want`, in the stage's terms, past the stage's first `rules` rules.
    pub fn shot(
        &self,
        stage: usize,
        rules: usize,
        want: &Filter,
        now: Timestamp,
        rng: &mut Rng,
    ) -> Option<Shot> {
        let mut needs: Vec<Need> = Vec::new();
        for _ in 0..PATHS {
            let Some(path) = self.paths.sample(&self.program, stage, rng) else {
                continue;
            };
            let cube = path.map.narrow(&self.program, want, &path.cube);
            let Some((cube, _)) = cube else { continue };
            let last = Some((stage, rules));
            if let Some(bytes) = self.along(&path, cube, last, now, rng, &mut needs) {
                return Some(Shot {
                    source: path.source,
                    bytes,
                    before: false,
                });
            }
        }
        self.provide(needs, now, rng, DEPTH)
    }

    /// The first packet of a flow that one of these wants.
    fn provide(
        &self,
        mut needs: Vec<Need>,
        now: Timestamp,
        rng: &mut Rng,
        depth: usize,
    ) -> Option<Shot> {
        if depth == 0 {
            return None;
        }
        let mut further = Vec::new();
        for _ in 0..needs.len().min(4) {
            let need = needs.swap_remove(rng.below(needs.len()));
            let sites = self.sites.get(&need.elem)?;
            for _ in 0..SITES {
                let Some(site) = rng.pick(sites).copied() else {
                    break;
                };
                for _ in 0..3 {
                    let path = self.paths.sample(&self.program, site.stage, rng);
                    let Some(mut path) = path else { continue };
                    let Some(fields) = path.to_site(&self.program, site) else {
                        continue;
                    };
                    let Some(cube) = self.at_site(site, &path, &fields, &need) else {
                        continue;
                    };
                    if let Some(bytes) = self.along(&path, cube, None, now, rng, &mut further) {
                        return Some(Shot {
                            source: path.source,
                            bytes,
                            before: true,
                        });
                    }
                }
            }
        }
        match further.is_empty() {
            true => None,
            false => self.provide(further, now, rng, depth - 1),
        }
    }

    /// Packets that begin the flow there.
    fn at_site(&self, s: Site, path: &Path, fields: &Fields, need: &Need) -> Option<Filter> {
        let p = &self.program;
        let stage = p.stages.get(s.stage)?;
        let action = stage
            .actions
            .get(stage.rules.get(s.rule)?.action.0 as usize)?;
        let Step::Bind {
            expect: Some(x),
            kind,
            ..
        } = action.steps.get(s.step)?
        else {
            return None;
        };
        if *kind != need.kind {
            return None;
        }
        let mut cube = path.cube.clone();
        for (i, field) in fields.iter().copied().enumerate().take(4) {
            if !narrow(p, &mut cube, field, &need.old[i]) {
                return None;
            }
            if x.kept[i] {
                if !narrow(p, &mut cube, field, &need.new[i]) {
                    return None;
                }
                continue;
            }
            let both = x.sets[i].intersect(&need.new[i]);
            if both.is_empty() {
                return None;
            }
            // a port that is free stays what it is
            if i == 2 && !both.is_full(16) {
                let mut with = cube.clone();
                if narrow(p, &mut with, field, &both) {
                    cube = with;
                }
            }
        }
        // an echo request, of pings
        if need.kind == BindKind::Ping && !narrow(p, &mut cube, fields[5], &ValueSet::one(8)) {
            return None;
        }
        narrow(p, &mut cube, fields[4], &need.proto).then_some(cube)
    }

    /// A frame that goes along a path.
    fn along(
        &self,
        path: &Path,
        cube: Filter,
        last: Option<(usize, usize)>,
        now: Timestamp,
        rng: &mut Rng,
        needs: &mut Vec<Need>,
    ) -> Option<Vec<u8>> {
        let p = &self.program;
        let mut cube = tightened(&cube, None)?;
        if !rng.one_in(4) {
            // as answers, mostly
            for b in path.binds.iter().rev() {
                if b.answer == Answer::Other {
                    cube = self.as_answer(b, cube)?;
                }
            }
        }
        let mut cubes = vec![cube.clone()];
        for b in &path.binds {
            let mut next = Vec::new();
            for c in cubes {
                match b.answer {
                    Answer::Pass => next.push(c),
                    Answer::Expected => next.extend(self.expected(b, c)),
                    Answer::Other => {
                        let from = next.len();
                        self.other(b, &c, now, rng, &mut next);
                        if next.len() == from && needs.len() < 32 {
                            needs.push(self.need(b, &c));
                        }
                    }
                }
            }
            next.truncate(CHOICES);
            cubes = next;
            if cubes.is_empty() {
                return None;
            }
        }
        for c in cubes {
            let earlier = path.earlier(p, &c, last);
            let earlier: Vec<&Filter> = earlier.iter().collect();
            let mut steps = SEARCH_STEPS;
            let mut frame = None;
            let mut tried = 0;
            left(p, &c, None, &earlier, &mut steps, &mut |part| {
                tried += 1;
                // another flow each time
                frame = match path.binds.is_empty() && last.is_some() {
                    true => self.maker.frame(part, rng),
                    false => self.maker.random_frame(part, rng),
                };
                if path.asked && !rng.one_in(4) {
                    frame = frame
                        .take()
                        .map(|f| self.with_payload(f, part, &self.bases, rng));
                }
                frame.is_some() || tried >= MAX_FRAMES
            });
            if frame.is_some() {
                return frame;
            }
        }
        // flows there are, but none that does
        for b in path.binds.iter().filter(|b| b.answer == Answer::Other) {
            if needs.len() < 32 {
                needs.push(self.need(b, &cube));
            }
        }
        None
    }

    /// A frame with a payload that somebody may look for, made of one that the traffic has, if it fits then.
    fn with_payload(&self, f: Vec<u8>, part: &Filter, bases: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
        let base = match rng.pick(bases) {
            Some(b) if !rng.one_in(3) => place(b.clone(), part, rng, false),
            _ => None,
        };
        let mut with = base.unwrap_or_else(|| f.clone());
        let payload = frame::view(&with).and_then(|v| {
            let head = if v.proto == 6 { 20 } else { 8 };
            Some((v.transport? + head).min(with.len()))
        });
        let Some(at) = payload else { return f };
        match (rng.below(4), rng.pick(&self.texts)) {
            (0, _) => with.resize(at + 1000 + rng.below(400), b'x'),
            (1, Some(t)) => with.extend_from_slice(t),
            (2, Some(t)) => {
                with.truncate(at);
                with.extend_from_slice(t);
            }
            _ => {}
        }
        frame::finish(&mut with, Keep::default());
        match Seen::arrive(&with, 0).fits(part) {
            Ok(()) => with,
            Err(_) => f,
        }
    }

    /// What an answer must be like, whatever the flow.
    fn as_answer(&self, b: &Passed, mut c: Filter) -> Option<Filter> {
        let p = &self.program;
        let mut sets: [ValueSet; 4] = [(); 4].map(|()| ValueSet::empty());
        let mut kept = [true; 4];
        for s in self.sites.get(&b.at.0)? {
            let stage = p.stages.get(s.stage)?;
            let action = (stage.actions).get(stage.rules.get(s.rule)?.action.0 as usize)?;
            if let Some(Step::Bind {
                expect: Some(x), ..
            }) = action.steps.get(s.step)
            {
                for i in 0..4 {
                    kept[i] &= x.kept[i];
                    sets[i] = match x.kept[i] {
                        true => ValueSet::full(BITS[i]),
                        false => sets[i].union(&x.sets[i]),
                    };
                }
            }
        }
        // a field of the answer is the other side's of the flow
        let other: &[(usize, usize)] = match b.kind {
            BindKind::Flow => &[(0, 1), (1, 0), (2, 3), (3, 2)],
            BindKind::Ping => &[(0, 1), (1, 0), (2, 2)],
            BindKind::Addresses => &[(1, 0)],
        };
        for (i, o) in other {
            if !narrow(p, &mut c, b.fields[*i], &sets[*o]) {
                return None;
            }
            if b.kind == BindKind::Ping && !narrow(p, &mut c, b.fields[5], &ValueSet::one(0)) {
                return None;
            }
            let slot = Dim::Slot(Slot(b.first.0 + *i as u16));
            if kept[*o] {
                let set = values(p, &c, slot);
                if !narrow(p, &mut c, b.fields[*i], &set) {
                    return None;
                }
            }
        }
        tightened(&c, None)
    }

    /// What slots are to be, said about what the rewriter is given.
    fn expected(&self, b: &Passed, mut c: Filter) -> Option<Filter> {
        let p = &self.program;
        let x = b.expect.as_ref()?;
        for i in 0..4 {
            let slot = Dim::Slot(Slot(b.first.0 + i as u16));
            let Some(set) = c.get(slot).cloned() else {
                continue;
            };
            if x.kept[i] {
                if !narrow(p, &mut c, b.fields[i], &set) {
                    return None;
                }
                continue;
            }
            let both = x.sets[i].intersect(&set);
            if both.is_empty() {
                return None;
            }
            if i == 2 {
                let mut with = c.clone();
                if narrow(p, &mut with, b.fields[i], &both) {
                    c = with;
                }
            }
        }
        Some(c)
    }

    /// What is left of a cube with the bindings of flows that are known.
    fn other(&self, b: &Passed, c: &Filter, now: Timestamp, rng: &mut Rng, out: &mut Vec<Filter>) {
        let p = &self.program;
        let Some(list) = self.flows.get(&b.at.0) else {
            return;
        };
        // those that have just begun may have been made for this; else any
        let start = match rng.one_in(2) {
            true => list.len(),
            false => rng.below(list.len() + 1),
        };
        let older = list.iter().take(start).rev();
        let mut found = 0;
        for f in older.chain(list.iter().skip(start).rev()) {
            if now.0 - f.at.0 > FRESH.0 {
                continue;
            }
            let one = |v: u128| ValueSet::one(v);
            let mut r = c.clone();
            // as an answer
            let is: &[(usize, u128)] = match b.kind {
                BindKind::Flow => &[
                    (0, f.new[1]),
                    (1, f.new[0]),
                    (2, f.new[3]),
                    (3, f.new[2]),
                    (4, f.proto),
                ],
                BindKind::Ping => &[
                    (0, f.new[1]),
                    (1, f.new[0]),
                    (2, f.new[2]),
                    (4, f.proto),
                    (5, 0),
                ],
                BindKind::Addresses => &[(1, f.new[0])],
            };
            let becomes: &[(u16, u128)] = match b.kind {
                BindKind::Flow => &[(0, f.old[1]), (1, f.old[0]), (2, f.old[3]), (3, f.old[2])],
                BindKind::Ping => &[(0, f.old[1]), (1, f.old[0]), (2, f.old[2])],
                BindKind::Addresses => &[(1, f.old[0])],
            };
            let fits = |r: &mut Filter, is: &[(usize, u128)], becomes: &[(u16, u128)]| {
                is.iter().all(|(i, v)| narrow(p, r, b.fields[*i], &one(*v)))
                    && becomes.iter().all(|(i, v)| {
                        let d = Dim::Slot(Slot(b.first.0 + i));
                        r.narrow(d, &one(*v), width(p, d))
                    })
            };
            if fits(&mut r, is, becomes) {
                out.extend(tightened(&r, None));
                found += 1;
            } else if f.port != b.at.1 {
                // as a flow of another input
                let mut r = c.clone();
                let n = if b.kind == BindKind::Addresses { 1 } else { 4 };
                let same: Vec<(usize, u128)> = (0..n).map(|i| (i, f.old[i])).collect();
                let becomes: Vec<(u16, u128)> = (0..4).map(|i| (i as u16, f.new[i])).collect();
                if fits(&mut r, &same, &becomes) {
                    out.extend(tightened(&r, None));
                    found += 1;
                }
            }
            if found >= CHOICES {
                break;
            }
        }
    }

    /// A flow whose answer would do.
    fn need(&self, b: &Passed, c: &Filter) -> Need {
        let p = &self.program;
        let now = |i: usize| match b.fields[i] {
            Some(Expr::Const(v)) => ValueSet::one(v),
            Some(Expr::Of(Dim::Slot(_), plus)) if plus != 0 => ValueSet::full(BITS[i.min(3)]),
            Some(Expr::Of(d, plus)) => {
                let w = width(p, d);
                values(p, c, d).shifted_back(plus.wrapping_neg() & max_of(w), w)
            }
            None => ValueSet::full(if i == 4 { 8 } else { BITS[i] }),
        };
        let slot = |i: u16| {
            let d = Dim::Slot(Slot(b.first.0 + i));
            values(p, c, d)
        };
        let any = || ValueSet::full(16);
        let (old, new) = match b.kind {
            BindKind::Flow => (
                [slot(1), slot(0), slot(3), slot(2)],
                [now(1), now(0), now(3), now(2)],
            ),
            BindKind::Ping => (
                [slot(1), slot(0), slot(2), any()],
                [now(1), now(0), now(2), any()],
            ),
            BindKind::Addresses => (
                [slot(1), ValueSet::full(32), any(), any()],
                [now(1), ValueSet::full(32), any(), any()],
            ),
        };
        Need {
            elem: b.at.0,
            kind: b.kind,
            old,
            new,
            proto: now(4),
        }
    }
}
