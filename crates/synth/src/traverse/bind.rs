//! A rewriter's binding: what is asked, into which slots, and where every outcome goes on.

use super::flows::{Asked, KEY, MESSAGES, Other, is_expected};
use super::groups::Traversal;
use super::known::Known;
use super::{Group, Key};
use crate::cond;
use crate::program::{
    Dim, End, Expect, Expr, Mark, Next, Slot, SlotInfo, Step, SumKind, SumTerm, Why,
};
use crate::state::{Need, PathSlot, State};
use onefold_element::ElemId;
use onefold_element::model::{
    AnnoKey, Bind, BindKind, Case, Cond, DstAnno, Rewritten, ValueSet, field,
};
use onefold_packet::anno_field;

/// What becomes of fields of packets with other bindings that leave at an output, whatever binding it is. Told from the
/// kinds of flows alone, so that it is the same however many flows are known to begin.
fn together(b: &Bind, port: u16, output: usize) -> [Rewritten; 4] {
    let any = [0, 1, 2, 3].map(|i| ValueSet::full(KEY[i].1));
    let mut all: Option<[Rewritten; 4]> = None;
    let sides = b
        .flows
        .iter()
        .flat_map(|k| k.sides(b.kind, b.source_only, &any));
    for s in sides.filter(|s| usize::from(s.output) == output && !is_expected(s, port, b)) {
        let one = [0, 1, 2, 3].map(|i| match s.kept[i] {
            true => Rewritten::Kept,
            false => Rewritten::To(s.to[i].clone()),
        });
        all = Some(match all {
            None => one,
            Some(a) => [0, 1, 2, 3].map(|i| match (&a[i], &one[i]) {
                (Rewritten::Kept, Rewritten::Kept) => Rewritten::Kept,
                (Rewritten::To(a), Rewritten::To(b)) => Rewritten::To(a.union(b)),
                _ => Rewritten::To(any[i].clone()),
            }),
        });
    }
    all.unwrap_or_else(|| any.map(Rewritten::To))
}

/// What is known of packets with other bindings that leave at an output; `None` when there are none.
fn known_behind(
    others: &[Other],
    output: usize,
    asked: &Asked,
    fixed: &[Rewritten; 4],
    slots: &[Slot],
    infos: &[SlotInfo],
) -> Option<Known> {
    let mut known: Option<Known> = None;
    for o in others {
        if usize::from(o.side.output) != output {
            continue;
        }
        for f in &o.packets {
            let mut f = f.clone();
            for (i, slot) in slots.iter().enumerate().take(asked.fields.len()) {
                if fixed[i] == Rewritten::Kept {
                    continue;
                }
                let set = match o.side.kept[i] {
                    true => asked.field(i, &f),
                    false => o.side.to[i].clone(),
                };
                f.narrow(Dim::Slot(*slot), &set, KEY[i].1);
            }
            match &mut known {
                None => known = Some(Known::of(f)),
                Some(k) => {
                    k.add(f, infos);
                }
            }
        }
    }
    known
}

/// Widths of a binding's slots, in bits: addresses, ports, the differences of both checksums.
const WIDTHS: [u8; 6] = [32, 32, 16, 16, 16, 16];

/// A rewriter that is asked in a state of a path: what it looks at, and where its answer goes.
struct Binding<'a> {
    bind: &'a Bind,
    /// The state in which it is asked.
    state: &'a State,
    /// Where the network header begins.
    net: i32,
    /// Where the fields of [`KEY`] are, in bytes, and how wide they are, in bits.
    places: [(i32, u8); 4],
    /// Their values when it is asked: as many as this kind of binding has.
    now: Vec<Expr>,
    /// As many as [`WIDTHS`].
    slots: Vec<Slot>,
    /// The annotation that replies get, and its slot.
    anno: Option<(u8, Slot)>,
    /// The transport checksum, and where it is.
    sum: Option<(SumKind, i32)>,
}

