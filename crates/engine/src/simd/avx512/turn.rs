//! Rows of packets to columns of their words, and columns to rows.

use crate::simd::HEAD;
use crate::simd::avx512::Avx512;

impl Avx512 {
    /// Four columns, as four rows of four packets each.
    #[inline(always)]
    pub fn rows(self, of: [std::arch::x86_64::__m512i; 4]) -> [std::arch::x86_64::__m512i; 4] {
        use std::arch::x86_64::{
            _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
            _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
        };
        let [a, b, c, d] = of;
        // SAFETY: as above.
        unsafe {
            let (x, y) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (z, w) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            // of each quarter the first packet, the second, and so on
            let p = _mm512_unpacklo_epi64(x, z);
            let q = _mm512_unpackhi_epi64(x, z);
            let r = _mm512_unpacklo_epi64(y, w);
            let s = _mm512_unpackhi_epi64(y, w);
            // quarters 0 and 1 of two, quarters 2 and 3 of two
            let (pq, rs) = (
                _mm512_shuffle_i32x4(p, q, 0x44),
                _mm512_shuffle_i32x4(r, s, 0x44),
            );
            let (pq2, rs2) = (
                _mm512_shuffle_i32x4(p, q, 0xee),
                _mm512_shuffle_i32x4(r, s, 0xee),
            );
            [
                _mm512_shuffle_i32x4(pq, rs, 0x88),
                _mm512_shuffle_i32x4(pq, rs, 0xdd),
                _mm512_shuffle_i32x4(pq2, rs2, 0x88),
                _mm512_shuffle_i32x4(pq2, rs2, 0xdd),
            ]
        }
    }

    /// Rows of two packets' eight words each, a packet and the eighth after it, to columns.
    #[inline(always)]
    pub fn turned(
        self,
        rows: [std::arch::x86_64::__m512i; 8],
    ) -> [std::arch::x86_64::__m512i; HEAD / 4] {
        use std::arch::x86_64::{
            _mm512_permutex2var_epi64, _mm512_set_epi64, _mm512_unpackhi_epi32,
            _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
        };
        // of eight packets words 0 and 4, 1 and 5, and so on. A macro: a closure that is not inlined would be compiled without these instructions, and call each
        // of them.
        macro_rules! four {
            ($i:expr) => {{
                let (a, b, c, d) = (rows[$i], rows[$i + 1], rows[$i + 2], rows[$i + 3]);
                let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
                let (ab2, cd2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
                [
                    _mm512_unpacklo_epi64(ab, cd),
                    _mm512_unpackhi_epi64(ab, cd),
                    _mm512_unpacklo_epi64(ab2, cd2),
                    _mm512_unpackhi_epi64(ab2, cd2),
                ]
            }};
        }
        // SAFETY: as above.
        unsafe {
            let (x, y) = (four!(0), four!(4));
            let low = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
            let high = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
            [
                _mm512_permutex2var_epi64(x[0], low, y[0]),
                _mm512_permutex2var_epi64(x[1], low, y[1]),
                _mm512_permutex2var_epi64(x[2], low, y[2]),
                _mm512_permutex2var_epi64(x[3], low, y[3]),
                _mm512_permutex2var_epi64(x[0], high, y[0]),
                _mm512_permutex2var_epi64(x[1], high, y[1]),
                _mm512_permutex2var_epi64(x[2], high, y[2]),
                _mm512_permutex2var_epi64(x[3], high, y[3]),
            ]
        }
    }
}
