//! The packet buffer: headroom, data, tailroom, header offsets, annotations.

mod frames;

use crate::anno::Anno;
use crate::refill::copy;
use crate::time::Timestamp;
use onefold_table::{Frame, prefetch_at};

/// Headroom that a new packet gets. Click's user-level default is 28; 64 leaves room for a VLAN stack and a tunnel
/// header without moving data and is not visible in any output.
pub const DEFAULT_HEADROOM: usize = 64;
/// Smallest buffer that is allocated, so that minimum-size frames reuse one size class of the [`crate::Pool`].
pub const MIN_BUFFER_LEN: usize = 256;
/// Longest packet that may be made or grown to; a longer request is cut. Above the largest capture frame that is read.
pub const MAX_PACKET_LEN: usize = 1 << 20;

/// A packet that moves between elements: one pointer.
pub type Pkt = Box<Packet>;

/// Offset value that stands for "not set".
const NONE: u32 = u32::MAX;

/// One packet: an owned buffer whose `head..tail` is the packet's data, header offsets, and annotations.
///
/// Header offsets (MAC, network, transport) are positions in the *buffer*, so that [`Packet::pull`] and
/// [`Packet::push`] do not move them, as Click's header annotations.
///
/// All that a packet without annotations needs is in its first cache line: refilling one touches that line and the
/// data.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Packet {
    pub(crate) buf: Frame,
    pub(crate) head: u32,
    pub(crate) tail: u32,
    mac: u32,
    net: u32,
    transport: u32,
    /// Something may have been written before [`DEFAULT_HEADROOM`].
    stained: bool,
    /// Annotations.
    pub anno: Anno,
    /// The packet's place among those of its batch, for engines that take many at a time: copies have it, too. No
    /// element looks at it, and it means nothing outside of a batch.
    pub order: u64,
    /// How many elements fewer the packet has passed than what its batch counts, for the same engines: batches that
    /// have come different ways go on together.
    pub behind: u32,
}

impl Packet {
    /// An empty-headed packet with a copy of `data`.
    pub fn from_slice(data: &[u8]) -> Packet {
        Self::with_room(DEFAULT_HEADROOM, data, 0)
    }

    /// A packet with a copy of `data` between the given head- and tailroom (bytes).
    pub fn with_room(headroom: usize, data: &[u8], tailroom: usize) -> Packet {
        let data = &data[..data.len().min(MAX_PACKET_LEN)];
        let headroom = headroom.min(MAX_PACKET_LEN);
        let want = (headroom + data.len() + tailroom.min(MAX_PACKET_LEN)).max(MIN_BUFFER_LEN);
        let mut p = Packet::of(Frame::zeroed(want), headroom);
        p.buf[headroom..headroom + data.len()].copy_from_slice(data);
        p.tail = (headroom + data.len()) as u32;
        p
    }

    /// An empty packet in this frame, which is zero and not shorter than the headroom.
    pub(crate) fn of(buf: Frame, headroom: usize) -> Packet {
        Packet {
            buf,
            head: headroom as u32,
            tail: headroom as u32,
            mac: NONE,
            net: NONE,
            transport: NONE,
            stained: headroom < DEFAULT_HEADROOM,
            order: 0,
            behind: 0,
            anno: Anno::default(),
        }
    }

    /// A packet of `len` zero bytes.
    pub fn zeroed(len: usize) -> Packet {
        let mut p = Self::with_room(DEFAULT_HEADROOM, &[], len.min(MAX_PACKET_LEN));
        p.put(len);
        p
    }

    /// Refills this packet as [`Packet::from_slice`] would make it, keeping the allocation.
    #[inline]
    pub fn refill(&mut self, data: &[u8]) {
        let data = &data[..data.len().min(MAX_PACKET_LEN)];
        let end = DEFAULT_HEADROOM + data.len();
        if self.buf.len() < end {
            self.buf.grow(end.max(MIN_BUFFER_LEN));
        }
        // no byte of an earlier packet may be uncovered by a push into the headroom
        if self.stained {
            self.buf[..DEFAULT_HEADROOM].fill(0);
            self.stained = false;
        }
        copy(&mut self.buf[DEFAULT_HEADROOM..end], data);
        self.head = DEFAULT_HEADROOM as u32;
        self.tail = end as u32;
        self.mac = NONE;
        self.net = NONE;
        self.transport = NONE;
        self.anno.clear();
    }

