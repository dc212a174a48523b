//! Packets of leased flows ([`onefold_element::FlowLease`]), many at a time: no element is asked.
//!
//! Where the only element on a [way that packets go together](crate::flow::batch_way) leases a flow, the flow's entry
//! has the lease, and what its packets leave behind is noted in it, for those that are [plain](crate::flow::plain). All
//! that is left to be asked of a packet is whether its lease runs. Any other packet, and whatever comes behind it,
//! waits until the element has seen it: it may end leases.

use crate::flow::batch_drain::BatchDrain;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::composed::ComposedTable;
use crate::flow::hints::{LEASE, hint_of, leased};
use crate::flow::inspect_batch::is_entry_of;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::table::{Entry, Slot, Table};
use crate::flow::transmit::count_known;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::{GROUP, HEAD_AT, Wide};
use onefold_element::{FlowLease, LEASE_KINDS, NO_FLOW_LEASE};
use onefold_nat::NO_LEASE;
use onefold_packet::Timestamp;

/// Milliseconds of the clock, as leases have them.
#[inline(always)]
fn millis(t: Timestamp) -> u64 {
    t.nanos().max(0) as u64 / 1_000_000
}

impl FlowRunner {
    /// May packets of this cache go alone? The first look tells which of a group are plain then, if flows are leased.
    #[inline(always)]
    pub(crate) fn tell_plain(&mut self, cache: usize) -> bool {
        let alone = self.some_go_alone(cache);
        let leases = self.composed.leases().filter(|_| alone);
        self.meta.tells_plain = leases.map(|l| l.sums);
        alone
    }

    /// It has been told; packets of the group may go together, or not.
    #[inline(always)]
    pub(crate) fn plain_told(&mut self, may: bool) {
        self.meta.tells_plain = None;
        if !may {
            self.meta.plain = 0;
        }
    }

    /// Packets of a group from number `from` on, up to `upto`, whose leases run leave, up to the first one whose does
    /// not: how many. `long` and `stale` as for [`FlowRunner::inspect_batch`].
    #[inline(always)]
    pub(crate) fn go_leased(
        &mut self,
        wide: impl Wide,
        (from, upto): (usize, usize),
        (long, stale): (u64, bool),
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        if from >= GROUP || self.meta.plain >> from & 1 == 0 {
            return 0;
        }
        if !self.holds() || self.runner.graph.out.traced {
            return 0;
        }
        let Some(node) = self.leased_node(from) else {
            return 0;
        };
        let rest = packets.rest();
        let upto = upto.min(GROUP).min(from + rest.len());
        #[cfg(debug_assertions)]
        self.check_leased((from, upto), (long, stale), rest);
        let graph = &mut self.runner.graph;
        let now = millis(graph.core.now);
        let Some(all) = graph.core.leases(node.into(), &mut graph.store) else {
            return 0;
        };
        let (leases, stays) = (all.all, all.stays);
        let (end, trimmed) = match stale {
            false => leased_run(wide, &mut self.meta, &self.composed, (from, upto), node),
            true => {
                let of = (&self.table, &self.composed);
                leased_each(of, &mut self.meta, (from, upto), node, long)
            }
        };
        let meta = &*self.meta;
        let noted = (&meta.acks, &meta.ends);
        let of = (self.table.lines(), &meta.slots);
        let to = note_each(leases, of, (from, end, now), &stays, noted);
        let went = to - from;
        if went == 0 {
            return 0;
        }
        graph
            .core
            .leased(node.into(), went as u64, &mut graph.store);
        let trimmed = trimmed & first_bits(to) & !first_bits(from);
        each_bit!(trimmed, k, {
            rest[k - from].keep(HEAD_AT + self.meta.totals[k] as usize);
        });
        if self.table.crowded() {
            for k in from..to {
                self.table.mark(self.meta.slots[k % GROUP]);
            }
        }
        self.stats.leased += went as u64;
        self.batch_leaves(wide, (from, to), packets);
        went
    }

    /// The element that has leased the flow of a packet of the group, if one has.
    #[inline(always)]
    fn leased_node(&self, i: usize) -> Option<u16> {
        let l = self.table.get(self.meta.slots[i % GROUP])?;
        let w = self.composed.batched(l.0[5] as u32)?;
        (w.leases && hint_of(l, LEASE) != NO_FLOW_LEASE).then_some(w.node)
    }

