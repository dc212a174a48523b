//! The program's side: stage by stage, action by action; for everything that it says happens, the graph is asked.

use super::*;
use crate::prove::carry::carry;
use crate::prove::first::Rule;
use crate::prove::image::Reader;

/// A function of fewer nodes is small.
const FEW: usize = 4_000;

impl<'a> Search<'a> {
    /// The program is at a stage.
    pub(super) fn stage(&mut self, mut way: Position, id: StageId) {
        (way.stage, way.action) = (id, None);
        if way.here != NO {
            self.visited.insert(id);
        }
        let elem = Self::elem_of(&way);
        let program = self.program;
        let Some(stage) = program.stages.get(id.0 as usize) else {
            return self.cannot(&way, elem, way.here, "a stage that there is not");
        };
        if let Some(l) = self.listed(&way, id, stage) {
            let before = self.assume(&l);
            for (v, here) in l.with.regions(&mut self.w.dd, way.here) {
                // stages behind may have compared the same list with other rules
                self.assume(&l);
                self.decided(&way, stage, v, here);
            }
            return self.forget(&l, before);
        }
        let rules = match self.rules(id, stage, &way.slots) {
            Ok(r) => r,
            Err(cause) => return self.cannot(&way, elem, way.here, cause),
        };
        for (v, here) in self.regions(way.here, rules) {
            self.decided(&way, stage, v, here);
        }
    }

    /// A stage decides for an action (its number plus one; zero: no rule fits) about some packets.
    fn decided(&mut self, way: &Position, stage: &'a Stage, v: u32, here: Ref) {
        if here == NO {
            return;
        }
        let mut way = way.clone();
        way.here = here;
        let elem = Self::elem_of(&way);
        if v == 0 {
            return match stage.fresh {
                // an executor hands such packets over, at the stage's place
                true => self.punt(&way, stage.at, &Image::default()),
                false => self.differs(&way, elem, here, "no rule of the program fits"),
            };
        }
        way.action = Some(v - 1);
        match stage.actions.get(v as usize - 1) {
            Some(a) => self.action(way, a, 0),
            None => self.cannot(&way, elem, here, "an action that there is not"),
        }
    }

    /// Where a function has which value, within a set; zero first.
    pub(super) fn regions(&mut self, here: Ref, f: Ref) -> Vec<(u32, Ref)> {
        let dd = &mut self.w.dd;
        let mut out = Vec::new();
        let none = dd.is(f, 0);
        out.push((0, dd.and(here, none)));
        // the smaller one is looked at once for each value
        if dd.size(f, FEW) < FEW && dd.size(here, FEW) >= FEW {
            for v in dd.values(f) {
                let is = dd.is(f, v);
                out.push((v, dd.and(here, is)));
            }
        } else {
            let some = dd.ite(here, f, NO);
            for v in dd.values(some) {
                out.push((v, dd.is(some, v)));
            }
        }
        out.retain(|(_, here)| *here != NO);
        out
    }

    pub(super) fn rules(
        &mut self,
        id: StageId,
        stage: &Stage,
        slots: &Slots,
    ) -> Result<Ref, Cause> {
        let key = listed::slots_key(slots);
        if let Some(r) = self.rules.get(&(id, key.clone())) {
            return *r;
        }
        let r = self.list(stage, slots).map(|l| self.w.dd.first_match(l));
        self.rules.insert((id, key), r);
        r
    }

    /// The rules of a stage, each with its action's number plus one.
    pub(super) fn list(&mut self, stage: &Stage, slots: &Slots) -> Result<Vec<Rule>, Cause> {
        let reader = Reader {
            program: self.program,
            slots,
        };
        reader.rules(&mut self.w, stage)
    }

    pub(super) fn image(&mut self, way: &Position, m: &Image) -> Result<Sym, Cause> {
        let reader = Reader {
            program: self.program,
            slots: &way.slots,
        };
        reader.image(&mut self.w, m)
    }

    /// An action from one of its steps on.
    pub(super) fn action(&mut self, mut way: Position, a: &'a Action, from: usize) {
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
                for mut met in self.drive(&way, &Want::Write(to.at, image)) {
                    let place = met.place;
                    let apart = met.apart.take();
                    let sums = apart.as_ref().map_or(&[][..], |(sums, _)| sums);
                    let at = self.written(&met, *next, place, sums);
                    if let (Some(at), Some((_, told))) = (at, apart) {
                        self.held.push(Held { told: *told, at });
                    }
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
    pub(super) fn punt(&mut self, way: &Position, place: Place, image: &Image) {
        match self.image(way, image) {
            Ok(s) => self.hand_over(way, place, s),
            Err(cause) => self.cannot(way, place.0, way.here, cause),
        }
    }

    pub(super) fn hand_over(&mut self, way: &Position, place: Place, image: Sym) {
        for met in self.drive(way, &Want::Punt(place, image)) {
            if let Some(m) = self.meetings.get_mut(self.me) {
                m.punted = self.w.dd.or(m.punted, met.here);
            }
        }
    }

    /// A new epoch; the program's packet may have other checksums at the bytes `apart`.
    fn written(
        &mut self,
        met: &Met<'a>,
        next: StageId,
        place: Place,
        apart: &[i32],
    ) -> Option<usize> {
        let (facts, set) = carry(&mut self.w, &met.sym, met.here, apart);
        if set == NO {
            return None;
        }
        let i = self.meet(next, place, facts, set);
        if let Some(m) = self.meetings.get_mut(self.me) {
            let n = m.next.entry(i).or_insert(NO);
            *n = self.w.dd.or(*n, met.here);
        }
        Some(i)
    }

    fn asked(&mut self, way: &Position, met: &Met<'a>, outputs: &[Next]) {
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
                        Some(true) => drop(self.written(met, *s, place, &[])),
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
    pub(super) fn goes_on(
        &mut self,
        way: &Position,
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
}
