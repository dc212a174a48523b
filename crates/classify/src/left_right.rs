//! Changes while others look up: two copies, of which one is looked up in and the other one is changed.
//!
//! The owner changes the copy that nobody reads, makes it the live one, and changes the other copy likewise as soon as
//! its last reader has left it. Readers take a copy for a batch: they compare one number, and only if it has changed
//! take the new one, under a lock that is held for the time of a reference count. They never wait for a change, a
//! change never waits for them: while a reader is still in the copy that is needed, changes queue up. (Left-right,
//! Ramalhete & Correia, 2013, with reference counts instead of read indicators.)
//!
//! Structures that cannot be changed in place are replaced whole: [`LeftRight::replace`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Changes that may queue up while a reader stays in an old copy.
pub const MAX_QUEUED: usize = 1 << 16;

/// Something that can be changed in place; equal copies must take equal changes equally.
pub trait Apply<C> {
    /// Why a change is refused.
    type Error;

    /// Makes a change.
    ///
    /// # Errors
    /// It is refused; nothing has changed.
    fn apply(&mut self, change: &C) -> Result<(), Self::Error>;
}

/// The queue is full: a reader does not leave the old copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_QUEUED} changes wait for a reader to take up the live copy")]
pub struct Stalled;

#[derive(Debug)]
struct Shared<T> {
    generation: AtomicU64,
    live: Mutex<Arc<T>>,
}

impl<T> Shared<T> {
    fn swap(&self, with: Arc<T>) -> Arc<T> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *live, with);
        self.generation.fetch_add(1, Ordering::Release);
        old
    }
}

/// The owner of both copies.
#[derive(Debug)]
pub struct LeftRight<T, C> {
    shared: Arc<Shared<T>>,
    /// The copy that is not live; readers may still be in it.
    spare: Arc<T>,
    /// Changes that the live copy has and the spare one has not.
    behind: Vec<C>,
    /// Changes that neither has.
    queued: VecDeque<C>,
}

/// What became of queued changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published<E> {
    /// Refused ones, in order.
    pub refused: Vec<E>,
    /// Changes that wait for a reader.
    pub waiting: usize,
}

impl<T: Apply<C> + Clone, C> LeftRight<T, C> {
    /// Two copies of the same.
    pub fn new(value: T) -> Self {
        Self {
            spare: Arc::new(value.clone()),
            shared: Arc::new(Shared {
                generation: AtomicU64::new(0),
                live: Mutex::new(Arc::new(value)),
            }),
            behind: Vec::new(),
            queued: VecDeque::new(),
        }
    }

    /// Somebody who looks up: one per worker.
    pub fn reader(&self) -> Reader<T> {
        let live = self.shared.live.lock();
        let live = live.unwrap_or_else(PoisonError::into_inner);
        Reader {
            seen: self.shared.generation.load(Ordering::Acquire),
            mine: Arc::clone(&live),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Queues a change.
    ///
    /// # Errors
    /// [`MAX_QUEUED`] changes wait already.
    pub fn queue(&mut self, change: C) -> Result<(), Stalled> {
        if self.queued.len() >= MAX_QUEUED {
            return Err(Stalled);
        }
        self.queued.push_back(change);
        Ok(())
    }

    /// Makes all queued changes live, if no reader is left in the copy that they are to be made in.
    pub fn publish(&mut self) -> Published<T::Error> {
        let mut refused = Vec::new();
        let Some(spare) = Arc::get_mut(&mut self.spare) else {
            return Published {
                refused,
                waiting: self.queued.len(),
            };
        };
        for c in self.behind.drain(..) {
            // what the live copy took, its equal takes
            if let Err(e) = spare.apply(&c) {
                refused.push(e);
            }
        }
        if self.queued.is_empty() {
            return Published {
                refused,
                waiting: 0,
            };
        }
        for c in self.queued.drain(..) {
            match spare.apply(&c) {
                Ok(()) => self.behind.push(c),
                Err(e) => refused.push(e),
            }
        }
        self.spare = self.shared.swap(Arc::clone(&self.spare));
        Published {
            refused,
            waiting: 0,
        }
    }

    /// Makes something else live, and forgets queued changes.
    pub fn replace(&mut self, value: T) {
        self.behind.clear();
        self.queued.clear();
        self.spare = Arc::new(value.clone());
        drop(self.shared.swap(Arc::new(value)));
    }
}

/// A reader's hold on the live copy.
#[derive(Debug)]
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    mine: Arc<T>,
    seen: u64,
}

impl<T> Reader<T> {
    /// The live copy, as of now: to be called once per batch, and while idle every now and then.
    #[inline]
    pub fn get(&mut self) -> &T {
        let now = self.shared.generation.load(Ordering::Acquire);
        if now != self.seen {
            let live = self.shared.live.lock();
            let live = live.unwrap_or_else(PoisonError::into_inner);
            // under the lock: the number belongs to this copy
            self.seen = self.shared.generation.load(Ordering::Acquire);
            self.mine = Arc::clone(&live);
        }
        &self.mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Sum(u64);

    impl Apply<u64> for Sum {
        type Error = u64;
        fn apply(&mut self, c: &u64) -> Result<(), u64> {
            match *c {
                13 => Err(13),
                c => {
                    self.0 = self.0.wrapping_mul(3).wrapping_add(c);
                    Ok(())
                }
            }
        }
    }

    #[test]
    fn both_copies_take_the_same_changes_and_a_slow_reader_delays_them() {
        let mut t = LeftRight::new(Sum(1));
        let (mut quick, mut slow) = (t.reader(), t.reader());
        t.queue(1).unwrap();
        t.queue(13).unwrap();
        assert_eq!(t.publish().refused, [13]);
        assert_eq!(quick.get(), &Sum(4));
        // the slow one still reads the first copy
        assert_eq!(*slow.mine, Sum(1));
        t.queue(2).unwrap();
        assert_eq!(t.publish().waiting, 1);
        assert_eq!(quick.get(), &Sum(4));
        assert_eq!(slow.get(), &Sum(4));
        assert_eq!(t.publish().waiting, 0);
        assert_eq!((quick.get(), slow.get()), (&Sum(14), &Sum(14)));
        t.replace(Sum(7));
        t.queue(1).unwrap();
        t.publish();
        assert_eq!(quick.get(), &Sum(22));
    }

    #[test]
    fn a_reader_that_stays_is_told_of() {
        let mut t = LeftRight::new(Sum(1));
        let mut r = t.reader();
        t.queue(1).unwrap();
        t.publish();
        for _ in 0..MAX_QUEUED {
            t.queue(0).unwrap();
            assert!(t.publish().waiting > 0);
        }
        assert_eq!(t.queue(0), Err(Stalled));
        r.get();
        assert_eq!(t.publish().waiting, 0);
        t.queue(0).unwrap();
    }

    #[test]
    fn readers_in_other_threads_see_only_whole_states() {
        let mut t = LeftRight::new(Sum(0));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut r = t.reader();
                std::thread::spawn(move || {
                    let mut last = 0;
                    while last < 9_840 {
                        let now = r.get().0;
                        assert!(now >= last);
                        last = now;
                    }
                    last
                })
            })
            .collect();
        // 3 * s + 1, eight times over and once more
        for _ in 0..9 {
            t.queue(1).unwrap();
            while t.publish().waiting > 0 {
                std::thread::yield_now();
            }
        }
        for r in readers {
            assert_eq!(r.join().unwrap(), 9_841);
        }
    }
}
