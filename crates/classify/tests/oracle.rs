//! Every structure answers like the linear scan: all shapes, all layouts, corners of every rule.

mod common;

use common::*;
use onefold_classify::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn structures_answer_like_the_linear_scan(
        seed in any::<u64>(),
        shape in 0..SHAPES.len(),
        layout in 0..LAYOUTS.len(),
        n in 0usize..120,
    ) {
        let mut rng = Rng(seed);
        let layout = Layout::new(LAYOUTS[layout]).unwrap();
        let rules = rules(SHAPES[shape], &layout, n, &mut rng);
        let keys = keys(&rules, 6, 200, &mut rng);
        compare(&rules, keys.keys(), &structures(&rules), &format!("{:?}", SHAPES[shape]));
    }
}

/// A fixed number of larger sets.
#[test]
fn a_thousand_rules_of_every_shape() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for (j, layout) in LAYOUTS.iter().enumerate() {
            let mut rng = Rng((i * 31 + j) as u64);
            let layout = Layout::new(layout).unwrap();
            let rules = rules(shape, &layout, 1100, &mut rng);
            let keys = keys(&rules, 2, 500, &mut rng);
            let about = format!("{shape:?} over {:?}", LAYOUTS[j]);
            compare(&rules, keys.keys(), &structures(&rules), &about);
        }
    }
}

/// Keys with bits that their fields do not have get some answer.
#[test]
fn keys_out_of_range_do_no_harm() {
    let layout = Layout::new(LAYOUTS[5]).unwrap();
    let mut rng = Rng(5);
    let rules = rules(Shape::Ipc, &layout, 300, &mut rng);
    let data: Vec<u32> = (0..layout.words() * 64)
        .map(|_| rng.next() as u32)
        .collect();
    let keys = Keys::new(&data, layout.words(), 64, 64).unwrap();
    let short = Keys::new(&data, 1, 64, 64).unwrap();
    let mut out = [0; 64];
    for s in structures(&rules) {
        s.lookup(keys, &mut out);
        s.lookup(short, &mut out);
        s.lookup(keys, &mut out[..3]);
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    assert!(matches!(
        Layout::new(&[]),
        Err(RuleError::Fields { found: 0 })
    ));
    assert!(matches!(Layout::new(&[0]), Err(RuleError::Width { .. })));
    assert!(matches!(Layout::new(&[129]), Err(RuleError::Width { .. })));
    assert!(matches!(
        Layout::new(&[128; 9]),
        Err(RuleError::Words { found: 36 })
    ));
    let mut r = Rules::new(Layout::new(&[16, 8]).unwrap());
    let any = Match::Any;
    for (bad, expected) in [
        (
            vec![any],
            "has 1 matches, expected one for each of 2 fields",
        ),
        (
            vec![Match::Exact(0x10000), any],
            "rule 0, field 0: 0x10000 does not fit in 16 bits",
        ),
        (
            vec![any, Match::Prefix { value: 0, len: 9 }],
            "field 1: prefix length 9, the field has 8 bits",
        ),
        (
            vec![Match::Range { lo: 2, hi: 1 }, any],
            "the range 0x2 to 0x1 is empty",
        ),
        (
            vec![
                any,
                Match::Mask {
                    value: 0,
                    mask: 256,
                },
            ],
            "0x100 does not fit in 8 bits",
        ),
    ] {
        let e = r.push(&bad, 0).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}");
    }
    assert!(matches!(
        r.push(&[any; 2], NO_MATCH),
        Err(RuleError::Reserved { rule: 0 })
    ));
    assert!(r.is_empty());

    let mut rng = Rng(1);
    let big = rules(
        Shape::Acl,
        &Layout::new(LAYOUTS[0]).unwrap(),
        2000,
        &mut rng,
    );
    let table = Table::new(&big).unwrap();
    assert!(matches!(
        DecisionCode::new(&table),
        Err(Refusal::TooMany { found: 2000.., .. }) | Err(Refusal::TooMany { .. })
    ));
    let e = BitVector::new(&table, 10_000).unwrap_err();
    assert!(matches!(e, Refusal::Memory { budget: 10_000, .. }), "{e}");
}

#[test]
fn rules_that_come_apart_too_far_and_lists_that_are_too_long_are_refused() {
    let layout = Layout::new(&[128, 128, 128]).unwrap();
    let mut r = Rules::new(layout);
    let odd = Match::Range {
        lo: 0x1_0000_0001_0000_0001_0000_0001,
        hi: u128::MAX - 0x1_0000_0001_0000_0001_0000_0001,
    };
    r.push(&[odd, odd, Match::Any], 0).unwrap();
    assert_eq!(Table::new(&r).unwrap().len(), 49);
    r.push(&[odd, odd, odd], 1).unwrap();
    assert!(matches!(
        Table::new(&r),
        Err(RuleError::Parts { rule: 1, .. })
    ));

    let mut r = Rules::new(Layout::new(&[8]).unwrap());
    for _ in 0..MAX_RULES {
        r.push(&[Match::Exact(1)], 0).unwrap();
    }
    assert!(matches!(
        r.push(&[Match::Any], 0),
        Err(RuleError::TooMany { .. })
    ));
    assert_eq!(Table::new(&r).unwrap().len(), 1);
}
