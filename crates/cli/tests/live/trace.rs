//! Packets of a running chain, followed through copies of it.

use crate::edge::{Edge, SERVER};
use crate::host::datagrams;
use crate::running::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Instant;

/// What `onefold trace --live` prints about packets that `meanwhile` sends until it ends: objects, and its exit status.
fn traced(edge: &Edge, args: &[&str], meanwhile: impl Fn()) -> (Vec<Value>, Option<i32>) {
    let all = [&["trace", "--live", "--json"], args].concat();
    let mut child = edge
        .command(&all)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(begun.elapsed() < PATIENCE, "{args:?}");
        meanwhile();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let lines = out.lines().map(|l| l.expect("text"));
    let all = lines.map(|l| serde_json::from_str(&l).expect("JSON"));
    (all.collect(), child.wait().expect("it ends").code())
}

/// Has a step at an element of this name.
fn passes(v: &Value, element: &str) -> bool {
    let steps = v["steps"].as_array().into_iter().flatten();
    steps.clone().any(|s| s["element"] == element)
}

/// By port and rule, by drop reason, by class: followed both ways, in the state that the packet met; the packets
/// themselves go their way, and a wrong filter is said.
#[test]
fn live_packets_are_followed_through_a_copy() {
    let Some(edge) = Edge::start("live-trace", "deny dst port 4444\nallow all\n", &[]) else {
        return;
    };
    datagrams(&edge.net, "a", "b", (SERVER, 5353).into(), 20);
    let s = edge.net.within("a", || UdpSocket::bind("0.0.0.0:0"));
    let s = s.expect("a socket");
    let send = |port: u16| {
        s.send_to(b"hello", (std::net::Ipv4Addr::from(SERVER), port))
            .expect("a datagram leaves");
    };
    let both = || {
        send(4444);
        send(4445);
    };
    let only = [
        "--port",
        "lan",
        "--filter",
        "udp && dst port 4445",
        "--count",
        "2",
    ];
    let (all, status) = traced(&edge, &only, both);
    assert_eq!((all.len(), status), (2, Some(0)));
    for v in &all {
        let packet = v["packet"].as_str().expect("a frame");
        // its destination port
        assert_eq!(packet.get(72..76), Some("115d"), "{v}");
        assert_eq!(
            (&v["port"], &v["same"], &v["state"]),
            (&"lan".into(), &true.into(), &"before".into())
        );
        assert!(passes(v, "up_rules"), "{v}");
        assert_eq!(v["outputs"][0]["port"], "wan", "{v}");
    }
    let (all, _) = traced(&edge, &["--drop", "denied"], both);
    let v = all.first().expect("a packet");
    assert_eq!(
        (&v["state"], &v["outputs"]),
        (&"behind".into(), &Value::Array(Vec::new()))
    );
    let dropped = v["steps"].to_string();
    assert!(dropped.contains("denied"), "{dropped}");
    // replies come in at the other port, to a host behind the NAT
    let back = ["--port", "wan", "--filter", "udp src port 5353"];
    let (all, _) = traced(&edge, &back, || {
        datagrams(&edge.net, "a", "b", (SERVER, 5353).into(), 1);
    });
    assert_eq!(all[0]["outputs"][0]["port"], "lan", "{}", all[0]);
    for (wrong, said) in [
        (["--filter", "dst prot 5"], "the filter"),
        (["--filter", "tcp) -> Discard; x :: Idle("], "no expression"),
        (["--port", "lam"], "no port 'lam'"),
        (["--class", "one"], "STAGE.ACTION"),
    ] {
        let args = [&["trace", "--live"], &wrong[..]].concat();
        let o = edge.ask(&args);
        let text = String::from_utf8_lossy(&o.stderr);
        assert!(
            !o.status.success() && text.contains(said),
            "{wrong:?}: {text}"
        );
    }
    // as text
    let mut child = edge
        .command(&["trace", "--live"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    while child.try_wait().expect("a child").is_none() {
        both();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut text = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_to_string(&mut text).expect("text");
    assert!(
        text.contains("AS WRITTEN") && text.contains("AS ONE FUNCTION"),
        "{text}"
    );
    let sent = edge.onefold.stop();
    assert_eq!(sent["conserved"], true);
}
