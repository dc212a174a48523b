//! `iptables-save` and `ip6tables-save`, and what else `iptables-restore` reads.
//!
//! What forwarded packets pass is taken: FORWARD of the table filter, PREROUTING and POSTROUTING of the table nat, and
//! what lets packets pass or drops them in the tables raw, mangle and security, with all that they jump to; or one
//! chain of one table, where one is named. Packets from port 0 to port 1 come in by the inside interface and go out by
//! the outside one, the others the other way round. Chains that these packets do not pass are not looked at. Of the
//! host's own packets it is the same with other chains ([`Course`]).

mod changes;
mod draft;
mod limit;
#[cfg(test)]
mod message_tests;
mod nat;
mod options;
mod questions;
mod script;
#[cfg(test)]
mod tests;

use super::chains::{ChainRule, Interfaces, Target};
use super::host;
use super::parts::{Part, Parts};
use super::rule::{Devices, Hook, RuleSet, Traffic, Verdict};
use super::terms::Family;
use crate::rules::RulePlace;
use options::Rules;
pub(super) use questions::{chance, hardware_address};
use script::read_tables;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What to take from a file.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// IPv4 (`iptables-save`) or IPv6 (`ip6tables-save`).
    pub family: Family,
    /// `CHAIN` or `TABLE/CHAIN`; FORWARD if not given.
    pub chain: Option<&'a str>,
    /// Which interface is which.
    pub interfaces: &'a Interfaces,
    /// There is a host whose own packets are asked about, too.
    pub host: bool,
    /// Whose packets the file is read for.
    pub traffic: Traffic,
}

/// A rule before it is understood.
struct Raw<'a> {
    text: &'a str,
    line: u32,
}

#[derive(Default)]
struct Table<'a> {
    chains: HashMap<&'a str, Vec<Raw<'a>>>,
    /// Of built-in chains.
    policies: HashMap<&'a str, (&'a str, u32)>,
}

impl Table<'_> {
    /// Does a chain do anything: has it rules, or drops it all?
    fn does(&self, chain: &str) -> bool {
        let drops = self.policies.get(chain).is_some_and(|(p, _)| *p == "DROP");
        drops || self.chains.get(chain).is_some_and(|c| !c.is_empty())
    }
    /// The first rule of a built-in chain that forwarded packets pass, or packets of the host if it is there: the
    /// chain, the rule's line.
    fn passed(&self, host: bool) -> Option<(&'static str, u32)> {
        let first = |c: &'static str| Some((c, self.chains.get(c)?.first()?.line));
        let own: &[&str] = if host { &["INPUT", "OUTPUT"] } else { &[] };
        let all = ["PREROUTING", "FORWARD", "POSTROUTING"].iter().chain(own);
        all.copied().find_map(first)
    }
}

type Errors = Vec<(u32, String)>;

