//! Execution: a packet goes from stage to stage until it leaves, is dropped, or the reference graph takes over.

use crate::graph::core::Core;
use crate::graph::limits;
use crate::graph::reference::Graph;
use crate::graph::topology::Edge;
use crate::program::code::{Action, Code, End, Next, Span, Step};
use crate::program::exec::bind_view::{as_expected, bind_packet};
use crate::program::exec::rule_counting::{self, count};
use crate::program::exec::state::{Job, PacketState, State};
use crate::program::lookup;
use crate::program::lookup::tree::NO_RULE;
use crate::program::path::PathEnd;
use crate::program::rewrite::image;
use crate::program::rewrite::image::LateAnno;
use onefold_element::model::{BindPacket, Binding, Bound};
use onefold_element::{ElemId, Outbox, StateStore};
use onefold_packet::{Packet, Pkt};
use std::cell::Cell;

/// Stages that one packet may pass; then the reference graph takes over as soon as a new epoch begins.
const MAX_STAGES: u32 = 2_000;

/// Cause of handing over packets of classes that have fallen back.
const FALLEN: &str = "fell back: program and reference graph differed";

/// Drop reason of Click's elements for an output that is not connected.
pub(crate) const UNCONNECTED: &str = "unconnected output";
/// Drop reason of packets that no rule of a stage takes; a program that was made by synthesis has none.
pub(crate) const NOTHING_FITS: &str = "engine: no rule of the program fits";
/// Drop reason of packets that came to an end which is said to be unreachable.
pub(crate) const UNREACHABLE: &str = "engine: an unreachable end was reached";

/// The rule of its first stage that takes a packet, if one does.
pub(crate) fn first_rule(code: &Code, st: &mut State, stage: u32, p: &Pkt) -> Option<u32> {
    let s = code.stages.get(stage as usize)?;
    st.regs.begin();
    let rule = lookup::first_rule(code.lookup_of(s), &mut st.regs, p);
    (rule != NO_RULE).then_some(rule)
}

/// Sends a packet that arrives at a source all its way. `rule`: what [`first_rule`] has said, if it was asked.
pub(crate) fn run(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    stage: u32,
    p: Pkt,
    rule: Option<u32>,
) {
    let changes = g.core.changes;
    let mut x = Exec::new(code, st, g, changes);
    x.packet(p, stage, true, PacketState::NEW, changes, rule);
    x.rest(changes);
}

impl<'a> Exec<'a> {
    pub(super) fn new(
        code: &'a Code,
        st: &'a mut State,
        g: &'a mut Graph,
        changes: u64,
    ) -> Exec<'a> {
        (st.regs.tables).take(&code.tables, &g.store, changes, g.core.now);
        g.out.batched = false;
        Exec {
            code,
            st,
            core: &mut g.core,
            out: &mut g.out,
            store: &mut g.store,
        }
    }

    /// Whatever a packet was split into, and calls that followed from it.
    pub(super) fn rest(mut self, changes: u64) {
        let (code, x) = (self.code, &mut self);
        // Bound: the engine's steps; every stage costs one.
        while let Some(job) = x.st.stack.pop() {
            match job {
                Job::Stage(p, stage, fresh, packet_state) => {
                    let from = x.st.slots.len() - code.slots.min(x.st.slots.len());
                    for (to, v) in x.st.regs.v.iter_mut().zip(x.st.slots.drain(from..)) {
                        *to = v;
                    }
                    x.packet(p, stage, fresh, packet_state, changes, None);
                }
                Job::Unconnected(p, elem) => x.out.drop(ElemId(elem), UNCONNECTED, p),
                Job::Reference(p, to, hops) => x.hand_over(to, p, hops),
                Job::Call(from, call) => {
                    x.tell();
                    x.core.activity += 1;
                    // an error is the caller's to see, and nobody calls any more
                    x.st.regs.tables.release();
                    let _ = (x.core).write_call(ElemId(from), &call.0, &call.1, x.out, x.store);
                    x.take_tables();
                }
            }
        }
        if !x.st.regs.tables.batch {
            x.st.regs.tables.release();
        }
    }
}

