//! How one of several servers is chosen for a new flow: in turn, by the source's hash, by Maglev hashing.

use crate::hash_ring::HashRing;
use crate::maglev::MaglevTable;
use onefold_state::Scope;

/// How a server is chosen. Entries are counted from 0; an entry is a server, or one of its turns.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// The next one; one that has no room is passed over.
    RoundRobin { next: usize },
    /// By source address.
    SourceHash { ring: HashRing },
    /// By addresses, ports and protocol.
    Maglev { table: MaglevTable },
}

/// What has been chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Picked {
    /// This entry.
    Entry(usize),
    /// The one whose turn it was is down: the next one may be asked for.
    PassedOver,
    /// All are down.
    Nobody,
}

impl Choice {
    /// One of so many `entries`, of those that are `up`; `source`: the source address, or a hash of it, `flow`:
    /// addresses, ports and protocol.
    pub fn next(
        &mut self,
        entries: usize,
        up: impl Fn(usize) -> bool,
        source: impl FnOnce() -> u32,
        flow: impl FnOnce() -> [u64; 2],
    ) -> Picked {
        let found = match self {
            Choice::RoundRobin { next } => {
                let i = *next;
                *next = (i + 1) % entries.max(1);
                return match up(i) {
                    true => Picked::Entry(i),
                    false => Picked::PassedOver,
                };
            }
            Choice::SourceHash { ring } => ring.server(source(), up),
            Choice::Maglev { table } => table.server(flow(), up),
        };
        found.map_or(Picked::Nobody, Picked::Entry)
    }

    /// Goes on where another one was, with so many `entries` of its own.
    pub fn take_turn(&mut self, old: &Choice, entries: usize) {
        if let (Choice::RoundRobin { next }, Choice::RoundRobin { next: before }) = (self, old) {
            *next = *before % entries.max(1);
        }
    }

    /// A worker takes turns of its own; who is chosen by a hash is chosen alike everywhere.
    pub fn scope(&self) -> Scope {
        match self {
            Choice::RoundRobin { .. } => Scope::PerWorker,
            Choice::SourceHash { .. } | Choice::Maglev { .. } => Scope::Shared,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            Choice::RoundRobin { next } => format!("round robin, next {next}"),
            Choice::SourceHash { .. } => "source hash".to_string(),
            Choice::Maglev { .. } => "maglev".to_string(),
        }
    }
}
