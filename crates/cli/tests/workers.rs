//! Several workers: what they do is what as many reference graphs do with the partition's shares, and every packet
//! comes to the worker that knows it.

use crate::common;

use common::captures::{Frames, read, write};
use common::{json, run, temp};
use onefold_chain::{Options, WorkerChains, load_workers};
use onefold_element::ElemId;
use onefold_engine::program::{Plan, PreparedStages, ProgramRunner, StageReport};
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_partition::{Partition, PortRule};
use std::collections::BTreeMap;
use std::path::Path;

/// Flows, in a release build and in another one.
const FLOWS: usize = if cfg!(debug_assertions) {
    1500
} else {
    100_000
};
const SEED: u64 = 1;

fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|c| match c {
        [a, b] => u32::from(u16::from_be_bytes([*a, *b])),
        [a] => u32::from(*a) << 8,
        _ => 0,
    });
    let mut s: u32 = words.sum::<u32>() + start;
    while s >> 16 > 0 {
        s = (s & 0xffff) + (s >> 16);
    }
    !(s as u16)
}

/// An Ethernet frame that goes back where `sent` came from, with another IPv4 packet.
fn framed(sent: &[u8], mut ip: Vec<u8>) -> Vec<u8> {
    ip[10..12].fill(0);
    let s = sum(&ip[..20], 0);
    ip[10..12].copy_from_slice(&s.to_be_bytes());
    [&sent[6..12], &sent[..6], &[8, 0], &ip].concat()
}

/// What comes back for a frame (IPv4 without options) that has left: the reply as a whole, or in two fragments, and an
/// ICMP error about it.
fn replies(i: usize, sent: &[u8]) -> Vec<Vec<u8>> {
    let length = usize::from(u16::from_be_bytes([sent[16], sent[17]]));
    let packet = &sent[14..14 + length];
    let mut back = packet.to_vec();
    back[4..6].copy_from_slice(&(i as u16).to_be_bytes());
    back[8] = 64;
    back[12..16].copy_from_slice(&packet[16..20]);
    back[16..20].copy_from_slice(&packet[12..16]);
    match packet[9] {
        // sums over both addresses and ports do not change
        6 | 17 => {
            back[20..22].copy_from_slice(&packet[22..24]);
            back[22..24].copy_from_slice(&packet[20..22]);
        }
        _ => {
            back[20] = 0;
            back[22..24].fill(0);
            let s = sum(&back[20..], 0);
            back[22..24].copy_from_slice(&s.to_be_bytes());
        }
    }
    let mut all = Vec::new();
    if i.is_multiple_of(4) && matches!(packet[9], 6 | 17) && length > 46 {
        let cut = 20 + 24;
        for (place, part) in [(0x2000u16, &back[20..cut]), (3, &back[cut..])] {
            let mut f = [&back[..20], part].concat();
            let length = f.len() as u16;
            f[2..4].copy_from_slice(&length.to_be_bytes());
            f[6..8].copy_from_slice(&place.to_be_bytes());
            all.push(framed(sent, f));
        }
    } else {
        all.push(framed(sent, back));
    }
    if i.is_multiple_of(3) {
        let quote = &packet[..28];
        let mut icmp = [&[3, 1, 0, 0, 0, 0, 0, 0], quote].concat();
        let s = sum(&icmp, 0);
        icmp[2..4].copy_from_slice(&s.to_be_bytes());
        let mut ip = vec![0x45, 0, 0, 20 + icmp.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0];
        // a router on the way
        ip.extend([9, 9, 9, (i % 200) as u8]);
        ip.extend(&packet[12..16]);
        ip.extend(icmp);
        all.push(framed(sent, ip));
    }
    all
}

/// A command line's words.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A chain's packets: from inside, and what comes back for those that left at the outside.
struct Traffic {
    inside: &'static str,
    outside: &'static str,
    back: usize,
    /// Packets from inside that turn back there.
    turned: usize,
}

