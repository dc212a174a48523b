//! `--workers N`: each with a chain, an executor and ports of its own, in a thread of its own. They share nothing while
//! packets go through but the queues of a dispatcher; what they have done is put together when all of them have ended.

mod count;
mod dispatch;
mod group;
mod prepare;
mod report;
mod scaling;
mod thread;
mod way;

pub use count::{ScalingArg, Workers, groups};
pub use dispatch::Watched;
pub use prepare::graph;
pub use report::at_wrong;
pub use scaling::Scaling;
pub use way::{Dispatch, first_tag};

use super::Args;
use crate::common;
use crate::control::{self, Controls, Made, OpenPort, Session};
use crate::deploy::Renewal;
use crate::files;
use crate::gate::{Failed, Fails, Gate};
use crate::health;
use crate::live;
use crate::merge;
use crate::runner::{self, Outcome, Plan};
use crate::sandbox;
use crate::shadow::ShadowLog;
use crate::xdp;
use anyhow::{Context, Result, anyhow, bail};
use dispatch::{Dispatching, Done};
use group::Group;
use onefold_chain::{Attached, Chain, LivePort};
use onefold_control::Server;
use onefold_engine::shadow::Shadow;
use onefold_packet::Timestamp;
use onefold_partition::Partition;
use onefold_runtime::{Clock, mailbox};
use std::fs::File;
use std::sync::Arc;
use std::thread::JoinHandle;
use thread::{Meter, Thread};
use way::Way;

/// Stack of a worker's thread, as the first thread has it.
const STACK: usize = 8 << 20;

/// A worker before it runs.
pub struct Ready {
    chain: Arc<Chain>,
    executor: Shadow,
    made: Option<Made>,
    /// Of network interfaces: it is asked while it runs.
    session: Option<Session>,
    renewal: Renewal,
    log: ShadowLog,
    plan: Plan,
}

/// A worker that has ended.
pub struct Ended {
    chain: Arc<Chain>,
    runner: Shadow,
    made: Option<Made>,
    renewal: Renewal,
    log: ShadowLog,
    outcome: Outcome,
    core: Option<usize>,
    /// Packets that were compared before the last reload, and differences.
    earlier: (u64, u64),
    /// Its number: a worker's, or a group's.
    number: usize,
    /// The thread that had it in the end.
    thread: usize,
}

/// A run that has ended.
struct AllEnded {
    ended: Vec<Ended>,
    /// What was beside the workers.
    done: Option<Done>,
    scaling: Option<Arc<Scaling>>,
}

