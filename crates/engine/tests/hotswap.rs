//! A graph that takes over another one's state goes on as that one would have.

use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Executor, Graph, spec_from_flat};
use onefold_packet::{Timestamp, checksum};

fn build(text: &str, at: Timestamp) -> Graph {
    let flat = onefold_click::load(text.as_bytes(), "test.click", &[], &Default::default());
    let flat = flat.unwrap_or_else(|e| panic!("{e:?}"));
    let options = BuildOptions {
        start: at,
        ..BuildOptions::default()
    };
    Graph::build(spec_from_flat(&flat), &options).unwrap_or_else(|e| panic!("{e:?}"))
}

/// With its program and a flow table in front.
fn fast(graph: Graph) -> FlowRunner {
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let runner = ProgramRunner::with_program(graph, &program).expect("a program of the graph");
    FlowRunner::new(runner, 1024).always()
}

/// An IPv4 packet with a UDP header and ten bytes.
fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 38, 0, 1, 0, 0, 64, 17, 0, 0];
    p.extend(src);
    p.extend(dst);
    p.extend(ports.0.to_be_bytes());
    p.extend(ports.1.to_be_bytes());
    p.extend([0, 18, 0, 0]);
    p.extend([7; 10]);
    let sum = checksum::internet(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p
}

const NAT: &str = "
    FromDevice(a) -> CheckIPHeader -> rules :: IPFilter(RULES) -> c :: Counter
      -> [0] rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
    FromDevice(b) -> CheckIPHeader -> [1] rw;
    rw[0] -> ToDevice(b);
    rw[1] -> ToDevice(a);
";

fn nat(rules: &str) -> String {
    NAT.replace("RULES", rules)
}

/// Everything that left, with the name of its sink.
fn left(e: &mut dyn Executor) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    e.take_transmitted(&mut out);
    let all = out.into_iter();
    all.map(|(s, p)| (e.graph().name(s).to_string(), p.data().to_vec()))
        .collect()
}

fn ms(n: i64) -> Timestamp {
    Timestamp(n * 1_000_000)
}

fn arrive(e: &mut dyn Executor, port: &str, data: &[u8], at: Timestamp) {
    let source = e.graph().source(port).expect("a port");
    let p = e.make_packet(data);
    e.run_at(source, &mut vec![p], at);
}

/// Packets of sixty flows both ways; replies go to what the rewriter has chosen.
fn traffic(e: &mut dyn Executor, from: i64, replies: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for i in 0..60u8 {
        let p = udp([10, 0, 0, i], [9, 9, 9, 9], (1000 + u16::from(i), 53));
        arrive(e, "a", &p, ms(from + i64::from(i)));
        all.extend(left(e));
    }
    for (i, r) in replies.iter().enumerate() {
        arrive(e, "b", r, ms(from + 100 + i as i64));
        all.extend(left(e));
    }
    all
}

/// What comes back to a packet.
fn reply(p: &[u8]) -> Vec<u8> {
    let quad = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3]];
    let port = |at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
    udp(quad(16), quad(12), (port(22), port(20)))
}

