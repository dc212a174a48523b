//! What a rewriter may answer: the expected binding, the reply direction of a flow that came forward somewhere, a
//! flow that began at another input.

use super::Arrived;
use super::apply::value;
use crate::cubes::{hull, width};
use onefold_element::ElemId;
use onefold_element::model::{BindKind, FlowSide, ValueSet, max_of};
use onefold_synth::program::{Dim, Expect, Expr, Image, Mark, Program, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of flows that are kept apart at one input.
const MAX_FLOWS: usize = 40;
/// Intervals of a field of flows.
const MAX_INTERVALS: usize = 64;
/// From so many changes on, what changes becomes anything.
const MAX_CHANGES: usize = 600;
/// Names of what a binding rewrites.
pub const FIELDS: [&str; 4] = [
    "source address",
    "destination address",
    "source port",
    "destination port",
];
/// Their widths.
pub const BITS: [u8; 4] = [32, 32, 16, 16];

/// Flows as they came forward: addresses, ports, protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Source and destination address, source and destination port.
    pub sets: [ValueSet; 4],
    /// IP protocol.
    pub proto: ValueSet,
}

impl Flow {
    fn covers(&self, o: &Flow) -> bool {
        o.proto.is_subset(&self.proto)
            && (self.sets.iter().zip(&o.sets)).all(|(a, b)| b.is_subset(a))
    }
    /// Both as one, if they differ in one field at most.
    fn joined(&self, o: &Flow) -> Option<Flow> {
        let mut both = self.clone();
        let mut differ = 0;
        let fields = (both.sets.iter_mut().zip(&o.sets)).chain([(&mut both.proto, &o.proto)]);
        for (a, b) in fields {
            if a != b {
                differ += 1;
                *a = a.union(b);
                if differ > 1 || a.intervals().len() > MAX_INTERVALS {
                    return None;
                }
            }
        }
        Some(both)
    }
    fn any() -> Flow {
        Flow {
            sets: BITS.map(ValueSet::full),
            proto: ValueSet::full(8),
        }
    }
}

/// An input of a rewriter at which flows begin.
#[derive(Debug, Clone)]
pub struct Begins {
    /// What becomes of them.
    pub expect: Expect,
    /// What they are found by.
    pub kind: BindKind,
    /// Those that may have begun.
    pub flows: Vec<Flow>,
    changes: usize,
}

/// All flows that may have begun.
#[derive(Debug, Clone, Default)]
pub struct Flows(pub BTreeMap<(ElemId, u16), Begins>);

impl Flows {
    /// A flow may begin; false if that was known.
    pub(super) fn add(
        &mut self,
        at: (ElemId, u16),
        kind: BindKind,
        expect: &Expect,
        mut flow: Flow,
    ) -> bool {
        if kind == BindKind::Addresses {
            // a flow that began with one protocol is found by packets of any
            flow.proto = ValueSet::full(8);
        }
        let b = self.0.entry(at).or_insert_with(|| Begins {
            expect: expect.clone(),
            kind,
            flows: Vec::new(),
            changes: 0,
        });
        if b.flows.iter().any(|f| f.covers(&flow)) {
            return false;
        }
        b.changes += 1;
        if b.changes > MAX_CHANGES {
            b.flows = vec![Flow::any()];
            return true;
        }
        b.flows.retain(|f| !flow.covers(f));
        // kinds that differ in one field are one kind
        let mut flow = flow;
        let mut i = 0;
        while let Some(f) = b.flows.get(i) {
            match f.joined(&flow) {
                Some(both) => {
                    b.flows.swap_remove(i);
                    b.flows.retain(|f| !both.covers(f));
                    flow = both;
                    i = 0;
                }
                None => i += 1,
            }
        }
        if b.flows.len() < MAX_FLOWS {
            b.flows.push(flow);
            return true;
        }
        let join = |a: &ValueSet, b: &ValueSet| {
            let s = a.union(b);
            match s.intervals().len() > MAX_INTERVALS {
                true => hull(&s),
                false => s,
            }
        };
        if let Some(last) = b.flows.last_mut() {
            for (a, b) in last.sets.iter_mut().zip(&flow.sets) {
                *a = join(a, b);
            }
            last.proto = join(&last.proto, &flow.proto);
        }
        true
    }
}

