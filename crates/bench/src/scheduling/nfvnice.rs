//! NFVnice (Kulkarni et al., SIGCOMM 2017): chains on shared cores, wasted work, backpressure.

use super::results::{Line, Results};
use super::{Chain, Experiment, Function, Kind, Run, Setting, kernels, nfvnice, others};

/// Costs are ten times the paper's, and loads a tenth: what has to be done is the same part of a core's time.
pub(super) const TIMES: u64 = 10;
/// The paper's line rate of 64-byte packets at 10 Gb/s, by [`TIMES`].
pub(super) const FULL: u64 = 14_880_000 / TIMES;
/// Cycles of the paper's light, medium and heavy function, by [`TIMES`].
pub(super) const LIGHT: u64 = 120 * TIMES;
pub(super) const MEDIUM: u64 = 270 * TIMES;
pub(super) const HEAVY: u64 = 550 * TIMES;

/// What had to shrink in all of them.
pub(super) const SHRUNK: &str = "Costs are ten times the paper's and loads a tenth, so that one core (the \
    generator's, the \
launcher's \
    and the policy's) can offer more than the other one (the functions') can do: the ratio of load to capacity, \
    which decides \
    who falls behind and where packets are dropped, is the paper's. Rings have 1,024 places. The kernel's round \
    robin has \
    4 ms where the paper's had 1 ms: its slices are whole ticks here.";

const TESTBED: &str = "2.6 GHz, 64-byte packets at 10 Gb/s, DPDK";

pub(super) fn three(order: [u64; 3]) -> Vec<Function> {
    let name = |c: u64| match c {
        LIGHT => "light",
        MEDIUM => "medium",
        _ => "heavy",
    };
    order
        .iter()
        .map(|c| Function::burn(name(*c), &[*c]))
        .collect()
}

/// The kernel's classes, and NFVnice above each of them.
fn pairs() -> Vec<Run> {
    let mut all = kernels();
    all.extend([
        nfvnice("nfvnice", "", Kind::Intrusive),
        nfvnice("nfvnice, batch", ",class=batch", Kind::Apart),
        nfvnice("nfvnice, rr", ",class=rr", Kind::Apart),
    ]);
    all
}

/// Figure 7, tables 3 and 4.
pub const LINE: Experiment = Experiment {
    name: "nfvnice-7",
    title: "Wasted work: light, medium and heavy function on one core",
    shows: "Three functions of 120, 270 and 550 cycles in a row on one core, with all the packets that come: the \
        kernel gives \
            each its turn, and the heavy one drops what the light one has worked on; NFVnice drops it where it enters.",
    shrunk: SHRUNK,
    published: &[
        (
            "NFVnice, fig. 7 and table 3",
            "up to 2x throughput. Packets dropped a second behind the first and the second function, default -> \
                NFVnice: normal \
             3.58M -> 11.2K, 2.02M -> 12.3K; batch 2M -> 0, 0.9M -> 11.5K; RR 1 ms 0.86M -> 0, 2.92M -> 12K; RR 100 ms \
             0.53M -> 0, 0.03M -> 12K; in total by 238, 252 and 47 times less (normal, batch, RR 100 ms)",
        ),
        (
            "NFVnice, table 4",
            "run time of each function in ms: normal 658/602/624 -> 129/849/1,014; batch 313/837/826 -> 144/803/1,048",
        ),
        ("setting", TESTBED),
    ],
    axis: "order",
    plot: "Mpps",
    columns: &[
        "wasted/s",
        "shed/s",
        "cpu light",
        "cpu medium",
        "cpu heavy",
        "p50 us",
        "p99 us",
        "switches/s",
    ],
    settings: |_| {
        let mut runs = pairs();
        runs.extend(others());
        vec![
            Setting::line(
                0.0,
                "light-medium-heavy",
                three([LIGHT, MEDIUM, HEAVY]),
                FULL,
            )
            .with(runs),
        ]
    },
    lines: |r| {
        let at = "light-medium-heavy";
        let mut lines = Vec::new();
        for (default, with, least) in [
            ("normal", "nfvnice", 100.0),
            ("batch", "nfvnice, batch", 100.0),
            ("rr 100 ms", "nfvnice, rr", 10.0),
        ] {
            let both = r
                .median(at, default, "wasted/s")
                .zip(r.median(at, with, "wasted/s"));
            let got = both.map(|(a, b)| {
                let factor = a / b.max(1.0);
                (
                    format!("{a:.0} -> {b:.0} a second: {factor:.0} times less"),
                    factor >= least,
                )
            });
            lines.push(Line::of(
                format!("wasted work {least:.0} times less than under {default}"),
                got,
            ));
            lines.push(rate_kept(r, at, default, with));
        }
        lines
    },
};

