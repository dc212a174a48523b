//! Whole small functions, synthesized, against the reference.

use crate::harness::{Frame, Pair, Rng, build};
use onefold_synth::program::{Next, Step};

/// Random packets at all devices, one at a time, and others in batches.
fn check(text: &str, devices: &[&str], packets: usize) -> Pair {
    let mut pair = Pair::synthesized(build(text));
    let mut r = Rng(0x1234_5678_9abc_def1);
    for _ in 0..packets {
        let device = r.of(devices);
        let data = Frame::random(&mut r);
        let gap = r.of(&[1_000, 1_000_000, 40_000_000_000]);
        pair.packet(device, &data, gap);
    }
    pair.finish();
    batches(text, devices, packets);
    pair
}

/// The same in batches.
fn batches(text: &str, devices: &[&str], packets: usize) -> Pair {
    let mut pair = Pair::synthesized(build(text));
    let mut r = Rng(0x9abc_def1_1234_5678);
    let mut left = packets;
    while left > 0 {
        let device = r.of(devices);
        let gap = r.of(&[1_000, 1_000_000, 40_000_000_000]);
        let n = r.of(&[1, 2, 17, 40, 300]).min(left);
        left -= n;
        let data: Vec<_> = (0..n).map(|_| Frame::random(&mut r)).collect();
        pair.batch(device, &data, gap);
    }
    pair.finish();
    pair
}

/// Classes that only count, change and leave, among others: each packet of a batch gets what it would have got alone.
#[test]
fn batches_through_firewall_and_routers() {
    let p = batches(
        "FromDevice(a) -> c :: Classifier(12/0800, -);
         c [1] -> Discard;
         c [0] -> Strip(14) -> CheckIPHeader -> all :: Counter
           -> f :: IPFilter(deny dst port 80, deny src 10.0.0.2 && udp, allow all) -> let :: Counter
           -> rt :: StaticIPLookup(10.0.0.0/8 0, 192.0.2.0/24 1, 0.0.0.0/0 2);
         rt [0] -> d0 :: DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(b);
         rt [1] -> n :: Counter -> DecIPTTL -> DecIPTTL -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(b);
         rt [2] -> SetIPDSCP(3) -> DecIPTTL -> Unstrip(14) -> m :: Counter -> ToDevice(c);",
        &["a"],
        6000,
    );
    let share = p.punted() as f64 / 6000.0;
    assert!(share < 0.2, "{:?}", p.program.report().punts);
}

#[test]
fn router() {
    let p = check(
        "FromDevice(a) -> c :: Classifier(12/0800, -);
         c [1] -> Discard;
         c [0] -> Strip(14) -> ch :: CheckIPHeader -> rt :: StaticIPLookup(10.0.0.0/8 0, 192.0.2.0/24 1, 8.8.0.0/16 10.9.9.9 2);
         rt [0] -> d0 :: DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(b);
         rt [1] -> n :: Counter -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(b);
         rt [2] -> Paint(3) -> ToDevice(c);",
        &["a"],
        4000,
    );
    let share = p.punted() as f64 / 4000.0;
    assert!(share < 0.2, "{:?}", p.program.report().punts);
}

#[test]
fn rewriters_both_ways() {
    let p = check(
        "rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 1, drop);
         FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] rw;
         FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
         rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
         rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);",
        &["in", "in", "out"],
        4000,
    );
    assert!(p.program.report().punts.iter().all(|p| p.packets < 2000));
}

