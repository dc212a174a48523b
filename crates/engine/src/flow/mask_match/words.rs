//! What a masked match asks of a packet's bytes, asked of sixteen packets at once: of each of their words that any of it is in.

use crate::simd::WINDOW;
use crate::simd::{EDGES, HEAD, HEAD_AT, Wide};

/// Words of the columns, and as many around them.
const WORDS: usize = HEAD / 4;

/// A word of which something is asked.
#[derive(Debug, Clone, Copy)]
struct Word {
    column: u8,
    /// Is it one value that is wanted?
    exact: bool,
    mask: u32,
    lo: u32,
    span: u32,
}

/// All that is asked of bytes.
#[derive(Debug, Clone)]
pub(crate) struct WordMatch {
    /// Of the columns that [`Wide::columns`] makes.
    inner: Box<[Word]>,
    /// Of those that [`Wide::edges`] makes.
    outer: Box<[Word]>,
}

impl WordMatch {
    /// Each byte under its mask is to be one of `lo` to `lo + span`. `None` if something is asked of bytes that no column has.
    pub fn of(mask: &[u8; WINDOW], lo: &[u8; WINDOW], span: &[u8; WINDOW]) -> Option<WordMatch> {
        let (first, second) = EDGES;
        let inner = |i: usize| HEAD_AT + i * 4;
        let outer = |i: usize| match i < WORDS / 2 {
            true => first + i * 4,
            false => second + (i - WORDS / 2) * 4,
        };
        if mask[second + HEAD / 2..].iter().any(|m| *m != 0) {
            return None;
        }
        let words = |place: &dyn Fn(usize) -> usize, swap: bool, mine: &dyn Fn(usize) -> bool| {
            let four = |of: &[u8; WINDOW], at: usize| {
                let b = std::array::from_fn(|k| {
                    let there = of.get(at + k).filter(|_| mine(at + k));
                    there.copied().unwrap_or(0)
                });
                match swap {
                    true => u32::from_be_bytes(b),
                    false => u32::from_le_bytes(b),
                }
            };
            let word = |i: usize| {
                let at = place(i);
                let (mask, lo, span) = (four(mask, at), four(lo, at), four(span, at));
                let exact = span == 0;
                let column = i as u8;
                Word {
                    column,
                    exact,
                    mask,
                    lo,
                    span,
                }
            };
            (0..WORDS).map(word).filter(|w| w.mask != 0).collect()
        };
        let within = |at: usize| (HEAD_AT..HEAD_AT + HEAD).contains(&at);
        Some(WordMatch {
            inner: words(&inner, true, &within),
            outer: words(&outer, false, &|at| !within(at)),
        })
    }

    /// Which packets have what is asked for? `inner` may have more columns than are asked.
    #[inline(always)]
    pub fn hold<const N: usize, W: Wide>(
        &self,
        wide: W,
        inner: &[W::N; N],
        outer: &[W::N; WORDS],
    ) -> u16 {
        let no = some(wide, &self.inner, inner, wide.all(0));
        wide.zero(some(wide, &self.outer, outer, no))
    }
}

/// Bits are set for packets that have something else.
#[inline(always)]
fn some<const N: usize, W: Wide>(
    wide: W,
    words: &[Word],
    columns: &[W::N; N],
    mut no: W::N,
) -> W::N {
    const { assert!(N >= WORDS) };
    for a in words {
        let v = columns[usize::from(a.column) % WORDS];
        no = match a.exact {
            true => wide.unlike(no, v, a.mask, a.lo),
            false => wide.beyond(no, v, a.mask, a.lo, a.span),
        };
    }
    no
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::ROW;
    use crate::simd::any::Any;

    proptest::proptest! {
        /// Lanes packets at once are told what each of them is told.
        #[test]
        fn as_byte_by_byte(
            bytes in proptest::collection::vec(0u8..4, ROW * WINDOW),
            words in proptest::collection::vec((0..WINDOW - 2, 0u8..5, 0u8..4, 0u8..3), 0..6),
        ) {
            let (mut mask, mut lo, mut span) = ([0; WINDOW], [0; WINDOW], [0; WINDOW]);
            for (at, m, l, s) in words {
                mask[at] = [0xff, 3, 2, 1, 0][usize::from(m)];
                (lo[at], span[at]) = match m {
                    4 => (0, 0),
                    _ => (l & mask[at], s),
                };
            }
            let all: Vec<&[u8; WINDOW]> = bytes.as_chunks().0.iter().collect();
            let windows: [&[u8; WINDOW]; ROW] = all.try_into().unwrap();
            let a = WordMatch::of(&mask, &lo, &span).unwrap();
            let got = a.hold(Any, &Any.columns(&windows), &Any.edges(&windows));
            for (i, w) in windows.iter().enumerate() {
                let want = Any.inside(**w, &mask, &lo, &span);
                proptest::prop_assert_eq!(got >> i & 1 == 1, want, "packet {}", i);
            }
        }
    }

    #[test]
    fn bytes_without_columns() {
        let mut mask = [0; WINDOW];
        mask[WINDOW - 1] = 1;
        assert!(WordMatch::of(&mask, &[0; WINDOW], &[0; WINDOW]).is_none());
    }
}
