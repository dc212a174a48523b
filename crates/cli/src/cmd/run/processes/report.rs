//! What a run of several processes is reported as.

use super::counted::{self, Whole};
use super::mover::{Ended, Mover};
use super::scheduling::Schedule;
use crate::alerts;
use crate::cmd::run::{Args, Mode};
use crate::common::{self, thousands};
use crate::rules;
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_engine::Totals;
use onefold_nf::service::Snapshot;
use onefold_runtime::Count;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Of packets that went into a process that has ended by itself, and did not come out.
const PROCESS_ENDED: &str = "process ended";
/// Of packets that were still in rings at the end.
const LEFT: &str = "waiting for a process at the end";
/// Of packets that went into black boxes and interfaces, or into processes that have ended, and did not come out: what
/// black boxes drop, and what was lost on the way, cannot be told apart.
const NOT_SEEN_AGAIN: &str =
    "not seen again (black boxes, interfaces between processes, processes that ended)";
/// Of packets that a scheduling policy had dropped where they entered.
const SHED: &str = "shed at the entry";
/// Of packets that found no room in a ring.
const RING_FULL: &str = onefold_runtime::TRANSMIT_QUEUE_FULL;

/// What all have done together.
#[derive(Default)]
struct Sum {
    packets_in: u64,
    packets_out: u64,
    created: u64,
    held: u64,
    dropped: u64,
    drops: BTreeMap<String, u64>,
    by_element: Vec<Value>,
    /// By level, and packets that the flow table knew, of how many.
    levels: [u64; 3],
    hits: f64,
    asked: u64,
    mismatches: u64,
    ports: BTreeMap<String, (Count, Count)>,
}

fn number(v: &Value, key: &str) -> u64 {
    v.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn add(a: &mut Count, b: Count) {
    a.packets += b.packets;
    a.bytes += b.bytes;
}

impl Sum {
    fn of(mover: &Mover) -> Sum {
        let mut sum = Sum::default();
        for io in &mover.ios {
            sum.packets_in += io.received.packets;
            sum.packets_out += io.sent.packets;
            let port = sum.ports.entry(io.name.clone()).or_default();
            add(&mut port.0, io.received);
            add(&mut port.1, io.sent);
        }
        for kid in &mover.kids {
            if let Some(r) = &kid.report {
                sum.add(r);
            }
            match u64::try_from(kid.gone) {
                // what rings say of it is a part of the truth
                _ if mover.beyond.is_slow() => {}
                Ok(0) => {}
                Ok(gone) => sum.drop(PROCESS_ENDED, gone),
                // it had made more than it had dropped
                Err(_) => sum.created += kid.gone.unsigned_abs(),
            }
        }
        if mover.left > 0 {
            sum.drop(LEFT, mover.left);
        }
        if mover.shed > 0 {
            sum.drop(SHED, mover.shed);
        }
        let lost = mover.packets.counts().lost;
        if lost > 0 {
            sum.drop(RING_FULL, lost);
        }
        if mover.beyond.is_slow() {
            let (came, went) = (
                sum.packets_in + sum.created,
                sum.packets_out + sum.dropped + sum.held,
            );
            match came.checked_sub(went) {
                Some(0) => {}
                Some(n) => sum.drop(NOT_SEEN_AGAIN, n),
                // a black box says something by itself
                None => sum.created += went - came,
            }
        }
        sum
    }

    fn drop(&mut self, reason: &str, packets: u64) {
        *self.drops.entry(reason.to_string()).or_default() += packets;
        self.dropped += packets;
    }

    /// A process's report.
    fn add(&mut self, r: &Value) {
        self.created += number(r, "created");
        self.held += number(r, "held");
        self.mismatches += number(r, "mismatches");
        for (reason, n) in r
            .get("drops")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            self.drop(reason, n.as_u64().unwrap_or(0));
        }
        let by = r.get("drops_by_element").and_then(Value::as_array);
        self.by_element.extend(by.into_iter().flatten().cloned());
        for key in ["lost", "refused"] {
            let n = number(r, key);
            if n > 0 {
                self.drop(RING_FULL, n);
            }
        }
        if let Some(levels) = r.get("levels") {
            for (i, name) in ["reference", "program", "flow"].iter().enumerate() {
                if let Some(l) = self.levels.get_mut(i) {
                    *l += number(levels, name);
                }
            }
            let all = number(r, "packets_in");
            let rate = levels.get("hit_rate").and_then(Value::as_f64);
            self.hits += rate.unwrap_or(0.0) * all as f64;
            self.asked += all;
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            packets_in: self.packets_in,
            created: self.created,
            sent: self.packets_out,
            dropped: self.dropped,
            held: self.held,
        }
    }

    /// Is every packet accounted for?
    fn balanced(&self) -> bool {
        self.totals().balanced()
    }

    fn hit_rate(&self) -> f64 {
        self.hits / self.asked.max(1) as f64
    }
}

