//! What a masked match asks of bytes, where all but few of them are one value: sixteen packets are told not to differ in half the instructions that intervals take.

use crate::simd::WINDOW;
use crate::simd::window_rewrite::NEAR;
use crate::simd::{HEAD_AT, ROW, Wide};

/// Bytes that are to be one value each, and one word of the [columns](crate::simd::Wide::columns) of which each byte may be an interval: the one that has the time to live.
#[derive(Debug, Clone)]
pub(crate) struct EqualMatch {
    /// Bits that are to be one value.
    pub exact: [u8; WINDOW],
    /// All of these are in the first [`NEAR`] bytes.
    pub near: bool,
    /// Of the word: each byte under its mask is one of `lo` to `lo + span`.
    pub mask: u32,
    /// See [`EqualMatch::mask`].
    pub lo: u32,
    /// See [`EqualMatch::mask`].
    pub span: u32,
}

impl EqualMatch {
    /// Which column has intervals.
    pub const COLUMN: usize = 2;

    /// Are sixteen packets' bits the same as these, where they are to be one value?
    #[inline(always)]
    pub fn same<W: Wide>(
        &self,
        wide: W,
        windows: &[&[u8; WINDOW]; ROW],
        bits: &[u8; WINDOW],
    ) -> bool {
        match self.near {
            true => wide.all_same_near(windows, &self.exact, bits),
            false => wide.all_same(windows, &self.exact, bits),
        }
    }

    /// Each byte under its mask is to be one of `lo` to `lo + span`. `None` if any of several values is right elsewhere than in the word.
    pub fn of(mask: &[u8; WINDOW], lo: &[u8; WINDOW], span: &[u8; WINDOW]) -> Option<EqualMatch> {
        let at = HEAD_AT + Self::COLUMN * 4;
        let word = at..at + 4;
        if (0..WINDOW).any(|i| span[i] != 0 && !word.contains(&i)) {
            return None;
        }
        let mut exact = *mask;
        exact.iter_mut().zip(span).for_each(|(m, s)| {
            if *s != 0 {
                *m = 0;
            }
        });
        // those that are one value are asked there
        let some = |of: &[u8; WINDOW]| {
            let byte = |k: usize| if span[at + k] == 0 { 0 } else { of[at + k] };
            u32::from_be_bytes(std::array::from_fn(byte))
        };
        Some(EqualMatch {
            near: exact[NEAR..].iter().all(|m| *m == 0),
            exact,
            mask: some(mask),
            lo: some(lo),
            span: some(span),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::any::Any;

    proptest::proptest! {
        /// What is said of a packet is what its bytes say one by one.
        #[test]
        fn as_byte_by_byte(
            asked in proptest::collection::vec((0usize..WINDOW, 1u8.., proptest::num::u8::ANY), 0..6),
            ranged in proptest::collection::vec((0usize..4, proptest::num::u8::ANY, proptest::num::u8::ANY), 0..3),
            bytes in proptest::collection::vec(0u8..4, WINDOW),
        ) {
            let (mut mask, mut lo, mut span) = ([0; WINDOW], [0; WINDOW], [0; WINDOW]);
            for (at, m, v) in asked {
                (mask[at], lo[at]) = (m, v & m & 3);
            }
            for (at, l, s) in ranged {
                let at = HEAD_AT + EqualMatch::COLUMN * 4 + at;
                (mask[at], lo[at], span[at]) = (0xff, l & 1, s & 3);
            }
            let w: [u8; WINDOW] = bytes.try_into().unwrap();
            let windows = [&w; ROW];
            let a = EqualMatch::of(&mask, &lo, &span).unwrap();
            let v = Any.columns(&windows)[EqualMatch::COLUMN];
            let inside = Any.zero(Any.beyond(Any.all(0), v, a.mask, a.lo, a.span));
            let got = inside == u16::MAX && a.same(Any, &windows, &lo);
            proptest::prop_assert_eq!(got, Any.inside(w, &mask, &lo, &span));
        }
    }

    #[test]
    fn intervals_elsewhere_are_not_for_it() {
        let (mut mask, mut span) = ([0; WINDOW], [0; WINDOW]);
        (mask[40], span[40]) = (0xff, 1);
        assert!(EqualMatch::of(&mask, &[0; WINDOW], &span).is_none());
        span[40] = 0;
        assert!(EqualMatch::of(&mask, &[0; WINDOW], &span).is_some());
    }
}
