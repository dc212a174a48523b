//! Hashes of sixteen packets' keys: the mixing of sums of products.

use crate::simd::Hashes;
use crate::simd::avx512::Avx512;
use std::arch::x86_64::__m512i;

/// Sums of packets of even numbers, and of odd ones.
pub(super) type Sums = (__m512i, __m512i);

impl Avx512 {
    /// [`Wide::mixed_hashes`](crate::simd::Wide::mixed_hashes).
    #[inline(always)]
    pub fn mix_sums(
        self,
        (even, odd): Sums,
        (by, n): ([u64; 2], u32),
        (to, tags, buckets): Hashes<'_>,
    ) {
        use std::arch::x86_64::{
            _mm256_and_si256, _mm256_max_epu16, _mm256_set1_epi16, _mm256_storeu_si256,
            _mm512_cvtepi32_epi16, _mm512_mask_mov_epi32, _mm512_mul_epu32, _mm512_mullo_epi64,
            _mm512_permutex2var_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_srli_epi32,
            _mm512_srli_epi64, _mm512_storeu_si512, _mm512_xor_si512,
        };
        // macros: closures may not be inlined
        macro_rules! mixed {
            ($h:expr) => {{
                let mut h = $h;
                for s in &by {
                    h = _mm512_xor_si512(h, _mm512_srli_epi64::<32>(h));
                    h = _mm512_mullo_epi64(h, _mm512_set1_epi64(*s as i64));
                }
                _mm512_xor_si512(h, _mm512_srli_epi64::<32>(h))
            }};
        }
        // SAFETY: as above; stores are of 64 bytes each, of as many as the arrays have.
        unsafe {
            let (even, odd) = (mixed!(even), mixed!(odd));
            let n = _mm512_set1_epi64(n.into());
            let low = _mm512_srli_epi64::<32>(_mm512_mul_epu32(even, n));
            let both = _mm512_mask_mov_epi32(low, 0xaaaa, _mm512_mul_epu32(odd, n));
            _mm512_storeu_si512(buckets.as_mut_ptr().cast(), both);
            let high = _mm512_mask_mov_epi32(_mm512_srli_epi64::<32>(even), 0xaaaa, odd);
            let high = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(high));
            let high = _mm256_and_si256(high, _mm256_set1_epi16(!1));
            let high = _mm256_max_epu16(high, _mm256_set1_epi16(2));
            _mm256_storeu_si256(tags.as_mut_ptr().cast(), high);
            let first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
            let second = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
            let to = to.as_mut_ptr().cast::<__m512i>();
            _mm512_storeu_si512(to, _mm512_permutex2var_epi64(even, first, odd));
            _mm512_storeu_si512(to.add(1), _mm512_permutex2var_epi64(even, second, odd));
        }
    }
}
