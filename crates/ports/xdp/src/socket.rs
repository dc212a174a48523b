//! AF_XDP sockets: what the kernel is asked for (`linux/if_xdp.h`).
#![allow(unsafe_code)]

use onefold_table::FramePool;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// An AF_XDP socket.
#[derive(Debug, Clone)]
pub struct Socket(Arc<OwnedFd>);

/// What a call without packets is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Send what is in the transmit ring.
    Transmit,
    /// Look at the fill ring.
    Receive,
}

impl Socket {
    /// A socket of no interface yet.
    ///
    /// # Errors
    /// `EAFNOSUPPORT` where the kernel has none, `EPERM` without CAP_NET_RAW.
    pub fn open() -> io::Result<Socket> {
        onefold_privilege::xdp_socket().map(|fd| Socket(Arc::new(fd)))
    }

    /// Its descriptor, for as long as this is there.
    pub fn shared(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn set<T: Copy>(&self, name: libc::c_int, value: &T) -> io::Result<()> {
        set(&self.0, libc::SOL_XDP, name, value)
    }

    /// Fills `value` as far as the kernel knows what is asked for.
    fn get<T: Copy>(&self, name: libc::c_int, mut value: T) -> io::Result<T> {
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes `length` bytes at most to a value of that size that lives for the time of the call;
        // the types that are asked for are made of numbers, of which any bytes are some
        let r = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_XDP,
                name,
                std::ptr::from_mut(&mut value).cast(),
                &mut length,
            )
        };
        check(r).map(|()| value)
    }

    /// Tells the kernel of the memory that frames lie in.
    ///
    /// # Errors
    /// `ENOBUFS` where more memory would be locked than is allowed.
    pub fn register(&self, pool: &FramePool) -> io::Result<()> {
        let (at, len) = pool.memory();
        // SAFETY: all zero is a valid request; what is not named stays so
        let mut r: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        r.addr = at.addr() as u64;
        r.len = len as u64;
        r.chunk_size = pool.stride() as u32;
        self.set(libc::XDP_UMEM_REG, &r)
    }

    /// Makes a ring of so many places, a power of two.
    ///
    /// # Errors
    /// What the system says.
    pub fn make_ring(&self, kind: libc::c_int, places: u32) -> io::Result<()> {
        self.set(kind, &places)
    }

    /// Where the parts of rings are.
    ///
    /// # Errors
    /// What the system says.
    pub fn offsets(&self) -> io::Result<libc::xdp_mmap_offsets> {
        // SAFETY: all zero is a valid answer: numbers
        self.get(libc::XDP_MMAP_OFFSETS, unsafe { std::mem::zeroed() })
    }

    /// Frames go between this socket and a queue of an interface from now on. `shared`: the socket that has told the
    /// kernel of the memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(
        &self,
        (index, queue): (u32, u32),
        flags: u16,
        shared: Option<&OwnedFd>,
    ) -> io::Result<()> {
        // SAFETY: all zero is a valid address
        let mut a: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        a.sxdp_family = libc::AF_XDP as u16;
        a.sxdp_flags = flags;
        a.sxdp_ifindex = index;
        a.sxdp_queue_id = queue;
        if let Some(other) = shared {
            a.sxdp_flags = libc::XDP_SHARED_UMEM;
            a.sxdp_shared_umem_fd = other.as_raw_fd() as u32;
        }
        // SAFETY: the pointer and the length are those of an address that lives for the time of the call
        check(unsafe {
            libc::bind(
                self.raw(),
                std::ptr::from_ref(&a).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        })
    }

    /// Does the driver read and write the frames themselves?
    pub fn is_zero_copy(&self) -> bool {
        let o = self.get(libc::XDP_OPTIONS, libc::xdp_options { flags: 0 });
        o.is_ok_and(|o| o.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The kernel's counters since the socket was made.
    ///
    /// # Errors
    /// What the system says.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: all zero is a valid answer: numbers
        self.get(libc::XDP_STATISTICS, unsafe { std::mem::zeroed() })
    }

    /// Wakes the kernel's side; does not wait for it.
    ///
    /// # Errors
    /// `EAGAIN`, `EBUSY`, `ENOBUFS`: there is something left to do; `ENETDOWN`, `ENXIO`: the interface is down or gone.
    pub fn wake(&self, what: Wake) -> io::Result<()> {
        let (fd, none) = (self.raw(), std::ptr::null_mut::<libc::c_void>());
        let r = match what {
            // SAFETY: no bytes and no address are passed
            Wake::Transmit => unsafe {
                libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            },
            // SAFETY: as above
            Wake::Receive => unsafe {
                let nobody = std::ptr::null_mut();
                libc::recvfrom(
                    fd,
                    none,
                    0,
                    libc::MSG_DONTWAIT,
                    nobody,
                    std::ptr::null_mut(),
                )
            },
        };
        match r {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Forgets the error of an interface that was down.
    pub fn take_error(&self) {
        let (mut error, mut length) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the kernel writes a number
        let _ = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                std::ptr::from_mut::<libc::c_int>(&mut error).cast(),
                &mut length,
            )
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a value that lives for the time of the call
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of_val(value) as libc::socklen_t,
        )
    })
}

fn check(r: libc::c_int) -> io::Result<()> {
    match r {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
