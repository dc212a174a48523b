//! Packets that go round inside a function, or between two: one that counts no hop down is dropped at its 33rd visit,
//! one that does ends by its time to live, and every execution does so at the same element, for the same reason, with
//! the same state left behind.

use onefold_chain::Reader;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, DropCount, Graph, spec_from_flat};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, synthesize};
use onefold_verify::frame::{self, Keep};
use onefold_verify::prove::{self, prove};
use onefold_verify::{Batched, Event, Flow, Pair, Reference, Subject, Synthesized};
use std::path::Path;

const POOL: [u8; 4] = [203, 0, 113, 1];
const HOST: [u8; 4] = [10, 0, 0, 1];
const LOOP: &str = "LoopGuard: went round 32 times and no hop was counted down";

/// A translator whose inside hosts reach each other through its outside address.
const HAIRPIN: &str = "functions:\n  nat:\n    nat:\n      pool: 203.0.113.1\n      hairpin: true\n\
                       \x20     forward: [ \"udp 203.0.113.1:80 -> 10.0.0.9:8080\" ]\n\
                       ports: { in: \"nat[0]\", out: \"nat[1]\" }\n";

/// Two translators with one pool, of which the first has room for one flow: it forgets the flow that the second one's
/// was made for, and takes what the second one sends back for a packet of the next.
const SHARED: &str = "functions:\n  a:\n    nat: { pool: 203.0.113.1, port-range: \"2000-2003\", capacity: 1 }\n\
                      \x20 between:\n    monitor: { flows: 100 }\n\
                      \x20 b:\n    nat: { pool: 203.0.113.1, port-range: \"2000-2003\", decrement-ttl: HOP }\n\
                      links: [ \"a[1] <-> [0]between[1] <-> [0]b\" ]\n\
                      ports: { in: \"a[0]\", out: \"b[1]\" }\n";

/// Two routers, each of which takes the other one for the way to a prefix.
const ROUTERS: &str = "functions:
  a:
    router:
      interfaces:
        - { address: 10.0.0.254/24, mac: '02:00:00:00:00:02', gateway-mac: '02:00:00:00:ff:00' }
        - { address: 192.0.2.1/30, mac: '02:00:00:00:01:01', gateway-mac: '02:00:00:00:01:02' }
      routes: [ default via 192.0.2.2 ]
  b:
    router:
      interfaces:
        - { address: 192.0.2.2/30, mac: '02:00:00:00:01:02', gateway-mac: '02:00:00:00:01:01' }
        - { address: 198.51.100.1/24, mac: '02:00:00:00:00:04', gateway-mac: '02:00:00:00:ee:00' }
      routes: [ 10.0.0.0/24 via 192.0.2.1, 203.0.113.0/24 via 192.0.2.1 ]
links: [ 'a[1] <-> [0]b' ]
ports: { in: 'a[0]', out: 'b[1]' }
";

/// Packets come back to the guard as long as they have hops left.
const COUNTING: &str = "
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> g :: LoopGuard -> DecIPTTL -> g;
    Idle -> ToDevice(wan);
    FromDevice(wan) -> Discard;
    Idle -> ToDevice(lan);";

fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16), ttl: u8) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend([0x45, 0, 0, 0, 0, 1, 0, 0, ttl, 17, 0, 0]);
    f.extend(from.0);
    f.extend(to.0);
    f.extend(from.1.to_be_bytes());
    f.extend(to.1.to_be_bytes());
    f.extend([0, 20, 0, 0]);
    f.extend(*b"hello, world");
    frame::finish(&mut f, Keep::default());
    f
}

fn hairpin() -> (Graph, ElemId) {
    chain(HAIRPIN)
}

/// Packets with the milliseconds after which they come: the third, and all behind it that are like it, go round in
/// [`SHARED`].
fn shared_pool() -> Vec<(i64, Vec<u8>)> {
    let flow = |s: u16, d: u16| udp((POOL, s), (POOL, d), 64);
    let mut all = vec![
        (0, flow(2000, 2001)),
        (10_000, udp((HOST, 2002), (POOL, 2003), 64)),
        (20_000, flow(2001, 2000)),
    ];
    for i in 0..24u16 {
        let at = 20_001 + i64::from(i / 8);
        all.push((at, flow(2001, 2000)));
        all.push((at, udp((HOST, 1000 + i % 7), ([198, 51, 100, 1], 53), 64)));
    }
    all
}

/// The graph of a chain file, and the element that packets enter its first port through.
fn chain(text: &str) -> (Graph, ElemId) {
    let mut reader = Reader::new(Path::new("."));
    let chain = onefold_chain::load_text(text, "chain.yaml", &[], &mut reader).unwrap();
    let options = BuildOptions {
        start: Timestamp::from_secs(1000),
        ..Default::default()
    };
    let graph = Graph::build(chain.graph.clone(), &options).unwrap();
    (graph, ElemId(chain.ports[0].source.unwrap() as u32))
}

