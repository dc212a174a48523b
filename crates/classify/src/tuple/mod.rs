//! Tuple space: rules that fix the same bits share a hash table, tables are searched in order of their best rule.
//!
//! After Srinivasan et al., "Packet classification using tuple space search" (SIGCOMM 1999), and Daly et al.,
//! "TupleMerge" (ToN 2019), section IV: a rule may stand in any table whose bits it fixes, so that few tables with
//! fewer bits take the rules of many tuples, until too many of them fall together; then the next ones get a table with
//! more bits. A look-up ends at the first table whose best rule comes after what was found ("priority sorting", as in
//! Open vSwitch).
//!
//! A bucket is one cache line: eight tags of 16 bits, compared at once, eight numbers of entries, a link. Hashes are
//! keyed, so that nobody who does not know the key can choose rules that fall together; and what headers can cost is
//! bounded by the tables and their longest chain, whatever they are.
//!
//! Rules come and go one by one, in place: [`TupleSpace::insert`], [`TupleSpace::remove`]; a
//! [`LeftRight`](crate::LeftRight) of it does so under readers.

mod update;

pub use update::{RuleChange, UpdateError};

use crate::simd::{self, Isa, Kernel, prefetch};
use crate::table::Test;
use crate::{Classifier, Keys, Kind, Layout, MAX_WORDS, NO_MATCH};
use std::collections::BTreeMap;

/// Tables, at most.
pub const MAX_TABLES: usize = 512;
/// Keys in flight.
const STAGE: usize = 32;
const LANES: usize = 8;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// 0: nobody.
    tags: [u16; LANES],
    entries: [u32; LANES],
    /// Another bucket with the same number.
    more: u32,
}

const EMPTY: Bucket = Bucket {
    tags: [0; LANES],
    entries: [NONE; LANES],
    more: NONE,
};

/// Rules that fix certain bits.
#[derive(Debug, Clone)]
struct Group {
    /// The bits: words that have some.
    mask: Vec<(u8, u32)>,
    /// The first `1 << bits` by hash, then those that are linked to.
    buckets: Vec<Bucket>,
    bits: u32,
    len: usize,
    /// No rule of it comes before.
    best: u32,
}

/// A rule's priority and value, then three words per test, in one row.
#[derive(Debug, Clone, Default)]
struct Rows {
    data: Vec<u32>,
    stride: usize,
    words: usize,
    free: Vec<u32>,
}

impl Rows {
    #[inline(always)]
    fn get(&self, e: u32) -> Option<(u32, u32, &[[u32; 3]])> {
        let at = e as usize * self.stride;
        let row = self.data.get(at..at + self.stride)?;
        let (head, tests) = row.split_at_checked(2)?;
        let tests = tests.as_chunks::<3>().0.get(..self.words)?;
        Some((head[0], head[1], tests))
    }
}

/// Hash tables by the bits that rules fix.
#[derive(Debug, Clone)]
pub struct TupleSpace {
    layout: Layout,
    /// In order of their best rule.
    groups: Vec<Group>,
    rows: Rows,
    /// Entries of each rule, by priority.
    by_priority: BTreeMap<u32, Vec<u32>>,
    key: u64,
    budget: usize,
}

/// The hash of masked words.
#[inline(always)]
fn hash(key: u64, words: impl Iterator<Item = u32>) -> u64 {
    let mut h = key;
    for w in words {
        // folded multiplication: both halves of the product count
        let m = u128::from(h ^ u64::from(w)) * 0x9e37_79b9_7f4a_7c15;
        h = (m >> 64) as u64 ^ m as u64 ^ key.rotate_left(29);
    }
    h ^ h >> 32
}

#[inline(always)]
fn tag(hash: u64) -> u16 {
    (hash as u16).max(1)
}

#[inline(always)]
fn bucket(hash: u64, bits: u32) -> usize {
    (hash >> 16 & ((1 << bits) - 1)) as usize
}

impl TupleSpace {
    /// How many rules.
    pub fn len(&self) -> usize {
        self.by_priority.len()
    }

    /// No rule.
    pub fn is_empty(&self) -> bool {
        self.by_priority.is_empty()
    }

