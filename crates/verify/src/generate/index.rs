//! Which filters of a list may overlap a filter, without looking at each: per dimension, filters by where their values
//! begin and end, with sets of filters as bits at every so many places.

use onefold_synth::program::{Dim, Filter};

/// Filters between two places at which the set is kept, at least.
const BLOCK: usize = 64;
/// Places at which the set is kept, at most.
const PLACES: usize = 128;
/// Lists up to this length are looked through.
const FEW: usize = 24;

/// Filters in the order of one end of their values in a dimension. Those without a condition there are in every set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    /// Ascending by the key.
    order: Vec<(u128, u32)>,
    block: usize,
    /// The set of the first `k * block` of them, for each `k`.
    sets: Vec<u64>,
}

impl Ends {
    /// Of filters by key; `free` has those that are in every set.
    pub(crate) fn new(mut order: Vec<(u128, u32)>, free: &[u64]) -> Ends {
        order.sort_unstable();
        let block = (order.len() / PLACES).max(BLOCK);
        let mut sets = free.to_vec();
        let mut now = free.to_vec();
        for part in order.chunks(block) {
            for (_, i) in part {
                set_bit(&mut now, *i);
            }
            sets.extend_from_slice(&now);
        }
        Ends { order, block, sets }
    }

    /// Takes out of `acc` what has a larger key.
    pub(crate) fn keep_up_to(
        &self,
        key: u128,
        acc: &mut [u64],
        words: usize,
        scratch: &mut Vec<u64>,
    ) {
        let n = self.order.partition_point(|(k, _)| *k <= key);
        if n == self.order.len() {
            return;
        }
        let whole = n / self.block;
        let at = whole * words;
        scratch.clear();
        scratch.extend_from_slice(self.sets.get(at..at + words).unwrap_or(&[]));
        for (_, i) in self.order.get(whole * self.block..n).unwrap_or(&[]) {
            set_bit(scratch, *i);
        }
        for (a, s) in acc.iter_mut().zip(scratch) {
            *a &= *s;
        }
    }
}

fn set_bit(set: &mut [u64], i: u32) {
    if let Some(w) = set.get_mut(i as usize / 64) {
        *w |= 1 << (i % 64);
    }
}

/// An index of a list of filters. Bound: 64 bytes for each filter, dimension and end.
#[derive(Debug, Clone, Default)]
pub struct Index {
    len: usize,
    /// Dimension, filters by first value, filters by last value (counted from above).
    dims: Vec<(Dim, Ends, Ends)>,
}

