//! Stages that follow one another come to an end.

use crate::program::error::LoadError;
use crate::program::followers::followers_of;
use onefold_synth::program::{Program, Stage};
use std::collections::BTreeSet;

/// Stages that a packet may come to from this one within the same epoch.
fn followers(s: &Stage) -> impl Iterator<Item = u32> + '_ {
    s.actions.iter().flat_map(followers_of)
}

/// Within an epoch nothing that stages read changes, so that a circle would never be left.
pub(super) fn no_cycles(p: &Program) -> Result<(), LoadError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; p.stages.len()];
    for start in 0..p.stages.len() {
        if marks[start] != Mark::New {
            continue;
        }
        marks[start] = Mark::Open;
        let list = |i: usize| followers(&p.stages[i]).collect::<BTreeSet<_>>().into_iter();
        let mut path = vec![(start, list(start))];
        // Bound: every stage is opened once.
        while let Some((at, rest)) = path.last_mut() {
            let at = *at;
            match rest.next() {
                None => {
                    marks[at] = Mark::Done;
                    path.pop();
                }
                Some(next) => match marks.get(next as usize) {
                    Some(Mark::Open) => return Err(LoadError::Cycle { stage: next }),
                    Some(Mark::New) => {
                        marks[next as usize] = Mark::Open;
                        path.push((next as usize, list(next as usize)));
                    }
                    // a stage that does not exist is reported when the action is read
                    Some(Mark::Done) | None => {}
                },
            }
        }
    }
    Ok(())
}
