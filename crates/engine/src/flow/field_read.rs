//! Fields as masked matches read them.

use crate::program::headers::registers::{Source, Tables};
use crate::program::headers::shape::Shape;
use crate::simd::WINDOW;
use onefold_packet::{Packet, checksum};

/// How a guarded value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
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
    pub fn value(self, shape: Shape, w: &[u8; WINDOW], p: &Packet) -> u128 {
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
pub(crate) fn word(w: &[u8; WINDOW], byte: u8, shift: u8, mask: u64) -> u64 {
    let b = w
        .get(usize::from(byte)..)
        .and_then(|b| b.first_chunk::<8>());
    b.map_or(0, |b| u64::from_be_bytes(*b) >> (shift & 63) & mask)
}

#[inline(always)]
pub(crate) fn be16(w: &[u8; WINDOW], at: usize) -> usize {
    let b = w.get(at..).and_then(|b| b.first_chunk::<2>());
    b.map_or(0, |b| usize::from(u16::from_be_bytes(*b)))
}

#[inline]
pub(crate) fn tcp_state(shape: Shape, w: &[u8; WINDOW]) -> u8 {
    let flags = w.get(shape.l4() + 13).map_or(0, |b| b & TCP_FLAGS);
    flags | u8::from(tcp_payload(shape, w)) << 3
}

/// SYN, FIN, RST.
pub(crate) const TCP_FLAGS: u8 = 7;

#[inline(always)]
pub(crate) fn tcp_payload(shape: Shape, w: &[u8; WINDOW]) -> bool {
    let words = w.get(shape.l4() + 12).map_or(0, |b| b >> 4);
    20 + usize::from(words) * 4 < be16(w, shape.l3 + 2)
}

#[inline(always)]
pub(crate) fn sum_right(shape: Shape, w: &[u8; WINDOW]) -> bool {
    let h = w.get(shape.l3..).and_then(|b| b.first_chunk::<20>());
    h.is_some_and(checksum::header_ok)
}

/// Bits within eight bytes of the window.
pub(crate) fn bits_read(bit: i32, bits: u8) -> Option<Read> {
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
