//! Classifier: bytes at offsets.
//!
//! Source: Click's `Classifier` documentation. A clause fails where the packet is too short for it (its trailing "don't
//! care" nibbles need not be there), and `!` turns that round too.
//!
//! Deliberate differences: offsets above 65,535 are refused (Click keeps their lower 16 bits); the `program`
//! handler prints the patterns as they were understood, not Click's compiled program; the warning "output N matches no
//! packets" is given for contradictory patterns and for patterns that one earlier pattern covers.

#[cfg(test)]
mod tests;

use super::pattern_handlers;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Base, Case, Cond, Exit, Model, ModelCx, Read, ValueSet, bytes};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, RuleCounters,
    element_any, element_counts_rules, pass_alike,
};
use onefold_packet::{Packet, Pkt, Timestamp};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

/// `Classifier`.
pub const CLASSIFIER: ElementClass = ElementClass {
    name: "Classifier",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "PATTERN, ...; one per output: clauses [!]OFFSET/HEXVALUE[%HEXMASK], or -",
    summary: "sends packets to the output whose byte pattern is the first to match",
    new: || Box::new(Classifier::default()),
};

/// Largest offset of a clause.
const MAX_OFFSET: usize = 65_535;

/// What may be wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Where an offset should be.
    #[error("expected a digit at '{0}'")]
    NoOffset(String),
    /// The offset is too large.
    #[error("offset out of range, 0 to {MAX_OFFSET}")]
    Offset,
    /// Behind an offset.
    #[error("expected '/' at '{0}'")]
    NoSlash(String),
    /// Nothing to compare with.
    #[error("value has less than 2 hex digits")]
    NoValue,
    /// Half a byte.
    #[error("value has odd number of hex digits")]
    OddValue,
    /// Longer than the value.
    #[error("mask has too many hex digits")]
    LongMask,
    /// Shorter than the value.
    #[error("mask has too few hex digits")]
    ShortMask,
}

/// `[!]OFFSET/VALUE%MASK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// `!`: the clause must not match.
    pub negated: bool,
    /// First byte.
    pub offset: usize,
    /// Wanted bytes; bits outside the mask are zero.
    pub value: Vec<u8>,
    /// Bits that count.
    pub mask: Vec<u8>,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/", if self.negated { "!" } else { "" }, self.offset)?;
        for v in &self.value {
            write!(f, "{v:02x}")?;
        }
        if self.mask.iter().any(|m| *m != 0xff) {
            f.write_char('%')?;
            for m in &self.mask {
                write!(f, "{m:02x}")?;
            }
        }
        Ok(())
    }
}

/// A hexadecimal digit or `?`: value and mask.
fn nibble(c: u8) -> Option<(u8, u8)> {
    match c {
        b'?' => Some((0, 0)),
        _ => (c as char).to_digit(16).map(|d| (d as u8, 15)),
    }
}

