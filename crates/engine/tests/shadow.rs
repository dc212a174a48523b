//! Shadow mode: what is compared, what is not disturbed, and that classes may fall back at any time.

#[allow(dead_code)]
use crate::harness;

use harness::{Frame, Pair, Rng, build};
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_engine::shadow::{Options, Shadow, What};
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, Program, synthesize, text};

/// Bindings, random choices, packets that wait for timers, ICMP errors.
const CHAIN: &str = "
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> cl :: IPClassifier(tcp or udp, icmp type echo, -);
    cl[0] -> d :: DecIPTTL -> rw :: IPRewriter(pattern 192.0.2.7 1024-1100 - - 0 1, drop);
    d[1] -> ICMPError(10.0.0.254, timeexceeded) -> Discard;
    cl[1] -> p :: ICMPPingRewriter(pattern 192.0.2.7 - 0 1, drop);
    cl[2] -> s :: RandomSample(0.5) -> c :: Counter -> Queue(10) -> DelayUnqueue(0.01) -> Queue(10) -> Unqueue -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> ToDevice(out);
    rw[0] -> e; p[0] -> e;
    FromDevice(out) -> Strip(14) -> CheckIPHeader -> back :: IPClassifier(tcp or udp, icmp type echo-reply, -);
    back[0] -> [1] rw; back[1] -> [1] p; back[2] -> Discard;
    rw[1] -> f :: EtherEncap(0x0800, 3:3:3:3:3:3, 4:4:4:4:4:4) -> ToDevice(in); p[1] -> f;
";

fn made(g: &Graph) -> Program {
    synthesize(&g.synthesis_input(), Budget::default())
}

/// Frames at both devices: flows, answers to whatever may have been chosen, exceptions.
fn frame(rng: &mut Rng) -> (&'static str, Vec<u8>) {
    let mut f = Frame {
        proto: rng.of(&[6, 17, 17, 1, 89]),
        src: [10, 0, 0, rng.below(8) as u8],
        ports: (1000 + rng.below(20) as u16, rng.of(&[53, 80])),
        ttl: rng.of(&[64, 64, 64, 2, 1, 0]),
        ..Frame::default()
    };
    let out = rng.one_in(3);
    if out {
        f.src = [192, 0, 2, 1];
        f.dst = [192, 0, 2, 7];
        f.ports = (rng.of(&[53, 80]), 1024 + rng.below(77) as u16);
    }
    (if out { "out" } else { "in" }, f.bytes())
}

type Left = Vec<(u32, Vec<u8>, Timestamp)>;

fn left(list: Vec<(onefold_element::ElemId, Pkt)>) -> Left {
    let one = |(e, p): (onefold_element::ElemId, Pkt)| (e.0, p.data().to_vec(), p.anno.timestamp);
    list.into_iter().map(one).collect()
}

/// Runs packets, gives what left and the graph.
fn run(shadow: &mut Shadow, seed: u64, packets: u64) -> Left {
    let mut rng = Rng(seed);
    let mut all = Vec::new();
    for i in 0..packets {
        let (device, bytes) = frame(&mut rng);
        let source = shadow.graph().source(device).unwrap();
        shadow.inject(
            source,
            &bytes,
            Timestamp(1_000_000_000 + i as i64 * 300_000),
        );
        all.extend(left(shadow.runner_mut().graph_mut().take_transmitted()));
    }
    shadow.end_window();
    all
}

fn shadow(g: &Graph, p: &Program, rate: f64) -> Shadow {
    let mut s = Shadow::new(ProgramRunner::with_program(g.fork(), p).unwrap());
    let options = Options {
        rate,
        window: 64,
        ..Options::default()
    };
    s.watch(p, options);
    s
}

