//! Gaps in sets that earlier rules have filled.
//!
//! Synthesis takes out of a rule's set what an earlier rule takes: "everything but these networks". As the first rule that fits
//! counts, such gaps may as well be closed, and a set of thirty intervals is one again: where every packet of the gap that the rule
//! asks for otherwise is one that an earlier rule takes.
//!
//! Rules are gone through in order. Those before one have their gaps closed already: they take together what they took before, but
//! each of them alone takes more, so that most gaps are filled by a single rule. A gap is closed where earlier rules take all of it
//! *whatever else the rule asks, with all of its gaps closed*: so gaps of several fields do not wait for each other.

use crate::program::lookup::left_rules::Inner;
use crate::program::lookup::rules::{Asked, StageRules};
use onefold_element::model::ValueSet;
use std::collections::HashMap;

/// Intervals of earlier rules that are looked at: for one gap, and for all, at most.
const LOOK: usize = 128;
const LOOKS: usize = 1 << 24;
/// Of intervals that begin at one value as many are kept, those of rules that ask least.
const KEPT: usize = 64;
/// A set with so many gaps that nobody has filled is none of those meant here.
const OPEN: usize = 2;
/// Shorter fields (flags, protocols) have few sets, and are looked up by those.
const SHORT: u8 = 8;
/// Intervals of all rules, at most: with more of them gaps stay.
const MAX_INTERVALS: usize = 1 << 22;

/// Sets with their gaps closed.
pub(crate) struct Gaps {
    /// By rule (its place among those that are left) and condition; only those that have become less.
    closed: HashMap<(u32, Asked), ValueSet>,
}

/// An interval of an earlier rule: how much the rule asks, the end (negated: longer ones come first), and the rule.
type Piece = (u32, std::cmp::Reverse<u128>, u32);
/// Intervals of one field by where they begin; those of rules that ask least come first.
type Field = HashMap<u128, Vec<Piece>>;
/// What one rule asks: field, which of its sets, and the set.
type Asks<'a> = (u16, u32, &'a ValueSet);

impl Gaps {
    pub fn new(all: &StageRules, inner: &Inner) -> Gaps {
        let mut gaps = Gaps {
            closed: HashMap::new(),
        };
        // fields in whose sets there are gaps, and how many intervals they have
        let mut wanted = vec![false; all.fields.len()];
        let mut n = 0;
        for r in &inner.rules {
            for (f, _, set) in inner.open(all, *r) {
                let long = all.fields[usize::from(f)].bits > SHORT;
                wanted[usize::from(f)] |= long && set.intervals().len() > 1;
                n += set.intervals().len();
            }
        }
        if n > MAX_INTERVALS || !wanted.contains(&true) {
            return gaps;
        }
        let mut fields: Vec<Field> = vec![HashMap::new(); all.fields.len()];
        let mut looks = LOOKS;
        let mut mine: Vec<Asks> = Vec::new();
        for (i, r) in inner.rules.iter().enumerate() {
            let i = i as u32;
            mine.clear();
            mine.extend(inner.open(all, *r));
            if mine.iter().any(|m| is_wanted(&wanted, m)) {
                gaps.close(all, inner, &fields, &wanted, i, &mine, &mut looks);
            }
            // for those that come later
            let asks = mine.len() as u32;
            for m in &mine {
                if !wanted[usize::from(m.0)] {
                    continue;
                }
                for (lo, hi) in gaps.closed(i as usize, (m.0, m.1), m.2) {
                    // no gap begins at 0
                    if *lo == 0 {
                        continue;
                    }
                    let list = fields[usize::from(m.0)].entry(*lo).or_default();
                    let piece = (asks, std::cmp::Reverse(*hi), i);
                    let at = list.partition_point(|p| *p <= piece);
                    if at < KEPT {
                        list.truncate(KEPT - 1);
                        list.insert(at, piece);
                    }
                }
            }
        }
        gaps
    }

