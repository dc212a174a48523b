//! Packets derived from a program: one for every rule, one for each side of every boundary, through bindings too.

use super::corners::Corners;
use super::coverage::{Coverage, Side, sides, width};
pub use super::goals::{Account, Goal, Reason};
use super::goals::{all_goals, goals};
use super::index::Index;
use super::plan::{Move, Planner};
use super::read::Seen;
use super::solve::{Maker, Search, consistent, place, uncovered};
use super::tables::Tables;
use super::traffic::Traffic;
use super::ways::{self, StagePath};
use super::{Port, Source};
use crate::cubes::PER_STEP;
use crate::event::Event;
use crate::frame::{self, Keep};
use crate::gap::Gap;
use crate::reach::Verdict;
use crate::reach::proved::{Key, Proved};
use crate::rng::Rng;
use crate::stop::Stop;
use crate::subject::Outputs;
use onefold_element::ElemId;
use onefold_element::model::{BindKind, ValueSet, max_of};
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, End, Filter, Program, Step};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Steps of one search.
const SEARCH_STEPS: usize = 3000;
/// So many times all earlier rules may be looked at for a gap between them.
const GAP_LOOKS: usize = 6;
/// Rules that are looked at in searches for goals' packets, in a whole run. Whatever the list, that bounds the time
/// that aiming takes; packets that need no search are made behind it, too.
const LOOKS: u64 = 20_000_000;
/// And so many more for each packet.
const LOOKS_PER_PACKET: u64 = 400;
/// Ways tried for a goal.
const WAYS_TRIED: usize = 16;
/// Attempts at a goal.
const ATTEMPTS: u8 = 8;
/// First packets of flows that are sent for a goal, in one round.
const MAX_BEFORE: u8 = 40;
/// A longer plan counts as so many of them.
const MOVES: u8 = 8;
/// Of all packets, one in so many may be sent, or searched for, to hit what was given up before.
const AGAIN: u64 = 5;
/// Rounds in which what was given up is tried again.
const ROUNDS: u16 = 2000;
/// Rewriters on paths that were tried in vain which count as one packet.
const SEARCH: u64 = 9;
/// Searches that may fail behind a longer plan.
const INSIST: u8 = 8;
/// Known frames per stage.
const MAX_KNOWN: usize = 16;
/// Frames of the traffic that are put before elements that are asked, for one goal.
const BASES: usize = 8;
/// Attempts at what such an element decides.
const ASKED: u8 = 80;
/// Of all packets, one in so many may be punted for a goal.
const PUNTS: u64 = 33;
/// Of the traffic behind the goals, one in so many is followed through the program.
const FOLLOW: usize = 16;

/// A frame that came to a stage.
#[derive(Debug, Clone)]
struct Known {
    source: ElemId,
    frame: Vec<u8>,
    /// What it is the answer to.
    forward: Option<(ElemId, Vec<u8>)>,
    /// The event that it answers.
    answers: Option<(u64, u32)>,
}

/// A frame of a goal's that is to be answered, and what the answer must be like.
#[derive(Debug, Clone)]
struct Waiting {
    goal: Goal,
    attempt: u8,
    source: ElemId,
    wanted: Filter,
}

/// An answer for a goal that is to be sent next.
struct Queued {
    source: ElemId,
    bytes: Vec<u8>,
    goal: (Goal, u8),
    answers: (u64, u32),
}

