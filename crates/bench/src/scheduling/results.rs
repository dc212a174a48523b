//! What was measured, by setting, policy and figure; and whether what is to hold does.

use super::{Kind, Setting};
use crate::measure::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures by name, of one trial. `Mpps`: packets that came out, of all chains; `Mpps a`: of chain a, and of
/// all chains a-0, a-1 and so on together, as `shed/s a`. `in Mpps`: that
/// came in. `wasted/s`: packets dropped on which a function had worked; `wasted/s f`: by function f. `shed/s`: dropped
/// where they enter. `cpu f`: per cent of a core; `share f`: per cent of what all functions had. `Mpps at f`: packets
/// that f took. `switches/s`; `voluntary/s f`; `involuntary/s f`. `p25 us`, `p50 us`, `p75 us`, `p99 us`, `mean us`,
/// `spread us` (p75 less p25): from entry to exit, of all chains. `Jain`: Jain's index of what the chains delivered.
/// `wait/run`: time that functions were runnable and did not run, to time that they ran. `follows ms`: the longest time
/// from a step of costs until shares were what they were to be. `TCP Mb/s`: what was read of a TCP connection. `storage
/// waits/s`: times that functions gave their core up because their buffers were full.
pub type Figures = BTreeMap<String, f64>;

/// All trials of a policy on a setting.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The setting's label.
    pub setting: String,
    /// Where it is on the axis.
    pub x: f64,
    /// The policy's label.
    pub run: String,
    /// As `--schedule` has it.
    pub policy: Option<String>,
    #[serde(skip)]
    pub(super) kind: Kind,
    /// Figures, round by round.
    pub rounds: Vec<Figures>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Results {
    /// By setting and policy, in the order in which they were measured.
    pub cells: Vec<Cell>,
}

/// A line that is to hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// What is to be.
    pub goal: String,
    /// What is.
    pub got: String,
    /// Is it so? `None`: it was not measured.
    pub held: Option<bool>,
}

impl Line {
    /// What was measured, if it was.
    pub fn of(goal: impl Into<String>, got: Option<(String, bool)>) -> Line {
        let goal = goal.into();
        match got {
            Some((got, held)) => Line {
                goal,
                got,
                held: Some(held),
            },
            None => Line {
                goal,
                got: "not measured".to_string(),
                held: None,
            },
        }
    }
}

impl Results {
    /// A place for each policy on each setting.
    pub fn new(settings: &[Setting]) -> Results {
        let all = settings.iter().flat_map(|s| {
            s.runs.iter().map(|r| Cell {
                setting: s.label.clone(),
                x: s.x,
                run: r.label.clone(),
                policy: r.policy.clone(),
                kind: r.kind,
                rounds: Vec::new(),
                skipped: None,
            })
        });
        Results {
            cells: all.collect(),
        }
    }

    /// The cell of a policy on a setting.
    pub fn cell(&self, setting: &str, run: &str) -> Option<&Cell> {
        let mut all = self.cells.iter();
        all.find(|c| c.setting == setting && c.run == run)
    }

    /// A figure: median over the rounds, least and greatest; `None`: it was not measured.
    pub fn get(&self, setting: &str, run: &str, figure: &str) -> Option<Spread> {
        self.cell(setting, run)?.get(figure)
    }

    /// Its median.
    pub fn median(&self, setting: &str, run: &str, figure: &str) -> Option<f64> {
        self.get(setting, run, figure).map(|s| s.median)
    }

    /// Settings' labels, in order.
    pub fn settings(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for c in &self.cells {
            if !all.contains(&c.setting.as_str()) {
                all.push(&c.setting);
            }
        }
        all
    }

    /// Policies' labels, in order.
    pub fn runs(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for c in &self.cells {
            if !all.contains(&c.run.as_str()) {
                all.push(&c.run);
            }
        }
        all
    }
}

impl Cell {
    /// A figure: median over the rounds, least and greatest.
    pub fn get(&self, figure: &str) -> Option<Spread> {
        let all = self.rounds.iter().filter_map(|r| r.get(figure).copied());
        Spread::of(all.filter(|v| v.is_finite()))
    }
}
