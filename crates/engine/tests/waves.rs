//! Packets that are known behind write-outs and behind elements that are asked, against the program alone: the same
//! packets, everything that can be seen compared.

#[allow(dead_code)]
use crate::harness;

#[allow(dead_code)]
use crate::both;

use both::{Both, Left};
use harness::{Frame, Rng};
use onefold_engine::Level;
use onefold_packet::{Pkt, Timestamp};

const UDP: Frame = Frame {
    dst_mac: [2, 0, 0, 0, 0, 2],
    src_mac: [2, 0, 0, 0, 0, 1],
    src: [10, 0, 0, 1],
    dst: [8, 8, 8, 8],
    proto: 17,
    ttl: 64,
    ports: (5000, 53),
    flags: 0,
    payload: 12,
};

/// A trunk, a monitor that sees all flows in order, a firewall, payload inspection with three ways out, a translator.
const CHAIN: &str = "
    d :: DecIPTTL; toTrunk :: ToDevice(trunk); toOut :: ToDevice(out); alerts :: ToDevice(alerts);
    FromDevice(trunk) -> t :: Classifier(12/8100 14/002a%0fff, -);
    t [1] -> Discard;
    t [0] -> VLANDecap -> up :: FlowMonitor(CAPACITY 40) -> c :: Classifier(12/0800, -);
    c [1] -> back :: Counter -> VLANEncap(VLAN_ID 42, VLAN_PCP 3) -> toTrunk;
    c [0] -> Strip(14) -> CheckIPHeader -> fw :: IPFilter(deny dst port 99, allow all)
      -> m :: PayloadMatcher(deny string EVIL, 1 string LOOK, 2 string SOON);
    m [1] -> Unstrip(14) -> alerts;
    m [2] -> Paint(7) -> late :: Counter -> d;
    m [0] -> d -> [0] rw :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, drop,
      CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3, REAP_INTERVAL 1);
    d [1] -> Discard;
    rw [0] -> p :: CheckPaint(7);
    p [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> toOut;
    p [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> toOut;
    FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
    rw [1] -> n :: PayloadMatcher(deny string EVIL, 1 string LOOK) -> down :: FlowMonitor(CAPACITY 40)
      -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:c) -> VLANEncap(VLAN_ID 42) -> toTrunk;
    n [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:d) -> alerts;";

/// These bytes are a frame's last ones, and its checksums say so.
fn with_payload(mut f: Vec<u8>, text: &[u8]) -> Vec<u8> {
    let from = f.len() - text.len();
    f[from..].copy_from_slice(text);
    // none for UDP, and nobody looks at TCP's
    if f[23] == 17 {
        f[40..42].fill(0);
    }
    f
}

fn tagged(f: &[u8], id: u8) -> Vec<u8> {
    let mut t = f[..12].to_vec();
    t.extend([0x81, 0, 0x60, id]);
    t.extend(&f[12..]);
    t
}

fn frame(r: &mut Rng, hosts: u64) -> Vec<u8> {
    let host = r.below(hosts) as u8;
    let tcp = r.one_in(3);
    let f = Frame {
        src: [10, 0, 0, host],
        proto: if tcp { 6 } else { 17 },
        ttl: r.of(&[64, 64, 64, 64, 64, 2, 1]),
        ports: (1000 + u16::from(host), r.of(&[53, 53, 53, 53, 99])),
        flags: r.of(&[0x10, 0x10, 0x10, 0x18, 0x02, 0x11, 0x04]),
        payload: r.of(&[4, 8, 8, 8, 40]),
        ..UDP
    };
    let text: &[u8] = r.of(&[
        b"good", b"good", b"good", b"good", b"good", b"EVIL", b"LOOK", b"SOON",
    ]);
    let mut f = with_payload(f.bytes(), text);
    match r.below(40) {
        // options, which the program hands over
        0 => f[14] = 0x46,
        // no IP
        1 => f[13] = 6,
        _ => {}
    }
    f
}

fn on_trunk(r: &mut Rng, hosts: u64) -> Vec<u8> {
    let id = if r.one_in(20) { 43 } else { 42 };
    tagged(&frame(r, hosts), id)
}

/// The answer: addresses and ports exchanged.
fn answer(mut f: Vec<u8>) -> Vec<u8> {
    for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
        for i in 0..n {
            f.swap(x + i, y + i);
        }
    }
    f
}

