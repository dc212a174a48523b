//! Every example chain takes every capture of the third-party corpus, well-formed or not: no panic, packets conserved.

mod common;

use onefold_elements::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_io::CaptureReader;
use onefold_packet::Timestamp;
use std::path::{Path, PathBuf};

fn captures(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for e in entries.flatten() {
        let p = e.path();
        if p.is_dir() {
            captures(&p, out);
        } else if CaptureReader::open(&p).is_ok() {
            out.push(p);
        }
    }
}

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
    let Some(data) = common::data() else { return };
    let mut files = Vec::new();
    captures(&data.join("pcap"), &mut files);
    files.sort();
    // read once: the corpus is small
    let mut frames: Vec<(usize, Vec<u8>, i64)> = Vec::new();
    for (i, f) in files.iter().enumerate() {
        let Ok(reader) = CaptureReader::open(f) else {
            continue;
        };
        frames.extend(reader.map_while(Result::ok).map(|x| (i, x.data, x.ts_ns)));
    }
    assert!(frames.len() > 10_000, "only {} frames", frames.len());
    for name in names {
        let chain = load(&name);
        let mut graph = build(&chain);
        for port in chain.ports.iter() {
            let Some(source) = port.source else { continue };
            let mut now = Timestamp::ZERO;
            for (n, (i, data, ts)) in frames.iter().enumerate() {
                // files of all ages: one clock that never goes back
                now = now.max(Timestamp(*ts));
                graph.inject(ElemId(source as u32), data, now);
                graph.drain_transmitted(|_, _| {});
                // the account is taken after each file
                if frames.get(n + 1).is_some_and(|next| next.0 == *i) {
                    continue;
                }
                let t = graph.totals();
                assert!(
                    t.balanced(),
                    "{name}, port {}: not conserved after {}: {t:?}",
                    port.name,
                    files[*i].display()
                );
            }
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
