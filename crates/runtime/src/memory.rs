//! Frames in memory: read before the clock starts, kept as they leave.

use crate::port::{Port, PortError, Progress};
use onefold_packet::{LineSpan, Pkt, Timestamp, refill_spans};
use onefold_table::HugeVec;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Frames that a port with [`Keep::Recent`] has room for.
const RECENT_FRAMES: usize = 1 << 12;
/// Cache lines that it has room for: 256 KiB. What a device's ring takes is in the cache, too (of the second level
/// here: the third one cost 5 ns a packet).
const RECENT_LINES: usize = 1 << 12;
/// Lines of the longest frame that it keeps.
const RECENT_LONGEST: usize = RECENT_LINES / 4;

/// A cache line; lists of them begin at one.
type Line = [u8; LINE];

/// Frames one after the other on huge pages, each at the beginning of a cache line: short ones are copied as one line,
/// whatever their length is.
/// Bound: four billion lines.
#[derive(Debug, Clone, Default)]
struct Frames {
    spans: Vec<LineSpan>,
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
        let (whole, rest) = frame.as_chunks::<LINE>();
        for part in whole {
            self.lines.push(*part);
        }
        if !rest.is_empty() {
            let mut line = [0; LINE];
            line.iter_mut().zip(rest).for_each(|(to, b)| *to = *b);
            self.lines.push(line);
        }
        self.spans.push(LineSpan { at, line, len });
        self.bytes += u64::from(len);
        true
    }
    fn iter(&self) -> impl Iterator<Item = (Timestamp, &[u8])> {
        self.spans.iter().map(|s| (s.at, s.bytes(&self.lines)))
    }
}

/// The frames that came last, in memory that is written over and over.
#[derive(Debug, Clone)]
struct Recent {
    spans: Box<[LineSpan]>,
    lines: HugeVec<Line>,
    /// Frames that were ever put in.
    frames: u64,
    /// The line that is written next.
    next: usize,
    /// Lines that were written over since the frame of this place was put in are more than there are: it is gone. By
    /// place, the number of all lines ever passed before it.
    begun: Box<[u64]>,
    /// Lines ever passed.
    passed: u64,
}

impl Recent {
    fn new() -> Recent {
        Recent {
            spans: vec![LineSpan::default(); RECENT_FRAMES].into(),
            lines: std::iter::repeat_n([0; LINE], RECENT_LINES).collect(),
            frames: 0,
            next: 0,
            begun: vec![0; RECENT_FRAMES].into(),
            passed: 0,
        }
    }

    /// Puts one in; the oldest ones go. A frame longer than a quarter of the memory is cut.
    #[inline]
    fn push(&mut self, at: Timestamp, p: &Pkt) {
        let frame = p.data();
        let frame = frame.get(..RECENT_LONGEST * LINE).unwrap_or(frame);
        let n = frame.len().div_ceil(LINE);
        if self.next + n > RECENT_LINES {
            // frames lie in one piece
            self.passed += (RECENT_LINES - self.next) as u64;
            self.next = 0;
        }
        let line = self.next;
        if let Some(to) = self.lines.get_mut(line..line + n) {
            match (to, p.window::<LINE>()) {
                // as much as there is of the line, without asking how much that is
                ([to], Some(from)) => *to = *from,
                (to, _) => {
                    let to = to.as_flattened_mut().get_mut(..frame.len());
                    to.unwrap_or_default().copy_from_slice(frame);
                }
            }
        }
        let place = self.frames as usize % RECENT_FRAMES;
        if let (Some(span), Some(begun)) = (self.spans.get_mut(place), self.begun.get_mut(place)) {
            let len = frame.len() as u32;
            *span = LineSpan {
                at,
                line: line as u32,
                len,
            };
            *begun = self.passed;
        }
        self.passed += n as u64;
        self.next += n;
        self.frames += 1;
    }

    /// Those that are still there, in order.
    fn iter(&self) -> impl Iterator<Item = (Timestamp, &[u8])> {
        let first = self.frames.saturating_sub(RECENT_FRAMES as u64);
        let place = |i: u64| i as usize % RECENT_FRAMES;
        let there = move |i: &u64| {
            let begun = self.begun.get(place(*i)).copied().unwrap_or(0);
            self.passed - begun <= RECENT_LINES as u64
        };
        let all = (first..self.frames).filter(there);
        all.filter_map(move |i| {
            let s = self.spans.get(place(i))?;
            Some((s.at, s.bytes(&self.lines)))
        })
    }
}

/// What becomes of frames that leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// They are counted.
    Nothing,
    /// The last ones can be read: 4,096 frames, or 256 KiB of them, whichever is less. The memory is made before the
    /// clock starts.
    Recent,
    /// All of them can be read.
    All,
}

#[derive(Debug, Clone)]
enum Kept {
    Nothing,
    Recent(Box<Recent>),
    All(Frames),
}

