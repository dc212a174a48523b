//! XDP programs made from a chain, in front of its ports.

use crate::common;
use crate::links::{ROUTER_XDP, left, routed};
use crate::running::{PATIENCE, Running};
use crate::traffic::isp;
use onefold_testing::net::{Net, Raw};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const SERVER: [u8; 4] = [203, 0, 113, 254];
/// Datagrams to everybody on a link.
const BROADCAST: u64 = 20;
/// Denied datagrams.
const DENIED: u64 = 300;

/// What became of datagrams to a port that the firewall denies, of others, and of a ping.
fn run(net: &Net, rules: &str, options: &[&str]) -> Value {
    let mut args = vec!["isp-edge", "--set", rules];
    args.extend(["--port", "lan=xdp:oa", "--port", "wan=xdp:ob"]);
    args.extend(options);
    let onefold = Running::proved(net, "o", &args);
    let ping = || net.within("a", || Raw::icmp().ping(SERVER.into(), 3, PATIENCE));
    assert!(ping().is_some());
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    for n in 0..DENIED {
        s.send_to(&[7; 100], (std::net::Ipv4Addr::from(SERVER), 9))
            .expect("a datagram leaves");
        // no more at a time than rings hold
        if n % 50 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(ping().is_some());
    onefold.stop()
}

/// The rules' counters of the list that is asked first.
fn rules_of(v: &Value) -> Vec<(String, u64, u64)> {
    let all = v["rules"].as_array().expect("rules");
    let up = all.iter().filter(|r| r["element"] == "up_rules");
    up.map(|r| {
        let n = |what: &str| r[what].as_u64().unwrap_or(0);
        (
            r["text"].as_str().unwrap_or("").to_string(),
            n("packets"),
            n("bytes"),
        )
    })
    .collect()
}

/// Denied packets never reach the chain, and it counts them all the same: rules, drops, packets in.
#[test]
fn discarded_classes_are_dropped_in_the_driver_and_counted() {
    let file = common::temp("live-offload").join("some.rules");
    std::fs::write(&file, "deny udp && dst port 9\nallow all\n").expect("a file");
    let rules = format!("rules={}", file.display());
    let mut counted = Vec::new();
    for options in [&["--offload", "xdp"][..], &[][..]] {
        let Some(net) = isp() else { return };
        let v = run(&net, &rules, options);
        let early = v["ports"]["lan"]["dropped_early"].as_array();
        let denied = early.into_iter().flatten();
        let denied = denied
            .filter(|e| e["reason"] == "IPFilter: denied")
            .map(|e| e["packets"].as_u64().unwrap_or(0));
        let wanted = if options.is_empty() { 0 } else { DENIED };
        assert_eq!(denied.sum::<u64>(), wanted, "{v}");
        assert_eq!(v["drops"]["IPFilter: denied"].as_u64(), Some(DENIED), "{v}");
        let came = v["ports"]["lan"]["in"]["packets"].as_u64();
        assert!(came >= Some(DENIED + 2), "{v}");
        assert_eq!(v["conserved"], true, "{v}");
        let rules = rules_of(&v);
        let first = rules.first().expect("a rule");
        // 100 bytes behind headers of UDP and IP
        assert_eq!((first.1, first.2), (DENIED, DENIED * 128), "{v}");
        counted.push(first.clone());
    }
    assert_eq!(counted.first(), counted.last());
}

/// Classes that nobody has proved stay with the chain, where they are compared.
#[test]
fn what_is_not_proved_stays_with_the_chain() {
    let Some(net) = routed() else { return };
    let args = [&ROUTER_XDP[..], &["--offload", "xdp"]].concat();
    let onefold = Running::start(&net, "o", &args);
    let said = onefold.said().join("\n");
    assert!(said.contains("they are not proved"), "{said}");
    assert!(said.contains("0 of them drop early"), "{said}");
    let ping = net.within("a", || {
        Raw::icmp().ping([172, 16, 1, 2].into(), 3, PATIENCE)
    });
    assert!(ping.is_some());
    let v = onefold.stop();
    assert_eq!(v["ports"]["left"]["dropped_early"], Value::Null, "{v}");
}

/// Is a program attached to this interface?
fn attached(net: &Net, host: &str, interface: &str) -> bool {
    let shown = net
        .command(host, "ip")
        .args(["link", "show", "dev", interface])
        .output();
    String::from_utf8_lossy(&shown.expect("ip runs").stdout).contains("xdp")
}

/// Generated programs go with the process, however that ends, and come back with an interface that was away.
#[test]
fn a_generated_program_is_gone_after_a_kill_and_back_with_its_interface() {
    let Some(net) = routed() else { return };
    let args = [&ROUTER_XDP[..], &["--offload", "xdp"]].concat();
    let onefold = Running::proved(&net, "o", &args);
    assert!(attached(&net, "o", "oa"));
    // killed, not asked
    drop(onefold);
    let begun = Instant::now();
    while attached(&net, "o", "oa") && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!attached(&net, "o", "oa"));
    let ping = || {
        net.within("a", || {
            Raw::icmp().ping([172, 16, 1, 2].into(), 3, PATIENCE)
        })
    };
    let mut onefold = Running::proved(&net, "o", &args);
    assert!(ping().is_some());
    let broadcast = || {
        let s = net.within("a", || UdpSocket::bind("0.0.0.0:0"));
        let s = s.expect("a socket");
        s.set_broadcast(true).expect("an option");
        for _ in 0..BROADCAST {
            s.send_to(&[1; 50], ("172.16.0.3", 7)).expect("a datagram");
        }
    };
    broadcast();
    net.ip("o", "link del oa");
    onefold.wait_for("is gone");
    left(&net);
    onefold.wait_for("is back");
    assert!(ping().is_some());
    broadcast();
    // what was under way when the interface went is nobody's
    assert!(ping().is_some());
    let v = onefold.stop();
    let left = &v["ports"]["left"];
    let early = left["counters"]["dropped early, by the XDP program"].as_u64();
    assert!(early >= Some(BROADCAST), "{v}");
    assert!(left["in"]["packets"].as_u64() >= early, "{v}");
}

