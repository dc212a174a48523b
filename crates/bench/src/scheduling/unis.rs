//! UNiS (TNSM): functions that poll take turns by the occupancy of their rings; beside functions that yield.

use super::results::{Line, Results};
use super::{Chain, Experiment, Function, Kind, Load, Run, Setting, Work, others};

/// A MAC swap and the paper's light, medium and heavy cost, in cycles.
const LIGHT: u64 = 50;
const MEDIUM: u64 = 150;
const HEAVY: u64 = 250;
/// More than one core can do.
const FULL: u64 = 6_000_000;

const SHRUNK: &str = "Rings have 1,024 places (paper: 2,048), so that slices are half as long. Policy, launcher and \
generator share \
    the other core, as the issue asks; the policy's thread comes first there. 64-byte packets from memory: the \
    generator's highest \
    rate bounds short chains for all policies alike.";

fn row(costs: &[u64]) -> Vec<Function> {
    let all = costs.iter().enumerate();
    all.map(|(i, c)| Function::burn(format!("f{i}"), &[*c]))
        .collect()
}

fn beside(at: &str, r: &Results, figure: &str) -> Option<(f64, f64)> {
    r.median(at, "cooperative", figure)
        .zip(r.median(at, "unis", figure))
}

/// Within so many per cent of cooperative, in all settings whose names begin so.
fn within(r: &Results, group: &str, percent: f64) -> Line {
    let all: Vec<(String, f64)> = (r.settings().iter())
        .filter(|s| s.starts_with(group))
        .filter_map(|s| {
            beside(s, r, "Mpps").map(|(a, b)| (s.to_string(), (b / a.max(1e-9) - 1.0) * 100.0))
        })
        .collect();
    let told: Vec<String> = all.iter().map(|(s, d)| format!("{s}: {d:+.1}%")).collect();
    let held = all.iter().all(|a| a.1 >= -percent);
    let got = (!all.is_empty()).then(|| (told.join(", "), held));
    Line::of(
        format!("{group}: UNiS within {percent:.0}% of cooperative"),
        got,
    )
}

/// Figure 1.
pub const SLICES: Experiment = Experiment {
    name: "unis-1",
    title: "Polling functions under the kernel's slices",
    shows: "Two polling functions on one core under the kernel's fair class, its slice from the default down to 0.1 \
        ms, and round \
            robin: while one polls in vain, the other one's packets wait.",
    shrunk: "The paper's third function has a core of its own; here it sleeps for as long as it would compute. \
        Slices shorter than \
             a tick (4 ms) are accepted by this kernel and do not take effect, as SEEDS' figures say; 0.1 ms is \
             shown all the same.",
    published: &[(
        "UNiS, fig. 1",
        "three MAC swaps, the first two on one core, slices of 12 to 0.1 ms, RR below 1 ms: default at 64 bytes \
            about 1% of the rate \
         with own cores, MTU below 30%; shorter slices are better, far from line rate",
    )],
    axis: "functions",
    plot: "Mpps",
    columns: &["p50 us", "wasted/s", "switches/s"],
    settings: |_| {
        let kernel = |label: &str, policy: &str| Run::polling(label, policy, Kind::NonIntrusive);
        let mut runs = vec![
            kernel("normal", "normal"),
            kernel("normal 12 ms", "normal,slice=12ms"),
            kernel("normal 3 ms", "normal,slice=3ms"),
            kernel("normal 0.1 ms", "normal,slice=100us"),
            kernel("rr 4 ms", "rr,quantum=4ms"),
        ];
        runs.extend(others());
        let mut three = row(&[LIGHT, LIGHT]);
        three.push(Function::asleep("f2", LIGHT));
        vec![Setting::line(0.0, "two on one core", three, FULL).with(runs)]
    },
    lines: |r| {
        let at = "two on one core";
        let both = r
            .median(at, "normal", "Mpps")
            .zip(r.median(at, "unis", "Mpps"));
        let got = both.map(|(a, b)| (format!("{a:.3} and {b:.3} Mpps"), b > 1.5 * a));
        vec![Line::of(
            "the default has far less than UNiS (paper: about 1% of own cores' rate)",
            got,
        )]
    },
};

/// Figures 4 and 6.
pub const LENGTHS: Experiment = Experiment {
    name: "unis-4",
    title: "Light, medium and heavy chains of one to ten functions",
    shows: "Throughput of polling functions of one cost in a row on one core: cooperative (they yield after 8 \
        batches), UNiS \
            (unmodified), Onefold's own. How many functions fit at a rate (figure 6) can be read off the same lines.",
    shrunk: SHRUNK,
    published: &[
        (
            "UNiS, fig. 4",
            "light: line rate up to length 4, then at most 10% behind; medium less than 2.5% behind",
        ),
        ("UNiS, fig. 6", "density at a target rate: within 10%"),
    ],
    axis: "length",
    plot: "Mpps",
    columns: &["p50 us", "p99 us", "switches/s"],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[2, 5],
            false => &[1, 2, 3, 4, 5, 6, 8, 10],
        };
        let costs = [("light", LIGHT), ("medium", MEDIUM), ("heavy", HEAVY)];
        let all = costs.into_iter().flat_map(|(name, c)| {
            let one = move |n: &usize| {
                Setting::line(*n as f64, format!("{name} {n}"), row(&vec![c; *n]), FULL)
                    .with(others())
            };
            lengths.iter().map(one)
        });
        all.collect()
    },
    lines: |r| {
        vec![
            within(r, "light", 15.0),
            within(r, "medium", 5.0),
            within(r, "heavy", 5.0),
        ]
    },
};

