//! How long packets are left with a port while queues behind it are full.
//!
//! What is left there costs nothing yet, and waits where the sender, or the device, sees it; what is taken and finds
//! its queue full has cost the most of its way and is lost all the same. So as long as no worker that packets go to
//! has room, nothing is taken. Where only some have none, the others' packets wait behind theirs: this is right for a
//! worker that is not executed for a moment, and wrong for one that has more to do than it can. The difference shows
//! in time. Waiting is charged with the share of packets whose workers have room ([`Shares`]): nothing while all
//! packets go to one worker and others stand by, half of the time where half of the packets could go on. Of what is
//! charged there may be [`MOST`] at a stretch and, in the long run, one [`SHARE`]th of the time. A wait ends as soon as
//! the worker has taken a batch; one that has taken nothing for [`STALLED`] may never do so, and from then on all of
//! the time is charged.

use std::time::{Duration, Instant};

/// Longest wait at a stretch while nearly all packets could go on. Systems leave a thread without a core for some tens
/// of milliseconds where others want it, and for a few hundred where many do.
const MOST: Duration = Duration::from_millis(250);
/// A worker that takes no packet for so long may be one that never does again.
const STALLED: Duration = Duration::from_millis(100);
/// One of so many parts of the time, in the long run.
const SHARE: u32 = 10;
/// Packets between looks at how they are shared.
const WINDOW: u32 = 4096;

/// How the last [`WINDOW`] packets of a port were shared among workers.
#[derive(Debug)]
pub(super) struct Shares {
    /// By worker: packets of this window, and of the last one.
    now: Vec<u32>,
    last: Vec<u32>,
    seen: u32,
}

impl Shares {
    /// Among so many workers. Until packets have come, all are taken to have as many.
    pub fn new(workers: usize) -> Shares {
        Shares {
            now: vec![0; workers],
            last: vec![1; workers],
            seen: 0,
        }
    }

    /// A worker is handed so many (at most a batch).
    #[inline]
    pub fn count(&mut self, worker: usize, packets: usize) {
        let n = u32::try_from(packets).unwrap_or(WINDOW).min(WINDOW);
        if let Some(now) = self.now.get_mut(worker) {
            *now += n;
        }
        self.seen += n;
        if self.seen >= WINDOW {
            self.seen = 0;
            std::mem::swap(&mut self.now, &mut self.last);
            self.now.fill(0);
        }
    }

