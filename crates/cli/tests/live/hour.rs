//! Live traffic for an hour: flows come and go, the chain is reloaded and changed, groups move. No connection breaks,
//! packets are conserved, memory stays as it is. A part of `make soak`; `LIVE_MINUTES` says how long (60).

use crate::common;
use crate::edge::{Connections, Edge, number};
use crate::scaling::{Numbered, edge, servers};
use crate::workers;
use onefold_testing::net::connect_from;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that last from the beginning to the end.
const LASTING: usize = 24;
/// Ports of the servers: lasting connections, short ones, single datagrams, numbered datagrams.
const PORTS: [u16; 4] = [9090, 9091, 5354, 5353];
/// Between two short connections of a client, and two changes of the chain.
const PAUSE: Duration = Duration::from_millis(10);
const CHANGE_EVERY: Duration = Duration::from_secs(2);
/// A connection holds as long as its hosts try: where other work has the cores, round trips of seconds make TCP wait
/// for ten and more before it sends again, and twice as long each time (docs/soak.md, `live`).
const HOLDS: Duration = Duration::from_secs(300);
/// Connections without an answer for so long are looked into (TCP has sent five or six times by then), so many times.
const SILENT: Duration = Duration::from_secs(12);
const LOOKS: u32 = 4;
/// Kilobytes by which memory may grow from the second quarter to the last one, beside one part in sixteen of it.
const ROOM: u64 = 4096;

/// Clients that open a connection, or a socket, for a few bytes, and servers that answer.
struct Churn {
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    datagrams: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

/// Answers each connection once.
fn serve(listener: &TcpListener) {
    for s in listener.incoming().flatten() {
        let mut s: std::net::TcpStream = s;
        let _ = s.set_read_timeout(Some(HOLDS));
        let mut data = [0; 64];
        if s.read_exact(&mut data).is_ok() {
            data.reverse();
            let _ = s.write_all(&data);
        }
    }
}

/// A connection for 64 bytes each way.
fn short_connection(to: [u8; 4], n: u64) {
    let at = SocketAddrV4::new(to.into(), PORTS[1]);
    let mut s = connect_from(Ipv4Addr::UNSPECIFIED, at, HOLDS).expect("a connection");
    s.set_read_timeout(Some(HOLDS)).expect("a time limit");
    let mut data: [u8; 64] = std::array::from_fn(|i| (n as u8).wrapping_add(i as u8));
    s.write_all(&data).expect("it is open");
    let mut back = [0; 64];
    if let Err(e) = s.read_exact(&mut back) {
        panic!(
            "no answer: short connection {n}, {:?} to {at}: {e}",
            s.local_addr()
        );
    }
    data.reverse();
    assert_eq!(data, back);
}

/// A datagram from a new socket, again until it is answered.
fn datagram(to: [u8; 4], n: u64) {
    let s = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let wait = Some(Duration::from_millis(200));
    s.set_read_timeout(wait).expect("a time limit");
    let begun = Instant::now();
    let mut back = [0; 64];
    loop {
        let _ = s.send_to(&n.to_be_bytes(), SocketAddr::from((to, PORTS[2])));
        match s.recv(&mut back) {
            Ok(8) => break assert_eq!(back[..8], n.to_be_bytes()),
            _ => assert!(begun.elapsed() < HOLDS, "no answer to a datagram"),
        }
    }
}

impl Churn {
    fn start(edge: &Edge) -> Churn {
        let (listener, sockets) = edge.net.within("b", || {
            let any = SocketAddr::from(([0, 0, 0, 0], PORTS[1]));
            let listener = TcpListener::bind(any).expect("a free port");
            // an answer comes from the address that was asked
            let open = |to| UdpSocket::bind(SocketAddr::from((to, PORTS[2])));
            let sockets = servers().into_iter().map(open);
            (listener, sockets.collect::<std::io::Result<Vec<_>>>())
        });
        std::thread::spawn(move || serve(&listener));
        for s in sockets.expect("the servers' addresses") {
            std::thread::spawn(move || {
                let mut data = [0; 64];
                while let Ok((n, from)) = s.recv_from(&mut data) {
                    let _ = s.send_to(&data[..n], from);
                }
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (connections, datagrams) = (Arc::<AtomicU64>::default(), Arc::default());
        let client = |speaks: fn([u8; 4], u64), count: &Arc<AtomicU64>| {
            let (stop, count) = (stop.clone(), count.clone());
            edge.net.start("a", move || {
                for (n, to) in (0..).zip(servers().iter().cycle()) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    speaks(*to, n);
                    count.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PAUSE);
                }
            })
        };
        let clients = vec![
            client(short_connection, &connections),
            client(datagram, &datagrams),
        ];
        Churn {
            stop,
            connections,
            datagrams,
            clients,
        }
    }

    /// How many connections and datagrams were answered; each was.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for c in self.clients {
            c.join().expect("each is answered");
        }
        (
            self.connections.load(Ordering::Relaxed),
            self.datagrams.load(Ordering::Relaxed),
        )
    }
}

