//! A bounded queue from one thread to another one.
//!
//! Both ends work on batches: what a batch has is published with one store, and the other side's counter is read again
//! only when the last value that was seen leaves no room, or nothing to take. Neither end waits for the other one.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most places of a ring.
const MOST: usize = 1 << 20;

/// A counter on cache lines of its own: processors fetch two lines at a time.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

struct Shared<T> {
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Elements that were ever taken; the consumer's.
    taken: Counter,
    /// Elements that were ever put in; the producer's.
    put: Counter,
}

// SAFETY: a place belongs to the producer while it is not between `taken` and `put`, and to the consumer while it is:
// it changes hands by a release store of a counter and an acquire load of it. There is one of each.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The place of an element with this number.
    #[inline]
    fn place(&self, number: usize) -> *mut MaybeUninit<T> {
        // the length is a power of two, not zero
        let at = number & (self.places.len() - 1);
        self.places[at].get()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (taken, put) = (*self.taken.0.get_mut(), *self.put.0.get_mut());
        for n in 0..put.wrapping_sub(taken) {
            let at = self.place(taken.wrapping_add(n));
            // SAFETY: both ends are gone; what lies between the counters was put in and not taken out.
            unsafe { (*at).assume_init_drop() };
        }
    }
}

/// The end that elements are put in at.
pub struct RingProducer<T> {
    shared: Arc<Shared<T>>,
    /// Elements that were ever put in, and those known to be taken.
    put: usize,
    taken: usize,
}

/// The end that elements are taken out at.
pub struct RingConsumer<T> {
    shared: Arc<Shared<T>>,
    /// Elements that were ever taken, and those known to have been put in.
    taken: usize,
    put: usize,
}

/// A queue with room for at least so many elements (1 to 1,048,576; rounded up to a power of two).
pub fn spsc_ring<T: Send>(room: usize) -> (RingProducer<T>, RingConsumer<T>) {
    let room = room.clamp(1, MOST).next_power_of_two();
    let shared = Arc::new(Shared {
        places: (0..room)
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
        taken: Counter::default(),
        put: Counter::default(),
    });
    let producer = RingProducer {
        shared: Arc::clone(&shared),
        put: 0,
        taken: 0,
    };
    let consumer = RingConsumer {
        shared,
        taken: 0,
        put: 0,
    };
    (producer, consumer)
}

impl<T> RingProducer<T> {
    /// Elements that there is room for, if `wanted` are to be put in: not fewer than there are when it returns.
    #[inline]
    fn free_places(&mut self, wanted: usize) -> usize {
        let all = self.shared.places.len();
        let free = |p: &Self| all - p.put.wrapping_sub(p.taken);
        if free(self) < wanted {
            self.taken = self.shared.taken.0.load(Ordering::Acquire);
        }
        free(self).min(wanted)
    }

    /// Is there room for so many more?
    #[inline]
    pub fn has_room(&mut self, n: usize) -> bool {
        self.free_places(n) == n
    }

    /// Puts in elements of `from`, the first ones first, as far as there is room: these are taken out of it. How many
    /// they were.
    #[inline]
    pub fn push_all(&mut self, from: &mut Vec<T>) -> usize {
        let n = self.free_places(from.len());
        for x in from.drain(..n) {
            let at = self.shared.place(self.put);
            // SAFETY: the place is the producer's (there is room), and nothing is in it.
            unsafe { (*at).write(x) };
            self.put = self.put.wrapping_add(1);
        }
        if n > 0 {
            self.shared.put.0.store(self.put, Ordering::Release);
        }
        n
    }
}

impl<T> RingConsumer<T> {
    /// Takes out up to `most` elements, the oldest first, to the end of `to`. How many they were.
    #[inline]
    pub fn take(&mut self, to: &mut Vec<T>, most: usize) -> usize {
        let there = |c: &Self| c.put.wrapping_sub(c.taken);
        if there(self) < most {
            self.put = self.shared.put.0.load(Ordering::Acquire);
        }
        let n = there(self).min(most);
        to.reserve(n);
        for _ in 0..n {
            let at = self.shared.place(self.taken);
            // SAFETY: the place is the consumer's (an element is there), which does not look at it again.
            to.push(unsafe { (*at).assume_init_read() });
            self.taken = self.taken.wrapping_add(1);
        }
        if n > 0 {
            self.shared.taken.0.store(self.taken, Ordering::Release);
        }
        n
    }

    /// Is there nothing to be taken at this moment?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.put.0.load(Ordering::Acquire) == self.taken
    }
}

impl<T> fmt::Debug for RingProducer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingProducer({} put)", self.put)
    }
}

impl<T> fmt::Debug for RingConsumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingConsumer({} taken)", self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_no_more_than_there_is_room_for() {
        let (mut p, mut c) = spsc_ring::<u32>(3);
        let mut from: Vec<u32> = (0..6).collect();
        assert!(p.has_room(4) && !p.has_room(5));
        assert_eq!(p.push_all(&mut from), 4, "rounded up to a power of two");
        assert!(p.has_room(0) && !p.has_room(1));
        assert_eq!(from, [4, 5]);
        let mut to = Vec::new();
        assert_eq!(c.take(&mut to, 3), 3);
        assert!(!c.is_empty() && p.has_room(3) && !p.has_room(4));
        assert_eq!((p.push_all(&mut from), from.len()), (2, 0));
        assert_eq!(c.take(&mut to, 10), 3);
        assert_eq!((to, c.is_empty()), ((0..6).collect(), true));
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let x = Arc::new(());
        let (mut p, mut c) = spsc_ring(8);
        assert_eq!(p.push_all(&mut vec![x.clone(); 5]), 5);
        let mut to = Vec::new();
        c.take(&mut to, 2);
        drop(p);
        assert_eq!(Arc::strong_count(&x), 6);
        drop(c);
        assert_eq!((Arc::strong_count(&x), to.len()), (3, 2));
    }

    #[test]
    fn nothing_is_lost_between_two_threads() {
        const ALL: u64 = if cfg!(miri) { 500 } else { 200_000 };
        let (mut p, mut c) = spsc_ring(64);
        let producer = std::thread::spawn(move || {
            let (mut next, mut batch) = (0, Vec::new());
            while next < ALL || !batch.is_empty() {
                while batch.len() < 1 + (next % 40) as usize && next < ALL {
                    batch.push(Box::new(next));
                    next += 1;
                }
                if p.push_all(&mut batch) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut got, mut to) = (0, Vec::new());
        while got < ALL {
            if c.take(&mut to, 1 + (got % 50) as usize) == 0 {
                std::thread::yield_now();
            }
            for x in to.drain(..) {
                assert_eq!(*x, got);
                got += 1;
            }
        }
        producer.join().unwrap();
        assert!(c.is_empty());
    }
}
