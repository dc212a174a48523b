//! Connections whose addresses are translated: whatever comes, in whatever order, is what it is in the reference graph;
//! packets, counts, and everything that the tracker remembers.

use crate::harness::Rng;
use crate::leases::{Levels, Mix, packet, whole};

/// What is established and assured has a way of its own; what else is of a connection shares one with what is invalid,
/// which is let pass. First packets are of two ports, some get another destination, and all of
/// them another source, some from so few ports that these are used up. `CAPACITY` and time-outs are small.
const CHAIN: &str = "
    connections :: ConnTable(CAPACITY 24, UDP 2, UDP_STREAM 4, TCP_ESTABLISHED 5, TCP_CLOSE 1, TCP_FIN_WAIT 1);
    out :: ToDevice(out); back :: ToDevice(back);
    FromDevice(in) -> Strip(14) -> CheckIPHeader
      -> up :: ConnTrack(connections, established.original.seen-reply.assured.confirmed.snat
          established.original.seen-reply.assured.confirmed.snat.dnat, established related invalid, new, -);
    up [0] -> ConnDstNat(connections) -> n :: Counter -> known :: ConnSrcNat(connections)
      -> passed :: Unstrip(14) -> out;
    up [1] -> mixed :: Counter -> ConnDstNat(connections) -> known;
    up [2] -> rules :: IPClassifier(dst port 53 or dst port 80, -);
    rules [0] -> pre :: IPClassifier(src host 10.0.0.1, -);
    dst :: ConnDstNat(connections, 10.0.0.77 8080);
    pre [0] -> [1] dst; pre [1] -> dst;
    dst -> DecIPTTL -> post :: IPClassifier(udp, src port 1000, -);
    src :: ConnSrcNat(connections, 192.0.2.1 2000-2003, 192.0.2.2-192.0.2.3 random);
    post [0] -> [1] src; post [1] -> src; post [2] -> [2] src;
    src -> ConnConfirm(connections) -> Unstrip(14) -> out;
    rules [1] -> Discard; up [3] -> bad :: Counter -> Discard;
    FromDevice(other) -> Strip(14) -> CheckIPHeader
      -> down :: ConnTrack(connections, established, related invalid, -);
    down [0] -> ConnDstNat(connections) -> DecIPTTL -> undo :: ConnSrcNat(connections)
      -> EtherEncap(0x0800, 02:00:00:00:00:07, 02:00:00:00:00:08) -> back;
    down [1] -> ConnDstNat(connections) -> undo; down [2] -> Discard;";

/// The answer: addresses and ports exchanged, which no checksum minds.
fn answer(mut f: Vec<u8>) -> Vec<u8> {
    for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
        for i in 0..n {
            f.swap(x + i, y + i);
        }
    }
    f
}

/// The levels behind it, and how many packets got another source.
fn run(mix: Mix, rounds: usize, seed: u64) -> (Levels, usize) {
    run_chain(CHAIN, mix, rounds, seed)
}

fn run_chain(chain: &str, mix: Mix, rounds: usize, seed: u64) -> (Levels, usize) {
    let mut l = Levels::new(chain);
    let mut r = Rng(seed);
    let (mut replies, mut translated): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
    for round in 0..rounds {
        let ns = r.of(&[0, 0, 0, 1_000_000, 100_000_000, 900_000_000, 2_100_000_000]);
        let n = r.below(150) as usize + 1;
        let back = r.one_in(2) && !replies.is_empty();
        let some: Vec<_> = (0..n)
            .map(|_| match back && !r.one_in(8) {
                true => replies[r.below(replies.len() as u64) as usize].clone(),
                false => packet(&mut r, mix, back),
            })
            .collect();
        let left = l.batch(if back { "other" } else { "in" }, &some, ns);
        for (_, f) in left.into_iter().filter(|(_, f)| !back && f.len() >= 38) {
            translated += usize::from(f[26..29] == [192, 0, 2]);
            match replies.len() < 60 {
                true => replies.push(answer(f)),
                false => replies[r.below(60) as usize] = answer(f),
            }
        }
        if round + 20 == rounds && r.one_in(2) {
            l.write("connections.flush", "");
        }
        if round % 10 == 9 {
            l.compare();
        }
    }
    l.compare();
    (l, translated)
}

/// Of so many packets in a thousand at least, leases must have taken care.
fn check(mix: Mix, rounds: usize, seed: u64, least: u64) {
    let (l, translated) = run(mix, rounds, seed);
    let s = l.batches.stats();
    assert_eq!(s.refused, 0, "{:?}", l.batches.causes());
    assert!(
        s.leased * 1000 >= least * s.hits,
        "{s:?} {:?}",
        l.batches.not_composed()
    );
    assert!(translated > 100);
}

const QUIET: Mix = Mix {
    hosts: 6,
    lively: 2,
    damaged: 0,
    icmp: 0,
};

#[test]
fn packets_of_translated_connections_are_written_under_leases() {
    for seed in 1..4 {
        check(QUIET, 150, seed, 100);
    }
}

