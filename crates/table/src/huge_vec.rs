//! Memory on huge pages, where there are some.
//!
//! What is found at random (a table's entries) touches a page each. With pages of 4 KiB every packet would wait for the
//! translation of its entry's address: 15% of all time at 4,000 flows, on a virtual machine. Huge pages begin at
//! multiples of 2 MiB, which what an allocator gives out does not: a quarter of 8 MiB, and all of what is smaller than
//! 4 MiB, would be on small pages however loudly huge ones are asked for. So what is worth it begins where a huge page
//! does.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A huge page of most systems.
const HUGE: usize = 2 << 20;
/// A page of most systems.
const PAGE: usize = 4096;
/// Less than this is not worth a huge page.
const LEAST: usize = HUGE / 2;
/// Smaller memory begins on a cache line.
const LINE: usize = 64;

/// A vector whose memory is allocated at once, from 1 MiB on upon huge pages.
///
/// The last huge page is taken as a whole where at least half of it is asked for: [`HugeVec::bytes`] says what there
/// is.
pub struct HugeVec<T> {
    at: NonNull<T>,
    len: usize,
    capacity: usize,
    bytes: usize,
    /// Pages of its own, and not the allocator's.
    pages: bool,
}

// SAFETY: it owns what is in it, as a `Vec` does; nothing is shared that a shared reference to `T` does not share.
unsafe impl<T: Send> Send for HugeVec<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HugeVec<T> {}

/// Bytes of the pages that so many bytes get, if they get any of their own.
const fn pages_for(bytes: usize) -> Option<usize> {
    // Miri knows no mapping of which a part is given back
    let pages = cfg!(target_os = "linux") && !cfg!(miri);
    if !pages || bytes < LEAST || bytes > isize::MAX as usize - 2 * HUGE {
        return None;
    }
    let unit = if bytes % HUGE >= LEAST { HUGE } else { PAGE };
    Some(bytes.div_ceil(unit) * unit)
}

/// Fresh pages, the first of which begins at a multiple of [`HUGE`].
#[cfg(target_os = "linux")]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
    let all = std::num::NonZeroUsize::new(bytes + HUGE)?;
    let how = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: fresh memory of nobody's, where the system wants it to be.
    let found = unsafe { mmap_anonymous(None, all, how, MapFlags::MAP_PRIVATE) }.ok()?;
    let skip = found.addr().get().wrapping_neg() % HUGE;
    // SAFETY: `skip` is less than what was mapped beyond `bytes`, as is what is behind both; nobody has been told of
    // any of it. Where nothing is to be given back, or that is refused, nothing happens.
    let at = unsafe {
        let at = found.byte_add(skip);
        if skip > 0 {
            let _ = munmap(found, skip);
        }
        let _ = munmap(at.byte_add(bytes), HUGE - skip);
        // that advice is refused does no harm
        let _ = madvise(at, bytes, MmapAdvise::MADV_HUGEPAGE);
        at
    };
    Some(at.cast())
}
#[cfg(not(target_os = "linux"))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Gives pages of [`map`] back.
///
/// # Safety
/// They are `bytes` from `at` on, and nobody uses them any more.
unsafe fn unmap(at: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: as promised. That it is refused would be a leak.
    let _ = unsafe { nix::sys::mman::munmap(at.cast(), bytes) };
    #[cfg(not(target_os = "linux"))]
    let _ = (at, bytes);
}

impl<T> HugeVec<T> {
    /// Empty, without memory.
    pub const fn new() -> HugeVec<T> {
        const { assert!(size_of::<T>() > 0, "what takes no room needs none") };
        HugeVec {
            at: NonNull::dangling(),
            len: 0,
            capacity: 0,
            bytes: 0,
            pages: false,
        }
    }

    /// Empty, with capacity for at least `n`.
    pub fn with_capacity(n: usize) -> HugeVec<T> {
        if n == 0 {
            return HugeVec::new();
        }
        let layout = Self::layout(n);
        let pages = pages_for(layout.size()).and_then(|bytes| Some((map(bytes)?, bytes)));
        let (at, bytes) = pages.unwrap_or_else(|| {
            // SAFETY: its size is not zero, as neither `n` nor the size of `T` is.
            let at = NonNull::new(unsafe { alloc(layout) });
            (
                at.unwrap_or_else(|| handle_alloc_error(layout)),
                layout.size(),
            )
        });
        HugeVec {
            at: at.cast(),
            len: 0,
            capacity: bytes / size_of::<T>(),
            bytes,
            pages: pages.is_some(),
        }
    }

    fn layout(n: usize) -> Layout {
        let layout = Layout::array::<T>(n).and_then(|l| l.align_to(LINE));
        // more than there are addresses: nobody has that
        layout.unwrap_or_else(|_| handle_alloc_error(Layout::new::<T>()))
    }

    /// How many `T` fit in without allocating.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Bytes of memory that capacity for `n` takes.
    pub const fn bytes_for(n: usize) -> usize {
        let bytes = n.saturating_mul(size_of::<T>());
        match pages_for(bytes) {
            Some(pages) => pages,
            None => bytes,
        }
    }

