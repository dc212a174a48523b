//! Captures by name: files, `-` (standard input and output), and FIFOs, which can be read once only.
//!
//! The chain's clock begins with the first packet, which is looked at before anything is opened for good: what was read
//! of a stream until then is kept and comes first when it is opened. Who has to read a capture more than once
//! ([`twice`]) gets a stream as a file without a name.

use crate::runner;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_capture::CaptureReader;
use onefold_packet::Timestamp;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Signals are looked at so often while nothing comes, in milliseconds.
const LOOK: u16 = 100;

/// What was read of streams before they were opened for good, by name, and the streams.
static BEGUN: Mutex<BTreeMap<String, (Vec<u8>, Stream)>> = Mutex::new(BTreeMap::new());
/// Streams that became files, by name, open as long as the program runs: at most one for each on the command line.
static KEPT: Mutex<BTreeMap<String, File>> = Mutex::new(BTreeMap::new());

/// Can a file be read once only?
pub fn is_stream(name: &str) -> bool {
    name == "-"
        || std::fs::metadata(name).is_ok_and(|m| {
            let kind = m.file_type();
            kind.is_fifo() || kind.is_char_device() || kind.is_socket()
        })
}

/// What comes from a pipe or the like; Ctrl-C and SIGTERM end it.
struct Stream(File);

impl Stream {
    fn open(name: &str) -> io::Result<Stream> {
        if name == "-" {
            return Ok(Stream(File::from(
                io::stdin().as_fd().try_clone_to_owned()?,
            )));
        }
        // or a FIFO is not open before somebody writes, whatever signals come
        let mut how = OpenOptions::new();
        how.read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
        Ok(Stream(how.open(name)?))
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Bound: until something comes, the other end is closed, or a signal ends it
        loop {
            if runner::interrupted().load(Ordering::SeqCst) {
                return Ok(0);
            }
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(LOOK)) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
                Ok(_) => {}
                Err(e) => return Err(e.into()),
            }
            match self.0.read(buf) {
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                done => return done,
            }
        }
    }
}

/// Reads a stream and keeps a copy.
struct Tee(Stream, Arc<Mutex<Vec<u8>>>);

impl Read for Tee {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buf)?;
        let mut copy = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        copy.extend_from_slice(buf.get(..n).unwrap_or_default());
        Ok(n)
    }
}

/// A stream from its first byte on, which may have been looked at.
fn from_start(name: &str) -> Result<impl Read + Send + use<>> {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = begun.remove(name);
    let (first, stream) = match known {
        Some(known) => known,
        None => (Vec::new(), Stream::open(name).with_context(|| told(name))?),
    };
    Ok(Cursor::new(first).chain(stream))
}

/// The file that a stream has become, if it has.
fn kept(name: &str) -> Option<String> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.get(name).map(path_of)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens a capture.
///
/// # Errors
/// It cannot be read, or does not begin as captures do.
pub fn open(name: &str) -> Result<CaptureReader> {
    match kept(name) {
        Some(file) => CaptureReader::open(file).with_context(|| told(name)),
        None if is_stream(name) => {
            CaptureReader::from_reader(from_start(name)?).with_context(|| told(name))
        }
        None => Ok(CaptureReader::open(name)?),
    }
}

/// The time of the first frame, if there is one; a stream waits for it.
///
/// # Errors
/// As [`open`].
pub fn first_time(name: &str) -> Result<Option<Timestamp>> {
    let mut buf = Vec::new();
    let mut first = |r: &mut CaptureReader| match r.next_into(&mut buf) {
        Some(Ok(m)) => Some(Timestamp(m.ts_ns)),
        _ => None,
    };
    if kept(name).is_some() || !is_stream(name) {
        return Ok(first(&mut open(name)?));
    }
    let stream = Stream::open(name).with_context(|| told(name))?;
    let again = Stream(stream.0.try_clone()?);
    let copy = Arc::default();
    let tee = Tee(stream, Arc::clone(&copy));
    let at = {
        let mut r = CaptureReader::from_reader(tee).with_context(|| told(name))?;
        first(&mut r)
    };
    let copy = std::mem::take(&mut *copy.lock().unwrap_or_else(PoisonError::into_inner));
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.insert(name.to_string(), (copy, again));
    Ok(at)
}

/// A name under which a capture can be read more than once: its own, or, of a stream, that of a file without a name
/// that has all of it.
///
/// # Errors
/// The stream cannot be read, or there is no room for it.
pub fn twice(name: &str) -> Result<String> {
    if let Some(file) = kept(name) {
        return Ok(file);
    }
    if !is_stream(name) {
        return Ok(name.to_string());
    }
    let mut from = from_start(name)?;
    let folder = std::env::temp_dir();
    let mut to = crate::merge::unnamed(name)?;
    io::copy(&mut from, &mut to)
        .with_context(|| format!("{}, kept in {}", told(name), folder.display()))?;
    let path = path_of(&to);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.insert(name.to_string(), to);
    Ok(path)
}

/// A name in words.
pub fn told(name: &str) -> String {
    match name {
        "-" => "standard input".to_string(),
        _ => format!("'{name}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A FIFO with a capture of three frames, and who writes it.
    fn fifo(name: &str) -> (String, std::thread::JoinHandle<()>) {
        let path = std::env::temp_dir().join(format!("onefold-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let name = path.to_string_lossy().to_string();
        let writer = std::thread::spawn(move || {
            let mut w = onefold_bench::output::capture(&path).unwrap();
            for i in 0..3u8 {
                w.write(1_000 + i64::from(i), &[i; 60], 60).unwrap();
            }
            w.finish().unwrap();
        });
        (name, writer)
    }

    fn frames(name: &str) -> Vec<u8> {
        open(name).unwrap().map(|f| f.unwrap().data[0]).collect()
    }

    #[test]
    fn what_was_looked_at_comes_again() {
        assert!(is_stream("-") && !is_stream("Cargo.toml"));
        let (name, writer) = fifo("looked-at");
        assert!(is_stream(&name));
        assert_eq!(first_time(&name).unwrap(), Some(Timestamp(1_000)));
        assert_eq!(frames(&name), [0, 1, 2]);
        writer.join().unwrap();
        std::fs::remove_file(name).unwrap();
    }

    #[test]
    fn a_stream_is_kept_for_who_reads_it_twice() {
        let (name, writer) = fifo("kept");
        assert_eq!(first_time(&name).unwrap(), Some(Timestamp(1_000)));
        let file = twice(&name).unwrap();
        assert_eq!(twice(&name).unwrap(), file);
        for _ in 0..2 {
            assert_eq!(frames(&name), [0, 1, 2]);
            assert_eq!(frames(&file), [0, 1, 2]);
        }
        assert_eq!(first_time(&name).unwrap(), Some(Timestamp(1_000)));
        writer.join().unwrap();
        std::fs::remove_file(name).unwrap();
    }
}
