//! Chains on network interfaces: what is looked at before anything takes time, and the loop that packets go round in.

use crate::common::{self, ChainArgs, thousands};
use crate::control::{Command, Session, capture};
use crate::deploy::Renewal;
use crate::gate::Gate;
use crate::history::{self, History};
use crate::log::{self, Level, Losses};
use crate::ports::{self, DpdkSetup, Live, PortArg, Receivers};
use crate::runner::{self, Outcome};
use crate::sandbox;
use crate::service::Manager;
use crate::shadow::ShadowLog;
use crate::xdp::Offloads;
use anyhow::{Result, bail};
use clap::ValueEnum;
use onefold_chain::{Attached, Chain, LivePort};
use onefold_engine::Executor;
use onefold_engine::shadow::Shadow;
use onefold_runtime::{
    Clock, Count, Ending, Histogram, LinkState, Polling, Remark, Rhythm, Step, Worker,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long packets that wait for room in a queue are waited for at the end.
const DRAIN: Duration = Duration::from_millis(500);

/// What is done while no packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Poll {
    /// Look again and again: the least latency, a whole core.
    Busy,
    /// Look again for 50 microseconds, then sleep until a packet comes.
    Adaptive,
    /// Sleep at once.
    Interrupt,
    /// Look every 50 microseconds while packets come, then sleep until one does: larger batches for less of a core, and
    /// up to 50 microseconds more latency (interrupt moderation).
    Moderate,
}

impl Poll {
    /// As a worker has it.
    pub fn polling(self) -> Polling {
        match self {
            Poll::Busy => Polling::Busy,
            Poll::Adaptive => Polling::Adaptive,
            Poll::Interrupt => Polling::Interrupt,
            Poll::Moderate => Polling::Moderate,
        }
    }
}

/// How a chain runs on interfaces.
#[derive(Debug, Clone)]
pub struct LivePlan {
    /// What it does while no packets come.
    pub polling: Polling,
    /// It ends by itself after this time.
    pub duration: Option<Duration>,
    /// No more than this many packets.
    pub limit: Option<u64>,
    /// Remarks are not printed.
    pub quiet: bool,
    /// Where the ports are in the chain.
    pub attached: Vec<Attached>,
    /// What it has to do with other workers, if there are some.
    pub team: Option<Team>,
}

/// A worker among others: they begin and end together.
#[derive(Debug, Clone)]
pub struct Team {
    /// Nobody takes packets in before all are ready.
    pub begin: Arc<Gate>,
    /// Whoever takes packets in stops first.
    pub ending: Arc<Ending>,
    /// This worker takes packets in from devices itself.
    pub receives: bool,
    /// This worker tells what has changed about ports; the others hear of it only.
    pub tells: bool,
}

/// Opens the ports that are interfaces, for who takes packets in there. Empty: there are none.
///
/// # Errors
/// Something is wrong with one of them, one is there twice, or others are captures that packets come from.
pub fn open(
    ports: &[PortArg],
    captures: bool,
    dpdk: &DpdkSetup,
    (receivers, quiet): (Receivers, bool),
) -> Result<Vec<Live>> {
    let devices = || ports.iter().filter_map(|p| Some((p, p.device()?)));
    let Some((first, _)) = devices().next() else {
        return Ok(Vec::new());
    };
    if captures {
        bail!(
            "port '{}' is a network interface, whose packets arrive in real time, and others are captures, whose \
             packets arrive at the time at which they were taken: a chain has one clock; use interfaces only, or \
             captures only (--out PORT=FILE works with both)",
            first.port
        );
    }
    for (i, (p, d)) in devices().enumerate() {
        let same = devices().take(i).find(|(_, e)| e.interface == d.interface);
        if let Some((q, _)) = same {
            bail!(
                "ports '{}' and '{}' are the same interface, '{}': what leaves at one of them would not arrive at \
                 the other; give each its own",
                q.port,
                p.port,
                d.interface
            );
        }
        if devices().take(i).any(|(q, _)| q.port == p.port) {
            bail!("port '{}' has two interfaces", p.port);
        }
    }
    let umem = ports::umem(ports, receivers.count());
    let mut all = Vec::new();
    let mut dpdk = ports::start_dpdk(ports, dpdk)?;
    for remark in dpdk.iter().flat_map(|d| d.remarks()).filter(|_| !quiet) {
        eprintln!("{remark}");
    }
    for p in ports {
        all.extend(p.open_live(umem.as_ref(), dpdk.as_mut(), receivers)?);
    }
    Ok(all)
}