    /// [`Packet::refill`] with the first `len` bytes of a cache line: as much as there is of it, without asking how
    /// much that is; arrived at this time. What a fresh packet has and this one has not lost is not written again.
    #[inline(always)]
    pub fn refill_line(&mut self, line: &[u8; 64], len: usize, at: Timestamp) {
        let len = len.min(line.len());
        let end = DEFAULT_HEADROOM + line.len();
        let to = self.buf.get_mut(DEFAULT_HEADROOM..end);
        match to.and_then(|b| b.first_chunk_mut::<64>()) {
            Some(to) if !(self.stained | self.anno.used()) => *to = *line,
            _ => {
                self.refill(line.get(..len).unwrap_or_default());
                self.anno.timestamp = at;
                return;
            }
        }
        self.head = DEFAULT_HEADROOM as u32;
        self.tail = (DEFAULT_HEADROOM + len) as u32;
        self.mac = NONE;
        self.net = NONE;
        self.transport = NONE;
        self.anno.fresh(at);
    }

    /// The memory that the packet lies in.
    #[inline]
    pub fn frame(&self) -> &Frame {
        &self.buf
    }

    /// Is its memory a device's, to go back as soon as the packet has left or was dropped?
    #[inline(always)]
    pub fn is_borrowed(&self) -> bool {
        self.buf.is_borrowed()
    }

    /// A packet whose memory is a device's is moved to the heap, and the device gets its memory back: for packets that
    /// stay for long. False: it is on the heap already.
    pub fn copy_out(&mut self) -> bool {
        let borrowed = self.is_borrowed();
        if borrowed {
            self.buf = self.buf.clone();
        }
        borrowed
    }

