//! nftables: what `nft -j list ruleset` prints, and files in nft's own language ([`text`]).
//!
//! The base chains at hook forward are taken, with those at hooks prerouting and postrouting (or the chain that was
//! asked for, alone), and all that they jump to; of the host's own packets those at hooks input and output in the place
//! of forward ([`course`]). Families `ip` and `inet` are read for IPv4 rules, `ip6` and `inet` for
//! IPv6 rules. In JSON, places are those of each rule's text in the file.

mod asks;
mod cases;
mod changes;
mod course;
mod expr;
mod hosts;
mod limit;
mod nat;
mod set;
mod statement;
#[cfg(test)]
mod tests;
mod text;

use super::chains::{ChainRule, Target};
use super::host;
use super::iptables::Request;
use super::parts::{Part, Parts};
use super::rule::{Devices, Hook, RuleSet, Verdict};
use super::terms::Family;
use crate::rules::RulePlace;
use course::{choose, devices, place_of, position};
use serde_json::Value;
use set::Sets;
use std::collections::HashMap;
use std::sync::Arc;

/// Most objects in a file.
const MAX_OBJECTS: usize = 1_000_000;

type Errors = Vec<(u32, String)>;

/// A chain's key: table, name (the family is one of those that are read).
fn key(table: &str, chain: &str) -> String {
    format!("{table}/{chain}")
}

/// A rule's place in the chain of this key.
fn place(key: &str, body: &Value, number: u32) -> Arc<RulePlace> {
    let (table, chain) = key.split_once('/').unwrap_or(("", key));
    let family = body.get("family").and_then(Value::as_str);
    Arc::new(RulePlace {
        family: family.unwrap_or("").to_string(),
        table: table.to_string(),
        chain: chain.to_string(),
        number,
        handle: body.get("handle").and_then(Value::as_u64),
    })
}

/// Base chains of types that cannot be taken, or not where one chain was asked for by name.
fn refuse_others(found: &Objects<'_>, request: &Request<'_>, errors: &mut Errors) {
    let nat_chains = found.nat.iter().map(|b| (&b.key, "nat"));
    let others = found.others.iter().map(|(k, kind)| (k, kind.as_str()));
    let named = nat_chains.filter(|_| request.chain.is_some());
    for (k, kind) in others.chain(named) {
        if let Some((_, line)) = found.rules.get(k).and_then(|r| r.first()) {
            let why = "has rules; only those of type filter and nat can be taken";
            errors.push((*line, format!("chain '{k}' of type '{kind}' {why}")));
        }
    }
}

/// Reads a file; errors are (line, message).
pub fn parse(text: &str, request: &Request<'_>) -> Result<RuleSet, Errors> {
    host::read(request, |r| parts(text, r))
}