/// The source.
pub struct Directed {
    /// What has been hit.
    pub coverage: Coverage,
    program: Arc<Program>,
    traffic: Traffic,
    maker: Maker,
    rng: Rng,
    ways: Vec<Vec<StagePath>>,
    /// Of each stage's rules, and of each way's earlier ones; made when first asked for.
    indices: Vec<(OnceCell<Index>, Vec<OnceCell<Index>>)>,
    known: Vec<Vec<Known>>,
    goals: VecDeque<(Goal, u8)>,
    /// Those that were given up.
    given_up: Vec<Goal>,
    /// Rounds so far, and searches and packets that are left for further ones.
    round: u16,
    again: u64,
    /// Goal of the event under way.
    current: Option<(Goal, u8)>,
    /// What the frame for a goal follows.
    follows: Option<(u64, u32)>,
    waiting: Option<Waiting>,
    queue: VecDeque<Queued>,
    reasons: HashMap<Goal, Reason>,
    /// Goals that need flows which only some rewriters have forgotten.
    outlived: HashSet<Goal>,
    /// Rules that may still be looked at.
    looks: u64,
    /// Set when no more goals are to be aimed at.
    stop: Stop,
    /// What is shown to be unreachable.
    proved: Option<Proved>,
    plan: Option<Planner>,
    /// A longer plan under way.
    moves: VecDeque<Move>,
    /// Searches behind it that may fail.
    insist: u8,
    /// Packets that were sent so that a goal can be hit.
    before: HashMap<Goal, u8>,
    back: Vec<(ElemId, ElemId)>,
    /// Role of slots: 0 to 3 as bindings have them.
    roles: Vec<Option<u8>>,
    now: Timestamp,
    warm_up: u64,
    /// Packets for goals that are left.
    budget: u64,
    /// Of these, packets that may be punted.
    punts: u64,
    /// Packets left in all.
    left: u64,
    made: u64,
    watching: bool,
    corners: Corners,
    /// The event under way is one of these.
    at_corner: bool,
}

impl Directed {
    /// Goals of a program, amid this traffic. `packets` in all.
    pub fn new(
        program: Arc<Program>,
        traffic: Traffic,
        ports: &[Port],
        seed: u64,
        packets: u64,
        start: Timestamp,
    ) -> Directed {
        let mut rng = Rng::new(seed ^ 0x00d1_5ec7);
        let ways = ways::ways(&program, &mut rng);
        let mut roles = vec![None; program.slots.len()];
        for step in (program.stages.iter())
            .flat_map(|s| &s.actions)
            .flat_map(|a| &a.steps)
        {
            if let Step::Bind { first, kind, .. } = step {
                let n = match kind {
                    BindKind::Addresses => 2,
                    _ => 4,
                };
                for i in 0..n {
                    if let Some(r) = roles.get_mut(usize::from(first.0) + i) {
                        *r = Some(i as u8);
                    }
                }
            }
        }
        let back = (ports.iter())
            .filter_map(|p| Some((p.source?, &p.sinks)))
            .flat_map(|(s, sinks)| sinks.iter().map(move |k| (*k, s)))
            .collect();
        let budget = packets - packets / 4;
        let (goals, reasons) = goals(&program, budget);
        Directed {
            coverage: Coverage::new(program.clone()),
            known: vec![Vec::new(); program.stages.len()],
            program,
            traffic,
            maker: Maker::default(),
            rng,
            indices: (ways.iter())
                .map(|w| (OnceCell::new(), vec![OnceCell::new(); w.len()]))
                .collect(),
            ways,
            goals,
            given_up: Vec::new(),
            round: 0,
            again: packets / AGAIN,
            current: None,
            follows: None,
            waiting: None,
            queue: VecDeque::new(),
            reasons,
            outlived: HashSet::new(),
            looks: LOOKS.saturating_add(packets.saturating_mul(LOOKS_PER_PACKET)),
            stop: Stop::default(),
            proved: None,
            plan: None,
            moves: VecDeque::new(),
            insist: 0,
            before: HashMap::new(),
            back,
            roles,
            now: start,
            warm_up: (packets / 10).min(6000),
            budget,
            punts: packets / PUNTS,
            left: packets,
            made: 0,
            watching: false,
            corners: Corners::default(),
            at_corner: false,
        }
    }

    /// With what is known of what can be reached: goals that cannot are left out, the others are planned with it. When
    /// the analysis is to stop, no goal is aimed at any more: what is left is traffic.
    pub fn with_proved(mut self, proved: Proved) -> Directed {
        self.stop = proved.reach.stop();
        let texts = self.traffic.hints().texts.clone();
        self.plan = Some(Planner::new(self.program.clone(), &proved.reach, texts));
        let never: HashSet<Key> = proved.never().map(|(k, _)| k).collect();
        self.goals.retain(|(g, _)| !never.contains(&g.key()));
        self.proved = Some(proved);
        self
    }

    /// With another bound on the rules that are looked at in searches for goals' packets, in all.
    pub fn with_looks(mut self, looks: u64) -> Directed {
        self.looks = looks;
        self
    }

    /// With the route tables that the program asks; behind [`Directed::with_proved`].
    pub fn with_tables(mut self, tables: Tables) -> Directed {
        self.plan = self.plan.map(|p| p.with_tables(tables.clone()));
        self.maker.tables = tables;
        self
    }

