//! From a [`Program`] to [`Code`]: every number in it is checked, nothing that it says can make the executor panic.

mod cycles;
pub(crate) mod decisions;

use crate::graph::topology::{Edge, Topology};
use crate::program::code::{self, Code, MAX_POSITION, NONE, Span};
use crate::program::error::LoadError;
use crate::program::exec::lookahead::reach;
use crate::program::headers::registers::{self, Bits, Source};
use crate::program::lookup::Lookup;
use crate::program::lookup::rules::StageRules;
use crate::program::lookup::tree::{Builder, Condition};
use crate::program::lookup::using::Using;
use crate::program::reads;
use crate::program::rewrite::compiled::Quick;
use crate::program::rewrite::flow_tuple::Tuple;
use crate::program::rewrite::image;
use crate::program::rewrite::image::Kind;
use crate::program::rewrite::value::{CONST, FieldWrite, Sum, Term, Value};
use onefold_element::model::{RouteWhat, max_of};
use onefold_element::{ElemId, reason};
use onefold_synth::program::{
    Action, Address, Dim, End, EndAt, Expr, Image, LenAt, Next, Program, Slot, Stage, StageId,
    Step, SumTerm, SumWrite, TypeExpr,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Most registers (slots and different dimensions).
const MAX_REGS: usize = 60_000;
/// Most stages, and most rules, actions, steps in all.
const MAX_PARTS: usize = 1 << 24;
/// Most ways of a fork, outputs of a binding or an asked element.
const MAX_WAYS: usize = 1 << 16;

type R<T> = Result<T, LoadError>;

/// Checks and translates.
pub(crate) fn load(p: &Program, topo: &Topology, using: Using) -> R<Code> {
    let names = &topo.names;
    if p.elements.len() != names.len() {
        return Err(LoadError::Size {
            program: p.elements.len(),
            graph: names.len(),
        });
    }
    if let Some(i) = (0..names.len()).find(|i| names[*i] != p.elements[*i]) {
        return Err(LoadError::Name {
            index: i,
            program: p.elements[i].clone(),
            graph: names[i].clone(),
        });
    }
    let parts = |f: &dyn Fn(&Stage) -> usize| p.stages.iter().map(f).sum::<usize>();
    most("stages", p.stages.len(), MAX_PARTS)?;
    most("rules", parts(&|s| s.rules.len()), MAX_PARTS)?;
    most("actions", parts(&|s| s.actions.len()), MAX_PARTS)?;
    cycles::no_cycles(p)?;

    let mut l = Loader {
        p,
        topo,
        code: Code {
            slots: p.slots.len(),
            entries: vec![NONE; names.len()],
            ..Code::default()
        },
        regs: HashMap::new(),
        images: HashMap::new(),
        sites: HashMap::new(),
        counts: HashMap::new(),
        builder: Builder::default(),
        dims: Vec::new(),
        using,
    };
    most("slots", p.slots.len(), MAX_REGS)?;
    for (i, s) in p.slots.iter().enumerate() {
        l.width("slots", s.bits)?;
        l.dims.push(Dim::Slot(Slot(i as u16)));
        l.code.sources.push(Source::Slot);
    }
    for (i, s) in p.stages.iter().enumerate() {
        l.stage(i, s)?;
    }
    for (i, e) in p.entries.iter().enumerate() {
        let place = format!("entry {i}");
        let elem = l.elem(&place, e.source)?;
        let stage = l.stage_id(&place, e.stage)?;
        match &mut l.code.entries[elem as usize] {
            slot if *slot == NONE => *slot = stage,
            _ => return Err(LoadError::TwoEntries { place }),
        }
    }
    (l.code.reads, l.code.later) = reads::of(p, &l.regs);
    l.code.classifier = l.builder.finish();
    Ok(l.code)
}

fn most(what: &'static str, n: usize, most: usize) -> R<()> {
    match n <= most {
        true => Ok(()),
        false => Err(LoadError::TooMany { what, most }),
    }
}

/// How much the packets of a rule matter: those that leave the chain, or that are asked about again, more than others.
fn weight(s: &Stage, r: &onefold_synth::program::Rule) -> f32 {
    let end = s.actions.get(r.action.0 as usize).map(|a| &a.end);
    match end {
        Some(End::Drop { .. }) | None => 0.02,
        Some(End::Punt { .. }) => 0.01,
        Some(_) => 1.0,
    }
}

struct Loader<'a> {
    p: &'a Program,
    topo: &'a Topology,
    code: Code,
    regs: HashMap<Dim, u16>,
    images: HashMap<Arc<Image>, (u32, Vec<u16>)>,
    sites: HashMap<(u32, String, bool), u32>,
    counts: HashMap<(u32, u16), u32>,
    builder: Builder,
    /// By register.
    dims: Vec<Dim>,
    using: Using,
}

