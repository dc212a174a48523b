//! What the kernel has left for hardware to do: checksums that are not finished, and segments that are still in one
//! piece.
//!
//! Virtual interfaces hand frames over as the sender's kernel made them, with a header (`struct virtio_net_hdr`, here
//! [`Offload`]) that says what is missing. A chain gets whole frames: [`complete`] writes the checksum, [`Segments`]
//! cuts a large one into those that would be seen on a wire. What is written is what the kernel itself would write
//! (`skb_checksum_help`, `tcp_gso_segment`, `__udp_gso_segment`).

use onefold_packet::Pkt;
use onefold_packet::checksum::{fold, internet, pseudo_v4, pseudo_v6, sum};

/// Bytes of the header in front of a frame.
pub const HEADER: usize = 10;
/// Most bytes of a frame that has not been cut yet.
pub const MAX_FRAME: usize = 65_536 + ETHERNET + 2 * TAG;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_ECN`: beside the kind.
const WITH_ECN: u8 = 0x80;
/// `VIRTIO_NET_HDR_GSO_NONE`, `_TCPV4`, `_TCPV6`, `_UDP_L4`
const WHOLE: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// Why a frame is not taken.
pub const NOT_SEGMENTED: &str =
    "frame with an offload of the kernel that cannot be done in software";

/// What is missing of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offload {
    flags: u8,
    kind: u8,
    /// Bytes of payload in each segment.
    size: u16,
    /// Where the checksum begins to count.
    start: u16,
    /// Where it stands, from there.
    offset: u16,
}

impl Offload {
    /// As the kernel writes it, in the machine's byte order.
    pub fn read(h: &[u8; HEADER]) -> Offload {
        let word = |i: usize| u16::from_ne_bytes([h[i], h[i + 1]]);
        Offload {
            flags: h[0],
            kind: h[1] & !WITH_ECN,
            size: word(4),
            start: word(6),
            offset: word(8),
        }
    }

    /// Nothing is missing.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.kind == WHOLE && self.flags & NEEDS_CHECKSUM == 0
    }

    /// The frame is to be cut.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.kind != WHOLE
    }
}

/// Finishes the checksum of a frame in one piece. False when the header points outside the frame.
pub fn complete(frame: &mut [u8], o: &Offload) -> bool {
    if o.flags & NEEDS_CHECKSUM == 0 {
        return true;
    }
    let (start, at) = (
        usize::from(o.start),
        usize::from(o.start) + usize::from(o.offset),
    );
    let Some(covered) = frame.get(start..).filter(|_| at + 2 <= frame.len()) else {
        return false;
    };
    // the field holds the sum of the pseudo header already; a sum of zero would say that there is none
    let sum = match internet(covered) {
        0 => 0xffff,
        s => s,
    };
    put(frame, at, sum);
    true
}

fn put(frame: &mut [u8], at: usize, v: u16) {
    if let Some(to) = frame.get_mut(at..at + 2) {
        to.copy_from_slice(&v.to_be_bytes());
    }
}

fn get(frame: &[u8], at: usize) -> Option<u16> {
    let b = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([b[0], b[1]]))
}

fn get32(frame: &[u8], at: usize) -> Option<u32> {
    let b = frame.get(at..at + 4)?.first_chunk()?;
    Some(u32::from_be_bytes(*b))
}

/// Where the headers of a frame are.
#[derive(Debug, Clone, Copy, Default)]
struct Layout {
    kind: u8,
    /// The IP header, the TCP or UDP header, and the payload begin there.
    ip: usize,
    transport: usize,
    payload: usize,
}

impl Layout {
    fn of(frame: &[u8], o: &Offload) -> Option<Layout> {
        let mut ip = ETHERNET;
        let mut kind = get(frame, ip - 2)?;
        for _ in 0..2 {
            if TAGS.contains(&kind) {
                ip += TAG;
                kind = get(frame, ip - 2)?;
            }
        }
        let transport = usize::from(o.start);
        let header = transport.checked_sub(ip)?;
        let first = *frame.get(ip)?;
        let protocol = match (kind, first >> 4) {
            (IPV4, 4) if header == usize::from(first & 15) * 4 && header >= 20 => {
                *frame.get(ip + 9)?
            }
            // extension headers may stand between: the kernel says where the transport header is
            (IPV6, 6) if header == 40 => *frame.get(ip + 6)?,
            (IPV6, 6) if header > 40 => return Self::behind(frame, o, ip, transport),
            _ => return None,
        };
        let fits = match o.kind {
            TCP4 => kind == IPV4 && protocol == 6,
            TCP6 => kind == IPV6 && protocol == 6,
            UDP => protocol == 17,
            _ => false,
        };
        Self::behind(frame, o, ip, transport).filter(|_| fits)
    }

    fn behind(frame: &[u8], o: &Offload, ip: usize, transport: usize) -> Option<Layout> {
        let length = match o.kind {
            UDP => 8,
            TCP4 | TCP6 => usize::from(*frame.get(transport + 12)? >> 4) * 4,
            _ => return None,
        };
        let least = if o.kind == UDP { 8 } else { 20 };
        let payload = transport + length;
        (length >= least && payload <= frame.len()).then_some(Layout {
            kind: o.kind,
            ip,
            transport,
            payload,
        })
    }
}

/// A large frame, and how much of it has been cut off. Bound: one frame of [`MAX_FRAME`] bytes.
#[derive(Debug)]
pub struct Segments {
    frame: Vec<u8>,
    layout: Layout,
    /// Bytes of payload in each segment.
    size: usize,
    /// Where the payload of the next segment begins; the frame's end: nothing is left.
    next: usize,
    /// Number of the next segment.
    number: u32,
}

impl Default for Segments {
    fn default() -> Self {
        Segments {
            frame: Vec::with_capacity(MAX_FRAME),
            layout: Layout::default(),
            size: 0,
            next: 0,
            number: 0,
        }
    }
}

impl Segments {
    /// Begins with a large frame. False when it is of a kind that cannot be cut, or its headers are not what they
    /// should be.
    pub fn begin(&mut self, frame: &[u8], o: &Offload) -> bool {
        self.frame.clear();
        self.next = 0;
        if o.size == 0 || frame.len() > MAX_FRAME {
            return false;
        }
        let Some(layout) = Layout::of(frame, o) else {
            return false;
        };
        self.frame.extend_from_slice(frame);
        self.layout = layout;
        self.size = usize::from(o.size);
        self.next = layout.payload;
        self.number = 0;
        true
    }

    /// Is nothing left?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.frame.len()
    }

    /// Forgets what is left.
    pub fn clear(&mut self) {
        self.frame.clear();
        self.next = 0;
    }

    /// The next segment, in this packet. False when nothing is left.
    pub fn next(&mut self, p: &mut Pkt) -> bool {
        if self.is_empty() {
            return false;
        }
        let l = self.layout;
        let end = self.frame.len().min(self.next + self.size);
        let (Some(headers), Some(payload)) =
            (self.frame.get(..l.payload), self.frame.get(self.next..end))
        else {
            return false;
        };
        p.refill(headers);
        p.put(payload.len());
        if let Some(to) = p.data_mut().get_mut(l.payload..) {
            to.copy_from_slice(payload);
        }
        let last = end == self.frame.len();
        let before = self.next - l.payload;
        self.next = end;
        self.rewrite(p.data_mut(), before, last);
        self.number += 1;
        true
    }

    /// The headers of a segment: lengths, numbers, flags and checksums. `before`: payload in front of it.
    fn rewrite(&self, f: &mut [u8], before: usize, last: bool) {
        let l = self.layout;
        let length = f.len();
        let v4 = f.get(l.ip).is_some_and(|b| b >> 4 == 4);
        if v4 {
            put(f, l.ip + 2, (length - l.ip) as u16);
            let id = get(f, l.ip + 4).unwrap_or(0);
            put(f, l.ip + 4, id.wrapping_add(self.number as u16));
            put(f, l.ip + 10, 0);
            let sum = f.get(l.ip..l.transport).map_or(0, internet);
            put(f, l.ip + 10, sum);
        } else {
            put(f, l.ip + 4, (length - l.ip - 40) as u16);
        }
        let (protocol, field) = match l.kind {
            UDP => {
                put(f, l.transport + 4, (length - l.transport) as u16);
                (17, l.transport + 6)
            }
            _ => {
                self.rewrite_tcp(f, before, last);
                (6, l.transport + 16)
            }
        };
        put(f, field, 0);
        let sum = match transport_sum(f, &l, v4, protocol) {
            0 => 0xffff,
            s => s,
        };
        put(f, field, sum);
    }

    fn rewrite_tcp(&self, f: &mut [u8], before: usize, last: bool) {
        let at = self.layout.transport;
        let sequence = get32(f, at + 4).unwrap_or(0).wrapping_add(before as u32);
        if let Some(to) = f.get_mut(at + 4..at + 8) {
            to.copy_from_slice(&sequence.to_be_bytes());
        }
        if let Some(flags) = f.get_mut(at + 13) {
            if !last {
                *flags &= !TCP_FIN_PSH;
            }
            if before > 0 {
                *flags &= !TCP_CWR;
            }
        }
    }
}

/// The checksum of a segment whose field is zero.
fn transport_sum(f: &[u8], l: &Layout, v4: bool, protocol: u8) -> u16 {
    let Some(data) = f.get(l.transport..) else {
        return 0;
    };
    let addresses = |at: usize, n: usize| f.get(at..at + n);
    let pseudo = match v4 {
        true => addresses(l.ip + 12, 8).and_then(|a| {
            let (src, dst) = (a.first_chunk::<4>()?, a.last_chunk::<4>()?);
            Some(pseudo_v4(*src, *dst, protocol, data.len() as u16))
        }),
        false => addresses(l.ip + 8, 32).and_then(|a| {
            let (src, dst) = (a.first_chunk::<16>()?, a.last_chunk::<16>()?);
            Some(pseudo_v6(src, dst, protocol, data.len() as u32))
        }),
    };
    !fold(sum(data, pseudo.unwrap_or(0)))
}

#[cfg(test)]
mod tests;
