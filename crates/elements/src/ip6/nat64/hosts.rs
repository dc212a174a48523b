//! IPv6 hosts by the IPv4 numbers that stand for them inside the translator.
//!
//! A host has its *handle*, an address of 240.0.0.0/4, as long as any flow of it may be there: each packet lets it
//! last for the time-out of its flow and a sweep more, which is when rewriters have forgotten the flow for certain
//! (TCP: an established connection's from the first packet on that has come back). A handle goes to another host only
//! after that, and only when it is needed: the one that has been free of flows for longest, of those looked at.

use onefold_element::{Scope, State, state_any};
use onefold_packet::Timestamp;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The first handle: nobody has such an address (RFC 1112 section 4).
const FIRST: u32 = 0xf000_0000;
/// Most hosts.
pub(super) const MAX_HOSTS: u32 = 1 << 22;
/// So many hosts whose time may be over are looked at for a new one.
const LOOKED_AT: usize = 32;

/// How long flows last that are silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lasting {
    pub tcp: Timestamp,
    /// Connections that are being opened, as far as anybody knows.
    pub tcp_transitory: Timestamp,
    pub udp: Timestamp,
    pub icmp: Timestamp,
    /// How often rewriters look for what is to be forgotten.
    pub sweep: Timestamp,
}

/// What a packet of a host is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Tcp,
    Udp,
    Icmp,
}

#[derive(Debug, Clone, Copy)]
struct Host {
    address: u128,
    /// Flows may be there until then.
    until: Timestamp,
    /// A TCP segment has come back.
    answered: bool,
}

/// The table.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Index in `hosts`.
    by_address: HashMap<u128, u32>,
    /// Each host that has not its handle for ever, once: no earlier than then it need not have one.
    due: BinaryHeap<Reverse<(Timestamp, u32)>>,
    capacity: u32,
    /// The first ones have their handles for ever.
    fixed: u32,
    lasting: Lasting,
    /// The identification of the next packet that needs one.
    next_id: u16,
}

impl Hosts {
    /// Of so many hosts, without those that have a handle for ever, which come first.
    pub fn new(fixed: &[u128], capacity: u32, lasting: Lasting) -> Hosts {
        let host = |a: &u128| Host {
            address: *a,
            until: Timestamp(i64::MAX),
            answered: true,
        };
        let by_address = fixed.iter().enumerate().map(|(i, a)| (*a, i as u32));
        Hosts {
            hosts: fixed.iter().map(host).collect(),
            by_address: by_address.collect(),
            due: BinaryHeap::new(),
            capacity: capacity.min(MAX_HOSTS),
            fixed: fixed.len() as u32,
            lasting,
            next_id: 0,
        }
    }

    /// An identification for a packet.
    pub fn identification(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// The handle of a host, if it has one.
    pub fn known(&self, address: [u8; 16]) -> Option<[u8; 4]> {
        let i = self.by_address.get(&u128::from_be_bytes(address))?;
        Some(handle(*i))
    }

    /// The handle of a host that sends a packet. `None`: all are taken.
    pub fn outgoing(&mut self, address: [u8; 16], flow: Flow, now: Timestamp) -> Option<[u8; 4]> {
        let address = u128::from_be_bytes(address);
        let i = match self.by_address.get(&address) {
            Some(i) => *i,
            None => self.enter(address, now)?,
        };
        self.lasts(i, flow, now);
        Some(handle(i))
    }

    /// Whose handle this is.
    pub fn host(&self, handle: [u8; 4]) -> Option<[u8; 16]> {
        self.at(handle).map(|(_, h)| h.address.to_be_bytes())
    }

    /// The same, for a packet to it.
    pub fn incoming(&mut self, handle: [u8; 4], flow: Flow, now: Timestamp) -> Option<[u8; 16]> {
        let (i, h) = self.at(handle)?;
        let address = h.address;
        if let Some(h) = self.hosts.get_mut(i as usize) {
            h.answered |= flow == Flow::Tcp;
        }
        self.lasts(i, flow, now);
        Some(address.to_be_bytes())
    }

    fn at(&self, handle: [u8; 4]) -> Option<(u32, &Host)> {
        let i = u32::from_be_bytes(handle).checked_sub(FIRST)?;
        Some((i, self.hosts.get(i as usize)?))
    }

    /// A packet of this flow: the host's flows last from now on.
    fn lasts(&mut self, i: u32, flow: Flow, now: Timestamp) {
        let l = &self.lasting;
        let Some(h) = self.hosts.get_mut(i as usize) else {
            return;
        };
        let time = match flow {
            Flow::Tcp if h.answered => l.tcp.max(l.tcp_transitory),
            Flow::Tcp => l.tcp_transitory,
            Flow::Udp => l.udp,
            Flow::Icmp => l.icmp,
        };
        h.until = h.until.max(now + time + l.sweep);
    }

    /// A handle for a host that has none.
    fn enter(&mut self, address: u128, now: Timestamp) -> Option<u32> {
        let host = Host {
            address,
            until: now,
            answered: false,
        };
        let i = if self.hosts.len() < (self.capacity + self.fixed) as usize {
            self.hosts.push(host);
            self.hosts.len() as u32 - 1
        } else {
            let i = self.free(now)?;
            let h = self.hosts.get_mut(i as usize)?;
            let old = std::mem::replace(h, host);
            self.by_address.remove(&old.address);
            i
        };
        self.by_address.insert(address, i);
        self.due.push(Reverse((now, i)));
        Some(i)
    }

    /// A handle whose host has no flows any more; it is not due any more.
    fn free(&mut self, now: Timestamp) -> Option<u32> {
        for _ in 0..LOOKED_AT {
            let Reverse((at, i)) = *self.due.peek()?;
            if at >= now {
                return None;
            }
            self.due.pop();
            let until = self.hosts.get(i as usize)?.until;
            if until < now {
                return Some(i);
            }
            self.due.push(Reverse((until, i)));
        }
        None
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// A line for each: handle, address, until when it has it at least (`-`: for ever).
    pub fn lines(&self) -> String {
        let mut s = String::new();
        for (i, h) in self.hosts.iter().enumerate() {
            let (handle, address) = (Ipv4Addr::from(handle(i as u32)), Ipv6Addr::from(h.address));
            let _ = match (i as u32) < self.fixed {
                true => writeln!(s, "{handle} {address} -"),
                false => writeln!(s, "{handle} {address} {}", h.until),
            };
        }
        s
    }
}

fn handle(i: u32) -> [u8; 4] {
    (FIRST + i).to_be_bytes()
}

impl State for Hosts {
    fn summary(&self) -> String {
        let answered: String = (self.hosts.iter())
            .map(|h| if h.answered { 'a' } else { '-' })
            .collect();
        let mut due = self.due.clone().into_sorted_vec();
        due.reverse();
        format!("{}{answered}\n{due:?}\n{}\n", self.lines(), self.next_id)
    }
    state_any!(Scope::PerWorker);
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * S)
    }

