//! What a run is reported as: text, and one JSON object.

use super::{Made, Mode};
use crate::common::thousands;
use crate::deploy::{self, Verdict};
use crate::log::{Level, event};
use crate::runner::Outcome;
use crate::{live, program, rules};
use onefold_engine::program::{ClassCount, Report};
use onefold_synth::program::{Action, Program};

/// Tells the log what became of all packets.
pub fn log(o: &Outcome, conserved: bool) {
    let t = &o.totals;
    let fields = [
        ("packets_in", t.packets_in.into()),
        ("created", t.created.into()),
        ("packets_out", t.sent.into()),
        ("dropped", t.dropped.into()),
        ("held", t.held.into()),
        ("conserved", conserved.into()),
        ("seconds", o.seconds.into()),
        ("interrupted", o.interrupted.into()),
    ];
    let level = match conserved {
        true => Level::Info,
        false => Level::Error,
    };
    event(level, "ended", &fields);
}

/// The result as INTERFACE documents it.
pub fn json(o: &Outcome, mode: Mode, made: Option<&Made<'_>>) -> serde_json::Value {
    let t = &o.totals;
    let ports = live::ports_json(o);
    let mut all = serde_json::json!({
        "mode": mode.name(),
        "levels": levels_json(o),
        "packets_in": t.packets_in,
        "packets_out": t.sent,
        "created": t.created,
        "held": t.held,
        "dropped": t.dropped,
        "drops": o.drops,
        "drops_by_element": o.drops_by_element.iter().map(|d| serde_json::json!({
            "nf": d.function(), "element": d.element, "reason": d.reason, "packets": d.packets,
            "file": d.place.file.as_ref(), "line": d.place.line })).collect::<Vec<_>>(),
        "ports": ports,
        "seconds": o.seconds,
        "cpu_seconds": o.cpu_seconds,
        "ns_per_packet": ns_per_packet(o),
        "mpps": t.packets_in as f64 / o.seconds.max(1e-9) / 1e6,
        "capture_seconds": o.span,
        "conserved": t.balanced(),
        "interrupted": o.interrupted,
        "overruns": o.overruns,
        "warnings": o.warnings,
    });
    if let (Some(m), Some(r), Some(all)) = (made, &o.program, all.as_object_mut()) {
        let (g, s) = (m.graph, m.synthesized);
        let made = rules::made(&s.program);
        let hit: Vec<_> = shown_classes(r)
            .into_iter()
            .map(|c| {
                let action = action_of(&s.program, &c);
                let by = made.get(&(c.stage, c.action));
                let origin = by.map_or(&[][..], |m| &m.common);
                serde_json::json!({
                    "stage": c.stage,
                    "action": c.action,
                    "packets": c.packets,
                    "bytes": c.bytes,
                    "end": action.map(|a| program::end(g, a)),
                    "rules": by.map_or(0, |m| m.rules),
                    "origin": origin.iter().map(|o| program::origin(g, o)).collect::<Vec<_>>(),
                })
            })
            .collect();
        let punts: Vec<_> = r
            .punts
            .iter()
            .filter(|p| p.packets > 0)
            .map(|p| {
                serde_json::json!({
                    "element": p.element, "cause": p.cause, "asked": p.asked, "packets": p.packets,
                })
            })
            .collect();
        all.insert("classes_of".into(), program::classes(&s.program).into());
        all.insert("classes_hit".into(), hit.len().into());
        all.insert("classes".into(), hit.into());
        all.insert("punted_packets".into(), r.punted().into());
        all.insert("punts".into(), punts.into());
        all.insert(
            "program".into(),
            serde_json::json!({
                "stages": s.program.stages.len(),
                "rules": program::rules(&s.program),
                "synthesis_seconds": s.seconds,
                "renewed": o.renewed,
                "notes": s.program.notes,
            }),
        );
        all.insert("verification".into(), m.verification.json(m.renewals));
        if let (Verdict::Skipped, Some(w)) = (m.verification.verdict, all.get_mut("warnings")) {
            let said = w.as_array_mut();
            said.into_iter()
                .for_each(|w| w.push(deploy::UNVERIFIED.into()));
        }
    }
    all
}

pub fn ns_per_packet(o: &Outcome) -> f64 {
    o.seconds * 1e9 / o.totals.packets_in.max(1) as f64
}

/// Of packets that came in, the share whose way the flow table knew.
pub fn hit_rate(o: &Outcome) -> f64 {
    o.flow.hits as f64 / o.totals.packets_in.max(1) as f64
}

/// Packets by level, and what the flow table did.
pub fn levels_json(o: &Outcome) -> serde_json::Value {
    let [reference, program, flow] = o.levels;
    let f = &o.flow;
    serde_json::json!({
        "reference": reference,
        "program": program,
        "flow": flow,
        "hit_rate": hit_rate(o),
        "flow_table": {
            "entries": f.entries,
            "places": f.places,
            "made": f.made,
            "evicted": f.evicted,
            "ended": f.ended,
            "refused": f.refused,
            "shed": f.shed,
            "bytes": f.bytes,
        },
    })
}

