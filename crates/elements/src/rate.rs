//! Moving averages of rates, in integer arithmetic, with Click's parameters: epochs of one millisecond, weight 1/16, ten
//! bits of fraction.

use onefold_packet::Timestamp;

/// Bits of fraction of the average.
const SCALE: u32 = 10;
/// The average moves by 1/2^STABILITY of the difference per epoch.
const STABILITY: u32 = 4;
/// Epochs per second.
const HZ: i64 = 1000;
/// After this many idle epochs the average is zero whatever it was.
const FORGOTTEN: i64 = 100;

/// An exponentially weighted moving average of events per millisecond.
#[derive(Debug, Clone, Default)]
pub struct RateEwma {
    current: u64,
    epoch: Option<i64>,
    average: i64,
}

impl RateEwma {
    fn move_by(&mut self, x: u64) {
        let scaled = i64::try_from(x << SCALE).unwrap_or(i64::MAX / 2) + (1 << (STABILITY - 1));
        self.average += (scaled - self.average) >> STABILITY;
    }

    /// `n` events at time `now`; `n` = 0 lets the average fall after an idle time.
    pub fn update(&mut self, n: u64, now: Timestamp) {
        let epoch = now.0 / (1_000_000_000 / HZ);
        let last = *self.epoch.get_or_insert(epoch);
        if epoch != last {
            self.move_by(self.current);
            let idle = epoch - last - 1;
            if idle >= FORGOTTEN {
                self.average = 0;
            } else {
                for _ in 0..idle {
                    self.move_by(0);
                }
            }
            self.current = 0;
            self.epoch = Some(epoch);
        }
        self.current = self.current.saturating_add(n);
    }

    /// The average as of the last update: events per millisecond, scaled by 2^10.
    pub fn average(&self) -> i64 {
        self.average
    }

    /// Events per second, scaled by 2^10.
    pub fn scaled(&mut self, now: Timestamp) -> i64 {
        self.update(0, now);
        self.average.saturating_mul(HZ)
    }

    /// Events per second as text with up to ten binary digits of fraction.
    pub fn per_second(&mut self, now: Timestamp) -> String {
        real2(self.scaled(now), SCALE)
    }

    /// `factor` times the events per second as text.
    pub fn times_per_second(&mut self, factor: i64, now: Timestamp) -> String {
        real2(self.scaled(now).saturating_mul(factor), SCALE)
    }
}

/// A binary fixed-point number in decimal (Click's `cp_unparse_real2`): as few digits as tell it from its neighbours.
/// `bits` is at most 28.
pub fn real2(v: i64, bits: u32) -> String {
    let bits = bits.min(28);
    let sign = if v < 0 { "-" } else { "" };
    let v = v.unsigned_abs();
    let one = 1u32 << bits;
    let mut out = format!("{sign}{}", v >> bits);
    let mut rest = (v as u32) & (one - 1);
    if rest == 0 {
        return out;
    }
    out.push('.');
    // Knuth's print_scaled (TeX, section 103): digits come out until what is left is below the inaccuracy allowed by then;
    // the last digit is rounded by moving the middle of the interval. Arithmetic is modulo 2^32 as in Click.
    rest = rest.wrapping_mul(10).wrapping_add(5);
    let mut inaccuracy: u64 = 10;
    let mut rounder: u32 = 5;
    while rounder < one >> 1 {
        rounder = rounder.wrapping_mul(10);
    }
    // Bound: `rest` stays below ten times `one`, the inaccuracy grows tenfold per digit.
    loop {
        if inaccuracy > u64::from(one) {
            rest = rest.wrapping_add((one >> 1).wrapping_sub(rounder));
        }
        let digit = (rest >> bits) % 10;
        out.push(char::from(b'0' + digit as u8));
        rest = (rest & (one - 1)).wrapping_mul(10);
        inaccuracy *= 10;
        if u64::from(rest) <= inaccuracy {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rate_is_found_and_forgotten() {
        let mut r = RateEwma::default();
        for ms in 0..500 {
            r.update(5, Timestamp::from_millis(ms));
        }
        let s = r.scaled(Timestamp::from_millis(500)) >> SCALE;
        assert!((4900..=5100).contains(&s), "{s}");
        assert_eq!(r.scaled(Timestamp::from_secs(1000)), 0);
    }

    #[test]
    fn fixed_point_text() {
        assert_eq!(real2(3 << 10, 10), "3");
        assert_eq!(real2((3 << 10) + 512, 10), "3.5");
        assert_eq!(real2(1, 10), "0.001");
        assert_eq!(real2(80530637, 28), "0.3");
        assert_eq!(real2(-(7 << 9), 10), "-3.5");
    }
}
