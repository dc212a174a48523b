//! Chains with functions in processes of their own: each segment of the chain ([`onefold_chain::segments`]) is a
//! process, this one launches them all, and moves packets between devices or captures and their rings. What goes from
//! one segment to the next one, that one's process puts into the next one's ring by itself.

mod asked;
mod cores;
mod counted;
mod hello;
mod io;
mod kids;
mod mover;
pub mod outside;
mod report;
mod scheduling;
pub mod segment;
mod slots;
mod waiting;

use super::Args;
use crate::alerts::Eve;
use crate::common;
use crate::live::LivePlan;
use crate::merge;
use crate::ports::Live;
use crate::program;
use crate::runner::{self, Plan as RunPlan};
use crate::xdp::Offloads;
use anyhow::{Context, Result, bail};
use cores::Placing;
use io::Io;
use kids::{Kid, Launch};
use mover::Mover;
use nix::sys::eventfd::{EfdFlags, EventFd};
use onefold_chain::segments::Segments;
use onefold_chain::{Attached, Chain, Diagnostic, Interconnect};
use onefold_levers::Setup;
use onefold_nf::{Memory, Plan, Region, Seat, Shape, Waker};
use onefold_packet::Timestamp;
use onefold_port_ring::Packets;
use onefold_runtime::{Clock, PortSpec};
use onefold_sched::spec::Spec;
use onefold_verify::generate::adapt::Adapter;
use outside::beyond::Beyond;
use outside::fabric;
use outside::place::Places;
use scheduling::Scheduling;
pub use scheduling::move_before_others;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Places of a ring, if nothing is said.
const PLACES: u32 = 1024;
/// Fewest of them.
const LEAST_PLACES: u32 = 64;
/// Slots of a chain in full rings; each process has half a ring's besides.
const RINGS_FULL: u32 = 4;
/// Bytes of a slot: a packet of an Ethernet's MTU and more, in an odd number of cache lines.
const SLOT_BYTES: u32 = 2112;
/// How often a process looks again before it sleeps, where each has a core of its own: some 50 microseconds.
const SPINS: u32 = 4096;

/// Runs it.
pub fn run(
    args: &Args,
    chain: &Chain,
    (live, attached): (Vec<Live>, Vec<Attached>),
    inputs: &[(String, String)],
) -> Result<u8> {
    check(args, chain, live.is_empty())?;
    let segments = match chain.segments() {
        Ok(s) => s,
        Err(e) => {
            common::print_diagnostics(&[Diagnostic::error(e.to_string())]);
            return Ok(common::BAD_INPUT);
        }
    };
    let _eve = match beforehand(args, chain, inputs)? {
        Ok(eve) => eve,
        Err(code) => return Ok(code),
    };
    let clock = Clock::start();
    let recorded = match live.is_empty() {
        true => Some(runner::first_time(inputs)?),
        false => None,
    };
    let adapter = match adapter(args, chain, recorded.unwrap_or(clock.origin())) {
        Ok(a) => a,
        Err(code) => return Ok(code),
    };
    let is_live = !live.is_empty();
    let mut run_plan = run_plan(args, clock, adapter, (live, &attached));
    let specs = runner::ports(chain, &mut run_plan)?;
    let places = Places::new(chain, &segments, args.quiet)?;
    let wiring = Wiring::new(chain, &segments, args.ring().unwrap_or(PLACES))?;
    // through interfaces and black boxes packets go in real time
    let in_real_time = is_live || places.settle.is_some();
    let (plan, region, fd) = shared_memory(&wiring)?;
    let seat = Seat::new(region.clone(), &plan, 0, Vec::new())?;
    let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
    let event: OwnedFd = event.into();
    let (spec, place) = (policy(args, chain), cores::placing(args, chain, &segments)?);
    let launch = Launch {
        memory: fd,
        event: event.try_clone()?,
        plan: plan.clone(),
        start: (recorded.filter(|_| !in_real_time)).unwrap_or(clock.origin()),
        clock,
        live: in_real_time,
        spins: if place.has_spare() { SPINS } else { 0 },
        housekeeping: place.housekeeping,
        quiet: args.quiet,
        recorded: !is_live,
        longest_back_off: args.back_off(),
    };
    cores::say(&chain.cores, &place, args.quiet);
    let fabric = fabric::start(places.cables.as_ref(), place.housekeeping)?;
    let kids = kids(&segments, &wiring, &launch, (&places, &place))?;
    let ios = ios(specs, &wiring, &seat);
    let beyond = Beyond::new(wiring.forwards(&seat), fabric, places.settle);
    runner::catch_interrupt();
    let setup = setup(
        &segments,
        (&region, &launch.plan),
        &kids,
        (&ios, &wiring, &seat),
        &place,
    );
    // a wish, as of workers
    let _ = place.housekeeping.map(merge::pin);
    let mut mover = Mover::new(
        Packets::new(seat, !is_live, usize::MAX),
        region,
        (launch, kids),
    );
    mover.beyond = beyond;
    mover.ports(
        ios,
        (clock, is_live),
        (args.batch_size(), args.limit),
        event,
    );
    if !mover.launch()? {
        return Ok(common::HOLDS_NOT);
    }
    mover.schedule(Scheduling::start(setup, &spec, args.quiet)?);
    if !spec.is_kernel() {
        move_before_others();
    }
    mover.start()?;
    let server = match is_live {
        true => asked::start(args, chain, &mut mover)?,
        false => None,
    };
    mover.say(&segments, args.quiet);
    let ended = match is_live {
        true => mover.live(&run_plan.live_plan)?,
        false => mover.captures(run_plan.linger)?,
    };
    drop(server);
    report::print(args, chain, &mut mover, ended)
}