/// Packets both ways, in batches of all sizes.
fn run(mut b: Both, hosts: u64, rounds: usize, seed: u64) -> Both {
    let mut r = Rng(seed);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    let out = b.program.graph().sinks("out");
    for round in 0..rounds {
        let ns = r.of(&[0, 67, 1_000, 1_000_000, 1_000_000, 900_000_000]);
        let n = r.below(90) as usize + 1;
        if r.one_in(3) && !replies.is_empty() {
            let some: Vec<_> = (0..n)
                .map(|_| replies[r.below(replies.len() as u64) as usize].clone())
                .collect();
            b.batch("out", &some, ns);
        } else {
            let some: Vec<_> = (0..n).map(|_| on_trunk(&mut r, hosts)).collect();
            for (e, f, _) in b.batch("trunk", &some, ns) {
                if replies.len() < 200 && out.contains(&e) && f[12] == 8 && f.len() > 40 {
                    replies.push(answer(f));
                }
            }
        }
        if round % 40 == 39 {
            b.compare();
        }
    }
    b.compare();
    assert_eq!(b.flow.stats().refused, 0, "{:?}", b.flow.causes());
    b
}

/// A tag is taken off, three elements are asked, a translator is passed, and back: entries at every place, and order,
/// counts and states as if packets had gone one by one. Flows are few, so that most packets are known all their way.
#[test]
fn packets_are_known_behind_tags_and_asked_elements() {
    let b = run(Both::new(CHAIN, 4096), 12, 300, 0x1357_9bdf_2468_ace1);
    let s = b.flow.stats();
    assert!(s.hits > 6 * s.misses, "{s:?} {:?}", b.flow.causes());
    assert!(s.resumed < s.hits / 4, "{s:?} {:?}", b.flow.causes());
    assert!(s.composed > s.hits / 2, "{s:?} {:?}", b.flow.not_composed());
}

/// The chain with rules on headers and payloads in place of the matchers: all its elements look at packets where they
/// are.
fn inspecting() -> String {
    let rules = "PayloadFilter(alert NAME soon LITERAL SOON, drop FILTER \"src host 10.0.0.3\" LITERAL EVIL, \
                 drop FILTER \"dst port 99 and src host 10.0.0.4\" SIZE 9-, alert FILTER \"dst host 10.0.0.5\")";
    (CHAIN)
        .replace(
            "PayloadMatcher(deny string EVIL, 1 string LOOK, 2 string SOON)",
            rules,
        )
        .replace("VLANDecap -> up", "VLANDecap -> MarkIPHeader(14) -> up")
        .replace("m [2] -> Paint(7) -> late :: Counter -> d;", "")
        .replace("PayloadMatcher(deny string EVIL, 1 string LOOK)", rules)
}

/// A tag taken off and a translator's rewriting are undone for packets that an element wants to be given.
#[test]
fn packets_that_elements_want_after_all_are_what_they_were() {
    for seed in [3, 0x2468_1357, 0xdead_0001] {
        let b = run(Both::new(&inspecting(), 4096), 12, 300, seed);
        let s = b.flow.stats();
        assert!(s.in_place > s.hits / 3, "{s:?} {:?}", b.flow.not_composed());
        let g = b.program.graph();
        assert!(
            g.drops()
                .iter()
                .any(|d| d.reason.contains("dropped by a rule"))
        );
    }
}

