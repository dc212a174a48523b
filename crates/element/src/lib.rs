//! What every element is: the trait [`Element`], what it sees and answers with, how it is configured, what its model
//! says.
//!
//! - [`Element`] is one node of a graph. It is *passive*: it gets packets through [`Element::push`], and answers by
//!   telling its [`Cx`] what leaves where. Who runs next, clocks, timers and queues of work are the engine's business
//!   (the [`Host`] trait), so that the same element serves the scalar reference graph, the batched graph and punts from
//!   a synthesized program.
//! - [`ElementClass`] says what is known of a class without a configuration; the classes themselves, and their
//!   registry, are in `onefold-elements`.
//! - [`args::Args`] reads configurations as Click's `Args` does: positional and keyword arguments, all errors at once.
//! - [`model`] is the language of models: what an element does to a packet, as data.
//! - [`GraphSpec`] is a graph as written.
//!
//! What an element's signatures name of `onefold-state` ([`StateStore`], [`ElemId`], [`Port`] ...) is exported here,
//! too.
//!
//! Elements are `Clone` (through [`ElementClone`]): a graph can be forked, state and all, so that an oracle runs beside
//! it.
#![forbid(unsafe_code)]

pub mod args;
mod batch;
mod class;
mod config_error;
mod cx;
mod element;
pub mod flow;
pub mod handler;
mod inspect;
mod lease;
mod macros;
pub mod model;
mod names;
pub mod reason;
mod rule_counts;
mod source_loc;
mod spec;
pub mod unparse;

pub use batch::{Batching, Clock, pass_alike, pass_while};
pub use class::{Effect, ElementClass, FlowCode, PortRange, Processing};
pub use config_error::{ConfigError, ConfigErrors};
pub use cx::{Cx, Effect as Emission, Host, LogStream, Outbox, TimerId};
pub use element::{
    Accounts, ConfigCx, ENTRY, Element, ElementClone, InitCx, IoRole, TaskStatus, find_element,
};
pub use handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult, Touches};
pub use inspect::{BatchNeeds, InspectCx, Inspected, InspectedBatch, NO_HINT};
pub use lease::{FlowLease, FlowLeases, LEASE_KINDS, NO_FLOW_LEASE};
pub use names::NameDb;
pub use onefold_state::{
    DropReason, ElemId, Partition, Port, Scope, State, StateId, StateStore, Takes, state_any,
};
pub use rule_counts::{RuleCount, RuleCounters};
pub use source_loc::SourceLoc;
pub use spec::{ConnectionSpec, ElementSpec, GraphSpec};
