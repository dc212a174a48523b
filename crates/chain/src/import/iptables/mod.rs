//! `iptables-save` and `ip6tables-save`.
//!
//! What forwarded packets pass is taken: FORWARD of the table filter, PREROUTING and POSTROUTING of the table nat, with
//! all that they jump to; or one chain of one table, where one is named.
//! Packets from port 0 to port 1 come in by the inside interface and go out by the outside one, the others the other
//! way round. Chains that these packets do not pass are not looked at; rules in another table that would be passed are
//! refused.

mod nat;
mod options;
#[cfg(test)]
mod tests;

use super::chains::{ChainRule, Interfaces, Target, flatten};
use super::rule::{RuleSet, Verdict, Way};
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
    /// The first rule of a built-in chain that forwarded packets pass: the chain, the rule's line.
    fn passed(&self) -> Option<(&str, u32)> {
        let first = |c| Some((c, self.chains.get(c)?.first()?.line));
        ["PREROUTING", "FORWARD", "POSTROUTING"]
            .into_iter()
            .find_map(first)
    }
}

type Errors = Vec<(u32, String)>;

/// Reads a file; errors are (line, message).
pub fn parse(text: &str, request: &Request<'_>) -> Result<RuleSet, Errors> {
    let mut errors = Errors::new();
    let tables = read_tables(text, &mut errors);
    let (table, chain) = request.chain.map_or(("filter", "FORWARD"), |c| {
        c.split_once('/').unwrap_or(("filter", c))
    });
    for (name, t) in &tables {
        // what translates is read below, with its table
        let read = *name == table || *name == "nat" && request.chain.is_none();
        let Some((chain, line)) = t.passed().filter(|_| !read) else {
            continue;
        };
        errors.push((
            line,
            format!(
                "chain '{chain}' of table '{name}' has rules, which forwarded packets pass; those of tables filter and \
                 nat can be taken: remove them from the file"
            ),
        ));
    }
    let Some(t) = tables.get(table) else {
        errors.push((1, format!("the file has no table '{table}'")));
        return Err(errors);
    };
    let policy = t.policies.get(chain).copied();
    let has_rules = t.chains.get(chain).is_some_and(|c| !c.is_empty());
    if policy.is_none() && !has_rules {
        errors.push((1, format!("table '{table}' has no chain '{chain}'")));
    }
    if request.chain.is_none() && !has_rules {
        errors.extend(used_instead(t));
    }
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
        errors,
    };
    let chains = read_chains(&mut reader, t, table, chain);
    let Rules {
        rejects,
        logs,
        mut errors,
        ..
    } = reader;
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut one = |way| match flatten(&chains, chain, way, request.interfaces) {
        Ok(r) => r,
        Err(e) => {
            errors.push(e);
            Vec::new()
        }
    };
    let (up, down) = (one(Way::Up), one(Way::Down));
    let nat = match tables.get("nat").filter(|_| request.chain.is_none()) {
        Some(t) => nat::read(t, request, &mut errors),
        None => None,
    };
    if !errors.is_empty() {
        errors.dedup();
        return Err(errors);
    }
    let mut warnings = Vec::new();
    if rejects > 0 {
        warnings.push(format!("{rejects} REJECT rules drop without an answer"));
    }
    if logs > 0 {
        warnings.push(format!("{logs} rules that only log do nothing"));
    }
    let line = policy.map(|(_, line)| line);
    Ok(RuleSet {
        down: (up != down).then_some(down),
        rules: up,
        default,
        policy: Some((place(request.family, table, chain, 0), line)),
        nat,
        warnings,
    })
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
