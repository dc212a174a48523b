//! Filter text to expression tree: recursive descent, and the rules by which a primitive's missing parts are filled in.

use super::error::{FilterError, FilterErrorKind as K};
use super::expr::{Expr, Field, Layer, Span, Test, Which};
use super::lex::{Word, words};
use super::names::{self, Family, Kind, Proto};
use onefold_element::args::{ArgScope, FromArg, Ip4Prefix, Ip6Prefix};
use onefold_packet::EtherAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parentheses and conditionals may be nested this deep.
pub const MAX_DEPTH: usize = 100;

/// A parsed pattern and what is suspicious about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The tree.
    pub expr: Expr,
    /// Warnings, of kind [`K::Suspicious`].
    pub warnings: Vec<FilterError>,
}

/// Reads one pattern (an IPClassifier argument, or an IPFilter argument without its action). `-`, `any`, `all` and,
/// with `allow_empty`, nothing at all match everything.
pub fn parse_pattern(text: &str, scope: &ArgScope<'_>) -> Result<Parsed, FilterError> {
    parse_words(&words(text), text.len(), scope, Family::V4, false)
}

/// [`parse_pattern`] for IPv6 (IP6Classifier).
pub fn parse_pattern6(text: &str, scope: &ArgScope<'_>) -> Result<Parsed, FilterError> {
    parse_words(&words(text), text.len(), scope, Family::V6, false)
}

/// What is done with a packet that an IPFilter rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Out at this output.
    Output(u32),
    /// Dropped.
    Drop,
}

/// Reads one IPFilter argument: an action and a pattern.
pub fn parse_rule(
    text: &str,
    noutputs: usize,
    scope: &ArgScope<'_>,
) -> Result<(Action, Parsed), FilterError> {
    rule(text, noutputs, scope, Family::V4)
}

/// [`parse_rule`] for IPv6 (IP6Filter).
pub fn parse_rule6(
    text: &str,
    noutputs: usize,
    scope: &ArgScope<'_>,
) -> Result<(Action, Parsed), FilterError> {
    rule(text, noutputs, scope, Family::V6)
}

fn rule(
    text: &str,
    noutputs: usize,
    scope: &ArgScope<'_>,
    family: Family,
) -> Result<(Action, Parsed), FilterError> {
    let w = words(text);
    let Some((first, rest)) = w.split_first() else {
        return Err(fail(K::Empty, 0, text.len()));
    };
    let out_of_range = || {
        let kind = K::OutputOutOfRange {
            output: first.text.to_string(),
            outputs: noutputs,
        };
        fail(kind, first.at, first.end())
    };
    let action = match first.text {
        "deny" | "drop" => Action::Drop,
        "allow" if noutputs > 0 => Action::Output(0),
        "allow" => return Err(out_of_range()),
        n => match i64::from_arg(n, scope) {
            Ok(i) => match u32::try_from(i) {
                Ok(u) if (u as usize) < noutputs => Action::Output(u),
                _ => return Err(out_of_range()),
            },
            Err(_) => {
                let mut e = fail(K::UnknownAction(n.to_string()), first.at, first.end());
                let known =
                    names::kind(n, family).is_some() || names::protocol(n, family).is_some();
                if known || ["src", "dst", "ip", "ip6", "any", "all", "-"].contains(&n) {
                    e.hint = Some(format!("'allow {n} ...'?"));
                }
                return Err(e);
            }
        },
    };
    parse_words(rest, text.len(), scope, family, true).map(|p| (action, p))
}

fn parse_words(
    w: &[Word<'_>],
    len: usize,
    scope: &ArgScope<'_>,
    family: Family,
    allow_empty: bool,
) -> Result<Parsed, FilterError> {
    let everything = match w {
        [] if allow_empty => true,
        [] => return Err(fail(K::Empty, 0, len)),
        [one] => ["-", "any", "all"].contains(&one.text),
        _ => false,
    };
    if everything {
        return Ok(Parsed {
            expr: Expr::Const(true),
            warnings: Vec::new(),
        });
    }
    let mut p = Parser {
        words: w,
        pos: 0,
        len,
        scope,
        family,
        prev: Prev::default(),
        warnings: Vec::new(),
    };
    let expr = p.expression(0)?;
    if let Some(g) = p.peek() {
        let mut e = fail(K::Garbage(g.text.to_string()), g.at, g.end());
        if g.text == ":" || g.text.contains(':') {
            e.hint = Some("the ':' of 'a ? b : c' needs spaces around it".to_string());
        }
        return Err(e);
    }
    Ok(Parsed {
        expr,
        warnings: p.warnings,
    })
}

pub(super) fn fail(kind: K, start: usize, end: usize) -> FilterError {
    FilterError {
        kind,
        span: Span {
            start: start as u32,
            end: end as u32,
        },
        hint: None,
    }
}

/// The value of a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    None,
    Host(u32),
    Net(u32, u32),
    Host6(u128),
    Net6(u128, u128),
    Ether([u8; 6]),
    /// Any integer that an argument may be; two's complement if negative, as the reference compares.
    Int(u32),
    Proto(Proto),
    Port(u16),
    TcpOpt(u8),
    IcmpType(u8),
}