#[test]
fn what_ends_connections_ends_their_translation() {
    for (lively, seed) in [(5, 11), (20, 12), (20, 13), (60, 14)] {
        check(Mix { lively, ..QUIET }, 150, seed, 1);
    }
}

#[test]
fn what_is_wrong_is_translated_by_the_elements() {
    for (damaged, icmp, seed) in [(3, 2, 21), (20, 5, 22), (30, 30, 23)] {
        let mix = Mix {
            damaged,
            icmp,
            lively: 4,
            ..QUIET
        };
        check(mix, 150, seed, 0);
    }
}

/// More connections than the table has room for, and than there are ports: records, ends and leases are used again.
#[test]
fn ends_of_connections_that_gave_way_are_given_to_others() {
    for (hosts, lively, seed) in [(14, 3, 31), (40, 3, 32), (40, 15, 33)] {
        let mix = Mix {
            hosts,
            lively,
            damaged: 2,
            icmp: 2,
        };
        check(mix, 200, seed, 0);
    }
}

/// A ConnSrcNat that confirms is ConnSrcNat and ConnConfirm: whatever comes, the same packets leave, also where the
/// table is full, no port is free, or a packet is another one than it says.
#[test]
fn a_new_source_and_its_connection_in_one() {
    let one = CHAIN
        .replace("random);", "random, CONFIRM true);")
        .replace("src -> ConnConfirm(connections)", "src");
    let (mut full, mut translated) = (0, 0);
    for (hosts, lively, damaged, seed) in [(6, 2, 0, 61), (14, 20, 3, 62), (40, 10, 20, 63)] {
        let mut both = [CHAIN, &one].map(Levels::new);
        let mix = Mix {
            hosts,
            lively,
            damaged,
            icmp: 2,
        };
        let mut r = Rng(seed);
        let mut replies: Vec<Vec<u8>> = Vec::new();
        for round in 0..120 {
            let ns = r.of(&[0, 0, 1_000_000, 900_000_000, 2_100_000_000]);
            let back = r.one_in(3) && !replies.is_empty();
            let n = r.below(100) as usize + 1;
            let some: Vec<_> = (0..n)
                .map(|_| match back && !r.one_in(8) {
                    true => replies[r.below(replies.len() as u64) as usize].clone(),
                    false => packet(&mut r, mix, back),
                })
                .collect();
            let device = if back { "other" } else { "in" };
            let [left, right] = both.each_mut().map(|l| l.batch(device, &some, ns));
            assert!(left == right, "round {round} of seed {seed}");
            full += usize::from(left.len() < some.len() / 2);
            let news = left.into_iter().filter(|(_, f)| !back && f.len() >= 38);
            for (_, f) in news.filter(|(_, f)| f[26..29] == [192, 0, 2]) {
                translated += 1;
                match replies.len() < 60 {
                    true => replies.push(answer(f)),
                    false => replies[r.below(60) as usize] = answer(f),
                }
            }
        }
        for mut l in both {
            l.compare();
            assert_eq!(l.batches.stats().refused, 0, "{:?}", l.batches.causes());
        }
    }
    assert!(translated > 1000 && full > 10, "{translated} {full}");
}

/// A UDP checksum that comes to zero is written as all ones (RFC 768): of a first packet, of one without an entry, and
/// of packets under a lease.
#[test]
fn a_checksum_of_udp_that_comes_to_zero() {
    let mut l = Levels::new(CHAIN);
    let mut r = Rng(5);
    let ends = ([10, 0, 0, 3], [10, 0, 0, 200]);
    let mut datagram = |word: u16| loop {
        let b = [&[7, 209, 0, 53, 0, 0, 0, 0][..], &word.to_be_bytes()].concat();
        let b = whole(&mut r, ends, 17, &b);
        if b[40..42] != [0, 0] {
            return b;
        }
    };
    let first = l.batch("in", &[datagram(0)], 0);
    // what a sum is short of all ones by, the word is given
    let short = u16::from_be_bytes([first[0].1[40], first[0].1[41]]);
    let zero = datagram(short);
    let left = l.batch("in", std::slice::from_ref(&zero), 1);
    assert_eq!(left[0].1[40..42], [0xff, 0xff]);
    l.batch("other", &[answer(first[0].1.clone())], 1_000);
    // it is assured when it has been a stream for a while
    for round in 0..20 {
        let ns = [1_500_000_000, 800_000_000, 1_000_000][usize::from(round).min(2)];
        let mut some: Vec<_> = (0..30).map(|i| datagram(i * 7 + round)).collect();
        some[9] = zero.clone();
        let left = l.batch("in", &some, ns);
        assert_eq!((left.len(), &left[9].1[40..42]), (30, &[0xff, 0xff][..]));
    }
    assert!(l.batches.stats().leased > 100, "{:?}", l.batches.stats());
    l.compare();
    // and of the first packet of a connection
    l.write("connections.flush", "");
    let left = l.batch("in", &[zero], 1_000);
    assert_eq!(left[0].1[40..42], [0xff, 0xff]);
    l.compare();
}

