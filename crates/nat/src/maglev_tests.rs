//! The table against the paper's pseudo-code, and what the paper promises of it.

use super::*;
use proptest::prelude::*;

/// Section 3.4 as it is written: the permutations as a matrix, `Populate` from it. All weights are 1.
fn by_the_paper(names: &[String], m: u32, seed: u32) -> Vec<u16> {
    let seed = u64::from(seed) << 1;
    let permutation: Vec<Vec<usize>> = names
        .iter()
        .map(|name| {
            let offset = hash_name(name, seed) % u64::from(m);
            let skip = hash_name(name, seed | 1) % u64::from(m - 1) + 1;
            let j = 0..u64::from(m);
            j.map(|j| ((offset + j * skip) % u64::from(m)) as usize)
                .collect()
        })
        .collect();
    let (mut next, mut entry) = (vec![0; names.len()], vec![-1i32; m as usize]);
    let mut n = 0;
    loop {
        for i in 0..names.len() {
            let mut c = permutation[i][next[i]];
            while entry[c] >= 0 {
                next[i] += 1;
                c = permutation[i][next[i]];
            }
            entry[c] = i as i32;
            next[i] += 1;
            n += 1;
            if n == m {
                return entry.into_iter().map(|e| e as u16).collect();
            }
        }
    }
}

fn names(n: usize, salt: u32) -> Vec<String> {
    // sorted as text, as turns are taken in that order
    let mut all: Vec<String> = (0..n).map(|i| format!("10.{salt}.0.{i}:80")).collect();
    all.sort();
    all
}

fn table(names: &[String], weight: impl Fn(usize) -> u32, size: u32, seed: u32) -> MaglevTable {
    let all = names.iter().enumerate();
    let all: Vec<(&str, u32)> = all.map(|(i, n)| (n.as_str(), weight(i))).collect();
    MaglevTable::new(&all, size, seed)
}

fn counts(t: &MaglevTable) -> Vec<usize> {
    let mut n = vec![0; t.servers];
    t.places().iter().for_each(|s| n[usize::from(*s)] += 1);
    n
}

/// Places of others that change when one of `n` servers goes, as a share of all places.
fn moved(n: usize, size: u32, gone: usize) -> f64 {
    let all = names(n, 7);
    let fewer: Vec<String> = (all.iter().enumerate())
        .filter(|(i, _)| *i != gone)
        .map(|(_, name)| name.clone())
        .collect();
    let (before, after) = (table(&all, |_| 1, size, 3), table(&fewer, |_| 1, size, 3));
    let places = before.places().iter().zip(after.places());
    let changed = places.filter(|(a, b)| {
        let (a, b) = (usize::from(**a), usize::from(**b));
        a != gone && all[a] != fewer[b]
    });
    changed.count() as f64 / f64::from(size)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_is_the_papers_table(n in 1usize..40, salt in 0u32..1000, seed: u32,
        size in proptest::sample::select(vec![41u32, 251, 509, 1021, 2039])) {
        let all = names(n, salt);
        let t = table(&all, |_| 1, size, seed);
        prop_assert_eq!(t.places(), by_the_paper(&all, size, seed));
        // everybody takes one place a turn: no two shares differ by more than one place
        let c = counts(&t);
        let spread = c.iter().max().unwrap() - c.iter().min().unwrap();
        prop_assert!(spread <= 1, "{:?}", c);
    }

    #[test]
    fn shares_are_as_the_weights(weights in proptest::collection::vec(1u32..100, 1..20), seed: u32) {
        let size = 4093;
        let t = table(&names(weights.len(), 1), |i| weights[i], size, seed);
        let sum: u32 = weights.iter().sum();
        for (i, c) in counts(&t).iter().enumerate() {
            let fair = f64::from(size) * f64::from(weights[i]) / f64::from(sum);
            // a server may be one turn ahead, and the last row of turns may be cut short anywhere: of each server one
            let slack = 2.0 + f64::from(weights[i]) * weights.len() as f64 / f64::from(sum);
            prop_assert!((*c as f64 - fair).abs() <= slack, "{} of {}: {c}, not {fair}", i, weights.len());
        }
    }

    #[test]
    fn the_order_of_servers_does_not_matter(n in 1usize..20, seed: u32) {
        let all = names(n, 5);
        let turned: Vec<String> = all.iter().rev().cloned().collect();
        let (a, b) = (table(&all, |_| 1, 509, seed), table(&turned, |_| 1, 509, seed));
        for (x, y) in a.places().iter().zip(b.places()) {
            prop_assert_eq!(&all[usize::from(*x)], &turned[usize::from(*y)]);
        }
    }

    #[test]
    fn who_is_down_gets_nothing_and_moves_nobody_else(n in 2usize..20, down in 0usize..20, flow: [u64; 2]) {
        let (t, down) = (table(&names(n, 2), |_| 1, 251, 9), down % n);
        let before = t.server(flow, |_| true).unwrap();
        let now = t.server(flow, |s| s != down).unwrap();
        prop_assert_ne!(now, down);
        prop_assert!(before == down || before == now);
        // the last one that is up has all of it
        prop_assert_eq!(t.server(flow, |s| s == down), Some(down));
        prop_assert_eq!(t.server(flow, |_| false), None);
    }
}

#[test]
fn few_places_change_when_a_server_goes() {
    // Figure 12 of the paper: the more places for each server, the fewer change
    for (n, size, most) in [(3, 65_537, 0.06), (10, 65_537, 0.06), (100, 65_537, 0.04)] {
        for gone in [0, n / 2, n - 1] {
            let share = moved(n, size, gone);
            assert!(share < most, "{n} servers, {gone} goes: {share}");
        }
    }
    assert!(moved(100, 65_537, 50) < moved(100, 1_021, 50));
}

#[test]
fn those_of_a_server_that_is_down_are_shared_by_all_others() {
    let t = table(&names(5, 4), |i| [1, 2, 1, 1, 1][i], 65_537, 0);
    let mut n = [0usize; 5];
    for i in 0..40_000u64 {
        n[t.server([i, 7], |s| s != 4).unwrap()] += 1;
    }
    for (s, share) in [(0, 8000.0), (1, 16_000.0), (2, 8000.0), (3, 8000.0)] {
        assert!((n[s] as f64 - share).abs() < share * 0.06, "{n:?}");
    }
}

#[test]
fn sizes_are_primes_and_nothing_panics() {
    let primes: Vec<u32> = (0..30).filter(|n| is_table_size(*n)).collect();
    assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    assert!(is_table_size(TABLE_SIZE) && is_table_size(4_194_301));
    assert!(!is_table_size(65_535) && !is_table_size(4_194_319));
    for (servers, size) in [(vec![], 7), (vec![("a", 0)], 7), (vec![("a", 1)], 8)] {
        let t = MaglevTable::new(&servers, size, 1);
        assert_eq!(t.server([1, 2], |_| true), None);
    }
    assert_eq!(
        MaglevTable::new(&[("a", 1)], 2, 1).server([1, 2], |_| true),
        Some(0)
    );
}
