//! The device under test, while it runs: a chain's process, or the kernel.

use super::driver::start_on;
use super::rival;
use super::rows::{Device, KINDS, Row};
use super::testpmd;
use super::topology::Topology;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onefold_bench::measure::on_all_cores;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A chain that is not stopped (its bench was killed) ends by itself after so many seconds.
const LONGEST: &str = "1800";
/// What `run` says when packets may come.
const READY: &str = "running;";
/// A process that is asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A device that forwards packets; it stops when it is dropped.
pub enum Running<'a> {
    /// A chain's process, or DPDK's.
    Process(Child),
    /// The kernel.
    Kernel(&'a Topology),
}

/// Starts a row's device. `rules`: the file of the kernel's.
pub fn start<'a>(
    topology: &'a Topology,
    exe: &Path,
    core: usize,
    row: &Row,
    (rules, poll): (&str, &str),
) -> Result<Running<'a>> {
    topology.forget_socket();
    let kind = match row.device {
        Device::Kernel(filter) => {
            let running = Running::Kernel(topology);
            rival::configure(topology, rules, filter)?;
            return Ok(running);
        }
        Device::Testpmd(Some(k)) => {
            let kind = KINDS.get(k).context("a kind of ports")?;
            let ports = [0, 1].map(|n| kind.device(topology.ends(n)[0]));
            return Ok(Running::Process(testpmd::start(core, &ports)?));
        }
        Device::Chain(k) => KINDS.get(k).context("a kind of ports")?,
        _ => bail!("packets from memory need no ports"),
    };
    let mut c = topology.device(exe);
    c.args(["run", &row.traffic.chain]);
    for (k, v) in &row.traffic.set {
        c.args(["--set", &format!("{k}={v}")]);
    }
    for (n, port) in row.traffic.ports.iter().enumerate() {
        let [end, _] = topology.ends(n);
        c.args(["--port", &format!("{port}={}", kind.device(end))]);
    }
    c.args(["--json", "--no-verify", "--poll", poll]);
    c.args(["--duration", LONGEST]);
    c.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = on_all_cores(|| start_on(core, &mut c)).context("the chain")?;
    let stderr = child.stderr.take();
    let running = Running::Process(child);
    let Some(stderr) = stderr else {
        bail!("the chain has no standard error");
    };
    let mut lines = BufReader::new(stderr);
    let mut said = String::new();
    // Bound: it ends, or is ready.
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            bail!("{} ended: {}", row.title(), said.trim());
        }
        if line.contains(READY) {
            break;
        }
        said.push_str(&line);
    }
    // what it says later must not stop it
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut lines, &mut std::io::sink());
    });
    Ok(running)
}

impl Running<'_> {
    /// The number of its process, if it is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Running::Process(c) => Some(c.id()),
            Running::Kernel(_) => None,
        }
    }
}

/// Ends a process as an operator does, so that programs and sockets are gone with it: one that is killed leaves them to
/// the process that opens them, which ends later. Who does not end is killed.
fn end(child: &mut Child) {
    let pid = i32::try_from(child.id()).map(Pid::from_raw);
    if let Ok(pid) = pid {
        let _ = kill(pid, Signal::SIGTERM);
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(Some(_)) = child.try_wait() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        match self {
            Running::Process(c) => end(c),
            Running::Kernel(t) => {
                let _ = rival::reset(t);
            }
        }
    }
}
