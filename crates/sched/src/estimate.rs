//! What a packet costs, learnt from samples: NFVnice's estimate (SIGCOMM 2017, section 3.4).

use crate::{MILLISECOND, Nanos};

/// Most samples of a window.
const SAMPLES: usize = 128;
/// A sample is taken so often.
const EVERY: Nanos = MILLISECOND;
/// So many first samples do not count: caches are cold.
const DISCARDED: u32 = 10;
/// Samples older than this do not count.
const WINDOW: Nanos = 100 * MILLISECOND;

/// Median of service times over a moving 100 ms, one sample a millisecond, the first ten discarded.
#[derive(Debug, Clone)]
pub struct ServiceEstimate {
    samples: [(Nanos, Nanos); SAMPLES],
    /// How many of them there are, and where the next one goes.
    len: usize,
    next: usize,
    taken: u32,
    last: Option<Nanos>,
    median: Option<Nanos>,
}

impl Default for ServiceEstimate {
    fn default() -> Self {
        ServiceEstimate {
            samples: [(0, 0); SAMPLES],
            len: 0,
            next: 0,
            taken: 0,
            last: None,
            median: None,
        }
    }
}

impl ServiceEstimate {
    /// A packet has taken so long. It is passed over where the last sample was taken less than a millisecond ago.
    pub fn add(&mut self, now: Nanos, took: Nanos) {
        if self
            .last
            .is_some_and(|last| now.saturating_sub(last) < EVERY)
        {
            return;
        }
        self.last = Some(now);
        self.taken = self.taken.saturating_add(1);
        if self.taken <= DISCARDED {
            return;
        }
        self.samples[self.next] = (now, took);
        self.next = (self.next + 1) % SAMPLES;
        self.len = (self.len + 1).min(SAMPLES);
    }

    /// Computes the median anew. Where no sample is left of the window, it stays what it was.
    pub fn update(&mut self, now: Nanos) {
        let mut fresh = [0; SAMPLES];
        let mut n = 0;
        for &(at, took) in &self.samples[..self.len] {
            if now.saturating_sub(at) <= WINDOW {
                fresh[n] = took;
                n += 1;
            }
        }
        if n > 0 {
            self.median = Some(*fresh[..n].select_nth_unstable((n - 1) / 2).1);
        }
    }

    /// The median, in ns, when it was last computed.
    pub fn median(&self) -> Option<Nanos> {
        self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_ten_do_not_count_and_one_a_millisecond_does() {
        let mut e = ServiceEstimate::default();
        for ms in 0..10 {
            e.add(ms * EVERY, 9_999);
        }
        e.update(10 * EVERY);
        assert_eq!(e.median(), None);
        e.add(10 * EVERY, 100);
        e.add(10 * EVERY + 1, 7);
        e.update(11 * EVERY);
        assert_eq!(e.median(), Some(100));
        // a spike is passed over, a step is followed when half of the window has it
        for ms in 11..111 {
            e.add(ms * EVERY, if ms % 10 == 0 { 50_000 } else { 100 });
        }
        e.update(111 * EVERY);
        assert_eq!(e.median(), Some(100));
        for ms in 111..171 {
            e.add(ms * EVERY, 300);
        }
        e.update(171 * EVERY);
        assert_eq!(e.median(), Some(300));
    }

    proptest! {
        #[test]
        fn the_median_is_one_of_the_samples(all in prop::collection::vec((0u64..5_000_000, 1u64..10_000), 1..300)) {
            let mut e = ServiceEstimate::default();
            let mut now = 0;
            for (wait, took) in &all {
                now += wait;
                e.add(now, *took);
                e.update(now);
            }
            if let Some(m) = e.median() {
                prop_assert!(all.iter().any(|s| s.1 == m));
            }
        }
    }
}
