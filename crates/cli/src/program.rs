//! Programs in words: origins of rules, ends of actions, what a run made of them.

use onefold_elements::ElemId;
use onefold_engine::Graph;
use onefold_engine::program::{LoadError, ProgramRunner, ProgramStep};
use onefold_synth::program::{Action, End, Next, Origin, Program};
use onefold_synth::{Budget, synthesize};
use std::time::Instant;

/// A program made for a graph, and how long that took.
pub struct Synthesized {
    /// The program.
    pub program: Program,
    /// Seconds, models included.
    pub seconds: f64,
}

/// Makes the program of a graph as it is configured now.
pub fn synthesize_graph(graph: &Graph) -> Synthesized {
    let start = Instant::now();
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    Synthesized {
        program,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// A runner for a graph, with its program.
pub fn runner(graph: Graph) -> Result<(ProgramRunner, Synthesized), LoadError> {
    let s = synthesize_graph(&graph);
    let r = ProgramRunner::with_program(graph, &s.program)?;
    Ok((r, s))
}

/// Where a part of a class was written: `element (file:line)`.
pub fn origin(graph: &Graph, o: &Origin) -> String {
    let loc = location(graph, o);
    match loc.line {
        0 => graph.name(o.elem).to_string(),
        _ => format!("{} ({}:{})", graph.name(o.elem), loc.file, loc.line),
    }
}

/// The place itself: that of the argument, or of the element's declaration.
pub fn location(graph: &Graph, o: &Origin) -> onefold_elements::SourceLoc {
    let spec = graph.spec();
    match o.arg {
        Some(a) => spec.arg_loc(o.elem.0 as usize, a as usize),
        None => {
            (spec.elements.get(o.elem.0 as usize)).map_or(Default::default(), |e| e.decl.clone())
        }
    }
}

/// How an action ends.
pub fn end(graph: &Graph, a: &Action) -> String {
    let name = |e: &ElemId| graph.name(*e).to_string();
    let next = |n: &Next| match n {
        Next::Stage(s) => format!("stage {}", s.0),
        Next::Unconnected(e) => format!("unconnected output of {}", name(e)),
    };
    let list = |l: &[Next]| l.iter().map(next).collect::<Vec<_>>().join(", ");
    match &a.end {
        End::Output { sink, .. } => format!("leaves at {}", name(sink)),
        End::Drop { elem, reason } => format!("dropped by {}: {reason}", name(elem)),
        End::Punt { elem, cause, .. } => {
            format!("reference graph from {} on: {cause}", name(elem))
        }
        End::Ask {
            elem,
            cause,
            outputs,
            ..
        } => format!("asks {} ({cause}), then {}", name(elem), list(outputs)),
        End::Write { next, .. } => format!("written out, goes on in stage {}", next.0),
        End::Goto(s) => format!("goes on in stage {}", s.0),
        End::Fork(ways) => format!("copied to {}", list(ways)),
        End::Unreachable => "unreachable".to_string(),
    }
}

/// The action that a traced stage took.
pub fn action<'a>(p: &'a Program, s: &ProgramStep) -> Option<&'a Action> {
    let stage = p.stages.get(s.stage)?;
    let rule = stage.rules.get(s.rule?)?;
    stage.actions.get(rule.action.0 as usize)
}

/// Different actions of all stages: traffic classes.
pub fn classes(p: &Program) -> usize {
    p.stages.iter().map(|s| s.actions.len()).sum()
}

/// Rules of all stages.
pub fn rules(p: &Program) -> usize {
    p.stages.iter().map(|s| s.rules.len()).sum()
}

/// An IPv4 address.
pub fn address(a: u32) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::from(a)
}
