//! The words that the filter language knows.

use super::expr::{Field, Layer, Transport};
use onefold_element::NameDb;

/// What a primitive tests, as its keyword says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Net,
    Ether,
    Proto,
    Port,
    TcpOpt,
    Frag,
    Unfrag,
    Ect,
    Ce,
    /// A numeric field; the number is the protocol that the field belongs to, if any.
    Field(Field, Option<Proto>),
}

/// A protocol as a filter names it. Besides real protocol numbers there are three stand-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proto {
    Number(u8),
    /// TCP or UDP.
    TcpUdp,
    /// Whatever the transport protocol is (`transp[...]`, `payload[...]`): no condition.
    AnyTransport,
}

impl Proto {
    pub fn requirement(self) -> Option<Transport> {
        match self {
            Proto::Number(n) => Some(Transport::Protocol(n)),
            Proto::TcpUdp => Some(Transport::TcpOrUdp),
            Proto::AnyTransport => None,
        }
    }
}

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const DCCP: u8 = 33;
pub(super) const ICMP6: u8 = 58;

/// Which version of IP a filter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// The ICMP that goes with it.
    pub fn icmp(self) -> Proto {
        Proto::Number(match self {
            Family::V4 => ICMP,
            Family::V6 => ICMP6,
        })
    }
    /// The field that ECN is part of.
    pub fn traffic_class(self) -> Field {
        match self {
            Family::V4 => TOS,
            Family::V6 => CLASS6,
        }
    }
}

pub(super) const PROTOCOL: Field = Field::net(9, 1);
pub(super) const TOS: Field = Field::net(1, 1);
pub(super) const ICMP_TYPE: Field = Field {
    layer: Layer::Transport,
    bit: 0,
    bits: 8,
};

/// Fields of the IP header by their keyword.
pub(super) const IP_FIELDS: &[(&str, Field)] = &[
    (
        "vers",
        Field {
            layer: Layer::Net,
            bit: 0,
            bits: 4,
        },
    ),
    (
        "hl",
        Field {
            layer: Layer::Net,
            bit: 4,
            bits: 4,
        },
    ),
    ("tos", TOS),
    (
        "dscp",
        Field {
            layer: Layer::Net,
            bit: 8,
            bits: 6,
        },
    ),
    ("len", Field::net(2, 2)),
    ("id", Field::net(4, 2)),
    ("ttl", Field::net(8, 1)),
];

const fn net6(bit: u16, bits: u8) -> Field {
    Field {
        layer: Layer::Net6,
        bit,
        bits,
    }
}

const CLASS6: Field = net6(4, 8);

/// Fields of the IPv6 header by their keyword.
pub(super) const IP6_FIELDS: &[(&str, Field)] = &[
    ("vers", net6(0, 4)),
    ("class", CLASS6),
    ("dscp", net6(4, 6)),
    ("flow", net6(12, 20)),
    ("plen", net6(32, 16)),
    ("nxt", net6(48, 8)),
    ("hlim", net6(56, 8)),
];

pub(super) fn kind(word: &str, family: Family) -> Option<Kind> {
    Some(match word {
        "host" => Kind::Host,
        "net" => Kind::Net,
        "proto" => Kind::Proto,
        "port" => Kind::Port,
        "opt" => Kind::TcpOpt,
        "frag" => Kind::Frag,
        "unfrag" => Kind::Unfrag,
        "ect" => Kind::Ect,
        "ce" => Kind::Ce,
        "win" => Kind::Field(
            Field {
                layer: Layer::Transport,
                bit: 14 * 8,
                bits: 16,
            },
            Some(Proto::Number(TCP)),
        ),
        "type" => Kind::Field(ICMP_TYPE, Some(family.icmp())),
        _ => {
            let fields = match family {
                Family::V4 => IP_FIELDS,
                Family::V6 => IP6_FIELDS,
            };
            let (_, f) = fields.iter().find(|(n, _)| *n == word)?;
            Kind::Field(*f, None)
        }
    })
}

/// Words of the syntax that are not kinds.
pub(super) const SYNTAX: &[&str] = &[
    "src", "dst", "dest", "ip", "ether", "not", "and", "or", "true", "false", "mask",
];

