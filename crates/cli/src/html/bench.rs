//! The page of `onefold bench --html`.

use super::{esc, page};
use crate::bench::text::{conditions, fate, number};
use onefold_bench::measure::{ChainReport, Report, Spread};
use std::fmt::Write;

/// Widths of the plot: names, bars, figures.
const LEFT: f64 = 260.0;
const PLOT: f64 = 620.0;
const RIGHT: f64 = 120.0;
/// Height of a bar and of its row.
const BAR: f64 = 18.0;
const ROW: f64 = 34.0;
/// Room for the axis.
const AXIS: f64 = 34.0;

/// The page.
pub fn bench_page(r: &Report) -> String {
    let mut b = format!(
        "<header><h1>What a packet costs</h1><p>{}</p><p>{}</p></header>",
        esc(&conditions(r)),
        esc(&r.machine.line())
    );
    if r.interrupted {
        let _ = write!(
            b,
            "<p class=\"bad\">interrupted: {} of {} rounds</p>",
            r.rounds, r.parameters.repeats
        );
    }
    b.push_str(
        "<section><h2>Nanoseconds of processor time per packet</h2>\
         <p class=\"mut\">Each bar is a median: <b class=\"k0\">the ceiling</b> (the same packets copied into the same buffers and looked at), what a \
         <b class=\"k1\">MAC swap</b> adds, and <b class=\"k2\">what the chain adds</b>. Each dot is one slice; slices alternate.</p>",
    );
    b.push_str(&plot(r));
    b.push_str("</section><section><h2>Figures</h2>");
    figures(&mut b, r);
    b.push_str("</section><section><h2>The packets</h2><ul>");
    for c in &r.chains {
        // writing to a String cannot fail
        let _ = write!(
            b,
            "<li><b>{} {}</b>: {}</li>",
            esc(&c.name),
            esc(&c.mode),
            esc(&fate(c))
        );
    }
    b.push_str("</ul></section>");
    if !r.warnings.is_empty() {
        b.push_str("<section><h2>Warnings</h2><ul>");
        for w in &r.warnings {
            let _ = write!(b, "<li>{}</li>", esc(w));
        }
        b.push_str("</ul></section>");
    }
    b.push_str(
        "<section><h2>How it was measured</h2><p>In one process, on one core, from memory to memory. Packets were made before the clock started: flows \
         aimed at every class of the chain that lets packets leave, tried, and opened. Each packet is copied from its template into the next of a ring of \
         buffers; copy and buffer are part of every figure, the ceiling's too. Figures are processor time of the thread, medians over the slices; cycles are those \
         of the time stamp counter.</p></section>",
    );
    page("What a packet costs", &b)
}

/// A step of the axis that gives five to ten of them.
pub fn step(most: f64) -> f64 {
    let mut step = 0.001f64;
    // Bound: 30 powers of ten hold every figure.
    for _ in 0..30 {
        for k in [1.0, 2.0, 5.0] {
            if most / (step * k) <= 10.0 {
                return step * k;
            }
        }
        step *= 10.0;
    }
    step
}

/// Bars with dots, one row for each chain and mode.
fn plot(r: &Report) -> String {
    let all = r.chains.iter().flat_map(|c| &c.samples).map(|s| s.ns);
    let most = all.fold(1.0f64, f64::max);
    let step = step(most);
    let top = (most / step).ceil() * step;
    let x = |v: f64| LEFT + v.max(0.0) / top * PLOT;
    let height = AXIS + r.chains.len() as f64 * ROW;
    let mut s = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {:.0} {:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         aria-label=\"nanoseconds per packet\">",
        LEFT + PLOT + RIGHT,
        height + 8.0
    );
    let mut v = 0.0;
    while v <= top + step / 2.0 {
        let _ = write!(
            s,
            "<line class=\"grid\" x1=\"{0:.1}\" y1=\"{1:.0}\" x2=\"{0:.1}\" y2=\"{2:.0}\"/><text x=\"{0:.1}\" y=\"16\">{3}</text>",
            x(v),
            AXIS - 10.0,
            height,
            number_short(v)
        );
        v += step;
    }
    for (i, c) in r.chains.iter().enumerate() {
        let y = AXIS + i as f64 * ROW;
        row(&mut s, c, y, &x);
    }
    s.push_str("</svg>");
    s
}

