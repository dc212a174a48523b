//! How a run of several threads ends without losing a packet: whoever takes packets in stops first, and the others go
//! on until their queues are empty.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module's text. There are two rounds: packets stop coming in, and then queues are emptied; what that puts
/// into others' queues is there before the second round is over.
#[derive(Debug)]
pub struct Ending {
    asked: AtomicBool,
    /// Threads that still take packets in.
    receiving: AtomicUsize,
    /// Threads that may still hand packets to others.
    handing: AtomicUsize,
}

fn one_less(n: &AtomicUsize) {
    let _ = n.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
}

impl Ending {
    /// So many threads take packets in, and so many hand on what others have handed to them.
    pub fn new(receiving: usize, handing: usize) -> Ending {
        Ending {
            asked: AtomicBool::new(false),
            receiving: AtomicUsize::new(receiving),
            handing: AtomicUsize::new(handing),
        }
    }

    /// The run is to end.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Is it to end?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// One thread less takes packets in; all that it has handed over is in the queues. Each says so once.
    pub fn stopped(&self) {
        one_less(&self.receiving);
    }

    /// Nobody takes packets in any more: what queues have now are the last packets.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.receiving.load(Ordering::Acquire) == 0
    }

    /// One thread less hands on what others have handed to it: its queues were empty after [`Ending::is_closed`]. Each
    /// says so once.
    pub fn emptied(&self) {
        one_less(&self.handing);
    }

    /// A thread has failed: nobody waits for it, whatever is under way.
    pub fn abandon(&self) {
        self.ask();
        self.receiving.store(0, Ordering::Release);
        self.handing.store(0, Ordering::Release);
    }

    /// Nothing more comes: what a queue has now is the last of it.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_closed() && self.handing.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_when_all_have_stopped_and_have_emptied_their_queues() {
        let e = Ending::new(2, 2);
        assert!(!e.is_asked() && !e.is_over());
        e.ask();
        assert!(e.is_asked() && !e.is_closed());
        e.stopped();
        assert!(!e.is_closed());
        e.stopped();
        e.stopped();
        assert!(e.is_closed() && !e.is_over());
        e.emptied();
        assert!(!e.is_over());
        e.emptied();
        assert!(e.is_over());
    }

    #[test]
    fn nobody_waits_for_who_has_failed() {
        let e = Ending::new(2, 2);
        e.abandon();
        assert!(e.is_asked() && e.is_over());
    }

    #[test]
    fn with_a_dispatcher_nobody_hands_on() {
        let e = Ending::new(1, 0);
        assert!(!e.is_over());
        e.stopped();
        assert!(e.is_over());
    }
}
