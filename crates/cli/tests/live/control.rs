//! A running chain is asked and changed while real hosts use it.

use crate::common;
use crate::edge::{Connections, Edge, SERVER, lost, number};
use crate::host::{datagrams, transfer};
use crate::running::{PATIENCE, Running};
use onefold_testing::net::Net;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn status_top_and_metrics_say_how_it_stands() {
    let Some(edge) = Edge::start(
        "control-status",
        "allow all\n",
        &["--metrics", "127.0.0.1:0"],
    ) else {
        return;
    };
    transfer(&edge.net, "a", "b", (SERVER, 8080).into(), 1 << 18);
    let v = edge.status();
    for key in [
        "packets_in",
        "packets_out",
        "drops",
        "ports",
        "levels",
        "workers",
        "nfs",
        "classes",
        "verification",
    ] {
        assert!(!v[key].is_null(), "{key}: {v}");
    }
    assert_eq!(number(&v, &["pid"]), u64::from(edge.onefold.pid()));
    assert!(number(&v, &["ports", "lan", "in", "packets"]) > 50, "{v}");
    let w = &v["workers"][0];
    assert!(
        w["load"].as_f64().is_some_and(|l| l > 0.0 && l < 1.0),
        "{w}"
    );
    assert!(
        number(w, &["batch_ns", "p99"]) > 100 && number(w, &["batches"]) > 10,
        "{w}"
    );
    let nat = v["nfs"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|n| n["nf"] == "nat");
    assert!(
        nat.is_some_and(|n| number(n, &["packets"]) > 50),
        "{}",
        v["nfs"]
    );
    // the socket is for nobody else
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&edge.socket)
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let o = edge.ask(&["top", "--once"]);
    let text = String::from_utf8_lossy(&o.stdout);
    for word in ["worker", "lan", "wan", "nat", "traffic class", "flow table"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let said = edge
        .onefold
        .said()
        .iter()
        .find_map(|l| l.strip_prefix("metrics: http://"));
    let at: SocketAddr = said
        .and_then(|s| s.strip_suffix("/metrics")?.parse().ok())
        .expect("an address");
    let page = edge.net.within("o", || {
        let mut s = TcpStream::connect(at).expect("a connection");
        s.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
            .expect("it leaves");
        let mut page = String::new();
        s.read_to_string(&mut page).expect("a page");
        page
    });
    let line = |name: &str| {
        let l = page
            .lines()
            .find_map(|l| l.strip_prefix(name)?.trim().parse::<f64>().ok());
        l.unwrap_or_else(|| panic!("{name}: {page}"))
    };
    assert!(line("onefold_port_packets_total{port=\"lan\",direction=\"in\"}") > 50.0);
    assert!(line("onefold_worker_busy_seconds_total{worker=\"0\"}") > 0.0);
    let socket = edge.socket.clone();
    edge.onefold.stop();
    assert!(!socket.exists(), "a chain that has ended leaves no socket");
}

