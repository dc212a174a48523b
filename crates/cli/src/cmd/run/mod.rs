//! `onefold run`: captures in, captures out; or the packets of network interfaces, while they come.

mod arguments;
mod beside;
pub mod processes;
pub mod report;
mod workers;

use crate::alerts;
use crate::common::{self, ChainArgs};
use crate::control::{self, ControlArgs, OpenPort};
use crate::deploy::{Renewal, Verdict, Verification, Verifier, VerifyArgs};
use crate::health;
use crate::links::Counts;
use crate::live::{self, LivePlan, Poll};
use crate::log::{self, LogArgs};
use crate::ports::{PortArg, Receivers, port_arg};
use crate::program::{self, PreparedStages, Synthesized};
use crate::progress::Busy;
use crate::rules;
use crate::runner::{self, Plan};
use crate::sandbox::{self, SandboxArgs};
use crate::servers;
use crate::shadow::{Policy, ShadowArgs, ShadowLog};
use crate::xdp::{Entries, Offloader, Offloading, Offloads};
use anyhow::{Context, Result};
use arguments::{bound, check};
use beside::Run;
use clap::ValueEnum;
use onefold_chain::{Attached, Chain};
use onefold_engine::flow::{DEFAULT_FLOWS, FLOOD_SHARE, FlowRunner};
use onefold_engine::program::ProgramRunner;
use onefold_engine::shadow::{Report as ShadowReport, Shadow};
use onefold_engine::{Graph, Level};
use onefold_packet::Timestamp;
use onefold_runtime::{Clock, FirstTag};
use onefold_sched::spec::Spec;
use onefold_verify::generate::adapt::Adapter;
use report::{json, print_program, print_text};
use std::time::Duration;
pub use workers::{Dispatch, Scaling, ScalingArg, Watched, Workers, at_wrong};

/// How the chain is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// At the level that costs least, as far as that is known: one of the following for the packets of each port.
    Auto,
    /// Element by element, as written.
    Reference,
    /// As one function: traffic classes with one action each.
    #[value(name = "program", alias = "synthesized")]
    Synthesized,
    /// As one function, with a flow table in front: what was done to a flow's packet is done to the next one without
    /// asking.
    Flow,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Reference => "reference",
            Mode::Synthesized => "program",
            Mode::Flow => "flow",
        }
    }
    fn forced(self) -> Option<Level> {
        match self {
            Mode::Auto => None,
            Mode::Reference => Some(Level::Reference),
            Mode::Synthesized => Some(Level::Program),
            Mode::Flow => Some(Level::Flow),
        }
    }
}

