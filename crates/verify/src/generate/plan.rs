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
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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
/// Longest that a rewriter remembers a connection that has ended, or a flow without packets: time-out and a whole interval
/// of its sweep.
const CLOSED: Timestamp = Timestamp::from_secs(1250);
/// Pauses that are shorter than any time-out, and as many as make up for that.
const PAUSE: Timestamp = Timestamp::from_secs(170);
/// See [`PAUSE`].
const KEEPS: usize = 8;
/// Places tried for a packet that refreshes a flow.
const REFRESH: usize = 24;
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

/// How a packet belongs to a flow that began before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It answers the flow.
    Reply,
    /// It is like the flow's own packets, but comes to another input.
    Elsewhere,
}

/// Values by number: of a binding's fields, or of its slots.
type Values = [Option<(usize, u128)>; 6];

impl Flow {
    /// What a packet of this flow is like, and what becomes of it.
    fn packet(&self, kind: BindKind, role: Role) -> (Values, Values) {
        let (old, new) = (self.old, self.new);
        let mut is: Values = [None; 6];
        let mut becomes: Values = [None; 6];
        let mut say = |i: usize, v: u128, to: u128| {
            is[i] = Some((i, v));
            becomes[i] = Some((i, to));
        };
        match (role, kind) {
            (Role::Reply, BindKind::Flow) => {
                for (i, o) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                    say(i, new[o], old[o]);
                }
            }
            (Role::Reply, BindKind::Ping) => {
                for (i, o) in [(0, 1), (1, 0), (2, 2)] {
                    say(i, new[o], old[o]);
                }
            }
            (Role::Reply, BindKind::Addresses) => say(1, new[0], old[0]),
            (Role::Elsewhere, BindKind::Addresses) => {
                is[0] = Some((0, old[0]));
                for (i, v) in new.iter().enumerate() {
                    becomes[i] = Some((i, *v));
                }
            }
            (Role::Elsewhere, _) => {
                for i in 0..4 {
                    say(i, old[i], new[i]);
                }
            }
        }
        if kind != BindKind::Addresses || role == Role::Elsewhere {
            is[4] = Some((4, self.proto));
        }
        if kind == BindKind::Ping {
            is[5] = Some((5, if role == Role::Reply { 0 } else { 8 }));
        }
        (is, becomes)
    }
}

/// A flow that is wanted.
#[derive(Debug, Clone)]
struct Need {
    elem: ElemId,
    kind: BindKind,
    /// Inputs at which it may begin.
    ports: Vec<u16>,
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
    /// A flow that the rewriter has, by its addresses and ports: it is still there.
    Keep(ElemId, [u128; 4]),
}

/// A flow that cannot begin: its packets look like the answers to another one, which one rewriter is to forget and others are
/// to keep.
struct Conflict {
    need: Need,
    path: Path,
    /// The goal's packets, and the rewriters on the path before the one that is to forget.
    cube: Filter,
    before: usize,
}

/// What flows may begin, by rewriter and input: all kinds taken together.
fn begin(reach: &Reach) -> BTreeMap<(ElemId, u16), ([ValueSet; 4], ValueSet)> {
    let mut all = BTreeMap::new();
    for (elem, port, flows) in reach.flows() {
        let none = (BITS.map(|_| ValueSet::empty()), ValueSet::empty());
        let (sets, proto) = all.entry((elem, port)).or_insert(none);
        for f in flows {
            for (a, b) in sets.iter_mut().zip(&f.sets) {
                *a = a.union(b);
            }
            *proto = proto.union(&f.proto);
        }
    }
    all
}

