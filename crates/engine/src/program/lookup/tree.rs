//! Finding the first rule that fits.
//!
//! All stages share one pool of tests and of tree nodes, so that a program is a handful of flat arrays. A stage with few rules
//! is a list, walked in order. One with many has up to four binary trees (for rules narrow in both of the two dimensions that
//! tell most apart, in one, in the other, in neither: a rule that is wide in both lies on both sides of nearly every cut and
//! would be copied all over). Each node cuts one register at one value; leaves hold a few rules in their order, without the
//! tests that the way to the leaf has answered. Questions that sum bytes are asked last.
//!
//! Bounds: a tree is at most [`MAX_DEPTH`] deep, and its leaves hold at most [`MAX_COPIES`] times as many rules as there are
//! (plus a constant); where that does not suffice, leaves are longer and are walked through.

use crate::program::headers::registers::{Regs, Source};
use onefold_element::model::{ValueSet, max_of};
use onefold_packet::Packet;
use std::collections::HashMap;

/// Stages with at most so many rules are lists; so are leaves.
const FEW: usize = 6;
const MAX_DEPTH: usize = 44;
const MAX_COPIES: usize = 12;
/// Rules looked at to choose a cut.
const SAMPLE: usize = 256;
/// Values tried per dimension.
const CUTS: usize = 8;
/// Below this number of rules one tree is enough.
const ONE_TREE: usize = 64;

/// Answer of [`Classifier::first`]: no rule fits.
pub(crate) const NO_RULE: u32 = u32::MAX;

/// A condition on one register, as it comes from a filter.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub reg: u16,
    pub bits: u8,
    pub set: ValueSet,
    /// The register is a question about a header, to be asked lazily.
    pub lazy: bool,
}

/// How a [`Test`] is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// `lo <= value <= lo + span`, 64 bits.
    Narrow,
    /// Between two numbers of [`Classifier::numbers`].
    Wide,
    /// In one of `span` pairs of them, ascending.
    Many,
    /// A question: bit 0 of `lo` allows no, bit 1 yes.
    Ask,
}

/// A test of one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Test {
    lo: u64,
    span: u64,
    reg: u16,
    form: Form,
}

/// A rule as a leaf holds it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    rule: u32,
    /// Its tests that are left.
    first: u32,
    len: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// Values below it go to `child`, others to `child + 1`; with `wide` an index into the numbers.
    cut: u64,
    /// First child, or first entry of the leaf.
    child: u32,
    /// Entries of a leaf.
    len: u32,
    reg: u16,
    leaf: bool,
    wide: bool,
}

const LEAF: Node = Node {
    cut: 0,
    child: 0,
    len: 0,
    reg: 0,
    leaf: true,
    wide: false,
};

#[derive(Debug, Clone, Copy)]
struct Root {
    node: u32,
    first_rule: u32,
}

/// What a stage has of the shared arrays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StageIndex {
    first_root: u32,
    roots: u32,
}

/// The shared arrays.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classifier {
    tests: Vec<Test>,
    numbers: Vec<(u128, u128)>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    roots: Vec<Root>,
}

impl Classifier {
    /// The first rule of a stage whose tests all hold, or [`NO_RULE`].
    #[inline]
    pub fn first(&self, stage: StageIndex, regs: &mut Regs, sources: &[Source], p: &Packet) -> u32 {
        let mut best = NO_RULE;
        let from = stage.first_root as usize;
        for root in &self.roots[from..from + stage.roots as usize] {
            if root.first_rule >= best {
                break;
            }
            let mut n = &self.nodes[root.node as usize];
            while !n.leaf {
                let v = regs.v[usize::from(n.reg)];
                let right = match n.wide {
                    false => v as u64 >= n.cut,
                    true => v >= self.numbers[n.cut as usize].0,
                };
                n = &self.nodes[n.child as usize + usize::from(right)];
            }
            for e in &self.entries[n.child as usize..(n.child + n.len) as usize] {
                if e.rule >= best {
                    break;
                }
                if self.fits(e, regs, sources, p) {
                    best = e.rule;
                    break;
                }
            }
        }
        best
    }