/// Floods: batches of nothing but new flows, whose headers are read sixteen at a time, with room for them and in a full table; and such with a packet now and then that is too
/// short, known, of a third kind, or about to run out of time to live.
#[test]
fn floods() {
    for capacity in [100_000, 300] {
        let text = format!(
            "rw :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, drop, MAPPING_CAPACITY {capacity}, UDP_GUARANTEE 0, TCP_GUARANTEE 0);
             Idle -> [1] rw; rw [1] -> Discard;
             FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> IPFilter(deny dst port 99, allow all)
               -> d :: DecIPTTL -> u :: IPClassifier(tcp or udp, -) -> rw -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
             c [1] -> Discard; u [1] -> Discard; d [1] -> Discard;"
        );
        for odd in [0, 40] {
            let mut pair = Pair::synthesized(build(&text));
            let mut r = Rng(0x1357_9bdf_2468_ace0);
            for n in 0..60u32 {
                let frame = |i: u32| {
                    let known = odd > 0 && (i + r.of(&[0, 1, 5])) % odd == odd - 1;
                    let k = if known { i % 7 } else { n * 64 + i };
                    Frame {
                        src: [10, 1, (k >> 8) as u8, k as u8],
                        dst: [192, 0, 2, (k % 5) as u8],
                        proto: if k.is_multiple_of(3) { 17 } else { 6 },
                        ports: (2000 + (k % 900) as u16, 53),
                        ttl: if known && i.is_multiple_of(2) {
                            1
                        } else {
                            64 - (k % 30) as u8
                        },
                        flags: if k.is_multiple_of(11) { 0x04 } else { 0x02 },
                        payload: if known { 0 } else { 10 + (k % 4) as usize * 6 },
                        ..Frame::default()
                    }
                    .bytes()
                };
                let all: Vec<_> = (0..64).map(frame).collect();
                pair.batch("in", &all, 300_000);
            }
            pair.finish();
        }
    }
}

#[test]
fn two_functions_with_a_link() {
    check(
        "FromDevice(a) -> l1 :: Null -> NFLink -> Strip(14) -> CheckIPHeader -> IPFilter(allow dst port 53, allow src port 80, deny all)
           -> DecIPTTL -> Unstrip(14) -> NFLink -> Strip(14) -> CheckIPHeader -> i :: IPClassifier(udp, tcp, -);
         i [0] -> StoreIPAddress(1.2.3.4, src) -> ToDevice(b);
         i [1] -> t :: Tee; t [0] -> Paint(1) -> ToDevice(b); t [1] -> DecIPTTL -> ToDevice(c);
         i [2] -> SetIPDSCP(7) -> ToDevice(c);",
        &["a"],
        4000,
    );
}

/// Bytes written where no header is marked yet are known to be written when the header's checksum is asked about.
#[test]
fn written_before_it_is_marked() {
    for text in [
        "FromDevice(a) -> StoreData(22, \\<40>) -> Strip(14) -> CheckIPHeader -> ToDevice(b);",
        "FromDevice(a) -> StoreData(26, \\<0a>) -> MarkIPHeader(14) -> DecIPTTL -> Strip(14) -> CheckIPHeader -> ToDevice(b);",
        "FromDevice(a) -> Strip(14) -> MarkIPHeader -> SetIPChecksum -> NFLink -> StoreData(8, \\<07>) -> ToDevice(b);",
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> CheckUDPHeader -> StoreData(20, \\<0007>) -> CheckUDPHeader -> ToDevice(b);",
    ] {
        check(text, &["a"], 1500);
    }
}

/// A tag goes, and comes back, without anybody having marked a header before: nothing is punted.
#[test]
fn a_network_header_marked_alone() {
    let p = check(
        "FromDevice(a) -> VLANDecap -> Paint(2) -> NFLink -> Classifier(12/0800) -> VLANEncap(7) -> c :: Classifier(12/8100, -);
         c [0] -> ToDevice(b); c [1] -> ToDevice(c);
         FromDevice(c) -> VLANDecap -> VLANEncap(9) -> q :: RoundRobinSwitch; q [0] -> ToDevice(b);
         q [1] -> StripToNetworkHeader -> ToDevice(c);",
        &["a", "c"],
        2000,
    );
    assert_eq!(p.punted(), 0, "{:?}", p.program.report().punts);
}