/// What the process holds: kilobytes of memory, descriptors, threads.
fn held(pid: u32) -> [u64; 3] {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let of = |key: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok())
            .unwrap_or_else(|| panic!("no {key} in {status}"))
    };
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    [of("VmRSS:"), descriptors.count() as u64, of("Threads:")]
}

/// What was held in this quarter of the time: the median of memory and of descriptors, and the fewest threads, as there
/// are more of them as long as what a reload has replaced is being freed.
fn quarter(all: &[[u64; 3]], which: usize) -> [u64; 3] {
    let of = all.len() * which / 4..all.len() * (which + 1) / 4;
    [0, 1, 2].map(|at| {
        let mut values: Vec<u64> = all[of.clone()].iter().map(|h| h[at]).collect();
        values.sort_unstable();
        values[if at == 2 { 0 } else { values.len() / 2 }]
    })
}

/// A change of the chain: a reload, a rule or a route, or another number of workers.
fn change(edge: &Edge, n: u64) {
    match n % 8 {
        0 => edge.rules("deny dst port 4444\nallow all\n"),
        4 => edge.rules("allow all\n"),
        _ => {}
    }
    let v = edge.json(match n % 8 {
        1 => &["rule", "add", "deny dst port 4445", "--nf", "fw"],
        2 => &["scale", "2"],
        3 => &["rule", "remove", "1"],
        5 => &["route", "add", "198.51.100.0/24", "blackhole"],
        6 => &["scale", "1"],
        7 => &["route", "remove", "198.51.100.0/24"],
        _ => &["reload"],
    });
    // another route makes another router: what has flows goes on
    let lost = v["lost"].as_array().into_iter().flatten();
    let lost: Vec<&str> = lost.filter_map(Value::as_str).collect();
    assert!(lost.iter().all(|e| e.starts_with("router/")), "{v}");
}

/// What is known while connections have no answer: how the chain stands, twice, with a second between; the ends of all
/// connections; neighbours; what comes and goes meanwhile.
fn look_into(edge: &Edge, silent: &[usize], n: u32) {
    let folder = common::root().join("out/soak");
    let at = folder.join(format!("live-silent-{n}"));
    std::fs::create_dir_all(&at).expect("a folder");
    eprintln!("connections {silent:?} are silent: see {}", at.display());
    let kept = |name: &str, said: &[u8]| std::fs::write(at.join(name), said).expect("a file");
    let file = at.join("lan.pcapng").display().to_string();
    let mut capture = edge.command(&["capture", "--port", "lan", "-w", &file]);
    let capture = capture.spawn();
    for name in ["first.json", "second.json"] {
        kept(name, &edge.ask(&["status", "--json"]).stdout);
        std::thread::sleep(Duration::from_secs(1));
    }
    for host in ["a", "b"] {
        for (program, args) in [("ss", "-tino"), ("ip", "neigh")] {
            if let Ok(o) = edge.net.command(host, program).arg(args).output() {
                kept(&format!("{host}-{program}.txt"), &o.stdout);
            }
        }
    }
    std::thread::sleep(Duration::from_secs(10));
    if let Ok(mut c) = capture {
        let pid = nix::unistd::Pid::from_raw(c.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGINT);
        let _ = c.wait();
    }
}

