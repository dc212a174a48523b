//! `onefold verify`: the same packets through two executions of a chain.

use super::findings::{finding_json, print_finding, write_captures};
use super::judge::graph;
use super::prepared::Prepared;
use crate::account::{self, Hit, hit};
use crate::classifier::ClassifierArg;
use crate::common::{self, ChainArgs, thousands};
use crate::program;
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result};
use clap::ValueEnum;
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::flow::{DEFAULT_FLOWS, FlowStats};
use onefold_engine::program::{ProgramRunner, Report};
use onefold_packet::Timestamp;
use onefold_verify::generate::adapt::{Adapter, Variant};
use onefold_verify::generate::again::Again;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{Port, Source};
use onefold_verify::{At, Batched, Flow, Options, Outcome, Pair, Reference, Synthesized};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What is compared with the reference graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// The program, packet by packet, and then all levels as `run` chooses them, by costs that the seed makes up
    Auto,
    /// The batched engine over the reference graph.
    Reference,
    /// The synthesized program.
    Program,
    /// The flow table.
    Flow,
    /// All of them.
    All,
}

/// Options of `onefold verify`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Without --in, packets are generated: flows and their answers, variations and close misses, made of the values \
    that the chain's configuration names; jumps of the clock make time-outs expire. Compared are bytes, ports, time stamps and \
    order of what leaves after every packet, and drops by element and reason, the account of packets, states and handler values \
    at checkpoints. A difference is shrunk to a short sequence of simple packets and traced in both executions.\n\n\
    Examples:\n  \
    onefold verify isp-edge --packets 1000000\n  \
    onefold verify isp-edge --in lan=lan.pcap --out-dir found/\n  \
    onefold verify isp-edge --xdp --packets 1000000\n  \
    onefold verify isp-edge --level program --classifier tuple-space\n  \
    onefold verify isp-edge --in lan=anything.pcap --in wan=anything.pcap --adapt\n\n\
    With --prove, --packets N or --level LEVEL does both: the proof is of the program, the comparison of every level that is\n\
    asked for.\n\n\
    Exit status: 0 no difference, 1 a difference (or something was hit that was proved to be unreachable), 2 wrong use or bad input, \
    130 and 143 interrupted (Ctrl-C, SIGTERM) before any difference: what was found out until then is printed."
)]
pub struct Args {
    #[command(flatten)]
    pub(super) chain: ChainArgs,
    /// How many packets are generated [default: 100000]
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// A capture that arrives at a port, instead of generated packets
    #[arg(long = "in", value_name = "PORT=FILE", value_parser = common::port_file)]
    pub(super) inputs: Vec<(String, String)>,
    /// Each frame of the captures also comes in forms that fit the chain: with the entry's MAC address, then also with
    /// addresses that the chain serves; what leaves is answered. Checksums follow: right ones stay right, wrong ones
    /// wrong
    #[arg(long, requires = "inputs")]
    adapt: bool,
    /// What is compared with the reference graph [default: auto]
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// Compared is the chain with an XDP program in front of each port, which drops early (`run --offload xdp`): each
    /// frame through the code, in the kernel where that is allowed, and what passes through the reference graph
    #[arg(long, conflicts_with_all = ["level", "adapt"])]
    xdp: bool,
    #[command(flatten)]
    classifier: ClassifierArg,
    /// Proves that the program is the chain, for all packets at once, instead of trying many; with --packets, --level
    /// or --in, packets are compared, too
    #[arg(long)]
    pub(super) prove: bool,
    /// This program (the text that `explain --program` prints), not the one that is made now. Several, in sequence:
    /// what partial programs are together (docs/program.md)
    #[arg(long, value_name = "FILE")]
    pub(super) program: Vec<PathBuf>,
    /// Plants a fault, for tests of what must notice it
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    fault: Option<crate::program::Fault>,
    /// Entries of the flow table at --level flow; few of them make it forget
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FLOWS)]
    flow_table: usize,
    /// With --prove: give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) time_limit: u32,
    #[command(flatten)]
    pub(super) budget: common::BudgetArgs,
    /// Where captures of the packets that show a difference go, one for each port
    #[arg(long, value_name = "DIR")]
    pub(super) out_dir: Option<PathBuf>,
    /// Stop after this many differences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) max_differences: u16,
    /// Each difference is shrunk to fewer and simpler packets for so many seconds at most; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = onefold_verify::shrink::SECONDS as u32)]
    pub(super) shrink_time: u32,
    /// Prints one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// One level's result.
