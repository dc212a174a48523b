//! `onefold bench sched`: experiments with scheduling of functions in processes (`onefold_bench::scheduling`).
//!
//! Each trial is a run of its own (`trial`): the chain's text (`chain`), `onefold run` on two cores, a load at a fixed
//! rate, and two looks at its status, between which everything is counted. Policies take turns, A B A B, round by
//! round.

mod chain;
pub mod markdown;
pub mod report;
mod step;
mod tcp;
pub mod text;
mod trial;

use crate::cmd::bench::PROFILE;
use crate::common;
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::measure::{Machine, cores};
use onefold_bench::scheduling::{ALL, Experiment, Load, Results, Run, Setting, find};
use report::SchedReport;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use trial::{Bench, Offered};

/// Options of `onefold bench sched`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Runs a chain of functions in processes under several scheduling policies in turn, A B A B, each \
        for a moment, and \
    tells what came out, what was wasted, who had the processor, and how long packets took; beside it what the \
    papers report, and \
    which of the lines that are to hold do. Generator, launcher and policy are on the first core, functions on the \
    second one. Real \
    time and control groups take root.\n\n\
    Examples:\n  \
    onefold bench sched list\n  \
    sudo onefold bench sched nfvnice-7 --quick\n  \
    sudo onefold bench sched unis-4 --only light --policy unis --policy cooperative\n  \
    sudo onefold bench sched merged --html merged.html --section merged.md\n  \
    sudo onefold bench sched all --quick --json\n\n\
    Exit status: 0 measured, whether lines hold or not; 1 packets are not all accounted for, or nothing was \
    measured; 2 wrong use."
)]
pub struct Args {
    /// Experiments; `list` tells which there are, `all` runs them all
    #[arg(value_name = "list|all|NAME", required = true)]
    names: Vec<String>,
    /// The smallest form: seconds for each policy and setting, one round, fewer settings
    #[arg(long)]
    quick: bool,
    /// Only settings of this name, or, if there is none, with this in their names; may be given several times
    #[arg(long, value_name = "SETTING")]
    only: Vec<String>,
    /// Only policies of this name in the experiment's table; may be given several times
    #[arg(long, value_name = "POLICY")]
    policy: Vec<String>,
    /// Seconds that are measured of each trial [default: 1.5; with --quick 0.6]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Rounds [default: 3; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: Option<u16>,
    /// Writes a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Writes the figures as a section of a Markdown document
    #[arg(long, value_name = "FILE")]
    section: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Part of a trial's measured time that goes by before it, until loads and estimates have settled.
const WARM_UP: f64 = 0.4;

/// Seconds that it takes to begin and to end a trial.
const AROUND: f64 = 0.25;

impl Args {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.6 } else { 1.5 })
    }

    fn repeats(&self) -> usize {
        usize::from(self.repeats.unwrap_or(if self.quick { 1 } else { 3 }))
    }

    /// Seconds that trials of these settings take, about.
    fn takes(&self, settings: &[Setting]) -> f64 {
        let one = |s: &Setting| {
            let each = self.seconds() * (s.longer + WARM_UP) + AROUND;
            let shares = s.chains.iter().any(|c| matches!(c.load, Load::Share(_)));
            let first = if shares { each } else { 0.0 };
            each * s.runs.len() as f64 * self.repeats() as f64 + first
        };
        settings.iter().map(one).sum()
    }

    fn experiments(&self) -> Result<Vec<&'static Experiment>> {
        let mut all = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => all.extend(ALL),
                name => all.push(find(name).ok_or_else(|| {
                    let names: Vec<_> = ALL.iter().map(|e| e.name).collect();
                    anyhow!(
                        "no experiment '{name}'; hint: there are {}",
                        names.join(", ")
                    )
                })?),
            }
        }
        Ok(all)
    }

    /// What is left of an experiment.
    fn settings(&self, e: &Experiment) -> Result<Vec<Setting>> {
        let mut all = (e.settings)(self.quick);
        if !self.only.is_empty() {
            let whole = |o: &String| all.iter().any(|s| s.label == *o);
            let (whole, parts): (Vec<&String>, Vec<&String>) =
                self.only.iter().partition(|o| whole(o));
            all.retain(|s| {
                whole.contains(&&s.label) || parts.iter().any(|o| s.label.contains(o.as_str()))
            });
        }
        if !self.policy.is_empty() {
            for s in &mut all {
                s.runs.retain(|r| self.policy.contains(&r.label));
            }
            all.retain(|s| !s.runs.is_empty());
        }
        if all.is_empty() {
            bail!("{}: --only and --policy leave nothing of it", e.name);
        }
        Ok(all)
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    if args.names.iter().any(|n| n == "list") {
        return list(args);
    }
    if !(0.02..=600.0).contains(&args.seconds()) {
        bail!("--seconds is from 0.02 to 600");
    }
    let experiments = args.experiments()?;
    let [generator, functions, ..] = cores()[..] else {
        bail!(
            "bench sched needs two cores: one for the load and the policy, one for the functions"
        );
    };
    let mut planned = Vec::new();
    for e in experiments {
        planned.push((e, args.settings(e)?));
    }
    if !args.quiet {
        eprintln!("{}", foretold(args, &planned));
    }
    runner::catch_interrupt();
    let folder = super::experiment::Folder::new()?;
    let bench = Bench {
        exe: std::env::current_exe().context("this program's file")?,
        folder: folder.path().to_path_buf(),
        cores: (generator, functions),
        seconds: args.seconds(),
        warm_up: args.seconds() * WARM_UP,
    };
    let trials = |s: &[Setting]| s.iter().map(|s| s.runs.len()).sum::<usize>() * args.repeats();
    let total: usize = planned.iter().map(|p| trials(&p.1)).sum();
    let mut left: f64 = planned.iter().map(|p| args.takes(&p.1)).sum();
    let mut progress = Progress::new(total as u64, args.quiet);
    let mut reports = Vec::new();
    let mut begun = 0;
    for (n, (e, settings)) in planned.iter().enumerate() {
        if !args.quiet && planned.len() > 1 {
            progress.say(&format!(
                "{} of {}: {}, {} trials; {} left",
                n + 1,
                planned.len(),
                e.name,
                trials(settings),
                about(left)
            ));
        }
        left -= args.takes(settings);
        reports.push(measured(
            args,
            &bench,
            (e, settings),
            (&mut progress, begun),
        )?);
        begun += trials(settings) as u64;
        if interrupted() {
            break;
        }
    }
    progress.finish();
    tell(args, &reports)?;
    let fine =
        |r: &SchedReport| r.conserved && r.results.cells.iter().any(|c| !c.rounds.is_empty());
    Ok(match reports.iter().all(fine) {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

/// Seconds in words.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("about {s:.0} s"),
        s => format!("about {:.0} min", s / 60.0),
    }
}

/// What is to come.
fn foretold(args: &Args, planned: &[(&Experiment, Vec<Setting>)]) -> String {
    let trials: usize = planned
        .iter()
        .flat_map(|p| &p.1)
        .map(|s| s.runs.len() * args.repeats())
        .sum();
    let takes = planned.iter().map(|p| args.takes(&p.1)).sum();
    let names: Vec<&str> = planned.iter().map(|p| p.0.name).collect();
    let what = match names[..] {
        [one] => one.to_string(),
        _ => format!("{} experiments", names.len()),
    };
    format!("bench sched: {what}, {trials} trials, {}", about(takes))
}

fn interrupted() -> bool {
    runner::interrupted().load(Ordering::SeqCst)
}

/// All rounds of an experiment.
fn measured(
    args: &Args,
    bench: &Bench,
    (e, settings): (&'static Experiment, &[Setting]),
    (progress, begun): (&mut Progress, u64),
) -> Result<SchedReport> {
    let mut results = Results::new(settings);
    let mut offered: Vec<Option<f64>> = vec![None; settings.len()];
    let (mut conserved, mut warnings, mut done) = (true, Vec::new(), begun);
    'rounds: for round in 0..args.repeats() {
        let mut cell = 0;
        for (s, offered) in settings.iter().zip(&mut offered) {
            for r in &s.runs {
                if interrupted() {
                    break 'rounds;
                }
                progress.at(done, || format!("{}: {}, {}", e.name, s.label, r.label));
                done += 1;
                let Some(c) = results.cells.get_mut(cell) else {
                    break;
                };
                cell += 1;
                if c.skipped.is_some() {
                    continue;
                }
                match one(bench, s, r, offered) {
                    Ok(t) => {
                        if !t.conserved {
                            conserved = false;
                            warnings.push(format!(
                                "{}, {}: packets are not all accounted for",
                                s.label, r.label
                            ));
                        }
                        c.rounds.push(t.figures);
                    }
                    Err(_) if interrupted() => break 'rounds,
                    // what does not start the first time does not start at all
                    Err(e) if round == 0 => c.skipped = Some(format!("{e:#}")),
                    Err(e) => warnings.push(format!("{}, {}: {e:#}", s.label, r.label)),
                }
            }
        }
    }
    let machine = Machine::this(Some(bench.cores.1)).built(PROFILE);
    let mut report = SchedReport::new(e, results, machine);
    (report.quick, report.interrupted) = (args.quick, interrupted());
    (report.seconds, report.repeats) = (args.seconds(), args.repeats());
    (report.conserved, report.warnings) = (conserved, warnings);
    Ok(report)
}

/// A trial; where the load is a share of what a policy has at its best, that is measured first, once.
fn one(bench: &Bench, s: &Setting, r: &Run, full: &mut Option<f64>) -> Result<trial::Trial> {
    let shares = s.chains.iter().any(|c| matches!(c.load, Load::Share(_)));
    if shares && full.is_none() {
        let first = s.runs.first().unwrap_or(r);
        let most = bench
            .trial(s, first, Offered::Most)
            .context("its highest rate")?;
        *full = most.figures.get("Mpps").map(|m| m * 1e6);
    }
    bench.trial(s, r, Offered::Of(full.unwrap_or(0.0)))
}

/// Tells which experiments there are.
fn list(args: &Args) -> Result<u8> {
    let takes = |e: &Experiment| args.takes(&(e.settings)(args.quick));
    if args.json {
        let one = |e: &&Experiment| {
            serde_json::json!({
                "name": e.name, "title": e.title, "shows": e.shows, "shrunk": e.shrunk,
                "published": e.published, "settings": (e.settings)(args.quick).len(),
                "seconds": takes(e).round(),
            })
        };
        let all: Vec<_> = ALL.iter().map(one).collect();
        return common::print_json(&serde_json::json!({ "experiments": all }));
    }
    for e in ALL {
        crate::say!("{:20} {:14} {}", e.name, about(takes(e)), e.title);
    }
    let all = ALL.iter().map(|e| takes(e)).sum();
    crate::say!("{:20} {:14}", "all", about(all));
    Ok(common::HOLDS)
}

/// The reports in all forms that were asked for.
fn tell(args: &Args, reports: &[SchedReport]) -> Result<()> {
    let write = |file: &std::path::Path, text: String| {
        std::fs::write(file, text).with_context(|| format!("'{}'", file.display()))
    };
    for r in reports {
        for w in &r.warnings {
            eprintln!("warning: {}: {w}", r.experiment);
        }
    }
    if let Some(file) = &args.html {
        write(file, crate::html::sched_page(reports))?;
    }
    if let Some(file) = &args.section {
        write(file, reports.iter().map(markdown::section).collect())?;
    }
    if args.json {
        return match reports {
            [one] => common::print_json(one).map(|_| ()),
            all => common::print_json(&serde_json::json!({ "experiments": all })).map(|_| ()),
        };
    }
    for r in reports {
        crate::say!("{}", text::told(r).trim_end());
        crate::say!("");
    }
    if let Some(f) = &args.html {
        crate::say!("report: {}", f.display());
    }
    Ok(())
}
