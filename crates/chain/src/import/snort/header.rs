//! The header of a rule: `alert tcp $EXTERNAL_NET any -> $HOME_NET [80,8000:8080]`.

use super::{Action, Context};
use crate::import::ports::{ANY, Ports, complement, test, union};
use std::net::Ipv4Addr;

/// How deep lists and variables may be nested.
const MAX_DEPTH: usize = 16;
/// Most entries of an address or port list, with everything in it.
const MAX_ENTRIES: usize = 4096;

/// A header, read.
pub struct Header {
    /// What the rule does.
    pub action: Action,
    /// Conditions, as IPFilter expressions that all must hold.
    pub tests: Vec<String>,
}

/// Reads it; what is wrong goes to `reasons`.
pub fn parse(text: &str, cx: &Context, reasons: &mut Vec<String>) -> Option<Header> {
    let words = fields(text);
    let [action, proto, src, sport, arrow, dst, dport] = words.as_slice() else {
        reasons.push(format!(
            "expected ACTION PROTOCOL SOURCE PORT -> DESTINATION PORT, found {} words",
            words.len()
        ));
        return None;
    };
    let action = match action.as_str() {
        "alert" => Action::Alert,
        "drop" | "sdrop" => Action::Drop,
        "pass" => Action::Pass,
        other => {
            reasons.push(format!("action '{other}'"));
            Action::Alert
        }
    };
    let ported = matches!(proto.as_str(), "tcp" | "tcp-pkt" | "udp");
    let mut tests = Vec::new();
    match proto.as_str() {
        "tcp" | "tcp-pkt" => tests.push("tcp".to_string()),
        "udp" => tests.push("udp".to_string()),
        "icmp" => tests.push("icmp".to_string()),
        "ip" | "ipv4" | "ip4" => {}
        other => reasons.push(format!("protocol '{other}'")),
    }
    let mut side = |address: &str, port: &str, way: &str| -> Vec<String> {
        let mut v = Vec::new();
        match addresses(address, cx, way) {
            Ok(t) => v.extend(t),
            Err(e) => reasons.push(e),
        }
        match ports(port, cx) {
            Ok(p) => {
                let t = test(&p, way);
                if t.is_some() && !ported {
                    reasons.push(format!("ports of protocol '{proto}'"));
                }
                v.extend(t);
            }
            Err(e) => reasons.push(e),
        }
        v
    };
    match arrow.as_str() {
        "->" => {
            tests.extend(side(src, sport, "src"));
            tests.extend(side(dst, dport, "dst"));
        }
        "<>" => {
            let mut to = side(src, sport, "src");
            to.extend(side(dst, dport, "dst"));
            let mut fro = side(src, sport, "dst");
            fro.extend(side(dst, dport, "src"));
            // one way without conditions means both without
            if !to.is_empty() {
                tests.push(format!("(({}) or ({}))", to.join(" && "), fro.join(" && ")));
            }
        }
        other => reasons.push(format!("direction '{other}'")),
    }
    Some(Header { action, tests })
}

