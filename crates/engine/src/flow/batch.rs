//! What is done for every packet of a known flow: the loops that everything else in this folder exists for.
//!
//! A group goes through in steps: boxes; ways or keys; buckets; entries; then each packet in its turn. Two things make steps: memory that was
//! asked for in one is there in the next, and a short loop has many packets in flight. One loop that does everything for a packet before
//! it looks at the next waits, for each packet, for the whole chain of comparisons, look-ups and indices behind one another: a core holds a few
//! hundred instructions, which is little more than one packet's. Per packet of a router that was 34 ns and became 19; with a first look that takes sixteen packets at once ([`crate::flow::extract`]) it is 15 (AMD EPYC with AVX-512). Whatever is the same for a group (clock, counters) is done once for it.

use crate::flow::FlowRunner;
use crate::flow::apply::{AtOnce, Done, Left};
use crate::flow::batch_drain::Front;
use crate::flow::extract::Seen;
use crate::flow::flow_action::Flow;
use crate::flow::interval_table::{BY_FLOW, UNKNOWN};
use crate::flow::learn::flow_of;
use crate::flow::lease::Pool;
use crate::flow::masked_match::{Lane, NO_BOX};
use crate::flow::policy::admission::Admission;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::steps::Steps;
use crate::flow::table::{LONG, NO_SLOT};
use crate::flow::windows;
use crate::flow::windows::Windows;
use crate::graph::arrival::{Arrival, tick};
use crate::simd::GROUP;
use crate::simd::Wide;
use crate::simd::any::Any;
use crate::simd::bits::first_bits;
use onefold_elements::rewrite::{Leases, NO_LEASE};
use onefold_elements::{ElemId, Outbox, StateStore};
use onefold_packet::{Pkt, Timestamp};

/// As many packets as there are sinks leave at these; those that have none, so many, are dropped.
#[inline(always)]
fn leave(packets: &mut Front<'_>, sinks: &[u32], dropped: u64, out: &mut Outbox) {
    if dropped == 0 {
        packets.send(sinks, &mut out.transmitted);
        return;
    }
    for sink in sinks {
        match (packets.next(), *sink) {
            // the reason is told later
            (Some(p), NO_SINK) => out.pool.recycle(p),
            (Some(p), sink) => out.transmitted.push((ElemId(sink), p)),
            (None, _) => {}
        }
    }
}

