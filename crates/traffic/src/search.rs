//! The throughput of RFC 2544, section 26.1: the highest rate at which no more than a given share of the packets is
//! lost.
//!
//! The first trial sends as fast as the port takes packets. If it loses too much, the next one is at the rate at which
//! that one's packets arrived; from there the search halves the gap between the highest rate that has passed and the
//! lowest that has not, until it is no wider than a step.
//!
//! The RFC's trials last a minute, in which any queue runs over. In shorter ones it need not: a rate does not pass,
//! either, if the device is behind by more than a fifth of the trial's time when the last packet is sent.

use crate::generator::{Generator, Watch};
use crate::schedule::{Arrivals, Rate, Schedule};
use crate::trial::{Limit, Trial};
use onefold_runtime::PortError;
use serde::Serialize;
use std::time::Duration;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// The most that may be lost, as a share of what was sent.
    pub loss: f64,
    /// How long each trial sends.
    pub trial: Duration,
    /// The search ends when the gap is no wider than this share of the rate.
    pub step: f64,
    /// No higher rate is tried; `None`: what the port takes.
    pub most: Option<f64>,
    /// About where the throughput is believed to be: the search begins there.
    pub near: Option<f64>,
    /// A rate passes if one of so many trials does: where other work takes a core away for a moment now and then, one
    /// trial says little.
    pub attempts: u32,
    /// How packets are spread over time, where they do not come as fast as they can.
    pub arrivals: Arrivals,
    /// Seed of what is random.
    pub seed: u64,
}

/// Most rates of a search.
const MAX_RATES: usize = 40;
/// While no rate has passed, the next one is this share of the lowest that has not: a smaller one each time.
const BACK: [f64; 3] = [0.8, 0.6, 0.3];
/// A device that is behind by more than this share of a trial's time does not keep up.
const QUEUED: f64 = 0.2;
/// From the rate that is believed to be the throughput to the first two that are tried.
const ABOVE: f64 = 1.1;
const BELOW: f64 = 0.95;
/// A generator that sends less than this share of what was asked for is the bound itself.
const KEPT_UP: f64 = 0.98;

/// A trial of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tried {
    /// Packets a second that were asked for; `None`: as many as the port takes.
    pub asked_pps: Option<f64>,
    /// That were sent.
    pub sent_pps: f64,
    /// Packets sent.
    pub sent: u64,
    /// Of those, not received.
    pub lost: u64,
    /// Their share.
    pub loss: f64,
    /// Time that the device was behind when the last packet had been sent: packets on their way by the rate.
    pub queued_seconds: f64,
    /// No more was lost than may be, and the device was not behind by more than a fifth of the trial: queues that are
    /// long enough hide for a while that more comes than goes.
    pub passed: bool,
}

/// What keeps the rate from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Packets are lost at higher rates.
    Loss,
    /// The generator, or its port, sends no more.
    Generator,
    /// No more was asked for.
    Asked,
    /// No rate that was tried passed.
    Nothing,
}

/// What a search has found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The highest rate that passed, in packets a second; `None`: none did.
    pub pps: Option<f64>,
    /// Why it is no higher.
    pub bound: Bound,
    /// All trials, in order.
    pub trials: Vec<Tried>,
    /// The one at the highest rate that passed, or else the last one.
    pub best: Option<Trial>,
    /// Somebody wanted it to end.
    pub interrupted: bool,
}

/// The rates that are tried next, whatever does the trials.
#[derive(Debug, Clone, Copy)]
struct Halving {
    passed: f64,
    failed: f64,
    step: f64,
    /// Rates that have not passed while none had.
    fails: usize,
}

impl Halving {
    /// The next rate; `None`: the gap is narrow enough.
    fn next(&self) -> Option<f64> {
        if self.failed - self.passed <= self.step * self.failed {
            return None;
        }
        Some(match self.passed > 0.0 {
            true => (self.passed + self.failed) / 2.0,
            false => self.failed * BACK.get(self.fails).or(BACK.last()).unwrap_or(&0.5),
        })
        .filter(|rate| *rate >= 1.0)
    }

    fn tried(&mut self, rate: f64, passed: bool) {
        match passed {
            true => self.passed = rate.max(self.passed),
            false => {
                self.failed = rate.min(self.failed);
                self.fails += usize::from(self.passed == 0.0);
            }
        }
    }
}

/// A search under way.
struct Search<'a> {
    generator: &'a mut Generator,
    goal: &'a Goal,
    watch: &'a mut dyn Watch,
    told: &'a mut dyn FnMut(&Tried),
    found: Found,
    halving: Halving,
}

