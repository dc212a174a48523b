//! The page of `onefold bench --experiment --html`.

use super::{esc, page};
use crate::bench::experiment::text::{Scaled, conditions, place, scale_y};
use crate::bench::text::{fate, number};
use onefold_bench::experiment::ExperimentReport;
use onefold_bench::measure::Spread;
use std::fmt::Write;

/// Where the plot is: left, top, width, height, and of a line of the key.
const LEFT: f64 = 80.0;
const TOP: f64 = 16.0;
const WIDE: f64 = 760.0;
const HIGH: f64 = 420.0;
const KEY: f64 = 18.0;
/// Colours of lines, one for each level of a series' colour family.
const COLOURS: [&str; 12] = [
    "#0b6e63", "#d98200", "#6750a4", "#b3261e", "#006299", "#5b6b00", "#9c1c5a", "#3e7d32",
    "#8a5a00", "#455a9c", "#008c8c", "#7a7a7a",
];

/// A line of the plot.
struct Drawn {
    name: String,
    colour: &'static str,
    ours: bool,
    points: Vec<(f64, Spread, String)>,
}

fn lines(r: &ExperimentReport) -> Vec<Drawn> {
    let mut colours = COLOURS.into_iter().cycle();
    let mut all: Vec<Drawn> = (r.series.iter())
        .map(|s| Drawn {
            name: s.name(),
            colour: colours.next().unwrap_or("#000"),
            ours: true,
            points: (s.points.iter())
                .filter_map(|p| Some((p.x, p.y?, p.label.clone())))
                .filter(|p| p.1.median.is_finite())
                .collect(),
        })
        .collect();
    all.extend(r.published.iter().flat_map(|p| &p.lines).map(|l| {
        Drawn {
            name: l.name.to_string(),
            colour: colours.next().unwrap_or("#000"),
            ours: false,
            points: (l.points.iter())
                .map(|(x, v)| {
                    let s = Spread {
                        median: *v,
                        min: *v,
                        max: *v,
                    };
                    (*x, s, place(*x))
                })
                .collect(),
        }
    }));
    all.retain(|d| !d.points.is_empty());
    all
}

/// The page.
pub fn experiment_page(r: &ExperimentReport) -> String {
    let mut b = format!(
        "<header><h1>{}</h1><p>{}</p><p>{}</p><p>{}</p></header>",
        esc(r.title),
        esc(r.shows),
        esc(&conditions(r)),
        esc(&r.machine.line())
    );
    if r.interrupted {
        b.push_str("<p class=\"bad\">interrupted: not everything was measured</p>");
    }
    // writing to a String cannot fail
    let _ = write!(
        b,
        "<section><h2>{}</h2><p class=\"mut\">Medians; upright strokes go from the least to the greatest slice. Dashed: what others report, on \
         other machines. The ceiling is the same packets copied into the same buffers and looked at.</p>",
        esc(r.y.text())
    );
    b.push_str(&plot(r));
    b.push_str("</section>");
    if !r.ratios.is_empty() {
        b.push_str(
            "<section><h2>Rates compared</h2><table><tr><th>rate<th>median<th>min<th>max</tr>",
        );
        for x in &r.ratios {
            let f = |f: fn(Spread) -> f64| x.rate.map_or("-".into(), |s| format!("{:.3}", f(s)));
            let _ = write!(
                b,
                "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}</tr>",
                esc(&x.name),
                f(|s| s.median),
                f(|s| s.min),
                f(|s| s.max)
            );
        }
        b.push_str("</table></section>");
    }
    figures(&mut b, r);
    b.push_str("<section><h2>What others report</h2><dl class=\"published\">");
    for p in &r.published {
        let _ = write!(
            b,
            "<dt>{}</dt><dd class=\"mut\">{}</dd><dd>{}</dd>",
            esc(p.source),
            esc(p.setting),
            esc(p.reported)
        );
        if let Some(e) = p.erratum {
            let _ = write!(b, "<dd class=\"erratum\">erratum: {}</dd>", esc(e));
        }
        for l in &p.lines {
            let all: Vec<_> = (l.points.iter())
                .map(|(x, v)| format!("{}: {}", place(*x), number(*v)))
                .collect();
            let _ = write!(b, "<dd>{}: {}</dd>", esc(l.name), esc(&all.join(", ")));
        }
    }
    b.push_str("</dl></section>");
    if !r.warnings.is_empty() {
        b.push_str("<section><h2>Remarks</h2><ul>");
        for w in &r.warnings {
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
    page(r.title, &b)
}

/// The places where an axis has a number.
fn ticks(s: &Scaled, values: &[f64]) -> Vec<f64> {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let mut out = Vec::new();
    if s.is_log() {
        let mut v = 10f64.powf(least.max(1e-9).log10().floor());
        // Bound: 30 powers of ten.
        for _ in 0..30 {
            let steps: &[f64] = if most / least > 1000.0 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            out.extend(
                steps
                    .iter()
                    .map(|k| v * k)
                    .filter(|t| *t >= least * 0.999 && *t <= most * 1.001),
            );
            v *= 10.0;
        }
        return out;
    }
    let span = (most - least).max(1e-9);
    let step = super::bench::step(span);
    let mut v = (least / step).ceil() * step;
    // Bound: at most ten steps fit, or a span of nothing has one.
    while v <= most + step / 100.0 && out.len() < 40 {
        out.push(v);
        v += step;
    }
    out
}

fn plot(r: &ExperimentReport) -> String {
    let all = lines(r);
    let xs: Vec<f64> = all
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.0))
        .collect();
    let mut values: Vec<f64> = (all.iter())
        .flat_map(|l| l.points.iter().flat_map(|p| [p.1.median, p.1.min, p.1.max]))
        .collect();
    if xs.is_empty() {
        return "<p>nothing was measured</p>".into();
    }
    let sx = Scaled::new(xs.iter().copied(), r.x.log);
    let sy = scale_y(values.iter().copied());
    if !sy.is_log() {
        values.push(0.0);
    }
    let x = |v: f64| LEFT + sx.at(v) * WIDE;
    let y = |v: f64| TOP + (1.0 - sy.at(v)) * HIGH;
    let key = TOP + HIGH + 60.0;
    let mut s = format!(
        "<svg class=\"lines\" viewBox=\"0 0 {:.0} {:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{}\">",
        LEFT + WIDE + 40.0,
        key + KEY * all.len() as f64,
        esc(r.title)
    );
    for v in ticks(&sy, &values) {
        let _ = write!(
            s,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/><text class=\"y\" x=\"{3:.1}\" y=\"{4:.1}\">{1}</text>",
            LEFT + WIDE,
            number(v),
            y(v),
            LEFT - 8.0,
            y(v) + 4.0
        );
    }
    let mut places: Vec<(f64, &str)> = Vec::new();
    for p in r.series.iter().flat_map(|s| &s.points) {
        if !places.iter().any(|(x, _)| *x == p.x) {
            places.push((p.x, &p.label));
        }
    }
    for (v, label) in places {
        let _ = write!(
            s,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{TOP}\" y2=\"{1:.1}\"/><text x=\"{0:.1}\" y=\"{2:.1}\">{3}</text>",
            x(v),
            TOP + HIGH,
            TOP + HIGH + 18.0,
            esc(label)
        );
    }
    let _ = write!(
        s,
        "<text x=\"{:.0}\" y=\"{:.0}\">{}{}</text>",
        LEFT + WIDE / 2.0,
        TOP + HIGH + 40.0,
        esc(r.x.name),
        if r.x.log { " (logarithmic)" } else { "" }
    );
    for (i, l) in all.iter().enumerate() {
        let path: Vec<String> = (l.points.iter())
            .enumerate()
            .map(|(i, p)| {
                format!(
                    "{}{:.1} {:.1}",
                    if i == 0 { "M" } else { "L" },
                    x(p.0),
                    y(p.1.median)
                )
            })
            .collect();
        let class = if l.ours { "ours" } else { "theirs" };
        let _ = write!(
            s,
            "<g stroke=\"{0}\" fill=\"{0}\"><path class=\"{class}\" d=\"{1}\"/>",
            l.colour,
            path.join(" ")
        );
        for (px, v, label) in &l.points {
            let _ = write!(
                s,
                "<line class=\"span\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>\
                 <circle cx=\"{0:.1}\" cy=\"{3:.1}\" r=\"3.4\"><title>{4} at {5}: {6} ({7} to {8})</title></circle>",
                x(*px),
                y(v.min),
                y(v.max),
                y(v.median),
                esc(&l.name),
                esc(label),
                number(v.median),
                number(v.min),
                number(v.max)
            );
        }
        let ky = key + KEY * i as f64;
        let _ = write!(
            s,
            "<path class=\"{class}\" d=\"M{LEFT} {ky:.1}L{:.1} {ky:.1}\"/></g><text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + 34.0,
            LEFT + 42.0,
            ky + 4.0,
            esc(&l.name)
        );
    }
    s.push_str("</svg>");
    s
}

