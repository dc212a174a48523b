//! Decision trees with wide nodes: a level is one comparison of a cache line, a leaf's rules are compared eight at a
//! time.
//!
//! - Cuts of a node are *equally dense* (HyperCuts and EffiCuts, Vamanan et al., SIGCOMM 2010, section 3.2; HyperSplit,
//!   Qi et al., INFOCOM 2009): up to 15 values of one word, chosen among the ends of the node's rules so that each of
//!   up to 16 children gets about as many. The word is the one that leaves least ([`cut`]).
//! - Rules are *separated* by whether they are wide or narrow in the two words that tell most apart (EffiCuts, section
//!   3.1; CutSplit, Li et al., INFOCOM 2018, section III), because a rule that is wide in both is copied to nearly
//!   every child. Which separation is best is found by trying ([`group`]).
//! - Leaves hold their rules in order, in blocks of eight ([`leaf`]): four words, those that tell most, of four rules
//!   at a time; for each further word that the way to the leaf has not answered one line with eight least values and
//!   eight spans, or eight masks and values. Leaves of the same contents exist once.
//! - The first steps of all keys are the same: sixteen keys take them at once, in two words ([`grid`]).
//!
//! All keys of a group walk a tree level by level, so that each cache line is asked for a whole turn before it is
//! needed. Trees come one after the other, those with the first entries first: keys that have found an entry do not
//! look for later ones, in no tree and behind no node that has none before it.
//!
//! Bounds: trees are at most [`MAX_DEPTH`] deep and leaves hold at most so many copies of each rule as
//! [`Settings::copies`] says; where that does not suffice, leaves are longer.

mod build;
mod cut;
mod grid;
mod group;
mod leaf;

use crate::simd::{self, CacheLine, Isa, Kernel, prefetch};
use crate::{Classifier, Keys, Kind, MAX_ENTRIES, MAX_WORDS, NO_MATCH, Refusal, Table};

/// Levels of a tree, at most.
pub const MAX_DEPTH: u32 = 24;
/// Lines of a block that are asked for: most have no more. So many that belong to nothing follow the last one.
const BLOCK: usize = 5;
/// Keys in flight.
const KEYS: usize = 64;
/// A reference is the number of a first line, with this bit if it is a leaf's. A node has two lines: its cuts,
/// ascending, padded with the greatest number, the last one being the word and, above it, its first entry; and
/// references to its children, padded with the last one.
const LEAF: u32 = 1 << 31;
/// The bits of the word, and where the first entry begins: a table's entries have 22 bits.
const WORD: u32 = 31;
const FIRST: u32 = 5;
/// A leaf without entries, the first line of all.
const EMPTY: u32 = LEAF;
const _: () = assert!(MAX_WORDS <= 32 && MAX_ENTRIES <= 1 << (32 - FIRST));

/// How trees are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Rules that a leaf may hold without being cut further; `None`: what is best of some sizes.
    pub leaf: Option<usize>,
    /// Copies of a rule in leaves, on average, at most.
    pub copies: usize,
    /// Bytes in all, at most.
    pub budget: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            leaf: None,
            copies: 24,
            budget: 1500 << 20,
        }
    }
}

#[derive(Debug, Clone)]
struct Root {
    /// Where keys begin; with a grid, it says so.
    at: u32,
    grid: Option<Box<grid::Grid>>,
    /// Its first entry.
    first: u32,
}

/// What a look-up costs: sums over all trees.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Steps {
    /// Nodes gone through, and grids.
    pub levels: f64,
    /// Blocks of rules compared.
    pub blocks: f64,
    /// Their cache lines.
    pub lines: f64,
}

impl Steps {
    /// About how many nanoseconds that is, on one core at 2.6 GHz with AVX-512, in trees of so many bytes: fitted to
    /// what `examples/measure` finds.
    pub fn ns(&self, memory: usize) -> f64 {
        // from 256 KiB on they leave the nearest caches, from 16 MiB on the last one
        let near = (memory as f64 / 262_144.0).max(1.0).log2() * 0.6;
        let far = near + if memory >> 24 > 0 { 5.0 } else { 0.0 };
        self.levels * 4.2 + self.blocks * 7.0 + self.lines * 1.5 + (self.levels + self.blocks) * far
    }
}

/// One to four trees.
#[derive(Debug, Clone)]
pub struct DecisionTree {
    roots: Vec<Root>,
    /// Nodes, and leaves: see [`leaf`]. They lie together, so that a step down asks for lines without knowing to which
    /// of the two it leads.
    lines: Vec<CacheLine>,
    nodes: usize,
    /// First and number of the tests of each pattern.
    patterns: Vec<(u32, u32)>,
    /// Words of tests; with [`leaf::MASKED`] those of masks.
    tests: Vec<u8>,
    values: Vec<u32>,
    copies: usize,
}

