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
