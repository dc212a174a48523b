//! What is done for 64 bytes, for a row of numbers, or for sixteen packets at once: with AVX-512 in a few instructions, else in whatever the compiler makes
//! of it for the registers that there are ([`super::isa`]).
#![allow(unsafe_code)]

use super::guard::WINDOW;

/// Numbers of a row.
pub(super) const ROW: usize = 16;
/// Tags of a bucket.
pub(super) const TAGS: usize = 8;
/// Bytes of a header that are turned into columns.
pub(super) const HEAD: usize = 32;

/// Where a header begins that is turned into columns: behind addresses and type of Ethernet.
pub(super) const HEAD_AT: usize = 14;

/// Bytes before those columns and behind them that are turned into columns, too: where the first and the second half of them begin.
pub(super) const EDGES: (usize, usize) = (0, HEAD_AT + HEAD);

/// Sixteen numbers on a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Sixteen(pub [u32; ROW]);

/// Keeps a loop one of single steps. Where steps are few instructions, compilers turn several at a time into gathers of pointers and lengths, which
/// take several times as long as reading them one by one.
#[inline(always)]
pub(super) fn one_by_one() {
    // SAFETY: no instruction at all.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// The same number, in a register of its own. Answers of several comparisons would be put together into wide registers otherwise, one by one, to
/// be looked at together: it takes longer than the comparisons.
#[inline(always)]
pub(super) fn by_itself(v: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut v = v;
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) v, options(pure, nomem, nostack, preserves_flags));
        }
        v
    }
    #[cfg(not(target_arch = "x86_64"))]
    v
}

/// A place in a window with room for `N` bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct At<const N: usize>(u8);

impl<const N: usize> At<N> {
    /// The last one that there is.
    pub const LAST: At<N> = At((WINDOW - N) as u8);
    /// `None` where there is no room.
    pub fn of(at: usize) -> Option<At<N>> {
        (at + N <= WINDOW).then_some(At(at as u8))
    }
    pub fn place(self) -> usize {
        self.0.into()
    }
    /// The bytes that stand there.
    #[inline(always)]
    pub fn get(self, w: &[u8; WINDOW]) -> [u8; N] {
        // SAFETY: a place has room for `N` bytes in a window, or it would not have been made.
        unsafe { w.as_ptr().add(self.0.into()).cast::<[u8; N]>().read() }
    }
    #[inline(always)]
    pub fn put(self, w: &mut [u8; WINDOW], bytes: [u8; N]) {
        // SAFETY: as above.
        unsafe {
            w.as_mut_ptr()
                .add(self.0.into())
                .cast::<[u8; N]>()
                .write(bytes);
        }
    }
}

/// Which of an entry's words have what endangers its packets ([`super::way::Flow::danger`]).
pub(super) const DANGERS: [usize; 3] = [4, 6, 7];

