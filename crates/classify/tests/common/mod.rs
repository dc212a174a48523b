//! Rule sets of several shapes, and keys that hit their corners.
#![allow(dead_code)]

use onefold_classify::*;

/// A small generator, the same everywhere (SplitMix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Mostly exact addresses and ports.
    Acl,
    /// Many wildcards, ranges of ports.
    Fw,
    /// In between.
    Ipc,
    /// Arbitrary ranges everywhere.
    Overlapping,
    /// Each rule contains the next ones, or the other way round.
    Nested,
    /// Nothing but wildcards, sometimes in between.
    Wild,
    /// Few different rules, often.
    Duplicates,
    /// Masks that are no prefix, single bits, ends of domains.
    Adversarial,
}

pub const SHAPES: [Shape; 8] = [
    Shape::Acl,
    Shape::Fw,
    Shape::Ipc,
    Shape::Overlapping,
    Shape::Nested,
    Shape::Wild,
    Shape::Duplicates,
    Shape::Adversarial,
];

pub const LAYOUTS: [&[u8]; 6] = [
    &[32, 32, 16, 16, 8],
    &[32, 32, 16, 16, 8, 16],
    &[128, 128, 16, 16, 8],
    &[16],
    &[32],
    &[48, 12, 100, 1, 33],
];

fn ordered(a: u128, b: u128) -> Match {
    Match::Range {
        lo: a.min(b),
        hi: a.max(b),
    }
}

fn one(shape: Shape, rng: &mut Rng, layout: &Layout, f: usize, pool: &[u128]) -> Match {
    let (bits, max) = (layout.bits(f), layout.max_of(f));
    let pooled = |rng: &mut Rng| match rng.chance(70) {
        true => pool[rng.below(pool.len())] & max,
        false => rng.wide() & max,
    };
    let value = pooled(rng);
    let prefix = |rng: &mut Rng, least: u8| Match::Prefix {
        value,
        len: least + rng.below(usize::from(bits - least) + 1) as u8,
    };
    let p = rng.below(100);
    match shape {
        Shape::Acl => match p {
            0..10 => Match::Any,
            10..60 => Match::Exact(value),
            60..90 => prefix(rng, bits / 2),
            _ => ordered(value, (value + 100).min(max)),
        },
        Shape::Fw => match p {
            0..50 => Match::Any,
            50..65 => Match::Exact(value),
            65..85 => prefix(rng, 0),
            _ => ordered(value, max),
        },
        Shape::Ipc => match p {
            0..30 => Match::Any,
            30..60 => Match::Exact(value),
            60..90 => prefix(rng, bits / 4),
            _ => ordered(value, pooled(rng)),
        },
        Shape::Overlapping => ordered(value, pooled(rng)),
        Shape::Nested => match rng.chance(50) {
            true => Match::Prefix {
                value: pool[0] & max,
                len: rng.below(usize::from(bits) + 1) as u8,
            },
            false => {
                let mid = pool[0] & max;
                let d = rng.wide() & (max >> rng.below(usize::from(bits)));
                ordered(mid.saturating_sub(d), mid.saturating_add(d).min(max))
            }
        },
        Shape::Wild => match p {
            0..90 => Match::Any,
            90..95 => Match::Prefix { value, len: 0 },
            95..98 => ordered(0, max),
            _ => Match::Exact(value),
        },
        Shape::Duplicates => match p {
            0..40 => Match::Any,
            _ => Match::Exact(pool[rng.below(2)] & max),
        },
        Shape::Adversarial => match p {
            0..20 => Match::Mask {
                value: rng.wide() & max,
                mask: rng.wide() & max,
            },
            20..35 => Match::Mask {
                value,
                mask: 1 << rng.below(usize::from(bits)),
            },
            35..45 => Match::Exact(max),
            45..55 => Match::Exact(0),
            55..65 => ordered(1.min(max), max),
            65..75 => ordered(0, max - 1.min(max)),
            75..85 => Match::Any,
            85..92 => prefix(rng, 0),
            _ => ordered(value, pooled(rng)),
        },
    }
}

