//! Frames through every example chain: no panic, packets are conserved, a fork does what its original does, and batched
//! engine, synthesized program and flow table do what the scalar engine does: what leaves, in order, what is dropped
//! for which reason, and what is left behind.
//!
//! Batches have packets of different times; what the batched engine and the flow table do with them is what the scalar
//! engine does with the same packets one by one, in the same order across all flows.

use crate::frames::{Frame, Kind, answer, way};
use crate::script::{Record, Script};
use onefold_chain::{Chain, ChainError, Options, load};
use onefold_element::ElemId;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Executor, Graph};
use onefold_packet::Timestamp;
use onefold_synth::program::Program;
use onefold_synth::{Budget, synthesize};
use std::path::PathBuf;

/// Chains in a fixed order, which scripts refer to: new ones at the end.
const CHAINS: [&str; 17] = [
    "campus-dpi",
    "fw-l3fwd",
    "fw-l3fwd-l2fwd",
    "fw10",
    "ipv6-edge",
    "isp-edge",
    "kitchen-sink",
    "l2fwd",
    "l3fwd",
    "napt-fw-lb",
    "router-nat-lb",
    "routers-1",
    "routers-2",
    "routers-10",
    "napts-1",
    "napts-2",
    "napts-10",
];

/// The clock at the start.
const START: Timestamp = Timestamp(1_000_000_000_000);

/// An example, ready to be copied.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    chain: Chain,
    pub(crate) graph: Graph,
    /// Its program, and the same loaded.
    pub(crate) made: Program,
    pub(crate) program: ProgramRunner,
    /// Element that packets enter through, and an address that frames may be for.
    entries: Vec<(ElemId, [u8; 6])>,
    /// Port by element.
    port_of: Vec<Option<usize>>,
}

fn example(name: &'static str) -> Example {
    let options = Options {
        set: Vec::new(),
        examples: vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../chains")],
    };
    let chain = match load(name, &options) {
        Ok(c) => c,
        Err(ChainError::Invalid(ds)) => panic!("{name}: {ds:?}"),
        Err(e) => panic!("{name}: {e}"),
    };
    let build = BuildOptions {
        start: START,
        ..BuildOptions::default()
    };
    let graph =
        Graph::build(chain.graph.clone(), &build).unwrap_or_else(|e| panic!("{name}: {:?}", e.0));
    let made = synthesize(&graph.synthesis_input(), Budget::default());
    let program =
        ProgramRunner::with_program(graph.fork(), &made).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut port_of = vec![None; graph.len()];
    for (i, p) in chain.ports.iter().enumerate() {
        for s in &p.sinks {
            port_of[*s] = Some(i);
        }
    }
    let sources = chain.ports.iter().filter_map(|p| p.source);
    let entries = sources
        .map(|s| {
            let e = ElemId(s as u32);
            (e, address_of(&graph, e))
        })
        .collect();
    Example {
        name,
        chain,
        graph,
        made,
        program,
        entries,
        port_of,
    }
}

/// An address that lets a plain frame come further than others: it leaves, or is at least not refused as somebody
/// else's.
fn address_of(graph: &Graph, entry: ElemId) -> [u8; 6] {
    let mut best = (0, [2, 0, 0, 0, 0, 2]);
    for (a, b) in (0..=10).flat_map(|a| (0..=10).map(move |b| (a, b))) {
        let mac = [2, 0, 0, 0, a, b];
        let mut g = graph.fork();
        for kind in [Kind::Tcp, Kind::Udp] {
            let f = Frame {
                mac,
                ..Frame::new(kind)
            };
            g.inject(entry, &f.bytes(), START);
        }
        let drops = g.drops();
        let foreign = drops.iter().any(|d| d.reason.contains("HostEtherFilter"));
        let score = 2 * g.totals().sent + u64::from(!foreign);
        if score > best.0 {
            best = (score, mac);
        }
    }
    best.1
}

thread_local! {
    pub(crate) static EXAMPLES: Vec<Example> = CHAINS.iter().map(|n| example(n)).collect();
}

/// What entered.
pub(crate) struct Arrival {
    pub(crate) entry: ElemId,
    pub(crate) at: Timestamp,
    pub(crate) bytes: Vec<u8>,
}

/// Handlers and what they say.
type State = Vec<(String, String)>;

/// What left: port, way, bytes.
pub(crate) type Left = Vec<(usize, Vec<u8>, Vec<u8>)>;

/// Panics with the first difference.
pub(crate) fn equal(name: &str, left: &Left, expected: &Left) {
    let text = |l: Option<&(usize, Vec<u8>, Vec<u8>)>| match l {
        None => "nothing".to_string(),
        Some((port, way, bytes)) => format!("port {port} way {way:02x?}\n  {bytes:02x?}"),
    };
    for i in 0..left.len().max(expected.len()) {
        let (a, b) = (left.get(i), expected.get(i));
        assert!(
            a == b,
            "{name}, packet {i}: {}\nexpected {}",
            text(a),
            text(b)
        );
    }
}

pub(crate) fn collect(example: &Example, graph: &mut Graph, left: &mut Left) {
    graph.drain_transmitted(|e, p| {
        let port = example.port_of.get(e.0 as usize).copied().flatten();
        left.push((
            port.expect("it leaves through a port"),
            way(p.data()),
            p.data().to_vec(),
        ));
    });
    let t = graph.totals();
    assert!(t.balanced(), "{}: {t:?}", example.name);
}

