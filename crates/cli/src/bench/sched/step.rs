//! Costs that change while a chain runs: how soon processor shares follow.

use super::chain::cost_file;
use anyhow::{Context, Result};
use onefold_bench::scheduling::Step;
use std::path::Path;

/// A share is what it is to be when it is no further away from it.
const NEAR: f64 = 0.08;
/// A share is that of so long at least, in seconds: several turns of functions that take turns by milliseconds.
const WINDOW: f64 = 0.04;

/// Processor time of each function up to some moment.
#[derive(Debug, Clone)]
pub struct Look {
    /// Seconds.
    pub at: f64,
    /// Seconds that each function has run.
    pub run: Vec<f64>,
}

/// A function's share of all functions' time between two looks.
fn share(a: &Look, b: &Look, function: usize) -> Option<f64> {
    let of = |i: usize| Some(b.run.get(i)? - a.run.get(i)?);
    let all: f64 = (0..b.run.len()).filter_map(of).sum();
    (all > 0.0)
        .then(|| of(function).map(|own| own / all))
        .flatten()
}

/// The longest time, in ms, from one of the steps until the function's share was near what it was to be, and the whole
/// time to the next step if it never was. `looks` cover `seconds` from the first one's time on.
pub fn follows(steps: &[Step], looks: &[Look], seconds: f64) -> Option<f64> {
    let begun = looks.first()?.at;
    let of = |(i, step): (usize, &Step)| {
        let at = begun + step.at * seconds;
        let next = steps
            .get(i + 1)
            .map_or(begun + seconds, |s| begun + s.at * seconds);
        let behind: Vec<&Look> = (looks.iter())
            .filter(|l| l.at >= at && l.at <= next)
            .collect();
        let near = behind.iter().enumerate().find_map(|(i, b)| {
            // the last look that is so long ago
            let a = (behind.get(..i)?.iter().rev()).find(|a| b.at - a.at >= WINDOW)?;
            let share = share(a, b, step.function)?;
            ((share - step.share).abs() <= NEAR).then_some(b.at)
        });
        (near.unwrap_or(next) - at) * 1000.0
    };
    steps.iter().enumerate().map(of).reduce(f64::max)
}

/// Costs are what the step says from now on.
///
/// # Errors
/// The file cannot be written.
pub fn take(folder: &Path, step: &Step) -> Result<()> {
    let path = folder.join(cost_file(step.function));
    std::fs::write(&path, step.cycles.to_string()).with_context(|| format!("'{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_when_they_are_near() {
        let look = |at: f64, a: f64, b: f64| Look {
            at,
            run: vec![a, b],
        };
        let steps = [
            Step {
                at: 0.25,
                function: 0,
                cycles: 1,
                share: 0.5,
            },
            Step {
                at: 0.75,
                function: 0,
                cycles: 1,
                share: 0.25,
            },
        ];
        // a share of a quarter up to 0.25 s, then half from 0.5 s on, and a quarter at once from 0.75 s on
        let looks = [
            look(10.0, 0.0, 0.0),
            look(10.25, 0.25, 0.75),
            look(10.5, 0.5, 1.5),
            look(10.75, 1.0, 2.0),
            look(11.0, 1.25, 2.75),
        ];
        assert_eq!(follows(&steps, &looks, 1.0), Some(500.0));
        assert_eq!(
            follows(&steps, &looks[..1], 1.0),
            Some(500.0),
            "never is the time to the next step"
        );
        assert_eq!(follows(&[], &looks, 1.0), None);
    }
}
