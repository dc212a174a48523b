//! Firewalls that track connections: the flow table against the program alone, packets both ways in batches, everything
//! that can be seen compared.

#[allow(dead_code)]
use crate::harness;

#[allow(dead_code)]
use crate::both;

use both::Both;
use harness::{Frame, Rng};

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
