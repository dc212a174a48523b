//! Leaves of a traversal become the rules and actions of a stage.

use super::known::Known;
use super::prune;
use super::{Key, Leaf, Synthesizer};
use crate::program::{Action, ActionId, End, Rule, Stage, Step, Why};
use std::collections::HashMap;

impl Synthesizer<'_> {
    /// Leaves to rules and actions.
    pub(super) fn assemble(
        &mut self,
        key: &Key,
        why: Why,
        known: Known,
        (mut leaves, made): (Vec<Leaf>, Vec<Action>),
    ) -> Stage {
        leaves.sort_by(|a, b| a.part.rank.cmp(&b.part.rank));
        prune::taken_before(&mut leaves, &known, &self.slots);
        let among = match known.cubes() {
            [_] => Vec::new(),
            all => all.to_vec(),
        };
        let known = known.hull(&self.slots);
        // equal actions are one; numbered in the order of the rules
        let mut by: HashMap<(&[Step], &End), ActionId> = HashMap::new();
        let mut ids: Vec<Option<ActionId>> = vec![None; made.len()];
        let mut actions: Vec<Action> = Vec::new();
        let mut rules: Vec<Rule> = Vec::with_capacity(leaves.len());
        for l in leaves {
            let Some(a) = made.get(l.action as usize) else {
                continue;
            };
            let id = *ids[l.action as usize].get_or_insert_with(|| {
                *by.entry((&a.steps, &a.end)).or_insert_with(|| {
                    actions.push(a.clone());
                    ActionId(actions.len() as u32 - 1)
                })
            });
            // what is known of all packets need not be asked
            let mut filter = l.part.filter;
            filter.0.retain(|(d, s)| known.get(*d) != Some(s));
            rules.push(Rule {
                filter,
                action: id,
                origin: l.part.origin,
            });
        }
        Stage {
            at: (key.elem, key.port),
            why,
            fresh: key.fresh,
            known,
            among,
            rules,
            actions,
        }
    }
}
