//! Why a rule does not match a packet: the condition that fails, and what the packet has instead.

use super::{Expr, Op, Subject, View, Which};
use onefold_packet::print::tcp_flags;
use std::fmt;
use std::net::Ipv6Addr;

/// Alternatives that are told one by one.
const MAX_ALTERNATIVES: usize = 4;

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Eq => "",
            Op::Ne => "!= ",
            Op::Lt => "< ",
            Op::Gt => "> ",
            Op::Le => "<= ",
            Op::Ge => ">= ",
        })
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::Src => "src ",
            Which::Dst => "dst ",
            Which::Either => "",
            Which::Both => "src and dst ",
        })
    }
}

/// `tcp `; nothing for any.
fn of_protocol(p: Option<u8>) -> String {
    match p {
        None => String::new(),
        Some(6) => "tcp ".to_string(),
        Some(17) => "udp ".to_string(),
        Some(58) => "icmp6 ".to_string(),
        Some(p) => format!("protocol {p} "),
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, all: &[Expr], word: &str| {
            for (i, e) in all.iter().enumerate() {
                let before = if i > 0 { word } else { "" };
                match e {
                    Expr::And(_) | Expr::Or(_) => write!(f, "{before}({e})")?,
                    _ => write!(f, "{before}{e}")?,
                }
            }
            Ok(())
        };
        match self {
            Expr::Const(b) => write!(f, "{b}"),
            Expr::Address(w, p) if p.len == 128 => write!(f, "{w}host {}", p.addr),
            Expr::Address(w, p) => write!(f, "{w}net {}/{}", p.addr, p.len),
            Expr::Fragment(true) => f.write_str("ip frag"),
            Expr::Fragment(false) => f.write_str("ip unfrag"),
            Expr::Flag(bits) => write!(f, "tcp flags [{}]", tcp_flags(*bits)),
            Expr::Not(e) => match **e {
                Expr::And(_) | Expr::Or(_) => write!(f, "not ({e})"),
                _ => write!(f, "not {e}"),
            },
            Expr::And(all) => list(f, all, " and "),
            Expr::Or(all) => list(f, all, " or "),
            Expr::Number(subject, op, n) => match subject {
                Subject::Address(_) => f.write_str("false"),
                Subject::Protocol => match (op, n) {
                    (Op::Eq, 6 | 17 | 58) => f.write_str(of_protocol(Some(*n as u8)).trim_end()),
                    _ => write!(f, "protocol {op}{n}"),
                },
                Subject::HopLimit => write!(f, "ip hlim {op}{n}"),
                Subject::Class => write!(f, "ip tclass {op}{n}"),
                Subject::IcmpType => write!(f, "icmp6 type {op}{n}"),
                Subject::Port(w, of) => write!(f, "{w}{}port {op}{n}", of_protocol(*of)),
                Subject::Bytes(of, at, len, mask) => {
                    let base = match of {
                        None => "ip".to_string(),
                        of => of_protocol(*of).trim_end().to_string(),
                    };
                    write!(f, "{base}[{at}:{len}]")?;
                    if *mask != u32::MAX {
                        write!(f, " & {mask}")?;
                    }
                    write!(f, " {op}{n}")
                }
            },
        }
    }
}

impl Expr {
    /// The first condition that keeps this packet from matching, and what the packet has: `dst port 22: is 80`.
    pub(super) fn why_not(&self, v: &View<'_>) -> String {
        let (condition, found) = self.failed(v);
        format!("{condition}: {found}")
    }

    /// Why an expression that does not match does not. Recursion is as deep as the expression, which the parser bounds.
    fn failed(&self, v: &View<'_>) -> (String, String) {
        match self {
            Expr::And(list) => match list.iter().find(|e| !e.matches(v)) {
                Some(e) => e.failed(v),
                None => (self.to_string(), "does not hold".to_string()),
            },
            Expr::Or(list) => none_of(list, v),
            Expr::Not(e) => e.held(v),
            _ => (self.to_string(), self.found(v)),
        }
    }

