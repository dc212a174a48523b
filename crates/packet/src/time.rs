//! Points in time and durations, in nanoseconds.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time (since the Unix epoch) or a span, in nanoseconds. Click's `Timestamp` with nanosecond precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The zero time: "no time stamp".
    pub const ZERO: Timestamp = Timestamp(0);
    /// The largest time: "never".
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From whole seconds; saturates.
    pub const fn from_secs(s: i64) -> Self {
        Timestamp(s.saturating_mul(1_000_000_000))
    }
    /// From milliseconds; saturates.
    pub const fn from_millis(ms: i64) -> Self {
        Timestamp(ms.saturating_mul(1_000_000))
    }
    /// From microseconds; saturates.
    pub const fn from_micros(us: i64) -> Self {
        Timestamp(us.saturating_mul(1_000))
    }
    /// From seconds as a real number; saturates, NaN is zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Timestamp((s * 1e9).round() as i64)
    }
    /// Nanoseconds in all.
    pub const fn nanos(self) -> i64 {
        self.0
    }
    /// Seconds as a real number.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Whole seconds, rounded down.
    pub const fn sec(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub const fn subsec_nanos(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }
    /// As a span of time, with a unit (Click's `unparse_interval`): `20ms`, `5us`, `1.500000s`.
    pub fn interval_text(self) -> String {
        if self.sec() != 0 {
            return format!("{self}s");
        }
        let ns = self.subsec_nanos();
        match (ns % 1_000_000, ns % 1000) {
            (0, _) => format!("{}ms", ns / 1_000_000),
            (_, 0) => format!("{}us", ns / 1000),
            _ => format!("{ns}ns"),
        }
    }
    /// Whole microseconds within the second, 0 to 999,999.
    pub const fn subsec_micros(self) -> u32 {
        self.subsec_nanos() / 1000
    }
    /// Whole milliseconds in all (Click's jiffies).
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
    /// True unless zero.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl Add for Timestamp {
    type Output = Timestamp;
    /// Saturating.
    fn add(self, o: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_add(o.0))
    }
}

impl Sub for Timestamp {
    type Output = Timestamp;
    /// Saturating.
    fn sub(self, o: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_sub(o.0))
    }
}

/// Seconds with six decimals, or with nine if there is a fraction of a microsecond, as a nanosecond-precision Click
/// prints it: `1.500000`, `1.000000001`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (sec, nanos) = (v / 1_000_000_000, v % 1_000_000_000);
        if nanos % 1000 == 0 {
            write!(f, "{sign}{sec}.{:06}", nanos / 1000)
        } else {
            write!(f, "{sign}{sec}.{nanos:09}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_text() {
        let t = Timestamp(-1_500_000_000);
        assert_eq!((t.sec(), t.subsec_nanos()), (-2, 500_000_000));
        assert_eq!(t.to_string(), "-1.500000");
        assert_eq!(Timestamp(1_000_000_001).to_string(), "1.000000001");
        assert_eq!(Timestamp::ZERO.to_string(), "0.000000");
        assert_eq!(Timestamp(20_000_000).interval_text(), "20ms");
        assert_eq!(Timestamp(1_500).interval_text(), "1500ns");
        assert_eq!(Timestamp(2_000).interval_text(), "2us");
        assert_eq!(Timestamp::from_secs(2).interval_text(), "2.000000s");
        assert_eq!(Timestamp::from_secs_f64(0.25), Timestamp::from_millis(250));
        assert_eq!(Timestamp::MAX + Timestamp(1), Timestamp::MAX);
    }
}
