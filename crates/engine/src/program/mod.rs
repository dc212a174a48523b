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

pub(crate) mod code;
pub(crate) mod error;
pub(crate) mod exec;
pub(crate) mod headers;
pub(crate) mod load;
pub(crate) mod lookup;
pub(crate) mod path;
pub(crate) mod reads;
pub(crate) mod report;
pub(crate) mod rewrite;
pub(crate) mod trace;

pub use crate::program::error::LoadError;
pub use crate::program::lookup::report::{StageReport, StructureReport, Tried, ViewReport};
pub use crate::program::lookup::{Structures, Using};
pub use crate::program::report::{ClassCount, PuntCount, Report, RuleCount};
pub use crate::program::trace::{Passed, ProgramStep};
pub use onefold_classify::Kind;

use crate::graph::arrival::Arrival;
use crate::graph::reference::Graph;
use crate::graph::rule_counts::RuleLedger;
use crate::graph::trace::TraceStep;
use crate::program::code::{Code, NONE};
use crate::program::exec::batch_exec;
use crate::program::exec::batch_exec::Left;
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::fast_exec;
use crate::program::exec::general;
use crate::program::exec::general::State;
use crate::program::exec::general::Watched;
use crate::program::load::decisions;
use crate::program::lookup::columns::Scratch;
use crate::program::lookup::tree::NO_RULE;
use onefold_elements::ElemId;
use onefold_elements::model::Model;
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_synth::program::Program;
use std::collections::HashSet;
use std::sync::Arc;

