//! Traffic: flows, the packets that they send, and the order in which they do.

mod exception;
mod flow;
mod frame;
mod generator;
mod params;
mod payload;
mod tcp;

pub use exception::ExceptionKind;
pub use generator::{Counts, Direction, GeneratedFrame, Generator};
pub use params::{LinkAddresses, Payload, TcpStyle, TrafficError, TrafficParams};

/// The most flows of one run: each takes 32 bytes of memory.
pub const MAX_FLOWS: u32 = 1 << 24;
