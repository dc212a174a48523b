//! One face for all ways to execute a chain: what runs, measures, compares and fuzzes chains knows nothing else of them.
//!
//! - [`Graph`]: the reference graph, element by element as written; in batches it does what it does packet by packet.
//! - [`ProgramRunner`]: the synthesized program.
//! - [`FlowRunner`]: program and flow table, each entry's packets at the level that costs least.
//! - [`Shadow`]: one of these, some of whose packets also go through a copy of the reference graph.
//!
//! A batch enters at one entry. Each packet has its own time ([`Executor::run`]), or all arrive at one moment ([`Executor::run_at`]); either
//! way what leaves, in which order, and what state stays behind are those of the reference graph that gets the packets one by one.

use crate::flow::{FlowRunner, FlowStats};
use crate::graph::reference::{DropCount, Graph, Totals};
use crate::level::Level;
use crate::program::ProgramRunner;
use crate::program::error::LoadError;
use crate::program::plan::Plan;
use crate::program::report::Report;
use crate::shadow::Shadow;
use onefold_element::ElemId;
use onefold_packet::{Pkt, Timestamp};
use std::time::Duration;

/// A way to execute a chain; see the module's text.
pub trait Executor: Send {
    /// `reference`, `program`, `flow` or `auto`: the `--mode` or `--level` that names it.
    fn name(&self) -> &'static str;

    /// Packets arrive at `entry`, each at the time of its annotation (none before the one in front of it). Leaves `batch` empty.
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>);
    /// Packets arrive at `entry` at one moment, one after the other. Leaves `batch` empty.
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp);
    /// Nothing arrives until `to`: the clock moves there, timers and tasks take place.
    fn advance(&mut self, to: Timestamp);

    /// A packet with a copy of `data`, from the pool.
    fn make_packet(&mut self, data: &[u8]) -> Pkt {
        self.peek_graph_mut().make_packet(data)
    }
    /// Adds `n` packets to `to`, with whatever is in them: to be refilled.
    fn lend_packets(&mut self, to: &mut Vec<Pkt>, n: usize) {
        self.peek_graph_mut().lend_packets(to, n);
    }
    /// Moves every packet that has left, in order, to the end of `into`.
    fn collect(&mut self, into: &mut Vec<Pkt>) {
        self.peek_graph_mut().collect_transmitted(into);
    }
    /// The same, each with the sink that it left at.
    fn take_transmitted(&mut self, into: &mut Vec<(ElemId, Pkt)>) {
        self.peek_graph_mut().append_transmitted(into);
    }
    /// Gives packets' buffers back to the pool.
    fn recycle(&mut self, packets: std::vec::Drain<'_, Pkt>) {
        self.peek_graph_mut().recycle_all(packets);
    }

    /// The account of packets so far.
    fn totals(&self) -> Totals {
        self.graph().totals()
    }
    /// Drops by element and reason, sorted.
    fn drops(&self) -> Vec<DropCount> {
        self.graph().drops()
    }
    /// The graph. Elements may not have been told of the last packets: for what does not depend on these.
    fn peek_graph_mut(&mut self) -> &mut Graph;
    /// The graph, every element told of all packets so far: for handlers, states, traces.
    fn graph_mut(&mut self) -> &mut Graph;
    /// The graph. Elements may not have been told of the last packets.
    fn graph(&self) -> &Graph;
    /// What the program has counted, if there is one.
    fn report(&self) -> Option<Report> {
        None
    }
    /// What the flow table has done, if there is one, and why packets that could have had an entry have none.
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        None
    }
    /// How long it does something else in the beginning than later on, as far as it is known.
    fn settles(&self) -> Duration {
        Duration::ZERO
    }
    /// Before a batch: do packets queue up where it comes from, for longer than a moment? What is in front may be taken
    /// care of then.
    fn press(&mut self, queued_up: bool) {
        let _ = queued_up;
    }

    /// Is there no program, or have models changed since it was installed? The reference graph takes all packets then.
    fn needs_program(&mut self) -> bool {
        false
    }
    /// Goes on with this plan, which was made of the models as they are now, elsewhere and before.
    ///
    /// # Errors
    /// When it is another graph's, or a handler has been written to since it was made; what was there before stays then.
    fn install(&mut self, plan: Plan) -> Result<(), LoadError>;

    /// A copy, state and all, with the same seed.
    fn fork(&self) -> Box<dyn Executor>;
}

impl Executor for Box<dyn Executor> {
    fn name(&self) -> &'static str {
        self.as_ref().name()
    }
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>) {
        self.as_mut().run(entry, batch)
    }
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.as_mut().run_at(entry, batch, at)
    }
    fn advance(&mut self, to: Timestamp) {
        self.as_mut().advance(to)
    }
    fn make_packet(&mut self, data: &[u8]) -> Pkt {
        self.as_mut().make_packet(data)
    }
    fn lend_packets(&mut self, to: &mut Vec<Pkt>, n: usize) {
        self.as_mut().lend_packets(to, n)
    }
    fn collect(&mut self, into: &mut Vec<Pkt>) {
        self.as_mut().collect(into)
    }
    fn take_transmitted(&mut self, into: &mut Vec<(ElemId, Pkt)>) {
        self.as_mut().take_transmitted(into)
    }
    fn recycle(&mut self, packets: std::vec::Drain<'_, Pkt>) {
        self.as_mut().recycle(packets)
    }
    fn totals(&self) -> Totals {
        self.as_ref().totals()
    }
    fn drops(&self) -> Vec<DropCount> {
        self.as_ref().drops()
    }
    fn peek_graph_mut(&mut self) -> &mut Graph {
        self.as_mut().peek_graph_mut()
    }
    fn graph_mut(&mut self) -> &mut Graph {
        self.as_mut().graph_mut()
    }
    fn graph(&self) -> &Graph {
        self.as_ref().graph()
    }
    fn report(&self) -> Option<Report> {
        self.as_ref().report()
    }
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        self.as_ref().flow_stats()
    }
    fn settles(&self) -> Duration {
        self.as_ref().settles()
    }
    fn press(&mut self, queued_up: bool) {
        self.as_mut().press(queued_up);
    }
    fn needs_program(&mut self) -> bool {
        self.as_mut().needs_program()
    }
    fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        self.as_mut().install(plan)
    }
    fn fork(&self) -> Box<dyn Executor> {
        self.as_ref().fork()
    }
}

