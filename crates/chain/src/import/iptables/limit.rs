//! `-m limit`: a rate, as `iptables` 1.8.9 has the kernel keep it.

use crate::import::limits::Limit;

/// Fractions of a second (XT_LIMIT_SCALE).
const SCALE: u64 = 10_000;
/// What is taken where nothing is said.
const USUAL_RATE: &str = "3/hour";
const USUAL_BURST: u64 = 5;
/// Highest burst (libxt_limit.c).
const MAX_BURST: u64 = 10_000;

/// What is said of a rule's rate.
pub(super) struct LimitDraft {
    rate: Option<Limit>,
    burst: u64,
}

impl Default for LimitDraft {
    fn default() -> LimitDraft {
        LimitDraft {
            rate: None,
            burst: USUAL_BURST,
        }
    }
}

impl LimitDraft {
    /// `--limit` or `--limit-burst`, with its value.
    pub fn option(&mut self, w: &str, v: &str) -> Result<(), String> {
        match w {
            "--limit" => self.rate = Some(rate(v)?),
            _ => {
                let n = v.parse().ok().filter(|n| (1..=MAX_BURST).contains(n));
                self.burst = n.ok_or_else(|| format!("{w} '{v}': expected 1 to {MAX_BURST}"))?;
            }
        }
        Ok(())
    }

    /// What it comes to.
    pub fn limit(self) -> Result<Limit, String> {
        let limit = match self.rate {
            Some(l) => l,
            None => rate(USUAL_RATE)?,
        };
        let burst = self.burst;
        Ok(Limit { burst, ..limit })
    }
}

/// `10`, `10/s`, `10/second`, `10/min`, `10/hour`, `10/day`. The kernel is told how many tenths of milliseconds are
/// between two packets, and that as packets in the longest unit that it comes out in.
fn rate(v: &str) -> Result<Limit, String> {
    let wrong = || format!("rate '{v}': expected something like 10/minute");
    let (n, unit) = v.split_once('/').unwrap_or((v, "second"));
    let n = n.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let units = [
        ("second", 1),
        ("minute", 60),
        ("hour", 3600),
        ("day", 86_400),
    ];
    let named = |(name, _): &&(&str, u64)| !unit.is_empty() && name.starts_with(&unit);
    let (_, seconds) = units.iter().find(named).ok_or_else(wrong)?;
    let apart = SCALE * seconds / n;
    if apart == 0 {
        return Err(format!("rate '{v}': more than {SCALE} a second"));
    }
    // add_nft_limit of iptables/nft.c
    let scaled = |(_, s): &(&str, u64)| s * SCALE;
    let fits = |u: &&(&str, u64)| apart <= scaled(u) && scaled(u) / apart >= scaled(u) % apart;
    let shorter = units[..3].iter().rev().take_while(fits);
    let per = shorter.last().map_or(units[3].1, |u| u.1);
    Ok(Limit {
        rate: SCALE * per / apart,
        per,
        burst: USUAL_BURST,
        bytes: false,
        over: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nft list ruleset` shows what iptables-restore 1.8.9 made of them.
    #[test]
    fn rates() {
        let of = |v: &str| rate(v).map(|l| (l.rate, l.per));
        assert_eq!(of("10/min"), Ok((10, 60)));
        assert_eq!(of("2"), Ok((2, 1)));
        assert_eq!(of("2/s"), Ok((2, 1)));
        assert_eq!(of("7/sec"), Ok((7, 1)));
        assert_eq!(of("120/minute"), Ok((2, 1)));
        assert_eq!(of("3/hour"), Ok((3, 3600)));
        assert_eq!(of("1/day"), Ok((1, 86_400)));
        for bad in ["", "0/s", "x/s", "5/", "5/week", "20000/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
