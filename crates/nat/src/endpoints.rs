//! Endpoint-independent mapping (keyword `MAPPING endpoint`, which Click does not have).
//!
//! A *mapping* is an inside address and port that has an outside address and port, whomever it talks to (RFC 4787
//! REQ-1, RFC 5382 REQ-1, RFC 5508 REQ-1). It lasts as long as a flow uses it: the flows have the time-outs. Of each
//! outside address that patterns give, and of each map of the table, it is known who has which port:
//!
//! - a new flow of an inside address and port that has a mapping gets that mapping;
//! - no two mappings have the same outside address and port, whatever their destinations (REQ-3, no overloading);
//! - a new mapping has the port that it has inside where that is in the range and free. Else it gets one of the same
//!   class (below 1024, or not) and of the same parity, from a random one on, around the end; else one of the same
//!   class (REQ-3 a, REQ-4). A port below 1024 may get one from above; one from above gets one below 1024 only where
//!   the range has no others. Identifiers of pings have neither class nor parity.
//!
//! **Bounds.** A mapping has a flow, so that there are no more of them than flows. Of each outside address and map
//! 10 KB say which ports are taken, and 12 bytes per port, in pieces of 256 ports once one of them has been used, who
//! has them: at most 790 KB.

use crate::access::answering;
use crate::flow_id::FlowId;
use crate::kind::RewriterKind;
use crate::record::Usage;
use crate::table::FlowTable;
use onefold_packet::wire::ipv4::proto;
use std::collections::{BTreeSet, HashMap};

/// Ports whose owners are allocated together.
const CHUNK: usize = 256;
/// Ports of an address.
const PORTS: usize = 1 << 16;
/// The first port that is not privileged.
const UNPRIVILEGED: u16 = 1024;

/// An address and a port (or an identifier of pings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Endpoint {
    pub addr: u32,
    pub port: u16,
}

/// What a pattern lets a new mapping have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortRange {
    pub first: u16,
    pub last: u16,
    /// Class and parity stay where they can.
    pub alike: bool,
}

/// Who has an outside port, and how many flows use it; none: it is free.
#[derive(Debug, Clone, Copy, Default)]
struct Owner {
    inside: Endpoint,
    flows: u32,
}

/// The ports of one outside address in one map.
#[derive(Debug, Clone)]
struct Outside {
    /// A bit for each port.
    taken: Vec<u64>,
    /// Of even and of odd ports: a bit for each word of `taken` in which all of them are.
    full: [[u64; PORTS / 64 / 64]; 2],
    owners: Vec<Option<Box<[Owner; CHUNK]>>>,
}

/// Bits of a word that stand for ports of this parity.
fn parity_bits(odd: usize) -> u64 {
    [0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa][odd % 2]
}

impl Outside {
    fn new() -> Outside {
        Outside {
            taken: vec![0; PORTS / 64],
            full: [[0; PORTS / 64 / 64]; 2],
            owners: vec![None; PORTS / CHUNK],
        }
    }

    fn owner(&self, port: u16) -> Option<&Owner> {
        let chunk = self.owners.get(usize::from(port) / CHUNK)?.as_ref()?;
        chunk
            .get(usize::from(port) % CHUNK)
            .filter(|o| o.flows != 0)
    }

    fn owner_mut(&mut self, port: u16) -> Option<&mut Owner> {
        let chunk = self.owners.get_mut(usize::from(port) / CHUNK)?;
        let chunk = chunk.get_or_insert_with(|| Box::new([Owner::default(); CHUNK]));
        chunk.get_mut(usize::from(port) % CHUNK)
    }

    fn is_taken(&self, port: u16) -> bool {
        let word = self.taken.get(usize::from(port) / 64);
        word.is_none_or(|w| w >> (port % 64) & 1 != 0)
    }