/// Which level took the packets.
pub fn print_levels(o: &Outcome) {
    let all = o.levels.iter().sum::<u64>().max(1) as f64;
    let share = |n: u64| n as f64 * 100.0 / all;
    let [reference, program, flow] = o.levels;
    crate::say!("levels");
    for (name, n, what) in [
        ("flow", flow, "as the flow table remembers"),
        ("program", program, "by the program"),
        ("reference", reference, "element by element"),
    ] {
        crate::say!(
            "  {name:<10} {:>14}  {:>5.1}%  {what}",
            thousands(n),
            share(n)
        );
    }
    if flow > 0 || o.flow.made > 0 {
        crate::say!(
            "  flow table: {:.1}% of all packets known, {} entries of {} made",
            hit_rate(o) * 100.0,
            thousands(o.flow.entries as u64),
            thousands(o.flow.made)
        );
    }
    if o.flow.shed > 0 {
        crate::say!(
            "  overload: {} packets of unknown flows were dropped while packets queued up (--protect)",
            thousands(o.flow.shed)
        );
    }
}

/// Classes that packets were of, most first.
pub fn shown_classes(r: &Report) -> Vec<ClassCount> {
    let mut c = r.classes();
    c.retain(|c| c.packets > 0);
    c.sort_by_key(|c| std::cmp::Reverse(c.packets));
    c
}

/// The action of a class.
pub fn action_of<'a>(p: &'a Program, c: &ClassCount) -> Option<&'a Action> {
    p.stages.get(c.stage)?.actions.get(c.action)
}

pub fn print_program(m: &Made<'_>, r: &Report) {
    let (g, s) = (m.graph, m.synthesized);
    let p = &s.program;
    crate::say!("verification: {}", m.verification.told().trim_end());
    if let Some(r) = m.shadow {
        crate::say!("shadow mode: {}", r.line());
    }
    let hit = shown_classes(r);
    crate::say!(
        "synthesized in {:.0} ms: {} traffic classes in {} stages, {} rules; {} classes had packets",
        s.seconds * 1e3,
        thousands(program::classes(p) as u64),
        p.stages.len(),
        thousands(program::rules(p) as u64),
        thousands(hit.len() as u64)
    );
    const SHOWN: usize = 12;
    let made = rules::made(p);
    for c in hit.iter().take(SHOWN) {
        let action = action_of(p, c);
        let by = made.get(&(c.stage, c.action));
        crate::say!(
            "  {:>12}  {}.{}  {}{}",
            thousands(c.packets),
            c.stage,
            c.action,
            action.map_or(String::new(), |a| program::end(g, a)),
            by.map_or(String::new(), |m| m.told(g))
        );
    }
    if hit.len() > SHOWN {
        crate::say!("  ... and {} more (--json shows all)", hit.len() - SHOWN);
    }
    let share = r.punted() as f64 * 100.0 / (r.packets + r.reference).max(1) as f64;
    crate::say!(
        "punted to the reference graph: {} packets ({share:.2}%)",
        thousands(r.punted())
    );
    for c in r.punts.iter().filter(|p| p.packets > 0) {
        let how = if c.asked { "asked" } else { "punted" };
        crate::say!(
            "  {:>12}  {how} at {}: {}",
            thousands(c.packets),
            c.element,
            c.cause
        );
    }
    if r.reference > 0 {
        crate::say!(
            "  {:>12}  while no program was valid",
            thousands(r.reference)
        );
    }
    for n in &p.notes {
        crate::say!("note: {n}");
    }
}

pub fn print_text(name: &str, o: &Outcome) {
    let t = &o.totals;
    let rate = t.packets_in as f64 / o.seconds.max(1e-9) / 1e6;
    if o.interrupted {
        crate::say!("interrupted: this is what happened until then");
    }
    crate::say!(
        "{name}: {} packets in {:.2} s, {rate:.2} Mpps, {:.0} ns per packet",
        thousands(t.packets_in),
        o.seconds,
        o.seconds * 1e9 / (t.packets_in.max(1) as f64)
    );
    crate::say!("  in       {:>14}", thousands(t.packets_in));
    if t.created > 0 {
        crate::say!(
            "  created  {:>14}   copies, fragments, ICMP errors, ARP",
            thousands(t.created)
        );
    }
    crate::say!("  out      {:>14}", thousands(t.sent));
    crate::say!("  dropped  {:>14}", thousands(t.dropped));
    crate::say!("  held     {:>14}", thousands(t.held));
    if !t.balanced() {
        crate::say!("  NOT CONSERVED: in + created != out + dropped + held");
    }
    print_levels(o);
    crate::say!("ports");
    for (n, i, out) in &o.ports {
        crate::say!(
            "  {n:<12} in {:>12} packets {:>15} bytes   out {:>12} packets {:>15} bytes",
            thousands(i.packets),
            thousands(i.bytes),
            thousands(out.packets),
            thousands(out.bytes)
        );
    }
    live::print_losses(o);
    if !o.drops_by_element.is_empty() {
        crate::say!("drops by reason");
        const SHOWN: usize = 20;
        for d in o.drops_by_element.iter().take(SHOWN) {
            crate::say!("  {:>12}  {}  ({})", thousands(d.packets), d.told(), d.at());
        }
        if o.drops_by_element.len() > SHOWN {
            crate::say!(
                "  ... and {} more (--json shows all)",
                o.drops_by_element.len() - SHOWN
            );
        }
    }
    if o.overruns > 0 {
        crate::say!(
            "work was cut short {} times by the engine's bounds",
            o.overruns
        );
    }
}