    #[inline]
    fn fits(&self, e: &Entry, regs: &mut Regs, sources: &[Source], p: &Packet) -> bool {
        let tests = &self.tests[e.first as usize..(e.first + e.len) as usize];
        tests.iter().all(|t| {
            let r = usize::from(t.reg);
            match t.form {
                Form::Narrow => (regs.v[r] as u64).wrapping_sub(t.lo) <= t.span,
                Form::Wide => {
                    let (lo, hi) = self.numbers[t.lo as usize];
                    (lo..=hi).contains(&regs.v[r])
                }
                Form::Many => {
                    let v = regs.v[r];
                    let list = &self.numbers[t.lo as usize..(t.lo + t.span) as usize];
                    let i = list.partition_point(|(_, hi)| *hi < v);
                    list.get(i).is_some_and(|(lo, _)| *lo <= v)
                }
                Form::Ask => {
                    regs.ensure(t.reg, sources, p);
                    t.lo >> (regs.v[r] & 1) & 1 == 1
                }
            }
        })
    }

    /// Nodes and entries of all stages, for reports.
    pub fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.entries.len())
    }
}

/// A rule that is being placed.
struct Placed {
    rule: u32,
    /// (dimension, set), for registers that are read at once.
    boxed: Vec<(usize, ValueSet)>,
    /// What is asked lazily.
    asked: Vec<Test>,
}

struct Work {
    node: usize,
    rules: Vec<u32>,
    region: Vec<(u128, u128)>,
    depth: usize,
}

/// Fills a [`Classifier`] stage by stage.
#[derive(Default)]
pub(crate) struct Builder {
    c: Classifier,
    /// Lists of tests that are there already, by contents.
    lists: HashMap<Vec<Test>, u32>,
    numbers: HashMap<Vec<(u128, u128)>, u64>,
}

impl Builder {
    pub fn finish(self) -> Classifier {
        self.c
    }

    /// Adds a stage; rules in order, each a conjunction.
    pub fn stage(&mut self, rules: &[Vec<Condition>]) -> StageIndex {
        let mut regs: Vec<(u16, u8)> = Vec::new();
        let mut dim_of: HashMap<u16, usize> = HashMap::new();
        let mut placed = Vec::with_capacity(rules.len());
        for (i, r) in rules.iter().enumerate() {
            let mut p = Placed {
                rule: i as u32,
                boxed: Vec::new(),
                asked: Vec::new(),
            };
            let mut possible = true;
            for c in r {
                let set = c.set.intersect(&ValueSet::full(c.bits));
                possible &= !set.is_empty();
                if set.is_full(c.bits) {
                    continue;
                }
                if c.lazy {
                    let allowed = u64::from(set.contains(0)) | u64::from(set.contains(1)) << 1;
                    p.asked.push(Test {
                        lo: allowed,
                        span: 0,
                        reg: c.reg,
                        form: Form::Ask,
                    });
                    continue;
                }
                let d = *dim_of.entry(c.reg).or_insert_with(|| {
                    regs.push((c.reg, c.bits));
                    regs.len() - 1
                });
                p.boxed.push((d, set));
            }
            if possible {
                placed.push(p);
            }
        }
        let first_root = self.c.roots.len() as u32;
        if placed.len() <= FEW {
            self.c.nodes.push(LEAF);
            let w = Work {
                node: self.c.nodes.len() - 1,
                rules: (0..placed.len() as u32).collect(),
                region: regs.iter().map(|(_, b)| (0, max_of(*b))).collect(),
                depth: 0,
            };
            self.leaf(&placed, &regs, &w);
            self.c.roots.push(Root {
                node: w.node as u32,
                first_rule: 0,
            });
        } else {
            for group in groups(&placed, &regs) {
                let first = group.first().map_or(NO_RULE, |i| placed[*i as usize].rule);
                let node = self.tree(&placed, &regs, group);
                self.c.roots.push(Root {
                    node,
                    first_rule: first,
                });
            }
            self.c.roots[first_root as usize..].sort_by_key(|r| r.first_rule);
        }
        StageIndex {
            first_root,
            roots: self.c.roots.len() as u32 - first_root,
        }
    }

