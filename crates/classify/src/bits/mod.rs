//! Bit vectors: for each word the set of entries that its value allows; the first bit of their intersection is the
//! answer.
//!
//! After Lakshman & Stiliadis, "High-speed policy-based packet forwarding using efficient multi-dimensional range
//! matching" (SIGCOMM 1998), section 3: a word's domain falls into intervals in which the same entries fit. Narrow
//! words (16 bits and less) get a table with the class of every value, others a search ([`Steps`]). After Baboescu &
//! Varghese, "Scalable packet classification" (SIGCOMM 2001), section 4: sets have two levels. The summary has a bit
//! per block of 512 entries; a block that has none of the set's entries is not stored, equal blocks and equal sets are
//! stored once. A look-up intersects summaries first, then few blocks, each one cache line per word.
//!
//! Masks that are no prefix are exact in narrow words. In wide ones a set takes them by their hull, and what is found
//! is checked with the entry itself.

mod build;

use crate::simd::{self, Isa, Kernel, prefetch};
use crate::steps::Steps;
use crate::table::Test;
use crate::{Classifier, Keys, Kind, MAX_WORDS, NO_MATCH, Refusal, Table};

/// Entries per block.
const BLOCK: usize = 512;
/// Keys in flight.
const STAGE: usize = 32;

/// A block: 512 bits, one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
struct Block([u64; 8]);

/// How to get from a word to its set.
#[derive(Debug, Clone)]
enum ValueIndex {
    /// Class of each value.
    Direct(Vec<u16>),
    /// Search among intervals, then the interval's set.
    Search(Steps, Vec<u32>),
}

/// A word that rules ask about.
#[derive(Debug, Clone)]
struct Word {
    word: usize,
    index: ValueIndex,
    /// Rows of `summary` words: which blocks a set has.
    summary: Vec<u64>,
    /// For each word of the summary where the pointers of its blocks begin.
    first: Vec<u32>,
}

/// Two-level bit vectors.
#[derive(Debug, Clone)]
pub struct BitVector {
    words: Vec<Word>,
    /// Numbers of blocks.
    pointers: Vec<u32>,
    blocks: Vec<Block>,
    /// Words of 64 bits in a summary.
    summary: usize,
    values: Vec<u32>,
    /// Tests that sets cannot say: (entry, word, test), by entry.
    checks: Vec<(u32, u8, Test)>,
}

impl BitVector {
    /// Builds sets from a table, within so many bytes.
    ///
    /// # Errors
    /// The budget does not suffice.
    pub fn new(table: &Table, budget: usize) -> Result<Self, Refusal> {
        build::build(table, budget)
    }

    #[inline(always)]
    fn block(&self, w: &Word, set: usize, b: usize) -> Option<&Block> {
        let at = set * self.summary + b / 64;
        let row = w.summary.get(at)?;
        let rank = (row & ((1u64 << (b % 64)) - 1)).count_ones();
        let p = self.pointers.get((w.first.get(at)? + rank) as usize)?;
        self.blocks.get(*p as usize)
    }

    /// Do the tests hold that sets do not have?
    #[inline(always)]
    fn checked(&self, e: u32, keys: Keys<'_>, i: usize) -> bool {
        if self.checks.is_empty() {
            return true;
        }
        let from = self.checks.partition_point(|c| c.0 < e);
        (self.checks.iter().skip(from).take_while(|c| c.0 == e))
            .all(|(_, w, t)| t.fits(keys.at(usize::from(*w), i)))
    }

    /// The first entry of a key whose sets are known, from summary word `s` and its candidates on.
    #[inline(always)]
    fn first(
        &self,
        sets: &[[u32; STAGE]; MAX_WORDS],
        lane: usize,
        (mut s, mut candidates): (usize, u64),
        keys: Keys<'_>,
        i: usize,
    ) -> u32 {
        // Bound: every summary word once, every block once, every bit once.
        loop {
            while candidates != 0 {
                let b = s * 64 + candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                let mut all = [u64::MAX; 8];
                for (w, set) in self.words.iter().zip(sets) {
                    if let Some(Block(x)) = self.block(w, set[lane] as usize, b) {
                        for (a, x) in all.iter_mut().zip(x) {
                            *a &= x;
                        }
                    }
                }
                for (n, a) in all.iter_mut().enumerate() {
                    while *a != 0 {
                        let e = (b * BLOCK + n * 64) as u32 + a.trailing_zeros();
                        if self.checked(e, keys, i) {
                            return self.values.get(e as usize).copied().unwrap_or(NO_MATCH);
                        }
                        *a &= *a - 1;
                    }
                }
            }
            s += 1;
            if s >= self.summary {
                return NO_MATCH;
            }
            candidates = self.candidates(sets, lane, s);
        }
    }

