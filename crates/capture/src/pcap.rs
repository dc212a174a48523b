//! The classic pcap container: a file header of 24 bytes, then records.

use crate::MAX_FRAME;
use crate::error::Reason;
use crate::frame::{FrameMeta, LinkType};
use crate::source::{Endian, Source};

/// Microseconds.
pub(crate) const MAGIC_US: u32 = 0xa1b2_c3d4;
/// Nanoseconds.
pub(crate) const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Microseconds, with eight more bytes (interface index, protocol, packet type) in each record header: old patched
/// tcpdumps on Linux.
pub(crate) const MAGIC_PATCHED: u32 = 0xa1b2_cd34;

/// Which length comes first in a record header.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// Captured, then original: versions 2.4 on.
    Normal,
    /// Original, then captured: versions before 2.3, and DG/UX.
    Swapped,
    /// Either, depending on who wrote it (2.3): the captured length is the smaller one.
    Unclear,
}

/// The state of a pcap reader.
#[derive(Debug)]
pub(crate) struct Pcap {
    endian: Endian,
    /// Nanoseconds per unit of the fraction.
    unit: i64,
    extra: u64,
    lengths: Lengths,
    link: LinkType,
}

/// Is this the start of a pcap file, and in which byte order?
pub(crate) fn magic(head: [u8; 4]) -> Option<(u32, Endian)> {
    [Endian::Little, Endian::Big]
        .into_iter()
        .map(|e| (e.u32(head), e))
        .find(|(m, _)| matches!(*m, MAGIC_US | MAGIC_NS | MAGIC_PATCHED))
}

impl Pcap {
    /// Reads the rest of the file header.
    pub fn open(source: &mut Source, magic: u32, endian: Endian) -> Result<Self, Reason> {
        let h: [u8; 20] = source.array("pcap file header")?;
        let (major, minor) = (endian.half(&h, 0), endian.half(&h, 2));
        let lengths = match (major, minor) {
            (2, 0..=2) | (543, 0) => Lengths::Swapped,
            (2, 3) => Lengths::Unclear,
            (2, 4) => Lengths::Normal,
            _ => {
                return Err(Reason::Unsupported {
                    what: format!("pcap version {major}.{minor}"),
                    hint: "versions 2.0 to 2.4 are read; if the file is younger than 1998, its header is damaged",
                });
            }
        };
        Ok(Self {
            endian,
            unit: if magic == MAGIC_NS { 1 } else { 1_000 },
            extra: if magic == MAGIC_PATCHED { 8 } else { 0 },
            lengths,
            link: LinkType::from_file(endian.word(&h, 4)),
        })
    }

    pub fn link(&self) -> LinkType {
        self.link
    }

    pub fn nanoseconds(&self) -> bool {
        self.unit == 1
    }

    /// The next record into `buf`; `None` at the end of the file.
    pub fn next(
        &mut self,
        source: &mut Source,
        buf: &mut Vec<u8>,
    ) -> Result<Option<FrameMeta>, Reason> {
        source.begin();
        let mut h = [0u8; 16];
        let got = source.fill(&mut h)?;
        if got == 0 {
            return Ok(None);
        }
        if got < h.len() {
            return Err(Reason::Truncated {
                what: "record header",
                needed: h.len() as u64,
                got: got as u64,
            });
        }
        source.skip(self.extra, "record header")?;
        let word = |i| self.endian.word(&h, i);
        let (first, second) = (word(2), word(3));
        let (captured, orig_len) = match self.lengths {
            Lengths::Normal => (first, second),
            Lengths::Swapped => (second, first),
            Lengths::Unclear => (first.min(second), first.max(second)),
        };
        read_data(source, captured, buf)?;
        // At most 2^32 * (10^9 + 10^3), which an i64 holds. A fraction of a second or more is carried over.
        let ts_ns = i64::from(word(0)) * 1_000_000_000 + i64::from(word(1)) * self.unit;
        Ok(Some(FrameMeta {
            ts_ns,
            orig_len,
            link: self.link,
            interface: 0,
        }))
    }
}

/// Reads the bytes of a frame, after its length was found plausible.
pub(crate) fn read_data(
    source: &mut Source,
    captured: u32,
    buf: &mut Vec<u8>,
) -> Result<(), Reason> {
    let len = captured as usize;
    if len > MAX_FRAME {
        return Err(Reason::FrameTooLong {
            len: len as u64,
            max: MAX_FRAME,
        });
    }
    buf.resize(len, 0);
    source.exact(buf, "frame")
}
