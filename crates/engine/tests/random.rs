//! Random graphs and random packets: packets are conserved, nothing panics, and both engines do the same.

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::Timestamp;
use proptest::prelude::*;

/// A piece of a graph that takes packets at its first element and discards everything in the end.
fn piece() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("Discard".to_string()),
        Just("Counter -> Discard".to_string()),
        Just("ToDevice(a)".to_string()),
        Just("Null -> ToDevice(b)".to_string()),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let one = prop_oneof![
            Just("Null"),
            Just("Counter"),
            Just("Strip(14)"),
            Just("Unstrip(4)"),
            Just("Paint(3)"),
            Just("CheckIPHeader"),
            Just("DecIPTTL"),
            Just("DropBroadcasts"),
            Just("FixIPSrc(1.2.3.4)"),
            Just("EtherEncap(0x0800, 0:0:0:0:0:1, 0:0:0:0:0:2)"),
            Just("Queue(1000) -> Unqueue"),
            Just("IPFragmenter(68)"),
            Just("Queue(2) -> Unqueue"),
            Just("Queue(3) -> DelayUnqueue(0.001)"),
            Just("Queue(3) -> RatedUnqueue(1000)"),
            Just("ICMPError(1.2.3.4, timeexceeded)"),
            Just("IPRewriter(pattern 1.2.3.4 1024-65535# - - 0 0)"),
            Just("RatedSplitter(500)"),
            Just("SetTimestamp"),
        ];
        let two = prop_oneof![
            Just("Tee"),
            Just("Classifier(12/0800, -)"),
            Just("CheckIPHeader(14)"),
            Just("DecIPTTL"),
            Just("HashSwitch(0, 4)"),
            Just("PaintTee(3)"),
            Just("Switch(1)"),
            Just("RoundRobinSwitch"),
            Just("RandomSwitch"),
        ];
        prop_oneof![
            (one, inner.clone()).prop_map(|(e, rest)| format!("{e} -> {rest}")),
            (two, inner.clone(), inner)
                .prop_map(|(e, a, b)| format!("{{ input -> x :: {e}; x -> {a}; x[1] -> {b}; }}")),
        ]
    })
}

fn build(piece: &str) -> Graph {
    let text = format!("Idle -> first :: Null -> {piece};");
    let flat = onefold_click::load(text.as_bytes(), "random", &[], &Default::default())
        .unwrap_or_else(|e| panic!("{text}: {e:?}"));
    Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Arbitrary bytes, or something like an IPv4 frame with arbitrary damage.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any::<[u8; 8]>(), 0u8..4, 0usize..200).prop_map(|(v, ttl, len)| {
        let mut p = vec![v[0]; 34 + len];
        p[12..14].copy_from_slice(&[8, 0]);
        p[14] = 0x45;
        p[16..18].copy_from_slice(&((20 + len) as u16).to_be_bytes());
        p[20..22].copy_from_slice(&[0, 0]);
        p[22] = ttl;
        p[23] = 17;
        p[24..26].copy_from_slice(&[0, 0]);
        p[26..34].copy_from_slice(&v);
        let sum = onefold_packet::checksum::internet(&p[14..34]);
        p[24..26].copy_from_slice(&sum.to_be_bytes());
        p
    });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..120), frame]
}

/// What has left: where, when, and its bytes.
type Left = Vec<(u32, Timestamp, Vec<u8>)>;
/// Account, drops, handlers and what they say, what has left.
type Seen = (
    onefold_engine::Totals,
    Vec<onefold_engine::DropCount>,
    Vec<(String, String)>,
    Left,
);

/// Everything that can be seen of a run.
fn outcome(g: &mut Graph) -> Seen {
    let left = g.take_transmitted().into_iter();
    let left = left.map(|(e, p)| (e.0, p.anno.timestamp, p.data().to_vec()));
    let left = left.collect();
    (g.totals(), g.drops(), g.state_summary(), left)
}

/// A task that goes to sleep without having done anything says nothing about the others: a queue is emptied although the task
/// of an empty one falls asleep meanwhile.
#[test]
fn a_task_that_falls_asleep_ends_nobody_elses_work() {
    let piece = "{ input -> x :: PaintTee(3); x -> Queue(1000) -> Unqueue -> Discard; \
        x[1] -> Null -> Queue(1000) -> Unqueue -> Discard; }";
    for n in 1..60 {
        let mut g = build(piece);
        let first = g.find("first").expect("it is declared");
        let mut batch: Vec<_> = (0..n).map(|_| g.make_packet(&[0; 60])).collect();
        g.inject_batch(first, &mut batch, Timestamp::ZERO);
        assert_eq!((g.totals().dropped, g.totals().held), (n, 0));
    }
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn engines_agree_and_conserve(
        text in piece(),
        packets in proptest::collection::vec(packet(), 1..40),
        batch in 1usize..40,
        steps in proptest::collection::vec(0usize..7, 1..40),
    ) {
        let (mut scalar, mut batched) = (build(&text), build(&text));
        let first = scalar.find("first").expect("it is declared");
        let mut now = Timestamp::ZERO;
        let mut arrivals = Vec::new();
        for (p, step) in packets.iter().zip(steps.iter().cycle()) {
            now = now + Timestamp([0, 0, 700, 90_000, 1_700_000, 40_000_000, 3_000_000_000][*step]);
            arrivals.push((p, now));
            scalar.inject(first, p, now);
        }
        for some in arrivals.chunks(batch) {
            let mut list = Vec::new();
            for (p, at) in some {
                let mut p = batched.make_packet(p);
                p.anno.timestamp = *at;
                list.push(p);
            }
            batched.inject_stamped(first, &mut list);
            prop_assert!(list.is_empty());
        }
        let (a, b) = (outcome(&mut scalar), outcome(&mut batched));
        prop_assert!(a.0.balanced(), "{:?}", a.0);
        prop_assert_eq!(a.0.packets_in, packets.len() as u64);
        prop_assert_eq!(a, b);
    }

    #[test]
    fn a_fork_does_what_its_original_does(
        text in piece(),
        before in proptest::collection::vec(packet(), 0..10),
        after in proptest::collection::vec(packet(), 1..10),
    ) {
        let mut g = build(&text);
        let first = g.find("first").expect("it is declared");
        for p in &before {
            g.inject(first, p, Timestamp::ZERO);
        }
        // what has left is not in a copy
        g.take_transmitted();
        let mut f = g.fork();
        for p in &after {
            g.inject(first, p, Timestamp::ZERO);
            f.inject(first, p, Timestamp::ZERO);
        }
        prop_assert_eq!(outcome(&mut g), outcome(&mut f));
        prop_assert_eq!(g.state_summary(), f.state_summary());
    }
}
