//! NFVnice (Kulkarni et al., SIGCOMM 2017): how long a chain is, and from where on it is throttled.

use super::nfvnice::{FULL, HEAVY, LIGHT, MEDIUM, SHRUNK, rate_kept, three};
use super::results::Line;
use super::{Experiment, Function, Kind, Setting, all_policies, nfvnice};

/// Figure 16.
pub const LENGTHS: Experiment = Experiment {
    name: "nfvnice-16",
    title: "Chains of one to ten functions on one core",
    shows: "Light, medium, heavy, light ... functions in a row on one core.",
    shrunk: "As in the other experiments costs are ten times the paper's and loads a tenth; the paper's second \
        curve, three \
             cores in turn, has no cores here. The shape over the length on one core is what the paper argues with.",
    published: &[(
        "NFVnice, fig. 16",
        "most is gained at lengths 3 to 6 (one core), little above 7",
    )],
    axis: "length",
    plot: "Mpps",
    columns: &["wasted/s", "p50 us", "p99 us"],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[1, 4, 10],
            false => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        };
        let setting = |n: &usize| {
            let costs = [LIGHT, MEDIUM, HEAVY].iter().cycle().take(*n).enumerate();
            let functions = costs
                .map(|(i, c)| Function::burn(format!("f{i}"), &[*c]))
                .collect();
            Setting::line(*n as f64, n.to_string(), functions, FULL).with(all_policies())
        };
        lengths.iter().map(setting).collect()
    },
    lines: |r| {
        let settings = r.settings();
        settings
            .iter()
            .map(|at| rate_kept(r, at, "normal", "nfvnice"))
            .collect()
    },
};

/// The sweep of watermarks.
pub const WATERMARKS: Experiment = Experiment {
    name: "nfvnice-watermarks",
    title: "Watermarks of NFVnice's backpressure",
    shows: "From how full a ring on a chain is throttled (high), and until when (low), on the chain of figure 7.",
    shrunk: SHRUNK,
    published: &[(
        "NFVnice, tuning of the watermarks",
        "HIGH 80%, LOW 60% of the ring. With a margin of 30, HIGH below 70 loses throughput, above 80 has more \
            drops; margins of \
         1 to 5 have more drops, above 30 are slower",
    )],
    axis: "high, low watermark",
    plot: "Mpps",
    columns: &["wasted/s", "shed/s", "p50 us", "p99 us"],
    settings: |quick| {
        let marks: &[(u32, u32)] = match quick {
            true => &[(30, 20), (80, 60), (95, 90)],
            false => &[
                (10, 5),
                (30, 20),
                (50, 30),
                (70, 50),
                (80, 60),
                (80, 79),
                (90, 80),
                (95, 90),
            ],
        };
        let setting = |(i, (high, low)): (usize, &(u32, u32))| {
            let run = nfvnice("nfvnice", &format!(",high={high},low={low}"), Kind::Apart);
            let functions = three([LIGHT, MEDIUM, HEAVY]);
            Setting::line(i as f64, format!("{high}, {low}"), functions, FULL).with(vec![run])
        };
        marks.iter().enumerate().map(setting).collect()
    },
    lines: |r| {
        let settings = r.settings();
        let best = settings
            .iter()
            .filter_map(|s| r.median(s, "nfvnice", "Mpps"))
            .reduce(f64::max);
        let chosen = r.median("80, 60", "nfvnice", "Mpps").zip(best);
        let got = chosen.map(|(a, b)| (format!("{a:.3} Mpps, best {b:.3}"), a >= b * 0.95));
        vec![Line::of(
            "80% and 60% have 95% of the best one's throughput",
            got,
        )]
    },
};
