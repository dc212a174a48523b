//! `onefold bench`: what a packet costs.

use crate::bench::point::{Mode, Point, modes, reports, split};
use crate::bench::{live, markdown, sched, text};
use crate::classifier::ClassifierArg;
use crate::common::{self, ChainArgs, key_value};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::experiment::Scale;
use onefold_bench::measure::{
    BATCH, BUFFERS, Machine, Parameters, Report, STRIDE, Settings, alternate, pin,
};
use onefold_bench::{ProtocolMix, SizeModel};
use std::sync::atomic::Ordering;

/// Benchmarks that are not of one process: reserved words, never names of chains.
#[derive(clap::Subcommand, Debug)]
enum Reserved {
    /// Chains on network interfaces between two namespaces that it makes, and the kernel beside them (as root)
    Live(Box<live::Args>),
    /// Scheduling policies on functions in processes, beside each other: the experiments of the papers on it
    Sched(Box<sched::Args>),
}

/// Options of `onefold bench`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Measures what a packet costs: in one process, on one core, from memory to memory, so that no network card blurs it. Several \
    chains (or modes) take turns, A B A B, slice by slice; figures are medians over the slices, with the least and the greatest.\n\n\
    What is counted: processor time of the thread per packet, so that other load on the machine counts little (time on the wall is \
    beside it). In every round the same packets also pass the *ceiling* (copied into the same buffers, first cache line looked at, no \
    processing) and a MAC swap: what a chain costs is its figure less the ceiling's, 'above'.\n\n\
    Packets are made before the clock starts. Flows are aimed at every class that lets packets leave, tried, and opened (TCP by a \
    handshake); they come in random order, never sorted. 'left' is the share of packets that left: look at it before you believe \
    a figure.\n\n\
    A chain's parameters may follow its name: isp-edge:rules=acl-251.rules\n\n\
    Examples:\n  \
    onefold bench routers-1 routers-10\n  \
    onefold bench napts-1 --mode both --flows 64000 --html napts.html\n  \
    onefold bench isp-edge:rules=acl-251.rules isp-edge:rules=acl-713.rules --size imix --replies\n  \
    onefold bench --experiment list\n  \
    onefold bench --experiment chain-length --html chain-length.html\n\n\
    Chains on network interfaces, and the kernel beside them: onefold bench live --help\n\
    Scheduling of functions in processes: onefold bench sched --help\n\n\
    Exit status: 0 measured, 1 packets are not all accounted for, 2 wrong use or bad input.",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    reserved: Option<Reserved>,
    /// Chains: files, folders with a chain.yaml, names of examples, or Click configurations; NAME:KEY=VALUE[,KEY=VALUE]
    /// sets parameters
    #[arg(value_name = "CHAIN", required_unless_present = "experiment")]
    chains: Vec<String>,
    /// Measures an experiment of the literature instead, with the papers' figures beside ours; `list` tells which there
    /// are
    #[arg(long, value_name = "NAME", conflicts_with_all = ["chains", "set", "size", "flows", "zipf", "tcp", "protocols", "entry", "replies", "batch", "markdown"],
          help_heading = "Experiments")]
    experiment: Option<String>,
    /// The experiment's smallest form: a few places, few flows, short slices; to see that it works
    #[arg(long, help_heading = "Experiments")]
    quick: bool,
    /// Only these places of what the experiment sweeps, or others than it has by itself
    #[arg(
        long,
        value_name = "X",
        value_delimiter = ',',
        help_heading = "Experiments"
    )]
    at: Vec<f64>,
    /// Only the experiment's series with this in their names; may be given several times
    #[arg(long, value_name = "NAME", help_heading = "Experiments")]
    series: Vec<String>,
    /// Writes the experiment's figures as a section of a Markdown document
    #[arg(long, value_name = "FILE", help_heading = "Experiments")]
    section: Option<std::path::PathBuf>,
    /// Writes the experiment's chains and packets to a folder, so that other programs can be measured on them
    #[arg(long, value_name = "FOLDER", help_heading = "Experiments")]
    save: Option<std::path::PathBuf>,
    /// Sets a parameter of all chains
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// How chains are executed; may be given twice [default: auto; all that an experiment has]
    #[arg(long, value_enum)]
    mode: Vec<Mode>,
    #[command(flatten)]
    classifier: ClassifierArg,
    /// Length of frames without check sequence: bytes (60 or more), imix, campus, router, isp, datacenter
    #[arg(
        long,
        value_name = "BYTES|MODEL",
        default_value = "64",
        help_heading = "Packets"
    )]
    size: String,
    /// Flows
    #[arg(long, value_name = "N", default_value_t = 4000, help_heading = "Packets",
          value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    flows: u32,
    /// Flows are not equally frequent, but by Zipf's law with this exponent (0: rounds in which each comes once)
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.0,
        help_heading = "Packets"
    )]
    zipf: f64,
    /// Share of flows that are TCP (0 to 1), the others UDP, where a class takes both (all classes get the same number
    /// of flows; how many are TCP is printed)
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.5,
        help_heading = "Packets"
    )]
    tcp: f64,
    /// Shares of the flows' protocols, as of `gen`, instead of --tcp: udp, or tcp=80,udp=19,icmp=1 (ICMP: echo
    /// requests)
    #[arg(
        long,
        value_name = "MIX",
        conflicts_with = "tcp",
        help_heading = "Packets"
    )]
    protocols: Option<ProtocolMix>,
    /// The port that packets enter at; the chain's first one if it is not given
    #[arg(long, value_name = "PORT", help_heading = "Packets")]
    entry: Option<String>,
    /// Half of the packets are answers, and enter where what they answer has left
    #[arg(long, help_heading = "Packets")]
    replies: bool,
    /// Mode flow: share of time (0 to 1) that packets of unknown flows may take; those beyond it are dropped and
    /// counted as overload, so that a flood takes no more from known flows [default: whatever they need]
    #[arg(long, value_name = "SHARE")]
    protect: Option<f64>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Packets")]
    seed: u64,
    /// Packets that are handed over together
    #[arg(long, value_name = "N", default_value_t = BATCH as u16, help_heading = "Measurement",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: u16,
    /// Buffers that packets are copied to in turn: what of them fits into which cache is part of every figure, the
    /// ceiling's too
    #[arg(long, value_name = "N", default_value_t = BUFFERS as u32, help_heading = "Measurement",
          value_parser = clap::value_parser!(u32).range(256..=65_536))]
    buffers: u32,
    /// Seconds of each slice [default: 0.5; of an experiment 0.1, with --quick 0.002]
    #[arg(long, value_name = "S", help_heading = "Measurement")]
    seconds: Option<f64>,
    /// Slices of each chain and mode [default: 5; with --quick 2]
    #[arg(long, value_name = "N", help_heading = "Measurement",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// The core to measure on; the highest that may be used if it is not given
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    core: Option<usize>,
    /// Writes a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<std::path::PathBuf>,
    /// Writes the figures as a section of a Markdown document
    #[arg(long, value_name = "FILE")]
    markdown: Option<std::path::PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// Says on standard error when packets are made, and measures until standard input ends
    #[arg(long, hide = true, conflicts_with = "experiment")]
    companion: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Slices of the round that warms up and of the first one that is measured, of those of all rounds.
