//! Can packets of some kind get somewhere? "No" is proved: nothing that the program does with such packets, whatever
//! else they are, lets one of them leave where it was asked about. "Yes" comes with a packet that does.
//!
//! The program is cut down to the packets of the question ([`cut`]); what then can come to each of its stages is what
//! [`Reach`] says. So flows are those that packets of the question begin themselves: that is the assumption about
//! state.

use super::behind::Back;
use super::differ::Compared;
use super::trial::Trial;
use super::ways::{Leaves, at_exit};
use crate::cubes::both;
use crate::generate::Port;
use crate::reach::{Facts, Reach};
use onefold_element::ElemId;
use onefold_element::model::{ValueSet, max_of};
use onefold_packet::wire::ipv6::EXTENSION_HEADERS;
use onefold_synth::Program;
use onefold_synth::program::{
    Action, ActionId, Dim, End, Expr, Filter, Image, Origin, Rule, Stage, Step,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rounds in which packets that are handed over may make more possible.
const ROUNDS: usize = 6;
/// Rules that are named.
const MAX_RULES: usize = 16;

/// A field of IP packets in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Protocol of IPv4, next header of IPv6.
    Protocol,
    /// Source port of TCP and UDP.
    SourcePort,
    /// Destination port.
    DestinationPort,
}

impl Field {
    /// First bit behind the network header's first, and bits.
    pub(super) fn place(self, six: bool) -> (i32, u8) {
        match (self, six) {
            (Field::Source, false) => (96, 32),
            (Field::Destination, false) => (128, 32),
            (Field::Protocol, false) => (72, 8),
            (Field::SourcePort, false) => (160, 16),
            (Field::DestinationPort, false) => (176, 16),
            (Field::Source, true) => (64, 128),
            (Field::Destination, true) => (192, 128),
            (Field::Protocol, true) => (48, 8),
            (Field::SourcePort, true) => (320, 16),
            (Field::DestinationPort, true) => (336, 16),
        }
    }
}

/// Conditions on a packet.
pub type Conditions = Vec<(Field, ValueSet)>;

/// A question about packets of one IP version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// IPv6.
    pub six: bool,
    /// Ports of the chain where they come in.
    pub from: Vec<String>,
    /// Ports where one of them is to leave.
    pub to: Vec<String>,
    /// What they are as they come in.
    pub sent: Conditions,
    /// What the one that leaves is to be.
    pub delivered: Conditions,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This frame does, coming in at this port.
    Yes {
        /// The port.
        port: String,
        /// The frame.
        frame: Vec<u8>,
        /// What leaves, where.
        out: Vec<(String, Vec<u8>)>,
    },
    /// None does.
    No {
        /// Who drops them, as far as it is told: for each, what decided last.
        by: Vec<Origin>,
    },
    /// It is not known, for these reasons.
    Unknown(Vec<String>),
}

/// The answer, and what it takes for granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Bindings decide about such packets: no flow is open but those that they begin themselves.
    pub state: bool,
}

/// Longest IP packet that is asked about, in bytes: what is longer is fragmented, or refused.
pub const MTU: u128 = 1_500;
/// Least time to live that is asked about.
pub const LEAST_TTL: u128 = 64;

/// The packets of a question as they come in: IP in an untagged Ethernet frame, without options or extension headers,
/// no fragment, with the whole of its transport header, of at most [`MTU`] bytes, with [`LEAST_TTL`] hops to live or
/// more. No packet fits two of these.
fn packets(q: &Question) -> Vec<Filter> {
    const TCP: u128 = 6;
    let tcp = ValueSet::one(TCP);
    [(tcp.clone(), 20), (tcp.complement(8), 8)]
        .into_iter()
        .filter_map(|(protocols, header)| packets_of(q, &protocols, header))
        .collect()
}

