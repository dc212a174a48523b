//! Frames: of the pool that all devices share, on their way in and out.
#![allow(unsafe_code)]

use super::{BURST, Device, NO_FRAME, RawFrame, RawLeaving, RawPool, check};
use super::{of_copy_out, of_give, of_give_numbers, of_pool_make, of_receive, of_send, of_take};
use onefold_table::{Frame, FramePool};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering};

/// The frames of all devices: DPDK's mbufs, without what DPDK writes about them. They are there until the process ends.
#[derive(Debug)]
pub struct Pool {
    pub(super) raw: RawPool,
    frames: FramePool,
    /// Frames that somebody has.
    out: AtomicI64,
    mbufs: u32,
}

impl std::fmt::Debug for RawPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawPool")
            .field("numbers", &self.numbers)
            .finish()
    }
}

// SAFETY: DPDK's pool is made for many threads; the rest does not change
unsafe impl Send for Pool {}
// SAFETY: as above
unsafe impl Sync for Pool {}

/// A packet that has arrived.
#[derive(Debug)]
pub enum Received {
    /// In a frame of the pool, and where it lies there.
    Plain(Frame, Range<usize>),
    /// In several pieces, or elsewhere.
    Other(Pieces),
}

/// A packet that has to be copied.
#[derive(Debug)]
pub struct Pieces {
    mbuf: *mut u8,
    len: u32,
}

impl Pieces {
    /// Copies it to the beginning of `to`; it is DPDK's again.
    pub fn copy(self, to: &mut Vec<u8>) {
        to.resize(self.len as usize, 0);
        // SAFETY: an mbuf that nobody else has, and so many bytes to be written
        let n = unsafe { of_copy_out(self.mbuf, to.as_mut_ptr(), self.len) };
        to.truncate(n as usize);
        std::mem::forget(self);
    }
}

// SAFETY: it owns what it leads to
unsafe impl Send for Pieces {}

impl Drop for Pieces {
    fn drop(&mut self) {
        // SAFETY: an mbuf that nobody else has; nothing is written
        unsafe { of_copy_out(self.mbuf, std::ptr::null_mut(), 0) };
    }
}

impl Pool {
    /// So many frames with this much room for a packet (a multiple of a cache line), near to a device.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn make(mbufs: u32, room: u16, socket: i32) -> io::Result<Pool> {
        let cache = 512.min(mbufs / 2);
        let mut raw = RawPool {
            mempool: std::ptr::null_mut(),
            mbufs: std::ptr::null_mut(),
            base: 0,
            numbers: 0,
            stride: 0,
            inverse: 0,
            lines: 0,
        };
        // SAFETY: a structure as the shim has it
        check(unsafe { of_pool_make(mbufs, room, cache, socket, &mut raw) })?;
        Ok(Pool {
            frames: FramePool::foreign(raw.numbers as usize),
            raw,
            out: AtomicI64::new(0),
            mbufs,
        })
    }

    /// How many frames there are.
    pub fn frames(&self) -> u32 {
        self.mbufs
    }

    /// Frames that packets have at present.
    pub fn out(&self) -> i64 {
        self.out.load(Ordering::Relaxed)
    }

    /// Is it a frame of this pool?
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.frames.owns(frame)
    }

    /// Bytes of a frame.
    pub fn frame_len(&self) -> usize {
        self.raw.lines as usize * 64
    }

    /// What DPDK has given out.
    #[inline(always)]
    fn adopt(&self, f: &RawFrame) -> Option<Frame> {
        let at = NonNull::new(f.at)?;
        // SAFETY: the shim has made the number of the place; a frame of an mbuf that a burst or an allocation has given
        // out is nobody else's, is aligned to a line as the pool's objects are, and so many lines long; the pool is
        // never freed
        Some(unsafe { self.frames.adopt(at, self.raw.lines, f.number) })
    }

    /// Takes up to `n` packets of a device's queue; `burst` is scratch.
    #[inline]
    pub fn receive<'a>(
        &'a self,
        device: &Device,
        queue: u16,
        n: usize,
        burst: &'a mut Burst,
    ) -> Arrived<'a> {
        let n = n.min(BURST) as u16;
        // SAFETY: a queue of a device that was set up (its setup comes before its queues), and so many places
        let n = unsafe { of_receive(&self.raw, device.port, queue, burst.0.as_mut_ptr(), n) };
        if n > 0 {
            self.out.fetch_add(i64::from(n), Ordering::Relaxed);
        }
        Arrived {
            pool: self,
            frames: burst.0.get(..usize::from(n)).unwrap_or_default().iter(),
        }
    }

    /// Adds up to `n` frames to `to`, all or none.
    pub fn take(&self, n: usize, to: &mut Vec<Frame>) {
        let mut raw = [NO_FRAME; BURST];
        let n = n.min(BURST) as u16;
        // SAFETY: so many places
        let n = unsafe { of_take(&self.raw, raw.as_mut_ptr(), n) };
        to.extend(
            raw.iter()
                .take(usize::from(n))
                .filter_map(|f| self.adopt(f)),
        );
        self.out.fetch_add(i64::from(n), Ordering::Relaxed);
    }

    /// Frames that were dropped go back. `numbers` is scratch.
    #[inline]
    pub fn collect(&self, numbers: &mut Vec<u32>) {
        numbers.clear();
        self.frames.returned(numbers);
        if numbers.is_empty() {
            return;
        }
        // SAFETY: numbers of frames that nobody has any more; each comes back once
        unsafe { of_give_numbers(&self.raw, numbers.as_ptr(), numbers.len() as u32) };
        self.out.fetch_sub(numbers.len() as i64, Ordering::Relaxed);
    }
}