    fn set(&mut self, port: u16, taken: bool) {
        let at = usize::from(port) / 64;
        let Some(word) = self.taken.get_mut(at) else {
            return;
        };
        let bit = 1u64 << (port % 64);
        *word = if taken { *word | bit } else { *word & !bit };
        let word = *word;
        for (odd, full) in self.full.iter_mut().enumerate() {
            let bit = 1u64 << (at % 64);
            if let Some(f) = full.get_mut(at / 64) {
                let all = word | !parity_bits(odd) == u64::MAX;
                *f = if all { *f | bit } else { *f & !bit };
            }
        }
    }

    /// The first free port of `from` to `last`, of this parity if one is given. Bound: 16 words are looked at.
    fn next(&self, from: u32, last: u32, odd: Option<usize>) -> Option<u16> {
        let bits = odd.map_or(u64::MAX, parity_bits);
        let free = |at: usize| self.taken.get(at).map_or(0, |w| !w & bits);
        let mut at = from as usize / 64;
        let mut here = free(at) & u64::MAX << (from % 64);
        if here == 0 {
            let full = |i: usize| match odd {
                Some(odd) => self.full[odd % 2].get(i).copied(),
                None => self.full[0]
                    .get(i)
                    .zip(self.full[1].get(i))
                    .map(|(a, b)| a & b),
            };
            let next = at + 1;
            let mut i = next / 64;
            let mut words = full(i)? | ((1u64 << (next % 64)) - 1);
            while words == u64::MAX {
                i += 1;
                words = full(i)?;
            }
            at = i * 64 + words.trailing_ones() as usize;
            here = free(at);
        }
        let found = (at * 64) as u32 + here.trailing_zeros();
        (found <= last).then_some(found as u16)
    }

    /// The first free one of a range from `from` on, around the end.
    fn around(&self, (first, last): (u16, u16), from: u16, odd: Option<usize>) -> Option<u16> {
        let after = self.next(from.into(), last.into(), odd);
        after.or_else(|| self.next(first.into(), last.into(), odd))
    }

    /// What a new mapping of this inside port gets; see the module's text.
    fn choose(&self, own: u16, range: PortRange, draw: impl FnOnce() -> u32) -> Option<u16> {
        let PortRange { first, last, alike } = range;
        if (first..=last).contains(&own) && !self.is_taken(own) {
            return Some(own);
        }
        let draw = u64::from(draw());
        let from = |(first, last): (u16, u16)| {
            let n = u64::from(last - first) + 1;
            first + ((draw * n) >> 32) as u16
        };
        if !alike {
            return self.around((first, last), from((first, last)), None);
        }
        let low = (first, last.min(UNPRIVILEGED - 1));
        let high = (first.max(UNPRIVILEGED), last);
        let classes = match own < UNPRIVILEGED {
            true => [Some(low), Some(high)],
            false if high.0 <= high.1 => [Some(high), None],
            false => [None, Some(low)],
        };
        let odd = Some(usize::from(own % 2));
        let there = classes.into_iter().flatten().filter(|c| c.0 <= c.1);
        there
            .flat_map(|c| [(c, odd), (c, None)])
            .find_map(|(c, odd)| self.around(c, from(c), odd))
    }

    fn bytes(&self) -> usize {
        let chunks = self.owners.iter().flatten().count();
        size_of::<Outside>()
            + self.taken.len() * 8
            + self.owners.len() * size_of::<usize>()
            + chunks * CHUNK * size_of::<Owner>()
    }
}

/// An inside endpoint as it is looked up: the map, the outside address that its pattern gives.
type Inside = (u16, u32, Endpoint);

/// All mappings of a flow table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Endpoints {
    /// By map and outside address, in this order.
    outside: Vec<((u16, u32), Outside)>,
    /// Mappings that do not have their own port.
    moved: HashMap<Inside, u16>,
    /// Outside endpoints that no mapping gets.
    reserved: BTreeSet<(u16, Endpoint)>,
}