/// Options of `onefold run`.
#[derive(clap::Args, Debug, Clone)]
#[command(
    after_help = "Several ports' captures are merged by time; the clock of the chain is the captures' time.\n\n\
    Examples:\n  \
    onefold gen --for isp-edge --out lan.pcap --reverse wan.pcap     packets that fit the chain, both ways\n  \
    onefold run isp-edge --in lan=lan.pcap --in wan=wan.pcap --out wan=out.pcap\n  \
    onefold run isp-edge --set rules=my.rules --in lan=lan.pcap --html report.html\n  \
    onefold run isp-edge --port lan=packet:eth1 --port wan=packet:eth2     live, until Ctrl-C\n  \
    onefold run isp-edge --port lan=xdp:eth1 --port wan=xdp:eth2 --offload xdp     dropped in the driver\n  \
    onefold run isp-edge --port lan=dpdk:3b:00.0 --port wan=dpdk:3b:00.1     with DPDK\n\n\
    A program is verified before the first packet: proved to be the chain, or refuted, and then not run. What is not proved runs in \
    shadow mode: some packets go through the reference graph, too, and are compared.\n\n\
    Exit status: 0 every packet is accounted for, 1 not, or the program is not the chain; 2 wrong use or bad input."
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// A capture (pcap, pcapng, also gzipped) that arrives at a port of the chain (`onefold show CHAIN` lists its
    /// ports)
    #[arg(long = "in", value_name = "PORT=FILE", value_parser = common::port_file)]
    inputs: Vec<(String, String)>,
    /// Where to write what leaves at a port; .pcapng or .pcap
    #[arg(long = "out", value_name = "PORT=FILE", value_parser = common::port_file)]
    outputs: Vec<(String, String)>,
    /// Each frame also comes in forms that fit the chain: with the entry's MAC address, then also with addresses that
    /// the chain serves. Checksums follow: right ones stay right, wrong ones wrong
    #[arg(long)]
    adapt: bool,
    /// What is behind a port otherwise: packet:IF is a network interface (packet:IF,ring=N has slots for N frames,
    /// packet:IF,mode=mmsg,batch=N takes N frames with a system call, 1 to 256), xdp:IF one through AF_XDP
    /// (xdp:IF,queue=N,mode=auto|copy|zerocopy,ring=N),
    /// dpdk:DEVICE a device of DPDK with its driver's arguments (dpdk:0000:3b:00.0, dpdk:net_memif0,role=server; also
    /// worker-queues=N, descriptors=N, set-mtu=N, frames=N), tap:NAME a TAP interface with the host at its other
    /// end; memory:FILE has a capture in memory before the clock starts and keeps the last of what leaves
    /// (memory:FILE,rate=PPS: its frames arrive in real time, so many a second, again and again), memory: only keeps,
    /// pcap:FILE is a capture that arrives. Interfaces also take mac=keep (the chain file's MAC address, not the
    /// interface's), neighbours=keep (those of the chain file, nobody is asked), and kernel=shared (the host may have
    /// addresses there)
    #[arg(long = "port", value_name = "PORT=KIND:NAME", value_parser = port_arg)]
    ports: Vec<PortArg>,
    /// More arguments of DPDK's environment, behind Onefold's: --dpdk-args '-m 512 --log-level=debug' (which also shows
    /// what DPDK says)
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    dpdk_args: Vec<String>,
    /// What is done while no packets come to network interfaces: look again and again (a whole core), sleep after a
    /// moment, or sleep at once
    #[arg(long, value_enum, default_value_t = Poll::Adaptive)]
    poll: Poll,
    /// With network interfaces: end after this time; if not given, Ctrl-C or SIGTERM ends it
    #[arg(long, visible_alias = "seconds", value_name = "SECONDS", value_parser = live::seconds)]
    duration: Option<Duration>,
    /// So many workers, each with a graph, a program, a flow table and NAT ports of its own, on a core of its own where
    /// there are as many. MIN..MAX, for network interfaces: as many as the load needs
    #[arg(long, value_name = "N|MIN..MAX", default_value_t)]
    workers: Workers,
    /// With --workers MIN..MAX: packets are divided into so many groups, which go from worker to worker: a power of
    /// two, at least MAX, 64 at most; 8 if not given, or as many as MAX needs
    #[arg(long, value_name = "N", value_parser = workers::groups)]
    groups: Option<usize>,
    /// With --workers MIN..MAX, when groups go from worker to worker: every=SECONDS between two looks (0.5), split=LOAD
    /// of a worker (0.7), merge=LOAD of two together (0.5), samples=N that must say so (2), hold-off=N samples (2),
    /// weights of a sample in the average that is above it, rising= (0.5), or below it, falling= (0.3)
    #[arg(long, value_name = "KEY=VALUE,...")]
    scaling: Option<ScalingArg>,
    /// How packets of network interfaces come to the worker whose they are
    #[arg(long, value_enum, default_value_t = Dispatch::Auto)]
    dispatch: Dispatch,
    /// A function's process that has ended is launched again after 10 ms, after twice as long the next time, but never
    /// after more than this
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = back_off)]
    back_off: Duration,
    /// With --dispatch tag: the tag of the first worker (or group); those of the others follow: vlan:100, or
    /// mac:02:00:00:00:01:00 [default: vlan:100]
    #[arg(long, value_name = "vlan:ID|mac:ADDRESS", value_parser = workers::first_tag)]
    tag: Option<FirstTag>,
    /// Packets are handed to workers as if nothing was translated, for tests of what must notice it
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    dispatch_fault: bool,
    /// The worker (or group) with this number refuses to go on with another chain
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    reload_fault: Option<usize>,
    /// What is done in front of the chain. xdp: an XDP program in each xdp: port's driver drops classes that the chain
    /// is proved to drop with nothing left behind but counts, before anything is copied; their counts are added to the
    /// chain's
    #[arg(long, value_enum, value_name = "WHERE")]
    offload: Option<Offloading>,
    /// How the chain is executed
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    mode: Mode,
    /// Most packets that go in together; what they do does not depend on it
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: u16,
    /// Share of the time (0 to 1) that packets of unknown flows may take; those beyond it are dropped and counted as
    /// overload, so that a flood of new flows does not take the time of those that are known. Network interfaces do so
    /// with 0.03 while packets queue up, unless another share is given here; captures lose none
    #[arg(long, value_name = "SHARE", value_parser = share)]
    protect: Option<f64>,
    /// How functions in processes of their own share cores: a policy, in place of the chain file's `schedule`. `onefold
    /// schedule list` explains all of them; `onefold schedule NAME POLICY` changes it while the chain runs. kernel if
    /// nothing is said
    #[arg(long, value_name = "POLICY[,KEY=VALUE...]")]
    schedule: Option<Spec>,
    /// The core on which packets are moved to functions in processes and their policy is executed: the first one, if
    /// there is a policy
    #[arg(long, value_name = "CORE")]
    housekeeping: Option<usize>,
    /// Places of each ring between functions in processes: a power of two, 64 to 65536. More of them let a function work
    /// longer before the next one has to, and packets wait longer; 1024 if nothing is said
    #[arg(long, value_name = "PLACES", value_parser = processes::ring_places)]
    ring: Option<u32>,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    sandbox: SandboxArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    verify: VerifyArgs,
    #[command(flatten)]
    shadow: ShadowArgs,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Let the clock run on for this long after the last packet
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    linger: f64,
    /// Writes a self-contained HTML page: the functions with packets and drops, rates, ports, drops by reason over
    /// time, traffic classes, rules by hits, alerts
    #[arg(long, value_name = "FILE")]
    html: Option<std::path::PathBuf>,
    /// Shows every rule of the operator's with the packets and bytes that it decided about, list by list, as `iptables
    /// -L -v` does
    #[arg(long)]
    rules: bool,
    /// Writes the packets that the chain drops to a capture (.pcapng), as they came in, each with a comment: the
    /// element, the reason, and the rule that decided. They are found in a pass of its own over the captures, through
    /// the chain as it is written; of a running chain `onefold capture` has them
    #[arg(long, value_name = "FILE")]
    drops: Option<std::path::PathBuf>,
    /// Writes a line of JSON (as Suricata's eve.json) for each packet and each rule on payloads that it made alert or
    /// drop: sid, message, time, addresses, ports, function. Of captures they are found as --drops finds what is
    /// dropped; on network interfaces lines are added while packets come, and SIGHUP opens the file anew
    #[arg(long, value_name = "FILE")]
    alerts: Option<std::path::PathBuf>,
    /// Prints what a handler says at the end, for example router/rt.table; more than once for several
    #[arg(long, value_name = "FUNCTION/ELEMENT.HANDLER")]
    read: Vec<String>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// What one worker is to do; its devices come later.