impl DecisionTree {
    /// Tries one, two and four trees, and keeps what is cheapest to look up.
    ///
    /// # Errors
    /// The budget does not suffice.
    pub fn new(table: &Table, settings: &Settings) -> Result<Self, Refusal> {
        group::best(table, settings)
    }

    /// The average steps of keys.
    pub fn steps(&self, keys: Keys<'_>) -> Steps {
        let mut s = Steps::default();
        let mut row = [0u32; MAX_WORDS];
        for i in 0..keys.len() {
            for (w, to) in row.iter_mut().enumerate().take(keys.words()) {
                *to = keys.at(w, i);
            }
            let mut best = u32::MAX;
            for r in &self.roots {
                if r.first >= best {
                    break;
                }
                let mut at = r.at;
                if let Some(g) = &r.grid {
                    s.levels += 1.0;
                    let part = |i: usize| {
                        let v = row[g.cuts[i].word % MAX_WORDS];
                        g.cuts[i].parts(simd::Portable, &[v; 16])[0]
                    };
                    at = g.cell(part(0), part(1));
                }
                while at & LEAF == 0 {
                    s.levels += 1.0;
                    at = self.next(simd::Portable, at, best, &row);
                }
                let mut count = |lines: usize| {
                    s.blocks += 1.0;
                    s.lines += lines as f64;
                };
                let mut at = (at & !LEAF) as usize;
                // Bound: the blocks of a leaf.
                while at != DONE {
                    (best, at) = self.block(simd::Portable, at, best, &row, &mut count);
                }
            }
        }
        let n = keys.len().max(1) as f64;
        Steps {
            levels: s.levels / n,
            blocks: s.blocks / n,
            lines: s.lines / n,
        }
    }

    /// The child that a key goes to; a leaf is its own. Where no entry comes before `best`, the way ends at an empty
    /// leaf.
    #[inline(always)]
    fn next<S: Isa, const W: usize>(&self, s: S, at: u32, best: u32, key: &[u32; W]) -> u32 {
        let node = self.lines.get(at as usize..).and_then(<[_]>::first_chunk);
        let Some([CacheLine(cuts), CacheLine(kids)]) = node else {
            return at | LEAF;
        };
        let k = key[(cuts[15] & WORD) as usize % W];
        let child = (s.le16(cuts, k) & 0x7fff).count_ones();
        match cuts[15] >> FIRST < best {
            true => kids[child as usize & 15],
            false => EMPTY,
        }
    }

    /// One block of a leaf: the first entry that fits, if it comes before `best`, and where the next block is, if that
    /// may have a better one.
    #[inline(always)]
    fn block<S: Isa, const W: usize>(
        &self,
        s: S,
        at: usize,
        best: u32,
        key: &[u32; W],
        count: &mut impl FnMut(usize),
    ) -> (u32, usize) {
        let block = self.lines.get(at..).and_then(<[_]>::first_chunk::<BLOCK>);
        let Some(block @ [CacheLine(head), ..]) = block else {
            return (best, DONE);
        };
        if head[0] >= best {
            return (best, DONE);
        }
        let about = head[leaf::LANES];
        let rows = about >> leaf::ROWS & 7;
        let tests = (about >> leaf::TESTS) as usize;
        let len = rows as usize + tests;
        count(len + 1);
        let mut m = about & 0xff;
        if rows != 0
            && let Some(key) = key.first_chunk()
            && let Some(words) = head.last_chunk()
        {
            // of four entries and less the first ones once more: those that they stand for then are none
            let second = ((rows & 4) >> 1) as usize;
            let a = s.rows4(words, &block[1].0, &block[2].0, key);
            let b = s.rows4(words, &block[1 + second].0, &block[2 + second].0, key);
            m = s.all4(a | b << 16);
        }
        if tests != 0 {
            let lines = self.lines.get(at + 1 + rows as usize..at + 1 + len);
            m = self.further(s, head, lines.unwrap_or(&[]), m, key);
        }
        if m != 0 {
            return (best.min(head[m.trailing_zeros() as usize & 7]), DONE);
        }
        match about & leaf::MORE {
            0 => (best, DONE),
            _ => (best, at + 1 + len),
        }
    }
}

