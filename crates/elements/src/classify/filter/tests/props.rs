//! Random expressions against independent predicates, and the search against the linear walk.

use super::*;
use proptest::prelude::*;
use std::rc::Rc;

/// Text, and what it says about a packet, worked out from the model.
#[derive(Clone)]
struct Case(String, Rc<dyn Fn(&Model) -> bool>);

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn case(text: String, f: impl Fn(&Model) -> bool + 'static) -> Case {
    Case(text, Rc::new(f))
}

type Relation = (&'static str, fn(u32, u32) -> bool);

const RELATIONS: [Relation; 8] = [
    ("", |a, b| a == b),
    ("=", |a, b| a == b),
    ("==", |a, b| a == b),
    ("!=", |a, b| a != b),
    ("<", |a, b| a < b),
    (">", |a, b| a > b),
    ("<=", |a, b| a <= b),
    (">=", |a, b| a >= b),
];

const SIDES: [&str; 5] = ["", "src ", "dst ", "src and dst ", "src or dst "];

/// Joins a property of source and destination; `negated` relations swap "one" and "both".
fn either(side: usize, negated: bool, s: bool, d: bool) -> bool {
    match (side, negated) {
        (1, _) => s,
        (2, _) => d,
        (3, false) | (0 | 4, true) => s && d,
        _ => s || d,
    }
}

fn primitive() -> impl Strategy<Value = Case> {
    let host = (0usize..5, 0u32..6, 20u32..=32, any::<bool>()).prop_map(|(side, a, len, ne)| {
        let addr = 0x0a00_0000 | a;
        let mask = u32::MAX << (32 - len);
        let text = format!(
            "{}net {}{}/{len}",
            SIDES[side],
            if ne { "!= " } else { "" },
            std::net::Ipv4Addr::from(addr)
        );
        case(text, move |m| {
            let ok = |x: u32| ((x ^ addr) & mask == 0) != ne;
            either(side, ne, ok(m.src), ok(m.dst))
        })
    });
    let small = prop_oneof![
        Just(0u32),
        Just(1),
        78u32..84,
        1020u32..1026,
        65533u32..=65535
    ];
    let masks =
        prop_oneof![4 => Just(0xffffu32), 1 => Just(0xff00), 1 => Just(0x0401), 1 => Just(0x8001)];
    let port = (0usize..5, 0usize..4, 0usize..8, small, masks).prop_map(
        |(side, proto, rel, value, mask)| {
            let (name, numbers): (&str, &[u8]) = [
                ("", &[6u8, 17][..]),
                ("tcp ", &[6]),
                ("udp ", &[17]),
                ("dccp ", &[33]),
            ][proto];
            let (op, f) = RELATIONS[rel];
            let m = if mask == 0xffff {
                String::new()
            } else {
                format!("& {mask:#x} ")
            };
            let text = format!("{}{name}port {m}{op} {value}", SIDES[side]);
            let ordered = op.contains(['<', '>']);
            // 'port & M == V' looks at V's bits inside M only
            let wanted = if ordered { value } else { value & mask };
            // the relations that are built by turning another one round
            let ne = matches!(op, "!=" | "<=" | "<");
            let numbers = numbers.to_vec();
            let max = mask;
            case(text, move |p| {
                let ok = |x: Option<u32>| x.is_some_and(|x| f(x & mask, wanted));
                // a relation that is always true or false never looks at the port
                let constant =
                    ordered && (f(0, wanted) == f(max, wanted)) && (wanted == 0 || wanted >= max);
                let answer = if constant {
                    f(0, wanted)
                } else {
                    either(side, ne, ok(p.u16_at(0)), ok(p.u16_at(2)))
                };
                numbers.contains(&p.proto) && p.first() && answer
            })
        },
    );
    let proto = (0u8..20).prop_map(|n| case(format!("ip proto {n}"), move |m| m.proto == n));
    let ttl = (0u32..4, 0usize..8).prop_map(|(v, rel)| {
        let (op, f) = RELATIONS[rel];
        case(format!("ip ttl {op} {v}"), move |m| f(m.ttl.into(), v))
    });
    let flags = (0usize..6).prop_map(|i| {
        let name = ["fin", "syn", "rst", "psh", "ack", "urg"][i];
        case(format!("tcp opt {name}"), move |m| {
            m.proto == 6 && m.first() && m.transport.get(13).is_some_and(|f| f >> i & 1 == 1)
        })
    });
    let rest = prop_oneof![
        Just(case("ip[9] 6".into(), |m| m.proto == 6)),
        Just(case("frag".into(), |m| m.frag & 0x3fff != 0)),
        Just(case("unfrag".into(), |m| m.frag & 0x3fff == 0)),
        Just(case("tcpudp".into(), |m| m.proto == 6 || m.proto == 17)),
        Just(case("ip hl 6".into(), |m| m.options)),
        Just(case("ip ect".into(), |m| m.tos & 3 != 0)),
        Just(case("ip dscp > 3".into(), |m| m.tos >> 2 > 3)),
        Just(case("true".into(), |_| true)),
        Just(case("false".into(), |_| false)),
        Just(case("transp[2:2] 80".into(), |m| m.first()
            && m.u16_at(2) == Some(80))),
        Just(case("icmp type echo".into(), |m| m.proto == 1
            && m.first()
            && m.transport.first() == Some(&8))),
    ];
    prop_oneof![4 => host, 4 => port, 2 => proto, 1 => ttl, 1 => flags, 2 => rest]
}

fn expression() -> impl Strategy<Value = Case> {
    primitive().prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            (list.clone(), 0usize..3).prop_map(|(l, word)| {
                let sep = [" and ", " && ", " "][word];
                let text = l
                    .iter()
                    .map(|Case(t, _)| format!("({t})"))
                    .collect::<Vec<_>>()
                    .join(sep);
                case(text, move |m| l.iter().all(|Case(_, f)| f(m)))
            }),
            (list, any::<bool>()).prop_map(|(l, word)| {
                let sep = if word { " or " } else { "||" };
                let text = l
                    .iter()
                    .map(|Case(t, _)| format!("({t})"))
                    .collect::<Vec<_>>()
                    .join(sep);
                case(text, move |m| l.iter().any(|Case(_, f)| f(m)))
            }),
            inner
                .clone()
                .prop_map(|Case(t, f)| case(format!("not ({t})"), move |m| !f(m))),
            (inner.clone(), inner.clone(), inner).prop_map(
                |(Case(a, f), Case(b, g), Case(c, h))| {
                    case(format!("({a}) ? {b} : ({c})"), move |m| {
                        if f(m) { g(m) } else { h(m) }
                    })
                }
            ),
        ]
    })
}

