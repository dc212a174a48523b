//! `onefold bench live`: chains on network interfaces, beside each other and beside the kernel.

mod attack;
mod device;
mod driver;
mod experiments;
mod measure;
mod memory;
mod report;
mod rival;
mod rows;
mod testpmd;
pub mod text;
mod topology;
mod usage;

pub use report::{LiveReport, LoadReport, RowReport};

use crate::cmd::bench::PROFILE;
use crate::common;
use crate::live::{Poll, seconds};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use driver::Trials;
use experiments::{Experiment, RuleFile, RuleFiles, plan, published, shipped_rules};
use measure::{Bench, Load, Sample, Steering, interrupted};
use memory::Replays;
use onefold_bench::measure::{Machine, Spread, cores};
use report::{Parameters, RatioReport};
use rows::{Device, KINDS, Row};
use std::path::PathBuf;
use std::time::Duration;
use topology::Topology;

/// Options of `onefold bench live`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Makes two network namespaces with two pairs of virtual interfaces between them, `onefold gen` on one \
    core in the one, the chain on another core in the other, and removes them at the end; what a killed run has left \
    behind is removed by the next one. Needs root. Rows take turns, A B A B; figures are medians over the rounds.\n\n\
    For each row the highest rate with less than --loss is searched for (RFC 2544). Processor time per packet is \
    measured at nine tenths of it: of the chain's process, the kernel's part of receiving and sending included, and of \
    everything on its core. Where the generator is the bound, compare that.\n\n\
    Examples:\n  \
    sudo onefold bench live\n  \
    sudo onefold bench live --rows isp-edge --rows kernel --repeats 3\n  \
    sudo onefold bench live --experiment batch --html batch.html\n  \
    sudo onefold bench live --experiment latency --json\n  \
    sudo onefold bench live --experiment memory\n  \
    sudo onefold bench live --experiment attack --flows 10000\n  \
    sudo onefold bench live --experiment chains --rows 64 --rows mix\n\n\
    Exit status: 0 measured, 1 nothing could be measured, 2 wrong use, or it cannot be done here."
)]
pub struct Args {
    /// What is measured
    #[arg(long, value_enum, default_value_t = Experiment::Throughput)]
    experiment: Experiment,
    /// Only rows with this in their names; may be given several times
    #[arg(long, value_name = "NAME")]
    rows: Vec<String>,
    /// Rounds [default: 7; other experiments than throughput 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// Seconds that a trial sends
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = seconds)]
    trial: Duration,
    /// The most that may be lost, as a share of what is sent
    #[arg(long, value_name = "SHARE", default_value_t = 0.001)]
    loss: f64,
    /// A search ends when the highest rate that passed and the lowest that did not are no further apart than this share
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    step: f64,
    /// Length of frames without check sequence: bytes (60 or more), imix, campus, router, isp, datacenter
    #[arg(long, value_name = "BYTES|MODEL", default_value = "60")]
    size: String,
    /// Flows
    #[arg(long, value_name = "N", default_value_t = 1000)]
    flows: u32,
    /// What chains do while no packets come, as of `run`; who looks again and again uses the whole core, and processor
    /// time per packet says nothing; who sleeps at once is woken for every few packets, which costs more than they do
    #[arg(long, value_enum, default_value_t = Poll::Moderate)]
    poll: Poll,
    /// A rate passes if one of so many trials does
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// On whose core the kernel takes in what arrives at an interface [default: all; in the experiment attack kernel,
    /// as more packets than a core can take in leave nothing of it to whatever receives them there]
    #[arg(long, value_enum)]
    steering: Option<Steering>,
    /// Seed of what is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// The generator's core and the device's.
