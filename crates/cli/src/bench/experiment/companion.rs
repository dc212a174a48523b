//! Processes that do the same as this one at the same time: `onefold bench --companion`, which tells on standard error
//! that its packets are made and measures until its standard input ends.

use super::super::point::Mode;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use onefold_bench::measure::{cores, on_all_cores};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

/// What a companion says when its packets are made.
const READY: &str = "ready";

/// In the companion: tells that it is ready, and ends the measurement when standard input does.
pub fn begin() {
    eprintln!("{READY}");
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        runner::interrupted().store(true, Ordering::SeqCst);
    });
}

/// What a companion does.
pub struct Task<'a> {
    /// The example.
    pub chain: &'a str,
    /// How it is executed.
    pub mode: Mode,
    /// Lengths of frames.
    pub size: &'a str,
    /// Flows.
    pub flows: usize,
    /// Share of TCP.
    pub tcp: f64,
    /// Packets handed over together.
    pub batch: usize,
    /// Seconds of a slice.
    pub seconds: f64,
}

/// Companions at work. They end when this does.
pub struct Companions(Vec<Child>);

impl Companions {
    /// Begins so many, and waits until all are ready.
    pub fn begin(n: usize, t: &Task<'_>) -> Result<Companions> {
        let exe = std::env::current_exe().context("this program's file")?;
        let cores = cores();
        let mode = t
            .mode
            .to_possible_value()
            .map_or(String::new(), |v| v.get_name().to_string());
        let mut all = Companions(Vec::new());
        for i in 0..n {
            // the first core of the list is this process' own
            let core = cores
                .get((i + 1) % cores.len().max(1))
                .copied()
                .unwrap_or(0);
            let mut command = Command::new(&exe);
            command
                .args([
                    "bench",
                    t.chain,
                    "--companion",
                    "--json",
                    "-q",
                    "--repeats",
                    "1000",
                ])
                .args(["--mode", &mode, "--size", t.size])
                .args(["--flows", &t.flows.to_string(), "--tcp", &t.tcp.to_string()])
                .args([
                    "--batch",
                    &t.batch.to_string(),
                    "--seconds",
                    &t.seconds.to_string(),
                ])
                .args(["--core", &core.to_string(), "--seed", &(i + 2).to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let child = on_all_cores(|| command.spawn()).context("a second process")?;
            all.0.push(child);
        }
        for c in &mut all.0 {
            let Some(err) = c.stderr.take() else { continue };
            let mut lines = BufReader::new(err);
            let mut said = String::new();
            // Bound: it ends, or is ready.
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line)? == 0 {
                    bail!("a second process ended: {}", said.trim());
                }
                if line.trim() == READY {
                    break;
                }
                said.push_str(&line);
            }
            // what it says later must not stop it
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut lines, &mut std::io::sink());
            });
        }
        Ok(all)
    }

    /// Ends them. Gives the million packets per second, on the wall, of each.
    pub fn end(mut self) -> Result<Vec<f64>> {
        let mut rates = Vec::new();
        for mut c in std::mem::take(&mut self.0) {
            drop(c.stdin.take());
            let mut text = String::new();
            if let Some(mut out) = c.stdout.take() {
                out.read_to_string(&mut text)?;
            }
            c.wait()?;
            let v: serde_json::Value =
                serde_json::from_str(&text).context("what a second process told")?;
            let ns = v["chains"][0]["wall_ns_per_packet"]["median"].as_f64();
            let ns = ns.filter(|ns| *ns > 0.0);
            let ns = ns.ok_or_else(|| {
                anyhow!("a second process has measured nothing: longer slices are needed")
            })?;
            rates.push(1000.0 / ns);
        }
        Ok(rates)
    }
}

impl Drop for Companions {
    fn drop(&mut self) {
        for c in &mut self.0 {
            let _ = c.kill();
            let _ = c.wait();
        }
    }
}
