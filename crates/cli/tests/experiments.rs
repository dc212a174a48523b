//! `onefold bench --experiment`: every experiment in its smallest form, through the binary. What it tells has the right
//! shape; never how fast anything is.

use crate::common;

use common::{json, root, run, temp};
use serde_json::Value;

/// The smallest form of an experiment, checked.
fn smallest(name: &str, more: &[&str]) -> Value {
    let args = [&["bench", "--experiment", name, "--quick", "-q"], more].concat();
    let v = json(&root(), 0, &args);
    shape(name, &v);
    v
}

fn finite(v: &Value) -> f64 {
    v.as_f64()
        .filter(|v| v.is_finite())
        .unwrap_or_else(|| panic!("{v} is no number"))
}

fn spread(v: &Value) {
    let [median, min, max] = ["median", "min", "max"].map(|k| finite(&v[k]));
    assert!(min <= median && median <= max, "{v}");
}

/// What docs/json.md says of it.
fn shape(name: &str, v: &Value) {
    assert_eq!(
        (&v["experiment"], &v["quick"], &v["interrupted"]),
        (&name.into(), &true.into(), &false.into())
    );
    for key in ["title", "shows", "date"] {
        assert!(!v[key].as_str().unwrap().is_empty(), "{key}");
    }
    assert!(v["x"]["name"].is_string() && v["x"]["log"].is_boolean() && v["y"].is_string());
    assert!(v["machine"]["cores"].as_u64() >= Some(1));
    let series = v["series"].as_array().unwrap();
    assert!(!series.is_empty());
    for s in series {
        let level = s["level"].as_str().unwrap();
        assert!(
            ["reference", "program", "flow", "auto"].contains(&level),
            "{level}"
        );
        let points = s["points"].as_array().unwrap();
        assert!(!points.is_empty(), "{s}");
        let mut before = f64::MIN;
        for p in points {
            let x = finite(&p["x"]);
            assert!(x > before, "points are in order: {x} after {before}");
            before = x;
            spread(&p["y"]);
            let m = &p["measured"];
            for key in [
                "ns_per_packet",
                "ceiling_ns",
                "mac_swap_ns",
                "above_ceiling_ns",
                "mpps",
            ] {
                spread(&m[key]);
            }
            assert_eq!(m["conserved"], true, "{m}");
            assert!(p["flows"].as_u64() >= Some(1) && p["batch"].as_u64() >= Some(1));
            assert!(!p["label"].as_str().unwrap().is_empty());
            assert!(p["bytes_per_flow"].is_null() || finite(&p["bytes_per_flow"]) >= 0.0);
        }
    }
    for r in v["ratios"].as_array().unwrap() {
        assert!(r["name"].is_string());
        spread(&r["rate"]);
    }
    let published = v["published"].as_array().unwrap();
    assert!(!published.is_empty(), "what others report is told");
    for p in published {
        for key in ["source", "setting", "reported"] {
            assert!(p[key].is_string(), "{p}");
        }
        for l in p["lines"].as_array().unwrap() {
            assert!(
                l["points"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|p| p[0].is_number() && p[1].is_number())
            );
        }
    }
}

