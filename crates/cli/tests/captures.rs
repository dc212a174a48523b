//! The third-party captures, adapted to four chains, through the synthesized program and the reference graph: no
//! difference.
//!
//! In a debug build, and without `ONEFOLD_ALL_CAPTURES`, a sample: every so many files.

use crate::common;

use onefold_capture::CaptureReader;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, synthesize};
use onefold_verify::generate::adapt::{Adapter, Variant};
use onefold_verify::generate::capture::Capture;
use onefold_verify::generate::{Port, Source};
use onefold_verify::{Event, Options, Outputs, Pair, Reference, Synthesized};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

const CHAINS: [&str; 4] = ["isp-edge", "napt-fw-lb", "campus-dpi", "ipv6-edge"];
/// In a sample, one file in so many.
const EVERY: usize = 6;
/// When every capture begins.
const START: Timestamp = Timestamp::from_secs(1000);
/// In a sample, most frames of a file, as the capture has them.
const FRAMES: u64 = 100;

fn captures(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            captures(&p, out);
        } else if CaptureReader::open(&p).is_ok() {
            out.push(p);
        }
    }
}

/// A chain, ready to be forked, with what makes frames fit it.
struct Rig {
    chain: &'static str,
    ports: Vec<Port>,
    pair: Pair,
    adapter: Adapter,
}

impl Rig {
    fn new(chain: &'static str) -> Rig {
        let options = onefold_chain::Options {
            set: Vec::new(),
            examples: vec![common::root().join("chains")],
        };
        let made =
            onefold_chain::load(chain, &options).unwrap_or_else(|e| panic!("{chain}: {e:?}"));
        let ports = (made.ports.iter())
            .map(|p| Port {
                name: p.name.clone(),
                source: p.source.map(|s| ElemId(s as u32)),
                sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
            })
            .collect();
        let options = BuildOptions {
            start: START,
            ..BuildOptions::default()
        };
        let graph = Graph::build(made.graph, &options).unwrap_or_else(|e| panic!("{chain}: {e}"));
        let program = synthesize(&graph.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(graph.fork(), &program)
            .unwrap_or_else(|e| panic!("{chain}: {e}"));
        Rig {
            chain,
            ports,
            pair: Pair::new(Box::new(Reference(graph)), Box::new(Synthesized(runner)), 1),
            adapter: Adapter::new(&program),
        }
    }
}

/// A capture of which no more than so many frames are taken, moved to where the chains' clock begins: timers would fire
/// for all the decades in between.
struct Sample {
    of: Capture,
    left: u64,
    begins: Option<Timestamp>,
}

impl Source for Sample {
    fn next(&mut self) -> Option<Event> {
        let taken = self.of.counts.get(&Variant::AsIs).map_or(0, |c| c.0);
        if taken >= self.left {
            return None;
        }
        let mut e = self.of.next()?;
        let begins = *self.begins.get_or_insert(e.at);
        e.at = e.at - begins + START;
        Some(e)
    }
    fn seen(
        &mut self,
        events: &[Event],
        outputs: &Outputs,
        steps: &[onefold_engine::program::ProgramStep],
    ) {
        self.of.seen(events, outputs, steps);
    }
}

#[test]
fn adapted_captures_show_no_difference() {
    let Some(dir) = common::data() else { return };
    let mut files = Vec::new();
    captures(&dir.join("pcap"), &mut files);
    files.sort();
    assert!(files.len() > 1000, "{} captures", files.len());
    let all = std::env::var_os("ONEFOLD_ALL_CAPTURES").is_some() || !cfg!(debug_assertions);
    if !all {
        files = files.into_iter().step_by(EVERY).collect();
    }
    let begun = Instant::now();
    let rigs: Vec<Rig> = CHAINS.into_iter().map(Rig::new).collect();
    let mut counts: BTreeMap<(&str, &str, Variant), (u64, u64)> = BTreeMap::new();
    let mut punted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (rig, port) in (rigs.iter()).flat_map(|r| r.ports.iter().map(move |p| (r, p))) {
        let Some(entry) = port.source else { continue };
        for file in &files {
            let Ok(mut capture) = Capture::open(&[(entry, file.display().to_string())]) else {
                continue;
            };
            capture.adapt(rig.adapter.clone(), &rig.ports);
            let mut source = Sample {
                of: capture,
                left: if all { u64::MAX } else { FRAMES },
                begins: None,
            };
            let o = onefold_verify::run(&rig.pair, &mut source, &Options::default(), &mut |_| true);
            if let Some(f) = o.findings.first() {
                panic!(
                    "{} at {}: {}: {:#?}\n{:#?}",
                    rig.chain,
                    port.name,
                    file.display(),
                    f.difference,
                    f.small
                );
            }
            for (v, (n, out)) in &source.of.counts {
                let c = counts.entry((rig.chain, &port.name, *v)).or_default();
                *c = (c.0 + n, c.1 + out);
            }
            *punted.entry((rig.chain, &port.name)).or_default() +=
                o.report.map_or(0, |r| r.punted());
        }
    }
    println!(
        "{} captures, {:.1} s; no difference",
        files.len(),
        begun.elapsed().as_secs_f64()
    );
    for ((chain, port, v), (n, out)) in &counts {
        println!(
            "{chain:<12} {port:<9} {n:>8} {v}: {:.1}% with output",
            *out as f64 * 100.0 / *n as f64
        );
    }
    for ((chain, port), n) in punted {
        println!("{chain:<12} {port:<9} {n:>8} punted");
    }
    // adapted, a fair part passes: else the comparison says little
    for (chain, port) in [
        ("isp-edge", "lan"),
        ("campus-dpi", "campus"),
        ("ipv6-edge", "lan"),
    ] {
        let (n, out) = counts[&(chain, port, Variant::Addresses)];
        assert!(out * 3 > n, "{chain} at {port}: {out} of {n}");
        assert!(
            counts[&(chain, port, Variant::Answer)].0 * 3 > n,
            "{chain} at {port}"
        );
    }
}
