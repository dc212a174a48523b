//! The processor's own clock: the time stamp counter, which ticks at a constant rate whatever the processor's frequency
//! is. Where there is none, nanoseconds.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// How long the rate is measured.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Ticks since some moment.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register; every processor of 64 bits has it.
    #[allow(unused_unsafe)]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Ticks of a nanosecond, measured for 10 ms.
pub fn per_nanosecond() -> f64 {
    let (begun, from) = (Instant::now(), now());
    let mut passed = Duration::ZERO;
    // Bound: time
    while passed < CALIBRATION {
        passed = begun.elapsed();
    }
    now().wrapping_sub(from) as f64 / passed.as_nanos() as f64
}

/// Keeps the processor busy for so many ticks.
#[inline]
pub fn burn(ticks: u64) {
    let begun = now();
    // Bound: time
    while now().wrapping_sub(begun) < ticks {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no time stamp counter")]
    fn what_is_burnt_is_not_less_than_was_asked_for() {
        let rate = per_nanosecond();
        assert!(rate > 0.01 && rate < 100.0, "{rate}");
        let begun = Instant::now();
        burn((rate * 2e6) as u64);
        // 2 ms by one clock are hardly less by the other
        assert!(begun.elapsed() > Duration::from_millis(1));
    }
}
