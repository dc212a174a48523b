//! `onefold bench live`, in its smallest form.

use crate::common;
use crate::running::PATIENCE;
use onefold_testing::net::Net;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Each measurement begins by removing what others have left: these tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// May namespaces be made here?
fn may() -> bool {
    Net::new(&["x"]).is_some()
}

const SMALL: [&str; 15] = [
    "bench",
    "live",
    "--repeats",
    "1",
    "--trial",
    "0.05",
    "--flows",
    "10",
    "--step",
    "0.5",
    "--loss",
    "0.5",
    "--attempts",
    "3",
    "-q",
];

/// Measures; where no rate passes, it says so by its exit status.
fn measured(dir: &Path, rest: &[&str]) -> serde_json::Value {
    let o = common::onefold(dir, &[&SMALL[..], rest, &["--json"]].concat());
    let err = String::from_utf8_lossy(&o.stderr);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect(&err);
    let rows = v["rows"].as_array().expect("rows");
    let figure = |r: &serde_json::Value, key| !r[key].is_null();
    let passed = (rows.iter()).any(|r| figure(r, "throughput_pps") || figure(r, "overloaded_pps"));
    assert_eq!(
        o.status.code(),
        Some(if passed { 0 } else { 1 }),
        "{v} {err}"
    );
    v
}

/// Namespaces that this run, or the one before, has left.
fn left(of: &str) -> bool {
    Path::new("/run/netns").join(of).exists()
}

/// The process of a chain that runs in a namespace.
fn chain_of(namespace: &str) -> Option<String> {
    let pids = Command::new("ip")
        .args(["netns", "pids", namespace])
        .output();
    let pids = pids.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let pids = pids.unwrap_or_default();
    let mut pids = pids.split_whitespace();
    pids.find(|p| runs_chain(p)).map(str::to_string)
}

fn runs_chain(pid: &str) -> bool {
    let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
    words.is_ok_and(|w| w.contains("onefold\0run\0"))
}

