//! The route list of a look-up element: declarative routes in the order in which they are shown, next hops shared
//! between routes, and the longest-prefix structure built from them.

use super::lpm::{Key, Lpm};
use onefold_element::model::RouteWhat;
use onefold_element::{ElemId, Scope, State, StateStore, state_any};
use std::collections::{BTreeSet, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, Deref, DerefMut, Not};
use std::sync::Arc;

/// An address that routes are made of.
pub trait Addr: Key + Default + BitAnd<Output = Self> + Not<Output = Self> {
    /// All bits set.
    const ONES: Self;
    /// As handlers print it.
    fn show(self) -> String;
    /// The prefix length that this mask stands for, if it is contiguous.
    fn mask_len(self) -> Option<u8>;
    /// The mask of a prefix length.
    fn mask(len: u8) -> Self {
        Self::ONES.prefix(len)
    }
}

impl Addr for u32 {
    const ONES: u32 = u32::MAX;
    fn show(self) -> String {
        Ipv4Addr::from(self).to_string()
    }
    fn mask_len(self) -> Option<u8> {
        (self.leading_ones() == self.count_ones()).then_some(self.count_ones() as u8)
    }
}

impl Addr for u128 {
    const ONES: u128 = u128::MAX;
    fn show(self) -> String {
        show_ip6(self)
    }
    fn mask_len(self) -> Option<u8> {
        (self.leading_ones() == self.count_ones()).then_some(self.count_ones() as u8)
    }
}

/// An IPv6 address as Click prints it: RFC 5952, but `::a.b.c.d` for everything below `::1:0:0`.
pub fn show_ip6(a: u128) -> String {
    if a != 0 && a >> 32 == 0 {
        return format!("::{}", Ipv4Addr::from(a as u32));
    }
    Ipv6Addr::from(a).to_string()
}

/// One route: addresses that match `addr` under `mask` leave at `port`, towards `gw` unless that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<K> {
    /// Network address, host bits zero.
    pub addr: K,
    /// Network mask.
    pub mask: K,
    /// Gateway; zero for none.
    pub gw: K,
    /// Output port.
    pub port: u32,
    /// The configuration argument it comes from; `None` for routes added later.
    pub arg: Option<u32>,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop<K> {
    /// Gateway; zero for none.
    pub gw: K,
    /// Output port.
    pub port: u32,
}

/// Which slot of the list a new route takes, and so the order in which the `table` handler shows routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placing {
    /// The first free slot; a route that replaces another takes its place (LinearIPLookup).
    #[default]
    First,
    /// The slot freed last; a route that replaces another takes a new slot and frees the other's (RadixIPLookup).
    Latest,
}

/// Why a route was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddError<K> {
    /// There is a route for this prefix.
    Exists(Route<K>),
    /// [`super::lpm::MAX_PREFIXES`] routes are there.
    Full,
}

/// Most routes that are compared one by one.
const FEW: usize = 16;

/// A handful of routes, the longest prefixes first: comparing an address with all of them at once is quicker than
/// following a structure that is made for many.
#[derive(Debug, Clone)]
struct Few<K> {
    masks: [K; FEW],
    addrs: [K; FEW],
    hops: [Hop<K>; FEW],
    /// Routes; `None` when there are too many or odd ones.
    len: Option<usize>,
}

impl<K: Addr> Default for Few<K> {
    fn default() -> Self {
        let none = Hop {
            gw: K::default(),
            port: 0,
        };
        Few {
            masks: [K::default(); FEW],
            // no address under an empty mask is this one
            addrs: [K::ONES; FEW],
            hops: [none; FEW],
            len: None,
        }
    }
}

impl<K: Addr> Few<K> {
    fn new(routes: impl Iterator<Item = Route<K>>) -> Self {
        let mut list: Vec<Route<K>> = routes.take(FEW + 1).collect();
        let mut few = Few::default();
        if list.len() > FEW {
            return few;
        }
        list.sort_by_key(|r| std::cmp::Reverse(r.mask.mask_len()));
        for (i, r) in list.iter().enumerate() {
            few.masks[i] = r.mask;
            few.addrs[i] = r.addr;
            few.hops[i] = Hop {
                gw: r.gw,
                port: r.port,
            };
        }
        few.len = Some(list.len());
        few
    }
    #[inline]
    fn lookup(&self, a: K) -> Option<Hop<K>> {
        let mut hits = 0u32;
        // no branches, so that the comparisons become a few vector instructions
        for i in 0..FEW {
            hits |= u32::from(a & self.masks[i] == self.addrs[i]) << i;
        }
        self.hops.get(hits.trailing_zeros() as usize).copied()
    }
}

