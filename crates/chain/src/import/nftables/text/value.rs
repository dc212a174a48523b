//! What is compared, and with what.

use super::lexer::Token;
use super::{Parser, Read};
use serde_json::{Value, json};
use std::net::IpAddr;

/// How deep values stand within one another.
const MAX_DEPTH: usize = 16;

/// Headers whose fields are asked for by name.
const HEADERS: [&str; 16] = [
    "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "ether", "arp", "vlan", "th", "esp", "ah", "comp",
    "sctp", "dccp", "udplite",
];
/// Extension headers.
const EXTENSIONS: [&str; 6] = ["hbh", "frag", "dst", "mh", "srh", "rt"];
/// Meta keys that stand alone.
const META: [&str; 16] = [
    "iif",
    "oif",
    "iifname",
    "oifname",
    "iiftype",
    "oiftype",
    "mark",
    "skuid",
    "skgid",
    "iifgroup",
    "oifgroup",
    "pkttype",
    "cpu",
    "cgroup",
    "rtclassid",
    "nftrace",
];

impl Parser {
    /// Does an expression begin here, which is compared or set?
    pub(super) fn begins_expression(&self) -> bool {
        let Token::Word(w) = self.peek() else {
            return false;
        };
        HEADERS.contains(&w.as_str())
            || EXTENSIONS.contains(&w.as_str())
            || META.contains(&w.as_str())
            || matches!(
                w.as_str(),
                "meta"
                    | "ct"
                    | "fib"
                    | "numgen"
                    | "jhash"
                    | "symhash"
                    | "exthdr"
                    | "socket"
                    | "osf"
                    | "ipsec"
            )
    }

    /// `ip saddr`, `ip saddr . tcp dport`, `meta mark & 0xff`, `tcp flags & (fin | syn)`.
    pub(super) fn expression(&mut self) -> Read<Value> {
        let first = self.masked()?;
        if !self.is_sign(".") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_sign(".") {
            parts.push(self.masked()?);
        }
        Ok(json!({ "concat": parts }))
    }

