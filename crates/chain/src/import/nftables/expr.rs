//! The expressions of a rule.

use super::asks::{self, Asked};
use super::changes;
use super::set::{self, Sets};
use crate::import::asks::Question;
use crate::import::chains::{InterfaceTest, Interfaces, Property, Target};
use crate::import::mark::MarkTest;
use crate::import::own::OwnTest;
use crate::import::ports::{complement, test, union};
use crate::import::rule::Verdict;
use crate::import::terms::{Family, icmp_code, icmp_type, tcp_flag};
use onefold_elements::connection::ConnTest;
use serde_json::Value;

/// Understands rules.
pub struct Reader<'a> {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Which interface is which.
    pub interfaces: &'a Interfaces,
    /// Named sets.
    pub sets: &'a Sets<'a>,
    /// Reject statements so far.
    pub rejects: usize,
    /// Log statements so far.
    pub logs: usize,
    /// The rules are of a chain of type nat.
    pub nat: bool,
    /// May packets be sent to programs of the host, and if not, why?
    pub redirects: Result<Option<std::net::IpAddr>, &'static str>,
}

/// A rule while its expressions are read.
#[derive(Default)]
pub(super) struct Draft {
    pub tests: Vec<String>,
    pub interfaces: Vec<InterfaceTest>,
    pub own: Vec<OwnTest>,
    pub marks: Vec<MarkTest>,
    /// Protocols that are left by the tests so far; `None`: any.
    protocols: Option<Vec<u8>>,
    /// It cannot match a packet of this family.
    pub never: bool,
    /// What elements are asked, and behind what.
    pub asked: Vec<Asked>,
}

impl Draft {
    /// What an element adds to it: nothing so far.
    pub fn behind(&self) -> Draft {
        Draft {
            protocols: self.protocols.clone(),
            ..Draft::default()
        }
    }
}

/// One comparison.
pub(super) struct Match<'a> {
    pub op: &'a str,
    pub right: &'a Value,
    pub table: &'a str,
}

