//! Whatever the structure, the answer is the tree's.

use super::*;
use crate::graph::topology::Edge;
use crate::program::code::{self, Code, Span};
use crate::program::headers::registers::{Bits, Source, write_bits};
use crate::program::headers::rows;
use crate::program::lookup::tree::{Builder, Condition};
use crate::program::rewrite::image;
use onefold_element::model::{AnnoKey, HeaderCheck, max_of};
use onefold_packet::Pkt;
use onefold_packet::checksum;
use onefold_synth::program::{EndAt, Slot};
use proptest::prelude::*;
use std::sync::Arc;

const ALL: [Structures; 8] = [
    Structures::Chosen,
    Structures::Tree,
    Structures::Only(Kind::Linear),
    Structures::Only(Kind::DecisionCode),
    Structures::Only(Kind::BitVector),
    Structures::Only(Kind::DecisionTree),
    Structures::Only(Kind::PrefixTrie),
    Structures::Only(Kind::TupleSpace),
];

/// What rules of the tests ask about; a slot is the first register.
fn dims() -> Vec<Dim> {
    let bits = |bit, bits| Dim::Bits { bit, bits };
    let check = |check| Dim::Check {
        check,
        at: 14,
        end: EndAt::Same,
    };
    vec![
        Dim::Slot(Slot(0)),
        Dim::Len,
        bits(0, 48),
        bits(96, 16),
        bits(112, 4),
        bits(116, 4),
        bits(128, 16),
        bits(163, 13),
        bits(176, 8),
        bits(184, 8),
        bits(208, 32),
        bits(240, 32),
        bits(288, 16),
        bits(376, 8),
        bits(176, 128),
        bits(-16, 16),
        bits(-20, 70),
        bits(470, 40),
        check(HeaderCheck::Ip4Fits),
        check(HeaderCheck::Ip4Checksum),
        check(HeaderCheck::UdpFits),
        check(HeaderCheck::UdpChecksum),
        Dim::Check {
            check: HeaderCheck::Ip4Checksum,
            at: 14,
            end: EndAt::Ip4(14),
        },
        Dim::Anno(AnnoKey { offset: 4, size: 4 }),
        Dim::PacketType,
    ]
}

fn width(d: Dim) -> u8 {
    match d {
        Dim::Slot(_) => 32,
        d => d.width(),
    }
}

fn source(d: Dim) -> Source {
    match d {
        Dim::Slot(_) => Source::Slot,
        Dim::Len => Source::Len,
        Dim::Bits { bit, bits } => Source::Bits(Bits::new(bit, bits)),
        Dim::Check { check, at, end } => Source::Check(check, at, end),
        Dim::Anno(a) => Source::Anno(a.offset, a.size),
        Dim::PacketType => Source::PacketType,
        Dim::Route { .. } => unreachable!("none is among dims()"),
    }
}

/// A good packet: what rules that forward take.
fn ordinary() -> Vec<u128> {
    let mut v = vec![0, 60, 0x0200_0000_0001, 0x0800, 4, 5, 46, 0, 64, 17];
    v.extend([
        0x0a01_0203,
        0x0a04_0506,
        443,
        0x10,
        0,
        0,
        0,
        0,
        1,
        1,
        1,
        1,
        1,
        0,
        0,
    ]);
    v
}

/// One stage, looked up in one kind of structure.
fn code(rules: &[Vec<Condition>], structures: Structures) -> Code {
    weighed(rules, structures, |i| [1.0, 0.1, 0.05][i % 3])
}

