//! Live measurements as tables for people.

use super::report::{LiveReport, LoadReport, RowReport};
use crate::bench::text::number;
use onefold_bench::measure::Spread;
use std::fmt::Write;

/// What all figures have in common, in words.
pub fn conditions(r: &LiveReport) -> String {
    let p = &r.parameters;
    let size = match p.size.parse::<u32>() {
        Ok(n) => format!("{n} bytes"),
        Err(_) => format!("sizes of '{}'", p.size),
    };
    format!(
        "{size}, {} flows; at most {}% lost, trials of {} s; {} of {} rounds, in alternation; generator on core {}, \
         device on core {}, --poll {}",
        p.flows,
        p.loss * 100.0,
        p.trial_seconds,
        r.rounds,
        p.repeats,
        p.generator_core,
        p.device_core,
        p.poll
    )
}

/// A median with its extremes, in millions.
fn millions(s: Option<Spread>) -> String {
    s.map_or("-".into(), |s| {
        let m = |v: f64| v / 1e6;
        format!("{:.3} ({:.3} to {:.3})", m(s.median), m(s.min), m(s.max))
    })
}

fn median(s: Option<Spread>) -> String {
    s.map_or("-".into(), |s| number(s.median))
}

/// A share in percent.
fn percent(s: Option<Spread>) -> String {
    s.map_or("-".into(), |s| format!("{:.0}%", s.median * 100.0))
}

/// Microseconds.
fn micros(s: Option<Spread>) -> String {
    s.map_or("-".into(), |s| number(s.median / 1e3))
}

fn throughput(t: &mut String, rows: &[RowReport]) {
    // writing to a String cannot fail
    let _ = writeln!(
        t,
        "{:<46} {:>24} {:>10} {:>6} {:>10} {:>10}",
        "", "Mpps (min to max)", "overloaded", "busy", "process ns", "core ns"
    );
    for r in rows {
        if let Some(why) = &r.skipped {
            let _ = writeln!(t, "{:<46} skipped: {why}", r.name);
            continue;
        }
        let _ = writeln!(
            t,
            "{:<46} {:>24} {:>10} {:>6} {:>10} {:>10}",
            r.name,
            millions(r.throughput_pps),
            r.overloaded_pps
                .map_or("-".into(), |s| format!("{:.3}", s.median / 1e6)),
            percent(r.busy_share),
            median(r.process_ns_per_packet),
            median(r.core_ns_per_packet)
        );
    }
}

fn load(t: &mut String, row: &RowReport, l: &LoadReport) {
    let _ = writeln!(
        t,
        "{:<32} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        row.name,
        l.name,
        l.sent_pps
            .map_or("-".into(), |s| format!("{:.3}", s.median / 1e6)),
        micros(l.p50),
        micros(l.p90),
        micros(l.p99),
        micros(l.p999),
        l.loss
            .map_or("-".into(), |s| format!("{:.2}%", s.median * 100.0))
    );
}

/// The report.
pub fn told(r: &LiveReport) -> String {
    let mut t = format!("{}\n{}\n\n", r.machine.line(), conditions(r));
    throughput(&mut t, &r.rows);
    if r.rows.iter().any(|r| !r.loads.is_empty()) {
        let _ = writeln!(
            t,
            "\n{:<32} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
            "latency from intended send times, us",
            "load",
            "Mpps",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "lost"
        );
        for row in &r.rows {
            for l in &row.loads {
                load(&mut t, row, l);
            }
        }
    }
    if !r.ratios.is_empty() {
        t.push_str("\ncompared round by round: median (min to max)\n");
        for x in &r.ratios {
            let s = x.ratio.map_or("-".into(), |s| {
                format!("{:.2} ({:.2} to {:.2})", s.median, s.min, s.max)
            });
            let _ = writeln!(t, "  {s:<22} {}", x.name);
        }
    }
    for c in &r.conclusions {
        let _ = writeln!(t, "\n{c}");
    }
    for p in &r.published {
        let _ = writeln!(t, "\n{}: {}", p.source, p.reported);
    }
    if r.interrupted {
        t.push_str("\ninterrupted: not everything was measured\n");
    }
    t
}
