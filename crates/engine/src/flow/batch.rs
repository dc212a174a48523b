//! What is done for every packet of a known flow: the loops that everything else in this folder exists for.
//!
//! A group goes through in steps: matches; actions or keys; buckets; entries; then each packet in its turn. Two
//! things make steps: memory that was asked for in one is there in the next, and a short loop has many packets in
//! flight. One loop that does everything for a packet before it looks at the next waits, for each packet, for the
//! whole chain of comparisons, look-ups and indices behind one another: a core holds a few hundred instructions,
//! which is little more than one packet's. Per packet of a router that was 34 ns and became 19; with a first look
//! that takes sixteen packets at once ([`crate::flow::extract`]) it is 15 (AMD EPYC with AVX-512). Whatever is the
//! same for a group (clock, counters) is done once for it.

use crate::flow::apply::{Applied, ApplyAtOnce, ApplyEach};
use crate::flow::batch_drain::BatchDrain;
use crate::flow::composed::ComposedTable;
use crate::flow::extract::Extracted;
use crate::flow::ingress_cache::IngressCache;
use crate::flow::inspect_batch::BatchTurns;
use crate::flow::learn::flow_of;
use crate::flow::lease::LeasePool;
use crate::flow::packet_meta::NO_MATCH;
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::rewrite_template::Flow;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::steps::Steps;
use crate::flow::table::{LONG, NO_SLOT};
use crate::flow::windows;
use crate::flow::windows::Windows;
use crate::graph::arrival::{Arrival, tick};
use crate::program::path::PathEnd;
use crate::simd::GROUP;
use crate::simd::Wide;
use crate::simd::any::Any;
use crate::simd::bits::first_bits;
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_element::{ElemId, StateStore};
use onefold_nat::Leases;
use onefold_packet::{Pkt, Timestamp};
use std::time::Duration;