/// The routes of one look-up element. It is shared state, so that a fast path reads the same routes; every change
/// raises [`RouteTable::version`].
#[derive(Debug, Clone, Default)]
pub struct RouteTable<K: Addr> {
    placing: Placing,
    slots: Vec<Option<Route<K>>>,
    /// Free slots; the last one freed is at the end.
    free: Vec<u32>,
    /// Free slots in order, kept only where placing is `First`.
    free_first: BTreeSet<u32>,
    lpm: Lpm<K>,
    hops: Vec<(Hop<K>, u32)>,
    hop_index: HashMap<Hop<K>, u32>,
    free_hops: Vec<u32>,
    /// Slots of routes whose masks are not contiguous. With any of them the whole list is searched.
    odd: Vec<u32>,
    /// All routes, if there are few and no odd ones.
    few: Few<K>,
    version: u64,
}

impl<K: Addr> RouteTable<K> {
    /// An empty table.
    pub fn new(placing: Placing) -> Self {
        RouteTable {
            placing,
            lpm: Lpm::new(),
            ..Default::default()
        }
    }
    /// Number of routes.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.free_first.len()
    }
    /// No route at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Raised by every change.
    pub fn version(&self) -> u64 {
        self.version
    }
    /// Routes in the order of the list.
    pub fn routes(&self) -> impl Iterator<Item = &Route<K>> {
        self.slots.iter().flatten()
    }
    /// Bytes allocated.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * std::mem::size_of::<Option<Route<K>>>() + self.lpm.memory()
    }

    /// Where `a` goes.
    #[inline]
    pub fn lookup(&self, a: K) -> Option<Hop<K>> {
        if self.few.len.is_some() {
            return self.few.lookup(a);
        }
        if !self.odd.is_empty() {
            return self
                .search(a)
                .and_then(|i| self.slots.get(i as usize)?.as_ref())
                .map(|r| Hop {
                    gw: r.gw,
                    port: r.port,
                });
        }
        let h = self.lpm.lookup(a)?;
        self.hops.get(h as usize).map(|h| h.0)
    }

    /// The route that decides where `a` goes.
    pub fn route_for(&self, a: K) -> Option<&Route<K>> {
        let i = match self.odd.is_empty() {
            true => self.lpm.lookup_id(a),
            false => self.search(a),
        };
        self.slots.get(i? as usize)?.as_ref()
    }

    /// Linear search: the first route that matches, or a later one that matches and is as specific as the best before
    /// it.
    fn search(&self, a: K) -> Option<u32> {
        let mut best: Option<(usize, K)> = None;
        for (i, r) in self.slots.iter().enumerate() {
            let Some(r) = r else { continue };
            if a & r.mask == r.addr && best.is_none_or(|(_, m)| r.mask & m == m) {
                best = Some((i, r.mask));
            }
        }
        best.map(|b| b.0 as u32)
    }

    /// The slot of exactly this prefix.
    fn slot_of(&self, addr: K, mask: K) -> Option<u32> {
        match mask.mask_len() {
            Some(len) => self.lpm.get(addr, len),
            None => self.odd.iter().copied().find(|i| {
                let r = self.slots.get(*i as usize).and_then(|r| r.as_ref());
                r.is_some_and(|r| r.addr == addr && r.mask == mask)
            }),
        }
    }

    /// Adds a route; the one that it replaces, if any. Host bits are cleared.
    pub fn add(&mut self, mut r: Route<K>, replace: bool) -> Result<Option<Route<K>>, AddError<K>> {
        r.addr = r.addr & r.mask;
        let there = self.slot_of(r.addr, r.mask);
        let old = there.and_then(|i| self.slots.get(i as usize).copied().flatten());
        if let (Some(o), false) = (old, replace) {
            return Err(AddError::Exists(o));
        }
        let slot = match (there, self.placing) {
            (Some(i), Placing::First) => i,
            _ => match self.take_slot() {
                Some(i) => i,
                None => return Err(AddError::Full),
            },
        };
        let hop = self.take_hop(Hop {
            gw: r.gw,
            port: r.port,
        });
        match r.mask.mask_len() {
            Some(len) => {
                // cannot fail: slots are fewer than MAX_PREFIXES
                self.lpm.insert(r.addr, len, slot, hop);
            }
            None => {
                self.odd.retain(|i| Some(*i) != there);
                self.odd.push(slot);
            }
        }
        if let Some(o) = old {
            self.release_hop(Hop {
                gw: o.gw,
                port: o.port,
            });
        }
        if let (Some(i), Placing::Latest) = (there, self.placing) {
            self.free_slot(i);
        }
        if let Some(s) = self.slots.get_mut(slot as usize) {
            *s = Some(r);
        }
        self.changed();
        Ok(old)
    }

    /// Removes the route for a prefix, if it is there and, where `hop` is given, goes there.
    pub fn remove(&mut self, addr: K, mask: K, hop: Option<Hop<K>>) -> Option<Route<K>> {
        let addr = addr & mask;
        let i = self.slot_of(addr, mask)?;
        let r = self.slots.get(i as usize).copied().flatten()?;
        if hop.is_some_and(|h| (h.gw, h.port) != (r.gw, r.port)) {
            return None;
        }
        match mask.mask_len() {
            Some(len) => {
                self.lpm.remove(addr, len);
            }
            None => self.odd.retain(|o| *o != i),
        }
        self.release_hop(Hop {
            gw: r.gw,
            port: r.port,
        });
        self.free_slot(i);
        self.changed();
        Some(r)
    }

    fn changed(&mut self) {
        self.version += 1;
        // many routes added one after the other stay cheap to add
        let few = self.len() <= FEW && self.odd.is_empty();
        if few || self.few.len.is_some() {
            self.few = match few {
                true => Few::new(self.routes().copied()),
                false => Few::default(),
            };
        }
    }

    /// Removes all routes.
    pub fn clear(&mut self) {
        let version = self.version + 1;
        *self = RouteTable::new(self.placing);
        self.version = version;
    }

    fn take_slot(&mut self) -> Option<u32> {
        let free = match self.placing {
            Placing::First => self.free_first.pop_first(),
            Placing::Latest => self.free.pop(),
        };
        if free.is_some() {
            return free;
        }
        if self.slots.len() >= super::lpm::MAX_PREFIXES {
            return None;
        }
        self.slots.push(None);
        Some((self.slots.len() - 1) as u32)
    }

    fn free_slot(&mut self, i: u32) {
        if let Some(s) = self.slots.get_mut(i as usize) {
            *s = None;
        }
        match self.placing {
            Placing::First => {
                self.free_first.insert(i);
            }
            Placing::Latest => self.free.push(i),
        }
    }

    fn take_hop(&mut self, h: Hop<K>) -> u32 {
        if let Some(i) = self.hop_index.get(&h) {
            if let Some(e) = self.hops.get_mut(*i as usize) {
                e.1 += 1;
            }
            return *i;
        }
        let i = match self.free_hops.pop() {
            Some(i) => i,
            None => {
                self.hops.push((h, 0));
                (self.hops.len() - 1) as u32
            }
        };
        self.hops[i as usize] = (h, 1);
        self.hop_index.insert(h, i);
        i
    }

    fn release_hop(&mut self, h: Hop<K>) {
        let Some(i) = self.hop_index.get(&h).copied() else {
            return;
        };
        if let Some(e) = self.hops.get_mut(i as usize) {
            e.1 -= 1;
            if e.1 == 0 {
                self.hop_index.remove(&h);
                self.free_hops.push(i);
            }
        }
    }
}

