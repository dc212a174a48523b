//! Two first-match lists side by side: about which packets do they decide differently?
//!
//! Lines that both have, in the same order, are *common*. If a common line is the first that a packet fits in each
//! list, it is the same line: were it `i` in one and a later `j` in the other, the packet would fit `i` there, too. So
//! every packet that is treated differently is decided, on one side at least, by a line that is not common. Only those
//! are looked at, each with the lines of the other list that it overlaps: what has changed costs time, not what is
//! there.

use super::filters::{Exists, FilterList, exists_within};
use crate::cubes::both;
use onefold_synth::Program;
use onefold_synth::program::Filter;
use std::cell::Cell;
use std::collections::HashMap;

/// Two lists, aligned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aligned {
    /// Common lines, by their places in both lists.
    pub common: Vec<(usize, usize)>,
    /// Lines that only the old list has, or has elsewhere.
    pub old: Vec<usize>,
    /// The same of the new list.
    pub new: Vec<usize>,
}

/// Finds as many common lines as there are: equal filters that `like` says do the same.
pub fn align(
    old: &FilterList,
    new: &FilterList,
    like: &mut dyn FnMut(usize, usize) -> bool,
) -> Aligned {
    let mut places: HashMap<&Filter, Vec<usize>> = HashMap::new();
    for j in (0..new.len()).rev() {
        if let Some(f) = new.get(j) {
            places.entry(f).or_default().push(j);
        }
    }
    // the place of each old line's equal, where it has one
    let mut equal: Vec<(usize, usize)> = Vec::new();
    for i in 0..old.len() {
        let Some(list) = old.get(i).and_then(|f| places.get_mut(f)) else {
            continue;
        };
        if let Some(at) = list.iter().rposition(|j| like(i, *j)) {
            equal.push((i, list.remove(at)));
        }
    }
    let common = longest_ascending(&equal);
    let rest = |n: usize, taken: Vec<usize>| -> Vec<usize> {
        let mut is = vec![false; n];
        for i in taken {
            if let Some(x) = is.get_mut(i) {
                *x = true;
            }
        }
        (0..n)
            .filter(|i| !is.get(*i).copied().unwrap_or(false))
            .collect()
    };
    Aligned {
        old: rest(old.len(), common.iter().map(|c| c.0).collect()),
        new: rest(new.len(), common.iter().map(|c| c.1).collect()),
        common,
    }
}

/// The longest part whose second numbers ascend; the first ones do already.
fn longest_ascending(all: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // by length: where the sequence of that length with the least end ends; and what stands before each
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; all.len()];
    for (at, (_, j)) in all.iter().enumerate() {
        let n = ends.partition_point(|e| all.get(*e).is_some_and(|x| x.1 < *j));
        if let (Some(b), true) = (before.get_mut(at), n > 0) {
            *b = ends.get(n - 1).copied();
        }
        match ends.get_mut(n) {
            Some(e) => *e = at,
            None => ends.push(at),
        }
    }
    let mut out = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    // Bound: every step goes to an earlier one
    while let Some(i) = at {
        out.extend(all.get(i));
        at = before.get(i).copied().flatten();
    }
    out.reverse();
    out
}

/// A pair of lines that decide about the same packets and do not do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// The old list's line.
    pub old: usize,
    /// The new one's.
    pub new: usize,
    /// Packets about which they decide.
    pub part: Filter,
}

/// Two lists, and what of them is known.
pub struct Lists<'a> {
    /// Widths of slots.
    pub program: &'a Program,
    /// All packets that come to them.
    pub base: &'a Filter,
    /// The old list.
    pub old: &'a FilterList,
    /// The new one.
    pub new: &'a FilterList,
    /// Lines that take all packets that they say they take; others take none away from later ones.
    pub exact: [&'a dyn Fn(usize) -> bool; 2],
    /// So many lines may be looked at, pair by pair; what is left of it.
    pub work: &'a Cell<u64>,
}

/// Lines that may be looked at for two lists, or two chains: a few seconds.
pub const WORK: u64 = 60_000_000;