/// A way to do it.
pub(super) trait Wide: Copy {
    /// 64 bytes in registers.
    type V: Copy;
    fn load(self, w: &[u8; WINDOW]) -> Self::V;
    /// Is each byte under its mask one of `lo` to `lo + span`? What a mask leaves out is 0 in both.
    fn inside(
        self,
        w: Self::V,
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool;
    /// Are sixteen packets' bytes so?
    fn all_inside(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool;
    /// Bits kept and bits set, then subtracted byte by byte.
    fn change(
        self,
        w: Self::V,
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    );
    /// How many numbers of a row `v` is above.
    fn above(self, v: u32, row: &[u32; ROW]) -> u32;
    /// Which tags are equal to this one, but for their low bits: a bit each. The tag's own low bit is not set.
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32;
    /// Which tags' low bits are set: a bit each.
    fn odd(self, tags: &[u16; TAGS]) -> u32;
    /// Is a quarter of one of an entry's words of [`DANGERS`] this one?
    fn endangers(self, entry: &[u64; 8], x: u16) -> bool;

    /// Sixteen numbers in registers.
    type N: Copy;
    fn all(self, v: u32) -> Self::N;
    fn get(self, from: &Sixteen) -> Self::N;
    fn put(self, v: Self::N, to: &mut Sixteen);
    /// Sums, without carry.
    fn plus(self, a: Self::N, b: Self::N) -> Self::N;
    /// Differences, without borrow.
    fn minus(self, a: Self::N, b: Self::N) -> Self::N;
    /// Products' low halves.
    fn times(self, a: Self::N, b: Self::N) -> Self::N;
    fn and(self, a: Self::N, b: Self::N) -> Self::N;
    /// Shifted right by `by`, which is below 32.
    fn right(self, a: Self::N, by: u32) -> Self::N;
    /// Where `a` is above `b`: a bit each.
    fn over(self, a: Self::N, b: Self::N) -> u16;
    /// How many of these numbers each is above; they ascend, and the last one is the largest there is. Rows: one, two, four or eight; of others, the answer
    /// means nothing. `heads`: the last number of each row.
    fn rank(self, v: Self::N, rows: &[Sixteen], heads: &Sixteen) -> Self::N;
    /// The big-endian words of sixteen headers, from [`HEAD_AT`] on: one column for each.
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4];
    /// The words of what is around them, little-endian: four from the first place that [`EDGES`] says, and four from the second.
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4];
    /// `so_far`, with bits set where `v` under the mask is not this value.
    fn unlike(self, so_far: Self::N, v: Self::N, mask: u32, value: u32) -> Self::N;
    /// `so_far`, with bits set where any byte of `v` under the mask is not one of `lo` to `lo + span`.
    fn beyond(self, so_far: Self::N, v: Self::N, mask: u32, lo: u32, span: u32) -> Self::N;
    /// Which are zero: a bit each.
    fn zero(self, v: Self::N) -> u16;
    /// Those of these numbers that stand at these places; of places beyond the last, the last one. There is one at least.
    fn pick(self, from: &[u32], at: Self::N) -> Self::N;
    /// Those whose bit is set are written down.
    fn put_some(self, v: Self::N, which: u16, to: &mut [u32; ROW]);
    /// The same number, likewise.
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]);
    /// Adds numbers of 32 bits to such of 64.
    fn add(self, to: &mut [u64; 4], v: &[u32; 4]);
    /// For each: one, these two, and zero.
    fn bills(self, a: Self::N, b: Self::N, to: &mut [[u32; 4]; ROW]);
}

/// Whatever the processor is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Any;