/// Copies of packets that an element wants are flows of their own at the translator, which has room for few: a packet
/// behind one of them may have lost its binding, or another flow may have it, since the packet was looked up.
#[test]
fn copies_of_packets_that_an_element_wants_are_flows_of_their_own() {
    let chain = inspecting().replace(
        "m [1] -> Unstrip(14) -> alerts;",
        "m [1] -> StoreIPAddress(10.9.9.9, 12) -> SetIPChecksum -> late :: Counter -> d;",
    );
    for seed in 0..4 {
        for flows in [16, 64, 4096] {
            let b = run(Both::new(&chain, flows), 25, 120, seed + 77);
            let s = b.flow.stats();
            assert!(s.in_place > 100 && s.resumed > 100, "{s:?}");
        }
    }
}

/// More flows than monitors and translator hold: who has to make room depends on the order of all packets before.
/// Entries of flows that were evicted or timed out, behind two asked elements, end.
#[test]
fn who_makes_room_behind_asked_elements_is_the_oldest() {
    for (seed, flows) in [(0x0bad_cafe, 4096), (0x5eed, 64)] {
        let b = run(Both::new(CHAIN, flows), 100, 200, seed);
        let s = b.flow.stats();
        assert!(s.hits > 0 && s.ended > 10 && s.resumed > 100, "{s:?}");
    }
}

/// The same packets with levels that change, as costs may have it.
#[test]
fn levels_change_under_way() {
    let mut b = Both::new(CHAIN, 1024);
    b.flow = onefold_engine::flow::FlowRunner::seeded(b.program.fork(), 1024, 7);
    let b = run(b, 12, 300, 0xfeed_0123);
    assert!(b.flow.levels()[Level::Flow as usize] > 0);
}

/// Packets of one flow that the matcher drops, lets pass, or sends elsewhere: each goes where its own payload sends it.
#[test]
fn packets_of_one_flow_go_where_their_payloads_send_them() {
    let mut b = Both::new(CHAIN, 1024);
    let one = |text: &[u8]| tagged(&with_payload(UDP.bytes(), text), 42);
    let some = ["good", "EVIL", "LOOK", "good", "SOON", "LOOK", "good"].map(|t| one(t.as_bytes()));
    for round in 0..6 {
        let left = b.batch("trunk", &some, 1000);
        let alert = b.program.graph().sinks("alerts");
        let where_to: Vec<bool> = left.iter().map(|(e, ..)| alert.contains(e)).collect();
        assert_eq!(where_to, [false, true, false, false, true, false]);
        if round == 5 {
            let s = b.flow.stats();
            // the binding of a UDP flow stands still from its second packet on, which is seen by the first ones
            assert!(
                s.resumed < 12 && s.hits >= 35,
                "{s:?} {:?}",
                b.flow.causes()
            );
        }
    }
    let matcher = "m.matches";
    let g = b.flow.graph_mut();
    assert_eq!(g.read_handler(matcher).unwrap(), "24");
    b.compare();
}

/// Packets that leave at once, behind one asked element, behind two, behind a write-out, by way of the reference
/// graph, and copies that follow from one packet: in order.
#[test]
fn what_leaves_is_in_the_order_of_what_came() {
    let chain = "
        FromDevice(in) -> Strip(14) -> CheckIPHeader
          -> k :: IPClassifier(src port 1, src port 2, src port 3, src port 4, src port 5, -);
        all :: Counter -> ToDevice(out);
        k [0] -> all; k [5] -> all;
        k [1] -> a :: PayloadMatcher(1 string LOOK, BASE packet); a [0] -> all; a [1] -> all;
        k [2] -> FlowMonitor -> PayloadMatcher(deny string EVIL, BASE packet) -> all;
        k [3] -> b :: Tee(3); b [0] -> all; b [1] -> all; b [2] -> all;
        k [4] -> f :: IPFragmenter(40); f [0] -> all; f [1] -> all;";
    let mut b = Both::new(chain, 1024);
    let mut r = Rng(99);
    let mut left = 0;
    for _ in 0..120 {
        let n = r.below(80) as usize + 1;
        let some: Vec<_> = (0..n)
            .map(|i| {
                let f = Frame {
                    ports: (r.of(&[1, 1, 2, 2, 3, 3, 3, 4, 5, 6]), i as u16 % 7),
                    payload: 48,
                    ..UDP
                };
                with_payload(f.bytes(), r.of(&[b"good", b"LOOK", b"EVIL"]))
            })
            .collect();
        left += b.batch("in", &some, 1000).len();
    }
    b.compare();
    let s = b.flow.stats();
    assert!(
        left > 5000 && s.hits > 2500,
        "{left} {s:?} {:?}",
        b.flow.causes()
    );
    assert_eq!(s.refused, 0);
}

