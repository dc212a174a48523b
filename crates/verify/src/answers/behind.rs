//! Classes behind others: what packets must have been is followed back, rule by rule, to where they come in.

use super::filters::exists;
use super::ways::{back, image, next_stages};
use crate::cubes::both;
use onefold_element::ElemId;
use onefold_synth::Program;
use onefold_synth::program::Filter;
use std::collections::BTreeMap;

/// Rules that are looked at for one question.
const VISITS: usize = 4_000;
/// Stages one behind the other.
const MAX_DEPTH: usize = 12;
/// Parts of a set that earlier rules leave, which are told.
const PARTS: usize = 8;
/// Filters of earlier rules that are heeded; what others take is tried in vain.
const MAX_TAKEN: usize = 20_000;

/// Which rules lead to which stages.
pub(super) struct Back<'a> {
    program: &'a Program,
    /// By stage: stage and number of each rule.
    leads: BTreeMap<usize, Vec<(usize, usize)>>,
    visits: usize,
}

impl<'a> Back<'a> {
    /// Of a program.
    pub(super) fn new(program: &'a Program) -> Back<'a> {
        let mut leads: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (i, s) in program.stages.iter().enumerate() {
            for (j, r) in s.rules.iter().enumerate() {
                let Some(a) = s.actions.get(r.action.0 as usize) else {
                    continue;
                };
                for to in next_stages(a) {
                    leads.entry(to.0 as usize).or_default().push((i, j));
                }
            }
        }
        let visits = VISITS;
        Back {
            program,
            leads,
            visits,
        }
    }

    /// Tells `found` of sets of packets, by where they come in, that may become packets of `cube` at a rule of a stage.
    /// Ended when it says true, or by the bound; says whether it did.
    pub(super) fn seek(
        &mut self,
        at: (usize, usize),
        cube: &Filter,
        found: &mut dyn FnMut(ElemId, &Filter) -> bool,
    ) -> bool {
        self.from(at, (cube, &[]), 0, found)
    }

    fn from(
        &mut self,
        (stage, rule): (usize, usize),
        (cube, taken): (&Filter, &[Filter]),
        depth: usize,
        found: &mut dyn FnMut(ElemId, &Filter) -> bool,
    ) -> bool {
        let p = self.program;
        let Some(s) = p.stages.get(stage).filter(|_| depth < MAX_DEPTH) else {
            return false;
        };
        if self.visits == 0 {
            return false;
        }
        self.visits -= 1;
        // what earlier rules take, here and in the stages behind
        let mut earlier = taken.to_vec();
        let own = s.rules.iter().take(rule).map(|r| &r.filter);
        earlier.extend(own.filter(|f| !f.is_disjoint(cube)).cloned());
        earlier.truncate(MAX_TAKEN);
        let leads = self.leads.get(&stage).cloned().unwrap_or_default();
        let entries = p.entries.iter().filter(|e| e.stage.0 as usize == stage);
        let sources: Vec<ElemId> = entries.map(|e| e.source).collect();
        if !sources.is_empty() {
            let all: Vec<&Filter> = earlier.iter().collect();
            let (mut parts, mut done) = (0, false);
            exists(p, cube, &all, &mut |part| {
                parts += 1;
                done = sources.iter().any(|s| found(*s, part));
                done || parts == PARTS
            });
            if done {
                return true;
            }
        }
        for (i, j) in leads {
            let lead = p.stages.get(i).and_then(|s| {
                let r = s.rules.get(j)?;
                Some((r, s.actions.get(r.action.0 as usize)?))
            });
            let Some((r, a)) = lead else { continue };
            let image = image(a);
            let before = |f: &Filter, at: Filter| match &image {
                None => both(p, f, &at),
                Some(image) => back(p, f, image, at),
            };
            let Some(come) = before(cube, r.filter.clone()) else {
                continue;
            };
            let taken = earlier.iter().filter_map(|f| before(f, Filter::default()));
            let taken: Vec<Filter> = taken.filter(|f| !f.is_disjoint(&come)).collect();
            if self.from((i, j), (&come, &taken), depth + 1, found) {
                return true;
            }
        }
        false
    }
}
