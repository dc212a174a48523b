//! Guards: what must be true of a packet so that what was done to another one of its flow is right for it, too.
//!
//! The flow table knows packets of four shapes (IPv4 without options that is no fragment, or IPv6 without extension headers; TCP or UDP), with
//! or without a VLAN tag. Addresses and ports are the key. Everything else that decides a way through the program is guarded:
//! the values at which any filter behind the entry can change its answer cut each dimension into intervals, and a [`GuardBox`] is one
//! interval of each. Packets of one box and one key go the same way. The box's number is part of the key.
//!
//! Most of a box is a comparison of the first 64 bytes under a mask; what is no prefix is a range.

use super::super::code::Code;
use super::super::reads::{EntryReads, ShapeReads};
use super::super::regs::{Source, Tables};
use super::table::{KEY, LONG};
use onefold_elements::model::HeaderCheck;
use onefold_packet::{Packet, checksum};
use onefold_synth::program::Dim;

/// Bytes of a packet that are looked at together.
pub(super) const WINDOW: usize = 64;
/// Bytes that a packet's buffer must have from its first byte on, so that a header can be pulled or written.
const ROOM: usize = 128;
/// Boxes of one entry.
const MAX_BOXES: usize = 48;
/// Least bytes of a transport header that can be rewritten: up to the checksum.
const TCP_LEAST: usize = 20;
const UDP_LEAST: usize = 8;

/// Where the headers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// First byte of the IP header.
    pub l3: usize,
    pub v6: bool,
    pub tcp: bool,
}

impl Shape {
    pub const fn all() -> [Shape; 8] {
        let mut a = [Shape {
            l3: 14,
            v6: false,
            tcp: false,
        }; 8];
        let mut i = 0;
        while i < 8 {
            a[i] = Shape {
                l3: if i & 4 == 0 { 14 } else { 18 },
                v6: i & 2 != 0,
                tcp: i & 1 != 0,
            };
            i += 1;
        }
        a
    }
    /// First byte of the transport header.
    pub fn l4(self) -> usize {
        self.l3 + if self.v6 { 40 } else { 20 }
    }
    /// Least bytes from the IP header's first one.
    fn least(self) -> usize {
        let transport = if self.tcp { TCP_LEAST } else { UDP_LEAST };
        self.l4() - self.l3 + transport
    }
    /// Bits of the window that the shape says, and what they are.
    pub fn fixed(self) -> ([u8; WINDOW], [u8; WINDOW]) {
        let (mut mask, mut value) = ([0; WINDOW], [0; WINDOW]);
        let mut set = |at: usize, m: u8, v: u8| {
            if let (Some(x), Some(y)) = (mask.get_mut(at), value.get_mut(at)) {
                (*x, *y) = (m, v);
            }
        };
        let l3 = self.l3;
        if l3 == 18 {
            set(12, 0xff, 0x81);
            set(13, 0xff, 0);
        }
        let (hi, lo) = if self.v6 { (0x86, 0xdd) } else { (8, 0) };
        set(l3 - 2, 0xff, hi);
        set(l3 - 1, 0xff, lo);
        let protocol = if self.tcp { 6 } else { 17 };
        if self.v6 {
            set(l3, 0xf0, 0x60);
            set(l3 + 6, 0xff, protocol);
        } else {
            set(l3, 0xff, 0x45);
            // neither more fragments nor an offset
            set(l3 + 6, 0x3f, 0);
            set(l3 + 7, 0xff, 0);
            set(l3 + 9, 0xff, protocol);
        }
        (mask, value)
    }
    /// First and last byte of addresses and ports.
    pub fn key(self) -> (usize, usize) {
        match self.v6 {
            true => (self.l3 + 8, self.l3 + 44),
            false => (self.l3 + 12, self.l3 + 24),
        }
    }
    /// Are these bits part of the key?
    pub fn in_key(self, bit: i32, bits: u8) -> bool {
        let (from, to) = self.key();
        bit >= from as i32 * 8 && bit + i32::from(bits) <= to as i32 * 8
    }
    /// Does the shape say what these bits are?
    pub fn in_shape(self, bit: i32, bits: u8) -> bool {
        let (mask, _) = self.fixed();
        (bit..bit + i32::from(bits)).all(|b| {
            let byte = usize::try_from(b / 8).ok().and_then(|i| mask.get(i));
            byte.is_some_and(|m| b >= 0 && m >> (7 - b % 8) & 1 == 1)
        })
    }
}

