//! Packets of a batch whose way is one stage and whose change is simple: all of it in one loop.
//!
//! What [`crate::program::exec::fast_exec`] does for one packet is taken apart further here, when the program is loaded: an action's counts are lengths to be
//! summed, its image is bytes kept, bytes set and bytes counted down (a time to live), all written at once, and what those bytes add to checksums. No registers
//! are filled, nobody is called, and elements, drops and counters are told once for all packets of the batch that an action takes.
//! Whatever is more than that is left to be done as before.

pub(crate) mod prepare;
pub(crate) mod tally;

use crate::program::exec::batch_exec::prepare::Prepared;
pub(crate) use crate::program::rewrite::window_write::Write;

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::graph::rule_counts::RuleLedger;
use crate::program::code::{Action, Code, Cut, End, Step};
use crate::program::exec::batch_exec::tally::{Lengths, Tally};
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::fast_exec;
use crate::program::exec::general;
use crate::program::exec::general::State;
use crate::program::exec::nat_action::{NatAction, NatWrite};
use crate::program::headers::registers::{Regs, end_of};
use crate::program::lookup::tree::NO_RULE;
use crate::program::rewrite::image;
use crate::simd::dispatch::{Work, widely};
use onefold_elements::rewrite::{Binder, Tied};
use onefold_elements::{ElemId, Host, Outbox, StateStore};
use onefold_packet::{Packet, Pkt};
use onefold_synth::program::EndAt;
use std::vec::Drain;

#[derive(Debug, Clone)]
enum Outcome {
    Leaves(u32, Box<Write>),
    Dropped,
    /// It leaves after it has been bound.
    Bound(Box<NatAction>),
}

/// An action that is short.
#[derive(Debug, Clone)]
struct BatchAction {
    /// Where packets end by their header, if that is asked.
    end: EndAt,
    /// Lists of rules have seen packets end there.
    cut: bool,
    /// Lengths that are summed.
    lengths: Lengths,
    /// Where the transport header begins, if the packet ends where the rewriter was told that it does.
    alike: Option<u32>,
    outcome: Outcome,
}

/// BatchAction actions by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchActions {
    all: Box<[Option<Box<BatchAction>>]>,
    tallies: Box<[Tally]>,
    /// Actions with packets.
    some: Vec<u32>,
    any: bool,
    prepared: Prepared,
}

/// Every length that an action counts; `None` if there are too many of them, or of ends.
fn lengths(code: &Code, a: &Action, mut end: EndAt) -> Option<(EndAt, Lengths)> {
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
        list.push((len.start, by_header));
    }
    match a.cut {
        Cut::No => {}
        Cut::At(e) if end == EndAt::Same || end == e => end = e,
        Cut::At(_) | Cut::Several => return None,
    }
    Some((end, Lengths::of(list)?))
}

impl BatchAction {
    fn of(code: &Code, a: &Action, waits: &[bool]) -> Option<BatchAction> {
        let (end, outcome) = match a.end {
            End::Output { image, .. } if !fast_exec::is_fast(code, a, waits) => {
                let nat = NatAction::of(code, a, waits)?;
                let end = match nat.write {
                    NatWrite::BatchAction(_) => code.images.get(image as usize)?.end,
                    NatWrite::Image { .. } => EndAt::Same,
                };
                (end, Outcome::Bound(Box::new(nat)))
            }
            _ if !fast_exec::is_fast(code, a, waits) => return None,
            End::Output { sink, image } => {
                let m = code.images.get(image as usize)?;
                let w = Write::of(&code.sources, m, image, None)?;
                (m.end, Outcome::Leaves(sink, Box::new(w)))
            }
            End::Drop { .. } => (EndAt::Same, Outcome::Dropped),
            _ => return None,
        };
        let (end, lengths) = lengths(code, a, end)?;
        Some(BatchAction {
            end,
            cut: a.cut != Cut::No,
            lengths,
            alike: match &outcome {
                Outcome::Bound(t) if t.end == end => Some(t.tuple.transport()),
                _ => None,
            },
            outcome,
        })
    }

