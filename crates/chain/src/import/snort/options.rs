//! The options of a rule: what stands in its parentheses.

use super::{Context, pcre};
use onefold_elements::payload::filter::rule::{MAX_CONDITIONS, MAX_LITERAL, quote};

/// Options, read.
#[derive(Default)]
pub struct Options {
    /// `sid`.
    pub sid: Option<u32>,
    /// `msg`.
    pub msg: String,
    /// Conditions on headers, as IPFilter expressions that all must hold.
    pub tests: Vec<String>,
    /// Conditions on the payload, in PayloadFilter's language.
    pub conditions: Vec<String>,
}

/// Options that say nothing about packets.
const REMARKS: &[&str] = &[
    "rev",
    "gid",
    "reference",
    "classtype",
    "metadata",
    "priority",
    "target",
    "rem",
    "rawbytes",
    "fast_pattern",
];

/// A `content` while its modifiers are read.
struct Content {
    not: bool,
    bytes: Vec<u8>,
    nocase: bool,
    offset: Option<i32>,
    depth: Option<i32>,
    distance: Option<i32>,
    within: Option<i32>,
    ends: bool,
}

impl Content {
    fn finish(self, out: &mut Vec<String>, reasons: &mut Vec<String>) {
        let len = self.bytes.len() as i32;
        if (self.offset.is_some() || self.depth.is_some())
            && (self.distance.is_some() || self.within.is_some())
        {
            reasons.push("'offset' or 'depth' together with 'distance' or 'within'".into());
        }
        if self.offset.is_some_and(|o| o < 0) {
            reasons.push("negative 'offset'".into());
        }
        for (name, v) in [("depth", self.depth), ("within", self.within)] {
            if v.is_some_and(|v| v < len) {
                reasons.push(format!("'{name}' less than the content's length"));
            }
        }
        if self.ends && self.not {
            reasons.push("'endswith' of a negated content".into());
        }
        let mut s = String::new();
        if self.not {
            s.push_str("NOT ");
        }
        s.push_str(&format!("LITERAL {}", quote(&self.bytes)));
        if self.nocase {
            s.push_str(" NOCASE");
        }
        for (name, v) in [
            ("OFFSET", self.offset),
            ("DEPTH", self.depth),
            ("DISTANCE", self.distance),
            ("WITHIN", self.within),
        ] {
            if let Some(v) = v {
                s.push_str(&format!(" {name} {v}"));
            }
        }
        out.push(s);
        if self.ends {
            out.push("NOT AFTER 1".into());
        }
    }
}

/// Reads them; what cannot be expressed goes to `reasons`.
pub fn parse(body: &str, cx: &Context, reasons: &mut Vec<String>) -> Options {
    let mut o = Options::default();
    let mut open: Option<Content> = None;
    for text in split(body) {
        let (key, value) = match text.split_once(':') {
            Some((k, v)) => (k.trim(), v.trim()),
            None => (text.trim(), ""),
        };
        if modifier(key, value, &mut open, reasons) {
            continue;
        }
        // remarks may stand between a content and its modifiers
        if !REMARKS.contains(&key)
            && let Some(c) = open.take()
        {
            c.finish(&mut o.conditions, reasons);
        }
        option(key, value, cx, &mut o, &mut open, reasons);
    }
    if let Some(c) = open.take() {
        c.finish(&mut o.conditions, reasons);
    }
    if o.conditions.len() > MAX_CONDITIONS {
        reasons.push(format!("more than {MAX_CONDITIONS} conditions"));
    }
    o
}

/// `nocase`, `offset` ...: belongs to the content before it?
fn modifier(key: &str, value: &str, open: &mut Option<Content>, reasons: &mut Vec<String>) -> bool {
    const MODIFIERS: &[&str] = &[
        "nocase",
        "offset",
        "depth",
        "distance",
        "within",
        "startswith",
        "endswith",
    ];
    if !MODIFIERS.contains(&key) {
        return false;
    }
    let Some(c) = open else {
        reasons.push(format!("'{key}' without a content before it"));
        return true;
    };
    let slot = match key {
        "nocase" => {
            c.nocase = true;
            return true;
        }
        "endswith" => {
            c.ends = true;
            return true;
        }
        "startswith" => {
            c.offset = Some(0);
            c.depth = Some(c.bytes.len() as i32);
            return true;
        }
        "offset" => &mut c.offset,
        "depth" => &mut c.depth,
        "distance" => &mut c.distance,
        _ => &mut c.within,
    };
    match value.parse::<i32>() {
        Ok(v) => *slot = Some(v),
        Err(_) => reasons.push(format!("'{key}' that is not a number")),
    }
    true
}

