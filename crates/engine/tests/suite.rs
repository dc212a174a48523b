//! Tests of the crate as its users see it, a file for each subject.

#[path = "support/both.rs"]
mod both;
mod build;
mod connections;
mod discarded;
mod flow;
mod handlers;
#[path = "program/harness.rs"]
mod harness;
mod hotswap;
mod ipv6;
mod leases;
mod neighbours;
mod plans;
mod program;
mod random;
mod router;
mod routes;
mod rule_counts;
mod shadow;
mod stamped;
mod synthesis;
mod together;
mod translated;
mod waves;
mod written_once;
