//! Chains on network interfaces, whose neighbours are asked for: their programs are proved as those on captures are,
//! and quickly, since a start and a reload wait for it.

use crate::examples;

use onefold_chain::{LivePort, Options, load_live};
use onefold_engine::{BuildOptions, Graph};
use onefold_synth::{Budget, Program, synthesize, text};
use onefold_verify::prove::{self, Proof, prove_with};
use std::time::Duration;

/// The chain as it is with network interfaces at its ports.
fn live(name: &str) -> (Graph, Program) {
    let options = Options {
        set: Vec::new(),
        examples: vec![examples::folder()],
    };
    let written = onefold_chain::load(name, &options).unwrap();
    let ports = written.ports.iter().filter(|p| p.source.is_some());
    let ports: Vec<LivePort> = ports
        .map(|p| LivePort {
            port: p.name.clone(),
            mac: None,
            mtu: 1500,
            learns: true,
        })
        .collect();
    let chain = load_live(name, &options, &ports).unwrap().0;
    let graph = Graph::build(chain.graph, &BuildOptions::default()).unwrap();
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    (graph, program)
}

fn proof(g: &Graph, p: &Program) -> Proof {
    let options = prove::Options {
        time_limit: Some(Duration::from_secs(60)),
        ..Default::default()
    };
    prove_with(&g.synthesis_input(), p, &options, &|e, i| {
        g.finer_model(e, i)
    })
}

/// What was not shown to be the same.
fn open(g: &Graph, proof: &Proof) -> Vec<String> {
    let all = proof.different.iter().chain(&proof.unknown);
    let told = all.map(|d| format!("{}: {}", g.name(d.elem), d.what));
    told.chain(proof.stopped().map(str::to_string)).collect()
}

/// In `isp-edge` pings come back for one host alone, whose address is a constant behind the NAT; others' are not.
#[test]
fn chains_with_neighbours_are_proved() {
    for name in ["isp-edge", "napts-N", "routers-N"] {
        let (g, p) = live(name);
        assert!(text::print(&p).contains("neighbor_known("), "{name}");
        let found = proof(&g, &p);
        assert!(found.holds(), "{name}: {:?}", open(&g, &found));
    }
}

/// A program that asks for the neighbour of another address is none for the chain.
#[test]
fn another_neighbour_is_found_out() {
    let (g, p) = live("isp-edge");
    let written = text::print(&p);
    let asks = "neighbor_known(e37 of ip@0.dst)";
    let (before, stage) = written.split_once("\nstage9 ").expect("stages");
    assert!(
        stage.contains(asks),
        "the stage in front of the hosts inside"
    );
    for (from, to) in [
        (asks, "neighbor_known(e37 of ip@0.src)"),
        ("= neighbor(e37 of ip@0.dst)", "= neighbor(e37 of ip@0.src)"),
    ] {
        let wrong = format!("{before}\nstage9 {}", stage.replace(from, to));
        let wrong = text::parse(&wrong).unwrap_or_else(|e| panic!("{e:?}"));
        assert_ne!(wrong, p);
        let found = proof(&g, &wrong);
        assert!(!found.holds(), "{from} -> {to}");
    }
}
