//! The first part of the page of `onefold explain --html`: what the chain lets through from where to where, what it
//! changes, what it drops, and what that costs.

use super::among::Among;
use super::{card, esc};
use crate::common::thousands;
use crate::explain::{Class, Explained, Fate, kinds};
use onefold_synth::program::{Action, End, Next, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Filters of a way, and reasons for drops, that are shown.
const FILTERS: usize = 4;
const DROPS: usize = 12;
/// Classes of elements with the operator's rules.
const LISTS: &[&str] = &["IPFilter", "IP6Filter", "PayloadFilter", "PayloadMatcher"];
/// Values of a field that are named.
const VALUES: usize = 2;

/// Stages that packets of an action may go on in.
fn nexts(a: &Action) -> Vec<usize> {
    let mut all = Vec::new();
    let mut add = |l: &[Next]| {
        for n in l {
            if let Next::Stage(s) = n {
                all.push(s.0 as usize);
            }
        }
    };
    for s in &a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            add(pass);
            // of a flow whose binding was made as this action says, the action's end is what comes
            if matches!(a.end, End::Unreachable) {
                add(bound);
            }
        }
    }
    match &a.end {
        End::Goto(s) => add(&[Next::Stage(*s)]),
        End::Write { next, .. } => add(&[Next::Stage(*next)]),
        End::Fork(l) => add(l),
        End::Ask { outputs, .. } => add(outputs),
        _ => {}
    }
    all
}

/// Where packets of each stage may leave the chain: ports.
fn exits<'x>(x: &'x Explained<'_>) -> Vec<BTreeSet<&'x str>> {
    let mut exits: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); x.program.stages.len()];
    for c in x.classes.iter().filter(|c| c.fate == Fate::Leaves) {
        if let Some(e) = exits.get_mut(c.stage) {
            e.insert(&c.to);
        }
    }
    let ways: Vec<BTreeSet<usize>> = (x.program.stages.iter())
        .map(|s| s.actions.iter().flat_map(nexts).collect())
        .collect();
    // Bound: each round but the last adds a port to a stage
    loop {
        let mut grown = false;
        for (i, to) in ways.iter().enumerate() {
            let more: BTreeSet<&str> = (to.iter().filter_map(|n| exits.get(*n)))
                .flatten()
                .copied()
                .collect();
            if let Some(e) = exits.get_mut(i) {
                let before = e.len();
                e.extend(more);
                grown |= e.len() > before;
            }
        }
        if !grown {
            return exits;
        }
    }
}

/// Ports where packets of a class may leave.
fn exits_of<'x>(
    x: &'x Explained<'_>,
    c: &'x Class,
    exits: &[BTreeSet<&'x str>],
) -> BTreeSet<&'x str> {
    let mut all = BTreeSet::new();
    if c.fate == Fate::Leaves {
        all.insert(c.to.as_str());
    }
    let stage = x.program.stages.get(c.stage);
    if let Some(a) = stage.and_then(|s| s.actions.get(c.action)) {
        for n in nexts(a) {
            all.extend(exits.get(n).into_iter().flatten());
        }
    }
    all
}

/// From one port to another one.
#[derive(Default)]
struct Way {
    classes: usize,
    filters: usize,
    among: Among,
    /// The first ones.
    shown: Vec<String>,
    /// What is done, in order of first mention: a field and its values, or something else.
    changes: Vec<(String, BTreeSet<String>)>,
}

impl Way {
    /// One of the things that are done to a class.
    fn does(&mut self, what: &str) {
        let (field, value) = match what.split_once(" = ") {
            // what is IPv4 stays IPv4
            Some(("eth.type", "0x0800" | "0x86dd")) => return,
            // a slot of the program
            Some((field, value)) if is_slot(value) => (field, "as bound"),
            Some((field, value)) => (field, value),
            None if what.contains("checksum") || what.contains("finds or makes") => (what, ""),
            None => return,
        };
        let at = match self.changes.iter().position(|c| c.0 == field) {
            Some(at) => at,
            None => {
                self.changes.push((field.to_string(), BTreeSet::new()));
                self.changes.len() - 1
            }
        };
        if let Some(c) = self.changes.get_mut(at).filter(|_| !value.is_empty()) {
            c.1.insert(value.to_string());
        }
    }

