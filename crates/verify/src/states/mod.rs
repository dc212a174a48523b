//! Do rewriters and balancers keep their promises over time? What a symbolic proof takes for granted of a binding
//! (nobody else has its key, both directions agree, the origin is kept, time-outs are kept and nothing else removes it)
//! is checked here, on the real elements: real packets go in, what comes out is judged by a plain machine ([`model`])
//! that knows only the promises.
//!
//! - [`explore`]: all sequences of events up to a length, for few flows, ports and places: first packets, replies,
//!   closes, waiting for each time-out, another capacity, forgetting.
//! - [`soak`]: one long random sequence under pressure: more flows than ports and places, time jumps, reconfiguration.
//!
//! Which variation of a pattern a flow gets is open to the element; the machine takes what it sees and checks that it
//! was allowed. Bounds: an exploration looks at `symbols ^ depth` sequences; a soak holds a bounded number of flows.

pub mod config;
mod mappings;
pub mod model;
pub mod rig;

use crate::Rng;
use config::{Config, Kind};
use model::{Broken, Segment};
use onefold_nat::FlowId;
use rig::{Event, Rig, answering};

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Events that happened.
    pub events: u64,
    /// Sequences, of an exploration.
    pub sequences: u64,
    /// Whole tables compared.
    pub audits: u64,
    /// Flows that had to go for others.
    pub evictions: u64,
    /// Most bindings at a time.
    pub most: usize,
}

/// A broken promise with the events that lead to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {what}, after {} events: {events:?}", events.len())]
pub struct Counterexample {
    /// Which configuration.
    pub name: &'static str,
    /// What is wrong.
    pub what: Broken,
    /// From the start.
    pub events: Vec<Event>,
}

/// Flow number `n` as its first packet arrives. Ports lie inside and outside of what patterns give.
fn client(kind: Kind, n: usize) -> FlowId {
    let n32 = n as u32;
    let inside = u32::from_be_bytes([10, 0, 0, 1]);
    let outside = u32::from_be_bytes([198, 51, 100, 1]);
    let mut f = FlowId::addresses(inside + n32, outside + n32 % 3);
    match kind {
        Kind::Addr | Kind::AddrPair => {}
        Kind::Ping => {
            f.sport = 1 + (n % 7) as u16;
            f.dport = answering(f.sport);
        }
        _ => {
            f.saddr = inside + n32 % 5;
            f.sport = 2000 + (n % 1024) as u16;
            f.dport = 80 + (n % 2) as u16;
        }
    }
    f
}

/// Flow number `n` from outside, to a port that somebody may have.
fn unseen(config: &Config, n: usize) -> FlowId {
    let (addr, first, ports) = config.outside();
    let n32 = n as u32;
    let at = first + (n % (ports + 1)) as u16;
    let mut f = FlowId::addresses(u32::from_be_bytes([198, 51, 100, 77]) + n32 % 3, addr);
    match config.kind {
        Kind::Ping => (f.sport, f.dport) = (at, answering(at)),
        _ => (f.sport, f.dport) = (80, at),
    }
    f
}

/// Flow number `n` as it arrives first at an input. Where mappings are endpoint-independent two go from one inside
/// address and port to different destinations.
fn first(config: &Config, n: usize, input: usize) -> FlowId {
    if matches!(config.inputs.get(input), Some(config::Spec::Mapped(..))) {
        return unseen(config, n);
    }
    let mut f = client(config.kind, n);
    if config.endpoints {
        let one = client(config.kind, n / 2);
        (f.saddr, f.sport) = (one.saddr, one.sport);
        if config.kind == Kind::Ping {
            f.dport = one.dport;
        } else {
            f.sport = f.sport - 2000 + config.outside().1;
        }
    }
    f
}

/// What a sequence goes on from.
struct Walk {
    rig: Rig,
    /// By flow and protocol: the reply to what it last became.
    replies: Vec<[Option<FlowId>; 2]>,
}

impl Walk {
    fn new(config: &Config, flows: usize) -> Result<Walk, Broken> {
        Ok(Walk {
            rig: Rig::new(config)?,
            replies: vec![[None; 2]; flows],
        })
    }
    fn fork(&self) -> Walk {
        Walk {
            rig: self.rig.fork(),
            replies: self.replies.clone(),
        }
    }
}

/// An event of an alphabet: what it is depends on what went before.
#[derive(Debug, Clone, Copy)]
enum Symbol {
    First(usize, usize, bool, Segment),
    Reply(usize, usize, bool, Segment),
    Plain(Event),
}

