//! `onefold bench --experiment`: runs the experiments of `onefold_bench::experiment`.

pub mod companion;
pub mod markdown;
mod quota;
pub mod text;

use super::point::{Made, Mode, Point, reports, split};
use crate::classifier::ClassifierArg;
use crate::common::{self, ChainArgs};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use companion::{Companions, Task};
use onefold_bench::experiment::{
    self as exp, ChainSpec, ExperimentReport, Level, PointReport, PointSpec, Scale,
};
use onefold_bench::measure::{Machine, Settings, Spread, alternate};
use onefold_bench::{ProtocolMix, SizeModel};
use onefold_capture::{CaptureWriter, LinkType};
use quota::Quota;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What is asked for.
pub struct Run<'a> {
    /// The experiment.
    pub name: &'a str,
    /// How much of it.
    pub scale: Scale,
    /// Only these executions; all if there are none.
    pub modes: Vec<Mode>,
    /// Only series with one of these in their names; all if there are none.
    pub series: Vec<String>,
    /// What stages are looked up in.
    pub classifier: ClassifierArg,
    /// How it is measured.
    pub settings: Settings,
    /// Where chains and packets are written to, for other programs.
    pub save: Option<PathBuf>,
    /// No progress bar.
    pub quiet: bool,
}

/// Tells which experiments there are.
pub fn list(json: bool) -> Result<u8> {
    if json {
        let one = |e: &&exp::Experiment| {
            serde_json::json!({
                "name": e.name, "title": e.title, "shows": e.shows, "x": e.x, "y": e.y, "published": (e.published)(),
            })
        };
        let all: Vec<_> = exp::ALL.iter().map(one).collect();
        return common::print_json(&serde_json::json!({ "experiments": all }));
    }
    for e in exp::ALL {
        crate::say!("{:16} {}", e.name, e.title);
    }
    Ok(common::HOLDS)
}