impl Lists<'_> {
    /// The lines of a list that may overlap a set; they count as work.
    fn overlapping(&self, list: &FilterList, f: &Filter, until: usize) -> Vec<usize> {
        let mut work = self.work.get();
        let found = list.overlapping_within(f, until, &mut work);
        self.work.set(work);
        found
    }

    /// Tells `found` of every pair of lines that differ, as `like` says, and decide about a packet. It says whether to
    /// go on. False: a bound was reached, or it was ended, and there may be more.
    pub fn differing(
        &self,
        aligned: &Aligned,
        like: &mut dyn FnMut(usize, usize) -> bool,
        found: &mut dyn FnMut(Differing) -> bool,
    ) -> bool {
        let mut whole = true;
        let mut one = |i: usize, j: usize, f: &Filter, whole: &mut bool| -> bool {
            if like(i, j) {
                return true;
            }
            if self.work.get() == 0 {
                *whole = false;
                return false;
            }
            let mut earlier: Vec<&Filter> = Vec::new();
            for (side, (list, until)) in [(self.old, i), (self.new, j)].into_iter().enumerate() {
                let before = self.overlapping(list, f, until).into_iter();
                let exact = before.filter(|k| self.exact.get(side).is_some_and(|e| e(*k)));
                earlier.extend(exact.filter_map(|k| list.get(k)));
            }
            let mut work = self.work.get().saturating_sub(1);
            let found_one = exists_within(self.program, f, &earlier, &mut work, &mut |_| true);
            self.work.set(work);
            match found_one {
                Exists::No => true,
                Exists::Yes(part) => found(Differing {
                    old: i,
                    new: j,
                    part,
                }),
                Exists::Refused | Exists::Unknown => {
                    *whole = false;
                    true
                }
            }
        };
        for i in &aligned.old {
            let Some(f) = self
                .old
                .get(*i)
                .and_then(|f| both(self.program, f, self.base))
            else {
                continue;
            };
            for j in self.overlapping(self.new, &f, self.new.len()) {
                let g = self.new.get(j);
                let Some(cube) = g.and_then(|g| both(self.program, &f, g)) else {
                    continue;
                };
                if !one(*i, j, &cube, &mut whole) {
                    return false;
                }
                // nothing is left for later ones
                if self.exact[1](j) && g.is_some_and(|g| g.covers(&f)) {
                    break;
                }
            }
        }
        let mut changed = vec![false; self.old.len()];
        for i in &aligned.old {
            if let Some(c) = changed.get_mut(*i) {
                *c = true;
            }
        }
        for j in &aligned.new {
            let Some(f) = self
                .new
                .get(*j)
                .and_then(|f| both(self.program, f, self.base))
            else {
                continue;
            };
            for i in self.overlapping(self.old, &f, self.old.len()) {
                let g = self.old.get(i);
                let Some(cube) = g.and_then(|g| both(self.program, &f, g)) else {
                    continue;
                };
                // changed lines of both sides have been looked at
                let done = changed.get(i).copied().unwrap_or(false);
                if !done && !one(i, *j, &cube, &mut whole) {
                    return false;
                }
                if self.exact[0](i) && g.is_some_and(|g| g.covers(&f)) {
                    break;
                }
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::ValueSet;
    use onefold_synth::program::Dim;
    use proptest::prelude::*;

    fn byte(i: i32) -> Dim {
        Dim::Bits {
            bit: i * 8,
            bits: 8,
        }
    }

    type Box2 = ((u128, u128), (u128, u128), u8);

    fn lines(all: &[Box2]) -> (FilterList, Vec<u8>) {
        let one = |(a, b, _): &Box2| {
            let mut f = Filter::default();
            f.narrow(byte(0), &ValueSet::range(a.0.min(a.1), a.0.max(a.1)), 8);
            f.narrow(byte(1), &ValueSet::range(b.0.min(b.1), b.0.max(b.1)), 8);
            f
        };
        let mut filters: Vec<Filter> = all.iter().map(one).collect();
        let mut says: Vec<u8> = all.iter().map(|b| b.2).collect();
        filters.push(Filter::default());
        says.push(0);
        (FilterList::new(filters), says)
    }

    fn decides(l: &(FilterList, Vec<u8>), v: [u128; 2]) -> (usize, u8) {
        let fits = |f: &Filter| {
            f.0.iter()
                .all(|(d, s)| s.contains(if *d == byte(0) { v[0] } else { v[1] }))
        };
        let i = (0..l.0.len()).find(|i| fits(l.0.get(*i).unwrap())).unwrap();
        (i, l.1[i])
    }

    fn a_box() -> impl Strategy<Value = Box2> {
        ((0u128..12, 0u128..12), (0u128..12, 0u128..12), 0u8..3)
    }

    proptest! {
        /// Every packet that is treated differently belongs to a pair of lines that is told, and each of those has one.
        #[test]
        fn pairs_that_differ_are_all_told(
            old in proptest::collection::vec(a_box(), 0..10),
            changes in proptest::collection::vec((0usize..10, proptest::option::of(a_box())), 0..5),
        ) {
            let mut new = old.clone();
            for (at, what) in changes {
                match what {
                    Some(b) => new.insert(at.min(new.len()), b),
                    None if at < new.len() => { let b = new.remove(at); new.push(b); }
                    None => {}
                }
            }
            let (a, b) = (lines(&old), lines(&new));
            let mut like = |i: usize, j: usize| a.1[i] == b.1[j];
            let aligned = align(&a.0, &b.0, &mut like);
            prop_assert_eq!(aligned.common.len() + aligned.old.len(), a.0.len());
            prop_assert_eq!(aligned.common.len() + aligned.new.len(), b.0.len());
            prop_assert!(aligned.common.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            let lists = Lists {
                program: &Program::default(),
                base: &Filter::default(),
                old: &a.0,
                new: &b.0,
                exact: [&|_| true, &|_| true],
                work: &Cell::new(WORK),
            };
            let mut told = Vec::new();
            let whole = lists.differing(&aligned, &mut like, &mut |d| {
                told.push((d.old, d.new));
                true
            });
            prop_assert!(whole);
            let mut want: Vec<(usize, usize)> = (0..256u128)
                .map(|v| [v / 16, v % 16])
                .filter(|v| decides(&a, *v).1 != decides(&b, *v).1)
                .map(|v| (decides(&a, v).0, decides(&b, v).0))
                .collect();
            want.sort_unstable();
            want.dedup();
            told.sort_unstable();
            prop_assert_eq!(told, want);
        }
    }
}
