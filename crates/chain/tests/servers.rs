//! Servers of a load balancer that are drained, removed, down, or come back: whom new flows and established ones go to.

use crate::common;

use common::{Frame, build, errors, send};
use onefold_chain::{Chain, Change, Edit, EditKind, Options, Probe, load_edited};
use onefold_engine::Graph;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const VIP: [u8; 4] = [198, 18, 0, 80];

fn file(policy: &str, more: &str) -> String {
    format!(
        "functions:\n  lb:\n    load-balancer:\n      address: 198.18.0.80\n      ports: [80]\n      \
         policy: {policy}\n      servers:\n        - {{ address: 172.16.3.1 }}\n        \
         - {{ address: 172.16.3.2, port: 8080, weight: 2 }}\n        - {{ address: 172.16.3.3 }}\n{more}\
         ports: {{ clients: \"lb[0]\", servers: \"lb[1]\" }}\n"
    )
}

fn load(policy: &str, edits: &[Edit]) -> Chain {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("onefold-servers-{n}-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file(policy, "")).unwrap();
    let path = path.display().to_string();
    let (chain, _) = load_edited(&path, &Options::default(), &[], edits).unwrap();
    std::fs::remove_file(&path).unwrap();
    chain
}

fn backend(change: Change, text: &str) -> Edit {
    Edit {
        kind: EditKind::Backend,
        function: None,
        change,
        text: text.to_string(),
        at: None,
    }
}

/// Where a packet of each client goes, by client: the last byte of the server's address, if it goes anywhere.
fn servers(chain: &Chain, graph: &mut Graph, clients: std::ops::Range<u16>) -> BTreeMap<u16, u8> {
    let mut to = BTreeMap::new();
    for c in clients {
        let [a, b] = c.to_be_bytes();
        let ask = Frame::tcp([10, 7, a, b], VIP, 80, 2).with(|f| f.sport = 2000 + c);
        if let Some((port, f)) = send(chain, graph, "clients", &[ask.bytes()]).first() {
            assert_eq!(port, "servers");
            to.insert(c, f[14 + 19]);
        }
    }
    to
}

fn count(all: &BTreeMap<u16, u8>, server: u8) -> usize {
    all.values().filter(|s| **s == server).count()
}

/// The graph of the chain with these changes goes on with the state of the other.
fn changed(policy: &str, edits: &[Edit], old: &mut Graph) -> (Chain, Graph) {
    let chain = load(policy, edits);
    let mut graph = build(&chain);
    graph.take_state(old);
    (chain, graph)
}

const POLICIES: [&str; 3] = ["round-robin", "source-hash", "maglev"];

#[test]
fn a_drained_server_keeps_its_flows_and_gets_no_new_ones() {
    for policy in POLICIES {
        let chain = load(policy, &[]);
        let mut graph = build(&chain);
        let before = servers(&chain, &mut graph, 0..200);
        assert!(
            (60..140).contains(&count(&before, 2)),
            "{policy}: {before:?}"
        );
        let drain = backend(Change::Drain, "172.16.3.2:8080");
        let (chain, mut graph) = changed(policy, std::slice::from_ref(&drain), &mut graph);
        assert_eq!(
            servers(&chain, &mut graph, 0..200),
            before,
            "{policy}: established flows stay"
        );
        let new = servers(&chain, &mut graph, 200..400);
        assert_eq!((new.len(), count(&new, 2)), (200, 0), "{policy}");
        let resume = [drain, backend(Change::Resume, "172.16.3.2:8080")];
        let (chain, mut graph) = changed(policy, &resume, &mut graph);
        assert!(count(&servers(&chain, &mut graph, 400..600), 2) > 60);
        // also of a server that is removed altogether
        let removed = [backend(Change::Remove, "172.16.3.2:8080")];
        let (chain, mut graph) = changed(policy, &removed, &mut graph);
        assert_eq!(servers(&chain, &mut graph, 0..200), before, "{policy}");
        assert_eq!(count(&servers(&chain, &mut graph, 600..700), 2), 0);
    }
}

#[test]
fn a_server_that_is_down_gets_no_new_flows_until_it_is_back() {
    for policy in POLICIES {
        let chain = load(policy, &[]);
        let mut graph = build(&chain);
        let before = servers(&chain, &mut graph, 0..200);
        graph
            .write_handler("lb/servers.down", "172.16.3.2:8080")
            .unwrap();
        assert_eq!(servers(&chain, &mut graph, 0..200), before, "{policy}");
        let new = servers(&chain, &mut graph, 200..300);
        assert_eq!((new.len(), count(&new, 2)), (100, 0), "{policy}");
        // what has not changed goes on with it
        let (chain, mut graph) = changed(policy, &[], &mut graph);
        assert_eq!(count(&servers(&chain, &mut graph, 300..400), 2), 0);
        graph.write_handler("lb/servers.down", "").unwrap();
        assert!(count(&servers(&chain, &mut graph, 400..500), 2) > 20);
    }
}

/// By a hash, few of the flows of others go elsewhere when a server goes, with weights, too.
#[test]
fn others_flows_stay_where_they_are_when_a_server_goes() {
    for (policy, most) in [("source-hash", 12), ("maglev", 24)] {
        let all = load(policy, &[]);
        let before = servers(&all, &mut build(&all), 0..400);
        let fewer = load(policy, &[backend(Change::Drain, "172.16.3.1")]);
        let after = servers(&fewer, &mut build(&fewer), 0..400);
        let of_others = before.iter().filter(|(_, s)| **s != 1);
        let moved = of_others.filter(|(c, s)| after[*c] != **s).count();
        assert!(moved <= most, "{policy}: {moved} of 400");
    }
}

#[test]
fn maglev_spreads_the_ports_of_a_client_and_weights_count() {
    let chain = load("maglev", &[]);
    let mut graph = build(&chain);
    let mut n = [0usize; 4];
    for sport in 1000..1800 {
        let ask = Frame::tcp([10, 7, 0, 1], VIP, 80, 2).with(|f| f.sport = sport);
        let out = send(&chain, &mut graph, "clients", &[ask.bytes()]);
        n[usize::from(out[0].1[14 + 19])] += 1;
    }
    assert!(
        (150..250).contains(&n[1]) && (150..250).contains(&n[3]),
        "{n:?}"
    );
    assert!((340..460).contains(&n[2]), "{n:?}");
}

#[test]
fn health_is_what_the_file_says() {
    let plan = |health: &str| {
        let text = file("maglev", &format!("      health: {health}\n"));
        let chain = common::load_in(std::path::Path::new("/x"), &text).unwrap();
        let f = &chain.functions[0];
        f.health.clone().unwrap()
    };
    let p = plan("{ file: servers.down }");
    assert_eq!(p.file.unwrap().display().to_string(), "/x/servers.down");
    assert_eq!((p.mapper.as_str(), p.probe), ("lb/servers", None));
    let servers: Vec<String> = p.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["172.16.3.1", "172.16.3.2:8080", "172.16.3.3"]);
    let seconds = Duration::from_secs;
    let default = Probe {
        port: Some(81),
        interval: seconds(2),
        timeout: seconds(1),
        rise: 2,
        fall: 3,
    };
    assert_eq!(plan("{ probe: tcp, port: 81 }").probe, Some(default));
    let p = plan("{ probe: tcp, port: 81, interval: 0.5, rise: 1, fall: 5, file: x }");
    let other = Probe {
        interval: Duration::from_millis(500),
        timeout: Duration::from_millis(500),
        rise: 1,
        fall: 5,
        ..default
    };
    assert!(p.probe == Some(other) && p.file.is_some());
}