/// What it says of the packets that are asked for.
fn parts(text: &str, request: &Request<'_>) -> Result<Parts, Errors> {
    let read = ruleset(text)?;
    let mut errors = Errors::new();
    let found = Objects::sort(
        &read.objects,
        &read.lines,
        (request.family, request.host),
        &mut errors,
    );
    let rules = &found.rules;
    let start = choose(request, &found);
    refuse_others(&found, request, &mut errors);
    let (start, default) = match start {
        Ok(found) => found,
        Err(why) => {
            errors.push((1, why));
            return Err(errors);
        }
    };
    let mut reader = expr::Reader {
        family: request.family,
        interfaces: request.interfaces,
        sets: &found.sets,
        rejects: 0,
        logs: 0,
        nat: false,
        redirects: nat::redirects(request),
    };
    let chains = match start.is_empty() {
        // no chain filters these packets
        true => HashMap::from([(start.clone(), Vec::new())]),
        false => read_chains(&mut reader, &start, rules, &mut errors),
    };
    let stages = match request.chain {
        None => read_stages(&mut reader, (&found, &start), request, &mut errors),
        Some(_) => Vec::new(),
    };
    let (rejects, logs) = (reader.rejects, reader.logs);
    let nat = match request.chain {
        None => nat::read(&mut reader, &found, request, &mut errors),
        Some(_) => None,
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    let known = match request.chain {
        None => devices(course::hook_of(request.traffic), request.traffic),
        Some(_) => Devices::Both,
    };
    Ok(Parts {
        main: Part {
            chains,
            default,
            policy: (!start.is_empty()).then(|| (policy_of(&start, rules), None)),
            start,
            devices: known,
        },
        stages,
        nat,
        warnings: [read.warnings, warnings(rejects, logs, found.sets.empty())].concat(),
    })
}

/// The objects of a file, in JSON or as nft reads it, and the lines of its rules.
fn ruleset(text: &str) -> Result<text::Ruleset, Errors> {
    if !text.trim_start().starts_with('{') {
        return text::parse(text);
    }
    let root: Value = serde_json::from_str(text).map_err(|e| {
        let line = u32::try_from(e.line()).unwrap_or(1).max(1);
        vec![(line, format!("no JSON: {e}"))]
    })?;
    let Value::Object(mut root) = root else {
        return Err(vec![(1, EXPECTED.into())]);
    };
    let Some(Value::Array(objects)) = root.remove("nftables") else {
        return Err(vec![(1, EXPECTED.into())]);
    };
    if objects.len() > MAX_OBJECTS {
        return Err(vec![(1, format!("more than {MAX_OBJECTS} objects"))]);
    }
    Ok(text::Ruleset {
        objects,
        lines: rule_lines(text),
        warnings: Vec::new(),
    })
}

/// Of JSON that is something else.
const EXPECTED: &str = "expected {\"nftables\": [...]}, as 'nft -j list ruleset' prints it";

/// The place of a chain's policy.
fn policy_of(chain: &str, rules: &HashMap<String, Vec<(&Value, u32)>>) -> Arc<RulePlace> {
    let first = rules.get(chain).and_then(|l| l.first());
    let body = first.map_or(&Value::Null, |(b, _)| *b);
    Arc::new(RulePlace {
        handle: None,
        ..RulePlace::clone(&place(chain, body, 0))
    })
}

/// What is said once for all rules.
fn warnings(rejects: usize, logs: usize, empty: usize) -> Vec<String> {
    let mut all = Vec::new();
    if rejects > 0 {
        all.push(format!(
            "{rejects} reject statements drop without an answer"
        ));
    }
    if logs > 0 {
        all.push(format!("{logs} log statements do nothing"));
    }
    if empty > 0 {
        all.push(format!(
            "{empty} times, rules ask for sets that programs or time change, and that the file leaves empty: they are \
             empty here"
        ));
    }
    all
}

/// The other chains of type filter that forwarded packets pass, in their order.
fn read_stages(
    reader: &mut expr::Reader<'_>,
    (found, start): (&Objects<'_>, &str),
    request: &Request<'_>,
    errors: &mut Errors,
) -> Vec<(Hook, Part)> {
    let main = found.bases.iter().find(|b| b.key == start);
    let mut others: Vec<&Base> = (found.bases.iter())
        .filter(|b| b.key != start && b.does(&found.rules))
        .collect();
    others.sort_by_key(|b| (position(&b.hook), b.priority));
    let mut out = Vec::new();
    for b in others {
        let rules = found.rules.get(&b.key);
        let first = rules.and_then(|r| r.first());
        let line = first.map_or(1, |r| r.1);
        let hook = match place_of(b, main, request.traffic) {
            Ok(Some(hook)) => hook,
            Ok(None) => continue,
            Err(why) => {
                errors.push((line, why));
                continue;
            }
        };
        let part = Part {
            chains: read_chains(reader, &b.key, &found.rules, errors),
            start: b.key.clone(),
            default: b.policy,
            devices: devices(&b.hook, request.traffic),
            policy: Some((policy_of(&b.key, &found.rules), None)),
        };
        out.push((hook, part));
    }
    out
}

/// A base chain of type filter.
#[derive(Debug, Clone)]
struct Base {
    key: String,
    policy: Verdict,
    hook: String,
    priority: i64,
}

impl Base {
    /// Does it do anything: has it rules, or drops it all?
    fn does(&self, rules: &HashMap<String, Vec<(&Value, u32)>>) -> bool {
        self.policy == Verdict::Deny || rules.get(&self.key).is_some_and(|r| !r.is_empty())
    }
}

/// What of a rule set concerns packets of a family.
#[derive(Default)]
struct Objects<'a> {
    sets: Sets<'a>,
    /// Base chains of type filter.
    bases: Vec<Base>,
    /// By chain, with their lines.
    rules: HashMap<String, Vec<(&'a Value, u32)>>,
    /// Base chains of type nat.
    nat: Vec<Base>,
    /// Base chains of other types, with their type.
    others: Vec<(String, String)>,
}

impl<'a> Objects<'a> {
    /// Sorts a file's objects. `places`: the lines of its rules; `host`: chains of type route, which are at hook
    /// output, are asked.
    fn sort(
        objects: &'a [Value],
        places: &[u32],
        (family, host): (Family, bool),
        errors: &mut Errors,
    ) -> Self {
        let mut found = Objects::default();
        let mut nth = 0;
        for o in objects {
            let Some((kind, body)) = o.as_object().and_then(|m| m.iter().next()) else {
                continue;
            };
            let line = if kind == "rule" {
                nth += 1;
                places.get(nth - 1).copied().unwrap_or(1)
            } else {
                1
            };
            let s = |k: &str| body.get(k).and_then(Value::as_str).unwrap_or("");
            let ours = matches!(
                (family, s("family")),
                (_, "inet") | (Family::V4, "ip") | (Family::V6, "ip6")
            );
            match kind.as_str() {
                "metainfo" | "table" => {}
                _ if !ours => {}
                "chain" => {
                    let k = key(s("table"), s("name"));
                    found.rules.entry(k.clone()).or_default();
                    if !s("hook").is_empty() {
                        let policy = if s("policy") == "drop" {
                            Verdict::Deny
                        } else {
                            Verdict::Allow
                        };
                        let routes = s("type") == "route" && host;
                        let base = Base {
                            key: k.clone(),
                            policy,
                            hook: s("hook").to_string(),
                            priority: body.get("prio").and_then(Value::as_i64).unwrap_or(0),
                        };
                        if s("type") == "filter" || routes {
                            found.bases.push(base);
                        } else if s("type") == "nat" {
                            found.nat.push(base);
                        } else if !matches!(s("hook"), "input" | "output") {
                            found.others.push((k, s("type").to_string()));
                        }
                    }
                }
                "rule" => {
                    let chain = key(s("table"), s("chain"));
                    found.rules.entry(chain).or_default().push((body, line));
                }
                "set" => found.sets.add(s("table"), s("name"), body),
                "map" => found.sets.add_map(s("table"), s("name"), body),
                "flowtable" | "ct helper" | "counter" | "quota" | "limit" | "ct timeout"
                | "ct expectation" | "synproxy" | "secmark" | "element" => {}
                other => errors.push((line, format!("object '{other}' is not supported"))),
            }
        }
        found
    }
}

/// A chain, and all chains that can be come to from it.
fn read_chains(
    reader: &mut expr::Reader<'_>,
    start: &str,
    rules: &HashMap<String, Vec<(&Value, u32)>>,
    errors: &mut Errors,
) -> HashMap<String, Vec<ChainRule>> {
    let mut chains: HashMap<String, Vec<ChainRule>> = HashMap::new();
    let mut todo = vec![start.to_string()];
    while let Some(k) = todo.pop() {
        if chains.contains_key(&k) {
            continue;
        }
        let Some(list) = rules.get(&k) else {
            continue;
        };
        let table = k.split('/').next().unwrap_or("");
        let mut out = Vec::new();
        for ((body, line), number) in list.iter().zip(1..) {
            match reader.rule(body, table, *line) {
                // none if it can never match a packet of this family
                Ok(read) => {
                    let place = place(&k, body, number);
                    for r in read {
                        if let Target::Jump(c) | Target::Goto(c) = &r.target {
                            todo.push(c.clone());
                        }
                        let place = Some(place.clone());
                        out.push(ChainRule { place, ..r });
                    }
                }
                Err(e) => errors.extend(e.into_iter().map(|m| (*line, m))),
            }
        }
        chains.insert(k, out);
    }
    chains
}

/// The line that each rule object begins in: that of its key `"rule"`, outside of strings' contents.
fn rule_lines(text: &str) -> Vec<u32> {
    let b = text.as_bytes();
    let mut out = Vec::new();
    let mut line = 1;
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'\n' => line += 1,
            b'"' => {
                let start = i + 1;
                i = start;
                while i < b.len() && b[i] != b'"' {
                    if b[i] == b'\\' {
                        i += 1;
                    }
                    i += 1;
                }
                let is_key = text[i.min(text.len())..]
                    .get(1..)
                    .is_some_and(|r| r.trim_start().starts_with(':'));
                if is_key && b.get(start..i) == Some(b"rule") {
                    out.push(line);
                }
            }
            _ => {}
        }
        i += 1;
    }
    out
}