/// A folder that goes when it is not needed any more.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one, among files that do not last.
    pub fn new() -> Result<Folder> {
        let dir = std::env::temp_dir();
        // Bound: other names are tried a thousand times.
        for i in 0..1000 {
            let path = dir.join(format!("onefold-experiment-{}-{i}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).with_context(|| format!("'{}'", path.display())),
            }
        }
        bail!("'{}': no name for a folder is free", dir.display())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.0.join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("'{}'", dir.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("'{}'", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// The chain, in files if it is not an example.
    fn chain(&self, number: usize, c: &ChainSpec) -> Result<ChainArgs> {
        let (chain, set) = match c {
            ChainSpec::Example(name, set) => (name.to_string(), set.clone()),
            ChainSpec::Click(text) => (self.write(&format!("{number}.click"), text)?, Vec::new()),
            ChainSpec::Files(files) => {
                let mut main = None;
                for (name, text) in files {
                    let path = self.write(&format!("{number}/{name}"), text)?;
                    main.get_or_insert(path);
                }
                let main = main.ok_or_else(|| anyhow!("a chain of no files"))?;
                (main, Vec::new())
            }
        };
        Ok(ChainArgs { chain, set })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

fn name_of(p: &PointSpec) -> String {
    let x = p.label.clone().unwrap_or_else(|| text::place(p.x));
    match p.series.is_empty() {
        true => x,
        false => format!("{} @ {x}", p.series),
    }
}

impl Run<'_> {
    fn point(&self, folder: &Folder, number: usize, p: &PointSpec) -> Result<Point> {
        let t = &p.traffic;
        Ok(Point {
            name: name_of(p),
            chain: folder.chain(number, &p.chain)?,
            modes: p.levels.iter().map(|l| Mode::from(*l)).collect(),
            sizes: SizeModel::parse(&t.size, None).map_err(|e| anyhow!("{e}"))?,
            flows: t.flows,
            zipf: t.zipf,
            protocols: ProtocolMix {
                tcp: t.tcp,
                udp: 1.0 - t.tcp,
                icmp: 0.0,
            },
            entry: None,
            replies: t.replies,
            batch: p.batch,
            seed: self.scale.seed,
            strangers: t.strangers.clone(),
            classifier: self.classifier,
            protect: p.protect,
            room: p.room,
        })
    }

    /// Measures it on this thread, which runs on `core`. `None`: errors have been printed.
    pub fn measure(
        &self,
        core: Option<usize>,
        warnings: Vec<String>,
    ) -> Result<Option<ExperimentReport>> {
        let e = exp::find(self.name).ok_or_else(|| {
            let all: Vec<_> = exp::ALL.iter().map(|e| e.name).collect();
            anyhow!(
                "no experiment '{}'; hint: there are {}",
                self.name,
                all.join(", ")
            )
        })?;
        let mut plan = (e.plan)(&self.scale).map_err(|e| anyhow!("{e}"))?;
        if !self.modes.is_empty() {
            for p in &mut plan.points {
                p.levels.retain(|l| self.modes.contains(&Mode::from(*l)));
            }
            plan.points.retain(|p| !p.levels.is_empty());
        }
        if plan.points.is_empty() {
            bail!(
                "{}: nothing is left to be measured with this --mode",
                e.name
            );
        }
        if !self.series.is_empty() {
            let all: BTreeSet<String> = plan.points.iter().map(|p| p.series.clone()).collect();
            let asked = |name: &str| self.series.iter().any(|s| name.contains(s.as_str()));
            plan.points.retain(|p| asked(&p.series));
            if plan.points.is_empty() {
                let all: Vec<String> = all.into_iter().map(|s| format!("'{s}'")).collect();
                bail!("--series: none of {} has that in its name", all.join(", "));
            }
        }
        let mut report = ExperimentReport::new(
            e,
            self.scale.quick,
            Machine::this(core).built(crate::cmd::bench::PROFILE),
        );
        report.warnings = warnings;
        report.warnings.append(&mut plan.remarks);
        report.seconds = self.settings.seconds;
        report.repeats = self.settings.repeats;
        report.buffers = self.settings.buffers;
        report.seed = self.scale.seed;
        let folder = Folder::new()?;
        let mut groups: Vec<usize> = plan.points.iter().map(|p| p.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let mut progress = Progress::new(1000 * groups.len() as u64, self.quiet);
        for (done, g) in groups.iter().enumerate() {
            let group: Vec<&PointSpec> = plan.points.iter().filter(|p| p.group == *g).collect();
            if self
                .group(&group, done, &folder, &mut progress, &mut report)?
                .is_none()
            {
                return Ok(None);
            }
            if report.interrupted {
                break;
            }
        }
        progress.finish();
        report.compare(&plan.ratios);
        Ok(Some(report))
    }

    /// The other instances of a point.
    fn companions(&self, p: &PointSpec) -> Result<Companions> {
        let ChainSpec::Example(chain, _) = &p.chain else {
            bail!("only an example can have several instances");
        };
        let level = p.levels.first().copied().unwrap_or(Level::Program);
        let task = Task {
            chain,
            mode: Mode::from(level),
            size: &p.traffic.size,
            flows: p.traffic.flows,
            tcp: p.traffic.tcp,
            batch: p.batch,
            seconds: self.settings.seconds,
        };
        Companions::begin(p.instances - 1, &task)
    }

    /// Measures points in alternation. A quarter of a group's progress is for making packets.
    fn group(
        &self,
        group: &[&PointSpec],
        done: usize,
        folder: &Folder,
        progress: &mut Progress,
        report: &mut ExperimentReport,
    ) -> Result<Option<()>> {
        let go_on = || !runner::interrupted().load(Ordering::SeqCst);
        let base = 1000 * done as u64;
        let n = group.len().max(1) as u64;
        let mut made: Vec<Made> = Vec::new();
        for (i, p) in group.iter().enumerate() {
            let point = self.point(folder, 1000 * done + i, p)?;
            let mut tell = |at: u64, of: u64| {
                progress.at(
                    base + 250 * i as u64 / n + 250 * at / of.max(1) / n,
                    || match at {
                        0 => format!("{}: building", point.name),
                        _ => format!("{}: making packets", point.name),
                    },
                );
                go_on()
            };
            // before the first packet: rules that are long to build should be seen to be
            tell(0, 1);
            let Some(m) = point.make(&mut report.warnings, &mut tell)? else {
                return Ok(None);
            };
            if let Some(dir) = &self.save {
                save(dir, p, &m).with_context(|| format!("'{}'", dir.display()))?;
            }
            made.push(m);
        }
        let cpu = group.iter().map(|p| p.cpu).fold(1.0, f64::min);
        let quota = match cpu < 1.0 {
            false => None,
            true => match Quota::new(cpu) {
                Ok(q) => Some(q),
                Err(why) => {
                    report
                        .warnings
                        .push(format!("{:.0}% of a core: skipped: {why}", cpu * 100.0));
                    return Ok(Some(()));
                }
            },
        };
        let companions = group
            .iter()
            .find(|p| p.instances > 1)
            .map(|p| self.companions(p))
            .transpose()?;
        let bytes: Vec<Vec<Option<u64>>> = made.iter().map(|m| m.bytes.clone()).collect();
        let built: Vec<(f64, Option<u64>)> = (made.iter())
            .map(|m| (m.build_seconds, m.build_bytes))
            .collect();
        let (mut candidates, about) = split(made);
        let outcome = alternate(&mut candidates, &self.settings, &mut |at, of, what| {
            progress.at(base + 250 + 750 * at / of.max(1), || what.to_string());
            go_on()
        });
        report.interrupted |= outcome.interrupted;
        drop(quota);
        let others_mpps = companions.map_or(Ok(Vec::new()), Companions::end)?;
        let others: f64 = others_mpps.iter().sum();
        let chains = reports(&about, &outcome, &report.machine);
        let mut seen = vec![0usize; group.len()];
        for (m, c) in outcome.measured.iter().zip(chains) {
            let Some((p, k)) = group.get(m.candidate).zip(seen.get_mut(m.candidate)) else {
                continue;
            };
            let Some(level) = p.levels.get(*k) else {
                continue;
            };
            let grown = bytes.get(m.candidate).and_then(|b| b.get(*k).copied());
            *k += 1;
            if c.share_out < 0.999 && p.traffic.strangers.is_none() {
                report.warnings.push(format!(
                    "{} {}: only {:.1}% of the packets left",
                    c.name,
                    level.name(),
                    c.share_out * 100.0
                ));
            }
            let flows = c.traffic.flows;
            let point = PointReport {
                x: p.x,
                label: p.label.clone().unwrap_or_else(|| text::place(p.x)),
                y: PointReport::of(report.y, &c).map(|s| Spread {
                    median: s.median + others,
                    min: s.min + others,
                    max: s.max + others,
                }),
                flows,
                batch: p.batch,
                cpu: p.cpu,
                instances: p.instances,
                others_mpps: others_mpps.clone(),
                build_seconds: built.get(m.candidate).map_or(0.0, |b| b.0),
                build_bytes: built.get(m.candidate).and_then(|b| b.1),
                bytes_per_flow: bytes_per_flow(*level, grown.flatten(), &c, flows),
                measured: c,
            };
            report.add(&p.series, *level, point);
        }
        Ok(Some(()))
    }
}

/// Writes the packets of a point, in the order in which they are in memory, and its chain, if that is no example: what
/// another program needs to be measured on the same. Strangers' packets are templates only, and are left out.
fn save(dir: &Path, p: &PointSpec, m: &Made) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = format!(
        "{} {}",
        p.series,
        p.label.clone().unwrap_or_else(|| format!("{}", p.x))
    );
    let name: String = name.trim().chars().map(plain).collect();
    match &p.chain {
        ChainSpec::Example(..) => {}
        ChainSpec::Click(text) => std::fs::write(dir.join(format!("{name}.click")), text)?,
        ChainSpec::Files(files) => {
            for (file, text) in files {
                std::fs::write(dir.join(format!("{name}-{file}")), text)?;
            }
        }
    }
    let Some(lane) = m.candidate.lanes.first() else {
        return Ok(());
    };
    let known = lane
        .strangers
        .as_ref()
        .map_or(lane.templates.len(), |s| s.known);
    let mut out = CaptureWriter::create_for(dir.join(format!("{name}.pcap")), LinkType::ETHERNET)?;
    for i in 0..known {
        let f = lane.templates.get(i);
        out.write(1_000_000_000 + 1000 * i as i64, f, f.len() as u32)?;
    }
    out.finish()?;
    Ok(())
}

/// State for each flow: what the execution's memory grew by when it was made, of which the flow table is known exactly
/// (its pages may not have been touched then).
fn bytes_per_flow(
    level: Level,
    grown: Option<u64>,
    c: &onefold_bench::measure::ChainReport,
    flows: usize,
) -> Option<f64> {
    let table = c.flow_table.as_ref().map_or(0, |f| f.bytes as u64);
    let all = match level {
        Level::Flow | Level::Auto => grown?.max(table),
        _ => grown?,
    };
    Some(all as f64 / flows.max(1) as f64)
}
