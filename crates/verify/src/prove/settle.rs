//! Differences that no packet can show, although the functions of a proof see them: nothing comes to the place, or
//! nobody sees it there. That is told by what can be reached ([`crate::reach`]), which knows flows; a proof takes every
//! binding for possible.

use super::Doubt;
use crate::reach::{Facts, Reach, Verdict};
use onefold_element::ElemId;
use onefold_element::model::{Bind, Exit, Model};
use onefold_engine::Graph;
use onefold_synth::{Input, Program};
use std::sync::Arc;

/// Differences, by whether a packet may show them.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// As far as is known.
    pub open: Vec<Doubt>,
    /// Certainly not, for this reason.
    pub never: Vec<(Doubt, String)>,
}

/// Looks at differences that a proof has found between a graph and a program.
pub fn settle(graph: &Graph, program: &Program, different: &[Doubt]) -> Settled {
    let mut out = Settled::default();
    if different.is_empty() {
        return out;
    }
    let reach = Reach::of(Arc::new(program.clone()), &Facts::of(graph.spec(), program));
    let input = graph.synthesis_input();
    for d in different {
        match never(&reach, program, &input, d) {
            Some(why) => out.never.push((d.clone(), why)),
            None => out.open.push(d.clone()),
        }
    }
    out
}

fn never(reach: &Reach, p: &Program, input: &Input, d: &Doubt) -> Option<String> {
    let (stage, action) = (d.stage.0 as usize, d.action? as usize);
    let rules = &p.stages.get(stage)?.rules;
    let mut why = None;
    let mine = |i: &usize| rules.get(*i).is_some_and(|r| r.action.0 as usize == action);
    let reached = (0..rules.len())
        .filter(mine)
        .any(|i| match reach.rule(stage, i) {
            Verdict::Never(w) => {
                why = Some(w);
                false
            }
            _ => true,
        });
    if !reached {
        let why = why.unwrap_or_else(|| "no rule takes it".to_string());
        return Some(format!("no packet comes there: {why}"));
    }
    if d.unless_bound {
        let model = |port| bind_of(input, d.elem, port);
        if let Verdict::Never(why) = reach.strange(stage, action, d.elem, &model) {
            return Some(format!("the rewriter alone has the packet: {why}"));
        }
    }
    None
}

/// What the model of a rewriter says of its bindings.
fn bind_of(input: &Input, elem: ElemId, port: u16) -> Option<Bind> {
    let models = &input.elements.get(elem.0 as usize)?.models;
    let Model::Cases(cases) = models.get(usize::from(port))? else {
        return None;
    };
    cases.iter().find_map(|c| match &c.exit {
        Exit::Bind(b) => Some((**b).clone()),
        _ => None,
    })
}