impl Executor for Graph {
    fn name(&self) -> &'static str {
        "reference"
    }
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>) {
        self.inject_stamped(entry, batch);
    }
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.inject_batch(entry, batch, at);
    }
    fn advance(&mut self, to: Timestamp) {
        self.advance_to(to);
    }
    fn peek_graph_mut(&mut self) -> &mut Graph {
        self
    }
    fn graph_mut(&mut self) -> &mut Graph {
        self
    }
    fn graph(&self) -> &Graph {
        self
    }
    /// The reference graph needs none; there is nothing to check it against.
    fn install(&mut self, _: Plan) -> Result<(), LoadError> {
        Ok(())
    }
    fn fork(&self) -> Box<dyn Executor> {
        Box::new(Graph::fork(self))
    }
}

impl Executor for ProgramRunner {
    fn name(&self) -> &'static str {
        "program"
    }
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>) {
        self.inject_stamped(entry, batch);
    }
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.inject_batch(entry, batch, at);
    }
    fn advance(&mut self, to: Timestamp) {
        self.advance_to(to);
    }
    fn peek_graph_mut(&mut self) -> &mut Graph {
        ProgramRunner::graph_mut(self)
    }
    fn graph_mut(&mut self) -> &mut Graph {
        ProgramRunner::graph_mut(self)
    }
    fn graph(&self) -> &Graph {
        ProgramRunner::graph(self)
    }
    fn report(&self) -> Option<Report> {
        Some(ProgramRunner::report(self))
    }
    fn needs_program(&mut self) -> bool {
        self.needs_synthesis()
    }
    fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        ProgramRunner::install(self, plan)
    }
    fn fork(&self) -> Box<dyn Executor> {
        Box::new(ProgramRunner::fork(self))
    }
}

impl Executor for FlowRunner {
    fn name(&self) -> &'static str {
        self.forced().map_or("auto", Level::name)
    }
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>) {
        self.inject_stamped(entry, batch);
    }
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.inject_batch(entry, batch, at);
    }
    fn advance(&mut self, to: Timestamp) {
        self.advance_to(to);
    }
    fn drops(&self) -> Vec<DropCount> {
        FlowRunner::drops(self)
    }
    fn peek_graph_mut(&mut self) -> &mut Graph {
        FlowRunner::peek_graph_mut(self)
    }
    fn graph_mut(&mut self) -> &mut Graph {
        FlowRunner::graph_mut(self)
    }
    fn graph(&self) -> &Graph {
        FlowRunner::graph(self)
    }
    fn report(&self) -> Option<Report> {
        Some(FlowRunner::report(self))
    }
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        Some((self.stats(), self.causes().to_vec()))
    }
    fn settles(&self) -> Duration {
        FlowRunner::settles(self)
    }
    fn press(&mut self, queued_up: bool) {
        FlowRunner::press(self, queued_up);
    }
    fn needs_program(&mut self) -> bool {
        self.needs_synthesis()
    }
    fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        FlowRunner::install(self, plan)
    }
    fn fork(&self) -> Box<dyn Executor> {
        Box::new(FlowRunner::fork(self))
    }
}

impl Executor for Shadow {
    fn name(&self) -> &'static str {
        self.flow().name()
    }
    fn run(&mut self, entry: ElemId, batch: &mut Vec<Pkt>) {
        self.inject_stamped(entry, batch);
    }
    fn run_at(&mut self, entry: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        match self.is_watching() {
            false => self.flow_mut().inject_batch(entry, batch, at),
            true => {
                for p in batch.iter_mut() {
                    p.anno.timestamp = at;
                }
                self.inject_stamped(entry, batch);
            }
        }
    }
    fn advance(&mut self, to: Timestamp) {
        self.end_window();
        self.flow_mut().advance_to(to);
    }
    fn drops(&self) -> Vec<DropCount> {
        self.flow().drops()
    }
    fn peek_graph_mut(&mut self) -> &mut Graph {
        self.flow_mut().peek_graph_mut()
    }
    fn graph_mut(&mut self) -> &mut Graph {
        self.flow_mut().graph_mut()
    }
    fn graph(&self) -> &Graph {
        self.flow().graph()
    }
    fn report(&self) -> Option<Report> {
        Some(self.flow().report())
    }
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        Executor::flow_stats(self.flow())
    }
    fn press(&mut self, queued_up: bool) {
        self.flow_mut().press(queued_up);
    }
    fn needs_program(&mut self) -> bool {
        self.flow_mut().needs_synthesis()
    }
    fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        Shadow::install(self, plan)
    }
    /// Nothing is compared in the copy.
    fn fork(&self) -> Box<dyn Executor> {
        Box::new(Shadow::over(self.flow().fork()))
    }
}
