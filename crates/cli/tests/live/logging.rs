//! `--log`: what happens to a run, a line for each event.

use crate::common;
use crate::host::datagrams;
use crate::links::{ROUTER_PACKET, left, routed};
use crate::running::{PATIENCE, Running};
use onefold_testing::net::Raw;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the log");
    let all = text.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    all.collect()
}

/// The first event of this name; it has these keys, and is not of another time.
fn event<'a>(all: &'a [Value], name: &str, keys: &[&str]) -> &'a Value {
    let found = all.iter().find(|v| v["event"] == name);
    let v = found.unwrap_or_else(|| panic!("no '{name}': {all:#?}"));
    for k in keys {
        assert_ne!(v.get(k), None, "{name}.{k}: {v}");
    }
    let time = v["time"].as_str().expect("a time");
    assert!(time.len() == 27 && time.ends_with('Z'), "{time}");
    v
}

/// What a change of the run at this socket ends with.
fn changed(socket: &str, args: &[&str]) -> Option<i32> {
    let o = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .args(args)
        .args(["--socket", socket])
        .current_dir(common::root())
        .stdin(Stdio::null())
        .output();
    o.expect("the binary runs").status.code()
}

/// Start, ports, sandbox, proof, links, changes that were made and refused, and the end with its totals; every event
/// that is documented has its keys.
#[test]
fn every_event_of_a_run_is_written_down() {
    let Some(net) = routed() else { return };
    let folder = common::temp("live-log");
    let file = folder.join("run.log");
    let name = file.display().to_string();
    let socket = folder.join("run.sock").display().to_string();
    let ports = ["left=xdp:oa", "right=xdp:ob"];
    let mut args = vec!["routers-1", "--port", ports[0], "--port", ports[1]];
    args.extend(["--log", &name, "--log-format", "json", "--control", &socket]);
    args.extend(["--offload", "xdp"]);
    let mut onefold = Running::proved(&net, "o", &args);
    let ping = || {
        let far = [172, 16, 1, 2].into();
        net.within("a", || Raw::icmp().ping(far, 3, PATIENCE))
    };
    assert!(ping().is_some());
    let change = |args: &[&str]| changed(&socket, args);
    assert_eq!(change(&["reload"]), Some(0));
    assert_eq!(change(&["reload", "l2fwd"]), Some(1));
    net.ip("o", "link del oa");
    onefold.wait_for("is gone");
    left(&net);
    onefold.wait_for("is back");
    assert!(ping().is_some());
    let report = onefold.stop();
    let all = lines(&file);
    let start = event(&all, "start", &["chain", "version", "pid", "control"]);
    assert_eq!(start["workers"], 1);
    let port = event(&all, "port", &["device", "mac"]);
    assert_eq!(
        (&port["port"], &port["mtu"]),
        (&"left".into(), &1500.into())
    );
    event(&all, "sandbox", &["holds", "missing"]);
    let proof = event(&all, "verified", &["seconds", "classes", "what"]);
    assert_eq!(
        (&proof["verdict"], &proof["level"]),
        (&"proved".into(), &"info".into())
    );
    event(&all, "running", &[]);
    event(&all, "offload-in", &["port", "what"]);
    event(&all, "offload-out", &["port", "why"]);
    let reload = event(
        &all,
        "reload",
        &["seconds", "pause_seconds", "lost", "dropped"],
    );
    assert_eq!(reload["verification"], "proved");
    let refused = event(&all, "not-changed", &["what"]);
    assert_eq!(
        (&refused["kind"], &refused["level"]),
        (&"ports".into(), &"error".into())
    );
    let gone = event(&all, "link", &["what"]);
    assert_eq!(
        (&gone["port"], &gone["level"]),
        (&"left".into(), &"warning".into())
    );
    event(&all, "neighbours-forgotten", &["port", "element"]);
    let end = event(&all, "ended", &["held", "seconds", "created"]);
    for key in [
        "packets_in",
        "packets_out",
        "dropped",
        "conserved",
        "interrupted",
    ] {
        assert_eq!(end[key], report[key], "{key}");
    }
    assert_eq!(event(&all, "exit", &[])["status"], 143);
    let times: Vec<&str> = all.iter().filter_map(|v| v["time"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// What keeps a run from starting is written down, too; text is for people; what is lost is told once a second.
#[test]
fn failures_and_losses_are_written_down() {
    let Some(net) = routed() else { return };
    let folder = common::temp("live-log-failures");
    let file = folder.join("run.log");
    let name = file.display().to_string();
    let (_, said) = common::run(
        &common::root(),
        2,
        &[
            "run",
            "routers-1",
            "--port",
            "left=packet:eno77",
            "--log",
            &name,
        ],
    );
    assert!(said.contains("no interface 'eno77'"), "{said}");
    let text = std::fs::read_to_string(&file).expect("the log");
    let line = text.lines().last().expect("a line");
    assert!(
        line.contains(" error failed what=\"") && line.contains("eno77"),
        "{text}"
    );
    std::fs::remove_file(&file).expect("it is there");
    // a link that is down loses what is sent there
    let args = ROUTER_PACKET;
    let more = ["--log", &name, "--log-format", "json"];
    let mut onefold = Running::start(&net, "o", &[&args[..], &more].concat());
    datagrams(&net, "a", "b", ([172, 16, 1, 2], 7).into(), 3);
    net.ip("o", "link set ob down");
    onefold.wait_for("link of ob down");
    let s = net.within("a", || std::net::UdpSocket::bind("0.0.0.0:0"));
    let s = s.expect("a socket");
    for _ in 0..20 {
        s.send_to(&[1; 64], ("172.16.1.2", 7)).expect("it leaves");
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    onefold.stop();
    let all = lines(&file);
    let lost = event(&all, "lost", &["reason"]);
    assert_eq!(
        (&lost["port"], &lost["level"]),
        (&"right".into(), &"warning".into())
    );
    assert!(lost["packets"].as_u64() > Some(0), "{lost}");
    std::fs::remove_file(&file).expect("it is there");
    net.ip("o", "link set ob up");
    let chain = folder.join("mine.yaml");
    let text = "functions:\n  fw: { firewall: { rules: [allow all] } }\nports:\n  left: fw[0]\n  right: fw[1]\n";
    std::fs::write(&chain, text).expect("a file");
    let chain = chain.display().to_string();
    let socket = folder.join("run.sock").display().to_string();
    let firewall = [
        &[chain.as_str()],
        &args[1..],
        &more,
        &["--control", &socket],
    ]
    .concat();
    let onefold = Running::start(&net, "o", &firewall);
    assert_eq!(changed(&socket, &["rule", "add", "deny tcp"]), Some(0));
    assert_eq!(changed(&socket, &["rule", "remove", "1"]), Some(0));
    assert_eq!(changed(&socket, &["rule", "add", "dney tcp"]), Some(2));
    onefold.stop();
    let all = lines(&file);
    event(&all, "added", &["chain", "seconds"]);
    event(&all, "removed", &["chain", "seconds"]);
    assert_eq!(event(&all, "not-changed", &["what"])["change"], "added");
    let journal = [&["run"], &args[..], &["--log", "journal"]].concat();
    if !Path::new("/run/systemd/journal/socket").exists() {
        let o = net
            .command("o", env!("CARGO_BIN_EXE_onefold"))
            .args(journal)
            .args(["--verify-time", "0"])
            .output();
        let said = String::from_utf8_lossy(&o.expect("the binary runs").stderr).into_owned();
        assert!(said.contains("name a file instead: --log FILE"), "{said}");
    }
}

/// With several workers, too: what the ports of a dispatcher lose, or of workers with queues of their own, their links,
/// the beginning and the end.
#[test]
fn several_workers_have_one_log() {
    for dispatch in ["software", "rss"] {
        let Some(net) = routed() else { return };
        let file = common::temp("live-log-workers").join("run.log");
        let name = file.display().to_string();
        let log = ["--log", &name, "--log-format", "json"];
        let workers = ["--workers", "2", "--dispatch", dispatch];
        let args = [&ROUTER_PACKET[..], &log, &workers].concat();
        let mut onefold = Running::start(&net, "o", &args);
        datagrams(&net, "a", "b", ([172, 16, 1, 2], 7).into(), 3);
        net.ip("o", "link set ob down");
        onefold.wait_for("link of ob down");
        let s = net.within("a", || std::net::UdpSocket::bind("0.0.0.0:0"));
        let s = s.expect("a socket");
        for _ in 0..20 {
            s.send_to(&[1; 64], ("172.16.1.2", 7)).expect("it leaves");
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        let report = onefold.stop();
        let all = lines(&file);
        assert_eq!(event(&all, "start", &["chain"])["workers"], 2, "{dispatch}");
        event(&all, "running", &[]);
        assert_eq!(event(&all, "link", &["what"])["port"], "right");
        let lost = event(&all, "lost", &["reason"]);
        assert_eq!(lost["port"], "right", "{dispatch}");
        assert!(lost["packets"].as_u64() > Some(0), "{lost}");
        let ended = all.iter().filter(|v| v["event"] == "ended");
        assert_eq!(ended.count(), 1, "{all:?}");
        let end = event(&all, "ended", &["held", "seconds"]);
        for key in ["packets_in", "packets_out", "dropped", "conserved"] {
            assert_eq!(end[key], report[key], "{dispatch}: {key}");
        }
    }
}
