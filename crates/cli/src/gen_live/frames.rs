//! The packets that are sent: generated, aimed at a chain, or of captures.

use crate::cmd::aimed::{Wanted, find};
use crate::cmd::generate::Args;
use crate::ports::Live;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::measure::Order;
use onefold_bench::{Generator, Hostile, TcpStyle, traffic};
use onefold_capture::{CaptureReader, LinkType};
use onefold_chain::Chain;
use onefold_traffic::{Load, Stamping};
use onefold_verify::frame::flow_key;
use std::net::IpAddr;

/// Most flows on live ports.
const MAX_FLOWS: u32 = 1 << 20;
/// Flows unless told otherwise.
const FLOWS: u32 = 10_000;
/// Fewest frames that are made, where they are of different lengths or flows of different popularity.
const LEAST: u64 = 1 << 16;
/// Most frames of a capture.
const MAX_FRAMES: usize = 1 << 24;

/// Different frames of an attacker: more than are sent in a second.
const HOSTILE_FRAMES: usize = 1 << 19;

/// Frames, and what is known of them.
pub struct Made {
    /// What is sent.
    pub load: Load,
    /// They come from captures.
    pub recorded: bool,
    /// The chain that they are aimed at, and the port that they enter at.
    pub aim: Option<(String, String)>,
    /// The first address that the chain answers for behind that port.
    pub gateway: Option<IpAddr>,
    /// The port that they are sent at, if it is one.
    pub port: Option<usize>,
    /// Remarks.
    pub warnings: Vec<String>,
}

impl Made {
    fn new(load: Load, port: Option<usize>) -> Made {
        Made {
            load,
            recorded: false,
            aim: None,
            gateway: None,
            port,
            warnings: Vec::new(),
        }
    }
}

/// Makes what is asked for. `None`: errors of the chain have been printed.
pub fn make(args: &Args, ports: &[Live]) -> Result<Option<Made>> {
    match &args.aim {
        Some(chain) => aimed(args, chain, ports),
        None if !args.live.replay.is_empty() => recorded(args, ports).map(Some),
        None => generated(args).map(Some),
    }
}

fn flows(args: &Args) -> Result<u32> {
    match args.gen_args.flows.unwrap_or(FLOWS) {
        0 => bail!("--flows 0: expected 1 or more"),
        n if n > MAX_FLOWS => bail!("--flows {n}: expected {MAX_FLOWS} at most on live ports"),
        n => Ok(n),
    }
}

/// Packets for no chain in particular.
fn generated(args: &Args) -> Result<Made> {
    let mut p = traffic(&args.gen_args)?;
    let wanted = match &p.headers {
        Some(h) => h.len() as u32,
        None => flows(args)?,
    };
    p.flows = wanted;
    p.replies = false;
    // packets of a connection that carry nothing have no room for a stamp
    p.tcp = TcpStyle::Stateless;
    // whole rounds, in which each flow sends once
    let rounds = LEAST.div_ceil(u64::from(wanted.max(1)));
    p.packets = rounds * u64::from(wanted);
    let mut generator = Generator::new(p)?;
    let mut load = Load::new();
    let mut frame = Vec::new();
    while let Some(about) = generator.next_into(&mut frame) {
        let stamping = match about.exception {
            Some(_) => Stamping::Never,
            None => Stamping::Always,
        };
        load.push(0, &flow_key(&frame), frame.clone(), stamping)?;
    }
    Ok(Made::new(load, Some(0)))
}

/// The first address that the chain answers for, from a port on: what a host there has as its gateway.
fn gateway(chain: &Chain, from: usize) -> Option<IpAddr> {
    let g = &chain.graph;
    let mut seen = vec![false; g.elements.len()];
    let mut next = std::collections::VecDeque::from([from]);
    // Bound: each element once
    while let Some(e) = next.pop_front() {
        if std::mem::replace(seen.get_mut(e)?, true) {
            continue;
        }
        let element = g.elements.get(e)?;
        let answers = matches!(element.class.as_str(), "ARPResponder" | "IP6NDAdvertiser");
        let first = element.args.first().filter(|_| answers);
        let address = first.and_then(|a| {
            let word = a.split_whitespace().next()?;
            word.split('/').next()?.parse().ok()
        });
        if address.is_some() {
            return address;
        }
        let to = g.connections.iter().filter(|c| c.from.0 == e);
        next.extend(to.map(|c| c.to.0));
    }
    None
}

