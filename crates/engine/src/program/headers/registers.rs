//! Registers: what filters and expressions read, taken out of the packet once per epoch.

use crate::program::headers::checks;
use onefold_element::model::{HeaderCheck, RouteWhat, max_of};
use onefold_element::{ElemId, StateStore};
use onefold_elements::routing::neighbors::HeldNeighbors;
use onefold_elements::routing::table::HeldRoutes;
use onefold_packet::{Packet, Timestamp};
use onefold_synth::program::EndAt;

/// Where a register's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A binding fills it.
    Slot,
    /// Bytes of the packet.
    Len,
    /// Bits of the packet.
    Bits(Bits),
    /// An answer about a header.
    Check(HeaderCheck, i32, EndAt),
    /// Bytes of the annotation area.
    Anno(u8, u8),
    /// The packet type.
    PacketType,
    /// What a table (its number in the program) says of an address.
    Route(u16, Address, RouteWhat),
}

/// Where the address is that a table is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    Bits(Bits),
    /// Bytes of the annotation area.
    Anno(u8, u8),
    Is(u128),
}

/// Bits of the packet, prepared for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bits {
    /// First byte that is touched.
    byte: i32,
    /// Bytes that are touched: 1 to 17.
    bytes: u8,
    /// Bits of the last byte that do not belong to it.
    shift: u8,
    mask: u128,
}

impl Bits {
    /// `bits` is 1 to 128.
    pub fn new(bit: i32, bits: u8) -> Bits {
        let first = bit.div_euclid(8);
        let end = i64::from(bit) + i64::from(bits);
        let last = end.div_euclid(8) + i64::from(end.rem_euclid(8) != 0);
        Bits {
            byte: first,
            bytes: (last - i64::from(first)) as u8,
            shift: (last * 8 - end) as u8,
            mask: max_of(bits),
        }
    }

    /// The same bits, counted from so many bytes before.
    pub fn shifted(&self, by: i32) -> Bits {
        Bits {
            byte: self.byte + by,
            ..*self
        }
    }

    /// First byte that is touched.
    pub fn first(&self) -> i32 {
        self.byte
    }
    /// Bytes that are touched.
    pub fn bytes(&self) -> u8 {
        self.bytes
    }
    /// Bits of the last of them that do not belong to it.
    pub fn shift(&self) -> u8 {
        self.shift
    }
    /// So many of its bits, and `low` less significant ones left out.
    pub fn part(&self, low: u8, bits: u8) -> Bits {
        let end = (self.byte + i32::from(self.bytes)) * 8 - i32::from(self.shift);
        Bits::new(end - i32::from(low) - i32::from(bits), bits)
    }
    /// First bit, and how many.
    pub fn position(&self) -> (i32, u8) {
        let bits = self.mask.count_ones() as u8;
        let end = (self.byte + i32::from(self.bytes)) * 8 - i32::from(self.shift);
        (end - i32::from(bits), bits)
    }

    /// The value in a buffer in which the packet starts at `head`; zeros outside.
    #[inline]
    pub fn read(&self, buf: &[u8], head: usize) -> u128 {
        let at = head as isize + self.byte as isize;
        if self.bytes <= 8
            && at >= 0
            && let Some(b) = buf.get(at as usize..).and_then(|b| b.first_chunk::<8>())
        {
            let v = u64::from_be_bytes(*b) >> (64 - 8 * u32::from(self.bytes));
            return u128::from(v >> self.shift) & self.mask;
        }
        if self.bytes == 16
            && at >= 0
            && let Some(b) = buf.get(at as usize..).and_then(|b| b.first_chunk::<16>())
        {
            return u128::from_be_bytes(*b) >> self.shift & self.mask;
        }
        self.read_slowly(buf, at)
    }

    #[cold]
    fn read_slowly(&self, buf: &[u8], at: isize) -> u128 {
        let byte = |i: isize| match usize::try_from(at + i) {
            Ok(i) => buf.get(i).copied().unwrap_or(0),
            Err(_) => 0,
        };
        let n = isize::from(self.bytes);
        let v = (0..n.min(16)).fold(0u128, |v, i| v << 8 | u128::from(byte(i)));
        let v = match n > 16 {
            // 128 bits that begin within a byte reach over 17: the first bits fall out at the top
            true => v << (8 - self.shift) | u128::from(byte(16) >> self.shift),
            false => v >> self.shift,
        };
        v & self.mask
    }
}

/// Writes the low `bits` bits of `v` at bit `bit`, counted from byte `base` of `buf`; what lies outside is left out.
#[inline]
pub(crate) fn write_bits(buf: &mut [u8], base: isize, bit: i32, bits: u8, v: u128) {
    if bit & 7 == 0 && bits & 7 == 0 {
        let n = usize::from(bits / 8);
        let at = base + (bit >> 3) as isize;
        if at >= 0
            && n <= 16
            && let Some(to) = buf.get_mut(at as usize..at as usize + n)
        {
            to.copy_from_slice(&v.to_be_bytes()[16 - n..]);
            return;
        }
    }
    write_slowly(buf, base, bit, bits, v);
}

