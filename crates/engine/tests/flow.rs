//! The flow table against the program alone: the same packets, everything that can be seen compared.

#[allow(dead_code)]
use crate::harness;

use crate::both;

use both::{Both, Left};
use harness::{Frame, Rng};
use onefold_element::ElemId;
use onefold_engine::Level;
use onefold_engine::flow::{FlowRunner, OVERLOAD};
use onefold_packet::{Pkt, Timestamp};

/// Firewall, counters that look at the clock, translator, both ways.
const CHAIN: &str = "
    rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 1, drop, CAPACITY 300, UDP_TIMEOUT 30, TCP_TIMEOUT 60);
    FromDevice(in) -> n :: Counter -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> a :: AverageCounter
      -> IPFilter(deny src host 192.0.2.77, allow tcp or udp, deny all) -> DecIPTTL -> [0] rw;
    c [1] -> Discard;
    FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
    rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);";

fn frame(r: &mut Rng, hosts: u64) -> Vec<u8> {
    let host = r.below(hosts) as u8;
    let tcp = r.one_in(3);
    Frame {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        src: if r.one_in(9) {
            [192, 0, 2, 77]
        } else {
            [10, 0, 0, host]
        },
        dst: [8, 8, 8, 8],
        proto: if tcp { 6 } else { 17 },
        ttl: r.of(&[64, 64, 64, 2, 1]),
        ports: (1000 + u16::from(host), 53),
        flags: r.of(&[0x10, 0x10, 0x18, 0x18, 0x02, 0x11, 0x04]),
        payload: r.of(&[0, 4, 4, 4, 40]),
    }
    .bytes()
}

fn run(flows: usize, hosts: u64, rounds: usize, seed: u64) -> Both {
    let mut b = Both::new(CHAIN, flows);
    let mut r = Rng(seed);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for round in 0..rounds {
        let ns = r.of(&[0, 67, 1_000_000, 1_000_000, 9_000_000_000]);
        if r.one_in(3) && !replies.is_empty() {
            let n = r.below(8) as usize + 1;
            let some: Vec<Vec<u8>> = (0..n)
                .map(|_| replies[r.below(replies.len() as u64) as usize].clone())
                .collect();
            b.batch("out", &some, ns);
        } else {
            let n = r.below(40) as usize + 1;
            let frames: Vec<Vec<u8>> = (0..n).map(|_| frame(&mut r, hosts)).collect();
            for (_, mut f, _) in b.batch("in", &frames, ns) {
                // the answer: addresses and ports exchanged
                for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
                    for i in 0..n {
                        f.swap(x + i, y + i);
                    }
                }
                if replies.len() < 200 {
                    replies.push(f);
                }
            }
        }
        if round % 50 == 49 {
            b.compare();
        }
        if round % 200 == 199 {
            let h = ("rw.clear", "");
            b.program.graph_mut().write_handler(h.0, h.1).unwrap();
            b.flow.graph_mut().write_handler(h.0, h.1).unwrap();
        }
    }
    b.compare();
    assert_eq!(b.flow.stats().refused, 0, "{:?}", b.flow.causes());
    b
}

#[test]
fn nothing_is_different_but_the_way() {
    let b = run(4096, 60, 600, 0x1357_9bdf_2468_ace1);
    let s = b.flow.stats();
    assert!(s.hits > s.misses, "{s:?} {:?}", b.flow.causes());
    assert!(s.ended > 0 && s.cleared > 0, "{s:?}");
}

#[test]
fn a_table_under_pressure_and_more_flows_than_the_translator_holds() {
    let b = run(64, 250, 600, 0x0bad_cafe_1234_5671);
    let s = b.flow.stats();
    assert!(s.evicted > 0 && s.hits > 0, "{s:?}");
    assert!(s.entries <= s.places && s.leases <= s.entries, "{s:?}");
}

