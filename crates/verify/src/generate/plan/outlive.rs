//! Flows that some rewriters outlive: one forgets a flow while others keep it, and then another flow begins there whose
//! packets look like the answers to the first.
//!
//! A rewriter forgets by itself what is silent or has ended, but that mostly goes for the others, too: what comes to
//! the one comes to them. What sets it apart is an end that only it sees, or packets that refresh the others from
//! outside; beyond two rewriters in a row there is no such thing for UDP. What does it anywhere is an operator who
//! clears the one's table.

use super::super::paths::{Answer, Passed, Path, narrow};
use super::belong::Need;
use super::{Move, Planner, SEARCH_STEPS, Shot};
use crate::cubes::{left, tightened, values};
use crate::frame::{self, Keep};
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::ValueSet;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, Filter, Slot};

/// Longest that a rewriter remembers a connection that has ended, or a flow without packets: time-out and a whole
/// interval of its sweep.
const CLOSED: Timestamp = Timestamp::from_secs(1250);

/// Pauses that are shorter than any time-out, and as many as make up for that.
const PAUSE: Timestamp = Timestamp::from_secs(170);

/// See [`PAUSE`].
const KEEPS: usize = 8;

/// One in so many times a rewriter forgets by itself; else it is made to.
const NATURAL: usize = 3;

/// Places tried for a packet that refreshes a flow.
const REFRESH: usize = 24;

/// A flow that cannot begin: its packets look like the answers to another one, which one rewriter is to forget and
/// others are to keep.
pub(super) struct Conflict {
    pub need: Need,
    pub path: Path,
    /// The goal's packets, and the rewriters on the path before the one that is to forget.
    pub cube: Filter,
    pub before: usize,
}

impl Planner {
    /// Lets a rewriter forget a flow that those before it on the path keep, and begins one there whose packets look
    /// like its answers.
    pub(super) fn outlive(&self, c: Conflict, now: Timestamp, rng: &mut Rng) -> Option<Shot> {
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
        if !rng.one_in(NATURAL) {
            moves.push(Move::Clear(c.need.elem));
            moves.push(Move::Send(begin.source, begin.bytes.clone()));
            return Some(Shot {
                source: begin.source,
                bytes: begin.bytes,
                before: true,
                moves,
            });
        }
        let tcp = c.need.proto.single() == Some(6);
        let flags = |f: &[u8], flags: u8| {
            let mut f = f.to_vec();
            let t = frame::view(&f).and_then(|v| v.transport)?;
            *f.get_mut(t + 13)? = flags;
            frame::finish(&mut f, Keep::default());
            Some(f)
        };
        // packets that belong to the flows, but do not come to the rewriter that is to forget
        let keep: Option<Vec<Move>> = (kept.iter())
            .map(|(elem, old)| {
                let (source, bytes) = self.refresh(*elem, old, &c.need.proto, rng)?;
                Some(Move::Send(source, bytes))
            })
            .collect();
        if tcp {
            // data both ways, so that the others remember it for long; then an end that only the one sees
            let cube = tightened(&self.as_expected(&c.path, c.cube.clone())?, None)?;
            let answer = self.maker.random_frame(&cube, rng)?;
            moves.push(Move::Send(c.path.source, flags(&answer, 0x18)?));
            moves.push(Move::Send(begin.source, flags(&begin.bytes, 0x14)?));
        }
        match keep {
            Some(keep) if !tcp || rng.one_in(2) => {
                moves.extend(keep.iter().cloned());
                for _ in 0..KEEPS {
                    moves.push(Move::Wait(PAUSE));
                    moves.extend(keep.iter().cloned());
                }
            }
            _ if tcp => moves.push(Move::Wait(CLOSED)),
            _ => return None,
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
    pub(super) fn refresh(
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
            let earlier = path.earlier(p, &self.said, &cube, None);
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

    /// A rewriter has no flows any more.
    pub fn cleared(&mut self, elem: ElemId) {
        self.flows.remove(&elem);
    }

    /// A flow is still known to its rewriter.
    pub fn kept(&mut self, elem: ElemId, old: [u128; 4], now: Timestamp) {
        let list = self.flows.get_mut(&elem);
        if let Some(f) = list.and_then(|l| l.iter_mut().find(|f| f.old == old)) {
            f.at = now;
        }
    }
}
