//! With AVX2: sixteen numbers, or a packet's first 64 bytes, in two registers.
//!
//! What AVX-512 has masks for is said here with registers full of ones and zeros. Numbers without a sign cannot be compared with one another, but for being equal: `a`
//! is at most `b` where the lesser one of both is `a`.
#![allow(unsafe_code)]

/// The same for both halves. A macro: closures may not be inlined, and would be compiled without these instructions, and call each of them.
macro_rules! both {
    ($f:ident($($v:expr),*)) => {
        Two($f($($v.0),*), $f($($v.1),*))
    };
}

mod half;

use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::hash::tag;
use crate::simd::intervals::IntervalEnds;
use crate::simd::window_rewrite::Operands;
use crate::simd::window_rewrite::{NEAR, WindowRewrite};
use crate::simd::{EDGES, HEAD, HEAD_AT, Hashes, Lanes, ROW, TAGS, Wide, ZERO_SUM_WORDS};
use std::arch::x86_64::{
    __m256i, _mm_and_si128, _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_load_si128, _mm_loadu_si128,
    _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16, _mm_setzero_si128, _mm_slli_epi16,
    _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_epi8,
    _mm256_broadcastsi128_si256, _mm256_cmpeq_epi16, _mm256_cmpeq_epi32, _mm256_i32gather_epi32,
    _mm256_loadu_si256, _mm256_max_epi32, _mm256_max_epu8, _mm256_max_epu16, _mm256_min_epu32,
    _mm256_movemask_epi8, _mm256_mullo_epi32, _mm256_or_si256, _mm256_packus_epi32,
    _mm256_permute4x64_epi64, _mm256_set1_epi16, _mm256_shuffle_epi8, _mm256_srl_epi32,
    _mm256_srlv_epi32, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_epi32, _mm256_subs_epu8,
    _mm256_testz_si256, _mm256_xor_si256,
};

/// With AVX2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

/// Two registers: the first half of numbers or bytes, and the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Two(__m256i, __m256i);

/// Bytes, and numbers, of a half.
const HALF: usize = NEAR;
const EIGHT: usize = ROW / 2;

impl Avx2 {
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    pub unsafe fn new() -> Avx2 {
        Avx2(())
    }

    /// If this processor has it.
    #[cfg(test)]
    pub fn found() -> Option<Avx2> {
        use crate::simd::dispatch::Isa;
        (Isa::found() >= Isa::Avx2).then_some(Avx2(()))
    }
}