struct LevelResult {
    name: &'static str,
    outcome: Outcome,
    seconds: f64,
    warnings: Vec<String>,
    /// Frames of captures by how they were fed, and after how many something left.
    adapted: Vec<(Variant, u64, u64)>,
    /// Of a program.
    hit: Option<Hit>,
    /// Packets were generated, not read.
    generated: bool,
}

/// Frames of a batch at the batched engine.
const BATCH: usize = 32;
/// Packets that are generated if nobody says how many.
const DEFAULT_PACKETS: u64 = 100_000;

impl Args {
    pub(super) fn packets(&self) -> u64 {
        self.packets.unwrap_or(DEFAULT_PACKETS)
    }

    /// Are packets compared? With --prove only where something is said about them.
    fn compares(&self) -> bool {
        let said =
            self.packets.is_some() || self.level.is_some() || self.xdp || !self.inputs.is_empty();
        !self.prove || said
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    runner::catch_interrupt();
    let Some(chain) = args.chain.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    let proved = match args.prove {
        true => match super::prove::run(args, &chain)? {
            Some(judged) => Some(judged),
            None => return Ok(common::BAD_INPUT),
        },
        false => None,
    };
    if let Some(judged) = &proved
        && !args.compares()
    {
        if let Some(v) = &judged.json {
            common::print_json(v)?;
        }
        return Ok(judged.status);
    }
    match args.xdp {
        true => super::verify_xdp::compare(args, &chain, proved),
        false => compare(args, &chain, proved),
    }
}

/// Compares packets; `proved`: what came of a proof before it.
fn compare(args: &Args, chain: &Chain, proved: Option<super::prove::Judged>) -> Result<u8> {
    let levels: &[Level] = match args.level.unwrap_or(Level::Auto) {
        Level::Auto => &[Level::Program, Level::Auto],
        Level::Reference => &[Level::Reference],
        Level::Program => &[Level::Program],
        Level::All if !args.program.is_empty() => &[Level::Program, Level::Flow, Level::Auto],
        Level::Flow => &[Level::Flow],
        Level::All => &[Level::Reference, Level::Program, Level::Flow, Level::Auto],
    };
    let Some((graph, start)) = graph(args, chain)? else {
        return Ok(common::BAD_INPUT);
    };
    let given = match args.program.is_empty() {
        true => None,
        false => match program::read_all(&args.program)? {
            Some(p) => Some(p),
            None => return Ok(common::BAD_INPUT),
        },
    };
    if let Some(p) = &given
        && let Err(e) = ProgramRunner::with_program(graph.fork(), p)
    {
        eprintln!("error: the program: {e}");
        return Ok(common::BAD_INPUT);
    }
    let ports = ports(chain);
    let prepared = Prepared::new(&graph, args.budget.budget(), given);
    let mut results = Vec::new();
    for level in levels {
        let r = one_level(args, chain, &graph, &ports, *level, start, &prepared)?;
        let stop = r.outcome.interrupted;
        results.push(r);
        if stop {
            break;
        }
    }
    let mut written = Vec::new();
    if let Some(dir) = &args.out_dir {
        std::fs::create_dir_all(dir).with_context(|| format!("'{}'", dir.display()))?;
        for r in &results {
            for (i, f) in r.outcome.findings.iter().enumerate() {
                written.extend(write_captures(dir, r.name, i + 1, f, &ports)?);
            }
        }
    }
    if args.json {
        let mut v = json(chain, &graph, &results, &ports, &written);
        if let Some(of_proof) = proved.as_ref().and_then(|p| p.json.as_ref()) {
            join(&mut v, of_proof);
        }
        common::print_json(&v)?;
    } else {
        print_text(chain, &graph, &results, &ports, &written);
    }
    let wrong = |r: &LevelResult| r.hit.as_ref().is_some_and(|h| !h.wrong.is_empty());
    let same = results
        .iter()
        .all(|r| r.outcome.findings.is_empty() && !wrong(r));
    let of_proof = proved.map_or(common::HOLDS, |p| p.status);
    Ok(match same {
        true => of_proof,
        false => common::HOLDS_NOT,
    })
}

/// Adds the keys of a proof's object to a comparison's; differences are added up.
pub(super) fn join(to: &mut serde_json::Value, of_proof: &serde_json::Value) {
    let (Some(to), Some(of_proof)) = (to.as_object_mut(), of_proof.as_object()) else {
        return;
    };
    for (k, v) in of_proof {
        let both = to.get(k).and_then(|old| Some(old.as_u64()? + v.as_u64()?));
        match both {
            Some(sum) => to.insert(k.clone(), sum.into()),
            None => to.insert(k.clone(), v.clone()),
        };
    }
}

pub(crate) fn ports(chain: &Chain) -> Vec<Port> {
    let port = |p: &onefold_chain::ChainPort| Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    };
    chain.ports.iter().map(port).collect()
}

