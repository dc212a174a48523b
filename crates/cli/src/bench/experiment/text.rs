//! An experiment for people at a terminal: a plot in characters, a table, what others report.

use crate::bench::text::{number, wrapped};
use crate::common::thousands;
use onefold_bench::experiment::{ExperimentReport, PointReport};
use std::fmt::Write;

/// Width and height of the plot.
const WIDE: usize = 72;
const HIGH: usize = 16;
/// One for each line.
const MARKS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A place on the axis.
pub fn place(x: f64) -> String {
    match x.fract() == 0.0 {
        true => thousands(x.max(0.0) as u64),
        false => format!("{x}"),
    }
}

/// What all figures have in common.
pub fn conditions(r: &ExperimentReport) -> String {
    format!(
        "{} slices of {} s each, in alternation; {}{}",
        r.repeats,
        r.seconds,
        r.date,
        if r.quick {
            "; the smallest form, to see that it works"
        } else {
            ""
        }
    )
}

/// A scale from values to 0..=1.
pub struct Scaled {
    from: f64,
    to: f64,
    log: bool,
}

impl Scaled {
    /// For these values; logarithmic if asked for and possible.
    pub fn new(values: impl Iterator<Item = f64> + Clone, log: bool) -> Scaled {
        let least = values.clone().fold(f64::MAX, f64::min);
        let most = values.fold(f64::MIN, f64::max);
        let log = log && least > 0.0;
        let (from, to) = match log {
            true => (least.ln(), most.ln()),
            false => (least, most),
        };
        match to - from > 1e-9 {
            true => Scaled { from, to, log },
            false => Scaled {
                from: from - 0.5,
                to: from + 0.5,
                log,
            },
        }
    }

