//! Rule sets and routes in other tools' formats.
//!
//! An importer gives what it read as data with the line each piece came from; the NF kinds turn that into elements.
//! Whatever an importer cannot express exactly is an error that names it: nothing is dropped silently.

mod chains;
pub mod classbench;
pub mod click_list;
mod host;
pub mod iptables;
pub mod limits;
pub mod nat;
pub mod nftables;
mod ports;
pub mod precedence;
mod routes;
mod rule;
pub mod snort;
mod terms;

pub use chains::Interfaces;
pub(crate) use routes::warn as warn_of_routes;
pub use routes::{
    Hop, PlacedRoute, Route, RouteKind, Selection, parse_route, read_routes, select, shares,
};
pub use rule::{
    Devices, Hook, ReadOptions, Rule, RuleFormat, RuleSet, Stage, Traffic, Verdict, Way, format_of,
    read_rules,
};
pub use terms::Family;
