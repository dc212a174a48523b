//! Servers of a load balancer of IPv6 that are drained, removed, down, or come back: as of IPv4 (`servers.rs`).

use crate::common;

use common::{build, send};
use onefold_chain::{Chain, Change, Edit, EditKind, Options, load_edited};
use onefold_engine::Graph;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const VIP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x80, 0, 0, 0, 0, 0x80);
const POLICIES: [&str; 3] = ["round-robin", "source-hash", "maglev"];

fn file(policy: &str) -> String {
    format!(
        "functions:\n  lb:\n    load-balancer:\n      address: \"{VIP}\"\n      ports: [80]\n      \
         policy: {policy}\n      servers:\n        - {{ address: \"2001:db8:3::1\" }}\n        \
         - {{ address: \"2001:db8:3::2\", port: 8080, weight: 2 }}\n        \
         - {{ address: \"2001:db8:3::3\" }}\n      health: {{ probe: tcp, port: 80 }}\n\
         ports: {{ clients: \"lb[0]\", servers: \"lb[1]\" }}\n"
    )
}

fn edited(policy: &str, edits: &[Edit]) -> Result<Chain, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("onefold-servers6-{n}-{}.yaml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file(policy)).unwrap();
    let name = path.display().to_string();
    let chain = load_edited(&name, &Options::default(), &[], edits);
    std::fs::remove_file(&path).unwrap();
    match chain {
        Ok((chain, _)) => Ok(chain),
        Err(e) => Err(format!("{e:?}")),
    }
}

fn load(policy: &str, edits: &[Edit]) -> Chain {
    edited(policy, edits).unwrap()
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

/// A UDP datagram to the balancer, in its frame.
fn ask(client: u16, sport: u16) -> Vec<u8> {
    let mut f = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64,
    ];
    let from = Ipv6Addr::new(0x2001, 0xdb8, 7, client, 0, 0, 0, 1);
    f.extend(from.octets());
    f.extend(VIP.octets());
    f.extend(sport.to_be_bytes());
    f.extend([0, 80, 0, 8, 0xab, 0xcd]);
    f
}