    /// How many tables a look-up goes through at worst.
    pub fn tables(&self) -> usize {
        self.groups.len()
    }

    /// The best of `found` and the rules of a bucket and those linked to it.
    #[inline(always)]
    fn scan<S: Isa>(
        &self,
        s: S,
        g: &Group,
        (mut at, tag): (usize, u16),
        mut found: (u32, u32),
        keys: Keys<'_>,
        i: usize,
    ) -> (u32, u32) {
        // Bound: a bucket is linked to once.
        while let Some(b) = g.buckets.get(at) {
            let mut m = s.tags8(&b.tags, tag);
            while m != 0 {
                let lane = m.trailing_zeros() as usize % LANES;
                m &= m - 1;
                let Some((priority, value, tests)) = self.rows.get(b.entries[lane]) else {
                    continue;
                };
                let fits = |(w, t): (usize, &[u32; 3])| {
                    let [mask, lo, span] = *t;
                    Test { mask, lo, span }.fits(keys.at(w, i))
                };
                if priority < found.0 && tests.iter().enumerate().all(fits) {
                    found = (priority, value);
                }
            }
            at = b.more as usize;
        }
        found
    }
}

struct Lookup<'a> {
    space: &'a TupleSpace,
    keys: Keys<'a>,
    out: &'a mut [u32],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<S: Isa>(self, s: S) {
        let t = self.space;
        let n = self.keys.len().min(self.out.len());
        let mut from = 0;
        while from < n {
            let keys = self.keys.part(from, STAGE.min(n - from));
            let len = keys.len();
            let mut found = [(NONE, NO_MATCH); STAGE];
            let mut active: [u8; STAGE] = std::array::from_fn(|i| i as u8);
            let mut left = len;
            for g in &t.groups {
                // 1: who still goes on, and their buckets
                let mut places = [(0usize, 0u16); STAGE];
                let mut on = 0;
                for a in 0..left {
                    let i = active[a];
                    active[on] = i;
                    on += usize::from(found[usize::from(i) % STAGE].0 > g.best);
                }
                left = on;
                if left == 0 {
                    break;
                }
                for (i, place) in active.iter().zip(&mut places).take(left) {
                    let words =
                        (g.mask.iter()).map(|(w, m)| keys.at(usize::from(*w), usize::from(*i)) & m);
                    let h = hash(t.key, words);
                    *place = (bucket(h, g.bits), tag(h));
                    prefetch(&g.buckets, place.0);
                }
                // 2: the rows of tags that fit
                for (at, tag) in places.iter().take(left) {
                    if let Some(b) = g.buckets.get(*at) {
                        let m = s.tags8(&b.tags, *tag);
                        if m != 0 {
                            let e = b.entries[m.trailing_zeros() as usize % LANES];
                            let row = e as usize * t.rows.stride;
                            prefetch(&t.rows.data, row);
                            prefetch(&t.rows.data, row + t.rows.stride - 1);
                        }
                    }
                }
                // 3: the rules themselves
                for (i, place) in active.iter().zip(&places).take(left) {
                    let i = usize::from(*i);
                    let f = &mut found[i % STAGE];
                    *f = t.scan(s, g, *place, *f, keys, i);
                }
            }
            for (o, f) in self.out.iter_mut().skip(from).zip(found).take(len) {
                *o = f.1;
            }
            from += len;
        }
    }
}

impl Classifier for TupleSpace {
    fn kind(&self) -> Kind {
        Kind::TupleSpace
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        debug_assert!(self.layout.words() <= MAX_WORDS);
        simd::dispatch(Lookup {
            space: self,
            keys,
            out,
        });
    }

    fn memory_bytes(&self) -> usize {
        let group = |g: &Group| g.buckets.capacity() * size_of::<Bucket>() + g.mask.capacity() * 8;
        self.groups.iter().map(group).sum::<usize>()
            + self.rows.data.capacity() * 4
            + self.rows.free.capacity() * 4
            // what changes need
            + self.by_priority.len() * 48
    }

    fn shape(&self) -> String {
        let longest = self.groups.iter().map(|g| g.len).max().unwrap_or(0);
        format!(
            "{} rules in {} tables, {} in the largest",
            self.by_priority.len(),
            self.groups.len(),
            longest
        )
    }
}
