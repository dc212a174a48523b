//! Packets that need others before them: an answer needs a flow that has gone forward, perhaps through several
//! rewriters.
//!
//! The planner remembers flows that it has seen begin. For a goal it takes a path and looks for flows that fit where
//! the path needs another binding than the expected; if there are none, it makes the first packet of one, and the goal
//! waits.

mod belong;
mod outlive;

use self::belong::{CHOICES, Flow, Need, Role};
use self::outlive::Conflict;
use super::paths::{Answer, Passed, Path, Paths, Site, Translations, narrow};
use super::read::Seen;
use super::solve::{Maker, place};
use super::tables::Tables;
use crate::cubes::{PER_STEP, left, tightened, width};
use crate::frame::{self, Keep};
use crate::gap::Gap;
use crate::reach::Reach;
use crate::reach::bind::{Begins, Fields, fields_of};
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{BindKind, ValueSet};
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, Filter, Program, Slot, Step, Why};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Flows remembered for a rewriter.
const MAX_FLOWS: usize = 384;
/// After this time flows may be forgotten by their rewriter.
const FRESH: Timestamp = Timestamp::from_secs(50);
/// Paths tried for a goal.
const PATHS: usize = 24;
/// Sites tried for a flow.
const SITES: usize = 6;
/// Flows that need flows that need flows ...
const DEPTH: usize = 4;
/// Flows that cannot begin, looked at for a goal.
const CONFLICTS: usize = 6;
/// Steps of a search.
const SEARCH_STEPS: usize = 1500;
/// Up to so many earlier rules are taken away one after the other.
const FEW_EARLIER: usize = 64;
/// So many times all of more may be looked at for a gap between them.
const GAP_LOOKS: usize = 6;
/// Attempts at a goal's packet along the path for which a rewriter has just forgotten a flow.
const PINNED: usize = 8;
/// Frames made in one search.
const MAX_FRAMES: usize = 12;

/// A frame.
pub struct Shot {
    /// Its entry.
    pub source: ElemId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Only the first packet of a flow that the goal needs.
    pub before: bool,
    /// What is to be done before the goal is tried again, instead of sending the frame.
    pub moves: Vec<Move>,
}

/// A part of a longer plan.
#[derive(Debug, Clone)]
pub enum Move {
    /// A frame arrives.
    Send(ElemId, Vec<u8>),
    /// Time passes.
    Wait(Timestamp),
    /// A rewriter is made to forget its flows.
    Clear(ElemId),
    /// A flow that the rewriter has, by its addresses and ports: it is still there.
    Keep(ElemId, [u128; 4]),
}

/// The planner.
pub struct Planner {
    program: Arc<Program>,
    paths: Paths,
    /// Rules in the terms of entries.
    said: Translations,
    sites: HashMap<ElemId, Vec<Site>>,
    /// All places where a rewriter is asked, by input.
    asks_at: HashMap<ElemId, Vec<(u16, Site)>>,
    /// By rewriter and input at which flows begin: where their packets leave, and where their replies do (anywhere, if
    /// empty).
    leave: BTreeMap<(ElemId, u16), (BTreeSet<u16>, BTreeSet<u16>)>,
    /// What flows may begin at a rewriter's inputs.
    begin: BTreeMap<(ElemId, u16), Begins>,
    flows: HashMap<ElemId, VecDeque<Flow>>,
    maker: Maker,
    /// Stages behind elements that are asked.
    asked: Vec<bool>,
    /// What elements that look at payload may look for.
    texts: Vec<Vec<u8>>,
    /// Frames of the traffic.
    pub bases: Vec<Vec<u8>>,
    /// A path that a rewriter has forgotten a flow for: of a stage, past so many rules, and packets of flows that are
    /// there.
    pinned: std::cell::RefCell<Option<(usize, usize, Path, Filter)>>,
    /// Flows of other inputs on which the last frame counts.
    used: std::cell::RefCell<Vec<(ElemId, [u128; 4])>>,
    /// A goal asked for since this was taken last needs a flow that only some rewriters have forgotten.
    pub outlived: std::cell::Cell<bool>,
    /// Rewriters on paths that were tried since this was taken last.
    pub work: std::cell::Cell<u64>,
    /// Rules that may still be looked at for packets along paths.
    pub looks: std::cell::Cell<u64>,
}

