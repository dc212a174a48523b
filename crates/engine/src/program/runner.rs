//! A graph with the program that stands for it: loading, asking, copying.

use crate::graph::reference::Graph;
use crate::graph::rule_counts::RuleLedger;
use crate::graph::trace::TraceStep;
use crate::program::code::{Code, NONE};
use crate::program::error::LoadError;
use crate::program::exec::batch_exec::actions::BatchActions;
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::state::{State, Watched};
use crate::program::lookup::report::StageReport;
use crate::program::lookup::using::Using;
use crate::program::plan::{self, Plan, all_models};
use crate::program::report::Report;
use crate::program::trace::{Passed, ProgramStep};
use onefold_element::ElemId;
use onefold_element::model::Model;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::program::Program;
use std::collections::HashSet;
use std::sync::Arc;

/// A program that is valid for the graph as it is.
pub(crate) struct Loaded {
    pub(crate) code: Arc<Code>,
    /// By rule: what it is recognized by.
    pub(crate) keys: Arc<Vec<u64>>,
    pub(crate) state: State,
    /// The models that the program was made of.
    pub(crate) models: Arc<Vec<Vec<Model>>>,
    /// [`Graph::changes`] up to which they are known to be the same.
    pub(crate) seen: u64,
    /// They are not the same any more.
    pub(crate) stale: bool,
    /// Packets that entered the program.
    pub(crate) packets: u64,
}

impl Loaded {
    /// Another executor's, with what has been counted and what has fallen back.
    fn copy(&self) -> Loaded {
        let mut state = State::new(&self.code);
        state.counts = self.state.counts.clone();
        // between batches nothing waits to be told
        state.deferred = self.state.deferred.clone();
        state.batch_actions = self.state.batch_actions.clone();
        state.watched = self.state.watched.clone();
        Loaded {
            code: self.code.clone(),
            keys: self.keys.clone(),
            state,
            models: self.models.clone(),
            seen: self.seen,
            stale: self.stale,
            packets: self.packets,
        }
    }
}

/// The class that a packet enters with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) stage: u32,
    pub(crate) rule: Option<u32>,
    /// Its action among all, if a rule takes the packet.
    pub action: Option<usize>,
}

/// A graph and the program that stands for it; see the module's text.
pub struct ProgramRunner {
    pub(crate) graph: Graph,
    pub(crate) loaded: Option<Loaded>,
    pub(crate) reference: u64,
    /// Packets that took the reference graph because that is cheaper.
    pub(crate) chosen: u64,
    /// What the rules of classes are recognized by that have fallen back, of all programs so far.
    pub(crate) fallen: HashSet<u64>,
    /// Programs go on although models have changed.
    pub(crate) deaf: bool,
    /// How programs are loaded.
    pub(crate) using: Using,
    /// First rules of a batch.
    pub(crate) rules: Vec<u32>,
    /// Packets of a batch that arrive in one tick.
    pub(crate) run: Vec<Pkt>,
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
            chosen: 0,
            fallen: HashSet::new(),
            deaf: false,
            using: Using::default(),
            rules: Vec::new(),
            run: Vec::new(),
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

    /// As [`ProgramRunner::with_program`], saying how this program and later ones are loaded.
    ///
    /// # Errors
    /// As there.
    pub fn with_program_using(
        graph: Graph,
        program: &Program,
        using: Using,
    ) -> Result<ProgramRunner, LoadError> {
        let mut r = ProgramRunner::new(graph);
        r.using = using;
        r.load(program)?;
        Ok(r)
    }

    /// Makes the structures that packets at sources are looked up in, and those of other stages with many rules. Otherwise the
    /// first batch of packets at a source waits for its own; others are not made.
    pub fn prepare(&mut self) {
        if let Some(l) = &self.loaded {
            plan::prepare(&l.code);
        }
    }

    /// What each stage with more than a few rules is looked up in and why; structures are made that have not been needed yet.
    pub fn structures(&self) -> Vec<StageReport> {
        let stages = self.loaded.as_ref().map(|l| &l.code.stages);
        let all = stages.into_iter().flatten();
        all.map(|s| s.lookup.views().report.clone()).collect()
    }

    /// Goes on with this program, made of the models as they are now. Packets counted before
    /// stay counted: with their class where it is in the new program, too, else in [`Report::gone`].
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed; the old one stays then.
    pub fn load(&mut self, program: &Program) -> Result<(), LoadError> {
        let plan = Plan::new(&self.graph, program, self.using)?;
        self.install(plan)
    }

