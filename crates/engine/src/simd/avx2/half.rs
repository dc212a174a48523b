//! What is done with half of a row, or of a window: eight numbers, or 32 bytes, in a register.

use crate::simd::WINDOW;
use crate::simd::avx2::{Avx2, EIGHT, HALF, Two};
use crate::simd::intervals::IntervalEnds;
use crate::simd::{HEAD, Lanes, ROW, Wide};
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi16, _mm256_add_epi32, _mm256_add_epi64,
    _mm256_and_si256, _mm256_blend_epi32, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castsi128_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32,
    _mm256_cmpgt_epi32, _mm256_inserti128_si256, _mm256_loadu_si256, _mm256_maskload_epi32,
    _mm256_max_epu16, _mm256_min_epu32, _mm256_movemask_ps, _mm256_mul_epu32, _mm256_or_si256,
    _mm256_permute2x128_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setr_epi16, _mm256_setr_epi32,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_epi16,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

impl Avx2 {
    #[inline(always)]
    pub fn none(self) -> __m256i {
        // SAFETY: the instructions are there, or the value would not be; this goes for all of the following.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    pub fn eight(self, v: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_set1_epi32(v as i32) }
    }
    /// The first [`NEAR`](crate::simd::avx2::NEAR) bytes.
    #[inline(always)]
    pub fn near(self, w: &[u8; WINDOW]) -> __m256i {
        // SAFETY: as above; half of 64 bytes.
        unsafe { _mm256_loadu_si256(w[..HALF].as_ptr().cast()) }
    }
    /// The others.
    #[inline(always)]
    pub fn far(self, w: &[u8; WINDOW]) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_loadu_si256(w[HALF..].as_ptr().cast()) }
    }
    #[inline(always)]
    pub fn store(self, v: Two, to: &mut [u8; WINDOW]) {
        let (near, far) = to.split_at_mut(HALF);
        // SAFETY: as above; halves of 64 bytes.
        unsafe {
            _mm256_storeu_si256(near.as_mut_ptr().cast(), v.0);
            _mm256_storeu_si256(far.as_mut_ptr().cast(), v.1);
        }
    }

    /// All ones where `a` is `b` at most, and zeros elsewhere.
    #[inline(always)]
    pub fn at_most(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a) }
    }
    /// The first bit of each number.
    #[inline(always)]
    pub fn bits(self, v: Two) -> u16 {
        // SAFETY: as above.
        let (low, high) = unsafe {
            let (low, high) = (_mm256_castsi256_ps(v.0), _mm256_castsi256_ps(v.1));
            (_mm256_movemask_ps(low), _mm256_movemask_ps(high))
        };
        (low | high << EIGHT) as u16
    }
    /// All ones where the bit is set, and zeros elsewhere.
    #[inline(always)]
    pub fn ingress(self, which: u16) -> Two {
        let which = self.all(which.into());
        // SAFETY: as above.
        unsafe {
            let bits = Two(
                _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128),
                _mm256_setr_epi32(0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000),
            );
            let some = both!(_mm256_and_si256(which, bits));
            both!(_mm256_cmpeq_epi32(some, bits))
        }
    }
    /// The same of pairs of bytes.
    #[inline(always)]
    pub fn pairs_of_bytes(self, which: u16) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let bits = _mm256_setr_epi16(
                1,
                2,
                4,
                8,
                0x10,
                0x20,
                0x40,
                0x80,
                0x100,
                0x200,
                0x400,
                0x800,
                0x1000,
                0x2000,
                0x4000,
                i16::MIN,
            );
            let which = _mm256_set1_epi16(which as i16);
            _mm256_cmpeq_epi16(_mm256_and_si256(which, bits), bits)
        }
    }

    /// Eight of a row's numbers.
    #[inline(always)]
    pub fn eight_of(self, row: &Lanes, from: usize) -> __m256i {
        // SAFETY: as above; eight numbers.
        unsafe { _mm256_loadu_si256(row.0[from..from + EIGHT].as_ptr().cast()) }
    }
    /// Of each place, which is below 16, the number that stands there.
    #[inline(always)]
    pub fn of_sixteen(self, from: Two, at: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let a = _mm256_permutevar8x32_epi32(from.0, at);
            let b = _mm256_permutevar8x32_epi32(from.1, at);
            self.either::<8>(a, b, at)
        }
    }
    /// The same, of places below 32.
    #[inline(always)]
    pub fn of_more(self, from: Two, others: Two, at: __m256i) -> __m256i {
        let (a, b) = (self.of_sixteen(from, at), self.of_sixteen(others, at));
        self.either::<16>(a, b, at)
    }
    /// `b` where a place has this bit, else `a`.
    #[inline(always)]
    pub fn either<const BIT: i32>(self, a: __m256i, b: __m256i, at: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let which = match BIT {
                8 => _mm256_slli_epi32::<28>(at),
                _ => _mm256_slli_epi32::<27>(at),
            };
            let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
            _mm256_castps_si256(_mm256_blendv_ps(a, b, _mm256_castsi256_ps(which)))
        }
    }

    /// Eight of these numbers, of 32 at most, from this one on; zeros where there are no more.
    #[inline(always)]
    pub fn those(self, of: &[u32], first: usize) -> __m256i {
        // SAFETY: as above; what is behind the last one is not read.
        unsafe {
            let there = self.eight(of.len().saturating_sub(first).min(EIGHT) as u32);
            let there = _mm256_cmpgt_epi32(there, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            _mm256_maskload_epi32(of.as_ptr().wrapping_add(first).cast(), there)
        }
    }

    /// [`Wide::rank`] of eight, among `16 * R` numbers. What is added up is minus one where a number is not less: it begins with as many as there are.
    #[inline(always)]
    pub fn search<const R: usize>(self, v: __m256i, ends: &IntervalEnds) -> __m256i {
        let mut row = self.eight(R as u32 - 1);
        let (mut quarter, mut place) = (self.eight(3), self.eight(3));
        // SAFETY: as above; this goes for all of the following.
        unsafe {
            for head in &ends.heads[..R - 1] {
                row = _mm256_add_epi32(row, self.at_most(v, self.eight(*head)));
            }
            for q in &ends.quarters {
                let number = match R {
                    1 => self.eight(q.0[0]),
                    _ => _mm256_permutevar8x32_epi32(self.eight_of(q, 0), row),
                };
                quarter = _mm256_add_epi32(quarter, self.at_most(v, number));
            }
            quarter = _mm256_add_epi32(quarter, _mm256_slli_epi32::<2>(row));
            for [a, b] in &ends.places {
                let number = match R {
                    1 | 2 => _mm256_permutevar8x32_epi32(self.eight_of(a, 0), quarter),
                    4 => self.of_sixteen(self.get(a), quarter),
                    _ => self.of_more(self.get(a), self.get(b), quarter),
                };
                place = _mm256_add_epi32(place, self.at_most(v, number));
            }
            _mm256_add_epi32(place, _mm256_slli_epi32::<2>(quarter))
        }
    }

    /// Where each byte of a word comes from whose bytes are turned round.
    #[inline(always)]
    pub fn swap(self) -> __m256i {
        // SAFETY: as above.
        unsafe {
            _mm256_setr_epi8(
                3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6, 5, 4, 11,
                10, 9, 8, 15, 14, 13, 12,
            )
        }
    }
    /// Four words of eight packets each, from this packet and this place on, as columns; the bytes of words turned round, if so asked.
    #[inline(always)]
    pub fn four<const SWAP: bool>(
        self,
        h: &[&[u8; WINDOW]; ROW],
        first: usize,
        at: usize,
    ) -> [__m256i; 4] {
        let mut rows = [self.none(); 4];
        for i in 0..4 {
            let (a, b) = (h[first + i], h[first + i + 4]);
            // SAFETY: as above; loads are of 16 bytes each, of slices that have as many.
            unsafe {
                let a = _mm_loadu_si128(a[at..at + 16].as_ptr().cast());
                let b = _mm_loadu_si128(b[at..at + 16].as_ptr().cast());
                rows[i] = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
                if SWAP {
                    rows[i] = _mm256_shuffle_epi8(rows[i], self.swap());
                }
            }
        }
        self.turned(rows)
    }
    /// Columns of sixteen packets' words, four from each of two places on.
    #[inline(always)]
    pub fn eight_words<const SWAP: bool>(
        self,
        h: &[&[u8; WINDOW]; ROW],
        (a, b): (usize, usize),
    ) -> [Two; HEAD / 4] {
        let [a, b, c, d] = [
            self.four::<SWAP>(h, 0, a),
            self.four::<SWAP>(h, EIGHT, a),
            self.four::<SWAP>(h, 0, b),
            self.four::<SWAP>(h, EIGHT, b),
        ];
        [
            Two(a[0], b[0]),
            Two(a[1], b[1]),
            Two(a[2], b[2]),
            Two(a[3], b[3]),
            Two(c[0], d[0]),
            Two(c[1], d[1]),
            Two(c[2], d[2]),
            Two(c[3], d[3]),
        ]
    }
    /// Four rows of four numbers, in each half of the registers, as columns.
    #[inline(always)]
    pub fn turned(self, [a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: as above.
        unsafe {
            let (x, y) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (z, w) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(x, z),
                _mm256_unpackhi_epi64(x, z),
                _mm256_unpacklo_epi64(y, w),
                _mm256_unpackhi_epi64(y, w),
            ]
        }
    }
    /// Four columns of eight packets, as rows of two packets each.
    #[inline(always)]
    pub fn rows(self, columns: [__m256i; 4]) -> [__m256i; 4] {
        // a packet and the fourth after it
        let [a, b, c, d] = self.turned(columns);
        // SAFETY: as above.
        unsafe {
            [
                _mm256_permute2x128_si256::<0x20>(a, b),
                _mm256_permute2x128_si256::<0x20>(c, d),
                _mm256_permute2x128_si256::<0x31>(a, b),
                _mm256_permute2x128_si256::<0x31>(c, d),
            ]
        }
    }
    /// Four columns as rows, to where they are wanted: 16 bytes for each packet.
    #[inline(always)]
    pub fn put_rows<T>(self, [a, b, c, d]: [Two; 4], to: &mut [T; ROW]) {
        const { assert!(size_of::<T>() == 16) };
        let rows = [
            self.rows([a.0, b.0, c.0, d.0]),
            self.rows([a.1, b.1, c.1, d.1]),
        ];
        let to = to.as_mut_ptr().cast::<__m256i>();
        for i in 0..EIGHT {
            // SAFETY: as above; 16 times 16 bytes, of which two are written at a time.
            unsafe { _mm256_storeu_si256(to.add(i), rows[i / 4][i % 4]) };
        }
    }

    /// Of each pair of bytes so much less, and the borrow in its turn.
    #[inline(always)]
    pub fn less(self, v: __m256i, less: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            // minus one where there is no borrow
            let none = _mm256_cmpeq_epi16(_mm256_max_epu16(v, less), v);
            let less = _mm256_add_epi16(less, _mm256_set1_epi16(1));
            _mm256_sub_epi16(_mm256_sub_epi16(v, less), none)
        }
    }
    /// Bits kept and bits set, then subtracted byte by byte.
    #[inline(always)]
    pub fn changed(self, v: __m256i, keep: __m256i, set: __m256i, sub: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sub_epi8(_mm256_or_si256(_mm256_and_si256(v, keep), set), sub) }
    }

    /// What mixes a hash: numbers of 64 bits, their upper halves put to the lower ones, times this one.
    #[inline(always)]
    pub fn mixed(self, h: __m256i, by: u64) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let high = _mm256_srli_epi64::<32>(h);
            let h = _mm256_xor_si256(h, high);
            let low = _mm256_set1_epi64x((by & 0xffff_ffff) as i64);
            let cross = _mm256_add_epi64(
                _mm256_mul_epu32(high, low),
                _mm256_mul_epu32(h, _mm256_set1_epi64x((by >> 32) as i64)),
            );
            _mm256_add_epi64(_mm256_mul_epu32(h, low), _mm256_slli_epi64::<32>(cross))
        }
    }
    /// Products of eight: of packets of even numbers, and of odd ones.
    #[inline(always)]
    pub fn products(self, a: __m256i, b: __m256i) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            [_mm256_mul_epu32(a, b), odd]
        }
    }
    /// [`Wide::mixed_hashes`] of eight.
    #[inline(always)]
    pub fn eight_hashes(
        self,
        [mut even, mut odd]: [__m256i; 2],
        (by, n): ([u64; 2], u32),
    ) -> ([__m256i; 2], __m256i) {
        // SAFETY: as above.
        unsafe {
            for s in &by {
                (even, odd) = (self.mixed(even, *s), self.mixed(odd, *s));
            }
            even = _mm256_xor_si256(even, _mm256_srli_epi64::<32>(even));
            odd = _mm256_xor_si256(odd, _mm256_srli_epi64::<32>(odd));
            let n = _mm256_set1_epi64x(n.into());
            let low = _mm256_srli_epi64::<32>(_mm256_mul_epu32(even, n));
            let buckets = _mm256_blend_epi32::<0xaa>(low, _mm256_mul_epu32(odd, n));
            let (x, y) = (
                _mm256_unpacklo_epi64(even, odd),
                _mm256_unpackhi_epi64(even, odd),
            );
            let first = _mm256_permute2x128_si256::<0x20>(x, y);
            ([first, _mm256_permute2x128_si256::<0x31>(x, y)], buckets)
        }
    }
}
