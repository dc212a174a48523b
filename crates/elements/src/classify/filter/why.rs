//! Why a rule does not match a packet: the condition that fails, and what the packet has instead.

use super::eval::View;
use super::expr::{Check, Expr, Field, Test, Transport, Which};
use super::names::protocol_name;
use onefold_packet::print::tcp_flags;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Alternatives that are told one by one.
const MAX_ALTERNATIVES: usize = 4;

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    condition: String,
    /// What the packet has.
    found: String,
}

impl Expr {
    /// The first condition that keeps this packet from matching, and what the packet has: `dst port 22: is 80`.
    /// `None` if it matches.
    pub fn why_not(&self, v: &View<'_>) -> Option<String> {
        if self.matches(v) {
            return None;
        }
        let f = failed(self, v);
        Some(format!("{}: {}", f.condition, f.found))
    }
}

/// A relation without what is implied: `dst port 22` rather than `dst port == 22`.
fn short(text: String) -> String {
    text.replace(" == ", " ")
}

/// Why an expression that does not match does not. Recursion is as deep as the expression, which the parser bounds.
fn failed(e: &Expr, v: &View<'_>) -> Failed {
    match e {
        Expr::Const(_) => Failed {
            condition: "false".to_string(),
            found: "never matches".to_string(),
        },
        Expr::Test(t) => Failed {
            condition: short(t.to_string()),
            found: t.found(v),
        },
        Expr::All(list) => match list.iter().find(|e| !e.matches(v)) {
            Some(e) => failed(e, v),
            None => whole(e, "does not hold"),
        },
        Expr::Any(list) => none_of(list, v),
        Expr::Not(e) => held(e, v),
        Expr::Choose { .. } => whole(e, "does not hold"),
    }
}

/// Why the opposite of an expression that matches does not.
fn held(e: &Expr, v: &View<'_>) -> Failed {
    match e {
        Expr::Test(t) => Failed {
            condition: format!("not {}", short(t.to_string())),
            found: t.found(v),
        },
        Expr::Any(list) => match list.iter().find(|e| e.matches(v)) {
            Some(e) => held(e, v),
            None => whole(e, "does not hold"),
        },
        Expr::Not(e) => failed(e, v),
        _ => Failed {
            condition: format!("not ({})", short(e.to_string())),
            found: "all of it holds".to_string(),
        },
    }
}

fn whole(e: &Expr, found: &str) -> Failed {
    Failed {
        condition: short(e.to_string()),
        found: found.to_string(),
    }
}

/// Alternatives: together where the packet has the same for all of them.
fn none_of(list: &[Expr], v: &View<'_>) -> Failed {
    let all: Vec<Failed> = list.iter().map(|e| failed(e, v)).collect();
    let told = &all[..all.len().min(MAX_ALTERNATIVES)];
    let more = match all.len() - told.len() {
        0 => String::new(),
        n => format!(" or {n} more"),
    };
    let Some(first) = told.first() else {
        return whole(&Expr::Any(Vec::new()), "never matches");
    };
    if all.iter().all(|f| f.found == first.found) {
        let conditions: Vec<&str> = told.iter().map(|f| f.condition.as_str()).collect();
        return Failed {
            condition: conditions.join(" or ") + &more,
            found: first.found.clone(),
        };
    }
    // all but the last with what was found instead of each
    let mut condition = String::new();
    for f in &told[..told.len() - 1] {
        // writing to a String cannot fail
        let _ = write!(condition, "{}: {}; ", f.condition, f.found);
    }
    let last = &told[told.len() - 1];
    Failed {
        condition: condition + &last.condition,
        found: last.found.clone() + &more,
    }
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    let c = b.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*c))
}

/// `is SOURCE`, `is DESTINATION`, or both.
fn sides(which: Which, src: Option<String>, dst: Option<String>) -> String {
    let one = |s: Option<String>| s.unwrap_or_else(|| "not there".to_string());
    match which {
        Which::Src => format!("is {}", one(src)),
        Which::Dst => format!("is {}", one(dst)),
        Which::Either | Which::Both => format!("are {} and {}", one(src), one(dst)),
    }
}

impl Test {
    /// What the packet has where this looks.
    fn found(&self, v: &View<'_>) -> String {
        let protocol = v.net.get(9).copied();
        let other = |t: Transport| protocol.is_none_or(|p| !t.has(p));
        if self.transport.is_some_and(other) || self.check == Check::Protocol {
            return match protocol.map(|p| (p, protocol_name(p))) {
                Some((_, Some(name))) => format!("is {name}"),
                Some((p, None)) => format!("is protocol {p}"),
                None => "cut off".to_string(),
            };
        }
        if self.check.first_fragment_only() && !v.first_fragment() {
            return "is a fragment after the first".to_string();
        }
        self.check.found(v)
    }
}

