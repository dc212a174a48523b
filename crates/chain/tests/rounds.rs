//! Loops between functions: every way that a packet can come round over links has a LoopGuard that counts it, or counts
//! a hop down; and there is no guard where there is no such way.

use crate::common;

use common::{build, chains, example, load_in, send};
use onefold_chain::Chain;
use onefold_element::ElementSpec;
use onefold_element::flow::flows;
use onefold_elements::lookup;
use std::collections::BTreeSet;
use std::path::Path;

const LOOP: &str = "LoopGuard: went round 32 times and no hop was counted down";

/// Functions of every kind with two ports (DPI's third one is unused), all with the same addresses; do their packets
/// turn back?
const KINDS: [(&str, bool, &str); 13] = [
    ("nat", true, "nat: { pool: 1.0.0.1-1.0.0.3 }"),
    (
        "forwards",
        true,
        "nat: { pool: 1.0.0.1, forward: [ \"udp 1.0.0.1:80 -> 1.0.0.1:81\" ], hairpin: true }",
    ),
    (
        "pairs",
        true,
        "nat: { one-to-one: [ \"1.0.0.1 = 1.0.0.2\", \"1.0.0.3 = 1.0.0.1\" ] }",
    ),
    (
        "balancer",
        true,
        "load-balancer: { address: 1.0.0.1, servers: [ { address: 1.0.0.1 }, { address: 1.0.0.2 } ] }",
    ),
    (
        "nat_hop",
        false,
        "nat: { pool: 1.0.0.1, decrement-ttl: true }",
    ),
    (
        "pairs_hop",
        false,
        "nat: { one-to-one: [ \"1.0.0.1 = 1.0.0.2\" ], decrement-ttl: true }",
    ),
    (
        "balancer_hop",
        false,
        "load-balancer: { address: 1.0.0.1, servers: [ { address: 1.0.0.1 } ], decrement-ttl: true }",
    ),
    (
        "router",
        false,
        "router: { interfaces: [ { address: 1.0.0.1/24, address6: \"fd00::1/64\", mac: \"02:00:00:00:00:01\", \
         gateway-mac: \"02:00:00:00:00:02\" }, { address: 1.1.0.1/24, mac: \"02:00:00:00:00:03\" } ], \
         routes: [ default via 1.0.0.2 ] }",
    ),
    (
        "firewall",
        false,
        "firewall: { rules: [ allow tcp ], rules6: [ allow udp ], other: allow }",
    ),
    (
        "dpi",
        false,
        "dpi: { patterns: [ { action: drop, text: EVIL } ] }",
    ),
    (
        "alerts",
        false,
        "dpi: { alerts: true, patterns: [ { action: alert, text: EVIL } ] }",
    ),
    ("monitor", false, "monitor: { flows: 7 }"),
    ("vlan", false, "vlan: { id: 7 }"),
];

type Kind = (&'static str, bool, &'static str);

/// A chain of functions in a row; `turned` ones have their port 1 on the left.
fn row(functions: &[(Kind, bool)]) -> Chain {
    let mut text = "functions:\n".to_string();
    let mut unused = Vec::new();
    for (n, ((name, _, config), _)) in functions.iter().enumerate() {
        text.push_str(&format!("  f{n}:\n    {config}\n"));
        if *name == "alerts" {
            unused.push(format!("\"f{n}[2]\""));
        }
    }
    let port = |n: usize, right: bool| format!("f{n}[{}]", usize::from(functions[n].1 != right));
    let links: Vec<String> = (1..functions.len())
        .map(|n| format!("\"{} <-> {}\"", port(n - 1, true), port(n, false)))
        .collect();
    text.push_str(&format!(
        "links: [ {} ]\nports: {{ left: \"{}\", right: \"{}\" }}\nunused: [ {} ]\n",
        links.join(", "),
        port(0, false),
        port(functions.len() - 1, true),
        unused.join(", ")
    ));
    loaded(&text)
}

fn loaded(text: &str) -> Chain {
    load_in(Path::new("."), text).unwrap_or_else(|e| panic!("{}\nof\n{text}", e.join("\n")))
}

/// Output 0 of these does not give the same packet again and again: a hop is counted down, or it is an answer.
const ENDING: [&str; 8] = [
    "ARPResponder",
    "DecIP6HLIM",
    "DecIPTTL",
    "ICMP6Error",
    "ICMP6PingResponder",
    "ICMPError",
    "ICMPPingResponder",
    "IP6NDAdvertiser",
];

/// A packet at an input of an element, with the mark of the link that it has come over.
type At = (usize, usize, u8);

/// Where packets go, so that ways round can be looked for.
struct Ways<'a> {
    chain: &'a Chain,
    next: Vec<Vec<(usize, (usize, usize))>>,
    /// Marks that links set, and that guards count.
    marks: Vec<Vec<u8>>,
    /// Do guards end the way of what they count?
    guarded: bool,
}

