//! The page of `onefold explain --html`: what happens to which packets and why, readable with ten thousand classes.

use super::{answer, card, data, esc, graph_section, head, page_with};
use crate::common::thousands;
use crate::explain::{Explained, Fate, class_json, kinds, odd, summary};
use std::fmt::Write;

const JS: &str = include_str!("../../assets/explain.js");
/// Filters and origins of a class that the page holds.
const MOST: usize = 60;

/// The page: the answer first, then how the chain does it.
pub fn explain_page(x: &Explained<'_>) -> String {
    let mut b = head(x.chain);
    answer::section(&mut b, x);
    odd(&mut b, x);
    punts(&mut b, x);
    b.push_str("<h2 id=\"graph\">The chain</h2>");
    b.push_str(&graph_section(x.chain, None));
    b.push_str(
        "<section id=\"classes\"><h2>Traffic classes</h2><div class=\"bar\">\
         <input id=\"q\" type=\"search\" placeholder=\"filter, action, rule, file:line ...\" \
         aria-label=\"search classes\">\
         <label>group by <select id=\"group\"><option value=\"fate\">what becomes of them</option>\
         <option value=\"entry\">where they come in</option><option value=\"nf\">network function</option>\
         <option value=\"to\">port or element</option><option value=\"\">nothing</option></select></label>\
         <label>show <select id=\"fate\"><option value=\"\">all</option></select></label>\
         <span id=\"count\"></span><span class=\"pages\"><button id=\"prev\">back</button>\
         <span id=\"page\"></span><button id=\"next\">on</button></span>\
         </div><div id=\"list\"></div></section>",
    );
    inside(&mut b, x);
    let mut program = summary(x);
    program["classes"] = x
        .classes
        .iter()
        .filter(|c| c.fate != Fate::Never)
        .map(|c| {
            let mut v = class_json(x, c, MOST);
            // elements by number: names are in the graph's data
            v["path"] = c.path.iter().map(|e| e.0).collect();
            v
        })
        .collect();
    b.push_str(&data("program", &program));
    page_with(&format!("{} - explained", x.chain.name), &b, &[JS])
}

/// Operations by kind, stages, structures, notes.
fn inside(b: &mut String, x: &Explained<'_>) {
    b.push_str("<section id=\"inside\"><h2>Inside</h2><div class=\"cards\">");
    let n = |n: usize| thousands(n as u64);
    card(b, "packet filters", &n(x.rules()));
    card(b, "stages", &n(x.program.stages.len()));
    b.push_str("</div>");
    if let Some(c) = x.longest() {
        b.push_str("<h2>Operations on the longest way</h2><table><tr><th>operation<th>as written<th>synthesized</tr>");
        for k in kinds::KINDS {
            let (before, after) = (c.before.get(k), c.after.get(k));
            if before.is_some() || after.is_some() {
                let v = |o: Option<&u32>| o.map_or("\u{2013}".to_string(), u32::to_string);
                // writing to a String cannot fail
                let _ = write!(
                    b,
                    "<tr><td>{k}<td class=\"n\">{}<td class=\"n\">{}</tr>",
                    v(before),
                    v(after)
                );
            }
        }
        let _ = write!(
            b,
            "<tr><th>in all<td class=\"n\"><b>{}</b><td class=\"n\"><b>{}</b></tr></table>\
             <p class=\"mut\">Header checks ({} as written) are part of the one classification.</p>",
            kinds::total(&c.before),
            kinds::total(&c.after),
            c.checks.0
        );
    }
    b.push_str("</section>");
    b.push_str(&crate::explain::structures_html(x));
    if !x.program.notes.is_empty() {
        b.push_str("<section><h2>Notes</h2><ul>");
        for note in &x.program.notes {
            let _ = write!(b, "<li>{}</li>", esc(note));
        }
        b.push_str("</ul></section>");
    }
}

/// Rules that are surely not meant.
fn odd(b: &mut String, x: &Explained<'_>) {
    let Some(line) = odd::line(x) else {
        return;
    };
    let _ = write!(
        b,
        "<p id=\"odd\">{}: <code>onefold check {} --rules</code> says why.</p><ul>",
        esc(&line),
        esc(&x.named)
    );
    for rule in odd::named(x) {
        let _ = write!(b, "<li>{}</li>", esc(&rule));
    }
    b.push_str("</ul>");
}

fn punts(b: &mut String, x: &Explained<'_>) {
    b.push_str("<section><h2>What takes the slow way, element by element, and why</h2>");
    for (name, class) in &x.whole {
        let _ = write!(
            b,
            "<p>Packets that begin at {} ({}): the reference graph takes them whole.</p>",
            esc(name),
            esc(class)
        );
    }
    if x.punts.is_empty() {
        if x.whole.is_empty() {
            b.push_str("<p>Nothing.</p>");
        }
        b.push_str("</section>");
        return;
    }
    let rules = x.rules().max(1);
    b.push_str("<table class=\"bars\"><tr><th>cause<th>element<th>how<th>classes<th>filters<th>share of filters</tr>");
    for p in &x.punts {
        let share = p.rules as f64 * 100.0 / rules as f64;
        let how = if p.asked {
            "asked, then the fast path goes on"
        } else {
            "punted"
        };
        let _ = write!(
            b,
            "<tr><td>{}<td>{}<td>{how}<td class=\"n\">{}<td class=\"n\">{}<td class=\"w\">{share:.1}%<i style=\"width:{:.1}%\"></i></tr>",
            esc(&p.cause),
            esc(x.name(p.elem)),
            thousands(p.classes as u64),
            thousands(p.rules as u64),
            share.max(0.5)
        );
    }
    b.push_str("</table></section>");
}
