//! Packets of a group that an element inspects together ([`Element::inspect_batch`]), and that leave together.
//!
//! Where the only element on a [way that is written once](crate::flow::fused_way) keeps hints with flows' entries, and
//! nothing is written before it has seen a packet, what is left for a packet is its hint: the element is handed packets
//! one behind the other, as far as they have such ways and are that element's. Those that it lets pass are counted and
//! written way by way, and leave as packets do that no element looks at; where the element leases flows
//! ([`crate::flow::leased`]), packets of theirs are not handed over any more. The first one that it does not let pass
//! goes its way as before
//! ([`crate::flow::in_place`]), one by one, and those behind it are handed over again.
//!
//! [`Element::inspect_batch`]: onefold_element::Element::inspect_batch

use crate::flow::batch_drain::BatchDrain;
use crate::flow::batch_list::BatchList;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::batch_way::BatchWay;
use crate::flow::fused_way::Fused;
#[cfg(debug_assertions)]
use crate::flow::group_packets::GroupPackets;
use crate::flow::hints::{LEASE, hint_of, set_hint};
use crate::flow::in_place::ROOM;
use crate::flow::in_place_way::HINTS;
use crate::flow::learn::flow_of;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::steps::Steps;
use crate::flow::table::Entry;
use crate::flow::walk::touched;
use crate::flow::wave::LONGEST;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::window_rewrite::Operands;
use crate::simd::{GROUP, Wide};
use onefold_element::{BatchNeeds, InspectCx, Inspected, InspectedBatch, NO_FLOW_LEASE, NO_HINT};
use onefold_nat::NO_LEASE;
use onefold_packet::Packet;
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
    /// The first ones of the group's `n` packets, whose entries have just been found, go together: how many. Of these
    /// so many, `leased`, have gone [at once](FlowRunner::leased_at_once), and leave.
    #[inline(always)]
    pub fn first(
        &self,
        r: &mut FlowRunner,
        wide: impl Steps,
        (leased, n): (usize, usize),
        packets: &mut BatchDrain<'_>,
    ) -> usize {
        if leased > 0 {
            let sinks = r.meta.sinks.get(..leased).unwrap_or_default();
            packets.send(sinks, &mut r.runner.graph.out.transmitted);
        }
        match self.batched && leased < n {
            true => leased + wide.inspect_batch(r, (leased, n), (self.long, false), packets),
            false => leased,
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

/// A packet that is handed over.
struct BatchItem<'a> {
    way: u32,
    node: u16,
    hint: u32,
    /// Of the bindings that what is written stands on.
    lease: u32,
    operands: Operands,
    /// Its flow has, or may get, a lease, which it is noted in; and its entry has one.
    leases: bool,
    leased: bool,
    seen: Inspected<'a>,
    end: u32,
    /// Its checksum is right, if that is asked for.
    right: Option<bool>,
}

impl FlowRunner {
    /// May packets go this way together? What the element that inspects them needs then.
    pub(crate) fn may_inspect_batch(&self, f: &Fused) -> Option<BatchNeeds> {
        let (a, graph) = (&f.asked[0], &self.runner.graph);
        let sees = f.count == 1 && (f.idle || f.written >= f.count);
        let owns = f.own && f.touched < f.count;
        if !sees || owns || a.hint >= HINTS || f.sink == NO_SINK {
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
            at += self.go_leased(wide, (at, upto), (long, stale), packets);
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
        let (mut seen, mut hints, mut ends) = (BatchList::new(), [NO_HINT; GROUP], [0; GROUP]);
        let (mut n, mut node, mut right) = (0, 0, None);
        // those that end sooner than they did, those whose flows may be leased, those whose bindings are: a bit each
        let (mut trimmed, mut plain, mut bound) = (0u64, 0u64, 0u64);
        // Loops over indices: adapters may not be inlined. Bound: the group
        while n < most {
            let Some(x) = self.batch_item(wide, from + n, (long, stale), &rest[n], true) else {
                break;
            };
            if n > 0 && (x.node != node || x.leased) {
                break;
            }
            node = x.node;
            let i = (from + n) % GROUP;
            (self.meta.ways[i], ends[n]) = (x.way, x.end);
            self.meta.operands[i] = x.operands;
            trimmed |= u64::from(x.end < self.meta.lens[i]) << n;
            plain |= u64::from(x.leases) << n;
            bound |= u64::from(x.lease != NO_LEASE) << i;
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
        let leave = self.expected_batch(from, (seen.items(), rest[..n].iter().map(|p| &**p)));
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
        if plain & first_bits(went) != 0 {
            let told = (seen.items(), &hints[..n]);
            self.lease_each((node, from), plain & first_bits(went), told);
        }
        each_bit!(trimmed & first_bits(went), k, {
            rest[k].keep(ends[k] as usize);
        });
        self.use_bindings(bound & first_bits(from + went));
        if self.table.crowded() {
            for k in from..from + went {
                self.table.mark(self.meta.slots[k % GROUP]);
            }
        }
        self.stats.inspected_in_batches += went as u64;
        #[cfg(debug_assertions)]
        packets.will_leave_as(leave);
        self.batch_leaves(wide, (from, from + went), packets);
        (went, n)
    }

    /// What is handed over of a packet of the group, if bindings that it stands on hold; whether untimed ones do is
    /// asked if `holds`.
    #[inline(always)]
    fn batch_item<'a>(
        &self,
        wide: impl Wide,
        i: usize,
        (long, stale): (u64, bool),
        p: &'a Packet,
        holds: bool,
    ) -> Option<BatchItem<'a>> {
        let (i, meta) = (i % GROUP, &*self.meta);
        let l = self.table.get(meta.slots[i])?;
        if stale && !is_entry_of(l, meta, i, long) {
            return None;
        }
        let (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
        let w = self.composed.batched(action)?;
        let asked = lease != NO_LEASE && (holds || !w.untimed);
        if asked && !self.pool.leases.runs(lease) || w.moves && !self.has_room(w, p) {
            return None;
        }
        let data = p.data();
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
            lease,
            operands: flow_of(l).operands,
            leases: w.leases & (meta.plain >> i & 1 == 1),
            leased: w.leases & (meta.plain >> i & 1 == 1) & (hint_of(l, LEASE) != NO_FLOW_LEASE),
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

    /// Has a packet room for what is written to it, in front of it and behind it?
    #[inline(always)]
    pub(crate) fn has_room(&self, w: &BatchWay, p: &Packet) -> bool {
        p.headroom() >= ROOM && self.composed.fits(w.way, p)
    }

    /// Bindings are used that these packets of the group stand on, a bit each, in their order; they are leased.
    #[inline(always)]
    pub(crate) fn use_bindings(&mut self, which: u64) {
        let now = self.runner.graph.core.now;
        each_bit!(which, k, {
            if let Some(l) = self.table.get(self.meta.slots[k % GROUP]) {
                let runs = touched(&self.pool, (l.0[5] >> 32) as u32, now);
                debug_assert!(runs, "a lease has ended since it was looked at");
            }
        });
    }

    /// Packets of a group, by number from `from` on, have been let pass with these hints: the flows of plain ones are
    /// leased, a bit each by number in the run.
    #[cold]
    #[inline(never)]
    fn lease_each(
        &mut self,
        (node, from): (u16, usize),
        which: u64,
        (seen, hints): (&[Inspected<'_>], &[u32]),
    ) {
        let graph = &mut self.runner.graph;
        each_bit!(which, k, {
            let (Some(p), Some(hint)) = (seen.get(k), hints.get(k)) else {
                break;
            };
            let mut cx = InspectCx {
                now: graph.core.now,
                store: &mut graph.store,
                hint: None,
            };
            let lease = graph.core.lease(node.into(), p, *hint, &mut cx);
            if lease != NO_FLOW_LEASE {
                let slot = self.meta.slots[(from + k) % GROUP];
                set_hint(&mut self.table, slot, LEASE, lease);
            }
        });
    }

    /// For debug builds: packets of leased flows from number `from` of the group to before `upto` would be let pass.
    #[cfg(debug_assertions)]
    pub(crate) fn check_leased(
        &mut self,
        (from, upto): (usize, usize),
        (long, stale): (u64, bool),
        packets: &impl GroupPackets,
    ) -> Vec<Packet> {
        let mut seen = BatchList::new();
        for (i, p) in (from..upto).map_while(|i| Some((i, packets.packet(i)?))) {
            let any = crate::simd::any::Any;
            // bindings hold as long as a lease on the flow runs
            let Some(x) = self.batch_item(any, i, (long, stale), p, false) else {
                break;
            };
            if !x.leased {
                break;
            }
            let unsummed = x.seen.protocol == 17 && x.seen.net.get(26..28) == Some(&[0; 2]);
            assert!(x.right != Some(false) || unsummed, "a wrong checksum");
            let (slot, node) = (self.meta.slots[i], u32::from(x.node));
            let had = self.table.get(slot).map_or(0, |l| hint_of(l, LEASE));
            let graph = &mut self.runner.graph;
            let now = graph.core.now.nanos().max(0) as u64 / 1_000_000;
            let all = graph.core.leases(node, &mut graph.store).expect("leases");
            let mut noted = all.all.get(x.hint.wrapping_sub(1) as usize).copied();
            let runs = (noted.as_mut()).is_some_and(|l| l.note(had, now, &all.stays, (0, 0)));
            let mut cx = InspectCx {
                now: graph.core.now,
                store: &mut graph.store,
                hint: None,
            };
            // one that runs is the one that the element would give
            let would = graph.core.lease(node, &x.seen, x.hint, &mut cx);
            assert!(
                !runs || would == had,
                "{had} of {noted:?}, {would}: {:?}",
                x.seen
            );
            seen.push(x.seen);
        }
        let packets = (from..upto).map_while(|i| packets.packet(i));
        self.expected_batch(from, (seen.items(), packets))
    }

    /// For debug builds: packets that are handed over are what the element would find in the packets that it would be
    /// given; what is to leave.
    #[cfg(debug_assertions)]
    fn expected_batch<'a>(
        &mut self,
        from: usize,
        (seen, packets): (&[Inspected<'_>], impl Iterator<Item = &'a Packet>),
    ) -> Vec<Packet> {
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

/// Is this still the entry of a packet of the group?
#[inline(always)]
pub(crate) fn is_entry_of(l: &Entry, meta: &BatchMeta, i: usize, long: u64) -> bool {
    let i = i % GROUP;
    let [a, b] = meta.keys[i];
    let same = (l.0[0] ^ a) | (l.0[1] ^ b) == 0;
    same && (long >> i & 1 == 0 || l.0[2..5] == meta.addresses[i][1..])
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