fn write_slowly(buf: &mut [u8], base: isize, bit: i32, bits: u8, mut v: u128) {
    let mut end = i64::from(bit) + i64::from(bits);
    let mut left = i64::from(bits);
    // Bound: 128 bits, at least one each time.
    while left > 0 {
        let byte = (end - 1).div_euclid(8);
        let unused = byte * 8 + 8 - end;
        let take = (8 - unused).min(left);
        let mask = ((1u16 << take) - 1) as u8;
        let at = base as i64 + byte;
        if let Ok(i) = usize::try_from(at)
            && let Some(b) = buf.get_mut(i)
        {
            *b = *b & !(mask << unused) | (v as u8 & mask) << unused;
        }
        v >>= take;
        end -= take;
        left -= take;
    }
}

/// The byte behind the packet's last one, counted from its first.
#[inline(always)]
pub(crate) fn end_of(end: EndAt, buf: &[u8], head: usize) -> i64 {
    let len = buf.len() as i64 - head as i64;
    // a length that stands `offset` bytes behind the header's start and leaves out `extra` bytes
    let (at, offset, extra) = match end {
        EndAt::Same => return len,
        EndAt::Ip4(at) => (at, 2, 0),
        EndAt::Ip6(at) => (at, 4, 40),
    };
    let i = usize::try_from(head as i64 + i64::from(at) + offset).ok();
    let n = i.and_then(|i| buf.get(i..)?.first_chunk::<2>());
    let end = n.map_or(len, |b| {
        i64::from(at) + extra + i64::from(u16::from_be_bytes(*b))
    });
    end.clamp(0, len)
}

/// The registers of an executor. Slots come first and are always valid; the others hold for one epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regs {
    pub v: Vec<u128>,
    stamp: Vec<u64>,
    epoch: u64,
    pub tables: Tables,
}

/// A table, held on to.
#[derive(Debug, Clone)]
enum Held {
    Routes(HeldRoutes),
    Neighbors(HeldNeighbors),
}

impl Held {
    fn of(store: &StateStore, elem: ElemId) -> Option<Held> {
        match HeldNeighbors::of(store, elem) {
            Some(n) => Some(Held::Neighbors(n)),
            None => HeldRoutes::of(store, elem).map(Held::Routes),
        }
    }
}

/// The tables that a program asks, held on to from the first packet of a batch to the last one. Those of neighbours
/// are let go of whenever an element is about to be called that may write to them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    held: Vec<Option<Held>>,
    /// Calls of write handlers by then.
    changes: u64,
    /// When neighbours must be known, for packets to go without the element.
    now: Timestamp,
    /// There are tables of neighbours among them.
    neighbors: bool,
    /// For a batch, not for a packet.
    pub batch: bool,
}

impl Tables {
    /// Holds on to the tables of these elements as they are now.
    #[inline]
    pub fn take(&mut self, of: &[u32], store: &StateStore, changes: u64, now: Timestamp) {
        if of.is_empty() {
            return;
        }
        self.now = now;
        if self.held.is_empty() || self.changes != changes {
            self.held.clear();
            let tables = of.iter().map(|e| Held::of(store, ElemId(*e)));
            self.held.extend(tables);
            self.changes = changes;
            let neighbors = |t: &Option<Held>| matches!(t, Some(Held::Neighbors(_)));
            self.neighbors = self.held.iter().any(neighbors);
        }
    }

    /// Lets go of them: they may be changed.
    #[inline]
    pub fn release(&mut self) {
        self.held.clear();
    }

    /// Elements are about to be called that may write to tables of neighbours: lets go of them.
    #[inline]
    pub fn elements_write(&mut self) {
        if self.neighbors {
            self.held.clear();
        }
    }

    /// Are there tables of neighbours among those that were held last?
    #[inline]
    pub fn of_neighbors(&self) -> bool {
        self.neighbors
    }

    /// A number that is another one if what tables of neighbours have said may not be so any more. They are held.
    pub fn falsified(&self) -> u64 {
        let changes = |t: &Option<Held>| match t {
            Some(Held::Neighbors(n)) => n.changes(),
            _ => 0,
        };
        self.held.iter().map(changes).fold(0, u64::wrapping_add)
    }

    #[inline]
    fn ask(&self, table: u16, what: RouteWhat, address: u128) -> u128 {
        match self.held.get(usize::from(table)) {
            Some(Some(Held::Routes(t))) => t.ask(what, address),
            Some(Some(Held::Neighbors(t))) => t.ask(what, address, self.now),
            // an element that is none of those has no routes and no neighbours
            _ => match what {
                RouteWhat::Output => u32::MAX.into(),
                RouteWhat::NextHop => address,
                RouteWhat::Known | RouteWhat::Ether => 0,
            },
        }
    }
}