/// What a field is at a place of the chain, in the epoch's terms.
pub fn field_at(image: &Image, bit: i32, bits: u8) -> Option<Expr> {
    let end = bit + i32::from(bits);
    let mut hit = image
        .writes
        .iter()
        .filter(|w| w.bit < end && w.bit + i32::from(w.bits) > bit);
    match (hit.next(), hit.next()) {
        (None, _) => Some(Expr::Of(Dim::Bits { bit, bits }, 0)),
        (Some(w), None) if w.bit == bit && w.bits == bits => Some(w.value),
        _ => None,
    }
}

/// Where a binding's fields are.
pub type Fields = [Option<Expr>; 6];

/// Where a binding's fields are: addresses, ports or identifier, protocol, kind of ICMP message. `None` where that is
/// not told.
pub fn fields_of(image: &Image, kind: BindKind) -> Fields {
    let Mark::At(at, _) = image.net else {
        return [None; 6];
    };
    let field = |byte: i32, bits: u8| field_at(image, (at + byte) * 8, bits);
    let ports = match kind {
        BindKind::Flow => [field(20, 16), field(22, 16)],
        BindKind::Ping => [field(24, 16), None],
        BindKind::Addresses => [None, None],
    };
    let message = match kind {
        BindKind::Ping => field(20, 8),
        _ => None,
    };
    [
        field(12, 32),
        field(16, 32),
        ports[0],
        ports[1],
        field(9, 8),
        message,
    ]
}

/// Leaves of `a` only packets whose expression is in the set; false when there are none.
pub fn narrow(p: &Program, a: &mut Arrived, e: Option<Expr>, set: &ValueSet) -> bool {
    match e {
        None => !set.is_empty(),
        Some(Expr::Const(c)) => set.contains(c),
        Some(Expr::Of(Dim::Slot(_), plus)) if plus != 0 => true,
        Some(Expr::Of(d, plus)) => {
            let w = width(p, d);
            let back = set.shifted_back(plus, w);
            let now = super::apply::values_of(p, a, d);
            !now.is_disjoint(&back) && a.cube.narrow(d, &back, w)
        }
    }
}

/// One answer.
pub struct Answer {
    /// Packets that may get it, slots filled.
    pub packets: Arrived,
    /// The outputs; any, if that is not known.
    pub outputs: Option<BTreeSet<u16>>,
}

/// The flows that packets of `a` are of, as they are at a place of the chain.
pub(super) fn flow_of(p: &Program, a: &Arrived, fields: &Fields) -> Flow {
    let set = |i: usize| {
        let bits = BITS.get(i).copied().unwrap_or(8);
        match fields.get(i).copied().flatten() {
            Some(e) => value(p, a, e, bits),
            None => ValueSet::full(bits),
        }
    };
    Flow {
        sets: [0, 1, 2, 3].map(set),
        proto: set(4),
    }
}

/// What a rewriter may answer other than expected.
#[derive(Default)]
pub struct Answers {
    /// With the expected binding, the action goes on.
    pub expected: Option<Arrived>,
    /// Other bindings.
    pub bound: Vec<Answer>,
    /// Why there are no (more) other bindings.
    pub why_not: Vec<String>,
    /// A kind of flow began that was not known to.
    pub news: bool,
}

/// A rewriter asked about packets.
pub struct Question<'a> {
    /// The rewriter and its input.
    pub at: (ElemId, u16),
    /// What is looked up.
    pub kind: BindKind,
    /// The packet there.
    pub image: &'a Image,
    /// The first slot.
    pub first: Slot,
    /// What is expected.
    pub expect: Option<&'a Expect>,
    /// Flows may have been made by others: anything is possible.
    pub loose: bool,
    /// What other bindings can be of, if that is told.
    pub sides: Option<&'a [FlowSide]>,
}

/// ICMP echo and echo reply.
const ECHO: u128 = 8;
const ECHO_REPLY: u128 = 0;

