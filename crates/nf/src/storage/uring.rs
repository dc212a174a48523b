//! Buffers carried out by the kernel's rings (io_uring, Linux 5.11 and later).
//!
//! A buffer is one call: what can be done at once (bytes to the page cache) is done in it, by the function's own
//! thread; what would have to wait goes on in the kernel. Writes that follow one another in a file are one operation.
#![allow(unsafe_code)]

use super::request::{Data, Request};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Most pieces of an operation (the kernel's UIO_MAXIOV), and most bytes (less than its MAX_RW_COUNT).
const MOST_PIECES: usize = 1024;
const MOST_BYTES: usize = 1 << 30;

/// An operation: requests that follow one another, of which so many bytes are done.
#[derive(Debug, Clone, Copy)]
struct Run {
    fd: RawFd,
    write: bool,
    /// Where the file goes on, and which requests.
    offset: i64,
    first: usize,
    n: usize,
    /// Bytes that are not done yet.
    left: usize,
}

/// See the module's text.
pub struct Uring<R> {
    ring: Option<IoUring>,
    under_way: Vec<Request<R>>,
    runs: Vec<Run>,
    /// By request: what is not done yet of it. The kernel reads them: they are neither moved nor changed while an
    /// operation has them.
    pieces: Vec<libc::iovec>,
    /// Operations that the kernel has, or is about to be given.
    pending: usize,
}

// SAFETY: the pieces lead to the requests' bytes, which are `Send`.
unsafe impl<R: Send> Send for Uring<R> {}

impl<R: Data> Uring<R> {
    /// For buffers of so many requests.
    ///
    /// # Errors
    /// It is not permitted here, or the kernel is older.
    pub fn new(batch: usize) -> io::Result<Uring<R>> {
        let ring = IoUring::new(batch.next_power_of_two() as u32)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Uring {
            ring: Some(ring),
            under_way: Vec::new(),
            runs: Vec::new(),
            pieces: Vec::new(),
            pending: 0,
        })
    }

    /// Begins with a buffer; there is no other one under way.
    pub fn begin(&mut self, all: Vec<Request<R>>) {
        self.under_way = all;
        self.runs.clear();
        self.pieces.clear();
        for i in 0..self.under_way.len() {
            let r = &mut self.under_way[i];
            let (fd, (base, len)) = (r.data.fd(), r.data.bytes());
            self.pieces.push(libc::iovec {
                iov_base: base.cast(),
                iov_len: len,
            });
            let (write, offset) = (r.write, r.offset);
            if len == 0 {
                continue;
            }
            match self.runs.last_mut() {
                Some(run) if follows(run, (fd, write), offset, (i, len)) => {
                    (run.n, run.left) = (run.n + 1, run.left + len);
                }
                _ => self.runs.push(Run {
                    fd,
                    write,
                    offset,
                    first: i,
                    n: 1,
                    left: len,
                }),
            }
        }
        for run in 0..self.runs.len() {
            self.queue(run);
        }
        self.submit();
    }

    /// The buffer, if all of it is done.
    pub fn poll(&mut self) -> Option<Vec<Request<R>>> {
        self.reap();
        if self.pending > 0 {
            return None;
        }
        Some(std::mem::take(&mut self.under_way))
    }

    /// The buffer, when all of it is done; waits for so long.
    pub fn wait(&mut self, most: Duration) -> Option<Vec<Request<R>>> {
        let begun = Instant::now();
        loop {
            if let Some(all) = self.poll() {
                return Some(all);
            }
            let left = most.checked_sub(begun.elapsed())?;
            let time = Timespec::from(left);
            let args = SubmitArgs::new().timespec(&time);
            let waited = self
                .ring
                .as_ref()
                .map(|r| r.submitter().submit_with_args(1, &args));
            let patient = |e: &io::Error| {
                e.kind() == io::ErrorKind::Interrupted || e.raw_os_error() == Some(libc::ETIME)
            };
            if let Some(Err(e)) = waited
                && !patient(&e)
            {
                // it has no memory at this moment
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Hands an operation to the kernel with the next call.
    fn queue(&mut self, number: usize) {
        let Some(run) = self.runs.get(number).copied() else {
            return;
        };
        let (Some(piece), Some(ring)) = (self.pieces.get(run.first), &mut self.ring) else {
            return;
        };
        let operation: squeue::Entry = match run.write {
            true => opcode::Writev::new(Fd(run.fd), piece, run.n as u32)
                .offset(run.offset as u64)
                .build(),
            // one request each
            false => opcode::Read::new(Fd(run.fd), piece.iov_base.cast(), piece.iov_len as u32)
                .offset(run.offset as u64)
                .build(),
        };
        let operation = operation.user_data(number as u64);
        // SAFETY: pieces and bytes are there, and are not touched, until the operation is done: they are this value's,
        // which does not free them before (`drop`).
        let pushed = unsafe { ring.submission().push(&operation) };
        match pushed {
            Ok(()) => self.pending += 1,
            // a request is in one operation at a time, and there are as many places as requests
            Err(_) => self.settle(number, -libc::EIO),
        }
    }

    /// Gives the kernel what is queued. What it does not take at this moment is offered again by the next look.
    fn submit(&mut self) {
        if let Some(ring) = &mut self.ring
            && !ring.submission().is_empty()
        {
            let _ = ring.submit();
        }
    }

    /// Looks at what the kernel has done, and goes on with what is left of it.
    fn reap(&mut self) {
        // Bound: each operation done is one request less, or moves on within one
        loop {
            let Some(ring) = &mut self.ring else { return };
            let Some(done) = ring.completion().next() else {
                break;
            };
            self.pending = self.pending.saturating_sub(1);
            self.settle(done.user_data() as usize, done.result());
        }
        self.submit();
    }

    /// An operation has come back: bytes, or a negative error number.
    fn settle(&mut self, number: usize, result: i32) {
        let Some(run) = self.runs.get(number).copied() else {
            return;
        };
        match usize::try_from(result) {
            Err(_) if [-libc::EINTR, -libc::EAGAIN].contains(&result) => self.queue(number),
            Err(_) => self.fail(run, i64::from(result)),
            // the end of a file that is read; a file that takes nothing more is full
            Ok(0) if run.write => self.fail(run, -i64::from(libc::ENOSPC)),
            Ok(0) => {}
            Ok(bytes) => self.advance(number, run, bytes),
        }
    }

    /// So many bytes of it are done.
    fn advance(&mut self, number: usize, mut run: Run, bytes: usize) {
        let mut bytes = bytes.min(run.left);
        run.left -= bytes;
        run.offset = run.offset.saturating_add(bytes as i64);
        while run.n > 0 {
            let (Some(piece), Some(r)) = (
                self.pieces.get_mut(run.first),
                self.under_way.get_mut(run.first),
            ) else {
                return;
            };
            let now = piece.iov_len.min(bytes);
            bytes -= now;
            r.result += now as i64;
            piece.iov_len -= now;
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(now).cast();
            if piece.iov_len > 0 {
                break;
            }
            (run.first, run.n) = (run.first + 1, run.n - 1);
        }
        if let Some(place) = self.runs.get_mut(number) {
            *place = run;
        }
        if run.left > 0 {
            self.queue(number);
        }
    }

    /// The first request of it that is not done has failed; those behind it are tried one by one.
    fn fail(&mut self, run: Run, error: i64) {
        let mut offset = run.offset;
        for i in run.first..run.first + run.n {
            let (Some(piece), Some(r)) = (self.pieces.get(i), self.under_way.get_mut(i)) else {
                return;
            };
            let len = piece.iov_len;
            if i == run.first {
                r.result = error;
            } else if len > 0 {
                let number = self.runs.len();
                self.runs.push(Run {
                    offset,
                    first: i,
                    n: 1,
                    left: len,
                    ..run
                });
                self.queue(number);
            }
            offset = offset.saturating_add(len as i64);
        }
    }
}

/// Does a request follow what an operation has?
fn follows(run: &Run, of: (RawFd, bool), offset: i64, (i, len): (usize, usize)) -> bool {
    run.write
        && of == (run.fd, true)
        // empty requests between them are none of it
        && i == run.first + run.n
        && run.n < MOST_PIECES
        && run.left + len <= MOST_BYTES
        && i64::try_from(run.left).ok().and_then(|n| run.offset.checked_add(n)) == Some(offset)
}

impl<R> Drop for Uring<R> {
    fn drop(&mut self) {
        if self.pending > 0 {
            // it has been waited for long enough, and the kernel may still write there
            std::mem::forget(std::mem::take(&mut self.under_way));
            std::mem::forget(std::mem::take(&mut self.pieces));
            std::mem::forget(self.ring.take());
        }
    }
}
