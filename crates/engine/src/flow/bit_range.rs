//! Ranges of values of some bits of a packet: what of a masked match is no comparison under a mask.

use crate::simd::HEAD_AT;

/// Eight bytes from a place on, shifted and under a mask, are one of `lo` to `lo + span`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub byte: u8,
    pub shift: u8,
    pub mask: u64,
    pub lo: u64,
    pub span: u64,
}

/// A range of some bits of a word of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnRange {
    /// Which word, how far right, and what of it.
    pub word: u8,
    pub right: u8,
    pub mask: u32,
    /// Least value, and how much more it may be.
    pub values: (u32, u32),
}

impl Range {
    /// The byte that it asks, if that is all that it asks.
    pub fn byte_alone(&self) -> Option<usize> {
        let whole = self.shift.is_multiple_of(8) && self.mask == 0xff;
        whole.then(|| usize::from(self.byte) + 7 - usize::from(self.shift / 8))
    }
    /// The same by columns, of which there are so many; `None` if its bits are not within one of them.
    pub fn in_columns(&self, columns: usize) -> Option<ColumnRange> {
        let bits = 64 - self.mask.leading_zeros() as usize;
        let end = (usize::from(self.byte) + 8) * 8 - usize::from(self.shift);
        let from = end.checked_sub(bits + HEAD_AT * 8)?;
        let last = (from + bits).checked_sub(1)?;
        let short = |v: u64| u32::try_from(v).ok();
        let within = from / 32 == last / 32 && last / 32 < columns;
        within.then_some(ColumnRange {
            word: (from / 32) as u8,
            right: (31 - last % 32) as u8,
            mask: short(self.mask)?,
            values: (short(self.lo)?, short(self.span)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::field_read::{Read, bits_read, word};
    use crate::simd::any::Any;
    use crate::simd::{HEAD, ROW, WINDOW, Wide};

    proptest::proptest! {
        /// A range in columns is asked for the same bits.
        #[test]
        fn ranges_in_columns(
            bit in 0i32..WINDOW as i32 * 8,
            bits in 1u8..40,
            lo in proptest::num::u64::ANY,
            bytes in proptest::collection::vec(proptest::num::u8::ANY, WINDOW),
        ) {
            let w: [u8; WINDOW] = bytes.try_into().unwrap();
            let Some(Read::Word { byte, shift, mask }) = bits_read(bit, bits) else { return Ok(()) };
            let lo = lo & mask;
            let r = Range { byte, shift, mask, lo, span: mask - lo };
            let end = bit + i32::from(bits);
            let (first, last) = (bit / 32 * 32, (end - 1) / 32 * 32);
            let head = HEAD_AT as i32 * 8;
            let word_of = |bit: i32| (bit - head).div_euclid(32);
            let within = bit >= head && word_of(bit) == word_of(end - 1) && word_of(bit) < 8;
            let got = r.in_columns(HEAD / 4);
            proptest::prop_assert_eq!(got.is_some(), within, "{} to {}", first, last);
            if let Some(c) = got {
                let v = Any.columns(&[&w; ROW])[usize::from(c.word)].0[0] >> c.right & c.mask;
                proptest::prop_assert_eq!(u64::from(v), word(&w, byte, shift, mask));
                proptest::prop_assert_eq!(c.values, (lo as u32, (mask - lo) as u32));
            }
        }
    }
}
