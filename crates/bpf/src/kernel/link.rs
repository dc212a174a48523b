//! A program in front of an interface.
#![allow(unsafe_code)]

use super::{ATTACH_XDP, Program, bpf, bpf_fd};
use onefold_privilege::{Request, ask};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// commands of bpf(2) (linux/bpf.h)
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;
/// `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old: u32,
}

/// What keeps a program from being attached.
#[derive(Debug)]
pub enum AttachError {
    /// What the system says.
    System(io::Error),
    /// Another one is attached.
    Occupied,
}

/// Attaches a program to the interface with this number: in the driver, or behind it.
///
/// # Errors
/// What the system says.
pub fn make_link(program: BorrowedFd<'_>, interface: u32, generic: bool) -> io::Result<OwnedFd> {
    let mut create = LinkCreate {
        program: program.as_raw_fd() as u32,
        target: interface,
        attach: ATTACH_XDP,
        flags: if generic { GENERIC } else { NATIVE },
    };
    // SAFETY: the command's attributes, without pointers
    unsafe { bpf_fd(LINK_CREATE, &mut create) }
}

/// A program, attached to an interface until this is dropped.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// The driver does not know XDP: the kernel runs the program behind it.
    pub generic: bool,
}

impl Link {
    /// Attaches a program to the interface with this number: in the driver, or, where that does not know XDP, behind
    /// it.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(program: &Program, interface: u32) -> Result<Link, AttachError> {
        let mut error = None;
        for generic in [false, true] {
            let fds = [program.fd.as_fd()];
            let made = match ask(&Request::Link { interface, generic }, &fds) {
                Some(answer) => answer.map_err(|a| a.error),
                None => make_link(program.fd.as_fd(), interface, generic),
            };
            match made {
                Ok(fd) => return Ok(Link { fd, generic }),
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    return Err(AttachError::Occupied);
                }
                Err(e) => error = error.or(Some(e)),
            }
        }
        let error = error.unwrap_or_else(|| io::Error::from(io::ErrorKind::Unsupported));
        Err(AttachError::System(error))
    }

    /// Another program takes the place of the one that is attached: each frame is one's or the other's.
    ///
    /// # Errors
    /// What the system says.
    pub fn replace(&self, program: &Program) -> io::Result<()> {
        let mut update = LinkUpdate {
            link: self.fd.as_raw_fd() as u32,
            program: program.fd.as_raw_fd() as u32,
            flags: 0,
            old: 0,
        };
        // SAFETY: the command's attributes, without pointers
        unsafe { bpf(LINK_UPDATE, &mut update) }.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        assert_eq!(std::mem::offset_of!(super::LinkUpdate, old), 12);
    }
}
