//! Packets again: what another source sends, and packets of the same flows behind it, as they were or a little
//! different.
//!
//! A flow table only matters to a flow's later packets. So after each frame come some that were there before: soon, or
//! much later; alone, or a few in a batch; the same, or with another time to live, length, service, flags, checksum, or
//! cut off, at or beside the values at which guards change.

use super::Source;
use crate::event::Event;
use crate::rng::Rng;
use crate::subject::Outputs;
use onefold_engine::program::ProgramStep;
use onefold_packet::checksum;

/// Frames that are kept to come again.
const KEPT: usize = 512;
/// Most frames of a batch.
const BATCH: usize = 8;

/// See the module's text.
pub struct Again<'a> {
    inner: &'a mut dyn Source,
    rng: Rng,
    kept: Vec<Event>,
    last: Option<Event>,
    /// Frames that come before the other source is asked again.
    left: usize,
    /// The event under way is not the other source's.
    mine: bool,
}

impl<'a> Again<'a> {
    /// Behind this source.
    pub fn new(inner: &'a mut dyn Source, seed: u64) -> Again<'a> {
        Again {
            inner,
            rng: Rng::new(seed ^ 0x0a6a_1400),
            kept: Vec::new(),
            last: None,
            left: 0,
            mine: false,
        }
    }

    /// One that was there before.
    fn again(&mut self) -> Option<Event> {
        let last = self.last.as_ref()?;
        // mostly the latest flow, else any of those that are kept
        let e = match self.rng.below(3) {
            0 => {
                let i = self.rng.below(self.kept.len());
                self.kept.get(i)?
            }
            _ => last,
        };
        let mut e = e.clone();
        e.at = last.at;
        e.answers = None;
        // a batch of one source's frames, one after the other
        let before = (last.source == e.source) && self.mine;
        e.joined = before && self.rng.below(BATCH) > 0;
        if self.rng.below(2) == 0 {
            vary(&mut e.bytes, &mut self.rng);
        }
        Some(e)
    }
}

impl Source for Again<'_> {
    fn next(&mut self) -> Option<Event> {
        if self.left > 0 {
            self.left -= 1;
            if let Some(e) = self.again() {
                self.mine = true;
                self.last = Some(e.clone());
                return Some(e);
            }
        }
        self.mine = false;
        let e = self.inner.next()?;
        if e.source.is_some() {
            self.left = match self.rng.below(4) {
                0 => 0,
                1 => self.rng.below(4),
                _ => self.rng.below(2 * BATCH),
            };
            self.last = Some(e.clone());
            match self.kept.len() < KEPT {
                true => self.kept.push(e.clone()),
                false => {
                    let i = self.rng.below(KEPT);
                    if let Some(k) = self.kept.get_mut(i) {
                        *k = e.clone();
                    }
                }
            }
        } else {
            self.left = 0;
        }
        Some(e)
    }

    fn watches(&self) -> bool {
        !self.mine && self.inner.watches()
    }

    fn seen(&mut self, events: &[Event], outputs: &Outputs, steps: &[ProgramStep]) {
        if !self.mine {
            self.inner.seen(events, outputs, steps);
        }
    }
}

/// First byte of an IPv4 or IPv6 header, and which.
fn ip_header(b: &[u8]) -> Option<(usize, bool)> {
    let kind = |at: usize| {
        b.get(at..)?
            .first_chunk::<2>()
            .map(|k| u16::from_be_bytes(*k))
    };
    let at = match kind(12)? {
        0x8100 | 0x88a8 => 18,
        _ => 14,
    };
    match kind(at - 2)? {
        0x0800 if b.len() >= at + 20 => Some((at, false)),
        0x86dd if b.len() >= at + 40 => Some((at, true)),
        _ => None,
    }
}

/// Makes the IPv4 header's checksum right.
fn update_checksum(b: &mut [u8], at: usize) {
    let len = usize::from(b[at] & 15) * 4;
    if let Some(h) = b.get_mut(at..at + len.max(20)) {
        h[10..12].fill(0);
        let sum = checksum::internet(h);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Something about a frame is different, but not its flow (mostly).
fn vary(b: &mut Vec<u8>, rng: &mut Rng) {
    let Some((at, v6)) = ip_header(b) else {
        return;
    };
    let l4 = at + if v6 { 40 } else { 20 };
    let byte = |b: &mut Vec<u8>, i: usize, v: u8| {
        if let Some(x) = b.get_mut(i) {
            *x = v;
        }
    };
    let small = rng.below(14) as u8;
    match rng.below(12) {
        // time to live, around the lengths of chains
        0 | 1 => byte(b, if v6 { at + 7 } else { at + 8 }, small),
        2 => byte(b, if v6 { at + 7 } else { at + 8 }, rng.below(256) as u8),
        // service
        3 => match v6 {
            true => byte(b, at + 1, (rng.below(256)) as u8),
            false => byte(b, at + 1, rng.below(256) as u8),
        },
        // do not fragment, more fragments
        4 if !v6 => byte(b, at + 6, (rng.below(8) as u8) << 5),
        // flags of TCP
        5 | 6 => {
            let flags = [0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x14, 0x00, 0xff];
            if let Some(f) = rng.pick(&flags) {
                byte(b, l4 + 13, *f);
            }
        }
        // payload
        7 | 8 => {
            let more = rng.below(40);
            b.extend(std::iter::repeat_n(small, more));
            let total = b.len() - at;
            let (field, total) = match v6 {
                true => (at + 4, total - 40),
                false => (at + 2, total),
            };
            if let Some(f) = b.get_mut(field..field + 2) {
                f.copy_from_slice(&(total as u16).to_be_bytes());
            }
        }
        // padding behind the packet, or less than it says
        9 => {
            let n = b.len() + rng.below(9);
            let n = n.saturating_sub(rng.below(9)).max(14);
            b.resize(n, 0);
        }
        // transport checksum: none, both zeros, any
        10 => {
            let v = match rng.below(4) {
                0 => 0,
                1 => 0xffff,
                _ => rng.below(0x1_0000) as u16,
            };
            let field = match b.get(if v6 { at + 6 } else { at + 9 }) {
                Some(6) => l4 + 16,
                _ => l4 + 6,
            };
            if let Some(f) = b.get_mut(field..field + 2) {
                f.copy_from_slice(&v.to_be_bytes());
            }
        }
        // identification, and so another header checksum
        _ => {
            byte(b, at + 4, rng.below(256) as u8);
            byte(b, at + 5, small);
        }
    }
    if !v6 && b.len() >= at + 20 && rng.below(16) > 0 {
        update_checksum(b, at);
    }
}
