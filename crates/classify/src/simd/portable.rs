//! The operations in plain Rust: what they mean, and what runs where nothing better does.

use super::Isa;

/// Plain Rust.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn bits<const N: usize>(lane: impl Fn(usize) -> bool) -> u32 {
    let mut m = 0;
    for l in 0..N {
        m |= u32::from(lane(l)) << l;
    }
    m
}

impl Isa for Portable {
    #[inline(always)]
    fn le16(self, line: &[u32; 16], k: u32) -> u32 {
        bits::<16>(|l| line[l] <= k)
    }

    #[inline(always)]
    fn within8(self, line: &[u32; 16], k: u32) -> u32 {
        bits::<8>(|l| k.wrapping_sub(line[l]) <= line[l + 8])
    }

    #[inline(always)]
    fn masked8(self, line: &[u32; 16], k: u32) -> u32 {
        bits::<8>(|l| k & line[l] == line[l + 8])
    }

    #[inline(always)]
    fn rows4(self, words: &[u32; 4], lo: &[u32; 16], span: &[u32; 16], key: &[u32; 8]) -> u32 {
        let row = words[0].to_le_bytes().map(|w| key[usize::from(w) % 8]);
        bits::<16>(|l| row[l % 4].wrapping_sub(lo[l]) <= span[l])
    }

    #[inline(always)]
    fn all4(self, m: u32) -> u32 {
        let m = m & m >> 1;
        let m = m & m >> 2 & 0x1111_1111;
        // bits 0, 4, 8 and 12 to 0 to 3, and the same of the other half
        let m = (m | m >> 3) & 0x0303_0303;
        let m = (m | m >> 6) & 0x000f_000f;
        (m | m >> 12) & 0xff
    }

    #[inline(always)]
    fn turned(self, words: [&[u32; 4]; 4]) -> [[u32; 4]; 4] {
        std::array::from_fn(|k| words.map(|w| w[k]))
    }

    #[inline(always)]
    fn parts(self, cuts: &[[u32; 8]; 8], last: u32, keys: &[u32; 16]) -> [u32; 16] {
        std::array::from_fn(|l| {
            let k = keys[l];
            let first: u32 = (0..7).map(|i| u32::from(cuts[7][i] <= k)).sum();
            let i = first as usize % 8;
            let more: u32 = (0..7).map(|j| u32::from(cuts[j][i] <= k)).sum();
            (first * 8 + more).min(last)
        })
    }

    #[inline(always)]
    fn keys_equal(self, keys: &[u32; 16], v: u32) -> u32 {
        bits::<16>(|l| keys[l] == v)
    }

    #[inline(always)]
    fn keys_within(self, keys: &[u32; 16], lo: u32, span: u32) -> u32 {
        bits::<16>(|l| keys[l].wrapping_sub(lo) <= span)
    }

    #[inline(always)]
    fn keys_masked(self, keys: &[u32; 16], mask: u32, v: u32) -> u32 {
        bits::<16>(|l| keys[l] & mask == v)
    }

    #[inline(always)]
    fn put(self, out: &mut [u32; 16], m: u32, v: u32) {
        for (l, o) in out.iter_mut().enumerate() {
            *o = if m >> l & 1 == 1 { v } else { *o };
        }
    }

    #[inline(always)]
    fn tags8(self, tags: &[u16; 8], tag: u16) -> u32 {
        bits::<8>(|l| tags[l] == tag)
    }
}
