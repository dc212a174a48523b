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
const LOOKS: usize = 1 << 23;
/// A set with so many gaps that nobody has filled is none of those meant here.
const OPEN: usize = 3;
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
                wanted[usize::from(f)] |= set.intervals().len() > 1;
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
            // each with what has been closed before: gaps of two fields at once are no earlier rule's
            let mut mine: Vec<(u16, ValueSet)> = (inner.open(all, *r))
                .map(|(f, _, set)| (f, set.clone()))
                .collect();
            for (k, (f, s, set)) in inner.open(all, *r).enumerate() {
                let mut left: Vec<(u128, u128)> = Vec::new();
                let mut open = 0;
                for (lo, hi) in set.intervals() {
                    let gap = left.last().map(|l| (l.1 + 1, lo.saturating_sub(1)));
                    let closed = gap.filter(|gap| {
                        let field = &fields[usize::from(f)];
                        let mut look = if open < OPEN { looks.min(LOOK) } else { 0 };
                        looks -= look;
                        let is = filled(all, inner, field, i as u32, &mine, f, *gap, &mut look);
                        looks += look;
                        is
                    });
                    open += usize::from(gap.is_some() && closed.is_none());
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
) -> bool {
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
                return false;
            }
            *look -= 1;
            if takes(*q) {
                best = Some(*end);
                break;
            }
        }
        match best {
            Some(end) if end >= to => return true,
            Some(end) => from = end + 1,
            None => return false,
        }
    }
}
