//! Random programs survive printing and parsing; bad texts are refused with their places.

use super::*;
use crate::program::*;
use onefold_element::ElemId;
use onefold_element::model::{AnnoKey, BindKind, FlowSide, HeaderCheck, ValueSet, max_of};
use proptest::prelude::*;
use std::sync::Arc;

fn set(bits: u8) -> BoxedStrategy<ValueSet> {
    let max = max_of(bits);
    let range = (any::<u128>(), any::<u128>()).prop_map(move |(a, b)| {
        let (a, b) = (a & max, b & max);
        (a.min(b), a.max(b))
    });
    prop_oneof![
        3 => any::<u128>().prop_map(move |v| ValueSet::one(v & max)),
        2 => (any::<u128>(), 0..=bits).prop_map(move |(v, l)| ValueSet::prefix(v, l, bits)),
        2 => any::<u128>().prop_map(move |v| ValueSet::range(v & max, max)),
        2 => any::<u128>().prop_map(move |v| ValueSet::range(0, v & max)),
        2 => any::<u128>().prop_map(move |v| ValueSet::one(v & max).complement(bits)),
        1 => Just(ValueSet::full(bits)),
        1 => Just(ValueSet::empty()),
        1 => any::<u128>().prop_map(ValueSet::one),
        2 => proptest::collection::vec(range, 0..5).prop_map(ValueSet::from_intervals),
        2 => proptest::collection::vec(0u128..9, 0..5).prop_map(|v| ValueSet::from_intervals(v.into_iter().map(|x| (x, x)))),
    ]
    .boxed()
}

fn bits() -> BoxedStrategy<(i32, u8)> {
    // fields of headers where they usually are, and anything
    let named: Vec<(i32, u8)> = names::PROTOS
        .iter()
        .flat_map(|p| [0, 4, -14].map(|d| (p, p.usual + d)))
        .flat_map(|(p, base)| p.fields.iter().map(move |f| (base * 8 + f.1, f.2)))
        .collect();
    prop_oneof![
        8 => proptest::sample::select(named),
        1 => (any::<i32>(), 1u8..=128),
    ]
    .boxed()
}

fn end_at() -> BoxedStrategy<EndAt> {
    prop_oneof![
        Just(EndAt::Same),
        (-20i32..60).prop_map(EndAt::Ip4),
        (-20i32..60).prop_map(EndAt::Ip6)
    ]
    .boxed()
}

fn anno() -> BoxedStrategy<AnnoKey> {
    let named: Vec<AnnoKey> = names::ANNOS
        .iter()
        .map(|a| AnnoKey {
            offset: a.1,
            size: a.2,
        })
        .collect();
    prop_oneof![
        proptest::sample::select(named),
        (0u8..48, 1u8..=16).prop_map(|(offset, size)| AnnoKey { offset, size }),
    ]
    .boxed()
}

fn route() -> BoxedStrategy<Dim> {
    let place = |(bit, wide): (i32, bool)| Address::Bits {
        bit,
        bits: if wide { 128 } else { 32 },
    };
    let anno = |(offset, wide): (u8, bool)| {
        let size = if wide { 16 } else { 4 };
        Address::Anno(AnnoKey { offset, size })
    };
    let of = prop_oneof![
        (-200i32..1000, any::<bool>()).prop_map(place),
        (0u8..32, any::<bool>()).prop_map(anno),
        any::<u32>().prop_map(|v| Address::Is {
            value: v.into(),
            bits: 32
        }),
        any::<u128>().prop_map(|value| Address::Is { value, bits: 128 }),
    ];
    let what = proptest::sample::select(names::ROUTES.map(|r| r.1).to_vec());
    (0u32..9, of, what)
        .prop_map(|(e, of, what)| Dim::Route {
            table: ElemId(e),
            of,
            what,
        })
        .boxed()
}