/// These interfaces, as a chain is loaded for them.
pub fn ports_of(live: &[Live]) -> Vec<LivePort> {
    (live.iter())
        .map(|l| LivePort {
            port: l.port.clone(),
            mac: l.mac(),
            mtu: l.interface.mtu,
            learns: !l.device.keeps_neighbours,
        })
        .collect()
}

/// Looks whether the interfaces are what the chain needs, and says what is behind each port.
///
/// # Errors
/// One is not.
pub fn fit(chain: &Chain, live: &[Live], attached: &[Attached], quiet: bool) -> Result<()> {
    for l in live {
        if chain.ports.iter().all(|p| p.name != l.port) {
            bail!("the chain has no port '{}'", l.port);
        }
        let at = attached.iter().find(|a| a.port == l.port);
        l.check(at.map_or(0, |a| a.mtu))?;
        if !quiet {
            say(l, at);
        }
        log_port(l);
    }
    Ok(())
}

/// Loads the chain as it is on these interfaces; errors of the chain are printed, and `None` comes back.
///
/// # Errors
/// An interface is not what the chain needs.
pub fn load(
    args: &ChainArgs,
    live: &[Live],
    quiet: bool,
) -> Result<Option<(Chain, Vec<Attached>)>> {
    let ports = ports_of(live);
    let (chain, attached) = match onefold_chain::load_live(&args.chain, &args.options(), &ports) {
        Ok(loaded) => loaded,
        Err(e) => {
            common::print_diagnostics(&common::chain_error(&e));
            return Ok(None);
        }
    };
    common::print_diagnostics(&chain.warnings);
    fit(&chain, live, &attached, quiet)?;
    Ok(Some((chain, attached)))
}

/// Says what has changed about ports. Behind a link that is up again there may be other neighbours: those that are
/// known are forgotten.
fn tell(worker: &mut Worker<Shadow>, plan: &LivePlan, attached: &[Attached]) {
    for r in worker.take_remarks() {
        if plan.team.as_ref().is_none_or(|t| t.tells) {
            tell_of_link(&r);
        }
        let here = attached.iter().filter(|a| r.restored && a.port == r.port);
        for asks in here.filter_map(Attached::asks) {
            let shadow = worker.executor();
            if shadow.graph().find(&asks).is_none() {
                continue;
            }
            shadow.end_window();
            let cleared = shadow
                .graph_mut()
                .write_handler(&format!("{asks}.clear"), "");
            let (port, element) = (r.port.as_str().into(), asks.as_str().into());
            let fields = [("port", port), ("element", element)];
            match cleared {
                Ok(()) => log::event(Level::Info, "neighbours-forgotten", &fields),
                Err(e) => eprintln!("warning: {asks}: {e}"),
            }
        }
    }
}

/// Says what has changed about a port's link.
pub fn tell_of_link(r: &Remark) {
    eprintln!("port {}: {}", r.port, r.text);
    let level = match r.restored {
        true => Level::Info,
        false => Level::Warning,
    };
    let (port, what) = (r.port.as_str().into(), r.text.as_str().into());
    log::event(level, "link", &[("port", port), ("what", what)]);
}

/// Packets are taken from now on.
pub fn tell_running(quiet: bool) {
    log::event(Level::Info, "running", &[]);
    if !quiet {
        eprintln!("running; Ctrl-C ends it");
    }
}

