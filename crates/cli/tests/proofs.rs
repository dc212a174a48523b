//! Proofs are kept by content: what this build has proved is not proved again, and nothing else is taken for proved.

use crate::common;

use common::{onefold_with, temp};
use serde_json::Value;
use std::path::Path;

const CHAIN: &str = "functions:\n  fw:\n    firewall:\n      rules: [allow tcp && dst port 80]\n\
    ports:\n  lan: fw[0]\n  wan: fw[1]\n";

/// Runs the chain with a cache in `cache`; what `verification` says, and standard error.
fn verification(dir: &Path, more: &[&str]) -> (Value, String) {
    let run = ["run", "chain.yaml", "--in", "lan=in.pcap", "--json"];
    let o = onefold_with(
        dir,
        &[("ONEFOLD_CACHE", "cache")],
        &[&run[..], more].concat(),
    );
    let (out, err) = (
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr),
    );
    assert!(o.status.success(), "{out}{err}");
    let v: Value = serde_json::from_str(&out).expect("JSON");
    (v["verification"].clone(), err.into_owned())
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let all = std::fs::read_dir(dir.join("cache/proofs"))
        .into_iter()
        .flatten();
    all.map(|e| e.unwrap().path()).collect()
}

#[test]
fn a_proof_is_made_once() {
    let dir = temp("proofs");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    common::run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "50", "--flows", "5"],
    );
    // what is not proved, or not to be kept, is not
    for more in [
        &["--verify-time", "0"][..],
        &["--no-verify"],
        &["--no-proof-cache"],
    ] {
        let (v, _) = verification(&dir, more);
        assert_eq!(v["from_cache"], Value::Null, "{v}");
        assert!(files(&dir).is_empty(), "{more:?}");
    }
    let (first, err) = verification(&dir, &[]);
    assert_eq!(
        (&first["verdict"], &first["from_cache"]),
        (&"proved".into(), &Value::Null)
    );
    assert!(err.contains("verified: proved in "), "{err}");
    assert_eq!(files(&dir).len(), 1);
    let (again, err) = verification(&dir, &[]);
    assert_eq!(again["verdict"], "proved");
    assert_eq!(
        again["from_cache"]["made"].as_str().map(str::len),
        Some(10),
        "{again}"
    );
    assert_eq!(again["from_cache"]["seconds"], first["seconds"], "{again}");
    assert_eq!(again["header_space"], first["header_space"]);
    assert!(
        err.contains("verified: proved (from cache, made 2"),
        "{err}"
    );
    // the same rule in another place is the same
    let moved = format!("description: moved\n\n{CHAIN}");
    std::fs::write(dir.join("chain.yaml"), moved).unwrap();
    assert_ne!(verification(&dir, &[]).0["from_cache"], Value::Null);
    // a changed rule is another graph
    std::fs::write(dir.join("chain.yaml"), CHAIN.replace("80", "81")).unwrap();
    assert_eq!(verification(&dir, &[]).0["from_cache"], Value::Null);
    assert_eq!(files(&dir).len(), 2);
    // damaged files are no proofs, and replaced
    for f in files(&dir) {
        let text = std::fs::read_to_string(&f).unwrap();
        std::fs::write(&f, text.replace("made 1", "made 2")).unwrap();
    }
    assert_eq!(verification(&dir, &[]).0["from_cache"], Value::Null);
    assert_ne!(verification(&dir, &[]).0["from_cache"], Value::Null);
    // not asked for
    assert_eq!(
        verification(&dir, &["--no-proof-cache"]).0["from_cache"],
        Value::Null
    );
}

/// A program that is not the chain is refused, whatever was proved of the chain's own.
#[test]
fn the_proof_of_a_program_is_not_that_of_another() {
    let dir = temp("proofs-program");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    common::run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "50", "--flows", "5"],
    );
    verification(&dir, &[]);
    let (text, _) = common::run(&dir, 0, &["explain", "chain.yaml", "--program"]);
    std::fs::write(dir.join("own.txt"), &text).unwrap();
    let given = verification(&dir, &["--program", "own.txt"]).0;
    assert_eq!(given["verdict"], "proved", "{given}");
    let wrong = text.replace("80", "81");
    assert_ne!(wrong, text);
    std::fs::write(dir.join("wrong.txt"), wrong).unwrap();
    let run = [
        "run",
        "chain.yaml",
        "--in",
        "lan=in.pcap",
        "--program",
        "wrong.txt",
        "-q",
    ];
    let kept = files(&dir).len();
    let o = onefold_with(&dir, &[("ONEFOLD_CACHE", "cache")], &run);
    assert_eq!(
        o.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&o.stderr)
    );
    assert_eq!(files(&dir).len(), kept, "refuted: not kept");
}
