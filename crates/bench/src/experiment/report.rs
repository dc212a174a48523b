//! What is told of an experiment.

use super::{Axis, Experiment, Level, Published, Quantity, Ratio, Which};
use crate::measure::{ChainReport, Machine, Sample, Spread};
use serde::Serialize;

/// A point of a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointReport {
    /// Where on the axis.
    pub x: f64,
    /// What stands there.
    pub label: String,
    /// What is plotted; none if no slice was finished.
    pub y: Option<Spread>,
    /// Flows that a packet can be of.
    pub flows: usize,
    /// Packets handed over together.
    pub batch: usize,
    /// Share of a core's time that the thread may have.
    pub cpu: f64,
    /// Processes that did the same at the same time.
    pub instances: usize,
    /// Million packets per second, on the wall, of each of the other processes; part of `y`.
    pub others_mpps: Vec<f64>,
    /// Seconds that synthesis and the program's search structures took.
    pub build_seconds: f64,
    /// Bytes that the program and they need, what making them has left included. Null where the system does not say.
    pub build_bytes: Option<u64>,
    /// Bytes of state per flow: the flow table's, and what the chain's own tables and everything else that was
    /// allocated for the execution grew by. Null where the system does not say.
    pub bytes_per_flow: Option<f64>,
    /// Everything that was measured.
    pub measured: ChainReport,
}

impl PointReport {
    /// What is plotted, of a measurement.
    pub fn of(quantity: Quantity, c: &ChainReport) -> Option<Spread> {
        match quantity {
            Quantity::AboveCeiling => c.above_ceiling_ns,
            Quantity::Ns => c.ns_per_packet,
            Quantity::WallMpps => {
                Spread::of(c.samples.iter().map(|s| 1000.0 / s.wall_ns.max(1e-3)))
            }
        }
    }
}

/// A level by its name.
fn by_name<S: serde::Serializer>(level: &Level, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(level.name())
}

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesReport {
    /// The line that was planned.
    pub series: String,
    /// How chains are executed.
    #[serde(serialize_with = "by_name")]
    pub level: Level,
    /// Its points, in order.
    pub points: Vec<PointReport>,
}

impl SeriesReport {
    /// Both in one.
    pub fn name(&self) -> String {
        match self.series.is_empty() {
            true => self.level.name().to_string(),
            false => format!("{}: {}", self.series, self.level.name()),
        }
    }
}

/// The rate of one in rates of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatioReport {
    /// In words.
    pub name: String,
    /// Over the rounds; to what is above the one's ceiling comes the ceiling of the other. Of flows that were opened,
    /// beside others, where there are any: what comes out of theirs.
    pub rate: Option<Spread>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentReport {
    /// Its name.
    pub experiment: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What was swept.
    pub x: Axis,
    /// What is plotted.
    pub y: Quantity,
    /// The smallest form was measured.
    pub quick: bool,
    /// The lines.
    pub series: Vec<SeriesReport>,
    /// Comparisons.
    pub ratios: Vec<RatioReport>,
    /// What others report.
    pub published: Vec<Published>,
    /// What it ran on.
    pub machine: Machine,
    /// Seconds of each slice, slices of each point, buffers, seed.
    pub seconds: f64,
    /// See `seconds`.
    pub repeats: usize,
    /// See `seconds`.
    pub buffers: usize,
    /// See `seconds`.
    pub seed: u64,
    /// UTC, `2026-11-22`.
    pub date: String,
    /// It was stopped early.
    pub interrupted: bool,
    /// What was left out, and what to know before a figure is believed.
    pub warnings: Vec<String>,
}

impl ExperimentReport {
    /// Of an experiment, nothing measured yet.
    pub fn new(e: &Experiment, quick: bool, machine: Machine) -> ExperimentReport {
        ExperimentReport {
            experiment: e.name,
            title: e.title,
            shows: e.shows,
            x: e.x,
            y: e.y,
            quick,
            series: Vec::new(),
            ratios: Vec::new(),
            published: (e.published)(),
            machine,
            seconds: 0.0,
            repeats: 0,
            buffers: 0,
            seed: 0,
            date: today(),
            interrupted: false,
            warnings: Vec::new(),
        }
    }

    /// Adds a point to its line.
    pub fn add(&mut self, series: &str, level: Level, point: PointReport) {
        let line = self
            .series
            .iter()
            .position(|s| s.series == series && s.level == level);
        let line = match line {
            Some(i) => i,
            None => {
                self.series.push(SeriesReport {
                    series: series.to_string(),
                    level,
                    points: Vec::new(),
                });
                self.series.len() - 1
            }
        };
        if let Some(s) = self.series.get_mut(line) {
            s.points.push(point);
            s.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
    }

    fn point(&self, w: &Which) -> Option<&PointReport> {
        let mut lines = self.series.iter();
        let line = lines.find(|s| s.series == w.series && s.level == w.level)?;
        line.points.iter().find(|p| p.x == w.x)
    }

    /// Compares, round by round.
    pub fn compare(&mut self, ratios: &[Ratio]) {
        for r in ratios {
            let (Some(of), Some(to)) = (self.point(&r.of), self.point(&r.to)) else {
                continue;
            };
            let both = of.measured.samples.iter().zip(&to.measured.samples);
            // packets of different kinds are not equally dear to make: that is in the ceiling
            let time = |a: &Sample, b: &Sample| (a.ns - a.ceiling_ns + b.ceiling_ns).max(1e-3);
            // packets that do not come out have no rate
            let out = |p: &PointReport| p.measured.opened_out.unwrap_or(1.0);
            let out = out(of) / out(to).max(1e-3);
            let rate = Spread::of(both.map(|(a, b)| out * b.ns / time(a, b)));
            let name = r.name.clone();
            self.ratios.push(RatioReport { name, rate });
        }
    }

    /// Is every packet accounted for?
    pub fn conserved(&self) -> bool {
        let mut all = self.series.iter().flat_map(|s| &s.points);
        all.all(|p| p.measured.conserved)
    }
}

/// The date, UTC.
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    date_of(since.map_or(0, |d| d.as_secs()) / 86_400)
}

/// The date so many days after 1970-01-01 (Hinnant's algorithm for the Gregorian calendar).
pub fn date_of(days: u64) -> String {
    let z = days as i64 + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let day = of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::date_of;

    #[test]
    fn dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_779, "2026-11-22"),
        ] {
            assert_eq!(date_of(days), date);
        }
    }
}