/// Writes `there.pcap` and `back.pcap` for a run with two workers.
fn traffic(dir: &Path, chain: &str, inside: &'static str, outside: &'static str) -> Traffic {
    let flows = FLOWS.to_string();
    let packets = (FLOWS * 3 / 2).to_string();
    let gen_for = format!("{chain}:{inside}");
    let made = format!("gen --for {gen_for} --out there.pcap --flows {flows} --packets {packets}");
    run(dir, 0, &words(&made));
    let there = format!(
        "run {chain} --in {inside}=there.pcap --out {outside}=out.pcap --workers 2 --mode reference"
    );
    let v = json(dir, 0, &words(&there));
    let turned = v["ports"][inside]["out"]["packets"].as_u64().unwrap() as usize;
    let sent = read(&dir.join("out.pcap"));
    let after = read(&dir.join("there.pcap")).last().unwrap().0 + 1000;
    let mut back = Frames::new();
    for (n, (_, frame)) in sent.iter().enumerate() {
        if frame[12..15] == [8, 0, 0x45] && frame[20..22] == [0, 0] || frame[20..22] == [0x40, 0] {
            for f in replies(n, frame) {
                back.push((after + back.len() as i64 * 1000, f));
            }
        }
    }
    let later = |f: &&(i64, Vec<u8>)| f.1[20..22] == [0, 3];
    let errors = |f: &&(i64, Vec<u8>)| f.1[23] == 1 && f.1[34] == 3;
    assert!(
        back.iter().filter(later).count() * 50 > FLOWS,
        "too few fragments"
    );
    assert!(
        back.iter().filter(errors).count() * 5 > FLOWS,
        "too few errors"
    );
    write(&dir.join("back.pcap"), &back);
    Traffic {
        inside,
        outside,
        back: back.len(),
        turned,
    }
}

/// What N reference graphs do, each with its share: what leaves by port, merged by time, and drops by element and
/// reason.
fn graphs(
    loaded: &WorkerChains,
    inputs: &[(&str, Frames)],
) -> (BTreeMap<String, Frames>, BTreeMap<String, u64>) {
    let n = loaded.chains.len();
    let start = inputs
        .iter()
        .filter_map(|(_, f)| f.first())
        .map(|f| f.0)
        .min();
    let mut merged: Vec<(i64, usize, usize)> = Vec::new();
    for (input, (_, frames)) in inputs.iter().enumerate() {
        merged.extend(frames.iter().enumerate().map(|(k, f)| (f.0, input, k)));
    }
    merged.sort();
    let mut left: BTreeMap<String, Vec<Frames>> = BTreeMap::new();
    let mut drops = BTreeMap::new();
    for (w, chain) in loaded.chains.iter().enumerate() {
        let options = BuildOptions {
            seed: SEED,
            start: Timestamp(start.unwrap_or(0)),
            ..Default::default()
        };
        let mut graph = Graph::build(chain.graph.clone(), &options).unwrap();
        let mut partition = Partition::new(n, SEED, loaded.ports.clone());
        for (at, input, k) in &merged {
            let (name, frames) = &inputs[*input];
            let frame = &frames[*k].1;
            let port = chain.ports.iter().position(|p| p.name == *name).unwrap();
            if !partition.target(port, frame).is_for(w) {
                continue;
            }
            let source = ElemId(chain.ports[port].source.unwrap() as u32);
            graph.inject(source, frame, Timestamp(*at));
            for (sink, p) in graph.take_transmitted() {
                let at_port = |p: &&onefold_chain::ChainPort| p.sinks.contains(&(sink.0 as usize));
                let Some(to) = chain.ports.iter().find(at_port) else {
                    continue;
                };
                let shares = left
                    .entry(to.name.clone())
                    .or_insert_with(|| vec![Frames::new(); n]);
                let t = p.anno.timestamp;
                let t = if t.is_set() { t.0 } else { *at };
                shares[w].push((t, p.data().to_vec()));
            }
        }
        for d in graph.drops() {
            *drops
                .entry(format!("{}: {}", d.element, d.reason))
                .or_default() += d.packets;
        }
    }
    // by time; at equal times the first worker's: all shares are in order of time
    let merge = |(port, shares): (String, Vec<Frames>)| {
        let mut all: Vec<(i64, usize, Vec<u8>)> = Vec::new();
        for (w, share) in shares.into_iter().enumerate() {
            assert!(share.is_sorted_by_key(|f| f.0));
            all.extend(share.into_iter().map(|(t, f)| (t, w, f)));
        }
        all.sort_by_key(|f| (f.0, f.1));
        (port, all.into_iter().map(|(t, _, f)| (t, f)).collect())
    };
    (left.into_iter().map(merge).collect(), drops)
}

fn options() -> Options {
    Options {
        set: Vec::new(),
        examples: vec![common::root().join("chains")],
    }
}

