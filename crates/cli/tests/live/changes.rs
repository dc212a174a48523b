//! A chain with several workers, or groups of flows that go from one to another, is changed while hosts use it: all of
//! them go on with the new chain, or none does.

use crate::edge::{Connections, Edge, TRIES, number};
use crate::running::PATIENCE;
use crate::scaling::{at_their_workers, edge, servers};
use serde_json::Value;
use std::time::Instant;

/// Ways to have several workers.
const WAYS: [&[&str]; 3] = [
    &["--workers", "2", "--dispatch", "rss"],
    &["--workers", "2", "--dispatch", "software"],
    &["--workers", "1..2", "--groups", "4"],
];

/// The edge, two workers of which have packets.
fn with_two(name: &str, way: &[&str], more: &[&str]) -> Option<Edge> {
    let edge = edge(name, &[way, more].concat(), "off")?;
    if way.contains(&"1..2") {
        edge.json(&["scale", "2"]);
    }
    Some(edge)
}

/// Servers, some of which are at each worker.
fn some() -> Vec<[u8; 4]> {
    servers().into_iter().step_by(9).collect()
}

/// Does every one of some servers hear of this port, or none?
fn all_open(edge: &Edge, port: u16) -> bool {
    let open: Vec<bool> = some().iter().map(|s| edge.opens(*s, port)).collect();
    assert!(open.iter().all(|o| *o == open[0]), "{port}: {open:?}");
    open[0]
}

/// So many reloads, of two lists of rules in turn, under connections through the NAT of each worker.
fn reloads(name: &str, times: u64) {
    for way in WAYS {
        let Some(edge) = with_two(name, way, &[]) else {
            return;
        };
        let connections = Connections::over(&edge, &servers(), 16, 9090);
        connections.go_on();
        for i in 0..times {
            edge.reload(i);
            connections.go_on();
            if i < 2 {
                assert_eq!(all_open(&edge, 4444), i == 1, "{way:?}");
            }
        }
        let v = edge.status();
        assert_eq!(number(&v, &["reloads"]), times, "{v}");
        connections.end();
        let v = edge.onefold.stop();
        at_their_workers(&v);
        // bindings have gone on: no reply was unknown
        let drops = v["drops_by_element"].as_array().into_iter().flatten();
        let unknown = |d: &&Value| d["reason"].as_str().is_some_and(|r| r.contains("mapping"));
        assert_eq!(drops.filter(unknown).count(), 0, "{v}");
    }
}

#[test]
fn connections_hold_while_all_workers_are_reloaded() {
    reloads("changes-reload", 2);
}

/// One worker that refuses keeps all others from it: the old chain goes on everywhere, with all its state.
#[test]
#[cfg(debug_assertions)]
fn all_workers_go_on_with_the_new_chain_or_none_does() {
    for way in [WAYS[0], WAYS[2]] {
        let Some(edge) = with_two("changes-none", way, &["--reload-fault", "1"]) else {
            return;
        };
        let connections = Connections::over(&edge, &servers(), 8, 9090);
        connections.go_on();
        edge.rules("deny dst port 4444\nallow all\n");
        for command in [
            &["reload"][..],
            &["rule", "add", "deny dst port 4444", "--nf", "fw"],
        ] {
            let o = edge.ask(command);
            let said = String::from_utf8_lossy(&o.stderr);
            assert_eq!(o.status.code(), Some(1), "{said}");
            assert!(said.contains("planted"), "{said}");
            assert!(all_open(&edge, 4444), "{way:?}");
        }
        connections.go_on();
        let v = edge.status();
        assert_eq!(number(&v, &["reloads"]), 0, "{v}");
        connections.end();
        at_their_workers(&edge.onefold.stop());
    }
}

#[test]
fn rules_and_routes_take_effect_at_all_workers() {
    for way in [WAYS[0], WAYS[2]] {
        let Some(edge) = with_two("changes-rules", way, &[]) else {
            return;
        };
        let connections = Connections::over(&edge, &servers(), 8, 9090);
        connections.go_on();
        edge.json(&["rule", "add", "deny dst port 4444", "--nf", "fw"]);
        assert!(!all_open(&edge, 4444) && all_open(&edge, 4445));
        // counters of the rule are sums
        let v = edge.json(&["status", "--rules"]);
        let rules = v["rules"].as_array().into_iter().flatten();
        let rule = rules.clone().find(|r| r["text"] == "deny dst port 4444");
        let packets = rule.map(|r| number(r, &["packets"]));
        assert_eq!(packets, Some(TRIES * some().len() as u64), "{v}");
        // programs are made while packets go on
        let begun = Instant::now();
        while number(&edge.status(), &["renewed"]) < 2 {
            assert!(begun.elapsed() < PATIENCE);
            connections.go_on();
        }
        assert!(!all_open(&edge, 4444));
        edge.json(&["rule", "remove", "1", "--verify-first"]);
        assert!(all_open(&edge, 4444));
        edge.json(&["route", "add", "203.0.113.0/24", "blackhole"]);
        assert!(!all_open(&edge, 4445));
        edge.json(&["route", "remove", "203.0.113.0/24"]);
        connections.go_on();
        connections.end();
        at_their_workers(&edge.onefold.stop());
    }
}

/// What would bring packets to other workers than those that know their flows is refused.
#[test]
fn a_chain_with_another_partition_is_refused() {
    let Some(edge) = with_two("changes-partition", WAYS[1], &[]) else {
        return;
    };
    let chain = include_str!("../../../../chains/isp-edge/chain.yaml");
    let file = edge.folder.join("other.yaml");
    let other = chain.replace("pool: 203", "hairpin: true\n      pool: 203");
    assert_ne!(chain, other);
    std::fs::write(&file, other).expect("a file");
    let rules = format!("rules={}", edge.folder.join("edge.rules").display());
    let file = file.display().to_string();
    let o = edge.ask(&["reload", &file, "--set", &rules]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("other workers"), "{said}");
    assert!(all_open(&edge, 4444));
    edge.onefold.stop();
}