    /// As [`ProgramRunner::load`], with all that takes time done already.
    ///
    /// # Errors
    /// When a handler has been written to since the plan was made, or it is another graph's; what was there before stays then.
    pub fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        let nodes = self.graph.core.topo.names.len();
        if plan.models.len() != nodes {
            return Err(LoadError::Size {
                program: plan.models.len(),
                graph: nodes,
            });
        }
        if plan.changes != self.graph.core.changes {
            return Err(LoadError::Outdated);
        }
        let code = plan.code;
        self.graph.core.tell_rules();
        self.graph.core.changed.take();
        let mut state = State::new(&code);
        state.deferred = DeferredCounters::new(&code, &self.graph);
        state.batch_actions = BatchActions::new(&code, state.deferred.waits());
        let mut ledger = RuleLedger::new(plan.decisions, code.rule_action.len());
        let old = self.graph.core.rules.take();
        if let (Some(before), Some(mut old)) = (&self.loaded, old) {
            let names = &self.graph.core.topo.names;
            (state.counts).go_on(&before.state.counts, &before.code, names);
            (state.counts).go_on_rules((&plan.keys, &mut ledger), (&before.keys, &mut old));
        }
        self.graph.core.rules = Some(Box::new(ledger));
        state.watched = self.still_fallen(&code, &plan.keys);
        self.loaded = Some(Loaded {
            state,
            code,
            keys: plan.keys,
            models: plan.models,
            seen: plan.changes,
            stale: false,
            packets: self.loaded.as_ref().map_or(0, |l| l.packets),
        });
        Ok(())
    }

    /// How programs are loaded: what [`Plan::new`] is to be told.
    pub fn using(&self) -> Using {
        self.using
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
    pub(crate) fn valid(&mut self) -> bool {
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
        if self.deaf {
            l.seen = self.graph.core.changes;
            return true;
        }
        let changed = self.graph.core.changed.take();
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
    /// The number of an action among all.
    pub(crate) fn action_of(&self, stage: usize, action: usize) -> Option<usize> {
        let stages = &self.loaded.as_ref()?.code.stages;
        Some(stages.get(stage)?.actions as usize + action)
    }

    /// The class's packets take the reference graph from now on, at the beginning of the epoch. It holds for programs that are
    /// loaded later, too, as far as they have the class. False when it has fallen back before, or there is no such class.
    pub fn fall_back(&mut self, stage: usize, action: usize) -> bool {
        let Some(at) = self.action_of(stage, action) else {
            return false;
        };
        let Some(l) = self.loaded.as_mut() else {
            return false;
        };
        let n = l.code.actions.len();
        let w = l.state.watched.get_or_insert_default();
        w.fallen.resize(n, false);
        match w.fallen.get_mut(at) {
            Some(f) if !*f => *f = true,
            _ => return false,
        }
        let rules = l.code.rule_action.iter().zip(l.keys.iter());
        let mine = rules.filter(|(a, _)| **a as usize == at);
        self.fallen.extend(mine.map(|(_, k)| *k));
        true
    }

    /// Classes of a new program that have fallen back before.
    fn still_fallen(&self, code: &Code, keys: &[u64]) -> Option<Box<Watched>> {
        if self.fallen.is_empty() {
            return None;
        }
        let mut w = Box::<Watched>::default();
        w.fallen.resize(code.actions.len(), false);
        for (a, k) in code.rule_action.iter().zip(keys) {
            if self.fallen.contains(k)
                && let Some(f) = w.fallen.get_mut(*a as usize)
            {
                *f = true;
            }
        }
        Some(w)
    }

    /// Notes the classes that packets pass, from now on.
    pub(crate) fn record_passed(&mut self) {
        if let Some(l) = &mut self.loaded {
            let w = l.state.watched.get_or_insert_default();
            w.noting = true;
            w.passed.clear();
        }
    }

    /// Classes that packets have passed since [`ProgramRunner::record_passed`].
    pub(crate) fn take_passed(&mut self) -> Vec<Passed> {
        let w = self.loaded.as_mut().and_then(|l| l.state.watched.as_mut());
        w.map_or(Vec::new(), |w| {
            w.noting = false;
            std::mem::take(&mut w.passed)
        })
    }

    /// For tests of those who look for differences: the program goes on when models have changed, as if nobody had noticed.
    #[doc(hidden)]
    pub fn ignore_changes(&mut self) {
        self.deaf = true;
    }

    pub(crate) fn entry(&self, source: ElemId) -> u32 {
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
        self.with_graph(self.graph.fork())
    }

    /// The same program on another copy of its graph.
    pub(crate) fn with_graph(&self, graph: Graph) -> ProgramRunner {
        ProgramRunner {
            graph,
            loaded: self.loaded.as_ref().map(Loaded::copy),
            reference: self.reference,
            chosen: self.chosen,
            fallen: self.fallen.clone(),
            deaf: self.deaf,
            using: self.using,
            rules: Vec::new(),
            run: Vec::new(),
        }
    }

    /// Packets that entered the reference graph, and the program or what stands in front of it.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let program = self.loaded.as_ref().map_or(0, |l| l.packets);
        (self.reference + self.chosen, program)
    }

    /// What has been counted since the first program was loaded.
    pub fn report(&self) -> Report {
        let mut r = match &self.loaded {
            Some(l) => {
                let core = &self.graph.core;
                let rules = core.rules.as_deref().map_or(&[][..], RuleLedger::all);
                crate::program::report::report(&l.code, &l.state.counts, rules, &core.topo.names)
            }
            None => Report::default(),
        };
        r.packets = self.loaded.as_ref().map_or(0, |l| l.packets);
        r.reference = self.reference;
        r.chosen = self.chosen;
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
