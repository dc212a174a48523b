//! Can a rewriter that is asked answer with a binding on which the program does not count, so that the packet is handed
//! over to it?
//!
//! Every kind of flow that the rewriter's model lists, narrowed to the flows that may have begun, is held against the
//! packets that come to the question. What fits must be what is expected, or one of the sides that the program names.

use super::bind::{BITS, Begins, Flow, Flows, Question, fields_of};
use super::{Arrived, Reach, Verdict, apply, meet};
use crate::cubes::tightened;
use onefold_element::ElemId;
use onefold_element::model::{Bind, BindKind, FlowSide, ValueSet};
use onefold_synth::program::{Action, Expect, Step};

impl Reach {
    /// Can packets of an action be handed over to a rewriter that it asks, whose models at the inputs that are asked
    /// are `model`, because of a binding that the action does not count on? "Never" is certain.
    pub fn strange(
        &self,
        stage: usize,
        action: usize,
        elem: ElemId,
        model: &dyn Fn(u16) -> Option<Bind>,
    ) -> Verdict {
        let p = &self.program;
        let Some(s) = p.stages.get(stage) else {
            return Verdict::Unknown;
        };
        let Some(a) = s.actions.get(action) else {
            return Verdict::Unknown;
        };
        if !self.whole || self.loose.contains(&elem) {
            return Verdict::Unknown;
        }
        for rule in s.rules.iter().filter(|r| r.action.0 as usize == action) {
            for arrived in self.at(stage) {
                let cube = meet(p, arrived, &rule.filter);
                let Some(cube) = cube.and_then(|c| tightened(&c, arrived.tight)) else {
                    continue;
                };
                let on = Arrived {
                    cube,
                    ..arrived.clone()
                };
                match self.strange_to(a, on, elem, model) {
                    Verdict::Never(_) => {}
                    v => return v,
                }
            }
        }
        Verdict::Never("no flow gives such packets another binding".to_string())
    }

    fn strange_to(
        &self,
        action: &Action,
        mut on: Arrived,
        asked: ElemId,
        model: &dyn Fn(u16) -> Option<Bind>,
    ) -> Verdict {
        let p = &self.program;
        for step in &action.steps {
            let Step::Bind {
                elem,
                port,
                kind,
                image,
                first,
                expect,
                sides,
                ..
            } = step
            else {
                continue;
            };
            if *elem == asked {
                let (Some(bind), Some(sides)) = (model(*port), sides) else {
                    return Verdict::Unknown;
                };
                let fields = fields_of(image, *kind);
                let here: Vec<ValueSet> = (fields.iter().zip(BITS.into_iter().chain([8, 8])))
                    .map(|(f, bits)| match f {
                        Some(e) => apply::value(p, &on, *e, bits),
                        None => ValueSet::full(bits),
                    })
                    .collect();
                let q = Asked {
                    port: *port,
                    kind: *kind,
                    here: &here,
                    expect: expect.as_ref(),
                    sides,
                };
                for ((e, origin), b) in &self.flows.0 {
                    if e == elem && !q.counts_on_all(&bind, *origin, b) {
                        return Verdict::Can;
                    }
                }
            }
            let question = Question {
                at: (*elem, *port),
                kind: *kind,
                image,
                first: *first,
                expect: expect.as_ref(),
                loose: self.loose.contains(elem),
                sides: sides.as_deref(),
            };
            // all flows are known already
            let mut flows = Flows::default();
            match question.answers(p, &mut flows, &on).expected {
                Some(next) => on = next,
                None => break,
            }
        }
        Verdict::Never(String::new())
    }
}

/// A rewriter is asked about these packets.
struct Asked<'a> {
    port: u16,
    kind: BindKind,
    /// Addresses, ports or identifier, protocol.
    here: &'a [ValueSet],
    expect: Option<&'a Expect>,
    sides: &'a [FlowSide],
}

impl Asked<'_> {
    /// Does the program count on all bindings of flows that began at an input?
    fn counts_on_all(&self, bind: &Bind, origin: u16, b: &Begins) -> bool {
        let kinds = bind.flows.iter().filter(|k| k.input == origin.into());
        for k in kinds {
            for f in &b.flows {
                let mut both = k.sides(self.kind, bind.source_only, &f.sets);
                if !both.all(|s| self.counts_on(&s, bind, f)) {
                    return false;
                }
            }
        }
        true
    }

    fn counts_on(&self, s: &FlowSide, bind: &Bind, f: &Flow) -> bool {
        let proto = self.here.get(4).is_none_or(|p| !p.is_disjoint(&f.proto));
        if bind.by_protocol && !proto {
            return true;
        }
        let mut from = s.from.clone();
        for (mine, here) in from.iter_mut().zip(self.here).take(self.kind.fields()) {
            *mine = mine.intersect(here);
            if mine.is_empty() {
                // no such packet comes
                return true;
            }
        }
        // forward packets of other inputs' flows are looked at more closely by rewriters of addresses
        let moved = self.kind == BindKind::Addresses && !s.reply && s.origin != self.port;
        if moved {
            return false;
        }
        let fields = 0..self.kind.fields();
        let becomes = |i: usize| match s.kept.get(i) {
            Some(true) => from.get(i),
            _ => s.to.get(i),
        };
        let subset = |i: usize, of: Option<&ValueSet>| match (becomes(i), of) {
            (Some(a), Some(b)) => a.is_subset(b),
            _ => false,
        };
        let expected = |e: &Expect| {
            !s.reply
                && s.origin == self.port
                && s.output == e.output
                && fields.clone().all(|i| match e.kept.get(i) {
                    Some(true) => s.kept.get(i) == Some(&true),
                    _ => subset(i, e.sets.get(i)),
                })
        };
        let named = |o: &FlowSide| {
            o.reply == s.reply
                && o.origin == s.origin
                && o.output == s.output
                && fields.clone().all(|i| {
                    let arrives = match (from.get(i), o.from.get(i)) {
                        (Some(a), Some(b)) => a.is_subset(b),
                        _ => false,
                    };
                    arrives
                        && match o.kept.get(i) {
                            Some(true) => s.kept.get(i) == Some(&true),
                            _ => subset(i, o.to.get(i)),
                        }
                })
        };
        self.expect.is_some_and(expected) || self.sides.iter().any(named)
    }
}