fn weighed(rules: &[Vec<Condition>], structures: Structures, weight: fn(usize) -> f32) -> Code {
    let dims = dims();
    let sources: Vec<Source> = dims.iter().map(|d| source(*d)).collect();
    let mut builder = Builder::default();
    let index = builder.stage(rules);
    let weights = (0..rules.len()).map(weight).collect();
    let made = StageRules::new(rules, weights, &sources);
    let of = made
        .fields
        .iter()
        .map(|f| dims[usize::from(f.reg)])
        .collect();
    let using = Using {
        structures,
        measure: false,
    };
    let lists: Vec<u16> = (1..18).chain(23..25).collect();
    let stage = code::Stage {
        at: Edge { node: 0, port: 0 },
        needs: Span {
            from: 0,
            to: lists.len() as u32,
        },
        index,
        lookup: Arc::new(Lookup::new(0, made, of, using)),
        reach: None,
        rules: 0,
        actions: 0,
    };
    Code {
        sources,
        slots: 1,
        classifier: builder.finish(),
        stages: vec![stage],
        lists,
        ..Code::default()
    }
}

/// A packet whose fields have these values where there is room for them; the sum is made right if it is to be.
fn packet(values: &[(usize, u128)], len: usize, headroom: usize, sum: bool, fill: u8) -> Pkt {
    let mut bytes = vec![fill; len];
    let dims = dims();
    let all = ordinary().into_iter().enumerate();
    let mut anno = 0;
    let mut kind = 0;
    let bare: Vec<(usize, u128)> = all.filter(|(i, _)| (2..14).contains(i)).collect();
    for (d, v) in bare.iter().chain(values) {
        match dims[*d] {
            Dim::Bits { bit, bits } if bit >= 0 => write_bits(&mut bytes, 0, bit, bits, *v),
            Dim::Anno(_) => anno = *v as u32,
            Dim::PacketType => kind = *v,
            _ => {}
        }
    }
    if sum && bytes.len() >= 34 {
        let end = (14 + usize::from(bytes[14] & 15).max(5) * 4).min(bytes.len());
        bytes[24..26].fill(0);
        let s = checksum::internet(&bytes[14..end]);
        bytes[24..26].copy_from_slice(&s.to_be_bytes());
    }
    // with room for a whole window, and without
    let mut p = Box::new(Packet::with_room(headroom, &bytes, headroom % 3 * 40));
    p.anno.bytes_mut()[4..8].copy_from_slice(&anno.to_be_bytes());
    if let Some(t) = image::packet_type((kind % 6) as u8) {
        p.anno.packet_type = t;
    }
    p
}

/// What structures say of packets, in batches and one by one, against the tree.
fn compare(rules: &[Vec<Condition>], packets: &[Pkt], slot: u128, sizes: &[usize]) {
    let oracle = code(rules, Structures::Tree);
    let mut regs = Regs::new(oracle.sources.len());
    regs.v[0] = slot;
    let want: Vec<u32> = (packets.iter())
        .map(|p| {
            regs.begin();
            tree(oracle.lookup_of(&oracle.stages[0]), &mut regs, p)
        })
        .collect();
    for kind in ALL {
        let code = code(rules, kind);
        let stage = &code.stages[0];
        let mut scratch = Scratch::new();
        let mut out = Vec::new();
        let mut rest = packets;
        let mut have: Vec<u32> = Vec::new();
        for n in sizes.iter().cycle() {
            let (now, deferred) = rest.split_at((*n).min(rest.len()));
            first_rules(
                code.lookup_of(stage),
                &mut regs,
                &mut scratch,
                now,
                &mut out,
            );
            have.extend(&out);
            rest = deferred;
            if rest.is_empty() {
                break;
            }
        }
        // sixteen that are treated alike, and sixteen one of which is another
        let mut rows: Vec<u32> = Vec::new();
        for (i, p) in packets.iter().enumerate().step_by(packets.len() / 24 + 1) {
            let other = (i * 7 + 1) % packets.len();
            let mut row = vec![p.clone(); rows::ROW + 1];
            for at in [None, Some(i % rows::ROW)] {
                if let Some(at) = at {
                    row[at] = packets[other].clone();
                }
                first_rules(
                    code.lookup_of(stage),
                    &mut regs,
                    &mut scratch,
                    &row,
                    &mut rows,
                );
                for (k, rule) in rows.iter().enumerate() {
                    let of = if at == Some(k) { other } else { i };
                    assert_eq!(*rule, want[of], "{kind:?} row {i} {k} {:x?}", row[k].data());
                }
            }
        }
        let report = &stage.lookup.views().report;
        for (i, p) in packets.iter().enumerate() {
            assert_eq!(have[i], want[i], "{kind:?} {i} {:x?} {report:#?}", p.data());
            regs.begin();
            let one = first_rule(code.lookup_of(stage), &mut regs, p);
            assert_eq!(one, want[i], "{kind:?} alone {i} {:x?}", p.data());
        }
    }
}

