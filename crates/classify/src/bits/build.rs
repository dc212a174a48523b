//! Building bit vectors: one sweep over the values of each word.
//!
//! The sweep keeps the current set as blocks; at an interval's end only blocks that an entry entered or left are looked
//! up again among those that are stored. So building costs the number of intervals times the blocks of a set, not times
//! the entries.

use super::{BLOCK, BitVector, Block, ValueIndex, Word};
use crate::layout::word_max;
use crate::steps::Steps;
use crate::table::Test;
use crate::{Kind, Refusal, Table};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Words of at most so many bits get a table of all their values.
const NARROW: u8 = 16;
/// Masks that are no prefix which a narrow word takes exactly.
const MASKS: usize = 64;

pub(super) fn build(table: &Table, budget: usize) -> Result<BitVector, Refusal> {
    let mut b = Builder {
        out: BitVector {
            words: Vec::new(),
            pointers: Vec::new(),
            blocks: Vec::new(),
            summary: table.len().div_ceil(BLOCK * 64).max(1),
            values: table.values().to_vec(),
            checks: Vec::new(),
        },
        known: HashMap::new(),
        budget,
        used: table.len() * 4,
    };
    for (word, &bits) in table.layout().word_bits().iter().enumerate() {
        let mut by_test: HashMap<Test, Vec<u32>> = HashMap::new();
        for e in 0..table.len() {
            if let Some(t) = table.row(e).get(word) {
                by_test.entry(*t).or_default().push(e as u32);
            }
        }
        if by_test.keys().all(|t| t.is_any(bits)) {
            continue;
        }
        b.word(word, bits, by_test, table.len())?;
    }
    b.out.checks.sort_by_key(|c| (c.0, c.1));
    let o = &mut b.out;
    o.pointers.shrink_to_fit();
    o.blocks.shrink_to_fit();
    Ok(b.out)
}

struct Builder {
    out: BitVector,
    /// Stored blocks by contents.
    known: HashMap<Block, u32>,
    budget: usize,
    used: usize,
}

/// The set as the sweep has it.
struct Current {
    blocks: Vec<Block>,
    pointer: Vec<u32>,
    dirty: Vec<usize>,
}

impl Current {
    fn toggle(&mut self, entries: &[u32]) {
        for e in entries {
            let (b, bit) = (*e as usize / BLOCK, *e as usize % BLOCK);
            self.blocks[b].0[bit / 64] ^= 1 << (bit % 64);
            if self.dirty.last() != Some(&b) {
                self.dirty.push(b);
            }
        }
    }
}