#[rustfmt::skip]
const PROTOCOLS: &[(&str, Proto)] = &[
    ("icmp", Proto::Number(ICMP)), ("igmp", Proto::Number(2)), ("ipip", Proto::Number(4)), ("tcp", Proto::Number(TCP)),
    ("udp", Proto::Number(UDP)), ("dccp", Proto::Number(DCCP)), ("gre", Proto::Number(47)), ("sctp", Proto::Number(132)),
    ("tcpudp", Proto::TcpUdp), ("transp", Proto::AnyTransport), ("payload", Proto::AnyTransport),
    // from the Internet protocol numbers registry
    ("egp", Proto::Number(8)), ("ipv6", Proto::Number(41)), ("rsvp", Proto::Number(46)), ("esp", Proto::Number(50)),
    ("ah", Proto::Number(51)), ("ipv6-icmp", Proto::Number(58)), ("eigrp", Proto::Number(88)), ("ospf", Proto::Number(89)),
    ("pim", Proto::Number(103)), ("vrrp", Proto::Number(112)), ("l2tp", Proto::Number(115)), ("udplite", Proto::Number(136)),
];

pub(super) fn protocol(word: &str, family: Family) -> Option<Proto> {
    // ICMP for IPv4 has no business in IPv6: whoever writes it means the other one, and should say so
    match (family, word) {
        (Family::V6, "icmp") => return None,
        (_, "icmp6" | "icmpv6") => return Some(Proto::Number(ICMP6)),
        _ => {}
    }
    PROTOCOLS.iter().find(|(n, _)| *n == word).map(|(_, p)| *p)
}

/// The name of a protocol that a filter may use for it.
pub(super) fn protocol_name(n: u8) -> Option<&'static str> {
    PROTOCOLS
        .iter()
        .find(|(_, p)| *p == Proto::Number(n))
        .map(|(name, _)| *name)
}

#[rustfmt::skip]
const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0), ("unreachable", 3), ("sourcequench", 4), ("redirect", 5), ("echo", 8), ("routeradvert", 9),
    ("routersolicit", 10), ("timeexceeded", 11), ("parameterproblem", 12), ("timestamp", 13), ("timestamp-reply", 14),
    ("inforeq", 15), ("inforeq-reply", 16), ("maskreq", 17), ("maskreq-reply", 18),
];

/// ICMPv6 types.
#[rustfmt::skip]
const ICMP6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1), ("toobig", 2), ("timeexceeded", 3), ("parameterproblem", 4), ("echo", 128), ("echo-reply", 129),
    ("routersolicit", 133), ("routeradvert", 134), ("neighborsolicit", 135), ("neighboradvert", 136), ("redirect", 137),
];

pub(super) fn icmp_type(word: &str, family: Family) -> Option<u8> {
    let types = match family {
        Family::V4 => ICMP_TYPES,
        Family::V6 => ICMP6_TYPES,
    };
    types.iter().find(|(n, _)| *n == word).map(|(_, v)| *v)
}

/// TCP flags by name, in bit order.
pub(super) const TCP_FLAGS: &[(&str, u8)] = &[
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
];

pub(super) fn tcp_flag(word: &str) -> Option<u8> {
    TCP_FLAGS.iter().find(|(n, _)| *n == word).map(|(_, v)| *v)
}

pub(super) fn port(word: &str, names: &NameDb) -> Option<u16> {
    // a word that starts with a digit is never a service here; rule sets consist mostly of such words
    if word.as_bytes().first().is_none_or(u8::is_ascii_digit) {
        return None;
    }
    names.service(word)
}

/// The known word nearest to a misspelt one.
pub(super) fn near_miss(word: &str, family: Family) -> Option<&'static str> {
    if (family, word) == (Family::V6, "icmp") {
        return Some("icmp6");
    }
    let (fields, types) = match family {
        Family::V4 => (IP_FIELDS, ICMP_TYPES),
        Family::V6 => (IP6_FIELDS, ICMP6_TYPES),
    };
    let kinds = [
        "host", "net", "proto", "port", "opt", "frag", "unfrag", "ect", "ce", "win", "type",
    ];
    let all = kinds
        .into_iter()
        .chain(fields.iter().map(|(n, _)| *n))
        .chain(SYNTAX.iter().copied())
        .chain(PROTOCOLS.iter().map(|(n, _)| *n))
        .chain(types.iter().map(|(n, _)| *n))
        .chain(TCP_FLAGS.iter().map(|(n, _)| *n))
        .chain(["all", "any"]);
    onefold_click::suggest::near_misses(word, all)
        .first()
        .copied()
}