fn plan(args: &Args, clock: Clock, adapter: Option<Adapter>, attached: &[Attached]) -> Plan {
    Plan {
        inputs: args.inputs.clone(),
        outputs: args.outputs.clone(),
        ports: args.ports.clone(),
        live: Vec::new(),
        offloads: Offloads::default(),
        live_plan: LivePlan {
            polling: args.poll.polling(),
            duration: args.duration,
            limit: args.limit,
            quiet: args.quiet,
            attached: attached.to_vec(),
            team: None,
        },
        clock,
        adapter,
        batch: usize::from(args.batch),
        limit: args.limit,
        linger: Timestamp::from_secs_f64(args.linger.clamp(0.0, 1e9)),
        quiet: args.quiet,
        history: args.history(),
        part: None,
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    if args.inputs.is_empty() {
        // live: it may be reloaded for as long as the machine runs
        onefold_table::return_large_blocks();
    }
    let done = carry_out(args);
    log::ended(&args.log, &done);
    done
}

fn carry_out(args: &Args) -> Result<u8> {
    let captures = !args.inputs.is_empty() || args.ports.iter().any(|p| p.input().is_some());
    check(args, captures)?;
    if !args.workers.is_one() {
        return workers::run(args, captures);
    }
    let one = (Receivers::Queues(1), args.quiet);
    let live = live::open(&args.ports, captures, &args.dpdk(), one)?;
    arguments::timed(args, !live.is_empty())?;
    let Some((chain, attached)) = live::load(&args.chain, &live, args.quiet)? else {
        return Ok(common::BAD_INPUT);
    };
    let inputs = bound(args, &chain)?;
    if chain.has_processes() {
        arguments::in_processes(args)?;
        return processes::run(args, &chain, (live, attached), &inputs);
    }
    without_processes(args)?;
    let clock = Clock::start();
    let start = match live.is_empty() {
        true => runner::first_time(&inputs)?,
        false => clock.origin(),
    };
    let mut graph = match workers::graph(args, &chain, start, args.quiet) {
        Ok(g) => g,
        Err(code) => return Ok(code),
    };
    common::print_warnings(&graph);
    arguments::beforehand(args, &chain, &mut graph, &inputs)?;
    let matchers = common::matchers(&mut graph);
    if !args.quiet {
        common::tell_matchers(&matchers);
    }
    let adapter = args
        .adapt
        .then(|| Adapter::new(&program::synthesize_graph(&graph).program));
    let open = control::open_ports(&live);
    let mut plan = plan(args, clock, adapter, &attached);
    // packets that arrive by themselves do not wait for a program
    let waits = live.is_empty();
    let ports = super::verify::ports(&chain);
    let verifier = Verifier::new(&args.verify, ports, args.seed, args.quiet).hurrying(!waits);
    let policy = Policy::new(&args.shadow, args.seed);
    let (how, mut stages) = ((args.quiet, true), PreparedStages::default());
    let (executor, synthesized) =
        match executor(args, graph, (&verifier, &policy), how, &mut stages)? {
            Ok(begun) => begun,
            Err(code) => return Ok(code),
        };
    let offloader = offloader(args, &open);
    let entries = Entries::of(&chain);
    let dropping = (&offloader, &entries);
    plan.offloads = offloads(args, dropping, &executor, synthesized.as_ref())?;
    plan.live = live.into_iter().map(|l| (l.port, l.open)).collect();
    let mut renewal =
        Renewal::new(verifier, policy, args.has_program(), waits).offloading(offloader, entries);
    let command = command(args);
    let mut differences = ShadowLog::new(&args.shadow, &chain, command, &inputs, args.adapt, None)?;
    let eve = args.eve(!open.is_empty())?;
    let server = sandbox::confine(args, &chain.name, &open, &health::plans(&chain))?;
    let beside = (clock, open, server, eve);
    let mut run = Run::new(args, chain, synthesized, attached, beside)?;
    runner::catch_interrupt();
    let (chain, session) = (run.chain.clone(), run.session.as_mut());
    let both = (&mut renewal, &mut differences);
    let (outcome, mut runner) = runner::run(&chain, executor, plan, both, session)?;
    differences.finish()?;
    report::log(&outcome, outcome.totals.balanced());
    let (chain, synthesized, earlier) = run.end(&renewal);
    let counts = Counts::of(&chain, runner.runner_mut().graph_mut());
    let handlers = arguments::read(args, runner.runner_mut().graph_mut());
    let mut shadow = runner.report();
    shadow.compared += earlier.compared;
    shadow.mismatches += earlier.mismatches;
    let compared = runner.is_watching() || shadow.windows > 0 || shadow.compared > 0;
    let made = synthesized.as_deref().map(|(s, v)| Made {
        graph: runner.graph(),
        synthesized: s,
        verification: v,
        renewals: renewal.verdicts(),
        shadow: compared.then_some(&shadow),
    });
    let told = Told {
        chain: &chain,
        outcome: &outcome,
        made: made.as_ref(),
        matchers: &matchers,
        counts: &counts,
        handlers: &handlers,
    };
    told.print(args, &differences)?;
    Ok(if outcome.totals.balanced() && shadow.mismatches == 0 {
        common::HOLDS
    } else {
        common::HOLDS_NOT
    })
}

/// What was said of functions in processes is said to a chain that has none.
fn without_processes(args: &Args) -> Result<()> {
    if args.schedule.is_some() || args.housekeeping.is_some() || args.ring.is_some() {
        anyhow::bail!(
            "--schedule, --housekeeping and --ring are for chains with functions in processes of their own: add \
             'run: process' to some of the chain file's functions"
        );
    }
    Ok(())
}

/// What is told of a run at its end.
struct Told<'a> {
    chain: &'a Chain,
    outcome: &'a runner::Outcome,
    made: Option<&'a Made<'a>>,
    matchers: &'a [(String, String)],
    counts: &'a Counts,
    handlers: &'a [(String, String)],
}

