//! Bytes that begin at a cache line.
//!
//! A header of 64 bytes that lies across two lines costs two of everything: loads and stores of 64 bytes are split, and
//! twice as many lines take part in each cache. The system's allocator aligns to 16 bytes, so that three of four
//! headers were such.
#![allow(unsafe_code)]

use crate::HugeVec;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a cache line on every processor that is of interest.
const LINE: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([u8; LINE]);

/// Memory that several [`AlignedBuf`] have parts of; nobody reads or writes it but they.
struct Slab {
    _lines: HugeVec<CacheLine>,
}

/// Whole cache lines, of an allocation of their own, or a part of one that others have parts of.
pub struct AlignedBuf {
    at: NonNull<CacheLine>,
    n: usize,
    slab: Option<Arc<Slab>>,
}

// SAFETY: it owns its bytes, as a box does, and its slab is nothing but memory that goes when the last one does.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// At least so many zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let lines: Box<[CacheLine]> = vec![CacheLine([0; LINE]); len.div_ceil(LINE)].into();
        AlignedBuf {
            n: lines.len(),
            at: NonNull::from(Box::leak(lines)).cast(),
            slab: None,
        }
    }
    /// So many times at least `len` zero bytes, one behind the other, from 1 MiB on upon huge pages.
    pub fn adjacent(times: usize, len: usize) -> impl Iterator<Item = AlignedBuf> {
        let each = len.div_ceil(LINE);
        let all = std::iter::repeat_n(CacheLine([0; LINE]), times.saturating_mul(each));
        let mut lines: HugeVec<CacheLine> = all.collect();
        let at = NonNull::from(&mut *lines).cast::<CacheLine>();
        let slab = Arc::new(Slab { _lines: lines });
        (0..times).map(move |i| AlignedBuf {
            // SAFETY: so many are there, `each` for every one; nobody else has this part.
            at: unsafe { at.add(i * each) },
            n: each,
            slab: Some(slab.clone()),
        })
    }
    /// At least so many zero bytes with these at `at`, as far as there is room, and zeros around them.
    fn with(len: usize, at: usize, bytes: &[u8]) -> AlignedBuf {
        let mut to = AlignedBuf::zeroed(len);
        if let Some(to) = to.get_mut(at..at.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
        to
    }
    /// At least so many bytes, and none less than before: those that are there stay, others are zero.
    #[cold]
    pub fn grow(&mut self, len: usize) {
        if len > self.len() {
            *self = AlignedBuf::with(len, 0, self);
        }
    }
    /// So many zero bytes come in before all others.
    #[cold]
    pub fn grow_front(&mut self, by: usize) {
        *self = AlignedBuf::with(self.len().saturating_add(by), by, self);
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.slab.is_none() {
            // SAFETY: what `zeroed` has leaked, and nobody sees it again.
            drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(self.at, self.n).as_ptr()) });
        }
    }
}

/// A copy has an allocation of its own.
impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        AlignedBuf::with(self.len(), 0, self)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many lines are there, for as long as this is; lines are arrays of bytes, without anything between
        // them, as their size is their alignment; the slice is borrowed as they are.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast(), self.n * LINE) }
    }
}

impl DerefMut for AlignedBuf {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are a line.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), self.n * LINE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_at_lines_and_keep_what_is_there() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let mut l = AlignedBuf::zeroed(len);
            assert!(l.len() >= len && l.len() < len + LINE);
            assert_eq!(l.as_ptr().addr() % LINE, 0);
            assert!(l.iter().all(|b| *b == 0));
            l.grow(100);
            for (i, b) in l.iter_mut().enumerate() {
                *b = i as u8;
            }
            let before = l.to_vec();
            l.grow(7);
            assert_eq!(&l[..], before);
            l.grow(2000);
            assert_eq!(l[..before.len()], before);
            assert!(l.len() >= 2000 && l[before.len()..].iter().all(|b| *b == 0));
            l.grow_front(30);
            assert!(l[..30].iter().all(|b| *b == 0));
            assert_eq!(l[30..30 + before.len()], before);
            assert_eq!(l.as_ptr().addr() % LINE, 0);
        }
    }

    #[test]
    fn parts_lie_side_by_side_and_outlive_each_other() {
        for times in [0, 1, 7, 1000] {
            let mut all: Vec<AlignedBuf> = AlignedBuf::adjacent(times, 2100).collect();
            assert_eq!(all.len(), times);
            assert!(
                all.iter()
                    .all(|l| l.len() == 2112 && l.iter().all(|b| *b == 0))
            );
            let apart = |w: &[AlignedBuf]| w[1].as_ptr().addr() - w[0].as_ptr().addr();
            assert!(all.windows(2).all(|w| apart(w) == 2112));
            for (i, l) in all.iter_mut().enumerate() {
                l.fill(i as u8);
            }
            let copy = all.get(3).cloned();
            if let Some(l) = all.get_mut(5) {
                l.grow(3000);
                assert!(l[..2112].iter().all(|b| *b == 5) && l[2112..].iter().all(|b| *b == 0));
            }
            let kept = all.pop();
            drop(all);
            if let Some(l) = kept {
                assert!(l.iter().all(|b| *b == (times - 1) as u8));
            }
            assert!(copy.is_none_or(|l| l.iter().all(|b| *b == 3)));
        }
    }
}