/// Lines, as (series, level, number of points).
fn lines(v: &Value) -> Vec<(String, String, usize)> {
    let one = |s: &Value| {
        let text = |k: &str| s[k].as_str().unwrap().to_string();
        (
            text("series"),
            text("level"),
            s["points"].as_array().unwrap().len(),
        )
    };
    v["series"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn chain_length() {
    let v = smallest("chain-length", &[]);
    let all = lines(&v);
    assert_eq!(all.len(), 9, "{all:?}");
    assert!(all.iter().all(|l| l.2 == 2), "{all:?}");
    assert_eq!(v["ratios"].as_array().unwrap().len(), 9);
    for s in v["series"].as_array().unwrap() {
        for p in s["points"].as_array().unwrap() {
            assert_eq!(p["measured"]["share_out"], 1.0, "{p}");
        }
    }
}

#[test]
fn acl() {
    let v = smallest("acl", &["--at", "20"]);
    assert_eq!(lines(&v).len(), 12);
    for s in v["series"].as_array().unwrap() {
        for p in s["points"].as_array().unwrap() {
            let m = &p["measured"];
            // what was asked for comes, and what has not been seen is not hit
            assert!(finite(&m["share_out"]) > 0.99, "{}: {m}", s["series"]);
            let never = s["series"].as_str().unwrap().starts_with("never");
            let zero = if never { &m["hits"] } else { &m["misses"] };
            assert_eq!(zero, 0, "{m}");
        }
    }
}

#[test]
fn router_napt_lb() {
    let v = smallest("router-napt-lb", &["--at", "100"]);
    assert_eq!(lines(&v).len(), 6);
    for s in v["series"].as_array().unwrap() {
        for p in s["points"].as_array().unwrap() {
            assert_eq!(p["flows"], 100);
            assert_eq!(p["measured"]["share_out"], 1.0, "{p}");
        }
    }
}

#[test]
fn flows() {
    let v = smallest("flows", &[]);
    assert_eq!(lines(&v).len(), 3);
    let points = v["series"][2]["points"].as_array().unwrap();
    assert_eq!(
        (&points[0]["flows"], &points[1]["flows"]),
        (&100.into(), &1000.into())
    );
    assert!(
        finite(&points[1]["bytes_per_flow"]) > 0.0,
        "a flow table needs memory"
    );
}

#[test]
fn batch() {
    let v = smallest("batch", &[]);
    assert_eq!(lines(&v).len(), 6);
    for s in v["series"].as_array().unwrap() {
        let all: Vec<u64> = s["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["batch"].as_u64().unwrap())
            .collect();
        assert_eq!(all, [1, 32]);
    }
}

#[test]
fn rules() {
    let v = smallest("rules", &["--at", "10"]);
    assert_eq!(lines(&v).len(), 8);
    for s in v["series"].as_array().unwrap() {
        for p in s["points"].as_array().unwrap() {
            assert!(finite(&p["build_seconds"]) > 0.0);
            let acl = s["series"].as_str().unwrap().starts_with("acl");
            assert!(!acl || finite(&p["measured"]["share_out"]) > 0.99, "{p}");
        }
    }
}

#[test]
fn nf_benchmark() {
    let v = smallest("nf-benchmark", &["--at", "64"]);
    let all = lines(&v);
    assert!(all.len() == 15 && all.iter().all(|l| l.2 == 2), "{all:?}");
    for s in v["series"].as_array().unwrap() {
        let points = s["points"].as_array().unwrap();
        assert_eq!(points[0]["measured"]["traffic"]["bytes"], 64.0);
        assert_eq!(points[1]["label"], "data centre");
        assert!(finite(&points[1]["measured"]["traffic"]["bytes"]) > 100.0);
    }
}

#[test]
fn nf_cpu_share() {
    let v = smallest("nf-cpu-share", &[]);
    let skipped = v["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|w| w.as_str().unwrap().contains("skipped"));
    let all = lines(&v);
    let points = if skipped { 1 } else { 2 };
    assert!(
        all.len() == 6 && all.iter().all(|l| l.2 == points),
        "{all:?}"
    );
    assert_eq!(v["y"], "wall_mpps");
    if skipped {
        onefold_testing::skip(format!("no quota can be set here: {}", v["warnings"]));
    }
}

#[test]
fn nf_colocated() {
    let v = smallest("nf-colocated", &["--mode", "program", "--seconds", "0.1"]);
    let all = lines(&v);
    assert!(all.len() == 2 && all.iter().all(|l| l.2 == 2), "{all:?}");
    let two = &v["series"][0]["points"][1];
    assert_eq!(two["instances"], 2);
    // the other instance's rate is in it, however slow the machine lets it be
    let others = two["others_mpps"].as_array().unwrap();
    assert_eq!(others.len(), 1, "{two}");
    let other = finite(&others[0]);
    let samples = two["measured"]["samples"].as_array().unwrap();
    let slowest = (samples.iter())
        .map(|s| 1000.0 / finite(&s["wall_ns"]).max(1e-3))
        .fold(f64::MAX, f64::min);
    assert!(other > 0.0, "{two}");
    let told = finite(&two["y"]["min"]);
    assert!((told - slowest - other).abs() < 1e-9 * told, "{two}");
    assert_eq!(
        v["series"][0]["points"][0]["others_mpps"],
        serde_json::json!([])
    );
}

#[test]
fn attack() {
    let v = smallest("attack", &["--seconds", "0.04"]);
    let all = lines(&v);
    assert!(all.len() == 4 && all.iter().all(|l| l.2 == 7), "{all:?}");
    assert_eq!(v["ratios"].as_array().unwrap().len(), 24);
    for p in v["series"][0]["points"].as_array().unwrap() {
        let m = &p["measured"];
        let [hits, misses] = ["hits", "misses"].map(|k| finite(&m[k]));
        let strange = misses / (hits + misses);
        let expected = if p["label"] == "benign" { 0.0 } else { 0.5 };
        assert!((strange - expected).abs() < 0.02, "{strange}: {m}");
        // established flows leave, whatever the others do
        assert!(finite(&m["share_out"]) > 0.999 - expected - 0.02, "{m}");
        if expected > 0.0 {
            assert!(finite(&m["opened_out"]) > 0.999, "{m}");
        }
    }
    let lines = v["series"].as_array().unwrap();
    let tables = lines.iter().filter(|s| s["level"] == "flow");
    for p in tables.flat_map(|s| s["points"].as_array().unwrap()) {
        let t = &p["measured"]["flow_table"];
        assert!(finite(&t["bytes"]) <= finite(&t["most_bytes"]), "{t}");
    }
    // what no known flow needs
    let shed = |s: &Value| {
        let points = s["points"].as_array().unwrap().iter();
        let all = points.map(|p| finite(&p["measured"]["flow_table"]["shed"]));
        all.sum::<f64>()
    };
    assert_eq!(lines.iter().filter(|s| s["level"] == "flow").count(), 2);
    for s in lines.iter().filter(|s| s["level"] == "flow") {
        let protected = s["series"].as_str().unwrap().contains("unknown flows");
        assert_eq!(shed(s) > 0.0, protected, "{}", s["series"]);
    }
}

#[test]
fn traffic_mix() {
    let v = smallest("traffic-mix", &[]);
    let all = lines(&v);
    assert!(all.len() == 3 && all.iter().all(|l| l.2 == 5), "{all:?}");
    assert_eq!(v["ratios"].as_array().unwrap().len(), 15);
}

#[test]
fn stateful() {
    let v = smallest("stateful", &[]);
    let all = lines(&v);
    assert!(all.len() == 12 && all.iter().all(|l| l.2 == 2), "{all:?}");
    assert_eq!(v["ratios"].as_array().unwrap().len(), 16);
    // what is measured passes: connections that are known, and those that begin
    for s in v["series"].as_array().unwrap() {
        for p in s["points"].as_array().unwrap() {
            assert!(finite(&p["measured"]["share_out"]) > 0.999, "{p}");
        }
    }
}

#[test]
fn places_and_modes_can_be_chosen_and_there_is_a_page() {
    let dir = temp("experiment-page");
    let (page, section, saved) = (dir.join("p.html"), dir.join("s.md"), dir.join("saved"));
    let args = [
        "bench",
        "--experiment",
        "chain-length",
        "--quick",
        "-q",
        "--at",
        "1,3",
        "--mode",
        "flow",
        "--html",
        page.to_str().unwrap(),
        "--save",
        saved.to_str().unwrap(),
        "--section",
        section.to_str().unwrap(),
    ];
    let (out, _) = run(&root(), 0, &args);
    assert!(out.lines().all(|l| l.chars().count() <= 100), "{out}");
    for part in [
        "Routers and NAPTs in a row",
        "rates compared",
        "FastClick",
        "above",
        "routers: flow",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // what was measured can be run
    let (click, pcap) = (saved.join("routers-3.click"), saved.join("routers-3.pcap"));
    let from = format!("in={}", pcap.display());
    let ran = json(&root(), 0, &["run", click.to_str().unwrap(), "--in", &from]);
    assert_eq!(
        (&ran["packets_in"], &ran["packets_out"]),
        (&500.into(), &500.into())
    );
    let html = std::fs::read_to_string(&page).unwrap();
    // three lines of two points, and the published ones; nothing from elsewhere
    assert_eq!(
        html.matches("class=\"ours\"").count(),
        6,
        "a line and its key"
    );
    assert!(html.contains("class=\"theirs\"") && html.contains("<circle"));
    assert_eq!(
        html.matches("http").count(),
        html.matches("http://www.w3.org").count()
    );
    let md = std::fs::read_to_string(&section).unwrap();
    assert!(
        md.starts_with("Machine: ") && md.contains("| routers: flow |"),
        "{md}"
    );
}

#[test]
fn they_are_listed_and_wrong_ones_refused() {
    let (out, _) = run(&root(), 0, &["bench", "--experiment", "list"]);
    assert!(out.contains("chain-length"), "{out}");
    let v = json(&root(), 0, &["bench", "--experiment", "list"]);
    for e in v["experiments"].as_array().unwrap() {
        assert!(e["name"].is_string() && e["published"].is_array());
    }
    for (args, part) in [
        (&["--experiment", "no-such"][..], "chain-length"),
        (
            &["--experiment", "chain-length", "--at", "1000"],
            "--at 1000",
        ),
        (&["--experiment", "chain-length", "--flows", "7"], "--flows"),
        (&["l2fwd", "--quick"], "--experiment"),
        (&[], "CHAIN"),
    ] {
        let (_, err) = run(&root(), 2, &[&["bench"], args].concat());
        assert!(err.contains(part), "{args:?}: {err}");
    }
}
