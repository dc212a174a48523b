//! Gaps in sets that earlier rules have filled.
//!
//! Synthesis takes out of a rule's set what an earlier rule takes: "everything but these networks". As the first rule that fits
//! counts, such gaps may as well be closed, and a set of thirty intervals is one again: where every packet of the gap that the rule
//! asks for otherwise is one that an earlier rule takes alone.

use super::inner::Inner;
use super::rules::{Asked, StageRules};
use onefold_elements::model::ValueSet;
use std::collections::HashMap;

/// Intervals of earlier rules that are looked at for one gap, at most.
const LOOK: usize = 512;
/// Intervals of all rules, at most: with more of them gaps stay.
const MAX_INTERVALS: usize = 1 << 22;

/// Sets with their gaps closed.
pub(super) struct Gaps {
    /// By rule (its place among those that are left) and condition; only those that have become less.
    closed: HashMap<(u32, Asked), Vec<(u128, u128)>>,
}

/// Intervals of one field, sorted by where they begin, in blocks of which is known how far they reach.
struct Field {
    /// From, to, place of the rule.
    list: Vec<(u128, u128, u32)>,
    /// The greatest end within a block of intervals.
    ends: Vec<u128>,
}

/// Intervals of a block.
const BLOCK: usize = 32;

impl Field {
    fn new(mut list: Vec<(u128, u128, u32)>) -> Field {
        list.sort_unstable();
        let ends = list.chunks(BLOCK);
        let ends = ends
            .map(|c| c.iter().map(|i| i.1).max().unwrap_or(0))
            .collect();
        Field { list, ends }
    }

    /// Intervals of earlier rules that hold a value: the end and the rule of each.
    fn holding(&self, v: u128, before: u32) -> impl Iterator<Item = (u128, u32)> {
        let upto = self.list.partition_point(|i| i.0 <= v);
        let blocks = (0..upto.div_ceil(BLOCK)).rev();
        let blocks = blocks.filter(move |b| self.ends.get(*b).is_some_and(|e| *e >= v));
        let all = blocks.flat_map(move |b| {
            let to = (b * BLOCK + BLOCK).min(upto);
            self.list
                .get(b * BLOCK..to)
                .unwrap_or_default()
                .iter()
                .rev()
        });
        all.filter(move |i| i.1 >= v && i.2 < before)
            .map(|i| (i.1, i.2))
    }
}

impl Gaps {
    pub fn new(all: &StageRules, inner: &Inner) -> Gaps {
        let mut gaps = Gaps {
            closed: HashMap::new(),
        };
        // fields in whose sets there are gaps, and how many intervals they have
        let mut wanted = vec![false; all.fields.len()];
        for r in &inner.rules {
            for (f, _, set) in inner.open(all, *r) {
                wanted[usize::from(f)] |= set.intervals().len() > 1;
            }
        }
        let mut lists: Vec<Vec<(u128, u128, u32)>> = vec![Vec::new(); all.fields.len()];
        let mut n = 0;
        for (i, r) in inner.rules.iter().enumerate() {
            for (f, _, set) in inner.open(all, *r) {
                if wanted[usize::from(f)] {
                    n += set.intervals().len();
                    let of = set.intervals().iter().map(|(lo, hi)| (*lo, *hi, i as u32));
                    lists[usize::from(f)].extend(of);
                }
            }
            if n > MAX_INTERVALS {
                return gaps;
            }
        }
        let fields: Vec<Field> = lists.into_iter().map(Field::new).collect();
        for (i, r) in inner.rules.iter().enumerate() {
            if inner.open(all, *r).all(|(.., s)| s.intervals().len() < 2) {
                continue;
            }
            // each with what has been closed before: gaps of two fields at once are no earlier rule's
            let mut mine: Vec<(u16, ValueSet)> = (inner.open(all, *r))
                .map(|(f, _, set)| (f, set.clone()))
                .collect();
            for (k, (f, s, set)) in inner.open(all, *r).enumerate() {
                let mut left: Vec<(u128, u128)> = Vec::new();
                for (lo, hi) in set.intervals() {
                    let gap = left.last().map(|l| (l.1 + 1, lo.saturating_sub(1)));
                    let closed = gap.filter(|gap| {
                        let field = &fields[usize::from(f)];
                        filled(all, inner, field, i as u32, &mine, f, *gap)
                    });
                    match left.last_mut().filter(|_| closed.is_some()) {
                        Some(last) => last.1 = *hi,
                        None => left.push((*lo, *hi)),
                    }
                }
                if left.len() < set.intervals().len() {
                    mine[k].1 = ValueSet::from_intervals(left.iter().copied());
                    gaps.closed.insert((i as u32, (f, s)), left);
                }
            }
        }
        gaps
    }

    /// The intervals of a rule's set, without those gaps that earlier rules have filled.
    pub fn closed<'a>(
        &'a self,
        rule: usize,
        asked: Asked,
        set: &'a ValueSet,
    ) -> &'a [(u128, u128)] {
        match self.closed.get(&(rule as u32, asked)) {
            Some(list) => list,
            None => set.intervals(),
        }
    }
}

/// Do earlier rules take all of a gap, each a part of it alone?
fn filled(
    all: &StageRules,
    inner: &Inner,
    field: &Field,
    rule: u32,
    mine: &[(u16, ValueSet)],
    f: u16,
    (mut from, to): (u128, u128),
) -> bool {
    // does that rule ask for nothing else that this one does not ask for?
    let takes = |q: u32| {
        let q = inner.rules.get(q as usize).copied().unwrap_or(u32::MAX);
        inner.open(all, q).all(|(g, _, theirs)| {
            let same = mine.iter().find(|m| m.0 == g);
            g == f || same.is_some_and(|(_, set)| set.is_subset(theirs))
        })
    };
    let mut look = LOOK;
    // Bound: each turn looks at some intervals at least, or is the last one.
    loop {
        let mut best = None;
        for (end, q) in field.holding(from, rule) {
            if look == 0 {
                return false;
            }
            look -= 1;
            if best.is_none_or(|b| end > b) && takes(q) {
                best = Some(end);
                if end >= to {
                    return true;
                }
            }
        }
        match best {
            Some(end) => from = end + 1,
            None => return false,
        }
    }
}
