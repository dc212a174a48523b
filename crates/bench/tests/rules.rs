//! Rule sets: generated ones, and those of others.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use onefold_bench::{
    ProtoMatch, Rule, RuleKind, RuleParams, SizeModel, Verdict, exercise, first_match,
    generate_rules, parse_rules, write_click_filter, write_headers, write_rules,
};

const KINDS: [RuleKind; 3] = [RuleKind::Acl, RuleKind::Fw, RuleKind::Ipc];

fn data() -> Option<PathBuf> {
    let rules = onefold_testing::data("rules")?;
    rules.parent().map(PathBuf::from)
}

fn text(rules: &[Rule]) -> String {
    let mut out = Vec::new();
    write_rules(&mut out, rules).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn as_many_as_asked_for_distinct_and_none_covered() {
    for kind in KINDS {
        for count in [1, 10, 251, 713, 2_000] {
            let set = generate_rules(&RuleParams::preset(kind), count, 3).unwrap();
            assert_eq!(set.rules.len(), count);
            assert_eq!(set.verdicts.len(), count);
            assert_eq!(set.rules.iter().collect::<HashSet<_>>().len(), count);
            for (i, r) in set.rules.iter().enumerate() {
                assert!(!set.rules[..i].iter().any(|e| e.covers(r)), "{kind:?} {i}");
            }
            assert_eq!(parse_rules(&text(&set.rules)).unwrap(), set.rules);
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    let p = RuleParams::preset(RuleKind::Acl);
    let a = generate_rules(&p, 300, 1).unwrap();
    assert_eq!(a, generate_rules(&p, 300, 1).unwrap());
    assert_ne!(a.rules, generate_rules(&p, 300, 2).unwrap().rules);
}

#[test]
fn the_kinds_look_like_themselves() {
    let share = |rules: &[Rule], f: &dyn Fn(&Rule) -> bool| {
        rules.iter().filter(|r| f(r)).count() as f64 / rules.len() as f64
    };
    let set = |kind| generate_rules(&RuleParams::preset(kind), 4_000, 9).unwrap();
    let (acl, fw, ipc) = (set(RuleKind::Acl), set(RuleKind::Fw), set(RuleKind::Ipc));
    let tcp = |r: &Rule| r.proto == ProtoMatch::Is(6);
    let any_src = |r: &Rule| r.src.1 == 0;
    let one_port = |r: &Rule| r.dport.0 == r.dport.1;
    // Rules that are drawn twice or covered are dropped, which hits wildcards hardest: wide tolerances.
    assert!((share(&acl.rules, &tcp) - 0.86).abs() < 0.05);
    assert!((share(&fw.rules, &tcp) - 0.54).abs() < 0.08);
    assert!((share(&ipc.rules, &tcp) - 0.28).abs() < 0.08);
    assert!(share(&acl.rules, &any_src) < 0.03);
    assert!((share(&fw.rules, &any_src) - 0.33).abs() < 0.09);
    assert!((share(&acl.rules, &one_port) - 0.6).abs() < 0.08);
    assert!(share(&acl.rules, &|r| r.src.1 == 32) > 0.4);
    assert!(share(&fw.rules, &|r| r.sport == (1024, 65_535)) > 0.02);
    assert!(share(&fw.rules, &|r| tcp(r) && r.flags != (0, 0)) > 0.2);
    let overlapping = |rules: &[Rule]| {
        let some = &rules[..500];
        some.iter()
            .enumerate()
            .flat_map(|(i, a)| some[..i].iter().map(move |b| a.overlaps(b)))
            .filter(|&o| o)
            .count()
    };
    let nest = |nesting| {
        let p = RuleParams {
            nesting,
            reuse: 0.0,
            ..RuleParams::preset(RuleKind::Acl)
        };
        overlapping(&generate_rules(&p, 500, 4).unwrap().rules)
    };
    assert!(
        nest(0.9) > 2 * nest(0.0) + 10,
        "{} {}",
        nest(0.9),
        nest(0.0)
    );
}

#[test]
fn parameters_steer() {
    let base = RuleParams::preset(RuleKind::Acl);
    for deny in [0.0, 0.33, 1.0] {
        let set = generate_rules(
            &RuleParams {
                deny,
                ..base.clone()
            },
            3_000,
            2,
        )
        .unwrap();
        let share = set.verdicts.iter().filter(|&&v| v == Verdict::Deny).count() as f64 / 3_000.0;
        assert!((share - deny).abs() < 0.03, "{deny}: {share}");
    }
    let p = RuleParams {
        wildcards: Some(0.5),
        ..base.clone()
    };
    let set = generate_rules(&p, 1_000, 2).unwrap();
    let wild = set.rules.iter().filter(|r| r.src.1 == 0).count();
    assert!(wild.abs_diff(500) < 100, "{wild}");
    let p = RuleParams {
        wildcards: Some(0.0),
        ..base.clone()
    };
    let set = generate_rules(&p, 1_000, 2).unwrap();
    assert!(set.rules.iter().all(|r| r.src.1 > 0 && r.dst.1 > 0));
    // Without disorder, no rule is wider than the next one.
    let sorted = generate_rules(
        &RuleParams {
            disorder: 0.0,
            ..base.clone()
        },
        500,
        2,
    )
    .unwrap();
    let ports = |(lo, hi): (u16, u16)| (f64::from(hi - lo) + 1.0).log2();
    let width = |r: &Rule| {
        f64::from(64 - r.src.1 - r.dst.1)
            + ports(r.sport)
            + ports(r.dport)
            + if r.proto == ProtoMatch::Any { 8.0 } else { 0.0 }
            - f64::from(r.flags.1.count_ones())
    };
    assert!(
        sorted
            .rules
            .windows(2)
            .all(|w| width(&w[0]) <= width(&w[1]))
    );

    let json = serde_json::to_string(&base).unwrap();
    assert_eq!(RuleParams::from_json(&json).unwrap(), base);
    for (from, to) in [
        ("\"deny\":0.33", "\"deny\":1.5"),
        ("\"deny\":0.33", "\"denied\":0.33"),
        ("\"reuse\":0.5", "\"reuse\":0.9"),
        ("\"to\":32", "\"to\":33"),
        ("\"disorder\":12.0", "\"disorder\":-1"),
    ] {
        assert!(json.contains(from));
        assert!(
            RuleParams::from_json(&json.replace(from, to)).is_err(),
            "{to}"
        );
    }
    // Wildcards and any protocol: there is one such rule.
    let mut one = RuleParams {
        wildcards: Some(1.0),
        ..base.clone()
    };
    one.protocols.retain(|p| p.protocol.is_none());
    assert_eq!(generate_rules(&one, 1, 1).unwrap().rules.len(), 1);
    let e = generate_rules(&one, 2, 1).unwrap_err();
    assert!(e.to_string().contains("different rules"), "{e}");
    assert!(generate_rules(&base, 0, 1).is_err());
    assert!(generate_rules(&base, 1_000_000, 1).is_err());
}

#[test]
fn headers_hit_corners_and_first_matches_evenly() {
    for kind in KINDS {
        let rules = generate_rules(&RuleParams::preset(kind), 300, 8)
            .unwrap()
            .rules;
        for packets in [false, true] {
            let found = exercise(&rules, 1_650, 8, packets);
            let mut per_rule = vec![0usize; rules.len()];
            let mut corners = 0;
            for (h, i) in &found.headers {
                assert_eq!(first_match(&rules, h), Some(*i));
                per_rule[*i] += 1;
                let r = &rules[*i];
                corners += usize::from(
                    r.dport.0 < r.dport.1
                        && h.ports
                            .is_some_and(|p| p.1 == r.dport.0 || p.1 == r.dport.1),
                );
                assert_eq!(h.ports.is_some(), !packets || matches!(h.proto, 6 | 17));
            }
            for (i, n) in per_rule.into_iter().enumerate() {
                let ok = if found.unreached.contains(&i) {
                    n == 0
                } else {
                    n == 5 || n == 6
                };
                assert!(ok, "{kind:?}: rule {i} has {n}");
            }
            assert!(found.unreached.len() < 15, "{:?}", found.unreached);
            assert!(corners > 50, "{corners}");
        }
    }
    assert!(exercise(&[], 10, 1, true).headers.is_empty());
    // A rule that is covered is reported even if fewer headers than rules are asked for.
    let shadow = parse_rules(
        "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n\
         @1.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    )
    .unwrap();
    assert_eq!(exercise(&shadow, 1, 1, true).unreached, [1]);
}

#[test]
fn header_text_is_seven_columns() {
    let rules =
        parse_rules("@10.0.0.1/32 192.0.2.0/24 0 : 65535 80 : 80 0x06/0xFF 0x0200/0x1200").unwrap();
    let found = exercise(&rules, 20, 1, true);
    let mut out = Vec::new();
    write_headers(&mut out, &found.headers).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.lines().count(), 20);
    for line in out.lines() {
        let c: Vec<u64> = line.split('\t').map(|c| c.parse().unwrap()).collect();
        assert_eq!(c.len(), 7);
        assert_eq!(
            (c[0], c[1] >> 8, c[3], c[4], c[6]),
            (0x0a00_0001, 0xc0_0002, 80, 6, 0)
        );
        assert_eq!(c[5] & 0x1200, 0x0200);
    }
}

#[test]
fn click_text_of_a_rule_set() {
    let rules = parse_rules(
        "@10.0.0.0/8 192.0.2.1/32 1024 : 65535 80 : 80 0x06/0xFF 0x0200/0x1200\n\
         @0.0.0.0/0 0.0.0.0/0 0 : 1023 5 : 9 0x11/0xFF\n\
         @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x01/0xFF 0x0800/0xff00\n\
         @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x2f/0xFF\n\
         @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00",
    )
    .unwrap();
    let verdicts = [
        Verdict::Deny,
        Verdict::Allow,
        Verdict::Allow,
        Verdict::Deny,
        Verdict::Allow,
    ];
    let set = onefold_bench::Generated {
        rules,
        verdicts: verdicts.to_vec(),
    };
    let mut out = Vec::new();
    write_click_filter(&mut out, &set).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "deny src net 10.0.0.0/8 && dst host 192.0.2.1 && tcp && src port >= 1024 && dst port 80 && tcp opt syn && not tcp opt ack,\n\
         allow udp && src port <= 1023 && dst port >= 5 && dst port <= 9,\n\
         allow icmp && icmp type 8,\n\
         deny ip proto 47,\n\
         allow all\n"
    );
}

#[test]
fn published_sets_are_read_and_exercised() {
    let Some(root) = data() else { return };
    let mut reached = BTreeMap::new();
    for name in ["acl1_1k", "fw1_1k", "ipc1_1k", "acl2_1k"] {
        let file = root.join("rules/classbench").join(name);
        let source = std::fs::read_to_string(file).unwrap();
        let rules = parse_rules(&source).unwrap();
        assert_eq!(
            rules.len(),
            source.lines().filter(|l| l.starts_with('@')).count()
        );
        let found = exercise(&rules, rules.len() * 3, 1, true);
        assert!(
            found
                .headers
                .iter()
                .all(|(h, i)| first_match(&rules, h) == Some(*i))
        );
        let share = 1.0 - found.unreached.len() as f64 / rules.len() as f64;
        assert!(share > 0.9, "{name}: {share}");
        reached.insert(name, share);
    }
    println!("{reached:?}");
}

#[test]
fn published_size_models_are_read() {
    let Some(root) = data() else { return };
    let models = std::fs::read_to_string(root.join("traffic/models.json")).unwrap();
    for (name, mean) in [
        ("simple-imix", 357.8),
        ("campus-mix", 674.9),
        ("nanog-router-A", 603.0),
        ("nanog-router-B", 540.0),
        ("caida-aix-1999", 427.0),
        ("isp-2005-bimodal", 640.0),
        ("datacenter-bimodal-2009", 769.0),
    ] {
        let m = SizeModel::parse(name, Some(&models)).unwrap();
        assert!((m.mean() / mean - 1.0).abs() < 0.1, "{name}: {}", m.mean());
    }
    for (ours, theirs) in [
        ("imix", "simple-imix"),
        ("campus", "campus-mix"),
        ("router", "nanog-router-A"),
    ] {
        let (a, b) = (
            SizeModel::named(ours).unwrap(),
            SizeModel::parse(theirs, Some(&models)).unwrap(),
        );
        assert!(
            (a.mean() / b.mean() - 1.0).abs() < 0.01,
            "{ours}: {} {}",
            a.mean(),
            b.mean()
        );
    }
    assert!(SizeModel::parse("fix-west-1998-protocol-mix", Some(&models)).is_err());
}

proptest::proptest! {
    /// `covers` and `overlaps` are about all headers: a header in both shows that rules overlap, and one that only the
    /// covered rule matches would show that it is not covered.
    #[test]
    fn relations_of_rules_agree_with_headers(
        a in small_rule(), b in small_rule(),
        src in 0u32..4, dst in 0u32..4, sport in 0u16..4, dport in 0u16..4,
        proto in proptest::sample::select(vec![1u8, 6, 17, 47]), flags in small_flags(), ports: bool,
    ) {
        let h = onefold_bench::Header {
            src: src << 30, dst: dst << 30, ports: ports.then_some((sport, dport)), proto, flags,
        };
        let (in_a, in_b) = (a.matches(&h), b.matches(&h));
        proptest::prop_assert!(!(in_a && in_b) || (a.overlaps(&b) && b.overlaps(&a)));
        proptest::prop_assert!(!(a.covers(&b) && in_b) || in_a);
    }
}

fn small_flags() -> impl proptest::strategy::Strategy<Value = u16> {
    proptest::sample::select(vec![0u16, 0x0200, 0x1000, 0x1200, 0x0303, 0x0800])
}

fn small_rule() -> impl proptest::strategy::Strategy<Value = Rule> {
    use proptest::prelude::*;
    let prefix = || {
        (0u32..4, 0u8..3).prop_map(|(a, len)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            ((a << 30) & mask, len)
        })
    };
    let ports = || {
        prop_oneof![
            Just((0u16, u16::MAX)),
            (0u16..4, 0u16..4).prop_map(|(a, b)| (a.min(b), a.max(b))),
        ]
    };
    let proto = proptest::sample::select(vec![
        ProtoMatch::Any,
        ProtoMatch::Is(1),
        ProtoMatch::Is(6),
        ProtoMatch::Is(17),
    ]);
    (
        prefix(),
        prefix(),
        ports(),
        ports(),
        proto,
        small_flags(),
        small_flags(),
    )
        .prop_map(|(src, dst, sport, dport, proto, value, mask)| Rule {
            src,
            dst,
            sport,
            dport,
            proto,
            flags: (value, mask),
        })
}
