//! AVX2: comparisons of 8 lanes, whose answers are collected from the lanes' signs.

use super::{Isa, Kernel};
use std::arch::x86_64::{
    __m256i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    _mm_setzero_si128, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_cvtepu8_epi32, _mm256_loadu_si256, _mm256_min_epu32, _mm256_movemask_ps,
    _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_slli_epi32, _mm256_storeu_si256,
    _mm256_sub_epi32, _pext_u32,
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
    fn rows4(self, words: &[u32; 4], lo: &[u32; 16], span: &[u32; 16], key: &[u32; 8]) -> u32 {
        // SAFETY: `self` proves the features; 16 readable bytes of words, 32 of the key.
        unsafe {
            let which = _mm256_cvtepu8_epi32(_mm_loadu_si128(words.as_ptr().cast()));
            let key = _mm256_loadu_si256(key.as_ptr().cast());
            let row = _mm256_permutevar8x32_epi32(key, which);
            let ((a, b), (x, y)) = (halves(lo), halves(span));
            at_most(_mm256_sub_epi32(row, a), x) | at_most(_mm256_sub_epi32(row, b), y) << 8
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
        let (keys, to) = (keys.as_chunks::<8>().0, parts.as_chunks_mut::<8>().0);
        for (keys, to) in keys.iter().zip(to) {
            // SAFETY: `self` proves the features; 32 bytes are there of what is loaded and stored.
            unsafe {
                let keys = _mm256_loadu_si256(keys.as_ptr().cast());
                // Closures would be compiled without the features. All ones is less by one.
                macro_rules! reached {
                    ($n:expr, $cut:expr) => {{
                        let cut = $cut;
                        let is = _mm256_cmpeq_epi32(_mm256_min_epu32(cut, keys), cut);
                        _mm256_sub_epi32($n, is)
                    }};
                }
                let mut first = all(0);
                for i in 0..7 {
                    first = reached!(first, all(cuts[7][i]));
                }
                let mut n = _mm256_slli_epi32::<3>(first);
                for j in 0..7 {
                    let row = _mm256_loadu_si256(cuts[j].as_ptr().cast());
                    n = reached!(n, _mm256_permutevar8x32_epi32(row, first));
                }
                _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_min_epu32(n, all(last)));
            }
        }
        parts
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