/// Those of some protocols, with so many bytes of a transport header.
fn packets_of(q: &Question, protocols: &ValueSet, header: u128) -> Option<Filter> {
    let mut f = Filter::default();
    let mut say = |bit: i32, bits: u8, set: ValueSet| f.narrow(Dim::Bits { bit, bits }, &set, bits);
    let one = ValueSet::one;
    let ok = match q.six {
        false => {
            say(96, 16, one(0x0800))
                && say(112, 4, one(4))
                && say(116, 4, one(5))
                && say(128, 16, ValueSet::range(20 + header, MTU))
                && say(162, 1, one(0))
                && say(163, 13, one(0))
                && say(176, 8, ValueSet::range(LEAST_TTL, 255))
                && say(184, 8, protocols.clone())
        }
        true => {
            let extensions = EXTENSION_HEADERS.map(|n| (n.into(), n.into()));
            say(96, 16, one(0x86dd))
                && say(112, 4, one(6))
                && say(144, 16, ValueSet::range(header, MTU - 40))
                && say(160, 8, ValueSet::from_intervals(extensions).complement(8))
                && say(168, 8, ValueSet::range(LEAST_TTL, 255))
                && say(160, 8, protocols.clone())
        }
    };
    let mut said = ok;
    for (field, set) in &q.sent {
        let (bit, bits) = field.place(q.six);
        said = said && say(112 + bit, bits, set.clone());
    }
    said.then_some(f)
}

/// The program for packets that come in at these sources and fit one of the filters: others are dropped at the door.
fn cut(p: &Program, sources: &[ElemId], packets: &[Filter]) -> Program {
    let mut out = p.clone();
    out.entries.retain(|e| sources.contains(&e.source));
    for e in &out.entries {
        let Some(s) = out.stages.get_mut(e.stage.0 as usize) else {
            continue;
        };
        let rules = std::mem::take(&mut s.rules);
        for r in rules {
            for f in packets {
                let filter = both(p, &r.filter, f);
                s.rules.extend(filter.map(|filter| Rule {
                    filter,
                    ..r.clone()
                }));
            }
        }
        let others = ActionId(s.actions.len() as u32);
        s.actions.push(Action {
            steps: Vec::new(),
            end: End::Drop {
                elem: e.source,
                reason: "not asked about".into(),
            },
            path: Vec::new(),
        });
        s.rules.push(Rule {
            filter: Filter::default(),
            action: others,
            origin: Vec::new(),
        });
    }
    out
}

/// A place where packets may leave as it was asked: stage, rule, and which of its packets.
pub(super) struct Candidate {
    /// The stage.
    pub stage: usize,
    /// Its rule.
    pub rule: usize,
    /// Those packets.
    pub cube: Filter,
}

/// Answers a question. `go_on` ends the search for a packet.
pub fn ask(c: &Compared<'_>, q: &Question, go_on: &mut dyn FnMut() -> bool) -> Answered {
    let no = |by| Answered {
        answer: Answer::No { by },
        state: false,
    };
    let named = |list: &'_ [String], p: &Port| list.contains(&p.name);
    let sources: Vec<ElemId> = (c.ports.iter())
        .filter(|p| named(&q.from, p))
        .filter_map(|p| p.source)
        .collect();
    let packets = packets(q);
    if packets.is_empty() {
        return no(Vec::new());
    }
    let program = Arc::new(cut(c.program, &sources, &packets));
    let mut open = BTreeSet::new();
    for s in &sources {
        if !program.entries.iter().any(|e| e.source == *s) {
            open.insert(
                "what comes in there has no program: the reference graph takes it whole".into(),
            );
        }
    }
    let (reach, punts) = reached(c, &program);
    let Places {
        candidates,
        by,
        state,
    } = places(c, q, (&program, &reach));
    let answer = |answer| Answered { answer, state };
    let trial = Trial::new(c, q, &packets);
    for k in &candidates {
        let entry = program
            .entries
            .iter()
            .find(|e| e.stage.0 as usize == k.stage);
        let Some(e) = entry.filter(|_| go_on()) else {
            continue;
        };
        let stage = program.stages.get(k.stage);
        if let Some(yes) = stage.and_then(|s| trial.straight(&program, s, k, e.source)) {
            return answer(yes);
        }
    }
    if candidates.is_empty() && punts.is_empty() && open.is_empty() {
        return answer(Answer::No { by });
    }
    let mut back = Back::new(&program);
    let entry = |k: &Candidate| (program.entries.iter()).any(|e| e.stage.0 as usize == k.stage);
    for k in candidates.iter().filter(|k| !entry(k)) {
        if go_on()
            && let Some(yes) = trial.behind(&mut back, k)
        {
            return answer(yes);
        }
    }
    if go_on()
        && let Some(yes) = trial.hunt(&program, reach, go_on)
    {
        return answer(yes);
    }
    for (elem, cause) in &punts {
        let name = c
            .program
            .elements
            .get(elem.0 as usize)
            .map_or("?", |n| n.as_str());
        open.insert(format!(
            "the reference graph takes some of them over at {name}: {cause}"
        ));
    }
    if !candidates.is_empty() {
        open.insert("such packets may leave, but none was found that does".into());
    }
    answer(Answer::Unknown(open.into_iter().collect()))
}