    /// One more, at the end. Where there is no room for it, all move to where there is twice as much.
    #[inline]
    pub fn push(&mut self, x: T) {
        if self.len == self.capacity {
            self.grow();
        }
        // SAFETY: there is room for one more behind the last one, in memory that this owns, and nothing is there yet.
        unsafe { self.at.add(self.len).write(x) };
        self.len += 1;
    }

    /// `n` times the default of `T`.
    pub fn filled(n: usize) -> HugeVec<T>
    where
        T: Copy + Default,
    {
        let mut v = HugeVec::with_capacity(n);
        let one = T::default();
        for i in 0..n {
            // SAFETY: there is room for `n`, and `i` is less.
            unsafe { v.at.add(i).write(one) };
        }
        v.len = n;
        v
    }

    #[cold]
    fn grow(&mut self) {
        let mut more = HugeVec::with_capacity((self.capacity * 2).max(LINE));
        // SAFETY: there is room for all of them, elsewhere; from here on they are there, and nowhere else.
        unsafe { more.at.copy_from_nonoverlapping(self.at, self.len) };
        more.len = std::mem::take(&mut self.len);
        *self = more;
    }
}

impl<T> Drop for HugeVec<T> {
    fn drop(&mut self) {
        // SAFETY: so many are there, and nobody sees them again.
        unsafe { NonNull::slice_from_raw_parts(self.at, self.len).drop_in_place() };
        if self.bytes == 0 {
            return;
        }
        // SAFETY: what `with_capacity` was given, by whom, and of that layout.
        unsafe {
            match self.pages {
                true => unmap(self.at.cast(), self.bytes),
                false => dealloc(self.at.as_ptr().cast(), Self::layout(self.capacity)),
            }
        }
    }
}

impl<T> Deref for HugeVec<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many are there, for as long as this is.
        unsafe { NonNull::slice_from_raw_parts(self.at, self.len).as_ref() }
    }
}

impl<T> DerefMut for HugeVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { NonNull::slice_from_raw_parts(self.at, self.len).as_mut() }
    }
}

impl<T> Default for HugeVec<T> {
    fn default() -> Self {
        HugeVec::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> Extend<T> for HugeVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, all: I) {
        for x in all {
            self.push(x);
        }
    }
}

impl<T> FromIterator<T> for HugeVec<T> {
    /// With room for as many as are said to come at least.
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let all = all.into_iter();
        let mut v = HugeVec::with_capacity(all.size_hint().0);
        v.extend(all);
        v
    }
}

impl<T: Clone> Clone for HugeVec<T> {
    fn clone(&self) -> Self {
        self.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn large_and_small() {
        // an interpreter takes minutes for the large ones, and has no huge pages
        let few = if cfg!(miri) { 3 } else { 6 };
        for n in [0, 1, 1000, 1 << 17, (1 << 17) + 1, 1 << 20]
            .into_iter()
            .take(few)
        {
            let v = HugeVec::<u64>::filled(n);
            assert_eq!(*v, vec![0; n]);
            assert!(v.capacity() >= n && v.bytes() == HugeVec::<u64>::bytes_for(n));
            assert_eq!(v.as_ptr().addr() % LINE.min(v.bytes().max(8)), 0);
            if cfg!(target_os = "linux") && n * 8 >= LEAST {
                assert_eq!(v.as_ptr().addr() % HUGE, 0);
            }
        }
    }

    #[test]
    fn no_more_than_half_of_a_huge_page_is_taken_for_nothing() {
        for bytes in (0..5 * HUGE).step_by(PAGE / 2) {
            let got = HugeVec::<u8>::bytes_for(bytes);
            assert!(got >= bytes && got - bytes <= bytes.min(LEAST), "{bytes}");
            assert!(bytes >= LEAST || got == bytes, "{bytes}");
        }
        assert_eq!(HugeVec::<u64>::bytes_for(usize::MAX), usize::MAX);
    }

    #[test]
    fn what_is_pushed_stays_and_goes_once() {
        let one = Rc::new(());
        let mut v = HugeVec::new();
        let end = if cfg!(miri) { 300 } else { 200_000 };
        for n in 1..end {
            v.push((n, one.clone()));
            assert_eq!(v.len(), n);
        }
        assert!(v.bytes() >= LEAST || cfg!(miri));
        assert!(v.iter().enumerate().all(|(i, (n, _))| *n == i + 1));
        let w = v.clone();
        assert_eq!(Rc::strong_count(&one), 1 + 2 * (end - 1));
        drop(v);
        assert_eq!(Rc::strong_count(&one), end);
        assert_eq!(w.last().map(|(n, _)| *n), Some(end - 1));
        drop(w);
        assert_eq!(Rc::strong_count(&one), 1);
    }

    #[test]
    fn many_come_and_go() {
        for i in 0..if cfg!(miri) { 1 } else { 100 } {
            let mut v = HugeVec::<u64>::filled((LEAST + i * PAGE * 7) / 8);
            if let Some(last) = v.last_mut() {
                *last = 1;
            }
        }
    }
}
