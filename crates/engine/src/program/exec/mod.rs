//! Execution of programs: in general, one packet at a time, and a batch at a time.

mod ask;
pub(crate) mod batch_exec;
mod bind_view;
pub(crate) mod deferred_counters;
pub(crate) mod fast_exec;
pub(crate) mod general;
pub(crate) mod lookahead;
pub(crate) mod nat_action;
pub(crate) mod prefetch;
pub(crate) mod resume;
pub(crate) mod rule_counting;
pub(crate) mod state;