#[test]
fn what_is_compared_is_not_disturbed() {
    let g = build(CHAIN);
    let p = made(&g);
    let mut plain = Shadow::new(ProgramRunner::with_program(g.fork(), &p).unwrap());
    let want = run(&mut plain, 7, 6000);
    assert!(want.len() > 1000, "{}", want.len());
    for rate in [0.05, 1.0] {
        let mut s = shadow(&g, &p, rate);
        let got = run(&mut s, 7, 6000);
        assert_eq!(want, got);
        let r = s.report();
        assert_eq!(r.mismatches, 0, "{:?}", r.kept);
        assert!(r.windows > 1 && r.states > 0, "{r:?}");
        assert!(rate < 1.0 || r.states == r.windows, "{r:?}");
        match rate < 1.0 {
            true => assert!((100..2000).contains(&r.compared), "{r:?}"),
            false => assert_eq!(r.compared, 6000),
        }
        assert_eq!(plain.graph().drops(), s.graph().drops());
        assert_eq!(plain.graph().totals(), s.graph().totals());
        let told = s.runner_mut().graph_mut().read_handler("shadow").unwrap();
        assert!(told.contains("0 differences"), "{told}");
        let state = |s: &mut Shadow| s.runner_mut().graph_mut().state_summary();
        assert_eq!(state(&mut plain), state(&mut s));
    }
}

#[test]
fn a_share_of_the_packets_is_compared() {
    let g = build(CHAIN);
    let p = made(&g);
    let mut s = shadow(&g, &p, 0.1);
    run(&mut s, 3, 40_000);
    let r = s.report();
    let share = r.compared as f64 / 40_000.0;
    assert!((0.05..0.2).contains(&share), "{share} {r:?}");
    assert!(r.seen > 5, "{r:?}");
    let mut off = shadow(&g, &p, 0.0);
    run(&mut off, 3, 1000);
    assert_eq!(off.report().windows, 0);
}

#[test]
fn only_what_leads_to_doubt_is_watched() {
    let g = build(CHAIN);
    let p = made(&g);
    let all = shadow(&g, &p, 1.0).report().watched;
    let watched = |class: (usize, usize)| {
        let mut s = Shadow::new(ProgramRunner::with_program(g.fork(), &p).unwrap());
        let options = Options {
            rate: 1.0,
            classes: Some([class].into()),
            ..Options::default()
        };
        s.watch(&p, options);
        s.report().watched
    };
    // a class of an entry alone
    assert_eq!(watched((0, 0)), 1);
    // one behind others
    let behind = p.stages.len() - 1;
    let n = watched((behind, 0));
    assert!(n > 0 && n < all, "{n} of {all}");
}

#[test]
fn any_class_may_fall_back() {
    let g = build(CHAIN);
    let p = made(&g);
    let classes: Vec<(usize, usize)> = (p.stages.iter().enumerate())
        .flat_map(|(s, stage)| (0..stage.actions.len()).map(move |a| (s, a)))
        .collect();
    let mut rng = Rng(99);
    for round in 0..classes.len() as u64 + 20 {
        let mut pair = Pair::with(g.fork(), &p);
        pair.annotations = false;
        let mut fallen = 0;
        for i in 0..300u64 {
            let class = match classes.get(round as usize) {
                // each alone
                Some(c) if i == 100 => Some(*c),
                Some(_) => None,
                // and many, at any time
                None => rng.one_in(10).then(|| rng.of(&classes)),
            };
            if let Some((s, a)) = class {
                fallen += u32::from(pair.program.fall_back(s, a));
            }
            let (device, bytes) = frame(&mut rng);
            pair.packet(device, &bytes, 300_000);
        }
        pair.finish();
        assert!(fallen > 0);
    }
}

#[test]
fn what_fell_back_stays_when_the_program_is_made_anew() {
    let g = build(CHAIN);
    let p = made(&g);
    let mut r = ProgramRunner::with_program(g, &p).unwrap();
    let n = p.stages[0].actions.len();
    assert!((0..n).all(|a| r.fall_back(0, a)));
    assert!(!r.fall_back(0, 0), "it has already");
    assert!(!r.fall_back(10_000, 0) && !r.fall_back(0, 1 << 20));
    r.load(&p).unwrap();
    assert!(!r.fall_back(0, 0), "still");
    let source = r.graph().source("in").unwrap();
    r.inject(source, &Frame::default().bytes(), Timestamp(1));
    let report = r.report();
    assert_eq!(report.punted(), 1, "{:?}", report.punts);
}

