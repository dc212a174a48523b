//! What of a program can be reached at all: from every entry, the packets and slots that can come to every stage, as a
//! bounded union of cubes.
//!
//! The analysis goes forward: through every rule's filter less the rules before it, through what bindings may answer
//! ([`bind`]), through images ([`apply`]). It errs on one side: what cannot be shown to be impossible counts as
//! possible, so a rule or a side of a boundary that is called unreachable ([`Verdict::Never`]) is never hit. `verify`
//! checks that with every packet that it sends.
//!
//! It takes for granted what a program promises of its elements: a bound flow is rewritten as its input's pattern
//! says, and an element that is asked leaves packets and annotations as they were. Packets that the reference graph
//! takes over make the bindings that packets of the program make at the same input, except at rewriters that the
//! caller names ([`Facts::loose`]), and at those where none of the program's packets begins a flow and such packets
//! can come ([`Facts::punted`]): there anything is possible. What is taken over at a rewriter itself is known.

pub mod apply;
pub mod bind;
pub mod facts;
mod forward;
pub mod proved;
pub mod strange;
#[cfg(test)]
mod tests;
mod words;

pub use facts::Facts;

use crate::cubes::{Left, PER_STEP, both, left, tightened, width};
use crate::gap::Gap;
use crate::generate::index::Index;
use crate::stop::Stop;
use onefold_element::ElemId;
use onefold_element::model::{AnnoKey, ValueSet};
use onefold_synth::program::{Dim, EndAt, Filter, Program};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Steps of a search behind earlier rules.
const SEARCH_STEPS: usize = 20_000;

/// So many times all earlier rules may be looked at for a gap between them.
const GAP_LOOKS: usize = 6;
/// A question costs as much as looking at so many rules, whatever it is.
const ASKING: usize = 64;

/// How packets come to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct From {
    /// From this stage.
    pub stage: usize,
    /// By this rule.
    pub rule: usize,
    /// By a binding other than the expected.
    pub bound: bool,
}

/// Some of the packets that come to a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// What they are like, in the terms of the stage's epoch.
    pub cube: Filter,
    /// They end where an IP packet ends.
    pub tight: Option<EndAt>,
    /// Annotations that nobody set are zero.
    pub zero: bool,
    /// Those that somebody may have set.
    pub set: Vec<AnnoKey>,
    /// Where from; `None`: from outside.
    pub from: Option<From>,
}

impl Arrived {
    /// Packets from outside.
    pub fn entering() -> Arrived {
        Arrived {
            cube: Filter::default(),
            tight: None,
            zero: true,
            set: Vec::new(),
            from: None,
        }
    }
    /// Are all of `o` among these?
    fn covers(&self, o: &Arrived) -> bool {
        self.cube.covers(&o.cube)
            && (self.tight.is_none() || self.tight == o.tight)
            && (!self.zero || o.zero && o.set.iter().all(|k| self.set.contains(k)))
    }
}

/// Can it be hit?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As far as can be told.
    Can,
    /// The search was given up.
    Unknown,
    /// Certainly not, for this reason.
    Never(String),
}

impl Verdict {
    /// Certainly not?
    pub fn is_never(&self) -> bool {
        matches!(self, Verdict::Never(_))
    }
}

/// What can come to every stage.
pub struct Reach {
    program: Arc<Program>,
    /// By stage.
    arrived: Vec<Vec<Arrived>>,
    /// By stage: why a way to it is none.
    blocked: Vec<Vec<String>>,
    /// Stage, rule, by another binding than the expected; and the stage that packets come to by it.
    ways: BTreeSet<(usize, usize, bool, usize)>,
    /// Of each stage's rules; made when first asked for.
    indices: Vec<OnceLock<Index>>,
    /// Flows that may begin.
    flows: bind::Flows,
    /// Others than the program's packets may begin flows there.
    loose: BTreeSet<ElemId>,
    /// The bound on work was not reached.
    whole: bool,
    /// Nobody waits for answers any more.
    stop: Stop,
    /// Rules that were looked at for questions.
    work: AtomicU64,
}

impl Clone for Reach {
    fn clone(&self) -> Reach {
        Reach {
            program: self.program.clone(),
            arrived: self.arrived.clone(),
            blocked: self.blocked.clone(),
            ways: self.ways.clone(),
            indices: self.indices.clone(),
            flows: self.flows.clone(),
            loose: self.loose.clone(),
            whole: self.whole,
            stop: self.stop,
            work: AtomicU64::new(self.work()),
        }
    }
}

impl Reach {
    /// The analysis, with what is known of the chain beyond its program.
    pub fn of(program: Arc<Program>, facts: &Facts) -> Reach {
        Reach::of_until(program, facts, Stop::default())
    }

    /// The same; once it is to stop, everything is possible, and questions are not answered ([`Verdict::Unknown`]).
    pub fn of_until(program: Arc<Program>, facts: &Facts, stop: Stop) -> Reach {
        let found = forward::run(&program, facts, stop);
        Reach {
            indices: found.indices,
            program,
            arrived: found.arrived,
            blocked: found.blocked,
            ways: found.ways,
            flows: found.flows,
            loose: found.loose,
            whole: found.whole,
            stop,
            work: AtomicU64::new(0),
        }
    }

