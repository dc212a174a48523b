//! Packets of a batch whose way is one stage and whose change is simple: all of it in one loop.
//!
//! What [`super::straight`] does for one packet is taken apart further here, when the program is loaded: an action's counts are lengths to be
//! summed, its image is bytes kept, bytes set and bytes counted down (a time to live), all written at once, and what those bytes add to checksums. No registers
//! are filled, nobody is called, and elements, drops and counters are told once for all packets of the batch that an action takes.
//! Whatever is more than that is left to be done as before.

mod ahead;
mod write;

use ahead::Ahead;
pub(super) use ahead::foresee;
pub(super) use write::Write;

use super::classify::NO_RULE;
use super::code::{Action, Code, End, Step};
use super::exec::State;
use super::image;
use super::later::Later;
use super::quick::WINDOW;
use super::regs::{Regs, end_of};
use super::report::Counts;
use super::straight;
use super::tied::{Tie, Written};
use super::wider::{Work, widely};
use crate::core::Core;
use crate::graph::Graph;
use onefold_elements::rewrite::{Binder, Tied};
use onefold_elements::{ElemId, Host, Outbox, StateStore};
use onefold_packet::{Packet, Pkt};
use onefold_synth::program::{EndAt, LenAt};
use std::vec::Drain;

/// Different lengths that one action counts, at most.
const LENGTHS: usize = 4;

#[derive(Debug, Clone)]
enum Fate {
    Leaves(u32, Box<Write>),
    Dropped,
    /// It leaves after it has been bound.
    Bound(Box<Tie>),
}

/// An action that is short.
#[derive(Debug, Clone)]
struct Short {
    /// Where packets end by their header, if that is asked.
    end: EndAt,
    /// Lengths that are summed: first byte, and whether to where the header says.
    lengths: [(i32, bool); LENGTHS],
    used: u8,
    /// All lengths begin in packets that are so long, and end there by their header.
    least: usize,
    /// Where the transport header begins, if the packet ends where the rewriter was told that it does.
    alike: Option<u32>,
    fate: Fate,
}

/// Packets of an action that have not been told of, and their lengths.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    packets: u64,
    /// Of those that are long enough for each length to begin in them: how many, their lengths, and those up to where the header says.
    whole: u64,
    lens: u64,
    ends: u64,
    /// Of the others.
    bytes: [u64; LENGTHS],
}

impl Tally {
    /// The sum of number `k` of an action's lengths.
    fn sum(&self, s: &Short, k: usize) -> u64 {
        let Some((start, by_header)) = s.lengths.get(k) else {
            return 0;
        };
        let all = if *by_header { self.ends } else { self.lens };
        let before = i64::from(*start) * self.whole as i64;
        self.bytes[k % LENGTHS] + (all as i64 - before) as u64
    }
}

/// Short actions by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Shorts {
    all: Box<[Option<Box<Short>>]>,
    tallies: Box<[Tally]>,
    /// Actions with packets.
    some: Vec<u32>,
    any: bool,
    ahead: Ahead,
}

/// Every length that an action counts, each once; `None` if there are too many of them, or of ends.
fn lengths(code: &Code, a: &Action, mut end: EndAt) -> Option<(EndAt, Vec<(i32, bool)>)> {
    let mut list = Vec::new();
    for s in a.steps.of(&code.steps) {
        // whoever is asked for a binding is asked about that elsewhere
        let Step::Count { len, .. } = s else {
            continue;
        };
        let by_header = len.end != EndAt::Same;
        if by_header && end != EndAt::Same && end != len.end {
            return None;
        }
        if by_header {
            end = len.end;
        }
        if !list.contains(&(len.start, by_header)) {
            list.push((len.start, by_header));
        }
    }
    (list.len() <= LENGTHS).then_some((end, list))
}

