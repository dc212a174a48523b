//! Hints to the processor.
#![allow(unsafe_code)]

/// Asks for the cache line at the start of `x`, into the second cache. Nothing waits for it.
///
/// Not into the first: a core has few places for lines that are on their way there, and what is asked for comes from
/// far away; more can be on their way to the second (docs/decisions/0028). Of 64 lines asked for at random one takes
/// 14.6 ns on its way to the first cache and 5.9 to the second where 12 MB are in use (AMD EPYC, fourth generation),
/// and what is in the second cache is read in a few cycles, one packet's beside the next one's.
#[inline(always)]
pub fn prefetch<T: ?Sized>(x: &T) {
    prefetch_at(std::ptr::from_ref(x).cast());
}

/// [`prefetch`] into the first cache: of few lines, which are read a moment later and not one beside the other.
#[inline(always)]
pub fn prefetch_near<T: ?Sized>(x: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as below.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(x).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// [`prefetch`] of any address.
#[inline(always)]
pub fn prefetch_at(x: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, whatever the address is; nothing is read or written.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(x.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Which of twelve numbers are equal to this one, a bit each, the first one's the lowest.
#[inline(always)]
pub fn equal_to(all: &[u16; 12], x: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has SSE2; both loads are within the array, and need not be aligned.
    unsafe {
        use std::arch::x86_64::*;
        let x = _mm_set1_epi16(x as i16);
        let first = _mm_loadu_si128(all.as_ptr().cast());
        let last = _mm_loadl_epi64(all.as_ptr().add(8).cast());
        let same = _mm_packs_epi16(_mm_cmpeq_epi16(first, x), _mm_cmpeq_epi16(last, x));
        _mm_movemask_epi8(same) as u32 & 0xfff
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0..12).fold(0, |m, i| m | u32::from(all[i] == x) << i)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_has_its_bit() {
        let all = [7, 1, 7, 0, u16::MAX, 7, 3, 7, 0, 9, 0, 7];
        assert_eq!(super::equal_to(&all, 7), 0b1000_1010_0101);
        assert_eq!(super::equal_to(&all, u16::MAX), 0b1_0000);
        assert_eq!(super::equal_to(&all, 0), 0b101_0000_1000);
        assert_eq!(super::equal_to(&all, 8), 0);
    }
}