/// Where packets of a question may leave, and who drops them.
struct Places {
    candidates: Vec<Candidate>,
    by: Vec<Origin>,
    /// Bindings decide about some.
    state: bool,
}

/// Looks for them in all that can be reached.
fn places(c: &Compared<'_>, q: &Question, (program, reach): (&Program, &Reach)) -> Places {
    let sinks: BTreeSet<ElemId> = (c.ports.iter())
        .filter(|p| q.to.contains(&p.name))
        .flat_map(|p| p.sinks.iter().copied())
        .collect();
    // what a packet is decides at a Classifier, what the operator wants elsewhere
    let own = |o: &&Origin| o.arg.is_some() && c.graph.class(o.elem) != "Classifier";
    let mut out = Places {
        candidates: Vec::new(),
        by: Vec::new(),
        state: false,
    };
    let stages = program.stages.iter().enumerate();
    for (i, stage) in stages.filter(|(i, _)| !reach.at(*i).is_empty()) {
        for (j, r) in stage.rules.iter().enumerate() {
            let Some(a) = stage.actions.get(r.action.0 as usize) else {
                continue;
            };
            let binds = a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
            let comes = || !reach.ask(i, j, &r.filter).is_never();
            match &a.end {
                End::Output { sink, image } if sinks.contains(sink) => {
                    if let Some(cube) = delivered(program, a, image, &r.filter, q)
                        && !reach.ask(i, j, &cube).is_never()
                    {
                        out.state |= binds;
                        out.candidates.push(Candidate {
                            stage: i,
                            rule: j,
                            cube,
                        });
                    }
                }
                End::Drop { .. } if out.by.len() < MAX_RULES && !r.origin.is_empty() && comes() => {
                    out.state |= binds;
                    out.by.extend(r.origin.iter().rev().find(own));
                }
                _ if binds && !out.state => out.state = comes(),
                _ => {}
            }
        }
    }
    out
}

/// What can be reached, and where packets are handed over to the reference graph. What is handed over may begin flows:
/// it is asked again with that, until it makes no more possible.
fn reached(c: &Compared<'_>, program: &Arc<Program>) -> (Reach, BTreeSet<(ElemId, String)>) {
    let mut known: BTreeSet<(ElemId, String)> = BTreeSet::new();
    let mut round = 0;
    loop {
        // a program of nothing but what is known to be handed over, for those facts
        let actions = known.iter().map(|(elem, cause)| Action {
            steps: Vec::new(),
            end: End::Punt {
                elem: *elem,
                port: 0,
                cause: cause.clone(),
                image: Arc::new(Image::default()),
            },
            path: Vec::new(),
        });
        let mut only = Program {
            elements: program.elements.clone(),
            ..Program::default()
        };
        if let Some(s) = program.stages.first() {
            only.stages.push(Stage {
                rules: Vec::new(),
                actions: actions.collect(),
                ..s.clone()
            });
        }
        let facts = match round < ROUNDS {
            true => Facts::of(c.graph.spec(), &only),
            false => Facts::of(c.graph.spec(), program),
        };
        let reach = Reach::of(program.clone(), &facts);
        let mut now = known.clone();
        for (i, s) in program.stages.iter().enumerate() {
            if reach.at(i).is_empty() {
                continue;
            }
            for (j, r) in s.rules.iter().enumerate() {
                if let Some(End::Punt { elem, cause, .. }) =
                    s.actions.get(r.action.0 as usize).map(|a| &a.end)
                    && !now.contains(&(*elem, cause.clone()))
                    && !reach.rule(i, j).is_never()
                {
                    now.insert((*elem, cause.clone()));
                }
            }
        }
        if now == known || round == ROUNDS {
            return (reach, now);
        }
        known = now;
        round += 1;
    }
}

