//! From a set of packets to a frame, and from a frame to a difference that can be seen.

use super::Doubt;
use super::bits;
use super::chase::chase;
use super::dd::{NO, Ref, YES};
use super::packet::World;
use super::vars::Bit;
use crate::generate::Port;
use crate::generate::directed::Directed;
use crate::generate::hints::Hints;
use crate::generate::read::Seen;
use crate::generate::solve::Maker;
use crate::generate::traffic::Traffic;
use crate::reach::proved::Proved;
use crate::reach::{Facts, Reach};
use crate::rng::Rng;
use crate::{At, Difference, Event, Finding, Options, Pair, Reference, Synthesized};
use onefold_element::ElemId;
use onefold_element::model::{HeaderCheck, ValueSet};
use onefold_engine::Graph;
use onefold_engine::program::{LoadError, ProgramRunner};
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_synth::program::{Dim, EndAt, Filter};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What a likely packet is like, each only if the ones before leave it possible.
pub(super) fn likely(w: &mut World, of: usize) -> Vec<Ref> {
    let protos = [17u128, 6, 1, 17];
    let mut out = Vec::new();
    // where the network header is, if not behind an Ethernet header at the packet's start
    let shift = w.facts.net.map_or(0, |n| n.0 - 14);
    let field = |w: &mut World, bit: i32, n: u8, set: ValueSet| {
        let v = w.vars.packet(&mut w.dd, bit + shift * 8, n);
        bits::is_in(&mut w.dd, &v, &set)
    };
    let len = |w: &mut World, set: ValueSet| w.length_in(shift, EndAt::Same, &set);
    out.push(len(w, ValueSet::range(14, 1514)));
    out.push(field(w, 96, 16, ValueSet::one(0x0800)));
    for check in [HeaderCheck::Ip4Fits, HeaderCheck::Ip4Checksum] {
        out.push(w.question(check, 14 + shift, EndAt::Same));
    }
    out.push(field(w, 112, 8, ValueSet::one(0x45)));
    out.push(field(
        w,
        112 + 72,
        8,
        ValueSet::one(*protos.get(of).unwrap_or(&17)),
    ));
    out.push(len(w, ValueSet::one(98)));
    out.push(field(w, 128, 16, ValueSet::one(84)));
    out.push(len(w, ValueSet::range(60, 1514)));
    out.push(field(w, 128, 16, ValueSet::range(46, 1500)));
    // who may not cut a packet answers it
    out.push(field(
        w,
        112 + 48,
        16,
        ValueSet::one(0x4000 * (of as u128 % 2)),
    ));
    out.push(field(w, 112 + 64, 8, ValueSet::range(32, 200)));
    out.push(field(
        w,
        112 + 128,
        32,
        ValueSet::range(0x0100_0001, 0xdfff_fffe),
    ));
    out.push(field(
        w,
        112 + 96,
        32,
        ValueSet::range(0x0100_0001, 0xdfff_fffe),
    ));
    out
}

/// Frames among these packets, as far as any can be made.
pub fn frames(w: &mut World, here: Ref) -> Vec<Vec<u8>> {
    let gone = w.dd.support(here);
    let gone = gone
        .into_iter()
        .filter(|l| matches!(w.vars.bit(*l), Some(Bit::Bound(..) | Bit::Apart(_))));
    let gone = gone.collect();
    let here = w.dd.exists(here, &gone);
    let maker = Maker::default();
    let mut out: Vec<Vec<u8>> = Vec::new();
    for i in 0..4 {
        let mut f = here;
        if i < 3 {
            for l in likely(w, i) {
                let both = w.dd.and(f, l);
                if both != NO {
                    f = both;
                }
            }
        }
        let Some(picked) = w.dd.pick(f) else { break };
        let filter = filter(w, &picked);
        let mut rng = Rng::new(1 + i as u64);
        if let Some(frame) = maker.frame(&filter, &mut rng)
            && !out.contains(&frame)
        {
            out.push(frame);
        }
    }
    out
}

/// Is a frame that comes from outside one of these packets?
pub fn is_one(w: &mut World, here: Ref, frame: &[u8]) -> bool {
    let seen = Seen::arrive(frame, 0);
    let mut by = HashMap::new();
    for level in w.dd.support(here) {
        let (d, bit) = match w.vars.bit(level) {
            Some(Bit::Packet(bit)) => (Dim::Bits { bit, bits: 1 }, 0),
            Some(Bit::Len(i)) => (Dim::Len, 31 - u32::from(i.min(31))),
            Some(Bit::Check((check, at, end))) => (Dim::Check { check, at, end }, 0),
            _ => return false,
        };
        let Some(v) = seen.value(d) else {
            return false;
        };
        by.insert(level, if v >> bit & 1 == 1 { YES } else { NO });
    }
    w.dd.put(here, &by) == YES && w.dd.stopped().is_none()
}

