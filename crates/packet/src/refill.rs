//! Many packets filled from cache lines at once: what a receive queue does, and what a benchmark does over and over.
//!
//! The same code for processors with wider registers: a line is copied in one step with AVX-512, in two with AVX, in
//! four with what every x86-64 has.
#![allow(unsafe_code)]

use crate::{Pkt, Timestamp};
use onefold_table::prefetch;

/// Fills packets with the first `len` bytes of lines, as [`crate::Packet::refill_line`] does, and gives them the time
/// `at`. `these` says which line each packet gets; those of `ahead` are asked for, to be in the cache when it is their
/// turn. Numbers beyond the last line leave a packet as it was.
#[inline]
pub fn refill_lines(
    packets: &mut [Pkt],
    lines: &[[u8; 64]],
    len: usize,
    (these, ahead): (&[u32], &[u32]),
    at: Timestamp,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has it.
            return unsafe { avx512(packets, lines, len, (these, ahead), at) };
        }
        if is_x86_feature_detected!("avx") {
            // SAFETY: the processor has it.
            return unsafe { avx(packets, lines, len, (these, ahead), at) };
        }
    }
    any(packets, lines, len, (these, ahead), at)
}

#[inline(always)]
fn any(
    packets: &mut [Pkt],
    lines: &[[u8; 64]],
    len: usize,
    (these, ahead): (&[u32], &[u32]),
    at: Timestamp,
) {
    for which in ahead {
        if let Some(line) = lines.get(*which as usize) {
            prefetch(line);
        }
    }
    for (p, which) in packets.iter_mut().zip(these) {
        if let Some(line) = lines.get(*which as usize) {
            p.refill_line(line, len, at);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx")]
fn avx512(p: &mut [Pkt], lines: &[[u8; 64]], len: usize, w: (&[u32], &[u32]), at: Timestamp) {
    any(p, lines, len, w, at);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn avx(p: &mut [Pkt], lines: &[[u8; 64]], len: usize, w: (&[u32], &[u32]), at: Timestamp) {
    any(p, lines, len, w, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn as_one_after_the_other() {
        let lines: Vec<[u8; 64]> = (0..100u8).map(|i| [i; 64]).collect();
        let these: Vec<u32> = (0..40).map(|i| (i * 7) % 103).collect();
        let new = || -> Vec<Pkt> {
            let one = |_| Box::new(Packet::from_slice(&[255; 20]));
            (0..40).map(one).collect()
        };
        type Fill = fn(&mut [Pkt], &[[u8; 64]], usize, (&[u32], &[u32]), Timestamp);
        for fill in [any as Fill, refill_lines as Fill] {
            let mut packets = new();
            packets[3].anno.set_paint(9);
            packets[4].push(30);
            packets[4].data_mut().fill(1);
            fill(&mut packets, &lines, 60, (&these, &these), Timestamp(7));
            for (p, which) in packets.iter().zip(&these) {
                let mut expected = Packet::from_slice(&[255; 20]);
                if let Some(line) = lines.get(*which as usize) {
                    expected = Packet::from_slice(&line[..60]);
                    expected.anno.timestamp = Timestamp(7);
                    assert!(p.headroom_bytes().iter().all(|b| *b == 0));
                }
                assert_eq!((p.data(), p.anno), (expected.data(), expected.anno));
            }
        }
    }
}
