//! `onefold status`: how a run stands, as one JSON object.

use super::session::Snapshot;
use crate::alerts;
use crate::cmd::run::{self, report};
use crate::links;
use crate::merge;
use crate::program;
use crate::rules;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most classes that are told, those with most packets.
const CLASSES: usize = 1000;

/// The keys of `run --json`, and those of a run that goes on; `None` without workers.
pub fn json(
    mut all: Vec<Snapshot>,
    mode: run::Mode,
    (name, socket): (&str, Option<&str>),
    (scaling, watched): (Option<&run::Scaling>, Option<&run::Watched>),
) -> Option<Value> {
    let each: Vec<Value> = all.iter().enumerate().map(worker).collect();
    let compared = |f: fn(&Snapshot) -> u64| all.iter().map(f).sum::<u64>();
    let (compared, differences) = (compared(|s| s.compared.0), compared(|s| s.compared.1));
    if all.len() > 1 {
        let sum = merge::outcomes(all.iter().map(|s| &s.outcome), 0.0);
        // what is said of the first one's chain and program holds for all
        all.first_mut()?.outcome = sum;
    }
    // what a dispatcher's ports have lost is known to it alone
    let dispatch = watched.map(run::Watched::now);
    if let Some(d) = &dispatch {
        d.add_to(&mut all.first_mut()?.outcome);
    }
    let s = all.first()?;
    let o = &s.outcome;
    let mut v = report::json(o, mode, None);
    let chain = s.chain.clone();
    let into = v.as_object_mut()?;
    into.insert("name".into(), name.into());
    into.insert("pid".into(), std::process::id().into());
    into.insert("socket".into(), socket.into());
    into.insert("chain".into(), s.chain.name.as_str().into());
    into.insert("reloads".into(), s.reloads.into());
    into.insert("renewed".into(), o.renewed.into());
    into.insert("verification".into(), json!({ "told": s.verification }));
    into.insert(
        "shadow".into(),
        json!({ "compared_packets": compared, "differences": differences }),
    );
    match scaling {
        None => drop(into.insert("workers".into(), each.into())),
        Some(s) => {
            let map = s.map();
            into.insert("groups".into(), groups(each, &map).into());
            into.insert("workers".into(), s.workers_json().into());
            into.insert("scaling".into(), s.json());
        }
    }
    if let Some(d) = &dispatch {
        into.insert("dispatch".into(), d.json(run::at_wrong(o)));
    }
    into.insert("classes".into(), classes(s));
    into.insert("nfs".into(), functions(s));
    if let Some(r) = &o.program {
        let punts = r.punts.iter().filter(|p| p.packets > 0).map(|p| {
            json!({ "element": p.element, "cause": p.cause, "asked": p.asked, "packets": p.packets })
        });
        into.insert("punts".into(), punts.collect());
        into.insert("punted_packets".into(), r.punted().into());
    }
    let mut crossed = Vec::new();
    for s in &mut all {
        links::add(&mut crossed, std::mem::take(&mut s.links));
    }
    into.insert("links".into(), links::json(&crossed));
    let mut listed = Vec::new();
    let mut any = false;
    for rows in all.iter_mut().filter_map(|s| s.rules.take()) {
        merge::rows(&mut listed, rows);
        any = true;
    }
    if any {
        into.insert(
            "alerts".into(),
            alerts::json(&alerts::table(&chain, &listed)),
        );
        into.insert("rules".into(), rules::json(&listed).into());
    }
    Some(v)
}

/// Groups, each with the worker that it is at.
fn groups(mut each: Vec<Value>, map: &[usize]) -> Vec<Value> {
    for (g, v) in each.iter_mut().enumerate() {
        if let Some(v) = v.as_object_mut() {
            let spent = v.get("spent_seconds").and_then(Value::as_f64);
            let elapsed = v.get("elapsed_seconds").and_then(Value::as_f64);
            v.insert("group".into(), g.into());
            v.insert("worker".into(), map.get(g).copied().into());
            // a group has the time of its batches only
            v.remove("busy_seconds");
            let load = spent.unwrap_or(0.0) / elapsed.unwrap_or(0.0).max(1e-9);
            v.insert("load".into(), load.into());
        }
    }
    each
}

fn worker((i, s): (usize, &Snapshot)) -> Value {
    let (o, l) = (&s.outcome, &s.load);
    json!({
        "worker": i,
        "packets_in": o.totals.packets_in,
        "packets_out": o.totals.sent,
        "dropped": o.totals.dropped,
        "cpu_seconds": o.cpu_seconds,
        "elapsed_seconds": l.elapsed.as_secs_f64(),
        "busy_seconds": l.busy.as_secs_f64(),
        "spent_seconds": l.spent.as_secs_f64(),
        "load": l.busy.as_secs_f64() / l.elapsed.as_secs_f64().max(1e-9),
        "batches": l.batches,
        "batch_packets": l.packets as f64 / l.batches.max(1) as f64,
        "batch_ns": { "p50": l.batch_ns_p50, "p99": l.batch_ns_p99 },
    })
}

/// Traffic classes that packets were of since the program was made.
fn classes(s: &Snapshot) -> Value {
    let (Some(r), Some(m)) = (&s.outcome.program, &s.made) else {
        return json!([]);
    };
    let (graph, p) = (&s.chain.graph, &m.0.program);
    let made = rules::made(p);
    let shown = report::shown_classes(r).into_iter().take(CLASSES);
    let one = |c: onefold_engine::program::ClassCount| {
        let action = report::action_of(p, &c);
        let origin = made.get(&(c.stage, c.action)).map(|m| &m.common);
        json!({
            "class": format!("{}.{}", c.stage, c.action),
            "stage": c.stage,
            "action": c.action,
            "packets": c.packets,
            "bytes": c.bytes,
            "end": action.map(|a| program::end(graph, a)),
            "origin": origin.into_iter().flatten().map(|o| program::origin(graph, o)).collect::<Vec<_>>(),
        })
    };
    shown.map(one).collect()
}

/// Packets of classes that pass each network function, and what it dropped.
fn functions(s: &Snapshot) -> Value {
    let mut passed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    if let (Some(r), Some(m)) = (&s.outcome.program, &s.made) {
        for c in r.classes() {
            let Some(action) = report::action_of(&m.0.program, &c).filter(|_| c.packets > 0) else {
                continue;
            };
            let mut names: Vec<&str> = (action.path.iter())
                .filter_map(|e| s.chain.graph.elements.get(e.0 as usize))
                .filter_map(|e| e.name.split('/').next())
                .collect();
            names.sort_unstable();
            names.dedup();
            for n in names {
                let sum = passed.entry(n).or_default();
                sum.0 += c.packets;
                sum.1 += c.bytes;
            }
        }
    }
    let one = |f: &onefold_chain::FunctionInfo| {
        let dropped = s.outcome.drops_by_element.iter();
        let dropped: u64 = dropped
            .filter(|d| d.function() == f.name)
            .map(|d| d.packets)
            .sum();
        let (packets, bytes) = passed.get(f.name.as_str()).copied().unwrap_or_default();
        json!({ "nf": f.name, "kind": f.kind, "packets": packets, "bytes": bytes, "dropped": dropped })
    };
    s.chain.functions.iter().map(one).collect()
}