fn first_round(slices: u64, repeats: usize) -> u64 {
    slices / (repeats as u64 + 1) * 2
}

/// `NAME:KEY=VALUE,KEY=VALUE` and what is set for all.
fn chain_args(spec: &str, set: &[(String, String)]) -> ChainArgs {
    let own = spec.rsplit_once(':').and_then(|(name, list)| {
        let pairs: Result<Vec<_>, _> = list.split(',').map(key_value).collect();
        Some((name, pairs.ok()?))
    });
    let (name, own) = own.unwrap_or((spec, Vec::new()));
    ChainArgs {
        chain: name.to_string(),
        set: set.iter().cloned().chain(own).collect(),
    }
}

impl Args {
    /// What is asked for.
    fn points(&self) -> Result<Vec<Point>> {
        let sizes = SizeModel::parse(&self.size, None).map_err(|e| anyhow!("--size: {e}"))?;
        let asked = match self.mode.is_empty() {
            true => vec![Mode::Auto],
            false => self.mode.clone(),
        };
        let point = |spec: &String| Point {
            name: spec.clone(),
            chain: chain_args(spec, &self.set),
            modes: modes(&asked),
            sizes: sizes.clone(),
            flows: self.flows as usize,
            zipf: self.zipf,
            protocols: self.mix(),
            entry: self.entry.clone(),
            replies: self.replies,
            batch: usize::from(self.batch),
            seed: self.seed,
            strangers: None,
            classifier: self.classifier,
            protect: self.protect,
            room: None,
        };
        Ok(self.chains.iter().map(point).collect())
    }