/// What a binding leads to.
#[derive(Clone, Copy)]
enum BindOutcome {
    /// The action goes on.
    Expected,
    Next(Option<Next>),
    Drop(&'static str),
    Punt(&'static str),
}

/// What remains to be done with a packet after a step.
enum After {
    GoOn,
    Gone,
    Stage(u32),
}

pub(super) struct Exec<'a> {
    pub(super) code: &'a Code,
    pub(super) st: &'a mut State,
    pub(super) core: &'a mut Core,
    pub(super) out: &'a mut Outbox,
    pub(super) store: &'a mut StateStore,
}

impl<'a> Exec<'a> {
    /// Follows one packet to its end; what it is split into is put on the stack. `fresh`: an epoch begins.
    pub(super) fn packet(
        &mut self,
        p: Pkt,
        mut stage: u32,
        mut fresh: bool,
        mut packet_state: PacketState,
        changes: u64,
        mut known: Option<u32>,
    ) {
        let code: &'a Code = self.code;
        self.st.regs.begin();
        let mut packet = Some(p);
        // Bound: stages within an epoch make no circle, epochs are counted, and so are all steps.
        while let Some(mut p) = packet.take() {
            let Some(s) = code.stages.get(stage as usize) else {
                return self.out.drop(ElemId(0), UNREACHABLE, p);
            };
            self.core.steps += 1;
            packet_state.hops += 1;
            if self.core.steps > limits::MAX_STEPS {
                return self.out.drop(ElemId(s.at.node), limits::WORK, p);
            }
            if fresh && (packet_state.hops > MAX_STAGES || self.core.changes != changes) {
                let cause = match packet_state.hops > MAX_STAGES {
                    true => "too many stages",
                    false => "a handler has been written to",
                };
                self.st.counts.punt(s.at.node, cause);
                return self.hand_over(s.at, p, packet_state.hops);
            }
            let rule = match known.take() {
                Some(r) => r,
                None => lookup::first_rule(code.lookup_of(s), &mut self.st.regs, &p),
            };
            if let Some(r) = &mut self.st.recorder {
                r.stage(stage, (rule != NO_RULE).then_some(rule));
            }
            let at = s.rules as usize + rule as usize;
            let action = match rule {
                NO_RULE => None,
                _ => (code.rule_action.get(at)).and_then(|a| code.actions.get(*a as usize)),
            };
            let Some(action) = action else {
                if fresh {
                    self.st.counts.punt(s.at.node, "no rule fits");
                    return self.hand_over(s.at, p, packet_state.hops);
                }
                return self.out.drop(ElemId(s.at.node), NOTHING_FITS, p);
            };
            if let Some(w) = &mut self.st.watched {
                let number = code.rule_action.get(at).copied().unwrap_or(s.actions);
                if w.sees(stage, s.actions, number, fresh) {
                    self.st.counts.punt(s.at.node, FALLEN);
                    return self.hand_over(s.at, p, packet_state.hops);
                }
            }
            if let Some(ledger) = &mut self.core.rules {
                count(ledger, action, at, &p);
            }
            if let Some(t) = &mut self.st.path {
                t.rule(at, fresh);
            }
            for r in action.needs.of(&code.lists) {
                self.st.regs.ensure(*r, &code.sources, &p);
            }
            match self.steps((at, action), &mut packet, p, &mut packet_state) {
                After::GoOn => {}
                After::Gone => return,
                After::Stage(next) => {
                    (stage, fresh) = (next, false);
                    continue;
                }
            }
            let Some(q) = packet.take() else { return };
            p = q;
            match action.end {
                End::Goto(next) => {
                    (stage, fresh) = (next, false);
                    packet = Some(p);
                }
                End::Write { image, next } => {
                    packet = self.epoch_ends(p, action.end, image, &mut packet_state);
                    self.st.regs.begin();
                    (stage, fresh) = (next, true);
                }
                End::Ask {
                    to,
                    image,
                    outputs,
                    site,
                } => {
                    let Some(p) = self.epoch_ends(p, action.end, image, &mut packet_state) else {
                        return;
                    };
                    self.st.counts.site(site);
                    if let Some((q, next)) = self.ask(p, to, outputs, packet_state) {
                        known = self.comes_to(next, (at, packet_state.hops), &q);
                        (stage, fresh) = (next, true);
                        packet = Some(q);
                    }
                }
                _ => return self.end(action, p, &packet_state),
            }
        }
    }

