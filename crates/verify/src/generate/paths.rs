//! Paths backwards: from a stage to an entry, one step at a time and by chance, along what the analysis of reachability
//! found possible; then forwards again, collecting what a packet must be like at the entry, and which answers it needs
//! of rewriters.

use super::index::Index;
use super::ways::Map;
use crate::cubes::width;
use crate::reach::Reach;
use crate::reach::bind::{Fields, fields_of};
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{BindKind, ValueSet};
use onefold_synth::program::{Dim, End, Expect, Expr, Filter, Next, Program, Slot, Step};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Longest path.
const MAX_STEPS: usize = 96;
/// Most earlier rules that are remembered.
const MAX_EARLIER: usize = 20_000;
/// Maps behind which a stage's rules are remembered in the entry's terms.
const MAX_TRANSLATIONS: usize = 16;
/// Rules that are remembered so, over all stages.
const MAX_TRANSLATED: usize = 400_000;

/// How an action leads to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// By its end.
    End,
    /// By this step, a binding that is not the expected, at this output.
    Bound(usize, u16),
    /// By this step, without a binding.
    Pass(usize),
    /// Nowhere: up to this step.
    Site(usize),
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    stage: usize,
    rule: usize,
    way: Exit,
}

/// What a rewriter is to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// As expected.
    Expected,
    /// Another binding, which leaves at this output.
    Other(u16),
    /// None.
    Pass,
}

/// A rewriter on a path.
#[derive(Debug, Clone)]
pub struct Passed {
    /// The rewriter and its input.
    pub at: (ElemId, u16),
    /// What is looked up.
    pub kind: BindKind,
    /// Addresses, ports, protocol there, in the entry's terms.
    pub fields: Fields,
    /// Its first slot.
    pub first: Slot,
    /// What is expected.
    pub expect: Option<Expect>,
    /// What it is to answer.
    pub answer: Answer,
}

/// A path from an entry.
#[derive(Debug, Clone)]
pub struct Path {
    /// The entry.
    pub source: ElemId,
    /// What packets are like there.
    pub cube: Filter,
    /// What has become of them.
    pub map: Map,
    /// Rules that took them: stage, rule, and how the stage's terms are said in the entry's.
    rules: Vec<(usize, usize, Map)>,
    /// Rewriters passed, in order.
    pub binds: Vec<Passed>,
    /// Elements are asked on the way.
    pub asked: bool,
}

/// A place where flows of a rewriter begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Stage.
    pub stage: usize,
    /// Rule.
    pub rule: usize,
    /// Step of the rule's action.
    pub step: usize,
}

/// A stage's rules in an entry's terms.
struct Translated {
    /// `None`: it takes nothing, or cannot be said.
    filters: Vec<Option<Filter>>,
    /// Of the filters; in the place of none stands one that takes nothing.
    index: Index,
}

/// A stage's rules in an entry's terms, by how they were carried there.
type Kept = Vec<(Map, Rc<Translated>)>;

/// What a stage's rules are in the entry's terms behind some map: goals of a stage ask for the same again and again.
/// Bound: [`MAX_TRANSLATIONS`] for a stage, [`MAX_TRANSLATED`] rules in all; then what was kept is forgotten.
#[derive(Default)]
pub struct Translations {
    kept: RefCell<HashMap<usize, Kept>>,
    rules: Cell<usize>,
}

impl Translations {
    fn of(&self, p: &Program, stage: usize, map: &Map) -> Rc<Translated> {
        let mut kept = self.kept.borrow_mut();
        let found = kept
            .get(&stage)
            .and_then(|l| l.iter().find(|(m, _)| m == map));
        if let Some((_, t)) = found {
            return t.clone();
        }
        let rules = p.stages.get(stage).map_or(&[][..], |s| &s.rules);
        let filters: Vec<Option<Filter>> = (rules.iter())
            .map(|r| match map.narrow(p, &r.filter, &Filter::default()) {
                Some((f, true)) => Some(f),
                _ => None,
            })
            .collect();
        let nothing = Filter(vec![(Dim::Len, ValueSet::empty())]);
        let index = Index::new(filters.iter().map(|f| f.as_ref().unwrap_or(&nothing)));
        let t = Rc::new(Translated { filters, index });
        self.rules.set(self.rules.get() + rules.len());
        if self.rules.get() > MAX_TRANSLATED {
            kept.clear();
            self.rules.set(rules.len());
        }
        let list = kept.entry(stage).or_default();
        if list.len() >= MAX_TRANSLATIONS {
            list.remove(0);
        }
        list.push((map.clone(), t.clone()));
        t
    }
}