/// What differs in a state alone is seen at the end of the window, and the packet is found.
#[test]
fn a_lost_count_is_found() {
    let g = build(
        "FromDevice(in) -> cl :: Classifier(12/0800, -); cl[0] -> c :: Counter -> ToDevice(out); cl[1] -> Discard;",
    );
    let right = text::print(&made(&g));
    let counter = g.find("c").unwrap().0;
    let wrong: String = (right.lines())
        .filter(|l| !l.contains(&format!("count e{counter} ")))
        .flat_map(|l| [l, "\n"])
        .collect();
    assert_ne!(right, wrong);
    let p = text::parse(&wrong).unwrap();
    let mut s = shadow(&g, &p, 1.0);
    let source = g.source("in").unwrap();
    let other = [vec![2; 12], vec![0x86, 0xdd], vec![0; 46]].concat();
    for i in 0..100 {
        let ip = Frame::default().bytes();
        let f = if i < 37 || i % 2 == 0 { &other } else { &ip };
        s.inject(source, f, Timestamp(i));
    }
    s.end_window();
    let r = s.report();
    let [m] = &r.kept[..] else {
        panic!("{r:?}");
    };
    assert_eq!(
        (m.what, m.number, m.located),
        (What::State, 38, true),
        "{m:?}"
    );
    assert!(m.place.starts_with("c."), "{m:?}");
    assert_eq!(m.fallen.len(), 1);
    // from then on the reference graph counts
    let before = s.runner_mut().graph_mut().read_handler("c.count").unwrap();
    s.inject(source, &Frame::default().bytes(), Timestamp(1000));
    let after = s.runner_mut().graph_mut().read_handler("c.count").unwrap();
    assert_eq!((before.as_str(), after.as_str()), ("0", "1"));
}

/// Windows end when they have their packets, or their bytes.
#[test]
fn windows_are_bounded() {
    let g = build("FromDevice(in) -> c :: Counter -> ToDevice(out);");
    let p = made(&g);
    let source = g.source("in").unwrap();
    let compared = |rate: f64, packets: i64, bytes: usize| {
        let mut s = Shadow::new(ProgramRunner::with_program(g.fork(), &p).unwrap());
        let options = Options {
            rate,
            ..Options::default()
        };
        s.watch(&p, options);
        for i in 0..packets {
            s.inject(source, &vec![2; bytes], Timestamp(1_000_000_000 + i));
            left(s.runner_mut().graph_mut().take_transmitted());
        }
        s.end_window();
        let r = s.report();
        assert_eq!(r.mismatches, 0, "{r:?}");
        (r.windows, r.compared)
    };
    // all packets: 4096 each
    assert_eq!(compared(1.0, 2 * 4096 + 1, 60), (3, 2 * 4096 + 1));
    // 8 MiB of frames: 140 of 60,000 bytes
    assert_eq!(compared(1.0, 300, 60_000), (3, 300));
    // next to none: one for the first of four packets of a class, and those that the rate pays for, 512 each
    let (windows, all) = compared(0.0001, 40_000, 60);
    assert!((1..=3).contains(&windows), "{windows}");
    assert!(all <= windows * 512, "{windows} {all}");
}

/// However many classes are in doubt: windows for their first packets are few, unless the rate pays for them.
#[test]
fn first_packets_of_many_classes_do_not_cost_more() {
    let rules: Vec<String> = (0..200).map(|i| format!("12/{:04x}", 0x1000 + i)).collect();
    let to: Vec<String> = (0..200)
        .map(|i| format!("cl[{i}] -> c{i} :: Counter -> ToDevice(out{i});"))
        .collect();
    let g = build(&format!(
        "FromDevice(in) -> cl :: Classifier({}, -); cl[200] -> Discard; {}",
        rules.join(", "),
        to.join(" ")
    ));
    let p = made(&g);
    let source = g.source("in").unwrap();
    let mut s = Shadow::new(ProgramRunner::with_program(g.fork(), &p).unwrap());
    let options = Options {
        rate: 0.0001,
        ..Options::default()
    };
    s.watch(&p, options);
    let n = 100_000;
    for i in 0..n {
        // each class again and again, but far from each other
        let class = 0x1000 + (i / 500 % 200) as u16;
        let f = [vec![2; 12], class.to_be_bytes().to_vec(), vec![0; 46]].concat();
        s.inject(source, &f, Timestamp(1_000_000_000 + i));
        left(s.runner_mut().graph_mut().take_transmitted());
    }
    s.end_window();
    let r = s.report();
    // sixteen are free, and twice the rate: 20 packets, one window
    assert!(r.windows > 10, "{r:?}");
    assert!(r.windows <= 16 + 2, "{r:?}");
    assert!(r.compared <= 18 * 512, "{r:?}");
}
