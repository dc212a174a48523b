//! `onefold check --rules`: rules that never decide, and rules without which nothing would change.

use crate::answers::{packet, short};
use crate::common::{self, thousands};
use crate::counterexample::hex;
use crate::progress::Progress;
use crate::rules::{self, Row};
use onefold_chain::{Chain, RulePlace};
use onefold_engine::Graph;
use onefold_verify::answers::findings::{Finding, Findings, Kind, look};
use onefold_verify::answers::list::{self, World};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// Findings of a list that are printed unless all are asked for.
const SHOWN: usize = 12;
/// Rules that are named of each.
const NAMED: usize = 6;

/// A list of rules, and what was found out about it.
struct List {
    /// Its element.
    element: String,
    /// Elements with the same rules.
    also: Vec<String>,
    /// Its rules, by argument.
    rows: BTreeMap<usize, Row>,
    findings: Findings,
    /// Frames are Ethernet frames of which IP packets come to the list.
    ip: bool,
    seconds: f64,
}

/// All lists of a chain.
pub struct Checked {
    lists: Vec<List>,
    /// Lists that cannot be looked at, and why.
    refused: Vec<(String, String)>,
}

/// Looks at all lists of rules of a chain.
pub fn check(chain: &Chain, graph: &mut Graph, quiet: bool) -> Checked {
    let rows = rules::rows(chain, graph);
    let mut out = Checked {
        lists: Vec::new(),
        refused: Vec::new(),
    };
    let mut by_element: Vec<(String, Vec<Row>)> = Vec::new();
    for r in rows {
        let name = format!("{}/{}", r.nf, r.element);
        match by_element.last_mut() {
            Some((n, l)) if *n == name => l.push(r),
            _ => by_element.push((name, vec![r])),
        }
    }
    // lists with the same arguments are looked at once: both ways of a firewall
    let mut same: HashMap<(String, Vec<String>), usize> = HashMap::new();
    for (element, rows) in by_element {
        let Some(at) = chain.graph.find(&element) else {
            continue;
        };
        let Some(e) = chain.graph.elements.get(at) else {
            continue;
        };
        let nf = element.split('/').next().unwrap_or("").to_string();
        let key = (format!("{nf} {}", e.class), e.args.clone());
        if let Some(l) = same.get(&key).and_then(|i| out.lists.get_mut(*i)) {
            l.also.push(element);
            continue;
        }
        let begun = Instant::now();
        let groups = groups(chain, &element, &rows);
        if groups.is_empty() {
            continue;
        }
        let worlds = match list::of_element(&chain.graph, at) {
            Ok(w) => w,
            Err(e) => {
                out.refused.push((element, e.to_string()));
                continue;
            }
        };
        let mut progress = Progress::new(groups.len() as u64, quiet);
        let findings = look(&worlds, &groups, &mut |n| {
            progress.at(n as u64, || {
                format!("rules of {}", thousands(groups.len() as u64))
            });
            true
        });
        progress.finish();
        same.insert(key, out.lists.len());
        out.lists.push(List {
            element,
            also: Vec::new(),
            rows: rows
                .into_iter()
                .filter_map(|r| Some((r.argument?, r)))
                .collect(),
            findings,
            ip: worlds.first().is_some_and(|w| w.world != World::Frames),
            seconds: begun.elapsed().as_secs_f64(),
        });
    }
    out
}

/// The arguments of each of the operator's rules: one, or where chains of a rule set have made several of one rule, all
/// of them.
fn groups(chain: &Chain, element: &str, rows: &[Row]) -> Vec<Vec<usize>> {
    let (nf, local) = element.split_once('/').unwrap_or(("", element));
    let listed = chain.functions.iter().find(|f| f.name == nf);
    let listed: Vec<_> = listed
        .map_or(&[][..], |f| &f.rules)
        .iter()
        .filter(|r| r.element == local)
        .collect();
    if listed.is_empty() {
        let rules = rows.iter().filter(|r| !r.policy).filter_map(|r| r.argument);
        return rules.map(|a| vec![a]).collect();
    }
    let mut of: HashMap<&RulePlace, usize> = HashMap::new();
    let mut all: Vec<Vec<usize>> = Vec::new();
    for r in listed.into_iter().filter(|r| !r.policy) {
        let place = r.place.as_deref();
        let known = place.and_then(|p| of.get(p)).and_then(|i| all.get_mut(*i));
        match known {
            Some(g) => g.push(r.argument),
            None => {
                if let Some(p) = place {
                    of.insert(p, all.len());
                }
                all.push(vec![r.argument]);
            }
        }
    }
    all
}

impl Checked {
    /// How many findings there are.
    pub fn findings(&self) -> usize {
        self.lists.iter().map(|l| l.findings.all.len()).sum()
    }

    /// For machines: `findings[]`, and `lists[]` with what was looked at.
    pub fn json(&self) -> (Value, Value) {
        let mut findings = Vec::new();
        let mut lists = Vec::new();
        for l in &self.lists {
            findings.extend(l.findings.all.iter().map(|f| l.json(f)));
            lists.push(json!({
                "element": l.element,
                "also": l.also,
                "rules": l.findings.looked,
                "findings": l.findings.all.len(),
                "unknown": l.findings.unknown.iter().map(|a| l.rule_json(Some(*a))).collect::<Vec<_>>(),
                "seconds": l.seconds,
            }));
        }
        for (element, why) in &self.refused {
            lists.push(json!({ "element": element, "refused": why }));
        }
        (findings.into(), lists.into())
    }

