//! The atomic operations that rings and bells are made of: the processor's in the product, [loom]'s in
//! `tests/interleavings.rs`, which explores what any two processes can see of each other.
//!
//! [loom]: https://docs.rs/loom

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word that several processes read and write.
pub trait Word<T> {
    /// Reads it.
    fn load(&self, order: Ordering) -> T;
    /// Writes it.
    fn store(&self, value: T, order: Ordering);
    /// Writes it, and gives what was there before.
    fn swap(&self, value: T, order: Ordering) -> T;
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::swap(self, value, order)
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// A family of atomic words.
pub trait Atomics {
    /// Counters and flags.
    type U32: Word<u32>;
    /// Words of descriptors.
    type U64: Word<u64>;
    /// What is written before it is seen by everybody who reads after a fence of his own that comes later.
    fn fence();
}

/// The processor's.
#[derive(Debug, Clone, Copy)]
pub struct Native;

impl Atomics for Native {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}
