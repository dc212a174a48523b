//! Many packets filled from cache lines at once: what a receive queue does, and what a benchmark does over and over.
//!
//! The same code for processors with wider registers: a line is copied in one step with AVX-512, in two with AVX, in
//! four with what every x86-64 has.
#![allow(unsafe_code)]

use crate::{Pkt, Timestamp};
use onefold_table::prefetch;

/// Copies a frame; both have one length. The shortest frames, of which there are most, as two halves that overlap:
/// lengths that the compiler knows need no call.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 32;
    if from.len() <= 2 * HALF
        && let (Some(a), Some(b)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>())
        && let Some(x) = to.first_chunk_mut::<HALF>()
    {
        *x = *a;
        if let Some(y) = to.last_chunk_mut::<HALF>() {
            *y = *b;
        }
        return;
    }
    to.copy_from_slice(from);
}

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

/// Where a frame is in a list of lines, and when it arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineSpan {
    /// Its time.
    pub at: Timestamp,
    /// Its first line.
    pub line: u32,
    /// Its bytes.
    pub len: u32,
}

impl LineSpan {
    /// Its lines; none of an empty frame, and of one that ends beyond the last line.
    #[inline(always)]
    pub fn lines<'a>(&self, all: &'a [[u8; 64]]) -> &'a [[u8; 64]] {
        let (from, n) = (self.line as usize, (self.len as usize).div_ceil(64));
        all.get(from..from + n).unwrap_or_default()
    }
    /// Its bytes.
    #[inline(always)]
    pub fn bytes<'a>(&self, all: &'a [[u8; 64]]) -> &'a [u8] {
        let bytes = self.lines(all).as_flattened();
        bytes.get(..self.len as usize).unwrap_or(bytes)
    }
}

/// Fills packets with `these` frames, each at its own time; the first lines of those of `ahead` are asked for, to be in
/// the cache when it is their turn.
#[inline]
pub fn refill_spans(
    packets: &mut [Pkt],
    lines: &[[u8; 64]],
    (these, ahead): (&[LineSpan], &[LineSpan]),
) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has it.
            return unsafe { spans_avx512(packets, lines, (these, ahead)) };
        }
        if is_x86_feature_detected!("avx") {
            // SAFETY: the processor has it.
            return unsafe { spans_avx(packets, lines, (these, ahead)) };
        }
    }
    spans(packets, lines, (these, ahead))
}

#[inline(always)]
fn spans(packets: &mut [Pkt], lines: &[[u8; 64]], (these, ahead): (&[LineSpan], &[LineSpan])) {
    for s in ahead {
        if let Some(line) = lines.get(s.line as usize) {
            prefetch(line);
        }
    }
    for (p, s) in packets.iter_mut().zip(these) {
        match s.lines(lines) {
            [line] => p.refill_line(line, s.len as usize, s.at),
            _ => {
                p.refill(s.bytes(lines));
                p.anno.timestamp = s.at;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx")]
fn spans_avx512(p: &mut [Pkt], lines: &[[u8; 64]], which: (&[LineSpan], &[LineSpan])) {
    spans(p, lines, which);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn spans_avx(p: &mut [Pkt], lines: &[[u8; 64]], which: (&[LineSpan], &[LineSpan])) {
    spans(p, lines, which);
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
    #[test]
    fn frames_of_every_length_at_their_times() {
        let lines: Vec<[u8; 64]> = (0..100u8).map(|i| [i; 64]).collect();
        let span = |i: u32| LineSpan {
            at: Timestamp(i64::from(i) + 1),
            line: i * 5,
            len: i * 37 % 300,
        };
        // the last ones end, or begin, behind the last line
        let these: Vec<LineSpan> = (0..22).map(span).collect();
        type Fill = fn(&mut [Pkt], &[[u8; 64]], (&[LineSpan], &[LineSpan]));
        for fill in [spans as Fill, refill_spans as Fill] {
            let mut packets: Vec<Pkt> = (0..22)
                .map(|_| Box::new(Packet::from_slice(&[255; 20])))
                .collect();
            packets[3].anno.set_paint(9);
            fill(&mut packets, &lines, (&these, &these));
            for (p, s) in packets.iter().zip(&these) {
                let from = s.line as usize * 64;
                let all = lines.as_flattened();
                let to = from + s.len as usize;
                let mut expected = Packet::from_slice(all.get(from..to).unwrap_or_default());
                expected.anno.timestamp = s.at;
                assert_eq!((p.data(), p.anno), (expected.data(), expected.anno));
            }
        }
    }
}
