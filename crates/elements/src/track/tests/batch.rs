//! Packets many at a time, against one by one.

use super::super::batch::Lets;
use super::super::class::{ConnClass, ConnState};
use super::super::headers::read_usual;
use super::super::table::{ConnTable, millis};
use super::{ACK, FIN, RST, Rig, SYN, icmp, packet, tcp, udp};
use crate::testing::cases;
use onefold_element::{Inspected, InspectedBatch, NO_HINT, State};
use onefold_packet::{Timestamp, checksum};
use proptest::prelude::*;

/// Everything that can be told apart of a table, to be read.
fn all_of(t: &ConnTable) -> String {
    let (records, noted) = (&t.records, &t.noted);
    format!("{} {:?} {records:?} {noted:?}", State::summary(t), t.totals)
}

/// Nothing of this can be told apart; as text, which is the same, it takes a hundred times longer.
fn is_same(a: &ConnTable, b: &ConnTable) -> bool {
    let given = |t: &ConnTable, i: u32| {
        let t_of = |x: &super::super::translations::Translation| (x.source(), x.leaves());
        (t.given.mark(i), t.translation(i).map(t_of))
    };
    (a.sweep, &a.totals) == (b.sweep, &b.totals)
        && (&a.records[..], &a.noted[..]) == (&b.records[..], &b.noted[..])
        && (0..)
            .zip(a.records.iter())
            .all(|(i, _)| given(a, i) == given(b, i))
}

/// What whoever knows where headers are hands over; `None` of what may not be handed over.
pub(super) fn inspected(net: &[u8]) -> Option<Inspected<'_>> {
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *net.get(at)?,
            *net.get(at + 1)?,
        ])))
    };
    let (header, total, protocol) = match net.first()? {
        0x45 if word(6)? & 0x3fff == 0 => (20, word(2)?, net[9]),
        b if b >> 4 == 6 => (40, word(4)? + 40, *net.get(6)?),
        _ => return None,
    };
    let (least, known) = match protocol {
        6 => (20, true),
        17 | 1 => (8, true),
        _ => (0, false),
    };
    (known && header + least <= total && total <= net.len()).then_some(Inspected {
        net,
        header,
        total,
        protocol,
        len: net.len(),
    })
}

/// Its upper layer and the pseudo header sum up to ones.
fn is_right(p: &Inspected<'_>) -> bool {
    let from = if p.header == 20 { 12 } else { 8 };
    let pseudo = u64::from(p.protocol) + (p.total - p.header) as u64;
    checksum::fold(checksum::sum(&p.net[from..p.total], pseudo)) == 0xffff
}

/// As many as go together, and the same one by one; how many went.
fn run_of(
    table: &mut ConnTable,
    all: &[(Vec<u8>, u32)],
    now: u64,
    first: fn(ConnClass) -> bool,
) -> usize {
    let packets: Vec<_> = all
        .iter()
        .map(|(b, _)| inspected(b).expect("headers"))
        .collect();
    let hints: Vec<u32> = all.iter().map(|(_, h)| *h).collect();
    let mut twin = table.clone();
    let right = (packets.iter().take(64).enumerate())
        .fold(0, |right, (i, p)| right | u64::from(is_right(p)) << i);
    let b = InspectedBatch {
        packets: &packets,
        hints: &hints,
        right: table.settings.checksum.then_some(right),
    };
    let n = table.refresh_batch(&b, now, Lets::of(first));
    let checksum = twin.settings.checksum;
    let one = |t: &mut ConnTable, i: usize| {
        let seen = read_usual(&packets[i].net[..packets[i].total], checksum)?;
        t.refresh(&seen, hints[i], now, first)
    };
    for (i, hint) in hints.iter().enumerate().take(n) {
        assert_eq!(one(&mut twin, i), Some(*hint), "packet {i} of {n}");
    }
    assert!(
        is_same(table, &twin),
        "{}\n{}",
        all_of(table),
        all_of(&twin)
    );
    if n < packets.len().min(64) {
        // of packets to whose flows a hint leads, all that need nothing else go
        assert_ne!(one(&mut twin, n), Some(hints[n]), "packet {n}");
    }
    n
}

const FIRST: [fn(ConnClass) -> bool; 4] = [
    |c| c.state == ConnState::Established,
    |c| c.assured,
    |c| c.reply,
    |c| !c.reply && c.assured,
];

