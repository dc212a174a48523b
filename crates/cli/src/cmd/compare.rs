//! `onefold compare kernel`: the same packets through a chain and through Linux with the same rules and routes.

use super::findings::{finding_json, print_finding, write_captures};
use crate::common::{self, ChainArgs, thousands};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result};
use onefold_chain::kernel::{KernelPlan, load_for_kernel};
use onefold_chain::{Chain, Diagnostic};
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_kernel::documented::Known;
use onefold_kernel::{Judged, Lab, Options, Outcome, SharedLab, obstacle};
use onefold_packet::Timestamp;
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::tables::Tables;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{Port, Source};
use onefold_verify::reach::proved::Proved;
use onefold_verify::reach::{Facts, Reach};
use onefold_verify::{At, Pair, Reference, Synthesized};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Options of `onefold compare`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    with: With,
}

/// What a chain is compared with.
#[derive(clap::Subcommand, Debug)]
enum With {
    /// Compares a chain with Linux: the same rules and routes in network namespaces
    Kernel(Box<KernelArgs>),
}

/// Options of `onefold compare kernel`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Each function of the chain becomes a network namespace: of a firewall the rules file goes to\n\
    iptables-restore, ip6tables-restore or nft -j, of a router the addresses and the lines of its routes to ip.\n\
    Generated packets (those of `verify`) enter by virtual interfaces, one after the other, and what leaves\n\
    is compared with the chain's reference graph: which port or none, every byte, ICMP errors and resets by\n\
    kind. A difference is shrunk to a short sequence of simple packets and followed on both sides.\n\
    Differences that are known are listed with their reasons and counted (docs/compare.md). Nothing is left\n\
    behind: namespaces are gone with the process.\n\n\
    Functions that have an equivalent: firewall with rules-file in the format iptables or nftables; router. Needs\n\
    root, ip, nft, and for rules of iptables iptables-restore.\n\n\
    Examples:\n  \
    sudo onefold compare kernel chain.yaml\n  \
    sudo onefold compare kernel chain.yaml --packets 100000 --seed 7 --json\n  \
    sudo onefold compare kernel chain.yaml --in lan=lan.pcap --out-dir found/\n\n\
    Exit status: 0 no difference, 1 a difference, 2 wrong use or bad input, 130 and 143 interrupted (Ctrl-C,\n\
    SIGTERM) before any difference."
)]
pub struct KernelArgs {
    #[command(flatten)]
    chain: ChainArgs,
    /// How many packets are generated
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    packets: u64,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A capture that arrives at a port, instead of generated packets
    #[arg(long = "in", value_name = "PORT=FILE", value_parser = common::port_file)]
    inputs: Vec<(String, String)>,
    /// Differences that are known are told as any other
    #[arg(long)]
    strict: bool,
    /// Where captures of the packets that show a difference go, one for each port
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// Stop after this many differences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    max_differences: u16,
    /// Each difference is shrunk to fewer and simpler packets for so many seconds at most; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = onefold_verify::shrink::SECONDS as u32)]
    shrink_time: u32,
    /// The kernel gets the rules and routes of this chain, another one with the same ports: what differs is told
    #[arg(long, value_name = "CHAIN")]
    against: Option<String>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    match &args.with {
        With::Kernel(k) => kernel(k),
    }
}

/// Loads the chain, and what the kernel is given; `None`: what is wrong has been said.
fn load(args: &KernelArgs) -> Option<(Chain, KernelPlan)> {
    let load = |name: &str| match load_for_kernel(name, &args.chain.options()) {
        Ok((chain, plan)) => {
            common::print_diagnostics(&chain.warnings);
            Some((chain, plan))
        }
        Err(e) => {
            common::print_diagnostics(&common::chain_error(&e));
            None
        }
    };
    let (chain, plan) = load(&args.chain.chain)?;
    let Some(other) = &args.against else {
        return Some((chain, plan));
    };
    let (_, other) = load(other)?;
    let names = |p: &KernelPlan| p.ports.iter().map(|p| p.0.clone()).collect::<Vec<_>>();
    if names(&plan) != names(&other) {
        let d = Diagnostic::error("the chain of --against has other ports");
        common::print_diagnostics(&[d.hint("both chains have the same ports, in the same order")]);
        return None;
    }
    Some((chain, other))
}

