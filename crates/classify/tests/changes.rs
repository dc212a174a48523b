//! Rules of a tuple space come and go under a reader; after each change it answers like the linear scan.

mod common;

use common::{LAYOUTS, Rng, SHAPES, keys, rules};
use onefold_classify::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_come_and_go(seed in any::<u64>(), shape in 0..SHAPES.len(), layout in 0..LAYOUTS.len()) {
        let mut rng = Rng(seed);
        let layout = Layout::new(LAYOUTS[layout]).unwrap();
        let all = rules(SHAPES[shape], &layout, 120, &mut rng);
        let keys = keys(&all, 1, 60, &mut rng);
        let mut left_right = LeftRight::new(TupleSpace::empty(&layout, 1 << 26));
        let mut reader = left_right.reader();
        // priority -> rule
        let mut there: BTreeMap<u32, usize> = BTreeMap::new();
        for _ in 0..250 {
            let rule = rng.below(all.len());
            let (matches, value) = all.get(rule).unwrap();
            let priority = rng.below(300) as u32;
            let change = match there.contains_key(&priority) {
                true => {
                    there.remove(&priority);
                    RuleChange::Remove { priority }
                }
                false => {
                    there.insert(priority, rule);
                    RuleChange::Insert { priority, matches: matches.to_vec(), value }
                }
            };
            // a batch begins: the reader leaves the old copy
            reader.get();
            left_right.queue(change).unwrap();
            let p = left_right.publish();
            prop_assert!(p.refused.is_empty() && p.waiting == 0, "{:?}", p);
            if rng.chance(20) {
                let mut list = Rules::new(layout.clone());
                for rule in there.values() {
                    let (m, v) = all.get(*rule).unwrap();
                    list.push(m, v).unwrap();
                }
                let mut want = vec![0; keys.keys().len()];
                Linear::new(&list).lookup(keys.keys(), &mut want);
                common::check(reader.get(), keys.keys(), &want, &format!("{:?}", SHAPES[shape]));
            }
        }
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let layout = Layout::new(&[32, 16]).unwrap();
    let mut t = TupleSpace::empty(&layout, 1 << 20);
    t.insert(5, &[Match::Exact(1), Match::Any], 50).unwrap();
    let e = t.insert(5, &[Match::Any; 2], 51).unwrap_err();
    assert_eq!(e, UpdateError::Taken { priority: 5 });
    assert!(t.insert(6, &[Match::Any], 51).is_err());
    assert!(!t.remove(7));
    assert_eq!(
        (t.lookup_one(&[1, 9]), t.lookup_one(&[2, 9])),
        (50, NO_MATCH)
    );
    // the budget
    let full =
        (8..100_000u32).find_map(|i| t.insert(i, &[Match::Exact(i.into()), Match::Any], i).err());
    assert!(
        matches!(full, Some(UpdateError::Refused(Refusal::Memory { .. }))),
        "{full:?}"
    );
    assert_eq!(t.lookup_one(&[1, 9]), 50);
    assert_eq!(t.lookup_one(&[8, 9]), 8);
}

/// More tuples than tables: refused, not slow.
#[test]
fn too_many_tuples_are_refused() {
    let layout = Layout::new(&[32, 32, 32]).unwrap();
    let mut rules = Rules::new(layout);
    let mut rng = Rng(4);
    for i in 0..20_000 {
        let mut mask = || Match::Mask {
            value: rng.wide() & 0xffff_ffff,
            mask: rng.wide() & 0xffff_ffff,
        };
        rules.push(&[mask(), mask(), mask()], i).unwrap();
    }
    let e = TupleSpace::new(&Table::new(&rules).unwrap(), 1 << 30);
    assert!(matches!(e, Err(Refusal::TooMany { .. })), "{e:?}");
}
