//! SCC (Katsikas et al., JSS 127, 2017): routers in processes, back to back; scheduling and batching, each alone and
//! together.

use super::results::Line;
use super::{Experiment, Function, Kind, Load, Run, Setting, Work, others};

fn routers(n: usize) -> Vec<Function> {
    let one = |i: usize| Function {
        name: format!("r{}", i + 1),
        work: Work::Router,
    };
    (0..n).map(one).collect()
}

fn run(label: &str, policy: &str, batch: u16) -> Run {
    Run {
        batch,
        ..Run::sleeping(label, policy, Kind::Apart)
    }
}

/// Figure 10, table 8.
pub const ROUTERS: Experiment = Experiment {
    name: "scc-10",
    title: "Routers in processes on one core: scheduling and batching",
    shows: "One to eight routers on one core, a process each: latency with the kernel's default and one packet at a \
        time; with long \
            slices (SCHED_BATCH, nice -20) alone; with 32 packets at a time alone; with both. Waiting to running \
            time besides.",
    shrunk: "The load is 80% of what the default has at its best at each length, where the paper has 0.82 Mpps \
        always: what a core \
             can do here differs, and latency beyond it is only the length of rings. Slices of 420 and 800 ms are \
             held to 100 ms by \
             this kernel. The fabric is rings in shared memory (back to back); Open vSwitch between the functions is \
             `scc-5` and `scc-9`.",
    published: &[
        (
            "SCC, fig. 10 (back to back)",
            "default 1,335n+426 us; batch 800 ms 1,268n+75; with B = 2 1,189n and a larger intercept; B = 16, 32: \
                half of the slope. \
             At 8 functions with B = 32 latency is 4 times lower; scheduling alone up to 2 times",
        ),
        (
            "SCC, table 8",
            "contention/run back to back: default 0/1.39/3.11/4.17, batch 0/2.83/2.92/2.82, batch and B = 32 \
             0/2.82/2.91/2.98",
        ),
    ],
    axis: "routers",
    plot: "p50 us",
    columns: &[
        "Mpps",
        "p25 us",
        "p75 us",
        "spread us",
        "p99 us",
        "wait/run",
        "switches/s",
    ],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[8],
            false => &[1, 2, 4, 6, 8],
        };
        let setting = |n: &usize| {
            let mut s = Setting::line(*n as f64, n.to_string(), routers(*n), 4_000_000);
            for c in &mut s.chains {
                c.load = Load::Share(0.8);
            }
            let mut runs = vec![
                run("default, B = 1", "normal", 1),
                run("scheduling alone", "scc,nice=-20", 1),
                run("batching alone", "normal", 32),
                run("both", "scc,nice=-20", 32),
            ];
            runs.extend(others());
            s.with(runs)
        };
        lengths.iter().map(setting).collect()
    },
    lines: |r| {
        let mut lines = Vec::new();
        for (figure, what) in [("p50 us", "median latency"), ("spread us", "25-75 spread")] {
            let of = |run: &str| r.get("8", run, figure);
            let got = of("default, B = 1").zip(of("both"));
            let got = got.map(|(a, b)| {
                (
                    format!("{:.0} -> {:.0} us", a.median, b.median),
                    b.median * 2.0 <= a.median,
                )
            });
            lines.push(Line::of(
                format!("8 routers: scheduling and batching together at least halve {what}"),
                got,
            ));
            for run in ["scheduling alone", "batching alone"] {
                let got = of("default, B = 1").zip(of(run)).map(|(a, b)| {
                    let change = |x: f64, y: f64| (x / y.max(1e-9) - 1.0) * 100.0;
                    let text = format!(
                        "{:+.0}% ({:+.0} to {:+.0})",
                        change(b.median, a.median),
                        change(b.min, a.max),
                        change(b.max, a.min)
                    );
                    (text, true)
                });
                lines.push(Line::of(
                    format!("8 routers, {run}: {what}'s change is told"),
                    got,
                ));
            }
        }
        lines
    },
};

/// Routers in a row, for others.
pub(super) fn row(n: usize) -> Vec<Function> {
    routers(n)
}