    fn masked(&mut self) -> Read<Value> {
        let mut left = self.one()?;
        // Bound: the tokens
        loop {
            let op = match self.peek() {
                Token::Sign(s @ ("&" | "|" | "^" | "<<" | ">>")) => *s,
                Token::Word(w) => match w.as_str() {
                    "and" => "&",
                    "or" => "|",
                    "xor" => "^",
                    "lshift" => "<<",
                    "rshift" => ">>",
                    _ => return Ok(left),
                },
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.bits(0)?;
            left = json!({ op: [left, right] });
        }
    }

    /// `syn`, `(fin | syn)`, `0xff`, `!0xff`
    fn bits(&mut self, depth: usize) -> Read<Value> {
        if depth > MAX_DEPTH {
            return self.wrong("too many parentheses");
        }
        if !self.take_sign("(") {
            return self.single();
        }
        let mut all = vec![self.bits(depth + 1)?];
        while self.take_sign("|") || self.take_sign(",") || self.take("or") {
            all.push(self.bits(depth + 1)?);
        }
        self.expect_sign(")")?;
        Ok(match all.len() {
            1 => all.remove(0),
            _ => json!({ "|": all }),
        })
    }

    fn one(&mut self) -> Read<Value> {
        let w = self.name("an expression")?;
        let w = w.as_str();
        if META.contains(&w) {
            return Ok(json!({ "meta": { "key": w } }));
        }
        match w {
            "meta" => Ok(json!({ "meta": { "key": self.name("a key")? } })),
            "ct" => self.connection(),
            "fib" => self.fib(),
            "numgen" => {
                let mode = self.name("random or inc")?;
                let (modulus, offset) = self.modulus()?;
                Ok(json!({ "numgen": { "mode": mode, "mod": modulus, "offset": offset } }))
            }
            "jhash" => {
                let of = self.expression()?;
                let (modulus, offset) = self.modulus()?;
                Ok(json!({ "jhash": { "mod": modulus, "offset": offset, "expr": of } }))
            }
            "symhash" => {
                let (modulus, offset) = self.modulus()?;
                Ok(json!({ "symhash": { "mod": modulus, "offset": offset } }))
            }
            "socket" => Ok(json!({ "socket": { "key": self.name("a key")? } })),
            "osf" => Ok(json!({ "osf": { "key": self.name("a key")? } })),
            "ipsec" => Ok(json!({ "ipsec": { "key": self.name("a key")? } })),
            "exthdr" => Ok(json!({ "exthdr": { "name": self.name("a header")? } })),
            // of a route, or of the routing header
            "rt" => match self.name("a field")?.as_str() {
                key @ ("classid" | "nexthop" | "mtu" | "ipsec") => {
                    Ok(json!({ "rt": { "key": key } }))
                }
                field => Ok(json!({ "exthdr": { "name": "rt", "field": field } })),
            },
            "tcp" if self.take("option") => {
                let name = self.name("an option")?;
                let field = match self.peek() {
                    Token::Word(w)
                        if matches!(
                            w.as_str(),
                            "size"
                                | "kind"
                                | "length"
                                | "count"
                                | "left"
                                | "right"
                                | "tsval"
                                | "tsecr"
                        ) =>
                    {
                        Some(self.name("a field")?)
                    }
                    _ => None,
                };
                Ok(json!({ "tcp option": { "name": name, "field": field } }))
            }
            _ if EXTENSIONS.contains(&w) => {
                Ok(json!({ "exthdr": { "name": w, "field": self.name("a field")? } }))
            }
            _ if HEADERS.contains(&w) => {
                Ok(json!({ "payload": { "protocol": w, "field": self.name("a field")? } }))
            }
            _ => {
                self.at -= 1;
                self.wrong(format!("'{w}' is not supported"))
            }
        }
    }

    /// `state`, `original saddr`, `original ip saddr`
    fn connection(&mut self) -> Read<Value> {
        let key = self.name("a key")?;
        if !matches!(key.as_str(), "original" | "reply") {
            return Ok(json!({ "ct": { "key": key } }));
        }
        let mut of = self.name("a key")?;
        if matches!(of.as_str(), "ip" | "ip6") {
            of = format!("{of} {}", self.name("a key")?);
        }
        Ok(json!({ "ct": { "key": of, "dir": key } }))
    }

    /// `saddr . iif oif`, `daddr type`
    fn fib(&mut self) -> Read<Value> {
        let mut flags = vec![self.name("saddr or daddr")?];
        while self.take_sign(".") {
            flags.push(self.name("iif, oif or mark")?);
        }
        let result = self.name("type, oif or oifname")?;
        Ok(json!({ "fib": { "result": result, "flags": flags } }))
    }

    /// `mod N [seed N] [offset N]`
    fn modulus(&mut self) -> Read<(i64, i64)> {
        if !self.take("mod") {
            return self.wrong("expected 'mod'");
        }
        let modulus = self.number("a number")?;
        if self.take("seed") {
            self.name("a number")?;
        }
        let offset = match self.take("offset") {
            true => self.number("a number")?,
            false => 0,
        };
        Ok((modulus, offset))
    }

    /// A value: a word, a range, a network, a set, a set by name, several with commas or `|`.
    pub(super) fn value(&mut self) -> Read<Value> {
        if self.is_sign("{") {
            return Ok(json!({ "set": self.elements()? }));
        }
        if self.is_sign("(") {
            return self.bits(0);
        }
        let first = self.single()?;
        if self.is_sign(".") {
            let mut parts = vec![first];
            while self.take_sign(".") {
                parts.push(self.single()?);
            }
            return Ok(json!({ "concat": parts }));
        }
        let mut all = vec![first];
        while self.take_sign("|") || self.take_sign(",") || self.take("or") {
            all.push(self.single()?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Value::Array(all),
        })
    }

    /// One of its values.
    fn single(&mut self) -> Read<Value> {
        if let Token::Text(t) = self.peek().clone() {
            self.at += 1;
            return Ok(json!(t));
        }
        let w = self.name("a value")?;
        if self.take("-") {
            let to = self.name("a value")?;
            return Ok(json!({ "range": [plain(&w), plain(&to)] }));
        }
        Ok(word_value(&w))
    }

    /// `{ a, b . c, d : accept, e timeout 5m }`
    pub(super) fn elements(&mut self) -> Read<Vec<Value>> {
        self.expect_sign("{")?;
        let mut out = Vec::new();
        // Bound: each turn takes a token at least
        loop {
            self.skip_ends();
            if self.is_done() {
                return self.wrong("a set does not end: expected '}'");
            }
            if self.take_sign("}") {
                return Ok(out);
            }
            out.push(self.element()?);
            self.skip_ends();
            if !self.take_sign(",") && !self.is_sign("}") {
                return self.wrong(format!("expected ',' or '}}', found {}", self.shown()));
            }
        }
    }

    fn element(&mut self) -> Read<Value> {
        let mut parts = vec![self.single()?];
        while self.take_sign(".") {
            self.skip_ends();
            parts.push(self.single()?);
        }
        let mut value = match parts.len() {
            1 => parts.remove(0),
            _ => json!({ "concat": parts }),
        };
        let mut elem = serde_json::Map::new();
        // Bound: each turn takes a token at least
        loop {
            if self.take("timeout") || self.take("expires") {
                elem.insert("timeout".into(), json!(self.name("a time")?));
            } else if self.take("comment") {
                elem.insert("comment".into(), json!(self.name("a comment")?));
            } else if self.take("limit") {
                self.limit()?;
            } else if self.take("counter") {
                self.counted()?;
            } else {
                break;
            }
        }
        if !elem.is_empty() {
            elem.insert("val".into(), value);
            value = json!({ "elem": elem });
        }
        self.skip_ends();
        if !self.take_sign(":") {
            return Ok(value);
        }
        self.skip_ends();
        let data = match self.verdict()? {
            Some(v) => v,
            None => {
                let first = self.single()?;
                match self.take_sign(".") {
                    true => json!({ "concat": [first, self.single()?] }),
                    false => first,
                }
            }
        };
        Ok(json!([value, data]))
    }

    /// `packets N bytes N`, which may be left out.
    pub(super) fn counted(&mut self) -> Read<()> {
        for what in ["packets", "bytes"] {
            if self.take(what) {
                self.name("a number")?;
            }
        }
        Ok(())
    }

    /// `accept`, `jump CHAIN`
    pub(super) fn verdict(&mut self) -> Read<Option<Value>> {
        let Token::Word(w) = self.peek().clone() else {
            return Ok(None);
        };
        match w.as_str() {
            "accept" | "drop" | "return" | "continue" => {
                self.at += 1;
                Ok(Some(json!({ w: null })))
            }
            "jump" | "goto" => {
                self.at += 1;
                let target = self.name("a chain")?;
                Ok(Some(json!({ w: { "target": target } })))
            }
            _ => Ok(None),
        }
    }
}

/// A number, or the word.
fn plain(w: &str) -> Value {
    let number = match w.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => w.parse::<u64>().ok(),
    };
    number.map_or_else(|| json!(w), |n| json!(n))
}

/// What a word stands for: a number, a network, a range, or itself.
fn word_value(w: &str) -> Value {
    let network = w.split_once('/').and_then(|(a, n)| {
        let (a, n) = (a.parse::<IpAddr>().ok()?, n.parse::<u8>().ok()?);
        Some(json!({ "prefix": { "addr": a.to_string(), "len": n } }))
    });
    let is_end = |s: &str| s.parse::<IpAddr>().is_ok() || plain(s).is_u64();
    let range = w.split_once('-').filter(|(a, b)| is_end(a) && is_end(b));
    match (network, range) {
        (Some(n), _) => n,
        (None, Some((a, b))) => json!({ "range": [plain(a), plain(b)] }),
        _ => plain(w),
    }
}