/// A value near what an ordinary packet has, or near the ends.
fn value(d: usize) -> impl Strategy<Value = u128> {
    let bits = width(dims()[d]);
    let (max, usual) = (max_of(bits), ordinary()[d] & max_of(bits));
    prop_oneof![
        4 => Just(usual),
        3 => (-2i8..=2).prop_map(move |n| usual.wrapping_add_signed(i128::from(n)) & max),
        1 => Just(max),
        1 => (0u128..4).prop_map(move |v| v.min(max)),
        2 => any::<u128>().prop_map(move |v| v & max),
    ]
}

fn set(d: usize) -> impl Strategy<Value = ValueSet> {
    let bits = width(dims()[d]);
    let one = (value(d), value(d), 0u8..4).prop_map(|(a, b, how)| match how {
        0 | 1 => (a, a),
        _ => (a.min(b), a.max(b)),
    });
    (proptest::collection::vec(one, 1..4), any::<bool>()).prop_map(move |(list, not)| {
        let s = ValueSet::from_intervals(list);
        if not { s.complement(bits) } else { s }
    })
}

/// Rules about some of the fields, most of which begin alike.
fn rules() -> impl Strategy<Value = Vec<Vec<Condition>>> {
    let n = dims().len();
    let condition = move |d: usize| {
        set(d).prop_map(move |set| Condition {
            reg: d as u16,
            bits: width(dims()[d]),
            set,
            lazy: matches!(dims()[d], Dim::Check { .. }),
        })
    };
    let start = proptest::collection::vec((1..14usize).prop_flat_map(condition), 0..6);
    let rule = proptest::collection::vec((0..n).prop_flat_map(condition), 0..5);
    (start, proptest::collection::vec((rule, 0..8usize), 0..60)).prop_map(|(start, rules)| {
        let whole = |(rule, keep): (Vec<Condition>, usize)| {
            let mut r: Vec<Condition> = start.iter().take(keep).cloned().collect();
            for c in rule {
                if r.iter().all(|have| have.reg != c.reg) {
                    r.push(c);
                }
            }
            r
        };
        rules.into_iter().map(whole).collect()
    })
}

fn packets() -> impl Strategy<Value = Vec<Pkt>> {
    let n = dims().len();
    let some = proptest::collection::vec((0..n).prop_flat_map(|d| (Just(d), value(d))), 0..5);
    let len = prop_oneof![3 => Just(60usize), 1 => 0usize..100, 1 => 30usize..60];
    let one = (some, len, 0usize..70, any::<bool>(), any::<u8>())
        .prop_map(|(v, len, room, sum, fill)| packet(&v, len, room, sum, fill));
    proptest::collection::vec(one, 1..80)
}

fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(96))]
    #[test]
    fn every_structure_says_what_the_tree_says(
        rules in rules(),
        mut packets in packets(),
        slot in 0u32..3,
        sizes in proptest::collection::vec(1usize..40, 1..4),
    ) {
        // what rules ask for at the ends of their sets
        for r in rules.iter().take(40) {
            for low in [false, true] {
                let values: Vec<(usize, u128)> = (r.iter())
                    .filter_map(|c| {
                        let (lo, hi) = *c.set.intervals().first()?;
                        Some((usize::from(c.reg), if low { lo } else { hi }))
                    })
                    .collect();
                packets.push(packet(&values, 60, 32, true, 0));
            }
        }
        compare(&rules, &packets, u128::from(slot), &sizes);
    }
}

