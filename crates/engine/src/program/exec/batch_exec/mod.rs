//! Packets of a batch whose way is one stage and whose change is simple: all of it in one loop.
//!
//! What [`crate::program::exec::fast_exec`] does for one packet is taken apart further here, when the program is loaded: an action's counts are lengths to be
//! summed, its image is bytes kept, bytes set and bytes counted down (a time to live), all written at once, and what those bytes add to checksums. No registers
//! are filled, nobody is called, and elements, drops and counters are told once for all packets of the batch that an action takes.
//! Whatever is more than that is left to be done as before.

pub(crate) mod actions;
pub(crate) mod prepare;
pub(crate) mod prepared;
pub(crate) mod tally;

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::graph::rule_counts::RuleLedger;
use crate::program::code::{Code, Step};
use crate::program::exec::batch_exec::actions::{BatchActions, Outcome};
use crate::program::exec::batch_exec::prepared::Prepared;
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::rule_counting;
use crate::program::exec::state::State;
use crate::program::headers::registers::Regs;
use crate::program::lookup::tree::NO_RULE;
use crate::program::rewrite::image;
use crate::simd::dispatch::{Work, widely};
use onefold_element::{ElemId, Host, Outbox, StateStore};
use onefold_nat::{BindAnswer, Binder};
use onefold_packet::Pkt;
use std::vec::Drain;

/// May packets be carried out here at all?
fn may(st: &State, g: &Graph) -> bool {
    st.batch_actions.any
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
    let mut batch_actions = std::mem::take(&mut st.batch_actions);
    let prepared = std::mem::take(&mut st.prepared);
    let (n, back) = widely(Run {
        code,
        prepared: &prepared,
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
    st.batch_actions = batch_actions;
    st.prepared = prepared;
    back
}

/// What [`run`] goes through.
struct Run<'a, 'p> {
    code: &'a Code,
    batch_actions: &'a mut BatchActions,
    prepared: &'a Prepared,
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
            all, tallies, some, ..
        } = batch_actions;
        let prepared = self.prepared;
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
                    BindAnswer::Ask => return (n, Some((p, rule, i))),
                    BindAnswer::To(b) => Some(b),
                    BindAnswer::Drop(reason) => {
                        n += 1;
                        s.count(self.ledger, at, len, end);
                        let action = code.actions.get(number);
                        if action.is_some_and(|a| a.behind > 0) {
                            rule_counting::left(self.ledger, at, 0, &p);
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
                    w.mark(&code.images, &mut p);
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
