//! Packet ports of Onefold that are files: captures in, captures out.
//!
//! [`CaptureReader`] streams frames out of pcap and pcapng files (either byte order, micro- or nanoseconds,
//! gzip-compressed or not), [`CaptureWriter`] writes them, and [`Merge`] turns the captures of several ports into one
//! sequence ordered by time. A frame is its bytes, a time in nanoseconds since the epoch and a [`LinkType`]; this crate
//! looks at nothing inside the frame.
//!
//! Captures come from strangers. A damaged container yields every frame before the damage, then exactly one
//! [`CaptureError`] that says at which byte and why, then nothing more; memory stays bounded by [`MAX_FRAME`]
//! whatever lengths the file claims. The *captured* length decides how many bytes a frame has; the recorded wire length
//! is passed on as [`FrameMeta::orig_len`] and never trusted.
//!
//! ```
//! use onefold_capture::{CaptureReader, CaptureWriter, Format, LinkType};
//!
//! let mut file = Vec::new();
//! let mut writer = CaptureWriter::new(&mut file, Format::PcapNg, LinkType::ETHERNET, 0)?;
//! writer.write(1_700_000_000_000_000_001, &[0xff; 60], 60)?;
//! writer.finish()?;
//!
//! let mut reader = CaptureReader::from_reader(std::io::Cursor::new(file))?;
//! let frame = reader.next().expect("one frame")?;
//! assert_eq!(frame.ts_ns, 1_700_000_000_000_000_001);
//! assert_eq!(frame.data.len(), 60);
//! assert!(reader.next().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod frame;
mod merge;
mod pcap;
mod pcapng;
mod reader;
mod source;
mod writer;

pub use error::{CaptureError, Reason, WriteError};
pub use frame::{Frame, FrameMeta, LinkType};
pub use merge::{Merge, MergeError};
pub use reader::{CaptureFormat, CaptureReader};
pub use writer::{CaptureWriter, Format};

/// The longest frame that is read or written, in bytes.
///
/// A jumbo frame has 9 KiB, an IP packet at most 64 KiB and the largest offloaded segment that Linux hands to a
/// capture 256 KiB less a bit, so a longer record is a damaged length field rather than a frame.
pub const MAX_FRAME: usize = 256 * 1024;
