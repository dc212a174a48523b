//! The pcapng container: sections of blocks.

use crate::MAX_FRAME;
use crate::error::Reason;
use crate::frame::{FrameMeta, LinkType};
use crate::pcap::read_data;
use crate::source::{Endian, Source};

pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

pub(crate) const OPTION_END: u16 = 0;
pub(crate) const OPTION_COMMENT: u16 = 1;
pub(crate) const OPTION_TSRESOL: u16 = 9;
pub(crate) const OPTION_TSOFFSET: u16 = 14;

/// A section with more interfaces than this is refused: a file must not choose how much memory its reader takes.
const MAX_INTERFACES: usize = 65_536;

/// Type and length before the body, length after it.
const FRAMING: u32 = 12;

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// `if_tsresol`: 10^-n, or 2^-n where the top bit is set.
    resolution: u8,
    /// `if_tsoffset`: seconds to add.
    offset: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            resolution: 6,
            offset: 0,
        }
    }
}

impl Clock {
    /// Nanoseconds since the epoch, saturating.
    fn ns(self, ticks: u64) -> i64 {
        const PER_SECOND: u128 = 1_000_000_000;
        let ticks = u128::from(ticks);
        let ns: u128 = if self.resolution & 0x80 != 0 {
            let shift = u32::from(self.resolution & 0x7f);
            // 2^64 * 10^9 < 2^94; a shift of 94 bits or more leaves nothing.
            (ticks * PER_SECOND).checked_shr(shift).unwrap_or(0)
        } else {
            match u32::from(self.resolution) {
                n @ 0..=9 => ticks * 10u128.pow(9 - n),
                // 2^64 < 10^20: beyond 10^-29 no tick count reaches a nanosecond.
                n @ 10..=29 => ticks / 10u128.pow(n - 9),
                _ => 0,
            }
        };
        let total = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(i128::from(self.offset) * PER_SECOND as i128);
        i64::try_from(total).unwrap_or(if total < 0 { i64::MIN } else { i64::MAX })
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Zero: no limit.
    snaplen: u32,
    clock: Clock,
}

/// The state of a pcapng reader.
#[derive(Debug)]
pub(crate) struct PcapNg {
    endian: Endian,
    interfaces: Vec<Interface>,
    last_ts: i64,
}

impl PcapNg {
    /// Reads the first section header; its type was consumed already.
    pub fn open(source: &mut Source) -> Result<Self, Reason> {
        let mut ng = Self {
            endian: Endian::Little,
            interfaces: Vec::new(),
            last_ts: 0,
        };
        ng.section(source)?;
        Ok(ng)
    }

    /// The link type of the first interface of the current section.
    pub fn link(&self) -> Option<LinkType> {
        self.interfaces.first().map(|i| i.link)
    }

    /// Starts a section: its byte order, its version, no interfaces yet.
    fn section(&mut self, source: &mut Source) -> Result<(), Reason> {
        let h: [u8; 8] = source.array("section header")?;
        let endian = match Endian::Little.word(&h, 1) {
            BYTE_ORDER_MAGIC => Endian::Little,
            m if m.swap_bytes() == BYTE_ORDER_MAGIC => Endian::Big,
            magic => return Err(Reason::BadByteOrder { magic }),
        };
        self.endian = endian;
        self.interfaces.clear();
        let len = endian.word(&h, 0);
        let body = body_length("section header", len, 16)?;
        let v: [u8; 12] = source.array("section header")?;
        let (major, minor) = (endian.half(&v, 0), endian.half(&v, 2));
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(Reason::Unsupported {
                what: format!("pcapng version {major}.{minor}"),
                hint: "version 1.0 is read; convert with `editcap -F pcap`",
            });
        }
        source.skip(u64::from(body - 16), "section header")?;
        self.trailer(source, len)
    }