/// The scalar engine, on the script; says what entered.
pub(crate) fn scalar(
    example: &Example,
    script: Script<'_>,
    graph: &mut Graph,
    left: &mut Left,
) -> Vec<Arrival> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut now = START;
    for step in script {
        now = Timestamp(now.0 + step.after);
        let (mut entry, own) = example.entries[step.entry % example.entries.len()];
        let mut bytes = match &step.record {
            Record::Frame(b) => b.clone(),
            Record::Made(f, to_entry) => {
                let mut f = *f;
                if *to_entry {
                    f.mac = own;
                }
                f.bytes()
            }
            Record::Answer(back) => {
                let Some((port, _, bytes)) =
                    left.len().checked_sub(back + 1).and_then(|i| left.get(i))
                else {
                    continue;
                };
                if let Some(s) = example.chain.ports[*port].source {
                    entry = ElemId(s as u32);
                }
                answer(bytes)
            }
            Record::Again(back) => {
                let Some(a) = arrivals
                    .len()
                    .checked_sub(back + 1)
                    .and_then(|i| arrivals.get(i))
                else {
                    continue;
                };
                entry = a.entry;
                a.bytes.clone()
            }
            Record::Nothing => {
                graph.advance_to(now);
                collect(example, graph, left);
                continue;
            }
        };
        step.finish(&mut bytes);
        graph.inject(entry, &bytes, now);
        collect(example, graph, left);
        arrivals.push(Arrival {
            entry,
            at: now,
            bytes,
        });
    }
    graph.advance_to(now);
    collect(example, graph, left);
    arrivals
}

/// Packets that enter at one place, one after the other: batches.
pub(crate) fn batches(arrivals: &[Arrival]) -> impl Iterator<Item = &[Arrival]> {
    arrivals.chunk_by(|a, b| a.entry == b.entry)
}

/// An executor, in batches, on the same arrivals: everything is as the reference graph has it.
fn in_batches(
    example: &Example,
    arrivals: &[Arrival],
    executor: &mut dyn Executor,
    reference: &Graph,
    expected: &Left,
    state: Option<&State>,
) {
    let name = format!("{}, {}", example.name, executor.name());
    let mut left = Left::new();
    let mut batch = Vec::new();
    for some in batches(arrivals) {
        for a in some {
            let mut p = executor.make_packet(&a.bytes);
            p.anno.timestamp = a.at;
            batch.push(p);
        }
        executor.run(some[0].entry, &mut batch);
        assert!(batch.is_empty());
        assert!(executor.totals().balanced(), "{name}");
    }
    executor.advance(reference.now());
    collect(example, executor.graph_mut(), &mut left);
    equal(&name, &left, expected);
    assert_eq!(executor.totals(), reference.totals(), "{name}");
    assert_eq!(executor.drops(), reference.drops(), "{name}");
    if let Some((stats, causes)) = executor.flow_stats() {
        assert_eq!(stats.refused, 0, "{name}: {causes:?}");
    }
    if let Some(state) = state {
        for (a, b) in executor.graph_mut().state_summary().iter().zip(state) {
            assert_eq!(a, b, "{name}");
        }
    }
}

/// The program, on the same arrivals: everything is as the reference graph has it.
fn synthesized(
    example: &Example,
    arrivals: &[Arrival],
    reference: &Graph,
    expected: &Left,
    state: Option<&State>,
) {
    let name = example.name;
    let mut runner = example.program.fork();
    let mut left = Left::new();
    for a in arrivals {
        runner.inject(a.entry, &a.bytes, a.at);
        collect(example, runner.graph_mut(), &mut left);
    }
    runner.advance_to(reference.now());
    collect(example, runner.graph_mut(), &mut left);
    equal(name, &left, expected);
    assert_eq!(runner.graph().totals(), reference.totals(), "{name}");
    assert_eq!(runner.graph().drops(), reference.drops(), "{name}");
    assert_eq!(runner.report().reference, 0, "{name}: no program was valid");
    if let Some(state) = state {
        assert_eq!(&runner.graph_mut().state_summary(), state, "{name}");
    }
}

/// One input.
pub fn run(data: &[u8]) {
    EXAMPLES.with(|examples| {
        let script = Script::new(data);
        let switches = script.switches;
        let example = &examples[script.chain % examples.len()];

        let mut reference = example.graph.fork();
        let mut expected = Left::new();
        let arrivals = scalar(example, script, &mut reference, &mut expected);
        assert_eq!(reference.totals().packets_in, arrivals.len() as u64);
        // printing every table takes longer than all else: half of the inputs do
        let state = (switches & 1 != 0).then(|| reference.state_summary());
        let state = state.as_ref();
        synthesized(example, &arrivals, &reference, &expected, state);
        let flows = if switches & 2 != 0 { 64 } else { 1024 };
        let flow = FlowRunner::new(example.program.fork(), flows).always();
        let others: [Box<dyn Executor>; 3] = [
            Box::new(flow),
            Box::new(example.program.fork()),
            Box::new(example.graph.fork()),
        ];
        for mut e in others {
            in_batches(example, &arrivals, &mut *e, &reference, &expected, state);
        }
    });
}
