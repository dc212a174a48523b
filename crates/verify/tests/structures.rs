//! Whatever a program's stages are looked up in, every packet is of the same class: all example chains, with packets
//! aimed at every rule and boundary and damaged ones, in batches; each structure is forced in turn.

use crate::examples;

use examples::load;
use onefold_element::ElemId;
use onefold_engine::program::{ProgramRunner, ProgramStep, Structures, Using};
use onefold_engine::{Graph, program::Report};
use onefold_packet::Timestamp;
use onefold_synth::program::Program;
use onefold_verify::frame::{self, Keep};
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{self, Source};
use onefold_verify::{Event, Options, Outputs, Pair, Reference, Rng, Synthesized};
use std::sync::Arc;

/// Takes down what it passes on.
struct Tap {
    inner: Directed,
    frames: Vec<(ElemId, Vec<u8>)>,
}

impl Source for Tap {
    fn next(&mut self) -> Option<Event> {
        let e = self.inner.next()?;
        if let Some(s) = e.source {
            self.frames.push((s, e.bytes.clone()));
        }
        Some(e)
    }
    fn watches(&self) -> bool {
        self.inner.watches()
    }
    fn seen(&mut self, events: &[Event], outputs: &Outputs, steps: &[ProgramStep]) {
        self.inner.seen(events, outputs, steps);
    }
}

/// So many frames for a chain: those that `verify` makes, and as many of them damaged.
fn frames(
    chain: &onefold_chain::Chain,
    graph: &Graph,
    program: &Program,
    n: usize,
) -> Vec<(ElemId, Vec<u8>)> {
    let runner = ProgramRunner::with_program(graph.fork(), program).unwrap();
    let pair = Pair::new(
        Box::new(Reference(graph.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let start = Timestamp::from_secs(1000);
    let ports = chain.ports.iter().map(|p| generate::Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    });
    let ports: Vec<generate::Port> = ports.collect();
    let traffic = Traffic::new(&ports, Hints::of(graph.spec()), 3, n as u64, start, 1).unwrap();
    let program = Arc::new(program.clone());
    let inner = Directed::new(program, traffic, &ports, 3, n as u64, start);
    let mut tap = Tap {
        inner,
        frames: Vec::new(),
    };
    onefold_verify::run(&pair, &mut tap, &Options::default(), &mut |_| true);
    let mut rng = Rng::new(11);
    let mut all = Vec::with_capacity(tap.frames.len() * 2);
    for (source, f) in tap.frames {
        let mut bad = f.clone();
        match rng.below(4) {
            0 => bad.truncate(rng.below(f.len() + 1)),
            1 => bad.resize(f.len() + rng.below(3), 0),
            _ => {
                for _ in 0..=rng.below(2) {
                    let at = rng.below(bad.len().clamp(1, 64));
                    if let Some(b) = bad.get_mut(at) {
                        *b = match rng.below(4) {
                            0 => b.wrapping_add(1),
                            1 => b.wrapping_sub(1),
                            2 => *b ^ 1 << rng.below(8),
                            _ => rng.bits() as u8,
                        };
                    }
                }
                if rng.one_in(2) {
                    frame::finish(&mut bad, Keep::default());
                }
            }
        }
        all.push((source, f));
        all.push((source, bad));
    }
    all
}

/// What becomes of frames in batches of all sizes.
fn fate(
    graph: &Graph,
    program: &Program,
    frames: &[(ElemId, Vec<u8>)],
    structures: Structures,
) -> (Report, u64, ProgramRunner) {
    let using = Using {
        structures,
        measure: false,
    };
    let mut r = ProgramRunner::with_program_using(graph.fork(), program, using).unwrap();
    r.prepare();
    let mut batch = Vec::new();
    let mut now = Timestamp::from_secs(1000);
    let mut rest = frames;
    let mut size = 0;
    while let Some((source, _)) = rest.first() {
        size = size * 2 % 509 + 2;
        let same = rest.iter().take(size).take_while(|f| f.0 == *source);
        let n = same.count();
        for (_, f) in &rest[..n] {
            let mut p = r.graph_mut().make_packet(f);
            p.anno.timestamp = now;
            batch.push(p);
        }
        r.inject_batch(*source, &mut batch, now);
        now = now + Timestamp(1_000_000);
        rest = &rest[n..];
    }
    let sent = r.graph().totals().sent;
    let mut report = r.report();
    // the tree is there whatever the structure is
    (report.tree_nodes, report.tree_entries) = (0, 0);
    (report, sent, r)
}

fn same(name: &str, n: usize) {
    use onefold_engine::program::Kind;
    let (chain, graph) = load(name);
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let frames = frames(&chain, &graph, &program, n);
    let (want, sent, _) = fate(&graph, &program, &frames, Structures::Tree);
    assert!(want.packets > n as u64 && sent > 0, "{name}");
    let kinds = [
        Kind::Linear,
        Kind::DecisionCode,
        Kind::BitVector,
        Kind::DecisionTree,
        Kind::PrefixTrie,
        Kind::TupleSpace,
    ];
    let forced = kinds.map(Structures::Only).into_iter();
    for s in std::iter::once(Structures::Chosen).chain(forced) {
        let (have, out, runner) = fate(&graph, &program, &frames, s);
        for (a, b) in have.rules.iter().zip(&want.rules) {
            assert_eq!(a, b, "{name} {s:?} {:#?}", runner.structures().get(a.stage));
        }
        assert_eq!((have, out), (want.clone(), sent), "{name} {s:?}");
    }
    println!("{name}: {} frames, {sent} left the chain", frames.len());
}

#[test]
fn campus_dpi() {
    same("campus-dpi", 1500);
}

#[test]
fn fw10() {
    same("fw10", 1000);
}

#[test]
fn fw_l3fwd() {
    same("fw-l3fwd", 1500);
}

#[test]
fn fw_l3fwd_l2fwd() {
    same("fw-l3fwd-l2fwd", 1000);
}

#[test]
fn ipv6_edge() {
    same("ipv6-edge", 2500);
}

#[test]
fn isp_edge() {
    same("isp-edge", 4000);
}

#[test]
fn kitchen_sink() {
    same("kitchen-sink", 1500);
}

#[test]
fn l2fwd() {
    same("l2fwd", 500);
}

#[test]
fn l3fwd() {
    same("l3fwd", 1000);
}

#[test]
fn napt_fw_lb() {
    same("napt-fw-lb", 1000);
}

#[test]
fn napts() {
    same("napts-N", 1000);
}

#[test]
fn router_nat_lb() {
    same("router-nat-lb", 1500);
}

#[test]
fn routers() {
    same("routers-N", 1500);
}
