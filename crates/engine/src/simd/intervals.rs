//! Which interval a field's value is in, for sixteen packets at once: numbers that stay in registers.
//!
//! A search by halves takes seven steps among 128 numbers, each of which waits for the one before: a number to be read, compared, and added up. Here there are
//! three: which row of sixteen, which quarter of it, which place; and in each all numbers that matter are read and compared at the same time.

use crate::simd::{COLUMNS, Lanes, ROW, Wide};

/// Intervals of a field but the last one: as many as registers have room for, and one number that is above all.
pub(crate) const MAX_INTERVALS: usize = 8 * ROW - 1;

/// A field of the columns that [`Wide::columns`] makes, or of those behind them.
#[derive(Debug, Clone)]
pub(crate) struct FieldIntervals {
    /// Which word, how far right, and what of it.
    word: u8,
    right: u8,
    mask: u32,
    /// The last value of each interval but the last one.
    ends: IntervalEnds,
}

/// Numbers in order, as [`Wide::rank`] wants them: rows of sixteen, the last of which are more than whatever is asked for.
#[derive(Debug, Clone)]
pub(crate) struct IntervalEnds {
    /// 1, 2, 4 or 8.
    pub rows: usize,
    /// The last number of each row.
    pub heads: [u32; 8],
    /// By row: the last number of its first quarter, of its second, and of its third.
    pub quarters: [Lanes; 3],
    /// By quarter, counted through all rows: its first number, its second, and its third.
    pub places: [[Lanes; 2]; 3],
}

impl IntervalEnds {
    /// Of these, which are in order and [`MAX_INTERVALS`] at most.
    pub fn of(ends: &[u32]) -> IntervalEnds {
        let at = |i: usize| ends.get(i).copied().unwrap_or(u32::MAX);
        let quarter =
            |q: usize, i: usize| Lanes(std::array::from_fn(|k| at((i * ROW + k) * 4 + q)));
        IntervalEnds {
            rows: (ends.len() + 1).div_ceil(ROW).next_power_of_two(),
            heads: std::array::from_fn(|row| at(row * ROW + ROW - 1)),
            quarters: std::array::from_fn(|q| {
                Lanes(std::array::from_fn(|row| at(row * ROW + q * 4 + 3)))
            }),
            places: std::array::from_fn(|q| std::array::from_fn(|i| quarter(q, i))),
        }
    }
}

impl FieldIntervals {
    /// A field of 1 to 32 bits, from this bit of the columns on, with these intervals, each but the last one told by its last value. `None` if it is not
    /// within a word, or if there are too many.
    pub fn of(from: usize, bits: u8, ends: &[u32]) -> Option<FieldIntervals> {
        let bits = usize::from(bits);
        let last = (from + bits).checked_sub(1)?;
        let within = from / 32 == last / 32 && last / 32 < COLUMNS;
        (within && ends.len() <= MAX_INTERVALS).then(|| FieldIntervals {
            word: (from / 32) as u8,
            right: (31 - last % 32) as u8,
            mask: u32::MAX >> (32 - bits),
            ends: IntervalEnds::of(ends),
        })
    }

    /// Which intervals? `None` where the columns end before the field.
    #[inline(always)]
    pub fn number<W: Wide>(&self, wide: W, words: &[W::N]) -> Option<W::N> {
        let v = wide.right(*words.get(usize::from(self.word))?, self.right.into());
        let v = wide.and(v, wide.all(self.mask));
        Some(wide.rank(v, &self.ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::any::Any;

    proptest::proptest! {
        /// Numbers are those of a list that is searched from the beginning.
        #[test]
        fn numbers_are_places_in_the_list(
            far in proptest::collection::btree_set(0u32..0xffff_fffe, 0..20),
            near in proptest::collection::btree_set(0u32..300, 0..100),
            crowd in 0u32..0xffff_f000,
            word_match in proptest::collection::vec(proptest::num::u32::ANY, ROW),
        ) {
            let ends: std::collections::BTreeSet<u32> =
                far.iter().copied().chain(near.iter().map(|n| crowd + n)).collect();
            let ends: Vec<u32> = ends.into_iter().take(MAX_INTERVALS).collect();
            let q = FieldIntervals::of(96, 32, &ends).unwrap();
            let edges = ends.iter().flat_map(|e| [*e, e + 1]);
            let word_match: Vec<u32> = word_match.into_iter().chain(edges).chain([0, u32::MAX]).collect();
            for some in word_match.chunks(ROW) {
                let mut values = Lanes([some[0]; ROW]);
                values.0[..some.len()].copy_from_slice(some);
                let mut words = [Lanes([0; ROW]); COLUMNS];
                words[3] = values;
                let got = q.number(Any, &words).unwrap();
                for (got, v) in got.0.iter().zip(values.0) {
                    proptest::prop_assert_eq!(*got as usize, ends.partition_point(|e| *e < v));
                }
            }
        }
    }

    #[test]
    fn fields_within_words_and_others() {
        let of =
            |from, bits| FieldIntervals::of(from, bits, &[7]).map(|q| (q.word, q.right, q.mask));
        assert_eq!(of(160, 16), Some((5, 16, 0xffff)));
        assert_eq!(of(176, 16), Some((5, 0, 0xffff)));
        assert_eq!(of(170, 32), None, "in two words");
        assert_eq!(
            of(320, 16),
            Some((10, 16, 0xffff)),
            "a port behind an IPv6 header"
        );
        assert_eq!(of(384, 8), None, "behind the columns");
        let far = FieldIntervals::of(320, 16, &[7]).unwrap();
        assert!(far.number(Any, &[Lanes([0; ROW]); 8]).is_none());
        let many: Vec<u32> = (0..=MAX_INTERVALS as u32).collect();
        assert!(FieldIntervals::of(0, 32, &many).is_none());
    }
}
