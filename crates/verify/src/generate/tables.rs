//! Addresses that tables send where a filter wants them: a program says which table is asked, not what is in it.

use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{RouteWhat, ValueSet};
use onefold_elements::routing::neighbors::HeldNeighbors;
use onefold_elements::routing::table::HeldRoutes;
use onefold_engine::Graph;
use onefold_synth::program::{Address, Dim, Filter, Program};
use std::collections::BTreeSet;

/// Addresses that are tried for one condition.
const TRIES: usize = 64;

/// The tables of routes and of neighbours that a program asks, as they are in a graph.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    routes: Vec<(ElemId, HeldRoutes)>,
    /// Those that are known.
    neighbors: Vec<(ElemId, Vec<u128>)>,
}

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
        let (store, all) = (graph.store(), || asked.iter().copied());
        let routes = all().filter_map(|e| Some((e, HeldRoutes::of(store, e)?)));
        let neighbors = all()
            .filter_map(|e| Some((e, HeldNeighbors::of(store, e)?.known_addresses(graph.now()))));
        Tables {
            routes: routes.collect(),
            neighbors: neighbors.collect(),
        }
    }

    /// No table is asked.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.neighbors.is_empty()
    }

    /// Takes an address of the packet for each question to a table that a filter has an answer for; `None` where none
    /// was found. Neighbours that are not known yet may be by the time that the packet comes.
    pub fn settled(&self, cube: &Filter, rng: &mut Rng) -> Option<Filter> {
        let mut out = cube.clone();
        for (d, set) in &cube.0 {
            let Dim::Route {
                table,
                of: Address::Bits { bit, bits },
                what,
            } = *d
            else {
                continue;
            };
            if what == RouteWhat::Known && !set.contains(0) {
                self.known(table, (bit, bits), &mut out, rng);
            }
            let held = self.routes.iter().find(|t| t.0 == table);
            let Some((_, held)) = held.filter(|_| what == RouteWhat::Output) else {
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

    /// Narrows a filter to a neighbour that is known, if one fits it.
    fn known(&self, table: ElemId, (bit, bits): (i32, u8), out: &mut Filter, rng: &mut Rng) {
        let Some((_, known)) = self.neighbors.iter().find(|t| t.0 == table) else {
            return;
        };
        let place = Dim::Bits { bit, bits };
        let may = |v: &u128| out.get(place).is_none_or(|s| s.contains(*v));
        let found = (0..TRIES).find_map(|_| rng.pick(known).copied().filter(may));
        if let Some(a) = found {
            out.narrow(place, &ValueSet::one(a), bits);
        }
    }
}
