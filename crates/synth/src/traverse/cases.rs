//! Filters against the alternatives of an element's cases.

use crate::program::{Dim, Filter};
use onefold_element::model::ValueSet;
use std::collections::{HashMap, HashSet};

/// Most intervals that taking one case out of a filter may leave in a dimension.
const MAX_LEFT: usize = 32;

/// Of a list of alternatives of cases, those that one earlier alternative covers: no packet gets to them.
pub(super) fn covered(all: &[Vec<Filter>]) -> Vec<Vec<bool>> {
    let columns = telling(all);
    let mut before = Blocks::default();
    let mut out = Vec::with_capacity(all.len());
    for terms in all {
        let mut dead = Vec::with_capacity(terms.len());
        let mut mine = Vec::new();
        for t in terms {
            let b = bounds(t, &columns);
            let is = before.any_around(&b, |e, f| around(e, &b) && f.covers(t));
            dead.push(is);
            if !is {
                mine.push((b, t));
            }
        }
        // alternatives of one case are not earlier than each other
        for (b, t) in mine {
            before.add(b, t);
        }
        out.push(dead);
    }
    out
}

/// Filters by the smallest aligned blocks (2^n numbers, from a multiple of 2^n on) that hold their bounds in the first
/// two columns. What is around a filter is in a block around its block, of which there are as many as numbers have
/// bits.
#[derive(Default)]
struct Blocks<'a> {
    first: Level<Level<Vec<(Bounds, &'a Filter)>>>,
}

/// What is in blocks, and which sizes of blocks there are.
struct Level<T> {
    blocks: HashMap<(u32, u64), T>,
    sizes: u128,
}

impl<T> Default for Level<T> {
    fn default() -> Self {
        Level {
            blocks: HashMap::new(),
            sizes: 0,
        }
    }
}

/// The size (as a power of two) and number of the smallest block that holds an interval.
fn block((lo, hi): (u64, u64)) -> (u32, u64) {
    let size = 64 - (lo ^ hi).leading_zeros();
    (size, lo.checked_shr(size).unwrap_or(0))
}

impl<T: Default> Level<T> {
    fn at(&mut self, interval: (u64, u64)) -> &mut T {
        let b = block(interval);
        self.sizes |= 1 << b.0;
        self.blocks.entry(b).or_default()
    }

    /// What is in blocks that hold an interval's.
    fn around(&self, interval: (u64, u64)) -> impl Iterator<Item = &T> {
        let (least, _) = block(interval);
        let sizes = (least..=64).filter(|s| self.sizes >> s & 1 == 1);
        sizes.filter_map(move |s| {
            let number = interval.0.checked_shr(s).unwrap_or(0);
            self.blocks.get(&(s, number))
        })
    }
}

impl<'a> Blocks<'a> {
    fn add(&mut self, b: Bounds, f: &'a Filter) {
        self.first.at(b[0]).at(b[1]).push((b, f));
    }

    fn any_around(&self, b: &Bounds, is: impl Fn(&Bounds, &Filter) -> bool) -> bool {
        let firsts = self.first.around(b[0]);
        let mut seconds = firsts.flat_map(|s| s.around(b[1]));
        seconds.any(|list| list.iter().any(|(e, f)| is(e, f)))
    }
}

/// Dimensions that are looked at before filters are compared as a whole: with thousands of rules that is what takes the
/// time.
const COLUMNS: usize = 4;
/// Lowest and highest value in each column; everything where a filter does not say.
type Bounds = [(u64, u64); COLUMNS];

/// The dimensions that tell most alternatives from each other.
fn telling(all: &[Vec<Filter>]) -> Vec<Dim> {
    let mut values: HashMap<Dim, HashSet<(u64, u64)>> = HashMap::new();
    for (d, s) in all.iter().flatten().flat_map(|f| &f.0) {
        values.entry(*d).or_default().insert(ends(*d, s));
    }
    let mut by: Vec<(usize, Dim)> = values.iter().map(|(d, v)| (v.len(), *d)).collect();
    by.sort_unstable_by(|a, b| b.cmp(a));
    by.iter().take(COLUMNS).map(|(_, d)| *d).collect()
}

/// The lowest and the highest value, of wide dimensions their first bits: what is around stays around.
fn ends(d: Dim, s: &ValueSet) -> (u64, u64) {
    let cut = d.width().saturating_sub(64);
    let short = |v: u128| u64::try_from(v >> cut).unwrap_or(u64::MAX);
    match s.intervals() {
        [] => (0, 0),
        [(l, h)] => (short(*l), short(*h)),
        [(l, _), .., (_, h)] => (short(*l), short(*h)),
    }
}

fn bounds(f: &Filter, columns: &[Dim]) -> Bounds {
    let mut b = [(0, u64::MAX); COLUMNS];
    for (b, d) in b.iter_mut().zip(columns) {
        if let Some(s) = f.get(*d) {
            *b = ends(*d, s);
        }
    }
    b
}

/// Can a filter with the bounds `a` cover one with the bounds `b`?
fn around(a: &Bounds, b: &Bounds) -> bool {
    a.iter().zip(b).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
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

/// Takes what fits `t` out of `f` where that leaves one filter; where it does not, `f` stays, and order does it (the
/// first match counts). False when nothing is left.
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

/// The same where that takes something off one end of a set that `f` has already: lengths, most of the time. Nothing
/// that is taken was left for `f`: the alternative is an earlier one. False when nothing is left.
pub(super) fn trim(f: &mut Filter, t: &Filter, width: impl Fn(Dim) -> u8) -> bool {
    let mut only = None;
    for (d, set) in &t.0 {
        match f.get(*d) {
            Some(have) if have.is_subset(set) => {}
            Some(have) if only.is_none() && !have.is_disjoint(set) => only = Some((*d, set, have)),
            _ => return true,
        }
    }
    let Some((d, set, have)) = only else {
        return false;
    };
    let left = have.intersect(&set.complement(width(d)));
    if left.intervals().len() <= have.intervals().len() {
        f.narrow(d, &left, width(d));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quick look first changes nothing.
    #[test]
    fn covered_is_what_one_by_one_comparison_says() {
        let mut n = 1u64;
        let mut next = |below: u64| {
            n = n.wrapping_mul(6364136223846793005).wrapping_add(1);
            u128::from((n >> 33) % below)
        };
        for _ in 0..50 {
            let all: Vec<Vec<Filter>> = (0..40)
                .map(|_| {
                    let terms = (0..1 + next(3)).map(|_| {
                        let mut f = Filter::default();
                        for d in 0..6 {
                            let bits = if d == 5 { 128 } else { 16 };
                            let l = next(4) << (bits - 4);
                            let set = match next(3) {
                                0 => continue,
                                1 => ValueSet::range(l, l + (next(3) << (bits - 4))),
                                _ => ValueSet::from_intervals([(l, l), (l + 2, l + next(9) + 2)]),
                            };
                            f.narrow(Dim::Bits { bit: d * 128, bits }, &set, bits);
                        }
                        f
                    });
                    terms.collect()
                })
                .collect();
            let mut before: Vec<&Filter> = Vec::new();
            let got = covered(&all);
            for (terms, got) in all.iter().zip(&got) {
                let dead: Vec<bool> = terms
                    .iter()
                    .map(|t| before.iter().any(|b| b.covers(t)))
                    .collect();
                assert_eq!(*got, dead);
                before.extend(terms);
            }
        }
    }
}