/// How a guarded value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Bytes of the packet.
    Len,
    /// Bits of eight bytes of the window.
    Word { byte: u8, shift: u8, mask: u64 },
    /// SYN, FIN, RST, and whether there is payload.
    Tcp,
    /// The header checksum.
    Sum,
    /// Anything else.
    Other(Source),
}

impl Read {
    #[inline]
    fn value(self, shape: Shape, w: &[u8; WINDOW], p: &Packet) -> u128 {
        match self {
            Read::Len => p.len() as u128,
            Read::Word { byte, shift, mask } => word(w, byte, shift, mask).into(),
            Read::Tcp => tcp_state(shape, w).into(),
            Read::Sum => sum_right(shape, w).into(),
            Read::Other(s) => s.read(p, &Tables::default()),
        }
    }
}

#[inline(always)]
fn word(w: &[u8; WINDOW], byte: u8, shift: u8, mask: u64) -> u64 {
    let b = w
        .get(usize::from(byte)..)
        .and_then(|b| b.first_chunk::<8>());
    b.map_or(0, |b| u64::from_be_bytes(*b) >> (shift & 63) & mask)
}

#[inline(always)]
fn be16(w: &[u8; WINDOW], at: usize) -> usize {
    let b = w.get(at..).and_then(|b| b.first_chunk::<2>());
    b.map_or(0, |b| usize::from(u16::from_be_bytes(*b)))
}

#[inline]
fn tcp_state(shape: Shape, w: &[u8; WINDOW]) -> u8 {
    let l4 = shape.l4();
    let byte = |at: usize| w.get(at).copied().unwrap_or(0);
    let payload = 20 + usize::from(byte(l4 + 12) >> 4) * 4 < be16(w, shape.l3 + 2);
    byte(l4 + 13) & 7 | u8::from(payload) << 3
}

#[inline(always)]
fn sum_right(shape: Shape, w: &[u8; WINDOW]) -> bool {
    let h = w.get(shape.l3..).and_then(|b| b.first_chunk::<20>());
    h.is_some_and(checksum::header_ok)
}

/// A dimension that is guarded.
#[derive(Debug, Clone)]
struct Guarded {
    read: Read,
    /// Bits of the packet, if it is some.
    at: Option<(i32, u8)>,
    cuts: Vec<u128>,
    max: u128,
}

/// Guards of one shape behind one entry.
#[derive(Debug, Clone)]
struct Plan {
    shape: Shape,
    dims: Vec<Guarded>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    byte: u8,
    shift: u8,
    mask: u64,
    lo: u64,
    span: u64,
}

/// One interval of each guarded dimension.
#[derive(Debug, Clone)]
pub(super) struct GuardBox {
    pub shape: Shape,
    mask: [u8; WINDOW],
    value: [u8; WINDOW],
    ranges: Box<[Range]>,
    len: (usize, usize),
    tcp: Option<u8>,
    sum: bool,
    others: Box<[(Read, u128, u128)]>,
    /// Number, never given twice.
    pub id: u32,
    /// Bits with their interval.
    intervals: Box<[(i32, u8, u128, u128)]>,
}

impl GuardBox {
    /// Do these bits have one value in the box?
    pub fn pins(&self, bit: i32, bits: u8) -> bool {
        self.shape.in_shape(bit, bits)
            || (self.intervals.iter()).any(|(b, n, lo, hi)| (*b, *n) == (bit, bits) && lo == hi)
    }
    /// The least value of these bits in the box.
    pub fn least(&self, bit: i32, bits: u8) -> u128 {
        let i = (self.intervals.iter()).find(|(b, n, ..)| (*b, *n) == (bit, bits));
        i.map_or(0, |i| i.2)
    }

    #[inline(always)]
    fn holds(&self, w: &[u8; WINDOW], p: &Packet) -> bool {
        // Byte by byte and by index: vectors straight from memory. Words put together first would be stored one by one and loaded as
        // vectors again, which stalls.
        let mut differ = 0;
        #[allow(clippy::needless_range_loop)]
        for i in 0..WINDOW {
            differ |= (w[i] & self.mask[i]) ^ self.value[i];
        }
        if differ != 0 {
            return false;
        }
        let mut ok = true;
        for r in &self.ranges {
            ok &= word(w, r.byte, r.shift, r.mask).wrapping_sub(r.lo) <= r.span;
        }
        let len = p.len();
        ok && (self.len.0..=self.len.1).contains(&len)
            && (!self.sum || sum_right(self.shape, w))
            && self.tcp.is_none_or(|t| tcp_state(self.shape, w) == t)
            && (self.others.is_empty() || self.others_hold(w, p))
    }

