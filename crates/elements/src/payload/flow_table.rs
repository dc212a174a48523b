//! A bounded table of flows, the least recently seen one giving way to a new one.

use super::flow_key::{FlowBytes, FlowKey};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use onefold_element::{Partition, Scope, State, state_any};
use onefold_packet::Timestamp;
use onefold_table::prefetch_near;
use std::fmt::Write;
use std::hash::BuildHasher;

/// What is known of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub key: FlowKey,
    /// Packets seen.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first was seen.
    pub first: Timestamp,
    /// When the last was seen.
    pub last: Timestamp,
}

/// What a packet reads and writes of its flow's record.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Hot {
    key: FlowKey,
    /// Zero in a record that is free.
    packets: u64,
    bytes: u64,
    last: Timestamp,
}

// one line of the cache
const _: () = assert!(size_of::<Hot>() == 64);

/// No neighbour.
const NIL: u32 = u32::MAX;

/// Neighbours in the order of age, in a list of their own: a packet changes those of three flows, whose records are not
/// looked at.
#[derive(Debug, Clone, Copy)]
struct Links {
    /// Seen next before this one.
    older: u32,
    /// Seen next after this one.
    newer: u32,
}

/// A packet that is yet to be counted.
#[derive(Debug, Clone, Copy)]
struct Pending {
    key: FlowKey,
    hash: u64,
    bytes: u64,
    now: Timestamp,
}

/// Packets that are counted together. Nobody sees that they wait: whoever reads has them counted before.
const TOGETHER: usize = 16;

/// See the module's text. All operations take constant time but for the reports.
///
/// A packet's flow is three or four lines of the cache (index, record, neighbours), and finding one waits for the one
/// before: packets are counted sixteen at a time, all being found before the first is counted, so that the processor
/// waits for all of them at once (`kitchen-sink` with 8,000 flows: 70 ns a packet one by one).
#[derive(Debug, Clone)]
pub struct FlowTable {
    /// At most [`TOGETHER`].
    pending: Vec<Pending>,
    /// Numbers of records, by their keys.
    index: HashTable<u32>,
    hasher: RandomState,
    records: Vec<Hot>,
    /// When the first packet was seen; as many as there are records.
    first: Vec<Timestamp>,
    /// As many as there are records.
    links: Vec<Links>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    capacity: usize,
    timeout: Timestamp,
    /// Flows that gave way to new ones.
    pub evicted: u64,
    /// Flows that were idle for too long.
    pub expired: u64,
    /// Packets counted.
    pub packets: u64,
    /// Bytes counted.
    pub bytes: u64,
    /// Packets that are no IP packets.
    pub skipped: u64,
}

impl FlowTable {
    /// A table for at most `capacity` flows (at least one). `timeout` zero: flows do not expire.
    pub fn new(capacity: usize, timeout: Timestamp) -> FlowTable {
        FlowTable {
            pending: Vec::with_capacity(TOGETHER),
            index: HashTable::new(),
            hasher: RandomState::default(),
            records: Vec::new(),
            first: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            oldest: NIL,
            newest: NIL,
            capacity: capacity.clamp(1, NIL as usize - 1),
            timeout,
            evicted: 0,
            expired: 0,
            packets: 0,
            bytes: 0,
            skipped: 0,
        }
    }

    /// Flows in the table.
    pub fn len(&mut self) -> usize {
        self.settle();
        self.index.len()
    }
    /// Most flows that it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Counts a packet.
    #[inline]
    pub fn count(&mut self, key: FlowKey, bytes: u64, now: Timestamp) {
        self.packets += 1;
        self.bytes += bytes;
        let hash = self.hasher.hash_one(key);
        self.pending.push(Pending {
            key,
            hash,
            bytes,
            now,
        });
        if self.pending.len() >= TOGETHER {
            self.settle();
        }
    }

    /// Counts a packet whose flow's record may be where this hint says: a hint for the flow's next packet.
    ///
    /// A hint is one more than a record's number, and what has that number may be another flow's record by now, or
    /// nobody's: its key is compared.
    #[inline(always)]
    pub fn count_at(&mut self, hint: u32, of: &FlowBytes<'_>, bytes: u64, now: Timestamp) -> u32 {
        let i = hint.wrapping_sub(1);
        if self.pending.is_empty()
            && self.timeout == Timestamp::ZERO
            && let Some(r) = self.records.get_mut(i as usize)
            && r.packets != 0
            && of.is(&r.key)
        {
            r.packets += 1;
            r.bytes += bytes;
            r.last = now;
            self.packets += 1;
            self.bytes += bytes;
            self.renew(i);
            return hint;
        }
        self.count_and_find(i, of.key(), bytes, now)
    }

