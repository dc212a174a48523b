//! As JSON.

use super::kinds::{self, Ops};
use super::{Class, Explained, Fate};
use onefold_synth::program::Why;
use serde_json::{Value, json};

/// Why a stage exists, in words.
pub fn why(w: Why) -> &'static str {
    match w {
        Why::Entry => "packets enter here",
        Why::Dynamic => "a value known at run time only is read",
        Why::Bound => "behind a binding that was not the expected one",
        Why::Copy => "copies",
        Why::Asked => "behind an element that was asked",
        Why::Written => "behind a write-out",
        Why::Budget => "one list of rules would have been too long",
    }
}

fn ops(o: &Ops) -> Value {
    let all: serde_json::Map<String, Value> = kinds::KINDS
        .iter()
        .filter_map(|k| o.get(k).map(|n| ((*k).to_string(), json!(n))))
        .collect();
    Value::Object(all)
}

fn operations(c: &Class) -> Value {
    json!({
        "before": kinds::total(&c.before),
        "after": kinds::total(&c.after),
        "before_by_kind": ops(&c.before),
        "after_by_kind": ops(&c.after),
        "checks_before": c.checks.0,
        "checks_after": c.checks.1,
    })
}

/// Classes by the level that takes their packets, and those of them that an element is asked about.
pub fn levels(x: &Explained<'_>) -> Value {
    let of = |level: &str| x.classes.iter().filter(|c| c.fate.level() == level).count();
    json!({
        "flow": of("flow"),
        "asked": x.classes.iter().filter(|c| c.fate == Fate::Asks).count(),
        "reference": of("reference"),
    })
}

/// One class; of its filters and origins the first `most`.
pub fn class(x: &Explained<'_>, c: &Class, most: usize) -> Value {
    let filters: Vec<String> = c
        .rules
        .iter()
        .take(most)
        .map(|r| x.filter(c.stage, *r))
        .collect();
    let origin: Vec<Value> = c
        .origin
        .iter()
        .take(most)
        .map(|o| {
            let (element, argument, loc) = x.origin(o);
            json!({
                "element": element,
                "argument": argument,
                "file": loc.file.as_ref(),
                "line": loc.line,
                "column": loc.column,
            })
        })
        .collect();
    json!({
        "stage": c.stage,
        "class": c.action,
        "entry": x.entry_of[c.stage],
        "fate": c.fate.word(),
        "level": c.fate.level(),
        "to": c.to,
        "nf": x.end_nf(c),
        "filter": filters,
        "rules": c.rules.len(),
        "action": c.does.join("; "),
        "origin": origin,
        "origins": c.origin.len(),
        "path": c.path.iter().map(|e| x.name(*e)).collect::<Vec<_>>(),
        "operations": operations(c),
    })
}

/// What stands beside the classes.
pub fn summary(x: &Explained<'_>) -> Value {
    let rules = x.rules().max(1);
    let punts: Vec<Value> = x
        .punts
        .iter()
        .map(|p| {
            json!({
                "element": x.name(p.elem),
                "cause": p.cause,
                "kind": if p.asked { "ask" } else { "punt" },
                "classes": p.classes,
                "rules": p.rules,
                "share_of_rules": p.rules as f64 / rules as f64,
            })
        })
        .collect();
    let stages: Vec<Value> = x
        .program
        .stages
        .iter()
        .enumerate()
        .map(|(i, s)| {
            json!({
                "stage": i,
                "entry": x.entry_of[i],
                "at": x.name(s.at.0),
                "why": why(s.why),
                "known": onefold_synth::text::Words::for_stage(x.program, s).filter(&s.known),
                "among": s.among.iter().map(|f| {
                    onefold_synth::text::Words::for_stage(x.program, s).with(f).filter(f)
                }).collect::<Vec<_>>(),
                "rules": s.rules.len(),
                "classes": s.actions.len(),
                "lookup": super::structures::json(x, i),
            })
        })
        .collect();
    json!({
        "chain": x.chain.name,
        "rules": x.rules(),
        "stages": stages,
        "punts": punts,
        "whole": x.whole.iter().map(|(name, class)| json!({"element": name, "class": class})).collect::<Vec<_>>(),
        "operations": x.longest().map(operations),
        "levels": levels(x),
        "odd_rules": super::odd::json(x),
        "notes": x.program.notes,
        "seconds": x.seconds,
        "peak_bytes": x.peak,
    })
}

/// The whole, as documented in `docs/json.md`.
pub fn json(x: &Explained<'_>) -> Value {
    let mut v = summary(x);
    let all: Vec<Value> = x.classes.iter().map(|c| class(x, c, usize::MAX)).collect();
    v["classes"] = Value::Array(all);
    v
}
