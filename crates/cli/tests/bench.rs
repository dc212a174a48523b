//! `onefold bench`: what it tells has the right shape and adds up; never how fast anything is.

use crate::common;

use common::{json, root, run, temp};
use serde_json::Value;

const QUICK: [&str; 5] = ["--seconds", "0.002", "--repeats", "2", "-q"];

fn bench(args: &[&str]) -> Value {
    json(&root(), 0, &[&["bench"], args, &QUICK[..]].concat())
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// Median between the extremes, all of them positive.
fn spread(v: &Value) -> f64 {
    let [median, min, max] = ["median", "min", "max"].map(|k| number(&v[k]));
    assert!(min <= median && median <= max, "{v}");
    assert!(min > 0.0, "{v}");
    median
}

/// What holds of every chain that was measured, whatever it is.
fn invariants(c: &Value, repeats: usize) {
    let of = |k: &str| spread(&c[k]);
    let ns = of("ns_per_packet");
    assert!(of("ceiling_ns") > 0.0 && of("wall_ns_per_packet") > 0.0);
    spread(&c["mac_swap_ns"]);
    let samples = c["samples"].as_array().unwrap();
    assert_eq!(samples.len(), repeats);
    // millions per second and nanoseconds say the same, slice by slice
    let fastest = samples
        .iter()
        .map(|s| number(&s["ns"]))
        .fold(f64::MAX, f64::min);
    assert!((number(&c["mpps"]["max"]) * fastest - 1000.0).abs() < 0.01);
    assert_eq!(number(&c["ns_per_packet"]["min"]), fastest);
    // the ceiling that is taken off is that of the same round
    let mut above: Vec<f64> = samples
        .iter()
        .map(|s| number(&s["ns"]) - number(&s["ceiling_ns"]))
        .collect();
    above.sort_by(f64::total_cmp);
    assert!((number(&c["above_ceiling_ns"]["min"]) - above[0]).abs() < 1e-9);
    if !c["cycles_per_packet"].is_null() {
        spread(&c["cycles_per_packet"]);
    }
    let a = &c["account"];
    let n = |k: &str| a[k].as_i64().unwrap();
    assert_eq!(
        n("packets_in") + n("created"),
        n("packets_out") + n("dropped") + n("held"),
        "{a}"
    );
    assert_eq!(c["conserved"], true);
    let packets: u64 = samples.iter().map(|s| s["packets"].as_u64().unwrap()).sum();
    assert_eq!(c["packets"].as_u64(), Some(packets));
    assert!(n("packets_in") as u64 >= packets);
    assert_eq!(
        c["hits"].as_u64().unwrap() + c["misses"].as_u64().unwrap(),
        packets
    );
    assert!(ns > 0.0);
}

#[test]
fn two_chains_in_two_modes_take_turns() {
    let v = bench(&["routers-1", "napts-1", "--mode", "both", "--flows", "300"]);
    let names: Vec<(&str, &str)> = v["chains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["name"].as_str().unwrap(), c["mode"].as_str().unwrap()))
        .collect();
    let both = ["reference", "program"];
    let expected: Vec<(&str, &str)> = ["routers-1", "napts-1"]
        .iter()
        .flat_map(|n| both.map(|m| (*n, m)))
        .collect();
    assert_eq!(names, expected);
    for c in v["chains"].as_array().unwrap() {
        invariants(c, 2);
        assert_eq!(c["traffic"]["flows"], 300, "{c}");
        assert_eq!(c["share_out"], 1.0, "{c}");
        assert_eq!(c["traffic"]["templates"], 300);
        assert_eq!(c["traffic"]["bytes"], 64.0);
    }
    // A B A B, and the ceiling in every round of each
    let round: Vec<String> = ["routers-1", "napts-1"]
        .iter()
        .flat_map(|n| ["ceiling", "mac-swap", "reference", "program"].map(|s| format!("{n} {s}")))
        .collect();
    let order: Vec<&str> = v["order"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(order, [&round[..], &round[..]].concat());
    assert_eq!(
        (&v["rounds"], &v["interrupted"]),
        (&2.into(), &false.into())
    );
    assert!(
        v["machine"]["cores"].as_u64() >= Some(1),
        "{}",
        v["machine"]
    );
    let p = &v["parameters"];
    assert_eq!(
        (&p["flows"], &p["size"], &p["batch"]),
        (&300.into(), &"64".into(), &64.into())
    );
    // the same packets: in both modes as many classes, ports and drops
    assert_eq!(v["chains"][0]["traffic"], v["chains"][1]["traffic"]);
}

#[test]
fn every_example_can_be_measured() {
    let examples = [
        "l2fwd",
        "l3fwd",
        "fw10",
        "fw-l3fwd",
        "fw-l3fwd-l2fwd",
        "napt-fw-lb",
        "router-nat-lb",
        "isp-edge",
        "ipv6-edge",
        "campus-dpi",
        "kitchen-sink",
        "routers-2",
        "napts-2",
    ];
    for e in examples {
        let v = bench(&[e, "--mode", "both", "--flows", "64"]);
        for c in v["chains"].as_array().unwrap() {
            invariants(c, 2);
            let share = number(&c["share_out"]);
            assert!(
                (0.999..=1.0).contains(&share),
                "{e}: {share} of the packets left: {c}"
            );
            assert_eq!(c["traffic"]["flows"], 64, "{e}");
        }
        // so short a time is not enough, and is said not to be; nor is the build that tests run the one to be measured
        let said = v["warnings"].as_array().unwrap();
        let expected = [
            "packets are few",
            "this is a build of profile",
            "packets that were measured are of",
        ];
        assert!(
            (said.iter().map(|w| w.as_str().unwrap()))
                .all(|w| expected.iter().any(|e| w.contains(e))),
            "{e}: {said:?}"
        );
    }
}

#[test]
fn answers_sizes_and_skew() {
    let v = bench(&[
        "isp-edge:rules=acl-251.rules",
        "--replies",
        "--size",
        "imix",
        "--zipf",
        "1",
        "--flows",
        "500",
        "--tcp",
        "1",
    ]);
    let c = &v["chains"][0];
    invariants(c, 2);
    let t = &c["traffic"];
    assert_eq!(t["flows"], 500, "{t}");
    // what the rules let pass is not all TCP, whatever was asked for
    let tcp = t["tcp_flows"].as_u64().unwrap();
    assert!((100..500).contains(&tcp), "{t}");
    assert!(
        t["templates"].as_u64() >= Some(8000),
        "both ways, of many sizes: {t}"
    );
    assert_eq!(
        t["replies"].as_u64().unwrap() * 2,
        t["templates"].as_u64().unwrap()
    );
    assert!((number(&t["bytes"]) - 358.0).abs() < 25.0, "{t}");
    // flows are aimed at rules of the access list
    assert!(t["filters_hit"].as_u64() > Some(100), "{t}");
    assert!(number(&c["share_out"]) > 0.999, "{c}");
}

#[test]
fn a_page_and_a_table() {
    let dir = temp("bench-page");
    let page = dir.join("bench.html");
    let args = [
        "bench",
        "l2fwd",
        "l3fwd",
        "--flows",
        "50",
        "--html",
        page.to_str().unwrap(),
    ];
    let (out, _) = run(&root(), 0, &[&args[..], &QUICK[..]].concat());
    assert!(out.lines().all(|l| l.chars().count() <= 100), "{out}");
    let table: Vec<&str> = out
        .lines()
        .skip_while(|l| !l.starts_with("chain "))
        .take(3)
        .collect();
    assert!(
        table.len() == 3 && table.iter().all(|l| l.chars().count() <= 100),
        "{out}"
    );
    for (line, name) in table[1..].iter().zip(["l2fwd", "l3fwd"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            (cells[0], cells[1], cells.len()),
            (name, "auto", 11),
            "{line}"
        );
        assert_eq!(cells[10], "100.0%");
    }
    let html = std::fs::read_to_string(&page).unwrap();
    // two bars of three parts, two slices each, nothing from elsewhere
    assert_eq!(html.matches("<circle").count(), 4);
    assert_eq!(html.matches("class=\"k2\" x").count(), 2);
    assert!(
        !html.contains("http://")
            || html.matches("http").count() == html.matches("http://www.w3.org").count()
    );
}

/// A companion that is told to end before it has measured anything measures one round.
#[test]
fn a_companion_measures_one_round_at_least() {
    use std::process::{Command, Stdio};
    let out = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(root())
        .args([
            "bench",
            "l2fwd",
            "--companion",
            "--json",
            "-q",
            "--mode",
            "program",
        ])
        .args(["--flows", "20", "--seconds", "0.01", "--repeats", "1000"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let v: Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(v["interrupted"], true);
    let samples = v["chains"][0]["samples"].as_array().unwrap().len();
    // the clock may be read late
    assert!((1..100).contains(&samples), "{samples}");
}

/// Ctrl-C: what was measured so far is told, and nothing is half.
#[test]
fn an_interrupt_ends_it_with_what_there_is() {
    use std::process::{Command, Stdio};
    let child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(root())
        .args([
            "bench",
            "l2fwd",
            "l3fwd",
            "--flows",
            "20",
            "--seconds",
            "0.05",
            "--repeats",
            "1000",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // by then, packets are made and some rounds are over, however slow the machine; a thousand of them take minutes
    std::thread::sleep(std::time::Duration::from_secs(6));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(130));
    let v: Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(v["interrupted"], true);
    let rounds = v["rounds"].as_u64().unwrap();
    assert!((1..1000).contains(&rounds), "{rounds}");
    let order = v["order"].as_array().unwrap();
    for (i, c) in v["chains"].as_array().unwrap().iter().enumerate() {
        let n = c["samples"].as_array().unwrap().len() as u64;
        assert!(
            n == rounds || n == rounds + 1,
            "{n} slices in {rounds} rounds"
        );
        invariants(c, n as usize);
        let name = ["l2fwd", "l3fwd"][i];
        let slices = order
            .iter()
            .filter(|o| **o == format!("{name} auto"))
            .count() as u64;
        assert_eq!(slices, n);
    }
}

#[test]
fn wrong_use_is_told_with_a_hint() {
    let bad = |args: &[&str], part: &str| {
        let (_, err) = run(&root(), 2, &[&["bench"], args].concat());
        assert!(err.contains(part), "{args:?}: {err}");
    };
    bad(&["no-such-chain"], "examples:");
    bad(&["l2fwd", "--size", "12"], "expected 60");
    bad(&["l2fwd", "--seconds", "0"], "--seconds");
    bad(&["l2fwd", "--entry", "out"], "no packets enter");
    bad(&["l2fwd", "--core", "5000"], "--core");
    bad(&["l2fwd", "--flows", "0"], "--flows");
    bad(&["routers-1:m=2"], "m");
    let dir = temp("bench-deny");
    let click = "FromDevice(0) -> c :: IPClassifier(udp port 1, -); c[0] -> Discard; c[1] -> Discard; Idle -> ToDevice(1);";
    std::fs::write(dir.join("deny.click"), click).unwrap();
    let (_, err) = run(&dir, 2, &["bench", "deny.click"]);
    assert!(
        err.contains("leaves the chain when it enters at port"),
        "{err}"
    );
}