impl Told<'_> {
    fn print(&self, args: &Args, log: &ShadowLog) -> Result<()> {
        let Told {
            chain,
            outcome,
            made,
            matchers,
            counts,
            handlers,
        } = *self;
        let found = alerts::table(chain, &counts.rules);
        for w in &outcome.warnings {
            eprintln!("warning: {w}");
        }
        if let Some(file) = &args.html {
            let ran = crate::html::Ran {
                chain,
                outcome,
                made,
                counts,
                alerts: &found,
            };
            std::fs::write(file, crate::html::run_page(&ran))?;
        }
        if args.json {
            let mut v = json(outcome, args.mode, made);
            v["matchers"] = common::matchers_json(matchers);
            if let Some(all) = v.as_object_mut() {
                counts.json(&found, all);
                all.insert("handlers".into(), arguments::handlers_json(handlers));
            }
            if let (Some(r), Some(all)) = (made.and_then(|m| m.shadow), v.as_object_mut()) {
                all.insert("shadow".into(), log.json(r, args.shadow.capture()));
            }
            common::print_json(&v)?;
        } else {
            print_text(&chain.name, outcome);
            alerts::print(&found);
            servers::print(&counts.servers);
            if let (Some(m), Some(r)) = (made, &outcome.program) {
                print_program(m, r);
            }
            if args.rules {
                rules::print(&counts.rules);
            }
            for (name, says) in handlers {
                crate::say!("{name}:\n{}", says.trim_end());
            }
            if let Some(f) = &args.html {
                crate::say!("report: {}", f.display());
            }
        }
        Ok(())
    }
}

