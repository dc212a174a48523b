//! NFVnice (Kulkarni et al., SIGCOMM 2017): functions that share a core and no chain; who gets how much of it.

use super::nfvnice::TIMES;
use super::results::{Line, Results};
use super::{Chain, Experiment, Function, Kind, Run, Setting, Step, kernels, nfvnice};

const SHRUNK: &str = "Costs are ten times the paper's and loads a tenth: what has to be done is the same part of a \
core's time.";

/// A function for each chain, all on one core.
fn apart(x: f64, label: &str, functions: &[(&str, u64, u64)]) -> Setting {
    let chains = functions.iter().enumerate();
    let chains = chains.map(|(i, (name, _, pps))| Chain::new(*name, [i], *pps));
    let chains = chains.collect();
    let all = functions
        .iter()
        .map(|(name, cycles, _)| Function::burn(format!("f-{name}"), &[*cycles]));
    Setting {
        chains,
        ..Setting::line(x, label, all.collect(), 0)
    }
}

/// Figure 1, tables 1 and 2.
pub const KERNEL: Experiment = Experiment {
    name: "nfvnice-1",
    title: "Three functions on one core under the kernel's classes",
    shows: "Three functions with a chain each: of equal cost or 500, 250 and 50 cycles, with the same load or twice \
        as much for \
            the first two; what the kernel's classes give to each. NFVnice's shares beside them.",
    shrunk: SHRUNK,
    published: &[
        (
            "NFVnice, fig. 1",
            "normal and batch split the core equally; RR follows arrivals; with unequal costs normal favours the \
                light function \
             and RR starves it",
        ),
        (
            "NFVnice, tables 1 and 2: switches a second (voluntary/not)",
            "unequal costs, even load: normal 0/33,785, 0/32,214, 65,796/107; batch about 505 each, the third \
                1,010/8; RR about \
             200. Equal costs, uneven load: normal 0/3,544, 0/6,205, 9,753/9; batch 0/527, 0/479, 1,007/0; RR about \
             247/4",
        ),
    ],
    axis: "costs, loads",
    plot: "Mpps",
    columns: &[
        "Mpps 1",
        "Mpps 2",
        "Mpps 3",
        "share f-1",
        "share f-2",
        "share f-3",
        "voluntary/s",
        "involuntary/s",
    ],
    settings: |_| {
        let (even, uneven) = ([500_000, 500_000, 500_000], [600_000, 600_000, 300_000]);
        let (equal, unequal) = ([250, 250, 250], [500, 250, 50]);
        let all = [
            ("equal, even", equal, even),
            ("equal, uneven", equal, uneven),
            ("unequal, even", unequal, even),
            ("unequal, uneven", unequal, uneven),
        ];
        let setting = |(i, (label, costs, loads)): (usize, (&str, [u64; 3], [u64; 3]))| {
            let f = |n: usize| (["1", "2", "3"][n], costs[n] * TIMES, loads[n]);
            let mut runs = kernels();
            runs.push(nfvnice("nfvnice", "", Kind::Intrusive));
            apart(i as f64, label, &[f(0), f(1), f(2)]).with(runs)
        };
        all.into_iter().enumerate().map(setting).collect()
    },
    lines: |r| {
        let third = |run: &'static str| {
            let all =
                ["share f-1", "share f-2", "share f-3"].map(|f| r.median("equal, even", run, f));
            let [Some(a), Some(b), Some(c)] = all else {
                return None;
            };
            let held = [a, b, c].iter().all(|s| (s - 33.3).abs() < 8.0);
            Some((format!("{a:.0}, {b:.0}, {c:.0}%"), held))
        };
        let light = |run: &str| {
            r.median("unequal, even", run, "Mpps 3")
                .zip(r.median("unequal, even", run, "Mpps 1"))
        };
        let favours =
            light("normal").map(|(l, h)| (format!("light {l:.3}, heavy {h:.3} Mpps"), l > 1.5 * h));
        vec![
            Line::of(
                "normal splits the core equally among equal functions",
                third("normal"),
            ),
            Line::of("batch does, too", third("batch")),
            Line::of(
                "with unequal costs normal favours the light function",
                favours,
            ),
        ]
    },
};

