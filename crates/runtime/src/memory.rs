//! Frames in memory: read before the clock starts, kept as they leave.

use crate::port::{Port, PortError, Progress};
use onefold_packet::{Pkt, Timestamp};
use onefold_table::HugeVec;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A frame's time, its first line, and how many bytes it has.
#[derive(Debug, Clone, Copy)]
struct Head {
    at: Timestamp,
    line: u32,
    len: u32,
}

/// A cache line; lists of them begin at one.
type Line = [u8; LINE];

/// Frames one after the other on huge pages, each at the beginning of a cache line: short ones are copied as one line,
/// whatever their length is.
/// Bound: four billion lines.
#[derive(Debug, Clone, Default)]
struct Frames {
    heads: Vec<Head>,
    lines: HugeVec<Line>,
    /// Of all frames together.
    bytes: u64,
}

impl Frames {
    /// False where there is no room for more.
    fn push(&mut self, at: Timestamp, frame: &[u8]) -> bool {
        let (Ok(line), Ok(len)) = (u32::try_from(self.lines.len()), u32::try_from(frame.len()))
        else {
            return false;
        };
        for part in frame.chunks(LINE) {
            let mut line = [0; LINE];
            line.iter_mut().zip(part).for_each(|(to, b)| *to = *b);
            self.lines.push(line);
        }
        self.heads.push(Head { at, line, len });
        self.bytes += u64::from(len);
        true
    }
    /// A frame's lines; none of an empty one.
    #[inline]
    fn lines(&self, h: Head) -> &[Line] {
        let (from, n) = (h.line as usize, (h.len as usize).div_ceil(LINE));
        self.lines.get(from..from + n).unwrap_or_default()
    }
    /// A frame's bytes.
    #[inline]
    fn bytes_of(&self, h: Head) -> &[u8] {
        let all = self.lines(h).as_flattened();
        all.get(..h.len as usize).unwrap_or(all)
    }
    fn get(&self, i: usize) -> Option<(Timestamp, &[u8])> {
        let h = *self.heads.get(i)?;
        Some((h.at, self.bytes_of(h)))
    }
}

/// A port whose packets lie in memory, and that keeps what leaves there, or counts it only.
#[derive(Debug, Clone, Default)]
pub struct MemoryPort {
    arriving: Frames,
    /// The next one to arrive.
    next: usize,
    /// Bytes of those that have arrived.
    read: u64,
    left: Frames,
    keeps: bool,
}

impl MemoryPort {
    /// Nothing arrives; `keeps`: what leaves can be read afterwards ([`MemoryPort::left`]).
    pub fn new(keeps: bool) -> MemoryPort {
        MemoryPort {
            keeps,
            ..MemoryPort::default()
        }
    }

    /// One more frame arrives, behind all others. False where there is no room for more.
    pub fn push(&mut self, at: Timestamp, frame: &[u8]) -> bool {
        self.arriving.push(at, frame)
    }

    /// Frames that arrive.
    pub fn len(&self) -> usize {
        self.arriving.heads.len()
    }

    /// None does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has left, in order, with its time.
    pub fn left(&self) -> impl Iterator<Item = (Timestamp, &[u8])> {
        (0..self.left.heads.len()).filter_map(|i| self.left.get(i))
    }
}

impl Port for MemoryPort {
    fn next_at(&mut self) -> Option<Timestamp> {
        self.arriving.heads.get(self.next).map(|h| h.at)
    }
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize) {
        let rest = self.arriving.heads.get(self.next..).unwrap_or_default();
        let mut taken = 0;
        for h in rest.iter().take(n) {
            if h.at >= until {
                break;
            }
            let Some(mut p) = free.pop() else { break };
            match self.arriving.lines(*h) {
                [line] => p.refill_line(line, h.len as usize, h.at),
                _ => {
                    p.refill(self.arriving.bytes_of(*h));
                    p.anno.timestamp = h.at;
                }
            }
            batch.push(p);
            taken += 1;
        }
        let passed = self.arriving.heads.get(self.next..self.next + taken);
        self.read += passed
            .unwrap_or_default()
            .iter()
            .map(|h| u64::from(h.len))
            .sum::<u64>();
        self.next += taken;
    }
    fn transmit(&mut self, packets: &[Pkt], now: Timestamp) -> Result<(), PortError> {
        if self.keeps {
            for p in packets {
                let at = match p.anno.timestamp.is_set() {
                    true => p.anno.timestamp,
                    false => now,
                };
                self.left.push(at, p.data());
            }
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn progress(&self) -> Progress {
        Progress {
            read: self.read,
            total: Some(self.arriving.bytes),
        }
    }
}
