//! The page of `onefold bench sched --html`.

use super::{esc, page};
use crate::bench::sched::report::{SchedReport, digits, mark};
use std::fmt::Write;

const COLOURS: [&str; 12] = [
    "#0b6e63", "#d98200", "#6750a4", "#b3261e", "#006299", "#5b6b00", "#9c1c5a", "#3e7d32",
    "#8a5a00", "#455a9c", "#008c8c", "#7a7a7a",
];
/// Of the plot: where bars begin, their greatest length, height of a bar, room between settings.
const LEFT: f64 = 260.0;
const WIDE: f64 = 560.0;
const BAR: f64 = 16.0;
const GAP: f64 = 14.0;

/// The page.
pub fn sched_page(reports: &[SchedReport]) -> String {
    let mut b = String::new();
    for r in reports {
        experiment(&mut b, r);
    }
    let title = match reports {
        [one] => one.title,
        _ => "Scheduling of functions in processes",
    };
    page(title, &b)
}

fn experiment(b: &mut String, r: &SchedReport) {
    // writing to a String cannot fail
    let _ = write!(
        b,
        "<header><h1>{}</h1><p>{}</p><p>{}. {}</p><p class=\"mut\">{}</p></header>",
        esc(r.title),
        esc(r.shows),
        esc(&r.conditions()),
        esc(&r.machine.line()),
        esc(r.shrunk)
    );
    if r.interrupted {
        b.push_str("<p class=\"bad\">interrupted: not everything was measured</p>");
    }
    let _ = write!(b, "<section><h2>{}</h2>{}</section>", esc(r.plot), plot(r));
    b.push_str("<section><h2>What is to hold</h2><table><tr><th>goal<th>got<th></tr>");
    for l in &r.lines {
        let class = match l.held {
            Some(false) => "bad",
            _ => "mut",
        };
        let _ = write!(
            b,
            "<tr><td>{}<td>{}<td class=\"{class}\">{}</tr>",
            esc(&l.goal),
            esc(&l.got),
            mark(l.held)
        );
    }
    let _ = write!(
        b,
        "</table></section><section><h2>Figures</h2><table><tr><th>{}<th>policy",
        esc(r.axis)
    );
    for f in r.figures() {
        let _ = write!(b, "<th>{}", esc(f));
    }
    b.push_str("</tr>");
    for c in &r.results.cells {
        let _ = write!(b, "<tr><td>{}<td>{}", esc(&c.setting), esc(&c.run));
        match &c.skipped {
            Some(why) => {
                let _ = write!(
                    b,
                    "<td colspan=\"{}\">not run: {}",
                    r.figures().count(),
                    esc(why)
                );
            }
            None => {
                for f in r.figures() {
                    let told = c.get(f).map_or("-".to_string(), |s| digits(s.median));
                    let _ = write!(b, "<td class=\"n\">{told}");
                }
            }
        }
        b.push_str("</tr>");
    }
    b.push_str("</table></section><section><h2>What others report</h2><dl class=\"published\">");
    for (source, reported) in r.published {
        let _ = write!(b, "<dt>{}</dt><dd>{}</dd>", esc(source), esc(reported));
    }
    b.push_str("</dl></section>");
    if !r.warnings.is_empty() {
        b.push_str("<section><h2>Remarks</h2><ul>");
        for w in &r.warnings {
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
}

/// A bar for each policy on each setting, with a stroke from the least round to the greatest.
fn plot(r: &SchedReport) -> String {
    let cells = &r.results.cells;
    let most = cells
        .iter()
        .filter_map(|c| c.get(r.plot))
        .map(|s| s.max)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return "<p>nothing was measured</p>".to_string();
    }
    let runs = r.results.runs();
    let settings = r.results.settings();
    let high = cells.len() as f64 * BAR + settings.len() as f64 * GAP + GAP;
    let mut s = format!(
        "<svg class=\"lines\" viewBox=\"0 0 {:.0} {high:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
            aria-label=\"{}\">",
        LEFT + WIDE + 90.0,
        esc(r.title)
    );
    let mut y = 0.0;
    let mut before = "";
    for c in cells {
        let first = c.setting != before;
        if first {
            y += GAP;
            before = &c.setting;
        }
        let colour = runs
            .iter()
            .position(|n| *n == c.run)
            .and_then(|i| COLOURS.get(i % COLOURS.len()));
        let label = match first && settings.len() > 1 {
            true => format!("{}: {}", c.setting, c.run),
            false => c.run.clone(),
        };
        let base = y + BAR - 4.0;
        let _ = write!(
            s,
            "<text class=\"y\" x=\"{:.0}\" y=\"{base:.1}\">{}</text>",
            LEFT - 8.0,
            esc(&label)
        );
        if let Some(v) = c.get(r.plot) {
            let x = |v: f64| LEFT + v / most * WIDE;
            let middle = y + BAR / 2.0;
            let _ = write!(
                s,
                "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
                 <line class=\"span\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#000\"/>\
                 <text class=\"key\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
                y + 2.0,
                x(v.median) - LEFT,
                BAR - 4.0,
                colour.unwrap_or(&"#000"),
                x(v.min),
                x(v.max),
                x(v.max) + 6.0,
                digits(v.median)
            );
        }
        y += BAR;
    }
    s.push_str("</svg>");
    s
}
