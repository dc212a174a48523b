//! Which question is asked next.

use crate::class::needs;
use crate::rule::{Known, Rule};
use onefold_element::model::ValueSet;
use onefold_synth::program::Dim;
use std::collections::HashMap;

/// Rules that are looked at to compare questions: all, or so many of them.
const SAMPLE: usize = 192;
/// Values between rules' intervals that are tried for each dimension.
const CUTS: usize = 7;
/// Sets of rules that are tried for each dimension.
const SETS: usize = 4;
/// Sets with more intervals are not cut between intervals.
const FEW: usize = 4;
/// What nearly all rules ask is asked first: of so many in a hundred.
const COMMON: usize = 80;

/// The question: is the dimension in the set?
#[derive(Debug, Clone)]
pub(crate) struct Split {
    pub dim: Dim,
    pub set: ValueSet,
}

/// The question that divides the rules best; `None`: there is none that any of them minds.
pub(crate) fn choose(rules: &[Rule], known: &Known) -> Option<Split> {
    let step = rules.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<&Rule> = rules.iter().step_by(step).collect();
    let mut dims: Vec<Dim> = Vec::new();
    for r in &sample {
        for c in &r.conditions {
            if !dims.contains(&c.dim) {
                dims.push(c.dim);
            }
        }
    }
    // what is in front of a frame is asked first
    dims.sort_by_key(|d| (needs(*d), matches!(d, Dim::Check { .. }), *d));
    if let Some(common) = common(&sample, &dims) {
        return Some(common);
    }
    let mut best: Option<(f64, Split)> = None;
    for d in &dims {
        for s in candidates(&sample, *d, known) {
            let cost = cost(&sample, &s, known);
            if cost.is_finite() && best.as_ref().is_none_or(|(b, _)| cost < *b) {
                best = Some((cost, s));
            }
        }
    }
    best.map(|(_, s)| s)
}

/// A question that nearly all rules ask.
fn common(sample: &[&Rule], dims: &[Dim]) -> Option<Split> {
    if sample.len() < 8 {
        return None;
    }
    for d in dims {
        let mut times: HashMap<&ValueSet, usize> = HashMap::new();
        for s in sample.iter().filter_map(|r| r.on(*d)) {
            *times.entry(s).or_default() += 1;
        }
        if let Some((set, n)) = times.into_iter().max_by_key(|(_, n)| *n)
            && n * 100 >= sample.len() * COMMON
        {
            let set = set.clone();
            return Some(Split { dim: *d, set });
        }
    }
    None
}

fn candidates(sample: &[&Rule], d: Dim, known: &Known) -> Vec<Split> {
    let full = ValueSet::full(d.width());
    let here = known.on(d).unwrap_or(&full);
    let mut sets: Vec<(&ValueSet, usize)> = Vec::new();
    let mut ends: Vec<u128> = Vec::new();
    for s in sample.iter().filter_map(|r| r.on(d)) {
        match sets.iter().position(|(o, _)| *o == s) {
            Some(i) => sets[i].1 += 1,
            None => sets.push((s, 1)),
        }
        if s.intervals().len() <= FEW {
            let below = s.intervals().iter().filter_map(|i| i.0.checked_sub(1));
            ends.extend(below.chain(s.intervals().iter().map(|i| i.1)));
        }
    }
    sets.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let mut all: Vec<Split> = (sets.into_iter().take(SETS))
        .map(|(set, _)| Split {
            dim: d,
            set: set.clone(),
        })
        .collect();
    if matches!(d, Dim::Check { .. }) {
        return all;
    }
    let (least, most) = match (here.intervals().first(), here.intervals().last()) {
        (Some(a), Some(b)) => (a.0, b.1),
        _ => return all,
    };
    ends.retain(|e| (least..most).contains(e));
    ends.sort_unstable();
    let n = ends.len();
    let mut last = None;
    for i in 1..=CUTS {
        let Some(cut) = ends.get(n * i / (CUTS + 1)) else {
            continue;
        };
        if last.replace(*cut) != Some(*cut) {
            let set = ValueSet::range(0, *cut);
            all.push(Split { dim: d, set });
        }
    }
    all
}

/// What is left to be done on both sides.
fn cost(sample: &[&Rule], s: &Split, known: &Known) -> f64 {
    let width = s.dim.width();
    let full = ValueSet::full(width);
    let here = known.on(s.dim).unwrap_or(&full);
    let (inside, outside) = (here.intersect(&s.set), here.minus(&s.set, width));
    if inside.is_empty() || outside.is_empty() {
        return f64::INFINITY;
    }
    let mut sides = [0.0f64; 2];
    for r in sample {
        let open = 1.0 + 0.25 * r.conditions.len() as f64;
        for (side, set) in sides.iter_mut().zip([&inside, &outside]) {
            *side += match r.on(s.dim) {
                None => open,
                Some(c) if c.is_disjoint(set) => 0.0,
                Some(c) if set.is_subset(c) => open - 0.25,
                Some(_) => open,
            };
        }
    }
    // long questions are long code
    let long = s.set.intervals().len().saturating_sub(2) as f64 * 0.05;
    sides[0].max(sides[1]) + 0.4 * (sides[0] + sides[1]) + long
}