fn kernel(args: &KernelArgs) -> Result<u8> {
    runner::catch_interrupt();
    let Some((chain, plan)) = load(args) else {
        return Ok(common::BAD_INPUT);
    };
    if let Some(e) = obstacle(&plan) {
        common::print_diagnostics(&[error(&e)]);
        return Ok(common::BAD_INPUT);
    }
    let start = match args.inputs.is_empty() {
        true => Timestamp::from_secs(1_000),
        false => runner::first_time(&args.inputs)?,
    };
    let build = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    let graph = match common::build(&chain, &build) {
        Ok(graph) => graph,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(common::BAD_INPUT);
        }
    };
    common::print_warnings(&graph);
    let ports = super::verify::ports(&chain);
    let begun = Instant::now();
    let outcome = match compare(args, &chain, &graph, &ports, &plan, start)? {
        Ok(o) => o,
        Err(e) => {
            common::print_diagnostics(&[error(&e)]);
            return Ok(common::BAD_INPUT);
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    let mut written = Vec::new();
    if let Some(dir) = &args.out_dir {
        std::fs::create_dir_all(dir).with_context(|| format!("'{}'", dir.display()))?;
        for (i, f) in outcome.findings.iter().enumerate() {
            written.extend(write_captures(dir, "kernel", i + 1, f, &ports)?);
        }
    }
    match args.json {
        true => drop(common::print_json(&json(
            &chain, &graph, &outcome, &ports, &written, seconds,
        ))?),
        false => print_text(&chain, &graph, &outcome, &ports, &written, seconds),
    }
    Ok(match outcome.findings.is_empty() {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

/// An error, with its hint apart.
fn error(e: &onefold_kernel::KernelError) -> Diagnostic {
    match e {
        onefold_kernel::KernelError::Missing { what, cure } => {
            Diagnostic::error(what.clone()).hint(cure.clone())
        }
        e => Diagnostic::error(e.to_string()),
    }
}

type Compared = std::result::Result<Outcome, onefold_kernel::KernelError>;

fn compare(
    args: &KernelArgs,
    chain: &Chain,
    graph: &Graph,
    ports: &[Port],
    plan: &KernelPlan,
    start: Timestamp,
) -> Result<Compared> {
    let options = Options {
        max_differences: usize::from(args.max_differences),
        shrink_time: Duration::from_secs(args.shrink_time.into()),
        strict: args.strict,
    };
    let total = match args.inputs.is_empty() {
        true => args.packets,
        false => 0,
    };
    let mut progress = Progress::new(total, args.quiet);
    progress.phase("making namespaces, and loading rules and routes");
    let lab = match Lab::make(plan) {
        Ok(lab) => SharedLab::new(lab, ports, options),
        Err(e) => return Ok(Err(e)),
    };
    progress.phase("making the program, and packets for its rules");
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let runner = ProgramRunner::with_program(graph.fork(), &program)?;
    let judged = Judged::new(
        Box::new(Reference(graph.fork())),
        Some(Box::new(Synthesized(runner))),
        lab.clone(),
    );
    let pair = Pair::new(Box::new(Reference(graph.fork())), Box::new(judged), 1);
    let program = Arc::new(program);
    let mut capture = None;
    let mut directed = None;
    let source: &mut dyn Source = match args.inputs.is_empty() {
        true => {
            let hints = Hints::of(graph.spec());
            let t = Traffic::new(ports, hints, args.seed, args.packets, start, 1);
            let t = t.context("nothing enters this chain")?;
            let facts = Facts::of(graph.spec(), &program);
            let reach = Reach::of_until(program.clone(), &facts, runner::stop());
            let d = Directed::new(program.clone(), t, ports, args.seed, args.packets, start);
            let tables = Tables::of(graph, &program);
            directed.insert(d.with_proved(Proved::of(reach)).with_tables(tables))
        }
        false => capture.insert(runner::packets_of(chain, &args.inputs)?),
    };
    let begun = Instant::now();
    let mut sent = 0;
    let mut go_on = |at: At| {
        match at {
            At::Packets(n) => {
                sent = n;
                let rate = n as f64 / begun.elapsed().as_secs_f64().max(1e-9) / 1e3;
                progress.at(n, || format!("{} packets, {rate:.1} kpps", thousands(n)));
            }
            At::Shrinking(n) => progress.at(sent, || {
                format!("a difference, made smaller: {} events", thousands(n as u64))
            }),
        }
        !runner::interrupted().load(Ordering::SeqCst)
    };
    let mut outcome = onefold_kernel::run(&pair, source, &lab, &options, &mut go_on);
    progress.finish();
    if let Ok(o) = &mut outcome {
        o.interrupted |= runner::interrupted().load(Ordering::SeqCst);
    }
    Ok(outcome)
}

/// Packets by what is known of them, in the order of the list.
fn known(o: &Outcome) -> Vec<(Known, u64)> {
    let all = onefold_kernel::documented::ALL.iter();
    all.filter_map(|k| Some((*k, *o.counts.known.get(k)?)))
        .collect()
}

/// The result as docs/json.md says.
fn json(
    chain: &Chain,
    graph: &Graph,
    o: &Outcome,
    ports: &[Port],
    written: &[String],
    seconds: f64,
) -> serde_json::Value {
    let found = o
        .findings
        .iter()
        .map(|f| finding_json("kernel", f, ports, graph));
    serde_json::json!({
        "chain": chain.name,
        "differences": o.findings.len(),
        "packets": o.packets,
        "compared": o.counts.compared,
        "with_output": o.counts.with_output,
        "known": known(o).iter().map(|(k, n)| serde_json::json!({
            "what": k.name, "why": k.why, "packets": n })).collect::<Vec<_>>(),
        "seconds": seconds,
        "interrupted": o.interrupted,
        "found": found.collect::<Vec<_>>(),
        "captures": written,
    })
}

fn print_text(
    chain: &Chain,
    graph: &Graph,
    o: &Outcome,
    ports: &[Port],
    written: &[String],
    seconds: f64,
) {
    crate::say!(
        "{}: {} packets, {} of them compared with the kernel, {} of these with output, {seconds:.1} s{}",
        chain.name,
        thousands(o.packets),
        thousands(o.counts.compared),
        thousands(o.counts.with_output),
        if o.interrupted { " (interrupted)" } else { "" }
    );
    for (k, n) in known(o) {
        crate::say!("  {:>9} known: {}: {}", thousands(n), k.name, k.why);
    }
    match o.findings.len() {
        0 => crate::say!("  no difference"),
        1 => crate::say!("  1 difference"),
        n => crate::say!("  {n} differences"),
    }
    for (i, f) in o.findings.iter().enumerate() {
        print_finding(i + 1, f, ports, graph);
    }
    for w in written {
        crate::say!("written: {w}");
    }
}