    fn others_hold(&self, w: &[u8; WINDOW], p: &Packet) -> bool {
        (self.others.iter()).all(|(r, lo, hi)| {
            let v = r.value(self.shape, w, p);
            *lo <= v && v <= *hi
        })
    }
}

/// What was found out about a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parsed {
    pub key: [u64; KEY],
    pub hash: u64,
    /// Bytes from the IP header on, as it says.
    pub total: u32,
    /// Index of the box, or [`NO_BOX`].
    pub guard: u16,
}

/// Not for the flow table.
pub(super) const NO_BOX: u16 = u16::MAX;

/// Everything about one entry.
#[derive(Debug)]
pub(super) struct Lane {
    pub source: u32,
    plans: Vec<Plan>,
    pub boxes: Vec<GuardBox>,
}

impl Lane {
    pub fn new(code: &Code, reads: &EntryReads) -> Lane {
        let shapes = Shape::all().into_iter().zip(&reads.shapes);
        let plans = shapes.filter_map(|(s, r)| plan(code, r, s));
        Lane {
            source: reads.source,
            plans: plans.collect(),
            boxes: Vec::new(),
        }
    }

    /// Key and box of a packet.
    #[inline(always)]
    pub fn parse(&self, p: &Packet, out: &mut Parsed) {
        out.guard = NO_BOX;
        let Some(w) = p.window::<WINDOW>() else {
            return;
        };
        for (i, b) in self.boxes.iter().enumerate() {
            if b.holds(w, p) {
                if let Some(total) = fits(b.shape, w, p.len()) {
                    out.total = total as u32;
                    key(b, w, &mut out.key);
                    out.guard = i as u16;
                }
                return;
            }
        }
    }

    /// A box for a packet that is in none; false when there cannot be one.
    #[cold]
    pub fn make_box(&mut self, p: &Packet, next: &mut u32) -> bool {
        let Some(w) = p.window::<WINDOW>() else {
            return false;
        };
        if p.window::<ROOM>().is_none() || self.boxes.len() >= MAX_BOXES || *next >= 1 << 31 {
            return false;
        }
        let shaped = |plan: &&Plan| {
            let (mask, value) = plan.shape.fixed();
            let mut all = mask.iter().zip(&value).zip(w);
            all.all(|((m, v), b)| b & m == *v) && fits(plan.shape, w, p.len()).is_some()
        };
        let Some(plan) = self.plans.iter().find(shaped) else {
            return false;
        };
        let made = make(plan, w, p, *next);
        *next += 1;
        self.boxes.push(made);
        true
    }
}

/// Bytes from the IP header on, if they are there and enough.
#[inline(always)]
fn fits(s: Shape, w: &[u8; WINDOW], len: usize) -> Option<usize> {
    let total = match s.v6 {
        true => be16(w, s.l3 + 4) + 40,
        false => be16(w, s.l3 + 2),
    };
    (total >= s.least() && s.l3 + total <= len).then_some(total)
}

/// Word by word, in place: an array that is returned would be copied as vectors, which waits for the words.
#[inline(always)]
fn key(b: &GuardBox, w: &[u8; WINDOW], to: &mut [u64; KEY]) {
    let s = b.shape;
    let eight = |at: usize| {
        let c = w.get(at..).and_then(|b| b.first_chunk::<8>());
        c.map_or(0, |c| u64::from_ne_bytes(*c))
    };
    let ports = |at: usize| {
        let c = w.get(at..).and_then(|b| b.first_chunk::<4>());
        c.map_or(0, |c| u64::from(u32::from_ne_bytes(*c)))
    };
    let id = u64::from(b.id) << 32;
    if s.v6 {
        to[0] = LONG | id | ports(s.l3 + 40);
        to[1] = eight(s.l3 + 8);
        to[2] = eight(s.l3 + 16);
        to[3] = eight(s.l3 + 24);
        to[4] = eight(s.l3 + 32);
    } else {
        // the others are not looked at
        to[0] = id | ports(s.l3 + 20);
        to[1] = eight(s.l3 + 12);
    }
}

