//! Functions' processes are ended again and again under load: what belongs to them comes back, nothing is left behind,
//! and another chain beside theirs loses nothing.

use crate::common;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::Net;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process, a namespace, a black box (the kernel's bridge, with a program beside it) and a process again.
const CHAIN: &str = r#"
functions:
  a: { monitor: {}, run: process }
  n: { monitor: {}, run: namespace }
  x:
    external:
      command: [sleep, "1000000"]
      ports: [{ veth: near }, { veth: far }]
      set-up:
        - ip link add br0 type bridge forward_delay 0 mcast_snooping 0 && ip link set br0 up
        - ip link set near master br0 && ip link set far master br0
  c: { monitor: {}, run: process }
links:
  - a[1] <-> [0]n[1] <-> [0]x[1] <-> [0]c
ports:
  in: a[0]
  out: c[1]
"#;

const BESIDE: &str = "
functions:
  a: { monitor: {}, run: process }
  c: { monitor: {}, run: process }
links:
  - a[1] <-> [0]c
ports:
  in: a[0]
  out: c[1]
";

/// Packets a second through the chain beside.
const BESIDE_RATE: &str = "500";

/// A generator; it does not outlive a test that fails.
struct Generator(Option<Child>);

impl Generator {
    fn end(&self) {
        let id = self.0.as_ref().map_or(0, Child::id);
        assert!(id > 0 && signal(id, "-TERM"));
    }

    /// What it says in the end.
    fn said(mut self) -> Value {
        let o = self.0.take().expect("it runs").wait_with_output();
        let o = o.expect("it ends");
        let out = String::from_utf8_lossy(&o.stdout);
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The generator at a host's two interfaces.
fn generator(net: &Net, host: &str, interfaces: [&str; 2], rate: &str, seconds: &str) -> Generator {
    let mut c = net.command(host, env!("CARGO_BIN_EXE_onefold"));
    let [a, b] = interfaces.map(|i| format!("packet:{i}"));
    c.args([
        "gen",
        "--port",
        &format!("in={a}"),
        "--port",
        &format!("out={b}"),
    ]);
    c.args([
        "--rate",
        rate,
        "--size",
        "60",
        "--seconds",
        seconds,
        "--json",
    ]);
    c.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Generator(Some(c.spawn().expect("the binary runs")))
}

fn signal(id: u32, what: &str) -> bool {
    let done = Command::new("kill")
        .args([what, &id.to_string()])
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|s| s.success())
}

fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let texts =
        tasks.map(|t| std::fs::read_to_string(t.path().join("children")).unwrap_or_default());
    let all: Vec<u32> = texts
        .flat_map(|t| {
            t.split_whitespace()
                .filter_map(|c| c.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    all
}

/// What a process has open, as the kernel names it.
fn descriptors(of: u32) -> Vec<String> {
    let all = std::fs::read_dir(format!("/proc/{of}/fd"));
    let names = all.into_iter().flatten().flatten();
    let names = names.filter_map(|e| std::fs::read_link(e.path()).ok());
    let mut names: Vec<String> = names.map(|n| n.display().to_string()).collect();
    names.sort();
    names
}

/// What the launcher has open once that is no more than `most`, and among it each function's account of processor
/// time: it opens and closes files of processes when it comes to it.
fn settled(launcher: u32, functions: &BTreeMap<String, u32>, most: Option<usize>) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let open = descriptors(launcher);
        let missing = |id: &&u32| !open.contains(&format!("/proc/{id}/status"));
        let missing: Vec<&u32> = functions.values().filter(missing).collect();
        if missing.is_empty() && most.is_none_or(|most| open.len() <= most) {
            return open;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "descriptors of the launcher, {most:?} before: {open:?}; without an account: {missing:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Network namespaces of the whole machine, as the kernel counts them; `None`: it does not say.
fn namespaces() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/slabinfo").ok()?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("net_namespace "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn control_groups() -> Vec<String> {
    let mut all = Vec::new();
    let mut open = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for e in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if e.file_type().is_ok_and(|t| t.is_dir()) && all.len() < 10_000 {
                all.push(e.path().display().to_string());
                open.push(e.path());
            }
        }
    }
    all.retain(|name| name.contains("onefold"));
    all.sort();
    all
}

/// What is killed in turn: a function's process, or the program of its black box.
const VICTIMS: [(&str, bool); 5] = [
    ("a", false),
    ("n", false),
    ("x", false),
    ("x", true),
    ("c", false),
];

/// Processes by function.
fn processes(onefold: &Running) -> BTreeMap<String, u32> {
    let mut ids: BTreeMap<String, u32> = BTreeMap::new();
    for line in onefold.said() {
        let process = line.strip_prefix("process ");
        if let Some((id, name)) = process.and_then(|l| l.split_once(": ")) {
            let name = name.split(',').next().unwrap_or_default().to_string();
            ids.insert(name, id.parse().expect("a number"));
        }
    }
    ids
}

/// Kills so many in turn, each once the one before it runs again.
fn kill_in_turn(onefold: &mut Running, ids: &mut BTreeMap<String, u32>, count: usize) {
    for n in 0..count {
        let (victim, program) = VICTIMS[n % VICTIMS.len()];
        let id = ids[victim];
        let first = |of: u32| children(of).into_iter().next();
        let target = match program {
            false => id,
            // behind the first process of its namespaces
            true => first(id).and_then(first).expect("a program"),
        };
        assert!(signal(target, "-KILL"), "kill {n}: {victim}");
        let line = onefold.wait_for(&format!("{victim}: runs again, process "));
        let id = line.rsplit(' ').next().and_then(|id| id.parse().ok());
        ids.insert(victim.to_string(), id.expect("a number"));
    }
}

/// Kills so many under load, and looks what is left. Gives a line about it.
fn kill_so_many(count: usize, name: &str, measured: bool) -> Option<String> {
    let net = Net::new(&["g", "o", "h", "p"])?;
    for (g, o) in [("g", "o"), ("h", "p")] {
        for end in ["a", "b"] {
            net.pair((g, &format!("{g}{end}")), (o, &format!("{o}{end}")));
        }
    }
    let dir = common::temp(name);
    let file = |name: &str, text: &str| {
        let file = dir.join(name);
        std::fs::write(&file, text).expect("a file");
        file.display().to_string()
    };
    let (chain, beside) = (file("chain.yaml", CHAIN), file("beside.yaml", BESIDE));
    let groups = control_groups();
    let ports = ["--port", "in=packet:pa", "--port", "out=packet:pb"];
    let other = Running::compared(&net, "p", &[&[beside.as_str()][..], &ports].concat(), "off");
    let ports = ["--port", "in=packet:oa", "--port", "out=packet:ob"];
    let more = ["--back-off", "0.01", "--mode", "reference"];
    let args = [&[chain.as_str()][..], &ports, &more].concat();
    let mut onefold = Running::with(&net, "o", &args, &[]);
    // half of what goes through
    let rate = match measured {
        true => {
            let v = generator(&net, "g", ["ga", "gb"], "200000", "3").said();
            ((v["received"].as_f64().unwrap_or(0.0) / 6.0) as u64).max(100)
        }
        false => 500,
    };
    let load = generator(&net, "g", ["ga", "gb"], &rate.to_string(), "100000");
    let steady = generator(&net, "h", ["ha", "hb"], BESIDE_RATE, "100000");
    let launcher = onefold.pid();
    let spaces = namespaces();
    let begun = Instant::now();
    let mut ids = processes(&onefold);
    // each once, and nothing is open any more but what each has
    kill_in_turn(&mut onefold, &mut ids, VICTIMS.len());
    let open = settled(launcher, &ids, None).len();
    kill_in_turn(&mut onefold, &mut ids, count - VICTIMS.len());
    let seconds = begun.elapsed().as_secs_f64();
    settled(launcher, &ids, Some(open));
    load.end();
    steady.end();
    let (load, steady) = (load.said(), steady.said());
    assert!(load["received"].as_u64() > Some(0), "{load}");
    assert_eq!(steady["duplicates"], 0, "{steady}");
    // on a machine that has little time for it, the kernel loses packets before anybody sees them
    assert!(!measured || steady["lost"] == 0, "{steady}");
    let v = onefold.stop();
    assert_eq!(v["slots_missing"], 0, "{v}");
    let processes = v["processes"].as_array().into_iter().flatten();
    let restarts: u64 = processes.filter_map(|p| p["restarts"].as_u64()).sum();
    assert_eq!(restarts, count as u64, "{v}");
    let v = other.stop();
    assert_eq!(v["dropped"], 0, "{v}");
    assert_eq!(v["packets_in"], v["packets_out"], "{v}");
    for id in ids.values() {
        let begun = Instant::now();
        while std::path::Path::new(&format!("/proc/{id}")).exists() {
            assert!(begun.elapsed() < PATIENCE, "process {id} is there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(control_groups(), groups);
    // beside other tests, there are theirs
    let spaces = spaces.filter(|_| measured);
    let spaces = spaces.zip(spaces_within(spaces, count));
    Some(format!(
        "{count} processes killed in {seconds:.0} s at {rate} packets a second, {} of {} came through, beside it {} of \
         {} did; network namespaces before and after: {spaces:?}",
        load["received"], load["sent"], steady["received"], steady["sent"]
    ))
}

/// Network namespaces once the kernel has cleared up: as many as before, but for what others do on the machine.
fn spaces_within(before: Option<u64>, kills: usize) -> Option<u64> {
    let before = before?;
    let begun = Instant::now();
    loop {
        let now = namespaces()?;
        // a box that is made anew has two, and there are two victims of five with one
        if now <= before + (kills as u64 / 10).max(8) {
            return Some(now);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "network namespaces: {before}, then {now}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn thirty_kills_leave_nothing_behind() {
    if let Some(line) = kill_so_many(30, "live-kills-30", false) {
        println!("{line}");
    }
}

/// A part of `make soak`.
#[test]
#[ignore = "minutes: scripts/soak.sh kills"]
fn a_thousand_kills_leave_nothing_behind() {
    if let Some(line) = kill_so_many(1000, "live-kills-1000", true) {
        println!("soak: {line}");
    }
}
