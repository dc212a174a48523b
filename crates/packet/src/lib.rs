//! Packets as every other crate sees them: buffer, annotations, header views, checksums.
//!
//! - [`Packet`]: one contiguous buffer with headroom and tailroom (a frame, whose owner gets it back), plus
//!   annotations. [`Pkt`] (a box of it) is what moves between elements, so that a hand-over costs one pointer.
//! - [`Anno`]: everything that travels with a packet but not on the wire (Click's annotations: destination address,
//!   paint, time stamp, packet type, header offsets ...).
//! - [`checksum`]: the Internet checksum, computed and updated incrementally (RFC 1071, RFC 1624).
//! - [`wire`]: header views, one template per protocol: offsets, checked getters, setters. No view panics on any input;
//!   every accessor that could run past the buffer returns `Option` or is reached through a checked constructor.
//! - [`print`]: a packet in a line, as tcpdump prints it.
//! - [`Pool`]: recycles packet buffers so that a running graph does not allocate.
//!
//! ```
//! use onefold_packet::{Packet, wire::ethernet};
//! let mut p = Packet::from_slice(&[0u8; 60]);
//! p.pull(14);                       // as Strip(14)
//! assert_eq!(p.len(), 46);
//! p.push(14);                       // as Unstrip(14)
//! assert!(ethernet::Header::parse(p.data()).is_some());
//! ```
#![deny(unsafe_code)]

mod anno;
mod buffer;
pub mod checksum;
mod ether;
mod extent;
mod mempool;
mod pool;
pub mod print;
mod refill;
mod time;
pub mod wire;

pub use anno::{Anno, AnnoField, PacketType, anno_field};
pub use buffer::{DEFAULT_HEADROOM, MAX_PACKET_LEN, MIN_BUFFER_LEN, Packet, Pkt};
pub use ether::EtherAddr;
pub use mempool::mempool;
pub use pool::Pool;
pub use refill::{LineSpan, refill_lines, refill_spans};
pub use time::Timestamp;
