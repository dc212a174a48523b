//! Packets that a chain forwards: flows made to fit the filters of the program's classes, tried, and opened.
//!
//! A benchmark whose packets a firewall drops at the door measures the door. So each flow is aimed at one class that
//! lets packets leave, in turn (classes of all kinds get the same number of flows), drawn at random within the class's
//! filter, and tried: it counts only if its packets leave.

use super::feed::Templates;
use super::unseen::Unseen;
use super::usual::{Usual, draw};
use crate::ranges::{ProtocolMix, Transport};
use crate::rng::Rng;
use crate::sizes::SizeModel;
use onefold_element::ElemId;
use onefold_element::model::ValueSet;
use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_synth::program::{Action, Dim, End, Filter, Program};
use onefold_verify::frame::{self, Keep, Shape};
use onefold_verify::generate::{Port, solve::place, tables::Tables, ways};
use onefold_verify::solicitation;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most classes' filters that flows are aimed at.
const MAX_SPOTS: usize = 50_000;
/// Failures in a row after which a filter is given up.
const PATIENCE: u32 = 8;
/// Fewest templates when frames have different lengths.
const MIN_MIXED: usize = 4096;
/// Time from one packet to the next while flows are opened, in nanoseconds.
const STEP_NS: i64 = 1000;
/// Most frames that one flow has.
pub const MAX_PER_FLOW: usize = 4096;

/// Parameters of the traffic.
#[derive(Debug, Clone)]
pub struct AimParams {
    /// Flows wanted.
    pub flows: usize,
    /// Frame lengths.
    pub sizes: SizeModel,
    /// What flows are of, where a class leaves the choice. TCP is opened by a handshake; ICMP is echo requests.
    pub protocols: ProtocolMix,
    /// Classes that none of these protocols fits are left out. Otherwise their flows are of UDP or TCP, whichever fits.
    pub strict: bool,
    /// Where packets enter.
    pub entry: ElemId,
    /// Half of the packets are answers that come back from where packets leave.
    pub replies: bool,
    /// Nothing comes back, not even the answer in a TCP handshake. Excludes `replies`.
    pub one_way: bool,
    /// Most frames with data of one flow, where frames have different lengths (4,096 at most).
    pub frames_per_flow: usize,
    /// Frames that open the flows are kept ([`Aimed::opening`]).
    pub keep_opening: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// Why there is no traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AimError {
    /// Nothing leaves.
    #[error(
        "none of {tried} flows that were tried leaves the chain when it enters at port '{port}'; hint: another --entry, or `onefold explain` shows what the chain lets pass"
    )]
    NothingLeaves {
        /// The entry.
        port: String,
        /// How many were tried.
        tried: u64,
    },
    /// Answers do not.
    #[error(
        "no answer to what leaves passes the chain; hint: leave --replies out, or `onefold explain` shows what comes back"
    )]
    NoReplies,
    /// Interrupted.
    #[error("interrupted while flows were made")]
    Interrupted,
}

/// One direction's packets.
pub struct Lane {
    /// Where they enter.
    pub source: ElemId,
    /// The packets.
    pub templates: Templates,
    /// Packets of flows that were not opened, among them.
    pub strangers: Option<Unseen>,
}

/// Traffic that a chain forwards, and the chain with its flows opened.
pub struct Aimed {
    /// The chain's state when the clock starts: every flow has been opened, handshakes and all.
    pub runner: ProgramRunner,
    /// The time then.
    pub now: Timestamp,
    /// Packets by direction.
    pub lanes: Vec<Lane>,
    /// Flows.
    pub flows: usize,
    /// Of these TCP.
    pub tcp_flows: usize,
    /// Flows that were tried.
    pub tried: u64,
    /// Filters of classes aimed at, and those of them that took a flow.
    pub spots: (usize, usize),
    /// Packets sent to open flows.
    pub openers: u64,
    /// These packets in the order in which they were sent, if they were to be kept.
    pub opening: Vec<Opening>,
}

