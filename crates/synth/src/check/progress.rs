//! Invariant 10: no packet comes round to a stage within one epoch.

use super::{Checker, Place, stage_place};
use crate::program::*;

impl Checker<'_> {
    /// Invariant 10: a depth-first walk with its own stack over the ways within an epoch.
    pub(super) fn progress(&mut self) {
        let next: Vec<Vec<u32>> = self
            .p
            .stages
            .iter()
            .map(|s| {
                let mut v = Vec::new();
                for a in &s.actions {
                    within_epoch(a, |s| v.push(s.0));
                }
                v.sort_unstable();
                v.dedup();
                v
            })
            .collect();
        let mut state = vec![0u8; next.len()];
        for root in 0..next.len() {
            let mut stack = match state[root] {
                0 => vec![(root, 0usize)],
                _ => continue,
            };
            state[root] = 1;
            while let Some((s, i)) = stack.pop() {
                let Some(t) = next[s].get(i).map(|t| *t as usize) else {
                    state[s] = 2;
                    continue;
                };
                stack.push((s, i + 1));
                match state.get(t) {
                    Some(0) => {
                        state[t] = 1;
                        stack.push((t, 0));
                    }
                    Some(1) => {
                        self.place = stage_place(s);
                        self.wrong(10, format!("stage{t} leads back to this stage"));
                    }
                    _ => {}
                }
            }
        }
        self.place = Place::default();
    }
}

/// Calls `f` with every stage that an action leads to within its epoch.
fn within_epoch(a: &Action, mut f: impl FnMut(StageId)) {
    let mut list = |l: &[Next]| {
        for n in l {
            if let Next::Stage(s) = n {
                f(*s);
            }
        }
    };
    for s in &a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            list(bound);
            list(pass);
        }
    }
    match &a.end {
        End::Goto(s) => list(&[Next::Stage(*s)]),
        End::Fork(l) => list(l),
        _ => {}
    }
}
