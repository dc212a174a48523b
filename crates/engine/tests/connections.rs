//! Firewalls that track connections: the flow table against the program alone, packets both ways in batches, everything
//! that can be seen compared.

#[allow(dead_code)]
use crate::harness;

#[allow(dead_code)]
use crate::both;

use both::Both;
use harness::{Frame, Rng};
use onefold_packet::checksum;

/// What is established passes; inside may begin what it likes of two ports; a table that is too small for all hosts.
const CHAIN: &str = "
    connections :: ConnTable(CHECKSUM false, CAPACITY 40, UDP 2, UDP_STREAM 3, TCP_ESTABLISHED 5, TCP_CLOSE 1);
    toOut :: ToDevice(out); toIn :: ToDevice(in);
    FromDevice(in) -> Strip(14) -> CheckIPHeader
      -> up :: ConnTrack(connections, established related, new, untracked, invalid);
    up [0] -> passed :: Unstrip(14) -> toOut;
    up [1] -> IPFilter(allow dst port 53 or dst port 80, deny all) -> ConnConfirm(connections) -> passed;
    up [2] -> passed; up [3] -> bad :: Counter -> Discard;
    FromDevice(out) -> Strip(14) -> CheckIPHeader -> down :: ConnTrack(connections, established.reply related, -);
    down [0] -> Unstrip(14) -> toIn; down [1] -> Discard;";

