//! A bounded queue of packet descriptors from one process to another one.
//!
//! Three counters run round in 32 bits: `tail`, what was ever put in (the producer's), `taken`, what the consumer has
//! claimed, and `head`, what it is done with. The room between `head` and `tail` is the ring's occupancy, and anybody
//! may read it. A consumer that dies between `taken` and `head` leaves behind which packets it had
//! ([`crate::reclaim`]); and as it moves `head` only after what it made of them was published, a chain whose rings
//! are all empty has nothing under way ([`crate::quiet`]).
//!
//! Both ends work on batches: one store publishes a batch, and the other end's counter is read again only if the last
//! value seen leaves no room, or nothing to take. Each end keeps its own counter to itself and believes nothing of what
//! it reads: counters that cannot be are [`RingError::Corrupt`], and descriptors are numbers that mean nothing before
//! they are checked ([`crate::Seat`]).

use crate::atomics::{Atomics, Word};
use std::sync::atomic::Ordering;

/// Most places of a ring.
pub const MOST_PLACES: u32 = 1 << 16;
/// Words of a descriptor.
pub const WORDS: usize = 4;

/// What a ring's other end has done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Its counter is where it cannot be: behind where it was, or further ahead than the ring is long.
    #[error("the ring's {counter} says {found}, which is not within {room} of {expected}")]
    Corrupt {
        /// Which counter.
        counter: &'static str,
        /// What it says.
        found: u32,
        /// From where on it could be.
        expected: u32,
        /// How far it could be from there.
        room: u32,
    },
}

/// Where a packet lies, and what goes with it. What comes out of a ring is what the other end has written there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The slot's number.
    pub slot: u32,
    /// Bytes of the packet that are in it.
    pub len: u32,
    /// Where in the slot they begin.
    pub offset: u16,
    /// See [`Descriptor::MORE`], [`Descriptor::CLEAR_FRONT`].
    pub flags: u16,
    /// What a link keeps of the packet's annotations.
    pub tag: u32,
    /// When it arrived, nanoseconds since 1970.
    pub time: i64,
    /// When it came into the chain, where that is another time, in the same unit; 0: it is not.
    pub came: u64,
}

impl Descriptor {
    /// The packet goes on in the next descriptor's slot.
    pub const MORE: u16 = 1;
    /// The packet begins behind the usual headroom, and whoever sent it knows that all of that is zero.
    pub const CLEAR_FRONT: u16 = 2;

    /// When the packet came into the chain, as far as who sent it knows, nanoseconds since 1970.
    #[inline]
    pub fn came(&self) -> i64 {
        match self.came {
            0 => self.time,
            came => came as i64,
        }
    }

    /// As it is written.
    #[inline]
    fn words(&self) -> [u64; WORDS] {
        [
            u64::from(self.slot) | u64::from(self.len) << 32,
            u64::from(self.offset) | u64::from(self.flags) << 16 | u64::from(self.tag) << 32,
            self.time as u64,
            self.came,
        ]
    }

    #[inline]
    fn of_words([a, b, time, came]: [u64; WORDS]) -> Descriptor {
        Descriptor {
            slot: a as u32,
            len: (a >> 32) as u32,
            offset: b as u16,
            flags: (b >> 16) as u16,
            tag: (b >> 32) as u32,
            time: time as i64,
            came,
        }
    }
}

/// Where a ring lies.
pub trait RingMemory {
    /// What its words are.
    type A: Atomics;
    /// Places: a power of two, at most [`MOST_PLACES`]. Always the same, and not read from where the other end could
    /// write it.
    fn places(&self) -> u32;
    /// What was ever put in.
    fn tail(&self) -> &<Self::A as Atomics>::U32;
    /// What the consumer has claimed.
    fn taken(&self) -> &<Self::A as Atomics>::U32;
    /// What the consumer is done with.
    fn head(&self) -> &<Self::A as Atomics>::U32;
    /// The words of a place; the number is taken modulo the number of places.
    fn place(&self, number: u32) -> &[<Self::A as Atomics>::U64; WORDS];
}

/// How full a ring is, by its counters, which others write: at most its places.
#[inline]
pub fn occupancy<M: RingMemory>(ring: &M) -> u32 {
    let head = ring.head().load(Ordering::Acquire);
    let tail = ring.tail().load(Ordering::Acquire);
    tail.wrapping_sub(head).min(ring.places())
}

/// Reads the place of a descriptor; others may write it at the same time.
#[inline]
pub(crate) fn read<M: RingMemory>(ring: &M, number: u32) -> Descriptor {
    let words = ring.place(number);
    Descriptor::of_words(std::array::from_fn(|i| match words.get(i) {
        Some(w) => w.load(Ordering::Relaxed),
        None => 0,
    }))
}

/// The end that descriptors are put in at. There is one of each ring.
#[derive(Debug)]
pub struct Producer<M> {
    ring: M,
    tail: u32,
    /// The consumer's, as it was seen last.
    head: u32,
}

impl<M: RingMemory> Producer<M> {
    /// Goes on where whoever produced before has ended.
    ///
    /// # Errors
    /// When the ring's counters cannot be.
    pub fn attach(ring: M) -> Result<Producer<M>, RingError> {
        let head = ring.head().load(Ordering::Acquire);
        let tail = ring.tail().load(Ordering::Acquire);
        within("tail", tail, head, ring.places())?;
        Ok(Producer { ring, tail, head })
    }

    /// The ring.
    pub fn ring(&self) -> &M {
        &self.ring
    }

