//! Numbers with units: bandwidths, times, fixed-point fractions.

use super::{ArgScope, FromArg};

/// A decimal number `digits[.digits][e[+-]N]` times `10^power`, exactly, as a 128-bit integer; fractions that remain
/// are rounded to nearest. `None` if it is not a number or too large.
pub fn parse_fraction(s: &str, power: i32) -> Option<u128> {
    let (mantissa, exp) = match s.find(['e', 'E']) {
        Some(i) => (&s[..i], s[i + 1..].parse::<i32>().ok()?),
        None => (s, 0),
    };
    let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if int.is_empty() && frac.is_empty() || int.len() + frac.len() > 60 {
        return None;
    }
    if !int.bytes().chain(frac.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut shift = power.checked_add(exp)?.checked_sub(frac.len() as i32)?;
    if shift.abs() > 60 {
        return None;
    }
    let mut v: u128 = 0;
    for d in int.bytes().chain(frac.bytes()) {
        v = v.checked_mul(10)?.checked_add(u128::from(d - b'0'))?;
    }
    while shift > 0 {
        v = v.checked_mul(10)?;
        shift -= 1;
    }
    if shift < 0 {
        let mut div: u128 = 1;
        for _ in 0..-shift {
            div = div.checked_mul(10)?;
        }
        v = (v + div / 2) / div;
    }
    Some(v)
}

/// SI prefix of a unit: power of ten.
fn prefix(p: &str) -> Option<i32> {
    Some(match p {
        "" => 0,
        "k" | "K" => 3,
        "M" => 6,
        "G" => 9,
        "m" => -3,
        "u" => -6,
        "n" => -9,
        _ => return None,
    })
}

/// Splits a trailing unit off: the number's text and the unit's.
fn split_unit(s: &str) -> (&str, &str) {
    let end = s
        .char_indices()
        .rev()
        .find(|(_, c)| c.is_ascii_digit() || *c == '.')
        .map_or(0, |(i, _)| i + 1);
    (s[..end].trim_end(), s[end..].trim())
}

/// A bandwidth in bytes per second (Click's `BandwidthArg`): `1000`, `10kbps` (bits), `1.5Mbps`, `8MBps` (bytes),
/// `baud`. A bare number is bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(pub u32);

impl Bandwidth {
    /// As Click prints a bandwidth: `384kbps`, `8Mbps`, `1.5Gbps`; from 2^29 bytes per second on in `MBps`.
    pub fn text(self) -> String {
        let x = u64::from(self.0);
        if x >= 0x2000_0000 {
            format!("{}MBps", real10(x, 6))
        } else if x >= 125_000_000 {
            format!("{}Gbps", real10(x * 8, 9))
        } else if x >= 125_000 {
            format!("{}Mbps", real10(x * 8, 6))
        } else {
            format!("{}kbps", real10(x * 8, 3))
        }
    }
}

/// `v` divided by 10^`digits`, exactly, trailing zeros cut.
fn real10(v: u64, digits: usize) -> String {
    let one = 10u64.pow(digits as u32);
    let (int, frac) = (v / one, v % one);
    if frac == 0 {
        return int.to_string();
    }
    let f = format!("{frac:0digits$}");
    format!("{int}.{}", f.trim_end_matches('0'))
}

impl FromArg for Bandwidth {
    const WANTS: &'static str = "a bandwidth (such as 384kbps, 1.5Mbps, or 3000 bytes per second)";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let (num, unit) = split_unit(s);
        // bits per second unless said otherwise: Click's table of byte_bandwidth_units
        let (pre, bits) = if unit.is_empty() {
            ("", false)
        } else if let Some(p) = unit
            .strip_suffix("Bps")
            .or_else(|| unit.strip_suffix("B/s"))
        {
            (p, false)
        } else if let Some(p) = unit
            .strip_suffix("bps")
            .or_else(|| unit.strip_suffix("b/s"))
            .or_else(|| unit.strip_suffix("baud"))
        {
            (p, true)
        } else {
            return Err(None);
        };
        let power = prefix(pre).ok_or(None)?;
        let v = if bits {
            // three more digits, so that dividing by eight rounds once
            (parse_fraction(num, power + 3).ok_or(None)? / 8 + 500) / 1000
        } else {
            parse_fraction(num, power).ok_or(None)?
        };
        u32::try_from(v)
            .map(Bandwidth)
            .map_err(|_| Some(format!("bandwidth out of range: '{s}'")))
    }
}