    /// A packet is written out at the end of an epoch. Given back if it goes on at once.
    #[inline(always)]
    fn epoch_ends(
        &mut self,
        mut p: Pkt,
        end: End,
        image: u32,
        packet_state: &mut PacketState,
    ) -> Option<Pkt> {
        self.apply(image, &mut p, packet_state);
        let p = self.stops(p, end, *packet_state)?;
        packet_state.next_epoch();
        Some(p)
    }

    /// Ends after which this packet is gone from here.
    fn end(&mut self, action: &Action, mut p: Pkt, packet_state: &PacketState) {
        match action.end {
            End::Output { sink, image } => {
                if let Some(t) = &mut self.st.path {
                    t.end = PathEnd::Output(sink, image);
                    t.values.clone_from(&self.st.regs.v);
                }
                self.apply(image, &mut p, packet_state);
                if !p.anno.timestamp.is_set() {
                    p.anno.timestamp = self.core.now;
                }
                if let Some(r) = &mut self.st.recorder {
                    r.left(p.len());
                }
                self.out.sent += 1;
                self.out.transmitted.push((ElemId(sink), p));
            }
            End::Drop { elem, reason } => {
                if let Some(t) = &mut self.st.path {
                    t.end = PathEnd::Drop(elem, reason);
                }
                self.out.drop(ElemId(elem), reason, p);
            }
            End::Punt { to, image, site } => {
                if let Some(t) = &mut self.st.path {
                    t.once = Some("the reference graph");
                }
                self.apply(image, &mut p, packet_state);
                self.st.counts.site(site);
                self.hand_over(to, p, packet_state.hops);
            }
            End::Fork(ways) => {
                if let Some(t) = &mut self.st.path {
                    t.once = Some("copies");
                }
                self.fork(p, ways, *packet_state);
            }
            _ => self.out.drop(ElemId(0), UNREACHABLE, p),
        }
    }

    #[inline]
    fn apply(&mut self, image: u32, p: &mut Pkt, packet_state: &PacketState) {
        if let Some(m) = self.code.images.get(image as usize) {
            m.apply(p, &self.st.regs.v, packet_state.late());
        }
    }

    /// Does an action's steps. The packet is put back when it goes on.
    #[inline]
    fn steps(
        &mut self,
        (rule, action): (usize, &Action),
        back: &mut Option<Pkt>,
        p: Pkt,
        packet_state: &mut PacketState,
    ) -> After {
        let code: &'a Code = self.code;
        let mut binds = 0;
        for step in action.steps.of(&code.steps) {
            match step {
                Step::Count {
                    elem,
                    tag,
                    len,
                    number,
                } => {
                    let bytes = image::length(*len, &p);
                    if !self.st.deferred.add(*number, bytes) {
                        self.account(*elem, *tag, bytes);
                    }
                    if let Some(r) = &mut self.st.recorder {
                        r.count(*elem, bytes);
                    }
                    if let Some(t) = &mut self.st.path {
                        t.counts.push((*elem, *tag, *len));
                    }
                }
                Step::Bind { .. } => {
                    let outcome = self.bind_step(step, &p, packet_state);
                    if let BindOutcome::Expected = outcome {
                        binds += 1;
                        continue;
                    }
                    if binds < action.behind {
                        self.left(rule, binds, &p);
                    }
                    return self.unexpected(step, outcome, back, p, packet_state);
                }
            }
        }
        *back = Some(p);
        After::GoOn
    }