/// The chains that packets pass.
struct Course {
    /// Of the table filter.
    main: &'static str,
    /// Beside it, by table, with what is known of interfaces.
    stages: &'static [(&'static str, &'static str, Hook, Devices)],
    /// Of the table nat: where destinations and where sources are translated.
    nat: [(&'static str, Devices); 2],
    /// What is known of interfaces in that of the table filter.
    devices: Devices,
}

const FORWARDED: Course = Course {
    main: "FORWARD",
    stages: &[
        ("raw", "PREROUTING", Hook::Raw, Devices::In),
        ("mangle", "PREROUTING", Hook::Prerouting, Devices::In),
        ("mangle", "FORWARD", Hook::Before, Devices::Both),
        ("mangle", "POSTROUTING", Hook::Behind, Devices::Both),
        ("security", "FORWARD", Hook::Behind, Devices::Both),
    ],
    nat: [("PREROUTING", Devices::In), ("POSTROUTING", Devices::Both)],
    devices: Devices::Both,
};

const TO_HOST: Course = Course {
    main: "INPUT",
    stages: &[
        ("raw", "PREROUTING", Hook::Raw, Devices::In),
        ("mangle", "PREROUTING", Hook::Prerouting, Devices::In),
        ("mangle", "INPUT", Hook::Before, Devices::In),
        ("security", "INPUT", Hook::Behind, Devices::In),
    ],
    nat: [("PREROUTING", Devices::In), ("INPUT", Devices::In)],
    devices: Devices::In,
};

const FROM_HOST: Course = Course {
    main: "OUTPUT",
    stages: &[
        ("raw", "OUTPUT", Hook::Raw, Devices::Out),
        ("mangle", "OUTPUT", Hook::Prerouting, Devices::Out),
        ("security", "OUTPUT", Hook::Behind, Devices::Out),
        ("mangle", "POSTROUTING", Hook::Behind, Devices::Out),
    ],
    nat: [("OUTPUT", Devices::Out), ("POSTROUTING", Devices::Out)],
    devices: Devices::Out,
};

fn course(traffic: Traffic) -> &'static Course {
    match traffic.course() {
        Traffic::ToHost => &TO_HOST,
        Traffic::FromHost => &FROM_HOST,
        _ => &FORWARDED,
    }
}

/// Reads a file; errors are (line, message).
pub fn parse(text: &str, request: &Request<'_>) -> Result<RuleSet, Errors> {
    host::read(request, |r| parts(text, r))
}

/// What it says of the packets that are asked for.
fn parts(text: &str, request: &Request<'_>) -> Result<Parts, Errors> {
    let mut errors = Errors::new();
    let tables = read_tables(text, request.family, &mut errors);
    let course = course(request.traffic);
    let (table, chain) = request.chain.map_or(("filter", course.main), |c| {
        c.split_once('/').unwrap_or(("filter", c))
    });
    let whole = request.chain.is_none();
    others(&tables, table, (whole, request.host), &mut errors);
    // what a file without it says is said by the other tables
    let empty = Table::default();
    let passed = whole && tables.values().any(|t| t.passed(request.host).is_some());
    let Some(t) = tables.get(table).or(passed.then_some(&empty)) else {
        errors.push((1, format!("the file has no table '{table}'")));
        return Err(errors);
    };
    if whole && request.traffic == Traffic::Forwarded {
        errors.extend(nothing_forwarded(t, passed, request.host));
    } else if !whole && !t.policies.contains_key(chain) && !t.does(chain) {
        errors.push((1, format!("table '{table}' has no chain '{chain}'")));
    }
    let mut told = Told::default();
    let devices = match whole {
        true => request.traffic.devices(course.devices),
        false => Devices::Both,
    };
    let mut parts = Parts {
        main: read_list(t, (table, chain, devices), request, &mut told, &mut errors),
        ..Parts::default()
    };
    for (table, chain, hook, devices) in course.stages {
        let Some(t) = tables.get(table).filter(|t| whole && t.does(chain)) else {
            continue;
        };
        let devices = request.traffic.devices(*devices);
        let part = read_list(t, (table, chain, devices), request, &mut told, &mut errors);
        parts.stages.push((*hook, part));
    }
    if let Some(t) = tables.get("nat").filter(|_| whole) {
        parts.nat = nat::read(t, course.nat, request, &mut errors);
    }
    if !errors.is_empty() {
        errors.dedup();
        return Err(errors);
    }
    parts.warnings = told.warnings();
    Ok(parts)
}

/// Tables that are not read, with rules that forwarded packets pass.
fn others(
    tables: &BTreeMap<&str, Table<'_>>,
    table: &str,
    (whole, host): (bool, bool),
    errors: &mut Errors,
) {
    for (name, t) in tables {
        let read =
            *name == table || whole && matches!(*name, "nat" | "raw" | "mangle" | "security");
        let Some((chain, line)) = t.passed(host).filter(|_| !read) else {
            continue;
        };
        let text = match whole {
            true => format!("table '{name}' is not known"),
            false => format!(
                "chain '{chain}' of table '{name}' has rules, which forwarded packets pass: remove them from the file, \
                 or take it whole, without 'chain'"
            ),
        };
        errors.push((line, text));
    }
}

/// What is said once for all rules.
#[derive(Default)]
struct Told {
    rejects: usize,
    logs: usize,
    ipsec: usize,
}

impl Told {
    fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.rejects > 0 {
            all.push(format!(
                "{} REJECT rules drop without an answer",
                self.rejects
            ));
        }
        if self.logs > 0 {
            all.push(format!("{} rules that only log do nothing", self.logs));
        }
        if self.ipsec > 0 {
            all.push(format!(
                "{} rules ask for IPsec ('--pol ipsec'), which is not here: they take nothing",
                self.ipsec
            ));
        }
        all
    }
}