/// Figure 5.
pub const LATENCY: Experiment = Experiment {
    name: "unis-5",
    title: "Latency at 80% of the highest rate",
    shows: "Five functions in a row, 128-byte packets at 80% of what comes out under cooperative scheduling with \
        more coming.",
    shrunk: SHRUNK,
    published: &[(
        "UNiS, fig. 5",
        "light: 14 us more than cooperative on average, medium: less than that, heavy: lower than cooperative",
    )],
    axis: "cost",
    plot: "p50 us",
    columns: &["Mpps", "mean us", "p25 us", "p75 us", "p99 us"],
    settings: |_| {
        let costs = [("light", LIGHT), ("medium", MEDIUM), ("heavy", HEAVY)];
        let all = costs.into_iter().enumerate().map(|(i, (name, c))| {
            let mut s = Setting::line(i as f64, name, row(&[c; 5]), FULL);
            for chain in &mut s.chains {
                (chain.load, chain.sizes) = (Load::Share(0.8), &[124]);
            }
            s.with(others())
        });
        all.collect()
    },
    lines: |r| {
        let line = |at: &str| {
            let got = beside(at, r, "mean us").map(|(a, b)| {
                (
                    format!("cooperative {a:.0}, UNiS {b:.0} us"),
                    b <= 2.0 * a + 50.0,
                )
            });
            Line::of(
                format!("{at}: UNiS's mean latency at most twice cooperative's and 50 us"),
                got,
            )
        };
        ["light", "medium", "heavy"].map(line).to_vec()
    },
};

/// Figures 7 and 8.
pub const MIXED: Experiment = Experiment {
    name: "unis-7",
    title: "Medium and heavy functions in turn; costs by packets' length",
    shows: "Chains of unequal functions, and functions whose cost grows with the packet, on packets of 200 and \
        1,400 bytes in turn \
            (the modes of a campus trace).",
    shrunk: "Of the campus trace there are its modes. Rings, core and generator as in the other experiments.",
    published: &[("UNiS, figs 7 and 8", "both less than 2% behind cooperative")],
    axis: "chain",
    plot: "Mpps",
    columns: &["p50 us", "p99 us", "switches/s"],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[4],
            false => &[2, 4, 6, 8],
        };
        let mixed = |n: &usize| {
            let costs: Vec<u64> = [MEDIUM, HEAVY].into_iter().cycle().take(*n).collect();
            Setting::line(*n as f64, format!("mixed {n}"), row(&costs), FULL).with(others())
        };
        let bytes = |n: &usize| {
            let mut s = Setting::line(
                *n as f64,
                format!("by length {n}"),
                row(&vec![LIGHT; *n]),
                FULL,
            );
            for f in &mut s.functions {
                if let Work::Burn { per_byte, .. } = &mut f.work {
                    *per_byte = 0.15;
                }
            }
            for c in &mut s.chains {
                c.sizes = &[196, 1396];
            }
            s.with(others())
        };
        lengths
            .iter()
            .map(mixed)
            .chain(lengths.iter().map(bytes))
            .collect()
    },
    lines: |r| vec![within(r, "mixed", 5.0), within(r, "by length", 5.0)],
};

/// Table 1.
pub const COLOCATED: Experiment = Experiment {
    name: "unis-t1",
    title: "Several chains on one core",
    shows: "Chains of 3 and 1 medium functions on one core, and two chains of 2: each chain's throughput.",
    shrunk: "Of the paper's three placements, those over two cores have one here: (b) two chains of 2 and (c) one \
        chain of 8. Who \
             comes next is decided core by core, so that a second core adds no other decision.",
    published: &[(
        "UNiS, table 1 (Mpps, cooperative/UNiS)",
        "(a) 3 and 1 on one core: 5.31/5.30, 5.31/5.21; (b) two of 4 over two cores: 5.24/5.10, 5.24/5.14; (c) one \
            of 8 over two: \
         5.41/5.34",
    )],
    axis: "chains",
    plot: "Mpps",
    columns: &["Mpps a", "Mpps b", "Jain", "p50 us"],
    settings: |_| {
        let two = |x: f64, label: &str, first: usize, all: usize| {
            let chains = vec![
                Chain::new("a", 0..first, FULL / 2),
                Chain::new("b", first..all, FULL / 2),
            ];
            Setting {
                chains,
                ..Setting::line(x, label, row(&vec![MEDIUM; all]), 0)
            }
            .with(others())
        };
        vec![
            two(0.0, "(a) 3 and 1", 3, 4),
            two(1.0, "(b) 2 and 2", 2, 4),
            Setting::line(2.0, "(c) 8", row(&[MEDIUM; 8]), FULL).with(others()),
        ]
    },
    lines: |r| {
        vec![
            within(r, "(a)", 5.0),
            within(r, "(b)", 5.0),
            within(r, "(c)", 5.0),
        ]
    },
};