/// What is dropped in captures, and what alerts are about, is found by the chain in one piece. Of interfaces, processes
/// write alerts, beside one another: here the file is made, and SIGHUP ends nothing as long as it is there.
fn beforehand(
    args: &Args,
    chain: &Chain,
    inputs: &[(String, String)],
) -> Result<std::result::Result<Option<Eve>, u8>> {
    let wanted = [("--drops", &args.drops), ("--alerts", &args.alerts)];
    let wanted = wanted.into_iter().find(|w| w.1.is_some());
    let Some((flag, _)) = wanted.filter(|_| !inputs.is_empty()) else {
        return args.eve(inputs.is_empty()).map(Ok);
    };
    if let Some(name) = chain.native() {
        bail!(
            "{flag} takes captures through the whole chain: nothing is known of what '{name}' does"
        );
    }
    let start = runner::first_time(inputs)?;
    let mut graph = match super::workers::graph(args, chain, start, args.quiet) {
        Ok(g) => g,
        Err(code) => return Ok(Err(code)),
    };
    super::arguments::beforehand(args, chain, &mut graph, inputs)?;
    Ok(Ok(None))
}

/// What `--adapt` changes frames by; else the exit status, as the graph could not be built.
fn adapter(args: &Args, chain: &Chain, start: Timestamp) -> Result<Option<Adapter>, u8> {
    if !args.adapt {
        return Ok(None);
    }
    let graph = super::workers::graph(args, chain, start, args.quiet)?;
    Ok(Some(Adapter::new(
        &program::synthesize_graph(&graph).program,
    )))
}

/// The memory that all processes share.
fn shared_memory(wiring: &Wiring) -> Result<(Plan, Arc<Region>, OwnedFd)> {
    let (memory, fd) = Memory::create(wiring.plan.bytes, false).context("shared memory")?;
    let plan = Plan {
        bytes: memory.len(),
        ..wiring.plan.clone()
    };
    let region = Arc::new(Region::new(memory, plan.shape)?);
    Ok((plan, region, fd))
}

/// Options that do not go with it.
fn check(args: &Args, chain: &Chain, recorded: bool) -> Result<()> {
    if !recorded && chain.functions.iter().any(|f| f.health.is_some()) {
        bail!("health: servers are looked after by runs of one process; leave 'run: process' out");
    }
    let wrong = [
        (args.offload.is_some(), "--offload"),
        (args.has_program(), "--program"),
        (args.sandbox().is_demanded(), "--sandbox strict or --user"),
    ];
    match wrong.iter().find(|w| w.0) {
        Some((_, flag)) => bail!(
            "{flag} is not there yet for chains with functions in processes of their own (run: process)"
        ),
        None => Ok(()),
    }
}

fn run_plan(
    args: &Args,
    clock: Clock,
    adapter: Option<Adapter>,
    (live, attached): (Vec<Live>, &[Attached]),
) -> RunPlan {
    let mut plan = super::plan(args, clock, adapter, attached);
    plan.live = live.into_iter().map(|l| (l.port, l.open)).collect();
    plan.offloads = Offloads::default();
    plan.live_plan = LivePlan {
        team: None,
        ..plan.live_plan
    };
    plan.linger = Timestamp::from_secs_f64(args.linger.clamp(0.0, 1e9));
    plan
}