    fn changes(&self) -> Vec<String> {
        let one = |(field, values): &(String, BTreeSet<String>)| match values.len() {
            0 => field.clone(),
            n if n <= VALUES => {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                format!("{field} = {}", values.join(" or "))
            }
            n => format!("{field}: {} different values", thousands(n as u64)),
        };
        self.changes.iter().map(one).collect()
    }
}

/// `s12`: a value that is known at run time only.
fn is_slot(value: &str) -> bool {
    let number = value.strip_prefix('s');
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Stages that packets may come to from this one, which is one of them.
fn reached(x: &Explained<'_>, from: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(s) = open.pop() {
        let actions = x.program.stages.get(s).map_or(&[][..], |s| &s.actions);
        for n in actions.iter().flat_map(nexts) {
            if all.insert(n) {
                open.push(n);
            }
        }
    }
    all
}

/// By the ports where packets come in and leave.
fn ways<'x>(x: &'x Explained<'_>) -> BTreeMap<(&'x str, &'x str), Way> {
    let exits = exits(x);
    let mut ways: BTreeMap<(&str, &str), Way> = BTreeMap::new();
    for (stage, entry) in x.entry_of.iter().enumerate() {
        let Some(entry) = entry else { continue };
        let reached = reached(x, stage);
        for c in x.classes.iter().filter(|c| reached.contains(&c.stage)) {
            for to in exits_of(x, c, &exits) {
                let way = ways.entry((entry, to)).or_default();
                c.does.iter().for_each(|d| way.does(d));
                if c.stage != stage {
                    continue;
                }
                way.classes += 1;
                way.filters += c.rules.len();
                let room = FILTERS.saturating_sub(way.shown.len());
                let first = c.rules.iter().take(room);
                way.shown.extend(first.map(|r| x.filter(c.stage, *r)));
                c.rules.iter().for_each(|r| way.among.add(x, c.stage, *r));
            }
        }
    }
    ways
}

/// The answer.
pub fn section(b: &mut String, x: &Explained<'_>) {
    b.push_str("<section id=\"answer\"><h2>What is let through, and what is changed</h2>");
    let ways = ways(x);
    if ways.is_empty() {
        b.push_str("<p>Nothing leaves by the program.</p>");
    } else {
        b.push_str(
            "<table class=\"ways\"><tr><th>from<th>to<th>which packets<th>what is changed</tr>",
        );
    }
    // what goes through before what is turned round
    let mut ways: Vec<_> = ways.iter().collect();
    ways.sort_by_key(|((from, to), _)| from == to);
    for ((from, to), way) in &ways {
        // writing to a String cannot fail
        let _ = write!(b, "<tr><td><b>{}</b><td><b>{}</b><td>", esc(from), esc(to));
        list(b, &way.among.told(x));
        let _ = write!(
            b,
            "<details><summary>{} of {}</summary>",
            many(way.filters, "filter", "filters"),
            many(way.classes, "class", "classes")
        );
        list(b, &way.shown);
        if way.filters > way.shown.len() {
            b.push_str("<p class=\"mut\">and so on: all are under the classes below</p>");
        }
        b.push_str("</details>");
        b.push_str("<td>");
        match way.changes() {
            none if none.is_empty() => b.push_str("nothing"),
            all => list(b, &all),
        }
        b.push_str("</tr>");
    }
    if !ways.is_empty() {
        b.push_str(
            "</table><p class=\"mut\">As flows go that begin here, and replies to others. What is told of a \
             field holds for all packets that pass.</p>",
        );
    }
    b.push_str("</section>");
    dropped(b, x);
    costs(b, x);
}

/// So many of something.
fn many(n: usize, one: &str, more: &str) -> String {
    format!(
        "{} {}",
        thousands(n as u64),
        if n == 1 { one } else { more }
    )
}

