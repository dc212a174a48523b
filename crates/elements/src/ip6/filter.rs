//! IP6Filter: IPFilter for IPv6.
//!
//! Click has no such element. The language is the part of IPFilter's that makes sense for IPv6; the first rule that
//! matches decides:
//!
//! ```text
//! IP6Filter(deny src net 2001:db8:bad::/48,
//!           allow tcp && dst port 80 or 443,
//!           allow icmp6 type 128, deny all)
//! ```
//!
//! - `[src|dst|src or dst|src and dst] host ADDRESS`, `net PREFIX`, and the address or prefix alone;
//! - `tcp`, `udp`, `icmp6`, `ip proto NUMBER|NAME`: the upper-layer protocol, behind all extension headers;
//! - `[src|dst...] [tcp|udp] port [OPERATOR] NUMBER`; `tcp opt syn` and the other flags; `icmp6 type [OPERATOR]
//!   NUMBER`;
//! - `ip frag`, `ip unfrag`: with or without a fragment header; `ip hlim [OPERATOR] N`, `ip tclass [OPERATOR] N`;
//! - `tcp[13:1] & 18 == 2`, likewise `udp`, `icmp6` (from the upper-layer header) and `ip` (from the fixed header):
//!   one, two or four bytes;
//! - `true`, `false`, `all`; `and`/`&&`, `or`/`||`, `not`/`!`, parentheses. A value alone behind `or` or `and` repeats
//!   what stood before the last one: `dst port 80 or 443`.
//!
//! Tests on ports, flags, types and transport bytes fail for later fragments and for headers that are cut off.

#[cfg(test)]
mod tests;
mod why;

use onefold_element::args::{ArgScope, Args, FromArg, Ip6Prefix};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{
    Base, Case, Cond, Exit, FieldRef, Model, ModelCx, Read, ValueSet, bytes, field, max_of,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, RuleCounters,
    element_any, element_counts_rules,
};
use onefold_packet::Pkt;
use onefold_packet::wire::ipv6::{Header, LEN};
use std::sync::Arc;

/// `IP6Filter`.
pub const IP6_FILTER: ElementClass = ElementClass {
    name: "IP6Filter",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "ACTION PATTERN, ...; ACTION is allow, deny, drop or an output number",
    summary: "filters IPv6 packets by contents: the first rule that matches decides",
    new: || Box::new(Ip6Filter::default()),
};

/// Nesting of parentheses.
const MAX_DEPTH: usize = 100;
/// At most so many errors are reported for one element.
const MAX_MESSAGES: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

impl Op {
    fn parse(s: &str) -> Option<Op> {
        Some(match s {
            "=" | "==" => Op::Eq,
            "!=" => Op::Ne,
            "<" => Op::Lt,
            ">" => Op::Gt,
            "<=" => Op::Le,
            ">=" => Op::Ge,
            _ => return None,
        })
    }
    fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Op::Eq => a == b,
            Op::Ne => a != b,
            Op::Lt => a < b,
            Op::Gt => a > b,
            Op::Le => a <= b,
            Op::Ge => a >= b,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Src,
    Dst,
    Either,
    Both,
}

impl Which {
    fn pick(self, src: bool, dst: bool) -> bool {
        match self {
            Which::Src => src,
            Which::Dst => dst,
            Which::Either => src || dst,
            Which::Both => src && dst,
        }
    }
}

/// What is compared, without the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Address(Which),
    Protocol,
    /// Of TCP or UDP, or of one of them.
    Port(Which, Option<u8>),
    HopLimit,
    Class,
    IcmpType,
    /// Protocol (`None`: the fixed header), offset, length, mask.
    Bytes(Option<u8>, u16, u8, u32),
}

#[derive(Debug, Clone)]
enum Expr {
    Const(bool),
    Address(Which, Ip6Prefix),
    Number(Subject, Op, u32),
    Fragment(bool),
    /// All of these bits of the TCP flags.
    Flag(u8),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

/// A packet's headers.
struct View<'a> {
    fixed: Header<&'a [u8]>,
    bytes: &'a [u8],
    /// Upper-layer protocol.
    protocol: Option<u8>,
    /// From the upper-layer header on; empty for later fragments.
    upper: &'a [u8],
    fragment: bool,
}