/// Ordinary packets are taken sixteen at a time; what cannot be asked so is not.
#[test]
fn rows_are_taken_where_they_can_be() {
    let rules: Vec<Vec<Condition>> = (0..40u128)
        .map(|i| {
            vec![
                condition(3, ValueSet::from_intervals([(0x0800, 0x0800)])),
                condition(
                    9,
                    ValueSet::from_intervals([(6 + i % 2 * 11, 6 + i % 2 * 11)]),
                ),
                condition(11, ValueSet::from_intervals([(i * 100, i * 100 + 50)])),
            ]
        })
        .collect();
    let c = code(&rules, Structures::Chosen);
    let views = c.stages[0].lookup.views();
    let take = |headroom: usize, len: usize| {
        let row: Vec<Pkt> = (0..rows::ROW as u128)
            .map(|i| packet(&[(9, 17), (11, i * 100)], len, headroom, true, 0))
            .collect();
        let mut s = Scratch::new();
        let taken = views.views[0].take_row(0, row.first_chunk::<{ rows::ROW }>().unwrap(), &mut s);
        assert_eq!(s.at.len(), if taken { rows::ROW } else { 0 });
        taken
    };
    assert!(take(1, 60));
    assert!(!take(1, 30), "too short");
}

/// Keys that are read of sixteen packets are those of each.
#[test]
fn keys_of_a_row_are_those_of_its_packets() {
    let sets: Vec<ValueSet> = [(0, 5), (6, 6), (17, 40), (30, 200)]
        .map(|ends| ValueSet::from_intervals([ends]))
        .into();
    let field = |d: usize| rules::Field {
        reg: d as u16,
        bits: width(dims()[d]),
        source: source(dims()[d]),
        sets: sets.clone(),
    };
    let cells = cells::Cells::new(&sets, 8).unwrap();
    let mut c = columns::Columns::default();
    c.cells(&field(9), &cells, false);
    c.cells(&field(9), &cells, true);
    for d in [1, 2, 8, 10, 12] {
        c.field(&field(d));
    }
    let row: Vec<Pkt> = (0..rows::ROW as u128)
        .map(|i| {
            packet(
                &[(9, i * 13), (10, i << 20), (12, i * 999)],
                60 + i as usize,
                1,
                true,
                7,
            )
        })
        .collect();
    let regs = Regs::new(dims().len());
    let mut all = vec![0; c.words() * STRIDE];
    let of = Row::of(row.first_chunk().unwrap(), c.reach().unwrap()).unwrap();
    c.fill_row(&of, &mut all, STRIDE);
    let mut different = 0;
    for (i, p) in row.iter().enumerate() {
        let mut key = vec![0; c.words()];
        c.fill(p, p.buffer(), p.data_offset(), &regs, &mut key, 1);
        let got: Vec<u32> = (0..c.words()).map(|w| all[w * STRIDE + i]).collect();
        assert_eq!(got, key, "{i}");
        different += usize::from(key[..2] != [all[0], all[STRIDE]]);
    }
    assert!(different > 3, "cells differ");
    // what is no part of a packet's first bytes is read one by one
    c.field(&field(0));
    assert_eq!(c.reach(), None);
}

fn condition(reg: u16, set: ValueSet) -> Condition {
    let d = dims()[usize::from(reg)];
    Condition {
        reg,
        bits: width(d),
        set,
        lazy: matches!(d, Dim::Check { .. }),
    }
}

