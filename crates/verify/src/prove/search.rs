//! Program and models side by side: for every action of a stage, the models are followed for the packets that take it, up to
//! where the action says that something happens; there both must have the same packet.
//!
//! One epoch of the program is followed at a time, from its fresh stage, where both sides have the same packet: what is known of
//! it is a function ([`Meeting::all`]). Where an epoch ends, both sides must have the same packet again, and the next meeting is
//! told what is known. This goes on until nothing new is known anywhere. Then the program behaves as the models do, from every
//! meeting on: whatever leaves, is dropped, counted, bound or handed over until the next one is the same.

use super::carry::carry;
use super::dd::{NO, Ref, YES};
use super::element::{self, Cases, UNSAID};
use super::image::{self, Reader, Slots};
use super::packet::{CHECKSUM, Cause, Facts, Scope, Sym, World};
use onefold_elements::ElemId;
use onefold_elements::model::{Bind, BindKind, Exit, Model, ValueSet};
use onefold_synth::Input;
use onefold_synth::program::{
    Action, End, Image, LenAt, Next, Program, Slot, Stage, StageId, Step,
};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Most elements on the way of one packet between two meetings.
const MAX_HOPS: u32 = 4_000;
/// Most places where something differs, or is not known, that are told.
const MAX_TOLD: usize = 200;
/// Drop reason of an output that is not connected.
const UNCONNECTED: &str = "unconnected output";

/// A place in the graph: element and input.
pub type Place = (ElemId, u16);

/// Where a program's epoch begins and the reference graph is at the same place with the same packet.
pub struct Meeting {
    /// The program's stage.
    pub stage: StageId,
    /// The graph's place.
    pub place: Place,
    /// What is known besides.
    pub facts: Facts,
    /// The packets that may come.
    pub all: Ref,
    /// Those that have been followed.
    done: Ref,
    /// Packets for which the program hands over to the reference graph in this epoch.
    pub punted: Ref,
    /// Packets of which something is not known in this epoch.
    pub unknown: Ref,
    /// Packets for which something differs in this epoch.
    pub different: Ref,
    /// Meetings that come next, for which packets.
    pub next: HashMap<usize, Ref>,
    /// The first meeting that led here.
    pub from: Option<usize>,
}

/// Something that is not the same, or of which it is not known whether it is.
pub struct Told {
    /// In the epoch of this meeting.
    pub meeting: usize,
    /// The program's stage and action.
    pub stage: StageId,
    /// Its action.
    pub action: Option<u32>,
    /// The element where the graph was.
    pub elem: ElemId,
    /// In words.
    pub what: String,
    /// For these packets.
    pub here: Ref,
    /// Whoever is one of them shows it: no binding came before, and models say what there is to say.
    pub plain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Models and program contradict each other.
    Plain,
    /// They may.
    Beyond,
    /// It cannot be said.
    Unknown,
}

/// A packet in the graph.
#[derive(Clone)]
struct At {
    place: Option<Place>,
    /// Dropped instead.
    dropped: Option<(ElemId, &'static str)>,
    sym: Rc<Sym>,
}

/// Something that an element counts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Count {
    elem: ElemId,
    tag: u16,
    len: LenAt,
}

/// Where the program is on a packet's way.
#[derive(Clone)]
struct Way {
    here: Ref,
    at: At,
    /// Counted by the program, not yet by the graph.
    counts: Vec<Count>,
    slots: Slots,
    /// Bindings so far.
    nth: u32,
    stage: StageId,
    action: Option<u32>,
}

/// What happens next, says the program.
enum Want<'a> {
    Bind(Place, BindKind, Sym),
    Ask(Place, Sym),
    Output(ElemId, Sym),
    Drop(ElemId, &'a str),
    Fork(usize),
    Punt(Place, Sym),
    Write(Place, Sym),
}

/// It does, in the graph, too.
struct Met<'a> {
    here: Ref,
    sym: Rc<Sym>,
    bind: Option<&'a Bind>,
    ports: &'a [usize],
    elem: ElemId,
    place: Place,
}

