//! Ways round within one epoch: copies that come back to where they were made. No program may have them.

use crate::program::{Action, End, Next, Stage, Step};

/// A stage that a way within one epoch leads back to, if there is one. A depth-first walk with its own stack.
pub(crate) fn loops<'a>(stages: impl Iterator<Item = Option<&'a Stage>>) -> Option<usize> {
    let next: Vec<Vec<usize>> = stages
        .map(|s| {
            let actions = s.into_iter().flat_map(|s| &s.actions);
            let mut v: Vec<usize> = actions.flat_map(within_epoch).collect();
            v.sort_unstable();
            v.dedup();
            v
        })
        .collect();
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::Never; next.len()];
    for root in 0..next.len() {
        if seen[root] != Seen::Never {
            continue;
        }
        seen[root] = Seen::OnTheWay;
        let mut way = vec![(root, 0usize)];
        while let Some((s, i)) = way.pop() {
            let Some(to) = next[s].get(i) else {
                seen[s] = Seen::Done;
                continue;
            };
            way.push((s, i + 1));
            match seen.get(*to) {
                Some(Seen::Never) => {
                    seen[*to] = Seen::OnTheWay;
                    way.push((*to, 0));
                }
                Some(Seen::OnTheWay) => return Some(*to),
                Some(Seen::Done) | None => {}
            }
        }
    }
    None
}

/// The stages that an action leads to within its epoch.
fn within_epoch(a: &Action) -> Vec<usize> {
    let mut all: Vec<&Next> = Vec::new();
    for s in &a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            all.extend(bound.iter().chain(pass));
        }
    }
    let goto = match &a.end {
        End::Goto(s) => Some(s.0 as usize),
        End::Fork(l) => {
            all.extend(l);
            None
        }
        _ => None,
    };
    let stages = all.into_iter().filter_map(|n| match n {
        Next::Stage(s) => Some(s.0 as usize),
        _ => None,
    });
    stages.chain(goto).collect()
}