impl Walk {
    /// Which event it is now; `None` if there is nothing to reply to.
    fn event(&self, kind: Kind, s: Symbol) -> Option<Event> {
        Some(match s {
            Symbol::First(n, input, udp, segment) => Event::Packet {
                input,
                udp,
                answer: false,
                flow: first(self.rig.config(), n, input),
                segment,
            },
            Symbol::Reply(n, input, udp, segment) => Event::Packet {
                input,
                udp,
                answer: kind == Kind::Ping,
                flow: self.replies.get(n)?[usize::from(udp)]?,
                segment,
            },
            Symbol::Plain(e) => e,
        })
    }

    fn step(&mut self, kind: Kind, s: Symbol, e: Event) -> Result<(), Broken> {
        self.rig.step(e)?;
        if let (Symbol::First(n, ..), Event::Packet { udp, flow, .. }) = (s, e) {
            let map = u8::from(udp && kind == Kind::Ip);
            // addresses alone do not say what the ports were
            let reply = self.rig.model.reply_to(map, flow);
            if let (Some(r), Some(slot)) = (reply, self.replies.get_mut(n)) {
                slot[usize::from(udp)] = Some(r);
            }
        }
        Ok(())
    }
}

fn segments(kind: Kind) -> Vec<Segment> {
    let data = Segment {
        payload: true,
        ..Segment::default()
    };
    match kind {
        Kind::Ip | Kind::Tcp => vec![
            data,
            Segment {
                fin: true,
                ..Segment::default()
            },
        ],
        _ => vec![data],
    }
}

fn alphabet(config: &Config, flows: usize) -> Vec<Symbol> {
    let mut v = Vec::new();
    for n in 0..flows {
        // a flow has its input; the last flow begins at another one
        let input = usize::from(n + 1 == flows && config.inputs.len() > 1);
        for s in segments(config.kind) {
            v.push(Symbol::First(n, input, false, s));
            v.push(Symbol::Reply(n, config.inputs.len() - 1, false, s));
        }
    }
    if config.kind == Kind::Ip {
        let s = Segment::default();
        v.push(Symbol::First(0, 0, true, s));
        v.push(Symbol::Reply(0, 1, true, s));
    }
    let t = &config.times;
    let mut waits = vec![t.guarantee, t.done, t.udp, t.base];
    waits.sort_unstable();
    waits.dedup();
    v.extend(
        waits
            .into_iter()
            .map(|s| Symbol::Plain(Event::Wait(s * 1000))),
    );
    v.push(Symbol::Plain(Event::Capacity(1)));
    v.push(Symbol::Plain(Event::Rewrite(0)));
    v
}

/// All sequences of `depth` events of `flows` flows; the table is compared after each event.
pub fn explore(config: &Config, flows: usize, depth: usize) -> Result<Report, Box<Counterexample>> {
    let symbols = alphabet(config, flows);
    let mut report = Report::default();
    let mut path: Vec<Event> = Vec::with_capacity(depth);
    let fail = |what, path: &[Event]| {
        Box::new(Counterexample {
            name: config.name,
            what,
            events: path.to_vec(),
        })
    };
    let start = Walk::new(config, flows).map_err(|e| fail(e, &[]))?;
    // Depth-first: what is left to try at each level. Bound: `symbols ^ depth` steps.
    let mut levels: Vec<(Walk, usize)> = vec![(start, 0)];
    while let Some((walk, next)) = levels.last_mut() {
        let Some(s) = symbols.get(*next).copied() else {
            levels.pop();
            path.pop();
            continue;
        };
        *next += 1;
        let Some(e) = walk.event(config.kind, s) else {
            continue;
        };
        let mut to = walk.fork();
        path.push(e);
        let judged = to.step(config.kind, s, e).and_then(|()| to.rig.audit());
        judged.map_err(|what| fail(what, &path))?;
        report.events += 1;
        report.audits += 1;
        report.most = report.most.max(to.rig.model.len());
        report.evictions = report.evictions.max(to.rig.model.evictions);
        if path.len() < depth {
            levels.push((to, 0));
        } else {
            report.sequences += 1;
            path.pop();
        }
    }
    Ok(report)
}

