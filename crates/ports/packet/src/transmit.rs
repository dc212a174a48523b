//! What leaves at an interface: a batch with one system call; what there is no room for waits, as far as that is
//! bounded.

use crate::SOCKET_BUFFER;
use crate::backlog::Backlog;
use crate::is_down;
use crate::socket::Socket;
use crate::vectors::Sender;
use onefold_port_interface::Interface;
use onefold_runtime::TRANSMIT_QUEUE_FULL;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Least bytes of a frame: what an Ethernet header is.
const LEAST: usize = 14;
/// Bytes of a VLAN tag, which an MTU does not count.
const TAG: usize = 4;

/// What could not be sent.
#[derive(Debug, Default)]
struct Lost {
    full: u64,
    long: u64,
    short: u64,
    down: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct Transmitter {
    /// None while the interface is gone.
    socket: Option<Socket>,
    sender: Sender,
    backlog: Backlog,
    mtu: usize,
    lost: Lost,
}

/// What became of the first frames of a row.
enum Taken {
    /// So many were taken.
    All(usize),
    /// The first one waits.
    Waits,
    /// The first one is lost.
    Lost,
}

impl Transmitter {
    /// Sends at this interface, so many frames with one call.
    pub fn open(interface: &Interface, batch: usize) -> io::Result<Transmitter> {
        Ok(Transmitter {
            socket: Some(bound(interface)?),
            sender: Sender::new(batch),
            backlog: Backlog::default(),
            mtu: interface.mtu as usize,
            lost: Lost::default(),
        })
    }

    /// Goes on at an interface that is there again.
    pub fn reopen(&mut self, interface: &Interface) -> io::Result<()> {
        self.socket = Some(bound(interface)?);
        self.mtu = interface.mtu as usize;
        Ok(())
    }

    /// The interface is gone.
    pub fn close(&mut self) {
        self.socket = None;
        self.lost.down += self.backlog.len() as u64;
        self.backlog.remove(self.backlog.len());
    }

    /// The interface's MTU, in bytes.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu as usize;
    }

    /// Frames that wait.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// The descriptor that is writable when there is room.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|s| s.as_fd())
    }

    /// Forgets the error of an interface that was down.
    pub fn take_error(&self) {
        if let Some(s) = &self.socket {
            let _ = s.take_error();
        }
    }

    /// What could not be sent, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let l = &self.lost;
        [
            (TRANSMIT_QUEUE_FULL, l.full),
            ("longer than the interface's MTU", l.long),
            ("shorter than an Ethernet header", l.short),
            ("link down, not sent", l.down),
        ]
        .into_iter()
    }

    /// May a frame leave as it is? It is counted if not.
    #[inline]
    fn fits(&mut self, frame: &[u8]) -> bool {
        if frame.len() < LEAST {
            self.lost.short += 1;
            return false;
        }
        if frame.len() > self.mtu + LEAST {
            let tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
            if !tagged || frame.len() > self.mtu + LEAST + TAG {
                self.lost.long += 1;
                return false;
            }
        }
        true
    }

    /// Sends frames, in order, behind those that wait.
    pub fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
        self.flush()?;
        let mut frames = frames.peekable();
        // Bound: each round takes one frame at least
        while frames.peek().is_some() {
            if self.backlog.len() > 0 {
                // the order of those that wait is kept
                for f in frames.by_ref() {
                    if self.fits(f) && !self.backlog.push(f) {
                        self.lost.full += 1;
                    }
                }
                break;
            }
            let most = self.sender.most();
            // a row of frames that may leave as they are
            let row = frames.clone();
            let mut n = 0;
            for f in row.take(most) {
                if !self.fits(f) {
                    break;
                }
                n += 1;
            }
            if n == 0 {
                frames.next();
                continue;
            }
            let taken = match &self.socket {
                Some(s) => outcome(self.sender.send(s, frames.clone().take(n)), &mut self.lost)?,
                None => {
                    self.lost.down += 1;
                    Taken::Lost
                }
            };
            match taken {
                Taken::All(n) => drop(frames.by_ref().take(n).count()),
                Taken::Lost => drop(frames.next()),
                Taken::Waits => {
                    if let Some(f) = frames.next() {
                        self.backlog.push(f);
                    }
                }
            }
        }
        Ok(())
    }

    /// Tries to send what waits.
    pub fn flush(&mut self) -> io::Result<()> {
        // Bound: each round takes one frame at least, or ends
        while self.backlog.len() > 0 {
            let Some(s) = &self.socket else { break };
            let most = self.sender.most();
            let sent = self.sender.send(s, self.backlog.iter().take(most));
            match outcome(sent, &mut self.lost)? {
                Taken::All(n) => self.backlog.remove(n),
                Taken::Lost => self.backlog.remove(1),
                Taken::Waits => break,
            }
        }
        Ok(())
    }
}

/// A socket that sends at this interface, and gets nothing.
fn bound(interface: &Interface) -> io::Result<Socket> {
    let s = Socket::open(SOCKET_BUFFER)?;
    match s.bind(interface.index, false) {
        Err(e) if !is_down(&e) => Err(e),
        _ => Ok(s),
    }
}

/// What a call has done.
fn outcome(sent: io::Result<usize>, lost: &mut Lost) -> io::Result<Taken> {
    let e = match sent {
        Ok(n) => return Ok(Taken::All(n)),
        Err(e) => e,
    };
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => return Ok(Taken::Waits),
        // the device's queue has dropped it
        Some(libc::ENOBUFS) => lost.full += 1,
        Some(libc::EMSGSIZE) => lost.long += 1,
        _ if is_down(&e) => lost.down += 1,
        _ => return Err(e),
    }
    Ok(Taken::Lost)
}
