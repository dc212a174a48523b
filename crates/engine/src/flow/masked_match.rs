//! Guards: what must be true of a packet so that what was done to another one of its flow is right for it, too.
//!
//! A packet's [shape](Shape) says what its flow's key is. Everything else that decides a path through the program is
//! guarded: the values at which any filter behind the entry can change its answer cut each dimension into intervals,
//! and a [`MaskedMatch`] is one interval of each. Packets of one masked match and one key have the same action. the
//! match's number is part of the key.
//!
//! Most of a masked match is a comparison of the first 64 bytes under a mask; what is no prefix is a range.

use crate::flow::bit_range::{ColumnRange, Range};
use crate::flow::field_read::{Read, TCP_FLAGS, be16, bits_read, sum_right, tcp_payload, word};
use crate::flow::interval_table::{IntervalFields, IntervalTable};
use crate::flow::key::KeyPlace;
use crate::flow::mask_match::equal::EqualMatch;
use crate::flow::mask_match::words::WordMatch;
use crate::flow::policy::insert_backoff::InsertBackoff;
use crate::flow::rule_cache::RuleCache;
use crate::flow::table::KEY;
use crate::program::code::Code;
use crate::program::headers::registers::Source;
use crate::program::headers::shape::{ECHO, Shape, Transport};
use crate::program::reads::ShapeReads;
use crate::simd::WINDOW;
use crate::simd::word_tree::WordTree;
use crate::simd::{COLUMNS, HEAD, HEAD_AT};
use onefold_element::model::HeaderCheck;
use onefold_packet::Packet;
use onefold_synth::program::Dim;

/// Bytes of an IPv6 header, which the length in it does not count.
pub(crate) const IP6_HEADER: u32 = 40;

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
pub(crate) struct Plan {
    pub shape: Shape,
    /// [`Shape::fixed`].
    fixed: ([u8; WINDOW], [u8; WINDOW]),
    dims: Vec<Guarded>,
    /// Where actions may do without entries.
    fields: Option<IntervalFields>,
}

impl Plan {
    /// Are the bytes right that the shape says? Eight at a time: packets that get no masked match ask all shapes.
    pub fn has_shape(&self, w: &[u8; WINDOW]) -> bool {
        let (mask, value) = &self.fixed;
        let all = w.as_chunks::<8>().0.iter().zip(mask.as_chunks().0);
        let all = all.zip(value.as_chunks().0);
        let word = |b: &[u8; 8]| u64::from_ne_bytes(*b);
        all.fold(0, |a, ((w, m), v)| a | (word(w) & word(m)) ^ word(v)) == 0
    }
    /// Bytes that a packet must have so that all that is asked is in it.
    fn covered(&self, w: &[u8; WINDOW]) -> usize {
        let end = |d: &Guarded| match (d.read, d.at) {
            (Read::Word { .. }, Some((bit, bits))) => (bit + i32::from(bits) + 7) / 8,
            _ => 0,
        };
        let covered = self.dims.iter().map(end).max().unwrap_or(0);
        let covered = usize::try_from(covered).unwrap_or(0);
        match self.shape.is_icmp(w) {
            true => covered.max(self.shape.l4() + 1),
            false => covered,
        }
    }
    /// A masked match of the shape, of which nothing else is asked yet.
    fn bare(&self, id: u32) -> Option<MaskedMatch> {
        Some(MaskedMatch {
            shape: self.shape,
            mask: [0; WINDOW],
            lo: [0; WINDOW],
            span: [0; WINDOW],
            word_match: None,
            equal_match: None,
            ranges: Box::default(),
            in_columns: Box::default(),
            len: (0, u32::MAX),
            total: at_least(self.shape.least() as u32),
            quick: false,
            marked: false,
            beside: false,
            more: false,
            payload: None,
            sum: false,
            others: Box::default(),
            id,
            place: KeyPlace::of(self.shape, id)?,
            intervals: Box::default(),
            interval_table: None,
            rules: RuleCache::default(),
            insert_backoff: InsertBackoff::default(),
        })
    }
}