/// Where a packet of each client goes, by client: the last byte of the server's address, if it goes anywhere.
fn servers(chain: &Chain, graph: &mut Graph, clients: std::ops::Range<u16>) -> BTreeMap<u16, u8> {
    let mut to = BTreeMap::new();
    for c in clients {
        if let Some((port, f)) = send(chain, graph, "clients", &[ask(c, 2000 + c)]).first() {
            assert_eq!(port, "servers");
            let port = if f[53] == 2 { 8080 } else { 80 };
            assert_eq!(u16::from_be_bytes([f[56], f[57]]), port);
            to.insert(c, f[53]);
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
        let drain = backend(Change::Drain, "[2001:db8:3::2]:8080");
        let (chain, mut graph) = changed(policy, std::slice::from_ref(&drain), &mut graph);
        let now = servers(&chain, &mut graph, 0..200);
        assert_eq!(now, before, "{policy}: established flows stay");
        let new = servers(&chain, &mut graph, 200..400);
        assert_eq!((new.len(), count(&new, 2)), (200, 0), "{policy}");
        // an address may be written in another way
        let resume = [drain, backend(Change::Resume, "[2001:0db8:3:0::2]:8080")];
        let (chain, mut graph) = changed(policy, &resume, &mut graph);
        assert!(count(&servers(&chain, &mut graph, 400..600), 2) > 60);
        // also of a server that is removed altogether
        let removed = [backend(Change::Remove, "[2001:db8:3::2]:8080")];
        let (chain, mut graph) = changed(policy, &removed, &mut graph);
        assert_eq!(servers(&chain, &mut graph, 0..200), before, "{policy}");
        assert_eq!(count(&servers(&chain, &mut graph, 600..700), 2), 0);
    }
}

#[test]
fn changes_that_are_wrong() {
    for (change, text, why) in [
        (
            Change::Add,
            "2001:db8:3::1",
            "2001:db8:3::1 is a server already",
        ),
        (
            Change::Remove,
            "[2001:db8:3::1]:80",
            "[2001:db8:3::1]:80 is no server",
        ),
        (Change::Add, "2001:db8:3::9:80x", "expected ADDRESS[:PORT]"),
        (Change::Add, "10.0.0.1", "is an IPv4 address"),
    ] {
        let e = edited("maglev", &[backend(change, text)]).unwrap_err();
        assert!(e.contains(why), "{text}: {e}");
    }
    let more = load(
        "maglev",
        &[backend(Change::Add, "[2001:db8:3::4]:8080 weight 3")],
    );
    let health = more.functions[0].health.clone().unwrap();
    let names: Vec<String> = health.servers.iter().map(ToString::to_string).collect();
    let wanted = [
        "2001:db8:3::1",
        "[2001:db8:3::2]:8080",
        "2001:db8:3::3",
        "[2001:db8:3::4]:8080",
    ];
    assert_eq!(names, wanted);
    assert_eq!(health.mapper, "lb/servers");
}

#[test]
fn a_server_that_is_down_gets_no_new_flows_until_it_is_back() {
    let name = "[2001:db8:3::2]:8080";
    for policy in POLICIES {
        let chain = load(policy, &[]);
        let mut graph = build(&chain);
        let before = servers(&chain, &mut graph, 0..200);
        graph.write_handler("lb/servers.down", name).unwrap();
        assert_eq!(servers(&chain, &mut graph, 0..200), before, "{policy}");
        let new = servers(&chain, &mut graph, 200..300);
        assert_eq!((new.len(), count(&new, 2)), (100, 0), "{policy}");
        // what has not changed goes on with it
        let (chain, mut graph) = changed(policy, &[], &mut graph);
        assert_eq!(count(&servers(&chain, &mut graph, 300..400), 2), 0);
        let all = format!("{name} 2001:db8:3::1 2001:db8:3::3");
        graph.write_handler("lb/servers.down", &all).unwrap();
        assert_eq!(
            servers(&chain, &mut graph, 400..410).len(),
            0,
            "all are down"
        );
        let drops = graph.drops();
        let why = drops.iter().find(|d| d.reason == "all servers are down");
        assert_eq!(why.map(|d| d.packets), Some(10), "{drops:?}");
        assert_eq!(servers(&chain, &mut graph, 0..200), before, "{policy}");
        graph.write_handler("lb/servers.down", "").unwrap();
        assert!(count(&servers(&chain, &mut graph, 500..600), 2) > 20);
    }
}

/// By a hash, few of the flows of others go elsewhere when a server goes, with weights, too.
#[test]
fn others_flows_stay_where_they_are_when_a_server_goes() {
    for (policy, most) in [("source-hash", 12), ("maglev", 24)] {
        let all = load(policy, &[]);
        let before = servers(&all, &mut build(&all), 0..400);
        let fewer = load(policy, &[backend(Change::Drain, "2001:db8:3::1")]);
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
        let out = send(&chain, &mut graph, "clients", &[ask(1, sport)]);
        n[usize::from(out[0].1[53])] += 1;
    }
    assert!(
        (150..250).contains(&n[1]) && (150..250).contains(&n[3]),
        "{n:?}"
    );
    assert!((340..460).contains(&n[2]), "{n:?}");
}

/// Several workers have it: each has the connections of its clients, and chooses by a hash alike.
#[test]
fn several_workers() {
    let path = std::env::temp_dir().join(format!("onefold-servers6-w-{}.yaml", std::process::id()));
    std::fs::write(&path, file("maglev")).unwrap();
    let name = path.display().to_string();
    let all = onefold_chain::load_workers(&name, &Options::default(), 3);
    std::fs::remove_file(&path).unwrap();
    let all = all.unwrap();
    assert_eq!(all.chains.len(), 3);
    let mut graphs: Vec<Graph> = all.chains.iter().map(build).collect();
    let each = all.chains.iter().zip(&mut graphs);
    let to: Vec<_> = each.map(|(c, g)| servers(c, g, 0..50)).collect();
    assert!(to[0] == to[1] && to[1] == to[2]);
    let text = file("maglev").replace("address: \"2001:db8:3::3\"", "address: \"172.16.3.3\"");
    let said = common::load_in(Path::new("."), &text)
        .unwrap_err()
        .join("\n");
    assert!(
        said.contains("put those of the other one behind a balancer of their own"),
        "{said}"
    );
}
