//! Inserting bindings, and evicting others where the table is full.

use crate::age_queue::{Filed, NIL};
use crate::lease::{NO_LEASE, STAMP_BITS};
use crate::record::{Counts, NewFlow, Record, Timeout, Usage};
use crate::sequence_shifts::SequenceShifts;
use crate::table::{FlowTable, MAX_FLOWS, timeout};
use onefold_packet::Timestamp;

/// What orders flows that may go: guaranteed, when, stamp.
type Rank = (bool, u64, u64);

/// Behind all of them.
const LAST: Rank = (true, u64::MAX, u64::MAX);

/// What the last search for a victim has found out, and what holds for the next ones: in a flood one flow is evicted
/// for each that is inserted.
///
/// Nothing in a third queue ranks before `until` within the same millisecond: flows there are filed under stamps that
/// only grow, and the [first one of an empty queue](FlowTable::file) ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvictionOrder {
    /// The two whose flows go first, or one twice: where TCP and UDP are mixed, they take turns.
    pub(crate) queues: [usize; 2],
    pub(crate) now_ms: u64,
    pub(crate) until: Rank,
}

impl Default for EvictionOrder {
    /// Of no time.
    fn default() -> EvictionOrder {
        EvictionOrder {
            queues: [0; 2],
            now_ms: u64::MAX,
            until: (false, 0, 0),
        }
    }
}

/// Of a flow with this time-out and last use. Later stamps never rank before earlier ones.
#[inline(always)]
pub(crate) fn rank(t: Timeout, now_ms: u64, stamp: u64) -> Rank {
    let last = stamp >> STAMP_BITS;
    let guaranteed = now_ms < last + t.guarantee;
    let when = last + if guaranteed { t.guarantee } else { t.expire };
    (guaranteed, when, stamp)
}

impl FlowTable {
    /// Inserts a binding; `None` when there is no room for it. A flow whose replies would look the same is replaced.
    pub(crate) fn insert(&mut self, new: &NewFlow, now: Timestamp) -> Option<u32> {
        if !self.leads_out(new) {
            return None;
        }
        let map = new.map;
        let reply = new.rewritten.reversed();
        let hashes = [new.hash, self.hash(map, &reply)];
        debug_assert!(!new.free || self.lookup(map, &reply).is_none());
        let there = !new.free && self.lookup_hashed(hashes[1], map, &reply).is_some();
        if new.flow != reply && !there {
            let stamp = self.stamp(now);
            return self.insert_free(new, hashes, new.deltas(), stamp);
        }
        let stamp = self.stamp(now);
        let i = self.allocate()?;
        self.insert_record(i, new, stamp, hashes, new.deltas());
        for (n, hash) in (0..).zip(hashes) {
            let key = if n == 1 { reply } else { new.flow };
            let (index, keys) = self.indexed();
            let is_it = |x: u32| {
                let o = &keys.records[(x >> 1) as usize];
                o.key(x & 1 != 0) == key && o.map == map
            };
            let old = index.set(hash, i << 1 | n, is_it, &keys);
            if let Some(old) = old
                && old >> 1 != i
            {
                self.remove(old >> 1);
            }
            self.note(map, &key, true);
        }
        if self.live > self.limit() {
            let victim = self.victim(now, false).unwrap_or(i);
            self.remove(victim);
            if victim == i {
                self.count_failure(map, new.input);
                return None;
            }
            self.evictions += 1;
        }
        Some(i)
    }