    fn tree(&mut self, placed: &[Placed], regs: &[(u16, u8)], group: Vec<u32>) -> u32 {
        let mut budget = group.len() * MAX_COPIES + 1024;
        let root = self.c.nodes.len();
        self.c.nodes.push(LEAF);
        let mut work = vec![Work {
            node: root,
            rules: group,
            region: regs.iter().map(|(_, b)| (0, max_of(*b))).collect(),
            depth: 0,
        }];
        // Bound: the budget of copies, and the depth.
        while let Some(mut w) = work.pop() {
            // what comes after a rule that takes everything here is never reached
            let all = |p: &Placed| {
                p.asked.is_empty() && (p.boxed.iter()).all(|(d, s)| covers(s, w.region[*d]))
            };
            if let Some(i) = w.rules.iter().position(|i| all(&placed[*i as usize])) {
                w.rules.truncate(i + 1);
            }
            let cut = match w.rules.len() > FEW && w.depth < MAX_DEPTH {
                true => choose_cut(placed, &w),
                false => None,
            };
            let Some((dim, at)) = cut else {
                self.leaf(placed, regs, &w);
                continue;
            };
            let region = w.region[dim];
            let part = |lo: u128, hi: u128| -> Vec<u32> {
                let meets = |i: &u32| {
                    let boxed = &placed[*i as usize].boxed;
                    let set = boxed.iter().find(|(d, _)| *d == dim);
                    set.is_none_or(|(_, s)| meets(s, lo, hi))
                };
                w.rules.iter().copied().filter(meets).collect()
            };
            let (low, high) = (part(region.0, at - 1), part(at, region.1));
            let copies = (low.len() + high.len()).saturating_sub(w.rules.len());
            if copies > budget {
                self.leaf(placed, regs, &w);
                continue;
            }
            budget -= copies;
            let child = self.c.nodes.len();
            self.c.nodes.extend([LEAF, LEAF]);
            let (reg, bits) = regs[dim];
            let cut = match bits <= 64 {
                true => at as u64,
                false => self.number(vec![(at, 0)]),
            };
            self.c.nodes[w.node] = Node {
                cut,
                child: child as u32,
                len: 0,
                reg,
                leaf: false,
                wide: bits > 64,
            };
            for (node, rules, r) in [
                (child, low, (region.0, at - 1)),
                (child + 1, high, (at, region.1)),
            ] {
                let mut region = w.region.clone();
                region[dim] = r;
                work.push(Work {
                    node,
                    rules,
                    region,
                    depth: w.depth + 1,
                });
            }
        }
        root as u32
    }

    fn leaf(&mut self, placed: &[Placed], regs: &[(u16, u8)], w: &Work) {
        let first = self.c.entries.len();
        for i in &w.rules {
            let p = &placed[*i as usize];
            // the narrowest first: it decides most often
            let mut left: Vec<(f64, Test)> = Vec::new();
            for (d, s) in &p.boxed {
                if !covers(s, w.region[*d]) {
                    let (reg, bits) = regs[*d];
                    let size = s.count().map_or(1.0, |n| n as f64 / max_of(bits) as f64);
                    left.push((size, self.test(reg, bits, s)));
                }
            }
            left.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut tests: Vec<Test> = left.into_iter().map(|(_, t)| t).collect();
            tests.extend(&p.asked);
            let len = tests.len() as u32;
            let first = match self.lists.get(&tests) {
                Some(f) => *f,
                None => {
                    let f = self.c.tests.len() as u32;
                    self.c.tests.extend(&tests);
                    self.lists.insert(tests, f);
                    f
                }
            };
            self.c.entries.push(Entry {
                rule: p.rule,
                first,
                len,
            });
        }
        self.c.nodes[w.node] = Node {
            child: first as u32,
            len: w.rules.len() as u32,
            ..LEAF
        };
    }

    fn test(&mut self, reg: u16, bits: u8, set: &ValueSet) -> Test {
        let (lo, span, form) = match *set.intervals() {
            [(lo, hi)] if bits <= 64 => (lo as u64, (hi - lo) as u64, Form::Narrow),
            [pair] => (self.number(vec![pair]), 0, Form::Wide),
            ref list => (self.number(list.to_vec()), list.len() as u64, Form::Many),
        };
        Test {
            lo,
            span,
            reg,
            form,
        }
    }

    fn number(&mut self, list: Vec<(u128, u128)>) -> u64 {
        if let Some(i) = self.numbers.get(&list) {
            return *i;
        }
        let at = self.c.numbers.len() as u64;
        self.c.numbers.extend(&list);
        self.numbers.insert(list, at);
        at
    }
}