    /// A packet leaves its action at a step: its binding is not the expected one.
    fn unexpected(
        &mut self,
        step: &Step,
        outcome: BindOutcome,
        back: &mut Option<Pkt>,
        mut p: Pkt,
        packet_state: &PacketState,
    ) -> After {
        match outcome {
            BindOutcome::Expected => {
                *back = Some(p);
                return After::GoOn;
            }
            BindOutcome::Next(Some(Next::Stage(s))) => {
                *back = Some(p);
                return After::Stage(s);
            }
            BindOutcome::Next(Some(Next::Unconnected(e))) => {
                if let Some(t) = &mut self.st.path {
                    t.end = PathEnd::Drop(e, UNCONNECTED);
                }
                self.out.drop(ElemId(e), UNCONNECTED, p);
            }
            BindOutcome::Next(None | Some(Next::Never)) => {
                self.out.drop(ElemId(step.elem()), UNCONNECTED, p);
            }
            BindOutcome::Drop(reason) => self.out.drop(ElemId(step.elem()), reason, p),
            BindOutcome::Punt(cause) => {
                if let Step::Bind { port, image, .. } = step {
                    self.apply(*image, &mut p, packet_state);
                    self.st.counts.punt(step.elem(), cause);
                    let to = Edge {
                        node: step.elem(),
                        port: u32::from(*port),
                    };
                    self.hand_over(to, p, packet_state.hops);
                }
            }
        }
        After::Gone
    }

    /// Lists of rules behind the action's binding of this number do not see the packet.
    #[cold]
    fn left(&mut self, rule: usize, bind: u16, p: &Packet) {
        if let Some(ledger) = &mut self.core.rules {
            rule_counting::left(ledger, rule, bind, p);
        }
        if let Some(t) = &mut self.st.path {
            t.left.push((rule as u32, bind));
        }
    }

    /// Elements are told what waits to be told: before anybody may ask.
    #[inline]
    pub(super) fn tell(&mut self) {
        (self.st.deferred).tell(self.code, self.core, self.out, self.store);
    }

    /// The reference graph goes on.
    #[cold]
    fn hand_over(&mut self, to: Edge, p: Pkt, hops: u32) {
        self.tell();
        self.st.regs.tables.elements_write();
        self.core.push(to, p, hops, self.out, self.store);
        self.take_tables();
    }

    /// Holds on to the tables that are asked, as they are now.
    fn take_tables(&mut self) {
        let (changes, now) = (self.core.changes, self.core.now);
        (self.st.regs.tables).take(&self.code.tables, self.store, changes, now);
    }

    #[inline(never)]
    fn account(&mut self, elem: u32, tag: u16, bytes: u64) {
        self.tell();
        let mark = self.out.effects.len();
        (self.core).with(elem, self.out, self.store, |e, cx| {
            e.account(tag, 1, bytes, cx);
        });
        self.core.settle(elem, mark, self.out, self.store);
    }

