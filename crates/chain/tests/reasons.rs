//! What an operator is told of what was dropped: every place of every kind's graph that drops packets says why in words
//! of its own, every place is one of a file that she wrote, and no packet goes round inside a function for ever.

use crate::common;

use common::{Frame, build, chains, example, load_in, send};
use onefold_chain::Chain;
use onefold_element::SourceLoc;
use onefold_element::flow::flows;
use onefold_element::model::{Exit, Model};
use onefold_elements::lookup;
use std::path::Path;

const MAC: &str = "mac: \"02:00:00:00:00:01\"";
const GATEWAY: &str = "gateway-mac: \"02:00:00:00:00:02\"";

/// Translators of IPv6: of prefixes, and to IPv4, without and with the ICMP errors that the function says of its own
/// accord.
fn translators6() -> [String; 3] {
    let pool = "pool: 1.0.0.1, nat64: { prefix: \"64:ff9b::/96\" }";
    let encap = "encap-outside: { mac: \"02:00:00:00:00:01\", next-hop: \"02:00:00:00:00:02\" }";
    let prefixes = "prefixes: [ { inside: \"fd00:1::/48\", outside: \"2001:db8:1::/48\" } ]";
    [
        prefixes.to_string(),
        pool.to_string(),
        format!("{pool}, {encap}"),
    ]
    .map(|nat| {
        format!(
            "name: one\nfunctions:\n  f:\n    nat: {{ {nat}, hairpin: true }}\nports:\n  p0: f[0]\n  p1: f[1]\n"
        )
    })
}

/// Chains of one function, with what changes their graphs.
fn functions() -> Vec<String> {
    let one = |ports: usize, function: &str| {
        let mut s = format!("name: one\nfunctions:\n  f:\n{function}\nports:\n");
        (0..ports).for_each(|i| s.push_str(&format!("  p{i}: f[{i}]\n")));
        s
    };
    let router = |interfaces: &[&str], routes: &str| {
        let list: Vec<String> = interfaces
            .iter()
            .map(|i| format!("        - {{ {i}, {MAC} }}"))
            .collect();
        let f = format!(
            "    router:\n      interfaces:\n{}\n      routes: {routes}",
            list.join("\n")
        );
        one(interfaces.len(), &f)
    };
    let mut all = vec![
        one(2, "    vlan: { id: 10 }"),
        one(2, "    monitor: { flows: 7 }"),
        one(
            2,
            "    firewall:\n      rules:\n        - allow tcp\n        - deny udp",
        ),
        one(
            2,
            "    firewall:\n      rules: [allow tcp]\n      rules6: [allow udp]\n      arp: deny\n      back: deny",
        ),
        one(
            2,
            "    firewall: { rules: [allow tcp], other: allow, default: allow, back: allow }",
        ),
        one(
            2,
            "    nat:\n      pool: 1.0.0.1\n      hairpin: true\n      forward:\n        - tcp 1.0.0.1:80 -> 10.0.0.5:8080\n      tcp-timeout: 7",
        ),
        one(
            2,
            "    nat:\n      pool: 1.0.0.1\n      decrement-ttl: true\n      \
             prefixes: [ { inside: \"fd00:1::/56\", outside: \"2001:db8:1::/56\" } ]",
        ),
        one(
            2,
            "    load-balancer:\n      address: \"2001:db8::80\"\n      servers: [ { address: \"2001:db8:3::1\" } ]",
        ),
        one(
            2,
            "    load-balancer: { address: \"2001:db8::80\", ports: [80], pass-other: false, \
             servers: [ { address: \"2001:db8:3::1\", port: 8 } ] }",
        ),
        one(
            2,
            "    nat:\n      pool: 1.0.0.1-1.0.0.3\n      decrement-ttl: true\n      capacity: 9",
        ),
        one(
            2,
            "    nat:\n      one-to-one:\n        - 10.0.0.1 = 1.0.0.1\n        - 10.0.0.2 = 1.0.0.2",
        ),
        one(
            2,
            "    load-balancer:\n      address: 1.0.0.1\n      servers:\n        - { address: 10.0.0.1, weight: 2 }\n        - { address: 10.0.0.2 }\n      pass-other: false",
        ),
        one(
            2,
            "    load-balancer: { address: 1.0.0.1, ports: [80], policy: source-hash, servers: [ { address: 10.0.0.1 } ], decrement-ttl: true }",
        ),
        one(
            2,
            "    load-balancer: { address: 1.0.0.1, policy: maglev, servers: [ { address: 10.0.0.1 } ] }",
        ),
        one(
            3,
            "    dpi:\n      alerts: true\n      patterns:\n        - { action: drop, text: EVIL }\n        - { action: alert, text: odd }",
        ),
        router(
            &["address: 10.0.0.1/24", "address: 10.1.0.1/16"],
            "[ 10.2.0.0/16 via 10.0.0.9, 10.3.0.0/16 blackhole ]",
        ),
        router(
            &[
                &format!("address: 10.0.0.1/24, address6: \"fd00::1/64\", {GATEWAY}"),
                &format!("address6: \"fd01::1/64\", {GATEWAY}"),
                "address: 10.1.0.1/16, mtu: 1400",
            ],
            "[ \"fd02::/64 via fd00::2\", \"fd03::/64 blackhole\" ]",
        ),
    ];
    // what leaves at an unused port, a configuration in the chain file, names for addresses
    all.extend(translators6());
    all.push(
        "addresses:\n  lan: 10.0.0.0/8\nfunctions:\n  a:\n    click:\n      config: |\n        FromDevice(x)\n          -> c :: Counter\n          -> ToDevice(x);\n        \
         FromDevice(y) -> d :: Counter -> ToDevice(z);\n  b: { click: { config: \"FromDevice(0) -> n :: Null -> ToDevice(1)\" } }\n\
         ports:\n  p: a[0]\n  q: { in: \"a[1]\" }\n  r: { in: \"b[0]\" }\nunused: [ \"a[2]\", \"b[1]\" ]\n"
            .to_string(),
    );
    all
}