impl Endpoints {
    fn at(&self, map: u16, addr: u32) -> Option<&Outside> {
        let i = self.outside.binary_search_by_key(&(map, addr), |o| o.0);
        self.outside.get(i.ok()?).map(|o| &o.1)
    }

    fn at_mut(&mut self, map: u16, addr: u32) -> Option<&mut Outside> {
        let key = (map, addr);
        let i = match self.outside.binary_search_by_key(&key, |o| o.0) {
            Ok(i) => i,
            Err(i) => {
                self.outside.insert(i, (key, Outside::new()));
                i
            }
        };
        self.outside.get_mut(i).map(|o| &mut o.1)
    }

    /// The outside port that flows of an inside endpoint get at this outside address: that of its mapping, else one
    /// that nobody has; `None` where there is none. Nothing is taken yet: see [`Endpoints::claim`].
    pub fn port(
        &self,
        map: u16,
        addr: u32,
        inside: Endpoint,
        range: PortRange,
        draw: impl FnOnce() -> u32,
    ) -> Option<u16> {
        if !self.moved.is_empty()
            && let Some(p) = self.moved.get(&(map, addr, inside))
        {
            return Some(*p);
        }
        let Some(o) = self.at(map, addr) else {
            // nobody has any port yet
            return Outside::new().choose(inside.port, range, draw);
        };
        match o.owner(inside.port) {
            Some(owner) if owner.inside == inside => Some(inside.port),
            _ => o.choose(inside.port, range, draw),
        }
    }

    /// Who has an outside endpoint.
    pub fn inside(&self, map: u16, outside: Endpoint) -> Option<Endpoint> {
        let o = self.at(map, outside.addr)?.owner(outside.port)?;
        Some(o.inside)
    }

    /// A flow uses this mapping from now on.
    pub fn claim(&mut self, map: u16, inside: Endpoint, outside: Endpoint) {
        let Some(o) = self.at_mut(map, outside.addr) else {
            return;
        };
        let Some(owner) = o.owner_mut(outside.port) else {
            return;
        };
        owner.flows += 1;
        if owner.flows > 1 {
            debug_assert_eq!(owner.inside, inside);
            return;
        }
        owner.inside = inside;
        o.set(outside.port, true);
        if outside.port != inside.port {
            self.moved.insert((map, outside.addr, inside), outside.port);
        }
    }

    /// A flow does not use it any more.
    pub fn release(&mut self, map: u16, inside: Endpoint, outside: Endpoint) {
        let kept = self.reserved.contains(&(map, outside));
        let Some(o) = self.at_mut(map, outside.addr) else {
            return;
        };
        let Some(owner) = o.owner_mut(outside.port) else {
            return;
        };
        debug_assert!(owner.flows > 0 && owner.inside == inside);
        owner.flows = owner.flows.saturating_sub(1);
        if owner.flows > 0 {
            return;
        }
        if !kept {
            o.set(outside.port, false);
        }
        if outside.port != inside.port {
            self.moved.remove(&(map, outside.addr, inside));
        }
    }

    /// No mapping gets these outside endpoints; those that have one keep it.
    pub fn reserve(&mut self, all: BTreeSet<(u16, Endpoint)>) {
        for (map, e) in std::mem::take(&mut self.reserved) {
            if let Some(o) = self.at_mut(map, e.addr)
                && o.owner(e.port).is_none()
            {
                o.set(e.port, false);
            }
        }
        for (map, e) in &all {
            if let Some(o) = self.at_mut(*map, e.addr) {
                o.set(e.port, true);
            }
        }
        self.reserved = all;
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        let outside: usize = self.outside.iter().map(|o| o.1.bytes()).sum();
        outside + self.moved.capacity() * (size_of::<(Inside, u16)>() + 1)
    }

