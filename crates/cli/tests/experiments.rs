//! `onefold bench --experiment`: every experiment in its smallest form, through the binary. What it tells has the right shape;
//! never how fast anything is.

mod common;

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
        assert!(["reference", "program", "flow"].contains(&level), "{level}");
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
fn places_and_modes_can_be_chosen_and_there_is_a_page() {
    let dir = temp("experiment-page");
    let (page, section) = (dir.join("p.html"), dir.join("s.md"));
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
