//! Packets for the places where program and models part: paths there are planned backwards, flows that they need begin
//! before.

use super::Doubt;
use super::outlast::{self, Came};
use super::seek::Seek;
use super::witness::{Evidence, Look, START, Shown};
use crate::event::{Event, Record};
use crate::frame;
use crate::generate::Port;
use crate::generate::coverage::Coverage;
use crate::generate::hints::Hints;
use crate::generate::plan::{Move, Planner};
use crate::generate::traffic::Traffic;
use crate::reach::{Facts, Reach};
use crate::rng::Rng;
use crate::{At, Pair, Reference, Synthesized};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::program::{LoadError, ProgramRunner};
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_synth::program::Filter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Frames sent for one filter, those that must come before included.
const SHOTS: usize = 24;
/// Times that nothing can be planned for it.
const MISSES: usize = 4;
/// Rules whose packets are tried, of a place.
const RULES: usize = 4;
/// Rounds over all filters, with other paths and flows.
const ROUNDS: u64 = 3;
/// Frames of traffic that elements that are asked may let pass.
const BASES: usize = 8;
/// The clock goes on by so much between frames.
const STEP: Timestamp = Timestamp(5_000);
/// And by so much between filters: what bounds a rate lets packets pass again. Mostly it is that of ICMP errors, which
/// quote what came and may be all that shows it. All of a round together is less than the time-outs of rewriters.
const REST: Timestamp = Timestamp(200_000_000);

/// Frames to be sent: entry, bytes, and the output that they answer.
type Queue = VecDeque<(ElemId, Vec<u8>, Option<(u64, u32)>)>;

pub(super) struct Chase<'a> {
    pristine: Pair,
    pub(super) pair: Pair,
    pub(super) record: Record,
    planner: Planner,
    coverage: Coverage,
    seeks: Vec<(&'a Doubt, &'a Seek)>,
    rng: Rng,
    pub(super) now: Timestamp,
    back: Vec<(ElemId, ElemId)>,
    /// Places where packets enter.
    pub(super) entries: usize,
    /// Packets that came to a place where a rewriter is asked, and showed nothing.
    came: Vec<Came>,
    /// Places (stage, action) of these.
    tried: Vec<(usize, u32)>,
    shrink_time: Duration,
    go_on: &'a mut dyn FnMut(At) -> bool,
}

