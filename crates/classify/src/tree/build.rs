//! Building one tree.

use super::cut::{self, Hulls};
use super::grid::{self, Grid};
use super::leaf::Leaves;
use super::{BLOCK, DecisionTree, EMPTY, MAX_DEPTH, Root, Settings};
use crate::layout::word_max;
use crate::simd::CacheLine;
use crate::{Kind, Refusal, Table};

/// The ends of all entries.
pub(super) fn hulls(table: &Table) -> Hulls {
    let bits = table.layout().word_bits();
    let mut h = Hulls {
        lo: Vec::new(),
        hi: Vec::new(),
    };
    for (w, bits) in bits.iter().enumerate() {
        let ends = (0..table.len()).map(|e| table.row(e)[w].hull(*bits));
        let (lo, hi) = ends.unzip();
        h.lo.push(lo);
        h.hi.push(hi);
    }
    h
}

/// Where the reference to a part goes.
enum Parent {
    /// It is the whole.
    Nobody,
    /// Children of a node.
    Node(usize, std::ops::Range<usize>),
    /// A cell of the grid.
    Cell(usize),
}

struct Work {
    parent: Parent,
    entries: Vec<u32>,
    region: Vec<(u32, u32)>,
    depth: u32,
}

/// Trees of these groups of entries, each in order.
pub(super) fn build(
    table: &Table,
    hulls: &Hulls,
    groups: &[Vec<u32>],
    leaf: usize,
    settings: &Settings,
) -> Result<DecisionTree, Refusal> {
    let mut tree = DecisionTree {
        roots: Vec::new(),
        lines: Vec::new(),
        nodes: 0,
        patterns: Vec::new(),
        tests: Vec::new(),
        values: table.values().to_vec(),
        copies: 0,
    };
    let mut leaves = Leaves::new(hulls);
    // it comes first
    leaves.add(&mut tree, table, &[], &[]);
    let whole: Vec<(u32, u32)> = (table.layout().word_bits().iter())
        .map(|b| (0, word_max(*b)))
        .collect();
    for group in groups {
        let first = group.first().copied().unwrap_or(u32::MAX);
        let mut copies = group.len() * settings.copies + 256;
        let all = Work {
            parent: Parent::Nobody,
            entries: group.clone(),
            region: whole.clone(),
            depth: 0,
        };
        let mut root = Root {
            at: EMPTY,
            first,
            grid: None,
        };
        let mut work = match grid::plan(hulls, group, &whole, copies / 2) {
            None => vec![all],
            Some(plan) => {
                let parts = cells(hulls, &all, &plan);
                let more: usize = parts.iter().map(|w| w.entries.len()).sum();
                copies -= more.saturating_sub(group.len()).min(copies);
                let cuts = [0, 1].map(|i| grid::Cuts::new(plan.words[i], &plan.at[i]));
                let cells = vec![EMPTY; plan.cells()];
                root.grid = Some(Box::new(Grid { cuts, cells }));
                parts
            }
        };
        // Bound: the copies, and the depth.
        while let Some(mut w) = work.pop() {
            // what comes after an entry that takes everything here is never reached
            let all = |e: &u32| {
                let row = table.row(*e as usize);
                row.iter().zip(&w.region).all(|(t, r)| t.covers(*r))
            };
            if let Some(i) = w.entries.iter().position(all) {
                w.entries.truncate(i + 1);
            }
            let cut = match w.entries.len() > leaf && w.depth < MAX_DEPTH {
                true => cut::choose(hulls, &w.entries, &w.region, leaf),
                false => None,
            };
            let parts = cut.map(|c| (c.word, split(hulls, &w, &c)));
            let more = |p: &Vec<Work>| {
                let all: usize = p.iter().map(|w| w.entries.len()).sum();
                all.saturating_sub(w.entries.len())
            };
            let parts = parts.filter(|(_, p)| more(p) <= copies);
            let at = match parts {
                None => leaves.add(&mut tree, table, &w.entries, &w.region),
                Some((word, parts)) => {
                    copies -= more(&parts);
                    let mut cuts = [u32::MAX; 16];
                    let first = w.entries.first().copied().unwrap_or(0);
                    cuts[15] = word as u32 | first << super::FIRST;
                    let number = tree.lines.len();
                    let last = parts.len() - 1;
                    for (i, mut part) in parts.into_iter().enumerate() {
                        if i > 0 {
                            cuts[i - 1] = part.region[word].0;
                        }
                        let to = if i == last { 16 } else { i + 1 };
                        part.parent = Parent::Node(number, i..to);
                        work.push(part);
                    }
                    tree.lines.extend([CacheLine(cuts), CacheLine([0; 16])]);
                    tree.nodes += 1;
                    number as u32
                }
            };
            match w.parent {
                Parent::Node(n, kids) => tree.lines[n + 1].0[kids].fill(at),
                Parent::Cell(n) => {
                    let cells = root.grid.as_mut().map(|g| &mut g.cells[..]);
                    if let Some(cell) = cells.and_then(|c| c.get_mut(n)) {
                        *cell = at;
                    }
                }
                Parent::Nobody => root.at = at,
            }
            let cells = root.grid.as_ref().map_or(0, |g| g.cells.len());
            let used = tree.lines.len() * size_of::<CacheLine>() + (tree.values.len() + cells) * 4;
            if used > settings.budget {
                return Err(Refusal::Memory {
                    kind: Kind::DecisionTree,
                    needed: used,
                    budget: settings.budget,
                });
            }
        }
        tree.roots.push(root);
    }
    tree.roots.sort_by_key(|r| r.first);
    tree.lines.extend([CacheLine([0; 16]); BLOCK]);
    tree.lines.shrink_to_fit();
    Ok(tree)
}

/// The parts of a grid, entries in order.
fn cells(hulls: &Hulls, all: &Work, plan: &grid::Plan) -> Vec<Work> {
    let row = plan.at[1].len() + 1;
    let mut cells: Vec<Vec<u32>> = vec![Vec::new(); plan.cells()];
    for e in &all.entries {
        let [a, b] = plan.of(hulls, *e);
        for n in a {
            for cell in &mut cells[n * row..][b.clone()] {
                cell.push(*e);
            }
        }
    }
    (cells.into_iter().enumerate())
        .map(|(n, entries)| {
            let mut region = all.region.clone();
            for (i, part) in [n / row, n % row].into_iter().enumerate() {
                let word = plan.words[i];
                region[word] = plan.part(i, part, region[word]);
            }
            Work {
                parent: Parent::Cell(n),
                entries,
                region,
                depth: 1,
            }
        })
        .collect()
}

/// The parts of a node, entries in order.
fn split(hulls: &Hulls, w: &Work, cut: &cut::Cut) -> Vec<Work> {
    let mut parts: Vec<Vec<u32>> = vec![Vec::new(); cut.at.len() + 1];
    for e in &w.entries {
        let (lo, hi) = (
            hulls.lo[cut.word][*e as usize],
            hulls.hi[cut.word][*e as usize],
        );
        let from = cut.at.partition_point(|a| *a <= lo);
        let to = cut.at.partition_point(|a| *a <= hi);
        for p in &mut parts[from..=to] {
            p.push(*e);
        }
    }
    let (first, last) = w.region[cut.word];
    (parts.into_iter().enumerate())
        .map(|(i, entries)| {
            let mut region = w.region.clone();
            region[cut.word] = (
                if i == 0 { first } else { cut.at[i - 1] },
                cut.at.get(i).map_or(last, |a| a - 1),
            );
            Work {
                parent: Parent::Nobody,
                entries,
                region,
                depth: w.depth + 1,
            }
        })
        .collect()
}