/// Another list of rules, more elements in front: bindings, counters and the account go on, at every level.
#[test]
fn flows_go_on_through_a_rewriter_that_has_not_changed() {
    for fast_path in [false, true] {
        let make = |text: &str, at| -> Box<dyn Executor> {
            match fast_path {
                true => Box::new(fast(build(text, at))),
                false => Box::new(build(text, at)),
            }
        };
        let before = nat("deny src 10.0.0.3, allow all");
        // other numbers of elements and states
        let after = format!(
            "FromDevice(x) -> y :: IPRewriter(pattern 2.0.0.1 5 - - 0 0) -> Discard; {}",
            nat("deny src 10.0.0.9, deny src 10.0.0.3, allow all")
        );
        let mut kept = make(&before, Timestamp::ZERO);
        let mut old = make(&before, Timestamp::ZERO);
        let first = traffic(&mut *kept, 0, &[]);
        assert_eq!(first, traffic(&mut *old, 0, &[]));
        assert_eq!(first.len(), 59);
        let replies: Vec<Vec<u8>> = first.iter().map(|(_, p)| reply(p)).collect();

        let mut new = make(&after, ms(150));
        let taken = new.graph_mut().take_state(old.graph_mut());
        assert_eq!((taken.dropped, taken.lost.len()), (0, 0), "{taken:?}");
        let expected = traffic(&mut *kept, 200, &replies);
        let mut got = traffic(&mut *new, 200, &replies);
        // the flow that is denied now has a binding, whose reply still passes
        let denied = |p: &[u8]| {
            p[24..].starts_with(&[0]) || p.get(20..22) == Some(&1009u16.to_be_bytes()[..])
        };
        let own = |all: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
            let rest = all
                .iter()
                .filter(|(s, p)| s.contains("ToDevice") && !denied(p));
            rest.map(|(_, p)| (String::new(), p.clone())).collect()
        };
        assert_eq!(got.len() + 1, expected.len());
        got.retain(|_| true);
        let (got, expected) = (own(&got), own(&expected));
        let missing: Vec<_> = expected.iter().filter(|e| !got.contains(e)).collect();
        assert!(missing.len() <= 1, "{missing:?}");
        assert_eq!(new.graph_mut().read_handler("c.count").unwrap(), "117");
        let t = new.totals();
        assert!(t.balanced(), "{t:?}");
        assert_eq!((t.packets_in, t.dropped), (60 + 60 + 59, 1 + 2));
        // the rule that is in both lists has kept its counter, at its new place
        let rules = new.graph().find("rules").unwrap();
        let counts = new.graph_mut().rule_counters(rules).cloned().unwrap();
        let packets: Vec<u64> = counts.rules().iter().map(|c| c.packets).collect();
        assert_eq!(packets, [1, 2, 59 + 58]);
    }
}

/// What has changed begins anew, and it is said why; packets inside are dropped and counted.
#[test]
fn what_cannot_be_kept_is_told_and_accounted_for() {
    let text = |pool: &str, queue: &str| {
        format!(
            "FromDevice(a) -> CheckIPHeader -> [0] rw :: IPRewriter(pattern {pool} 1024-65535# - - 0 0)
               -> q :: Queue({queue}) -> Unqueue(ACTIVE false) -> ToDevice(b); FromDevice(b) -> g :: Discard;"
        )
    };
    let mut old = build(&text("1.0.0.1", "5"), Timestamp::ZERO);
    for i in 0..7 {
        let p = udp([10, 0, 0, i], [9, 9, 9, 9], (1, 2));
        arrive(&mut old, "a", &p, ms(i64::from(i)));
    }
    assert_eq!(old.totals().held, 5);
    let mut same = build(&text("1.0.0.1", "5"), ms(10));
    let taken = same.take_state(&mut old);
    assert_eq!((taken.dropped, taken.lost.len()), (0, 0), "{taken:?}");
    assert_eq!((same.totals().held, same.totals().dropped), (5, 2));

    let mut other = build(&text("1.0.0.2", "6"), ms(20));
    let taken = other.take_state(&mut same);
    assert_eq!(taken.dropped, 5);
    let lost: Vec<&str> = taken.lost.iter().map(|b| b.element.as_str()).collect();
    assert_eq!(lost, ["rw", "q"]);
    assert!(taken.lost.iter().all(|b| b.why.contains("configuration")));
    let t = other.totals();
    assert!(t.balanced() && t.held == 0 && t.dropped == 7, "{t:?}");

    let mut gone = build("FromDevice(a) -> Discard;", ms(30));
    let taken = gone.take_state(&mut other);
    let dropped: u64 = taken.gone.iter().map(|d| d.packets).sum();
    assert_eq!(dropped, 7, "{taken:?}");
    assert!(gone.totals().balanced());
    assert_eq!(gone.drops().iter().map(|d| d.packets).sum::<u64>(), 0);
}

