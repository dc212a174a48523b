//! Self-contained HTML pages: the graph drawn, and the report of a run. Nothing is loaded from anywhere.

use crate::common::thousands;
use crate::graphview;
use crate::runner::Outcome;
use onefold_chain::Chain;
use std::fmt::Write;

mod bench;
mod experiment;
mod explain;
mod layout;
mod live;
mod sched;

pub use bench::bench_page;
pub use experiment::experiment_page;
pub use explain::explain_page;
pub use live::live_page;
pub use sched::sched_page;

const CSS: &str = include_str!("../assets/page.css");
const JS: &str = include_str!("../assets/graph.js");

/// Text safe inside HTML and attributes.
pub(crate) fn esc(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn page(title: &str, body: &str) -> String {
    page_with(title, body, &[])
}

/// With scripts of the page's own.
fn page_with(title: &str, body: &str, scripts: &[&str]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{CSS}</style></head><body>\n{body}\n<script>{JS}</script>",
        esc(title)
    );
    for s in scripts {
        page.push_str("<script>");
        page.push_str(s);
        page.push_str("</script>");
    }
    page.push_str("</body></html>\n");
    page
}

/// The page of `onefold show --html`.
pub fn graph_page(chain: &Chain) -> String {
    page(
        &format!("{} - graph", chain.name),
        &format!("{}{}", head(chain), graph_section(chain)),
    )
}

fn head(chain: &Chain) -> String {
    let mut h = format!(
        "<header><h1>{}</h1><p>{}</p>",
        esc(&chain.name),
        esc(&chain.description)
    );
    h.push_str("<ol class=\"functions\">");
    for f in &chain.functions {
        // writing to a String cannot fail
        let _ = write!(h, "<li><b>{}</b> {}</li>", esc(&f.name), f.kind);
    }
    h.push_str("</ol></header>");
    h
}

/// The graph as an SVG, with a search field and a panel for details.
fn graph_section(chain: &Chain) -> String {
    let drawn = layout::draw(chain);
    // `</` must not end the script element
    let data = graphview::json(chain)["nodes"]
        .to_string()
        .replace("</", "<\\/");
    format!(
        "<section class=\"graph\"><div class=\"bar\"><input id=\"find\" type=\"search\" placeholder=\"find an element, class or rule\" \
         aria-label=\"find\"><span id=\"found\"></span><button id=\"fit\">whole graph</button>\
         <small>drag to move, wheel to zoom, click an element for its configuration</small></div>\
         <div class=\"split\">{drawn}<aside id=\"details\"><p>Click an element.</p></aside></div>\
         <script type=\"application/json\" id=\"nodes\">{data}</script></section>"
    )
}

/// The page of `onefold run --html`.
pub fn run_page(chain: &Chain, o: &Outcome) -> String {
    let t = &o.totals;
    let seconds = o.seconds.max(1e-9);
    let mut b = head(chain);
    b.push_str("<section><h2>What happened to the packets</h2><div class=\"cards\">");
    let cards = [
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
        ("capture time", format!("{:.3} s", o.span)),
    ];
    for (name, value) in cards {
        let _ = write!(
            b,
            "<div class=\"card\"><span>{name}</span><b>{value}</b></div>"
        );
    }
    b.push_str("</div>");
    let _ = write!(
        b,
        "<p class=\"{}\">in + created {} out + dropped + held</p></section>",
        if t.balanced() { "good" } else { "bad" },
        if t.balanced() { "=" } else { "\u{2260}" }
    );
    b.push_str("<section><h2>Ports</h2><table><tr><th>port<th>packets in<th>bytes in<th>packets out<th>bytes out</tr>");
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
    b.push_str("</table></section><section><h2>Drops by reason</h2>");
    if o.drops_by_element.is_empty() {
        b.push_str("<p>Nothing was dropped.</p>");
    } else {
        let most = o
            .drops_by_element
            .iter()
            .map(|d| d.packets)
            .max()
            .unwrap_or(1)
            .max(1);
        b.push_str("<table class=\"bars\"><tr><th>reason<th>where<th>packets<th></tr>");
        for d in &o.drops_by_element {
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
    }
    b.push_str("</section>");
    if !o.warnings.is_empty() {
        b.push_str("<section><h2>Warnings</h2><ul>");
        for w in &o.warnings {
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
    b.push_str("<h2>The graph</h2>");
    b.push_str(&graph_section(chain));
    page(&format!("{} - run", chain.name), &b)
}

#[cfg(test)]
mod tests {
    #[test]
    fn markup_is_escaped() {
        assert_eq!(super::esc("<a b=\"&\">"), "&lt;a b=&quot;&amp;&quot;&gt;");
    }
}
