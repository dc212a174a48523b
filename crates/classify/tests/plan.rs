//! The choice between structures.

mod common;

use common::{LAYOUTS, Rng, SHAPES, Shape, compare, keys, rules};
use onefold_classify::*;

fn kind(report: &Report) -> Kind {
    report.chosen().expect("one is chosen").kind
}

#[test]
fn whatever_is_chosen_answers_like_the_linear_scan() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for n in [0, 1, 12, 90, 700] {
            let layout = Layout::new(LAYOUTS[i % LAYOUTS.len()]).unwrap();
            let mut rng = Rng(i as u64 * 100 + n as u64);
            let rules = rules(shape, &layout, n, &mut rng);
            let table = Table::new(&rules).unwrap();
            let keys = keys(&rules, 2, 100, &mut rng);
            for (changes, measure) in [(false, false), (false, true), (true, false)] {
                let needs = Needs {
                    changes,
                    measure,
                    keys: measure.then_some(keys.keys()),
                    ..Needs::default()
                };
                let (s, report) = choose(&table, &needs).unwrap();
                assert_eq!(s.kind(), kind(&report));
                assert_eq!(
                    report.chosen().unwrap().measured.is_some(),
                    measure && !keys.keys().is_empty()
                );
                compare(&rules, keys.keys(), &[s], &report.to_string());
            }
        }
    }
}

#[test]
fn few_rules_become_code_many_trees_prefixes_tries() {
    let mut rng = Rng(1);
    let five = Layout::new(LAYOUTS[0]).unwrap();
    let few = Table::new(&rules(Shape::Acl, &five, 8, &mut rng)).unwrap();
    let (_, r) = choose(&few, &Needs::default()).unwrap();
    assert_eq!(kind(&r), Kind::DecisionCode, "{r}");

    let many = Table::new(&rules(Shape::Acl, &five, 3000, &mut rng)).unwrap();
    let (_, r) = choose(&many, &Needs::default()).unwrap();
    assert_eq!(kind(&r), Kind::DecisionTree, "{r}");
    let text = r.to_string();
    assert!(
        text.contains("chosen") && text.contains("refused: decision code"),
        "{text}"
    );

    let (_, r) = choose(
        &many,
        &Needs {
            changes: true,
            ..Needs::default()
        },
    )
    .unwrap();
    assert_eq!(kind(&r), Kind::TupleSpace, "{r}");

    let routes = Routes {
        list: (0..5000)
            .map(|i| (rng.wide() & 0xffff_ffff, 8 + rng.below(25) as u8, i))
            .collect(),
    };
    let table = Table::new(&routes.rules(32).unwrap()).unwrap();
    let (_, r) = choose(&table, &Needs::default()).unwrap();
    assert_eq!(kind(&r), Kind::PrefixTrie, "{r}");
    let ten = Routes {
        list: routes.list[..10].to_vec(),
    };
    let (_, r) = choose(
        &Table::new(&ten.rules(32).unwrap()).unwrap(),
        &Needs::default(),
    )
    .unwrap();
    assert_eq!(kind(&r), Kind::DecisionCode, "{r}");
}

#[test]
fn without_memory_there_is_a_reason() {
    let mut rng = Rng(2);
    let five = Layout::new(LAYOUTS[0]).unwrap();
    let many = Table::new(&rules(Shape::Fw, &five, 3000, &mut rng)).unwrap();
    let e = choose(
        &many,
        &Needs {
            memory: 1000,
            ..Needs::default()
        },
    )
    .unwrap_err();
    assert!(
        e.to_string().contains("the budget is 1000") || e.to_string().contains("takes at most"),
        "{e}"
    );
    // the first candidate may be too large and the next one not
    let small = Needs {
        memory: 600 << 10,
        ..Needs::default()
    };
    let (s, r) = choose(&many, &small).unwrap();
    assert!(s.memory_bytes() < 1 << 20, "{r}");
}