/// As a router has them: what all ask is in the guard, routes are behind it.
#[test]
fn routes_are_found_by_one_field() {
    let good = |ttl: ValueSet, route: ValueSet| {
        let mut r = vec![
            condition(1, ValueSet::range(34, u128::from(u32::MAX))),
            condition(3, ValueSet::one(0x0800)),
            condition(4, ValueSet::one(4)),
            condition(5, ValueSet::one(5)),
            condition(18, ValueSet::one(1)),
            condition(19, ValueSet::one(1)),
            condition(8, ttl),
        ];
        r.push(condition(11, route));
        r
    };
    let mut rules = Vec::new();
    for net in 0..64u128 {
        let route = ValueSet::prefix(0x0a00_0000 | net << 12, 20, 32);
        rules.push(good(ValueSet::range(0, 1), route.clone()));
        rules.push(good(ValueSet::range(2, 255), route));
    }
    rules.push(good(
        ValueSet::range(2, 255),
        ValueSet::range(0, 0x7fff_ffff),
    ));
    rules.push(vec![condition(1, ValueSet::range(0, 33))]);
    // a TTL that is too low is for others to see to
    let weight = |i| if i % 2 == 0 && i < 128 { 0.05 } else { 1.0 };
    let c = weighed(&rules, Structures::Chosen, weight);
    let report = &c.stages[0].lookup.views().report;
    let first = &report.views[0];
    assert_eq!(first.structure.fields.len(), 1, "{report:#?}");
    assert!(first.share > 0.5 && first.tests >= 5, "{report:#?}");
    let packets: Vec<Pkt> = (0..600u128)
        .map(|i| {
            let dst = 0x0a00_0000 | (i % 67) << 12 | i;
            let ttl = if i % 7 == 0 { 1 } else { 64 };
            packet(
                &[(11, dst), (8, ttl)],
                60 - (i % 5 == 0) as usize * 30,
                28,
                i % 11 > 0,
                0,
            )
        })
        .collect();
    compare(&rules, &packets, 0, &[256, 300, 1]);
}

/// A header that fits has its bytes: although too few rules are about short packets to be worth a guard, no rule behind one has to ask.
#[test]
fn what_a_header_implies_is_not_asked() {
    let mut rules: Vec<Vec<Condition>> = (0..1100u128)
        .map(|net| {
            vec![
                condition(1, ValueSet::range(34, u128::from(u32::MAX))),
                condition(3, ValueSet::one(0x0800)),
                condition(18, ValueSet::one(1)),
                condition(11, ValueSet::prefix(0x0a00_0000 | net << 8, 24, 32)),
                condition(10, ValueSet::prefix(0x0a00_0000 | (net % 7) << 20, 12, 32)),
            ]
        })
        .collect();
    rules.extend((0..34).map(|len| vec![condition(1, ValueSet::one(len))]));
    let c = weighed(&rules, Structures::Chosen, |_| 1.0);
    let report = &c.stages[0].lookup.views().report;
    let first = &report.views[0];
    assert!(!first.structure.fields.contains(&Dim::Len), "{report:#?}");
    assert_eq!((first.structure.fields.len(), first.rules), (2, 1100));
    let packets: Vec<Pkt> = (0..600u128)
        .map(|i| {
            let net = i * 2 % 1103;
            let values = [
                (11, 0x0a00_0000 | net << 8 | 5),
                (10, 0x0a00_0000 | (net % 7) << 20),
            ];
            packet(
                &values,
                60 - (i % 5 == 0) as usize * (20 + i as usize % 41),
                28,
                true,
                0,
            )
        })
        .collect();
    compare(&rules, &packets, 0, &[256, 300, 1]);
}