impl Wide for Any {
    type V = [u8; WINDOW];
    #[inline(always)]
    fn load(self, w: &[u8; WINDOW]) -> [u8; WINDOW] {
        *w
    }
    #[inline(always)]
    fn inside(
        self,
        w: [u8; WINDOW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        // Byte by byte and by index: vectors straight from memory. Words put together first would be stored one by one and loaded as
        // vectors again, which stalls.
        let mut over = 0;
        #[allow(clippy::needless_range_loop)]
        for i in 0..WINDOW {
            over |= (w[i] & mask[i]).wrapping_sub(lo[i]).saturating_sub(span[i]);
        }
        over == 0
    }
    #[inline(always)]
    fn all_inside(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        let mut all = true;
        for w in windows {
            all &= self.inside(**w, mask, lo, span);
        }
        all
    }
    #[inline(always)]
    fn change(
        self,
        w: [u8; WINDOW],
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    ) {
        for i in 0..WINDOW {
            to[i] = (w[i] & keep[i] | set[i]).wrapping_sub(sub[i]);
        }
    }
    #[inline(always)]
    fn above(self, v: u32, row: &[u32; ROW]) -> u32 {
        row.iter().map(|x| u32::from(v > *x)).sum()
    }
    #[inline(always)]
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32 {
        let mut m = 0;
        for (i, t) in tags.iter().enumerate() {
            m |= u32::from(t & !1 == tag) << i;
        }
        m
    }
    #[inline(always)]
    fn odd(self, tags: &[u16; TAGS]) -> u32 {
        let mut m = 0;
        for (i, t) in tags.iter().enumerate() {
            m |= u32::from(t & 1) << i;
        }
        m
    }
    #[inline(always)]
    fn endangers(self, entry: &[u64; 8], x: u16) -> bool {
        let [a, b, c] = DANGERS;
        self.among(&[entry[a], entry[b], entry[c]], x)
    }

    type N = Sixteen;
    #[inline(always)]
    fn all(self, v: u32) -> Sixteen {
        Sixteen([v; ROW])
    }
    #[inline(always)]
    fn get(self, from: &Sixteen) -> Sixteen {
        *from
    }
    #[inline(always)]
    fn put(self, v: Sixteen, to: &mut Sixteen) {
        *to = v;
    }
    #[inline(always)]
    fn plus(self, a: Sixteen, b: Sixteen) -> Sixteen {
        each(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn minus(self, a: Sixteen, b: Sixteen) -> Sixteen {
        each(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn times(self, a: Sixteen, b: Sixteen) -> Sixteen {
        each(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn and(self, a: Sixteen, b: Sixteen) -> Sixteen {
        each(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn right(self, a: Sixteen, by: u32) -> Sixteen {
        each(a, a, |a, _| a >> (by & 31))
    }
    #[inline(always)]
    fn over(self, a: Sixteen, b: Sixteen) -> u16 {
        let mut m = 0;
        for i in 0..ROW {
            m |= u16::from(a.0[i] > b.0[i]) << i;
        }
        m
    }
    #[inline(always)]
    fn rank(self, v: Sixteen, rows: &[Sixteen], _: &Sixteen) -> Sixteen {
        each(v, v, |v, _| {
            let (mut pos, mut step) = (0, rows.len() * ROW / 2);
            // Bound: halves
            while step > 0 {
                let at = pos + step - 1;
                let end = rows.get(at / ROW).map_or(u32::MAX, |r| r.0[at % ROW]);
                pos += if v > end { step } else { 0 };
                step /= 2;
            }
            pos as u32
        })
    }
    #[inline(always)]
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Sixteen; HEAD / 4] {
        let mut to = [Sixteen([0; ROW]); HEAD / 4];
        for (i, w) in windows.iter().enumerate() {
            for (c, b) in to.iter_mut().zip(w[HEAD_AT..].as_chunks::<4>().0) {
                c.0[i] = u32::from_be_bytes(*b);
            }
        }
        to
    }
    #[inline(always)]
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Sixteen; HEAD / 4] {
        let mut to = [Sixteen([0; ROW]); HEAD / 4];
        for (i, w) in windows.iter().enumerate() {
            let (first, second) = (&w[EDGES.0..EDGES.0 + HEAD / 2], &w[EDGES.1..]);
            let words = first.as_chunks::<4>().0.iter().chain(second.as_chunks().0);
            for (c, b) in to.iter_mut().zip(words) {
                c.0[i] = u32::from_le_bytes(*b);
            }
        }
        to
    }
    #[inline(always)]
    fn unlike(self, so_far: Sixteen, v: Sixteen, mask: u32, value: u32) -> Sixteen {
        each(so_far, v, |s, v| s | (v & mask) ^ value)
    }
    #[inline(always)]
    fn beyond(self, so_far: Sixteen, v: Sixteen, mask: u32, lo: u32, span: u32) -> Sixteen {
        let (lo, span) = (lo.to_ne_bytes(), span.to_ne_bytes());
        each(so_far, v, |s, v| {
            let mut b = (v & mask).to_ne_bytes();
            for i in 0..b.len() {
                b[i] = b[i].wrapping_sub(lo[i]).saturating_sub(span[i]);
            }
            s | u32::from_ne_bytes(b)
        })
    }
    #[inline(always)]
    fn zero(self, v: Sixteen) -> u16 {
        let mut m = 0;
        for i in 0..ROW {
            m |= u16::from(v.0[i] == 0) << i;
        }
        m
    }
    #[inline(always)]
    fn pick(self, from: &[u32], at: Sixteen) -> Sixteen {
        let last = from.len().saturating_sub(1);
        each(at, at, |i, _| {
            from.get(last.min(i as usize)).copied().unwrap_or(0)
        })
    }
    #[inline(always)]
    fn put_some(self, v: Sixteen, which: u16, to: &mut [u32; ROW]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if which >> i & 1 == 1 { v.0[i] } else { *to };
        }
    }
    #[inline(always)]
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if which >> i & 1 == 1 { v } else { *to };
        }
    }
    #[inline(always)]
    fn add(self, to: &mut [u64; 4], v: &[u32; 4]) {
        for (to, v) in to.iter_mut().zip(v) {
            *to = to.wrapping_add(u64::from(*v));
        }
    }
    #[inline(always)]
    fn bills(self, a: Sixteen, b: Sixteen, to: &mut [[u32; 4]; ROW]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = [1, a.0[i], b.0[i], 0];
        }
    }
}

impl Any {
    /// Is a quarter of one of these this one?
    #[inline(always)]
    pub fn among(self, words: &[u64; 3], x: u16) -> bool {
        const ONES: u64 = 0x0001_0001_0001_0001;
        let mut any = 0;
        for w in words {
            // a part of four that is zero
            let v = w ^ (u64::from(x) * ONES);
            any |= v.wrapping_sub(ONES) & !v & (ONES << 15);
        }
        any != 0
    }
}

#[inline(always)]
fn each(a: Sixteen, b: Sixteen, f: impl Fn(u32, u32) -> u32) -> Sixteen {
    let mut to = a;
    for i in 0..ROW {
        to.0[i] = f(a.0[i], b.0[i]);
    }
    to
}

/// With AVX-512 (F, BW, VL).
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// # Safety
    /// The processor has AVX-512 F, BW and VL.
    #[inline(always)]
    pub unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Of `16 * R` numbers those whose places these are: the numbers stay in registers, and a permutation reads sixteen of up to 32 at once.
    #[inline(always)]
    fn read<const R: usize>(
        self,
        t: &[std::arch::x86_64::__m512i; 8],
        at: std::arch::x86_64::__m512i,
    ) -> std::arch::x86_64::__m512i {
        use std::arch::x86_64::{
            _mm512_mask_blend_epi32, _mm512_permutex2var_epi32, _mm512_permutexvar_epi32,
            _mm512_set1_epi32, _mm512_test_epi32_mask,
        };
        let [a, b, c, d, e, f, g, h] = *t;
        // SAFETY: the instructions are there, or the value would not be.
        unsafe {
            match R {
                1 => _mm512_permutexvar_epi32(at, a),
                2 => _mm512_permutex2var_epi32(a, at, b),
                4 => _mm512_mask_blend_epi32(
                    _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)),
                    _mm512_permutex2var_epi32(a, at, b),
                    _mm512_permutex2var_epi32(c, at, d),
                ),
                _ => _mm512_mask_blend_epi32(
                    _mm512_test_epi32_mask(at, _mm512_set1_epi32(64)),
                    self.read::<4>(&[a, b, c, d, a, b, c, d], at),
                    self.read::<4>(&[e, f, g, h, e, f, g, h], at),
                ),
            }
        }
    }

