//! Which interval a field's value is in, for sixteen packets at once: numbers that stay in registers, searched by halves.

use super::wide::{HEAD, ROW, Sixteen, Wide};

/// Intervals of a field but the last one: as many as registers have room for, and one number that is above all.
pub(super) const MAX_QUICK: usize = 8 * ROW - 1;

/// A field of the columns that [`Wide::columns`] makes.
#[derive(Debug, Clone)]
pub(super) struct Quick {
    /// Which word, how far right, and what of it.
    word: u8,
    right: u8,
    mask: u32,
    /// The last value of each interval but the last one.
    ends: Box<[Sixteen]>,
    coarse: Option<Coarse>,
}

impl Quick {
    /// A field of 1 to 32 bits, from this bit of the columns on, with these intervals, each but the last one told by its last value. `None` if it is not
    /// within a word, or if there are too many.
    pub fn of(from: usize, bits: u8, ends: &[u32]) -> Option<Quick> {
        let bits = usize::from(bits);
        let last = (from + bits).checked_sub(1)?;
        let within = from / 32 == last / 32 && last / 32 < HEAD / 4;
        (within && ends.len() <= MAX_QUICK).then(|| Quick {
            word: (from / 32) as u8,
            right: (31 - last % 32) as u8,
            mask: u32::MAX >> (32 - bits),
            ends: sorted(ends),
            coarse: Coarse::of(ends),
        })
    }

    /// Which intervals?
    #[inline(always)]
    pub fn number<W: Wide>(&self, wide: W, words: &[W::N; HEAD / 4]) -> Option<W::N> {
        let v = wide.right(*words.get(usize::from(self.word))?, self.right.into());
        let v = wide.and(v, wide.all(self.mask));
        if let Some(c) = &self.coarse {
            let n = wide.look(wide.rank(v, &c.ends), &c.numbers);
            if wide.over(n, wide.all(CROWD - 1)) == 0 {
                return Some(n);
            }
        }
        Some(wide.rank(v, &self.ends))
    }
}

/// Intervals with crowds of short ones taken together: the addresses of routers' own interfaces are many, near each other, and seldom asked
/// for. Of a value that is in no crowd two registers tell the interval, where all of them would take eight.
#[derive(Debug, Clone)]
struct Coarse {
    ends: [Sixteen; 2],
    /// The number of each interval, or [`CROWD`].
    numbers: [Sixteen; 2],
}

/// Several intervals.
const CROWD: u32 = u32::MAX;

impl Coarse {
    /// `None` where there are few intervals as it is.
    fn of(ends: &[u32]) -> Option<Coarse> {
        const ROOM: usize = 2 * ROW;
        if ends.len() < ROOM {
            return None;
        }
        // neighbours are joined, those first that are nearest, until there is room
        let mut gaps: Vec<(u32, usize)> = (ends.windows(2).enumerate())
            .filter_map(|(i, e)| Some((e.get(1)? - e.first()?, i)))
            .collect();
        gaps.sort_unstable();
        let mut joined = vec![false; ends.len()];
        let mut made = Vec::new();
        // Bound: the gaps
        for (_, gap) in gaps {
            *joined.get_mut(gap)? = true;
            made.clear();
            let mut before = false;
            for (i, (end, next)) in ends.iter().zip(&joined).enumerate() {
                // a crowd ends where its last interval does, and begins behind the interval that its first number ends
                if !(before && *next) {
                    made.push((*end, if before { CROWD } else { i as u32 }));
                }
                before = *next;
            }
            if made.len() < ROOM {
                break;
            }
        }
        made.push((u32::MAX, ends.len() as u32));
        let mut c = Coarse {
            ends: [Sixteen([u32::MAX; ROW]); 2],
            numbers: [Sixteen([CROWD; ROW]); 2],
        };
        let places = c.ends.iter_mut().zip(&mut c.numbers);
        let places = places.flat_map(|(e, n)| e.0.iter_mut().zip(&mut n.0));
        for ((e, n), (end, number)) in places.zip(made) {
            (*e, *n) = (end, number);
        }
        Some(c)
    }
}

/// As [`Wide::rank`] wants them.
fn sorted(ends: &[u32]) -> Box<[Sixteen]> {
    let rows = (ends.len() + 1).div_ceil(ROW).next_power_of_two();
    let row = |i: usize| {
        let mut r = [u32::MAX; ROW];
        let some = ends.get(i * ROW..).unwrap_or_default();
        r.iter_mut().zip(some).for_each(|(to, x)| *to = *x);
        Sixteen(r)
    };
    (0..rows).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::wide::Any;
    use super::*;

    proptest::proptest! {
        /// Numbers are those of a list that is searched from the beginning, with crowds and without.
        #[test]
        fn numbers_are_places_in_the_list(
            far in proptest::collection::btree_set(0u32..0xffff_fffe, 0..20),
            near in proptest::collection::btree_set(0u32..300, 0..100),
            crowd in 0u32..0xffff_f000,
            asked in proptest::collection::vec(proptest::num::u32::ANY, ROW),
        ) {
            let ends: std::collections::BTreeSet<u32> =
                far.iter().copied().chain(near.iter().map(|n| crowd + n)).collect();
            let ends: Vec<u32> = ends.into_iter().take(MAX_QUICK).collect();
            let q = Quick::of(96, 32, &ends).unwrap();
            proptest::prop_assert_eq!(q.coarse.is_some(), ends.len() >= 2 * ROW);
            let edges = ends.iter().flat_map(|e| [*e, e + 1]);
            let asked: Vec<u32> = asked.into_iter().chain(edges).chain([0, u32::MAX]).collect();
            for some in asked.chunks(ROW) {
                let mut values = Sixteen([some[0]; ROW]);
                values.0[..some.len()].copy_from_slice(some);
                let mut words = [Sixteen([0; ROW]); HEAD / 4];
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
        let of = |from, bits| Quick::of(from, bits, &[7]).map(|q| (q.word, q.right, q.mask));
        assert_eq!(of(160, 16), Some((5, 16, 0xffff)));
        assert_eq!(of(176, 16), Some((5, 0, 0xffff)));
        assert_eq!(of(170, 32), None, "in two words");
        assert_eq!(of(256, 8), None, "behind the columns");
        let many: Vec<u32> = (0..=MAX_QUICK as u32).collect();
        assert!(Quick::of(0, 32, &many).is_none());
    }
}
