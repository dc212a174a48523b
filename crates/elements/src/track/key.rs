//! What makes packets of both directions one connection.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Both ends of a connection, in the direction of its first packet. It is copied in whole words: what has just been
/// written in two parts and is read in one has to be in the cache first (docs/decisions/0097).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub(super) struct Ends {
    pub src: Place,
    pub dst: Place,
    pub protocol: u8,
    pub v6: bool,
}

/// One end: its address, and what the protocol tells connections apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// An IPv4 address is the first four bytes, and the rest is zero.
    pub address: [u8; 16],
    /// The port. Of ICMP, the identifier at the source, and type and code of the request at the destination.
    pub port: u16,
}

impl Ends {
    /// By a packet's key, and whether that packet goes from the key's second end to its first.
    pub fn of(key: &ConnKey, flipped: bool) -> Ends {
        let place = |address, port| Place {
            address,
            port: u16::from_be_bytes(port),
        };
        let (a, b) = (place(key.a, key.at_a), place(key.b, key.at_b));
        let (src, dst) = if flipped { (b, a) } else { (a, b) };
        Ends {
            src,
            dst,
            protocol: key.protocol,
            v6: key.v6,
        }
    }

    /// Where packets with these ends go.
    pub fn destination(&self) -> (IpAddr, u16) {
        let address = match (self.v6, self.dst.address) {
            (true, bytes) => Ipv6Addr::from(bytes).into(),
            (false, [a, b, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
        };
        (address, self.dst.port)
    }

    /// The key of packets with these ends, and which way one goes from `src` to `dst`.
    pub fn key(&self) -> (ConnKey, bool) {
        if !self.v6 && !self.is_icmp() {
            let [[s0, s1], [d0, d1]] = [self.src.port, self.dst.port].map(u16::to_be_bytes);
            let four = |p: &Place| [p.address[0], p.address[1], p.address[2], p.address[3]];
            let ports = [s0, s1, d0, d1];
            return ConnKey::of_v4(four(&self.src), four(&self.dst), self.protocol, ports);
        }
        let bytes = if self.v6 { 16 } else { 4 };
        let (src, dst) = (&self.src.address[..bytes], &self.dst.address[..bytes]);
        let (at_src, at_dst) = (self.src.port.to_be_bytes(), self.dst.port.to_be_bytes());
        if self.is_icmp() {
            let key = ConnKey::of_question(src, dst, self.protocol, at_src, at_dst);
            return (key, false);
        }
        let ([a, b], [c, d]) = (at_src, at_dst);
        ConnKey::of(src, dst, self.protocol, [a, b, c, d])
    }

    /// The same of the packets that answer. Who sends to himself is answered by packets like his own.
    pub fn answered_key(&self) -> (ConnKey, bool) {
        let (key, flipped) = self.key();
        let to_itself = self.src == self.dst && !self.is_icmp();
        (key, !flipped && !to_itself)
    }

    /// ICMP or ICMPv6: it has an identifier in the place of ports.
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, 1 | 58)
    }
}

/// Addresses, protocol, and what the protocol tells connections apart by, in an order of its own: packets of both
/// directions have the same key. Which way a packet goes is told beside it (see [`ConnKey::of`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct ConnKey {
    /// An IPv4 address is the first four bytes, and the rest is zero.
    a: [u8; 16],
    b: [u8; 16],
    /// Ports of TCP, UDP and SCTP; of ICMP the identifier at `a`, and type and code of the request at `b`; else zero.
    at_a: [u8; 2],
    at_b: [u8; 2],
    /// The protocol.
    pub protocol: u8,
    v6: bool,
}

impl ConnKey {
    /// The key of a packet with ports (or zeros), and whether the packet goes from the key's second end to its first.
    /// `addresses`: source and destination as they stand in the header, four bytes each or sixteen.
    #[inline]
    pub fn of(src: &[u8], dst: &[u8], protocol: u8, ports: [u8; 4]) -> (ConnKey, bool) {
        let [s0, s1, d0, d1] = ports;
        let flipped = (src, [s0, s1]) > (dst, [d0, d1]);
        let key = match flipped {
            false => ConnKey::new(src, dst, protocol, [s0, s1], [d0, d1]),
            true => ConnKey::new(dst, src, protocol, [d0, d1], [s0, s1]),
        };
        (key, flipped)
    }

