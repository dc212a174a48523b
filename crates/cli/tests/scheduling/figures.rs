//! Figures of policies on three functions, for `make soak-schedule`.

use crate::common::{self, temp};
use crate::{alone, is_root, line};

/// Rounds of figures; seconds of each run.
const ROUNDS: usize = 5;
const SECONDS: &str = "1.5";

/// Three functions of 120, 270 and 550 cycles on one core, more packets than they can take: every policy in turn, five
/// times over; medians, least and most. For `make soak-schedule`.
#[test]
#[ignore = "measures, for a machine at rest"]
fn figures() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-figures");
    let costs = ["--cycles 120", "--cycles 270", "--cycles 550"];
    let sleeping = line(&dir, "sleeping.yaml", &costs, "");
    let polls = costs.map(|c| format!("{c} --idle poll --batch 64"));
    let polling = line(
        &dir,
        "polling.yaml",
        &polls.each_ref().map(String::as_str),
        "",
    );
    let rows = [
        (&sleeping, "kernel"),
        (&sleeping, "normal"),
        (&sleeping, "nfvnice"),
        (&sleeping, "batch"),
        (&sleeping, "nfvnice,class=batch"),
        (&sleeping, "rr"),
        (&sleeping, "nfvnice,class=rr"),
        (&sleeping, "latency"),
        (&polling, "cooperative"),
        (&polling, "unis"),
        (&polling, "latency"),
    ];
    let mut seen: Vec<Vec<[f64; 4]>> = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for ((chain, policy), seen) in rows.iter().zip(&mut seen) {
            let more = [
                "--duration",
                SECONDS,
                "--quiet",
                "--control",
                "off",
                "--poll",
                "busy",
                "--schedule",
                policy,
            ];
            let args = [
                &["run", chain, "--port", "lan=memory:in.pcap,rate=6M"][..],
                &more,
            ]
            .concat();
            let v = common::json(&dir, 0, &args);
            let seconds = v["seconds"].as_f64().unwrap();
            let n = |v: &serde_json::Value| v.as_f64().unwrap_or(0.0) / seconds;
            let functions = v["schedule"]["functions"].as_array().unwrap();
            let switches = ["voluntary_switches", "involuntary_switches"]
                .map(|k| functions.iter().map(|f| n(&f[k])).sum::<f64>());
            seen.push([
                n(&v["packets_out"]) / 1e6,
                n(&v["schedule"]["wasted"]),
                n(&v["schedule"]["shed"]["lan"]),
                switches.iter().sum(),
            ]);
        }
    }
    println!(
        "functions, policy | Mpps out (least to most) | wasted a second | shed a second | switches a second"
    );
    for ((chain, policy), seen) in rows.iter().zip(&seen) {
        let of = |i: usize| {
            let mut all: Vec<f64> = seen.iter().map(|s| s[i]).collect();
            all.sort_by(f64::total_cmp);
            (all[ROUNDS / 2], all[0], all[ROUNDS - 1])
        };
        let (m, least, most) = of(0);
        let (wasted, shed, switches) = (of(1), of(2).0, of(3).0);
        println!(
            "{} {policy} | {m:.2} ({least:.2} to {most:.2}) | {:.0} ({:.0} to {:.0}) | {shed:.0} | {switches:.0}",
            chain.trim_end_matches(".yaml"),
            wasted.0,
            wasted.1,
            wasted.2
        );
    }
}
