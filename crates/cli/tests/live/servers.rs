//! A load balancer whose servers go down, come back and are drained while clients use it.

use crate::common;
use crate::edge::Edge;
use crate::running::PATIENCE;
use onefold_testing::net::Net;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

const MAC: &str = "02:00:00:00:bb:01";

/// A version of IP: the balancer's address, and the networks of clients and servers, whose hosts are 1, 2 ...
#[derive(Clone, Copy)]
struct Version {
    /// What `ip` is told in front of the rest.
    ip: &'static str,
    vip: &'static str,
    clients: &'static str,
    servers: &'static str,
    /// Lengths of the clients' prefix, and of a single address.
    lengths: (u8, u8),
    /// Behind an address that is added.
    added: &'static str,
}

const V4: Version = Version {
    ip: "-4",
    vip: "198.18.0.80",
    clients: "10.0.8.",
    servers: "10.0.9.",
    lengths: (24, 32),
    added: "",
};
const V6: Version = Version {
    ip: "-6",
    vip: "2001:db8:80::80",
    clients: "2001:db8:8::",
    servers: "2001:db8:9::",
    lengths: (64, 128),
    added: "nodad",
};

fn end(address: &str, port: u16) -> SocketAddr {
    let address: IpAddr = address.parse().expect("an address");
    SocketAddr::new(address, port)
}

impl Version {
    /// The server's address, and where it listens.
    fn server(self, n: u8) -> SocketAddr {
        end(&format!("{}{n}", self.servers), 8080)
    }
    fn client(self, port: u16) -> SocketAddr {
        end(&format!("{}1", self.clients), port)
    }
}

/// Clients in `a`, the balancer in `o`, servers in `b`; their addresses are `o`'s, too, for its probes.
struct Farm {
    edge: Edge,
    of: Version,
    servers: [UdpSocket; 2],
    file: std::path::PathBuf,
    /// Of the next client.
    port: Cell<u16>,
}

