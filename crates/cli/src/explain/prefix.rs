//! What has been done to packets before they come to a stage.

use super::kinds::{Counted, Ops};
use super::{after, plus};
use onefold_element::ElemId;
use onefold_synth::program::*;
use std::collections::VecDeque;

/// Steps before operations are no longer followed from stage to stage.
const MAX_STAGES_PASSED: u32 = 64;

/// What happened to the packets that come to a stage, before.
#[derive(Clone, Default)]
pub(super) struct Prefix {
    pub path: Vec<ElemId>,
    /// Where in the path the epoch began.
    pub epoch: usize,
    pub after: Ops,
    depth: u32,
}

/// The shortest way from an entry to every stage, stage by stage.
pub(super) fn prefixes(program: &Program, kinds: &[Counted]) -> Vec<Option<Prefix>> {
    let mut out: Vec<Option<Prefix>> = vec![None; program.stages.len()];
    let mut queue = VecDeque::new();
    for e in &program.entries {
        if let Some(p) = out.get_mut(e.stage.0 as usize)
            && p.is_none()
        {
            *p = Some(Prefix::default());
            queue.push_back(e.stage);
        }
    }
    while let Some(id) = queue.pop_front() {
        let i = id.0 as usize;
        let (Some(stage), Some(Some(here))) = (program.stages.get(i), out.get(i).cloned()) else {
            continue;
        };
        if here.depth >= MAX_STAGES_PASSED {
            continue;
        }
        for a in &stage.actions {
            // stage, how much of the action's path comes before it, whether an epoch begins there
            let mut ways: Vec<(StageId, usize, bool)> = Vec::new();
            let mut add = |l: &[Next], cut: usize, fresh: bool| {
                for n in l {
                    if let Next::Stage(s) = n {
                        ways.push((*s, cut, fresh));
                    }
                }
            };
            let all = a.path.len();
            match &a.end {
                End::Goto(s) => add(&[Next::Stage(*s)], all, false),
                End::Write { next: s, .. } => add(&[Next::Stage(*s)], all, true),
                End::Fork(l) => add(l, all, false),
                End::Ask { outputs: l, .. } => add(l, all, true),
                _ => {}
            }
            for s in &a.steps {
                if let Step::Bind {
                    elem, bound, pass, ..
                } = s
                {
                    // up to and with the rewriter
                    let cut = a.path.iter().position(|e| e == elem).map_or(all, |p| p + 1);
                    add(bound, cut, false);
                    add(pass, cut, false);
                }
            }
            for (to, cut, fresh) in ways {
                let Some(slot @ None) = out.get_mut(to.0 as usize) else {
                    continue;
                };
                let mut path = here.path.clone();
                path.extend(&a.path[..cut]);
                let mut own = after(path.get(here.epoch..).unwrap_or(&[]), a, kinds);
                if !fresh {
                    // what is written is written when the epoch ends
                    own.retain(|k, _| matches!(*k, "classify" | "count"));
                }
                *slot = Some(Prefix {
                    epoch: if fresh { path.len() } else { here.epoch },
                    path,
                    after: plus(&here.after, &own),
                    depth: here.depth + 1,
                });
                queue.push_back(to);
            }
        }
    }
    out
}
