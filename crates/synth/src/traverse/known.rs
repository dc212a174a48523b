//! What is known of packets where a stage begins: a small union of filters, joined where ways meet.

use crate::program::{Filter, SlotInfo};
use crate::text::width;
use onefold_element::model::ValueSet;

/// Most filters of a union; then those that differ least become one.
const MAX_CUBES: usize = 8;
/// Most intervals of a set in what is known of a stage.
const KNOWN_INTERVALS: usize = 256;

/// Every packet fits one of these filters. There is at least one, and none covers another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known(Vec<Filter>);

impl Known {
    pub(super) fn anything() -> Known {
        Known(vec![Filter::default()])
    }

    pub(super) fn of(f: Filter) -> Known {
        Known(vec![f])
    }

    /// What may come besides. Says whether that is more than was known to come.
    pub(super) fn add(&mut self, f: Filter, slots: &[SlotInfo]) -> bool {
        if self.0.iter().any(|c| c.covers(&f)) {
            return false;
        }
        let mut f = f;
        // Bound: every round but the last takes a filter out of the union.
        loop {
            self.0.retain(|c| !f.covers(c));
            let (mut nearest, mut least) = (None, usize::MAX);
            for (i, c) in self.0.iter().enumerate() {
                let n = differences(c, &f);
                if n < least {
                    (nearest, least) = (Some(i), n);
                }
            }
            match nearest {
                // a union in one dimension loses nothing
                Some(i) if least == 1 || self.0.len() >= MAX_CUBES => {
                    f = hull(&self.0.swap_remove(i), &f, slots);
                }
                _ => break,
            }
        }
        self.0.push(f);
        // in an order that does not depend on who came first
        self.0.sort_unstable();
        true
    }

    /// The union of both. Says whether that is more than was known to come.
    pub(super) fn join(&mut self, other: &Known, slots: &[SlotInfo]) -> bool {
        let mut more = false;
        for f in &other.0 {
            more |= self.add(f.clone(), slots);
        }
        more
    }

    /// Each filter as `f` makes it.
    pub(super) fn map(&self, slots: &[SlotInfo], f: impl Fn(&Filter) -> Filter) -> Known {
        let mut all = self.0.iter().map(f);
        let mut k = Known(all.next().into_iter().collect());
        for c in all {
            k.add(c, slots);
        }
        k
    }

    /// One filter that says as much as one can.
    pub(super) fn hull(&self, slots: &[SlotInfo]) -> Filter {
        let mut all = self.0.iter();
        let mut f = all.next().cloned().unwrap_or_default();
        for c in all {
            f = hull(&f, c, slots);
        }
        f
    }

    /// The filters.
    pub(super) fn cubes(&self) -> &[Filter] {
        &self.0
    }
}

/// In how many dimensions the filters differ.
fn differences(a: &Filter, b: &Filter) -> usize {
    let of = |x: &Filter, y: &Filter| x.0.iter().filter(|(d, s)| y.get(*d) != Some(s)).count();
    let both =
        a.0.iter()
            .filter(|(d, s)| b.get(*d).is_some_and(|o| o != s));
    of(a, b) + of(b, a) - both.count()
}

/// What both allow at most: per dimension the union, where both have one.
pub(super) fn hull(a: &Filter, b: &Filter, slots: &[SlotInfo]) -> Filter {
    let mut out = Vec::new();
    for (d, s) in &a.0 {
        if let Some(o) = b.get(*d) {
            let u = if o.is_subset(s) {
                s.clone()
            } else {
                s.union(o)
            };
            let u = match u.intervals() {
                [(lo, _), .., (_, hi)] if u.intervals().len() > KNOWN_INTERVALS => {
                    ValueSet::range(*lo, *hi)
                }
                _ => u,
            };
            if !u.is_full(width(slots, *d)) {
                out.push((*d, u));
            }
        }
    }
    Filter(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Dim;

    fn f(list: &[(i32, u128, u128)]) -> Filter {
        let dim = |bit| Dim::Bits { bit, bits: 16 };
        let all = list
            .iter()
            .map(|(b, l, h)| (dim(*b), ValueSet::range(*l, *h)));
        Filter(all.collect())
    }

    #[test]
    fn what_differs_in_one_dimension_is_one() {
        let mut k = Known::of(f(&[(0, 6, 6), (16, 1, 9)]));
        assert!(!k.add(f(&[(0, 6, 6), (16, 2, 3)]), &[]));
        assert!(k.add(f(&[(0, 6, 6), (16, 20, 30)]), &[]));
        assert_eq!(k.cubes().len(), 1);
        // UDP to one port stays one fact
        assert!(k.add(f(&[(0, 17, 17), (16, 1, 9), (32, 1234, 1234)]), &[]));
        assert_eq!(k.cubes().len(), 2);
        let none = f(&[(0, 17, 17), (32, 80, 80)]);
        assert!(k.cubes().iter().all(|c| c.is_disjoint(&none)));
        assert_eq!(k.hull(&[]).0.len(), 2);
    }

    #[test]
    fn a_union_is_bounded_and_only_grows() {
        let mut k = Known::of(f(&[(0, 0, 0), (16, 0, 0)]));
        let mut seen = vec![f(&[(0, 0, 0), (16, 0, 0)])];
        for i in 1..100 {
            let one = f(&[
                (0, i, i),
                (16, i * 7 % 100, i * 7 % 100),
                (32, i % 3, i % 3),
            ]);
            k.add(one.clone(), &[]);
            seen.push(one);
            assert!(k.cubes().len() <= MAX_CUBES);
            for s in &seen {
                assert!(k.cubes().iter().any(|c| c.covers(s)), "{s:?}");
            }
        }
        assert!(k.add(Filter::default(), &[]));
        assert_eq!(k, Known::anything());
    }
}