impl Loader<'_> {
    // numbers

    fn elem(&self, place: &str, e: ElemId) -> R<u32> {
        match (e.0 as usize) < self.topo.names.len() {
            true => Ok(e.0),
            false => Err(LoadError::NoElement {
                place: place.to_string(),
                index: e.0,
            }),
        }
    }

    /// An input; devices take packets at input 0 although they have none.
    fn input(&self, place: &str, e: ElemId, port: u16) -> R<Edge> {
        let node = self.elem(place, e)?;
        let n = self.topo.ports[node as usize].ninputs.max(1);
        match usize::from(port) < n {
            true => Ok(Edge {
                node,
                port: u32::from(port),
            }),
            false => Err(LoadError::NoInput {
                place: place.to_string(),
                element: self.topo.names[node as usize].clone(),
                port,
            }),
        }
    }

    fn stage_id(&self, place: &str, s: StageId) -> R<u32> {
        match (s.0 as usize) < self.p.stages.len() {
            true => Ok(s.0),
            false => Err(LoadError::NoStage {
                place: place.to_string(),
                index: s.0,
            }),
        }
    }

    fn slot(&self, place: &str, s: Slot) -> R<u16> {
        match usize::from(s.0) < self.code.slots {
            true => Ok(s.0),
            false => Err(LoadError::NoSlot {
                place: place.to_string(),
                index: u32::from(s.0),
            }),
        }
    }

    fn width(&self, place: &str, bits: u8) -> R<u8> {
        match (1..=128).contains(&bits) {
            true => Ok(bits),
            false => Err(LoadError::Width {
                place: place.to_string(),
                bits,
            }),
        }
    }

    /// A position in bytes.
    fn position(&self, place: &str, at: i32) -> R<i32> {
        match i64::from(at).abs() <= MAX_POSITION {
            true => Ok(at),
            false => Err(LoadError::Position {
                place: place.to_string(),
                at: i64::from(at),
            }),
        }
    }

    /// A field.
    fn field(&self, place: &str, bit: i32, bits: u8) -> R<()> {
        self.width(place, bits)?;
        self.position(place, bit / 8)?;
        Ok(())
    }

    fn end_at(&self, place: &str, e: EndAt) -> R<EndAt> {
        if let EndAt::Ip4(at) | EndAt::Ip6(at) = e {
            self.position(place, at)?;
        }
        Ok(e)
    }

    fn anno(&self, place: &str, offset: u8, size: u8) -> R<()> {
        let end = u16::from(offset) + u16::from(size);
        match (1..=16).contains(&size) && end <= 48 {
            true => Ok(()),
            false => Err(LoadError::Anno {
                place: place.to_string(),
                offset,
                size,
            }),
        }
    }

    // what is read

    /// Register and width of a dimension.
    fn reg(&mut self, place: &str, d: Dim) -> R<(u16, u8)> {
        if let Dim::Slot(s) = d {
            let r = self.slot(place, s)?;
            return Ok((r, self.p.slots[usize::from(r)].bits));
        }
        if let Some(r) = self.regs.get(&d) {
            return Ok((*r, d.width()));
        }
        let source = match d {
            Dim::Slot(_) => Source::Slot,
            Dim::Len => Source::Len,
            Dim::Bits { bit, bits } => {
                self.field(place, bit, bits)?;
                Source::Bits(Bits::new(bit, bits))
            }
            Dim::Check { check, at, end } => {
                self.position(place, at)?;
                Source::Check(check, at, self.end_at(place, end)?)
            }
            Dim::Anno(a) => {
                self.anno(place, a.offset, a.size)?;
                Source::Anno(a.offset, a.size)
            }
            Dim::PacketType => Source::PacketType,
            Dim::Route { table, of, what } => {
                let of = match of {
                    Address::Bits { bit, bits } => {
                        self.field(place, bit, bits)?;
                        registers::Address::Bits(Bits::new(bit, bits))
                    }
                    Address::Anno(a) => {
                        self.anno(place, a.offset, a.size)?;
                        registers::Address::Anno(a.offset, a.size)
                    }
                    Address::Is { value, .. } => registers::Address::Is(value),
                };
                Source::Route(self.table(place, table)?, of, what)
            }
        };
        most("registers", self.code.sources.len(), MAX_REGS)?;
        let r = self.code.sources.len() as u16;
        self.code.sources.push(source);
        self.dims.push(d);
        self.regs.insert(d, r);
        Ok((r, d.width()))
    }

    /// The number of a look-up element among those that are asked.
    fn table(&mut self, place: &str, elem: ElemId) -> R<u16> {
        let elem = self.elem(place, elem)?;
        let tables = &mut self.code.tables;
        let known = tables.iter().position(|t| *t == elem);
        let i = known.unwrap_or(tables.len());
        if i == tables.len() {
            tables.push(elem);
        }
        most("route tables", tables.len(), MAX_REGS)?;
        Ok(i as u16)
    }

    /// A value for a target of so many bits; the register that it reads goes to `needs`.
    fn value(&mut self, place: &str, e: Expr, bits: u8, needs: &mut Vec<u16>) -> R<Value> {
        Ok(match e {
            Expr::Const(v) => Value {
                reg: CONST,
                add: v & max_of(bits),
                mask: 0,
            },
            Expr::Of(d, add) => {
                let (reg, width) = self.reg(place, d)?;
                if usize::from(reg) >= self.code.slots && !needs.contains(&reg) {
                    needs.push(reg);
                }
                Value {
                    reg,
                    add,
                    mask: max_of(width) & max_of(bits),
                }
            }
        })
    }

    fn list(&mut self, mut regs: Vec<u16>) -> Span {
        regs.sort_unstable();
        regs.dedup();
        let from = self.code.lists.len() as u32;
        self.code.lists.extend(regs);
        Span {
            from,
            to: self.code.lists.len() as u32,
        }
    }

    // images

    /// Its number, and the registers that it reads.
    fn image(&mut self, place: &str, image: &Arc<Image>, needs: &mut Vec<u16>) -> R<u32> {
        if let Some((i, n)) = self.images.get(image) {
            needs.extend(n);
            return Ok(*i);
        }
        let mut own = Vec::new();
        let translated = self.translate(place, image, &mut own)?;
        let i = self.code.images.len() as u32;
        self.code.images.push(translated);
        needs.extend(&own);
        self.images.insert(image.clone(), (i, own));
        Ok(i)
    }

    fn translate(&mut self, place: &str, m: &Image, needs: &mut Vec<u16>) -> R<image::Image> {
        let mut writes = Vec::with_capacity(m.writes.len());
        for w in &m.writes {
            self.field(place, w.bit, w.bits)?;
            writes.push(FieldWrite {
                bit: w.bit,
                bits: w.bits,
                value: self.value(place, w.value, w.bits, needs)?,
            });
        }
        let mut sums = Vec::with_capacity(m.sums.len());
        for s in &m.sums {
            sums.push(self.sum(place, s, needs)?);
        }
        for mark in [m.net, m.mac] {
            if let Some(at) = mark.start() {
                self.position(place, at)?;
            }
        }
        let mut annos = Vec::with_capacity(m.annos.len());
        for (a, v) in &m.annos {
            self.anno(place, a.offset, a.size)?;
            annos.push(image::AnnoWrite {
                offset: a.offset,
                size: a.size,
                value: self.value(place, *v, a.size * 8, needs)?,
            });
        }
        let kind = match m.packet_type {
            TypeExpr::Same => Kind::Same,
            TypeExpr::Is(number) => match image::packet_type(number) {
                Some(t) => Kind::Is(t),
                None => {
                    let place = place.to_string();
                    return Err(LoadError::PacketType { place, number });
                }
            },
            TypeExpr::Destination(e, device) => {
                Kind::Destination(self.value(place, e, 48, needs)?, device)
            }
        };
        let start = self.position(place, m.start)?;
        Ok(image::Image {
            tuple: Tuple::of(m.net, &writes, &sums),
            quick: Quick::of(start, &writes, &sums),
            start,
            end: self.end_at(place, m.end)?,
            writes: writes.into(),
            sums: sums.into(),
            net: m.net,
            mac: m.mac,
            cleared: m.cleared,
            annos: annos.into(),
            kind,
        })
    }

    fn sum(&mut self, place: &str, s: &SumWrite, needs: &mut Vec<u16>) -> R<Sum> {
        self.position(place, s.header)?;
        self.position(place, s.at)?;
        let mut groups = Vec::with_capacity(s.groups.len());
        for g in s.groups.iter().filter(|_| !s.anew) {
            let mut terms = Vec::with_capacity(g.len());
            for t in g {
                terms.push(match *t {
                    SumTerm::Slot(slot) => Term::Slot(self.slot(place, slot)?),
                    SumTerm::Change {
                        bit,
                        bits,
                        from,
                        to,
                    } => {
                        self.field(place, bit, bits)?;
                        let from = self.value(place, from, bits, needs)?;
                        let to = self.value(place, to, bits, needs)?;
                        Term::change(bit, bits, s.header, from, to)
                    }
                });
            }
            groups.push(terms.into());
        }
        Ok(Sum {
            kind: s.kind,
            header: s.header,
            at: s.at,
            anew: s.anew,
            groups: groups.into(),
        })
    }

    // stages

    fn stage(&mut self, i: usize, s: &Stage) -> R<()> {
        let place = format!("stage {i}");
        let at = self.input(&place, ElemId(s.at.0.0), s.at.1)?;
        let mut needs = Vec::new();
        let mut rules = Vec::with_capacity(s.rules.len());
        let (first_rule, first_action) = (self.code.rule_action.len(), self.code.actions.len());
        for (k, r) in s.rules.iter().enumerate() {
            let place = format!("stage {i}, rule {k}");
            if r.action.0 as usize >= s.actions.len() {
                let index = r.action.0;
                return Err(LoadError::NoAction { place, index });
            }
            self.code.rule_action.push(first_action as u32 + r.action.0);
            let mut conditions = Vec::with_capacity(r.filter.0.len());
            let mut asks = Vec::new();
            for (d, set) in &r.filter.0 {
                let (reg, bits) = self.reg(&place, *d)?;
                let neighbor = matches!(d, Dim::Route { what, .. } if *what == RouteWhat::Known);
                if neighbor && !set.contains(0) {
                    asks.push(reg);
                }
                let lazy = neighbor || matches!(d, Dim::Check { .. });
                if !lazy && usize::from(reg) >= self.code.slots {
                    needs.push(reg);
                }
                conditions.push(Condition {
                    reg,
                    bits,
                    set: set.clone(),
                    lazy,
                });
            }
            rules.push(conditions);
            if !asks.is_empty() {
                let rule = self.code.rule_action.len() as u32 - 1;
                self.code.asks.insert(rule, asks.into());
            }
        }
        let index = self.builder.stage(&rules);
        let weights = s.rules.iter().map(|r| weight(s, r)).collect();
        let made = StageRules::new(&rules, weights, &self.code.sources);
        let reach = reach(&rules, &self.code.sources);
        drop(rules);
        let dims: Vec<Dim> = (made.fields.iter())
            .map(|f| self.dims[usize::from(f.reg)])
            .collect();
        let lookup = Lookup::new(i, made, dims, self.using);
        for (k, a) in s.actions.iter().enumerate() {
            let place = format!("stage {i}, action {k}");
            let a = self.action(&place, a)?;
            self.code.actions.push(a);
        }
        let needs = self.list(needs);
        self.code.stages.push(code::Stage {
            at,
            needs,
            index,
            lookup: Arc::new(lookup),
            reach,
            rules: first_rule as u32,
            actions: first_action as u32,
        });
        Ok(())
    }

    fn action(&mut self, place: &str, a: &Action) -> R<code::Action> {
        let mut needs = Vec::new();
        let mut steps = Vec::with_capacity(a.steps.len());
        for s in &a.steps {
            steps.push(self.step(place, s, &mut needs)?);
        }
        let end = self.end(place, &a.end, &mut needs)?;
        let binds = self.prefetched(&steps);
        let from = self.code.steps.len() as u32;
        self.code.steps.extend(steps);
        most("steps", self.code.steps.len(), MAX_PARTS)?;
        Ok(code::Action {
            cut: code::Cut::No,
            behind: 0,
            needs: self.list(needs),
            steps: Span {
                from,
                to: self.code.steps.len() as u32,
            },
            binds,
            end,
        })
    }

    /// The bindings that can be foreseen before anything has been done: those of the first rewriter that is asked, if
    /// it looks at the packet as it came, and of all behind it.
    fn prefetched(&mut self, steps: &[code::Step]) -> Span {
        let from = self.code.binds.len() as u32;
        for s in steps {
            let code::Step::Bind {
                elem, port, image, ..
            } = s
            else {
                continue;
            };
            let t = self.code.images.get(*image as usize);
            let first = self.code.binds.len() as u32 == from;
            let plain = t.and_then(|m| m.tuple.as_ref());
            if plain.is_none_or(|t| first && !t.as_it_came()) {
                break;
            }
            self.code.binds.push((*elem, *port, *image));
        }
        Span {
            from,
            to: self.code.binds.len() as u32,
        }
    }

    fn step(&mut self, place: &str, s: &Step, needs: &mut Vec<u16>) -> R<code::Step> {
        Ok(match s {
            Step::Count { elem, tag, len } => {
                let elem = self.elem(place, *elem)?;
                code::Step::Count {
                    elem,
                    tag: *tag,
                    len: LenAt {
                        start: self.position(place, len.start)?,
                        end: self.end_at(place, len.end)?,
                    },
                    number: self.count(elem, *tag),
                }
            }
            Step::Bind {
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
            } => {
                let edge = self.input(place, *elem, *port)?;
                most(
                    "kinds of bindings",
                    sides.as_ref().map_or(0, Vec::len),
                    MAX_WAYS,
                )?;
                self.slot(place, *first)?;
                self.slot(place, Slot(first.0.saturating_add(5)))?;
                if let Some((_, s)) = anno {
                    self.slot(place, *s)?;
                }
                code::Step::Bind {
                    elem: edge.node,
                    port: *port,
                    kind: *kind,
                    image: self.image(place, image, needs)?,
                    first: first.0,
                    anno: anno.map(|(at, s)| (at, s.0)),
                    expect: expect.as_ref().map(|e| Box::new(code::Expect::of(e))),
                    bound: self.nexts(place, bound)?,
                    sides: sides.as_ref().map(|l| l.clone().into_boxed_slice()),
                    pass: self.nexts(place, pass)?,
                }
            }
        })
    }

    fn nexts(&mut self, place: &str, list: &[Next]) -> R<Span> {
        most("ways", list.len(), MAX_WAYS)?;
        most("ways in all", self.code.nexts.len(), MAX_PARTS)?;
        let from = self.code.nexts.len() as u32;
        for n in list {
            let n = match *n {
                Next::Stage(s) => code::Next::Stage(self.stage_id(place, s)?),
                Next::Unconnected(e) => code::Next::Unconnected(self.elem(place, e)?),
                Next::Never => code::Next::Never,
            };
            self.code.nexts.push(n);
        }
        Ok(Span {
            from,
            to: self.code.nexts.len() as u32,
        })
    }

    /// The number of what is counted.
    fn count(&mut self, elem: u32, tag: u16) -> u32 {
        let all = &mut self.code.counts;
        *self.counts.entry((elem, tag)).or_insert_with(|| {
            all.push((elem, tag));
            all.len() as u32 - 1
        })
    }

    fn site(&mut self, elem: u32, cause: &str, asked: bool) -> u32 {
        self.code.asks_elements |= asked;
        let (sites, key) = (&mut self.code.sites, (elem, cause.to_string(), asked));
        *self.sites.entry(key).or_insert_with(|| {
            sites.push(code::Site {
                elem,
                cause: cause.to_string(),
                asked,
            });
            sites.len() as u32 - 1
        })
    }

    fn end(&mut self, place: &str, e: &End, needs: &mut Vec<u16>) -> R<code::End> {
        Ok(match e {
            End::Output { sink, image } => code::End::Output {
                sink: self.elem(place, *sink)?,
                image: self.image(place, image, needs)?,
            },
            End::Drop { elem, reason } => code::End::Drop {
                elem: self.elem(place, *elem)?,
                reason: reason::intern(reason).ok_or(LoadError::TooMany {
                    what: "drop reasons",
                    most: reason::MAX_REASONS,
                })?,
            },
            End::Punt {
                elem,
                port,
                cause,
                image,
            } => code::End::Punt {
                to: self.input(place, *elem, *port)?,
                image: self.image(place, image, needs)?,
                site: self.site(elem.0, cause, false),
            },
            End::Ask {
                elem,
                port,
                cause,
                image,
                outputs,
            } => code::End::Ask {
                to: self.input(place, *elem, *port)?,
                image: self.image(place, image, needs)?,
                outputs: self.nexts(place, outputs)?,
                site: self.site(elem.0, cause, true),
            },
            End::Write { image, next } => code::End::Write {
                image: self.image(place, image, needs)?,
                next: self.stage_id(place, *next)?,
            },
            End::Goto(s) => code::End::Goto(self.stage_id(place, *s)?),
            End::Fork(ways) => {
                if ways.is_empty() {
                    let place = place.to_string();
                    return Err(LoadError::EmptyFork { place });
                }
                code::End::Fork(self.nexts(place, ways)?)
            }
            End::Unreachable => code::End::Unreachable,
        })
    }
}
