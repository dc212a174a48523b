//! A load balancer whose servers go down, come back and are drained while clients use it.

use crate::common;
use crate::edge::Edge;
use crate::running::PATIENCE;
use onefold_testing::net::Net;
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

const VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 80), 80);
const MAC: &str = "02:00:00:00:bb:01";

/// The server's address, and where it listens.
fn server(n: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 9, n), 8080)
}

/// Clients in `a`, the balancer in `o`, servers in `b`; their addresses are `o`'s, too, for its probes.
struct Farm {
    edge: Edge,
    servers: [UdpSocket; 2],
    file: std::path::PathBuf,
    /// Of the next client.
    port: Cell<u16>,
}

impl Farm {
    fn start(name: &str, policy: &str) -> Option<Farm> {
        let net = Net::new(&["a", "o", "b"])?;
        net.pair(("a", "va"), ("o", "oa"));
        net.pair(("b", "vb"), ("o", "ob"));
        net.ip("b", &format!("link set vb address {MAC}"));
        net.ip("a", "addr add 10.0.8.1/24 dev va");
        net.ip("a", "route add 198.18.0.80 dev va");
        net.ip("a", &format!("neigh add 198.18.0.80 lladdr {MAC} dev va"));
        net.ip("b", "route add 10.0.8.0/24 dev vb");
        for n in [1, 2] {
            net.ip("b", &format!("addr add 10.0.9.{n}/32 dev vb"));
            net.ip("o", &format!("addr add 10.0.9.{n}/32 dev lo"));
        }
        let servers = [1, 2].map(|n| {
            let s = net.within("b", || UdpSocket::bind(server(n)).expect("its address"));
            s.set_nonblocking(true).expect("a socket");
            s
        });
        let folder = common::temp(name);
        let file = folder.join("servers");
        std::fs::write(&file, "# all are up\n").expect("a file");
        let chain = folder.join("chain.yaml");
        let text = format!(
            "functions:\n  lb:\n    load-balancer:\n      address: 198.18.0.80\n      ports: [80]\n      \
             policy: {policy}\n      servers:\n        - {{ address: 10.0.9.1, port: 8080 }}\n        \
             - {{ address: 10.0.9.2, port: 8080 }}\n      health: {{ file: servers, probe: tcp, interval: 0.1, \
             rise: 2, fall: 2 }}\nports: {{ clients: \"lb[0]\", servers: \"lb[1]\" }}\n"
        );
        std::fs::write(&chain, text).expect("a file");
        let chain = chain.display().to_string();
        let args = [
            chain.as_str(),
            "--port",
            "clients=packet:oa",
            "--port",
            "servers=packet:ob",
        ];
        let edge = Edge::of(net, folder, &args, "all");
        Some(Farm {
            edge,
            servers,
            file,
            port: Cell::new(2000),
        })
    }

    fn listen(&self, n: u8) -> TcpListener {
        let net = &self.edge.net;
        net.within("o", || TcpListener::bind(server(n)).expect("its address"))
    }

    /// So many new clients, of ports that nobody has had before: their flows are new.
    fn clients(&self, n: usize) -> Vec<UdpSocket> {
        let one = |port| {
            let own = SocketAddrV4::new(Ipv4Addr::new(10, 0, 8, 1), port);
            UdpSocket::bind(own).expect("a socket")
        };
        let each = (0..n).map(|_| {
            let port = self.port.get();
            self.port.set(port + 1);
            self.edge.net.within("a", || one(port))
        });
        each.collect()
    }

    /// The server that each client's packet gets to.
    fn reached(&self, clients: &[UdpSocket]) -> Vec<u8> {
        clients.iter().map(|c| self.reaches(c)).collect()
    }

