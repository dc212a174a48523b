//! `--workers N`: each with a chain, an executor and ports of its own, in a thread of its own. They share nothing while
//! packets go through; what they have done is put together when all of them have ended.

use super::{Args, Made, Mode, executor, report, rules};
use crate::common;
use crate::deploy::{Renewal, Verification, Verifier};
use crate::live::LivePlan;
use crate::merge;
use crate::program::{self, Synthesized};
use crate::progress::Busy;
use crate::runner::{self, Outcome, Part, Plan};
use crate::shadow::{Policy, ShadowLog};
use anyhow::{Context, Result, anyhow, bail};
use onefold_chain::{Chain, WorkerChains};
use onefold_engine::BuildOptions;
use onefold_engine::shadow::Shadow;
use onefold_packet::Timestamp;
use onefold_partition::Partition;
use onefold_runtime::Clock;
use onefold_verify::generate::adapt::Adapter;
use std::fs::File;
use std::sync::{Arc, Barrier};

/// Stack of a worker's thread, as the first thread has it.
const STACK: usize = 8 << 20;

/// A worker before it runs.
struct Ready {
    chain: Chain,
    executor: Shadow,
    made: Option<(Synthesized, Verification)>,
    renewal: Renewal,
    log: ShadowLog,
    plan: Plan,
}

/// A worker that has ended.
struct Ended {
    chain: Chain,
    runner: Shadow,
    made: Option<(Synthesized, Verification)>,
    renewal: Renewal,
    outcome: Outcome,
    core: Option<usize>,
}

/// Runs it with several workers.
pub fn run(args: &Args) -> Result<u8> {
    check(args)?;
    let n = usize::from(args.workers);
    let options = args.chain.options();
    let loaded = match onefold_chain::load_workers(&args.chain.chain, &options, n) {
        Ok(loaded) => loaded,
        Err(e) => {
            common::print_diagnostics(&common::chain_error(&e));
            return Ok(common::BAD_INPUT);
        }
    };
    let Some(first) = loaded.chains.first() else {
        bail!("a run has one worker at least");
    };
    common::print_diagnostics(&first.warnings);
    common::print_diagnostics(&loaded.warnings);
    let inputs = super::bound(args, first)?;
    let start = runner::first_time(&inputs)?;
    let partition = Partition::new(n, args.seed, loaded.ports.clone());
    if !args.quiet {
        tell(first, &partition);
    }
    let parts = parts(args, n)?;
    let ready = match prepare(args, loaded, &inputs, (start, &partition), &parts)? {
        Ok(ready) => ready,
        Err(code) => return Ok(code),
    };
    runner::catch_interrupt();
    let mut ended = threads(ready)?;
    // outputs put together count, too
    let begun = std::time::Instant::now();
    for (i, (_, file)) in args.outputs.iter().enumerate() {
        let own = parts.iter().filter_map(|p| p.get(i));
        merge::captures(own, file).with_context(|| format!("'{file}'"))?;
    }
    let merging = begun.elapsed().as_secs_f64();
    tell_all(args, &mut ended, merging)
}

/// Options that do not go with several workers.
fn check(args: &Args) -> Result<()> {
    if let Some(p) = args.ports.iter().find(|p| p.device().is_some()) {
        bail!(
            "port '{}' is a network interface, and --workers {} is for captures and memory ports: several workers on \
             interfaces are not there yet; leave --workers out",
            p.port,
            args.workers
        );
    }
    for (given, flag, why) in [
        (
            args.limit.is_some(),
            "--limit",
            "each worker has packets of its own",
        ),
        (
            args.verify.program.is_some(),
            "--program",
            "each worker has a program of its own",
        ),
        (
            args.shadow.capture().is_some(),
            "--shadow-pcap",
            "each worker would write it",
        ),
    ] {
        if given {
            bail!("{flag} does not go with --workers {}: {why}", args.workers);
        }
    }
    Ok(())
}

/// Says by what packets are told apart.
fn tell(chain: &Chain, partition: &Partition) {
    let entries = chain.ports.iter().zip(partition.ports());
    for (p, rule) in entries.filter(|(p, _)| p.source.is_some()) {
        let mut by = Vec::new();
        if !rule.pools.is_empty() {
            by.push("the NAT's port slices".to_string());
        }
        by.push(format!("a hash of {}", rule.hash.name()));
        eprintln!("port {}: workers by {}", p.name, by.join(", else "));
    }
}

