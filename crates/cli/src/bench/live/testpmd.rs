//! DPDK's own test program as a rival: it exchanges MAC addresses.

use super::driver::start_on;
use super::topology::has;
use anyhow::{Context, Result, bail};
use onefold_bench::measure::{cores, on_all_cores};
use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "dpdk-testpmd";
/// It forwards when the thread has worked for so long: until then it sleeps. (What it says comes late into a pipe.)
const BEGUN_NS: u64 = 20_000_000;
/// Until then, at most.
const LONGEST_START: Duration = Duration::from_secs(20);
/// The thread that forwards has this in its name (DPDK 22.11: `lcore-worker-1`, later `dpdk-worker1`).
const WORKER: &str = "worker";

/// Why it cannot be compared here, with a cure.
pub fn obstacle() -> Option<String> {
    (!has(PROGRAM)).then(|| format!("there is no '{PROGRAM}'; type: apt install dpdk"))
}

/// Its process: it forwards on this core between two devices, given as `dpdk:` ports are.
fn launch(core: usize, devices: &[String; 2]) -> Result<(Child, BufReader<ChildStdout>)> {
    let main = cores().into_iter().find(|c| *c != core).unwrap_or(core);
    let mut c = Command::new(PROGRAM);
    c.args(["--lcores", &format!("0@{main},1@{core}"), "--no-pci"]);
    c.args(["--no-huge", "-m", "256", "--no-telemetry"]);
    c.args([
        "--file-prefix",
        &format!("onefold-rival-{}", std::process::id()),
    ]);
    for d in devices {
        c.args(["--vdev", d.trim_start_matches("dpdk:")]);
    }
    c.args(["--", "--forward-mode=macswap", "--auto-start"]);
    c.arg("--total-num-mbufs=32768");
    c.stdin(Stdio::piped());
    c.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = on_all_cores(|| start_on(main, &mut c)).context(PROGRAM)?;
    let mut out = BufReader::new(child.stdout.take().context("standard output")?);
    let begun = Instant::now();
    while worker_time(child.id()).is_none_or(|t| t < BEGUN_NS) {
        let ended = child.try_wait()?.is_some();
        if ended || begun.elapsed() > LONGEST_START {
            let _ = child.kill();
            let _ = child.wait();
            let mut said = String::new();
            let _ = out.read_to_string(&mut said);
            let last: Vec<&str> = said.trim().lines().rev().take(3).collect();
            bail!("{PROGRAM} does not forward: {}", last.join("; "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((child, out))
}

/// Starts it; it forwards until it is killed.
pub fn start(core: usize, devices: &[String; 2]) -> Result<Child> {
    let (child, mut lines) = launch(core, devices)?;
    // what it says later must not stop it
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut lines, &mut std::io::sink());
    });
    Ok(child)
}

/// Nanoseconds of processor time that the thread which forwards has had.
fn worker_time(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let worker = |t: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(t.path().join("comm"));
        name.is_ok_and(|n| n.contains(WORKER))
    };
    let t = tasks.flatten().find(worker)?;
    let text = std::fs::read_to_string(t.path().join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The packets received, as its last account says.
fn received(text: &str) -> Option<f64> {
    let words = text.rsplit_once("RX-packets:")?.1;
    words.split_whitespace().next()?.parse().ok()
}

/// Forwards for so long: packets, and nanoseconds of processor time for all of them.
pub fn measure(core: usize, devices: &[String; 2], time: Duration) -> Result<(f64, f64)> {
    let (mut child, mut lines) = launch(core, devices)?;
    std::thread::sleep(time);
    let used = worker_time(child.id());
    if let Some(mut input) = child.stdin.take() {
        let _ = writeln!(input);
    }
    let mut text = String::new();
    lines.read_to_string(&mut text)?;
    let _ = child.wait();
    let packets = received(&text).context("no account of its packets")?;
    let used = used.context("no account of its time")?;
    Ok((packets, used as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_account_counts() {
        let text = "  RX-packets: 7  TX-packets: 0\n +++ all ports +++\n  RX-packets: 20480000       RX-dropped: 0\n";
        assert_eq!(received(text), Some(20_480_000.0));
        assert_eq!(received("nothing"), None);
    }
}
