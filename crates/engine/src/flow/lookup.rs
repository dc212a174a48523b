//! Entries of packets that are looked up: in loops over a group, so that memory that is asked for in one of them is there in the next ([`crate::flow::batch`]).

use crate::flow::action_table::Tally;
use crate::flow::batch_meta::Briefs;
use crate::flow::flow_action::Own;
use crate::flow::interval_table::{BY_FLOW, UNKNOWN};
use crate::flow::masked_match::Parsed;
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::table::{KEY, LONG, Line, NO_SLOT, Table, same, tag};
use crate::simd::GROUP;
use crate::simd::any::Any;
use crate::simd::{Wide, by_itself};
use onefold_elements::rewrite::Leases;
use onefold_packet::prefetch;

/// Of an entry: the way, the lease, and what is the flow's own.
#[inline(always)]
pub(crate) fn entry(wide: impl Wide, table: &Table, x: &mut Parsed) {
    x.way = UNKNOWN;
    let Some(l) = table.get(x.slot).filter(|l| same(l, &x.key)) else {
        return;
    };
    (x.way, x.lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
    x.own = own(l, &x.key);
    if table.endangered() {
        x.own = saved(wide, l, x.own, x.sum);
    }
}

/// What is a flow's own, for a packet with this UDP checksum: zero from where it comes to be zero, whatever else is added.
///
/// Nothing is branched on that differs from packet to packet: with UDP and TCP mixed that cost 5 ns.
#[inline(always)]
pub(crate) fn saved(wide: impl Wide, l: &Line, own: Own, sum: u16) -> Own {
    if by_itself(wide.endangers(&l.0, sum)) != 0 {
        return own.emptied(sum);
    }
    own
}

/// Ways whose tallies take little of the nearest cache.
const FEW_WAYS: usize = 128;

/// What an entry has for itself.
#[inline(always)]
fn own(l: &Line, key: &[u64; KEY]) -> Own {
    // a long key has its place, and nothing of its own
    if key[0] & LONG == 0 {
        Own([l.0[2], l.0[3]])
    } else {
        Own::default()
    }
}

/// Entries of a group's packets whose hashes are known, and what their words of a lease's are asked for: how many have none.
#[inline(always)]
pub(crate) fn search(
    wide: impl Wide,
    table: &Table,
    leases: &Leases,
    tallies: &[Tally],
    group: &mut [Parsed],
) -> usize {
    // a few are here anyway
    let many = tallies.len() > FEW_WAYS;
    let mut unknown = 0;
    for x in &mut *group {
        // the others' have been found
        if x.way == BY_FLOW && x.slot == NO_SLOT {
            x.slot = table.candidate(wide, x.hash);
        }
    }
    for x in group {
        if x.way == BY_FLOW {
            entry(wide, table, x);
            unknown += usize::from(x.way == UNKNOWN);
            if let Some(w) = leases.word(x.lease) {
                prefetch(w);
            }
            if many && let Some(t) = tallies.get(x.way as usize) {
                prefetch(t);
            }
        }
    }
    unknown
}

/// [`search`] for a group's first packets, all of which are known [in short](Briefs::keyed): false if any has no entry.
#[inline(always)]
pub(crate) fn search_keyed(
    wide: impl Wide,
    table: &Table,
    leases: &Leases,
    tallies: &[Tally],
    briefs: &mut Briefs,
    n: usize,
) -> bool {
    let n = n.min(GROUP);
    let mut i = 0;
    // Loops over indices: adapters may not be inlined. Bound: the group, here and below
    while i < n {
        briefs.slots[i] = table.candidate_in(wide, briefs.buckets[i], briefs.tags[i]);
        i += 1;
    }
    // a few are here anyway
    let many = tallies.len() > FEW_WAYS;
    let endangered = table.endangered();
    let (mut dangers, mut unlike) = (wide.no_dangers(), 0);
    let words = leases.words();
    let mut i = 0;
    while i < n {
        let [a, b] = briefs.keys[i];
        let Some(l) = table.get(briefs.slots[i]) else {
            return false;
        };
        // next to all have the right key: nothing is branched on
        unlike |= (l.0[0] ^ a) | (l.0[1] ^ b);
        let (way, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        (briefs.ways[i], briefs.leases[i]) = (way, lease);
        briefs.owns[i] = Own([l.0[2], l.0[3]]);
        if endangered {
            // a packet of thousands has any: its own is mended afterwards
            dangers = wide.more_dangers(dangers, &l.0, briefs.sums[i]);
        }
        if let Some(w) = words.get(lease as usize) {
            prefetch(w);
        }
        if many && let Some(t) = tallies.get(way as usize) {
            prefetch(t);
        }
        i += 1;
    }
    if unlike != 0 {
        return false;
    }
    if wide.any_dangers(dangers) {
        save_keyed(table, briefs, n);
    }
    true
}

/// Some of a group's first packets' checksums come to zero on the way: what is their flows' own is [as it has to be](saved).
#[cold]
#[inline(never)]
fn save_keyed(table: &Table, briefs: &mut Briefs, n: usize) {
    let of = briefs.slots.iter().zip(&briefs.sums).zip(&mut briefs.owns);
    for ((slot, sum), own) in of.take(n) {
        if let Some(l) = table.get(*slot) {
            *own = saved(Any, l, *own, *sum);
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
    once: &SeenFilter,
    group: &mut [Parsed],
) -> u64 {
    let n = group.len().min(GROUP);
    let group = &mut group[..n];
    // bits by number in the group: those that are looked up, those that are not in their first bucket, and those whose first bucket counts others
    let (mut asked, mut missed, mut more) = (0u64, 0u64, 0u64);
    let mut i = 0;
    // Bound: the group. Loops over indices: adapters may not be inlined
    while i < n {
        let x = &mut group[i];
        if x.way == BY_FLOW {
            let others;
            (x.slot, others) = table.in_first(wide, table.first_bucket(x.hash), tag(x.hash));
            x.way = UNKNOWN;
            asked |= 1 << i;
            missed |= u64::from(x.slot == NO_SLOT) << i;
            more |= u64::from(others) << i;
        }
        i += 1;
    }
    let mut found = asked & !missed;
    // Bounds: a bit less each time, here and in the following
    let mut left = missed;
    while left != 0 {
        if let Some(x) = group.get(left.trailing_zeros() as usize) {
            once.expect(x.hash);
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
    let mut unknown = asked & !found;
    while found != 0 {
        let i = found.trailing_zeros() as usize % GROUP;
        found &= found - 1;
        let Some(x) = group.get_mut(i) else { break };
        entry(wide, table, x);
        unknown |= u64::from(x.way == UNKNOWN) << i;
        if let Some(w) = leases.word(x.lease) {
            prefetch(w);
        }
    }
    unknown
}