    /// [`Wide::rank`] among `16 * R` numbers.
    #[inline(always)]
    fn search<const R: usize>(
        self,
        v: std::arch::x86_64::__m512i,
        rows: &[Sixteen],
        heads: &Sixteen,
    ) -> std::arch::x86_64::__m512i {
        use std::arch::x86_64::{
            _mm512_add_epi32, _mm512_cmpgt_epu32_mask, _mm512_mask_add_epi32, _mm512_set1_epi32,
            _mm512_slli_epi32,
        };
        let mut t = [self.all(u32::MAX); 8];
        let n = rows.len().min(R);
        for i in 0..n {
            t[i] = self.get(&rows[i]);
        }
        let mut pos = self.all(0);
        // the row: one register has all that is asked
        let first = [self.get(heads); 8];
        let mut step = R as i32 / 2;
        // Bound: halves
        while step > 0 {
            // SAFETY: as above.
            unsafe {
                let at = _mm512_add_epi32(pos, _mm512_set1_epi32(step - 1));
                let over = _mm512_cmpgt_epu32_mask(v, self.read::<1>(&first, at));
                pos = _mm512_mask_add_epi32(pos, over, pos, _mm512_set1_epi32(step));
            }
            step /= 2;
        }
        // SAFETY: as above.
        pos = unsafe { _mm512_slli_epi32::<4>(pos) };
        let mut step = ROW as i32 / 2;
        // Bound: halves
        while step > 0 {
            // SAFETY: as above.
            unsafe {
                let at = _mm512_add_epi32(pos, _mm512_set1_epi32(step - 1));
                let over = _mm512_cmpgt_epu32_mask(v, self.read::<R>(&t, at));
                pos = _mm512_mask_add_epi32(pos, over, pos, _mm512_set1_epi32(step));
            }
            step /= 2;
        }
        pos
    }
}

