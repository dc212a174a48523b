//! How a process sleeps.

use super::{LONGEST_SLEEP, Seat};
use crate::atomics::Native;
use crate::bell;
use crate::futex;
use crate::region::NfBlock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// By the word that others ring at.
fn by_word(block: &NfBlock, most: Duration) {
    futex::wait(block.sleeping(), bell::ASLEEP, most);
}

impl Seat {
    /// Sleeps until somebody rings, for `most`, unless something is there: in one of its inputs, or by `awake`, which
    /// is asked once others see that it sleeps. `wait` sleeps for so long, or until the word changes.
    pub fn sleep_by(
        &self,
        most: Duration,
        awake: impl Fn() -> bool,
        wait: impl FnOnce(&NfBlock, Duration),
    ) {
        self.sleep_while(most, || self.is_idle() && !awake(), wait);
    }

    /// [`Seat::sleep_by`] for who waits for its word alone.
    pub fn sleep(&self, most: Duration, awake: impl Fn() -> bool) {
        self.sleep_by(most, awake, by_word);
    }

    /// [`Seat::sleep`] for who takes nothing from some of its inputs at present: these do not keep it awake.
    pub fn sleep_despite(
        &self,
        most: Duration,
        waits: impl Fn(usize) -> bool,
        awake: impl Fn() -> bool,
    ) {
        let (inputs, _) = self.ends();
        let quiet = || (0..inputs).all(|i| waits(i) || self.is_empty(i)) && !awake();
        self.sleep_while(most, quiet, by_word);
    }

    /// As long as `quiet`, which is asked once others see that it sleeps.
    fn sleep_while(
        &self,
        most: Duration,
        quiet: impl Fn() -> bool,
        wait: impl FnOnce(&NfBlock, Duration),
    ) {
        let Some(block) = self.block() else { return };
        bell::lie_down::<Native>(block.sleeping());
        if quiet() {
            wait(block, most.min(LONGEST_SLEEP));
            let sleeps = &block.said().sleeps;
            sleeps.store(sleeps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        bell::get_up::<Native>(block.sleeping());
    }

    /// Sleeps, whatever waits, as long as the launcher wants it to ([`Orders::relinquish`](crate::Orders::relinquish))
    /// and `stop` does not say otherwise. Did it?
    #[inline]
    pub fn relinquish(&self, stop: impl Fn() -> bool) -> bool {
        let Some(block) = self.block() else {
            return false;
        };
        let wanted = || block.orders().relinquish.load(Ordering::Relaxed) != 0;
        if !wanted() {
            return false;
        }
        // Bound: as long as the launcher says; each round is a sleep
        while wanted() && !stop() {
            bell::lie_down::<Native>(block.sleeping());
            if wanted() && !stop() {
                futex::wait(block.sleeping(), bell::ASLEEP, LONGEST_SLEEP);
            }
            bell::get_up::<Native>(block.sleeping());
        }
        true
    }
}
