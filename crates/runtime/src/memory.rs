//! Frames in memory: read before the clock starts, kept as they leave.

use crate::port::{Port, PortError, Progress};
use onefold_packet::{Pkt, Timestamp};

/// A frame's time, and where its bytes end.
#[derive(Debug, Clone, Copy)]
struct Head {
    at: Timestamp,
    end: usize,
}

/// Frames one after the other, in one piece of memory.
#[derive(Debug, Clone, Default)]
struct Frames {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

impl Frames {
    fn push(&mut self, at: Timestamp, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.heads.push(Head {
            at,
            end: self.bytes.len(),
        });
    }
    fn start(&self, i: usize) -> usize {
        match i {
            0 => 0,
            _ => self.heads.get(i - 1).map_or(0, |h| h.end),
        }
    }
    fn get(&self, i: usize) -> Option<(Timestamp, &[u8])> {
        let h = self.heads.get(i)?;
        Some((h.at, self.bytes.get(self.start(i)..h.end)?))
    }
}

/// A port whose packets lie in memory, and that keeps what leaves there, or counts it only.
#[derive(Debug, Clone, Default)]
pub struct MemoryPort {
    arriving: Frames,
    /// The next one to arrive.
    next: usize,
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

    /// One more frame arrives, behind all others.
    pub fn push(&mut self, at: Timestamp, frame: &[u8]) {
        self.arriving.push(at, frame);
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
        let mut start = self.arriving.start(self.next);
        let rest = self.arriving.heads.get(self.next..).unwrap_or_default();
        let mut taken = 0;
        for h in rest.iter().take(n) {
            if h.at >= until {
                break;
            }
            let (Some(mut p), Some(frame)) = (free.pop(), self.arriving.bytes.get(start..h.end))
            else {
                break;
            };
            p.refill(frame);
            p.anno.timestamp = h.at;
            batch.push(p);
            start = h.end;
            taken += 1;
        }
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
            read: self.arriving.start(self.next) as u64,
            total: Some(self.arriving.bytes.len() as u64),
        }
    }
}
