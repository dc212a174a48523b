//! Which flows begin where, as far as the program sees, and so what other bindings packets may have.
//!
//! First packets of flows are collected by rewriter and input, with what is known of their fields; where more becomes
//! known to begin, the stages that ask the rewriter are made again. What is found serves to leave out what cannot come.
//! Nothing depends on its being all: the executor gives packets with other bindings to the rewriter itself
//! ([`Next::Never`]). So flows that begin in the reference graph count only where they would be many
//! ([`Synthesizer::loosen`]).
//!
//! [`Next::Never`]: crate::program::Next::Never

use super::Synthesizer;
use super::carry;
use super::known::Known;
use crate::program::{Dim, Expr, Filter};
use crate::state::State;
use onefold_element::ElemId;
use onefold_element::model::{Bind, BindKind, Exit, FlowSide, Model, Rewritten, ValueSet};
use std::collections::{BTreeSet, VecDeque};

/// From so many changes on, any flow may begin at an input.
const MAX_CHANGES: u32 = 16;
/// Most intervals of a field of bindings that are told; more become one.
const MAX_INTERVALS: usize = 32;

/// Where addresses, ports (or identifier) and protocol of first packets are kept: as in an IPv4 packet without options.
pub(super) const KEY: [(Dim, u8); 5] = [
    (Dim::Bits { bit: 96, bits: 32 }, 32),
    (Dim::Bits { bit: 128, bits: 32 }, 32),
    (Dim::Bits { bit: 160, bits: 16 }, 16),
    (Dim::Bits { bit: 176, bits: 16 }, 16),
    (Dim::Bits { bit: 72, bits: 8 }, 8),
];

/// Elements whose own packets, or those that they make into others, are ICMP errors, echo replies or ARP: only
/// rewriters of addresses make bindings of them.
const NO_FLOWS: [&str; 8] = [
    "ARPResponder",
    "FixIPSrc",
    "ICMP6Error",
    "ICMP6PingResponder",
    "ICMPError",
    "ICMPPingResponder",
    "ICMPRewriter",
    "IP6NDAdvertiser",
];
/// Elements that make bindings in rewriters that are named to them.
const MAKERS: [&str; 1] = ["FTPPortMapper"];

/// Flows that begin at an input of a rewriter.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    first: Known,
    changes: u32,
}

const UDP: u128 = 17;
/// ICMP echo and echo reply.
pub(super) const MESSAGES: [u128; 2] = [8, 0];

/// A packet where a rewriter is asked about it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Its state.
    pub state: State,
    /// Its addresses, ports or identifier.
    pub fields: Vec<Expr>,
    /// Requests and replies, if only they make and have bindings: ICMP echo messages of these kinds.
    pub messages: Option<[Vec<Filter>; 2]>,
    /// Its IP protocol.
    pub proto: u128,
    /// What is known of it.
    pub known: Known,
}

/// A question of a stage, and what came of it.
#[derive(Debug)]
pub(super) struct Ask {
    stage: usize,
    port: u16,
    bind: Bind,
    asked: Asked,
    others: Vec<Other>,
}

/// Other bindings than the expected one that packets may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Other {
    /// What they are of.
    pub side: FlowSide,
    /// Packets that may have them, as they arrive.
    pub packets: Vec<Filter>,
}

impl Asked {
    /// What a field may be in packets that fit.
    pub(super) fn field(&self, i: usize, f: &Filter) -> ValueSet {
        let bits = KEY[i].1;
        let set = (self.fields.get(i)).and_then(|e| carry::value(*e, bits, f, &self.state));
        set.unwrap_or_else(|| ValueSet::full(bits))
    }

    /// Leaves only packets whose expression is in the set; false when there are none.
    fn narrow(&self, f: &mut Filter, e: Expr, bits: u8, set: &ValueSet) -> bool {
        let (d, plus) = match e {
            Expr::Const(c) => return set.contains(c),
            Expr::Of(d, plus) => (d, plus),
        };
        let now = carry::value(e, bits, f, &self.state);
        if now.is_some_and(|now| now.is_disjoint(set)) {
            return false;
        }
        // what is cut, or comes from elsewhere, is not followed
        if crate::cond::width(&self.state, d) != bits {
            return true;
        }
        f.narrow(d, &set.shifted_back(plus, bits), bits)
    }

    /// Leaves only requests, or replies; false when there are none.
    fn is_message(&self, f: &mut Filter, reply: bool) -> bool {
        let Some([requests, replies]) = &self.messages else {
            return true;
        };
        let mut fit = (if reply { replies } else { requests }).iter();
        let mut fit = fit.by_ref().filter(|t| !t.is_disjoint(f));
        match (fit.next(), fit.next()) {
            (None, _) => false,
            (Some(t), None) => {
                let width = |d| crate::cond::width(&self.state, d);
                t.0.iter().all(|(d, set)| f.narrow(*d, set, width(*d)))
            }
            // one of several: that is no filter
            _ => true,
        }
    }
}