impl<'a> View<'a> {
    fn of(net: &'a [u8]) -> Option<View<'a>> {
        let fixed = Header::parse(net)?;
        if fixed.version() != 6 {
            return None;
        }
        let (protocol, at, later) = match fixed.upper_layer() {
            Some((p, at, later)) => (Some(p), at, later),
            None => (None, net.len(), true),
        };
        let upper = if later {
            &[]
        } else {
            net.get(at..).unwrap_or(&[])
        };
        Some(View {
            fragment: later || has_fragment_header(net),
            fixed,
            bytes: net,
            protocol,
            upper,
        })
    }

    fn number(&self, at: usize, len: u8, upper: bool) -> Option<u32> {
        let b = if upper { self.upper } else { self.bytes };
        let b = b.get(at..at + usize::from(len))?;
        Some(b.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    }
}

/// Is there a fragment header among the extension headers?
fn has_fragment_header(net: &[u8]) -> bool {
    let mut next = net.get(6).copied().unwrap_or(59);
    let mut at = LEN;
    for _ in 0..onefold_packet::wire::ipv6::MAX_EXTENSIONS {
        let length = match (next, net.get(at + 1)) {
            (44, _) => return true,
            (0 | 43 | 60, Some(n)) => (usize::from(*n) + 1) * 8,
            (51, Some(n)) => (usize::from(*n) + 2) * 4,
            _ => return false,
        };
        next = net.get(at).copied().unwrap_or(59);
        at += length;
    }
    false
}

impl Expr {
    fn matches(&self, v: &View<'_>) -> bool {
        match self {
            Expr::Const(b) => *b,
            Expr::Address(w, p) => w.pick(
                p.contains(v.fixed.src().into()),
                p.contains(v.fixed.dst().into()),
            ),
            Expr::Fragment(f) => v.fragment == *f,
            Expr::Flag(bits) => {
                v.protocol == Some(6) && v.upper.get(13).is_some_and(|f| f & bits == *bits)
            }
            Expr::Not(e) => !e.matches(v),
            Expr::And(l) => l.iter().all(|e| e.matches(v)),
            Expr::Or(l) => l.iter().any(|e| e.matches(v)),
            Expr::Number(subject, op, n) => {
                let is = |f: Option<u32>| f.is_some_and(|f| op.holds(f, *n));
                match subject {
                    Subject::Address(_) => false,
                    Subject::Protocol => is(v.protocol.map(u32::from)),
                    Subject::HopLimit => is(Some(u32::from(v.fixed.hop_limit()))),
                    Subject::Class => is(Some(u32::from(v.fixed.traffic_class()))),
                    Subject::IcmpType => v.protocol == Some(58) && is(v.number(0, 1, true)),
                    Subject::Port(w, of) => {
                        let has = match of {
                            Some(p) => v.protocol == Some(*p),
                            None => matches!(v.protocol, Some(6 | 17)),
                        };
                        has && w.pick(is(v.number(0, 2, true)), is(v.number(2, 2, true)))
                    }
                    Subject::Bytes(of, at, len, mask) => {
                        let right = of.is_none() || v.protocol == *of;
                        let f = v.number(usize::from(*at), *len, of.is_some());
                        right && is(f.map(|f| f & mask))
                    }
                }
            }
        }
    }
}

/// Splits into words; parentheses and operators are words of their own.
fn words(text: &str) -> Vec<&str> {
    let b = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < b.len() {
        let rest = &text[i..];
        let n = match b[i] {
            c if c.is_ascii_whitespace() => {
                i += 1;
                continue;
            }
            b'(' | b')' => 1,
            _ if ["&&", "||", "==", "!=", "<=", ">="]
                .iter()
                .any(|o| rest.starts_with(o)) =>
            {
                2
            }
            b'&' | b'|' | b'!' | b'<' | b'>' | b'=' => 1,
            _ => rest
                .find(|c: char| c.is_ascii_whitespace() || "()&|!<>=".contains(c))
                .unwrap_or(rest.len()),
        };
        out.push(&rest[..n]);
        i += n;
    }
    out
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    /// What a value alone would be compared with.
    last: Option<(Subject, Op)>,
    scope: ArgScope<'a>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }
    fn eat(&mut self, all: &[&str]) -> bool {
        let hit = self.peek().is_some_and(|w| all.contains(&w));
        self.at += usize::from(hit);
        hit
    }
    fn expected(&self, what: &str) -> String {
        match self.peek() {
            Some(w) => format!("expected {what}, found '{w}'"),
            None => format!("expected {what} at the end"),
        }
    }

    fn or(&mut self, depth: usize) -> Result<Expr, String> {
        let mut all = vec![self.and(depth)?];
        while self.eat(&["or", "||"]) {
            all.push(self.and(depth)?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Expr::Or(all),
        })
    }

    fn and(&mut self, depth: usize) -> Result<Expr, String> {
        let mut all = vec![self.not(depth)?];
        while self.eat(&["and", "&&"]) {
            all.push(self.not(depth)?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Expr::And(all),
        })
    }

    fn not(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        if self.eat(&["not", "!"]) {
            return Ok(Expr::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.eat(&["("]) {
            let e = self.or(depth + 1)?;
            return if self.eat(&[")"]) {
                Ok(e)
            } else {
                Err(self.expected("')'"))
            };
        }
        self.primitive()
    }

    fn which(&mut self) -> Option<Which> {
        let one = |w: Option<&str>| match w {
            Some("src") => Some(Which::Src),
            Some("dst" | "dest") => Some(Which::Dst),
            _ => None,
        };
        let first = one(self.peek())?;
        self.at += 1;
        let second = one(self.words.get(self.at + 1).copied());
        match (self.peek(), second) {
            (Some("or" | "||"), Some(s)) if s != first => {
                self.at += 2;
                Some(Which::Either)
            }
            (Some("and" | "&&"), Some(s)) if s != first => {
                self.at += 2;
                Some(Which::Both)
            }
            _ => Some(first),
        }
    }

    fn primitive(&mut self) -> Result<Expr, String> {
        if self.eat(&["all", "any", "-", "true"]) {
            return Ok(Expr::Const(true));
        }
        if self.eat(&["false"]) {
            return Ok(Expr::Const(false));
        }
        let protocol = |w: Option<&str>| match w {
            Some("tcp") => Some(6),
            Some("udp") => Some(17),
            Some("icmp6") => Some(58),
            _ => None,
        };
        let which = self.which();
        let proto = protocol(self.peek());
        self.at += usize::from(proto.is_some());
        let direction = which.unwrap_or(Which::Either);
        if let Some(w) = self.peek().filter(|w| w.contains('[')) {
            return self.bytes(w);
        }
        let subject = match (self.peek(), proto) {
            (Some("port"), None | Some(6 | 17)) => {
                self.at += 1;
                Subject::Port(direction, proto)
            }
            (Some("host" | "net"), None) => {
                self.at += 1;
                Subject::Address(direction)
            }
            (Some("opt"), Some(6)) if which.is_none() => {
                self.at += 1;
                return self.flag();
            }
            (Some("type"), Some(58)) if which.is_none() => {
                self.at += 1;
                Subject::IcmpType
            }
            (_, Some(p)) if which.is_none() => {
                self.last = Some((Subject::Protocol, Op::Eq));
                return Ok(Expr::Number(Subject::Protocol, Op::Eq, u32::from(p)));
            }
            (Some("ip" | "ip6"), None) if which.is_none() => {
                self.at += 1;
                let subject = match self.peek() {
                    Some("proto") => Subject::Protocol,
                    Some("hlim" | "ttl") => Subject::HopLimit,
                    Some("tclass") => Subject::Class,
                    Some(w @ ("frag" | "unfrag")) => {
                        self.at += 1;
                        return Ok(Expr::Fragment(w == "frag"));
                    }
                    _ => return Err(self.expected("proto, hlim, tclass, frag or unfrag")),
                };
                self.at += 1;
                subject
            }
            (Some(_), None) if which.is_some() => Subject::Address(direction),
            // a value alone
            (Some(w), None) => {
                let address = w.contains(':');
                return match self.last {
                    Some((s, op)) if matches!(s, Subject::Address(_)) == address => {
                        self.value(s, op)
                    }
                    _ if address => self.value(Subject::Address(Which::Either), Op::Eq),
                    _ => Err(self.expected("a test such as 'src net 2001:db8::/32' or 'tcp'")),
                };
            }
            _ => return Err(self.expected("a test")),
        };
        let op = match self.peek().and_then(Op::parse) {
            Some(o) => {
                self.at += 1;
                o
            }
            None => Op::Eq,
        };
        self.value(subject, op)
    }

    fn value(&mut self, subject: Subject, op: Op) -> Result<Expr, String> {
        self.last = Some((subject, op));
        let Some(w) = self.peek() else {
            return Err(self.expected("a value"));
        };
        if let Subject::Address(which) = subject {
            let p = Ip6Prefix::from_arg(w, &self.scope)
                .map_err(|_| self.expected("an IPv6 address or prefix"))?;
            self.at += 1;
            return match op {
                Op::Eq => Ok(Expr::Address(which, p)),
                Op::Ne => Ok(Expr::Not(Box::new(Expr::Address(which, p)))),
                _ => Err("addresses are compared with == or !=".into()),
            };
        }
        let (max, what) = match subject {
            Subject::Port(..) => (65_535, "a port of 0 to 65535"),
            Subject::Bytes(..) => (u32::MAX, "a number"),
            Subject::Protocol => (255, "a protocol, by name or number"),
            _ => (255, "a number of 0 to 255"),
        };
        let by_name = || match subject {
            Subject::Protocol => super::protocol_number(w).map(u32::from),
            _ => None,
        };
        let n = number(w).or_else(by_name).filter(|n| *n <= max);
        let n = n.ok_or_else(|| self.expected(what))?;
        self.at += 1;
        Ok(Expr::Number(subject, op, n))
    }

    fn flag(&mut self) -> Result<Expr, String> {
        let bits = match self.peek() {
            Some("fin") => 1,
            Some("syn") => 2,
            Some("rst") => 4,
            Some("psh") => 8,
            Some("ack") => 16,
            Some("urg") => 32,
            _ => return Err(self.expected("syn, ack, fin, rst, psh or urg")),
        };
        self.at += 1;
        Ok(Expr::Flag(bits))
    }

    /// `tcp[13:1]`, and behind it `& MASK` and a comparison.
    fn bytes(&mut self, w: &str) -> Result<Expr, String> {
        let parts = w.strip_suffix(']').and_then(|w| w.split_once('['));
        let read = parts.and_then(|(name, place)| {
            let of = match name {
                "ip" | "ip6" => None,
                "tcp" => Some(6),
                "udp" => Some(17),
                "icmp6" => Some(58),
                _ => return None,
            };
            let (at, len) = place.split_once(':').unwrap_or((place, "1"));
            let len = len.parse().ok().filter(|l| matches!(l, 1 | 2 | 4))?;
            Some((of, at.parse::<u16>().ok()?, len))
        });
        let Some((of, at, len)) = read else {
            return Err(self.expected("something like tcp[13:1]"));
        };
        self.at += 1;
        let mut mask = u32::MAX;
        if self.eat(&["&"]) {
            let m = self.peek().and_then(number);
            mask = m.ok_or_else(|| self.expected("a mask"))?;
            self.at += 1;
        }
        let op = self.peek().and_then(Op::parse);
        let op = op.ok_or_else(|| self.expected("a comparison"))?;
        self.at += 1;
        self.value(Subject::Bytes(of, at, len, mask), op)
    }
}

fn number(w: &str) -> Option<u32> {
    match w.strip_prefix("0x") {
        Some(h) => u32::from_str_radix(h, 16).ok(),
        None => w.parse().ok(),
    }
}

fn parse(text: &str, scope: &ArgScope<'_>) -> Result<Expr, String> {
    let mut p = Parser {
        words: words(text),
        at: 0,
        last: None,
        scope: *scope,
    };
    if p.words.is_empty() {
        return Ok(Expr::Const(true));
    }
    let e = p.or(0)?;
    match p.peek() {
        None => Ok(e),
        Some(_) => Err(p.expected("'and', 'or' or the end")),
    }
}

#[derive(Debug, Clone)]
struct Rule {
    argument: usize,
    /// `None`: dropped.
    output: Option<usize>,
    text: String,
    expr: Expr,
}

#[derive(Debug, Clone, Default)]
struct Ip6Filter {
    rules: Arc<Vec<Rule>>,
    counters: RuleCounters,
}

const NO_HEADER: DropReason = "IP6Filter: no IPv6 header";
const DENIED: DropReason = "IP6Filter: denied";
const NO_RULE: DropReason = "IP6Filter: no rule matches";
const COMPARED: &str = "a comparison of masked bits, or of bytes far behind";

/// Bytes of a header that a model looks at: no guard hands over everything that is shorter than what a rule looks at
/// far behind.
const MAX_BYTES: usize = 100;

/// What the rules of a filter read: guards stand in front of them.
#[derive(Debug, Default)]
struct Reads {
    /// Anything behind the fixed header.
    upper: bool,
    /// Bytes that are needed from the fixed header on.
    net: usize,
    /// The same from the upper-layer header on, by protocol.
    of: [(u8, usize); 3],
}

impl Reads {
    fn new() -> Reads {
        Reads {
            of: [(6, 0), (17, 0), (58, 0)],
            ..Reads::default()
        }
    }
    fn need(&mut self, protocol: Option<u8>, n: usize) {
        self.upper = true;
        for (p, m) in &mut self.of {
            if protocol.is_none_or(|q| q == *p) {
                *m = n.max(*m);
            }
        }
    }
    fn visit(&mut self, e: &Expr) {
        match e {
            // what cannot be said is not read
            Expr::Number(Subject::Bytes(..), ..) if e.test().is_none() => {}
            Expr::Const(_) | Expr::Address(..) => {}
            Expr::Fragment(_) => self.upper = true,
            Expr::Flag(_) => self.need(Some(6), 14),
            Expr::Not(e) => self.visit(e),
            Expr::And(l) | Expr::Or(l) => l.iter().for_each(|e| self.visit(e)),
            Expr::Number(subject, ..) => match subject {
                Subject::Address(_) | Subject::HopLimit | Subject::Class => {}
                Subject::Protocol => self.upper = true,
                Subject::IcmpType => self.need(Some(58), 1),
                Subject::Port(_, of) => {
                    for p in [6, 17].into_iter().filter(|p| of.is_none_or(|of| of == *p)) {
                        self.need(Some(p), 4);
                    }
                }
                Subject::Bytes(None, at, len, _) => {
                    self.net = self.net.max(usize::from(*at) + usize::from(*len));
                }
                Subject::Bytes(of, at, len, _) => {
                    self.need(*of, usize::from(*at) + usize::from(*len));
                }
            },
        }
    }
}

fn protocol_is(p: u8) -> Cond {
    Cond::eq(field::IP6_NEXT, p.into())
}

impl Op {
    /// The values of so many bits for which it holds.
    fn set(self, n: u32, bits: u8) -> ValueSet {
        let (n, max) = (u128::from(n), max_of(bits));
        match self {
            Op::Eq => ValueSet::range(n, n.min(max)),
            Op::Ne => ValueSet::one(n).complement(bits),
            Op::Lt => n
                .checked_sub(1)
                .map_or(ValueSet::empty(), |m| ValueSet::range(0, m.min(max))),
            Op::Gt => ValueSet::range(n + 1, max),
            Op::Le => ValueSet::range(0, n.min(max)),
            Op::Ge => ValueSet::range(n, max),
        }
    }
}

impl Expr {
    /// The same (or, not `wanted`, its opposite) as a condition, of packets without extension headers and with all the
    /// bytes that are read. What a condition cannot say holds if `loose`, which makes it one of more packets; else
    /// there is none.
    fn condition(&self, wanted: bool, loose: bool) -> Option<Cond> {
        let list = |l: &[Expr]| {
            let all = l.iter().map(|e| e.condition(wanted, loose));
            all.collect::<Option<Vec<Cond>>>()
        };
        match self {
            Expr::Not(e) => e.condition(!wanted, loose),
            Expr::And(l) | Expr::Or(l) => {
                let all = list(l)?;
                Some(match matches!(self, Expr::And(_)) == wanted {
                    true => Cond::All(all),
                    false => Cond::Any(all),
                })
            }
            _ => match self.test() {
                Some(c) if wanted => Some(c),
                Some(c) => Some(c.not()),
                None => loose.then_some(Cond::Always),
            },
        }
    }

    /// A single test as a condition, if it can be one.
    fn test(&self) -> Option<Cond> {
        let number = |f: FieldRef, op: Op, n: u32| Cond::In(Read::Field(f), op.set(n, f.bits));
        let pick = |w: &Which, of: &dyn Fn(bool) -> Cond| match w {
            Which::Src => of(true),
            Which::Dst => of(false),
            Which::Either => of(true).or(of(false)),
            Which::Both => of(true).and(of(false)),
        };
        Some(match self {
            Expr::Const(true) => Cond::Always,
            Expr::Const(false) => Cond::Never,
            Expr::Address(w, p) => {
                let a = u128::from(p.addr) & p.mask();
                let set = ValueSet::range(a, a | !p.mask());
                pick(w, &|src| {
                    let f = if src { field::IP6_SRC } else { field::IP6_DST };
                    Cond::In(Read::Field(f), set.clone())
                })
            }
            // no extension headers, no fragment header
            Expr::Fragment(f) => {
                if *f {
                    Cond::Never
                } else {
                    Cond::Always
                }
            }
            Expr::Flag(flags) => protocol_is(6).and(Cond::Masked {
                field: bytes(Base::Net, LEN as u16 + 13, 1),
                mask: (*flags).into(),
                value: (*flags).into(),
            }),
            Expr::Not(_) | Expr::And(_) | Expr::Or(_) => return None,
            Expr::Number(subject, op, n) => match subject {
                Subject::Address(_) => Cond::Never,
                Subject::Protocol => number(field::IP6_NEXT, *op, *n),
                Subject::HopLimit => number(field::IP6_HLIM, *op, *n),
                Subject::Class => number(onefold_element::model::bits(Base::Net, 4, 8), *op, *n),
                Subject::IcmpType => {
                    let f = bytes(Base::Net, LEN as u16, 1);
                    protocol_is(58).and(number(f, *op, *n))
                }
                Subject::Port(w, of) => {
                    let has = match of {
                        Some(p) => protocol_is(*p),
                        None => Cond::In(
                            Read::Field(field::IP6_NEXT),
                            ValueSet::from_intervals([(6, 6), (17, 17)]),
                        ),
                    };
                    let port = |src: bool| {
                        let at = LEN as u16 + if src { 0 } else { 2 };
                        number(bytes(Base::Net, at, 2), *op, *n)
                    };
                    has.and(pick(w, &port))
                }
                Subject::Bytes(of, at, len, mask) => {
                    let start = if of.is_some() { LEN as u16 } else { 0 };
                    let end = usize::from(*at) + usize::from(*len);
                    let at = at.checked_add(start).filter(|_| end <= MAX_BYTES)?;
                    let f = bytes(Base::Net, at, *len);
                    let mask = u128::from(*mask) & max_of(f.bits);
                    let is = match op {
                        _ if mask == max_of(f.bits) => number(f, *op, *n),
                        Op::Eq | Op::Ne => {
                            let value = u128::from(*n);
                            let eq = match value & !mask {
                                0 => Cond::Masked {
                                    field: f,
                                    mask,
                                    value,
                                },
                                _ => Cond::Never,
                            };
                            if *op == Op::Eq { eq } else { eq.not() }
                        }
                        // the low bits alone
                        _ if mask & (mask + 1) == 0 && mask != 0 => {
                            let n_bits = mask.count_ones() as u8;
                            let bit = f.bit + u16::from(f.bits - n_bits);
                            number(
                                onefold_element::model::bits(Base::Net, bit, n_bits),
                                *op,
                                *n,
                            )
                        }
                        _ => return None,
                    };
                    match of {
                        Some(p) => protocol_is(*p).and(is),
                        None => is,
                    }
                }
            },
        })
    }
}

impl Element for Ip6Filter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        let mut rules = Vec::new();
        let mut errors = 0;
        for (i, text) in args.rest() {
            let text = text.trim().trim_matches('"');
            let (action, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let output = match action {
                "allow" => Ok(Some(0)),
                "deny" | "drop" => Ok(None),
                n => match n.parse::<usize>() {
                    Ok(n) if n < cx.noutputs => Ok(Some(n)),
                    Ok(n) => Err(format!(
                        "output {n} out of range, the element has {}",
                        cx.noutputs
                    )),
                    Err(_) => Err(format!(
                        "unknown action '{n}', expected allow, deny, drop or an output number"
                    )),
                },
            };
            match output.and_then(|o| Ok((o, parse(rest, &scope)?))) {
                Ok((output, expr)) => rules.push(Rule {
                    argument: i,
                    output,
                    text: text.to_string(),
                    expr,
                }),
                Err(e) => {
                    errors += 1;
                    if errors <= MAX_MESSAGES {
                        args.error_at(i, &format!("pattern {i}"), e);
                    }
                }
            }
        }
        args.finish()?;
        self.counters = RuleCounters::new(rules.last().map_or(0, |r| r.argument + 1));
        self.rules = Arc::new(rules);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut reads = Reads::new();
        self.rules.iter().for_each(|r| reads.visit(&r.expr));
        let mut cases = Vec::from(super::unless_header(Exit::Drop(NO_HEADER)));
        let version = Read::Field(field::IP_VERSION);
        let other = Cond::In(version, ValueSet::one(6).complement(4));
        cases.push(Case::new(other, Exit::Drop(NO_HEADER)));
        if reads.upper {
            let next = Read::Field(field::IP6_NEXT);
            let more = Cond::In(next, super::extensions());
            cases.push(Case::new(more, Exit::Punt(super::EXTENSIONS)));
        }
        let short = |n: usize| Cond::less(Read::NetLen, n as u128);
        const CUT_OFF: &str = "a header that is cut off";
        if reads.net > LEN {
            cases.push(Case::new(short(reads.net), Exit::Punt(CUT_OFF)));
        }
        for (p, n) in reads.of.into_iter().filter(|(_, n)| *n != 0) {
            let when = protocol_is(p).and(short(LEN + n));
            cases.push(Case::new(when, Exit::Punt(CUT_OFF)));
        }
        for r in self.rules.iter() {
            let exit = match r.output {
                Some(n) => Exit::Port(n),
                None => Exit::Drop(DENIED),
            };
            let (when, exit) = match r.expr.condition(true, false) {
                Some(when) => (when, exit),
                // it decides about some of these packets at least, and the others go on to the rules behind it
                None => {
                    let when = r.expr.condition(true, true).unwrap_or(Cond::Always);
                    (when, Exit::Ask(COMPARED))
                }
            };
            cases.push(Case::new(when, exit).from_arg(r.argument));
        }
        cases.push(Case::new(Cond::Always, Exit::Drop(NO_RULE)).policy());
        Model::Cases(cases)
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let hit = match p.network().and_then(View::of) {
            Some(v) => {
                let hit = self.rules.iter().position(|r| r.expr.matches(&v));
                let before = self.rules.iter().take(hit.unwrap_or(usize::MAX));
                cx.missed(before, |r| (r.argument, r.expr.why_not(&v)));
                hit.and_then(|i| self.rules.get(i))
            }
            None => return cx.drop(p, NO_HEADER),
        };
        match hit {
            Some(r) => {
                cx.decide(Some(r.argument), || r.text.clone());
                self.counters.packet(Some(r.argument), p.len());
                match r.output {
                    Some(n) => cx.emit(n, p),
                    None => cx.drop(p, DENIED),
                }
            }
            None => {
                cx.decide(None, || "no pattern matches".to_string());
                self.counters.packet(None, p.len());
                cx.drop(p, NO_RULE);
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("rule_counts")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "rule_counts" => Ok(self.counters.text()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    element_counts_rules!(counters);
    element_any!();
}
