//! Tests that most packets pass in the same way, on the packet's bytes as they lie there.
//!
//! What all rules of a view ask alike (an Ethernet type, a version, a TTL) is mostly within the packet's first 32 bytes. Those are
//! taken as 16 numbers of 16 bits, all compared at once ([`Round`]); other fields are one load each. A guard may say no to a packet
//! that fits (one so short that it cannot be read that way), never yes to one that does not.

use crate::program::headers::checks;
use crate::program::headers::registers::{Bits, Regs, Source, end_of};
use crate::program::headers::rows;
use crate::program::headers::rows::Row;
use crate::program::lookup::rules::Field;
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_packet::{Packet, checksum};
use onefold_synth::program::EndAt;

/// Numbers that are compared at once, and their bytes.
const LANES: usize = 16;
const WINDOW: usize = 2 * LANES;

/// `(number - lo) & mask <= span` for each number of the window. A field's bits are where they are in its number; of `lo`, `mask`
/// and `span` all others are zero, so that nothing is borrowed from below, and what is borrowed from above does not count.
#[derive(Debug, Clone, Copy)]
struct Round {
    lo: [u16; LANES],
    mask: [u16; LANES],
    span: [u16; LANES],
}

const ANY: Round = Round {
    lo: [0; LANES],
    mask: [0; LANES],
    span: [0; LANES],
};

