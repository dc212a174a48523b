use super::*;
use onefold_packet::Packet;
use proptest::prelude::*;

const WIDTHS: [u8; 6] = [32, 32, 16, 8, 128, 64];

/// A value near the places where something changes.
fn value(bits: u8) -> impl Strategy<Value = u128> {
    let max = max_of(bits);
    prop_oneof![
        3 => (0u128..24).prop_map(move |v| (v * (max / 23)).min(max)),
        2 => (0u128..40).prop_map(move |v| v.min(max)),
        1 => Just(max),
        1 => any::<u128>().prop_map(move |v| v & max),
    ]
}

fn set(bits: u8) -> impl Strategy<Value = ValueSet> {
    let one = (value(bits), value(bits), any::<bool>())
        .prop_map(|(a, b, single)| if single { (a, a) } else { (a.min(b), a.max(b)) });
    proptest::collection::vec(one, 1..4).prop_map(ValueSet::from_intervals)
}

fn rule() -> impl Strategy<Value = Vec<Condition>> {
    let dims = (0..WIDTHS.len()).map(|d| {
        let bits = WIDTHS[d];
        proptest::option::weighted(0.4, set(bits)).prop_map(move |s| {
            s.map(|set| Condition {
                reg: d as u16,
                bits,
                set,
                lazy: false,
            })
        })
    });
    dims.collect::<Vec<_>>()
        .prop_map(|v| v.into_iter().flatten().collect())
}

fn key() -> impl Strategy<Value = Vec<u128>> {
    WIDTHS.into_iter().map(value).collect::<Vec<_>>()
}

fn linear(rules: &[Vec<Condition>], key: &[u128]) -> u32 {
    let fits = |r: &Vec<Condition>| r.iter().all(|c| c.set.contains(key[usize::from(c.reg)]));
    rules.iter().position(fits).map_or(NO_RULE, |i| i as u32)
}

fn ask(c: &Classifier, s: StageIndex, key: &[u128]) -> u32 {
    let mut regs = Regs::new(key.len());
    regs.v.copy_from_slice(key);
    c.first(s, &mut regs, &[], &Packet::from_slice(&[]))
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(32))]
    #[test]
    fn finds_what_the_linear_scan_finds(
        a in proptest::collection::vec(rule(), 0..12),
        b in proptest::collection::vec(rule(), 60..200),
        keys in proptest::collection::vec(key(), 100),
    ) {
        let mut builder = Builder::default();
        let (few, many) = (builder.stage(&a), builder.stage(&b));
        let c = builder.finish();
        // corners of the rules themselves, too
        let corners = b.iter().take(60).map(|r| {
            let mut k = keys[0].clone();
            for c in r {
                k[usize::from(c.reg)] = hull(&c.set).1;
            }
            k
        });
        for key in keys.iter().cloned().chain(corners) {
            prop_assert_eq!(ask(&c, few, &key), linear(&a, &key));
            prop_assert_eq!(ask(&c, many, &key), linear(&b, &key));
        }
    }
}

/// Rules as access lists have them: most narrow, in two dimensions.
#[test]
fn ten_thousand_rules_make_short_walks() {
    let mut x = 88172645463325252u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        u128::from(x)
    };
    let prefix = |v: u128, len: u8| ValueSet::prefix(v & 0xffff_ffff, len, 32);
    let mut rules = Vec::new();
    for _ in 0..10_000 {
        let c = |reg, bits, set| Condition {
            reg,
            bits,
            set,
            lazy: false,
        };
        let (l1, l2) = ((next() % 20 + 13) as u8, (next() % 20 + 13) as u8);
        let mut r = vec![c(0, 32, prefix(next(), l1)), c(1, 32, prefix(next(), l2))];
        if next() % 2 == 0 {
            r.push(c(2, 16, ValueSet::one(next() % 1024)));
        }
        if next() % 20 == 0 {
            r.remove(0);
        }
        rules.push(r);
    }
    rules.push(Vec::new());
    let mut b = Builder::default();
    let s = b.stage(&rules);
    let c = b.finish();
    let (nodes, entries) = c.size();
    assert!(entries < 10_001 * MAX_COPIES + 4096, "{nodes} {entries}");
    for i in 0..2_000 {
        let r = &rules[(next() % 10_000) as usize];
        let mut key = vec![next() & 0xffff_ffff, next() & 0xffff_ffff, next() & 0xffff];
        if i % 2 == 0 {
            for c in r {
                key[usize::from(c.reg)] = hull(&c.set).0;
            }
        }
        assert_eq!(ask(&c, s, &key), linear(&rules, &key));
    }
}