impl Reader<'_> {
    /// What a statement, or a verdict of a map, does with packets.
    pub(super) fn verdict(&self, kind: &str, v: &Value, table: &str) -> Result<Target, String> {
        let goal = || {
            let name = v.get("target").and_then(Value::as_str).unwrap_or("");
            super::key(table, name)
        };
        Ok(match kind {
            "accept" => Target::Verdict(Verdict::Allow),
            "drop" | "reject" => Target::Verdict(Verdict::Deny),
            "return" => Target::Return,
            "jump" => Target::Jump(goal()),
            "goto" => Target::Goto(goal()),
            "continue" => Target::Nothing,
            other => return Err(format!("verdict '{other}' is not supported")),
        })
    }

    /// `ct state established,related`, `ct direction reply`, `ct status assured`.
    fn connection(&self, key: &str, m: &Match<'_>, d: &mut Draft) -> Result<(), String> {
        let not = negated(m.op, &format!("ct {key}"))?;
        let mut values = Vec::new();
        for v in self.sets.values(m.table, m.right)? {
            values.extend(words(v)?);
        }
        let test = connection_test(key, &values)?;
        d.tests.push(match (not, key) {
            (false, _) => test,
            (true, "state") => format!("not {test}"),
            // no test of a connection holds, or fails, where there is none
            (true, _) => format!("not {test} && not ct state invalid,untracked"),
        });
        Ok(())
    }

    pub(super) fn comparison(
        &mut self,
        v: &Value,
        table: &str,
        d: &mut Draft,
    ) -> Result<(), String> {
        let op = v.get("op").and_then(Value::as_str).unwrap_or("==");
        let (Some(left), Some(right)) = (v.get("left"), v.get("right")) else {
            return Err("a match without 'left' and 'right'".into());
        };
        let m = Match { op, right, table };
        if let Some((of, mask)) = changes::masked_mark(left) {
            let values = self.sets.values(table, right)?;
            d.marks.push(changes::mark_test(of, mask?, op, &values)?);
            return Ok(());
        }
        if let Some(fib) = left.get("fib") {
            let test = self.own_address(fib, &m)?;
            d.own.push(test);
            return Ok(());
        }
        if let Some(n) = left.get("numgen") {
            let values = self.sets.values(table, right)?;
            let (question, not) = asks::numgen(n, op, &values)?;
            if matches!(question, Question::Turn { .. }) && !not {
                return d.ask_counting("match on 'numgen inc'", question, false);
            }
            if matches!(question, Question::Turn { .. }) {
                return Err("'!=' on numgen inc is not supported".into());
            }
            d.ask(question, not);
            return Ok(());
        }
        if let Some(o) = left.get("tcp option") {
            let values = self.sets.values(table, right)?;
            need(6, self.family, d);
            let (question, not) = asks::tcp_option(o, op, &values)?;
            d.ask(question, not);
            return Ok(());
        }
        if let Some(h) = left.get("exthdr") {
            return self.extension(h, d);
        }
        if let Some(p) = left.get("payload") {
            let s = |k: &str| p.get(k).and_then(Value::as_str).unwrap_or("");
            return self.payload(s("protocol"), s("field"), &m, d);
        }
        if let Some(meta) = left.get("meta") {
            let k = meta
                .get("key")
                .or(Some(meta))
                .and_then(Value::as_str)
                .unwrap_or("");
            return self.meta(k, &m, d);
        }
        if let Some(ct) = left.get("ct") {
            let key = ct.get("key").and_then(Value::as_str).unwrap_or("");
            if ct.get("dir").is_some() {
                return Err(format!(
                    "match on 'ct {key}' of a direction is not supported"
                ));
            }
            return self.connection(key, &m, d);
        }
        if let Some([p, mask]) = left.get("&").and_then(Value::as_array).map(Vec::as_slice) {
            let f = p.get("payload");
            let is = |k: &str, v: &str| f.and_then(|f| f.get(k)).is_some_and(|x| x == v);
            if is("protocol", "tcp") && is("field", "flags") {
                return self.flags(Some(mask), &m, d);
            }
        }
        let what = left.as_object().and_then(|m| m.iter().next()).map_or(
            "expression".to_string(),
            |(k, v)| {
                let key = v.get("key").and_then(Value::as_str).unwrap_or("");
                format!("{k} {key}").trim_end().to_string()
            },
        );
        Err(format!("match on '{what}' is not supported"))
    }

    /// The packet has a header of this protocol.
    pub(super) fn needs(&self, protocol: &str, d: &mut Draft) -> Result<(), String> {
        let number = match (protocol, self.family) {
            ("tcp", _) => 6,
            ("udp", _) => 17,
            ("icmp", Family::V4) | ("icmpv6", Family::V6) => self.family.icmp(),
            _ => return Err(format!("'!=' with values of '{protocol}' is not supported")),
        };
        need(number, self.family, d);
        Ok(())
    }

    fn payload(
        &mut self,
        protocol: &str,
        field: &str,
        m: &Match<'_>,
        d: &mut Draft,
    ) -> Result<(), String> {
        let v4 = self.family == Family::V4;
        match (protocol, field) {
            ("ip", _) if !v4 => d.never = true,
            ("ip6", _) if v4 => d.never = true,
            ("icmpv6", _) if v4 => d.never = true,
            ("icmp", _) if !v4 => d.never = true,
            ("ip" | "ip6", "saddr" | "daddr") => {
                let way = if field == "saddr" { "src" } else { "dst" };
                let mut ranges = Vec::new();
                for v in self.sets.values(m.table, m.right)? {
                    ranges.push(set::addresses(self.family, v)?);
                }
                let t = self
                    .family
                    .address_test(way, &ranges)
                    .unwrap_or_else(|| "true".into());
                d.tests.push(equality(t, m.op, field)?);
            }
            ("ip", "protocol") => self.protocol(m, d)?,
            ("ip", "ttl") => d.tests.push(self.number("ip[8:1]", 255, m)?),
            ("ip", "length") => d.tests.push(self.number("ip[2:2]", 65_535, m)?),
            ("ip", "id") => d.tests.push(self.number("ip[4:2]", 65_535, m)?),
            ("ip6", "nexthdr") => {
                let t = self.named("ip[6:1]", 255, m, &set::protocol_name)?;
                d.tests.push(t);
            }
            ("ip6", "hoplimit") => d.tests.push(self.number("ip[7:1]", 255, m)?),
            ("tcp" | "udp", "sport" | "dport") => {
                need(if protocol == "tcp" { 6 } else { 17 }, self.family, d);
                d.tests.push(self.ports(field, m)?);
            }
            ("th", "sport" | "dport") => {
                // our expressions know the ports of TCP and UDP
                let known = d
                    .protocols
                    .as_ref()
                    .is_some_and(|p| p.iter().all(|p| *p == 6 || *p == 17));
                if !known {
                    return Err(format!(
                        "match on 'th {field}' without a protocol of tcp, udp before it is not supported"
                    ));
                }
                d.tests.push(self.ports(field, m)?);
            }
            ("tcp", "flags") => self.flags(None, m, d)?,
            ("ether", _) => {
                let not = negated(m.op, "'ether'")?;
                let values = self.sets.values(m.table, m.right)?;
                d.ask(asks::frame(field, &values)?, not);
            }
            ("icmp" | "icmpv6", "type" | "code") => {
                need(self.family.icmp(), self.family, d);
                let family = self.family;
                let word = family.icmp_word();
                // the same word is a type and, as a code, another number (no-route)
                let at = if field == "type" { 0 } else { 1 };
                let by_name = |s: &str| match at {
                    0 => icmp_type(family, s).map(|(t, _)| u32::from(t)),
                    _ => icmp_code(family, s),
                };
                d.tests
                    .push(self.named(&format!("{word}[{at}:1]"), 255, m, &by_name)?);
            }
            _ => return Err(format!("match on '{protocol} {field}' is not supported")),
        }
        Ok(())
    }

    fn meta(&mut self, k: &str, m: &Match<'_>, d: &mut Draft) -> Result<(), String> {
        match k {
            "l4proto" => self.protocol(m, d),
            "iifname" | "oifname" | "iif" | "oif" => {
                if self.interfaces.inside.is_none() && self.interfaces.outside.is_none() {
                    return Err(format!(
                        "the rule names interfaces ({k}); say which is which with 'interfaces: {{ inside: NAME, outside: NAME }}'"
                    ));
                }
                let not = negated(m.op, k)?;
                let mut names = Vec::new();
                for v in self.sets.values(m.table, m.right)? {
                    let n = v.as_str().ok_or_else(|| format!("interface {v}"))?;
                    names.push(n.to_string());
                }
                d.interfaces.push(InterfaceTest {
                    out: k.starts_with('o'),
                    not,
                    names,
                    of: Property::Name,
                });
                Ok(())
            }
            "iifgroup" | "oifgroup" | "iiftype" | "oiftype" => self.property(k, m, d),
            "pkttype" => {
                let not = negated(m.op, k)?;
                let values = self.sets.values(m.table, m.right)?;
                let kinds = asks::kinds(&values)?;
                match kinds.as_slice() {
                    [one] => d.ask(Question::Kind(*one), not),
                    // none of them
                    all if not => all.iter().for_each(|k| d.ask(Question::Kind(*k), true)),
                    _ => {
                        return Err("several packet types are not supported; a rule each is".into());
                    }
                }
                Ok(())
            }
            "length" => {
                let test = match self.family {
                    Family::V4 => self.number("ip[2:2]", 65_535, m)?,
                    Family::V6 => {
                        return Err("match on 'meta length' of IPv6 is not supported".into());
                    }
                };
                d.tests.push(test);
                Ok(())
            }
            "nfproto" | "protocol" => {
                let not = negated(m.op, k)?;
                let ours: &[&str] = match self.family {
                    Family::V4 => &["ipv4", "ip"],
                    Family::V6 => &["ipv6", "ip6"],
                };
                let is = self
                    .sets
                    .values(m.table, m.right)?
                    .iter()
                    .any(|v| v.as_str().is_some_and(|s| ours.contains(&s)));
                d.never |= is == not;
                Ok(())
            }
            _ => Err(format!("match on 'meta {k}' is not supported")),
        }
    }

    fn protocol(&mut self, m: &Match<'_>, d: &mut Draft) -> Result<(), String> {
        let not = negated(m.op, "protocol")?;
        let mut all = Vec::new();
        for v in self.sets.values(m.table, m.right)? {
            let (lo, hi) = set::numbers(v, 255, &set::protocol_name)?;
            all.extend((lo..=hi).map(|n| n as u8));
        }
        let tests: Vec<String> = all.iter().map(|p| self.family.protocol_test(*p)).collect();
        let t = any_of(tests);
        d.tests.push(if not { format!("not {t}") } else { t });
        if !not {
            match &mut d.protocols {
                Some(p) => p.retain(|p| all.contains(p)),
                None => d.protocols = Some(all),
            }
        }
        Ok(())
    }

    fn ports(&self, field: &str, m: &Match<'_>) -> Result<String, String> {
        let way = if field == "sport" { "src" } else { "dst" };
        let mut set = Vec::new();
        for v in self.sets.values(m.table, m.right)? {
            let (lo, hi) = set::numbers(v, 65_535, &set::port_name)?;
            set.push((lo as u16, hi as u16));
        }
        let mut set = union(set);
        let ordered = |set: &[(u16, u16)]| match set {
            [(a, b)] if a == b => Ok(*a),
            _ => Err(format!("'{}' with something else than one port", m.op)),
        };
        match m.op {
            "==" | "in" => {}
            "!=" => set = complement(&set),
            "<" => set = below(ordered(&set)?),
            ">=" => set = complement(&below(ordered(&set)?)),
            "<=" => set = vec![(0, ordered(&set)?)],
            ">" => set = complement(&vec![(0, ordered(&set)?)]),
            op => return Err(format!("operator '{op}' on ports")),
        }
        if set.is_empty() {
            return Ok("false".into());
        }
        Ok(test(&set, way).unwrap_or_else(|| format!("{way} port >= 0")))
    }

    fn number(&self, field: &str, max: u32, m: &Match<'_>) -> Result<String, String> {
        let no_names = |s: &str| s.parse::<u32>().map_err(|_| format!("value '{s}'"));
        self.named(field, max, m, &no_names)
    }

    /// A test of a header field; `name` knows the names of values.
    fn named(
        &self,
        field: &str,
        max: u32,
        m: &Match<'_>,
        name: &dyn Fn(&str) -> Result<u32, String>,
    ) -> Result<String, String> {
        let mut tests = Vec::new();
        let values = self.sets.values(m.table, m.right)?;
        for v in &values {
            let (lo, hi) = set::numbers(v, max, name)?;
            if matches!(m.op, "<" | ">" | "<=" | ">=") {
                if lo != hi || values.len() != 1 {
                    return Err(format!("'{}' with something else than one value", m.op));
                }
                return Ok(format!("{field} {} {lo}", m.op));
            }
            tests.push(match lo == hi {
                true => format!("{field} == {lo}"),
                false => format!("({field} >= {lo} && {field} <= {hi})"),
            });
        }
        equality(any_of(tests), m.op, field)
    }

    /// `tcp flags syn` (one of them is set), `tcp flags & mask == value`.
    fn flags(&mut self, mask: Option<&Value>, m: &Match<'_>, d: &mut Draft) -> Result<(), String> {
        need(6, self.family, d);
        if let (None, Some(set)) = (mask, m.right.get("set").and_then(Value::as_array)) {
            // these values, all bits of them
            let one = |v: &Value| Ok(format!("tcp[13:1] == {}", bits(set::plain(v))?));
            let all = set.iter().map(one).collect::<Result<Vec<_>, String>>()?;
            d.tests.push(equality(any_of(all), m.op, "TCP flags")?);
            return Ok(());
        }
        let value = bits(m.right)?;
        let t = match (mask, m.op) {
            (None, "in") => format!("tcp[13:1] & {value} != 0"),
            (None, "==") => format!("tcp[13:1] == {value}"),
            (None, "!=") => format!("tcp[13:1] != {value}"),
            // none of them is set
            (None, "!") => format!("tcp[13:1] & {value} == 0"),
            (Some(k), "==") => format!("tcp[13:1] & {} == {value}", bits(k)?),
            (Some(k), "!=") => format!("tcp[13:1] & {} != {value}", bits(k)?),
            (_, op) => return Err(format!("operator '{op}' on TCP flags")),
        };
        d.tests.push(t);
        Ok(())
    }
}

