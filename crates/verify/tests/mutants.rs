//! Programs of the example chains, broken one place at a time: what a proof finds out about them.
//!
//! `MUTANTS=N` takes up to N places of each kind of damage and chain (the default keeps the test short).

use onefold_elements::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, Program, synthesize};
use onefold_verify::generate::Port;
use onefold_verify::prove::mutate::{Damage, mutants};
use onefold_verify::prove::{Options, Proof, prove, witness};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Chains whose proofs are quick.
const CHAINS: [&str; 9] = [
    "l2fwd",
    "l3fwd",
    "fw10",
    "fw-l3fwd-l2fwd",
    "routers-N",
    "napt-fw-lb",
    "napts-N",
    "campus-dpi",
    "kitchen-sink",
];

fn chain(name: &str) -> (Graph, Vec<Port>) {
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains")],
    };
    let c = onefold_chain::load(name, &options).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let port = |p: &onefold_chain::ChainPort| Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    };
    let ports = c.ports.iter().map(port).collect();
    let options = BuildOptions {
        start: Timestamp::from_secs(1_000),
        ..Default::default()
    };
    let g = Graph::build(c.graph, &options).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    (g, ports)
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// The executor does not take it.
    Refused,
    /// A packet shows the difference.
    Refuted,
    /// It does the same.
    Proved,
    /// Different, as far as the proof can see, but no packet was found that shows it.
    Unshown,
    /// Not known.
    Unknown,
}

fn fate(g: &Graph, ports: &[Port], p: &Program) -> (Fate, Proof) {
    if ProgramRunner::with_program(g.fork(), p).is_err() {
        return (Fate::Refused, Proof::default());
    }
    let options = Options {
        time_limit: Some(Duration::from_secs(120)),
        ..Options::default()
    };
    let proof = prove(&g.synthesis_input(), p, &options);
    if proof.holds() {
        return (Fate::Proved, proof);
    }
    let at = Timestamp::from_secs(1_000);
    for d in &proof.different {
        let seen = |f: &Vec<u8>| witness::confirm(g, p, d.source, f, at).unwrap().is_some();
        if d.certain.is_some() || d.frames.iter().any(seen) {
            return (Fate::Refuted, proof);
        }
    }
    let campaign = |n| witness::campaign(g, p, ports, n, 1, &mut |_| true).unwrap();
    let fate = match (proof.different.is_empty(), &proof.unknown[..]) {
        (false, _) if campaign(20_000).is_some() => Fate::Refuted,
        (false, _) => Fate::Unshown,
        _ => Fate::Unknown,
    };
    (fate, proof)
}

#[test]
#[ignore = "minutes: run it with --ignored, MUTANTS=N for more"]
fn broken_programs_are_found_out() {
    let each = std::env::var("MUTANTS").ok().and_then(|n| n.parse().ok());
    let each = each.unwrap_or(3);
    let mut all: BTreeMap<(Damage, Fate), usize> = BTreeMap::new();
    let mut made = 0;
    for name in CHAINS {
        let (g, ports) = chain(name);
        let p = synthesize(&g.synthesis_input(), Budget::default());
        for m in mutants(&p, each) {
            made += 1;
            let (fate, proof) = fate(&g, &ports, &m.program);
            *all.entry((m.damage, fate)).or_default() += 1;
            if matches!(fate, Fate::Proved | Fate::Unshown | Fate::Unknown) {
                let why = proof.different.first().or(proof.unknown.first());
                let why = why.map_or(String::new(), |d| {
                    format!("stage{} {}: {}", d.stage.0, g.name(d.elem), d.what)
                });
                println!("{name}: {:?} {}: {fate:?} {why}", m.damage, m.place);
            }
        }
    }
    let count = |f: Fate| -> usize {
        let of = all.iter().filter(|((_, g), _)| *g == f);
        of.map(|(_, n)| n).sum()
    };
    for ((d, f), n) in &all {
        println!("{d:?} {f:?}: {n}");
    }
    let (refuted, proved) = (count(Fate::Refuted), count(Fate::Proved));
    let (unshown, unknown) = (count(Fate::Unshown), count(Fate::Unknown));
    println!(
        "{made} mutants: {refuted} refuted, {proved} proved to do the same, {unshown} different and not shown, \
         {unknown} unknown, {} refused",
        count(Fate::Refused)
    );
    assert!(made >= 200);
    assert_eq!(unknown, 0);
    assert!(refuted * 10 >= made * 6, "{all:?}");
}