/// All edges, by where they lead.
pub struct Paths {
    into: Vec<Vec<Edge>>,
    entries: Vec<Option<ElemId>>,
    /// Steps to the nearest entry.
    far: Vec<u32>,
}

impl Paths {
    /// The edges of a program that the analysis found possible.
    pub fn of(p: &Program, reach: &Reach) -> Paths {
        let n = p.stages.len();
        let mut into: Vec<Vec<Edge>> = vec![Vec::new(); n];
        for (stage, s) in p.stages.iter().enumerate() {
            for (rule, r) in s.rules.iter().enumerate() {
                let Some(a) = s.actions.get(r.action.0 as usize) else {
                    continue;
                };
                let mut add = |next: &Next, way: Exit| {
                    if let Next::Stage(to) = next
                        && reach.leads(stage, rule, matches!(way, Exit::Bound(..)), to.0 as usize)
                        && let Some(l) = into.get_mut(to.0 as usize)
                    {
                        l.push(Edge { stage, rule, way });
                    }
                };
                for (i, step) in a.steps.iter().enumerate() {
                    if let Step::Bind { bound, pass, .. } = step {
                        for (o, n) in bound.iter().enumerate() {
                            add(n, Exit::Bound(i, o as u16));
                        }
                        pass.iter().for_each(|n| add(n, Exit::Pass(i)));
                    }
                }
                match &a.end {
                    End::Goto(s) => add(&Next::Stage(*s), Exit::End),
                    End::Write { next, .. } => add(&Next::Stage(*next), Exit::End),
                    End::Ask { outputs, .. } => outputs.iter().for_each(|n| add(n, Exit::End)),
                    End::Fork(l) => l.iter().for_each(|n| add(n, Exit::End)),
                    _ => {}
                }
            }
        }
        let mut entries = vec![None; n];
        let mut far = vec![u32::MAX; n];
        for e in &p.entries {
            if let (Some(x), Some(f)) = (
                entries.get_mut(e.stage.0 as usize),
                far.get_mut(e.stage.0 as usize),
            ) {
                *x = Some(e.source);
                *f = 0;
            }
        }
        // bound: every round but the last brings some stage nearer
        loop {
            let mut changed = false;
            for (to, edges) in into.iter().enumerate() {
                let nearest = edges.iter().filter_map(|e| far.get(e.stage)).min();
                let Some(d) = nearest.and_then(|d| d.checked_add(1)) else {
                    continue;
                };
                if far.get(to).is_some_and(|f| d < *f) {
                    far[to] = d;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        Paths { into, entries, far }
    }

    /// Steps to the nearest entry; `None` when there is no way.
    pub fn distance(&self, stage: usize) -> Option<u32> {
        self.far.get(stage).copied().filter(|f| *f != u32::MAX)
    }

    /// A path to a stage, by chance, mostly a short one.
    pub fn sample(&self, p: &Program, stage: usize, rng: &mut Rng) -> Option<Path> {
        self.distance(stage)?;
        let mut back: Vec<Edge> = Vec::new();
        let mut at = stage;
        let straight = rng.one_in(3);
        while self.entries.get(at).copied().flatten().is_none() {
            let edges = self.into.get(at)?;
            let far = |e: &Edge| self.far.get(e.stage).copied().unwrap_or(u32::MAX);
            let nearest = edges.iter().map(far).min()?;
            let short = straight || back.len() > 8 || !rng.one_in(3);
            let some: Vec<&Edge> = (edges.iter())
                .filter(|e| far(e) != u32::MAX && (!short || far(e) == nearest))
                .collect();
            let edge = **rng.pick(&some)?;
            back.push(edge);
            at = edge.stage;
            if back.len() > MAX_STEPS {
                return None;
            }
        }
        let source = self.entries.get(at).copied().flatten()?;
        let mut path = Path {
            source,
            cube: Filter::default(),
            map: Map::default(),
            rules: Vec::new(),
            binds: Vec::new(),
            asked: false,
        };
        for e in back.iter().rev() {
            path.go(p, *e)?;
        }
        Some(path)
    }
}

impl Path {
    /// On along an edge; `None` when nothing can be like that.
    fn go(&mut self, p: &Program, e: Edge) -> Option<()> {
        let stage = p.stages.get(e.stage)?;
        let rule = stage.rules.get(e.rule)?;
        let action = stage.actions.get(rule.action.0 as usize)?;
        self.cube = self.map.narrow(p, &rule.filter, &self.cube)?.0;
        self.rules.push((e.stage, e.rule, self.map.clone()));
        for (i, step) in action.steps.iter().enumerate() {
            let Step::Bind {
                elem,
                port,
                kind,
                image,
                first,
                expect,
                ..
            } = step
            else {
                continue;
            };
            let answer = match e.way {
                Exit::Bound(at, output) if at == i => Answer::Other(output),
                Exit::Pass(at) if at == i => Answer::Pass,
                Exit::Site(at) if at == i => return Some(()),
                _ => Answer::Expected,
            };
            self.binds.push(Passed {
                at: (*elem, *port),
                kind: *kind,
                fields: fields_of(image, *kind).map(|f| f.and_then(|f| self.map.expr(f))),
                first: *first,
                expect: expect.clone(),
                answer,
            });
            if answer != Answer::Expected {
                return Some(());
            }
            expect.as_ref()?;
        }
        self.asked |= matches!(action.end, End::Ask { .. });
        match (&action.end, e.way) {
            (End::Write { image, .. } | End::Ask { image, .. }, Exit::End) => {
                self.map = self.map.then(image);
            }
            (_, Exit::Site(_)) => return None,
            _ => {}
        }
        Some(())
    }

    /// Stages and rules that took its packets.
    pub fn taken(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rules.iter().map(|(stage, rule, _)| (*stage, *rule))
    }

    /// On to where a flow begins; the fields of the binding there, in the entry's terms.
    pub fn to_site(&mut self, p: &Program, s: Site) -> Option<Fields> {
        let way = Exit::Site(s.step);
        self.go(
            p,
            Edge {
                stage: s.stage,
                rule: s.rule,
                way,
            },
        )?;
        let rule = p.stages.get(s.stage)?.rules.get(s.rule)?;
        let action = p.stages.get(s.stage)?.actions.get(rule.action.0 as usize)?;
        match action.steps.get(s.step)? {
            Step::Bind { image, kind, .. } => {
                Some(fields_of(image, *kind).map(|f| f.and_then(|f| self.map.expr(f))))
            }
            Step::Count { .. } => None,
        }
    }

    /// Rules that must not take a packet of `cube`, in the entry's terms, those of a last stage (first `rules` of it)
    /// included.
    pub fn earlier(
        &self,
        p: &Program,
        said: &Translations,
        cube: &Filter,
        last: Option<(usize, usize)>,
    ) -> Vec<Filter> {
        let mut all = Vec::new();
        let here = last.map(|(s, r)| (s, r, self.map.clone()));
        for (stage, rule, map) in self.rules.iter().chain(here.iter()) {
            let rules = said.of(p, *stage, map);
            rules.index.overlapping(cube, *rule, &mut |i| {
                if all.len() < MAX_EARLIER
                    && let Some(Some(f)) = rules.filters.get(i)
                    && !f.is_disjoint(cube)
                {
                    all.push(f.clone());
                }
            });
        }
        all
    }
}

/// Leaves of a cube what gives an expression a value of the set; false when there is none.
pub fn narrow(p: &Program, cube: &mut Filter, e: Option<Expr>, set: &ValueSet) -> bool {
    match e {
        None => true,
        Some(Expr::Const(c)) => set.contains(c),
        Some(Expr::Of(Dim::Slot(_), plus)) if plus != 0 => true,
        Some(Expr::Of(d, plus)) => {
            let w = width(p, d);
            cube.narrow(d, &set.shifted_back(plus, w), w)
        }
    }
}
