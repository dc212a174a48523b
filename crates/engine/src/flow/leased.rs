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
use crate::flow::group_packets::{GroupPackets, Rest};
use crate::flow::hints::{LEASE, hint_of, hints, leased};
use crate::flow::in_place::ROOM;
use crate::flow::inspect_batch::is_entry_of;
use crate::flow::learn::flow_of;
use crate::flow::lease::LeasePool;
use crate::flow::noting::Noting;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::steps::Steps;
use crate::flow::table::Table;
use crate::flow::transmit::count_known;
use crate::flow::windows::Windows;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::window_rewrite::{WindowRewrite, rewrite_packet};
use crate::simd::{GROUP, HEAD_AT, Wide};
use onefold_element::NO_FLOW_LEASE;
use onefold_nat::NO_LEASE;
use onefold_packet::{Packet, Timestamp};

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

    /// It has been told; packets of the group may go together, or not. So many of the first ones have gone
    /// [at once](FlowRunner::leased_at_once).
    #[inline(always)]
    pub(crate) fn plain_told(
        &mut self,
        wide: impl Steps,
        may: bool,
        packets: &mut Windows<'_>,
    ) -> usize {
        self.meta.tells_plain = None;
        if !may {
            self.meta.plain = 0;
        }
        match self.meta.plain & 1 {
            0 => 0,
            _ => wide.leased_at_once(self, packets),
        }
    }

    /// [`FlowRunner::go_leased`] of a group's first packets, the first of which is plain, which have just been looked
    /// up and whose windows are at hand. They have not left: where they do is [written down](BatchMeta::sinks).
    ///
    /// Nothing is read of a packet but its window, and nothing of its entry: what that says has been written down when
    /// it was found. Leases are asked for here and not there, as the element is asked for them once then: its state and
    /// all that leads there is not in the nearest cache.
    #[inline(always)]
    pub(crate) fn leased_at_once(&mut self, wide: impl Wide, packets: &mut Windows<'_>) -> usize {
        let meta = &*self.meta;
        if leased(meta.hints[0]).1 == NO_FLOW_LEASE {
            return 0;
        }
        let first = self.composed.batched(meta.actions[0]);
        let Some(node) = first.filter(|w| w.leases).map(|w| w.node) else {
            return 0;
        };
        if !self.holds() || self.runner.graph.out.traced {
            return 0;
        }
        let all = (0, packets.len());
        #[cfg(debug_assertions)]
        let leave = self.check_leased(all, (meta.long, false), &*packets);
        let graph = &mut self.runner.graph;
        let now = millis(graph.core.now);
        let Some(leases) = graph.core.leases(node.into(), &mut graph.store) else {
            return 0;
        };
        Noting::ask(leases.all, &self.meta, all);
        let run = leased_run(wide, &mut self.meta, &self.composed, all, node);
        let end = ready(
            (&self.composed, &self.pool),
            &self.meta,
            &run,
            (0, &*packets),
        );
        let noting = Noting::at(now, &leases.stays);
        let went = noting.note_each(wide, leases.all, &self.meta, (0, end));
        *leases.noted += went as u64;
        if went > 0 {
            self.leased_are_written(wide, &run, (0, went), packets);
            #[cfg(debug_assertions)]
            for (i, leaves) in leave.iter().enumerate().take(went) {
                assert_eq!(packets.packet(i).map(Packet::data), Some(leaves.data()));
            }
        }
        went
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
        let mut rest = Rest {
            from,
            packets: packets.rest(),
        };
        let upto = upto.min(GROUP).min(from + rest.packets.len());
        #[cfg(debug_assertions)]
        let leave = self.check_leased((from, upto), (long, stale), &rest);
        let graph = &mut self.runner.graph;
        let now = millis(graph.core.now);
        let Some(leases) = graph.core.leases(node.into(), &mut graph.store) else {
            return 0;
        };
        // what has been written down of entries may be what they said before a lease was given
        let of = (&self.table, &self.composed);
        let run = leased_each(of, &mut self.meta, (from, upto), node, (long, stale));
        let end = ready(
            (&self.composed, &self.pool),
            &self.meta,
            &run,
            (from, &rest),
        );
        let noting = Noting::at(now, &leases.stays);
        let to = noting.note_each(wide, leases.all, &self.meta, (from, end));
        let went = to - from;
        *leases.noted += went as u64;
        if went > 0 {
            self.leased_are_written(wide, &run, (from, to), &mut rest);
            #[cfg(debug_assertions)]
            packets.will_leave_as(leave);
            self.batch_sends((from, to), packets);
        }
        went
    }

    /// Packets of a run from number `from` of the group to before `to` have been noted: they are counted and written.
    #[inline(always)]
    fn leased_are_written(
        &mut self,
        wide: impl Wide,
        run: &LeasedRun,
        (from, to): (usize, usize),
        packets: &mut impl GroupPackets,
    ) {
        let these = first_bits(to) & !first_bits(from);
        each_bit!(run.trimmed & these, k, {
            packets.keep(k, HEAD_AT + self.meta.totals[k] as usize);
        });
        self.use_bindings(run.timed & these);
        if self.table.crowded() {
            each_bit!(these, k, {
                self.table.mark(self.meta.slots[k]);
            });
        }
        self.stats.leased += (to - from) as u64;
        self.batch_is_written(wide, (from, to), packets);
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
        let mut rest = Rest {
            from,
            packets: packets.rest(),
        };
        self.batch_is_written(wide, (from, to), &mut rest);
        self.batch_sends((from, to), packets);
    }

    /// They leave where that is [written down](BatchMeta::sinks).
    #[inline(always)]
    fn batch_sends(&mut self, (from, to): (usize, usize), packets: &mut BatchDrain<'_>) {
        #[cfg(debug_assertions)]
        packets.are_expected(to - from);
        let sinks = self.meta.sinks.get(from..to).unwrap_or_default();
        packets.send(sinks, &mut self.runner.graph.out.transmitted);
    }

    /// Packets are counted and written as [`FlowRunner::batch_leaves`] says, and where they leave is
    /// [written down](BatchMeta::sinks).
    #[inline(always)]
    fn batch_is_written(
        &mut self,
        wide: impl Wide,
        (from, to): (usize, usize),
        packets: &mut impl GroupPackets,
    ) {
        self.flush();
        let (fused, meta) = (&mut self.composed.fused, &mut *self.meta);
        meta.sinks = [NO_SINK; GROUP];
        let mut left = first_bits(to) & !first_bits(from);
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
            wide.set(f.sink, those, &mut meta.sinks);
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
                write_each(wide, (f, rewrite), those, packets, meta);
            }
        }
        let n = (to - from) as u64;
        self.stats.composed += n;
        self.stats.in_place += n;
        self.stats.written_once += n;
        count_known(&mut self.stats, &mut self.runner, n, 0);
        self.runner.graph.out.sent += n;
    }
}