/// The search.
pub struct Search<'a> {
    input: &'a Input,
    program: &'a Program,
    /// Functions and variables.
    pub w: World,
    cases: HashMap<Place, Cases<'a>>,
    rules: HashMap<(StageId, Vec<Ref>), Result<Ref, Cause>>,
    /// All meetings.
    pub meetings: Vec<Meeting>,
    index: HashMap<(StageId, Place, Facts), usize>,
    me: usize,
    /// What differs.
    pub different: Vec<Told>,
    /// What is not known.
    pub unknown: Vec<Told>,
    /// Stages that some packet may come to.
    pub visited: BTreeSet<StageId>,
    /// Steps of packets through elements.
    pub steps: u64,
    /// Most of them.
    pub max_steps: u64,
    /// The bound on them was reached.
    pub exhausted: bool,
}

impl<'a> Search<'a> {
    /// Nothing has been looked at.
    pub fn new(input: &'a Input, program: &'a Program, w: World, max_steps: u64) -> Self {
        Search {
            input,
            program,
            w,
            cases: HashMap::new(),
            rules: HashMap::new(),
            meetings: Vec::new(),
            index: HashMap::new(),
            me: 0,
            different: Vec::new(),
            unknown: Vec::new(),
            visited: BTreeSet::new(),
            steps: 0,
            max_steps,
            exhausted: false,
        }
    }

    /// Follows everything that comes from outside through a source. False when a bound ended it.
    pub fn entry(&mut self, source: ElemId, stage: StageId) -> bool {
        self.meet(stage, (source, 0), Facts::entry(), YES);
        // Bound: steps, nodes and time.
        while let Some(i) = self.next() {
            self.follow(i);
            if self.w.dd.stopped().is_some() || self.exhausted {
                return false;
            }
        }
        true
    }

    fn next(&self) -> Option<usize> {
        let open = self.meetings.iter().enumerate();
        let open = open.filter(|(_, m)| m.all != m.done);
        open.min_by_key(|(i, m)| (m.stage, *i)).map(|(i, _)| i)
    }

    fn meet(&mut self, stage: StageId, place: Place, facts: Facts, set: Ref) -> usize {
        let n = self.meetings.len();
        let i = *(self.index)
            .entry((stage, place, facts.clone()))
            .or_insert(n);
        if i == n {
            self.meetings.push(Meeting {
                stage,
                place,
                facts,
                all: NO,
                done: NO,
                punted: NO,
                unknown: NO,
                different: NO,
                next: HashMap::new(),
                from: (n > 0).then_some(self.me),
            });
        }
        if let Some(m) = self.meetings.get_mut(i) {
            m.all = self.w.dd.or(m.all, set);
        }
        i
    }

    fn follow(&mut self, i: usize) {
        let Some(m) = self.meetings.get_mut(i) else {
            return;
        };
        let new = self.w.dd.minus(m.all, m.done);
        m.done = m.all;
        self.me = i;
        if self.w.facts != m.facts {
            self.rules.clear();
            self.cases.values_mut().for_each(Cases::forget);
        }
        self.w.facts = m.facts.clone();
        let (stage, place) = (m.stage, m.place);
        let sym = self.w.fresh();
        let way = Way {
            here: new,
            at: At {
                place: Some(place),
                dropped: None,
                sym: Rc::new(sym),
            },
            counts: Vec::new(),
            slots: Slots::new(),
            nth: 0,
            stage,
            action: None,
        };
        self.stage(way, stage);
    }