fn two_cores() -> Result<(usize, usize)> {
    match cores()[..] {
        [device, generator, ..] => Ok((generator, device)),
        _ => bail!("bench live needs two cores, one for the generator and one for the device"),
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    if !(0.0..1.0).contains(&args.loss) || !(0.0001..=0.5).contains(&args.step) {
        bail!("--loss is from 0 to below 1, --step from 0.0001 to 0.5");
    }
    if let Some(o) = topology::obstacle() {
        bail!("{o}");
    }
    runner::catch_interrupt();
    let (generator_core, device_core) = two_cores()?;
    let left = topology::clean();
    if left > 0 && !args.quiet {
        eprintln!("removed {left} namespaces that a killed run had left behind");
    }
    let rules = shipped_rules("acl-251.rules")?;
    let mut files = RuleFiles::default();
    match args.experiment {
        Experiment::Latency => files.long = Some(RuleFile::make(8550, args.seed)?),
        Experiment::Throughput => {
            let text = rival::stateful(&rules)?;
            files.stateful = Some(RuleFile::of("established", text.as_bytes())?);
        }
        _ => {}
    }
    let (mut rows, loads) = plan(args.experiment, "acl-251.rules", &files);
    rows.retain(|r| {
        let named = |part: &String| r.title().contains(part.as_str());
        args.rows.is_empty() || args.rows.iter().any(named)
    });
    if rows.is_empty() {
        bail!("--rows: no row has that in its name");
    }
    let topology = Topology::make()?;
    let poll = args.poll.to_possible_value();
    let bench = Bench {
        topology: &topology,
        exe: std::env::current_exe().context("this program's file")?,
        generator_core,
        device_core,
        trials: Trials {
            seconds: args.trial.as_secs_f64(),
            loss: args.loss,
            step: args.step,
            attempts: args.attempts,
            size: args.size.clone(),
            flows: args.flows,
            seed: args.seed,
        },
        rules,
        replays: Replays::new(),
        poll: poll.map_or(String::new(), |p| p.get_name().to_string()),
        steering: args.steering.unwrap_or(match args.experiment {
            Experiment::Attack => Steering::Kernel,
            _ => Steering::All,
        }),
    };
    let report = measured(args, &bench, &rows, &loads)?;
    drop(topology);
    tell(args, &report)?;
    Ok(
        match (report.rows.iter()).any(|r| r.throughput_pps.or(r.overloaded_pps).is_some()) {
            true => common::HOLDS,
            false => common::HOLDS_NOT,
        },
    )
}

/// A row while it is measured.
struct Series<'a> {
    row: &'a Row,
    skipped: Option<String>,
    samples: Vec<Sample>,
}

impl Series<'_> {
    /// Its median throughput so far.
    fn near(&self) -> Option<f64> {
        Spread::of(self.samples.iter().filter_map(|s| s.pps)).map(|s| s.median)
    }
}

fn obstacle(row: &Row) -> Option<String> {
    match row.device {
        Device::Chain(k) => KINDS.get(k).and_then(rows::Kind::obstacle),
        Device::Memory => KINDS[rows::MEMIF].obstacle(),
        Device::Testpmd(_) => testpmd::obstacle(),
        Device::Kernel(_) => rival::obstacle(),
    }
}

/// All rounds.
fn measured(
    args: &Args,
    bench: &Bench<'_>,
    rows: &[Row],
    loads: &[(String, Load)],
) -> Result<LiveReport> {
    let default = match args.experiment {
        Experiment::Throughput => 7,
        _ => 3,
    };
    let repeats = usize::from(args.repeats.unwrap_or(default));
    let mut all: Vec<Series<'_>> = (rows.iter())
        .map(|row| Series {
            row,
            skipped: obstacle(row),
            samples: Vec::new(),
        })
        .collect();
    let mut loads = loads.to_vec();
    let total = (repeats * rows.len()) as u64;
    let mut progress = Progress::new(total, args.quiet);
    let (mut order, mut rounds, mut done) = (Vec::new(), 0, 0);
    'rounds: for round in 0..repeats {
        for s in &mut all {
            done += 1;
            if interrupted() {
                break 'rounds;
            }
            if s.skipped.is_some() {
                continue;
            }
            progress.at(done - 1, || s.row.title());
            let at: Vec<Load> = loads.iter().map(|l| l.1).collect();
            match bench.round(s.row, s.near(), &at) {
                Ok(sample) => s.samples.push(sample),
                Err(_) if interrupted() => break 'rounds,
                // what does not start the first time does not start at all
                Err(e) if round == 0 => s.skipped = Some(format!("{e:#}")),
                Err(e) => return Err(e).with_context(|| s.row.title()),
            }
            order.push(s.row.title());
            // the same load for all: what one frame a system call can stand
            if args.experiment == Experiment::Batch
                && loads.is_empty()
                && let Some(pps) = s.near()
            {
                loads = [0.2, 0.8]
                    .map(|share| (format!("{:.0}%", share * 100.0), Load::Pps(pps * share)))
                    .to_vec();
                let at: Vec<Load> = loads.iter().map(|l| l.1).collect();
                if let Ok(sample) = bench.round(s.row, s.near(), &at) {
                    s.samples = vec![sample];
                }
            }
        }
        rounds += 1;
    }
    progress.finish();
    Ok(reported(
        args,
        bench,
        (&all, &loads),
        (rounds, repeats, order),
    ))
}