/// `10.0.0.0/8`, or with a dotted mask where that is not contiguous.
pub fn show_prefix<K: Addr>(r: &Route<K>) -> String {
    match r.mask.mask_len() {
        Some(n) => format!("{}/{n}", r.addr.show()),
        None => format!("{}/{}", r.addr.show(), r.mask.show()),
    }
}

/// A look-up element's table as it lies in the store. Whoever looks up for a while (a batch) may hold on to it without
/// a lock; a change meanwhile is made in a copy, which takes milliseconds for a large table, so nobody should hold it
/// for longer.
#[derive(Debug)]
pub struct Routes<K: Addr>(Arc<RouteTable<K>>);

impl<K: Addr> Routes<K> {
    /// A table to be put in a store.
    pub fn new(mut table: RouteTable<K>) -> Self {
        table.make_room();
        Routes(Arc::new(table))
    }
}

impl<K: Addr> Clone for Routes<K> {
    /// A table of its own: changes of either need no copy then.
    fn clone(&self) -> Self {
        Routes::new(RouteTable::clone(&self.0))
    }
}

impl<K: Addr> Deref for Routes<K> {
    type Target = RouteTable<K>;
    #[inline]
    fn deref(&self) -> &RouteTable<K> {
        &self.0
    }
}

impl<K: Addr> DerefMut for Routes<K> {
    fn deref_mut(&mut self) -> &mut RouteTable<K> {
        Arc::make_mut(&mut self.0)
    }
}

