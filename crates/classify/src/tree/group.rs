//! Which rules share a tree.

use super::build;
use super::cut::Hulls;
use super::{DecisionTree, Settings};
use crate::{Classifier, Kind, Refusal, Table, plan};
use std::collections::HashSet;

/// An interval is wide that has more than one in so many of the word's ends.
const WIDE: usize = 16;
/// Groups of fewer entries join another one.
const SMALL_GROUP: usize = 24;
/// Keys that a choice is tried with.
const TRIED: usize = 2000;

/// Leaf sizes that are tried, where the settings leave it open.
const LEAVES: [usize; 2] = [16, 24];
/// Entries up to which all of them are; above, building takes too long.
const TRY_LEAVES: usize = 30_000;

/// The cheapest of all separations and leaf sizes.
pub(super) fn best(table: &Table, settings: &Settings) -> Result<DecisionTree, Refusal> {
    let hulls = build::hulls(table);
    let keys = plan::drawn(table, TRIED);
    let leaves = match settings.leaf {
        Some(n) => vec![n],
        None if table.len() > TRY_LEAVES => vec![LEAVES[0]],
        None => LEAVES.to_vec(),
    };
    let mut best: Option<(f64, DecisionTree)> = None;
    let mut refusal = None;
    let mut separations = separations(table, &hulls);
    if table.is_empty() {
        separations = vec![vec![Vec::new()]];
    }
    for (groups, leaf) in separations
        .iter()
        .flat_map(|g| leaves.iter().map(move |l| (g, *l)))
    {
        match build::build(table, &hulls, groups, leaf, settings) {
            Ok(t) => {
                let c = t.steps(keys.keys()).ns(t.memory_bytes());
                if best.as_ref().is_none_or(|(b, _)| c < *b) {
                    best = Some((c, t));
                }
            }
            Err(r) => refusal = Some(r),
        }
    }
    let best = best.map(|(_, t)| DecisionTree {
        lines: crate::simd::on_huge_pages(t.lines),
        ..t
    });
    best.ok_or(refusal.unwrap_or(Refusal::Form {
        kind: Kind::DecisionTree,
        why: "nothing to build from",
    }))
}

/// All together; by one word or the other; by both.
fn separations(table: &Table, hulls: &Hulls) -> Vec<Vec<Vec<u32>>> {
    let all: Vec<u32> = (0..table.len() as u32).collect();
    let mut list = vec![vec![all.clone()]];
    let words = words(table, hulls);
    let by = |words: &[&Narrow]| {
        let mut groups: Vec<Vec<u32>> = vec![Vec::new(); 1 << words.len()];
        for e in &all {
            let which = (words.iter()).fold(0, |n, w| n * 2 + usize::from(!w.has(*e)));
            groups[which].push(*e);
        }
        let last = groups.len() - 1;
        for g in 0..last {
            if groups[g].len() < SMALL_GROUP {
                let few = std::mem::take(&mut groups[g]);
                groups[last].extend(few);
            }
        }
        groups[last].sort_unstable();
        groups.retain(|g| !g.is_empty());
        groups
    };
    if let [a, b] = &words[..] {
        for w in [&[a][..], &[b], &[a, b]] {
            let groups = by(w);
            if groups.len() > 1 && !list.contains(&groups) {
                list.push(groups);
            }
        }
    }
    list
}

/// Which entries are narrow in a word.
struct Narrow(Vec<bool>);

impl Narrow {
    fn has(&self, e: u32) -> bool {
        self.0.get(e as usize).is_some_and(|n| *n)
    }
}

/// The two words, of different fields, with the most different narrow intervals.
fn words(table: &Table, hulls: &Hulls) -> Vec<Narrow> {
    let layout = table.layout();
    let mut best: Vec<(usize, usize, Narrow)> = Vec::new();
    for field in 0..layout.fields() {
        for w in layout.words_of(field) {
            let (lo, hi) = (&hulls.lo[w], &hulls.hi[w]);
            let mut ends: Vec<u32> = lo.iter().chain(hi).copied().collect();
            ends.sort_unstable();
            ends.dedup();
            let most = ends.len() / WIDE;
            let narrow: Vec<bool> = (lo.iter().zip(hi))
                .map(|(l, h)| {
                    let between =
                        ends.partition_point(|e| e <= h) - ends.partition_point(|e| e < l);
                    between <= most.max(2)
                })
                .collect();
            let different: HashSet<(u32, u32)> = (lo.iter().zip(hi).zip(&narrow))
                .filter(|(_, n)| **n)
                .map(|((l, h), _)| (*l, *h))
                .collect();
            match best.iter_mut().find(|b| b.1 == field) {
                Some(b) if b.0 >= different.len() => {}
                Some(b) => *b = (different.len(), field, Narrow(narrow)),
                None => best.push((different.len(), field, Narrow(narrow))),
            }
        }
    }
    best.sort_by_key(|b| std::cmp::Reverse(b.0));
    best.into_iter().take(2).map(|b| b.2).collect()
}
