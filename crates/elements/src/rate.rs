//! Moving averages of rates, in integer arithmetic, with Click's parameters: epochs of one millisecond, weight 1/16,
//! ten bits of fraction (unless told otherwise).

use onefold_element::unparse::fixed_point;
use onefold_packet::Timestamp;

/// The average moves by 1/2^STABILITY of the difference per epoch.
const STABILITY: u32 = 4;
/// Epochs per second.
const HZ: i64 = 1000;
/// After this many idle epochs the average is zero whatever it was.
const FORGOTTEN: i64 = 100;

/// An exponentially weighted moving average of events per millisecond, with `SCALE` bits of fraction.
#[derive(Debug, Clone, Default)]
pub struct RateEwma<const SCALE: u32 = 10> {
    current: u64,
    /// The time of the last update, so that many updates at one time cost little.
    last: Option<(Timestamp, i64)>,
    average: i64,
}

impl<const SCALE: u32> RateEwma<SCALE> {
    fn move_by(&mut self, x: u64) {
        let scaled = i64::try_from(x << SCALE).unwrap_or(i64::MAX / 2) + (1 << (STABILITY - 1));
        self.average += (scaled - self.average) >> STABILITY;
    }

    /// `n` events at time `now`; `n` = 0 lets the average fall after an idle time.
    #[inline]
    pub fn update(&mut self, n: u64, now: Timestamp) {
        if self.last.is_none_or(|(t, _)| t != now) {
            self.advance(now);
        }
        self.current = self.current.saturating_add(n);
    }

    fn advance(&mut self, now: Timestamp) {
        let epoch = now.0.div_euclid(1_000_000_000 / HZ);
        let last = self.last.map_or(epoch, |(_, e)| e);
        self.last = Some((now, epoch));
        if epoch != last {
            self.move_by(self.current);
            // a clock that goes back counts as a long idle time
            let idle = epoch - last - 1;
            if (0..FORGOTTEN).contains(&idle) {
                for _ in 0..idle {
                    self.move_by(0);
                }
            } else {
                self.average = 0;
            }
            self.current = 0;
        }
    }

    /// The average as of the last update: events per millisecond, scaled by `2^SCALE`.
    pub fn average(&self) -> i64 {
        self.average
    }

    /// Events per second, scaled by `2^SCALE`.
    pub fn scaled(&mut self, now: Timestamp) -> i64 {
        self.update(0, now);
        self.average.saturating_mul(HZ)
    }

    /// Events per second as text.
    pub fn per_second(&mut self, now: Timestamp) -> String {
        fixed_point(self.scaled(now), SCALE)
    }

    /// `2^shift` times the events per second as text; `shift` at most SCALE.
    pub fn shifted_per_second(&mut self, shift: u32, now: Timestamp) -> String {
        fixed_point(self.scaled(now), SCALE.saturating_sub(shift))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rate_is_found_and_forgotten() {
        let mut r = RateEwma::<10>::default();
        for ms in 0..500 {
            r.update(5, Timestamp::from_millis(ms));
        }
        let s = r.scaled(Timestamp::from_millis(500)) >> 10;
        assert!((4900..=5100).contains(&s), "{s}");
        assert!(r.scaled(Timestamp::from_millis(550)) > 0);
        assert_eq!(r.scaled(Timestamp::from_millis(700)), 0);
        r.update(1, Timestamp::from_millis(3));
        assert_eq!(r.scaled(Timestamp::from_millis(2)), 0);
    }

    /// One packet in the first millisecond: the average moves by (1024 + 8) / 16 = 64, that is 62.5 per second.
    #[test]
    fn one_packet_by_hand() {
        let mut r = RateEwma::<10>::default();
        r.update(1, Timestamp::ZERO);
        assert_eq!(r.per_second(Timestamp::from_millis(1)), "62.5");
        let mut b = RateEwma::<4>::default();
        b.update(100, Timestamp::ZERO);
        // (1600 + 8) / 16 = 100: 6250 bytes, 50,000 bits per second
        assert_eq!(b.per_second(Timestamp::from_millis(1)), "6250");
        assert_eq!(b.shifted_per_second(3, Timestamp::from_millis(1)), "50000");
    }
}