/// Throughput at least another one's, within noise.
pub(super) fn rate_kept(r: &Results, at: &str, default: &str, with: &str) -> Line {
    let both = r
        .median(at, default, "Mpps")
        .zip(r.median(at, with, "Mpps"));
    let got = both.map(|(a, b)| {
        (
            format!("{a:.3} -> {b:.3} Mpps"),
            b >= a * (1.0 - super::own::NOISE),
        )
    });
    Line::of(
        format!("{at}: throughput at least that of {default}, within noise"),
        got,
    )
}

/// Table 5: a core each.
pub const CORES: Experiment = Experiment {
    name: "nfvnice-t5",
    title: "A bottleneck at the end of a chain, a core for each function",
    shows: "Functions of 550, 2,200 and 4,500 cycles with a core each: without backpressure the first ones spend \
        whole cores on \
            packets that the last one drops.",
    shrunk: "Costs are ten times the paper's and loads a tenth. One core is there for three: the first function has \
        it, the \
             others sleep for as long as they would compute. What they would burn is not seen; that they are \
             slower, and \
             what that makes of the first one, is.",
    published: &[(
        "NFVnice, table 5",
        "0.6 Mpps both; CPU 100/100/100% -> 11/64/100%; rate of the first function 5.95 -> 0.82 Mpps; dropped \
            behind it 4.76M -> \
         150K, behind the second 0.58M -> 70K a second",
    )],
    axis: "chain",
    plot: "Mpps",
    columns: &["cpu first", "Mpps at first", "wasted/s", "shed/s", "p50 us"],
    settings: |_| {
        let functions = vec![
            Function::burn("first", &[550 * TIMES]),
            Function::asleep("second", 2_200 * TIMES),
            Function::asleep("third", 4_500 * TIMES),
        ];
        let runs = vec![
            Run::sleeping("normal", "normal", Kind::NonIntrusive),
            nfvnice("nfvnice", "", Kind::Intrusive),
        ];
        vec![Setting::line(0.0, "550-2200-4500", functions, FULL).with(runs)]
    },
    lines: |r| {
        let at = "550-2200-4500";
        let both = |f: &str| r.median(at, "normal", f).zip(r.median(at, "nfvnice", f));
        let cpu = both("cpu first").map(|(a, b)| (format!("{a:.0}% -> {b:.0}%"), b * 3.0 <= a));
        let wasted =
            both("wasted/s").map(|(a, b)| (format!("{a:.0} -> {b:.0} a second"), b * 10.0 <= a));
        vec![
            rate_kept(r, at, "normal", "nfvnice"),
            Line::of(
                "the first function's core is at most a third as busy (paper: a ninth)",
                cpu,
            ),
            Line::of("wasted work 10 times less (paper: 24 times)", wasted),
        ]
    },
};

