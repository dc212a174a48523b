//! Which packets, by the class that they enter with, may come to a class that is in doubt.

use onefold_synth::program::{Action, End, Next, Program, Step};
use std::collections::BTreeSet;

type Class = (usize, usize);

/// Classes of all entries.
pub(crate) fn all(p: &Program) -> BTreeSet<Class> {
    entries(p)
        .flat_map(|s| {
            let n = p.stages.get(s).map_or(0, |s| s.actions.len());
            (0..n).map(move |a| (s, a))
        })
        .collect()
}

/// Classes of entries from which packets may come to one of these, whatever happens on the way.
pub(crate) fn entries_to(p: &Program, doubt: &BTreeSet<Class>) -> BTreeSet<Class> {
    let mut leads = vec![false; p.stages.len()];
    for (s, _) in doubt {
        if let Some(l) = leads.get_mut(*s) {
            *l = true;
        }
    }
    let to = |leads: &[bool], a: &Action| {
        let mut found = false;
        each_next(a, &mut |s| found |= leads.get(s) == Some(&true));
        found
    };
    // what is in doubt at the stage itself counts only for its own classes, but for those before it is all one
    loop {
        let mut more = false;
        for (i, s) in p.stages.iter().enumerate() {
            if !leads[i] && s.actions.iter().any(|a| to(&leads, a)) {
                leads[i] = true;
                more = true;
            }
        }
        // Bound: every round marks another stage.
        if !more {
            break;
        }
    }
    let mut found = BTreeSet::new();
    for s in entries(p) {
        let Some(stage) = p.stages.get(s) else {
            continue;
        };
        for (i, a) in stage.actions.iter().enumerate() {
            if doubt.contains(&(s, i)) || to(&leads, a) {
                found.insert((s, i));
            }
        }
    }
    found
}

fn entries(p: &Program) -> impl Iterator<Item = usize> + '_ {
    p.entries.iter().map(|e| e.stage.0 as usize)
}

/// Stages that packets of an action may come to next, in this epoch or the next one.
fn each_next(a: &Action, f: &mut impl FnMut(usize)) {
    let list = |l: &[Next], f: &mut dyn FnMut(usize)| {
        for n in l {
            if let Next::Stage(s) = n {
                f(s.0 as usize);
            }
        }
    };
    for step in &a.steps {
        if let Step::Bind { bound, pass, .. } = step {
            list(bound, f);
            list(pass, f);
        }
    }
    match &a.end {
        End::Ask { outputs, .. } => list(outputs, f),
        End::Fork(ways) => list(ways, f),
        End::Goto(s) | End::Write { next: s, .. } => f(s.0 as usize),
        _ => {}
    }
}
