//! Frames for other MAC addresses arrive, too, for as long as somebody wants them: the kernel forgets it with the
//! process, however that ends.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// While it is there, frames for other MAC addresses arrive at an interface.
#[derive(Debug)]
pub struct Promiscuous(#[allow(dead_code)] OwnedFd);

impl Promiscuous {
    /// For the interface of this number.
    ///
    /// # Errors
    /// What the system says.
    pub fn on(index: u32) -> io::Result<Promiscuous> {
        let fd = onefold_privilege::packet_socket(0)?;
        let request = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the pointer and the length are those of a value that lives for the time of the call
        let set = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                std::ptr::from_ref(&request).cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        };
        match set {
            0 => Ok(Promiscuous(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
