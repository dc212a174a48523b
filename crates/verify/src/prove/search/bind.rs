//! Where a rewriter is asked: what its binding may be, and where the packet goes on with it.

use super::*;
use crate::prove::{bits, element, image};
use onefold_element::model::max_of;

/// Bytes behind the IP header without which a rewriter is not asked.
const ASKED: u128 = 8;

impl<'a> Search<'a> {
    pub(super) fn bind(&mut self, way: Position, a: &'a Action, i: usize, step: &'a Step) {
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
        // what a rewriter cannot be asked about is handed over to it
        let whole = match image.net {
            Some((at, Some(20))) => {
                let least = ValueSet::range(ASKED, max_of(32));
                self.w.length_in(at + 20, image.end, &least)
            }
            _ => NO,
        };
        let mut odd = way.clone();
        odd.here = self.w.dd.minus(way.here, whole);
        if odd.here != NO {
            self.hand_over(&odd, (*elem, *port), image.clone());
        }
        let mut way = way;
        way.here = self.w.dd.and(way.here, whole);
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
                let values = self.values(&met, bind, None, &e.kept, &e.sets, &free);
                match values.and_then(|v| self.promised(&met, bind, e, v)) {
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

    /// What a binding gives that is as expected, or of some kind: fields are kept or among a set, and what arrives is
    /// `from`.
    fn values(
        &mut self,
        met: &Met<'a>,
        bind: &Bind,
        from: Option<&[ValueSet; 4]>,
        kept: &[bool; 4],
        sets: &[ValueSet; 4],
        free: &[Vec<Ref>],
    ) -> Result<(Vec<Vec<Ref>>, Ref), Cause> {
        let mut values = free.to_vec();
        let mut here = met.here;
        for (i, (at, bits)) in fields_at(met, bind)?.into_iter().enumerate() {
            let (Some(v), Some(set)) = (values.get_mut(i), sets.get(i)) else {
                continue;
            };
            if let Some(from) = from.and_then(|f| f.get(i))
                && !from.is_full(bits as u8)
            {
                let old = self.w.read(&met.sym, at * 8, bits)?;
                let is = bits::is_in(&mut self.w.dd, &old, from);
                here = self.w.dd.and(here, is);
            }
            if kept.get(i) == Some(&true) {
                *v = self.w.read(&met.sym, at * 8, bits)?;
            } else if let Some(c) = set.single() {
                *v = bits::constant(c, bits as u8);
            } else {
                let is = bits::is_in(&mut self.w.dd, v, set);
                here = self.w.dd.and(here, is);
            }
        }
        Ok((values, here))
    }

    /// An expected binding is one of a flow that began at this input (the program looks): it is what the model promises
    /// of those.
    fn promised(
        &mut self,
        met: &Met<'a>,
        bind: &Bind,
        e: &Expect,
        (mut values, mut here): (Vec<Vec<Ref>>, Ref),
    ) -> Result<(Vec<Vec<Ref>>, Ref), Cause> {
        let Some(x) = bind.expected.as_ref() else {
            // none begins here
            return Ok((values, NO));
        };
        if x.output != usize::from(e.output) {
            return Ok((values, NO));
        }
        let fields = [&x.saddr, &x.daddr, &x.sport, &x.dport];
        for (i, (at, bits)) in fields_at(met, bind)?.into_iter().enumerate() {
            let (Some(v), Some(field)) = (values.get_mut(i), fields.get(i)) else {
                continue;
            };
            let is = match field {
                Rewritten::Kept => {
                    let old = self.w.read(&met.sym, at * 8, bits)?;
                    let known = |f: &Ref| *f == NO || *f == YES;
                    let differs = match v.iter().all(known) || e.kept.get(i) == Some(&true) {
                        true => bits::differ(&mut self.w.dd, v, &old),
                        false => {
                            *v = old;
                            match e.sets.get(i) {
                                Some(set) => {
                                    let is = bits::is_in(&mut self.w.dd, v, set);
                                    self.w.dd.not(is)
                                }
                                None => NO,
                            }
                        }
                    };
                    self.w.dd.not(differs)
                }
                Rewritten::To(to) => bits::is_in(&mut self.w.dd, v, to),
            };
            here = self.w.dd.and(here, is);
        }
        Ok((values, here))
    }
}

fn fill(slots: &mut Slots, first: Slot, values: &[Vec<Ref>]) {
    for (i, v) in values.iter().take(6).enumerate() {
        slots.insert(Slot(first.0.saturating_add(i as u16)), v.clone());
    }
}

/// Where the fields are that a binding rewrites: first byte and bits.
fn fields_at(met: &Met<'_>, bind: &Bind) -> Result<Vec<(i32, i32)>, Cause> {
    let (net, len) = met.sym.net.ok_or("no network header is marked")?;
    let t = net + i32::from(len.ok_or("a network header alone is marked")?);
    Ok(match bind.kind {
        BindKind::Flow => vec![(net + 12, 32), (net + 16, 32), (t, 16), (t + 2, 16)],
        BindKind::Addresses => vec![(net + 12, 32), (net + 16, 32)],
        BindKind::Ping => vec![(net + 12, 32), (net + 16, 32), (t + 4, 16)],
    })
}