impl Short {
    fn of(code: &Code, a: &Action, waits: &[bool]) -> Option<Short> {
        let (end, fate) = match a.end {
            End::Output { image, .. } if !straight::is_straight(code, a, waits) => {
                let tie = Tie::of(code, a, waits)?;
                let end = match tie.write {
                    Written::Short(_) => code.images.get(image as usize)?.end,
                    Written::Image { .. } => EndAt::Same,
                };
                (end, Fate::Bound(Box::new(tie)))
            }
            _ if !straight::is_straight(code, a, waits) => return None,
            End::Output { sink, image } => {
                let m = code.images.get(image as usize)?;
                let w = Write::of(&code.sources, m, image, None)?;
                (m.end, Fate::Leaves(sink, Box::new(w)))
            }
            End::Drop { .. } => (EndAt::Same, Fate::Dropped),
            _ => return None,
        };
        let (end, list) = lengths(code, a, end)?;
        let mut all = [(0, false); LENGTHS];
        for (to, l) in all.iter_mut().zip(&list) {
            *to = *l;
        }
        Some(Short {
            end,
            lengths: all,
            used: list.len() as u8,
            least: list.iter().map(|l| l.0.max(0) as usize).max().unwrap_or(0),
            alike: match &fate {
                Fate::Bound(t) if t.end == end => Some(t.tuple.transport()),
                _ => None,
            },
            fate,
        })
    }

    /// Where a packet ends, if that is asked; `transport_len`: what the rewriter is told, if that is known.
    #[inline(always)]
    fn end(&self, p: &Packet, transport_len: Option<u32>) -> usize {
        match (self.end, transport_len, self.alike) {
            (EndAt::Same, ..) => p.len(),
            (_, Some(len), Some(from)) => (len + from) as usize,
            (e, ..) => end_of(e, p.buffer(), p.data_offset()) as usize,
        }
    }

    /// Is a packet that ends here long enough for what is written when it has been bound?
    #[inline(always)]
    fn fits(&self, tie: &Tie, p: &Packet, end: usize) -> bool {
        match &tie.write {
            Written::Short(w) => {
                (if w.trim { end } else { p.len() }) >= w.least && p.window::<WINDOW>().is_some()
            }
            Written::Image { .. } => true,
        }
    }

    /// One more packet.
    #[inline(always)]
    fn tally(&self, t: &mut Tally, len: usize, end: usize) {
        t.packets += 1;
        if end.min(len) >= self.least {
            t.whole += 1;
            t.lens += len as u64;
            t.ends += end as u64;
        } else {
            self.tally_short(t, len, end);
        }
    }
    #[cold]
    fn tally_short(&self, t: &mut Tally, len: usize, end: usize) {
        for ((start, by_header), to) in self.lengths.iter().zip(&mut t.bytes).take(self.used.into())
        {
            let end = if *by_header { end } else { len };
            *to += u64::try_from(end as i64 - i64::from(*start)).unwrap_or(0);
        }
    }

    fn length(&self, of: &LenAt) -> Option<usize> {
        let of = (of.start, of.end != EndAt::Same);
        self.lengths.iter().position(|l| *l == of)
    }
}

impl Shorts {
    /// `waits`: by number of what is counted.
    pub fn new(code: &Code, waits: &[bool]) -> Shorts {
        let short = |a: &Action| Short::of(code, a, waits).map(Box::new);
        let all: Box<[_]> = code.actions.iter().map(short).collect();
        Shorts {
            any: all.iter().any(|s| s.is_some()),
            tallies: vec![Tally::default(); all.len()].into(),
            some: Vec::new(),
            ahead: Ahead::default(),
            all,
        }
    }

    /// Everybody is told of what has been tallied.
    #[inline(never)]
    fn tell(&mut self, code: &Code, later: &mut Later, out: &mut Outbox) {
        while let Some(number) = self.some.pop() {
            let i = number as usize;
            let tally = self.tallies.get_mut(i).map(std::mem::take);
            let short = self.all.get(i).and_then(|s| s.as_ref());
            let (Some(t), Some(s), Some(a)) = (tally, short, code.actions.get(i)) else {
                continue;
            };
            for step in a.steps.of(&code.steps) {
                if let Step::Count { len, number, .. } = step {
                    let bytes = s.length(len).map_or(0, |k| t.sum(s, k));
                    later.add_all(*number, t.packets, bytes);
                }
            }
            match a.end {
                End::Drop { elem, reason } => out.count_drops(ElemId(elem), reason, t.packets),
                _ => out.sent += t.packets,
            }
        }
    }
}

