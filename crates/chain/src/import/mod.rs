//! Rule sets and routes in other tools' formats.
//!
//! An importer gives what it read as data with the line each piece came from; the NF kinds turn that into elements. Whatever an
//! importer cannot express exactly is an error that names it: nothing is dropped silently.

pub mod classbench;
pub mod click_list;
mod routes;
mod rule;

pub use routes::{Route, parse_route, read_routes};
pub use rule::{Rule, RuleFormat, RuleSet, Verdict, read_rules};