impl DecisionTree {
    /// Lanes that fit the tests of further words, of those that have fitted so far.
    #[inline(always)]
    fn further<S: Isa, const W: usize>(
        &self,
        s: S,
        head: &[u32; 16],
        lines: &[CacheLine],
        mut m: u32,
        key: &[u32; W],
    ) -> u32 {
        if lines.len() <= leaf::ROOM {
            for (i, CacheLine(line)) in lines.iter().enumerate() {
                let t = (head[(leaf::WORDS + i / 4) % 16] >> (8 * (i % 4))) as u8;
                m &= fits(s, t, line, key);
                // the words that tell most come first: further lines need not be there
                if i == 1 && m == 0 {
                    break;
                }
            }
        } else {
            let (first, n) = *self
                .patterns
                .get(head[leaf::PATTERN] as usize)
                .unwrap_or(&(0, 0));
            let first = first as usize;
            let tests = self.tests.get(first..first + n as usize).unwrap_or(&[]);
            for (i, CacheLine(line)) in lines.iter().enumerate() {
                m &= fits(s, tests.get(i).copied().unwrap_or(0), line, key);
            }
        }
        m
    }
}

/// There is no next block.
const DONE: usize = usize::MAX;

/// Lanes of a test's line that a key fits.
#[inline(always)]
fn fits<S: Isa, const W: usize>(s: S, test: u8, line: &[u32; 16], key: &[u32; W]) -> u32 {
    let k = key[usize::from(test & !leaf::MASKED) % W];
    match test & leaf::MASKED {
        0 => s.within8(line, k),
        _ => s.masked8(line, k),
    }
}

struct Lookup<'a> {
    tree: &'a DecisionTree,
    keys: Keys<'a>,
    out: &'a mut [u32],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<S: Isa>(self, s: S) {
        // short keys take little room, and are where the time matters
        match self.keys.words() {
            0..=8 => self.all::<S, 8>(s),
            _ => self.all::<S, MAX_WORDS>(s),
        }
    }
}

/// The words of each key side by side. What is no word of a key's, or of no key, is what it was before.
#[inline(always)]
fn side_by_side<S: Isa, const W: usize>(s: S, keys: Keys<'_>, rows: &mut [[u32; W]; KEYS]) {
    for from in (0..keys.words().min(W)).step_by(4) {
        // a word that there is not is another one
        let word = |w: usize| keys.word((from + w).min(keys.words() - 1));
        let words = [word(0), word(1), word(2), word(3)];
        let [a, b, c, d] = words.map(|w| w.as_chunks::<4>());
        let (rows, rest) = rows.split_at_mut(a.0.len() * 4);
        let four = a.0.iter().zip(b.0).zip(c.0).zip(d.0);
        for ((((a, b), c), d), rows) in four.zip(rows.as_chunks_mut::<4>().0) {
            let turned = s.turned([a, b, c, d]);
            for (row, turned) in rows.iter_mut().zip(turned) {
                if let Some(row) = row.get_mut(from..).and_then(<[_]>::first_chunk_mut) {
                    *row = turned;
                }
            }
        }
        for (w, words) in [a.1, b.1, c.1, d.1].into_iter().enumerate() {
            for (row, v) in rest.iter_mut().zip(words) {
                row[(from + w) % W] = *v;
            }
        }
    }
}

/// Which parts of a word a group's keys lie in.
#[inline(always)]
fn parts<S: Isa>(s: S, keys: Keys<'_>, cuts: &grid::Cuts) -> [u32; KEYS] {
    let mut out = [0; KEYS];
    let (whole, rest) = keys.word(cuts.word).as_chunks::<16>();
    let (to, _) = out.as_chunks_mut::<16>();
    for (to, keys) in to.iter_mut().zip(whole) {
        *to = cuts.parts(s, keys);
    }
    if let (false, Some(to)) = (rest.is_empty(), to.get_mut(whole.len())) {
        let mut keys = [0; 16];
        for (k, v) in keys.iter_mut().zip(rest) {
            *k = *v;
        }
        *to = cuts.parts(s, &keys);
    }
    out
}

impl grid::Grid {
    /// Where keys in these parts go on.
    #[inline(always)]
    fn cell(&self, a: u32, b: u32) -> u32 {
        let at = a * (self.cuts[1].last + 1) + b;
        self.cells.get(at as usize).copied().unwrap_or(EMPTY)
    }
}

