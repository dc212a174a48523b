//! `kill -9` at any moment of a run leaves nothing behind, at the latest when the next one has started: no interface,
//! no program on one, no file of DPDK's, no process.

use crate::dpdk;
use crate::links::routed;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::{Net, Raw};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Kills of each kind of port.
const KILLS: u64 = 5;
/// A run has started by then.
const STARTED: u64 = 900;

/// Processes in a host's namespace.
fn processes(net: &Net, host: &str) -> Vec<String> {
    let namespace = |path: &str| std::fs::metadata(path).map(|m| m.ino()).ok();
    let here = net.within(host, || namespace("/proc/thread-self/ns/net"));
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let names = all.filter_map(|e| e.file_name().into_string().ok());
    let pids = names.filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let own = std::process::id().to_string();
    pids.filter(|p| *p != own && namespace(&format!("/proc/{p}/ns/net")) == here)
        .collect()
}

/// What `ip link` says of a host's interfaces.
fn interfaces(net: &Net, host: &str) -> String {
    let o = net.command(host, "ip").args(["link", "show"]).output();
    String::from_utf8_lossy(&o.expect("ip runs").stdout).into_owned()
}

/// Runs with these ports are killed at moments between the first one and a while after the start; the next run finds
/// everything as it should be, and leaves nothing. `seed` makes the moments others for each kind.
fn survives(left: &str, right: &str, seed: u64) {
    let Some(net) = routed() else { return };
    let (left, right) = (format!("left={left}"), format!("right={right}"));
    let args = ["routers-1", "--port", &left, "--port", &right];
    let mut state = seed;
    let mut pids = Vec::new();
    for n in 0..KILLS {
        // one in each fifth of the time (Knuth's multiplier for 64 bits)
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let part = STARTED / KILLS;
        let moment = Duration::from_millis(n * part + (state >> 33) % part);
        let mut child = net
            .command("o", env!("CARGO_BIN_EXE_onefold"))
            .arg("run")
            .args(args)
            .args(["--verify-time", "0", "--quiet"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        pids.push(child.id());
        std::thread::sleep(moment);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let onefold = Running::start(&net, "o", &args);
    if !left.contains("tap:") {
        let far = [172, 16, 1, 2].into();
        let echo = net.within("a", || Raw::icmp().ping(far, 3, PATIENCE));
        assert!(echo.is_some());
    }
    pids.push(onefold.pid());
    onefold.stop();
    let begun = Instant::now();
    // helpers end when their run's socket is closed
    while !processes(&net, "o").is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(processes(&net, "o"), Vec::<String>::new());
    let all = interfaces(&net, "o");
    assert!(!all.contains("xdp") && !all.contains("t0"), "{all}");
    let files = dpdk::left();
    for pid in pids {
        assert!(!files.contains(&format!("onefold-{pid}")), "{files:?}");
    }
}

#[test]
fn packet_sockets_survive_it() {
    survives("packet:oa", "packet:ob", 1);
}

#[test]
fn af_xdp_survives_it() {
    survives("xdp:oa", "xdp:ob", 2);
}

#[test]
fn tap_interfaces_survive_it() {
    survives("tap:t0", "packet:ob", 3);
}

#[test]
fn devices_of_dpdk_survive_it() {
    if !dpdk::is_there() {
        return;
    }
    survives(&dpdk::af_xdp("oa"), &dpdk::af_packet("ob"), 4);
}