/// A packet that was sent while flows were opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The flow's number, in the order in which they were opened.
    pub flow: usize,
    /// Where it entered.
    pub source: ElemId,
    /// It.
    pub frame: Vec<u8>,
}

/// A class to aim at.
struct Spot {
    cube: Filter,
    failures: u32,
    taken: bool,
}

/// A flow as it will be measured.
struct Flow {
    frames: Vec<Vec<u8>>,
    tcp: bool,
}

/// What a frame led to.
struct Seen {
    /// Frames that left, with their sinks.
    left: Vec<(ElemId, Vec<u8>)>,
    /// Packets that elements made.
    created: u64,
}

/// Sends the packets of flows, one after the other.
struct Sender<'a> {
    runner: ProgramRunner,
    ports: &'a [Port],
    params: &'a AimParams,
    now: Timestamp,
    /// What was sent, if it is kept.
    kept: Option<Vec<Opening>>,
}

impl Sender<'_> {
    /// Sends a frame. Whoever is asked for a neighbour's address on the way answers: bound, answers are no questions.
    fn send(&mut self, flow: usize, source: ElemId, f: &[u8]) -> Seen {
        let mut seen = self.send_one(flow, source, f);
        let asks = |l: &mut (ElemId, Vec<u8>)| solicitation::asks_for_neighbour(&l.1);
        let asked: Vec<_> = seen.left.extract_if(.., asks).collect();
        for (sink, question) in asked {
            if let Some(source) = self.back(sink)
                && let Some(answer) = frame::answer(&question)
            {
                let more = self.send_one(flow, source, &answer);
                seen.left.extend(more.left);
                seen.created = (seen.created + more.created).saturating_sub(1);
            }
        }
        seen
    }

    fn send_one(&mut self, flow: usize, source: ElemId, f: &[u8]) -> Seen {
        self.now = self.now + Timestamp(STEP_NS);
        if let Some(kept) = &mut self.kept {
            let frame = f.to_vec();
            kept.push(Opening {
                flow,
                source,
                frame,
            });
        }
        let r = &mut self.runner;
        let before = r.graph().created();
        r.inject(source, f, self.now);
        let mut left = Vec::new();
        let created = r.graph().created() - before;
        r.graph_mut()
            .drain_transmitted(|e, p| left.push((e, p.data().to_vec())));
        Seen { left, created }
    }

    /// Where the answer to what left at a sink enters.
    fn back(&self, sink: ElemId) -> Option<ElemId> {
        self.ports.iter().find(|p| p.sinks.contains(&sink))?.source
    }

    /// Sends the packets of a flow from its beginning. `None` if one that carries data does not leave, alone and as
    /// one.
    fn open(&mut self, n: usize, flow: &Flow) -> Option<Passed> {
        let p = self.params;
        let mut openers = 0;
        let first = flow.frames.first()?;
        if flow.tcp {
            let syn = self.send(n, p.entry, &bare(first, 0x02));
            openers += 1;
            if !p.one_way
                && let Some((sink, f)) = syn.left.first()
                && let Some(source) = self.back(*sink)
                && let Some(answer) = frame::answer(f)
            {
                self.send(n, source, &answer);
                openers += 1;
            }
            self.send(n, p.entry, &bare(first, 0x10));
            openers += 1;
        }
        let mut answers: Option<(ElemId, Vec<Vec<u8>>)> = None;
        for f in &flow.frames {
            let seen = self.send(n, p.entry, f);
            openers += 1;
            let [(sink, left)] = &seen.left[..] else {
                return None;
            };
            if seen.created > 0 {
                return None;
            }
            if p.replies
                && let Some(source) = self.back(*sink)
                && let Some(answer) = frame::answer(left)
            {
                let seen = self.send(n, source, &answer);
                openers += 1;
                if seen.left.len() == 1 && seen.created == 0 {
                    answers.get_or_insert((source, Vec::new())).1.push(answer);
                }
            }
        }
        Some(Passed {
            answers: answers.filter(|(_, a)| a.len() == flow.frames.len()),
            openers,
        })
    }
}

