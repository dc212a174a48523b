//! Tests of the crate as its users see it, a file for each subject.

mod common;
mod connections;
mod edits;
mod examples;
mod guide;
mod kinds;
mod live;
mod local;
mod payload_filter;
mod rates;
mod real_rules;
mod reasons;
mod rounds;
#[path = "router/main.rs"]
mod router;
mod servers;
mod servers6;
mod stitch;
mod translation;
mod workers;
