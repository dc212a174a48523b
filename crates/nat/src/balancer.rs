//! Which server a connection gets, of IPv4 and IPv6 alike: in turn, by the source's hash, or by Maglev hashing, as a
//! [`crate::Mapper`] chooses among patterns. It knows servers by address, and nothing of bindings.
//!
//! Servers may be down: they get no new connections. Those that there are stay with theirs.

use crate::choice::{Choice, Picked};
use crate::hash_ring::HashRing;
use crate::maglev::{MaglevTable, mix};
use onefold_state::{ElemId, Scope, State, Takes, state_any};
use std::net::{IpAddr, SocketAddr};

/// A server's address and port; a port of 0 is one that stays as it is.
pub type ServerEnd = (IpAddr, u16);

/// Identities of a server on the hash ring are so far apart: the first ones of all servers come before the second ones.
const ROW: u32 = 1024;

/// A server that gets new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalancedServer {
    /// Where it is.
    pub end: ServerEnd,
    /// Its share relative to the others', from 1; by a hash of the source at most 63.
    pub weight: u32,
    /// Its identity on the hash ring, below 1024 and no other one's: clients stay with a server that keeps it.
    pub id: u16,
}

/// How connections are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// One server after the other, as often as its weight.
    RoundRobin,
    /// By a consistent hash of the source address, with so many places for each identity, drawn from a seed.
    SourceHash {
        /// Places on the ring of each identity; a server has as many identities as its weight.
        nodes: u32,
        /// Where the places are drawn from.
        seed: u32,
    },
    /// By Maglev hashing of addresses, ports and protocol.
    Maglev {
        /// Places of the table: a prime ([`crate::is_table_size`]), not below the number of servers.
        size: u32,
        /// Which permutations servers have.
        seed: u32,
    },
}

/// What a server is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalancedFlow {
    /// Source address; an IPv4 address is the low 32 bits.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// IP protocol.
    pub protocol: u8,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Balancer {
    choice: Choice,
    /// By entry of the choice: the server.
    turns: Vec<u16>,
    servers: Vec<ServerEnd>,
    /// By server.
    down: Vec<bool>,
}

/// A server's name: where its places in tables come from, and what handlers take and give.
fn name((address, port): ServerEnd) -> String {
    match port {
        0 => address.to_string(),
        port => SocketAddr::new(address, port).to_string(),
    }
}

/// All 128 bits in 64, each of which depends on all.
fn halves(a: u128) -> u64 {
    mix(mix((a >> 64) as u64) ^ a as u64)
}

impl BalancedFlow {
    /// The source address in 32 bits; one of IPv4 is what it is.
    fn hashed_source(&self) -> u32 {
        match u32::try_from(self.source) {
            Ok(v4) => v4,
            Err(_) => halves(self.source) as u32,
        }
    }
    fn hashed(&self) -> [u64; 2] {
        let (sport, dport) = self.ports;
        let rest = u64::from(self.protocol) << 32 | u64::from(sport) << 16 | u64::from(dport);
        [
            halves(self.source),
            mix(halves(self.destination) ^ mix(rest)),
        ]
    }
}

