//! What is done for 64 bytes, or for a row of numbers, at once: with AVX-512 in a few instructions, else in whatever the compiler makes
//! of it for the registers that there are ([`super::isa`]).
#![allow(unsafe_code)]

use super::guard::WINDOW;

/// Numbers of a row.
pub(super) const ROW: usize = 16;
/// Tags of a bucket.
pub(super) const TAGS: usize = 8;

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
    /// Which tags are equal to this one: a bit each.
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32;
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
            m |= u32::from(*t == tag) << i;
        }
        m
    }
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
        use std::arch::x86_64::{_mm_cmpeq_epi16_mask, _mm_loadu_si128, _mm_set1_epi16};
        // SAFETY: an array of 16 bytes; the instructions are there, or the value would not be.
        let m = unsafe {
            let tags = _mm_loadu_si128(tags.as_ptr().cast());
            _mm_cmpeq_epi16_mask(tags, _mm_set1_epi16(tag as i16))
        };
        m.into()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    proptest::proptest! {
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
            let want = (0..TAGS).filter(|i| tags[*i] == 1).map(|i| 1 << i).sum::<u32>();
            proptest::prop_assert_eq!(Any.equal(&tags, 1), want);
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
                proptest::prop_assert_eq!(x.equal(&tags, 1), want);
            }
        }
    }
}