    /// What became of all goals; what is not shown yet to be unreachable is shown now, if it can be.
    pub fn account(&mut self, coverage: Coverage) -> Account {
        self.coverage = coverage;
        let mut all = Account::default();
        // those that packets were left for
        let waiting: HashSet<Goal> = match self.stop.asked() && self.left > 0 {
            true => (self.goals.iter().map(|g| g.0)).collect(),
            false => HashSet::new(),
        };
        for g in all_goals(&self.program) {
            let reached = self.reached(g);
            let verdict = match &mut self.proved {
                Some(p) if reached => p.known(g.key()),
                Some(p) => p.verdict(g.key()),
                None => Verdict::Unknown,
            };
            match (reached, verdict) {
                (true, Verdict::Never(why)) => all.wrong.push((g, why)),
                (true, _) => {}
                (false, Verdict::Never(why)) => all.never.push((g, why)),
                (false, _) => {
                    let reason = match self.reasons.get(&g) {
                        _ if self.outlived.contains(&g) => Reason::Outlived,
                        Some(r) => *r,
                        None if waiting.contains(&g) => Reason::Interrupted,
                        None => Reason::NotTried,
                    };
                    let list = all.missing.entry((g.side.is_some(), reason)).or_default();
                    list.push(g);
                }
            }
        }
        all
    }

