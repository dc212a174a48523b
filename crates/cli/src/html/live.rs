//! The page of `onefold bench live --html`.

use super::bench::step;
use super::{esc, page};
use crate::bench::live::text::conditions;
use crate::bench::live::{LiveReport, RowReport};
use crate::bench::text::number;
use onefold_bench::measure::Spread;
use std::fmt::Write;

/// Widths of the plots: names, bars, figures.
const LEFT: f64 = 330.0;
const PLOT: f64 = 560.0;
const RIGHT: f64 = 120.0;
/// Height of a bar and of its row.
const BAR: f64 = 18.0;
const ROW: f64 = 30.0;
/// Room for the axis.
const AXIS: f64 = 34.0;

/// A bar: name, median with extremes, text behind it.
type Bar = (String, Spread, String);

/// The page.
pub fn live_page(r: &LiveReport) -> String {
    let mut b = format!(
        "<header><h1>Live: {}</h1><p>{}</p><p>{}</p></header>",
        esc(r.experiment),
        esc(&conditions(r)),
        esc(&r.machine.line())
    );
    if r.interrupted {
        b.push_str("<p class=\"bad\">interrupted: not everything was measured</p>");
    }
    let bars = |of: fn(&RowReport) -> Option<Spread>, scale: f64| -> Vec<Bar> {
        (r.rows.iter())
            .filter_map(|row| Some((row.name.clone(), scaled(of(row)?, scale), String::new())))
            .collect()
    };
    section(
        &mut b,
        "Highest rate without too much loss, million packets per second",
        &bars(|r| r.throughput_pps, 1e-6),
    );
    section(
        &mut b,
        "Processor time of the process, nanoseconds per packet",
        &bars(|r| r.process_ns_per_packet, 1.0),
    );
    latency(&mut b, r);
    figures(&mut b, r);
    if !r.conclusions.is_empty() {
        b.push_str("<section><h2>What the figures say</h2><ul>");
        for c in &r.conclusions {
            let _ = write!(b, "<li>{}</li>", esc(c));
        }
        b.push_str("</ul></section>");
    }
    if !r.published.is_empty() {
        b.push_str("<section><h2>What others report</h2><dl class=\"published\">");
        for p in &r.published {
            // writing to a String cannot fail
            let _ = write!(b, "<dt>{}</dt><dd>{}</dd>", esc(p.source), esc(p.reported));
        }
        b.push_str("</dl></section>");
    }
    if !r.warnings.is_empty() {
        b.push_str("<section><h2>Remarks</h2><ul>");
        for w in &r.warnings {
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
    b.push_str(
        "<section><h2>How it was measured</h2><p>Two network namespaces with two pairs of virtual interfaces between \
         them; the generator on one core, the device on another. Rows take turns; bars are medians over the rounds, \
         strokes go from the least to the greatest. Processor time is that of nine tenths of the highest rate, the \
         kernel's part of receiving and sending included as far as it runs on the process's time.</p></section>",
    );
    page(&format!("Live: {}", r.experiment), &b)
}

fn scaled(s: Spread, by: f64) -> Spread {
    Spread {
        median: s.median * by,
        min: s.min * by,
        max: s.max * by,
    }
}

fn section(b: &mut String, title: &str, bars: &[Bar]) {
    if !bars.is_empty() {
        let _ = write!(
            b,
            "<section><h2>{}</h2>{}</section>",
            esc(title),
            plot(title, bars)
        );
    }
}

/// Latency at each load, a plot each.
fn latency(b: &mut String, r: &LiveReport) {
    let loads = r.rows.iter().map(|r| r.loads.len()).max().unwrap_or(0);
    for i in 0..loads {
        let at = r
            .rows
            .iter()
            .filter_map(|row| Some((row, row.loads.get(i)?)));
        let mut name = String::new();
        let mut bars = Vec::new();
        for (row, l) in at {
            name.clone_from(&l.name);
            for (p, s) in [("p50", l.p50), ("p99", l.p99)] {
                if let Some(s) = s {
                    bars.push((format!("{}, {p}", row.name), scaled(s, 1e-3), String::new()));
                }
            }
        }
        let title = format!("Latency at {name} load, microseconds from the intended send time");
        section(b, &title, &bars);
    }
}

fn plot(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|b| b.1.max).fold(0.0, f64::max).max(1e-9);
    let x = |v: f64| LEFT + v / most * PLOT;
    let high = ROW * bars.len() as f64;
    let mut s = format!(
        "<svg class=\"lines\" viewBox=\"0 0 {:.0} {:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         aria-label=\"{}\">",
        LEFT + PLOT + RIGHT,
        high + AXIS,
        esc(title)
    );
    let step = step(most);
    let mut v = 0.0;
    // Bound: at most ten steps fit
    while v <= most * 1.001 {
        let _ = write!(
            s,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{high:.1}\"/>\
             <text x=\"{0:.1}\" y=\"{1:.1}\">{2}</text>",
            x(v),
            high + 18.0,
            match step < 1.0 {
                true => format!("{v:.2}"),
                false => number(v),
            }
        );
        v += step;
    }
    for (i, (name, spread, _)) in bars.iter().enumerate() {
        let top = ROW * i as f64 + (ROW - BAR) / 2.0;
        let middle = top + BAR / 2.0;
        let _ = write!(
            s,
            "<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"#0b6e63\" \
             fill-opacity=\"0.75\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" style=\"text-anchor:start\">{}</text>",
            LEFT - 8.0,
            middle + 4.0,
            esc(name),
            (x(spread.median) - LEFT).max(0.5),
            x(spread.min),
            x(spread.max),
            x(spread.max) + 6.0,
            middle + 4.0,
            match spread.median < 10.0 {
                true => format!("{:.3}", spread.median),
                false => number(spread.median),
            }
        );
    }
    s.push_str("</svg>");
    s
}

fn figures(b: &mut String, r: &LiveReport) {
    b.push_str(
        "<section><h2>Figures</h2><table><tr><th>row<th>packets per second<th>min<th>max<th>overloaded<th>core busy\
         <th>process ns<th>core ns<th></tr>",
    );
    let f = |s: Option<Spread>, v: fn(Spread) -> f64| s.map_or("-".into(), |s| number(v(s)));
    for row in &r.rows {
        let busy = row
            .busy_share
            .map_or("-".into(), |s| format!("{:.0}%", s.median * 100.0));
        let _ = write!(
            b,
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{busy}\
             <td class=\"n\">{}<td class=\"n\">{}<td>{}</tr>",
            esc(&row.name),
            f(row.throughput_pps, |s| s.median),
            f(row.throughput_pps, |s| s.min),
            f(row.throughput_pps, |s| s.max),
            f(row.overloaded_pps, |s| s.median),
            f(row.process_ns_per_packet, |s| s.median),
            f(row.core_ns_per_packet, |s| s.median),
            esc(row.skipped.as_deref().unwrap_or(""))
        );
    }
    b.push_str("</table>");
    if !r.ratios.is_empty() {
        b.push_str("<table><tr><th>compared round by round<th>median<th>min<th>max</tr>");
        for x in &r.ratios {
            let v = |v: fn(Spread) -> f64| x.ratio.map_or("-".into(), |s| format!("{:.2}", v(s)));
            let _ = write!(
                b,
                "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
                esc(&x.name),
                v(|s| s.median),
                v(|s| s.min),
                v(|s| s.max)
            );
        }
        b.push_str("</table>");
    }
    b.push_str("</section>");
}
