//! `iptables-save` and `ip6tables-save`.
//!
//! What forwarded packets pass is taken: FORWARD of the table filter, PREROUTING and POSTROUTING of the table nat, and
//! what lets packets pass or drops them in the tables raw, mangle and security, with all that they jump to; or one
//! chain of one table, where one is named. Packets from port 0 to port 1 come in by the inside interface and go out by
//! the outside one, the others the other way round. Chains that these packets do not pass are not looked at.

mod changes;
mod nat;
mod options;
#[cfg(test)]
mod tests;

use super::chains::{ChainRule, Interfaces, Target};
use super::parts::{Part, Parts};
use super::rule::{Hook, RuleSet, Verdict};
use super::terms::Family;
use crate::rules::RulePlace;
use options::Rules;
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
    /// The first rule of a built-in chain that forwarded packets pass: the chain, the rule's line.
    fn passed(&self) -> Option<(&str, u32)> {
        let first = |c| Some((c, self.chains.get(c)?.first()?.line));
        ["PREROUTING", "FORWARD", "POSTROUTING"]
            .into_iter()
            .find_map(first)
    }
}

type Errors = Vec<(u32, String)>;

/// Chains beside FORWARD of the table filter that forwarded packets pass, by table.
const STAGES: [(&str, &str, Hook); 5] = [
    ("raw", "PREROUTING", Hook::Raw),
    ("mangle", "PREROUTING", Hook::Prerouting),
    ("mangle", "FORWARD", Hook::Before),
    ("mangle", "POSTROUTING", Hook::Behind),
    ("security", "FORWARD", Hook::Behind),
];

/// Reads a file; errors are (line, message).
pub fn parse(text: &str, request: &Request<'_>) -> Result<RuleSet, Errors> {
    let mut errors = Errors::new();
    let tables = read_tables(text, &mut errors);
    let (table, chain) = request.chain.map_or(("filter", "FORWARD"), |c| {
        c.split_once('/').unwrap_or(("filter", c))
    });
    let whole = request.chain.is_none();
    others(&tables, table, whole, &mut errors);
    // what a file without it says is said by the other tables
    let empty = Table::default();
    let passed = whole && tables.values().any(|t| t.passed().is_some());
    let Some(t) = tables.get(table).or(passed.then_some(&empty)) else {
        errors.push((1, format!("the file has no table '{table}'")));
        return Err(errors);
    };
    let policy = t.policies.get(chain).copied();
    let has_rules = t.chains.get(chain).is_some_and(|c| !c.is_empty());
    if policy.is_none() && !has_rules && tables.contains_key(table) {
        errors.push((1, format!("table '{table}' has no chain '{chain}'")));
    }
    if whole && !has_rules && !passed {
        errors.extend(used_instead(t));
    }
    let mut told = Told::default();
    let mut parts = Parts {
        main: read_list(t, (table, chain), request, &mut told, &mut errors),
        ..Parts::default()
    };
    for (table, chain, hook) in STAGES {
        let Some(t) = tables.get(table).filter(|t| whole && t.does(chain)) else {
            continue;
        };
        let part = read_list(t, (table, chain), request, &mut told, &mut errors);
        parts.stages.push((hook, part));
    }
    if let Some(t) = tables.get("nat").filter(|_| whole) {
        parts.nat = nat::read(t, request, &mut errors);
    }
    if !errors.is_empty() {
        errors.dedup();
        return Err(errors);
    }
    let mut set = parts.rule_set(request.interfaces)?;
    let mut warnings = told.warnings();
    warnings.append(&mut set.warnings);
    Ok(RuleSet { warnings, ..set })
}

/// Tables that are not read, with rules that forwarded packets pass.
fn others(tables: &BTreeMap<&str, Table<'_>>, table: &str, whole: bool, errors: &mut Errors) {
    for (name, t) in tables {
        let read =
            *name == table || whole && matches!(*name, "nat" | "raw" | "mangle" | "security");
        let Some((chain, line)) = t.passed().filter(|_| !read) else {
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
        all
    }
}

/// Reads a chain; what is wrong with it is added to `errors`.
fn read_list(
    t: &Table<'_>,
    (table, chain): (&str, &str),
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
        nat: table == "nat",
        errors: Errors::new(),
    };
    let chains = read_chains(&mut reader, t, table, chain);
    told.rejects += reader.rejects;
    told.logs += reader.logs;
    errors.append(&mut reader.errors);
    Part {
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

/// Chains that have rules where FORWARD has none.
fn used_instead(t: &Table<'_>) -> Option<(u32, String)> {
    let others: Vec<&str> = ["INPUT", "OUTPUT"]
        .into_iter()
        .filter(|c| t.chains.get(c).is_some_and(|c| !c.is_empty()))
        .collect();
    let others = (!others.is_empty()).then(|| others.join(" and "))?;
    let text = format!("chain FORWARD has no rules, but {others} has; say which one with 'chain'");
    Some((1, text))
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

fn read_tables<'a>(text: &'a str, errors: &mut Errors) -> BTreeMap<&'a str, Table<'a>> {
    let mut tables: BTreeMap<&str, Table<'_>> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for (i, l) in text.lines().enumerate() {
        let (line, l) = (i as u32 + 1, l.trim());
        if l.is_empty() || l.starts_with('#') || l == "COMMIT" {
            continue;
        }
        if let Some(name) = l.strip_prefix('*') {
            current = Some(name.trim());
            tables.entry(name.trim()).or_default();
            continue;
        }
        let Some(t) = current.and_then(|c| tables.get_mut(c)) else {
            errors.push((
                line,
                "expected '*TABLE' first, as iptables-save prints it".into(),
            ));
            break;
        };
        if let Some(rest) = l.strip_prefix(':') {
            let mut w = rest.split_whitespace();
            match (w.next(), w.next()) {
                (Some(chain), Some(policy)) => {
                    t.policies.insert(chain, (policy, line));
                }
                _ => errors.push((line, "expected ':CHAIN POLICY'".into())),
            }
            continue;
        }
        // "[packets:bytes] -A ..." with -c
        let l = match l.strip_prefix('[') {
            Some(r) => r.split_once(']').map_or(l, |(_, r)| r.trim()),
            None => l,
        };
        let Some(rest) = l.strip_prefix("-A ").or(l.strip_prefix("--append ")) else {
            let word = l.split_whitespace().next().unwrap_or("");
            errors.push((line, format!("expected '-A CHAIN ...', found '{word}'")));
            continue;
        };
        let rest = rest.trim_start();
        let (chain, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        t.chains.entry(chain).or_default().push(Raw { text, line });
    }
    tables
}
