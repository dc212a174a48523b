//! New flows that find room, and new flows each of which takes another one's place.

use onefold_bench::measure::{
    Account, Candidate, Executed, Lane, Settings, Subject, Templates, Unseen, Vary, alternate,
    frame_of,
};
use onefold_element::{ConnectionSpec, ElemId, ElementSpec, GraphSpec};
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};
use std::cell::RefCell;
use std::rc::Rc;

/// Flows that the rewriter has room for, and packets after which they are forgotten.
const CAPACITY: u64 = 1024;
const ROOM: u64 = 960;
/// Templates. Each comes once at least before the clock starts, so that the rewriter is filled twice however slow the
/// machine is.
const FRAMES: u32 = 2200;

/// A rewriter in front of a network card.
fn graph() -> Graph {
    let capacity = format!("MAPPING_CAPACITY {CAPACITY}");
    let pattern = "pattern 203.0.113.1-203.0.113.8 1024-65535 - - 0 0";
    let all: [(&str, &str, &[&str]); 6] = [
        ("in", "FromDevice", &["in"]),
        ("strip", "Strip", &["14"]),
        ("check", "CheckIPHeader", &[]),
        (
            "nat",
            "IPRewriter",
            &[pattern, &capacity, "UDP_GUARANTEE 0", "TCP_GUARANTEE 0"],
        ),
        (
            "encap",
            "EtherEncap",
            &["0x0800", "02:00:00:00:03:00", "02:00:00:00:03:01"],
        ),
        ("out", "ToDevice", &["out"]),
    ];
    let element = |(name, class, args): &(&str, &str, &[&str])| ElementSpec {
        name: name.to_string(),
        class: class.to_string(),
        args: args.iter().map(|a| a.to_string()).collect(),
        ..Default::default()
    };
    let connection = |i: usize| ConnectionSpec {
        from: (i, 0),
        to: (i + 1, 0),
        ..Default::default()
    };
    let spec = GraphSpec {
        elements: all.iter().map(element).collect(),
        connections: (0..all.len() - 1).map(connection).collect(),
    };
    Graph::build(spec, &BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A subject that is looked at afterwards.
struct Shared<S>(Rc<RefCell<S>>);

impl<S: Subject> Subject for Shared<S> {
    fn name(&self) -> &'static str {
        self.0.borrow().name()
    }
    fn run(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp, done: &mut Vec<Pkt>) {
        self.0.borrow_mut().run(source, batch, at, done);
    }
    fn forget(&mut self) {
        self.0.borrow_mut().forget();
    }
    fn buffers(&mut self, to: &mut Vec<Pkt>, n: usize) {
        self.0.borrow_mut().buffers(to, n);
    }
    fn account(&self) -> Account {
        self.0.borrow().account()
    }
}

/// Evictions of the rewriter in each execution, and the flows that it has at last.
fn evictions(room: Option<u64>) -> Vec<(u64, u64)> {
    let program = || {
        let g = graph();
        let program = synthesize(&g.synthesis_input(), Budget::default());
        ProgramRunner::with_program(g, &program).unwrap()
    };
    let reference = Rc::new(RefCell::new(Executed(Box::new(graph()))));
    let synthesized = Rc::new(RefCell::new(Executed(Box::new(program()))));
    let flow = Rc::new(RefCell::new(Executed(Box::new(FlowRunner::new(
        program(),
        1024,
    )))));
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|i| {
            let tcp = (i % 2 == 0).then_some(0x02);
            frame_of(0x0a00_0000 + i, 0xc612_0001, 1000, 80, tcp, 64)
        })
        .collect();
    let mut all = [Candidate {
        name: "a rewriter".into(),
        subjects: vec![
            Box::new(Shared(reference.clone())),
            Box::new(Shared(synthesized.clone())),
            Box::new(Shared(flow.clone())),
        ],
        lanes: vec![Lane {
            source: ElemId(0),
            templates: Templates::new(&frames, 1),
            strangers: Some(Unseen {
                known: 0,
                share: 1.0,
                vary: Vary {
                    sport: 0xffff,
                    ..Vary::default()
                },
            }),
        }],
        start: Timestamp::from_secs(1000),
        batch: 64,
        zipf: 0.0,
        seed: 1,
        room,
    }];
    let settings = Settings {
        buffers: 256,
        seconds: 0.002,
        repeats: 1,
    };
    let o = alternate(&mut all, &settings, &mut |_, _, _| true);
    assert_eq!(o.measured.len(), 3);
    for m in &o.measured {
        assert!(m.conserved, "{m:?}");
        assert!(m.offered > 2 * CAPACITY, "the rewriter was filled: {m:?}");
        assert_eq!(m.account.packets_out, m.account.packets_in, "{m:?}");
    }
    let read = |g: &mut Graph| {
        let mut read = |h: &str| g.read_handler(h).unwrap().parse().unwrap();
        (read("nat.evictions"), read("nat.size"))
    };
    vec![
        read(reference.borrow_mut().0.graph_mut()),
        read(synthesized.borrow_mut().0.graph_mut()),
        read(flow.borrow_mut().0.graph_mut()),
    ]
}

#[test]
fn new_flows_find_room_where_it_is_asked_for() {
    for (evicted, flows) in evictions(None) {
        assert!(evicted > CAPACITY, "each takes another one's place");
        assert_eq!(flows, CAPACITY);
    }
    for (evicted, flows) in evictions(Some(ROOM)) {
        assert_eq!(evicted, 0, "none has to go");
        assert!(flows <= ROOM, "{flows}: those before are forgotten");
    }
}