/// Says what is behind a port, and as what the chain appears there.
fn say(l: &Live, at: Option<&Attached>) {
    let (shown, mtu) = (&l.shown, l.interface.mtu);
    let who = match at.and_then(|a| a.at.as_ref()) {
        None => "frames are taken and sent with the MAC addresses that they have".to_string(),
        Some((at, kind)) => {
            let mac = match l.mac() {
                Some(mac) => format!("has its address {mac}"),
                None => "has the chain file's MAC address".to_string(),
            };
            let neighbours = match l.device.keeps_neighbours {
                true => "neighbours have the chain file's",
                false => "neighbours are asked for theirs",
            };
            format!("{kind} {at} {mac}, {neighbours}")
        }
    };
    eprintln!("port {}: {shown}, MTU {mtu}; {who}", l.port);
}

/// Tells the log of a port.
fn log_port(l: &Live) {
    let mac = l.mac().map(|mac| mac.to_string());
    let fields = [
        ("port", l.port.as_str().into()),
        ("device", l.shown.as_str().into()),
        ("mtu", l.interface.mtu.into()),
        ("mac", mac.into()),
    ];
    log::event(Level::Info, "port", &fields);
}

/// How far a worker is with ending together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It takes packets.
    Receiving,
    /// It takes nothing in any more.
    Stopped,
    /// Its queues were empty after all had stopped.
    Emptied,
}

impl Stage {
    /// Goes as far as it can; called before each look at the queues. True: what is there now is the last of it.
    #[inline]
    pub fn ends(&mut self, team: &Team, worker: &mut Worker<Shadow>) -> bool {
        let ending = &team.ending;
        if *self == Stage::Receiving && team.receives && ending.is_asked() {
            worker.stop();
            ending.stopped();
            *self = Stage::Stopped;
        }
        if *self == Stage::Stopped && ending.is_closed() && !worker.has_more() {
            ending.emptied();
            *self = Stage::Emptied;
        }
        ending.is_over()
    }
}

/// Takes packets until somebody says stop. True: it was interrupted.
///
/// # Errors
/// A device is broken, or what leaves cannot be written.
pub fn run(
    worker: &mut Worker<Shadow>,
    (clock, plan): (&Clock, &LivePlan),
    (renewal, offloads, history): (&mut Renewal, &mut Offloads, &mut Option<History>),
    differences: &mut ShadowLog,
    mut session: Option<&mut Session>,
) -> Result<bool> {
    let mut synthesized = !worker.executor().needs_program();
    let mut rhythm = Rhythm::new(plan.polling);
    let mut packets = 0u64;
    let (mut interrupted, mut ended) = (false, false);
    worker.start(clock.now())?;
    let mut manager = begin(worker, plan, session.as_deref_mut())?;
    history::begin(history, clock.now());
    let mut losses = Losses::default();
    let team = plan.team.as_ref();
    let mut stage = Stage::Receiving;
    let begun = clock.elapsed();
    while plan.limit.is_none_or(|l| packets < l) {
        // before the last look at the queues
        let over = team.is_some_and(|t| stage.ends(t, worker));
        let how = (&mut *renewal, &mut *offloads);
        between(
            worker,
            how,
            differences,
            session.as_deref_mut(),
            &mut synthesized,
        )?;
        let most = plan.limit.map_or(u64::MAX, |l| l - packets);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let attend = match step(worker, clock, most, session.as_deref_mut())? {
            Some(step) => {
                packets += step.packets as u64;
                taken(worker, &step, differences)?;
                rhythm.busy()
            }
            None if over && !worker.has_more() => break,
            None => rest(worker, clock, &mut rhythm, session.as_deref_mut())?,
        };
        if attend {
            if plan.duration.is_some_and(|d| clock.elapsed() - begun >= d) {
                ended = true;
            }
            if let Some(m) = &mut manager {
                m.alive();
            }
            look_after(worker, plan, session.as_deref());
            history::attend(history, clock, worker, session.as_deref());
            offloads.attend(worker);
            if losses.is_time() {
                losses.look(worker.states());
            }
            sandbox::attend();
        }
        interrupted = runner::interrupted().load(Ordering::Relaxed);
        ended |= interrupted || worker.executor().graph().stop_requested();
        match team {
            Some(t) if ended => t.ending.ask(),
            None if ended => break,
            _ => {}
        }
    }
    if let Some(m) = &mut manager {
        m.ends();
    }
    drain(worker)?;
    offloads.finish(worker);
    losses.look(worker.states());
    Ok(interrupted)
}