impl Index {
    /// Of these filters.
    pub fn new<'a>(filters: impl Iterator<Item = &'a Filter> + Clone) -> Index {
        let len = filters.clone().count();
        if len <= FEW {
            return Index {
                len,
                dims: Vec::new(),
            };
        }
        let mut dims: Vec<Dim> = (filters.clone())
            .flat_map(|f| f.0.iter().map(|(d, _)| *d))
            .collect();
        dims.sort_unstable();
        dims.dedup();
        let words = len.div_ceil(64);
        let one = |d: Dim| {
            let mut free = vec![0u64; words];
            let (mut first, mut last) = (Vec::new(), Vec::new());
            for (i, f) in filters.clone().enumerate() {
                let i = i as u32;
                let hull = f.get(d).map(|s| {
                    let all = s.intervals();
                    // an empty set overlaps nothing; kept as one that begins at the very end
                    (
                        all.first().map_or(u128::MAX, |x| x.0),
                        all.last().map_or(0, |x| x.1),
                    )
                });
                match hull {
                    None => set_bit(&mut free, i),
                    Some((lo, hi)) => {
                        first.push((lo, i));
                        last.push((u128::MAX - hi, i));
                    }
                }
            }
            (d, Ends::new(first, &free), Ends::new(last, &free))
        };
        Index {
            len,
            dims: dims.into_iter().map(one).collect(),
        }
    }

    /// The dimensions of which the filters speak, ascending; none of a short list, which is looked through.
    pub fn dims(&self) -> impl Iterator<Item = Dim> + '_ {
        self.dims.iter().map(|(d, _, _)| *d)
    }

    /// The filters that a packet may fit as far as one dimension tells, as bits: of the first `until`. `at`: which of
    /// [`Index::dims`].
    pub fn fitting(
        &self,
        at: usize,
        value: u128,
        until: usize,
        scratch: &mut Vec<u64>,
    ) -> Vec<u64> {
        let until = until.min(self.len);
        let mut acc = vec![u64::MAX; until.div_ceil(64)];
        if let Some((_, first, last)) = self.dims.get(at) {
            let words = self.len.div_ceil(64);
            first.keep_up_to(value, &mut acc, words, scratch);
            last.keep_up_to(u128::MAX - value, &mut acc, words, scratch);
        }
        acc
    }

    /// Calls `found`, in order, with the index of each of the first `until` filters that may overlap `cube`; all that
    /// do are among them.
    pub fn overlapping(&self, cube: &Filter, until: usize, found: &mut dyn FnMut(usize)) {
        let until = until.min(self.len);
        if self.dims.is_empty() {
            (0..until).for_each(found);
            return;
        }
        let words = self.len.div_ceil(64);
        let mut acc = vec![u64::MAX; until.div_ceil(64)];
        let mut scratch = Vec::with_capacity(words);
        for (d, set) in &cube.0 {
            let Ok(at) = self.dims.binary_search_by(|(k, _, _)| k.cmp(d)) else {
                continue;
            };
            let (Some((_, first, last)), [(lo, _), ..], [.., (_, hi)]) =
                (self.dims.get(at), set.intervals(), set.intervals())
            else {
                continue;
            };
            first.keep_up_to(*hi, &mut acc, words, &mut scratch);
            last.keep_up_to(u128::MAX - *lo, &mut acc, words, &mut scratch);
        }
        for (w, bits) in acc.into_iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let i = w * 64 + bits.trailing_zeros() as usize;
                if i >= until {
                    return;
                }
                found(i);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::ValueSet;
    use proptest::prelude::*;

    fn filter(parts: &[(u8, u8, u8)]) -> Filter {
        let mut f = Filter::default();
        for (d, a, b) in parts {
            let dim = Dim::Bits {
                bit: i32::from(*d) * 8,
                bits: 8,
            };
            let set = ValueSet::range(u128::from(*a.min(b)), u128::from(*a.max(b)));
            f.narrow(dim, &set, 8);
        }
        f
    }

    proptest! {
        #[test]
        fn all_that_overlap_are_found(
            list in proptest::collection::vec(proptest::collection::vec((0u8..3, 0u8..40, 0u8..40), 0..3), 0..300),
            cube in proptest::collection::vec((0u8..4, 0u8..40, 0u8..40), 0..4),
            until in 0usize..320,
        ) {
            let list: Vec<Filter> = list.iter().map(|p| filter(p)).collect();
            let cube = filter(&cube);
            // a contradiction overlaps nothing: it need not be asked about
            prop_assume!(cube.0.iter().all(|(_, s)| !s.is_empty()));
            let mut got = Vec::new();
            Index::new(list.iter()).overlapping(&cube, until, &mut |i| got.push(i));
            prop_assert!(got.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(got.iter().all(|i| *i < until));
            let want: Vec<usize> = (0..list.len().min(until)).filter(|i| !list[*i].is_disjoint(&cube)).collect();
            let exact: Vec<usize> = got.iter().copied().filter(|i| !list[*i].is_disjoint(&cube)).collect();
            prop_assert_eq!(&exact, &want);
            // ranges are told apart exactly: where lists are long, nothing is offered in vain
            if list.len() > FEW && list.iter().all(|f| f.0.iter().all(|(_, s)| !s.is_empty())) {
                prop_assert_eq!(got, want);
            }
        }
    }
}
