//! A bounded table of flows, the least recently seen one giving way to a new one.

use onefold_element::{Partition, Scope, State, state_any};
use onefold_packet::Timestamp;
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What makes packets one flow: addresses, protocol, ports (absent in fragments that are not the first, and with
/// protocols that have none). One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Protocol.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: Option<(u16, u16)>,
}

impl FlowKey {
    /// From IPv4 addresses.
    pub fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
        FlowKey {
            src: IpAddr::V4(Ipv4Addr::from(src)),
            dst: IpAddr::V4(Ipv4Addr::from(dst)),
            protocol,
            ports,
        }
    }
    /// From IPv6 addresses.
    pub fn v6(src: [u8; 16], dst: [u8; 16], protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
        FlowKey {
            src: IpAddr::V6(Ipv6Addr::from(src)),
            dst: IpAddr::V6(Ipv6Addr::from(dst)),
            protocol,
            ports,
        }
    }
}

/// `PROTOCOL SRC SPORT DST DPORT`, `-` for absent ports.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ports {
            Some((s, d)) => write!(f, "{} {} {s} {} {d}", self.protocol, self.src, self.dst),
            None => write!(f, "{} {} - {} -", self.protocol, self.src, self.dst),
        }
    }
}

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

/// No neighbour.
const NIL: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Slot {
    record: Record,
    /// Seen next before this one.
    older: u32,
    /// Seen next after this one.
    newer: u32,
}

/// See the module's text. All operations take constant time but for the reports.
#[derive(Debug, Clone)]
pub struct FlowTable {
    index: HashMap<FlowKey, u32>,
    slots: Vec<Slot>,
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
            index: HashMap::new(),
            slots: Vec::new(),
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
    pub fn len(&self) -> usize {
        self.index.len()
    }
    /// Most flows that it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Counts a packet.
    pub fn count(&mut self, key: FlowKey, bytes: u64, now: Timestamp) {
        self.packets += 1;
        self.bytes += bytes;
        // two per packet: a table that is full of dead flows empties while new ones come
        self.expire(now, 2);
        if let Some(i) = self.index.get(&key).copied() {
            if let Some(s) = self.slots.get_mut(i as usize) {
                s.record.packets += 1;
                s.record.bytes += bytes;
                s.record.last = now;
            }
            self.unlink(i);
            self.link_newest(i);
            return;
        }
        if self.index.len() >= self.capacity && self.remove_oldest() {
            self.evicted += 1;
        }
        let slot = Slot {
            record: Record {
                key,
                packets: 1,
                bytes,
                first: now,
                last: now,
            },
            older: NIL,
            newer: NIL,
        };
        let i = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = slot;
                i
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, i);
        self.link_newest(i);
    }

    /// Removes at most `most` flows that have been idle for too long.
    pub fn expire(&mut self, now: Timestamp, most: usize) {
        if self.timeout == Timestamp::ZERO {
            return;
        }
        for _ in 0..most {
            let dead = match self.slots.get(self.oldest as usize) {
                Some(s) => s.record.last + self.timeout <= now,
                None => false,
            };
            if !dead || !self.remove_oldest() {
                return;
            }
            self.expired += 1;
        }
    }

    fn remove_oldest(&mut self) -> bool {
        let i = self.oldest;
        let Some(s) = self.slots.get(i as usize) else {
            return false;
        };
        self.index.remove(&s.record.key);
        self.unlink(i);
        self.free.push(i);
        true
    }

    fn unlink(&mut self, i: u32) {
        let Some((older, newer)) = self.slots.get(i as usize).map(|s| (s.older, s.newer)) else {
            return;
        };
        match self.slots.get_mut(older as usize) {
            Some(s) => s.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(s) => s.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, i: u32) {
        let newest = self.newest;
        if let Some(s) = self.slots.get_mut(i as usize) {
            s.older = newest;
            s.newer = NIL;
        }
        match self.slots.get_mut(newest as usize) {
            Some(s) => s.newer = i,
            None => self.oldest = i,
        }
        self.newest = i;
    }

    /// All flows, the one seen longest ago first.
    pub fn by_age(&self) -> Vec<Record> {
        let mut out = Vec::with_capacity(self.len());
        let mut i = self.oldest;
        while let Some(s) = self.slots.get(i as usize) {
            out.push(s.record);
            i = s.newer;
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
        let mut s = format!(
            "{} packets, {} bytes, {} skipped, {} evicted, {} expired\n",
            self.packets, self.bytes, self.skipped, self.evicted, self.expired
        );
        // in order of age: it decides who gives way next
        for r in self.by_age() {
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
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is kept in order of age.
        #[test]
        fn least_recently_seen_gives_way(capacity in 1usize..6, timeout in 0i64..8, steps in prop::collection::vec((0u8..10, 0i64..3), 0..200)) {
            let mut t = FlowTable::new(capacity, Timestamp::from_secs(timeout));
            let mut model: Vec<Record> = Vec::new();
            let (mut evicted, mut expired, mut now) = (0u64, 0u64, 0);
            for (k, dt) in steps {
                now += dt;
                let at = Timestamp::from_secs(now);
                let key = FlowKey::v4([k; 4], [1; 4], 6, None);
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
                t.count(key, 10, at);
                prop_assert_eq!(t.by_age(), model.clone());
                prop_assert_eq!((t.len(), t.evicted, t.expired), (model.len(), evicted, expired));
                prop_assert!(t.slots.len() <= capacity);
            }
        }
    }
}
