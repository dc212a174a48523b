//! Mappers: choose among several patterns for new flows, round robin, by source address, or by Maglev hashing.
//!
//! Servers may be down: a pattern that leads to one gets no new flows. Flows that there are stay with theirs.

use crate::choice::{Choice, Picked};
use crate::flow_id::FlowId;
use crate::hash_ring::HashRing;
use crate::maglev::MaglevTable;
use crate::pattern::{PatternRef, PatternSet};
use crate::spec::{Verdict, apply_pattern};
use onefold_state::Scope;
use onefold_state::{ElemId, State, StateId, StateStore, Takes, state_any};
use std::collections::HashSet;

/// Where a pattern leads: its destination address and port; a port of 0 is one that stays as it is.
pub type ServerAddr = (u32, u16);

/// A mapper's state.
#[derive(Debug, Clone)]
pub struct Mapper {
    choice: Choice,
    /// Patterns with forward and reply output, in order of configuration.
    entries: Vec<(PatternRef, i64, i64)>,
    /// Those of servers that are down, by entry.
    down: Vec<bool>,
    /// By entry: where it leads. Who is down is known by that when another graph takes over.
    leads: Vec<Option<ServerAddr>>,
}

/// What a mapper has chosen.
enum Chosen {
    Entry(PatternRef, i64, i64),
    /// This one is down: the next one may be asked for.
    PassedOver,
    /// All are down.
    Nobody,
}

impl Mapper {
    fn new(choice: Choice, entries: Vec<(PatternRef, i64, i64)>) -> Mapper {
        Mapper {
            choice,
            down: vec![false; entries.len()],
            leads: Vec::new(),
            entries,
        }
    }

    /// With its patterns, which are in this store: where they lead is known from now on, so that those of servers that
    /// are down are known again where another graph takes over.
    pub fn with_patterns_of(mut self, store: &StateStore) -> Mapper {
        let to = |p: &PatternRef| PatternSet::get(store, *p).map(|p| (p.daddr, p.dport));
        self.leads = self.entries.iter().map(|(p, ..)| to(p)).collect();
        self
    }

