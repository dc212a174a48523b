//! The status in the text format of Prometheus. Names and units are documented in docs/metrics.md.

use serde_json::Value;
use std::fmt::Write;

/// A metric of which there are several values.
struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl<'a> Family<'a> {
    fn new(out: &'a mut String, name: &'static str, kind: &str, help: &str) -> Family<'a> {
        // writing to a String cannot fail
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { out, name }
    }
    fn add(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        let Some(value) = value else { return };
        let labels: Vec<String> = labels
            .iter()
            .map(|(k, v)| format!("{k}=\"{}\"", escaped(v)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.out, "{}{labels} {value}", self.name);
    }
}

fn escaped(v: &str) -> String {
    v.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn list<'a>(v: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    v.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn map<'a>(v: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    v.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn text_of<'a>(v: &'a Value, key: &str) -> &'a str {
    v.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The page.
pub fn text(v: &Value) -> String {
    let mut out = String::new();
    packets(&mut out, v);
    ports(&mut out, v);
    workers(&mut out, v);
    scaling(&mut out, v);
    functions(&mut out, v);
    out
}

fn packets(out: &mut String, v: &Value) {
    for (name, key, help) in [
        (
            "onefold_packets_in_total",
            "packets_in",
            "Packets that arrived.",
        ),
        (
            "onefold_packets_out_total",
            "packets_out",
            "Packets that left.",
        ),
        (
            "onefold_packets_created_total",
            "created",
            "Packets that elements made.",
        ),
        (
            "onefold_packets_dropped_total",
            "dropped",
            "Packets that were dropped.",
        ),
        (
            "onefold_reloads_total",
            "reloads",
            "Chains that took another one's place.",
        ),
        (
            "onefold_punted_packets_total",
            "punted_packets",
            "Packets that the program handed to the reference graph.",
        ),
    ] {
        Family::new(out, name, "counter", help).add(&[], v.get(key).and_then(Value::as_f64));
    }
    let mut held = Family::new(
        out,
        "onefold_packets_held",
        "gauge",
        "Packets inside elements.",
    );
    held.add(&[], v.get("held").and_then(Value::as_f64));
    let mut up = Family::new(
        out,
        "onefold_uptime_seconds",
        "gauge",
        "Time since packets are taken.",
    );
    up.add(&[], v.get("seconds").and_then(Value::as_f64));
    let mut f = Family::new(
        out,
        "onefold_level_packets_total",
        "counter",
        "Packets by the level that took them at their entry.",
    );
    for level in ["reference", "program", "flow"] {
        f.add(
            &[("level", level)],
            v["levels"].get(level).and_then(Value::as_f64),
        );
    }
    let table = &v["levels"]["flow_table"];
    let mut f = Family::new(
        out,
        "onefold_flow_table_entries",
        "gauge",
        "Entries of the flow table.",
    );
    f.add(&[], table.get("entries").and_then(Value::as_f64));
    let mut f = Family::new(
        out,
        "onefold_flow_table_evicted_total",
        "counter",
        "Entries that made room.",
    );
    f.add(&[], table.get("evicted").and_then(Value::as_f64));
    let mut f = Family::new(
        out,
        "onefold_shadow_differences_total",
        "counter",
        "Differences between program and reference graph.",
    );
    f.add(&[], v["shadow"].get("differences").and_then(Value::as_f64));
}

fn ports(out: &mut String, v: &Value) {
    for (name, what, help) in [
        (
            "onefold_port_packets_total",
            "packets",
            "Packets of a port of the chain.",
        ),
        (
            "onefold_port_bytes_total",
            "bytes",
            "Bytes of a port of the chain, Ethernet headers included.",
        ),
    ] {
        let mut f = Family::new(out, name, "counter", help);
        for (port, p) in map(v, "ports") {
            for way in ["in", "out"] {
                let labels = [("port", port.as_str()), ("direction", way)];
                f.add(&labels, p[way].get(what).and_then(Value::as_f64));
            }
        }
    }
    let mut f = Family::new(
        out,
        "onefold_port_lost_packets_total",
        "counter",
        "Packets lost in front of the chain or behind it.",
    );
    for (port, p) in map(v, "ports") {
        for (reason, n) in map(p, "lost") {
            f.add(&[("port", port), ("reason", reason)], n.as_f64());
        }
    }
    let mut f = Family::new(
        out,
        "onefold_port_up",
        "gauge",
        "1 while the link of a port is up.",
    );
    for (port, p) in map(v, "ports") {
        if let Some(link) = p.get("link").and_then(Value::as_str) {
            f.add(
                &[("port", port)],
                Some(if link == "up" { 1.0 } else { 0.0 }),
            );
        }
    }
}

fn workers(out: &mut String, v: &Value) {
    for (name, key, help) in [
        (
            "onefold_worker_packets_total",
            "packets_in",
            "Packets that a worker took.",
        ),
        (
            "onefold_worker_busy_seconds_total",
            "busy_seconds",
            "Time in which there was something to do.",
        ),
        (
            "onefold_worker_cpu_seconds_total",
            "cpu_seconds",
            "Time for which the worker's thread was executed.",
        ),
        (
            "onefold_worker_batches_total",
            "batches",
            "Batches that a worker took.",
        ),
    ] {
        let mut f = Family::new(out, name, "counter", help);
        for w in list(v, "workers") {
            let n = w["worker"].to_string();
            f.add(&[("worker", &n)], w.get(key).and_then(Value::as_f64));
        }
    }
    let mut f = Family::new(
        out,
        "onefold_worker_batch_seconds",
        "gauge",
        "Time that a batch takes, by quantile, within a factor of two.",
    );
    for w in list(v, "workers") {
        let n = w["worker"].to_string();
        for (quantile, key) in [("0.5", "p50"), ("0.99", "p99")] {
            let ns = w["batch_ns"].get(key).and_then(Value::as_f64);
            f.add(
                &[("worker", &n), ("quantile", quantile)],
                ns.map(|n| n / 1e9),
            );
        }
    }
}

/// Where groups of flows go from worker to worker.
fn scaling(out: &mut String, v: &Value) {
    let Some(s) = v.get("scaling") else { return };
    let mut f = Family::new(
        out,
        "onefold_workers_active",
        "gauge",
        "Workers that have groups of flows.",
    );
    f.add(&[], s["workers"]["active"].as_f64());
    let mut f = Family::new(
        out,
        "onefold_scaling_moves_total",
        "counter",
        "Times that groups went from one worker to another one.",
    );
    for (kind, key) in [
        ("split", "splits"),
        ("merge", "merges"),
        ("balance", "balances"),
    ] {
        f.add(&[("kind", kind)], s.get(key).and_then(Value::as_f64));
    }
    for (name, kind, key, help) in [
        (
            "onefold_group_packets_total",
            "counter",
            "packets_in",
            "Packets of a group of flows.",
        ),
        (
            "onefold_group_spent_seconds_total",
            "counter",
            "spent_seconds",
            "Time that batches of a group took, by one in sixteen.",
        ),
        (
            "onefold_group_worker",
            "gauge",
            "worker",
            "The worker that a group is at.",
        ),
    ] {
        let mut f = Family::new(out, name, kind, help);
        for g in list(v, "groups") {
            let n = g["group"].to_string();
            f.add(&[("group", &n)], g.get(key).and_then(Value::as_f64));
        }
    }
}

fn functions(out: &mut String, v: &Value) {
    let mut f = Family::new(
        out,
        "onefold_nf_packets_total",
        "counter",
        "Packets of traffic classes that pass a network function, since the program was made.",
    );
    for n in list(v, "nfs") {
        f.add(
            &[("nf", text_of(n, "nf"))],
            n.get("packets").and_then(Value::as_f64),
        );
    }
    let mut f = Family::new(
        out,
        "onefold_drops_total",
        "counter",
        "Packets dropped, by element and reason.",
    );
    for d in list(v, "drops_by_element") {
        let labels = [
            ("nf", text_of(d, "nf")),
            ("element", text_of(d, "element")),
            ("reason", text_of(d, "reason")),
        ];
        f.add(&labels, d.get("packets").and_then(Value::as_f64));
    }
    let mut f = Family::new(
        out,
        "onefold_class_packets_total",
        "counter",
        "Packets of a traffic class (STAGE.ACTION), since the program was made.",
    );
    for c in list(v, "classes") {
        f.add(
            &[("class", text_of(c, "class"))],
            c.get("packets").and_then(Value::as_f64),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_line_is_a_comment_or_a_metric_and_labels_are_escaped() {
        let v = json!({
            "packets_in": 7, "levels": { "flow": 3, "flow_table": { "entries": 2 } },
            "ports": { "lan": {
                "in": { "packets": 1, "bytes": 60 }, "out": {}, "link": "down", "lost": { "a\"b": 2 }
            } },
            "workers": [{ "worker": 0, "batch_ns": { "p50": 2000 } }],
            "groups": [{ "group": 5, "worker": 1, "packets_in": 9 }],
            "scaling": { "workers": { "active": 2 }, "splits": 3 },
        });
        let t = text(&v);
        for line in t.lines().filter(|l| !l.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                name.starts_with("onefold_") && value.parse::<f64>().is_ok(),
                "{line}"
            );
        }
        for line in [
            "onefold_packets_in_total 7",
            "onefold_port_packets_total{port=\"lan\",direction=\"in\"} 1",
            "onefold_port_lost_packets_total{port=\"lan\",reason=\"a\\\"b\"} 2",
            "onefold_port_up{port=\"lan\"} 0",
            "onefold_worker_batch_seconds{worker=\"0\",quantile=\"0.5\"} 0.000002",
            "onefold_workers_active 2",
            "onefold_scaling_moves_total{kind=\"split\"} 3",
            "onefold_group_worker{group=\"5\"} 1",
        ] {
            assert!(t.lines().any(|l| l == line), "{line}\n{t}");
        }
    }
}