fn dim() -> BoxedStrategy<Dim> {
    let checks: Vec<HeaderCheck> = names::CHECKS.iter().map(|c| c.1).collect();
    prop_oneof![
        1 => Just(Dim::Len),
        6 => bits().prop_map(|(bit, bits)| Dim::Bits { bit, bits }),
        2 => (proptest::sample::select(checks), -20i32..60, end_at())
            .prop_map(|(check, at, end)| Dim::Check { check, at, end }),
        1 => (0u16..12).prop_map(|s| Dim::Slot(Slot(s))),
        1 => anno().prop_map(Dim::Anno),
        1 => Just(Dim::PacketType),
        1 => route(),
    ]
    .boxed()
}

fn expr() -> BoxedStrategy<Expr> {
    prop_oneof![
        any::<u32>().prop_map(|v| Expr::Const(v.into())),
        any::<u128>().prop_map(Expr::Const),
        dim().prop_map(|d| Expr::Of(d, 0)),
        (dim(), 1u128..5)
            .prop_map(|(d, n)| Expr::Of(d, max_of(d.width()).wrapping_sub(n) & max_of(d.width()))),
        (dim(), any::<u128>()).prop_map(|(d, n)| Expr::Of(d, n)),
    ]
    .boxed()
}

fn filter() -> BoxedStrategy<Filter> {
    let condition = dim().prop_flat_map(|d| (Just(d), set(d.width())));
    // known headers, so that names come into play
    let typed = proptest::sample::select(vec![0x0800u128, 0x86dd, 0x0806, 0x8100]);
    let proto = proptest::sample::select(vec![1u128, 6, 17, 58]);
    let first = (typed, proto).prop_map(|(t, p)| {
        let d = |bit, bits| Dim::Bits { bit, bits };
        vec![
            (d(96, 16), ValueSet::one(t)),
            (d(23 * 8, 8), ValueSet::one(p)),
        ]
    });
    (
        prop_oneof![Just(Vec::new()), first],
        proptest::collection::vec(condition, 0..4),
    )
        .prop_map(|(mut a, b)| {
            a.extend(b);
            Filter(a)
        })
        .boxed()
}

fn image() -> BoxedStrategy<Arc<Image>> {
    let mark = || {
        prop_oneof![
            Just(Mark::Same),
            Just(Mark::None),
            (-20i32..60, any::<u8>()).prop_map(|(a, l)| Mark::At(a, l)),
            (-20i32..60).prop_map(Mark::Alone),
        ]
    };
    let term = prop_oneof![
        (0u16..12).prop_map(|s| SumTerm::Slot(Slot(s))),
        (bits(), expr(), expr()).prop_map(|((bit, bits), from, to)| SumTerm::Change {
            bit,
            bits,
            from,
            to
        }),
    ];
    let group = proptest::collection::vec(term, 0..3);
    let kind = proptest::sample::select(vec![
        SumKind::Ip4,
        SumKind::Tcp,
        SumKind::Udp,
        SumKind::Icmp,
    ]);
    let sum = (
        kind,
        -20i32..60,
        -20i32..60,
        any::<bool>(),
        proptest::collection::vec(group, 0..3),
    )
        .prop_map(|(kind, header, at, anew, groups)| SumWrite {
            kind,
            header,
            at,
            anew,
            groups,
        });
    let packet_type = prop_oneof![
        Just(TypeExpr::Same),
        any::<u8>().prop_map(TypeExpr::Is),
        (expr(), any::<Option<[u8; 6]>>()).prop_map(|(e, d)| TypeExpr::Destination(e, d)),
    ];
    let write = (bits(), expr()).prop_map(|((bit, bits), value)| Write { bit, bits, value });
    let all = (
        prop_oneof![Just(0), any::<i32>()],
        end_at(),
        proptest::collection::vec(write, 0..4),
        proptest::collection::vec(sum, 0..2),
        (mark(), mark()),
        any::<bool>(),
        proptest::collection::vec((anno(), expr()), 0..3),
        packet_type,
    )
        .prop_map(
            |(start, end, writes, sums, (net, mac), cleared, annos, packet_type)| Image {
                start,
                end,
                writes,
                sums,
                net,
                mac,
                cleared,
                annos,
                packet_type,
            },
        );
    prop_oneof![Just(Image::default()), all]
        .prop_map(Arc::new)
        .boxed()
}