    /// The next pattern for each new flow; one that has no room is passed over.
    pub fn round_robin(entries: Vec<(PatternRef, i64, i64)>) -> Mapper {
        Mapper::new(Choice::RoundRobin { next: 0 }, entries)
    }
    /// By source address, on a consistent hash ring on which each server (its ID, in the order of `entries`) has
    /// `nodes` places, drawn from `seed`. It takes `nodes` times the greatest ID draws.
    pub fn source_hash(
        entries: Vec<(PatternRef, i64, i64)>,
        ids: &[u16],
        nodes: u32,
        seed: u32,
    ) -> Mapper {
        let ring = HashRing::new(ids, nodes, seed);
        Mapper::new(Choice::SourceHash { ring }, entries)
    }
    /// By Maglev hashing of addresses, ports and protocol: `servers` are names and weights (from 1) in the order of
    /// `entries`, names different from each other. `size` is a prime ([`crate::is_table_size`]).
    pub fn maglev(
        entries: Vec<(PatternRef, i64, i64)>,
        servers: &[(&str, u32)],
        size: u32,
        seed: u32,
    ) -> Mapper {
        let table = MaglevTable::new(servers, size, seed);
        Mapper::new(Choice::Maglev { table }, entries)
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

    /// Where its patterns lead, in order of configuration, and whether the server there is down; of a pattern that is
    /// not there any more nothing.
    pub fn servers(&self) -> Vec<(ServerAddr, bool)> {
        let each = self.leads.iter().zip(&self.down);
        each.filter_map(|(to, down)| Some(((*to)?, *down)))
            .collect()
    }

    /// These servers are down from now on, all others up: they get no new flows. Not for the packets' way.
    ///
    /// # Errors
    /// The first one that no pattern of the mapper leads to; nothing has changed then.
    pub fn set_down(
        mapper: StateId,
        down: &[ServerAddr],
        store: &mut StateStore,
    ) -> Result<(), ServerAddr> {
        let Some(m) = store.get_mut::<Mapper>(mapper) else {
            return down.first().map_or(Ok(()), |unknown| Err(*unknown));
        };
        if let Some(unknown) = down.iter().find(|d| !m.leads.contains(&Some(**d))) {
            return Err(*unknown);
        }
        let is_down = |a: &Option<ServerAddr>| a.is_some_and(|a| down.contains(&a));
        m.down = m.leads.iter().map(is_down).collect();
        Ok(())
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
                ..
            }) => entries.len(),
            Some(_) => 1,
            None => return Verdict::Drop,
        };
        let mut full = false;
        // Bound: each pattern once.
        for _ in 0..tries {
            let chosen = store.get_mut::<Mapper>(id).map(|m| m.next(flow, map));
            let (p, f, r) = match chosen {
                Some(Chosen::Entry(p, f, r)) => (p, f, r),
                Some(Chosen::PassedOver) => continue,
                Some(Chosen::Nobody) | None => break,
            };
            if let Some((to, free, usage)) = apply_pattern(p, flow, table, map, elem, store, draw) {
                // negative outputs are refused by whoever makes the binding
                let port = |o: i64| usize::try_from(o).unwrap_or(usize::MAX);
                return Verdict::Map(to, (port(f), port(r)), free, usage);
            }
            full = true;
        }
        match full {
            true => Verdict::NoRoom,
            false => Verdict::NoServer,
        }
    }

    fn next(&mut self, flow: FlowId, map: u16) -> Chosen {
        let up = |i: usize| !self.down.get(i).is_some_and(|d| *d);
        let (source, tuple) = (|| flow.saddr, || five_tuple(flow, map));
        let i = match self.choice.next(self.entries.len(), up, source, tuple) {
            Picked::Entry(i) => Some(i),
            Picked::PassedOver => return Chosen::PassedOver,
            Picked::Nobody => None,
        };
        match i.and_then(|i| self.entries.get(i)) {
            Some((p, f, r)) => Chosen::Entry(*p, *f, *r),
            None => Chosen::Nobody,
        }
    }
}

/// Addresses, ports, and the protocol as far as rewriters tell protocols apart: an IPRewriter's odd maps are UDP's.
fn five_tuple(flow: FlowId, map: u16) -> [u64; 2] {
    let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let ports = u32::from(flow.sport) << 16 | u32::from(flow.dport);
    [two(flow.saddr, flow.daddr), two(u32::from(map & 1), ports)]
}

impl State for Mapper {
    /// Whose turn it is, and which servers are down; the patterns are the new graph's.
    fn take_state(&mut self, old: &mut dyn State, _: &dyn Fn(ElemId) -> Option<ElemId>) -> Takes {
        let Some(old) = old.as_any_mut().downcast_mut::<Mapper>() else {
            return Takes::Nothing;
        };
        self.choice.take_turn(&old.choice, self.entries.len());
        self.take_settings(old);
        Takes::Done
    }
    /// Which servers are down.
    fn take_settings(&mut self, old: &dyn State) {
        let Some(old) = old.as_any().downcast_ref::<Mapper>() else {
            return;
        };
        let before = old.leads.iter().zip(&old.down).filter(|(_, down)| **down);
        let down: HashSet<ServerAddr> = before.filter_map(|(to, _)| *to).collect();
        let is_down = |to: &Option<ServerAddr>| to.is_some_and(|to| down.contains(&to));
        self.down = self.leads.iter().map(is_down).collect();
    }
    fn scope(&self) -> Scope {
        self.choice.scope()
    }
    fn summary(&self) -> String {
        let mut text = self.choice.text();
        let down = self.down.iter().enumerate().filter(|(_, d)| **d);
        for (n, (i, _)) in down.enumerate() {
            text.push_str(if n == 0 { ", down: " } else { " " });
            text.push_str(&i.to_string());
        }
        text.push('\n');
        text
    }
    state_any!();
}