fn loaded(text: &str) -> Chain {
    load_in(Path::new("."), text).unwrap_or_else(|e| panic!("{}\nof\n{text}", e.join("\n")))
}

fn examples() -> Vec<Chain> {
    let mut names = Vec::new();
    for f in std::fs::read_dir(chains()).unwrap() {
        let name = f.unwrap().file_name().to_string_lossy().into_owned();
        names.push(
            name.strip_suffix("-N")
                .map_or(name.clone(), |n| format!("{n}-3")),
        );
    }
    names.iter().map(|n| example(n)).collect()
}

/// Words that say nothing of what happened to a packet.
const NO_REASONS: [&str; 6] = [
    "Discard",
    "Idle",
    "unconnected output",
    "engine: unconnected output",
    "no output",
    "refused",
];

fn drops_are_explained(chain: &Chain) {
    let graph = build(chain);
    let input = graph.synthesis_input();
    for (e, spec) in input.elements.iter().zip(&chain.graph.elements) {
        let at = format!("{}: {} :: {}", chain.name, e.name, e.class);
        if e.class == "Discard" {
            assert!(spec.args.iter().any(|a| a.starts_with("REASON \"")), "{at}");
        }
        if e.class.ends_with("Rewriter") {
            let bare = spec
                .args
                .iter()
                .any(|a| matches!(a.trim(), "drop" | "discard"));
            assert!(!bare, "{at}: a drop without a reason");
        }
        let connected = |port: usize| e.outputs.get(port).is_some_and(Option::is_some);
        let cases = e.models.iter().filter_map(|m| match m {
            Model::Cases(c) => Some(c),
            Model::None(_) => None,
        });
        for exit in cases.flatten().map(|c| &c.exit) {
            match exit {
                Exit::Drop(r) | Exit::PortOrDrop(_, r) => {
                    assert!(!NO_REASONS.contains(r) && r.len() > 8, "{at}: '{r}'");
                }
                Exit::Port(p) => assert!(connected(*p), "{at}: output {p}"),
                Exit::Each(all) => assert!(all.iter().all(|p| connected(*p)), "{at}"),
                Exit::Bind(b) => {
                    let outputs = b
                        .flows
                        .iter()
                        .flat_map(|f| std::iter::once(f.forward.output).chain(f.reply));
                    assert!(outputs.chain(b.pass).all(connected), "{at}");
                }
                Exit::Transmit | Exit::Ask(_) | Exit::Punt(_) => {}
            }
        }
    }
}