    /// All mappings, in order: map, outside and inside endpoint, flows.
    pub fn all(&self) -> impl Iterator<Item = (u16, Endpoint, Endpoint, u32)> {
        self.outside.iter().flat_map(|((map, addr), o)| {
            let chunks = o.owners.iter().enumerate();
            let chunks = chunks.filter_map(|(n, c)| Some((n, c.as_ref()?)));
            let all = chunks.flat_map(|(n, c)| (n * CHUNK..).zip(c.iter()));
            let used = all.filter(|(_, o)| o.flows != 0);
            used.map(|(port, owner)| {
                let outside = Endpoint {
                    addr: *addr,
                    port: port as u16,
                };
                (*map, outside, owner.inside, owner.flows)
            })
        })
    }
}

impl FlowTable {
    /// What members say of ports that no mapping gets holds from now on.
    pub(crate) fn reserve_endpoints(&mut self) {
        if !self.members.iter().any(|m| m.endpoints) {
            return;
        }
        let mut all = BTreeSet::new();
        for (n, m) in (0u16..).zip(&self.members) {
            for (protocol, addr, port) in &m.reserved {
                let udp = m.kind == RewriterKind::Ip && *protocol == proto::UDP;
                let at = Endpoint {
                    addr: *addr,
                    port: *port,
                };
                all.insert((n * 2 + u16::from(udp), at));
            }
        }
        self.endpoints.get_or_insert_default().reserve(all);
    }

    /// Are this map's flows pings?
    pub(crate) fn pings(&self, map: u16) -> bool {
        let m = self.member_of(map);
        m.is_some_and(|m| m.kind == RewriterKind::Ping)
    }

    /// What a flow from outside becomes whose destination is somebody's mapping.
    pub(crate) fn to_inside(&self, map: u16, flow: FlowId) -> Option<FlowId> {
        let ping = self.pings(map);
        let outside = Endpoint {
            addr: flow.daddr,
            port: if ping { flow.sport } else { flow.dport },
        };
        let inside = self.endpoints.as_ref()?.inside(map, outside)?;
        let mut to = FlowId {
            daddr: inside.addr,
            ..flow
        };
        match ping {
            true => (to.sport, to.dport) = (inside.port, answering(inside.port)),
            false => to.dport = inside.port,
        }
        Some(to)
    }

    /// The inside and the outside end of the mapping that a record's flow uses.
    fn ends(&self, i: u32) -> Option<(u16, Endpoint, Endpoint)> {
        let r = self.records.get(i as usize)?;
        let ping = self.pings(r.map);
        let of = |addr, port| Endpoint { addr, port };
        let (f, b) = (r.forward, r.reply);
        match r.usage {
            Usage::Unused | Usage::Plain => None,
            Usage::MappedSource => Some((r.map, of(f.saddr, f.sport), of(b.daddr, b.dport))),
            Usage::MappedDestination if ping => {
                Some((r.map, of(b.saddr, b.dport), of(f.daddr, f.sport)))
            }
            Usage::MappedDestination => Some((r.map, of(b.saddr, b.sport), of(f.daddr, f.dport))),
        }
    }

    /// A record's flow uses its mapping.
    #[inline(never)]
    pub(crate) fn claim(&mut self, i: u32) {
        if let Some((map, inside, outside)) = self.ends(i)
            && let Some(e) = &mut self.endpoints
        {
            e.claim(map, inside, outside);
        }
    }

