//! Leaves: blocks of eight rules.
//!
//! A block's first line has the numbers of its entries in order, its lanes, whether more blocks follow, and which words
//! its tests are of (where those are too many for the line, the number of a pattern that says so). Tests that
//! everything at this leaf passes are left out. Four words, those that tell most, are asked in *rows*: a line has the
//! least values of four entries, the next one their spans, so that four entries take one comparison. Then one line per
//! test of a further word, of all eight entries.

use super::cut::Hulls;
use super::{DecisionTree, LEAF};
use crate::Table;
use crate::simd::CacheLine;
use crate::table::Test;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Where the pattern stands in a block's first line.
pub(super) const PATTERN: usize = 8;
/// Where the mask of its lanes stands, and above it whether another block follows, and how many tests there are.
pub(super) const LANES: usize = 9;
/// Bit of that number: another block follows.
pub(super) const MORE: u32 = 1 << 8;
/// Where in it the number of lines with rows begins: none, two, or four.
pub(super) const ROWS: u32 = 10;
/// Where in it the number of tests begins.
pub(super) const TESTS: u32 = 16;
/// Where the words of the tests stand, a byte each.
pub(super) const WORDS: usize = 11;
/// How many of them there is room for.
pub(super) const ROOM: usize = 4 * (16 - WORDS);
/// Where the words of rows stand, in a line that has them, and how many other tests there is room for then.
pub(super) const ROW_WORDS: usize = 12;
pub(super) const ROW_ROOM: usize = 4 * (ROW_WORDS - WORDS);
/// Words of a row, and of keys that may be compared with rows.
pub(super) const ROW: usize = 4;
pub(super) const ROW_KEY: usize = 8;
/// Flag of a test: masks and values.
pub(super) const MASKED: u8 = 0x80;

/// Stores leaves, each once.
pub(super) struct Leaves {
    /// Words in the order in which blocks ask about them.
    order: Vec<usize>,
    patterns: HashMap<Vec<u8>, u32>,
    known: HashMap<u64, u32>,
    hasher: RandomState,
}

/// A range that is a prefix, as mask and value.
fn as_mask(t: &Test) -> Option<(u32, u32)> {
    if t.is_mask() {
        return Some((t.mask, t.lo));
    }
    (t.span & t.span.wrapping_add(1) == 0 && t.lo & t.span == 0).then_some((!t.span, t.lo))
}

impl Leaves {
    /// Those words are asked about first that tell most entries apart.
    pub fn new(hulls: &Hulls) -> Leaves {
        let different = |w: &usize| {
            let ends = hulls.lo.get(*w).into_iter().flatten();
            let ends = ends.zip(hulls.hi.get(*w).into_iter().flatten());
            ends.collect::<HashSet<_>>().len()
        };
        let mut order: Vec<(usize, usize)> =
            (0..hulls.lo.len()).map(|w| (different(&w), w)).collect();
        order.sort_by_key(|(n, w)| (std::cmp::Reverse(*n), *w));
        Leaves {
            order: order.into_iter().map(|(_, w)| w).collect(),
            patterns: HashMap::new(),
            known: HashMap::new(),
            hasher: RandomState::new(),
        }
    }

    /// Adds a leaf of these entries, in this part of the key space, to a tree; answers its reference.
    pub fn add(
        &mut self,
        tree: &mut DecisionTree,
        table: &Table,
        entries: &[u32],
        region: &[(u32, u32)],
    ) -> u32 {
        let start = tree.lines.len();
        if entries.is_empty() {
            let mut none = [0; 16];
            none[0] = u32::MAX;
            tree.lines.push(CacheLine(none));
        }
        let blocks = entries.chunks(8);
        let last = blocks.len().saturating_sub(1);
        for (n, block) in blocks.enumerate() {
            let mut head = [0; 16];
            head[..8].fill(u32::MAX);
            head[..block.len()].copy_from_slice(block);
            head[LANES] = (1 << block.len()) - 1;
            if n != last {
                head[LANES] |= MORE;
            }
            let at = tree.lines.len();
            tree.lines.push(CacheLine(head));
            let mut rows = self.rows(table, block, region);
            let mut lines = row_lines(table, block, region, &rows);
            let mut in_rows = lines.len() as u32;
            let mut pattern = self.tests(table, block, region, &rows, &mut lines);
            if in_rows > 0 && pattern.len() > ROW_ROOM {
                // they have to do without
                rows.clear();
                lines.clear();
                in_rows = 0;
                pattern = self.tests(table, block, region, &rows, &mut lines);
            }
            tree.lines.append(&mut lines);
            if let Some(CacheLine(head)) = tree.lines.get_mut(at) {
                head[LANES] |= (pattern.len() as u32) << TESTS | in_rows << ROWS;
                for (i, w) in rows.iter().cycle().take(16 * rows.len().min(1)).enumerate() {
                    head[ROW_WORDS + i / 4] |= (*w as u32) << (8 * (i % 4));
                }
                if pattern.len() <= ROOM {
                    for (i, t) in pattern.iter().enumerate() {
                        head[WORDS + i / 4] |= u32::from(*t) << (8 * (i % 4));
                    }
                    continue;
                }
            }
            let number = *self.patterns.entry(pattern).or_insert_with_key(|p| {
                tree.patterns
                    .push((tree.tests.len() as u32, p.len() as u32));
                tree.tests.extend_from_slice(p);
                tree.patterns.len() as u32 - 1
            });
            if let Some(CacheLine(head)) = tree.lines.get_mut(at) {
                head[PATTERN] = number;
            }
        }
        // was it there already?
        let key = self.hasher.hash_one(&tree.lines[start..]);
        let len = tree.lines.len() - start;
        match self.known.get(&key) {
            Some(k)
                if tree.lines.get(*k as usize..*k as usize + len) == tree.lines.get(start..) =>
            {
                tree.lines.truncate(start);
                k | LEAF
            }
            _ => {
                tree.copies += entries.len();
                self.known.insert(key, start as u32);
                start as u32 | LEAF
            }
        }
    }
}