/// Looks for packets at the places that the differences name.
///
/// # Errors
/// When the program is not one for this graph.
pub fn chase(
    graph: &Graph,
    program: &Program,
    ports: &[Port],
    different: &[Doubt],
    how: &Look,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Result<Option<Shown>, LoadError> {
    let seeks: Vec<(&Doubt, &Seek)> = (different.iter())
        .flat_map(|d| d.seeks.iter().map(move |s| (d, s)))
        .collect();
    if seeks.is_empty() {
        return Ok(None);
    }
    let runner = ProgramRunner::with_program(graph.fork(), program)?;
    let pristine = Pair::new(
        Box::new(Reference(graph.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let shared = Arc::new(program.clone());
    let reach = Reach::of(shared.clone(), &Facts::of(graph.spec(), program));
    let hints = Hints::of(graph.spec());
    let mut planner = Planner::new(shared.clone(), &reach, hints.texts.clone());
    if let Some(mut t) = Traffic::new(ports, hints, how.seed, 1_000, START, 1) {
        planner.bases = (0..BASES).map(|_| t.fresh()).collect();
    }
    let mut c = Chase {
        pair: pristine.fork(),
        pristine,
        record: Record::default(),
        planner,
        coverage: Coverage::new(shared),
        seeks,
        rng: Rng::new(how.seed),
        now: START,
        back: (ports.iter())
            .filter_map(|p| Some((p.source?, &p.sinks)))
            .flat_map(|(s, sinks)| sinks.iter().map(move |k| (*k, s)))
            .collect(),
        entries: ports.iter().filter(|p| p.source.is_some()).count(),
        came: Vec::new(),
        tried: Vec::new(),
        shrink_time: how.shrink_time,
        go_on,
    };
    c.pair.keep_printed();
    let mut sent = 0;
    for _ in 0..ROUNDS {
        for i in 0..c.seeks.len() {
            let Some((_, seek)) = c.seeks.get(i).copied() else {
                continue;
            };
            // in the end, whatever comes there
            let p = c.coverage.program().clone();
            let rules = p
                .stages
                .get(seek.stage.0 as usize)
                .map_or(&[][..], |s| &s.rules);
            let mine = rules.iter().filter(|r| Some(r.action.0) == seek.action);
            let all = seek.wants.iter().chain(mine.take(RULES).map(|r| &r.filter));
            for want in all {
                if let Some(s) = c.wait(REST).or_else(|| c.pursue(seek, want)) {
                    return Ok(Some(s));
                }
                sent += 1;
                if !(c.go_on)(At::Packets(sent)) {
                    return Ok(None);
                }
            }
        }
        if let Some(s) = c.checkpoint() {
            return Ok(Some(s));
        }
        for came in std::mem::take(&mut c.came) {
            if let Some(s) = c.outlast(&came) {
                return Ok(Some(s));
            }
        }
    }
    Ok(None)
}

impl Chase<'_> {
    /// One filter: frames that it needs, then some that fit, again, and what answers them.
    fn pursue(&mut self, seek: &Seek, want: &Filter) -> Option<Shown> {
        let stage = seek.stage.0 as usize;
        let mut misses = 0;
        for _ in 0..SHOTS {
            let shot = self.planner.shot(stage, 0, want, self.now, &mut self.rng);
            let Some(shot) = shot else {
                misses += 1;
                if misses >= MISSES {
                    break;
                }
                continue;
            };
            if !shot.moves.is_empty() {
                if let Some(s) = self.moves(shot.moves) {
                    return Some(s);
                }
                continue;
            }
            let mut queue: Queue = VecDeque::from([(shot.source, shot.bytes.clone(), None)]);
            if !shot.before {
                queue.push_back((shot.source, shot.bytes, None));
            }
            // Bound: answers are not answered.
            while let Some((source, bytes, answers)) = queue.pop_front() {
                let first = answers.is_none() && !shot.before;
                if let Some(s) = self.send(source, bytes, answers, first, &mut queue) {
                    return Some(s);
                }
            }
            if !shot.before {
                if let Some(s) = self.checkpoint() {
                    return Some(s);
                }
                misses += 1;
                if misses >= MISSES {
                    break;
                }
            }
        }
        None
    }

    /// A longer plan.
    fn moves(&mut self, moves: Vec<Move>) -> Option<Shown> {
        let mut queue = Queue::new();
        for m in moves {
            match m {
                Move::Send(source, bytes) => {
                    if let Some(s) = self.send(source, bytes, None, false, &mut queue) {
                        return Some(s);
                    }
                }
                Move::Wait(t) => {
                    if let Some(s) = self.wait(t) {
                        return Some(s);
                    }
                }
                Move::Clear(elem) => {
                    self.planner.cleared(elem);
                    if let Some(s) = self.happens(Event::clear(self.now, elem)) {
                        return Some(s);
                    }
                }
                Move::Keep(elem, old) => self.planner.kept(elem, old, self.now),
            }
        }
        None
    }

    /// The clock moves.
    pub(super) fn wait(&mut self, by: Timestamp) -> Option<Shown> {
        self.now = self.now + by;
        self.happens(Event::clock(self.now))
    }

    /// Something happens that is no packet.
    fn happens(&mut self, mut e: Event) -> Option<Shown> {
        self.record.push(&mut e);
        let d = self.pair.step(&e)?;
        Some(self.seen(d))
    }

    pub(super) fn send(
        &mut self,
        source: ElemId,
        bytes: Vec<u8>,
        answers: Option<(u64, u32)>,
        answered: bool,
        queue: &mut Queue,
    ) -> Option<Shown> {
        self.now = self.now + STEP;
        let mut e = Event {
            answers,
            ..Event::frame(self.now, source, bytes)
        };
        self.record.push(&mut e);
        self.pair.right.watch();
        let found = self.pair.step(&e);
        let steps = self.pair.right.watched();
        if let Some(d) = found {
            return Some(self.seen(d));
        }
        let (planner, now, seeks) = (&mut self.planner, self.now, &self.seeks);
        let mut hit = None;
        let mut at: Vec<(usize, u32, ElemId)> = Vec::new();
        let program = self.coverage.program().clone();
        self.coverage.trace(&e.bytes, &steps, &mut |step, seen| {
            planner.note(step, seen, now);
            let action = step.rule.and_then(|r| {
                let stage = program.stages.get(step.stage)?;
                Some(stage.rules.get(r)?.action.0)
            });
            for (d, s) in seeks {
                if s.stage.0 as usize == step.stage && s.action == action && s.certain(seen) {
                    hit.get_or_insert_with(|| (*d).clone());
                }
                if s.stage.0 as usize == step.stage && s.action == action {
                    at.extend(s.action.map(|a| (step.stage, a, d.elem)));
                }
            }
        });
        for (stage, action, asked) in at {
            let mine = self.tried.iter().filter(|t| **t == (stage, action)).count();
            if mine < outlast::TRIES {
                self.tried.push((stage, action));
                self.came.push(Came::of(source, &e.bytes, &steps, asked));
            }
        }
        if let Some(d) = hit {
            // bytes, or drops and states, may show it, too
            if let Some(s) = self.checkpoint() {
                return Some(s);
            }
            return Some(Shown {
                events: self.record.range(0, self.record.len()),
                evidence: Evidence::Certain(d),
            });
        }
        if answered {
            let (_, outputs) = self.pair.last();
            for (n, (sink, _, b)) in outputs.iter().enumerate() {
                let to = self.back.iter().find(|(k, _)| *k == sink);
                if let (Some((_, to)), Some(a)) = (to, frame::answer(b)) {
                    queue.push_back((*to, a, Some((e.id, n as u32))));
                }
            }
        }
        None
    }

    pub(super) fn checkpoint(&mut self) -> Option<Shown> {
        if let Some(d) = self.pair.checkpoint() {
            return Some(self.seen(d));
        }
        let d = self.pair.printed()?;
        Some(Shown {
            events: self.record.range(0, self.record.len()),
            evidence: Evidence::Seen(d),
        })
    }

    fn seen(&mut self, d: crate::Difference) -> Shown {
        let f = crate::examine(
            &self.pristine,
            &self.record,
            d,
            self.shrink_time,
            self.go_on,
        );
        match f.small {
            Some(s) => Shown {
                events: s.events,
                evidence: Evidence::Seen(s.difference),
            },
            None => Shown {
                events: self.record.range(0, self.record.len()),
                evidence: Evidence::Seen(f.difference),
            },
        }
    }
}