    /// Frames made so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    fn reached(&self, g: Goal) -> bool {
        match g.side {
            None => self.coverage.rule_hit(g.stage, g.rule),
            Some((dim, side)) => self.coverage.side_hit(Side {
                stage: g.stage,
                rule: g.rule,
                dim,
                side,
            }),
        }
    }

    /// The filter of a goal, in the stage's terms.
    fn cube(&self, g: Goal) -> Option<Filter> {
        let rule = self.program.stages.get(g.stage)?.rules.get(g.rule)?;
        let mut f = rule.filter.clone();
        if let Some((dim, side)) = g.side {
            let (d, set) = f.0.get_mut(dim)?;
            let (v, _) = *sides(set, width(&self.program, *d)).get(side)?;
            *set = ValueSet::one(v);
        }
        Some(f)
    }

    /// A frame for a goal, without bindings.
    fn solve(&mut self, g: Goal) -> Result<(ElemId, Vec<u8>), Reason> {
        let goal = self.cube(g).ok_or(Reason::NoWay)?;
        let program = self.program.clone();
        let stage = program.stages.get(g.stage).ok_or(Reason::NoWay)?;
        let mut reason = Reason::NoWay;
        let ways = self.ways.get(g.stage).map_or(&[][..], |w| w);
        let (stage_index, way_indices) = self.indices.get(g.stage).ok_or(Reason::NoWay)?;
        // those that may take a packet of the goal's, in the stage's terms
        let mut before: Option<Vec<&Filter>> = None;
        for (n, w) in (ways.iter().enumerate())
            .filter(|(_, w)| !w.stateful)
            .take(WAYS_TRIED)
        {
            let Some((cube, _)) = w.map.narrow(&program, &goal, &w.cube) else {
                continue;
            };
            // mostly a packet that fits is one that no earlier rule takes
            if w.map.is_identity() {
                let own = way_indices
                    .get(n)
                    .map(|i| i.get_or_init(|| Index::new(w.earlier.iter())));
                let all =
                    stage_index.get_or_init(|| Index::new(stage.rules.iter().map(|r| &r.filter)));
                let rule = |i: usize| stage.rules.get(i).map(|r| &r.filter);
                for random in [false, true, true] {
                    let made = match random {
                        true => self.maker.random_frame(&cube, &mut self.rng),
                        false => self.maker.frame(&cube, &mut self.rng),
                    };
                    let Some(f) = made else { break };
                    let seen = Seen::arrive(&f, program.slots.len());
                    let taken = takes(all, &rule, g.rule, &seen)
                        || own.is_some_and(|i| takes(i, &|n| w.earlier.get(n), usize::MAX, &seen));
                    if !taken {
                        return Ok((w.source, f));
                    }
                }
            }
            if self.looks == 0 {
                reason = reason.max_by_hope(Reason::Budget);
                continue;
            }
            let before = before.get_or_insert_with(|| {
                let index =
                    stage_index.get_or_init(|| Index::new(stage.rules.iter().map(|r| &r.filter)));
                let mut all = Vec::new();
                index.overlapping(&goal, g.rule, &mut |i| {
                    let f = stage.rules.get(i).map(|r| &r.filter);
                    all.extend(f.filter(|f| !f.is_disjoint(&goal)));
                });
                all
            });
            let own: Vec<Filter>;
            let mut earlier: Vec<&Filter> = Vec::new();
            if let Some(index) = way_indices.get(n) {
                let index = index.get_or_init(|| Index::new(w.earlier.iter()));
                index.overlapping(&cube, w.earlier.len(), &mut |i| {
                    let f = w.earlier.get(i);
                    earlier.extend(f.filter(|f| !f.is_disjoint(&cube)));
                });
            }
            if w.map.is_identity() {
                earlier.extend(before.iter().filter(|f| !f.is_disjoint(&cube)));
            } else {
                own = (before.iter())
                    .filter_map(|f| match w.map.narrow(&program, f, &Filter::default()) {
                        Some((f, true)) => Some(f),
                        _ => None,
                    })
                    .filter(|f| !f.is_disjoint(&cube))
                    .collect();
                earlier.extend(&own);
            }
            let mut frame = None;
            let mut steps = SEARCH_STEPS;
            let (maker, rng) = (&self.maker, &mut self.rng);
            let mut gap = Gap {
                width: &|d| width(&program, d),
                tightened: &consistent,
                work: GAP_LOOKS * (earlier.len() + 1),
            };
            gap.find(&cube, &earlier, &mut |region| {
                frame = maker.frame(region, rng);
                frame.is_some()
            });
            let gaps = GAP_LOOKS * (earlier.len() + 1) - gap.work;
            self.looks = (self.looks).saturating_sub((1 + earlier.len() + gaps) as u64);
            if let Some(f) = frame {
                return Ok((w.source, f));
            }
            let found = uncovered(
                &cube,
                &earlier,
                &|d| width(&program, d),
                &mut steps,
                &mut |region| {
                    frame = maker.frame(region, rng);
                    frame.is_some()
                },
            );
            let looked = (SEARCH_STEPS - steps) * PER_STEP;
            self.looks = self.looks.saturating_sub(looked as u64);
            if let (Search::Found, Some(f)) = (found, frame) {
                return Ok((w.source, f));
            }
            reason = reason.max_by_hope(match found {
                Search::Covered => Reason::Covered,
                Search::TooLong => Reason::TooLong,
                _ => Reason::NoFrame,
            });
        }
        Err(reason)
    }

    /// A frame for a goal from one that came to the stage before; perhaps one that is to be answered first.
    fn vary_known(&mut self, g: Goal, attempt: u8) -> Option<(ElemId, Vec<u8>)> {
        let cube = self.cube(g)?;
        let program = self.program.clone();
        let list = self.known.get(g.stage)?;
        let k = list
            .get((usize::from(attempt) + self.rng.below(list.len())) % list.len().max(1))?
            .clone();
        // how conditions there are said here: by a way from the same source
        let way = self
            .ways
            .get(g.stage)?
            .iter()
            .find(|w| w.source == k.source)?;
        let (wanted, _) = way.map.narrow(&program, &cube, &Filter::default())?;
        let Some((source, forward)) = &k.forward else {
            let f = place(k.frame.clone(), &wanted, &mut self.rng, false)?;
            self.follows = k.answers.filter(|_| frame::same_destination(&k.frame, &f));
            return Some((k.source, f));
        };
        // what the answer's addresses and ports are to be, said about the frame that it answers
        let mut forward = forward.clone();
        let fv = frame::view(&forward)?;
        let rv = frame::view(&k.frame)?;
        let (net, t) = (rv.net as i32, rv.transport.map(|t| t as i32));
        let mut rest = Filter::default();
        for (d, set) in &wanted.0 {
            let role = match d {
                Dim::Slot(s) => self.roles.get(usize::from(s.0)).copied().flatten(),
                // the answer's source is the destination of what it answers
                Dim::Bits { bit, bits: 32 } if *bit == (net + 12) * 8 => Some(0),
                Dim::Bits { bit, bits: 16 } if Some(*bit) == t.map(|t| t * 8) => Some(2),
                _ => None,
            };
            let Some(role) = role else {
                if !matches!(d, Dim::Slot(_)) {
                    rest.narrow(*d, set, width(&program, *d));
                }
                continue;
            };
            let (at, n) = match role {
                0 => (fv.net + 16, 4),
                1 => (fv.net + 12, 4),
                2 => (fv.transport? + 2, 2),
                _ => (fv.transport?, 2),
            };
            let bytes = forward.get_mut(at..at + n)?;
            let now = bytes.iter().fold(0u128, |v, b| (v << 8) | u128::from(*b));
            if set.contains(now) || set.is_full(n as u8 * 8) {
                continue;
            }
            let set = set.intersect(&ValueSet::range(0, max_of(n as u8 * 8)));
            if set.is_empty() {
                return None;
            }
            let v = self.rng.value_of(&set).to_be_bytes();
            bytes.copy_from_slice(&v[16 - n..]);
        }
        frame::finish(&mut forward, Keep::default());
        self.waiting = Some(Waiting {
            goal: g,
            attempt,
            source: k.source,
            wanted: rest,
        });
        Some((*source, forward))
    }

    /// What was given up is tried again, if there is anything left to try it with: other packets have come meanwhile.
    fn try_again(&mut self) {
        if self.again == 0 || self.round >= ROUNDS {
            return;
        }
        self.round += 1;
        self.before.clear();
        let mut list = std::mem::take(&mut self.given_up);
        list.sort_unstable();
        list.dedup();
        for g in list {
            if self.stop.asked() {
                return;
            }
            let never = (self.proved.as_mut()).is_some_and(|p| p.verdict(g.key()).is_never());
            if !never && !self.reached(g) {
                self.goals.push_back((g, 2));
            }
        }
    }

    /// The next frame for a goal.
    fn pursue(&mut self) -> Option<(ElemId, Vec<u8>)> {
        if self.goals.is_empty() {
            self.try_again();
        }
        // bound: every goal is taken up a few times
        while !self.stop.asked()
            && let Some((g, attempt)) = self.goals.pop_front()
        {
            if self.reached(g) {
                continue;
            }
            if self.round > 0 {
                self.again = self.again.saturating_sub(1);
                if self.again == 0 {
                    self.goals.clear();
                    return None;
                }
            }
            if self.punts == 0 && g.side.is_some() && self.is_punted(g) {
                self.reasons.insert(g, Reason::Punts);
                continue;
            }
            // attempts in turn: from the filters, along paths with other bindings, then from frames that came there
            let stateless = (self.ways.get(g.stage)).is_some_and(|w| w.iter().any(|w| !w.stateful));
            let solved = match attempt < 2 && stateless {
                true => self.solve(g),
                false if stateless => Err(self.reasons.get(&g).copied().unwrap_or(Reason::NoWay)),
                false => Err(Reason::Binding),
            };
            match solved {
                Ok(f) => {
                    self.current = Some((g, attempt));
                    return Some(f);
                }
                Err(reason) => {
                    let old = self.reasons.get(&g).copied();
                    let reason = old.map_or(reason, |o| o.max_by_hope(reason));
                    self.reasons.insert(g, reason);
                    if let Some(p) = &mut self.proved
                        && attempt == 0
                        && p.verdict(g.key()).is_never()
                    {
                        continue;
                    }
                    if attempt % 3 != 2 {
                        if let Some(f) = self.planned(g, attempt) {
                            return Some(f);
                        }
                        if !self.moves.is_empty() {
                            return None;
                        }
                        // what was prepared at length is not given up at once
                        if self.insist > 0 {
                            self.insist -= 1;
                            self.goals.push_front((g, attempt));
                            continue;
                        }
                    }
                    if attempt < self.attempts(g)
                        && let Some(f) = self.vary_known(g, attempt)
                    {
                        if self.waiting.is_none() {
                            self.current = Some((g, attempt.max(2)));
                        }
                        return Some(f);
                    }
                    // there may be more known later
                    self.retry(g, attempt.max(1));
                }
            }
        }
        None
    }

    /// An attempt has failed: another one later, or in the next round.
    fn retry(&mut self, g: Goal, attempt: u8) {
        match attempt + 1 < self.attempts(g) {
            true => self.goals.push_back((g, attempt + 1)),
            false => self.given_up.push(g),
        }
    }

    /// Is what hits it handed over to the reference graph?
    fn is_punted(&self, g: Goal) -> bool {
        let Some(s) = self.program.stages.get(g.stage) else {
            return false;
        };
        let action = (s.rules.get(g.rule)).and_then(|r| s.actions.get(r.action.0 as usize));
        let inside = match g.side {
            Some((_, side)) => side % 2 == 0,
            None => true,
        };
        inside && action.is_some_and(|a| matches!(a.end, End::Punt { .. }))
    }

    /// How often a goal is tried: more often where an element must be found to let the first packet through.
    fn attempts(&self, g: Goal) -> u8 {
        let asks = self.plan.as_ref().is_some_and(|p| p.asks(g.stage));
        let nothing = self.known.get(g.stage).is_some_and(Vec::is_empty);
        match asks && nothing && g.side.is_none() {
            true => ASKED,
            false => ATTEMPTS,
        }
    }

    /// A frame for a goal along a path through bindings, or one that must come before it.
    fn planned(&mut self, g: Goal, attempt: u8) -> Option<(ElemId, Vec<u8>)> {
        let cube = self.cube(g)?;
        let plan = self.plan.as_mut()?;
        if plan.asks(g.stage) {
            plan.bases = (0..BASES).map(|_| self.traffic.fresh()).collect();
        }
        if self.looks == 0 {
            let old = self.reasons.get(&g).copied();
            let reason = old.map_or(Reason::Budget, |o| o.max_by_hope(Reason::Budget));
            self.reasons.insert(g, reason);
            return None;
        }
        plan.looks.set(self.looks);
        let shot = plan.shot(g.stage, g.rule, &cube, self.now, &mut self.rng);
        self.looks = plan.looks.get();
        let work = plan.work.take() / SEARCH;
        if self.round > 0 && shot.is_none() {
            self.again = self.again.saturating_sub(work);
        }
        if plan.outlived.take() {
            self.outlived.insert(g);
        }
        let shot = shot?;
        if shot.before {
            let n = self.before.entry(g).or_default();
            if *n >= MAX_BEFORE {
                return None;
            }
            *n += 1;
            self.goals.push_front((g, attempt));
            if !shot.moves.is_empty() {
                *n = n.saturating_add(MOVES);
                self.moves = shot.moves.into();
                self.insist = INSIST;
                return None;
            }
        } else {
            self.current = Some((g, attempt.max(2)));
        }
        Some((shot.source, shot.bytes))
    }

    fn event(&mut self, source: ElemId, bytes: Vec<u8>) -> Event {
        self.now = self.now + Timestamp(1000 * (1 + self.rng.below(8) as i64));
        Event::frame(self.now, source, bytes)
    }
}

