//! Tests of the crate as its users see it, a file for each subject.

mod answers;
mod batches;
mod examples;
mod findings;
mod lists;
mod lists_of_rules;
mod live_neighbours;
mod long_lists;
mod loops;
mod mutants;
mod padding;
mod parts;
mod plain;
mod planted;
mod prove;
mod reach;
mod router_limits;
mod small;
mod structures;