    /// Counts a packet at once, whose flow's record may have this number: a hint for the flow's next packet.
    #[inline(never)]
    fn count_and_find(&mut self, i: u32, key: FlowKey, bytes: u64, now: Timestamp) -> u32 {
        self.settle();
        self.packets += 1;
        self.bytes += bytes;
        let hash = self.hasher.hash_one(key);
        self.count_one(
            Pending {
                key,
                hash,
                bytes,
                now,
            },
            i,
        );
        // it has just been counted
        self.newest.wrapping_add(1)
    }

    /// Flows with these hints will be counted soon: their memory is asked for.
    pub fn prefetch(&self, hints: &[u32]) {
        for hint in hints {
            let i = hint.wrapping_sub(1) as usize;
            if let (Some(r), Some(l)) = (self.records.get(i), self.links.get(i)) {
                prefetch_near(r);
                prefetch_near(l);
            }
        }
    }

    /// Counts what waits for it.
    fn settle(&mut self) {
        let mut found = [NIL; TOGETHER];
        let records = &self.records;
        for (p, found) in self.pending.iter().zip(&mut found) {
            let same = |i: &u32| records.get(*i as usize).is_some_and(|r| r.key == p.key);
            *found = self.index.find(p.hash, same).copied().unwrap_or(NIL);
        }
        let mut pending = std::mem::take(&mut self.pending);
        for (p, found) in pending.drain(..).zip(found) {
            self.count_one(p, found);
        }
        self.pending = pending;
    }

    /// Counts one packet, whose record has this number unless what was counted since it was found has changed that.
    #[inline(always)]
    fn count_one(&mut self, p: Pending, found: u32) {
        // two per packet: a table that is full of dead flows empties while new ones come
        self.remove_idle(p.now, 2);
        if self.count_known(found, &p) {
            return;
        }
        let records = &self.records;
        let same = |i: &u32| records.get(*i as usize).is_some_and(|r| r.key == p.key);
        let found = self.index.find(p.hash, same).copied().unwrap_or(NIL);
        if !self.count_known(found, &p) {
            self.count_new(p);
        }
    }

    /// Counts a packet of the flow that this record is about; whether it is.
    #[inline(always)]
    fn count_known(&mut self, i: u32, p: &Pending) -> bool {
        match self.records.get_mut(i as usize) {
            Some(r) if r.packets != 0 && r.key == p.key => {
                r.packets += 1;
                r.bytes += p.bytes;
                r.last = p.now;
            }
            _ => return false,
        }
        self.renew(i);
        true
    }

    /// A flow is the one that was seen last.
    #[inline(always)]
    fn renew(&mut self, i: u32) {
        if i != self.newest {
            self.unlink(i);
            self.link_newest(i);
        }
    }

    #[cold]
    fn count_new(&mut self, p: Pending) {
        let Pending {
            key,
            hash,
            bytes,
            now,
        } = p;
        if self.index.len() >= self.capacity && self.remove_oldest() {
            self.evicted += 1;
        }
        let record = Hot {
            key,
            packets: 1,
            bytes,
            last: now,
        };
        let i = match self.free.pop() {
            Some(i) => {
                (self.records[i as usize], self.first[i as usize]) = (record, now);
                i
            }
            None => {
                self.records.push(record);
                self.first.push(now);
                let (older, newer) = (NIL, NIL);
                self.links.push(Links { older, newer });
                (self.records.len() - 1) as u32
            }
        };
        let (records, hasher) = (&self.records, &self.hasher);
        let hash_of = |i: &u32| (records.get(*i as usize)).map_or(0, |r| hasher.hash_one(r.key));
        self.index.insert_unique(hash, i, hash_of);
        self.link_newest(i);
    }

    /// Removes at most `most` flows that have been idle for too long.
    pub fn expire(&mut self, now: Timestamp, most: usize) {
        self.settle();
        self.remove_idle(now, most);
    }

    #[inline(always)]
    fn remove_idle(&mut self, now: Timestamp, most: usize) {
        if self.timeout == Timestamp::ZERO {
            return;
        }
        for _ in 0..most {
            let oldest = self.records.get(self.oldest as usize);
            let dead = self.oldest != NIL && oldest.is_some_and(|r| r.last + self.timeout <= now);
            if !dead || !self.remove_oldest() {
                return;
            }
            self.expired += 1;
        }
    }

    fn remove_oldest(&mut self) -> bool {
        let i = self.oldest;
        let Some(r) = self.records.get_mut(i as usize) else {
            return false;
        };
        r.packets = 0;
        if let Ok(e) = (self.index).find_entry(self.hasher.hash_one(r.key), |j| *j == i) {
            e.remove();
        }
        self.unlink(i);
        self.free.push(i);
        true
    }

