//! Invariant 12: does some rule fit every packet that is known to come? By subtraction of boxes, within a budget.

use crate::program::{Filter, SlotInfo, Stage};
use crate::text::width;

/// What can be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Coverage {
    /// Some rule fits every packet.
    All,
    /// No rule fits these.
    Left(Filter),
    /// It would take more work than is allowed.
    Unknown,
}

/// Looks for packets that no rule fits.
pub(super) fn uncovered(s: &Stage, slots: &[SlotInfo], budget: usize) -> Coverage {
    // an unconditional rule settles it
    if s.rules.iter().any(|r| r.filter.covers(&s.known)) {
        return Coverage::All;
    }
    // the order of rules does not matter here: rules with few conditions take most away
    let mut rules: Vec<&Filter> = s.rules.iter().map(|r| &r.filter).collect();
    rules.sort_by_key(|f| f.0.len());
    let mut left = match &s.among[..] {
        [] => vec![s.known.clone()],
        among => among.to_vec(),
    };
    let mut work = 0usize;
    for f in rules {
        let mut rest = Vec::with_capacity(left.len());
        for b in left {
            work += 1;
            if b.is_disjoint(f) {
                rest.push(b);
                continue;
            }
            b.subtract(f, |d| width(slots, d), &mut rest);
        }
        if rest.is_empty() {
            return Coverage::All;
        }
        work += rest.len();
        if rest.len() > budget || work > budget.saturating_mul(100) {
            return Coverage::Unknown;
        }
        left = rest;
    }
    match left.into_iter().next() {
        Some(f) => Coverage::Left(f),
        None => Coverage::All,
    }
}