#[test]
fn every_place_that_drops_says_why() {
    functions()
        .iter()
        .for_each(|t| drops_are_explained(&loaded(t)));
    examples().iter().for_each(drops_are_explained);
}

/// What is told of packets that a function of a kind drops, by the functions' own words.
#[test]
fn drops_in_the_words_of_the_kinds() {
    let udp = Frame::udp([10, 0, 0, 1], [1, 0, 0, 1], 53);
    let tagged = udp.clone().with(|f| f.vlan = Some(9));
    let nat = "functions:\n  nat:\n    nat: { pool: 1.0.0.1 }\nports: { in: \"nat[0]\", out: \"nat[1]\" }\n";
    let vlan = "functions:\n  v:\n    vlan: { id: 10 }\nports: { in: \"v[0]\", out: \"v[1]\" }\n";
    for (text, frame, why) in [
        (nat, &udp, "no mapping for this inbound packet"),
        (nat, &tagged, "VLAN-tagged frame on an untagged port"),
        (
            vlan,
            &tagged,
            "frame on the trunk without the tag of VLAN 10",
        ),
    ] {
        let chain = loaded(text);
        let mut graph = build(&chain);
        assert!(send(&chain, &mut graph, "out", &[frame.bytes()]).is_empty());
        let drops = graph.drops();
        assert_eq!((drops.len(), drops[0].reason), (1, why), "{drops:?}");
    }
}

/// Is it a line of a file? `own` is the chain file's text, if it is no file.
fn is_there(loc: &SourceLoc, own: Option<&str>) -> bool {
    let text = match own {
        Some(t) if loc.file.as_ref() == "t/chain.yaml" => t.to_string(),
        _ => std::fs::read_to_string(loc.file.as_ref()).unwrap_or_default(),
    };
    (1..=text.lines().count()).contains(&(loc.line as usize))
}

fn places_are_there(chain: &Chain, own: Option<&str>) {
    let mut known = std::collections::HashSet::new();
    let mut check = |what: &str, loc: &SourceLoc| {
        if known.insert((loc.file.clone(), loc.line)) {
            assert!(is_there(loc, own), "{}: {what} at {loc:?}", chain.name);
        }
    };
    for e in &chain.graph.elements {
        check(&e.name, &e.decl);
        e.arg_locs.iter().for_each(|l| check(&e.name, l));
    }
    chain
        .graph
        .connections
        .iter()
        .for_each(|c| check("a connection", &c.loc));
}

#[test]
fn every_place_is_a_line_of_the_operators_files() {
    functions()
        .iter()
        .for_each(|t| places_are_there(&loaded(t), Some(t)));
    examples().iter().for_each(|c| places_are_there(c, None));
}

#[test]
fn rules_have_their_own_lines_and_all_else_the_functions() {
    let text = "functions:\n  fw:\n    firewall:\n      rules:\n        - allow tcp\n        - deny udp\n  nat:\n    nat:\n      pool: 1.0.0.1\n      tcp-timeout: 9\n\
                links: [ \"fw[1] <-> nat[0]\" ]\nports: { in: \"fw[0]\", out: \"nat[1]\" }\n";
    let chain = loaded(text);
    let line = |name: &str, argument: Option<usize>| {
        let e = chain
            .graph
            .find(name)
            .unwrap_or_else(|| panic!("no {name}"));
        let e = &chain.graph.elements[e];
        assert_eq!(e.decl.file.as_ref(), "t/chain.yaml");
        argument.map_or(e.decl.line, |a| e.arg_locs[a].line)
    };
    let rules: Vec<u32> = (0..3).map(|a| line("fw/up_rules", Some(a))).collect();
    assert_eq!(rules, [5, 6, 3]);
    assert_eq!((line("fw/up_rules", None), line("fw/down", None)), (3, 3));
    let rewriter: Vec<u32> = (0..3).map(|a| line("nat/rw", Some(a))).collect();
    assert_eq!(rewriter, [9, 8, 8]);
    assert_eq!((line("nat/rw", None), line("nat/err_in", None)), (8, 8));
}

