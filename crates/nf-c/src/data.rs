//! Storage without waiting for it: reads and writes are collected in one buffer while a thread carries out those of
//! another one, as in NFVnice's `libnf` (SIGCOMM 2017, section 3.5). When both are full, who wants more is told so, and
//! gives the processor up.

use onefold_nf::native::OwnBell;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests of a buffer, where nothing else is said; most of them.
pub const BATCH: usize = 32;
pub const MOST: usize = 4096;
/// A buffer that is not full is carried out after this time, where nothing else is said.
pub const FLUSH: Duration = Duration::from_millis(1);

/// `onefold_nf_data_callback`.
pub type Callback = unsafe extern "C" fn(*mut crate::Nf, c_int, *mut c_void, i64, *mut c_void);

/// Something to be read or written.
pub struct Request {
    pub write: bool,
    pub fd: RawFd,
    pub buffer: *mut u8,
    pub len: usize,
    pub offset: i64,
    pub callback: Option<Callback>,
    pub context: *mut c_void,
    /// Bytes, or a negative error number.
    pub result: i64,
}

// SAFETY: the buffer is the library's until the callback, and nobody else touches it meanwhile (the caller's part); the
// context is handed back only.
unsafe impl Send for Request {}

impl Request {
    /// Carries it out: all of it, up to the end of the file or an error.
    fn perform(&mut self) {
        let mut done = 0;
        // Bound: each round moves on, or ends it
        while done < self.len {
            let at = self.buffer.wrapping_add(done).cast();
            let (left, offset) = (self.len - done, self.offset.saturating_add(done as i64));
            // SAFETY: so many bytes are there, for this thread alone (the caller's part).
            let n = unsafe {
                match self.write {
                    true => libc::pwrite(self.fd, at, left, offset),
                    false => libc::pread(self.fd, at, left, offset),
                }
            };
            match usize::try_from(n) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() == std::io::ErrorKind::Interrupted {
                        continue;
                    }
                    self.result = -i64::from(error.raw_os_error().unwrap_or(libc::EIO));
                    return;
                }
            }
        }
        self.result = done as i64;
    }
}

/// Both buffers, and the thread.
pub struct Storage {
    filling: Vec<Request>,
    batch: usize,
    flush: Duration,
    /// The oldest request of the buffer that is being filled came then.
    since: Option<Instant>,
    /// The thread has a buffer.
    busy: bool,
    to: Option<SyncSender<Vec<Request>>>,
    done: Receiver<Vec<Request>>,
    /// Buffers that the thread has done.
    ready: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Storage {
    /// With so many requests in a buffer. `bell` wakes the program.
    pub fn new(batch: usize, flush: Duration, bell: OwnBell) -> Storage {
        let (to, requests) = sync_channel::<Vec<Request>>(1);
        let (tell, done) = sync_channel(1);
        let ready = Arc::new(AtomicUsize::new(0));
        let counted = ready.clone();
        let thread = std::thread::spawn(move || {
            for mut all in requests {
                all.iter_mut().for_each(Request::perform);
                if tell.send(all).is_err() {
                    break;
                }
                counted.fetch_add(1, Ordering::Release);
                bell.ring();
            }
        });
        Storage {
            filling: Vec::new(),
            batch: batch.clamp(1, MOST),
            flush,
            since: None,
            busy: false,
            to: Some(to),
            done,
            ready,
            thread: Some(thread),
        }
    }

    /// One more. False: both buffers are full.
    pub fn queue(&mut self, request: Request) -> bool {
        if self.filling.len() >= self.batch {
            self.hand_over();
        }
        if self.filling.len() >= self.batch {
            return false;
        }
        self.since.get_or_insert_with(Instant::now);
        self.filling.push(request);
        if self.filling.len() >= self.batch {
            self.hand_over();
        }
        true
    }

    /// The thread gets the buffer that was filled, if it has none.
    fn hand_over(&mut self) {
        if self.busy || self.filling.is_empty() {
            return;
        }
        if let Some(to) = &self.to {
            let all = std::mem::take(&mut self.filling);
            self.since = None;
            self.busy = to.send(all).is_ok();
        }
    }

    /// Does the thread have something to give back?
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) > 0
    }

    /// Requests that are under way.
    pub fn is_idle(&self) -> bool {
        !self.busy && self.filling.is_empty()
    }

    /// Requests that have been carried out; what waits long enough is handed over.
    pub fn completed(&mut self) -> Vec<Request> {
        let all = self.done.try_recv().ok();
        if all.is_some() {
            self.ready.fetch_sub(1, Ordering::AcqRel);
            self.busy = false;
        }
        let waits = self.since.is_some_and(|s| s.elapsed() >= self.flush);
        if waits || self.filling.len() >= self.batch {
            self.hand_over();
        }
        all.unwrap_or_default()
    }

    /// How long the program may sleep until a buffer is to be handed over.
    pub fn patience(&self, most: Duration) -> Duration {
        match self.since {
            // the thread's end is a wake-up
            Some(_) if self.busy => most,
            Some(since) => most.min(self.flush.saturating_sub(since.elapsed())),
            None => most,
        }
    }

    /// The next buffer's requests, waited for; `None`: nothing is under way.
    pub fn wait(&mut self) -> Option<Vec<Request>> {
        self.hand_over();
        if !self.busy {
            return None;
        }
        let all = self.done.recv().ok()?;
        self.ready.fetch_sub(1, Ordering::AcqRel);
        self.busy = false;
        Some(all)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.to = None;
        // one that is in the middle of something ends first
        while self.done.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Storage({} waiting, busy: {})",
            self.filling.len(),
            self.busy
        )
    }
}
