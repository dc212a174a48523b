//! What the rules of stages are looked up in, and why.

use super::Explained;
use crate::common::thousands;
use crate::html::esc;
use onefold_element::model::ValueSet;
use onefold_engine::program::{StageReport, StructureReport, Tried, ViewReport};
use onefold_synth::program::{Dim, Filter};
use onefold_synth::text::Words;
use serde_json::{Value, json};
use std::fmt::Write;

/// A stage's report, if there is something to be said.
fn of<'a>(x: &'a Explained<'_>, stage: usize) -> Option<&'a StageReport> {
    x.structures.get(stage).filter(|s| s.rules > 1)
}

fn bytes(n: usize) -> String {
    match n {
        0..10_240 => format!("{n} bytes"),
        10_240..10_485_760 => format!("{} KiB", n >> 10),
        _ => format!("{} MiB", n >> 20),
    }
}

fn ms(seconds: f64) -> String {
    match seconds < 0.001 {
        true => format!("{:.0} us", seconds * 1e6),
        false => format!("{:.1} ms", seconds * 1e3),
    }
}

/// What a guard asks, in words; nothing where it lets everything pass.
fn guard(x: &Explained<'_>, stage: usize, v: &ViewReport) -> String {
    let words = Words::for_stage(x.program, &x.program.stages[stage]);
    words.with(&v.guard).filter(&v.guard)
}

/// The names of fields.
fn fields(x: &Explained<'_>, stage: usize, of: &[Dim]) -> Vec<String> {
    let name = |d: &Dim| {
        let f = Filter(vec![(*d, ValueSet::one(0))]);
        let words = Words::for_stage(x.program, &x.program.stages[stage]).with(&f);
        words.dim_name(*d)
    };
    of.iter().map(name).collect()
}

fn kind(s: &StructureReport) -> String {
    s.kind.map_or("none".to_string(), |k| k.to_string())
}

/// How long it takes, in words.
fn takes(t: &Tried) -> String {
    match t.measured {
        Some(m) => format!("{m:.1} ns ({:.1} estimated)", t.ns),
        None => format!("{:.1} ns", t.ns),
    }
}

/// Appends what there is to say of a stage.
pub fn print(t: &mut String, x: &Explained<'_>, stage: usize) {
    let Some(r) = of(x, stage) else { return };
    // writing to a String cannot fail
    let _ = writeln!(
        t,
        "  looked up in {} views, made in {}",
        r.views.len(),
        ms(r.seconds)
    );
    for v in &r.views {
        let s = &v.structure;
        let asked = match v.guard.0.is_empty() {
            true => "all others".to_string(),
            false => guard(x, stage, v),
        };
        let _ = writeln!(
            t,
            "    {asked} ({} tests, about {:.0}% of packets): {} of {} rules",
            v.tests,
            v.share * 100.0,
            thousands(v.rules as u64),
            thousands(r.rules as u64),
        );
        if s.kind.is_none() {
            let _ = writeln!(t, "      {}", s.shape);
            continue;
        }
        let _ = writeln!(
            t,
            "      {} over {}: {}, {}, built in {}",
            kind(s),
            fields(x, stage, &s.fields).join(", "),
            s.shape,
            bytes(s.memory),
            ms(s.seconds)
        );
        for c in &s.tried {
            let _ = writeln!(
                t,
                "        {:14} {}, {}, {}: {}",
                c.kind.to_string(),
                takes(c),
                bytes(c.memory),
                ms(c.seconds),
                if c.chosen { "chosen" } else { &c.why }
            );
        }
    }
    if let Some(why) = &r.rest {
        let _ = writeln!(t, "    all others: the program's tree ({why})");
    }
}

/// The same as JSON; null where there is nothing to be said.
pub fn json(x: &Explained<'_>, stage: usize) -> Value {
    let Some(r) = of(x, stage) else {
        return Value::Null;
    };
    let tried = |t: &Tried| {
        json!({
            "kind": t.kind.to_string(),
            "estimated_ns": t.ns,
            "measured_ns": t.measured,
            "memory": t.memory,
            "seconds": t.seconds,
            "chosen": t.chosen,
            "why": t.why,
        })
    };
    let view = |v: &ViewReport| {
        let s = &v.structure;
        json!({
            "guard": guard(x, stage, v),
            "tests": v.tests,
            "share": v.share,
            "rules": v.rules,
            "kind": s.kind.map(|k| k.to_string()),
            "fields": fields(x, stage, &s.fields),
            "words": s.words,
            "entries": s.entries,
            "memory": s.memory,
            "seconds": s.seconds,
            "shape": s.shape,
            "candidates": s.tried.iter().map(tried).collect::<Vec<_>>(),
        })
    };
    json!({
        "views": r.views.iter().map(view).collect::<Vec<_>>(),
        "tree": r.rest,
        "seconds": r.seconds,
    })
}

/// A table of all stages, for a page.
pub fn html(x: &Explained<'_>) -> String {
    let mut b = String::new();
    let stages: Vec<&StageReport> = (0..x.structures.len()).filter_map(|i| of(x, i)).collect();
    if stages.is_empty() {
        return b;
    }
    b.push_str(
        "<section><h2>What stages are looked up in</h2><table><tr><th>stage<th>packets<th>share<th>rules<th>structure<th>over<th>ns<th>memory<th>built in<th>why</tr>",
    );
    for r in stages {
        for v in &r.views {
            let s = &v.structure;
            let asked = match v.guard.0.is_empty() {
                true => "all others".to_string(),
                false => guard(x, r.stage, v),
            };
            let others = s.tried.iter().filter(|t| !t.chosen);
            let why: Vec<String> = others
                .map(|t| format!("{}: {} ({})", t.kind, takes(t), t.why))
                .collect();
            let chosen = s.tried.iter().find(|t| t.chosen);
            let _ = write!(
                b,
                "<tr><td class=\"n\">{}<td>{}<td class=\"n\">{:.0}%<td class=\"n\">{}<td>{}<td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>{}</tr>",
                r.stage,
                esc(&asked),
                v.share * 100.0,
                thousands(v.rules as u64),
                esc(&format!("{}: {}", kind(s), s.shape)),
                esc(&fields(x, r.stage, &s.fields).join(", ")),
                chosen.map_or(String::new(), takes),
                bytes(s.memory),
                ms(s.seconds),
                esc(&why.join("; "))
            );
        }
        if let Some(why) = &r.rest {
            let _ = write!(
                b,
                "<tr><td class=\"n\">{}<td>all others<td><td class=\"n\">{}<td>the program's tree<td><td><td><td><td>{}</tr>",
                r.stage,
                thousands(r.rules as u64),
                esc(why)
            );
        }
    }
    b.push_str("</table></section>");
    b
}
