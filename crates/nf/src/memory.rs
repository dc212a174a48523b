//! Memory that processes share, or of the heap, where tests need no other.
//!
//! A shared one is a memfd whose size is sealed: a peer that could shrink it would end everybody who touches what is
//! gone. What is in it may change at any time, so that nothing but atomic words is read from it by reference
//! ([`Shared`]); packets' bytes are handed out as pointers.
#![allow(unsafe_code)]

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What memories begin at, and a multiple of which they are long.
pub const PAGE: usize = 4096;
/// Bytes of a huge page, where they are asked for.
const HUGE_PAGE: usize = 2 << 20;

/// Types that may lie in memory which others write at the same time.
///
/// # Safety
/// They are atomic words and nothing else (padding aside), and any bytes are one of them.
pub unsafe trait Shared {}

// SAFETY: an atomic word.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic word.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as its elements are.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

#[derive(Debug, Clone, Copy)]
enum Backing {
    Mapped,
    Heap,
}

/// So many bytes, zero in the beginning, from a page's boundary on.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
}

// SAFETY: it owns the memory, which is reached through atomic words and raw pointers only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Of the heap; `None`: a length of zero, or one that is too long.
    pub fn heap(len: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(len, PAGE).ok()?;
        if len == 0 {
            return None;
        }
        // SAFETY: not of length zero.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else {
            handle_alloc_error(layout)
        };
        Some(Memory {
            base,
            len,
            backing: Backing::Heap,
        })
    }

    /// A memory that others attach to by the descriptor: no name, its size sealed. `huge`: on huge pages, if there are
    /// any to be had.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(len: usize, huge: bool) -> io::Result<(Memory, OwnedFd)> {
        if huge {
            let long = len.next_multiple_of(HUGE_PAGE);
            if let Ok(made) = Memory::create_as(long, MFdFlags::MFD_HUGETLB) {
                return Ok(made);
            }
        }
        Memory::create_as(len, MFdFlags::empty())
    }

    fn create_as(len: usize, how: MFdFlags) -> io::Result<(Memory, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | how;
        let fd = memfd_create("onefold-nf", flags)?;
        let long = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        nix::unistd::ftruncate(&fd, long)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals))?;
        let memory = Memory::map(fd.as_fd(), len)?;
        Ok((memory, fd))
    }

    /// The first `len` bytes of a memory that somebody else has made.
    ///
    /// # Errors
    /// It is shorter, or could become so; or what the system says.
    pub fn attach(fd: BorrowedFd<'_>, len: usize) -> io::Result<Memory> {
        let bits = fcntl(fd, FcntlArg::F_GET_SEALS)?;
        let seals = SealFlag::from_bits_truncate(bits);
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            let why = "the shared memory's size is not sealed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let size = nix::sys::stat::fstat(fd)?.st_size;
        if usize::try_from(size).unwrap_or(0) < len {
            let why = format!("the shared memory has {size} bytes, and {len} are expected");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Memory::map(fd, len)
    }

    fn map(fd: BorrowedFd<'_>, len: usize) -> io::Result<Memory> {
        let long = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, where the system has room; it is there until this is dropped, and as long as it is
        // its pages are, as the size is sealed.
        let base = unsafe { mmap(None, long, access, MapFlags::MAP_SHARED, fd, 0) }?;
        Ok(Memory {
            base: base.cast(),
            len,
            backing: Backing::Mapped,
        })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are always some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What lies at `offset`; `None`: not all of it does, or not where it may begin.
    pub fn at<T: Shared>(&self, offset: usize) -> Option<&T> {
        self.slice(offset, 1)?.first()
    }

    /// So many of them, one behind the other.
    pub fn slice<T: Shared>(&self, offset: usize, n: usize) -> Option<&[T]> {
        let bytes = size_of::<T>().checked_mul(n)?;
        let at = self.bytes(offset, bytes)?.cast::<T>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: so many bytes are there, for as long as this is, and it may begin there; any bytes are a `T`, which
        // consists of atomic words.
        Some(unsafe { std::slice::from_raw_parts(at.as_ptr(), n) })
    }

    /// Where so many bytes are; `None`: there are not.
    pub fn bytes(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: within the memory, or at its end.
        Some(unsafe { self.base.add(offset) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.backing {
            Backing::Heap => {
                if let Ok(layout) = Layout::from_size_align(self.len, PAGE) {
                    // SAFETY: made by `heap` with this layout, and nobody has a reference to it any more.
                    unsafe { dealloc(self.base.as_ptr(), layout) }
                }
            }
            Backing::Mapped => {
                // SAFETY: mapped by `map` with this length, and nobody has a reference to it any more.
                let _ = unsafe { munmap(self.base.cast(), self.len) };
            }
        }
    }
}