/// Timers go on: a sweep that was due does not begin anew, and what it would have done happens.
#[test]
fn timers_and_handlers_values_go_on() {
    let text = "FromDevice(a) -> s :: Switch(0); s[0] -> c :: Counter -> Discard; s[1] -> d :: Counter -> Discard;
        t :: TimedSource(INTERVAL 1, LIMIT 3) -> e :: Counter -> Discard;
        FromDevice(b) -> q :: Queue(3) -> Unqueue -> Discard;";
    let mut old = build(text, Timestamp::ZERO);
    old.advance_to(ms(1500));
    assert_eq!(old.read_handler("e.count").unwrap(), "1");
    let mut new = build(text, ms(1900));
    new.take_state(&mut old);
    new.advance_to(ms(2100));
    assert_eq!(
        new.read_handler("e.count").unwrap(),
        "2",
        "not a second later"
    );
    // what a handler has set goes on, and so does an argument that stays what the file says
    new.write_handler("s.switch", "1").unwrap();
    new.write_handler("q.capacity", "7").unwrap();
    let again = build(text, ms(2200));
    let program = onefold_synth::synthesize(&again.synthesis_input(), Default::default());
    let mut runner = ProgramRunner::with_program(again, &program).expect("a program");
    assert!(!runner.needs_synthesis());
    runner.graph_mut().take_state(&mut new);
    assert!(runner.needs_synthesis(), "the program is that of the file");
    arrive(&mut runner, "a", &[0; 60], ms(2300));
    let graph = runner.graph_mut();
    assert_eq!(graph.read_handler("c.count").unwrap(), "0");
    assert_eq!(graph.read_handler("d.count").unwrap(), "1");
    assert_eq!(
        graph.read_handler("q.capacity").unwrap(),
        "3",
        "the file holds again"
    );
}

/// Monitors whose records hints of a flow table are about are replaced, or go on under another number: what has been
/// found before is not counted on.
#[test]
fn monitors_are_replaced_under_flows_that_are_known() {
    let text = |first: &str, flows: usize| {
        format!(
            "{first} FromDevice(a) -> CheckIPHeader -> kept :: FlowMonitor(CAPACITY 20)
               -> other :: FlowMonitor(CAPACITY {flows}) -> ToDevice(b);"
        )
    };
    let texts = [
        text("", 50),
        text("FromDevice(x) -> FlowMonitor -> Discard;", 9),
        text("", 30),
    ];
    let mut all: [Box<dyn Executor>; 2] = [
        Box::new(build(&texts[0], Timestamp::ZERO)),
        Box::new(fast(build(&texts[0], Timestamp::ZERO))),
    ];
    for (k, text) in texts.iter().enumerate() {
        let at = ms(k as i64 * 1000);
        if k > 0 {
            let mut new: [Box<dyn Executor>; 2] =
                [Box::new(build(text, at)), Box::new(fast(build(text, at)))];
            for (new, old) in new.iter_mut().zip(&mut all) {
                new.graph_mut().take_state(old.graph_mut());
            }
            all = new;
        }
        for i in 0..200u8 {
            let p = udp([10, 0, 0, i % 17 * (1 + k as u8)], [9, 9, 9, 9], (1, 2));
            for e in &mut all {
                arrive(&mut **e, "a", &p, at + ms(i.into()));
            }
        }
        let [want, got] = &mut all;
        assert_eq!(left(&mut **want), left(&mut **got));
        for handler in ["kept.flows", "other.flows", "other.evicted"] {
            assert_eq!(
                want.graph_mut().read_handler(handler).unwrap(),
                got.graph_mut().read_handler(handler).unwrap(),
                "{handler}"
            );
        }
    }
}

/// What people have said of servers holds for those that are in the new list, too, wherever they are there.
#[test]
fn who_is_down_stays_down_where_the_list_of_servers_changes() {
    let mapper = "m :: RoundRobinIPMapper(LIST);
        FromDevice(a) -> CheckIPHeader -> [0] rw :: IPRewriter(m, drop) -> ToDevice(b);
        FromDevice(b) -> CheckIPHeader -> [1] rw; rw[1] -> ToDevice(a);";
    let text = |list: &str| mapper.replace("LIST", list);
    let before = "- - 5.0.0.1 - 0 1, - - 5.0.0.2 - 0 1";
    let after = "- - 5.0.0.4 - 0 1, - - 5.0.0.1 - 0 1, - - 5.0.0.2 - 0 1";
    let mut old = build(&text(before), ms(1));
    old.write_handler("m.down", "5.0.0.2").unwrap();
    let mut new = build(&text(after), ms(1));
    new.take_state(&mut old);
    assert_eq!(new.read_handler("m.down").unwrap(), "5.0.0.2\n");
    // and not for one that has gone
    let mut last = build(&text("- - 5.0.0.4 - 0 1, - - 5.0.0.1 - 0 1"), ms(1));
    last.take_state(&mut new);
    assert_eq!(last.read_handler("m.down").unwrap(), "");
}