fn reported(
    args: &Args,
    bench: &Bench<'_>,
    (all, loads): (&[Series<'_>], &[(String, Load)]),
    (rounds, repeats, order): (usize, usize, Vec<String>),
) -> LiveReport {
    let rows: Vec<RowReport> = all.iter().map(|s| row_report(s, loads)).collect();
    let ratios = match args.experiment {
        Experiment::Attack => attack::ratios(all.iter().map(|s| (s.row, &s.samples[..]))),
        e => ratios(e, all),
    };
    let mut warnings = Vec::new();
    if PROFILE != "release" {
        warnings.push(format!(
            "this is a build of profile '{PROFILE}': figures are worse than those of `cargo build --release`"
        ));
    }
    let machine = Machine::this(Some(bench.device_core)).built(PROFILE);
    if machine.load.is_some_and(|l| l > 0.5) {
        warnings.push(
            "the machine has other work to do: packets are lost when a core is taken away for a moment, and rates are \
             lower than they would be"
                .to_string(),
        );
    }
    for r in rows.iter().filter(|r| r.generator_bound > 0) {
        warnings.push(format!(
            "{}: the generator was the bound in {} of {} rounds; compare processor time per packet",
            r.name,
            r.generator_bound,
            r.rounds.len()
        ));
    }
    LiveReport {
        experiment: args.experiment.name(),
        conclusions: match args.experiment {
            Experiment::Attack => attack::conclusions(&ratios),
            Experiment::Batch => conclusions(&rows),
            Experiment::Memory => memory::conclusions(&process_times(all)),
            _ => Vec::new(),
        },
        ratios,
        rows,
        published: published(args.experiment),
        rounds,
        order,
        machine,
        parameters: Parameters {
            size: match args.experiment {
                Experiment::Chains => "each row".to_string(),
                _ => args.size.clone(),
            },
            flows: args.flows,
            trial_seconds: bench.trials.seconds,
            loss: args.loss,
            step: args.step,
            poll: bench.poll.clone(),
            attempts: args.attempts,
            steering: match bench.steering {
                Steering::All => "all",
                Steering::Kernel => "kernel",
            },
            repeats,
            generator_core: bench.generator_core,
            device_core: bench.device_core,
        },
        interrupted: interrupted(),
        warnings,
    }
}

/// Processor time per packet of each row, round by round.
fn process_times<'a>(all: &[Series<'a>]) -> Vec<(&'a Row, Vec<f64>)> {
    let times = |s: &Series<'a>| {
        let times = s.samples.iter().filter_map(|s| s.process_ns);
        (s.row, times.collect())
    };
    all.iter().map(times).collect()
}

fn row_report(s: &Series<'_>, loads: &[(String, Load)]) -> RowReport {
    let of = |f: fn(&Sample) -> Option<f64>| Spread::of(s.samples.iter().filter_map(f));
    let load = |(i, (name, _)): (usize, &(String, Load))| {
        let at = || s.samples.iter().filter_map(move |s| s.loads.get(i));
        let p = |k: usize| Spread::of(at().filter_map(|a| a.latency?.get(k).copied()));
        LoadReport {
            name: name.clone(),
            sent_pps: Spread::of(at().map(|a| a.sent_pps)),
            loss: Spread::of(at().map(|a| a.loss)),
            p50: p(0),
            p90: p(1),
            p99: p(2),
            p999: p(3),
        }
    };
    RowReport {
        name: s.row.title(),
        device: s.row.name.clone(),
        ports: s.row.kind(),
        skipped: s.skipped.clone(),
        throughput_pps: of(|s| s.pps),
        rounds: s.samples.iter().map(|s| s.pps).collect(),
        generator_bound: s.samples.iter().filter(|s| s.generator_bound).count(),
        overloaded_pps: of(|s| s.overloaded.map(|o| o.0)),
        busy_share: of(|s| s.overloaded.map(|o| o.1)),
        process_ns_per_packet: of(|s| s.process_ns),
        core_ns_per_packet: of(|s| s.core_ns),
        loads: loads.iter().enumerate().map(load).collect(),
    }
}