/// One interval of each guarded dimension.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(crate) struct MaskedMatch {
    /// Each byte under its mask is one of `lo` to `lo + span`.
    pub mask: [u8; WINDOW],
    pub lo: [u8; WINDOW],
    pub span: [u8; WINDOW],
    /// The same of sixteen packets at once.
    pub word_match: Option<WordMatch>,
    /// The same where they mostly do not differ.
    pub equal_match: Option<EqualMatch>,
    pub shape: Shape,
    /// Least value of the packet's length, and how much more it may be.
    pub len: (u32, u32),
    /// The same of the length that the IP header says, from that header on.
    pub total: (u32, u32),
    /// The IP header is at [`HEAD_AT`], and all that is asked besides is in columns, or is whether the checksum of an
    /// IPv4 header is right, or whether there is payload behind TCP's.
    pub quick: bool,
    /// Of a quick one: annotations and packet types are asked, too, which are not in the packet's bytes.
    pub marked: bool,
    /// Of a quick one: it is marked, or there are ranges in columns.
    pub beside: bool,
    /// There is more to be asked: one of the following.
    more: bool,
    /// What is no range of bytes.
    ranges: Box<[Range]>,
    /// The same of a quick one, by columns.
    pub in_columns: Box<[ColumnRange]>,
    /// Is there payload behind the TCP header?
    pub payload: Option<bool>,
    pub sum: bool,
    others: Box<[(Read, u128, u128)]>,
    /// Number, never given twice.
    pub id: u32,
    /// Where keys are.
    pub place: KeyPlace,
    /// Bits with their interval.
    intervals: Box<[(i32, u8, u128, u128)]>,
    /// Actions without entries.
    pub interval_table: Option<IntervalTable>,
    /// Actions by rule, of a masked match without places.
    pub rules: RuleCache,
    /// Packets whose actions cannot be kept.
    pub insert_backoff: InsertBackoff,
}