/// Each packet of a batch at its own time: what is asked sees that time.
#[test]
fn asked_elements_see_the_time_of_each_packet() {
    let mut b = Both::new(CHAIN, 1024);
    let mut r = Rng(0x717e);
    let source = b.program.graph().source("trunk").unwrap();
    let mut now = 1_000_000_000;
    for round in 0..150 {
        let mut batches: [Vec<Pkt>; 2] = Default::default();
        for _ in 0..r.below(60) + 1 {
            now += r.of(&[0, 0, 0, 0, 0, 1, 700, 400_000]);
            let f = on_trunk(&mut r, 12);
            batches[0].push(b.program.graph_mut().make_packet(&f));
            batches[1].push(b.flow.make_packet(&f));
            for batch in &mut batches {
                batch.last_mut().unwrap().anno.timestamp = Timestamp(now);
            }
        }
        b.program.inject_stamped(source, &mut batches[0]);
        b.flow.inject_stamped(source, &mut batches[1]);
        let (mut want, mut got) = (Left::new(), Left::new());
        (b.program.graph_mut())
            .drain_transmitted(|e, p| want.push((e, p.data().to_vec(), p.anno.timestamp)));
        b.flow
            .drain_transmitted(|e, p| got.push((e, p.data().to_vec(), p.anno.timestamp)));
        assert_eq!(want, got);
        if round % 30 == 29 {
            // first and last times of flows among it
            b.compare();
        }
    }
    let s = b.flow.stats();
    assert!(
        s.hits > 2000 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
}

/// A handler that is written to ends what is known behind asked elements, too, if it touches more than counters.
#[test]
fn handlers_end_what_is_known_behind_asked_elements() {
    let mut b = Both::new(CHAIN, 1024);
    let one = |text: &[u8]| tagged(&with_payload(UDP.bytes(), text), 42);
    let some = ["good", "LOOK", "good", "SOON"].map(|t| one(t.as_bytes()));
    // counters alone end nothing
    for (handler, ends) in [
        ("m.reset_counts", false),
        ("rw.clear", true),
        ("late.reset_counts", false),
        ("up.reset", true),
    ] {
        for _ in 0..5 {
            b.batch("trunk", &some, 1000);
        }
        let before = b.flow.stats();
        assert!(before.entries > 0, "{before:?} {:?}", b.flow.causes());
        for g in [b.program.graph_mut(), b.flow.graph_mut()] {
            g.write_handler(handler, "").unwrap();
        }
        b.batch("trunk", &some[..1], 1000);
        let s = b.flow.stats();
        let cleared = s.cleared - before.cleared;
        assert_eq!(
            (cleared, s.hits - before.hits),
            match ends {
                true => (1, 0),
                false => (0, 1),
            },
            "{handler}"
        );
        b.compare();
    }
}

/// A binding behind an asked element that has timed out: the entry behind it ends, the one in front of it does not.
#[test]
fn entries_behind_asked_elements_expire_alone() {
    let mut b = Both::new(CHAIN, 1024);
    let one = tagged(&with_payload(UDP.bytes(), b"good"), 42);
    for _ in 0..6 {
        b.batch("trunk", &[one.clone(), one.clone()], 1_000_000);
    }
    let before = b.flow.stats();
    assert!(before.resumed > 0 && before.hits >= 8, "{before:?}");
    // longer than the translator's time-out
    b.batch("trunk", std::slice::from_ref(&one), 10_000_000_000);
    let s = b.flow.stats();
    assert_eq!(
        (s.hits, s.resumed),
        (before.hits + 1, before.resumed + 1),
        "{s:?}"
    );
    b.compare();
}

/// A translator behind a matcher that is behind another input of the same translator. Packets that come later must not
/// be translated before those in front of them have been translated a second time: each goes all its way alone.
const TWICE: &str = "
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> [0] rw :: IPRewriter(
      pattern 203.0.113.1 1024-1063# - - 0 2, pattern 203.0.113.2 1024-1063# - - 1 2, CAPACITY 30);
    rw [0] -> PayloadMatcher(deny string EVIL) -> [1] rw;
    rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    rw [2] -> Discard;";

/// Who has to make room for whom depends on the order in which packets come to the translator, both times.
#[test]
fn what_must_be_met_in_order_goes_on_alone() {
    for flows in [1024, 16] {
        let mut b = Both::new(TWICE, flows);
        let mut r = Rng(3);
        for _ in 0..200 {
            let few = r.of(&[8, 60]);
            let some: Vec<_> = (0..30).map(|_| frame(&mut r, few)).collect();
            b.batch("in", &some, 1_000_000);
        }
        b.compare();
        let s = b.flow.stats();
        assert!(
            s.hits > 500 && s.refused == 0,
            "{s:?} {:?}",
            b.flow.causes()
        );
    }
}

/// Packets of a hairpin: they come to the monitor that all others pass, and to the matcher, a second time.
#[test]
fn what_turns_back_goes_on_alone() {
    let chain = "
        FromDevice(in) -> m :: FlowMonitor(CAPACITY 20) -> Strip(14) -> CheckIPHeader
          -> p :: PayloadMatcher(deny string EVIL) -> c :: CheckPaint(1);
        c [1] -> k :: IPClassifier(dst net 10.0.0.0/8, -);
        k [0] -> Paint(1) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> m;
        k [1] -> out :: Counter -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(out);
        c [0] -> out;";
    let mut b = Both::new(chain, 1024);
    let mut r = Rng(5);
    for _ in 0..200 {
        let some: Vec<_> = (0..r.below(60) + 1)
            .map(|_| {
                let f = Frame {
                    dst: r.of(&[[10, 0, 0, 9], [8, 8, 8, 8], [8, 8, 4, 4]]),
                    ports: (r.of(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 53),
                    payload: 48,
                    ..UDP
                };
                with_payload(f.bytes(), r.of(&[b"good", b"fine", b"EVIL"]))
            })
            .collect();
        b.batch("in", &some, 1_000_000);
    }
    b.compare();
    let s = b.flow.stats();
    assert!(
        s.hits > 1000 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
    assert!(s.composed > 1000, "{s:?} {:?}", b.flow.not_composed());
}

/// Where handlers may be called under way nothing goes on: a script in the graph is enough.
#[test]
fn where_handlers_are_called_nothing_goes_on() {
    let script = CHAIN.to_string() + "Script(TYPE PASSIVE, return 1);";
    let mut b = Both::new(&script, 1024);
    let mut r = Rng(3);
    for _ in 0..60 {
        let some: Vec<_> = (0..30).map(|_| on_trunk(&mut r, 60)).collect();
        b.batch("trunk", &some, 1_000_000);
    }
    b.compare();
    let (s, causes) = (b.flow.stats(), b.flow.causes());
    let why = "handlers may be called under way";
    assert!(causes.iter().any(|c| c.0 == why), "{s:?} {causes:?}");
    assert_eq!((s.resumed, s.composed), (0, 0), "{s:?}");
}

#[test]
fn with_fewer_instructions() {
    both::with_fewer_instructions(module_path!());
}