/// A port whose packets lie in memory, and that keeps what leaves there, or counts it only.
#[derive(Debug, Clone)]
pub struct MemoryPort {
    arriving: Frames,
    /// The next one to arrive.
    next: usize,
    /// Bytes of those that have arrived.
    read: u64,
    kept: Kept,
}

impl MemoryPort {
    /// Nothing arrives; `keep`: what can be read afterwards ([`MemoryPort::left`]).
    pub fn new(keep: Keep) -> MemoryPort {
        MemoryPort {
            arriving: Frames::default(),
            next: 0,
            read: 0,
            kept: match keep {
                Keep::Nothing => Kept::Nothing,
                Keep::Recent => Kept::Recent(Box::new(Recent::new())),
                Keep::All => Kept::All(Frames::default()),
            },
        }
    }

    /// One more frame arrives, behind all others. False where there is no room for more.
    pub fn push(&mut self, at: Timestamp, frame: &[u8]) -> bool {
        self.arriving.push(at, frame)
    }

    /// Frames that arrive.
    pub fn len(&self) -> usize {
        self.arriving.spans.len()
    }

    /// None does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first one is the next one to arrive.
    pub fn rewind(&mut self) {
        (self.next, self.read) = (0, 0);
    }

    /// Passes over the next frames to arrive, so many, from the first one again behind the last: their bytes.
    /// Bound: a step for each.
    pub fn skip(&mut self, frames: u64) -> u64 {
        let mut bytes = 0;
        for _ in 0..frames {
            let Some(s) = self.arriving.spans.get(self.next) else {
                break;
            };
            bytes += u64::from(s.len);
            self.read += u64::from(s.len);
            self.next += 1;
            if self.next == self.len() {
                self.rewind();
            }
        }
        bytes
    }

    /// What has left and was kept, in order, with its time.
    pub fn left(&self) -> Box<dyn Iterator<Item = (Timestamp, &[u8])> + '_> {
        match &self.kept {
            Kept::Nothing => Box::new(std::iter::empty()),
            Kept::Recent(r) => Box::new(r.iter()),
            Kept::All(f) => Box::new(f.iter()),
        }
    }
}

impl Port for MemoryPort {
    fn next_at(&mut self) -> Option<Timestamp> {
        self.arriving.spans.get(self.next).map(|h| h.at)
    }
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize) {
        let rest = self.arriving.spans.get(self.next..).unwrap_or_default();
        let n = n.min(rest.len()).min(free.len());
        let (mut come, mut bytes) = (0, 0);
        for s in rest.iter().take(n).take_while(|s| s.at < until) {
            come += 1;
            bytes += u64::from(s.len);
        }
        let (these, behind) = rest.split_at(come);
        let ahead = behind.get(..come).unwrap_or(behind);
        let from = batch.len();
        batch.extend(free.drain(free.len() - come..));
        let packets = batch.get_mut(from..).unwrap_or_default();
        refill_spans(packets, &self.arriving.lines, (these, ahead));
        self.read += bytes;
        self.next += come;
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        let at = |p: &Pkt| match p.anno.timestamp.is_set() {
            true => p.anno.timestamp,
            false => now,
        };
        match &mut self.kept {
            Kept::Nothing => {}
            Kept::Recent(r) => packets.iter().for_each(|p| r.push(at(p), p)),
            Kept::All(f) => packets.iter().for_each(|p| {
                f.push(at(p), p.data());
            }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_packet::Packet;

    #[test]
    fn the_last_ones_are_there_and_whole() {
        let mut p = MemoryPort::new(Keep::Recent);
        let frame = |i: usize| vec![i as u8; [60, 64, 65, 1514, 0][i % 5]];
        for (n, least) in [(100, 100), (6_000, 400), (6_007, 400)] {
            let have = match &p.kept {
                Kept::Recent(r) => r.frames as usize,
                _ => 0,
            };
            let mut leaving: Vec<Pkt> = (have..n)
                .map(|i| {
                    let mut p = Box::new(Packet::from_slice(&frame(i)));
                    p.anno.timestamp = Timestamp(i as i64 + 1);
                    p
                })
                .collect();
            assert!(p.transmit(&mut leaving, Timestamp::ZERO).is_ok());
            let left: Vec<_> = p.left().collect();
            assert!(left.len() >= least && left.len() <= RECENT_FRAMES);
            for (k, (at, bytes)) in left.iter().enumerate() {
                let i = n - left.len() + k;
                assert_eq!((at.0, *bytes), (i as i64 + 1, &frame(i)[..]), "{i} of {n}");
            }
        }
        let mut long = vec![Box::new(Packet::from_slice(&vec![3; 1 << 20]))];
        assert!(p.transmit(&mut long, Timestamp(7)).is_ok());
        let last = p.left().last().map(|(at, b)| (at, b.len()));
        assert_eq!(last, Some((Timestamp(7), RECENT_LONGEST * LINE)));
    }
}