impl FlowRunner {
    /// Packets in groups: all steps for each.
    #[inline(always)]
    pub(crate) fn groups(
        &mut self,
        wide: impl Steps,
        source: ElemId,
        ingress: usize,
        batch: &mut Vec<Pkt>,
        arrival: Arrival,
    ) {
        let stamped = arrival == Arrival::Stamped;
        let looked_up = batch.len();
        let known = self.stats.hits;
        let (mut shed, mut by_rule) = (0, 0);
        let mut places = windows::places();
        // Bound: each round takes at least one packet.
        while !batch.is_empty() {
            // what comes to be known from here on was not when the group was looked at
            let (news, mut n) = (self.news, batch.len().min(GROUP));
            // the clock is the same for the whole group, as far as it is looked at
            let equal_match =
                !stamped || self.begin_group(ingress, batch.get(..n).unwrap_or_default());
            let now = self.runner.graph.core.now;
            let mut windows = Windows::of(batch, &mut self.meta.lens, &mut places);
            let alone = self.tell_plain(ingress);
            let mut seen = self.look_up(wide, ingress, &windows);
            let leased = self.plain_told(wide, seen.keyed && equal_match, &mut windows);
            // all known, and no more of each than has to be
            let mut at_once = match (seen.by_flow, seen.keyed) {
                _ if !equal_match || alone => Applied::default(),
                (true, true) => self.apply_all::<true>(wide, &mut windows, u64::MAX, now),
                (false, _) if seen.unknown == 0 => {
                    self.apply_all::<false>(wide, &mut windows, u64::MAX, now)
                }
                _ => Applied::default(),
            };
            let (mut limited, mut gone) = (false, 0);
            if let (true, Some(unknown)) = (seen.part, seen.which) {
                let (dropped, again) =
                    self.judge(unknown, now, |r, i| (r.meta.hashes[i % GROUP], true));
                if dropped == unknown && equal_match {
                    at_once = self.apply_all::<true>(wide, &mut windows, !unknown, now);
                }
                let exits = self.has_exits(ingress);
                if dropped == unknown && equal_match && at_once.upto == n && !exits {
                    gone = dropped;
                } else {
                    // somebody is let in, or is to be told of a packet that is known
                    self.spell_out(unknown, again);
                    let went = dropped & first_bits(at_once.upto);
                    at_once.upto -= went.count_ones() as usize;
                    let left = self.close_ranks(source, n, dropped, batch);
                    shed += n - left;
                    n = left;
                }
                seen.unknown -= dropped.count_ones() as usize;
                limited = seen.unknown > 0;
            } else if self.admission.is_some() && seen.unknown > 0 {
                let left = self.admit(source, n, seen.which, batch, now);
                seen.unknown = seen.unknown.saturating_sub(n - left);
                shed += n - left;
                n = left;
                limited = true;
            }
            // one alone is classified with all else that is done for it
            let begun = (limited && seen.unknown > 1).then(|| self.stopwatch.read());
            let mut packets = BatchDrain::of(batch, n);
            // the first rules of those that are not known: together they cost much less than one by one
            let some = (seen.unknown > 1).then(|| packets.rest());
            let first = some.and_then(|rest| self.firsts_of_unknown(source, rest, stamped));
            let found = self.found();
            if first.is_some() {
                by_rule += self.go_by_rule(ingress, n);
            }
            self.spent_since(begun);
            let mut i = at_once.upto;
            match gone {
                0 => self.transmit_noted(ingress, &mut packets, i, at_once.dropped),
                _ => shed += self.part(source, &mut packets, i, gone),
            }
            let mut turns = BatchTurns::of(self, alone && equal_match && seen.keyed);
            i += turns.first(self, wide, (leased, n), &mut packets);
            if i == n {
                self.flush();
                continue;
            }
            self.meta.fill(u64::MAX, &self.actions, &mut self.group);
            // the table may have changed since it was asked, or has not been asked for entries
            let mut stale = i > 0 || seen.keyed || seen.part;
            // Bound: each round takes at least one packet.
            while i < n {
                let run = stamped.then(|| self.begin_run_of(ingress, packets.rest()));
                let upto = run.map_or(n, |run| i + run);
                if alone {
                    let to = turns.one_by_one(i, upto);
                    i += wide.go_in_place(self, (ingress, i), to, &mut packets, stale);
                    stale |= self.news != news;
                    if let Some(went) = turns.next(self, wide, (i, to, upto), &mut packets) {
                        i += went;
                        continue;
                    }
                }
                let alone = alone && i < upto && self.goes_alone(wide, ingress, i, stale);
                if !alone {
                    i += self.go_many(wide, (ingress, i), upto, &mut packets, stale);
                }
                if i == upto && upto < n {
                    // the next tick's, or others in the end
                    continue;
                }
                let mut next = packets.next();
                if let (true, Some(p)) = (stamped, &next) {
                    self.meet(p.anno.timestamp);
                }
                let now = self.runner.graph.core.now;
                if alone {
                    next = next.and_then(|p| wide.go_alone(self, (ingress, i), p, now));
                    stale |= self.news != news;
                }
                if let Some(p) = next.and_then(|p| self.known(ingress, i, p, now, news)) {
                    self.flush();
                    // a handler that was called, or a neighbour, may have ended the rules' time
                    let first = first.filter(|_| self.found() == found);
                    self.unknown_timed((source, ingress, i), p, first, limited);
                    stale = true;
                }
                i += 1;
            }
            self.flush();
        }
        let known = (self.stats.hits - known).saturating_sub(shed as u64);
        if let Some(l) = self.ingress.get_mut(ingress) {
            l.monitor.count(looked_up, known, by_rule);
        }
    }

    /// Unknown packets have taken the time since this moment, if they have any to take.
    fn spent_since(&mut self, begun: Option<Duration>) {
        if let (Some(a), Some(begun)) = (&mut self.admission, begun) {
            a.spent(self.stopwatch.read().saturating_sub(begun));
        }
    }

    /// Two numbers, one of which is another if rules that were found may not be those that take packets any more.
    fn found(&mut self) -> (u64, u64) {
        (self.runner.graph.core.changes, self.runner.falsified())
    }

    /// The clock moves on to this time, at which a packet of a batch arrives.
    pub(crate) fn meet(&mut self, at: Timestamp) {
        let g = &self.runner.graph;
        if at <= g.core.now {
            return;
        }
        // those that came before have done all that they do
        self.flush();
        let g = &self.runner.graph;
        if tick(at) != tick(g.core.now) {
            self.end_moment();
        }
        if self.runner.graph.timer_due(at) {
            // whatever is due may ask elements
            self.sync();
        }
        self.runner.meet(at);
    }

    /// A group's packets are next, each of which arrives at its own time: the clock moves to the first one's. Are all
    /// of one tick, and no timer due before the last?
    fn begin_group(&mut self, cache: usize, group: &[Pkt]) -> bool {
        let Some(first) = group.first() else {
            return true;
        };
        self.meet(first.anno.timestamp);
        self.run_of(cache, group) == group.len()
    }