/// A bit mask behind `&`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mask {
    Int(u32),
    Addr(u32),
    Ether([u8; 6]),
}

/// What a bare value takes over from the primitive before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prev {
    pub(super) kind: Option<Kind>,
    pub(super) ether: bool,
    pub(super) which: Option<Which>,
    pub(super) transport: Option<Proto>,
}

/// `ip` or `ether` was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Ip,
    Ether,
}

/// A relation as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rel {
    None,
    Eq,
    Ne,
    Gt,
    Le,
    Lt,
    Ge,
}

/// A primitive while its parts are gathered.
pub(super) struct Draft {
    pub(super) kind: Option<Kind>,
    pub(super) which: Option<Which>,
    pub(super) transport: Option<Proto>,
    pub(super) header: Option<Header>,
    pub(super) mask: Option<Mask>,
    pub(super) rel: Rel,
    pub(super) data: Data,
    /// The words from here on.
    pub(super) first: usize,
}

pub(super) struct Parser<'a> {
    pub(super) words: &'a [Word<'a>],
    pub(super) pos: usize,
    /// Length of the text, for errors at its end.
    pub(super) len: usize,
    pub(super) scope: &'a ArgScope<'a>,
    pub(super) family: Family,
    pub(super) prev: Prev,
    pub(super) warnings: Vec<FilterError>,
}