/// May packets be carried out here at all?
fn may(st: &State, g: &Graph) -> bool {
    st.later.shorts.any
        && st.later.gathering
        && st.recorder.is_none()
        && st.watched.is_none()
        && st.path.is_none()
        // a rewriter says what it decides
        && g.core.trace.is_none()
        && g.core.is_quiet()
}

/// Carries out packets with their rules of a stage, as far as they are short: up to the first that is not, which comes back with its rule.
/// `count`: packets that were.
pub(super) fn run(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    first_rule: u32,
    packets: &mut Left<'_>,
    count: &mut u64,
) -> Option<Next> {
    if !may(st, g) {
        return packets.next();
    }
    let mut shorts = std::mem::take(&mut st.later.shorts);
    let (n, back) = widely(Run {
        code,
        shorts: &mut shorts,
        counts: &mut st.counts,
        later: &mut st.later,
        regs: &mut st.regs,
        core: &mut g.core,
        store: &mut g.store,
        out: &mut g.out,
        first_rule,
        packets,
    });
    *count += n;
    g.packets_in += n;
    g.core.steps = 1;
    g.core.batch_tasks = false;
    if !shorts.some.is_empty() {
        shorts.tell(code, &mut st.later, &mut g.out);
    }
    st.later.shorts = shorts;
    back
}

/// What [`run`] goes through.
struct Run<'a, 'p> {
    code: &'a Code,
    shorts: &'a mut Shorts,
    counts: &'a mut Counts,
    later: &'a mut Later,
    regs: &'a mut Regs,
    core: &'a mut Core,
    store: &'a mut StateStore,
    out: &'a mut Outbox,
    first_rule: u32,
    packets: &'a mut Left<'p>,
}

/// A packet of a batch, with its rule and its number.
pub(super) type Next = (Pkt, u32, usize);

/// The packets of a batch that are left, with their rules.
pub(super) struct Left<'a> {
    packets: Drain<'a, Pkt>,
    rules: &'a [u32],
    /// The number of the next one.
    next: usize,
}

impl<'a> Left<'a> {
    /// All of them; who has no rule has none that takes it.
    pub fn new(packets: Drain<'a, Pkt>, rules: &'a [u32]) -> Left<'a> {
        Left {
            packets,
            rules,
            next: 0,
        }
    }
}

impl Iterator for Left<'_> {
    type Item = Next;
    #[inline(always)]
    fn next(&mut self) -> Option<Next> {
        let p = self.packets.next()?;
        let i = self.next;
        self.next += 1;
        Some((p, self.rules.get(i).map_or(NO_RULE, |r| *r), i))
    }
}

impl Work for Run<'_, '_> {
    /// How many packets, and the first that is not short.
    type Out = (u64, Option<Next>);

