//! Many flows at four fifths of the highest rate, while groups of flows go from worker to worker and the chain is
//! reloaded: a part of `make soak`.

use crate::common;
use crate::edge::{Edge, number};
use onefold_testing::net::Net;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Flows, reloads, and seconds of a run without changes.
struct Size {
    flows: &'static str,
    reloads: u64,
    seconds: &'static str,
}

/// Hosts of the network inside talk to hosts outside: a packet that the router sends back where it came from has no NAT
/// on its way, and its answer may come to another worker (docs/guide.md).
const RULES: &str = "deny dst net 204.152.0.0/16\nallow src net 204.152.0.0/16\n";

/// The generator's arguments: at this rate, until this ends it.
fn generator(edge: &Edge, rules: &str, size: &Size, more: &[&str]) -> Child {
    let mut c = edge.net.command("g", env!("CARGO_BIN_EXE_onefold"));
    c.args([
        "gen", "--for", "isp-edge", "--set", rules, "--flows", size.flows,
    ]);
    c.args(["--port", "lan=packet:ga", "--port", "wan=packet:gb"]);
    c.args([
        "--protocols",
        "udp",
        "--size",
        "60",
        "--establish",
        "--json",
    ]);
    c.args(more).current_dir(common::root());
    c.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    c.spawn().expect("the binary runs")
}

fn report(c: Child) -> Value {
    let o = c.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&o.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text} {:?}", o.status))
}

fn end(c: Child) -> Value {
    let pid = c.id().to_string();
    let _ = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    report(c)
}

fn loss(v: &Value) -> f64 {
    v["loss"].as_f64().unwrap_or_else(|| panic!("no loss: {v}"))
}

/// Reloads the chain so often, and has one worker, two, and one again meanwhile.
fn change(edge: &Edge, reloads: u64) {
    for i in 0..reloads {
        let more = if i % 2 == 0 {
            "deny dst port 4444\n"
        } else {
            ""
        };
        edge.rules(&format!("{more}{RULES}"));
        let v = edge.json(&["reload"]);
        assert_eq!(v["lost"], serde_json::json!([]), "{v}");
        assert_eq!(v["dropped"], 0, "{v}");
        std::thread::sleep(Duration::from_millis(200));
        if i % 10 == 9 {
            let n = if i % 20 == 9 { "1" } else { "2" };
            edge.json(&["scale", n]);
        }
    }
}

/// The highest rate with less than a thousandth lost.
fn highest(edge: &Edge, rules: &str, size: &Size) -> f64 {
    let search = [
        "--search", "--loss", "0.001", "--trial", "5", "--step", "0.1",
    ];
    let more = [&search[..], &["--attempts", "2"]].concat();
    let v = report(generator(edge, rules, size, &more));
    let most = v["search"]["throughput_pps"].as_f64();
    most.unwrap_or_else(|| panic!("no rate without loss: {v}"))
}

/// What the ports have lost at their entries, and what was lost inside.
fn losses(v: &Value) -> (u64, u64) {
    let inside = number(v, &["dispatch", "dropped"]);
    (crate::edge::lost(v).saturating_sub(inside), inside)
}

fn run(name: &str, size: &Size, controls: usize) {
    let Some(net) = Net::new(&["g", "o"]) else {
        return;
    };
    net.pair(("g", "ga"), ("o", "oa"));
    net.pair(("g", "gb"), ("o", "ob"));
    let folder = common::temp(name);
    let file = folder.join("edge.rules");
    std::fs::write(&file, RULES).expect("a file");
    let rules = format!("rules={}", file.display());
    let args = ["isp-edge", "--set", &rules, "--workers", "1..2"];
    let ports = [
        "--port",
        "lan=packet:oa,ring=8192",
        "--port",
        "wan=packet:ob,ring=8192",
    ];
    let edge = Edge::of(net, folder, &[&args[..], &ports].concat(), "off");
    edge.json(&["scale", "2"]);
    // a rate that is known from before may be given
    let most = match std::env::var("LOAD_RATE").ok() {
        Some(rate) => rate.parse().expect("LOAD_RATE: packets a second"),
        None => highest(&edge, &rules, size),
    };
    eprintln!("the highest rate is {most} packets a second");
    let rate = (most * 0.8).to_string();
    let mut quiet = Vec::new();
    for _ in 0..controls {
        let how = ["--rate", &rate, "--seconds", size.seconds];
        let v = report(generator(&edge, &rules, size, &how));
        eprintln!("without changes: loss {:.6}", loss(&v));
        quiet.push(v);
    }
    let before = edge.status();
    let c = generator(&edge, &rules, size, &["--rate", &rate]);
    // flows are open
    let begun = Instant::now();
    let opened =
        number(&before, &["packets_in"]) + 2 * size.flows.parse::<u64>().expect("a number");
    while number(&edge.status(), &["packets_in"]) < opened {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "flows are not opened"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    // what the search has lost on purpose, and flows that are opened all at once, are not of what is looked at
    let open = losses(&edge.status());
    change(&edge, size.reloads);
    let changed = end(c);
    let after = edge.status();
    let v = edge.onefold.stop();
    let (entries, inside) = losses(&v);
    let (entries, inside) = (entries - open.0, inside - open.1);
    let without: Vec<f64> = quiet.iter().map(loss).collect();
    println!(
        "soak: {} flows, {} reloads, {} moves of groups at {rate} packets a second: loss {:.6}, without changes \
         {without:?}; lost at entries {entries}, inside {inside} (before, {open:?})",
        size.flows,
        number(&after, &["reloads"]),
        number(&v, &["scaling", "splits"]) + number(&v, &["scaling", "merges"]),
        loss(&changed),
    );
    assert_eq!(number(&after, &["reloads"]), size.reloads);
    // inside nothing is lost, no packet is at a wrong worker, and no flow has lost its binding
    let dispatch = &v["dispatch"];
    assert_eq!(number(dispatch, &["at_wrong_worker"]), 0, "{dispatch}");
    let drops = v["drops_by_element"].as_array().into_iter().flatten();
    let unknown = |d: &&Value| d["reason"].as_str().is_some_and(|r| r.contains("mapping"));
    let unknown: Vec<_> = drops.filter(unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(inside, 0, "{:?}", v["dispatch"]);
    let most = without.iter().copied().fold(0.0, f64::max);
    assert!(loss(&changed) <= most, "{} of {without:?}", loss(&changed));
    // the kernel may change the order where a thread goes from core to core
    let order = |v: &Value| number(v, &["reordered_in_flows"]);
    let most = quiet.iter().map(order).max().unwrap_or(0);
    assert!(
        order(&changed) <= most,
        "{} of {most}: {changed}",
        order(&changed)
    );
}

#[test]
#[ignore = "takes minutes: a part of make soak"]
fn established_flows_hold_over_reloads_and_moves_at_four_fifths_of_the_rate() {
    let size = Size {
        flows: "20000",
        reloads: 100,
        seconds: "10",
    };
    run("load-many", &size, 5);
}
