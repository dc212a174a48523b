//! What is known of a group's packets whose actions have no entries, or whose entries are looked up by columns: in columns, as the first look has it in registers, and as little as can be.
//!
//! Most of what [`PacketMeta`] has is of no use where a packet's class says it all, and writing it down and reading it back took as long as doing it.

use crate::flow::action_table::ActionTable;
use crate::flow::composed::ComposedTable;
use crate::flow::packet_meta::PacketMeta;
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::table::{KEY, NO_SLOT, Slot};
use crate::simd::GROUP;
use crate::simd::ROW;
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_nat::NO_LEASE;

/// Actions that packets go together, at most.
pub(crate) const MOST: usize = 16;

/// Actions that the last group's packets went.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usual {
    pub actions: [u32; MOST],
    pub n: usize,
    /// So many groups are not asked, as there were too many actions.
    pub rest: u8,
}

/// See the module's text. By number in the group.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct BatchMeta {
    /// Bytes of each packet; 0 of those that have no window.
    pub lens: [u32; GROUP],
    pub actions: [u32; GROUP],
    /// Bytes that its IP header says, from that header on.
    pub totals: [u32; GROUP],
    /// Which masked match; told where it is asked for.
    pub guards: [u16; GROUP],
    /// Where those leave that have [gone at once](crate::flow::FlowRunner::go_at_once).
    pub sinks: [u32; GROUP],
    pub keys: [[u64; 2]; GROUP],
    pub hashes: [u64; GROUP],
    /// What their hashes say in a bucket.
    pub tags: [u16; GROUP],
    /// The buckets that they are looked for in first.
    pub buckets: [u32; GROUP],
    /// Where their entries are, or what looks like it.
    pub slots: [Slot; GROUP],
    /// What entries say, where all have one: besides their actions these, and what is their flows' own.
    pub leases: [u32; GROUP],
    /// See [`BatchMeta::leases`].
    pub operands: [FlowOperands; GROUP],
    /// See [`PacketMeta::sum`].
    pub sums: [u16; GROUP],
    /// Of which packets nothing but lengths, actions and matches has been written down: a bit each. What there is one of stands here, so that all rows begin on cache lines.
    pub only: u64,
    /// Of which packets nothing but lengths, masked matches, and what follows actions: a bit each. They are looked up in the table.
    pub keyed: u64,
    /// Which of these have keys of five words, and nothing of their flows' own: a bit each. The others' have two.
    pub long: u64,
    /// Some go on behind what their IP headers say. Of headers at [`HEAD_AT`](crate::simd::HEAD_AT) only: with a VLAN tag in
    /// front of them, nobody has looked.
    pub longer: bool,
    /// What packets' actions may well be.
    pub usual: Usual,
    /// At the next first look it is told which are [plain](crate::flow::plain); if so, whether checksums are to be
    /// right.
    pub tells_plain: Option<bool>,
    /// Which are, if that has been told: a bit each.
    pub plain: u64,
    /// Of plain ones, those that go on behind what their IP headers say: a bit each.
    pub padded: u64,
    /// Of plain packets of TCP, acknowledgements and sequence numbers behind their last bytes.
    pub acks: [u32; GROUP],
    /// See [`BatchMeta::acks`].
    pub ends: [u32; GROUP],
    /// Where flows may be leased, and all packets have entries: what these say in their [hints](crate::flow::hints).
    pub hints: [u64; GROUP],
    /// Which [ways](crate::flow::batch_way) packets go together.
    pub ways: [u32; GROUP],
    /// Of [long](BatchMeta::long) keys both addresses: a key's words behind its first one. Behind all that short keys need.
    pub addresses: [[u64; KEY - 1]; GROUP],
}

/// Lanes of a group's, from this one on.
#[inline(always)]
pub(crate) fn row<T>(all: &mut [T; GROUP], first: usize) -> &mut [T; ROW] {
    &mut all.as_chunks_mut().0[first / ROW % (GROUP / ROW)]
}

impl Default for BatchMeta {
    fn default() -> BatchMeta {
        BatchMeta {
            lens: [0; GROUP],
            actions: [UNKNOWN; GROUP],
            totals: [0; GROUP],
            guards: [0; GROUP],
            only: 0,
            keyed: 0,
            long: 0,
            longer: false,
            usual: Usual::default(),
            tells_plain: None,
            plain: 0,
            padded: 0,
            acks: [0; GROUP],
            ends: [0; GROUP],
            hints: [0; GROUP],
            ways: [0; GROUP],
            sinks: [NO_SINK; GROUP],
            keys: [[0; 2]; GROUP],
            addresses: [[0; KEY - 1]; GROUP],
            hashes: [0; GROUP],
            tags: [0; GROUP],
            buckets: [0; GROUP],
            slots: [NO_SLOT; GROUP],
            leases: [NO_LEASE; GROUP],
            operands: [FlowOperands::default(); GROUP],
            sums: [0; GROUP],
        }
    }
}