/// What makes programs that drop in front of the chain, if they are asked for.
fn offloader(args: &Args, open: &[OpenPort]) -> Offloader {
    match args.offload {
        None => Offloader::default(),
        Some(Offloading::Xdp) => Offloader::of(open),
    }
}

/// What is dropped in front of the chain, as asked for.
fn offloads(
    args: &Args,
    (offloader, entries): (&Offloader, &Entries),
    executor: &Shadow,
    made: Option<&(program::Synthesized, Verification)>,
) -> Result<Offloads> {
    match (args.offload, made) {
        (None, _) => Ok(Offloads::default()),
        (Some(Offloading::Xdp), None) => {
            anyhow::bail!("--offload is made of the chain's program: not with --mode reference")
        }
        (Some(Offloading::Xdp), Some((s, v))) => {
            let prepared = offloader.prepare(entries, executor.graph(), &s.program, v)?;
            Offloads::start(prepared, args.quiet)
        }
    }
}

/// The chain as on the command line, and its program, if that was given.
fn command(args: &Args) -> String {
    match &args.verify.program {
        Some(p) => format!("{} --program {}", args.chain.text(), p.display()),
        None => args.chain.text(),
    }
}

/// What executes packets, or the exit status if there is nothing to be executed.
type Begun = std::result::Result<(Shadow, Option<(program::Synthesized, Verification)>), u8>;

