//! Captures through a chain: frames merged by time, one clock, an account of every packet.

pub use crate::bindings::{check_bindings, find_port};
use crate::common;
use crate::control::Session;
use crate::deploy::Renewal;
use crate::files;
use crate::gate::Gate;
use crate::history::{self, History, SoFar};
use crate::live::{self, LivePlan};
use crate::ports::PortArg;
use crate::progress::Progress;
use crate::shadow::ShadowLog;
use crate::xdp::{DroppedEarly, Offloads};
use anyhow::{Result, bail};
use onefold_capture::{CaptureWriter, Format, LinkType};
use onefold_chain::Chain;
use onefold_element::{ElemId, SourceLoc};
use onefold_engine::flow::FlowStats;
use onefold_engine::program::Report;
use onefold_engine::shadow::Shadow;
use onefold_engine::{Executor, Graph, Totals};
use onefold_packet::Timestamp;
use onefold_partition::Partition;
use onefold_runtime::{
    CapturePort, Clock, Count, Histogram, LinkState, Loss, Port, PortSpec, Share, Worker,
};
use onefold_verify::generate::adapt::Adapter;
use onefold_verify::generate::capture::Capture;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// What to run.
pub struct Plan {
    /// Port name and capture file.
    pub inputs: Vec<(String, String)>,
    /// Port name and capture file.
    pub outputs: Vec<(String, String)>,
    /// Ports of other kinds.
    pub ports: Vec<PortArg>,
    /// Ports that are network interfaces, by the chain's port.
    pub live: Vec<(String, Box<dyn Port>)>,
    /// How they run.
    pub live_plan: LivePlan,
    /// What is dropped in front of them.
    pub offloads: Offloads,
    /// The clock that goes with them.
    pub clock: Clock,
    /// Packets per batch.
    pub batch: usize,
    /// Frames also come in the forms that fit the chain.
    pub adapter: Option<Adapter>,
    /// Stop after this many packets.
    pub limit: Option<u64>,
    /// Let the clock run on for this long after the last packet.
    pub linger: Timestamp,
    /// No progress bar.
    pub quiet: bool,
    /// What happens when is noted here, if somebody wants to know.
    pub history: Option<History>,
    /// It is one of several workers' runs.
    pub part: Option<Part>,
}

/// What one of several workers has of a run.
pub struct Part {
    /// Which one.
    pub worker: usize,
    /// Who gets which frames.
    pub partition: Partition,
    /// Port name and the file for what leaves there, as pcapng; it is merged with the others'.
    pub outputs: Vec<(String, File)>,
    /// All have read what they read before the clock starts.
    pub ready: Arc<Gate>,
}

impl Part {
    /// Which frames of a port of the chain are this worker's.
    fn share(&self, port: usize) -> Share {
        let (mut partition, worker) = (self.partition.clone(), self.worker);
        Box::new(move |frame| partition.target(port, frame).is_for(worker))
    }
}

/// Packets that one element dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The element; its network function is the first part of its name.
    pub element: String,
    /// Where the operator wrote what it was made from.
    pub place: SourceLoc,
    /// The reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
}

impl Dropped {
    /// The network function.
    pub fn function(&self) -> &str {
        self.element.split('/').next().unwrap_or_default()
    }
    /// `nat: no mapping for this inbound packet`.
    pub fn told(&self) -> String {
        format!("{}: {}", self.function(), self.reason)
    }
    /// `nat/rw, chain.yaml:12`.
    pub fn at(&self) -> String {
        match (self.place.file.is_empty(), self.place.line) {
            (false, line @ 1..) => format!("{}, {}:{line}", self.element, self.place.file),
            _ => self.element.clone(),
        }
    }
}

/// What is known of a port that is a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceReport {
    /// The chain's port.
    pub name: String,
    /// The link's state.
    pub link: LinkState,
    /// What was lost there.
    pub losses: Vec<Loss>,
    /// What else was counted.
    pub counters: Vec<(&'static str, u64)>,
    /// What an XDP program has dropped there in the chain's place.
    pub early: Vec<DroppedEarly>,
}

