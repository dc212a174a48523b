//! What is between functions in processes: rings, interfaces, a switch, nothing. SCC (Katsikas et al., JSS 127, 2017)
//! through Open vSwitch; Katsikas' thesis, figure 4.2.

use super::results::{Line, Results};
use super::{Experiment, Kind, Load, Run, Setting, scc};

const OVS: &str = "ovs";

/// Share of what the first run has at its best.
const SHARE: Load = Load::Share(0.8);

fn through(label: &str, policy: &str, interconnect: &'static str) -> Run {
    Run {
        interconnect,
        ..Run::sleeping(label, policy, Kind::Apart)
    }
}

fn row(n: usize, label: String, load: Load, runs: Vec<Run>) -> Setting {
    let mut s = Setting::line(n as f64, label, scc::row(n), 4_000_000).with(runs);
    for c in &mut s.chains {
        c.load = load;
    }
    s
}

/// Figures 5 and 9, table 5.
pub const SWITCHED: Experiment = Experiment {
    name: "scc-9",
    title: "Routers in processes with Open vSwitch between them: scheduling",
    shows: "Two to eight routers on one core, a process each in a namespace of its own, with Open vSwitch's userspace \
        datapath between them (`interconnect: ovs`): latency under the kernel's default (figure 5), and with SCC's \
        slices of 420 and 800 ms (SCHED_BATCH, nice -1 and -20; figure 9). Waiting to running time besides (table 5).",
    shrunk: "The load is 80% of what the default has at its best at each length, where the paper has 0.82 Mpps \
        always; the switch has its core together with launcher and generator. Slices of 420 and 800 ms are held to \
        100 ms by this kernel: what is left of SCC's lever is the class and the weight that goes with nice. Latency is \
        measured from what the generator writes into each packet. A chain of one function has nothing between.",
    published: &[
        (
            "SCC, figs 5 and 9 (Open vSwitch)",
            "median slope per function 1,769 us default; 1,349 batch 420 ms; 532 batch 800 ms; 420 ms is always better \
             than the default, 800 ms worse below about 5 functions; 25-75 spread at 7 functions 6,327 / 3,180 / 156 \
             us",
        ),
        (
            "SCC, tables 5 and 8",
            "wait/run, default, lengths 1/2/4/8: 14.76/18.80/30.20/74.36; contention/run default 0/1.25/2.88/3.78, \
             batch 0/4.34/2.73/2.58",
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
            true => &[2, 4],
            false => &[2, 4, 6, 7, 8],
        };
        let setting = |n: &usize| {
            let runs = vec![
                through("default", "normal", OVS),
                through("batch 420 ms", "scc,nice=-1", OVS),
                through("batch 800 ms", "scc,nice=-20", OVS),
            ];
            row(*n, n.to_string(), SHARE, runs)
        };
        lengths.iter().map(setting).collect()
    },
    lines: |r| {
        let slope = |run: &str| slope(r, run, "p50 us");
        let line = |run: &str, paper: &str| {
            let got = slope("default").zip(slope(run));
            let got = got.map(|(a, b)| {
                (
                    format!("default {a:.0}, {run} {b:.0} us more for each further function"),
                    b <= a,
                )
            });
            Line::of(
                format!(
                    "{run}: a further function adds no more than under the default (paper: {paper})"
                ),
                got,
            )
        };
        vec![
            line("batch 420 ms", "1,349 to 1,769 us"),
            line("batch 800 ms", "532 to 1,769 us"),
        ]
    },
};

/// How a figure grows with length: of the line through all settings that is nearest (least squares).
fn slope(r: &Results, run: &str, figure: &str) -> Option<f64> {
    let all: Vec<(f64, f64)> = (r.cells.iter())
        .filter(|c| c.run == run)
        .filter_map(|c| Some((c.x, c.get(figure)?.median)))
        .collect();
    let n = all.len() as f64;
    let (x, y) = all
        .iter()
        .fold((0.0, 0.0), |s, p| (s.0 + p.0 / n, s.1 + p.1 / n));
    let wide: f64 = all.iter().map(|p| (p.0 - x).powi(2)).sum();
    let high: f64 = all.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (wide > 0.0).then(|| high / wide)
}

