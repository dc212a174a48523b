//! How long packets are left with a port while queues behind it are full.
//!
//! What is left there costs nothing yet, and waits where the sender, or the device, sees it; what is taken and finds
//! its queue full has cost the most of its way and is lost all the same. So as long as no worker has room, nothing is
//! taken. Where only some have none, the others' packets wait behind theirs: this is right for a worker that is not
//! executed for a moment, and wrong for one that has more to do than it can. The difference shows in time: waiting for
//! some of the workers may take [`MOST`] at a stretch and, in the long run, one [`SHARE`]th of the time.

use std::time::{Duration, Instant};

/// Longest wait for some of the workers, all others having room. Systems leave a thread without a core for some tens of
/// milliseconds where others want it.
const MOST: Duration = Duration::from_millis(100);
/// One of so many parts of the time, in the long run.
const SHARE: u32 = 10;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Packets are left with the port since then.
    wait: Option<Wait>,
    /// Until when waits are accounted for, and what is used up of [`MOST`].
    seen: Option<Instant>,
    used: Duration,
    /// All waits that have ended.
    waited: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    /// Other workers have room.
    for_some: bool,
}

impl Patience {
    /// `behind` of so many workers have no room for a batch: are packets left with the port for now?
    pub fn waits(&mut self, behind: usize, workers: usize, now: Instant) -> bool {
        let seen = self.seen.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(seen);
        self.used = match self.wait {
            Some(w) if w.for_some => (self.used + passed).min(MOST),
            _ => self.used.saturating_sub(passed / SHARE),
        };
        let for_some = behind < workers;
        // a wait that has ended begins again when half of what there is has come back
        let most = if self.wait.is_some() { MOST } else { MOST / 2 };
        let waits = behind > 0 && (!for_some || self.used < most);
        if waits {
            let since = self.wait.map_or(now, |w| w.since);
            self.wait = Some(Wait { since, for_some });
        } else if let Some(w) = self.wait.take() {
            self.waited += now.saturating_duration_since(w.since);
        }
        waits
    }

    /// Packets are left with the port at the moment.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// How long packets have been left with the port, in all waits that have ended.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn all_workers_are_waited_for_as_long_as_it_takes() {
        let (mut p, t) = (Patience::default(), Instant::now());
        for s in 0..100 {
            assert!(p.waits(3, 3, t + Duration::from_secs(s)));
        }
        assert!(p.is_waiting() && p.waited() == Duration::ZERO);
        assert!(!p.waits(0, 3, t + Duration::from_secs(100)));
        assert_eq!(p.waited(), Duration::from_secs(100));
        // and it has not cost anything of what there is for some
        assert!(p.waits(1, 3, t + Duration::from_secs(101)));
    }

    #[test]
    fn some_are_waited_for_a_tenth_of_the_time() {
        let (mut p, t) = (Patience::default(), Instant::now());
        let mut waited = 0;
        for ms in 0..100_000 {
            let waits = p.waits(1, 2, t + MS * ms);
            assert!(ms >= 100 || waits, "at first for {MOST:?}");
            assert!(!(101..500).contains(&ms) || !waits);
            waited += u32::from(waits);
        }
        assert!((8_000..=11_000).contains(&waited), "{waited} of 100,000");
        assert!(p.waited() <= MS * waited + MS);
    }

    #[test]
    fn short_waits_add_up() {
        let (mut p, t) = (Patience::default(), Instant::now());
        // a worker that is behind for a third of the time
        let mut waited = 0;
        for ms in 0..90_000 {
            let behind = usize::from(ms % 3 == 0);
            waited += u32::from(p.waits(behind, 2, t + MS * ms));
        }
        assert!((8_000..=11_000).contains(&waited), "{waited} of 90,000");
        assert_eq!(p.waited(), MS * waited);
    }
}