/// A set of many intervals is looked up by its cells, or refused; never multiplied without end.
#[test]
fn sets_of_many_intervals_do_not_multiply() {
    let odd = |of: u128| ValueSet::from_intervals((0..128).map(|i| (i * 2 * of, i * 2 * of)));
    let mut rules = Vec::new();
    for i in 0..40u128 {
        rules.push(vec![
            condition(2, odd(1 + i % 3)),
            condition(12, odd(2 + i % 2)),
            condition(11, ValueSet::prefix(i << 24, 8, 32)),
            condition(13, ValueSet::range(i, i + 3)),
        ]);
    }
    let c = code(&rules, Structures::Chosen);
    let report = &c.stages[0].lookup.views().report;
    let entries = report.views.iter().map(|v| v.structure.entries).max();
    assert!(entries.is_some_and(|n| n < 4_000), "{report:#?}");
    let packets: Vec<Pkt> = (0..400u128)
        .map(|i| {
            packet(
                &[
                    (2, i % 9 * 2),
                    (12, i % 13 * 2),
                    (11, (i % 50) << 24),
                    (13, i % 45),
                ],
                60,
                28,
                true,
                0,
            )
        })
        .collect();
    compare(&rules, &packets, 0, &[64]);
}

/// Sets of which earlier rules have been taken out are whole again, unless that would take packets of others.
#[test]
fn gaps_are_closed_where_earlier_rules_have_filled_them() {
    let net = |a: u128, len| ValueSet::prefix(a << 24, len, 32);
    let all_but = |sets: &[ValueSet]| {
        let all = ValueSet::full(32);
        sets.iter().fold(all, |s, t| s.minus(t, 32))
    };
    let tcp = || condition(9, ValueSet::one(6));
    let to = |n: u128| condition(12, ValueSet::one(n));
    let mut rules = Vec::new();
    let mut nets = Vec::new();
    for n in 1..40 {
        rules.push(vec![condition(10, net(n * 2, 8)), tcp(), to(n % 3)]);
        nets.push(net(n * 2, 8));
    }
    // what is taken out of this one has been taken before, for one port of three
    let some: Vec<ValueSet> = nets.iter().skip(2).step_by(3).cloned().collect();
    rules.push(vec![condition(10, all_but(&some)), tcp(), to(0)]);
    // of these two nobody has taken it
    rules.push(vec![condition(10, all_but(&nets)), tcp(), to(7)]);
    rules.push(vec![
        condition(10, all_but(&nets[..9])),
        condition(11, all_but(&nets[9..])),
        tcp(),
    ]);
    rules.push(vec![tcp()]);
    let dims = dims();
    let sources: Vec<Source> = dims.iter().map(|d| source(*d)).collect();
    let made = StageRules::new(&rules, vec![1.0; rules.len()], &sources);
    let inner = Inner::new(&made, &vec![None; made.fields.len()]);
    let gaps = gaps::Gaps::new(&made, &inner);
    let intervals = |rule: usize| -> Vec<usize> {
        let open = inner.open(&made, rule as u32);
        open.map(|(f, s, set)| gaps.closed(rule, (f, s), set).len())
            .collect()
    };
    assert_eq!(intervals(39), [1, 1, 1]);
    assert!(intervals(40)[0] > 30 && intervals(41)[0] > 5);
    let packets: Vec<Pkt> = (0..2000u128)
        .map(|i| {
            let (src, dst, port) = (
                (i % 90) << 24,
                (i / 7 % 90) << 24,
                [0, 1, 2, 7][i as usize % 4],
            );
            packet(&[(10, src), (11, dst), (12, port), (9, 6)], 60, 28, true, 0)
        })
        .collect();
    compare(&rules, &packets, 0, &[100]);
}

