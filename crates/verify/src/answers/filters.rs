//! First-match lists of packet filters: is there a packet in a set about which none of these filters decides?
//!
//! Two searches answer it. [`Gap`] looks at all filters together and finds a part in a few looks where there is a wide
//! one; [`left`] takes filters away one after the other, and only it can say that nothing is left.

use crate::cubes::{Left, PER_STEP, left, tightened};
use crate::gap::Gap;
use crate::generate::index::Index;
use onefold_synth::Program;
use onefold_synth::program::{Dim, Filter};

/// So many times all filters are looked at for a gap between them, at most.
const GAP_LOOKS: usize = 6;
/// Steps of one question that takes filters away, each of which looks at up to [`PER_STEP`] of them.
const STEPS: usize = 60_000;

/// Filters in order, with an index of what overlaps what.
#[derive(Debug, Clone, Default)]
pub struct FilterList {
    all: Vec<Filter>,
    index: Index,
}

impl FilterList {
    /// Of these filters.
    pub fn new(all: Vec<Filter>) -> FilterList {
        let index = Index::new(all.iter());
        FilterList { all, index }
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// None?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// One of them; that of no packet behind the end.
    pub fn get(&self, i: usize) -> Option<&Filter> {
        self.all.get(i)
    }
    /// The first `until` of them as far as they may overlap a set.
    pub fn overlapping(&self, cube: &Filter, until: usize) -> Vec<usize> {
        self.overlapping_within(cube, until, &mut u64::MAX.clone())
    }
    /// The same; filters that are looked at are taken off `work`.
    pub fn overlapping_within(&self, cube: &Filter, until: usize, work: &mut u64) -> Vec<usize> {
        let mut found = Vec::new();
        self.index.overlapping(cube, until, &mut |i| {
            *work = work.saturating_sub(1);
            if self.all.get(i).is_some_and(|f| !f.is_disjoint(cube)) {
                found.push(i);
            }
        });
        found
    }
}

/// Whether there is a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exists {
    /// There is none: proved.
    No,
    /// There is: all packets of this part, as far as fields that overlap each other tell.
    Yes(Filter),
    /// There may be, but every part that was offered was refused.
    Refused,
    /// A bound was reached.
    Unknown,
}

impl Exists {
    /// It is proved that there is none.
    pub fn never(&self) -> bool {
        *self == Exists::No
    }
    /// A part was found.
    pub fn found(&self) -> bool {
        matches!(self, Exists::Yes(_))
    }
}

/// Is there a packet in `cube` that fits none of `earlier`? Parts are offered to `accept`, which may refuse them: then
/// another one is sought. `p` says how wide slots are.
pub fn exists(
    p: &Program,
    cube: &Filter,
    earlier: &[&Filter],
    accept: &mut dyn FnMut(&Filter) -> bool,
) -> Exists {
    exists_within(p, cube, earlier, &mut u64::MAX.clone(), accept)
}

/// The same, within `work`: filters that may be looked at. [`Exists::Unknown`] where it is used up.
pub fn exists_within(
    p: &Program,
    cube: &Filter,
    earlier: &[&Filter],
    work: &mut u64,
    accept: &mut dyn FnMut(&Filter) -> bool,
) -> Exists {
    let Some(cube) = tightened(cube, None) else {
        return Exists::No;
    };
    if earlier.iter().any(|e| e.covers(&cube)) {
        return Exists::No;
    }
    let (mut found, mut refused) = (None, false);
    let mut offer = |part: &Filter| {
        let taken = accept(part);
        match taken {
            true => found = Some(part.clone()),
            false => refused = true,
        }
        taken
    };
    let width = |d: Dim| crate::cubes::width(p, d);
    let at_most = |n: usize, work: u64| n.min(usize::try_from(work).unwrap_or(usize::MAX));
    let looks = at_most(GAP_LOOKS * (earlier.len() + 1), *work);
    let mut gap = Gap {
        width: &width,
        tightened: &|f| tightened(f, None),
        work: looks,
    };
    let wide = gap.find(&cube, earlier, &mut offer);
    *work = work.saturating_sub((looks - gap.work) as u64);
    if wide {
        return found.map_or(Exists::Unknown, Exists::Yes);
    }
    // every step looks at a part of all filters: long lists have fewer steps
    let most = STEPS.min(STEPS * 64 / (1 + earlier.len() / PER_STEP).max(64));
    let most = at_most(most, *work / PER_STEP as u64);
    let mut steps = most;
    let rest = left(p, &cube, None, earlier, &mut steps, &mut offer);
    *work = work.saturating_sub(((most - steps) * PER_STEP) as u64);
    match rest {
        Left::Something => found.map_or(Exists::Unknown, Exists::Yes),
        Left::TooLong => Exists::Unknown,
        Left::Nothing if refused => Exists::Refused,
        Left::Nothing => Exists::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::ValueSet;
    use proptest::prelude::*;

    fn byte(i: i32) -> Dim {
        Dim::Bits {
            bit: i * 8,
            bits: 8,
        }
    }

    fn filter(a: (u128, u128), b: (u128, u128)) -> Filter {
        let mut f = Filter::default();
        for (i, (l, h)) in [(0, a), (1, b)] {
            f.narrow(byte(i), &ValueSet::range(l.min(h), l.max(h)), 8);
        }
        f
    }

    fn a_box() -> impl Strategy<Value = ((u128, u128), (u128, u128))> {
        ((0u128..16, 0u128..16), (0u128..16, 0u128..16))
    }

    proptest! {
        /// Two fields of sixteen values: what is said to be left is left, and nothing is where nothing is said to be.
        #[test]
        fn what_is_left_is_known(boxes in proptest::collection::vec(a_box(), 1..14)) {
            let all: Vec<Filter> = boxes.iter().map(|(a, b)| filter(*a, *b)).collect();
            let (cube, earlier) = all.split_last().unwrap();
            let earlier: Vec<&Filter> = earlier.iter().collect();
            let value = |d: Dim, v: [u128; 2]| if d == byte(0) { v[0] } else { v[1] };
            let fits = |f: &Filter, v: [u128; 2]| f.0.iter().all(|(d, s)| s.contains(value(*d, v)));
            let free = |v: [u128; 2]| fits(cube, v) && !earlier.iter().any(|e| fits(e, v));
            let any = (0..256u128).any(|v| free([v / 16, v % 16]));
            match exists(&Program::default(), cube, &earlier, &mut |_| true) {
                Exists::Yes(part) => {
                    let low = |i| part.get(byte(i)).map_or(0, |s| s.intervals()[0].0);
                    prop_assert!(free([low(0), low(1)]));
                }
                e => prop_assert!(e == Exists::No && !any, "{e:?} {any}"),
            }
        }
    }
}
