//! Batches whose packets arrive each at its own time: program and flow table do what the reference graph does with the same packets
//! one by one.

#[allow(dead_code)]
use crate::harness;

use harness::{Frame, Rng, build};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};

/// Translator with short times, counters that look at the clock, some packets held back by a timer, a meter.
const CHAIN: &str = "
    rw :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, drop, CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3, REAP_INTERVAL 1);
    FromDevice(in) -> n :: Counter -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> a :: AverageCounter
      -> s :: IPClassifier(udp && dst port 99, udp && dst port 98, tcp or udp);
    s [0] -> Queue(8) -> DelayUnqueue(0.0007) -> late :: Counter -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:c) -> ToDevice(out);
    s [1] -> m :: Meter(2000) -> SetTimestamp -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:e) -> ToDevice(out);
    m [1] -> Discard;
    s [2] -> DecIPTTL -> [0] rw;
    c [1] -> Discard;
    FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
    rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);";

fn frame(r: &mut Rng, hosts: u64) -> Vec<u8> {
    let host = r.below(hosts) as u8;
    Frame {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        src: [10, 0, 0, host],
        dst: [8, 8, 8, 8],
        proto: if r.one_in(3) { 6 } else { 17 },
        ttl: r.of(&[64, 64, 64, 2, 1]),
        ports: (
            1000 + u16::from(host),
            r.of(&[53, 53, 53, 53, 53, 53, 99, 98]),
        ),
        flags: r.of(&[0x10, 0x10, 0x18, 0x18, 0x02, 0x11, 0x04]),
        payload: r.of(&[0, 4, 4, 4, 40]),
    }
    .bytes()
}

type Left = Vec<(ElemId, Vec<u8>, Timestamp)>;

fn left(g: &mut Graph) -> Left {
    let mut all = Left::new();
    g.drain_transmitted(|e, p| all.push((e, p.data().to_vec(), p.anno.timestamp)));
    all
}

/// Random gaps: none, nanoseconds, microseconds, around a millisecond, seconds.
fn gap(r: &mut Rng, calm: bool) -> i64 {
    match calm {
        true => r.of(&[0, 1, 700, 40_000]),
        false => r.of(&[
            0,
            1,
            1000,
            90_000,
            400_000,
            999_999,
            1_000_000,
            7_000_000,
            1_100_000_000,
            2_500_000_000,
        ]),
    }
}

struct Three {
    graph: Graph,
    program: ProgramRunner,
    flow: FlowRunner,
}

impl Three {
    fn send(&mut self, device: &str, frames: &[(Vec<u8>, Timestamp)]) -> Left {
        let source = self.graph.source(device).unwrap();
        let mut want = Left::new();
        for (f, at) in frames {
            self.graph.inject(source, f, *at);
            want.extend(left(&mut self.graph));
        }
        let make = |make: &mut dyn FnMut(&[u8]) -> Pkt| -> Vec<Pkt> {
            let one = |(f, at): &(Vec<u8>, Timestamp)| {
                let mut p = make(f);
                p.anno.timestamp = *at;
                p
            };
            frames.iter().map(one).collect()
        };
        let mut batch = make(&mut |f| self.program.graph_mut().make_packet(f));
        self.program.inject_stamped(source, &mut batch);
        assert!(batch.is_empty());
        assert_eq!(want, left(self.program.graph_mut()), "program");
        let mut batch = make(&mut |f| self.flow.make_packet(f));
        self.flow.inject_stamped(source, &mut batch);
        assert!(batch.is_empty());
        let mut got = Left::new();
        (self.flow).drain_transmitted(|e, p| got.push((e, p.data().to_vec(), p.anno.timestamp)));
        assert_eq!(want, got, "flow table");
        want
    }

    fn compare(&mut self) {
        let (now, drops) = (self.graph.now(), self.graph.drops());
        let state = self.graph.state_summary();
        for g in [self.program.graph_mut(), self.flow.graph_mut()] {
            assert_eq!(g.now(), now);
            assert_eq!(g.totals(), self.graph.totals());
            assert_eq!(g.drops(), drops);
            assert_eq!(g.state_summary(), state);
        }
    }
}

fn run(
    seed: u64,
    make: impl Fn(ProgramRunner) -> FlowRunner,
    rounds: usize,
    calm: bool,
) -> FlowRunner {
    run_chain(CHAIN, seed, make, rounds, calm)
}