/// A process in the report.
fn process(mover: &Mover, i: usize) -> Value {
    let Some(kid) = mover.kids.get(i) else {
        return Value::Null;
    };
    let report = kid.report.clone().unwrap_or_default();
    let block = mover.region.nf(kid.number);
    let said = |f: fn(&onefold_nf::Said) -> u64| block.map_or(0, |b| f(b.said()));
    json!({
        "name": kid.name,
        "core": kid.core,
        "restarts": kid.restarts,
        "lost": kid.lost,
        "bypassed": kid.bypassed,
        "received": said(|s| s.received.load(Ordering::Relaxed)),
        "sent": said(|s| s.sent.load(Ordering::Relaxed)),
        "batches": said(|s| s.batches.load(Ordering::Relaxed)),
        "sleeps": said(|s| s.sleeps.load(Ordering::Relaxed)),
        "yields": said(|s| s.yields.load(Ordering::Relaxed)),
        "storage_waits": said(|s| s.storage_waits.load(Ordering::Relaxed)),
        "in_storage": said(|s| s.in_storage.load(Ordering::Relaxed).into()) != 0,
        "marked": said(|s| s.marked.load(Ordering::Relaxed)),
        "found_full": said(|s| s.lost.load(Ordering::Relaxed)),
        "cost_hint_ns": said(|s| s.cost_hint.load(Ordering::Relaxed)),
        "sample_ns": said(|s| s.sample.load(Ordering::Relaxed)),
        "service_ns": block.and_then(|b| Snapshot::of(b.service()).median()),
        "packets_in": report.get("packets_in"),
        "packets_out": report.get("packets_out"),
        "cpu_seconds": report.get("cpu_seconds"),
        "levels": report.get("levels"),
        "verification": report.get("verification"),
        "black_box": doors(&report),
    })
}

/// What went into a black box and what came out of it, by its ports; `null`: it is none.
fn doors(report: &Value) -> Value {
    let all = report.get("ports").and_then(Value::as_object);
    let doors = all.into_iter().flatten().filter_map(|(name, v)| {
        let n = name.strip_prefix("box ")?;
        let count = |way: &str| v.pointer(&format!("/{way}/packets")).cloned();
        Some(json!({ "port": n.parse::<u32>().ok()?, "into": count("out"), "out_of": count("in") }))
    });
    let doors: Vec<Value> = doors.collect();
    match doors.is_empty() {
        true => Value::Null,
        false => doors.into(),
    }
}

/// All of it, also of a run that goes on.
pub fn json(mode: Mode, mover: &Mover, ended: Ended) -> Value {
    let sum = Sum::of(mover);
    let all = (0..mover.kids.len()).map(|i| process(mover, i));
    let one = |(name, (i, out)): (&String, &(Count, Count))| {
        let of = mover.ios.iter().filter(|io| io.name == *name);
        let lost = of.clone().flat_map(|io| io.losses());
        let lost: serde_json::Map<_, _> = lost
            .map(|l| (l.reason.to_string(), l.packets.into()))
            .collect();
        let mut v = json!({
            "in": { "packets": i.packets, "bytes": i.bytes },
            "out": { "packets": out.packets, "bytes": out.bytes },
        });
        if let Some(link) = of.clone().filter_map(|io| io.link()).next() {
            v["link"] = link.into();
            v["lost"] = lost.into();
        }
        if let Some(latency) = of.filter_map(|io| io.latency()).next() {
            v["latency"] = latency;
        }
        (name.clone(), v)
    };
    let ports: serde_json::Map<_, _> = sum.ports.iter().map(one).collect();
    let [reference, program, flow] = sum.levels;
    let schedule = mover
        .scheduling
        .as_ref()
        .map(|s| s.schedule().json(&mover.kids));
    json!({
        "mode": mode.name(),
        "levels": { "reference": reference, "program": program, "flow": flow, "hit_rate": sum.hit_rate() },
        "packets_in": sum.packets_in,
        "packets_out": sum.packets_out,
        "created": sum.created,
        "held": sum.held,
        "dropped": sum.dropped,
        "drops": sum.drops,
        "drops_by_element": sum.by_element,
        "ports": ports,
        "seconds": ended.seconds,
        "ns_per_packet": ended.seconds * 1e9 / sum.packets_in.max(1) as f64,
        "mpps": sum.packets_in as f64 / ended.seconds.max(1e-9) / 1e6,
        "capture_seconds": ended.span.as_secs_f64(),
        "conserved": sum.balanced(),
        "slots_missing": mover.missing,
        "interrupted": ended.interrupted,
        "rules": [],
        "processes": all.collect::<Vec<_>>(),
        "schedule": schedule,
    })
}

