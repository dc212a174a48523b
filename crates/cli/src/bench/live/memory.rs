//! Packets that come from memory, over and over (DPDK's `net_pcap`), and go nowhere (`net_null`): what a chain costs
//! above a MAC swap over the same ports, without a network and without a generator.

use super::driver::start_on;
use super::measure::{Bench, Sample};
use super::rows::{Device, Row, Traffic};
use super::testpmd;
use anyhow::{Context, Result, bail};
use onefold_bench::measure::{Spread, on_all_cores};
use onefold_capture::{CaptureReader, CaptureWriter, LinkType};
use onefold_verify::frame::view;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Frames that are replayed, at most.
const FRAMES: usize = 4096;
/// Frames that are made to have so many: those that open and close flows are left out, or flows would be opened over
/// and over.
const MADE: usize = 5 * FRAMES;
/// Most nanoseconds that the ISP edge may take above a MAC swap.
const LIMIT: f64 = 50.0;
/// A measurement is so many trials long.
const TRIALS: f64 = 10.0;

/// Captures to be replayed, in a folder that is removed.
pub struct Replays(PathBuf);

impl Replays {
    /// In the folder for what is temporary.
    pub fn new() -> Replays {
        let name = format!("onefold-bench-{}-replay", std::process::id());
        Replays(std::env::temp_dir().join(name))
    }

    /// The capture for a row; it is made once.
    fn file(&self, bench: &Bench<'_>, t: &Traffic) -> Result<PathBuf> {
        let set: Vec<&str> = t.set.iter().map(|(_, v)| v.as_str()).collect();
        let name: String = format!("{}-{}.pcap", t.chain, set.join("-"));
        let file = self.0.join(name.replace('/', "_"));
        if !file.exists() {
            std::fs::create_dir_all(&self.0).with_context(|| format!("'{}'", self.0.display()))?;
            let made = file.with_extension("made.pcap");
            make(bench, t, &made)?;
            keep_established(&made, &file)?;
        }
        Ok(file)
    }
}