impl MaskedMatch {
    /// Do these bits have one value in the masked match?
    pub fn pins(&self, bit: i32, bits: u8) -> bool {
        self.shape.in_shape(bit, bits)
            || (self.intervals.iter()).any(|(b, n, lo, hi)| (*b, *n) == (bit, bits) && lo == hi)
    }
    /// The same of bits that several fields may have between them.
    pub fn pins_each(&self, bit: i32, bits: u8) -> bool {
        let one = |b: &i32| {
            let among = |(at, n, lo, hi): &(i32, u8, u128, u128)| {
                lo == hi && (*at..*at + i32::from(*n)).contains(b)
            };
            self.shape.in_shape(*b, 1) || self.intervals.iter().any(among)
        };
        (bit..bit + i32::from(bits)).all(|b| one(&b))
    }
    /// May a packet's byte at this place be `x`, as far as bytes are asked one by one?
    pub fn byte_may_be(&self, at: usize, x: u8) -> bool {
        let inside =
            |r: &Range| r.byte_alone() != Some(at) || u64::from(x).wrapping_sub(r.lo) <= r.span;
        (x & self.mask[at]).wrapping_sub(self.lo[at]) <= self.span[at]
            && self.ranges.iter().all(inside)
    }
    /// Is anything asked of this byte by itself?
    pub fn asks_byte(&self, at: usize) -> bool {
        self.mask[at] != 0 || self.ranges.iter().any(|r| r.byte_alone() == Some(at))
    }
    /// Are packets of all of these lengths, from the least to the most, in it, all else being right?
    pub fn takes_lengths(&self, (least, most): (u64, u64)) -> bool {
        let (lo, span) = (u64::from(self.len.0), u64::from(self.len.1));
        lo <= least && most <= lo + span
    }
    /// Lengths of its packets, the least and the most.
    pub fn lengths(&self) -> (u64, u64) {
        (
            u64::from(self.len.0),
            u64::from(self.len.0) + u64::from(self.len.1),
        )
    }
    /// The same of what IP headers say.
    pub fn totals(&self) -> (u64, u64) {
        (
            u64::from(self.total.0),
            u64::from(self.total.0) + u64::from(self.total.1),
        )
    }
    /// Does what is asked besides bytes and lengths follow from what was asked of packets in `first`? They have the
    /// same IP header. `before` says where so many bytes from a place on stood then, if they are as they were, or that
    /// all packets have them in common.
    pub fn rest_follows(
        &self,
        first: &MaskedMatch,
        before: impl Fn(usize, usize) -> Option<Option<usize>>,
    ) -> Result<(), &'static str> {
        let (had, want) = (first.totals(), self.totals());
        if had.0 < want.0 || had.1 > want.1 {
            return Err("a length in an IP header");
        }
        if self.sum && !first.sum {
            return Err("a header checksum");
        }
        if self.payload.is_some() && self.payload != first.payload {
            return Err("a TCP payload");
        }
        let follows = |r: &Range| {
            let bits = r.mask << r.shift;
            let (from, to) = (bits.leading_zeros() / 8, 8 - bits.trailing_zeros() / 8);
            let at = usize::from(r.byte) + from as usize;
            match before(at, to.saturating_sub(from) as usize) {
                Some(None) => true,
                Some(Some(was)) => first.ranges.iter().any(|f| {
                    (usize::from(f.byte) + from as usize, f.shift, f.mask) == (was, r.shift, r.mask)
                        && r.lo <= f.lo
                        && f.lo + f.span <= r.lo + r.span
                }),
                None => false,
            }
        };
        let mut several = self.ranges.iter().filter(|r| r.byte_alone().is_none());
        if !several.all(follows) {
            return Err("a range of values");
        }
        let mark = |r: &Read| matches!(r, Read::Other(Source::Anno(..) | Source::PacketType));
        match self.others.iter().all(|(r, ..)| mark(r)) {
            true => Ok(()),
            false => Err("something that is no field"),
        }
    }
    /// Annotations or packet types are asked.
    pub fn asks_marks(&self) -> bool {
        !self.others.is_empty()
    }
    /// The least value of these bits in the masked match.
    pub fn least(&self, bit: i32, bits: u8) -> u128 {
        let i = (self.intervals.iter()).find(|(b, n, ..)| (*b, *n) == (bit, bits));
        i.map_or(0, |i| i.2)
    }

    /// Is the packet in the masked match, given that the bytes under its mask are right?
    #[inline(always)]
    pub fn holds(&self, w: &[u8; WINDOW], p: &Packet) -> Option<u32> {
        let len = p.len() as u32;
        let total = total(self.shape, w) as u32;
        let ok = total.wrapping_sub(self.total.0) <= self.total.1
            && self.shape.l3 as u32 + total <= len
            && len.wrapping_sub(self.len.0) <= self.len.1
            && (!self.sum || sum_right(self.shape, w))
            && (!self.more || self.more_holds(w, p));
        ok.then_some(total)
    }

    #[inline]
    fn more_holds(&self, w: &[u8; WINDOW], p: &Packet) -> bool {
        let mut ok = true;
        for r in &self.ranges {
            ok &= word(w, r.byte, r.shift, r.mask).wrapping_sub(r.lo) <= r.span;
        }
        ok && (self.payload).is_none_or(|t| tcp_payload(self.shape, w) == t)
            && (self.others.is_empty() || self.others_hold(w, p))
    }

    pub fn others_hold(&self, w: &[u8; WINDOW], p: &Packet) -> bool {
        (self.others.iter()).all(|(r, lo, hi)| {
            let v = r.value(self.shape, w, p);
            *lo <= v && v <= *hi
        })
    }

    /// The key of a packet that is in it. Word by word, in place: an array that is returned would be copied as
    /// vectors, which waits for the words.
    #[inline(always)]
    pub fn key(&self, w: &[u8; WINDOW], to: &mut [u64; KEY]) {
        self.place.key(w, to);
    }

    /// What of a packet of the masked match can endanger it
    /// ([`PacketMeta::sum`](crate::flow::packet_meta::PacketMeta::sum)).
    #[inline(always)]
    pub fn sum_of(&self, w: &[u8; WINDOW]) -> u16 {
        let (at, bits) = self.place.sum;
        u16::from_ne_bytes(at.get(w)) & bits
    }
}

/// Bytes from the IP header on, if they are there and enough.
#[inline(always)]
pub(crate) fn fits(s: Shape, w: &[u8; WINDOW], len: usize) -> Option<usize> {
    let total = total(s, w);
    (total >= s.least() && s.l3 + total <= len).then_some(total)
}

/// Bytes from the IP header on, as it says.
#[inline(always)]
fn total(s: Shape, w: &[u8; WINDOW]) -> usize {
    match s.v6 {
        true => be16(w, s.l3 + 4) + IP6_HEADER as usize,
        false => be16(w, s.l3 + 2),
    }
}

