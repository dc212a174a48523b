//! The share of their rate that established flows keep while half of the packets are an attacker's.

use super::measure::Sample;
use super::report::RatioReport;
use super::rows::{Beside, Row};
use onefold_bench::measure::Spread;

/// What established flows are to keep.
pub const KEPT: f64 = 0.8;

/// Rows' rates of established flows beside an attacker, in rates beside as many other ones, round by round.
pub fn ratios<'a>(rows: impl Iterator<Item = (&'a Row, &'a [Sample])>) -> Vec<RatioReport> {
    let rows: Vec<_> = rows.collect();
    let came = |s: &Sample| s.overloaded.map(|o| o.0);
    let mut out = Vec::new();
    for (row, samples) in &rows {
        let Beside::Attacker(attack) = row.traffic.beside else {
            continue;
        };
        let benign = rows
            .iter()
            .find(|(r, _)| r.traffic.beside == Beside::Benign && r.kind() == row.kind());
        let Some((_, benign)) = benign else { continue };
        let pairs = samples.iter().zip(benign.iter());
        // half of what came beside others was the flows'
        let kept = pairs.filter_map(|(a, b)| Some(came(a)? / (came(b)? / 2.0)));
        out.push(RatioReport {
            name: format!(
                "{}, {}: rate of established flows in their rate beside benign ones",
                attack.name(),
                row.kind()
            ),
            ratio: Spread::of(kept.filter(|k| k.is_finite())),
        });
    }
    out.retain(|r| r.ratio.is_some());
    out
}

/// Does it hold?
pub fn conclusions(ratios: &[RatioReport]) -> Vec<String> {
    let kept = |r: &RatioReport| r.ratio.map(|s| s.median);
    let held = ratios.iter().filter(|r| kept(r) >= Some(KEPT)).count();
    let least =
        (ratios.iter()).min_by(|a, b| kept(a).unwrap_or(0.0).total_cmp(&kept(b).unwrap_or(0.0)));
    least
        .map(|r| {
            format!(
                "established flows keep {KEPT} of their rate in {held} of {} cases; least: {:.2} ({})",
                ratios.len(),
                kept(r).unwrap_or(0.0),
                r.name
            )
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::rows::shared_edge;
    use super::*;
    use onefold_bench::Hostile;

    #[test]
    fn half_of_what_came_beside_others_was_the_flows() {
        let came = |pps| Sample {
            overloaded: Some((pps, 1.0)),
            ..Sample::default()
        };
        let row = |beside| Row::chain("edge", 0, &shared_edge("r", beside));
        let (benign, flood) = (
            row(Beside::Benign),
            row(Beside::Attacker(Hostile::SynFlood)),
        );
        let samples = [[came(1000.0), came(1200.0)], [came(450.0), came(300.0)]];
        let rows = [(&benign, &samples[0][..]), (&flood, &samples[1][..])];
        let all = ratios(rows.into_iter());
        let s = all.first().and_then(|r| r.ratio).expect("a ratio");
        assert_eq!((s.min, s.max, all.len()), (0.5, 0.9, 1));
        let said = conclusions(&all);
        assert!(
            said[0].contains("in 0 of 1 cases; least: 0.70 (SYN flood"),
            "{said:?}"
        );
        assert!(conclusions(&[]).is_empty());
    }
}