    /// Blocks that all words' sets have, of summary word `s`.
    #[inline(always)]
    fn candidates(&self, sets: &[[u32; STAGE]; MAX_WORDS], lane: usize, s: usize) -> u64 {
        let mut all = self.full(s);
        for (w, set) in self.words.iter().zip(sets) {
            let at = set[lane] as usize * self.summary + s;
            all &= w.summary.get(at).copied().unwrap_or(0);
        }
        all
    }

    /// All blocks there are, of summary word `s`.
    #[inline(always)]
    fn full(&self, s: usize) -> u64 {
        let left = self.values.len().div_ceil(BLOCK).saturating_sub(s * 64);
        match left {
            0 => 0,
            1..64 => (1 << left) - 1,
            _ => u64::MAX,
        }
    }
}

struct Lookup<'a> {
    bits: &'a BitVector,
    keys: Keys<'a>,
    out: &'a mut [u32],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<S: Isa>(self, s: S) {
        let b = self.bits;
        let n = self.keys.len().min(self.out.len());
        if b.words.is_empty() {
            // no rule asks anything: the first one takes all
            let v = b.values.first().copied().unwrap_or(NO_MATCH);
            self.out[..n].fill(v);
            return;
        }
        let mut sets = [[0u32; STAGE]; MAX_WORDS];
        let mut at = 0;
        while at < n {
            let keys = self.keys.part(at, STAGE.min(n - at));
            let len = keys.len();
            // 1: the set of every word
            for (w, set) in b.words.iter().zip(&mut sets) {
                let column = keys.word(w.word);
                match &w.index {
                    ValueIndex::Direct(class) => {
                        let top = class.len() - 1;
                        for (o, k) in set.iter_mut().zip(column) {
                            *o = u32::from(class[(*k as usize).min(top)]);
                        }
                    }
                    ValueIndex::Search(steps, of) => {
                        let set = &mut set[..len];
                        steps.find(s, column, set);
                        for o in set.iter() {
                            prefetch(of, *o as usize);
                        }
                        for o in set {
                            *o = of.get(*o as usize).copied().unwrap_or(0);
                        }
                    }
                }
                for o in &set[..len] {
                    prefetch(&w.summary, *o as usize * b.summary);
                    prefetch(&w.first, *o as usize * b.summary);
                }
            }
            // 2: the first summary word that is not empty, and the pointers of its first block
            let mut found = [(0usize, 0u64); STAGE];
            for (lane, f) in found.iter_mut().enumerate().take(len) {
                for p in 0..b.summary {
                    *f = (p, b.candidates(&sets, lane, p));
                    if f.1 != 0 {
                        break;
                    }
                }
                if f.1 != 0 {
                    let bit = f.1.trailing_zeros();
                    for (w, set) in b.words.iter().zip(&sets) {
                        let at = set[lane] as usize * b.summary + f.0;
                        if let (Some(row), Some(first)) = (w.summary.get(at), w.first.get(at)) {
                            let rank = (row & ((1u64 << bit) - 1)).count_ones();
                            prefetch(&b.pointers, (first + rank) as usize);
                        }
                    }
                }
            }
            // 3: its lines
            for (lane, f) in found.iter().enumerate().take(len) {
                if f.1 != 0 {
                    let block = f.0 * 64 + f.1.trailing_zeros() as usize;
                    for (w, set) in b.words.iter().zip(&sets) {
                        if let Some(line) = b.block(w, set[lane] as usize, block) {
                            prefetch(std::slice::from_ref(line), 0);
                        }
                    }
                }
            }
            // 4: the first entry
            for (lane, f) in found.iter().enumerate().take(len) {
                self.out[at + lane] = match f.1 {
                    0 => NO_MATCH,
                    _ => b.first(&sets, lane, *f, keys, lane),
                };
            }
            at += STAGE;
        }
    }
}

impl Classifier for BitVector {
    fn kind(&self) -> Kind {
        Kind::BitVector
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        simd::dispatch(Lookup {
            bits: self,
            keys,
            out,
        });
    }

    fn memory_bytes(&self) -> usize {
        let word = |w: &Word| {
            let index = match &w.index {
                ValueIndex::Direct(c) => c.capacity() * 2,
                ValueIndex::Search(s, of) => s.memory_bytes() + of.capacity() * 4,
            };
            index + w.summary.capacity() * 8 + w.first.capacity() * 4
        };
        self.words.iter().map(word).sum::<usize>()
            + self.pointers.capacity() * 4
            + self.blocks.capacity() * size_of::<Block>()
            + self.values.capacity() * 4
            + self.checks.capacity() * size_of::<(u32, u8, Test)>()
    }

    fn shape(&self) -> String {
        let sets = self.words.iter().map(|w| w.summary.len() / self.summary);
        format!(
            "{} entries, {} sets of {} words, {} blocks",
            self.values.len(),
            sets.sum::<usize>(),
            self.words.len(),
            self.blocks.len()
        )
    }
}
