//! Data structures of hot paths, which know nothing of packets: memory on huge pages, frames and their pools, a keyed
//! hash, a hash index, a ring buffer, a queue between two threads, prefetching.
//!
//! - [`HugeVec`]: a vector on huge pages; [`RingBuffer`]: a queue in a [`HugeVec`].
//! - [`spsc_ring`]: a bounded queue from one thread to another one.
//! - [`Frame`]: memory of a packet, which its owner gets back: the heap, or a [`FramePool`].
//! - [`TagIndex`]: a hash index of 32-bit references, one cache line for most look-ups.
//! - [`return_large_blocks`], [`return_free_pages`]: what the heap keeps.
//! - [`hash_words`]: a keyed hash of two words, which vectorises.
//! - [`prefetch`], [`prefetch_near`], [`prefetch_at`], [`equal_to`]: hints and comparisons that take an
//!   instruction of the processor.
//!
//! **Inlining across crates.** Users call these once or more per packet. Generic functions are compiled in the crate
//! that uses them, all others that lie on a packet's path are `#[inline]`; the profile `quick` has no link-time
//! optimisation and relies on it.
#![deny(unsafe_code)]

mod frame;
mod frame_pool;
mod hash;
mod heap;
mod huge_vec;
mod index;
mod prefetch;
mod ring_buffer;
mod spsc;

pub use frame::Frame;
pub use frame_pool::{FrameLayout, FramePool};
pub use hash::hash_words;
pub use heap::{return_free_pages, return_large_blocks};
pub use huge_vec::HugeVec;
pub use index::{IndexKeys, TagIndex, Vacancy};
pub use prefetch::{equal_to, prefetch, prefetch_at, prefetch_near};
pub use ring_buffer::RingBuffer;
pub use spsc::{RingConsumer, RingProducer, spsc_ring};