impl<'a> Ways<'a> {
    fn new(chain: &'a Chain, guarded: bool) -> Self {
        let elements = &chain.graph.elements;
        let mut next = vec![Vec::new(); elements.len()];
        for c in &chain.graph.connections {
            next[c.from.0].push((c.from.1, c.to));
        }
        let marks = |e: &ElementSpec| {
            let marks = e.args.iter().filter_map(|a| {
                let keyword = if e.class == "NFLink" {
                    "MARK "
                } else {
                    "FROM "
                };
                a.strip_prefix(keyword)
            });
            let words = marks.flat_map(|a| a.split_whitespace());
            words.map(|w| w.parse().expect("a number")).collect()
        };
        Ways {
            chain,
            next,
            marks: elements.iter().map(marks).collect(),
            guarded,
        }
    }

    fn behind(&self, (e, input, mark): At) -> Vec<At> {
        let (class, marks) = (&self.chain.graph.elements[e].class, &self.marks[e]);
        let class = class.as_str();
        let counts = class == "LoopGuard" && (marks.is_empty() || marks.contains(&mark));
        if counts && self.guarded {
            return Vec::new();
        }
        let mark = match class {
            "NFLink" => marks.first().copied().unwrap_or(0),
            _ => mark,
        };
        let code = lookup(class).map_or("x/x", |c| c.flow);
        let ends = ENDING.contains(&class);
        let left = (self.next[e].iter()).filter(|o| flows(code, input, o.0) && !(o.0 == 0 && ends));
        left.map(|(_, to)| (to.0, to.1, mark)).collect()
    }

    /// All that a packet can come to, from anywhere.
    fn all(&self) -> BTreeSet<At> {
        let entered: BTreeSet<usize> = self
            .chain
            .graph
            .connections
            .iter()
            .map(|c| c.to.0)
            .collect();
        let n = self.chain.graph.elements.len();
        let starts = (0..n).filter(|e| !entered.contains(e));
        self.reached(starts.map(|e| (e, 0, 0)).collect())
    }

    fn reached(&self, mut todo: Vec<At>) -> BTreeSet<At> {
        let mut seen = BTreeSet::new();
        while let Some(at) = todo.pop() {
            if seen.insert(at) {
                todo.extend(self.behind(at));
            }
        }
        seen
    }

    /// Elements that a packet comes round to.
    fn rounds(&self) -> BTreeSet<usize> {
        let links = self.all().into_iter();
        let links = links.filter(|at| self.chain.graph.elements[at.0].class == "NFLink");
        let again = links.filter(|at| self.reached(self.behind(*at)).contains(at));
        again.map(|at| at.0).collect()
    }
}

fn guards(chain: &Chain) -> usize {
    let guards = chain.graph.elements.iter();
    guards
        .filter(|e| e.args.iter().any(|a| a.starts_with("FROM ")))
        .count()
}

/// No way round over links is without a guard that counts it, whose count crosses all of its links.
fn rounds_end(chain: &Chain, what: &str) {
    let left = Ways::new(chain, true).rounds();
    assert!(
        left.is_empty(),
        "{what}: a way round {left:?} that nothing ends"
    );
    for e in Ways::new(chain, false).rounds() {
        let e = &chain.graph.elements[e];
        let keeps = e.args.iter().any(|a| a == "KEEP_ROUNDS true");
        assert!(keeps, "{what}: {} forgets", e.name);
    }
}

#[test]
fn no_way_round_between_two_functions_is_without_end() {
    for a in KINDS {
        for b in KINDS {
            let turned = [(false, false), (false, true), (true, false), (true, true)];
            // what does not turn packets back is alike on both sides
            for (x, y) in &turned[..if a.1 && b.1 { 4 } else { 1 }] {
                let (x, y) = (*x, *y);
                let chain = row(&[(a, x), (b, y)]);
                let what = format!("{} {x} <-> {} {y}", a.0, b.0);
                rounds_end(&chain, &what);
                // a guard is only where packets turn back at both ends
                assert_eq!(guards(&chain), usize::from(a.1 && b.1), "{what}");
                let told = chain.graph.elements.iter();
                let told = told.filter(|e| e.args.iter().any(|a| a.starts_with("KEEP_ROUNDS")));
                assert_eq!(told.count(), if a.1 && b.1 { 2 } else { 0 }, "{what}");
            }
        }
    }
}

