//! What makes packets of both directions one connection.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Both ends of a connection, in the direction of its first packet. It is copied in whole words: what has just been
/// written in two parts and is read in one has to be in the cache first (docs/decisions/0097).
#[derive(Debug, Clone, Copy, Eq)]
#[repr(align(8))]
pub(super) struct Ends {
    pub src: Place,
    pub dst: Place,
    pub protocol: u8,
    pub v6: bool,
}

impl PartialEq for Ends {
    /// Read as it is written: ports two bytes, IPv4 addresses four.
    #[inline]
    fn eq(&self, other: &Ends) -> bool {
        let four = |p: &Place| {
            u32::from_ne_bytes([p.address[0], p.address[1], p.address[2], p.address[3]])
        };
        let alike = |a: &Place, b: &Place| (four(a) == four(b)) & (a.port == b.port);
        let of = (self.protocol == other.protocol) & (self.v6 == other.v6);
        let same = of & alike(&self.src, &other.src) & alike(&self.dst, &other.dst);
        let whole =
            || self.src.address == other.src.address && self.dst.address == other.dst.address;
        same && (!self.v6 || whole())
    }
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
    /// By a packet's key, and whether that packet goes from the key's second end to its first. Which end is the source
    /// is told without a branch, and in words.
    #[inline]
    pub fn of(key: &ConnKey, flipped: bool) -> Ends {
        let all = 0u64.wrapping_sub(u64::from(flipped));
        let turned = |i: usize| (key.a[i] ^ key.b[i]) & all;
        let turn = [turned(0), turned(1)];
        let place = |address: [u64; 2], port| Place {
            address: bytes([address[0] ^ turn[0], address[1] ^ turn[1]]),
            port: u16::from_be_bytes(port),
        };
        let [at_a, at_b] = key.ports();
        let (at_src, at_dst) = if flipped { (at_b, at_a) } else { (at_a, at_b) };
        Ends {
            src: place(key.a, at_src),
            dst: place(key.b, at_dst),
            protocol: key.protocol(),
            v6: key.v6(),
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
    #[inline]
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
    #[inline]
    pub fn answered_key(&self) -> (ConnKey, bool) {
        let (key, flipped) = self.key();
        let to_itself = self.src == self.dst && !self.is_icmp();
        (key, !flipped && !to_itself)
    }

    /// ICMP or ICMPv6: it has an identifier in the place of ports.
    #[inline]
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, 1 | 58)
    }
}

/// Addresses, protocol, and what the protocol tells connections apart by, in an order of its own: packets of both
/// directions have the same key. Which way a packet goes is told beside it (see [`ConnKey::of`]). All of it is whole
/// words, that are made in registers: what is written byte by byte and read at once has to be in the cache first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct ConnKey {
    /// As the bytes of an address stand in memory; an IPv4 address is the first four bytes, and the rest is zero.
    a: [u64; 2],
    b: [u64; 2],
    /// Ports of TCP, UDP and SCTP; of ICMP the identifier at `a`, and type and code of the request at `b`; else zero:
    /// two bytes each. Then the protocol, one if it is IPv6, and two bytes that are zero.
    rest: u64,
}

#[inline(always)]
fn words(address: [u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(address);
    [(both as u64).to_le(), ((both >> 64) as u64).to_le()]
}

#[inline(always)]
fn bytes(words: [u64; 2]) -> [u8; 16] {
    let [low, high] = words.map(|w| u128::from(u64::from_le(w)));
    (low | high << 64).to_le_bytes()
}

/// The same of an IPv4 address.
#[inline(always)]
fn words_v4(address: u32) -> [u64; 2] {
    let [a, b, c, d] = address.to_be_bytes();
    [u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), 0]
}

/// The first four bytes of an address, the first one lowest.
#[inline(always)]
fn four(address: [u64; 2]) -> u64 {
    let [a, b, c, d, ..] = address[0].to_ne_bytes();
    u64::from(u32::from_le_bytes([a, b, c, d]))
}

#[inline(always)]
fn rest([a0, a1]: [u8; 2], [b0, b1]: [u8; 2], protocol: u8, v6: bool) -> u64 {
    u64::from_ne_bytes([a0, a1, b0, b1, protocol, u8::from(v6), 0, 0])
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
        let port = |end: u64| (end as u16).to_be_bytes();
        let key = ConnKey {
            a: words_v4((first >> 16) as u32),
            b: words_v4((second >> 16) as u32),
            rest: rest(port(first), port(second), protocol, false),
        };
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
            a: words(a),
            b: words(b),
            rest: rest(at_a, at_b, protocol, true),
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
        let [a0, a1, b0, b1, is_protocol, is_v6, ..] = self.rest.to_ne_bytes();
        let is = four(self.a) | four(self.b) << 32;
        let at = u32::from_le_bytes([a0, a1, b0, b1]);
        let other = (is_protocol ^ protocol) | is_v6;
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
        let (src, dst) = (words(*src), words(*dst));
        let goes = |a, b, at_a, at_b| {
            (self.a == a) & (self.b == b) & (self.rest == rest(at_a, at_b, protocol, true))
        };
        (
            goes(src, dst, [s0, s1], [d0, d1]),
            goes(dst, src, [d0, d1], [s0, s1]),
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
        let v6 = (a.len(), b.len()) != (4, 4);
        let of = |from: &[u8]| {
            let mut address = [0; 16];
            for (to, from) in address.iter_mut().zip(from) {
                *to = *from;
            }
            words(address)
        };
        ConnKey {
            a: of(a),
            b: of(b),
            rest: rest(at_a, at_b, protocol, v6),
        }
    }

    /// The protocol.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.rest.to_ne_bytes()[4]
    }

    #[inline(always)]
    fn v6(&self) -> bool {
        self.rest.to_ne_bytes()[5] != 0
    }

    /// What stands in the place of ports, at either end.
    #[inline(always)]
    fn ports(&self) -> [[u8; 2]; 2] {
        let [a0, a1, b0, b1, ..] = self.rest.to_ne_bytes();
        [[a0, a1], [b0, b1]]
    }

    fn address(&self, b: [u64; 2]) -> IpAddr {
        let b = bytes(b);
        match self.v6() {
            true => Ipv6Addr::from(b).into(),
            false => Ipv4Addr::new(b[0], b[1], b[2], b[3]).into(),
        }
    }

    /// The connection as its first packet had it: `PROTOCOL SRC SPORT DST DPORT`; of ICMP, `PROTOCOL SRC DST id N type
    /// N code N`.
    pub fn text(&self, flipped: bool) -> impl fmt::Display {
        let (a, b) = (self.address(self.a), self.address(self.b));
        let [at_a, at_b] = self.ports();
        let (x, y) = (u16::from_be_bytes(at_a), u16::from_be_bytes(at_b));
        match (self.protocol(), flipped) {
            (protocol @ (1 | 58), _) => {
                let [kind, code] = at_b;
                format!("{protocol} {a} {b} id {x} type {kind} code {code}")
            }
            (p, false) => format!("{p} {a} {x} {b} {y}"),
            (p, true) => format!("{p} {b} {y} {a} {x}"),
        }
    }

    fn rank(&self) -> impl Ord {
        let [at_a, at_b] = self.ports();
        let (a, b) = (bytes(self.a), bytes(self.b));
        (self.v6(), self.protocol(), a, b, at_a, at_b)
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
        if self.v6() {
            for [high, low] in [self.a, self.b] {
                state.write_u128(u128::from(high) << 64 | u128::from(low));
            }
        } else {
            state.write_u64(four(self.a) << 32 | four(self.b));
        }
        state.write_u64(self.rest);
    }
}