/// A test of a packet's connection, in the words of firewall rules.
fn connection_test(key: &str, values: &[String]) -> Result<String, String> {
    for v in values {
        ConnTest::parse(key, v)?;
    }
    match values.is_empty() {
        true => Err(format!("match on 'ct {key}' without a value")),
        false => Ok(format!("ct {key} {}", values.join(","))),
    }
}

/// A word, or several, as a list or joined by `|`.
fn words(v: &Value) -> Result<Vec<String>, String> {
    let word = |v: &Value| v.as_str().map(str::to_string);
    let list = v
        .as_array()
        .or_else(|| v.get("|").and_then(Value::as_array));
    let all = match list {
        Some(l) => l.iter().map(word).collect::<Option<Vec<_>>>(),
        None => word(v).map(|w| vec![w]),
    };
    all.ok_or_else(|| {
        format!(
            "value {}",
            v.to_string().chars().take(60).collect::<String>()
        )
    })
}

/// A rule about a protocol's header is about packets of that protocol.
fn need(p: u8, family: Family, d: &mut Draft) {
    if d.protocols.as_deref() != Some(&[p]) {
        d.tests.push(family.protocol_test(p));
        d.protocols = Some(vec![p]);
    }
}

fn below(p: u16) -> Vec<(u16, u16)> {
    match p.checked_sub(1) {
        Some(hi) => vec![(0, hi)],
        None => Vec::new(),
    }
}

