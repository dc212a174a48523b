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

    /// Frames that came in at the interface arrive, and none that leave there: a filter of the kernel's (classic BPF)
    /// looks at each frame's direction.
    ///
    /// # Errors
    /// What the system says.
    pub fn hear_incoming(&self) -> io::Result<()> {
        // the byte SKF_AD_PKTTYPE of what is beside the packet; is it PACKET_OUTGOING? then no byte is kept, else all
        let kind = libc::SKF_AD_OFF
            .wrapping_add(libc::SKF_AD_PKTTYPE)
            .cast_unsigned();
        let one = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut code = [
            one(0x30, 0, 0, kind),
            one(0x15, 0, 1, u32::from(libc::PACKET_OUTGOING)),
            one(0x06, 0, 0, 0),
            one(0x06, 0, 0, u32::MAX),
        ];
        let program = libc::sock_fprog {
            len: code.len() as libc::c_ushort,
            filter: code.as_mut_ptr(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, PacketPort};
    use onefold_packet::{Packet, Timestamp};
    use onefold_port_interface::Interface;
    use onefold_runtime::Port;
    use onefold_testing::net::Net;
    use std::time::{Duration, Instant};

    /// Payloads of frames of the test's own type that arrive within a moment, until one is the last one.
    fn payloads(s: &Socket, last: u8) -> Vec<u8> {
        let (mut all, mut buf) = (Vec::new(), [0; 2048]);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) && all.last() != Some(&last) {
            match s.receive(&mut buf) {
                Ok(n) if n > 14 && buf[12..14] == [0x88, 0xb5] => all.push(buf[14]),
                Ok(_) => {}
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        all
    }

    /// What kernels do who do not know `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: without the filter both frames arrive.
    #[test]
    fn frames_that_leave_do_not_arrive() {
        let Some(net) = Net::new(&["a", "b"]) else {
            return;
        };
        net.pair(("a", "va"), ("b", "vb"));
        let open = |host: &str, name: &str| {
            net.within(host, || {
                let i = Interface::find(name).expect("the interface");
                let mut p =
                    PacketPort::open(host, i.clone(), Mode::Ring(crate::SLOTS)).expect("a port");
                p.start(false).expect("it begins");
                (p, i.index)
            })
        };
        let ((mut a, index), (mut b, _)) = (open("a", "va"), open("b", "vb"));
        let socket = |filtered: bool| {
            net.within("a", || {
                let s = Socket::open(0).expect("a socket");
                if filtered {
                    s.hear_incoming().expect("a filter");
                }
                s.bind(index, true).expect("bound");
                s
            })
        };
        let (all, incoming) = (socket(false), socket(true));
        let send = |port: &mut PacketPort, payload: u8| {
            let mut frame = vec![0xff; 64];
            frame[12..15].copy_from_slice(&[0x88, 0xb5, payload]);
            let mut one = vec![Box::new(Packet::from_slice(&frame))];
            port.transmit(&mut one, Timestamp::ZERO).expect("it leaves");
        };
        send(&mut a, 1);
        send(&mut b, 2);
        assert_eq!(payloads(&all, 2), [1, 2]);
        assert_eq!(payloads(&incoming, 2), [2]);
    }
}