    /// [`ConnKey::of`] for IPv4. Which end is the first one is told without a branch: no processor can foresee it.
    #[inline(always)]
    pub fn of_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: [u8; 4]) -> (ConnKey, bool) {
        let [s0, s1, d0, d1] = ports;
        let end = |a: [u8; 4], port: [u8; 2]| {
            u64::from(u32::from_be_bytes(a)) << 16 | u64::from(u16::from_be_bytes(port))
        };
        let (s, d) = (end(src, [s0, s1]), end(dst, [d0, d1]));
        let (first, second) = (s.min(d), s.max(d));
        let mut key = ConnKey {
            a: [0; 16],
            b: [0; 16],
            at_a: (first as u16).to_be_bytes(),
            at_b: (second as u16).to_be_bytes(),
            protocol,
            v6: false,
        };
        key.a[..4].copy_from_slice(&((first >> 16) as u32).to_be_bytes());
        key.b[..4].copy_from_slice(&((second >> 16) as u32).to_be_bytes());
        (key, s > d)
    }

    /// [`ConnKey::of`] for IPv6.
    #[inline(always)]
    pub fn of_v6(src: [u8; 16], dst: [u8; 16], protocol: u8, ports: [u8; 4]) -> (ConnKey, bool) {
        let [s0, s1, d0, d1] = ports;
        let end = |a, port| (u128::from_be_bytes(a), u16::from_be_bytes(port));
        let flipped = end(src, [s0, s1]) > end(dst, [d0, d1]);
        let (a, b, at_a, at_b) = match flipped {
            false => (src, dst, [s0, s1], [d0, d1]),
            true => (dst, src, [d0, d1], [s0, s1]),
        };
        let key = ConnKey {
            a,
            b,
            at_a,
            at_b,
            protocol,
            v6: true,
        };
        (key, flipped)
    }

    /// Is this the key of an IPv4 packet of this protocol that goes from its first end to its second, and of one that
    /// goes the other way? `ends`: addresses and ports as they stand in the packet, one behind the other. Nothing is
    /// branched on, and nothing is put in order.
    #[inline(always)]
    pub fn ways_v4(&self, ends: &[u8; 12], protocol: u8) -> (bool, bool) {
        let [s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, p2, p3] = *ends;
        let addresses = u64::from_le_bytes([s0, s1, s2, s3, d0, d1, d2, d3]);
        let ports = u32::from_le_bytes([p0, p1, p2, p3]);
        let four = |b: &[u8; 16]| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let ([a0, a1], [b0, b1]) = (self.at_a, self.at_b);
        let is = four(&self.a) | four(&self.b) << 32;
        let at = u32::from_le_bytes([a0, a1, b0, b1]);
        let other = (self.protocol ^ protocol) | u8::from(self.v6);
        let unlike = |addresses, ports| (is ^ addresses) | u64::from(at ^ ports) | u64::from(other);
        (
            unlike(addresses, ports) == 0,
            unlike(addresses.rotate_left(32), ports.rotate_left(16)) == 0,
        )
    }

    /// [`ConnKey::ways_v4`] of IPv6.
    #[inline(always)]
    pub fn ways_v6(
        &self,
        src: &[u8; 16],
        dst: &[u8; 16],
        ports: [u8; 4],
        protocol: u8,
    ) -> (bool, bool) {
        let [s0, s1, d0, d1] = ports;
        let goes = |src: &[u8; 16], dst: &[u8; 16], at_src, at_dst| {
            (self.a == *src) & (self.b == *dst) & (self.at_a == at_src) & (self.at_b == at_dst)
        };
        let of = (self.protocol == protocol) & self.v6;
        (
            of & goes(src, dst, [s0, s1], [d0, d1]),
            of & goes(dst, src, [d0, d1], [s0, s1]),
        )
    }

    /// The key of an ICMP message that is asked or answered, by who asks; `request`: type and code of the question.
    pub fn of_question(
        asks: &[u8],
        answers: &[u8],
        protocol: u8,
        id: [u8; 2],
        request: [u8; 2],
    ) -> ConnKey {
        ConnKey::new(asks, answers, protocol, id, request)
    }

    #[inline]
    fn new(a: &[u8], b: &[u8], protocol: u8, at_a: [u8; 2], at_b: [u8; 2]) -> ConnKey {
        let mut key = ConnKey {
            a: [0; 16],
            b: [0; 16],
            at_a,
            at_b,
            protocol,
            v6: false,
        };
        match (<&[u8; 4]>::try_from(a), <&[u8; 4]>::try_from(b)) {
            (Ok(x), Ok(y)) => {
                key.a[..4].copy_from_slice(x);
                key.b[..4].copy_from_slice(y);
            }
            _ => {
                key.v6 = true;
                for (to, from) in key.a.iter_mut().zip(a) {
                    *to = *from;
                }
                for (to, from) in key.b.iter_mut().zip(b) {
                    *to = *from;
                }
            }
        }
        key
    }

    fn address(&self, b: &[u8; 16]) -> IpAddr {
        match self.v6 {
            true => Ipv6Addr::from(*b).into(),
            false => Ipv4Addr::new(b[0], b[1], b[2], b[3]).into(),
        }
    }

    /// The connection as its first packet had it: `PROTOCOL SRC SPORT DST DPORT`; of ICMP, `PROTOCOL SRC DST id N type
    /// N code N`.
    pub fn text(&self, flipped: bool) -> impl fmt::Display {
        let (a, b) = (self.address(&self.a), self.address(&self.b));
        let (x, y) = (u16::from_be_bytes(self.at_a), u16::from_be_bytes(self.at_b));
        match (self.protocol, flipped) {
            (1 | 58, _) => {
                let [kind, code] = self.at_b;
                format!("{} {a} {b} id {x} type {kind} code {code}", self.protocol)
            }
            (p, false) => format!("{p} {a} {x} {b} {y}"),
            (p, true) => format!("{p} {b} {y} {a} {x}"),
        }
    }

    fn rank(&self) -> impl Ord {
        (self.v6, self.protocol, self.a, self.b, self.at_a, self.at_b)
    }
}

impl Ord for ConnKey {
    fn cmp(&self, other: &ConnKey) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for ConnKey {
    fn partial_cmp(&self, other: &ConnKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ConnKey {
    /// In few words: a hasher takes longer for each one, not for how long it is.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let four = |b: &[u8; 16]| u64::from(u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        if self.v6 {
            state.write_u128(u128::from_ne_bytes(self.a));
            state.write_u128(u128::from_ne_bytes(self.b));
        } else {
            state.write_u64(four(&self.a) << 32 | four(&self.b));
        }
        let ([a, b], [c, d]) = (self.at_a, self.at_b);
        let ports = u64::from(u32::from_ne_bytes([a, b, c, d]));
        state.write_u64(u64::from(self.protocol) << 33 | u64::from(self.v6) << 32 | ports);
    }
}