fn elem() -> BoxedStrategy<ElemId> {
    (0u32..9).prop_map(ElemId).boxed()
}

fn next() -> BoxedStrategy<Next> {
    prop_oneof![
        (0u32..4).prop_map(|s| Next::Stage(StageId(s))),
        elem().prop_map(Next::Unconnected),
        Just(Next::Never),
    ]
    .boxed()
}

fn nexts() -> BoxedStrategy<Vec<Next>> {
    proptest::collection::vec(next(), 0..3).boxed()
}

fn text() -> BoxedStrategy<String> {
    // anything, quotation marks and control characters included
    proptest::collection::vec(any::<char>(), 0..8)
        .prop_map(|c| c.into_iter().collect())
        .boxed()
}

fn action() -> BoxedStrategy<Action> {
    let kind = proptest::sample::select(vec![BindKind::Flow, BindKind::Addresses, BindKind::Ping]);
    let expect = (
        any::<u16>(),
        any::<[bool; 4]>(),
        set(32),
        set(32),
        set(16),
        set(16),
    )
        .prop_map(|(output, kept, a, b, c, d)| Expect {
            output,
            kept,
            sets: [a, b, c, d],
        });
    let sets = || (set(32), set(32), set(16), set(16)).prop_map(|(a, b, c, d)| [a, b, c, d]);
    let side = (
        (any::<u16>(), any::<bool>(), any::<u16>()),
        sets(),
        any::<[bool; 4]>(),
        sets(),
    )
        .prop_map(|((origin, reply, output), from, kept, to)| FlowSide {
            origin,
            reply,
            output,
            from,
            kept,
            to,
        });
    let step = prop_oneof![
        (elem(), any::<u16>(), any::<i32>(), end_at()).prop_map(|(elem, tag, start, end)| {
            Step::Count {
                elem,
                tag,
                len: LenAt { start, end },
            }
        }),
        (
            elem(),
            any::<u16>(),
            kind,
            image(),
            (
                0u16..12,
                proptest::option::of((any::<u8>(), (0u16..12).prop_map(Slot)))
            ),
            proptest::option::of(expect),
            (
                nexts(),
                proptest::option::of(proptest::collection::vec(side, 0..3))
            ),
            nexts()
        )
            .prop_map(
                |(elem, port, kind, image, (first, anno), expect, (bound, sides), pass)| {
                    Step::Bind {
                        elem,
                        port,
                        kind,
                        image,
                        first: Slot(first),
                        anno,
                        expect,
                        bound,
                        sides,
                        pass,
                    }
                }
            ),
    ];
    let end = prop_oneof![
        (elem(), image()).prop_map(|(sink, image)| End::Output { sink, image }),
        (elem(), text()).prop_map(|(elem, reason)| End::Drop { elem, reason }),
        (elem(), any::<u16>(), text(), image()).prop_map(|(elem, port, cause, image)| End::Punt {
            elem,
            port,
            cause,
            image
        }),
        (elem(), any::<u16>(), text(), image(), nexts()).prop_map(
            |(elem, port, cause, image, outputs)| End::Ask {
                elem,
                port,
                cause,
                image,
                outputs
            }
        ),
        (image(), 0u32..4).prop_map(|(image, s)| End::Write {
            image,
            next: StageId(s)
        }),
        (0u32..4).prop_map(|s| End::Goto(StageId(s))),
        nexts().prop_map(End::Fork),
        Just(End::Unreachable),
    ];
    (
        proptest::collection::vec(step, 0..3),
        end,
        proptest::collection::vec(elem(), 0..4),
    )
        .prop_map(|(steps, end, path)| Action { steps, end, path })
        .boxed()
}