/// Both directions of NATed flows, their ICMP errors and their fragments, through two workers: every packet reaches the
/// one that knows it, and what leaves, and what is dropped, is what two reference graphs say. `all`: nothing else
/// drops packets that come back.
fn flows_meet(chain: &str, inside: &'static str, outside: &'static str, all: bool) {
    let dir = temp(&format!("workers-{chain}"));
    let t = traffic(&dir, chain, inside, outside);
    assert!(t.back > FLOWS, "{} of {FLOWS}", t.back);
    let (i, b) = (
        format!("{}=there.pcap", t.inside),
        format!("{}=back.pcap", t.outside),
    );
    let (o, c) = (
        format!("{}=o.pcap", t.outside),
        format!("{}=c.pcapng", t.inside),
    );
    let v = json(
        &dir,
        0,
        &[
            "run",
            chain,
            "--in",
            &i,
            "--in",
            &b,
            "--out",
            &o,
            "--out",
            &c,
            "--workers",
            "2",
            "--no-verify",
            "-q",
        ],
    );
    let loaded = load_workers(chain, &options(), 2).unwrap();
    let inputs = [
        (t.inside, read(&dir.join("there.pcap"))),
        (t.outside, read(&dir.join("back.pcap"))),
    ];
    let (left, drops) = graphs(&loaded, &inputs);
    for (port, file) in [(t.outside, "o.pcap"), (t.inside, "c.pcapng")] {
        let found = read(&dir.join(file));
        let want = left.get(port).map_or(&[][..], |f| f);
        assert_eq!(found.len(), want.len(), "{chain}: {port}");
        for (n, (f, w)) in found.iter().zip(want).enumerate() {
            assert_eq!(f, w, "{chain}: {port}: frame {n}");
        }
    }
    for d in v["drops_by_element"].as_array().unwrap() {
        let name = format!(
            "{}: {}",
            d["element"].as_str().unwrap(),
            d["reason"].as_str().unwrap()
        );
        assert_eq!(drops.get(&name).copied(), d["packets"].as_u64(), "{name}");
        assert!(
            !name.contains("no mapping"),
            "{chain}: a packet came to another worker: {d}"
        );
    }
    if all {
        assert_eq!(
            v["ports"][t.inside]["out"]["packets"],
            t.back + t.turned,
            "{:?}",
            v["drops"]
        );
    }
    totals_are_sums(&v, inputs.iter().map(|(_, f)| f.len() as u64).sum());
    let workers = v["workers"].as_array().unwrap();
    let fair = |w: &serde_json::Value| {
        w["packets_in"].as_u64().unwrap() * 4 > v["packets_in"].as_u64().unwrap()
    };
    assert!(workers.iter().all(fair), "{workers:?}");
}

fn totals_are_sums(v: &serde_json::Value, packets: u64) {
    let workers = v["workers"].as_array().unwrap();
    for key in ["packets_in", "packets_out", "dropped", "created", "held"] {
        let sum: u64 = workers.iter().map(|w| w[key].as_u64().unwrap()).sum();
        assert_eq!(v[key].as_u64(), Some(sum), "{key}");
    }
    assert_eq!(v["packets_in"].as_u64(), Some(packets));
    assert_eq!(v["conserved"], true);
    for level in ["reference", "program", "flow"] {
        let sum: u64 = workers
            .iter()
            .map(|w| w["levels"][level].as_u64().unwrap())
            .sum();
        assert_eq!(v["levels"][level].as_u64(), Some(sum), "{level}");
    }
}

#[test]
fn flows_of_a_nat_meet() {
    flows_meet("napts-2", "inside", "outside", true);
}

/// Replies of servers come to the NAT's address, and the servers are not whom the clients have asked.
#[test]
fn flows_of_a_nat_in_front_of_a_balancer_meet() {
    flows_meet("router-nat-lb", "clients", "servers", true);
}

#[test]
fn flows_through_every_kind_in_one_chain_meet() {
    // its rules take seconds in a debug build
    if !cfg!(debug_assertions) {
        flows_meet("isp-edge", "lan", "wan", false);
    }
    flows_meet("kitchen-sink", "trunk", "servers", false);
}

/// That a packet comes to the right worker is no accident: by its addresses alone half of what comes back to the NAT in
/// front of the balancer would come to the other one.
#[test]
fn addresses_alone_would_not_do() {
    let dir = temp("workers-addresses");
    let t = traffic(&dir, "router-nat-lb", "clients", "servers");
    let loaded = load_workers("router-nat-lb", &options(), 2).unwrap();
    let at = loaded.chains[0]
        .ports
        .iter()
        .position(|p| p.name == t.outside)
        .unwrap();
    let mut right = Partition::new(2, SEED, loaded.ports.clone());
    let mut plain = Partition::new(2, SEED, vec![PortRule::default(); loaded.ports.len()]);
    let back = read(&dir.join("back.pcap"));
    let wrong = back
        .iter()
        .filter(|(_, f)| right.target(at, f) != plain.target(at, f))
        .count();
    assert!(wrong * 4 > back.len(), "{wrong} of {}", back.len());
}