impl Synthesizer<'_> {
    /// Packets that begin flows at an input of a rewriter.
    pub(super) fn begin(&mut self, elem: ElemId, port: u16, b: &Bind, asked: &Asked) {
        for f in asked.known.cubes() {
            let mut f = f.clone();
            if !asked.is_message(&mut f, false) {
                continue;
            }
            let mut first = Filter::default();
            let kept = self
                .kept_ports
                .get(&(elem, port))
                .filter(|_| asked.proto != UDP);
            for (i, (d, bits)) in KEY.iter().enumerate().take(b.kind.fields()) {
                if kept.is_some_and(|k| k.get(i) == Some(&true)) {
                    continue;
                }
                first.narrow(*d, &asked.field(i, &f), *bits);
            }
            if b.by_protocol {
                first.narrow(KEY[4].0, &ValueSet::one(asked.proto), KEY[4].1);
            }
            self.begun(elem, port, first);
        }
    }

    fn begun(&mut self, elem: ElemId, port: u16, first: Filter) {
        let more = match self.begun.get_mut(&(elem, port)) {
            None => {
                let first = Known::of(first);
                self.begun.insert((elem, port), Begun { first, changes: 0 });
                true
            }
            Some(b) => {
                let more = b.first.add(first, &[]);
                b.changes += u32::from(more);
                if b.changes > MAX_CHANGES {
                    b.first = Known::anything();
                }
                more
            }
        };
        if more {
            self.more.insert(elem);
        }
    }

    /// A stage asks a rewriter: what other bindings packets may have, by what is known to begin. Asked again when more
    /// is.
    pub(super) fn ask(
        &mut self,
        stage: usize,
        elem: ElemId,
        port: u16,
        b: &Bind,
        asked: &Asked,
    ) -> Vec<Other> {
        let others = self.others(elem, port, b, asked);
        self.asking.entry(elem).or_default().push(Ask {
            stage,
            port,
            bind: b.clone(),
            asked: asked.clone(),
            others: others.clone(),
        });
        others
    }

    /// A stage is made again, and asks again.
    pub(super) fn forget(&mut self, stage: usize) {
        for asks in self.asking.values_mut() {
            asks.retain(|a| a.stage != stage);
        }
    }

    /// Where more flows are known to begin, stages that would be told of more are to be made again.
    pub(super) fn ask_again(&mut self) {
        for elem in std::mem::take(&mut self.more) {
            let asks = self.asking.get(&elem).into_iter().flatten();
            let again: BTreeSet<usize> = asks
                .filter(|a| self.others(elem, a.port, &a.bind, &a.asked) != a.others)
                .map(|a| a.stage)
                .collect();
            for i in again {
                if let Some(w) = self.stages.get_mut(i) {
                    w.dirty = true;
                }
            }
        }
    }

    /// Other bindings than the expected one that packets may have at an input.
    pub(super) fn others(&self, elem: ElemId, port: u16, b: &Bind, asked: &Asked) -> Vec<Other> {
        let mut out: Vec<Other> = Vec::new();
        for kind in &b.flows {
            let Some(begun) = self.begun.get(&(elem, kind.input as u16)) else {
                continue;
            };
            for first in begun.first.cubes() {
                if first
                    .get(KEY[4].0)
                    .is_some_and(|s| !s.contains(asked.proto))
                {
                    continue;
                }
                let sets = [0, 1, 2, 3].map(|i| {
                    let set = first.get(KEY[i].0).map(rough);
                    set.unwrap_or_else(|| ValueSet::full(KEY[i].1))
                });
                for side in kind.sides(b.kind, b.source_only, &sets) {
                    if !is_expected(&side, port, b) {
                        self.other(side, asked, &mut out);
                    }
                }
            }
        }
        out
    }

    fn other(&self, side: FlowSide, asked: &Asked, out: &mut Vec<Other>) {
        let mut side = side;
        let mut packets: Vec<Filter> = Vec::new();
        let mut doubt = [false; 4];
        for f in asked.known.cubes() {
            let mut f = f.clone();
            let fits = asked
                .fields
                .iter()
                .enumerate()
                .all(|(i, e)| asked.narrow(&mut f, *e, KEY[i].1, &side.from[i]));
            // (which message it is that has such a binding, the rewriter alone knows: nothing goes on knowing it)
            if !fits || !asked.is_message(&mut f.clone(), side.reply) {
                continue;
            }
            packets.push(f);
        }
        if packets.is_empty() {
            return;
        }
        // what all that come are need not be asked
        for f in asked.known.cubes() {
            for (i, doubt) in doubt.iter_mut().enumerate().take(asked.fields.len()) {
                *doubt |= !asked.field(i, f).is_subset(&side.from[i]);
            }
        }
        for (i, doubt) in doubt.iter().enumerate() {
            if !doubt {
                side.from[i] = ValueSet::full(KEY[i].1);
            }
        }
        match out.iter_mut().find(|o| o.side == side) {
            Some(o) => o.packets.extend(packets),
            None => out.push(Other { side, packets }),
        }
    }

    /// Packets that the program does not see may begin any flow at all rewriters behind this element.
    pub(super) fn loosen(&mut self, elem: ElemId, port: u16) {
        let input = self.input;
        let class = |e: ElemId| {
            let e = input.elements.get(e.0 as usize);
            e.map_or("", |e| e.class.as_str())
        };
        let all = !NO_FLOWS.contains(&class(elem));
        if !self.loosened.insert((elem, port)) {
            return;
        }
        let mut seen: BTreeSet<(ElemId, u16)> = BTreeSet::from([(elem, port)]);
        let mut queue: VecDeque<(ElemId, u16)> = VecDeque::from([(elem, port)]);
        // Bound: each input once.
        while let Some((e, p)) = queue.pop_front() {
            let Some(info) = input.elements.get(e.0 as usize) else {
                continue;
            };
            let addresses = |b: &Bind| b.kind == BindKind::Addresses;
            if bind_of(info.models.get(usize::from(p))).is_some_and(|b| all || addresses(b)) {
                self.begun(e, p, Filter::default());
            }
            for to in info.outputs.iter().flatten() {
                if seen.insert(*to) {
                    queue.push_back(*to);
                }
            }
        }
    }

    /// The same for elements that make packets or bindings of their own.
    pub(super) fn loosen_makers(&mut self) {
        let input = self.input;
        let makes = |c: &str| MAKERS.contains(&c);
        let makers = input.elements.iter().any(|e| makes(&e.class));
        for (i, e) in input.elements.iter().enumerate() {
            let id = ElemId(i as u32);
            if e.input_is_pull.is_empty() && !e.outputs.is_empty() && !input.sources.contains(&id) {
                self.loosen(id, 0);
            }
            for (p, m) in e.models.iter().enumerate().filter(|_| makers) {
                if bind_of(Some(m)).is_some() {
                    self.begun(id, p as u16, Filter::default());
                }
            }
        }
    }
}

