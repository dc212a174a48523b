//! Mappers: choose among several patterns for new flows, round robin or by source address.

use crate::flow_id::FlowId;
use crate::hash_ring::HashRing;
use crate::pattern::PatternRef;
use crate::spec::{Verdict, apply_pattern};
use onefold_state::Scope;
use onefold_state::{ElemId, State, StateId, StateStore, Takes, state_any};

/// How a mapper chooses.
#[derive(Debug, Clone)]
enum Choice {
    /// The next one; one that has no room is passed over.
    RoundRobin { next: usize },
    /// By source address.
    SourceHash { ring: HashRing },
}

/// A mapper's state.
#[derive(Debug, Clone)]
pub struct Mapper {
    choice: Choice,
    /// Patterns with forward and reply output, in order of configuration.
    entries: Vec<(PatternRef, i64, i64)>,
}

impl Mapper {
    /// The next pattern for each new flow; one that has no room is passed over.
    pub fn round_robin(entries: Vec<(PatternRef, i64, i64)>) -> Mapper {
        Mapper {
            choice: Choice::RoundRobin { next: 0 },
            entries,
        }
    }
    /// By source address, on a consistent hash ring on which each server (its ID, in the order of `entries`) has
    /// `nodes` places, drawn from `seed`. It takes `nodes` times the greatest ID draws.
    pub fn source_hash(
        entries: Vec<(PatternRef, i64, i64)>,
        ids: &[u16],
        nodes: u32,
        seed: u32,
    ) -> Mapper {
        Mapper {
            choice: Choice::SourceHash {
                ring: HashRing::new(ids, nodes, seed),
            },
            entries,
        }
    }

    /// The patterns with forward and reply output, in order of configuration.
    pub fn patterns(&self) -> &[(PatternRef, i64, i64)] {
        &self.entries
    }

    /// Number of the first pattern whose outputs a rewriter with `noutputs` outputs does not have.
    pub fn out_of_range(&self, noutputs: usize) -> Option<usize> {
        let ok = |o: i64| usize::try_from(o).is_ok_and(|o| o < noutputs);
        self.entries.iter().position(|e| !ok(e.1) || !ok(e.2))
    }

    /// Chooses a pattern for a new flow.
    pub(crate) fn decide(
        mapper: ElemId,
        flow: FlowId,
        table: StateId,
        map: u16,
        elem: ElemId,
        store: &mut StateStore,
        draw: &mut impl FnMut(ElemId) -> u32,
    ) -> Verdict {
        let Some(id) = store.published_by(mapper) else {
            return Verdict::Drop;
        };
        let tries = match store.get::<Mapper>(id) {
            Some(Mapper {
                choice: Choice::RoundRobin { .. },
                entries,
            }) => entries.len(),
            Some(_) => 1,
            None => return Verdict::Drop,
        };
        // Bound: each pattern once.
        for _ in 0..tries {
            let Some((p, f, r)) = store.get_mut::<Mapper>(id).and_then(|m| m.next(flow)) else {
                break;
            };
            if let Some((to, free, usage)) = apply_pattern(p, flow, table, map, elem, store, draw) {
                // negative outputs are refused by whoever makes the binding
                let port = |o: i64| usize::try_from(o).unwrap_or(usize::MAX);
                return Verdict::Map(to, (port(f), port(r)), free, usage);
            }
        }
        Verdict::NoRoom
    }

    fn next(&mut self, flow: FlowId) -> Option<(PatternRef, i64, i64)> {
        let i = match &mut self.choice {
            Choice::RoundRobin { next } => {
                let i = *next;
                *next = (i + 1) % self.entries.len().max(1);
                i
            }
            Choice::SourceHash { ring } => ring.server(flow.saddr),
        };
        self.entries.get(i).copied()
    }
}

impl State for Mapper {
    /// Whose turn it is; the patterns are the new graph's.
    fn take_state(&mut self, old: &mut dyn State, _: &dyn Fn(ElemId) -> Option<ElemId>) -> Takes {
        let Some(old) = old.as_any_mut().downcast_mut::<Mapper>() else {
            return Takes::Nothing;
        };
        if let (Choice::RoundRobin { next }, Choice::RoundRobin { next: before }) =
            (&mut self.choice, &old.choice)
        {
            *next = *before;
        }
        Takes::Done
    }
    /// A worker takes turns of its own; who is chosen by a hash is chosen alike everywhere.
    fn scope(&self) -> Scope {
        match &self.choice {
            Choice::RoundRobin { .. } => Scope::PerWorker,
            Choice::SourceHash { .. } => Scope::Shared,
        }
    }
    fn summary(&self) -> String {
        match &self.choice {
            Choice::RoundRobin { next } => format!("round robin, next {next}\n"),
            Choice::SourceHash { .. } => "source hash\n".to_string(),
        }
    }
    state_any!();
}