    fn tell(&mut self, way: &Way, elem: ElemId, here: Ref, what: String, kind: Kind) {
        if here == NO {
            return;
        }
        if let Some(m) = self.meetings.get_mut(self.me) {
            let to = match kind {
                Kind::Unknown => &mut m.unknown,
                _ => &mut m.different,
            };
            *to = self.w.dd.or(*to, here);
        }
        let list = match kind {
            Kind::Unknown => &mut self.unknown,
            _ => &mut self.different,
        };
        if list.len() < MAX_TOLD {
            list.push(Told {
                meeting: self.me,
                stage: way.stage,
                action: way.action,
                elem,
                what,
                here,
                plain: kind == Kind::Plain && way.nth == 0,
            });
        }
    }
    fn differs(&mut self, way: &Way, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Plain);
    }
    /// The program says what no model says.
    fn exceeds(&mut self, way: &Way, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Beyond);
    }
    fn cannot(&mut self, way: &Way, elem: ElemId, here: Ref, what: impl Into<String>) {
        self.tell(way, elem, here, what.into(), Kind::Unknown);
    }
    /// The packets are not the same there.
    fn packets(&mut self, way: &Way, elem: ElemId, here: Ref, what: &str, place: &str) {
        let kind = match what == CHECKSUM {
            true => Kind::Beyond,
            false => Kind::Plain,
        };
        self.tell(way, elem, here, format!("{what} differs{place}"), kind);
    }
    fn elem_of(way: &Way) -> ElemId {
        way.at.place.map_or(ElemId(0), |p| p.0)
    }

    fn successor(&self, e: ElemId, output: usize) -> Option<Place> {
        let e = self.input.elements.get(e.0 as usize)?;
        e.outputs.get(output).copied().flatten()
    }

    /// The program is at a stage.
    fn stage(&mut self, mut way: Way, id: StageId) {
        (way.stage, way.action) = (id, None);
        if way.here != NO {
            self.visited.insert(id);
        }
        let elem = Self::elem_of(&way);
        let Some(stage) = self.program.stages.get(id.0 as usize) else {
            return self.cannot(&way, elem, way.here, "a stage that there is not");
        };
        let rules = match self.rules(id, stage, &way.slots) {
            Ok(r) => r,
            Err(cause) => return self.cannot(&way, elem, way.here, cause),
        };
        let taken = self.w.dd.ite(way.here, rules, NO);
        let fits = self.w.dd.is(rules, 0);
        let none = self.w.dd.and(way.here, fits);
        if none != NO {
            let mut way = way.clone();
            way.here = none;
            match stage.fresh {
                // an executor hands such packets over, at the stage's place
                true => self.punt(&way, stage.at, &Image::default()),
                false => self.differs(&way, elem, none, "no rule of the program fits"),
            }
        }
        for v in self.w.dd.values(taken) {
            let mut way = way.clone();
            way.here = self.w.dd.is(taken, v);
            way.action = Some(v - 1);
            match stage.actions.get(v as usize - 1) {
                Some(a) => self.action(way, a, 0),
                None => self.cannot(&way, elem, way.here, "an action that there is not"),
            }
        }
    }

    fn rules(&mut self, id: StageId, stage: &Stage, slots: &Slots) -> Result<Ref, Cause> {
        let key: Vec<Ref> = slots
            .iter()
            .flat_map(|(s, v)| std::iter::once(u32::from(s.0)).chain(v.iter().copied()))
            .collect();
        if let Some(r) = self.rules.get(&(id, key.clone())) {
            return *r;
        }
        let reader = Reader {
            program: self.program,
            slots,
        };
        let r = reader.rules(&mut self.w, stage);
        self.rules.insert((id, key), r);
        r
    }

    fn image(&mut self, way: &Way, m: &Image) -> Result<Sym, Cause> {
        let reader = Reader {
            program: self.program,
            slots: &way.slots,
        };
        reader.image(&mut self.w, m)
    }

    /// An action from one of its steps on.
    fn action(&mut self, mut way: Way, a: &'a Action, from: usize) {
        for (i, step) in a.steps.iter().enumerate().skip(from) {
            match step {
                Step::Count { elem, tag, len } => way.counts.push(Count {
                    elem: *elem,
                    tag: *tag,
                    len: LenAt {
                        start: len.start,
                        end: self.w.end(len.end),
                    },
                }),
                Step::Bind { .. } => return self.bind(way, a, i, step),
            }
        }
        let elem = Self::elem_of(&way);
        let image = match &a.end {
            End::Output { image, .. }
            | End::Punt { image, .. }
            | End::Ask { image, .. }
            | End::Write { image, .. } => match self.image(&way, image) {
                Ok(s) => Some(s),
                Err(cause) => return self.cannot(&way, elem, way.here, cause),
            },
            _ => None,
        };
        match (&a.end, image) {
            (End::Output { sink, .. }, Some(image)) => {
                self.drive(&way, &Want::Output(*sink, image));
            }
            (End::Drop { elem, reason }, _) => {
                self.drive(&way, &Want::Drop(*elem, reason));
            }
            (
                End::Punt {
                    elem, port, image, ..
                },
                _,
            ) => self.punt(&way, (*elem, *port), image),
            (
                End::Ask {
                    elem,
                    port,
                    outputs,
                    ..
                },
                Some(image),
            ) => {
                for met in self.drive(&way, &Want::Ask((*elem, *port), image)) {
                    self.asked(&way, &met, outputs);
                }
            }
            (End::Write { next, .. }, Some(image)) => {
                let Some(to) = self.program.stages.get(next.0 as usize) else {
                    return self.cannot(&way, elem, way.here, "a stage that there is not");
                };
                if !to.fresh {
                    return self.cannot(&way, elem, way.here, "a stage that is not fresh");
                }
                for met in self.drive(&way, &Want::Write(to.at, image)) {
                    self.written(&met, *next, met.place);
                }
            }
            (End::Goto(next), _) => self.stage(way, *next),
            (End::Fork(ways), _) => {
                for met in self.drive(&way, &Want::Fork(ways.len())) {
                    for (n, port) in ways.iter().zip(met.ports) {
                        let to = self.successor(met.elem, *port);
                        self.goes_on(&way, &met, n, to, met.here, met.sym.clone());
                    }
                }
            }
            (End::Unreachable, _) => {
                self.differs(&way, elem, way.here, "the program comes to no end");
            }
            _ => self.cannot(&way, elem, way.here, "an end without a packet"),
        }
    }

    /// The program hands over; the packet must be there as it would be.
    fn punt(&mut self, way: &Way, place: Place, image: &Image) {
        let image = match self.image(way, image) {
            Ok(s) => s,
            Err(cause) => return self.cannot(way, place.0, way.here, cause),
        };
        for met in self.drive(way, &Want::Punt(place, image)) {
            if let Some(m) = self.meetings.get_mut(self.me) {
                m.punted = self.w.dd.or(m.punted, met.here);
            }
        }
    }

    /// A new epoch.
    fn written(&mut self, met: &Met<'a>, next: StageId, place: Place) {
        let (facts, set) = carry(&mut self.w, &met.sym, met.here);
        if set == NO {
            return;
        }
        let i = self.meet(next, place, facts, set);
        if let Some(m) = self.meetings.get_mut(self.me) {
            let n = m.next.entry(i).or_insert(NO);
            *n = self.w.dd.or(*n, met.here);
        }
    }

    fn asked(&mut self, way: &Way, met: &Met<'a>, outputs: &[Next]) {
        let n = self.input.elements.get(met.elem.0 as usize);
        let n = n.map_or(0, |e| e.outputs.len());
        for q in 0..n {
            let to = self.successor(met.elem, q);
            match (outputs.get(q), to) {
                // where the program says nothing, the reference goes on
                (None, _) => {}
                (Some(Next::Unconnected(e)), None) if *e == met.elem => {}
                (Some(Next::Stage(s)), Some(place)) => {
                    let fresh = self.program.stages.get(s.0 as usize).map(|s| s.fresh);
                    match fresh {
                        Some(true) => self.written(met, *s, place),
                        _ => self.cannot(way, met.elem, met.here, "a stage that is not fresh"),
                    }
                }
                _ => self.differs(
                    way,
                    met.elem,
                    met.here,
                    format!("output {q} leads elsewhere"),
                ),
            }
        }
    }

    /// Behind a binding or a copy: the program goes on in a stage of this epoch, the graph at a place.
    fn goes_on(
        &mut self,
        way: &Way,
        met: &Met<'a>,
        next: &Next,
        to: Option<Place>,
        here: Ref,
        sym: Rc<Sym>,
    ) {
        let mut way = way.clone();
        way.here = here;
        way.counts.clear();
        match (next, to) {
            (Next::Unconnected(e), None) if *e == met.elem => {}
            (Next::Stage(s), to) => {
                way.at = At {
                    place: to,
                    dropped: to.is_none().then_some((met.elem, UNCONNECTED)),
                    sym,
                };
                self.stage(way, *s);
            }
            _ => self.differs(&way, met.elem, here, "a packet leaves where it should not"),
        }
    }

    fn bind(&mut self, way: Way, a: &'a Action, i: usize, step: &'a Step) {
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
            return;
        };
        let image = match self.image(&way, image) {
            Ok(s) => s,
            Err(cause) => return self.cannot(&way, *elem, way.here, cause),
        };
        for met in self.drive(&way, &Want::Bind((*elem, *port), *kind, image)) {
            let Some(bind) = met.bind else { continue };
            let free = image::binding(&mut self.w, way.nth);
            let mut way = way.clone();
            way.nth += 1;
            way.counts.clear();
            if bind.reply_anno.is_some() && bind.reply_anno != anno.map(|a| a.0) {
                let what = "an annotation of replies that the program has no slot for";
                self.cannot(&way, *elem, met.here, what);
                continue;
            }
            // what the annotation is before; forward packets keep it
            let kept = anno.map(|(at, _)| {
                let at = usize::from(at) * 8;
                met.sym.annos.get(at..at + 8).unwrap_or(&[NO; 8]).to_vec()
            });
            if let Some(e) = expect {
                match self.values(&met, bind, None, &e.kept, &e.sets, &free) {
                    Ok((mut values, here)) => {
                        let mut way = way.clone();
                        fill(&mut way.slots, *first, &values);
                        if let (Some((_, slot)), Some(kept)) = (anno, &kept) {
                            way.slots.insert(*slot, kept.clone());
                            values.truncate(6);
                            values.push(kept.clone());
                        }
                        let to = self.successor(*elem, e.output.into());
                        for (here, d) in element::bound(&mut self.w, &met.sym, bind, &values, here)
                        {
                            let mut way = way.clone();
                            way.here = here;
                            match d {
                                Ok(d) => {
                                    way.at = At {
                                        place: to,
                                        dropped: to.is_none().then_some((*elem, UNCONNECTED)),
                                        sym: Rc::new(d.sym),
                                    };
                                    self.action(way, a, i + 1);
                                }
                                Err(cause) => self.cannot(&way, *elem, here, cause),
                            }
                        }
                    }
                    Err(cause) => self.cannot(&way, *elem, met.here, cause),
                }
            }
            let n = self.input.elements.get(elem.0 as usize);
            let n = n.map_or(0, |e| e.outputs.len());
            let mut other = way.clone();
            if let (Some((_, slot)), Some(kept)) = (anno, kept) {
                let v = match bind.reply_anno {
                    Some(_) => free.last().cloned().unwrap_or(kept),
                    None => kept,
                };
                other.slots.insert(*slot, v);
            }
            // a binding of no kind that is told is one of the rewriter's own: the packet is pushed into it
            let mut others = Vec::new();
            match sides {
                None => others.extend((0..n).map(|q| (q, free.clone(), met.here))),
                Some(sides) => {
                    for s in sides {
                        match self.values(&met, bind, Some(&s.from), &s.kept, &s.to, &free) {
                            Ok((values, here)) => {
                                others.push((usize::from(s.output), values, here));
                            }
                            Err(cause) => self.cannot(&way, *elem, met.here, cause),
                        }
                    }
                }
            }
            for (q, values, here) in others {
                let to = self.successor(*elem, q);
                let gone = Next::Unconnected(*elem);
                let next = bound.get(q).unwrap_or(&gone);
                let mut other = other.clone();
                fill(&mut other.slots, *first, &values);
                for (here, d) in element::bound(&mut self.w, &met.sym, bind, &values, here) {
                    match d {
                        Ok(d) => self.goes_on(&other, &met, next, to, here, Rc::new(d.sym)),
                        Err(cause) => self.cannot(&other, *elem, here, cause),
                    }
                }
            }
            if let Some(o) = bind.pass {
                let to = self.successor(*elem, o);
                let gone = Next::Unconnected(*elem);
                let next = pass.get(o).unwrap_or(&gone);
                self.goes_on(&way, &met, next, to, met.here, met.sym.clone());
            }
        }
    }

    /// What a binding gives that is as expected, or of some kind: fields are kept or among a set, and what arrives is `from`.
    fn values(
        &mut self,
        met: &Met<'a>,
        bind: &Bind,
        from: Option<&[ValueSet; 4]>,
        kept: &[bool; 4],
        sets: &[ValueSet; 4],
        free: &[Vec<Ref>],
    ) -> Result<(Vec<Vec<Ref>>, Ref), Cause> {
        let (net, len) = met.sym.net.ok_or("no network header is marked")?;
        let t = net + i32::from(len.ok_or("a network header alone is marked")?);
        let places: &[(i32, i32)] = match bind.kind {
            BindKind::Flow => &[(net + 12, 32), (net + 16, 32), (t, 16), (t + 2, 16)],
            BindKind::Addresses => &[(net + 12, 32), (net + 16, 32)],
            BindKind::Ping => &[(net + 12, 32), (net + 16, 32), (t + 4, 16)],
        };
        let mut values = free.to_vec();
        let mut here = met.here;
        for (i, (at, bits)) in places.iter().enumerate() {
            let (Some(v), Some(set)) = (values.get_mut(i), sets.get(i)) else {
                continue;
            };
            if let Some(from) = from.and_then(|f| f.get(i))
                && !from.is_full(*bits as u8)
            {
                let old = self.w.read(&met.sym, at * 8, *bits)?;
                let is = super::bits::is_in(&mut self.w.dd, &old, from);
                here = self.w.dd.and(here, is);
            }
            if kept.get(i) == Some(&true) {
                *v = self.w.read(&met.sym, at * 8, *bits)?;
            } else if let Some(c) = set.single() {
                *v = super::bits::constant(c, *bits as u8);
            } else {
                let is = super::bits::is_in(&mut self.w.dd, v, set);
                here = self.w.dd.and(here, is);
            }
        }
        Ok((values, here))
    }

    /// Follows the graph until that happens which the program says. What else happens is told.
    fn drive(&mut self, way: &Way, want: &Want<'_>) -> Vec<Met<'a>> {
        let mut met = Vec::new();
        let mut open: Vec<(Ref, At, usize, u32)> = vec![(way.here, way.at.clone(), 0, 0)];
        while let Some((here, at, counted, hops)) = open.pop() {
            self.steps += 1;
            if self.steps > self.max_steps {
                self.exhausted = true;
            }
            if here == NO || self.exhausted || self.w.dd.stopped().is_some() {
                continue;
            }
            if let Some((elem, reason)) = at.dropped {
                self.dropped(way, want, here, elem, reason, counted);
                continue;
            }
            let Some(place) = at.place else { continue };
            if let Want::Punt(to, image) | Want::Write(to, image) = want
                && *to == place
                && counted == way.counts.len()
            {
                let (d, what) = self.w.differ(&at.sym, image, here, Scope::All);
                if d == NO {
                    met.push(Met {
                        here,
                        sym: at.sym.clone(),
                        bind: None,
                        ports: &[],
                        elem: place.0,
                        place,
                    });
                    continue;
                }
                // it may come round again; most often it does not, and this is what is wrong
                if !self.comes_again(place) {
                    self.packets(way, place.0, d, what, "");
                    continue;
                }
            }
            if hops > MAX_HOPS {
                self.cannot(way, place.0, here, "too many elements on the way");
                continue;
            }
            self.element(
                way,
                want,
                (here, at, counted, hops),
                place,
                &mut open,
                &mut met,
            );
        }
        met
    }

    /// Can a packet come back to this place?
    fn comes_again(&self, place: Place) -> bool {
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut stack = vec![place.0];
        while let Some(e) = stack.pop() {
            let Some(info) = self.input.elements.get(e.0 as usize) else {
                continue;
            };
            for (to, _) in info.outputs.iter().flatten() {
                if *to == place.0 {
                    return true;
                }
                if seen.insert(to.0) {
                    stack.push(*to);
                }
            }
        }
        false
    }

    fn dropped(
        &mut self,
        way: &Way,
        want: &Want<'_>,
        here: Ref,
        elem: ElemId,
        reason: &str,
        counted: usize,
    ) {
        match want {
            Want::Drop(e, r) if *e == elem && *r == reason => {
                if counted != way.counts.len() {
                    self.differs(way, elem, here, "more is counted");
                }
            }
            _ => self.differs(way, elem, here, format!("the reference drops it: {reason}")),
        }
    }

    fn element(
        &mut self,
        way: &Way,
        want: &Want<'_>,
        (here, at, counted, hops): (Ref, At, usize, u32),
        place: Place,
        open: &mut Vec<(Ref, At, usize, u32)>,
        met: &mut Vec<Met<'a>>,
    ) {
        let elem = place.0;
        let input = self.input;
        let Some(info) = input.elements.get(elem.0 as usize) else {
            return self.cannot(way, elem, here, "no such element");
        };
        if info.input_is_pull.get(usize::from(place.1)) == Some(&true) {
            return self.exceeds(way, elem, here, "packets are pulled here: no model holds");
        }
        let list = match info.models.get(usize::from(place.1)) {
            Some(Model::Cases(c)) => c,
            Some(Model::None(cause)) => {
                let what = format!("there is no model ({cause}), and the program goes on");
                return self.exceeds(way, elem, here, what);
            }
            None => return self.exceeds(way, elem, here, "there is no model of this input"),
        };
        let cases = (self.cases)
            .entry(place)
            .or_insert_with(|| Cases::new(list));
        let (taken, trouble) = cases.taken(&mut self.w, &at.sym, here);
        let list = cases.list;
        let some = self.w.dd.ite(here, taken, NO);
        let none = self.w.dd.is(taken, 0);
        let none = self.w.dd.and(here, none);
        self.cannot(way, elem, none, "no case of the model holds");
        for v in self.w.dd.values(some) {
            let here = self.w.dd.is(some, v);
            if v == UNSAID {
                self.cannot(way, elem, here, trouble.unwrap_or("a condition"));
                continue;
            }
            let Some(case) = list.get(v as usize - 1) else {
                continue;
            };
            for (here, done) in element::apply(&mut self.w, &at.sym, &case.ops, here) {
                let d = match done {
                    Ok(d) => d,
                    Err(cause) => {
                        self.cannot(way, elem, here, cause);
                        continue;
                    }
                };
                let mut counted = counted;
                let mut same = true;
                for (tag, len) in d.counts {
                    let c = Count { elem, tag, len };
                    same &= way.counts.get(counted) == Some(&c);
                    counted += 1;
                }
                if !same {
                    self.differs(way, elem, here, "it counts what the program does not count");
                    continue;
                }
                let sym = match case.ops.is_empty() {
                    true => at.sym.clone(),
                    false => Rc::new(d.sym),
                };
                let all_counted = counted == way.counts.len();
                let mut go = |s: &Self, port: usize, reason: &'static str| {
                    let to = s.successor(elem, port);
                    let at = At {
                        place: to,
                        dropped: to.is_none().then_some((elem, reason)),
                        sym: sym.clone(),
                    };
                    open.push((here, at, counted, hops + 1));
                };
                match &case.exit {
                    Exit::Port(p) => go(self, *p, UNCONNECTED),
                    Exit::PortOrDrop(p, reason) => go(self, *p, reason),
                    Exit::Each(ports) if ports.len() == 1 => {
                        go(self, ports[0], UNCONNECTED);
                    }
                    Exit::Each(ports) => match want {
                        Want::Fork(n) if *n == ports.len() && all_counted => met.push(Met {
                            here,
                            sym: sym.clone(),
                            bind: None,
                            ports,
                            elem,
                            place,
                        }),
                        _ => self.differs(way, elem, here, "copies are made"),
                    },
                    Exit::Drop(reason) => self.dropped(way, want, here, elem, reason, counted),
                    Exit::Transmit => match want {
                        Want::Output(sink, image) if *sink == elem => {
                            let (d, what) = self.w.differ(&sym, image, here, Scope::Bytes);
                            self.packets(way, elem, d, what, " in what leaves");
                            if !all_counted {
                                self.differs(way, elem, here, "more is counted");
                            }
                        }
                        _ => self.differs(way, elem, here, "the packet leaves here"),
                    },
                    Exit::Bind(b) => {
                        let empty = case.ops.is_empty();
                        match want {
                            Want::Bind(to, kind, image)
                                if *to == place && *kind == b.kind && all_counted && empty =>
                            {
                                let (d, what) = self.w.differ(&sym, image, here, Scope::All);
                                self.packets(way, elem, d, what, " where a binding is asked for");
                                let here = self.w.dd.minus(here, d);
                                met.push(Met {
                                    here,
                                    sym: sym.clone(),
                                    bind: Some(b),
                                    ports: &[],
                                    elem,
                                    place,
                                });
                            }
                            Want::Bind(..) if !empty => {
                                self.cannot(way, elem, here, "a binding behind operations");
                            }
                            _ => self.exceeds(way, elem, here, "a binding is asked for"),
                        }
                    }
                    Exit::Ask(_) => match want {
                        Want::Ask(to, image) if *to == place && all_counted => {
                            let (d, what) = self.w.differ(&sym, image, here, Scope::All);
                            self.packets(way, elem, d, what, " where an element is asked");
                            let here = self.w.dd.minus(here, d);
                            met.push(Met {
                                here,
                                sym: sym.clone(),
                                bind: None,
                                ports: &[],
                                elem,
                                place,
                            });
                        }
                        _ => self.exceeds(way, elem, here, "the element must be asked"),
                    },
                    Exit::Punt(cause) => {
                        let what =
                            format!("the reference has to take over ({cause}), but does not");
                        self.exceeds(way, elem, here, what);
                    }
                }
            }
        }
    }
}

fn fill(slots: &mut Slots, first: Slot, values: &[Vec<Ref>]) {
    for (i, v) in values.iter().take(6).enumerate() {
        slots.insert(Slot(first.0.saturating_add(i as u16)), v.clone());
    }
}
