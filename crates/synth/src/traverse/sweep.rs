//! Stages that nobody enters leave the program.

use crate::program::{Action, End, Next, Program, StageId, Step};

/// Keeps the stages that an entry leads to, in their order.
pub(super) fn sweep(p: &mut Program) {
    let mut seen = vec![false; p.stages.len()];
    let mut waiting: Vec<StageId> = p.entries.iter().map(|e| e.stage).collect();
    // Bound: every stage once.
    while let Some(s) = waiting.pop() {
        let (Some(stage), Some(first @ false)) =
            (p.stages.get_mut(s.0 as usize), seen.get_mut(s.0 as usize))
        else {
            continue;
        };
        *first = true;
        for a in &mut stage.actions {
            leads_to(a, |to| waiting.push(*to));
        }
    }
    if seen.iter().all(|s| *s) {
        return;
    }
    let mut number = 0;
    let new: Vec<StageId> = seen
        .iter()
        .map(|s| {
            let id = StageId(number);
            number += u32::from(*s);
            id
        })
        .collect();
    let mut keep = seen.iter();
    p.stages.retain(|_| keep.next() == Some(&true));
    let again = |to: &mut StageId| *to = new.get(to.0 as usize).copied().unwrap_or(*to);
    for a in p.stages.iter_mut().flat_map(|s| &mut s.actions) {
        leads_to(a, again);
    }
    for e in &mut p.entries {
        again(&mut e.stage);
    }
}

/// Every stage that an action names.
fn leads_to(a: &mut Action, mut f: impl FnMut(&mut StageId)) {
    let mut list = |l: &mut Vec<Next>| {
        for n in l {
            if let Next::Stage(s) = n {
                f(s);
            }
        }
    };
    for s in &mut a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            list(bound);
            list(pass);
        }
    }
    match &mut a.end {
        End::Ask { outputs, .. } => list(outputs),
        End::Fork(l) => list(l),
        End::Write { next, .. } => f(next),
        End::Goto(next) => f(next),
        End::Output { .. } | End::Drop { .. } | End::Punt { .. } | End::Unreachable => {}
    }
}
