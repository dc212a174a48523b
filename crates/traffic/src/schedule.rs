//! When packets are to be sent: intended times, which do not depend on whether the generator or the chain keeps up.

use crate::stamp::mix;

/// How packets are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// Gaps are exponentially distributed, as of many independent senders.
    Poisson,
    /// So many at one moment, then none until their share of time is over.
    Bursty(u32),
}

/// How many packets a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// As many as the port takes; a packet's intended time is the one at which it is sent.
    Max,
    /// So many.
    Pps(f64),
}

/// Intended send times in nanoseconds from the start, in order.
#[derive(Debug, Clone)]
pub struct Schedule {
    kind: Kind,
    /// Packets given so far.
    given: u64,
}

#[derive(Debug, Clone)]
enum Kind {
    Max,
    Constant {
        gap: f64,
    },
    Poisson {
        gap: f64,
        /// The next time.
        at: f64,
        random: u64,
    },
    Bursty {
        /// From one burst to the next.
        gap: f64,
        size: u64,
    },
    Recorded(Vec<u64>),
}

impl Schedule {
    /// At a rate (above 0); `seed`: of what is random.
    pub fn new(rate: Rate, arrivals: Arrivals, seed: u64) -> Schedule {
        let kind = match rate {
            Rate::Max => Kind::Max,
            Rate::Pps(pps) => {
                let gap = 1e9 / pps.max(f64::MIN_POSITIVE);
                match arrivals {
                    Arrivals::Constant => Kind::Constant { gap },
                    Arrivals::Poisson => {
                        let mut random = mix(seed ^ 0x706f_6973);
                        let at = exponential(&mut random) * gap;
                        Kind::Poisson { gap, at, random }
                    }
                    Arrivals::Bursty(size) => Kind::Bursty {
                        gap: gap * f64::from(size.max(1)),
                        size: u64::from(size.max(1)),
                    },
                }
            }
        };
        Schedule { kind, given: 0 }
    }

    /// At these times, which are in order; then it ends.
    pub fn recorded(times: Vec<u64>) -> Schedule {
        Schedule {
            kind: Kind::Recorded(times),
            given: 0,
        }
    }

    /// When the next packet is due: `None`, never. At [`Rate::Max`] it always is.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let n = self.given;
        // what does not fit is so late that it is never
        Some(match &self.kind {
            Kind::Max => 0,
            Kind::Constant { gap } => (n as f64 * gap) as u64,
            Kind::Poisson { at, .. } => *at as u64,
            Kind::Bursty { gap, size } => ((n / size) as f64 * gap) as u64,
            Kind::Recorded(times) => return times.get(usize::try_from(n).ok()?).copied(),
        })
    }

    /// The intended time of the next packet, if it is due at `now`; the one behind it is the next then.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = match self.kind {
            Kind::Max => now,
            _ => self.next().filter(|t| *t <= now)?,
        };
        self.given += 1;
        if let Kind::Poisson { gap, at, random } = &mut self.kind {
            *at += exponential(random) * *gap;
        }
        Some(due)
    }
}

/// A number of the exponential distribution with mean 1, never above 45.
fn exponential(random: &mut u64) -> f64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    // above 0, at most 1
    let uniform = ((mix(*random) >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut s: Schedule, n: usize) -> Vec<u64> {
        (0..n).map_while(|_| s.take(u64::MAX)).collect()
    }

    #[test]
    fn constant_rates_do_not_drift() {
        let s = Schedule::new(Rate::Pps(3.0), Arrivals::Constant, 1);
        assert_eq!(
            times(s.clone(), 4),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        let mut s = s;
        assert_eq!(s.take(0), Some(0));
        assert_eq!(s.take(333_333_332), None, "not before its time");
        assert_eq!(s.next(), Some(333_333_333));
        assert_eq!(
            s.take(10_000_000_000),
            Some(333_333_333),
            "late, but its time is its time"
        );
        let s = Schedule::new(Rate::Pps(1e6), Arrivals::Constant, 1);
        assert_eq!(times(s, 1_000_001)[1_000_000], 1_000_000_000);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread() {
        let s = Schedule::new(Rate::Pps(1e5), Arrivals::Poisson, 5);
        let t = times(s.clone(), 100_000);
        assert!(t.windows(2).all(|w| w[0] <= w[1]));
        let gaps: Vec<f64> = t.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        assert!((mean - 1e4).abs() < 200.0, "{mean}");
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
        // a share of e^-1 is longer than the mean
        let longer = gaps.iter().filter(|g| **g > 1e4).count() as f64 / n;
        assert!((longer - (-1f64).exp()).abs() < 0.01, "{longer}");
        assert_eq!(times(s, 100), t[..100], "the same seed");
        let other = Schedule::new(Rate::Pps(1e5), Arrivals::Poisson, 6);
        assert_ne!(times(other, 100), t[..100]);
    }

    #[test]
    fn bursts_come_at_one_moment_and_keep_the_rate() {
        let s = Schedule::new(Rate::Pps(1000.0), Arrivals::Bursty(4), 1);
        let t = times(s, 12);
        let (a, b) = (4_000_000, 8_000_000);
        assert_eq!(t, [0, 0, 0, 0, a, a, a, a, b, b, b, b]);
    }

    #[test]
    fn recorded_times_end() {
        let mut s = Schedule::recorded(vec![5, 5, 9]);
        assert_eq!(s.take(4), None);
        assert_eq!((s.take(8), s.take(8), s.take(8)), (Some(5), Some(5), None));
        assert_eq!(
            (s.take(9), s.take(u64::MAX), s.next()),
            (Some(9), None, None)
        );
    }

    #[test]
    fn without_a_rate_a_packet_is_due_whenever_it_is_asked_for() {
        let mut s = Schedule::new(Rate::Max, Arrivals::Constant, 1);
        assert_eq!(
            (s.take(7), s.take(7), s.take(9)),
            (Some(7), Some(7), Some(9))
        );
    }
}