/// Places for a burst.
#[derive(Debug)]
pub struct Burst(Box<[RawFrame]>);

impl Default for Burst {
    fn default() -> Self {
        Burst(vec![NO_FRAME; BURST].into())
    }
}

// SAFETY: places that mean nothing but while a burst is taken out of them
unsafe impl Send for Burst {}

/// Packets of a burst; those that are not taken out go back.
#[derive(Debug)]
pub struct Arrived<'a> {
    pool: &'a Pool,
    frames: std::slice::Iter<'a, RawFrame>,
}

impl Iterator for Arrived<'_> {
    type Item = Received;
    #[inline(always)]
    fn next(&mut self) -> Option<Received> {
        let f = self.frames.next()?;
        if f.plain != 0
            && let Some(frame) = self.pool.adopt(f)
        {
            let from = usize::from(f.offset);
            return Some(Received::Plain(frame, from..from + f.length as usize));
        }
        // not a frame of ours
        self.pool.out.fetch_sub(1, Ordering::Relaxed);
        Some(Received::Other(Pieces {
            mbuf: f.at,
            len: f.length,
        }))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.frames.size_hint()
    }
}

impl ExactSizeIterator for Arrived<'_> {}

impl Drop for Arrived<'_> {
    #[inline]
    fn drop(&mut self) {
        for r in self.by_ref() {
            drop(r);
        }
    }
}

/// Frames that leave, in order, as far as the device has not taken them.
#[derive(Debug)]
pub struct Leaving {
    pool: std::sync::Arc<Pool>,
    /// Those before `from` are the device's.
    frames: Vec<RawLeaving>,
    from: usize,
}

// SAFETY: it owns the frames that it leads to
unsafe impl Send for Leaving {}

impl Leaving {
    /// None, of this pool.
    pub fn new(pool: std::sync::Arc<Pool>, capacity: usize) -> Leaving {
        Leaving {
            pool,
            frames: Vec::with_capacity(capacity),
            from: 0,
        }
    }

    /// Those that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len() - self.from
    }

    /// One more: `len` bytes of a frame of the pool, which begin at `at`. False: it is none, or not so long.
    #[inline]
    pub fn push(&mut self, frame: Frame, at: usize, len: usize) -> bool {
        if frame.len() < at.saturating_add(len) {
            return false;
        }
        let Some(place) = self.pool.frames.disown(frame) else {
            return false;
        };
        self.frames.push(RawLeaving {
            at: place,
            length: len as u32,
            offset: at as u32,
        });
        true
    }

    /// Hands them to a device's queue, as far as that takes them. How many it took.
    #[inline]
    pub fn send(&mut self, device: &Device, queue: u16) -> usize {
        let before = self.from;
        // Bound: each round but the last one has sent a whole burst
        while let Some(next) = self.frames.get(self.from..).filter(|n| !n.is_empty()) {
            let n = next.len().min(BURST) as u16;
            // SAFETY: a queue of a device that was set up; frames of the pool that nobody else has, each once
            let sent = unsafe { of_send(device.port, queue, next.as_ptr(), n) };
            self.from += usize::from(sent);
            if sent < n {
                break;
            }
        }
        let sent = self.from - before;
        self.pool.out.fetch_sub(sent as i64, Ordering::Relaxed);
        if self.from == self.frames.len() {
            self.frames.clear();
            self.from = 0;
        } else if self.from > BURST {
            self.frames.drain(..self.from);
            self.from = 0;
        }
        sent
    }

    /// They do not leave: their frames go back. How many there were.
    pub fn clear(&mut self) -> usize {
        let n = self.len();
        let all: Vec<*mut u8> = self
            .frames
            .drain(..)
            .skip(self.from)
            .map(|l| l.at.as_ptr())
            .collect();
        self.from = 0;
        // SAFETY: frames of the pool that nobody else has, each once
        unsafe { of_give(&self.pool.raw, all.as_ptr(), all.len() as u32) };
        self.pool.out.fetch_sub(n as i64, Ordering::Relaxed);
        n
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.clear();
    }
}