/// Prints it. The exit status: is every packet accounted for, and was nothing that was compared different?
pub fn print(args: &Args, chain: &Chain, mover: &mut Mover, ended: Ended) -> Result<u8> {
    let sum = Sum::of(mover);
    let per_packet = ended.seconds * 1e9 / sum.packets_in.max(1) as f64;
    let reports = mover.kids.iter().filter_map(|k| k.report.as_ref());
    let whole = Whole::new(args, chain);
    let counts = whole.counts(reports.filter_map(|r| r.get("counted")));
    let found = whole.found(&counts);
    let mut v = json(args.mode, mover, ended);
    if let Some(all) = v.as_object_mut() {
        counts.json(&found, all);
    }
    if let Some(file) = &args.html {
        let outcome = counted::outcome(&v, sum.totals());
        let page = crate::html::run_page(&crate::html::Ran {
            chain,
            outcome: &outcome,
            made: None,
            counts: &counts,
            alerts: &found,
        });
        std::fs::write(file, page).with_context(|| format!("'{}'", file.display()))?;
    }
    if args.json {
        common::print_json(&v)?;
    } else {
        text(&chain.name, &sum, mover, (ended, per_packet));
        alerts::print(&found);
        if args.rules {
            rules::print(&counts.rules);
        }
        if let Some(f) = &args.html {
            crate::say!("report: {}", f.display());
        }
    }
    let holds = sum.balanced() && sum.mismatches == 0;
    Ok(if holds {
        common::HOLDS
    } else {
        common::HOLDS_NOT
    })
}

fn text(name: &str, sum: &Sum, mover: &Mover, (ended, per_packet): (Ended, f64)) {
    if ended.interrupted {
        crate::say!("interrupted: this is what happened until then");
    }
    let rate = sum.packets_in as f64 / ended.seconds.max(1e-9) / 1e6;
    crate::say!(
        "{name}: {} packets in {:.2} s, {rate:.2} Mpps, {per_packet:.0} ns per packet, {} processes",
        thousands(sum.packets_in),
        ended.seconds,
        mover.kids.len()
    );
    crate::say!("  in       {:>14}", thousands(sum.packets_in));
    if sum.created > 0 {
        crate::say!("  created  {:>14}", thousands(sum.created));
    }
    crate::say!("  out      {:>14}", thousands(sum.packets_out));
    crate::say!("  dropped  {:>14}", thousands(sum.dropped));
    crate::say!("  held     {:>14}", thousands(sum.held));
    if !sum.balanced() {
        crate::say!("  NOT CONSERVED: in + created != out + dropped + held");
    }
    if sum.mismatches > 0 {
        crate::say!(
            "  {} packets differed from the reference graph",
            sum.mismatches
        );
    }
    crate::say!("processes");
    for kid in &mover.kids {
        let block = mover.region.nf(kid.number);
        let service = block.and_then(|b| Snapshot::of(b.service()).median());
        let received = block.map_or(0, |b| b.said().received.load(Ordering::Relaxed));
        let service = service.map_or(String::new(), |ns| format!("  {ns} ns per packet"));
        let restarts = match kid.restarts {
            0 => String::new(),
            n => format!("  launched again {n} times, {} packets lost", kid.lost),
        };
        crate::say!(
            "  {:<20} {:>12} packets{service}{restarts}",
            kid.name,
            thousands(received)
        );
    }
    if let Some(s) = &mover.scheduling {
        scheduled(s.schedule(), mover);
    }
    crate::say!("ports");
    for (n, (i, out)) in &sum.ports {
        crate::say!(
            "  {n:<12} in {:>12} packets {:>15} bytes   out {:>12} packets {:>15} bytes",
            thousands(i.packets),
            thousands(i.bytes),
            thousands(out.packets),
            thousands(out.bytes)
        );
    }
    if !sum.drops.is_empty() {
        crate::say!("drops by reason");
        for (reason, n) in &sum.drops {
            crate::say!("  {:>12}  {reason}", thousands(*n));
        }
    }
}

/// What became of scheduling.
fn scheduled(s: &Schedule, mover: &Mover) {
    let f = s.figures();
    crate::say!("schedule: {}", s.told());
    for (kid, n) in mover.kids.iter().zip(&f.nfs) {
        let core = kid.core.map_or(String::new(), |c| format!("  core {c}"));
        let share = n.usage.run as f64 * 100.0 / f.elapsed.max(1) as f64;
        let throttled = match n.throttled {
            0 => String::new(),
            t => format!("  withheld {t} times, {:.3} s", n.throttled_ns as f64 / 1e9),
        };
        crate::say!(
            "  {:<20} {share:>5.1}% of{core}  switches {} voluntary, {} not  wasted {}{throttled}",
            kid.name,
            thousands(n.usage.voluntary),
            thousands(n.usage.involuntary),
            thousands(n.wasted)
        );
    }
    for (name, n) in s.shed().filter(|s| s.1 > 0) {
        crate::say!(
            "  {:<20} {:>12} packets shed at the entry",
            name,
            thousands(n)
        );
    }
    if f.rescued > 0 {
        crate::say!(
            "  {} cores were given turns: a function did not let others run",
            f.rescued
        );
    }
    for r in s.remarks() {
        crate::say!("  {r}");
    }
}