/// Packets of a way are written, those of these bits.
#[inline(always)]
fn write_each(
    wide: impl Wide,
    (f, rewrite): (&Fused, &WindowRewrite),
    those: u64,
    packets: &mut impl GroupPackets,
    meta: &BatchMeta,
) {
    let taken = (rewrite, wide.take(rewrite));
    if f.start == 0 && !(rewrite.no_zero & rewrite.udp) {
        // asked once: what is written could be the template, for all that a compiler knows
        let (own, sums) = (f.own, f.sums);
        each_bit!(those, i, {
            if let Some(w) = packets.window(i) {
                let operands = match own {
                    true => wide.with_sums(&meta.operands[i], sums),
                    false => rewrite.operands,
                };
                wide.rewrite(wide.load(w), taken.1, &operands, w);
            }
        });
        return;
    }
    each_bit!(those, i, {
        if f.start != 0
            && let Some(p) = packets.packet_mut(i)
        {
            match f.start {
                n if n > 0 => p.pull(n as usize),
                n => p.push(n.unsigned_abs().into()),
            }
        }
        let w = match f.start {
            0 => packets.window(i),
            _ => packets.packet_mut(i).and_then(Packet::window_mut),
        };
        if let Some(w) = w.filter(|_| !f.idle) {
            let operands = match f.own {
                true => wide.with_sums(&meta.operands[i], f.sums),
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

/// The same, where entries, or the table if it is `stale`, may have changed since.
#[inline(always)]
fn leased_each(
    (table, composed): (&Table, &ComposedTable),
    meta: &mut BatchMeta,
    (from, upto): (usize, usize),
    node: u16,
    (long, stale): (u64, bool),
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
        if stale && !is_entry_of(l, meta, i, long) {
            break;
        }
        (meta.ways[i], meta.leases[i]) = (w.way, lease);
        meta.hints[i] = hints(l);
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
    (from, packets): (usize, &impl GroupPackets),
) -> usize {
    let all = first_bits(run.end) & !first_bits(from);
    each_bit!((run.moved | run.timed) & all, k, {
        let i = k % GROUP;
        let fits = |p: &Packet| p.headroom() >= ROOM && composed.fits(meta.ways[i], p);
        let room = run.moved >> i & 1 == 0 || packets.packet(k).is_some_and(fits);
        if !room || run.timed >> i & 1 == 1 && !pool.leases.runs(meta.leases[i]) {
            return k;
        }
    });
    run.end
}
