//! AVX2: comparisons of 8 lanes, whose answers are collected from the lanes' signs.

use super::{Isa, Kernel};
use std::arch::x86_64::{
    __m256i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    _mm_setzero_si128, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_loadu_si256, _mm256_min_epu32, _mm256_movemask_ps, _mm256_set1_epi32, _mm256_sub_epi32,
};

/// Proof that the processor has AVX2, BMI1, BMI2 and POPCNT: [`Avx2::new`] is the only way to one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// One, if the features are there.
    #[inline]
    pub fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }
}

/// # Safety
/// The processor must have the features, as `isa` proves.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn run<K: Kernel>(isa: Avx2, kernel: K) {
    kernel.run(isa);
}

/// The two halves of a line.
///
/// # Safety
/// AVX.
#[inline(always)]
unsafe fn halves(a: &[u32; 16]) -> (__m256i, __m256i) {
    let p: *const __m256i = a.as_ptr().cast();
    // SAFETY: 64 readable bytes; the loads need no alignment.
    unsafe { (_mm256_loadu_si256(p), _mm256_loadu_si256(p.add(1))) }
}

/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn all(v: u32) -> __m256i {
    // SAFETY: as the caller says.
    unsafe { _mm256_set1_epi32(v as i32) }
}

/// Lanes that are all ones, as bits.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn bits(v: __m256i) -> u32 {
    // SAFETY: as the caller says.
    unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(v)) as u32 & 0xff }
}

/// Lanes of `a` that are at most those of `b`, unsigned.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn at_most(a: __m256i, b: __m256i) -> u32 {
    // SAFETY: as the caller says.
    unsafe { bits(_mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a)) }
}

impl Isa for Avx2 {
    #[inline(always)]
    fn le16(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (a, b) = halves(line);
            at_most(a, all(k)) | at_most(b, all(k)) << 8
        }
    }

    #[inline(always)]
    fn within8(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (lo, span) = halves(line);
            at_most(_mm256_sub_epi32(all(k), lo), span)
        }
    }

    #[inline(always)]
    fn masked8(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (mask, v) = halves(line);
            bits(_mm256_cmpeq_epi32(_mm256_and_si256(all(k), mask), v))
        }
    }

    #[inline(always)]
    fn keys_equal(self, keys: &[u32; 16], v: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (a, b) = halves(keys);
            let v = all(v);
            bits(_mm256_cmpeq_epi32(a, v)) | bits(_mm256_cmpeq_epi32(b, v)) << 8
        }
    }

    #[inline(always)]
    fn keys_within(self, keys: &[u32; 16], lo: u32, span: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (a, b) = halves(keys);
            let (lo, span) = (all(lo), all(span));
            at_most(_mm256_sub_epi32(a, lo), span) | at_most(_mm256_sub_epi32(b, lo), span) << 8
        }
    }

    #[inline(always)]
    fn keys_masked(self, keys: &[u32; 16], mask: u32, v: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (a, b) = halves(keys);
            let (mask, v) = (all(mask), all(v));
            bits(_mm256_cmpeq_epi32(_mm256_and_si256(a, mask), v))
                | bits(_mm256_cmpeq_epi32(_mm256_and_si256(b, mask), v)) << 8
        }
    }

    #[inline(always)]
    fn put(self, out: &mut [u32; 16], m: u32, v: u32) {
        let mut m = m & 0xffff;
        // Bound: 16 lanes. Each lane is written at most once over all rules, so that a loop over few bits wins.
        while m != 0 {
            out[m.trailing_zeros() as usize & 15] = v;
            m &= m - 1;
        }
    }

    #[inline(always)]
    fn tags8(self, tags: &[u16; 8], tag: u16) -> u32 {
        // SAFETY: `self` proves the features; 16 readable bytes, and the load needs no alignment.
        unsafe {
            let t = _mm_loadu_si128(tags.as_ptr().cast());
            let same = _mm_cmpeq_epi16(t, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128())) as u32
        }
    }
}
