//! AVX-512: a comparison of 16 lanes is one instruction, its answer a mask.

use super::{Isa, Kernel};
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_cmpeq_epi16_mask, _mm_loadu_si128, _mm_set1_epi16,
    _mm256_and_si256, _mm256_cmpeq_epi32_mask, _mm256_cmple_epu32_mask, _mm256_loadu_si256,
    _mm256_set1_epi32, _mm256_sub_epi32, _mm512_and_si512, _mm512_castsi256_si512,
    _mm512_cmpeq_epi32_mask, _mm512_cmple_epu32_mask, _mm512_cvtepu8_epi32, _mm512_loadu_si512,
    _mm512_mask_add_epi32, _mm512_mask_storeu_epi32, _mm512_min_epu32, _mm512_permutexvar_epi32,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_storeu_si512,
    _mm512_sub_epi32, _pext_u32,
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
    fn rows4(self, words: &[u32; 4], lo: &[u32; 16], span: &[u32; 16], key: &[u32; 8]) -> u32 {
        // SAFETY: `self` proves the features; 16 readable bytes of words, 32 of the key.
        unsafe {
            let which = _mm512_cvtepu8_epi32(_mm_loadu_si128(words.as_ptr().cast()));
            let key = _mm256_loadu_si256(key.as_ptr().cast());
            let row = _mm512_permutexvar_epi32(which, _mm512_castsi256_si512(key));
            let d = _mm512_sub_epi32(row, load16(lo));
            u32::from(_mm512_cmple_epu32_mask(d, load16(span)))
        }
    }

    #[inline(always)]
    fn all4(self, m: u32) -> u32 {
        let m = m & m >> 1;
        // SAFETY: `self` proves the features.
        unsafe { _pext_u32(m & m >> 2, 0x1111_1111) }
    }

    #[inline(always)]
    fn turned(self, words: [&[u32; 4]; 4]) -> [[u32; 4]; 4] {
        super::turned(words)
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn parts(self, cuts: &[[u32; 8]; 8], last: u32, keys: &[u32; 16]) -> [u32; 16] {
        let mut parts = [0; 16];
        // SAFETY: `self` proves the features; 32 bytes are there of each row, 64 of keys and parts.
        unsafe {
            let keys = load16(keys);
            let one = _mm512_set1_epi32(1);
            // closures would be compiled without the features
            macro_rules! reached {
                ($n:expr, $cut:expr) => {{
                    let m = _mm512_cmple_epu32_mask($cut, keys);
                    _mm512_mask_add_epi32($n, m, $n, one)
                }};
            }
            let mut first = _mm512_setzero_si512();
            for i in 0..7 {
                let cut = cuts[7][i];
                first = reached!(first, _mm512_set1_epi32(cut as i32));
            }
            let mut n = _mm512_slli_epi32::<3>(first);
            for j in 0..7 {
                let row = _mm512_castsi256_si512(_mm256_loadu_si256(cuts[j].as_ptr().cast()));
                n = reached!(n, _mm512_permutexvar_epi32(first, row));
            }
            let n = _mm512_min_epu32(n, _mm512_set1_epi32(last as i32));
            _mm512_storeu_si512(parts.as_mut_ptr().cast(), n);
        }
        parts
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
