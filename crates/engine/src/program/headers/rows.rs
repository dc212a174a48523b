//! Sixteen packets at once, where all of them pass the guard.
//!
//! One packet after the other, each test and each word of the key asks anew where the packet's bytes are and whether there are enough of them, and each answer is
//! a branch: two hundred instructions for a packet of which forty are of use. Here that is asked once for each packet, tests leave bits behind that
//! are looked at once for sixteen packets, and a word of the key is read of all of them before the next word. Where one of sixteen does not pass, all of them are taken one
//! by one, as ever: so the answers are the same.

use crate::simd::dispatch::one_by_one;
use onefold_packet::Packet;
use std::ops::Deref;

/// Packets of a row.
pub(crate) const ROW: usize = 16;
/// Bytes of a packet that can be read.
pub(crate) const WINDOW: usize = 64;

/// The first bytes of sixteen packets, and how many each of them has.
pub(crate) struct Row<'p> {
    pub windows: [&'p [u8; WINDOW]; ROW],
    pub lens: [u32; ROW],
}

impl<'p> Row<'p> {
    /// `None` where some packet has fewer than `reach` bytes, or no room for a whole window.
    #[inline(always)]
    pub fn of<P: Deref<Target = Packet>>(packets: &'p [P; ROW], reach: u32) -> Option<Row<'p>> {
        let nothing = &[0; WINDOW];
        let mut row = Row {
            windows: [nothing; ROW],
            lens: [0; ROW],
        };
        let mut all = true;
        // Loops over indices: adapters may not be inlined
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            one_by_one();
            let p = &*packets[i];
            let len = p.len() as u32;
            row.lens[i] = len;
            match p.window::<WINDOW>() {
                Some(w) => row.windows[i] = w,
                None => all = false,
            }
            all &= len >= reach;
        }
        all.then_some(row)
    }
}

/// Bits of a packet's first bytes that one load reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    at: u8,
    shift: u8,
    mask: u32,
}

impl Part {
    /// `mask` of what eight bytes from `at` on are, shifted right. `None` where these are not all in the window.
    pub fn of(at: i32, shift: u8, mask: u32) -> Option<Part> {
        let inside = (0..=(WINDOW - 8) as i32).contains(&at) && shift < 64;
        inside.then_some(Part {
            at: at as u8,
            shift,
            mask,
        })
    }

    /// Bytes that a packet must have for it.
    pub fn reach(self) -> u32 {
        u32::from(self.at) + 8
    }

    #[inline(always)]
    pub fn get(self, w: &[u8; WINDOW]) -> u32 {
        let b = w.get(usize::from(self.at)..).and_then(|b| b.first_chunk());
        (u64::from_be_bytes(b.copied().unwrap_or_default()) >> (self.shift & 63)) as u32 & self.mask
    }

    /// Of sixteen packets.
    #[inline(always)]
    pub fn get_row(self, row: &Row<'_>, to: &mut [u32; ROW]) {
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            one_by_one();
            to[i] = self.get(row.windows[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_the_bytes_say() {
        let packets: Vec<Box<Packet>> = (0..16u8)
            .map(|n| {
                let bytes: Vec<u8> = (0..64u8)
                    .map(|i| i.wrapping_mul(3).wrapping_add(n * 7))
                    .collect();
                Box::new(Packet::from_slice(&bytes))
            })
            .collect();
        let row = Row::of(packets.first_chunk().unwrap(), 64).unwrap();
        assert_eq!(row.lens, [64; ROW]);
        for (at, shift, mask) in [(0, 0, u32::MAX), (26, 32, 0xffff), (56, 8, 0xff_ffff)] {
            let part = Part::of(at, shift, mask).unwrap();
            let mut got = [0; ROW];
            part.get_row(&row, &mut got);
            for (p, got) in packets.iter().zip(got) {
                let b = p.data()[at as usize..][..8].try_into().unwrap();
                assert_eq!(got, (u64::from_be_bytes(b) >> shift) as u32 & mask);
            }
        }
        assert!(Part::of(57, 0, 1).is_none() && Part::of(-1, 0, 1).is_none());
        assert!(Row::of(packets.first_chunk().unwrap(), 65).is_none());
    }
}
