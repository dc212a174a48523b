//! Decision trees with wide nodes: a level is one comparison of a cache line, a leaf's rules are compared eight at a time.
//!
//! - Cuts of a node are *equally dense* (HyperCuts and EffiCuts, Vamanan et al., SIGCOMM 2010, section 3.2; HyperSplit, Qi et al., INFOCOM
//!   2009): up to 15 values of one word, chosen among the ends of the node's rules so that each of up to 16 children gets about as many. The
//!   word is the one that leaves least ([`cut`]).
//! - Rules are *separated* by whether they are wide or narrow in the two words that tell most apart (EffiCuts, section 3.1; CutSplit, Li et al.,
//!   INFOCOM 2018, section III), because a rule that is wide in both is copied to nearly every child. Which separation is best is found by trying ([`group`]).
//! - Leaves hold their rules in order, in blocks of eight: for each word that the way to the leaf has not answered one line with eight least
//!   values and eight spans, or eight masks and values. Leaves of the same contents exist once.
//!
//! All keys of a stage walk all trees level by level, so that each cache line is asked for a whole turn before it is needed.
//!
//! Bounds: trees are at most [`MAX_DEPTH`] deep and leaves hold at most so many copies of each rule as [`Settings::copies`] says; where that
//! does not suffice, leaves are longer.

mod build;
mod cut;
mod group;
mod leaf;

use crate::simd::{self, Isa, Kernel, Line, prefetch};
use crate::{Classifier, Keys, Kind, NO_MATCH, Refusal, Table};

/// Levels of a tree, at most.
pub const MAX_DEPTH: u32 = 24;
/// Keys times trees in flight.
const JOBS: usize = 64;
/// Trees, at most.
const MAX_TREES: usize = 4;
/// A reference is the number of a first line, with this bit if it is a leaf's. A node has two lines: its cuts, ascending, padded with the
/// greatest number, the last one being the word; and references to its children, padded with the last one.
const LEAF: u32 = 1 << 31;

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

#[derive(Debug, Clone, Copy)]
struct Root {
    at: u32,
    /// Its first entry.
    first: u32,
}

/// What a look-up costs: sums over all trees.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Steps {
    /// Nodes gone through.
    pub levels: f64,
    /// Blocks of rules compared.
    pub blocks: f64,
    /// Their cache lines.
    pub lines: f64,
}

impl Steps {
    /// About how many nanoseconds that is, on one core at 2.6 GHz with AVX-512, in trees of so many bytes: fitted to what
    /// `examples/measure` finds.
    pub fn ns(&self, memory: usize) -> f64 {
        // from 256 KiB on they leave the nearest caches, from 16 MiB on the last one
        let near = (memory as f64 / 262_144.0).max(1.0).log2() * 0.6;
        let far = near + if memory >> 24 > 0 { 5.0 } else { 0.0 };
        self.levels * 5.0 + self.blocks * 9.0 + self.lines * 2.0 + (self.levels + self.blocks) * far
    }
}

