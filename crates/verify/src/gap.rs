//! A part of a cube that no earlier rule takes, found dimension by dimension.
//!
//! Taking rules away one after the other ([`crate::cubes::left`], [`crate::generate::solve::uncovered`]) is exact, but
//! it looks at all rules again for each: with thousands of rules that overlap, a part that is left is found only after
//! thousands of steps. Here all rules are looked at together: of each dimension the values are sought that the fewest
//! rules ask for, the cube is narrowed to them, and the rules that are left decide the next dimension. Most cubes have
//! a gap that this finds in as many looks at the rules as there are dimensions. It proves nothing where it finds none.

use onefold_element::model::{ValueSet, max_of};
use onefold_synth::program::{Dim, Filter};
use std::collections::BTreeMap;

/// Dimensions that are tried at each place.
const CHOICES: usize = 3;
/// Intervals of values that nobody asks for which are kept.
const INTERVALS: usize = 64;

/// Wide fields (addresses, ports) first: what is left is a packet like others.
pub fn rank(d: &Dim) -> (u8, u8) {
    match d {
        Dim::Bits { bits, .. } => (0, u8::MAX - *bits),
        Dim::Slot(_) => (1, 0),
        Dim::Len | Dim::Anno(_) | Dim::PacketType | Dim::Route { .. } => (2, 0),
        Dim::Check { .. } => (3, 0),
    }
}

/// The search.
pub struct Gap<'a> {
    /// Width of a dimension.
    pub width: &'a dyn Fn(Dim) -> u8,
    /// What dimensions say of each other; `None` when no packet fits.
    pub tightened: &'a dyn Fn(&Filter) -> Option<Filter>,
    /// Filters that may still be looked at.
    pub work: usize,
}

/// What can be done in one dimension: rules that are left then, and the values.
type Choice = (usize, Dim, ValueSet);

impl Gap<'_> {
    /// Offers parts of `cube` that none of `earlier` overlaps to `accept` until it says yes. False says nothing.
    pub fn find(
        &mut self,
        cube: &Filter,
        earlier: &[&Filter],
        accept: &mut dyn FnMut(&Filter) -> bool,
    ) -> bool {
        self.work = match self.work.checked_sub(earlier.len() + 1) {
            Some(w) => w,
            None => return false,
        };
        let Some(cube) = (self.tightened)(cube) else {
            return false;
        };
        let open: Vec<&Filter> = (earlier.iter().copied())
            .filter(|e| !e.is_disjoint(&cube))
            .collect();
        if open.is_empty() {
            return accept(&cube);
        }
        if open.iter().any(|e| e.covers(&cube)) {
            return false;
        }
        for (_, d, set) in self.choices(&cube, &open) {
            let w = (self.width)(d);
            if let Some(part) = cube.and(d, &set, w)
                && self.find(&part, &open, accept)
            {
                return true;
            }
        }
        false
    }

    /// The dimensions in which the fewest rules are left, the best first.
    fn choices(&self, cube: &Filter, open: &[&Filter]) -> Vec<Choice> {
        // by dimension: rules that ask for less than the cube allows, and where what they ask for begins and ends
        let mut ends: BTreeMap<Dim, (usize, Vec<(u128, bool)>)> = BTreeMap::new();
        for e in open {
            for (d, set) in &e.0 {
                let known = cube.get(*d);
                if known.is_some_and(|c| c.is_subset(set)) {
                    continue;
                }
                let (n, list) = ends.entry(*d).or_default();
                *n += 1;
                for (lo, hi) in set.intervals() {
                    list.push((*lo, true));
                    if let Some(behind) = hi.checked_add(1) {
                        list.push((behind, false));
                    }
                }
            }
        }
        let mut all: Vec<Choice> = Vec::with_capacity(ends.len());
        for (d, (asking, mut list)) in ends {
            list.sort_unstable();
            let full = ValueSet::range(0, max_of((self.width)(d)));
            let set = cube.get(d).unwrap_or(&full);
            if let Some((asked, values)) = least_asked(&list, set) {
                all.push((open.len() - asking + asked, d, values));
            }
        }
        all.sort_by_key(|c| (c.0, rank(&c.1)));
        all.retain(|c| c.0 < open.len());
        all.truncate(CHOICES);
        all
    }
}