fn covers(s: &ValueSet, region: (u128, u128)) -> bool {
    let i = s.intervals().partition_point(|(_, h)| *h < region.0);
    (s.intervals().get(i)).is_some_and(|(l, h)| *l <= region.0 && *h >= region.1)
}

fn meets(s: &ValueSet, lo: u128, hi: u128) -> bool {
    let i = s.intervals().partition_point(|(_, h)| *h < lo);
    s.intervals().get(i).is_some_and(|(l, _)| *l <= hi)
}

/// From the least to the greatest value.
fn hull(s: &ValueSet) -> (u128, u128) {
    let first = s.intervals().first().map_or(0, |i| i.0);
    (first, s.intervals().last().map_or(0, |i| i.1))
}

/// Splits rules by how wide they are in the two dimensions with the most different intervals.
fn groups(placed: &[Placed], regs: &[(u16, u8)]) -> Vec<Vec<u32>> {
    let all: Vec<u32> = (0..placed.len() as u32).collect();
    if placed.len() <= ONE_TREE {
        return vec![all];
    }
    let wide = |d: usize, s: &ValueSet| {
        let (lo, hi) = hull(s);
        hi - lo >= max_of(regs[d].1) / 64
    };
    let mut seen: Vec<std::collections::HashSet<(u128, u128)>> =
        vec![Default::default(); regs.len()];
    for p in placed {
        for (d, s) in &p.boxed {
            if !wide(*d, s) {
                seen[*d].insert(hull(s));
            }
        }
    }
    let mut order: Vec<usize> = (0..regs.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(seen[*d].len()));
    order.truncate(2);
    let mut g: [Vec<u32>; 4] = Default::default();
    for i in all {
        let p = &placed[i as usize];
        let narrow = |d: &usize| p.boxed.iter().any(|(e, s)| e == d && !wide(*d, s));
        let bits = order.iter().map(|d| !narrow(d));
        let which = bits.fold(0, |n, b| n * 2 + usize::from(b));
        g[which].push(i);
    }
    // a walk for a handful of rules does not pay: they join the widest
    for k in 0..3 {
        if g[k].len() <= 2 * FEW {
            let few = std::mem::take(&mut g[k]);
            g[3].extend(few);
        }
    }
    g[3].sort_unstable();
    g.into_iter().filter(|g| !g.is_empty()).collect()
}

/// Dimension and value of the cut that leaves the fewest rules on either side, or `None` if none gets ahead.
fn choose_cut(placed: &[Placed], w: &Work) -> Option<(usize, u128)> {
    let step = w.rules.len().div_ceil(SAMPLE);
    let mut hulls: Vec<(Vec<u128>, Vec<u128>)> = vec![Default::default(); w.region.len()];
    let mut n = 0u64;
    for i in w.rules.iter().step_by(step) {
        n += 1;
        for (d, s) in &placed[*i as usize].boxed {
            let (region, h) = (w.region[*d], hull(s));
            if h.0 > region.0 || h.1 < region.1 {
                hulls[*d].0.push(h.0.max(region.0));
                hulls[*d].1.push(h.1.min(region.1));
            }
        }
    }
    let mut best: Option<(u64, usize, u128)> = None;
    for (dim, (lows, highs)) in hulls.iter_mut().enumerate() {
        if lows.is_empty() {
            continue;
        }
        let region = w.region[dim];
        lows.sort_unstable();
        highs.sort_unstable();
        let mut ends: Vec<u128> = lows.iter().copied().filter(|l| *l > region.0).collect();
        ends.extend(highs.iter().filter(|h| **h < region.1).map(|h| h + 1));
        ends.sort_unstable();
        if ends.is_empty() {
            continue;
        }
        let full = n.saturating_sub(lows.len() as u64);
        let mut tried = None;
        for k in 1..=CUTS {
            let at = ends[(ends.len() * k / (CUTS + 1)).min(ends.len() - 1)];
            if tried.replace(at) == Some(at) {
                continue;
            }
            let low = full + lows.partition_point(|l| *l < at) as u64;
            let high = full + (highs.len() - highs.partition_point(|h| *h < at)) as u64;
            let cost = low * low + high * high;
            if best.is_none_or(|(c, _, _)| cost < c) {
                best = Some((cost, dim, at));
            }
        }
    }
    let (cost, dim, at) = best?;
    // two sides nearly as long as the whole are no gain
    (cost * 10 < n * n * 17).then_some((dim, at))
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
