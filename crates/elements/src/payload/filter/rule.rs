//! The rules of `PayloadFilter`: their text, and what they mean.
//!
//! The conditions of a rule are those of intrusion detection rules (`content` with `offset`, `depth`, `distance`,
//! `within`, `pcre`, `isdataat`, `dsize`). All must hold. A condition may be *relative*: it then speaks of where the
//! condition before it matched. Where that can be at several places, all of them are tried: a rule matches if there is
//! any choice of places for which all conditions hold. (Not by trying one after the other: the set of all ends of
//! matches is carried from condition to condition, so that the work is bounded by conditions times bytes.)

use super::needle;
use crate::filter::{Expr, parse_pattern};
use memchr::memmem;
use onefold_element::args::{ArgScope, split_words, unquote};
use regex_automata::meta::Regex;
use std::fmt;

/// Most conditions of a rule.
pub const MAX_CONDITIONS: usize = 64;
/// Longest literal, in bytes.
pub const MAX_LITERAL: usize = 8192;
/// A relative regular expression is tried from this many places at most, the first ones.
pub const MAX_STARTS: usize = 256;
/// Largest compiled regular expression, in bytes.
const REGEX_BYTES: usize = 4 << 20;

/// What a rule does with a packet it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The packet passes; later rules are not asked.
    Allow,
    /// The packet is dropped; later rules are not asked.
    Drop,
    /// A copy leaves at output 1; later rules are asked.
    Alert,
}

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// What it is called, in traces and counts.
    pub name: String,
    /// Which packets it is about, by their headers; such a rule does not match IPv6 packets.
    pub filter: Option<Expr>,
    /// All of these must hold.
    pub conditions: Vec<Condition>,
}

/// A condition on the payload.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The opposite must hold.
    pub not: bool,
    /// What must hold.
    pub what: What,
    /// Does a later condition speak of where this one matched?
    ends_matter: bool,
}

/// What a condition asks for.
#[derive(Debug, Clone)]
pub enum What {
    /// These bytes occur.
    Literal(Box<Literal>),
    /// A regular expression matches.
    Regex {
        /// Its text.
        text: String,
        /// Ready to use.
        regex: Box<Regex>,
        /// It is matched against what lies behind the last match.
        relative: bool,
    },
    /// At least so many bytes lie behind the last match.
    After(usize),
    /// The payload's length is in this range.
    Size(usize, usize),
}

/// Bytes, and where they may stand.
#[derive(Debug, Clone)]
pub struct Literal {
    /// The bytes; in lower case if `nocase`.
    pub bytes: Vec<u8>,
    /// ASCII letters match in either case.
    pub nocase: bool,
    /// At or behind this place of the payload.
    pub offset: usize,
    /// Ending within so many bytes from `offset`.
    pub depth: Option<usize>,
    /// Beginning at or behind this many bytes from the end of the last match.
    pub distance: Option<i64>,
    /// Ending within so many bytes from there.
    pub within: Option<usize>,
    finder: memmem::Finder<'static>,
}

impl Literal {
    /// Does it speak of where the condition before it matched?
    pub fn relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Begins of all occurrences that end in `text`.
    fn occurrences<'a>(&'a self, text: &'a [u8], from: usize) -> impl Iterator<Item = usize> + 'a {
        let mut at = from;
        // not `find_iter`: occurrences may overlap
        std::iter::from_fn(move || {
            let i = at + self.finder.find(text.get(at..)?)?;
            at = i + 1;
            Some(i)
        })
    }

    /// The range that an occurrence relative to `end` lies in: first begin, last end.
    fn window(&self, end: usize, len: usize) -> (usize, usize) {
        let start = (end as i64 + self.distance.unwrap_or(0)).max(0) as usize;
        let base = end as i64 + self.distance.unwrap_or(0);
        let last = match self.within {
            Some(w) => (base + w as i64).clamp(0, len as i64) as usize,
            None => len,
        };
        (start, last)
    }
}

/// Room to work in, kept between packets.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    ends: Vec<usize>,
    next: Vec<usize>,
    lower: Vec<u8>,
    lowered: bool,
}

impl Scratch {
    /// A new packet.
    pub fn reset(&mut self) {
        self.lowered = false;
    }
}