/// The values of a set that the fewest intervals have; all of them where none has them, otherwise the longest run.
/// `ends`: where intervals begin (true) and the first value behind each (false), ascending.
fn least_asked(ends: &[(u128, bool)], set: &ValueSet) -> Option<(usize, ValueSet)> {
    let mut free: Vec<(u128, u128)> = Vec::new();
    let mut best: Option<(usize, (u128, u128))> = None;
    let (mut at, mut now) = (0, 0usize);
    for (lo, hi) in set.intervals() {
        let mut from = *lo;
        loop {
            while let Some((v, begins)) = ends.get(at)
                && *v <= from
            {
                now = match begins {
                    true => now + 1,
                    false => now.saturating_sub(1),
                };
                at += 1;
            }
            let next = ends.get(at).map(|e| e.0).filter(|v| v <= hi);
            let until = next.map_or(*hi, |v| v - 1);
            if now == 0 && free.len() < INTERVALS {
                free.push((from, until));
            }
            let better =
                |(n, (l, h)): &(usize, (u128, u128))| now < *n || now == *n && until - from > h - l;
            if best.as_ref().is_none_or(better) {
                best = Some((now, (from, until)));
            }
            match next {
                Some(v) => from = v,
                None => break,
            }
        }
    }
    match free.is_empty() {
        false => Some((0, ValueSet::from_intervals(free))),
        true => best.map(|(n, (l, h))| (n, ValueSet::range(l, h))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte(i: i32) -> Dim {
        Dim::Bits {
            bit: i * 8,
            bits: 8,
        }
    }

    fn filter(parts: &[(Dim, ValueSet)]) -> Filter {
        let mut f = Filter::default();
        for (d, s) in parts {
            f.narrow(*d, s, d.width());
        }
        f
    }

    fn search(cube: &Filter, earlier: &[&Filter]) -> (Option<Filter>, usize) {
        let mut found = None;
        let mut gap = Gap {
            width: &Dim::width,
            tightened: &|f| Some(f.clone()),
            work: 1_000_000,
        };
        let yes = gap.find(cube, earlier, &mut |part| {
            found = Some(part.clone());
            true
        });
        assert_eq!(yes, found.is_some());
        (found, 1_000_000 - gap.work)
    }

    proptest! {
        /// What is found is a part of the cube, and no rule overlaps it.
        #[test]
        fn a_gap_is_one(parts in proptest::collection::vec((0u128..16, 0u128..16, 0u128..16, 0u128..16), 1..20)) {
            let all: Vec<Filter> = parts.iter().map(|(a, b, c, d)| filter(&[
                (byte(0), ValueSet::range(*a.min(b), *a.max(b))),
                (byte(1), ValueSet::from_intervals([(*c, *c), (*d, *d)])),
            ])).collect();
            let (cube, earlier) = all.split_last().unwrap();
            let earlier: Vec<&Filter> = earlier.iter().collect();
            if let (Some(part), _) = search(cube, &earlier) {
                prop_assert!(cube.covers(&part));
                prop_assert!(part.0.iter().all(|(_, s)| !s.is_empty()));
                prop_assert!(earlier.iter().all(|e| e.is_disjoint(&part)));
            }
        }
    }

    /// Ten thousand rules in front of one that takes the rest: few looks at each of them.
    #[test]
    fn long_lists_are_looked_at_a_few_times() {
        let wide = |bit| Dim::Bits { bit, bits: 32 };
        let rules: Vec<Filter> = (0..10_000u128)
            .map(|i| {
                let host = ValueSet::one((i * 2_654_435_761) & 0xffff_ffff);
                let net = ValueSet::prefix(i << 19 & 0xffff_ffff, 12, 32);
                filter(&[(wide(0), host), (wide(32), net)])
            })
            .collect();
        let earlier: Vec<&Filter> = rules.iter().collect();
        let (found, work) = search(&Filter::default(), &earlier);
        let found = found.expect("a gap");
        assert!(rules.iter().all(|r| r.is_disjoint(&found)));
        assert!(work < 3 * rules.len(), "{work}");
    }

    #[test]
    fn what_is_covered_has_no_gap() {
        let f = |l, h| filter(&[(byte(0), ValueSet::range(l, h))]);
        let (a, b) = (f(0, 100), f(90, 255));
        assert_eq!(search(&Filter::default(), &[&a, &b]).0, None);
        let part = search(&Filter::default(), &[&a, &f(120, 255)]).0;
        assert_eq!(part, Some(f(101, 119)));
    }
}
