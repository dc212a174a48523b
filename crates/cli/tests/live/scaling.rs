//! Groups of flows go from worker to worker while packets come: no connection breaks, no packet overtakes another one,
//! nothing is lost.

use crate::common;
use crate::edge::{Connections, Edge, lost, number};
use crate::kernel;
use crate::running::PATIENCE;
use crate::traffic::{isp, rules};
use crate::workers;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use onefold_capture::CaptureReader;
use onefold_testing::net::Net;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Servers, enough for each group to have some.
const SERVERS: usize = 32;
/// None of them.
const NOBODY: [u8; 4] = [203, 0, 113, 99];

/// Addresses of the servers.
pub fn servers() -> Vec<[u8; 4]> {
    (0..SERVERS).map(|n| [203, 0, 113, 100 + n as u8]).collect()
}

/// The ISP edge between a client and these servers.
pub fn edge(name: &str, options: &[&str], share: &str) -> Option<Edge> {
    let edge = Edge::compared(name, "allow all\n", options, share)?;
    for [a, b, c, d] in servers() {
        edge.net
            .ip("b", &format!("addr add {a}.{b}.{c}.{d}/24 dev vb"));
    }
    Some(edge)
}

/// Numbered datagrams to all servers, which notice if one overtakes another one of its flow.
pub struct Numbered {
    stop: Arc<AtomicBool>,
    got: Arc<AtomicU64>,
    sends: JoinHandle<u64>,
    /// Datagrams that came behind a later one, and missing ones.
    receives: JoinHandle<(u64, u64)>,
}

/// The thread that calls it is executed on the last core: where a sender goes from core to core, the kernel may change
/// the order of its packets.
fn stay() {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    let me = nix::unistd::Pid::from_raw(0);
    let all = sched_getaffinity(me).expect("the system says");
    let last = (0..CpuSet::count())
        .rev()
        .find(|c| all.is_set(*c) == Ok(true));
    let mut one = CpuSet::new();
    let set = last.map(|c| one.set(c).and_then(|()| sched_setaffinity(me, &one)));
    assert!(matches!(set, Some(Ok(()))));
}

impl Numbered {
    /// To so many flows, with a pause after each round.
    pub fn start(edge: &Edge, port: u16, pause: Duration) -> Numbered {
        let stop = Arc::new(AtomicBool::new(false));
        let got = Arc::new(AtomicU64::new(0));
        let any: SocketAddr = ([0, 0, 0, 0], port).into();
        let server = edge
            .net
            .within("b", || UdpSocket::bind(any).expect("a socket"));
        // a moment without the processor is no loss
        setsockopt(&server, RcvBufForce, &(16 << 20)).expect("a large buffer");
        let wait = Some(Duration::from_millis(100));
        server.set_read_timeout(wait).expect("a time limit");
        let (over, count) = (stop.clone(), got.clone());
        let receives = std::thread::spawn(move || {
            let mut next = [0u64; SERVERS];
            let (mut late, mut missing, mut data) = (0, 0, [0; 64]);
            loop {
                match server.recv(&mut data) {
                    Ok(16) => {
                        let word = |at: usize| {
                            u64::from_be_bytes(data[at..at + 8].try_into().expect("eight bytes"))
                        };
                        let (flow, n) = (word(0) as usize, word(8));
                        count.fetch_add(1, Ordering::Relaxed);
                        match n.checked_sub(next[flow]) {
                            Some(gap) => {
                                missing += gap;
                                next[flow] = n + 1;
                            }
                            None => late += 1,
                        }
                    }
                    Ok(_) => {}
                    Err(_) if over.load(Ordering::Relaxed) => return (late, missing),
                    Err(_) => {}
                }
            }
        });
        let over = stop.clone();
        let sends = edge.net.start("a", move || {
            stay();
            let open = |_| UdpSocket::bind("0.0.0.0:0").expect("a socket");
            let sockets: Vec<UdpSocket> = (0..SERVERS).map(open).collect();
            let mut n = 0u64;
            while !over.load(Ordering::Relaxed) {
                for (flow, (s, to)) in sockets.iter().zip(servers()).enumerate() {
                    let mut data = (flow as u64).to_be_bytes().to_vec();
                    data.extend(n.to_be_bytes());
                    let _ = s.send_to(&data, SocketAddr::from((to, port)));
                }
                n += 1;
                std::thread::sleep(pause);
            }
            n
        });
        Numbered {
            stop,
            got,
            sends,
            receives,
        }
    }