impl Balancer {
    /// Of these servers, which are different from each other, with different identities by [`Spread::SourceHash`]; at
    /// most 65,535 turns (the sum of all weights).
    pub fn new(servers: &[BalancedServer], spread: Spread) -> Balancer {
        let numbered = || servers.iter().enumerate();
        let all_turns = numbered().flat_map(|(i, s)| (0..s.weight).map(move |k| (k, i as u16)));
        let (choice, turns) = match spread {
            Spread::RoundRobin => (
                Choice::RoundRobin { next: 0 },
                all_turns.map(|t| t.1).collect(),
            ),
            Spread::SourceHash { nodes, seed } => {
                let identity = |(k, i): (u32, u16)| {
                    let id = servers.get(usize::from(i)).map_or(0, |s| u32::from(s.id));
                    ((k * ROW + id).min(u32::from(u16::MAX) - 1) as u16, i)
                };
                let mut all: Vec<(u16, u16)> = all_turns.map(identity).collect();
                // the ring counts servers in the order of their identities
                all.sort_unstable();
                let ids: Vec<u16> = all.iter().map(|a| a.0).collect();
                let ring = HashRing::new(&ids, nodes, seed);
                let turns = all.into_iter().map(|a| a.1).collect();
                (Choice::SourceHash { ring }, turns)
            }
            Spread::Maglev { size, seed } => {
                let names: Vec<String> = servers.iter().map(|s| name(s.end)).collect();
                let each = names.iter().zip(servers);
                let each: Vec<(&str, u32)> = each.map(|(n, s)| (n.as_str(), s.weight)).collect();
                let table = MaglevTable::new(&each, size, seed);
                let turns = (0..servers.len()).map(|i| i as u16).collect();
                (Choice::Maglev { table }, turns)
            }
        };
        Balancer {
            choice,
            turns,
            servers: servers.iter().map(|s| s.end).collect(),
            down: vec![false; servers.len()],
        }
    }

    /// The server of a new connection; `None`: all are down.
    pub fn choose(&mut self, flow: &BalancedFlow) -> Option<ServerEnd> {
        let Balancer {
            choice,
            turns,
            servers,
            down,
        } = self;
        let up = |turn: usize| {
            let server = turns.get(turn).map(|s| usize::from(*s));
            server.is_some_and(|s| !down.get(s).is_some_and(|d| *d))
        };
        // Bound: each turn once
        for _ in 0..turns.len() {
            let (source, tuple) = (|| flow.hashed_source(), || flow.hashed());
            match choice.next(turns.len(), up, source, tuple) {
                Picked::Entry(turn) => {
                    let server = turns.get(turn)?;
                    return servers.get(usize::from(*server)).copied();
                }
                Picked::PassedOver => {}
                Picked::Nobody => return None,
            }
        }
        None
    }

    /// The servers, in order of configuration, and whether each is down.
    pub fn servers(&self) -> impl Iterator<Item = (ServerEnd, bool)> {
        self.servers.iter().copied().zip(self.down.iter().copied())
    }

    /// These servers are down from now on, all others up.
    ///
    /// # Errors
    /// The first one that is no server; nothing has changed then.
    pub fn set_down(&mut self, down: &[ServerEnd]) -> Result<(), ServerEnd> {
        if let Some(unknown) = down.iter().find(|d| !self.servers.contains(d)) {
            return Err(*unknown);
        }
        self.down = self.servers.iter().map(|s| down.contains(s)).collect();
        Ok(())
    }
}

impl State for Balancer {
    /// Whose turn it is, and who is down, by address.
    fn take_state(&mut self, old: &mut dyn State, _: &dyn Fn(ElemId) -> Option<ElemId>) -> Takes {
        let Some(old) = old.as_any_mut().downcast_mut::<Balancer>() else {
            return Takes::Nothing;
        };
        self.choice.take_turn(&old.choice, self.turns.len());
        self.take_settings(old);
        Takes::Done
    }
    /// Who is down, by address.
    fn take_settings(&mut self, old: &dyn State) {
        let Some(old) = old.as_any().downcast_ref::<Balancer>() else {
            return;
        };
        let was_down: Vec<ServerEnd> = old.servers().filter(|s| s.1).map(|s| s.0).collect();
        self.down = self.servers.iter().map(|s| was_down.contains(s)).collect();
    }
    fn scope(&self) -> Scope {
        self.choice.scope()
    }
    fn summary(&self) -> String {
        let mut text = self.choice.text();
        for (n, (server, _)) in self.servers().filter(|s| s.1).enumerate() {
            text.push_str(if n == 0 { ", down: " } else { " " });
            text.push_str(&name(server));
        }
        text.push('\n');
        text
    }
    state_any!();
}

#[cfg(test)]
#[path = "balancer_tests.rs"]
mod tests;