    /// Asks a rewriter. Slots are filled when there is a binding.
    fn bind_step(&mut self, step: &Step, p: &Pkt, packet_state: &mut PacketState) -> BindOutcome {
        let Step::Bind {
            elem,
            port,
            kind,
            image,
            first,
            anno,
            expect,
            bound,
            sides,
            pass,
        } = step
        else {
            return BindOutcome::Expected;
        };
        let code = self.code;
        let Some(m) = code.images.get(*image as usize) else {
            return BindOutcome::Drop(UNREACHABLE);
        };
        let mut bp = BindPacket::default();
        if bind_packet(m, *kind, p, &self.st.regs.v, &mut bp).is_none() {
            return BindOutcome::Punt("no transport header");
        }
        let mark = self.out.effects.len();
        // where a binding leads, decided before anything happens
        let way = Cell::new(None);
        let may = |b: &Binding| {
            let outcome = match expect {
                Some(e) if as_expected(e, *port, *kind, b, &bp) => BindOutcome::Expected,
                _ => match sides {
                    Some(all) if !all.iter().any(|s| s.fits(*kind, b, &bp)) => {
                        BindOutcome::Next(Some(Next::Never))
                    }
                    _ => {
                        BindOutcome::Next(bound.of(&code.nexts).get(usize::from(b.output)).copied())
                    }
                },
            };
            way.set(Some(outcome));
            !matches!(outcome, BindOutcome::Next(Some(Next::Never)))
        };
        let answer = self.core.with(*elem, self.out, self.store, |e, cx| {
            e.bind(usize::from(*port), &bp, &may, cx)
        });
        self.core.settle(*elem, mark, self.out, self.store);
        // looked at where it is: what was written in parts is not copied as a whole
        let b = match &answer {
            None => return BindOutcome::Punt("the element is at work"),
            Some(Bound::Punt(cause)) => return BindOutcome::Punt(cause),
            Some(Bound::Drop(reason)) => return BindOutcome::Drop(reason),
            Some(Bound::Pass(to)) => {
                if let Some(t) = &mut self.st.path {
                    t.once = Some("a binding that is not there");
                }
                return BindOutcome::Next(pass.of(&code.nexts).get(*to).copied());
            }
            Some(Bound::To(b)) => b,
        };
        let slots = [
            u128::from(b.saddr),
            u128::from(b.daddr),
            u128::from(b.sport),
            u128::from(b.dport),
            u128::from(b.ip_sum),
            u128::from(b.transport_sum),
        ];
        let from = usize::from(*first);
        if let Some(to) = self.st.regs.v.get_mut(from..from + slots.len()) {
            to.copy_from_slice(&slots);
        }
        if let Some((at, slot)) = *anno {
            // forward packets keep what they have
            let kept = bp.anno.get(usize::from(at)).copied().unwrap_or_default();
            let value = b.anno.filter(|a| a.0 == at).map_or(kept, |a| a.1);
            if let Some(to) = self.st.regs.v.get_mut(usize::from(slot)) {
                *to = value.into();
            }
        } else if let Some((at, value)) = b.anno {
            packet_state.add(LateAnno {
                at,
                value,
                cleared: m.cleared,
            });
        }
        if let Some(r) = &mut self.st.recorder {
            r.bound(*elem, b);
        }
        if self.st.path.is_some() {
            let lasting = self
                .core
                .with(*elem, self.out, self.store, |e, cx| e.lasting(&bp, cx));
            if let Some(t) = &mut self.st.path {
                t.flow(lasting.flatten());
            }
        }
        way.get().unwrap_or(BindOutcome::Next(None))
    }

    /// A copy for every way but one; copies and packet are equal, so the first way gets the packet itself.
    fn fork(&mut self, p: Pkt, ways: Span, packet_state: PacketState) {
        let code: &'a Code = self.code;
        let job = |p: Pkt, n: &Next| match *n {
            Next::Stage(s) => Job::Stage(p, s, false, packet_state),
            Next::Unconnected(e) => Job::Unconnected(p, e),
            // no copy leads nowhere
            Next::Never => Job::Unconnected(p, 0),
        };
        let Some((first, others)) = ways.of(&code.nexts).split_first() else {
            return self.out.drop(ElemId(0), UNREACHABLE, p);
        };
        for n in others.iter().rev() {
            self.out.created += 1;
            self.st.put_off(code, job(p.clone(), n));
        }
        self.st.put_off(code, job(p, first));
    }
}
