//! Packets that lie in frames of somebody else's: of a device, or of memory that processes share.

use super::{DEFAULT_HEADROOM, NONE, Packet};
use onefold_table::Frame;
use std::ops::Range;

impl Packet {
    /// From now on the packet is these bytes of a frame, as [`Packet::refill`] would make it of them, where they lie;
    /// the frame that it had goes back to its owner. What stands in front of them is cleared. Bytes beyond the frame's
    /// end are left out.
    #[inline]
    pub fn attach(&mut self, frame: Frame, data: Range<usize>) {
        self.buf = frame;
        let end = data.end.min(self.buf.len());
        let start = data.start.min(end);
        // no byte of an earlier packet may be uncovered by a push into the headroom; most begin in the same place
        match self.buf.first_chunk_mut::<DEFAULT_HEADROOM>() {
            Some(front) if start == DEFAULT_HEADROOM => *front = [0; DEFAULT_HEADROOM],
            _ => self.clear_front(start),
        }
        self.stained = start < DEFAULT_HEADROOM;
        self.head = start as u32;
        self.tail = end as u32;
        self.mac = NONE;
        self.net = NONE;
        self.transport = NONE;
        self.anno.clear();
    }

    /// [`Packet::attach`] of `len` bytes behind [`DEFAULT_HEADROOM`], where what stands in front of them is known to be
    /// zero ([`Packet::front_is_clear`] of who had the frame before). Its line is not touched: another core has written
    /// it, or nobody for long, and to wait for it was most of what it took to take a packet out of a ring.
    #[inline]
    pub fn attach_cleared(&mut self, frame: Frame, len: usize) {
        self.buf = frame;
        let end = (DEFAULT_HEADROOM + len).min(self.buf.len());
        self.head = DEFAULT_HEADROOM.min(end) as u32;
        self.stained = end < DEFAULT_HEADROOM;
        self.tail = end as u32;
        self.mac = NONE;
        self.net = NONE;
        self.transport = NONE;
        self.anno.clear();
    }

    /// The data begins at [`DEFAULT_HEADROOM`], and all in front of it is known to be zero.
    #[inline]
    pub fn front_is_clear(&self) -> bool {
        self.head as usize == DEFAULT_HEADROOM && !self.stained
    }

    /// Apart, so that what is usual is not made the same call.
    #[cold]
    fn clear_front(&mut self, n: usize) {
        self.buf[..n].fill(0);
    }

    /// Takes the frame out: where the data begins in it, and how long it is, say [`Packet::data_offset`] and
    /// [`Packet::len`] before. The packet has no bytes then, until it is refilled.
    #[inline]
    pub fn detach(&mut self) -> Frame {
        self.head = 0;
        self.tail = 0;
        self.stained = true;
        std::mem::take(&mut self.buf)
    }
}
