//! Listens, and answers.

use crate::protocol::{Failure, Kind, Request};
use crate::socket::{SocketError, is_own, listens, make_folder, of_name};
use crate::{MAX_CLIENTS, MAX_REQUEST};
use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt::PeerCredentials};
use nix::unistd::geteuid;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A client that takes nothing for so long is sent away.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that asks for nothing for so long is sent away.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// So often nobody has to listen at a socket before it counts as left behind, and so long lies in between.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(30);
/// Most names that are tried where the wanted one is taken.
const MOST_NAMES: usize = 100;

/// Lines that come before the answer.
pub struct Stream<'a> {
    to: &'a UnixStream,
}

impl Stream<'_> {
    /// Sends a line.
    ///
    /// # Errors
    /// When the client has gone.
    pub fn send(&mut self, line: &Value) -> std::io::Result<()> {
        write_line(self.to, line)
    }
    /// Has the client gone?
    pub fn is_closed(&self) -> bool {
        let mut byte = [0];
        let _ = self.to.set_nonblocking(true);
        let mut to = self.to;
        // whatever it says now is not waited for
        let closed = match to.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let _ = self.to.set_nonblocking(false);
        closed
    }
}

/// Answers a request, in a thread of the client's own.
pub type Handler = dyn Fn(Request, &mut Stream<'_>) -> Result<Value, Failure> + Send + Sync;

/// A socket that somebody listens at; dropped, it is removed.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Which file there is its own: device and inode.
    file: Option<(u64, u64)>,
    name: Option<String>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn system(path: &Path) -> impl FnOnce(std::io::Error) -> SocketError + '_ {
    move |error| SocketError::System {
        path: path.to_path_buf(),
        error,
    }
}

impl Server {
    /// At this path. What a process that has ended left there is replaced.
    ///
    /// # Errors
    /// When somebody else listens there, or the system refuses.
    pub fn bind(path: &Path) -> Result<Server, SocketError> {
        make_folder(path)?;
        if let Ok(m) = std::fs::symlink_metadata(path) {
            if !m.file_type().is_socket() {
                return Err(SocketError::NoSocket(path.to_path_buf()));
            }
            // who has just made it may not listen yet
            for _ in 0..LOOKS {
                if listens(path).map_err(system(path))? {
                    return Err(SocketError::InUse(path.to_path_buf()));
                }
                std::thread::sleep(BETWEEN_LOOKS);
            }
            std::fs::remove_file(path).map_err(system(path))?;
        }
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                return Err(SocketError::InUse(path.to_path_buf()));
            }
            bound => bound.map_err(system(path))?,
        };
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, mode).map_err(system(path))?;
        Ok(Server {
            listener,
            path: path.to_path_buf(),
            file: file_at(path),
            name: None,
            ends: Arc::default(),
            thread: None,
        })
    }

    /// In a folder, by name. With `or_other`, where the name is taken, `NAME-2` and so on.
    ///
    /// # Errors
    /// As [`Server::bind`].
    pub fn bind_name(folder: &Path, name: &str, or_other: bool) -> Result<Server, SocketError> {
        is_own(folder)?;
        let mut tried = name.to_string();
        let mut n = 1;
        loop {
            match Server::bind(&of_name(folder, &tried)?) {
                Err(SocketError::InUse(_)) if or_other && n < MOST_NAMES => {
                    n += 1;
                    tried = format!("{name}-{n}");
                }
                bound => {
                    let mut server = bound?;
                    server.name = Some(tried);
                    return Ok(server);
                }
            }
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The name that it has in its folder, if it has been bound by name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Answers from now on, in threads of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn serve(&mut self, handler: Arc<Handler>) -> std::io::Result<()> {
        let listener = self.listener.try_clone()?;
        let ends = self.ends.clone();
        let thread = std::thread::Builder::new().name("control".into());
        self.thread = Some(thread.spawn(move || accept(&listener, &ends, &handler))?);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // wakes it; at the path somebody else may listen by now, so that to connect there is no way
            let woken = shutdown(self.listener.as_raw_fd(), Shutdown::Both).is_ok();
            if woken {
                let _ = thread.join();
            }
        }
        // only what is its own: somebody may have replaced it
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of what is at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let m = std::fs::symlink_metadata(path).ok()?;
    Some((m.dev(), m.ino()))
}

/// One more client, for as long as it lives.
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(listener: &UnixListener, ends: &AtomicBool, handler: &Arc<Handler>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        if ends.load(Ordering::Acquire) {
            return;
        }
        let Ok(client) = client else {
            // no descriptors left: some may come back
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !is_allowed(&client) {
            continue;
        }
        let n = clients.fetch_add(1, Ordering::AcqRel);
        let seat = Seat(clients.clone());
        let _ = client.set_write_timeout(Some(WRITE_TIMEOUT));
        let _ = client.set_read_timeout(Some(READ_TIMEOUT));
        if n >= MAX_CLIENTS {
            let text = format!("{MAX_CLIENTS} clients are connected already");
            let _ = write_line(&client, &Failure::new(Kind::Busy, text).line());
            continue;
        }
        let handler = handler.clone();
        let thread = std::thread::Builder::new().name("control".into());
        // without a thread the client is sent away
        let _ = thread.spawn(move || {
            let _seat = seat;
            talk(&client, handler.as_ref());
        });
    }
}

/// Is it the user that runs the chain, or root?
fn is_allowed(client: &UnixStream) -> bool {
    let peer = getsockopt(client, PeerCredentials);
    peer.is_ok_and(|c| c.uid() == 0 || c.uid() == geteuid().as_raw())
}

fn talk(client: &UnixStream, handler: &Handler) {
    let mut lines = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut lines).take(MAX_REQUEST as u64 + 1);
        match bounded.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let too_long = line.len() > MAX_REQUEST;
        let answer = match too_long {
            true => Err(Failure::new(
                Kind::BadRequest,
                "a request has at most a mebibyte",
            )),
            false => match serde_json::from_slice(&line) {
                Ok(request) => handler(request, &mut Stream { to: client }),
                Err(e) => Err(Failure::new(Kind::BadRequest, format!("no request: {e}"))),
            },
        };
        let line = match answer {
            Ok(mut v) => {
                if let Some(all) = v.as_object_mut() {
                    all.insert("ok".into(), true.into());
                }
                v
            }
            Err(f) => f.line(),
        };
        if write_line(client, &line).is_err() || too_long {
            return;
        }
    }
}

fn write_line(mut to: &UnixStream, line: &Value) -> std::io::Result<()> {
    let mut text = line.to_string();
    text.push('\n');
    to.write_all(text.as_bytes())
}