fn option(
    key: &str,
    value: &str,
    cx: &Context,
    o: &mut Options,
    open: &mut Option<Content>,
    reasons: &mut Vec<String>,
) {
    let result = match key {
        "" => Ok(()),
        "msg" => {
            o.msg = unescape(
                value
                    .strip_prefix('"')
                    .and_then(|v| v.strip_suffix('"'))
                    .unwrap_or(value),
            );
            Ok(())
        }
        "sid" => value
            .parse()
            .map(|s| o.sid = Some(s))
            .map_err(|_| format!("sid '{value}'")),
        _ if REMARKS.contains(&key) => Ok(()),
        "flow" if cx.ignore_flow || value == "stateless" => Ok(()),
        "content" => content(value, open),
        "pcre" => pcre::parse(value).map(|p| {
            let not = if p.not { "NOT " } else { "" };
            let relative = if p.relative { " RELATIVE" } else { "" };
            o.conditions
                .push(format!("{not}REGEX {}{relative}", quote(p.text.as_bytes())));
        }),
        "isdataat" => is_data_at(value).map(|c| o.conditions.push(c)),
        "dsize" => size(value).map(|c| o.conditions.push(c)),
        "flags" => flags(value).map(|t| o.tests.push(t)),
        "itype" => compare("icmp[0:1]", value, 255).map(|t| o.tests.push(t)),
        "icode" => compare("icmp[1:1]", value, 255).map(|t| o.tests.push(t)),
        "ttl" => compare("ip[8:1]", value, 255).map(|t| o.tests.push(t)),
        "tos" => compare("ip[1:1]", value, 255).map(|t| o.tests.push(t)),
        "id" => compare("ip[4:2]", value, 65_535).map(|t| o.tests.push(t)),
        "seq" => compare("tcp[4:4]", value, u32::MAX).map(|t| o.tests.push(t)),
        "ack" => compare("tcp[8:4]", value, u32::MAX).map(|t| o.tests.push(t)),
        "window" => compare("tcp[14:2]", value, 65_535).map(|t| o.tests.push(t)),
        "icmp_id" => compare("icmp[4:2]", value, 65_535).map(|t| o.tests.push(t)),
        "icmp_seq" => compare("icmp[6:2]", value, 65_535).map(|t| o.tests.push(t)),
        "ip_proto" => ip_proto(value).map(|t| o.tests.push(t)),
        _ => Err(format!("option '{key}'")),
    };
    if let Err(e) = result {
        reasons.push(e);
    }
}

