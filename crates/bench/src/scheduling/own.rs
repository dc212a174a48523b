//! Onefold's own policy beside all others, in every experiment that has it.

use super::Kind;
use super::results::{Cell, Line, Results};

/// What counts as the same rate.
pub const NOISE: f64 = 0.03;

/// In every setting: at least the throughput of every non-intrusive policy, within noise; nearly that of the best
/// intrusive one; and a lower p99 than others, told setting by setting where it is lost.
pub fn lines(r: &Results) -> Vec<Line> {
    let own = |c: &&Cell| c.kind == Kind::Own && !c.rounds.is_empty();
    if !r.cells.iter().any(|c| own(&c)) {
        return Vec::new();
    }
    let rates = [
        (
            Kind::NonIntrusive,
            1.0 - NOISE,
            "own policy: throughput of every non-intrusive policy, less 3% for noise",
        ),
        (
            Kind::Intrusive,
            0.95,
            "own policy: 95% of the throughput of the best intrusive policy",
        ),
    ];
    let mut lines: Vec<Line> = rates
        .into_iter()
        .map(|(kind, least, goal)| rate(r, kind, least, goal))
        .collect();
    lines.push(latency(r));
    lines
}

/// The others of a setting, with a figure, and ours.
fn beside<'a>(r: &'a Results, own: &Cell, kinds: &[Kind], figure: &str) -> Vec<(&'a str, f64)> {
    let others = r
        .cells
        .iter()
        .filter(|c| c.setting == own.setting && kinds.contains(&c.kind));
    others
        .filter_map(|c| Some((c.run.as_str(), c.get(figure)?.median)))
        .collect()
}

fn owns(r: &Results) -> impl Iterator<Item = &Cell> {
    r.cells.iter().filter(|c| c.kind == Kind::Own)
}

fn rate(r: &Results, kind: Kind, least: f64, goal: &str) -> Line {
    let (mut n, mut worst, mut lost) = (0, f64::MAX, Vec::new());
    for own in owns(r) {
        let Some(ours) = own.get("Mpps").map(|s| s.median) else {
            continue;
        };
        let others = beside(r, own, &[kind], "Mpps");
        let Some((who, best)) = others.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            continue;
        };
        n += 1;
        let ratio = ours / best.max(1e-9);
        worst = f64::min(worst, ratio);
        if ratio < least {
            lost.push(format!("{}: {:.0}% of {who}'s", own.setting, ratio * 100.0));
        }
    }
    let got = (n > 0).then(|| match lost.is_empty() {
        true => (
            format!("at least {:.0}% in {n} settings", worst * 100.0),
            true,
        ),
        false => (lost.join("; "), false),
    });
    Line::of(goal, got)
}

fn latency(r: &Results) -> Line {
    let (mut n, mut lower, mut lost) = (0, 0, Vec::new());
    for own in owns(r) {
        let Some(ours) = own.get("p99 us").map(|s| s.median) else {
            continue;
        };
        let others = beside(r, own, &[Kind::NonIntrusive, Kind::Intrusive], "p99 us");
        let Some((who, best)) = others.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
            continue;
        };
        n += 1;
        match ours < best {
            true => lower += 1,
            false => lost.push(format!("{}: {ours:.0} us, {who} {best:.0}", own.setting)),
        }
    }
    let got = (n > 0).then(|| {
        let lost = match lost.is_empty() {
            true => String::new(),
            false => format!("; not: {}", lost.join("; ")),
        };
        (format!("{lower} of {n}{lost}"), lower * 5 >= n * 4)
    });
    Line::of(
        "own policy: lower p99 than all others in 80% of the settings",
        got,
    )
}
