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
    // what it loses itself would be taken for the chain's: it has room for as long as it is not executed
    c.args(["--port", "lan=packet:ga,ring=32768"]);
    c.args(["--port", "wan=packet:gb,ring=32768"]);
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

/// Reloads the chain by these numbers, and has two workers, one, and two again meanwhile.
fn change(edge: &Edge, reloads: std::ops::Range<u64>) {
    let mut lost = losses(&edge.status());
    for i in reloads {
        let more = if i % 2 == 0 {
            "deny dst port 4444\n"
        } else {
            ""
        };
        edge.rules(&format!("{more}{RULES}"));
        let v = edge.json(&["reload"]);
        assert_eq!(v["lost"], serde_json::json!([]), "{v}");
        assert_eq!(v["dropped"], 0, "{v}");
        // a reload takes a quarter of a second of processor time, and a fifth of two cores is left
        std::thread::sleep(Duration::from_secs(1));
        let now = losses(&edge.status());
        if now != lost {
            let s = v["seconds"].as_f64().unwrap_or(0.0);
            let (entries, inside) = (now.0 - lost.0, now.1 - lost.1);
            eprintln!("reload {i} took {s:.2} s: {entries} lost at entries, {inside} inside");
        }
        lost = now;
        // the rate is one that two workers take: one has all of it for a moment
        if i % 10 == 9 {
            edge.json(&["scale", "1"]);
            std::thread::sleep(Duration::from_secs(1));
            edge.json(&["scale", "2"]);
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

/// What the generator says of a run with so many of the reloads, and what was lost at entries and inside meanwhile.
fn changed(
    edge: &Edge,
    (rules, rate): (&str, &str),
    size: &Size,
    reloads: std::ops::Range<u64>,
) -> (Value, (u64, u64)) {
    let before = edge.status();
    let c = generator(edge, rules, size, &["--rate", rate]);
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
    // flows that are opened all at once are not of what is looked at
    let open = losses(&edge.status());
    change(edge, reloads);
    let said = end(c);
    let (entries, inside) = losses(&edge.status());
    (said, (entries - open.0, inside - open.1))
}

/// The chain on two pairs of interfaces, with two workers.
fn chain(net: Net, name: &str) -> (Edge, String) {
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
    (edge, rules)
}

/// Runs without changes and runs with changes, in turn: what others do to the machine for a while is in both.
fn run(name: &str, size: &Size, rounds: u64) {
    let Some(net) = Net::new(&["g", "o"]) else {
        return;
    };
    let (edge, rules) = chain(net, name);
    // a rate that is known from before may be given
    let most = match std::env::var("LOAD_RATE").ok() {
        Some(rate) => rate.parse().expect("LOAD_RATE: packets a second"),
        None => highest(&edge, &rules, size),
    };
    eprintln!("the highest rate is {most} packets a second");
    let rate = (most * 0.8).to_string();
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    let (mut entries, mut inside) = (0, 0);
    for round in 0..rounds {
        let how = ["--rate", &rate, "--seconds", size.seconds];
        let v = report(generator(&edge, &rules, size, &how));
        let each = size.reloads / rounds;
        let reloads = round * each..(round + 1) * each;
        let (said, lost) = changed(&edge, (&rules, &rate), size, reloads);
        eprintln!(
            "loss without changes {:.6}, with changes {:.6}, {lost:?} at entries and inside",
            loss(&v),
            loss(&said)
        );
        (entries, inside) = (entries + lost.0, inside + lost.1);
        quiet.push(v);
        busy.push(said);
    }
    let after = edge.status();
    let v = edge.onefold.stop();
    let without: Vec<f64> = quiet.iter().map(loss).collect();
    let of = |what: &str| busy.iter().map(|v| number(v, &[what])).sum::<u64>() as f64;
    let with = of("lost") / of("sent").max(1.0);
    println!(
        "soak: {} flows, {} reloads, {} moves of groups at {rate} packets a second: loss {with:.6}, without changes \
         {without:?}; lost at entries {entries}, inside {inside}",
        size.flows,
        number(&after, &["reloads"]),
        number(&v, &["scaling", "splits"]) + number(&v, &["scaling", "merges"]),
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
    assert!(with <= most, "{with} of {without:?}");
    // the kernel may change the order where a thread goes from core to core
    let order = |v: &Value| number(v, &["reordered_in_flows"]) as f64 / number(v, &["sent"]) as f64;
    let most = quiet.iter().map(order).fold(0.0, f64::max);
    let with = of("reordered_in_flows") / of("sent").max(1.0);
    assert!(with <= most, "{with} of {most} out of order");
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