    /// For people.
    pub fn print(&self, chain: &str, all: bool) {
        if self.lists.is_empty() && self.refused.is_empty() {
            crate::say!("no rules: the chain has no list of rules of the operator's");
        }
        for l in &self.lists {
            l.print(chain, all);
        }
        for (element, why) in &self.refused {
            crate::say!("{element}: not looked at: {why}");
        }
    }
}

impl List {
    fn row(&self, argument: Option<usize>) -> Option<&Row> {
        self.rows.get(&argument?)
    }

    fn rule_json(&self, argument: Option<usize>) -> Value {
        match self.row(argument) {
            Some(r) => json!({
                "argument": argument,
                "file": r.loc.file.as_ref(),
                "line": r.loc.line,
                "column": r.loc.column,
                "text": r.text.as_ref(),
                "verdict": r.verdict,
                "policy": r.policy,
            }),
            None => {
                json!({ "argument": argument, "policy": true, "text": "no rule fits", "verdict": "deny" })
            }
        }
    }

    fn json(&self, f: &Finding) -> Value {
        let mut v = self.rule_json(Some(f.rule));
        v["kind"] = f.kind.name().into();
        v["element"] = self.element.as_str().into();
        v["also"] = self.also.as_slice().into();
        v["by"] = f.by.iter().map(|b| self.rule_json(*b)).collect();
        v["rules_by"] = f.of.into();
        v["rules_by_more"] = f.more.into();
        v["behind"] = f.behind.into();
        v["packet"] = f.frame.as_ref().map(|f| hex(f)).into();
        v["summary"] = f.frame.as_ref().map(|f| packet::line(f)).into();
        v
    }

    fn words(&self, argument: Option<usize>) -> String {
        match self.row(argument) {
            Some(r) => format!("{}:{} `{}`", r.loc.file, r.loc.line, short(&r.text)),
            None => "what is dropped because no rule fits".to_string(),
        }
    }

    fn print(&self, chain: &str, all: bool) {
        let also = match self.also.is_empty() {
            true => String::new(),
            false => format!(" (and {})", self.also.join(", ")),
        };
        let (n, found) = (self.findings.looked as u64, self.findings.all.len());
        let count = |k: Kind| self.findings.all.iter().filter(|f| f.kind == k).count();
        let kinds = [
            Kind::NeverMatches,
            Kind::Contradicted,
            Kind::Shadowed,
            Kind::Redundant,
        ];
        let told: Vec<String> = (kinds.into_iter().map(|k| (count(k), k)))
            .filter(|(n, _)| *n > 0)
            .map(|(n, k)| format!("{} {}", thousands(n as u64), k.name()))
            .collect();
        let told = match found {
            0 => "nothing odd, proved".to_string(),
            _ => told.join(", "),
        };
        crate::say!(
            "{}{also}: {} rules: {told} ({:.1} s)",
            self.element,
            thousands(n),
            self.seconds
        );
        let most = if all { usize::MAX } else { SHOWN };
        for f in self.findings.all.iter().take(most) {
            self.print_one(f);
        }
        if found > most {
            crate::say!(
                "  ... and {} more (--all, --json)",
                thousands((found - most) as u64)
            );
        }
        if !self.findings.unknown.is_empty() {
            let first: Vec<String> = (self.findings.unknown.iter().take(NAMED))
                .map(|a| self.words(Some(*a)))
                .collect();
            crate::say!(
                "  of {} rules nothing can be said: they ask what no model says, or too much: {}",
                self.findings.unknown.len(),
                first.join(", ")
            );
        }
        if found > 0 && self.ip {
            crate::say!(
                "  (of packets with a transport header, and of later fragments; `onefold explain {chain}` says what \
                 becomes of all)"
            );
        }
    }

    fn print_one(&self, f: &Finding) {
        let rule = self.words(Some(f.rule));
        crate::say!("  {rule}");
        let says = match (f.kind, f.behind) {
            (Kind::NeverMatches, _) => "never matches: no packet is what it asks for",
            (Kind::Contradicted, _) => {
                "never decides: rules before it take all its packets, and do the opposite"
            }
            (Kind::Shadowed, _) => {
                "never decides: rules before it take all its packets; some do the same, some the opposite"
            }
            (Kind::Redundant, false) => {
                "never decides: rules before it take all its packets, and do the same"
            }
            (Kind::Redundant, true) => {
                "is not needed: without it, rules behind it would do the same with all its packets"
            }
        };
        crate::say!("    {says}");
        for b in f.by.iter().take(NAMED) {
            let verdict = self.row(*b).map_or("deny", |r| r.verdict.as_str());
            crate::say!("      {}: {verdict}", self.words(*b));
        }
        if f.of > NAMED.min(f.by.len()) {
            let more = if f.more { " or more" } else { "" };
            crate::say!("      {} rules{more} in all", f.of);
        }
        if let Some(p) = &f.frame {
            crate::say!("    such as {}", packet::line(p));
        }
    }
}

/// The exit status: nothing odd, or something.
pub fn status(c: &Checked) -> u8 {
    match c.findings() {
        0 => common::HOLDS,
        _ => common::HOLDS_NOT,
    }
}