/// Splits at semicolons that are neither quoted nor escaped.
fn split(body: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (i, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ';' if !quoted => {
                out.push(body[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push(body[start..].trim());
    out
}

fn unescape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut it = s.chars();
    while let Some(c) = it.next() {
        match c {
            '\\' => out.extend(it.next()),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// `[!]"text|hex|"`, and behind it the modifiers of Snort 3, separated by commas.
fn content(value: &str, open: &mut Option<Content>) -> Result<(), String> {
    let (not, v) = match value.strip_prefix('!') {
        Some(r) => (true, r.trim_start()),
        None => (false, value),
    };
    let bad = || "content that is not \"text|hex|\"".to_string();
    let inner = v.strip_prefix('"').ok_or_else(bad)?;
    let mut bytes = Vec::new();
    let mut hex: Option<String> = None;
    let mut it = inner.char_indices();
    let mut end = None;
    while let Some((i, c)) = it.next() {
        match (&mut hex, c) {
            (None, '"') => {
                end = Some(i + 1);
                break;
            }
            (None, '|') => hex = Some(String::new()),
            (None, '\\') => {
                let (_, n) = it.next().ok_or_else(bad)?;
                bytes.extend(n.to_string().bytes());
            }
            (None, c) => bytes.extend(c.to_string().bytes()),
            (Some(h), '|') => {
                bytes.extend(hex_bytes(h).ok_or_else(bad)?);
                hex = None;
            }
            (Some(h), c) => h.push(c),
        }
    }
    let end = end.filter(|_| hex.is_none()).ok_or_else(bad)?;
    if bytes.is_empty() || bytes.len() > MAX_LITERAL {
        return Err(format!("content of {} bytes", bytes.len()));
    }
    *open = Some(Content {
        not,
        bytes,
        nocase: false,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        ends: false,
    });
    let mut reasons = Vec::new();
    for m in inner[end..]
        .split(',')
        .map(str::trim)
        .filter(|m| !m.is_empty())
    {
        let (key, value) = m.split_once(char::is_whitespace).unwrap_or((m, ""));
        let known = modifier(key, value.trim(), open, &mut reasons)
            || REMARKS.contains(&key)
            || key.starts_with("fast_pattern");
        if !known {
            reasons.push(format!("option '{key}'"));
        }
    }
    reasons.into_iter().next().map_or(Ok(()), Err)
}

fn hex_bytes(s: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = s
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|p| p[0] << 4 | p[1]).collect())
}

fn is_data_at(value: &str) -> Result<String, String> {
    let mut parts = value.split(',').map(str::trim);
    let first = parts.next().unwrap_or("");
    let (not, n) = match first.strip_prefix('!') {
        Some(r) => ("NOT ", r.trim()),
        None => ("", first),
    };
    let n: u32 = n
        .parse()
        .ok()
        .filter(|n| *n < 1 << 30)
        .ok_or("'isdataat' that is not a number")?;
    let mut relative = false;
    for p in parts {
        match p {
            "relative" => relative = true,
            "rawbytes" => {}
            other => return Err(format!("'isdataat' with '{other}'")),
        }
    }
    Ok(match relative {
        true => format!("{not}AFTER {n}"),
        false => format!("{not}SIZE {}-", n + 1),
    })
}

/// `N`, `<N`, `>N`, `A<>B` (both ends excluded).
fn size(value: &str) -> Result<String, String> {
    let bad = || "'dsize' that is not a number or range".to_string();
    let n = |s: &str| {
        s.trim()
            .parse::<u32>()
            .ok()
            .filter(|n| *n < 1 << 30)
            .ok_or_else(bad)
    };
    let v = value.trim();
    if let Some((a, b)) = v.split_once("<>") {
        let (a, b) = (n(a)?, n(b)?);
        return match b.checked_sub(a) {
            Some(2..) => Ok(format!("SIZE {}-{}", a + 1, b - 1)),
            _ => Err(bad()),
        };
    }
    Ok(if let Some(r) = v.strip_prefix("<=") {
        format!("SIZE 0-{}", n(r)?)
    } else if let Some(r) = v.strip_prefix(">=") {
        format!("SIZE {}-", n(r)?)
    } else if let Some(r) = v.strip_prefix('<') {
        format!("SIZE 0-{}", n(r)?.checked_sub(1).ok_or_else(bad)?)
    } else if let Some(r) = v.strip_prefix('>') {
        format!("SIZE {}-", n(r)? + 1)
    } else if let Some(r) = v.strip_prefix('!') {
        format!("NOT SIZE {}", n(r)?)
    } else {
        format!("SIZE {}", n(v)?)
    })
}

/// A comparison of a header field.
fn compare(field: &str, value: &str, max: u32) -> Result<String, String> {
    let v = value.trim();
    let (op, n) = [
        ("<=", "<="),
        (">=", ">="),
        ("!", "!="),
        ("<", "<"),
        (">", ">"),
        ("=", "=="),
    ]
    .iter()
    .find_map(|(p, op)| v.strip_prefix(p).map(|r| (*op, r)))
    .unwrap_or(("==", v));
    let name = field.split('[').next().unwrap_or(field);
    match n.trim().parse::<u32>() {
        Ok(n) if n <= max => Ok(format!("{field} {op} {n}")),
        _ => Err(format!("test '{v}' of {name} header field")),
    }
}

fn ip_proto(value: &str) -> Result<String, String> {
    let v = value.trim();
    let (not, p) = match v.strip_prefix('!') {
        Some(r) => ("not ", r.trim()),
        None => ("", v),
    };
    let known = ["tcp", "udp", "icmp", "igmp", "ipip", "gre"];
    let number = match p {
        "esp" => Some(50),
        "ah" => Some(51),
        "sctp" => Some(132),
        _ => p.parse::<u8>().ok().map(u32::from),
    };
    match number {
        Some(n) => Ok(format!("{not}ip proto {n}")),
        None if known.contains(&p) => Ok(format!("{not}ip proto {p}")),
        None => Err(format!("'ip_proto' of '{p}'")),
    }
}

/// `[*+]FLAGS[,IGNORED]` on the 14th byte of a TCP header.
fn flags(value: &str) -> Result<String, String> {
    let bits = |s: &str| -> Option<u32> {
        s.trim().chars().try_fold(0, |n, c| {
            let bit = match c.to_ascii_uppercase() {
                'F' => 0x01,
                'S' => 0x02,
                'R' => 0x04,
                'P' => 0x08,
                'A' => 0x10,
                'U' => 0x20,
                'E' | '2' => 0x40,
                'C' | '1' => 0x80,
                '0' => 0,
                _ => return None,
            };
            Some(n | bit)
        })
    };
    let bad = || format!("'flags' of '{value}'");
    let (want, ignored) = value.split_once(',').unwrap_or((value, ""));
    let want = want.trim();
    let mask = 0xff & !bits(ignored).ok_or_else(bad)?;
    if let Some(w) = want.strip_prefix('+') {
        let w = bits(w).ok_or_else(bad)?;
        return Ok(format!("tcp[13:1] & {w} == {w}"));
    }
    if let Some(w) = want.strip_prefix('*') {
        let w = bits(w).filter(|w| *w != 0).ok_or_else(bad)?;
        return Ok(format!("tcp[13:1] & {w} != 0"));
    }
    let w = bits(want).ok_or_else(bad)?;
    Ok(match mask {
        0xff => format!("tcp[13:1] == {w}"),
        _ => format!("tcp[13:1] & {mask} == {}", w & mask),
    })
}
