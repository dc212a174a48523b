//! Files without waiting for them, for functions that log or look up while packets go on: as in NFVnice's `libnf`
//! (Kulkarni et al., SIGCOMM 2017, section 3.5).
//!
//! Requests are collected in one buffer while those of another one are carried out, by the kernel's rings (io_uring),
//! or by a thread where these are not permitted. When both buffers are full, the function gives the processor up
//! ([`Native::yield_to_storage`](crate::native::Native::yield_to_storage)). What has been carried out is handed back in
//! the function's own thread, when it asks for it: between two batches of packets.
//!
//! Requests of one buffer may be carried out in any order, and buffers one after the other: a request that depends on
//! another one is to be made when that one has come back. Writes that follow one another in a file go together.
//! Bound: two buffers of [`Settings::batch`] requests, and [`MOST_DONE`] that nobody has asked for.
//!
//! ```
//! use onefold_nf::storage::{FileBytes, Settings, Storage};
//! use std::sync::Arc;
//!
//! let path = std::env::temp_dir().join(format!("onefold-storage-{}", std::process::id()));
//! let file = Arc::new(std::fs::File::create(&path)?);
//! let mut storage = Storage::new(Settings::default(), None);
//! for i in 0..100u64 {
//!     let record = FileBytes { file: file.clone(), bytes: format!("{i:8}\n").into_bytes(), context: i };
//!     if storage.is_full() {
//!         storage.wait_for_room();
//!     }
//!     storage.write(record, i * 9)?;
//! }
//! storage.finish();
//! let mut done = Vec::new();
//! storage.take_done(&mut done);
//! assert!(done.iter().zip(0..).all(|(d, i)| d.data.context == i && d.result.as_ref().is_ok_and(|n| *n == 9)));
//! assert_eq!(std::fs::metadata(&path)?.len(), 900);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod request;
mod thread;
mod uring;

pub use request::{Data, Done, FileBytes};

use crate::native::OwnBell;
use request::Request;
use std::io;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Most requests of a buffer.
pub const MOST: usize = 4096;
/// Most requests that have been carried out and not been asked for.
pub const MOST_DONE: usize = 1 << 16;
/// Where nobody tells that something has been carried out, it is looked for so often.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// What is under way when nobody wants it any more is waited for as long as this; then its memory is never freed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How requests are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests of each of both buffers, 1 to [`MOST`].
    pub batch: usize,
    /// A buffer that is not full is carried out after this time.
    pub flush: Duration,
    /// By a thread, whatever the kernel permits.
    pub by_thread: bool,
}

impl Default for Settings {
    /// 32 requests, a millisecond.
    fn default() -> Self {
        Settings {
            batch: 32,
            flush: Duration::from_millis(1),
            by_thread: false,
        }
    }
}

/// Why something is not under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Both buffers are full ([`Storage::is_full`]).
    #[error("both buffers of requests are full")]
    Full,
    /// So many wait to be asked for that no more are taken ([`MOST_DONE`]).
    #[error("{MOST_DONE} requests have been carried out, and nobody has asked for them")]
    Unasked,
    /// An offset that no file has.
    #[error("{0} is beyond the end of every file")]
    Offset(u64),
}

/// Who carries a buffer out.
enum Engine<R> {
    Uring(Box<uring::Uring<R>>),
    Thread(thread::Worker<R>),
}

/// Both buffers; see the module's text.
pub struct Storage<R: Data> {
    filling: Vec<Request<R>>,
    /// The oldest request of the buffer that is being filled came then.
    since: Option<Instant>,
    /// The engine has a buffer.
    busy: bool,
    engine: Engine<R>,
    /// Why it is not the kernel's rings.
    why: Option<String>,
    /// Carried out, in the order of the requests.
    done: Vec<Done<R>>,
    /// A buffer's memory, to be used again.
    spare: Vec<Request<R>>,
    settings: Settings,
}

