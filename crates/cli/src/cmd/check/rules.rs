//! `onefold check --rules`: rules that never decide, and rules without which nothing would change.

use super::lists::{self, Element, RuleSet};
use crate::answers::{packet, short};
use crate::common::{self, thousands};
use crate::counterexample::hex;
use crate::explain::odd::{Odd, OddRule};
use crate::progress::Progress;
use crate::rules::Row;
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_verify::answers::findings::{Finding, Findings, Kind, look};
use onefold_verify::answers::list::World;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Findings of a list that are printed unless all are asked for.
const SHOWN: usize = 12;
/// Rules that are named of each.
const NAMED: usize = 6;

/// A rule set, and what was found out about it.
struct Looked {
    set: RuleSet,
    findings: Findings,
    /// IP packets come to its lists, not frames.
    ip: bool,
    seconds: f64,
}

/// All rule sets of a chain.
pub struct Checked {
    sets: Vec<Looked>,
}

/// Looks at all lists of rules of a chain; `whole` is the same chain, with rules that no packet comes to
/// ([`onefold_chain::load_whole`]).
pub fn check(chain: &Chain, whole: &Chain, graph: &mut Graph, quiet: bool) -> Checked {
    check_within(chain, whole, graph, quiet, Duration::MAX)
}

/// What `explain` says of odd rules: the same, of as many rules as can be looked at in so long.
pub fn odd(chain: &Chain, whole: &Chain, graph: &mut Graph, limit: Duration) -> Odd {
    let checked = check_within(chain, whole, graph, true, limit);
    let mut odd = Odd::default();
    for l in &checked.sets {
        odd.looked.0 += l.findings.looked;
        odd.looked.1 += l.set.rules.len();
        for f in &l.findings.all {
            let kind = f.kind.name();
            match odd.kinds.iter_mut().find(|k| k.0 == kind) {
                Some(k) => k.1 += 1,
                None => odd.kinds.push((kind, 1)),
            }
            let row = l.row(Some(f.rule)).filter(|_| odd.first.len() < NAMED);
            odd.first.extend(row.map(|r| OddRule {
                kind,
                file: r.loc.file.to_string(),
                line: r.loc.line,
                text: r.text.to_string(),
            }));
        }
    }
    odd
}

fn check_within(
    chain: &Chain,
    whole: &Chain,
    graph: &mut Graph,
    quiet: bool,
    limit: Duration,
) -> Checked {
    let start = Instant::now();
    let one = |set: RuleSet| {
        let begun = Instant::now();
        let mut progress = Progress::new(set.rules.len() as u64, quiet);
        let mut findings = look(&set.worlds, &set.rules, &set.policies, &mut |n| {
            progress.at(n as u64, || {
                format!("rules of {}", thousands(set.rules.len() as u64))
            });
            start.elapsed() < limit
        });
        progress.finish();
        findings.all.retain(|f| !set.open.contains(&f.rule));
        let open = set.open.iter().filter(|a| !findings.unknown.contains(a));
        let open: Vec<usize> = open.copied().collect();
        findings.unknown.extend(open);
        Looked {
            ip: set.worlds.first().is_some_and(|w| w.world != World::Frames),
            findings,
            set,
            seconds: begun.elapsed().as_secs_f64(),
        }
    };
    let sets = lists::all(chain, whole, graph);
    Checked {
        sets: sets.into_iter().map(one).collect(),
    }
}

impl Checked {
    /// How many findings there are.
    pub fn findings(&self) -> usize {
        self.sets.iter().map(|l| l.findings.all.len()).sum()
    }

    /// For machines: `findings[]`, and `lists[]` with what was looked at.
    pub fn json(&self) -> (Value, Value) {
        let mut findings = Vec::new();
        let mut lists = Vec::new();
        for l in &self.sets {
            findings.extend(l.findings.all.iter().map(|f| l.json(f)));
            if let Some((element, also)) = split(&l.names(&|_| true)) {
                lists.push(json!({
                    "element": element,
                    "also": also,
                    "rules": l.findings.looked,
                    "findings": l.findings.all.len(),
                    "unknown": l.findings.unknown.iter().map(|a| l.rule_json(Some(*a))).collect::<Vec<_>>(),
                    "seconds": l.seconds,
                }));
            }
            for (element, why) in &l.set.refused {
                lists.push(json!({ "element": element, "refused": why }));
            }
        }
        (findings.into(), lists.into())
    }

    /// For people.
    pub fn print(&self, chain: &str, all: bool) {
        if self.sets.is_empty() {
            crate::say!("no rules: the chain has no list of rules of the operator's");
        }
        for l in &self.sets {
            if !l.set.elements.is_empty() {
                l.print(chain, all);
            }
            for (element, why) in &l.set.refused {
                crate::say!("{element}: not looked at: {why}");
            }
        }
    }
}

/// The first one, and the others.
fn split(names: &[String]) -> Option<(&String, &[String])> {
    names.split_first()
}

impl Looked {
    fn row(&self, argument: Option<usize>) -> Option<&Row> {
        self.set.rows.get(&argument?)
    }

    /// The elements of some lists.
    fn names(&self, is: &dyn Fn(usize) -> bool) -> Vec<String> {
        let all = self.set.elements.iter().enumerate();
        let names = |e: &Element| [vec![e.name.clone()], e.also.clone()].concat();
        all.filter(|(i, _)| is(*i))
            .flat_map(|(_, e)| names(e))
            .collect()
    }

    /// The list that a finding's packet is for, and all others that have the rule.
    fn lists(&self, f: &Finding) -> (String, Vec<String>) {
        let first = self.set.of_world.get(f.list).copied().unwrap_or(0);
        let rule = self.set.rules.iter().find(|r| r.first() == Some(&f.rule));
        let has = |i: usize| {
            let mut all = rule.into_iter().flatten();
            all.any(|a| self.set.lines.contains(&(i, *a)))
        };
        let mut all = self.names(&|i| i == first);
        all.extend(self.names(&|i| i != first && has(i)));
        let also = all.split_off(1.min(all.len()));
        (all.pop().unwrap_or_default(), also)
    }

    fn rule_json(&self, argument: Option<usize>) -> Value {
        match self.row(argument) {
            Some(r) => json!({
                "argument": r.argument,
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
        let (element, also) = self.lists(f);
        let mut v = self.rule_json(Some(f.rule));
        v["kind"] = f.kind.name().into();
        v["element"] = element.into();
        v["also"] = also.into();
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
        let names = self.names(&|_| true);
        let (element, also) = match names.as_slice() {
            [] => return,
            [one] => (one, String::new()),
            [one, two] => (one, format!(" (and {two})")),
            [one, more @ ..] => (one, format!(" (and {} lists more)", more.len())),
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
            "{element}{also}: {} rules: {told} ({:.1} s)",
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
            (Kind::NeverMatches, _) => {
                "never matches: no packet that comes to it is what it asks for"
            }
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