fn one_level(
    args: &Args,
    chain: &Chain,
    graph: &Graph,
    ports: &[Port],
    level: Level,
    start: Timestamp,
    prepared: &Prepared<'_>,
) -> Result<LevelResult> {
    let options = Options {
        max_differences: usize::from(args.max_differences),
        shrink_time: Duration::from_secs(args.shrink_time.into()),
        ..Options::default()
    };
    // packets of flows come again about five times
    let packets = match level {
        Level::Flow | Level::Auto => args.packets().div_ceil(5),
        _ => args.packets(),
    };
    let total = match args.inputs.is_empty() {
        true => args.packets(),
        false => 0,
    };
    let mut progress = Progress::new(total, args.quiet);
    progress.phase("making the program, and packets for its rules");
    let begun = Instant::now();
    let reference = Box::new(Reference(graph.fork()));
    let (name, pair, program) = match level {
        Level::Program | Level::Flow | Level::Auto => {
            let program = prepared.program();
            #[allow(unused_mut)]
            let mut runner =
                ProgramRunner::with_program_using(graph.fork(), program, args.classifier.using())?;
            if let Some(told) = args.classifier.told(&runner) {
                eprintln!("note: {told}");
            }
            #[cfg(debug_assertions)]
            crate::program::Fault::plant(args.fault, &mut runner);
            let (name, pair) = match level {
                Level::Flow => {
                    let flow = Box::new(Flow::new(runner, args.flow_table));
                    ("flow", Pair::new(reference, flow, BATCH))
                }
                Level::Auto => {
                    let auto = Box::new(Flow::auto(runner, args.flow_table, args.seed));
                    ("auto", Pair::new(reference, auto, BATCH))
                }
                _ => {
                    let program = Box::new(Synthesized(runner));
                    ("program", Pair::new(reference, program, 1))
                }
            };
            (name, pair, Some(program))
        }
        _ => {
            let batched = Box::new(Batched::new(graph.fork()));
            ("reference", Pair::new(reference, batched, BATCH), None)
        }
    };
    let mut capture = None;
    let mut traffic = None;
    let mut directed = None;
    let source: &mut dyn Source = if args.inputs.is_empty() {
        let hints = Hints::of(graph.spec());
        let t = Traffic::new(ports, hints, args.seed, packets, start, pair.max_batch);
        let mut t = t.context("nothing enters this chain")?;
        if pair.right.exact() {
            t = t.stamped(args.seed);
        }
        let source: &mut dyn Source = match &program {
            Some(_) => directed.insert(prepared.directed(t, ports, (args.seed, packets), start)),
            None => traffic.insert(t),
        };
        source
    } else {
        let capture = capture.insert(runner::packets_of(chain, &args.inputs)?);
        if pair.right.exact() {
            capture.stamp();
        }
        if args.adapt {
            capture.adapt(Adapter::new(prepared.program()), ports);
        }
        capture
    };
    let mut sent = 0;
    let mut go_on = |at: At| {
        match at {
            At::Packets(n) => {
                sent = n;
                let rate = n as f64 / begun.elapsed().as_secs_f64().max(1e-9) / 1e3;
                progress.at(n, || {
                    format!("{name}: {} packets, {rate:.0} kpps", thousands(n))
                });
            }
            At::Shrinking(n) => progress.at(sent, || {
                format!(
                    "{name}: a difference, made smaller: {} events",
                    thousands(n as u64)
                )
            }),
        }
        !runner::interrupted().load(Ordering::SeqCst)
    };
    let mut outcome = match level {
        Level::Flow | Level::Auto => {
            let mut again = Again::new(source, args.seed);
            onefold_verify::run(&pair, &mut again, &options, &mut go_on)
        }
        _ => onefold_verify::run(&pair, source, &options, &mut go_on),
    };
    progress.phase("telling what could have been hit");
    // what packets hit and where they leave the program is the program's level to say
    if matches!(level, Level::Flow | Level::Auto) {
        outcome.report = None;
    }
    let hit = program
        .filter(|_| level == Level::Program)
        .map(|p| hit(p, directed, &outcome));
    progress.finish();
    outcome.interrupted |= runner::interrupted().load(Ordering::SeqCst);
    // in batches nobody can say which frame something left after
    let adapted = (capture.iter().filter(|_| args.adapt && hit.is_some()))
        .flat_map(|c| c.counts.iter().map(|(v, (n, out))| (*v, *n, *out)));
    Ok(LevelResult {
        adapted: adapted.collect(),
        name,
        hit,
        generated: args.inputs.is_empty(),
        outcome,
        seconds: begun.elapsed().as_secs_f64(),
        warnings: capture.map(|c| c.warnings).unwrap_or_default(),
    })
}

