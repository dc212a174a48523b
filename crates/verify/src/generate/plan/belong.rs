//! How packets belong to flows that began before: as answers, or as packets like the flow's own at another input.

use super::super::paths::{Passed, narrow};
use super::{FRESH, Planner};
use crate::cubes::{tightened, values, width};
use crate::reach::bind::{BITS, Begins};
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{BindKind, ValueSet, max_of};
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, Expr, Filter, Slot};

/// Ways to answer a path's rewriters with flows that are tried.
pub(super) const CHOICES: usize = 6;

/// A flow that has begun.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub port: u16,
    /// Addresses and ports before and after.
    pub old: [u128; 4],
    pub new: [u128; 4],
    pub proto: u128,
    pub at: Timestamp,
}

/// How a packet belongs to a flow that began before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It answers the flow.
    Reply,
    /// It is like the flow's own packets, but comes to another input.
    Elsewhere,
}

/// Values by number: of a binding's fields, or of its slots.
type Values = [Option<(usize, u128)>; 6];

impl Flow {
    /// What a packet of this flow is like, and what becomes of it.
    fn packet(&self, kind: BindKind, role: Role) -> (Values, Values) {
        let (old, new) = (self.old, self.new);
        let mut is: Values = [None; 6];
        let mut becomes: Values = [None; 6];
        let mut say = |i: usize, v: u128, to: u128| {
            is[i] = Some((i, v));
            becomes[i] = Some((i, to));
        };
        match (role, kind) {
            (Role::Reply, BindKind::Flow) => {
                for (i, o) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                    say(i, new[o], old[o]);
                }
            }
            (Role::Reply, BindKind::Ping) => {
                for (i, o) in [(0, 1), (1, 0), (2, 2)] {
                    say(i, new[o], old[o]);
                }
            }
            (Role::Reply, BindKind::Addresses) => say(1, new[0], old[0]),
            (Role::Elsewhere, BindKind::Addresses) => {
                is[0] = Some((0, old[0]));
                for (i, v) in new.iter().enumerate() {
                    becomes[i] = Some((i, *v));
                }
            }
            (Role::Elsewhere, _) => {
                for i in 0..4 {
                    say(i, old[i], new[i]);
                }
            }
        }
        if kind != BindKind::Addresses || role == Role::Elsewhere {
            is[4] = Some((4, self.proto));
        }
        if kind == BindKind::Ping {
            is[5] = Some((5, if role == Role::Reply { 0 } else { 8 }));
        }
        (is, becomes)
    }
}

/// A flow that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Need {
    pub elem: ElemId,
    pub kind: BindKind,
    /// Inputs at which it may begin.
    pub ports: Vec<u16>,
    pub old: [ValueSet; 4],
    pub new: [ValueSet; 4],
    pub proto: ValueSet,
}

impl Planner {
    /// Do the first packets of the flow belong to another one that has begun, as answers or as packets of another
    /// input's?
    pub(super) fn is_taken(&self, n: &Need, now: Timestamp) -> bool {
        let key = [0, 1, 2, 3].map(|i| n.old[i].single());
        let [Some(s), Some(d), Some(sp), Some(dp)] = key else {
            return false;
        };
        let list = self.flows.get(&n.elem);
        n.kind == BindKind::Flow
            && list.is_some_and(|l| {
                l.iter().rev().any(|f| {
                    let same = f.old == [s, d, sp, dp] && !n.ports.contains(&f.port);
                    now.0 - f.at.0 <= FRESH.0
                        && (same || f.new == [d, s, dp, sp])
                        && n.proto.contains(f.proto)
                })
            })
    }

    /// What a packet must be like that belongs, in this role, to some kind of the flows that may begin at these inputs.
    pub(super) fn as_one_of(
        &self,
        b: &Passed,
        ports: &[u16],
        role: Role,
        c: Filter,
        rng: &mut Rng,
    ) -> Option<Filter> {
        let kinds: Vec<(&Begins, usize)> = (ports.iter())
            .filter_map(|port| self.begin.get(&(b.at.0, *port)))
            .flat_map(|x| (0..x.flows.len()).map(move |i| (x, i)))
            .collect();
        if kinds.is_empty() {
            return Some(c);
        }
        let start = rng.below(kinds.len());
        let turned = kinds.iter().cycle().skip(start).take(kinds.len());
        for (begins, i) in turned {
            if let Some(c) = self.of_kind(b, begins, *i, role, c.clone()) {
                return Some(c);
            }
        }
        None
    }

    /// The same, of one kind of flows.
    pub(super) fn of_kind(
        &self,
        b: &Passed,
        begins: &Begins,
        kind: usize,
        role: Role,
        mut c: Filter,
    ) -> Option<Filter> {
        let p = &self.program;
        let f = begins.flows.get(kind)?;
        if begins.kind != b.kind || !narrow(p, &mut c, b.fields[4], &f.proto) {
            return None;
        }
        let x = &begins.expect;
        let left = |i: usize| match x.kept[i] {
            true => &f.sets[i],
            false => &x.sets[i],
        };
        // a field of the answer is the other side's of the flow
        let pairs: &[(usize, usize)] = match (role, b.kind) {
            (Role::Elsewhere, BindKind::Addresses) => &[(0, 0)],
            (Role::Elsewhere, _) => &[(0, 0), (1, 1), (2, 2), (3, 3)],
            (Role::Reply, BindKind::Flow) => &[(0, 1), (1, 0), (2, 3), (3, 2)],
            (Role::Reply, BindKind::Ping) => &[(0, 1), (1, 0), (2, 2)],
            (Role::Reply, BindKind::Addresses) => &[(1, 0)],
        };
        for (i, o) in pairs {
            let (is, becomes) = match role {
                Role::Reply => (left(*o), &f.sets[*o]),
                Role::Elsewhere => (&f.sets[*o], left(*o)),
            };
            let d = Dim::Slot(Slot(b.first.0 + *i as u16));
            if !narrow(p, &mut c, b.fields[*i], is) || !c.narrow(d, becomes, width(p, d)) {
                return None;
            }
            // what stays is the same before and after
            if x.kept[*o] {
                let set = values(p, &c, d);
                if !narrow(p, &mut c, b.fields[*i], &set) {
                    return None;
                }
                let now = self.now(b, &c, *i);
                if !c.narrow(d, &now, width(p, d)) {
                    return None;
                }
            }
        }
        let message = if role == Role::Reply { 0 } else { 8 };
        if b.kind == BindKind::Ping && !narrow(p, &mut c, b.fields[5], &ValueSet::one(message)) {
            return None;
        }
        tightened(&c, None)
    }