/// By worker, by output: a file without a name, so that nothing stays behind however the run ends.
fn parts(args: &Args, workers: usize) -> Result<Vec<Vec<File>>> {
    let one = |_| {
        let files = args.outputs.iter().map(|(_, file)| merge::unnamed(file));
        files.collect::<Result<Vec<File>>>()
    };
    (0..workers).map(one).collect()
}

/// Everything that is done before the first packet; or the exit status if there is nothing to be run.
fn prepare(
    args: &Args,
    loaded: WorkerChains,
    inputs: &[(String, String)],
    (start, partition): (Timestamp, &Partition),
    parts: &[Vec<File>],
) -> Result<std::result::Result<Vec<Ready>, u8>> {
    let ready = Arc::new(Barrier::new(loaded.chains.len()));
    let policy = Policy::new(&args.shadow, args.seed);
    let mut all = Vec::new();
    for (worker, chain) in loaded.chains.into_iter().enumerate() {
        // what is said of the first one holds for all
        let quiet = args.quiet || worker > 0;
        let options = BuildOptions {
            seed: args.seed,
            start,
            ..Default::default()
        };
        let busy = Busy::new("configuring the elements", quiet);
        let built = common::build(&chain, &options);
        drop(busy);
        let graph = match built {
            Ok(g) => g,
            Err(ds) => {
                common::print_diagnostics(&ds);
                return Ok(Err(common::BAD_INPUT));
            }
        };
        if worker == 0 {
            common::print_warnings(&graph);
        }
        let adapter =
            (args.adapt).then(|| Adapter::new(&program::synthesize_graph(&graph).program));
        let verifier = Verifier::new(
            &args.verify,
            super::super::verify::ports(&chain),
            args.seed,
            quiet,
        );
        let (executor, made) = match executor(args, graph, &verifier, &policy, quiet)? {
            Ok(begun) => begun,
            Err(code) => return Ok(Err(code)),
        };
        let outputs = args
            .outputs
            .iter()
            .zip(parts.get(worker).into_iter().flatten());
        let outputs = outputs.map(|((port, _), f)| Ok((port.clone(), f.try_clone()?)));
        let part = Part {
            worker,
            partition: partition.clone(),
            outputs: outputs.collect::<std::io::Result<_>>()?,
            ready: ready.clone(),
        };
        // frames of a share have other numbers than those of the files
        let log = ShadowLog::new(&args.shadow, &chain, args.chain.text(), inputs, true)?;
        all.push(Ready {
            renewal: Renewal::new(verifier, policy, false, true),
            log,
            plan: plan(args, adapter, part, quiet),
            chain,
            executor,
            made,
        });
    }
    Ok(Ok(all))
}

fn plan(args: &Args, adapter: Option<Adapter>, part: Part, quiet: bool) -> Plan {
    Plan {
        inputs: args.inputs.clone(),
        outputs: args.outputs.clone(),
        ports: args.ports.clone(),
        live: Vec::new(),
        live_plan: LivePlan {
            polling: args.poll.polling(),
            duration: None,
            limit: None,
            quiet,
            attached: Vec::new(),
        },
        clock: Clock::start(),
        adapter,
        batch: usize::from(args.batch),
        limit: None,
        linger: Timestamp::from_secs_f64(args.linger.clamp(0.0, 1e9)),
        quiet,
        part: Some(part),
    }
}

/// Each worker in its thread.
fn threads(ready: Vec<Ready>) -> Result<Vec<Ended>> {
    let cores = merge::cores();
    let enough = cores.len() >= ready.len();
    let mut running = Vec::new();
    // a thread that cannot be made would leave the others waiting: then none starts
    let gate = Arc::new(Barrier::new(ready.len() + 1));
    for (worker, r) in ready.into_iter().enumerate() {
        let core = cores.get(worker).copied().filter(|_| enough);
        let gate = gate.clone();
        let thread = std::thread::Builder::new()
            .name(format!("worker {worker}"))
            .stack_size(STACK);
        let made = thread.spawn(move || {
            gate.wait();
            one(r, core)
        });
        running.push(made.with_context(|| format!("a thread for worker {worker}"))?);
    }
    gate.wait();
    let join = |t: std::thread::JoinHandle<Result<Ended>>| {
        t.join().map_err(|_| anyhow!("a worker has failed"))?
    };
    // all of them end before an error is told
    let all: Vec<Result<Ended>> = running.into_iter().map(join).collect();
    all.into_iter().collect()
}