/// The table of a look-up element, held on to.
#[derive(Debug, Clone)]
pub enum HeldRoutes {
    /// Of IPv4 addresses.
    V4(Arc<RouteTable<u32>>),
    /// Of IPv6 addresses.
    V6(Arc<RouteTable<u128>>),
}

/// What [`RouteWhat::Output`] is of an address without a route.
pub const NO_ROUTE: u32 = u32::MAX;

impl HeldRoutes {
    /// The table that an element looks up in, if it is a look-up element.
    pub fn of(store: &StateStore, elem: ElemId) -> Option<HeldRoutes> {
        let id = store.published_by(elem)?;
        match store.get::<Routes<u32>>(id) {
            Some(r) => Some(HeldRoutes::V4(r.0.clone())),
            None => Some(HeldRoutes::V6(store.get::<Routes<u128>>(id)?.0.clone())),
        }
    }

    /// What the table says of an address.
    #[inline]
    pub fn ask(&self, what: RouteWhat, address: u128) -> u128 {
        // bits above an IPv4 address are not there
        let (hop, v4) = match self {
            HeldRoutes::V4(t) => match t.lookup(address as u32) {
                Some(h) => (Some((h.port, u128::from(h.gw))), true),
                None => (None, true),
            },
            HeldRoutes::V6(t) => (t.lookup(address).map(|h| (h.port, h.gw)), false),
        };
        match (what, hop) {
            (RouteWhat::Output, hop) => hop.map_or(NO_ROUTE, |h| h.0).into(),
            (RouteWhat::NextHop, Some((_, gw))) if gw != 0 => gw,
            (RouteWhat::NextHop, _) if v4 => u128::from(address as u32),
            (RouteWhat::NextHop, _) => address,
            // no table of neighbours
            (RouteWhat::Known | RouteWhat::Ether, _) => 0,
        }
    }

    /// An address whose output is in a set: some of the table's routes from the `n`-th on are tried.
    pub fn example(&self, outputs: &onefold_element::model::ValueSet, n: u64) -> Option<u128> {
        let host = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fits = |a: u128| {
            outputs
                .contains(self.ask(RouteWhat::Output, a))
                .then_some(a)
        };
        match self {
            HeldRoutes::V4(t) => t.some_of(n, |r| fits((r.addr | !r.mask & host as u32).into())),
            HeldRoutes::V6(t) => t.some_of(n, |r| {
                let host = u128::from(host) << 64 | u128::from(host.rotate_left(17));
                fits(r.addr | !r.mask & host)
            }),
        }
    }
}

/// Routes that are tried for an example.
const TRIES: usize = 4096;

impl<K: Addr> RouteTable<K> {
    fn make_room(&mut self) {
        self.slots.reserve(self.slots.len());
        self.lpm.make_room();
    }
    fn some_of(&self, n: u64, find: impl FnMut(&Route<K>) -> Option<u128>) -> Option<u128> {
        let all = self.slots.len().max(1);
        let from = (n % all as u64) as usize;
        let (before, behind) = self.slots.split_at(from.min(self.slots.len()));
        let around = behind.iter().chain(before).flatten();
        around.take(TRIES).find_map(find)
    }
}

impl<K: Addr> State for Routes<K> {
    fn summary(&self) -> String {
        let mut lines: Vec<String> = self
            .routes()
            .map(|r| format!("{} {} {}", show_prefix(r), r.gw.show(), r.port))
            .collect();
        lines.sort();
        lines.join("\n")
    }
    state_any!(Scope::Shared);
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
