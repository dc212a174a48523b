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
use crate::flow::batch_list::BatchList;
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
use onefold_element::{BatchNeeds, InspectCx, Inspected, InspectedBatch, NO_HINT};
use onefold_nat::NO_LEASE;
use onefold_packet::wire::ipv4;

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
    /// The first ones of the group's `n` packets, whose entries have just been found, go together: how many.
    #[inline(always)]
    pub fn first(
        &self,
        r: &mut FlowRunner,
        wide: impl Steps,
        n: usize,
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        match self.batched {
            true => wide.inspect_batch(r, (0, n), (self.long, false), packets),
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
        let n = wide.inspect_batch(r, (i, upto), (self.long, true), packets);
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
    /// Its checksum is right, if that is asked for.
    right: Option<bool>,
}

impl FlowRunner {
    /// May packets go this way together? What the element that inspects them needs then.
    pub(crate) fn may_inspect_batch(&self, f: &Fused) -> Option<BatchNeeds> {
        let (a, graph) = (&f.asked[0], &self.runner.graph);
        let untouched = f.idle && !f.own && f.start == 0 && f.sink != NO_SINK;
        if f.count != 1 || a.hint >= HINTS || !untouched {
            return None;
        }
        graph.core.inspects_batches(a.node.into(), &graph.store)
    }

    /// Packets of a group from number `from` on, up to `upto`, that elements inspect go their ways together, up to the
    /// first one that does not. How many went. All of them have been looked up in columns, or have no entries; `long`:
    /// which have long keys; `stale`: the table may have changed since then.
    #[inline(always)]
    pub(crate) fn inspect_batch(
        &mut self,
        wide: impl Wide,
        (from, upto): (usize, usize),
        (long, stale): (u64, bool),
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        let mut at = from;
        // Bound: each round takes a packet, and those behind it are another element's
        while at < upto {
            let (went, handed_over) = self.inspect_run(wide, (at, upto), (long, stale), packets);
            at += went;
            if went == 0 || went < handed_over {
                break;
            }
        }
        at - from
    }

    /// [`FlowRunner::inspect_batch`] of those that are one element's, up to the first one that is not: how many went,
    /// and how many have been handed over.
    #[inline(always)]
    fn inspect_run(
        &mut self,
        wide: impl Wide,
        (from, upto): (usize, usize),
        (long, stale): (u64, bool),
        packets: &mut BatchDrain<'_>,
    ) -> (usize, usize) {
        if !self.holds() || self.runner.graph.out.traced {
            return (0, 0);
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
        let (mut seen, mut hints) = (BatchList::new(), [NO_HINT; GROUP]);
        let (mut n, mut node, mut right) = (0, 0, None);
        // Loops over indices: adapters may not be inlined. Bound: the group
        while n < most {
            let Some(x) = self.batch_item(wide, from + n, (long, stale), rest[n].data()) else {
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
            if let Some(is) = x.right {
                right = Some(right.unwrap_or(0) | u64::from(is) << n);
            }
            seen.push(x.seen);
            hints[n] = x.hint;
            n += 1;
        }
        if n == 0 {
            return (0, 0);
        }
        #[cfg(debug_assertions)]
        let leave = self.expected_batch(from, (seen.items(), &rest[..n]));
        let graph = &mut self.runner.graph;
        let mut cx = InspectCx {
            now: graph.core.now,
            store: &mut graph.store,
            hint: None,
        };
        let batch = InspectedBatch {
            packets: seen.items(),
            hints: &hints[..n],
            right,
        };
        let went = (graph.core).inspect_batch(node.into(), &batch, &mut cx);
        if went == 0 {
            return (0, n);
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
        (went, n)
    }

    /// What is handed over of a packet of the group, which these are the bytes of.
    #[inline(always)]
    fn batch_item<'a>(
        &self,
        wide: impl Wide,
        i: usize,
        (long, stale): (u64, bool),
        data: &'a [u8],
    ) -> Option<BatchItem<'a>> {
        let (i, meta) = (i % GROUP, &*self.meta);
        let l = self.table.get(meta.slots[i])?;
        if stale && !self.is_entry_of(l, i, long) {
            return None;
        }
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        let w = self
            .composed
            .batched(action)
            .filter(|_| lease == NO_LEASE)?;
        let (total, l3, header) = (
            meta.totals[i] as usize,
            usize::from(w.l3),
            usize::from(w.header),
        );
        let ends = l3 + total;
        if ends > data.len() || data.len() > LONGEST {
            return None;
        }
        let end = if w.trims { ends } else { data.len() };
        let upto = if w.sees_trimmed { end } else { data.len() };
        let net = data.get(l3..upto)?;
        let right = (w.checksums).then(|| is_right(wide, data, (l3, header, total), w.protocol));
        Some(BatchItem {
            way: w.way,
            node: w.node,
            hint: hint_of(l, w.hint),
            seen: Inspected {
                net,
                header,
                total,
                protocol: w.protocol,
                len: upto.saturating_add_signed(-isize::from(w.start)),
            },
            end: end as u32,
            right,
        })
    }

    /// Is this still the entry of a packet of the group?
    #[inline(always)]
    fn is_entry_of(&self, l: &Entry, i: usize, long: u64) -> bool {
        let (i, meta) = (i % GROUP, &*self.meta);
        let [a, b] = meta.keys[i];
        let same = (l.0[0] ^ a) | (l.0[1] ^ b) == 0;
        same && (long >> i & 1 == 0 || l.0[2..5] == meta.addresses[i][1..])
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

/// [`InspectedBatch::right`] of a packet whose IP header begins at `l3`, has so many bytes, and says that so many
/// follow from its beginning on.
#[inline(always)]
fn is_right(
    wide: impl Wide,
    data: &[u8],
    (l3, header, total): (usize, usize, usize),
    protocol: u8,
) -> bool {
    // both addresses stand in front of the upper layer, without options and extension headers
    let from = if header == ipv4::LEN { 12 } else { 8 };
    let pseudo = u32::from(protocol) + total.wrapping_sub(header) as u32;
    header <= total && wide.sums_to_ones(data, (l3 + from, l3 + total), pseudo)
}
