//! Packets of a group as bits of a word.

use crate::simd::GROUP;

/// Does something for each bit that is set, the lowest first, with its number: `each_bit!(bits, i, { ... })`. A macro, as closures may not be inlined, and would be compiled
/// without wide registers.
macro_rules! each_bit {
    ($bits:expr, $i:ident, $do:block) => {
        let mut left: u64 = $bits;
        // Bound: a bit less each time
        while left != 0 {
            let $i = left.trailing_zeros() as usize % GROUP;
            left &= left - 1;
            $do
        }
    };
}
pub(crate) use each_bit;

/// Of the first `n` packets of a group a bit each.
#[inline(always)]
pub(crate) fn first_bits(n: usize) -> u64 {
    match n {
        0 => 0,
        n => u64::MAX >> (GROUP - n.min(GROUP)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_their_numbers() {
        assert_eq!(first_bits(0), 0);
        assert_eq!(first_bits(3), 7);
        assert_eq!((first_bits(64), first_bits(70)), (u64::MAX, u64::MAX));
        let mut some = Vec::new();
        each_bit!(1 << 63 | 5, i, {
            some.push(i);
        });
        assert_eq!(some, [0, 2, 63]);
    }
}
