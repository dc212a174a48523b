//! What a program does while the rings that it writes to are full.

use super::Native;
use crate::region::WhenFull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// While packets wait for room, nothing more is taken in for so long, where none may be lost.
const BLOCKED: Duration = Duration::from_millis(1);

impl Native {
    /// Packets that wait for room in a ring.
    pub(super) fn backlog(&self) -> usize {
        let (_, outputs) = self.seat.ends();
        (0..outputs).map(|o| self.seat.backlog(o)).sum()
    }

    /// Is room waited for, so that nothing is to be taken in? Recorded packets are never dropped: after a while more
    /// are taken in, or two programs could wait for each other's full rings for ever.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
            .is_some_and(|since| self.live || since.elapsed() < BLOCKED)
    }

    /// What waits for room is dropped, and counted with its ring.
    pub(super) fn give_up(&mut self) {
        let (_, outputs) = self.seat.ends();
        let given: u64 = (0..outputs).map(|o| self.seat.give_up(o)).sum();
        self.full += given;
        self.sent = self.sent.saturating_sub(given);
    }

    /// Inputs that lead to full rings wait, and what has waited there for too long is dropped.
    pub(super) fn give_up_by_way(&mut self) {
        let seat = &self.seat;
        self.ways.look(Instant::now(), |o| seat.backlog(o));
        let (_, outputs) = self.seat.ends();
        let over = (0..outputs).filter(|o| self.ways.is_over(*o));
        let all: u64 = over.map(|o| self.seat.give_up(o)).sum();
        self.full += all;
        self.sent = self.sent.saturating_sub(all);
    }

    /// Others see what was sent, and what waits.
    pub(super) fn tell_sent(&mut self, held: usize) {
        let mut waiting = self.backlog();
        let full = self.seat.block().map(|b| b.orders().full());
        if waiting == 0 {
            self.blocked = None;
            self.ways.open();
        } else if self.live && full == Some(WhenFull::ByWay) {
            self.blocked = None;
            self.give_up_by_way();
            waiting = self.backlog();
        } else {
            self.ways.open();
            let since = *self.blocked.get_or_insert_with(Instant::now);
            if self.live && since.elapsed() >= full.unwrap_or_default().patience() {
                self.give_up();
                (waiting, self.blocked) = (0, None);
            }
        }
        let waiting = (waiting + held) as u64;
        if let Some(b) = self.seat.block() {
            let said = b.said();
            said.waiting.store(waiting, Ordering::Release);
            said.received.store(self.received, Ordering::Relaxed);
            said.sent.store(self.sent, Ordering::Relaxed);
            said.lost.store(self.full, Ordering::Relaxed);
        }
        self.seat.release();
        self.seat.tidy();
    }
}