/// The guards of a shape; `None` when something is read that cannot be guarded.
fn plan(code: &Code, reads: &ShapeReads, shape: Shape) -> Option<Plan> {
    let mut dims = Vec::new();
    for d in &reads.dims {
        let other = || {
            code.sources
                .get(usize::from(d.reg))
                .map(|s| Read::Other(*s))
        };
        let (read, at, max) = match d.dim {
            Dim::Slot(_) => continue,
            // of an address that is no part of the key
            Dim::Route { .. } => return None,
            // all that a source sends is alike in these
            Dim::Anno(_) | Dim::PacketType => (other()?, None, u128::MAX),
            Dim::Len => (Read::Len, None, u128::MAX),
            Dim::Bits { bit, bits } => {
                let max = u128::MAX >> (128 - u32::from(bits));
                (bits_read(bit, bits).or_else(other)?, Some((bit, bits)), max)
            }
            Dim::Check { check, at, .. } => match check {
                HeaderCheck::Ip4Checksum if at == shape.l3 as i32 && !shape.v6 => {
                    (Read::Sum, None, 1)
                }
                _ => (other()?, None, 1),
            },
        };
        dims.push(Guarded {
            read,
            at,
            cuts: d.cuts.clone()?,
            max,
        });
    }
    if reads.binds && shape.tcp && !shape.v6 {
        dims.push(Guarded {
            read: Read::Tcp,
            at: None,
            cuts: (1..16).collect(),
            max: 15,
        });
    }
    Some(Plan { shape, dims })
}

/// Bits within eight bytes of the window.
fn bits_read(bit: i32, bits: u8) -> Option<Read> {
    let first = usize::try_from(bit).ok()? / 8;
    // the window's last eight bytes hold what begins behind them
    let byte = first.min(WINDOW - 8);
    let end = usize::try_from(bit).ok()? + usize::from(bits);
    let shift = ((byte + 8) * 8).checked_sub(end)?;
    (bits <= 64).then_some(Read::Word {
        byte: byte as u8,
        shift: shift as u8,
        mask: u64::MAX >> (64 - u32::from(bits)),
    })
}

/// The box that a packet is in.
fn make(plan: &Plan, w: &[u8; WINDOW], p: &Packet, id: u32) -> GuardBox {
    let (mut mask, mut value) = plan.shape.fixed();
    let mut b = GuardBox {
        shape: plan.shape,
        mask: [0; WINDOW],
        value: [0; WINDOW],
        ranges: Box::default(),
        len: (0, usize::MAX),
        tcp: None,
        sum: false,
        others: Box::default(),
        id,
        intervals: Box::default(),
    };
    let (mut ranges, mut others, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
    for d in &plan.dims {
        let v = d.read.value(plan.shape, w, p);
        let i = d.cuts.partition_point(|c| *c <= v);
        let lo = i.checked_sub(1).and_then(|i| d.cuts.get(i)).copied();
        let (lo, hi) = (lo.unwrap_or(0), d.cuts.get(i).map_or(d.max, |c| c - 1));
        if let Some((bit, bits)) = d.at {
            intervals.push((bit, bits, lo, hi));
        }
        if (lo, hi) == (0, d.max) {
            continue;
        }
        match d.read {
            Read::Len => {
                b.len = (
                    usize::try_from(lo).unwrap_or(usize::MAX),
                    usize::try_from(hi).unwrap_or(usize::MAX),
                );
            }
            Read::Tcp => b.tcp = Some(v as u8),
            // a wrong one is something else
            Read::Sum if v == 1 => b.sum = true,
            Read::Sum | Read::Other(_) => others.push((d.read, lo, hi)),
            Read::Word {
                byte,
                shift,
                mask: m,
            } => {
                let (lo, span) = (lo as u64, (hi - lo) as u64);
                // a prefix
                if span & span.wrapping_add(1) == 0 && lo & span == 0 {
                    let bits = ((m & !span) << shift).to_be_bytes();
                    let want = (lo << shift).to_be_bytes();
                    for k in 0..8 {
                        mask[usize::from(byte) + k] |= bits[k];
                        value[usize::from(byte) + k] |= want[k];
                    }
                } else {
                    ranges.push(Range {
                        byte,
                        shift,
                        mask: m,
                        lo,
                        span,
                    });
                }
            }
        }
    }
    (b.mask, b.value) = (mask, value);
    b.ranges = ranges.into();
    b.others = others.into();
    b.intervals = intervals.into();
    b
}
