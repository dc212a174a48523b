//! Several sockets on one interface, each of which gets a part of the frames (`PACKET_FANOUT`): workers' queues.
//!
//! The kernel spreads frames by a hash of addresses and ports that is the same both ways. A socket joins when frames of
//! its interface come already; it is deaf until it has, or it would get all of them.

use crate::socket::Socket;
use onefold_port_interface::Interface;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// `PACKET_FANOUT_HASH`.
const BY_HASH: libc::c_int = 0;
/// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: what the sockets' own option says does not hold for a group.
const IGNORE_OUTGOING: libc::c_int = 0x4000;
/// Longest time for the sockets before to join.
const PATIENCE: Duration = Duration::from_secs(2);

/// A place in the group of an interface's sockets.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    group: u16,
    number: usize,
    joined: Arc<(Mutex<usize>, Condvar)>,
}

impl Member {
    /// The places of a group of so many sockets.
    pub fn group(interface: &Interface, sockets: usize) -> Vec<Member> {
        // groups are the namespace's: no other process's, and no other interface's
        let group = std::process::id()
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(interface.index.wrapping_mul(0x85eb_ca6b))
            >> 16;
        let joined = Arc::new((Mutex::new(0), Condvar::new()));
        let member = |number| Member {
            group: group as u16,
            number,
            joined: Arc::clone(&joined),
        };
        (0..sockets).map(member).collect()
    }

    /// Waits until those before it have joined for the first time: the kernel numbers sockets as they join.
    pub fn wait_for_turn(&self) {
        let (joined, changed) = &*self.joined;
        let mut n = joined.lock().unwrap_or_else(PoisonError::into_inner);
        // which one is which is a matter of speed: who has waited long enough joins
        while *n < self.number {
            let waited = changed.wait_timeout(n, PATIENCE);
            let (now, over) = waited.unwrap_or_else(PoisonError::into_inner);
            n = now;
            if over.timed_out() {
                break;
            }
        }
    }

    /// This one has joined, or will not.
    pub fn pass_turn(&self) {
        let (joined, changed) = &*self.joined;
        *joined.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        changed.notify_all();
    }

    /// Lets a socket get its part of the frames of an interface.
    ///
    /// # Errors
    /// What the system says: `EINVAL` while the interface is down.
    pub fn join(&self, socket: &Socket, index: u32) -> io::Result<()> {
        socket.deafen()?;
        socket.bind(index, true)?;
        let request = |flags| (BY_HASH | flags) << 16 | libc::c_int::from(self.group);
        match socket.set_packet(libc::PACKET_FANOUT, request(IGNORE_OUTGOING)) {
            Ok(()) => socket.hear(),
            // older kernels do not know the flag
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                socket.set_packet(libc::PACKET_FANOUT, request(0))?;
                socket.hear_incoming()
            }
            Err(e) => Err(e),
        }
    }
}
