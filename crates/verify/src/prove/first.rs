//! Long first-match lists as diagrams, from the first variable to the last: what is left of the list behind each value.
//!
//! A rule is a conjunction of functions ([`Rule`]). Joining rules one by one makes a diagram for each of them first,
//! most of which are never seen again: ten thousand firewall rules before a router are 150,000 rules of 200 bits. Here
//! the list is split by one variable after the other; rules that do not fit any more leave, those behind one that fits
//! whatever follows are not looked at, and lists that have become the same are looked at once. So there are about as
//! many steps as the diagram has nodes.
//!
//! Rules share what they have in common at the end ([`Tail`]): lists are the same when what is *left* of them is the
//! same. Lists are told apart by 128 bits of keyed hash, the keys chosen at random for each list: two that differ are
//! taken for the same with probability 2^-90 in the longest proofs.

use super::dd::{Dd, NO, Quick, Ref, YES};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// A rule: it fits where all functions hold, and says this value (not zero).
pub struct Rule {
    /// Functions of "no" and "yes".
    pub all: Vec<Ref>,
    /// What it says.
    pub value: u32,
}

/// What is left of a rule behind some variable: a function whose variables all come before those of the next one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tail {
    head: Ref,
    /// The number of the next one, or [`END`].
    next: u32,
    value: u32,
}

const END: u32 = u32::MAX;

/// A rule in a list: what holds still has to be seen by `head`, and then by the tail `next`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    head: Ref,
    next: u32,
    value: u32,
    /// Of the head's first variable.
    level: u32,
}

struct Split {
    tails: Vec<Tail>,
    /// For each tail: in which list it was seen last, with which function before it.
    seen: Vec<(u32, Ref)>,
    lists: u32,
    known: HashMap<u128, Ref, Quick>,
    keys: [u64; 4],
}

impl Dd {
    /// First match: what the first rule says that fits; zero where none does.
    pub fn first_match(&mut self, rules: Vec<Rule>) -> Ref {
        let mut s = Split {
            tails: Vec::new(),
            seen: Vec::new(),
            lists: 0,
            known: HashMap::default(),
            keys: std::array::from_fn(|i| RandomState::new().hash_one(i) | 1),
        };
        let list = s.prepare(self, rules);
        let list = s.tidy(self, &list, None);
        let before = self.extra;
        let r = s.build(self, &list);
        self.extra = before;
        r
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let p = u128::from(a) * u128::from(b);
    (p as u64) ^ (p >> 64) as u64
}

impl Split {
    /// Functions with variables in common are joined, the others put in order; tails are numbered.
    fn prepare(&mut self, dd: &mut Dd, rules: Vec<Rule>) -> Vec<Entry> {
        let mut last: HashMap<Ref, u32, Quick> = HashMap::default();
        let mut numbers: HashMap<Tail, u32> = HashMap::new();
        let mut list = Vec::with_capacity(rules.len());
        for r in rules {
            let mut all: Vec<(u32, u32, Ref)> = Vec::with_capacity(r.all.len());
            for f in r.all {
                if f != YES {
                    all.push((dd.level(f), deepest(dd, f, &mut last), f));
                }
            }
            if all.iter().any(|(_, _, f)| *f == NO) {
                continue;
            }
            all.sort_unstable();
            let mut parts: Vec<(u32, u32, Ref)> = Vec::with_capacity(all.len());
            for (from, to, f) in all {
                match parts.last_mut() {
                    Some((_, end, g)) if from <= *end => {
                        *g = dd.and(*g, f);
                        *end = to.max(*end);
                    }
                    _ => parts.push((from, to, f)),
                }
            }
            if parts.iter().any(|(_, _, f)| *f == NO) {
                continue;
            }
            let mut next = END;
            for (_, _, f) in parts.iter().skip(1).rev() {
                let tail = Tail {
                    head: *f,
                    next,
                    value: r.value,
                };
                next = *numbers.entry(tail).or_insert_with(|| {
                    self.tails.push(tail);
                    self.tails.len() as u32 - 1
                });
            }
            list.push(Entry {
                head: parts.first().map_or(YES, |p| p.2),
                next,
                value: r.value,
                level: u32::MAX,
            });
        }
        self.seen = vec![(0, NO); self.tails.len()];
        list
    }

    /// A list behind a value of its first variable: rules that cannot fit leave, and those that cannot be seen;
    /// functions that hold make place for the next ones.
    fn tidy(&mut self, dd: &Dd, list: &[Entry], side: Option<(u32, bool)>) -> Vec<Entry> {
        self.lists = self.lists.wrapping_add(1);
        let mut out: Vec<Entry> = Vec::with_capacity(list.len());
        for e in list {
            let mut e = *e;
            let here = side.is_none_or(|(level, _)| e.level == level);
            if let Some((level, hi)) = side
                && here
            {
                e.head = dd.cofactor(e.head, level, hi);
            }
            // Bound: tails get shorter.
            while e.head == YES
                && let Some(t) = self.tails.get(e.next as usize)
            {
                (e.head, e.next) = (t.head, t.next);
            }
            if e.head == NO {
                continue;
            }
            if e.head == YES {
                // whoever comes before and says the same need not
                while out.last().is_some_and(|l| l.value == e.value) {
                    out.pop();
                }
                e.level = u32::MAX;
                out.push(e);
                break;
            }
            if let Some(s) = self.seen.get_mut(e.next as usize) {
                if *s == (self.lists, e.head) {
                    continue;
                }
                *s = (self.lists, e.head);
            }
            if here {
                e.level = dd.level(e.head);
            }
            out.push(e);
        }
        out
    }