/// The executions that are compared with the reference graph.
fn others(g: &Graph) -> Vec<(Box<dyn Subject>, usize)> {
    let program = synthesize(&g.synthesis_input(), Budget::default());
    let runner = || ProgramRunner::with_program(g.fork(), &program).unwrap();
    vec![
        (Box::new(Batched::new(g.fork())), 1),
        (Box::new(Batched::new(g.fork())), 64),
        (Box::new(Synthesized(runner())), 1),
        (Box::new(Flow::new(runner(), 1024)), 1),
        (Box::new(Flow::new(runner(), 1024)), 64),
    ]
}

/// Eight frames every millisecond.
fn at_eight(frames: &[Vec<u8>]) -> Vec<(i64, Vec<u8>)> {
    let all = frames.iter().enumerate();
    all.map(|(n, f)| (n as i64 / 8, f.clone())).collect()
}

/// Sends frames, with the milliseconds after which they come, through the reference graph and each other execution; the
/// drops are the same everywhere.
fn alike(g: &Graph, source: ElemId, frames: &[(i64, Vec<u8>)]) -> Vec<DropCount> {
    let mut drops = Vec::new();
    for (other, batch) in others(g) {
        let name = other.name();
        let mut pair = Pair::new(Box::new(Reference(g.fork())), other, batch);
        let mut before = -1;
        for (n, (ms, f)) in frames.iter().enumerate() {
            let at = Timestamp::from_secs(1000) + Timestamp(ms * 1_000_000);
            let mut e = Event::frame(at, source, f.clone());
            e.joined = before == *ms;
            before = *ms;
            let difference = pair.step(&e);
            assert_eq!(difference, None, "{name}, batch {batch}, packet {n}");
        }
        assert_eq!(pair.flush(), None, "{name}, batch {batch}");
        assert_eq!(pair.checkpoint(), None, "{name}, batch {batch}");
        assert_eq!(pair.left.drops(), pair.right.drops(), "{name}");
        drops = pair.left.drops();
    }
    drops
}

#[test]
fn a_hairpin_that_never_ends_is_dropped_alike_at_every_level() {
    let (g, inside) = hairpin();
    let round = udp((POOL, 5000), (POOL, 6000), 64);
    let drops = alike(&g, inside, &[(0, round)]);
    assert_eq!(drops.len(), 1, "{drops:?}");
    assert_eq!((drops[0].reason, drops[0].packets), (LOOP, 1));
    assert!(drops[0].element.starts_with("nat/LoopGuard"), "{drops:?}");
    // many, between packets of other flows, and again when their flows are known
    let mut frames = Vec::new();
    for i in 0..24u16 {
        frames.push(udp((POOL, 5000 + i % 5), (POOL, 6000 + i % 3), 64));
        frames.push(udp((HOST, 1000 + i % 7), ([198, 51, 100, 1], 53), 64));
        frames.push(udp((HOST, 2000 + i % 7), (POOL, 80), 64));
    }
    let drops = alike(&g, inside, &at_eight(&frames));
    let circles = drops.iter().find(|d| d.reason == LOOP);
    assert!(circles.is_some_and(|d| d.packets >= 8), "{drops:?}");
}

/// It goes through 32 rounds, not more, and not through thousands of elements.
#[test]
fn a_loop_has_32_rounds() {
    let (mut g, inside) = hairpin();
    g.start_trace();
    g.inject(
        inside,
        &udp((POOL, 5000), (POOL, 6000), 64),
        Timestamp::from_secs(1000),
    );
    let (steps, _) = g.take_trace();
    let visits = steps.iter().filter(|s| s.class == "LoopGuard");
    assert_eq!(visits.count(), 33);
    assert!(steps.len() < 33 * 6, "{} steps", steps.len());
}

#[test]
fn what_turns_back_once_stays_in_the_program() {
    let (g, inside) = hairpin();
    let program = synthesize(&g.synthesis_input(), Budget::default());
    let mut runner = ProgramRunner::with_program(g.fork(), &program).unwrap();
    for n in 0..4u16 {
        let frame = udp((HOST, 2000 + n), (POOL, 80), 64);
        runner.inject(inside, &frame, Timestamp::from_secs(1000));
    }
    let mut left = 0;
    runner.graph_mut().drain_transmitted(|_, p| {
        assert_eq!(p.data()[30..34], [10, 0, 0, 9]);
        left += 1;
    });
    assert_eq!((left, runner.report().punted()), (4, 0));
}