impl Builder {
    fn word(
        &mut self,
        word: usize,
        bits: u8,
        by_test: HashMap<Test, Vec<u32>>,
        entries: usize,
    ) -> Result<(), Refusal> {
        // first value -> lists of entries that enter or leave there
        let mut events: Vec<(u32, &[u32])> = Vec::new();
        let mut masks: Vec<(Test, &[u32])> = Vec::new();
        let max = word_max(bits);
        let exact = bits <= NARROW && by_test.keys().filter(|t| t.is_mask()).count() <= MASKS;
        for (t, list) in &by_test {
            if t.is_mask() && exact {
                masks.push((*t, list));
                continue;
            }
            if t.is_mask() {
                self.out
                    .checks
                    .extend(list.iter().map(|e| (*e, word as u8, *t)));
            }
            let (lo, hi) = t.hull(bits);
            events.push((lo, list));
            if hi < max {
                events.push((hi + 1, list));
            }
        }
        events.sort_by_key(|e| e.0);
        let mut bounds: Vec<u32> = std::iter::once(0)
            .chain(events.iter().map(|e| e.0))
            .collect();
        bounds.dedup();
        let mut w = Word {
            word,
            index: ValueIndex::Direct(Vec::new()),
            summary: Vec::new(),
            first: Vec::new(),
        };
        let mut now = Current {
            blocks: vec![Block([0; 8]); entries.div_ceil(BLOCK).max(1)],
            pointer: vec![0; entries.div_ceil(BLOCK).max(1)],
            dirty: Vec::new(),
        };
        let hasher = RandomState::new();
        let mut sets: HashMap<u64, u32> = HashMap::new();
        let mut of: Vec<u32> = Vec::new();
        let mut class: Vec<u16> = Vec::new();
        let mut next = 0;
        for (i, lo) in bounds.iter().enumerate() {
            while let Some((_, list)) = events.get(next).filter(|e| e.0 <= *lo) {
                now.toggle(list);
                next += 1;
            }
            if bits > NARROW {
                of.push(self.emit(&mut w, &mut now, &hasher, &mut sets)?);
                continue;
            }
            let hi = bounds.get(i + 1).map_or(max, |b| b - 1);
            let mut by_signature: HashMap<u64, u16> = HashMap::new();
            for v in *lo..=hi {
                let signature = (masks.iter().enumerate())
                    .fold(0u64, |s, (m, (t, _))| s | u64::from(t.fits(v)) << m);
                let set = match by_signature.get(&signature) {
                    Some(s) => *s,
                    None => {
                        let fit = || (0..masks.len()).filter(|m| signature >> m & 1 == 1);
                        fit().for_each(|m| now.toggle(masks[m].1));
                        // at most one set per value, thus at most 65,536
                        let s = self.emit(&mut w, &mut now, &hasher, &mut sets)? as u16;
                        fit().for_each(|m| now.toggle(masks[m].1));
                        by_signature.insert(signature, s);
                        s
                    }
                };
                class.push(set);
            }
        }
        w.summary.shrink_to_fit();
        w.first.shrink_to_fit();
        w.index = match bits <= NARROW {
            true => ValueIndex::Direct(class),
            false => ValueIndex::Search(Steps::new(&bounds), of),
        };
        self.spend(bounds.len() * 8)?;
        self.out.words.push(w);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.used += bytes;
        match self.used <= self.budget {
            true => Ok(()),
            false => Err(Refusal::Memory {
                kind: Kind::BitVector,
                needed: self.used,
                budget: self.budget,
            }),
        }
    }

    /// Stores the current set, unless it is there already.
    fn emit(
        &mut self,
        w: &mut Word,
        now: &mut Current,
        hasher: &RandomState,
        sets: &mut HashMap<u64, u32>,
    ) -> Result<u32, Refusal> {
        for b in std::mem::take(&mut now.dirty) {
            let block = now.blocks[b];
            now.pointer[b] = match self.known.get(&block) {
                Some(p) => *p,
                None => {
                    self.spend(size_of::<Block>())?;
                    let p = self.out.blocks.len() as u32;
                    self.out.blocks.push(block);
                    self.known.insert(block, p);
                    p
                }
            };
        }
        let n = self.out.summary;
        let mut summary = vec![0u64; n];
        let mut list = Vec::new();
        for (b, block) in now.blocks.iter().enumerate() {
            if block.0 != [0; 8] {
                summary[b / 64] |= 1 << (b % 64);
                list.push(now.pointer[b]);
            }
        }
        let key = hasher.hash_one((&summary, &list));
        if let Some(s) = sets.get(&key) {
            let at = *s as usize * n;
            let first = w.first[at] as usize;
            let same = w.summary[at..at + n] == summary[..]
                && self.out.pointers.get(first..first + list.len()) == Some(&list[..]);
            if same {
                return Ok(*s);
            }
        }
        self.spend(list.len() * 4 + n * 12)?;
        let s = (w.summary.len() / n) as u32;
        let mut first = self.out.pointers.len() as u32;
        for row in &summary {
            w.first.push(first);
            first += row.count_ones();
        }
        w.summary.extend_from_slice(&summary);
        self.out.pointers.extend_from_slice(&list);
        sets.insert(key, s);
        Ok(s)
    }
}