impl Rule {
    /// Do all conditions hold? `scratch` was [reset](Scratch::reset) when `payload` was new.
    pub fn payload_matches(&self, payload: &[u8], scratch: &mut Scratch) -> bool {
        let Scratch {
            ends,
            next,
            lower,
            lowered,
        } = scratch;
        ends.clear();
        ends.push(0);
        for c in &self.conditions {
            let holds = match &c.what {
                What::Size(lo, hi) => (*lo..=*hi).contains(&payload.len()) != c.not,
                What::After(n) => {
                    ends.retain(|e| (e + n <= payload.len()) != c.not);
                    !ends.is_empty()
                }
                What::Literal(l) => {
                    let text = if l.nocase {
                        if !*lowered {
                            lower.clear();
                            lower.extend(payload.iter().map(u8::to_ascii_lowercase));
                            *lowered = true;
                        }
                        lower.as_slice()
                    } else {
                        payload
                    };
                    literal(l, c, text, ends, next)
                }
                What::Regex {
                    regex, relative, ..
                } => expression(regex, *relative, c, payload, ends, next),
            };
            if !holds {
                return false;
            }
        }
        true
    }

    /// The longest literal that every match contains, in lower case. One of an expression is taken only where there
    /// is no other.
    pub fn needle(&self) -> Option<Vec<u8>> {
        let of = |f: fn(&What) -> Option<Vec<u8>>| {
            (self.conditions.iter())
                .filter(|c| !c.not)
                .filter_map(|c| f(&c.what))
                .max_by_key(Vec::len)
        };
        let literal = |w: &What| match w {
            What::Literal(l) => Some(l.bytes.to_ascii_lowercase()),
            _ => None,
        };
        let expression = |w: &What| match w {
            What::Regex { text, .. } => needle::of_regex(text),
            _ => None,
        };
        of(literal).or_else(|| of(expression))
    }
}

fn literal(
    l: &Literal,
    c: &Condition,
    text: &[u8],
    ends: &mut Vec<usize>,
    next: &mut Vec<usize>,
) -> bool {
    let n = l.bytes.len();
    if !l.relative() {
        let last = l
            .depth
            .map_or(text.len(), |d| l.offset.saturating_add(d).min(text.len()));
        let mut found = l
            .occurrences(text.get(..last).unwrap_or(text), l.offset)
            .map(|i| i + n)
            .peekable();
        let any = found.peek().is_some();
        if c.not {
            return !any;
        }
        if any && c.ends_matter {
            ends.clear();
            ends.extend(found);
        }
        return any;
    }
    if c.not {
        ends.retain(|e| {
            let (start, last) = l.window(*e, text.len());
            let region = text.get(..last).unwrap_or(&[]);
            l.occurrences(region, start).next().is_none()
        });
        return !ends.is_empty();
    }
    next.clear();
    // `ends` is sorted, so the occurrence that begins first is relative to the first end
    let from = ends.first().map_or(0, |e| l.window(*e, text.len()).0);
    for i in l.occurrences(text, from) {
        // Of the ends that lie far enough before it, the last one is the most favourable to `within`.
        let reach = i as i64 - l.distance.unwrap_or(0);
        let before = ends.partition_point(|e| *e as i64 <= reach);
        let fits = before
            .checked_sub(1)
            .and_then(|k| ends.get(k))
            .is_some_and(|e| {
                let (start, last) = l.window(*e, text.len());
                i >= start && i + n <= last
            });
        if fits {
            if !c.ends_matter {
                return true;
            }
            next.push(i + n);
        }
    }
    std::mem::swap(ends, next);
    !ends.is_empty()
}

fn expression(
    regex: &Regex,
    relative: bool,
    c: &Condition,
    payload: &[u8],
    ends: &mut Vec<usize>,
    next: &mut Vec<usize>,
) -> bool {
    if !relative {
        if c.not || !c.ends_matter {
            return regex.is_match(payload) != c.not;
        }
        ends.clear();
        ends.extend(regex.find_iter(payload).map(|m| m.end()));
        ends.dedup();
        return !ends.is_empty();
    }
    if c.not {
        ends.truncate(MAX_STARTS);
        ends.retain(|e| !regex.is_match(payload.get(*e..).unwrap_or(&[])));
        return !ends.is_empty();
    }
    next.clear();
    for e in ends.iter().take(MAX_STARTS) {
        let rest = payload.get(*e..).unwrap_or(&[]);
        if !c.ends_matter {
            if regex.is_match(rest) {
                return true;
            }
        } else {
            next.extend(regex.find_iter(rest).map(|m| e + m.end()));
        }
    }
    next.sort_unstable();
    next.dedup();
    std::mem::swap(ends, next);
    !ends.is_empty()
}