#[test]
fn traces_and_changed_models_take_the_long_way() {
    let mut b = Both::new(CHAIN, 1024);
    let f = frame(&mut Rng(77), 1);
    for _ in 0..6 {
        b.batch("in", std::slice::from_ref(&f), 1000);
    }
    let before = b.flow.stats().hits;
    b.flow.runner().start_trace();
    b.batch("in", std::slice::from_ref(&f), 1000);
    b.flow.runner().take_trace();
    assert_eq!(b.flow.stats().hits, before);
    b.batch("in", std::slice::from_ref(&f), 1000);
    assert_eq!(b.flow.stats().hits, before + 1, "{:?}", b.flow.causes());
}

/// A flood of flows that come once, then a few that come again: what is looked up and remembered changes, what leaves does not.
#[test]
fn levels_change_with_the_traffic() {
    let mut b = Both::new(CHAIN, 1024);
    let (program, flow) = (b.program.fork(), b.program.fork());
    b = Both {
        program,
        flow: FlowRunner::new(flow, 2048),
        now: b.now,
    };
    // which one of three is cheaper depends on the machine, and on how this was built
    b.flow.force(Some(Level::Flow));
    let mut r = Rng(0x5eed_f100d);
    let mut some = |b: &mut Both, packets: usize, hosts: u64, ports: u64| {
        let before = b.flow.stats();
        for _ in 0..packets / 64 {
            let mut frames = Vec::new();
            for _ in 0..64 {
                // few flows: packets that repeat. Where many do not, which level is taken follows from measured times
                let again = |f: &Vec<u8>| f[22] == 64 && (f[23] == 17 || f[47] & 7 == 0);
                let mut f = frame(&mut r, hosts);
                // Bound: one of three is as wished
                while hosts < 100 && !again(&f) {
                    f = frame(&mut r, hosts);
                }
                let port = 1024 + r.below(ports) as u16;
                f[34..36].copy_from_slice(&port.to_be_bytes());
                frames.push(f);
            }
            b.batch("in", &frames, 1_000_000);
        }
        b.compare();
        let s = b.flow.stats();
        (
            s.hits - before.hits,
            s.made - before.made,
            s.passed_by - before.passed_by,
        )
    };
    // dropped packets need no port, and are known when they come again
    let (_, made, passed) = some(&mut b, 16_384, 200, 60_000);
    assert!(passed > 0 && made < 5000, "{passed} {made}");
    // the translator has room again
    b.batch("in", &[UDP.bytes()], 100_000_000_000);
    // until the table is asked again
    some(&mut b, 100_000, 2, 2);
    let (hits, _, passed) = some(&mut b, 6400, 2, 2);
    assert_eq!(passed, 0);
    assert!(
        hits > 1000,
        "{hits} {:?} {:?}",
        b.flow.stats(),
        b.flow.causes()
    );
    assert_eq!(b.flow.stats().refused, 0);
}

/// Too many intervals for places, so that flows have entries; some rules count their packets, and one translates.
fn rules(handled: bool) -> String {
    let mut all = String::from("f :: IPFilter(");
    for i in 0..300u32 {
        let what = ["1", "2", "deny"][i as usize % 3];
        let (a, b, port) = (i / 16, i % 16 * 16, 1000 + i % 50 * 7);
        all += &format!("{what} src net 10.{a}.{b}.0/20 and dst port {port} and udp, ");
    }
    all += "3 src net 10.200.0.0/16, deny all);";
    let counter = if handled { "AverageCounter" } else { "Counter" };
    format!(
        "{all}
    rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 1, drop, CAPACITY 3000);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> f;
    f[0] -> DecIPTTL -> n :: {counter} -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
    f[1] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:c) -> ToDevice(in);
    f[2] -> rw; rw[0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:d) -> ToDevice(out);
    Idle -> [1] rw; rw[1] -> Discard;"
    )
    .replace("(1 src", "(0 src")
    .replace(" 1 src", " 0 src")
    .replace(" 2 src", " 1 src")
    .replace(" 3 src", " 2 src")
}