impl Binding<'_> {
    /// The state in which the binding's values are in the slots; `fixed` says what they may be.
    fn bound(&self, fixed: &[Rewritten; 4], expected: bool) -> Result<State, Need> {
        let mut t = self.state.clone();
        for (i, w) in WIDTHS.iter().enumerate() {
            let set = match fixed.get(i) {
                Some(Rewritten::To(set)) => set.clone(),
                _ => ValueSet::full(*w),
            };
            t.slots.push(PathSlot {
                slot: self.slots[i],
                bits: *w,
                set,
                readable: false,
            });
        }
        let mut dst = self.now[1];
        for (i, fixed) in fixed.iter().enumerate().take(self.now.len()) {
            let value = match fixed {
                Rewritten::Kept => continue,
                Rewritten::To(set) => match set.single() {
                    Some(v) => Expr::Const(v),
                    None => Expr::Of(Dim::Slot(self.slots[i]), 0),
                },
            };
            if i == 1 {
                dst = value;
            }
            t.put(self.places[i].0 * 8, self.places[i].1, value)?;
        }
        let net = self.net;
        let ip4 = vec![SumTerm::Slot(self.slots[4])];
        t.add_sum(SumKind::Ip4, net, net + 10, ip4)?;
        if let Some((kind, at)) = self.sum {
            t.add_sum(kind, net, at, vec![SumTerm::Slot(self.slots[5])])?;
        }
        let follows = match self.bind.dst_anno {
            DstAnno::Kept => false,
            DstAnno::Rewritten => true,
            // what is not expected is a reply, or has it already
            DstAnno::OfReplies => !expected,
        };
        if follows {
            t.put_anno(anno_field::DST_IP.into(), dst)?;
        }
        // forward packets keep it
        if let (Some((offset, slot)), false) = (self.anno, expected) {
            t.slots.push(PathSlot {
                slot,
                bits: 8,
                set: ValueSet::full(8),
                readable: false,
            });
            let value = Expr::Of(Dim::Slot(slot), 0);
            t.put_anno(AnnoKey { offset, size: 1 }, value)?;
        }
        Ok(t)
    }

    /// The state of packets whose binding is the expected one, the output that they leave at, and what they become.
    fn expected(&self) -> Result<Option<(usize, State, [Rewritten; 4])>, Need> {
        let Some(e) = &self.bind.expected else {
            return Ok(None);
        };
        let fixed = [&e.saddr, &e.daddr, &e.sport, &e.dport].map(Clone::clone);
        Ok(Some((e.output, self.bound(&fixed, true)?, fixed)))
    }
}

/// What the bind step says of the expected binding.
fn expectation(output: usize, fixed: &[Rewritten; 4]) -> Expect {
    let set = |i: usize| match &fixed[i] {
        Rewritten::Kept => ValueSet::full(WIDTHS[i]),
        Rewritten::To(set) => set.clone(),
    };
    Expect {
        output: output as u16,
        kept: [0, 1, 2, 3].map(|i| matches!(fixed[i], Rewritten::Kept)),
        sets: [set(0), set(1), set(2), set(3)],
    }
}

