//! Longest-prefix look-ups: against rules, against a naive look-up, on full tables, while routes change.

#[path = "common/classbench.rs"]
mod classbench;
mod common;

use common::{Rng, compare, keys};
use onefold_classify::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// The simplest thing that is right: one hash table per length, the longest first.
struct Naive {
    bits: u8,
    by_len: BTreeMap<std::cmp::Reverse<u8>, HashMap<u128, u32>>,
}

impl Naive {
    fn cut(&self, v: u128, len: u8) -> u128 {
        if len == 0 { 0 } else { v >> (self.bits - len) }
    }

    fn new(bits: u8) -> Self {
        Self {
            bits,
            by_len: BTreeMap::new(),
        }
    }

    fn set(&mut self, v: u128, len: u8, next: Option<u32>) {
        let cut = self.cut(v, len);
        let of = self.by_len.entry(std::cmp::Reverse(len)).or_default();
        match next {
            Some(n) => of.insert(cut, n),
            None => of.remove(&cut),
        };
    }

    fn find(&self, v: u128) -> u32 {
        (self.by_len.iter())
            .find_map(|(len, of)| of.get(&self.cut(v, len.0)).copied())
            .unwrap_or(NO_MATCH)
    }
}

fn routes(rng: &mut Rng, bits: u8, n: usize) -> Routes {
    let max = Layout::new(&[bits]).unwrap().max_of(0);
    let mut r = Routes::default();
    for _ in 0..n {
        // half of them near an earlier one, so that they nest
        let near = r.list.get(rng.below(r.list.len().max(1))).copied();
        let value = match near {
            Some((v, _, _)) if rng.chance(60) => {
                v ^ (rng.wide() & max) >> rng.below(usize::from(bits))
            }
            _ => rng.wide() & max,
        };
        let len = rng.below(usize::from(bits) + 1) as u8;
        r.list.push((value, len, rng.below(50) as u32));
    }
    r
}

fn addresses(rng: &mut Rng, bits: u8, r: &Routes, n: usize) -> Vec<u128> {
    let max = Layout::new(&[bits]).unwrap().max_of(0);
    (0..n)
        .map(|_| match r.list.get(rng.below(r.list.len().max(1))) {
            Some((v, len, _)) if rng.chance(80) => {
                let host = max.checked_shr(u32::from(*len)).unwrap_or(0);
                let inside = v & !host | rng.wide() & host;
                match rng.below(4) {
                    0 => v & !host,
                    1 => v | host,
                    2 => (v | host).wrapping_add(1) & max,
                    _ => inside,
                }
            }
            _ => rng.wide() & max,
        })
        .collect()
}

