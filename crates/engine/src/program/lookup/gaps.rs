//! Gaps in sets that earlier rules have filled.
//!
//! Synthesis takes out of a rule's set what an earlier rule takes: "everything but these networks". As the first rule that fits
//! counts, such gaps may as well be closed, and a set of thirty intervals is one again: where every packet of the gap that the rule
//! asks for otherwise is one that an earlier rule takes alone.

use super::inner::Inner;
use super::rules::{Asked, StageRules};
use onefold_elements::model::ValueSet;
use std::collections::HashMap;

/// Intervals of earlier rules that are looked at: for one gap, and for all, at most.
const LOOK: usize = 128;
const LOOKS: usize = 1 << 24;
/// A set with so many gaps that nobody has filled is none of those meant here.
const OPEN: usize = 2;
/// Shorter fields (flags, protocols) have few sets, and are looked up by those.
const SHORT: u8 = 8;
/// Intervals of all rules, at most: with more of them gaps stay.
const MAX_INTERVALS: usize = 1 << 22;

/// Sets with their gaps closed.
pub(super) struct Gaps {
    /// By rule (its place among those that are left) and condition; only those that have become less.
    closed: HashMap<(u32, Asked), Vec<(u128, u128)>>,
}

/// Intervals of one field by where they begin: how much the rule asks, the end, and the rule; those that ask least come first.
type Field = HashMap<u128, Vec<(u32, u128, u32)>>;

impl Gaps {
    pub fn new(all: &StageRules, inner: &Inner) -> Gaps {
        let mut gaps = Gaps {
            closed: HashMap::new(),
        };
        // fields in whose sets there are gaps, and how many intervals they have
        let mut wanted = vec![false; all.fields.len()];
        for r in &inner.rules {
            for (f, _, set) in inner.open(all, *r) {
                let long = all.fields[usize::from(f)].bits > SHORT;
                wanted[usize::from(f)] |= long && set.intervals().len() > 1;
            }
        }
        let mut fields: Vec<Field> = vec![HashMap::new(); all.fields.len()];
        let mut n = 0;
        for (i, r) in inner.rules.iter().enumerate() {
            let asks = inner.open(all, *r).count() as u32;
            for (f, _, set) in inner.open(all, *r) {
                if !wanted[usize::from(f)] {
                    continue;
                }
                n += set.intervals().len();
                for (lo, hi) in set.intervals() {
                    let at = fields[usize::from(f)].entry(*lo).or_default();
                    at.push((asks, *hi, i as u32));
                }
            }
            if n > MAX_INTERVALS {
                return gaps;
            }
        }
        for list in fields.iter_mut().flat_map(|f| f.values_mut()) {
            list.sort_unstable_by_key(|(asks, hi, rule)| (*asks, std::cmp::Reverse(*hi), *rule));
        }
        let mut looks = LOOKS;
        for (i, r) in inner.rules.iter().enumerate() {
            if inner.open(all, *r).all(|(.., s)| s.intervals().len() < 2) {
                continue;
            }
            let mut mine: Vec<(u16, ValueSet)> = (inner.open(all, *r))
                .map(|(f, _, set)| (f, set.clone()))
                .collect();
            let mut ask = |mine: &[(u16, ValueSet)], f: u16, gap: (u128, u128)| {
                let mut look = looks.min(LOOK);
                looks -= look;
                let by = filled(
                    all,
                    inner,
                    &fields[usize::from(f)],
                    i as u32,
                    mine,
                    f,
                    gap,
                    &mut look,
                );
                looks += look;
                by
            };
            // gaps that are filled as things are: the last rule that has a part in it, field, gap
            let mut found: Vec<(u32, usize, (u128, u128))> = Vec::new();
            for (k, (f, set)) in mine.iter().enumerate() {
                if !wanted[usize::from(*f)] {
                    continue;
                }
                let mut open = 0;
                for pair in set.intervals().windows(2) {
                    let gap = (pair[0].1 + 1, pair[1].0 - 1);
                    match ask(&mine, *f, gap) {
                        Some(q) => found.push((q, k, gap)),
                        None if open == OPEN => break,
                        None => open += 1,
                    }
                }
            }
            // What was taken out last is put back first. Each asks whether the gap is filled with those closed that have been: gaps
            // of two fields at once are no earlier rule's
            found.sort_unstable_by_key(|g| std::cmp::Reverse(g.0));
            for (_, k, gap) in found {
                if ask(&mine, mine[k].0, gap).is_some() {
                    mine[k].1 = mine[k].1.union(&ValueSet::range(gap.0, gap.1));
                }
            }
            for ((f, s, set), (_, mine)) in inner.open(all, *r).zip(&mine) {
                if mine.intervals().len() < set.intervals().len() {
                    gaps.closed
                        .insert((i as u32, (f, s)), mine.intervals().to_vec());
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

/// Do earlier rules take all of a gap, each a part of it alone? The last one of them.
#[allow(clippy::too_many_arguments)]
fn filled(
    all: &StageRules,
    inner: &Inner,
    field: &Field,
    rule: u32,
    mine: &[(u16, ValueSet)],
    f: u16,
    (mut from, to): (u128, u128),
    look: &mut usize,
) -> Option<u32> {
    let mut last = 0;
    // does that rule ask for nothing else that this one does not ask for?
    let takes = |q: u32| {
        let q = inner.rules.get(q as usize).copied().unwrap_or(u32::MAX);
        inner.open(all, q).all(|(g, _, theirs)| {
            let same = mine.iter().find(|m| m.0 == g);
            g == f || same.is_some_and(|(_, set)| set.is_subset(theirs))
        })
    };
    // Bound: each turn looks at some intervals at least, or is the last one.
    loop {
        // networks lie within each other or apart: who fills the rest begins with it
        let begin = field.get(&from).map_or(&[][..], |list| list);
        let mut best = None;
        for (asks, end, q) in begin {
            // who asks about more fields than this rule does takes less
            if *asks as usize > mine.len() {
                break;
            }
            if *q >= rule {
                continue;
            }
            if *look == 0 {
                return None;
            }
            *look -= 1;
            if takes(*q) {
                best = Some(*end);
                last = last.max(*q);
                break;
            }
        }
        match best {
            Some(end) if end >= to => return Some(last),
            Some(end) => from = end + 1,
            None => return None,
        }
    }
}