impl<R: Data> Storage<R> {
    /// With the kernel's rings, or a thread where they are not permitted, which is said on the standard error, once.
    /// `bell`: wakes who waits for packets when the thread has carried a buffer out.
    pub fn new(settings: Settings, bell: Option<OwnBell>) -> Storage<R> {
        let batch = settings.batch.clamp(1, MOST);
        let settings = Settings { batch, ..settings };
        let ring = match settings.by_thread {
            true => Err("a thread was asked for".to_string()),
            false => uring::Uring::new(batch).map_err(|e| e.to_string()),
        };
        let (engine, why) = match ring {
            Ok(ring) => (Engine::Uring(Box::new(ring)), None),
            Err(why) => (Engine::Thread(thread::Worker::new(bell)), Some(why)),
        };
        if let Some(why) = why.as_ref().filter(|_| !settings.by_thread) {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                eprintln!("onefold-nf: files are read and written by a thread: io_uring: {why}");
            });
        }
        Storage {
            filling: Vec::with_capacity(batch),
            since: None,
            busy: false,
            engine,
            why,
            done: Vec::new(),
            spare: Vec::with_capacity(batch),
            settings,
        }
    }

    /// `io_uring`, or `thread`.
    pub fn engine(&self) -> &'static str {
        match self.engine {
            Engine::Uring(_) => "io_uring",
            Engine::Thread(_) => "thread",
        }
    }

    /// Why it is not `io_uring`.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// All bytes are to be written to the file, from this offset on.
    ///
    /// # Errors
    /// Both buffers are full; what was to be written is dropped.
    pub fn write(&mut self, data: R, offset: u64) -> Result<(), StorageError> {
        self.push(data, true, offset)
    }

    /// The bytes are to be read from the file, from this offset on, as far as it goes.
    ///
    /// # Errors
    /// As [`Storage::write`].
    pub fn read(&mut self, data: R, offset: u64) -> Result<(), StorageError> {
        self.push(data, false, offset)
    }

    fn push(&mut self, data: R, write: bool, offset: u64) -> Result<(), StorageError> {
        let at = i64::try_from(offset).map_err(|_| StorageError::Offset(offset))?;
        if self.is_full() {
            return Err(StorageError::Full);
        }
        if self.done.len() >= MOST_DONE {
            return Err(StorageError::Unasked);
        }
        self.since.get_or_insert_with(Instant::now);
        self.filling.push(Request::new(data, write, at));
        if self.filling.len() >= self.settings.batch {
            self.hand_over();
        }
        Ok(())
    }

    /// Are both buffers full? What has been carried out meanwhile makes room.
    pub fn is_full(&mut self) -> bool {
        if self.filling.len() >= self.settings.batch {
            self.collect();
        }
        self.filling.len() >= self.settings.batch
    }

    /// How many more requests are taken at this moment.
    pub fn room(&mut self) -> usize {
        self.collect();
        let batch = self.settings.batch;
        let other = if self.busy { 0 } else { batch };
        (other + batch - self.filling.len()).min(MOST_DONE.saturating_sub(self.done.len()))
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        !self.busy && self.filling.is_empty()
    }

    /// Is there something to be asked for, so that nobody should sleep?
    pub fn is_ready(&self) -> bool {
        let told = match &self.engine {
            Engine::Thread(t) => t.is_ready(),
            Engine::Uring(_) => false,
        };
        told || !self.done.is_empty()
    }

    /// How long the function may sleep at most until it asks again.
    pub fn patience(&self, most: Duration) -> Duration {
        match (&self.engine, self.since) {
            // nobody tells
            (Engine::Uring(_), _) if self.busy => most.min(LOOK_EVERY),
            // the thread's end is told
            (Engine::Thread(_), _) if self.busy => most,
            (_, Some(since)) => most.min(self.settings.flush.saturating_sub(since.elapsed())),
            (_, None) => most,
        }
    }

    /// What has been carried out so far, in the order of the requests, to the end of `to`. A buffer that has waited for
    /// long enough is handed over.
    pub fn take_done(&mut self, to: &mut Vec<Done<R>>) {
        self.collect();
        let waits = |s: Instant| s.elapsed() >= self.settings.flush;
        if self.since.is_some_and(waits) {
            self.hand_over();
            // it may have been done at once
            self.collect();
        }
        to.append(&mut self.done);
    }

    /// Waits until a buffer has been carried out, if both are full.
    pub fn wait_for_room(&mut self) {
        // Bound: the engine's buffer; each round ends with it, or waits for it
        while self.is_full() && self.wait(PATIENCE) {}
    }

    /// Carries everything out, and waits for it.
    pub fn finish(&mut self) {
        // Bound: two buffers; each round ends with one, or waits for it
        loop {
            self.hand_over();
            if !self.wait(PATIENCE) {
                return;
            }
        }
    }

    /// Waits for the buffer that is under way, for `most`. False: there is none, and none to be handed over.
    fn wait(&mut self, most: Duration) -> bool {
        if !self.busy {
            return false;
        }
        let all = match &mut self.engine {
            Engine::Uring(u) => u.wait(most),
            Engine::Thread(t) => t.wait(most),
        };
        if let Some(all) = all {
            self.came_back(all);
        }
        true
    }

    /// The engine gets the buffer that was filled, if it has none.
    fn hand_over(&mut self) {
        if self.busy || self.filling.is_empty() {
            return;
        }
        let next = std::mem::take(&mut self.spare);
        let all = std::mem::replace(&mut self.filling, next);
        (self.since, self.busy) = (None, true);
        match &mut self.engine {
            Engine::Uring(u) => u.begin(all),
            Engine::Thread(t) => t.begin(all),
        }
    }

    /// Looks whether the engine has done its buffer; a full one takes its place.
    fn collect(&mut self) {
        if !self.busy {
            return;
        }
        let all = match &mut self.engine {
            Engine::Uring(u) => u.poll(),
            Engine::Thread(t) => t.poll(),
        };
        if let Some(all) = all {
            self.came_back(all);
        }
    }

    fn came_back(&mut self, mut all: Vec<Request<R>>) {
        self.done.extend(all.drain(..).map(Request::done));
        self.spare = all;
        self.busy = false;
        if self.filling.len() >= self.settings.batch {
            self.hand_over();
        }
    }
}

impl<R: Data> Drop for Storage<R> {
    fn drop(&mut self) {
        // what was handed over is carried out: its memory is the kernel's until then
        let begun = Instant::now();
        while self.busy && begun.elapsed() < PATIENCE {
            self.filling.clear();
            self.wait(PATIENCE);
        }
    }
}

impl<R: Data> std::fmt::Debug for Storage<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (waiting, busy, done) = (self.filling.len(), self.busy, self.done.len());
        let engine = self.engine();
        write!(
            f,
            "Storage({engine}, {waiting} waiting, busy: {busy}, {done} done)"
        )
    }
}

/// What a negative error number means.
fn outcome(result: i64) -> io::Result<usize> {
    usize::try_from(result)
        .map_err(|_| io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO)))
}

#[cfg(test)]
mod tests;
