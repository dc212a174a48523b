//! Addresses that route tables send where a filter wants them: a program says which table is asked, not what is in it.

use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{RouteWhat, ValueSet};
use onefold_elements::routing::table::HeldRoutes;
use onefold_engine::Graph;
use onefold_synth::program::{Address, Dim, Filter, Program};
use std::collections::BTreeSet;

/// Addresses that are tried for one condition.
const TRIES: usize = 64;

/// The route tables that a program asks, as they are in a graph.
#[derive(Debug, Clone, Default)]
pub struct Tables(Vec<(ElemId, HeldRoutes)>);

impl Tables {
    /// Of a graph that is not written to as long as these are kept.
    pub fn of(graph: &Graph, program: &Program) -> Tables {
        let rules = program.stages.iter().flat_map(|s| &s.rules);
        let dims = rules.flat_map(|r| r.filter.0.iter().map(|(d, _)| *d));
        let asked: BTreeSet<ElemId> = dims
            .filter_map(|d| match d {
                Dim::Route { table, .. } => Some(table),
                _ => None,
            })
            .collect();
        let held = asked.into_iter();
        let held = held.filter_map(|e| Some((e, HeldRoutes::of(graph.store(), e)?)));
        Tables(held.collect())
    }

    /// No table is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an address of the packet for each question to a table that a filter has an answer for; `None` where none
    /// was found.
    pub fn settled(&self, cube: &Filter, rng: &mut Rng) -> Option<Filter> {
        let mut out = cube.clone();
        for (d, set) in &cube.0 {
            let Dim::Route {
                table,
                of: Address::Bits { bit, bits },
                what: RouteWhat::Output,
            } = *d
            else {
                continue;
            };
            let Some((_, held)) = self.0.iter().find(|t| t.0 == table) else {
                continue;
            };
            let place = Dim::Bits { bit, bits };
            let may = |v: u128| out.get(place).is_none_or(|s| s.contains(v));
            // one that the filter gives, or one that a route gives
            let found = (0..TRIES).find_map(|i| {
                let a = match out.get(place).filter(|_| i % 2 == 0) {
                    Some(s) => rng.value_of(s),
                    None => held.example(set, rng.bits())?,
                };
                (may(a) && set.contains(held.ask(RouteWhat::Output, a))).then_some(a)
            });
            out.narrow(place, &ValueSet::one(found?), bits);
        }
        Some(out)
    }
}