fn figures(b: &mut String, r: &ExperimentReport) {
    let _ = write!(
        b,
        "<section><h2>Figures</h2><table><tr><th>line<th>{}<th>above the ceiling<th>median<th>min<th>max<th>ceiling<th>MAC swap<th>Mpps<th>wall Mpps<th>flows<th>bytes per flow<th>left<th>built in<th>packets</tr>",
        esc(r.x.name)
    );
    for s in &r.series {
        for p in &s.points {
            let c = &p.measured;
            let of =
                |s: Option<Spread>, f: fn(Spread) -> f64| s.map_or("-".into(), |s| number(f(s)));
            let wall = c.wall_ns_per_packet.map_or("-".into(), |s| {
                format!("{:.2}", 1000.0 / s.median.max(1e-3))
            });
            let cells = [
                of(c.above_ceiling_ns, |s| s.median),
                of(c.ns_per_packet, |s| s.median),
                of(c.ns_per_packet, |s| s.min),
                of(c.ns_per_packet, |s| s.max),
                of(c.ceiling_ns, |s| s.median),
                of(c.mac_swap_ns, |s| s.median),
                c.mpps.map_or("-".into(), |s| format!("{:.2}", s.median)),
                wall,
                place(p.flows as f64),
                p.bytes_per_flow.map_or("-".into(), number),
                format!("{:.1}%", c.share_out * 100.0),
                format!("{:.2} s", p.build_seconds),
            ];
            let _ = write!(
                b,
                "<tr><td>{}<td class=\"n\">{}",
                esc(&s.name()),
                esc(&p.label)
            );
            for cell in cells {
                let _ = write!(b, "<td class=\"n\">{cell}");
            }
            let _ = write!(b, "<td class=\"mut\">{}</tr>", esc(&fate(c)));
        }
    }
    b.push_str("</table></section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_handful_of_numbers() {
        for (log, v) in [
            (false, vec![0.0, 7.0]),
            (false, vec![0.0, 321.0]),
            (true, vec![3.0, 2833.0]),
            (true, vec![1.0, 16e6]),
        ] {
            let s = Scaled::new(v.iter().copied(), log);
            let t = ticks(&s, &v);
            assert!((3..=12).contains(&t.len()), "{v:?}: {t:?}");
        }
    }
}