    /// A record's flow goes.
    #[inline(never)]
    pub(crate) fn release_endpoint(&mut self, i: u32) {
        if let Some((map, inside, outside)) = self.ends(i)
            && let Some(e) = &mut self.endpoints
        {
            e.release(map, inside, outside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const ADDR: u32 = 0xcb00_7101;

    fn inside(host: u32, port: u16) -> Endpoint {
        Endpoint { addr: host, port }
    }

    /// What may be chosen, found by looking at each port.
    fn allowed(taken: &BTreeSet<u16>, own: u16, r: PortRange) -> BTreeSet<u16> {
        let free = |p: &u16| !taken.contains(p);
        let all: BTreeSet<u16> = (r.first..=r.last).filter(free).collect();
        if all.contains(&own) {
            return [own].into();
        }
        if !r.alike {
            return all;
        }
        let low = |p: u16| p < 1024;
        let has_high = r.last >= 1024;
        let tiers: [&dyn Fn(u16) -> bool; 4] = [
            &|p| low(p) == low(own) && p % 2 == own % 2,
            &|p| low(p) == low(own),
            &|p| (low(own) || !has_high) && p % 2 == own % 2,
            &|_| low(own) || !has_high,
        ];
        let tiers = tiers.into_iter();
        let mut found = tiers.map(|t| all.iter().copied().filter(|p| t(*p)).collect());
        found
            .find(|f: &BTreeSet<u16>| !f.is_empty())
            .unwrap_or_default()
    }

    proptest! {
        /// Against a list of mappings.
        #[test]
        fn mappings_are_kept_and_ports_are_nobody_elses(
            first in prop_oneof![1u16..2000, 900u16..1030], more in 0u16..200, alike: bool,
            reserved in proptest::collection::btree_set(0u16..250, 0..6),
            steps in proptest::collection::vec((0u32..6, 0u16..260, any::<bool>(), any::<u32>()), 1..300),
        ) {
            let range = PortRange { first, last: first + more, alike };
            let mut e = Endpoints::default();
            let reserved: BTreeSet<u16> = reserved.into_iter().map(|p| first + p).collect();
            e.reserve(reserved.iter().map(|p| (1, inside(ADDR, *p))).collect());
            let mut list: BTreeMap<Endpoint, (u16, u32)> = BTreeMap::new();
            for (host, port, goes, draw) in steps {
                let who = inside(host, first.saturating_sub(20) + port);
                if goes {
                    if let Some((p, n)) = list.get_mut(&who) {
                        e.release(1, who, inside(ADDR, *p));
                        *n -= 1;
                        if *n == 0 {
                            list.remove(&who);
                        }
                    }
                    continue;
                }
                let got = e.port(1, ADDR, who, range, || draw);
                if let Some((p, n)) = list.get_mut(&who) {
                    prop_assert_eq!(got, Some(*p));
                    *n += 1;
                } else {
                    let taken = list.values().map(|(p, _)| *p).chain(reserved.iter().copied()).collect();
                    let may = allowed(&taken, who.port, range);
                    prop_assert!(got.map_or(may.is_empty(), |p| may.contains(&p)), "{:?} of {:?}", got, may);
                    list.extend(got.map(|p| (who, (p, 1))));
                }
                if let Some(p) = got {
                    e.claim(1, who, inside(ADDR, p));
                    prop_assert_eq!(e.inside(1, inside(ADDR, p)), Some(who));
                    prop_assert_eq!(e.inside(0, inside(ADDR, p)), None);
                }
                let all: BTreeMap<Endpoint, (u16, u32)> = e.all().map(|(_, o, i, n)| (i, (o.port, n))).collect();
                prop_assert_eq!(&all, &list);
            }
        }
    }

    #[test]
    fn a_full_range_is_told_at_once_and_what_is_given_back_is_found() {
        let range = PortRange {
            first: 1,
            last: 65535,
            alike: true,
        };
        let mut e = Endpoints::default();
        for p in 1024..=65535 {
            e.claim(0, inside(1, p), inside(ADDR, p));
        }
        assert_eq!(e.port(0, ADDR, inside(2, 5000), range, || 77), None);
        // privileged ones are there for privileged ones
        assert_eq!(e.port(0, ADDR, inside(2, 80), range, || 77), Some(80));
        e.release(0, inside(1, 40001), inside(ADDR, 40001));
        assert_eq!(e.port(0, ADDR, inside(2, 5001), range, || 77), Some(40001));
        assert_eq!(e.port(0, ADDR, inside(2, 5000), range, || 77), Some(40001));
        assert!(e.memory_bytes() < 800_000, "{}", e.memory_bytes());
    }
}