/// Packets that a chain lets pass.
fn aimed(args: &Args, spec: &str, ports: &[Live]) -> Result<Option<Made>> {
    let flows = u64::from(flows(args)?);
    let wanted = Wanted {
        packets: LEAST.max(flows * 4),
        flows,
        replies: false,
    };
    let Some(found) = find(args, spec, wanted)? else {
        return Ok(None);
    };
    let name = &found.chain.ports[found.port].name;
    let known = || {
        let all: Vec<&str> = ports.iter().map(|p| p.port.as_str()).collect();
        all.join(", ")
    };
    let at = ports.iter().position(|p| p.port == *name);
    let at = at.ok_or_else(|| {
        anyhow!(
            "packets for {} enter at its port '{name}', and there is no --port of that name (there are: {}); \
             type --port {name}=KIND:NAME, or --for {spec}:PORT for another one",
            found.chain.name,
            known()
        )
    })?;
    let mut load = Load::new();
    let opening = found.aimed.opening.iter();
    for o in opening.filter(|_| !args.live.no_openings) {
        load.open(at, o.frame.clone())?;
    }
    if let Some(lane) = found.aimed.lanes.first() {
        let t = &lane.templates;
        for i in 0..t.len() {
            let frame = t.get(i);
            let flow = t.flow_of(i).to_be_bytes();
            load.push(at, &flow, frame.to_vec(), Stamping::Always)?;
        }
        let order = Order::new(t, args.gen_args.zipf, args.gen_args.seed);
        let mut order = order.places().to_vec();
        if let Some(kind) = args.live.hostile {
            let passing: Vec<&[u8]> = (0..t.len()).map(|i| t.get(i)).collect();
            order = beside(args, kind, (&passing, &order), (at, &mut load))?;
        }
        load.set_order(order);
    }
    let mut made = Made::new(load, Some(at));
    if (found.aimed.flows as u64) < flows {
        made.warnings.push(format!(
            "{flows} flows were asked for: no more than {} were found that leave the chain",
            found.aimed.flows
        ));
    }
    made.gateway = gateway(&found.chain, found.entry.0 as usize);
    made.aim = Some((found.chain.name.clone(), name.clone()));
    Ok(Some(made))
}

/// Frames of an attacker are put into the load, and between frames in `order`, at their share of all.
fn beside(
    args: &Args,
    kind: Hostile,
    (passing, order): (&[&[u8]], &[u32]),
    (at, load): (usize, &mut Load),
) -> Result<Vec<u32>> {
    let frames = kind.frames(passing, HOSTILE_FRAMES, args.gen_args.seed);
    if frames.is_empty() {
        bail!(
            "--hostile {}: none of the packets that pass is of a kind that could be used; --protocols tcp,udp makes \
             both",
            kind.option()
        );
    }
    let mut numbers = Vec::with_capacity(frames.len());
    for f in frames {
        numbers.push(load.push(at, b"hostile", f, Stamping::Never)?);
    }
    let share = args.live.hostile_share;
    let each = share / (1.0 - share);
    let (mut all, mut due, mut next) = (Vec::new(), 0.0, numbers.iter().cycle());
    // Bound: a round of the others, and as many more as there are frames of the attacker
    for known in order.iter().cycle().take(order.len().max(numbers.len())) {
        all.push(*known);
        due += each;
        while due >= 1.0 {
            due -= 1.0;
            all.extend(next.next());
        }
    }
    Ok(all)
}

/// A frame of a capture: when, at which port, what.
type Recorded = (i64, usize, Vec<u8>);

/// The packets of captures.
fn recorded(args: &Args, ports: &[Live]) -> Result<Made> {
    let mut all: Vec<Recorded> = Vec::new();
    let mut warnings = Vec::new();
    for (name, file) in &args.live.replay {
        let port = match name {
            None => 0,
            Some(n) => {
                (ports.iter().position(|p| p.port == *n)).with_context(|| format!("port '{n}'"))?
            }
        };
        let mut reader = CaptureReader::open(file)?;
        let (mut frame, mut foreign) = (Vec::new(), 0u64);
        while let Some(meta) = reader.next_into(&mut frame) {
            match meta {
                Ok(m) if m.link == LinkType::ETHERNET => {
                    all.push((m.ts_ns, port, frame.clone()));
                }
                Ok(_) => foreign += 1,
                Err(e) => warnings.push(e.to_string()),
            }
            if all.len() > MAX_FRAMES {
                bail!("'{file}': captures of more than {MAX_FRAMES} frames are not replayed");
            }
        }
        if foreign > 0 {
            warnings.push(format!(
                "'{file}': {foreign} frames are not Ethernet's, and are left out"
            ));
        }
    }
    all.sort_by_key(|r| r.0);
    let Some(first) = all.first().map(|r| r.0) else {
        bail!("--replay: there is no Ethernet frame to send");
    };
    let ports: std::collections::BTreeSet<usize> = all.iter().map(|r| r.1).collect();
    let mut load = Load::new();
    let mut times = Vec::with_capacity(all.len());
    for (at, port, frame) in all {
        times.push(u64::try_from(at - first).unwrap_or(0));
        load.push(port, &flow_key(&frame), frame, Stamping::IfRoom)?;
    }
    load.set_times(times);
    let only = (ports.len() == 1).then(|| ports.first().copied()).flatten();
    let mut made = Made::new(load, only);
    made.recorded = true;
    made.warnings = warnings;
    Ok(made)
}
