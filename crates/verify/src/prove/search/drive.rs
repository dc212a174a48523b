//! The graph's side: models, element by element, until that happens which the program says.

use super::*;
use crate::prove::element::{self, UNSAID};

impl<'a> Search<'a> {
    /// Follows the graph until that happens which the program says. What else happens is told.
    pub(super) fn drive(&mut self, way: &Position, want: &Want<'_>) -> Vec<Met<'a>> {
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
                // it may come round again; most often it does not, and this is what is wrong
                if d == NO || !self.comes_again(place) || self.ends_here(place) {
                    self.arrived(way, want, (here, &at), (d, what), &mut met);
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

    /// Packets are where the program hands them over or writes them out, and are not followed further in this epoch:
    /// both sides must have the same packet. Where not (`d`), that is told, or held back for the next epoch.
    pub(super) fn arrived(
        &mut self,
        way: &Position,
        want: &Want<'_>,
        (here, at): (Ref, &At),
        (d, what): (Ref, &'static str),
        met: &mut Vec<Met<'a>>,
    ) {
        let (Want::Punt(place, image) | Want::Write(place, image)) = want else {
            return;
        };
        let place = *place;
        let new = |apart| Met {
            here,
            sym: at.sym.clone(),
            bind: None,
            ports: &[],
            elem: place.0,
            place,
            apart,
        };
        if d == NO {
            met.push(new(None));
            return;
        }
        if matches!(want, Want::Write(..))
            && what == CHECKSUM
            && let Some(sums) = self.w.sums_apart(&at.sym, image, here, Scope::All)
        {
            // who looks at it before it is gone?
            let text = format!("{what} differs");
            let told = self.told(way, place.0, d, text, Kind::Beyond);
            met.push(new(told.map(|t| (sums, Box::new(t)))));
            return;
        }
        let sum = match what == CHECKSUM {
            true => self.w.between(&at.sym, image),
            false => None,
        };
        self.packets_by(way, place.0, d, what, "", sum);
    }

    /// Is there nothing that says how packets go on from here?
    fn ends_here(&self, place: Place) -> bool {
        let info = self.input.elements.get(place.0.0 as usize);
        let model = info.and_then(|e| e.models.get(usize::from(place.1)));
        !matches!(model, Some(Model::Cases(_)))
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

    /// Where a rewriter is asked about packets, some of which (`d`) are others than they should be; those with which
    /// it goes on. A rewriter looks at no checksum, and what the program says behind the binding does not come from
    /// here: wrong ones show only where the packet is handed over to the rewriter.
    fn bind_differs(
        &mut self,
        way: &Position,
        elem: ElemId,
        (sym, image): (&Sym, &Sym),
        (here, d): (Ref, Ref),
        what: &str,
    ) -> Ref {
        let place = " where a binding is asked for";
        if d == NO {
            return here;
        }
        if what == CHECKSUM && self.w.sums_apart(sym, image, here, Scope::All).is_some() {
            let told = self.told(way, elem, d, format!("{what} differs{place}"), Kind::Beyond);
            if let Some(t) = told {
                let t = Told {
                    unless_bound: true,
                    ..t
                };
                self.add(t, Kind::Beyond);
            }
            return here;
        }
        self.packets(way, elem, d, what, place);
        self.w.dd.minus(here, d)
    }

    pub(super) fn dropped(
        &mut self,
        way: &Position,
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
        way: &Position,
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
        for (v, here) in self.regions(here, taken) {
            if v == 0 {
                self.cannot(way, elem, here, "no case of the model holds");
                continue;
            }
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
                            apart: None,
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
                                let here =
                                    self.bind_differs(way, elem, (&sym, image), (here, d), what);
                                met.push(Met {
                                    here,
                                    sym: sym.clone(),
                                    bind: Some(b),
                                    ports: &[],
                                    elem,
                                    place,
                                    apart: None,
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
                                apart: None,
                            });
                        }
                        _ => self.exceeds(way, elem, here, "the element must be asked"),
                    },
                    Exit::Punt(cause) if case.ops.is_empty() => {
                        let packet = (here, at.clone(), counted, hops);
                        self.beyond(way, want, &packet, (place, *cause), open, met);
                    }
                    Exit::Punt(cause) => self.exceeds(way, elem, here, finer::missing(cause)),
                }
            }
        }
    }
}
