//! The control socket of a running chain.
//!
//! `onefold run` listens on a Unix socket ([`Server`]); `onefold status`, `top`, `reload` and others talk to it
//! ([`Client`]). A request is one line of JSON ([`Request`]), answered by one line: `{"ok": true, ...}`, or `{"ok":
//! false, "error": {"kind", "message"}}` ([`Failure`]). A request for packets is answered by a line for each packet
//! before that. Lengths of lines and the number of clients are bounded ([`MAX_REQUEST`], [`MAX_REPLY`],
//! [`MAX_CLIENTS`]).
//!
//! Who may connect: the user that runs the chain, and root. The socket's mode is 0600, and the server asks the system
//! who is at the other end.
#![forbid(unsafe_code)]

mod client;
mod http;
mod protocol;
mod server;
mod socket;

pub use client::{Client, ClientError};
pub use http::{MAX_HTTP_REQUEST, MetricsServer};
pub use protocol::{Change, Edit, EditKind, Failure, Kind, Matching, Request, Tracing};
pub use server::{Handler, Server, Stream};
pub use socket::{Found, SocketError, default_folder, find, running};

/// Longest request, in bytes.
pub const MAX_REQUEST: usize = 1 << 20;
/// Longest line of a reply, in bytes.
pub const MAX_REPLY: usize = 64 << 20;
/// Most clients at a time; more are told so and sent away.
pub const MAX_CLIENTS: usize = 16;
