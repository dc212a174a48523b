//! Bytes that begin at a cache line.
//!
//! A header of 64 bytes that lies across two lines costs two of everything: loads and stores of 64 bytes are split, and twice as many lines take part in each
//! cache. The system's allocator aligns to 16 bytes, so that three of four headers were such.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line on every processor that is of interest.
const LINE: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Whole cache lines.
#[derive(Debug, Clone)]
pub(crate) struct Lines(Box<[Line]>);

impl Lines {
    /// At least so many zero bytes.
    pub fn zeroed(len: usize) -> Lines {
        Lines(vec![Line([0; LINE]); len.div_ceil(LINE)].into())
    }
    /// At least so many bytes with these at `at`, as far as there is room, and zeros around them.
    fn with(len: usize, at: usize, bytes: &[u8]) -> Lines {
        let mut to = Lines::zeroed(len);
        if let Some(to) = to.get_mut(at..at.saturating_add(bytes.len())) {
            to.copy_from_slice(bytes);
        }
        to
    }
    /// At least so many bytes, and none less than before: those that are there stay, others are zero.
    #[cold]
    pub fn grow(&mut self, len: usize) {
        if len > self.len() {
            *self = Lines::with(len, 0, self);
        }
    }
    /// So many zero bytes come in before all others.
    #[cold]
    pub fn grow_front(&mut self, by: usize) {
        *self = Lines::with(self.len().saturating_add(by), by, self);
    }
}

impl Deref for Lines {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: lines are arrays of bytes, without anything between them, as their size is their alignment; the slice is borrowed as they are.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(&*self.0)) }
    }
}

impl DerefMut for Lines {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; any bytes are a line.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), size_of_val(&*self.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_at_lines_and_keep_what_is_there() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let mut l = Lines::zeroed(len);
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
}