impl Traversal<'_, '_> {
    fn slot(&mut self, elem: ElemId, port: u16, nth: u16, what: u8, bits: u8) -> Slot {
        let slots = &mut self.s.slots;
        *self
            .s
            .slot_index
            .entry((elem, port, nth, what))
            .or_insert_with(|| {
                slots.push(SlotInfo {
                    bits,
                    set: ValueSet::full(bits),
                });
                Slot(slots.len() as u16 - 1)
            })
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn bind(
        &mut self,
        elem: ElemId,
        port: u16,
        before: &State,
        s: State,
        mut group: Group,
        b: &Bind,
        case: &Case,
    ) {
        let Some(proto) = self.proto(&s, &group) else {
            return match b.kind {
                BindKind::Ping => {
                    group.path.pop();
                    self.punt(elem, port, before, group, "a ping of unknown protocol")
                }
                _ => self.by_protocol(elem, port, before, group, case),
            };
        };
        if let Err(n) = self.try_bind(elem, port, &s, &mut group, b, proto) {
            group.path.pop();
            self.help(n, elem, port, before, group);
        }
    }

    /// What is asked of the rewriter in this state, with slots for its answer.
    fn binding<'a>(
        &mut self,
        (elem, port): (ElemId, u16),
        state: &'a State,
        bind: &'a Bind,
        proto: u128,
    ) -> Result<Binding<'a>, Need> {
        if self.s.slots.len() + 7 > usize::from(u16::MAX) {
            return Err(Need::Punt("too many slots"));
        }
        let (net, transport) = (state.net_at()?, state.transport_at()?);
        if !matches!(state.net, Mark::At(_, 20)) {
            return Err(Need::Punt("a binding of another network protocol"));
        }
        let (src, dst) = ((net + 12, 32u8), (net + 16, 32));
        let places = match bind.kind {
            BindKind::Ping => [src, dst, (transport + 4, 16), (transport + 4, 0)],
            _ => [src, dst, (transport, 16), (transport + 2, 16)],
        };
        let now: Vec<Expr> = places
            .iter()
            .take(bind.kind.fields())
            .map(|(at, bits)| state.bits_now(at * 8, *bits))
            .collect::<Result<_, _>>()?;
        let nth = state.slots.len() as u16;
        let slots: Vec<Slot> = WIDTHS
            .iter()
            .enumerate()
            .map(|(i, w)| self.slot(elem, port, nth, i as u8, *w))
            .collect();
        let anno = bind
            .reply_anno
            .map(|at| (at, self.slot(elem, port, nth, 6, 8)));
        // six in a row, or an earlier path has made some of them: then they were made together
        debug_assert!(
            slots
                .iter()
                .enumerate()
                .all(|(i, s)| s.0 == slots[0].0 + i as u16)
        );
        let sum = match bind.kind {
            BindKind::Ping => Some((SumKind::Icmp, transport + 2)),
            _ => state.transport_sum(proto)?,
        };
        Ok(Binding {
            bind,
            state,
            net,
            places,
            now,
            slots,
            anno,
            sum,
        })
    }

    /// The packets that the rewriter is asked about.
    fn asked(&self, binding: &Binding<'_>, group: &Group, proto: u128) -> Asked {
        let s = binding.state;
        let kinds = |v: u128| {
            let is = Cond::eq(field::ICMP_TYPE, v);
            cond::terms(&is, s, self.hint(group), self.s.budget.terms).ok()
        };
        let messages = match (binding.bind.kind, MESSAGES.map(kinds)) {
            (BindKind::Ping, [Some(requests), Some(replies)]) => Some([requests, replies]),
            _ => None,
        };
        Asked {
            state: s.clone(),
            fields: binding.now.clone(),
            messages,
            proto,
            known: self.known(group, s),
        }
    }

    /// Where packets go on that leave at an output in this state.
    fn bound_to(
        &mut self,
        (elem, output): (ElemId, usize),
        path: &[ElemId],
        state: &State,
        known: &Known,
        write: bool,
    ) -> Next {
        let Some((e, p)) = self.s.successor(elem, output) else {
            return Next::Unconnected(elem);
        };
        let key = Key {
            elem: e,
            port: p,
            fresh: false,
            state: state.clone().at_stage(),
            write,
        };
        let from = Some((self.me, path));
        Next::Stage(self.s.stage(from, key, Why::Bound, known))
    }

    fn try_bind(
        &mut self,
        elem: ElemId,
        port: u16,
        s: &State,
        group: &mut Group,
        b: &Bind,
        proto: u128,
    ) -> Result<(), Need> {
        let binding = self.binding((elem, port), s, b, proto)?;
        let expected = binding.expected()?;
        let asked = self.asked(&binding, group, proto);
        if b.expected.is_some() {
            self.s.begin(elem, port, b, &asked);
        }
        let others = self.s.ask(self.me, elem, port, b, &asked);
        let info = self.s.input.elements.get(elem.0 as usize);
        let n = info.map_or(0, |e| e.outputs.len());
        let mut behind: Vec<Option<(State, Known)>> = Vec::with_capacity(n);
        for q in 0..n {
            let fixed = together(b, port, q);
            let slots = &binding.slots;
            let known = known_behind(&others, q, &asked, &fixed, slots, &self.s.slots);
            behind.push(match known {
                Some(k) => Some((binding.bound(&fixed, false)?, k)),
                None => None,
            });
        }
        // Unexpected outcomes of a binding that has an expected one are written out, and so are packets that leave
        // where forward packets of other inputs do: the stages behind are then the same whatever happened before, and
        // their number grows with the square of the chain's length, not exponentially.
        let some_expected = expected.is_some();
        let write = |q| some_expected || b.flows.iter().any(|k| k.forward.output == q);
        let mut bound = Vec::with_capacity(n);
        for (q, outcome) in behind.iter().enumerate() {
            bound.push(match outcome {
                Some((state, known)) => {
                    self.bound_to((elem, q), &group.path, state, known, write(q))
                }
                None => Next::Never,
            });
        }
        // only an input that lets packets through has somewhere to pass them to
        let mut pass = Vec::new();
        if let Some(o) = b.pass {
            pass.resize(n, Next::Unconnected(elem));
            if let Some(to) = pass.get_mut(o) {
                *to = self.bound_to((elem, o), &group.path, s, &asked.known, write(o));
            }
        }
        let step = Step::Bind {
            elem,
            port,
            kind: b.kind,
            image: s.image(true),
            first: binding.slots[0],
            anno: binding.anno,
            expect: (expected.as_ref()).map(|(output, _, fixed)| expectation(*output, fixed)),
            bound,
            sides: Some(others.into_iter().map(|o| o.side).collect()),
            pass,
        };
        let group = std::mem::take(group);
        match expected {
            Some((output, mut state, _)) => {
                state.steps.push(step);
                self.go(elem, output, state, group, "unconnected output");
            }
            None => {
                let mut steps = s.steps.clone();
                steps.push(step);
                self.leave(group, steps, End::Unreachable);
            }
        }
        Ok(())
    }
}
