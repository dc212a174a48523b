//! XDP programs of the shipped chains: the chain with them in front does what it does alone.

use crate::common;

use common::{root, run, temp};
use onefold_chain::{Options, load_workers};
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_partition::{Partition, Target};
use onefold_synth::Program;
use onefold_synth::program::StageId;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{Port, Source};
use onefold_xdp_program::{Dispatch, Generated, Input, Verdict, generate};
use serde_json::Value;

/// Packets aimed at the rules of a chain, through its programs and the reference graph: no difference. Gives the
/// report.
fn same(chain: &str, packets: u64) -> Value {
    let n = packets.to_string();
    let args = ["verify", chain, "--xdp", "--packets", &n, "--json", "-q"];
    let (out, err) = run(&root(), 0, &args);
    let v: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["packets"].as_u64() >= Some(packets), "{v}");
    if v["carried_out_by"] != "kernel" {
        let why = v["not_by_the_kernel"].as_str().unwrap_or("nobody says why");
        onefold_testing::skip(format_args!(
            "the kernel does not carry programs out: {why}"
        ));
    }
    for p in v["programs"].as_array().into_iter().flatten() {
        assert_eq!(p["given_up"], 0, "{v}");
    }
    v
}

/// So many in a hundred of the packets that the chain drops are dropped early.
fn early(v: &Value, at_least: u64) {
    let n = |what: &str| v[what].as_u64().unwrap_or(0);
    let (early, all) = (n("dropped_early"), n("dropped"));
    assert!(early > 0 && early * 100 >= all * at_least, "{v}");
}

#[test]
fn forwarders() {
    same("l2fwd", 2000);
    early(&same("l3fwd", 2000), 80);
}

#[test]
fn firewalls() {
    early(&same("fw10", 2000), 80);
    early(&same("fw-l3fwd", 2000), 80);
    early(&same("fw-l3fwd-l2fwd", 2000), 80);
}

#[test]
fn chains_with_payload_and_translators() {
    early(&same("campus-dpi", 2000), 40);
    early(&same("napts-N", 2000), 30);
    early(&same("napt-fw-lb", 1000), 2);
}

#[test]
fn routers() {
    early(&same("routers-N", 1500), 50);
    early(&same("router-nat-lb", 1000), 30);
}

#[test]
fn ipv6_edge() {
    early(&same("ipv6-edge", 2000), 50);
}

#[test]
fn isp_edge() {
    early(&same("isp-edge", 1000), 30);
}

#[test]
fn kitchen_sink() {
    early(&same("kitchen-sink", 1000), 5);
}

/// A program that drops what the chain does not, or counts it elsewhere, is found out.
#[test]
fn a_wrong_rule_is_noticed() {
    let (text, _) = run(&root(), 0, &["explain", "fw10", "--program"]);
    let dir = temp("xdp-wrong");
    let file = dir.join("wrong.program");
    let name = file.display().to_string();
    let verify = |status| {
        let args = [
            "verify",
            "fw10",
            "--xdp",
            "--program",
            &name,
            "--packets",
            "3000",
            "--json",
            "-q",
        ];
        run(
            &root(),
            status,
            &[&args[..], &["--shrink-time", "0"]].concat(),
        )
        .0
    };
    std::fs::write(&file, &text).expect("a file");
    verify(0);
    // another time to live, another length, another reason, another place to be counted
    for (from, to) in [
        ("ip.ihl <= 4", "ip.ihl <= 5"),
        ("ip.len <= 19", "ip.len <= 20"),
        ("len in 14-33", "len in 14-34"),
        (
            "CheckIPHeader: bad IP version",
            "CheckIPHeader: bad IP length",
        ),
        (
            "count e0 tag 0 from 0 to end",
            "count e0 tag 0 from 0 to end\n    count e0 tag 0 from 0 to end",
        ),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        std::fs::write(&file, text.replacen(from, to, 1)).expect("a file");
        let out = verify(1);
        assert!(
            out.contains("\"level\": \"xdp\"") || out.contains("\"level\":\"xdp\""),
            "{from}: {out}"
        );
    }
}

/// What `explain` prints is the code.
#[test]
fn code_is_printed() {
    let (out, _) = run(&root(), 0, &["explain", "fw10", "--xdp"]);
    for part in [
        "port in: 21 rules, 10 of them drop early, as 9 classes",
        "dropped by fw/CheckIPHeader",
        "r1 = *(u8 *)(r7 + 14)",
        "r0 = map_lookup_elem(r1, r2)",
        "r0 = redirect_map(r1, r2, r3)",
        "exit",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

/// Code that asks the partition function of a chain's port, and tells.
fn dispatcher(partition: &Partition, port: usize) -> Generated {
    let options = onefold_xdp_program::Options {
        early_drop: false,
        dispatch: Dispatch::Partition {
            partition,
            port,
            undecided: partition.workers() as u32,
        },
        tells: true,
        ..Default::default()
    };
    let input = Input {
        program: &Program::default(),
        entry: StageId(0),
        waits: &|_, _| false,
        trusts: &|_, _| false,
        assign: &|_, _| None,
    };
    generate(&input, &options).expect("code")
}

/// Frames of a chain's own traffic go where its partition function says, as far as the code decides.
#[test]
fn frames_of_shipped_chains_go_to_their_worker() {
    for chain in [
        "fw10",
        "campus-dpi",
        "napts-N",
        "routers-N",
        "router-nat-lb",
        "isp-edge",
        "ipv6-edge",
    ] {
        let name = root().join("chains").join(chain).display().to_string();
        let loaded =
            load_workers(&name, &Options::default(), 3).expect("a chain for three workers");
        let mut partition = Partition::new(3, 7, loaded.ports);
        let chain_of = &loaded.chains[0];
        let options = BuildOptions {
            start: Timestamp::from_secs(1000),
            ..Default::default()
        };
        let graph = Graph::build(chain_of.graph.clone(), &options).expect("a graph");
        let ports: Vec<Port> = (chain_of.ports.iter())
            .map(|p| Port {
                name: p.name.clone(),
                source: p.source.map(|s| ElemId(s as u32)),
                sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
            })
            .collect();
        let made: Vec<Generated> = (0..ports.len())
            .map(|i| dispatcher(&partition, i))
            .collect();
        let hints = Hints::of(graph.spec());
        let start = Timestamp::from_secs(1000);
        let mut traffic = Traffic::new(&ports, hints, 5, 6000, start, 1).expect("an entry");
        let (mut decided, mut all) = ([0u64; 3], 0u64);
        while let Some(e) = traffic.next() {
            let Some(port) = ports
                .iter()
                .position(|p| p.source.is_some() && p.source == e.source)
            else {
                continue;
            };
            let wanted = partition.target(port, &e.bytes);
            let mut tables = made[port].tables();
            let got = made[port]
                .verdict(&mut tables, &e.bytes)
                .expect("code that the kernel takes");
            all += 1;
            match got {
                Some(Verdict::Pass(Some(w))) if w < 3 => {
                    assert_eq!(wanted, Target::One(w as usize), "{chain}: {:02x?}", e.bytes);
                    decided[w as usize] += 1;
                }
                // the function is asked, whoever it is
                got => assert_eq!(got, Some(Verdict::Pass(Some(3))), "{chain}"),
            }
        }
        let sum: u64 = decided.iter().sum();
        assert!(sum * 10 > all * 6, "{chain}: {decided:?} of {all}");
        assert!(decided.iter().all(|n| *n > 0), "{chain}: {decided:?}");
    }
}
