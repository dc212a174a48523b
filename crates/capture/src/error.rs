//! What can go wrong, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A capture that could not be opened, or that is damaged from some byte on.
///
/// All frames that the reader yielded before this error are good.
#[derive(Debug)]
pub struct CaptureError {
    /// The file, where the capture was opened by path.
    pub path: Option<PathBuf>,
    /// Where the reader stood: the first byte of the structure (header, record, block) that it could not read. In a
    /// compressed capture this counts uncompressed bytes.
    pub offset: u64,
    /// How many frames were read before.
    pub frames: u64,
    /// What is wrong there.
    pub reason: Reason,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        match &self.reason {
            Reason::Open(_)
            | Reason::Empty
            | Reason::NotACapture { .. }
            | Reason::Unsupported { .. } => {
                write!(f, "{}", self.reason)
            }
            _ => write!(
                f,
                "{} (at byte {}, after {} frames)",
                self.reason, self.offset, self.frames
            ),
        }
    }
}

// The message tells the cause already, so there is no `source` that would repeat it.
impl std::error::Error for CaptureError {}

/// Why a capture cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The file cannot be opened.
    #[error("cannot open the capture: {0}")]
    Open(io::Error),
    /// The operating system or the decompressor reports an error.
    #[error("cannot read on: {0}")]
    Io(io::Error),
    /// There is not a single byte.
    #[error("the capture is empty: not even a file header")]
    Empty,
    /// The first bytes belong to no capture format.
    #[error(
        "not a capture: it starts with {:02x} {:02x} {:02x} {:02x}, expected pcap, pcapng or either of them in gzip",
        .magic[0], .magic[1], .magic[2], .magic[3]
    )]
    NotACapture {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// A format, or a version of one, that Onefold knows but does not read.
    #[error("{what} is not supported; hint: {hint}")]
    Unsupported {
        /// The format or version.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file ends within a structure.
    #[error("the file ends within a {what}: {needed} bytes expected, {got} left")]
    Truncated {
        /// Which structure.
        what: &'static str,
        /// How many bytes it has, or at least has.
        needed: u64,
        /// How many bytes the file still had.
        got: u64,
    },
    /// A record claims more bytes than any frame has.
    #[error("a frame of {len} bytes, the largest that is read has {max}: a damaged length")]
    FrameTooLong {
        /// The claimed length.
        len: u64,
        /// [`MAX_FRAME`](crate::MAX_FRAME).
        max: usize,
    },
    /// A pcapng block whose length cannot be.
    #[error("a {block} block of {len} bytes: {why}")]
    BadBlockLength {
        /// Which block.
        block: &'static str,
        /// Its length as recorded.
        len: u32,
        /// Why it cannot be.
        why: &'static str,
    },
    /// The two copies of a pcapng block's length differ.
    #[error("a block says {head} bytes at its start and {tail} at its end")]
    BlockLengthMismatch {
        /// The length before the body.
        head: u32,
        /// The length after it.
        tail: u32,
    },
    /// A pcapng section whose byte-order magic is none.
    #[error("a section header with the byte-order magic {magic:#010x}")]
    BadByteOrder {
        /// The value, read as little endian.
        magic: u32,
    },
    /// A packet block that names an interface which no block described.
    #[error("a packet of interface {id}, but the section has described {known}")]
    UnknownInterface {
        /// The interface.
        id: u32,
        /// How many there are.
        known: usize,
    },
    /// More interfaces in one section than a reader keeps.
    #[error("more than {0} interfaces in a section")]
    TooManyInterfaces(usize),
}

/// A frame or a file that could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file cannot be created.
    #[error("{}: cannot create the capture: {source}", path.display())]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// A frame over [`MAX_FRAME`](crate::MAX_FRAME).
    #[error("a frame of {len} bytes, the largest that is written has {max}")]
    FrameTooLong {
        /// Its length.
        len: usize,
        /// [`MAX_FRAME`](crate::MAX_FRAME).
        max: usize,
    },
    /// The format cannot express this time.
    #[error(
        "a time of {ts_ns} ns since the epoch does not fit the format; hint: pcap holds 1970 to 2106, pcapng 1970 to 2262"
    )]
    Time {
        /// The time.
        ts_ns: i64,
    },
    /// The file name asks for something that is not written.
    #[error("{}: {what}", path.display())]
    Name {
        /// Which file.
        path: PathBuf,
        /// What is not written.
        what: &'static str,
    },
}
