//! Entries of packets that are looked up: in loops over a group, so that memory that is asked for in one of them is there in the next ([`crate::flow::batch`]).

use crate::flow::action_table::{ActionTable, Tally};
use crate::flow::batch_meta::BatchMeta;
use crate::flow::composed::{ComposedTable, Leased};
use crate::flow::hints::hints;
use crate::flow::packet_meta::PacketMeta;
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::table::{Entry, KEY, LONG, NO_SLOT, Table, same};
use crate::simd::GROUP;
use crate::simd::any::Any;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::hash::tag;
use crate::simd::window_rewrite::Operands as FlowOperands;
use crate::simd::{Wide, by_itself};
use onefold_nat::{Leases, NO_LEASE};
use onefold_table::prefetch;

/// Of an entry: the action, the lease, and what is the flow's own.
#[inline(always)]
pub(crate) fn entry(wide: impl Wide, table: &Table, x: &mut PacketMeta) {
    x.action = UNKNOWN;
    let Some(l) = table.get(x.slot).filter(|l| same(l, &x.key)) else {
        return;
    };
    (x.action, x.lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
    x.operands = operands(l, &x.key);
    if table.zero_sums_known() {
        x.operands = saved(wide, l, x.operands, x.sum);
    }
}

/// What is a flow's own, for a packet with this UDP checksum: zero from where it comes to be zero, whatever else is added.
///
/// Nothing is branched on that differs from packet to packet: with UDP and TCP mixed that cost 5 ns.
#[inline(always)]
pub(crate) fn saved(wide: impl Wide, l: &Entry, operands: FlowOperands, sum: u16) -> FlowOperands {
    // a composed action's entry has none, but may have an element's hint there
    if by_itself(wide.zeroes_checksum(&l.0, sum)) != 0 && !ComposedTable::is(l.0[5] as u32) {
        return operands.with_zero_udp_checksum(sum);
    }
    operands
}

/// Actions whose tallies take little of the nearest cache.
const FEW_WAYS: usize = 128;

/// What an entry has for itself.
#[inline(always)]
fn operands(l: &Entry, key: &[u64; KEY]) -> FlowOperands {
    // a long key has its place, and nothing of its own
    if key[0] & LONG == 0 {
        FlowOperands([l.0[2], l.0[3]])
    } else {
        FlowOperands::default()
    }
}

/// Entries of a group's packets whose hashes are known, and what their words of a lease's are asked for: how many have none.
#[inline(always)]
pub(crate) fn search(
    wide: impl Wide,
    table: &Table,
    leases: &Leases,
    tallies: &[Tally],
    group: &mut [PacketMeta],
) -> usize {
    // a few are here anyway
    let many = tallies.len() > FEW_WAYS;
    let mut unknown = 0;
    for x in &mut *group {
        // the others' have been found
        if x.action == BY_FLOW && x.slot == NO_SLOT {
            x.slot = table.candidate(wide, x.hash);
        }
    }
    for x in group {
        if x.action == BY_FLOW {
            entry(wide, table, x);
            unknown += usize::from(x.action == UNKNOWN);
            if let Some(w) = leases.word(x.lease) {
                prefetch(w);
            }
            if many && let Some(t) = tallies.get(x.action as usize) {
                prefetch(t);
            }
        }
    }
    unknown
}

/// [`search`] for a group's first packets, all of which are known [in short](BatchMeta::keyed): false if any has no entry.
/// Where flows are [leased](crate::flow::leased), their hints are written down, too.
#[inline(always)]
pub(crate) fn search_keyed(
    wide: impl Wide,
    table: &Table,
    (leases, leased): (&Leases, Option<Leased>),
    tallies: &[Tally],
    meta: &mut BatchMeta,
    n: usize,
) -> bool {
    let n = n.min(GROUP);
    let mut i = 0;
    // Loops over indices: adapters may not be inlined. Bound: the group, here and below
    while i < n {
        meta.slots[i] = table.candidate_in(wide, meta.buckets[i], meta.tags[i]);
        i += 1;
    }
    // a few are here anyway
    let many = tallies.len() > FEW_WAYS;
    let zero_sums_known = table.zero_sums_known();
    let (mut zero_sums, mut unlike) = (wide.no_zero_sums(), 0);
    let words = match leased {
        // next to nobody reads these where a flow's lease says all; to ask for them took a quarter of the search
        Some(Leased { timed: false, .. }) => &[],
        _ => leases.words(),
    };
    let mut i = 0;
    while i < n {
        let [a, b] = meta.keys[i];
        let Some(l) = table.get(meta.slots[i]) else {
            return false;
        };
        // next to all have the right key: nothing is branched on
        unlike |= (l.0[0] ^ a) | (l.0[1] ^ b);
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        (meta.actions[i], meta.leases[i]) = (action, lease);
        meta.operands[i] = FlowOperands([l.0[2], l.0[3]]);
        if zero_sums_known {
            // a packet of thousands has any: its own is mended afterwards
            zero_sums = wide.more_zero_sums(zero_sums, &l.0, meta.sums[i]);
        }
        if let Some(w) = words.get(lease as usize) {
            prefetch(w);
        }
        if leased.is_some() {
            meta.hints[i] = hints(l);
        }
        if many && let Some(t) = tallies.get(action as usize) {
            prefetch(t);
        }
        i += 1;
    }
    if unlike != 0 {
        return false;
    }
    if wide.any_zero_sums(zero_sums) {
        save_keyed(table, meta, n);
    }
    true
}

/// [`search_keyed`] for a group's first packets, where some have long keys, or some need no entries; all the others are
/// known [in short](BatchMeta::keyed). What is found of those is written down as if they had entries.
#[inline(always)]
pub(crate) fn search_some(
    wide: impl Wide,
    table: &Table,
    (leases, leased): (&Leases, Option<Leased>),
    actions: &ActionTable,
    meta: &mut BatchMeta,
    n: usize,
) -> bool {
    let some = meta.keyed & first_bits(n);
    each_bit!(some, i, {
        meta.slots[i] = table.candidate_in(wide, meta.buckets[i], meta.tags[i]);
    });
    let many = actions.tallies.len() > FEW_WAYS;
    let zero_sums_known = table.zero_sums_known();
    let (mut zero_sums, mut unlike) = (wide.no_zero_sums(), 0);
    let words = match leased {
        // next to nobody reads these where a flow's lease says all; to ask for them took a quarter of the search
        Some(Leased { timed: false, .. }) => &[],
        _ => leases.words(),
    };
    each_bit!(some, i, {
        let [a, b] = meta.keys[i];
        let Some(l) = table.get(meta.slots[i]) else {
            return false;
        };
        // what is of a long key alone, and what is of a short key's entry alone: nothing is branched on
        let long = (meta.long >> i & 1).wrapping_neg();
        let [_, c, d, e] = meta.addresses[i];
        unlike |= (l.0[0] ^ a) | (l.0[1] ^ b);
        unlike |= ((l.0[2] ^ c) | (l.0[3] ^ d) | (l.0[4] ^ e)) & long;
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        (meta.actions[i], meta.leases[i]) = (action, lease);
        meta.operands[i] = FlowOperands([l.0[2] & !long, l.0[3] & !long]);
        if zero_sums_known {
            // of a long key's entry something may be found that is none: nothing follows from it
            zero_sums = wide.more_zero_sums(zero_sums, &l.0, meta.sums[i]);
        }
        if let Some(w) = words.get(lease as usize) {
            prefetch(w);
        }
        if leased.is_some() {
            meta.hints[i] = hints(l);
        }
        if many && let Some(t) = actions.tallies.get(action as usize) {
            prefetch(t);
        }
    });
    if unlike != 0 {
        return false;
    }
    each_bit!(meta.only & first_bits(n), i, {
        let template = actions.template(meta.actions[i]);
        meta.operands[i] = template.map_or_else(FlowOperands::default, |t| t.bytes.operands);
        (meta.slots[i], meta.leases[i], meta.hints[i]) = (NO_SLOT, NO_LEASE, 0);
    });
    if wide.any_zero_sums(zero_sums) {
        save_keyed(table, meta, n);
    }
    true
}

/// Some of a group's first packets' checksums come to zero on the way: what is their flows' own is [as it has to be](saved).
#[cold]
#[inline(never)]
fn save_keyed(table: &Table, meta: &mut BatchMeta, n: usize) {
    let of = meta.slots.iter().zip(&meta.sums).zip(&mut meta.operands);
    for ((slot, sum), operands) in of.take(n) {
        if let Some(l) = table.get(*slot) {
            *operands = saved(Any, l, *operands, *sum);
        }
    }
}

/// Entries of a group's packets, as [`crate::flow::FlowRunner::look_up`] goes on, where many have none: which, a bit each.
///
/// Whether a packet has one cannot be foreseen then, and each branch that depends on it costs as much as a bucket. So packets are sorted by bits, and memory
/// is asked for of all that it is needed of.
#[inline(always)]
pub(crate) fn search_mixed(
    wide: impl Wide,
    table: &Table,
    leases: &Leases,
    seen_filter: &SeenFilter,
    group: &mut [PacketMeta],
) -> u64 {
    let n = group.len().min(GROUP);
    let group = &mut group[..n];
    // bits by number in the group: those that are looked up, those that are not in their first bucket, and those whose first bucket counts others
    let (mut looked_up, mut missed, mut more) = (0u64, 0u64, 0u64);
    let mut i = 0;
    // Bound: the group. Loops over indices: adapters may not be inlined
    while i < n {
        let x = &mut group[i];
        if x.action == BY_FLOW {
            let others;
            (x.slot, others) = table.in_first(wide, table.first_bucket(x.hash), tag(x.hash));
            x.action = UNKNOWN;
            looked_up |= 1 << i;
            missed |= u64::from(x.slot == NO_SLOT) << i;
            more |= u64::from(others) << i;
        }
        i += 1;
    }
    let mut found = looked_up & !missed;
    // Bounds: a bit less each time, here and in the following
    let mut left = missed;
    while left != 0 {
        if let Some(x) = group.get(left.trailing_zeros() as usize) {
            seen_filter.prefetch(x.hash);
        }
        left &= left - 1;
    }
    let mut left = missed & more;
    while left != 0 {
        if let Some(x) = group.get(left.trailing_zeros() as usize) {
            table.ask_other(x.hash);
        }
        left &= left - 1;
    }
    let mut left = missed & more;
    while left != 0 {
        let i = left.trailing_zeros() as usize % GROUP;
        left &= left - 1;
        let Some(x) = group.get_mut(i) else { break };
        x.slot = table.in_other(wide, x.hash);
        found |= u64::from(x.slot != NO_SLOT) << i;
    }
    let mut unknown = looked_up & !found;
    while found != 0 {
        let i = found.trailing_zeros() as usize % GROUP;
        found &= found - 1;
        let Some(x) = group.get_mut(i) else { break };
        entry(wide, table, x);
        unknown |= u64::from(x.action == UNKNOWN) << i;
        if let Some(w) = leases.word(x.lease) {
            prefetch(w);
        }
    }
    unknown
}
