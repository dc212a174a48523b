//! Token bucket and gap rate: Click's arithmetic for rates, on the virtual clock.
//!
//! Both are 32-bit integer machines. A token bucket is refilled once per millisecond; a gap rate spreads events evenly
//! over each second by comparing a count with the share of the second that has passed.

use onefold_packet::Timestamp;

/// Refills per second.
const HZ: u32 = 1000;

/// Limits a rate and lets bursts through: tokens come at `rate` per second up to `capacity`.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    per_tick: u32,
    /// Fractions per token.
    scale: u32,
    ticks_until_full: u32,
    /// Tokens, in fractions.
    tokens: u32,
    /// Tick of the last refill; `None` before the first one, which fills the bucket.
    tick: Option<i64>,
}

impl TokenBucket {
    /// An empty bucket that its first refill fills.
    pub fn new(rate: u32, capacity: u32) -> Self {
        let mut b = TokenBucket {
            per_tick: 0,
            scale: 1,
            ticks_until_full: u32::MAX,
            tokens: 0,
            tick: None,
        };
        b.assign(rate, capacity);
        b
    }

    /// Changes rate (tokens per second) and capacity; the content stays what fraction of the capacity it was.
    pub fn assign(&mut self, rate: u32, capacity: u32) {
        let (rate, mut capacity) = match capacity {
            0 => (0, u32::MAX),
            c => (rate, c),
        };
        if rate != 0 {
            // what one tick brings must fit
            capacity = capacity.max((rate - 1) / HZ + 1);
        }
        self.scale = u32::MAX / capacity;
        if rate == 0 {
            self.per_tick = 0;
            self.ticks_until_full = u32::MAX;
        } else {
            let per_tick = u64::from(rate) * u64::from(self.scale) / u64::from(HZ);
            self.per_tick = (per_tick as u32).max(1);
            self.ticks_until_full = (u32::MAX - 1) / self.per_tick + 1;
        }
    }

    /// [`TokenBucket::assign`] that keeps the number of tokens instead.
    pub fn assign_adjust(&mut self, rate: u32, capacity: u32) {
        let old = u64::from(self.scale);
        self.assign(rate, capacity);
        if u64::from(self.scale) != old {
            let tokens = u64::from(self.tokens) * u64::from(self.scale) / old;
            self.tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        }
    }

    /// The rate as far as the arithmetic can express it.
    pub fn rate(&self) -> u32 {
        let t = u64::from(self.per_tick);
        let r = (t * u64::from(HZ) + t / 2) / u64::from(self.scale);
        u32::try_from(r).unwrap_or(u32::MAX)
    }

    /// Adds the tokens that have come since the last refill.
    pub fn refill(&mut self, now: Timestamp) {
        let tick = now.millis();
        let passed = match self.tick {
            None if self.per_tick == 0 => 0,
            None => i64::from(self.ticks_until_full),
            Some(last) => (tick - last).max(0),
        };
        self.tick = Some(tick);
        if passed >= i64::from(self.ticks_until_full) {
            self.tokens = u32::MAX;
        } else {
            let more = passed as u64 * u64::from(self.per_tick);
            let sum = u64::from(self.tokens) + more;
            self.tokens = u32::try_from(sum).unwrap_or(u32::MAX);
        }
    }

    /// `n` tokens in fractions, `None` if that is more than any bucket holds.
    fn fractions(&self, n: u32) -> Option<u32> {
        n.checked_mul(self.scale)
    }

    /// Sets the number of tokens.
    pub fn set(&mut self, n: u32) {
        self.tokens = self.fractions(n).unwrap_or(u32::MAX);
    }

    /// Are there `n` tokens?
    pub fn contains(&self, n: u32) -> bool {
        self.fractions(n).is_some_and(|f| f <= self.tokens)
    }

    /// Takes `n` tokens, or all there are.
    pub fn remove(&mut self, n: u32) {
        let f = self.fractions(n).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_sub(f);
    }

    /// Takes `n` tokens if there are so many.
    pub fn remove_if(&mut self, n: u32) -> bool {
        let ok = self.contains(n);
        if ok {
            self.remove(n);
        }
        ok
    }

    /// How long until there are `n` tokens; `None` for ever.
    pub fn time_until(&self, n: u32) -> Option<Timestamp> {
        let f = self.fractions(n)?;
        if f <= self.tokens {
            return Some(Timestamp::ZERO);
        }
        if self.per_tick == 0 {
            return None;
        }
        let ticks = (f - self.tokens - 1) / self.per_tick + 1;
        Some(Timestamp::from_millis(i64::from(ticks)))
    }
}

/// Binary digits of fraction of a microsecond.
const GAP_SHIFT: u32 = 12;
/// Highest rate a [`GapRate`] can keep, events per second.
pub const MAX_GAP_RATE: u32 = 1_000_000 << GAP_SHIFT;

/// Spreads events evenly: `rate` per second, catching up over at most the second at hand.
#[derive(Debug, Clone)]
pub struct GapRate {
    gap: u32,
    count: i32,
    /// The second at hand, `None` after a reset.
    sec: Option<i64>,
    rate: u32,
}

