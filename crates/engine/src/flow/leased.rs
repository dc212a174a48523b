//! Packets of leased flows ([`onefold_element::FlowLease`]), many at a time: no element is asked.
//!
//! Where the only element on a [way that packets go together](crate::flow::batch_way) leases a flow, the flow's entry
//! has the lease, and what its packets leave behind is noted in it, for those that are [plain](crate::flow::plain). All
//! that is left to be asked of a packet is whether its lease runs, and that of the bindings that its rewrite stands on,
//! if it is written. Any other packet, and whatever comes behind it, waits until the element has seen it: it may end
//! leases.

use crate::flow::batch_drain::BatchDrain;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::composed::ComposedTable;
use crate::flow::fused_way::Fused;
use crate::flow::hints::{LEASE, hint_of, leased};
use crate::flow::in_place::ROOM;
use crate::flow::inspect_batch::is_entry_of;
use crate::flow::learn::flow_of;
use crate::flow::lease::LeasePool;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::table::{Entry, Slot, Table};
use crate::flow::transmit::count_known;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::window_rewrite::{WindowRewrite, rewrite_packet};
use crate::simd::{GROUP, HEAD_AT, Wide};
use onefold_element::{FlowLease, LEASE_KINDS, NO_FLOW_LEASE};
use onefold_nat::NO_LEASE;
use onefold_packet::{Pkt, Timestamp};

/// Packets of one element's flows, one behind the other, by number in the group.
#[derive(Default)]
struct LeasedRun {
    /// Behind the last one.
    end: usize,
    /// Those that end sooner than they did, those that begin elsewhere, and those that stand on bindings of which is
    /// noted when they are used: a bit each.
    trimmed: u64,
    moved: u64,
    timed: u64,
}

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
        let leave = self.check_leased((from, upto), (long, stale), rest);
        let graph = &mut self.runner.graph;
        let now = millis(graph.core.now);
        let Some(all) = graph.core.leases(node.into(), &mut graph.store) else {
            return 0;
        };
        let (leases, stays) = (all.all, all.stays);
        let run = match stale {
            false => leased_run(wide, &mut self.meta, &self.composed, (from, upto), node),
            true => {
                let of = (&self.table, &self.composed);
                leased_each(of, &mut self.meta, (from, upto), node, long)
            }
        };
        let end = ready((&self.composed, &self.pool), &self.meta, &run, (from, rest));
        let meta = &*self.meta;
        let noted = (&meta.acks, &meta.ends);
        let of = (&self.table.lines[..], &meta.slots);
        let to = note_each(leases, of, (from, end, now), &stays, noted);
        let went = to - from;
        if went == 0 {
            return 0;
        }
        graph
            .core
            .leased(node.into(), went as u64, &mut graph.store);
        let trimmed = run.trimmed & first_bits(to) & !first_bits(from);
        each_bit!(trimmed, k, {
            rest[k - from].keep(HEAD_AT + self.meta.totals[k] as usize);
        });
        self.use_bindings(run.timed & first_bits(to) & !first_bits(from));
        if self.table.crowded() {
            for k in from..to {
                self.table.mark(self.meta.slots[k % GROUP]);
            }
        }
        self.stats.leased += went as u64;
        #[cfg(debug_assertions)]
        packets.will_leave_as(leave);
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
    /// and operands are written down, have been let pass: they are counted, written, and leave.
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
            if f.idle && f.start == 0 {
                continue;
            }
            if let Some(rewrite) = fused.rewrites.get(f.rewrite as usize) {
                write_each(wide, (f, rewrite), (those, from), packets.rest(), meta);
            }
        }
        #[cfg(debug_assertions)]
        packets.are_expected(to - from);
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

/// Packets of a way are written, those of these bits, which are numbers in the group; the first of `packets` has number
/// `from`.
#[inline(always)]
fn write_each(
    wide: impl Wide,
    (f, rewrite): (&Fused, &WindowRewrite),
    (those, from): (u64, usize),
    packets: &mut [Pkt],
    meta: &BatchMeta,
) {
    let taken = (rewrite, wide.take(rewrite));
    each_bit!(those, i, {
        let Some(p) = packets.get_mut(i.wrapping_sub(from)) else {
            break;
        };
        match f.start {
            0 => {}
            n if n > 0 => p.pull(n as usize),
            n => p.push(n.unsigned_abs().into()),
        }
        if let Some(w) = p.window_mut().filter(|_| !f.idle) {
            let operands = match f.own {
                true => f.operands(&meta.operands[i % GROUP]),
                false => rewrite.operands,
            };
            rewrite_packet(wide, wide.load(w), taken, &operands, w);
        }
    });
}

/// Plain packets of a group from number `from` on, up to `upto`, up to the first one whose flow that element does not
/// lease. The group's entries have just been found.
#[inline(always)]
fn leased_run(
    wide: impl Wide,
    meta: &mut BatchMeta,
    composed: &ComposedTable,
    (from, upto): (usize, usize),
    node: u16,
) -> LeasedRun {
    let bound = !wide.same(&meta.leases, NO_LEASE);
    let mut left = meta.plain & first_bits(upto) & !first_bits(from);
    let (mut leased, mut run) = (0, LeasedRun::default());
    // Bound: an action less each time
    while left != 0 {
        let action = meta.actions[left.trailing_zeros() as usize % GROUP];
        let those = wide.same(&meta.actions, action) & left;
        left &= !those;
        if let Some(w) = composed.batched(action).filter(|w| w.leases_of(node)) {
            wide.set(w.way, those, &mut meta.ways);
            leased |= those;
            run.trimmed |= if w.trims { those & meta.padded } else { 0 };
            run.moved |= if w.moves { those } else { 0 };
            run.timed |= if w.untimed { 0 } else { those & bound };
        }
    }
    run.end = from + (!(leased >> (from % GROUP))).trailing_zeros() as usize;
    run
}

/// The same, where the table may have changed since.
#[inline(always)]
fn leased_each(
    (table, composed): (&Table, &ComposedTable),
    meta: &mut BatchMeta,
    (from, upto): (usize, usize),
    node: u16,
    long: u64,
) -> LeasedRun {
    let (mut k, mut run) = (from, LeasedRun::default());
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
        if !is_entry_of(l, meta, i, long) {
            break;
        }
        (meta.ways[i], meta.leases[i]) = (w.way, lease);
        meta.operands[i] = flow_of(l).operands;
        run.trimmed |= u64::from(w.trims) << i & meta.padded;
        run.moved |= u64::from(w.moves) << i;
        run.timed |= u64::from(!w.untimed & (lease != NO_LEASE)) << i;
        k += 1;
    }
    run.end = k;
    run
}

/// Packets of a run, the first of which has number `from`, up to the first one that has no room for what is written to
/// it, or stands on a binding that is gone: its number. Untimed bindings are there as long as the flow's lease runs.
#[inline(always)]
fn ready(
    (composed, pool): (&ComposedTable, &LeasePool),
    meta: &BatchMeta,
    run: &LeasedRun,
    (from, packets): (usize, &[Pkt]),
) -> usize {
    let all = first_bits(run.end) & !first_bits(from);
    each_bit!((run.moved | run.timed) & all, k, {
        let i = k % GROUP;
        let fits = |p: &Pkt| p.headroom() >= ROOM && composed.fits(meta.ways[i], p);
        let room = run.moved >> i & 1 == 0 || packets.get(k - from).is_some_and(fits);
        if !room || run.timed >> i & 1 == 1 && !pool.leases.runs(meta.leases[i]) {
            return k;
        }
    });
    run.end
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
