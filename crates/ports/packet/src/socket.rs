//! Packet sockets: what the system is asked for, and the two ways in which frames come and go. All `unsafe` code of
//! the crate is here and in [`crate::ring`] and [`crate::vectors`].
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A packet socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// Counters of the kernel since the last question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames for which there was no room.
    pub drops: u32,
}

impl Socket {
    /// A socket that gets nothing yet, with buffers of so many bytes.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `EAFNOSUPPORT` where the kernel has no packet sockets.
    pub fn open(buffers: usize) -> io::Result<Socket> {
        onefold_privilege::packet_socket(buffers).map(Socket)
    }

    pub(crate) fn raw(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }

    /// Sets an option of packet sockets.
    ///
    /// # Errors
    /// What the system says.
    pub fn set<T: Copy>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of a value that lives for the time of the call
        let r = unsafe {
            libc::setsockopt(
                self.raw(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of_val(value) as libc::socklen_t,
            )
        };
        check(r)
    }

    /// A packet option that is a number.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_packet(&self, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_PACKET, name, &value)
    }

    /// Frames for other MAC addresses arrive, too, as long as the socket is open.
    ///
    /// # Errors
    /// What the system says.
    pub fn promiscuous(&self, index: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// From now on frames of this interface arrive (`all`), or none, and what is sent leaves there.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(&self, index: u32, all: bool) -> io::Result<()> {
        let protocol = match all {
            true => (libc::ETH_P_ALL as u16).to_be(),
            false => 0,
        };
        // SAFETY: all zero is a valid address
        let mut a: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        a.sll_family = libc::AF_PACKET as libc::c_ushort;
        a.sll_protocol = protocol;
        a.sll_ifindex = index as libc::c_int;
        // SAFETY: the pointer and the length are those of an address that lives for the time of the call
        let r = unsafe {
            libc::bind(
                self.raw(),
                std::ptr::from_ref(&a).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        check(r)
    }

    /// No frames arrive from now on, until [`Socket::hear`].
    ///
    /// # Errors
    /// What the system says.
    pub fn deafen(&self) -> io::Result<()> {
        // a classic BPF program of one instruction: keep no byte
        let mut nothing = libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &raw mut nothing,
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Frames arrive again.
    ///
    /// # Errors
    /// What the system says.
    pub fn hear(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
    }

    /// Counters since the last call.
    ///
    /// # Errors
    /// What the system says.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let mut s = [0u32; 2];
        let mut length = size_of_val(&s) as libc::socklen_t;
        // SAFETY: the kernel writes two numbers at most (`struct tpacket_stats`), and says how much it has written
        let r = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                s.as_mut_ptr().cast(),
                &mut length,
            )
        };
        check(r)?;
        Ok(Statistics { drops: s[1] })
    }

    /// The error that has happened since the last question: an interface that went down, say.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut e: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes one number
        let r = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                std::ptr::from_mut(&mut e).cast(),
                &mut length,
            )
        };
        (r == 0 && e != 0).then(|| io::Error::from_raw_os_error(e))
    }

    /// Takes one frame from the socket's own queue; does not wait.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most as many bytes as the slice has
        let n = unsafe {
            libc::recv(
                self.raw(),
                to.as_mut_ptr().cast(),
                to.len(),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn check(r: libc::c_int) -> io::Result<()> {
    match r {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
