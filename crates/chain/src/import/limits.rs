//! Rates that rules ask for (`limit`): a bucket for each rule of a file.
//!
//! A rule with a rate is asked in two parts. What stands before the rate must hold of a packet; then the bucket is
//! asked, whatever comes of it. Of whom the rate holds, what stands behind it is asked, and the rule does what it does.
//! How a list goes on for these and for all others is said by [`super::walk`].

use super::chains::{ChainRule, OwnTest};
use super::mark::MarkTest;
use std::fmt::Write;

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

/// A bucket of tokens. Wherever a rule comes to stand, it is the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The rule's name.
    pub name: String,
    /// The rate.
    pub limit: Limit,
}

impl Bucket {
    /// That of a rule.
    pub(super) fn of(r: &ChainRule, limit: Limit) -> Bucket {
        Bucket {
            name: name(r),
            limit,
        }
    }
}

/// A rule's rate, and the conditions that are asked behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// The rate.
    pub limit: Limit,
    /// What is asked of packets of which it holds.
    pub behind: Conditions,
}

/// Conditions of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Expressions.
    pub tests: Vec<String>,
    /// Addresses that must be the host's own.
    pub own: Vec<OwnTest>,
    /// Marks that must match.
    pub marks: Vec<MarkTest>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::chains::Target;
    use crate::rules::RulePlace;
    use std::sync::Arc;

    #[test]
    fn buckets_have_names() {
        let mut r = ChainRule {
            tests: Vec::new(),
            interfaces: Vec::new(),
            own: Vec::new(),
            marks: Vec::new(),
            rate: None,
            changes: Vec::new(),
            target: Target::Return,
            refused: None,
            line: 7,
            place: Some(Arc::new(RulePlace {
                family: "ip".into(),
                table: "filter".into(),
                chain: "A-b".into(),
                number: 3,
                handle: None,
            })),
        };
        assert_eq!(name(&r), "limit_ip_filter_A_2d_b_3");
        r.place = None;
        assert_eq!(name(&r), "limit_7");
    }
}