/// What happened.
pub struct Outcome {
    /// The account.
    pub totals: Totals,
    /// Port name -> (in, out), in the order of the chain file.
    pub ports: Vec<(String, Count, Count)>,
    /// Port name -> how long live packets that left there were in the chain, ns; of those that any did.
    pub stays: Vec<(String, Histogram)>,
    /// Ports that are network interfaces.
    pub interfaces: Vec<InterfaceReport>,
    /// Reason -> packets.
    pub drops: BTreeMap<String, u64>,
    /// By element and reason, most first.
    pub drops_by_element: Vec<Dropped>,
    /// Seconds of real time, reading and writing included.
    pub seconds: f64,
    /// Seconds for which the thread that took the packets was executed meanwhile; zero where the system does not say.
    pub cpu_seconds: f64,
    /// Seconds of capture time.
    pub span: f64,
    /// Remarks: damaged captures, foreign link types.
    pub warnings: Vec<String>,
    /// Ctrl-C ended it early.
    pub interrupted: bool,
    /// Work cut short by the engine's bounds.
    pub overruns: u64,
    /// What the program did, if there was one.
    pub program: Option<Report>,
    /// Packets by the level that took them, in the order of [`Level::ALL`].
    pub levels: [u64; 3],
    /// What the flow table did.
    pub flow: FlowStats,
    /// Programs that were made because handlers had changed models.
    pub renewed: u32,
    /// What happened when, if somebody wanted to know.
    pub history: Option<History>,
}

/// Set by the signals that end a run.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The first of them; zero: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C and SIGTERM set a flag instead of ending the program; the second of them ends it at once.
pub fn catch_interrupt() {
    for signal in [SIGINT, SIGTERM] {
        // Registering fails for signals that cannot be caught only. What is registered first is done first: a signal
        // that finds the flag set ends the program.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&INTERRUPTED));
        let _ = flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize);
        let _ = flag::register(signal, Arc::clone(&INTERRUPTED));
    }
}

/// The flag that Ctrl-C and SIGTERM set.
pub fn interrupted() -> &'static AtomicBool {
    &INTERRUPTED
}

/// The exit status of what holds as far as it went, if a signal ended it: 130 behind Ctrl-C, 143 behind SIGTERM.
pub fn status(holds: u8) -> u8 {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => holds,
        _ if holds != common::HOLDS => holds,
        signal => u8::try_from(128 + signal).unwrap_or(u8::MAX),
    }
}

/// The same as analyses of `onefold_verify` ask for it.
pub fn stop() -> onefold_verify::Stop {
    onefold_verify::Stop::when(interrupted())
}

/// The packets of these captures, each at the port of its name.
pub fn packets_of(chain: &Chain, inputs: &[(String, String)]) -> Result<Capture> {
    let mut all = Vec::new();
    for (port, file) in inputs {
        let i = find_port(chain, port, true)?;
        let source = chain.ports.get(i).and_then(|p| p.source).unwrap_or(0);
        all.push((ElemId(source as u32), files::twice(file)?));
    }
    Ok(Capture::open(&all)?)
}

/// The time of the first frame of all inputs, which starts the clock.
pub fn first_time(inputs: &[(String, String)]) -> Result<Timestamp> {
    let mut first: Option<Timestamp> = None;
    for (_, file) in inputs {
        let at = files::first_time(file)?;
        first = at.into_iter().chain(first).min();
    }
    Ok(first.unwrap_or(Timestamp::ZERO).max(Timestamp::ZERO))
}

/// Prints what elements have printed, all of it on standard error: standard output is for the result.
pub fn forward_prints(graph: &mut Graph) {
    for (_, bytes) in graph.take_printed() {
        // a closed pipe is no reason to stop
        let _ = std::io::stderr().write_all(&bytes);
    }
}