    /// Its data is about to be read or written: the line where it begins is asked for.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_at(self.buf.as_ptr().wrapping_add(self.head as usize));
    }

    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }
    /// No data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }
    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.buf[self.head as usize..self.tail as usize]
    }
    /// The data, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.buf[self.head as usize..self.tail as usize]
    }
    /// The first `N` bytes of the buffer from the start of the data on, whether or not the data ends within them;
    /// `None` where the buffer ends before. What stands behind the data means nothing.
    #[inline]
    pub fn window<const N: usize>(&self) -> Option<&[u8; N]> {
        let at = self.head as usize;
        self.buf.get(at..at + N)?.first_chunk()
    }
    /// [`Packet::window`], to be changed; bytes behind the data are to be left as they are.
    #[inline]
    pub fn window_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let at = self.head as usize;
        self.buf.get_mut(at..at + N)?.first_chunk_mut()
    }
    /// Bytes free before the data.
    pub fn headroom(&self) -> usize {
        self.head as usize
    }
    /// Bytes free after the data.
    pub fn tailroom(&self) -> usize {
        self.buf.len() - self.tail as usize
    }

    /// Removes up to `n` bytes from the front (Click's `pull`); what is removed stays in the headroom.
    #[inline]
    pub fn pull(&mut self, n: usize) {
        self.head += n.min(self.len()) as u32;
    }

    /// Adds `n` bytes at the front, uncovering what the headroom holds (Click's `push`); grows the buffer if needed.
    /// Beyond [`MAX_PACKET_LEN`] nothing is added.
    #[inline]
    pub fn push(&mut self, n: usize) {
        if n > self.head as usize {
            self.grow_head(n);
        }
        if n <= self.head as usize {
            self.head -= n as u32;
            self.stained |= (self.head as usize) < DEFAULT_HEADROOM;
        }
    }

    #[cold]
    fn grow_head(&mut self, n: usize) {
        if self.len() + n > MAX_PACKET_LEN {
            return;
        }
        self.stained = true;
        let extra = n - self.head as usize + DEFAULT_HEADROOM;
        self.buf.grow_front(extra);
        let e = extra as u32;
        self.head += e;
        self.tail += e;
        for o in [&mut self.mac, &mut self.net, &mut self.transport] {
            if *o != NONE {
                *o += e;
            }
        }
    }

    /// Adds `n` zero bytes at the end (Click's `put`, but cleared). Beyond [`MAX_PACKET_LEN`] nothing is added.
    pub fn put(&mut self, n: usize) {
        if self.len().saturating_add(n) > MAX_PACKET_LEN {
            return;
        }
        let end = self.tail as usize + n;
        if end > self.buf.len() {
            self.buf.grow(end);
        }
        self.buf[self.tail as usize..end].fill(0);
        self.tail = end as u32;
    }

    /// Removes up to `n` bytes from the end (Click's `take`).
    #[inline]
    pub fn take(&mut self, n: usize) {
        self.tail -= n.min(self.len()) as u32;
    }

    /// Keeps up to `n` bytes of the data, the first ones.
    #[inline]
    pub fn keep(&mut self, n: usize) {
        self.tail = self.head + n.min(self.len()) as u32;
    }

    /// Moves the data so that its first byte stands at a buffer offset that is `offset` modulo `modulus`. What stands
    /// before the data moves with it, so that a later [`Packet::push`] uncovers what it would have uncovered.
    pub fn align(&mut self, modulus: usize, offset: usize) {
        if modulus == 0 {
            return;
        }
        let want = offset % modulus;
        let have = self.head as usize % modulus;
        if have == want {
            return;
        }
        self.stained = true;
        let shift = (want + modulus - have) % modulus;
        let t = self.tail as usize;
        if t + shift > self.buf.len() {
            self.buf.grow(t + shift);
        }
        self.buf.copy_within(..t, shift);
        self.head += shift as u32;
        self.tail += shift as u32;
        for o in [&mut self.mac, &mut self.net, &mut self.transport] {
            if *o != NONE {
                *o += shift as u32;
            }
        }
    }

    /// Where the data starts in the buffer (what [`Packet::align`] works on).
    pub fn data_offset(&self) -> usize {
        self.head as usize
    }

    /// Sets the MAC header at `offset` from the start of the data (negative: in the headroom).
    #[inline]
    pub fn set_mac_header(&mut self, offset: isize) {
        self.mac = self.buffer_pos(offset);
    }
    /// Sets the network header at `offset` from the start of the data and the transport header `header_len` after it.
    #[inline]
    pub fn set_network_header(&mut self, offset: isize, header_len: usize) {
        self.net = self.buffer_pos(offset);
        self.transport = self.buffer_pos(offset.saturating_add(header_len as isize));
    }
    /// Sets the MAC header at `offset` and the network header `len` bytes after it; the transport header stays.
    pub fn set_mac_header_len(&mut self, offset: isize, len: usize) {
        self.mac = self.buffer_pos(offset);
        self.net = self.buffer_pos(offset.saturating_add(len as isize));
    }
    /// Sets the network header alone, at `offset`; the transport header stays, set or not.
    #[inline]
    pub fn move_network_header(&mut self, offset: isize) {
        self.net = self.buffer_pos(offset);
    }
    /// Sets all three headers, in bytes from the start of the data: [`Packet::set_mac_header`] and
    /// [`Packet::set_network_header`] of places that are known.
    #[inline(always)]
    pub fn set_headers(&mut self, mac: u16, net: u16, transport: u16) {
        let from = |at: u16| self.head + u32::from(at);
        (self.mac, self.net, self.transport) = (from(mac), from(net), from(transport));
    }
    /// Clears the MAC header annotation.
    #[inline]
    pub fn clear_mac_header(&mut self) {
        self.mac = NONE;
    }
    /// Clears network and transport header annotations.
    #[inline]
    pub fn clear_network_header(&mut self) {
        self.net = NONE;
        self.transport = NONE;
    }
    /// A header may start past the end of the data (a lying length): it then has an offset, but no bytes.
    #[inline]
    fn buffer_pos(&self, offset: isize) -> u32 {
        const FAR: isize = (4 * MAX_PACKET_LEN) as isize;
        let p = (self.head as isize).saturating_add(offset);
        if p < 0 { NONE } else { p.min(FAR) as u32 }
    }

    fn offset_of(&self, pos: u32) -> Option<isize> {
        (pos != NONE).then(|| pos as isize - self.head as isize)
    }
    /// The MAC header's offset from the start of the data, if set.
    pub fn mac_header_offset(&self) -> Option<isize> {
        self.offset_of(self.mac)
    }
    /// The network header's offset from the start of the data, if set.
    #[inline]
    pub fn network_header_offset(&self) -> Option<isize> {
        self.offset_of(self.net)
    }
    /// The transport header's offset from the start of the data, if set.
    #[inline]
    pub fn transport_header_offset(&self) -> Option<isize> {
        self.offset_of(self.transport)
    }
    fn bytes_at(&self, pos: u32) -> Option<&[u8]> {
        if pos == NONE {
            return None;
        }
        self.buf.get(pos as usize..self.tail as usize)
    }
    fn bytes_at_mut(&mut self, pos: u32) -> Option<&mut [u8]> {
        if pos == NONE {
            return None;
        }
        self.stained |= (pos as usize) < DEFAULT_HEADROOM;
        self.buf.get_mut(pos as usize..self.tail as usize)
    }
    /// From the MAC header to the end of the data; `None` when not set or past the end.
    pub fn mac(&self) -> Option<&[u8]> {
        self.bytes_at(self.mac)
    }
    /// [`Packet::mac`], to be changed.
    pub fn mac_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.mac)
    }
    /// From the network header to the end of the data; `None` when not set or past the end.
    #[inline]
    pub fn network(&self) -> Option<&[u8]> {
        self.bytes_at(self.net)
    }
    /// [`Packet::network`], to be changed.
    #[inline]
    pub fn network_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.net)
    }
    /// From the transport header to the end of the data; `None` when not set or past the end.
    #[inline]
    pub fn transport(&self) -> Option<&[u8]> {
        self.bytes_at(self.transport)
    }
    /// [`Packet::transport`], to be changed.
    #[inline]
    pub fn transport_mut(&mut self) -> Option<&mut [u8]> {
        self.bytes_at_mut(self.transport)
    }
    /// The whole buffer's bytes before the data, newest last (what `Unstrip` would uncover).
    pub fn headroom_bytes(&self) -> &[u8] {
        &self.buf[..self.head as usize]
    }
    /// Headroom and data in one slice; the data starts at [`Packet::data_offset`].
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        &self.buf[..self.tail as usize]
    }
    /// [`Packet::buffer`], to be changed.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        self.stained = true;
        &mut self.buf[..self.tail as usize]
    }
    /// The annotations back to those of a new packet; header offsets cleared.
    pub fn clear_annotations(&mut self) {
        self.anno = Anno::default();
        self.mac = NONE;
        self.net = NONE;
        self.transport = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_and_unstrip_keep_bytes_and_headers() {
        let d: Vec<u8> = (0..40).collect();
        let mut p = Packet::from_slice(&d);
        p.set_mac_header(0);
        p.set_network_header(14, 20);
        p.pull(14);
        assert_eq!(p.network_header_offset(), Some(0));
        assert_eq!(p.mac_header_offset(), Some(-14));
        assert_eq!(p.network().unwrap()[0], 14);
        p.push(14);
        assert_eq!(p.data(), &d[..]);
        p.push(500);
        assert_eq!(p.len(), 540);
        assert_eq!(p.mac_header_offset(), Some(500));
        assert_eq!(&p.data()[500..], &d[..]);
    }

    #[test]
    fn offsets_past_the_end_are_none_not_panics() {
        let mut p = Packet::from_slice(&[1, 2, 3]);
        p.set_network_header(2, 60);
        assert_eq!(p.network(), Some(&[3u8][..]));
        assert_eq!(p.transport(), None);
        p.take(10);
        assert_eq!((p.len(), p.network()), (0, None));
        p.set_network_header(-1000, 0);
        assert_eq!(p.network_header_offset(), None);
        p.set_mac_header_len(5000, 14);
        assert_eq!(p.network_header_offset(), Some(5014));
        assert_eq!((p.mac(), p.network()), (None, None));
        assert_eq!(p.network_mut(), None);
        p.set_mac_header(isize::MAX);
        assert_eq!(p.mac(), None);
        p.pull(1000);
        p.put(MAX_PACKET_LEN + 1);
        assert_eq!(p.len(), 0);
    }

    #[test]
    fn align_moves_data() {
        let mut p = Packet::from_slice(&[7; 100]);
        p.set_network_header(3, 20);
        for (m, o) in [(4, 2), (4, 0), (8, 5), (2, 1), (0, 3)] {
            p.align(m, o);
            if m != 0 {
                assert_eq!(p.data_offset() % m, o);
            }
            assert_eq!(p.data(), &[7; 100]);
            assert_eq!(p.network_header_offset(), Some(3));
        }
        p.pull(30);
        p.align(4, 3);
        p.push(30);
        assert_eq!(p.data(), &[7; 100]);
    }

    #[test]
    fn whatever_was_written_before_the_data_is_gone_after_a_refill() {
        let ways: [fn(&mut Packet); 8] = [
            |p| {
                p.push(30);
                p.data_mut().fill(9);
            },
            |p| {
                p.push(DEFAULT_HEADROOM + 500);
                p.data_mut().fill(9);
            },
            |p| {
                p.set_mac_header(-14);
                p.mac_mut().unwrap().fill(9);
            },
            |p| {
                p.set_network_header(-40, 20);
                p.network_mut().unwrap().fill(9);
                p.transport_mut().unwrap().fill(9);
            },
            |p| p.buffer_mut().fill(9),
            |p| {
                p.data_mut().fill(9);
                p.align(64, 13);
                p.push(20);
                p.data_mut().fill(9);
            },
            |p| {
                p.pull(10);
                p.align(4, 1);
                p.push(DEFAULT_HEADROOM);
                p.data_mut().fill(9);
            },
            |p| {
                *p = Packet::with_room(3, &[9; 100], 0);
                p.data_mut().fill(9);
            },
        ];
        for (i, way) in ways.iter().enumerate() {
            let mut p = Packet::from_slice(&[1; 80]);
            way(&mut p);
            let mut q = p.clone();
            for p in [&mut p, &mut q] {
                p.refill(&[2; 40]);
                assert!(p.headroom_bytes().iter().all(|b| *b == 0), "way {i}");
                p.push(DEFAULT_HEADROOM);
                assert!(
                    p.data().iter().take(DEFAULT_HEADROOM).all(|b| *b == 0),
                    "way {i}"
                );
            }
        }
    }

    #[test]
    fn headers_are_set_at_once_as_one_after_the_other() {
        for (pull, mac, net, len) in [(0, 0, 14, 20), (7, 3, 40, 24), (60, 0, 65_000, 60)] {
            let mut p = Packet::from_slice(&[1; 60]);
            p.pull(pull);
            let mut q = p.clone();
            p.set_mac_header(isize::from(mac as i16));
            p.set_network_header(net as isize, len);
            q.set_headers(mac, net, net + len as u16);
            let places = |p: &Packet| {
                let (mac, net) = (p.mac_header_offset(), p.network_header_offset());
                (mac, net, p.transport_header_offset())
            };
            assert_eq!(places(&p), places(&q));
        }
    }

    #[test]
    fn every_length_is_copied() {
        let d: Vec<u8> = (0..200).collect();
        for n in 0..200 {
            let mut p = Packet::from_slice(&[255; 100]);
            p.refill(&d[..n]);
            assert_eq!(p.data(), &d[..n]);
        }
    }

    #[test]
    fn refilled_with_a_line() {
        let line: [u8; 64] = std::array::from_fn(|i| i as u8 + 1);
        for len in [0, 1, 42, 60, 64, 100] {
            let data = &line[..len.min(64)];
            let mut p = Packet::from_slice(&[9; 300]);
            p.anno.set_paint(3);
            p.push(20);
            p.data_mut().fill(7);
            // once with something in the headroom, once without
            for _ in 0..2 {
                p.refill_line(&line, len, Timestamp(5));
                let mut anno = Anno::default();
                anno.timestamp = Timestamp(5);
                assert_eq!((p.data(), p.anno), (data, anno));
                assert_eq!(p.network_header_offset(), None);
                assert!(p.headroom_bytes().iter().all(|b| *b == 0));
            }
            let mut small = Packet::with_room(0, &[], 0);
            small.refill_line(&line, len, Timestamp::ZERO);
            assert_eq!(small.data(), data);
        }
    }
}
