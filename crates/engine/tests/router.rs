//! A router in both engines, on packets of which many are exceptions: what leaves, where, with which annotations, and in which
//! order within a flow.

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Anno, Timestamp, checksum};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A router whose routes split a batch, with or without combined elements, and what stands around one in a chain.
fn router(combined: bool, routes: usize) -> Graph {
    let mut list = String::new();
    for r in 0..routes {
        let _ = write!(
            list,
            "{}10.{r}.0.0/16 {}",
            if r > 0 { ", " } else { "" },
            r % 4
        );
    }
    let mut text = format!(
        "Idle -> first :: NFLink(ETHER 0:0:0:0:0:1) -> n :: Counter
         -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
         c[0] -> ToDevice(arp); c[1] -> EtherMirror -> ToDevice(arp); c[3] -> Discard;
         rt :: RadixIPLookup({list});\n"
    );
    text.push_str(match combined {
        true => "c[2] -> IPInputCombo(1) -> f :: IPFilter(deny dst port 66, allow all) -> rt;\n",
        false => {
            "c[2] -> Paint(1) -> Strip(14) -> CheckIPHeader -> f :: IPFilter(deny dst port 66, allow all) -> rt;\n"
        }
    });
    for r in 0..4 {
        let _ = match combined {
            true => writeln!(
                text,
                "rt[{r}] -> o{r} :: IPOutputCombo({r}, 10.{r}.0.1, 100) -> e{r} :: EtherEncap(0x0800, 0:0:0:0:1:{r}, 0:0:0:0:2:{r})
                 -> Counter -> NFLink -> ToDevice(d{r});
                 o{r}[1] -> ICMPError(10.{r}.0.1, redirect, host) -> rt;
                 o{r}[2] -> ICMPError(10.{r}.0.1, parameterproblem) -> rt;
                 o{r}[3] -> ICMPError(10.{r}.0.1, timeexceeded) -> rt;
                 o{r}[4] -> fr{r} :: IPFragmenter(100) -> e{r}; fr{r}[1] -> Discard;"
            ),
            false => writeln!(
                text,
                "rt[{r}] -> DropBroadcasts -> cp{r} :: PaintTee({r}) -> gio{r} :: IPGWOptions(10.{r}.0.1)
                 -> FixIPSrc(10.{r}.0.1) -> dt{r} :: DecIPTTL -> fr{r} :: IPFragmenter(100)
                 -> EtherEncap(0x0800, 0:0:0:0:1:{r}, 0:0:0:0:2:{r}) -> Counter -> ToDevice(d{r});
                 cp{r}[1] -> ICMPError(10.{r}.0.1, redirect, host) -> rt;
                 gio{r}[1] -> ICMPError(10.{r}.0.1, parameterproblem) -> rt;
                 dt{r}[1] -> ICMPError(10.{r}.0.1, timeexceeded) -> rt;
                 fr{r}[1] -> ICMPError(10.{r}.0.1, unreachable, needfrag) -> rt;"
            ),
        };
    }
    let flat = onefold_click::load(text.as_bytes(), "router", &[], &Default::default())
        .unwrap_or_else(|e| panic!("{text}: {e:?}"));
    Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A frame; `kind` says what is wrong with it, mostly nothing. The identification is its number.
fn frame(number: u16, kind: u8, route: u8, flow: u8, len: u8) -> Vec<u8> {
    let options: &[u8] = match kind {
        9 => &[7, 7, 4, 0, 0, 0, 0, 0],
        10 => &[7, 9, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        _ => &[],
    };
    let hlen = 20 + options.len();
    let mut p = vec![0u8; 14 + hlen + 8 + usize::from(len)];
    let total = (p.len() - 14) as u16;
    p[..6].copy_from_slice(match kind {
        4 => &[0xff; 6],
        5 => &[1, 0, 0x5e, 0, 0, 1],
        _ => &[0, 0, 0, 0, 0, 1],
    });
    p[12..14].copy_from_slice(match kind {
        6 | 7 => &[8, 6],
        8 => &[0x86, 0xdd],
        _ => &[8, 0],
    });
    p[14] = 0x40 | (hlen / 4) as u8;
    p[16..18].copy_from_slice(&total.to_be_bytes());
    p[18..20].copy_from_slice(&number.to_be_bytes());
    p[20] = if kind == 12 { 0x40 } else { 0 };
    p[22] = if kind == 3 { 1 } else { 64 };
    p[23] = 17;
    p[26..30].copy_from_slice(&[10, flow % 12, 9, 9]);
    p[30..34].copy_from_slice(&[10, route, 1, 1]);
    p[34..34 + options.len()].copy_from_slice(options);
    let l4 = 14 + hlen;
    p[l4 + 3] = if kind == 11 { 66 } else { 53 };
    if kind == 6 || kind == 7 {
        p[20..22].copy_from_slice(&[0, kind - 5]);
    } else {
        p[24..26].fill(0);
        let sum = checksum::internet(&p[14..14 + hlen]);
        p[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    match kind {
        1 => p[25] ^= 1,
        2 => p.truncate(usize::from(len) % 40),
        13 => p.extend([0xee; 9]),
        _ => {}
    }
    p
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let kind = prop_oneof![3 => Just(0u8), 1 => 0u8..14];
    let len = prop_oneof![4 => 0u8..40, 1 => 60u8..250];
    let one = (kind, 0u8..20, 0u8..4, len);
    proptest::collection::vec(one, 1..150).prop_map(|all| {
        (all.into_iter().zip(0u16..))
            .map(|((k, r, f, l), i)| frame(i, k, r, f, l))
            .collect()
    })
}

/// A packet that left: sink, bytes, annotations.
type Sent = (String, Vec<u8>, Anno);

fn sent(g: &mut Graph, all: &mut Vec<Sent>) {
    for (e, p) in g.take_transmitted() {
        all.push((g.name(e).to_string(), p.data().to_vec(), p.anno));
        g.recycle(p);
    }
}

/// What may depend on the order across ways: the identification that a packet made here was given. Its checksum follows.
fn without_own_ids(s: &Sent) -> (String, Vec<u8>, [u8; 48]) {
    let mut b = s.1.clone();
    if b.len() >= 34 && b[23] == 1 {
        b[18..20].fill(0);
        b[24..26].fill(0);
    }
    (s.0.clone(), b, *s.2.bytes())
}

/// Packets in the order in which they left, by sink, flow and what decides on their way.
fn ways(all: &[Sent]) -> BTreeMap<(String, Vec<u8>), Vec<Vec<u8>>> {
    let mut m: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (sink, b, _) in all {
        if b.len() >= 34 && b[12..14] == [8, 0] && b[23] != 1 {
            let mut key = b[26..34].to_vec();
            // header length, fragment or not, time to live
            key.extend([b[14], u8::from(b[20] & 0x3f | b[21] != 0), b[22]]);
            m.entry((sink.clone(), key)).or_default().push(b.clone());
        }
    }
    m
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn batches_leave_as_single_packets_do(
        combined in any::<bool>(),
        // few routes are compared one by one, many are looked up in a tree
        routes in prop_oneof![Just(10usize), Just(16), Just(20)],
        packets in frames(),
        batch in 1usize..70,
    ) {
        let (mut scalar, mut batched) = (router(combined, routes), router(combined, routes));
        let first = scalar.find("first").expect("it is declared");
        let (mut one, mut many) = (Vec::new(), Vec::new());
        for p in &packets {
            scalar.inject(first, p, Timestamp::ZERO);
            sent(&mut scalar, &mut one);
        }
        for some in packets.chunks(batch) {
            let mut list: Vec<_> = some.iter().map(|p| batched.make_packet(p)).collect();
            batched.inject_batch(first, &mut list, Timestamp::ZERO);
            prop_assert!(list.is_empty());
            sent(&mut batched, &mut many);
        }
        prop_assert!(scalar.totals().balanced());
        prop_assert_eq!(scalar.totals(), batched.totals());
        prop_assert_eq!(scalar.drops(), batched.drops());
        prop_assert_eq!(scalar.state_summary(), batched.state_summary());
        prop_assert_eq!(ways(&one), ways(&many));
        let sorted = |all: &[Sent]| {
            let mut v: Vec<_> = all.iter().map(without_own_ids).collect();
            v.sort();
            v
        };
        let (one, many) = (sorted(&one), sorted(&many));
        prop_assert_eq!(one.len(), many.len());
        for (a, b) in one.iter().zip(&many) {
            prop_assert_eq!(a, b);
        }
    }
}

/// The routes of the test are really both: compared one by one, and in a tree.
#[test]
fn every_route_is_found() {
    for routes in [1usize, 10, 16, 17, 20] {
        let mut g = router(false, routes);
        let first = g.find("first").expect("it is declared");
        for r in 0..20u8 {
            g.inject(first, &frame(u16::from(r), 0, r, 0, 30), Timestamp::ZERO);
        }
        let mut all = Vec::new();
        sent(&mut g, &mut all);
        // what came in where it goes out is answered with a redirect, too
        all.retain(|(_, b, _)| b[23] == 17);
        assert_eq!(all.len(), routes);
        for (sink, b, _) in &all {
            let device = g.find(sink).map(|e| g.class(e).to_string());
            assert_eq!(device.as_deref(), Some("ToDevice"));
            assert_eq!(b[11], b[31] % 4, "{sink}");
        }
    }
}