    /// How many of these packets, the first of which arrives now, may be carried out together. Where they go on
    /// behind asked elements, which may look at the clock closely, they are those that arrive at the same time.
    fn run_of(&self, cache: usize, packets: &[Pkt]) -> usize {
        let n = self.runner.graph.run_of(packets, true);
        if !self.has_exits(cache) {
            return n;
        }
        let now = self.runner.graph.core.now;
        let those = packets.iter().take(n);
        those.take_while(|p| p.anno.timestamp <= now).count()
    }

    /// The same for the packets that are left of a group: how many, at least one, are of the first one's tick.
    fn begin_run_of(&mut self, cache: usize, rest: &[Pkt]) -> usize {
        let Some(first) = rest.first() else {
            return 0;
        };
        let at = first.anno.timestamp;
        self.flush();
        self.meet(at);
        self.run_of(cache, rest).max(1)
    }

    /// The first steps for a group, up to its entries. What is known of its packets.
    #[inline(always)]
    pub(crate) fn look_up(
        &mut self,
        wide: impl Steps,
        ingress: usize,
        packets: &Windows<'_>,
    ) -> Extracted {
        let n = packets.len();
        let Some(ingress) = self.ingress.get_mut(ingress) else {
            return Extracted {
                unknown: n,
                ..Extracted::default()
            };
        };
        let mut seen = Extracted::default();
        (self.meta.only, self.meta.keyed, self.meta.long) = (0, 0, 0);
        (self.meta.longer, self.meta.plain, self.meta.padded) = (false, 0, 0);
        let Some(group) = self.group.get_mut(..n) else {
            return seen;
        };
        let (table, meta) = (&self.table, &mut *self.meta);
        let leased = meta.tells_plain.and(self.composed.leases());
        seen = match (ingress.quick_v6, ingress.edges()) {
            (true, _) => wide.extract_long(ingress, table, packets, meta, group),
            (_, true) => wide.extract::<true>(ingress, table, packets, meta, group),
            (_, false) => wide.extract::<false>(ingress, table, packets, meta, group),
        };
        (ingress.order).group(&self.meta.guards, self.meta.only | self.meta.keyed);
        if self.meta.keyed != 0 {
            let all = !0 >> (GROUP - n);
            let (leases, meta) = (&self.pool.leases, &mut *self.meta);
            let asked: (&Leases, _) = (leases, leased);
            let short = meta.keyed == all && meta.long == 0;
            match (meta.keyed | meta.only == all, ingress.monitor.overloaded) {
                (true, false) => {
                    let (table, actions) = (&self.table, &self.actions);
                    seen.keyed = match short {
                        true => wide.search_keyed(table, asked, &actions.tallies, meta, n),
                        false => wide.search_some(table, asked, actions, meta, n),
                    };
                    if seen.keyed {
                        return seen;
                    }
                }
                (true, true) if short && self.admission.is_some() => {
                    let which =
                        wide.search_overloaded(&self.table, leases, &self.seen_filter, meta, n);
                    (seen.keyed, seen.part) = (which == 0, which != 0);
                    seen.which = Some(which);
                    seen.unknown = which.count_ones() as usize;
                    return seen;
                }
                _ => meta.slots = [NO_SLOT; GROUP],
            }
        }
        if seen.by_flow || seen.unknown > 0 {
            self.meta.fill(u64::MAX, &self.actions, group);
        }
        if !seen.by_flow {
            return seen;
        }
        if ingress.monitor.overloaded {
            let which = wide.search_mixed(&self.table, &self.pool.leases, &self.seen_filter, group);
            seen.which = (seen.unknown == 0).then_some(which);
            seen.unknown += which.count_ones() as usize;
            return seen;
        }
        seen.unknown += wide.search(&self.table, &self.pool.leases, &self.actions.tallies, group);
        seen
    }

    /// [`FlowRunner::go`], now.
    #[inline(always)]
    fn go_many(
        &mut self,
        wide: impl Steps,
        from: (usize, usize),
        n: usize,
        packets: &mut BatchDrain<'_>,
        stale: bool,
    ) -> usize {
        let now = self.runner.graph.core.now;
        match stale {
            false => wide.go::<false>(self, from, n, packets, now),
            true => wide.go::<true>(self, from, n, packets, now),
        }
    }

