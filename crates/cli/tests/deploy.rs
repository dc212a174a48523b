//! A program is verified before it takes packets.

use crate::common;

use common::{json, root, run, temp};
use std::path::PathBuf;

/// A folder with packets in `in.pcap` and the program of `l3fwd` in `made.txt`.
fn folder(name: &str) -> PathBuf {
    let dir = temp(name);
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "in.pcap",
            "--packets",
            "500",
            "--flows",
            "20",
        ],
    );
    let (text, _) = run(&root(), 0, &["explain", "l3fwd", "--program"]);
    std::fs::write(dir.join("made.txt"), text).expect("the program's text is written");
    dir
}

const RUN: [&str; 5] = ["run", "l3fwd", "--in", "in=in.pcap", "-q"];

#[test]
fn small_chains_are_proved_before_they_run() {
    let dir = folder("deploy-proved");
    let v = json(&dir, 0, &RUN);
    assert_eq!(v["verification"]["verdict"], "proved", "{v}");
    assert_eq!(v["packets_in"], 500);
    let seconds = v["verification"]["seconds"].as_f64().unwrap();
    assert!(seconds < 2.0, "{seconds} s for a small chain");
    // a given text is judged as it is
    let v = json(&dir, 0, &[&RUN[..], &["--program", "made.txt"]].concat());
    assert_eq!(v["verification"]["verdict"], "proved", "{v}");
    // nothing to be verified
    let v = json(&dir, 0, &[&RUN[..], &["--mode", "reference"]].concat());
    assert!(v.get("verification").is_none(), "{v}");
}

#[test]
fn a_program_that_is_not_the_chain_does_not_run() {
    let dir = folder("deploy-refused");
    let text = std::fs::read_to_string(dir.join("made.txt")).unwrap();
    // another TTL
    let wrong = text
        .replace("ip.ttl <= 1", "ip.ttl <= 2")
        .replace("ip.ttl >= 2", "ip.ttl >= 3");
    assert_ne!(text, wrong);
    std::fs::write(dir.join("wrong.txt"), wrong).unwrap();
    let out = dir.join("out.pcap");
    let args = [
        &RUN[..],
        &["--out", "out=out.pcap", "--program", "wrong.txt"],
    ]
    .concat();
    let v = json(&dir, 1, &args);
    assert_eq!(
        (&v["refused"], &v["verification"]["verdict"]),
        (&true.into(), &"refuted".into())
    );
    assert!(!out.exists(), "nothing was run");
    let packet = v["verification"]["counterexample"]["packets"][0]["packet"]
        .as_str()
        .unwrap();
    assert!(packet.len() >= 28, "{v}");
    let (_, err) = run(&dir, 1, &args);
    assert!(
        err.contains("refused: the program is not the chain"),
        "{err}"
    );
    // the line that it gives explains it
    let line = err.lines().find(|l| l.contains("onefold trace")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let (text, _) = run(&dir, 1, &words);
    assert!(text.contains("DecIPTTL"), "{text}");
    // without a proof it runs, and is loud
    let args = [&args[..], &["--no-verify"]].concat();
    let (_, err) = run(&dir, 0, &args);
    assert!(err.contains("warning: --no-verify"), "{err}");
    let v = json(&dir, 0, &args);
    assert_eq!(v["verification"]["verdict"], "skipped");
    assert!(v["warnings"].to_string().contains("--no-verify"), "{v}");
}

#[test]
fn what_is_known_can_be_read_from_within_and_renewed_programs_are_verified() {
    let dir = temp("deploy-renewed");
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "in.pcap",
            "--packets",
            "3000",
            "--flows",
            "20",
        ],
    );
    std::fs::write(
        dir.join("c.click"),
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> r :: RadixIPLookup(10.0.0.0/8 0, 0.0.0.0/0 1);\n\
         r[0] -> Unstrip(14) -> ToDevice(a); r[1] -> Discard;\n\
         Script(wait 0.001s, print verification, write r.add 172.16.0.0/12 0);\n",
    )
    .unwrap();
    let v = json(&dir, 0, &["run", "c.click", "--in", "a=in.pcap", "-q"]);
    assert_eq!(v["program"]["renewed"], 1, "{v}");
    assert_eq!(
        v["verification"]["renewals"],
        serde_json::json!(["proved"]),
        "{v}"
    );
    let (_, err) = run(&dir, 0, &["run", "c.click", "--in", "a=in.pcap", "-q"]);
    assert!(err.lines().any(|l| l == "proved"), "{err}");
    // what it should be after the change is not known of a text
    let (text, _) = run(&dir, 0, &["explain", "c.click", "--program"]);
    std::fs::write(dir.join("given.txt"), text).unwrap();
    let args = [
        "run",
        "c.click",
        "--in",
        "a=in.pcap",
        "-q",
        "--program",
        "given.txt",
    ];
    let v = json(&dir, 0, &args);
    assert_eq!(v["program"]["renewed"], 0, "{v}");
    assert!(v["punted_packets"].as_u64().unwrap() > 1000, "{v}");
}

/// Nobody waits for a comparison that cannot be.
#[test]
fn shadow_mode_needs_a_program() {
    let dir = folder("deploy-shadow-mode");
    let with = |more: &[&str], status: i32| run(&dir, status, &[&RUN[..], more].concat()).1;
    for more in [
        &["--mode", "reference", "--shadow", "0.1"][..],
        &["--mode", "reference", "--shadow-pcap", "found.pcap"],
        &["--shadow", "off", "--shadow-pcap", "found.pcap"],
    ] {
        let err = with(more, 2);
        assert!(err.contains("has nothing to do"), "{more:?}: {err}");
        assert!(!dir.join("found.pcap").exists());
    }
    with(&["--mode", "reference", "--shadow", "off"], 0);
}