impl Planner {
    /// For a program of which is known what can be reached.
    pub fn new(program: Arc<Program>, reach: &Reach, texts: Vec<Vec<u8>>) -> Planner {
        let paths = Paths::of(&program, reach);
        let mut sites: HashMap<ElemId, Vec<Site>> = HashMap::new();
        let mut asks_at: HashMap<ElemId, Vec<(u16, Site)>> = HashMap::new();
        let mut leave: BTreeMap<(ElemId, u16), (BTreeSet<u16>, BTreeSet<u16>)> = BTreeMap::new();
        for (stage, s) in program.stages.iter().enumerate() {
            if paths.distance(stage).is_none() {
                continue;
            }
            for (rule, r) in s.rules.iter().enumerate() {
                let Some(a) = s.actions.get(r.action.0 as usize) else {
                    continue;
                };
                for (step, x) in a.steps.iter().enumerate() {
                    let Step::Bind {
                        elem,
                        port,
                        expect,
                        sides,
                        ..
                    } = x
                    else {
                        continue;
                    };
                    let site = Site { stage, rule, step };
                    asks_at.entry(*elem).or_default().push((*port, site));
                    if let Some(e) = expect {
                        sites.entry(*elem).or_default().push(site);
                        let (forward, _) = leave.entry((*elem, *port)).or_default();
                        forward.insert(e.output);
                    }
                    for s in sides.iter().flatten() {
                        let (forward, back) = leave.entry((*elem, s.origin)).or_default();
                        if s.reply { back } else { forward }.insert(s.output);
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
            said: Translations::default(),
            sites,
            asks_at,
            leave,
            begin: (reach.flows())
                .map(|(e, port, b)| ((e, port), b.clone()))
                .collect(),
            flows: HashMap::new(),
            maker: Maker::default(),
            asked,
            texts,
            bases: Vec::new(),
            pinned: std::cell::RefCell::new(None),
            used: std::cell::RefCell::new(Vec::new()),
            outlived: std::cell::Cell::new(false),
            work: std::cell::Cell::new(0),
            looks: std::cell::Cell::new(u64::MAX),
        }
    }

    /// With the route tables that the program asks.
    pub fn with_tables(mut self, tables: Tables) -> Planner {
        self.maker.tables = tables;
        self
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

    /// The last frame has not come where it was to come: the flows of other inputs on which it counted are not counted
    /// on again. Mostly a port that it was to get is another's, and would be again.
    pub fn missed(&mut self) {
        for (elem, old) in self.used.take() {
            if let Some(l) = self.flows.get_mut(&elem) {
                l.retain(|f| f.old != old);
            }
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
        let mut conflicts = Vec::new();
        self.used.take();
        let last = Some((stage, rules));
        if let Some((s, r, path, cube)) = self.pinned.take()
            && last == Some((s, r))
        {
            for _ in 0..PINNED {
                let (needs, conflicts) = (&mut Vec::new(), &mut Vec::new());
                let found = self.along(&path, cube.clone(), last, now, rng, needs, conflicts);
                if let Some(bytes) = found {
                    return Some(Shot {
                        source: path.source,
                        bytes,
                        before: false,
                        moves: Vec::new(),
                    });
                }
            }
        }
        // packets of paths that nothing else decides, searched in vain
        let mut vain: Vec<(Filter, Vec<(usize, usize)>)> = Vec::new();
        for _ in 0..PATHS {
            if self.looks.get() == 0 {
                break;
            }
            let Some(path) = self.paths.sample(&self.program, stage, rng) else {
                continue;
            };
            self.work.set(self.work.get() + 1 + path.binds.len() as u64);
            let cube = path.map.narrow(&self.program, want, &path.cube);
            let Some((cube, _)) = cube else { continue };
            let plain = path.binds.is_empty() && !path.asked;
            if plain {
                let this = (cube.clone(), path.taken().collect());
                if vain.contains(&this) {
                    continue;
                }
                vain.push(this);
            }
            let found = self.along(&path, cube, last, now, rng, &mut needs, &mut conflicts);
            if let Some(bytes) = found {
                return Some(Shot {
                    source: path.source,
                    bytes,
                    before: false,
                    moves: Vec::new(),
                });
            }
        }
        self.outlived.set(!conflicts.is_empty());
        if !rng.one_in(4) {
            for c in conflicts {
                let pin = (stage, rules, c.path.clone(), c.cube.clone());
                if let Some(shot) = self.outlive(c, now, rng) {
                    *self.pinned.borrow_mut() = Some(pin);
                    return Some(shot);
                }
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
                    let found =
                        self.along(&path, cube, None, now, rng, &mut further, &mut Vec::new());
                    if let Some(bytes) = found {
                        return Some(Shot {
                            source: path.source,
                            bytes,
                            before: true,
                            moves: Vec::new(),
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
            port,
            ..
        } = action.steps.get(s.step)?
        else {
            return None;
        };
        if *kind != need.kind || !need.ports.contains(port) {
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
    #[allow(clippy::too_many_arguments)]
    fn along(
        &self,
        path: &Path,
        cube: Filter,
        last: Option<(usize, usize)>,
        now: Timestamp,
        rng: &mut Rng,
        needs: &mut Vec<Need>,
        conflicts: &mut Vec<Conflict>,
    ) -> Option<Vec<u8>> {
        let p = &self.program;
        let mut cube = tightened(&cube, None)?;
        // how the packet is to belong to flows of each rewriter
        let mut roles = Vec::with_capacity(path.binds.len());
        for b in &path.binds {
            let Answer::Other(output) = b.answer else {
                roles.push(Role::Reply);
                continue;
            };
            let can = [Role::Reply, Role::Elsewhere].map(|r| !self.inputs(b, output, r).is_empty());
            roles.push(match can {
                [true, true] if rng.one_in(3) => Role::Elsewhere,
                [true, _] => Role::Reply,
                [false, true] => Role::Elsewhere,
                [false, false] => return None,
            });
        }
        if !rng.one_in(16) {
            for (b, role) in path.binds.iter().zip(&roles).rev() {
                if let Answer::Other(output) = b.answer {
                    cube = self.as_one_of(b, &self.inputs(b, output, *role), *role, cube, rng)?;
                }
            }
        }
        let mut cubes = vec![cube.clone()];
        for (i, (b, role)) in path.binds.iter().zip(&roles).enumerate() {
            let mut next = Vec::new();
            for c in cubes {
                match b.answer {
                    Answer::Pass => next.push(c),
                    Answer::Expected => next.extend(self.expected(b, c)),
                    Answer::Other(output) => {
                        let from = next.len();
                        let ports = self.inputs(b, output, *role);
                        self.other(b, &c, *role, &ports, now, rng, &mut next);
                        if next.len() == from && needs.len() < 32 {
                            let need = self.need(b, &c, *role, ports);
                            if *role == Role::Elsewhere
                                && i > 0
                                && conflicts.len() < CONFLICTS
                                && self.is_taken(&need, now)
                            {
                                conflicts.push(Conflict {
                                    need: need.clone(),
                                    path: path.clone(),
                                    cube: c,
                                    before: i,
                                });
                            }
                            needs.push(need);
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
            // what later rewriters need of the expected bindings
            let Some(c) = self.as_expected(path, c) else {
                continue;
            };
            let earlier = path.earlier(p, &self.said, &c, last);
            let earlier: Vec<&Filter> = earlier.iter().collect();
            let mut steps = SEARCH_STEPS;
            let mut frame = None;
            let mut tried = 0;
            let mut make = |part: &Filter| {
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
            };
            // few rules are taken away one after the other, many at once
            let mut gap = Gap {
                width: &|d| width(p, d),
                tightened: &|f| tightened(f, None),
                work: GAP_LOOKS * (earlier.len() + 1),
            };
            match earlier.len() <= FEW_EARLIER {
                true => {
                    left(p, &c, None, &earlier, &mut steps, &mut make);
                }
                false => {
                    gap.find(&c, &earlier, &mut make);
                }
            }
            let gaps = GAP_LOOKS * (earlier.len() + 1) - gap.work;
            let looked = 1 + earlier.len() + gaps + (SEARCH_STEPS - steps) * PER_STEP;
            self.looks
                .set(self.looks.get().saturating_sub(looked as u64));
            if frame.is_some() {
                let elsewhere = path.binds.iter().zip(&roles);
                let used = elsewhere.filter(|(b, r)| {
                    **r == Role::Elsewhere && matches!(b.answer, Answer::Other(_))
                });
                let old = |b: &Passed| {
                    let one = |i| self.now(b, &c, i).single();
                    Some((b.at.0, [one(0)?, one(1)?, one(2)?, one(3)?]))
                };
                *self.used.borrow_mut() = used.filter_map(|(b, _)| old(b)).collect();
                return frame;
            }
        }
        // flows there are, but none that does
        for (b, role) in path.binds.iter().zip(&roles) {
            if let Answer::Other(output) = b.answer
                && needs.len() < 32
            {
                needs.push(self.need(b, &cube, *role, self.inputs(b, output, *role)));
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

    /// What the slots of all expected bindings are to be, said about what their rewriters are given.
    fn as_expected(&self, path: &Path, c: Filter) -> Option<Filter> {
        let expected = path.binds.iter().filter(|b| b.answer == Answer::Expected);
        // the last first: what it is to be given, the one before it gives
        expected
            .rev()
            .filter(|b| b.expect.is_some())
            .try_fold(c, |c, b| self.expected(b, c))
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
}