#[test]
fn what_is_asked_and_what_keeps_packets() {
    check(
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> rs :: RoundRobinSwitch;
         rs [0] -> DecIPTTL -> s :: StringClassifier(abc, ABC);
         s [0] -> ToDevice(b); s [1] -> ToDevice(c);
         rs [1] -> Queue(3) -> u :: RatedUnqueue(5) -> DecIPTTL -> ToDevice(b);
         rs [2] -> RandomSample(0.5) -> DecIPTTL -> ToDevice(c);",
        &["a"],
        2000,
    );
}

#[test]
fn a_handler_that_changes_a_model_sends_packets_to_the_reference_until_a_new_program_comes() {
    let text = "FromDevice(a) -> s :: Switch(0); s [0] -> n :: Counter -> ToDevice(b); s [1] -> ToDevice(c);";
    let mut p = Pair::synthesized(build(text));
    let data = Frame::default().bytes();
    p.packet("a", &data, 1000);
    for (call, value, stale) in [("n.reset", "", false), ("s.switch", "1", true)] {
        p.reference.write_handler(call, value).unwrap();
        p.program.graph_mut().write_handler(call, value).unwrap();
        assert_eq!(p.program.needs_synthesis(), stale, "{call}");
        p.packet("a", &data, 1000);
    }
    assert_eq!(p.program.report().reference, 1);
    let input = p.program.graph().synthesis_input();
    let new = onefold_synth::synthesize(&input, Default::default());
    p.program.load(&new).unwrap();
    assert!(!p.program.needs_synthesis());
    p.packet("a", &data, 1000);
    p.finish();
    let r = p.program.report();
    // one entry before the handlers and one between them; their class is gone, the third one's is new
    assert_eq!((r.packets, r.reference), (3, 1));
    assert_eq!(r.gone, (2, 2 * data.len() as u64));
    assert_eq!(r.rules.iter().map(|r| r.packets).sum::<u64>(), 1);
}

#[test]
fn counts_go_on_where_a_class_is_in_the_new_program_too() {
    let text = "FromDevice(a) -> c :: Classifier(12/0800, 12/0806, -);
         c [0] -> s :: Switch(0); s [0] -> ToDevice(b); s [1] -> ToDevice(c);
         c [1] -> q :: Queue(5) -> Unqueue -> ToDevice(d); c [2] -> Discard;";
    let mut p = Pair::synthesized(build(text));
    let ip = Frame::default().bytes();
    let mut arp = ip.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut other = ip.clone();
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    let send = |p: &mut Pair| {
        for f in [&ip, &arp, &arp, &other, &other, &other] {
            p.packet("a", f, 1000);
        }
    };
    send(&mut p);
    for g in [&mut p.reference, p.program.graph_mut()] {
        g.write_handler("s.switch", "1").unwrap();
    }
    let input = p.program.graph().synthesis_input();
    let new = onefold_synth::synthesize(&input, Default::default());
    p.program.load(&new).unwrap();
    send(&mut p);
    p.finish();
    let r = p.program.report();
    assert_eq!(r.gone.0, 1, "IP went to b, now it goes to c: {r:#?}");
    let mut by_class: Vec<u64> = r.classes().iter().map(|c| c.packets).collect();
    by_class.sort_unstable();
    assert_eq!(by_class.iter().sum::<u64>() + r.gone.0, 12);
    assert!(
        by_class.contains(&4) && by_class.contains(&6),
        "{by_class:?}"
    );
    let queued = r
        .punts
        .iter()
        .find(|p| p.element == "q")
        .expect("the queue");
    assert_eq!(queued.packets, 4);
}