    fn check(&self) -> Result<()> {
        let number = |what: &str, v: f64, lo: f64, hi: f64| match (lo..=hi).contains(&v) {
            true => Ok(()),
            false => Err(anyhow!("{what} {v}: expected {lo} to {hi}")),
        };
        if self.experiment.is_none()
            && (self.quick
                || !self.at.is_empty()
                || !self.series.is_empty()
                || self.section.is_some()
                || self.save.is_some())
        {
            bail!("--quick, --at, --series, --section and --save are for an --experiment");
        }
        number("--zipf", self.zipf, 0.0, 10.0)?;
        number("--tcp", self.tcp, 0.0, 1.0)?;
        number("--protect", self.protect.unwrap_or(1.0), 0.0, 1.0)?;
        number("--seconds", self.settings().seconds, 0.001, 3600.0)
    }

    /// What flows are of.
    fn mix(&self) -> ProtocolMix {
        self.protocols.unwrap_or(ProtocolMix {
            tcp: self.tcp,
            udp: 1.0 - self.tcp,
            icmp: 0.0,
        })
    }

    /// How it is measured.
    fn settings(&self) -> Settings {
        let (seconds, repeats) = match (&self.experiment, self.quick) {
            (None, _) => (0.5, 5),
            (Some(_), false) => (0.1, 5),
            (Some(_), true) => (0.002, 2),
        };
        Settings {
            buffers: self.buffers as usize,
            seconds: self.seconds.unwrap_or(seconds),
            repeats: usize::from(self.repeats.unwrap_or(repeats)),
        }
    }
}

