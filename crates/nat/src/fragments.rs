//! Fragments that follow their first one (keyword `FRAGMENTS`, which Click does not have).
//!
//! Only the first fragment of a packet has ports. Click's rewriters treat later ones as packets of no flow: they are
//! dropped, or pass. With `FRAGMENTS n` a rewriter remembers what became of the last `n` packets whose first fragment
//! it has seen, by addresses, protocol and identification (RFC 791 section 3.2), and later fragments go the same way
//! with the same addresses. A later fragment whose first one is not known, or came more than 30 seconds ago, is
//! dropped, whatever the input's specification says. Fragments are not held: one that overtakes the first one is lost.

use crate::access::RewriterHandle;
use crate::apply::Arrival;
use crate::kind::RewriterKind;
use crate::record::FlowRef;
use crate::table::FlowTable;
use onefold_packet::Timestamp;
use onefold_packet::wire::ipv4::proto;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// A later fragment follows the first one for so many milliseconds: as long as Linux waits for the last one.
const LIFETIME_MS: u64 = 30_000;
/// Most packets that `FRAGMENTS` may ask for, some 40 bytes each.
pub const MAX_FRAGMENTED: u32 = 65_536;

/// What fragments of one packet have in common (RFC 791), in one map of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FragmentKey {
    map: u16,
    id: u16,
    proto: u8,
    saddr: u32,
    daddr: u32,
}

impl FragmentKey {
    fn of(kind: RewriterKind, h: RewriterHandle, a: &Arrival) -> FragmentKey {
        let udp = kind == RewriterKind::Ip && a.proto == proto::UDP;
        FragmentKey {
            map: h.member * 2 + u16::from(udp),
            id: a.id,
            proto: a.proto,
            saddr: a.saddr,
            daddr: a.daddr,
        }
    }
}

/// What became of a packet's first fragment.
#[derive(Debug, Clone, Copy)]
pub enum FragmentFate {
    /// It was rewritten by this binding, in this direction.
    Bound(FlowRef, bool),
    /// It left at this output, unchanged.
    Passed(usize),
}

/// Packets whose first fragments have been seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragmented {
    known: HashMap<FragmentKey, (FragmentFate, u64)>,
    /// The keys of `known`, in the order in which they came.
    order: VecDeque<FragmentKey>,
}

fn milliseconds(t: Timestamp) -> u64 {
    t.nanos().max(0) as u64 / 1_000_000
}

impl Fragmented {
    fn remember(&mut self, key: FragmentKey, fate: FragmentFate, now_ms: u64, most: usize) {
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

    fn fate(&self, key: &FragmentKey, now_ms: u64) -> Option<FragmentFate> {
        let (fate, at) = self.known.get(key)?;
        (now_ms.saturating_sub(*at) <= LIFETIME_MS).then_some(*fate)
    }
}

impl FlowTable {
    /// Later fragments of the packet that arrived as `a`, the first fragment, are to fare as it did. At most `most`
    /// packets are remembered, each for 30 seconds.
    pub fn remember_fragments(
        &mut self,
        kind: RewriterKind,
        h: RewriterHandle,
        a: &Arrival,
        fate: FragmentFate,
        now: Timestamp,
        most: usize,
    ) {
        let key = FragmentKey::of(kind, h, a);
        self.fragmented.remember(key, fate, milliseconds(now), most);
    }

    /// What became of the first fragment of the packet that `a` is a later one of.
    pub fn fragment_fate(
        &self,
        kind: RewriterKind,
        h: RewriterHandle,
        a: &Arrival,
        now: Timestamp,
    ) -> Option<FragmentFate> {
        let key = FragmentKey::of(kind, h, a);
        self.fragmented.fate(&key, milliseconds(now))
    }

    /// The fragmented packets that are remembered, a line each.
    pub(crate) fn fragments_text(&self) -> String {
        let mut all: Vec<_> = self.fragmented.known.iter().collect();
        all.sort_by_key(|(key, _)| **key);
        let mut out = String::new();
        for (key, (fate, at)) in all {
            // writing to a String cannot fail
            let _ = write!(out, "fragments {key:?} at {at}: ");
            let _ = match fate {
                FragmentFate::Passed(o) => writeln!(out, "output {o}"),
                FragmentFate::Bound(f, reply) => match self.resolve(*f) {
                    Some(r) => writeln!(out, "{} {reply}", r.key(false)),
                    None => writeln!(out, "a binding that is gone"),
                },
            };
        }
        out
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
            f.remember(key(id), FragmentFate::Passed(1), u64::from(id), 10);
            assert!(f.known.len() <= 10 && f.known.len() == f.order.len());
        }
        assert!(f.fate(&key(989), 999).is_none());
        assert!(f.fate(&key(990), 999).is_some());
        // the same once more takes no other one's place, and lives for longer
        f.remember(key(990), FragmentFate::Passed(2), 20_000, 10);
        assert_eq!(f.order.len(), 10);
        assert!(f.fate(&key(999), 30_999).is_some());
        assert!(f.fate(&key(999), 31_000).is_none());
        assert!(matches!(
            f.fate(&key(990), 50_000),
            Some(FragmentFate::Passed(2))
        ));
        // what has expired is removed without being looked up
        f.remember(key(1), FragmentFate::Passed(3), 100_000, 10);
        assert_eq!((f.known.len(), f.order.len()), (1, 1));
    }
}