/// What packets come from, in the order of the command line, which is theirs at equal times; then what leaves goes to.
pub fn ports(chain: &Chain, plan: &mut Plan) -> Result<Vec<PortSpec>> {
    let mut all = Vec::new();
    let adapter = plan.adapter.take().map(Arc::new);
    for (port, file) in &plan.inputs {
        let i = find_port(chain, port, true)?;
        let source = ElemId(chain.ports[i].source.unwrap_or(0) as u32);
        let mut p = CapturePort::new(port).reads(files::open(file)?);
        if let Some(part) = &plan.part {
            p = p.with_share(part.share(i));
        }
        if let Some(a) = adapter.clone() {
            p = p.with_variants(Box::new(move |link, frame| {
                let forms = a.variants(source, link, frame);
                forms.into_iter().map(|(_, f)| f).collect()
            }));
        }
        all.push(PortSpec {
            name: port.clone(),
            entry: Some(source),
            sinks: Vec::new(),
            port: Some(Box::new(p)),
        });
    }
    for (i, p) in chain.ports.iter().enumerate() {
        let other = plan.ports.iter().find(|a| a.port == p.name);
        let output = plan.outputs.iter().find(|(port, _)| *port == p.name);
        let bound = plan.inputs.iter().any(|(port, _)| *port == p.name) || output.is_some();
        if other.is_some() && bound {
            bail!("port '{}' has --port besides --in or --out", p.name);
        }
        let live = plan.live.iter().position(|l| l.0 == p.name);
        let port: Option<Box<dyn Port>> = match (other, output) {
            _ if live.is_some() => live.map(|i| plan.live.swap_remove(i).1),
            (Some(a), _) => Some(a.open(plan.part.as_ref().map(|part| part.share(i)))?),
            (None, Some((port, file))) => {
                let mine = plan.part.as_mut().map(|p| &mut p.outputs);
                let at = mine.and_then(|o| Some((o.iter().position(|(n, _)| n == port)?, o)));
                let w = match at {
                    Some((i, own)) => {
                        let (_, file) = own.swap_remove(i);
                        CaptureWriter::new(file, Format::PcapNg, LinkType::ETHERNET, 0)?
                    }
                    None => onefold_bench::output::capture(file)?,
                };
                Some(Box::new(CapturePort::new(port).writes(w)))
            }
            (None, None) => None,
        };
        let source = p.source.filter(|_| other.is_some());
        all.push(PortSpec {
            name: p.name.clone(),
            entry: source.map(|s| ElemId(s as u32)),
            sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
            port,
        });
    }
    Ok(all)
}

/// Packets between two looks at signals, and words about how far it is.
const LOOK_EVERY: u64 = 1024;

/// Runs; the executor comes back. With network interfaces there is a session, which has the chain that runs in the end.
///
/// # Errors
/// When a capture cannot be read or written.
pub fn run(
    chain: &Chain,
    executor: Shadow,
    mut plan: Plan,
    (renewal, log): (&mut Renewal, &mut ShadowLog),
    mut session: Option<&mut Session>,
) -> Result<(Outcome, Shadow)> {
    let is_live = !plan.live.is_empty();
    let worker = open(chain, executor, &mut plan);
    if let Some(part) = &plan.part {
        // or the others wait for nothing
        let waited = worker.is_ok().then(|| part.ready.wait());
        waited.transpose()?;
    }
    let mut worker = worker?;
    let with_program = !worker.executor().needs_program();
    let start = Instant::now();
    let cpu = thread_seconds();
    let how = (&plan.clock, &plan.live_plan);
    let interrupted = match is_live {
        true => {
            let beside = (&mut *renewal, &mut plan.offloads, &mut plan.history);
            live::run(&mut worker, how, beside, log, session.as_deref_mut())?
        }
        false => captures(&mut worker, &mut plan, renewal, log)?,
    };
    let took = || (start.elapsed().as_secs_f64(), thread_seconds() - cpu);
    let ended = (took, interrupted, with_program);
    let outcome = close(&mut worker, chain, &plan, (renewal, log), session, ended)?;
    Ok((outcome, worker.into_executor()))
}

