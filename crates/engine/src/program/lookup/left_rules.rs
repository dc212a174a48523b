//! What is left of a stage's rules behind a guard.

use crate::program::lookup::rules::{Asked, StageRules};
use onefold_element::model::ValueSet;

/// What of a set is left within a field's guard.
enum Left {
    Nothing,
    All,
    Part(ValueSet),
}

/// Rules that are left behind a guard, and what each still asks.
pub(crate) struct Inner {
    /// By field: what is left of each set.
    left: Vec<Vec<Left>>,
    /// Rules that are left, up to one that takes everything.
    pub rules: Vec<u32>,
}

impl Inner {
    /// `guard`: by field, what it lets pass.
    pub fn new(all: &StageRules, guard: &[Option<ValueSet>]) -> Inner {
        let left: Vec<Vec<Left>> = (all.fields.iter().zip(guard))
            .map(|(f, g)| {
                let of = |s: &ValueSet| match g {
                    None => Left::Part(s.clone()),
                    Some(g) if g.is_subset(s) => Left::All,
                    Some(g) => match s.intersect(g) {
                        s if s.is_empty() => Left::Nothing,
                        s => Left::Part(s),
                    },
                };
                f.sets.iter().map(of).collect()
            })
            .collect();
        let mut inner = Inner {
            left,
            rules: Vec::new(),
        };
        for i in 0..all.len() {
            let asked = all.rule(i);
            let nothing = |a: &Asked| matches!(inner.of(*a), Left::Nothing);
            if !all.possible(i) || asked.iter().any(nothing) {
                continue;
            }
            inner.rules.push(i as u32);
            if inner.open(all, i as u32).next().is_none() {
                break;
            }
        }
        inner
    }

    fn of(&self, (f, s): Asked) -> &Left {
        &self.left[usize::from(f)][s as usize]
    }

    /// What a rule still asks.
    pub fn open<'a>(
        &'a self,
        all: &'a StageRules,
        rule: u32,
    ) -> impl Iterator<Item = (u16, u32, &'a ValueSet)> {
        (all.rule(rule as usize).iter()).filter_map(|a| match self.of(*a) {
            Left::Part(s) => Some((a.0, a.1, s)),
            _ => None,
        })
    }

    /// By field: how many rules still ask about it.
    pub fn rules_by_field(&self, all: &StageRules) -> Vec<u32> {
        let mut asked = vec![0; all.fields.len()];
        for r in &self.rules {
            for (f, ..) in self.open(all, *r) {
                asked[usize::from(f)] += 1;
            }
        }
        asked
    }

    /// Fields that are still asked about, in order.
    pub fn fields(&self, all: &StageRules) -> Vec<u16> {
        let asked = self.rules_by_field(all);
        (0..asked.len() as u16)
            .filter(|f| asked[usize::from(*f)] > 0)
            .collect()
    }
}
