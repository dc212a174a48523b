//! A packet that was followed, as text.

use super::{Followed, binding, decision, hex, split};
use crate::answers::packet;
use crate::program;
use onefold_engine::TraceStep;

/// The steps in the reference graph.
fn reference_lines(steps: &[TraceStep]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = None;
    let mut packet = "";
    for s in steps {
        let (nf, element) = split(&s.name);
        if last != Some(nf) {
            lines.push(nf.to_string());
            last = Some(nf);
        }
        // the packet that came, where it is another than at the step before
        if !s.packet.is_empty() && s.packet != packet {
            lines.push(format!("    {}", s.packet));
            packet = &s.packet;
        }
        lines.push(format!("  {element} :: {}: {}", s.class, decision(s)));
        lines.extend(missed(s));
        for d in s.decisions.iter().filter(|d| d.argument.is_some()) {
            lines.push(format!("      by {}", d.loc));
        }
    }
    lines
}

/// Why the rules before the one that decided did not match.
fn missed(s: &TraceStep) -> Vec<String> {
    let file = s.decisions.first().map_or(&s.loc.file, |d| &d.loc.file);
    let mut lines = Vec::new();
    for m in &s.missed {
        let rule = m.argument.map_or(0, |a| a + 1);
        let at = match m.loc.file == *file {
            true => format!("line {}", m.loc.line),
            false => format!("{}:{}", m.loc.file, m.loc.line),
        };
        lines.push(format!("      not rule {rule} ({at}): {}", m.text));
    }
    match s.more_missed {
        0 => {}
        1 => lines.push("      nor 1 rule more".to_string()),
        n => lines.push(format!(
            "      nor {} rules more",
            crate::common::thousands(n as u64)
        )),
    }
    lines
}

/// The stages of the program, and what the reference graph did behind punts.
fn program_lines(f: &Followed) -> Vec<String> {
    let Some(p) = &f.program else {
        return Vec::new();
    };
    let g = &f.graph;
    let mut lines = Vec::new();
    for s in &f.stages {
        let Some(stage) = p.stages.get(s.stage) else {
            continue;
        };
        let rule = s.rule.and_then(|r| stage.rules.get(r));
        lines.push(match (s.rule, rule) {
            (Some(i), Some(r)) => format!("stage {}, rule {i}: class {}", s.stage, r.action.0),
            _ => format!("stage {}: no rule fits", s.stage),
        });
        for o in rule.map_or(&[][..], |r| &r.origin) {
            lines.push(format!("      by {}", program::origin(g, o)));
        }
        for (e, n) in &s.counted {
            lines.push(format!("  {} counts {n} bytes", g.name(*e)));
        }
        for (e, b) in &s.bound {
            lines.push(format!("  {} {}", g.name(*e), binding(b)));
        }
        if let Some(a) = program::action(p, s) {
            lines.push(format!("  {}", program::ended(g, a, s)));
        }
    }
    if !f.steps.is_empty() {
        lines.push("in the reference graph".to_string());
        lines.extend(reference_lines(&f.steps).iter().map(|l| format!("  {l}")));
    }
    lines
}

/// Widest left column.
const COLUMN: usize = 72;

/// Two columns; lines of the left one that are too long stand alone.
fn side_by_side(left: &[String], right: &[String]) -> Vec<String> {
    let width = |s: &String| s.chars().count();
    let column = left.iter().map(width).filter(|n| *n <= COLUMN).max();
    let column = column.unwrap_or(0).max(20);
    let mut right = right.iter();
    let mut all = Vec::new();
    for l in left {
        match width(l) <= column {
            true => {
                let pad = " ".repeat(column - width(l));
                let r = right.next().map_or("", |r| r.as_str());
                all.push(format!("{l}{pad} | {r}").trim_end().to_string());
            }
            false => all.push(l.clone()),
        }
    }
    all.extend(right.map(|r| format!("{} | {r}", " ".repeat(column))));
    all
}

/// All that there is to say of a packet that was followed.
pub fn text(
    port: &str,
    frame: &[u8],
    reference: Option<&Followed>,
    synthesized: Option<&Followed>,
    same: Option<bool>,
) -> Vec<String> {
    let mut all = vec![
        format!("packet of {} bytes at port {port}", frame.len()),
        format!("  {}", packet::line(frame)),
    ];
    match (reference, synthesized) {
        (Some(r), Some(s)) => {
            let mut left = vec!["AS WRITTEN".to_string()];
            left.extend(reference_lines(&r.steps));
            let mut right = vec!["AS ONE FUNCTION".to_string()];
            right.extend(program_lines(s));
            all.extend(side_by_side(&left, &right));
        }
        (Some(r), None) => all.extend(reference_lines(&r.steps)),
        (None, Some(s)) => all.extend(program_lines(s)),
        (None, None) => {}
    }
    if [reference, synthesized]
        .into_iter()
        .flatten()
        .any(|f| f.truncated)
    {
        all.push("  (more steps than are kept)".to_string());
    }
    let outs = |f: &Followed, all: &mut Vec<String>| {
        if f.outs.is_empty() {
            all.push("nothing left the chain".to_string());
        }
        for (p, b) in &f.outs {
            all.push(format!("left at port {p}, {} bytes: {}", b.len(), hex(b)));
            all.push(format!("  {}", packet::line(b)));
        }
    };
    if let Some(f) = reference.or(synthesized) {
        outs(f, &mut all);
    }
    match (same, synthesized) {
        (Some(true), _) => all.push("the same both ways".to_string()),
        (Some(false), Some(s)) => {
            all.push("DIFFERENT as one function:".to_string());
            outs(s, &mut all);
        }
        _ => {}
    }
    all
}