/// A test within one number of the window.
#[derive(Debug, Clone, Copy)]
struct LaneTest {
    lane: usize,
    lo: u16,
    mask: u16,
    span: u16,
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

/// An answer about a header.
#[derive(Debug, Clone, Copy)]
struct Check {
    check: HeaderCheck,
    at: i32,
    end: EndAt,
    is: bool,
}

/// A good IPv4 header at this byte: it fits, its sum is right (and it has no options), or both.
#[derive(Debug, Clone, Copy)]
struct Ip4 {
    at: usize,
    fits: bool,
    sum: bool,
}

/// A conjunction of tests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    len: Option<(u32, u32)>,
    rounds: Box<[Round]>,
    ranges: Box<[Range]>,
    ip4: Option<Ip4>,
    others: Box<[Other]>,
    checks: Box<[Check]>,
    fields: usize,
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

/// The tests that a field comes apart into, if it lies within the window; a range only if within one number.
fn lanes(b: &Bits, (lo, span): (u64, u64), bits: u8) -> Option<Vec<LaneTest>> {
    let last = b.first() + i32::from(b.bytes());
    if b.first() < 0 || last > WINDOW as i32 {
        return None;
    }
    // the first bit behind the field, and where it begins
    let end = last as usize * 8 - usize::from(b.shift());
    let begin = end - usize::from(bits);
    let mut all = Vec::new();
    for lane in begin / 16..end.div_ceil(16) {
        let (from, to) = (begin.max(lane * 16), end.min(lane * 16 + 16));
        let up = lane * 16 + 16 - to;
        let mask = (((1u32 << (to - from)) - 1) << up) as u16;
        let part = |v: u64| (((v >> (end - to)) << up) as u16) & mask;
        all.push(LaneTest {
            lane,
            lo: part(lo),
            mask,
            span: part(span),
        });
    }
    (span == 0 || all.len() == 1).then_some(all)
}

/// Puts tests into as few rounds as will do; `None` if two of them contradict each other.
fn rounds(mut all: Vec<LaneTest>) -> Option<Vec<Round>> {
    // values that are known exactly share a number
    all.sort_by_key(|l| (l.lane, l.span > 0));
    let mut rounds: Vec<Round> = Vec::new();
    for l in all {
        let free = |r: &Round| {
            let (mask, span) = (r.mask[l.lane], r.span[l.lane]);
            mask == 0 || (l.span == 0 && span == 0)
        };
        let i = match rounds.iter().position(free) {
            Some(i) => i,
            None => {
                rounds.push(ANY);
                rounds.len() - 1
            }
        };
        let r = &mut rounds[i];
        if r.lo[l.lane] & l.mask != l.lo & r.mask[l.lane] {
            return None;
        }
        r.lo[l.lane] |= l.lo;
        r.mask[l.lane] |= l.mask;
        r.span[l.lane] |= l.span;
    }
    Some(rounds)
}

impl Guard {
    /// `None` if it cannot ask for one of the sets.
    pub fn new(of: &[(&Field, &ValueSet)]) -> Option<Guard> {
        let mut g = Guard {
            fields: of.len(),
            ..Guard::default()
        };
        let (mut window, mut ranges, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut checks = Vec::new();
        for (f, set) in of {
            let (lo, span) = ring(set, f.bits)?;
            let mask = max_of(f.bits) as u64;
            match f.source {
                Source::Len => g.len = Some((lo as u32, span as u32)),
                // 0 to 1 is everything
                Source::Check(..) if span > 0 => {}
                Source::Check(check, at, end) => {
                    let is = lo == 1;
                    let plain = is && end == EndAt::Same && (0..=64).contains(&at);
                    let first = g.ip4.is_none_or(|i| i.at as i32 == at);
                    match check {
                        HeaderCheck::Ip4Fits | HeaderCheck::Ip4Checksum if plain && first => {
                            let ip4 = g.ip4.get_or_insert(Ip4 {
                                at: at as usize,
                                fits: false,
                                sum: false,
                            });
                            match check {
                                HeaderCheck::Ip4Fits => ip4.fits = true,
                                _ => ip4.sum = true,
                            }
                        }
                        _ => checks.push(Check { check, at, end, is }),
                    }
                }
                Source::Bits(b) if b.bytes() <= 8 => match lanes(&b, (lo, span), f.bits) {
                    Some(tests) => window.extend(tests),
                    None => {
                        let (at, shift) = one_load(&b);
                        ranges.push(Range {
                            at,
                            shift,
                            mask,
                            lo,
                            span,
                        });
                    }
                },
                source => others.push(Other {
                    source,
                    reg: f.reg,
                    mask,
                    lo,
                    span,
                }),
            }
        }
        // what sums the payload comes last
        checks.sort_by_key(|c: &Check| match c.check {
            HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits => 0,
            HeaderCheck::Ip4Checksum => 1,
            HeaderCheck::UdpFits => 2,
            _ => 3,
        });
        g.rounds = rounds(window)?.into();
        g.ranges = ranges.into();
        g.others = others.into();
        g.checks = checks.into();
        Some(g)
    }

    /// How many fields it asks about.
    pub fn tests(&self) -> usize {
        self.fields
    }

    /// Does a packet pass?
    #[inline(always)]
    pub fn passes(&self, p: &Packet, buf: &[u8], head: usize, regs: &Regs) -> bool {
        let data = buf.get(head..).unwrap_or_default();
        if let Some((lo, span)) = self.len
            && (data.len() as u32).wrapping_sub(lo) > span
        {
            return false;
        }
        if !self.rounds.is_empty() {
            let Some(window) = data.first_chunk::<WINDOW>() else {
                return false;
            };
            let mut numbers = [0u16; LANES];
            for (n, b) in numbers.iter_mut().zip(window.as_chunks::<2>().0) {
                *n = u16::from_be_bytes(*b);
            }
            let mut over = [0u16; LANES];
            for r in &self.rounds {
                for i in 0..LANES {
                    over[i] |=
                        (numbers[i].wrapping_sub(r.lo[i]) & r.mask[i]).saturating_sub(r.span[i]);
                }
            }
            if over.iter().fold(0, |all, o| all | o) != 0 {
                return false;
            }
        }
        for r in &self.ranges {
            let b = buf.get(head.wrapping_add_signed(r.at as isize)..);
            match b.and_then(|b| b.first_chunk::<8>()) {
                Some(b)
                    if (u64::from_be_bytes(*b) >> r.shift).wrapping_sub(r.lo) & r.mask
                        <= r.span => {}
                _ => return false,
            }
        }
        if let Some(ip4) = &self.ip4 {
            let b = data.get(ip4.at..).unwrap_or_default();
            let Some(h) = b.first_chunk::<20>() else {
                return false;
            };
            let fits = usize::from(u16::from_be_bytes([h[2], h[3]])) <= b.len();
            // with options the sum is over more: not here
            let right = h[0] & 15 <= 5 && checksum::header_ok(h);
            if (ip4.fits && !fits) || (ip4.sum && !right) {
                return false;
            }
        }
        if self.others.is_empty() && self.checks.is_empty() {
            return true;
        }
        self.rest(p, buf, head, regs)
    }

    /// Bytes that packets must have to be asked [sixteen at a time](Guard::pass); `None` where that cannot be.
    pub fn reach(&self) -> Option<u32> {
        if !self.others.is_empty() || !self.checks.is_empty() {
            return None;
        }
        let ranges = self.ranges.iter().map(|r| match r.at {
            at @ 0..=56 => Some(at as u32 + 8),
            _ => None,
        });
        let ip4 = self.ip4.map(|i| i.at + 20);
        if ip4.is_some_and(|end| end > rows::WINDOW) {
            return None;
        }
        let all: Option<Vec<u32>> = ranges.collect();
        let most = all?.into_iter().max().unwrap_or(0);
        Some(most.max(WINDOW as u32).max(ip4.unwrap_or(0) as u32))
    }

    /// Do all of sixteen packets pass? They have as many bytes as [`Guard::reach`] says.
    #[inline(always)]
    pub fn pass(&self, row: &Row<'_>) -> bool {
        let mut bad = 0u64;
        if let Some((lo, span)) = self.len {
            let over = row.lens.iter().map(|l| l.wrapping_sub(lo) > span);
            bad |= over.fold(0, |bad, over| bad | u64::from(over));
        }
        // one round is the rule
        for r in &self.rounds {
            let mut over = [0u16; LANES];
            for w in row.windows {
                let (bytes, _) = w.as_chunks::<2>();
                for i in 0..LANES {
                    let number = u16::from_be_bytes(bytes[i]);
                    over[i] |= (number.wrapping_sub(r.lo[i]) & r.mask[i]).saturating_sub(r.span[i]);
                }
            }
            bad |= u64::from(over.iter().fold(0, |all, o| all | o));
        }
        for r in &self.ranges {
            for w in row.windows {
                let b = w.get(r.at as usize..).and_then(|b| b.first_chunk::<8>());
                let v = u64::from_be_bytes(b.copied().unwrap_or_default());
                bad |= u64::from((v >> r.shift).wrapping_sub(r.lo) & r.mask > r.span);
            }
        }
        if let Some(ip4) = &self.ip4 {
            for (w, len) in row.windows.iter().zip(row.lens) {
                let h = w.get(ip4.at..).and_then(|b| b.first_chunk::<20>());
                let h = h.unwrap_or(&[0; 20]);
                let total = u32::from(u16::from_be_bytes([h[2], h[3]]));
                let fits = total + ip4.at as u32 <= len;
                let right = (h[0] & 15 <= 5) & checksum::header_ok(h);
                bad |= u64::from((ip4.fits & !fits) | (ip4.sum & !right));
            }
        }
        bad == 0
    }

    /// What guards seldom ask.
    #[inline(never)]
    fn rest(&self, p: &Packet, buf: &[u8], head: usize, regs: &Regs) -> bool {
        for o in &self.others {
            let v = match o.source {
                Source::Slot => regs.v.get(usize::from(o.reg)).map_or(0, |v| *v),
                s => s.read(p, &regs.tables),
            };
            if (v as u64).wrapping_sub(o.lo) & o.mask > o.span {
                return false;
            }
        }
        self.checks.iter().all(|c| {
            let end = end_of(c.end, buf, head);
            checks::holds(c.check, buf, head, c.at, end) == c.is
        })
    }
}

/// Bits that a guard or a column reads with one load.
pub(crate) fn one_load(b: &Bits) -> (i32, u8) {
    let (first, last) = (b.first(), b.first() + i32::from(b.bytes()));
    let at = (last - 8).max(first.min(0));
    (at, b.shift() + 8 * (at + 8 - last) as u8)
}