    fn table(fixed: &[u128], capacity: u32) -> Hosts {
        let lasting = Lasting {
            tcp: at(1000),
            tcp_transitory: at(40),
            udp: at(30),
            icmp: at(20),
            sweep: at(10),
        };
        Hosts::new(fixed, capacity, lasting)
    }

    fn a(n: u128) -> [u8; 16] {
        n.to_be_bytes()
    }

    #[test]
    fn a_host_keeps_its_handle() {
        let mut t = table(&[], 10);
        let h = t.outgoing(a(5), Flow::Udp, at(0)).unwrap();
        assert_eq!(h, [240, 0, 0, 0]);
        assert_eq!(t.outgoing(a(6), Flow::Udp, at(0)), Some([240, 0, 0, 1]));
        // also when nobody has heard of it for long, as long as nobody else needs it
        assert_eq!(t.outgoing(a(5), Flow::Tcp, at(9999)), Some(h));
        assert_eq!((t.known(a(5)), t.known(a(7))), (Some(h), None));
        assert_eq!(t.incoming(h, Flow::Udp, at(9999)), Some(a(5)));
        assert_eq!(t.host([240, 0, 0, 2]), None);
        assert_eq!(t.host([10, 0, 0, 0]), None);
        assert_eq!(t.len(), 2);
    }

    /// Nobody gets a handle that a flow may have yet, whatever the flow is.
    #[test]
    fn a_handle_outlasts_flows() {
        for (flow, answer, lasts) in [
            (Flow::Icmp, false, 30),
            (Flow::Udp, true, 40),
            (Flow::Tcp, false, 50),
            (Flow::Tcp, true, 1010),
        ] {
            let mut t = table(&[], 1);
            let h = t.outgoing(a(1), flow, at(100)).unwrap();
            if answer {
                assert_eq!(t.incoming(h, flow, at(100)), Some(a(1)));
            }
            // another kind of packet makes it no shorter
            t.outgoing(a(1), Flow::Icmp, at(100));
            assert_eq!(t.outgoing(a(2), Flow::Udp, at(100 + lasts)), None);
            assert_eq!(t.host(h), Some(a(1)));
            assert_eq!(t.outgoing(a(2), Flow::Udp, at(101 + lasts)), Some(h));
            assert_eq!((t.host(h), t.known(a(1))), (Some(a(2)), None));
        }
    }

    #[test]
    fn some_hosts_keep_theirs_for_ever() {
        let mut t = table(&[7, 8], 1);
        assert_eq!(t.known(a(8)), Some([240, 0, 0, 1]));
        assert_eq!(t.outgoing(a(1), Flow::Udp, at(0)), Some([240, 0, 0, 2]));
        assert_eq!(t.outgoing(a(2), Flow::Udp, at(999)), Some([240, 0, 0, 2]));
        assert_eq!(t.outgoing(a(7), Flow::Udp, at(9999)), Some([240, 0, 0, 0]));
        assert_eq!(t.host([240, 0, 0, 1]), Some(a(8)));
        assert!(t.lines().starts_with("240.0.0.0 ::7 -\n240.0.0.1 ::8 -\n"));
    }

    /// Against a table that looks at all hosts: nobody has two handles, no handle two hosts, and whoever has flows
    /// keeps his.
    #[test]
    fn as_the_plain_table() {
        let mut t = table(&[], 8);
        let mut plain: HashMap<u128, (i64, [u8; 4])> = HashMap::new();
        let (mut seed, mut now) = (1u64, 0i64);
        let mut refused = 0;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let n = u128::from((seed >> 40) % 24);
            now += ((seed >> 33) % 4) as i64;
            match t.outgoing(a(n), Flow::Udp, at(now)) {
                Some(h) => {
                    if let Some((_, old)) = plain.get(&n).filter(|p| p.0 >= now) {
                        assert_eq!(*old, h);
                    }
                    let other = plain.iter().find(|(o, p)| **o != n && p.1 == h);
                    assert!(other.is_none_or(|(_, p)| p.0 < now), "{n} {now}");
                    plain.retain(|_, p| p.1 != h);
                    plain.insert(n, (now + 40, h));
                }
                None => {
                    refused += 1;
                    assert!(!plain.contains_key(&n));
                    assert_eq!(plain.values().filter(|p| p.0 >= now).count(), 8);
                }
            }
            assert!(t.len() <= 8);
        }
        assert!(refused > 100, "{refused}");
    }
}
