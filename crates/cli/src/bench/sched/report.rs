//! What is told of an experiment.

use onefold_bench::experiment::date_of;
use onefold_bench::measure::Machine;
use onefold_bench::scheduling::{Experiment, Line, Results, own};
use serde::Serialize;

/// An experiment, measured. One JSON object.
#[derive(Serialize)]
pub struct SchedReport {
    /// Its name, title, what it shows, and what had to shrink.
    pub experiment: &'static str,
    pub title: &'static str,
    pub shows: &'static str,
    pub shrunk: &'static str,
    /// What is swept, plotted, and told besides.
    pub axis: &'static str,
    pub plot: &'static str,
    pub columns: &'static [&'static str],
    /// What others report: where, and what.
    pub published: &'static [(&'static str, &'static str)],
    /// Figures.
    #[serde(flatten)]
    pub results: Results,
    /// What is to hold, and whether it does.
    pub lines: Vec<Line>,
    pub quick: bool,
    /// Measured of each trial, and rounds.
    pub seconds: f64,
    pub repeats: usize,
    pub machine: Machine,
    pub date: String,
    /// Every packet of every run is accounted for.
    pub conserved: bool,
    pub interrupted: bool,
    pub warnings: Vec<String>,
}

impl SchedReport {
    /// Of these figures; the rest is to be said.
    pub fn new(e: &'static Experiment, results: Results, machine: Machine) -> SchedReport {
        let mut lines = (e.lines)(&results);
        lines.extend(own::lines(&results));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        SchedReport {
            experiment: e.name,
            title: e.title,
            shows: e.shows,
            shrunk: e.shrunk,
            axis: e.axis,
            plot: e.plot,
            columns: e.columns,
            published: e.published,
            results,
            lines,
            quick: false,
            seconds: 0.0,
            repeats: 0,
            machine,
            date: date_of(since.map_or(0, |d| d.as_secs()) / 86_400),
            conserved: true,
            interrupted: false,
            warnings: Vec::new(),
        }
    }

    /// Names of figures that are told.
    pub fn figures(&self) -> impl Iterator<Item = &'static str> + '_ {
        std::iter::once(self.plot).chain(self.columns.iter().copied())
    }

    /// How it was measured.
    pub fn conditions(&self) -> String {
        let quick = if self.quick { "; quick form" } else { "" };
        format!(
            "{} s of each, {} rounds in turn, {}{quick}. Load, launcher and policy on one core, functions on the \
                other one",
            self.seconds, self.repeats, self.date
        )
    }
}

/// A figure in few digits.
pub fn digits(v: f64) -> String {
    match v.abs() {
        a if a >= 10_000.0 => crate::common::thousands(v.round() as u64),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 1.0 => format!("{v:.2}"),
        0.0 => "0".to_string(),
        _ => format!("{v:.3}"),
    }
}

/// Held, not held, or not measured.
pub fn mark(held: Option<bool>) -> &'static str {
    match held {
        Some(true) => "held",
        Some(false) => "NOT HELD",
        None => "not measured",
    }
}
