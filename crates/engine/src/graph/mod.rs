//! The reference graph: a chain element by element as written, scalar and in batches.

pub(crate) mod arrival;
pub(crate) mod batch;
pub(crate) mod build;
pub mod click;
pub(crate) mod core;
pub(crate) mod diag;
pub(crate) mod discarded;
pub(crate) mod driver;
pub(crate) mod flat;
pub(crate) mod handlers;
pub(crate) mod hookup;
pub(crate) mod hotswap;
pub(crate) mod inspection;
pub mod limits;
pub(crate) mod models;
pub(crate) mod random;
pub(crate) mod reference;
pub(crate) mod rule_counts;
pub(crate) mod run;
pub(crate) mod sched;
pub(crate) mod topology;
pub(crate) mod trace;
pub(crate) mod unparse;
pub(crate) mod upstream;
pub(crate) mod visits;
