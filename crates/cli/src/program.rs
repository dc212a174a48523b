//! Programs in words: origins of rules, ends of actions, what a run made of them.

use anyhow::{Context, Result};
use onefold_element::{ElemId, GraphSpec};
use onefold_engine::Graph;
use onefold_engine::program::ProgramStep;
pub use onefold_engine::program::{Plan, PreparedStages};
use onefold_synth::program::{Action, End, Expect, Next, Origin, Program, Step};
use onefold_synth::{Budget, parts, synthesize, text};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A program made for a graph, and how long that took.
#[derive(Clone)]
pub struct Synthesized {
    /// The program.
    pub program: Program,
    /// Seconds, models included.
    pub seconds: f64,
}

/// A fault that tests plant, because no program text can have it.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// The program of before a handler changed a model goes on.
    StaleProgram,
}

#[cfg(debug_assertions)]
impl Fault {
    /// Plants it.
    pub fn plant(fault: Option<Fault>, runner: &mut onefold_engine::program::ProgramRunner) {
        match fault {
            None => {}
            Some(Fault::StaleProgram) => runner.ignore_changes(),
        }
    }
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

/// The program of a graph: the one in the file, or else the one that is made now. Errors in the file's text are
/// printed, and `None` comes back.
pub fn given_or_made(graph: &Graph, file: Option<&Path>) -> Result<Option<Synthesized>> {
    let Some(file) = file else {
        return Ok(Some(synthesize_graph(graph)));
    };
    let start = Instant::now();
    Ok(read(file)?.map(|program| Synthesized {
        program,
        seconds: start.elapsed().as_secs_f64(),
    }))
}

/// A program from a file that has its text, or that of several partial programs, in sequence. Errors in it are
/// printed, and `None` comes back.
pub fn read(file: &Path) -> Result<Option<Program>> {
    read_all(&[file.to_path_buf()])
}

/// What the partial programs of files are together, in sequence.
pub fn read_all(files: &[PathBuf]) -> Result<Option<Program>> {
    let mut parts = Vec::new();
    for file in files {
        let written = std::fs::read_to_string(file);
        let written = written.with_context(|| format!("'{}'", file.display()))?;
        match text::parse_all(&written) {
            Ok(all) => parts.extend(all),
            Err(errors) => {
                for e in &errors {
                    eprintln!("error: {}:{e}", file.display());
                }
                return Ok(None);
            }
        }
    }
    Ok(match parts::compose(&parts) {
        Ok(p) => Some(p),
        Err(e) => {
            let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
            eprintln!("error: {}: {e}", names.join(", "));
            None
        }
    })
}

/// A program from its text. Errors in it are printed, and `None` comes back.
pub fn parse(name: &str, written: &str) -> Option<Program> {
    match text::parse(written) {
        Ok(p) => Some(p),
        Err(errors) => {
            for e in &errors {
                eprintln!("error: {name}:{e}");
            }
            None
        }
    }
}

/// Who knows elements by number: a graph that runs, or one as written.
pub trait Named {
    /// The graph as written.
    fn written(&self) -> &GraphSpec;
    /// An element's full name.
    fn name_of(&self, e: ElemId) -> &str {
        let elem = self.written().elements.get(e.0 as usize);
        elem.map_or("?", |e| &e.name)
    }
}

impl Named for Graph {
    fn written(&self) -> &GraphSpec {
        self.spec()
    }
}

impl Named for GraphSpec {
    fn written(&self) -> &GraphSpec {
        self
    }
}

/// Where a part of a class was written: `element (file:line)`.
pub fn origin(graph: &impl Named, o: &Origin) -> String {
    let loc = location(graph, o);
    match loc.line {
        0 => graph.name_of(o.elem).to_string(),
        _ => format!("{} ({}:{})", graph.name_of(o.elem), loc.file, loc.line),
    }
}

/// The place itself: that of the argument, or of the element's declaration.
pub fn location(graph: &impl Named, o: &Origin) -> onefold_element::SourceLoc {
    let spec = graph.written();
    match o.arg {
        Some(a) => spec.arg_loc(o.elem.0 as usize, a as usize),
        None => {
            (spec.elements.get(o.elem.0 as usize)).map_or(Default::default(), |e| e.decl.clone())
        }
    }
}

/// How an action ends.
pub fn end(graph: &impl Named, a: &Action) -> String {
    let name = |e: &ElemId| graph.name_of(*e).to_string();
    let next = |n: &Next| match n {
        Next::Stage(s) => format!("stage {}", s.0),
        Next::Unconnected(e) => format!("unconnected output of {}", name(e)),
        Next::Never => "never".into(),
    };
    let list = |l: &[Next]| l.iter().map(next).collect::<Vec<_>>().join(", ");
    // packets with another binding than the expected leave the action before its end
    let elsewhere: Vec<String> = (bindings(a).into_iter())
        .map(|(e, ways)| format!("{}: {}", name(&e), list(&ways)))
        .collect();
    let text = match &a.end {
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
        // its last step is asked for replies and flows of other inputs only
        End::Unreachable if elsewhere.is_empty() => return "no packet goes on".to_string(),
        End::Unreachable => {
            return format!("goes on by its binding of {}", elsewhere.join("; of "));
        }
    };
    match elsewhere.is_empty() {
        true => text,
        false => format!("{text}; other bindings of {}", elsewhere.join("; of ")),
    }
}

/// Where packets go on whose binding is not the expected one, by rewriter; those of which there can be any.
pub fn bindings(a: &Action) -> Vec<(ElemId, Vec<Next>)> {
    let of = |s: &Step| match s {
        Step::Bind { elem, bound, .. } => {
            let mut ways = bound.clone();
            ways.retain(|n| *n != Next::Never);
            ways.dedup();
            (!ways.is_empty()).then_some((*elem, ways))
        }
        _ => None,
    };
    a.steps.iter().filter_map(of).collect()
}

/// How an action ended for a packet: at its end, or before, by a binding other than the expected.
pub fn ended(graph: &Graph, a: &Action, s: &ProgramStep) -> String {
    let mut answers = s.bound.iter();
    for step in &a.steps {
        let Step::Bind {
            elem,
            port,
            expect,
            bound,
            ..
        } = step
        else {
            continue;
        };
        let Some((_, b)) = answers.next() else { break };
        let as_expected = |x: &Expect| !b.reply && b.origin == *port && b.output == x.output;
        if expect.as_ref().is_some_and(as_expected) {
            continue;
        }
        if let Some(Next::Stage(to)) = bound.get(usize::from(b.output)) {
            let name = graph.name(*elem);
            return format!("goes on in stage {}, by its binding of {name}", to.0);
        }
    }
    let whole = Action {
        steps: Vec::new(),
        ..a.clone()
    };
    end(graph, &whole)
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