    /// The next frame into `buf`; `None` at the end of the file.
    pub fn next(
        &mut self,
        source: &mut Source,
        buf: &mut Vec<u8>,
    ) -> Result<Option<FrameMeta>, Reason> {
        // Ends with the file: each round consumes at least four bytes.
        loop {
            source.begin();
            let mut kind = [0u8; 4];
            let got = source.fill(&mut kind)?;
            if got == 0 {
                return Ok(None);
            }
            if got < kind.len() {
                return Err(Reason::Truncated {
                    what: "block header",
                    needed: 8,
                    got: got as u64,
                });
            }
            let kind = self.endian.u32(kind);
            if kind == SECTION_HEADER {
                // The same four bytes in either byte order.
                self.section(source)?;
                continue;
            }
            let len = self.endian.u32(source.array("block header")?);
            let meta = match kind {
                INTERFACE_DESCRIPTION => {
                    self.interface(source, len)?;
                    None
                }
                ENHANCED_PACKET => Some(self.packet(source, len, false, buf)?),
                PACKET => Some(self.packet(source, len, true, buf)?),
                SIMPLE_PACKET => Some(self.simple_packet(source, len, buf)?),
                _ => {
                    let body = body_length("pcapng", len, 0)?;
                    source.skip(u64::from(body), "block")?;
                    None
                }
            };
            self.trailer(source, len)?;
            if let Some(meta) = meta {
                self.last_ts = meta.ts_ns;
                return Ok(Some(meta));
            }
        }
    }

    fn trailer(&self, source: &mut Source, head: u32) -> Result<(), Reason> {
        let tail = self.endian.u32(source.array("block trailer")?);
        if head != tail {
            return Err(Reason::BlockLengthMismatch { head, tail });
        }
        Ok(())
    }

    fn interface(&mut self, source: &mut Source, len: u32) -> Result<(), Reason> {
        const BLOCK: &str = "interface description";
        let body = body_length(BLOCK, len, 8)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(Reason::TooManyInterfaces(MAX_INTERFACES));
        }
        let h: [u8; 8] = source.array(BLOCK)?;
        let mut interface = Interface {
            link: LinkType::from_file(u32::from(self.endian.half(&h, 0))),
            snaplen: self.endian.word(&h, 1),
            clock: Clock::default(),
        };
        let mut left = body - 8;
        // Each option takes at least four bytes of the block.
        while left >= 4 {
            let o: [u8; 4] = source.array(BLOCK)?;
            left -= 4;
            let (code, length) = (self.endian.half(&o, 0), self.endian.half(&o, 2));
            if code == OPTION_END {
                break;
            }
            let padded = u32::from(length).next_multiple_of(4);
            if padded > left {
                return Err(Reason::BadBlockLength {
                    block: BLOCK,
                    len,
                    why: "an option reaches beyond its end",
                });
            }
            left -= padded;
            match (code, length) {
                (OPTION_TSRESOL, 1) => {
                    let v: [u8; 4] = source.array(BLOCK)?;
                    interface.clock.resolution = v[0];
                }
                (OPTION_TSOFFSET, 8) => {
                    interface.clock.offset = self.endian.i64(source.array(BLOCK)?);
                }
                _ => source.skip(u64::from(padded), BLOCK)?,
            }
        }
        source.skip(u64::from(left), BLOCK)?;
        self.interfaces.push(interface);
        Ok(())
    }

    fn known(&self, id: u32) -> Result<Interface, Reason> {
        usize::try_from(id)
            .ok()
            .and_then(|i| self.interfaces.get(i))
            .copied()
            .ok_or(Reason::UnknownInterface {
                id,
                known: self.interfaces.len(),
            })
    }

    /// An enhanced packet block, or the obsolete packet block: they differ in the first word.
    fn packet(
        &mut self,
        source: &mut Source,
        len: u32,
        obsolete: bool,
        buf: &mut Vec<u8>,
    ) -> Result<FrameMeta, Reason> {
        const BLOCK: &str = "packet";
        let body = body_length(BLOCK, len, 20)?;
        let h: [u8; 20] = source.array("packet block")?;
        let id = if obsolete {
            u32::from(self.endian.half(&h, 0))
        } else {
            self.endian.word(&h, 0)
        };
        let interface = self.known(id)?;
        let ticks = u64::from(self.endian.word(&h, 1)) << 32 | u64::from(self.endian.word(&h, 2));
        let captured = self.endian.word(&h, 3);
        if captured > body - 20 {
            return Err(Reason::BadBlockLength {
                block: BLOCK,
                len,
                why: "its frame is longer than the block",
            });
        }
        read_data(source, captured, buf)?;
        // Padding and options.
        source.skip(u64::from(body - 20 - captured), "packet block")?;
        Ok(FrameMeta {
            ts_ns: interface.clock.ns(ticks),
            orig_len: self.endian.word(&h, 4),
            link: interface.link,
            interface: id,
        })
    }

    /// A simple packet block: interface 0, no time, and a captured length that is not recorded but follows.
    fn simple_packet(
        &mut self,
        source: &mut Source,
        len: u32,
        buf: &mut Vec<u8>,
    ) -> Result<FrameMeta, Reason> {
        const BLOCK: &str = "simple packet";
        let body = body_length(BLOCK, len, 4)?;
        let interface = self.known(0)?;
        let orig_len = self.endian.u32(source.array("packet block")?);
        let room = body - 4;
        let snaplen = match interface.snaplen {
            0 => u32::MAX,
            n => n,
        };
        let captured = orig_len.min(snaplen).min(room);
        read_data(source, captured, buf)?;
        source.skip(u64::from(room - captured), "packet block")?;
        Ok(FrameMeta {
            ts_ns: self.last_ts,
            orig_len,
            link: interface.link,
            interface: 0,
        })
    }
}