/// What takes packets, at the chain's ports.
///
/// # Errors
/// When a capture cannot be opened.
pub fn open(chain: &Chain, executor: Shadow, plan: &mut Plan) -> Result<Worker<Shadow>> {
    let specs = ports(chain, plan)?;
    Ok(Worker::new(executor, specs, plan.batch))
}

/// No more packets come: the worker ends, and says what has happened. `took`: seconds that packets were taken, and of
/// processor time; is asked once. Then whether it was interrupted, and whether there was a program.
///
/// # Errors
/// When something cannot be written.
pub fn close(
    worker: &mut Worker<Shadow>,
    chain: &Chain,
    plan: &Plan,
    (renewal, log): (&mut Renewal, &mut ShadowLog),
    session: Option<&mut Session>,
    (took, interrupted, with_program): (impl FnOnce() -> (f64, f64), bool, bool),
) -> Result<Outcome> {
    let is_live = session.is_some();
    if let Some(s) = &session {
        s.write_alerts(worker);
    }
    renewal.end();
    let shadow = worker.executor();
    shadow.end_window();
    log.tell(shadow)?;
    let (seconds, cpu_seconds) = took();
    let program = with_program.then(|| shadow.flow().report());
    worker.linger(plan.linger)?;
    worker.finish()?;
    forward_prints(worker.executor().flow_mut().graph_mut());
    let ran = Ran {
        seconds,
        cpu_seconds,
        interrupted,
        renewed: renewal.renewed,
        program,
        early: plan.offloads.report(worker.executor().graph()),
    };
    let now = session.as_ref().map(|s| s.chain.clone());
    let chain = now.as_deref().unwrap_or(chain);
    let mut outcome = outcome(chain, worker, ran, is_live);
    if let Some(session) = session {
        session.earlier.add_to(&mut outcome);
    }
    outcome.history.clone_from(&plan.history);
    if let Some(mut history) = outcome.history.take() {
        let now = match is_live {
            true => plan.clock.now(),
            false => worker.now(),
        };
        history.end(now, &outcome);
        outcome.history = Some(history);
    }
    Ok(outcome)
}

/// How a run went, as far as its worker does not know it.
pub struct Ran {
    /// See [`Outcome::seconds`].
    pub seconds: f64,
    /// See [`Outcome::cpu_seconds`].
    pub cpu_seconds: f64,
    /// See [`Outcome::interrupted`].
    pub interrupted: bool,
    /// See [`Outcome::renewed`].
    pub renewed: u32,
    /// See [`Outcome::program`].
    pub program: Option<Report>,
    /// What was dropped in front of ports, see [`InterfaceReport::early`].
    pub early: Vec<DroppedEarly>,
}

/// What has happened so far.
pub fn outcome(chain: &Chain, worker: &mut Worker<Shadow>, ran: Ran, is_live: bool) -> Outcome {
    let interfaces = match is_live {
        true => (worker.states())
            .map(|s| InterfaceReport {
                name: s.name.to_string(),
                link: s.link,
                losses: s.losses,
                counters: s.counters,
                early: (ran.early.iter())
                    .filter(|e| e.port == s.name)
                    .cloned()
                    .collect(),
            })
            .collect(),
        false => Vec::new(),
    };
    let warnings = worker.take_warnings();
    let ports = (chain.ports.iter())
        .map(|p| {
            let mine = worker.counts().filter(|(n, ..)| *n == p.name);
            let add = |a: Count, b: Count| Count {
                packets: a.packets + b.packets,
                bytes: a.bytes + b.bytes,
            };
            let none = (Count::default(), Count::default());
            let (i, o) = mine.fold(none, |(i, o), (_, x, y)| (add(i, x), add(o, y)));
            (p.name.clone(), i, o)
        })
        .collect();
    let span = worker.span().as_secs_f64();
    let stays = worker.stays().filter(|s| !s.1.is_empty());
    let stays = stays.map(|(n, s)| (n.to_string(), s.clone())).collect();
    let shadow = &*worker.executor();
    let (drops, drops_by_element) = drops(chain, shadow);
    Outcome {
        totals: shadow.flow().totals(),
        ports,
        stays,
        interfaces,
        drops,
        drops_by_element,
        seconds: ran.seconds,
        cpu_seconds: ran.cpu_seconds,
        span,
        warnings,
        interrupted: ran.interrupted,
        overruns: shadow.graph().overruns(),
        program: ran.program,
        levels: shadow.flow().levels(),
        flow: shadow.flow().stats(),
        renewed: ran.renewed,
        history: None,
    }
}

