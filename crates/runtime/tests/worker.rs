//! What leaves does not depend on executor or batch, and ports are merged by time.

use onefold_element::ElemId;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Executor, Graph, spec_from_flat};
use onefold_packet::{Pkt, Timestamp};
use onefold_runtime::{Keep, MemoryPort, Port, PortError, PortSpec, Worker};
use onefold_synth::{Budget, synthesize};
use std::sync::{Arc, Mutex};

/// Two ports, a translator whose bindings last two seconds, and some packets that a timer holds back.
const CHAIN: &str = "
    rw :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, drop, CAPACITY 30, UDP_TIMEOUT 2, REAP_INTERVAL 1);
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> s :: IPClassifier(udp && dst port 99, udp);
    s [0] -> Queue(8) -> DelayUnqueue(0.0007) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:c) -> out :: ToDevice(wan);
    s [1] -> [0] rw;
    FromDevice(wan) -> Strip(14) -> CheckIPHeader -> IPClassifier(udp) -> [1] rw;
    rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(wan);
    rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(lan);";

fn graph() -> Graph {
    let flat = onefold_click::load(CHAIN.as_bytes(), "test.click", &[], &Default::default());
    Graph::build(spec_from_flat(&flat.unwrap()), &BuildOptions::default()).unwrap()
}

