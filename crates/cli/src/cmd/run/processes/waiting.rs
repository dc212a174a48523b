//! How a process waits before it sleeps: to be woken costs whoever wakes it.

use std::time::{Duration, Instant};

/// Who is told to yield, and finds nothing to do, yields for so long before it sleeps: to wake it costs whoever brings
/// packets a system call and an interrupt to another core, some 10 us of what packets are brought in, which come all
/// the later for it. Three firewalls on one core slept 22,000 times a second, and had 20% of it left, while the port
/// was too slow for them (decision 87).
const LINGER: Duration = Duration::from_micros(50);

/// Lets others have the core until there is something to do, for [`LINGER`] at most. Is there?
pub fn lingers(awake: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    lingers_by(|| begun.elapsed(), awake)
}

/// The same by this clock.
fn lingers_by(elapsed: impl Fn() -> Duration, awake: impl Fn() -> bool) -> bool {
    // Bound: LINGER, and somebody else's turn
    while elapsed() < LINGER {
        std::thread::yield_now();
        if awake() {
            return true;
        }
    }
    false
}

/// Looks again and again before it sleeps, for as long as that has been worth it lately.
pub struct Spins {
    most: u32,
    now: u32,
}

impl Spins {
    /// So often at most; 0: not at all.
    pub fn new(most: u32) -> Spins {
        Spins { most, now: most }
    }

    /// Looks whether it is so, for a while. Is it?
    pub fn until(&mut self, is: impl Fn() -> bool) -> bool {
        for _ in 0..self.now {
            if is() {
                self.now = (self.now * 2).min(self.most);
                return true;
            }
            std::hint::spin_loop();
        }
        // half as long the next time, but never so short that it cannot be found out again
        self.now = (self.now / 2).max(self.most.min(32));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Looks, of which one finds something.
    struct Looks(Cell<u32>, u32);

    impl Looks {
        fn found_at(n: u32) -> Looks {
            Looks(Cell::new(0), n)
        }
        fn look(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() == self.1
        }
    }

    #[test]
    fn who_lingers_looks_until_there_is_something_or_its_time_is_over() {
        let clock = |step: u64| {
            let now = Cell::new(0);
            move || Duration::from_micros(now.replace(now.get() + step))
        };
        // 0, 10, 20, 30 and 40 us are within its time
        for (found, looks, any) in [(1, 1, true), (5, 5, true), (6, 5, false), (0, 5, false)] {
            let l = Looks::found_at(found);
            assert_eq!(lingers_by(clock(10), || l.look()), any);
            assert_eq!(l.0.get(), looks, "found at {found}");
        }
        // who was kept from the core for longer than that has looked
        let l = Looks::found_at(1);
        assert!(lingers_by(clock(10_000), || l.look()));
    }

    #[test]
    fn who_spins_looks_more_often_where_that_was_worth_it() {
        let never = |s: &mut Spins| {
            let l = Looks::found_at(0);
            assert!(!s.until(|| l.look()));
            l.0.get()
        };
        let mut s = Spins::new(4096);
        let all: Vec<u32> = (0..9).map(|_| never(&mut s)).collect();
        assert_eq!(all, [4096, 2048, 1024, 512, 256, 128, 64, 32, 32]);
        for expected in [64, 128, 256] {
            assert!(s.until(|| true));
            assert_eq!(s.now, expected);
        }
        let mut none = Spins::new(0);
        assert_eq!([never(&mut none), never(&mut none)], [0, 0]);
    }
}