impl Regs {
    pub fn new(n: usize) -> Regs {
        Regs {
            v: vec![0; n],
            stamp: vec![0; n],
            epoch: 1,
            tables: Tables::default(),
        }
    }

    /// A new epoch begins: nothing read so far holds.
    #[inline]
    pub fn begin(&mut self) {
        self.epoch += 1;
    }

    /// Register `r` holds its value; not for slots.
    #[inline]
    pub fn ensure(&mut self, r: u16, sources: &[Source], p: &Packet) {
        let i = usize::from(r);
        if self.stamp.get(i) != Some(&self.epoch) {
            self.extract(i, sources, p);
        }
    }

    /// As [`Regs::ensure`] of a register that has not been read in this epoch.
    #[inline(always)]
    pub fn fill(&mut self, r: u16, sources: &[Source], p: &Packet) {
        let i = usize::from(r);
        match (sources.get(i), self.v.get_mut(i)) {
            // the usual one, without a call; that it is not said to be read does no harm
            (Some(Source::Bits(b)), Some(v)) => *v = b.read(p.buffer(), p.data_offset()),
            _ => self.extract(i, sources, p),
        }
    }

    fn extract(&mut self, i: usize, sources: &[Source], p: &Packet) {
        let (Some(s), Some(v), Some(stamp)) =
            (sources.get(i), self.v.get_mut(i), self.stamp.get_mut(i))
        else {
            return;
        };
        *stamp = self.epoch;
        match s {
            Source::Slot => {}
            Source::Bits(b) => *v = b.read(p.buffer(), p.data_offset()),
            s => *v = s.read(p, &self.tables),
        }
    }
}

impl Source {
    /// The same, where positions count from so many bytes before. [`Source::Len`] is that of the packet at hand in
    /// any case.
    pub fn shifted(self, by: i32) -> Source {
        match self {
            Source::Bits(b) => Source::Bits(b.shifted(by)),
            Source::Check(check, at, end) => Source::Check(
                check,
                at + by,
                match end {
                    EndAt::Same => EndAt::Same,
                    EndAt::Ip4(at) => EndAt::Ip4(at + by),
                    EndAt::Ip6(at) => EndAt::Ip6(at + by),
                },
            ),
            Source::Route(table, Address::Bits(b), what) => {
                Source::Route(table, Address::Bits(b.shifted(by)), what)
            }
            s => s,
        }
    }

    /// The value of a register that is no slot.
    #[inline]
    pub fn read(&self, p: &Packet, tables: &Tables) -> u128 {
        match self {
            Source::Slot => 0,
            Source::Len => p.len() as u128,
            Source::Bits(b) => b.read(p.buffer(), p.data_offset()),
            Source::Check(check, at, end) => {
                let (buf, head) = (p.buffer(), p.data_offset());
                let end = end_of(*end, buf, head);
                u128::from(checks::holds(*check, buf, head, *at, end))
            }
            Source::Anno(offset, size) => anno(p, *offset, *size),
            Source::PacketType => p.anno.packet_type as u128,
            Source::Route(table, of, what) => {
                let address = match of {
                    Address::Bits(b) => b.read(p.buffer(), p.data_offset()),
                    Address::Anno(offset, size) => anno(p, *offset, *size),
                    Address::Is(v) => *v,
                };
                tables.ask(*table, *what, address)
            }
        }
    }
}

fn anno(p: &Packet, offset: u8, size: u8) -> u128 {
    let from = usize::from(offset);
    let bytes = p.anno.bytes().get(from..from + usize::from(size));
    bytes.map_or(0, |b| b.iter().fold(0, |v, b| v << 8 | u128::from(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bit_of(buf: &[u8], head: usize, bit: i64) -> u128 {
        let at = head as i64 * 8 + bit;
        if at < 0 || at >= buf.len() as i64 * 8 {
            return 0;
        }
        u128::from(buf[(at / 8) as usize] >> (7 - at % 8) & 1)
    }

    proptest! {
        #[test]
        fn reads_and_writes_are_those_of_single_bits(
            buf in proptest::collection::vec(any::<u8>(), 0..40),
            head in 0usize..20,
            bit in -200i32..400,
            bits in 1u8..=128,
            v: u128,
        ) {
            let head = head.min(buf.len());
            let b = Bits::new(bit, bits);
            let want = (0..i64::from(bits)).fold(0, |v, i| v << 1 | bit_of(&buf, head, i64::from(bit) + i));
            prop_assert_eq!(b.read(&buf, head), want);

            let mut new = buf.clone();
            write_bits(&mut new, head as isize, bit, bits, v);
            for at in 0..buf.len() as i64 * 8 {
                let rel = at - head as i64 * 8;
                let i = rel - i64::from(bit);
                let want = match (0..i64::from(bits)).contains(&i) {
                    true => v >> (i64::from(bits) - 1 - i) & 1,
                    false => bit_of(&buf, head, rel),
                };
                prop_assert_eq!(bit_of(&new, head, rel), want);
            }
        }
    }
}
