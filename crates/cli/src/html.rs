//! Self-contained HTML pages: the graph drawn, and the report of a run. Nothing is loaded from anywhere.

use crate::graphview;
use onefold_chain::Chain;
use overview::Counted;
use std::fmt::Write;

mod among;
mod answer;
mod bench;
mod experiment;
mod explain;
mod layout;
mod live;
mod overview;
mod run;
mod sched;
mod time;

pub use bench::bench_page;
pub use experiment::experiment_page;
pub use explain::explain_page;
pub use live::live_page;
pub use run::{Ran, run_page};
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
        &format!("{}{}", head(chain), graph_section(chain, None)),
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

/// A card with a figure.
fn card(b: &mut String, name: &str, value: &str) {
    let _ = write!(
        b,
        "<div class=\"card\"><span>{}</span><b>{}</b></div>",
        esc(name),
        esc(value)
    );
}

/// JSON for a page's scripts.
fn data(id: &str, value: &serde_json::Value) -> String {
    // `</` must not end the script element
    let text = value.to_string().replace("</", "<\\/");
    format!("<script type=\"application/json\" id=\"{id}\">{text}</script>")
}

/// The graph as an SVG, functions first, with a search field and a panel for details; with what passed where, if it
/// has run.
fn graph_section(chain: &Chain, counted: Option<&Counted>) -> String {
    let drawn = layout::draw(chain, counted);
    let mut nodes = graphview::json(chain)["nodes"].take();
    if let (Some(counted), Some(nodes)) = (counted, nodes.as_array_mut()) {
        for (n, e) in nodes.iter_mut().zip(&chain.graph.elements) {
            let drops = counted.drops_of(&e.name);
            if !drops.is_null() {
                n["drops"] = drops;
            }
        }
    }
    let overview = overview::json(chain, counted);
    format!(
        "<section class=\"graph\"><div class=\"bar\"><span class=\"views\" role=\"group\" aria-label=\"what is shown\">\
         <button id=\"by-function\">functions</button><button id=\"by-element\">elements</button></span>\
         <input id=\"find\" type=\"search\" placeholder=\"find an element, class or rule\" aria-label=\"find\">\
         <span id=\"found\"></span><span class=\"views\"><button id=\"out\" aria-label=\"smaller\">\u{2212}</button>\
         <button id=\"in\" aria-label=\"larger\">+</button><button id=\"fit\">fit</button></span>\
         <small>click a function for its elements; drag to move, wheel (over functions with Ctrl) to zoom</small></div>\
         <div class=\"split\">{drawn}<aside id=\"details\"></aside></div>{}{}</section>",
        data("nodes", &nodes),
        data("overview", &overview)
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn markup_is_escaped() {
        assert_eq!(super::esc("<a b=\"&\">"), "&lt;a b=&quot;&amp;&quot;&gt;");
    }
}
