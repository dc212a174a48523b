//! Known neighbours as the fast path reads them: which Ethernet address an IP address has, and until when the element
//! that owns the table is not needed to say so.
//!
//! A table of neighbours changes while packets are under way: a reply comes in, a query goes out, an entry is evicted.
//! Whoever reads it takes a [`HeldNeighbors`] and lets go of it before an element may write; a write while somebody
//! holds on is made in a copy. What was read may be used again as long as [`HeldNeighbors::changes`] stays the same
//! and its time has not come: an entry that is new, or confirmed, falsifies nothing that was read before.

use super::arp_table::ArpTable;
use crate::ip6::neighbor::NeighborTable;
use onefold_element::model::{
    AnnoKey, Case, Cond, Exit, Fix, Model, Op, Read, RouteWhat, Value, ValueSet, field,
};
use onefold_element::{ElemId, StateStore};
use onefold_packet::{EtherAddr, Timestamp};
use onefold_table::hash_words;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Changed addresses that are listed; who has missed more asks for all of them.
const LISTED: usize = 64;

/// What is known of one neighbour. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    pub ether: EtherAddr,
    /// When it was last heard of.
    pub live_at: i64,
    /// When the next query may be sent; `i64::MAX` where packets send none.
    pub next_poll: i64,
    /// The first moment at which it is not known any more.
    pub expires: i64,
}

impl Heard {
    /// The first moment at which the element must see a packet for it: when it has expired, or a query is due
    /// because it is `poll` old (0: never).
    fn until(&self, poll: i64) -> i64 {
        match poll {
            0 => self.expires,
            n => self
                .expires
                .min(self.live_at.saturating_add(n).max(self.next_poll)),
        }
    }
    /// Does what was read of it hold for less long than what was read before?
    fn shortens(&self, old: &Heard) -> bool {
        self.ether != old.ether
            || self.expires < old.expires
            || self.live_at < old.live_at
            || self.next_poll.max(self.live_at) < old.next_poll
    }
}

/// Hashes addresses with a key that nobody who sends replies knows.
#[derive(Debug, Clone)]
struct Keyed([u64; 4]);

impl Default for Keyed {
    fn default() -> Keyed {
        let random = RandomState::new();
        let word = |i: u64| random.hash_one(i) | i >> 1;
        Keyed([0, 1, 2, 3].map(word))
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;
    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher {
            key: self.0,
            hash: 0,
        }
    }
}

struct KeyedHasher {
    key: [u64; 4],
    hash: u64,
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write_u128(&mut self, address: u128) {
        self.hash = hash_words(&self.key, address as u64, (address >> 64) as u64);
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.hash = hash_words(&self.key, self.hash, (*b).into());
        }
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[derive(Debug, Clone, Default)]
struct Inner {
    known: HashMap<u128, Heard, Keyed>,
    /// The last addresses that changed, the latest at the end.
    changed: VecDeque<u128>,
    changes: u64,
}

/// The known neighbours of one table: written by its element alone.
#[derive(Debug, Default)]
pub(crate) struct Neighbors {
    inner: Arc<Inner>,
    changes: Arc<AtomicU64>,
}

impl Clone for Neighbors {
    /// Another table, which changes by itself.
    fn clone(&self) -> Neighbors {
        Neighbors {
            inner: self.inner.clone(),
            changes: Arc::new(AtomicU64::new(self.inner.changes)),
        }
    }
}

impl Neighbors {
    /// A neighbour is known as this, or not known. `special`: without it packets for this address went elsewhere.
    pub fn set(&mut self, address: u128, heard: Option<Heard>, special: bool) {
        if self.inner.known.get(&address) == heard.as_ref() {
            return;
        }
        let inner = Arc::make_mut(&mut self.inner);
        let old = match heard {
            Some(h) => inner.known.insert(address, h),
            None => inner.known.remove(&address),
        };
        let falsified = match (&old, &heard) {
            (Some(old), Some(new)) => new.shortens(old),
            (Some(_), None) => true,
            (None, _) => special,
        };
        if falsified {
            inner.changes += 1;
            if inner.changed.len() >= LISTED {
                inner.changed.pop_front();
            }
            inner.changed.push_back(address);
            self.changes.store(inner.changes, Relaxed);
        }
    }