/// What may come next of two hosts, the second of which would have the first one's port.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// Some packets of a host.
    Sends(u8),
    /// As many answers to where its last packet came from.
    Answered(u8),
    /// Packets with its connection's ends that are none of its packets: their checksums are wrong.
    Wrong(u8),
    /// So long that a connection is forgotten of which no other packet comes.
    Waits,
    /// Not so long.
    Lasts,
    /// All connections are forgotten.
    Forgets,
}

const EVENTS: [Event; 8] = [
    Event::Sends(3),
    Event::Sends(4),
    Event::Answered(3),
    Event::Answered(4),
    Event::Wrong(3),
    Event::Wrong(4),
    Event::Waits,
    Event::Forgets,
];

/// All sequences of three of these behind a connection that is assured and leased, executed together and one by one.
#[test]
fn all_short_sequences_of_what_may_come() {
    const DEPTH: u32 = 3;
    let fresh = Levels::new(CHAIN);
    let mut r = Rng(9);
    let datagrams = [3, 4].map(|host| {
        loop {
            let ends = ([10, 0, 0, host], [10, 0, 0, 200]);
            let b = whole(&mut r, ends, 17, &[7, 209, 0, 53, 0, 0, 0, 0, 1, 2]);
            if b[40..42] != [0, 0] {
                return b;
            }
        }
    });
    let of = |host: u8| usize::from(host - 3);
    let mut leased = 0;
    for sequence in 0..EVENTS.len().pow(DEPTH) {
        let mut l = fresh.again();
        let mut came_from: [Option<Vec<u8>>; 2] = [None, None];
        let (mut next, mut ns) = (sequence, 1_000);
        let events = (0..DEPTH).map(|_| {
            let event = EVENTS[next % EVENTS.len()];
            next /= EVENTS.len();
            event
        });
        let begin = [
            Event::Sends(3),
            Event::Answered(3),
            Event::Lasts,
            Event::Sends(3),
            Event::Lasts,
            Event::Sends(3),
            Event::Answered(3),
            Event::Sends(3),
            Event::Answered(3),
            Event::Sends(3),
            Event::Answered(3),
            Event::Sends(3),
        ];
        for event in begin.into_iter().chain(events) {
            match event {
                Event::Sends(host) => {
                    let some = vec![datagrams[of(host)].clone(); 5];
                    let left = l.batch("in", &some, ns);
                    came_from[of(host)] = left.last().map(|(_, f)| f.clone());
                }
                Event::Answered(host) => {
                    if let Some(f) = &came_from[of(host)] {
                        l.batch("other", &vec![answer(f.clone()); 5], ns);
                    }
                }
                Event::Wrong(host) => {
                    let mut wrong = datagrams[of(host)].clone();
                    wrong[43] ^= 1;
                    l.batch("in", &[wrong.clone(), wrong], ns);
                }
                Event::Waits => {
                    // up to when the next packet comes; streams stay for longer
                    ns = 4_100_000_000;
                    continue;
                }
                Event::Lasts => {
                    ns = 1_300_000_000;
                    continue;
                }
                Event::Forgets => l.write("connections.flush", ""),
            }
            ns = 1_000;
        }
        l.compare();
        leased += l.batches.stats().leased;
    }
    assert!(leased > 2_000, "{leased}");
}

/// A rewriter behind the tracker: what a leased flow's packets write stands on a binding of its own, which ends by
/// itself, and whose last use counts.
const REWRITER: &str = "
    connections :: ConnTable(CAPACITY 24, UDP 2, UDP_STREAM 4, TCP_ESTABLISHED 5, TCP_CLOSE 1, TCP_FIN_WAIT 1);
    nat :: IPRewriter(pattern 192.0.2.9 1024-1063 - - 0 1, drop, MAPPING_CAPACITY 30, UDP_TIMEOUT 3, UDP_GUARANTEE 1,
      TCP_TIMEOUT 3, TCP_GUARANTEE 1);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(tcp or udp, -);
    c [0] -> up :: ConnTrack(connections, established, new, -); c [1] -> Discard;
    up [0] -> n :: Counter -> nat; up [1] -> ConnConfirm(connections) -> nat; up [2] -> Discard;
    nat [0] -> Unstrip(14) -> ToDevice(out);
    FromDevice(other) -> Strip(14) -> CheckIPHeader -> d :: IPClassifier(tcp or udp, -);
    d [0] -> [1] nat; d [1] -> Discard;
    nat [1] -> down :: ConnTrack(connections, established, -); down [0] -> Unstrip(14) -> ToDevice(back);
    down [1] -> Discard;";

#[test]
fn leased_packets_use_the_bindings_of_rewriters() {
    let mut leased = 0;
    for (hosts, lively, seed) in [(5, 2, 51), (12, 5, 52), (30, 10, 53)] {
        let mix = Mix {
            hosts,
            lively,
            damaged: 1,
            icmp: 0,
        };
        let (l, translated) = run_chain(REWRITER, mix, 150, seed);
        assert_eq!(l.batches.stats().refused, 0, "{:?}", l.batches.causes());
        assert!(translated > 100);
        leased += l.batches.stats().leased;
    }
    assert!(leased > 500, "{leased}");
}
