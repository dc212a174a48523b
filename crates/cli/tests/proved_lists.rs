//! Firewalls with 10,000 rules and any mixture of verdicts are proved within a minute of processor time and 1 GiB
//! each, and the ISP edge with some such lists ([`EDGE`]) within a minute and 2 GiB.
//!
//! Eleven proofs with generated lists, twenty-one where ClassBench's lists are; minutes with an optimized build: `cargo
//! test --profile quick -p onefold --test cli-suite -- proved_lists:: --ignored --nocapture`. The environment variable
//! `ONLY` restricts them to those whose name contains it; with `EDGE=all` all lists are tried in the ISP edge, which
//! nothing promises yet. The last line printed is `soak: ...` with the worst figures.

use crate::common;

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// Seconds of processor time for one proof.
const SECONDS: f64 = 60.0;
/// Lists and verdicts that the ISP edge is proved with.
const EDGE: [(&str, &str); 6] = [
    ("acl2_10k", "allow"),
    ("fw2_10k", "allow"),
    ("fw2_10k", "third"),
    ("fw2_10k", "random"),
    ("generated-acl", "third"),
    ("generated-acl", "random"),
];
/// Bytes for the proof of a firewall alone, and of the ISP edge.
const BYTES: [u64; 2] = [1 << 30, 2 << 30];

/// Lists in ClassBench's format, with names: those of other people where they are, and one of each kind that is
/// generated.
fn lists(dir: &Path) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for name in ["acl2_10k", "fw2_10k"] {
        let file = common::data().map(|d| d.join(format!("rules/classbench/{name}.gz")));
        let Some(Ok(file)) = file.map(std::fs::File::open) else {
            onefold_testing::skip(format!("{name} is missing"));
            continue;
        };
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .expect("a compressed text");
        out.push((name.to_string(), text));
    }
    for kind in ["acl", "fw", "ipc"] {
        let to = format!("{kind}.rules");
        let args = [
            "gen", "--rules", kind, "--count", "10000", "--seed", "1", "--out", &to,
        ];
        common::run(
            dir,
            0,
            &[&args[..], &["--rule-format", "classbench"]].concat(),
        );
        let text = std::fs::read_to_string(dir.join(&to)).expect("the rules");
        out.push((format!("generated-{kind}"), text));
    }
    out
}

/// The rules with a verdict each: all allow, every third denies, or by chance.
fn with_verdicts(text: &str, which: &str) -> String {
    let mut out = String::new();
    let mut seed = 7u64;
    for (n, l) in text.lines().filter(|l| l.starts_with('@')).enumerate() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let denies = match which {
            "allow" => false,
            "third" => n % 3 == 2,
            _ => seed >> 40 & 1 == 1,
        };
        let mut l = l.split_whitespace().collect::<Vec<_>>().join(" ");
        if l.split(' ').count() == 9 {
            l += " 0x0000/0x0000";
        }
        let verdict = if denies { "deny" } else { "allow" };
        writeln!(out, "{l} {verdict}").expect("a text");
    }
    out
}

fn chains(rules: &str) -> [(&'static str, String); 2] {
    let alone = format!(
        "functions:\n  fw:\n    firewall:\n      rules-file: {rules}\n      format: classbench\n      default: deny\n\
         ports:\n  a: fw[0]\n  b: fw[1]\n"
    );
    let edge = common::root().join("chains/isp-edge/chain.yaml");
    let edge = std::fs::read_to_string(edge).expect("the chain");
    let edge = edge
        .replace("default: acl-713.rules", &format!("default: {rules}"))
        .replace("default: deny", "format: classbench\n      default: deny");
    assert!(
        edge.contains("classbench") && edge.contains(rules),
        "{edge}"
    );
    [("alone", alone), ("edge", edge)]
}

/// What `verify --prove` says of a chain, in a process of its own so that nothing else is counted.
struct Proof {
    /// Proved, with nothing unknown and shares that were counted.
    whole: bool,
    /// Processor time of the process.
    seconds: f64,
    /// Most memory that it had.
    bytes: u64,
}

fn prove(dir: &Path, name: &str, yaml: &str) -> Proof {
    std::fs::write(dir.join("chain.yaml"), yaml).expect("the chain");
    // the limit is on the clock, which says nothing on a busy machine
    let args = [
        "verify",
        "chain.yaml",
        "--prove",
        "--json",
        "--time-limit",
        "600",
    ];
    let o = common::onefold(dir, &args);
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).expect("JSON");
    let seconds = v["cpu_seconds"].as_f64().or(v["seconds"].as_f64());
    let seconds = seconds.expect("a time");
    let bytes = v["peak_bytes"].as_u64().unwrap_or(0);
    let space = &v["header_space"];
    println!(
        "{name}: {}, {seconds:.1} s, {} MiB, {space}",
        v["verdict"],
        bytes >> 20
    );
    let counted = space["punted"].is_f64() && space["within"].as_f64().is_some_and(|w| w < 0.05);
    Proof {
        whole: v["verdict"] == "proved" && space["unknown"].as_f64() == Some(0.0) && counted,
        seconds,
        bytes,
    }
}

/// Every list with every mixture of verdicts in the firewall alone, and some in the ISP edge.
#[test]
#[ignore = "long: minutes with an optimized build"]
fn any_mixture_of_verdicts_is_proved() {
    let dir = common::temp("proved-lists");
    let only = std::env::var("ONLY").unwrap_or_default();
    let all = std::env::var("EDGE").is_ok_and(|e| e == "all");
    let mut bad = Vec::new();
    // of firewalls alone, and of ISP edges: proofs, most seconds, most bytes
    let mut worst = [(0, 0.0f64, 0); 2];
    for (list, text) in lists(&dir) {
        for which in ["allow", "third", "random"] {
            let rules = format!("{list}-{which}.rules");
            std::fs::write(dir.join(&rules), with_verdicts(&text, which)).expect("the rules");
            for (chain, yaml) in chains(&rules) {
                let name = format!("{list} {which} {chain}");
                let promised = chain != "edge" || EDGE.contains(&(list.as_str(), which));
                if !name.contains(&only) || !promised && !all {
                    continue;
                }
                let p = prove(&dir, &name, &yaml);
                let at = usize::from(chain == "edge");
                let (n, seconds, bytes) = worst[at];
                worst[at] = (n + 1, seconds.max(p.seconds), bytes.max(p.bytes));
                // without optimization it takes longer
                let quick = cfg!(debug_assertions) || p.seconds <= SECONDS;
                if !p.whole || !quick || p.bytes > BYTES[at] {
                    bad.push(name);
                }
            }
        }
    }
    let [alone, edges] = worst.map(|(n, seconds, bytes)| {
        format!(
            "{n} (worst {seconds:.1} s of processor time, {} MiB)",
            bytes >> 20
        )
    });
    println!(
        "soak: firewalls alone {alone}, ISP edges {edges}, {} failed",
        bad.len()
    );
    assert!(worst[0].0 + worst[1].0 > 0);
    assert_eq!(bad, Vec::<String>::new());
}
