//! Who looks for patterns in payloads: it can be asked for, and is said.

use crate::common;

use common::{json, onefold_with, run, temp};

#[test]
fn unknown_matchers_are_refused_at_the_start() {
    let dir = temp("matcher-names");
    let with = |m: &str| {
        let o = onefold_with(&dir, &[("ONEFOLD_MATCHER", m)], &["show", "--list"]);
        let err = String::from_utf8_lossy(&o.stderr).into_owned();
        (o.status.code(), err)
    };
    for known in ["auto", "portable", ""] {
        assert_eq!(with(known).0, Some(0), "{known}");
    }
    let (status, err) = with("hs");
    assert_eq!(status, Some(2));
    for word in ["ONEFOLD_MATCHER", "hs", "auto", "portable", "vectorscan"] {
        assert!(err.contains(word), "{err}");
    }
    // where it cannot be had, it is not as if it had not been asked for
    let (status, err) = with("vectorscan");
    match status {
        Some(0) => {}
        s => assert!(s == Some(2) && err.contains("libhs.so.5"), "{s:?} {err}"),
    }
}

#[test]
fn who_looks_is_said() {
    let dir = temp("matcher-said");
    run(
        &dir,
        0,
        &[
            "gen",
            "--for",
            "campus-dpi",
            "--out",
            "in.pcap",
            "--packets",
            "200",
            "--flows",
            "20",
        ],
    );
    let port = "campus=in.pcap";
    for (asked, portable) in [("portable", true), ("auto", false)] {
        let with = |args: &[&str]| {
            let o = onefold_with(&dir, &[("ONEFOLD_MATCHER", asked)], args);
            assert_eq!(
                o.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&o.stderr)
            );
            [o.stdout, o.stderr].map(|b| String::from_utf8_lossy(&b).into_owned())
        };
        let [_, err] = with(&["run", "campus-dpi", "--in", port, "--mode", "reference"]);
        let said = err.lines().find(|l| l.starts_with("payload matcher: "));
        let said = said.unwrap_or_else(|| panic!("{err}"));
        assert!(said.contains("patterns") && said.contains("dpi/"), "{said}");
        assert!(!portable || said.contains("portable"), "{said}");
        let [out, _] = with(&["explain", "campus-dpi"]);
        assert!(out.contains("payload matcher of dpi/"), "{out}");
    }
    let v = json(
        &dir,
        0,
        &[
            "run",
            "campus-dpi",
            "--in",
            port,
            "--mode",
            "reference",
            "-q",
        ],
    );
    let all = v["matchers"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{v}");
    assert!(all[0]["element"].as_str().unwrap().starts_with("dpi/"));
    assert!(all[0]["matcher"].as_str().unwrap().contains("pattern"));
}

#[test]
fn bench_says_what_the_matcher_takes() {
    let dir = temp("matcher-bench");
    let quick = [
        "--seconds",
        "0.002",
        "--repeats",
        "2",
        "--flows",
        "50",
        "--mode",
        "reference",
        "-q",
    ];
    let bench = |chain: &str| {
        json(
            &dir,
            0,
            &[&["bench", chain, "--size", "imix"][..], &quick].concat(),
        )
    };
    let v = bench("campus-dpi");
    let c = &v["chains"][0];
    let m = &c["matcher"];
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or_else(|| panic!("{c}"));
    assert!(number(&m["scans_per_packet"]) > 0.5, "{m}");
    let (scan, packet) = (
        number(&m["ns_per_scan"]["median"]),
        number(&m["ns_per_packet"]["median"]),
    );
    let ratio = packet / scan / number(&m["scans_per_packet"]);
    assert!(scan > 0.0 && (0.9..1.1).contains(&ratio), "{m}");
    let share = packet / number(&c["above_ceiling_ns"]["median"]);
    assert!(
        (number(&c["matcher_share"]) - share).abs() < 1e-6 * share.abs().max(1.0),
        "{c}"
    );
    assert!(m["engines"][0].as_str().unwrap().contains("pattern"), "{m}");
    let v = bench("l2fwd");
    assert!(v["chains"][0]["matcher"].is_null() && v["chains"][0]["matcher_share"].is_null());
    let (out, _) = run(&dir, 0, &[&["bench", "campus-dpi"][..], &quick].concat());
    assert!(out.contains("payload matcher alone"), "{out}");
}