/// Reads a pattern. No clauses: everything matches.
pub fn parse_pattern(text: &str) -> Result<Vec<Clause>, PatternError> {
    let b = text.as_bytes();
    let mut clauses = Vec::new();
    if text == "-" {
        return Ok(clauses);
    }
    let blank = |mut i: usize| {
        while b
            .get(i)
            .is_some_and(|c| c.is_ascii_whitespace() || *c == 0x0b)
        {
            i += 1;
        }
        i
    };
    let digits = |i: usize| i + b[i..].iter().take_while(|c| nibble(**c).is_some()).count();
    let here = |i: usize| String::from_utf8_lossy(&b[i..b.len().min(i + 12)]).into_owned();
    let mut i = blank(0);
    while i < b.len() {
        let negated = b[i] == b'!';
        if negated {
            i = blank(i + 1);
        }
        if !b.get(i).is_some_and(u8::is_ascii_digit) {
            return Err(PatternError::NoOffset(here(i)));
        }
        let mut offset = 0usize;
        while let Some(c) = b.get(i).filter(|c| c.is_ascii_digit()) {
            offset = (offset * 10 + usize::from(c - b'0')).min(MAX_OFFSET + 1);
            i += 1;
        }
        if offset > MAX_OFFSET {
            return Err(PatternError::Offset);
        }
        if b.get(i) != Some(&b'/') {
            return Err(PatternError::NoSlash(here(i)));
        }
        let start = i + 1;
        let end = digits(start);
        i = end;
        let mask = (b.get(i) == Some(&b'%')).then(|| {
            let start = i + 1;
            i = digits(start);
            &b[start..i]
        });
        let value = &b[start..end];
        if value.len() < 2 {
            return Err(PatternError::NoValue);
        }
        if !value.len().is_multiple_of(2) {
            return Err(PatternError::OddValue);
        }
        match mask.map(|m| m.len().cmp(&value.len())) {
            Some(std::cmp::Ordering::Greater) => return Err(PatternError::LongMask),
            Some(std::cmp::Ordering::Less) => return Err(PatternError::ShortMask),
            _ => {}
        }
        let byte = |text: &[u8]| {
            let ((v1, m1), (v2, m2)) = (
                nibble(text[0]).unwrap_or_default(),
                nibble(text[1]).unwrap_or_default(),
            );
            (v1 << 4 | v2, m1 << 4 | m2)
        };
        let mut clause = Clause {
            negated,
            offset,
            value: Vec::new(),
            mask: Vec::new(),
        };
        for (k, pair) in value.chunks_exact(2).enumerate() {
            let (v, mut m) = byte(pair);
            if let Some(pair) = mask.and_then(|x| x.get(2 * k..2 * k + 2)) {
                let (mv, mm) = byte(pair);
                m &= mv & mm;
            }
            clause.value.push(v & m);
            clause.mask.push(m);
        }
        clauses.push(clause);
        i = blank(i);
    }
    Ok(clauses)
}

/// Up to eight bytes of a clause.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    offset: u32,
    /// The packet must be at least this long.
    need: u32,
    mask: u64,
    value: u64,
}

impl Piece {
    #[inline]
    fn matches(&self, data: &[u8]) -> bool {
        if data.len() < self.need as usize {
            return false;
        }
        let tail = data.get(self.offset as usize..).unwrap_or(&[]);
        let w = match tail.first_chunk::<8>() {
            Some(c) => u64::from_be_bytes(*c),
            None => {
                let mut c = [0u8; 8];
                c[..tail.len()].copy_from_slice(tail);
                u64::from_be_bytes(c)
            }
        };
        w & self.mask == self.value
    }
}

/// A pattern ready for use: `negated[i]` are the pieces of one negated clause. Most patterns are a single piece, which
/// is looked at where it stands.
#[derive(Debug, Clone, Default)]
struct Compiled {
    first: Piece,
    /// There is more than `first`.
    more: bool,
    positive: Vec<Piece>,
    negated: Vec<Vec<Piece>>,
}

fn pieces(c: &Clause) -> Vec<Piece> {
    let mut out = Vec::new();
    for (k, (v, m)) in c.value.chunks(8).zip(c.mask.chunks(8)).enumerate() {
        let pad = |b: &[u8]| {
            let mut x = [0u8; 8];
            x[..b.len()].copy_from_slice(b);
            u64::from_be_bytes(x)
        };
        let Some(last) = m.iter().rposition(|b| *b != 0) else {
            continue;
        };
        let offset = c.offset + 8 * k;
        out.push(Piece {
            offset: offset as u32,
            need: (offset + last + 1) as u32,
            mask: pad(m),
            value: pad(v),
        });
    }
    out
}

impl Compiled {
    fn new(clauses: &[Clause]) -> Compiled {
        let mut c = Compiled::default();
        for clause in clauses {
            match clause.negated {
                false => c.positive.extend(pieces(clause)),
                true => c.negated.push(pieces(clause)),
            }
        }
        if !c.positive.is_empty() {
            c.first = c.positive.remove(0);
        }
        c.more = !c.positive.is_empty() || !c.negated.is_empty();
        c
    }
    #[inline]
    fn matches(&self, data: &[u8]) -> bool {
        self.first.matches(data) && (!self.more || self.matches_more(data))
    }
    fn matches_more(&self, data: &[u8]) -> bool {
        self.positive.iter().all(|p| p.matches(data))
            && self
                .negated
                .iter()
                .all(|n| !n.iter().all(|p| p.matches(data)))
    }
}

