//! What of a program `verify` hit, what cannot be hit, and why.

use crate::cmd::verify::percent;
use crate::common::thousands;
use onefold_element::model::ValueSet;
use onefold_engine::program::Report;
use onefold_synth::Program;
use onefold_synth::program::{End, Next};
use onefold_synth::text::Words;
use onefold_verify::Outcome;
use onefold_verify::generate::coverage::{Counts, Coverage, sides, width};
use onefold_verify::generate::directed::{Account, Directed, Goal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Examples shown of what is unreachable, or was not hit, for one reason.
const EXAMPLES: usize = 5;
/// Of what was not hit, so many are told in JSON.
const MISSING: usize = 200;
/// Reasons why something is unreachable, as text.
const REASONS: usize = 6;

/// Things with one reason.
pub struct Group {
    /// Why.
    pub reason: String,
    /// How many.
    pub number: u64,
    /// Some of them.
    pub some: Vec<String>,
}

/// What of a program was hit.
pub struct Hit {
    /// Of all that there is.
    pub counts: Counts,
    /// What was shown to be unreachable: classes, rules, sides of boundaries.
    pub never: [Vec<Group>; 3],
    /// What was not hit, and not shown to be unreachable: a boundary or a rule, and why.
    pub missing: Vec<(bool, Group)>,
    /// What was hit although it was shown to be unreachable.
    pub wrong: Vec<String>,
    /// What the synthesizer said.
    pub notes: Vec<String>,
    /// Packets that reached neither an output nor a drop by rule, but the reference graph.
    pub undecided: u64,
}

/// Packets of which no more than a copy was punted: for elements that always originate packets, while the packet went
/// on.
fn copies(p: &Program, report: &Report) -> u64 {
    let punts = |n: &Next| {
        let Next::Stage(s) = n else { return true };
        let stage = p.stages.get(s.0 as usize);
        stage.is_some_and(|s| s.actions.iter().all(|a| matches!(a.end, End::Punt { .. })))
    };
    let mut only: BTreeMap<usize, bool> = BTreeMap::new();
    for a in p.stages.iter().flat_map(|s| &s.actions) {
        if let End::Fork(ways) = &a.end {
            let goes_on = ways.iter().any(|n| !punts(n));
            for n in ways.iter().filter(|n| punts(n)) {
                if let Next::Stage(s) = n {
                    *only.entry(s.0 as usize).or_insert(true) &= goes_on;
                }
            }
        }
    }
    let copied = (report.rules.iter()).filter(|r| only.get(&r.stage) == Some(&true));
    copied.map(|r| r.packets).sum()
}

fn number(groups: &[Group]) -> u64 {
    groups.iter().map(|g| g.number).sum()
}

impl Hit {
    /// Classes, rules, boundaries: hit, and of those that can be.
    pub fn of(&self) -> [(u64, u64, u64); 3] {
        let c = &self.counts;
        let all = [
            (c.classes_hit, c.classes),
            (c.rules_hit, c.rules),
            (c.bounds_hit, c.bounds),
        ];
        let mut out = [(0, 0, 0); 3];
        for ((o, (hit, of)), never) in out.iter_mut().zip(all).zip(&self.never) {
            let never = number(never);
            *o = (hit, of.saturating_sub(never), never);
        }
        out
    }
}

/// Takes together what was hit.
pub fn hit(program: &Arc<Program>, directed: Option<Directed>, outcome: &Outcome) -> Hit {
    let mut coverage = match &directed {
        Some(d) => d.coverage.clone(),
        None => Coverage::new(program.clone()),
    };
    for r in outcome.report.iter().flat_map(|r| &r.rules) {
        if r.packets > 0 {
            coverage.mark_rule(r.stage, r.rule);
        }
    }
    let account = match directed {
        Some(mut d) => d.account(coverage.clone()),
        None => Account::default(),
    };
    let mut never: [BTreeMap<&str, Group>; 3] = Default::default();
    fn add<'a>(to: &mut BTreeMap<&'a str, Group>, why: &'a str, what: impl FnOnce() -> String) {
        let g = to.entry(why).or_insert_with(|| Group {
            reason: why.to_string(),
            number: 0,
            some: Vec::new(),
        });
        g.number += 1;
        if g.some.len() < EXAMPLES {
            g.some.push(what());
        }
    }
    let mut dead: BTreeMap<(usize, usize), &str> = BTreeMap::new();
    for (g, why) in &account.never {
        let i = if g.side.is_some() { 2 } else { 1 };
        add(&mut never[i], why, || goal_text(program, g));
        if g.side.is_none() {
            dead.insert((g.stage, g.rule), why);
        }
    }
    // a class is unreachable when all its rules are
    for (i, s) in program.stages.iter().enumerate() {
        let mut alive: BTreeSet<u32> = BTreeSet::new();
        let mut why: BTreeMap<u32, &str> = BTreeMap::new();
        for (j, r) in s.rules.iter().enumerate() {
            match dead.get(&(i, j)) {
                Some(w) => {
                    why.entry(r.action.0).or_insert(w);
                }
                None => {
                    alive.insert(r.action.0);
                }
            }
        }
        for (a, w) in why.iter().filter(|(a, _)| !alive.contains(a)) {
            add(&mut never[0], w, || format!("stage {i} class {a}"));
        }
    }
    let missing = account.missing.iter().map(|((bound, reason), goals)| {
        let some = goals.iter().take(MISSING).map(|g| goal_text(program, g));
        let group = Group {
            reason: reason.to_string(),
            number: goals.len() as u64,
            some: some.collect(),
        };
        (*bound, group)
    });
    let wrong = account.wrong.iter().map(|(g, why)| {
        let what = goal_text(program, g);
        format!("{what}: hit, but said to be unreachable: {why}")
    });
    let [classes, rules, bounds] = never.map(|m| {
        let mut l: Vec<Group> = m.into_values().collect();
        l.sort_by_key(|g| std::cmp::Reverse(g.number));
        l
    });
    Hit {
        counts: coverage.counts(),
        missing: missing.collect(),
        wrong: wrong.collect(),
        never: [classes, rules, bounds],
        notes: program.notes.clone(),
        undecided: (outcome.report.as_ref())
            .map_or(0, |r| r.punted().saturating_sub(copies(program, r))),
    }
}