/// The length of a block's body, after the block's length was found plausible.
fn body_length(block: &'static str, len: u32, least: u32) -> Result<u32, Reason> {
    let why = if len < FRAMING + least {
        "too short for what it must hold"
    } else if !len.is_multiple_of(4) {
        "not a multiple of four"
    } else {
        return Ok(len - FRAMING);
    };
    Err(Reason::BadBlockLength { block, len, why })
}

// A frame, its padding and generous options fit the 32-bit block length.
const _: () = assert!(MAX_FRAME < (u32::MAX / 2) as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(resolution: u8, offset: i64) -> Clock {
        Clock { resolution, offset }
    }

    #[test]
    fn clocks_of_every_resolution() {
        let second = 1_000_000_000;
        assert_eq!(clock(6, 0).ns(1_500_000), second + second / 2);
        assert_eq!(clock(9, 0).ns(1_500_000_001), 1_500_000_001);
        assert_eq!(clock(0, 0).ns(3), 3 * second);
        assert_eq!(clock(12, 0).ns(1_999), 1);
        assert_eq!(clock(0x80 | 10, 0).ns(1_536), second + second / 2);
        assert_eq!(clock(6, -2).ns(500_000), -2 * second + second / 2);
        assert_eq!(clock(6, 1_700_000_000).ns(1), 1_700_000_000_000_001_000);
    }

    #[test]
    fn absurd_clocks_saturate() {
        for r in 0..=255u8 {
            for offset in [i64::MIN, -1, 0, 1, i64::MAX] {
                let c = clock(r, offset);
                assert!(c.ns(0) <= c.ns(u64::MAX), "{c:?}");
            }
        }
        assert_eq!(clock(0, 0).ns(u64::MAX), i64::MAX);
        assert_eq!(clock(0x7f, 0).ns(u64::MAX), 0);
        assert_eq!(clock(0xff, 0).ns(u64::MAX), 0);
        assert_eq!(clock(6, i64::MIN).ns(0), i64::MIN);
    }
}