/// Reads a chain; what is wrong with it is added to `errors`.
fn read_list(
    t: &Table<'_>,
    (table, chain, devices): (&str, &str, Devices),
    request: &Request<'_>,
    told: &mut Told,
    errors: &mut Errors,
) -> Part {
    let policy = t.policies.get(chain).copied();
    let default = match policy {
        Some(("ACCEPT", _)) | None => Some(Verdict::Allow),
        Some(("DROP", _)) => Some(Verdict::Deny),
        Some((p, line)) => {
            let hint = "take the chain that jumps to it";
            let text = format!("chain '{chain}' has no policy ('{p}'): {hint}");
            errors.push((line, text));
            None
        }
    };
    let mut reader = Rules {
        family: request.family,
        interfaces: request.interfaces,
        rejects: 0,
        logs: 0,
        ipsec: 0,
        nat: table == "nat",
        redirects: nat::redirects(request),
        errors: Errors::new(),
    };
    let chains = read_chains(&mut reader, t, table, chain);
    told.rejects += reader.rejects;
    told.logs += reader.logs;
    told.ipsec += reader.ipsec;
    errors.append(&mut reader.errors);
    Part {
        devices,
        // what the file says nothing of has no rules
        chains: match chains.contains_key(chain) {
            true => chains,
            false => HashMap::from([(chain.to_string(), Vec::new())]),
        },
        start: chain.to_string(),
        default: default.unwrap_or(Verdict::Allow),
        policy: Some((
            place(request.family, table, chain, 0),
            policy.map(|(_, line)| line),
        )),
    }
}

/// What is wrong with a file that says nothing of forwarded packets. `passed`: tables have rules in built-in chains
/// that packets pass.
fn nothing_forwarded(t: &Table<'_>, passed: bool, host: bool) -> Option<(u32, String)> {
    if passed {
        return None;
    }
    let has = |c: &&str| t.chains.get(*c).is_some_and(|c| !c.is_empty());
    let others: Vec<&str> = ["INPUT", "OUTPUT"].into_iter().filter(has).collect();
    if !others.is_empty() {
        let text = format!(
            "chain FORWARD has no rules, but {} has: rules for the host itself; wire port 2, which is the host \
             (ports: {{ local: \"NAME[2]\" }}), or say which chain is taken with 'chain'",
            others.join(" and ")
        );
        return Some((1, text));
    }
    // a policy decides
    if t.policies.contains_key("FORWARD") || host && t.policies.values().any(|(p, _)| *p != "-") {
        return None;
    }
    let text = match t.chains.is_empty() {
        true => "table 'filter' has no chain 'FORWARD'",
        false => {
            "no built-in chain has rules: iptables-restore loads such a file beside others (--noflush), whose rules \
             jump to its chains; put them in one file"
        }
    };
    Some((1, text.into()))
}

/// A chain, and all chains that can be come to from it.
fn read_chains(
    reader: &mut Rules<'_>,
    t: &Table<'_>,
    table: &str,
    chain: &str,
) -> HashMap<String, Vec<ChainRule>> {
    let mut chains: HashMap<String, Vec<ChainRule>> = HashMap::new();
    let mut todo = vec![chain.to_string()];
    while let Some(name) = todo.pop() {
        if chains.contains_key(&name) {
            continue;
        }
        let raw = t.chains.get(name.as_str());
        if raw.is_none() && !t.policies.contains_key(name.as_str()) {
            // a jump to nowhere; the walk says where
            continue;
        }
        let mut list = Vec::new();
        for (r, number) in raw.into_iter().flatten().zip(1..) {
            let Some(rule) = reader.rule(r) else { continue };
            if let Target::Jump(c) | Target::Goto(c) = &rule.target {
                todo.push(c.clone());
            }
            let place = Some(place(reader.family, table, &name, number));
            list.push(ChainRule { place, ..rule });
        }
        chains.insert(name, list);
    }
    chains
}

fn place(family: Family, table: &str, chain: &str, number: u32) -> Arc<RulePlace> {
    Arc::new(RulePlace {
        family: match family {
            Family::V4 => "ip".into(),
            Family::V6 => "ip6".into(),
        },
        table: table.to_string(),
        chain: chain.to_string(),
        number,
        handle: None,
    })
}
