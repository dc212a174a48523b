//! `onefold verify --xdp`: the chain with its XDP programs in front, and without.

use super::findings::{finding_json, print_finding, write_captures};
use super::judge::graph;
use super::prove::Judged;
use super::verify::{Args, join, percent, ports};
use crate::common::{self, thousands};
use crate::program;
use crate::progress::Progress;
use crate::runner;
use crate::xdp::{self, Asked, Early, Told};
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::tables::Tables;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{Port, Source};
use onefold_verify::reach::proved::Proved;
use onefold_verify::reach::{Facts, Reach};
use onefold_verify::{At, Options, Outcome, Pair, Reference};
use onefold_xdp_program::Summary;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Drops, account and states are compared after so many packets.
const CHECKPOINT: usize = 2_000;

/// What came of it.
struct Compared {
    outcome: Outcome,
    asked: Asked,
    told: Told,
    /// Port and program.
    programs: Vec<(String, Summary)>,
    seconds: f64,
}

/// Compares; `proved`: what came of a proof before it.
pub(super) fn compare(args: &Args, chain: &Chain, proved: Option<Judged>) -> Result<u8> {
    let Some((graph, start)) = graph(args, chain)? else {
        return Ok(common::BAD_INPUT);
    };
    let program = match args.program.is_empty() {
        true => onefold_synth::synthesize(&graph.synthesis_input(), args.budget.budget()),
        false => match program::read_all(&args.program)? {
            Some(p) => p,
            None => return Ok(common::BAD_INPUT),
        },
    };
    let ports = ports(chain);
    let c = compared(args, chain, &graph, Arc::new(program), &ports, start)?;
    let mut written = Vec::new();
    if let Some(dir) = &args.out_dir {
        std::fs::create_dir_all(dir).with_context(|| format!("'{}'", dir.display()))?;
        for (i, f) in c.outcome.findings.iter().enumerate() {
            written.extend(write_captures(dir, "xdp", i + 1, f, &ports)?);
        }
    }
    match args.json {
        true => {
            let mut v = json(chain, &graph, &c, &ports, &written);
            if let Some(of_proof) = proved.as_ref().and_then(|p| p.json.as_ref()) {
                join(&mut v, of_proof);
            }
            common::print_json(&v)?;
        }
        false => print_text(chain, &graph, &c, &ports, &written),
    }
    Ok(match c.outcome.findings.is_empty() {
        true => proved.map_or(common::HOLDS, |p| p.status),
        false => common::HOLDS_NOT,
    })
}