    #[inline(always)]
    fn run(self) -> Self::Out {
        let (code, shorts, out) = (self.code, self.shorts, self.out);
        let (core, store) = (self.core, self.store);
        // of the input that was the last one
        let mut binder: Option<((u32, u16), Binder<'_>)> = None;
        let mut n = 0;
        let packets = self.packets;
        let Shorts {
            all,
            tallies,
            some,
            ahead,
            ..
        } = shorts;
        while let Some((mut p, rule, i)) = packets.next() {
            let at = self.first_rule.saturating_add(rule) as usize;
            let number = code.rule_action.get(at).map_or(usize::MAX, |a| *a as usize);
            let (Some(Some(s)), Some(t)) = (all.get(number), tallies.get_mut(number)) else {
                return (n, Some((p, rule, i)));
            };
            let len = p.len();
            // what was asked for is as it was then: packets' bytes are their own
            let foreseen = match &s.fate {
                Fate::Bound(t) => ahead.of((t.elem, t.port), i),
                _ => None,
            };
            let end = s.end(&p, foreseen.and_then(|c| c.transport_len(i)));
            if let Fate::Leaves(_, w) = &s.fate
                && ((if w.trim { end } else { len }) < w.least || p.window::<WINDOW>().is_none())
            {
                return (n, Some((p, rule, i)));
            }
            let mut bound = None;
            if let Fate::Bound(tie) = &s.fate {
                let place = (tie.elem, tie.port);
                if binder.as_ref().is_none_or(|b| b.0 != place) {
                    let elem = core.nodes.get(tie.elem as usize);
                    let elem = elem.and_then(|n| n.elem.as_ref());
                    let made = elem.and_then(|e| e.binder(usize::from(tie.port), &mut *store));
                    binder = made.map(|b| (place, b));
                }
                let Some((_, b)) = binder.as_mut() else {
                    return (n, Some((p, rule, i)));
                };
                let now = core.now;
                let made = ahead.bind(place, i, b, now);
                if made > 0
                    && let Some(c) = ahead.of(place, i)
                {
                    // all of them now: what has been found out about them is not asked again
                    let mut next = Some((p, rule, i));
                    for _ in 0..made {
                        let Some((mut p, rule, i)) = next.take().or_else(|| packets.next()) else {
                            break;
                        };
                        let at = self.first_rule.saturating_add(rule) as usize;
                        let number = ahead.number(i);
                        let (Some(Some(s)), Some(t)) = (all.get(number), tallies.get_mut(number))
                        else {
                            return (n, Some((p, rule, i)));
                        };
                        let Fate::Bound(tie) = &s.fate else {
                            return (n, Some((p, rule, i)));
                        };
                        n += 1;
                        if t.packets == 0 {
                            some.push(number as u32);
                        }
                        let len = p.len();
                        let end = s.end(&p, c.transport_len(i));
                        s.tally(t, len, end);
                        self.counts.class(at, len);
                        tie.carry_out(code, self.regs, &c.binding(i), &mut p, end);
                        out.transmitted.push((ElemId(tie.sink), p));
                    }
                    continue;
                }
                if !s.fits(tie, &p, end) {
                    return (n, Some((p, rule, i)));
                }
                let asked = match ahead.of(place, i).and_then(|c| c.get(i)) {
                    Some(a) => a,
                    None => match tie.flow(&p).and_then(|f| b.ask(f)) {
                        Some(a) => a,
                        None => return (n, Some((p, rule, i))),
                    },
                };
                let draw = || core.random(ElemId(tie.elem));
                bound = match b.bind(&asked, &tie.wanted, now, draw) {
                    Tied::Ask => return (n, Some((p, rule, i))),
                    Tied::To(b) => Some(b),
                    Tied::Drop(reason) => {
                        n += 1;
                        self.counts.class(at, len);
                        let steps = code.actions.get(number).map(|a| a.steps.of(&code.steps));
                        for s in steps.unwrap_or_default().iter().take(tie.before) {
                            if let Step::Count { len, number, .. } = s {
                                self.later.add(*number, image::length(*len, &p));
                            }
                        }
                        out.drop(ElemId(tie.elem), reason, p);
                        continue;
                    }
                };
            }
            n += 1;
            if t.packets == 0 {
                some.push(number as u32);
            }
            s.tally(t, len, end);
            self.counts.class(at, len);
            match &s.fate {
                Fate::Leaves(sink, w) => {
                    if w.trim {
                        p.keep(end);
                    }
                    if let Some(bytes) = p.window_mut() {
                        w.apply(bytes);
                    }
                    w.mark(code, &mut p);
                    out.transmitted.push((ElemId(*sink), p));
                }
                Fate::Dropped => out.pool.recycle(p),
                Fate::Bound(tie) => {
                    let Some(b) = bound else { continue };
                    tie.carry_out(code, self.regs, &b, &mut p, end);
                    out.transmitted.push((ElemId(tie.sink), p));
                }
            }
        }
        (n, None)
    }
}
