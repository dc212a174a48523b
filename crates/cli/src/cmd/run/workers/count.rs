//! How many workers, and groups.

use onefold_partition::MAX_WORKERS;
use onefold_runtime::scaling::{EVERY, Limits};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Groups if nobody says how many, as far as they are enough.
const GROUPS: usize = 8;

/// How many workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// So many, all the time.
    Fixed(usize),
    /// As many as the load needs, from one number to another.
    Range(usize, usize),
}

impl Default for Workers {
    fn default() -> Workers {
        Workers::Fixed(1)
    }
}

impl Workers {
    /// One, all the time?
    pub fn is_one(self) -> bool {
        self == Workers::Fixed(1)
    }
    /// Is their number a matter of the load?
    pub fn is_range(self) -> bool {
        matches!(self, Workers::Range(..))
    }
    /// Fewest.
    pub fn fewest(self) -> usize {
        let (Workers::Fixed(n) | Workers::Range(n, _)) = self;
        n
    }
    /// Most.
    pub fn most(self) -> usize {
        let (Workers::Fixed(n) | Workers::Range(_, n)) = self;
        n
    }
    /// Into how many groups packets are divided; `given`: so many, if that is possible.
    ///
    /// # Errors
    /// There are fewer groups than workers.
    pub fn groups(self, given: Option<usize>) -> Result<usize, String> {
        match (self, given) {
            (Workers::Fixed(n), _) => Ok(n),
            (Workers::Range(_, most), None) => Ok(most.next_power_of_two().max(GROUPS)),
            (Workers::Range(_, most), Some(n)) if n >= most => Ok(n),
            (Workers::Range(_, most), Some(n)) => Err(format!(
                "--groups {n}: {most} workers need at least as many groups; say --groups {}",
                most.next_power_of_two()
            )),
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workers::Fixed(n) => write!(f, "{n}"),
            Workers::Range(a, b) => write!(f, "{a}..{b}"),
        }
    }
}

impl FromStr for Workers {
    type Err = String;
    fn from_str(s: &str) -> Result<Workers, String> {
        let number = |s: &str| match s.parse::<usize>() {
            Ok(n) if (1..=MAX_WORKERS).contains(&n) => Ok(n),
            _ => Err(format!("expected a number from 1 to {MAX_WORKERS}")),
        };
        let Some((a, b)) = s.split_once("..") else {
            return Ok(Workers::Fixed(number(s)?));
        };
        match (number(a)?, number(b)?) {
            (a, b) if a > b => Err(format!("MIN..MAX: {a} is more than {b}")),
            (1, 1) => Err("MIN..MAX: MAX is 2 at least; --workers 1 is one worker".to_string()),
            (a, b) => Ok(Workers::Range(a, b)),
        }
    }
}

/// A number of groups.
///
/// # Errors
/// When it is none, in words.
pub fn groups(s: &str) -> Result<usize, String> {
    match s.parse::<usize>() {
        Ok(n) if (2..=MAX_WORKERS).contains(&n) && n.is_power_of_two() => Ok(n),
        _ => Err(format!("expected a power of two from 2 to {MAX_WORKERS}")),
    }
}

/// When groups go from worker to worker: `split=0.7,merge=0.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingArg {
    /// Loads are looked at so often.
    pub every: Duration,
    /// And then.
    pub limits: Limits,
}

impl Default for ScalingArg {
    fn default() -> ScalingArg {
        ScalingArg {
            every: EVERY,
            limits: Limits::default(),
        }
    }
}

impl FromStr for ScalingArg {
    type Err = String;
    fn from_str(s: &str) -> Result<ScalingArg, String> {
        let mut all = ScalingArg::default();
        let l = &mut all.limits;
        for one in s.split(',') {
            let (key, value) = one
                .split_once('=')
                .ok_or_else(|| format!("expected KEY=VALUE, found '{one}'"))?;
            let share = || match value.parse::<f64>() {
                Ok(x) if x > 0.0 && x <= 2.0 => Ok(x),
                _ => Err(format!("{key}: expected a number from 0 to 2, not 0")),
            };
            let count = || match value.parse::<u32>() {
                Ok(n) if (1..=1000).contains(&n) => Ok(n),
                _ => Err(format!("{key}: expected a number from 1 to 1000")),
            };
            match key {
                "every" => match value.parse::<f64>() {
                    Ok(x) if (0.05..=60.0).contains(&x) => all.every = Duration::from_secs_f64(x),
                    _ => return Err("every: expected 0.05 to 60 seconds".to_string()),
                },
                "split" => l.split = share()?,
                "merge" => l.merge = share()?,
                "rising" => l.weights.0 = share()?.min(1.0),
                "falling" => l.weights.1 = share()?.min(1.0),
                "samples" => l.samples = count()?,
                "hold-off" => l.hold_off = count()?,
                _ => {
                    return Err(format!(
                        "'{key}': there are every, split, merge, samples, hold-off, rising, falling"
                    ));
                }
            }
        }
        if l.merge > l.split {
            return Err(format!(
                "merge={} is more than split={}: groups would go to and fro",
                l.merge, l.split
            ));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        assert_eq!("1".parse(), Ok(Workers::default()));
        assert_eq!("64".parse(), Ok(Workers::Fixed(64)));
        assert_eq!("1..4".parse(), Ok(Workers::Range(1, 4)));
        assert_eq!("3..3".parse(), Ok(Workers::Range(3, 3)));
        assert_eq!(Workers::Range(1, 4).to_string(), "1..4");
        for wrong in ["0", "65", "x", "2..1", "1..1", "1..65", "..", "1.."] {
            assert!(wrong.parse::<Workers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_of_scaling() {
        let s: ScalingArg = "every=0.1,split=0.9,samples=3".parse().unwrap();
        assert_eq!((s.limits.split, s.limits.samples), (0.9, 3));
        assert_eq!(s.every, Duration::from_millis(100));
        assert_eq!(s.limits.merge, Limits::default().merge);
        for wrong in [
            "",
            "every",
            "every=0",
            "split=x",
            "merge=0.8",
            "samples=0",
            "x=1",
        ] {
            assert!(wrong.parse::<ScalingArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn as_many_groups_as_workers_need() {
        assert_eq!(Workers::Fixed(3).groups(None), Ok(3));
        assert_eq!(Workers::Range(1, 2).groups(None), Ok(8));
        assert_eq!(Workers::Range(1, 9).groups(None), Ok(16));
        assert_eq!(Workers::Range(1, 4).groups(Some(64)), Ok(64));
        assert!(Workers::Range(1, 4).groups(Some(2)).is_err());
        assert_eq!(groups("16"), Ok(16));
        for wrong in ["1", "3", "128", "x"] {
            assert!(groups(wrong).is_err(), "{wrong}");
        }
    }
}