/// Frames that a program was given.
fn by_program(r: &LevelResult) -> u64 {
    r.outcome.report.as_ref().map_or(0, |_| r.outcome.packets)
}

/// Those of them that reached an output or a drop by rule.
fn decided(r: &LevelResult) -> u64 {
    by_program(r).saturating_sub(r.hit.as_ref().map_or(0, |h| h.undecided))
}

/// A part of all; `None` of nothing.
fn share(n: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| n as f64 / of as f64)
}

/// The result as INTERFACE documents it.
fn json(
    chain: &Chain,
    graph: &Graph,
    results: &[LevelResult],
    ports: &[Port],
    written: &[String],
) -> serde_json::Value {
    let sum = |f: fn(&LevelResult) -> u64| results.iter().map(f).sum::<u64>();
    let found: Vec<_> = results
        .iter()
        .flat_map(|r| {
            r.outcome
                .findings
                .iter()
                .map(move |f| finding_json(r.name, f, ports, graph))
        })
        .collect();
    let hits: Vec<&Hit> = results.iter().filter_map(|r| r.hit.as_ref()).collect();
    // classes, rules, boundaries: hit, of those that can be
    let of = |i: usize| {
        let all = hits.iter().map(|h| h.of()[i]);
        all.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    let never = |i: usize| account::json(hits.iter().flat_map(|h| &h.never[i]));
    serde_json::json!({
        "chain": chain.name,
        "differences": sum(|r| r.outcome.findings.len() as u64),
        "packets": sum(|r| r.outcome.packets),
        "classes_hit": of(0).0,
        "classes": of(0).1,
        "classes_unreachable": never(0),
        "rules_hit": of(1).0,
        "rules": of(1).1,
        "rules_unreachable": never(1),
        "bounds_hit": of(2).0,
        "bounds": of(2).1,
        "bounds_unreachable": never(2),
        "internal_errors": hits.iter().flat_map(|h| &h.wrong).collect::<Vec<_>>(),
        "punted_packets": sum(|r| r.outcome.report.as_ref().map_or(0, Report::punted)),
        "decided_packets": sum(decided),
        "decided_share": share(sum(decided), sum(by_program)),
        "punts": results.iter().filter_map(|r| r.outcome.report.as_ref()).flat_map(|r| &r.punts)
            .filter(|p| p.packets > 0)
            .map(|p| serde_json::json!({
                "element": p.element, "cause": p.cause, "asked": p.asked, "packets": p.packets }))
            .collect::<Vec<_>>(),
        "not_hit": hits.iter().flat_map(|h| &h.missing)
            .map(|(bound, g)| serde_json::json!({
                "what": if *bound { "bound" } else { "rule" }, "reason": g.reason, "number": g.number, "some": g.some }))
            .collect::<Vec<_>>(),
        "levels": results.iter().map(|r| serde_json::json!({
            "level": r.name,
            "packets": r.outcome.packets,
            "with_output": r.outcome.with_output,
            "alone": r.outcome.alone,
            "differences": r.outcome.findings.len(),
            "seconds": r.seconds,
            "interrupted": r.outcome.interrupted,
            "warnings": r.warnings,
            "flow_table": flow_json(&r.outcome),
            "by_level": r.outcome.levels.map(|[reference, program, flow]| serde_json::json!({
                "reference": reference, "program": program, "flow": flow })),
            "adapted": r.adapted.iter().map(|(v, n, out)| serde_json::json!({
                "frames": v.to_string(), "packets": n, "with_output": out })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "found": found,
        "captures": written,
    })
}

/// What the flow table did, if there was one.
fn flow_json(o: &Outcome) -> Option<serde_json::Value> {
    let f = o.flow?;
    let cause = |(why, n): &(&str, u64)| serde_json::json!({ "cause": why, "packets": n });
    let causes: Vec<_> = o.flow_causes.iter().map(cause).collect();
    Some(serde_json::json!({
        "hits": f.hits, "by_class": f.by_class, "misses": f.misses, "others": f.others, "made": f.made, "ended": f.ended,
        "evicted": f.evicted, "not_remembered": causes, "refused": f.refused, "cleared": f.cleared,
        "bytes": f.bytes }))
}

fn print_text(
    chain: &Chain,
    graph: &Graph,
    results: &[LevelResult],
    ports: &[Port],
    written: &[String],
) {
    for r in results {
        let o = &r.outcome;
        for w in &r.warnings {
            eprintln!("warning: {w}");
        }
        let what = match r.name {
            "reference" => "the batched engine and the reference graph",
            "flow" => "the flow table and the reference graph",
            "auto" => "what run does and the reference graph",
            _ => "the program and the reference graph",
        };
        crate::say!(
            "{}: {} packets through {what}, {} of them with output, {:.1} s{}",
            chain.name,
            thousands(o.packets),
            thousands(o.with_output),
            r.seconds,
            if o.interrupted { " (interrupted)" } else { "" }
        );
        if o.alone > 0 {
            crate::say!(
                "  {:>9} frames sent alone, not in a batch: they go round in the chain",
                thousands(o.alone)
            );
        }
        for (v, n, out) in &r.adapted {
            let share = percent(*out, *n);
            crate::say!("  {:>9} frames: {v}; {share} with output", thousands(*n));
        }
        if let (Some(hit), Some(report)) = (&r.hit, &o.report) {
            account::print(hit, report, o, r.generated);
        }
        if let Some(f) = &o.flow {
            print_flow(f, &o.flow_causes);
        }
        match o.findings.len() {
            0 => crate::say!("  no difference"),
            1 => crate::say!("  1 difference"),
            n => crate::say!("  {n} differences"),
        }
        for (i, f) in o.findings.iter().enumerate() {
            print_finding(i + 1, f, ports, graph);
        }
    }
    for w in written {
        crate::say!("written: {w}");
    }
}

/// What the flow table did.
fn print_flow(f: &FlowStats, causes: &[(&str, u64)]) {
    let all = f.hits + f.misses + f.others;
    crate::say!(
        "  {:>9} packets by the flow table ({}; {} of them without an entry), of {} that it was asked for; {} entries made, {} ended, {} pushed out",
        thousands(f.hits),
        percent(f.hits, all),
        thousands(f.by_class),
        thousands(all),
        thousands(f.made),
        thousands(f.ended),
        thousands(f.evicted)
    );
    for (why, n) in causes {
        crate::say!("  {:>9} not remembered: {why}", thousands(*n));
    }
    if f.refused > 0 {
        crate::say!(
            "  {:>9} entries refused that would have been wrong: please report this",
            thousands(f.refused)
        );
    }
}

/// A share.
pub(crate) fn percent(n: u64, of: u64) -> String {
    match of {
        0 => "-".to_string(),
        _ => format!("{:.1}%", n as f64 * 100.0 / of as f64),
    }
}
