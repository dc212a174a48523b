//! What the two processes say to each other: a request of fixed length, descriptors with it, and bytes behind it; an
//! answer of the same form with one descriptor.

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Most bytes behind a request: a million instructions of XDP, the kernel's own limit.
pub const MAX_PAYLOAD: usize = 8 << 20;
/// Most bytes of a refusal's text.
const MAX_TEXT: usize = 4096;
/// Most descriptors with a request: a program's maps.
const MAX_FDS: usize = 8;
/// Longest time until an answer: the kernel's verifier looks at long programs for seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked for: a descriptor of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A packet socket with buffers of so many bytes.
    PacketSocket(usize),
    /// A socket of AF_XDP.
    XdpSocket,
    /// A map for sockets (false) or counters (true) of so many entries, each with so many 64-bit numbers.
    Map {
        /// Counters, a copy for each processor.
        counters: bool,
        /// Places.
        entries: u32,
        /// Numbers of an entry.
        words: u32,
    },
    /// An XDP program of these instructions (`struct bpf_insn`, with numbers of maps instead of descriptors); its maps
    /// go with it.
    Program(Vec<u8>),
    /// A program, which goes with it, attached to the interface of this number: in the driver, or behind it.
    Link {
        /// The interface.
        interface: u32,
        /// Behind the driver.
        generic: bool,
    },
}

const HEADER: usize = 20;

impl Request {
    /// Kind, two numbers, and the bytes behind it.
    fn parts(&self) -> (u32, [u32; 3], &[u8]) {
        match self {
            Request::PacketSocket(n) => (1, [u32::try_from(*n).unwrap_or(u32::MAX), 0, 0], &[]),
            Request::XdpSocket => (2, [0; 3], &[]),
            Request::Map {
                counters,
                entries,
                words,
            } => (3, [u32::from(*counters), *entries, *words], &[]),
            Request::Program(code) => (4, [0; 3], code),
            Request::Link { interface, generic } => (5, [*interface, u32::from(*generic), 0], &[]),
        }
    }

    fn of(kind: u32, [a, b, c]: [u32; 3], payload: Vec<u8>) -> Option<Request> {
        Some(match kind {
            1 => Request::PacketSocket(a as usize),
            2 => Request::XdpSocket,
            3 => Request::Map {
                counters: a != 0,
                entries: b,
                words: c,
            },
            4 => Request::Program(payload),
            5 => Request::Link {
                interface: a,
                generic: b != 0,
            },
            _ => return None,
        })
    }
}

/// Why there is no descriptor.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Answer {
    /// What the system says.
    pub error: io::Error,
    /// What there is besides: the end of what the kernel's verifier says.
    pub log: String,
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Answer {
        Answer {
            error,
            log: String::new(),
        }
    }
}

/// The process that keeps its privilege, as the other one sees it.
#[derive(Debug)]
pub struct Helper(Mutex<UnixStream>);

impl Helper {
    /// Both ends of a socket pair: this process's, and the one that the helper gets as its standard input.
    ///
    /// # Errors
    /// What the system says.
    pub fn pair() -> io::Result<(Helper, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let ours = UnixStream::from(ours);
        ours.set_read_timeout(Some(PATIENCE))?;
        ours.set_write_timeout(Some(PATIENCE))?;
        Ok((Helper(Mutex::new(ours)), theirs))
    }

    /// Asks for a descriptor.
    ///
    /// # Errors
    /// What the helper says, or that it is gone.
    pub fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<OwnedFd, Answer> {
        // whoever panicked while asking has left a conversation that may be half done: the other side is asked no more
        let Ok(stream) = self.0.lock() else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        let (kind, numbers, payload) = request.parts();
        send(&stream, kind, numbers, payload, fds)?;
        let (errno, _, log, mut fds) = receive(&stream, MAX_TEXT)?
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        match (errno, fds.pop()) {
            (0, Some(fd)) => Ok(fd),
            (0, None) => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            (e, _) => Err(Answer {
                error: io::Error::from_raw_os_error(e.cast_signed()),
                log: String::from_utf8_lossy(&log).into_owned(),
            }),
        }
    }
}

static HELPER: OnceLock<Helper> = OnceLock::new();

/// From now on this one is asked, by the whole process.
pub fn set_helper(helper: Helper) {
    // one for the life of the process: a second one is not wanted
    let _ = HELPER.set(helper);
}

/// Has the process a helper?
pub fn is_asked() -> bool {
    HELPER.get().is_some()
}

/// The helper has not answered.
static GONE: AtomicBool = AtomicBool::new(false);

