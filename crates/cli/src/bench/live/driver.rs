//! `onefold gen` in the generator's namespace, which makes trials as it is told (`gen --commands`).

use super::rows::{Beside, Device, KINDS, Row};
use super::topology::Topology;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::measure::{on_all_cores, pin};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How trials are made.
#[derive(Debug, Clone)]
pub struct Trials {
    /// Seconds that each one sends.
    pub seconds: f64,
    /// The most that may be lost, as a share.
    pub loss: f64,
    /// Where a search ends.
    pub step: f64,
    /// Trials of which one must pass.
    pub attempts: u32,
    /// Frame lengths.
    pub size: String,
    /// Flows.
    pub flows: u32,
    /// Seed of what is random.
    pub seed: u64,
}

/// As many flows of TCP as of UDP.
const BOTH: &str = "tcp,udp";

/// The process.
pub struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Starts a command on a core.
pub fn start_on(core: usize, command: &mut Command) -> Result<Child> {
    // a child has the affinity of the thread that makes it
    let child = std::thread::scope(|s| {
        let start = s.spawn(|| -> Result<Child> {
            pin(Some(core)).map_err(|e| anyhow!("core {core}: {e}"))?;
            Ok(command.spawn()?)
        });
        start.join()
    });
    child.map_err(|_| anyhow!("a process could not be started"))?
}

impl Driver {
    /// Starts it; it has asked for the device's MAC address and opened the flows when this returns.
    pub fn start(
        topology: &Topology,
        exe: &Path,
        core: usize,
        row: &Row,
        trials: &Trials,
    ) -> Result<Driver> {
        let traffic = &row.traffic;
        let kind = match row.device {
            Device::Chain(k) | Device::Testpmd(Some(k)) => KINDS.get(k),
            _ => KINDS.first(),
        };
        let kind = kind.context("a kind of ports")?;
        let mut c = topology.generator(exe);
        c.args(["gen", "--commands", "--json", "-q", "--settle", "0.05"]);
        c.args(["--establish", "--attempts", &trials.attempts.to_string()]);
        c.args(["--for", &format!("{}:{}", traffic.chain, traffic.ports[0])]);
        for (k, v) in &traffic.set {
            c.args(["--set", &format!("{k}={v}")]);
        }
        for (n, port) in traffic.ports.iter().enumerate() {
            let [_, end] = topology.ends(n);
            c.args(["--port", &format!("{port}={}", kind.generator(end))]);
        }
        if let Some(mac) = &traffic.to_mac {
            c.args(["--to-mac", &format!("{}={mac}", traffic.ports[0])]);
        }
        if !traffic.opens {
            c.arg("--no-openings");
        }
        let size = traffic.size.as_ref().unwrap_or(&trials.size);
        let (protocols, groups) = match traffic.beside {
            Beside::Nobody => ("udp", 1),
            Beside::Benign => (BOTH, 2),
            Beside::Attacker(_) => (BOTH, 1),
        };
        c.args(["--protocols", protocols, "--size", size]);
        c.args(["--flows", &(groups * trials.flows).to_string()]);
        if let Beside::Attacker(attack) = traffic.beside {
            c.args(["--hostile", attack.option()]);
        }
        c.args(["--trial", &trials.seconds.to_string()]);
        c.args(["--loss", &trials.loss.to_string()]);
        c.args(["--step", &trials.step.to_string()]);
        c.args(["--seed", &trials.seed.to_string(), "--poll", "busy"]);
        c.stdin(Stdio::piped());
        c.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = on_all_cores(|| start_on(core, &mut c)).context("the generator")?;
        let input = child.stdin.take();
        let Some(output) = child.stdout.take() else {
            bail!("the generator has no output");
        };
        let mut driver = Driver {
            child,
            input,
            output: BufReader::new(output),
        };
        driver.answer()?;
        Ok(driver)
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let mut said = String::new();
            if let Some(e) = &mut self.child.stderr {
                let _ = e.read_to_string(&mut said);
            }
            bail!("the generator ended: {}", said.trim());
        }
        serde_json::from_str(&line).context("the generator's answer")
    }

    fn ask(&mut self, command: &str) -> Result<Value> {
        let input = self.input.as_mut().context("the generator has ended")?;
        writeln!(input, "{command}")?;
        input.flush()?;
        self.answer()
    }

    /// Searches for the throughput, near this rate if one is given.
    pub fn search(&mut self, near: Option<f64>) -> Result<Value> {
        let near = near.map_or(String::new(), |n| format!(" {n}"));
        self.ask(&format!("search{near}"))
    }

    /// Sends so many packets a second for so many seconds.
    pub fn trial(&mut self, pps: f64, seconds: f64) -> Result<Value> {
        self.ask(&format!("trial {pps} {seconds}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // it ends when its input does; whatever it does then, it is not waited for
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