fn stage() -> BoxedStrategy<Stage> {
    let why = proptest::sample::select(vec![
        Why::Entry,
        Why::Dynamic,
        Why::Bound,
        Why::Copy,
        Why::Asked,
        Why::Written,
        Why::Budget,
    ]);
    let counted = (any::<i32>(), end_at(), any::<u16>()).prop_map(|(start, end, binds)| Counted {
        len: LenAt { start, end },
        binds,
    });
    let counted = proptest::option::of(counted);
    let origin = (elem(), any::<Option<u32>>(), counted).prop_map(|(elem, arg, counted)| Origin {
        elem,
        arg,
        counted,
    });
    let rule = (filter(), 0u32..4, proptest::collection::vec(origin, 0..3)).prop_map(
        |(filter, a, origin)| Rule {
            filter,
            action: ActionId(a),
            origin,
        },
    );
    (
        elem(),
        any::<u16>(),
        why,
        any::<bool>(),
        (filter(), proptest::collection::vec(filter(), 0..3)),
        proptest::collection::vec(rule, 0..4),
        proptest::collection::vec(action(), 0..3),
    )
        .prop_map(
            |(e, port, why, fresh, (known, among), rules, actions)| Stage {
                at: (e, port),
                why,
                fresh,
                known,
                among,
                rules,
                actions,
            },
        )
        .boxed()
}

fn program() -> BoxedStrategy<Program> {
    let slot = (1u8..=128).prop_flat_map(|bits| {
        let bits = match bits % 3 {
            0 => 32,
            1 => 16,
            _ => bits,
        };
        set(bits).prop_map(move |set| SlotInfo { bits, set })
    });
    let entry = (elem(), 0u32..4).prop_map(|(source, s)| Entry {
        source,
        stage: StageId(s),
    });
    (
        proptest::collection::vec(text(), 0..4),
        proptest::collection::vec(entry, 0..3),
        proptest::collection::vec(stage(), 0..3),
        proptest::collection::vec(slot, 0..8),
        proptest::collection::vec(text(), 0..3),
    )
        .prop_map(|(elements, entries, stages, slots, notes)| Program {
            elements,
            entries,
            stages,
            slots,
            notes,
            ..Program::default()
        })
        .boxed()
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn what_is_printed_reads_back_the_same(p in program()) {
        let text = print(&p);
        match parse(&text) {
            Ok(again) => {
                prop_assert_eq!(&again, &p, "{}", text);
                prop_assert_eq!(print(&again), text);
            }
            Err(e) => prop_assert!(false, "{:?}\n{}", e, text),
        }
    }

    #[test]
    fn mutilated_text_never_panics(p in program(), cut in any::<u16>(), put in "[ -~]{0,4}") {
        let text = print(&p);
        let mut at = usize::from(cut) % text.len();
        while !text.is_char_boundary(at) { at -= 1 }
        let mut end = (at + 3).min(text.len());
        while !text.is_char_boundary(end) { end += 1 }
        let bad = format!("{}{put}{}", &text[..at], &text[end..]);
        let lines = bad.lines().count() as u32;
        if let Err(errors) = parse(&bad) {
            prop_assert!(!errors.is_empty() && errors.len() <= MAX_ERRORS);
            for e in errors {
                prop_assert!(e.line >= 1 && e.line <= lines && e.column >= 1, "{e}");
            }
        }
    }
}

fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(p) => panic!("accepted: {p:?}"),
        Err(e) => e.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn errors_have_places_and_more_than_one_is_told() {
    let e = errors(
        "onefold program 1\n\
         element e1 \"x\"\n\
         entry e0 stage\n\
         stage0 at e0[0] entry {\n\
         \x20 when ip.sauce = 3 => a0\n\
         \x20 when ip.src ~ 3 => a0\n\
         \x20 a0 {\n\
         \x20   output e0 { write len = 3 }\n\
         \x20 }\n\
         \x20 a1 {\n\
         \x20   drop e0 \"why\"\n\
         \x20 }\n\
         }\n\
         stage1 at e0[0] because {\n\
         }\n",
    );
    let places: Vec<&str> = e
        .iter()
        .filter_map(|e| e.split_once(": ").map(|x| x.0))
        .collect();
    assert_eq!(
        places,
        ["2:9", "3:10", "5:8", "6:15", "6:17", "8:23", "14:17"],
        "{e:#?}"
    );
    assert!(e[2].contains("expected a field"), "{e:#?}");
}

