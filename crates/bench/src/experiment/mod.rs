//! Experiments: what the papers on service chains have measured, as data.
//!
//! An [`Experiment`] says what it shows, what is swept, which chains are executed how and on which packets
//! ([`PointSpec`]), what is compared with what ([`Ratio`]), and what others have reported ([`Published`]). One runner
//! (the command `onefold bench --experiment`) measures them all with [`crate::measure`]; [`ExperimentReport`] is what
//! it tells.
//!
//! To add one: a file here with a `pub const EXPERIMENT`, and a line in [`ALL`].
//!
//! ```
//! use onefold_bench::experiment::{ALL, Scale};
//! for e in ALL {
//!     let plan = (e.plan)(&Scale::quick())?;
//!     assert!(!plan.points.is_empty(), "{}", e.name);
//! }
//! # Ok::<(), onefold_bench::experiment::PlanError>(())
//! ```

mod acl;
mod attack;
mod batch;
mod chain_length;
mod flows;
mod level;
mod nf;
mod report;
mod router_napt_lb;
mod rules;
mod stateful;
pub mod text;
mod traffic_mix;

pub(crate) use attack::collide;
pub use level::Level;
pub use report::{ExperimentReport, PointReport, RatioReport, SeriesReport, date_of};

use crate::measure::{BATCH, Vary};

/// All of them, in the order in which they are listed.
pub const ALL: &[&Experiment] = &[
    &chain_length::EXPERIMENT,
    &acl::EXPERIMENT,
    &router_napt_lb::EXPERIMENT,
    &flows::EXPERIMENT,
    &batch::EXPERIMENT,
    &rules::EXPERIMENT,
    &nf::SIZES,
    &nf::SHARES,
    &nf::COLOCATED,
    &attack::EXPERIMENT,
    &stateful::EXPERIMENT,
    &traffic_mix::EXPERIMENT,
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|e| e.name == name).copied()
}

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it shows, and how.
    pub shows: &'static str,
    /// What is swept.
    pub x: Axis,
    /// What is told of each point first, and plotted.
    pub y: Quantity,
    /// The points.
    pub plan: fn(&Scale) -> Result<Plan, PlanError>,
    /// What others report of it.
    pub published: fn() -> Vec<Published>,
}

/// What is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Axis {
    /// What it is.
    pub name: &'static str,
    /// Plotted by its logarithm.
    pub log: bool,
    /// Points have labels, and their places mean nothing more than an order.
    pub labels: bool,
}

/// What is plotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Nanoseconds of processor time per packet less the ceiling's.
    AboveCeiling,
    /// Nanoseconds of processor time per packet.
    Ns,
    /// Million packets per second on the wall.
    WallMpps,
}

impl Quantity {
    /// In words, with its unit.
    pub fn text(self) -> &'static str {
        match self {
            Quantity::AboveCeiling => "ns per packet above the ceiling",
            Quantity::Ns => "ns per packet",
            Quantity::WallMpps => "million packets per second on the wall",
        }
    }
}

/// How much is to be measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scale {
    /// The smallest form that still has every series: two places or so, few flows, few rules.
    pub quick: bool,
    /// Only these places of what is swept; all if there are none. Places that an experiment does not have by itself are
    /// added if it can.
    pub at: Vec<f64>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Scale {
    /// The smallest form.
    pub fn quick() -> Scale {
        Scale {
            quick: true,
            seed: 1,
            ..Scale::default()
        }
    }

    /// The places of an axis: those asked for, or else a few, or all.
    pub fn places(&self, quick: &[f64], all: &[f64], most: f64) -> Result<Vec<f64>, PlanError> {
        if self.at.is_empty() {
            return Ok(if self.quick { quick } else { all }.to_vec());
        }
        let both = quick.iter().chain(all).copied();
        let least = both.fold(f64::MAX, f64::min);
        match self.at.iter().find(|v| !(least..=most).contains(*v)) {
            Some(v) => Err(PlanError(format!("--at {v}: expected {least} to {most}"))),
            None => Ok(self.at.clone()),
        }
    }
}

/// Why there are no points.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub String);

/// What is measured, and compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The points.
    pub points: Vec<PointSpec>,
    /// What is compared with what.
    pub ratios: Vec<Ratio>,
    /// What is left out, and why.
    pub remarks: Vec<String>,
}

/// Levels that synthesis makes.
const FAST: [Level; 2] = [Level::Program, Level::Flow];

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainSpec {
    /// One of the examples, with parameters.
    Example(&'static str, Vec<(String, String)>),
    /// A configuration in Click's language: its devices are the ports.
    Click(String),
    /// Files, the first of which is the chain file.
    Files(Vec<(String, String)>),
}

/// Packets of flows that have not been opened.
#[derive(Debug, Clone, PartialEq)]
pub struct UnseenSpec {
    /// Share of the packets.
    pub share: f64,
    /// What they are copied from; those of the flows that were opened if there are none.
    pub frames: Vec<Vec<u8>>,
    /// What is different in each.
    pub vary: Vary,
}

/// Packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Bytes, or the name of a model.
    pub size: String,
    /// Flows that are opened before the clock starts.
    pub flows: usize,
    /// Skew of their popularity.
    pub zipf: f64,
    /// Share of TCP, of what a class leaves open.
    pub tcp: f64,
    /// Half of the packets are answers.
    pub replies: bool,
    /// Packets of others among them.
    pub strangers: Option<UnseenSpec>,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            size: "64".into(),
            flows: 4000,
            zipf: 0.0,
            tcp: 0.0,
            replies: false,
            strangers: None,
        }
    }
}

