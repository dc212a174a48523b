//! Niu et al., Benchmarking NFV software dataplanes (2016): forwarding and firewall chains, and chains side by side.

use super::results::{Line, Results};
use super::{Chain, Experiment, Function, Run, Setting, Work, all_policies};

const L2FWD: &str = "FromDevice(0) -> EtherMirror -> ToDevice(1);";
const L3FWD: &str = include_str!("../../../../chains/l3fwd/l3fwd.click");
const FIREWALL: &str = include_str!("../../../../chains/fw10/fw10.click");

const SHRUNK: &str = "Functions are processes on one core in the place of virtual machines with one each, and what \
the paper shows by \
    clock frequencies (1.2 to 2.6 GHz) is not varied here: `bench --experiment nf-cpu-share` varies the share of a \
    core. 64-byte packets.";

fn function(name: String, click: &'static str) -> Function {
    Function {
        name,
        work: Work::Click(click),
    }
}

/// Functions in a row: names and configurations.
type Row = &'static [(&'static str, &'static str)];

/// Chains.
pub const CHAINS: Experiment = Experiment {
    name: "niu-chains",
    title: "Forwarding and firewall chains in processes",
    shows: "L3 forwarding; firewall and L3 forwarding; firewall, L3 and L2 forwarding, in processes on one core \
        under every policy, and \
            merged.",
    shrunk: SHRUNK,
    published: &[(
        "Niu et al., table 1 (Mpps at 64 bytes: SoftNIC L3/firewall, ClickOS L3/firewall)",
        "1.2 GHz: 4.31/4.45, 2.10/1.98; 1.6: 5.73/5.92, 2.82/2.75; 2.0: 7.19/7.38, 3.44/3.27; 2.4: 8.60/8.87, \
            4.26/4.24; 2.6: \
         9.34/9.59, 5.34/5.03",
    )],
    axis: "chain",
    plot: "Mpps",
    columns: &["p50 us", "p99 us", "wasted/s", "switches/s"],
    settings: |_| {
        let all: [(&str, Row); 3] = [
            ("l3fwd", &[("l3fwd", L3FWD)]),
            ("fw-l3fwd", &[("fw", FIREWALL), ("l3fwd", L3FWD)]),
            (
                "fw-l3fwd-l2fwd",
                &[("fw", FIREWALL), ("l3fwd", L3FWD), ("l2fwd", L2FWD)],
            ),
        ];
        let setting = |(i, (label, row)): (usize, (&str, Row))| {
            let functions = row
                .iter()
                .map(|(n, c)| function(n.to_string(), c))
                .collect();
            let mut runs = all_policies();
            runs.push(Run::merged());
            Setting::line(i as f64, label, functions, 12_000_000).with(runs)
        };
        all.into_iter().enumerate().map(setting).collect()
    },
    lines: |r| r.settings().iter().map(|at| merged(r, at)).collect(),
};

fn merged(r: &Results, at: &str) -> Line {
    let runs = r.runs().into_iter().filter(|run| *run != "merged");
    let best = runs
        .filter_map(|run| r.median(at, run, "Mpps"))
        .reduce(f64::max);
    let got = best.zip(r.median(at, "merged", "Mpps"));
    let got = got.map(|(b, m)| {
        (
            format!("{m:.2} / {b:.2} Mpps = {:.1}", m / b.max(1e-9)),
            m >= b,
        )
    });
    Line::of(
        format!("{at}: merged at least as fast as the best process schedule"),
        got,
    )
}

/// Side by side.
pub const COLOCATED: Experiment = Experiment {
    name: "niu-colocated",
    title: "One to three firewalls side by side on one core",
    shows: "Instances with a generator each on one core: what they have in all, and how evenly.",
    shrunk: SHRUNK,
    published: &[(
        "Niu et al.",
        "one to three instances, each with its generator and its core: linear",
    )],
    axis: "instances",
    plot: "Mpps",
    columns: &["Jain", "p50 us", "p99 us", "switches/s"],
    settings: |_| {
        let setting = |n: usize| {
            let functions = (1..=n)
                .map(|i| function(format!("fw{i}"), FIREWALL))
                .collect();
            let chains = (0..n).map(|i| Chain::new(format!("c{i}"), [i], 6_000_000 / n as u64));
            let chains = chains.collect();
            Setting {
                chains,
                ..Setting::line(n as f64, n.to_string(), functions, 0)
            }
            .with(all_policies())
        };
        [1, 2, 3].map(setting).to_vec()
    },
    lines: |r| {
        let both = r
            .median("1", "latency", "Mpps")
            .zip(r.median("3", "latency", "Mpps"));
        let got = both.map(|(a, b)| (format!("one {a:.2}, three {b:.2} Mpps"), b >= 0.9 * a));
        vec![Line::of(
            "own policy: three instances on a core have 90% of what one has",
            got,
        )]
    },
};