    /// Flows that may begin, by rewriter and input, as they come there.
    pub fn flows(&self) -> impl Iterator<Item = (ElemId, u16, &bind::Begins)> {
        let all = self.flows.0.iter();
        all.map(|((e, port), b)| (*e, *port, b))
    }

    /// The packets that can come to a stage.
    pub fn at(&self, stage: usize) -> &[Arrived] {
        self.arrived.get(stage).map_or(&[], |l| l)
    }

    /// Can packets come from a stage to another by this rule?
    pub fn leads(&self, stage: usize, rule: usize, bound: bool, to: usize) -> bool {
        self.ways.contains(&(stage, rule, bound, to))
    }

    /// Rules that were looked at so far, about: what questions cost.
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Set when it is to end.
    pub fn stop(&self) -> Stop {
        self.stop
    }

    fn worked(&self, rules: usize) {
        self.work.fetch_add(rules as u64, Ordering::Relaxed);
    }

    /// Can packets of `cube` come to a stage and past its first `rules` rules?
    pub fn ask(&self, stage: usize, rules: usize, cube: &Filter) -> Verdict {
        let p = &self.program;
        let Some(s) = p.stages.get(stage) else {
            return Verdict::Unknown;
        };
        if self.stop.asked() {
            return Verdict::Unknown;
        }
        let all = self.at(stage);
        if all.is_empty() {
            return Verdict::Never(self.why_nothing(stage));
        }
        let earlier: Vec<&Filter> = (self.overlapping(stage, rules, cube).iter())
            .filter_map(|i| s.rules.get(*i))
            .map(|r| &r.filter)
            .collect();
        // the index keeps a set of all of them as bits
        self.worked(ASKING + rules / 64 + earlier.len());
        let mut steps = SEARCH_STEPS;
        let mut taken = false;
        for a in all {
            let Some(c) = meet(p, a, cube) else { continue };
            let Some(c) = tightened(&c, a.tight) else {
                continue;
            };
            taken = true;
            let mut gap = Gap {
                width: &|d| width(p, d),
                tightened: &|f| tightened(f, a.tight),
                work: GAP_LOOKS * (earlier.len() + 1),
            };
            let gaps = gap.work;
            if gap.find(&c, &earlier, &mut |_| true) {
                self.worked(gaps - gap.work);
                return Verdict::Can;
            }
            let before = steps;
            let found = left(p, &c, a.tight, &earlier, &mut steps, &mut |_| true);
            self.worked(gaps - gap.work + (before - steps) * PER_STEP);
            match found {
                Left::Nothing => {}
                Left::Something => return Verdict::Can,
                Left::TooLong => return Verdict::Unknown,
            }
        }
        Verdict::Never(match taken {
            true => self.why_taken(stage, rules, cube),
            false => self.why_not(stage, cube),
        })
    }

    /// Those of a stage's first `rules` rules that may take packets of a cube.
    fn overlapping(&self, stage: usize, rules: usize, cube: &Filter) -> Vec<usize> {
        let mut all = Vec::new();
        if let (Some(s), Some(index)) = (self.program.stages.get(stage), self.indices.get(stage)) {
            let index = index.get_or_init(|| Index::new(s.rules.iter().map(|r| &r.filter)));
            index.overlapping(cube, rules, &mut |i| {
                if s.rules.get(i).is_some_and(|r| !r.filter.is_disjoint(cube)) {
                    all.push(i);
                }
            });
        }
        all
    }

    /// Can a rule take a packet?
    pub fn rule(&self, stage: usize, rule: usize) -> Verdict {
        let r = (self.program.stages.get(stage)).and_then(|s| s.rules.get(rule));
        match r {
            Some(r) => self.ask(stage, rule, &r.filter),
            None => Verdict::Unknown,
        }
    }

    /// Can a packet have this value of a dimension of a rule's filter, fit all the others, and come past the rules
    /// before?
    pub fn side(&self, stage: usize, rule: usize, dim: usize, value: u128) -> Verdict {
        let r = (self.program.stages.get(stage)).and_then(|s| s.rules.get(rule));
        let Some(mut cube) = r.map(|r| r.filter.clone()) else {
            return Verdict::Unknown;
        };
        match cube.0.get_mut(dim) {
            Some((_, set)) => *set = ValueSet::one(value),
            None => return Verdict::Unknown,
        }
        self.ask(stage, rule, &cube)
    }
}

/// Packets that came and fit a cube.
fn meet(p: &Program, a: &Arrived, cube: &Filter) -> Option<Filter> {
    let mut out = both(p, &a.cube, cube)?;
    // annotations of which the cube speaks and the packets do not
    for (d, set) in &cube.0 {
        if let Dim::Anno(_) = d {
            let now = apply::values_of(p, a, *d);
            if now.is_disjoint(set) || !out.narrow(*d, &now, width(p, *d)) {
                return None;
            }
        }
    }
    Some(out)
}