/// Why a pattern that does not match does not: the first clause that fails, and the bytes that the frame has there.
fn why_not(pattern: &[Clause], data: &[u8]) -> String {
    let fails = |c: &&Clause| pieces(c).iter().all(|p| p.matches(data)) == c.negated;
    let Some(c) = pattern.iter().find(fails) else {
        return String::new();
    };
    let there = data.get(c.offset..).unwrap_or(&[]);
    let there = &there[..there.len().min(c.value.len())];
    let found: String = there.iter().map(|b| format!("{b:02x}")).collect();
    match there.len() < c.value.len() {
        true => format!("{c}: the packet ends at {}", data.len()),
        false => format!("{c}: is {found}"),
    }
}

/// The bytes that a pattern's positive clauses fix, or `None` if they contradict each other.
fn fixed(clauses: &[Clause]) -> Option<BTreeMap<usize, (u8, u8)>> {
    let mut map: BTreeMap<usize, (u8, u8)> = BTreeMap::new();
    for c in clauses.iter().filter(|c| !c.negated) {
        for (i, (v, m)) in c.value.iter().zip(&c.mask).enumerate() {
            let slot = map.entry(c.offset + i).or_default();
            if (slot.0 ^ v) & slot.1 & m != 0 {
                return None;
            }
            *slot = (slot.0 | v, slot.1 | m);
        }
    }
    map.retain(|_, (_, m)| *m != 0);
    Some(map)
}

/// Patterns that match nothing, or nothing that an earlier pattern leaves over.
fn unreachable(patterns: &[Vec<Clause>]) -> Vec<usize> {
    let all: Vec<_> = patterns.iter().map(|p| fixed(p)).collect();
    let covers = |a: usize, b: &BTreeMap<usize, (u8, u8)>| {
        patterns[a].iter().all(|c| !c.negated)
            && all[a].as_ref().is_some_and(|x| {
                x.iter()
                    .all(|(i, (v, m))| b.get(i).is_some_and(|(w, n)| m & n == *m && w & m == *v))
            })
    };
    // quadratic: for hand-written lists only
    let n = patterns.len().min(256);
    (0..n)
        .filter(|i| match &all[*i] {
            None => true,
            Some(b) => (0..*i).any(|a| covers(a, b)),
        })
        .collect()
}

/// Where header fields begin and end: a clause is cut there, so that each part is a field that others know too.
const EDGES: &[usize] = &[6, 12, 14, 16, 18];

/// A clause, its sign left aside: the length that it needs and the fields that it wants. Nothing is needed by a clause
/// of "don't care" nibbles.
fn wanted(c: &Clause) -> Option<(usize, Vec<(Read, ValueSet)>)> {
    let mut out = Vec::new();
    let mut need = 0;
    let mut i = 0;
    while let (Some(v), Some(m)) = (c.value.get(i), c.mask.get(i)) {
        let at = c.offset + i;
        if *m == 0 {
            i += 1;
            continue;
        }
        // whole bytes go together, up to sixteen; others alone
        let mut n = 1;
        let mut value = u128::from(*v);
        let whole = |i: usize| c.mask.get(i) == Some(&0xff);
        while *m == 0xff && n < 16 && whole(i + n) && !EDGES.contains(&(at + n)) {
            value = value << 8 | u128::from(c.value[i + n]);
            n += 1;
        }
        let set = match m {
            0xff => ValueSet::one(value),
            _ => ValueSet::masked((*m).into(), value, 8, 256)?,
        };
        let at16 = u16::try_from(at).ok().filter(|a| *a <= 8000)?;
        out.push((Read::Field(bytes(Base::Data, at16, n as u8)), set));
        i += n;
        need = at + n;
    }
    Some((need, out))
}