/// Figures 9 to 13.
pub const BATCHES: Experiment = Experiment {
    name: "unis-9",
    title: "How long functions go on before they yield",
    shows: "Five functions under cooperative scheduling with a yield after 8, 16 and 24 batches, and UNiS: \
        throughput and switches.",
    shrunk: "Cache misses of the last function (paper: 9.8% against 4.9%) take hardware counters, which are not \
        here. The rest as in \
             the other experiments.",
    published: &[(
        "UNiS, figs 9 to 13",
        "light: larger k is slower; medium: larger k is faster; UNiS has less than half of the switches of k = 8",
    )],
    axis: "cost",
    plot: "Mpps",
    columns: &["switches/s", "p50 us", "p99 us"],
    settings: |_| {
        let costs = [("light", LIGHT), ("medium", MEDIUM)];
        let all = costs.into_iter().enumerate().map(|(i, (name, c))| {
            let yielding = |k: u32| {
                Run::polling(
                    &format!("k = {k}"),
                    &format!("cooperative,batches={k}"),
                    Kind::Apart,
                )
            };
            let unis = Run::polling("unis", "unis", Kind::Apart);
            Setting::line(i as f64, name, row(&[c; 5]), FULL).with(vec![
                yielding(8),
                yielding(16),
                yielding(24),
                unis,
            ])
        });
        all.collect()
    },
    lines: |r| {
        let line = |at: &str| {
            let both = r
                .median(at, "k = 8", "switches/s")
                .zip(r.median(at, "unis", "switches/s"));
            let got =
                both.map(|(a, b)| (format!("k = 8: {a:.0}, UNiS {b:.0} a second"), b * 2.0 < a));
            Line::of(
                format!("{at}: UNiS has less than half of the switches of k = 8"),
                got,
            )
        };
        ["light", "medium"].map(line).to_vec()
    },
};

/// Figures 14 and 15.
pub const OCCUPANCY: Experiment = Experiment {
    name: "unis-15",
    title: "The occupancy rule, with slices for 25 to 125% of the next ring",
    shows: "UNiS with and without looking at rings' occupancy (theta-min, theta-max), slices that fill 25 to 125% \
        of the next ring: \
            without, slices that are too long run into a full ring, or an empty one.",
    shrunk: SHRUNK,
    published: &[
        ("UNiS, fig. 14", "the occupancy rule adds 10% at most"),
        (
            "UNiS, fig. 15",
            "without the rule at 125%: 12% less (light), 22% less (medium); with it: flat",
        ),
    ],
    axis: "slice, % of the ring",
    plot: "Mpps",
    columns: &["wasted/s", "switches/s", "p50 us"],
    settings: |quick| {
        let gammas: &[u32] = match quick {
            true => &[25, 75, 125],
            false => &[25, 50, 75, 100, 125],
        };
        let costs = [("light", LIGHT), ("medium", MEDIUM)];
        let all = costs.into_iter().flat_map(|(name, c)| {
            gammas.iter().map(move |g| {
                let gamma = f64::from(*g) / 100.0;
                let with = format!("unis,gamma={gamma}");
                let without = format!("unis,gamma={gamma},theta-max=off,theta-min=0");
                let runs = vec![
                    Run::polling("with", &with, Kind::Apart),
                    Run::polling("without", &without, Kind::Apart),
                ];
                Setting::line(f64::from(*g), format!("{name} {g}%"), row(&[c; 5]), FULL).with(runs)
            })
        });
        all.collect()
    },
    lines: |r| {
        let line = |name: &str| {
            let of = |g: u32, run: &str| r.get(&format!("{name} {g}%"), run, "Mpps");
            let gain = of(125, "with").zip(of(125, "without"));
            let flat = of(125, "with").zip(of(75, "with"));
            let got = gain.zip(flat).map(|((w, o), (a, b))| {
                let share = |a: f64, b: f64| (a / b.max(1e-9) - 1.0) * 100.0;
                let text = format!(
                    "with against without at 125%: {:+.1}% ({:+.1} to {:+.1}); with, 125% against 75%: {:+.1}%",
                    share(w.median, o.median),
                    share(w.min, o.max),
                    share(w.max, o.min),
                    share(a.median, b.median)
                );
                (text, w.median >= o.median && a.median >= 0.95 * b.median)
            });
            Line::of(
                format!(
                    "{name}: the rule gains at 125%, and with it throughput is flat (within 5%)"
                ),
                got,
            )
        };
        ["light", "medium"].map(line).to_vec()
    },
};