/// Reads a rule: `ACTION [NAME text] [FILTER "expression"] CONDITION...`, where a condition is one of
///
/// - `[NOT] LITERAL bytes [NOCASE] [OFFSET n] [DEPTH n] [DISTANCE n] [WITHIN n]`
/// - `[NOT] REGEX text [RELATIVE]`
/// - `[NOT] AFTER n`
/// - `[NOT] SIZE n`, `n-m`, `n-`
pub fn parse(text: &str, scope: &ArgScope<'_>) -> Result<Rule, String> {
    let mut words = split_words(text).into_iter().peekable();
    let action = match words.next() {
        Some("allow" | "pass") => Action::Allow,
        Some("drop" | "deny") => Action::Drop,
        Some("alert") => Action::Alert,
        Some(w) => return Err(format!("expected allow, drop or alert, found '{w}'")),
        None => return Err("expected allow, drop or alert, and conditions".into()),
    };
    let mut rule = Rule {
        action,
        name: String::new(),
        filter: None,
        conditions: Vec::new(),
    };
    let value = |key: &str, w: Option<&str>| {
        w.map(unquote)
            .ok_or_else(|| format!("expected a value behind {key}"))
    };
    let string = |key: &str, w: Option<&str>| {
        value(key, w)
            .and_then(|b| String::from_utf8(b).map_err(|_| format!("{key}: expected UTF-8 text")))
    };
    let mut not = false;
    while let Some(w) = words.next() {
        let was_not = std::mem::take(&mut not);
        let what = match w {
            "NOT" if !was_not => {
                not = true;
                continue;
            }
            "NAME" if !was_not => {
                rule.name = string(w, words.next())?;
                continue;
            }
            "FILTER" if !was_not => {
                let t = string(w, words.next())?;
                let parsed = parse_pattern(&t, scope).map_err(|e| format!("FILTER: {e}"))?;
                rule.filter = Some(parsed.expr);
                continue;
            }
            "LITERAL" => {
                let mut l = Spec::new(value(w, words.next())?)?;
                while let Some(key) = words.peek().copied() {
                    if key == "NOCASE" {
                        l.nocase = true;
                        words.next();
                        continue;
                    }
                    let slot = match key {
                        "OFFSET" => &mut l.offset,
                        "DEPTH" => &mut l.depth,
                        "DISTANCE" => &mut l.distance,
                        "WITHIN" => &mut l.within,
                        _ => break,
                    };
                    words.next();
                    *slot = Some(number(key, words.next())?);
                }
                What::Literal(Box::new(l.finish()?))
            }
            "REGEX" => {
                let text = string(w, words.next())?;
                let relative = words.next_if_eq(&"RELATIVE").is_some();
                let regex = Box::new(compile(&text)?);
                What::Regex {
                    text,
                    regex,
                    relative,
                }
            }
            "AFTER" => What::After(size(w, words.next())?),
            "SIZE" => {
                let v = words.next().unwrap_or("");
                let (lo, hi) = v.split_once('-').unwrap_or((v, v));
                let hi = if hi.is_empty() {
                    usize::MAX
                } else {
                    size(w, Some(hi))?
                };
                What::Size(size(w, Some(lo))?, hi)
            }
            _ => {
                return Err(format!(
                    "expected NAME, FILTER, NOT, LITERAL, REGEX, AFTER or SIZE, found '{w}'"
                ));
            }
        };
        if rule.conditions.len() == MAX_CONDITIONS {
            return Err(format!("more than {MAX_CONDITIONS} conditions"));
        }
        rule.conditions.push(Condition {
            not: was_not,
            what,
            ends_matter: false,
        });
    }
    if not {
        return Err("expected a condition behind NOT".into());
    }
    // from the back: who is followed by a relative condition, before one that starts afresh
    let mut relative_later = false;
    for c in rule.conditions.iter_mut().rev() {
        c.ends_matter = relative_later;
        relative_later = match &c.what {
            What::Literal(l) => l.relative() || (c.not && relative_later),
            What::Regex { relative, .. } => *relative || (c.not && relative_later),
            What::After(_) => true,
            What::Size(..) => relative_later,
        };
    }
    Ok(rule)
}

