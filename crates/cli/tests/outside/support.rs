//! What the tests of this program share: packets, runs that can be looked at, processes and interfaces.

use crate::common::captures::{Frames, read, write};
use crate::common::run;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(30);

/// Root, and these programs; says so where one is missing.
#[track_caller]
pub fn can(programs: &[&str]) -> bool {
    if !nix::unistd::geteuid().is_root() {
        onefold_testing::skip("namespaces need root");
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for p in [&["ip"], programs].concat() {
        let mut all = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        if !all.any(|d| d.join(p).exists()) {
            onefold_testing::skip(format!("{p} is not installed"));
            return false;
        }
    }
    true
}

/// An Internet checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// A UDP packet of flow `i` to a port, between two MAC addresses and two IPv4 addresses.
pub fn udp(i: usize, port: u16, macs: [u8; 2], ips: [[u8; 4]; 2]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, macs[1], 2, 0, 0, 0, 0, macs[0], 8, 0];
    let mut ip = vec![0x45, 0, 0, 60, (i >> 8) as u8, i as u8, 0, 0, 64, 17, 0, 0];
    ip.extend(ips.concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend(ip);
    f.extend((1024 + i as u16 % 100).to_be_bytes());
    f.extend(port.to_be_bytes());
    f.extend([0, 40, 0, 0]);
    f.extend((0..32).map(|b| (b + i) as u8));
    f
}

pub const NEAR: [u8; 4] = [10, 0, 0, 2];
pub const FAR: [u8; 4] = [10, 0, 1, 2];

/// A capture of so many packets from near to far (`lan.pcap`), every tenth to port 53, and one of a fifth as many back,
/// behind it (`wan.pcap`).
pub fn both_ways(dir: &Path, packets: usize) -> (Frames, Frames) {
    let at = |i: usize| 1_000_000 * (i as i64 + 1);
    let there: Frames = (0..packets)
        .map(|i| {
            (
                at(i),
                udp(
                    i,
                    if i % 10 == 0 { 53 } else { 80 },
                    [0x21, 0x10],
                    [NEAR, FAR],
                ),
            )
        })
        .collect();
    let back: Frames = (0..packets / 5)
        .map(|i| (at(packets + i), udp(i, 80, [0x22, 0x11], [FAR, NEAR])))
        .collect();
    write(&dir.join("lan.pcap"), &there);
    write(&dir.join("wan.pcap"), &back);
    (there, back)
}

/// Frames without their times.
pub fn bytes(frames: Frames) -> Vec<Vec<u8>> {
    frames.into_iter().map(|f| f.1).collect()
}

/// What leaves at the two ports, and the report.
pub fn through(dir: &Path, chain: &str, more: &[&str]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Value) {
    let args = ["run", chain, "--in", "lan=lan.pcap", "--in", "wan=wan.pcap"];
    let out = [
        "--out",
        "lan=to-lan.pcap",
        "--out",
        "wan=to-wan.pcap",
        "--json",
        "--quiet",
    ];
    let (text, _) = run(dir, 0, &[&args[..], &out, more].concat());
    let v = serde_json::from_str(&text).unwrap();
    let of = |name: &str| bytes(read(&dir.join(name)));
    (of("to-lan.pcap"), of("to-wan.pcap"), v)
}

/// A run whose processes can be looked at and ended.
pub struct Running {
    pub child: Child,
    err: BufReader<std::process::ChildStderr>,
    pub kids: Vec<(u32, String)>,
}

impl Running {
    pub fn start(dir: &Path, args: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
            .current_dir(dir)
            .env("ONEFOLD_CACHE", "")
            .env("ONEFOLD_HINT", "must not get there")
            .args(["run", "chain.yaml", "--json", "--mode", "reference"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut kids = Vec::new();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "ended: {said}");
            said.push_str(&line);
            if line.starts_with("running") {
                break;
            }
            let process = line
                .strip_prefix("process ")
                .and_then(|l| l.split_once(": "));
            if let Some((id, name)) = process {
                let name = name.split([',', ' ']).next().unwrap_or_default().trim();
                kids.push((id.parse().unwrap(), name.to_string()));
            }
        }
        Running { child, err, kids }
    }

    /// The process of a function, and that of a black box's namespaces, and its program.
    pub fn of(&self, name: &str) -> u32 {
        self.kids.iter().find(|k| k.1 == name).unwrap().0
    }

    pub fn stop(self) -> Value {
        signal(self.child.id(), "-TERM");
        self.report(143)
    }

    fn report(mut self, status: i32) -> Value {
        let (mut out, mut err) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.err.read_to_string(&mut err).unwrap();
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{out}\n{err}");
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(id: u32, what: &str) {
    let done = Command::new("kill").args([what, &id.to_string()]).status();
    assert!(done.is_ok_and(|s| s.success()), "kill {what} {id}");
}

pub fn children(of: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"));
    for t in tasks.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(t.path().join("children")).unwrap_or_default();
        all.extend(
            text.split_whitespace()
                .filter_map(|c| c.parse::<u32>().ok()),
        );
    }
    all
}

/// All processes below one.
pub fn below(of: u32) -> Vec<u32> {
    let mut all = children(of);
    let mut at = 0;
    while at < all.len() && all.len() < 1000 {
        let more = children(all[at]);
        all.extend(more);
        at += 1;
    }
    all
}

pub fn exists(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|s| s.split_whitespace().next());
    state.is_some_and(|s| s != "Z")
}

pub fn namespace(id: u32, kind: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{id}/ns/{kind}"));
    link.map_or(String::new(), |l| l.display().to_string())
}

pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Interfaces of the host, and what is mounted there.
pub fn host() -> (BTreeSet<String>, BTreeSet<String>) {
    let all = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    // TAP interfaces are other tests'
    let interfaces = all
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("ofns") && !name.starts_with("ofun"))
        .collect();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts
        .lines()
        .filter(|l| l.contains("onefold"))
        .map(str::to_string);
    (interfaces, mounts.collect())
}

/// Two functions that count, and what is between them.
pub fn chain_around(dir: &Path, between: &str, more: &str) {
    let text = format!(
        "functions:\n  a: {{ monitor: {{}}, run: process }}\n{between}\n  c: {{ monitor: {{}}, run: process }}\n\
         {more}links:\n  - a[1] <-> [0]x[1] <-> [0]c\nports:\n  lan: a[0]\n  wan: c[1]\n"
    );
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
}
