//! UNiS with longer rings, and so longer slices: what a switch costs, and from which slice on it does not matter.

use super::results::{Line, Results};
use super::{Experiment, Function, Kind, Run, Setting};

/// The light and the medium cost, in cycles, and how far behind cooperative UNiS may be, in per cent.
const COSTS: [(&str, u64, f64); 2] = [("light", 50, 15.0), ("medium", 150, 5.0)];
/// Places of rings. What comes in between shows no more.
const RINGS: [u32; 4] = [1_024, 4_096, 16_384, 65_536];
/// More than one core can do.
const FULL: u64 = 6_000_000;
/// In a row.
const FUNCTIONS: usize = 3;

fn label(cost: &str, places: u32) -> String {
    format!("{cost}, rings of {places}")
}

/// UNiS on rings of one length.
struct Point {
    places: u32,
    /// Behind cooperative, as a part of its rate.
    behind: f64,
    /// From one switch to the next, in us.
    slice: f64,
}

impl Point {
    /// Lost with each switch, in us.
    fn lost(&self) -> f64 {
        self.behind * self.slice
    }
}

fn points(r: &Results, cost: &str) -> Vec<Point> {
    let one = |places: &u32| {
        let at = label(cost, *places);
        let of = |run: &str, figure: &str| r.median(&at, run, figure);
        let (best, got) = of("cooperative", "Mpps").zip(of("unis", "Mpps"))?;
        let switches = of("unis", "switches/s").filter(|s| *s > 0.0)?;
        Some(Point {
            places: *places,
            behind: 1.0 - got / best.max(1e-9),
            slice: 1e6 / switches,
        })
    };
    RINGS.iter().filter_map(one).collect()
}

/// From some length on it is within `percent` of cooperative: which one is told.
fn holds_from(r: &Results, cost: &str, percent: f64) -> Line {
    let all = points(r, cost);
    let is_within = |p: &&Point| p.behind * 100.0 <= percent;
    let from = all.iter().rev().take_while(is_within).last();
    let told = all.iter().map(|p| {
        format!(
            "{} places: slices of {:.0} us, {:+.1}%",
            p.places,
            p.slice,
            -p.behind * 100.0
        )
    });
    let told: Vec<String> = told.collect();
    let got = (!all.is_empty()).then(|| {
        let verdict = match from {
            Some(p) => format!("from slices of {:.0} us on", p.slice),
            None => "from no slice on".to_string(),
        };
        (format!("{verdict} ({})", told.join("; ")), from.is_some())
    });
    let goal = format!("{cost}: UNiS within {percent:.0}% of cooperative from a slice on");
    Line::of(goal, got)
}

/// What is missing on short rings is the price of a switch: no more is lost with each on longer ones.
/// Where it is within `percent`, nothing is missing.
fn a_price_a_switch(r: &Results, cost: &str, percent: f64) -> Line {
    let all = points(r, cost);
    let lost = |p: &Point| match p.behind * 100.0 > percent {
        true => p.lost(),
        false => 0.0,
    };
    let shortest = all.first().map(lost);
    let longer = all.iter().skip(1).map(lost).reduce(f64::max);
    let told: Vec<String> = (all.iter())
        .map(|p| format!("{} places: {:.0} us", p.places, p.lost()))
        .collect();
    let got = shortest.zip(longer).map(|(a, b)| {
        let held = b <= 3.0 * a.max(1.0);
        (told.join(", "), held)
    });
    let goal = format!(
        "{cost}: what is lost with a switch explains what is missing (on longer rings at most three times that of the \
         shortest, while slices grow sixty-four times)"
    );
    Line::of(goal, got)
}

/// Slices by the length of rings.
pub const SLICES: Experiment = Experiment {
    name: "unis-slices",
    title: "UNiS with longer rings, and so longer slices",
    shows: "Three functions in a row on one core, with rings of 1,024 to 65,536 places: UNiS's slice is what fills \
        three quarters of the next ring. What is lost with each switch (a pause of the policy, two system calls, an \
        interrupt to the other core, packets that the launcher has not brought yet) is a smaller part of a longer \
        slice.",
    shrunk: "Policy, launcher and generator share the other core, as in the other experiments. Longer rings than the \
        paper's (2,048 places) are what makes up for switches that cost more here than they did there.",
    published: &[(
        "UNiS, fig. 4",
        "rings of 2,048 places: light within 10% of cooperative, medium less than 2.5% behind",
    )],
    axis: "places of a ring",
    plot: "Mpps",
    columns: &["switches/s", "p50 us", "p99 us"],
    settings: |quick| {
        let rings: &[u32] = match quick {
            true => &[1_024, 16_384],
            false => &RINGS,
        };
        let all = COSTS.into_iter().flat_map(|(cost, cycles, _)| {
            rings.iter().map(move |places| {
                let row = (0..FUNCTIONS).map(|i| Function::burn(format!("f{i}"), &[cycles]));
                let s = Setting::line(
                    f64::from(*places),
                    label(cost, *places),
                    row.collect(),
                    FULL,
                );
                let runs = vec![
                    Run::polling("cooperative", "cooperative", Kind::Apart),
                    Run::polling("unis", "unis", Kind::Apart),
                ];
                Setting {
                    ring: Some(*places),
                    ..s
                }
                .with(runs)
            })
        });
        all.collect()
    },
    lines: |r| {
        let all = COSTS.into_iter().flat_map(|(cost, _, percent)| {
            [
                holds_from(r, cost, percent),
                a_price_a_switch(r, cost, percent),
            ]
        });
        all.collect()
    },
};
