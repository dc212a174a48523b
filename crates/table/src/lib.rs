//! Data structures of hot paths, which know nothing of packets: memory on huge pages, aligned buffers, a keyed hash, a
//! hash index, a ring buffer, prefetching.
//!
//! - [`HugeVec`]: a vector on huge pages; [`AlignedBuf`]: bytes that begin at a cache line; [`RingBuffer`]: a queue in
//!   a [`HugeVec`].
//! - [`TagIndex`]: a hash index of 32-bit references, one cache line for most look-ups.
//! - [`hash_words`]: a keyed hash of two words, which vectorises.
//! - [`prefetch`], [`prefetch_at`], [`equal_to`]: hints and comparisons that take an instruction of the processor.
//!
//! **Inlining across crates.** Users call these once or more per packet. Generic functions are compiled in the crate
//! that uses them, all others that lie on a packet's path are `#[inline]`; the profile `quick` has no link-time
//! optimisation and relies on it.
#![deny(unsafe_code)]

mod aligned_buf;
mod hash;
mod huge_vec;
mod index;
mod prefetch;
mod ring_buffer;

pub use aligned_buf::AlignedBuf;
pub use hash::hash_words;
pub use huge_vec::HugeVec;
pub use index::{IndexKeys, TagIndex, Vacancy};
pub use prefetch::{equal_to, prefetch, prefetch_at};
pub use ring_buffer::RingBuffer;
