//! Commands for a worker from other threads, looked at between two batches.
//!
//! A [`Mailbox`] belongs to the worker's thread; any number of threads have a [`Sender`]. As long as nobody sends, a
//! look costs one load of a word that nobody writes: no lock, no system call. A worker that sleeps is woken
//! ([`Mailbox::wakes`], [`Worker::wake_by`](crate::Worker::wake_by)).

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Most commands that wait for a worker; more are refused.
pub const MOST_COMMANDS: usize = 32;

/// Wakes a worker that sleeps.
#[derive(Debug, Clone)]
pub struct Wakes(Arc<EventFd>);

impl Wakes {
    /// Readable while there is something to wake up for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
    /// It has woken up: what there is to do is looked for now.
    pub(crate) fn clear(&self) {
        // nothing is there if somebody else was faster
        let _ = self.0.read();
    }
}

/// What a worker has been sent.
#[derive(Debug)]
pub struct Mailbox<C> {
    queue: Receiver<C>,
    waiting: Arc<AtomicUsize>,
    wakes: Wakes,
}

/// Sends commands to a worker.
#[derive(Debug)]
pub struct Sender<C> {
    queue: SyncSender<C>,
    waiting: Arc<AtomicUsize>,
    wakes: Wakes,
}

impl<C> Clone for Sender<C> {
    fn clone(&self) -> Self {
        Sender {
            queue: self.queue.clone(),
            waiting: self.waiting.clone(),
            wakes: self.wakes.clone(),
        }
    }
}

/// Why a command was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// [`MOST_COMMANDS`] wait already.
    #[error("{MOST_COMMANDS} commands wait for the worker already")]
    Full,
    /// The worker has ended.
    #[error("the worker has ended")]
    Ended,
}

/// A mailbox, and who sends to it.
///
/// # Errors
/// When the system has no descriptor left.
pub fn mailbox<C>() -> io::Result<(Sender<C>, Mailbox<C>)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let wakes = Wakes(Arc::new(EventFd::from_flags(flags)?));
    let (send, receive) = sync_channel(MOST_COMMANDS);
    let waiting = Arc::new(AtomicUsize::new(0));
    let sender = Sender {
        queue: send,
        waiting: waiting.clone(),
        wakes: wakes.clone(),
    };
    let mailbox = Mailbox {
        queue: receive,
        waiting,
        wakes,
    };
    Ok((sender, mailbox))
}

impl<C> Sender<C> {
    /// Has the worker do this behind the batch that it is at.
    ///
    /// # Errors
    /// When too many commands wait, or the worker has ended.
    pub fn send(&self, command: C) -> Result<(), SendError> {
        self.queue.try_send(command).map_err(|e| match e {
            TrySendError::Full(_) => SendError::Full,
            TrySendError::Disconnected(_) => SendError::Ended,
        })?;
        self.waiting.fetch_add(1, Ordering::Release);
        // a counter that is full is readable all the more
        let _ = self.wakes.0.write(1);
        Ok(())
    }
}

impl<C> Mailbox<C> {
    /// The next command, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<C> {
        match self.waiting.load(Ordering::Acquire) {
            0 => None,
            _ => self.take_one(),
        }
    }

    #[cold]
    fn take_one(&mut self) -> Option<C> {
        let command = self.queue.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(command)
    }

    /// What wakes the worker when a command comes.
    pub fn wakes(&self) -> Wakes {
        self.wakes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn readable(w: &Wakes) -> bool {
        let mut fds = [PollFd::new(w.descriptor(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn commands_wake_and_are_bounded() {
        let (send, mut mail) = mailbox().unwrap();
        let wakes = mail.wakes();
        assert_eq!(mail.take(), None);
        assert!(!readable(&wakes));
        for n in 0..MOST_COMMANDS {
            send.clone().send(n).unwrap();
        }
        assert_eq!(send.send(99), Err(SendError::Full));
        assert!(readable(&wakes));
        for n in 0..MOST_COMMANDS {
            assert_eq!(mail.take(), Some(n));
        }
        assert_eq!(mail.take(), None);
        wakes.clear();
        assert!(!readable(&wakes), "it may sleep again");
        drop(mail);
        assert_eq!(send.send(1), Err(SendError::Ended));
    }
}