/// Seconds for which this thread has been executed so far.
pub fn thread_seconds() -> f64 {
    let at = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    at.map_or(0.0, |t| std::time::Duration::from(t).as_secs_f64())
}

/// Takes what is recorded, in the order of its times, until no more comes or somebody says stop. True: it was
/// interrupted.
fn captures(
    worker: &mut Worker<Shadow>,
    plan: &mut Plan,
    renewal: &mut Renewal,
    log: &mut ShadowLog,
) -> Result<bool> {
    let mut synthesized = !worker.executor().needs_program();
    let total = worker.progress().1;
    let mut progress = Progress::new(total, plan.quiet);
    let start = Instant::now();
    let (mut n, mut looked) = (0u64, 0u64);
    let mut interrupted = false;
    while plan.limit.is_none_or(|l| n < l) {
        if synthesized && worker.executor().needs_program() {
            synthesized = renewal.renew(worker.executor());
        }
        let most = plan.limit.map_or(u64::MAX, |l| l - n);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let Some(step) = worker.step(most)? else {
            break;
        };
        if n == 0 {
            history::begin(&mut plan.history, worker.now() - worker.span());
        }
        n += step.packets as u64;
        let now = worker.now();
        if let Some(history) = plan.history.as_mut().filter(|h| h.is_due(now)) {
            history.look(now, &SoFar::of(worker.executor(), &[]));
        }
        let watched = worker.executor().is_watching();
        if watched || worker.executor().mismatches() > 0 {
            // inputs are the first ports
            log.came(step.port, step.packets);
            log.tell(worker.executor())?;
        }
        if n - looked >= LOOK_EVERY {
            looked = n;
            forward_prints(worker.executor().flow_mut().peek_graph_mut());
            let rate = n as f64 / start.elapsed().as_secs_f64().max(1e-9) / 1e6;
            progress.at(worker.progress().0, || {
                format!("{} packets, {rate:.2} Mpps", crate::common::thousands(n))
            });
            interrupted = self::interrupted().load(Ordering::SeqCst);
            if interrupted || worker.executor().graph().stop_requested() {
                break;
            }
        }
    }
    progress.finish();
    // a stream ends when a signal comes
    Ok(interrupted || self::interrupted().load(Ordering::SeqCst))
}

/// Packets dropped by reason, and by element and reason, most first.
fn drops(chain: &Chain, shadow: &Shadow) -> (BTreeMap<String, u64>, Vec<Dropped>) {
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_element = Vec::new();
    for d in shadow.flow().drops() {
        *drops.entry(d.reason.to_string()).or_default() += d.packets;
        let element = chain.graph.find(&d.element);
        by_element.push(Dropped {
            place: element
                .map_or_else(SourceLoc::default, |i| chain.graph.elements[i].decl.clone()),
            element: d.element,
            reason: d.reason.to_string(),
            packets: d.packets,
        });
    }
    // those of one number stay as they are, by element and reason
    by_element.sort_by_key(|d| std::cmp::Reverse(d.packets));
    (drops, by_element)
}
