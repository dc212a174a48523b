//! Launching processes: they are told what to do over a socket without a name, they end when their launcher does, and
//! the launcher hears when they end.
#![allow(unsafe_code)]

use crate::space::Isolation;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Longest message, in bytes.
const LONGEST: u32 = 1 << 30;
/// Most descriptors that come with a message.
const MOST_FDS: usize = 8;

/// Where a process is in its life, as it says itself ([`Said::state`](crate::Said::state)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// It is about to begin.
    Starting = 0,
    /// It takes packets.
    Running = 1,
    /// It has said all that it had to say.
    Ended = 2,
}

/// What the launcher tells a process in the lower two bits of its command's number
/// ([`Orders::command`](crate::Orders::command)); the rest counts commands.
pub const LIFE: [(&str, u32); 3] = [("advance", 1), ("finish", 2), ("stop", 3)];
/// Also in these bits, of processes of Onefold's own: to say what it has counted so far, through its channel.
pub const TELL: u32 = 0;

/// One end of a connection between a launcher and a process: messages, and descriptors with them.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    /// Both ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = UnixStream::pair()?;
        Ok((Channel(a), Channel(b)))
    }

    /// The end that this process was launched with, by its number. For once.
    ///
    /// # Errors
    /// The number is no socket's.
    pub fn inherit(fd: RawFd) -> io::Result<Channel> {
        if fd <= 2 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: it is looked at only, and may be no descriptor at all.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        nix::sys::socket::getsockopt(&borrowed, nix::sys::socket::sockopt::SockType)?;
        // SAFETY: it is a socket that the launcher has left open for this, and nobody else in this process knows of it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // those that this process launches do not get it
        nix::fcntl::fcntl(
            &fd,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
        )?;
        Ok(Channel(UnixStream::from(fd)))
    }

    /// Nobody waits longer than this for the other end.
    ///
    /// # Errors
    /// What the system says.
    pub fn patience(&self, most: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(most))?;
        self.0.set_write_timeout(Some(most))
    }

    /// Sends a message with these descriptors, 8 at most.
    ///
    /// # Errors
    /// The other end is gone, or what the system says.
    pub fn send(&mut self, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let len = u32::try_from(message.len()).ok().filter(|n| *n <= LONGEST);
        let len = len.ok_or(io::ErrorKind::InvalidInput)?.to_ne_bytes();
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&raw)];
        let control = if raw.is_empty() { &[][..] } else { &control };
        let flags = MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg::<()>(
            self.0.as_raw_fd(),
            &[IoSlice::new(&len)],
            control,
            flags,
            None,
        )?;
        // four bytes are sent whole, or not at all
        if sent != len.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.0.write_all(message)
    }

    /// Receives a message of `most` bytes at most, and the descriptors that came with it.
    ///
    /// # Errors
    /// The other end is gone, says nothing for too long ([`Channel::patience`]), or says too much.
    pub fn receive(&mut self, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut len = [0; 4];
        let mut control = nix::cmsg_space!([RawFd; MOST_FDS]);
        let mut fds = Vec::new();
        let n = {
            let mut to = [IoSliceMut::new(&mut len)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let got = recvmsg::<()>(self.0.as_raw_fd(), &mut to, Some(&mut control), flags)?;
            for c in got.cmsgs().map_err(io::Error::from)? {
                if let ControlMessageOwned::ScmRights(raw) = c {
                    // SAFETY: descriptors that the system has just made for this process, each once.
                    fds.extend(
                        raw.into_iter()
                            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                    );
                }
            }
            got.bytes
        };
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.read_exact(len.get_mut(n..).unwrap_or_default())?;
        let len = u32::from_ne_bytes(len) as usize;
        if len > most {
            let why = format!("a message of {len} bytes, {most} at most were expected");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut message = Vec::new();
        // what is not sent is not allocated either
        let got = (&mut self.0).take(len as u64).read_to_end(&mut message)?;
        if got < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((message, fds))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A process that was launched. It is ended when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    /// Readable when it has ended.
    pidfd: OwnedFd,
}

impl Process {
    /// Launches it, with its end of a channel under the number that `tell` is given, to be told to it: an argument, or
    /// part of its environment. `core`: it is executed there only.
    ///
    /// It ends when the thread that has launched it does, however that happens. Ctrl-C is its launcher's affair.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn(
        command: Command,
        channel: Channel,
        core: Option<u32>,
        tell: impl FnOnce(&mut Command, RawFd),
    ) -> io::Result<Process> {
        Process::spawn_in(command, channel, core, &Isolation::default(), tell)
    }

    /// [`Process::spawn`] for a process that has namespaces of its own. With a process namespace of its own everything
    /// that it launches ends with it.
    ///
    /// # Errors
    /// What the system says: `EPERM` without CAP_SYS_ADMIN, where namespaces are wanted.
    pub fn spawn_in(
        mut command: Command,
        channel: Channel,
        core: Option<u32>,
        isolation: &Isolation,
        tell: impl FnOnce(&mut Command, RawFd),
    ) -> io::Result<Process> {
        let fd = channel.0.as_raw_fd();
        tell(&mut command, fd);
        // whoever has a process namespace of its own does not see its launcher
        let launcher = match isolation.processes {
            true => 0,
            false => std::process::id(),
        };
        let inside = isolation.clone();
        // SAFETY: system calls that may be made between fork and exec; nothing is allocated, nothing locked.
        unsafe {
            command.pre_exec(move || {
                before_exec(launcher, fd, core)?;
                inside.enter()
            });
        }
        let child = isolation.launch(|| command.spawn())?;
        drop(channel);
        let pid = child.id() as libc::pid_t;
        // SAFETY: takes numbers, and makes a descriptor.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let mut child = child;
        let Ok(pidfd) = RawFd::try_from(pidfd)
            .map_err(|_| ())
            .and_then(|fd| match fd {
                ..0 => Err(()),
                fd => Ok(fd),
            })
        else {
            let error = io::Error::last_os_error();
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        };
        // SAFETY: just made, nobody else's.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        Ok(Process {
            child,
            ended: None,
            pidfd,
        })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Ends it, now.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl AsFd for Process {
    /// Becomes readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the new process, before it becomes another program.
fn before_exec(launcher: u32, fd: RawFd, core: Option<u32>) -> io::Result<()> {
    // SAFETY: takes numbers.
    let with_launcher = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if with_launcher != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } as u32 != launcher {
        // it had ended before
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: no handler of this process is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: takes numbers; the descriptor is this process's copy.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(core) = core {
        let mut set = nix::sched::CpuSet::new();
        set.set(core as usize)?;
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?;
    }
    Ok(())
}
