//! `diff`, `ask` and `check --rules` through the binary.

use crate::common;

use common::{json, root, run, temp};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder with rule files, and a chain that is a firewall of the first.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = temp(name);
    for (file, text) in files {
        std::fs::write(dir.join(file), text).unwrap();
    }
    let chain = format!(
        "functions:\n  fw:\n    firewall:\n      rules-file: {}\n      back: allow\nports:\n  a: fw[0]\n  b: fw[1]\n",
        files[0].0
    );
    std::fs::write(dir.join("chain.yaml"), chain).unwrap();
    dir
}

const OLD: &str = "\
deny tcp && dst port 23
allow tcp && dst net 10.0.0.0/8 && dst port 22
allow udp && dst port 53
";

/// The same, written and ordered differently.
const ALIKE: &str = "\
allow udp && dst port 53 && src net 0.0.0.0/1
allow tcp && dst net 10.0.0.0/9 && dst port 22
allow udp && dst port 53
allow tcp && dst net 10.128.0.0/9 && dst port 22
deny tcp && dst port 23
";

const NEW: &str = "\
deny tcp && dst port 23
allow tcp && dst net 10.0.0.0/8 && dst port 22
allow tcp && dst host 192.0.2.1 && dst port 443
";

fn traced(dir: &Path, v: &Value, port: &str) -> Value {
    let hex = v["packet"].as_str().unwrap();
    json(
        dir,
        0,
        &[
            "trace",
            "chain.yaml",
            "--hex",
            &format!("{port}={hex}"),
            "--mode",
            "reference",
        ],
    )
}

#[test]
fn rule_files_that_mean_the_same_differ_in_nothing() {
    let dir = folder("diff-same", &[("old.rules", OLD), ("new.rules", ALIKE)]);
    let v = json(&dir, 0, &["diff", "old.rules", "new.rules"]);
    assert_eq!(
        (&v["same"], &v["verdict"]),
        (&true.into(), &"same".into()),
        "{v:#}"
    );
    let (out, _) = run(&dir, 0, &["diff", "old.rules", "new.rules", "--prove"]);
    assert!(
        out.contains("do the same with every packet: proved"),
        "{out}"
    );
    assert!(out.contains("both programs are proved"), "{out}");
}

#[test]
fn classes_of_packets_are_told_not_lines() {
    let dir = folder("diff-classes", &[("old.rules", OLD), ("new.rules", NEW)]);
    let v = json(&dir, 1, &["diff", "old.rules", "new.rules"]);
    let all = v["changes"].as_array().unwrap();
    // both ways of the firewall, for what has gone and what has come
    assert_eq!(all.len(), 4, "{v:#}");
    for c in all {
        assert_eq!(c["what"], "verdict");
        let text = c["class"][0].as_str().unwrap();
        let (dropped, left) = match text.contains("= 53") {
            true => (&c["after"], &c["before"]),
            false => (&c["before"], &c["after"]),
        };
        assert!(
            dropped["outcome"].as_str().unwrap().contains("dropped"),
            "{c:#}"
        );
        assert!(
            left["outcome"].as_str().unwrap().contains("leaves at"),
            "{c:#}"
        );
        assert_eq!(left["rules"][0]["line"], 3, "{c:#}");
        // both traces end as they are said to
        let ends = |side: &Value| {
            let steps = side["trace"].as_array().unwrap();
            steps
                .iter()
                .any(|s| s["decision"].as_str().unwrap().contains("left the chain"))
        };
        assert!(ends(left) && !ends(dropped), "{c:#}");
    }
    let (out, _) = run(&dir, 1, &["diff", "old.rules", "new.rules", "--trace"]);
    assert!(
        out.contains("4 classes of packets are treated differently"),
        "{out}"
    );
    assert!(
        out.contains("old.rules:3") && out.contains("new.rules:3"),
        "{out}"
    );
}