/// Figures 8 and 9, table 6.
pub const SHARED: Experiment = Experiment {
    name: "nfvnice-9",
    title: "Two chains share their first and last function; one has a bottleneck",
    shows: "Chain 1: 270-120-300 cycles, chain 2: 270-4,500-300, the first and the last function shared: packets of \
        chain 2 that \
            will be dropped at its bottleneck take the first function from chain 1.",
    shrunk: "Costs are ten times the paper's and loads a tenth. The first function has the core; the others sleep \
        for as long \
             as they would compute on cores of their own. The paper's effect is in the first function alone.",
    published: &[(
        "NFVnice, fig. 9 and table 6",
        "chain 1 3.26 -> 6.50 Mpps, chain 2 0.582 Mpps both; dropped at the first function 2.86M -> 0.58M, at the \
            bottleneck \
         2.68M -> less than 100 a second",
    )],
    axis: "chains",
    plot: "Mpps",
    columns: &[
        "Mpps one",
        "Mpps two",
        "wasted/s",
        "shed/s one",
        "shed/s two",
    ],
    settings: |_| {
        let functions = vec![
            Function::burn("first", &[270 * TIMES]),
            Function::asleep("quick", 120 * TIMES),
            Function::asleep("slow", 4_500 * TIMES),
            Function::asleep("last", 300 * TIMES),
        ];
        let chains = vec![
            Chain::new("one", [0, 1, 3], FULL / 2),
            Chain::new("two", [0, 2, 3], FULL / 2),
        ];
        let runs = vec![
            Run::sleeping("normal", "normal", Kind::NonIntrusive),
            nfvnice("nfvnice", "", Kind::Intrusive),
        ];
        vec![
            Setting {
                chains,
                ..Setting::line(0.0, "shared", functions, 0)
            }
            .with(runs),
        ]
    },
    lines: |r| {
        let both = |f: &str| {
            r.median("shared", "normal", f)
                .zip(r.median("shared", "nfvnice", f))
        };
        let one = both("Mpps one").map(|(a, b)| (format!("{a:.3} -> {b:.3} Mpps"), b >= a * 1.2));
        let two = both("Mpps two").map(|(a, b)| (format!("{a:.4} -> {b:.4} Mpps"), b >= a * 0.9));
        vec![
            Line::of(
                "chain 1 has a fifth more at least (paper: twice as much)",
                one,
            ),
            Line::of("chain 2 keeps 90% of what it had", two),
        ]
    },
};

/// Figure 5: which chains are throttled.
pub const THROTTLE: Experiment = Experiment {
    name: "nfvnice-5",
    title: "Chains through a bottleneck are throttled, others are not",
    shows: "Four chains share functions: A, C and D pass a slow one, B passes the same first function and not the \
        slow one. What \
            is shed at the entry is of A, C and D alone.",
    shrunk: "Costs are ten times the paper's. The slow function sleeps for as long as it would compute on a core of \
        its own; the \
             chains are after figure 5, whose costs and loads the paper does not give.",
    published: &[(
        "NFVnice, fig. 5",
        "functions 3 and 5 overloaded: chains A, C and D are throttled, B is not",
    )],
    axis: "chains",
    plot: "Mpps",
    columns: &[
        "Mpps A", "Mpps B", "Mpps C", "Mpps D", "shed/s A", "shed/s B", "shed/s C", "shed/s D",
        "wasted/s",
    ],
    settings: |_| {
        let functions = vec![
            Function::burn("first", &[LIGHT]),
            Function::burn("second", &[LIGHT]),
            Function::asleep("slow", 40 * HEAVY),
            Function::burn("other", &[LIGHT]),
        ];
        let chains = vec![
            Chain::new("A", [0, 2], 60_000),
            Chain::new("B", [0, 3], 100_000),
            Chain::new("C", [1, 2], 60_000),
            Chain::new("D", [2], 60_000),
        ];
        let runs = vec![
            Run::sleeping("normal", "normal", Kind::NonIntrusive),
            nfvnice("nfvnice", "", Kind::Intrusive),
            Run::sleeping("latency", "latency", Kind::Own),
        ];
        vec![
            Setting {
                chains,
                ..Setting::line(0.0, "four chains", functions, 0)
            }
            .with(runs),
        ]
    },
    lines: |r| {
        let shed = |c: &str| r.median("four chains", "nfvnice", &format!("shed/s {c}"));
        let all: Option<Vec<f64>> = ["A", "B", "C", "D"].iter().map(|c| shed(c)).collect();
        let got = all.map(|s| {
            let held = s.iter().enumerate().all(|(i, n)| (i == 1) == (*n < 1.0));
            (
                format!(
                    "shed a second: A {:.0}, B {:.0}, C {:.0}, D {:.0}",
                    s[0], s[1], s[2], s[3]
                ),
                held,
            )
        });
        vec![Line::of("A, C and D are throttled, B is not", got)]
    },
};