    /// None is known any more.
    pub fn clear(&mut self) {
        if self.inner.known.is_empty() {
            return;
        }
        let inner = Arc::make_mut(&mut self.inner);
        inner.known.clear();
        inner.changed.clear();
        // more than are listed
        inner.changes += LISTED as u64 + 1;
        self.changes.store(inner.changes, Relaxed);
    }
}

/// Who asks a table: an element's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Milliseconds after which a neighbour that is used is queried; 0 for never.
    pub poll: i64,
    /// The broadcast address of the element's IPv4 network; `None` where it asks for IPv6 addresses.
    pub broadcast: Option<u32>,
}

/// The milliseconds of a table's clock.
fn millis(now: Timestamp) -> i64 {
    now.nanos().div_euclid(1_000_000)
}

/// Counts the changes of a table that falsify what was read, without holding on to it.
#[derive(Debug, Clone)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// How many there have been.
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A table of neighbours, held on to, as one element asks it.
#[derive(Debug, Clone)]
pub struct HeldNeighbors {
    inner: Arc<Inner>,
    changes: Arc<AtomicU64>,
    terms: Terms,
}

impl HeldNeighbors {
    /// The table that an element asks for Ethernet addresses, if it does.
    pub fn of(store: &StateStore, elem: ElemId) -> Option<HeldNeighbors> {
        let id = store.published_by(elem)?;
        let (neighbors, terms) = match store.get::<ArpTable>(id) {
            Some(t) => (t.neighbors(), t.terms_of(elem)?),
            None => store.get::<NeighborTable>(id)?.neighbors(),
        };
        Some(HeldNeighbors {
            inner: neighbors.inner.clone(),
            changes: neighbors.changes.clone(),
            terms,
        })
    }

    /// The number of changes by now that falsify what was read before: goes on counting while the table is held.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// The same number, for whoever lets go of the table.
    pub fn watch(&self) -> Changes {
        Changes(self.changes.clone())
    }

    /// Addresses of which something else may be so than before the change of this number; `None`: of all.
    pub fn changed_since(&self, before: u64) -> Option<impl Iterator<Item = u128> + '_> {
        let missed = self.inner.changes.checked_sub(before)?;
        let missed = usize::try_from(missed).ok()?;
        let all = &self.inner.changed;
        let from = all.len().checked_sub(missed)?;
        Some(all.iter().skip(from).copied())
    }

    /// The Ethernet address (48 bits) that packets for an address get without the element, and the first moment at
    /// which that may have changed.
    pub fn answer(&self, address: u128) -> Option<(u64, Timestamp)> {
        if let Some(h) = self.inner.known.get(&address) {
            let until = h.until(self.terms.poll).saturating_mul(1_000_000);
            return Some((number(h.ether), Timestamp(until)));
        }
        let broadcast = self.terms.broadcast?;
        let ip = u32::try_from(address).ok()?;
        let ether = match ip.to_be_bytes() {
            _ if ip == u32::MAX || ip == broadcast => EtherAddr::BROADCAST,
            b if is_multicast(ip) => super::arp_querier::multicast_ether(b),
            _ => return None,
        };
        Some((number(ether), Timestamp::MAX))
    }

    /// What the table says of an address at this time.
    #[inline]
    pub fn ask(&self, what: RouteWhat, address: u128, now: Timestamp) -> u128 {
        match (what, self.answer(address)) {
            (RouteWhat::Known, Some((_, until))) => {
                u128::from(millis(now).saturating_mul(1_000_000) < until.nanos())
            }
            (RouteWhat::Ether, Some((ether, _))) => ether.into(),
            _ => 0,
        }
    }

    /// All addresses that are known at this time, ascending.
    pub fn known_addresses(&self, now: Timestamp) -> Vec<u128> {
        let known = self.inner.known.keys().copied();
        let mut all: Vec<u128> = known
            .filter(|a| self.ask(RouteWhat::Known, *a, now) == 1)
            .collect();
        all.sort_unstable();
        all
    }
}

