//! Which arguments of which lists of rules decide about the packets of each rule of a program.

use crate::graph::core::Core;
use crate::graph::rule_counts::{Decision, Decisions};
use crate::program::code::MAX_POSITION;
use crate::program::code::{Action, Code, Cut};
use crate::program::error::LoadError;
use onefold_synth::program::{Counted, EndAt, Origin, Program};

/// Finds them, and notes with actions what executors must see of their packets.
///
/// # Errors
/// When a length does not lie anywhere near a packet.
pub(crate) fn of(code: &mut Code, p: &Program, core: &Core) -> Result<Decisions, LoadError> {
    let lists: Vec<bool> = (0..core.nodes.len() as u32)
        .map(|i| core.counts_rules(i))
        .collect();
    let mut all = Decisions::default();
    let mut at = 0;
    for (i, s) in p.stages.iter().enumerate() {
        for (k, r) in s.rules.iter().enumerate() {
            let action = code.rule_action.get(at).copied();
            at += 1;
            let mut list = Vec::new();
            for o in &r.origin {
                let Some(c) = o
                    .counted
                    .filter(|_| lists.get(o.elem.0 as usize) == Some(&true))
                else {
                    continue;
                };
                near(&c, || format!("stage {i}, rule {k}"))?;
                list.push(decision(o, &c));
            }
            if let Some(a) = action.and_then(|a| code.actions.get_mut(a as usize)) {
                list.iter().for_each(|d| note(a, d));
            }
            all.push(list.into_iter());
        }
    }
    Ok(all)
}

fn decision(o: &Origin, c: &Counted) -> Decision {
    Decision {
        elem: o.elem.0,
        arg: o.arg,
        len: c.len,
        binds: c.binds,
    }
}

fn note(a: &mut Action, d: &Decision) {
    a.behind = a.behind.max(d.binds);
    a.cut = match (a.cut, d.len.end) {
        (cut, EndAt::Same) => cut,
        (Cut::No, end) => Cut::At(end),
        (Cut::At(before), end) if before == end => a.cut,
        _ => Cut::Several,
    };
}

fn near(c: &Counted, place: impl Fn() -> String) -> Result<(), LoadError> {
    let end = match c.len.end {
        EndAt::Same => 0,
        EndAt::Ip4(at) | EndAt::Ip6(at) => at,
    };
    match [c.len.start, end]
        .into_iter()
        .find(|at| i64::from(*at).abs() > MAX_POSITION)
    {
        None => Ok(()),
        Some(at) => Err(LoadError::Position {
            place: place(),
            at: i64::from(at),
        }),
    }
}
