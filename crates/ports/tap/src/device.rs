//! The descriptor of a TAP interface. All `unsafe` code of the crate is here.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// What interfaces are made of.
const TUN: &str = "/dev/net/tun";

/// A TAP interface, as long as it is open.
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// The TAP interface of this name: made, if there is none, and then removed as soon as this is dropped.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `ENOENT` where the kernel has no TAP interfaces, `EBUSY` when another process
    /// has this one open, `EINVAL` when an interface of this name is something else.
    pub fn open(name: &str) -> io::Result<Device> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(TUN)?;
        if name.len() > onefold_port_interface::MAX_NAME {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: all zero is a valid request: a name without letters, and numbers
        let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        r.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the question reads and writes one `ifreq`, which lives for the time of the call
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut r) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // no offloads: the kernel finishes checksums and cuts large frames before it hands them over
        // SAFETY: the argument is a number
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Device(file))
    }

    /// Takes one frame; does not wait.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(to)
    }

    /// Hands over one frame; does not wait.
    ///
    /// # Errors
    /// `EIO` while the interface is down.
    pub fn write(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.0).write(frame)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
