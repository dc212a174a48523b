//! The product's argument (Katsikas' thesis, figure 4.2): the same chain in processes, and merged into one function.

use super::results::Line;
use super::{Experiment, Run, Setting, all_policies, scc};

/// Figure 4.2 of the thesis, with the merged chain.
pub const MERGED: Experiment = Experiment {
    name: "merged",
    title: "Routers in processes, and merged into one function",
    shows: "One to ten routers: in a process each on one core, under every policy, and the same chain file with all \
        of them inline, \
            which is one merged function. The ratio for each length.",
    shrunk: "Throughput with all that the generator offers, in the place of the latency that a further router adds \
        at 0.82 Mpps. The \
             merged chain has its generator in the same process and on the same core, which the processes' does \
             not: the ratio is \
             smaller than it would be. Other fabrics between the processes than rings: `thesis-4.2`.",
    published: &[(
        "Katsikas' thesis, fig. 4.2",
        "one to eight routers, 0.82 Mpps, 64 bytes, kernel driver: a further router adds 1,769 us over Open \
            vSwitch, 1,335 us back to \
         back, 28 us in one process (p99 about 1 ms at 8)",
    )],
    axis: "routers",
    plot: "Mpps",
    columns: &["p50 us", "p99 us", "wasted/s", "switches/s"],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[1, 10],
            false => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        };
        let setting = |n: &usize| {
            let mut runs = all_policies();
            runs.push(Run::merged());
            Setting::line(*n as f64, n.to_string(), scc::row(*n), 12_000_000).with(runs)
        };
        lengths.iter().map(setting).collect()
    },
    lines: |r| {
        let line = |at: &&str| {
            let processes = r.runs().into_iter().filter(|run| *run != "merged");
            let best = processes.filter_map(|run| Some((run, r.median(at, run, "Mpps")?)));
            let best = best.max_by(|a, b| a.1.total_cmp(&b.1));
            let got = best
                .zip(r.median(at, "merged", "Mpps"))
                .map(|((who, best), merged)| {
                    let ratio = merged / best.max(1e-9);
                    (
                        format!("{merged:.2} / {best:.3} Mpps ({who}) = {ratio:.1}"),
                        ratio >= 1.0,
                    )
                });
            Line::of(
                format!("{at} routers: merged beside the best process schedule"),
                got,
            )
        };
        r.settings().iter().map(line).collect()
    },
};
