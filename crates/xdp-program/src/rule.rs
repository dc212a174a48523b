//! Rules as the decision structure sees them: conditions that are still open, and what becomes of packets.

use crate::class::can_see;
use onefold_element::model::ValueSet;
use onefold_synth::program::{Dim, Filter};

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// It goes to the chain.
    Pass,
    /// It goes to this worker's chain.
    To(u32),
    /// It is dropped, and counted with this class.
    Drop(u32),
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub dim: Dim,
    pub set: ValueSet,
}

/// A rule: all of its conditions, in the order of their dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub conditions: Vec<Condition>,
    pub outcome: Outcome,
}

impl Rule {
    /// What cannot be looked at is left out: the rule takes more packets then, and its outcome must be that they pass.
    pub fn new(filter: &Filter, outcome: Outcome) -> Rule {
        let seen = filter.0.iter().filter(|(d, _)| can_see(*d));
        let conditions = seen.map(|(d, set)| Condition {
            dim: *d,
            set: set.clone(),
        });
        Rule {
            conditions: conditions.collect(),
            outcome,
        }
    }

    pub fn on(&self, d: Dim) -> Option<&ValueSet> {
        let found = self.conditions.iter().find(|c| c.dim == d);
        found.map(|c| &c.set)
    }

    /// Does it take all packets that the other takes?
    fn covers(&self, other: &Rule) -> bool {
        let mine = self.conditions.iter();
        mine.clone().count() <= other.conditions.len()
            && mine.clone().all(|c| {
                let theirs = other.on(c.dim);
                theirs.is_some_and(|s| s.is_subset(&c.set))
            })
    }

    /// Both as one rule, where they differ in one dimension only.
    fn united(&self, other: &Rule) -> Option<Rule> {
        if self.outcome != other.outcome || self.conditions.len() != other.conditions.len() {
            return None;
        }
        let mut differs = None;
        for (i, (a, b)) in self.conditions.iter().zip(&other.conditions).enumerate() {
            if a.dim != b.dim {
                return None;
            }
            if a.set != b.set && differs.replace(i).is_some() {
                return None;
            }
        }
        let mut united = self.clone();
        if let Some(i) = differs {
            let c = united.conditions.get_mut(i)?;
            let set = c.set.union(&other.conditions.get(i)?.set);
            match set.is_full(c.dim.width()) {
                true => drop(united.conditions.remove(i)),
                false => c.set = set,
            }
        }
        Some(united)
    }
}

/// What is known of packets at some place: a conjunction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(pub Filter);

impl Known {
    /// What a dimension can be; `None`: anything.
    pub fn on(&self, d: Dim) -> Option<&ValueSet> {
        self.0.get(d)
    }

    /// The dimension is in this set, too.
    pub fn narrow(&mut self, d: Dim, set: &ValueSet) {
        self.0.narrow(d, set, d.width());
    }

    /// A frame has so many bytes at least.
    pub fn least(&self) -> u32 {
        let first = self.on(Dim::Len).and_then(|s| s.intervals().first());
        first.map_or(0, |i| u32::try_from(i.0).unwrap_or(u32::MAX))
    }

    /// A frame has so many bytes at most.
    pub fn most(&self) -> u32 {
        let last = self.on(Dim::Len).and_then(|s| s.intervals().last());
        last.map_or(u32::MAX, |i| u32::try_from(i.1).unwrap_or(u32::MAX))
    }
}

/// The rules that are left where a dimension has become known to be in a set.
pub(crate) fn narrowed(rules: &[Rule], d: Dim, known: &ValueSet) -> Vec<Rule> {
    let mut left = Vec::with_capacity(rules.len());
    for r in rules {
        let Some(i) = r.conditions.iter().position(|c| c.dim == d) else {
            push(&mut left, r.clone(), d, known);
            continue;
        };
        let set = &r.conditions[i].set;
        if set.is_disjoint(known) {
            continue;
        }
        let mut r = r.clone();
        if known.is_subset(set) {
            r.conditions.remove(i);
        }
        let all = r.conditions.is_empty();
        push(&mut left, r, d, known);
        if all {
            break;
        }
    }
    // what fits no rule passes
    while left.last().is_some_and(|r| r.outcome == Outcome::Pass) {
        left.pop();
    }
    left
}

/// Adds a rule, as one with those before it where that is possible.
fn push(rules: &mut Vec<Rule>, mut r: Rule, d: Dim, known: &ValueSet) {
    if rules.last().is_some_and(|last| last.covers(&r)) {
        return;
    }
    while let Some(last) = rules.last() {
        let Some(mut united) = last.united(&r) else {
            break;
        };
        united
            .conditions
            .retain(|c| c.dim != d || !known.is_subset(&c.set));
        rules.pop();
        r = united;
    }
    rules.push(r);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Dim = Dim::Bits { bit: 176, bits: 8 };
    const PORT: Dim = Dim::Bits { bit: 288, bits: 16 };

    fn rule(conditions: &[(Dim, u128, u128)], outcome: Outcome) -> Rule {
        let mut f = Filter::default();
        for (d, l, h) in conditions {
            f.narrow(*d, &ValueSet::range(*l, *h), d.width());
        }
        Rule::new(&f, outcome)
    }

    #[test]
    fn neighbours_with_one_outcome_become_one_rule() {
        let rules = [
            rule(&[(TTL, 0, 1), (PORT, 80, 80)], Outcome::Drop(0)),
            rule(&[(TTL, 2, 255), (PORT, 80, 80)], Outcome::Drop(0)),
            rule(&[(PORT, 81, 90)], Outcome::Drop(0)),
            rule(&[(PORT, 5, 5)], Outcome::Drop(1)),
            rule(&[(PORT, 5, 5), (TTL, 3, 3)], Outcome::Drop(0)),
            rule(&[], Outcome::Pass),
        ];
        let left = narrowed(&rules, Dim::Len, &ValueSet::range(60, 1514));
        let shown: Vec<_> = left.iter().map(|r| (r.outcome, r.on(PORT))).collect();
        let (first, second) = (ValueSet::range(80, 90), ValueSet::one(5));
        assert_eq!(
            shown,
            [
                (Outcome::Drop(0), Some(&first)),
                (Outcome::Drop(1), Some(&second))
            ]
        );
    }

    #[test]
    fn what_is_known_is_not_asked_again() {
        let rules = [
            rule(&[(PORT, 0, 79)], Outcome::Drop(0)),
            rule(&[(PORT, 80, 89), (TTL, 1, 1)], Outcome::Drop(1)),
            rule(&[(PORT, 0, 100)], Outcome::Drop(2)),
            rule(&[], Outcome::Drop(3)),
        ];
        let left = narrowed(&rules, PORT, &ValueSet::range(82, 85));
        assert_eq!(left.len(), 2);
        assert_eq!(
            (left[0].outcome, left[0].conditions.len()),
            (Outcome::Drop(1), 1)
        );
        assert_eq!(
            (left[1].outcome, left[1].conditions.len()),
            (Outcome::Drop(2), 0)
        );
    }
}
