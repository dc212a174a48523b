//! A packet's memory: whole cache lines, and the owner that gets them back.
//!
//! A header of 64 bytes that lies across two lines costs two of everything: loads and stores of 64 bytes are split, and
//! twice as many lines take part in each cache. The system's allocator aligns to 16 bytes, so that three of four
//! headers were such. A frame begins at a cache line, whoever owns its memory:
//!
//! - the heap ([`Frame::zeroed`]): an allocation of its own, freed on drop;
//! - a [`FramePool`](crate::FramePool): a piece of one large memory (huge pages; memory that a device knows), which
//!   goes back to the pool's free list on drop, by its number.
//!
//! A frame that grows beyond its memory is copied to the heap, and its memory goes back to its owner at once.
#![allow(unsafe_code)]

use crate::frame_pool::Owner;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a cache line on every processor that is of interest.
pub(crate) const LINE: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub(crate) [u8; LINE]);

impl Default for CacheLine {
    fn default() -> Self {
        CacheLine([0; LINE])
    }
}

/// In a frame's number: whoever has it keeps it ([`FramePool::resident`](crate::FramePool::resident)).
pub(crate) const RESIDENT: u32 = 1 << 31;

/// Whole cache lines of memory, and whose they are; see the module's text.
pub struct Frame {
    at: NonNull<CacheLine>,
    lines: u32,
    /// Its number in its pool, [`RESIDENT`] added where that is one; `u32::MAX` on the heap.
    number: u32,
    owner: Option<NonNull<Owner>>,
}

// SAFETY: it owns its bytes, as a box does. Its owner's lists are atomic or locked, and the owner is there for as long
// as any of its frames is.
unsafe impl Send for Frame {}
// SAFETY: as above.
unsafe impl Sync for Frame {}

impl Frame {
    /// Longest frame, in bytes: far more than any packet has.
    const LONGEST: usize = 1 << 30;

    /// No bytes at all: what a packet has whose frame was taken away. Allocates nothing.
    pub const fn empty() -> Frame {
        Frame {
            at: NonNull::dangling(),
            lines: 0,
            number: u32::MAX,
            owner: None,
        }
    }

    /// At least so many zero bytes of the heap (at most 1 GiB).
    pub fn zeroed(len: usize) -> Frame {
        let n = len.min(Frame::LONGEST).div_ceil(LINE);
        let lines: Box<[CacheLine]> = vec![CacheLine::default(); n].into();
        Frame {
            at: NonNull::from(Box::leak(lines)).cast(),
            lines: n as u32,
            number: u32::MAX,
            owner: None,
        }
    }

    /// So many lines from `at` on, which belong to `owner` as number `number`.
    ///
    /// # Safety
    /// They are there for as long as the owner is, and nobody else reads or writes them until the owner gets the number
    /// back. The owner counts this frame among its users.
    pub(crate) unsafe fn owned(
        at: NonNull<CacheLine>,
        lines: u32,
        number: u32,
        owner: NonNull<Owner>,
    ) -> Frame {
        Frame {
            at,
            lines,
            number,
            owner: Some(owner),
        }
    }

    /// Is it to go back as soon as its packet has left or was dropped? A device waits for it. False on the heap, and
    /// where the pool says that packets keep their frames.
    #[inline(always)]
    pub fn is_borrowed(&self) -> bool {
        self.number < RESIDENT
    }

    /// Its number in its pool; `None` on the heap.
    #[inline]
    pub fn number(&self) -> Option<u32> {
        self.owner.map(|_| self.number & !RESIDENT)
    }

    /// Its owner, if that is a pool.
    #[inline]
    pub(crate) fn owner(&self) -> Option<NonNull<Owner>> {
        self.owner
    }

    /// Its number, without giving it back: the caller does.
    pub(crate) fn into_number(self) -> u32 {
        let number = self.number & !RESIDENT;
        std::mem::forget(self);
        number
    }

    /// At least so many zero bytes with these at `at`, as far as there is room, and zeros around them.
    fn with(len: usize, at: usize, bytes: &[u8]) -> Frame {
        let mut to = Frame::zeroed(len);
        if let Some(to) = to.get_mut(at..at.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
        to
    }

    /// At least so many bytes, and none less than before: those that are there stay, others are zero. They are on the
    /// heap then; what was there before goes back to its owner.
    #[cold]
    pub fn grow(&mut self, len: usize) {
        if len > self.len() {
            *self = Frame::with(len, 0, self);
        }
    }

    /// So many zero bytes come in before all others; as [`Frame::grow`].
    #[cold]
    pub fn grow_front(&mut self, by: usize) {
        *self = Frame::with(self.len().saturating_add(by), by, self);
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: what `zeroed` has leaked, or nothing at all, and nobody sees it again.
            None => drop(unsafe {
                let lines = NonNull::slice_from_raw_parts(self.at, self.lines as usize);
                Box::from_raw(lines.as_ptr())
            }),
            // SAFETY: the owner is there as long as this frame is; nobody uses the frame's memory any more.
            Some(owner) => unsafe { Owner::give_back(owner, self.number & !RESIDENT) },
        }
    }
}

/// A copy is on the heap.
impl Clone for Frame {
    fn clone(&self) -> Frame {
        Frame::with(self.len(), 0, self)
    }
}

impl Default for Frame {
    fn default() -> Self {
        Frame::empty()
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Deref for Frame {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many lines are there, for as long as this is; lines are arrays of bytes, without anything between
        // them, as their size is their alignment; the slice is borrowed as they are.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast(), self.lines as usize * LINE) }
    }
}

impl DerefMut for Frame {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.lines as usize * LINE;
        // SAFETY: as above; any bytes are a line.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_at_lines_and_keep_what_is_there() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let mut l = Frame::zeroed(len);
            assert!(l.len() >= len && l.len() < len + LINE);
            assert_eq!(l.as_ptr().addr() % LINE, 0);
            assert!(l.iter().all(|b| *b == 0));
            assert!(!l.is_borrowed() && l.number().is_none());
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
        let mut none = Frame::empty();
        assert!(none.is_empty() && none.clone().is_empty());
        none.grow(3);
        assert_eq!(none[..3], [0; 3]);
    }
}
