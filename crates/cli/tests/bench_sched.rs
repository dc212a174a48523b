//! `onefold bench sched`: experiments in their smallest form, through the binary and real processes. What it tells has
//! the right shape; never how fast anything is.

use crate::common;

use common::{json, run, temp};
use serde_json::Value;

/// Real time, control groups, and a core for functions beside that of the load.
fn can() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let can = nix::unistd::geteuid().is_root() && cores > 1;
    if !can {
        onefold_testing::skip("scheduling experiments take root and two cores");
    }
    can
}

#[test]
fn experiments_are_listed() {
    let dir = temp("bench-sched-list");
    let (out, _) = run(&dir, 0, &["bench", "sched", "list"]);
    let v = json(&dir, 0, &["bench", "sched", "list"]);
    let all = v["experiments"].as_array().unwrap();
    assert!(all.len() > 20, "{v}");
    for e in all {
        assert!(out.contains(e["name"].as_str().unwrap()));
        assert!(
            e["settings"].as_u64() > Some(0) && !e["shrunk"].as_str().unwrap().is_empty(),
            "{e}"
        );
    }
    let (_, err) = run(&dir, 2, &["bench", "sched", "nfvnice"]);
    assert!(err.contains("hint: there are nfvnice-1, "), "{err}");
    let nothing = ["bench", "sched", "unis-4", "--only", "feather"];
    let (_, err) = run(&dir, 2, &nothing);
    assert!(err.contains("leave nothing of it"), "{err}");
}

/// Chains of burners that share functions, of which one sleeps, under a policy of the kernel's and one of a paper's.
#[test]
fn an_experiment_end_to_end() {
    if !can() {
        return;
    }
    let dir = temp("bench-sched");
    let args = [
        "bench",
        "sched",
        "nfvnice-5",
        "--quick",
        "--seconds",
        "0.3",
        "--policy",
        "normal",
        "--policy",
        "nfvnice",
        "--quiet",
        "--section",
        "out.md",
        "--html",
        "out.html",
    ];
    let v = json(&dir, 0, &args);
    assert_eq!(
        (&v["experiment"], &v["conserved"], &v["quick"]),
        (&"nfvnice-5".into(), &true.into(), &true.into())
    );
    let cells = v["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "{v}");
    for c in cells {
        let round = &c["rounds"][0];
        for figure in [
            "Mpps",
            "Mpps B",
            "wasted/s",
            "switches/s",
            "p50 us",
            "p99 us",
            "cpu first",
            "share first",
            "Jain",
        ] {
            assert!(
                round[figure]
                    .as_f64()
                    .is_some_and(|v| v.is_finite() && v >= 0.0),
                "{figure}: {c}"
            );
        }
        // packets came through
        assert!(
            round["Mpps"].as_f64() > Some(0.0) && round["in Mpps"].as_f64() > Some(0.0),
            "{c}"
        );
    }
    let lines = v["lines"].as_array().unwrap();
    assert!(
        lines
            .iter()
            .any(|l| l["goal"] == "A, C and D are throttled, B is not" && l["held"].is_boolean()),
        "{v}"
    );
    let text = std::fs::read_to_string(dir.join("out.md")).unwrap();
    assert!(
        text.contains("| four chains | nfvnice |") && text.contains("| goal | got |"),
        "{text}"
    );
    let page = std::fs::read_to_string(dir.join("out.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("What is to hold"),
        "{page}"
    );
}

/// A load that is a share of what can be done, functions that are merged, and costs that change meanwhile.
#[test]
fn routers_merged_ones_and_costs_that_change() {
    if !can() {
        return;
    }
    let dir = temp("bench-sched-more");
    let small = ["--quick", "--seconds", "0.2", "--quiet"];
    let of =
        |more: &[&str]| -> Value { json(&dir, 0, &[&["bench", "sched"], more, &small].concat()) };
    let v = of(&[
        "merged", "--only", "1", "--policy", "merged", "--policy", "batch",
    ]);
    let merged: Vec<&Value> = v["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["run"] == "merged")
        .collect();
    assert!(
        !merged.is_empty()
            && merged
                .iter()
                .all(|c| c["rounds"][0]["Mpps"].as_f64() > Some(0.0)),
        "{v}"
    );
    assert!(
        v["cells"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["setting"] == "1"),
        "{v}"
    );
    let v = of(&["unis-5", "--only", "light", "--policy", "unis"]);
    let f = &v["cells"][0]["rounds"][0];
    assert!(
        f["spread us"].as_f64().is_some() && f["wait/run"].as_f64().is_some(),
        "{v}"
    );
    let v = of(&["nfvnice-15a", "--policy", "nfvnice"]);
    assert!(
        v["cells"][0]["rounds"][0]["follows ms"].as_f64() > Some(0.0),
        "{v}"
    );
}

/// A TCP connection through the chain, packets that are written to a disk, and interfaces between processes.
#[test]
fn connections_disks_and_interfaces() {
    if !can() {
        return;
    }
    let dir = temp("bench-sched-io");
    let small = ["--quick", "--seconds", "0.2", "--quiet"];
    let of = |more: &[&str]| -> Vec<Value> {
        let v = json(&dir, 0, &[&["bench", "sched"], more, &small].concat());
        assert_eq!(v["conserved"], true, "{v}");
        let cells = v["cells"].as_array().unwrap();
        cells.iter().map(|c| c["rounds"][0].clone()).collect()
    };
    let more = |f: &Value, figure: &str| f[figure].as_f64() > Some(0.0);
    // on a machine that is busy a fifth of a second may be over before anything has come through
    let tried = |more: &[&str], holds: &dyn Fn(&[Value]) -> bool| {
        let mut tries: Vec<Vec<Value>> = Vec::new();
        while tries.len() < 5 && !tries.last().is_some_and(|c| holds(c)) {
            tries.push(of(more));
        }
        assert!(tries.last().is_some_and(|c| holds(c)), "{tries:?}");
    };
    // beside UDP the kernel may leave TCP nothing
    let tcp = ["nfvnice-13", "--only", "alone", "--policy", "normal"];
    tried(&tcp, &|c| {
        c.len() == 1 && more(&c[0], "TCP Mb/s") && more(&c[0], "in Mpps")
    });
    // a disk that others use may do nothing meanwhile, and the function waits for it
    let cells = of(&["nfvnice-14", "--only", "64", "--policy", "behind"]);
    let told = ["Mpps logged", "Mpps other"];
    assert!(
        cells.len() == 1 && told.iter().all(|f| cells[0][f].is_f64()),
        "{cells:?}"
    );
    assert!(cells[0]["storage waits/s"].is_f64(), "{cells:?}");
    let mut lengths = vec!["thesis-4.2", "--only", "3"];
    lengths.extend(["--policy", "veth", "--policy", "rings"]);
    // the load is the same, and how long packets took is known through interfaces, too
    tried(&lengths, &|c| {
        c.len() == 2 && c.iter().all(|c| more(c, "Mpps") && more(c, "p50 us"))
    });
}