#[test]
fn what_is_wrong_is_said() {
    let said = |policy: &str, more: &str| errors(&file(policy, &format!("      {more}\n")));
    for (more, why) in [
        ("health: {}", "health wants 'file', 'probe: tcp', or both"),
        (
            "health: { file: x, rise: 2 }",
            "'rise' goes with 'probe: tcp'",
        ),
        ("health: { probe: tcp }", "which port are servers tried at?"),
        (
            "health: { probe: tcp, port: 0 }",
            "a port is from 1 to 65535",
        ),
        ("health: { probe: http }", "http"),
        (
            "health: { probe: tcp, port: 80, interval: 0 }",
            "expected seconds from 0.1 to 3600",
        ),
        (
            "health: { probe: tcp, port: 80, interval: .nan }",
            "non-finite float",
        ),
        (
            "health: { probe: tcp, port: 80, timeout: 3 }",
            "expected seconds from 0.01 to 2",
        ),
        (
            "health: { probe: tcp, port: 80, fall: 0 }",
            "expected a number of tries from 1 to 100",
        ),
        ("table: 65536", "expected a prime"),
        ("table: 2", "not below the number of servers"),
    ] {
        let text = said("maglev", more);
        assert!(text.contains(why), "{more}: {text}");
    }
    let text = said("round-robin", "table: 251");
    assert!(
        text.contains("'table' goes with 'policy: maglev'"),
        "{text}"
    );
    let twice = "functions:\n  lb:\n    load-balancer:\n      address: 1.1.1.1\n      policy: maglev\n      \
                 servers: [ { address: 2.2.2.2 }, { address: 2.2.2.2 } ]\n";
    let text = errors(twice);
    assert!(text.contains("2.2.2.2 is there already"), "{text}");
    let drained = twice.replace("2.2.2.2 }", "2.2.2.2, weight: 0 }");
    let text = errors(&drained);
    assert!(text.contains("all servers are drained"), "{text}");
}