impl Wide for Avx2 {
    type V = Two;
    #[inline(always)]
    fn load(self, w: &[u8; WINDOW]) -> Two {
        Two(self.near(w), self.far(w))
    }
    #[inline(always)]
    fn inside(self, w: Two, mask: &[u8; WINDOW], lo: &[u8; WINDOW], span: &[u8; WINDOW]) -> bool {
        let (mask, lo, span) = (self.load(mask), self.load(lo), self.load(span));
        // SAFETY: the instructions are there, or the value would not be; this goes for all of the following.
        unsafe {
            let w = both!(_mm256_and_si256(w, mask));
            let w = both!(_mm256_sub_epi8(w, lo));
            let w = both!(_mm256_subs_epu8(w, span));
            let beyond = _mm256_or_si256(w.0, w.1);
            _mm256_testz_si256(beyond, beyond) == 1
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
        let (mask, lo, span) = (self.load(mask), self.load(lo), self.load(span));
        let mut most = Two(self.none(), self.none());
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let w = self.load(windows[i]);
            // SAFETY: as above.
            unsafe {
                let w = both!(_mm256_and_si256(w, mask));
                let w = both!(_mm256_sub_epi8(w, lo));
                most = both!(_mm256_max_epu8(most, w));
            }
        }
        // SAFETY: as above.
        unsafe {
            let beyond = both!(_mm256_subs_epu8(most, span));
            let beyond = _mm256_or_si256(beyond.0, beyond.1);
            _mm256_testz_si256(beyond, beyond) == 1
        }
    }
    #[inline(always)]
    fn all_same(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        let (mask, bits) = (self.load(mask), self.load(bits));
        let mut other = Two(self.none(), self.none());
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let w = self.load(windows[i]);
            // SAFETY: as above.
            unsafe {
                let unlike = both!(_mm256_xor_si256(w, bits));
                other = both!(_mm256_or_si256(other, unlike));
            }
        }
        // SAFETY: as above.
        unsafe {
            let other = both!(_mm256_and_si256(other, mask));
            let other = _mm256_or_si256(other.0, other.1);
            _mm256_testz_si256(other, other) == 1
        }
    }
    #[inline(always)]
    fn all_same_near(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        let bits = self.near(bits);
        // two, which do not wait for each other
        let mut other = [self.none(); 2];
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            // SAFETY: as above.
            unsafe {
                let unlike = _mm256_xor_si256(self.near(windows[i]), bits);
                other[i % 2] = _mm256_or_si256(other[i % 2], unlike);
            }
        }
        // SAFETY: as above.
        unsafe { _mm256_testz_si256(_mm256_or_si256(other[0], other[1]), self.near(mask)) == 1 }
    }
    #[inline(always)]
    fn change(
        self,
        w: Two,
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    ) {
        let near = self.changed(w.0, self.near(keep), self.near(set), self.near(sub));
        let far = self.changed(w.1, self.far(keep), self.far(set), self.far(sub));
        self.store(Two(near, far), to);
    }
    type LoadedTemplate<'a> = &'a WindowRewrite;
    #[inline(always)]
    fn take(self, template: &WindowRewrite) -> &WindowRewrite {
        template
    }
    /// As with AVX-512: all pairs of bytes are sums at once.
    #[inline(always)]
    fn rewrite(self, v: Two, template: &WindowRewrite, operands: &Operands, to: &mut [u8; WINDOW]) {
        let (adds, vars) = (self.load(&template.adds), self.load(&template.vars_at));
        // SAFETY: as above; sixteen bytes, aligned to as many.
        unsafe {
            let operands = _mm256_broadcastsi128_si256(_mm_load_si128(operands.0.as_ptr().cast()));
            let operands = Two(operands, operands);
            let less = both!(_mm256_shuffle_epi8(operands, adds));
            let unsummed = Two(
                self.pairs_of_bytes(template.unsummed as u16),
                self.pairs_of_bytes((template.unsummed >> ROW) as u16),
            );
            let zero = Two(self.none(), self.none());
            let zero = both!(_mm256_cmpeq_epi16(v, zero));
            let unsummed = both!(_mm256_and_si256(unsummed, zero));
            let less = both!(_mm256_andnot_si256(unsummed, less));
            let (near, far) = (self.less(v.0, less.0), self.less(v.1, less.1));
            let (keep, set, sub) = (&template.keep, &template.set, &template.sub);
            let near = self.changed(near, self.near(keep), self.near(set), self.near(sub));
            let far = self.changed(far, self.far(keep), self.far(set), self.far(sub));
            let vars = both!(_mm256_shuffle_epi8(operands, vars));
            let x = Two(near, far);
            self.store(both!(_mm256_or_si256(x, vars)), to);
        }
    }
    #[inline(always)]
    fn rewrite_near(self, template: &WindowRewrite, w: &mut [u8; WINDOW]) {
        let (keep, set) = (self.near(&template.keep), self.near(&template.set));
        let sub = self.near(&template.sub);
        // SAFETY: as above; arrays of 32 bytes.
        unsafe {
            let less = _mm256_loadu_si256(template.less.as_ptr().cast());
            let x = self.less(self.near(w), less);
            _mm256_storeu_si256(w.as_mut_ptr().cast(), self.changed(x, keep, set, sub));
        }
    }
    #[inline(always)]
    fn above(self, v: u32, row: &[u32; ROW]) -> u32 {
        let v = self.all(v);
        // SAFETY: as above; halves of sixteen numbers.
        let row = unsafe {
            Two(
                _mm256_loadu_si256(row[..EIGHT].as_ptr().cast()),
                _mm256_loadu_si256(row[EIGHT..].as_ptr().cast()),
            )
        };
        self.over(v, row).count_ones()
    }
    #[inline(always)]
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32 {
        // SAFETY: as above; an array of 16 bytes.
        let m = unsafe {
            let tags = _mm_loadu_si128(tags.as_ptr().cast());
            let tags = _mm_and_si128(tags, _mm_set1_epi16(!1));
            let same = _mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128()))
        };
        m as u32
    }
    #[inline(always)]
    fn turned_by(self, v: Two, turn: &[u8; WINDOW]) -> Two {
        let turn = self.load(turn);
        // SAFETY: as above.
        unsafe { both!(_mm256_shuffle_epi8(v, turn)) }
    }
    #[inline(always)]
    fn odd(self, tags: &[u16; TAGS]) -> u32 {
        // SAFETY: as above; an array of 16 bytes.
        let m = unsafe {
            let tags = _mm_loadu_si128(tags.as_ptr().cast());
            let signs = _mm_slli_epi16::<15>(tags);
            _mm_movemask_epi8(_mm_packs_epi16(signs, _mm_setzero_si128()))
        };
        m as u32
    }
    #[inline(always)]
    fn zeroes_checksum(self, entry: &[u64; 8], x: u16) -> u32 {
        const WORDS: usize = 4;
        let mut zero_sums = 0;
        for d in ZERO_SUM_WORDS {
            zero_sums |= 0xff << ((d - WORDS) * 8);
        }
        // SAFETY: as above; the second half of 64 bytes.
        let same = unsafe {
            let entry = _mm256_loadu_si256(entry[WORDS..].as_ptr().cast());
            let same = _mm256_cmpeq_epi16(entry, _mm256_set1_epi16(x as i16));
            _mm256_movemask_epi8(same) as u32
        };
        same & zero_sums & u32::from(x != 0).wrapping_neg()
    }

    type ZeroSums = __m256i;
    #[inline(always)]
    fn no_zero_sums(self) -> __m256i {
        self.none()
    }
    #[inline(always)]
    fn more_zero_sums(self, so_far: __m256i, entry: &[u64; 8], x: u16) -> __m256i {
        // SAFETY: as above; the second half of 64 bytes.
        unsafe {
            let entry = _mm256_loadu_si256(entry[ZERO_SUM_WORDS[0]..].as_ptr().cast());
            // not zero, which entries have where they have no danger
            let x = _mm256_max_epu16(_mm256_set1_epi16(x as i16), _mm256_set1_epi16(1));
            _mm256_or_si256(so_far, _mm256_cmpeq_epi16(entry, x))
        }
    }
    #[inline(always)]
    fn any_zero_sums(self, of: __m256i) -> bool {
        let mut zero_sums = 0u32;
        for d in ZERO_SUM_WORDS {
            zero_sums |= 0xff << ((d - ZERO_SUM_WORDS[0]) * 8);
        }
        // SAFETY: as above.
        unsafe { _mm256_movemask_epi8(of) as u32 & zero_sums != 0 }
    }

    type N = Two;
    #[inline(always)]
    fn all(self, v: u32) -> Two {
        Two(self.eight(v), self.eight(v))
    }
    #[inline(always)]
    fn get(self, from: &Lanes) -> Two {
        Two(self.eight_of(from, 0), self.eight_of(from, EIGHT))
    }
    #[inline(always)]
    fn put(self, v: Two, to: &mut Lanes) {
        let (first, second) = to.0.split_at_mut(EIGHT);
        // SAFETY: as above; halves of sixteen numbers.
        unsafe {
            _mm256_storeu_si256(first.as_mut_ptr().cast(), v.0);
            _mm256_storeu_si256(second.as_mut_ptr().cast(), v.1);
        }
    }
    #[inline(always)]
    fn plus(self, a: Two, b: Two) -> Two {
        // SAFETY: as above.
        unsafe { both!(_mm256_add_epi32(a, b)) }
    }
    #[inline(always)]
    fn minus(self, a: Two, b: Two) -> Two {
        // SAFETY: as above.
        unsafe { both!(_mm256_sub_epi32(a, b)) }
    }
    #[inline(always)]
    fn times(self, a: Two, b: Two) -> Two {
        // SAFETY: as above.
        unsafe { both!(_mm256_mullo_epi32(a, b)) }
    }
    #[inline(always)]
    fn and(self, a: Two, b: Two) -> Two {
        // SAFETY: as above.
        unsafe { both!(_mm256_and_si256(a, b)) }
    }
    #[inline(always)]
    fn right(self, a: Two, by: u32) -> Two {
        // SAFETY: as above.
        unsafe {
            let by = _mm_cvtsi32_si128((by & 31) as i32);
            Two(_mm256_srl_epi32(a.0, by), _mm256_srl_epi32(a.1, by))
        }
    }
    #[inline(always)]
    fn over(self, a: Two, b: Two) -> u16 {
        !self.bits(Two(self.at_most(a.0, b.0), self.at_most(a.1, b.1)))
    }
    /// All ones for those that are there, zeros for the others.
    type M = Two;
    #[inline(always)]
    fn every(self) -> Two {
        self.all(u32::MAX)
    }
    #[inline(always)]
    fn any_among(self, some: Two) -> bool {
        self.bits(some) != 0
    }
    #[inline(always)]
    fn equal_among(self, some: Two, v: Two, value: u32) -> Two {
        let value = self.all(value);
        // SAFETY: as above.
        unsafe {
            let same = both!(_mm256_cmpeq_epi32(v, value));
            both!(_mm256_and_si256(some, same))
        }
    }
    #[inline(always)]
    fn add_above(self, n: Two, some: Two, v: Two, (above, more): (u32, u32)) -> Two {
        let (above, more) = (self.all(above), self.all(more));
        let not = Two(self.at_most(v.0, above.0), self.at_most(v.1, above.1));
        // SAFETY: as above.
        unsafe {
            let more = both!(_mm256_and_si256(some, more));
            let more = both!(_mm256_andnot_si256(not, more));
            both!(_mm256_add_epi32(n, more))
        }
    }
    #[inline(always)]
    fn rank(self, v: Two, ends: &IntervalEnds) -> Two {
        match ends.rows {
            1 => Two(self.search::<1>(v.0, ends), self.search::<1>(v.1, ends)),
            2 => Two(self.search::<2>(v.0, ends), self.search::<2>(v.1, ends)),
            4 => Two(self.search::<4>(v.0, ends), self.search::<4>(v.1, ends)),
            _ => Two(self.search::<8>(v.0, ends), self.search::<8>(v.1, ends)),
        }
    }
    #[inline(always)]
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Two; HEAD / 4] {
        self.eight_words::<true>(windows, (HEAD_AT, HEAD_AT + HEAD / 2))
    }
    #[inline(always)]
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Two; HEAD / 4] {
        self.eight_words::<false>(windows, EDGES)
    }
    #[inline(always)]
    fn swapped(self, v: Two) -> Two {
        let swap = Two(self.swap(), self.swap());
        // SAFETY: as above.
        unsafe { both!(_mm256_shuffle_epi8(v, swap)) }
    }
    #[inline(always)]
    fn first_bits(self, v: Two, n: Two) -> Two {
        let (none, all) = (Two(self.none(), self.none()), self.all(u32::MAX));
        // SAFETY: as above. What is shifted by 32 and more is zero.
        unsafe {
            let n = both!(_mm256_max_epi32(n, none));
            let others = both!(_mm256_srlv_epi32(all, n));
            both!(_mm256_andnot_si256(others, v))
        }
    }
    #[inline(always)]
    fn unlike(self, so_far: Two, v: Two, mask: u32, value: u32) -> Two {
        let (mask, value) = (self.all(mask), self.all(value));
        // SAFETY: as above.
        unsafe {
            let v = both!(_mm256_and_si256(v, mask));
            let v = both!(_mm256_xor_si256(v, value));
            both!(_mm256_or_si256(so_far, v))
        }
    }
    #[inline(always)]
    fn beyond(self, so_far: Two, v: Two, mask: u32, lo: u32, span: u32) -> Two {
        let (mask, lo, span) = (self.all(mask), self.all(lo), self.all(span));
        // SAFETY: as above.
        unsafe {
            let v = both!(_mm256_and_si256(v, mask));
            let v = both!(_mm256_sub_epi8(v, lo));
            let v = both!(_mm256_subs_epu8(v, span));
            both!(_mm256_or_si256(so_far, v))
        }
    }
    #[inline(always)]
    fn zero(self, v: Two) -> u16 {
        let none = Two(self.none(), self.none());
        // SAFETY: as above.
        self.bits(unsafe { both!(_mm256_cmpeq_epi32(v, none)) })
    }
    #[inline(always)]
    fn pick(self, from: &[u32], at: Two) -> Two {
        let Some(last) = from.len().checked_sub(1) else {
            return self.all(0);
        };
        let last = last.min(i32::MAX as usize) as u32;
        let most = self.all(last);
        // SAFETY: as above; no place is beyond the last, and nothing is read there.
        unsafe {
            let at = both!(_mm256_min_epu32(at, most));
            if last >= 32 {
                let from = from.as_ptr().cast();
                return Two(
                    _mm256_i32gather_epi32::<4>(from, at.0),
                    _mm256_i32gather_epi32::<4>(from, at.1),
                );
            }
            // from registers: a gather is a microprogram on some processors
            let a = Two(self.those(from, 0), self.those(from, EIGHT));
            if last < ROW as u32 {
                return Two(self.of_sixteen(a, at.0), self.of_sixteen(a, at.1));
            }
            let b = Two(self.those(from, ROW), self.those(from, ROW + EIGHT));
            Two(self.of_more(a, b, at.0), self.of_more(a, b, at.1))
        }
    }
    #[inline(always)]
    fn put_some(self, v: Two, which: u16, to: &mut [u32; ROW]) {
        // not a store under a mask, which is a microprogram on some processors
        let v = self.choose(self.get(&Lanes(*to)), v, which);
        let mut all = Lanes([0; ROW]);
        self.put(v, &mut all);
        *to = all.0;
    }
    #[inline(always)]
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]) {
        let which = self.pairs_of_bytes(which);
        // SAFETY: as above; an array of 32 bytes.
        unsafe {
            let was = _mm256_loadu_si256(to.as_ptr().cast());
            let is = _mm256_blendv_epi8(was, _mm256_set1_epi16(v as i16), which);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), is);
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
            let x = self.get(&Lanes(rows[i]));
            // SAFETY: as above.
            let zero = unsafe { both!(_mm256_xor_si256(x, v)) };
            same |= u64::from(self.zero(zero)) << (i * ROW);
            i += 1;
        }
        same
    }
    #[inline(always)]
    fn sum(self, of: &[u32; GROUP], which: u64) -> u32 {
        let (mut sum, none) = (self.all(0), self.all(0));
        let rows = of.as_chunks::<ROW>().0;
        let mut i = 0;
        while i < rows.len() {
            let some = self.choose(none, self.get(&Lanes(rows[i])), (which >> (i * ROW)) as u16);
            sum = self.plus(sum, some);
            i += 1;
        }
        let mut all = Lanes([0; ROW]);
        self.put(sum, &mut all);
        all.0.iter().fold(0, |a, b| a.wrapping_add(*b))
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
    fn choose(self, a: Two, b: Two, which: u16) -> Two {
        let which = self.ingress(which);
        // SAFETY: as above.
        unsafe { both!(_mm256_blendv_epi8(a, b, which)) }
    }
    #[inline(always)]
    fn halves(self, v: Two, to: &mut [u16; ROW]) {
        let v = self.and(v, self.all(0xffff));
        // SAFETY: as above; an array of 32 bytes.
        unsafe {
            // quarters 0 and 2 are the first half's
            let v = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(v.0, v.1));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), v);
        }
    }
    #[inline(always)]
    fn pairs(self, of: &[Two; 4], to: &mut [[u64; 2]; ROW]) {
        self.put_rows(*of, to);
    }
    /// Of the first half's packets of even numbers, and of odd ones, and of the second half's.
    type H = [__m256i; 4];
    #[inline(always)]
    fn product(self, a: Two, b: Two) -> [__m256i; 4] {
        let ([p, q], [r, s]) = (self.products(a.0, b.0), self.products(a.1, b.1));
        [p, q, r, s]
    }
    #[inline(always)]
    fn sum_of(self, [a, b, c, d]: [__m256i; 4], [p, q, r, s]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: as above.
        unsafe {
            [
                _mm256_add_epi64(a, p),
                _mm256_add_epi64(b, q),
                _mm256_add_epi64(c, r),
                _mm256_add_epi64(d, s),
            ]
        }
    }
    #[inline(always)]
    fn mixed_hashes(
        self,
        [a, b, c, d]: [__m256i; 4],
        by: ([u64; 2], u32),
        (to, tags, buckets): Hashes<'_>,
    ) {
        let (low, first) = self.eight_hashes([a, b], by);
        let (high, second) = self.eight_hashes([c, d], by);
        let all = to;
        let to = all.as_mut_ptr().cast::<__m256i>();
        let buckets = buckets.as_mut_ptr().cast::<__m256i>();
        // SAFETY: as above; stores are of 32 bytes each, of as many as the arrays have.
        unsafe {
            _mm256_storeu_si256(buckets, first);
            _mm256_storeu_si256(buckets.add(1), second);
            _mm256_storeu_si256(to, low[0]);
            _mm256_storeu_si256(to.add(1), low[1]);
            _mm256_storeu_si256(to.add(2), high[0]);
            _mm256_storeu_si256(to.add(3), high[1]);
        }
        let mut i = 0;
        while i < ROW {
            tags[i] = tag(all[i]);
            i += 1;
        }
    }
}