/// Packets that found a worker's queue full, so far.
fn lost_inside(edge: &Edge) -> u64 {
    number(&edge.status(), &["dispatch", "dropped"])
}

/// As often as it takes.
fn soak(name: &str, most: Duration) {
    let Some(edge) = edge(name, &["--workers", "1..2"], "0.01") else {
        return;
    };
    let lasting = Connections::waiting(&edge, &servers(), LASTING, PORTS[0], HOLDS);
    let churn = Churn::start(&edge);
    let numbered = Numbered::start(&edge, PORTS[3], PAUSE);
    let begun = Instant::now();
    let (mut changes, mut seen, mut told) = (0, Vec::new(), 0);
    let (mut looked, mut lost) = (0, 0);
    while begun.elapsed() < most {
        let before = Instant::now();
        change(&edge, changes);
        changes += 1;
        lasting.go_on();
        seen.push(held(edge.onefold.pid()));
        let (took, now) = (before.elapsed(), lost_inside(&edge));
        if now > lost {
            eprintln!(
                "{:?}: {} packets found a worker's queue full since change {}, which took {took:?}",
                begun.elapsed(),
                now - lost,
                changes - 1
            );
            lost = now;
        }
        let silent = lasting.silent(SILENT);
        if !silent.is_empty() && looked < LOOKS {
            look_into(&edge, &silent, looked);
            looked += 1;
        }
        let minutes = begun.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            eprintln!("{minutes} minutes: {changes} changes, {:?}", seen.last());
        }
        std::thread::sleep(CHANGE_EVERY.saturating_sub(before.elapsed()));
    }
    lasting.end();
    let (connections, datagrams) = churn.end();
    let (sent, late, missing) = numbered.end();
    // what the report at the end does not say
    let reloads = number(&edge.status(), &["reloads"]);
    let v = edge.onefold.stop();
    let [before, after] = [1, 3].map(|q| quarter(&seen, q));
    let lost: Vec<&Value> = ["lan", "wan"].map(|p| &v["ports"][p]["lost"]).to_vec();
    println!(
        "soak: {} minutes, {LASTING} lasting connections, {connections} short ones, {datagrams} datagrams of \
         new flows, {} numbered ones ({missing} missing, {late} late), {} packets; {} reloads, {} other changes, {} \
         moves of groups; memory {} KiB in the second quarter, {} in the last, {} descriptors; lost at ports {lost:?}",
        begun.elapsed().as_secs() / 60,
        sent * servers().len() as u64,
        number(&v, &["packets_in"]),
        reloads,
        changes - reloads,
        number(&v, &["scaling", "splits"]) + number(&v, &["scaling", "merges"]),
        before[0],
        after[0],
        after[1],
    );
    // conserved is what every report must be; inside nothing is lost, and each packet was where its flow is
    assert_eq!(
        workers::number(&v, &["dispatch", "at_wrong_worker"]),
        0,
        "{v}"
    );
    assert_eq!(workers::number(&v, &["dispatch", "dropped"]), 0, "{v}");
    assert_eq!(late, 0, "{v}");
    assert!(
        after[0] <= before[0] + before[0] / 16 + ROOM,
        "memory grows from {} to {} KiB: {seen:?}",
        before[0],
        after[0]
    );
    assert!(after[1] <= before[1] + 2, "descriptors: {seen:?}");
    assert!(after[2] <= before[2], "threads: {seen:?}");
}

#[test]
#[ignore = "takes an hour: a part of make soak"]
fn an_hour_of_live_traffic_with_changes() {
    let minutes = std::env::var("LIVE_MINUTES").ok();
    let minutes = minutes.map_or(60.0, |m| m.parse().expect("LIVE_MINUTES: a number"));
    soak("live-hour", Duration::from_secs_f64(minutes * 60.0));
}
