//! With AVX-512: sixteen numbers, or a packet's first 64 bytes, in a register.
#![allow(unsafe_code)]

mod hash;
mod rank;
pub(crate) mod turn;

use crate::simd::avx2::Avx2;
use crate::simd::intervals::IntervalEnds;
use crate::simd::window_rewrite::{NEAR, Operands, WindowRewrite};
use crate::simd::{EDGES, GROUP, HEAD, HEAD_AT, Hashes, Lanes, ROW, TAGS, WINDOW, Wide};
use std::arch::x86_64::{__m256i, __m512i};

/// With AVX-512 (F, BW, VL).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor has AVX-512 F, BW and VL.
    #[inline(always)]
    pub unsafe fn new() -> Avx512 {
        Avx512(())
    }

    /// If this processor has it.
    #[cfg(test)]
    pub fn found() -> Option<Avx512> {
        use crate::simd::dispatch::Isa;
        (Isa::found() == Isa::Avx512).then_some(Avx512(()))
    }
}

/// What is done to packets of an action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadedTemplate {
    keep: __m512i,
    set: __m512i,
    sub: __m512i,
    adds: __m512i,
    vars_at: __m512i,
    unsummed: u32,
}

impl Avx512 {
    /// Half as wide.
    #[inline(always)]
    pub(crate) fn narrow(self) -> Avx2 {
        // SAFETY: what has AVX-512 has AVX2.
        unsafe { Avx2::new() }
    }

    /// The first [`NEAR`] bytes.
    #[inline(always)]
    fn load_near(self, w: &[u8; WINDOW]) -> std::arch::x86_64::__m256i {
        // SAFETY: the instructions are there, or the value would not be; half of 64 bytes.
        unsafe { std::arch::x86_64::_mm256_loadu_si256(w[..NEAR].as_ptr().cast()) }
    }
}