fn list(b: &mut String, all: &[String]) {
    b.push_str("<ul>");
    for one in all {
        let _ = write!(b, "<li>{}</li>", esc(one));
    }
    b.push_str("</ul>");
}

/// What is dropped, by element and reason: first what the operator's rules drop, then those with most filters.
fn dropped(b: &mut String, x: &Explained<'_>) {
    let mut by: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for c in x.classes.iter().filter(|c| c.fate == Fate::Dropped) {
        let stage = x.program.stages.get(c.stage);
        let action = stage.and_then(|s| s.actions.get(c.action));
        if let Some(End::Drop { elem, reason }) = action.map(|a| &a.end) {
            let n = by.entry((x.name(*elem), reason)).or_default();
            n.0 += c.rules.len();
            n.1 += 1;
        }
    }
    b.push_str("<section id=\"dropped\"><h2>What is dropped</h2>");
    if by.is_empty() {
        b.push_str("<p>Nothing.</p></section>");
        return;
    }
    let listed = |element: &str| {
        let e = x.chain.graph.find(element);
        let e = e.and_then(|i| x.chain.graph.elements.get(i));
        e.is_some_and(|e| LISTS.contains(&e.class.as_str()))
    };
    let mut all: Vec<_> = by.into_iter().collect();
    all.sort_by_key(|d| std::cmp::Reverse((listed(d.0.0), d.1)));
    b.push_str("<table><tr><th>by<th>reason<th>filters<th>classes</tr>");
    for ((element, reason), (filters, classes)) in all.iter().take(DROPS) {
        let _ = write!(
            b,
            "<tr><td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
            esc(element),
            esc(reason),
            thousands(*filters as u64),
            thousands(*classes as u64)
        );
    }
    b.push_str("</table>");
    if all.len() > DROPS {
        let _ = write!(
            b,
            "<p class=\"mut\">{} more reasons, under the classes below</p>",
            all.len() - DROPS
        );
    }
    b.push_str("</section>");
}

/// What a look-up of headers where packets come in takes by estimate, in nanoseconds: the greatest of all entries.
fn look_up(x: &Explained<'_>) -> Option<f64> {
    let entered = |stage: usize| x.entry_of.get(stage).is_some_and(Option::is_some);
    let stages = x.structures.iter().filter(|s| entered(s.stage));
    let one = |s: &onefold_engine::program::StageReport| {
        let of = |v: &onefold_engine::program::ViewReport| {
            let chosen = v.structure.tried.iter().find(|t| t.chosen)?;
            Some(v.share * chosen.measured.unwrap_or(chosen.ns))
        };
        s.views.iter().filter_map(of).sum::<f64>()
    };
    stages.map(one).filter(|ns| *ns > 0.0).reduce(f64::max)
}

fn costs(b: &mut String, x: &Explained<'_>) {
    b.push_str("<section id=\"costs\"><h2>What it costs</h2><div class=\"cards\">");
    if let Some(c) = x.longest() {
        let (before, after) = (kinds::total(&c.before), kinds::total(&c.after));
        let value = format!("{before} \u{2192} {after}");
        card(b, "operations a packet, longest way", &value);
    }
    if let Some(ns) = look_up(x) {
        card(b, "look-up of headers, estimated", &format!("{ns:.0} ns"));
    }
    let memory: usize = (x.structures.iter())
        .flat_map(|s| &s.views)
        .map(|v| v.structure.memory)
        .sum();
    if memory > 0 {
        let value = format!("{} KiB", thousands(memory.div_ceil(1024) as u64));
        card(b, "memory of look-ups", &value);
    }
    let punted: usize = (x.punts.iter().filter(|p| !p.asked).map(|p| p.rules)).sum();
    let share = punted as f64 * 100.0 / x.rules().max(1) as f64;
    card(b, "filters left to the slow way", &format!("{share:.1}%"));
    card(b, "traffic classes", &thousands(x.classes.len() as u64));
    card(b, "synthesized in", &format!("{:.3} s", x.seconds));
    b.push_str(
        "</div><p class=\"mut\">Packets of a flow that is known cost one look-up in the flow table and one \
         write, however many functions there are.</p></section>",
    );
}