/// Figure 10.
pub const VARIABLE: Experiment = Experiment {
    name: "nfvnice-10",
    title: "Costs that differ from packet to packet",
    shows: "Each packet costs 120, 270 or 550 cycles at each of three functions on one core, by chance: what shares \
        by measured \
            costs do, what backpressure does, and both.",
    shrunk: SHRUNK,
    published: &[(
        "NFVnice, fig. 10",
        "backpressure alone is best; shares alone are misled; NFVnice is above all defaults",
    )],
    axis: "part",
    plot: "Mpps",
    columns: &["wasted/s", "shed/s", "p50 us", "p99 us"],
    settings: |_| {
        let one = |n: &str| Function::burn(n, &[LIGHT, MEDIUM, HEAVY]);
        let mut runs = kernels();
        runs.extend([
            nfvnice(
                "shares alone",
                ",backpressure=off,blocking=off",
                Kind::Apart,
            ),
            nfvnice("backpressure alone", ",shares=off", Kind::Apart),
            nfvnice("nfvnice", "", Kind::Intrusive),
        ]);
        runs.extend(others());
        vec![Setting::line(0.0, "variable", vec![one("f0"), one("f1"), one("f2")], FULL).with(runs)]
    },
    lines: |r| {
        let defaults = ["normal", "batch", "rr 4 ms", "rr 100 ms"];
        let best = defaults
            .iter()
            .filter_map(|d| r.median("variable", d, "Mpps"))
            .reduce(f64::max);
        let both = best.zip(r.median("variable", "nfvnice", "Mpps"));
        let got = both.map(|(a, b)| {
            (
                format!("best default {a:.3}, NFVnice {b:.3} Mpps"),
                b >= a * 0.97,
            )
        });
        vec![Line::of(
            "throughput at least every default's, within noise",
            got,
        )]
    },
};

/// Orders of figure 11.
const ORDERS_OF: [(&str, [u64; 3]); 6] = [
    ("L-M-H", [LIGHT, MEDIUM, HEAVY]),
    ("L-H-M", [LIGHT, HEAVY, MEDIUM]),
    ("M-L-H", [MEDIUM, LIGHT, HEAVY]),
    ("M-H-L", [MEDIUM, HEAVY, LIGHT]),
    ("H-L-M", [HEAVY, LIGHT, MEDIUM]),
    ("H-M-L", [HEAVY, MEDIUM, LIGHT]),
];