impl Question<'_> {
    fn fill(&self, p: &Program, a: &mut Arrived, i: u16, set: &ValueSet) {
        let d = Dim::Slot(Slot(self.first.0 + i));
        a.cube.0.retain(|(k, _)| *k != d);
        a.cube.narrow(d, set, width(p, d));
    }

    /// Where replies leave of flows that began at an input; anywhere, where that is not told.
    fn replies(&self, origin: u16) -> Option<BTreeSet<u16>> {
        let replies = (self.sides?.iter()).filter(|s| s.reply && s.origin == origin);
        Some(replies.map(|s| s.output).collect())
    }

    fn sums(&self, p: &Program, a: &mut Arrived) {
        for i in 4..6 {
            self.fill(p, a, i, &ValueSet::full(16));
        }
    }

    /// All that may be answered.
    pub fn answers(&self, p: &Program, flows: &mut Flows, a: &Arrived) -> Answers {
        let mut out = Answers::default();
        let fields = fields_of(self.image, self.kind);
        let set = |a: &Arrived, i: usize| match fields[i] {
            Some(e) => value(p, a, e, BITS.get(i).copied().unwrap_or(8)),
            None => ValueSet::full(BITS.get(i).copied().unwrap_or(8)),
        };
        let mut on = a.clone();
        let begins =
            self.kind != BindKind::Ping || narrow(p, &mut on, fields[5], &ValueSet::one(ECHO));
        if let Some(x) = self.expect.filter(|_| begins) {
            let flow = flow_of(p, &on, &fields);
            out.news = flows.add(self.at, self.kind, x, flow);
            for i in 0..4 {
                let s = match x.kept[i] {
                    true => set(&on, i),
                    false => x.sets[i].clone(),
                };
                self.fill(p, &mut on, i as u16, &s);
            }
            self.sums(p, &mut on);
            out.expected = Some(on);
        }
        if self.loose {
            let mut any = a.clone();
            for (i, bits) in BITS.into_iter().enumerate() {
                self.fill(p, &mut any, i as u16, &ValueSet::full(bits));
            }
            self.sums(p, &mut any);
            out.bound.push(Answer {
                packets: any,
                outputs: None,
            });
            return out;
        }
        for ((elem, port), b) in &flows.0 {
            if *elem != self.at.0 {
                continue;
            }
            for f in &b.flows {
                self.reply(p, a, b, f, &fields, self.replies(*port), &mut out);
                if *port != self.at.1 {
                    self.elsewhere(p, a, b, f, &fields, &mut out);
                }
            }
        }
        if out.bound.is_empty() && out.why_not.is_empty() {
            out.why_not.push("no flow begins there".into());
        }
        out
    }

    /// Packets that answer a flow.
    #[allow(clippy::too_many_arguments)]
    fn reply(
        &self,
        p: &Program,
        a: &Arrived,
        b: &Begins,
        f: &Flow,
        fields: &Fields,
        leave: Option<BTreeSet<u16>>,
        out: &mut Answers,
    ) {
        // the flow as it left
        let left = [0, 1, 2, 3].map(|i| match b.expect.kept[i] {
            true => f.sets[i].clone(),
            false => b.expect.sets[i].clone(),
        });
        // a reply's field is the other side's
        let other: &[(usize, usize)] = match self.kind {
            BindKind::Flow => &[(0, 1), (1, 0), (2, 3), (3, 2)],
            BindKind::Ping => &[(0, 1), (1, 0), (2, 2)],
            BindKind::Addresses => &[(1, 0)],
        };
        let mut r = a.clone();
        for (i, o) in other {
            if !narrow(p, &mut r, fields[*i], &left[*o]) {
                let now = match fields[*i] {
                    Some(e) => value(p, &r, e, BITS[*i]),
                    None => ValueSet::full(BITS[*i]),
                };
                out.why_not.push(format!(
                    "the {} of a reply is {}, what comes has {}",
                    FIELDS[*i],
                    show(&left[*o], BITS[*i]),
                    show(&now, BITS[*i]),
                ));
                return;
            }
        }
        if !narrow(p, &mut r, fields[4], &f.proto) {
            out.why_not.push("no flow of that protocol begins".into());
            return;
        }
        if self.kind == BindKind::Ping && !narrow(p, &mut r, fields[5], &ValueSet::one(ECHO_REPLY))
        {
            out.why_not
                .push("only echo replies answer echo requests".into());
            return;
        }
        let here = |r: &Arrived, i: usize| match fields[i] {
            Some(e) => value(p, r, e, BITS[i]),
            None => ValueSet::full(BITS[i]),
        };
        match self.kind {
            BindKind::Flow | BindKind::Ping => {
                for (i, o) in other {
                    let s = match b.expect.kept[*o] {
                        true => here(&r, *i).intersect(&f.sets[*o]),
                        false => f.sets[*o].clone(),
                    };
                    self.fill(p, &mut r, *i as u16, &s);
                }
                if self.kind == BindKind::Ping {
                    self.fill(p, &mut r, 3, &ValueSet::full(16));
                }
            }
            BindKind::Addresses => {
                let source = here(&r, 0).union(&f.sets[1]);
                self.fill(p, &mut r, 0, &source);
                let destination = match b.expect.kept[0] {
                    true => here(&r, 1),
                    false => f.sets[0].clone(),
                };
                self.fill(p, &mut r, 1, &destination);
                for i in 2..4 {
                    self.fill(p, &mut r, i, &ValueSet::full(16));
                }
            }
        }
        self.sums(p, &mut r);
        out.bound.push(Answer {
            packets: r,
            outputs: leave,
        });
    }

    /// Packets of a flow that began at another input.
    fn elsewhere(
        &self,
        p: &Program,
        a: &Arrived,
        b: &Begins,
        f: &Flow,
        fields: &Fields,
        out: &mut Answers,
    ) {
        let mut r = a.clone();
        let keys: &[usize] = match self.kind {
            BindKind::Flow => &[0, 1, 2, 3],
            BindKind::Ping => &[0, 1, 2],
            BindKind::Addresses => &[0],
        };
        for i in keys {
            if !narrow(p, &mut r, fields[*i], &f.sets[*i]) {
                out.why_not.push(format!(
                    "flows that begin at another input have another {}",
                    FIELDS[*i]
                ));
                return;
            }
        }
        if !narrow(p, &mut r, fields[4], &f.proto)
            || self.kind == BindKind::Ping && !narrow(p, &mut r, fields[5], &ValueSet::one(ECHO))
        {
            return;
        }
        for i in 0..4 {
            let now = match fields[i] {
                Some(e) => value(p, &r, e, BITS[i]),
                None => ValueSet::full(BITS[i]),
            };
            let s = match b.expect.kept[i] {
                true => now,
                false => b.expect.sets[i].clone(),
            };
            self.fill(p, &mut r, i as u16, &s);
        }
        self.sums(p, &mut r);
        out.bound.push(Answer {
            packets: r,
            outputs: Some(BTreeSet::from([b.expect.output])),
        });
    }
}

