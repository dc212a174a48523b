//! Requests, and what is answered to those that fail.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it stands: the keys of `onefold run --json`, `workers[]`, `name`, `pid`.
    Status {
        /// The operator's rules, too, each with what it decided.
        #[serde(default)]
        rules: bool,
        /// The servers of load balancers, too, each with the flows that it has.
        #[serde(default)]
        servers: bool,
    },
    /// Another chain takes the place of the one that runs.
    Reload {
        /// Its file, as an absolute path, or the name of an example; the one that runs, read again, if not given.
        #[serde(default)]
        chain: Option<String>,
        /// Parameters; those of the chain that runs if none is given and the chain is the same.
        #[serde(default)]
        set: Vec<(String, String)>,
    },
    /// A rule, route or backend of the chain that runs.
    Edit {
        /// Which.
        edit: Edit,
        /// It takes effect when the new program is verified, not before.
        #[serde(default)]
        verify_first: bool,
    },
    /// Packets that pass, from now on.
    Capture {
        /// Which.
        matching: Matching,
        /// So many at most.
        count: u64,
    },
    /// Another number of workers, of a run whose groups of flows go from worker to worker.
    Scale {
        /// So many; as many as the load needs if not given.
        #[serde(default)]
        workers: Option<usize>,
    },
    /// Who runs when, of a run whose functions are processes.
    Schedule {
        /// Another policy, `NAME[,KEY=VALUE...]`; the one at work is told if not given.
        #[serde(default)]
        policy: Option<String>,
    },
    /// The run ends, as with Ctrl-C.
    Stop,
    /// The next packets, followed through a copy of the chain: a line each, with `trace` (as `onefold trace --json`)
    /// and `text`.
    Trace(Tracing),
}

/// Packets to be followed: those to which all that is given applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    /// They arrive at this port of the chain.
    #[serde(default)]
    pub port: Option<String>,
    /// A firewall's rule with this text would match them.
    #[serde(default)]
    pub filter: Option<String>,
    /// They are dropped at an element, or for a reason, with this text in it.
    #[serde(default)]
    pub drop: Option<String>,
    /// They are of this traffic class, `STAGE.ACTION`.
    #[serde(default)]
    pub class: Option<String>,
    /// So many at most.
    pub count: u64,
}

/// A change of one network function, which lasts until the chain is reloaded or ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// What is changed.
    pub kind: EditKind,
    /// The function; the only one of this kind if not given.
    #[serde(default)]
    pub function: Option<String>,
    /// What is done with it.
    pub change: Change,
    /// As it would be written in the chain file.
    pub text: String,
    /// Where rules are added: in front of the rule that is this one now, counted from 1; the first place if not given.
    #[serde(default)]
    pub at: Option<usize>,
}

/// What an [`Edit`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is added.
    Add,
    /// It is removed.
    Remove,
    /// A server gets no new flows.
    Drain,
    /// A server that was drained gets new flows again.
    Resume,
}

/// What an [`Edit`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EditKind {
    /// A rule of a firewall: `deny tcp dst port 23`.
    Rule,
    /// A route of a router: `10.0.0.0/8 via 192.168.1.2`.
    Route,
    /// A server of a load balancer: `10.0.0.3`.
    Backend,
}

impl EditKind {
    /// The kind of network function that has such things.
    pub fn function_kind(self) -> &'static str {
        match self {
            EditKind::Rule => "firewall",
            EditKind::Route => "router",
            EditKind::Backend => "load-balancer",
        }
    }
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            EditKind::Rule => "rule",
            EditKind::Route => "route",
            EditKind::Backend => "backend",
        }
    }
}

/// Packets to be captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Matching {
    /// Those that arrive or leave at a port of the chain.
    Port(String),
    /// Those that arrive and are dropped for a reason with this text in it.
    Drop(String),
    /// Those that arrive and are of a traffic class: `STAGE.ACTION`, as `onefold explain` and `status` number them.
    Class(String),
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The request is not one.
    BadRequest,
    /// The chain, rule, route or backend is wrong.
    BadInput,
    /// The program is not the chain.
    Refuted,
    /// The chain does not fit the ports that are open.
    Ports,
    /// Too many clients or commands, or another reload is under way.
    Busy,
    /// It cannot be done with this run.
    Unsupported,
    /// The chain has ended, or does not answer.
    Ended,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Which kind.
    pub kind: Kind,
    /// In words.
    pub message: String,
    /// Details, a line each: diagnostics of a chain file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

impl Failure {
    /// Without details.
    pub fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            details: Vec::new(),
        }
    }
    /// The line that a client gets.
    pub fn line(&self) -> Value {
        json!({ "ok": false, "error": self })
    }
}
