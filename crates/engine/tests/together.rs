//! Batches all of whose packets are of known flows, on few ways: what is done for many of them at once is what is done for each.

use crate::both;
#[allow(dead_code)]
use crate::harness;

use both::Both;
use harness::{Frame, Rng};

/// A translator for 120 flows, and ways that differ in sink, act, and whose packets they count. One of them leaves without an Ethernet header.
const CHAIN: &str = "
    rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 0, CAPACITY 120, UDP_TIMEOUT 300, TCP_TIMEOUT 300, UDP_GUARANTEE 0, TCP_GUARANTEE 0);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> f :: IPFilter(allow dst port 53, allow dst port 80, deny all)
      -> rw -> DecIPTTL -> r :: StaticIPLookup(8.0.0.0/8 0, 9.0.0.0/8 1, 10.0.0.0/8 2);
    r [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(a);
    r [1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(b);
    r [2] -> ToDevice(c);";

/// Of flow `i`, on one of these ways: eight are plain, and from 8 on packets begin later than they did. What follows the IP packet is padding.
fn frame(i: u64, r: &mut Rng, ways: &[u64], lens: &[usize]) -> Vec<u8> {
    let way = ways[i as usize % ways.len()];
    let mut f = Frame {
        src: [10, 1, (i >> 8) as u8, i as u8],
        dst: [8 + (way >> 2) as u8, 1, 1, 1],
        proto: if way & 1 == 1 { 6 } else { 17 },
        ports: (3000, if way & 2 == 2 { 80 } else { 53 }),
        flags: 0x10,
        payload: r.of(lens),
        ..Frame::default()
    }
    .bytes();
    if r.one_in(4) && lens.len() > 1 {
        f.resize(f.len() + r.below(9) as usize, 0);
    }
    f
}

/// Batches of packets on these ways that are so long.
fn run(ways: &[u64], lens: &[usize], seed: u64) {
    let mut b = Both::new(CHAIN, 4096);
    let mut r = Rng(seed);
    let mut next = 0;
    for round in 0..400 {
        // a few new ones, for which the oldest ones have to go
        let n = r.below(5);
        let new: Vec<_> = (next..next + n)
            .map(|i| frame(i, &mut r, ways, lens))
            .collect();
        next += n;
        for _ in 0..3 {
            b.batch("in", &new, 1_000_000);
        }
        // many of those that are there; now and then one that is not there any more
        let oldest = next.saturating_sub(if r.one_in(3) { 130 } else { 60 });
        let n = r.below(57) + 8;
        let known: Vec<_> = (0..n)
            .map(|_| frame(oldest + r.below(next - oldest), &mut r, ways, lens))
            .collect();
        b.batch("in", &known, r.of(&[0, 1000, 1_000_000]));
        if round % 20 == 19 {
            b.compare();
        }
    }
    b.compare();
    let s = b.flow.stats();
    assert!(
        s.hits > 8000 && s.ended > 100 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
}

#[test]
fn of_one_way() {
    run(&[0], &[20], 0x1234_5678_9abc_def1);
}

#[test]
fn of_eight_ways_and_of_one_length() {
    run(&[0, 1, 2, 3, 4, 5, 6, 7], &[20], 0x1234_5678_9abc_def3);
}

#[test]
fn of_eight_ways_and_many_lengths() {
    run(
        &[0, 1, 2, 3, 4, 5, 6, 7],
        &[0, 3, 20, 20, 700],
        0x1234_5678_9abc_def5,
    );
}

#[test]
fn some_of_which_are_not_plain() {
    run(&[0, 5, 8], &[0, 20], 0x1234_5678_9abc_def7);
}

/// All of the above with the instructions of other processors, as in `flow.rs`.
#[test]
fn with_fewer_instructions() {
    both::with_fewer_instructions(module_path!());
}