impl GapRate {
    /// A rate in events per second; above [`MAX_GAP_RATE`] it is cut.
    pub fn new(rate: u32) -> Self {
        let mut g = GapRate {
            gap: 0,
            count: 0,
            sec: None,
            rate: 0,
        };
        g.init(rate.min(MAX_GAP_RATE));
        g
    }

    fn init(&mut self, rate: u32) {
        self.rate = rate;
        self.gap = match rate {
            0 => MAX_GAP_RATE + 1,
            r => MAX_GAP_RATE / r,
        };
    }

    /// Changes the rate; what happened in this second is forgotten.
    pub fn set_rate(&mut self, rate: u32, now: Timestamp) {
        let rate = rate.min(MAX_GAP_RATE);
        if rate != self.rate {
            self.init(rate);
            if self.sec.is_some() && rate != 0 {
                self.count = ((now.subsec_micros() << GAP_SHIFT) / self.gap) as i32;
            }
        }
    }

    /// Forgets all history.
    pub fn reset(&mut self) {
        self.sec = None;
    }

    /// Is an event due?
    pub fn need_update(&mut self, now: Timestamp) -> bool {
        // below 2^32: a second has 999,999 whole microseconds at most
        let fine = now.subsec_micros() << GAP_SHIFT;
        let need = fine / self.gap;
        match self.sec {
            None => {
                self.sec = Some(now.sec());
                let past_middle = fine - need * self.gap > self.gap / 2;
                self.count = (need + u32::from(past_middle)) as i32;
            }
            Some(sec) if now.sec() > sec => {
                self.sec = Some(now.sec());
                if self.count > 0 {
                    self.count = self.count.wrapping_sub(self.rate as i32);
                }
            }
            Some(_) => {}
        }
        need as i32 >= self.count
    }

    /// `n` events happened (one for packets, bytes for bandwidths).
    pub fn update(&mut self, n: u32) {
        self.count = self.count.wrapping_add(n as i32);
    }

    /// The next time, strictly after `now`, at which an event may be due; `None` if never.
    pub fn expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let mut sec = self.sec?;
        if self.rate == 0 {
            return None;
        }
        let mut at = Timestamp::from_secs(sec);
        if self.count >= 0 {
            let count = self.count as u32;
            sec += i64::from(count / self.rate);
            let fine = u64::from(count % self.rate) * u64::from(self.gap);
            // rounded up: the count is reached only when the whole gap has passed
            let usec = fine.div_ceil(1 << GAP_SHIFT);
            at = Timestamp::from_secs(sec) + Timestamp::from_micros(usec as i64);
        }
        Some(at.max(now + Timestamp::from_micros(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    #[test]
    fn bucket_bursts_then_keeps_the_rate() {
        let mut b = TokenBucket::new(100, 5);
        b.refill(ms(1_000_000));
        let mut taken = 0;
        while b.remove_if(1) {
            taken += 1;
        }
        assert_eq!(taken, 5);
        // a tick brings a little less than a tenth of a token: integers round down
        assert_eq!(b.time_until(1), Some(ms(11)));
        b.refill(ms(1_000_010));
        assert!(!b.contains(1));
        b.refill(ms(1_000_011));
        assert!(b.remove_if(1));
        let mut n = 0;
        for t in 0..10_000 {
            b.refill(ms(1_000_011 + t));
            n += u32::from(b.remove_if(1));
        }
        assert!((990..=1001).contains(&n), "{n}");
        assert_eq!(b.rate(), 100);
    }

    #[test]
    fn bucket_corner_cases() {
        let mut idle = TokenBucket::new(0, 5);
        assert_eq!(idle.rate(), 0);
        idle.refill(ms(7));
        assert!(!idle.contains(1));
        idle.set(1);
        assert!(idle.remove_if(1));
        assert_eq!(idle.time_until(1), None);
        // one tick brings ten tokens, so that the capacity cannot be less
        let mut fast = TokenBucket::new(10_000, 1);
        fast.refill(ms(1));
        assert!(fast.contains(10));
        assert!(!fast.contains(u32::MAX));
        assert_eq!(fast.time_until(u32::MAX), None);
        let mut adjusted = TokenBucket::new(10, 100);
        adjusted.set(50);
        adjusted.assign_adjust(10, 200);
        assert!(adjusted.contains(49) && !adjusted.contains(51));
    }

    #[test]
    fn gap_rate_spreads_events() {
        for rate in [1u32, 3, 10, 999, 100_000] {
            let mut g = GapRate::new(rate);
            let mut now = Timestamp::from_secs(5);
            let end = Timestamp::from_secs(8);
            let mut n = 0u32;
            while now < end {
                if g.need_update(now) {
                    g.update(1);
                    n += 1;
                } else {
                    let next = g.expiry(now).unwrap();
                    assert!(next > now);
                    now = next;
                }
            }
            assert!(n.abs_diff(3 * rate) <= 4, "{rate}: {n}");
        }
        let mut none = GapRate::new(0);
        assert!(none.need_update(Timestamp::from_secs(1)));
        assert_eq!(none.expiry(Timestamp::from_secs(1)), None);
    }
}
