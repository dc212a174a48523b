//! What a worker has in the place of a port whose packets a dispatcher takes.

use super::bell::Bell;
use super::check::Check;
use crate::port::{LinkState, Loss, Port, PortError};
use onefold_packet::{Pkt, Timestamp};
use onefold_table::{RingConsumer, RingProducer};
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a packet that leaves does not get to the dispatcher.
pub(crate) const TO_DISPATCHER_FULL: &str = "queue to the dispatcher full";
/// A port's counter of packets that have come to this worker, or left it, although another one has their flow.
pub const AT_WRONG_WORKER: &str = "at the wrong worker";

/// What the ports of one worker share.
#[derive(Debug)]
pub(crate) struct WorkerEnd {
    /// Wakes the worker.
    pub bell: Bell,
    /// Packets that it has got and neither sent nor given back. Its own ports count only.
    owed: AtomicI64,
}

impl WorkerEnd {
    pub fn new() -> std::io::Result<WorkerEnd> {
        Ok(WorkerEnd {
            bell: Bell::new()?,
            owed: AtomicI64::new(0),
        })
    }
}

/// What workers hear of the port itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Remarks so far.
    number: AtomicU64,
    /// The last one, and the link's state since.
    last: Mutex<(String, LinkState)>,
}

impl Told {
    /// Something has changed.
    pub fn tell(&self, text: &str, link: LinkState) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (text.to_string(), link);
        self.number.fetch_add(1, Ordering::Release);
    }
}

/// The queues of a port and a worker.
#[derive(Debug)]
pub(crate) struct Rings {
    /// Packets for the worker.
    pub arriving: RingConsumer<Pkt>,
    /// Packets that leave.
    pub leaving: RingProducer<Pkt>,
    /// Buffers that go back.
    pub empty: RingProducer<Pkt>,
}

/// See the module's text.
#[derive(Debug)]
pub struct RingPort {
    rings: Rings,
    end: Arc<WorkerEnd>,
    dispatcher: Arc<Bell>,
    told: Arc<Told>,
    check: Check,
    /// Packets arrive in frames that a device waits for.
    lends: bool,
    /// Remarks that were heard.
    heard: u64,
    link: LinkState,
    listens: Cell<bool>,
    /// Found the queue to the dispatcher full.
    full: u64,
}

impl RingPort {
    pub(crate) fn new(
        rings: Rings,
        (end, dispatcher, told): (Arc<WorkerEnd>, Arc<Bell>, Arc<Told>),
        check: Check,
        lends: bool,
    ) -> RingPort {
        RingPort {
            rings,
            end,
            dispatcher,
            told,
            check,
            lends,
            heard: 0,
            link: LinkState::Up,
            listens: Cell::new(false),
            full: 0,
        }
    }

    /// Buffers go back, at most `n`: as many as the worker has got and not sent on.
    #[inline]
    fn give_back(&mut self, free: &mut Vec<Pkt>, n: usize) {
        let owed = self.end.owed.load(Ordering::Relaxed);
        let n = usize::try_from(owed).unwrap_or(0).min(n).min(free.len());
        if n > 0 {
            let mut back = free.split_off(free.len() - n);
            let given = self.rings.empty.push_all(&mut back);
            free.append(&mut back);
            self.owe(-(given as i64));
        }
    }

    /// The worker alone writes it: no exchange is needed.
    #[inline]
    fn owe(&self, more: i64) {
        let owed = self.end.owed.load(Ordering::Relaxed);
        self.end.owed.store(owed + more, Ordering::Relaxed);
    }
}

impl Port for RingPort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    fn lends_frames(&self) -> bool {
        self.lends
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        if self.listens.replace(false) {
            self.end.bell.wake();
        }
        let before = batch.len();
        let came = self.rings.arriving.take(batch, n);
        if came > 0 {
            self.owe(came as i64);
            self.check.came(batch.get(before..).unwrap_or_default());
        }
        // no buffers are needed for what has come
        self.give_back(free, n);
        Ok(())
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        self.check.leave(packets);
        let sent = self.rings.leaving.push_all(packets);
        self.full += packets.len() as u64;
        self.owe(-(sent as i64));
        self.dispatcher.ring();
        Ok(())
    }

    /// The worker is about to sleep.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listens.set(true);
        let fd = self.end.bell.listen();
        if !self.rings.arriving.is_empty() {
            self.end.bell.ring();
        }
        Some(fd)
    }

    fn attend(&mut self) -> Option<String> {
        let number = self.told.number.load(Ordering::Acquire);
        if number == self.heard {
            return None;
        }
        self.heard = number;
        let last = self
            .told
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.link = last.1;
        Some(last.0.clone())
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn losses(&self) -> Vec<Loss> {
        let full = Loss {
            reason: TO_DISPATCHER_FULL,
            packets: self.full,
        };
        Some(full).filter(|l| l.packets > 0).into_iter().collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let wrong = (AT_WRONG_WORKER, self.check.wrong);
        Some(wrong).filter(|c| c.1 > 0).into_iter().collect()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.dispatcher.ring();
        Ok(())
    }
}
