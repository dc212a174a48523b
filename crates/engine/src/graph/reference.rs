//! [`Graph`]: a running graph and how it is used from outside.

use crate::graph::core::Log;
use crate::graph::core::{Core, Node};
use crate::graph::diag::Diagnostic;
use crate::graph::handlers::Target;
use crate::graph::limits;
use crate::graph::topology::Edge;
use crate::graph::trace::{Trace, TraceStep};
use crate::graph::visits::Visits;
use onefold_element::{
    ENTRY, ElemId, HandlerError, HandlerResult, IoRole, LogStream, NameDb, Outbox, Port,
    RuleCounters, Scope, StateId, StateStore,
};
use onefold_nat::FlowTable;
use onefold_packet::{Pkt, Timestamp};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The account of all packets: `packets_in + created = sent + dropped + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Injected from outside.
    pub packets_in: u64,
    /// Made by elements.
    pub created: u64,
    /// Left through a sink.
    pub sent: u64,
    /// Dropped, whatever the reason.
    pub dropped: u64,
    /// Still inside.
    pub held: u64,
}

impl Totals {
    /// Does the account balance?
    pub fn balanced(&self) -> bool {
        self.packets_in + self.created == self.sent + self.dropped + self.held
    }
}

/// Drops at one element for one reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropCount {
    /// The element's full name.
    pub element: String,
    /// The reason, stable text.
    pub reason: &'static str,
    /// How many packets.
    pub packets: u64,
}

/// A running graph of elements.
pub struct Graph {
    pub(crate) core: Core,
    pub(crate) out: Outbox,
    pub(crate) store: StateStore,
    pub(crate) roles: Vec<(ElemId, IoRole)>,
    pub(crate) packets_in: u64,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("elements", &self.core.topo.names)
            .field("now", &self.core.now)
            .finish_non_exhaustive()
    }
}

impl Graph {
    /// Warnings from building it.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
    /// The graph as written.
    pub fn spec(&self) -> &onefold_element::GraphSpec {
        &self.core.topo.spec
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.core.nodes.len()
    }
    /// No elements at all.
    pub fn is_empty(&self) -> bool {
        self.core.nodes.is_empty()
    }
    /// Finds an element by its full name.
    pub fn find(&self, name: &str) -> Option<ElemId> {
        let i = self.core.topo.names.iter().position(|n| n == name)?;
        Some(ElemId(i as u32))
    }
    /// An element's full name.
    pub fn name(&self, e: ElemId) -> &str {
        self.core.topo.names.get(e.0 as usize).map_or("?", |n| n)
    }
    /// Class of an element.
    pub fn class(&self, e: ElemId) -> &str {
        self.core.topo.classes.get(e.0 as usize).map_or("?", |n| n)
    }
    /// Is this input pull? (It is push otherwise.)
    pub fn input_is_pull(&self, e: ElemId, port: Port) -> bool {
        let ports = self.core.topo.ports.get(e.0 as usize);
        ports.is_some_and(|p| port < p.ninputs) && self.core.topo.input_is_pull(e.0 as usize, port)
    }
    /// Is this output pull? (It is push otherwise.)
    pub fn output_is_pull(&self, e: ElemId, port: Port) -> bool {
        let ports = self.core.topo.ports.get(e.0 as usize);
        ports.is_some_and(|p| port < p.noutputs)
            && self.core.topo.output_is_pull(e.0 as usize, port)
    }
    /// Inputs and outputs of an element.
    pub fn port_counts(&self, e: ElemId) -> (usize, usize) {
        let ports = self.core.topo.ports.get(e.0 as usize);
        ports.map_or((0, 0), |p| (p.ninputs, p.noutputs))
    }
    /// Elements that stand for the outside world, with the names of their devices or files.
    pub fn io(&self) -> &[(ElemId, IoRole)] {
        &self.roles
    }
    /// The element through which packets of device or file `name` enter.
    pub fn source(&self, name: &str) -> Option<ElemId> {
        let is = |r: &&(ElemId, IoRole)| matches!(&r.1, IoRole::Source { name: n } | IoRole::Both { name: n } if n == name);
        self.roles.iter().find(is).map(|(e, _)| *e)
    }
    /// The elements through which packets for device or file `name` leave.
    pub fn sinks(&self, name: &str) -> Vec<ElemId> {
        let is = |r: &&(ElemId, IoRole)| matches!(&r.1, IoRole::Sink { name: n } | IoRole::Both { name: n } if n == name);
        self.roles.iter().filter(is).map(|(e, _)| *e).collect()
    }
    /// Shared state.
    pub fn store(&self) -> &StateStore {
        &self.store
    }
    /// The clock.
    pub fn now(&self) -> Timestamp {
        self.core.now
    }
    /// Has the run been asked to stop?
    pub fn stop_requested(&self) -> bool {
        self.core.stop_flag
    }
    /// How often work had to be cut short by the bounds in [`crate::graph::limits`].
    pub fn overruns(&self) -> u64 {
        self.core.overruns
    }

    // packets

    /// A packet with a copy of `data`, from the pool.
    pub fn make_packet(&mut self, data: &[u8]) -> Pkt {
        self.out.pool.make(data)
    }
    /// Adds `n` packets to `to`, with whatever is in them: to be refilled.
    pub fn lend_packets(&mut self, to: &mut Vec<Pkt>, n: usize) {
        let had = self.out.pool.lend(to, n);
        for _ in had..n {
            let p = self.make_packet(&[]);
            to.push(p);
        }
    }

    /// A packet with these bytes arrives at source element `source` at time `at`: the clock moves there, what is due before
    /// happens, then the packet passes the graph until nothing more happens.
    pub fn inject(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        let mut p = self.out.pool.make(data);
        p.anno.timestamp = at;
        self.inject_packet(source, self.entry(source), p, at);
    }

    /// The input that packets from outside enter an element through.
    pub(crate) fn entry(&self, source: ElemId) -> Port {
        let both = |r: &(ElemId, IoRole)| r.0 == source && matches!(r.1, IoRole::Both { .. });
        if self.roles.iter().any(both) {
            ENTRY
        } else {
            0
        }
    }

    /// [`Graph::inject`] for a packet made before, into any input.
    pub fn inject_packet(&mut self, element: ElemId, input: Port, p: Pkt, at: Timestamp) {
        self.arrive(at);
        self.enter(element, input, p);
    }

    /// The clock moves to `at` because a packet arrives, and what is due before happens.
    pub(crate) fn arrive(&mut self, at: Timestamp) {
        self.core.advance(at, &mut self.out, &mut self.store);
    }

    /// A packet goes in at the present time.
    pub(crate) fn enter(&mut self, element: ElemId, input: Port, p: Pkt) {
        self.packets_in += 1;
        self.core.steps = 0;
        let to = Edge {
            node: element.0,
            port: input as u32,
        };
        self.core.push(to, p, 0, &mut self.out, &mut self.store);
        self.core.quiesce(&mut self.out, &mut self.store);
    }

    /// Moves the clock to `at`, running timers and tasks on the way.
    pub fn advance_to(&mut self, at: Timestamp) {
        self.core.advance(at, &mut self.out, &mut self.store);
        self.core.steps = 0;
        self.core.quiesce(&mut self.out, &mut self.store);
    }

    /// When the next timer is due, if one is set.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.core.timers.next()
    }

    /// Does anything want to run at the present time?
    pub fn has_runnable_tasks(&self) -> bool {
        self.core.run_list.len() > 0
    }

    /// Packets that have left since the last call, in order, with the sink element.
    pub fn take_transmitted(&mut self) -> Vec<(ElemId, Pkt)> {
        std::mem::take(&mut self.out.transmitted)
    }

    /// Hands every packet that has left to `f`, in order, and recycles it.
    pub fn drain_transmitted(&mut self, mut f: impl FnMut(ElemId, &Pkt)) {
        let mut list = std::mem::take(&mut self.out.transmitted);
        for (e, p) in list.drain(..) {
            f(e, &p);
            self.out.pool.recycle(p);
        }
        // keeps its allocation
        self.out.transmitted = list;
    }

    /// Moves every packet that has left, in order, to the end of `into`, buffers and all: for those who keep their own.
    pub fn collect_transmitted(&mut self, into: &mut Vec<Pkt>) {
        into.extend(self.out.transmitted.drain(..).map(|(_, p)| p));
    }

    /// Moves every packet that has left, in order, with its sink, to the end of `into`.
    pub fn append_transmitted(&mut self, into: &mut Vec<(ElemId, Pkt)>) {
        match into.is_empty() {
            true => std::mem::swap(into, &mut self.out.transmitted),
            false => into.append(&mut self.out.transmitted),
        }
    }

    /// Gives packets' buffers back to the pool.
    pub fn recycle_all(&mut self, packets: std::vec::Drain<'_, Pkt>) {
        for p in packets {
            self.out.pool.recycle(p);
        }
    }

    /// Gives a packet's buffer back to the pool.
    pub fn recycle(&mut self, p: Pkt) {
        self.out.pool.recycle(p);
    }

    /// Packets inside an element.
    pub fn held_by(&self, e: ElemId) -> usize {
        let n = self.core.nodes.get(e.0 as usize);
        n.and_then(|n| n.elem.as_ref()).map_or(0, |e| e.held())
    }

    /// Packets that elements have made so far, as in [`Graph::totals`].
    pub fn created(&self) -> u64 {
        self.out.created
    }

    /// The account so far.
    pub fn totals(&self) -> Totals {
        let inside: usize = (0..self.len())
            .map(|i| self.held_by(ElemId(i as u32)))
            .sum();
        Totals {
            packets_in: self.packets_in,
            created: self.out.created,
            sent: self.out.sent,
            dropped: self.out.dropped,
            held: (inside + self.store.held() + self.core.late.len()) as u64,
        }
    }

    /// Drops by element and reason, sorted.
    pub fn drops(&self) -> Vec<DropCount> {
        let mut all: std::collections::BTreeMap<(String, &'static str), u64> = Default::default();
        for (e, reason, n) in &self.out.drops {
            *all.entry((self.name(*e).to_string(), *reason)).or_default() += n;
        }
        all.into_iter()
            .map(|((element, reason), packets)| DropCount {
                element,
                reason,
                packets,
            })
            .collect()
    }

    /// The run has ended: tells every element, so that files are flushed. To be called once.
    pub fn finish(&mut self) {
        for i in 0..self.len() as u32 {
            let (out, store) = (&mut self.out, &mut self.store);
            self.core.with(i, out, store, |e, cx| e.cleanup(cx));
        }
    }

    // handlers

    /// Calls a read handler: `"element.handler parameters"`, or a global one.
    ///
    /// # Errors
    /// When there is no such handler or it refuses.
    pub fn read_handler(&mut self, call: &str) -> HandlerResult {
        self.core
            .read_call(ElemId(u32::MAX), call, &mut self.out, &mut self.store)
    }

    /// Calls a write handler and carries out what follows from it.
    ///
    /// # Errors
    /// When there is no such handler or it refuses.
    pub fn write_handler(&mut self, call: &str, value: &str) -> Result<(), HandlerError> {
        self.core.steps = 0;
        let (out, store) = (&mut self.out, &mut self.store);
        let r = self
            .core
            .write_call(ElemId(u32::MAX), call, value, out, store);
        self.core.run_late(out, store);
        r
    }

    /// Does element `e` have a handler that can be read (or written)?
    pub fn has_handler(&self, e: ElemId, name: &str, writable: bool) -> bool {
        let call = format!("{}.{name}", self.name(e));
        self.core.handler_exists(ElemId(u32::MAX), &call, writable)
    }

    /// The counters of a list of rules, by argument; `None` for other elements.
    pub fn rule_counters(&mut self, e: ElemId) -> Option<&RuleCounters> {
        self.core.tell_rules();
        let elem = self.core.nodes.get(e.0 as usize)?.elem.as_ref()?;
        elem.rule_counters()
    }

    /// Answers the global read handler `name` with this text from now on: what is to be known of the execution.
    pub fn tell(&mut self, name: &'static str, text: String) {
        self.core.told.insert(name, text);
    }

    pub(crate) fn read_target(&mut self, t: &Target, param: &str) -> HandlerResult {
        self.core
            .read_target(t, param, &mut self.out, &mut self.store)
    }

    // printing and traces

    /// From now on, what elements print is kept ([`crate::graph::core::Log::Keep`]).
    pub fn keep_printed(&mut self) {
        self.core.log = Log::Keep;
    }
    /// What elements have printed since the last call ([`crate::graph::core::Log::Keep`]).
    pub fn take_printed(&mut self) -> Vec<(LogStream, Vec<u8>)> {
        std::mem::take(&mut self.core.printed)
    }

    /// Elements hear from now on that packets have entered here ([`onefold_element::Host::ingress`]).
    pub fn set_ingress(&mut self, entry: Option<ElemId>) {
        self.core.ingress = entry;
    }

    /// Starts taking a trace, dropping an earlier one.
    pub fn start_trace(&mut self) {
        self.core.trace = Some(Box::new(Trace::default()));
        self.out.traced = true;
    }

    /// Ends the trace and gives its steps, in order; the flag says that there were more than are kept.
    pub fn take_trace(&mut self) -> (Vec<TraceStep>, bool) {
        self.out.traced = false;
        match self.core.trace.take() {
            Some(t) => (t.steps, t.truncated),
            None => (Vec::new(), false),
        }
    }

    /// Starts noting which elements are visited, dropping a trace. Costs little beside a trace.
    pub fn start_visits(&mut self) {
        self.core.trace = Some(Box::new(Trace {
            visits: Some(Vec::new()),
            ..Trace::default()
        }));
    }

    /// Ends noting: the visits since then.
    pub fn take_visits(&mut self) -> Visits {
        let visits = self.core.trace.take().and_then(|t| t.visits);
        Visits(visits.unwrap_or_default())
    }

    /// The shared states of all elements, each once.
    pub(crate) fn states(&self) -> BTreeSet<StateId> {
        let elements = self.core.nodes.iter().flat_map(|n| &n.elem);
        elements.flat_map(|e| e.states()).collect()
    }

    /// Every shared state: the elements that use it, and what several workers would do with it.
    pub fn state_scopes(&self) -> Vec<(Vec<ElemId>, Scope)> {
        let users = |id: StateId| {
            let uses = |n: &Node| n.elem.as_ref().is_some_and(|e| e.states().contains(&id));
            let all = self.core.nodes.iter().enumerate();
            all.filter(|(_, n)| uses(n))
                .map(|(i, _)| ElemId(i as u32))
                .collect()
        };
        let all = self.states().into_iter();
        all.filter_map(|id| Some((users(id), self.store.scope(id)?)))
            .collect()
    }

    /// All rewriters forget all of their flows, as if these had timed out: no handler is called, and nothing else changes. For measurements.
    pub fn forget_flows(&mut self) {
        for id in self.states() {
            if let Some(t) = self.store.get_mut::<FlowTable>(id) {
                t.clear();
            }
        }
    }

    /// A copy of the whole graph: elements, state, clock, timers, tasks. It prints nowhere, and what has left the original
    /// is not in it.
    pub fn fork(&self) -> Graph {
        let c = &self.core;
        let mut out = Outbox {
            drops: self.out.drops.clone(),
            created: self.out.created,
            dropped: self.out.dropped,
            sent: self.out.sent,
            ..Outbox::default()
        };
        out.lanes.resize_with(self.out.lanes.len(), Vec::new);
        Graph {
            core: Core {
                topo: c.topo.clone(),
                nodes: c.nodes.iter().map(Node::clone).collect(),
                run_list: c.run_list.clone(),
                timers: c.timers.clone(),
                now: c.now,
                ingress: None,
                seed: c.seed,
                stack: Vec::new(),
                together: c.together.clone(),
                late: c.late.iter().cloned().collect::<VecDeque<_>>(),
                late_calls: c.late_calls.clone(),
                steps: 0,
                activity: c.activity,
                pull_depth: 0,
                handler_depth: 0,
                run_count: c.run_count,
                stop_flag: c.stop_flag,
                overruns: c.overruns,
                log: Log::Discard,
                printed: Vec::new(),
                trace: None,
                wake_pullers: c.wake_pullers.clone(),
                wake_pushers: c.wake_pushers.clone(),
                full_queues: c.full_queues.clone(),
                configs: c.configs.clone(),
                names: Arc::<NameDb>::clone(&c.names),
                source_text: c.source_text.clone(),
                requirements: c.requirements.clone(),
                driver: c.driver,
                changes: c.changes,
                changed: c.changed.clone(),
                told: c.told.clone(),
                rules: c.rules.clone(),
            },
            out,
            store: self.store.clone(),
            roles: self.roles.clone(),
            packets_in: self.packets_in,
            warnings: self.warnings.clone(),
        }
    }

    /// States of shared stores and values of all parameterless read handlers that elements define: for comparing two runs.
    pub fn state_summary(&mut self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (i, s) in self.store.summaries().into_iter().enumerate() {
            all.push((format!("state {i}"), s));
        }
        for i in 0..self.len() as u32 {
            let elem = self.core.nodes[i as usize].elem.as_ref();
            let handlers = elem.map_or(&[][..], |e| e.handlers());
            for h in handlers {
                use onefold_element::HandlerFlags::{Read, ReadWrite};
                if matches!(h.flags, Read | ReadWrite) {
                    let t = Target::Element(i, h.name.to_string());
                    let v = self.read_target(&t, "").unwrap_or_else(|e| e.to_string());
                    all.push((self.core.target_name(&t), v));
                }
            }
        }
        all
    }

    /// The bounds that apply (for messages).
    pub fn task_turns_per_injection() -> u32 {
        limits::TASK_TURNS
    }
}
