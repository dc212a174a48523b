//! Strangers' frames, written before the clock starts: a copy of a template with a header that nobody has seen.

use super::feed::Templates;
use super::unseen::Unseen;
use onefold_packet::{Pkt, Timestamp, refill_lines};
use onefold_table::{HugeVec, prefetch};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Frames that are written before the clock starts, at most: as 64-byte frames 128 KiB, so that the second cache holds
/// them beside what a chain needs. Reading the clock as often takes less than a nanosecond for each.
pub const PREPARED: u64 = 2048;

/// The frames of one lane that come next, its strangers' among them, in the order in which they come.
pub struct UnseenFrames<'a> {
    strangers: &'a Unseen,
    templates: &'a Templates,
    /// Templates of strangers: so many packets are a round.
    others: u64,
    lines: HugeVec<[u8; LINE]>,
    /// Lines that are in use.
    used: usize,
    /// First line and length of each.
    spans: Vec<(u32, u32)>,
    /// The number of each, in order: what [`refill_lines`] asks for.
    numbers: Vec<u32>,
    /// The next one.
    next: usize,
}

impl<'a> UnseenFrames<'a> {
    /// None yet.
    pub fn new(strangers: &'a Unseen, templates: &'a Templates) -> UnseenFrames<'a> {
        let others = templates.len().saturating_sub(strangers.known).max(1);
        UnseenFrames {
            strangers,
            templates,
            others: others as u64,
            lines: HugeVec::new(),
            used: 0,
            spans: Vec::new(),
            numbers: Vec::new(),
            next: 0,
        }
    }

    /// Forgets those that there are.
    pub fn clear(&mut self) {
        self.used = 0;
        self.spans.clear();
        self.next = 0;
    }

    /// Writes the frames of a batch, behind those that there are: copies of `these` templates, and where one is a
    /// stranger's, the header of packet `number` in it, which is counted up.
    pub fn write(&mut self, these: &[u32], number: &mut u64) {
        for which in these {
            let which = *which as usize;
            let template = self.templates.get(which);
            let first = self.used;
            self.used += template.len().div_ceil(LINE).max(1);
            while self.lines.len() < self.used {
                self.lines.push([0; LINE]);
            }
            let frame = self.lines.get_mut(first..self.used).unwrap_or_default();
            frame.fill([0; LINE]);
            let frame = frame.as_flattened_mut().get_mut(..template.len());
            let frame = frame.unwrap_or_default();
            frame.copy_from_slice(template);
            if which >= self.strangers.known {
                (self.strangers.vary).apply(frame, *number, *number / self.others);
                *number += 1;
            }
            self.spans.push((first as u32, template.len() as u32));
        }
        for n in self.numbers.len()..self.spans.len() {
            self.numbers.push(n as u32);
        }
    }

    /// Fills packets with the frames that come next, and asks for those behind them.
    pub fn fill(&mut self, packets: &mut [Pkt], at: Timestamp) {
        let from = self.next;
        let to = (from + packets.len()).min(self.spans.len());
        let behind = (to + packets.len()).min(self.spans.len());
        self.next = to;
        let numbers = |a, b| self.numbers.get(a..b).unwrap_or_default();
        if let Some((_, len)) = self.templates.lines() {
            // each has a line
            let which = (numbers(from, to), numbers(to, behind));
            return refill_lines(packets, &self.lines, len, which, at);
        }
        let spans = |a, b| self.spans.get(a..b).unwrap_or_default();
        for (line, _) in spans(to, behind) {
            if let Some(l) = self.lines.get(*line as usize) {
                prefetch(l);
            }
        }
        for (p, (line, len)) in packets.iter_mut().zip(spans(from, to)) {
            let at_line = *line as usize * LINE;
            let bytes = self.lines.as_flattened();
            p.refill(
                bytes
                    .get(at_line..at_line + *len as usize)
                    .unwrap_or_default(),
            );
            p.anno.timestamp = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::unseen::{Vary, frame_of};
    use super::*;
    use crate::rng::Rng;
    use onefold_packet::Packet;

    /// A frame of any kind.
    fn frame(rng: &mut Rng) -> Vec<u8> {
        let (a, b, r) = (rng.bits(), rng.bits(), rng.bits());
        let tcp = (r & 1 == 0).then_some(0x02);
        let len = [60, 64, 61, 300][(r >> 8) as usize % 4];
        let ports = (a as u16, (a >> 16) as u16);
        let mut f = frame_of(b as u32, (b >> 32) as u32, ports.0, ports.1, tcp, len);
        match r >> 16 & 15 {
            0 => f.truncate(41 + (r >> 20) as usize % 15),
            1 => f[12] ^= 1,
            2 => f[14] ^= 1,
            3 => f[23] = 1,
            4 => f[40..42].fill(0),
            _ => {}
        }
        f
    }

    #[test]
    fn a_batch_is_filled_with_what_its_frames_become() {
        let mut rng = Rng::stream(5, 1);
        for turn in 0..200u64 {
            // lanes of one length and of several; all strangers, some, or one
            let n = 1 + rng.below(70) as usize;
            let mut frames: Vec<Vec<u8>> = (0..n).map(|_| frame(&mut rng)).collect();
            if turn % 3 != 0 {
                let len = 40 + rng.below(60) as usize;
                frames.iter_mut().for_each(|f| f.resize(len, 7));
            }
            let templates = Templates::new(&frames, 1);
            let b = rng.bits();
            let strangers = Unseen {
                known: [0, n / 2, n - 1][(b >> 8) as usize % 3],
                share: 1.0,
                vary: Vary {
                    src: (b >> 32) as u32,
                    dst: if b & 1 == 0 { 0 } else { !0 },
                    sport: if b & 2 == 0 { 0 } else { !0 },
                    dport: (b >> 48) as u16,
                },
            };
            let mut e = UnseenFrames::new(&strangers, &templates);
            let others = (n - strangers.known) as u64;
            let mut number = rng.below(1000);
            for round in 0..3 {
                e.clear();
                let mut at = number;
                let batches: Vec<Vec<u32>> = (0..1 + round)
                    .map(|_| (0..64).map(|_| rng.below(n as u64) as u32).collect())
                    .collect();
                for these in &batches {
                    e.write(these, &mut number);
                }
                for these in &batches {
                    let mut packets: Vec<Pkt> = these
                        .iter()
                        .map(|_| Box::new(Packet::from_slice(&[9; 40])))
                        .collect();
                    e.fill(&mut packets, Timestamp(7));
                    for (p, which) in packets.iter().zip(these) {
                        let which = *which as usize;
                        let mut f = frames[which].clone();
                        if which >= strangers.known {
                            strangers.vary.apply(&mut f, at, at / others);
                            at += 1;
                        }
                        assert_eq!(p.data(), f, "{:?}", strangers.vary);
                        assert_eq!(p.anno.timestamp, Timestamp(7));
                    }
                }
                assert_eq!(number, at);
            }
        }
    }
}
