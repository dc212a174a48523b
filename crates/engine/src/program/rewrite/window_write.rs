//! What a short action writes to a packet's first bytes, with a binding and without.

use crate::program::headers::registers::Source;
use crate::program::rewrite::compiled::WINDOW;
use crate::program::rewrite::image::Image;
use crate::program::rewrite::value::{CONST, Sum, Term, Value};
use onefold_nat::FlowBinding;
use onefold_packet::{Packet, checksum};
use onefold_synth::program::{EndAt, SumKind};

/// A byte changes: what is added to it before and after, and how far left of a word's end it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    at: u8,
    from: u8,
    to: u8,
    shift: u8,
}

impl Change {
    /// What it adds to the complement of a checksum; never zero.
    #[inline(always)]
    fn sum(&self, w: &[u8; WINDOW]) -> u64 {
        let v = w[usize::from(self.at) % WINDOW];
        let part = |add: u8| u16::from(v.wrapping_add(add)) << (self.shift & 8);
        u64::from(!part(self.from)) + u64::from(part(self.to))
    }
}

/// A checksum, and what is added to its complement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChecksumUpdate {
    at: u8,
    udp: bool,
    fixed: u64,
    changes: Box<[Change]>,
    /// Which of a binding's two sums is added, a bit each.
    sums: u8,
}

/// A checksum of a packet that is bound, to which one byte's [lowering](Lowered) adds at most: what is to be found out about it has been found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plain {
    at: u8,
    udp: bool,
    fixed: u32,
    /// All ones where it is added: each of a binding's sums.
    sums: [u32; 2],
}

/// A byte that becomes less by as much: what that adds to a checksum is the same whatever the byte is, unless it passes zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lowered {
    at: u8,
    /// What is added to it before.
    from: u8,
    by: u8,
}

impl Lowered {
    #[inline(always)]
    fn passes_zero(&self, w: &[u8; WINDOW]) -> bool {
        w[usize::from(self.at) % WINDOW].wrapping_add(self.from) < self.by
    }
}

impl Plain {
    /// With the byte that is to be lowered, if there is one.
    fn of(m: &ChecksumUpdate) -> Option<(Plain, Option<Lowered>)> {
        let (lowered, change) = match *m.changes {
            [] => (None, 0),
            [c] => {
                let by = c.from.wrapping_sub(c.to);
                let lowered = Lowered {
                    at: c.at,
                    from: c.from,
                    by,
                };
                // as `Change::sum` of two bytes of which the second is so much less
                (Some(lowered), 0xffff - (u64::from(by) << (c.shift & 8)))
            }
            _ => return None,
        };
        // with all that is added to it no more than is folded at once
        let fixed = m.fixed.checked_add(change)?;
        let fixed = u32::try_from(fixed).ok().filter(|f| *f < 1 << 24)?;
        let all = |bit: u8| if m.sums & bit != 0 { !0 } else { 0 };
        let plain = Plain {
            at: m.at,
            udp: m.udp,
            fixed,
            sums: [all(1), all(2)],
        };
        Some((plain, lowered))
    }

    /// [`ChecksumUpdate::sum`] with a binding's sums, where no byte [passes zero](Lowered::passes_zero).
    #[inline(always)]
    fn sum(&self, w: &[u8; WINDOW], ip: u16, transport: u16) -> [u8; 2] {
        let c = w.get(usize::from(self.at)..).and_then(|w| w.first_chunk());
        let c = u16::from_be_bytes(c.copied().unwrap_or_default());
        let added = [
            self.sums[0] & u32::from(ip),
            self.sums[1] & u32::from(transport),
        ];
        let sum = !checksum::fold_few(u32::from(!c) + self.fixed + added[0] + added[1]);
        // none at all stays none
        let is = u16::from((c != 0) | !self.udp);
        (sum & is.wrapping_neg()).to_be_bytes()
    }
}

/// Checksums of a packet that is bound, all of them [plain](Plain).
#[derive(Debug, Clone, Copy)]
struct Plains {
    /// One comes twice, which changes nothing.
    sums: [Plain; 2],
    lowered: Lowered,
}

impl Plains {
    /// Of one or two.
    fn of(updates: &[ChecksumUpdate]) -> Option<Plains> {
        let (a, b) = match updates {
            [a] => (Plain::of(a)?, Plain::of(a)?),
            [a, b] => (Plain::of(a)?, Plain::of(b)?),
            _ => return None,
        };
        let lowered = match (a.1, b.1) {
            (Some(a), Some(b)) if a != b => return None,
            (a, b) => a.or(b).unwrap_or_default(),
        };
        Some(Plains {
            sums: [a.0, b.0],
            lowered,
        })
    }
}