/// The packets of a rule that leave as the question wants them. `None`: none does.
fn delivered(
    p: &Program,
    a: &Action,
    image: &Image,
    filter: &Filter,
    q: &Question,
) -> Option<Filter> {
    let mut cube = filter.clone();
    let start = image.start.checked_mul(8)?;
    let tagged = |b: i32| {
        matches!(
            at_exit(image, b, 16),
            Leaves::Is(Expr::Const(0x8100 | 0x88a8))
        )
    };
    let mut net = start + 112;
    // Bound: a frame has few tags
    for _ in 0..4 {
        if !tagged(net - 16) {
            break;
        }
        net += 32;
    }
    for (field, set) in &q.delivered {
        let (bit, bits) = field.place(q.six);
        let leaves = match at_exit(image, net + bit, bits) {
            Leaves::Is(Expr::Of(Dim::Slot(s), 0)) => bound(a, s.0),
            l => l,
        };
        match leaves {
            Leaves::Is(Expr::Const(v)) => {
                if !set.contains(v & max_of(bits)) {
                    return None;
                }
            }
            Leaves::Is(Expr::Of(d @ Dim::Bits { bits: n, .. }, add)) if n == bits => {
                if !cube.narrow(d, &set.shifted_back(add, bits), crate::cubes::width(p, d)) {
                    return None;
                }
            }
            Leaves::Is(Expr::Of(d @ Dim::Slot(_), 0)) => {
                if !cube.narrow(d, set, crate::cubes::width(p, d)) {
                    return None;
                }
            }
            Leaves::Among(some) => {
                if some.is_disjoint(set) {
                    return None;
                }
            }
            Leaves::Is(_) | Leaves::Anything => {}
        }
    }
    Some(cube)
}

/// What a slot holds that the action's own binding fills, as far as that is expected.
fn bound(a: &Action, slot: u16) -> Leaves {
    for s in &a.steps {
        let Step::Bind {
            first,
            expect,
            image,
            ..
        } = s
        else {
            continue;
        };
        let Some(n) = slot
            .checked_sub(first.0)
            .map(usize::from)
            .filter(|n| *n < 4)
        else {
            continue;
        };
        let Some(x) = expect else {
            return Leaves::Anything;
        };
        if !x.kept.get(n).copied().unwrap_or(false) {
            return x
                .sets
                .get(n)
                .cloned()
                .map_or(Leaves::Anything, Leaves::Among);
        }
        let Some(net) = image.net.start() else {
            return Leaves::Anything;
        };
        let field = [
            Field::Source,
            Field::Destination,
            Field::SourcePort,
            Field::DestinationPort,
        ];
        let Some(f) = field.get(n) else {
            return Leaves::Anything;
        };
        let (bit, bits) = f.place(false);
        return match at_exit(image, net * 8 + bit, bits) {
            Leaves::Is(Expr::Of(Dim::Slot(s), 0)) if s.0 < first.0 => bound(a, s.0),
            l => l,
        };
    }
    Leaves::Is(Expr::Of(Dim::Slot(onefold_synth::program::Slot(slot)), 0))
}