    /// The same for a flow whose replies no flow has, nor its own packets, and whose outputs there are; `hashes`: of
    /// both, `deltas`: [`NewFlow::deltas`], `stamp`: the last one.
    ///
    /// All of it is inlined where the flow is made: handed over in memory, fields that have just been written one by
    /// one would be read two at a time, which has to wait until everything written before has arrived, and some of that
    /// is on its way to lines that are far away.
    #[inline(always)]
    pub(crate) fn insert_free(
        &mut self,
        new: &NewFlow,
        hashes: [u32; 2],
        deltas: (u16, u16),
        stamp: u64,
    ) -> Option<u32> {
        let map = new.map;
        let reply = new.rewritten.reversed();
        self.check_free(new, hashes, deltas);
        // room is made first: its record is the next one to be used
        let mut place = None;
        if self.full() {
            place = self.evict_in_place(map, new.input, stamp);
            if place.is_none() && !self.evict_for_new(map, new.input, stamp) {
                return None;
            }
        }
        let i = match place {
            Some(i) => i,
            None => self.allocate()?,
        };
        self.insert_record(i, new, stamp, hashes, deltas);
        let (index, keys) = self.indexed();
        index.add(hashes[0], i << 1, &keys);
        index.add(hashes[1], i << 1 | 1, &keys);
        self.note(map, &new.flow, true);
        self.note(map, &reply, true);
        Some(i)
    }

    /// Debug builds check that what is said of a new flow is so, and that no flow has its keys.
    #[inline(always)]
    pub(crate) fn check_free(&self, new: &NewFlow, hashes: [u32; 2], deltas: (u16, u16)) {
        let (map, reply) = (new.map, new.rewritten.reversed());
        debug_assert!(self.leads_out(new));
        debug_assert_eq!(deltas, new.deltas());
        debug_assert_eq!(hashes, [new.flow, reply].map(|k| self.hash(map, &k)));
        // the caller has looked it up
        debug_assert!(self.lookup(map, &new.flow).is_none());
        debug_assert!(self.lookup(map, &reply).is_none() && new.flow != reply);
    }

    /// Has the rewriter the outputs?
    #[inline(always)]
    fn leads_out(&self, new: &NewFlow) -> bool {
        let m = self.members.get(usize::from(new.map >> 1));
        m.is_some_and(|m| new.outputs.0 < m.noutputs && new.outputs.1 < m.noutputs)
    }

    /// Writes a record, and files it; it is not in the index yet.
    #[inline(always)]
    pub(crate) fn insert_record(
        &mut self,
        i: u32,
        new: &NewFlow,
        stamp: u64,
        hashes: [u32; 2],
        deltas: (u16, u16),
    ) {
        let q = self.queue_of(new.map, new.flags);
        let filed = self.fill(i, new, stamp, hashes, deltas);
        if self.queues[q].file(&self.records, filed) {
            self.order = EvictionOrder::default();
        }
        self.live += 1;
        if new.usage != Usage::Plain {
            self.claim(i);
        }
        self.count_flows(new.map, new.input, 1);
    }

