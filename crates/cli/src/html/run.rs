//! The page of `onefold run --html`: what passed where, what was dropped when and why, by which rules.

use super::overview::Counted;
use super::{card, data, esc, graph_section, head, page, time};
use crate::alerts::Alerts;
use crate::cmd::run::{Made, report};
use crate::common::thousands;
use crate::links::{self, Counts};
use crate::program;
use crate::rules::{self, Row};
use crate::runner::Outcome;
use onefold_chain::Chain;
use std::fmt::Write;

/// Classes, rules, alerts and drops that the page shows of each, those with most packets.
const MOST: usize = 60;

/// A run that has ended.
pub struct Ran<'a> {
    /// The chain.
    pub chain: &'a Chain,
    /// What happened.
    pub outcome: &'a Outcome,
    /// Its program, if there was one.
    pub made: Option<&'a Made<'a>>,
    /// What crossed links between functions, and what the operator's rules decided.
    pub counts: &'a Counts,
    /// What rules on payloads have found.
    pub alerts: &'a [Alerts],
}

/// The page.
pub fn run_page(r: &Ran<'_>) -> String {
    let counted = Counted::of(r.chain, r.outcome, &r.counts.links);
    let mut b = head(r.chain);
    account(&mut b, r.outcome);
    b.push_str("<h2 id=\"graph\">The chain</h2>");
    b.push_str(&graph_section(r.chain, Some(&counted)));
    drops(&mut b, r.outcome);
    if let Some(h) = &r.outcome.history {
        b.push_str("<section id=\"over-time\"><h2>Packets over time</h2>");
        time::packets(&mut b, h);
        b.push_str("</section>");
    }
    ports(&mut b, r.outcome);
    alerts(&mut b, r.alerts);
    listed(&mut b, &r.counts.rules);
    classes(&mut b, r);
    if !r.outcome.warnings.is_empty() {
        b.push_str("<section><h2>Warnings</h2><ul>");
        for w in &r.outcome.warnings {
            // writing to a String cannot fail
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
    let over_time = r.outcome.history.as_ref().map(time::json);
    let ran = serde_json::json!({ "links": links::json(&r.counts.links), "over_time": over_time });
    b.push_str(&data("ran", &ran));
    page(&format!("{} - run", r.chain.name), &b)
}

/// In, out, and all between.
fn account(b: &mut String, o: &Outcome) {
    let t = &o.totals;
    let seconds = o.seconds.max(1e-9);
    b.push_str("<section><h2>What happened to the packets</h2>");
    if o.interrupted {
        b.push_str("<p class=\"mut\">interrupted: this is what happened until then</p>");
    }
    b.push_str("<div class=\"cards\">");
    for (name, value) in [
        ("in", thousands(t.packets_in)),
        ("created", thousands(t.created)),
        ("out", thousands(t.sent)),
        ("dropped", thousands(t.dropped)),
        ("held", thousands(t.held)),
        (
            "rate",
            format!("{:.2} Mpps", t.packets_in as f64 / seconds / 1e6),
        ),
        (
            "per packet",
            format!("{:.0} ns", seconds * 1e9 / t.packets_in.max(1) as f64),
        ),
        ("from first to last", format!("{:.3} s", o.span)),
    ] {
        card(b, name, &value);
    }
    b.push_str("</div>");
    let _ = write!(
        b,
        "<p class=\"{}\">in + created {} out + dropped + held</p></section>",
        if t.balanced() { "good" } else { "bad" },
        if t.balanced() { "=" } else { "\u{2260}" }
    );
}

fn drops(b: &mut String, o: &Outcome) {
    b.push_str("<section id=\"drops\"><h2>Drops by reason</h2>");
    if o.drops_by_element.is_empty() {
        b.push_str("<p>Nothing was dropped.</p></section>");
        return;
    }
    if let Some(h) = &o.history {
        time::drops(b, h);
    }
    let most = o.drops_by_element.first().map_or(1, |d| d.packets.max(1));
    b.push_str("<table class=\"bars\"><tr><th>reason<th>where<th>packets<th class=\"w\"></tr>");
    for d in o.drops_by_element.iter().take(MOST) {
        let width = (d.packets as f64 / most as f64 * 100.0).max(0.5);
        let _ = write!(
            b,
            "<tr><td>{}<td>{}<td class=\"n\">{}<td class=\"w\"><i style=\"width:{width:.1}%\"></i></tr>",
            esc(&d.told()),
            esc(&d.at()),
            thousands(d.packets)
        );
    }
    b.push_str("</table>");
    more(b, o.drops_by_element.len());
    b.push_str("</section>");
}

/// Says that there are more than are shown.
fn more(b: &mut String, all: usize) {
    if all > MOST {
        let more = thousands((all - MOST) as u64);
        let _ = write!(b, "<p class=\"mut\">{more} more: --json has all</p>");
    }
}

fn ports(b: &mut String, o: &Outcome) {
    b.push_str(
        "<section id=\"ports\"><h2>Ports</h2><table>\
         <tr><th>port<th>packets in<th>bytes in<th>packets out<th>bytes out</tr>",
    );
    for (n, i, out) in &o.ports {
        let _ = write!(
            b,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
            esc(n),
            thousands(i.packets),
            thousands(i.bytes),
            thousands(out.packets),
            thousands(out.bytes)
        );
    }
    b.push_str("</table>");
    let lost = (o.interfaces.iter()).flat_map(|i| i.losses.iter().map(move |l| (&i.name, l)));
    let mut lost = lost.filter(|(_, l)| l.packets > 0).peekable();
    if lost.peek().is_some() {
        b.push_str(
            "<table><tr><th>port<th>lost in front of the chain or behind it<th>packets</tr>",
        );
        for (port, l) in lost {
            let _ = write!(
                b,
                "<tr><td>{}<td>{}<td class=\"n\">{}</tr>",
                esc(port),
                esc(l.reason),
                thousands(l.packets)
            );
        }
        b.push_str("</table>");
    }
    b.push_str("</section>");
}

fn alerts(b: &mut String, all: &[Alerts]) {
    b.push_str("<section id=\"alerts\"><h2>Alerts</h2>");
    if all.is_empty() {
        b.push_str("<p>No rule on payloads has alerted or dropped.</p></section>");
        return;
    }
    b.push_str(
        "<table><tr><th>packets<th>bytes<th>what became of them<th>sid<th>message<th>function<th>rule</tr>",
    );
    for a in all.iter().take(MOST) {
        let (packets, bytes) = a.count();
        let _ = write!(
            b,
            "<tr><td class=\"n\">{}<td class=\"n\">{}<td>{}<td class=\"n\">{}<td>{}<td>{}<td>{}</tr>",
            thousands(packets),
            thousands(bytes),
            a.action(),
            a.sid().map_or_else(|| "-".to_string(), |s| s.to_string()),
            esc(a.message()),
            esc(a.function()),
            esc(&a.place())
        );
    }
    b.push_str("</table>");
    more(b, all.len());
    b.push_str("</section>");
}

/// The operator's rules, those with most packets first.
fn listed(b: &mut String, rows: &[Row]) {
    b.push_str("<section id=\"rules\"><h2>Rules by hits</h2>");
    if rows.is_empty() {
        b.push_str("<p>The chain has no list of rules of the operator's.</p></section>");
        return;
    }
    let mut hit: Vec<&Row> = rows.iter().filter(|r| r.count.packets > 0).collect();
    hit.sort_by_key(|r| std::cmp::Reverse(r.count.packets));
    let _ = write!(
        b,
        "<p>{} of {} rules had packets.</p>",
        thousands(hit.len() as u64),
        thousands(rows.len() as u64)
    );
    if !hit.is_empty() {
        b.push_str("<table><tr><th>packets<th>bytes<th>verdict<th>rule<th>list<th>place</tr>");
    }
    for r in hit.iter().take(MOST) {
        let _ = write!(
            b,
            "<tr><td class=\"n\">{}<td class=\"n\">{}<td>{}<td>{}<td>{}/{}<td>{}</tr>",
            thousands(r.count.packets),
            thousands(r.count.bytes),
            esc(&r.verdict),
            esc(&r.text),
            esc(&r.nf),
            esc(&r.element),
            esc(&format!("{}:{}", r.loc.file, r.loc.line))
        );
    }
    if !hit.is_empty() {
        b.push_str("</table>");
    }
    more(b, hit.len());
    b.push_str("</section>");
}

/// Traffic classes, those with most packets first.
fn classes(b: &mut String, r: &Ran<'_>) {
    b.push_str("<section id=\"classes\"><h2>Traffic classes by packets</h2>");
    let (Some(m), Some(ran)) = (r.made, &r.outcome.program) else {
        b.push_str("<p>There was no program: the chain ran as it is written.</p></section>");
        return;
    };
    let [reference, program, flow] = r.outcome.levels.map(thousands);
    let _ = write!(
        b,
        "<p>{flow} packets as the flow table remembers, {program} by the program, {reference} element by element.</p>"
    );
    let p = &m.synthesized.program;
    let hit = report::shown_classes(ran);
    let all = hit.iter().map(|c| c.packets).sum::<u64>().max(1) as f64;
    let made = rules::made(p);
    if !hit.is_empty() {
        b.push_str(
            "<table class=\"bars\"><tr><th>class<th>packets<th>bytes<th class=\"w\"><th>what becomes of them</tr>",
        );
    }
    for c in hit.iter().take(MOST) {
        let action = report::action_of(p, c);
        let by = made.get(&(c.stage, c.action));
        let _ = write!(
            b,
            "<tr><td>{}.{}<td class=\"n\">{}<td class=\"n\">{}\
             <td class=\"w\"><i style=\"width:{:.1}%\"></i><td>{}</tr>",
            c.stage,
            c.action,
            thousands(c.packets),
            thousands(c.bytes),
            (c.packets as f64 * 100.0 / all).max(0.5),
            esc(&format!(
                "{}{}",
                action.map_or(String::new(), |a| program::end(m.graph, a)),
                by.map_or(String::new(), |by| by.told(m.graph))
            ))
        );
    }
    if !hit.is_empty() {
        b.push_str("</table>");
    }
    more(b, hit.len());
    b.push_str("</section>");
}
