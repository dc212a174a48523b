//! A list of as many items as a group has packets, at most, on the stack. To clear an array first, as safe code would
//! have to, took as long for a group as half of what is done for its packets' headers.
#![allow(unsafe_code)]

use crate::simd::GROUP;
use std::mem::MaybeUninit;

/// See the module's text.
pub(crate) struct BatchList<T: Copy> {
    items: [MaybeUninit<T>; GROUP],
    n: usize,
}

impl<T: Copy> BatchList<T> {
    #[inline(always)]
    pub fn new() -> BatchList<T> {
        BatchList {
            items: [const { MaybeUninit::uninit() }; GROUP],
            n: 0,
        }
    }
    /// Appends one; nothing happens if there is no room.
    #[inline(always)]
    pub fn push(&mut self, item: T) {
        if let Some(to) = self.items.get_mut(self.n) {
            to.write(item);
            self.n += 1;
        }
    }
    #[inline(always)]
    pub fn items(&self) -> &[T] {
        // SAFETY: the first `n` have been written, and `T` needs no drop.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_what_was_appended() {
        let mut list = BatchList::new();
        assert!(list.items().is_empty());
        for i in 0..GROUP + 2 {
            list.push(i as u32);
        }
        let all: Vec<u32> = (0..GROUP as u32).collect();
        assert_eq!(list.items(), all);
    }
}