    /// Waits for so many more.
    pub fn go_on(&self, more: u64) {
        let from = self.got.load(Ordering::Relaxed);
        let begun = Instant::now();
        while self.got.load(Ordering::Relaxed) < from + more {
            assert!(begun.elapsed() < PATIENCE, "no datagrams come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many datagrams of each flow were sent; how many came late, and how many did not come.
    pub fn end(self) -> (u64, u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sends.join().expect("it sends");
        let (late, missing) = self.receives.join().expect("it receives");
        (sent, late, missing)
    }
}

/// All packets were at the worker whose they are. What was lost for want of room is counted at a port: threads that are
/// not executed for a long time, as on a busy machine, do not take what arrives.
pub fn at_their_workers(v: &Value) {
    let of = |what: &str| workers::number(v, &["dispatch", what]);
    assert_eq!(of("at_wrong_worker"), 0, "{v}");
    assert!(of("dropped") <= lost(v), "{v}");
}

/// The same, and what groups have got is what was handed to them.
fn all_accounted(v: &Value) {
    at_their_workers(v);
    let groups = v["groups"].as_array().expect("groups");
    let sum: u64 = groups.iter().map(|g| number(g, &["packets_in"])).sum();
    assert_eq!(sum, number(v, &["packets_in"]), "{v}");
    // where each group has queues of its own there is nothing between these and what the group has counted
    if v["dispatch"]["mode"] == "software" {
        assert_eq!(sum, number(v, &["dispatch", "dispatched"]), "{v}");
    }
}

/// Groups of each of two workers.
fn groups_of(v: &Value) -> [usize; 2] {
    let map = v["scaling"]["groups"].as_array().expect("groups");
    [0, 1].map(|w| map.iter().filter(|g| **g == w).count())
}

/// How it stands once so many packets have been received: who hands them over says so now and then.
fn received(edge: &Edge, packets: u64) -> Value {
    let begun = Instant::now();
    loop {
        let v = edge.status();
        if number(&v["dispatch"], &["received"]) >= packets {
            return v;
        }
        assert!(begun.elapsed() < PATIENCE, "{v}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// So many times from one worker to two and back, by hand, under TCP and UDP through the NAT.
fn to_and_fro(name: &str, dispatch: &str, times: u64) {
    let options = ["--workers", "1..2", "--dispatch", dispatch];
    // one packet in a hundred is compared with the reference graph, and each is looked at whether it is at its worker
    let Some(edge) = edge(name, &options, "0.01") else {
        return;
    };
    let connections = Connections::over(&edge, &servers(), 24, 9090);
    let before = kernel::lost(&edge.net, &["a", "o", "b"]);
    let numbered = Numbered::start(&edge, 5353, Duration::from_millis(1));
    connections.go_on();
    for _ in 0..times {
        for n in ["2", "1"] {
            let v = edge.json(&["scale", n]);
            assert_eq!(v["by_hand"], true, "{v}");
            connections.go_on();
            numbered.go_on(500);
            let v = received(&edge, 500);
            let d = &v["dispatch"];
            assert_eq!(
                (&d["mode"], &d["at_wrong_worker"]),
                (&dispatch.into(), &0.into()),
                "{v}"
            );
            // halves by load, not by number
            let [first, second] = groups_of(&v);
            assert!(first > 0 && first + second == 8, "{v}");
            assert_eq!(second > 0, n == "2", "{v}");
            let told = v["workers"].as_array().expect("workers").iter();
            let told: Vec<_> = told
                .filter_map(|w| Some(w["groups"].as_array()?.len()))
                .collect();
            assert_eq!(told, [first, second], "{v}");
        }
    }
    let o = edge.ask(&["top", "--once"]);
    let text = String::from_utf8_lossy(&o.stdout);
    let said = format!("scaling: 1 of 1 to 2 workers (by hand), {times} splits");
    assert!(
        text.contains(&said) && text.contains("0 1 2 3 4 5 6 7"),
        "{text}"
    );
    let o = edge.ask(&["scale", "3"]);
    assert_eq!(o.status.code(), Some(2), "there are two");
    assert_eq!(edge.json(&["scale", "auto"])["by_hand"], false);
    connections.end();
    let (sent, late, missing) = numbered.end();
    // where others have the machine, what a host does not get to in time is the kernel's loss, and counted there
    let kernels = kernel::lost(&edge.net, &["a", "o", "b"]) - before;
    let v = edge.onefold.stop();
    all_accounted(&v);
    assert_eq!(late, 0, "of {sent} in each flow: {v}");
    let known = kernels + lost(&v);
    assert!(
        missing <= known,
        "{missing} of {sent} in each flow, {known} are known of: {v}"
    );
    // and what the load says since nobody does
    assert!(number(&v, &["scaling", "splits"]) >= times, "{v}");
    assert!(number(&v, &["scaling", "merges"]) >= times, "{v}");
    // both workers have worked
    for w in v["workers"].as_array().expect("workers") {
        assert!(number(w, &["packets_in"]) > 100, "{v}");
    }
}

#[test]
fn connections_hold_while_groups_go_from_worker_to_worker() {
    to_and_fro("scaling-hand", "software", 3);
}

/// A group's queues at the devices go with it.
#[test]
fn connections_hold_while_groups_with_queues_of_their_own_move() {
    to_and_fro("scaling-queues", "rss", 3);
}

/// Where both ends of a flow are rewritten, the slices of the NAT's ports tell replies apart: these stay with groups.
#[test]
fn a_nat_in_front_of_a_balancer_goes_on_while_groups_move() {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    let clients: Vec<Ipv4Addr> = (0..16).map(|n| Ipv4Addr::new(10, 0, 0, 10 + n)).collect();
    for c in &clients {
        net.ip("a", &format!("addr add {c}/8 dev va"));
    }
    net.ip("a", "route add default via 10.0.0.1");
    for n in 1..=3 {
        net.ip("b", &format!("addr add 172.16.3.{n}/24 dev vb"));
    }
    net.ip("b", "route add 172.16.2.0/24 via 172.16.3.254");
    let ports = ["--port", "clients=packet:oa", "--port", "servers=packet:ob"];
    let args = [&["router-nat-lb", "--workers", "1..2"], &ports[..]].concat();
    let folder = common::temp("scaling-balancer");
    let edge = Edge::of(net, folder, &args, "0.01");
    let way = |c: &Ipv4Addr| (*c, Ipv4Addr::new(198, 18, 0, 80));
    let ways: Vec<_> = clients.iter().map(way).collect();
    let connections = Connections::along(&edge, &ways, 32, 9090);
    for n in ["2", "1", "2"] {
        connections.go_on();
        let v = edge.json(&["scale", n]);
        assert_eq!(number(&v, &["workers", "active"]).to_string(), n, "{v}");
    }
    connections.go_on();
    connections.end();
    let v = edge.onefold.stop();
    all_accounted(&v);
    let used = v["groups"].as_array().expect("groups").iter();
    let used = used.filter(|g| number(g, &["packets_in"]) > 50).count();
    assert!(used >= 4, "clients are in several groups: {v}");
}

/// What leaves at a port with a capture is one capture, whichever groups and workers it was: in order, nothing missing.
#[test]
fn a_capture_has_what_all_groups_have_sent() {
    const ROUNDS: u64 = 60;
    let Some(net) = isp() else { return };
    let folder = common::temp("scaling-capture");
    let file = folder.join("out.pcapng");
    let (rules, out) = (rules("scaling-capture"), format!("wan={}", file.display()));
    let args = [
        "isp-edge",
        "--set",
        &rules,
        "--port",
        "lan=packet:oa",
        "--out",
        &out,
    ];
    let edge = Edge::of(
        net,
        folder,
        &[&args[..], &["--workers", "1..2"]].concat(),
        "off",
    );
    let before = kernel::lost(&edge.net, &["a", "o", "b"]);
    edge.net.within("a", || {
        let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let begun = Instant::now();
        while !kernel::knows_a_neighbour() {
            assert!(begun.elapsed() < PATIENCE, "the gateway does not answer");
            let _ = s.send_to(&[0; 8], SocketAddr::from((NOBODY, 5353)));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    for half in 0..2 {
        edge.net.within("a", || {
            stay();
            let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            for n in half * ROUNDS..(half + 1) * ROUNDS {
                for to in servers() {
                    let _ = s.send_to(&n.to_be_bytes(), SocketAddr::from((to, 5353)));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        edge.json(&["scale", if half == 0 { "2" } else { "1" }]);
    }
    let v = edge.onefold.stop();
    all_accounted(&v);
    let (mut next, mut last, mut frames) = (HashMap::new(), 0, 0);
    let mut missing = 0;
    let mut reader = CaptureReader::open(&file).expect("a capture");
    let mut frame = Vec::new();
    while let Some(m) = reader.next_into(&mut frame) {
        let m = m.expect("it is whole");
        assert!(m.ts_ns >= last, "by time");
        (last, frames) = (m.ts_ns, frames + 1);
        // Ethernet, IPv4 and UDP without options
        let (to, data) = (
            frame[30..34].to_vec(),
            frame[42..50].try_into().expect("a number"),
        );
        if to == NOBODY {
            continue;
        }
        let expected: &mut u64 = next.entry(to).or_default();
        let n = u64::from_be_bytes(data);
        let gap = n.checked_sub(*expected);
        missing += gap.unwrap_or_else(|| panic!("{n} behind {expected}"));
        *expected = n + 1;
    }
    assert_eq!(next.len(), SERVERS);
    missing += next.values().map(|n| 2 * ROUNDS - n).sum::<u64>();
    let kernels = kernel::lost(&edge.net, &["a", "o", "b"]) - before;
    assert!(missing <= kernels + lost(&v), "{missing}: {v}");
    assert_eq!(
        number(&v, &["ports", "wan", "out", "packets"]),
        frames,
        "{v}"
    );
}

/// A load step makes a second worker, which goes when the load does: nobody says so.
#[test]
fn as_many_workers_as_the_load_needs() {
    let options = [
        "--workers",
        "1..2",
        // faster than usual, at loads that a busy machine shows reliably
        "--scaling",
        "every=0.1,split=0.3,merge=0.1",
    ];
    // each packet is compared, which takes its time
    let Some(mut edge) = edge("scaling-auto", &options, "all") else {
        return;
    };
    let connections = Connections::over(&edge, &servers(), 8, 9090);
    let load = Numbered::start(&edge, 5353, Duration::from_micros(50));
    edge.onefold.wait_for("scaling: split: groups");
    assert_eq!(groups_of(&edge.status()).iter().sum::<usize>(), 8);
    connections.go_on();
    let (_, late, _) = load.end();
    assert_eq!(late, 0);
    connections.end();
    edge.onefold.wait_for("scaling: merge: groups");
    let v = edge.status();
    assert_eq!(groups_of(&v), [8, 0], "{v}");
    let event = &v["scaling"]["events"][0];
    assert_eq!(
        (event["kind"].as_str(), &event["from"]),
        (Some("split"), &0.into()),
        "{v}"
    );
    // how long it took is told; where others have the cores, that says nothing of us
    assert!(event["took_seconds"].as_f64().is_some(), "{v}");
    let v = edge.onefold.stop();
    assert_eq!(
        workers::number(&v, &["dispatch", "at_wrong_worker"]),
        0,
        "{v}"
    );
}

/// What does not go together is refused by name.
#[test]
fn a_fixed_number_of_workers_stays() {
    let Some(edge) = edge(
        "scaling-fixed",
        &["--workers", "2", "--dispatch", "software"],
        "off",
    ) else {
        return;
    };
    let o = edge.ask(&["scale", "1"]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("--workers MIN..MAX"), "{said}");
    edge.onefold.stop();
}
