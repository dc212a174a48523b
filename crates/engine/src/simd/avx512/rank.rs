//! How many of a row's numbers each of sixteen is above.

use crate::simd::Wide;
use crate::simd::avx512::Avx512;
use crate::simd::intervals::IntervalEnds;
use std::arch::x86_64::__m512i;

impl Avx512 {
    /// `n`, and one more where `v` is above the number.
    #[inline(always)]
    fn more(self, n: __m512i, v: __m512i, number: __m512i) -> __m512i {
        use std::arch::x86_64::{_mm512_cmpgt_epu32_mask, _mm512_mask_add_epi32};
        // SAFETY: the instructions are there, or the value would not be.
        unsafe { _mm512_mask_add_epi32(n, _mm512_cmpgt_epu32_mask(v, number), n, self.all(1)) }
    }

    /// [`Wide::rank`] among `16 * R` numbers.
    #[inline(always)]
    pub fn search<const R: usize>(self, v: __m512i, ends: &IntervalEnds) -> __m512i {
        use std::arch::x86_64::{
            _mm512_permutex2var_epi32, _mm512_permutexvar_epi32, _mm512_slli_epi32,
        };
        let none = self.all(0);
        let (mut row, mut quarter, mut place) = (none, none, none);
        for head in &ends.heads[..R - 1] {
            row = self.more(row, v, self.all(*head));
        }
        for q in &ends.quarters {
            // SAFETY: as above; this goes for all of the following.
            let number = match R {
                1 => self.all(q.0[0]),
                _ => unsafe { _mm512_permutexvar_epi32(row, self.get(q)) },
            };
            quarter = self.more(quarter, v, number);
        }
        quarter = self.plus(quarter, unsafe { _mm512_slli_epi32::<2>(row) });
        for [a, b] in &ends.places {
            let number = match R {
                8 => unsafe { _mm512_permutex2var_epi32(self.get(a), quarter, self.get(b)) },
                _ => unsafe { _mm512_permutexvar_epi32(quarter, self.get(a)) },
            };
            place = self.more(place, v, number);
        }
        self.plus(place, unsafe { _mm512_slli_epi32::<2>(quarter) })
    }
}