    /// The share of packets, 0 to 1, of workers that have room.
    pub fn of(&self, has_room: impl Fn(usize) -> bool) -> f64 {
        let (mut some, mut all) = (0.0, 0.0);
        for (w, &n) in self.last.iter().enumerate() {
            all += f64::from(n);
            some += if has_room(w) { f64::from(n) } else { 0.0 };
        }
        some / f64::max(all, 1.0)
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Packets are left with the port since then.
    wait: Option<Wait>,
    /// Until when waits are accounted for, and what is used up of [`MOST`].
    seen: Option<Instant>,
    used: Duration,
    /// All of it was used up, and half of it has not come back yet.
    exhausted: bool,
    /// All waits that have ended.
    waited: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    /// The share of packets that could go on, 0 to 1; `None`: no worker has room.
    others: Option<f64>,
}

impl Patience {
    /// Some workers have no room for a batch (`behind`), or packets wait already. `others`: of the port's packets such
    /// a share (0 to 1) could go on; `None`: no worker has room. Are packets left with the port for now?
    pub fn waits(&mut self, behind: bool, others: Option<f64>, now: Instant) -> bool {
        let seen = self.seen.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(seen);
        self.used = match self.wait {
            None => self.used.saturating_sub(passed / SHARE),
            Some(Wait { others: None, .. }) => self.used,
            Some(Wait { since, .. }) if now.saturating_duration_since(since) > STALLED => {
                self.used + passed
            }
            Some(Wait {
                others: Some(o), ..
            }) => self.used + passed.mul_f64(o),
        };
        self.used = self.used.min(MOST);
        self.exhausted = self.used >= MOST || (self.exhausted && self.used > MOST / 2);
        let waits = behind && (others.is_none() || !self.exhausted);
        if waits {
            let since = self.wait.map_or(now, |w| w.since);
            let others = others.map(|o| o.clamp(0.0, 1.0));
            self.wait = Some(Wait { since, others });
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

    /// How long packets have been left with the port so far.
    pub fn waited(&self, now: Instant) -> Duration {
        let wait = self.wait.map(|w| now.saturating_duration_since(w.since));
        self.waited + wait.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn where_no_worker_has_room_it_takes_as_long_as_it_takes() {
        let (mut p, t) = (Patience::default(), Instant::now());
        for s in 0..100 {
            assert!(p.waits(true, None, t + Duration::from_secs(s)));
        }
        assert!(p.is_waiting() && p.waited(t + Duration::from_secs(99)) == Duration::from_secs(99));
        assert!(!p.waits(false, Some(1.0), t + Duration::from_secs(100)));
        assert_eq!(
            p.waited(t + Duration::from_secs(200)),
            Duration::from_secs(100)
        );
        // and it has not cost anything of what there is for some
        assert!(p.waits(true, Some(1.0), t + Duration::from_secs(101)));
    }

    #[test]
    fn some_are_waited_for_a_tenth_of_the_time() {
        let (mut p, t) = (Patience::default(), Instant::now());
        let mut waited = 0;
        for ms in 0..100_000 {
            let waits = p.waits(true, Some(1.0), t + MS * ms);
            assert!(ms >= 250 || waits, "at first for {MOST:?}");
            assert!(!(251..1250).contains(&ms) || !waits);
            waited += u32::from(waits);
        }
        assert!((8_000..=11_000).contains(&waited), "{waited} of 100,000");
        assert!(p.waited(t + MS * 100_000) <= MS * waited + MS);
    }

    /// Of so many milliseconds of waits that last one each and follow one another: how many were waited.
    fn of_short_waits(others: f64, ms: u32) -> usize {
        let (mut p, t) = (Patience::default(), Instant::now());
        let wait = |i: &u32| p.waits(i % 11 != 10, Some(others), t + MS * *i / 10);
        (0..ms * 10).filter(wait).count() / 10
    }

    #[test]
    fn half_of_the_packets_cost_half() {
        let (all, half) = (of_short_waits(1.0, 200), of_short_waits(0.5, 200));
        assert_eq!((all, half), (181, 181));
        let (all, half) = (of_short_waits(1.0, 20_000), of_short_waits(0.5, 20_000));
        assert!((1_800..=2_600).contains(&all), "{all} ms");
        assert!((3_200..=4_400).contains(&half), "{half} ms");
        // workers that get no packets do not count
        assert!(of_short_waits(0.0, 20_000) > 18_000);
    }

    #[test]
    fn a_worker_that_takes_nothing_is_not_waited_for() {
        let (mut p, t) = (Patience::default(), Instant::now());
        let waited = (0..10_000).filter(|&ms| p.waits(true, Some(0.0), t + MS * ms));
        let waited = waited.count();
        assert!((1_000..=6_000).contains(&waited), "{waited} ms");
    }

    #[test]
    fn short_waits_add_up() {
        let (mut p, t) = (Patience::default(), Instant::now());
        // a worker that is behind for a third of the time
        let mut waited = 0;
        for ms in 0..90_000 {
            waited += u32::from(p.waits(ms % 3 == 0, Some(1.0), t + MS * ms));
        }
        assert!((8_000..=11_000).contains(&waited), "{waited} of 90,000");
        assert_eq!(p.waited(t + MS * 90_000), MS * waited);
    }

    #[test]
    fn workers_that_stand_by_have_no_share() {
        let mut s = Shares::new(3);
        assert!((s.of(|w| w != 0) - 2.0 / 3.0).abs() < 1e-9);
        for _ in 0..WINDOW / 32 {
            s.count(0, 24);
            s.count(2, 8);
        }
        assert_eq!(s.of(|_| false), 0.0);
        assert_eq!(s.of(|w| w != 0), 0.25);
        assert_eq!(s.of(|w| w == 1), 0.0);
        assert_eq!(s.of(|_| true), 1.0);
        // what was before the last window is forgotten
        (0..WINDOW / 32).for_each(|_| s.count(0, 32));
        assert_eq!(s.of(|w| w != 0), 0.0);
    }
}
