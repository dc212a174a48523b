//! A group takes a case: its operations, then its exit.

use super::carry::carried;
use super::element::decided;
use super::groups::Traversal;
use super::{Group, Key, Part};
use crate::program::{End, Expr, Next, Step, Why};
use crate::state::{Got, State};
use onefold_element::ElemId;
use onefold_element::model::{Case, Exit, Fix, Op, Read, ValueSet, field};

impl Traversal<'_, '_> {
    /// A group takes a case.
    pub(super) fn take(
        &mut self,
        elem: ElemId,
        port: u16,
        before: &State,
        mut group: Group,
        case: &Case,
    ) {
        let mut s = before.clone();
        let wants_proto = case.ops.iter().any(
            |o| matches!(o, Op::Write { fix, .. } if matches!(fix, Fix::Transport | Fix::Both)),
        );
        let proto = if wants_proto {
            match self.proto(before, &group) {
                Some(p) => Some(p),
                None => return self.by_protocol(elem, port, before, group, case),
            }
        } else {
            None
        };
        for op in &case.ops {
            if let Op::Count(tag) = op {
                s.steps.push(Step::Count {
                    elem,
                    tag: *tag,
                    len: s.len_at(),
                });
                continue;
            }
            if let Err(need) = s.apply(op, before, proto) {
                group.path.pop();
                return self.help(need, elem, port, before, group);
            }
        }
        // what is asked, or goes on in the reference graph, is counted by the element itself
        if !matches!(case.exit, Exit::Punt(_) | Exit::Ask(_) | Exit::Bind(_)) {
            decided(case, before, &mut group);
        }
        match &case.exit {
            Exit::Port(p) => self.go(elem, *p, s, group, "unconnected output"),
            Exit::PortOrDrop(p, reason) => self.go(elem, *p, s, group, reason),
            Exit::Drop(reason) => self.drop(elem, s, group, reason),
            Exit::Transmit => {
                let end = End::Output {
                    sink: elem,
                    image: s.image(false),
                };
                self.leave(group, s.steps, end);
            }
            Exit::Punt(cause) => {
                group.path.pop();
                self.hand_over(elem, port, before, group, cause);
            }
            Exit::Each(ports) => self.fork(elem, ports, s, group),
            Exit::Ask(cause) => self.ask(elem, port, s, group, cause),
            Exit::Bind(b) => self.bind(elem, port, before, s, group, b, case),
        }
    }

    /// Takes a case protocol by protocol: checksums lie at different places.
    pub(super) fn by_protocol(
        &mut self,
        elem: ElemId,
        port: u16,
        s: &State,
        mut group: Group,
        case: &Case,
    ) {
        let d = match s.read(Read::Field(field::IP_PROTO)) {
            Ok(Got::Expr(Expr::Of(d, 0))) => d,
            _ => {
                group.path.pop();
                return self.punt(elem, port, s, group, "checksum of an unknown protocol");
            }
        };
        let hint = self.hint(&group);
        for v in [6u128, 17] {
            let parts = group.parts.iter().filter_map(|p| {
                let mut filter = p.filter.and(d, &ValueSet::one(v), 8)?;
                if !self.trimmed((elem, port), s, hint, case, &mut filter) {
                    return None;
                }
                self.possible(&filter).then(|| Part {
                    filter,
                    ..p.clone()
                })
            });
            let g = Group {
                parts: parts.collect(),
                path: group.path.clone(),
            };
            if !g.parts.is_empty() {
                self.take(elem, port, s, g, case);
            }
        }
        let other = ValueSet::from_intervals([(6, 6), (17, 17)]).complement(8);
        let mut rest = Vec::new();
        for p in group.parts {
            if let Some(filter) = p.filter.and(d, &other, 8).filter(|f| self.possible(f)) {
                rest.push(Part { filter, ..p });
            }
        }
        group.path.pop();
        if !rest.is_empty() {
            let g = Group {
                parts: rest,
                path: group.path,
            };
            self.punt(
                elem,
                port,
                s,
                g,
                "checksum of a protocol other than TCP and UDP",
            );
        }
    }

    fn drop(&mut self, elem: ElemId, s: State, group: Group, reason: &str) {
        let end = End::Drop {
            elem,
            reason: reason.to_string(),
        };
        self.leave(group, s.steps, end);
    }

    pub(super) fn go(&mut self, elem: ElemId, output: usize, s: State, group: Group, reason: &str) {
        match self.s.successor(elem, output) {
            Some((e, p)) => self.arrive(e, p, s, group),
            None => self.drop(elem, s, group, reason),
        }
    }

    fn fork(&mut self, elem: ElemId, ports: &[usize], s: State, group: Group) {
        match ports {
            [] => return self.drop(elem, s, group, "no output"),
            [one] => return self.go(elem, *one, s, group, "unconnected output"),
            _ => {}
        }
        let known = self.known(&group, &s);
        let next = ports.iter().map(|p| match self.s.successor(elem, *p) {
            None => Next::Unconnected(elem),
            Some((e, port)) => {
                let key = Key {
                    elem: e,
                    port,
                    fresh: false,
                    state: s.clone().at_stage(),
                    write: false,
                };
                Next::Stage(
                    self.s
                        .stage(Some((self.me, &group.path)), key, Why::Copy, &known),
                )
            }
        });
        let next = next.collect();
        self.leave(group, s.steps, End::Fork(next));
    }

    fn ask(&mut self, elem: ElemId, port: u16, s: State, group: Group, cause: &str) {
        let known = self
            .known(&group, &s)
            .map(&self.s.slots, |f| carried(f, &s));
        let n = self
            .s
            .input
            .elements
            .get(elem.0 as usize)
            .map_or(0, |e| e.outputs.len());
        let outputs = (0..n).map(|q| match self.s.successor(elem, q) {
            None => Next::Unconnected(elem),
            Some((e, p)) => {
                let key = Key {
                    elem: e,
                    port: p,
                    fresh: true,
                    state: s.written(),
                    write: false,
                };
                Next::Stage(
                    self.s
                        .stage(Some((self.me, &group.path)), key, Why::Asked, &known),
                )
            }
        });
        let outputs = outputs.collect();
        let end = End::Ask {
            elem,
            port,
            cause: cause.to_string(),
            image: s.image(true),
            outputs,
        };
        self.leave(group, s.steps, end);
    }
}