/// A set of addresses or ports, in short.
pub fn show(set: &ValueSet, bits: u8) -> String {
    if set.is_full(bits) {
        return "any".into();
    }
    let one = |v: u128| match bits {
        32 => std::net::Ipv4Addr::from((v & max_of(32)) as u32).to_string(),
        _ => v.to_string(),
    };
    let mut parts: Vec<String> = (set.intervals().iter().take(4))
        .map(|(l, h)| match l == h {
            true => one(*l),
            false => format!("{}-{}", one(*l), one(*h)),
        })
        .collect();
    match set.intervals().len() {
        0 => "none".into(),
        1..=4 => parts.join(", "),
        n => {
            parts.push(format!("and {} more", n - 4));
            parts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: (u128, u128), port: (u128, u128), proto: u128) -> Flow {
        let mut f = Flow::any();
        f.sets[0] = ValueSet::range(source.0, source.1);
        f.sets[3] = ValueSet::range(port.0, port.1);
        f.proto = ValueSet::one(proto);
        f
    }

    #[test]
    fn kinds_of_flows_are_joined_where_nothing_is_lost() {
        let a = flow((1, 9), (53, 53), 17);
        let both = a.joined(&flow((20, 29), (53, 53), 17)).unwrap();
        assert_eq!(both.sets[0].intervals(), [(1, 9), (20, 29)]);
        assert_eq!(a.joined(&a), Some(a.clone()));
        // as one they would have more than both have
        assert_eq!(a.joined(&flow((20, 29), (80, 80), 17)), None);
        assert_eq!(a.joined(&flow((1, 9), (80, 80), 6)), None);
    }
}