fn ask(t: &dyn Classifier, bits: u8, addresses: &[u128]) -> Vec<u32> {
    let layout = Layout::new(&[bits]).unwrap();
    let mut keys = KeyBuf::new(&layout, addresses.len());
    assert!(addresses.iter().all(|a| keys.push(&[*a])));
    let mut out = vec![0; addresses.len()];
    t.lookup(keys.keys(), &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tries_agree_with_rules_and_with_a_naive_look_up(
        seed in any::<u64>(),
        bits in prop::sample::select(vec![1u8, 7, 18, 19, 24, 32, 33, 48, 64, 65, 100, 128]),
        n in 0usize..60,
    ) {
        let mut rng = Rng(seed);
        let r = routes(&mut rng, bits, n);
        let mut naive = Naive::new(bits);
        r.list.iter().for_each(|(v, l, n)| naive.set(*v, *l, Some(*n)));
        let a = addresses(&mut rng, bits, &r, 400);
        let want: Vec<u32> = a.iter().map(|a| naive.find(*a)).collect();
        let trie = r.trie(bits, 1 << 30).unwrap();
        prop_assert_eq!(&ask(&trie, bits, &a), &want);
        let rules = r.rules(bits).unwrap();
        prop_assert_eq!(&ask(&Linear::new(&rules), bits, &a), &want);
        let table = Table::new(&rules).unwrap();
        prop_assert_eq!(&ask(&DecisionCode::new(&table).unwrap(), bits, &a), &want);
        prop_assert_eq!(&ask(&PrefixTrie::of_table(&table, 1 << 30).unwrap(), bits, &a), &want);
    }

    /// Rules in any order: a short prefix before a longer one hides it.
    #[test]
    fn prefix_rules_in_any_order(seed in any::<u64>(), bits in prop::sample::select(vec![16u8, 32, 48, 128]), n in 0usize..40) {
        let mut rng = Rng(seed);
        let r = routes(&mut rng, bits, n);
        let layout = Layout::new(&[8, bits, 16]).unwrap();
        let mut rules = Rules::new(layout);
        for (value, len, next) in &r.list {
            rules.push(&[Match::Any, Match::Prefix { value: *value, len: *len }, Match::Any], *next).unwrap();
        }
        let keys = keys(&rules, 5, 100, &mut rng);
        let trie = PrefixTrie::of_table(&Table::new(&rules).unwrap(), 1 << 30).unwrap();
        compare(&rules, keys.keys(), &[Box::new(trie)], "prefixes");
    }

    #[test]
    fn routes_come_and_go(seed in any::<u64>(), bits in prop::sample::select(vec![8u8, 20, 32, 50, 128])) {
        let mut rng = Rng(seed);
        let all = routes(&mut rng, bits, 80);
        let mut naive = Naive::new(bits);
        let mut left_right = LeftRight::new(PrefixTrie::new(bits, 0, 1 << 30).unwrap());
        let mut reader = left_right.reader();
        for _ in 0..300 {
            let (value, len, next) = all.list[rng.below(all.list.len())];
            let change = match rng.chance(55) {
                true => {
                    naive.set(value, len, Some(next));
                    RouteChange::Set { value, len, next }
                }
                false => {
                    naive.set(value, len, None);
                    RouteChange::Remove { value, len }
                }
            };
            left_right.queue(change).unwrap();
            let p = left_right.publish();
            prop_assert!(p.refused.is_empty() && p.waiting == 0);
            let a = addresses(&mut rng, bits, &all, 20);
            let want: Vec<u32> = a.iter().map(|a| naive.find(*a)).collect();
            prop_assert_eq!(ask(reader.get(), bits, &a), want);
        }
        // when all are gone, nothing is left, nor is memory lost
        let mut t = reader.get().clone();
        for (value, len, _) in &all.list {
            t.remove(*value, *len).unwrap();
        }
        prop_assert!(t.is_empty());
        let before = t.memory_bytes();
        for _ in 0..20 {
            for (value, len, next) in &all.list {
                t.insert(*value, *len, *next).unwrap();
            }
            for (value, len, _) in &all.list {
                t.remove(*value, *len).unwrap();
            }
        }
        prop_assert!(t.memory_bytes() < before * 2 + 100_000);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(matches!(
        PrefixTrie::new(0, 0, 1 << 30),
        Err(RouteError::Width { bits: 0 })
    ));
    assert!(matches!(
        PrefixTrie::new(32, 0, 1000),
        Err(RouteError::Refused(_))
    ));
    let mut t = PrefixTrie::new(32, 0, 4 << 20).unwrap();
    assert!(matches!(t.insert(0, 33, 1), Err(RouteError::Length { .. })));
    assert!(matches!(
        t.insert(1 << 32, 8, 1),
        Err(RouteError::Value { .. })
    ));
    assert!(matches!(
        t.insert(0, 0, NO_MATCH),
        Err(RouteError::Reserved)
    ));
    // the budget ends it, and what was there stays
    let mut rng = Rng(3);
    let mut naive = Naive::new(32);
    let refused = (0..1_000_000).any(|_| {
        let v = u128::from(rng.next() as u32);
        let full = t.insert(v, 32, 7).is_err();
        if !full {
            naive.set(v, 32, Some(7));
        }
        full
    });
    assert!(refused && t.len() > 1000);
    let a = addresses(&mut rng, 32, &Routes::default(), 1000);
    let want: Vec<u32> = a.iter().map(|a| naive.find(*a)).collect();
    assert_eq!(ask(&t, 32, &a), want);
    let mut rules = Rules::new(Layout::new(&[8, 8]).unwrap());
    rules
        .push(&[Match::Range { lo: 1, hi: 2 }, Match::Any], 0)
        .unwrap();
    let e = PrefixTrie::of_table(&Table::new(&rules).unwrap(), 1 << 30).unwrap_err();
    assert!(e.to_string().contains("no prefixes"), "{e}");
    rules.push(&[Match::Exact(1), Match::Exact(1)], 0).unwrap();
    let e = PrefixTrie::of_table(&Table::new(&rules).unwrap(), 1 << 30).unwrap_err();
    assert!(e.to_string().contains("more than one field"), "{e}");
}

/// Full tables of both families, next hops by a hash.
fn tables() -> Option<(Routes, Routes)> {
    let data = classbench::data()?;
    let text = classbench::text(&data.join("fib/dfz-half-public.prefixes.txt.gz"));
    let (mut v4, mut v6) = (Routes::default(), Routes::default());
    let mut rng = Rng(1);
    for line in text.lines() {
        let (a, len) = line.split_once('/').unwrap();
        let len = len.parse().unwrap();
        let next = rng.below(64) as u32;
        match a.parse().unwrap() {
            std::net::IpAddr::V4(a) => v4.list.push((u32::from(a).into(), len, next)),
            std::net::IpAddr::V6(a) => v6.list.push((u128::from(a), len, next)),
        }
    }
    assert!(v4.list.len() > 400_000 && v6.list.len() > 70_000);
    Some((v4, v6))
}

fn full_tables(n: usize) {
    let Some((v4, v6)) = tables() else { return };
    for (bits, r) in [(32, v4), (128, v6)] {
        let start = Instant::now();
        let mut t = r.trie(bits, 1 << 30).unwrap();
        eprintln!(
            "{}: loaded in {:.2} s, {} KiB",
            t.shape(),
            start.elapsed().as_secs_f64(),
            t.memory_bytes() / 1024
        );
        assert!(
            start.elapsed().as_secs() < 3 * 10,
            "loading takes too long, even on a busy machine"
        );
        let mut naive = Naive::new(bits);
        r.list
            .iter()
            .for_each(|(v, l, n)| naive.set(*v, *l, Some(*n)));
        let mut rng = Rng(9);
        let max = Layout::new(&[bits]).unwrap().max_of(0);
        let check = |t: &PrefixTrie, naive: &Naive, rng: &mut Rng, n: usize| {
            let mut left = n;
            while left > 0 {
                let some = left.min(100_000);
                let mut a = addresses(rng, bits, &r, some / 2);
                a.extend((0..some - some / 2).map(|_| rng.wide() & max));
                for (a, got) in a.iter().zip(ask(t, bits, &a)) {
                    assert_eq!(got, naive.find(*a), "{a:x}");
                }
                left -= some;
            }
        };
        check(&t, &naive, &mut rng, n);
        // routes change, one of every length among them
        let mut times = Vec::new();
        for i in 0..3000 {
            let (value, len, _) = match i {
                0..=128 => (rng.wide() & max, (i as u8).min(bits), 0),
                _ => r.list[rng.below(r.list.len())],
            };
            let start = Instant::now();
            match i % 3 {
                0 => {
                    t.remove(value, len).unwrap();
                    naive.set(value, len, None);
                }
                _ => {
                    t.insert(value, len, i).unwrap();
                    naive.set(value, len, Some(i));
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        eprintln!(
            "  a change takes {:.1} us, {:.0} us at 99.9%, {:.0} us at most",
            at(0.5),
            at(0.999),
            times[times.len() - 1]
        );
        assert!(at(0.99) < 1000.0, "a change takes too long");
        check(&t, &naive, &mut rng, n / 4);
    }
}

#[test]
fn full_tables_agree_with_a_naive_look_up() {
    full_tables(200_000);
}

#[test]
#[ignore = "ten million addresses: a minute; cargo test --release -p onefold-classify --test routes -- --ignored"]
fn full_tables_on_ten_million_addresses() {
    full_tables(10_000_000);
}