fn goal_text(p: &Program, g: &Goal) -> String {
    let Some(stage) = p.stages.get(g.stage) else {
        return String::new();
    };
    let rule = stage.rules.get(g.rule);
    let at = format!("stage {} rule {}", g.stage, g.rule);
    let words = Words::for_stage(p, stage);
    match (g.side, rule) {
        (Some((dim, side)), Some(rule)) => {
            let Some((d, set)) = rule.filter.0.get(dim) else {
                return at;
            };
            let sides = sides(set, width(p, *d));
            let Some((v, inside)) = sides.get(side) else {
                return at;
            };
            let words = words.with(&rule.filter);
            let value = words.condition(*d, &ValueSet::one(*v));
            let side = if *inside { "inside" } else { "outside" };
            format!("{at}: {value}, {side}")
        }
        (_, Some(rule)) => {
            let filter: String = words.filter(&rule.filter).chars().take(160).collect();
            format!("{at}: {filter}")
        }
        _ => at,
    }
}

/// Groups as JSON.
pub fn json<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<serde_json::Value> {
    let one = |g: &Group| {
        serde_json::json!({
        "reason": g.reason, "number": g.number, "some": g.some })
    };
    groups.map(one).collect()
}

/// As text.
pub fn print(hit: &Hit, report: &Report, o: &Outcome, generated: bool) {
    let names = ["classes", "rules", "sides of filter boundaries"];
    for (name, (n, of, never)) in names.iter().zip(hit.of()) {
        let cannot = match never {
            0 => String::new(),
            n => format!(" ({} cannot: proved)", thousands(n)),
        };
        let can = if generated { " that can be hit" } else { "" };
        crate::say!(
            "  {name}: {} of {}{can}{cannot}, {}",
            thousands(n),
            thousands(of),
            percent(n, of)
        );
    }
    for (name, groups) in names.iter().zip(&hit.never).skip(1) {
        for g in groups.iter().take(REASONS) {
            crate::say!("    {:>9} {name} cannot: {}", thousands(g.number), g.reason);
            for s in g.some.iter().take(1) {
                crate::say!("              {s}");
            }
        }
        let rest = groups.get(REASONS..).unwrap_or(&[]);
        if !rest.is_empty() {
            let n = thousands(number(rest));
            crate::say!("    {n:>9} {name} cannot, for {} other reasons", rest.len());
        }
    }
    if !hit.missing.is_empty() {
        crate::say!("  NOT HIT, and not proved to be unreachable:");
    }
    for (bound, g) in &hit.missing {
        let what = if *bound { "sides" } else { "rules" };
        crate::say!(
            "    {:>9} {what}: {}; for instance",
            thousands(g.number),
            g.reason
        );
        for s in g.some.iter().take(EXAMPLES) {
            crate::say!("              {s}");
        }
    }
    for w in &hit.wrong {
        crate::say!("  INTERNAL ERROR: {w}");
    }
    let punted = report.punted();
    let rest = o.packets.saturating_sub(hit.undecided);
    crate::say!(
        "  {} of packets reached an output or a drop by rule, {} packets or copies of them were punted",
        percent(rest, o.packets),
        thousands(punted),
    );
    let mut punts: Vec<_> = report.punts.iter().filter(|p| p.packets > 0).collect();
    punts.sort_by_key(|p| std::cmp::Reverse(p.packets));
    for p in punts {
        let how = if p.asked { " (asked, and went on)" } else { "" };
        let n = thousands(p.packets);
        crate::say!("    {n:>9} {}: {}{how}", p.element, p.cause);
    }
    for n in &hit.notes {
        crate::say!("  note: {n}");
    }
}
