//! `onefold gen --port`: traffic on live ports.

mod args;
mod commands;
mod frames;
mod report;

pub use args::LiveArgs;

use crate::cmd::generate::Args;
use crate::common;
use crate::live::{self, Poll};
use crate::ports::{DpdkSetup, Live, Receivers};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Result, anyhow, bail};
use frames::Made;
use onefold_packet::EtherAddr;
use onefold_traffic::neighbor::source;
use onefold_traffic::{
    Generator, Goal, How, Limit, PortSpec, Rate, Schedule, Trial, Tried, Watch, search,
};
use report::Told;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Somebody who was asked for by name answers within this time, or is not there.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same of an address that the chain file has.
const GUESS_PATIENCE: Duration = Duration::from_secs(1);
/// Packets a second of those that open flows.
const OPENING_PPS: f64 = 50_000.0;

/// Shows progress and remarks.
struct Onlooker {
    progress: Option<Progress>,
    /// Of a trial.
    time: Option<Duration>,
    quiet: bool,
}

impl Onlooker {
    fn new(time: Option<Duration>, quiet: bool) -> Onlooker {
        Onlooker {
            progress: None,
            time,
            quiet,
        }
    }

    fn finish(&mut self) {
        if let Some(p) = &mut self.progress {
            p.finish();
        }
    }
}

impl Watch for Onlooker {
    fn stop(&mut self) -> bool {
        runner::interrupted().load(Ordering::Relaxed)
    }

    fn remark(&mut self, port: &str, text: &str) {
        eprintln!("port {port}: {text}");
    }

    fn progress(&mut self, time: Duration, sent: u64, received: u64) {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let total = self.time.map_or(0, millis);
        let quiet = self.quiet;
        let p = self
            .progress
            .get_or_insert_with(|| Progress::new(total, quiet));
        p.at(millis(time), || {
            let (s, r) = (common::thousands(sent), common::thousands(received));
            format!("{s} packets sent, {r} received")
        });
    }
}

/// The MAC address that frames are sent to at a port, and the address that it was told for.
type NextHop = Option<(EtherAddr, Option<IpAddr>)>;

/// Finds out where the frames of a port are to go.
fn next_hop(
    generator: &mut Generator,
    (port, name): (usize, &str),
    args: &LiveArgs,
    made: &Made,
    watch: &mut Onlooker,
) -> Result<NextHop> {
    if let Some(mac) = args::of_port(&args.to_mac, name) {
        return Ok(Some((mac, None)));
    }
    let asked = args::of_port(&args.gateway, name);
    let guess = made.gateway.filter(|_| made.port == Some(port));
    let Some(gateway) = asked.or(guess) else {
        return Ok(None);
    };
    let own = generator.load().first(port).and_then(source);
    let own = match (own, asked) {
        (Some(own), _) if own.is_ipv4() == gateway.is_ipv4() => own,
        (_, None) => return Ok(None),
        (None, _) => bail!("--gateway: nothing is sent at port '{name}'"),
        (Some(own), _) => bail!(
            "--gateway {gateway}: what is sent at port '{name}' is of another family (from {own})"
        ),
    };
    let time = if asked.is_some() {
        PATIENCE
    } else {
        GUESS_PATIENCE
    };
    match generator.resolve(port, (own, gateway), time, watch)? {
        Some(mac) => Ok(Some((mac, Some(gateway)))),
        None if asked.is_none() || watch.stop() => Ok(None),
        None => bail!(
            "--gateway {gateway}: nobody at port '{name}' answers for that address; is the chain running? \
             hint: --to-mac {name}=MAC sends without asking"
        ),
    }
}