/// A time span in nanoseconds (Click's `SecondsArg`, `TimestampArg`): `1.5`, `10ms`, `2min`, `1hr`; a bare number is
/// seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub onefold_packet::Timestamp);

impl FromArg for Seconds {
    const WANTS: &'static str = "a time (such as 0.5, 10ms, 2min)";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let (neg, t) = match s.strip_prefix('-') {
            Some(t) => (true, t),
            None => (false, s.strip_prefix('+').unwrap_or(s)),
        };
        let (num, unit) = split_unit(t);
        let (power, factor) = match unit {
            "" | "s" | "sec" | "second" | "seconds" => (0, 1),
            "m" | "min" | "minute" | "minutes" => (0, 60),
            "h" | "hr" | "hour" | "hours" => (0, 3600),
            "d" | "day" | "days" => (0, 86400),
            _ => {
                let p = unit
                    .strip_suffix("sec")
                    .or_else(|| unit.strip_suffix('s'))
                    .ok_or(None)?;
                (prefix(p).ok_or(None)?, 1)
            }
        };
        let v = parse_fraction(num, power + 9)
            .and_then(|v| v.checked_mul(factor))
            .and_then(|v| i64::try_from(v).ok())
            .ok_or(None)?;
        let v = if neg { -v } else { v };
        Ok(Seconds(onefold_packet::Timestamp(v)))
    }
}

/// A non-negative decimal scaled by `2^BITS` (Click's `FixedPointArg`), e.g. a sampling probability with 28 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed<const BITS: u32>(pub u32);

impl<const BITS: u32> FromArg for Fixed<BITS> {
    const WANTS: &'static str = "a decimal number";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        const DIGITS: i32 = 18;
        let v = parse_fraction(s, DIGITS).ok_or(None)?;
        let one = 10u128.pow(DIGITS as u32);
        let scaled = v
            .checked_mul(1u128 << BITS)
            .map(|x| (x + one / 2) / one)
            .and_then(|x| u32::try_from(x).ok());
        scaled
            .map(Fixed)
            .ok_or_else(|| Some(format!("number out of range: '{s}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    fn one<T: FromArg>(s: &str) -> Option<T> {
        let mut a = Args::from_strings(&[s]);
        a.mandatory("X")
    }

    #[test]
    fn units() {
        let bw = |s| one::<Bandwidth>(s).map(|b| b.0);
        assert_eq!(bw("8kbps"), Some(1000));
        assert_eq!(bw("8 kbps"), Some(1000));
        assert_eq!(bw("1.5Mbps"), Some(187_500));
        assert_eq!(bw("2MBps"), Some(2_000_000));
        assert_eq!(bw("77"), Some(77));
        assert_eq!(bw("8kx"), None);
        let text = |s| one::<Bandwidth>(s).map(|b| b.text()).unwrap_or_default();
        assert_eq!(text("1MBps"), "8Mbps");
        assert_eq!(text("384kbps"), "384kbps");
        assert_eq!(text("1.5Gbps"), "1.5Gbps");
        assert_eq!(text("0x40000000"), "");
        let sec = |s| one::<Seconds>(s).map(|b| b.0.0);
        assert_eq!(sec("1.5"), Some(1_500_000_000));
        assert_eq!(sec("10ms"), Some(10_000_000));
        assert_eq!(sec("2 min"), Some(120_000_000_000));
        assert_eq!(sec("3us"), Some(3_000));
        assert_eq!(
            (sec("+1.5"), sec("-1"), sec("+-1")),
            (Some(1_500_000_000), Some(-1_000_000_000), None)
        );
        assert_eq!(one::<Fixed<28>>("0.5"), Some(Fixed(1 << 27)));
        assert_eq!(parse_fraction("1.25e2", 0), Some(125));
        assert_eq!(parse_fraction(".", 0), None);
        assert_eq!(parse_fraction("1e999999999", 0), None);
    }
}
