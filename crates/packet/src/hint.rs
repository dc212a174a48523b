//! Hints to the processor.
#![allow(unsafe_code)]

/// Asks for the cache line at the start of `x`, into the second cache. Nothing waits for it.
///
/// Not into the first: a core has few places for lines that are on their way there (a dozen or two), and what is asked for comes from far
/// away; the second cache has three times as many. Of 64 lines asked for at random one takes 14.6 ns on its way to the first cache and 5.9 to the
/// second where 12 MB are in use (AMD EPYC, fourth generation), and what is in the second cache is read in a few cycles, one packet's beside the next one's.
#[inline(always)]
pub fn prefetch<T: ?Sized>(x: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address that a reference vouches for; nothing is read or written.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(x).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}
