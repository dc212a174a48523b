//! Chains on network interfaces: what is looked at before anything takes time, and the loop that packets go round in.

use crate::common::{self, ChainArgs, thousands};
use crate::deploy::Renewal;
use crate::ports::{self, DpdkSetup, Live, PortArg};
use crate::runner::{self, Outcome};
use crate::shadow::ShadowLog;
use anyhow::{Result, bail};
use clap::ValueEnum;
use onefold_chain::{Attached, Chain, LivePort};
use onefold_engine::Executor;
use onefold_engine::shadow::Shadow;
use onefold_runtime::{Clock, Count, LinkState, Polling, Rhythm, Worker};
use std::sync::atomic::Ordering;
use std::time::Duration;

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
}

impl Poll {
    /// As a worker has it.
    pub fn polling(self) -> Polling {
        match self {
            Poll::Busy => Polling::Busy,
            Poll::Adaptive => Polling::Adaptive,
            Poll::Interrupt => Polling::Interrupt,
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
}

/// Opens the ports that are interfaces. Empty: there are none.
///
/// # Errors
/// Something is wrong with one of them, one is there twice, or others are captures that packets come from.
pub fn open(ports: &[PortArg], captures: bool, dpdk: &DpdkSetup, quiet: bool) -> Result<Vec<Live>> {
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
    let umem = ports::umem(ports);
    let mut all = Vec::new();
    let mut dpdk = ports::start_dpdk(ports, dpdk)?;
    for remark in dpdk.iter().flat_map(|d| d.remarks()).filter(|_| !quiet) {
        eprintln!("{remark}");
    }
    for p in ports {
        all.extend(p.open_live(umem.as_ref(), dpdk.as_mut())?);
    }
    Ok(all)
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
    let ports: Vec<LivePort> = (live.iter())
        .map(|l| LivePort {
            port: l.port.clone(),
            mac: l.mac(),
            mtu: l.interface.mtu,
            learns: !l.device.keeps_neighbours,
        })
        .collect();
    let (chain, attached) = match onefold_chain::load_live(&args.chain, &args.options(), &ports) {
        Ok(loaded) => loaded,
        Err(e) => {
            common::print_diagnostics(&common::chain_error(&e));
            return Ok(None);
        }
    };
    common::print_diagnostics(&chain.warnings);
    for l in live {
        if chain.ports.iter().all(|p| p.name != l.port) {
            bail!("the chain has no port '{}'", l.port);
        }
        let at = attached.iter().find(|a| a.port == l.port);
        l.check(at.map_or(0, |a| a.mtu))?;
        if !quiet {
            say(l, at);
        }
    }
    Ok(Some((chain, attached)))
}

/// Says what has changed about ports. Behind a link that is up again there may be other neighbours: those that are
/// known are forgotten.
fn tell(worker: &mut Worker<Shadow>, attached: &[Attached]) {
    for r in worker.take_remarks() {
        eprintln!("port {}: {}", r.port, r.text);
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
            if let Err(e) = cleared {
                eprintln!("warning: {asks}: {e}");
            }
        }
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

/// Takes packets until somebody says stop. True: it was interrupted.
///
/// # Errors
/// A device is broken, or what leaves cannot be written.
pub fn run(
    worker: &mut Worker<Shadow>,
    clock: &Clock,
    plan: &LivePlan,
    renewal: &mut Renewal,
    log: &mut ShadowLog,
) -> Result<bool> {
    let mut synthesized = !worker.executor().needs_program();
    let mut rhythm = Rhythm::new(plan.polling);
    let mut packets = 0u64;
    let mut interrupted = false;
    worker.start(clock.now())?;
    if !plan.quiet {
        eprintln!("running; Ctrl-C ends it");
    }
    let begun = clock.elapsed();
    while plan.limit.is_none_or(|l| packets < l) {
        if synthesized && worker.executor().needs_program() {
            synthesized = renewal.renew(worker.executor());
        }
        let most = plan.limit.map_or(u64::MAX, |l| l - packets);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let attend = match worker.live_step(clock, most)? {
            Some(step) => {
                packets += step.packets as u64;
                let watched = worker.executor().is_watching();
                if watched || worker.executor().mismatches() > 0 {
                    log.came(step.port, step.packets);
                    log.tell(worker.executor())?;
                }
                rhythm.busy()
            }
            None => {
                worker.idle(clock)?;
                let idle = rhythm.idle();
                if idle.sleep {
                    worker.wait(clock)?;
                }
                idle.attend
            }
        };
        if attend {
            if plan.duration.is_some_and(|d| clock.elapsed() - begun >= d) {
                break;
            }
            worker.attend();
            tell(worker, &plan.attached);
            runner::forward_prints(worker.executor().flow_mut().peek_graph_mut());
        }
        interrupted = runner::interrupted().load(Ordering::Relaxed);
        if interrupted || worker.executor().graph().stop_requested() {
            break;
        }
    }
    worker.attend();
    worker.drain(DRAIN)?;
    Ok(interrupted)
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

/// Packets and bytes by port; of network interfaces the link's state and what was lost there, too.
pub fn ports_json(o: &Outcome) -> serde_json::Map<String, serde_json::Value> {
    let one = |(n, i, out): &(String, Count, Count)| {
        let mut v = serde_json::json!({
            "in": { "packets": i.packets, "bytes": i.bytes },
            "out": { "packets": out.packets, "bytes": out.bytes },
        });
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