fn run_chain(
    chain: &str,
    seed: u64,
    make: impl Fn(ProgramRunner) -> FlowRunner,
    rounds: usize,
    calm: bool,
) -> FlowRunner {
    let graph = build(chain);
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    let program = ProgramRunner::with_program(graph.fork(), &program).unwrap();
    let flow = make(program.fork());
    let mut t = Three {
        graph,
        program,
        flow,
    };
    let mut r = Rng(seed);
    let mut now = Timestamp::from_secs(5);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for round in 0..rounds {
        let n = r.of(&[1, 2, 9, 64, 65, 130]);
        let back = r.one_in(3) && !replies.is_empty();
        let mut frames = Vec::new();
        for _ in 0..n {
            let calm = calm || n > 10 && !r.one_in(20);
            now = Timestamp(now.0 + gap(&mut r, calm));
            let f = match back {
                true => replies[r.below(replies.len() as u64) as usize].clone(),
                false => frame(&mut r, 40),
            };
            frames.push((f, now));
        }
        let out = t.send(if back { "out" } else { "in" }, &frames);
        for (_, mut f, _) in out.into_iter().filter(|_| !back) {
            // the answer: addresses and ports exchanged
            for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
                for i in 0..n {
                    f.swap(x + i, y + i);
                }
            }
            if replies.len() < 60 {
                replies.push(f);
            }
        }
        if round % 25 == 24 {
            t.compare();
        }
        if round % 100 == 99 {
            let h = "rw.clear";
            t.graph.write_handler(h, "").unwrap();
            t.program.graph_mut().write_handler(h, "").unwrap();
            t.flow.graph_mut().write_handler(h, "").unwrap();
        }
    }
    t.compare();
    assert_eq!(t.flow.stats().refused, 0, "{:?}", t.flow.causes());
    t.flow
}

fn always(program: ProgramRunner) -> FlowRunner {
    FlowRunner::new(program, 4096).always()
}

#[test]
fn each_packet_has_its_own_time() {
    for seed in 1..6 {
        let seed = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed);
        let s = run(seed, always, 200, false).stats();
        assert!(s.hits > 0 && s.ended > 0, "{s:?}");
    }
}

#[test]
fn many_packets_within_a_millisecond() {
    let s = run(0x1234_5678_9abc_def1, always, 200, true).stats();
    assert!(s.hits > 1000, "{s:?}");
}

#[test]
fn a_small_table_that_decides_by_itself() {
    let small = |p| FlowRunner::new(p, 64);
    let s = run(0x0bad_cafe_1234_5671, small, 400, false).stats();
    assert!(s.hits > 0, "{s:?}");
}

/// With costs that a seed makes up, every level takes packets within a short sequence, and the same ones when it comes again.
#[test]
fn every_level_is_chosen_and_comes_again_with_the_seed() {
    let mut others = 0;
    for seed in 1..5 {
        let auto = |p| FlowRunner::seeded(p, 64, seed);
        let levels = run(77, auto, 200, seed % 2 == 0).levels();
        assert!(levels.iter().all(|n| *n > 100), "{levels:?}");
        assert_eq!(levels, run(77, auto, 200, seed % 2 == 0).levels());
        others += usize::from(
            levels != run(77, |p| FlowRunner::seeded(p, 64, 99), 200, seed % 2 == 0).levels(),
        );
    }
    assert!(others > 2);
}

/// Two translators, one behind the other, whose tables are attached to the same flow table.
const ROW: &str = "
    rw :: IPRewriter(pattern 192.0.2.1 1024-1063# - - 0 1, drop, CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3);
    rx :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, drop, CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] rw;
    rw [0] -> [0] rx; Idle -> [1] rw; rw [1] -> Discard; Idle -> [1] rx; rx [1] -> Discard;
    rx [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    FromDevice(out) -> Discard;";

#[test]
fn tables_that_share_a_clock_see_their_packets_at_their_times() {
    for seed in 1..6 {
        let auto = |p| FlowRunner::seeded(p, 64, seed);
        let levels = run_chain(ROW, 1234 + seed, auto, 100, false).levels();
        assert!(levels.iter().all(|n| *n > 50), "{levels:?}");
    }
}

/// Each packet passes the translator twice, and so has two bindings in one table: which of them was used first is kept.
const TWICE: &str = "
    rw :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, pattern 198.51.100.1 1024-1063# - - 1 0,
      CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] rw;
    rw [0] -> [1] rw; rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    FromDevice(out) -> Discard;";

#[test]
fn two_bindings_of_one_table_have_their_order() {
    for seed in 1..4 {
        let flow = run_chain(TWICE, seed, always, 100, false);
        let causes = flow.causes();
        assert!(
            causes.iter().any(|c| c.0 == "two bindings of one table"),
            "{causes:?}"
        );
    }
}