/// What a chain drops is written down with who drops it and which rule; the first such packet can be followed.
#[test]
fn dropped_packets_are_found() {
    let dir = folder(
        "drops",
        &[(
            "my.rules",
            "allow udp && dst port 53\ndeny udp && dst port 54\nallow tcp\n",
        )],
    );
    let gen_args = [
        "gen",
        "--out",
        "in.pcapng",
        "--packets",
        "200",
        "--flows",
        "50",
        "--seed",
        "3",
    ];
    run(&dir, 0, &gen_args);
    let args = [
        "run",
        "chain.yaml",
        "--in",
        "a=in.pcapng",
        "--drops",
        "dropped.pcapng",
        "-q",
    ];
    let v = json(&dir, 0, &args);
    let dropped = v["dropped"].as_u64().unwrap();
    assert!(dropped > 0, "{v:#}");
    let frames =
        onefold_capture::CaptureReader::open(dir.join("dropped.pcapng").to_str().unwrap()).unwrap();
    let mut frames = frames;
    let (mut n, mut buf) = (0, Vec::new());
    while let Some(next) = frames.next_into(&mut buf) {
        next.unwrap();
        n += 1;
    }
    assert_eq!(n, dropped);
    // comments stand in the file as text
    let bytes = std::fs::read(dir.join("dropped.pcapng")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("fw/up_rules: IPFilter: denied (chain.yaml:"),
        "{text:?}"
    );
    let trace = [
        "trace",
        "chain.yaml",
        "--in",
        "a=in.pcapng",
        "--first-drop",
        "denied",
    ];
    let (out, _) = run(&dir, 0, &trace);
    assert!(
        out.contains("is dropped by fw/up_rules: IPFilter: denied"),
        "{out}"
    );
    assert!(out.contains("nothing left the chain"), "{out}");
    let none = [
        "trace",
        "chain.yaml",
        "--in",
        "a=in.pcapng",
        "--first-drop",
        "no such reason",
    ];
    let (out, _) = run(&dir, 1, &none);
    assert!(
        out.contains("no packet is dropped for a reason with"),
        "{out}"
    );
    let (_, err) = run(
        &dir,
        2,
        &[
            "run",
            "chain.yaml",
            "--in",
            "a=in.pcapng",
            "--drops",
            "x.pcap",
            "-q",
        ],
    );
    assert!(err.contains(".pcapng"), "{err}");
}

/// A chain with a router and a NAT behind the firewall, and the same with other rules.
#[test]
fn chains_are_compared_from_port_to_port() {
    let rules = |n: u32| format!("deny tcp && dst port {n}\nallow all\n");
    let dir = folder(
        "diff-chains",
        &[("25.rules", &rules(25)), ("26.rules", &rules(26))],
    );
    let (out, _) = run(&dir, 0, &["diff", "isp-edge", "isp-edge"]);
    assert!(out.contains("the same with every packet"), "{out}");
    let set = |side: &str, n: u32| {
        [
            format!("--set-{side}"),
            format!("rules={}/{n}.rules", dir.display()),
        ]
    };
    let [a, b] = set("old", 25);
    let [c, d] = set("new", 26);
    let v = json(&dir, 1, &["diff", "isp-edge", "isp-edge", &a, &b, &c, &d]);
    let all = v["changes"].as_array().unwrap();
    assert!(
        !all.is_empty() && all.iter().all(|c| c["port"] == "lan"),
        "{v:#}"
    );
    assert!(all.iter().all(|c| c["what"] == "verdict"), "{v:#}");
    let (_, err) = run(&root(), 2, &["diff", "isp-edge", "isp-edg"]);
    assert!(err.contains("isp-edge"), "{err}");
}

#[test]
fn questions_are_answered_with_a_proof_or_a_packet() {
    let dir = folder("ask", &[("my.rules", OLD)]);
    let ask = |status: i32, q: &str| json(&dir, status, &["ask", "chain.yaml", q]);
    let v = ask(0, "can a reach 10.1.0.0/16 port 22?");
    assert_eq!(
        (&v["answer"], &v["port"]),
        (&"yes".into(), &"a".into()),
        "{v:#}"
    );
    assert!(
        v["summary"].as_str().unwrap().contains(".22: Flags"),
        "{v:#}"
    );
    assert_eq!(traced(&dir, &v, "a")["outputs"][0]["port"], "b");
    let v = ask(1, "can a reach 11.0.0.0/8 port 22?");
    assert_eq!(
        (&v["answer"], &v["proved"]),
        (&"no".into(), &true.into()),
        "{v:#}"
    );
    assert!(v["by"].as_array().is_some_and(|b| !b.is_empty()), "{v:#}");
    ask(1, "can a reach 10.0.0.0/8 tcp port 23");
    ask(0, "can a reach anything udp port 53 source 192.0.2.7");
    ask(1, "can a reach anything udp port 54");
    ask(0, "can b reach a tcp port 23");
    let (out, _) = run(
        &dir,
        1,
        &["ask", "chain.yaml", "can a reach b tcp port 24", "--prove"],
    );
    assert!(out.starts_with("no, proved for all such packets"), "{out}");
    let (_, err) = run(&dir, 2, &["ask", "chain.yaml", "can a reach c port 22"]);
    assert!(
        err.contains("question:1:13") && err.contains("`c` is no port"),
        "{err}"
    );
}