impl Search<'_> {
    /// One trial at a rate; `None`: as fast as the port takes packets.
    fn attempt(&mut self, asked: Option<f64>) -> Result<Tried, PortError> {
        let goal = self.goal;
        let rate = asked.map_or(Rate::Max, Rate::Pps);
        let schedule = Schedule::new(rate, goal.arrivals, goal.seed);
        let limit = Limit {
            time: Some(goal.trial),
            packets: None,
        };
        let trial = self.generator.trial(schedule, limit, self.watch)?;
        self.found.interrupted |= trial.interrupted;
        let c = trial.counts;
        let queued = trial.in_flight as f64 / trial.rate().max(1.0);
        let kept_up = queued <= goal.trial.as_secs_f64() * QUEUED;
        let tried = Tried {
            asked_pps: asked,
            sent_pps: trial.rate(),
            sent: c.sent,
            lost: c.lost(),
            loss: c.loss(),
            queued_seconds: queued,
            passed: c.sent > 0 && c.loss() <= goal.loss && kept_up && !trial.interrupted,
        };
        (self.told)(&tried);
        self.found.trials.push(tried);
        let better = tried.passed && self.found.pps.is_none_or(|p| tried.sent_pps > p);
        if better {
            self.found.pps = Some(tried.sent_pps);
        }
        if better || self.found.pps.is_none() {
            self.found.best = Some(trial);
        }
        Ok(tried)
    }

    /// The same until a trial passes, so often at most.
    fn attempts(&mut self, asked: Option<f64>, most: u32) -> Result<Tried, PortError> {
        let mut tried = self.attempt(asked)?;
        for _ in 1..most {
            if tried.passed || self.found.interrupted {
                break;
            }
            tried = self.attempt(asked)?;
        }
        Ok(tried)
    }

    /// Begins where the throughput is believed to be, or else with the highest rate that may be tried. Gives the rate
    /// that is to be tried next, if one is likely; false: there is nothing more to try. What is tried only to see how
    /// far away the throughput is has one attempt.
    fn begin(&mut self) -> Result<(bool, Option<f64>), PortError> {
        let goal = self.goal;
        if let Some(near) = (goal.near).filter(|n| goal.most.is_none_or(|m| n * ABOVE < m)) {
            let above = self.attempts(Some(near * ABOVE), 1)?;
            self.halving.tried(above.sent_pps, above.passed);
            if !above.passed {
                return Ok((true, Some(near * BELOW)));
            }
        }
        if self.found.interrupted {
            return Ok((false, None));
        }
        let attempts = goal.most.map_or(1, |_| goal.attempts);
        let first = self.attempts(goal.most, attempts)?;
        if first.passed {
            let asked = goal.most.is_some_and(|m| first.sent_pps >= m * KEPT_UP);
            self.found.bound = match asked {
                true => Bound::Asked,
                false => Bound::Generator,
            };
            return Ok((false, None));
        }
        let passed = self.halving.passed;
        self.halving.failed = first.sent_pps.max(passed);
        let arrived = first.sent_pps * (1.0 - first.loss);
        let likely = arrived >= 1.0 && arrived > passed && arrived < self.halving.failed;
        Ok((true, likely.then_some(arrived)))
    }
}

/// Searches.
///
/// # Errors
/// When a device is broken.
pub fn search(
    generator: &mut Generator,
    goal: &Goal,
    watch: &mut dyn Watch,
    told: &mut dyn FnMut(&Tried),
) -> Result<Found, PortError> {
    let mut s = Search {
        generator,
        goal,
        watch,
        told,
        found: Found {
            pps: None,
            bound: Bound::Nothing,
            trials: Vec::new(),
            best: None,
            interrupted: false,
        },
        halving: Halving {
            passed: 0.0,
            failed: f64::MAX,
            step: goal.step.clamp(0.0001, 0.5),
            fails: 0,
        },
    };
    let (goes_on, mut next) = s.begin()?;
    if !goes_on {
        return Ok(s.found);
    }
    for _ in 0..MAX_RATES {
        let Some(rate) = next.take().or_else(|| s.halving.next()) else {
            break;
        };
        if s.found.interrupted {
            break;
        }
        let tried = s.attempts(Some(rate), goal.attempts)?;
        s.halving.tried(rate, tried.passed);
    }
    if s.found.pps.is_some() {
        s.found.bound = Bound::Loss;
    }
    Ok(s.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates that are tried when those up to `limit` pass.
    fn rates(limit: f64, first: f64, step: f64) -> (f64, usize) {
        let mut h = Halving {
            passed: 0.0,
            failed: first,
            step,
            fails: 0,
        };
        let mut n = 0;
        while let Some(r) = h.next() {
            h.tried(r, r <= limit);
            n += 1;
            assert!(n < MAX_RATES);
        }
        (h.passed, n)
    }

    #[test]
    fn the_highest_rate_that_passes_is_found_to_a_step() {
        for limit in [9.9e5, 7e5, 123_456.0, 1_000.0, 20.0] {
            let (found, n) = rates(limit, 1e6, 0.01);
            assert!(found <= limit && found >= limit * 0.985, "{limit}: {found}");
            assert!(n <= 38, "{limit}: {n} trials");
        }
        assert_eq!(rates(0.0, 1e6, 0.01).0, 0.0, "none passes");
    }
}