/// Two workers are asked as one, and say which of them did what.
#[test]
fn two_workers_say_how_they_stand() {
    let Some(edge) = Edge::start("control-workers", "allow all\n", &["--workers", "2"]) else {
        return;
    };
    for port in 8080..8088 {
        transfer(&edge.net, "a", "b", (SERVER, port).into(), 1 << 14);
    }
    let v = edge.status();
    let all = number(&v, &["ports", "lan", "in", "packets"]);
    assert!(all > 50, "{v}");
    let workers = v["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 2, "{v}");
    // of one host all flows are one worker's; both hear who the neighbours are
    let of = |w: &Value| number(w, &["packets_in"]);
    assert!(workers.iter().all(|w| of(w) > 0), "{v}");
    let sum: u64 = workers.iter().map(of).sum();
    assert_eq!(sum, number(&v, &["packets_in"]), "{v}");
    assert!(edge.is_open(8090));
}

/// `n` reloads, alternating between two lists of rules, under connections through the NAT.
fn reloads(name: &str, n: u64) {
    let Some(edge) = Edge::start(name, "allow all\n", &[]) else {
        return;
    };
    let connections = Connections::open(&edge, 8, 9090);
    connections.go_on();
    for i in 0..n {
        edge.reload(i);
        connections.go_on();
    }
    let v = edge.status();
    assert_eq!(number(&v, &["reloads"]), n);
    assert_eq!(lost(&v), 0, "{v}");
    connections.end();
    let v = edge.onefold.stop();
    assert_eq!(lost(&v), 0, "{v}");
    // what the new lists do not let pass is not in it: nothing was sent there
    let at_nat = v["drops_by_element"].as_array().into_iter().flatten();
    let at_nat: Vec<_> = at_nat
        .filter(|d| d["nf"] == "nat" && d["reason"].as_str() != Some("VLAN"))
        .collect();
    let flows = at_nat
        .iter()
        .filter(|d| d["reason"].as_str().is_some_and(|r| r.contains("mapping")));
    assert_eq!(flows.count(), 0, "{at_nat:?}");
}

#[test]
fn connections_hold_while_the_chain_is_reloaded() {
    reloads("control-reloads", 6);
}

/// A part of `make soak`.
#[test]
#[ignore = "takes a minute: a part of make soak"]
fn connections_hold_over_a_hundred_reloads() {
    reloads("control-hundred", 100);
}

#[test]
fn a_bad_reload_leaves_the_old_chain_running() {
    let Some(edge) = Edge::start("control-bad", "deny dst port 4444\nallow all\n", &[]) else {
        return;
    };
    let connections = Connections::open(&edge, 2, 9090);
    edge.rules("allow nonsense nowhere\n");
    let o = edge.ask(&["reload"]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{said}");
    assert!(said.contains("edge.rules"), "it says where: {said}");
    // other ports
    let o = edge.ask(&["reload", "fw10"]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("port"), "{said}");
    let o = edge.ask(&["reload", "no-such-chain"]);
    assert_eq!(o.status.code(), Some(2));
    connections.go_on();
    let v = edge.status();
    assert_eq!(number(&v, &["reloads"]), 0);
    assert!(
        !edge.is_open(4444) && edge.is_open(4445),
        "the old rules hold"
    );
    connections.end();
    edge.onefold.stop();
}

#[test]
fn rules_take_effect_at_once_and_go_with_a_reload() {
    let Some(edge) = Edge::start("control-rules", "allow all\n", &[]) else {
        return;
    };
    let connections = Connections::open(&edge, 4, 9090);
    assert!(edge.is_open(4444));
    let v = edge.json(&["rule", "add", "deny dst port 4444", "--nf", "fw"]);
    assert!(v["seconds"].as_f64().is_some_and(|s| s < 2.0), "{v}");
    assert!(!edge.is_open(4444) && edge.is_open(4445));
    // counters of the rules
    let v = edge.json(&["status", "--rules"]);
    let rule = v["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|r| r["text"] == "deny dst port 4444");
    assert!(
        rule.is_some_and(|r| number(r, &["packets"]) > 0),
        "{}",
        v["rules"]
    );
    // what crossed the links between functions, as at the end
    let links = v["links"].as_array().cloned().unwrap_or_default();
    let from = |l: &Value| l["from"].as_str().is_some_and(|f| f.starts_with("fw["));
    let crossed = links.iter().find(|l| from(l));
    assert!(crossed.is_some_and(|l| number(l, &["packets"]) > 0), "{v}");
    // the program is made while packets go on
    let begun = Instant::now();
    while edge.status()["renewed"] == 0
        || edge.status()["classes"]
            .as_array()
            .is_none_or(Vec::is_empty)
    {
        assert!(begun.elapsed() < PATIENCE);
        connections.go_on();
    }
    assert!(!edge.is_open(4444));
    let o = edge.ask(&["rule", "remove", "deny dst port 1"]);
    assert_eq!(o.status.code(), Some(2), "there is no such rule");
    edge.json(&["rule", "remove", "1"]);
    assert!(edge.is_open(4444));
    edge.json(&["rule", "add", "deny dst port 4445", "--verify-first"]);
    assert!(!edge.is_open(4445));
    edge.json(&["reload"]);
    assert!(edge.is_open(4445), "a reload reads the file again");
    // a blackhole for the server's network, and its removal
    edge.json(&["route", "add", "203.0.113.254/32", "blackhole"]);
    assert!(!edge.is_open(4444));
    edge.json(&["route", "remove", "203.0.113.254/32"]);
    assert!(edge.is_open(4444));
    let o = edge.ask(&["backend", "add", "10.0.0.1"]);
    assert_eq!(o.status.code(), Some(2), "there is no load balancer");
    connections.end();
    edge.onefold.stop();
}

/// What systemd is told: that packets are taken, that the worker is alive, that it ends.
#[test]
fn a_service_manager_is_told() {
    let Some(net) = Net::new(&["o"]) else {
        return;
    };
    net.pair(("o", "oa"), ("o", "ob"));
    let path = common::temp("control-notify").join("notify.sock");
    let _ = std::fs::remove_file(&path);
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let said = || {
        let mut data = [0; 256];
        let n = manager.recv(&mut data).expect("it says something");
        String::from_utf8_lossy(&data[..n]).into_owned()
    };
    let args = [
        "l2fwd",
        "--port",
        "in=packet:oa",
        "--port",
        "out=packet:ob",
        "--control",
        "off",
    ];
    let path = path.display().to_string();
    let environment = [
        ("NOTIFY_SOCKET", path.as_str()),
        ("WATCHDOG_USEC", "200000"),
    ];
    let onefold = Running::with(&net, "o", &args, &environment);
    assert!(said().starts_with("READY=1\n"));
    assert_eq!(
        (said(), said()),
        ("WATCHDOG=1".to_string(), "WATCHDOG=1".to_string())
    );
    onefold.stop();
    while said() != "STOPPING=1" {}
}

/// Frames and comments of a pcapng file, as an independent reader of the blocks finds them.
fn pcapng(path: &Path) -> Vec<(Vec<u8>, String)> {
    let data = std::fs::read(path).expect("the file");
    let word = |at: usize| {
        u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]) as usize
    };
    let (mut at, mut all) = (0, Vec::new());
    while at + 12 <= data.len() {
        let len = word(at + 4);
        if word(at) == 6 {
            let n = word(at + 20);
            let frame = data[at + 28..at + 28 + n].to_vec();
            let option = at + 28 + n.next_multiple_of(4);
            let comment = match option + 4 < at + len - 4 && word(option) & 0xffff == 1 {
                true => {
                    let n = word(option) >> 16;
                    String::from_utf8(data[option + 4..option + 4 + n].to_vec()).expect("text")
                }
                false => String::new(),
            };
            all.push((frame, comment));
        }
        assert_eq!(
            word(at + len - 4),
            len,
            "the block's length stands at both ends"
        );
        at += len;
    }
    all
}

#[test]
fn packets_are_captured_by_port_drop_and_class() {
    let Some(edge) = Edge::start("control-capture", "deny dst port 4444\nallow all\n", &[]) else {
        return;
    };
    datagrams(&edge.net, "a", "b", (SERVER, 5353).into(), 100);
    let connections = Connections::open(&edge, 2, 9090);
    let capture = |what: &[&str], meanwhile: &dyn Fn()| {
        let file = edge.folder.join("out.pcapng");
        let name = file.display().to_string();
        let args = [&["capture", "-w", &name, "--count", "3"], what].concat();
        let mut c = edge
            .command(&args)
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let begun = Instant::now();
        while c.try_wait().expect("a child").is_none() {
            meanwhile();
            assert!(begun.elapsed() < PATIENCE, "{what:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        pcapng(&file)
    };
    let got = capture(&["--port", "lan"], &|| connections.go_on());
    assert_eq!(got.len(), 3);
    assert!(
        got.iter()
            .all(|(f, c)| f.len() >= 54 && c.starts_with("lan ")),
        "{got:?}"
    );
    let send = || {
        edge.net.within("a", || {
            let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            let _ = s.send_to(b"not welcome", SocketAddr::from((SERVER, 4444)));
        });
    };
    let got = capture(&["--drop", "fw/up_rules"], &send);
    assert_eq!(got.len(), 3);
    for (frame, comment) in &got {
        assert!(
            frame.ends_with(b"not welcome") && comment.contains("fw/up_rules"),
            "{comment}"
        );
    }
    let v = edge.status();
    let of = |c: &&Value| {
        c["end"]
            .as_str()
            .is_some_and(|e| e.contains("dropped by fw/up_rules"))
    };
    let class = v["classes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(of)
        .expect("a class")
        .clone();
    let name = class["class"].as_str().expect("a name");
    let got = capture(&["--class", name], &send);
    assert!(
        got.iter().all(|(f, _)| f.ends_with(b"not welcome")),
        "{got:?}"
    );
    let o = edge.ask(&["capture", "--port", "nowhere"]);
    assert_eq!(o.status.code(), Some(2));
    connections.end();
    edge.onefold.stop();
}
