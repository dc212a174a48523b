//! Every example chain takes every capture of the third-party corpus, well-formed or not: no panic, packets conserved.

use crate::common;

use common::corpus::Corpus;
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The chains: numbered examples at both ends.
fn chains() -> Vec<String> {
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: vec![common::root().join("chains")],
    };
    let mut names = Vec::new();
    for n in onefold_chain::example_names(&options) {
        match n.strip_suffix("-N") {
            Some(base) => names.extend([format!("{base}-1"), format!("{base}-10")]),
            None => names.push(n),
        }
    }
    names
}

fn load(name: &str) -> onefold_chain::Chain {
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: vec![common::root().join("chains")],
    };
    onefold_chain::load(name, &options).unwrap_or_else(|e| panic!("{name}: {e:?}"))
}

fn build(chain: &onefold_chain::Chain) -> Graph {
    Graph::build(chain.graph.clone(), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{}: {e}", chain.name))
}

#[test]
fn every_chain_conserves_every_capture() {
    let names = chains();
    assert!(names.len() >= 10, "{names:?}");
    let Some(corpus) = Corpus::read() else { return };
    // chains are independent: as many at a time as there are cores
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        for _ in 0..workers.min(names.len()) {
            s.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    conserves(name, corpus);
                }
            });
        }
    });
}

fn conserves(name: &str, corpus: &Corpus) {
    let chain = load(name);
    let mut graph = build(&chain);
    for port in chain.ports.iter() {
        let Some(source) = port.source else { continue };
        for (n, f) in corpus.frames.iter().enumerate() {
            graph.inject(ElemId(source as u32), &f.data, Timestamp(f.ts_ns));
            graph.drain_transmitted(|_, _| {});
            // the account is taken after each file
            if corpus
                .frames
                .get(n + 1)
                .is_some_and(|next| next.file == f.file)
            {
                continue;
            }
            let t = graph.totals();
            assert!(
                t.balanced(),
                "{name}, port {}: not conserved after {}: {t:?}",
                port.name,
                corpus.files[f.file].display()
            );
        }
    }
}

#[test]
fn every_chain_builds_without_warnings() {
    for name in chains() {
        let chain = load(&name);
        assert!(chain.warnings.is_empty(), "{name}: {:?}", chain.warnings);
        let graph = build(&chain);
        assert!(
            graph.warnings().is_empty(),
            "{name}: {:?}",
            graph.warnings()
        );
    }
}
