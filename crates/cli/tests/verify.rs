//! `onefold verify`, end to end.

mod common;

use common::{json, root, run, temp};

#[test]
fn examples_verify_on_generated_packets() {
    for chain in ["l3fwd", "napt-fw-lb"] {
        let v = json(&root(), 0, &["verify", chain, "--packets", "3000", "-q"]);
        assert_eq!(v["differences"], 0, "{v}");
        // both levels
        assert_eq!(v["packets"], 6000, "{v}");
        assert!(v["classes_hit"].as_u64().unwrap() > 2, "{v}");
        assert!(v["bounds_hit"].as_u64() <= v["bounds"].as_u64());
        assert!(v["bounds"].as_u64().unwrap() > 100, "{v}");
        assert!(v["punted_packets"].as_u64().unwrap() < 1500, "{v}");
        for missing in v["not_hit"].as_array().unwrap() {
            assert!(
                missing["reason"].as_str().is_some_and(|r| !r.is_empty()),
                "{v}"
            );
        }
    }
}

#[test]
fn captures_verify_and_the_seed_makes_the_packets() {
    let dir = temp("verify");
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "2000",
            "--flows",
            "50",
        ],
    );
    let args = [
        "verify",
        "isp-edge",
        "--in",
        "lan=lan.pcap",
        "--level",
        "reference",
        "-q",
    ];
    let v = json(&dir, 0, &args);
    assert_eq!(
        (&v["packets"], &v["differences"]),
        (&2000.into(), &0.into())
    );
    let with = |seed: &str| {
        let args = [
            "verify",
            "l3fwd",
            "--packets",
            "500",
            "--level",
            "program",
            "-q",
            "--seed",
            seed,
        ];
        json(&root(), 0, &args)["levels"][0]["with_output"].clone()
    };
    assert_eq!(with("5"), with("5"));
}

#[test]
fn what_is_not_there_is_said() {
    let (_, err) = run(&root(), 2, &["verify", "l2fwd", "--prove"]);
    assert!(err.contains("not built yet"), "{err}");
    let (_, err) = run(&root(), 2, &["verify", "l2fwd", "--level", "flow"]);
    assert!(err.contains("not built yet"), "{err}");
    let (_, err) = run(&root(), 2, &["verify", "l2fwd", "--in", "nowhere=x.pcap"]);
    assert!(err.contains("x.pcap") || err.contains("no port"), "{err}");
}