/// What is done between two batches: commands, and a program where one is needed; `synthesized`: there is to be one.
///
/// # Errors
/// When a capture of shadow mode cannot be written.
#[inline]
pub fn between(
    worker: &mut Worker<Shadow>,
    (renewal, offloads): (&mut Renewal, &mut Offloads),
    log: &mut ShadowLog,
    session: Option<&mut Session>,
    synthesized: &mut bool,
) -> Result<()> {
    if let Some(session) = session {
        while let Some(command) = session.mail() {
            let how = (&mut *renewal, &mut *offloads);
            if obey(command, worker, session, how, log)? {
                *synthesized = session.synthesizes();
            }
        }
    }
    if *synthesized && worker.executor().needs_program() {
        offloads.withdraw("the chain's rules have changed");
        *synthesized = renewal.renew(worker.executor());
        if let Some(prepared) = renewal.take_offloads() {
            offloads.renew(worker, prepared);
        }
    }
    Ok(())
}

/// A batch has been taken: what a comparison has found is told.
///
/// # Errors
/// When a capture of shadow mode cannot be written.
#[inline]
pub fn taken(worker: &mut Worker<Shadow>, step: &Step, log: &mut ShadowLog) -> Result<()> {
    let watched = worker.executor().is_watching();
    if watched || worker.executor().mismatches() > 0 {
        log.came(step.port, step.packets);
        log.tell(worker.executor())?;
    }
    Ok(())
}

/// Looks after a worker's ports, and forwards what its elements print.
pub fn look_after(worker: &mut Worker<Shadow>, plan: &LivePlan, session: Option<&Session>) {
    worker.attend();
    let attached = session.map_or(&plan.attached, |s| s.look_after(worker));
    tell(worker, plan, attached);
    runner::forward_prints(worker.executor().flow_mut().peek_graph_mut());
}

/// Nothing more is taken in: what waits for room is sent.
///
/// # Errors
/// A device is broken.
pub fn drain(worker: &mut Worker<Shadow>) -> Result<()> {
    worker.attend();
    Ok(worker.drain(DRAIN)?)
}

/// Does what the worker is told to. True: another executor has been installed.
fn obey(
    command: Command,
    worker: &mut Worker<Shadow>,
    session: &mut Session,
    (renewal, offloads): (&mut Renewal, &mut Offloads),
    log: &mut ShadowLog,
) -> Result<bool> {
    if !matches!(command, Command::Commit { .. }) {
        return session.carry_out(command, worker, renewal, log);
    }
    let prepared = session.take_offloads();
    let paused = offloads.pause(worker);
    let installed = session.carry_out(command, worker, renewal, log)?;
    offloads.go_on(paused, installed.then_some(prepared));
    Ok(installed)
}

/// All who wait for the worker hear that it begins: the other workers, who may ask and change it, a service manager,
/// the operator.
fn begin(
    worker: &mut Worker<Shadow>,
    plan: &LivePlan,
    session: Option<&mut Session>,
) -> Result<Option<Manager>> {
    if let Some(team) = &plan.team {
        team.begin.wait()?;
    }
    let manager = session.map(|session| {
        worker.wake_by(session.wakes());
        session.begin_alerts(worker);
        session.begin();
        let mut manager = Manager::of_environment();
        manager.ready();
        manager
    });
    // of several workers it is said when all are ready
    if plan.team.is_none() {
        tell_running(plan.quiet);
    }
    Ok(manager)
}

/// A batch, and what it says of the load.
///
/// # Errors
/// A device is broken, or what leaves cannot be written.
#[inline]
pub fn step(
    worker: &mut Worker<Shadow>,
    clock: &Clock,
    most: usize,
    session: Option<&mut Session>,
) -> Result<Option<Step>> {
    let Some(session) = session else {
        return Ok(worker.live_step(clock, most)?);
    };
    let sample = session.load.sample();
    let step = match session.watch {
        None => worker.live_step(clock, most)?,
        Some(_) => capture::watched_step(session, worker, clock)?,
    };
    if let Some(step) = &step {
        session.load.worked(step.packets, sample);
    }
    Ok(step)
}

