//! Many frames with one system call: `recvmmsg` and `sendmmsg`, whose vectors are made once (SCC's multiplexed system
//! call: read a vector, process it, write a vector; nothing is allocated and nobody waits in between).
#![allow(unsafe_code)]

use crate::frame::{Tag, Whole};
use crate::offload::{HEADER, MAX_FRAME, Offload};
use crate::socket::Socket;
use std::io;
use std::mem::{size_of, zeroed};

/// Most frames with one call.
pub const MAX_BATCH: usize = 256;
/// Bytes for the kernel's remark about a frame: `struct tpacket_auxdata` and its header.
const REMARK: usize = 64;
/// Bytes of a frame and what is in front of it, so that buffers begin in different sets of the caches.
const BUFFER: usize = (HEADER + MAX_FRAME).next_multiple_of(64) + 64;

/// Room for a remark, aligned as its header must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Remark([u8; REMARK]);

/// Vectors that frames are received into.
pub struct Receiver {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    remarks: Box<[Remark]>,
    /// One after the other; memory that no frame has been long enough for is never touched.
    buffers: Box<[u8]>,
    /// Frames that have come, and the first of them that has not been taken.
    came: usize,
    next: usize,
}

// SAFETY: the pointers in the vectors lead to the boxes beside them, which belong to the receiver alone
unsafe impl Send for Receiver {}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({} of {})", self.next, self.came)
    }
}

impl Receiver {
    /// For so many frames with one call, 1 to [`MAX_BATCH`].
    pub fn new(batch: usize) -> Receiver {
        let n = batch.clamp(1, MAX_BATCH);
        // SAFETY: all zero is a valid header, without a name, parts and a remark
        let headers = vec![unsafe { zeroed::<libc::mmsghdr>() }; n];
        let part = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut r = Receiver {
            headers: headers.into(),
            parts: vec![part; n].into(),
            remarks: vec![Remark([0; REMARK]); n].into(),
            buffers: vec![0u8; n * BUFFER].into(),
            came: 0,
            next: 0,
        };
        let parts = r.parts.iter_mut().zip(r.buffers.chunks_exact_mut(BUFFER));
        let rows = parts.zip(r.headers.iter_mut().zip(r.remarks.iter_mut()));
        for ((part, buffer), (h, remark)) in rows {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = HEADER + MAX_FRAME;
            h.msg_hdr.msg_iov = part;
            h.msg_hdr.msg_iovlen = 1;
            h.msg_hdr.msg_control = remark.0.as_mut_ptr().cast();
        }
        r
    }

    /// Has everything been taken that has come?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == self.came
    }

    /// Forgets what has come.
    pub fn clear(&mut self) {
        (self.came, self.next) = (0, 0);
    }

    /// Receives up to `n` frames; does not wait. Nothing of what came before may be left.
    ///
    /// # Errors
    /// What the system says; that nothing is there is none.
    pub fn receive(&mut self, socket: &Socket, n: usize) -> io::Result<()> {
        self.clear();
        let n = n.min(self.headers.len());
        for h in self.headers.iter_mut().take(n) {
            // the kernel has written how much of it was used
            h.msg_hdr.msg_controllen = REMARK as _;
        }
        // SAFETY: the headers lead to parts, buffers and remarks of the lengths that they say, in boxes that do not
        // move and that nobody else uses during the call
        let got = unsafe {
            libc::recvmmsg(
                socket.raw(),
                self.headers.as_mut_ptr(),
                n as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(got) {
            Ok(got) => self.came = got.min(n),
            Err(_) => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::WouldBlock {
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// The next frame that has come. `Err`: it was longer than any frame may be.
    #[inline]
    pub fn next(&mut self) -> Option<Result<Whole<'_>, ()>> {
        if self.is_empty() {
            return None;
        }
        let i = self.next;
        self.next += 1;
        let h = self.headers.get(i)?;
        let bytes = self.buffers.get(i * BUFFER..)?.get(..h.msg_len as usize)?;
        let cut = h.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        let (Some((header, frame)), false) = (bytes.split_first_chunk::<HEADER>(), cut) else {
            return Some(Err(()));
        };
        Some(Ok(Whole {
            frame,
            offload: Offload::read(header),
            tag: tag(&h.msg_hdr),
        }))
    }
}

/// The tag of a frame, from the kernel's remark about it.
fn tag(h: &libc::msghdr) -> Tag {
    // SAFETY: the kernel has filled the remark's buffer, and said how far
    let mut c = unsafe { libc::CMSG_FIRSTHDR(h) };
    // Bound: one remark was asked for; they cannot be more than fit into the buffer
    for _ in 0..REMARK / size_of::<libc::cmsghdr>() {
        // SAFETY: the header is null, or lies within the buffer
        let Some(head) = (unsafe { c.as_ref() }) else {
            break;
        };
        if head.cmsg_level == libc::SOL_PACKET && head.cmsg_type == libc::PACKET_AUXDATA {
            // SAFETY: what is behind such a header is an `auxdata`; it may not be aligned
            let a = unsafe {
                libc::CMSG_DATA(c)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned()
            };
            return Tag::new(a.tp_status, a.tp_vlan_tci, a.tp_vlan_tpid);
        }
        // SAFETY: as above
        c = unsafe { libc::CMSG_NXTHDR(h, c) };
    }
    Tag::default()
}

/// Vectors that frames are sent from: they lead to the frames where they lie.
pub struct Sender {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
}

// SAFETY: the pointers to frames are used during the call that they are written for only; the others lead to the box
// beside them
unsafe impl Send for Sender {}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({})", self.headers.len())
    }
}

impl Sender {
    /// For so many frames with one call, 1 to [`MAX_BATCH`].
    pub fn new(batch: usize) -> Sender {
        let n = batch.clamp(1, MAX_BATCH);
        // SAFETY: all zero is a valid header, without a name, parts and a remark
        let headers = vec![unsafe { zeroed::<libc::mmsghdr>() }; n];
        let part = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut s = Sender {
            headers: headers.into(),
            parts: vec![part; n].into(),
        };
        for (h, part) in s.headers.iter_mut().zip(s.parts.iter_mut()) {
            h.msg_hdr.msg_iov = part;
            h.msg_hdr.msg_iovlen = 1;
        }
        s
    }

    /// Most frames with one call.
    pub fn most(&self) -> usize {
        self.headers.len()
    }

    /// Sends frames, [`Sender::most`] at most, in order; does not wait. How many were taken: fewer than there are, if
    /// the next one was not. No frames: 0.
    ///
    /// # Errors
    /// Why the first one was not taken.
    pub fn send<'a>(
        &mut self,
        socket: &Socket,
        frames: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<usize> {
        let mut n = 0;
        for (part, frame) in self.parts.iter_mut().zip(frames) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
            n += 1;
        }
        if n == 0 {
            return Ok(0);
        }
        // SAFETY: the headers lead to parts of the lengths of the frames, which outlive the call; the kernel only
        // reads them
        let sent = unsafe {
            libc::sendmmsg(
                socket.raw(),
                self.headers.as_mut_ptr(),
                n,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