    /// Where a value is.
    pub fn at(&self, v: f64) -> f64 {
        let v = if self.log { v.max(1e-12).ln() } else { v };
        ((v - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// The value at a place.
    pub fn value(&self, at: f64) -> f64 {
        let v = self.from + at * (self.to - self.from);
        if self.log { v.exp() } else { v }
    }

    /// By the logarithm?
    pub fn is_log(&self) -> bool {
        self.log
    }
}

/// The scale of what is plotted: by the logarithm if it spans much.
pub fn scale_y(values: impl Iterator<Item = f64> + Clone) -> Scaled {
    let least = values.clone().fold(f64::MAX, f64::min);
    let most = values.clone().fold(f64::MIN, f64::max);
    let log = least > 0.0 && most / least > 20.0;
    let from = if log { least } else { least.min(0.0) };
    Scaled::new(values.chain(std::iter::once(from)), log)
}

fn y(p: &PointReport) -> Option<f64> {
    p.y.map(|s| s.median).filter(|v| v.is_finite())
}

fn plot(t: &mut String, r: &ExperimentReport) {
    let points = || r.series.iter().flat_map(|s| &s.points);
    if points().filter_map(y).count() == 0 {
        return;
    }
    let xs = Scaled::new(points().map(|p| p.x), r.x.log);
    let ys = scale_y(points().filter_map(y));
    let mut grid = vec![vec![' '; WIDE + 1]; HIGH + 1];
    for (s, mark) in r.series.iter().zip(MARKS.chars().cycle()) {
        for p in &s.points {
            let Some(v) = y(p) else { continue };
            let column = (xs.at(p.x) * WIDE as f64).round() as usize;
            let row = HIGH - (ys.at(v) * HIGH as f64).round() as usize;
            if let Some(cell) = grid.get_mut(row).and_then(|l| l.get_mut(column)) {
                // two lines at one place
                *cell = if *cell == ' ' { mark } else { '*' };
            }
        }
    }
    let how = if ys.is_log() { " (logarithmic)" } else { "" };
    // writing to a String cannot fail
    let _ = writeln!(t, "{}{how}", r.y.text());
    for (i, row) in grid.iter().enumerate() {
        let label = match i % 4 {
            0 => number(ys.value(1.0 - i as f64 / HIGH as f64)),
            _ => String::new(),
        };
        let line: String = row.iter().collect();
        let _ = writeln!(t, "{label:>9} |{}", line.trim_end());
    }
    let _ = writeln!(t, "{:>9} +{}", "", "-".repeat(WIDE));
    let ends = [
        points().map(|p| p.x).fold(f64::MAX, f64::min),
        points().map(|p| p.x).fold(f64::MIN, f64::max),
    ];
    let label = |x: f64| {
        points()
            .find(|p| p.x == x)
            .map_or(String::new(), |p| p.label.clone())
    };
    let (first, last) = (label(ends[0]), label(ends[1]));
    let middle = format!(
        "{}{}",
        r.x.name,
        if r.x.log { " (logarithmic)" } else { "" }
    );
    let _ = writeln!(t, "{:>10} {first:<12}{middle:^47}{last:>14}\n", "");
}

/// What was long to build: seconds and memory.
pub fn built(r: &ExperimentReport) -> Vec<String> {
    let all = r
        .series
        .iter()
        .flat_map(|s| s.points.iter().map(move |p| (s, p)));
    all.filter(|(_, p)| p.build_seconds >= 1.0)
        .map(|(s, p)| {
            let memory = p
                .build_bytes
                .map_or(String::new(), |b| format!(", {} MB", b / 1_000_000));
            format!(
                "{} at {}: {:.1} s{memory}",
                s.name(),
                p.label,
                p.build_seconds
            )
        })
        .collect()
}

/// Everything.
pub fn told(r: &ExperimentReport) -> String {
    let mut t = String::new();
    let _ = writeln!(t, "{}\n{}\n", r.title, wrapped(r.shows));
    let core = r
        .machine
        .core
        .map_or("not bound to a core".into(), |c| format!("on core {c}"));
    let _ = writeln!(
        t,
        "{}",
        wrapped(&format!("{}; {}; {core}", conditions(r), r.machine.line()))
    );
    t.push('\n');
    plot(&mut t, r);
    for (s, mark) in r.series.iter().zip(MARKS.chars().cycle()) {
        let _ = writeln!(
            t,
            "{mark}  {}\n   {:>14} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7}",
            s.name(),
            r.x.name.chars().take(14).collect::<String>(),
            "above",
            "median",
            "min",
            "max",
            "ceiling",
            "Mpps",
            "left",
            "B/flow"
        );
        for p in &s.points {
            let c = &p.measured;
            let f = |s: Option<onefold_bench::measure::Spread>,
                     of: fn(onefold_bench::measure::Spread) -> f64| {
                s.map_or("-".into(), |s| number(of(s)))
            };
            let _ = writeln!(
                t,
                "   {:>14} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7}",
                p.label,
                f(c.above_ceiling_ns, |s| s.median),
                f(c.ns_per_packet, |s| s.median),
                f(c.ns_per_packet, |s| s.min),
                f(c.ns_per_packet, |s| s.max),
                f(c.ceiling_ns, |s| s.median),
                c.mpps.map_or("-".into(), |s| format!("{:.2}", s.median)),
                format!("{:.1}%", c.share_out * 100.0),
                p.bytes_per_flow.map_or("-".into(), number),
            );
        }
    }
    let built = built(r);
    if !built.is_empty() {
        let _ = writeln!(
            t,
            "\nsynthesis and search structures, where they took a second or more\n   {}",
            built.join("\n   ")
        );
    }
    if !r.ratios.is_empty() {
        let _ = writeln!(t, "\nrates compared, round by round (median, min to max)");
        for x in &r.ratios {
            let v = x.rate.map_or("-".into(), |s| {
                format!("{:.2}  ({:.2} to {:.2})", s.median, s.min, s.max)
            });
            let _ = writeln!(t, "   {}: {v}", x.name);
        }
    }
    let _ = writeln!(
        t,
        "\nwhat others report, on other machines and network cards: compare shapes, not figures"
    );
    for p in &r.published {
        let _ = writeln!(
            t,
            "{}",
            wrapped(&format!("{} ({}): {}", p.source, p.setting, p.reported))
        );
        if let Some(e) = p.erratum {
            let _ = writeln!(t, "{}", wrapped(&format!("erratum: {e}")));
        }
        for l in &p.lines {
            let all: Vec<_> = l
                .points
                .iter()
                .map(|(x, v)| format!("{}: {}", place(*x), number(*v)))
                .collect();
            let _ = writeln!(
                t,
                "{}",
                wrapped(&format!("    {}: {}", l.name, all.join(", ")))
            );
        }
    }
    let _ = writeln!(
        t,
        "\nabove: nanoseconds of processor time per packet less the ceiling of the same round. B/flow: memory\nof the execution by flows; a flow table has room for 131,072 flows at least."
    );
    if r.interrupted {
        t.push_str("interrupted: not everything was measured\n");
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_their_values() {
        let v = [1.0, 10.0, 100.0];
        let s = Scaled::new(v.iter().copied(), true);
        assert!((s.at(10.0) - 0.5).abs() < 1e-9 && (s.value(0.5) - 10.0).abs() < 1e-9);
        let one = Scaled::new([3.0].into_iter(), false);
        assert!((one.at(3.0) - 0.5).abs() < 1e-9);
        let flat = scale_y([3.0, 5.0].into_iter());
        assert_eq!(
            (flat.is_log(), flat.at(0.0), flat.at(5.0)),
            (false, 0.0, 1.0)
        );
        assert!(scale_y([3.0, 5000.0].into_iter()).is_log());
        assert!(!scale_y([-3.0, 5000.0].into_iter()).is_log());
        assert_eq!(place(64000.0), "64,000");
        assert_eq!(place(0.25), "0.25");
    }
}
