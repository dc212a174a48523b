//! Names for bits of a packet: `ip.src` for 32 bits at byte 26, as long as there is reason to believe that an IPv4
//! header is there. A name alone says which bits it stands for (`PROTOCOL[@BYTE].FIELD`, the byte where the header
//! starts, left out when it is the protocol's usual one); what is known of a packet only decides which of several names
//! is printed.

use crate::program::{Dim, EndAt, Filter};
use onefold_element::model::{AnnoKey, HeaderCheck, RouteWhat};

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Decimal.
    Dec,
    /// Hexadecimal, with leading zeros to the field's width.
    Hex,
    /// `10.0.0.1`
    Ip4,
    /// `2001:db8::1`
    Ip6,
    /// `02:00:00:00:00:01`
    Mac,
    /// `host`, `broadcast` ...
    PacketType,
}

/// A named field: name, first bit from the header's start, bits, style.
type Field = (&'static str, i32, u8, Style);

/// A protocol's header.
pub(crate) struct Proto {
    /// Its name.
    pub name: &'static str,
    /// Byte where it usually starts: in an untagged Ethernet frame, behind an option-free IPv4 header.
    pub usual: i32,
    /// Its fields.
    pub fields: &'static [Field],
}

use Style::{Dec, Hex, Ip4, Ip6, Mac};

#[rustfmt::skip]
static ETH: Proto = Proto { name: "eth", usual: 0, fields: &[
    ("dst", 0, 48, Mac), ("src", 48, 48, Mac), ("type", 96, 16, Hex)] };
#[rustfmt::skip]
static VLAN: Proto = Proto { name: "vlan", usual: 12, fields: &[
    ("tpid", 0, 16, Hex), ("tci", 16, 16, Dec), ("pcp", 16, 3, Dec), ("dei", 19, 1, Dec), ("vid", 20, 12, Dec), ("type", 32, 16, Hex)] };
#[rustfmt::skip]
static IP: Proto = Proto { name: "ip", usual: 14, fields: &[
    ("version", 0, 4, Dec), ("ihl", 4, 4, Dec), ("vhl", 0, 8, Hex), ("tos", 8, 8, Dec), ("dscp", 8, 6, Dec), ("ecn", 14, 2, Dec),
    ("len", 16, 16, Dec), ("id", 32, 16, Dec), ("flags", 48, 3, Dec), ("df", 49, 1, Dec), ("mf", 50, 1, Dec),
    ("fragoff", 51, 13, Dec), ("mf_fragoff", 50, 14, Dec), ("fragword", 48, 16, Hex), ("ttl", 64, 8, Dec), ("proto", 72, 8, Dec),
    ("sum", 80, 16, Hex), ("src", 96, 32, Ip4), ("dst", 128, 32, Ip4)] };
#[rustfmt::skip]
static IP6: Proto = Proto { name: "ip6", usual: 14, fields: &[
    ("version", 0, 4, Dec), ("tclass", 4, 8, Dec), ("flow", 12, 20, Hex), ("plen", 32, 16, Dec), ("next", 48, 8, Dec),
    ("hlim", 56, 8, Dec), ("src", 64, 128, Ip6), ("dst", 192, 128, Ip6)] };
#[rustfmt::skip]
static ARP: Proto = Proto { name: "arp", usual: 14, fields: &[
    ("htype", 0, 16, Dec), ("ptype", 16, 16, Hex), ("hlen", 32, 8, Dec), ("plen", 40, 8, Dec), ("op", 48, 16, Dec),
    ("sha", 64, 48, Mac), ("spa", 112, 32, Ip4), ("tha", 144, 48, Mac), ("tpa", 192, 32, Ip4)] };
#[rustfmt::skip]
static TCP: Proto = Proto { name: "tcp", usual: 34, fields: &[
    ("sport", 0, 16, Dec), ("dport", 16, 16, Dec), ("seq", 32, 32, Dec), ("ack_number", 64, 32, Dec), ("doff", 96, 4, Dec),
    ("flags", 104, 8, Hex), ("urg", 106, 1, Dec), ("ack", 107, 1, Dec), ("psh", 108, 1, Dec), ("rst", 109, 1, Dec),
    ("syn", 110, 1, Dec), ("fin", 111, 1, Dec), ("window", 112, 16, Dec), ("sum", 128, 16, Hex)] };
#[rustfmt::skip]
static UDP: Proto = Proto { name: "udp", usual: 34, fields: &[
    ("sport", 0, 16, Dec), ("dport", 16, 16, Dec), ("len", 32, 16, Dec), ("sum", 48, 16, Hex)] };
#[rustfmt::skip]
static ICMP: Proto = Proto { name: "icmp", usual: 34, fields: &[
    ("type", 0, 8, Dec), ("code", 8, 8, Dec), ("sum", 16, 16, Hex), ("id", 32, 16, Dec), ("seq", 48, 16, Dec)] };
/// TCP or UDP.
static L4: Proto = Proto {
    name: "l4",
    usual: 34,
    fields: &[("sport", 0, 16, Dec), ("dport", 16, 16, Dec)],
};

/// All of them, for the parser.
pub(crate) static PROTOS: [&Proto; 9] = [&ETH, &VLAN, &IP, &IP6, &ARP, &TCP, &UDP, &ICMP, &L4];

/// The names of [`HeaderCheck`]s.
#[rustfmt::skip]
pub(crate) static CHECKS: [(&str, HeaderCheck); 7] = [
    ("ip4_fits", HeaderCheck::Ip4Fits), ("ip4_sum_right", HeaderCheck::Ip4Checksum), ("ip6_fits", HeaderCheck::Ip6Fits),
    ("tcp_sum_right", HeaderCheck::TcpChecksum), ("udp_sum_right", HeaderCheck::UdpChecksum),
    ("icmp_sum_right", HeaderCheck::IcmpChecksum), ("udp_fits", HeaderCheck::UdpFits),
];

/// Annotations with a name: name, first byte, bytes, style.
#[rustfmt::skip]
pub(crate) static ANNOS: [(&str, u8, u8, Style); 6] = [
    ("dst_ip", 0, 4, Ip4), ("dst_ip6", 0, 16, Ip6), ("paint", 16, 1, Dec), ("icmp_paramprob", 17, 1, Dec),
    ("fix_ip_src", 19, 1, Dec), ("vlan_tci", 20, 2, Dec),
];

/// Packet types by number.
#[rustfmt::skip]
pub(crate) static PACKET_TYPES: [&str; 7] =
    ["host", "broadcast", "multicast", "otherhost", "outgoing", "loopback", "fastroute"];

/// Ethernet types and IP protocols that say what follows.
const TYPE_IP: u128 = 0x0800;
const TYPE_IP6: u128 = 0x86dd;
const TYPE_ARP: u128 = 0x0806;
const TYPE_VLAN: [u128; 2] = [0x8100, 0x88a8];

/// Where headers are, as far as can be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// Network header: which and where.
    net: Option<(Net, i32)>,
    /// A VLAN tag, by the place of its type.
    vlan: Option<i32>,
    /// Transport protocol.
    proto: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Net {
    Ip,
    Ip6,
    Arp,
}

impl Layout {
    /// What a filter says of the packets that fit it, on top of what is known already.
    pub fn with(mut self, f: &Filter) -> Layout {
        let mut found: Option<(Net, i32)> = None;
        let mut ethernet: Option<(Net, i32)> = None;
        let single = |bit: i32, bits: u8| f.get(Dim::Bits { bit, bits }).and_then(|s| s.single());
        if let Some(t) = single(96, 16) {
            let (mut t, mut at) = (t, 14);
            if TYPE_VLAN.contains(&t) {
                self.vlan = Some(12);
                (t, at) = (single(128, 16).unwrap_or(0), 18);
            }
            ethernet = net_of(t).map(|n| (n, at));
        }
        for (d, set) in &f.0 {
            match *d {
                Dim::Check { check, at, end } => {
                    let net = match check {
                        HeaderCheck::Ip6Fits => Net::Ip6,
                        _ => Net::Ip,
                    };
                    // a header that fits is no header of the other kind
                    if set.contains(1) || found.is_none() {
                        found = Some((net, at));
                    }
                    match end {
                        EndAt::Same => {}
                        EndAt::Ip4(at) => found = Some((Net::Ip, at)),
                        EndAt::Ip6(at) => found = Some((Net::Ip6, at)),
                    }
                }
                Dim::Bits { bit, bits: 4 } if bit.rem_euclid(8) == 0 => match set.single() {
                    Some(4) => found = Some((Net::Ip, bit.div_euclid(8))),
                    Some(6) => found = Some((Net::Ip6, bit.div_euclid(8))),
                    _ => {}
                },
                _ => {}
            }
        }
        if let Some(net) = ethernet.or(found) {
            self.net = Some(net);
        }
        let proto_at = match self.net {
            Some((Net::Ip, at)) => at.checked_add(9),
            Some((Net::Ip6, at)) => at.checked_add(6),
            _ => None,
        };
        if let Some(p) = proto_at
            .and_then(|b| b.checked_mul(8))
            .and_then(|b| single(b, 8))
        {
            self.proto = u8::try_from(p).ok();
        }
        self
    }

    /// A packet that ends there has that header.
    pub fn with_end(mut self, end: EndAt) -> Layout {
        if self.net.is_none() {
            self.net = match end {
                EndAt::Same => None,
                EndAt::Ip4(at) => Some((Net::Ip, at)),
                EndAt::Ip6(at) => Some((Net::Ip6, at)),
            };
        }
        self
    }

    /// An IPv4 header is known to start there.
    pub fn with_ip4(mut self, at: i32) -> Layout {
        if self.net.is_none() {
            self.net = Some((Net::Ip, at));
        }
        self
    }

    /// Which headers may hold a bit, the likeliest first.
    fn headers(&self) -> impl Iterator<Item = (&'static Proto, i32)> {
        let mut list: [Option<(&'static Proto, i32)>; 5] = [None; 5];
        let eth = match (self.net, self.vlan) {
            (_, Some(v)) => v.checked_sub(12),
            (Some((_, at)), None) => at.checked_sub(14),
            (None, None) => Some(0),
        };
        if let Some((net, at)) = self.net {
            let (proto, len) = match net {
                Net::Ip => (&IP, 20),
                Net::Ip6 => (&IP6, 40),
                Net::Arp => (&ARP, i32::MAX),
            };
            list[0] = Some((proto, at));
            let l4 = match self.proto {
                Some(6) => &TCP,
                Some(17) => &UDP,
                Some(1) if net == Net::Ip => &ICMP,
                _ => &L4,
            };
            if net != Net::Arp {
                list[1] = at.checked_add(len).map(|b| (l4, b));
            }
        }
        list[2] = self.vlan.map(|v| (&VLAN, v));
        list[3] = eth.map(|b| (&ETH, b));
        list.into_iter().flatten()
    }

    /// The name of some bits, and how their value is written; `None` where no name fits.
    pub(crate) fn name(&self, bit: i32, bits: u8) -> Option<(String, Style)> {
        for (proto, base) in self.headers() {
            let Some(rel) = base.checked_mul(8).and_then(|b| bit.checked_sub(b)) else {
                continue;
            };
            if let Some(f) = proto.fields.iter().find(|f| f.1 == rel && f.2 == bits) {
                let at = match base == proto.usual {
                    true => String::new(),
                    false => format!("@{base}"),
                };
                return Some((format!("{}{at}.{}", proto.name, f.0), f.3));
            }
        }
        None
    }
}

fn net_of(ether_type: u128) -> Option<Net> {
    match ether_type {
        TYPE_IP => Some(Net::Ip),
        TYPE_IP6 => Some(Net::Ip6),
        TYPE_ARP => Some(Net::Arp),
        _ => None,
    }
}

/// The bits that a name stands for; `None` when there is no such name.
pub(crate) fn bits_of(name: &str) -> Option<(i32, u8)> {
    let (head, field) = name.split_once('.')?;
    let (proto, base) = match head.split_once('@') {
        Some((p, b)) => (p, Some(b.parse::<i32>().ok()?)),
        None => (head, None),
    };
    let proto = PROTOS.iter().find(|p| p.name == proto)?;
    let f = proto.fields.iter().find(|f| f.0 == field)?;
    let bit = base
        .unwrap_or(proto.usual)
        .checked_mul(8)?
        .checked_add(f.1)?;
    Some((bit, f.2))
}

/// The name of an annotation, and how its value is written.
pub(crate) fn anno_name(a: AnnoKey) -> (String, Style) {
    match ANNOS.iter().find(|n| n.1 == a.offset && n.2 == a.size) {
        Some(n) => (format!("anno.{}", n.0), n.3),
        None => (format!("anno@{}:{}", a.offset, a.size), Dec),
    }
}

impl Layout {
    /// The same for packets of any transport protocol.
    pub(crate) fn without_proto(mut self) -> Layout {
        self.proto = None;
        self
    }
}

/// How questions to tables of routes and of neighbours are called.
pub(super) const ROUTES: [(&str, RouteWhat); 4] = [
    ("route", RouteWhat::Output),
    ("next_hop", RouteWhat::NextHop),
    ("neighbor_known", RouteWhat::Known),
    ("neighbor", RouteWhat::Ether),
];

/// A question's name.
pub fn route_name(what: RouteWhat) -> &'static str {
    ROUTES.iter().find(|r| r.1 == what).map_or("?", |r| r.0)
}

/// The question of this name.
pub fn route_of(name: &str) -> Option<RouteWhat> {
    ROUTES.iter().find(|r| r.0 == name).map(|r| r.1)
}