/// Gives all frames the MAC addresses that they are to have at each port, and says so.
fn link(
    generator: &mut Generator,
    opened: &[Opened],
    (args, quiet): (&LiveArgs, bool),
    made: &Made,
    watch: &mut Onlooker,
) -> Result<Vec<Option<EtherAddr>>> {
    let mut all = Vec::new();
    for (port, o) in opened.iter().enumerate() {
        let (name, mac, shown) = (&o.name, &o.mac, &o.shown);
        let hop = next_hop(generator, (port, name), args, made, watch)?;
        let hop = hop.or(o.host.map(|h| (h, None)));
        // a recorded frame keeps its addresses unless it is told where to go
        let own = (!made.recorded || hop.is_some()).then_some(*mac);
        generator.load_mut().set_link(port, hop.map(|h| h.0), own);
        let to = generator.load().first(port).and_then(EtherAddr::from_slice);
        if !quiet {
            let goes = match (to, hop) {
                (None, _) => "nothing is sent there".to_string(),
                (Some(to), Some((_, Some(ip)))) => format!("frames go to {to}, which has {ip}"),
                (Some(to), _) => format!("frames go to {to}"),
            };
            eprintln!("port {name}: {shown}, {mac}; {goes}");
        }
        all.push(to);
    }
    Ok(all)
}

/// A number that no other run has.
fn run_number() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.map_or(0, |d| d.as_nanos() as u64);
    nanos ^ (u64::from(std::process::id()) << 40)
}

/// Something is wrong with the options, which is said before anything takes time.
fn check(args: &Args) -> Result<()> {
    let (g, l) = (&args.gen_args, &args.live);
    if g.out.is_some() || g.reverse.is_some() || g.answers_to.is_some() || g.rules.is_some() {
        bail!(
            "--port sends on live ports; --out, --reverse, --answers-to and --rules write files: one or the other"
        );
    }
    if !l.replay.is_empty() && args.aim.is_some() {
        bail!(
            "--replay sends a capture's packets, --for those that are made for a chain: one or the other"
        );
    }
    if l.search && l.seconds.is_some() {
        bail!("--search makes trials of --trial seconds each; leave --seconds out");
    }
    if !(0.0..1.0).contains(&l.loss) {
        bail!("--loss {}: expected a share, 0 or more, below 1", l.loss);
    }
    if l.hostile.is_some() && args.aim.is_none() {
        bail!(
            "--hostile: attackers' packets are made from those that a chain lets pass; type --for CHAIN"
        );
    }
    if !(0.0..=0.95).contains(&l.hostile_share) {
        bail!(
            "--hostile-share {}: expected a share, 0 to 0.95",
            l.hostile_share
        );
    }
    if !(0.0001..=0.5).contains(&l.step) {
        bail!("--step {}: expected 0.0001 to 0.5", l.step);
    }
    let names: Vec<&str> = l.ports.iter().map(|p| p.port.as_str()).collect();
    let told = (l.to_mac.iter().map(|t| &t.0))
        .chain(l.gateway.iter().map(|t| &t.0))
        .chain(l.replay.iter().map(|t| &t.0));
    for port in told.flatten() {
        if !names.contains(&port.as_str()) {
            bail!(
                "there is no --port '{port}'; there are: {}",
                names.join(", ")
            );
        }
    }
    Ok(())
}

/// What is known of a port that is open.
struct Opened {
    name: String,
    /// The generator's address there.
    mac: EtherAddr,
    shown: String,
    /// The address of the host at the other end, where that is known.
    host: Option<EtherAddr>,
}

/// An address beside another one: the generator's, where the interface's own is the host's (TAP).
fn beside(mac: EtherAddr) -> EtherAddr {
    let [a, b, c, d, e, f] = mac.0;
    EtherAddr([(a | 2) & !1, b, c, d, e, f ^ 1])
}