/// What is said of settings with more packets than can pass.
const MOST: &str = ", all that come";

/// Figure 4.2 of the thesis.
pub const FABRICS: Experiment = Experiment {
    name: "thesis-4.2",
    title: "Routers in one process, back to back, with interfaces and with Open vSwitch between them",
    shows: "One to ten routers: merged into one function; in processes on one core that are connected by rings back to \
        back, by a manager's, by virtual interfaces, by Open vSwitch. At each length twice: latency at 80% of what \
        passes through Open vSwitch, and throughput with all that the generator offers.",
    shrunk: "The paper's load is 0.82 Mpps at all lengths; here it is what the slowest can do, the same for all at a \
        length. The merged chain has its generator in the same process and on the same core, so that its rate is less \
        than it would be. Latency is measured from what the generator writes into each packet. \
        A chain of one function has nothing between.",
    published: &[(
        "Katsikas' thesis, fig. 4.2",
        "one to eight routers, 0.82 Mpps, 64 bytes, kernel driver: a further router adds 1,769 us over Open vSwitch, \
         1,335 us back to back, 28 us in one process (p99 about 1 ms at 8)",
    )],
    axis: "routers",
    plot: "Mpps",
    columns: &["p50 us", "p75 us", "p99 us", "switches/s"],
    settings: |quick| {
        let lengths: &[usize] = match quick {
            true => &[1, 3],
            false => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        };
        let settings = |n: &usize| {
            let between = |n: &usize| match n {
                1 => vec!["rings"],
                _ => vec![OVS, "veth", "manager", "rings"],
            };
            let processes: Vec<Run> = between(n)
                .into_iter()
                .map(|i| through(i, "normal", i))
                .collect();
            let mut all = processes.clone();
            all.push(Run::merged());
            [
                row(*n, n.to_string(), SHARE, processes),
                row(*n, format!("{n}{MOST}"), Load::Pps(12_000_000), all),
            ]
        };
        lengths.iter().flat_map(settings).collect()
    },
    lines: |r| {
        let mut lines: Vec<Line> = Vec::new();
        let settings = r.settings();
        for at in settings.iter().filter(|s| s.ends_with(MOST)) {
            lines.push(merged(r, at));
        }
        for at in settings.iter().filter(|s| !s.ends_with(MOST) && **s != "1") {
            let of = |run: &str| r.median(at, run, "p50 us");
            let got = of("rings").zip(of("veth")).zip(of(OVS));
            let got = got.map(|((a, b), c)| {
                let text = format!("rings {a:.0}, veth {b:.0}, Open vSwitch {c:.0} us");
                (text, a <= b && b <= c)
            });
            lines.push(Line::of(
                format!("{at} routers: rings take no longer than interfaces, and these no longer than a switch"),
                got,
            ));
        }
        lines
    },
};

/// The merged chain beside each fabric.
fn merged(r: &Results, at: &str) -> Line {
    let ours = r.median(at, "merged", "Mpps");
    let beside: Vec<(&str, f64)> = (r.runs().into_iter())
        .filter(|run| *run != "merged")
        .filter_map(|run| Some((run, r.median(at, run, "Mpps")?)))
        .collect();
    let got = ours.filter(|_| !beside.is_empty()).map(|ours| {
        let ratio = |(run, mpps): &(&str, f64)| format!("{run} {:.1}", ours / mpps.max(1e-9));
        let all: Vec<String> = beside.iter().map(ratio).collect();
        let held = beside.iter().all(|(_, mpps)| ours >= *mpps);
        (
            format!("{ours:.2} Mpps, times that of {}", all.join(", ")),
            held,
        )
    });
    Line::of(format!("{at}: merged beside processes"), got)
}
