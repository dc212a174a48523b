//! Sockets that take a capability.

use crate::protocol::{Request, ask};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::os::fd::OwnedFd;

/// A packet socket (`packet(7)`) that gets nothing yet, with buffers of so many bytes, beyond the system's limit where
/// that is allowed. Zero: the system's own.
///
/// # Errors
/// `EPERM` without CAP_NET_RAW, `EAFNOSUPPORT` where the kernel has none.
pub fn packet_socket(buffers: usize) -> io::Result<OwnedFd> {
    match ask(&Request::PacketSocket(buffers), &[]) {
        Some(answer) => answer.map_err(|a| a.error),
        None => make_packet_socket(buffers),
    }
}

/// A socket of AF_XDP, of no interface yet.
///
/// # Errors
/// `EPERM` without CAP_NET_RAW, `EAFNOSUPPORT` where the kernel has none.
pub fn xdp_socket() -> io::Result<OwnedFd> {
    match ask(&Request::XdpSocket, &[]) {
        Some(answer) => answer.map_err(|a| a.error),
        None => make_xdp_socket(),
    }
}

/// As [`packet_socket`], never asking.
///
/// # Errors
/// As there.
pub fn make_packet_socket(buffers: usize) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let s = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    if buffers > 0 {
        // less is no error: frames are lost, and counted, sooner
        if sockopt::set_socket_recv_buffer_size_force(&s, buffers).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&s, buffers);
        }
        if sockopt::set_socket_send_buffer_size_force(&s, buffers).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&s, buffers);
        }
    }
    Ok(s)
}

/// As [`xdp_socket`], never asking.
///
/// # Errors
/// As there.
pub fn make_xdp_socket() -> io::Result<OwnedFd> {
    let family = AddressFamily::from_raw(libc::AF_XDP as u16);
    Ok(socket_with(
        family,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?)
}