fn specs(ports: Vec<Live>, answers: bool) -> (Vec<PortSpec>, Vec<Opened>) {
    let open = |l: &Live| Opened {
        name: l.port.clone(),
        mac: match l.host_side {
            true => beside(l.interface.mac),
            false => l.interface.mac,
        },
        shown: l.shown.clone(),
        host: l.host_side.then_some(l.interface.mac),
    };
    let opened: Vec<Opened> = ports.iter().map(open).collect();
    let spec = |(l, o): (Live, &Opened)| PortSpec {
        name: l.port,
        mac: o.mac,
        port: l.open,
        answers,
    };
    (ports.into_iter().zip(&opened).map(spec).collect(), opened)
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    check(args)?;
    runner::catch_interrupt();
    let l = &args.live;
    let dpdk = DpdkSetup {
        sleeps: l.poll != Poll::Busy,
        ..DpdkSetup::default()
    };
    let ports = live::open(&l.ports, false, &dpdk, (Receivers::Queues(1), args.quiet))?;
    let Some(mut made) = frames::make(args, &ports)? else {
        return Ok(common::BAD_INPUT);
    };
    let longest = made.load.longest();
    if let Some(p) = ports
        .iter()
        .find(|p| longest > p.interface.mtu as usize + 18)
    {
        bail!(
            "frames of {longest} bytes are longer than the MTU of {} ({}) allows; hint: --size, or \
             `ip link set {} mtu N`",
            p.interface.name,
            p.interface.mtu,
            p.interface.name
        );
    }
    if let Some(core) = l.core {
        onefold_bench::measure::pin(Some(core)).map_err(|e| anyhow!("--core: {e}"))?;
    }
    let (specs, opened) = specs(ports, !l.no_answers);
    let how = How {
        polling: l.poll.polling(),
        batch: usize::from(l.batch),
        settle: l.settle,
        grace: if l.search {
            l.trial / 10
        } else {
            How::default().grace
        },
        answer: l.establish.then_some(onefold_bench::answer),
    };
    let load = std::mem::take(&mut made.load);
    let mut generator = Generator::new(specs, load, how, run_number());
    generator.start()?;
    let time = if l.search { None } else { l.seconds };
    let mut watch = Onlooker::new(time, args.quiet);
    let to = link(&mut generator, &opened, (l, args.quiet), &made, &mut watch)?;
    let openings = generator.open(OPENING_PPS, &mut watch)?;
    let mut told = Told {
        made: &made,
        args,
        ports: opened.iter().map(|o| o.mac).zip(to).collect(),
        openings,
        frames: generator.load().len(),
        flows: generator.load().senders().len(),
        mean_size: generator.load().mean_size(),
        longer: generator.load().longer(),
        found: None,
    };
    if l.commands {
        return commands::obey(&mut generator, &mut told, &mut watch);
    }
    let trial = match l.search {
        true => {
            let found = searched(&mut generator, args, None, &mut watch)?;
            told.found = Some((found.pps, found.bound, found.trials));
            found.best
        }
        false => Some(one(&mut generator, &made, args, &mut watch)?),
    };
    watch.finish();
    let Some(trial) = trial else {
        bail!("interrupted before anything was sent");
    };
    told.warn(&trial);
    match args.json {
        true => common::print_json(&told.json(&trial)),
        false => {
            told.print(&trial);
            Ok(common::HOLDS)
        }
    }
}

/// One trial, as asked for.
fn one(generator: &mut Generator, made: &Made, args: &Args, watch: &mut Onlooker) -> Result<Trial> {
    let l = &args.live;
    let limit = Limit {
        time: l.seconds,
        packets: args.gen_args.packets.or_else(|| {
            // a capture is sent once unless a time is given
            (made.recorded && l.seconds.is_none()).then_some(generator.load().len() as u64)
        }),
    };
    let schedule = match (l.rate, generator.load().recorded()) {
        (None, Some(s)) => s,
        (rate, _) => Schedule::new(rate.unwrap_or(Rate::Max), l.spread(), args.gen_args.seed),
    };
    Ok(generator.trial(schedule, limit, watch)?)
}

/// A search for the throughput; each trial is told as it ends.
fn searched(
    generator: &mut Generator,
    args: &Args,
    near: Option<f64>,
    watch: &mut Onlooker,
) -> Result<onefold_traffic::Found> {
    let l = &args.live;
    let goal = Goal {
        loss: l.loss,
        trial: l.trial,
        step: l.step,
        most: match l.rate {
            Some(Rate::Pps(p)) => Some(p),
            _ => None,
        },
        near,
        attempts: l.attempts,
        arrivals: l.spread(),
        seed: args.gen_args.seed,
    };
    let mut n = 0;
    let quiet = args.quiet;
    let mut tell = |t: &Tried| {
        n += 1;
        if !quiet {
            eprintln!("{}", report::tried(n, t));
        }
    };
    Ok(search(generator, &goal, watch, &mut tell)?)
}
