//! Rule sets and routes in other tools' formats.
//!
//! An importer gives what it read as data with the line each piece came from; the NF kinds turn that into elements.
//! Whatever an importer cannot express exactly is an error that names it: nothing is dropped silently.

mod asks;
#[cfg(test)]
mod asks_tests;
mod chains;
pub mod classbench;
pub mod click_list;
mod headers;
mod host;
mod ipset;
pub mod iptables;
mod limits;
mod mark;
pub mod nat;
pub mod nftables;
mod own;
mod parts;
mod passage;
#[cfg(test)]
mod passage_tests;
mod ports;
pub mod precedence;
mod recent;
mod routes;
mod rule;
mod sections;
pub mod snort;
mod terms;
mod walk;
#[cfg(test)]
mod walk_tests;

pub use asks::Asked;
pub use chains::Interfaces;
pub(crate) use headers::{LEAST_MTU, translates_prefixes};
pub use ipset::IpSets;
pub(crate) use routes::warn as warn_of_routes;
pub use routes::{
    Hop, PlacedRoute, Route, RouteKind, Selection, parse_route, read_routes, select, shares,
};
pub use rule::{
    Devices, Hook, Onward, ReadOptions, Rule, RuleFormat, RuleSet, Section, Sections, Stage, Step,
    Traffic, Verdict, Way, format_of, read_rules,
};
pub use terms::Family;
