//! Synthesized programs, executed.
//!
//! A [`ProgramRunner`] is a [`Graph`] and a [`Program`] made for it. [`ProgramRunner::inject`] does what [`Graph::inject`] does
//! (the clock, what is due before, the packet, then quiescence), but the packet goes through the program: entry stage, first
//! rule that fits, steps, end. Bytes, order, ports, drops and the state left behind are those of the reference graph, with which
//! the program shares every element's state.
//!
//! - Loading checks every number in the program ([`LoadError`]); whatever it says, the executor does not panic and comes to an
//!   end: stages within an epoch form no circle, epochs per packet and stages per injection are bounded.
//! - A program is compiled into flat arrays: registers (what filters read, taken out once per epoch), tests, tree nodes, images.
//! - Where a packet leaves the program (a punt), it goes into the reference graph as it would be there.
//! - When a write handler has changed a model, packets take the reference graph until a new program is loaded
//!   ([`ProgramRunner::needs_synthesis`]).
//!
//! ```
//! use onefold_engine::program::ProgramRunner;
//! use onefold_engine::{BuildOptions, Graph, spec_from_flat};
//! use onefold_synth::program::{Action, ActionId, End, Entry, Filter, Program, Rule, Stage, StageId, Why};
//! let text = "FromDevice(a) -> d :: Discard;";
//! let flat = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
//! let (a, d) = (graph.source("a").unwrap(), graph.find("d").unwrap());
//! let rule = Rule { filter: Filter::default(), action: ActionId(0), origin: vec![] };
//! let end = End::Drop { elem: d, reason: "Discard".into() };
//! let action = Action { steps: vec![], end, path: vec![a, d] };
//! let program = Program {
//!     elements: (0..graph.len()).map(|i| graph.spec().elements[i].name.clone()).collect(),
//!     entries: vec![Entry { source: a, stage: StageId(0) }],
//!     stages: vec![Stage {
//!         at: (a, 0),
//!         why: Why::Entry,
//!         fresh: true,
//!         known: Filter::default(),
//!         among: Vec::new(),
//!         rules: vec![rule],
//!         actions: vec![action],
//!     }],
//!     ..Program::default()
//! };
//! let mut runner = ProgramRunner::with_program(graph, &program).unwrap();
//! runner.inject(a, &[0; 60], Default::default());
//! assert_eq!(runner.report().classes()[0].packets, 1);
//! assert!(runner.graph().totals().balanced());
//! ```

mod checks;
mod classify;
mod code;
mod error;
mod exec;
mod image;
mod intern;
mod load;
mod regs;
mod report;
mod trace;

pub use error::LoadError;
pub use report::{ClassCount, PuntCount, Report, RuleCount};
pub use trace::ProgramStep;

use crate::graph::Graph;
use crate::trace::TraceStep;
use code::{Code, NONE};
use onefold_elements::ElemId;
use onefold_elements::model::Model;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::program::Program;
use std::sync::Arc;

/// A program that is valid for the graph as it is.
struct Loaded {
    code: Arc<Code>,
    /// By rule: what it is recognized by.
    keys: Arc<Vec<u64>>,
    state: exec::State,
    /// The models that the program was made of.
    models: Arc<Vec<Vec<Model>>>,
    /// [`Graph::changes`] up to which they are known to be the same.
    seen: u64,
    /// They are not the same any more.
    stale: bool,
    /// Packets that entered the program.
    packets: u64,
}

/// A graph and the program that stands for it; see the module's text.
pub struct ProgramRunner {
    graph: Graph,
    loaded: Option<Loaded>,
    reference: u64,
}

impl std::fmt::Debug for ProgramRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramRunner")
            .field("graph", &self.graph)
            .field("program", &self.loaded.is_some())
            .finish_non_exhaustive()
    }
}

impl ProgramRunner {
    /// Without a program: every packet takes the reference graph.
    pub fn new(graph: Graph) -> ProgramRunner {
        ProgramRunner {
            graph,
            loaded: None,
            reference: 0,
        }
    }

    /// With a program.
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed.
    pub fn with_program(graph: Graph, program: &Program) -> Result<ProgramRunner, LoadError> {
        let mut r = ProgramRunner::new(graph);
        r.load(program)?;
        Ok(r)
    }

