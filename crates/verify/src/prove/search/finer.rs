//! Packets that a model hands over, and the program does not: the element may say more than its model does.

use super::*;
use crate::prove::element::UNSAID;

/// A packet before an element: which packets, the packet, what was counted, elements passed.
pub(super) type Open = (Ref, At, usize, u32);

/// The program does not hand over what a model hands over.
pub(super) fn missing(cause: &str) -> String {
    format!("the reference has to take over ({cause}), but does not")
}

impl<'a> Search<'a> {
    /// Packets that come to an element where its model hands them over: they go on as far as the element says more. The
    /// others must be handed over by the program, too.
    pub(super) fn beyond(
        &mut self,
        way: &Position,
        want: &Want<'_>,
        packet: &Open,
        (place, cause): (Place, Cause),
        open: &mut Vec<Open>,
        met: &mut Vec<Met<'a>>,
    ) {
        let here = self.finer(way, want, packet, place, open);
        let (_, at, counted, _) = packet;
        if let Want::Punt(to, image) | Want::Write(to, image) = want
            && *to == place
            && *counted == way.counts.len()
        {
            let (d, what) = self.w.differ(&at.sym, image, here, Scope::All);
            // A checksum alone is a mistake; where a field differs, the program may mean another visit, of which no
            // model says anything.
            match d == NO || what == CHECKSUM && self.w.may_be(d) {
                true => self.arrived(way, want, (here, at), (d, what), met),
                false => self.exceeds(way, place.0, here, format!("{what} differs")),
            }
            return;
        }
        self.exceeds(way, place.0, here, missing(cause));
    }

    /// Follows packets as far as the element says more than its model; those of which nothing more is said.
    fn finer(
        &mut self,
        way: &Position,
        want: &Want<'_>,
        (here, at, counted, hops): &Open,
        place: Place,
        open: &mut Vec<Open>,
    ) -> Ref {
        let asked = self.finer;
        let list = (self.beyond.entry(place))
            .or_insert_with(|| asked(place.0, place.1).map(Rc::new))
            .clone();
        let Some(list) = list else { return *here };
        let (taken, _) = Cases::new(&list).taken(&mut self.w, &at.sym, *here);
        let some = self.w.dd.ite(*here, taken, NO);
        let none = self.w.dd.is(taken, 0);
        let mut rest = self.w.dd.and(*here, none);
        for v in self.w.dd.values(some) {
            let here = self.w.dd.is(some, v);
            let case = match v {
                UNSAID => None,
                v => list.get(v as usize - 1),
            };
            match case.map(|c| (&c.exit, &c.ops[..])) {
                Some((Exit::Port(p), ops)) => {
                    let from = (here, at, (*counted, *hops));
                    let stay = self.passed(way, from, (place, *p), ops, open);
                    rest = self.w.dd.or(rest, stay);
                }
                Some((Exit::Drop(reason), [])) => {
                    self.dropped(way, want, here, place.0, reason, *counted);
                }
                _ => rest = self.w.dd.or(rest, here),
            }
        }
        rest
    }

    /// Packets that leave at an output, with these operations; those of which that cannot be followed. Nothing is
    /// counted where an element says more than its model.
    fn passed(
        &mut self,
        way: &Position,
        (here, at, (counted, hops)): (Ref, &At, (usize, u32)),
        (place, port): (Place, usize),
        ops: &[Op],
        open: &mut Vec<Open>,
    ) -> Ref {
        let mut rest = NO;
        for (here, done) in element::apply(&mut self.w, &at.sym, ops, here) {
            match done {
                Ok(d) if d.counts.is_empty() => {
                    let to = self.successor(place.0, port);
                    let sym = match ops.is_empty() {
                        true => at.sym.clone(),
                        false => Rc::new(d.sym),
                    };
                    let at = At {
                        place: to,
                        dropped: to.is_none().then_some((place.0, UNCONNECTED)),
                        sym,
                    };
                    open.push((here, at, counted, hops + 1));
                }
                Ok(_) => rest = self.w.dd.or(rest, here),
                Err(cause) => self.cannot(way, place.0, here, cause),
            }
        }
        rest
    }
}