/// The annotation that replies get is read behind the rewriter.
#[test]
fn reply_annotations_are_read() {
    let text = "rw :: IPRewriter(pattern 203.0.113.1 1024-1027 - - 0 1, drop, REPLY_ANNO 17);
         FromDevice(in) -> Strip(14) -> CheckIPHeader -> i :: IPClassifier(tcp, udp, -); i [2] -> Discard;
         i [0] -> Paint(1, 17) -> [0] rw; i [1] -> Paint(2, 17) -> [0] rw;
         FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
         rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
         rw [1] -> ps :: PaintSwitch(17); ps [0] -> none :: Counter -> ToDevice(none);
         ps [1] -> tcp :: Counter -> ToDevice(tcp); ps [2] -> udp :: Counter -> ToDevice(udp);";
    let mut p = Pair::synthesized(build(text));
    for proto in [6, 17] {
        let there = Frame {
            proto,
            ..Frame::default()
        };
        p.packet("in", &there.bytes(), 1000);
        // one of the ports is the one that the NAT has chosen
        for port in 1024..=1027 {
            let back = Frame {
                proto,
                src: there.dst,
                dst: [203, 0, 113, 1],
                ports: (there.ports.1, port),
                ..Frame::default()
            };
            p.packet("out", &back.bytes(), 1000);
        }
    }
    p.finish();
    let mut count = |h: &str| p.program.graph_mut().read_handler(h).unwrap();
    assert_eq!(count("tcp.count").trim(), "1");
    assert_eq!(count("udp.count").trim(), "1");
    assert_eq!(count("none.count").trim(), "0");
    assert_eq!(p.punted(), 0, "{:?}", p.program.report().punts);
}

const NAPT: &str = "rw :: IPRewriter(pattern 203.0.113.1 1024-1030 - - 0 1, drop);
     FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] rw;
     FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
     rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
     rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);";

/// A flow, and packets back to all ports that the NAT may have chosen for it, three times each.
fn there_and_back(p: &mut Pair, proto: u8) {
    let there = Frame {
        proto,
        ..Frame::default()
    };
    p.packet("in", &there.bytes(), 1000);
    for port in 1023..=1031 {
        let back = Frame {
            proto,
            src: there.dst,
            dst: [203, 0, 113, 1],
            ports: (there.ports.1, port),
            ..Frame::default()
        };
        for _ in 0..3 {
            p.packet("out", &back.bytes(), 1000);
        }
    }
}

/// Whatever a program takes for impossible, the reference does when it happens, with the same state left behind.
#[test]
fn bindings_that_were_not_to_be_go_to_the_rewriter() {
    let g = build(NAPT);
    let mut program = onefold_synth::synthesize(&g.synthesis_input(), Default::default());
    let mut taken = 0;
    for step in (program.stages.iter_mut().flat_map(|s| &mut s.actions)).flat_map(|a| &mut a.steps)
    {
        if let Step::Bind { bound, sides, .. } = step {
            taken += sides.replace(Vec::new()).map_or(0, |s| s.len());
            bound.fill(Next::Never);
        }
    }
    assert!(taken >= 4, "{taken}");
    let report = onefold_synth::check::check(&program);
    assert_eq!(report.violations, []);
    let mut p = Pair::with(g, &program);
    p.annotations = false;
    for proto in [17, 6] {
        there_and_back(&mut p, proto);
    }
    p.finish();
    assert_eq!(p.punted(), 6, "{:?}", p.program.report().punts);
    let punts = p.program.report().punts;
    assert!(
        punts
            .iter()
            .any(|p| p.cause == "a binding of no known kind")
    );
}

/// Replies to flows of which the program sees nothing, since an element before the rewriter has no model.
#[test]
fn flows_that_begin_in_the_reference_have_replies_in_the_program() {
    let text = NAPT.replace(
        "FromDevice(in)",
        "FromDevice(in) -> n :: Counter(COUNT_CALL 100000 n.reset)",
    );
    let mut p = Pair::synthesized(build(&text));
    for proto in [17, 6] {
        there_and_back(&mut p, proto);
    }
    p.finish();
    assert_eq!(p.punted(), 2, "{:?}", p.program.report().punts);
}