/// A point: a chain on packets, executed in one or several ways.
#[derive(Debug, Clone, PartialEq)]
pub struct PointSpec {
    /// The line it belongs to; each execution is a line of its own.
    pub series: String,
    /// Where on the axis.
    pub x: f64,
    /// What stands there, if the number does not say it.
    pub label: Option<String>,
    /// The chain.
    pub chain: ChainSpec,
    /// Executions.
    pub levels: Vec<Level>,
    /// The packets.
    pub traffic: Traffic,
    /// Packets handed over together.
    pub batch: usize,
    /// Points of one group are measured in alternation; groups one after the other.
    pub group: usize,
    /// Share of a core's time that the whole thread may have; 1: all of it.
    pub cpu: f64,
    /// Processes that do the same at the same time, each on packets of its own.
    pub instances: usize,
    /// Share of time that packets of unknown flows may take in front of a flow table; whatever they need if there is
    /// none.
    pub protect: Option<f64>,
    /// After so many packets, while no time is measured, rewriters forget their flows, so that new ones find room;
    /// never if it is not said.
    pub room: Option<u64>,
}

impl PointSpec {
    /// On 4,000 flows of 64-byte UDP, in batches of [`BATCH`].
    pub fn new(series: impl Into<String>, x: f64, chain: ChainSpec) -> PointSpec {
        PointSpec {
            series: series.into(),
            x,
            label: None,
            chain,
            levels: Level::ALL.to_vec(),
            traffic: Traffic::default(),
            batch: BATCH,
            group: 0,
            cpu: 1.0,
            instances: 1,
            protect: None,
            room: None,
        }
    }
}

/// Which figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Which {
    /// The line.
    pub series: String,
    /// The execution.
    pub level: Level,
    /// The place.
    pub x: f64,
}

impl Which {
    /// This one.
    pub fn new(series: impl Into<String>, level: Level, x: f64) -> Which {
        Which {
            series: series.into(),
            level,
            x,
        }
    }
}

/// The rate of one, in rates of another, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// In words.
    pub name: String,
    /// Whose rate.
    pub of: Which,
    /// In whose.
    pub to: Which,
}

/// What others report.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Published {
    /// Who, where.
    pub source: &'static str,
    /// On what, measured how.
    pub setting: &'static str,
    /// In words.
    pub reported: &'static str,
    /// Where the source contradicts itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erratum: Option<&'static str>,
    /// Lines of figures, of what is plotted.
    pub lines: Vec<Line>,
}

/// A line of published figures.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// Places and figures.
    pub points: Vec<(f64, f64)>,
}

/// The machine of the FastClick figures.
pub const PEER: &str = "FastClick of June 2026 (commit 93ca5a6d) on a 2-core virtual machine (2.1 GHz, AVX-512), DPDK 22.11, batching, one core, 64-byte packets from memory; best median of several sets";
/// The machine of the papers by Katsikas and others.
pub const KTH: &str =
    "two 8-core Xeon E5-2667 v3 at 3.2 GHz, 8 cores used, 40 Gb/s, DPDK, network card included";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_points_have_their_own_places() {
        for (i, e) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(i + 1).all(|f| f.name != e.name));
            assert_eq!(find(e.name).map(|f| f.title), Some(e.title));
            for scale in [
                Scale::quick(),
                Scale {
                    seed: 1,
                    ..Scale::default()
                },
            ] {
                // long rule sets take seconds to make without optimization
                if !scale.quick
                    && cfg!(debug_assertions)
                    && ["acl", "rules", "attack"].contains(&e.name)
                {
                    continue;
                }
                let plan = (e.plan)(&scale).unwrap();
                let there = |w: &Which| {
                    let of = |p: &&PointSpec| {
                        p.series == w.series && p.x == w.x && p.levels.contains(&w.level)
                    };
                    plan.points.iter().filter(of).count()
                };
                for p in &plan.points {
                    for l in &p.levels {
                        let w = Which::new(p.series.clone(), *l, p.x);
                        assert_eq!(there(&w), 1, "{}: {w:?}", e.name);
                    }
                }
                for r in &plan.ratios {
                    assert_eq!((there(&r.of), there(&r.to)), (1, 1), "{}: {r:?}", e.name);
                }
            }
            assert!((e.published)().iter().all(|p| !p.source.is_empty()));
        }
        assert!(find("no-such").is_none());
    }

    #[test]
    fn places_are_those_asked_for() {
        let mut s = Scale::quick();
        assert_eq!(s.places(&[1.0], &[1.0, 2.0], 9.0), Ok(vec![1.0]));
        s.at = vec![7.0];
        assert_eq!(s.places(&[1.0], &[1.0, 2.0], 9.0), Ok(vec![7.0]));
        s.at = vec![10.0];
        assert!(s.places(&[1.0], &[1.0, 2.0], 9.0).is_err());
    }
}
