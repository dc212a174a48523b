//! Programs of the example chains, broken one place at a time: what a proof finds out about them.
//!
//! A few of each kind on small chains are always tried; `--ignored` tries up to `MUTANTS` (3) of each kind on all
//! chains below. With `MUTANT` only those whose line has that text, and with all that the proof says of them; the last
//! one's text goes to the file `MUTANT_TEXT`.

use crate::examples;

use examples::load;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_synth::{Budget, Program, synthesize};
use onefold_verify::generate::Port;
use onefold_verify::prove::mutate::{Damage, mutants};
use onefold_verify::prove::settle::settle;
use onefold_verify::prove::witness::Look;
use onefold_verify::prove::{Options, Proof, prove_with, witness};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    let (c, g) = load(name);
    let port = |p: &onefold_chain::ChainPort| Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    };
    (g, c.ports.iter().map(port).collect())
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
    /// It differs only where no packet comes, or nobody sees it.
    Unseen,
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
    let proof = prove_with(&g.synthesis_input(), p, &options, &|e, i| {
        g.finer_model(e, i)
    });
    if proof.holds() {
        return (Fate::Proved, proof);
    }
    let look = Look {
        packets: 20_000,
        seed: 1,
        shrink_time: Duration::from_secs(1),
    };
    let open = settle(g, p, &proof.different).open;
    let shown = || witness::refute(g, p, ports, &open, &look, &mut |_| true).unwrap();
    let fate = match (&open[..], &proof.unknown[..]) {
        ([], []) if proof.stopped().is_none() => Fate::Unseen,
        ([], _) => Fate::Unknown,
        _ if shown().is_some() => Fate::Refuted,
        _ => Fate::Unshown,
    };
    (fate, proof)
}

/// Breaks the chains' programs in up to `each` places per kind of damage; how many there were, and by fate.
fn damage(chains: &[&str], each: usize) -> (usize, BTreeMap<(Damage, Fate), usize>) {
    let mut all: BTreeMap<(Damage, Fate), usize> = BTreeMap::new();
    let mut made = 0;
    let only = std::env::var("MUTANT").ok();
    for name in chains {
        let (g, ports) = chain(name);
        let p = synthesize(&g.synthesis_input(), Budget::default());
        for m in mutants(&p, each) {
            let line = format!("{name}: {:?} {}", m.damage, m.place);
            if only.as_ref().is_some_and(|o| !line.contains(o.as_str())) {
                continue;
            }
            made += 1;
            let begun = Instant::now();
            let (fate, proof) = fate(&g, &ports, &m.program);
            let seconds = begun.elapsed().as_secs_f64();
            *all.entry((m.damage, fate)).or_default() += 1;
            if matches!(
                fate,
                Fate::Proved | Fate::Unseen | Fate::Unshown | Fate::Unknown
            ) {
                let why = proof.different.first().or(proof.unknown.first());
                let why = why.map_or(String::new(), |d| {
                    format!("stage{} {}: {}", d.stage.0, g.name(d.elem), d.what)
                });
                println!("{line}: {fate:?} {why}");
            }
            if seconds > 5.0 {
                println!("{line}: {seconds:.1} s");
            }
            if only.is_some() {
                explain(&g, &m.program, &proof);
            }
        }
    }
    for ((d, f), n) in &all {
        println!("{d:?} {f:?}: {n}");
    }
    (made, all)
}

/// What a proof says of a mutant that somebody looks at.
fn explain(g: &Graph, p: &Program, proof: &Proof) {
    if let Some(file) = std::env::var_os("MUTANT_TEXT") {
        std::fs::write(file, onefold_synth::text::print(p)).unwrap();
    }
    for d in proof.different.iter().chain(&proof.unknown) {
        let (stage, elem) = (d.stage.0, g.name(d.elem));
        println!("  stage{stage} a{:?} {elem}: {}", d.action, d.what);
        for s in &d.seeks {
            println!("    stage{} a{:?}", s.stage.0, s.action);
            for w in &s.wants {
                println!("      {w:?}");
            }
        }
    }
}

fn count(all: &BTreeMap<(Damage, Fate), usize>, f: Fate) -> usize {
    let of = all.iter().filter(|((_, g), _)| *g == f);
    of.map(|(_, n)| n).sum()
}

#[test]
fn broken_programs_of_small_chains_are_found_out() {
    let (made, all) = damage(&["l2fwd", "l3fwd", "fw10", "routers-N"], 1);
    assert!(made >= 20, "{made}");
    assert_eq!(count(&all, Fate::Unknown), 0, "{all:?}");
    assert_eq!(count(&all, Fate::Unshown), 0, "{all:?}");
    let same = count(&all, Fate::Proved) + count(&all, Fate::Unseen);
    assert!(same * 10 <= made, "{all:?}");
}

#[test]
#[ignore = "minutes: run it with --ignored, MUTANTS=N for more"]
fn broken_programs_are_found_out() {
    let each = std::env::var("MUTANTS").ok().and_then(|n| n.parse().ok());
    let (made, all) = damage(&CHAINS, each.unwrap_or(3));
    let count = |f| count(&all, f);
    let (refuted, proved, unseen) = (
        count(Fate::Refuted),
        count(Fate::Proved),
        count(Fate::Unseen),
    );
    let (unshown, unknown) = (count(Fate::Unshown), count(Fate::Unknown));
    println!(
        "{made} mutants: {refuted} refuted, {proved} proved to do the same, {unseen} different where nobody sees it, \
         {unshown} different and not shown, {unknown} unknown, {} refused",
        count(Fate::Refused)
    );
    assert!(made >= 200);
    for d in [
        Damage::Boundary,
        Damage::Swapped,
        Damage::LostRule,
        Damage::LostGuard,
        Damage::Delta,
        Damage::Origin,
    ] {
        assert!(all.keys().any(|(e, _)| *e == d), "none of {d:?}");
    }
    assert_eq!(unknown, 0);
    assert!((proved + unseen) * 10 <= made, "{all:?}");
    assert_eq!(unshown, 0, "{all:?}");
    assert!(refuted * 10 >= made * 8, "{all:?}");
}

/// A wrong checksum of a packet that is dropped, a rewriter that is asked with a wrong checksum, a header that is too
/// short to be asked about: the proof sees differences, and that nobody else does.
#[test]
fn what_nobody_sees_is_told_from_what_shows() {
    let (g, _) = chain("napt-fw-lb");
    let p = synthesize(&g.synthesis_input(), Budget::default());
    let mut seen: BTreeMap<Damage, [usize; 3]> = BTreeMap::new();
    for m in mutants(&p, 1_000) {
        if !matches!(m.damage, Damage::Swapped | Damage::Delta) {
            continue;
        }
        let proof = prove_with(
            &g.synthesis_input(),
            &m.program,
            &Options::default(),
            &|e, i| g.finer_model(e, i),
        );
        let n = seen.entry(m.damage).or_default();
        if proof.holds() {
            n[0] += 1;
        } else if settle(&g, &m.program, &proof.different).open.is_empty() {
            assert!(
                proof.different.iter().all(|d| d.unless_bound),
                "{}",
                m.place
            );
            n[1] += 1;
        } else {
            n[2] += 1;
        }
    }
    // rules for times to live that end, which differ in where checksums are; updates of what a balancer is asked about
    let [same, _, differ] = seen[&Damage::Swapped];
    assert!(same >= 1 && differ >= 10, "{seen:?}");
    let [_, unseen, differ] = seen[&Damage::Delta];
    assert!(unseen >= 1 && differ >= 1, "{seen:?}");
}