/// Runs an experiment, or lists them.
fn experiment(args: &Args, name: &str) -> Result<u8> {
    if name == "list" {
        return crate::bench::experiment::list(args.json);
    }
    let run = crate::bench::experiment::Run {
        name,
        scale: Scale {
            quick: args.quick,
            at: args.at.clone(),
            seed: args.seed,
        },
        modes: modes(&args.mode),
        series: args.series.clone(),
        classifier: args.classifier,
        settings: args.settings(),
        save: args.save.clone(),
        quiet: args.quiet,
    };
    let mut warnings = Vec::from_iter(unlike_release());
    let core = bound(args, &mut warnings)?;
    let Some(report) = run.measure(core, warnings)? else {
        return Ok(common::BAD_INPUT);
    };
    for w in &report.warnings {
        eprintln!("warning: {w}");
    }
    let write = |file: &std::path::Path, text: String| {
        std::fs::write(file, text).with_context(|| format!("'{}'", file.display()))
    };
    if let Some(file) = &args.html {
        write(file, crate::html::experiment_page(&report))?;
    }
    if let Some(file) = &args.section {
        write(file, crate::bench::experiment::markdown::section(&report))?;
    }
    if args.json {
        common::print_json(&report)?;
    } else {
        crate::say!(
            "{}",
            crate::bench::experiment::text::told(&report).trim_end()
        );
        if let Some(f) = &args.html {
            crate::say!("report: {}", f.display());
        }
    }
    Ok(match report.conserved() {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

/// Cargo's profile that this binary was built with (`build.rs`).
pub const PROFILE: &str = env!("ONEFOLD_BUILD_PROFILE");

/// What is to be known of figures of a build that is not the one to be measured.
fn unlike_release() -> Option<String> {
    let what = match PROFILE {
        "release" => return None,
        "debug" => "is not optimised",
        _ => "lacks link-time optimisation",
    };
    Some(format!(
        "this is a build of profile '{PROFILE}', which {what}: figures are worse than those of `cargo build --release`"
    ))
}

/// The thread on a core, if that can be; it must be if a core was asked for.
fn bound(args: &Args, warnings: &mut Vec<String>) -> Result<Option<usize>> {
    match pin(args.core) {
        Ok(c) => Ok(Some(c)),
        Err(e) if args.core.is_some() => bail!("--core: {e}"),
        Err(e) => {
            warnings.push(format!("not bound to one core: {e}"));
            Ok(None)
        }
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    match &args.reserved {
        Some(Reserved::Live(args)) => return live::run(args),
        Some(Reserved::Sched(args)) => return sched::run(args),
        None => {}
    }
    args.check()?;
    runner::catch_interrupt();
    match &args.experiment {
        Some(name) => experiment(args, name),
        None => chains(args),
    }
}

/// Measures chains in alternation.
fn chains(args: &Args) -> Result<u8> {
    let points = args.points()?;
    let interrupted = || runner::interrupted().load(Ordering::SeqCst);
    let mut warnings = Vec::new();
    let core = bound(args, &mut warnings)?;
    let machine = Machine::this(core).built(PROFILE);
    warnings.extend(unlike_release());
    let mut made = Vec::new();
    for p in &points {
        let mut progress = Progress::new(1000, args.quiet);
        let mut go_on = |n: u64, of: u64| {
            progress.at(n * 1000 / of.max(1), || {
                format!("{}: making packets", p.name)
            });
            !interrupted()
        };
        let one = p.make(&mut warnings, &mut go_on);
        progress.finish();
        match one? {
            Some(m) => made.push(m),
            None => return Ok(common::BAD_INPUT),
        }
    }
    let settings = args.settings();
    let mix = args.mix();
    let all = (mix.tcp + mix.udp + mix.icmp).max(f64::MIN_POSITIVE);
    let (mut candidates, about) = split(made);
    if args.companion {
        crate::bench::experiment::companion::begin();
    }
    let mut progress = Progress::new(0, args.quiet);
    let outcome = alternate(&mut candidates, &settings, &mut |done, of, what| {
        progress.of(done, of, || what.to_string());
        // on a busy machine the others may be done before a companion has measured anything: it ends behind its first
        // round, whose last slice is measured when all run-ups have been counted
        let begun = args.companion && done <= first_round(of, settings.repeats);
        begun || !interrupted()
    });
    progress.finish();
    let chains = reports(&about, &outcome, &machine);
    for c in &chains {
        if c.share_out < 0.999 {
            let share = c.share_out * 100.0;
            warnings.push(format!(
                "{} {}: only {share:.1}% of the packets left",
                c.name, c.mode
            ));
        }
        if c.misses_flows() {
            warnings.push(format!(
                "{} {}: the packets that were measured are of {} of {} flows: longer slices (--seconds) cover more of them",
                c.name,
                c.mode,
                common::thousands(c.flows_measured as u64),
                common::thousands(c.traffic.flows as u64)
            ));
        }
        if c.is_short() {
            warnings.push(format!(
                "{} {}: {} packets are few: longer slices or more of them (--seconds, --repeats) make the figure surer",
                c.name,
                c.mode,
                common::thousands(c.packets)
            ));
        }
    }
    let report = Report {
        chains,
        machine,
        parameters: Parameters {
            size: args.size.clone(),
            flows: args.flows as usize,
            zipf: args.zipf,
            tcp: mix.tcp / all,
            icmp: mix.icmp / all,
            replies: args.replies,
            batch: usize::from(args.batch),
            seconds: settings.seconds,
            repeats: settings.repeats,
            seed: args.seed,
            buffers: settings.buffers,
            buffer_stride: STRIDE,
        },
        order: Report::order_of(&outcome),
        rounds: outcome.rounds,
        interrupted: outcome.interrupted,
        warnings,
    };
    tell(args, &report)?;
    Ok(match report.chains.iter().all(|c| c.conserved) {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

/// The report in all forms that were asked for.
fn tell(args: &Args, report: &Report) -> Result<()> {
    for w in &report.warnings {
        eprintln!("warning: {w}");
    }
    let write = |file: &std::path::Path, text: String| {
        std::fs::write(file, text).with_context(|| format!("'{}'", file.display()))
    };
    if let Some(file) = &args.html {
        write(file, crate::html::bench_page(report))?;
    }
    if let Some(file) = &args.markdown {
        write(file, markdown::section(report))?;
    }
    if args.json {
        common::print_json(report)?;
        return Ok(());
    }
    crate::say!("{}", text::table(report).trim_end());
    if let Some(f) = &args.html {
        crate::say!("report: {}", f.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_may_follow_a_chain() {
        let set = [("n".to_string(), "2".to_string())];
        let a = chain_args("isp-edge:rules=acl-251.rules,x=1", &set);
        assert_eq!(a.chain, "isp-edge");
        let keys: Vec<_> = a.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(keys, ["n=2", "rules=acl-251.rules", "x=1"]);
        for plain in ["routers-1", "odd:name/chain.yaml", "a:b"] {
            assert_eq!(chain_args(plain, &[]).chain, plain);
        }
    }
}