    /// Packets from number `from` of the group to before `to`, whose [ways](crate::flow::batch_meta::BatchMeta::ways)
    /// are written down, have been let pass: they are counted, and leave.
    #[inline(always)]
    pub(crate) fn batch_leaves(
        &mut self,
        wide: impl Wide,
        (from, to): (usize, usize),
        packets: &mut BatchDrain<'_>,
    ) {
        self.flush();
        let mut sinks = [NO_SINK; GROUP];
        let mut left = first_bits(to) & !first_bits(from);
        let (fused, meta) = (&mut self.composed.fused, &*self.meta);
        // Bound: a way less each time
        while left != 0 {
            let way = meta.ways[left.trailing_zeros() as usize % GROUP];
            let those = wide.same(&meta.ways, way) & left;
            left &= !those;
            let (Some(f), Some(t)) = (
                fused.ways.get(way as usize),
                fused.tallies.get_mut(way as usize),
            ) else {
                continue;
            };
            wide.set(f.sink, those, &mut sinks);
            if t.packets == 0 {
                fused.dirty.push(way);
            }
            let n = u64::from(those.count_ones());
            let (bytes, ip_bytes) = (
                u64::from(wide.sum(&meta.lens, those)),
                u64::from(wide.sum(&meta.totals, those)),
            );
            t.add(n, bytes, ip_bytes, f);
        }
        let n = (to - from) as u64;
        self.stats.composed += n;
        self.stats.in_place += n;
        self.stats.written_once += n;
        count_known(&mut self.stats, &mut self.runner, n, 0);
        let out = &mut self.runner.graph.out;
        out.sent += n;
        packets.send(
            sinks.get(from..to).unwrap_or_default(),
            &mut out.transmitted,
        );
    }
}

/// Plain packets of a group from number `from` on, up to `upto`, up to the first one whose flow that element does not
/// lease: its number, and which end sooner than they did, a bit each. The group's entries have just been found.
#[inline(always)]
fn leased_run(
    wide: impl Wide,
    meta: &mut BatchMeta,
    composed: &ComposedTable,
    (from, upto): (usize, usize),
    node: u16,
) -> (usize, u64) {
    let unbound = wide.same(&meta.leases, NO_LEASE);
    let mut left = meta.plain & unbound & first_bits(upto) & !first_bits(from);
    let (mut leased, mut trims) = (0, 0);
    // Bound: an action less each time
    while left != 0 {
        let action = meta.actions[left.trailing_zeros() as usize % GROUP];
        let those = wide.same(&meta.actions, action) & left;
        left &= !those;
        if let Some(w) = composed.batched(action).filter(|w| w.leases_of(node)) {
            wide.set(w.way, those, &mut meta.ways);
            leased |= those;
            trims |= if w.trims { those } else { 0 };
        }
    }
    let run = (!(leased >> (from % GROUP))).trailing_zeros() as usize;
    (from + run, trims & meta.padded)
}

/// The same, where the table may have changed since.
#[inline(always)]
fn leased_each(
    (table, composed): (&Table, &ComposedTable),
    meta: &mut BatchMeta,
    (from, upto): (usize, usize),
    node: u16,
    long: u64,
) -> (usize, u64) {
    let (mut k, mut trims) = (from, 0);
    // Loops over indices: adapters may not be inlined. Bound: the group
    while k < upto && meta.plain >> k & 1 == 1 {
        let i = k % GROUP;
        let Some(l) = table.get(meta.slots[i]) else {
            break;
        };
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        let Some(w) = composed.batched(action).filter(|w| w.leases_of(node)) else {
            break;
        };
        if lease != NO_LEASE || !is_entry_of(l, meta, i, long) {
            break;
        }
        meta.ways[i] = w.way;
        trims |= u64::from(w.trims) << i;
        k += 1;
    }
    (k, trims & meta.padded)
}

/// Notes packets of a group from number `from` on to before `end`, whose entries are in these places: the number of the
/// first one whose lease does not run, or `end`.
#[inline(always)]
fn note_each(
    leases: &mut [FlowLease],
    (entries, slots): (&[Entry], &[Slot; GROUP]),
    (from, end, now): (usize, usize, u64),
    stays: &[u64; LEASE_KINDS],
    (acks, ends): (&[u32; GROUP], &[u32; GROUP]),
) -> usize {
    let mut k = from;
    // Bound: the group
    while k < end {
        let i = k % GROUP;
        let Some(entry) = entries.get(slots[i] as usize) else {
            break;
        };
        let (at, lease) = leased(entry);
        let Some(l) = leases.get_mut(at) else {
            break;
        };
        if !l.note(lease, now, stays, (acks[i], ends[i])) {
            break;
        }
        k += 1;
    }
    k
}
