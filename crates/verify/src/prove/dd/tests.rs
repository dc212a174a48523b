//! Operations on diagrams against truth tables of six variables.

use super::*;
use proptest::prelude::*;

/// A function of six variables, as the table of its values.
fn build(dd: &mut Dd, table: u64) -> Ref {
    fn go(dd: &mut Dd, table: u64, level: u32) -> Ref {
        if level == 6 {
            return (table & 1) as Ref;
        }
        let half = 1 << (5 - level);
        let lo = go(dd, table, level + 1);
        let hi = go(dd, table >> half, level + 1);
        let v = dd.var(level);
        dd.ite(v, hi, lo)
    }
    go(dd, table, 0)
}

proptest! {
    #[test]
    fn algebra(a: u64, b: u64, c: u64) {
        let mut dd = Dd::new(1 << 20, None);
        let (x, y, z) = (build(&mut dd, a), build(&mut dd, b), build(&mut dd, c));
        let and = dd.and(x, y);
        prop_assert_eq!(and, build(&mut dd, a & b));
        let or = dd.or(x, y);
        prop_assert_eq!(or, build(&mut dd, a | b));
        let xor = dd.xor(x, y);
        prop_assert_eq!(xor, build(&mut dd, a ^ b));
        let minus = dd.minus(x, y);
        prop_assert_eq!(minus, build(&mut dd, a & !b));
        let ite = dd.ite(x, y, z);
        prop_assert_eq!(ite, build(&mut dd, a & b | !a & c));
        prop_assert!((dd.share(x) - f64::from(a.count_ones()) / 64.0).abs() < 1e-9);
        // the first variable is the highest bit of the index
        let ex = dd.exists(x, &BTreeSet::from([0]));
        let (l, h) = (a & 0xffff_ffff, a >> 32);
        let both = l | h;
        prop_assert_eq!(ex, build(&mut dd, both | both << 32));
        prop_assert_eq!(dd.implies(x, y), a & !b == 0);
        prop_assert_eq!(dd.implies(and, y), true);
        prop_assert_eq!(dd.disjoint(x, y), a & b == 0);
        prop_assert_eq!(dd.disjoint(minus, y), true);
        let within = dd.within(x, y);
        prop_assert_eq!(dd.and(within, y), and);
        let swapped = dd.put(x, &HashMap::from([(0, y)]));
        let (lo, hi) = (l | l << 32, h | h << 32);
        prop_assert_eq!(swapped, build(&mut dd, b & hi | !b & lo));
        if let Some(p) = dd.pick(x) {
            let mut f = YES;
            for (l, v) in p {
                let v0 = dd.var(l);
                let lit = if v { v0 } else { dd.not(v0) };
                f = dd.and(f, lit);
            }
            prop_assert_eq!(dd.minus(f, x), NO);
        } else {
            prop_assert_eq!(a, 0);
        }
    }
    #[test]
    fn first_match(sets: [u64; 5]) {
        let mut dd = Dd::new(1 << 20, None);
        let list: Vec<Ref> = sets.iter().enumerate().map(|(i, s)| {
            let f = build(&mut dd, *s);
            let t = dd.terminal(i as u32 + 1);
            dd.ite(f, t, NO)
        }).collect();
        let all = dd.first(&list);
        let mut left = u64::MAX;
        for (i, s) in sets.iter().enumerate() {
            let is = dd.is(all, i as u32 + 1);
            prop_assert_eq!(is, build(&mut dd, s & left));
            left &= !s;
        }
    }
}

#[test]
fn what_was_tried_in_vain_leaves_nothing_behind() {
    let mut dd = Dd::new(1 << 20, None);
    let f = build(&mut dd, 0x1234_5678_9abc_def0);
    let nodes = dd.nodes();
    let long = |dd: &mut Dd| {
        (0..50).fold(f, |f, i| {
            let v = dd.var(100 + i);
            dd.and(v, f)
        })
    };
    assert_eq!(dd.attempt(20, long), None);
    assert_eq!((dd.nodes(), dd.stopped()), (nodes, None));
    assert_eq!(build(&mut dd, 0x1234_5678_9abc_def0), f);
    let made = dd.attempt(10_000, long).expect("room for it");
    assert_eq!(made, long(&mut dd));
    assert_eq!(dd.support(made).len(), 50 + dd.support(f).len());
}

#[test]
fn bounds_end_the_work() {
    let mut dd = Dd::new(10, None);
    let mut f = YES;
    for i in 0..20 {
        let v = dd.var(i);
        f = dd.and(f, v);
    }
    assert_eq!(dd.stopped(), Some(Stop::Nodes));
}