/// One to four trees.
#[derive(Debug, Clone)]
pub struct DecisionTree {
    roots: Vec<Root>,
    /// Nodes, and leaves: see [`leaf`]. They lie together, so that a step down asks for lines without knowing to which of the two it leads.
    lines: Vec<Line>,
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
        for i in 0..keys.len() {
            let mut best = u32::MAX;
            for r in &self.roots {
                let mut at = r.at;
                while at & LEAF == 0 {
                    s.levels += 1.0;
                    at = self.next(simd::Portable, at, keys, i);
                }
                let mut count = |lines: usize| {
                    s.blocks += 1.0;
                    s.lines += lines as f64;
                };
                best = self.scan(simd::Portable, at, best, keys, i, &mut count);
            }
        }
        let n = keys.len().max(1) as f64;
        Steps {
            levels: s.levels / n,
            blocks: s.blocks / n,
            lines: s.lines / n,
        }
    }

    /// The child that a key goes to; a leaf is its own.
    #[inline(always)]
    fn next<S: Isa>(&self, s: S, at: u32, keys: Keys<'_>, i: usize) -> u32 {
        let node = self.lines.get(at as usize..).and_then(<[_]>::first_chunk);
        let Some([Line(cuts), Line(kids)]) = node else {
            return at | LEAF;
        };
        let k = keys.at(cuts[15] as usize, i);
        let child = (s.le16(cuts, k) & 0x7fff).count_ones();
        kids[child as usize & 15]
    }

    /// The first entry of a leaf that fits, if it comes before `best`.
    #[inline(always)]
    fn scan<S: Isa>(
        &self,
        s: S,
        at: u32,
        best: u32,
        keys: Keys<'_>,
        i: usize,
        count: &mut impl FnMut(usize),
    ) -> u32 {
        let mut at = (at & !LEAF) as usize;
        // Bound: the blocks of a leaf.
        while let Some(Line(head)) = self.lines.get(at) {
            if head[0] >= best {
                break;
            }
            let (first, len) = *self
                .patterns
                .get(head[leaf::PATTERN] as usize)
                .unwrap_or(&(0, 0));
            let (first, len) = (first as usize, len as usize);
            count(len + 1);
            let mut m = head[leaf::LANES];
            let tests = self.tests.get(first..first + len).unwrap_or(&[]);
            let lines = self.lines.get(at + 1..at + 1 + len).unwrap_or(&[]);
            for (t, Line(line)) in tests.iter().zip(lines) {
                let k = keys.at(usize::from(t & !leaf::MASKED), i);
                m &= match t & leaf::MASKED {
                    0 => s.within8(line, k),
                    _ => s.masked8(line, k),
                };
            }
            if m != 0 {
                return best.min(head[m.trailing_zeros() as usize & 7]);
            }
            if head[leaf::MORE] == 0 {
                break;
            }
            at += 1 + len;
        }
        best
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
        let t = self.tree;
        let n = self.keys.len().min(self.out.len());
        let trees = t.roots.len().clamp(1, MAX_TREES);
        let stage = JOBS / trees;
        let mut from = 0;
        while from < n {
            let len = stage.min(n - from);
            let keys = self.keys.part(from, len);
            // job j: key j % len in tree j / len
            let mut at = [0u32; JOBS];
            let mut active = [(0u8, 0u8); JOBS];
            let mut walking = 0;
            for (r, root) in t.roots.iter().enumerate().take(MAX_TREES) {
                for i in 0..len {
                    at[(r * len + i) % JOBS] = root.at;
                    active[walking % JOBS] = ((r * len + i) as u8, i as u8);
                    walking += usize::from(root.at & LEAF == 0);
                }
            }
            // Bound: the depth of the trees.
            while walking > 0 {
                let mut left = 0;
                for a in 0..walking {
                    let (job, i) = active[a % JOBS];
                    let slot = &mut at[usize::from(job) % JOBS];
                    let next = t.next(s, *slot, keys, usize::from(i));
                    *slot = next;
                    active[left] = (job, i);
                    left += usize::from(next & LEAF == 0);
                    // a node's two lines, or a leaf's first ones
                    let line = (next & !LEAF) as usize;
                    prefetch(&t.lines, line);
                    prefetch(&t.lines, line + 1);
                }
                walking = left;
            }
            // the further lines of leaves
            for at in at.iter().take(t.roots.len() * len) {
                for l in 2..6 {
                    prefetch(&t.lines, (at & !LEAF) as usize + l);
                }
            }
            let mut best = [u32::MAX; JOBS];
            for r in 0..t.roots.len().min(MAX_TREES) {
                for (i, best) in best.iter_mut().enumerate().take(len) {
                    *best = t.scan(s, at[(r * len + i) % JOBS], *best, keys, i, &mut |_| ());
                }
            }
            for (o, best) in self.out.iter_mut().skip(from).zip(best).take(len) {
                *o = t.values.get(best as usize).copied().unwrap_or(NO_MATCH);
            }
            from += len;
        }
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
        self.lines.capacity() * size_of::<Line>()
            + self.patterns.capacity() * 8
            + self.tests.capacity()
            + self.values.capacity() * 4
    }

    fn shape(&self) -> String {
        format!(
            "{} trees, {} nodes, {} lines of leaves, {:.1} copies",
            self.roots.len(),
            self.nodes,
            self.lines.len() - 2 * self.nodes,
            self.copies as f64 / self.values.len().max(1) as f64
        )
    }
}