/// Rules from which earlier ones have been taken out, in one field or another, as synthesis does it.
#[test]
fn what_synthesis_takes_out_can_be_put_back() {
    let mut x = 0x1234_5678_9abc_def1u64;
    let mut random = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        u128::from(x % n)
    };
    let mut closed = 0;
    for _ in 0..30 {
        let mut rules: Vec<[ValueSet; 3]> = Vec::new();
        for _ in 0..40 {
            let mut net = || {
                let len = random(5) as u8;
                ValueSet::prefix(random(16) << 28, len, 32)
            };
            let (a, b) = (net(), net());
            let port = match random(3) {
                0 => ValueSet::full(16),
                n => ValueSet::range(n, n + random(4)),
            };
            let mut new = [a, b, port];
            for q in &rules {
                let out = |i: usize| !new[i].is_subset(&q[i]);
                let outside: Vec<usize> = (0..3).filter(|i| out(*i)).collect();
                if let [i] = outside[..] {
                    new[i] = new[i].minus(&q[i], if i == 2 { 16 } else { 32 });
                }
            }
            if new.iter().all(|s| !s.is_empty()) {
                rules.push(new);
            }
        }
        let rules: Vec<Vec<Condition>> = (rules.into_iter())
            .map(|r| {
                let all = [10, 11, 12].into_iter().zip(r);
                all.map(|(reg, set)| condition(reg, set)).collect()
            })
            .collect();
        let sources: Vec<Source> = dims().iter().map(|d| source(*d)).collect();
        let made = StageRules::new(&rules, vec![1.0; rules.len()], &sources);
        let inner = Inner::new(&made, &vec![None; made.fields.len()]);
        let gaps = gaps::Gaps::new(&made, &inner);
        for (i, r) in inner.rules.iter().enumerate() {
            for (f, s, set) in inner.open(&made, *r) {
                closed += set.intervals().len() - gaps.closed(i, (f, s), set).len();
            }
        }
        let packets: Vec<Pkt> = (0..1500)
            .map(|_| {
                let (src, dst, port) = (random(16) << 28, random(16) << 28, random(9));
                packet(&[(10, src), (11, dst), (12, port)], 60, 28, true, 0)
            })
            .collect();
        compare(&rules, &packets, 0, &[256]);
    }
    assert!(closed > 100, "{closed}");
}

/// What a router's packets cost: `cargo test --release -p onefold-engine --lib -- --ignored --nocapture costs`.
#[test]
#[ignore = "a measurement"]
fn costs() {
    let good = |ttl: ValueSet, route: ValueSet| {
        vec![
            condition(1, ValueSet::range(34, u128::from(u32::MAX))),
            condition(2, ValueSet::one(0x0200_0000_0001)),
            condition(3, ValueSet::one(0x0800)),
            condition(4, ValueSet::one(4)),
            condition(5, ValueSet::one(5)),
            condition(6, ValueSet::range(20, 1500)),
            condition(18, ValueSet::one(1)),
            condition(19, ValueSet::one(1)),
            condition(8, ttl),
            condition(11, route),
        ]
    };
    let mut rules = Vec::new();
    for net in 0..24u128 {
        let route = ValueSet::prefix(0x0a00_0000 | net << 12, 20, 32);
        rules.push(good(ValueSet::range(0, 1), route.clone()));
        rules.push(good(ValueSet::range(2, 255), route));
    }
    let weight = |i| if i % 2 == 0 { 0.01 } else { 1.0 };
    let c = weighed(&rules, Structures::Chosen, weight);
    let stage = &c.stages[0];
    let packets: Vec<Pkt> = (0..256u128)
        .map(|i| packet(&[(11, 0x0a00_0000 | (i % 24) << 12 | i)], 60, 28, true, 0))
        .collect();
    let (mut regs, mut scratch) = (Regs::new(c.sources.len()), Scratch::new());
    let mut out = Vec::new();
    stage.lookup.views();
    let sizes = std::env::var("BATCH").ok().and_then(|b| b.parse().ok());
    for batch in sizes.map_or(vec![1, 8, 32, 64, 256], |b| vec![b]) {
        let start = Instant::now();
        let mut n = 0;
        for _ in 0..40_000 * batch / (batch + 8) {
            for p in packets.chunks(batch) {
                first_rules(c.lookup_of(stage), &mut regs, &mut scratch, p, &mut out);
                n += p.len();
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / n as f64;
        println!("batch {batch}: {ns:.1} ns ({:?})", out.first());
    }
    println!("{:#?}", stage.lookup.views().report.views[0].guard);
}
