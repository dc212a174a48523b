//! Which frames the kernel has for a queue of an interface, and the two rings by which they go there and come back.
//!
//! The kernel has one fill ring and one completion ring for a queue, however many sockets take its frames. So several
//! sockets of one queue share this ([`Frames::Shared`]): a lock is taken for each batch, and for each packet that is
//! put into a transmit ring. A socket that has its queue alone has no lock.

use crate::ring::{Consumer, Producer};
use crate::socket::{Socket, Wake};
use crate::umem::Umem;
use onefold_table::Frame;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Frames that a queue keeps beside its rings.
const SPARE: usize = 64;

/// Frames that went to the kernel, or came back, are in `with_kernel` by their number: the kernel reads and writes them
/// until it says that it is done.
#[derive(Debug)]
pub struct OfQueue {
    fill: Producer<u64>,
    completion: Consumer<u64>,
    /// Frames that are ours and in no ring.
    pub spare: Vec<Frame>,
    with_kernel: Vec<Option<Frame>>,
    stride: u64,
    skip: usize,
}

/// See the module's text.
#[derive(Debug)]
pub enum Frames {
    /// Of the queue's only socket.
    Own(Box<OfQueue>),
    /// Of one of several.
    Shared(Arc<Mutex<OfQueue>>),
}

/// As long as it is there, nobody else has the queue's frames.
pub enum Entered<'a> {
    Own(&'a mut OfQueue),
    Shared(MutexGuard<'a, OfQueue>),
}

impl Deref for Entered<'_> {
    type Target = OfQueue;
    #[inline]
    fn deref(&self) -> &OfQueue {
        match self {
            Entered::Own(f) => f,
            Entered::Shared(f) => f,
        }
    }
}

impl DerefMut for Entered<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut OfQueue {
        match self {
            Entered::Own(f) => f,
            Entered::Shared(f) => f,
        }
    }
}

impl Frames {
    /// To be used by this thread for a moment.
    #[inline]
    pub fn enter(&mut self) -> Entered<'_> {
        match self {
            Frames::Own(f) => Entered::Own(f),
            // what is in the rings and in the list agrees after each step
            Frames::Shared(f) => Entered::Shared(f.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl OfQueue {
    /// With these rings, of so many places.
    pub fn new(fill: Producer<u64>, completion: Consumer<u64>, umem: &Umem, ring: u32) -> OfQueue {
        OfQueue {
            fill,
            completion,
            spare: Vec::with_capacity(2 * ring as usize),
            with_kernel: (0..umem.pool().frames()).map(|_| None).collect(),
            stride: umem.pool().stride() as u64,
            skip: umem.pool().skip(),
        }
    }

    /// Which frame an address is in, and where its bytes begin in what the frame shows of it.
    #[inline]
    fn place(&self, address: u64) -> (usize, Option<usize>) {
        let at = (address % self.stride) as usize;
        ((address / self.stride) as usize, at.checked_sub(self.skip))
    }

    /// The kernel gives a frame back: `None` if it never had it.
    #[inline]
    pub fn back(&mut self, address: u64) -> Option<(Frame, usize)> {
        let (number, at) = self.place(address);
        let frame = self.with_kernel.get_mut(number)?.take()?;
        match at {
            Some(at) => Some((frame, at)),
            None => {
                self.spare.push(frame);
                None
            }
        }
    }

    /// The kernel gets a frame; where it is. A frame of another memory is dropped.
    #[inline]
    fn lend(&mut self, frame: Frame) -> Option<u64> {
        let number = frame.number()?;
        let place = self.with_kernel.get_mut(number as usize)?;
        *place = Some(frame);
        Some(u64::from(number) * self.stride)
    }

    /// The kernel gets a frame to be sent, whose bytes begin at `at`: where that is in the memory.
    #[inline]
    pub fn lend_for_sending(&mut self, frame: Frame, at: usize) -> Option<u64> {
        let skip = self.skip;
        self.lend(frame).map(|address| address + (skip + at) as u64)
    }

    /// Takes back what was sent.
    pub fn reap(&mut self) {
        let n = self.completion.available();
        for i in 0..n {
            let address = self.completion.get(i);
            if let Some((frame, _)) = self.back(address) {
                self.spare.push(frame);
            }
        }
        self.completion.release(n);
    }

    /// Frames beyond a few go back to all ports: what comes in at one of them and leaves here would end up here.
    pub fn give_spare(&mut self, umem: &Umem) {
        if self.spare.len() > SPARE {
            umem.pool().give(self.spare.drain(SPARE..));
        }
    }

    /// Fills the fill ring, as far as there are frames; `socket` is one of the queue's.
    pub fn refill(&mut self, umem: &Umem, socket: &Socket) {
        let room = self.fill.room() as usize;
        if room == 0 {
            return;
        }
        if self.spare.len() < room {
            let missing = room - self.spare.len();
            umem.pool().take(missing, &mut self.spare);
        }
        for _ in 0..room {
            let Some(frame) = self.spare.pop() else { break };
            if let Some(address) = self.lend(frame)
                && !self.fill.push(address)
            {
                // there was room
                drop(self.back(address + self.skip as u64));
                break;
            }
        }
        self.fill.submit();
        if self.fill.needs_wakeup() {
            // what stays to be done is done at the next call
            let _ = socket.wake(Wake::Receive);
        }
    }
}