/// How many packets were dropped early at a port by elements whose name has this in it.
fn early(v: &Value, port: &str, element: &str) -> u64 {
    let all = v["ports"][port]["dropped_early"].as_array();
    let mine = all
        .into_iter()
        .flatten()
        .filter(|e| e["element"].as_str().is_some_and(|e| e.contains(element)));
    mine.filter_map(|e| e["packets"].as_u64()).sum()
}

/// When a handler changes the rules, no packet is dropped any more by what they were, and the new ones' program drops
/// as soon as it is there.
#[test]
fn rules_that_change_are_dropped_by_anew() {
    let Some(net) = Net::new(&["a", "o"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.ip("a", "addr add 10.9.0.1/24 dev va");
    net.ip("a", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev va");
    net.ip("a", "neigh add 10.9.0.3 lladdr 02:00:00:00:00:99 dev va");
    let file = common::temp("live-offload-change").join("change.click");
    let config = "FromDevice(lan) -> Strip(14) -> CheckIPHeader -> r :: RadixIPLookup(10.8.0.0/16 0, 0.0.0.0/0 1);\n\
        r[0] -> Unstrip(14) -> ToDevice(lan); r[1] -> Discard;\n\
        Script(wait 1s, write r.add 10.9.0.2/32 0);\n";
    std::fs::write(&file, config).expect("a file");
    let chain = file.display().to_string();
    let args = [&chain, "--port", "lan=xdp:oa", "--offload", "xdp"];
    let mut onefold = Running::proved(&net, "o", &args);
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    let send = |n: u64, to: &str| {
        for _ in 0..n {
            s.send_to(&[7; 100], (to, 9)).expect("a datagram leaves");
        }
    };
    send(30, "10.9.0.2");
    onefold.wait_for("nothing is dropped early for now");
    send(20, "10.9.0.2");
    onefold.wait_for("XDP program:");
    send(20, "10.9.0.2");
    send(50, "10.9.0.3");
    std::thread::sleep(Duration::from_millis(100));
    let v = onefold.stop();
    let early = early(&v, "lan", "Discard");
    // hosts send some of their own accord
    assert!((80..110).contains(&early), "{v}");
    assert_eq!(
        v["ports"]["lan"]["out"]["packets"].as_u64(),
        Some(40),
        "{v}"
    );
}

/// After a reload, and after a rule, the new chain's program is in front of it.
#[test]
fn another_chain_is_dropped_by_its_own_program() {
    let Some(net) = isp() else { return };
    let folder = common::temp("live-offload-reload");
    let file = folder.join("some.rules");
    std::fs::write(&file, "deny udp && dst port 9\nallow all\n").expect("a file");
    let socket = folder.join("edge.sock").display().to_string();
    let rules = format!("rules={}", file.display());
    let mut args = vec!["isp-edge", "--set", &rules, "--control", &socket];
    // only what is proved is offloaded, and proofs take their time in a debug build beside other tests
    args.extend(["--verify-time", "300"]);
    args.extend([
        "--port",
        "lan=xdp:oa",
        "--port",
        "wan=xdp:ob",
        "--offload",
        "xdp",
    ]);
    let mut onefold = Running::proved(&net, "o", &args);
    let said = onefold.said().join("\n");
    assert!(said.contains("verified: proved"), "{said}");
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    let send = |port: u16, n: u64| {
        for _ in 0..n {
            s.send_to(&[7; 100], (std::net::Ipv4Addr::from(SERVER), port))
                .expect("a datagram leaves");
        }
    };
    // the gateway's address is asked for by the first of them
    let ping = || net.within("a", || Raw::icmp().ping(SERVER.into(), 3, PATIENCE));
    assert!(ping().is_some());
    send(9, 30);
    std::fs::write(&file, "deny udp && dst port 10\nallow all\n").expect("a file");
    let onefold_says = |args: &[&str]| {
        let all = [args, &["--socket", &socket]].concat();
        common::run(&common::root(), 0, &all)
    };
    onefold_says(&["reload"]);
    onefold.wait_for("port lan: XDP program:");
    send(10, 40);
    onefold_says(&["rule", "add", "deny udp && dst port 11"]);
    onefold.wait_for("port lan: XDP program:");
    send(11, 50);
    assert!(ping().is_some());
    let v = onefold.stop();
    assert_eq!(early(&v, "lan", "up_rules"), 120, "{v}");
    assert_eq!(v["drops"]["IPFilter: denied"].as_u64(), Some(120), "{v}");
}

/// What cannot be is refused before anything starts.
#[test]
fn where_there_is_nothing_to_offload_to() {
    let refused = |args: &[&str]| {
        let all = [&["run", "routers-1", "--offload", "xdp"], args].concat();
        common::run(&common::root(), 2, &all).1
    };
    let e = refused(&["--port", "left=packet:eno77"]);
    assert!(e.contains("--port PORT=xdp:IF"), "{e}");
}