/// Checksums of a packet that is bound, at most.
const SUMS: usize = 4;

/// A value of a binding is not written.
const NOWHERE: u8 = u8::MAX;

/// Up to eight whole bytes that are copied to another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    from: u8,
    to: u8,
    bytes: u8,
}

impl Move {
    /// The bytes, and whatever stands around them.
    #[inline(always)]
    fn read(self, w: &[u8; WINDOW]) -> u64 {
        // the last eight bytes have what begins behind them
        let at = usize::from(self.from).min(WINDOW - 8);
        let eight = w.get(at..).and_then(|w| w.first_chunk::<8>());
        let behind = 8 * (usize::from(self.from) - at) as u32;
        u64::from_le_bytes(eight.copied().unwrap_or_default()) >> (behind & 63)
    }
    #[inline(always)]
    fn write(self, w: &mut [u8; WINDOW], v: u64) {
        let b = v.to_le_bytes();
        match self.bytes {
            2 => put(w, self.to, [b[0], b[1]]),
            4 => put(w, self.to, [b[0], b[1], b[2], b[3]]),
            // a MAC address
            6 => {
                put(w, self.to, [b[0], b[1], b[2], b[3]]);
                put(w, self.to + 4, [b[4], b[5]]);
            }
            n => (0..n & 15).for_each(|i| put(w, self.to + i, [b[usize::from(i) & 7]])),
        }
    }
}

/// Fields that are copied, at most.
const MOVES: usize = 4;

/// What an image does to a packet's first bytes.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    keep: [u8; WINDOW],
    set: [u8; WINDOW],
    sub: [u8; WINDOW],
    /// Fields that are copied from one place to another.
    moves: Box<[Move]>,
    updates: Box<[ChecksumUpdate]>,
    /// The same where they are plain, for packets that are bound.
    plain: Option<Plains>,
    /// Where a binding's addresses and ports are written, or [`NOWHERE`].
    slots: [u8; 4],
    /// Bytes that the packet must have.
    pub least: usize,
    /// The packet is cut short where its IP header says.
    pub trim: bool,
    /// Marks or annotations change, too: the image says how.
    marks: Option<u32>,
    /// They are MAC, network and transport header alone, which are set to these places.
    headers: Option<[u16; 3]>,
}

