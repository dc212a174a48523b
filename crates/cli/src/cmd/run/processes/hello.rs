//! What a process is told when it is launched.

use super::outside::Outside;
use onefold_chain::segments::Told;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// See the module's text.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its number.
    pub me: u32,
    /// Its name.
    pub name: String,
    /// The plan, as its text.
    pub plan: String,
    /// When the chain's clock begins, nanoseconds since 1970.
    pub start: i64,
    /// The launcher's clock ([`onefold_runtime::Clock::parts`]).
    pub clock: (i64, u64),
    /// Packets arrive in real time.
    pub live: bool,
    /// How often it looks again before it sleeps, at most; 0: it sleeps at once.
    pub spins: u32,
    /// The launcher is on another core: a function that is told to yield does so for a while before it sleeps.
    pub lingers: bool,
    /// Ports of its chain: the ring that packets come from, and the one that they leave through.
    pub ports: Vec<(String, Option<u32>, Option<u32>)>,
    /// Ports of its chain that are the chain's only within: the port of the chain that all their packets have come in
    /// at, if there is one.
    pub origins: BTreeMap<String, Option<String>>,
    /// Its chain.
    pub chain: Told,
    /// What it has besides its rings.
    pub outside: Outside,
    /// Captures go in, and packets go on in real time: none is dropped for want of time.
    pub recorded: bool,
}

/// Longest message about a chain, in bytes.
pub const LONGEST: usize = 1 << 30;
