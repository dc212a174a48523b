//! Rows in alternation: each round measures every row once, and then comes the next round.

use super::device::{self, Running};
use super::driver::{Driver, Trials};
use super::memory::{self, Replays};
use super::rows::{Beside, Device, MEMORY, Row};
use super::topology::Topology;
use super::usage::{self, Core};
use crate::runner;
use anyhow::Result;
use clap::ValueEnum;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where and how rows are measured.
pub struct Bench<'a> {
    /// The namespaces.
    pub topology: &'a Topology,
    /// This program.
    pub exe: PathBuf,
    /// The generator's core.
    pub generator_core: usize,
    /// The device's core.
    pub device_core: usize,
    /// How trials are made.
    pub trials: Trials,
    /// The rules of the kernel's table.
    pub rules: String,
    /// Packets that come from memory.
    pub replays: Replays,
    /// What chains do while no packets come.
    pub poll: String,
    /// Where receiving takes place.
    pub steering: Steering,
}

/// On whose core the kernel takes in what arrives at a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Steering {
    /// On that of the namespace it arrives in, as a network card's interrupts would be (receive packet steering; what
    /// XDP takes is taken on the sender's all the same).
    All,
    /// On the sender's, but for the kernel's rows, where forwarding is part of it.
    Kernel,
}

/// A load at which latency is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A share of the row's own throughput.
    Share(f64),
    /// Packets per second.
    Pps(f64),
}

/// Latency at a load.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtLoad {
    /// Packets per second sent.
    pub sent_pps: f64,
    /// Share lost.
    pub loss: f64,
    /// p50, p90, p99, p99.9 in nanoseconds; `None`: nothing came back.
    pub latency: Option<[f64; 4]>,
}

/// What one round has shown of a row.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The highest rate without too much loss.
    pub pps: Option<f64>,
    /// The generator was the bound.
    pub generator_bound: bool,
    /// Packets per second that came through an overloaded device, and how busy its core was.
    pub overloaded: Option<(f64, f64)>,
    /// Nanoseconds per packet of the process.
    pub process_ns: Option<f64>,
    /// Of the core.
    pub core_ns: Option<f64>,
    /// In the order that was asked for.
    pub loads: Vec<AtLoad>,
}

/// Processor time at the highest rate means little: packets that are lost cost, too.
const STEADY: f64 = 0.9;
/// The longest rate that is sent: what the port takes.
const MOST: f64 = 1e9;
/// Flows beside others are measured for so many seconds at least: protection begins when packets queue up.
const SHARED: f64 = 0.5;
/// Packets a second of the warm-up, in which each flow sends, and is answered: the device knows them all then.
const WARM_UP: f64 = 20_000.0;
/// It is over when less than this share is lost,
const WARM: f64 = 0.1;
/// or after this time.
const LONGEST_WARM_UP: Duration = Duration::from_secs(10);

fn number(v: &Value, keys: &[&str]) -> Option<f64> {
    let at = keys.iter().try_fold(v, |v, k| v.get(k))?;
    at.as_f64()
}

fn at_load(v: &Value) -> AtLoad {
    let p = |key| number(v, &["latency_ns", key]);
    AtLoad {
        sent_pps: number(v, &["rate", "sent_pps"]).unwrap_or(0.0),
        loss: number(v, &["loss"]).unwrap_or(0.0),
        latency: p("p50").and_then(|a| Some([a, p("p90")?, p("p99")?, p("p999")?])),
    }
}

impl Bench<'_> {
    /// One round of a row: `near`, its throughput in the round before; `loads`, where latency is measured.
    pub fn round(&self, row: &Row, near: Option<f64>, loads: &[Load]) -> Result<Sample> {
        if row.kind() == MEMORY {
            return memory::round(self, row);
        }
        self.topology.steer(match (self.steering, &row.device) {
            (Steering::All, _) | (_, Device::Kernel(_)) => {
                Some((self.generator_core, self.device_core))
            }
            (Steering::Kernel, _) => None,
        })?;
        let how = (self.rules.as_str(), self.poll.as_str());
        let device = device::start(self.topology, &self.exe, self.device_core, row, how)?;
        let mut driver = Driver::start(
            self.topology,
            &self.exe,
            self.generator_core,
            row,
            &self.trials,
        )?;
        self.warm_up(&mut driver)?;
        let mut s = Sample::default();
        if row.traffic.beside != Beside::Nobody {
            self.overload(&mut driver, self.trials.seconds.max(SHARED), &mut s)?;
            return Ok(s);
        }
        let found = driver.search(near)?;
        s.pps = number(&found, &["search", "throughput_pps"]);
        s.generator_bound = found["search"]["bound"] == "generator";
        if let Some(pps) = s.pps {
            self.cost(&mut driver, &device, pps, &mut s)?;
        }
        self.overload(&mut driver, self.trials.seconds, &mut s)?;
        for load in loads {
            let pps = match (load, s.pps) {
                (Load::Pps(p), _) => Some(*p),
                (Load::Share(share), Some(pps)) => Some(pps * share),
                (Load::Share(_), None) => None,
            };
            let at = match pps.filter(|p| *p >= 1.0) {
                Some(p) => at_load(&driver.trial(p, self.trials.seconds * 2.0)?),
                None => AtLoad::default(),
            };
            s.loads.push(at);
        }
        Ok(s)
    }

    /// Sends until most packets come back: what a chain does with its first packets may take it seconds.
    fn warm_up(&self, driver: &mut Driver) -> Result<()> {
        let seconds = 0.02 + f64::from(self.trials.flows) / WARM_UP;
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_WARM_UP && !interrupted() {
            let v = driver.trial(WARM_UP, seconds)?;
            if number(&v, &["loss"]).is_some_and(|l| l < WARM) {
                break;
            }
        }
        Ok(())
    }

    /// What a packet costs.
    fn cost(
        &self,
        driver: &mut Driver,
        device: &Running<'_>,
        pps: f64,
        s: &mut Sample,
    ) -> Result<()> {
        let time = || device.pid().and_then(usage::of_process);
        let (process, core) = (time(), Core::now(self.device_core));
        let v = driver.trial((pps * STEADY).max(1.0), self.trials.seconds * 2.0)?;
        let (process_after, core_after) = (time(), Core::now(self.device_core));
        let came = number(&v, &["received"]).unwrap_or(0.0);
        if came > 0.0 {
            let used = process.zip(process_after).map(|(a, b)| b.saturating_sub(a));
            s.process_ns = used.map(|ns| ns as f64 / came);
            let used = core.zip(core_after).map(|(a, b)| b.since(a).busy_ns());
            s.core_ns = used.map(|ns| ns as f64 / came);
        }
        Ok(())
    }

    /// What comes through, and how busy the core is, when as many come as the generator sends.
    fn overload(&self, driver: &mut Driver, seconds: f64, s: &mut Sample) -> Result<()> {
        let before = Core::now(self.device_core);
        let v = driver.trial(MOST, seconds)?;
        let after = Core::now(self.device_core);
        let busy = before.zip(after).map(|(a, b)| b.since(a));
        let came = number(&v, &["rate", "received_pps"]);
        // waiting for what is on its way is in the time, too
        let sending = seconds / (seconds + 0.05);
        s.overloaded = came.zip(busy.map(|b| (b.share() / sending).min(1.0)));
        Ok(())
    }
}

/// Has somebody asked for an end?
pub fn interrupted() -> bool {
    runner::interrupted().load(Ordering::SeqCst)
}