/// The classes from which packets leave, as filters at the entry.
fn spots(p: &Program, entry: ElemId, rng: &mut Rng) -> Vec<Spot> {
    let mut cubes: Vec<Filter> = Vec::new();
    let leaves = |a: &Action| matches!(a.end, End::Output { .. });
    let goes_on = |a: &Action| matches!(a.end, End::Goto(_) | End::Write { .. } | End::Ask { .. });
    let first = p.entries.iter().find(|e| e.source == entry);
    let stage = |i: usize| p.stages.get(i);
    if let Some(s) = first.and_then(|e| stage(e.stage.0 as usize)) {
        for r in &s.rules {
            let action = s.actions.get(r.action.0 as usize);
            if action.is_some_and(|a| leaves(a) || goes_on(a)) {
                cubes.push(r.filter.clone());
            }
        }
    }
    let all = ways::ways(p, &mut onefold_verify::Rng::new(rng.bits()));
    let entry_stage = first.map(|e| e.stage.0 as usize);
    for (i, list) in all
        .iter()
        .enumerate()
        .filter(|(i, _)| Some(*i) != entry_stage)
    {
        let Some(s) = stage(i) else { continue };
        for w in list.iter().filter(|w| !w.stateful && w.source == entry) {
            for r in &s.rules {
                if s.actions.get(r.action.0 as usize).is_some_and(leaves)
                    && let Some((cube, _)) = w.map.narrow(p, &r.filter, &w.cube)
                {
                    cubes.push(cube);
                }
            }
        }
        if cubes.len() > 4 * MAX_SPOTS {
            break;
        }
    }
    rng.shuffle(&mut cubes);
    cubes.truncate(MAX_SPOTS);
    // where nothing is known of the entry, usual frames are tried
    if cubes.is_empty() {
        cubes.push(Filter::default());
    }
    let spot = |cube| Spot {
        cube,
        failures: 0,
        taken: false,
    };
    cubes.into_iter().map(spot).collect()
}

/// Makes flows.
struct Maker<'a> {
    params: &'a AimParams,
    usual: Usual,
    rng: Rng,
}