    /// Goes on with this program, made of the models as they are now. Packets counted before
    /// stay counted: with their class where it is in the new program, too, else in [`Report::gone`].
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed; the old one stays then.
    pub fn load(&mut self, program: &Program) -> Result<(), LoadError> {
        let code = load::load(program, &self.graph.core.topo)?;
        let models = all_models(&self.graph);
        self.graph.core.changed.clear();
        let keys = report::keys(program);
        let mut state = exec::State::new(&code);
        if let Some(old) = &self.loaded {
            let names = &self.graph.core.topo.names;
            (state.counts).go_on(&keys, &old.state.counts, &old.code, &old.keys, names);
        }
        self.loaded = Some(Loaded {
            state,
            code: Arc::new(code),
            keys: Arc::new(keys),
            models: Arc::new(models),
            seen: self.graph.core.changes,
            stale: false,
            packets: self.loaded.as_ref().map_or(0, |l| l.packets),
        });
        Ok(())
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    /// The graph, to be changed: handlers written to, traces taken. Packets injected into it directly take the reference.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
    /// The graph alone.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// Have models changed since the program was loaded? Packets take the reference graph then. Also when there is no program.
    pub fn needs_synthesis(&mut self) -> bool {
        !self.valid()
    }

    /// Is there a program, and is it that of the graph as it is now?
    #[inline]
    fn valid(&mut self) -> bool {
        match &self.loaded {
            None => false,
            Some(l) if l.seen == self.graph.core.changes => !l.stale,
            Some(_) => self.look_again(),
        }
    }

    /// Handlers have been written to: are the models still the same?
    #[cold]
    fn look_again(&mut self) -> bool {
        let Some(l) = self.loaded.as_mut() else {
            return false;
        };
        let changed = std::mem::take(&mut self.graph.core.changed);
        l.seen = self.graph.core.changes;
        if l.stale {
            return false;
        }
        // an element that shares state with others may have changed their models, too
        let alone = |e: &u32| {
            let n = self.graph.core.nodes.get(*e as usize);
            let elem = n.and_then(|n| n.elem.as_ref());
            elem.is_some_and(|elem| elem.states().is_empty())
                && self.graph.store.published_by(ElemId(*e)).is_none()
        };
        l.stale = match changed.iter().all(alone) {
            true => changed
                .iter()
                .any(|e| l.models.get(*e as usize) != Some(&self.graph.models_of(ElemId(*e)))),
            false => *l.models != all_models(&self.graph),
        };
        !l.stale
    }

    /// As [`Graph::inject`], through the program.
    pub fn inject(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        let mut p = self.graph.make_packet(data);
        p.anno.timestamp = at;
        self.inject_packet(source, p, at);
    }

    /// As [`Graph::inject_packet`] into a source, through the program.
    pub fn inject_packet(&mut self, source: ElemId, p: Pkt, at: Timestamp) {
        let g = &mut self.graph;
        g.core.advance(at, &mut g.out, &mut g.store);
        // what was due before may have called handlers
        let stage = match self.valid() {
            true => self.entry(source),
            false => NONE,
        };
        match &mut self.loaded {
            Some(l) if stage != NONE => {
                l.packets += 1;
                let g = &mut self.graph;
                g.packets_in += 1;
                g.core.steps = 0;
                g.core.batch_tasks = false;
                exec::run(&l.code, &mut l.state, g, stage, p);
                g.core.quiesce(&mut g.out, &mut g.store);
            }
            _ => {
                self.reference += 1;
                let entry = self.graph.entry(source);
                self.graph.inject_packet(source, entry, p, at);
            }
        }
    }

    fn entry(&self, source: ElemId) -> u32 {
        let code = self.loaded.as_ref().map(|l| &l.code);
        let stage = code.and_then(|c| c.entries.get(source.0 as usize));
        stage.copied().unwrap_or(NONE)
    }

    /// As [`Graph::advance_to`].
    pub fn advance_to(&mut self, at: Timestamp) {
        self.graph.advance_to(at);
    }

    /// A copy of everything, as [`Graph::fork`].
    pub fn fork(&self) -> ProgramRunner {
        ProgramRunner {
            graph: self.graph.fork(),
            loaded: self.loaded.as_ref().map(|l| {
                let mut state = exec::State::new(&l.code);
                state.counts = l.state.counts.clone();
                Loaded {
                    code: l.code.clone(),
                    keys: l.keys.clone(),
                    state,
                    models: l.models.clone(),
                    seen: l.seen,
                    stale: l.stale,
                    packets: l.packets,
                }
            }),
            reference: self.reference,
        }
    }

    /// What has been counted since the first program was loaded.
    pub fn report(&self) -> Report {
        let mut r = match &self.loaded {
            Some(l) => report::report(&l.code, &l.state.counts, &self.graph.core.topo.names),
            None => Report::default(),
        };
        r.packets = self.loaded.as_ref().map_or(0, |l| l.packets);
        r.reference = self.reference;
        r
    }

    /// Starts recording the stages that packets pass, and the steps that they take in the reference graph.
    pub fn start_trace(&mut self) {
        self.graph.start_trace();
        if let Some(l) = &mut self.loaded {
            l.state.recorder = Some(Box::default());
        }
    }

    /// Ends the recording: stages, steps in the reference graph behind punts and at elements that were asked, and whether
    /// there was more than is kept.
    pub fn take_trace(&mut self) -> (Vec<ProgramStep>, Vec<TraceStep>, bool) {
        let (steps, truncated) = self.graph.take_trace();
        let recorder = self.loaded.as_mut().and_then(|l| l.state.recorder.take());
        let recorder = recorder.map(|r| *r).unwrap_or_default();
        (recorder.steps, steps, truncated || recorder.truncated)
    }
}

fn all_models(g: &Graph) -> Vec<Vec<Model>> {
    (0..g.len() as u32)
        .map(|i| g.models_of(ElemId(i)))
        .collect()
}