/// A packet of one of few flows. Most are of the usual kinds.
pub(super) fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![6u8, 6, 6, 17, 17, 1]);
    let flags = prop::sample::select(vec![
        ACK,
        ACK,
        ACK,
        ACK,
        ACK | 8,
        ACK | 0xc0,
        ACK,
        SYN,
        SYN | ACK,
        FIN | ACK,
        RST,
        ACK | 32,
    ]);
    let damage = prop::option::weighted(0.1, (0usize..70, any::<u8>()));
    let ends = (prop::bool::weighted(0.3), 0u8..3, 0u8..3);
    let upper = (0u16..2, 0u16..2, 0u32..3, 0usize..30, 0usize..3, 0usize..9);
    (ends, kind, flags, upper, damage).prop_map(|(ends, kind, flags, upper, damage)| {
        let ((v6, src, dst), (sport, dport, number, payload, padding, sum)) = (ends, upper);
        let upper = match kind {
            17 => udp((sport, dport)),
            6 => tcp((sport, dport), flags, number, number + 1, payload),
            _ => icmp(8, sport),
        };
        let mut b = packet(v6, (src, dst), kind, &upper);
        if kind == 17 && sum == 0 {
            let at = b.len() - upper.len() + 6;
            b[at..at + 2].fill(0);
        }
        b.resize(b.len() + padding * 7, 0xa5);
        if let Some((at, x)) = damage
            && let Some(byte) = b.get_mut(at)
        {
            *byte = x;
        }
        b
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// Whatever comes, and whatever hints say: those that go together are changed as one by one, in their order, and
    /// the one behind them is one that cannot.
    #[test]
    fn runs_are_what_one_by_one_is(
        rounds in prop::collection::vec(
            (
                prop::collection::vec((any_packet(), 0u32..40), 1..40),
                prop::collection::vec((any_packet(), 0u32..40), 1..80),
                0u64..3_000,
                0usize..4,
            ),
            1..8,
        ),
        checksum: bool,
    ) {
        let mut r = Rig::new();
        r.table.settings.checksum = checksum;
        r.table.settings.udp = 4_000;
        r.table.settings.tcp[3] = 5_000;
        for (before, run, wait, first) in rounds {
            r.now += wait;
            for (b, _) in &before {
                r.pass(b);
            }
            let lead = |(b, x): (Vec<u8>, u32)| {
                inspected(&b)?;
                let mut copy = r.table.clone();
                let seen = read_usual(&b, checksum);
                let right = seen.and_then(|s| copy.refresh(&s, NO_HINT, r.now, |_| true));
                // most lead to where they should, where there is such a place
                let hint = match x {
                    0 => NO_HINT,
                    1 => u32::MAX,
                    2 => x,
                    _ => right.unwrap_or(x / 8),
                };
                Some((b, hint))
            };
            let run: Vec<_> = run.into_iter().filter_map(lead).collect();
            let mut at = 0;
            // Bound: each turn takes a packet
            while at < run.len() {
                at += run_of(&mut r.table, &run[at..], r.now, FIRST[first]);
                if let Some((b, _)) = run.get(at) {
                    r.pass(b);
                    at += 1;
                }
            }
        }
    }
}

const ESTABLISHED: fn(ConnClass) -> bool = |c| c.state == ConnState::Established;

/// A rig with an assured connection of TCP from host 1 to host 2, and UDP between the same that has been answered.
fn opened(v6: bool) -> (Rig, [Vec<u8>; 4]) {
    let mut r = Rig::new();
    let there = |flags| packet(v6, (1, 2), 6, &tcp((1000, 80), flags, 10, 20, 3));
    let back = |flags| packet(v6, (2, 1), 6, &tcp((80, 1000), flags, 20, 10, 5));
    let (ask, answer) = (
        packet(v6, (1, 2), 17, &udp((1000, 53))),
        packet(v6, (2, 1), 17, &udp((53, 1000))),
    );
    for b in [&there(SYN), &back(SYN | ACK), &there(ACK), &ask, &answer] {
        r.pass(b);
    }
    (r, [there(ACK), back(ACK), ask, answer])
}

/// Which of these go together, of hints that are right unless they are given.
fn went(r: &mut Rig, all: &[(&Vec<u8>, u32)]) -> usize {
    let all: Vec<_> = all.iter().map(|(b, h)| ((*b).clone(), *h)).collect();
    run_of(&mut r.table, &all, r.now, ESTABLISHED)
}

#[test]
fn both_ways_of_flows_inspect_batch() {
    for v6 in [false, true] {
        let (mut r, [a, b, c, d]) = opened(v6);
        let all = [(&a, 1), (&b, 1), (&c, 2), (&d, 2), (&b, 1), (&a, 1)];
        assert_eq!(went(&mut r, &all), 6);
        assert_eq!(r.table.totals.packets[1], 2 + 1 + 6);
        // frames are filled up behind the packet
        let mut padded = a.clone();
        padded.resize(a.len() + 11, 0xff);
        assert_eq!(went(&mut r, &[(&padded, 1), (&d, 2)]), 2);
    }
}

#[test]
fn hints_of_others_end_a_run() {
    let (mut r, [a, b, c, d]) = opened(false);
    for wrong in [NO_HINT, 2, 3, u32::MAX] {
        assert_eq!(went(&mut r, &[(&d, 2), (&a, wrong), (&b, 1)]), 1);
    }
    let other = packet(false, (1, 2), 6, &tcp((1001, 80), ACK, 1, 1, 0));
    let six = packet(true, (1, 2), 6, &tcp((1000, 80), ACK, 1, 1, 0));
    let myself = packet(false, (1, 1), 17, &udp((9, 9)));
    for b in [&myself, &myself] {
        r.pass(b);
    }
    for (wrong, hint) in [(&other, 1), (&six, 1), (&myself, 3)] {
        assert_eq!(went(&mut r, &[(&c, 2), (wrong, hint), (&b, 1)]), 1);
    }
}

#[test]
fn records_that_are_used_again_are_other_connections() {
    let (mut r, [a, _, c, d]) = opened(false);
    assert_eq!(went(&mut r, &[(&a, 1), (&d, 2)]), 2);
    // between two runs the connection of UDP ends, and another one has its record
    r.now += 31_000;
    let other = packet(false, (5, 2), 17, &udp((1000, 53)));
    let back = packet(false, (2, 5), 17, &udp((53, 1000)));
    assert_eq!(went(&mut r, &[(&a, 1), (&c, 2)]), 1);
    r.pass(&other);
    r.pass(&back);
    assert_eq!(r.table.records.len(), 2, "the record is used again");
    assert_eq!(went(&mut r, &[(&a, 1), (&c, 2), (&other, 2)]), 1);
    assert_eq!(went(&mut r, &[(&a, 1), (&other, 2), (&back, 2)]), 3);
    r.table.flush();
    assert_eq!(went(&mut r, &[(&a, 1), (&other, 2)]), 0);
}

#[test]
fn what_changes_a_connection_ends_a_run() {
    let flags = [
        FIN | ACK,
        RST,
        RST | ACK,
        SYN,
        SYN | ACK,
        0,
        FIN | SYN,
        ACK | FIN | 32,
        ACK | 32,
    ];
    for f in flags {
        let (mut r, [a, b, c, _]) = opened(false);
        let end = packet(false, (1, 2), 6, &tcp((1000, 80), f, 13, 25, 0));
        assert_eq!(went(&mut r, &[(&a, 1), (&c, 2), (&end, 1), (&b, 1)]), 2);
        r.pass(&end);
        let stays = !matches!(f, 0x11 | RST | 0x14 | 0x31);
        assert_eq!(went(&mut r, &[(&b, 1)]), usize::from(stays), "{f:x}");
    }
    // UDP becomes a stream: an assured connection from that packet on
    let (mut r, [a, _, c, d]) = opened(false);
    r.now += 2_001;
    assert_eq!(went(&mut r, &[(&a, 1), (&c, 2), (&d, 2)]), 1);
    r.pass(&c);
    assert_eq!(went(&mut r, &[(&a, 1), (&c, 2), (&d, 2)]), 3);
}

#[test]
fn what_is_wrong_or_over_ends_a_run() {
    let (mut r, [a, b, c, d]) = opened(false);
    let damaged = |of: &[u8], at: usize, x: u8| {
        let mut b = of.to_vec();
        b[at] ^= x;
        b
    };
    // payload and checksum of TCP, its header's length, UDP's length and payload
    for wrong in [
        damaged(&a, 42, 1),
        damaged(&a, 36, 4),
        damaged(&a, 32, 0x10),
        damaged(&a, 32, 0xf0),
    ] {
        assert_eq!(went(&mut r, &[(&d, 2), (&wrong, 1), (&b, 1)]), 1);
    }
    for wrong in [
        damaged(&c, 25, 1),
        damaged(&c, 25, 0x0f),
        damaged(&c, 29, 1),
    ] {
        assert_eq!(went(&mut r, &[(&a, 1), (&wrong, 2), (&d, 2)]), 1);
    }
    // UDP without a checksum
    let mut without = c.clone();
    without[26..28].fill(0);
    assert_eq!(went(&mut r, &[(&without, 2), (&a, 1)]), 2);
    without[29] ^= 1;
    assert_eq!(went(&mut r, &[(&without, 2), (&a, 1)]), 2);
    r.table.settings.checksum = false;
    assert_eq!(
        went(
            &mut r,
            &[(&damaged(&a, 42, 1), 1), (&damaged(&c, 29, 1), 2)]
        ),
        2
    );
    // a connection that has ended, and is still in the table
    r.now += 31_000;
    assert_eq!(went(&mut r, &[(&a, 1), (&c, 2), (&b, 1)]), 1);
}

#[test]
fn elements_that_want_to_know_of_each_packet_are_told() {
    let (mut r, [a, ..]) = opened(false);
    r.table.settings.marks = true;
    assert_eq!(went(&mut r, &[(&a, 1)]), 0);
    (r.table.settings.marks, r.table.settings.renames) = (false, true);
    assert_eq!(went(&mut r, &[(&a, 1)]), 0);
    // who translates is told of those that are handed over, and tells what becomes of the others
    (r.table.settings.renames, r.table.settings.translates) = (false, true);
    assert_eq!(went(&mut r, &[(&a, 1)]), 1);
    assert_eq!(millis(Timestamp(-1)), 0);
}

#[test]
fn nothing_goes_unless_checksums_that_count_are_told() {
    let (mut r, [a, ..]) = opened(false);
    let packets = [inspected(&a).expect("headers")];
    let b = InspectedBatch {
        packets: &packets,
        hints: &[1],
        right: None,
    };
    let lets = Lets::of(ESTABLISHED);
    assert_eq!(r.table.refresh_batch(&b, r.now, lets), 0);
    r.table.settings.checksum = false;
    assert_eq!(r.table.refresh_batch(&b, r.now, lets), 1);
}
