//! Memory on huge pages, where there are some.
//!
//! What is found at random (a table's entries) touches a page each. With pages of 4 KiB every packet would wait for the translation of
//! its entry's address: 15% of all time at 4,000 flows, on a virtual machine.
#![allow(unsafe_code)]

/// Less is not worth a page of 2 MiB.
const LEAST: usize = 1 << 20;

/// Room for so many, on transparent huge pages if the system has them and it is worth it.
pub fn roomy<T>(n: usize) -> Vec<T> {
    let mut v: Vec<T> = Vec::with_capacity(n);
    #[cfg(target_os = "linux")]
    {
        use nix::sys::mman::{MmapAdvise, madvise};
        const PAGE: usize = 4096;
        let room = v.spare_capacity_mut();
        let bytes = size_of_val(room);
        let skip = room.as_ptr().addr().wrapping_neg() % PAGE;
        let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
        if whole >= LEAST {
            let at = room.as_mut_ptr().cast::<u8>().wrapping_add(skip);
            if let Some(at) = std::ptr::NonNull::new(at.cast()) {
                // SAFETY: whole pages within memory that the vector owns, none of which has been written to; the advice is about
                // how pages are backed and changes no contents. That it is refused does no harm.
                let _ = unsafe { madvise(at, whole, MmapAdvise::MADV_HUGEPAGE) };
            }
        }
    }
    v
}

/// So many of `T`'s default, as [`roomy`].
pub fn spread<T: Clone + Default>(n: usize) -> Vec<T> {
    let mut v = roomy(n);
    v.resize(n, T::default());
    v
}

#[cfg(test)]
mod tests {
    #[test]
    fn large_and_small() {
        for n in [0, 1, 1000, 1 << 20] {
            assert_eq!(super::spread::<u64>(n), vec![0; n]);
            assert!(super::roomy::<[u64; 8]>(n).capacity() >= n);
        }
    }
}
