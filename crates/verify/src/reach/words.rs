//! Why something cannot be hit, in words.

use super::{Reach, meet};
use crate::cubes::{Left, left, tightened};
use onefold_element::model::ValueSet;
use onefold_synth::program::{End, Filter, Next, StageId, Step};
use onefold_synth::text::Words;

/// Rules that are named.
const MAX_NAMED: usize = 4;
/// Steps to find out which rules suffice.
const STEPS: usize = 2000;
/// Longest text of values.
const MAX_TEXT: usize = 160;

fn short(s: String) -> String {
    match s.chars().count() > MAX_TEXT {
        true => s.chars().take(MAX_TEXT).chain("...".chars()).collect(),
        false => s,
    }
}

impl Reach {
    /// Why nothing comes to a stage.
    pub(super) fn why_nothing(&self, stage: usize) -> String {
        let mut why: Vec<&str> = self
            .blocked
            .get(stage)
            .map_or(&[][..], |l| l)
            .iter()
            .map(String::as_str)
            .collect();
        if why.is_empty() {
            // the stages that lead there
            let p = &self.program;
            let to = StageId(stage as u32);
            let leads = |l: &[Next]| l.contains(&Next::Stage(to));
            let from: Vec<String> = (p.stages.iter().enumerate())
                .filter(|(_, s)| s.actions.iter().any(|a| {
                    let step = |s: &Step| matches!(s, Step::Bind { bound, pass, .. } if leads(bound) || leads(pass));
                    let end = match &a.end {
                        End::Goto(s) => *s == to,
                        End::Write { next, .. } => *next == to,
                        End::Ask { outputs, .. } => leads(outputs),
                        End::Fork(l) => leads(l),
                        _ => false,
                    };
                    end || a.steps.iter().any(step)
                }))
                .map(|(i, _)| i.to_string())
                .take(MAX_NAMED)
                .collect();
            return match from.is_empty() {
                true => format!("nothing leads to stage {stage}"),
                false => format!(
                    "nothing comes to stage {stage}: no packet takes the way there in stage {}",
                    from.join(", ")
                ),
            };
        }
        why.truncate(2);
        format!("nothing comes to stage {stage}: {}", why.join("; "))
    }

    /// Why nothing that comes fits a cube.
    pub(super) fn why_not(&self, stage: usize, cube: &Filter) -> String {
        let p = &self.program;
        let Some(s) = p.stages.get(stage) else {
            return String::new();
        };
        let words = Words::for_stage(p, s).with(cube);
        // one dimension that excludes everything
        for (d, set) in &cube.0 {
            let mut all = ValueSet::empty();
            let mut excluded = true;
            for a in self.at(stage) {
                let now = super::apply::values_of(p, a, *d);
                excluded &= now.is_disjoint(set);
                all = all.union(&now);
            }
            if excluded {
                return short(format!("only {} comes here", words.condition(*d, &all)));
            }
        }
        // dimensions without which something would fit
        let fits = |f: &Filter| {
            self.at(stage)
                .iter()
                .any(|a| meet(p, a, f).is_some_and(|c| tightened(&c, a.tight).is_some()))
        };
        let mut core = cube.clone();
        let mut i = 0;
        while i < core.0.len() {
            let mut less = core.clone();
            less.0.remove(i);
            match fits(&less) {
                true => i += 1,
                false => core = less,
            }
        }
        let names: Vec<String> = (core.0.iter())
            .map(|(d, s)| words.condition(*d, s))
            .collect();
        short(match names.len() {
            0 | 1 => format!(
                "with all that is known of the packets here, none has {}",
                names.join(", ")
            ),
            _ => format!("no packet has {} at once", names.join(" and ")),
        })
    }

    /// Which earlier rules take all.
    pub(super) fn why_taken(&self, stage: usize, rules: usize, cube: &Filter) -> String {
        let p = &self.program;
        let Some(s) = p.stages.get(stage) else {
            return String::new();
        };
        let mut named = self.overlapping(stage, rules, cube);
        let takes = |which: &[usize]| {
            let earlier: Vec<&Filter> = (which.iter())
                .filter_map(|i| s.rules.get(*i))
                .map(|r| &r.filter)
                .collect();
            self.at(stage).iter().all(|a| {
                let Some(c) = meet(p, a, cube) else {
                    return true;
                };
                let mut steps = STEPS;
                left(p, &c, a.tight, &earlier, &mut steps, &mut |_| true) == Left::Nothing
            })
        };
        // one alone, or as few as are easily found
        if let Some(one) = named.iter().find(|i| takes(&[**i])) {
            return format!("rule {one} of stage {stage} takes all of it");
        }
        if named.len() <= 64 {
            let mut i = 0;
            while i < named.len() {
                let mut less = named.clone();
                less.remove(i);
                match takes(&less) {
                    true => named = less,
                    false => i += 1,
                }
            }
        }
        let more = named.len().saturating_sub(MAX_NAMED);
        let list: Vec<String> = named.iter().take(MAX_NAMED).map(usize::to_string).collect();
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!(
            "rules {}{rest} of stage {stage} take all of it",
            list.join(", ")
        )
    }
}