    /// Closes what can be closed of one rule. Every point that is added lies in a gap of some field and within the hulls of all
    /// others: that is what is asked of earlier rules.
    #[allow(clippy::too_many_arguments)]
    fn close(
        &mut self,
        all: &StageRules,
        inner: &Inner,
        fields: &[Field],
        wanted: &[bool],
        rule: u32,
        mine: &[Asks],
        looks: &mut usize,
    ) {
        let hull = |m: &Asks| match is_wanted(wanted, m) {
            true => (m.2.intervals().first().zip(m.2.intervals().last()))
                .map_or_else(ValueSet::empty, |((lo, _), (_, hi))| {
                    ValueSet::range(*lo, *hi)
                }),
            false => m.2.clone(),
        };
        let hulls: Vec<(u16, ValueSet)> = mine.iter().map(|m| (m.0, hull(m))).collect();
        for m in mine.iter().filter(|m| is_wanted(wanted, m)) {
            let Some(field) = fields.get(usize::from(m.0)) else {
                continue;
            };
            let list = m.2.intervals();
            let mut closed: Vec<(u128, u128)> = Vec::with_capacity(list.len());
            let mut open = 0;
            for (lo, hi) in list {
                let filled = match closed.last() {
                    Some((_, end)) if open <= OPEN => {
                        let gap = (end + 1, lo - 1);
                        let mut look = (*looks).min(LOOK);
                        *looks -= look;
                        let is = self.filled(all, inner, field, &hulls, m.0, gap, &mut look);
                        *looks += look;
                        open += usize::from(!is);
                        is
                    }
                    _ => false,
                };
                match closed.last_mut().filter(|_| filled) {
                    Some(last) => last.1 = *hi,
                    None => closed.push((*lo, *hi)),
                }
            }
            if closed.len() < list.len() {
                self.closed
                    .insert((rule, (m.0, m.1)), ValueSet::from_intervals(closed));
            }
        }
    }

    /// Do earlier rules take all of a gap, each a part of it alone?
    #[allow(clippy::too_many_arguments)]
    fn filled(
        &self,
        all: &StageRules,
        inner: &Inner,
        field: &Field,
        hulls: &[(u16, ValueSet)],
        f: u16,
        (mut from, to): (u128, u128),
        look: &mut usize,
    ) -> bool {
        // does that rule ask for nothing else that this one does not ask for?
        let takes = |q: u32| {
            let number = inner.rules.get(q as usize).copied().unwrap_or(u32::MAX);
            inner.open(all, number).all(|(g, s, theirs)| {
                let theirs = self.closed.get(&(q, (g, s))).unwrap_or(theirs);
                let same = hulls.iter().find(|m| m.0 == g);
                g == f || same.is_some_and(|(_, set)| set.is_subset(theirs))
            })
        };
        // Bound: each turn looks at some intervals at least, or is the last one.
        loop {
            // networks lie within each other or apart: who fills the rest begins with it
            let mut best = None;
            for (asks, end, q) in field.get(&from).map_or(&[][..], |list| list) {
                // who asks about more fields than this rule does takes less
                if *asks as usize > hulls.len() {
                    break;
                }
                if *look == 0 {
                    return false;
                }
                *look -= 1;
                if takes(*q) {
                    best = Some(end.0);
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

    /// The intervals of a rule's set, without those gaps that earlier rules have filled.
    pub fn closed<'a>(
        &'a self,
        rule: usize,
        asked: Asked,
        set: &'a ValueSet,
    ) -> &'a [(u128, u128)] {
        match self.closed.get(&(rule as u32, asked)) {
            Some(list) => list.intervals(),
            None => set.intervals(),
        }
    }
}

fn is_wanted(wanted: &[bool], (f, _, set): &Asks) -> bool {
    wanted.get(usize::from(*f)) == Some(&true) && set.intervals().len() > 1
}