/// Runs it with several workers.
pub fn run(args: &Args, captures: bool) -> Result<u8> {
    if args.workers.is_range() && captures {
        bail!(
            "--workers {}: the load of captures says nothing, as they wait; --workers N is for them, too",
            args.workers
        );
    }
    let n = args.workers.groups(args.groups).map_err(|e| anyhow!(e))?;
    let way = Way::of(args, n)?;
    let receivers = (way.receivers(n), args.quiet);
    let live = live::open(&args.ports, captures, &args.dpdk(), receivers)?;
    if let Some(first) = way.first_tag() {
        xdp::look_at_tags(&live, first, n)?;
    }
    check(args, live.is_empty())?;
    let options = args.chain.options();
    let (name, ports) = (&args.chain.chain, live::ports_of(&live));
    let (loaded, attached) = match onefold_chain::load_workers_live(name, &options, n, &ports) {
        Ok(loaded) => loaded,
        Err(e) => {
            common::print_diagnostics(&common::chain_error(&e));
            return Ok(common::BAD_INPUT);
        }
    };
    let Some(first) = loaded.chains.first() else {
        bail!("a run has one worker at least");
    };
    if first.has_processes() {
        bail!("--workers is not there yet for chains with functions in processes of their own");
    }
    common::print_diagnostics(&first.warnings);
    common::print_diagnostics(&loaded.warnings);
    live::fit(first, &live, &attached, args.quiet)?;
    let inputs = super::bound(args, first)?;
    // each worker reads all of them
    for (_, file) in &inputs {
        files::twice(file)?;
    }
    let partition = Partition::new(n, args.seed, loaded.ports.clone());
    if !args.quiet {
        tell(first, &partition);
    }
    let clock = Clock::start();
    let start = match live.is_empty() {
        true => runner::first_time(&inputs)?,
        false => clock.origin(),
    };
    let open = control::open_ports(&live);
    let dispatching = match live.is_empty() {
        true => None,
        false => Some(Dispatching::new(args, way, first, live, &partition)?),
    };
    let (parts, shadows) = parts(args, n)?;
    let common = Common {
        inputs,
        clock,
        start,
        partition,
        attached,
        live: open.iter().map(|p| p.live.port.clone()).collect(),
        ports,
    };
    let ready = match prepare::prepare(args, loaded, &common, (&parts, &shadows))? {
        Ok(ready) => ready,
        Err(code) => return Ok(code),
    };
    runner::catch_interrupt();
    let server = confined(args, &ready, &open)?;
    let open = (open, server);
    let mut all = match dispatching {
        Some(d) if d.way().is_software() || args.workers.is_range() => {
            in_groups(args, ready, d, open, clock)?
        }
        d => {
            let watched = d.as_ref().map(|d| d.watched().clone());
            let controls = controls(args, &ready, open, clock, (None, watched))?;
            let (ended, done) = threads(ready, d, clock)?;
            drop(controls);
            AllEnded {
                ended,
                done,
                scaling: None,
            }
        }
    };
    // outputs put together count, too
    let begun = std::time::Instant::now();
    for (i, (_, file)) in args.outputs.iter().enumerate() {
        let own = parts.iter().filter_map(|p| p.get(i));
        merge::captures(own, file).with_context(|| format!("'{file}'"))?;
    }
    if let Some(file) = args.shadow.capture() {
        let file = file.display().to_string();
        merge::captures(shadows.iter(), &file).with_context(|| format!("'{file}'"))?;
    }
    let merging = begun.elapsed().as_secs_f64();
    let beside = (all.done.as_ref(), all.scaling.as_deref());
    report::tell_all(args, &mut all.ended, beside, merging)
}

/// Gives up privilege; the control socket comes back.
fn confined(args: &Args, ready: &[Ready], open: &[OpenPort]) -> Result<Option<Server>> {
    let first = ready.first();
    let name = first.map_or("", |r| &r.chain.name);
    let watched = first.map_or(Vec::new(), |r| health::plans(&r.chain));
    sandbox::confine(args, name, open, &watched)
}

/// What the workers of network interfaces are asked by.
fn controls(
    args: &Args,
    ready: &[Ready],
    (open, server): (Vec<OpenPort>, Option<Server>),
    clock: Clock,
    (scaling, watched): (Option<Arc<Scaling>>, Option<Watched>),
) -> Result<Option<Controls>> {
    let sessions = ready.iter().filter_map(|r| r.session.as_ref());
    let senders: Vec<_> = sessions.map(Session::sender).collect();
    let first = ready.first().filter(|_| !senders.is_empty());
    let partition = first.and_then(|r| r.plan.part.as_ref());
    let how = control::Workers {
        clock,
        senders,
        rules: partition.map_or(Vec::new(), |p| p.partition.ports().to_vec()),
        scaling,
        watched,
    };
    let start = |r: &Ready| control::start(args, &r.chain, open, how, server);
    first.map(start).transpose()
}

/// What all workers have in common.
struct Common {
    /// Port and file of every capture that packets come from.
    inputs: Vec<(String, String)>,
    clock: Clock,
    /// The chain's clock begins there.
    start: Timestamp,
    partition: Partition,
    attached: Vec<Attached>,
    /// Ports with devices.
    live: Vec<String>,
    /// The same as the chain is told of them.
    ports: Vec<LivePort>,
}