/// Makes what executes packets: with a program that has been verified, unless the reference graph is to run alone. What
/// is said of the `first` one of several holds for all, and so do `stages`, as far as programs are alike.
fn executor(
    args: &Args,
    graph: Graph,
    (verifier, policy): (&Verifier, &Policy),
    (quiet, first): (bool, bool),
    stages: &mut PreparedStages,
) -> Result<Begun> {
    let given = args.verify.program.as_deref();
    let (executor, synthesized) = match args.mode {
        Mode::Reference => (flow(args, ProgramRunner::new(graph)), None),
        _ => {
            let busy = Busy::new("synthesizing", quiet);
            let Some(s) = program::given_or_made(&graph, given)? else {
                return Ok(Err(common::BAD_INPUT));
            };
            let mut r = ProgramRunner::new(graph);
            let ready = program::Plan::new(r.graph(), &s.program, r.using());
            // or the first batch waits for what packets are looked up in
            let ready = ready.map(|ready| ready.prepared_like(stages));
            let loaded = ready.and_then(|ready| r.install(ready));
            loaded.context("the synthesized program")?;
            drop(busy);
            let v = verifier.verify(r.graph(), &s.program)?;
            if first {
                v.say(quiet);
            }
            if v.verdict == Verdict::Refuted {
                eprintln!("{}", v.refusal(&args.chain.text(), given));
                if args.json {
                    common::print_json(&serde_json::json!({
                        "mode": args.mode.name(),
                        "refused": true,
                        "verification": v.json(&[]),
                    }))?;
                }
                return Ok(Err(common::HOLDS_NOT));
            }
            r.graph_mut().tell("verification", v.told());
            #[cfg(debug_assertions)]
            program::Fault::plant(args.shadow.fault, &mut r);
            if first {
                policy.say(&v);
            }
            let mut r = flow(args, r);
            policy.watch(&mut r, &s.program, &v);
            (r, Some((s, v)))
        }
    };
    Ok(Ok((executor, synthesized)))
}

/// Program and flow table, as asked for. Where packets arrive by themselves, unknown flows have a share of the time
/// while packets queue up, unless another one is asked for.
fn flow(args: &Args, runner: ProgramRunner) -> Shadow {
    let mut flow = FlowRunner::new(runner, DEFAULT_FLOWS);
    flow.force(args.mode.forced());
    match args.protect {
        Some(share) => flow.protect(Some(share)),
        None => flow.protect_under_pressure(FLOOD_SHARE),
    }
    Shadow::over(flow)
}

/// A time to wait.
fn back_off(s: &str) -> Result<Duration, String> {
    match s.parse::<f64>() {
        Ok(x) if (0.001..=3600.0).contains(&x) => Ok(Duration::from_secs_f64(x)),
        _ => Err("expected seconds, from 0.001 to 3600".to_string()),
    }
}

/// A share of something.
fn share(s: &str) -> Result<f64, String> {
    match s.parse::<f64>() {
        Ok(x) if (0.0..=1.0).contains(&x) => Ok(x),
        _ => Err("expected a number from 0 to 1".to_string()),
    }
}

/// A program that ran.
pub struct Made<'a> {
    /// The chain's graph.
    pub graph: &'a Graph,
    /// The program.
    pub synthesized: &'a Synthesized,
    /// What is known of it.
    pub verification: &'a Verification,
    /// About the programs that followed it.
    renewals: &'a [Verdict],
    /// If anything was compared.
    shadow: Option<&'a ShadowReport>,
}