/// Headers that never come again go the way of the rule that takes them: no entry, no program; flows that do come again get entries, and what a rule says
/// too little of goes to the program.
#[test]
fn headers_that_never_come_again_go_the_ways_of_their_rules() {
    for (adaptive, handled) in [(true, false), (false, false), (true, true)] {
        let mut b = Both::new(&rules(handled), 4096);
        if adaptive {
            let flow = b.program.fork();
            b.flow = FlowRunner::new(flow, 4096);
        }
        let most_bytes = b.flow.stats().most_bytes;
        let mut r = Rng(0x0b5e_55ed);
        let one = |r: &mut Rng| {
            let i = r.below(300) as u32;
            let translated = r.one_in(50);
            Frame {
                src: match translated {
                    true => [10, 200, 1, r.below(3) as u8],
                    false => {
                        let (a, b) = ((i / 16) as u8, (i % 16 * 16 + r.below(16) as u32) as u8);
                        [10, a, b, r.below(250) as u8]
                    }
                },
                ports: (r.below(60_000) as u16, 1000 + (i % 50 * 7) as u16),
                ttl: r.of(&[64, 64, 64, 64, 64, 64, 64, 64, 9, 1]),
                ..UDP
            }
            .bytes()
        };
        let known: Vec<Vec<u8>> = (0..5).map(|_| one(&mut r)).collect();
        for round in 0..900 {
            let mut frames: Vec<Vec<u8>> = (0..31).map(|_| one(&mut r)).collect();
            frames.insert(round % 32, known[round % known.len()].clone());
            b.batch("in", &frames, 1000);
            if round % 100 == 99 {
                b.compare();
            }
            if round == 300 {
                for g in [b.program.graph_mut(), b.flow.graph_mut()] {
                    let reset = if handled { "n.reset" } else { "n.reset_counts" };
                    g.write_handler(reset, "").unwrap();
                }
            }
        }
        b.compare();
        let s = b.flow.stats();
        assert_eq!(s.refused, 0, "{:?}", b.flow.causes());
        assert!(s.classes > 200, "{s:?}");
        // half of them where all flows are remembered; else entries are made until it is known that most packets are new
        let (class, made) = match (adaptive, handled) {
            (true, false) => (5_000, 9_500),
            // those that are counted with the time are not known by rule
            (true, true) => (3_000, 9_500),
            (false, _) => (6_000, 22_000),
        };
        assert!(s.by_class > class, "{adaptive} {handled} {s:?}");
        assert!(s.made < made, "{adaptive} {handled} {s:?}");
        assert_eq!(s.most_bytes, most_bytes, "said before the first packet");
        assert!(s.bytes <= most_bytes, "{s:?}");
    }
}

/// Connections that are asked for again and again change their binding each time: writing their ways down is soon given up, and data of others is not affected.
#[test]
fn what_cannot_be_kept_is_soon_not_written_down() {
    let mut b = Both::new(&CHAIN.replace("deny src", "deny syn and src"), 4096);
    let flow = b.program.fork();
    b.flow = FlowRunner::new(flow, 4096);
    let packet = |host: u8, flags| {
        Frame {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            src: [10, 0, 0, host],
            dst: [8, 8, 8, 8],
            ports: (1000, 53),
            flags,
            proto: 6,
            ..UDP
        }
        .bytes()
    };
    for round in 0..200 {
        let mut frames: Vec<Vec<u8>> = (0..30).map(|h| packet(h, 0x02)).collect();
        frames.extend((30..60).map(|h| packet(h, if round == 0 { 0x02 } else { 0x10 })));
        b.batch("in", &frames, 1000);
    }
    b.compare();
    let (s, causes) = (b.flow.stats(), b.flow.causes());
    assert!(s.hits > 190 * 30, "{s:?} {causes:?}");
    let changing = causes.iter().find(|c| c.0.contains("still changing"));
    let in_vain = changing.map_or(0, |c| c.1);
    assert!((10..200 * 30 / 10).contains(&in_vain), "{s:?} {causes:?}");
}