    /// Why the opposite of an expression that matches does not.
    fn held(&self, v: &View<'_>) -> (String, String) {
        match self {
            Expr::Or(list) => match list.iter().find(|e| e.matches(v)) {
                Some(e) => e.held(v),
                None => (format!("not ({self})"), "does not hold".to_string()),
            },
            Expr::And(_) => (format!("not ({self})"), "all of it holds".to_string()),
            Expr::Not(e) => e.failed(v),
            _ => (format!("not {self}"), self.found(v)),
        }
    }

    /// What the packet has where a single test looks.
    fn found(&self, v: &View<'_>) -> String {
        let number = |n: Option<u32>| n.map_or("cut off".to_string(), |n| format!("is {n}"));
        let protocol = || match v.protocol {
            Some(p @ (6 | 17 | 58)) => format!("is {}", of_protocol(Some(p)).trim_end()),
            p => number(p.map(u32::from)),
        };
        // a test of another protocol's header
        let other = |of: &Option<u8>| match of {
            Some(p) => v.protocol != Some(*p),
            None => !matches!(v.protocol, Some(6 | 17)),
        };
        match self {
            Expr::Const(_) => "never matches".to_string(),
            Expr::Address(w, _) => {
                let (src, dst) = (Ipv6Addr::from(v.fixed.src()), Ipv6Addr::from(v.fixed.dst()));
                w.sides(&src.to_string(), &dst.to_string())
            }
            Expr::Fragment(true) => "is no fragment".to_string(),
            Expr::Fragment(false) => "is a fragment".to_string(),
            Expr::Flag(_) => match v.upper.get(13) {
                _ if other(&Some(6)) => protocol(),
                Some(f) => format!("flags are [{}]", tcp_flags(*f)),
                None => "cut off".to_string(),
            },
            Expr::Number(subject, ..) => match subject {
                Subject::Protocol => protocol(),
                Subject::HopLimit => number(Some(v.fixed.hop_limit().into())),
                Subject::Class => number(Some(v.fixed.traffic_class().into())),
                Subject::IcmpType if other(&Some(58)) => protocol(),
                Subject::IcmpType => number(v.number(0, 1, true)),
                Subject::Port(_, of) if other(of) => protocol(),
                Subject::Port(w, _) => {
                    let port = |at| match v.number(at, 2, true) {
                        Some(n) => n.to_string(),
                        None => "not there".to_string(),
                    };
                    w.sides(&port(0), &port(2))
                }
                Subject::Bytes(Some(of), ..) if other(&Some(*of)) => protocol(),
                Subject::Bytes(of, at, len, mask) => {
                    let n = v.number(usize::from(*at), *len, of.is_some());
                    number(n.map(|n| n & mask))
                }
                Subject::Address(_) => "never matches".to_string(),
            },
            Expr::Not(_) | Expr::And(_) | Expr::Or(_) => "does not hold".to_string(),
        }
    }
}

impl Which {
    fn sides(self, src: &str, dst: &str) -> String {
        match self {
            Which::Src => format!("is {src}"),
            Which::Dst => format!("is {dst}"),
            Which::Either | Which::Both => format!("are {src} and {dst}"),
        }
    }
}

/// Alternatives: together where the packet has the same for all of them.
fn none_of(list: &[Expr], v: &View<'_>) -> (String, String) {
    let all: Vec<(String, String)> = list.iter().map(|e| e.failed(v)).collect();
    let told = &all[..all.len().min(MAX_ALTERNATIVES)];
    let more = match all.len() - told.len() {
        0 => String::new(),
        n => format!(" or {n} more"),
    };
    let Some((last, before)) = told.split_last() else {
        return ("false".to_string(), "never matches".to_string());
    };
    if all.iter().all(|f| f.1 == last.1) {
        let conditions: Vec<&str> = told.iter().map(|f| f.0.as_str()).collect();
        return (conditions.join(" or ") + &more, last.1.clone());
    }
    let before: String = before.iter().map(|(c, f)| format!("{c}: {f}; ")).collect();
    (before + &last.0, last.1.clone() + &more)
}