/// Values of variables as a packet filter.
fn filter(w: &World, picked: &[(u32, bool)]) -> Filter {
    let mut all: BTreeMap<i32, bool> = BTreeMap::new();
    let mut f = Filter::default();
    let (mut mask, mut len) = (0u128, 0u128);
    for (level, v) in picked {
        match w.vars.bit(*level) {
            Some(Bit::Packet(p)) => {
                all.insert(p, *v);
            }
            Some(Bit::Len(i)) => {
                let bit = 1u128 << (31 - u32::from(i.min(31)));
                mask |= bit;
                len |= if *v { bit } else { 0 };
            }
            Some(Bit::Check((check, at, end))) => {
                let d = Dim::Check { check, at, end };
                f.narrow(d, &ValueSet::one(u128::from(*v)), 1);
            }
            _ => {}
        }
    }
    if mask != 0 {
        let set = ValueSet::masked(mask, len, 32, 4096);
        f.narrow(Dim::Len, &set.unwrap_or_else(|| ValueSet::one(len)), 32);
    }
    let mut run: Option<(i32, u8, u128)> = None;
    let mut runs = Vec::new();
    for (p, v) in all {
        run = match run {
            Some((bit, n, value)) if bit + i32::from(n) == p && n < 64 => {
                Some((bit, n + 1, value << 1 | u128::from(v)))
            }
            r => {
                runs.extend(r);
                Some((p, 1, u128::from(v)))
            }
        };
    }
    runs.extend(run);
    for (bit, bits, value) in runs {
        f.narrow(Dim::Bits { bit, bits }, &ValueSet::one(value), bits);
    }
    f
}

/// Does the frame, or the frame and itself once more, show a difference between the graph and the program?
///
/// # Errors
/// When the program is not one for this graph.
pub fn confirm(
    graph: &Graph,
    program: &Program,
    source: ElemId,
    frame: &[u8],
    at: Timestamp,
) -> Result<Option<(Difference, Vec<Event>)>, LoadError> {
    let runner = ProgramRunner::with_program(graph.fork(), program)?;
    let mut pair = Pair::new(
        Box::new(Reference(graph.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    pair.keep_printed();
    let mut events = Vec::new();
    for _ in 0..2 {
        let e = Event::frame(at, source, frame.to_vec());
        events.push(e.clone());
        let d = pair.step(&e).or_else(|| pair.checkpoint());
        let d = d.or_else(|| pair.printed());
        if let Some(d) = d {
            return Ok(Some((d, events)));
        }
    }
    Ok(None)
}

/// What shows a difference.
#[derive(Debug, Clone)]
pub enum Evidence {
    /// It can be seen from outside.
    Seen(Difference),
    /// The last packet is one of those for which models and program contradict each other: of this difference.
    Certain(Doubt),
}

/// Packets that show a difference, the last of them.
#[derive(Debug, Clone)]
pub struct Shown {
    /// In order.
    pub events: Vec<Event>,
    /// What they show.
    pub evidence: Evidence,
}

/// Looks for packets that show one of the differences that a proof has found: its own frames first, alone and twice;
/// then a few packets for all rules; then packets for the places where both sides part, with flows that have to begin
/// before; then packets for all rules, as many as may be.
///
/// # Errors
/// When the program is not one for this graph.
pub fn refute(
    graph: &Graph,
    program: &Program,
    ports: &[Port],
    different: &[Doubt],
    how: &Look,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Result<Option<Shown>, LoadError> {
    for d in different {
        for f in &d.frames {
            if let Some((d, events)) = confirm(graph, program, d.source, f, START)? {
                let evidence = Evidence::Seen(d);
                return Ok(Some(Shown { events, evidence }));
            }
        }
    }
    // nothing of it may be seen from outside, but there it is
    for d in different {
        if let Some(f) = &d.certain {
            return Ok(Some(Shown {
                events: vec![Event::frame(START, d.source, f.clone())],
                evidence: Evidence::Certain(d.clone()),
            }));
        }
    }
    // quick, and much of what is wrong shows; plans for places take longer
    let few = Look {
        packets: how.packets.min(FIRST),
        ..*how
    };
    let found = campaign(graph, program, ports, &few, go_on)?;
    if let Some(f) = found.filter(|f| f.small.is_some()) {
        return Ok(Some(of_finding(f)));
    }
    if let Some(s) = chase(graph, program, ports, different, how, go_on)? {
        return Ok(Some(s));
    }
    Ok(campaign(graph, program, ports, how, go_on)?.map(of_finding))
}

/// Packets that are tried before any are planned.
const FIRST: u64 = 4_000;

fn of_finding(f: Finding) -> Shown {
    match f.small {
        Some(s) => Shown {
            events: s.events,
            evidence: Evidence::Seen(s.difference),
        },
        None => Shown {
            events: Vec::new(),
            evidence: Evidence::Seen(f.difference),
        },
    }
}

/// How packets are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Most packets for all rules.
    pub packets: u64,
    /// Seed of the packets.
    pub seed: u64,
    /// What shows a difference is made fewer and simpler packets for so long at most.
    pub shrink_time: Duration,
}

/// When the first packet arrives.
pub(super) const START: Timestamp = Timestamp::from_secs(1_000);

/// Packets made for the program's rules, replies to what leaves among them: is there a difference to be seen?
///
/// # Errors
/// When the program is not one for this graph.
pub fn campaign(
    graph: &Graph,
    program: &Program,
    ports: &[Port],
    how: &Look,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Result<Option<Finding>, LoadError> {
    let (start, packets, seed) = (START, how.packets, how.seed);
    let options = Options {
        shrink_time: how.shrink_time,
        ..Options::default()
    };
    let runner = ProgramRunner::with_program(graph.fork(), program)?;
    let pair = Pair::new(
        Box::new(Reference(graph.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let hints = Hints::of(graph.spec());
    let Some(traffic) = Traffic::new(ports, hints, seed, packets, start, 1) else {
        return Ok(None);
    };
    let shared = Arc::new(program.clone());
    let reach = Reach::of(shared.clone(), &Facts::of(graph.spec(), program));
    let mut source =
        Directed::new(shared, traffic, ports, seed, packets, start).with_proved(Proved::of(reach));
    let o = crate::run(&pair, &mut source, &options, go_on);
    Ok(o.findings.into_iter().next())
}