/// Places of a ring, as they are typed.
pub fn ring_places(text: &str) -> Result<u32, String> {
    let within = LEAST_PLACES..=onefold_nf::MOST_PLACES;
    let places: Option<u32> = text.parse().ok();
    (places.filter(|p| p.is_power_of_two() && within.contains(p))).ok_or(format!(
        "a ring has a power of two of places, {LEAST_PLACES} to {}",
        onefold_nf::MOST_PLACES
    ))
}

/// A port of a process's chain: the ring that packets come from, and the one that they leave through.
type PortRings = (String, Option<u32>, Option<u32>);

/// A ring between a process and a port of the chain.
struct Outer {
    port: String,
    ring: u32,
}

/// Which rings there are, and whose.
struct Wiring {
    /// Of a manager: rings that it takes from, and where what comes from each goes.
    managed: Vec<(u32, u32)>,
    plan: Plan,
    /// By segment: ports of its chain, with the ring that packets come from, and the one that they leave through.
    ports: Vec<Vec<PortRings>>,
    /// Where what arrives at ports of the chain goes.
    entries: Vec<Outer>,
    /// Where what leaves at them comes from.
    exits: Vec<Outer>,
    /// By segment: a ring that it takes from, and the one that what came from there would leave through.
    around: Vec<Vec<(u32, u32)>>,
}

impl Wiring {
    fn new(chain: &Chain, segments: &Segments, places: u32) -> Result<Wiring> {
        let number = |segment: usize| segment as u32 + 1;
        let mut links = Vec::new();
        let mut ports: Vec<Vec<PortRings>> = segments.all.iter().map(|_| Vec::new()).collect();
        let (mut entries, mut exits) = (Vec::new(), Vec::new());
        // who is at the other end of a segment's rings, in and out
        let mut peers: Vec<Vec<(String, u32, bool)>> = ports.iter().map(|_| Vec::new()).collect();
        let mut add = |segment: usize, name: &str, (ring, arrives): (u32, bool), peer: String| {
            if let (Some(p), Some(of)) = (ports.get_mut(segment), peers.get_mut(segment)) {
                let ends = (arrives.then_some(ring), (!arrives).then_some(ring));
                match p.iter_mut().find(|p| p.0 == name) {
                    Some(known) => {
                        *known = (known.0.clone(), known.1.or(ends.0), known.2.or(ends.1))
                    }
                    None => p.push((name.to_string(), ends.0, ends.1)),
                }
                of.push((peer, ring, arrives));
            }
        };
        let mut managed = Vec::new();
        // through interfaces there are no rings
        let cuts = segments
            .cuts
            .iter()
            .filter(|_| !chain.interconnect.is_wired());
        for c in cuts {
            let (from, mut to) = (links.len() as u32, links.len() as u32);
            if chain.interconnect == Interconnect::Manager {
                links.push((number(c.from), 0));
                to += 1;
                links.push((0, number(c.to)));
                managed.push((from, to));
            } else {
                links.push((number(c.from), number(c.to)));
            }
            add(c.from, &c.port, (from, false), format!("segment {}", c.to));
            add(c.to, &c.port, (to, true), format!("segment {}", c.from));
        }
        for p in &chain.ports {
            for (s, segment) in segments.all.iter().enumerate() {
                let Some(own) = segment.chain.ports.iter().find(|o| o.name == p.name) else {
                    continue;
                };
                let peer = format!("port {}", p.name);
                let outer = |ring| Outer {
                    port: p.name.clone(),
                    ring,
                };
                if own.source.is_some() {
                    let ring = links.len() as u32;
                    links.push((0, number(s)));
                    entries.push(outer(ring));
                    add(s, &p.name, (ring, true), peer.clone());
                }
                if !own.sinks.is_empty() {
                    let ring = links.len() as u32;
                    links.push((number(s), 0));
                    exits.push(outer(ring));
                    add(s, &p.name, (ring, false), peer);
                }
            }
        }
        let nfs = segments.all.len() as u32 + 1;
        // small rings do not make small batches
        let slots = places.max(PLACES);
        let shape = Shape {
            nfs,
            rings: 0,
            places,
            slots: RINGS_FULL * slots + slots / 2 * nfs,
            slot_bytes: SLOT_BYTES,
        };
        let around = peers.iter().map(|of| {
            let ins = of.iter().filter(|p| p.2);
            let way = ins.filter_map(|(peer, ring, _)| {
                let other = of.iter().find(|o| !o.2 && o.0 != *peer)?;
                Some((*ring, other.1))
            });
            way.collect()
        });
        Ok(Wiring {
            managed,
            around: around.collect(),
            plan: Plan::new(shape, &links)?,
            ports,
            entries,
            exits,
        })
    }