/// Which event comes next in a long run.
fn draw(config: &Config, flows: usize, rng: &mut Rng) -> Symbol {
    let n = rng.below(flows);
    let input = rng.below(config.inputs.len());
    let udp = config.kind == Kind::Ip && rng.one_in(3);
    let segment = Segment {
        syn: rng.one_in(8),
        fin: rng.one_in(10),
        rst: rng.one_in(60),
        payload: rng.one_in(2),
        ack: config.handshake && rng.one_in(2),
    };
    let t = &config.times;
    match rng.below(1_000_000) {
        // most flows begin at an input of their own
        0..400_000 => Symbol::First(n, n % config.inputs.len(), udp, segment),
        400_000..450_000 => Symbol::First(n, input, udp, segment),
        450_000..850_000 => Symbol::Reply(n, input, udp, segment),
        850_000..999_000 => Symbol::Plain(Event::Wait(rng.below(120) as u64)),
        999_000..999_900 => {
            let long = [t.guarantee, t.done, t.udp, t.base, t.streaming, t.data];
            let s = rng.pick(&long).copied().unwrap_or(1);
            // just before, at, and just after
            Symbol::Plain(Event::Wait(s * 1000 + rng.below(3) as u64 - 1))
        }
        999_900..999_980 => {
            let n = rng.below(config.capacity as usize + 1) as u32;
            Symbol::Plain(Event::Capacity(n))
        }
        999_980..999_990 => Symbol::Plain(Event::Capacity(config.capacity)),
        999_990..999_995 => Symbol::Plain(Event::Clear),
        _ => Symbol::Plain(Event::Rewrite(input)),
    }
}

/// Between two comparisons of the whole table, in a long run.
const AUDIT: u64 = 4096;
/// Longest run that is shrunk when it fails.
const SHRINK: u64 = 500_000;
/// Most replays for that.
const REPLAYS: usize = 400;

/// One random sequence of so many events of `flows` flows. `progress` is told how many have happened, now and then, and
/// says whether to go on.
pub fn soak(
    config: &Config,
    flows: usize,
    events: u64,
    seed: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, Box<Counterexample>> {
    let mut report = Report::default();
    let mut kept = Vec::new();
    let mut rng = Rng::new(seed);
    let failed = |what, events: &[Event]| {
        Box::new(Counterexample {
            name: config.name,
            what,
            events: events.to_vec(),
        })
    };
    let mut walk = Walk::new(config, flows).map_err(|e| failed(e, &[]))?;
    while report.events < events {
        let s = draw(config, flows, &mut rng);
        let Some(e) = walk.event(config.kind, s) else {
            continue;
        };
        report.events += 1;
        if report.events <= SHRINK {
            kept.push(e);
        }
        let mut judged = walk.step(config.kind, s, e);
        if judged.is_ok() && (report.events.is_multiple_of(AUDIT) || report.events == events) {
            report.audits += 1;
            judged = walk.rig.audit();
            if !progress(report.events) {
                break;
            }
        }
        if let Err(what) = judged {
            let what = Broken(format!("event {} of seed {seed}: {what}", report.events));
            return Err(match report.events <= SHRINK {
                true => shrink(&|| Rig::new(config), failed(what, &kept)),
                false => failed(what, &[e]),
            });
        }
        report.most = report.most.max(walk.rig.model.len());
    }
    report.evictions = walk.rig.model.evictions;
    Ok(report)
}

/// Does the sequence break a promise of a rewriter that is made anew?
pub fn replay(new: &dyn Fn() -> Result<Rig, Broken>, events: &[Event]) -> Option<Broken> {
    let mut rig = new().ok()?;
    for e in events {
        let judged = rig.step(*e).and_then(|()| rig.audit());
        if let Err(b) = judged {
            return Some(b);
        }
    }
    None
}

/// Waiting twice in a row is waiting once for longer.
fn merge_waits(events: &[Event]) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    for e in events {
        match (out.last_mut(), e) {
            (Some(Event::Wait(a)), Event::Wait(b)) => *a += b,
            _ => out.push(*e),
        }
    }
    out
}

/// Leaves out whatever can be left out.
fn shrink(
    new: &dyn Fn() -> Result<Rig, Broken>,
    mut c: Box<Counterexample>,
) -> Box<Counterexample> {
    let mut left = REPLAYS;
    let mut size = c.events.len().div_ceil(2);
    while size > 0 && left > 0 {
        let mut at = 0;
        while at < c.events.len() && left > 0 {
            let mut fewer = c.events.clone();
            fewer.drain(at..(at + size).min(c.events.len()));
            left -= 1;
            match replay(new, &fewer) {
                Some(_) => c.events = fewer,
                None => at += size,
            }
        }
        let merged = merge_waits(&c.events);
        if merged.len() < c.events.len() && replay(new, &merged).is_some() {
            c.events = merged;
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    if let Some(b) = replay(new, &c.events) {
        c.what = Broken(format!("{}; shrunk: {b}", c.what));
    }
    c
}

#[cfg(test)]
mod tests;
