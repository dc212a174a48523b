//! How long a process takes for a packet, in buckets that others read: four for each power of two, from 1 ns to 65 us.
//!
//! One batch a millisecond is timed, in processor time of the thread that works on it (whoever is preempted meanwhile
//! is not charged for it), and the first ten of these do not count, as in NFVnice (SIGCOMM 2017, section
//! 3.4): its estimate is the median over a moving 100 ms, which is the median of the difference of two snapshots that
//! are 100 ms apart ([`Snapshot::since`]).

use crate::region::Said;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Buckets.
pub const BUCKETS: usize = 64;
/// A batch is timed so often.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(1);
/// So many are timed and do not count.
pub const DISCARDED: u32 = 10;

/// The bucket of a time in ns.
pub fn bucket(ns: u64) -> usize {
    let ns = ns.max(1);
    let octave = ns.ilog2();
    let quarter = (ns << 2 >> octave) & 3;
    (octave as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

/// The shortest time of a bucket, in ns.
pub fn floor(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket.min(BUCKETS - 1) / 4, bucket as u64 & 3);
    (((4 + quarter) << octave) + 3) >> 2
}

/// Samples by bucket at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot([u64; BUCKETS]);

impl Snapshot {
    /// As they are now.
    pub fn of(all: &[AtomicU64; BUCKETS]) -> Snapshot {
        let mut to = [0; BUCKETS];
        for (to, from) in to.iter_mut().zip(all) {
            *to = from.load(Ordering::Relaxed);
        }
        Snapshot(to)
    }

    /// What has come since then.
    pub fn since(&self, then: &Snapshot) -> Snapshot {
        let mut to = self.0;
        for (to, before) in to.iter_mut().zip(then.0) {
            *to = to.wrapping_sub(before);
        }
        Snapshot(to)
    }

    /// How many samples.
    pub fn samples(&self) -> u64 {
        self.0.iter().fold(0, |n, b| n.saturating_add(*b))
    }

    /// The median, in ns: the shortest time of its bucket. `None`: there are no samples.
    pub fn median(&self) -> Option<u64> {
        let half = self.samples().checked_sub(1)? / 2;
        let mut passed = 0u64;
        for (i, n) in self.0.iter().enumerate() {
            passed = passed.saturating_add(*n);
            if passed > half {
                return Some(floor(i));
            }
        }
        None
    }
}

/// Times a batch now and then.
#[derive(Debug)]
pub struct ServiceClock {
    last: Instant,
    seen: u32,
}

impl Default for ServiceClock {
    fn default() -> Self {
        ServiceClock {
            last: Instant::now(),
            seen: 0,
        }
    }
}

impl ServiceClock {
    /// A batch begins at this moment; is it to be timed?
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= SAMPLE_EVERY
    }

    /// A batch of `packets` that was to be timed has taken so long: ns a packet, for [`publish`]; `None`: there were
    /// none.
    pub fn timed(
        &mut self,
        (begun, took): (Instant, Duration),
        packets: usize,
        to: &[AtomicU64; BUCKETS],
    ) -> Option<u64> {
        self.last = begun;
        if packets == 0 {
            return None;
        }
        self.seen = self.seen.saturating_add(1);
        let each = took.as_nanos() / packets as u128;
        let each = u64::try_from(each).unwrap_or(u64::MAX).max(1);
        if self.seen <= DISCARDED {
            return Some(each);
        }
        let at = bucket(each);
        if let Some(b) = to.get(at) {
            b.store(b.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        Some(each)
    }
}

/// Processor time that this thread has used.
pub fn thread_time() -> Duration {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(Duration::ZERO, Duration::from)
}

/// Others see the sample, the first ones, too: who looks at them discards what it wants.
pub fn publish(said: &Said, each: u64) {
    said.sample.store(each, Ordering::Relaxed);
    let n = said.samples.load(Ordering::Relaxed);
    said.samples.store(n.wrapping_add(1), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_begin_where_they_say() {
        let mut last = 0;
        for ns in 1..100_000 {
            let b = bucket(ns);
            assert!(b == last || b == last + 1 || ns < 8, "{ns}");
            last = b;
            assert!(floor(b) <= ns, "{ns}: {b} begins at {}", floor(b));
            assert!(b == BUCKETS - 1 || ns < floor(b + 1) || ns < 4, "{ns} {b}");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn the_median_is_that_of_what_came_since() {
        let all: [AtomicU64; BUCKETS] = std::array::from_fn(|_| AtomicU64::new(0));
        assert_eq!(Snapshot::of(&all).median(), None);
        let mut clock = ServiceClock::default();
        let begun = Instant::now();
        let mut time = |ns: u64, n: u32| {
            for _ in 0..n {
                clock.timed((begun, Duration::from_nanos(ns * 32)), 32, &all);
            }
        };
        time(7, DISCARDED);
        assert_eq!(Snapshot::of(&all).samples(), 0);
        time(100, 9);
        let then = Snapshot::of(&all);
        assert_eq!((then.samples(), then.median()), (9, Some(96)));
        time(4000, 3);
        let now = Snapshot::of(&all).since(&then);
        assert_eq!((now.samples(), now.median()), (3, Some(3584)));
    }
}