/// Splits at white space that is not within brackets.
fn fields(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut depth = 0usize;
    let mut fresh = true;
    for c in text.chars() {
        if c.is_whitespace() {
            fresh |= depth == 0;
            continue;
        }
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if fresh {
            out.push(String::new());
            fresh = false;
        }
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out
}

/// One entry of a list.
enum Item<'a> {
    Word(&'a str),
    List(Vec<&'a str>),
    Variable(&'a str),
}

/// Removes `!`s; tells whether there is an odd number of them.
fn negation(mut s: &str) -> (bool, &str) {
    let mut not = false;
    s = s.trim();
    while let Some(rest) = s.strip_prefix('!') {
        not = !not;
        s = rest.trim_start();
    }
    (not, s)
}

fn item(s: &str) -> Result<Item<'_>, String> {
    if let Some(v) = s.strip_prefix('$') {
        return Ok(Item::Variable(v));
    }
    let Some(inner) = s.strip_prefix('[') else {
        return Ok(Item::Word(s));
    };
    let inner = inner
        .strip_suffix(']')
        .ok_or_else(|| format!("list '{s}' without ']'"))?;
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (i, c) in inner.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(inner[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(inner[start..].trim());
    Ok(Item::List(parts))
}

fn variable<'a>(name: &str, cx: &'a Context) -> Result<&'a str, String> {
    cx.variables
        .get(name)
        .map(|v| v.trim())
        .ok_or_else(|| format!("variable ${name} is not given"))
}

/// A set of addresses as a test; `None`: any.
fn addresses(text: &str, cx: &Context, way: &str) -> Result<Option<String>, String> {
    let mut budget = MAX_ENTRIES;
    let t = address_test(text, cx, way, 0, &mut budget)?;
    Ok(match t.as_str() {
        "true" => None,
        _ => Some(t),
    })
}

fn address_test(
    text: &str,
    cx: &Context,
    way: &str,
    depth: usize,
    budget: &mut usize,
) -> Result<String, String> {
    *budget = budget
        .checked_sub(1)
        .filter(|_| depth < MAX_DEPTH)
        .ok_or("addresses nested too deeply, or too many")?;
    let (not, s) = negation(text);
    let inner = match item(s)? {
        Item::Word("any") => "true".to_string(),
        Item::Word(w) => prefix(w, way)?,
        Item::Variable(v) => address_test(variable(v, cx)?, cx, way, depth + 1, budget)?,
        Item::List(parts) => {
            // those without '!' are alternatives; those with it all take away
            let (mut yes, mut no) = (Vec::new(), Vec::new());
            for p in parts {
                let (n, rest) = negation(p);
                let t = address_test(rest, cx, way, depth + 1, budget)?;
                if n { no.push(t) } else { yes.push(t) }
            }
            let mut all = Vec::new();
            if !yes.is_empty() && !yes.iter().any(|t| t == "true") {
                all.push(format!("({})", yes.join(" or ")));
            }
            all.extend(no.iter().map(|t| format!("not {t}")));
            match all.len() {
                0 => "true".to_string(),
                1 if !no.is_empty() => format!("({})", all[0]),
                1 => all[0].clone(),
                _ => format!("({})", all.join(" && ")),
            }
        }
    };
    Ok(match (not, inner.as_str()) {
        (false, _) => inner,
        (true, "true") => return Err("'!any' matches nothing".into()),
        (true, _) => format!("(not {inner})"),
    })
}

fn prefix(w: &str, way: &str) -> Result<String, String> {
    let (a, l) = w.split_once('/').unwrap_or((w, "32"));
    if a.contains(':') && a.parse::<std::net::Ipv6Addr>().is_ok() {
        return Err(format!("IPv6 address '{w}'"));
    }
    let bad = || format!("address '{w}'");
    let a: Ipv4Addr = a.parse().map_err(|_| bad())?;
    let l: u32 = l.parse().ok().filter(|l| *l <= 32).ok_or_else(bad)?;
    let net = u32::from(a) & u32::MAX.checked_shl(32 - l).unwrap_or(0);
    Ok(match l {
        0 => "true".to_string(),
        32 => format!("{way} host {a}"),
        _ => format!("{way} net {}/{l}", Ipv4Addr::from(net)),
    })
}

fn ports(text: &str, cx: &Context) -> Result<Ports, String> {
    let mut budget = MAX_ENTRIES;
    port_set(text, cx, 0, &mut budget)
}

fn port_set(text: &str, cx: &Context, depth: usize, budget: &mut usize) -> Result<Ports, String> {
    *budget = budget
        .checked_sub(1)
        .filter(|_| depth < MAX_DEPTH)
        .ok_or("ports nested too deeply, or too many")?;
    let (not, s) = negation(text);
    let set = match item(s)? {
        Item::Word("any") => vec![ANY],
        Item::Word(w) => vec![port_range(w)?],
        Item::Variable(v) => port_set(variable(v, cx)?, cx, depth + 1, budget)?,
        Item::List(parts) => {
            let (mut yes, mut no) = (Ports::new(), Ports::new());
            let mut positive = false;
            for p in parts {
                let (n, rest) = negation(p);
                let set = port_set(rest, cx, depth + 1, budget)?;
                if n {
                    no.extend(set);
                } else {
                    positive = true;
                    yes.extend(set);
                }
            }
            if !positive {
                yes.push(ANY);
            }
            // everything that is in `yes` and not in `no`
            complement(&union([complement(&union(yes)), no].concat()))
        }
    };
    let set = if not { complement(&set) } else { set };
    if set.is_empty() {
        return Err(format!("ports '{text}' are none"));
    }
    Ok(set)
}

fn port_range(w: &str) -> Result<(u16, u16), String> {
    let bad = || format!("port '{w}'");
    let n = |s: &str, empty: u16| match s.trim() {
        "" => Ok(empty),
        s => s.parse::<u16>().map_err(|_| bad()),
    };
    let (lo, hi) = match w.split_once(':') {
        Some((a, b)) => (n(a, 0)?, n(b, u16::MAX)?),
        None if w.is_empty() => return Err(bad()),
        None => (n(w, 0)?, n(w, 0)?),
    };
    if lo <= hi { Ok((lo, hi)) } else { Err(bad()) }
}
