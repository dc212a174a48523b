//! What nftables asks that an expression about headers cannot: `limit`, `meta pkttype`, `ether`, `numgen`.

use super::expr::Draft;
use super::set;
use crate::import::asks::{Ask, Conditions, Kind, Question};
use crate::import::iptables::{chance, hardware_address};
use serde_json::Value;

/// Most values that are looked for in a frame's header.
const MAX_PATTERNS: usize = 64;

/// A question, and behind how many conditions of each kind it is asked.
pub(super) struct Asked {
    question: Question,
    not: bool,
    tests: usize,
    interfaces: usize,
    own: usize,
    marks: usize,
    /// The rule was several already: they exclude each other, and all ask the same.
    several: bool,
}

impl Asked {
    /// Does it make a difference who is asked?
    fn counts(&self) -> bool {
        matches!(self.question, Question::Limit(_) | Question::Turn { .. })
    }
}

impl Draft {
    /// Is there something behind a question that a list cannot ask there? `several`: the rule becomes several.
    pub fn narrowed(&self, several: bool) -> Option<String> {
        let asked = self.asked.iter().find(|a| a.counts())?;
        let narrowed =
            self.never || several != asked.several || self.interfaces.len() > asked.interfaces;
        narrowed.then(|| NARROWED.to_string())
    }

    /// Adds a question.
    pub fn ask(&mut self, question: Question, not: bool) {
        self.asked.push(Asked {
            question,
            not,
            tests: self.tests.len(),
            interfaces: self.interfaces.len(),
            own: self.own.len(),
            marks: self.marks.len(),
            several: false,
        });
    }

    /// Adds a question for which it matters who is asked; `several`: the rule is several already.
    pub fn ask_counting(
        &mut self,
        what: &str,
        question: Question,
        several: bool,
    ) -> Result<(), String> {
        // packets of the other family do not come there
        if self.never {
            return Ok(());
        }
        if self.asked.iter().any(Asked::counts) {
            return Err(format!("{what} behind another one is not supported"));
        }
        self.ask(question, false);
        if let Some(asked) = self.asked.last_mut() {
            asked.several = several;
        }
        Ok(())
    }