/// A literal while its modifiers are read.
struct Spec {
    bytes: Vec<u8>,
    nocase: bool,
    offset: Option<i64>,
    depth: Option<i64>,
    distance: Option<i64>,
    within: Option<i64>,
}

impl Spec {
    fn new(bytes: Vec<u8>) -> Result<Spec, String> {
        if bytes.is_empty() || bytes.len() > MAX_LITERAL {
            return Err(format!("LITERAL: expected 1 to {MAX_LITERAL} bytes"));
        }
        Ok(Spec {
            bytes,
            nocase: false,
            offset: None,
            depth: None,
            distance: None,
            within: None,
        })
    }

    fn finish(self) -> Result<Literal, String> {
        let (absolute, relative) = (
            self.offset.is_some() || self.depth.is_some(),
            self.distance.is_some() || self.within.is_some(),
        );
        if absolute && relative {
            return Err(
                "OFFSET and DEPTH count from the payload's begin, DISTANCE and WITHIN from the last match: give one kind"
                    .into(),
            );
        }
        let room = |key: &str, v: Option<i64>| match v {
            None => Ok(None),
            Some(v) if v >= self.bytes.len() as i64 => Ok(Some(v as usize)),
            Some(v) => Err(format!(
                "{key} {v} is less than the literal's {} bytes",
                self.bytes.len()
            )),
        };
        let (depth, within) = (room("DEPTH", self.depth)?, room("WITHIN", self.within)?);
        let offset = match self.offset {
            Some(o) if o < 0 => return Err(format!("OFFSET {o} is negative")),
            o => o.unwrap_or(0) as usize,
        };
        let mut bytes = self.bytes;
        if self.nocase {
            bytes.make_ascii_lowercase();
        }
        Ok(Literal {
            finder: memmem::Finder::new(&bytes).into_owned(),
            bytes,
            nocase: self.nocase,
            offset,
            depth,
            distance: self.distance,
            within,
        })
    }
}

fn number(key: &str, w: Option<&str>) -> Result<i64, String> {
    w.and_then(|w| w.parse::<i32>().ok())
        .map(i64::from)
        .ok_or_else(|| {
            format!(
                "expected a number behind {key}, found '{}'",
                w.unwrap_or("")
            )
        })
}

fn size(key: &str, w: Option<&str>) -> Result<usize, String> {
    let v = number(key, w)?;
    usize::try_from(v).map_err(|_| format!("{key} {v} is negative"))
}

/// Expressions are over bytes.
pub(super) fn syntax() -> regex_automata::util::syntax::Config {
    regex_automata::util::syntax::Config::new()
        .utf8(false)
        .unicode(false)
}

/// Compiles a regular expression over bytes.
pub fn compile(text: &str) -> Result<Regex, String> {
    Regex::builder()
        .syntax(syntax())
        .configure(
            Regex::config()
                .utf8_empty(false)
                .nfa_size_limit(Some(REGEX_BYTES))
                .hybrid_cache_capacity(1 << 20),
        )
        .build(text)
        .map_err(|e| {
            // the syntax error's last line says what is wrong; the lines before draw the expression
            let all = match e.syntax_error() {
                Some(s) => s.to_string(),
                None => e.to_string(),
            };
            let last = all.lines().last().unwrap_or("").trim();
            format!("REGEX: {}", last.trim_start_matches("error: "))
        })
}

/// Bytes as a word of a configuration: quoted if they are printable, else hexadecimal.
pub fn quote(bytes: &[u8]) -> String {
    let plain = |q: u8| {
        bytes
            .iter()
            .all(|b| (b' '..=b'~').contains(b) && *b != q && *b != b'\\' && *b != b'$')
    };
    match std::str::from_utf8(bytes) {
        Ok(s) if plain(b'"') => format!("\"{s}\""),
        // single quotes protect everything
        Ok(s)
            if bytes
                .iter()
                .all(|b| (b' '..=b'~').contains(b) && *b != b'\'') =>
        {
            format!("'{s}'")
        }
        _ => {
            let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("\\<{}>", hex.join(" "))
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Allow => "allow",
            Action::Drop => "drop",
            Action::Alert => "alert",
        })
    }
}