/// A chain without translators: two workers together send what one sends, whatever the level, and rules are counted
/// alike.
#[test]
fn two_do_what_one_does_where_nothing_is_translated() {
    let dir = temp("workers-plain");
    run(
        &dir,
        0,
        &[
            "gen",
            "--for",
            "routers-2",
            "--out",
            "in.pcap",
            "--packets",
            "2000",
            "--flows",
            "300",
        ],
    );
    let entry = json(
        &dir,
        0,
        &[
            "run",
            "routers-2",
            "--in",
            "left=in.pcap",
            "--out",
            "right=one.pcap",
        ],
    );
    for mode in ["auto", "reference"] {
        let args = [
            "run",
            "routers-2",
            "--in",
            "left=in.pcap",
            "--out",
            "right=two.pcap",
            "--workers",
            "3",
            "--mode",
            mode,
        ];
        let v = json(&dir, 0, &args);
        totals_are_sums(&v, 2000);
        assert_eq!(v["ports"], entry["ports"]);
        assert_eq!(v["drops"], entry["drops"]);
        assert_eq!(v["rules"], entry["rules"]);
        assert_eq!(
            read(&dir.join("one.pcap")),
            read(&dir.join("two.pcap")),
            "{mode}"
        );
    }
    // nothing else is left in the folder
    let names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    // memory ports have their shares, too, and the text has a line for each worker
    let memory = [
        "run",
        "routers-2",
        "--port",
        "left=memory:in.pcap",
        "--port",
        "right=memory:",
        "--workers",
        "2",
    ];
    let (out, err) = run(&dir, 0, &memory);
    assert!(out.contains("routers-2: 2,000 packets"), "{out}");
    assert!(
        out.contains("workers\n  0    in ") && out.contains("\n  1    in "),
        "{out}"
    );
    assert!(
        err.contains("port left: workers by a hash of both addresses"),
        "{err}"
    );
}

#[test]
fn what_does_not_go_with_workers_is_refused() {
    let dir = temp("workers-refused");
    run(
        &dir,
        0,
        &[
            "gen",
            "--for",
            "l2fwd",
            "--out",
            "in.pcap",
            "--packets",
            "10",
            "--flows",
            "1",
        ],
    );
    for flag in [&["--limit", "3"], &["--program", "x"]] {
        let args = [
            &["run", "l2fwd", "--in", "in=in.pcap", "--workers", "2"],
            &flag[..],
        ]
        .concat();
        let (_, err) = run(&dir, 2, &args);
        assert!(
            err.contains(&format!("{} does not go with --workers 2", flag[0])),
            "{err}"
        );
    }
    for (more, why) in [
        (
            &["--workers", "1..2"][..],
            "the load of captures says nothing",
        ),
        (
            &["--workers", "2", "--groups", "8"],
            "--groups is for --workers MIN..MAX",
        ),
        (
            &["--scaling", "every=1"],
            "--scaling is for --workers MIN..MAX",
        ),
        (&["--workers", "2..1"], "2 is more than 1"),
    ] {
        let args = [&["run", "l2fwd", "--in", "in=in.pcap"], more].concat();
        let (_, err) = run(&dir, 2, &args);
        assert!(err.contains(why), "{err}");
    }
    // a queue for each group of flows is more than a TAP interface has
    let ports = ["--port", "in=tap:none0", "--port", "out=packet:none1"];
    let range = ["--workers", "1..2", "--dispatch", "rss"];
    let (_, err) = run(&dir, 2, &[&["run", "l2fwd"], &ports[..], &range].concat());
    assert!(err.contains("one queue; use --dispatch software"), "{err}");
    let few = ["--workers", "1..9", "--groups", "8"];
    let (_, err) = run(&dir, 2, &[&["run", "l2fwd"], &ports[..], &few].concat());
    assert!(err.contains("say --groups 16"), "{err}");
    let live = ["run", "l2fwd", "--in", "in=in.pcap", "--workers", "2"];
    let args = [&live[..], &["--duration", "1"]].concat();
    let (_, err) = run(&dir, 2, &args);
    assert!(
        err.contains("--duration is for network interfaces"),
        "{err}"
    );
}

/// Workers of a NAT expect other ports, but tell packets apart alike: reloads make what they are looked up in once.
#[test]
fn workers_look_packets_up_in_the_same_structures() {
    let loaded = load_workers("isp-edge", &options(), 3).unwrap();
    let mut stages = PreparedStages::default();
    let mut all = Vec::new();
    for c in &loaded.chains {
        let g = Graph::build(c.graph.clone(), &BuildOptions::default());
        let g = g.unwrap_or_else(|e| panic!("{:?}", e.0));
        let program = onefold_synth::synthesize(&g.synthesis_input(), Default::default());
        let plan = Plan::new(&g, &program, Default::default()).unwrap();
        let mut r = ProgramRunner::new(g);
        r.install(plan.prepared_like(&mut stages)).unwrap();
        all.push(r.structures());
    }
    // how long it took is a moment of its own
    let (first, many) = (&all[0], all[0].iter().any(|s| s.rules > 10));
    assert!(many && all.iter().all(|a| entries(a) == entries(first)));
}

/// The first stages, which all chains have ready.
fn entries(all: &[StageReport]) -> Vec<(usize, u64)> {
    let first = all.iter().take(1);
    first.map(|s| (s.stage, s.seconds.to_bits())).collect()
}
