//! AVX-512: a comparison of 16 lanes is one instruction, its answer a mask.

use super::{Isa, Kernel};
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_cmpeq_epi16_mask, _mm_loadu_si128, _mm_set1_epi16,
    _mm256_and_si256, _mm256_cmpeq_epi32_mask, _mm256_cmple_epu32_mask, _mm256_loadu_si256,
    _mm256_set1_epi32, _mm256_sub_epi32, _mm512_and_si512, _mm512_cmpeq_epi32_mask,
    _mm512_cmple_epu32_mask, _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_set1_epi32,
    _mm512_sub_epi32,
};

/// Proof that the processor has AVX-512 F, VL, BW, BMI1 and POPCNT: [`Avx512::new`] is the only way to one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// One, if the features are there.
    #[inline]
    pub fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }
}

/// # Safety
/// The processor must have the features, as `isa` proves.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,bmi1,bmi2,popcnt")]
pub(super) unsafe fn run<K: Kernel>(isa: Avx512, kernel: K) {
    kernel.run(isa);
}

/// # Safety
/// AVX-512 F.
#[inline(always)]
unsafe fn load16(a: &[u32; 16]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(a.as_ptr().cast()) }
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

impl Isa for Avx512 {
    #[inline(always)]
    fn le16(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let m = _mm512_cmple_epu32_mask(load16(line), _mm512_set1_epi32(k as i32));
            u32::from(m)
        }
    }

    #[inline(always)]
    fn within8(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (lo, span) = halves(line);
            let d = _mm256_sub_epi32(_mm256_set1_epi32(k as i32), lo);
            u32::from(_mm256_cmple_epu32_mask(d, span))
        }
    }

    #[inline(always)]
    fn masked8(self, line: &[u32; 16], k: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let (mask, v) = halves(line);
            let d = _mm256_and_si256(_mm256_set1_epi32(k as i32), mask);
            u32::from(_mm256_cmpeq_epi32_mask(d, v))
        }
    }

    #[inline(always)]
    fn keys_equal(self, keys: &[u32; 16], v: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let m = _mm512_cmpeq_epi32_mask(load16(keys), _mm512_set1_epi32(v as i32));
            u32::from(m)
        }
    }

    #[inline(always)]
    fn keys_within(self, keys: &[u32; 16], lo: u32, span: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let d = _mm512_sub_epi32(load16(keys), _mm512_set1_epi32(lo as i32));
            u32::from(_mm512_cmple_epu32_mask(d, _mm512_set1_epi32(span as i32)))
        }
    }

    #[inline(always)]
    fn keys_masked(self, keys: &[u32; 16], mask: u32, v: u32) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let d = _mm512_and_si512(load16(keys), _mm512_set1_epi32(mask as i32));
            u32::from(_mm512_cmpeq_epi32_mask(d, _mm512_set1_epi32(v as i32)))
        }
    }

    #[inline(always)]
    fn put(self, out: &mut [u32; 16], m: u32, v: u32) {
        // SAFETY: `self` proves the features; 64 writable bytes, and the store needs no alignment.
        unsafe {
            let v = _mm512_set1_epi32(v as i32);
            _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), m as u16, v);
        }
    }

    #[inline(always)]
    fn tags8(self, tags: &[u16; 8], tag: u16) -> u32 {
        // SAFETY: `self` proves the features; 16 readable bytes, and the load needs no alignment.
        unsafe {
            let t: __m128i = _mm_loadu_si128(tags.as_ptr().cast());
            u32::from(_mm_cmpeq_epi16_mask(t, _mm_set1_epi16(tag as i16)))
        }
    }
}