#[test]
fn no_way_round_in_longer_rows_is_without_end() {
    let turning: Vec<Kind> = KINDS.into_iter().filter(|k| k.1).collect();
    for (n, a) in turning.iter().enumerate() {
        for middle in KINDS {
            for b in &turning[n..] {
                let chain = row(&[(*a, false), (middle, false), (*b, true)]);
                let what = format!("{} <-> {} <-> {}", a.0, middle.0, b.0);
                rounds_end(&chain, &what);
                let want = match middle.0 {
                    "router" => 0,
                    _ if middle.1 => 2,
                    // (ARP passes translators, and no hop of it is counted)
                    _ => 1,
                };
                assert_eq!(guards(&chain), want, "{what}");
            }
        }
    }
}

#[test]
fn the_examples_have_guards_where_translators_face_each_other() {
    let mut names = Vec::new();
    for f in std::fs::read_dir(chains()).unwrap() {
        let name = f.unwrap().file_name().to_string_lossy().into_owned();
        let row = name.strip_suffix("-N");
        names.push(row.map_or(name.clone(), |n| format!("{n}-3")));
    }
    assert!(names.len() > 10);
    for name in names {
        let chain = example(&name);
        let want = match name.as_str() {
            "napts-3" => 2,
            "router-nat-lb" | "kitchen-sink" => 1,
            _ => 0,
        };
        assert_eq!(guards(&chain), want, "{name}");
        rounds_end(&chain, &name);
    }
}

/// Without the guards, the looking sees the ways round.
#[test]
fn the_test_sees_a_way_round() {
    let nat = (KINDS[0], false);
    let mut chain = row(&[nat, (KINDS[9], false), nat]);
    for e in &mut chain.graph.elements {
        if e.class == "LoopGuard" {
            e.class = "Null".into();
            e.args.clear();
        }
    }
    assert_eq!(Ways::new(&chain, true).rounds().len(), 4);
}

fn drops_of_one(text: &str) -> Vec<(String, &'static str, u64)> {
    let chain = loaded(text);
    rounds_end(&chain, text);
    let mut graph = build(&chain);
    let frame = common::Frame::udp([10, 0, 0, 1], [1, 0, 0, 1], 53).bytes();
    assert!(send(&chain, &mut graph, "in", &[frame]).is_empty());
    let drops = graph.drops().into_iter();
    drops.map(|d| (d.element, d.reason, d.packets)).collect()
}

/// Click configurations that send everything back, one of them through a queue: the guard is pulled from.
#[test]
fn click_configurations_that_face_each_other_end_so_too() {
    let text = |there: &str| {
        format!(
            "functions:\n  a:\n    click:\n      config: |\n        FromDevice(x) -> out :: ToDevice(y);\n        \
             FromDevice(y) -> out;\n    ports: [ x, y ]\n  b: {{ click: {{ config: \"{there}\" }} }}\n\
             links: [ \"a[1] <-> [0]b\" ]\nports: {{ in: {{ in: \"a[0]\" }} }}\n"
        )
    };
    for there in [
        "FromDevice(0) -> ToDevice(0);",
        "FromDevice(0) -> Queue -> ToDevice(0);",
    ] {
        let drops = drops_of_one(&text(there));
        assert_eq!(drops.len(), 1, "{drops:?}");
        assert!(drops[0].0.starts_with("b/ToDevice"), "{drops:?}");
        assert!(drops[0].0.ends_with("_loop"), "{drops:?}");
        assert_eq!((drops[0].1, drops[0].2), (LOOP, 1));
    }
    // hops are counted down: the packet ends by them, as in Click
    let drops = drops_of_one(&text(
        "FromDevice(0) -> Strip(14) -> CheckIPHeader -> DecIPTTL -> Unstrip(14) -> ToDevice(0);",
    ));
    assert_eq!(drops[0].1, "DecIPTTL: time to live expired");
}

/// Three functions in a ring: nobody sends back what comes, and it comes round all the same.
#[test]
fn a_ring_without_a_turn_ends() {
    let pass = |from: [usize; 2], more: &str| {
        format!(
            "{{ ports: [ '0', '1', '2' ], click: {{ config: \"FromDevice({}) -> out :: ToDevice({}); Idle -> \
             ToDevice({}); FromDevice({}) -> Discard; {more}\" }} }}",
            from[0], from[1], from[0], from[1]
        )
    };
    let text = format!(
        "functions:\n  a: {}\n  b: {}\n  c: {}\n\
         links: [ \"a[0] <-> [0]b\", \"b[1] <-> [1]c\", \"a[1] <-> [0]c\" ]\n\
         ports: {{ in: {{ in: \"a[2]\" }} }}\nunused: [ \"b[2]\", \"c[2]\" ]\n",
        pass([0, 1], "FromDevice(2) -> out"),
        pass([1, 0], "FromDevice(2) -> Discard"),
        pass([0, 1], "FromDevice(2) -> Discard"),
    );
    let drops = drops_of_one(&text);
    assert_eq!(drops.len(), 1, "{drops:?}");
    assert_eq!((drops[0].1, drops[0].2), (LOOP, 1));
}
