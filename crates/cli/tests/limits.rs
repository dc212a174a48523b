//! What is said is so: unknown values are refused, names are checked before work begins, every mode answers with its
//! steps, and measurements say what they are of.

use crate::common;

use common::{json, onefold_with, run, temp};

/// A firewall, and a classifier that hands what it does not know to a part without a model.
const CHAIN: &str = "functions:\n  fw:\n    firewall:\n      rules:\n        - deny udp && dst port 53\n        - allow tcp\n      \
    back: allow\n  nat:\n    nat: { pool: 203.0.113.1 }\nlinks: [\"fw[1] <-> [0]nat\"]\nports:\n  lan: fw[0]\n  wan: nat[1]\n";

#[test]
fn unknown_instruction_sets_are_refused_at_the_start() {
    let dir = temp("limits-isa");
    let with = |isa: &str| {
        let o = onefold_with(&dir, &[("ONEFOLD_ISA", isa)], &["show", "--list"]);
        (
            o.status.code(),
            String::from_utf8_lossy(&o.stderr).into_owned(),
        )
    };
    for known in ["any", "avx2", "avx512", ""] {
        assert_eq!(with(known).0, Some(0), "{known}");
    }
    let (status, err) = with("sse2");
    assert_eq!(status, Some(2));
    for word in ["ONEFOLD_ISA", "sse2", "avx512", "avx2", "any"] {
        assert!(err.contains(word), "{err}");
    }
}

#[test]
fn names_of_ports_are_looked_at_before_anything_else() {
    let dir = temp("limits-ports");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "10", "--flows", "1"],
    );
    for (args, said) in [
        (
            &["--in", "nowhere=in.pcap"][..],
            "the chain has no port 'nowhere'; packets enter at: lan, wan",
        ),
        (
            &["--in", "lan=in.pcap", "--out", "dmz=o.pcap"],
            "the chain has no port 'dmz'; packets leave at: lan, wan",
        ),
        (
            &["--in", "lan=missing.pcap"],
            "hint: `onefold gen --for chain.yaml --out missing.pcap`",
        ),
        (
            &["--in", "lan"],
            "expected a port of the chain and a file, such as lan=lan.pcap",
        ),
        (
            &["--in", "lan=in.pcap", "--out", "wan=none/o.pcap"],
            "there is no folder 'none'",
        ),
        (
            &["--in", "lan=in.pcap", "--out", "wan=o.pcap.gz"],
            "not written compressed",
        ),
        (
            &["--in", "lan=in.pcap", "--out", "wan=in.pcap"],
            "is an input and an output",
        ),
    ] {
        let (_, err) = run(&dir, 2, &[&["run", "chain.yaml"], args].concat());
        assert!(err.contains(said), "{args:?}: {err}");
        assert!(!err.contains("verified"), "before the proof: {err}");
        assert!(!dir.join("o.pcap").exists());
    }
}