impl Leaves {
    /// The tests of all words of a block but these, and their lines.
    fn tests(
        &self,
        table: &Table,
        block: &[u32],
        region: &[(u32, u32)],
        but: &[usize],
        lines: &mut Vec<CacheLine>,
    ) -> Vec<u8> {
        let mut pattern = Vec::new();
        for w in self.order.iter().filter(|w| !but.contains(w)) {
            if let Some(region) = region.get(*w) {
                word(table, block, *w, *region, &mut pattern, lines);
            }
        }
        pattern
    }

    /// The words of a block's rows, [`ROW`] of them; none if the block has no rows.
    fn rows(&self, table: &Table, block: &[u32], region: &[(u32, u32)]) -> Vec<usize> {
        if table.words() > ROW_KEY {
            return Vec::new();
        }
        let asked = |w: &usize| {
            let tests = block.iter().filter_map(|e| table.row(*e as usize).get(*w));
            let left = |t: &&Test| region.get(*w).is_some_and(|r| !t.covers(*r));
            let mut tests = tests.filter(left).peekable();
            tests.peek().is_some() && !tests.any(Test::is_mask)
        };
        let words = self.order.iter().copied().filter(asked);
        let mut words: Vec<usize> = words.take(ROW).collect();
        if let Some(first) = words.first().copied() {
            // asked twice
            words.resize(ROW, first);
        }
        words
    }
}

/// The lines of a block's rows.
fn row_lines(
    table: &Table,
    block: &[u32],
    region: &[(u32, u32)],
    words: &[usize],
) -> Vec<CacheLine> {
    let mut lines = Vec::new();
    if words.is_empty() {
        return lines;
    }
    for four in block.chunks(16 / ROW) {
        // what is no entry fits, and comes to the number of none
        let (mut lo, mut span) = ([0; 16], [u32::MAX; 16]);
        for (e, at) in four.iter().zip((0..16).step_by(ROW)) {
            for (i, w) in words.iter().enumerate() {
                let test = table.row(*e as usize).get(*w);
                let left = region.get(*w).and_then(|r| test.filter(|t| !t.covers(*r)));
                if let Some(t) = left {
                    (lo[(at + i) % 16], span[(at + i) % 16]) = (t.lo, t.span);
                }
            }
        }
        lines.extend([CacheLine(lo), CacheLine(span)]);
    }
    lines
}

/// The tests of one word of a block.
fn word(
    table: &Table,
    block: &[u32],
    w: usize,
    region: (u32, u32),
    pattern: &mut Vec<u8>,
    lines: &mut Vec<CacheLine>,
) {
    let tests: Vec<Option<Test>> = (block.iter())
        .map(|e| table.row(*e as usize).get(w).filter(|t| !t.covers(region)))
        .map(|t| t.copied())
        .collect();
    if tests.iter().all(Option::is_none) {
        return;
    }
    let any_mask = tests.iter().flatten().any(Test::is_mask);
    let all_masks = tests.iter().flatten().all(|t| as_mask(t).is_some());
    let mut masks = [0u32; 16];
    let mut ranges = [0u32; 16];
    ranges[8..].fill(u32::MAX);
    let mut ranged = false;
    for (lane, t) in tests.iter().enumerate() {
        let Some(t) = t else { continue };
        match as_mask(t).filter(|_| t.is_mask() || any_mask && all_masks) {
            Some((mask, value)) => {
                masks[lane] = mask;
                masks[lane + 8] = value;
            }
            None => {
                ranged = true;
                ranges[lane] = t.lo;
                ranges[lane + 8] = t.span;
            }
        }
    }
    if any_mask {
        pattern.push(w as u8 | MASKED);
        lines.push(CacheLine(masks));
    }
    if ranged {
        pattern.push(w as u8);
        lines.push(CacheLine(ranges));
    }
}