/// Figure 11.
pub const ORDERS: Experiment = Experiment {
    name: "nfvnice-11",
    title: "Six orders of a light, a medium and a heavy function",
    shows: "The three functions of figure 7 in all orders, on one core.",
    shrunk: SHRUNK,
    published: &[(
        "NFVnice, fig. 11",
        "better than the defaults in almost every case; RR 100 ms alone has less than 40 Kpps for H-M-L and M-H-L, \
            and equals \
         NFVnice for L-M-H",
    )],
    axis: "order",
    plot: "Mpps",
    columns: &["wasted/s", "p99 us"],
    settings: |quick| {
        let all = ORDERS_OF.iter().enumerate();
        let all = all.map(|(i, (name, order))| {
            let mut runs = match quick {
                true => vec![
                    Run::sleeping("normal", "normal", Kind::NonIntrusive),
                    Run::sleeping("batch", "batch", Kind::NonIntrusive),
                    nfvnice("nfvnice", "", Kind::Intrusive),
                    nfvnice("nfvnice, batch", ",class=batch", Kind::Apart),
                ],
                false => pairs(),
            };
            runs.extend(others());
            Setting::line(i as f64, *name, three(*order), FULL).with(runs)
        });
        all.collect()
    },
    lines: |r| {
        let mut lines = Vec::new();
        for (default, with) in [
            ("normal", "nfvnice"),
            ("batch", "nfvnice, batch"),
            ("rr 100 ms", "nfvnice, rr"),
        ] {
            let both = |o: &str| r.median(o, default, "Mpps").zip(r.median(o, with, "Mpps"));
            let all: Vec<(&str, f64)> = (ORDERS_OF.iter())
                .filter_map(|(o, _)| both(o).map(|(a, b)| (*o, b / a.max(1e-9))))
                .collect();
            if all.is_empty() {
                continue;
            }
            let kept = all
                .iter()
                .filter(|a| a.1 >= 1.0 - super::own::NOISE)
                .count();
            let better = all.iter().filter(|a| a.1 > 1.0).count();
            let told: Vec<String> = all.iter().map(|(o, x)| format!("{o} {x:.2}")).collect();
            let held = kept == 6 && better >= 5;
            lines.push(Line::of(
                format!("throughput at least that of {default} in all six orders, better in five"),
                Some((format!("{} times as much", told.join(", ")), held)),
            ));
        }
        lines
    },
};

/// Functions that flows pass, of six: other ones each, in one direction.
const WAYS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 4],
    [1, 3, 5],
    [0, 3, 5],
    [2, 4, 5],
    [1, 2, 4],
];

/// Figure 12.
pub const FLOWS: Experiment = Experiment {
    name: "nfvnice-12",
    title: "One to six flows, each through three functions of its own",
    shows: "Equal functions on one core; each flow passes three of them, other ones than the flows before it: with the \
            defaults functions drop packets that others have worked on.",
    shrunk: "Costs are ten times the paper's and loads a tenth. In the paper each flow passes the same three \
        functions in \
             an order of its own, which makes circles of functions; chain files have none, so that flows pass three \
             of up to \
             six functions, in one direction. That several flows drop each other's packets at functions that they \
             share, \
             which is what the figure is about, is the same.",
    published: &[(
        "NFVnice, fig. 12",
        "defaults fall from two flows on; NFVnice is flat",
    )],
    axis: "flows",
    plot: "Mpps",
    columns: &["wasted/s", "shed/s", "Jain"],
    settings: |quick| {
        let counts: &[usize] = match quick {
            true => &[1, 2, 6],
            false => &[1, 2, 3, 4, 5, 6],
        };
        let setting = |n: &usize| {
            let ways = WAYS.iter().take(*n);
            let mut used: Vec<usize> = ways.clone().flatten().copied().collect();
            used.sort_unstable();
            used.dedup();
            let place = |f: &usize| used.iter().position(|u| u == f);
            let chains = ways.enumerate().map(|(i, way)| {
                let via = way.iter().filter_map(place);
                Chain::new(format!("c{i}"), via, FULL / *n as u64)
            });
            let chains = chains.collect();
            let functions = used
                .iter()
                .map(|f| Function::burn(format!("f{f}"), &[MEDIUM]));
            let functions = functions.collect();
            // UNiS knows functions of one chain only
            let mut runs = kernels();
            runs.push(nfvnice("nfvnice", "", Kind::Intrusive));
            runs.push(Run::polling("latency", "latency", Kind::Own));
            Setting {
                chains,
                ..Setting::line(*n as f64, n.to_string(), functions, 0)
            }
            .with(runs)
        };
        counts.iter().map(setting).collect()
    },
    lines: |r| {
        let both = r
            .median("1", "nfvnice", "Mpps")
            .zip(r.median("6", "nfvnice", "Mpps"));
        let got = both.map(|(a, b)| {
            (
                format!("{a:.3} with one flow, {b:.3} Mpps with six"),
                b >= a * 0.85,
            )
        });
        vec![
            Line::of(
                "NFVnice with six flows has 85% of what it has with one (paper: flat)",
                got,
            ),
            rate_kept(r, "6", "normal", "nfvnice"),
        ]
    },
};