#[test]
fn rewriters_of_all_kinds_both_ways() {
    let mappers = "m :: RoundRobinIPMapper(203.0.113.1 1024-1030# - - 0 1, 203.0.113.2 - - - 0 2, - - 192.0.2.1 53 0 1);";
    for (rewriter, what) in [
        ("IPRewriter(m, pattern - - 10.0.0.1 80 1 0)", "tcp or udp"),
        ("IPRewriter(m, pass 1)", "tcp or udp"),
        ("TCPRewriter(m, keep 1 0)", "tcp"),
        (
            "UDPRewriter(pattern 203.0.113.1 1024-1030 - - 0 1, m)",
            "tcp or udp",
        ),
        (
            "IPAddrRewriter(pattern 203.0.113.1-203.0.113.2 - 0 1, drop)",
            "-",
        ),
        ("IPAddrRewriter(keep 0 1, pattern 10.0.0.1 - 1 0)", "-"),
        (
            "IPAddrPairRewriter(pattern 203.0.113.1 - 0 1, pattern - 10.0.0.1 1 0)",
            "-",
        ),
        (
            "ICMPPingRewriter(pattern 203.0.113.1 1-9# - - 0 1, drop)",
            "icmp",
        ),
        (
            "ICMPPingRewriter(keep 0 1, pattern 203.0.113.1 1000-1009 10.0.0.1 - 1 2)",
            "icmp",
        ),
    ] {
        let text = format!(
            "{mappers} rw :: {rewriter};
             FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier({what}) -> [0] rw;
             FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier({what}) -> [1] rw;
             rw [0] -> f :: IPFilter(deny src 203.0.113.2 && src port < 1000, allow all) -> ToDevice(out);
             rw [1] -> i :: IPClassifier(dst port 1000, -) -> ToDevice(in); i [1] -> ToDevice(back);
             rw [2] -> ToDevice(more);"
        );
        let p = check(&text, &["in", "in", "out"], 3000);
        let never = p.program.report().punts;
        let never = never
            .iter()
            .find(|p| p.cause == "a binding of no known kind");
        assert!(never.is_none(), "{rewriter}: {never:?}");
    }
}

/// Who gets new flows is asked of the state that elements ask, too: a server that goes down or comes back makes no
/// program stale.
#[test]
fn servers_go_down_and_the_program_goes_on() {
    let servers = ["10.9.0.1", "10.9.0.2", "10.9.0.3"];
    for (class, first, last) in [
        ("RoundRobinIPMapper", "", ["", "", ""]),
        ("SourceIPHashMapper", "20 7, ", [" 0", " 1", " 2"]),
        ("MaglevIPMapper", "SIZE 251, ", [" a 1", " b 2", " c 1"]),
    ] {
        let each = servers.iter().zip(last);
        let each: Vec<String> = each.map(|(s, l)| format!("- - {s} - 0 1{l}")).collect();
        let text = format!(
            "m :: {class}({first}{}); rw :: IPRewriter(m, drop, TAKE_OVER false);
             FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] rw;
             FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
             rw [0] -> Unstrip(14) -> ToDevice(out); rw [1] -> Unstrip(14) -> ToDevice(in);",
            each.join(", ")
        );
        let mut p = Pair::synthesized(build(&text));
        let mut host = 0;
        let all = servers.join(" ");
        for down in [
            "",
            "10.9.0.2",
            "10.9.0.1 10.9.0.2",
            all.as_str(),
            "10.9.0.3",
            "",
        ] {
            p.reference.write_handler("m.down", down).unwrap();
            let graph = p.program.graph_mut();
            graph.write_handler("m.down", down).unwrap();
            assert!(!p.program.needs_synthesis(), "{class}: {down}");
            for proto in [6, 17] {
                for _ in 0..20 {
                    host += 1;
                    let f = Frame {
                        src: [10, 0, 1, host],
                        proto,
                        ..Frame::default()
                    };
                    p.packet("in", &f.bytes(), 1000);
                }
            }
        }
        assert_eq!(p.punted(), 0, "{class}: {:?}", p.program.report().punts);
        p.finish();
    }
}