/// Figure 15a.
pub const STEP: Experiment = Experiment {
    name: "nfvnice-15a",
    title: "A function's cost grows threefold, and falls again",
    shows: "Two functions, costs 1:3, equal loads: while the first one costs three times as much, the core's shares \
        are to go from \
            1:3 to 1:1 and back.",
    shrunk: "Seconds instead of a minute, with the steps at a third and two thirds; shares follow every 10 ms, so \
        that a minute \
             shows no more. Costs are ten times 250 and 750 cycles; the paper does not give them.",
    published: &[(
        "NFVnice, fig. 15a",
        "CPU 1:3 -> 1:1 (31 to 60 s) -> 1:3; the kernel's normal class has 1:1 throughout",
    )],
    axis: "costs",
    plot: "follows ms",
    columns: &["share f-1", "share f-2", "Mpps 1", "Mpps 2"],
    settings: |_| {
        let steps = vec![
            Step {
                at: 1.0 / 3.0,
                function: 0,
                cycles: 750 * TIMES,
                share: 0.5,
            },
            Step {
                at: 2.0 / 3.0,
                function: 0,
                cycles: 250 * TIMES,
                share: 0.25,
            },
        ];
        let two = apart(
            0.0,
            "1:3",
            &[("1", 250 * TIMES, 500_000), ("2", 750 * TIMES, 500_000)],
        );
        let runs = vec![
            Run::sleeping("normal", "normal", Kind::Apart),
            nfvnice("nfvnice", "", Kind::Apart),
        ];
        vec![
            Setting {
                steps,
                longer: 3.0,
                ..two
            }
            .with(runs),
        ]
    },
    lines: |r| {
        let got = r.get("1:3", "nfvnice", "follows ms");
        let got = got.map(|s| {
            (
                format!("{:.0} ms ({:.0} to {:.0})", s.median, s.min, s.max),
                s.median <= 200.0,
            )
        });
        vec![Line::of("CPU shares follow a cost step within 200 ms", got)]
    },
};

/// Figures 15b and 15c.
pub const JAIN: Experiment = Experiment {
    name: "nfvnice-15b",
    title: "Fairness between one and six functions of costs 1:2:5:20:40:60",
    shows: "Functions with a chain each and equal loads on one core: shares by load give each chain the same rate.",
    shrunk: "The cheapest function costs 600 cycles; loads are 120,000 packets a second each, more than any mix of \
        functions can do.",
    published: &[(
        "NFVnice, figs 15b and c",
        "Jain's index of six 0.62 -> 1.0; flows 1 and 6 have 1.02 and 0.07 Mpps by default; CPU 16.6% each -> 1% to \
            46%",
    )],
    axis: "functions",
    plot: "Jain",
    columns: &["Mpps", "Mpps 1", "Mpps 6", "share f-1", "share f-6"],
    settings: |quick| {
        let counts: &[usize] = match quick {
            true => &[1, 3, 6],
            false => &[1, 2, 3, 4, 5, 6],
        };
        let all = [
            ("1", 1),
            ("2", 2),
            ("3", 5),
            ("4", 20),
            ("5", 40),
            ("6", 60),
        ];
        let setting = |n: &usize| {
            let functions = all
                .iter()
                .take(*n)
                .map(|(name, c)| (*name, c * 600, 120_000));
            let functions: Vec<(&str, u64, u64)> = functions.collect();
            let runs = vec![
                Run::sleeping("normal", "normal", Kind::Apart),
                Run::sleeping("batch", "batch", Kind::Apart),
                nfvnice("nfvnice", "", Kind::Apart),
            ];
            Setting {
                longer: 1.5,
                ..apart(*n as f64, &n.to_string(), &functions)
            }
            .with(runs)
        };
        counts.iter().map(setting).collect()
    },
    lines: jain,
};

fn jain(r: &Results) -> Vec<Line> {
    let both = r
        .median("6", "normal", "Jain")
        .zip(r.median("6", "nfvnice", "Jain"));
    let got = both.map(|(a, b)| (format!("default {a:.3}, NFVnice {b:.3}"), b >= 0.99));
    vec![Line::of(
        "Jain's index of six flows at least 0.99 (default in the paper 0.62)",
        got,
    )]
}