fn compared(
    args: &Args,
    chain: &Chain,
    graph: &Graph,
    program: Arc<Program>,
    ports: &[Port],
    start: Timestamp,
) -> Result<Compared> {
    let begun = Instant::now();
    let mut progress = Progress::new(args.packets(), args.quiet);
    progress.phase("making the XDP programs, and packets for the chain's rules");
    let made = xdp::programs(
        chain,
        graph,
        &program,
        &|_, _| true,
        &onefold_xdp_program::Options {
            tells: true,
            ..Default::default()
        },
    )?;
    let programs = made.iter().map(|p| (p.port.clone(), p.generated.summary));
    let programs = programs.collect();
    let (early, asked) = Early::new(graph.fork(), made)?;
    let told = early.told();
    let mut pair = Pair::new(Box::new(Reference(graph.fork())), Box::new(early), 1);
    pair.keep_printed();
    let (mut capture, mut directed) = (None, None);
    let source: &mut dyn Source = match args.inputs.is_empty() {
        true => {
            let hints = Hints::of(graph.spec());
            let t = Traffic::new(ports, hints, args.seed, args.packets(), start, 1);
            let t = t.context("nothing enters this chain")?;
            let facts = Facts::of(graph.spec(), &program);
            let reach = Reach::of_until(program.clone(), &facts, runner::stop());
            let d = Directed::new(program.clone(), t, ports, args.seed, args.packets(), start);
            let tables = Tables::of(graph, &program);
            directed.insert(d.with_proved(Proved::of(reach)).with_tables(tables))
        }
        false => capture.insert(runner::packets_of(chain, &args.inputs)?),
    };
    let options = Options {
        max_differences: usize::from(args.max_differences),
        shrink_time: Duration::from_secs(args.shrink_time.into()),
        checkpoint_every: CHECKPOINT,
    };
    let mut go_on = |at: At| {
        if let At::Packets(n) = at {
            let rate = n as f64 / begun.elapsed().as_secs_f64().max(1e-9) / 1e3;
            let how_far = || format!("xdp: {} packets, {rate:.0} kpps", thousands(n));
            progress.at(n, how_far);
        }
        !runner::interrupted().load(Ordering::SeqCst)
    };
    let mut outcome = onefold_verify::run(&pair, source, &options, &mut go_on);
    progress.finish();
    outcome.interrupted |= runner::interrupted().load(Ordering::SeqCst);
    Ok(Compared {
        outcome,
        asked,
        told: told.get(),
        programs,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

fn by(asked: &Asked) -> (&'static str, Option<&str>) {
    match asked {
        Asked::Kernel => ("kernel", None),
        Asked::Interpreter(why) => ("interpreter", Some(why)),
    }
}

fn json(
    chain: &Chain,
    graph: &Graph,
    c: &Compared,
    ports: &[Port],
    written: &[String],
) -> serde_json::Value {
    let program = |(port, s): &(String, Summary)| {
        serde_json::json!({
            "port": port, "rules": s.rules, "dropping": s.dropping, "classes": s.classes,
            "left": xdp::left_json(s), "given_up": s.given_up, "instructions": s.instructions, "depth": s.depth })
    };
    let found = c.outcome.findings.iter();
    let (by, why) = by(&c.asked);
    serde_json::json!({
        "chain": chain.name,
        "level": "xdp",
        "differences": c.outcome.findings.len(),
        "packets": c.outcome.packets,
        "carried_out_by": by,
        "not_by_the_kernel": why,
        "frames": c.told.frames,
        "dropped_early": c.told.dropped,
        "dropped": c.told.of,
        "not_asked": c.told.unasked,
        "programs": c.programs.iter().map(program).collect::<Vec<_>>(),
        "seconds": c.seconds,
        "interrupted": c.outcome.interrupted,
        "found": found.map(|f| finding_json("xdp", f, ports, graph)).collect::<Vec<_>>(),
        "captures": written,
    })
}

fn print_text(chain: &Chain, graph: &Graph, c: &Compared, ports: &[Port], written: &[String]) {
    let (by, why) = by(&c.asked);
    crate::say!(
        "{}: {} packets through the XDP programs (carried out by the {by}) and the chain, and through the chain \
         alone, {:.1} s{}",
        chain.name,
        thousands(c.outcome.packets),
        c.seconds,
        if c.outcome.interrupted {
            " (interrupted)"
        } else {
            ""
        }
    );
    if let Some(why) = why {
        crate::say!("  not by the kernel: {why}");
    }
    for (port, s) in &c.programs {
        crate::say!("  port {port}: {}", xdp::told(s));
    }
    crate::say!(
        "  {:>9} frames dropped early, {} of the {} that the chain drops; all others passed",
        thousands(c.told.dropped),
        percent(c.told.dropped, c.told.of),
        thousands(c.told.of)
    );
    if c.told.unasked > 0 {
        let n = thousands(c.told.unasked);
        crate::say!(
            "  {n:>9} frames of a length that the kernel does not take here passed unasked"
        );
    }
    match c.outcome.findings.len() {
        0 => crate::say!("  no difference"),
        1 => crate::say!("  1 difference"),
        n => crate::say!("  {n} differences"),
    }
    for (i, f) in c.outcome.findings.iter().enumerate() {
        print_finding(i + 1, f, ports, graph);
    }
    for w in written {
        crate::say!("written: {w}");
    }
}
