//! Several workers on interfaces: every packet comes to the worker that has its flow, whatever brings it there.

use crate::host::pattern;
use crate::links::{links_change_with, used};
use crate::running::{PATIENCE, Running};
use crate::traffic::{isp, isp_edge_with, isp_of_queues, rules};
use onefold_testing::net::Net;
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Flows through a NAT: in a release build as many as issue 30 asks for.
const FLOWS: usize = if cfg!(debug_assertions) { 320 } else { 100_000 };
/// Servers.
const REMOTES: usize = 64;
const PORT: u16 = 5353;
/// Nobody is there.
const CLOSED: u16 = 5354;

const TWO: [&str; 2] = ["--workers", "2"];
/// Ways of dispatch that packet sockets have.
const DISPATCH: [&str; 2] = ["software", "rss"];

fn remote(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, 113, 100 + n as u8)
}

/// A number of the report's, by its keys.
pub fn number(v: &Value, keys: &[&str]) -> u64 {
    let at = keys.iter().fold(v, |v, k| &v[*k]);
    at.as_u64().unwrap_or_else(|| panic!("no {keys:?}: {v}"))
}

/// Both workers had packets, none of which was at the wrong one.
pub fn nobody_lost(v: &Value) {
    assert_eq!(number(v, &["dispatch", "at_wrong_worker"]), 0, "{v}");
    assert_eq!(number(v, &["dispatch", "dropped"]), 0, "{v}");
    assert_eq!(v["mismatches"], 0, "{v}");
    let workers = v["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 2);
    for w in workers {
        assert!(number(w, &["packets_in"]) > 0, "{v}");
    }
}

/// TCP both ways with checksums, UDP and a ping through the ISP edge with two workers.
pub fn edge(name: &str, port: impl Fn(&str) -> String, prepare: impl Fn(&Net), more: &[&str]) {
    let more = [&TWO[..], more].concat();
    if let Some(v) = isp_edge_with(name, port, prepare, &more) {
        assert_eq!(number(&v, &["dispatch", "at_wrong_worker"]), 0, "{v}");
        assert!(number(&v, &["shadow", "compared_packets"]) > 100, "{v}");
        assert!(number(&v, &["dispatch", "received"]) > 100, "{v}");
    }
}

#[test]
fn isp_edge_with_two_workers_through_packet_sockets() {
    for dispatch in DISPATCH {
        let more = ["--dispatch", dispatch];
        edge("live-two-packet", |i| format!("packet:{i}"), |_| (), &more);
    }
}

/// Frames come and go in vectors, by one socket of each worker.
#[test]
fn isp_edge_with_two_workers_through_vectors() {
    let port = |i: &str| format!("packet:{i},mode=mmsg,batch=16");
    edge("live-two-vectors", port, |_| (), &["--dispatch", "rss"]);
}

#[test]
fn isp_edge_with_two_workers_through_af_xdp() {
    edge("live-two-xdp", |i| format!("xdp:{i}"), |_| (), &[]);
}

/// What hosts behind the ISP edge send: every server answers.
struct Servers {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Servers {
    fn start(net: &Net) -> Servers {
        for n in 0..REMOTES {
            net.ip("b", &format!("addr add {}/24 dev vb", remote(n)));
        }
        let _ = net
            .command("b", "sysctl")
            .args(["-qw", "net.ipv4.icmp_ratelimit=0"])
            .status();
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let thread = net.start("b", move || {
            let open = |n| {
                let s = UdpSocket::bind((remote(n), PORT)).expect("a server's address");
                s.set_nonblocking(true).expect("it does not wait");
                s
            };
            let all: Vec<UdpSocket> = (0..REMOTES).map(open).collect();
            let mut data = [0; 4096];
            while !over.load(Ordering::Relaxed) {
                let mut got = 0;
                for s in &all {
                    while let Ok((n, from)) = s.recv_from(&mut data) {
                        data[..n].reverse();
                        let _ = s.send_to(&data[..n], from);
                        got += 1;
                    }
                }
                if got == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Servers {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

/// From one socket a datagram of so many bytes to every server, again to those that have not answered. The number of
/// those that never do within `most`.
fn ask_all(bytes: usize, most: Duration) -> usize {
    let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    s.set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time limit");
    let mut data = pattern(bytes);
    let mut open: Vec<bool> = vec![true; REMOTES];
    let begun = Instant::now();
    let (mut left, mut got) = (REMOTES, [0; 4096]);
    data[0] = 1;
    let mut expected = data.clone();
    expected.reverse();
    while left > 0 && begun.elapsed() < most {
        for n in (0..REMOTES).filter(|n| open[*n]) {
            let _ = s.send_to(&data, (remote(n), PORT));
        }
        while let Ok((n, from)) = s.recv_from(&mut got) {
            let SocketAddr::V4(from) = from else { continue };
            assert_eq!(got[..n], expected, "bytes of {from}");
            let at = usize::from(from.ip().octets()[3]).wrapping_sub(100);
            if open.get(at) == Some(&true) {
                open[at] = false;
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }
    left
}

/// Asks every server at a port where nobody is: how many sockets do not hear of it.
fn refused_by_all() -> usize {
    let mut deaf = 0;
    for n in 0..REMOTES {
        let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        s.connect((remote(n), CLOSED)).expect("an address");
        s.set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a time limit");
        let begun = Instant::now();
        let heard = loop {
            let _ = s.send(&[7; 40]);
            match s.recv(&mut [0; 40]) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => break true,
                _ if begun.elapsed() > PATIENCE => break false,
                _ => {}
            }
        };
        deaf += usize::from(!heard);
    }
    deaf
}

/// Many flows through the NAT, both ways, their ICMP errors and fragments.
pub fn many_flows(
    name: &str,
    port: impl Fn(&str) -> String,
    (with_fragments, queues): (bool, usize),
    more: &[&str],
) -> Option<Value> {
    let net = isp_of_queues(queues)?;
    let _servers = Servers::start(&net);
    let (lan, wan) = (format!("lan={}", port("oa")), format!("wan={}", port("ob")));
    let rules = rules(name);
    let args = ["isp-edge", "--set", &rules, "--port", &lan, "--port", &wan];
    let onefold = Running::start(&net, "o", &[&args[..], &TWO, more].concat());
    net.within("a", || {
        for _ in 0..FLOWS / REMOTES {
            assert_eq!(ask_all(100, PATIENCE), 0, "servers that do not answer");
        }
        if with_fragments {
            assert_eq!(ask_all(3000, PATIENCE), 0, "servers that get no fragments");
        }
        assert_eq!(refused_by_all(), 0, "servers whose errors do not come");
    });
    let v = onefold.stop();
    nobody_lost(&v);
    for w in v["workers"].as_array().expect("workers") {
        // both directions and all kinds of packets
        assert!(number(w, &["packets_in"]) > FLOWS as u64 / 2, "{v}");
    }
    Some(v)
}

#[test]
fn flows_errors_and_fragments_stay_on_their_worker() {
    let mut received_before = None;
    for dispatch in DISPATCH {
        let more = ["--dispatch", dispatch];
        let Some(v) = many_flows(
            "live-two-flows",
            |i| format!("packet:{i}"),
            (true, 1),
            &more,
        ) else {
            return;
        };
        assert_eq!(v["dispatch"]["mode"], dispatch);
        let received = number(&v, &["dispatch", "received"]);
        assert!(received <= number(&v, &["packets_in"]), "{v}");
        // nor does anything come back that was sent
        let before = *received_before.get_or_insert(received);
        assert!(received < before * 3 / 2, "{before} before, {v}");
        if dispatch == "rss" {
            // the kernel knows nothing of the translation
            assert!(
                number(&v, &["dispatch", "handed_over"]) > FLOWS as u64 / 8,
                "{v}"
            );
        }
    }
}

/// Each worker has one of the two queues of each interface.
#[test]
fn flows_through_two_queues_of_af_xdp_stay_on_their_worker() {
    let Some(v) = many_flows("live-two-xdp-flows", |i| format!("xdp:{i}"), (true, 2), &[]) else {
        return;
    };
    assert_eq!(v["dispatch"]["mode"], "rss", "{v}");
    assert!(
        number(&v, &["dispatch", "handed_over"]) > FLOWS as u64 / 8,
        "{v}"
    );
}

/// Where packets go to workers by a rule that the NAT upsets, it is counted, and answers do not come.
#[test]
#[cfg(debug_assertions)]
fn a_wrong_partition_is_noticed() {
    let Some(net) = isp() else { return };
    let _servers = Servers::start(&net);
    let rules = rules("live-two-wrong");
    for dispatch in DISPATCH {
        let args = [
            "isp-edge",
            "--set",
            &rules,
            "--dispatch-fault",
            "--dispatch",
            dispatch,
        ];
        let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
        let onefold = Running::start(&net, "o", &[&args[..], &ports, &TWO].concat());
        let left = net.within("a", || ask_all(100, Duration::from_millis(600)));
        assert!(left > REMOTES / 8, "{left}");
        let v = onefold.stop();
        assert!(number(&v, &["dispatch", "at_wrong_worker"]) > 10, "{v}");
    }
}

/// Two workers and a dispatcher that have nothing to do take next to nothing, and are woken by a packet.
#[test]
fn idle_workers_sleep() {
    let Some(net) = isp() else { return };
    let _servers = Servers::start(&net);
    for (poll, dispatch) in [("adaptive", "software"), ("interrupt", "rss")] {
        let rules = rules("live-two-idle");
        let args = [
            "isp-edge",
            "--set",
            &rules,
            "--poll",
            poll,
            "--dispatch",
            dispatch,
        ];
        let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
        let onefold = Running::start(&net, "o", &[&args[..], &ports, &TWO].concat());
        assert_eq!(net.within("a", || ask_all(60, PATIENCE)), 0);
        std::thread::sleep(Duration::from_millis(200));
        // one quiet moment of several is enough: hosts say things by themselves
        let quiet = (0..8).any(|_| {
            let before = used(onefold.pid());
            std::thread::sleep(Duration::from_millis(250));
            used(onefold.pid()) - before < Duration::from_millis(5)
        });
        assert!(quiet, "{poll}: more than 2% of a core");
        assert_eq!(net.within("a", || ask_all(60, PATIENCE)), 0);
        nobody_lost(&onefold.stop());
    }
}

/// Links that go and come back are followed by all workers: each forgets its neighbours.
#[test]
fn links_change_under_two_workers() {
    for dispatch in DISPATCH {
        let more = [&TWO[..], &["--dispatch", dispatch]].concat();
        links_change_with(&[""], |i, _| format!("packet:{i}"), &more);
    }
}

/// `--limit` counts the packets of all workers, exactly.
#[test]
fn a_limit_holds_for_all_workers_together() {
    let Some(net) = isp() else { return };
    let _servers = Servers::start(&net);
    let rules = rules("live-two-limit");
    for dispatch in DISPATCH {
        let args = [
            "isp-edge",
            "--set",
            &rules,
            "--limit",
            "50",
            "--dispatch",
            dispatch,
        ];
        let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
        let mut onefold = Running::start(&net, "o", &[&args[..], &ports, &TWO].concat());
        net.within("a", || ask_all(60, Duration::from_millis(400)));
        let v = onefold.report(0);
        assert_eq!(number(&v, &["dispatch", "received"]), 50, "{v}");
    }
}
