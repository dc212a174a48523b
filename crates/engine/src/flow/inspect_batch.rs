//! Packets of a group that an element inspects together ([`Element::inspect_batch`]), and that leave together.
//!
//! Where the only element on a [way that is written once](crate::flow::fused_way) keeps hints with flows' entries, and
//! nothing is written, what is left for a packet is its hint: the element is handed packets one behind the other, as
//! far as they have such ways and are that element's. Those that it lets pass are counted way by way, and leave as
//! packets do that no element looks at. The first one that it does not let pass goes its way as before
//! ([`crate::flow::in_place`]), one by one, and those behind it are handed over again.
//!
//! [`Element::inspect_batch`]: onefold_element::Element::inspect_batch

use crate::flow::batch_drain::BatchDrain;
use crate::flow::fused_way::{Fused, WayTally};
use crate::flow::hints::hint_of;
use crate::flow::in_place_way::HINTS;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::steps::Steps;
use crate::flow::table::Entry;
use crate::flow::transmit::count_known;
use crate::flow::wave::LONGEST;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::{GROUP, Wide};
use onefold_element::{InspectCx, Inspected, InspectedBatch, NO_HINT};
use onefold_nat::NO_LEASE;

/// How packets of a group take turns: together, or one by one.
pub(crate) struct BatchTurns {
    /// They may go together.
    pub batched: bool,
    /// Which have long keys: a bit each.
    pub long: u64,
    /// So many go one by one before others are tried together: twice as many each time that none went.
    patience: usize,
}

impl BatchTurns {
    /// Of a group that has been looked up, all of whose packets have entries or need none if it is `batched`.
    #[inline(always)]
    pub fn of(r: &FlowRunner, batched: bool) -> BatchTurns {
        BatchTurns {
            batched: batched && r.composed.any_batched(),
            long: r.meta.long,
            patience: 1,
        }
    }
    /// The first ones of the group's `n` packets go together: how many.
    #[inline(always)]
    pub fn first(
        &self,
        r: &mut FlowRunner,
        wide: impl Steps,
        n: usize,
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        match self.batched {
            true => wide.inspect_batch(r, (0, n), self.long, packets),
            false => 0,
        }
    }
    /// Up to where packets from number `i` on go one by one.
    #[inline(always)]
    pub fn one_by_one(&self, i: usize, upto: usize) -> usize {
        match self.batched {
            true => upto.min(i + self.patience),
            false => upto,
        }
    }
    /// Packets have gone one by one up to number `i`. If that is as far as they were to, `to`, and before `upto`, those
    /// behind them go together: how many.
    #[inline(always)]
    pub fn next(
        &mut self,
        r: &mut FlowRunner,
        wide: impl Steps,
        (i, to, upto): (usize, usize, usize),
        packets: &mut BatchDrain<'_>,
    ) -> Option<usize> {
        if i != to || to >= upto {
            return None;
        }
        let n = wide.inspect_batch(r, (i, upto), self.long, packets);
        self.patience = if n == 0 { self.patience * 2 } else { 1 };
        Some(n)
    }
}

/// What there is to know of packets that are handed over, by number in the run.
struct Run {
    ways: [u32; GROUP],
    /// Bytes of each.
    lens: [u32; GROUP],
    /// To where it is to end.
    ends: [u32; GROUP],
    totals: [u32; GROUP],
    /// Which end sooner than they did: a bit each.
    trimmed: u64,
}

/// A packet that is handed over.
struct BatchItem<'a> {
    way: u32,
    node: u16,
    hint: u32,
    seen: Inspected<'a>,
    end: u32,
}

impl FlowRunner {
    /// May packets go this way together?
    pub(crate) fn may_inspect_batch(&self, f: &Fused) -> bool {
        let a = &f.asked[0];
        let runs = self.runner.graph.core.inspects_batches(a.node.into());
        let untouched = f.idle && !f.own && f.start == 0 && f.sink != NO_SINK;
        f.count == 1 && a.hint < HINTS && runs && untouched
    }