fn one(r: Ready, core: Option<usize>) -> Result<Ended> {
    let core = core.filter(|c| merge::pin(*c));
    let Ready {
        chain,
        executor,
        made,
        mut renewal,
        mut log,
        plan,
    } = r;
    let (outcome, runner) = runner::run(&chain, executor, plan, &mut renewal, &mut log)?;
    log.finish()?;
    Ok(Ended {
        chain,
        runner,
        made,
        renewal,
        outcome,
        core,
    })
}

/// The report.
fn tell_all(args: &Args, ended: &mut [Ended], merging: f64) -> Result<u8> {
    let mode: Mode = args.mode;
    let outcome = merge::outcomes(ended.iter().map(|e| &e.outcome), merging);
    let mut listed = Vec::new();
    let mut mismatches = 0;
    let mut matchers = Vec::new();
    for e in ended.iter_mut() {
        let rows = rules::rows(&e.chain, e.runner.runner_mut().graph_mut());
        merge::rows(&mut listed, rows);
        mismatches += e.runner.report().mismatches;
        if matchers.is_empty() {
            matchers = common::matchers(e.runner.runner_mut().graph_mut());
        }
    }
    let balanced = ended.iter().all(|e| e.outcome.totals.balanced());
    let Some(first) = ended.first() else {
        bail!("a run has one worker at least");
    };
    let shadow = first.runner.report();
    let compared = first.runner.is_watching() || shadow.windows > 0;
    let made = first.made.as_ref().map(|(s, v)| Made {
        graph: first.runner.graph(),
        synthesized: s,
        verification: v,
        renewals: first.renewal.verdicts(),
        shadow: compared.then_some(&shadow),
    });
    for w in &outcome.warnings {
        eprintln!("warning: {w}");
    }
    if let Some(file) = &args.html {
        std::fs::write(file, crate::html::run_page(&first.chain, &outcome))?;
    }
    if args.json {
        let mut v = report::json(&outcome, mode, made.as_ref());
        if let Some(all) = v.as_object_mut() {
            all.insert("rules".into(), rules::json(&listed).into());
            all.insert("matchers".into(), common::matchers_json(&matchers));
            all.insert("mismatches".into(), mismatches.into());
            let workers: Vec<_> = ended.iter().enumerate().map(worker_json).collect();
            all.insert("workers".into(), workers.into());
        }
        common::print_json(&v)?;
    } else {
        report::print_text(&first.chain.name, &outcome);
        print_workers(ended);
        if let (Some(m), Some(r)) = (&made, &outcome.program) {
            report::print_program(m, r);
        }
        if args.rules {
            rules::print(&listed);
        }
    }
    Ok(match balanced && mismatches == 0 {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}

fn worker_json((worker, e): (usize, &Ended)) -> serde_json::Value {
    let (o, t) = (&e.outcome, &e.outcome.totals);
    serde_json::json!({
        "worker": worker,
        "core": e.core,
        "packets_in": t.packets_in,
        "packets_out": t.sent,
        "created": t.created,
        "held": t.held,
        "dropped": t.dropped,
        "drops": o.drops,
        "seconds": o.seconds,
        "cpu_seconds": o.cpu_seconds,
        "ns_per_packet": report::ns_per_packet(o),
        "mpps": t.packets_in as f64 / o.seconds.max(1e-9) / 1e6,
        "levels": report::levels_json(o),
        "verification": e.made.as_ref().map(|(_, v)| v.verdict.name()),
        "mismatches": e.runner.report().mismatches,
    })
}

fn print_workers(ended: &[Ended]) {
    crate::say!("workers");
    for (worker, e) in ended.iter().enumerate() {
        let (o, t) = (&e.outcome, &e.outcome.totals);
        let core = e
            .core
            .map_or("no core of its own".to_string(), |c| format!("core {c}"));
        crate::say!(
            "  {worker:<4} in {:>12} packets   out {:>12}   dropped {:>10}   {:>6.0} ns per packet   {core}",
            common::thousands(t.packets_in),
            common::thousands(t.sent),
            common::thousands(t.dropped),
            report::ns_per_packet(o)
        );
    }
}
