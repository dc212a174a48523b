//! Invariant 5: slots are read behind their binding only. A data-flow analysis over the stages: which slots are filled
//! on every path that comes to a stage.

use super::{Checker, Place, stage_place};
use crate::program::*;
use std::collections::VecDeque;

/// A set of slots, one bit each.
#[derive(Clone, PartialEq, Eq)]
struct Filled(Vec<u64>);

impl Filled {
    fn none(n: usize) -> Self {
        Filled(vec![0; n.div_ceil(64)])
    }
    fn has(&self, s: Slot) -> bool {
        let i = usize::from(s.0);
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    fn fill(&mut self, first: Slot, anno: Option<(u8, Slot)>) {
        let six = usize::from(first.0)..usize::from(first.0) + 6;
        for i in six.chain(anno.map(|(_, s)| usize::from(s.0))) {
            if let Some(w) = self.0.get_mut(i / 64) {
                *w |= 1 << (i % 64);
            }
        }
    }
    /// Only what both have; says whether anything has gone.
    fn both(&mut self, o: &Filled) -> bool {
        let mut gone = false;
        for (a, b) in self.0.iter_mut().zip(&o.0) {
            gone |= *a & !b != 0;
            *a &= b;
        }
        gone
    }
}

/// The analysis, then a look at every reader.
pub(super) fn check(p: &Program, c: &mut Checker<'_>) {
    let n = p.slots.len();
    let mut at: Vec<Option<Filled>> = vec![None; p.stages.len()];
    let mut queue: VecDeque<u32> = VecDeque::new();
    for (i, s) in p.stages.iter().enumerate() {
        if s.fresh {
            at[i] = Some(Filled::none(n));
            queue.push_back(i as u32);
        }
    }
    // Bound: a stage comes again only when its set has shrunk, at most once for each slot.
    while let Some(i) = queue.pop_front() {
        let (Some(s), Some(Some(here))) = (p.stages.get(i as usize), at.get(i as usize)) else {
            continue;
        };
        let mut ways: Vec<(StageId, Filled)> = Vec::new();
        for a in &s.actions {
            each_way(a, here.clone(), |to, with| ways.push((to, with.clone())));
        }
        for (to, with) in ways {
            let fresh = p.stages.get(to.0 as usize).is_none_or(|s| s.fresh);
            match at.get_mut(to.0 as usize) {
                Some(Some(_)) if fresh => {}
                Some(Some(f)) => {
                    let shrunk = f.both(&with);
                    queue.extend(shrunk.then_some(to.0));
                }
                Some(f @ None) => {
                    *f = Some(with);
                    queue.push_back(to.0);
                }
                None => {}
            }
        }
    }
    for (i, s) in p.stages.iter().enumerate() {
        // a stage that nothing leads to reads nothing
        if let Some(Some(here)) = at.get(i) {
            readers(s, i, here, c);
        }
    }
}

/// Every stage that an action leads to within the epoch, with the slots filled then.
fn each_way(a: &Action, mut filled: Filled, mut f: impl FnMut(StageId, &Filled)) {
    let list = |l: &[Next], with: &Filled, f: &mut dyn FnMut(StageId, &Filled)| {
        for n in l {
            if let Next::Stage(s) = n {
                f(*s, with);
            }
        }
    };
    for s in &a.steps {
        if let Step::Bind {
            first,
            anno,
            bound,
            pass,
            ..
        } = s
        {
            list(pass, &filled, &mut f);
            filled.fill(*first, *anno);
            list(bound, &filled, &mut f);
        }
    }
    match &a.end {
        End::Goto(s) => f(*s, &filled),
        End::Fork(l) => list(l, &filled, &mut f),
        _ => {}
    }
}

fn readers(s: &Stage, i: usize, here: &Filled, c: &mut Checker<'_>) {
    let among = s.among.iter().flat_map(|f| &f.0);
    let known = s.known.0.iter().chain(among).map(|(d, _)| (None, *d));
    let rules = s.rules.iter().enumerate();
    let asked = rules.flat_map(|(j, r)| r.filter.0.iter().map(move |(d, _)| (Some(j as u32), *d)));
    for (rule, d) in known.chain(asked) {
        c.place = Place {
            rule,
            ..stage_place(i)
        };
        dim(d, here, c);
    }
    for (j, a) in s.actions.iter().enumerate() {
        c.place = Place {
            action: Some(j as u32),
            ..stage_place(i)
        };
        let mut filled = here.clone();
        for (k, step) in a.steps.iter().enumerate() {
            c.place.step = Some(k as u32);
            if let Step::Bind {
                image, first, anno, ..
            } = step
            {
                image_reads(image, &filled, c);
                filled.fill(*first, *anno);
            }
        }
        c.place.step = Some(a.steps.len() as u32);
        match &a.end {
            End::Output { image, .. }
            | End::Punt { image, .. }
            | End::Ask { image, .. }
            | End::Write { image, .. } => image_reads(image, &filled, c),
            End::Drop { .. } | End::Goto(_) | End::Fork(_) | End::Unreachable => {}
        }
    }
}

fn dim(d: Dim, filled: &Filled, c: &mut Checker<'_>) {
    if let Dim::Slot(s) = d
        && !filled.has(s)
    {
        c.wrong(5, format!("s{} is read, but not on every path bound", s.0));
    }
}

fn expr(e: Expr, filled: &Filled, c: &mut Checker<'_>) {
    if let Expr::Of(d, _) = e {
        dim(d, filled, c);
    }
}

fn image_reads(image: &Image, filled: &Filled, c: &mut Checker<'_>) {
    for w in &image.writes {
        expr(w.value, filled, c);
    }
    for t in image.sums.iter().flat_map(|s| s.groups.iter().flatten()) {
        match *t {
            SumTerm::Slot(s) => dim(Dim::Slot(s), filled, c),
            SumTerm::Change { from, to, .. } => {
                expr(from, filled, c);
                expr(to, filled, c);
            }
        }
    }
    for (_, e) in &image.annos {
        expr(*e, filled, c);
    }
    if let TypeExpr::Destination(e, _) = image.packet_type {
        expr(e, filled, c);
    }
}