    fn unlink(&mut self, i: u32) {
        let Some(Links { older, newer }) = self.links.get(i as usize).copied() else {
            return;
        };
        match self.links.get_mut(older as usize) {
            Some(l) => l.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(l) => l.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, i: u32) {
        let (older, newer) = (self.newest, NIL);
        if let Some(l) = self.links.get_mut(i as usize) {
            *l = Links { older, newer };
        }
        match self.links.get_mut(older as usize) {
            Some(l) => l.newer = i,
            None => self.oldest = i,
        }
        self.newest = i;
    }

    /// All flows, the one seen longest ago first.
    pub fn by_age(&mut self) -> Vec<Record> {
        let mut out = Vec::with_capacity(self.len());
        let mut i = self.oldest;
        while let (Some(r), Some(first), Some(l)) = (
            self.records.get(i as usize),
            self.first.get(i as usize),
            self.links.get(i as usize),
        ) {
            out.push(Record {
                key: r.key,
                packets: r.packets,
                bytes: r.bytes,
                first: *first,
                last: r.last,
            });
            i = l.newer;
        }
        out
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = FlowTable::new(self.capacity, self.timeout);
    }
}

impl State for FlowTable {
    fn summary(&self) -> String {
        let mut all = self.clone();
        all.settle();
        let mut s = format!(
            "{} packets, {} bytes, {} skipped, {} evicted, {} expired\n",
            all.packets, all.bytes, all.skipped, all.evicted, all.expired
        );
        // in order of age: it decides who gives way next
        for r in all.by_age() {
            let _ = writeln!(
                s,
                "{} {} {} {} {}",
                r.key,
                r.packets,
                r.bytes,
                r.first.nanos(),
                r.last.nanos()
            );
        }
        s
    }
    state_any!(Scope::Partitioned(Partition::Flow));
}

#[cfg(test)]
mod tests {
    use super::super::flow_key::Addresses;
    use super::*;
    use onefold_element::NO_HINT;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is kept in order of age; some packets with hints, right ones and wrong ones.
        #[test]
        fn least_recently_seen_gives_way(
            capacity in 1usize..6,
            timeout in 0i64..8,
            steps in prop::collection::vec(
                (0u8..10, 0i64..3, prop::bool::weighted(0.1), prop::option::of(0u32..14)),
                0..200,
            ),
        ) {
            let mut t = FlowTable::new(capacity, Timestamp::from_secs(timeout));
            let mut model: Vec<Record> = Vec::new();
            let (mut evicted, mut expired, mut now) = (0u64, 0u64, 0);
            let mut hints = [NO_HINT; 10];
            for (k, dt, look, hint) in steps {
                now += dt;
                let at = Timestamp::from_secs(now);
                // most differ in one byte, and one in what it is
                let addresses = [1, 1, 1, 1 + k / 2, 1, 1, 1, 1];
                let mut long = [0; 32];
                long[..4].copy_from_slice(&addresses[..4]);
                long[16..20].copy_from_slice(&addresses[4..]);
                let of = FlowBytes {
                    addresses: match k {
                        9 => Addresses::V6(&long),
                        _ => Addresses::V4(&addresses),
                    },
                    protocol: 6,
                    ports: (k % 2 == 1).then_some(&[0; 4]),
                };
                let key = of.key();
                for _ in 0..2 {
                    if timeout > 0 && model.first().is_some_and(|r| r.last.sec() + timeout <= now) {
                        model.remove(0);
                        expired += 1;
                    }
                }
                match model.iter().position(|r| r.key == key) {
                    Some(i) => {
                        let mut r = model.remove(i);
                        r.packets += 1;
                        r.bytes += 10;
                        r.last = at;
                        model.push(r);
                    }
                    None => {
                        if model.len() == capacity {
                            model.remove(0);
                            evicted += 1;
                        }
                        model.push(Record { key, packets: 1, bytes: 10, first: at, last: at });
                    }
                }
                let known = &mut hints[usize::from(k)];
                match hint {
                    // what the flow's last packet has left
                    Some(11..) => *known = t.count_at(*known, &of, 10, at),
                    Some(wrong) => *known = t.count_at(wrong, &of, 10, at),
                    None => t.count(key, 10, at),
                }
                if hint.is_some() {
                    prop_assert_eq!(t.records[*known as usize - 1].key, key);
                }
                t.prefetch(&[hint.unwrap_or(NO_HINT)]);
                if look {
                    prop_assert_eq!(t.by_age(), model.clone());
                    prop_assert_eq!((t.len(), t.evicted, t.expired), (model.len(), evicted, expired));
                }
                prop_assert!(t.records.len() <= capacity);
            }
        }
    }
}
