//! Packets that are written once for all actions of their ways, and whose elements have hints about their flows,
//! against the program alone: the same packets, everything that can be seen compared.

#[allow(dead_code)]
use crate::harness;

#[allow(dead_code)]
use crate::both;

use both::{Both, with_fewer_instructions as fewer_instructions};
use harness::{Frame, Rng};
use onefold_packet::checksum;

/// A trunk with two tags, IPv6 beside IPv4, monitors on both sides of a filter, a translator, and back.
fn chain(flows: usize) -> String {
    format!(
        "toTrunk :: ToDevice(trunk); toOut :: ToDevice(out);
        FromDevice(trunk) -> t :: Classifier(12/8100 14/002a%0fff, -);
        t [1] -> Discard;
        t [0] -> VLANDecap -> c :: Classifier(12/0800, 12/86dd, -);
        c [2] -> Discard;
        c [0] -> MarkIPHeader(14) -> up :: FlowMonitor(CAPACITY {flows}) -> Strip(14) -> CheckIPHeader
          -> m :: PayloadFilter(drop LITERAL EVIL)
          -> u :: Counter -> d :: DecIPTTL -> [0] rw :: IPRewriter(pattern 203.0.113.1 1024-1063# - - 0 1, drop,
          CAPACITY 30, UDP_TIMEOUT 2, TCP_TIMEOUT 3, REAP_INTERVAL 1);
        d [1] -> Discard;
        rw [0] -> up3 :: FlowMonitor(CAPACITY {flows}) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> toOut;
        FromDevice(out) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [1] rw;
        rw [1] -> e :: DecIPTTL -> n :: PayloadFilter(drop LITERAL EVIL) -> down :: FlowMonitor(CAPACITY {flows})
          -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:c) -> VLANEncap(VLAN_ID 42, VLAN_PCP 3) -> toTrunk;
        e [1] -> Discard;
        c [1] -> Strip(14) -> CheckIP6Header -> s6 :: FlowMonitor(CAPACITY {flows}) -> h :: DecIP6HLIM
          -> m6 :: PayloadFilter(drop LITERAL EVIL)
          -> EtherEncap(0x86dd, 2:0:0:0:0:9, 2:0:0:0:0:d) -> toOut;
        h [1] -> Discard;"
    )
}

fn tagged(f: &[u8]) -> Vec<u8> {
    let mut t = f[..12].to_vec();
    t.extend([0x81, 0, 0x60, 42]);
    t.extend(&f[12..]);
    t
}

/// IPv6 with UDP, and a checksum that nobody looks at.
fn six(host: u8, hops: u8, text: &[u8]) -> Vec<u8> {
    let mut b = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0,
    ];
    b.extend((8 + text.len() as u16).to_be_bytes());
    b.extend([17, hops, 0x20, 1]);
    b.extend([0; 13]);
    b.extend([host, 0x20, 1]);
    b.extend([0; 13]);
    b.extend([9, 0x10, host, 0, 53]);
    b.extend((8 + text.len() as u16).to_be_bytes());
    b.extend([0x12, 0x34]);
    b.extend(text);
    b
}

/// Packets of so many flows.
fn on_trunk(r: &mut Rng, hosts: u64) -> Vec<u8> {
    let host = r.below(hosts) as u8;
    let text: &[u8] = r.of(&[b"good good", b"good", b"good", b"good", b"good", b"EVIL"]);
    if r.one_in(4) {
        return tagged(&six(host, r.of(&[64, 64, 64, 2, 1]), text));
    }
    let f = Frame {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        src: [10, 0, 0, host],
        dst: [8, 8, 8, 8],
        proto: if host.is_multiple_of(3) { 6 } else { 17 },
        ttl: r.of(&[64, 64, 64, 64, 2, 1]),
        ports: (1000 + u16::from(host), 53),
        flags: 0x10,
        payload: text.len(),
    };
    let mut b = f.bytes();
    let from = b.len() - text.len();
    b[from..].copy_from_slice(text);
    // of UDP there may be no checksum, or any: the header's alone is looked at
    let at = if f.proto == 6 { 50 } else { 40 };
    let any = r.next() as u16;
    b[at..at + 2].copy_from_slice(&r.of(&[0, 0xffff, 1, 0xfffe, any]).to_be_bytes());
    // longer than the header says
    if r.one_in(5) {
        b.extend([0; 7]);
    }
    tagged(&b)
}

/// The answer, with a header checksum that is right.
fn answer(mut f: Vec<u8>) -> Vec<u8> {
    for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
        for i in 0..n {
            f.swap(x + i, y + i);
        }
    }
    f[24..26].fill(0);
    let sum = checksum::internet(&f[14..34]);
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f
}

/// Packets both ways, in batches of all sizes; now and then monitors are cleared.
fn run(mut b: Both, hosts: u64, seed: u64, resets: bool) -> Both {
    let mut r = Rng(seed);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    let out = b.program.graph().sinks("out");
    for round in 0..150 {
        let ns = r.of(&[0, 1_000, 1_000_000, 1_000_000, 300_000_000]);
        let n = r.below(90) as usize + 1;
        if r.one_in(3) && !replies.is_empty() {
            let some: Vec<_> = (0..n)
                .map(|_| replies[r.below(replies.len() as u64) as usize].clone())
                .collect();
            b.batch("out", &some, ns);
        } else {
            let some: Vec<_> = (0..n).map(|_| on_trunk(&mut r, hosts)).collect();
            for (e, f, _) in b.batch("trunk", &some, ns) {
                if replies.len() < 100 && out.contains(&e) && f[12] == 8 && f[13] == 0 {
                    replies.push(answer(f));
                }
            }
        }
        if resets && round % 20 == 11 {
            for g in [b.program.graph_mut(), b.flow.graph_mut()] {
                g.write_handler(r.of(&["up.reset", "up.reset"]), "")
                    .unwrap();
            }
        }
        if round % 30 == 29 {
            b.compare();
        }
    }
    b.compare();
    assert_eq!(b.flow.stats().refused, 0, "{:?}", b.flow.causes());
    b
}

/// Tags, IPv6, translated addresses, times to live, checksums of all kinds, padding: nearly all packets are written
/// once.
#[test]
fn packets_are_written_once() {
    for seed in [3, 0x1357_9bdf] {
        let s = run(Both::new(&chain(4096), 4096), 12, seed, false)
            .flow
            .stats();
        assert!(s.written_once > s.hits / 2, "{s:?}");
        assert!(s.written_once < s.in_place, "{s:?}");
    }
}

/// Monitors with room for fewer flows than there are: most hints are about flows that have given way to others since.
#[test]
fn hints_about_flows_that_have_gone_are_wrong_and_found_out() {
    for (flows, seed) in [(1, 5), (4, 6), (9, 7)] {
        let s = run(Both::new(&chain(flows), 4096), 12, seed, false)
            .flow
            .stats();
        assert!(s.written_once > s.hits / 2, "{s:?}");
    }
}

/// A monitor that is cleared knows none of the flows that it has given hints about.
#[test]
fn hints_end_with_a_monitor_that_is_cleared() {
    let s = run(Both::new(&chain(8), 4096), 12, 8, true).flow.stats();
    assert!(s.cleared > 4 && s.written_once > s.hits / 3, "{s:?}");
}

/// All of it with the instructions of other processors.
#[test]
fn with_fewer_instructions() {
    fewer_instructions(module_path!());
}
