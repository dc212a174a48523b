//! The rings between this process and the kernel: one side writes, the other reads, and each says how far it is.
#![allow(unsafe_code)]

use crate::socket::Socket;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What lies in rings: numbers, so that any bytes are one.
pub trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// A mapping of one ring.
#[derive(Debug)]
struct Ring<T> {
    memory: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// Places less one; they are a power of two.
    mask: u32,
}

// SAFETY: the mapping belongs to the ring alone, and is reached through it only; the kernel's side of it does not
// depend on the thread
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps the ring of so many places that the socket was asked to make.
    fn map(
        socket: &Socket,
        offsets: &libc::xdp_ring_offset,
        page: libc::off_t,
        places: u32,
    ) -> io::Result<Ring<T>> {
        let bytes = offsets.desc as usize + places as usize * size_of::<T>();
        let how = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of the size that the kernel has agreed to; nothing is mapped over
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, how, socket.raw(), page)
        };
        let memory = match memory {
            libc::MAP_FAILED => None,
            m => NonNull::new(m.cast::<u8>()),
        };
        let memory = memory.ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel says where in the mapping its parts are
        let at = |offset: u64| unsafe { memory.byte_add(offset as usize) };
        Ok(Ring {
            memory,
            bytes,
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            entries: at(offsets.desc).cast(),
            mask: places - 1,
        })
    }

    fn word(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: a word of the mapping, aligned, accessed as an atomic only, by us and by the kernel
        unsafe { which.as_ref() }
    }

    fn entry(&self, i: u32) -> NonNull<T> {
        // SAFETY: a place of the ring: there are `mask` + 1
        unsafe { self.entries.add((i & self.mask) as usize) }
    }

    fn places(&self) -> u32 {
        self.mask + 1
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is the ring's own, and nothing that refers to it outlives the ring
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// A ring that this process writes to: fill, transmit.
#[derive(Debug)]
pub struct Producer<T: Entry> {
    ring: Ring<T>,
    /// Written so far, and told of.
    written: u32,
    told: u32,
    /// The kernel has read so far, at least.
    read: u32,
}

impl<T: Entry> Producer<T> {
    /// See [`Socket::make_ring`].
    ///
    /// # Errors
    /// What the system says.
    pub fn map(
        socket: &Socket,
        offsets: &libc::xdp_ring_offset,
        page: libc::off_t,
        places: u32,
    ) -> io::Result<Producer<T>> {
        let ring = Ring::map(socket, offsets, page, places)?;
        let written = ring.word(ring.producer).load(Ordering::Relaxed);
        Ok(Producer {
            ring,
            written,
            told: written,
            read: written,
        })
    }

    /// Entries that the kernel has not read yet.
    pub fn pending(&mut self) -> u32 {
        self.read = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        self.written.wrapping_sub(self.read)
    }

    /// Is there room for one more? The kernel's side is looked at only where it was full before.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.written.wrapping_sub(self.read) < self.ring.places() || self.room() > 0
    }

    /// Places for so many more.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.places() - self.pending()
    }

    /// Writes one more entry; the kernel sees it after [`Producer::submit`]. False: there is no room.
    #[inline]
    pub fn push(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the kernel has read what was in this place, and looks at it again only when it is told
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Tells the kernel of what was written.
    #[inline]
    pub fn submit(&mut self) {
        if self.told != self.written {
            self.ring
                .word(self.ring.producer)
                .store(self.written, Ordering::Release);
            self.told = self.written;
        }
    }

    /// Does the kernel have to be woken to see it?
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        let flags = self.ring.word(self.ring.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel writes to: receive, completion.
#[derive(Debug)]
pub struct Consumer<T: Entry> {
    ring: Ring<T>,
    /// Read so far.
    read: u32,
}

impl<T: Entry> Consumer<T> {
    /// As [`Producer::map`].
    ///
    /// # Errors
    /// What the system says.
    pub fn map(
        socket: &Socket,
        offsets: &libc::xdp_ring_offset,
        page: libc::off_t,
        places: u32,
    ) -> io::Result<Consumer<T>> {
        let ring = Ring::map(socket, offsets, page, places)?;
        let read = ring.word(ring.consumer).load(Ordering::Relaxed);
        Ok(Consumer { ring, read })
    }

    /// How many entries there are to be read; never more than there are places, whatever the kernel says.
    #[inline]
    pub fn available(&self) -> u32 {
        let written = self.ring.word(self.ring.producer).load(Ordering::Acquire);
        written.wrapping_sub(self.read).min(self.ring.places())
    }

    /// The `i`th of those that are available.
    #[inline]
    pub fn get(&self, i: u32) -> T {
        // SAFETY: a place of the ring; entries are numbers. The kernel writes there again only after `release`
        unsafe { self.ring.entry(self.read.wrapping_add(i)).read() }
    }

    /// The first `n` were read.
    #[inline]
    pub fn release(&mut self, n: u32) {
        if n > 0 {
            self.read = self.read.wrapping_add(n);
            self.ring
                .word(self.ring.consumer)
                .store(self.read, Ordering::Release);
        }
    }
}
