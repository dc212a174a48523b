//! Namespaces: network namespaces without a name, which are gone with the last process and descriptor that has them,
//! however that ends; and what a process is given of its own (namespaces(7)).
#![allow(unsafe_code)]

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;

/// A network namespace without a name.
#[derive(Debug)]
pub struct NetSpace(OwnedFd);

impl NetSpace {
    /// A new one, with an interface `lo` that is down.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN, or what else the system says.
    pub fn new() -> io::Result<NetSpace> {
        // a thread leaves its namespace for the new one, and ends; this one stays where it is
        let made = std::thread::spawn(|| -> io::Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        });
        let fd = made.join().map_err(|_| io::ErrorKind::Other)??;
        Ok(NetSpace(fd))
    }

    /// The one that the calling thread is in.
    ///
    /// # Errors
    /// What the system says.
    pub fn current() -> io::Result<NetSpace> {
        Ok(NetSpace(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// Carries this out in it: sockets that are opened there stay there, and files of `/proc/sys/net` are its.
    ///
    /// # Errors
    /// It cannot be entered, or a thread cannot be had.
    pub fn within<R: Send>(&self, what: impl FnOnce() -> R + Send) -> io::Result<R> {
        std::thread::scope(|s| {
            let thread = std::thread::Builder::new().spawn_scoped(s, || {
                setns(&self.0, CloneFlags::CLONE_NEWNET)?;
                Ok(what())
            })?;
            thread
                .join()
                .map_err(|_| io::Error::from(io::ErrorKind::Other))?
        })
    }

    /// A command that is executed in it.
    pub fn command(self: &Arc<NetSpace>, program: &str) -> Command {
        let mut command = Command::new(program);
        let space = self.clone();
        // SAFETY: one system call, on a descriptor that lives as long as the command
        unsafe {
            command.pre_exec(move || Ok(setns(&space.0, CloneFlags::CLONE_NEWNET)?));
        }
        command
    }

    /// Where others find it, for as long as this process has it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

impl AsFd for NetSpace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Which network a process sees.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// Its launcher's.
    #[default]
    Shared,
    /// None: a new namespace.
    New,
    /// This one's.
    Of(Arc<NetSpace>),
}

/// What a process has of its own.
#[derive(Debug, Clone, Default)]
pub struct Isolation {
    /// The network that it sees. With another one than its launcher's, `/sys` shows that one's interfaces.
    pub network: Network,
    /// It is the first one of a process namespace, and `/proc` shows that one's processes: all that it launches ends
    /// with it.
    pub processes: bool,
}

impl Isolation {
    fn is_none(&self) -> bool {
        matches!(self.network, Network::Shared) && !self.processes
    }

    /// In the new process, before it becomes another program: system calls only.
    pub(crate) fn enter(&self) -> io::Result<()> {
        if self.is_none() {
            return Ok(());
        }
        match &self.network {
            Network::Shared => {}
            Network::New => unshare(CloneFlags::CLONE_NEWNET)?,
            Network::Of(space) => setns(&space.0, CloneFlags::CLONE_NEWNET)?,
        }
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        // what is mounted from here on is nobody else's; what others mount is seen
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
        if !matches!(self.network, Network::Shared) {
            mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none)?;
        }
        if self.processes {
            mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
        }
        Ok(())
    }

    /// Launches a process by `spawn`, in a process namespace of its own if that is wanted.
    pub(crate) fn launch(&self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
        if !self.processes {
            return spawn();
        }
        let own = File::open("/proc/thread-self/ns/pid")?;
        // of this thread: the next process that it makes is the first one there
        unshare(CloneFlags::CLONE_NEWPID)?;
        let child = spawn();
        setns(&own, CloneFlags::CLONE_NEWPID)?;
        child
    }
}

/// The command's process is as one that nobody has prepared: it treats signals as one does that a shell launches,
/// though processes that [`Process`](crate::Process) launches ignore some, and has no descriptor but its standard
/// ones, whatever this process, or who has launched that one, has left open.
pub fn unprepared(command: &mut Command) {
    // SAFETY: system calls that may be made between fork and exec, with numbers only
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM] {
                // no handler of this process is installed
                libc::signal(signal, libc::SIG_DFL);
            }
            // closed by exec: until then others need them
            let flag = libc::CLOSE_RANGE_CLOEXEC;
            match libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flag) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}