/// A source without end gets its turns with every packet: how many packets it has made by then is seen.
#[test]
fn tasks_without_rest_have_their_turns() {
    let chain = "FromDevice(in) -> Strip(14) -> CheckIPHeader -> n :: Counter -> Unstrip(14) -> ToDevice(out);
        InfiniteSource(LIMIT -1, BURST 1) -> m :: Counter -> Discard;";
    let mut b = Both::new(chain, 1024);
    let f = frame(&mut Rng(77), 1);
    for _ in 0..12 {
        b.batch("in", &[f.clone(), f.clone()], 1000);
        b.compare();
    }
}

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

/// A rewriter lets a flow pass because it does not know it. That may change: nothing of it is remembered.
#[test]
fn a_flow_that_passes_a_rewriter_may_be_one_of_its_own_later() {
    let mut b = Both::new(
        "rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 1, pass 1);
         FromDevice(in) -> Strip(14) -> CheckIPHeader -> [0] rw;
         FromDevice(out) -> Strip(14) -> CheckIPHeader -> [1] rw;
         rw [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
         rw [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);",
        1000,
    );
    let early = Frame {
        src: [8, 8, 8, 8],
        dst: [203, 0, 113, 1],
        ports: (53, 1024),
        ..UDP
    };
    for _ in 0..4 {
        b.batch("out", &[early.bytes(), early.bytes()], 1_000_000);
    }
    let left = b.batch("in", &[UDP.bytes()], 1_000_000);
    assert_eq!(left[0].1[34..36], 1024u16.to_be_bytes(), "its port");
    let left = b.batch("out", &[early.bytes()], 1_000_000);
    assert_eq!(left[0].1[30..34], [10, 0, 0, 1], "it is known by now");
    b.compare();
}

/// Echo requests and their answers through two translators, also with the identifier zero and wrong types; and TCP that ends before its
/// ports' flow can be told, which the table must not take for another one's.
#[test]
fn pings_are_flows_and_headers_that_are_cut_off_are_not() {
    let translator = |n: usize, to: &str, back: &str| {
        format!(
            "ip{n} :: IPRewriter(pattern 203.0.113.{n} 1024-65535# - - 0 1, drop);
             ping{n} :: ICMPPingRewriter(pattern 203.0.113.{n} 0-3# - - 0 1, drop);
             in{n} [0] -> [0] ip{n}; in{n} [1] -> [0] ping{n}; in{n} [2] -> Discard;
             out{n} [0] -> [1] ip{n}; out{n} [1] -> [1] ping{n}; out{n} [2] -> Discard;
             ip{n} [0] -> {to}; ping{n} [0] -> {to}; ip{n} [1] -> {back}; ping{n} [1] -> {back};"
        )
    };
    let text = format!(
        "in1, out1, in2, out2 :: IPClassifier(tcp or udp, icmp type echo or icmp type echo-reply, -);
         FromDevice(in) -> Strip(14) -> CheckIPHeader -> in1;
         FromDevice(out) -> Strip(14) -> CheckIPHeader -> out2;
         leave :: EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
         return :: EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);
         {}{}",
        translator(1, "in2", "return"),
        translator(2, "leave", "out1"),
    );
    let mut b = Both::new(&text, 1000);
    let mut r = Rng(7);
    let ping = |host: u8, id: u16, kind: u8| {
        let f = Frame {
            src: [10, 0, 0, host],
            proto: 1,
            ..UDP
        };
        let mut f = f.bytes();
        f[34..42].copy_from_slice(&[kind, 0, 0, 0, (id >> 8) as u8, id as u8, 0, 1]);
        f
    };
    // 18 bytes of a TCP header, as the IP header says
    let cut_off = |port: u16| {
        let f = Frame {
            proto: 6,
            ports: (port, 80),
            ..UDP
        };
        let mut f = f.bytes();
        f[16..18].copy_from_slice(&38u16.to_be_bytes());
        f[24..26].fill(0);
        let sum = onefold_packet::checksum::sum(&f[14..34], 0);
        let sum = !onefold_packet::checksum::fold(sum);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f
    };
    let mut answers = 0;
    for round in 0..200 {
        let mut some = Vec::new();
        for _ in 0..8 {
            some.push(ping(r.of(&[1, 2]), r.of(&[0, 7]), r.of(&[8, 8, 8, 0, 3])));
        }
        for _ in 0..2 {
            some.push(cut_off(r.of(&[1000, 1001])));
        }
        let mut back = Vec::new();
        for (_, mut f, _) in b.batch("in", &some, r.of(&[0, 1_000_000, 20_000_000_000])) {
            if f[23] == 1 && f[34] == 8 {
                for i in 26..30 {
                    f.swap(i, i + 4);
                }
                f[34] = 0;
                back.push(f);
            }
        }
        answers += b.batch("out", &back, 1000).len();
        if round % 50 == 0 {
            b.compare();
        }
    }
    b.compare();
    let s = b.flow.stats();
    assert!(answers > 500, "{answers} answers");
    assert!(
        s.hits > 1000 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
}

/// A share that is for packets that queue up limits these, and no others.
#[test]
fn protection_waits_for_packets_to_queue_up() {
    let mut b = Both::new(CHAIN, 4096);
    let source = b.program.graph().source("in").unwrap();
    b.flow.protect_under_pressure(0.0);
    let mut shed = Vec::new();
    for (round, queued_up) in [false, true, true, false, true].into_iter().enumerate() {
        b.flow.press(queued_up);
        b.now = Timestamp(b.now.0 + 1_000_000);
        let mut some: Vec<Pkt> = Vec::new();
        for host in 0..20 {
            let src = [10, 1, round as u8, host];
            let mut p = b.flow.make_packet(&Frame { src, ..UDP }.bytes());
            p.anno.timestamp = b.now;
            some.push(p);
        }
        b.flow.inject_batch(source, &mut some, b.now);
        shed.push(b.flow.stats().shed);
    }
    assert_eq!(shed, [0, 20, 40, 40, 60]);
}

/// Where unknown flows have had their share of time, the chain does what it does when their packets have not arrived.
#[test]
fn packets_that_are_not_let_in_have_not_arrived() {
    let mut b = Both::new(CHAIN, 4096);
    let of = |host: u16| {
        let [high, low] = host.to_be_bytes();
        let src = [10, 1, high, low];
        Frame { src, ..UDP }.bytes()
    };
    let known: Vec<Vec<u8>> = (0..8).map(of).collect();
    for _ in 0..3 {
        b.batch("in", &known, 1_000_000);
    }
    b.flow.protect(Some(0.0));
    let source = b.program.graph().source("in").unwrap();
    let before = b.flow.stats();
    let mut r = Rng(0x0c0f_fee0);
    let mut new = 0u64;
    let mut dropped = 0;
    for round in 0..300 {
        b.now = Timestamp(b.now.0 + 1_000_000);
        let (mut all, mut some): (Vec<Pkt>, Vec<Pkt>) = Default::default();
        // more than a group, sometimes; alone, sometimes
        for _ in 0..=r.below(150) {
            let f = match r.one_in(2) {
                true => known[r.below(8) as usize].clone(),
                false => {
                    new += 1;
                    of(1000 + new as u16)
                }
            };
            all.push(b.flow.make_packet(&f));
            if known.contains(&f) || round >= 200 {
                some.push(b.program.graph_mut().make_packet(&f));
            }
        }
        for p in all.iter_mut().chain(&mut some) {
            p.anno.timestamp = b.now;
        }
        if round == 200 {
            // whatever they need
            b.flow.protect(None);
        }
        if round < 200 {
            dropped += (all.len() - some.len()) as u64;
        }
        b.program.inject_batch(source, &mut some, b.now);
        b.flow.inject_batch(source, &mut all, b.now);
        assert!(all.is_empty());
        let (mut want, mut got) = (Left::new(), Left::new());
        let seen = |e: ElemId, p: &Pkt| (e, p.data().to_vec(), p.anno.timestamp);
        (b.program.graph_mut()).drain_transmitted(|e, p| want.push(seen(e, p)));
        b.flow.drain_transmitted(|e, p| got.push(seen(e, p)));
        assert_eq!(want, got, "{round}");
    }
    let s = b.flow.stats();
    assert!(dropped > 5000 && s.shed == dropped, "{dropped} {s:?}");
    assert!(s.hits - before.hits > 5000, "{s:?}");
    let (p, f) = (b.program.graph().totals(), b.flow.totals());
    assert_eq!(
        (p.packets_in + dropped, p.dropped + dropped, p.sent),
        (f.packets_in, f.dropped, f.sent)
    );
    let drops = b.flow.drops();
    let door = drops.iter().find(|d| d.reason == OVERLOAD).unwrap();
    assert_eq!(door.packets, dropped);
    assert_eq!(door.element, b.flow.graph().name(source));
    let want = b.program.graph_mut().state_summary();
    assert_eq!(want, b.flow.graph_mut().state_summary());
    assert_eq!(b.program.report(), b.flow.report());
}

/// Every UDP checksum that there is through four translators: those that come to zero on the way stay zero, and take no longer than others.
#[test]
fn checksums_that_come_to_zero_on_the_way() {
    let rewriter =
        |n: usize| format!("ip{n} :: IPRewriter(pattern 203.0.{n}.1 1024-65535# - - 0 0);");
    let all: String = (1..5).map(rewriter).collect();
    let text = format!(
        "{all} FromDevice(in) -> Strip(14) -> CheckIPHeader -> ip1 -> ip2 -> ip3 -> ip4
         -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);"
    );
    let mut b = Both::new(&text, 1000);
    for _ in 0..4 {
        b.batch("in", &[UDP.bytes()], 1_000_000);
    }
    let mut zeros = Vec::new();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for some in all.chunks(512) {
        let frame = |x: &u16| {
            let mut f = UDP.bytes();
            f[40..42].copy_from_slice(&x.to_be_bytes());
            f
        };
        let frames: Vec<_> = some.iter().map(frame).collect();
        let left = b.batch("in", &frames, 1000);
        let pairs = left.iter().zip(some);
        zeros.extend(
            pairs
                .filter(|((_, f, _), _)| f[40..42] == [0, 0])
                .map(|(_, x)| *x),
        );
    }
    b.compare();
    let s = b.flow.stats();
    assert_eq!(zeros.len(), 5, "none, and one for each translator");
    assert!(
        s.hits > 65_536 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
    // flows whose first packets are of that kind are remembered, too, and right for others
    for zero in zeros {
        let mut b = Both::new(&text, 1000);
        let frame = |x: u16| {
            let mut f = UDP.bytes();
            f[40..42].copy_from_slice(&x.to_be_bytes());
            f
        };
        for _ in 0..4 {
            b.batch("in", &[frame(zero)], 1_000_000);
        }
        let before = b.flow.stats();
        let some: Vec<_> = (0..=u16::MAX)
            .step_by(1021)
            .chain([zero; 40])
            .map(frame)
            .collect();
        b.batch("in", &some, 1000);
        b.compare();
        let s = b.flow.stats();
        assert_eq!(
            (s.hits - before.hits, s.refused),
            (some.len() as u64, 0),
            "{zero}"
        );
    }
}

/// All of the above with the instructions of other processors, in processes of their own: [`onefold_classify::vectors_limit`] is asked once.
#[test]
fn with_fewer_instructions() {
    both::with_fewer_instructions(module_path!());
}
