//! How busy a worker is, and how long its batches take.
//!
//! The clock is read when the worker finds nothing to do, and around one batch in sixteen: a worker that is never idle
//! is measured at next to no cost.

use std::time::{Duration, Instant};

/// One batch in so many is timed.
const SAMPLED: u64 = 16;
/// Classes of times: powers of two of nanoseconds.
const CLASSES: usize = 40;

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Load {
    begun: Instant,
    /// Up to here it is known what the worker did.
    until: Instant,
    /// Batches have come since.
    working: bool,
    busy: Duration,
    batches: u64,
    packets: u64,
    /// Time of the batches that were timed.
    timed: Duration,
    times: [u64; CLASSES],
}

/// What has been measured so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Time since the beginning.
    pub elapsed: Duration,
    /// The part of it in which there was something to do.
    pub busy: Duration,
    /// Batches taken.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// The time that all batches took, by those that were timed.
    pub spent: Duration,
    /// Half of the batches took no longer than this many nanoseconds, within a factor of two.
    pub batch_ns_p50: u64,
    /// 99 in 100 took no longer.
    pub batch_ns_p99: u64,
}

impl Default for Load {
    fn default() -> Load {
        let now = Instant::now();
        Load {
            begun: now,
            until: now,
            working: false,
            busy: Duration::ZERO,
            batches: 0,
            packets: 0,
            timed: Duration::ZERO,
            times: [0; CLASSES],
        }
    }
}

impl Load {
    /// A batch may come now: the time, if it is to be measured.
    #[inline]
    pub fn sample(&self) -> Option<Instant> {
        (self.batches.is_multiple_of(SAMPLED)).then(Instant::now)
    }

    /// A batch has come and gone.
    #[inline]
    pub fn worked(&mut self, packets: usize, sample: Option<Instant>) {
        self.working = true;
        self.batches += 1;
        self.packets += packets as u64;
        if let Some(begun) = sample {
            self.time(begun.elapsed());
        }
    }

    fn time(&mut self, took: Duration) {
        self.timed += took;
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let class = (ns.ilog2() as usize).min(CLASSES - 1);
        if let Some(n) = self.times.get_mut(class) {
            *n += 1;
        }
    }

    /// There is nothing to do at this time.
    #[inline]
    pub fn idle(&mut self, now: Instant) {
        if std::mem::take(&mut self.working) {
            self.busy += now.saturating_duration_since(self.until);
        }
        self.until = now;
    }

    /// So far.
    pub fn report(&self) -> LoadReport {
        let now = Instant::now();
        let working = match self.working {
            true => now.saturating_duration_since(self.until),
            false => Duration::ZERO,
        };
        LoadReport {
            elapsed: now.saturating_duration_since(self.begun),
            busy: self.busy + working,
            batches: self.batches,
            packets: self.packets,
            spent: self.spent(),
            batch_ns_p50: self.quantile(0.5),
            batch_ns_p99: self.quantile(0.99),
        }
    }

    /// The time that all batches took, by those that were timed: one in sixteen.
    pub fn spent(&self) -> Duration {
        let n: u64 = self.times.iter().sum();
        let share = self.batches as f64 / n.max(1) as f64;
        self.timed.mul_f64(share)
    }

    /// The end of the class that this share of the samples is not beyond.
    fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.times.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (class, n) in self.times.iter().enumerate() {
            seen += n;
            if *n > 0 && seen >= wanted {
                return 2u64 << class;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_with_batches_is_busy_and_the_rest_is_not() {
        let mut l = Load::default();
        let t = l.until;
        let ms = Duration::from_millis;
        l.idle(t + ms(10));
        l.worked(3, None);
        l.worked(4, None);
        l.idle(t + ms(25));
        l.idle(t + ms(75));
        l.idle(t + ms(100));
        assert_eq!(l.busy, ms(15));
        let r = l.report();
        assert_eq!((r.batches, r.packets, r.busy), (2, 7, ms(15)));
    }

    #[test]
    fn quantiles_are_right_within_a_factor_of_two() {
        let mut l = Load::default();
        assert_eq!(l.report().batch_ns_p99, 0);
        for _ in 0..90 {
            l.time(Duration::from_nanos(700));
        }
        for _ in 0..10 {
            l.time(Duration::from_micros(50));
        }
        let r = l.report();
        assert_eq!((r.batch_ns_p50, r.batch_ns_p99), (1024, 65536));
    }

    #[test]
    fn what_batches_took_follows_from_those_that_were_timed() {
        let mut l = Load::default();
        assert_eq!(l.spent(), Duration::ZERO);
        for _ in 0..10 {
            l.time(Duration::from_nanos(700));
        }
        (0..160).for_each(|_| l.worked(4, None));
        assert_eq!(l.spent(), Duration::from_nanos(112_000));
    }
}
