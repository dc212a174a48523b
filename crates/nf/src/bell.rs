//! Who has nothing to do sleeps, and is woken by who has something for him.
//!
//! The sleeper writes that it sleeps, looks once more, and sleeps; who has put something there looks whether somebody
//! sleeps. Between writing and looking both have a fence, so that at least one of them sees the other. A system call is
//! needed only where somebody does sleep. Whoever sleeps has a time at which it wakes by itself: a peer that says wrong
//! things delays it, and no more.

use crate::atomics::{Atomics, Word};
use std::sync::atomic::Ordering;

/// In a bell's word: awake.
pub const AWAKE: u32 = 0;
/// In a bell's word: asleep, or about to be.
pub const ASLEEP: u32 = 1;

/// From here on whoever rings wakes the owner of the word. It must look once more before it sleeps.
#[inline]
pub fn lie_down<A: Atomics>(word: &A::U32) {
    // exchanges all, so that they and those of who rings have one order
    word.swap(ASLEEP, Ordering::AcqRel);
    A::fence();
}

/// The owner is awake.
#[inline]
pub fn get_up<A: Atomics>(word: &A::U32) {
    word.swap(AWAKE, Ordering::AcqRel);
}

/// Something has been put where the owner of the word looks. Is it to be woken? Then it is the caller's to do.
#[inline]
#[must_use]
pub fn ring<A: Atomics>(word: &A::U32) -> bool {
    A::fence();
    word.load(Ordering::Relaxed) != AWAKE && word.swap(AWAKE, Ordering::AcqRel) != AWAKE
}
