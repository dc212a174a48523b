//! What `nat` and `load-balancer` promise, on packets: bindings that nobody takes over, ICMP errors (RFC 5508),
//! fragments. Each packet goes through the reference graph, one by one and as a batch, the program and the flow table:
//! all must do the same.

mod balancer;
mod balancer6;
mod bindings;
mod errors;
#[path = "../examples/mod.rs"]
mod examples;
mod fragments;
mod nat64;
mod one_to_one;
mod packets;
mod packets6;
mod prefixes;
mod requirements;
mod rulesets;

use onefold_chain::Reader;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_verify::prove;
use onefold_verify::{Batched, Event, Flow, Pair, Reference, Synthesized};
use std::path::Path;

/// A function of a chain with two ports, at all levels.
pub struct Rig {
    graph: Graph,
    pairs: Vec<Pair>,
    /// Of each port: where frames enter and leave.
    ports: Vec<(ElemId, Vec<ElemId>)>,
    now: Timestamp,
    id: u64,
}

/// A chain of this function; ports 0 and 1.
fn text(function: &str) -> String {
    format!("functions:\n  f:\n    {function}\nports:\n  a: f[0]\n  b: f[1]\n")
}

/// The errors of a function that must be refused, one a line.
pub fn refused(function: &str) -> String {
    let mut reader = Reader::new(Path::new("."));
    match onefold_chain::load_text(&text(function), "t/chain.yaml", &[], &mut reader) {
        Err(onefold_chain::ChainError::Invalid(all)) => {
            all.iter().map(|d| d.render(false)).collect()
        }
        other => panic!("{other:?}"),
    }
}

impl Rig {
    /// A function's YAML, in flow style or indented by four.
    pub fn new(function: &str) -> Rig {
        let mut reader = Reader::new(Path::new("."));
        let chain = onefold_chain::load_text(&text(function), "t/chain.yaml", &[], &mut reader)
            .unwrap_or_else(|e| panic!("{e:?}"));
        let start = Timestamp::from_secs(1000);
        let options = BuildOptions {
            start,
            ..BuildOptions::default()
        };
        let graph = Graph::build(chain.graph.clone(), &options).unwrap_or_else(|e| panic!("{e:?}"));
        let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
        let runner = || ProgramRunner::with_program(graph.fork(), &program).unwrap();
        let reference = || Box::new(Reference(graph.fork()));
        let pairs = vec![
            Pair::new(reference(), Box::new(Batched::new(graph.fork())), 1),
            Pair::new(reference(), Box::new(Synthesized(runner())), 1),
            Pair::new(reference(), Box::new(Flow::new(runner(), 64)), 1),
        ];
        let port = |p: &onefold_chain::ChainPort| {
            let sinks = p.sinks.iter().map(|s| ElemId(*s as u32)).collect();
            (ElemId(p.source.unwrap() as u32), sinks)
        };
        Rig {
            ports: chain.ports.iter().map(port).collect(),
            pairs,
            now: start,
            id: 0,
            graph,
        }
    }

    /// Sends a frame into a port: what leaves, with its port.
    pub fn send(&mut self, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.now = self.now + Timestamp(1_000_000);
        let mut event = Event::frame(self.now, self.ports[port].0, frame.to_vec());
        event.id = self.id;
        self.id += 1;
        let mut out = Vec::new();
        for pair in &mut self.pairs {
            let d = pair.step(&event).or_else(|| pair.checkpoint());
            assert!(d.is_none(), "{d:?}\n{frame:02x?}");
            let (_, outputs) = pair.last();
            out = outputs
                .iter()
                .map(|(sink, _, b)| {
                    let at = self.ports.iter().position(|p| p.1.contains(&sink));
                    (at.expect("a port"), b.to_vec())
                })
                .collect();
        }
        out
    }

    /// The same, of which exactly one packet leaves at the other port: its IP packet. Checksums must be right.
    pub fn through(&mut self, port: usize, frame: &[u8]) -> Vec<u8> {
        let mut out = self.send(port, frame);
        assert_eq!(out.len(), 1, "{:?} of {frame:02x?}", self.drops());
        let (at, b) = out.remove(0);
        assert_eq!(at, 1 - port);
        packets::check(&b[14..]);
        b[14..].to_vec()
    }

    /// Nothing leaves; the element and the reason.
    pub fn lost(&mut self, port: usize, frame: &[u8]) -> String {
        let before = self.drops();
        assert_eq!(self.send(port, frame), [], "of {frame:02x?}");
        let now = self.drops();
        let new = now.into_iter().filter(|d| !before.contains(d));
        new.map(|(_, reason, _)| reason).collect()
    }

    fn drops(&self) -> Vec<(String, String, u64)> {
        let all = self.pairs[0].left.drops().into_iter();
        all.map(|d| (d.element, d.reason.to_string(), d.packets))
            .collect()
    }

    /// Lets so many seconds go by.
    pub fn wait(&mut self, seconds: i64) {
        self.now = self.now + Timestamp::from_secs(seconds);
    }

    /// The program is proved to be the chain.
    pub fn is_proved(&self) {
        let program = onefold_synth::synthesize(&self.graph.synthesis_input(), Default::default());
        let proof = prove::prove(
            &self.graph.synthesis_input(),
            &program,
            &prove::Options::default(),
        );
        assert!(proof.holds(), "{proof:#?}");
        assert!(proof.share.unknown == 0.0, "{proof:#?}");
    }
}