#[test]
fn configurations_in_the_chain_file_have_its_lines() {
    let texts = functions();
    let text = texts.last().unwrap();
    let chain = loaded(text);
    for (name, at) in [
        ("a/c", "c :: Counter"),
        ("a/d", "d :: Counter"),
        ("b/n", "n :: Null"),
    ] {
        let decl = &chain.graph.elements[chain.graph.find(name).unwrap()].decl;
        let line = text.lines().nth(decl.line as usize - 1).unwrap();
        let rest: String = line.chars().skip(decl.column as usize - 1).collect();
        assert!(rest.starts_with(at), "{name}: {decl:?}: '{rest}'");
    }
}

/// Elements behind which a packet does not come round again and again: they count, count a hop down, or take no packet
/// that they have made.
const ENDING: [&str; 7] = [
    "LoopGuard",
    "DecIPTTL",
    "DecIP6HLIM",
    "ICMPPingResponder",
    "ICMP6PingResponder",
    "ICMPError",
    "ICMP6Error",
];

/// Inputs of a function's elements that packets can come round to, other than through [`ENDING`].
fn circles(chain: &Chain) -> Vec<String> {
    let elements = &chain.graph.elements;
    let function = |e: usize| elements[e].name.split('/').next();
    let mut next = std::collections::HashMap::<(usize, usize), Vec<(usize, usize)>>::new();
    for c in &chain.graph.connections {
        if function(c.from.0) == function(c.to.0)
            && !ENDING.contains(&elements[c.from.0].class.as_str())
        {
            next.entry(c.from).or_default().push(c.to);
        }
    }
    let behind = |input: (usize, usize)| {
        let code = lookup(&elements[input.0].class).map_or("x/x", |c| c.flow);
        let outputs = chain.graph.connections.iter().map(|c| c.from);
        let mine: std::collections::BTreeSet<_> = outputs.filter(|o| o.0 == input.0).collect();
        let reached = mine.into_iter().filter(|o| flows(code, input.1, o.1));
        reached
            .flat_map(|o| next.get(&o).cloned().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let inputs: std::collections::BTreeSet<_> = next.values().flatten().copied().collect();
    let comes_back = |start: &(usize, usize)| {
        let (mut todo, mut seen) = (behind(*start), std::collections::BTreeSet::new());
        while let Some(i) = todo.pop() {
            if seen.insert(i) {
                todo.extend(behind(i));
            }
        }
        seen.contains(start)
    };
    let found = inputs.iter().filter(|i| comes_back(i));
    found.map(|i| elements[i.0].name.clone()).collect()
}

#[test]
fn no_packet_goes_round_inside_a_function_for_ever() {
    for text in functions() {
        let chain = loaded(&text);
        assert_eq!(circles(&chain), Vec::<String>::new(), "{text}");
    }
    for chain in examples().iter().filter(|c| c.graph.elements.len() < 2000) {
        assert_eq!(circles(chain), Vec::<String>::new(), "{}", chain.name);
    }
    // the test sees a circle where there is one
    let hairpin = functions()
        .into_iter()
        .find(|t| t.contains("hairpin: true"))
        .unwrap();
    let mut chain = loaded(&hairpin);
    for e in &mut chain.graph.elements {
        if e.class == "LoopGuard" {
            e.class = "Null".into();
        }
    }
    assert!(
        circles(&chain).iter().any(|n| n == "f/hair"),
        "{:?}",
        circles(&chain)
    );
}
