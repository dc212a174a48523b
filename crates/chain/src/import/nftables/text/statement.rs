//! A rule's statements.

use super::lexer::Token;
use super::{Parser, Read};
use serde_json::{Map, Value, json};

impl Parser {
    /// A rule, to the end of its line.
    pub(super) fn rule(&mut self) -> Read<Vec<Value>> {
        let mut out = Vec::new();
        // Bound: each turn takes a token at least
        loop {
            if *self.peek() == Token::End || self.is_sign("}") {
                return Ok(out);
            }
            if self.take("comment") {
                self.name("a comment")?;
                continue;
            }
            out.push(self.statement()?);
        }
    }

    fn statement(&mut self) -> Read<Value> {
        if let Some(v) = self.verdict()? {
            return Ok(v);
        }
        if self.begins_expression() {
            return self.about_expression();
        }
        let w = self.name("a statement")?;
        match w.as_str() {
            "counter" => {
                match self.take("name") {
                    true => drop(self.name("a name")?),
                    false => self.counted()?,
                }
                Ok(json!({ "counter": null }))
            }
            "log" => self.log(),
            "limit" => self.limit(),
            "reject" => self.reject(),
            "notrack" => Ok(json!({ "notrack": null })),
            "masquerade" | "redirect" => self.own_address(&w),
            "snat" | "dnat" => self.translation(&w),
            "flow" => {
                // as older versions have it: `flow offload @f`
                if !self.take("add") && !self.take("offload") {
                    return self.wrong("expected 'add'");
                }
                let table = self.name("a flowtable")?;
                Ok(json!({ "flow": { "op": "add", "flowtable": table } }))
            }
            "add" | "update" | "delete" => self.change_set(&w),
            "set" => {
                let op = self.name("add, update or delete")?;
                self.change_set(&op)
            }
            "quota" | "synproxy" | "tproxy" | "queue" | "dup" | "fwd" | "secmark" | "last" => {
                self.skip_statement();
                Ok(json!({ w: {} }))
            }
            _ => {
                self.at -= 1;
                self.wrong(format!("statement '{w}' is not supported"))
            }
        }
    }

    /// Goes to the end of a line or block; what stands there does not count, or is refused with what stands before.
    pub(super) fn skip_statement(&mut self) {
        // Bound: the tokens
        while !matches!(self.peek(), Token::End | Token::Sign("}")) {
            self.at += 1;
        }
    }

    /// `EXPRESSION [OP] VALUE`, `EXPRESSION vmap MAP`, `EXPRESSION set VALUE`
    fn about_expression(&mut self) -> Read<Value> {
        let left = self.expression()?;
        if self.take("vmap") {
            let data = match self.is_sign("{") {
                true => json!({ "set": self.elements()? }),
                false => json!(self.name("a map")?),
            };
            return Ok(json!({ "vmap": { "key": left, "data": data } }));
        }
        if self.take("set") {
            let value = self.set_to()?;
            return Ok(json!({ "mangle": { "key": left, "value": value } }));
        }
        let missing = match self.peek() {
            Token::Word(w) if w == "missing" => Some(false),
            Token::Word(w) if w == "exists" => Some(true),
            _ => None,
        };
        if let Some(there) = missing {
            self.at += 1;
            return Ok(json!({ "match": { "op": "==", "left": left, "right": there } }));
        }
        let op = self.operator();
        let bits = left.pointer("/payload/field").is_some_and(|f| f == "flags")
            || ["/ct/key"].iter().any(|k| {
                left.pointer(k).is_some_and(|k| {
                    matches!(k.as_str(), Some("state" | "status" | "event" | "label"))
                })
            });
        // `tcp flags ! syn`, as newer versions have it
        if op.is_none() && self.take_sign("!") {
            let value = self.value()?;
            let masked = json!({ "&": [left, value] });
            return Ok(json!({ "match": { "op": "==", "left": masked, "right": 0 } }));
        }
        let right = self.value()?;
        // `tcp flags syn / syn,rst`
        if bits && self.take_sign("/") {
            let mask = self.value()?;
            let masked = json!({ "&": [left, mask] });
            let op = op.unwrap_or("==");
            return Ok(json!({ "match": { "op": op, "left": masked, "right": right } }));
        }
        let set = right.get("set").is_some() || right.as_str().is_some_and(|s| s.starts_with('@'));
        let op = op.unwrap_or(if bits && !set { "in" } else { "==" });
        Ok(json!({ "match": { "op": op, "left": left, "right": right } }))
    }

