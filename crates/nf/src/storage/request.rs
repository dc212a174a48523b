//! What is read and written, and where.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Bytes and their file.
///
/// # Safety
/// `bytes` gives the same memory each time, wherever the value is moved to; until the value is dropped, it may be read,
/// and written where files are read into it, and nobody else uses it. The descriptor is open as long.
pub unsafe trait Data: Send + 'static {
    /// The file.
    fn fd(&self) -> RawFd;
    /// Where the bytes are, and how many.
    fn bytes(&mut self) -> (*mut u8, usize);
}

/// Bytes of the heap.
#[derive(Debug)]
pub struct FileBytes<C> {
    /// The file.
    pub file: Arc<File>,
    /// What is written, or read.
    pub bytes: Vec<u8>,
    /// Whatever the caller wants to have back.
    pub context: C,
}

// SAFETY: a vector's memory stays where it is when the vector is moved, and both are the value's own, which nobody else
// has until it is given back.
unsafe impl<C: Send + 'static> Data for FileBytes<C> {
    fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.bytes.as_mut_ptr(), self.bytes.len())
    }
}

/// A request that has been carried out.
#[derive(Debug)]
pub struct Done<R> {
    /// What was to be read or written.
    pub data: R,
    /// Was it to be written?
    pub write: bool,
    /// Where, in the file.
    pub offset: u64,
    /// How many bytes were: all that were to be written; read, as many as the file has.
    pub result: io::Result<usize>,
}

/// A request.
pub struct Request<R> {
    pub data: R,
    pub write: bool,
    pub offset: i64,
    /// Bytes, or a negative error number.
    pub result: i64,
}

impl<R: Data> Request<R> {
    pub fn new(data: R, write: bool, offset: i64) -> Request<R> {
        Request {
            data,
            write,
            offset,
            result: 0,
        }
    }

    pub fn done(self) -> Done<R> {
        Done {
            data: self.data,
            write: self.write,
            offset: self.offset.unsigned_abs(),
            result: super::outcome(self.result),
        }
    }

    /// Carries it out: all of it, up to the end of the file or an error.
    pub fn perform(&mut self) {
        let (bytes, len) = self.data.bytes();
        let mut done = 0;
        // Bound: each round moves on, or ends it, or was interrupted by a signal
        while done < len {
            let (at, left) = (bytes.wrapping_add(done).cast(), len - done);
            let (fd, offset) = (self.data.fd(), self.offset.saturating_add(done as i64));
            // SAFETY: so many bytes are there, for this thread alone (`Data`).
            let n = unsafe {
                match self.write {
                    true => libc::pwrite(fd, at, left, offset),
                    false => libc::pread(fd, at, left, offset),
                }
            };
            match usize::try_from(n) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() == io::ErrorKind::Interrupted {
                        continue;
                    }
                    self.result = -i64::from(error.raw_os_error().unwrap_or(libc::EIO));
                    return;
                }
            }
        }
        self.result = match self.write && done < len {
            // a file that takes nothing more is full
            true => -i64::from(libc::ENOSPC),
            false => done as i64,
        };
    }
}