    fn key(&self, list: &[Entry]) -> u128 {
        let [k0, k1, k2, k3] = self.keys;
        let (mut a, mut b) = (k0, k1);
        for e in list {
            let x = u64::from(e.head) << 32 | u64::from(e.next);
            // a tail has one value; the end has any
            let x = if e.next == END {
                x ^ u64::from(e.value).rotate_left(8)
            } else {
                x
            };
            a = fold(a ^ x, k2).wrapping_add(k1);
            b = fold(b ^ x, k3).wrapping_add(k0);
        }
        u128::from(a) << 64 | u128::from(b)
    }

    /// Recursion: as deep as there are variables.
    fn build(&mut self, dd: &mut Dd, list: &[Entry]) -> Ref {
        let Some(first) = list.first() else {
            return NO;
        };
        if first.head == YES {
            return dd.terminal(first.value);
        }
        if dd.stopped().is_some() {
            return NO;
        }
        let key = self.key(list);
        if let Some(r) = self.known.get(&key) {
            return *r;
        }
        // what always holds stands last, and has no variable
        let level = list.iter().map(|e| e.level).min().unwrap_or(u32::MAX);
        let l = self.tidy(dd, list, Some((level, false)));
        let lo = self.build(dd, &l);
        drop(l);
        let h = self.tidy(dd, list, Some((level, true)));
        let hi = self.build(dd, &h);
        let r = dd.make(level, lo, hi);
        dd.extra += 1;
        self.known.insert(key, r);
        r
    }
}

/// The last variable of a function.
fn deepest(dd: &Dd, f: Ref, known: &mut HashMap<Ref, u32, Quick>) -> u32 {
    if let Some(l) = known.get(&f) {
        return *l;
    }
    let Some((level, lo, hi)) = dd.parts(f) else {
        return 0;
    };
    let l = level
        .max(deepest(dd, lo, known))
        .max(deepest(dd, hi, known));
    known.insert(f, l);
    l
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The same as joining the rules one by one.
        #[test]
        fn like_one_by_one(rules in proptest::collection::vec(
            (proptest::collection::vec((0u32..8, 0u32..4, any::<u8>()), 0..4), 1u32..4), 0..12)
        ) {
            let mut dd = Dd::new(1 << 20, None);
            let mut parts = Vec::new();
            let mut list = Vec::new();
            for (all, value) in rules {
                let mut fs = Vec::new();
                for (from, n, table) in all {
                    // any function of up to three neighbours
                    let mut f = if table & 1 == 1 { YES } else { NO };
                    for i in 0..n {
                        let v = dd.var(from + i);
                        let other = if table >> (i + 1) & 1 == 1 { YES } else { f };
                        f = match table >> (i + 4) & 1 == 1 {
                            true => dd.ite(v, other, f),
                            false => dd.ite(v, f, other),
                        };
                    }
                    fs.push(f);
                }
                let all = dd.all(fs.iter().copied());
                let t = dd.terminal(value);
                parts.push(dd.ite(all, t, NO));
                list.push(Rule { all: fs, value });
            }
            let want = dd.first(&parts);
            prop_assert_eq!(dd.first_match(list), want);
        }
    }

    /// Many rules, each of many bits, take no more nodes than what comes of them (and its sets).
    #[test]
    fn rules_are_not_made_one_by_one() {
        let mut dd = Dd::new(60_000, None);
        let field = |dd: &mut Dd, from: u32, v: u32| {
            let mut f = YES;
            for i in (0..10).rev() {
                let x = dd.var(from + i);
                f = if v >> (9 - i) & 1 == 1 {
                    dd.ite(x, f, NO)
                } else {
                    dd.ite(x, NO, f)
                };
            }
            f
        };
        let fields: Vec<Vec<Ref>> = (0..8)
            .map(|k| (0..32).map(|v| field(&mut dd, k * 10, v * 31)).collect())
            .collect();
        let rules = (0..20_000u32).map(|n| Rule {
            all: (0..8u32)
                .map(|k| {
                    fields[k as usize][(n.wrapping_mul(2_654_435_761) >> (k * 3) & 31) as usize]
                })
                .collect(),
            // all but the last say the same
            value: 1,
        });
        let mut rules: Vec<Rule> = rules.collect();
        rules.push(Rule {
            all: Vec::new(),
            value: 1,
        });
        let r = dd.first_match(rules);
        assert_eq!((r, dd.stopped()), (YES, None));
    }
}
