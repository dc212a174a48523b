//! Which stages follow an action.

use onefold_synth::program::{Action, End, Next, Step};

/// Stages that a packet may come to from an action within the same epoch.
pub(crate) fn followers_of(a: &Action) -> impl Iterator<Item = u32> + '_ {
    let of_next = |n: &Next| match n {
        Next::Stage(s) => Some(s.0),
        Next::Unconnected(_) | Next::Never => None,
    };
    let bound = a.steps.iter().flat_map(move |s| match s {
        Step::Bind { bound, pass, .. } => {
            let all = bound.iter().chain(pass).filter_map(of_next);
            all.collect::<Vec<_>>()
        }
        Step::Count { .. } => Vec::new(),
    });
    let end: Vec<u32> = match &a.end {
        End::Goto(s) => vec![s.0],
        End::Fork(ways) => ways.iter().filter_map(of_next).collect(),
        _ => Vec::new(),
    };
    bound.chain(end)
}
