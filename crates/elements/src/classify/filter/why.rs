//! Why a packet does not match: the part of an expression that does not hold, and what the packet has there.

use super::eval::View;
use super::expr::{Check, Expr, Field, Layer, Test, Transport, Which};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest part that is told, in characters.
const MAX_PART: usize = 80;

impl Expr {
    /// Why it does not hold for a packet that it does not hold for.
    pub fn why_not(&self, v: &View<'_>) -> String {
        match self {
            Expr::Const(_) => "it takes nothing".to_string(),
            // the first part that fails
            Expr::All(list) => match list.iter().find(|e| !e.matches(v)) {
                Some(e) => e.why_not(v),
                None => self.denied(v),
            },
            Expr::Any(list) => match list.as_slice() {
                [one] => one.why_not(v),
                _ => self.denied(v),
            },
            Expr::Test(_) | Expr::Not(_) | Expr::Choose { .. } => self.denied(v),
        }
    }

    fn denied(&self, v: &View<'_>) -> String {
        let part = self.to_string();
        let part = match part.char_indices().nth(MAX_PART) {
            Some((end, _)) => format!("{} ...", part.get(..end).unwrap_or("")),
            None => part,
        };
        match self.first_test().and_then(|t| t.found(v)) {
            Some(found) => format!("`{part}` is not so: {found}"),
            None => format!("`{part}` is not so"),
        }
    }

    /// Recursion is as deep as the expression, which the parser bounds.
    fn first_test(&self) -> Option<&Test> {
        match self {
            Expr::Const(_) => None,
            Expr::Test(t) => Some(t),
            Expr::All(list) | Expr::Any(list) => list.iter().find_map(Expr::first_test),
            Expr::Not(e) => e.first_test(),
            Expr::Choose { cases, .. } => cases.iter().find_map(|(c, _)| c.first_test()),
        }
    }
}

impl Test {
    /// What the packet has where this looks.
    fn found(&self, v: &View<'_>) -> Option<String> {
        let protocol = v.net.get(9).copied()?;
        let other = match self.transport {
            None => false,
            Some(Transport::Protocol(p)) => p != protocol,
            Some(Transport::TcpOrUdp) => !matches!(protocol, 6 | 17),
        };
        if other {
            return Some(match super::names::protocol_name(protocol) {
                Some(name) => format!("the protocol is {name}"),
                None => format!("the protocol is {protocol}"),
            });
        }
        if self.check.first_fragment_only() && !v.first_fragment() {
            return Some("it is a later fragment".to_string());
        }
        let number = |b: &[u8], at: usize, n: usize| -> Option<u128> {
            let b = b.get(at..at.checked_add(n)?)?;
            Some(b.iter().fold(0, |all, b| all << 8 | u128::from(*b)))
        };
        let sides = |which: Which, one: &dyn Fn(usize) -> Option<String>| -> Option<String> {
            let src = which.src().then(|| one(0)).flatten();
            let dst = which.dst().then(|| one(1)).flatten();
            Some(match (src, dst) {
                (Some(s), Some(d)) => format!("{s} and {d}"),
                (s, d) => s.or(d)?,
            })
        };
        let found = match self.check {
            Check::Host { which, .. } => sides(which, &|n| {
                let a = number(v.net, 12 + 4 * n, 4)?;
                Some(Ipv4Addr::from(u32::try_from(a).ok()?).to_string())
            }),
            Check::Host6 { which, .. } => sides(which, &|n| {
                Some(Ipv6Addr::from(number(v.net6, 8 + 16 * n, 16)?).to_string())
            }),
            Check::Port { which, .. } => {
                sides(which, &|n| Some(number(v.transport, 2 * n, 2)?.to_string()))
            }
            Check::TcpFlags(_) => number(v.transport, 13, 1).map(|f| format!("flags {f:#04x}")),
            Check::Field { field, .. } => field.found(v),
            Check::Protocol | Check::Fragment(_) | Check::Ether { .. } => return None,
        };
        found.or_else(|| Some("the packet is cut off before it".to_string()))
    }
}

impl Field {
    fn found(self, v: &View<'_>) -> Option<String> {
        let b = match self.layer {
            Layer::Net => v.net,
            Layer::Net6 => v.net6,
            Layer::Transport => v.transport,
        };
        let (first, end) = (
            usize::from(self.bit),
            usize::from(self.bit) + usize::from(self.bits),
        );
        let bytes = b.get(first / 8..end.div_ceil(8))?;
        let all = bytes.iter().fold(0u64, |all, b| all << 8 | u64::from(*b));
        let value = all >> (end.div_ceil(8) * 8 - end) & ((1 << self.bits) - 1);
        Some(value.to_string())
    }
}