    /// Writes a record alone: what it is to be filed as.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        i: u32,
        new: &NewFlow,
        stamp: u64,
        hashes: [u32; 2],
        (ip_delta, port_delta): (u16, u16),
    ) -> Filed {
        let record = &mut self.records[i as usize];
        let number = record.filing.wrapping_add(1);
        *record = Record {
            forward: new.flow,
            reply: new.rewritten.reversed(),
            stamp,
            ip_delta,
            port_delta,
            output: [new.outputs.0 as u16, new.outputs.1 as u16],
            map: new.map,
            input: new.input,
            generation: record.generation,
            filing: number,
            ip_p: new.ip_p,
            flags: new.flags,
            usage: new.usage,
            ..Record::default()
        };
        Filed {
            stamp,
            record: i,
            number,
            hashes,
        }
    }

    /// [`FlowTable::evict_in_place`] has found the one that a search finds.
    #[cfg(debug_assertions)]
    pub(crate) fn is_victim(&mut self, now_ms: u64, i: u32) -> bool {
        let order = self.order;
        let found = self.find_victim(now_ms, false);
        self.order = order;
        found.map(|(_, i)| i) == Some(i)
    }

    /// What [`FlowTable::evict_for_new`] and [`FlowTable::allocate`] do, where the victim is known: the record that a
    /// new flow of the map reuses.
    #[inline(always)]
    fn evict_in_place(&mut self, map: u16, input: u16, stamp: u64) -> Option<u32> {
        let mut cursor = self.eviction_cursor(map, stamp)?;
        let (i, same) = self.evict_next(&mut cursor, map, stamp, input)?;
        if same {
            self.count_removed(map, input);
        }
        if self.has_exhaustion() {
            self.note_evicted(i);
        }
        if self.endpoints.is_some() {
            self.release_endpoint(i);
        }
        self.live -= 1;
        self.evictions += 1;
        Some(i)
    }

    /// The keys of a record that has been taken out of the index are free, unless another record has them.
    #[cold]
    #[inline(never)]
    fn note_evicted(&mut self, i: u32) {
        let Some(r) = self.records.get(i as usize) else {
            return;
        };
        let (map, keys) = (r.map, [r.forward, r.reply]);
        for key in &keys {
            if self.lookup(map, key).is_none() {
                self.note(map, key, false);
            }
        }
    }

    /// Where a new flow of a map stands among those that may go; `None` for one that may not.
    #[inline(always)]
    fn own_rank(&self, map: u16, stamp: u64) -> Option<Rank> {
        let t = timeout(&self.members, self.queue_of(map, 0));
        (t.guarantee == 0).then(|| (false, (stamp >> STAMP_BITS) + t.expire, stamp))
    }

    /// Removes the flow that has to make room for a new one; false when none has to, or the new one itself would be it.
    #[inline(never)]
    fn evict_for_new(&mut self, map: u16, input: u16, stamp: u64) -> bool {
        let own = self.own_rank(map, stamp);
        // the time that a stamp has just been given at
        match self.find_victim(stamp >> STAMP_BITS, false) {
            Some((rank, victim)) if own.is_none_or(|own| rank < own) => {
                let r = &self.records[victim as usize];
                let q = self.queue_of(r.map, r.flags);
                self.remove(victim);
                self.evictions += 1;
                self.prefetch_victims(q);
                true
            }
            _ => {
                self.count_failure(map, input);
                false
            }
        }
    }

    #[inline(always)]
    pub(crate) fn allocate(&mut self) -> Option<u32> {
        if let Some(i) = self.free.pop() {
            return Some(i);
        }
        // one more than the limit exists while the victim is looked for
        if self.records.len() > MAX_FLOWS {
            return None;
        }
        self.records.push(Record::default());
        // all of them may be free one day: room for that is taken when there is a reason to take some
        self.free.reserve(self.records.len());
        Some(self.records.len() as u32 - 1)
    }

    fn counts_mut(&mut self, map: u16, input: u16) -> Option<&mut Counts> {
        let m = self.members.get_mut(usize::from(map >> 1))?;
        m.inputs.get_mut(usize::from(input))
    }
    pub(crate) fn count_flows(&mut self, map: u16, input: u16, more: u32) {
        if let Some(c) = self.counts_mut(map, input) {
            c.flows += more;
        }
    }
    /// One less.
    pub(crate) fn count_removed(&mut self, map: u16, input: u16) {
        if let Some(c) = self.counts_mut(map, input) {
            c.flows = c.flows.saturating_sub(1);
        }
    }
    pub(crate) fn count_failure(&mut self, map: u16, input: u16) {
        if let Some(c) = self.counts_mut(map, input) {
            c.failures = c.failures.saturating_add(1);
        }
    }

    /// A binding is not found any more, nor counted; `hashes`: of its keys.
    #[inline(always)]
    fn unindex(&mut self, i: u32, hashes: [u32; 2]) {
        // no copy of it: its last use may just have been written to it
        let r = &self.records[i as usize];
        let (map, input, keys) = (r.map, r.input, [r.forward, r.reply]);
        for ((n, hash), key) in (0..).zip(hashes).zip(&keys) {
            if self.index.remove(hash, i << 1 | n) {
                self.note(map, key, false);
            }
        }
        if self.endpoints.is_some() {
            self.release_endpoint(i);
        }
        self.count_removed(map, input);
        self.live -= 1;
    }

    /// Removes a binding, both directions.
    pub(crate) fn remove(&mut self, i: u32) {
        let record = &self.records[i as usize];
        if !record.used() {
            return;
        }
        let (map, flags, shifts) = (record.map, record.flags, record.shifts);
        let hashes = [false, true].map(|reply| self.hash(map, &record.key(reply)));
        self.end_lease(i);
        self.unindex(i, hashes);
        let q = self.queue_of(map, flags);
        self.queues[q].unlink(&mut self.records, i);
        if shifts != NIL {
            self.shifts[shifts as usize] = SequenceShifts::default();
            self.free_shifts.push(shifts);
        }
        // most often another flow is about to be in it, and writes all of it
        self.free.push(i);
        let record = &mut self.records[i as usize];
        record.usage = Usage::Unused;
        record.lease = NO_LEASE;
        record.generation = record.generation.wrapping_add(1);
        record.shifts = NIL;
    }

    /// The next victim: the best-effort one that times out first; else, if `any`, the guaranteed one whose guarantee
    /// ends first.
    fn victim(&mut self, now: Timestamp, any: bool) -> Option<u32> {
        self.find_victim(self.now_ms(now), any).map(|(_, i)| i)
    }

    /// The same, with what orders those that may go: guaranteed, when, stamp. A queue's records are looked at only when
    /// what they were filed under leaves open that one of them is the next victim: flows that are used all the time are
    /// not looked at for each that is not.
    fn find_victim(&mut self, now_ms: u64, any: bool) -> Option<(Rank, u32)> {
        self.order = EvictionOrder::default();
        // Bound: each round but the last finds out the real rank of one queue more, or that of one that has been found
        // out is the least.
        for _ in 0..=2 * self.queues.len() {
            // the least, the one behind it, and what is left
            let mut best: Option<(Rank, usize)> = None;
            let mut next: Option<(Rank, usize)> = None;
            let mut until = LAST;
            for (class, queue) in self.queues.iter().enumerate() {
                if queue.is_empty() {
                    continue;
                }
                let Some(stamp) = queue.least() else { continue };
                let r = rank(timeout(&self.members, class), now_ms, stamp);
                // what is pushed out of the two
                let out = match (best, next) {
                    (Some(b), Some(n)) if r >= b.0 && r >= n.0 => Some((r, class)),
                    (Some(b), _) if r >= b.0 => next.replace((r, class)),
                    _ => std::mem::replace(&mut next, best.replace((r, class))),
                };
                until = until.min(out.map_or(LAST, |(r, _)| r));
            }
            let (bound, class) = best?;
            let queue = self.queues.get_mut(class)?;
            if bound.0 && !any {
                return None;
            }
            let found = queue.oldest(&mut self.records, self.leases.as_deref());
            // what it was filed under was its last use: nothing of what has been compared has changed
            if let Some(i) = found
                && self.records[i as usize].stamp == bound.2
            {
                let next = next.map_or(class, |(_, next)| next);
                self.order = EvictionOrder {
                    queues: [class, next],
                    now_ms,
                    until,
                };
                return Some((bound, i));
            }
        }
        None
    }

    /// Removes flows that have timed out, and what is over the capacity.
    pub fn sweep(&mut self, now: Timestamp) {
        let now_ms = self.now_ms(now);
        for q in 0..self.queues.len() {
            let t = timeout(&self.members, q);
            while let Some(i) = self.queues[q].oldest(&mut self.records, self.leases.as_deref()) {
                let last = self.records[i as usize].last_ms();
                if now_ms < last + t.guarantee.max(t.expire) {
                    break;
                }
                self.remove(i);
            }
        }
        while self.live > self.limit() {
            let Some(i) = self.victim(now, true) else {
                break;
            };
            self.remove(i);
            self.evictions += 1;
        }
    }
}

#[cfg(test)]
#[path = "insert_evict_tests.rs"]
mod tests;