impl FlowRunner {
    /// Packets in groups: all steps for each.
    #[inline(always)]
    pub(crate) fn groups(
        &mut self,
        wide: impl Steps,
        source: ElemId,
        lane: usize,
        batch: &mut Vec<Pkt>,
        arrival: Arrival,
    ) {
        let stamped = arrival == Arrival::Stamped;
        let asked = batch.len();
        let known = self.stats.hits;
        let (mut shed, mut by_rule) = (0, 0);
        let mut places = windows::places();
        // Bound: each round takes at least one packet.
        while !batch.is_empty() {
            // what comes to be known from here on was not when the group was looked at
            let news = self.news;
            let mut n = batch.len().min(GROUP);
            // the clock is the same for the whole group, as far as it is looked at
            let mut alike = true;
            if stamped {
                alike = self.begin_group(batch.get(..n).unwrap_or_default());
            }
            let now = self.runner.graph.core.now;
            let mut windows = Windows::of(batch, &mut self.briefs.lens, &mut places);
            let mut seen = self.look_up(wide, lane, &windows);
            // all known, and no more of each than has to be
            let mut at_once = match (seen.by_flow, seen.keyed) {
                _ if !alike => Done::default(),
                (true, true) => self.go_all::<true>(wide, &mut windows, u64::MAX, now),
                (false, _) if seen.unknown == 0 => {
                    self.go_all::<false>(wide, &mut windows, u64::MAX, now)
                }
                _ => Done::default(),
            };
            let (mut begun, mut limited, mut gone) = (None, false, 0);
            if let (true, Some(unknown)) = (seen.part, seen.which) {
                let (dropped, again) =
                    self.judge(unknown, now, |r, i| (r.briefs.hashes[i % GROUP], true));
                if dropped == unknown && alike {
                    at_once = self.go_all::<true>(wide, &mut windows, !unknown, now);
                }
                if dropped == unknown && alike && at_once.upto == n {
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
            if limited {
                // one alone is classified with all else that is done for it
                begun = (seen.unknown > 1).then(|| self.stopwatch.read());
            }
            let mut packets = Front::of(batch, n);
            // the first rules of those that are not known: together they cost much less than one by one
            let first = match seen.unknown {
                0 | 1 => None,
                _ => self.firsts_of_unknown(source, packets.rest()),
            };
            if first.is_some() {
                by_rule += self.go_by_rule(lane, n);
            }
            if let (Some(a), Some(begun)) = (&mut self.admission, begun) {
                a.spent(self.stopwatch.read().saturating_sub(begun));
            }
            let mut i = at_once.upto;
            if gone == 0 {
                let sinks = self.briefs.sinks.get(..i).unwrap_or_default();
                let out = &mut self.runner.graph.out;
                leave(&mut packets, sinks, at_once.dropped, out);
            } else {
                shed += self.part(source, &mut packets, i, gone);
            }
            if i == n {
                continue;
            }
            self.briefs.fill(u64::MAX, &self.ways, &mut self.group);
            let changes = self.runner.graph.core.changes;
            // the table may have changed since it was asked, or has not been asked for entries
            let mut stale = i > 0 || seen.keyed || seen.part;
            // Bound: each round takes at least one packet.
            while i < n {
                let upto = match stamped {
                    false => n,
                    true => i + self.begin_run(packets.rest()),
                };
                let now = self.runner.graph.core.now;
                i += match stale {
                    false => wide.go::<false>(self, i, upto, &mut packets, now),
                    true => wide.go::<true>(self, i, upto, &mut packets, now),
                };
                if i == upto && upto < n {
                    // the next tick's, or others in the end
                    continue;
                }
                let next = packets.next();
                if let (true, Some(p)) = (stamped, &next) {
                    self.meet(p.anno.timestamp);
                }
                let now = self.runner.graph.core.now;
                if let Some(p) = next.and_then(|p| self.known(lane, i, p, now, news)) {
                    // a handler that was called may have ended the program's time
                    let first = first.filter(|_| self.runner.graph.core.changes == changes);
                    let timed = limited && self.admission.as_mut().is_some_and(Admission::times);
                    let begun = timed.then(|| self.stopwatch.read());
                    self.unknown(source, lane, i, p, first);
                    if let (Some(a), Some(begun)) = (&mut self.admission, begun) {
                        a.ran(self.stopwatch.read().saturating_sub(begun));
                    }
                    stale = true;
                }
                // whatever there is: bound
                i += 1;
            }
        }
        if let Some(l) = self.lanes.get_mut(lane) {
            let known = self.stats.hits - known;
            l.monitor
                .count(asked, known.saturating_sub(shed as u64), by_rule);
        }
    }

    /// The clock moves on to this time, at which a packet of a batch arrives.
    pub(crate) fn meet(&mut self, at: Timestamp) {
        let g = &self.runner.graph;
        if at <= g.core.now {
            return;
        }
        if tick(at) != tick(g.core.now) {
            self.end_moment();
        }
        if self.runner.graph.timer_due(at) {
            // whatever is due may ask elements
            self.sync();
        }
        self.runner.meet(at);
    }

    /// A group's packets are next, each of which arrives at its own time: the clock moves to the first one's. Are all of one tick, and
    /// no timer due before the last?
    fn begin_group(&mut self, group: &[Pkt]) -> bool {
        let Some(first) = group.first() else {
            return true;
        };
        self.meet(first.anno.timestamp);
        self.runner.graph.run_of(group, true) == group.len()
    }

    /// The same for the packets that are left of a group: how many, at least one, are of the first one's tick.
    fn begin_run(&mut self, rest: &[Pkt]) -> usize {
        let Some(first) = rest.first() else {
            return 0;
        };
        self.meet(first.anno.timestamp);
        self.runner.graph.run_of(rest, true).max(1)
    }

    /// The first steps for a group, up to its entries. What is known of its packets.
    #[inline(always)]
    fn look_up(&mut self, wide: impl Steps, lane: usize, packets: &Windows<'_>) -> Seen {
        let n = packets.len();
        let Some(lane) = self.lanes.get(lane) else {
            return Seen {
                unknown: n,
                ..Seen::default()
            };
        };
        let mut seen = Seen::default();
        (self.briefs.only, self.briefs.keyed) = (0, 0);
        self.briefs.longer = false;
        let Some(group) = self.group.get_mut(..n) else {
            return seen;
        };
        seen = match lane.edges() {
            true => wide.survey::<true>(lane, &self.table, packets, &mut self.briefs, group),
            false => wide.survey::<false>(lane, &self.table, packets, &mut self.briefs, group),
        };
        if self.briefs.keyed != 0 {
            let all = !0 >> (GROUP - n);
            let (leases, briefs) = (&self.pool.leases, &mut *self.briefs);
            match (briefs.keyed == all, lane.monitor.pressed) {
                (true, false) => {
                    let tallies = &self.ways.tallies;
                    seen.keyed = wide.search_keyed(&self.table, leases, tallies, briefs, n);
                    if seen.keyed {
                        return seen;
                    }
                }
                (true, true) if self.admission.is_some() => {
                    let which = wide.search_pressed(&self.table, leases, &self.once, briefs, n);
                    (seen.keyed, seen.part) = (which == 0, which != 0);
                    seen.which = Some(which);
                    seen.unknown = which.count_ones() as usize;
                    return seen;
                }
                _ => briefs.slots = [NO_SLOT; GROUP],
            }
        }
        if seen.by_flow || seen.unknown > 0 {
            self.briefs.fill(u64::MAX, &self.ways, group);
        }
        if !seen.by_flow {
            return seen;
        }
        if lane.monitor.pressed {
            let which = wide.search_mixed(&self.table, &self.pool.leases, &self.once, group);
            seen.which = (seen.unknown == 0).then_some(which);
            seen.unknown += which.count_ones() as usize;
            return seen;
        }
        seen.unknown += wide.search(&self.table, &self.pool.leases, &self.ways.tallies, group);
        seen
    }

    /// Packets from number `from` of the group on go their ways, up to the first one of which more is to be known, which is the next one then. How many went.
    /// `STALE`: the table may have changed since it was asked for their entries.
    ///
    /// Packets stay where they are until all of them are done: lists that grow along the way are looked up in memory for each.
    #[inline(always)]
    pub(crate) fn go<const STALE: bool>(
        &mut self,
        wide: impl Wide,
        from: usize,
        n: usize,
        packets: &mut Front<'_>,
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
        let left = Left {
            tallies: &mut self.ways.tallies,
            acts: &self.ways.acts,
            dirty: &mut self.dirty,
            table: &mut self.table,
            packets: &mut rest[..count],
            sinks: &mut sinks,
        };
        let shared = (&self.pool, &self.runner.graph.store);
        let done = left.go::<STALE>(wide, group, shared, &mut clock);
        self.went(&done, clock);
        let out = &mut self.runner.graph.out;
        leave(packets, &sinks[..done.went], done.dropped, out);
        done.went
    }

    /// [`FlowRunner::go`] of a group's first packets, all of which are known [in short](crate::flow::batch_meta), and whose windows are at hand. Where they leave is
    /// [written down](crate::flow::batch_meta::Briefs::sinks); they have not left.
    ///
    /// `KEYED`: all have entries; otherwise none has.
    #[inline(always)]
    fn go_all<const KEYED: bool>(
        &mut self,
        wide: impl Steps,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Done {
        // those that have no entries are written in few instructions as it is, and wait for memory
        let together = match KEYED {
            true => wide.go_together(self, packets, which, now),
            false => None,
        };
        match together {
            Some(done) => done,
            None => wide.go_at_once::<KEYED>(self, packets, which, now),
        }
    }

    /// [`FlowRunner::go_all`], one after the other.
    #[inline(always)]
    pub(crate) fn go_at_once<const KEYED: bool>(
        &mut self,
        wide: impl Wide,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Done {
        let Some(mut clock) = self.clock(now) else {
            return Done::default();
        };
        let (left, shared) = self.at_once(packets, which);
        let done = left.go::<KEYED>(wide, shared, &mut clock);
        self.went(&done, clock);
        done
    }

    /// [`FlowRunner::go_all`], way by way: `None` where [that](AtOnce::go_together) is not to be.
    #[inline(always)]
    pub(crate) fn go_together(
        &mut self,
        wide: impl Wide,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Option<Done> {
        let mut clock = self.clock(now)?;
        let (left, shared) = self.at_once(packets, which);
        let done = left.go_together(wide, shared, &mut clock)?;
        self.went(&done, clock);
        Some(done)
    }

    /// What packets that go at once have to do with.
    #[inline(always)]
    fn at_once<'a, 'b>(
        &'a mut self,
        packets: &'a mut Windows<'b>,
        which: u64,
    ) -> (AtOnce<'a, 'b>, (&'a Pool, &'a StateStore)) {
        let left = AtOnce {
            which,
            tallies: &mut self.ways.tallies,
            acts: &self.ways.acts,
            dirty: &mut self.dirty,
            table: &mut self.table,
            briefs: &mut self.briefs,
            packets,
        };
        (left, (&self.pool, &self.runner.graph.store))
    }

    /// The stamp before the first one that packets get now; `None` if what is known does not hold any more.
    #[inline(always)]
    fn clock(&self, now: Timestamp) -> Option<u64> {
        let g = &self.runner.graph;
        if self.seen != Some(g.core.changes) || g.core.overruns > 0 {
            return None;
        }
        // as `Leases::stamp_after`, at one moment: each stamp is one more than the last
        let first = Leases::stamp_after(0, now).saturating_sub(1);
        Some(self.pool.leases.clock().max(first))
    }

    /// Packets have gone their ways, the last of those that have got a stamp with this one.
    #[inline(always)]
    fn went(&mut self, done: &Done, clock: u64) {
        self.pool.leases.set_clock(clock);
        let (went, dropped) = (done.went as u64, done.dropped);
        self.stats.hits += went;
        self.stats.by_class += done.by_class;
        if let Some(l) = &mut self.runner.loaded {
            l.packets += went;
        }
        let g = &mut self.runner.graph;
        g.packets_in += went;
        g.out.sent += went - dropped;
        g.out.dropped += dropped;
    }

    /// One packet of which more is to be known: whose entry came a moment ago, or whose counts are told at once. Given back if its flow is not known.
    #[inline(never)]
    fn known(
        &mut self,
        lane: usize,
        i: usize,
        mut p: Pkt,
        now: Timestamp,
        news: u64,
    ) -> Option<Pkt> {
        use crate::flow::{PathEnd, tell};
        let Some(x) = self.group.get_mut(i) else {
            return Some(p);
        };
        let g = &mut self.runner.graph;
        if self.seen != Some(g.core.changes) || g.core.overruns > 0 {
            return Some(p);
        }
        // nothing is known that was not then, and no entry looked like this flow's: a flood is not looked up twice
        let keyed =
            |l: &Lane| (l.boxes.get(usize::from(x.guard))).is_some_and(|b| b.direct.is_none());
        if news == self.news
            && (x.way, x.slot) == (UNKNOWN, NO_SLOT)
            && self.lanes.get(lane).is_some_and(keyed)
        {
            return Some(p);
        }
        // since the group was looked at, another packet may have come to know the box or the way
        if let Some(l) = self.lanes.get(lane) {
            l.parse(Any, &p, x);
        }
        if x.guard == NO_BOX {
            return Some(p);
        }
        let mut flow = Flow::default();
        let mut way = x.way;
        if way == BY_FLOW {
            x.hash = self.table.hash(&x.key);
            x.slot = self.table.find(x.hash, &x.key);
            let Some(l) = self.table.get(x.slot) else {
                return Some(p);
            };
            (way, x.lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
            flow = match x.key[0] & LONG {
                0 => flow_of(l),
                _ => Flow::default(),
            };
        }
        let (slot, lease) = (x.slot, x.lease);
        let Some(act) = self.ways.act(way) else {
            return Some(p);
        };
        if x.slot == NO_SLOT {
            flow.own = act.own;
        }
        if let Some(x) = act.dangerous(&flow, &p) {
            flow.own = flow.own.emptied(x);
        }
        if lease != NO_LEASE {
            let leases = &self.pool.leases;
            let stamp = Leases::stamp_after(leases.clock(), now);
            if !leases.touch(lease, stamp) {
                self.drop_entry(slot);
                self.stats.ended += 1;
                return Some(p);
            }
            leases.set_clock(stamp);
            debug_assert!(
                self.pool.holds(lease, &g.store),
                "lease {lease} of a binding that is gone"
            );
        }
        if slot != NO_SLOT {
            self.table.mark(slot);
        } else {
            self.stats.by_class += 1;
        }
        self.stats.hits += 1;
        if let Some(l) = &mut self.runner.loaded {
            l.packets += 1;
        }
        g.packets_in += 1;
        let len = p.len() as u64;
        let Some((w, t)) = self.ways.get_mut(way) else {
            return Some(p);
        };
        if t.pending().packets == 0 && !t.ready() {
            self.dirty.push(way);
        }
        t.add(1, len as u32, x.total);
        let (late, moment) = w.late;
        if late < w.name.counts.len() {
            if moment > 0 {
                if w.moment.packets == 0 {
                    self.moments.push(way);
                }
                w.moment.add(len, x.total);
            }
            for c in w.name.counts.get(late + moment..).unwrap_or_default() {
                tell(g, c, 1, len, x.total.into());
            }
        }
        match w.name.end {
            PathEnd::Output(sink, _) => {
                if let Some(act) = self.ways.act(way) {
                    act.apply(&mut p, &flow.own, x.total);
                }
                g.out.sent += 1;
                g.out.transmitted.push((ElemId(sink), p));
            }
            // the reason is told later
            _ => {
                g.out.dropped += 1;
                g.out.pool.recycle(p);
            }
        }
        None
    }
}