/// The model of an element that puts an Ethernet header in front of packets for the address in an annotation: those
/// whose neighbour is known get it, with the element's own address and this type, and are `marked` then; for all else
/// the element is needed. (What is punted when a table is not sure may not be said otherwise: a flow's entry stands
/// for packets of which the table is sure, and all others must come to the element.)
pub(crate) fn model(
    me: ElemId,
    anno: AnnoKey,
    (own, ethertype): (EtherAddr, u16),
    marked: impl IntoIterator<Item = Op>,
) -> Model {
    let read = |what| Read::Route {
        table: me,
        anno,
        what,
    };
    let write = |field, value| Op::Write {
        field,
        value,
        fix: Fix::Nothing,
    };
    let known = Cond::In(read(RouteWhat::Known), ValueSet::one(1));
    let ops = [
        Op::Push(14),
        write(field::ETH_DST, Value::Of(read(RouteWhat::Ether))),
        write(field::ETH_SRC, Value::Const(number(own).into())),
        write(field::ETH_TYPE, Value::Const(ethertype.into())),
    ];
    let sent = Case::new(known, Exit::Port(0)).with(ops.into_iter().chain(marked));
    let needed = Exit::Punt("the neighbour's address is unknown, or to be asked for again");
    Model::Cases(vec![sent, Case::new(Cond::Always, needed)])
}

fn number(e: EtherAddr) -> u64 {
    e.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// An IPv4 multicast address?
pub(crate) fn is_multicast(ip: u32) -> bool {
    ip >> 28 == 0xe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(last: u8, live_at: i64, next_poll: i64) -> Option<Heard> {
        Some(Heard {
            ether: EtherAddr([2, 0, 0, 0, 0, last]),
            live_at,
            next_poll,
            expires: live_at + 10_000,
        })
    }

    fn held(n: &Neighbors, poll: i64) -> HeldNeighbors {
        HeldNeighbors {
            inner: n.inner.clone(),
            changes: n.changes.clone(),
            terms: Terms {
                poll,
                broadcast: Some(0x0a00_00ff),
            },
        }
    }

    #[test]
    fn until_when() {
        let mut n = Neighbors::default();
        n.set(9, heard(1, 1000, 0), false);
        let until = |n: &Neighbors, poll| held(n, poll).answer(9).unwrap().1;
        assert_eq!(until(&n, 0), Timestamp::from_millis(11_000));
        assert_eq!(until(&n, 500), Timestamp::from_millis(1500));
        // a query has gone out: the next one later
        n.set(9, heard(1, 1000, 1600), false);
        assert_eq!(until(&n, 500), Timestamp::from_millis(1600));
        let h = held(&n, 500);
        let known = |ms, us| {
            let at = Timestamp::from_millis(ms) + Timestamp::from_micros(us);
            h.ask(RouteWhat::Known, 9, at)
        };
        assert_eq!((known(1599, 999), known(1600, 0)), (1, 0));
        assert_eq!(
            h.ask(RouteWhat::Ether, 9, Timestamp::ZERO),
            0x0200_0000_0001
        );
        assert_eq!(h.ask(RouteWhat::Known, 8, Timestamp::ZERO), 0);
        let ether = |a| h.answer(a).map(|x| x.0);
        assert_eq!(ether(0x0a00_00ff), Some(0xffff_ffff_ffff));
        assert_eq!(ether(0xffff_ffff), Some(0xffff_ffff_ffff));
        assert_eq!(ether(0xe081_0203), Some(0x0100_5e01_0203));
        n.set(7, heard(1, 2000, 0), false);
        let all = |ms| held(&n, 500).known_addresses(Timestamp::from_millis(ms));
        assert_eq!((all(1000), all(1600)), (vec![7, 9], vec![7]));
    }

    #[test]
    fn what_falsifies_is_listed() {
        let mut n = Neighbors::default();
        let before = held(&n, 0);
        n.set(1, heard(1, 1000, 0), false);
        n.set(1, heard(1, 2000, 0), false);
        n.set(2, None, true);
        assert_eq!(
            before.changes(),
            0,
            "what is new or confirmed falsifies nothing"
        );
        n.set(3, heard(3, 0, 0), true);
        n.set(1, heard(2, 2000, 0), false);
        n.set(1, None, false);
        assert_eq!(before.changes(), 3, "who holds on is told");
        assert_eq!(before.answer(1), None, "and goes on with what it had");
        let now = held(&n, 0);
        let since = |n: &HeldNeighbors, c| n.changed_since(c).map(|a| a.collect::<Vec<_>>());
        assert_eq!(since(&now, 0), Some(vec![3, 1, 1]));
        assert_eq!(since(&now, 3), Some(vec![]));
        let copy = n.clone();
        n.set(3, None, false);
        assert_eq!((copy.changes.load(Relaxed), before.changes()), (3, 4));
        n.set(4, heard(4, 0, 0), false);
        n.clear();
        assert_eq!(since(&held(&n, 0), 4), None);
        assert_eq!(held(&n, 0).answer(4), None);
    }
}
