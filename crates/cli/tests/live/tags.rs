//! `--dispatch tag`: frames carry a tag that says whose they are, and a program in the driver brings them there.

use crate::common;
use crate::edge::{Edge, lost};
use crate::kernel;
use crate::scaling::at_their_workers;
use crate::traffic::rules;
use crate::workers::number;
use onefold_chain::{LivePort, Options, load_workers_live};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_partition::{Partition, Target};
use onefold_port_interface::Interface;
use onefold_port_packet::{Mode, PacketPort, SLOTS};
use onefold_runtime::Port;
use onefold_testing::net::Net;
use onefold_verify::frame::{self, Keep, Shape};
use onefold_verify::solicitation::asks_for_neighbour;
use std::time::{Duration, Instant};

const GROUPS: usize = 8;
/// Datagrams that come back: in a release build with the answers as many as METRON asks for.
const EXCHANGES: u64 = if cfg!(debug_assertions) {
    2_000
} else {
    500_000
};
/// On their way at a time.
const WINDOW: u64 = 128;
/// Servers, enough for each group to have some.
const SERVERS: u64 = 32;
const FLOWS: u64 = 4096;
/// What comes later than this does not come.
const A_WHILE: Duration = Duration::from_secs(4);

/// What upstream does to frames: the tag of this group.
type Tagging = fn(&mut Vec<u8>, usize);

fn vlan(f: &mut Vec<u8>, group: usize) {
    let id = 100 + group as u8;
    f.splice(12..12, [0x81, 0x00, 0, id]);
}

fn mac(f: &mut Vec<u8>, group: usize) {
    f.splice(..6, [2, 0x6f, 0, 0, 0, group as u8]);
}

/// A wire that ends at Onefold, and who is behind it.
struct Side {
    port: PacketPort,
    /// Its number in the chain.
    at: usize,
    /// The chain's address there.
    chain: [u8; 6],
    /// Sent without a tag.
    untagged: u64,
    /// Of them answers of neighbours, which are for all groups.
    answers: u64,
}

impl Side {
    fn of(net: &Net, host: &str, interface: &str, at: usize, chain: [u8; 6]) -> Side {
        let mut port = net.within(host, || {
            let i = Interface::find(interface).expect("the interface");
            PacketPort::open(interface, i, Mode::Ring(SLOTS)).expect("a packet socket")
        });
        port.start(true).expect("it begins");
        Side {
            port,
            at,
            chain,
            untagged: 0,
            answers: 0,
        }
    }

    fn send(&mut self, f: &[u8]) {
        let mut all: Vec<Pkt> = vec![Box::new(Packet::from_slice(f))];
        let sent = self.port.transmit(&mut all, Timestamp::ZERO);
        sent.expect("it leaves");
        self.port.flush().expect("it leaves");
    }

    /// Datagrams that have come. Who asks for a neighbour is answered.
    fn came(&mut self) -> Vec<Vec<u8>> {
        let mut free: Vec<Pkt> = (0..64)
            .map(|_| Box::new(Packet::from_slice(&[])) as Pkt)
            .collect();
        let mut got = Vec::new();
        let polled = self.port.poll(&mut free, &mut got, 64);
        polled.expect("it receives");
        let mut data = Vec::new();
        for f in got.iter().map(|p| p.data()) {
            if asks_for_neighbour(f) {
                let answer = frame::answer(f).expect("an answer");
                self.send(&answer);
                self.untagged += 1;
                self.answers += 1;
            } else if f.get(12..14) == Some(&[8, 0]) && f.get(23) == Some(&17) {
                data.push(f.to_vec());
            }
        }
        data
    }
}

/// Who tags: right, wrong (the next group's tag), or not at all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Right,
    Wrong,
    Absent,
}

struct Wires {
    lan: Side,
    wan: Side,
    partition: Partition,
    tagging: Tagging,
    /// Datagrams that have not come back.
    missing: u64,
}

impl Wires {
    fn tag(&mut self, inside: bool, mut f: Vec<u8>, upstream: Upstream) {
        let side = if inside { &mut self.lan } else { &mut self.wan };
        let Target::One(group) = self.partition.target(side.at, &f) else {
            panic!("one group's");
        };
        match upstream {
            Upstream::Right => (self.tagging)(&mut f, group),
            Upstream::Wrong => (self.tagging)(&mut f, (group + 1) % GROUPS),
            Upstream::Absent => side.untagged += 1,
        }
        side.send(&f);
    }

    /// A datagram of the client's, numbered.
    fn datagram(&self, n: u64) -> Vec<u8> {
        let mut f = frame::make(Shape {
            version: 4,
            proto: 17,
            tags: 0,
            payload: 18,
        });
        f[..6].copy_from_slice(&self.lan.chain);
        let flow = n % FLOWS;
        f[26..30].copy_from_slice(&[204, 152, 0, 10]);
        f[30..34].copy_from_slice(&[203, 0, 113, 100 + (flow % SERVERS) as u8]);
        f[34..36].copy_from_slice(&(10_000 + (flow / SERVERS) as u16).to_be_bytes());
        f[36..38].copy_from_slice(&53u16.to_be_bytes());
        f[42..50].copy_from_slice(&n.to_be_bytes());
        frame::finish(&mut f, Keep::default());
        f
    }

