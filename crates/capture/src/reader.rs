//! Reading a capture of whatever format.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{CaptureError, Reason};
use crate::frame::{Frame, FrameMeta, LinkType};
use crate::pcap::{self, Pcap};
use crate::pcapng::{PcapNg, SECTION_HEADER};
use crate::source::Source;

/// What kind of container a reader found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// pcap with microseconds.
    PcapUs,
    /// pcap with nanoseconds.
    PcapNs,
    /// pcapng.
    PcapNg,
}

enum Container {
    Pcap(Pcap),
    PcapNg(PcapNg),
    /// Ended, or damaged: nothing more comes.
    Done,
}

/// Streams the frames of a capture in the order of the file.
///
/// As an [`Iterator`] it yields owned frames; [`CaptureReader::next_into`] reuses a buffer. After an error it is at its
/// end.
pub struct CaptureReader {
    source: Source,
    container: Container,
    format: CaptureFormat,
    path: Option<PathBuf>,
    frames: u64,
    link: Option<LinkType>,
}

impl std::fmt::Debug for CaptureReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureReader")
            .field("path", &self.path)
            .field("format", &self.format)
            .field("frames", &self.frames)
            .field("offset", &self.source.offset())
            .finish_non_exhaustive()
    }
}

impl CaptureReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not start as a capture does.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref().to_path_buf();
        match File::open(&path) {
            Ok(file) => Self::new(Box::new(file), Some(path)),
            Err(e) => Err(CaptureError {
                path: Some(path),
                offset: 0,
                frames: 0,
                reason: Reason::Open(e),
            }),
        }
    }

    /// Reads from any stream, for example a pipe or memory.
    ///
    /// # Errors
    /// The stream does not start as a capture does.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        Self::new(Box::new(reader), None)
    }

    fn new(reader: Box<dyn Read + Send>, path: Option<PathBuf>) -> Result<Self, CaptureError> {
        let fail = |reason, path: Option<PathBuf>| CaptureError {
            path,
            offset: 0,
            frames: 0,
            reason,
        };
        let mut source = match Source::new(reader) {
            Ok(s) => s,
            Err(e) => return Err(fail(Reason::Io(e), path)),
        };
        match open_container(&mut source) {
            Ok((container, format)) => Ok(Self {
                link: match &container {
                    Container::Pcap(p) => Some(p.link()),
                    _ => None,
                },
                source,
                container,
                format,
                path,
                frames: 0,
            }),
            Err(reason) => Err(fail(reason, path)),
        }
    }

    /// The format of the container.
    pub fn format(&self) -> CaptureFormat {
        self.format
    }

    /// The link type of the file (pcap), or of the first interface described so far (pcapng: none before the first
    /// frame was read). Frames of one pcapng file may differ: see [`FrameMeta::link`].
    pub fn link(&self) -> Option<LinkType> {
        self.link
    }

    /// How many frames were read.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The file, where opened by path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where the reader stands: how many bytes of the (uncompressed) capture are behind it.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Is the capture compressed?
    pub fn is_compressed(&self) -> bool {
        self.source.compressed()
    }

    /// Goes to a [`CaptureReader::offset`] of the same file, back or forth. The position must be one at which a record
    /// starts: nothing in the format tells, and frames read from anywhere else are nonsense.
    ///
    /// # Errors
    /// The capture is not a pcap file opened by path, or it is not that long; the reader is then where it was.
    pub fn seek(&mut self, position: u64) -> Result<(), CaptureError> {
        let fail = |path: Option<PathBuf>, reason| CaptureError {
            path,
            offset: position,
            frames: self.frames,
            reason,
        };
        let unsupported = |what: &str| Reason::Unsupported {
            what: what.to_owned(),
            hint: "use a pcap file by its name",
        };
        if self.format == CaptureFormat::PcapNg {
            return Err(fail(self.path.clone(), unsupported("a position in pcapng")));
        }
        let Some(path) = self.path.clone() else {
            return Err(fail(None, unsupported("a position in a stream")));
        };
        let mut again = Self::open(&path)?;
        let header = again.source.offset();
        let Some(ahead) = position.checked_sub(header) else {
            let inside = unsupported("a position inside the file header");
            return Err(fail(Some(path), inside));
        };
        if let Err(reason) = again.source.skip(ahead, "capture") {
            return Err(fail(Some(path), reason));
        }
        again.frames = self.frames;
        *self = again;
        Ok(())
    }

    /// The next frame: its bytes replace what `buf` held, without an allocation once `buf` has grown to the longest
    /// frame. `None` at the end. After an error, `buf` is empty and every further call returns `None`.
    pub fn next_into(&mut self, buf: &mut Vec<u8>) -> Option<Result<FrameMeta, CaptureError>> {
        buf.clear();
        let read = match &mut self.container {
            Container::Pcap(p) => p.next(&mut self.source, buf),
            Container::PcapNg(p) => {
                let read = p.next(&mut self.source, buf);
                self.link = self.link.or_else(|| p.link());
                read
            }
            Container::Done => return None,
        };
        match read {
            Ok(Some(meta)) => {
                self.frames += 1;
                Some(Ok(meta))
            }
            Ok(None) => {
                self.container = Container::Done;
                None
            }
            Err(reason) => {
                self.container = Container::Done;
                buf.clear();
                Some(Err(CaptureError {
                    path: self.path.clone(),
                    offset: self.source.begun(),
                    frames: self.frames,
                    reason,
                }))
            }
        }
    }
}

impl Iterator for CaptureReader {
    type Item = Result<Frame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut data = Vec::new();
        Some(
            self.next_into(&mut data)?
                .map(|meta| Frame::new(meta, data)),
        )
    }
}

impl std::iter::FusedIterator for CaptureReader {}

fn open_container(source: &mut Source) -> Result<(Container, CaptureFormat), Reason> {
    let mut head = [0u8; 4];
    let got = source.fill(&mut head)?;
    if got == 0 {
        return Err(Reason::Empty);
    }
    if got < head.len() {
        return Err(Reason::Truncated {
            what: "file header",
            needed: 24,
            got: got as u64,
        });
    }
    if u32::from_le_bytes(head) == SECTION_HEADER {
        let ng = PcapNg::open(source)?;
        return Ok((Container::PcapNg(ng), CaptureFormat::PcapNg));
    }
    if let Some((magic, endian)) = pcap::magic(head) {
        let p = Pcap::open(source, magic, endian)?;
        let format = if p.nanoseconds() {
            CaptureFormat::PcapNs
        } else {
            CaptureFormat::PcapUs
        };
        return Ok((Container::Pcap(p), format));
    }
    let unsupported = |what: &str| Reason::Unsupported {
        what: what.to_owned(),
        hint: "convert it to pcapng with `editcap IN OUT.pcapng`",
    };
    Err(match &head {
        b"snoo" => unsupported("the snoop format"),
        b"\x28\xb5\x2f\xfd" => unsupported("zstd compression"),
        b"\x04\x22\x4d\x18" => unsupported("LZ4 compression"),
        b"\xfd7zX" => unsupported("xz compression"),
        // Variants of pcap that a few vendors wrote: record headers of their own.
        b"\xa1\xb2\x34\xcd" | b"\xcd\x34\xb2\xa1" | b"\xa1\x2b\x3c\x4d" | b"\x4d\x3c\x2b\xa1" => {
            unsupported("this vendor's variant of pcap")
        }
        _ => Reason::NotACapture { magic: head },
    })
}