impl Drop for Replays {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `onefold gen --for` makes it.
fn make(bench: &Bench<'_>, t: &Traffic, file: &Path) -> Result<()> {
    let mut c = Command::new(&bench.exe);
    c.args(["gen", "-q", "--for", &format!("{}:{}", t.chain, t.ports[0])]);
    for (k, v) in &t.set {
        c.args(["--set", &format!("{k}={v}")]);
    }
    let size = t.size.as_ref().unwrap_or(&bench.trials.size);
    c.args(["--size", size, "--packets", &MADE.to_string()]);
    c.args(["--flows", &bench.trials.flows.to_string()]);
    c.args(["--seed", &bench.trials.seed.to_string(), "--out"]);
    let o = c.arg(file).stdin(Stdio::null()).output().context("gen")?;
    if !o.status.success() {
        bail!("gen: {}", String::from_utf8_lossy(&o.stderr).trim());
    }
    Ok(())
}

/// Is it a frame of a flow that is open, and stays so?
fn is_established(frame: &[u8]) -> bool {
    let Some(v) = view(frame) else { return false };
    let flags = v.transport.and_then(|t| frame.get(t + 13));
    // FIN, SYN, RST
    v.proto != 6 || flags.is_some_and(|f| f & 7 == 0)
}

/// The first frames of flows that are open.
fn keep_established(from: &Path, to: &Path) -> Result<()> {
    let mut r = CaptureReader::open(from)?;
    let mut w = CaptureWriter::create_for(to, LinkType::ETHERNET)?;
    let (mut frame, mut kept) = (Vec::new(), 0);
    while let Some(meta) = r.next_into(&mut frame) {
        if is_established(&frame) && kept < FRAMES {
            w.write(meta?.ts_ns, &frame, frame.len() as u32)?;
            kept += 1;
        }
    }
    w.finish()?;
    Ok(())
}

/// The two devices, as `dpdk:` ports are written.
fn devices(file: &Path) -> [String; 2] {
    let replay = format!("dpdk:net_pcap0,rx_pcap={},infinite_rx=1", file.display());
    [replay, "dpdk:net_null0,no-rx=1".to_string()]
}

/// One round of a row: processor time per packet, and the rate.
pub fn round(bench: &Bench<'_>, row: &Row) -> Result<Sample> {
    let devices = devices(&bench.replays.file(bench, &row.traffic)?);
    let time = Duration::from_secs_f64(bench.trials.seconds * TRIALS);
    let (packets, ns) = match row.device {
        Device::Testpmd(_) => testpmd::measure(bench.device_core, &devices, time)?,
        _ => chain(bench, row, &devices, time)?,
    };
    if packets <= 0.0 {
        bail!("{}: no packet came through", row.title());
    }
    Ok(Sample {
        pps: Some(packets / ns * 1e9),
        process_ns: Some(ns / packets),
        ..Sample::default()
    })
}

fn chain(
    bench: &Bench<'_>,
    row: &Row,
    devices: &[String; 2],
    time: Duration,
) -> Result<(f64, f64)> {
    let mut c = Command::new(&bench.exe);
    c.args(["run", &row.traffic.chain]);
    for (k, v) in &row.traffic.set {
        c.args(["--set", &format!("{k}={v}")]);
    }
    let more = [",frames=16384", ""];
    for ((port, device), more) in row.traffic.ports.iter().zip(devices).zip(more) {
        let keep = "mac=keep,neighbours=keep";
        c.args(["--port", &format!("{port}={device}{more},{keep}")]);
    }
    c.args(["--json", "-q", "--no-verify", "--poll", "busy"]);
    c.args(["--duration", &time.as_secs_f64().to_string()]);
    c.stdin(Stdio::null());
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = on_all_cores(|| start_on(bench.device_core, &mut c)).context("the chain")?;
    let o = child.wait_with_output()?;
    if !o.status.success() {
        bail!(
            "{}: {}",
            row.title(),
            String::from_utf8_lossy(&o.stderr).trim()
        );
    }
    let v: Value = serde_json::from_slice(&o.stdout).context("the chain's report")?;
    let number = |key: &str| {
        v[key]
            .as_f64()
            .with_context(|| format!("no {key} in the report"))
    };
    // what was dropped at the door is no work
    let shed = v["levels"]["flow_table"]["shed"].as_f64().unwrap_or(0.0);
    Ok((number("packets_in")? - shed, number("cpu_seconds")? * 1e9))
}

/// What each chain takes above the MAC swap, in words.
pub fn conclusions(rows: &[(&Row, Vec<f64>)]) -> Vec<String> {
    let swap = rows.iter().find(|(r, _)| r.name == "l2fwd");
    let Some((_, swap)) = swap else {
        return Vec::new();
    };
    let others = rows
        .iter()
        .filter(|(r, _)| r.device == Device::Memory && r.name != "l2fwd");
    let above = |(row, ns): &(&Row, Vec<f64>)| {
        let s = Spread::of(ns.iter().zip(swap).map(|(a, b)| a - b))?;
        let limit = match row.name.starts_with("isp-edge") {
            true => format!(", at most {LIMIT} wanted"),
            false => String::new(),
        };
        Some(format!(
            "{}: {:.1} ns above the MAC swap ({:.1} to {:.1}{limit})",
            row.name, s.median, s.min, s.max
        ))
    };
    others.filter_map(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_verify::frame::{Shape, make};

    #[test]
    fn frames_that_open_or_close_flows_are_left_out() {
        let mut f = make(Shape {
            version: 4,
            proto: 6,
            tags: 0,
            payload: 4,
        });
        let flags = view(&f).unwrap().transport.unwrap() + 13;
        for (value, kept) in [
            (0x10, true),
            (0x18, true),
            (0x02, false),
            (0x11, false),
            (0x14, false),
        ] {
            f[flags] = value;
            assert_eq!(is_established(&f), kept, "{value:#x}");
        }
        f.truncate(20);
        assert!(!is_established(&f));
    }
}