/// Stages in the middle of a program with more rules have structures of their own.
const MANY_RULES: usize = 64;
/// Programs with at most so many rules have all that is known of them in the nearest caches.
const NEAR: usize = 512;

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
            for (i, s) in l.code.stages.iter().enumerate() {
                if l.code.entries.contains(&(i as u32)) || l.code.rules_of(i) > MANY_RULES {
                    s.lookup.views();
                }
            }
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
        let mut code = crate::program::load::load(program, &self.graph.core.topo, self.using)?;
        let decisions = decisions::of(&mut code, program, &self.graph.core)?;
        self.graph.core.tell_rules();
        let models = all_models(&self.graph);
        self.graph.core.changed.clear();
        let keys = crate::program::report::keys(program);
        let mut state = State::new(&code);
        state.deferred = DeferredCounters::new(&code, &self.graph);
        let mut ledger = RuleLedger::new(Arc::new(decisions), code.rule_action.len());
        let old = self.graph.core.rules.take();
        if let (Some(before), Some(mut old)) = (&self.loaded, old) {
            let names = &self.graph.core.topo.names;
            (state.counts).go_on(&before.state.counts, &before.code, names);
            (state.counts).go_on_rules((&keys, &mut ledger), (&before.keys, &mut old));
        }
        self.graph.core.rules = Some(Box::new(ledger));
        state.watched = self.still_fallen(&code, &keys);
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
        self.arrive(at);
        self.enter(source, p, None);
    }

    /// Packets that arrive at a source at one moment, one after the other: what [`ProgramRunner::inject_packet`] does for each.
    /// Leaves `batch` empty.
    pub fn inject_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.arrive(at);
        self.enter_batch(source, batch, Arrival::Together);
    }

    /// Packets that arrive at a source, each at the time of its annotation (none before the one in front of it): what
    /// [`ProgramRunner::inject_packet`] does for each. Leaves `batch` empty.
    pub fn inject_stamped(&mut self, source: ElemId, batch: &mut Vec<Pkt>) {
        self.by_ticks(batch, |r, some| {
            r.enter_batch(source, some, Arrival::Stamped);
        });
    }

    /// Packets that arrive each at its own time, those of one tick together as far as no timer is due between them; the clock stands at
    /// the first one's time. Leaves `batch` empty, as `f` leaves what it gets.
    fn by_ticks(
        &mut self,
        batch: &mut Vec<Pkt>,
        mut f: impl FnMut(&mut ProgramRunner, &mut Vec<Pkt>),
    ) {
        // Bound: each round takes at least one packet.
        while let Some(first) = batch.first() {
            self.arrive(first.anno.timestamp);
            let n = self.graph.run_of(batch, true).max(1);
            if n == batch.len() {
                return f(self, batch);
            }
            let mut some = std::mem::take(&mut self.run);
            some.extend(batch.drain(..n));
            f(self, &mut some);
            self.run = some;
        }
    }

    /// A packet of a batch is next, which arrives at this time: the clock moves there, and what is due before happens.
    #[inline]
    pub(crate) fn meet(&mut self, at: Timestamp) {
        if at <= self.graph.core.now {
            return;
        }
        if self.graph.timer_due(at) {
            let gathering = self
                .loaded
                .as_ref()
                .is_some_and(|l| l.state.deferred.gathering);
            self.tell();
            if let Some(l) = &mut self.loaded {
                l.state.regs.tables.release();
            }
            self.graph.arrive(at);
            if let Some(l) = self.loaded.as_mut().filter(|_| gathering) {
                let g = &self.graph;
                (l.state.regs.tables).take(&l.code.tables, &g.store, g.core.changes);
                l.state.deferred.gathering = true;
            }
        }
        self.graph.core.now = self.graph.core.now.max(at);
    }

    /// Packets go in, one after the other: at the present time, or each at its own, all of which are of one tick then. Leaves
    /// `batch` empty.
    pub(crate) fn enter_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, arrival: Arrival) {
        let stamped = arrival == Arrival::Stamped;
        let last = batch.last().map_or(Timestamp::ZERO, |p| p.anno.timestamp);
        let mut rules = std::mem::take(&mut self.rules);
        self.gather();
        if let Some(l) = &mut self.loaded {
            l.state.regs.tables.batch = true;
        }
        let stage = match batch.len() {
            0 | 1 => None,
            _ => self.first_rules(source, batch, &mut rules),
        };
        if let Some(stage) = stage {
            self.prefetch_rules(stage, rules.iter().copied());
            self.prefetch_bindings(stage, batch, &rules);
        }
        // nothing that happens to a packet changes the bytes of another one; a handler that it calls may end the program's time,
        // and then what was found is worth nothing
        let changes = self.graph.core.changes;
        let mut packets = Left::new(batch.drain(..), &rules);
        // Bound: each time a packet is taken, if there is one.
        loop {
            let mut stage = stage.filter(|_| self.graph.core.changes == changes);
            // together only as long as nothing is due before the last of them
            let together = !stamped || !self.graph.timer_due(last);
            let next = match (stage, &mut self.loaded) {
                (Some(stage), Some(l)) if together => {
                    let rules = l.code.stages.get(stage as usize).map_or(0, |s| s.rules);
                    let (st, n) = (&mut l.state, &mut l.packets);
                    batch_exec::run(&l.code, st, &mut self.graph, rules, &mut packets, n)
                }
                _ => packets.next(),
            };
            let Some((p, rule, _)) = next else { break };
            if stamped {
                self.meet(p.anno.timestamp);
                stage = stage.filter(|_| self.graph.core.changes == changes);
            }
            let first = stage.map(|stage| First {
                stage,
                rule: Some(rule).filter(|r| *r != NO_RULE),
                action: None,
            });
            self.enter(source, p, first);
        }
        drop(packets);
        if stamped {
            self.meet(last);
        }
        if let Some(l) = &mut self.loaded {
            l.state.regs.tables.batch = false;
            l.state.regs.tables.release();
        }
        self.tell();
        self.rules = rules;
    }

    /// Packets go through the reference graph, because that costs least (`chosen`) or no program is valid. Leaves `batch` empty.
    pub(crate) fn take_reference(
        &mut self,
        source: ElemId,
        batch: &mut Vec<Pkt>,
        arrival: Arrival,
        chosen: bool,
    ) {
        let count = if chosen {
            &mut self.chosen
        } else {
            &mut self.reference
        };
        *count += batch.len() as u64;
        self.tell();
        match arrival {
            Arrival::Together => self.graph.inject_batch(source, batch, self.graph.now()),
            // tables that have leases share a clock: what one of them has seen is past for all
            Arrival::Stamped => {
                self.by_ticks(batch, |r, some| r.graph.inject_stamped(source, some))
            }
        }
    }

    /// From now on, until [`ProgramRunner::tell`], elements that only count may be told later.
    pub(crate) fn gather(&mut self) {
        if let Some(l) = &mut self.loaded {
            l.state.deferred.gathering = true;
        }
    }

    /// Elements are told of all that they have not been told of.
    pub(crate) fn tell(&mut self) {
        if let Some(l) = &mut self.loaded {
            let g = &mut self.graph;
            l.state.deferred.gathering = false;
            (l.state.deferred).tell(&l.code, &mut g.core, &mut g.out, &mut g.store);
        }
    }

    /// For each of up to 256 packets at a source the first rule that fits, or `u32::MAX`: what the program's entry stage, which comes
    /// back, would find. Nothing changes by it. `None` while no program is valid for them.
    pub(crate) fn first_rules<P: std::ops::Deref<Target = Packet>>(
        &mut self,
        source: ElemId,
        packets: &[P],
        out: &mut Vec<u32>,
    ) -> Option<u32> {
        let number = match self.valid() {
            true => self.entry(source),
            false => NONE,
        };
        let l = self.loaded.as_mut().filter(|_| number != NONE)?;
        let stage = l.code.stages.get(number as usize)?;
        let st = &mut l.state;
        let scratch = st.scratch.get_or_insert_with(|| Box::new(Scratch::new()));
        (st.regs.tables).take(&l.code.tables, &self.graph.store, self.graph.core.changes);
        crate::program::lookup::first_rules(&l.code, stage, &mut st.regs, scratch, packets, out);
        // foresight is about to read the actions of all of them
        if !l.code.binds.is_empty() && l.code.rule_action.len() > NEAR {
            for rule in out.iter().filter(|r| **r != NO_RULE) {
                let action = l.code.rule_action.get((stage.rules + rule) as usize);
                action.map(onefold_packet::prefetch);
            }
        }
        if !st.regs.tables.batch {
            st.regs.tables.release();
        }
        Some(number)
    }

    /// Packets with these rules of a stage are about to go through the program in one batch: memory that rewriters will need is asked for.
    fn prefetch_bindings<P: std::ops::Deref<Target = Packet>>(
        &mut self,
        stage: u32,
        packets: &[P],
        rules: &[u32],
    ) {
        let Some(l) = &mut self.loaded else { return };
        if l.code.binds.is_empty() {
            return;
        }
        let first = l.code.stages.get(stage as usize).map_or(0, |s| s.rules);
        let (st, g) = (&mut l.state, &mut self.graph);
        if !crate::program::exec::batch_exec::prepare::prefetch_bindings(
            &l.code, st, g, first, packets, rules,
        ) {
            (st.prefetcher).of(&l.code, g, stage, packets, rules);
        }
    }

    /// The same for packets that go through it one by one.
    pub(crate) fn prefetch_bindings_each<P: std::ops::Deref<Target = Packet>>(
        &mut self,
        stage: u32,
        packets: &[P],
        rules: &[u32],
    ) {
        if let Some(l) = &mut self.loaded {
            (l.state.prefetcher).of(&l.code, &self.graph, stage, packets, rules);
        }
    }

    /// The program is about to do what these rules of a stage say: with many of them, what is known of each is far away.
    pub(crate) fn prefetch_rules(&self, stage: u32, rules: impl Iterator<Item = u32>) {
        let many = |l: &&Loaded| l.code.rule_action.len() > NEAR;
        let Some(l) = self.loaded.as_ref().filter(many) else {
            return;
        };
        let Some(stage) = l.code.stages.get(stage as usize) else {
            return;
        };
        for rule in rules.filter(|r| *r != NO_RULE) {
            let at = (stage.rules + rule) as usize;
            l.code.rule_action.get(at).map(onefold_packet::prefetch);
            if let Some(ledger) = &self.graph.core.rules {
                ledger.ask(at);
            }
        }
    }

    /// As [`Graph::arrive`].
    pub(crate) fn arrive(&mut self, at: Timestamp) {
        self.graph.arrive(at);
    }

    /// The class that a packet enters with; `None` while no program is valid for it.
    pub(crate) fn first_class(&mut self, source: ElemId, p: &Pkt) -> Option<First> {
        let stage = match self.valid() {
            true => self.entry(source),
            false => NONE,
        };
        let l = self.loaded.as_mut().filter(|_| stage != NONE)?;
        let changes = self.graph.core.changes;
        (l.state.regs.tables).take(&l.code.tables, &self.graph.store, changes);
        let rule = general::first_rule(&l.code, &mut l.state, stage, p);
        l.state.regs.tables.release();
        let rules = l.code.stages.get(stage as usize).map_or(0, |s| s.rules);
        let action = rule.and_then(|r| l.code.rule_action.get((rules + r) as usize));
        Some(First {
            stage,
            rule,
            action: action.map(|a| *a as usize),
        })
    }

    /// A packet goes in at the present time; its class may be known.
    pub(crate) fn enter(&mut self, source: ElemId, p: Pkt, first: Option<First>) {
        // what was due before may have called handlers
        let (stage, rule) = match first {
            Some(f) => (f.stage, f.rule),
            None if self.valid() => (self.entry(source), None),
            None => (NONE, None),
        };
        match &mut self.loaded {
            Some(l) if stage != NONE => {
                l.packets += 1;
                let g = &mut self.graph;
                g.packets_in += 1;
                g.core.steps = 0;
                let at = |rule| Some((l.code.stages.get(stage as usize)?.rules + rule) as usize);
                let p = match rule.and_then(at) {
                    Some(at) => fast_exec::run(&l.code, &mut l.state, g, at, p),
                    None => Some(p),
                };
                if let Some(p) = p {
                    general::run(&l.code, &mut l.state, g, stage, p, rule);
                }
                if !g.core.is_quiet() {
                    (l.state.deferred).tell(&l.code, &mut g.core, &mut g.out, &mut g.store);
                    g.core.quiesce(&mut g.out, &mut g.store);
                }
            }
            _ => {
                self.reference += 1;
                self.tell();
                let entry = self.graph.entry(source);
                self.graph.enter(source, entry, p);
            }
        }
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

fn all_models(g: &Graph) -> Vec<Vec<Model>> {
    (0..g.len() as u32)
        .map(|i| g.models_of(ElemId(i)))
        .collect()
}