    /// A packet of so many bytes that ends here is counted with its rule.
    #[inline(always)]
    fn count(&self, ledger: &mut RuleLedger, rule: usize, len: usize, end: usize) {
        ledger.class(rule, len);
        if self.cut && end < len {
            ledger.padded(rule, len - end);
        }
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
    fn fits(&self, nat: &NatAction, p: &Packet, end: usize) -> bool {
        match &nat.write {
            NatWrite::BatchAction(w) => w.fits(p, end),
            NatWrite::Image { .. } => true,
        }
    }
}

impl BatchActions {
    /// `waits`: by number of what is counted.
    pub fn new(code: &Code, waits: &[bool]) -> BatchActions {
        let batch_action = |a: &Action| BatchAction::of(code, a, waits).map(Box::new);
        let all: Box<[_]> = code.actions.iter().map(batch_action).collect();
        BatchActions {
            any: all.iter().any(|s| s.is_some()),
            tallies: vec![Tally::default(); all.len()].into(),
            some: Vec::new(),
            prepared: Prepared::default(),
            all,
        }
    }

    /// Everybody is told of what has been tallied.
    #[inline(never)]
    fn tell(&mut self, code: &Code, deferred: &mut DeferredCounters, out: &mut Outbox) {
        while let Some(number) = self.some.pop() {
            let i = number as usize;
            let tally = self.tallies.get_mut(i).map(std::mem::take);
            let batch_action = self.all.get(i).and_then(|s| s.as_ref());
            let (Some(t), Some(s), Some(a)) = (tally, batch_action, code.actions.get(i)) else {
                continue;
            };
            for step in a.steps.of(&code.steps) {
                if let Step::Count { len, number, .. } = step {
                    let bytes = s.lengths.sum(&t, len);
                    deferred.add_all(*number, t.packets, bytes);
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
    st.deferred.batch_actions.any
        && st.deferred.gathering
        && st.recorder.is_none()
        && st.watched.is_none()
        && st.path.is_none()
        // a rewriter says what it decides
        && g.core.trace.is_none()
        && g.core.is_quiet()
}

/// Carries out packets with their rules of a stage, as far as they are short: up to the first that is not, which comes back with its rule.
/// `count`: packets that were.
pub(crate) fn run(
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
    // nobody reads what it knows before the loop ends
    let Some(mut ledger) = g.core.rules.take() else {
        return packets.next();
    };
    let mut batch_actions = std::mem::take(&mut st.deferred.batch_actions);
    let (n, back) = widely(Run {
        code,
        batch_actions: &mut batch_actions,
        ledger: &mut ledger,
        deferred: &mut st.deferred,
        regs: &mut st.regs,
        core: &mut g.core,
        store: &mut g.store,
        out: &mut g.out,
        first_rule,
        packets,
    });
    g.core.rules = Some(ledger);
    *count += n;
    g.packets_in += n;
    g.core.steps = 1;
    if !batch_actions.some.is_empty() {
        batch_actions.tell(code, &mut st.deferred, &mut g.out);
    }
    st.deferred.batch_actions = batch_actions;
    back
}

/// What [`run`] goes through.
struct Run<'a, 'p> {
    code: &'a Code,
    batch_actions: &'a mut BatchActions,
    ledger: &'a mut RuleLedger,
    deferred: &'a mut DeferredCounters,
    regs: &'a mut Regs,
    core: &'a mut Core,
    store: &'a mut StateStore,
    out: &'a mut Outbox,
    first_rule: u32,
    packets: &'a mut Left<'p>,
}

/// A packet of a batch, with its rule and its number.
pub(crate) type Next = (Pkt, u32, usize);

/// The packets of a batch that are left, with their rules.
pub(crate) struct Left<'a> {
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
        let (code, batch_actions, out) = (self.code, self.batch_actions, self.out);
        let (core, store) = (self.core, self.store);
        // of the input that was the last one
        let mut binder: Option<((u32, u16), Binder<'_>)> = None;
        let mut n = 0;
        let packets = self.packets;
        let BatchActions {
            all,
            tallies,
            some,
            prepared,
            ..
        } = batch_actions;
        while let Some((mut p, rule, i)) = packets.next() {
            let at = self.first_rule.saturating_add(rule) as usize;
            let number = code.rule_action.get(at).map_or(usize::MAX, |a| *a as usize);
            let (Some(Some(s)), Some(t)) = (all.get(number), tallies.get_mut(number)) else {
                return (n, Some((p, rule, i)));
            };
            let len = p.len();
            // what was asked for is as it was then: packets' bytes are their own
            let prefetched = match &s.outcome {
                Outcome::Bound(t) => prepared.of((t.elem, t.port), i),
                _ => None,
            };
            let end = s.end(&p, prefetched.and_then(|c| c.transport_len(i)));
            if let Outcome::Leaves(_, w) = &s.outcome
                && !w.fits(&p, end)
            {
                return (n, Some((p, rule, i)));
            }
            let mut bound = None;
            if let Outcome::Bound(nat) = &s.outcome {
                let place = (nat.elem, nat.port);
                if binder.as_ref().is_none_or(|b| b.0 != place) {
                    let elem = core.nodes.get(nat.elem as usize);
                    let elem = elem.and_then(|n| n.elem.as_ref());
                    let made = elem.and_then(|e| e.binder(usize::from(nat.port), &mut *store));
                    binder = made.map(|b| (place, b));
                }
                let Some((_, b)) = binder.as_mut() else {
                    return (n, Some((p, rule, i)));
                };
                let now = core.now;
                let made = prepared.bind(place, i, b, now);
                if made > 0
                    && let Some(c) = prepared.of(place, i)
                {
                    // all of them now: what has been found out about them is not asked again. One that were not what foresight has seen would find its flow known, on the way of all others
                    let mut next = Some((p, rule, i));
                    for _ in 0..made {
                        let Some((mut p, rule, i)) = next.take().or_else(|| packets.next()) else {
                            break;
                        };
                        let at = self.first_rule.saturating_add(rule) as usize;
                        let number = prepared.number(i);
                        let (Some(Some(s)), Some(t)) = (all.get(number), tallies.get_mut(number))
                        else {
                            return (n, Some((p, rule, i)));
                        };
                        let Outcome::Bound(nat) = &s.outcome else {
                            return (n, Some((p, rule, i)));
                        };
                        n += 1;
                        if t.packets == 0 {
                            some.push(number as u32);
                        }
                        let len = p.len();
                        let end = s.end(&p, Some(c.length(i)));
                        s.lengths.add(t, len, end);
                        s.count(self.ledger, at, len, end);
                        nat.carry_out(code, self.regs, &c.binding(i), &mut p, end);
                        out.transmitted.push((ElemId(nat.sink), p));
                    }
                    continue;
                }
                if !s.fits(nat, &p, end) {
                    return (n, Some((p, rule, i)));
                }
                let asked = match prepared.of(place, i).and_then(|c| c.get(i)) {
                    Some(a) => a,
                    None => match nat.flow(&p).and_then(|f| b.ask(f)) {
                        Some(a) => a,
                        None => return (n, Some((p, rule, i))),
                    },
                };
                let draw = || core.random(ElemId(nat.elem));
                bound = match b.bind(&asked, &nat.wanted, now, draw) {
                    Tied::Ask => return (n, Some((p, rule, i))),
                    Tied::To(b) => Some(b),
                    Tied::Drop(reason) => {
                        n += 1;
                        s.count(self.ledger, at, len, end);
                        let action = code.actions.get(number);
                        if action.is_some_and(|a| a.behind > 0) {
                            general::left(self.ledger, at, 0, &p);
                        }
                        let steps = action.map(|a| a.steps.of(&code.steps));
                        for s in steps.unwrap_or_default().iter().take(nat.before) {
                            if let Step::Count { len, number, .. } = s {
                                self.deferred.add(*number, image::length(*len, &p));
                            }
                        }
                        out.drop(ElemId(nat.elem), reason, p);
                        continue;
                    }
                };
            }
            n += 1;
            if t.packets == 0 {
                some.push(number as u32);
            }
            s.lengths.add(t, len, end);
            s.count(self.ledger, at, len, end);
            match &s.outcome {
                Outcome::Leaves(sink, w) => {
                    if w.trim {
                        p.keep(end);
                    }
                    if let Some(bytes) = p.window_mut() {
                        w.apply(bytes);
                    }
                    w.mark(code, &mut p);
                    out.transmitted.push((ElemId(*sink), p));
                }
                Outcome::Dropped => out.pool.recycle(p),
                Outcome::Bound(nat) => {
                    let Some(b) = bound else { continue };
                    nat.carry_out(code, self.regs, &b, &mut p, end);
                    out.transmitted.push((ElemId(nat.sink), p));
                }
            }
        }
        (n, None)
    }
}