/// A loop between routers is in a program twice, not once for each of the hops that a packet may have left, and is
/// proved in no time: the reference graph goes on with what goes round.
#[test]
fn a_loop_between_routers_does_not_make_a_large_program() {
    let (g, inside) = chain(ROUTERS);
    let input = g.synthesis_input();
    let program = synthesize(&input, Budget::default());
    let rules = |p: &onefold_synth::Program| p.stages.iter().map(|s| s.rules.len()).sum::<usize>();

    let straight = ROUTERS.replace(", 203.0.113.0/24 via 192.0.2.1", "");
    let without = synthesize(&chain(&straight).0.synthesis_input(), Budget::default());
    let (with, without) = (rules(&program), rules(&without));
    assert!(
        with < 4 * without,
        "{with} rules, {without} without the loop"
    );
    let proof = prove(&input, &program, &prove::Options::default());
    assert!(proof.holds(), "{proof:#?}");
    let frames: Vec<Vec<u8>> = [64, 255, 1, 2, 3, 4, 5, 6, 7, 8, 33]
        .iter()
        .map(|ttl| udp((HOST, 1), (POOL, 2), *ttl))
        .collect();
    let drops = alike(&g, inside, &at_eight(&frames));
    // all went round to their end
    let told = drops
        .iter()
        .filter(|d| d.reason == "ICMPError: answered with an ICMP error");
    assert_eq!(told.map(|d| d.packets).sum::<u64>(), 11, "{drops:?}");
}

#[test]
fn a_chain_with_a_loop_is_proved() {
    let (g, _) = hairpin();
    let input = g.synthesis_input();
    let proof = prove(
        &input,
        &synthesize(&input, Budget::default()),
        &prove::Options::default(),
    );
    assert!(proof.holds(), "{proof:#?}");
}

#[test]
fn a_loop_that_counts_hops_down_ends_by_them() {
    let flat = onefold_click::load(COUNTING.as_bytes(), "t.click", &[], &Default::default());
    let g = Graph::build(spec_from_flat(&flat.unwrap()), &BuildOptions::default()).unwrap();
    let source = g.source("lan").unwrap();
    let frames: Vec<Vec<u8>> = [64, 255, 1, 33, 0]
        .iter()
        .map(|ttl| udp((HOST, 1), (POOL, 2), *ttl))
        .collect();
    let drops = alike(&g, source, &at_eight(&frames));
    let told: Vec<(&str, u64)> = drops.iter().map(|d| (d.reason, d.packets)).collect();
    assert_eq!(told, [("DecIPTTL: time to live expired", 5)]);
}

#[test]
fn a_loop_between_two_functions_is_dropped_alike_at_every_level() {
    let (g, inside) = chain(&SHARED.replace("HOP", "false"));
    let frames = shared_pool();
    for some in [&frames[..3], &frames] {
        let drops = alike(&g, inside, some);
        let rounds = drops.iter().filter(|d| d.reason == LOOP);
        let rounds: Vec<_> = rounds.map(|d| (d.element.as_str(), d.packets)).collect();
        assert_eq!(
            rounds,
            [("b/dev0_loop", if some.len() == 3 { 1 } else { 25 })]
        );
    }
}

/// It goes over the links 32 times each way, and each of them counts that.
#[test]
fn a_loop_between_two_functions_has_32_rounds() {
    let (mut g, inside) = chain(&SHARED.replace("HOP", "false"));
    let frames = shared_pool();
    for (n, (ms, f)) in frames[..3].iter().enumerate() {
        if n == 2 {
            g.start_trace();
        }
        let at = Timestamp::from_secs(1000) + Timestamp(ms * 1_000_000);
        g.inject(inside, f, at);
    }
    let (steps, _) = g.take_trace();
    let visits = |class: &str| steps.iter().filter(|s| s.class == class).count();
    assert_eq!(
        (visits("LoopGuard"), visits("NFLink")),
        (33, 33 * 2 + 32 * 2)
    );
    assert!(steps.len() < 33 * 30, "{} steps", steps.len());
}

#[test]
fn a_loop_between_two_functions_that_counts_hops_down_ends_by_them() {
    let (g, inside) = chain(&SHARED.replace("HOP", "true"));
    let drops = alike(&g, inside, &shared_pool()[..3]);
    let told: Vec<(&str, u64)> = drops.iter().map(|d| (d.reason, d.packets)).collect();
    assert_eq!(told, [("DecIPTTL: time to live expired", 1)]);
}

/// Packets that do not turn are the program's as before, and all is proved.
#[test]
fn a_chain_with_a_loop_between_functions_is_proved() {
    let (g, inside) = chain(
        &SHARED
            .replace("HOP", "false")
            .replace("capacity: 1", "capacity: 9"),
    );
    let input = g.synthesis_input();
    let program = synthesize(&input, Budget::default());
    let proof = prove(&input, &program, &prove::Options::default());
    assert!(proof.holds(), "{proof:#?}");
    let mut runner = ProgramRunner::with_program(g.fork(), &program).unwrap();
    for n in 0..4u16 {
        let frame = udp((HOST, 2000 + n), ([198, 51, 100, 1], 53), 64);
        runner.inject(inside, &frame, Timestamp::from_secs(1000));
    }
    let mut left = 0;
    runner.graph_mut().drain_transmitted(|_, _| left += 1);
    assert_eq!((left, runner.report().punted()), (4, 0));
}
