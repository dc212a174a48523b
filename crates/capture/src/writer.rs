//! Writing a capture.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::MAX_FRAME;
use crate::error::WriteError;
use crate::frame::LinkType;
use crate::pcap::{MAGIC_NS, MAGIC_US};
use crate::pcapng::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, OPTION_COMMENT, OPTION_END,
    OPTION_TSRESOL, SECTION_HEADER,
};

/// The container to write, always little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap with microseconds: the fraction below is cut off. For tools that predate nanoseconds.
    PcapUs,
    /// pcap with nanoseconds.
    PcapNs,
    /// pcapng: one section, one interface, nanoseconds.
    PcapNg,
}

impl Format {
    /// The format that a file name asks for: `.pcapng` and `.ntar` are pcapng, everything else is pcap with
    /// *nanoseconds*, since a chain's latencies are of that order and since every current tool reads it.
    ///
    /// # Errors
    /// Names that end in `.gz` and the like: captures are not written compressed.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let ext = path
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        match ext.as_deref() {
            Some("pcapng" | "ntar") => Ok(Self::PcapNg),
            Some("gz" | "zst" | "lz4" | "xz" | "bz2") => Err(WriteError::Name {
                path: path.to_path_buf(),
                what: "captures are not written compressed; write .pcap or .pcapng and compress it afterwards",
            }),
            _ => Ok(Self::PcapNs),
        }
    }
}

/// No more bytes than this, whole characters.
fn cut_text(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Bytes gathered before a system call.
const BUFFER: usize = 256 * 1024;

/// Writes frames to a capture, buffered. Call [`CaptureWriter::finish`]: dropping the writer flushes too, but cannot
/// report that the disk was full.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    out: BufWriter<W>,
    format: Format,
    snaplen: u32,
    frames: u64,
    bytes: u64,
}

impl CaptureWriter<File> {
    /// Creates the file, replacing one that exists.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(
        path: impl AsRef<Path>,
        format: Format,
        link: LinkType,
        snaplen: u32,
    ) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|source| WriteError::Create {
            path: path.to_path_buf(),
            source,
        })?;
        Self::new(file, format, link, snaplen)
    }

    /// [`CaptureWriter::create`] with the format that the name asks for and no cut.
    ///
    /// # Errors
    /// As [`Format::from_path`] and [`CaptureWriter::create`].
    pub fn create_for(path: impl AsRef<Path>, link: LinkType) -> Result<Self, WriteError> {
        let path = path.as_ref();
        Self::create(path, Format::from_path(path)?, link, 0)
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the file header. Frames are cut to `snaplen` bytes; zero means no cut.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(out: W, format: Format, link: LinkType, snaplen: u32) -> Result<Self, WriteError> {
        let max = u32::try_from(MAX_FRAME).unwrap_or(u32::MAX);
        let snaplen = if snaplen == 0 { max } else { snaplen.min(max) };
        let mut w = Self {
            out: BufWriter::with_capacity(BUFFER, out),
            format,
            snaplen,
            frames: 0,
            bytes: 0,
        };
        match format {
            Format::PcapUs | Format::PcapNs => {
                let magic = if format == Format::PcapNs {
                    MAGIC_NS
                } else {
                    MAGIC_US
                };
                // Version 2.4: the major number is the low half.
                w.words(&[magic, 2 | 4 << 16, 0, 0, snaplen, link.0])?;
            }
            Format::PcapNg => {
                // Version 1.0, length of the section unknown (all ones), no options.
                w.words(&[
                    SECTION_HEADER,
                    28,
                    BYTE_ORDER_MAGIC,
                    1,
                    u32::MAX,
                    u32::MAX,
                    28,
                ])?;
                let option = |code: u16, len: u32| u32::from(code) | len << 16;
                w.words(&[
                    INTERFACE_DESCRIPTION,
                    32,
                    link.0 & 0xffff,
                    snaplen,
                    option(OPTION_TSRESOL, 1),
                    9,
                    option(OPTION_END, 0),
                    32,
                ])?;
            }
        }
        Ok(w)
    }

    /// Appends a frame. A wire length below the length of `data` is recorded as the latter.
    ///
    /// # Errors
    /// The frame is over [`MAX_FRAME`], its time does not fit the format, or writing fails. In the first two cases
    /// nothing was written and the writer can go on.
    pub fn write(&mut self, ts_ns: i64, data: &[u8], orig_len: u32) -> Result<(), WriteError> {
        self.write_commented(ts_ns, data, orig_len, "")
    }

    /// The same with a comment, which only pcapng keeps. It is cut to 65,535 bytes.
    ///
    /// # Errors
    /// As [`CaptureWriter::write`].
    pub fn write_commented(
        &mut self,
        ts_ns: i64,
        data: &[u8],
        orig_len: u32,
        comment: &str,
    ) -> Result<(), WriteError> {
        if data.len() > MAX_FRAME {
            return Err(WriteError::FrameTooLong {
                len: data.len(),
                max: MAX_FRAME,
            });
        }
        // Fits: MAX_FRAME is far below 2^32.
        let orig_len = orig_len.max(data.len() as u32);
        let cut = data.get(..self.snaplen as usize).unwrap_or(data);
        let captured = cut.len() as u32;
        let out_of_range = |_| WriteError::Time { ts_ns };
        match self.format {
            Format::PcapUs | Format::PcapNs => {
                let seconds =
                    u32::try_from(ts_ns.div_euclid(1_000_000_000)).map_err(out_of_range)?;
                let mut fraction = ts_ns.rem_euclid(1_000_000_000) as u32;
                if self.format == Format::PcapUs {
                    fraction /= 1_000;
                }
                self.words(&[seconds, fraction, captured, orig_len])?;
                self.out.write_all(cut)?;
            }
            Format::PcapNg => {
                let ticks = u64::try_from(ts_ns).map_err(out_of_range)?;
                let padded = captured.next_multiple_of(4);
                let comment = cut_text(comment, usize::from(u16::MAX));
                let said = comment.len() as u32;
                // code and length, the text, the end of the options
                let options = if said == 0 {
                    0
                } else {
                    8 + said.next_multiple_of(4)
                };
                let len = 32 + padded + options;
                self.words(&[
                    ENHANCED_PACKET,
                    len,
                    0,
                    (ticks >> 32) as u32,
                    ticks as u32,
                    captured,
                    orig_len,
                ])?;
                self.out.write_all(cut)?;
                let pad = (padded - captured) as usize;
                self.out.write_all(&[0u8; 3][..pad])?;
                if said > 0 {
                    self.words(&[u32::from(OPTION_COMMENT) | said << 16])?;
                    self.out.write_all(comment.as_bytes())?;
                    let pad = (said.next_multiple_of(4) - said) as usize;
                    self.out.write_all(&[0u8; 3][..pad])?;
                    self.words(&[u32::from(OPTION_END)])?;
                }
                self.words(&[len])?;
            }
        }
        self.frames += 1;
        self.bytes += u64::from(captured);
        Ok(())
    }

    /// How many frames were written.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// How many bytes of frames were written, container not counted.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes out what is buffered and hands the output back.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.out.flush()?;
        self.out
            .into_inner()
            .map_err(|e| WriteError::Io(e.into_error()))
    }

    fn words(&mut self, words: &[u32]) -> std::io::Result<()> {
        for w in words {
            self.out.write_all(&w.to_le_bytes())?;
        }
        Ok(())
    }
}