/// Does one of the first `until` filters take a packet? Where a dimension's value is not known, it may.
fn takes<'a>(
    index: &Index,
    filter: &dyn Fn(usize) -> Option<&'a Filter>,
    until: usize,
    seen: &Seen,
) -> bool {
    let known = index
        .dims()
        .filter_map(|d| Some((d, ValueSet::one(seen.value(d)?))));
    let point = Filter(known.collect());
    let mut any = false;
    index.overlapping(&point, until, &mut |i| {
        any = any || filter(i).is_some_and(|f| seen.fits(f).is_ok());
    });
    any
}

impl Source for Directed {
    fn next(&mut self) -> Option<Event> {
        self.current = None;
        self.watching = false;
        self.at_corner = false;
        if self.left == 0 {
            return None;
        }
        if let Some((source, bytes, answers)) = self.corners.next() {
            self.at_corner = true;
            self.left -= 1;
            self.made += 1;
            return Some(Event {
                answers,
                ..self.event(source, bytes)
            });
        }
        if let Some(q) = self.queue.pop_front() {
            self.current = Some(q.goal);
            self.watching = true;
            self.left -= 1;
            self.made += 1;
            return Some(Event {
                answers: Some(q.answers),
                ..self.event(q.source, q.bytes)
            });
        }
        self.waiting = None;
        // bound: every move is taken once
        while let Some(m) = self.moves.pop_front() {
            match m {
                Move::Send(source, bytes) => {
                    self.watching = true;
                    self.left -= 1;
                    self.made += 1;
                    return Some(self.event(source, bytes));
                }
                Move::Wait(t) => {
                    self.now = self.now + t;
                    return Some(Event::clock(self.now));
                }
                Move::Clear(elem) => {
                    if let Some(p) = &mut self.plan {
                        p.cleared(elem);
                    }
                    return Some(Event::clear(self.now, elem));
                }
                Move::Keep(elem, old) => {
                    if let Some(p) = &mut self.plan {
                        p.kept(elem, old, self.now);
                    }
                }
            }
        }
        // further rounds are for amid the traffic
        let rest = !self.goals.is_empty() || !self.given_up.is_empty();
        let turn = self.round == 0 || self.rng.one_in(2);
        if self.warm_up == 0 && self.budget > 0 && rest && turn {
            self.budget -= 1;
            self.follows = None;
            if let Some((source, bytes)) = self.pursue() {
                self.watching = true;
                self.left -= 1;
                self.made += 1;
                return Some(Event {
                    answers: self.follows,
                    ..self.event(source, bytes)
                });
            }
        }
        let mut e = self.traffic.next()?;
        // one clock
        e.at = e.at.max(self.now);
        self.now = e.at;
        if e.source.is_some() {
            self.left -= 1;
            self.made += 1;
            self.watching = self.warm_up > 0 || self.rng.one_in(FOLLOW);
            self.warm_up = self.warm_up.saturating_sub(1);
        }
        Some(e)
    }