/// Kills a measurement while its chain runs: the namespace that it leaves, and the chain's process.
fn killed(dir: &Path) -> (String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(dir)
        .args(SMALL)
        .args(["--rows", "l2fwd, xdp"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let namespace = format!("onefold-bench-{}-dut", child.id());
    let begun = Instant::now();
    let chain = loop {
        if let Some(chain) = chain_of(&namespace) {
            break chain;
        }
        assert!(begun.elapsed() < PATIENCE, "no chain runs");
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    (namespace, chain)
}

#[test]
fn bench_live_measures_and_leaves_nothing_behind() {
    if !may() {
        return;
    }
    let _turn = TURN.lock();
    let dir = common::temp("bench-live");
    let (stale, chain) = killed(&dir);
    assert!(left(&stale) && runs_chain(&chain), "nobody has cleaned up");
    let v = measured(
        &dir,
        &["--rows", "l2fwd, packet, batch", "--html", "live.html"],
    );
    assert!(!left(&stale), "what was left behind is removed");
    assert!(!runs_chain(&chain), "and the chain that ran there is ended");
    assert_eq!(v["experiment"], "throughput");
    let rows = v["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{v}");
    for r in rows {
        assert_eq!(r["skipped"], serde_json::Value::Null, "{v}");
        for key in ["overloaded_pps", "busy_share"] {
            assert!(r[key]["median"].as_f64() > Some(0.0), "{key}: {v}");
        }
        // on a machine with much other work no rate may pass
        let passed = !r["throughput_pps"].is_null();
        assert_eq!(passed, !r["process_ns_per_packet"].is_null(), "{v}");
        for key in ["throughput_pps", "process_ns_per_packet"] {
            assert!(
                !passed || r[key]["median"].as_f64() > Some(0.0),
                "{key}: {v}"
            );
        }
    }
    assert_eq!(v["rounds"], 1);
    assert_eq!(v["order"].as_array().map(Vec::len), Some(1));
    let (g, d) = (
        &v["parameters"]["generator_core"],
        &v["parameters"]["device_core"],
    );
    assert_ne!(g, d, "a core for each");
    let page = std::fs::read_to_string(dir.join("live.html")).expect("a page");
    assert!(page.contains("l2fwd, packet, batch 32") && page.contains("<svg"));
    let names = std::fs::read_dir("/run/netns").expect("namespaces");
    let names = names.flatten().map(|e| e.file_name().into_string());
    let mine = names.filter(|n| n.as_ref().is_ok_and(|n| n.starts_with("onefold-bench-")));
    // those of another test's run may be there
    for name in mine.flatten() {
        let pid = name.split('-').nth(2).unwrap_or_default();
        assert!(Path::new("/proc").join(pid).exists(), "{name}");
    }
}

#[test]
fn bench_live_tells_latency_by_load() {
    if !may() {
        return;
    }
    let _turn = TURN.lock();
    let dir = common::temp("bench-live-latency");
    let rest = [
        "--experiment",
        "batch",
        "--rows",
        "batch 4",
        "--rows",
        "batch 8",
    ];
    let v = measured(&dir, &rest);
    let rows = v["rows"].as_array().expect("rows");
    let named = |n: &str| rows.iter().find(|r| r["ports"] == n);
    let loads = |n: &str| {
        let row = named(n).unwrap_or_else(|| panic!("no {n}: {v}"));
        row["loads"].as_array().expect("loads").clone()
    };
    let all = [loads("packet, batch 4"), loads("packet, batch 8")];
    for l in all.iter().flatten() {
        // where no rate passed, nothing was sent
        let came = l["loss"]["median"].as_f64().is_some_and(|l| l < 1.0);
        assert_eq!(came, l["p50"]["median"].as_f64() > Some(0.0), "{v}");
    }
    // of all batches the load is the same: shares of what the first one can stand
    let names =
        |l: &[serde_json::Value]| -> Vec<_> { l.iter().map(|l| l["name"].clone()).collect() };
    assert_eq!(names(&all[0]), names(&all[1]));
    let passed = rows.iter().any(|r| !r["throughput_pps"].is_null());
    assert_eq!(all[0].len(), if passed { 2 } else { 0 }, "{v}");
    let said = v["conclusions"].as_array().expect("conclusions");
    let one = |c: &serde_json::Value| c.as_str().is_some_and(|c| c.contains("batch"));
    assert!(said.iter().all(one) && (!passed || !said.is_empty()), "{v}");
    assert!(
        v["published"][0]["source"]
            .as_str()
            .is_some_and(|s| s.contains("SCC"))
    );
    // what is not there is said
    let (_, err) = common::run(&dir, 2, &["bench", "live", "--rows", "no such row"]);
    assert!(err.contains("no row"), "{err}");
}

/// A chain and DPDK's own MAC swap, whose packets come from memory: what one takes more than the other is told.
#[test]
fn bench_live_measures_packets_from_memory() {
    if !may() {
        return;
    }
    let _turn = TURN.lock();
    let dir = common::temp("bench-live-memory");
    let rest = [
        "--experiment",
        "memory",
        "--rows",
        "l2fwd, from",
        "--rows",
        "fw10",
        "--rows",
        "testpmd",
    ];
    let v = measured(&dir, &rest);
    let rows = v["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "{v}");
    if !cfg!(feature = "dpdk") {
        let said = rows[0]["skipped"].as_str().unwrap_or_default();
        assert!(said.contains("built without DPDK"), "{v}");
        return;
    }
    for r in rows {
        if let Some(why) = r["skipped"].as_str() {
            // a rival that is not there is no fault
            assert!(why.contains("apt install dpdk"), "{v}");
            continue;
        }
        assert!(
            r["process_ns_per_packet"]["median"].as_f64() > Some(0.0),
            "{v}"
        );
    }
    let said = v["conclusions"][0].as_str().unwrap_or_default();
    assert!(
        said.starts_with("fw10: ") && said.contains("above the MAC swap"),
        "{v}"
    );
}

/// Flows beside others, and beside an attacker: what they keep of their rate is told.
#[test]
fn bench_live_tells_what_an_attack_leaves() {
    if !may() {
        return;
    }
    let _turn = TURN.lock();
    let dir = common::temp("bench-live-attack");
    let rest = [
        "--experiment",
        "attack",
        "--rows",
        "benign, packet",
        "--rows",
        "SYN flood, packet",
    ];
    let v = measured(&dir, &rest);
    let rows = v["rows"].as_array().expect("rows");
    let came = |at: usize| rows[at]["overloaded_pps"]["median"].as_f64();
    assert_eq!(rows.len(), 2, "{v}");
    assert!(came(0) > Some(0.0) && came(1) > Some(0.0), "{v}");
    let kept = v["ratios"][0]["ratio"]["median"].as_f64();
    let wanted = came(1).zip(came(0)).map(|(a, b)| a / (b / 2.0));
    let off = kept.zip(wanted).map(|(a, b)| (a - b).abs());
    assert!(off.is_some_and(|off| off < 1e-9), "{v}");
    let said = v["conclusions"][0].as_str().unwrap_or_default();
    assert!(said.contains("of 1 cases; least: "), "{v}");
    // packets of attackers are made from those that pass
    let args = ["gen", "--port", "packet:lo", "--hostile", "syn-flood"];
    let (_, err) = common::run(&dir, 2, &args);
    assert!(err.contains("--for CHAIN"), "{err}");
}
