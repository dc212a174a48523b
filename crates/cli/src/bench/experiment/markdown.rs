//! An experiment as a section of a Markdown document.

use super::text::{conditions, place};
use crate::bench::text::number;
use onefold_bench::experiment::ExperimentReport;
use std::fmt::Write;

/// The section, without a heading. Its first line names the machine.
pub fn section(r: &ExperimentReport) -> String {
    let mut t = String::new();
    // writing to a String cannot fail
    let _ = writeln!(t, "Machine: {}.\n\n{}\n", r.machine.line(), r.shows);
    let _ = writeln!(
        t,
        "{}. Medians, **{}** (minimum to maximum in brackets).\n",
        conditions(r),
        r.y.text()
    );
    let mut places: Vec<(f64, &str)> = Vec::new();
    for p in r.series.iter().flat_map(|s| &s.points) {
        if !places.iter().any(|(x, _)| *x == p.x) {
            places.push((p.x, &p.label));
        }
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let _ = writeln!(
        t,
        "| {} | {} |\n|---|{}",
        r.x.name,
        places.iter().map(|p| p.1).collect::<Vec<_>>().join(" | "),
        "---|".repeat(places.len())
    );
    for s in &r.series {
        let cell = |x: f64| {
            let p = s.points.iter().find(|p| p.x == x)?;
            let y = p.y?;
            Some(format!(
                "**{}** ({} to {})",
                number(y.median),
                number(y.min),
                number(y.max)
            ))
        };
        let cells: Vec<_> = places
            .iter()
            .map(|p| cell(p.0).unwrap_or_default())
            .collect();
        let _ = writeln!(t, "| {} | {} |", s.name(), cells.join(" | "));
    }
    for l in r.published.iter().flat_map(|p| &p.lines) {
        let cell = |x: f64| {
            l.points
                .iter()
                .find(|p| p.0 == x)
                .map_or(String::new(), |p| number(p.1))
        };
        let cells: Vec<_> = places.iter().map(|p| cell(p.0)).collect();
        if cells.iter().any(|c| !c.is_empty()) {
            let _ = writeln!(t, "| *{}* | {} |", l.name, cells.join(" | "));
        }
    }
    let memory: Vec<String> = (r.series.iter())
        .filter_map(|s| {
            let p = s.points.last().filter(|p| p.flows >= 100_000)?;
            Some(format!(
                "{} at {} flows: {}",
                s.name(),
                place(p.flows as f64),
                number(p.bytes_per_flow?)
            ))
        })
        .collect();
    if !memory.is_empty() {
        let _ = writeln!(
            t,
            "\nBytes per flow, all tables of the execution: {}.",
            memory.join("; ")
        );
    }
    let built = super::text::built(r);
    if !built.is_empty() {
        let _ = writeln!(
            t,
            "\nSynthesis and search structures, where they took a second or more: {}.",
            built.join("; ")
        );
    }
    if !r.ratios.is_empty() {
        t.push_str("\n| rates compared, round by round | median | min to max |\n|---|---|---|\n");
        for x in &r.ratios {
            let (m, s) = x.rate.map_or(("-".into(), "-".into()), |s| {
                (
                    format!("{:.2}", s.median),
                    format!("{:.2} to {:.2}", s.min, s.max),
                )
            });
            let _ = writeln!(t, "| {} | **{m}** | {s} |", x.name);
        }
    }
    t.push_str("\nReported by others (other machines, with network cards; compare shapes):\n\n");
    for p in &r.published {
        let erratum = p
            .erratum
            .map_or(String::new(), |e| format!(" *Erratum: {e}*"));
        let _ = writeln!(t, "- {} ({}): {}{erratum}", p.source, p.setting, p.reported);
    }
    for w in &r.warnings {
        let _ = writeln!(t, "\nRemark: {w}.");
    }
    t
}
