//! Which worker a packet goes to.
//!
//! N workers are N reference graphs that share nothing. So all packets that ask for the same state have to come to the
//! same graph: both directions of a flow, before and after translation, ICMP errors about it, and all fragments of its
//! datagrams. A [`Partition`] is the function that says so, of the chain's port and the frame; it is what is replayed
//! when several workers are verified. What it goes by at each port ([`PortRule`]) follows from the chain.
//!
//! ```
//! use onefold_partition::{Partition, PortRule, Target};
//! let mut p = Partition::new(2, 0, vec![PortRule::default(); 2]);
//! // not IP: worker 0
//! assert_eq!(p.target(0, &[0; 60]), Target::One(0));
//! ```
//!
//! - *Where an address stays the same all along*, the hash is of that address: at one end of the chain it is the
//!   packets' source, at the other one their destination ([`Hash`]). Where both stay the same, it is of both, and the
//!   same both ways.
//! - *Where both are rewritten* (a NAT in front of a load balancer), packets to a NAT's address are told by the port:
//!   each worker hands out its own slice of the port range ([`slice_of`], [`owner`]).
//! - *ICMP errors* go where the packet that they quote came from, or would have come to: by its addresses and ports,
//!   exchanged.
//! - *Fragments*: no port is ever in a hash. Later fragments of a packet that was told by more than its addresses
//!   follow the first one, by a table of [`MAX_FRAGMENTED`] datagrams.
//! - *Replies of neighbours* (ARP, NDP) go to all workers where the chain asks for neighbours.
//!
//! Every frame has a target, whatever is in it.
#![forbid(unsafe_code)]

mod fragments;
mod frame;
mod slice;

pub use fragments::MAX_FRAGMENTED;
pub use slice::{owner, slice_of};

use fragments::{Datagram, Fragments};
use frame::{Fragment, Frame, Packet};
use std::net::{IpAddr, Ipv4Addr};

/// Most workers.
pub const MAX_WORKERS: usize = 64;

/// Who gets a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// This worker.
    One(usize),
    /// Every worker gets a copy: each has a table of neighbours of its own.
    All,
}

impl Target {
    /// Does this worker get it?
    pub fn is_for(self, worker: usize) -> bool {
        match self {
            Target::One(w) => w == worker,
            Target::All => true,
        }
    }
}

/// Which addresses of packets that arrive at a port are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hash {
    /// Both, in either order.
    #[default]
    Both,
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl Hash {
    /// In words, for what is printed.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Both => "both addresses",
            Hash::Source => "source address",
            Hash::Destination => "destination address",
        }
    }
}

/// TCP or UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A flow that a NAT lets in from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// Of TCP or of UDP.
    pub transport: Transport,
    /// Its address outside.
    pub address: Ipv4Addr,
    /// Its port outside.
    pub port: u16,
    /// Who it is for inside.
    pub host: Ipv4Addr,
}

/// What a NAT hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// First and last address outside.
    pub addresses: (Ipv4Addr, Ipv4Addr),
    /// All ports: each worker has its slice of them.
    pub ports: (u16, u16),
    /// All identifiers of echo requests, likewise.
    pub identifiers: (u16, u16),
    /// What comes in besides.
    pub forwards: Vec<Forward>,
}

impl Pool {
    fn has(&self, a: Ipv4Addr) -> bool {
        (self.addresses.0..=self.addresses.1).contains(&a)
    }
}

/// How the worker is found of packets that arrive at a port of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortRule {
    /// Of packets that nothing else is said of.
    pub hash: Hash,
    /// NATs whose outside this is, and whose ports tell the worker.
    pub pools: Vec<Pool>,
    /// NATs whose inside this is, and which let inside hosts reach each other through outside addresses: all packets to
    /// these go to one worker.
    pub hairpins: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// Inside hosts of static forwards: what they send is told by the destination.
    pub hosts: Vec<Ipv4Addr>,
    /// Neighbours are asked for behind this port, and their replies end there: all workers get them.
    pub neighbours: bool,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Partition {
    workers: usize,
    seed: u64,
    ports: Vec<PortRule>,
    /// By port.
    fragments: Vec<Fragments>,
}