fn any_of(tests: Vec<String>) -> String {
    match tests.len() {
        0 => "false".into(),
        1 => tests.concat(),
        _ => format!("({})", tests.join(" or ")),
    }
}

pub(super) fn negated(op: &str, what: &str) -> Result<bool, String> {
    match op {
        "==" | "in" => Ok(false),
        "!=" => Ok(true),
        _ => Err(format!("operator '{op}' on {what}")),
    }
}

fn equality(test: String, op: &str, what: &str) -> Result<String, String> {
    Ok(match negated(op, what)? {
        false => test,
        // not of all of it, also where it is several words
        true => format!("not ({test})"),
    })
}

fn bits(v: &Value) -> Result<u32, String> {
    if let Some(n) = v.as_u64() {
        return u32::try_from(n)
            .ok()
            .filter(|n| *n <= 255)
            .ok_or_else(|| format!("TCP flags {n}"));
    }
    if let Some(s) = v.as_str() {
        return tcp_flag(s);
    }
    let list = v
        .as_array()
        .or_else(|| v.get("|").and_then(Value::as_array));
    match list {
        // nested as deep as there are flags at most
        Some(l) if l.len() <= 16 => l.iter().try_fold(0, |n, f| match f.get("|") {
            Some(Value::Array(inner)) => inner.iter().try_fold(n, |n, f| Ok(n | flag(f)?)),
            _ => Ok(n | flag(f)?),
        }),
        _ => Err(format!("TCP flags {v}")),
    }
}

fn flag(v: &Value) -> Result<u32, String> {
    v.as_str()
        .map_or_else(|| Err(format!("TCP flag {v}")), tcp_flag)
}
