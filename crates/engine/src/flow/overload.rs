//! Groups of a flood: packets of known flows among as many that nobody knows, most of which are dropped at the door.
//!
//! Which packets are known cannot be foreseen, and each branch that depends on it costs as much as a look-up. So there are bits: which ones are known, which ones
//! were met before, which ones are let in. Where none is let in, which is the rule, the known ones have their actions applied as they would [at once](crate::flow::apply::ApplyAtOnce), and nothing
//! but their [briefs](crate::flow::batch_meta) is ever written down.

use crate::flow::batch_drain::BatchDrain;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::lookup::saved;
use crate::flow::packet_meta::UNKNOWN;
use crate::flow::policy::admission::OVERLOAD;
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::runner::FlowRunner;
use crate::flow::table::{NO_SLOT, Table, same_short};
use crate::simd::GROUP;
use crate::simd::Wide;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_element::ElemId;
use onefold_nat::Leases;
use onefold_packet::{Pkt, Timestamp};
use onefold_table::prefetch;

/// Entries of a group's first packets, all of which are known [in short](BatchMeta::keyed), where many have none: which have none, a bit each.
#[inline(always)]
pub(crate) fn search_overloaded(
    wide: impl Wide,
    table: &Table,
    leases: &Leases,
    seen_filter: &SeenFilter,
    meta: &mut BatchMeta,
    n: usize,
) -> u64 {
    let n = n.min(GROUP);
    // those that are not in their first bucket, and those whose first bucket counts others
    let (mut missed, mut more) = (0u64, 0u64);
    let mut i = 0;
    // Loops over indices: adapters may not be inlined. Bound: the group
    while i < n {
        let (slot, others) = table.in_first(wide, meta.buckets[i], meta.tags[i]);
        meta.slots[i] = slot;
        missed |= u64::from(slot == NO_SLOT) << i;
        more |= u64::from(others) << i;
        i += 1;
    }
    let mut found = first_bits(n) & !missed;
    each_bit!(missed, i, {
        seen_filter.prefetch(meta.hashes[i]);
    });
    each_bit!(missed & more, i, {
        table.ask_other(meta.hashes[i]);
    });
    each_bit!(missed & more, i, {
        let slot = table.in_other(wide, meta.hashes[i]);
        meta.slots[i] = slot;
        found |= u64::from(slot != NO_SLOT) << i;
    });
    let mut unknown = first_bits(n) & !found;
    let zero_sums_known = table.zero_sums_known();
    let words = leases.words();
    each_bit!(found, i, {
        let key = &meta.keys[i];
        match table.get(meta.slots[i]).filter(|l| same_short(l, key)) {
            Some(l) => {
                let lease = (l.0[5] >> 32) as u32;
                (meta.actions[i], meta.leases[i]) = (l.0[5] as u32, lease);
                let operands = FlowOperands([l.0[2], l.0[3]]);
                meta.operands[i] = match zero_sums_known {
                    true => saved(wide, l, operands, meta.sums[i]),
                    false => operands,
                };
                if let Some(w) = words.get(lease as usize) {
                    prefetch(w);
                }
            }
            None => unknown |= 1 << i,
        }
    });
    unknown
}

impl FlowRunner {
    /// Which of a group's unknown packets are to be dropped, and which of these were met before: a bit each. `hash` tells the hash of a packet and whether it is one of a flow.
    #[inline(always)]
    pub(crate) fn judge(
        &mut self,
        unknown: u64,
        now: Timestamp,
        hash: impl Fn(&FlowRunner, usize) -> (u64, bool),
    ) -> (u64, u64) {
        let mut again = 0u64;
        each_bit!(unknown, i, {
            let (hash, flow) = hash(self, i);
            again |= u64::from(self.seen_filter.meet(hash) & flow) << i;
        });
        let Some(a) = &mut self.admission else {
            return (0, again);
        };
        if a.due(now) {
            a.begin(self.stopwatch.read());
        }
        (unknown & !a.admit(unknown, again), again)
    }

    /// Packets that were to have their actions applied leave at their sinks; the others, a bit each, are dropped at the door. How many these are.
    #[inline(always)]
    pub(crate) fn part(
        &mut self,
        source: ElemId,
        packets: &mut BatchDrain<'_>,
        n: usize,
        shed: u64,
    ) -> usize {
        let out = &mut self.runner.graph.out;
        packets.part(n, shed, &self.meta.sinks, out);
        let dropped = u64::from(shed.count_ones());
        self.shed(source, dropped);
        dropped as usize
    }

    /// So many packets have been dropped at the door.
    #[inline(always)]
    pub(crate) fn shed(&mut self, source: ElemId, dropped: u64) {
        let g = &mut self.runner.graph;
        g.packets_in += dropped;
        g.out.count_drops(source, OVERLOAD, dropped);
        self.stats.shed += dropped;
    }

    /// What has been found of packets [in short](BatchMeta::keyed) is written down for whoever takes them one by one: some are not known, a bit each.
    #[inline(never)]
    pub(crate) fn spell_out(&mut self, unknown: u64, again: u64) {
        self.meta.fill(u64::MAX, &self.actions, &mut self.group);
        let b = &*self.meta;
        for (i, x) in self.group.iter_mut().enumerate() {
            if unknown >> i & 1 == 1 {
                (x.action, x.again) = (UNKNOWN, again >> i & 1 == 1);
            } else {
                (x.action, x.lease, x.operands) = (b.actions[i], b.leases[i], b.operands[i]);
            }
        }
    }

    /// Packets of a group that are to be dropped leave it, and the others move up to their places. How many are left.
    #[inline(always)]
    pub(crate) fn close_ranks(
        &mut self,
        source: ElemId,
        n: usize,
        shed: u64,
        batch: &mut Vec<Pkt>,
    ) -> usize {
        let n = n.min(batch.len());
        if shed == 0 {
            return n;
        }
        // those that are dropped are behind the others in the end
        let first = (shed.trailing_zeros() as usize).min(n);
        let mut left = first;
        each_bit!(!shed & first_bits(n) & !first_bits(first), i, {
            if let Ok([to, from]) = self.group.get_disjoint_mut([left, i]) {
                *to = *from;
            }
            let sinks = &mut self.meta.sinks;
            sinks[left % GROUP] = sinks[i];
            batch.swap(left, i);
            left += 1;
        });
        self.runner.graph.out.pool.recycle_range(batch, left, n);
        self.shed(source, (n - left) as u64);
        left
    }
}
