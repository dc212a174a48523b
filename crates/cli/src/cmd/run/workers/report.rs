//! What several workers have done, as one report.

use super::super::{Made, Mode, report, rules};
use super::dispatch::Done;
use super::{Args, Ended, Scaling};
use crate::alerts;
use crate::common;
use crate::links::Counts;
use crate::merge;
use crate::runner::Outcome;
use crate::servers;
use anyhow::{Result, bail};
use onefold_engine::shadow::Report;
use onefold_runtime::AT_WRONG_WORKER;

/// Packets that have come to this worker, or have left it, although another one has their flow.
pub fn at_wrong(o: &Outcome) -> u64 {
    let counters = o.interfaces.iter().flat_map(|i| &i.counters);
    counters
        .filter(|c| c.0 == AT_WRONG_WORKER)
        .map(|c| c.1)
        .sum()
}

/// What all workers have compared.
fn shadows(ended: &[Ended]) -> Report {
    let mut all = Report::default();
    for e in ended {
        let r = e.runner.report();
        all.compared += e.earlier.0;
        all.mismatches += e.earlier.1;
        all.windows += r.windows;
        all.compared += r.compared;
        all.states += r.states;
        all.mismatches += r.mismatches;
        all.kept.extend(r.kept);
        all.watched = all.watched.max(r.watched);
        all.seen = all.seen.max(r.seen);
        all.fallen += r.fallen;
    }
    all
}

/// The report.
pub fn tell_all(
    args: &Args,
    ended: &mut [Ended],
    (done, scaling): (Option<&Done>, Option<&Scaling>),
    merging: f64,
) -> Result<u8> {
    let mode: Mode = args.mode;
    let mut outcome = merge::outcomes(ended.iter().map(|e| &e.outcome), merging);
    if let Some(d) = done {
        d.add_to(&mut outcome);
    }
    let mut counts = Counts::default();
    let mut mismatches = 0;
    let mut matchers = Vec::new();
    for e in ended.iter_mut() {
        let graph = e.runner.runner_mut().graph_mut();
        counts.add(Counts::of(&e.chain, graph));
        mismatches += e.runner.report().mismatches + e.earlier.1;
        if matchers.is_empty() {
            matchers = common::matchers(e.runner.runner_mut().graph_mut());
        }
    }
    // nothing is lost between dispatcher and workers either
    let taken = outcome.totals.packets_in;
    let balanced = ended.iter().all(|e| e.outcome.totals.balanced())
        && done.is_none_or(|d| d.given() == taken);
    report::log(&outcome, balanced);
    let shadow = shadows(ended);
    let Some(first) = ended.first() else {
        bail!("a run has one worker at least");
    };
    let compared = first.runner.is_watching() || shadow.windows > 0 || shadow.compared > 0;
    let made = first.made.as_deref().map(|(s, v)| Made {
        graph: first.runner.graph(),
        synthesized: s,
        verification: v,
        renewals: first.renewal.verdicts(),
        shadow: compared.then_some(&shadow),
    });
    for w in &outcome.warnings {
        eprintln!("warning: {w}");
    }
    let found = alerts::table(&first.chain, &counts.rules);
    if let Some(file) = &args.html {
        let ran = crate::html::Ran {
            chain: &first.chain,
            outcome: &outcome,
            made: made.as_ref(),
            counts: &counts,
            alerts: &found,
        };
        std::fs::write(file, crate::html::run_page(&ran))?;
    }
    if args.json {
        let mut v = report::json(&outcome, mode, made.as_ref());
        if let Some(all) = v.as_object_mut() {
            counts.json(&found, all);
            all.insert("matchers".into(), common::matchers_json(&matchers));
            all.insert("mismatches".into(), mismatches.into());
            all.insert("conserved".into(), balanced.into());
            if compared {
                let capture = args.shadow.capture();
                all.insert("shadow".into(), first.log.json(&shadow, capture));
            }
            if let Some(d) = done {
                let wrong = ended.iter().map(|e| at_wrong(&e.outcome)).sum();
                all.insert("dispatch".into(), d.json(wrong));
            }
            let each = ended.iter().map(|e| worker_json(e, scaling.is_some()));
            match scaling {
                None => all.insert("workers".into(), each.collect()),
                Some(s) => {
                    all.insert("groups".into(), each.collect());
                    all.insert("scaling".into(), s.json());
                    all.insert("workers".into(), s.workers_json().into())
                }
            };
        }
        common::print_json(&v)?;
    } else {
        report::print_text(&first.chain.name, &outcome);
        alerts::print(&found);
        servers::print(&counts.servers);
        print_workers(ended, scaling);
        if let Some(d) = done {
            d.print(ended.iter().map(|e| at_wrong(&e.outcome)).sum());
        }
        if let (Some(m), Some(r)) = (&made, &outcome.program) {
            report::print_program(m, r);
        }
        if args.rules {
            rules::print(&counts.rules);
        }
    }
    Ok(match balanced && mismatches == 0 {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

/// A worker, or a group and the worker that had it in the end.
fn worker_json(e: &Ended, is_group: bool) -> serde_json::Value {
    let (o, t) = (&e.outcome, &e.outcome.totals);
    let mut v = serde_json::json!({
        "worker": e.thread,
        "core": e.core,
        "packets_in": t.packets_in,
        "packets_out": t.sent,
        "created": t.created,
        "held": t.held,
        "dropped": t.dropped,
        "drops": o.drops,
        "seconds": o.seconds,
        "cpu_seconds": o.cpu_seconds,
        "ns_per_packet": report::ns_per_packet(o),
        "mpps": t.packets_in as f64 / o.seconds.max(1e-9) / 1e6,
        "levels": report::levels_json(o),
        "verification": e.made.as_deref().map(|(_, v)| v.verdict.name()),
        "mismatches": e.runner.report().mismatches + e.earlier.1,
        "at_wrong_worker": at_wrong(o),
    });
    if let (Some(v), true) = (v.as_object_mut(), is_group) {
        v.insert("group".into(), e.number.into());
    }
    v
}

fn print_workers(ended: &[Ended], scaling: Option<&Scaling>) {
    crate::say!(
        "{}",
        if scaling.is_some() {
            "groups"
        } else {
            "workers"
        }
    );
    for e in ended {
        let (o, t) = (&e.outcome, &e.outcome.totals);
        let core = e
            .core
            .map_or("no core of its own".to_string(), |c| format!("core {c}"));
        let at = match scaling {
            Some(_) => format!("worker {}, {core}", e.thread),
            None => core,
        };
        crate::say!(
            "  {:<4} in {:>12} packets   out {:>12}   dropped {:>10}   {:>6.0} ns per packet   {at}",
            e.number,
            common::thousands(t.packets_in),
            common::thousands(t.sent),
            common::thousands(t.dropped),
            report::ns_per_packet(o)
        );
    }
    if let Some(s) = scaling.map(Scaling::json) {
        crate::say!(
            "scaling: {} splits, {} merges, {} balances",
            s["splits"],
            s["merges"],
            s["balances"]
        );
    }
}