    /// Places that are free, if `wanted` are to be filled: not fewer than there are when it returns, and no more than
    /// `wanted`.
    ///
    /// # Errors
    /// When the consumer's counter cannot be.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> Result<usize, RingError> {
        let places = self.ring.places();
        let free = |p: &Self| places - p.tail.wrapping_sub(p.head);
        if (free(self) as usize) < wanted {
            self.look()?;
        }
        Ok((free(self) as usize).min(wanted))
    }

    /// Packets that wait, of which `few` are so few that nobody needs to know better: then the consumer's counter is as
    /// it was seen last, and what it has taken since counts still. Its line is in the consumer's cache, and whoever
    /// looks there holds up both.
    ///
    /// # Errors
    /// When the consumer's counter cannot be.
    #[inline]
    pub fn waiting(&mut self, few: u32) -> Result<u32, RingError> {
        if self.tail.wrapping_sub(self.head) > few {
            self.look()?;
        }
        Ok(self.tail.wrapping_sub(self.head))
    }

    /// Sees how far the consumer is.
    #[inline]
    fn look(&mut self) -> Result<(), RingError> {
        let head = self.ring.head().load(Ordering::Acquire);
        within("head", head, self.head, self.tail.wrapping_sub(self.head))?;
        self.head = head;
        Ok(())
    }

    /// Puts descriptors in, the first ones first, as far as there is room, and publishes them together. How many they
    /// were.
    ///
    /// # Errors
    /// When the consumer's counter cannot be.
    #[inline]
    pub fn push(&mut self, all: &[Descriptor]) -> Result<usize, RingError> {
        let n = self.room(all.len())?;
        for d in all.iter().take(n) {
            let place = self.ring.place(self.tail);
            for (to, from) in place.iter().zip(d.words()) {
                to.store(from, Ordering::Relaxed);
            }
            self.tail = self.tail.wrapping_add(1);
        }
        if n > 0 {
            self.ring.tail().store(self.tail, Ordering::Release);
        }
        Ok(n)
    }

    /// Whatever is in there is forgotten, and the counters are right again: after [`RingError::Corrupt`], while nobody
    /// consumes.
    pub fn reset(&mut self) {
        self.head = self.tail;
        self.ring.tail().store(self.tail, Ordering::Release);
        self.ring.taken().store(self.tail, Ordering::Release);
        self.ring.head().store(self.tail, Ordering::Release);
    }
}

/// The end that descriptors are taken out at. There is one of each ring.
#[derive(Debug)]
pub struct Consumer<M> {
    ring: M,
    head: u32,
    taken: u32,
    /// The producer's, as it was seen last.
    tail: u32,
}

impl<M: RingMemory> Consumer<M> {
    /// Goes on where whoever consumed before has ended.
    ///
    /// # Errors
    /// When the ring's counters cannot be.
    pub fn attach(ring: M) -> Result<Consumer<M>, RingError> {
        let head = ring.head().load(Ordering::Acquire);
        let tail = ring.tail().load(Ordering::Acquire);
        within("tail", tail, head, ring.places())?;
        ring.taken().store(head, Ordering::Release);
        Ok(Consumer {
            ring,
            head,
            taken: head,
            tail: head,
        })
    }

    /// The ring.
    pub fn ring(&self) -> &M {
        &self.ring
    }

    /// Looks again how far the producer is, if fewer than `wanted` are known to be there. How many are.
    ///
    /// # Errors
    /// When the producer's counter cannot be.
    #[inline]
    pub fn available(&mut self, wanted: usize) -> Result<usize, RingError> {
        let there = |c: &Self| c.tail.wrapping_sub(c.taken) as usize;
        if there(self) < wanted {
            let tail = self.ring.tail().load(Ordering::Acquire);
            within("tail", tail, self.head, self.ring.places())?;
            within("tail", tail, self.taken, self.ring.places())?;
            self.tail = tail;
        }
        Ok(there(self).min(wanted))
    }

    /// The next descriptor, without taking it; `None`: there is none.
    ///
    /// # Errors
    /// When the producer's counter cannot be.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Descriptor>, RingError> {
        match self.available(1)? {
            0 => Ok(None),
            _ => Ok(Some(read(&self.ring, self.taken))),
        }
    }

    /// Takes up to `most` descriptors out, the oldest first, to the end of `to`. Others see it with
    /// [`Consumer::claim`]. How many they were.
    ///
    /// # Errors
    /// When the producer's counter cannot be.
    #[inline]
    pub fn take(&mut self, to: &mut Vec<Descriptor>, most: usize) -> Result<usize, RingError> {
        let n = self.available(most)?;
        to.reserve(n);
        for _ in 0..n {
            to.push(read(&self.ring, self.taken));
            self.taken = self.taken.wrapping_add(1);
        }
        Ok(n)
    }

    /// What was taken is this end's from now on: whoever looks after it finds it there.
    #[inline]
    pub fn claim(&mut self) {
        self.ring.taken().store(self.taken, Ordering::Release);
    }

    /// What was taken is done with, and what came of it is published: the producer has room again.
    #[inline]
    pub fn release(&mut self) {
        if self.head != self.taken {
            self.head = self.taken;
            self.ring.head().store(self.head, Ordering::Release);
        }
    }

    /// Is there nothing to be taken at this moment, as far as the producer's counter says?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.tail().load(Ordering::Acquire) == self.taken
    }
}

/// A counter that may be from `from` to `room` behind it.
#[inline]
fn within(counter: &'static str, found: u32, expected: u32, room: u32) -> Result<(), RingError> {
    if found.wrapping_sub(expected) <= room {
        return Ok(());
    }
    Err(RingError::Corrupt {
        counter,
        found,
        expected,
        room,
    })
}
