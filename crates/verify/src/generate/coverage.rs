//! What of a program has been hit: classes, rules, and both sides of every boundary of every filter.
//!
//! A *boundary* is a place where one dimension of one rule's filter begins or ends to fit. Its inner side is hit by a
//! packet that the rule takes and whose value is the last one inside; its outer side by a packet of the stage that no
//! rule before takes, that fits the rule but for this dimension, and whose value there is the first one outside.

use super::index::Index;
use super::read::Seen;
use onefold_element::model::{ValueSet, max_of};
use onefold_engine::program::ProgramStep;
use onefold_synth::program::{Dim, End, Filter, Next, Program, Step};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

pub use crate::cubes::width;

/// Up to so many rules that have a value right outside are looked at one by one.
const FEW_NEAR: usize = 64;

/// One side of one boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side {
    /// Stage.
    pub stage: usize,
    /// Rule of the stage.
    pub rule: usize,
    /// Index of the dimension in the rule's filter.
    pub dim: usize,
    /// Number of the side in the dimension's set; see [`sides`].
    pub side: usize,
}

/// The values at the boundaries of a set, inner and outer in turn: `(value, is inside)`.
pub fn sides(set: &ValueSet, bits: u8) -> Vec<(u128, bool)> {
    let max = max_of(bits);
    let mut all = Vec::new();
    for (lo, hi) in set.intervals() {
        if *lo > 0 {
            all.push((*lo, true));
            all.push((*lo - 1, false));
        }
        if *hi < max {
            all.push((*hi, true));
            all.push((*hi + 1, false));
        }
    }
    all
}

#[derive(Debug, Clone, Default)]
struct RuleState {
    hit: bool,
    /// By dimension: which sides were hit.
    sides: Vec<Vec<bool>>,
}

/// The account.
#[derive(Debug, Clone)]
pub struct Coverage {
    program: Arc<Program>,
    rules: Vec<Vec<RuleState>>,
    /// All dimensions that a stage reads.
    dims: Vec<Vec<Dim>>,
    /// By stage and rule: index into `dims` for each part of the filter.
    parts: Vec<Vec<Vec<usize>>>,
    /// By stage: the rules that have this value (of the dimension with this index) right outside.
    outside: Vec<HashMap<(usize, u128), Vec<usize>>>,
    /// Of each stage's rules; made when first asked for.
    indices: Vec<OnceCell<Index>>,
}

/// Numbers of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Classes: actions of stages.
    pub classes: u64,
    /// Those that were hit.
    pub classes_hit: u64,
    /// Rules.
    pub rules: u64,
    /// Those that were hit.
    pub rules_hit: u64,
    /// Sides of boundaries.
    pub bounds: u64,
    /// Those that were hit.
    pub bounds_hit: u64,
}

