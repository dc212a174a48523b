//! Rates that rules ask for (`limit`), as words of their expressions.
//!
//! A rule with a rate has a test `limit ...` among its others. Where the rule is reached, the list has a line of its
//! own that asks the bucket (`ask ...`), with what must hold before it is asked; wherever the answer matters behind it
//! (in the rule, in those of a chain that it jumps to, in what a return leaves out), its test has the same number. What
//! the kinds make of it is two lists, for who is within the rate and for all others (`kinds/firewall/limits.rs`).

use super::chains::ChainRule;
use std::borrow::Cow;
use std::fmt::Write;

/// The word of a test, and of a line that asks.
const TEST: &str = "limit ";
const ASK: &str = "ask ";
/// In the place of a name, before it is known.
const NAMELESS: &str = "?";

/// A rate: so many packets, or bytes, in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many.
    pub rate: u64,
    /// Seconds.
    pub per: u64,
    /// How many at once, or bytes more.
    pub burst: u64,
    /// Bytes instead of packets.
    pub bytes: bool,
    /// It holds of packets beyond the rate instead of those within.
    pub over: bool,
}

/// A bucket where it is asked, or where its answer matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The rule's name: rules that come of it share the bucket.
    pub name: String,
    /// Which visit of the rule it is.
    pub visit: usize,
    /// The rate.
    pub limit: Limit,
}

impl Limit {
    /// As a test of a rule that has no name yet.
    pub fn test(&self) -> String {
        format!("{TEST}{}", word(NAMELESS, 0, self))
    }
}

fn word(name: &str, visit: usize, l: &Limit) -> String {
    let unit = if l.bytes { "bytes" } else { "packets" };
    let side = if l.over { "over" } else { "within" };
    format!(
        "{name}/{visit}/{}/{}/{}/{unit}/{side}",
        l.rate, l.per, l.burst
    )
}

impl Asked {
    fn of(word: &str) -> Option<Asked> {
        let parts: Vec<&str> = word.split('/').collect();
        let [name, visit, rate, per, burst, unit, side] = parts[..] else {
            return None;
        };
        Some(Asked {
            name: name.to_string(),
            visit: visit.parse().ok()?,
            limit: Limit {
                rate: rate.parse().ok()?,
                per: per.parse().ok()?,
                burst: burst.parse().ok()?,
                bytes: unit == "bytes",
                over: side == "over",
            },
        })
    }

    fn word(&self) -> String {
        word(&self.name, self.visit, &self.limit)
    }

    /// An expression with the answer in the place of its tests. One that asks is left as it is.
    pub fn answered(&self, text: &str, answer: bool) -> String {
        text.replace(
            &format!("{TEST}{}", self.word()),
            if answer { "true" } else { "false" },
        )
    }

    /// Does an expression depend on the answer?
    pub fn decides(&self, text: &str) -> bool {
        text.contains(&format!("{TEST}{}", self.word()))
    }
}

/// The tests of a rule with the name of its bucket, on this visit.
pub(super) fn named(r: &ChainRule, visit: usize) -> Cow<'_, [String]> {
    let nameless = format!("{TEST}{NAMELESS}/");
    if !r.tests.iter().any(|t| t.starts_with(&nameless)) {
        return Cow::Borrowed(&r.tests);
    }
    let name = name(r);
    let one = |t: &String| match t.strip_prefix(TEST).and_then(Asked::of) {
        Some(Asked { limit, .. }) if t.starts_with(&nameless) => {
            format!("{TEST}{}", word(&name, visit, &limit))
        }
        _ => t.clone(),
    };
    Cow::Owned(r.tests.iter().map(one).collect())
}

/// What must hold before a rule's bucket is asked, and the word that asks it.
pub(super) fn asks_before(tests: &[String]) -> Option<(&[String], String)> {
    let at = tests.iter().position(|t| t.starts_with(TEST))?;
    let what = tests.get(at)?.strip_prefix(TEST)?;
    Some((tests.get(..at)?, format!("{ASK}{what}")))
}

