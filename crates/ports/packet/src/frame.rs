//! A frame as the kernel hands it over, and how it becomes a packet.

use crate::offload::{NOT_SEGMENTED, Offload, Segments, complete};
use onefold_packet::Pkt;

/// The VLAN tag that the kernel has taken out of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tag(Option<[u8; 4]>);

/// What a tag without a type of its own has: IEEE 802.1Q.
const CUSTOMER: u16 = 0x8100;

impl Tag {
    /// As the kernel says it: status, tag control information, type.
    #[inline]
    pub fn new(status: u32, tci: u16, tpid: u16) -> Tag {
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return Tag(None);
        }
        let kind = match status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => CUSTOMER,
            _ => tpid,
        };
        let ([a, b], [c, d]) = (kind.to_be_bytes(), tci.to_be_bytes());
        Tag(Some([a, b, c, d]))
    }

    /// Puts the tag where it was.
    #[inline]
    pub fn put_back(self, p: &mut Pkt) {
        if let Some(tag) = self.0 {
            p.push(4);
            let f = p.data_mut();
            if f.len() >= 16 {
                f.copy_within(4..16, 0);
                f[12..16].copy_from_slice(&tag);
            }
        }
    }
}

/// A frame, and what the kernel has left to do.
#[derive(Debug)]
pub struct Whole<'a> {
    /// Its bytes.
    pub frame: &'a [u8],
    /// What is missing.
    pub offload: Offload,
    /// The tag that is not in it.
    pub tag: Tag,
}

/// Makes packets of frames: a frame as it is, or a large one's segments.
#[derive(Debug, Default)]
pub struct Intake {
    segments: Segments,
    tag: Tag,
    /// Frames that could not be made whole.
    pub refused: u64,
    /// Large frames that were cut, and checksums that were finished.
    pub segmented: u64,
    /// Checksums that were finished.
    pub completed: u64,
}

impl Intake {
    /// Why a frame is refused.
    pub const REFUSED: &'static str = NOT_SEGMENTED;

    /// Is a frame still being cut? [`Intake::more`] goes on then, before anything else is taken.
    #[inline]
    pub fn is_busy(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Takes a frame: the packet to the end of `batch`, or the first segments as far as there are buffers; at most
    /// `n` packets.
    #[inline]
    pub fn take(&mut self, w: &Whole<'_>, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, n: usize) {
        if w.offload.is_large() {
            return self.large(w, free, batch, n);
        }
        let Some(mut p) = free.pop() else { return };
        p.refill(w.frame);
        if !w.offload.is_none() {
            if !complete(p.data_mut(), &w.offload) {
                self.refused += 1;
                free.push(p);
                return;
            }
            self.completed += 1;
        }
        w.tag.put_back(&mut p);
        batch.push(p);
    }

    #[cold]
    fn large(&mut self, w: &Whole<'_>, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, n: usize) {
        if !self.segments.begin(w.frame, &w.offload) {
            self.refused += 1;
            return;
        }
        self.segmented += 1;
        self.tag = w.tag;
        self.more(free, batch, n);
    }

    /// Goes on with a large frame; at most `n` packets.
    pub fn more(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, n: usize) {
        for _ in 0..n {
            let Some(mut p) = free.pop() else { return };
            if !self.segments.next(&mut p) {
                free.push(p);
                return;
            }
            self.tag.put_back(&mut p);
            batch.push(p);
        }
    }

    /// Forgets a frame that is being cut.
    pub fn clear(&mut self) {
        self.segments.clear();
    }
}
