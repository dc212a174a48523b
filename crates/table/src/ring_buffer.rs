//! A growing ring buffer: elements are added at the end and taken from the front.

use crate::HugeVec;

/// Places that are made at first. A power of two.
const FIRST: usize = 16;

/// A queue in one piece of memory, on huge pages where it is large ([`HugeVec`]): new flows of a flood go through one
/// at full rate, and a `VecDeque` would touch a page of 4 KiB for each 170 of them. Its capacity is what it has ever
/// needed, rounded up to a power of two; it never shrinks.
#[derive(Debug)]
pub struct RingBuffer<T> {
    /// All places; those that are not in use hold what was there last.
    places: HugeVec<T>,
    /// The number of the first element, and of the next one to come: their lowest bits are places.
    first: usize,
    next: usize,
}

impl<T> Default for RingBuffer<T> {
    fn default() -> RingBuffer<T> {
        RingBuffer {
            places: HugeVec::new(),
            first: 0,
            next: 0,
        }
    }
}

impl<T: Copy + Default> Clone for RingBuffer<T> {
    fn clone(&self) -> RingBuffer<T> {
        let mut to = RingBuffer::default();
        (0..self.len()).for_each(|n| to.push_back(self.get(n).copied().unwrap_or_default()));
        to
    }
}

impl<T: Copy + Default> RingBuffer<T> {
    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & self.places.len().wrapping_sub(1)
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.next.wrapping_sub(self.first)
    }
    /// Is there no element?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next == self.first
    }
    /// Element number `n` from the front.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Option<&T> {
        match n < self.len() {
            true => self.places.get(self.place(self.first.wrapping_add(n))),
            false => None,
        }
    }
    /// The first element.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// Adds an element at the end.
    #[inline(always)]
    pub fn push_back(&mut self, x: T) {
        if self.len() == self.places.len() {
            self.grow();
        }
        let place = self.place(self.next);
        if let Some(to) = self.places.get_mut(place) {
            *to = x;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Removes the first element.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        if !self.is_empty() {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Keeps only the elements for which `stays` holds, in order.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        let all = self.len();
        let mut kept = 0;
        for n in 0..all {
            let Some(x) = self.get(n).copied() else {
                continue;
            };
            if stays(&x) {
                let place = self.place(self.first.wrapping_add(kept));
                if let Some(to) = self.places.get_mut(place) {
                    *to = x;
                }
                kept += 1;
            }
        }
        self.next = self.first.wrapping_add(kept);
    }

    #[cold]
    fn grow(&mut self) {
        let room = (self.places.len() * 2).max(FIRST);
        let mut places = HugeVec::with_capacity(room);
        for n in 0..self.len() {
            places.push(self.get(n).copied().unwrap_or_default());
        }
        let len = places.len();
        for _ in len..room {
            places.push(T::default());
        }
        (self.places, self.first, self.next) = (places, 0, len);
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.places.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    proptest::proptest! {
        /// As a `VecDeque`.
        #[test]
        fn as_a_deque(steps in proptest::collection::vec((0u8..9, 0usize..40), 1..500)) {
            let (mut line, mut deque) = (RingBuffer::default(), VecDeque::new());
            for (i, (what, n)) in steps.into_iter().enumerate() {
                match what {
                    0..5 => {
                        line.push_back(i);
                        deque.push_back(i);
                    }
                    5..8 => {
                        line.pop_front();
                        deque.pop_front();
                    }
                    _ => {
                        line.retain(|x| x % 3 != n % 3);
                        deque.retain(|x| x % 3 != n % 3);
                        line = line.clone();
                    }
                }
                proptest::prop_assert_eq!((line.len(), line.is_empty()), (deque.len(), deque.is_empty()));
                proptest::prop_assert_eq!(line.front(), deque.front());
                proptest::prop_assert_eq!(line.get(n), deque.get(n));
            }
            proptest::prop_assert!(line.places.len() < 2 * 500);
        }
    }
}