fn number_short(v: f64) -> String {
    match v.fract() == 0.0 {
        true => crate::common::thousands(v as u64),
        false => format!("{v:.1}"),
    }
}

fn row(s: &mut String, c: &ChainReport, y: f64, x: &dyn Fn(f64) -> f64) {
    let median = |s: Option<Spread>| s.map_or(0.0, |s| s.median);
    let (total, ceiling) = (median(c.ns_per_packet), median(c.ceiling_ns));
    let swap = median(c.mac_swap_ns).clamp(ceiling, total.max(ceiling));
    let _ = write!(
        s,
        "<g><title>{} {}: {} ns per packet, {} of them the ceiling</title>\
         <text class=\"name\" x=\"{:.0}\" y=\"{:.1}\">{} <tspan>{}</tspan></text>",
        esc(&c.name),
        esc(&c.mode),
        number(total),
        number(ceiling),
        LEFT - 10.0,
        y + BAR / 2.0 + 4.0,
        esc(&c.name),
        esc(&c.mode)
    );
    for (k, (from, to)) in [(0.0, ceiling), (ceiling, swap), (swap, total)]
        .into_iter()
        .enumerate()
    {
        let _ = write!(
            s,
            "<rect class=\"k{k}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
            x(from),
            (x(to) - x(from)).max(0.0)
        );
    }
    for (i, p) in c.samples.iter().enumerate() {
        // one below the other, so that equal ones are seen
        let dy = y + BAR / 2.0 + ((i % 5) as f64 - 2.0) * 3.0;
        let _ = write!(
            s,
            "<circle cx=\"{:.1}\" cy=\"{dy:.1}\" r=\"2.4\"><title>slice {}: {} ns</title></circle>",
            x(p.ns),
            i + 1,
            number(p.ns)
        );
    }
    let most = c.samples.iter().map(|p| p.ns).fold(total, f64::max);
    let _ = write!(
        s,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        x(most) + 8.0,
        y + BAR / 2.0 + 4.0,
        number(total)
    );
}

fn figures(b: &mut String, r: &Report) {
    b.push_str(
        "<table><tr><th>chain<th>mode<th>above the ceiling<th>median<th>min<th>max<th>wall<th>ceiling<th>MAC swap<th>cycles<th>Mpps<th>left</tr>",
    );
    for c in &r.chains {
        let _ = write!(b, "<tr><td>{}<td>{}", esc(&c.name), esc(&c.mode));
        let of = |s: Option<Spread>, f: fn(Spread) -> f64| s.map_or("-".into(), |s| number(f(s)));
        let cells = [
            of(c.above_ceiling_ns, |s| s.median),
            of(c.ns_per_packet, |s| s.median),
            of(c.ns_per_packet, |s| s.min),
            of(c.ns_per_packet, |s| s.max),
            of(c.wall_ns_per_packet, |s| s.median),
            of(c.ceiling_ns, |s| s.median),
            of(c.mac_swap_ns, |s| s.median),
            of(c.cycles_per_packet, |s| s.median),
            c.mpps.map_or("-".into(), |s| format!("{:.2}", s.median)),
            format!("{:.1}%", c.share_out * 100.0),
        ];
        for cell in cells {
            let _ = write!(b, "<td class=\"n\">{cell}");
        }
        b.push_str("</tr>");
    }
    b.push_str("</table>");
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn the_axis_has_five_to_ten_steps() {
        for most in [1.0, 7.0, 10.0, 33.0, 101.0, 2_833.0, 22_931.0] {
            let n = most / step(most);
            assert!((2.0..=10.0).contains(&n), "{most}: {n}");
        }
    }
}