impl Farm {
    fn start(name: &str, policy: &str, of: Version) -> Option<Farm> {
        let net = Net::new(&["a", "o", "b"])?;
        net.pair(("a", "va"), ("o", "oa"));
        net.pair(("b", "vb"), ("o", "ob"));
        net.ip("b", &format!("link set vb address {MAC}"));
        let Version {
            ip,
            vip,
            clients,
            added,
            ..
        } = of;
        let (net_length, host) = of.lengths;
        let ip = |host: &str, args: String| net.ip(host, &format!("{ip} {args}"));
        ip(
            "a",
            format!("addr add {clients}1/{net_length} dev va {added}"),
        );
        ip("a", format!("route add {vip} dev va"));
        ip("a", format!("neigh add {vip} lladdr {MAC} dev va"));
        let network = match of.ip {
            "-4" => format!("{clients}0"),
            _ => clients.to_string(),
        };
        ip("b", format!("route add {network}/{net_length} dev vb"));
        for n in [1, 2] {
            let server = of.server(n).ip();
            ip("b", format!("addr add {server}/{host} dev vb {added}"));
            ip("o", format!("addr add {server}/{host} dev lo {added}"));
        }
        let servers = [1, 2].map(|n| {
            let s = net.within("b", || UdpSocket::bind(of.server(n)).expect("its address"));
            s.set_nonblocking(true).expect("a socket");
            s
        });
        let folder = common::temp(name);
        let file = folder.join("servers");
        std::fs::write(&file, "# all are up\n").expect("a file");
        let chain = folder.join("chain.yaml");
        let text = format!(
            "functions:\n  lb:\n    load-balancer:\n      address: \"{vip}\"\n      ports: [80]\n      \
             policy: {policy}\n      servers:\n        - {{ address: \"{}\", port: 8080 }}\n        \
             - {{ address: \"{}\", port: 8080 }}\n      health: {{ file: servers, probe: tcp, interval: 0.1, \
             rise: 2, fall: 2 }}\nports: {{ clients: \"lb[0]\", servers: \"lb[1]\" }}\n",
            of.server(1).ip(),
            of.server(2).ip()
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
            of,
            servers,
            file,
            port: Cell::new(2000),
        })
    }

    fn listen(&self, n: u8) -> TcpListener {
        let at = self.of.server(n);
        let net = &self.edge.net;
        net.within("o", || TcpListener::bind(at).expect("its address"))
    }

    /// So many new clients, of ports that nobody has had before: their flows are new.
    fn clients(&self, n: usize) -> Vec<UdpSocket> {
        let of = self.of;
        let one = |port| UdpSocket::bind(of.client(port)).expect("a socket");
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
            let vip = end(self.of.vip, 80);
            client.send_to(b"hello", vip).expect("it leaves");
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

    /// `backend list`: server, weight and flows of each.
    fn counted(&self) -> Vec<(Option<String>, u64, u64)> {
        let v = self.edge.json(&["backend", "list"]);
        let all = v["servers"].as_array().expect("servers").iter();
        let number = |s: &serde_json::Value, key: &str| s[key].as_u64().expect("a number");
        let one = |s: &serde_json::Value| {
            let server = s["server"].as_str().map(str::to_string);
            (server, number(s, "weight"), number(s, "flows"))
        };
        all.map(one).collect()
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

fn servers_come_and_go(name: &str, policy: &str, of: Version) {
    let Some(mut farm) = Farm::start(name, policy, of) else {
        return;
    };
    let [one, two] = [1, 2].map(|n| of.server(n).to_string());
    // nobody listens: both are down soon, and new flows go nowhere
    for n in [1, 2] {
        let down = format!("server {} down: Connection refused", of.server(n));
        if !farm.edge.onefold.said().iter().any(|l| l.contains(&down)) {
            farm.edge.onefold.wait_for(&down);
        }
    }
    let (first, second) = (farm.listen(1), farm.listen(2));
    for n in [1, 2] {
        let up = format!("server {} up", of.server(n));
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
        .wait_for(&format!("server {two} down: Connection refused"));
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
    farm.edge.onefold.wait_for(&format!("server {two} up"));
    farm.new_ones_go_to(&[1, 2]);

    // a file says so
    let said = format!("{} down # maintenance\n", of.server(1).ip());
    std::fs::write(&farm.file, said).expect("a file");
    farm.edge
        .onefold
        .wait_for(&format!("server {one} down: its file says so"));
    farm.new_ones_go_to(&[2]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    std::fs::write(&farm.file, "").expect("a file");
    farm.edge
        .onefold
        .wait_for(&format!("server {one} up: its file says so"));

    // one is drained
    farm.new_ones_go_to(&[1, 2]);
    farm.edge.json(&["backend", "drain", &one]);
    // its flows are counted: it has those that it had, and the other one has all new ones
    let counted = farm.counted();
    assert!(counted[0].2 >= before.iter().filter(|s| **s == 1).count() as u64);
    let new = farm.reached(&farm.clients(40));
    assert!(new.iter().all(|s| *s == 2), "at once: {new:?}");
    let [(_, _, drained), (_, _, other)] = &counted[..] else {
        panic!("{counted:?}")
    };
    let expected = [
        (Some(one.clone()), 0, *drained),
        (Some(two.clone()), 1, other + 40),
    ];
    assert_eq!(farm.counted(), expected);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let o = farm.edge.ask(&["backend", "drain", &one]);
    assert_eq!(o.status.code(), Some(2), "it is drained already");
    farm.edge.json(&["backend", "resume", &one]);
    farm.new_ones_go_to(&[1, 2]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    // one that is removed is none of the servers any more, and has its flows still
    farm.edge.json(&["backend", "remove", &one]);
    assert_eq!(farm.reached(&clients), before, "established flows stay");
    let counted = farm.counted();
    assert_eq!(counted.len(), 2, "{counted:?}");
    assert_eq!((&counted[0].0, counted[1].0.is_some()), (&Some(two), false));
    assert!(counted[1].2 >= *drained, "{counted:?}");
    let v = farm.edge.onefold.stop();
    assert_eq!(v["servers"][1]["flows"], counted[1].2, "{v}");
    let reasons = v["drops"].to_string();
    assert!(!reasons.contains("no free port"), "{reasons}");
    drop(first);
}

#[test]
fn servers_come_and_go_by_maglev() {
    servers_come_and_go("servers-maglev", "maglev", V4);
}

#[test]
fn servers_come_and_go_in_turn() {
    servers_come_and_go("servers-in-turn", "round-robin", V4);
}

#[test]
fn servers_of_ipv6_come_and_go_by_maglev() {
    servers_come_and_go("servers6-maglev", "maglev", V6);
}

#[test]
fn servers_of_ipv6_come_and_go_in_turn() {
    servers_come_and_go("servers6-in-turn", "round-robin", V6);
}