    /// Does it ask something of an element?
    pub fn has_questions(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The questions, with what is asked behind each, which is taken out of the draft.
    pub fn questions(&mut self) -> Vec<Ask> {
        let mut out = Vec::new();
        for a in std::mem::take(&mut self.asked).into_iter().rev() {
            out.push(Ask {
                question: a.question,
                not: a.not,
                behind: Conditions {
                    tests: self.tests.split_off(a.tests),
                    own: self.own.split_off(a.own),
                    marks: self.marks.split_off(a.marks),
                },
            });
        }
        out.reverse();
        out
    }
}

/// Why a rate cannot be where it is, if it cannot.
const NARROWED: &str = "statement 'limit' in front of interfaces, families, maps or concatenations is not supported: \
                        packets that these leave out would be counted, too; put it behind them";

/// `meta pkttype { broadcast, multicast }`: kinds exclude each other.
pub(super) fn kinds(values: &[&Value]) -> Result<Vec<Kind>, String> {
    let one = |v: &&Value| match v.as_str() {
        Some("host" | "unicast" | "to-us") => Ok(Kind::Unicast),
        Some("broadcast") => Ok(Kind::Broadcast),
        Some("multicast") => Ok(Kind::Multicast),
        Some("other" | "otherhost") => Ok(Kind::Other),
        _ => Err(format!("packet type {v}")),
    };
    values.iter().map(one).collect()
}

/// `ether saddr`, `ether daddr`: patterns of a Classifier.
pub(super) fn frame(field: &str, values: &[&Value]) -> Result<Question, String> {
    let at = match field {
        "daddr" => 0,
        "saddr" => 6,
        _ => return Err(format!("match on 'ether {field}' is not supported")),
    };
    if values.len() > MAX_PATTERNS {
        return Err(format!(
            "more than {MAX_PATTERNS} hardware addresses in a rule are not supported"
        ));
    }
    let one = |v: &&Value| {
        let text = v.as_str().ok_or_else(|| format!("hardware address {v}"))?;
        hardware_address(text).map(|a| format!("{at}/{a}"))
    };
    Ok(Question::Frame(
        values.iter().map(one).collect::<Result<_, _>>()?,
    ))
}

/// `numgen random mod 100 < 50`, `numgen inc mod 3 == 0`: a question, and whether the opposite is meant.
pub(super) fn numgen(n: &Value, op: &str, values: &[&Value]) -> Result<(Question, bool), String> {
    let number = |k: &str| n.get(k).and_then(Value::as_u64);
    let modulus = number("mod").and_then(|m| u32::try_from(m).ok());
    let modulus = modulus
        .filter(|m| *m > 0)
        .ok_or("a 'numgen' without 'mod'")?;
    let offset = number("offset").unwrap_or(0);
    let none = |s: &str| Err(format!("value '{s}'"));
    let [value] = values else {
        return Err("'numgen' with several values is not supported; '<' says the same".into());
    };
    let (lo, hi) = set::numbers(value, u32::MAX, &none)?;
    // from, up to but without
    let (lo, hi) = (u64::from(lo), u64::from(hi) + 1);
    let range = match op {
        "==" | "in" | "!=" => (lo, hi),
        "<" => (0, lo),
        "<=" => (0, hi),
        ">" => (hi, u64::MAX),
        ">=" => (lo, u64::MAX),
        _ => return Err(format!("operator '{op}' on numgen")),
    };
    let inside = |n: u64| n.saturating_sub(offset).min(modulus.into());
    let (from, to) = (inside(range.0), inside(range.1));
    let not = op == "!=";
    let question = match n.get("mode").and_then(Value::as_str) {
        Some("random") => {
            let p = to.saturating_sub(from) as f64 / f64::from(modulus);
            Question::Element(chance(p))
        }
        Some("inc") if from >= to => Question::Element(chance(0.0)),
        Some("inc") => Question::Turn {
            every: modulus,
            // both are at most the modulus
            from: from as u32,
            to: (to - 1) as u32,
        },
        _ => return Err("a 'numgen' that is neither 'random' nor 'inc'".into()),
    };
    Ok((question, not))
}

/// `tcp option maxseg size 0`, `tcp option sack-perm exists`: a question, and whether the opposite is meant.
pub(super) fn tcp_option(
    o: &Value,
    op: &str,
    values: &[&Value],
) -> Result<(Question, bool), String> {
    let name = o.get("name").and_then(Value::as_str).unwrap_or("");
    let kind = match name {
        "eol" => 0,
        "nop" | "noop" => 1,
        "maxseg" | "mss" => 2,
        "window" => 3,
        "sack-perm" | "sack-permitted" => 4,
        "sack" => 5,
        "timestamp" => 8,
        "mptcp" => 30,
        "fastopen" => 34,
        "md5sig" => 19,
        n => n.parse::<u8>().map_err(|_| format!("TCP option '{n}'"))?,
    };
    let [value] = values else {
        return Err("a TCP option with several values is not supported; a rule each is".into());
    };
    let field = o.get("field").and_then(Value::as_str);
    if let (None, Some(there)) = (field, value.as_bool()) {
        let question = Question::Element(format!("TCPOptionCheck({kind})"));
        return Ok((question, (op == "!=") == there));
    }
    let (offset, len) = match (kind, field) {
        (_, Some("kind")) => (0, 1),
        (_, Some("length")) => (1, 1),
        (2, Some("size")) => (2, 2),
        (3, Some("count")) => (2, 1),
        (5, Some("left")) => (2, 4),
        (5, Some("right")) => (6, 4),
        (8, Some("tsval")) => (2, 4),
        (8, Some("tsecr")) => (6, 4),
        _ => return Err(format!("match on 'tcp option {name}' is not supported")),
    };
    let none = |s: &str| Err(format!("value '{s}'"));
    let (lo, hi) = set::numbers(value, u32::MAX, &none)?;
    let (from, to) = match op {
        "==" | "in" | "!=" => (lo, hi),
        "<=" => (0, hi),
        ">=" => (lo, u32::MAX),
        "<" if lo > 0 => (0, lo - 1),
        ">" if hi < u32::MAX => (hi + 1, u32::MAX),
        _ => return Err(format!("operator '{op}' on a TCP option")),
    };
    // of a segment without it, neither holds
    let outside = if op == "!=" { ", OUTSIDE true" } else { "" };
    let text = format!("TCPOptionCheck({kind}, {offset}, {len}, {from}, {to}{outside})");
    Ok((Question::Element(text), false))
}