/// A byte of the packet with a number added: where, and the number.
fn byte(code: &[Source], v: &Value) -> Option<(u8, u8)> {
    match code.get(usize::from(v.reg))? {
        Source::Bits(b) if v.reg != CONST && v.mask == 0xff => match b.position() {
            (bit, 8) if bit & 7 == 0 && (0..WINDOW as i32 * 8).contains(&bit) => {
                Some(((bit / 8) as u8, v.add as u8))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whole bytes of the packet as they are: where they stand.
fn bytes(sources: &[Source], v: &Value, n: usize) -> Option<u8> {
    let bits = i32::try_from(n * 8).ok()?;
    let whole = u128::MAX.checked_shr(128 - u32::try_from(bits).ok()?)?;
    match sources.get(usize::from(v.reg))? {
        Source::Bits(b) if v.reg != CONST && v.add == 0 && v.mask & whole == whole => {
            let (bit, same) = b.position();
            let inside = bit & 7 == 0 && i32::from(same) == bits && bit >= 0;
            (inside && bit + bits <= WINDOW as i32 * 8).then_some((bit / 8) as u8)
        }
        _ => None,
    }
}

/// A value of a binding as it is, whose registers begin with this one: its number.
fn slot(first: Option<u16>, v: &Value, bits: u8) -> Option<u8> {
    let n = v.reg.checked_sub(first?).filter(|_| v.reg != CONST)?;
    let whole = if n < 2 { 32 } else { 16 };
    let mask = (1u128 << whole) - 1;
    let as_it_is = n < 4 && bits == whole && v.add == 0 && v.mask & mask == mask;
    as_it_is.then_some(n as u8)
}

impl ChecksumUpdate {
    fn of(sources: &[Source], s: &Sum, first: Option<u16>) -> Option<ChecksumUpdate> {
        // a checksum that comes to zero between two changes stays zero with UDP: there may be one change only
        let udp = s.kind == SumKind::Udp;
        if udp && s.groups.len() > 1 {
            return None;
        }
        let mut fixed = 0;
        let mut changes: Vec<Change> = Vec::new();
        let mut sums = 0;
        for t in s.groups.iter().flat_map(|g| g.iter()) {
            match t {
                Term::Fixed(n) => fixed += n,
                Term::Slot(r) => {
                    let bit = match r.checked_sub(first?)? {
                        4 => 1,
                        5 => 2,
                        _ => return None,
                    };
                    if sums & bit != 0 {
                        return None;
                    }
                    sums |= bit;
                }
                Term::Change {
                    from,
                    to,
                    shift: shift @ (0 | 8),
                    words: 1,
                } => {
                    let ((at, from), (same, to)) = (byte(sources, from)?, byte(sources, to)?);
                    let shift = *shift as u8;
                    match changes.last_mut() {
                        _ if at != same => return None,
                        // from one to the next to the one after: the same difference, and never zero either
                        Some(c) if (c.at, c.shift, c.to) == (at, shift, from) => c.to = to,
                        _ => changes.push(Change {
                            at,
                            from,
                            to,
                            shift,
                        }),
                    }
                }
                _ => return None,
            }
        }
        Some(ChecksumUpdate {
            at: u8::try_from(s.at).ok()?,
            udp,
            fixed,
            changes: changes.into(),
            sums,
        })
    }
}

impl Write {
    /// `None` where it is more than that. `first`: the first of a binding's registers, if there is one.
    pub fn of(sources: &[Source], m: &Image, number: u32, first: Option<u16>) -> Option<Write> {
        // whole bytes that do not overlap, in a packet that begins where it began
        let quick = m.quick.as_ref().filter(|_| m.start == 0)?;
        let mut w = Write {
            keep: [0xff; WINDOW],
            set: [0; WINDOW],
            sub: [0; WINDOW],
            moves: Box::default(),
            updates: Box::default(),
            plain: None,
            slots: [NOWHERE; 4],
            least: quick.least,
            trim: m.end != EndAt::Same,
            marks: m.marks().then_some(number),
            headers: m.sets_headers_alone(),
        };
        let mut moves = Vec::new();
        for f in &m.writes {
            let at = usize::try_from(f.bit / 8).ok()?;
            let n = usize::from(f.bits / 8);
            if f.value.reg == CONST {
                w.keep.get_mut(at..at + n)?.fill(0);
                let v = f.value.add.to_be_bytes();
                w.set.get_mut(at..at + n)?.copy_from_slice(v.get(16 - n..)?);
            } else if let Some(value) = slot(first, &f.value, f.bits) {
                w.keep.get_mut(at..at + n)?.fill(0);
                let to = w.slots.get_mut(usize::from(value))?;
                if std::mem::replace(to, at as u8) != NOWHERE {
                    return None;
                }
            } else if let Some(from) =
                bytes(sources, &f.value, n).filter(|from| usize::from(*from) != at && n <= 8)
            {
                w.keep.get_mut(at..at + n)?.fill(0);
                w.least = w.least.max(usize::from(from) + n);
                moves.push(Move {
                    from,
                    to: at as u8,
                    bytes: n as u8,
                });
            } else {
                let (from, add) = byte(sources, &f.value)?;
                if n != 1 || usize::from(from) != at {
                    return None;
                }
                *w.sub.get_mut(at)? = add.wrapping_neg();
            }
        }
        if moves.len() > MOVES {
            return None;
        }
        w.moves = moves.into();
        let updates = m.sums.iter().map(|s| ChecksumUpdate::of(sources, s, first));
        w.updates = updates.collect::<Option<_>>()?;
        if first.is_some() && w.updates.len() > SUMS {
            return None;
        }
        w.plain = Plains::of(&w.updates);
        for c in w.updates.iter().flat_map(|m| &m.changes) {
            w.least = w.least.max(usize::from(c.at) + 1);
        }
        (m.reads_nothing_for_marks() && w.least <= WINDOW).then_some(w)
    }

    /// Is a packet that ends here by its header long enough?
    #[inline(always)]
    pub fn fits(&self, p: &Packet, end: usize) -> bool {
        (if self.trim { end } else { p.len() }) >= self.least && p.window::<WINDOW>().is_some()
    }

    #[inline(always)]
    pub fn apply(&self, w: &mut [u8; WINDOW]) {
        // checksums first: what has just been written as a whole is slow to read in parts
        match &self.updates[..] {
            [] => self.change(w),
            [m] => {
                let sum = m.sum(w, 0);
                self.change(w);
                put(w, m.at, sum);
            }
            _ => self.apply_many(w),
        }
    }

    #[inline(always)]
    fn change(&self, w: &mut [u8; WINDOW]) {
        if self.moves.is_empty() {
            return self.change_in_place(w);
        }
        // all are read before anything is written
        let mut read = [0; MOVES];
        for (to, m) in read.iter_mut().zip(&self.moves) {
            *to = m.read(w);
        }
        self.change_in_place(w);
        for (v, m) in read.iter().zip(&self.moves) {
            m.write(w, *v);
        }
    }

    #[inline(always)]
    fn change_in_place(&self, w: &mut [u8; WINDOW]) {
        for (i, b) in w.iter_mut().enumerate() {
            *b = (*b & self.keep[i] | self.set[i]).wrapping_sub(self.sub[i]);
        }
    }

    #[inline(never)]
    fn apply_many(&self, w: &mut [u8; WINDOW]) {
        let old = *w;
        self.change(w);
        for m in &self.updates {
            put(w, m.at, m.sum(&old, 0));
        }
    }

    /// The same with a binding's values.
    #[inline(always)]
    pub fn apply_bound(&self, w: &mut [u8; WINDOW], b: &FlowBinding) {
        let plain = match &self.plain {
            Some(plain) if !plain.lowered.passes_zero(w) => plain,
            _ => return self.apply_many_bound(w, b),
        };
        let [first, second] = &plain.sums;
        // no `map`: its closure would be compiled on its own, for any processor
        let sums = [
            first.sum(w, b.ip_sum, b.transport_sum),
            second.sum(w, b.ip_sum, b.transport_sum),
        ];
        self.change(w);
        self.fill(w, b);
        put(w, first.at, sums[0]);
        put(w, second.at, sums[1]);
    }

    #[inline(never)]
    fn apply_many_bound(&self, w: &mut [u8; WINDOW], b: &FlowBinding) {
        let mut sums = [[0; 2]; SUMS];
        for (to, m) in sums.iter_mut().zip(&self.updates) {
            let part = |bit: u8, v: u16| if m.sums & bit != 0 { v.into() } else { 0 };
            *to = m.sum(w, part(1, b.ip_sum) + part(2, b.transport_sum));
        }
        self.change(w);
        self.fill(w, b);
        for (m, sum) in self.updates.iter().zip(sums) {
            put(w, m.at, sum);
        }
    }

    /// Writes a binding's addresses and ports.
    #[inline(always)]
    fn fill(&self, w: &mut [u8; WINDOW], b: &FlowBinding) {
        let [saddr, daddr, sport, dport] = self.slots;
        put(w, saddr, b.to.saddr.to_be_bytes());
        put(w, daddr, b.to.daddr.to_be_bytes());
        put(w, sport, b.to.sport.to_be_bytes());
        put(w, dport, b.to.dport.to_be_bytes());
    }

    /// Sets marks and annotations; `images` are those of the program.
    #[inline(always)]
    pub fn mark(&self, images: &[Image], p: &mut Packet) {
        if let Some([mac, net, transport]) = self.headers {
            p.set_headers(mac, net, transport);
        } else if let Some(m) = self.marks.and_then(|m| images.get(m as usize)) {
            m.mark(p, &[], &[]);
        }
    }
}

/// Nothing is written [nowhere](NOWHERE).
#[inline(always)]
fn put<const N: usize>(w: &mut [u8; WINDOW], at: u8, bytes: [u8; N]) {
    let to = w.get_mut(usize::from(at)..);
    if let Some(to) = to.and_then(|w| w.first_chunk_mut()) {
        *to = bytes;
    }
}

impl ChecksumUpdate {
    /// The checksum as it will be.
    #[inline(always)]
    fn sum(&self, w: &[u8; WINDOW], more: u64) -> [u8; 2] {
        let at = usize::from(self.at);
        let field = w.get(at..).and_then(|w| w.first_chunk::<2>());
        let c = u16::from_be_bytes(field.copied().unwrap_or_default());
        if self.udp && c == 0 {
            return [0; 2];
        }
        let mut sum = u64::from(!c) + self.fixed + more;
        for c in &self.changes {
            sum += c.sum(w);
        }
        match u32::try_from(sum) {
            Ok(few) => !checksum::fold_few(few),
            Err(_) => !checksum::fold(sum),
        }
        .to_be_bytes()
    }
}

#[cfg(test)]
#[path = "window_write_tests.rs"]
mod tests;