/// Options that do not go with several workers; `recorded`: packets come from captures.
fn check(args: &Args, recorded: bool) -> Result<()> {
    if recorded && args.duration.is_some() {
        bail!("--duration is for network interfaces; captures end by themselves");
    }
    for (given, flag, why) in [
        (
            args.limit.is_some() && recorded,
            "--limit",
            "each worker has packets of its own, which of a capture are not the first ones",
        ),
        (
            args.verify.program.is_some(),
            "--program",
            "each worker has a program of its own, with the NAT ports that are its own",
        ),
        (
            args.offload.is_some(),
            "--offload",
            "what is dropped in front of the workers is counted by one of them only",
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

/// By worker, by output: a file without a name, so that nothing stays behind however the run ends. Also by worker:
/// such a file for packets with differences, if they are wanted.
fn parts(args: &Args, workers: usize) -> Result<(Vec<Vec<File>>, Vec<File>)> {
    let one = |_| {
        let files = args.outputs.iter().map(|(_, file)| merge::unnamed(file));
        files.collect::<Result<Vec<File>>>()
    };
    let outputs = (0..workers).map(one).collect::<Result<_>>()?;
    let shadow = args.shadow.capture().map(|f| f.display().to_string());
    let shadows = (0..workers).flat_map(|_| shadow.as_deref().map(merge::unnamed));
    Ok((outputs, shadows.collect::<Result<_>>()?))
}

/// A thread that may fail: it has a stack as the first one has it.
fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    let thread = std::thread::Builder::new()
        .name(name.clone())
        .stack_size(STACK);
    thread
        .spawn(run)
        .with_context(|| format!("a thread for {name}"))
}

/// What the thread has come to.
fn join<T>(t: JoinHandle<Result<T>>) -> Result<T> {
    let name = t.thread().name().unwrap_or("a thread").to_string();
    t.join().map_err(|_| anyhow!("{name} has failed"))?
}

/// Each worker in its thread, and the dispatcher in its own.
fn threads(
    ready: Vec<Ready>,
    dispatching: Option<Dispatching>,
    clock: Clock,
) -> Result<(Vec<Ended>, Option<Done>)> {
    let cores = merge::cores();
    let enough = cores.len() >= ready.len();
    let core = |n: usize| cores.get(n).copied().filter(|_| enough);
    let workers = ready.len();
    // where a thread cannot be made, none starts
    let gate = Arc::new(Gate::new(workers + 1));
    let _fails = Fails(&gate);
    let (mut ends, driver) = match dispatching {
        Some(d) => {
            let (ends, driver) = d.apart(workers, core(workers), clock);
            (ends, Some(driver))
        }
        None => (Vec::new(), None),
    };
    ends.reverse();
    let mut running = Vec::new();
    for (worker, mut r) in ready.into_iter().enumerate() {
        let (core, gate) = (core(worker), gate.clone());
        let end = ends.pop();
        running.push(spawn(format!("worker {worker}"), move || {
            gate.wait()?;
            let _ends = end.map(|e| e.attach(&mut r.plan));
            one(r, worker, core)
        })?);
    }
    let driver = driver
        .map(|d| spawn("the dispatcher".to_string(), move || d.run()))
        .transpose()?;
    gate.wait()?;
    all(running, driver)
}

/// Each worker in its thread, with the groups that it has in the beginning, and the dispatcher in its own.
fn in_groups(
    args: &Args,
    ready: Vec<Ready>,
    dispatching: Dispatching,
    open: (Vec<OpenPort>, Option<Server>),
    clock: Clock,
) -> Result<AllEnded> {
    let (workers, groups) = (args.workers.most(), ready.len());
    let cores = merge::cores();
    let enough = cores.len() >= workers;
    let core = |n: usize| cores.get(n).copied().filter(|_| enough);
    let watched = dispatching.watched().clone();
    let (ends, driver) = dispatching.apart(workers, core(workers), clock);
    let common = driver.common();
    let mut mail = Vec::new();
    let mut threads = Vec::new();
    for _ in 0..workers {
        let (sender, mailbox) = mailbox().context("descriptors for workers")?;
        let meter = Arc::new(Meter::default());
        threads.push((sender, Arc::clone(&meter)));
        mail.push((mailbox, meter));
    }
    let range = (args.workers.fewest(), workers);
    let how = (args.scaling.unwrap_or_default(), args.quiet);
    let scaling = Scaling::new(range, groups, threads, Arc::clone(&common.ending), how);
    let map = scaling.map();
    let scaling = args.workers.is_range().then(|| Arc::new(scaling));
    let watched = Some(watched);
    let controls = controls(args, &ready, open, clock, (scaling.clone(), watched))?;
    let mut own: Vec<Vec<Group>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, (ready, end)) in ready.into_iter().zip(ends).enumerate() {
        let thread = map.get(number).and_then(|w| own.get_mut(*w));
        thread
            .context("a group without a worker")?
            .push(Group::new(number, ready, end)?);
    }
    // where a thread cannot be made, none starts
    let begin = Arc::clone(&common.begin);
    let fails = Fails(&begin);
    let mut running = Vec::new();
    for (number, (groups, mail)) in own.into_iter().zip(mail).enumerate() {
        let thread = Thread::new(number, common.clone(), core(number), groups, mail);
        running.push(spawn(format!("worker {number}"), move || thread.run())?);
    }
    let driver = spawn("the dispatcher".to_string(), move || driver.run())?;
    let looking = scaling.clone().map(Scaling::look).transpose()?;
    let (ended, done) = all(running, Some(driver))?;
    drop((looking, controls, fails));
    let mut ended: Vec<Ended> = ended.into_iter().flatten().collect();
    ended.sort_by_key(|e| e.number);
    Ok(AllEnded {
        ended,
        done,
        scaling,
    })
}

/// Waits until all threads have ended.
fn all<T>(
    running: Vec<JoinHandle<Result<T>>>,
    driver: Option<JoinHandle<Result<Done>>>,
) -> Result<(Vec<T>, Option<Done>)> {
    // all of them end before an error is told
    let all: Vec<Result<T>> = running.into_iter().map(join).collect();
    let done = driver.map(join).transpose();
    let (mut ended, mut failed) = (Vec::new(), Vec::new());
    for e in all {
        match e {
            Ok(e) => ended.push(e),
            Err(e) => failed.push(e),
        }
    }
    let done = done.map_err(|e| failed.push(e)).unwrap_or_default();
    // who was left alone has no reason of its own
    let own = failed.iter().position(|e| !e.is::<Failed>());
    match failed.len() {
        0 => Ok((ended, done)),
        _ => Err(failed.swap_remove(own.unwrap_or(0))),
    }
}

fn one(r: Ready, number: usize, core: Option<usize>) -> Result<Ended> {
    let core = core.filter(|c| merge::pin(*c));
    let ready = r.plan.part.as_ref().map(|p| Arc::clone(&p.ready));
    // the others do not wait for one that has failed
    let _fails = ready.as_deref().map(Fails);
    let Ready {
        chain,
        executor,
        made,
        mut renewal,
        mut log,
        mut session,
        plan,
    } = r;
    let (outcome, runner) = runner::run(
        &chain,
        executor,
        plan,
        (&mut renewal, &mut log),
        session.as_mut(),
    )?;
    log.finish()?;
    let (chain, made, earlier) = match session {
        None => (chain, made, (0, 0)),
        Some(s) => {
            let made = renewal.latest().or(s.made);
            (s.chain, made, (s.earlier.compared, s.earlier.mismatches))
        }
    };
    Ok(Ended {
        chain,
        earlier,
        runner,
        made,
        renewal,
        log,
        outcome,
        core,
        number,
        thread: number,
    })
}