/// Behind a NAT nothing is reached that has not begun it; from inside everything is that the rules let through.
#[test]
fn state_is_told() {
    let dir = temp("ask-state");
    let v = json(
        &dir,
        1,
        &["ask", "isp-edge", "can wan reach 204.152.0.0/16 port 22?"],
    );
    assert_eq!(v["answer"], "no", "{v:#}");
    let assumed = v["assumed"].as_array().unwrap();
    assert!(
        assumed
            .iter()
            .any(|a| a.as_str().unwrap().contains("no flow is open")),
        "{v:#}"
    );
}

const ODD: &str = "\
allow tcp && dst port 80
allow udp && src net 10.0.0.0/9
allow udp && src net 10.128.0.0/9
deny udp && src net 10.1.0.0/16
deny tcp && dst port 80 && src host 10.0.0.1
allow udp && src net 10.0.0.0/8 && dst port 53
deny tcp && udp
deny icmp && src host 10.0.0.9
deny dst net 10.0.0.0/8 && (tcp dst port 80 or icmp type 8)
allow icmp type 8
";

#[test]
fn odd_rules_are_found_with_what_makes_them_so() {
    let dir = folder("odd", &[("odd.rules", ODD)]);
    let v = json(&dir, 1, &["check", "chain.yaml", "--rules"]);
    let found: Vec<(u64, String, Vec<u64>)> = (v["findings"].as_array().unwrap().iter())
        .map(|f| {
            let by = f["by"].as_array().unwrap();
            (
                f["line"].as_u64().unwrap(),
                f["kind"].as_str().unwrap().to_string(),
                by.iter().map(|b| b["line"].as_u64().unwrap()).collect(),
            )
        })
        .collect();
    let want = [
        (4, "contradictory", vec![2]),
        (5, "contradictory", vec![1]),
        (6, "redundant", vec![2, 3]),
        (7, "never-matches", vec![]),
    ];
    let want: Vec<_> = want.map(|(l, k, b)| (l, k.to_string(), b)).into();
    assert_eq!(found, want, "{v:#}");
    // the packet is the rule's, and another one decides
    let f = &v["findings"][1];
    let t = traced(&dir, f, "a");
    assert_eq!(t["outputs"][0]["port"], "b", "{t:#}");
    let (out, _) = run(&dir, 1, &["check", "chain.yaml", "--rules"]);
    assert!(
        out.contains("odd.rules:5") && out.contains("do the opposite"),
        "{out}"
    );
    // explain says so in a line, and where to ask
    let (out, _) = run(&dir, 0, &["explain", "chain.yaml"]);
    for line in [
        "4 rules are odd (2 contradictory, 1 redundant, 1 never-matches): `onefold check chain.yaml --rules` says why",
        "\n  odd.rules:5 `deny tcp && dst port 80 && src host 10.0.0.1`: contradictory\n",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let v = json(&dir, 0, &["explain", "chain.yaml", "--html", "odd.html"]);
    assert_eq!(v["odd_rules"]["found"], 4, "{v:#}");
    assert_eq!(v["odd_rules"]["kinds"]["contradictory"], 2);
    assert_eq!(v["odd_rules"]["first"][0]["line"], 4);
    let page = std::fs::read_to_string(dir.join("odd.html")).unwrap();
    assert!(page.contains("4 rules are odd"), "{page}");
    let fine = folder(
        "fine",
        &[("fine.rules", "deny tcp && dst port 23\nallow tcp\n")],
    );
    let (out, _) = run(&fine, 0, &["check", "chain.yaml", "--rules"]);
    assert!(out.contains("nothing odd, proved"), "{out}");
    let (out, _) = run(&fine, 0, &["explain", "chain.yaml"]);
    assert!(!out.contains("odd ("), "{out}");
}