pub(super) type R<T> = Result<T, FilterError>;

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.pos).copied()
    }
    fn text(&self) -> &'a str {
        self.peek().map_or("", |w| w.text)
    }
    fn ahead(&self, n: usize) -> &'a str {
        self.words.get(self.pos + n).map_or("", |w| w.text)
    }
    fn eat(&mut self, alternatives: &[&str]) -> bool {
        let hit = alternatives.contains(&self.text());
        self.pos += usize::from(hit);
        hit
    }
    pub(super) fn expected(&self, wanted: &'static str) -> FilterError {
        let (place, start, end) = match self.peek() {
            Some(w) => (format!("before '{}'", w.text), w.at, w.end()),
            None => ("at the end".to_string(), self.len, self.len),
        };
        fail(K::Expected { wanted, place }, start, end)
    }
    pub(super) fn span_from(&self, first: usize) -> Span {
        let start = self.words.get(first).map_or(self.len, |w| w.at);
        let end = self.words.get(self.pos.wrapping_sub(1));
        Span {
            start: start as u32,
            end: end.map_or(self.len, Word::end).max(start) as u32,
        }
    }
    pub(super) fn fail_from(&self, first: usize, kind: K) -> FilterError {
        FilterError {
            kind,
            span: self.span_from(first),
            hint: None,
        }
    }

    /// `or-expr [? expression : or-expr ...]`
    fn expression(&mut self, depth: usize) -> R<Expr> {
        if depth > MAX_DEPTH {
            return Err(self.fail_from(self.pos, K::TooDeep(MAX_DEPTH)));
        }
        let mut last = self.any_of(depth)?;
        let mut cases = Vec::new();
        while self.eat(&["?"]) {
            let value = self.expression(depth + 1)?;
            if !self.eat(&[":"]) {
                let mut e = self.expected("':'");
                e.hint = Some("the ':' of 'a ? b : c' needs spaces around it".to_string());
                return Err(e);
            }
            cases.push((last, value));
            last = self.any_of(depth)?;
        }
        if cases.is_empty() {
            return Ok(last);
        }
        Ok(Expr::Choose {
            cases,
            otherwise: Box::new(last),
        })
    }

    /// `term or term or ...`
    fn any_of(&mut self, depth: usize) -> R<Expr> {
        let first = self.all_of(depth)?;
        if !["or", "||"].contains(&self.text()) {
            return Ok(first);
        }
        let mut list = vec![first];
        while self.eat(&["or", "||"]) {
            list.push(self.all_of(depth)?);
        }
        Ok(Expr::Any(list))
    }

    /// `factor and factor factor ...`: juxtaposition is `and`.
    fn all_of(&mut self, depth: usize) -> R<Expr> {
        let first = self.factor(depth)?;
        let mut list = Vec::new();
        loop {
            let joined = self.eat(&["and", "&&"]);
            if !joined && matches!(self.text(), "" | ")" | "or" | "||" | "?" | ":") {
                break;
            }
            list.push(self.factor(depth)?);
        }
        if list.is_empty() {
            return Ok(first);
        }
        list.insert(0, first);
        Ok(Expr::All(list))
    }

    /// `not factor`, `( expression )`, a primitive.
    fn factor(&mut self, depth: usize) -> R<Expr> {
        let mut negated = false;
        while self.eat(&["not", "!"]) {
            negated = !negated;
        }
        let e = if self.eat(&["("]) {
            let e = self.expression(depth + 1)?;
            if !self.eat(&[")"]) {
                return Err(self.expected("')'"));
            }
            e
        } else if self.eat(&["true"]) {
            Expr::Const(true)
        } else if self.eat(&["false"]) {
            Expr::Const(false)
        } else {
            let (test, flip) = self.primitive()?;
            negated ^= flip;
            Expr::Test(test)
        };
        Ok(match negated {
            true => Expr::Not(Box::new(e)),
            false => e,
        })
    }

    /// `qualifiers [& mask] [relation] value`; the flag says that a `not` stood among the qualifiers.
    fn primitive(&mut self) -> R<(Test, bool)> {
        let mut d = Draft {
            kind: None,
            which: None,
            transport: None,
            header: None,
            mask: None,
            rel: Rel::None,
            data: Data::None,
            first: self.pos,
        };
        if matches!(
            self.text(),
            "" | ")" | "or" | "||" | "?" | ":" | "and" | "&&"
        ) {
            return Err(self.expected("an expression"));
        }
        let negated = self.qualifiers(&mut d)?;
        if self.pos != d.first {
            self.prev = Prev::default();
        }
        if self.prev.ether {
            d.header = Some(Header::Ether);
        }
        if self.text() == "[" && self.pos > d.first && d.kind.is_none() {
            self.brackets(&mut d)?;
        }
        self.mask(&mut d)?;
        // an operator needs something behind it
        if !self.ahead(1).is_empty() {
            d.rel = match self.text() {
                "=" | "==" => Rel::Eq,
                "!=" => Rel::Ne,
                ">" => Rel::Gt,
                "<" => Rel::Lt,
                ">=" => Rel::Ge,
                "<=" => Rel::Le,
                _ => Rel::None,
            };
            self.pos += usize::from(d.rel != Rel::None);
        }
        self.value(&mut d)?;
        if self.pos == d.first {
            let w = self.text();
            let mut e = self.fail_from(self.pos, K::UnknownWord(w.to_string()));
            if let Some(w) = self.peek() {
                e.span.end = w.end() as u32;
            }
            e.hint = names::near_miss(w, self.family).map(|n| format!("did you mean '{n}'?"));
            return Err(e);
        }
        let test = self.complete(d)?;
        Ok((test, negated))
    }

    fn qualifiers(&mut self, d: &mut Draft) -> R<bool> {
        let mut negated = false;
        while let Some(w) = self.peek() {
            let at = self.pos;
            match w.text {
                "src" => {
                    let both = matches!(self.ahead(2), "dst" | "dest");
                    let which = match self.ahead(1) {
                        "and" | "&&" if both => Which::Both,
                        "or" | "||" if both => Which::Either,
                        _ => Which::Src,
                    };
                    self.pos += if which == Which::Src { 0 } else { 2 };
                    self.set(&mut d.which, which, at, "'src' or 'dst'")?;
                }
                "dst" | "dest" => self.set(&mut d.which, Which::Dst, at, "'src' or 'dst'")?,
                "ip" | "ether" if d.header.is_none() => {
                    d.header = Some(if w.text == "ip" {
                        Header::Ip
                    } else {
                        Header::Ether
                    });
                }
                "ip6" if d.header.is_none() && self.family == Family::V6 => {
                    d.header = Some(Header::Ip);
                }
                "not" | "!" => negated = !negated,
                word => {
                    if let Some(k) = names::kind(word, self.family) {
                        self.set(&mut d.kind, k, at, "what to test")?;
                        if let Kind::Field(_, Some(p)) = k {
                            self.set_transport(d, p, at)?;
                        }
                    } else if let Some(p) = names::protocol(word, self.family)
                        // a name that is also a service is left to be read as a value
                        && names::port(word, self.scope.names).is_none()
                    {
                        self.set_transport(d, p, at)?;
                    } else {
                        break;
                    }
                }
            }
            self.pos += 1;
        }
        Ok(negated)
    }

    fn set<T>(&self, slot: &mut Option<T>, value: T, at: usize, what: &'static str) -> R<()> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.error_at_word(at, K::Twice(what))),
        }
    }

    fn set_transport(&self, d: &mut Draft, p: Proto, at: usize) -> R<()> {
        if d.transport.is_some_and(|old| old != p) {
            return Err(self.error_at_word(at, K::Twice("protocol")));
        }
        d.transport = Some(p);
        Ok(())
    }

    fn error_at_word(&self, at: usize, kind: K) -> FilterError {
        let w = self.words.get(at).copied();
        let (start, end) = w.map_or((self.len, self.len), |w| (w.at, w.end()));
        fail(kind, start, end)
    }

    /// `[POS]`, `[POS:LEN]`, `[POS,LAST]`.
    fn brackets(&mut self, d: &mut Draft) -> R<()> {
        let open = self.pos;
        self.pos += 1;
        let mut text = String::new();
        while !matches!(self.text(), "]" | "") {
            text.push_str(self.text());
            self.pos += 1;
        }
        if !self.eat(&["]"]) {
            return Err(self.expected("']'"));
        }
        let bad = |why| {
            let text = text.clone();
            self.fail_from(open, K::BadField { text, why })
        };
        let number = |s: &str| i64::from_arg(s, self.scope).ok();
        let parsed = if let Some((a, b)) = text.split_once(':') {
            number(a).zip(number(b))
        } else if let Some((a, b)) = text.split_once(',') {
            number(a)
                .zip(number(b))
                .map(|(a, b)| (a, b.saturating_sub(a).saturating_add(1)))
        } else {
            number(&text).map(|a| (a, 1))
        };
        let Some((pos, len)) = parsed else {
            return Err(bad("expected [POS], [POS:LEN] or [POS,LAST], in bytes"));
        };
        if !(1..=4).contains(&len) {
            return Err(bad("the length must be 1 to 4 bytes"));
        }
        if !(0..8192).contains(&pos) {
            return Err(bad("the position must be 0 to 8191"));
        }
        if pos / 4 != (pos + len - 1) / 4 {
            return Err(bad("it must lie within one aligned group of four bytes"));
        }
        let field = Field {
            layer: match d.transport {
                Some(_) => Layer::Transport,
                None if self.family == Family::V6 => Layer::Net6,
                None => Layer::Net,
            },
            bit: (pos * 8) as u16,
            bits: (len * 8) as u8,
        };
        d.kind = Some(Kind::Field(field, d.transport));
        Ok(())
    }

    fn mask(&mut self, d: &mut Draft) -> R<()> {
        // a mask, and a value behind it
        let word = self.ahead(1);
        if self.text() != "&" || word.is_empty() {
            return Ok(());
        }
        let mask = if let Some(v) = int32(word, self.scope) {
            Mask::Int(v)
        } else if d.header != Some(Header::Ether)
            && self.family == Family::V4
            && let Ok(a) = Ipv4Addr::from_arg(word, self.scope)
        {
            Mask::Addr(a.into())
        } else if d.header != Some(Header::Ip)
            && let Ok(a) = EtherAddr::from_arg(word, self.scope)
        {
            Mask::Ether(a.0)
        } else {
            self.pos += 1;
            return Err(self.expected("a mask (a number or an address)"));
        };
        self.pos += 2;
        if mask == Mask::Int(0) || mask == Mask::Addr(0) {
            let range = "it must have a bit set".to_string();
            let kind = K::OutOfRange {
                what: "mask".to_string(),
                value: word.to_string(),
                range,
            };
            return Err(self.fail_from(self.pos - 1, kind));
        }
        d.mask = Some(mask);
        Ok(())
    }

    fn value(&mut self, d: &mut Draft) -> R<()> {
        let Some(w) = self.peek() else {
            return Ok(());
        };
        if let Some(data) = self.named_value(d, w.text)? {
            d.data = data;
            self.pos += 1;
            return Ok(());
        }
        let ether_ok = d.header != Some(Header::Ip);
        let ip_ok = d.header != Some(Header::Ether);
        let prefix = |s: &str| {
            Ip4Prefix::from_arg(s, self.scope)
                .ok()
                .map(|p| (p.addr.into(), p.mask.into()))
        };
        let six = self.family == Family::V6;
        d.data = if let Some(v) = int32(w.text, self.scope) {
            Data::Int(v)
        } else if six
            && ip_ok
            && let Ok(p) = Ip6Prefix::from_arg(w.text, self.scope)
        {
            let addr = u128::from(p.addr);
            // a name may stand for an address and for a network; a plain address is no network
            let named = match d.kind {
                Some(Kind::Net) if w.text.parse::<Ipv6Addr>().is_err() => {
                    self.scope.names.ip6_prefix(w.text, self.scope.element)
                }
                _ => None,
            };
            match named {
                Some((a, len)) => {
                    let p = Ip6Prefix {
                        addr: a.into(),
                        len,
                    };
                    Data::Net6(u128::from(p.addr), p.mask())
                }
                None if w.text.contains('/') => Data::Net6(addr, p.mask()),
                None if p.len == 128 => Data::Host6(addr),
                None => Data::Net6(addr, p.mask()),
            }
        } else if !six
            && ip_ok
            && let Ok(a) = Ipv4Addr::from_arg(w.text, self.scope)
        {
            let mask = match self.ahead(1) {
                "mask" => Ipv4Addr::from_arg(self.ahead(2), self.scope).ok(),
                _ => None,
            };
            if let Some(m) = mask {
                self.pos += 2;
                Data::Net(a.into(), m.into())
            } else {
                // a name may stand for an address and for a network; a plain address is no network
                let net = match d.kind {
                    Some(Kind::Net) if w.text.parse::<Ipv4Addr>().is_err() => {
                        self.scope.names.ip4_prefix(w.text, self.scope.element)
                    }
                    _ => None,
                };
                net.map_or(Data::Host(a.into()), |(a, m)| {
                    Data::Net(u32::from_be_bytes(a), u32::from_be_bytes(m))
                })
            }
        } else if !six
            && ip_ok
            && let Some((a, m)) = prefix(w.text)
        {
            Data::Net(a, m)
        } else if ether_ok && let Ok(a) = EtherAddr::from_arg(w.text, self.scope) {
            Data::Ether(a.0)
        } else if d.rel != Rel::None {
            return Err(self.expected("a value"));
        } else {
            return Ok(());
        };
        self.pos += 1;
        Ok(())
    }

    /// A protocol, port, TCP flag or ICMP type by name, if it fits what is known of the primitive so far.
    fn named_value(&self, d: &Draft, word: &str) -> R<Option<Data>> {
        let proto = names::protocol(word, self.family).map(Data::Proto);
        let port = names::port(word, self.scope.names).map(Data::Port);
        let flag = names::tcp_flag(word).map(Data::TcpOpt);
        let icmp = names::icmp_type(word, self.family).map(Data::IcmpType);
        let known = [
            (proto, "proto"),
            (port, "port"),
            (flag, "tcp opt"),
            (icmp, "icmp type"),
        ];
        if known.iter().all(|(x, _)| x.is_none()) {
            return Ok(None);
        }
        let tcp = matches!(
            d.transport,
            None | Some(Proto::Number(names::TCP) | Proto::TcpUdp)
        );
        let udp = d.transport == Some(Proto::Number(names::UDP));
        let is_icmp = d.transport.is_none_or(|t| t == self.family.icmp());
        let icmp_kind = match d.kind {
            None => true,
            Some(Kind::Field(f, _)) => f == names::ICMP_TYPE && d.transport.is_some(),
            _ => false,
        };
        let fits = [
            matches!(d.kind, None | Some(Kind::Proto)),
            matches!(d.kind, None | Some(Kind::Port)) && (tcp || udp),
            matches!(d.kind, None | Some(Kind::TcpOpt)) && tcp,
            icmp_kind && is_icmp,
        ];
        let mut found = known
            .iter()
            .zip(fits)
            .filter(|((x, _), fit)| x.is_some() && *fit)
            .map(|((x, _), _)| *x);
        let first = found.next().flatten();
        if first.is_some() && found.next().is_none() {
            return Ok(first);
        }
        let problem = if first.is_some() {
            "is ambiguous"
        } else {
            "makes no sense here"
        };
        let mut e = self.error_at_word(
            self.pos,
            K::WordMisfit {
                word: word.to_string(),
                problem,
            },
        );
        let tries: Vec<String> = known
            .iter()
            .filter(|(x, _)| x.is_some())
            .map(|(_, p)| format!("'{p} {word}'"))
            .collect();
        e.hint = Some(format!("try {}", tries.join(" or ")));
        Err(e)
    }
}

/// An integer that fits 32 bits, signed or not.
fn int32(s: &str, scope: &ArgScope<'_>) -> Option<u32> {
    let v = i64::from_arg(s, scope).ok()?;
    u32::try_from(v)
        .or_else(|_| i32::try_from(v).map(|v| v as u32))
        .ok()
}