/// No packet is there: sleeps, if it is time to. Is it time to look after the ports?
fn rest(
    worker: &mut Worker<Shadow>,
    clock: &Clock,
    rhythm: &mut Rhythm,
    mut session: Option<&mut Session>,
) -> Result<bool> {
    worker.idle(clock)?;
    let idle = rhythm.idle();
    if let Some(s) = session.as_deref_mut() {
        s.load.idle(idle.now);
    }
    match idle.pause {
        Some(p) => std::thread::sleep(p),
        None if idle.sleep => worker.wait(clock)?,
        None => return Ok(idle.attend),
    }
    if let Some(s) = session {
        s.load.idle(Instant::now());
    }
    Ok(idle.attend)
}

/// A time in seconds.
///
/// # Errors
/// When it is no such thing, in words.
pub fn seconds(s: &str) -> Result<Duration, String> {
    let time = s
        .parse()
        .ok()
        .and_then(|x| Duration::try_from_secs_f64(x).ok());
    time.ok_or_else(|| "expected a number of seconds".to_string())
}

/// The key `latency` of a port in reports: how long packets that left there were in the chain, ns; `None`: none did.
pub fn latency_json(stayed: &Histogram) -> Option<serde_json::Value> {
    let told = stayed.told()?;
    let buckets: Vec<(u64, u64)> = stayed.buckets().collect();
    Some(serde_json::json!({
        "p50": told.p50, "p90": told.p90, "p99": told.p99, "p999": told.p999, "max": told.max, "mean": told.mean,
        "buckets": buckets,
    }))
}

/// Packets and bytes by port; of network interfaces the link's state and what was lost there, too.
pub fn ports_json(o: &Outcome) -> serde_json::Map<String, serde_json::Value> {
    let one = |(n, i, out): &(String, Count, Count)| {
        let mut v = serde_json::json!({
            "in": { "packets": i.packets, "bytes": i.bytes },
            "out": { "packets": out.packets, "bytes": out.bytes },
        });
        let stayed = o.stays.iter().find(|s| s.0 == *n);
        if let Some(latency) = stayed.and_then(|s| latency_json(&s.1)) {
            v["latency"] = latency;
        }
        let live = o.interfaces.iter().find(|i| i.name == *n);
        if let (Some(i), Some(v)) = (live, v.as_object_mut()) {
            let lost: serde_json::Map<_, _> = (i.losses.iter())
                .map(|l| (l.reason.to_string(), l.packets.into()))
                .collect();
            let counters: serde_json::Map<_, _> = (i.counters.iter())
                .map(|(what, n)| ((*what).to_string(), (*n).into()))
                .collect();
            v.insert("link".into(), i.link.name().into());
            v.insert("lost".into(), lost.into());
            v.insert("counters".into(), counters.into());
            if !i.early.is_empty() {
                let early = i.early.iter().map(|e| {
                    serde_json::json!({
                        "element": e.element, "reason": e.reason, "packets": e.packets, "bytes": e.bytes })
                });
                v.insert("dropped_early".into(), early.collect());
            }
        }
        (n.clone(), v)
    };
    o.ports.iter().map(one).collect()
}

/// Says what interfaces have lost, and which are not up.
pub fn print_losses(o: &Outcome) {
    for i in &o.interfaces {
        let n = &i.name;
        if i.link != LinkState::Up {
            crate::say!("  {n:<12} link {}", i.link.name());
        }
        for (what, packets) in &i.counters {
            crate::say!("  {n:<12}      {:>10} packets: {what}", thousands(*packets));
        }
        for l in &i.losses {
            crate::say!(
                "  {n:<12} lost {:>10} packets: {}",
                thousands(l.packets),
                l.reason
            );
        }
    }
}
