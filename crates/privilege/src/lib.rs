//! Privilege, given up by the process that takes packets.
//!
//! - [`enter`] gives it up for good: capabilities, files
//!   ([Landlock](https://docs.kernel.org/userspace-api/landlock.html)), system calls that a data plane never makes
//!   (seccomp), and the way back (`PR_SET_NO_NEW_PRIVS`).
//! - What needs privilege later (a socket of an interface that has come back, a map or program of XDP) is asked of a
//!   small process that keeps it: [`Helper`] is this side, [`serve`] the other one. It makes nothing but descriptors,
//!   of the kinds that [`Request`] has, and passes them over a socket pair (`SCM_RIGHTS`).
//! - [`packet_socket`] and [`xdp_socket`] make sockets here, or ask, if there is somebody to ask; `onefold-bpf` does
//!   the same for what is its own.
//!
//! The helper ends when the socket pair is closed, by whatever end of the process that asks.
#![forbid(unsafe_code)]

mod protocol;
mod sandbox;
mod sockets;

pub use protocol::{
    Answer, Helper, MAX_PAYLOAD, Request, ask, is_asked, is_gone, serve, set_helper,
};
pub use sandbox::{Files, Held, Keeps, Policy, Sandbox, SandboxError, enter, no_new_privileges};
pub use sockets::{make_packet_socket, make_xdp_socket, packet_socket, xdp_socket};