    fn operator(&mut self) -> Option<&'static str> {
        let op = match self.peek() {
            Token::Sign(s @ ("==" | "!=" | "<" | ">" | "<=" | ">=")) => *s,
            Token::Word(w) => match w.as_str() {
                "eq" => "==",
                "ne" => "!=",
                "lt" => "<",
                "gt" => ">",
                "le" => "<=",
                "ge" => ">=",
                _ => return None,
            },
            _ => return None,
        };
        self.at += 1;
        Some(op)
    }

    /// What something is set to: a value, or what an expression or a map says.
    fn set_to(&mut self) -> Read<Value> {
        if !self.begins_expression() {
            return self.value();
        }
        let key = self.expression()?;
        if !self.take("map") {
            return Ok(key);
        }
        let data = match self.is_sign("{") {
            true => json!({ "set": self.elements()? }),
            false => json!(self.name("a map")?),
        };
        Ok(json!({ "map": { "key": key, "data": data } }))
    }

    fn log(&mut self) -> Read<Value> {
        // Bound: each turn takes a token at least
        loop {
            if self.take("prefix")
                || self.take("level")
                || self.take("group")
                || self.take("snaplen")
                || self.take("queue-threshold")
            {
                self.name("a value")?;
            } else if self.take("flags") {
                // `flags all`, `flags tcp sequence,options`
                self.name("a flag")?;
                for more in ["sequence", "options", "uid", "ether"] {
                    if self.is_word(more) || self.is_sign(",") {
                        self.take_sign(",");
                        self.take(more);
                    }
                }
            } else {
                return Ok(json!({ "log": null }));
            }
        }
    }

    /// `rate [over] N[ UNIT]/PER [burst N UNIT]`, `name NAME`
    pub(super) fn limit(&mut self) -> Read<Value> {
        if self.take("name") {
            return Ok(json!({ "limit": self.name("a name")? }));
        }
        if !self.take("rate") {
            return self.wrong("expected 'rate'");
        }
        let mut out = Map::new();
        if self.take("over") {
            out.insert("inv".into(), json!(true));
        } else {
            self.take("until");
        }
        // "10/second", or "10 mbytes/second"
        let first = self.name("a rate")?;
        let (n, per) = match first.split_once('/') {
            Some((n, per)) => (n.to_string(), per.to_string()),
            None => {
                let unit = self.name("a unit and a time")?;
                match unit.split_once('/') {
                    Some((unit, per)) => {
                        out.insert("rate_unit".into(), json!(unit));
                        (first, per.to_string())
                    }
                    None => return self.wrong(format!("rate '{first} {unit}'")),
                }
            }
        };
        let Ok(n) = n.parse::<u64>() else {
            return self.wrong(format!("rate '{n}/{per}'"));
        };
        out.insert("rate".into(), json!(n));
        out.insert("per".into(), json!(per));
        if self.take("burst") {
            let n = self.number("a number")?;
            out.insert("burst".into(), json!(n));
            let unit = self.name("packets, or a unit of bytes")?;
            if unit != "packets" {
                out.insert("burst_unit".into(), json!(unit));
            }
        }
        Ok(json!({ "limit": out }))
    }

    /// `reject [with icmp [type] NAME | with tcp reset]`
    fn reject(&mut self) -> Read<Value> {
        if !self.take("with") {
            return Ok(json!({ "reject": null }));
        }
        let kind = self.name("icmp, icmpv6, icmpx or tcp")?;
        if kind == "tcp" {
            self.name("reset")?;
            return Ok(json!({ "reject": { "type": "tcp reset" } }));
        }
        self.take("type");
        let code = self.name("a code")?;
        Ok(json!({ "reject": { "type": kind, "expr": code } }))
    }

    /// `masquerade [to :PORTS] [FLAGS]`, `redirect [to :PORT]`
    fn own_address(&mut self, kind: &str) -> Read<Value> {
        let mut out = Map::new();
        if self.take("to") {
            self.take_sign(":");
            let to = self.name("a port")?;
            let to = to.trim_start_matches(':');
            out.insert("port".into(), self.ports(to)?);
        }
        self.flags(&mut out)?;
        Ok(match out.is_empty() {
            true => json!({ kind: null }),
            false => json!({ kind: out }),
        })
    }

    /// `80`, `80-90`
    fn ports(&self, text: &str) -> Read<Value> {
        let one = |s: &str| match crate::import::terms::service(s) {
            Ok(n) => Ok(json!(n)),
            Err(e) => self.wrong(e),
        };
        match text.split_once('-') {
            Some((a, b)) if a.parse::<u16>().is_ok() => Ok(json!({ "range": [one(a)?, one(b)?] })),
            _ => one(text),
        }
    }

    /// `random`, `fully-random`, `persistent`, `netmap`
    fn flags(&mut self, out: &mut Map<String, Value>) -> Read<()> {
        let mut all = Vec::new();
        // Bound: each turn takes a token
        while let Token::Word(w) = self.peek().clone() {
            if !matches!(
                w.as_str(),
                "random" | "fully-random" | "persistent" | "netmap"
            ) {
                break;
            }
            all.push(w);
            self.at += 1;
            self.take_sign(",");
        }
        if !all.is_empty() {
            out.insert("flags".into(), json!(all));
        }
        Ok(())
    }

    /// `snat [ip] to ADDRESS[:PORT] [FLAGS]`
    fn translation(&mut self, kind: &str) -> Read<Value> {
        let mut out = Map::new();
        for family in ["ip", "ip6"] {
            if self.take(family) {
                out.insert("family".into(), json!(family));
            }
        }
        // `prefix to`, `addr . port to`
        if self.take("prefix") {
            out.insert("flags".into(), json!(["netmap"]));
        }
        if self.take("addr") {
            self.take_sign(".");
            self.take("port");
        }
        // it may be left out
        self.take("to");
        if self.begins_expression() {
            let to = self.set_to()?;
            out.insert("addr".into(), to);
            self.flags(&mut out)?;
            return Ok(json!({ kind: out }));
        }
        let to = match self.take_sign(":") {
            true => format!(":{}", self.name("a port")?),
            false => self.name("an address")?,
        };
        let (address, port) = ends(&to);
        let mut address = address.to_string();
        if self.take("-") {
            address = format!("{address}-{}", self.name("an address")?);
        }
        if !address.is_empty() {
            out.insert("addr".into(), address_value(&address));
        }
        // "10.0.0.1 : 80"
        let mut port = port.map(str::to_string);
        if self.take_sign(":") {
            port = Some(self.name("a port")?);
        }
        if let Some(port) = port {
            out.insert("port".into(), self.ports(&port)?);
        }
        self.flags(&mut out)?;
        Ok(json!({ kind: out }))
    }

    /// `add @set { EXPRESSION [timeout T] [STATEMENT] }`
    fn change_set(&mut self, op: &str) -> Read<Value> {
        let mut name = String::new();
        // older versions have it first
        if !matches!(self.peek(), Token::Word(w) if w.starts_with('@')) {
            let elem = self.expression()?;
            self.name("a set")?;
            return Ok(json!({ "set": { "op": op, "elem": elem } }));
        }
        name.push_str(&self.name("a set")?);
        self.skip_block()?;
        Ok(json!({ "set": { "op": op, "set": name } }))
    }
}

/// An address, and a port behind it.
fn ends(text: &str) -> (&str, Option<&str>) {
    if let Some((a, port)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        return (a, port.strip_prefix(':'));
    }
    match text.matches(':').count() {
        1 => text
            .split_once(':')
            .map_or((text, None), |(a, p)| (a, Some(p))),
        _ => (text, None),
    }
}

fn address_value(text: &str) -> Value {
    if let Some((a, n)) = text.split_once('/')
        && let Ok(n) = n.parse::<u8>()
    {
        return json!({ "prefix": { "addr": a, "len": n } });
    }
    match text.split_once('-') {
        Some((a, b)) => json!({ "range": [a, b] }),
        None => json!(text),
    }
}
