//! Frames for a router, byte by byte, and what it sends.

use crate::common::{build, load_in};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_packet::checksum::{fold, internet, pseudo_v6, sum};
use onefold_packet::{Timestamp, checksum};
use std::path::Path;

/// MAC address of a router's interface, by number.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// An IPv4 packet with options, checksum right.
pub fn ip4(src: [u8; 4], dst: [u8; 4], proto: u8, ttl: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
    let hlen = 20 + options.len();
    let mut p = vec![0x40 | (hlen / 4) as u8, 0];
    p.extend(((hlen + body.len()) as u16).to_be_bytes());
    p.extend([0, 7, 0, 0, ttl, proto, 0, 0]);
    p.extend(src);
    p.extend(dst);
    p.extend(options);
    fix(&mut p);
    p.extend(body);
    p
}

/// Sets an IPv4 header's checksum.
pub fn fix(p: &mut [u8]) {
    let hlen = usize::from(p[0] & 15) * 4;
    p[10..12].fill(0);
    let c = checksum::internet(&p[..hlen.min(p.len())]).to_be_bytes();
    p[10..12].copy_from_slice(&c);
}

/// An ICMP message, checksum right.
pub fn icmp(kind: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let mut m = vec![kind, code, 0, 0, 0, 1, 0, 2];
    m.extend(body);
    let c = internet(&m).to_be_bytes();
    m[2..4].copy_from_slice(&c);
    m
}

/// An IPv4 echo request.
pub fn ping4(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    ip4(src, dst, 1, 64, &[], &icmp(8, 0, b"abcd"))
}

/// An IPv4 UDP packet without a checksum.
pub fn udp4(src: [u8; 4], dst: [u8; 4], ttl: u8) -> Vec<u8> {
    let body = [0x13, 0x88, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4];
    ip4(src, dst, 17, ttl, &[], &body)
}

pub fn a6(s: &str) -> [u8; 16] {
    s.parse::<std::net::Ipv6Addr>()
        .expect("an address")
        .octets()
}

/// An IPv6 packet; the checksum of ICMPv6 messages and UDP is set.
pub fn ip6(src: &str, dst: &str, next: u8, hops: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0];
    p.extend((body.len() as u16).to_be_bytes());
    p.extend([next, hops]);
    p.extend(a6(src));
    p.extend(a6(dst));
    p.extend(body);
    let at = 40 + if next == 58 { 2 } else { 6 };
    if p.len() >= at + 2 {
        p[at..at + 2].fill(0);
        let c = sum6(&p).to_be_bytes();
        p[at..at + 2].copy_from_slice(&c);
    }
    p
}

/// The checksum of a packet without extension headers: zero if it is right.
pub fn sum6(p: &[u8]) -> u16 {
    let of = |r: std::ops::Range<usize>| p[r].first_chunk::<16>().copied().expect("a header");
    let pseudo = pseudo_v6(&of(8..24), &of(24..40), p[6], (p.len() - 40) as u32);
    !fold(sum(&p[40..], pseudo))
}

/// An ICMPv6 echo request.
pub fn ping6(src: &str, dst: &str) -> Vec<u8> {
    ip6(
        src,
        dst,
        58,
        64,
        &[128, 0, 0, 0, 0, 1, 0, 2, b'a', b'b', b'c'],
    )
}

pub fn udp6(src: &str, dst: &str, hops: u8) -> Vec<u8> {
    ip6(
        src,
        dst,
        17,
        hops,
        &[0x13, 0x88, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4],
    )
}

/// The frame of a packet for an interface.
pub fn frame(to: [u8; 6], p: &[u8]) -> Vec<u8> {
    let kind = if p[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&to[..], &[2, 0, 0, 0, 0, 0x99], &kind, p].concat()
}

/// What left: the port, and the packet without its Ethernet header.
pub type Out = Vec<(String, Vec<u8>)>;

/// A chain of routers that is running.
pub struct Net {
    chain: Chain,
    graph: Graph,
    /// Time of the next packets.
    pub now: Timestamp,
}

impl Net {
    /// A chain from the text of a chain file.
    pub fn new(text: &str) -> Net {
        let chain = load_in(Path::new("."), text).unwrap_or_else(|e| panic!("{e:?}"));
        let graph = build(&chain);
        let now = Timestamp::from_secs(1000);
        Net { chain, graph, now }
    }

    /// One router `r` of this text, whose ports are p0, p1 ...
    pub fn router(text: &str, ports: usize) -> Net {
        let text = text.replace('\n', "\n      ");
        let mut all = format!("functions:\n  r:\n    router:\n      {text}\nports:\n");
        for i in 0..ports {
            all.push_str(&format!("  p{i}: r[{i}]\n"));
        }
        Net::new(&all)
    }

    /// What a frame at a port makes leave, frames whole.
    pub fn frame(&mut self, port: &str, f: &[u8]) -> Out {
        let entry = self.chain.ports.iter().find(|p| p.name == port);
        let source = entry.and_then(|p| p.source).expect("an entry");
        self.graph.inject(ElemId(source as u32), f, self.now);
        let (chain, mut out) = (&self.chain, Vec::new());
        self.graph.drain_transmitted(|e, p| {
            let at = chain
                .ports
                .iter()
                .find(|c| c.sinks.contains(&(e.0 as usize)));
            out.push((
                at.map_or(String::new(), |c| c.name.clone()),
                p.data().to_vec(),
            ));
        });
        assert!(self.graph.totals().balanced(), "packets are conserved");
        out
    }

    /// What a packet for the router at port `p` makes leave, without Ethernet headers. The interface's MAC address is
    /// that of its number.
    pub fn send(&mut self, p: u8, packet: &[u8]) -> Out {
        let out = self.frame(&format!("p{p}"), &frame(mac(p), packet));
        out.into_iter()
            .map(|(port, f)| (port, f[14..].to_vec()))
            .collect()
    }

    /// Packets dropped so far for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        let all = self.graph.drops().into_iter();
        all.filter(|d| d.reason == reason).map(|d| d.packets).sum()
    }

    /// Packets dropped so far, by reason.
    pub fn drops(&self) -> String {
        format!("{:?}", self.graph.drops())
    }
}

/// Type and code of an IPv4 or IPv6 packet's ICMP message.
pub fn kind(p: &[u8]) -> Option<(u8, u8)> {
    match p[0] >> 4 {
        4 if p[9] == 1 => {
            let m = &p[usize::from(p[0] & 15) * 4..];
            assert_eq!(internet(m), 0, "ICMP checksum");
            Some((m[0], m[1]))
        }
        6 if p[6] == 58 => {
            assert_eq!(sum6(p), 0, "ICMPv6 checksum");
            Some((p[40], p[41]))
        }
        _ => None,
    }
}

/// The ICMP messages among what left.
pub fn kinds(out: &Out) -> Vec<(u8, u8)> {
    out.iter().filter_map(|(_, p)| kind(p)).collect()
}
