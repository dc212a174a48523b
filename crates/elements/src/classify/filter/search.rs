//! Finding the first of many boxes that contains a packet.
//!
//! Boxes are sorted into four groups by how wide their source and destination ranges are: a wide range lies on both
//! sides of nearly every cut and would be copied all over the tree. Each group has a binary tree that cuts one
//! dimension at one value per node; leaves hold a few boxes, in the rules' order. A packet walks down one path per
//! group, groups with the earliest rules first, and leaves out what cannot hold an earlier rule than the one already
//! found.
//!
//! Bounds: a tree is at most [`MAX_DEPTH`] deep and its leaves hold at most [`MAX_COPIES`] times as many boxes as there
//! are (plus a constant); where that does not suffice, leaves are longer and are walked through linearly.

use super::boxes::{DIMS, DPORT, DST, MAX, Range, Region, SRC};

/// Leaves of this many boxes are not cut further.
const LEAF: usize = 6;
/// Deepest tree.
const MAX_DEPTH: usize = 40;
/// See the module's text.
const MAX_COPIES: usize = 12;
/// Boxes looked at to choose a cut.
const SAMPLE: usize = 256;
/// Values tried per dimension.
const CUTS: usize = 8;
/// A range of at least this many addresses is wide.
const WIDE: u32 = 1 << 26;

/// Says that there is nothing to check besides the ranges.
pub(super) const NO_CHECKS: u32 = u32::MAX;

/// A box as leaves hold it.
#[derive(Debug, Clone, Copy)]
struct Leafbox {
    lo: [u32; DIMS],
    span: [u32; DIMS],
    rule: u32,
    /// Index of its checks, or [`NO_CHECKS`].
    checks: u32,
}

impl Leafbox {
    #[inline]
    fn contains(&self, key: &[u32; DIMS]) -> bool {
        // addresses decide most often
        let inside = |d: usize| key[d].wrapping_sub(self.lo[d]) <= self.span[d];
        inside(DST) && inside(SRC) && inside(DPORT) && inside(2) && inside(3)
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// Cut: values below it go to `child`, others to `child + 1`.
    cut: u32,
    /// Dimension of the cut, or [`IS_LEAF`].
    dim: u32,
    /// First child, or first box of the leaf.
    child: u32,
    /// Number of boxes, in a leaf.
    len: u32,
}

const IS_LEAF: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Root {
    node: u32,
    /// The earliest rule in the group.
    first_rule: u32,
}

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    roots: Vec<Root>,
    nodes: Vec<Node>,
    boxes: Vec<Leafbox>,
}

/// A box to be searched for.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub r: [Range; DIMS],
    pub rule: u32,
    pub checks: u32,
}

struct Work {
    node: usize,
    entries: Vec<u32>,
    region: [Range; DIMS],
    depth: usize,
}

impl Search {
    /// `entries` are in the order of their rules.
    pub fn build(entries: &[Entry]) -> Search {
        let wide = |r: Range| r.hi - r.lo >= WIDE - 1;
        let mut groups: [Vec<u32>; 4] = Default::default();
        for (i, e) in entries.iter().enumerate() {
            let g = usize::from(wide(e.r[SRC])) * 2 + usize::from(wide(e.r[DST]));
            groups[g].push(i as u32);
        }
        // a walk for a handful of boxes does not pay: they join the group of the widest
        for g in 0..3 {
            if groups[g].len() <= 2 * LEAF {
                let few = std::mem::take(&mut groups[g]);
                groups[3].extend(few);
            }
        }
        groups[3].sort_unstable();
        let mut s = Search::default();
        for g in groups.into_iter().filter(|g| !g.is_empty()) {
            let first_rule = g.first().map_or(u32::MAX, |i| entries[*i as usize].rule);
            let node = s.tree(entries, g);
            s.roots.push(Root { node, first_rule });
        }
        s.roots.sort_by_key(|r| r.first_rule);
        s
    }