impl Synthesizer<'_> {
    /// Rewriters leave ports alone where a TCP header (or a ping) is cut off, though the packet has a binding: such
    /// packets begin flows of other ports at the rewriters behind.
    pub(super) fn keep_ports(&mut self) {
        let input = self.input;
        for info in &input.elements {
            let binds = info.models.iter().filter_map(|m| bind_of(Some(m)));
            for k in binds.flat_map(|b| &b.flows) {
                let to = |r: &Rewritten| *r != Rewritten::Kept;
                let (s, d) = (to(&k.forward.sport), to(&k.forward.dport));
                let back = k.reply.map(|reply| (reply, [d, s]));
                for (output, fields) in [(k.forward.output, [s, d])].into_iter().chain(back) {
                    let from = info.outputs.get(output).copied().flatten();
                    if let Some(from) = from.filter(|_| s || d) {
                        self.keep_ports_behind(from, fields);
                    }
                }
            }
        }
    }

    fn keep_ports_behind(&mut self, from: (ElemId, u16), [sport, dport]: [bool; 2]) {
        let input = self.input;
        let mut seen: BTreeSet<(ElemId, u16)> = BTreeSet::from([from]);
        let mut queue: VecDeque<(ElemId, u16)> = VecDeque::from([from]);
        // Bound: each input once.
        while let Some((e, p)) = queue.pop_front() {
            let Some(info) = input.elements.get(e.0 as usize) else {
                continue;
            };
            if bind_of(info.models.get(usize::from(p))).is_some() {
                let k = self.kept_ports.entry((e, p)).or_default();
                k[2] |= sport;
                k[3] |= dport;
            }
            for to in info.outputs.iter().flatten() {
                if seen.insert(*to) {
                    queue.push_back(*to);
                }
            }
        }
    }
}

/// Is this what is expected of packets of new flows?
pub(super) fn is_expected(s: &FlowSide, port: u16, b: &Bind) -> bool {
    let output = b.expected.as_ref().map(|e| e.output);
    !s.reply && s.origin == port && output == Some(usize::from(s.output))
}

fn bind_of(m: Option<&Model>) -> Option<&Bind> {
    let Some(Model::Cases(cases)) = m else {
        return None;
    };
    cases.iter().find_map(|c| match &c.exit {
        Exit::Bind(b) => Some(&**b),
        _ => None,
    })
}

fn rough(set: &ValueSet) -> ValueSet {
    match set.intervals() {
        [(lo, _), .., (_, hi)] if set.intervals().len() > MAX_INTERVALS => {
            ValueSet::range(*lo, *hi)
        }
        _ => set.clone(),
    }
}