impl BatchMeta {
    /// The rest is written down, for whoever wants to know more of these packets: a bit each.
    pub fn fill(&mut self, which: u64, known: &ActionTable, group: &mut [PacketMeta]) {
        let mut left = self.only & which;
        self.only &= !which;
        // Bound: one bit less each time
        while left != 0 {
            let i = left.trailing_zeros() as usize % GROUP;
            left &= left - 1;
            let Some(x) = group.get_mut(i) else { break };
            (x.guard, x.total) = (self.guards[i], self.totals[i]);
            (x.action, x.slot, x.lease) = (self.actions[i], NO_SLOT, NO_LEASE);
            match known.template(x.action) {
                Some(a) => x.operands = a.bytes.operands,
                None if ComposedTable::is(x.action) => {}
                // it rests: when it is this packet's turn, it may be there again
                None => x.action = UNKNOWN,
            }
        }
        let mut left = self.keyed & which;
        self.keyed &= !which;
        // Bound: as above
        while left != 0 {
            let i = left.trailing_zeros() as usize % GROUP;
            left &= left - 1;
            let Some(x) = group.get_mut(i) else { break };
            (x.guard, x.total, x.sum) = (self.guards[i], self.totals[i], self.sums[i]);
            (x.action, x.slot, x.lease) = (BY_FLOW, self.slots[i], NO_LEASE);
            [x.key[0], x.key[1]] = self.keys[i];
            if self.long >> i & 1 == 1 {
                x.key[1..].copy_from_slice(&self.addresses[i]);
            }
            x.hash = self.hashes[i];
        }
    }
}

/// Bits of sixteen packets, the first of which has this number in the group.
#[inline(always)]
pub(crate) fn bits_from(at: usize, bits: u16) -> u64 {
    u64::from(bits) << (at / ROW * ROW % GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::flow_action::{FlowAction, Name};
    use crate::flow::rewrite_template::RewriteTemplate;
    use crate::program::path::PathEnd;

    #[test]
    fn what_is_known_in_short_is_written_down_when_asked_for() {
        let mut b = BatchMeta::default();
        let mut group = vec![PacketMeta::default(); GROUP];
        for i in 0..GROUP {
            b.actions[i] = i as u32;
            (b.totals[i], b.guards[i]) = (46, 3);
        }
        b.only = bits_from(16, 0x8001) | bits_from(48, 2);
        let mut known = ActionTable::default();
        for rule in 0..GROUP as u32 {
            let name = Name {
                rules: vec![rule],
                counts: Vec::new(),
                end: PathEnd::Drop(0, "no reason"),
                guard: 3,
                flows: false,
                asked: Box::default(),
            };
            let id = known.number(FlowAction::ends(name), RewriteTemplate::nothing());
            assert_eq!(id, Some(rule));
        }
        known.rest(49);
        b.fill(!(1 << 31), &known, &mut group);
        assert_eq!(b.only, 1 << 31, "of one nobody has asked");
        for (i, x) in group.iter().enumerate() {
            let looked_up = i == 16 || i == 49;
            let rests = i == 49;
            assert_eq!(x.action == i as u32, looked_up && !rests, "{i}");
            if looked_up {
                assert_eq!((x.guard, x.total), (3, 46));
                assert_eq!((x.slot, x.lease), (NO_SLOT, NO_LEASE));
            }
        }
    }

    #[test]
    fn what_is_looked_up_is_written_down_when_asked_for() {
        let mut b = BatchMeta::default();
        let mut group = vec![PacketMeta::default(); GROUP];
        for i in 0..GROUP {
            let n = i as u64;
            (b.keys[i], b.hashes[i]) = ([n, n + 1], n * 3);
            (b.slots[i], b.sums[i]) = (i as u32 * 2, i as u16);
            (b.totals[i], b.guards[i]) = (46, 5);
        }
        b.keyed = bits_from(16, u16::MAX);
        b.long = bits_from(16, 1 << 3);
        b.addresses[19] = [7, 8, 9, 10];
        b.fill(u64::MAX, &ActionTable::default(), &mut group);
        assert_eq!(b.keyed, 0);
        for (i, x) in group.iter().enumerate() {
            if i / ROW != 1 {
                assert_eq!((x.action, x.slot), (UNKNOWN, NO_SLOT));
                continue;
            }
            let n = i as u64;
            assert_eq!(
                (x.action, x.slot, x.lease),
                (BY_FLOW, i as u32 * 2, NO_LEASE)
            );
            match i {
                19 => assert_eq!(x.key, [n, 7, 8, 9, 10]),
                _ => assert_eq!((x.key[0], x.key[1]), (n, n + 1)),
            }
            assert_eq!(x.hash, n * 3);
            assert_eq!((x.guard, x.total, x.sum), (5, 46, i as u16));
        }
    }
}