impl Wide for Avx512 {
    type V = std::arch::x86_64::__m512i;
    #[inline(always)]
    fn load(self, w: &[u8; WINDOW]) -> Self::V {
        // SAFETY: an array of 64 bytes; the instructions are there, or the value would not be.
        unsafe { std::arch::x86_64::_mm512_loadu_si512(w.as_ptr().cast()) }
    }
    #[inline(always)]
    fn inside(
        self,
        w: Self::V,
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        use std::arch::x86_64::{_mm512_and_si512, _mm512_cmpgt_epu8_mask, _mm512_sub_epi8};
        let (mask, lo, span) = (self.load(mask), self.load(lo), self.load(span));
        // SAFETY: the instructions are there, or the value would not be.
        unsafe {
            let over = _mm512_sub_epi8(_mm512_and_si512(w, mask), lo);
            _mm512_cmpgt_epu8_mask(over, span) == 0
        }
    }
    #[inline(always)]
    fn all_inside(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        use std::arch::x86_64::{
            _mm512_and_si512, _mm512_or_si512, _mm512_sub_epi8, _mm512_subs_epu8,
            _mm512_test_epi8_mask,
        };
        let (mask, lo, span) = (self.load(mask), self.load(lo), self.load(span));
        let mut beyond = self.all(0);
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let w = self.load(windows[i]);
            // SAFETY: the instructions are there, or the value would not be.
            unsafe {
                let over = _mm512_sub_epi8(_mm512_and_si512(w, mask), lo);
                beyond = _mm512_or_si512(beyond, _mm512_subs_epu8(over, span));
            }
        }
        // SAFETY: as above.
        unsafe { _mm512_test_epi8_mask(beyond, beyond) == 0 }
    }
    #[inline(always)]
    fn all_same(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        use std::arch::x86_64::{
            _mm512_or_si512, _mm512_ternarylogic_epi32, _mm512_test_epi8_mask,
        };
        let (mask, bits) = (self.load(mask), self.load(bits));
        // two, which do not wait for each other
        let mut other = [self.all(0); 2];
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let w = self.load(windows[i]);
            // SAFETY: the instructions are there, or the value would not be. The number is the truth table of a | (b ^ c).
            unsafe {
                other[i % 2] = _mm512_ternarylogic_epi32(other[i % 2], w, bits, 0xf6);
            }
        }
        // SAFETY: as above.
        unsafe { _mm512_test_epi8_mask(_mm512_or_si512(other[0], other[1]), mask) == 0 }
    }
    #[inline(always)]
    fn all_same_near(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        use std::arch::x86_64::{
            _mm256_or_si256, _mm256_setzero_si256, _mm256_ternarylogic_epi32, _mm256_testz_si256,
        };
        let (mask, bits) = (self.load_near(mask), self.load_near(bits));
        // SAFETY: as above; this goes for all of the following.
        let mut other = [unsafe { _mm256_setzero_si256() }; 2];
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let w = self.load_near(windows[i]);
            unsafe {
                other[i % 2] = _mm256_ternarylogic_epi32(other[i % 2], w, bits, 0xf6);
            }
        }
        unsafe { _mm256_testz_si256(_mm256_or_si256(other[0], other[1]), mask) == 1 }
    }
    #[inline(always)]
    fn change(
        self,
        w: Self::V,
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    ) {
        use std::arch::x86_64::{
            _mm512_and_si512, _mm512_or_si512, _mm512_storeu_si512, _mm512_sub_epi8,
        };
        let (keep, set, sub) = (self.load(keep), self.load(set), self.load(sub));
        // SAFETY: an array of 64 bytes; the instructions are there, or the value would not be.
        unsafe {
            let x = _mm512_or_si512(_mm512_and_si512(w, keep), set);
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_sub_epi8(x, sub));
        }
    }
    type LoadedTemplate<'a> = LoadedTemplate;
    #[inline(always)]
    fn take(self, template: &WindowRewrite) -> LoadedTemplate {
        LoadedTemplate {
            keep: self.load(&template.keep),
            set: self.load(&template.set),
            sub: self.load(&template.sub),
            adds: self.load(&template.adds),
            vars_at: self.load(&template.vars_at),
            unsummed: template.unsummed,
        }
    }
    /// One store. Field by field it was six, and forty instructions more.
    ///
    /// What is added to checksums, and what is written, comes from the sixteen bytes of a flow's own, each byte from where the rewrite says. All pairs of bytes are
    /// sums at once: to most of them nothing is added. One's complement sums do not mind which way round their bytes are; and to add to a complement, the carry
    /// added in its turn, is to subtract, and the borrow in its turn.
    #[inline(always)]
    fn rewrite(
        self,
        v: Self::V,
        taken: LoadedTemplate,
        operands: &Operands,
        to: &mut [u8; WINDOW],
    ) {
        use std::arch::x86_64::{
            _mm_load_si128, _mm512_broadcast_i32x4, _mm512_cmplt_epu16_mask, _mm512_mask_sub_epi16,
            _mm512_mask_testn_epi16_mask, _mm512_maskz_mov_epi16, _mm512_or_si512,
            _mm512_set1_epi16, _mm512_shuffle_epi8, _mm512_storeu_si512, _mm512_sub_epi8,
            _mm512_sub_epi16, _mm512_ternarylogic_epi32,
        };
        // SAFETY: the instructions are there, or the value would not be; sixteen bytes, aligned to as many; an array of 64 bytes.
        unsafe {
            let operands = _mm512_broadcast_i32x4(_mm_load_si128(operands.0.as_ptr().cast()));
            let less = _mm512_shuffle_epi8(operands, taken.adds);
            let none = _mm512_mask_testn_epi16_mask(taken.unsummed, v, v);
            let less = _mm512_maskz_mov_epi16(!none, less);
            let sums = _mm512_sub_epi16(v, less);
            let borrow = _mm512_cmplt_epu16_mask(v, less);
            let sums = _mm512_mask_sub_epi16(sums, borrow, sums, _mm512_set1_epi16(1));
            // the number is the truth table of a & b | c
            let x = _mm512_ternarylogic_epi32(sums, taken.keep, taken.set, 0xea);
            let x = _mm512_sub_epi8(x, taken.sub);
            let x = _mm512_or_si512(x, _mm512_shuffle_epi8(operands, taken.vars_at));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), x);
        }
    }
    /// The same with half as wide registers, as there is nothing to be done behind.
    #[inline(always)]
    fn rewrite_near(self, template: &WindowRewrite, w: &mut [u8; WINDOW]) {
        use std::arch::x86_64::{
            _mm256_cmplt_epu16_mask, _mm256_loadu_si256, _mm256_mask_sub_epi16, _mm256_set1_epi16,
            _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_epi16, _mm256_ternarylogic_epi32,
        };
        let v = self.load_near(w);
        let (keep, set) = (
            self.load_near(&template.keep),
            self.load_near(&template.set),
        );
        let sub = self.load_near(&template.sub);
        // SAFETY: as above; arrays of 32 bytes.
        unsafe {
            let less = _mm256_loadu_si256(template.less.as_ptr().cast());
            let sums = _mm256_sub_epi16(v, less);
            let borrow = _mm256_cmplt_epu16_mask(v, less);
            let sums = _mm256_mask_sub_epi16(sums, borrow, sums, _mm256_set1_epi16(1));
            let x = _mm256_ternarylogic_epi32(sums, keep, set, 0xea);
            _mm256_storeu_si256(w.as_mut_ptr().cast(), _mm256_sub_epi8(x, sub));
        }
    }
    #[inline(always)]
    fn above(self, v: u32, row: &[u32; ROW]) -> u32 {
        use std::arch::x86_64::{_mm512_cmplt_epu32_mask, _mm512_loadu_si512, _mm512_set1_epi32};
        // SAFETY: an array of 64 bytes; the instructions are there, or the value would not be.
        let m = unsafe {
            let row = _mm512_loadu_si512(row.as_ptr().cast());
            _mm512_cmplt_epu32_mask(row, _mm512_set1_epi32(v as i32))
        };
        m.count_ones()
    }
    #[inline(always)]
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32 {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi16_mask, _mm_loadu_si128, _mm_set1_epi16,
        };
        // SAFETY: an array of 16 bytes; the instructions are there, or the value would not be.
        let m = unsafe {
            let tags = _mm_loadu_si128(tags.as_ptr().cast());
            let tags = _mm_and_si128(tags, _mm_set1_epi16(!1));
            _mm_cmpeq_epi16_mask(tags, _mm_set1_epi16(tag as i16))
        };
        m.into()
    }
    #[inline(always)]
    fn turned_by(self, v: Self::V, turn: &[u8; WINDOW]) -> Self::V {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_shuffle_epi8(v, self.load(turn)) }
    }
    #[inline(always)]
    fn odd(self, tags: &[u16; TAGS]) -> u32 {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_set1_epi16, _mm_test_epi16_mask};
        // SAFETY: as above.
        let m = unsafe {
            let tags = _mm_loadu_si128(tags.as_ptr().cast());
            _mm_test_epi16_mask(tags, _mm_set1_epi16(1))
        };
        m.into()
    }
    #[inline(always)]
    fn zeroes_checksum(self, entry: &[u64; 8], x: u16) -> u32 {
        use std::arch::x86_64::{
            _mm512_loadu_si512, _mm512_mask_cmpeq_epi16_mask, _mm512_mask_test_epi16_mask,
            _mm512_set1_epi16,
        };
        let [a, b, c] = crate::simd::ZERO_SUM_WORDS;
        let zero_sums = 0xf << (a * 4) | 0xf << (b * 4) | 0xf << (c * 4);
        // SAFETY: an array of 64 bytes; the instructions are there, or the value would not be.
        unsafe {
            let entry = _mm512_loadu_si512(entry.as_ptr().cast());
            let some = _mm512_mask_test_epi16_mask(zero_sums, entry, entry);
            _mm512_mask_cmpeq_epi16_mask(some, entry, _mm512_set1_epi16(x as i16))
        }
    }

    // as with AVX2, which is there, too
    type ZeroSums = __m256i;
    #[inline(always)]
    fn no_zero_sums(self) -> __m256i {
        self.narrow().no_zero_sums()
    }
    #[inline(always)]
    fn more_zero_sums(self, so_far: __m256i, entry: &[u64; 8], x: u16) -> __m256i {
        self.narrow().more_zero_sums(so_far, entry, x)
    }
    #[inline(always)]
    fn any_zero_sums(self, of: __m256i) -> bool {
        self.narrow().any_zero_sums(of)
    }

    type N = std::arch::x86_64::__m512i;
    #[inline(always)]
    fn all(self, v: u32) -> Self::N {
        // SAFETY: the instructions are there, or the value would not be; this goes for all of the following.
        unsafe { std::arch::x86_64::_mm512_set1_epi32(v as i32) }
    }
    #[inline(always)]
    fn get(self, from: &Lanes) -> Self::N {
        // SAFETY: an array of 64 bytes, on a cache line.
        unsafe { std::arch::x86_64::_mm512_load_si512(from.0.as_ptr().cast()) }
    }
    #[inline(always)]
    fn put(self, v: Self::N, to: &mut Lanes) {
        // SAFETY: an array of 64 bytes, on a cache line.
        unsafe { std::arch::x86_64::_mm512_store_si512(to.0.as_mut_ptr().cast(), v) }
    }
    #[inline(always)]
    fn plus(self, a: Self::N, b: Self::N) -> Self::N {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: Self::N, b: Self::N) -> Self::N {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn times(self, a: Self::N, b: Self::N) -> Self::N {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn and(self, a: Self::N, b: Self::N) -> Self::N {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn right(self, a: Self::N, by: u32) -> Self::N {
        // SAFETY: as above.
        unsafe {
            let by = std::arch::x86_64::_mm_cvtsi32_si128((by & 31) as i32);
            std::arch::x86_64::_mm512_srl_epi32(a, by)
        }
    }
    #[inline(always)]
    fn over(self, a: Self::N, b: Self::N) -> u16 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_cmpgt_epu32_mask(a, b) }
    }
    type M = u16;
    #[inline(always)]
    fn every(self) -> u16 {
        u16::MAX
    }
    #[inline(always)]
    fn any_among(self, some: u16) -> bool {
        some != 0
    }
    #[inline(always)]
    fn equal_among(self, some: u16, v: Self::N, value: u32) -> u16 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_mask_cmpeq_epu32_mask(some, v, self.all(value)) }
    }
    #[inline(always)]
    fn add_above(self, n: Self::N, some: u16, v: Self::N, (above, more): (u32, u32)) -> Self::N {
        use std::arch::x86_64::{_mm512_mask_add_epi32, _mm512_mask_cmpgt_epu32_mask};
        // SAFETY: as above.
        unsafe {
            let some = _mm512_mask_cmpgt_epu32_mask(some, v, self.all(above));
            _mm512_mask_add_epi32(n, some, n, self.all(more))
        }
    }
    #[inline(always)]
    fn rank(self, v: Self::N, ends: &IntervalEnds) -> Self::N {
        match ends.rows {
            1 => self.search::<1>(v, ends),
            2 => self.search::<2>(v, ends),
            4 => self.search::<4>(v, ends),
            _ => self.search::<8>(v, ends),
        }
    }
    #[inline(always)]
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4] {
        use std::arch::x86_64::{_mm256_loadu_si256, _mm512_castsi256_si512, _mm512_inserti64x4};
        let mut rows = [self.all(0); 8];
        let h = windows;
        for i in 0..8 {
            // SAFETY: as above; loads are of 32 bytes each, of slices that have as many.
            unsafe {
                let low = _mm256_loadu_si256(h[i][HEAD_AT..HEAD_AT + HEAD].as_ptr().cast());
                let high = _mm256_loadu_si256(h[i + 8][HEAD_AT..HEAD_AT + HEAD].as_ptr().cast());
                let both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
                rows[i] = self.swapped(both);
            }
        }
        self.turned(rows)
    }
    #[inline(always)]
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4] {
        use std::arch::x86_64::{
            _mm_loadu_si128, _mm256_castsi128_si256, _mm256_inserti128_si256,
            _mm512_castsi256_si512, _mm512_inserti64x4,
        };
        const HALF: usize = HEAD / 2;
        let mut rows = [self.all(0); 8];
        let h = windows;
        for i in 0..8 {
            // SAFETY: as above; loads are of 16 bytes each, of slices that have as many.
            unsafe {
                let a = _mm_loadu_si128(h[i][EDGES.0..EDGES.0 + HALF].as_ptr().cast());
                let b = _mm_loadu_si128(h[i][EDGES.1..EDGES.1 + HALF].as_ptr().cast());
                let c = _mm_loadu_si128(h[i + 8][EDGES.0..EDGES.0 + HALF].as_ptr().cast());
                let d = _mm_loadu_si128(h[i + 8][EDGES.1..EDGES.1 + HALF].as_ptr().cast());
                let low = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
                let high = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
                rows[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
            }
        }
        self.turned(rows)
    }
    #[inline(always)]
    fn swapped(self, v: Self::N) -> Self::N {
        use std::arch::x86_64::{_mm_set_epi8, _mm512_broadcast_i32x4, _mm512_shuffle_epi8};
        // SAFETY: as above.
        unsafe {
            let swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
            _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(swap))
        }
    }
    #[inline(always)]
    fn first_bits(self, v: Self::N, n: Self::N) -> Self::N {
        use std::arch::x86_64::{_mm512_andnot_si512, _mm512_max_epi32, _mm512_srlv_epi32};
        // SAFETY: as above. What is shifted by 32 and more is zero.
        let shifted = |n| unsafe { _mm512_srlv_epi32(self.all(u32::MAX), n) };
        unsafe { _mm512_andnot_si512(shifted(_mm512_max_epi32(n, self.all(0))), v) }
    }
    #[inline(always)]
    fn unlike(self, so_far: Self::N, v: Self::N, mask: u32, value: u32) -> Self::N {
        use std::arch::x86_64::{_mm512_and_si512, _mm512_ternarylogic_epi32};
        let (mask, value) = (self.all(mask), self.all(value));
        // SAFETY: as above. The number is the truth table of a | (b ^ c).
        unsafe { _mm512_ternarylogic_epi32(so_far, _mm512_and_si512(v, mask), value, 0xf6) }
    }
    #[inline(always)]
    fn beyond(self, so_far: Self::N, v: Self::N, mask: u32, lo: u32, span: u32) -> Self::N {
        use std::arch::x86_64::{
            _mm512_and_si512, _mm512_or_si512, _mm512_sub_epi8, _mm512_subs_epu8,
        };
        let (mask, lo, span) = (self.all(mask), self.all(lo), self.all(span));
        // SAFETY: as above.
        unsafe {
            let over = _mm512_sub_epi8(_mm512_and_si512(v, mask), lo);
            _mm512_or_si512(so_far, _mm512_subs_epu8(over, span))
        }
    }
    #[inline(always)]
    fn zero(self, v: Self::N) -> u16 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_testn_epi32_mask(v, v) }
    }
    #[inline(always)]
    fn pick(self, from: &[u32], at: Self::N) -> Self::N {
        use std::arch::x86_64::{
            _mm512_i32gather_epi32, _mm512_maskz_loadu_epi32, _mm512_min_epu32,
            _mm512_permutex2var_epi32,
        };
        let Some(last) = from.len().checked_sub(1) else {
            return self.all(0);
        };
        let last = last.min(i32::MAX as usize) as u32;
        // SAFETY: as above; no place is beyond the last, and nothing is read there.
        unsafe {
            let at = _mm512_min_epu32(at, self.all(last));
            if last < 32 {
                // from registers: a gather is a microprogram on some processors
                let there = u32::MAX >> (31 - last);
                let second = from.get(ROW..).map_or(from.as_ptr(), <[u32]>::as_ptr);
                let a = _mm512_maskz_loadu_epi32(there as u16, from.as_ptr().cast());
                let b = _mm512_maskz_loadu_epi32((there >> ROW) as u16, second.cast());
                return _mm512_permutex2var_epi32(a, at, b);
            }
            _mm512_i32gather_epi32(at, from.as_ptr().cast(), 4)
        }
    }
    #[inline(always)]
    fn put_some(self, v: Self::N, which: u16, to: &mut [u32; ROW]) {
        // SAFETY: as above; an array of 64 bytes.
        unsafe {
            std::arch::x86_64::_mm512_mask_storeu_epi32(to.as_mut_ptr().cast(), which, v);
        }
    }
    #[inline(always)]
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]) {
        use std::arch::x86_64::{_mm256_mask_storeu_epi16, _mm256_set1_epi16};
        // SAFETY: as above; an array of 32 bytes.
        unsafe {
            _mm256_mask_storeu_epi16(to.as_mut_ptr().cast(), which, _mm256_set1_epi16(v as i16));
        }
    }
    #[inline(always)]
    fn same(self, of: &[u32; GROUP], v: u32) -> u64 {
        let v = self.all(v);
        let mut same = 0;
        let rows = of.as_chunks::<ROW>().0;
        let mut i = 0;
        // Loops over indices: adapters may not be inlined. Bound: the group, here and in the following
        while i < rows.len() {
            // SAFETY: as above; an array of 64 bytes.
            let m = unsafe {
                let x = std::arch::x86_64::_mm512_loadu_si512(rows[i].as_ptr().cast());
                std::arch::x86_64::_mm512_cmpeq_epu32_mask(x, v)
            };
            same |= u64::from(m) << (i * ROW);
            i += 1;
        }
        same
    }
    #[inline(always)]
    fn sum(self, of: &[u32; GROUP], which: u64) -> u32 {
        use std::arch::x86_64::{
            _mm512_loadu_si512, _mm512_mask_add_epi32, _mm512_reduce_add_epi32,
        };
        let mut sum = self.all(0);
        let rows = of.as_chunks::<ROW>().0;
        let mut i = 0;
        while i < rows.len() {
            let some = (which >> (i * ROW)) as u16;
            // SAFETY: as above.
            sum = unsafe {
                let x = _mm512_loadu_si512(rows[i].as_ptr().cast());
                _mm512_mask_add_epi32(sum, some, sum, x)
            };
            i += 1;
        }
        // SAFETY: as above.
        unsafe { _mm512_reduce_add_epi32(sum) as u32 }
    }
    #[inline(always)]
    fn set(self, v: u32, which: u64, to: &mut [u32; GROUP]) {
        let v = self.all(v);
        let rows = to.as_chunks_mut::<ROW>().0;
        let mut i = 0;
        while i < rows.len() {
            self.put_some(v, (which >> (i * ROW)) as u16, &mut rows[i]);
            i += 1;
        }
    }
    #[inline(always)]
    fn choose(self, a: Self::N, b: Self::N, which: u16) -> Self::N {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_mm512_mask_mov_epi32(a, which, b) }
    }
    #[inline(always)]
    fn halves(self, v: Self::N, to: &mut [u16; ROW]) {
        use std::arch::x86_64::{_mm256_storeu_si256, _mm512_cvtepi32_epi16};
        // SAFETY: as above; an array of 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(v)) };
    }
    #[inline(always)]
    fn pairs(self, of: &[Self::N; 4], to: &mut [[u64; 2]; ROW]) {
        let rows = self.rows(*of);
        for (to, row) in to.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
            // SAFETY: as above; an array of 64 bytes.
            unsafe { std::arch::x86_64::_mm512_storeu_si512(to.as_mut_ptr().cast(), row) };
        }
    }
    type H = hash::Sums;
    #[inline(always)]
    fn product(self, a: Self::N, b: Self::N) -> Self::H {
        use std::arch::x86_64::{_mm512_mul_epu32, _mm512_srli_epi64};
        // SAFETY: as above.
        unsafe {
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            (_mm512_mul_epu32(a, b), odd)
        }
    }
    #[inline(always)]
    fn sum_of(self, a: Self::H, b: Self::H) -> Self::H {
        use std::arch::x86_64::_mm512_add_epi64;
        // SAFETY: as above.
        unsafe { (_mm512_add_epi64(a.0, b.0), _mm512_add_epi64(a.1, b.1)) }
    }
    #[inline(always)]
    fn mixed_hashes(self, h: Self::H, by: ([u64; 2], u32), to: Hashes<'_>) {
        self.mix_sums(h, by, to);
    }
}