impl Lookup<'_> {
    #[inline(always)]
    fn all<S: Isa, const W: usize>(mut self, s: S) {
        let n = self.keys.len().min(self.out.len());
        let mut rows = [[0u32; W]; KEYS];
        let mut from = 0;
        while from < n {
            let len = KEYS.min(n - from);
            let keys = self.keys.part(from, len);
            side_by_side(s, keys, &mut rows);
            let best = self.group(s, keys, &rows, len);
            for (o, best) in self.out.iter_mut().skip(from).zip(best).take(len) {
                *o = self
                    .tree
                    .values
                    .get(best as usize)
                    .copied()
                    .unwrap_or(NO_MATCH);
            }
            from += len;
        }
    }

    /// The first entries of a group of keys: tree after tree, each for those keys that have nothing better yet.
    #[inline(always)]
    fn group<S: Isa, const W: usize>(
        &mut self,
        s: S,
        keys: Keys<'_>,
        rows: &[[u32; W]; KEYS],
        len: usize,
    ) -> [u32; KEYS] {
        let t = self.tree;
        let mut best = [u32::MAX; KEYS];
        for root in &t.roots {
            let mut at = [root.at; KEYS];
            let mut wanted = [0u8; KEYS];
            let mut n = 0usize;
            for (i, best) in best.iter().enumerate().take(len) {
                wanted[n % KEYS] = i as u8;
                n += usize::from(root.first < *best);
            }
            if n == 0 {
                // later trees have later entries
                break;
            }
            let mut active = wanted;
            let mut walking = match root.at & LEAF {
                0 => n,
                _ => 0,
            };
            if let Some(g) = &root.grid {
                walking = 0;
                let a = parts(s, keys, &g.cuts[0]);
                let b = parts(s, keys, &g.cuts[1]);
                for i in wanted.iter().take(n) {
                    let k = usize::from(*i) % KEYS;
                    let next = g.cell(a[k], b[k]);
                    at[k] = next;
                    active[walking % KEYS] = *i;
                    walking += usize::from(next & LEAF == 0);
                    let line = (next & !LEAF) as usize;
                    prefetch(&t.lines, line);
                    prefetch(&t.lines, line + 1);
                }
            }
            // Bound: the depth of the tree.
            while walking > 0 {
                let mut left = 0;
                for a in 0..walking {
                    let i = active[a % KEYS];
                    let k = usize::from(i) % KEYS;
                    let next = t.next(s, at[k], best[k], &rows[k]);
                    at[k] = next;
                    active[left % KEYS] = i;
                    left += usize::from(next & LEAF == 0);
                    // a node's two lines, or a leaf's first ones
                    let line = (next & !LEAF) as usize;
                    prefetch(&t.lines, line);
                    prefetch(&t.lines, line + 1);
                }
                walking = left;
            }
            // the further lines of leaves; those of nothing are not looked at
            let all = n;
            n = 0;
            for a in 0..all {
                let i = wanted[a % KEYS];
                let leaf = at[usize::from(i) % KEYS];
                wanted[n % KEYS] = i;
                n += usize::from(leaf != EMPTY);
                for l in 2..BLOCK {
                    prefetch(&t.lines, (leaf & !LEAF) as usize + l);
                }
            }
            // Block by block, as levels before: one that a key goes on with is asked for a whole turn before.
            // Bound: the blocks of the longest leaf.
            while n > 0 {
                let mut left = 0;
                for a in 0..n {
                    let i = wanted[a % KEYS];
                    let k = usize::from(i) % KEYS;
                    let here = (at[k] & !LEAF) as usize;
                    let (b, next) = t.block(s, here, best[k], &rows[k], &mut |_| ());
                    best[k] = b;
                    wanted[left % KEYS] = i;
                    left += usize::from(next != DONE);
                    if next != DONE {
                        at[k] = next as u32;
                        for l in 0..BLOCK {
                            prefetch(&t.lines, next + l);
                        }
                    }
                }
                n = left;
            }
        }
        best
    }
}

impl Classifier for DecisionTree {
    fn kind(&self) -> Kind {
        Kind::DecisionTree
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        simd::dispatch(Lookup {
            tree: self,
            keys,
            out,
        });
    }

    fn memory_bytes(&self) -> usize {
        let grids = self.roots.iter().filter_map(|r| r.grid.as_ref());
        self.lines.len() * size_of::<CacheLine>()
            + self.patterns.capacity() * 8
            + self.tests.capacity()
            + self.values.capacity() * 4
            + grids
                .map(|g| size_of_val(&**g) + g.cells.capacity() * 4)
                .sum::<usize>()
    }

    fn shape(&self) -> String {
        let grids = self.roots.iter().filter_map(|r| r.grid.as_ref());
        format!(
            "{} trees, {} cells, {} nodes, {} lines of leaves, {:.1} copies",
            self.roots.len(),
            grids.map(|g| g.cells.len()).sum::<usize>(),
            self.nodes,
            self.lines.len() - 2 * self.nodes - BLOCK,
            self.copies as f64 / self.values.len().max(1) as f64
        )
    }
}
