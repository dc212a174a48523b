//! Eight words that something is noted in, all of them written at once: some whatever they were, some if what is noted
//! is later.
//!
//! One after the other, each under its condition, took seventy instructions for a packet; here it is one load, ten
//! instructions and one store, and nothing is branched on.
#![allow(unsafe_code)]

use crate::simd::any::Any;
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};

/// How many.
pub(crate) const WORDS: usize = 8;

/// Eight words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Words(pub [u32; WORDS]);

/// Which of them are written, and when: all ones there, else zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// Whatever they were.
    pub always: Words,
    /// If what is written is later, as numbers that begin again behind the last one are compared.
    pub later: Words,
}

/// What is written: `SET` says in which words `set` is, another one has `last`, and all others have `later`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct News<'a> {
    pub set: &'a Words,
    pub later: u32,
    pub last: u32,
}

/// Writes words. `SET` has a bit for each that is [`News::set`], `LAST` one for that which is [`News::last`].
pub(crate) trait MergeWords: Copy {
    /// See the module's text.
    #[inline(always)]
    fn merge<const SET: i32, const LAST: i32>(
        self,
        to: &mut Words,
        news: News<'_>,
        written: &Written,
    ) {
        for k in 0..WORDS {
            let new = match (SET >> k & 1, LAST >> k & 1) {
                (1, _) => news.set.0[k],
                (_, 1) => news.last,
                _ => news.later,
            };
            let is_later = u32::from(new.wrapping_sub(to.0[k]) as i32 > 0).wrapping_neg();
            let all = is_later & written.later.0[k] | written.always.0[k];
            to.0[k] ^= (to.0[k] ^ new) & all;
        }
    }
}

impl MergeWords for Any {}

#[cfg(target_arch = "x86_64")]
impl MergeWords for Avx2 {
    #[inline(always)]
    fn merge<const SET: i32, const LAST: i32>(
        self,
        to: &mut Words,
        news: News<'_>,
        written: &Written,
    ) {
        use std::arch::x86_64::{
            _mm256_and_si256, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi32,
            _mm256_or_si256, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_store_si256,
            _mm256_sub_epi32,
        };
        // A macro: a closure that is not inlined would be compiled without these instructions, and call each of them.
        macro_rules! load {
            ($w:expr) => {
                std::arch::x86_64::_mm256_load_si256($w.0.as_ptr().cast())
            };
        }
        // SAFETY: the instructions are there, or the value would not be; eight words, aligned to as many bytes.
        unsafe {
            let old = load!(to);
            let new = _mm256_set1_epi32(news.later as i32);
            let new = _mm256_blend_epi32::<LAST>(new, _mm256_set1_epi32(news.last as i32));
            let new = _mm256_blend_epi32::<SET>(new, load!(news.set));
            let later = _mm256_cmpgt_epi32(_mm256_sub_epi32(new, old), _mm256_setzero_si256());
            let all = _mm256_and_si256(later, load!(written.later));
            let all = _mm256_or_si256(all, load!(written.always));
            let new = _mm256_blendv_epi8(old, new, all);
            _mm256_store_si256(to.0.as_mut_ptr().cast(), new);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl MergeWords for Avx512 {
    #[inline(always)]
    fn merge<const SET: i32, const LAST: i32>(
        self,
        to: &mut Words,
        news: News<'_>,
        written: &Written,
    ) {
        self.narrow().merge::<SET, LAST>(to, news, written);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn words_are_merged_alike_however_wide() {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 16) as u32
        };
        for _ in 0..1000 {
            let mut words = |near: u32| Words(std::array::from_fn(|_| random() & near));
            // those that are near each other, and any
            let (set, old) = (words(u32::MAX), words(u32::MAX));
            let [always, later] = [words(1), words(1)].map(|w| Words(w.0.map(u32::wrapping_neg)));
            let written = Written { always, later };
            let near = old.0[3].wrapping_add(random() % 5).wrapping_sub(2);
            for later in [near, random()] {
                let news = News {
                    set: &set,
                    later,
                    last: random(),
                };
                let mut want = old;
                Any.merge::<0b100_0011, 0b1_0000>(&mut want, news, &written);
                for (k, w) in want.0.iter().enumerate() {
                    let new = [set.0[k], news.last, later][match k {
                        0 | 1 | 6 => 0,
                        4 => 1,
                        _ => 2,
                    }];
                    let is_later = new.wrapping_sub(old.0[k]) as i32 > 0;
                    let is = always_or(&written, k, is_later);
                    assert_eq!(*w, if is { new } else { old.0[k] });
                }
                if let Some(wide) = Avx2::found() {
                    let mut got = old;
                    wide.merge::<0b100_0011, 0b1_0000>(&mut got, news, &written);
                    assert_eq!(got, want);
                }
                if let Some(wide) = Avx512::found() {
                    let mut got = old;
                    wide.merge::<0b100_0011, 0b1_0000>(&mut got, news, &written);
                    assert_eq!(got, want);
                }
            }
        }
    }

    fn always_or(written: &Written, k: usize, later: bool) -> bool {
        written.always.0[k] != 0 || later && written.later.0[k] != 0
    }
}