/// The planner.
pub struct Planner {
    program: Arc<Program>,
    paths: Paths,
    sites: HashMap<ElemId, Vec<Site>>,
    /// All places where a rewriter is asked, by input.
    asks_at: HashMap<ElemId, Vec<(u16, Site)>>,
    /// By rewriter and input at which flows begin: where their packets leave, and where their replies do (anywhere, if empty).
    leave: BTreeMap<(ElemId, u16), (BTreeSet<u16>, BTreeSet<u16>)>,
    /// What flows may begin at a rewriter's inputs: addresses, ports, protocol.
    begin: BTreeMap<(ElemId, u16), ([ValueSet; 4], ValueSet)>,
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
            sites,
            asks_at,
            leave,
            begin: begin(reach),
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
        let mut conflict = None;
        for _ in 0..PATHS {
            let Some(path) = self.paths.sample(&self.program, stage, rng) else {
                continue;
            };
            let cube = path.map.narrow(&self.program, want, &path.cube);
            let Some((cube, _)) = cube else { continue };
            let last = Some((stage, rules));
            let found = self.along(&path, cube, last, now, rng, &mut needs, &mut conflict);
            if let Some(bytes) = found {
                return Some(Shot {
                    source: path.source,
                    bytes,
                    before: false,
                    moves: Vec::new(),
                });
            }
        }
        if let Some(c) = conflict
            && rng.one_in(2)
            && let Some(shot) = self.outlive(c, now, rng)
        {
            return Some(shot);
        }
        self.provide(needs, now, rng, DEPTH)
    }

    /// Lets a rewriter forget a flow that those before it on the path keep, and begins one there whose packets look like its
    /// answers.
    fn outlive(&self, c: Conflict, now: Timestamp, rng: &mut Rng) -> Option<Shot> {
        let p = &self.program;
        let own = |c: &Filter, b: &Passed| {
            // an answer's slots are the flow's own addresses and ports, the other way round
            let one = |i: u16| values(p, c, Dim::Slot(Slot(b.first.0 + i))).single();
            Some([one(1)?, one(0)?, one(3)?, one(2)?])
        };
        let kept: Vec<(ElemId, [u128; 4])> = (c.path.binds.iter().take(c.before))
            .filter(|b| matches!(b.answer, Answer::Other(_)))
            .map(|b| Some((b.at.0, own(&c.cube, b)?)))
            .collect::<Option<_>>()?;
        let begin = self.provide(vec![c.need.clone()], now, rng, 1)?;
        let mut moves = Vec::new();
        let tcp = c.need.proto.single() == Some(6);
        let flags = |f: &[u8], flags: u8| {
            let mut f = f.to_vec();
            let t = frame::view(&f).and_then(|v| v.transport)?;
            *f.get_mut(t + 13)? = flags;
            frame::finish(&mut f, Keep::default());
            Some(f)
        };
        if tcp && (c.before > 1 || rng.one_in(2)) {
            // data both ways, so that the others remember it for long; then an end that only the one sees
            let cube = tightened(&c.cube, None)?;
            let answer = self.maker.random_frame(&cube, rng)?;
            moves.push(Move::Send(c.path.source, flags(&answer, 0x18)?));
            moves.push(Move::Send(begin.source, flags(&begin.bytes, 0x14)?));
            moves.push(Move::Wait(CLOSED));
        } else {
            // packets that belong to the flows, but do not come to the rewriter that is to forget
            let keep: Vec<Move> = (kept.iter())
                .map(|(elem, old)| {
                    let (source, bytes) = self.refresh(*elem, old, &c.need.proto, rng)?;
                    Some(Move::Send(source, bytes))
                })
                .collect::<Option<_>>()?;
            moves.extend(keep.iter().cloned());
            for _ in 0..KEEPS {
                moves.push(Move::Wait(PAUSE));
                moves.extend(keep.iter().cloned());
            }
        }
        moves.extend(kept.into_iter().map(|(e, k)| Move::Keep(e, k)));
        let bytes = match tcp {
            true => flags(&begin.bytes, 0x02)?,
            false => begin.bytes.clone(),
        };
        moves.push(Move::Send(begin.source, bytes.clone()));
        Some(Shot {
            source: begin.source,
            bytes,
            before: true,
            moves,
        })
    }

    /// A packet of a flow that comes to its rewriter straight from outside, at another input than the flow's.
    fn refresh(
        &self,
        elem: ElemId,
        old: &[u128; 4],
        proto: &ValueSet,
        rng: &mut Rng,
    ) -> Option<(ElemId, Vec<u8>)> {
        let p = &self.program;
        let flow = (self.flows.get(&elem)?.iter()).find(|f| f.old == *old)?;
        let asks = self.asks_at.get(&elem)?;
        for _ in 0..REFRESH {
            let (port, site) = rng.pick(asks)?;
            if *port == flow.port {
                continue;
            }
            let Some(mut path) = self.paths.sample(p, site.stage, rng) else {
                continue;
            };
            if !path.binds.is_empty() {
                continue;
            }
            let Some(fields) = path.to_site(p, *site) else {
                continue;
            };
            let mut cube = path.cube.clone();
            let fits = (0..4).all(|i| narrow(p, &mut cube, fields[i], &ValueSet::one(old[i])))
                && narrow(p, &mut cube, fields[4], proto);
            let Some(cube) = tightened(&cube, None).filter(|_| fits) else {
                continue;
            };
            let earlier = path.earlier(p, &cube, None);
            let earlier: Vec<&Filter> = earlier.iter().collect();
            let mut frame = None;
            let mut steps = SEARCH_STEPS;
            left(p, &cube, None, &earlier, &mut steps, &mut |part| {
                frame = self.maker.frame(part, rng);
                frame.is_some()
            });
            if let Some(f) = frame {
                return Some((path.source, f));
            }
        }
        None
    }

    /// A flow is still known to its rewriter.
    pub fn kept(&mut self, elem: ElemId, old: [u128; 4], now: Timestamp) {
        let list = self.flows.get_mut(&elem);
        if let Some(f) = list.and_then(|l| l.iter_mut().find(|f| f.old == old)) {
            f.at = now;
        }
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
                    let found = self.along(&path, cube, None, now, rng, &mut further, &mut None);
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
        conflict: &mut Option<Conflict>,
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
        if !rng.one_in(4) {
            for (b, role) in path.binds.iter().zip(&roles).rev() {
                match (b.answer, role) {
                    (Answer::Other(_), Role::Reply) => cube = self.as_answer(b, cube)?,
                    (Answer::Other(output), Role::Elsewhere) => {
                        cube = self.as_flow(b, &self.inputs(b, output, *role), cube)?;
                    }
                    _ => {}
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
                            if *role == Role::Elsewhere && i > 0 && self.is_answer(&need, now) {
                                *conflict = Some(Conflict {
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

    /// Do the first packets of the flow look like the answers to one that has begun?
    fn is_answer(&self, n: &Need, now: Timestamp) -> bool {
        let key = [0, 1, 2, 3].map(|i| n.old[i].single());
        let [Some(s), Some(d), Some(sp), Some(dp)] = key else {
            return false;
        };
        let list = self.flows.get(&n.elem);
        n.kind == BindKind::Flow
            && list.is_some_and(|l| {
                l.iter().rev().any(|f| {
                    now.0 - f.at.0 <= FRESH.0
                        && f.new == [d, s, dp, sp]
                        && n.proto.contains(f.proto)
                })
            })
    }

    /// What a packet must be like that is like those of flows that begin at other inputs.
    fn as_flow(&self, b: &Passed, ports: &[u16], mut c: Filter) -> Option<Filter> {
        let p = &self.program;
        let mut sets = BITS.map(|_| ValueSet::empty());
        let mut proto = ValueSet::empty();
        for port in ports {
            let Some((s, of)) = self.begin.get(&(b.at.0, *port)) else {
                return Some(c);
            };
            for (a, b) in sets.iter_mut().zip(s) {
                *a = a.union(b);
            }
            proto = proto.union(of);
        }
        let n = if b.kind == BindKind::Addresses { 1 } else { 4 };
        for (i, s) in sets.iter().enumerate().take(n) {
            if !narrow(p, &mut c, b.fields[i], s) {
                return None;
            }
        }
        if !narrow(p, &mut c, b.fields[4], &proto) {
            return None;
        }
        tightened(&c, None)
    }

    /// Inputs at which flows may begin whose packets, in this role, leave at an output.
    fn inputs(&self, b: &Passed, output: u16, role: Role) -> Vec<u16> {
        let all = self.leave.iter().filter(|((e, _), _)| *e == b.at.0);
        let fits = all.filter(|((_, port), (forward, back))| match role {
            Role::Reply => back.is_empty() || back.contains(&output),
            Role::Elsewhere => *port != b.at.1 && forward.contains(&output),
        });
        fits.map(|((_, port), _)| *port).collect()
    }

    /// What is left of a cube with the bindings of flows that are known.
    #[allow(clippy::too_many_arguments)]
    fn other(
        &self,
        b: &Passed,
        c: &Filter,
        role: Role,
        ports: &[u16],
        now: Timestamp,
        rng: &mut Rng,
        out: &mut Vec<Filter>,
    ) {
        let p = &self.program;
        let Some(list) = self.flows.get(&b.at.0) else {
            return;
        };
        // what the packet and the binding may be, looked at before anything is copied
        let is = [0, 1, 2, 3, 4, 5].map(|i| self.now(b, c, i));
        let slots = [0, 1, 2, 3].map(|i| values(p, c, Dim::Slot(Slot(b.first.0 + i))));
        // those that have just begun may have been made for this; else any
        let start = match rng.one_in(2) {
            true => list.len(),
            false => rng.below(list.len() + 1),
        };
        let older = list.iter().take(start).rev();
        let mut found = 0;
        for f in older.chain(list.iter().skip(start).rev()) {
            if now.0 - f.at.0 > FRESH.0 || !ports.contains(&f.port) {
                continue;
            }
            let (keys, becomes) = f.packet(b.kind, role);
            let fits = (keys.iter().flatten()).all(|(i, v)| is[*i].contains(*v))
                && (becomes.iter().flatten()).all(|(i, v)| slots[*i].contains(*v));
            if !fits {
                continue;
            }
            let mut r = c.clone();
            let one = |v: u128| ValueSet::one(v);
            let narrowed = (keys.iter().flatten())
                .all(|(i, v)| narrow(p, &mut r, b.fields[*i], &one(*v)))
                && (becomes.iter().flatten()).all(|(i, v)| {
                    let d = Dim::Slot(Slot(b.first.0 + *i as u16));
                    r.narrow(d, &one(*v), width(p, d))
                });
            if narrowed && let Some(r) = tightened(&r, None) {
                out.push(r);
                found += 1;
            }
            if found >= CHOICES {
                break;
            }
        }
    }

    /// What a field of a binding's packet may be, in a cube.
    fn now(&self, b: &Passed, c: &Filter, i: usize) -> ValueSet {
        let p = &self.program;
        match b.fields[i] {
            Some(Expr::Const(v)) => ValueSet::one(v),
            Some(Expr::Of(Dim::Slot(_), plus)) if plus != 0 => ValueSet::full(BITS[i.min(3)]),
            Some(Expr::Of(d, plus)) => {
                let w = width(p, d);
                values(p, c, d).shifted_back(plus.wrapping_neg() & max_of(w), w)
            }
            None => ValueSet::full(if i >= 4 { 8 } else { BITS[i] }),
        }
    }

    /// A flow to which a packet might belong in this role.
    fn need(&self, b: &Passed, c: &Filter, role: Role, ports: Vec<u16>) -> Need {
        let p = &self.program;
        let now = |i: usize| self.now(b, c, i);
        let slot = |i: u16| {
            let d = Dim::Slot(Slot(b.first.0 + i));
            values(p, c, d)
        };
        let any = || ValueSet::full(16);
        let (old, new) = match b.kind {
            _ if role == Role::Elsewhere => {
                let n = if b.kind == BindKind::Addresses { 1 } else { 4 };
                let key = [0, 1, 2, 3].map(|i| match i < n {
                    true => now(i),
                    false => ValueSet::full(BITS[i]),
                });
                (key, [slot(0), slot(1), slot(2), slot(3)])
            }
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
            ports,
            old,
            new,
            proto: now(4),
        }
    }
}
