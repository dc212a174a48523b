//! What every element means: configuration, ports, reference behaviour, handlers.
//!
//! - [`registry`] finds an [`ElementClass`] by name; every family of elements has a file (or folder) of its own and lists its
//!   classes in a `CLASSES` constant.
//! - [`Element`] is one node of a graph. It is *passive*: it gets packets through [`Element::push`], and answers by telling
//!   its [`Cx`] what leaves where. Who runs next, clocks, timers and queues of work are the engine's business (the [`Host`]
//!   trait), so that the same element serves the scalar reference graph, the batched graph and, later, punts from a
//!   synthesized program.
//! - [`args::Args`] reads configurations as Click's `Args` does: positional and keyword arguments, all errors at once.
//! - [`StateStore`] owns the state that several elements (and later a fast path) share: address mappings, tables.
//!
//! Elements are `Clone` (through [`ElementClone`]): a graph can be forked, state and all, so that an oracle runs beside it.
//!
//! The crate starts no thread and never panics on packets or configurations. The only I/O is that of the elements whose purpose
//! is a file (FromDump, ToDump, the summary dumps, Print's OUTFILE): opened when initialized, never by an element that the engine
//! has bound to a port or by a clone.
#![forbid(unsafe_code)]

pub mod args;
mod batch;
mod class;
mod cx;
mod element;
pub mod flow;
pub mod handler;
mod link;
pub mod model;
mod names;
pub mod rate;
pub mod reason;
mod spec;
pub mod testing;
pub mod token_bucket;
pub mod unparse;

mod classify;
mod control;
mod headers;
pub mod icmp_names;
mod ip4;
mod ip6;
pub mod payload;
mod print;
mod queues;
pub mod rewrite;
pub mod routing;
mod rule_counts;
mod sources;
mod standard;

/// Every family's list of classes.
const FAMILIES: &[&[ElementClass]] = &[
    standard::CLASSES,
    link::CLASSES,
    classify::CLASSES,
    control::CLASSES,
    headers::CLASSES,
    ip6::CLASSES,
    payload::CLASSES,
    print::CLASSES,
    queues::CLASSES,
    rewrite::CLASSES,
    routing::CLASSES,
    sources::CLASSES,
];

pub use batch::{Batching, Clock, pass_alike, pass_while};
pub use class::{
    Effect, ElementClass, FlowCode, PortRange, Processing, all_classes, lookup, near_misses,
};
pub use classify::filter;
pub use cx::{Cx, Effect as Emission, Host, LogStream, Outbox, TimerId};
pub use element::{
    Accounts, ConfigCx, ConfigError, ConfigErrors, ENTRY, Element, ElementClone, InitCx, IoRole,
    SourceLoc, TaskStatus, find_element,
};
pub use handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult};
pub use names::NameDb;
pub use onefold_state::{DropReason, ElemId, Port, State, StateId, StateStore, state_any};
pub use rule_counts::{RuleCount, RuleCounters};
pub use spec::{ConnectionSpec, ElementSpec, GraphSpec};
pub use standard::MAX_ROUNDS;
