//! Those who stand in line: they come in at one end and go at the other.

use onefold_packet::Roomy;

/// Places that are made at first. A power of two.
const FIRST: usize = 16;

/// A queue in one piece of memory, on huge pages where it is large ([`Roomy`]): a flood's flows come and go through it, and what a `VecDeque` has takes a page of
/// four kibibytes for each 170 of them. It has as many places as it has ever needed, rounded up to a power of two.
#[derive(Debug)]
pub(super) struct Line<T> {
    /// All places; those that nobody stands at hold what was there last.
    places: Roomy<T>,
    /// The number of whoever is first, and of the next one to come: their lowest bits are places.
    first: usize,
    next: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line {
            places: Roomy::new(),
            first: 0,
            next: 0,
        }
    }
}

impl<T: Copy + Default> Clone for Line<T> {
    fn clone(&self) -> Line<T> {
        let mut to = Line::default();
        (0..self.len()).for_each(|n| to.push_back(self.get(n).copied().unwrap_or_default()));
        to
    }
}

impl<T: Copy + Default> Line<T> {
    #[inline(always)]
    fn place(&self, number: usize) -> usize {
        number & self.places.len().wrapping_sub(1)
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.next.wrapping_sub(self.first)
    }
    /// Nobody.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next == self.first
    }
    /// Whoever is number `n` from the front.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Option<&T> {
        match n < self.len() {
            true => self.places.get(self.place(self.first.wrapping_add(n))),
            false => None,
        }
    }
    /// Whoever is first.
    #[inline(always)]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// One more, at the end.
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

    /// Whoever is first goes.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        if !self.is_empty() {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Those of whom it does not hold go.
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
        let mut places = Roomy::with_room(room);
        for n in 0..self.len() {
            places.push(self.get(n).copied().unwrap_or_default());
        }
        let len = places.len();
        for _ in len..room {
            places.push(T::default());
        }
        (self.places, self.first, self.next) = (places, 0, len);
    }

    /// Bytes.
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
            let (mut line, mut deque) = (Line::default(), VecDeque::new());
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