    /// What a manager forwards: from inputs of its seat to outputs.
    fn forwards(&self, seat: &Seat) -> Vec<(usize, usize)> {
        let ends = |(from, to): &(u32, u32)| Some((seat.input_of(*from)?, seat.output_of(*to)?));
        self.managed.iter().filter_map(ends).collect()
    }
}

/// The policy: the command line's, the chain file's, or what is best if nobody says anything.
fn policy(args: &Args, chain: &Chain) -> Spec {
    let said = args.schedule().or(chain.schedule.as_ref()).cloned();
    said.unwrap_or_else(Spec::kernel)
}

/// What a policy is shown.
fn setup(
    segments: &Segments,
    (region, plan): (&Arc<Region>, &Plan),
    kids: &[Kid],
    (ios, wiring, seat): (&[Io], &Wiring, &Seat),
    place: &Placing,
) -> Setup {
    let entry = |io: &Io| {
        let output = io.entry?;
        let ring = wiring
            .entries
            .iter()
            .find(|o| seat.output_of(o.ring) == Some(output));
        Some((io.name.clone(), ring?.ring))
    };
    // where nothing arrives there is no way: functions of a chain with one way may wait for room at the next one
    let receiving = ios.iter().filter(|io| io.receives);
    let mut entries: Vec<(String, u32)> = receiving.filter_map(entry).collect();
    // captures that arrive at one port are several ports here
    entries.dedup();
    let only = place.cores.first().copied();
    Setup {
        region: region.clone(),
        plan: plan.clone(),
        names: kids.iter().map(|k| k.name.clone()).collect(),
        cores: kids
            .iter()
            .map(|k| k.core.map(|c| c as usize).or(only))
            .collect(),
        priorities: segments.all.iter().map(|s| s.priority).collect(),
        ways: scheduling::ways(plan, &entries, &segments.cuts),
        housekeeping: place
            .housekeeping
            .or(only.filter(|_| place.cores.len() < 2)),
        folder: scheduling::folder(),
    }
}

/// The processes, none of which has been launched.
fn kids(
    segments: &Segments,
    wiring: &Wiring,
    launch: &Launch,
    (places, placing): (&Places, &Placing),
) -> Result<Vec<Kid>> {
    let mut all = Vec::new();
    for (i, segment) in segments.all.iter().enumerate() {
        let rings = wiring.ports.get(i).cloned().unwrap_or_default();
        let around = wiring.around.get(i).cloned().unwrap_or_default();
        let place = (
            placing.functions.get(i).copied().flatten(),
            places.outside.get(i).cloned().unwrap_or_default(),
            places.isolation.get(i).cloned().unwrap_or_default(),
        );
        let arrives = segments.cuts.iter().filter(|c| c.to == i);
        let origins = arrives.map(|c| (c.port.clone(), c.origin.clone()));
        all.push(Kid::new(
            i as u32 + 1,
            segment,
            (rings, around),
            origins.collect(),
            place,
            launch,
        )?);
    }
    Ok(all)
}

/// Ports of the chain with what is behind them, and their rings.
fn ios(specs: Vec<PortSpec>, wiring: &Wiring, seat: &Seat) -> Vec<Io> {
    let mut ios = Vec::new();
    for spec in specs {
        let at = |all: &[Outer]| all.iter().find(|o| o.port == spec.name).map(|o| o.ring);
        let entry = spec.entry.and_then(|_| at(&wiring.entries));
        // captures that arrive are ports of their own; what leaves does so at the chain's
        let exits = wiring.exits.iter().filter(|o| o.port == spec.name);
        let exits: Vec<u32> = match spec.sinks.is_empty() {
            true => Vec::new(),
            false => exits.map(|o| o.ring).collect(),
        };
        ios.push(Io::new(
            spec.name,
            spec.port,
            entry.and_then(|r| seat.output_of(r)),
            exits.into_iter().filter_map(|r| seat.input_of(r)).collect(),
        ));
    }
    ios
}

/// How who stands in for a process wakes the launcher.
fn wakers_of(launch: &Launch) -> Vec<Waker> {
    let event = launch.event.try_clone();
    event.map(Waker::Event).into_iter().collect()
}