    /// Inputs at which flows may begin whose packets, in this role, leave at an output.
    pub(super) fn inputs(&self, b: &Passed, output: u16, role: Role) -> Vec<u16> {
        let all = self.leave.iter().filter(|((e, _), _)| *e == b.at.0);
        let fits = all.filter(|((_, port), (forward, back))| match role {
            Role::Reply => back.is_empty() || back.contains(&output),
            Role::Elsewhere => *port != b.at.1 && forward.contains(&output),
        });
        fits.map(|((_, port), _)| *port).collect()
    }

    /// What is left of a cube with the bindings of flows that are known.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn other(
        &self,
        b: &Passed,
        c: &Filter,
        role: Role,
        ports: &[u16],
        now: Timestamp,
        rng: &mut Rng,
        out: &mut Vec<Filter>,
    ) {
        let p = &self.program;
        let Some(list) = self.flows.get(&b.at.0) else {
            return;
        };
        // what the packet and the binding may be, looked at before anything is copied
        let is = [0, 1, 2, 3, 4, 5].map(|i| self.now(b, c, i));
        let slots = [0, 1, 2, 3].map(|i| values(p, c, Dim::Slot(Slot(b.first.0 + i))));
        // those that have just begun may have been made for this; else any
        let start = match rng.one_in(2) {
            true => list.len(),
            false => rng.below(list.len() + 1),
        };
        let older = list.iter().take(start).rev();
        let mut found = 0;
        for f in older.chain(list.iter().skip(start).rev()) {
            if now.0 - f.at.0 > FRESH.0 || !ports.contains(&f.port) {
                continue;
            }
            let (keys, becomes) = f.packet(b.kind, role);
            let fits = (keys.iter().flatten()).all(|(i, v)| is[*i].contains(*v))
                && (becomes.iter().flatten()).all(|(i, v)| slots[*i].contains(*v));
            if !fits {
                continue;
            }
            let mut r = c.clone();
            let one = |v: u128| ValueSet::one(v);
            let narrowed = (keys.iter().flatten())
                .all(|(i, v)| narrow(p, &mut r, b.fields[*i], &one(*v)))
                && (becomes.iter().flatten()).all(|(i, v)| {
                    let d = Dim::Slot(Slot(b.first.0 + *i as u16));
                    r.narrow(d, &one(*v), width(p, d))
                });
            if narrowed && let Some(r) = tightened(&r, None) {
                out.push(r);
                found += 1;
            }
            if found >= CHOICES {
                break;
            }
        }
    }

    /// What a field of a binding's packet may be, in a cube.
    pub(super) fn now(&self, b: &Passed, c: &Filter, i: usize) -> ValueSet {
        let p = &self.program;
        match b.fields[i] {
            Some(Expr::Const(v)) => ValueSet::one(v),
            Some(Expr::Of(Dim::Slot(_), plus)) if plus != 0 => ValueSet::full(BITS[i.min(3)]),
            Some(Expr::Of(d, plus)) => {
                let w = width(p, d);
                values(p, c, d).shifted_back(plus.wrapping_neg() & max_of(w), w)
            }
            None => ValueSet::full(if i >= 4 { 8 } else { BITS[i] }),
        }
    }

    /// A flow to which a packet might belong in this role.
    pub(super) fn need(&self, b: &Passed, c: &Filter, role: Role, ports: Vec<u16>) -> Need {
        let p = &self.program;
        let now = |i: usize| self.now(b, c, i);
        let slot = |i: u16| {
            let d = Dim::Slot(Slot(b.first.0 + i));
            values(p, c, d)
        };
        let any = || ValueSet::full(16);
        let (old, new) = match b.kind {
            _ if role == Role::Elsewhere => {
                let n = if b.kind == BindKind::Addresses { 1 } else { 4 };
                let key = [0, 1, 2, 3].map(|i| match i < n {
                    true => now(i),
                    false => ValueSet::full(BITS[i]),
                });
                (key, [slot(0), slot(1), slot(2), slot(3)])
            }
            BindKind::Flow => (
                [slot(1), slot(0), slot(3), slot(2)],
                [now(1), now(0), now(3), now(2)],
            ),
            BindKind::Ping => (
                [slot(1), slot(0), slot(2), any()],
                [now(1), now(0), now(2), any()],
            ),
            BindKind::Addresses => (
                [slot(1), ValueSet::full(32), any(), any()],
                [now(1), ValueSet::full(32), any(), any()],
            ),
        };
        Need {
            elem: b.at.0,
            kind: b.kind,
            ports,
            old,
            new,
            proto: now(4),
        }
    }
}