impl Maker<'_> {
    /// Frames of a flow within a filter: `n` that carry data.
    fn flow(&mut self, cube: &Filter, n: usize) -> Option<Flow> {
        let may = |set: Option<&ValueSet>, v: u128| set.is_none_or(|s| s.contains(v));
        let raw = |bit: i32, bits: u8| cube.get(Dim::Bits { bit, bits });
        // tags where the filter wants them
        let tagged = |bit: i32| {
            let kind = raw(bit, 16);
            !may(kind, 0x0800) && !may(kind, 0x86dd) && may(kind, 0x8100)
        };
        let tags = match (tagged(96), tagged(128)) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => 0,
        };
        let shift = 32 * tags as i32;
        let at = |bit: i32, bits: u8| raw(bit + shift, bits);
        let kind = at(96, 16);
        let v6 = !may(kind, 0x0800) && may(kind, 0x86dd);
        let proto_at = if v6 { 160 } else { 184 };
        let mix = self.params.protocols;
        let echo = if v6 { 58 } else { 1 };
        let number = |t| match t {
            Transport::Tcp => 6,
            Transport::Udp => 17,
            Transport::Icmp => echo,
        };
        let wish: u8 = number(mix.draw(&mut self.rng));
        let may_be = |p: &u8| may(at(proto_at, 8), u128::from(*p));
        // another one that the class takes, if not this one
        let all = [(wish, 1.0), (17, mix.udp), (6, mix.tcp), (echo, mix.icmp)];
        let wanted = all
            .iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(p, _)| *p);
        let proto = match self.params.strict {
            true => wanted.into_iter().find(may_be)?,
            false => *[wish, 17, 6].iter().find(|p| may_be(p)).unwrap_or(&17),
        };
        let (src, dst, width, ports, usual) = match v6 {
            false => (208, 240, 32, [272, 288], &self.usual.v4),
            true => (176, 304, 128, [432, 448], &self.usual.v6),
        };
        let fields: Vec<(i32, u8, u128)> = [
            (src, width, &usual[0]),
            (dst, width, &usual[1]),
            (ports[0], 16, &self.usual.ports[0]),
            (ports[1], 16, &self.usual.ports[1]),
        ]
        .into_iter()
        .map(|(bit, bits, usual)| (bit + shift, bits, draw(at(bit, bits), usual, &mut self.rng)))
        .collect();
        // a ping has an identifier, which flows are told apart by, where others have a destination port's neighbour
        let fields: Vec<(i32, u8, u128)> = match proto == echo {
            false => fields,
            true => (fields.into_iter())
                .filter(|(bit, ..)| *bit != ports[1] + shift)
                .map(|(bit, bits, v)| match bit == ports[0] + shift {
                    true => (bit + 32, bits, v),
                    false => (bit, bits, v),
                })
                .collect(),
        };
        let headers = 4 * tags + if v6 { 54 } else { 34 } + if proto == 6 { 20 } else { 8 };
        let mut place_rng = onefold_verify::Rng::new(self.rng.bits());
        let mut frames = Vec::with_capacity(n);
        for _ in 0..n {
            let size = self.params.sizes.draw(&mut self.rng) as usize;
            let mut f = frame::make(Shape {
                version: if v6 { 6 } else { 4 },
                proto,
                tags,
                payload: size.saturating_sub(headers),
            });
            for (bit, bits, v) in &fields {
                let from = (*bit / 8) as usize;
                let len = usize::from(*bits) / 8;
                if let Some(to) = f.get_mut(from..from + len) {
                    to.copy_from_slice(&v.to_be_bytes()[16 - len..]);
                }
            }
            let mut f = place(f, cube, &mut place_rng, false)?;
            frame::finish(&mut f, Keep::default());
            frames.push(f);
        }
        // a frame that had to become something else is no flow of the kind that is measured
        let first = frames.first()?;
        let tcp = frame::view(first)?.proto == 6;
        frame::is_plain(first).then_some(Flow { frames, tcp })
    }
}

/// The frame as a TCP segment without data and with these flags. Nothing but TCP is changed.
fn bare(f: &[u8], flags: u8) -> Vec<u8> {
    let mut f = f.to_vec();
    let Some(v) = frame::view(&f) else { return f };
    let Some(t) = v.transport else { return f };
    if let Some(b) = f.get_mut(t + 13) {
        *b = flags;
    }
    f.truncate((t + 20).max(60));
    // what is behind the segment is padding
    if let Some(rest) = f.get_mut(t + 20..) {
        rest.fill(0);
    }
    let (at, len) = match v.ether_type {
        0x86dd => (v.net + 4, t + 20 - v.net - 40),
        _ => (v.net + 2, t + 20 - v.net),
    };
    if let Some(to) = f.get_mut(at..at + 2) {
        to.copy_from_slice(&(len as u16).to_be_bytes());
    }
    let keep = Keep {
        ip_len: true,
        ..Keep::default()
    };
    frame::finish(&mut f, keep);
    f
}

/// A flow that passed: its frames, and the answers with the entry that they come back to.
struct Passed {
    answers: Option<(ElemId, Vec<Vec<u8>>)>,
    openers: u64,
}

