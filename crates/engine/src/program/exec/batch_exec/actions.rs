//! Actions whose packets are carried out a batch at a time, taken apart when the program is loaded.

use crate::graph::rule_counts::RuleLedger;
use crate::program::code::{Action, Code, Cut, End, Step};
use crate::program::exec::batch_exec::tally::{Lengths, Tally};
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::nat_action::{NatAction, NatWrite};
use crate::program::headers::registers::end_of;
use crate::program::rewrite::window_write::Write;
use onefold_element::{ElemId, Outbox};
use onefold_packet::Packet;
use onefold_synth::program::EndAt;

#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Leaves(u32, Box<Write>),
    Dropped,
    /// It leaves after it has been bound.
    Bound(Box<NatAction>),
}

/// An action that is short.
#[derive(Debug, Clone)]
pub(crate) struct BatchAction {
    /// Where packets end by their header, if that is asked.
    pub end: EndAt,
    /// Lists of rules have seen packets end there.
    pub cut: bool,
    /// Lengths that are summed.
    pub lengths: Lengths,
    /// Where the transport header begins, if the packet ends where the rewriter was told that it does.
    pub alike: Option<u32>,
    pub outcome: Outcome,
}

/// BatchAction actions by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchActions {
    pub all: Box<[Option<Box<BatchAction>>]>,
    pub tallies: Box<[Tally]>,
    /// Actions with packets.
    pub some: Vec<u32>,
    pub any: bool,
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
    pub fn of(code: &Code, a: &Action, waits: &[bool]) -> Option<BatchAction> {
        let (end, outcome) = match a.end {
            End::Output { image, .. } if !code.is_fast(a, waits) => {
                let nat = NatAction::of(code, a, waits)?;
                let end = match nat.write {
                    NatWrite::BatchAction(_) => code.images.get(image as usize)?.end,
                    NatWrite::Image { .. } => EndAt::Same,
                };
                (end, Outcome::Bound(Box::new(nat)))
            }
            _ if !code.is_fast(a, waits) => return None,
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
    pub fn count(&self, ledger: &mut RuleLedger, rule: usize, len: usize, end: usize) {
        ledger.class(rule, len);
        if self.cut && end < len {
            ledger.padded(rule, len - end);
        }
    }

    /// Where a packet ends, if that is asked; `transport_len`: what the rewriter is told, if that is known.
    #[inline(always)]
    pub fn end(&self, p: &Packet, transport_len: Option<u32>) -> usize {
        match (self.end, transport_len, self.alike) {
            (EndAt::Same, ..) => p.len(),
            (_, Some(len), Some(from)) => (len + from) as usize,
            (e, ..) => end_of(e, p.buffer(), p.data_offset()) as usize,
        }
    }

    /// Is a packet that ends here long enough for what is written when it has been bound?
    #[inline(always)]
    pub fn fits(&self, nat: &NatAction, p: &Packet, end: usize) -> bool {
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
            all,
        }
    }

    /// Everybody is told of what has been tallied.
    #[inline(never)]
    pub fn tell(&mut self, code: &Code, deferred: &mut DeferredCounters, out: &mut Outbox) {
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