#[cfg(target_arch = "x86_64")]
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
    fn endangers(self, entry: &[u64; 8], x: u16) -> bool {
        use std::arch::x86_64::{
            _mm512_loadu_si512, _mm512_mask_cmpeq_epi16_mask, _mm512_set1_epi16,
        };
        let [a, b, c] = DANGERS;
        let dangers = 0xf << (a * 4) | 0xf << (b * 4) | 0xf << (c * 4);
        // SAFETY: an array of 64 bytes; the instructions are there, or the value would not be.
        unsafe {
            let entry = _mm512_loadu_si512(entry.as_ptr().cast());
            _mm512_mask_cmpeq_epi16_mask(dangers, entry, _mm512_set1_epi16(x as i16)) != 0
        }
    }

    type N = std::arch::x86_64::__m512i;
    #[inline(always)]
    fn all(self, v: u32) -> Self::N {
        // SAFETY: the instructions are there, or the value would not be; this goes for all of the following.
        unsafe { std::arch::x86_64::_mm512_set1_epi32(v as i32) }
    }
    #[inline(always)]
    fn get(self, from: &Sixteen) -> Self::N {
        // SAFETY: an array of 64 bytes, on a cache line.
        unsafe { std::arch::x86_64::_mm512_load_si512(from.0.as_ptr().cast()) }
    }
    #[inline(always)]
    fn put(self, v: Self::N, to: &mut Sixteen) {
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
    #[inline(always)]
    fn rank(self, v: Self::N, rows: &[Sixteen], heads: &Sixteen) -> Self::N {
        match rows.len() {
            1 => self.search::<1>(v, rows, heads),
            2 => self.search::<2>(v, rows, heads),
            4 => self.search::<4>(v, rows, heads),
            _ => self.search::<8>(v, rows, heads),
        }
    }
    #[inline(always)]
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4] {
        use std::arch::x86_64::{
            _mm_set_epi8, _mm256_loadu_si256, _mm512_broadcast_i32x4, _mm512_castsi256_si512,
            _mm512_inserti64x4, _mm512_shuffle_epi8,
        };
        let mut rows = [self.all(0); 8];
        let h = windows;
        for i in 0..8 {
            // SAFETY: as above; loads are of 32 bytes each, of slices that have as many.
            unsafe {
                let swap = _mm512_broadcast_i32x4(_mm_set_epi8(
                    12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,
                ));
                let low = _mm256_loadu_si256(h[i][HEAD_AT..HEAD_AT + HEAD].as_ptr().cast());
                let high = _mm256_loadu_si256(h[i + 8][HEAD_AT..HEAD_AT + HEAD].as_ptr().cast());
                let both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
                rows[i] = _mm512_shuffle_epi8(both, swap);
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
        use std::arch::x86_64::{_mm512_i32gather_epi32, _mm512_min_epu32};
        let Some(last) = from.len().checked_sub(1) else {
            return self.all(0);
        };
        let last = last.min(i32::MAX as usize) as u32;
        // SAFETY: as above; no place is beyond the last.
        unsafe {
            let at = _mm512_min_epu32(at, self.all(last));
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
    fn add(self, to: &mut [u64; 4], v: &[u32; 4]) {
        use std::arch::x86_64::{
            _mm_loadu_si128, _mm256_add_epi64, _mm256_cvtepu32_epi64, _mm256_loadu_si256,
            _mm256_storeu_si256,
        };
        // SAFETY: as above; arrays of 32 bytes and of 16.
        unsafe {
            let more = _mm256_cvtepu32_epi64(_mm_loadu_si128(v.as_ptr().cast()));
            let sum = _mm256_add_epi64(_mm256_loadu_si256(to.as_ptr().cast()), more);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), sum);
        }
    }
    #[inline(always)]
    fn bills(self, a: Self::N, b: Self::N, to: &mut [[u32; 4]; ROW]) {
        use std::arch::x86_64::{
            _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32,
            _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
        };
        let (one, none) = (self.all(1), self.all(0));
        // SAFETY: as above; stores are of 64 bytes each, of four that the array has.
        unsafe {
            let (x, y) = (_mm512_unpacklo_epi32(one, a), _mm512_unpackhi_epi32(one, a));
            let (z, w) = (
                _mm512_unpacklo_epi32(b, none),
                _mm512_unpackhi_epi32(b, none),
            );
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
            let to = to.as_mut_ptr().cast::<Self::N>();
            _mm512_storeu_si512(to, _mm512_shuffle_i32x4(pq, rs, 0x88));
            _mm512_storeu_si512(to.add(1), _mm512_shuffle_i32x4(pq, rs, 0xdd));
            _mm512_storeu_si512(to.add(2), _mm512_shuffle_i32x4(pq2, rs2, 0x88));
            _mm512_storeu_si512(to.add(3), _mm512_shuffle_i32x4(pq2, rs2, 0xdd));
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Rows of two packets' eight words each, a packet and the eighth after it, to columns.
    #[inline(always)]
    fn turned(
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A word of the windows.
    fn all_of(windows: &[&[u8; WINDOW]; ROW], i: usize) -> u32 {
        let w = windows[i % ROW];
        u32::from_ne_bytes(w.as_chunks().0[i / ROW])
    }

    /// What sixteen packets are asked, one way or the other.
    fn numbers<W: Wide>(wide: W, windows: &[&[u8; WINDOW]; ROW]) -> Vec<u32> {
        let mut all = Vec::new();
        let mut keep = |v: W::N| {
            let mut to = Sixteen([0; ROW]);
            wide.put(wide.plus(wide.get(&to), v), &mut to);
            all.extend(to.0);
        };
        let c = wide.columns(windows);
        c.iter().for_each(|c| keep(*c));
        let [a, b, ..] = c;
        keep(wide.minus(a, b));
        keep(wide.times(a, b));
        keep(wide.and(a, b));
        keep(wide.right(a, 16));
        keep(wide.right(a, 0));
        for n in [1, 2, 4, 8] {
            let mut some: Vec<u32> = (0..n * ROW - 1).map(|i| all_of(windows, i)).collect();
            some.sort_unstable();
            some.push(u32::MAX);
            let rows: Vec<Sixteen> = some.as_chunks().0.iter().map(|r| Sixteen(*r)).collect();
            let head = |i| rows.get(i).map_or(u32::MAX, |r: &Sixteen| r.0[ROW - 1]);
            let heads = Sixteen(std::array::from_fn(head));
            let mut to = Sixteen([0; ROW]);
            for v in [a, b, wide.all(some[3]), wide.all(0), wide.all(u32::MAX)] {
                wide.put(wide.rank(v, &rows, &heads), &mut to);
                all.extend(to.0);
                let mut of = Sixteen([0; ROW]);
                wide.put(v, &mut of);
                for (got, v) in to.0.iter().zip(of.0) {
                    assert_eq!(*got as usize, some.partition_point(|s| *s < v));
                }
            }
        }
        let mut keep = |v: W::N| {
            let mut to = Sixteen([0; ROW]);
            wide.put(v, &mut to);
            all.extend(to.0);
        };
        keep(wide.all(wide.over(a, b).into()));
        let row: Vec<u32> = (0..33).map(|i| all_of(windows, i)).collect();
        keep(wide.pick(&row, wide.and(a, wide.all(63))));
        keep(wide.pick(&row[..1], a));
        let (mut some, mut same) = ([7; ROW], [7; ROW]);
        wide.put_some(a, wide.over(a, b), &mut some);
        wide.number(9, wide.over(a, b), &mut same);
        keep(wide.get(&Sixteen(some)));
        keep(wide.get(&Sixteen(same.map(u32::from))));
        let mut sums = [u64::MAX, 1, u64::from(u32::MAX), 0];
        wide.add(&mut sums, &[row[0], row[1], row[2], row[3]]);
        let halves = |i: usize| (sums[i / 2 % 4] >> (i % 2 * 32)) as u32;
        keep(wide.get(&Sixteen(std::array::from_fn(halves))));
        let mut bills = [[0; 4]; ROW];
        wide.bills(a, b, &mut bills);
        bills.iter().for_each(|b| assert_eq!((b[0], b[3]), (1, 0)));
        keep(wide.get(&Sixteen(bills.map(|b| b[1]))));
        keep(wide.get(&Sixteen(bills.map(|b| b[2]))));
        let (mut mask, mut lo, mut span) = ([0; WINDOW], [0; WINDOW], [0; WINDOW]);
        for i in 0..4 {
            let at = i * 17;
            let all = windows.iter().map(|w| w[at]);
            (mask[at], lo[at]) = (0xff, all.clone().min().unwrap_or(0));
            span[at] = all.max().unwrap_or(0) - lo[at];
            assert!(wide.all_inside(windows, &mask, &lo, &span));
            let mut less = span;
            less[at] = less[at].saturating_sub(1);
            assert_eq!(wide.all_inside(windows, &mask, &lo, &less), less == span);
        }
        let edges = wide.edges(windows);
        edges.iter().for_each(|c| keep(*c));
        let (first, second) = (all_of(windows, 0), all_of(windows, 1));
        for c in [edges[0], edges[5]] {
            for mask in [0, 0xff00, 0xff_00ff, u32::MAX] {
                keep(wide.unlike(a, c, mask, first & mask));
                keep(wide.beyond(a, c, mask, first & mask, second & mask));
                let none = wide.unlike(wide.all(0), c, mask, first & mask);
                keep(wide.all(wide.zero(none).into()));
                let none = wide.beyond(wide.all(0), c, mask, first & mask, second & mask);
                keep(wide.all(wide.zero(none).into()));
            }
        }
        all
    }

    proptest::proptest! {
        #[test]
        fn sixteen_packets_are_asked_alike(bytes in proptest::collection::vec(0u8.., ROW * WINDOW)) {
            let all: Vec<&[u8; WINDOW]> = bytes.as_chunks().0.iter().collect();
            let windows: [&[u8; WINDOW]; ROW] = all.try_into().unwrap();
            let any = numbers(Any, &windows);
            for (i, v) in any.iter().take(HEAD / 4 * ROW).enumerate() {
                let from = HEAD_AT + i / ROW * 4;
                let want = u32::from_be_bytes(windows[i % ROW][from..from + 4].try_into().unwrap());
                proptest::prop_assert_eq!(*v, want);
            }
            if super::super::isa::Isa::detect() == super::super::isa::Isa::Avx512 {
                // SAFETY: it was looked for.
                proptest::prop_assert_eq!(&any, &numbers(unsafe { Avx512::new() }, &windows));
            }
        }

        #[test]
        fn all_do_the_same(
            w in proptest::collection::vec(0u8.., WINDOW),
            bit in 0..WINDOW * 8,
            row in proptest::collection::vec(proptest::num::u32::ANY, ROW),
            v in proptest::num::u32::ANY,
            tags in proptest::collection::vec(0u16..4, TAGS),
        ) {
            let row: [u32; ROW] = row.try_into().unwrap();
            let tags: [u16; TAGS] = tags.try_into().unwrap();
            let w: [u8; WINDOW] = w.try_into().unwrap();
            let mut mask = [0; WINDOW];
            mask[bit / 8] = 1 << (bit % 8);
            let mut value = [0; WINDOW];
            value[bit / 8] = w[bit / 8] & mask[bit / 8];
            let mut other = w;
            other[bit / 8] ^= mask[bit / 8];
            let entry: [u64; 8] = std::array::from_fn(|i| u64::from(row[i]) << 32 | u64::from(row[i + 8]));
            let quarters = |i: usize| (0..4).map(move |k| (i, k));
            let near = DANGERS.iter().flat_map(|i| quarters(*i)).chain(quarters(2));
            for x in near.map(|(i, k)| (entry[i] >> (16 * k)) as u16).chain([0, 1, v as u16]) {
                let want = DANGERS.iter().flat_map(|i| quarters(*i)).any(|(i, k)| (entry[i] >> (16 * k)) as u16 == x);
                proptest::prop_assert_eq!(Any.endangers(&entry, x), want);
                if super::super::isa::Isa::detect() == super::super::isa::Isa::Avx512 {
                    // SAFETY: it was looked for.
                    proptest::prop_assert_eq!(unsafe { Avx512::new() }.endangers(&entry, x), want);
                }
            }
            let none = [0; WINDOW];
            proptest::prop_assert!(Any.inside(w, &mask, &value, &none));
            proptest::prop_assert!(!Any.inside(other, &mask, &value, &none));
            // ranges of whole bytes
            let (all, lo, span) = ([0xff; WINDOW], [tags[0] as u8 * 40; WINDOW], [100 + tags[1] as u8 * 50; WINDOW]);
            let inside = w.iter().all(|b| b.wrapping_sub(lo[0]) <= span[0]);
            proptest::prop_assert_eq!(Any.inside(w, &all, &lo, &span), inside);
            let mut changed = [none; 2];
            Any.change(w, &mask, &value, &lo, &mut changed[0]);
            let above = |v| row.iter().filter(|x| **x < v).count() as u32;
            proptest::prop_assert_eq!(Any.above(v, &row), above(v));
            let want = (0..TAGS).filter(|i| tags[*i] & !1 == 2).map(|i| 1 << i).sum::<u32>();
            proptest::prop_assert_eq!(Any.equal(&tags, 2), want);
            let odd = (0..TAGS).filter(|i| tags[*i] % 2 == 1).map(|i| 1 << i).sum::<u32>();
            proptest::prop_assert_eq!(Any.odd(&tags), odd);
            if super::super::isa::Isa::detect() == super::super::isa::Isa::Avx512 {
                // SAFETY: it was looked for.
                let x = unsafe { Avx512::new() };
                proptest::prop_assert!(x.inside(x.load(&w), &mask, &value, &none));
                proptest::prop_assert!(!x.inside(x.load(&other), &mask, &value, &none));
                proptest::prop_assert_eq!(x.inside(x.load(&w), &all, &lo, &span), inside);
                x.change(x.load(&w), &mask, &value, &lo, &mut changed[1]);
                proptest::prop_assert_eq!(changed[0], changed[1]);
                proptest::prop_assert_eq!(x.above(v, &row), above(v));
                proptest::prop_assert_eq!(x.above(row[3], &row), above(row[3]));
                proptest::prop_assert_eq!(x.equal(&tags, 2), want);
                proptest::prop_assert_eq!(x.odd(&tags), odd);
            }
        }
    }
}
