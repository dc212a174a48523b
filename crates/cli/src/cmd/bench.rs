//! `onefold bench`: what a packet costs.

use crate::bench::point::{Mode, Point, modes, reports, split};
use crate::bench::{markdown, text};
use crate::common::{self, ChainArgs, key_value};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::SizeModel;
use onefold_bench::measure::{
    BUFFERS, Machine, Parameters, Report, STRIDE, Settings, alternate, pin,
};
use std::sync::atomic::Ordering;

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
    onefold bench isp-edge:rules=acl-251.rules isp-edge:rules=acl-713.rules --size imix --replies\n\n\
    Exit status: 0 measured, 1 packets are not all accounted for, 2 wrong use or bad input."
)]
pub struct Args {
    /// Chains: files, folders with a chain.yaml, names of examples, or Click configurations; NAME:KEY=VALUE[,KEY=VALUE] sets parameters
    #[arg(value_name = "CHAIN", required = true)]
    chains: Vec<String>,
    /// Sets a parameter of all chains
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// How chains are executed; may be given twice
    #[arg(long, value_enum, default_value = "synthesized")]
    mode: Vec<Mode>,
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
    /// Share of flows that are TCP (0 to 1); the others are UDP
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.5,
        help_heading = "Packets"
    )]
    tcp: f64,
    /// The port that packets enter at; the chain's first one if it is not given
    #[arg(long, value_name = "PORT", help_heading = "Packets")]
    entry: Option<String>,
    /// Half of the packets are answers, and enter where what they answer has left
    #[arg(long, help_heading = "Packets")]
    replies: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Packets")]
    seed: u64,
    /// Packets that are handed over together
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Measurement",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: u16,
    /// Buffers that packets are copied to in turn: what of them fits into which cache is part of every figure, the ceiling's too
    #[arg(long, value_name = "N", default_value_t = BUFFERS as u32, help_heading = "Measurement",
          value_parser = clap::value_parser!(u32).range(256..=65_536))]
    buffers: u32,
    /// Seconds of each slice
    #[arg(
        long,
        value_name = "S",
        default_value_t = 0.5,
        help_heading = "Measurement"
    )]
    seconds: f64,
    /// Slices of each chain and mode
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Measurement",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
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
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
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
        let point = |spec: &String| Point {
            name: spec.clone(),
            chain: chain_args(spec, &self.set),
            modes: modes(&self.mode),
            sizes: sizes.clone(),
            flows: self.flows as usize,
            zipf: self.zipf,
            tcp: self.tcp,
            entry: self.entry.clone(),
            replies: self.replies,
            batch: usize::from(self.batch),
            seed: self.seed,
        };
        Ok(self.chains.iter().map(point).collect())
    }

    fn check(&self) -> Result<()> {
        let number = |what: &str, v: f64, lo: f64, hi: f64| match (lo..=hi).contains(&v) {
            true => Ok(()),
            false => Err(anyhow!("{what} {v}: expected {lo} to {hi}")),
        };
        number("--zipf", self.zipf, 0.0, 10.0)?;
        number("--tcp", self.tcp, 0.0, 1.0)?;
        number("--seconds", self.seconds, 0.001, 3600.0)
    }
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
    args.check()?;
    let points = args.points()?;
    runner::catch_interrupt();
    let interrupted = || runner::interrupted().load(Ordering::SeqCst);
    let mut warnings = Vec::new();
    let core = bound(args, &mut warnings)?;
    let machine = Machine::this(core);
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
    let settings = Settings {
        buffers: args.buffers as usize,
        seconds: args.seconds,
        repeats: usize::from(args.repeats),
    };
    let (mut candidates, about) = split(made);
    let mut progress = Progress::new(0, args.quiet);
    let outcome = alternate(&mut candidates, &settings, &mut |done, of, what| {
        progress.of(done, of, || what.to_string());
        !interrupted()
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
            tcp: args.tcp,
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
