//! Filters against the alternatives of an element's cases.

use crate::program::{Dim, Filter};

/// Most intervals that taking one case out of a filter may leave in a dimension.
const MAX_LEFT: usize = 32;

/// Of a list of alternatives of cases, those that one earlier alternative covers: no packet gets to them.
pub(super) fn covered(all: &[Vec<Filter>]) -> Vec<Vec<bool>> {
    let mut before: Vec<&Filter> = Vec::new();
    let mut out = Vec::with_capacity(all.len());
    for terms in all {
        let dead: Vec<bool> = terms
            .iter()
            .map(|t| before.iter().any(|b| b.covers(t)))
            .collect();
        let live = terms.iter().zip(&dead).filter(|(_, d)| !**d);
        before.extend(live.map(|(t, _)| t));
        out.push(dead);
    }
    out
}

/// How a filter and an alternative stand to each other.
pub(super) enum Meet {
    /// No packet fits both.
    Never,
    /// Every packet that fits the filter fits the alternative.
    Whole,
    /// Some do.
    Part,
}

pub(super) fn meet(f: &Filter, t: &Filter) -> Meet {
    let mut whole = true;
    for (d, set) in &t.0 {
        match f.get(*d) {
            Some(have) if have.is_disjoint(set) => return Meet::Never,
            Some(have) => whole &= have.is_subset(set),
            None => whole = false,
        }
    }
    if whole { Meet::Whole } else { Meet::Part }
}

/// Takes what fits `t` out of `f` where that leaves one filter; where it does not, `f` stays, and order does it (the first
/// match counts). False when nothing is left.
pub(super) fn subtract(f: &mut Filter, t: &Filter, width: impl Fn(Dim) -> u8) -> bool {
    let mut only = None;
    for (d, set) in &t.0 {
        if f.get(*d).is_some_and(|have| have.is_subset(set)) {
            continue;
        }
        if only.is_some() {
            return true;
        }
        only = Some((d, set));
    }
    let Some((d, set)) = only else { return false };
    let out = set.complement(width(*d));
    let mut narrowed = f.clone();
    if !narrowed.narrow(*d, &out, width(*d)) {
        return false;
    }
    if narrowed
        .get(*d)
        .is_none_or(|s| s.intervals().len() <= MAX_LEFT)
    {
        *f = narrowed;
    }
    true
}
