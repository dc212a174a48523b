//! `--classifier`: every example chain with every structure forced in turn.

use crate::common;

use common::{json, root, run};

/// As `explain` prints them.
const NAMES: [&str; 7] = [
    "linear scan",
    "decision code",
    "bit vector",
    "decision tree",
    "prefix trie",
    "tuple space",
    "program tree",
];
const CHAINS: [&str; 9] = [
    "l2fwd",
    "l3fwd",
    "fw10",
    "fw-l3fwd",
    "routers-1",
    "napts-4",
    "napt-fw-lb",
    "campus-dpi",
    "kitchen-sink",
];
/// Their many stages take half a minute for each structure, unless the compiler optimises.
const LONG: [&str; 2] = ["isp-edge", "ipv6-edge"];

/// Packets for each: most of the time goes into what does not depend on them.
const PACKETS: &str = "400";

fn verify(level: &str, chains: &[&str], names: &[&str]) {
    for (chain, name) in chains
        .iter()
        .flat_map(|c| names.iter().map(move |n| (c, n)))
    {
        let args = [
            "verify",
            chain,
            "--level",
            level,
            "--packets",
            PACKETS,
            "--classifier",
            name,
            "-q",
        ];
        let v = json(&root(), 0, &args);
        assert_eq!(v["differences"], 0, "{chain} {level} {name}: {v}");
        assert!(v["packets"].as_u64().unwrap() > 100, "{chain} {name}: {v}");
    }
}

#[test]
fn examples_are_what_they_are_whatever_they_are_looked_up_in() {
    verify("program", &CHAINS, &NAMES);
}

#[test]
fn longer_examples_are_what_they_are_whatever_they_are_looked_up_in() {
    let names: &[&str] = match cfg!(debug_assertions) {
        true => &["tuple space"],
        false => &NAMES,
    };
    verify("program", &LONG, names);
}

#[test]
fn so_they_are_with_a_flow_table() {
    verify("flow", &["fw-l3fwd", "napt-fw-lb"], &NAMES);
}

/// What is asked for is what is used, and it is said.
#[test]
fn what_came_of_it_is_told() {
    let told = |name: &str| {
        let args = [
            "verify",
            "fw-l3fwd",
            "--level",
            "program",
            "--packets",
            "300",
            "--classifier",
            name,
            "-q",
        ];
        run(&root(), 0, &args).1
    };
    let number = |text: &str| -> usize {
        let before = text.split(" structures of this kind").next().unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let tree = told("decision-tree");
    assert!(tree.contains("--classifier decision tree: "), "{tree}");
    assert!(number(&tree) > 0, "{tree}");
    let own = told("program tree");
    assert!(
        number(&own) == 0 && own.contains("by the program's tree"),
        "{own}"
    );
}

#[test]
fn names_are_listed_and_unknown_ones_refused() {
    for command in ["verify", "bench"] {
        let (help, _) = run(&root(), 0, &[command, "--help"]);
        for name in NAMES {
            assert!(help.contains(name), "{command}: {name}");
        }
        let (_, err) = run(
            &root(),
            2,
            &[command, "l2fwd", "--classifier", "decision-trie"],
        );
        assert!(
            err.contains("decision tree") && err.contains("tuple space"),
            "{err}"
        );
    }
}
