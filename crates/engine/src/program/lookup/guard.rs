//! Tests that most packets pass in the same way, on the packet's bytes as they lie there.
//!
//! What all rules of a view ask alike (an Ethernet type, a version, a good header) is compared eight bytes at a time; single
//! ranges are one subtraction and one comparison each. A guard may say no to a packet that fits (one so short that eight bytes
//! cannot be read), never yes to one that does not.

use super::super::checks;
use super::super::regs::{Bits, Regs, Source, end_of};
use super::rules::Field;
use onefold_elements::model::{HeaderCheck, ValueSet, max_of};
use onefold_packet::{Packet, checksum};
use onefold_synth::program::EndAt;

/// Eight bytes of the packet, some of which count.
#[derive(Debug, Clone, Copy)]
struct Word {
    at: i32,
    mask: u64,
    value: u64,
}

/// `(value - lo) & mask <= span`, of a value within eight bytes.
#[derive(Debug, Clone, Copy)]
struct Range {
    at: i32,
    shift: u8,
    mask: u64,
    lo: u64,
    span: u64,
}

/// Of a value that is no part of the packet, or of one in more than eight bytes.
#[derive(Debug, Clone, Copy)]
struct Other {
    source: Source,
    reg: u16,
    mask: u64,
    lo: u64,
    span: u64,
}

/// A good IPv4 header: it fits, its sum is right, or both.
#[derive(Debug, Clone, Copy)]
struct Check {
    check: HeaderCheck,
    at: i32,
    end: EndAt,
    is: bool,
}

/// A conjunction of tests.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    len: Option<(u64, u64)>,
    words: Box<[Word]>,
    ranges: Box<[Range]>,
    others: Box<[Other]>,
    checks: Box<[Check]>,
}

/// Can a guard ask for this set? What goes round the end counts as one interval.
fn ring(set: &ValueSet, bits: u8) -> Option<(u64, u64)> {
    if bits > 64 {
        return None;
    }
    let max = max_of(bits);
    let (lo, hi) = match *set.intervals() {
        [(lo, hi)] => (lo, hi),
        [(0, a), (b, end)] if end == max => (b, a),
        _ => return None,
    };
    let span = hi.wrapping_sub(lo) & max;
    Some((lo as u64, span as u64))
}

impl Guard {
    /// `None` if it cannot ask for one of the sets.
    pub fn new(of: &[(&Field, &ValueSet)]) -> Option<Guard> {
        let (mut len, mut ranges, mut others, mut checks) =
            (None, Vec::new(), Vec::new(), Vec::new());
        // (last byte, first byte, mask and value as they stand at the end of 64 bits)
        let mut exact: Vec<(i32, i32, u64, u64)> = Vec::new();
        for (f, set) in of {
            let (lo, span) = ring(set, f.bits)?;
            let mask = max_of(f.bits) as u64;
            match f.source {
                Source::Len => len = Some((lo, span)),
                Source::Check(check, at, end) => {
                    // 0 to 1 is everything
                    if span == 0 {
                        checks.push(Check {
                            check,
                            at,
                            end,
                            is: lo == 1,
                        });
                    }
                }
                Source::Bits(b) if b.bytes() <= 8 => {
                    let (first, last, shift) =
                        (b.first(), b.first() + i32::from(b.bytes()), b.shift());
                    match span {
                        0 => exact.push((last, first, mask << shift, lo << shift)),
                        _ => ranges.push(Range {
                            // the eight bytes that end with it, or begin with the packet
                            at: (last - 8).max(first.min(0)),
                            shift: shift + 8 * ((last - 8).max(first.min(0)) + 8 - last) as u8,
                            mask,
                            lo,
                            span,
                        }),
                    }
                }
                source => others.push(Other {
                    source,
                    reg: f.reg,
                    mask,
                    lo,
                    span,
                }),
            }
        }
        exact.sort_by_key(|e| (std::cmp::Reverse(e.0), e.1));
        let mut words: Vec<Word> = Vec::new();
        for (last, first, mask, value) in exact {
            let joins = |w: &Word| w.at <= first && last <= w.at + 8;
            let i = match words.iter().position(joins) {
                Some(i) => i,
                None => {
                    words.push(Word {
                        at: (last - 8).max(first.min(0)),
                        mask: 0,
                        value: 0,
                    });
                    words.len() - 1
                }
            };
            let w = &mut words[i];
            let up = 8 * (w.at + 8 - last) as u32;
            let (mask, value) = (mask << up, value << up);
            if w.value & mask & w.mask != value & w.mask {
                // two fields that overlap and contradict each other: nothing passes; who makes guards makes none of these
                return None;
            }
            w.mask |= mask;
            w.value |= value;
        }
        // what sums the payload comes last
        checks.sort_by_key(|c: &Check| match c.check {
            HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits => 0,
            HeaderCheck::Ip4Checksum => 1,
            HeaderCheck::UdpFits => 2,
            _ => 3,
        });
        Some(Guard {
            len,
            words: words.into(),
            ranges: ranges.into(),
            others: others.into(),
            checks: checks.into(),
        })
    }

    /// How many tests.
    pub fn tests(&self) -> usize {
        usize::from(self.len.is_some())
            + self.words.len()
            + self.ranges.len()
            + self.others.len()
            + self.checks.len()
    }

    /// Does a packet pass?
    #[inline]
    pub fn passes(&self, p: &Packet, buf: &[u8], head: usize, regs: &Regs) -> bool {
        let eight = |at: i32| -> Option<u64> {
            let b = buf.get(head.wrapping_add_signed(at as isize)..)?;
            Some(u64::from_be_bytes(*b.first_chunk::<8>()?))
        };
        if let Some((lo, span)) = self.len
            && (((buf.len() - head) as u64).wrapping_sub(lo) & 0xffff_ffff) > span
        {
            return false;
        }
        for w in &self.words {
            match eight(w.at) {
                Some(v) if v & w.mask == w.value => {}
                _ => return false,
            }
        }
        for r in &self.ranges {
            match eight(r.at) {
                Some(v) if (v >> r.shift).wrapping_sub(r.lo) & r.mask <= r.span => {}
                _ => return false,
            }
        }
        for o in &self.others {
            let v = match o.source {
                Source::Slot => regs.v.get(usize::from(o.reg)).map_or(0, |v| *v),
                s => s.read(p),
            };
            if (v as u64).wrapping_sub(o.lo) & o.mask > o.span {
                return false;
            }
        }
        self.checks.iter().all(|c| c.holds(buf, head) == c.is)
    }
}

impl Check {
    #[inline]
    fn holds(&self, buf: &[u8], head: usize) -> bool {
        let at = head.wrapping_add_signed(self.at as isize);
        // an option-free header whose end nobody has moved
        if self.end == EndAt::Same
            && let Some(h) = buf.get(at..).and_then(|b| b.first_chunk::<20>())
        {
            match self.check {
                HeaderCheck::Ip4Fits => {
                    return usize::from(u16::from_be_bytes([h[2], h[3]])) <= buf.len() - at;
                }
                HeaderCheck::Ip4Checksum if h[0] & 15 <= 5 => return checksum::header_ok(h),
                _ => {}
            }
        }
        let end = end_of(self.end, buf, head);
        checks::holds(self.check, buf, head, self.at, end)
    }
}

/// Bits that a guard or a column reads with one load.
pub(super) fn one_load(b: &Bits) -> (i32, u8) {
    let (first, last) = (b.first(), b.first() + i32::from(b.bytes()));
    let at = (last - 8).max(first.min(0));
    (at, b.shift() + 8 * (at + 8 - last) as u8)
}