    /// So many datagrams go through the chain and come back. What does not within a while is missing.
    fn exchange(&mut self, n: u64, upstream: Upstream) {
        let (mut sent, mut done, mut last) = (0, 0, Instant::now());
        while done < n {
            let before = done;
            while sent < n && sent < done + WINDOW {
                let f = self.datagram(sent);
                self.tag(true, f, upstream);
                sent += 1;
            }
            for f in self.wan.came() {
                let mut answer = frame::answer(&f).expect("an answer");
                frame::finish(&mut answer, Keep::default());
                self.tag(false, answer, upstream);
            }
            done += self.lan.came().len() as u64;
            if done > before {
                last = Instant::now();
            } else if last.elapsed() > A_WHILE {
                self.missing += sent - done;
                (done, last) = (sent, Instant::now());
                assert!(self.missing < n / 2, "{} of {n} are missing", self.missing);
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// The partition that a run of the ISP edge with these rules has.
fn partition(rules: &str, macs: [[u8; 6]; 2]) -> (Partition, [usize; 2]) {
    let (key, value) = rules.split_once('=').expect("a parameter");
    let options = Options {
        set: vec![(key.to_string(), value.to_string())],
        ..Options::default()
    };
    let port = |(name, mac): (&str, [u8; 6])| LivePort {
        port: name.to_string(),
        mac: Some(onefold_packet::EtherAddr(mac)),
        mtu: 1500,
        learns: true,
    };
    let live = [("lan", macs[0]), ("wan", macs[1])].map(port);
    let chain = common::root().join("chains/isp-edge/chain.yaml");
    let chain = chain.display().to_string();
    let (loaded, _) = load_workers_live(&chain, &options, GROUPS, &live).expect("it loads");
    let first = loaded.chains.first().expect("a chain");
    let at = |name: &str| first.ports.iter().position(|p| p.name == name);
    let at = ["lan", "wan"].map(|name| at(name).expect("a port"));
    (Partition::new(GROUPS, 1, loaded.ports.clone()), at)
}

fn tagged(name: &str, tag: &str, tagging: Tagging) {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    // hosts say nothing of their own
    for (host, interface) in [("a", "va"), ("b", "vb")] {
        let setting = format!("net.ipv6.conf.{interface}.disable_ipv6=1");
        let _ = net.command(host, "sysctl").args(["-qw", &setting]).status();
    }
    let rules = rules(name);
    let mac = |i: &str| net.within("o", || Interface::find(i).expect("the interface").mac.0);
    let macs = [mac("oa"), mac("ob")];
    let (partition, [lan, wan]) = partition(&rules, macs);
    let sides = [
        Side::of(&net, "a", "va", lan, macs[0]),
        Side::of(&net, "b", "vb", wan, macs[1]),
    ];
    let args = ["isp-edge", "--set", &rules, "--workers", "1..2"];
    let ports = ["--port", "lan=xdp:oa", "--port", "wan=xdp:ob"];
    let how = ["--dispatch", "tag", "--tag", tag];
    // not that of the rules
    let folder = common::temp(&format!("{name}-run"));
    let edge = Edge::of(net, folder, &[&args[..], &ports, &how].concat(), "0.01");
    let [lan, wan] = sides;
    let mut wires = Wires {
        lan,
        wan,
        partition,
        tagging,
        missing: 0,
    };
    let before = kernel::lost(&edge.net, &["a", "o", "b"]);
    // neighbours become known, which are asked for by each group
    wires.exchange(FLOWS, Upstream::Right);
    for workers in ["2", "1", "2"] {
        wires.exchange(EXCHANGES / 4, Upstream::Right);
        edge.json(&["scale", workers]);
    }
    wires.exchange(EXCHANGES / 4, Upstream::Right);
    // whoever tags wrong, or not at all, breaks nothing
    const FEW: u64 = 256;
    wires.exchange(FEW, Upstream::Wrong);
    wires.exchange(FEW, Upstream::Absent);
    let answers = wires.lan.answers + wires.wan.answers;
    let untagged = wires.lan.untagged + wires.wan.untagged;
    let kernels = kernel::lost(&edge.net, &["a", "o", "b"]) - before;
    let v = edge.onefold.stop();
    assert!(
        wires.missing <= kernels + lost(&v),
        "{}: {v}",
        wires.missing
    );
    at_their_workers(&v);
    assert_eq!(v["dispatch"]["mode"], "tag", "{v}");
    assert_eq!(v["dispatch"]["tags"].as_array().map(Vec::len), Some(GROUPS));
    let got = number(&v, &["dispatch", "untagged"]);
    assert!(
        got <= untagged && got + 2 * wires.missing >= untagged,
        "{v}"
    );
    // an answer of a neighbour goes to all; what has the right tag to nobody else
    let handed_over = number(&v, &["dispatch", "handed_over"]);
    let of_answers = answers * (GROUPS as u64 - 1);
    let least = (of_answers + 2 * FEW).saturating_sub(2 * GROUPS as u64 * wires.missing);
    let most = of_answers + 4 * FEW;
    assert!(
        (least..=most).contains(&handed_over),
        "{handed_over} of {least} to {most}: {v}"
    );
    for g in v["groups"].as_array().expect("groups") {
        assert!(number(g, &["packets_in"]) > EXCHANGES / 64, "{v}");
    }
}

#[test]
fn frames_go_where_their_vlan_says() {
    tagged("tags-vlan", "vlan:100", vlan);
}

#[test]
fn frames_go_where_their_address_says() {
    tagged("tags-mac", "mac:02:6f:00:00:00:00", mac);
}
