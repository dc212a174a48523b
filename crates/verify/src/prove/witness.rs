//! From a set of packets to a frame, and from a frame to a difference that can be seen.

use super::bits;
use super::dd::{NO, Ref, YES};
use super::packet::World;
use super::vars::Bit;
use crate::generate::Port;
use crate::generate::directed::Directed;
use crate::generate::hints::Hints;
use crate::generate::read::Seen;
use crate::generate::solve::Maker;
use crate::generate::traffic::Traffic;
use crate::rng::Rng;
use crate::{Difference, Event, Finding, Pair, Reference, Synthesized};
use onefold_elements::ElemId;
use onefold_elements::model::{HeaderCheck, ValueSet};
use onefold_engine::Graph;
use onefold_engine::program::{LoadError, ProgramRunner};
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_synth::program::{Dim, EndAt, Filter};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a likely packet is like, each only if the ones before leave it possible.
fn likely(w: &mut World, of: usize) -> Vec<Ref> {
    let protos = [17u128, 6, 1, 17];
    let mut out = Vec::new();
    let field = |w: &mut World, bit: i32, n: u8, set: ValueSet| {
        let v = w.vars.packet(&mut w.dd, bit, n);
        bits::is_in(&mut w.dd, &v, &set)
    };
    let len = |w: &mut World, set: ValueSet| w.length_in(0, EndAt::Same, &set);
    out.push(len(w, ValueSet::range(14, 1514)));
    out.push(field(w, 96, 16, ValueSet::one(0x0800)));
    for check in [HeaderCheck::Ip4Fits, HeaderCheck::Ip4Checksum] {
        out.push(w.question(check, 14, EndAt::Same));
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
    out.push(field(w, 112 + 48, 16, ValueSet::one(0)));
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
        .filter(|l| matches!(w.vars.bit(*l), Some(Bit::Bound(..))));
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
    let mut events = Vec::new();
    for _ in 0..2 {
        let e = Event::frame(at, source, frame.to_vec());
        events.push(e.clone());
        let d = pair.step(&e).or_else(|| pair.checkpoint());
        if let Some(d) = d {
            return Ok(Some((d, events)));
        }
    }
    Ok(None)
}

/// Packets made for the program's rules, replies to what leaves among them: is there a difference to be seen?
///
/// # Errors
/// When the program is not one for this graph.
pub fn campaign(
    graph: &Graph,
    program: &Program,
    ports: &[Port],
    packets: u64,
    seed: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Finding>, LoadError> {
    let start = Timestamp::from_secs(1_000);
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
    let mut source = Directed::new(
        Arc::new(program.clone()),
        traffic,
        ports,
        seed,
        packets,
        start,
    );
    let o = crate::run(&pair, &mut source, &crate::Options::default(), go_on);
    Ok(o.findings.into_iter().next())
}