/// Makes traffic for a chain that enters at a port. `runner` has the program and has seen no packets; `go_on` is told
/// how much of how much is done, and stops it by saying no.
///
/// # Errors
/// Nothing leaves the chain, or it was stopped.
pub fn aim(
    runner: &ProgramRunner,
    program: &Program,
    ports: &[Port],
    p: &AimParams,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Aimed, AimError> {
    let start = runner.graph().now();
    let mut maker = Maker {
        params: p,
        usual: Usual::new(),
        rng: Rng::stream(p.seed, 0x0061_696d),
    };
    let mut spots = spots(program, p.entry, &mut maker.rng);
    let per_flow = match p.sizes.is_fixed() {
        true => 1,
        false => {
            let most = p.frames_per_flow.clamp(1, MAX_PER_FLOW);
            (MIN_MIXED / p.flows.max(1)).clamp(1, most)
        }
    };
    let tables = Tables::of(runner.graph(), program);
    let sender = |kept| Sender {
        runner: runner.fork(),
        ports,
        params: p,
        now: start,
        kept,
    };
    let mut trial = sender(None);
    let mut flows: Vec<Flow> = Vec::new();
    let mut known = HashSet::new();
    let mut live: Vec<usize> = (0..spots.len()).collect();
    let mut tried = 0u64;
    let bound = 8 * p.flows as u64 + u64::from(PATIENCE) * spots.len() as u64 + 1000;
    let mut turn = 0;
    while flows.len() < p.flows && !live.is_empty() && tried < bound {
        tried += 1;
        if tried.is_multiple_of(256) && !go_on(flows.len() as u64, 2 * p.flows as u64) {
            return Err(AimError::Interrupted);
        }
        turn = if turn < live.len() { turn } else { 0 };
        let at = live.get(turn).copied().unwrap_or(0);
        let Some(spot) = spots.get_mut(at) else { break };
        let cube = match tables.is_empty() {
            true => Some(spot.cube.clone()),
            false => {
                let mut rng = onefold_verify::Rng::new(maker.rng.bits());
                tables.settled(&spot.cube, &mut rng)
            }
        };
        let made = cube.and_then(|c| maker.flow(&c, per_flow)).filter(|f| {
            let mut h = DefaultHasher::new();
            (f.frames.first().map(|f| frame::flow_key(f))).hash(&mut h);
            known.insert(h.finish())
        });
        let passed = made.filter(|f| trial.open(0, f).is_some());
        match passed {
            Some(f) => {
                flows.push(f);
                spot.failures = 0;
                spot.taken = true;
                turn += 1;
            }
            None => {
                spot.failures += 1;
                match spot.failures >= PATIENCE {
                    true => {
                        live.swap_remove(turn);
                    }
                    false => turn += 1,
                }
            }
        }
    }
    drop(trial);
    if flows.is_empty() {
        let port = ports.iter().find(|x| x.source == Some(p.entry));
        return Err(AimError::NothingLeaves {
            port: port.map_or(String::new(), |p| p.name.clone()),
            tried,
        });
    }
    // neighbours in memory are not of one class
    maker.rng.shuffle(&mut flows);
    // the state that is measured: only these flows have ever been there
    let mut opened = sender(p.keep_opening.then(Vec::new));
    let mut openers = 0;
    let mut forward = Vec::with_capacity(flows.len() * per_flow);
    let mut answers: Vec<(ElemId, Vec<Vec<u8>>)> = Vec::new();
    let tcp_flows = flows.iter().filter(|f| f.tcp).count();
    let n = flows.len();
    for (i, f) in flows.into_iter().enumerate() {
        if i.is_multiple_of(256) && !go_on((n + i) as u64, 2 * n as u64) {
            return Err(AimError::Interrupted);
        }
        if let Some(passed) = opened.open(i, &f) {
            openers += passed.openers;
            if let Some((source, list)) = passed.answers {
                match answers.iter_mut().find(|(s, _)| *s == source) {
                    Some((_, all)) => all.extend(list),
                    None => answers.push((source, list)),
                }
            }
        }
        forward.extend(f.frames);
    }
    if p.replies && answers.is_empty() {
        return Err(AimError::NoReplies);
    }
    let lane = |(source, frames): (ElemId, Vec<Vec<u8>>)| Lane {
        source,
        templates: Templates::new(&frames, per_flow),
        strangers: None,
    };
    let lanes = std::iter::once((p.entry, forward)).chain(answers);
    Ok(Aimed {
        lanes: lanes.map(lane).collect(),
        now: opened.now,
        opening: opened.kept.unwrap_or_default(),
        runner: opened.runner,
        flows: n,
        tcp_flows,
        tried,
        spots: (spots.len(), spots.iter().filter(|s| s.taken).count()),
        openers,
    })
}