/// The guards of a shape; `None` when something is read that cannot be guarded.
///
/// `shift`: packets are looked at from so many bytes before their first one. `trees`: of the cache that it is for.
pub(crate) fn plan(
    code: &Code,
    reads: &ShapeReads,
    (shape, shift): (Shape, i32),
    trees: &mut Vec<WordTree>,
) -> Option<Plan> {
    let mut dims = Vec::new();
    for d in &reads.dims {
        let other = || {
            code.sources
                .get(usize::from(d.reg))
                .map(|s| Read::Other(s.shifted(shift)))
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
    if reads.binds && shape.tcp() && !shape.v6 {
        dims.push(Guarded {
            read: Read::Tcp,
            at: None,
            cuts: (1..16).collect(),
            max: 15,
        });
    }
    if shape.transport == Transport::Other {
        // what has a shape of its own is not for this one
        let at = (shape.protocol() as i32 * 8, 8);
        let cuts = shape.special().iter().flat_map(|p| [*p, *p + 1]);
        let cuts = cuts.map(u128::from);
        match dims.iter_mut().find(|d| d.at == Some(at)) {
            Some(d) => {
                d.cuts.extend(cuts);
                d.cuts.sort_unstable();
                d.cuts.dedup();
            }
            None => dims.push(Guarded {
                read: bits_read(at.0, at.1)?,
                at: Some(at),
                cuts: cuts.collect(),
                max: 0xff,
            }),
        }
    }
    Some(Plan {
        shape,
        fixed: shape.fixed(),
        dims,
        fields: IntervalFields::of(reads, trees),
    })
}

/// The masked match that a packet is in. `None` when it ends before something that is asked of it: what is read there
/// is zero for the program, and anything in the window.
///
/// `places`: of the [interval tables](IntervalTable) of its cache.
pub(crate) fn make(
    plan: &Plan,
    (w, p): (&[u8; WINDOW], &Packet),
    id: u32,
    places: &mut Vec<u32>,
) -> Option<MaskedMatch> {
    let covered = plan.covered(w);
    if p.len() < covered {
        return None;
    }
    let (mask, value) = plan.fixed;
    let mut bytes = ByteRanges {
        mask,
        value,
        span: [0; WINDOW],
    };
    let l3 = plan.shape.l3;
    // what the header says of the length, and how much it does not count
    let (says, apart) = match plan.shape.v6 {
        false => ((l3 as i32 * 8 + 16, 16), 0),
        true => ((l3 as i32 * 8 + 32, 16), IP6_HEADER),
    };
    let mut b = plan.bare(id)?;
    let (mut ranges, mut others, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
    for d in &plan.dims {
        let v = d.read.value(plan.shape, w, p);
        let i = d.cuts.partition_point(|c| *c <= v);
        let lo = i.checked_sub(1).and_then(|i| d.cuts.get(i)).copied();
        let (lo, hi) = (lo.unwrap_or(0), d.cuts.get(i).map_or(d.max, |c| c - 1));
        intervals.extend(d.at.map(|(bit, bits)| (bit, bits, lo, hi)));
        if (lo, hi) == (0, d.max) {
            continue;
        }
        match d.read {
            Read::Len => {
                let short = |v: u128| u32::try_from(v).unwrap_or(u32::MAX);
                b.len = (short(lo), short(hi - lo));
            }
            Read::Tcp => {
                let at = plan.shape.l4() + 13;
                bytes.tcp_flags(at, v as u8);
                b.payload = Some(v >> 3 & 1 == 1);
            }
            // a wrong one is something else
            Read::Sum if v == 1 => b.sum = true,
            Read::Sum | Read::Other(_) => others.push((d.read, lo, hi)),
            Read::Word { byte, shift, mask } => {
                if d.at == Some(says) {
                    let least = b.total.0.max(lo as u32 + apart);
                    b.total = (least, (hi as u32 + apart).saturating_sub(least));
                    continue;
                }
                let (lo, span) = (lo as u64, (hi - lo) as u64);
                let r = Range {
                    byte,
                    shift,
                    mask,
                    lo,
                    span,
                };
                if !bytes.prefix(&r) {
                    ranges.push(r);
                }
            }
        }
    }
    // bytes of which nothing else is asked
    ranges.retain(|r: &Range| !bytes.whole(r));
    if plan.shape.is_icmp(w) {
        bytes.no_echo(plan.shape.l4(), w)?;
    }
    let ByteRanges { mask, value, span } = bytes;
    b.word_match = WordMatch::of(&mask, &value, &span);
    b.equal_match = EqualMatch::of(&mask, &value, &span);
    (b.mask, b.lo, b.span) = (mask, value, span);
    let mark = |r: &Read| matches!(r, Read::Other(Source::Anno(..) | Source::PacketType));
    let marks = others.iter().all(|(r, ..)| mark(r));
    b.marked = !others.is_empty();
    b.more = !ranges.is_empty() || !others.is_empty() || b.payload.is_some();
    b.others = others.into();
    b.intervals = intervals.into();
    b.len = not_below(b.len, covered as u32);
    // of an IPv6 header more is in the columns around the first 32 bytes, if all that is asked for is
    let columns = match plan.shape.v6 {
        false => Some(HEAD / 4),
        true => b.word_match.as_ref().map(|_| COLUMNS),
    };
    let columns = columns.filter(|_| plan.shape.l3 == HEAD_AT && marks);
    let in_columns = columns.and_then(|n| ranges.iter().map(|r| r.in_columns(n)).collect());
    b.quick = in_columns.is_some();
    b.in_columns = in_columns.unwrap_or_default();
    b.beside = b.marked || !b.in_columns.is_empty();
    b.ranges = ranges.into();
    let table = |f| IntervalTable::new(f, places);
    b.interval_table = plan.fields.as_ref().map(table);
    Some(b)
}

/// Least value, and how much more it may be: all there is.
fn at_least(n: u32) -> (u32, u32) {
    (n, u32::MAX - n)
}

/// Lengths that are `covered` at least.
fn not_below((least, more): (u32, u32), covered: u32) -> (u32, u32) {
    if least >= covered {
        return (least, more.min(u32::MAX - least));
    }
    let (_, most) = at_least(covered);
    (
        covered,
        most.min(least.saturating_add(more).saturating_sub(covered)),
    )
}

/// What is asked of bytes: each under its mask is one of `value` to `value + span`.
struct ByteRanges {
    mask: [u8; WINDOW],
    value: [u8; WINDOW],
    span: [u8; WINDOW],
}

impl ByteRanges {
    /// These flags at this place.
    fn tcp_flags(&mut self, at: usize, flags: u8) {
        if let (Some(m), Some(x)) = (self.mask.get_mut(at), self.value.get_mut(at)) {
            *m |= TCP_FLAGS;
            *x |= flags & TCP_FLAGS;
        }
    }
    /// A range that is a prefix; false of others.
    fn prefix(&mut self, r: &Range) -> bool {
        let more = r.span;
        if more & more.wrapping_add(1) != 0 || r.lo & more != 0 {
            return false;
        }
        let bits = ((r.mask & !more) << r.shift).to_be_bytes();
        let want = (r.lo << r.shift).to_be_bytes();
        for k in 0..8 {
            self.mask[usize::from(r.byte) + k] |= bits[k];
            self.value[usize::from(r.byte) + k] |= want[k];
        }
        true
    }
    /// A range of a byte of which nothing else is asked; false of others.
    fn whole(&mut self, r: &Range) -> bool {
        match r.byte_alone() {
            Some(at) if self.mask.get(at) == Some(&0) => {
                (self.mask[at], self.value[at], self.span[at]) = (0xff, r.lo as u8, r.span as u8);
                true
            }
            _ => false,
        }
    }
    /// An ICMP type that is no echo message's, which have a shape of their own; `None` where that is no range.
    fn no_echo(&mut self, at: usize, w: &[u8; WINDOW]) -> Option<()> {
        let (m, lo) = (self.mask.get_mut(at)?, self.value.get_mut(at)?);
        let more = self.span.get_mut(at)?;
        let inside = |t: &u8| (t & *m).wrapping_sub(*lo) <= *more;
        if ECHO.iter().any(inside) {
            if *m != 0 {
                return None;
            }
            *m = 0xff;
            (*lo, *more) = match w.get(at)? {
                1..8 => (1, 6),
                _ => (9, 246),
            };
        }
        Some(())
    }
}