/// When a pattern matches; `None` for what models do not reach.
fn condition(pattern: &[Clause]) -> Option<Cond> {
    let long = |n: usize| Cond::at_least(Read::Len, n as u128);
    let mut need = 0;
    let mut positive = Vec::new();
    let mut negative = Vec::new();
    for c in pattern {
        let (n, fields) = wanted(c)?;
        if !c.negated {
            need = need.max(n);
            positive.extend(fields.into_iter().map(|(r, s)| Cond::In(r, s)));
        } else if fields.is_empty() {
            return Some(Cond::Never);
        } else {
            // too short, or one of the fields is another
            let mut any = vec![Cond::less(Read::Len, n as u128)];
            any.extend(
                fields
                    .into_iter()
                    .map(|(r, s)| Cond::All(vec![long(n), Cond::In(r, s.complement(r.width()))])),
            );
            negative.push(Cond::Any(any));
        }
    }
    let mut all = Vec::new();
    if need > 0 {
        all.push(long(need));
    }
    all.extend(positive);
    all.extend(negative);
    Some(match all.len() {
        0 => Cond::Always,
        1 => all.remove(0),
        _ => Cond::All(all),
    })
}

#[derive(Debug, Clone, Default)]
struct Classifier {
    /// What was written, for the `program` handler and for models.
    patterns: Arc<Vec<Vec<Clause>>>,
    compiled: Vec<Compiled>,
    counters: RuleCounters,
}

impl Element for Classifier {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let list = args.rest();
        if list.len() != cx.noutputs {
            args.error(format!(
                "need {} arguments, one per output port; there are {}",
                cx.noutputs,
                list.len()
            ));
        }
        let mut patterns = Vec::with_capacity(list.len());
        for (i, text) in list {
            match parse_pattern(text) {
                Ok(p) => patterns.push(p),
                Err(e) => args.error_at(i, &format!("pattern {i}"), e.to_string()),
            }
        }
        let mut messages = args.finish().err().unwrap_or_default();
        if !messages.iter().all(|e| e.warning) {
            return Err(messages);
        }
        messages.extend(unreachable(&patterns).into_iter().map(|i| ConfigError {
            warning: true,
            index: Some(i),
            ..ConfigError::new(format!("output {i} matches no packets"))
        }));
        self.compiled = patterns.iter().map(|p| Compiled::new(p)).collect();
        self.counters = RuleCounters::new(patterns.len());
        self.patterns = Arc::new(patterns);
        if messages.is_empty() {
            Ok(())
        } else {
            Err(messages)
        }
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let data = p.data();
        let hit = self.compiled.iter().position(|c| c.matches(data));
        let before = self.patterns.iter().take(hit.unwrap_or(usize::MAX));
        cx.missed(before.enumerate(), |(i, pattern)| {
            (i, why_not(pattern, data))
        });
        match hit {
            Some(i) => {
                cx.decide(Some(i), || format!("{} -> output {i}", self.text(i)));
                self.counters.packet(Some(i), p.len());
                cx.emit(i, p);
            }
            None => {
                cx.decide(None, || "no pattern matches".to_string());
                self.counters.packet(None, p.len());
                cx.drop(p, "Classifier: no pattern matches");
            }
        }
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let compiled = &self.compiled[..];
        pass_alike(batch, &mut self.counters, |p: &Packet| {
            let i = compiled.iter().position(|c| c.matches(p.data()))?;
            Some((i, i))
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::with_capacity(self.patterns.len() + 1);
        for (i, pattern) in self.patterns.iter().enumerate() {
            let Some(when) = condition(pattern) else {
                return Model::None("Classifier: looks at bytes beyond every header");
            };
            let always = when == Cond::Always;
            cases.push(Case::new(when, Exit::Port(i)).from_arg(i));
            if always {
                return Model::Cases(cases);
            }
        }
        let none = Exit::Drop("Classifier: no pattern matches");
        cases.push(Case::new(Cond::Always, none).policy());
        Model::Cases(cases)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        pattern_handlers(0)
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "program" => {}
            "rule_counts" => return Ok(self.counters.text()),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        let mut s = String::new();
        for i in 0..self.patterns.len() {
            let _ = writeln!(s, "{i:2} {}  yes->[{i}]", self.text(i));
        }
        Ok(s)
    }

    element_counts_rules!(counters);
    element_any!();
}

impl Classifier {
    fn text(&self, i: usize) -> String {
        let clauses = self.patterns.get(i).map_or(&[][..], Vec::as_slice);
        let words: Vec<String> = clauses.iter().map(Clause::to_string).collect();
        if words.is_empty() {
            return "-".to_string();
        }
        words.join(" ")
    }
}