/// How it was found out who gets a packet.
enum Found {
    /// By the addresses, which later fragments have, too.
    Addresses(usize),
    /// By more than these.
    More(usize),
}

impl Partition {
    /// For so many workers (1 to [`MAX_WORKERS`]), with a rule for each of the chain's ports. Hashes depend on `seed`.
    pub fn new(workers: usize, seed: u64, ports: Vec<PortRule>) -> Partition {
        Partition {
            workers: workers.clamp(1, MAX_WORKERS),
            seed,
            fragments: ports.iter().map(|_| Fragments::default()).collect(),
            ports,
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What hashes depend on.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The rule of each port.
    pub fn ports(&self) -> &[PortRule] {
        &self.ports
    }

    /// Who gets this frame (without checksum), which has arrived at this port. The same for the same frames in the same
    /// order.
    pub fn target(&mut self, port: usize, frame: &[u8]) -> Target {
        match self.read(port, frame) {
            Ok((_, packet)) => self.target_of(port, &packet),
            Err(target) => target,
        }
    }

    /// The same where frames arrive at several workers, at this one: fragments are brought to their
    /// [`Partition::collector`] first.
    pub fn target_from(&mut self, worker: usize, port: usize, frame: &[u8]) -> Target {
        let (rule, packet) = match self.read(port, frame) {
            Ok(read) => read,
            Err(target) => return target,
        };
        match self.collects(rule, &packet) {
            Some(w) if w != worker => Target::One(w),
            _ => self.target_of(port, &packet),
        }
    }

    fn target_of(&mut self, port: usize, packet: &Packet) -> Target {
        let Some(rule) = self.ports.get(port) else {
            return Target::One(0);
        };
        let key = |id| Datagram {
            addresses: (packet.source, packet.destination),
            protocol: packet.protocol,
            identification: id,
        };
        let follows = match packet.fragment {
            Fragment::Later(id) => self.fragments.get(port).and_then(|f| f.find(&key(id))),
            _ => None,
        };
        if let Some(worker) = follows {
            return Target::One(worker);
        }
        let worker = match self.find(rule, packet) {
            Found::Addresses(w) => {
                if let (Fragment::First(id), Some(f)) =
                    (packet.fragment, self.fragments.get_mut(port))
                {
                    f.replace(&key(id), w);
                }
                w
            }
            Found::More(w) => {
                if let (Fragment::First(id), Some(f)) =
                    (packet.fragment, self.fragments.get_mut(port))
                {
                    f.insert(key(id), w);
                }
                w
            }
        };
        Target::One(worker)
    }

    /// The port's rule and the packet, or who gets what has no addresses.
    fn read(&self, port: usize, frame: &[u8]) -> Result<(&PortRule, Packet), Target> {
        let Some(rule) = self.ports.get(port).filter(|_| self.workers > 1) else {
            return Err(Target::One(0));
        };
        match frame::parse(frame) {
            Frame::Other => Err(Target::One(0)),
            Frame::NeighbourReply => Err(match rule.neighbours {
                true => Target::All,
                false => Target::One(0),
            }),
            Frame::Ip(p) => Ok((rule, p)),
        }
    }

    /// Of a fragment: the worker that all fragments of its datagram are brought to first, where frames arrive at
    /// several workers. It asks [`Partition::target`] of them, in their order, and hands them over. It is the worker
    /// that later fragments go to about which nothing is known. `None`: it is a whole packet.
    pub fn collector(&self, port: usize, frame: &[u8]) -> Option<usize> {
        let (rule, p) = self.read(port, frame).ok()?;
        self.collects(rule, &p)
    }

    fn collects(&self, rule: &PortRule, p: &Packet) -> Option<usize> {
        if p.fragment == Fragment::Whole {
            return None;
        }
        // as of a fragment without ports
        let bare = Packet {
            port: None,
            source_port: None,
            identifier: None,
            quoted: None,
            ..p.clone()
        };
        let (Found::Addresses(w) | Found::More(w)) = self.find(rule, &bare);
        Some(w)
    }

    /// [`Partition::target`] without its memory: `None` of later fragments, which may follow others.
    pub fn expected(&self, port: usize, frame: &[u8]) -> Option<Target> {
        let (rule, p) = match self.read(port, frame) {
            Ok(read) => read,
            Err(target) => return Some(target),
        };
        if matches!(p.fragment, Fragment::Later(_)) {
            return None;
        }
        let (Found::Addresses(w) | Found::More(w)) = self.find(rule, &p);
        Some(Target::One(w))
    }

    /// Who would get the answer to a frame that leaves at a port: the packet the other way round, or, of an ICMP error,
    /// the packet that it is about. `None` where there is none, or it is not known: not IP, later fragments, several
    /// receivers, what neighbours say to each other.
    pub fn answered_by(&self, port: usize, frame: &[u8]) -> Option<usize> {
        let (rule, p) = self.read(port, frame).ok()?;
        if matches!(p.fragment, Fragment::Later(_)) || p.is_to_several() {
            return None;
        }
        let back = match p.quoted {
            Some(about) => *about,
            // who is asked for a neighbour answers all workers
            None if p.protocol == frame::ICMP6 => return None,
            None => p.exchanged(),
        };
        let (Found::Addresses(w) | Found::More(w)) = self.find(rule, &back);
        Some(w)
    }

    fn find(&self, rule: &PortRule, p: &Packet) -> Found {
        // what the packet is about, as if it came in the other packet's direction
        let about = p.quoted.as_deref().map(Packet::exchanged);
        let p = about.as_ref().unwrap_or(p);
        let found = |w| match about {
            Some(_) => Found::More(w),
            None => Found::Addresses(w),
        };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (p.source, p.destination) else {
            return found(self.hashed(rule.hash, p));
        };
        for pool in rule.pools.iter().filter(|q| q.has(destination)) {
            if pool.forwards.iter().any(|f| p.is_for(f)) {
                return Found::More(self.hashed(Hash::Source, p));
            }
            let range = match p.port {
                Some(_) => pool.ports,
                None => pool.identifiers,
            };
            let n = p.port.or(p.identifier);
            if let Some(w) = n.and_then(|n| owner(range, n, self.workers)) {
                return Found::More(w);
            }
        }
        let hairpin = |(a, b): &&(Ipv4Addr, Ipv4Addr)| (*a..=*b).contains(&destination);
        if let Some((first, _)) = rule.hairpins.iter().find(hairpin) {
            return found(self.worker_of(mix(self.seed, IpAddr::V4(*first))));
        }
        let hash = match rule.hosts.contains(&source) {
            true => Hash::Destination,
            false => rule.hash,
        };
        found(self.hashed(hash, p))
    }

    fn hashed(&self, hash: Hash, p: &Packet) -> usize {
        let of = |a| mix(self.seed, a);
        self.worker_of(match hash {
            Hash::Source => of(p.source),
            Hash::Destination => of(p.destination),
            Hash::Both => finish(of(p.source).wrapping_add(of(p.destination))),
        })
    }

    /// A worker for a hash: each has its part of all hashes.
    fn worker_of(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.workers as u128) >> 64) as usize
    }
}

/// Every bit of the result depends on every bit of `x` (the finalizer of splitmix64).
fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A hash of an address.
fn mix(seed: u64, a: IpAddr) -> u64 {
    let (high, low) = match a {
        IpAddr::V4(a) => (0, u64::from(u32::from(a))),
        IpAddr::V6(a) => {
            let bits = u128::from(a);
            ((bits >> 64) as u64, bits as u64)
        }
    };
    let start = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    finish(finish(start ^ high).wrapping_add(low))
}
