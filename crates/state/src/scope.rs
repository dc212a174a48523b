//! What several workers do with a state that one graph has once.
//!
//! N workers are N reference graphs and a function that says which of them a packet goes to. They share nothing but
//! what is said to be [`Scope::Shared`] here; so each state has to say how its contents are divided, or that they need
//! not be.

use std::fmt;

/// See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each worker has its own, and none needs to see another's: neighbours that were learnt, numbers of messages,
    /// whose turn it is.
    PerWorker,
    /// The contents are divided: a worker has all that its packets ask for, and nothing of another's.
    Partitioned(Partition),
    /// All workers read the same; it is replaced as a whole when it changes (left-right): routes, lists, what a file
    /// says.
    Shared,
}

/// How a state's contents are divided among workers, and put together again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partition {
    /// By flow: both directions of a flow, its errors and its fragments are at one worker; an entry moves with its
    /// flow.
    Flow,
    /// By value: each worker hands out its part of a pool (ports of a range), so that no value is handed out twice.
    Pool,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::PerWorker => "per worker",
            Scope::Partitioned(Partition::Flow) => "partitioned by flow",
            Scope::Partitioned(Partition::Pool) => "partitioned by pool",
            Scope::Shared => "shared",
        })
    }
}