#[test]
fn small_mistakes() {
    let in_stage = |line: &str| {
        errors(&format!(
            "onefold program 1\nstage0 at e0[0] entry {{\n{line}\n}}\n"
        ))
        .join("; ")
    };
    for (line, expected) in [
        ("when ip.src in 10.0.0.0/33 => a0", "prefix length"),
        ("when ip.ttl in 9-2 => a0", "ends before it begins"),
        (
            "when ip.ttl = 340282366920938463463374607431768211456 => a0",
            "a number",
        ),
        ("when @0:129 = 1 => a0", "expected a field"),
        ("when any => a0 from x", "an element"),
        ("known tcp_sum_right(14 to) = 1", "'ip6 BYTE'"),
        ("a1 { unreachable }", "'a0' (numbers ascend by one)"),
        ("a0 { drop e0 \"\\q\" }", "unknown escape"),
        ("a0 { drop e0 \"x }", "no end on its line"),
        ("a0 { fork [stage1 stage2] }", "','"),
        ("a0 { goto stage99999999999 }", "a stage"),
        (
            "a0 { output e0 { write ip.ttl = ip.ttl - 257 } }",
            "within the field's width",
        ),
    ] {
        let e = in_stage(line);
        assert!(e.contains(expected), "{line}: {e}");
    }
    assert!(errors("")[0].contains("expected 'onefold'"));
    assert!(errors("onefold program 2")[0].contains("only 1 is known"));
    assert!(errors("onefold program 1 }")[0].contains("expected 'note'"));
    assert!(
        errors("onefold program 1\nstage0 at e0[0] entry {\n")[0].contains("at the stage's end")
    );
    let many = "onefold program 1\n".to_string() + &"x\n".repeat(1000);
    assert_eq!(errors(&many).len(), MAX_ERRORS);
}

#[test]
fn words_of_known_headers() {
    let d = |bit, bits| Dim::Bits { bit, bits };
    let p = Program::default();
    let ip = Filter(vec![
        (d(96, 16), ValueSet::one(0x0800)),
        (d(23 * 8, 8), ValueSet::one(6)),
        (d(26 * 8, 32), ValueSet::prefix(0x0a00_0000, 8, 32)),
        (
            d(34 * 8, 16),
            ValueSet::from_intervals([(80, 80), (443, 443), (8000, 8100)]),
        ),
    ]);
    assert_eq!(
        Words::new(&p).with(&ip).filter(&ip),
        "eth.type = 0x0800, ip.proto = 6, ip.src in 10.0.0.0/8, tcp.sport in {80, 443, 8000-8100}"
    );
    let tagged = Filter(vec![
        (d(96, 16), ValueSet::one(0x8100)),
        (d(116, 12), ValueSet::one(7)),
        (d(128, 16), ValueSet::one(0x86dd)),
        (d(24 * 8, 8), ValueSet::one(17)),
        (d(26 * 8, 128), ValueSet::prefix(0x2001_0db8 << 96, 32, 128)),
        (d(60 * 8, 16), ValueSet::one(53).complement(16)),
    ]);
    assert_eq!(
        Words::new(&p).with(&tagged).filter(&tagged),
        "vlan.tpid = 0x8100, vlan.vid = 7, vlan.type = 0x86dd, ip6@18.next = 17, ip6@18.src in 2001:db8::/32, udp@58.dport != 53"
    );
    // a packet that begins with its IP header, as elements emit it
    let bare = Filter(vec![
        (
            Dim::Check {
                check: HeaderCheck::Ip4Checksum,
                at: 0,
                end: EndAt::Same,
            },
            ValueSet::one(1),
        ),
        (d(64, 8), ValueSet::range(2, 255)),
        (d(-112, 48), ValueSet::one(0x0200_0000_0001)),
        (d(500, 9), ValueSet::one(3)),
    ]);
    assert_eq!(
        Words::new(&p).with(&bare).filter(&bare),
        "ip4_sum_right(0) = 1, ip@0.ttl >= 2, eth@-14.dst = 02:00:00:00:00:01, @500:9 = 0x003"
    );
}
