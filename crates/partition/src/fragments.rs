//! Datagrams whose later fragments follow their first one.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Most datagrams of a port that are remembered; the oldest one goes for a new one. It is the NAT's own bound for
/// fragmented packets.
pub const MAX_FRAGMENTED: usize = 4096;

/// What all fragments of a datagram have in common (RFC 791, RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Datagram {
    pub addresses: (IpAddr, IpAddr),
    pub protocol: u8,
    pub identification: u32,
}

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragments {
    workers: HashMap<Datagram, usize>,
    /// The oldest first; as many as in the map.
    order: VecDeque<Datagram>,
}

impl Fragments {
    pub fn find(&self, d: &Datagram) -> Option<usize> {
        self.workers.get(d).copied()
    }

    /// A first fragment whose later ones need no entry has gone to this worker: an older datagram's entry is not
    /// theirs.
    pub fn replace(&mut self, d: &Datagram, worker: usize) {
        if let Some(w) = self.workers.get_mut(d) {
            *w = worker;
        }
    }

    /// A first fragment has gone to this worker.
    pub fn insert(&mut self, d: Datagram, worker: usize) {
        if self.workers.insert(d, worker).is_some() {
            return;
        }
        self.order.push_back(d);
        if self.order.len() > MAX_FRAGMENTED
            && let Some(oldest) = self.order.pop_front()
        {
            self.workers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_oldest_one_goes() {
        let mut f = Fragments::default();
        let d = |n: usize| Datagram {
            addresses: (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()),
            protocol: 17,
            identification: n as u32,
        };
        for n in 0..MAX_FRAGMENTED + 10 {
            f.insert(d(n), n % 3);
            f.insert(d(n), n % 3);
        }
        assert_eq!(f.workers.len(), MAX_FRAGMENTED);
        assert_eq!(f.order.len(), MAX_FRAGMENTED);
        assert_eq!(f.find(&d(9)), None);
        assert_eq!(f.find(&d(10)), Some(1));
    }
}
