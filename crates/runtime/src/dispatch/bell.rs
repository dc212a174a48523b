//! How one thread wakes another one that sleeps for want of packets.
//!
//! Whoever is about to sleep says so first ([`Bell::listen`]) and looks at its queues once more; whoever has put
//! something there looks afterwards whether somebody sleeps ([`Bell::ring`]). One of the two sees the other, so that
//! nobody sleeps over packets; while nobody sleeps there is no system call.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// See the module's text. One thread listens, any number ring.
#[derive(Debug)]
pub(crate) struct Bell {
    event: EventFd,
    listens: AtomicBool,
}

impl Bell {
    /// Nobody listens yet.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn new() -> io::Result<Bell> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Bell {
            event: EventFd::from_value_and_flags(0, flags)?,
            listens: AtomicBool::new(false),
        })
    }

    /// Something was put into a queue of who listens: it is woken if it sleeps.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.listens.load(Ordering::Relaxed) && self.listens.swap(false, Ordering::AcqRel) {
            // a counter that is full is readable, too
            let _ = self.event.write(1);
        }
    }

    /// This thread is about to sleep until the descriptor is readable; it looks at its queues after this call, and if
    /// something is there it calls [`Bell::ring`] itself.
    #[inline]
    pub fn listen(&self) -> BorrowedFd<'_> {
        self.listens.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.event.as_fd()
    }

    /// This thread is awake.
    pub fn wake(&self) {
        self.listens.store(false, Ordering::Relaxed);
        // it may not have been rung
        let _ = self.event.read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn is_readable(b: &Bell) -> bool {
        let mut all = [PollFd::new(b.event.as_fd(), PollFlags::POLLIN)];
        poll(&mut all, PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn rings_for_who_listens_only() {
        let b = Bell::new().unwrap();
        b.ring();
        assert!(!is_readable(&b));
        b.listen();
        b.ring();
        b.ring();
        assert!(is_readable(&b));
        b.wake();
        assert!(!is_readable(&b));
        b.listen();
        b.wake();
        b.ring();
        assert!(!is_readable(&b));
    }
}