/// A name for the rule, of letters and digits: where it stands.
fn name(r: &ChainRule) -> String {
    let mut out = String::from("limit");
    let mut add = |s: &str| {
        out.push('_');
        for c in s.chars() {
            // writing to a String cannot fail
            let _ = match c.is_ascii_alphanumeric() {
                true => write!(out, "{c}"),
                false => write!(out, "_{:x}_", u32::from(c)),
            };
        }
    };
    match &r.place {
        Some(p) => {
            for part in [&p.family, &p.table, &p.chain, &p.number.to_string()] {
                add(part);
            }
        }
        None => add(&r.line.to_string()),
    }
    out
}

/// The bucket that an expression of a list asks, and the expression without that word.
pub(crate) fn asks(text: &str) -> Option<(Asked, String)> {
    let at = find(text, ASK)?;
    let (before, rest) = text.split_at(at);
    let rest = &rest[ASK.len()..];
    let end = rest.find([' ', ')']).unwrap_or(rest.len());
    let asked = Asked::of(&rest[..end])?;
    Some((asked, format!("{before}true{}", &rest[end..])))
}

/// An expression with a test in the place of each that asks a bucket or depends on one: what is neither always true nor
/// always false.
pub fn as_unknown(text: &str) -> Cow<'_, str> {
    if find(text, TEST).is_none() && find(text, ASK).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    // Bound: each turn takes a word
    while let Some(at) = [TEST, ASK].iter().filter_map(|w| find(rest, w)).min() {
        let (before, behind) = rest.split_at(at);
        let behind = behind.split_once(' ').map_or("", |(_, b)| b);
        let end = behind.find([' ', ')']).unwrap_or(behind.len());
        out.push_str(before);
        out.push_str("tcp");
        rest = &behind[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where a word stands by itself.
fn find(text: &str, word: &str) -> Option<usize> {
    let mut all = text.match_indices(word).map(|(i, _)| i);
    all.find(|i| *i == 0 || text[..*i].ends_with([' ', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::chains::Target;
    use crate::rules::RulePlace;
    use std::sync::Arc;

    const TEN: Limit = Limit {
        rate: 10,
        per: 60,
        burst: 5,
        bytes: false,
        over: false,
    };

    #[test]
    fn words_of_rules() {
        let mut r = ChainRule {
            tests: vec!["tcp".into(), TEN.test(), "udp".into()],
            interfaces: Vec::new(),
            target: Target::Return,
            line: 7,
            place: Some(Arc::new(RulePlace {
                family: "ip".into(),
                table: "filter".into(),
                chain: "A-b".into(),
                number: 3,
                handle: None,
            })),
        };
        let tests = named(&r, 12).into_owned();
        let word = "limit_ip_filter_A_2d_b_3/12/10/60/5/packets/within";
        assert_eq!(tests, ["tcp", &format!("limit {word}"), "udp"]);
        let (before, ask) = asks_before(&tests).unwrap();
        assert_eq!(
            (before, ask.as_str()),
            (&["tcp".to_string()][..], &*format!("ask {word}"))
        );
        let (asked, rest) = asks(&format!("tcp && {ask}")).unwrap();
        assert_eq!(rest, "tcp && true");
        assert_eq!((asked.visit, asked.limit), (12, TEN));
        let text = format!("not (udp && limit {word}) && icmp");
        assert!(asked.decides(&text) && !asked.decides(&ask));
        assert_eq!(asked.answered(&text, true), "not (udp && true) && icmp");
        assert_eq!(as_unknown(&text), "not (udp && tcp) && icmp");
        assert_eq!(as_unknown(&format!("{ask} && udp")), "tcp && udp");
        assert_eq!(as_unknown("udp && dst host task"), "udp && dst host task");
        r.tests.remove(1);
        assert!(matches!(named(&r, 1), Cow::Borrowed(_)));
        assert_eq!(asks_before(&r.tests), None);
        assert_eq!(asks("tcp && dst port 80"), None);
    }
}