/// Has the process's helper ended? What takes privilege cannot be had any more.
pub fn is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Asks the process's helper, if it has one.
pub fn ask(request: &Request, fds: &[BorrowedFd<'_>]) -> Option<Result<OwnedFd, Answer>> {
    let answer = HELPER.get()?.ask(request, fds);
    if let Err(a) = &answer
        && matches!(
            a.error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
        )
    {
        GONE.store(true, Ordering::Relaxed);
    }
    Some(answer)
}

/// Answers until the other side is gone.
///
/// # Errors
/// What the system says of the connection, or that what comes is no request.
pub fn serve(
    stream: OwnedFd,
    make: &mut dyn FnMut(Request, Vec<OwnedFd>) -> Result<OwnedFd, Answer>,
) -> io::Result<()> {
    let stream = UnixStream::from(stream);
    while let Some((kind, numbers, payload, fds)) = receive(&stream, MAX_PAYLOAD)? {
        let made = match Request::of(kind, numbers, payload) {
            Some(r) => make(r, fds),
            None => Err(io::Error::from_raw_os_error(libc::EINVAL).into()),
        };
        match made {
            Ok(fd) => send(&stream, 0, [0; 3], &[], &[fd.as_fd()])?,
            Err(a) => {
                let errno = a.error.raw_os_error().unwrap_or(libc::EIO);
                let mut text = a.log.into_bytes();
                text.truncate(MAX_TEXT);
                send(&stream, errno.cast_unsigned(), [0; 3], &text, &[])?;
            }
        }
    }
    Ok(())
}

fn send(
    stream: &UnixStream,
    kind: u32,
    [a, b, c]: [u32; 3],
    payload: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let len = u32::try_from(payload.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut header = [0u8; HEADER];
    for (to, from) in header.chunks_exact_mut(4).zip([kind, a, b, c, len]) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = sendmsg(stream, &[IoSlice::new(&header)], &mut control, flags)?;
    let mut stream = stream;
    stream.write_all(header.get(sent..).unwrap_or_default())?;
    stream.write_all(payload)
}

type Message = (u32, [u32; 3], Vec<u8>, Vec<OwnedFd>);

/// The next message; `None`: the other side is gone.
fn receive(stream: &UnixStream, most: usize) -> io::Result<Option<Message>> {
    let mut header = [0u8; HEADER];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut header)];
    let got =
        rustix::io::retry_on_intr(|| recvmsg(stream, into, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let mut fds = Vec::new();
    for m in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = m {
            fds.extend(some);
        }
    }
    let mut stream = stream;
    stream.read_exact(header.get_mut(got.bytes..).unwrap_or_default())?;
    let mut words = [0u32; 5];
    for (to, from) in words.iter_mut().zip(header.as_chunks::<4>().0) {
        *to = u32::from_ne_bytes(*from);
    }
    let [kind, a, b, c, len] = words;
    if len as usize > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; len as usize];
    stream.read_exact(&mut payload)?;
    Ok(Some((kind, [a, b, c], payload, fds)))
}

impl Drop for Helper {
    fn drop(&mut self) {
        let stream = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // the other side ends
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A helper in a thread: what it was asked, and what came of it.
    fn beside(
        make: impl FnMut(Request, Vec<OwnedFd>) -> Result<OwnedFd, Answer> + Send + 'static,
    ) -> (Helper, std::thread::JoinHandle<io::Result<()>>) {
        let (helper, theirs) = Helper::pair().unwrap();
        let mut make = make;
        let thread = std::thread::spawn(move || serve(theirs, &mut make));
        (helper, thread)
    }

    #[test]
    fn descriptors_come_back_and_go_along() {
        let (helper, thread) = beside(|r, fds| match r {
            // the other end of what was passed says so
            Request::Link { interface, .. } => {
                let mut s = UnixStream::from(fds.into_iter().next().unwrap());
                s.write_all(&interface.to_be_bytes())?;
                Ok(s.into())
            }
            Request::Program(code) => {
                assert_eq!(code.len(), 1 << 20);
                Err(Answer {
                    error: io::Error::from_raw_os_error(libc::EACCES),
                    log: "not this one".to_string(),
                })
            }
            r => panic!("{r:?}"),
        });
        let (mut a, b) = UnixStream::pair().unwrap();
        let request = Request::Link {
            interface: 77,
            generic: false,
        };
        helper.ask(&request, &[b.as_fd()]).unwrap();
        let mut said = [0; 4];
        a.read_exact(&mut said).unwrap();
        assert_eq!(said, [0, 0, 0, 77]);
        let e = helper
            .ask(&Request::Program(vec![7; 1 << 20]), &[])
            .unwrap_err();
        assert_eq!(
            (e.error.raw_os_error(), e.log.as_str()),
            (Some(libc::EACCES), "not this one")
        );
        drop(helper);
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn nobody_is_waited_for_who_is_gone() {
        let (helper, theirs) = Helper::pair().unwrap();
        drop(theirs);
        assert!(helper.ask(&Request::XdpSocket, &[]).is_err());
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut header = [0u8; HEADER];
        header[16..].copy_from_slice(&u32::MAX.to_ne_bytes());
        (&ours).write_all(&header).unwrap();
        let served = serve(theirs.into(), &mut |_, _| panic!("no request"));
        assert_eq!(served.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
