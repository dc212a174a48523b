//! Fragments that follow their first one (keyword `FRAGMENTS`, which Click does not have).
//!
//! Only the first fragment of a packet has ports. Click's rewriters treat later ones as packets of no flow: they are dropped,
//! or pass. With `FRAGMENTS n` a rewriter remembers what became of the last `n` packets whose first fragment it has seen, by
//! addresses, protocol and identification (RFC 791 section 3.2), and later fragments go the same way with the same addresses.
//! A later fragment whose first one is not known, or came more than [`LIFETIME_MS`] ago, is dropped, whatever the input's
//! specification says. Fragments are not held: one that overtakes the first one is lost.

use super::apply::{self, Arrival};
use super::kind::Kind;
use super::record::FlowRef;
use super::rewriter::{Rewriter, Sought, Way};
use super::table::FlowTable;
use crate::cx::Cx;
use onefold_packet::wire::ipv4::proto;
use onefold_packet::{Pkt, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// A later fragment follows the first one for so many milliseconds: as long as Linux waits for the last one.
pub(super) const LIFETIME_MS: u64 = 30_000;
/// Most packets that `FRAGMENTS` may ask for, some 40 bytes each.
pub(super) const MAX_FRAGMENTED: u32 = 65_536;

/// What fragments of one packet have in common (RFC 791), in one map of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FragmentKey {
    map: u16,
    id: u16,
    proto: u8,
    saddr: u32,
    daddr: u32,
}

/// What became of a packet's first fragment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// It was rewritten by this binding, in this direction.
    Bound(FlowRef, bool),
    /// It left at this output, unchanged.
    Passed(usize),
}

/// Packets whose first fragments have been seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Fragmented {
    known: HashMap<FragmentKey, (Fate, u64)>,
    /// The keys of `known`, in the order in which they came.
    order: VecDeque<FragmentKey>,
}

fn milliseconds(t: Timestamp) -> u64 {
    t.nanos().max(0) as u64 / 1_000_000
}

impl Fragmented {
    fn remember(&mut self, key: FragmentKey, fate: Fate, now_ms: u64, most: usize) {
        if let Some(old) = self.known.get_mut(&key) {
            *old = (fate, now_ms);
            return;
        }
        // Bound: each round removes one.
        while let Some(first) = self.order.front() {
            let old = self.known.get(first);
            let over = old.is_none_or(|(_, at)| now_ms.saturating_sub(*at) > LIFETIME_MS);
            if !over && self.order.len() < most {
                break;
            }
            self.known.remove(first);
            self.order.pop_front();
        }
        self.known.insert(key, (fate, now_ms));
        self.order.push_back(key);
    }

    fn fate(&self, key: &FragmentKey, now_ms: u64) -> Option<Fate> {
        let (fate, at) = self.known.get(key)?;
        (now_ms.saturating_sub(*at) <= LIFETIME_MS).then_some(*fate)
    }
}

impl FlowTable {
    /// The fragmented packets that are remembered, a line each.
    pub(super) fn fragments_text(&self) -> String {
        let mut all: Vec<_> = self.fragmented.known.iter().collect();
        all.sort_by_key(|(key, _)| **key);
        let mut out = String::new();
        for (key, (fate, at)) in all {
            // writing to a String cannot fail
            let _ = write!(out, "fragments {key:?} at {at}: ");
            let _ = match fate {
                Fate::Passed(o) => writeln!(out, "output {o}"),
                Fate::Bound(f, reply) => match self.resolve(*f) {
                    Some(r) => writeln!(out, "{} {reply}", r.key(false)),
                    None => writeln!(out, "a binding that is gone"),
                },
            };
        }
        out
    }
}

impl Rewriter {
    fn fragment_key(&self, a: &Arrival) -> FragmentKey {
        let udp = self.kind == Kind::Ip && a.proto == proto::UDP;
        FragmentKey {
            map: self.handle.member * 2 + u16::from(udp),
            id: a.id,
            proto: a.proto,
            saddr: a.saddr,
            daddr: a.daddr,
        }
    }

    /// Do fragments follow a packet that it is the first one of?
    #[inline]
    pub(super) fn leads(&self, a: &Arrival) -> bool {
        self.fragments > 0 && a.more
    }

    /// Later fragments of this packet's are to do as it does.
    #[cold]
    pub(super) fn lead(&self, w: &mut Way<'_>, s: &Sought, fate: Fate) {
        let (key, most) = (self.fragment_key(&s.a), self.fragments as usize);
        let now_ms = milliseconds(w.now);
        w.table.fragmented.remember(key, fate, now_ms, most);
    }

    /// The same where a packet's record is known.
    #[cold]
    pub(super) fn lead_by(&self, w: &mut Way<'_>, s: &Sought, (i, reply): super::record::Hit) {
        if let Some(f) = w.table.reference(i) {
            self.lead(w, s, Fate::Bound(f, reply));
        }
    }

    /// A later fragment.
    #[cold]
    pub(super) fn follow(&self, a: &Arrival, mut p: Pkt, cx: &mut Cx<'_>) {
        let reasons = self.kind.reasons();
        let Some(mut w) = Way::of(self.handle, cx) else {
            return cx.drop(p, reasons.dropped);
        };
        let fate = w
            .table
            .fragmented
            .fate(&self.fragment_key(a), milliseconds(w.now));
        let output = match fate {
            Some(Fate::Passed(o)) => Some(o),
            Some(Fate::Bound(f, reply)) => w.table.resolve(f).copied().map(|r| {
                apply::addresses(&mut p, &r, reply, self.annos, true, true);
                w.table.touch(f.record, w.now);
                if w.tracing {
                    self.trace(&mut w, &r, reply);
                }
                r.output(reply)
            }),
            None => None,
        };
        match output {
            Some(o) if o < w.noutputs => w.out.emit(o, p),
            Some(_) => w.out.drop(w.elem, "unconnected output", p),
            None => w.out.drop(w.elem, reasons.other, p),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u16) -> FragmentKey {
        FragmentKey {
            map: 0,
            id,
            proto: 17,
            saddr: 1,
            daddr: 2,
        }
    }

    #[test]
    fn bounded() {
        let mut f = Fragmented::default();
        for id in 0..1000 {
            f.remember(key(id), Fate::Passed(1), u64::from(id), 10);
            assert!(f.known.len() <= 10 && f.known.len() == f.order.len());
        }
        assert!(f.fate(&key(989), 999).is_none());
        assert!(f.fate(&key(990), 999).is_some());
        // the same once more takes no other one's place, and lives for longer
        f.remember(key(990), Fate::Passed(2), 20_000, 10);
        assert_eq!(f.order.len(), 10);
        assert!(f.fate(&key(999), 30_999).is_some());
        assert!(f.fate(&key(999), 31_000).is_none());
        assert!(matches!(f.fate(&key(990), 50_000), Some(Fate::Passed(2))));
        // who is over goes without being asked for
        f.remember(key(1), Fate::Passed(3), 100_000, 10);
        assert_eq!((f.known.len(), f.order.len()), (1, 1));
    }
}