    /// Packets of a group from number `from` on, up to `upto`, that one element inspects go their ways together, up to
    /// the first one that does not. How many went. All of them have been looked up in columns, or have no entries;
    /// `long`: which have long keys.
    #[inline(always)]
    pub(crate) fn inspect_batch(
        &mut self,
        wide: impl Wide,
        (from, upto): (usize, usize),
        long: u64,
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        if !self.holds() || self.runner.graph.out.traced {
            return 0;
        }
        let rest = packets.rest();
        let most = upto.min(GROUP).saturating_sub(from).min(rest.len());
        let mut run = Run {
            ways: [0; GROUP],
            lens: [0; GROUP],
            ends: [0; GROUP],
            totals: [0; GROUP],
            trimmed: 0,
        };
        let (mut seen, mut hints) = ([Inspected::NONE; GROUP], [NO_HINT; GROUP]);
        let (mut n, mut node) = (0, 0);
        // Loops over indices: adapters may not be inlined. Bound: the group
        while n < most {
            let Some(x) = self.batch_item(from + n, long, rest[n].data()) else {
                break;
            };
            if n > 0 && x.node != node {
                break;
            }
            node = x.node;
            let len = rest[n].len() as u32;
            (run.ways[n], run.lens[n], run.ends[n]) = (x.way, len, x.end);
            run.totals[n] = self.meta.totals[from + n];
            run.trimmed |= u64::from(x.end < len) << n;
            (seen[n], hints[n]) = (x.seen, x.hint);
            n += 1;
        }
        if n == 0 {
            return 0;
        }
        #[cfg(debug_assertions)]
        let leave = self.expected_batch(from, (&seen[..n], &rest[..n]));
        let graph = &mut self.runner.graph;
        let mut cx = InspectCx {
            now: graph.core.now,
            store: &mut graph.store,
            hint: None,
        };
        let batch = InspectedBatch {
            packets: &seen[..n],
            hints: &hints[..n],
        };
        let went = (graph.core).inspect_batch(node.into(), &batch, &mut cx);
        if went == 0 {
            return 0;
        }
        each_bit!(run.trimmed & first_bits(went), k, {
            rest[k].keep(run.ends[k] as usize);
        });
        #[cfg(debug_assertions)]
        for (p, leaves) in rest.iter().zip(leave).take(went) {
            assert_eq!(p.data(), leaves.data());
        }
        if self.table.crowded() {
            for k in from..from + went {
                self.table.mark(self.meta.slots[k % GROUP]);
            }
        }
        self.batch_leaves(wide, &run, went, packets);
        went
    }

    /// What is handed over of a packet of the group, which these are the bytes of.
    #[inline(always)]
    fn batch_item<'a>(&self, i: usize, long: u64, data: &'a [u8]) -> Option<BatchItem<'a>> {
        let meta = &*self.meta;
        let i = i % GROUP;
        let l = self.table.get(meta.slots[i])?;
        if !is_same(l, &meta.keys[i]) || long >> i & 1 != 0 && l.0[2..5] != meta.addresses[i][1..] {
            return None;
        }
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        let way = self.composed.batched(action).filter(|_| lease == NO_LEASE)?;
        let f = self.composed.fused.ways.get(way as usize)?;
        let (total, l3) = (meta.totals[i] as usize, usize::from(f.l3));
        if l3 + total > data.len() || data.len() > LONGEST {
            return None;
        }
        let end = if f.trims { l3 + total } else { data.len() };
        let upto = if f.trimmed == 0 { end } else { data.len() };
        let a = &f.asked[0];
        Some(BatchItem {
            way,
            node: a.node,
            hint: hint_of(l, a.hint),
            seen: Inspected {
                net: data.get(l3..upto)?,
                header: a.header.into(),
                total,
                protocol: a.protocol,
                len: upto.saturating_add_signed(-isize::from(a.start)),
            },
            end: end as u32,
        })
    }

    /// The first ones of a run have been let pass: they are counted, and leave.
    #[inline(always)]
    fn batch_leaves(
        &mut self,
        wide: impl Wide,
        run: &Run,
        went: usize,
        packets: &mut BatchDrain<'_>,
    ) {
        self.flush();
        let mut sinks = [NO_SINK; GROUP];
        let mut left = first_bits(went);
        let fused = &mut self.composed.fused;
        // Bound: a way less each time
        while left != 0 {
            let way = run.ways[left.trailing_zeros() as usize % GROUP];
            let those = wide.same(&run.ways, way) & left;
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
            *t = WayTally {
                packets: t.packets + u64::from(those.count_ones()),
                bytes: t.bytes + u64::from(wide.sum(&run.lens, those)),
                ends: t.ends + u64::from(wide.sum(&run.ends, those)),
                ip_bytes: t.ip_bytes + u64::from(wide.sum(&run.totals, those)),
            };
        }
        let n = went as u64;
        self.stats.composed += n;
        self.stats.in_place += n;
        self.stats.written_once += n;
        self.stats.inspected_in_batches += n;
        count_known(&mut self.stats, &mut self.runner, n, 0);
        let out = &mut self.runner.graph.out;
        out.sent += n;
        packets.send(sinks.get(..went).unwrap_or_default(), &mut out.transmitted);
    }

    /// For debug builds: packets that are handed over are what the element would find in the packets that it would be
    /// given; what is to leave.
    #[cfg(debug_assertions)]
    fn expected_batch(
        &mut self,
        from: usize,
        (seen, packets): (&[Inspected<'_>], &[onefold_packet::Pkt]),
    ) -> Vec<onefold_packet::Packet> {
        self.meta.fill(u64::MAX, &self.actions, &mut self.group);
        let mut leave = Vec::new();
        for (k, (s, p)) in seen.iter().zip(packets).enumerate() {
            assert!(self.is_composed(crate::simd::any::Any, from + k, true));
            let expected = self.expected(from + k, p);
            expected.check(0, s);
            leave.push(expected.leaves);
        }
        leave
    }
}

/// Has an entry these words of a key?
#[inline(always)]
fn is_same(l: &Entry, [a, b]: &[u64; 2]) -> bool {
    (l.0[0] ^ a) | (l.0[1] ^ b) == 0
}