/// A UDP packet without a checksum; the header has its own.
fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(src);
    ip.extend(dst);
    let sum: u32 = (ip.chunks(2))
        .map(|c| u32::from(c[0]) << 8 | u32::from(c[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend(ip);
    f.extend(ports.0.to_be_bytes());
    f.extend(ports.1.to_be_bytes());
    f.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    f
}

/// Frames by port, with their times.
type Traffic = [Vec<(Timestamp, Vec<u8>)>; 2];

fn traffic(seed: u64) -> Traffic {
    let mut state = seed | 1;
    let mut next = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let mut all = Traffic::default();
    let mut now = 5_000_000_000i64;
    for _ in 0..3000 {
        let gaps = [0, 0, 0, 1, 900, 40_000, 600_000, 1_500_000, 900_000_000];
        let kinds = if next(40) == 0 { 9 } else { 7 };
        now += gaps[next(kinds) as usize];
        let host = next(20) as u8;
        let at = Timestamp(now);
        match next(4) {
            0 => {
                let to = 1024 + next(40) as u16;
                all[1].push((at, udp([8, 8, 8, 8], [203, 0, 113, 1], (53, to))));
            }
            n => {
                let to = if n == 1 && host < 4 { 99 } else { 53 };
                let from = 2000 + u16::from(host);
                all[0].push((at, udp([10, 0, 0, host], [8, 8, 8, 8], (from, to))));
            }
        }
    }
    all
}

/// Passes on what a memory port does, and shares what has left.
struct Shared(Arc<Mutex<MemoryPort>>);

impl Port for Shared {
    fn next_at(&mut self) -> Option<Timestamp> {
        self.0.lock().unwrap().next_at()
    }
    fn receive(&mut self, f: &mut Vec<Pkt>, b: &mut Vec<Pkt>, until: Timestamp, n: usize) {
        self.0.lock().unwrap().receive(f, b, until, n);
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        self.0.lock().unwrap().transmit(packets, now)
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// What left at each port, with its time; drops; states.
type Outcome = (
    Vec<Vec<(Timestamp, Vec<u8>)>>,
    String,
    Vec<(String, String)>,
);

fn run(executor: Box<dyn Executor>, traffic: &Traffic, batch: usize) -> Outcome {
    let g = executor.graph();
    let mut shared = Vec::new();
    let mut specs = Vec::new();
    for (name, frames) in ["lan", "wan"].into_iter().zip(traffic) {
        let mut p = MemoryPort::new(Keep::All);
        for (at, f) in frames {
            p.push(*at, f);
        }
        let p = Arc::new(Mutex::new(p));
        shared.push(p.clone());
        let sinks: Vec<ElemId> = g.sinks(name);
        specs.push(PortSpec {
            name: name.to_string(),
            entry: g.source(name),
            sinks,
            port: Some(Box::new(Shared(p))),
        });
    }
    let mut w = Worker::new(executor, specs, batch);
    let mut packets = 0;
    while let Some(step) = w.step(usize::MAX).unwrap() {
        assert!(step.packets > 0 && step.packets <= batch);
        packets += step.packets;
    }
    assert_eq!(packets, traffic[0].len() + traffic[1].len());
    w.linger(Timestamp::from_secs(1)).unwrap();
    w.finish().unwrap();
    let e = w.executor();
    assert!(e.totals().balanced());
    let drops = format!("{:?}", e.drops());
    let states = e.graph_mut().state_summary();
    let left = |p: &Arc<Mutex<MemoryPort>>| {
        let p = p.lock().unwrap();
        p.left().map(|(at, f)| (at, f.to_vec())).collect()
    };
    (shared.iter().map(left).collect(), drops, states)
}

#[test]
fn what_leaves_depends_neither_on_level_nor_on_batch() {
    for seed in [3, 77, 12_345] {
        let traffic = traffic(seed);
        let g = graph();
        let program = synthesize(&g.synthesis_input(), Budget::default());
        let program = ProgramRunner::with_program(g.fork(), &program).unwrap();
        let want = run(Box::new(g.fork()), &traffic, 1);
        assert!(want.0.iter().all(|p| p.len() > 100));
        for batch in [1, 7, 256] {
            let flow = FlowRunner::new(program.fork(), 1024);
            let always = FlowRunner::new(program.fork(), 64).always();
            let seeded = FlowRunner::seeded(program.fork(), 64, seed);
            let all: [Box<dyn Executor>; 5] = [
                Box::new(g.fork()),
                Box::new(program.fork()),
                Box::new(flow),
                Box::new(always),
                Box::new(seeded),
            ];
            for e in all {
                let name = e.name();
                let got = run(e, &traffic, batch);
                assert_eq!(want.0, got.0, "{name} {batch}: packets");
                assert_eq!(want.1, got.1, "{name} {batch}: drops");
                assert_eq!(want.2, got.2, "{name} {batch}: states");
            }
        }
    }
}

/// At equal times the first port comes first, however many packets it has; a clock that goes back does not.
#[test]
fn ports_are_merged_by_time() {
    let chain = "FromDevice(a) -> out :: ToDevice(x); FromDevice(b) -> out;";
    let flat = onefold_click::load(chain.as_bytes(), "test.click", &[], &Default::default());
    let g = Graph::build(spec_from_flat(&flat.unwrap()), &BuildOptions::default()).unwrap();
    let out = Arc::new(Mutex::new(MemoryPort::new(Keep::All)));
    let times = [vec![1, 3, 3, 9, 4], vec![1, 2, 3, 5, 20]];
    let mut specs: Vec<PortSpec> = (["a", "b"].into_iter().zip(&times))
        .map(|(name, times)| {
            let mut p = MemoryPort::new(Keep::Nothing);
            for (i, t) in times.iter().enumerate() {
                p.push(Timestamp(*t), &[name.as_bytes()[0], i as u8]);
            }
            PortSpec {
                name: name.to_string(),
                entry: g.source(name),
                sinks: Vec::new(),
                port: Some(Box::new(p)),
            }
        })
        .collect();
    specs.push(PortSpec {
        name: "x".to_string(),
        entry: None,
        sinks: g.sinks("x"),
        port: Some(Box::new(Shared(out.clone()))),
    });
    let mut w = Worker::new(g, specs, 64);
    while w.step(usize::MAX).unwrap().is_some() {}
    w.finish().unwrap();
    let left: Vec<(i64, String)> = (out.lock().unwrap().left())
        .map(|(at, f)| (at.0, format!("{}{}", f[0] as char, f[1])))
        .collect();
    let want = [
        (1, "a0"),
        (1, "b0"),
        (2, "b1"),
        (3, "a1"),
        (3, "a2"),
        (3, "b2"),
        (5, "b3"),
        (9, "a3"),
        (9, "a4"),
        (20, "b4"),
    ];
    let want: Vec<_> = want.iter().map(|(t, n)| (*t, n.to_string())).collect();
    assert_eq!(left, want);
}