impl Coverage {
    /// Nothing has been hit yet.
    pub fn new(program: Arc<Program>) -> Coverage {
        let mut rules = Vec::new();
        let mut dims = Vec::new();
        let mut parts = Vec::new();
        let mut outside = Vec::new();
        for s in &program.stages {
            let mut all: Vec<Dim> = (s.rules.iter())
                .flat_map(|r| r.filter.0.iter().map(|(d, _)| *d))
                .collect();
            all.sort_unstable();
            all.dedup();
            let index = |d: &Dim| all.binary_search(d).unwrap_or(0);
            parts.push(
                (s.rules.iter())
                    .map(|r| r.filter.0.iter().map(|(d, _)| index(d)).collect())
                    .collect(),
            );
            let state = |f: &Filter| RuleState {
                hit: false,
                sides: (f.0.iter())
                    .map(|(d, set)| vec![false; sides(set, width(&program, *d)).len()])
                    .collect(),
            };
            rules.push(s.rules.iter().map(|r| state(&r.filter)).collect());
            let mut near: HashMap<(usize, u128), Vec<usize>> = HashMap::new();
            for (i, r) in s.rules.iter().enumerate() {
                for (d, set) in &r.filter.0 {
                    for (v, inside) in sides(set, width(&program, *d)) {
                        if inside {
                            continue;
                        }
                        let list = near.entry((index(d), v)).or_default();
                        // a hole of one value has it on both sides
                        if list.last() != Some(&i) {
                            list.push(i);
                        }
                    }
                }
            }
            outside.push(near);
            dims.push(all);
        }
        Coverage {
            indices: vec![OnceCell::new(); rules.len()],
            program,
            rules,
            dims,
            parts,
            outside,
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Has the rule taken a packet?
    pub fn rule_hit(&self, stage: usize, rule: usize) -> bool {
        let r = self.rules.get(stage).and_then(|s| s.get(rule));
        r.is_some_and(|r| r.hit)
    }

    /// Has this side been hit?
    pub fn side_hit(&self, s: Side) -> bool {
        let r = self.rules.get(s.stage).and_then(|x| x.get(s.rule));
        let side = r
            .and_then(|r| r.sides.get(s.dim))
            .and_then(|d| d.get(s.side));
        side.copied().unwrap_or(false)
    }

    /// A rule has taken a packet; known from counters.
    pub fn mark_rule(&mut self, stage: usize, rule: usize) {
        if let Some(r) = self.rules.get_mut(stage).and_then(|s| s.get_mut(rule)) {
            r.hit = true;
        }
    }

    /// A frame has come this way. The steps it took, with the packet as it was there and the slots that it had then,
    /// are handed to `visit`.
    pub fn trace(
        &mut self,
        frame: &[u8],
        steps: &[ProgramStep],
        visit: &mut dyn FnMut(&ProgramStep, &Seen),
    ) {
        let program = self.program.clone();
        // which stages may come next, with the packet as it is there; `true`: more than one may come of it
        let mut stack: Vec<(Vec<usize>, Seen, bool)> = Vec::new();
        let first = steps.first().map_or(0, |s| s.stage);
        stack.push((vec![first], Seen::arrive(frame, program.slots.len()), false));
        for step in steps {
            // one that was asked may have sent nothing on
            while let Some((to, _, _)) = stack.last()
                && !to.contains(&step.stage)
            {
                stack.pop();
            }
            let Some((to, mut seen, many)) = stack.pop() else {
                return;
            };
            if many {
                stack.push((to, seen.clone(), true));
            }
            self.stage(step, &seen);
            let Some(stage) = program.stages.get(step.stage) else {
                return;
            };
            let action = step
                .rule
                .and_then(|r| stage.rules.get(r))
                .and_then(|r| stage.actions.get(r.action.0 as usize));
            let Some(action) = action else {
                visit(step, &seen);
                continue;
            };
            let mut bound = step.bound.iter();
            let mut others = Vec::new();
            for s in &action.steps {
                if let Step::Bind {
                    first,
                    bound: next,
                    pass,
                    ..
                } = s
                {
                    others.extend(stages_of(next));
                    others.extend(stages_of(pass));
                    let Some((_, b)) = bound.next() else { continue };
                    let values = [
                        u128::from(b.saddr),
                        u128::from(b.daddr),
                        u128::from(b.sport),
                        u128::from(b.dport),
                        u128::from(b.ip_sum),
                        u128::from(b.transport_sum),
                    ];
                    for (i, v) in values.into_iter().enumerate() {
                        if let Some(slot) = seen.slots.get_mut(usize::from(first.0) + i) {
                            *slot = Some(v);
                        }
                    }
                }
            }
            visit(step, &seen);
            match &action.end {
                End::Goto(s) => {
                    others.push(s.0 as usize);
                    stack.push((others, seen, false));
                    continue;
                }
                End::Write { image, next } => {
                    let mut after = seen.clone();
                    after.apply(image);
                    stack.push((vec![next.0 as usize], after, false));
                }
                End::Ask { image, outputs, .. } => {
                    let mut after = seen.clone();
                    after.apply(image);
                    stack.push((stages_of(outputs), after, true));
                }
                End::Fork(ways) => {
                    for n in ways.iter().rev() {
                        stack.push((stages_of(std::slice::from_ref(n)), seen.clone(), false));
                    }
                }
                _ => {}
            }
            if !others.is_empty() {
                stack.push((others, seen, false));
            }
        }
    }

    /// Marks what a packet hits in one stage.
    fn stage(&mut self, step: &ProgramStep, seen: &Seen) {
        let program = self.program.clone();
        let (Some(stage), Some(dims), Some(parts)) = (
            program.stages.get(step.stage),
            self.dims.get(step.stage),
            self.parts.get(step.stage),
        ) else {
            return;
        };
        let values: Vec<Option<u128>> = dims.iter().map(|d| seen.value(*d)).collect();
        let value = |i: usize| values.get(i).copied().flatten();
        let Some(states) = self.rules.get_mut(step.stage) else {
            return;
        };
        let until = step.rule.unwrap_or(stage.rules.len());
        // rules that a packet misses by one value
        let near = |at: usize| {
            let v = values.get(at).copied().flatten()?;
            let list = self.outside.get(step.stage)?.get(&(at, v))?;
            let before = list.partition_point(|r| *r < until);
            list.get(..before).filter(|l| !l.is_empty()).map(|l| (v, l))
        };
        let many = (0..dims.len()).any(|at| near(at).is_some_and(|(_, l)| l.len() > FEW_NEAR));
        let else_fit = match (many, self.indices.get(step.stage)) {
            (true, Some(index)) => {
                let filters = stage.rules.iter().map(|r| &r.filter);
                others_fit(index.get_or_init(|| Index::new(filters)), &values, until)
            }
            _ => Vec::new(),
        };
        for at in 0..dims.len() {
            let Some((v, rules)) = near(at) else { continue };
            let fit = else_fit.get(at);
            let may = |r: &usize| fit.is_none_or(|f| f[*r / 64] >> (*r % 64) & 1 == 1);
            for r in rules.iter().copied().filter(may) {
                let (Some(rule), Some(part), Some(state)) =
                    (stage.rules.get(r), parts.get(r), states.get_mut(r))
                else {
                    break;
                };
                let mut others = rule.filter.0.iter().zip(part).filter(|(_, p)| **p != at);
                if let Some(i) = part.iter().position(|p| *p == at)
                    && others.all(|((_, set), p)| value(*p).is_some_and(|v| set.contains(v)))
                {
                    mark(&program, &rule.filter, state, i, v, false);
                }
            }
        }
        let Some(r) = step.rule else { return };
        if let (Some(rule), Some(part), Some(state)) =
            (stage.rules.get(r), parts.get(r), states.get_mut(r))
        {
            state.hit = true;
            for (i, at) in part.iter().enumerate() {
                if let Some(v) = value(*at) {
                    mark(&program, &rule.filter, state, i, v, true);
                }
            }
        }
    }

    /// The numbers.
    pub fn counts(&self) -> Counts {
        let mut c = Counts::default();
        for (stage, rules) in self.program.stages.iter().zip(&self.rules) {
            let mut classes = vec![false; stage.actions.len()];
            for (rule, state) in stage.rules.iter().zip(rules) {
                c.rules += 1;
                c.rules_hit += u64::from(state.hit);
                if let (Some(class), true) = (classes.get_mut(rule.action.0 as usize), state.hit) {
                    *class = true;
                }
                for side in state.sides.iter().flatten() {
                    c.bounds += 1;
                    c.bounds_hit += u64::from(*side);
                }
            }
            c.classes += classes.len() as u64;
            c.classes_hit += classes.iter().filter(|h| **h).count() as u64;
        }
        c
    }
}

/// By dimension: the rules (of the first `until`) that a packet of these values may fit in all the others, as bits.
fn others_fit(index: &Index, values: &[Option<u128>], until: usize) -> Vec<Vec<u64>> {
    if index.dims().count() != values.len() {
        return Vec::new();
    }
    let mut scratch = Vec::new();
    let all = vec![u64::MAX; until.div_ceil(64)];
    let fits: Vec<Vec<u64>> = (values.iter().enumerate())
        .map(|(at, v)| match v {
            Some(v) => index.fitting(at, *v, until, &mut scratch),
            None => all.clone(),
        })
        .collect();
    let both = |acc: &mut Vec<u64>, with: &[u64]| {
        acc.iter_mut().zip(with).for_each(|(a, w)| *a &= *w);
    };
    let mut out = Vec::with_capacity(values.len());
    let mut before = all.clone();
    for f in &fits {
        out.push(before.clone());
        both(&mut before, f);
    }
    let mut behind = all;
    for (o, f) in out.iter_mut().zip(&fits).rev() {
        both(o, &behind);
        both(&mut behind, f);
    }
    out
}

fn mark(p: &Program, f: &Filter, state: &mut RuleState, dim: usize, v: u128, inside: bool) {
    let (Some((d, set)), Some(flags)) = (f.0.get(dim), state.sides.get_mut(dim)) else {
        return;
    };
    let bits = width(p, *d);
    // as in `sides`, without making the list
    let max = max_of(bits);
    let mut n = 0;
    for (lo, hi) in set.intervals() {
        if *lo > 0 {
            if inside && v == *lo || !inside && v == *lo - 1 {
                flags[n + usize::from(!inside)] = true;
            }
            n += 2;
        }
        if *hi < max {
            if inside && v == *hi || !inside && v == *hi + 1 {
                flags[n + usize::from(!inside)] = true;
            }
            n += 2;
        }
    }
}

fn stages_of(list: &[Next]) -> Vec<usize> {
    list.iter()
        .filter_map(|n| match n {
            Next::Stage(s) => Some(s.0 as usize),
            Next::Unconnected(_) | Next::Never => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::ElemId;
    use onefold_synth::program::{Action, ActionId, Entry, Rule, Stage, StageId, Why};

    #[test]
    fn both_sides_are_told_apart() {
        let dim = Dim::Bits { bit: 0, bits: 8 };
        let mut filter = Filter::default();
        assert!(filter.narrow(dim, &ValueSet::range(10, 20), 8));
        let stage = Stage {
            at: (ElemId(0), 0),
            why: Why::Entry,
            fresh: true,
            known: Filter::default(),
            among: Vec::new(),
            rules: vec![
                Rule {
                    filter,
                    action: ActionId(0),
                    origin: vec![],
                },
                Rule {
                    filter: Filter::default(),
                    action: ActionId(1),
                    origin: vec![],
                },
            ],
            actions: vec![
                Action {
                    steps: vec![],
                    end: End::Unreachable,
                    path: vec![],
                };
                2
            ],
        };
        let program = Arc::new(Program {
            stages: vec![stage],
            entries: vec![Entry {
                source: ElemId(0),
                stage: StageId(0),
            }],
            ..Program::default()
        });
        let mut c = Coverage::new(program);
        assert_eq!((c.counts().bounds, c.counts().classes), (4, 2));
        let go = |c: &mut Coverage, byte: u8, rule: usize| {
            let step = ProgramStep {
                stage: 0,
                rule: Some(rule),
                ..ProgramStep::default()
            };
            c.trace(&[byte], &[step], &mut |_, _| {});
            (c.counts().bounds_hit, c.counts().classes_hit)
        };
        assert_eq!(go(&mut c, 15, 0), (0, 1));
        assert_eq!(go(&mut c, 10, 0), (1, 1));
        assert_eq!(go(&mut c, 9, 1), (2, 2));
        assert_eq!(go(&mut c, 8, 1), (2, 2));
        assert_eq!(go(&mut c, 21, 1), (3, 2));
        assert_eq!(go(&mut c, 20, 0), (4, 2));
    }
}