    /// Packets from number `from` of the group on have their actions applied, up to the first one of which more is to
    /// be known, which is the next one then. How many went. `STALE`: the table may have changed since it was asked
    /// for their entries.
    ///
    /// Packets stay where they are until all of them are done: lists that grow along the way are looked up in memory
    /// for each.
    #[inline(always)]
    pub(crate) fn go<const STALE: bool>(
        &mut self,
        wide: impl Wide,
        (cache, from): (usize, usize),
        n: usize,
        packets: &mut BatchDrain<'_>,
        now: Timestamp,
    ) -> usize {
        let Some(mut clock) = self.clock(now) else {
            return 0;
        };
        let rest = packets.rest();
        let count = n.saturating_sub(from).min(rest.len()).min(GROUP);
        let to = from + count;
        let group = self.group.get_mut(from..to).unwrap_or_default();
        let mut sinks = [NO_SINK; GROUP];
        let left = ApplyEach {
            tallies: &mut self.actions.tallies,
            templates: &self.actions.templates,
            dirty: &mut self.dirty,
            table: &mut self.table,
            packets: &mut rest[..count],
            sinks: &mut sinks,
        };
        let shared = (&self.pool, &self.runner.graph.store);
        let done = left.go::<STALE>(wide, group, shared, &mut clock);
        self.went(&done, clock);
        self.transmit(cache, from, packets, &sinks[..done.went], done.dropped);
        done.went
    }