fn model() -> impl Strategy<Value = Model> {
    let port = || {
        prop_oneof![
            Just(0u16),
            Just(1),
            78u16..84,
            1020u16..1026,
            65533u16..=65535,
            any::<u16>()
        ]
    };
    let addr = || prop_oneof![4 => (0u32..6).prop_map(|a| 0x0a00_0000 | a), 1 => (0u32..4096).prop_map(|a| 0x0a00_0000 | a), 1 => any::<u32>()];
    let proto =
        prop_oneof![4 => Just(6u8), 4 => Just(17), 1 => Just(1), 1 => Just(33), 1 => 0u8..20];
    let frag = prop_oneof![6 => Just(0u16), 1 => Just(0x4000), 1 => Just(0x2000), 1 => Just(0x2001), 1 => Just(5)];
    // half a port is another test's business
    let cut = prop_oneof![8 => Just(20usize), 1 => Just(0), 1 => Just(2), 1 => 4usize..20];
    (
        addr(),
        addr(),
        proto,
        (any::<u8>(), 0u8..5, any::<bool>()),
        frag,
        port(),
        port(),
        any::<u8>(),
        cut,
    )
        .prop_map(
            |(src, dst, proto, (tos, ttl, options), frag, sport, dport, flags, cut)| {
                let mut m = plain(proto, sport, dport);
                m.transport[13] = flags;
                m.transport.truncate(cut);
                Model {
                    src,
                    dst,
                    tos,
                    ttl,
                    options,
                    frag,
                    ..m
                }
            },
        )
}

/// Any bytes behind an IP header, of any length.
fn messy() -> impl Strategy<Value = (Vec<u8>, usize)> {
    (model(), 0usize..60, 0usize..8).prop_map(|(m, cut, how)| {
        let (mut b, n) = m.bytes();
        match how {
            0 => b.truncate(cut),
            1 | 2 => b.truncate(n + cut % 5),
            _ => {}
        }
        let n = n.min(b.len());
        (b, n)
    })
}

fn rule_list(texts: &[String]) -> Filter {
    Filter::new(
        texts
            .iter()
            .enumerate()
            .map(|(i, t)| Rule {
                argument: i as u32,
                action: Action::Output(i as u32),
                expr: parse(t),
            })
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn expression_means_what_the_predicate_says(Case(text, f) in expression(), packets in prop::collection::vec(model(), 1..40)) {
        let e = parse(&text);
        let one = rule_list(std::slice::from_ref(&text));
        for m in &packets {
            prop_assert_eq!(on(m, |v| e.matches(v)), f(m), "{} on {:?}", text, m);
            prop_assert_eq!(on(m, |v| one.first_match(v)).is_some(), f(m), "search: {} on {:?}", text, m);
            let protocol = on(m, |v| v.net[9]);
            prop_assert!(!f(m) || e.transport().is_none_or(|t| t.has(protocol)), "{} on {:?}", text, m);
        }
    }

    #[test]
    fn text_of_a_tree_is_read_back(Case(text, _) in expression()) {
        let e = bare(parse(&text));
        let again = e.to_string();
        prop_assert_eq!(bare(parse(&again)), e, "{} as {}", text, again);
    }

    #[test]
    fn search_agrees_with_the_walk(
        rules in prop::collection::vec(prop_oneof![3 => primitive().boxed(), 1 => expression().boxed()], 1..120),
        packets in prop::collection::vec(messy(), 1..60),
    ) {
        let texts: Vec<String> = rules.into_iter().map(|Case(t, _)| t).collect();
        let filter = rule_list(&texts);
        for (b, n) in &packets {
            let v = View { net: b, transport: &b[*n..], mac: &[], net6: &[] };
            prop_assert_eq!(filter.first_match(&v), filter.first_match_linear(&v), "{:?} on {:?} {}", texts, b, n);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ -~é]{0,60}", words in prop::collection::vec(prop::sample::select(vec![
        "src", "dst", "and", "or", "not", "(", ")", "?", ":", "port", "host", "net", "tcp", "udp", "80", "10.0.0.1", "10.0.0.0/8",
        "[", "]", "&", "==", "<", ">=", "ip", "ether", "frag", "ttl", "proto", "type", "opt", "syn", "mask", "-1", "1:2:3:4:5:6", "transp", "dns",
    ]), 0..14)) {
        for t in [text, words.join(" ")] {
            if let Ok(p) = parse_pattern(&t, &scope()) {
                let e = bare(p.expr);
                prop_assert_eq!(bare(parse(&e.to_string())), e, "{}", t);
            }
        }
    }
}
