//! The Internet checksum's sum of bytes, with registers as wide as there are.
#![allow(unsafe_code)]

use crate::simd::any::Any;
use crate::simd::dispatch::one_by_one;
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};
use onefold_packet::checksum;

/// Sums bytes.
pub(crate) trait SumBytes: Copy {
    /// Is the sum of the bytes from the one number to the other, and of `more`, all ones? False where there are none.
    #[inline(always)]
    fn sums_to_ones(self, data: &[u8], (from, to): (usize, usize), more: u32) -> bool {
        data.get(from..to)
            .is_some_and(|d| words_sum_to_ones(d, more))
    }
}

/// [`SumBytes::sums_to_ones`], eight bytes at a time in the processor's order: a sum of words whose bytes are exchanged
/// is the sum with its bytes exchanged, and all ones are that either way (RFC 1071).
#[inline(always)]
fn words_sum_to_ones(data: &[u8], more: u32) -> bool {
    let plus = |a: u64, b: u64| {
        let (sum, carry) = a.overflowing_add(b);
        sum + u64::from(carry)
    };
    let mut s = u64::from(checksum::fold_few(more).swap_bytes());
    let (chunks, rest) = data.as_chunks::<8>();
    let mut i = 0;
    // Loops over indices: adapters may not be inlined. Bound: the bytes
    while i < chunks.len() {
        one_by_one();
        s = plus(s, u64::from_le_bytes(chunks[i]));
        i += 1;
    }
    if !rest.is_empty() {
        let last = match data.last_chunk::<8>() {
            // what stands in front of them has been added
            Some(c) => u64::from_le_bytes(*c) >> (64 - 8 * (rest.len() as u32 % 8)),
            None => rest.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)),
        };
        s = plus(s, last);
    }
    // the upper half of each sum is that of both halves, with the carry
    let s = (s.wrapping_add(s.rotate_left(32)) >> 32) as u32;
    s.wrapping_add(s.rotate_left(16)) >> 16 == 0xffff
}

impl SumBytes for Any {}
#[cfg(target_arch = "x86_64")]
impl SumBytes for Avx2 {}

#[cfg(target_arch = "x86_64")]
impl SumBytes for Avx512 {
    /// 64 bytes at a time from where the packet begins: what is loaded from elsewhere lies on two lines of the cache,
    /// one of which need not be there. Pairs of words are added as numbers with a sign, from each of which half of its
    /// range has been taken. Of few bytes, the sum of a register's lanes takes longer than adding them up one by one.
    #[inline(always)]
    fn sums_to_ones(self, data: &[u8], (from, to): (usize, usize), more: u32) -> bool {
        use std::arch::x86_64::{
            _mm512_add_epi32, _mm512_madd_epi16, _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi32,
            _mm512_set1_epi16, _mm512_setzero_si512, _mm512_xor_si512,
        };
        const STEP: usize = 64;
        const FEW: usize = 96;
        if to <= from + FEW || from >= STEP || from % 2 == 1 || to > data.len() {
            return Any.sums_to_ones(data, (from, to), more);
        }
        // SAFETY: the instructions are there, or the value would not be. Of what stands in front of `from` and behind
        // the last byte nothing is loaded: its bits of the mask are zero.
        let (sum, steps) = unsafe {
            let (half, one) = (_mm512_set1_epi16(i16::MIN), _mm512_set1_epi16(1));
            let (mut sum, mut steps, mut mask) = (_mm512_setzero_si512(), 0, u64::MAX << from);
            // Bound: so many bytes more each time
            while steps * STEP < to {
                let at = steps * STEP;
                mask &= u64::MAX >> (STEP - (to - at).min(STEP));
                let v = _mm512_maskz_loadu_epi8(mask, data.as_ptr().add(at).cast());
                let pairs = _mm512_madd_epi16(_mm512_xor_si512(v, half), one);
                sum = _mm512_add_epi32(sum, pairs);
                (steps, mask) = (steps + 1, u64::MAX);
            }
            (_mm512_reduce_add_epi32(sum), steps)
        };
        // half of the range of each of a step's 32 words
        let sum = (sum as u32).wrapping_add((steps as u32).wrapping_mul(1 << 20));
        // a sum of words whose bytes are exchanged is the sum with its bytes exchanged
        let more = checksum::fold_few(more).swap_bytes();
        let sum = (sum & 0xffff) + (sum >> 16) + u32::from(more);
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_the_sums(wide: impl SumBytes) {
        let mut x = 1u32;
        let mut random = || {
            x = x.wrapping_mul(0x915f_77f5).wrapping_add(1);
            x >> 16
        };
        let some: Vec<u8> = (0..400).map(|_| random() as u8).collect();
        for all in [some, vec![0; 300], vec![0xff; 300]] {
            for to in 0..all.len() {
                let (data, from) = (&all[..(to + to % 3).min(all.len())], to * 7 % 80);
                let more = random() * 3;
                let sum = |d| checksum::fold(checksum::sum(d, more.into()));
                let of = data.get(from..to).map(sum);
                assert_eq!(
                    wide.sums_to_ones(data, (from, to), more),
                    of == Some(0xffff),
                    "{from} {to}"
                );
                // one that is
                let right = more + u32::from(0xffff ^ of.unwrap_or(0));
                let is = of.is_some() && sum_is(data, (from, to), right);
                assert_eq!(wide.sums_to_ones(data, (from, to), right), is);
            }
        }
        let long = vec![0xff; 1 << 16];
        assert!(wide.sums_to_ones(&long, (0, 1 << 16), 0));
        assert!(!wide.sums_to_ones(&long, (0, 1 << 16), 1));
        assert!(!wide.sums_to_ones(&long, (0, (1 << 16) + 1), 0));
        assert!(!wide.sums_to_ones(&[], (0, 0), 0));
    }

    fn sum_is(data: &[u8], (from, to): (usize, usize), more: u32) -> bool {
        checksum::fold(checksum::sum(&data[from..to], more.into())) == 0xffff
    }

    #[test]
    fn sums_are_the_same_however_wide() {
        are_the_sums(Any);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(wide) = Avx2::found() {
                are_the_sums(wide);
            }
            if let Some(wide) = Avx512::found() {
                are_the_sums(wide);
            }
        }
    }
}