    /// [`FlowRunner::go`] of a group's first packets, all of which are known [in short](crate::flow::batch_meta), and
    /// whose windows are at hand. Where they leave is [written down](crate::flow::batch_meta::BatchMeta::sinks); they
    /// have not left.
    ///
    /// `KEYED`: some have entries, and of the others it has been written down what they would have; otherwise none
    /// has.
    #[inline(always)]
    pub(crate) fn apply_all<const KEYED: bool>(
        &mut self,
        wide: impl Steps,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Applied {
        // those that have no entries are written in few instructions as it is, and wait for memory
        let together = match KEYED {
            true => wide.apply_grouped(self, packets, which, now),
            false => None,
        };
        match together {
            Some(done) => done,
            None => wide.apply_at_once::<KEYED>(self, packets, which, now),
        }
    }

    /// [`FlowRunner::apply_all`], one after the other.
    #[inline(always)]
    pub(crate) fn apply_at_once<const KEYED: bool>(
        &mut self,
        wide: impl Wide,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Applied {
        let Some(mut clock) = self.clock(now) else {
            return Applied::default();
        };
        let (left, shared) = self.at_once(packets, which);
        let done = left.go::<KEYED>(wide, shared, &mut clock);
        self.went(&done, clock);
        done
    }

    /// [`FlowRunner::apply_all`], action by action: `None` where [that](ApplyAtOnce::apply_grouped) is not to be.
    #[inline(always)]
    pub(crate) fn apply_grouped(
        &mut self,
        wide: impl Wide,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Option<Applied> {
        let mut clock = self.clock(now)?;
        let (left, shared) = self.at_once(packets, which);
        let done = left.apply_grouped(wide, shared, &mut clock)?;
        self.went(&done, clock);
        Some(done)
    }

    /// What packets that go at once have to do with.
    #[inline(always)]
    fn at_once<'a, 'b>(
        &'a mut self,
        packets: &'a mut Windows<'b>,
        which: u64,
    ) -> (ApplyAtOnce<'a, 'b>, (&'a LeasePool, &'a StateStore)) {
        let left = ApplyAtOnce {
            which,
            tallies: &mut self.actions.tallies,
            templates: &self.actions.templates,
            dirty: &mut self.dirty,
            table: &mut self.table,
            meta: &mut self.meta,
            packets,
        };
        (left, (&self.pool, &self.runner.graph.store))
    }

    /// The stamp before the first one that packets get now; `None` if what is known does not hold any more.
    #[inline(always)]
    fn clock(&mut self, now: Timestamp) -> Option<u64> {
        self.look_at_neighbors(now);
        let g = &self.runner.graph;
        if self.seen != Some(g.core.changes) || g.core.overruns > 0 {
            return None;
        }
        // as `Leases::stamp_after`, at one moment: each stamp is one more than the last
        let first = Leases::stamp_after(0, now).saturating_sub(1);
        Some(self.pool.leases.clock().max(first))
    }

    /// Packets have had their actions applied, the last of those that have got a stamp with this one.
    #[inline(always)]
    fn went(&mut self, done: &Applied, clock: u64) {
        self.pool.leases.set_clock(clock);
        let (went, dropped) = (done.went as u64, done.dropped);
        self.came(went, done.by_class);
        let g = &mut self.runner.graph;
        g.out.sent += went - dropped;
        g.out.dropped += dropped;
    }

    /// One packet of which more is to be known: whose entry came a moment ago, or whose counts are told at once.
    /// Given back if its flow is not known.
    #[inline(never)]
    pub(crate) fn known(
        &mut self,
        ingress: usize,
        i: usize,
        p: Pkt,
        now: Timestamp,
        news: u64,
    ) -> Option<Pkt> {
        self.look_at_neighbors(now);
        let Some(x) = self.group.get_mut(i) else {
            return Some(p);
        };
        let core = &self.runner.graph.core;
        if self.seen != Some(core.changes) || core.overruns > 0 {
            return Some(p);
        }
        // nothing is known that was not then, and no entry looked like this flow's: a flood is not looked up twice
        let keyed = |l: &IngressCache| {
            (l.matches.get(usize::from(x.guard))).is_some_and(|b| b.interval_table.is_none())
        };
        if news == self.news
            && (x.action, x.slot) == (UNKNOWN, NO_SLOT)
            && self.ingress.get(ingress).is_some_and(keyed)
        {
            return Some(p);
        }
        // since the group was looked at, another packet may have come to know the match or the action
        if let Some(l) = self.ingress.get(ingress) {
            l.parse(Any, &p, x);
        }
        if x.guard == NO_MATCH {
            return Some(p);
        }
        let mut flow = Flow::default();
        let mut action = x.action;
        if action == BY_FLOW {
            x.hash = self.table.hash(&x.key);
            x.slot = self.table.find(x.hash, &x.key);
            let Some(l) = self.table.get(x.slot) else {
                return Some(p);
            };
            (action, x.lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
            flow = match x.key[0] & LONG {
                0 => flow_of(l),
                _ => Flow::default(),
            };
        }
        let (slot, lease, total) = (x.slot, x.lease, x.total);
        if self.depth == 0 && self.goes_through_alone(action) {
            let patience = self.ingress.get_mut(ingress).map(|l| l.patience.ends());
            return self.walk_and_compose((ingress, i), p, now, patience == Some(true));
        }
        if ComposedTable::is(action) {
            return self.walk_found((ingress, i), p, now, (action, flow.operands));
        }
        let Some(template) = self.actions.template(action) else {
            // it rests: the program is to bring it back
            if let Some(x) = self.group.get_mut(i) {
                x.action = action;
            }
            return Some(p);
        };
        if slot == NO_SLOT {
            flow.operands = template.bytes.operands;
        }
        if let Some(x) = template.zero_udp_checksum_of(&flow, &p) {
            flow.operands = flow.operands.with_zero_udp_checksum(x);
        }
        if !self.is_used(lease, slot, now) {
            return Some(p);
        }
        if slot != NO_SLOT {
            self.table.mark(slot);
        }
        self.came(1, u64::from(slot == NO_SLOT));
        if self.actions.get(action).is_some_and(|(w, _)| !w.waits()) {
            // whoever is told of each packet at once may do something then
            self.flush();
        }
        let Some(end) = self.actions.get(action).map(|(w, _)| w.name.end) else {
            return Some(p);
        };
        self.tally(action, p.len(), total);
        self.goes_its_way(end, action, (&flow.operands, total), (ingress, i), p);
        None
    }

    /// A packet becomes what its action's template makes of it, with these operands; its IP header says `total`. It
    /// leaves, waits at its exit, or is dropped: number `i` of the group.
    #[inline(always)]
    fn goes_its_way(
        &mut self,
        end: PathEnd,
        action: u32,
        (operands, total): (&FlowOperands, u32),
        (cache, i): (usize, usize),
        mut p: Pkt,
    ) {
        let leaves = !matches!(end, PathEnd::Drop(..) | PathEnd::Elsewhere);
        let Some(template) = self.actions.template(action).filter(|_| leaves) else {
            // the reason is told later
            self.runner.graph.out.dropped += 1;
            return self.runner.graph.out.pool.recycle(p);
        };
        template.apply(&mut p, operands, total);
        let sink = template.sink;
        if let PathEnd::Output(sink, _) = end {
            self.number(cache, i, &mut p);
            let out = &mut self.runner.graph.out;
            out.sent += 1;
            out.transmitted.push((ElemId(sink), p));
        } else {
            self.wait_at(sink, i, p);
        }
    }
}
