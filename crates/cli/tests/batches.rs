//! Batches of the reference graph are invisible, on random chains (`onefold_bench::chains`); the example chains are in
//! `crates/verify/tests/batches.rs`. `SEED_FROM` and `SEED_COUNT` (`SOAK_PACKETS` each) choose other chains:
//!
//!     SEED_FROM=1 SEED_COUNT=2000 SOAK_PACKETS=5000 cargo test --profile quick -p onefold --test cli-suite batches::

use crate::common;

use common::temp;
use onefold_bench::chains::{ChainOptions, random_chain};
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_verify::generate::Port;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::{Batched, Options, Pair, Reference};

fn number(name: &str, otherwise: u64) -> u64 {
    let v = std::env::var(name).ok().and_then(|v| v.parse().ok());
    v.unwrap_or(otherwise)
}

#[test]
fn batches_of_random_chains_are_invisible() {
    let dir = temp("batches");
    let (from, count) = (number("SEED_FROM", 1), number("SEED_COUNT", 20));
    let (packets, start) = (
        number("SOAK_PACKETS", 250) as usize,
        Timestamp::from_secs(1000),
    );
    let mut with_output = 0;
    for seed in from..from + count {
        let at = dir.join(seed.to_string());
        std::fs::create_dir_all(&at).unwrap();
        random_chain(seed, &ChainOptions::default())
            .write(&at)
            .unwrap();
        let file = at.join("chain.yaml");
        let chain = onefold_chain::load(file.to_str().unwrap(), &Default::default())
            .unwrap_or_else(|e| panic!("chain {seed}: {e}"));
        let options = BuildOptions {
            start,
            ..Default::default()
        };
        let g = Graph::build(chain.graph.clone(), &options).expect("it is built");
        let port = |p: &onefold_chain::ChainPort| Port {
            name: p.name.clone(),
            source: p.source.map(|s| ElemId(s as u32)),
            sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
        };
        let ports: Vec<Port> = chain.ports.iter().map(port).collect();
        let mut pair = Pair::new(
            Box::new(Reference(g.fork())),
            Box::new(Batched::new(g.fork())),
            256,
        );
        pair.keep_printed();
        let traffic = Traffic::new(&ports, Hints::of(g.spec()), seed, packets as u64, start, 64);
        let mut traffic = traffic.expect("something enters").stamped(seed);
        let options = Options {
            checkpoint_every: 50,
            ..Options::default()
        };
        let o = onefold_verify::run(&pair, &mut traffic, &options, &mut |_| true);
        let found = o.findings.first().map(|f| &f.difference);
        assert!(found.is_none(), "chain {seed}: {found:?}");
        with_output += o.with_output;
    }
    assert!(with_output > count * packets as u64 / 10, "{with_output}");
}