    fn reaches(&self, client: &UdpSocket) -> u8 {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            client.send_to(b"hello", VIP).expect("it leaves");
            let sent = Instant::now();
            // again, as the first one may be lost
            while sent.elapsed() < Duration::from_secs(2) {
                for (n, s) in (1..).zip(&self.servers) {
                    let mut data = [0; 64];
                    while let Ok((_, from)) = s.recv_from(&mut data) {
                        // late ones of another client are passed over
                        if from.port() == client.local_addr().expect("its address").port() {
                            return n;
                        }
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        panic!("it gets nowhere")
    }

    /// New clients come to these servers, and no others, from soon on.
    fn new_ones_go_to(&self, wanted: &[u8]) {
        let begun = Instant::now();
        let alone = |all: &[u8]| all.iter().all(|s| wanted.contains(s));
        // what the thread has found out, the worker is told a moment later
        while !alone(&self.reached(&self.clients(4))) {
            assert!(begun.elapsed() < PATIENCE, "not {wanted:?}");
        }
        let all = self.reached(&self.clients(40));
        assert!(alone(&all), "{wanted:?}: {all:?}");
        assert!(
            wanted.iter().all(|s| all.contains(s)),
            "{wanted:?}: {all:?}"
        );
    }
}

fn servers_come_and_go(name: &str, policy: &str) {
    let Some(mut farm) = Farm::start(name, policy) else {
        return;
    };
    // nobody listens: both are down soon, and new flows go nowhere
    for n in [1, 2] {
        let down = format!("server 10.0.9.{n}:8080 down: Connection refused");
        if !farm.edge.onefold.said().iter().any(|l| l.contains(&down)) {
            farm.edge.onefold.wait_for(&down);
        }
    }
    let (first, second) = (farm.listen(1), farm.listen(2));
    for n in [1, 2] {
        let up = format!("server 10.0.9.{n}:8080 up");
        if !farm.edge.onefold.said().iter().any(|l| l.contains(&up)) {
            farm.edge.onefold.wait_for(&up);
        }
    }
    farm.new_ones_go_to(&[1, 2]);
    let clients = farm.clients(40);
    let before = farm.reached(&clients);
    assert!(before.contains(&1) && before.contains(&2), "{before:?}");

    // a listener goes away
    let renewed = farm.edge.status()["renewed"].clone();
    drop(second);
    farm.edge
        .onefold
        .wait_for("server 10.0.9.2:8080 down: Connection refused");
    farm.new_ones_go_to(&[1]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let v = farm.edge.status();
    let up = |n: usize| v["servers"][n]["up"].as_bool();
    assert_eq!(
        (up(0), up(1)),
        (Some(true), Some(false)),
        "{}",
        v["servers"]
    );
    assert_eq!(v["renewed"], renewed, "no program is made anew for that");
    // what is known holds through a reload
    farm.edge.json(&["reload"]);
    assert!(farm.reached(&farm.clients(20)).iter().all(|s| *s == 1));
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let _second = farm.listen(2);
    farm.edge.onefold.wait_for("server 10.0.9.2:8080 up");
    farm.new_ones_go_to(&[1, 2]);

    // a file says so
    std::fs::write(&farm.file, "10.0.9.1 down # maintenance\n").expect("a file");
    farm.edge
        .onefold
        .wait_for("server 10.0.9.1:8080 down: its file says so");
    farm.new_ones_go_to(&[2]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    std::fs::write(&farm.file, "").expect("a file");
    farm.edge
        .onefold
        .wait_for("server 10.0.9.1:8080 up: its file says so");

    // one is drained
    farm.new_ones_go_to(&[1, 2]);
    farm.edge.json(&["backend", "drain", "10.0.9.1:8080"]);
    let new = farm.reached(&farm.clients(40));
    assert!(new.iter().all(|s| *s == 2), "at once: {new:?}");
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let o = farm.edge.ask(&["backend", "drain", "10.0.9.1:8080"]);
    assert_eq!(o.status.code(), Some(2), "it is drained already");
    farm.edge.json(&["backend", "resume", "10.0.9.1:8080"]);
    farm.new_ones_go_to(&[1, 2]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let v = farm.edge.onefold.stop();
    let reasons = v["drops"].to_string();
    assert!(!reasons.contains("no free port"), "{reasons}");
    drop(first);
}

#[test]
fn servers_come_and_go_by_maglev() {
    servers_come_and_go("servers-maglev", "maglev");
}

#[test]
fn servers_come_and_go_in_turn() {
    servers_come_and_go("servers-in-turn", "round-robin");
}