/// A trace through the program alone has the rules, the bindings and the end, each with its place.
#[test]
fn a_program_has_steps() {
    let dir = temp("limits-trace");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    let one = |protocol: &str, port: &str, exceptions: &[&str]| {
        let g = [
            "gen",
            "--out",
            "p.pcap",
            "--packets",
            "1",
            "--flows",
            "1",
            "--src",
            "10.1.2.3",
            "--protocols",
            protocol,
            "--dport",
            port,
        ];
        run(&dir, 0, &[&g, exceptions].concat());
        let both = ["program", "synthesized"].map(|mode| {
            json(
                &dir,
                0,
                &[
                    "trace",
                    "chain.yaml",
                    "--in",
                    "lan=p.pcap#1",
                    "--mode",
                    mode,
                ],
            )
        });
        assert_eq!(both[0], both[1], "two names of one mode");
        let [v, _] = both;
        v["steps"].as_array().expect("steps").clone()
    };
    let place = |s: &serde_json::Value| {
        let file = s["file"].as_str().unwrap_or_default().to_string();
        (file, s["line"].as_u64().unwrap_or(0))
    };
    let steps = one("tcp", "80", &[]);
    let by_rule = steps
        .iter()
        .find(|s| place(s) == ("chain.yaml".into(), 6))
        .expect("the rule");
    assert_eq!(
        (&by_rule["nf"], &by_rule["element"]),
        (&"fw".into(), &"up_rules".into())
    );
    assert!(
        by_rule["decision"]
            .as_str()
            .unwrap()
            .starts_with("stage 0, rule "),
        "{by_rule}"
    );
    assert!(
        steps
            .iter()
            .any(|s| s["nf"] == "nat" && s["decision"].as_str().unwrap().contains("203.0.113.1")),
        "{steps:?}"
    );
    assert!(
        steps.last().unwrap()["decision"]
            .as_str()
            .unwrap()
            .starts_with("leaves at nat/"),
        "{steps:?}"
    );
    let steps = one("udp", "53", &[]);
    assert!(
        steps.iter().any(|s| place(s) == ("chain.yaml".into(), 5)),
        "{steps:?}"
    );
    let last = steps.last().unwrap();
    assert!(
        last["decision"]
            .as_str()
            .unwrap()
            .starts_with("dropped by fw/up_rules"),
        "{last}"
    );
    // with the reference graph beside it, the steps are its own, as before
    let v = json(&dir, 0, &["trace", "chain.yaml", "--in", "lan=p.pcap#1"]);
    assert!(
        v["steps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|s| !s["decision"].as_str().unwrap().starts_with("stage"))
    );
    assert!(!v["program"].as_array().unwrap().is_empty());
}

/// What is punted shows where the program ends, and what the reference graph did then.
#[test]
fn a_punt_has_steps() {
    let dir = temp("limits-punt");
    std::fs::write(dir.join("c.click"), "FromDevice(a) -> Strip(14) -> Align(4, 0) -> SetTimestamp(5) -> IPReassembler -> Unstrip(14) -> ToDevice(b);\n").unwrap();
    let x = json(&dir, 0, &["explain", "c.click"]);
    let punt = x["punts"]
        .as_array()
        .unwrap()
        .first()
        .cloned()
        .expect("something is punted");
    run(
        &dir,
        0,
        &["gen", "--out", "p.pcap", "--packets", "1", "--flows", "1"],
    );
    let v = json(
        &dir,
        0,
        &[
            "trace",
            "c.click",
            "--in",
            "a=p.pcap#1",
            "--mode",
            "program",
        ],
    );
    let steps = v["steps"].as_array().unwrap();
    let behind = steps.iter().position(|s| {
        let d = s["decision"].as_str().unwrap();
        d.starts_with("reference graph from") || d.starts_with("asks")
    });
    let behind = behind.unwrap_or_else(|| panic!("{v}\n{punt}"));
    assert!(steps.len() > behind + 1, "{v}");
    assert_eq!(steps[behind]["line"], 1, "{v}");
    let own = v["punted_steps"].as_array().unwrap();
    assert_eq!(&steps[steps.len() - own.len()..], &own[..]);
}

#[test]
fn modes_have_one_name() {
    let dir = temp("limits-modes");
    run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "20", "--flows", "2"],
    );
    for mode in ["program", "synthesized"] {
        let v = json(
            &dir,
            0,
            &["run", "l2fwd", "--in", "in=in.pcap", "--mode", mode, "-q"],
        );
        assert_eq!(v["mode"], "program");
        let quick = ["--seconds", "0.001", "--repeats", "1", "--flows", "5", "-q"];
        let v = json(
            &dir,
            0,
            &[&["bench", "l2fwd", "--mode", mode][..], &quick].concat(),
        );
        assert_eq!(v["chains"][0]["mode"], "program");
    }
}

/// A measurement says how many of the flows it is of, and which build was measured.
#[test]
fn bench_says_what_it_measured() {
    let dir = temp("limits-bench");
    let b = |flows: &str, seconds: &str, mode: &str| {
        let args = [
            "bench",
            "l3fwd",
            "--flows",
            flows,
            "--seconds",
            seconds,
            "--repeats",
            "1",
            "--mode",
            mode,
            "-q",
        ];
        json(&dir, 0, &args)
    };
    let v = b("6000", "0.001", "program");
    let c = &v["chains"][0];
    let (packets, flows) = (
        c["packets"].as_u64().unwrap(),
        c["flows_measured"].as_u64().unwrap(),
    );
    let opened = c["traffic"]["flows"].as_u64().unwrap();
    assert!(flows > 0 && flows <= packets && flows <= opened, "{c}");
    // a round has every flow once; a slice may begin in the middle of one
    assert!(
        2 * flows >= packets.min(opened),
        "{packets} packets of {flows} of {opened} flows"
    );
    let warned = |v: &serde_json::Value, what: &str| {
        v["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|w| w.as_str().unwrap().contains(what))
    };
    assert_eq!(
        warned(&v, "the packets that were measured are of"),
        flows < opened,
        "{v}"
    );
    let v = b("20", "0.02", "flow");
    let c = &v["chains"][0];
    assert_eq!(c["flows_measured"], 20, "{c}");
    assert!(!warned(&v, "the packets that were measured are of"));
    let t = &c["flow_table"];
    let (hits, all) = (
        t["measured_hits"].as_u64().unwrap(),
        t["measured_packets"].as_u64().unwrap(),
    );
    assert_eq!(all, c["packets"].as_u64().unwrap(), "{c}");
    assert!(hits <= all && hits > 0, "{c}");
    let build = v["machine"]["build"].as_str().unwrap();
    assert_eq!(
        warned(&v, "this is a build of profile"),
        build != "release",
        "{v}"
    );
    assert!(cfg!(not(debug_assertions)) || build == "debug", "{build}");
    let (out, _) = run(
        &dir,
        0,
        &[
            "bench",
            "l3fwd",
            "--flows",
            "20",
            "--seconds",
            "0.01",
            "--repeats",
            "1",
            "-q",
        ],
    );
    assert!(out.contains(&format!("build: {build}")), "{out}");
}