    fn tree(&mut self, entries: &[Entry], group: Vec<u32>) -> u32 {
        let mut budget = group.len() * MAX_COPIES + 1024;
        let root = self.nodes.len();
        self.nodes.push(PLACEHOLDER);
        let mut work = vec![Work {
            node: root,
            entries: group,
            region: Region::full().r,
            depth: 0,
        }];
        while let Some(mut w) = work.pop() {
            // what comes after a box that covers the whole region is never reached
            let last = w.entries.iter().position(|i| {
                let e = &entries[*i as usize];
                let covers = |d: usize| e.r[d].lo <= w.region[d].lo && e.r[d].hi >= w.region[d].hi;
                e.checks == NO_CHECKS && (0..DIMS).all(covers)
            });
            if let Some(i) = last {
                w.entries.truncate(i + 1);
            }
            let cut = match w.entries.len() > LEAF && w.depth < MAX_DEPTH {
                true => choose_cut(entries, &w),
                false => None,
            };
            let Some((dim, at)) = cut else {
                self.leaf(entries, &w);
                continue;
            };
            let (low, high): (Vec<u32>, Vec<u32>) = {
                let part = |keep: &dyn Fn(Range) -> bool| {
                    let all = w.entries.iter().copied();
                    all.filter(|i| keep(entries[*i as usize].r[dim])).collect()
                };
                (part(&|r| r.lo < at), part(&|r| r.hi >= at))
            };
            let copies = (low.len() + high.len()).saturating_sub(w.entries.len());
            if copies > budget {
                self.leaf(entries, &w);
                continue;
            }
            budget -= copies;
            let child = self.nodes.len();
            self.nodes.extend([PLACEHOLDER, PLACEHOLDER]);
            self.nodes[w.node] = Node {
                cut: at,
                dim: dim as u32,
                child: child as u32,
                len: 0,
            };
            for (node, list) in [(child, low), (child + 1, high)] {
                let mut region = w.region;
                if node == child {
                    region[dim].hi = at - 1;
                } else {
                    region[dim].lo = at;
                }
                work.push(Work {
                    node,
                    entries: list,
                    region,
                    depth: w.depth + 1,
                });
            }
        }
        root as u32
    }

    fn leaf(&mut self, entries: &[Entry], w: &Work) {
        let start = self.boxes.len();
        self.boxes.extend(w.entries.iter().map(|i| {
            let e = &entries[*i as usize];
            Leafbox {
                lo: e.r.map(|r| r.lo),
                span: e.r.map(|r| r.hi - r.lo),
                rule: e.rule,
                checks: e.checks,
            }
        }));
        self.nodes[w.node] = Node {
            cut: 0,
            dim: IS_LEAF,
            child: start as u32,
            len: w.entries.len() as u32,
        };
    }

    /// The first rule that has a box with this key in it whose checks `pass`.
    #[inline]
    pub fn first(&self, key: &[u32; DIMS], mut pass: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut best = u32::MAX;
        for root in &self.roots {
            if root.first_rule >= best {
                break;
            }
            let mut n = &self.nodes[root.node as usize];
            while n.dim != IS_LEAF {
                let right = key[n.dim as usize % DIMS] >= n.cut;
                n = &self.nodes[n.child as usize + usize::from(right)];
            }
            let leaf = &self.boxes[n.child as usize..(n.child + n.len) as usize];
            for b in leaf {
                if b.rule >= best {
                    break;
                }
                if b.contains(key) && (b.checks == NO_CHECKS || pass(b.checks)) {
                    best = b.rule;
                    break;
                }
            }
        }
        (best != u32::MAX).then_some(best)
    }

    /// Nodes and boxes, for reports.
    pub fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.boxes.len())
    }
}

const PLACEHOLDER: Node = Node {
    cut: 0,
    dim: IS_LEAF,
    child: 0,
    len: 0,
};

/// Dimension and value of the cut that leaves the fewest boxes on either side, or `None` if none gets ahead.
fn choose_cut(entries: &[Entry], w: &Work) -> Option<(usize, u32)> {
    let step = w.entries.len().div_ceil(SAMPLE);
    let sample: Vec<&Entry> = w
        .entries
        .iter()
        .step_by(step)
        .map(|i| &entries[*i as usize])
        .collect();
    let n = sample.len() as u64;
    let mut best: Option<(u64, usize, u32)> = None;
    let mut ends: Vec<u32> = Vec::with_capacity(2 * sample.len());
    for (dim, (region, max)) in w.region.iter().zip(MAX).enumerate() {
        ends.clear();
        for e in &sample {
            let r = e.r[dim];
            if r.lo > region.lo {
                ends.push(r.lo);
            }
            if r.hi < region.hi && r.hi < max {
                ends.push(r.hi + 1);
            }
        }
        if ends.is_empty() {
            continue;
        }
        ends.sort_unstable();
        let mut tried = None;
        for k in 1..=CUTS {
            let at = ends[(ends.len() * k / (CUTS + 1)).min(ends.len() - 1)];
            if tried.replace(at) == Some(at) {
                continue;
            }
            let low = sample.iter().filter(|e| e.r[dim].lo < at).count() as u64;
            let high = sample.iter().filter(|e| e.r[dim].hi >= at).count() as u64;
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
