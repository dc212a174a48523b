//! What is told of live measurements.

use onefold_bench::measure::{Machine, Spread};
use serde::Serialize;

/// Latency at one load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadReport {
    /// What the load is called.
    pub name: String,
    /// Packets per second that were sent.
    pub sent_pps: Option<Spread>,
    /// Share that was lost.
    pub loss: Option<Spread>,
    /// Nanoseconds from the intended send time, by percentile.
    pub p50: Option<Spread>,
    /// 90%.
    pub p90: Option<Spread>,
    /// 99%.
    pub p99: Option<Spread>,
    /// 99.9%.
    pub p999: Option<Spread>,
}

/// A row.
#[derive(Debug, Clone, Serialize)]
pub struct RowReport {
    /// What it is.
    pub name: String,
    /// The chain, or the kernel.
    pub device: String,
    /// The kind of its ports.
    pub ports: &'static str,
    /// Why nothing was measured.
    pub skipped: Option<String>,
    /// The highest rate without too much loss, in packets per second.
    pub throughput_pps: Option<Spread>,
    /// The same, round by round (null: no rate passed).
    pub rounds: Vec<Option<f64>>,
    /// How often the generator, not loss, was what bound the rate.
    pub generator_bound: usize,
    /// Packets per second that came through when as many were sent as the generator can.
    pub overloaded_pps: Option<Spread>,
    /// The share of the device's core that was busy then.
    pub busy_share: Option<Spread>,
    /// Processor time of the chain's process per packet, in nanoseconds, at 0.9 of its throughput.
    pub process_ns_per_packet: Option<Spread>,
    /// Of everything on the device's core: other load on the machine counts.
    pub core_ns_per_packet: Option<Spread>,
    /// Latency by load, where it was measured.
    pub loads: Vec<LoadReport>,
}

/// Rates compared, round by round.
#[derive(Debug, Clone, Serialize)]
pub struct RatioReport {
    /// What over what.
    pub name: String,
    /// The ratio.
    pub ratio: Option<Spread>,
}

/// What others report, in words.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Published {
    /// Who, where.
    pub source: &'static str,
    /// What.
    pub reported: &'static str,
}

/// How it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Parameters {
    /// Frame lengths.
    pub size: String,
    /// Flows.
    pub flows: u32,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// The most that may be lost.
    pub loss: f64,
    /// Where a search ends.
    pub step: f64,
    /// What chains do while no packets come.
    pub poll: String,
    /// Trials of which one must pass.
    pub attempts: u32,
    /// Where receiving takes place: `all` (on the receiver's core), or `kernel` (on the sender's, but for the kernel's
    /// rows).
    pub steering: &'static str,
    /// Rounds.
    pub repeats: usize,
    /// The generator's core.
    pub generator_core: usize,
    /// The device's.
    pub device_core: usize,
}

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct LiveReport {
    /// `throughput`, `batch`, `latency`, `memory`, `chains` or `attack`.
    pub experiment: &'static str,
    /// The rows.
    pub rows: Vec<RowReport>,
    /// Ratios of rows.
    pub ratios: Vec<RatioReport>,
    /// What the figures say, in words.
    pub conclusions: Vec<String>,
    /// What others have found.
    pub published: Vec<Published>,
    /// Rounds that were measured in full.
    pub rounds: usize,
    /// The order in which rows were measured.
    pub order: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// How.
    pub parameters: Parameters,
    /// Ctrl-C ended it early.
    pub interrupted: bool,
    /// What is to be known before a figure is believed.
    pub warnings: Vec<String>,
}