/// Which batch is best at what.
fn conclusions(rows: &[RowReport]) -> Vec<String> {
    let least = |of: &dyn Fn(&RowReport) -> Option<Spread>| {
        let all = rows.iter().filter_map(|r| Some((r, of(r)?.median)));
        all.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let first = |of: &dyn Fn(&RowReport) -> Option<Spread>| rows.first().and_then(of);
    let mut out = Vec::new();
    let mut say =
        |what: String, of: &dyn Fn(&RowReport) -> Option<Spread>, unit: f64, name: &str| {
            if let (Some((r, v)), Some(one)) = (least(of), first(of)) {
                let number = |v: f64| crate::bench::text::number(v / unit);
                out.push(format!(
                    "{what}: least with {} ({} {name}; {}: {})",
                    r.ports,
                    number(v),
                    rows.first().map_or("", |r| r.ports),
                    number(one.median)
                ));
            }
        };
    say(
        "processor time per packet".to_string(),
        &|r| r.process_ns_per_packet,
        1.0,
        "ns",
    );
    let loads = rows.first().map_or(&[][..], |r| &r.loads);
    for (i, l) in loads.iter().enumerate() {
        let at = |r: &RowReport, p: fn(&LoadReport) -> Option<Spread>| r.loads.get(i).and_then(p);
        say(
            format!("median latency at {} load", l.name),
            &|r| at(r, |l| l.p50),
            1e3,
            "us",
        );
        say(
            format!("p99 at {} load", l.name),
            &|r| at(r, |l| l.p99),
            1e3,
            "us",
        );
    }
    out
}

/// Rates compared round by round: chains with the MAC swap on the same ports, and with the kernel.
fn ratios(e: Experiment, all: &[Series<'_>]) -> Vec<RatioReport> {
    if e != Experiment::Throughput {
        return Vec::new();
    }
    let ratio = |a: &Series<'_>, b: &Series<'_>, of: fn(&Sample) -> Option<f64>| {
        let pairs = a.samples.iter().zip(&b.samples);
        Spread::of(pairs.filter_map(|(a, b)| Some(of(a)? / of(b)?).filter(|r| r.is_finite())))
    };
    let mut out = Vec::new();
    for a in all {
        let kernel = matches!(a.row.device, Device::Kernel(_));
        for b in all.iter().filter(|b| !std::ptr::eq(*b, a)) {
            let swap = b.row.name == "l2fwd" && b.row.device == a.row.device;
            // the MAC swap is compared with DPDK's, and is what others are compared with
            if a.row.name == "l2fwd" && !matches!(b.row.device, Device::Testpmd(_)) {
                continue;
            }
            let rival = match b.row.device {
                Device::Kernel(_) => !kernel,
                Device::Testpmd(Some(k)) => a.row.device == Device::Chain(k),
                _ => false,
            };
            if !swap && !rival {
                continue;
            }
            let name = format!("{} over {}", a.row.title(), b.row.title());
            out.push(RatioReport {
                ratio: ratio(a, b, |s| s.pps),
                name: format!("rate: {name}"),
            });
            if swap {
                out.push(RatioReport {
                    ratio: ratio(a, b, |s| s.process_ns),
                    name: format!("processor time per packet: {name}"),
                });
            }
        }
    }
    out.retain(|r| r.ratio.is_some());
    out
}

/// The report in all forms that were asked for.
fn tell(args: &Args, report: &LiveReport) -> Result<()> {
    for w in &report.warnings {
        eprintln!("warning: {w}");
    }
    if let Some(file) = &args.html {
        std::fs::write(file, crate::html::live_page(report))
            .map_err(|e| anyhow!("'{}': {e}", file.display()))?;
    }
    if args.json {
        common::print_json(report)?;
        return Ok(());
    }
    crate::say!("{}", text::told(report).trim_end());
    if let Some(f) = &args.html {
        crate::say!("report: {}", f.display());
    }
    Ok(())
}