    fn watches(&self) -> bool {
        self.watching
    }

    fn seen(&mut self, events: &[Event], outputs: &Outputs, steps: &[ProgramStep]) {
        if self.at_corner {
            return;
        }
        if let ([e], false) = (events, outputs.is_empty()) {
            self.corners.seen(e, steps, self.made);
        }
        let forward = self.traffic.answered().map(|a| (a.source, a.frame.clone()));
        if let ([e], Some(w)) = (events, self.waiting.take()) {
            let sink = |k: ElemId| self.back.iter().any(|(s, b)| *s == k && *b == w.source);
            let found = outputs.iter().enumerate().find(|(_, (k, _, _))| sink(*k));
            let made = found.and_then(|(nth, (_, _, b))| {
                let a = place(frame::answer(b)?, &w.wanted, &mut self.rng, false)?;
                Some((a, (e.id, nth as u32)))
            });
            match made {
                Some((bytes, answers)) => self.queue.push_back(Queued {
                    source: w.source,
                    bytes,
                    goal: (w.goal, w.attempt.max(2)),
                    answers,
                }),
                None => self.retry(w.goal, w.attempt.max(1)),
            }
            let (plan, now) = (&mut self.plan, self.now);
            self.coverage.trace(&e.bytes, steps, &mut |step, seen| {
                if let Some(p) = plan {
                    p.note(step, seen, now);
                }
            });
        } else if let [e] = events
            && !steps.is_empty()
        {
            let source = e.source.unwrap_or(ElemId(0));
            let (known, rng) = (&mut self.known, &mut self.rng);
            let (plan, now) = (&mut self.plan, self.now);
            let from_traffic = self.current.is_none();
            self.coverage.trace(&e.bytes, steps, &mut |step, seen| {
                if let Some(p) = plan {
                    p.note(step, seen, now);
                }
                let Some(list) = known.get_mut(step.stage) else {
                    return;
                };
                let k = || Known {
                    source,
                    frame: e.bytes.clone(),
                    forward: forward.clone().filter(|_| from_traffic),
                    answers: e.answers,
                };
                if list.len() < MAX_KNOWN {
                    list.push(k());
                } else if from_traffic && rng.one_in(8) {
                    let n = list.len();
                    list[rng.below(n)] = k();
                }
            });
            let last = steps.last().and_then(|s| {
                let stage = self.program.stages.get(s.stage)?;
                let rule = stage.rules.get(s.rule?)?;
                stage.actions.get(rule.action.0 as usize)
            });
            if self.current.is_some() && last.is_some_and(|a| matches!(a.end, End::Punt { .. })) {
                self.punts = self.punts.saturating_sub(1);
            }
            if let Some((g, attempt)) = self.current.take()
                && !self.reached(g)
            {
                self.reasons.insert(g, Reason::Elsewhere);
                if let Some(p) = &mut self.plan {
                    p.missed();
                }
                self.retry(g, attempt);
            }
        }
        self.traffic.seen(events, outputs, &[]);
    }
}