/// `n` rules; each has its index as value, unless values are few.
pub fn rules(shape: Shape, layout: &Layout, n: usize, rng: &mut Rng) -> Rules {
    let mut r = Rules::new(layout.clone());
    let pool: Vec<u128> = (0..8 + n / 8).map(|_| rng.wide()).collect();
    let mut matches = Vec::new();
    for i in 0..n {
        // arbitrary ranges of several wide fields at once may come apart into too many parts: draw again
        for _ in 0..100 {
            matches = (0..layout.fields())
                .map(|f| one(shape, rng, layout, f, &pool))
                .collect();
            // what follows a rule that takes everything is not tested
            let wild = matches.iter().all(|m| *m == Match::Any);
            if wild && !matches!(shape, Shape::Wild | Shape::Duplicates) {
                continue;
            }
            let mut alone = Rules::new(layout.clone());
            alone.push(&matches, 0).unwrap();
            if Table::new(&alone).is_ok() {
                break;
            }
        }
        r.push(&matches, i as u32).unwrap();
    }
    r
}

fn corner(m: &Match, bits: u8, max: u128, rng: &mut Rng) -> u128 {
    let host = |len: u8| match bits - len {
        128 => u128::MAX,
        h => (1 << h) - 1,
    };
    let (lo, hi) = match *m {
        Match::Any => return rng.wide() & max,
        Match::Exact(v) => (v, v),
        Match::Prefix { value, len } => (value & !host(len), value | host(len)),
        Match::Range { lo, hi } => (lo, hi),
        Match::Mask { value, mask } => {
            return value & mask | rng.wide() & !mask & max;
        }
    };
    match rng.below(8) {
        0..3 => lo,
        3..6 => hi,
        6 => lo.wrapping_sub(1) & max,
        _ => hi.wrapping_add(1) & max,
    }
}

/// Corners of every rule and next to them, mixtures of rules, random keys.
pub fn keys(rules: &Rules, per_rule: usize, random: usize, rng: &mut Rng) -> KeyBuf {
    let l = rules.layout();
    let mut buf = KeyBuf::new(l, rules.len() * per_rule + random);
    let mut key = vec![0u128; l.fields()];
    for (m, _) in rules.iter() {
        for _ in 0..per_rule {
            for (f, k) in key.iter_mut().enumerate() {
                *k = corner(&m[f], l.bits(f), l.max_of(f), rng);
            }
            assert!(buf.push(&key));
        }
    }
    for _ in 0..random {
        for (f, k) in key.iter_mut().enumerate() {
            *k = match (rules.is_empty(), rng.chance(60)) {
                (false, true) => {
                    let m = rules.get(rng.below(rules.len())).unwrap().0;
                    corner(&m[f], l.bits(f), l.max_of(f), rng)
                }
                _ => rng.wide() & l.max_of(f),
            };
        }
        assert!(buf.push(&key));
    }
    buf
}

/// Every structure that takes the rules.
pub fn structures(rules: &Rules) -> Vec<Box<dyn Classifier>> {
    let table = Table::new(rules).unwrap();
    let mut list: Vec<Box<dyn Classifier>> = Vec::new();
    if table.len() <= MAX_SMALL {
        list.push(Box::new(DecisionCode::new(&table).unwrap()));
    }
    list.push(Box::new(BitVector::new(&table, 1 << 30).unwrap()));
    list.push(Box::new(
        DecisionTree::new(&table, &TreeSettings::default()).unwrap(),
    ));
    // very many tuples are refused
    if let Ok(t) = TupleSpace::new(&table, 1 << 30) {
        list.push(Box::new(t));
    }
    list
}

/// Compares structures with the linear scan on all keys, in batches of changing sizes, and some keys alone.
pub fn compare(rules: &Rules, keys: Keys<'_>, list: &[Box<dyn Classifier>], about: &str) {
    let mut want = vec![NO_MATCH; keys.len()];
    Linear::new(rules).lookup(keys, &mut want);
    for s in list {
        check(&**s, keys, &want, about);
    }
}

/// One structure against the answers wanted.
pub fn check(s: &dyn Classifier, keys: Keys<'_>, want: &[u32], about: &str) {
    let mut out = vec![NO_MATCH - 1; keys.len()];
    let sizes = [1, 64, 7, 32, 100, 16, 257, 33, 3];
    let (mut at, mut turn) = (0, 0);
    while at < keys.len() {
        let n = sizes[turn % sizes.len()].min(keys.len() - at);
        s.lookup(keys.part(at, n), &mut out[at..at + n]);
        at += n;
        turn += 1;
    }
    for (i, (o, w)) in out.iter().zip(want).enumerate() {
        let key: Vec<u32> = (0..keys.words()).map(|w| keys.at(w, i)).collect();
        assert_eq!(
            o,
            w,
            "{about}: {} ({}) on key {key:x?}",
            s.kind(),
            s.shape()
        );
        if i % 5 == 0 {
            assert_eq!(s.lookup_one(&key), *w, "{about}: {} alone", s.kind());
        }
    }
}