fn frame(r: &mut Rng, hosts: u64, lively: bool) -> Vec<u8> {
    let host = r.below(hosts) as u8;
    let tcp = r.one_in(2);
    Frame {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        src: [10, 0, 0, host],
        dst: [8, 8, 8, 8],
        proto: if tcp { 6 } else { 17 },
        ttl: 64,
        ports: (1000 + u16::from(host), r.of(&[53, 53, 53, 80, 99])),
        flags: match lively {
            true => r.of(&[0x10, 0x10, 0x18, 0x02, 0x02, 0x11, 0x04]),
            false => r.of(&[0x10, 0x10, 0x10, 0x18]),
        },
        payload: r.of(&[4, 8, 40]),
    }
    .bytes()
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

fn run(hosts: u64, rounds: usize, seed: u64) -> Both {
    let mut b = Both::new(CHAIN, 4096);
    let mut r = Rng(seed);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for round in 0..rounds {
        let ns = r.of(&[0, 67, 1_000, 1_000_000, 300_000_000, 900_000_000]);
        let n = r.below(60) as usize + 1;
        let lively = r.one_in(4);
        if r.one_in(2) && !replies.is_empty() {
            let some: Vec<_> = (0..n)
                .map(|_| replies[r.below(replies.len() as u64) as usize].clone())
                .collect();
            b.batch("out", &some, ns);
        } else {
            let some: Vec<_> = (0..n).map(|_| frame(&mut r, hosts, lively)).collect();
            for (_, f, _) in b.batch("in", &some, ns) {
                match replies.len() < 200 {
                    true => replies.push(answer(f)),
                    false => replies[r.below(200) as usize] = answer(f),
                }
            }
        }
        if round % 40 == 39 {
            b.compare();
        }
    }
    b.compare();
    b
}

/// Few hosts: most packets are of established connections, and looked at where they are.
#[test]
fn established_connections_are_inspected() {
    for seed in [3, 0x2468_1357] {
        let b = run(6, 400, seed);
        let s = b.flow.stats();
        assert_eq!(s.refused, 0, "{:?}", b.flow.causes());
        assert!(s.in_place > s.hits / 4, "{s:?} {:?}", b.flow.not_composed());
        // entries keep what the tracker has said of their flows
        assert!(s.entries > 0 && s.by_class < s.hits / 4, "{s:?}");
    }
}

/// Many hosts: connections give way to new ones, time out and come again.
#[test]
fn connections_come_and_go() {
    for seed in 0..4 {
        let b = run(60, 200, seed + 9);
        let s = b.flow.stats();
        assert_eq!(s.refused, 0, "{:?}", b.flow.causes());
        assert!(s.hits > 0, "{s:?}");
    }
}

/// Both directions come in at one device, of both versions of IP, and checksums count. What is established leaves at
/// once; packets are looked at by one tracker, or by one for each version.
const ONE_ARM: &str = "
    connections :: ConnTable(CAPACITY 30, UDP 3, UDP_STREAM 4, TCP_ESTABLISHED 5, TCP_CLOSE 1);
    out :: ToDevice(out);
    FromDevice(in) -> v :: Classifier(12/0800, 12/86dd, -); v [2] -> Discard;
    v [0] -> Strip(14) -> CheckIPHeader -> four :: ConnTrack(connections, established, new, -);
    four [0] -> passed :: Unstrip(14) -> out; four [1] -> ConnConfirm(connections) -> passed; four [2] -> Discard;
    v [1] -> Strip(14) -> CheckIP6Header -> six :: ConnTrack(connections, established, new, -);
    six [0] -> passed6 :: Unstrip(14) -> out; six [1] -> ConnConfirm(connections) -> passed6; six [2] -> Discard;";

/// A packet of one of few connections, either way; flags are of TCP.
fn either_way(r: &mut Rng, hosts: u64, flags: u8) -> Vec<u8> {
    let (host, back, tcp, v6) = (r.below(hosts) as u8, r.one_in(2), r.one_in(2), r.one_in(4));
    let (inside, outside) = ((1000 + u16::from(host)).to_be_bytes(), [0, 80]);
    let (sport, dport) = if back {
        (outside, inside)
    } else {
        (inside, outside)
    };
    let payload = vec![7; r.of(&[0, 1, 4, 30, 200])];
    let mut upper = [sport, dport].concat();
    match tcp {
        true => {
            upper.extend((r.below(4) as u32).to_be_bytes());
            upper.extend((r.below(4) as u32).to_be_bytes());
            upper.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        }
        false => {
            upper.extend((8 + payload.len() as u16).to_be_bytes());
            upper.extend([0, 0]);
        }
    }
    upper.extend(payload);
    let bytes = if v6 { 16 } else { 4 };
    let address = |last: u8| {
        let mut a = vec![10; bytes];
        a[bytes - 1] = last;
        a
    };
    let (src, dst) = match back {
        true => (address(200), address(host)),
        false => (address(host), address(200)),
    };
    let protocol = if tcp { 6 } else { 17 };
    let pseudo = u64::from(protocol) + upper.len() as u64;
    let sum = checksum::sum(&src, checksum::sum(&dst, pseudo));
    let sum = !checksum::fold(checksum::sum(&upper, sum));
    let at = if tcp { 16 } else { 6 };
    if tcp || !r.one_in(4) {
        // now and then a wrong one
        let wrong = u16::from(r.one_in(40));
        upper[at..at + 2].copy_from_slice(&(sum ^ wrong).to_be_bytes());
    }
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match v6 {
        true => {
            b.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            b.extend((upper.len() as u16).to_be_bytes());
            b.extend([protocol, 64]);
        }
        false => {
            b.extend([8, 0, 0x45, 0]);
            b.extend((20 + upper.len() as u16).to_be_bytes());
            // now and then a fragment
            let fragment = if r.one_in(40) { 0x20 } else { 0x40 };
            b.extend([0, 1, fragment, 0, 64, protocol, 0, 0]);
        }
    }
    b.extend([src, dst].concat());
    if !v6 {
        let sum = checksum::internet(&b[14..34]);
        b[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    b.extend(upper);
    if r.one_in(2) {
        b.resize(b.len().max(60), 0xa5);
    }
    b
}

/// So many packets of hundred change their connection.
fn one_arm(hosts: u64, lively: u64, rounds: usize, seed: u64) -> Both {
    let mut b = Both::new(ONE_ARM, 4096);
    let mut r = Rng(seed);
    for round in 0..rounds {
        let ns = r.of(&[0, 0, 1_000_000, 100_000_000, 900_000_000]);
        let n = r.below(150) as usize + 1;
        let some: Vec<_> = (0..n)
            .map(|_| {
                let flags = match r.below(100) < lively {
                    true => r.of(&[0x02, 0x12, 0x11, 0x04, 0x14]),
                    false => r.of(&[0x10, 0x10, 0x18]),
                };
                either_way(&mut r, hosts, flags)
            })
            .collect();
        b.batch("in", &some, ns);
        if round % 20 == 19 {
            b.compare();
        }
    }
    b.compare();
    b
}

/// Both ways of flows in one group, in their order; packets that change their connection between others of it.
#[test]
fn packets_of_both_ways_are_inspected_together() {
    for (lively, seed) in [(0, 1), (2, 2), (2, 3), (20, 4)] {
        let b = one_arm(6, lively, 300, seed);
        let s = b.flow.stats();
        assert_eq!(s.refused, 0, "{:?}", b.flow.causes());
        let least = if lively < 10 { s.hits / 8 } else { 100 };
        assert!(
            s.inspected_in_batches + s.leased > least,
            "{s:?} {:?}",
            b.flow.not_composed()
        );
    }
}

/// More hosts than the table has room for: records are used again for other connections, so that hints are wrong.
#[test]
fn hints_of_connections_that_gave_way_are_found_out() {
    for seed in [5, 6] {
        let b = one_arm(60, 3, 400, seed);
        let s = b.flow.stats();
        assert_eq!(s.refused, 0, "{:?}", b.flow.causes());
        assert!(
            s.inspected_in_batches + s.leased > 100,
            "{s:?} {:?}",
            b.flow.not_composed()
        );
    }
}

/// All of it with the instructions of other processors.
#[test]
fn with_fewer_instructions() {
    both::with_fewer_instructions(module_path!());
}