impl Check {
    fn found(&self, v: &View<'_>) -> String {
        let ip4 = |at: usize| {
            let c: [u8; 4] = *v.net.get(at..)?.first_chunk()?;
            Some(Ipv4Addr::from(c).to_string())
        };
        let ip6 = |at: usize| {
            let c: [u8; 16] = *v.net6.get(at..)?.first_chunk()?;
            Some(Ipv6Addr::from(c).to_string())
        };
        let ether = |at: usize| {
            let c: [u8; 6] = *v.mac.get(at..)?.first_chunk()?;
            Some(onefold_packet::EtherAddr(c).to_string().replace('-', ":"))
        };
        let port = |at: usize| be16(v.transport, at).map(|p| p.to_string());
        match self {
            Check::Protocol => String::new(),
            Check::Host { which, .. } => sides(*which, ip4(12), ip4(16)),
            Check::Host6 { which, .. } => sides(*which, ip6(8), ip6(24)),
            Check::Ether { which, .. } => sides(*which, ether(6), ether(0)),
            Check::Port { which, .. } => sides(*which, port(0), port(2)),
            Check::TcpFlags(_) => match v.transport.get(13) {
                Some(f) => format!("flags are [{}]", tcp_flags(*f)),
                None => "cut off".to_string(),
            },
            Check::Fragment(true) => "is no fragment".to_string(),
            Check::Fragment(false) => "is a fragment".to_string(),
            Check::Field { field, .. } => match field.value(v) {
                Some(n) => format!("is {n}"),
                None => "cut off".to_string(),
            },
        }
    }
}

impl Field {
    /// The field's value, if the packet is long enough for it.
    fn value(self, v: &View<'_>) -> Option<u32> {
        let bytes = v.layer(self.layer);
        let (first, last) = (
            usize::from(self.bit / 8),
            usize::from((self.bit + u16::from(self.bits.max(1)) - 1) / 8),
        );
        // at most five bytes: 32 bits
        let all = bytes.get(first..=last)?;
        let n = all.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let behind = (last as u32 + 1) * 8 - u32::from(self.bit) - u32::from(self.bits);
        Some((n >> behind) as u32 & self.max())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{View, parse_pattern};
    use onefold_element::NameDb;
    use onefold_element::args::ArgScope;

    fn why(pattern: &str, packet: &[u8]) -> Option<String> {
        let scope = ArgScope {
            names: NameDb::builtin(),
            element: "",
            elements: &[],
        };
        let view = View {
            net: packet,
            transport: packet.get(20..).unwrap_or(&[]),
            mac: &[],
            net6: &[],
        };
        parse_pattern(pattern, &scope).unwrap().expr.why_not(&view)
    }

    const SYN: [u8; 40] = [
        0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 2, 3, 1, 1, 1, 1, 4, 0, 0, 80, 0, 0, 0, 0,
        0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn the_first_condition_that_fails_is_told() {
        for (pattern, told) in [
            ("tcp && dst port 22", "dst port 22: is 80"),
            ("dst port 22", "dst port 22: is 80"),
            ("dst udp port 80", "dst udp port 80: is tcp"),
            (
                "src net 10.1.0.0/16 && dst port > 80",
                "dst port > 80: is 80",
            ),
            ("dst port 22 or 23", "dst port 22 or dst port 23: is 80"),
            (
                "src net 10.2.0.0/16 or dst port 22",
                "src net 10.2.0.0/16: is 10.1.2.3; dst port 22: is 80",
            ),
            (
                "not src net 10.0.0.0/8",
                "not src net 10.0.0.0/8: is 10.1.2.3",
            ),
            ("!(udp or tcp)", "not tcp: is tcp"),
            (
                "!(tcp and dst port 80)",
                "not (tcp and dst port 80): all of it holds",
            ),
            ("host 10.0.0.1", "host 10.0.0.1: are 10.1.2.3 and 1.1.1.1"),
            ("tcp opt ack", "tcp opt ack: flags are [S]"),
            ("ip frag", "ip frag: is no fragment"),
            ("ip ttl 1", "ip ttl 1: is 64"),
            ("icmp type echo", "icmp[0:1] 8: is tcp"),
            ("false", "false: never matches"),
        ] {
            assert_eq!(why(pattern, &SYN).as_deref(), Some(told), "{pattern}");
        }
        assert_eq!(why("dst port 80", &SYN), None);
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        assert_eq!(
            why("dst port 80", &SYN[..22]).unwrap(),
            "dst port 80: is not there"
        );
        assert_eq!(
            why("tcp opt syn", &SYN[..30]).unwrap(),
            "tcp opt syn: cut off"
        );
        let mut later = SYN;
        later[7] = 1;
        let told = "dst port 80: is a fragment after the first";
        assert_eq!(why("dst port 80", &later).unwrap(), told);
        for n in 0..SYN.len() {
            for pattern in [
                "ip ttl 1",
                "tcp opt ack",
                "dst host 9.9.9.9",
                "port 9",
                "icmp type 3",
            ] {
                assert!(why(pattern, &SYN[..n]).is_some());
            }
        }
    }
}
