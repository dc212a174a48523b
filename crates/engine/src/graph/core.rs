//! The running part of a graph: elements, clock, tasks, timers, pending work. It is the [`Host`] that elements talk to.

use crate::graph::batch::Together;
use crate::graph::hookup::MAX_PULL_PATH;
use crate::graph::limits;
use crate::graph::random;
use crate::graph::rule_counts::RuleLedger;
use crate::graph::sched::{RunList, Timers};
use crate::graph::topology::{Edge, Topology};
use crate::graph::trace::{Decision, Entry, Trace};
use onefold_element::{
    Cx, ElemId, Element, Emission, HandlerError, Host, LogStream, NameDb, Outbox, StateStore,
    TimerId, find_element,
};
use onefold_packet::{Pkt, Timestamp};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

/// Where the text that elements print goes.
#[derive(Debug, Clone, Default)]
pub enum Log {
    /// Nowhere.
    Discard,
    /// To this list, in order.
    #[default]
    Keep,
    /// To the process's standard output and error.
    Stdio,
}

/// One element at run time.
#[derive(Clone)]
pub(crate) struct Node {
    /// Taken out while it works.
    pub elem: Option<Box<dyn Element>>,
    pub ninputs: u32,
    pub noutputs: u32,
    pub in_base: u32,
    pub out_base: u32,
    /// Random numbers drawn.
    pub draws: u64,
    /// Its task is run.
    pub has_task: bool,
    /// [`Element::pass`] is for use.
    pub passes: bool,
}

/// Something to be done, last first.
pub(crate) enum Work {
    /// Push a packet into an input; it has passed so many elements.
    Push(Edge, Pkt, u32),
    /// Call a write handler on behalf of an element.
    Call(u32, Box<(String, String)>),
}

/// A handler call that had to wait because its element was at work.
#[derive(Debug, Clone)]
pub(crate) struct LateCall {
    pub element: u32,
    pub handler: String,
    pub value: String,
}

pub(crate) struct Core {
    pub topo: Arc<Topology>,
    pub nodes: Vec<Node>,
    pub run_list: RunList,
    pub timers: Timers,
    pub now: Timestamp,
    /// Where the batch entered that is on its way, if whoever brought it has said so.
    pub ingress: Option<ElemId>,
    pub seed: u64,
    /// Work not done yet; the last is next.
    pub stack: Vec<Work>,
    /// What the batched engine works with.
    pub together: Together,
    /// Packets for elements that were at work.
    pub late: VecDeque<(Edge, Pkt, u32)>,
    pub late_calls: VecDeque<LateCall>,
    /// Elements passed since the injection began.
    pub steps: u64,
    /// Counts what happens besides steps, to see whether a task did something.
    pub activity: u64,
    /// Nested pulls under way.
    pub pull_depth: usize,
    /// Nested handler calls under way.
    pub handler_depth: u32,
    /// Stop requests that the run survives; it ends at zero.
    pub run_count: i32,
    /// The run count has fallen to zero or below.
    pub stop_flag: bool,
    /// Task turns were left over at least once.
    pub overruns: u64,
    pub log: Log,
    pub printed: Vec<(LogStream, Vec<u8>)>,
    pub trace: Option<Box<Trace>>,
    /// Tasks woken by notifications of each element, found out when first needed.
    pub wake_pullers: Vec<Option<Arc<[u32]>>>,
    pub wake_pushers: Vec<Option<Arc<[u32]>>>,
    /// Queues that packets from an output come to; `None` when they come to something else, too.
    pub full_queues: HashMap<(u32, u32), Option<Arc<[u32]>>>,
    /// Configurations changed at run time.
    pub configs: HashMap<u32, String>,
    pub names: Arc<NameDb>,
    /// The configuration as it was given.
    pub source_text: String,
    pub requirements: Vec<(String, String)>,
    /// The driver script.
    pub driver: Option<u32>,
    /// How often elements' write handlers have been called, and those of which since somebody looked.
    pub changes: u64,
    pub changed: crate::graph::hotswap::Changed,
    /// Global read handlers about the execution, see [`crate::graph::reference::Graph::tell`].
    pub told: BTreeMap<&'static str, String>,
    /// What a program that stands for the graph has decided in place of lists of rules; not there while a batch is at work on it.
    pub rules: Option<Box<RuleLedger>>,
}

impl Core {
    /// Runs `f` with an element and its context; `None` while the element is at work already.
    #[inline]
    pub fn with<R>(
        &mut self,
        node: u32,
        out: &mut Outbox,
        store: &mut StateStore,
        f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let n = self.nodes.get_mut(node as usize)?;
        let mut elem = n.elem.take()?;
        let (ninputs, noutputs) = (n.ninputs as usize, n.noutputs as usize);
        let r = f(
            &mut *elem,
            &mut Cx {
                elem: ElemId(node),
                now: self.now,
                ninputs,
                noutputs,
                store,
                out,
                host: self,
            },
        );
        self.nodes[node as usize].elem = Some(elem);
        Some(r)
    }

    /// Lists of rules are told what has been decided in their place: somebody is about to read their counters.
    pub fn tell_rules(&mut self) {
        if let Some(mut ledger) = self.rules.take() {
            ledger.tell(&mut self.nodes);
            self.rules = Some(ledger);
        }
    }

    /// Has the element counters of rules?
    pub fn counts_rules(&self, node: u32) -> bool {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        elem.is_some_and(|e| e.rule_counters().is_some())
    }

    #[inline]
    pub fn out_edge(&self, node: u32, port: usize) -> Edge {
        let base = self.nodes[node as usize].out_base as usize;
        *self.topo.out_edge.get(base + port).unwrap_or(&Edge::NONE)
    }

    /// Pushes a packet and carries out everything that follows from it, depth first.
    pub fn push(&mut self, to: Edge, p: Pkt, hops: u32, out: &mut Outbox, store: &mut StateStore) {
        let base = self.stack.len();
        self.stack.push(Work::Push(to, p, hops));
        self.run_stack(base, out, store);
    }

    /// Moves the effects from `mark` on to the work stack, the oldest on top.
    pub fn effects_to_stack(&mut self, from: u32, mark: usize, hops: u32, out: &mut Outbox) {
        while out.effects.len() > mark {
            match out.effects.pop() {
                Some(Emission::Emit(port, p)) => {
                    let to = self.out_edge(from, port);
                    if to.is_some() {
                        self.stack.push(Work::Push(to, p, hops));
                    } else {
                        out.drop(ElemId(from), limits::UNCONNECTED, p);
                    }
                }
                Some(Emission::Again(port, p)) => {
                    let to = Edge {
                        node: from,
                        port: port as u32,
                    };
                    self.stack.push(Work::Push(to, p, hops));
                }
                Some(Emission::Call(c)) => self.stack.push(Work::Call(from, c)),
                None => break,
            }
        }
    }

    /// Works until the stack is as high as `base` again.
    pub fn run_stack(&mut self, base: usize, out: &mut Outbox, store: &mut StateStore) {
        let batched = std::mem::replace(&mut out.batched, false);
        while self.stack.len() > base {
            let (mut to, mut p, mut hops) = match self.stack.pop() {
                Some(Work::Push(to, p, hops)) => (to, p, hops),
                Some(Work::Call(from, call)) => {
                    self.activity += 1;
                    // an error is the caller's to see, and nobody calls any more: as Click, silently ignored
                    let _ = self.write_call(ElemId(from), &call.0, &call.1, out, store);
                    continue;
                }
                None => break,
            };
            // follow a single emission without touching the stack
            loop {
                self.steps += 1;
                if hops >= limits::MAX_HOPS {
                    out.drop(ElemId(to.node), limits::LOOP, p);
                    break;
                }
                if self.steps > limits::MAX_STEPS {
                    out.drop(ElemId(to.node), limits::WORK, p);
                    break;
                }
                let Some(n) = self.nodes.get_mut(to.node as usize) else {
                    out.drop(ElemId(to.node), limits::UNCONNECTED, p);
                    break;
                };
                let Some(mut elem) = n.elem.take() else {
                    self.late.push_back((to, p, hops));
                    break;
                };
                let (ninputs, noutputs) = (n.ninputs as usize, n.noutputs as usize);
                let mark = out.effects.len();
                let entry = Entry::Push(to.port as usize);
                let traced = self.trace_begin(to.node, entry, Some(&p), out);
                elem.push(
                    to.port as usize,
                    p,
                    &mut Cx {
                        elem: ElemId(to.node),
                        now: self.now,
                        ninputs,
                        noutputs,
                        store,
                        out,
                        host: self,
                    },
                );
                self.nodes[to.node as usize].elem = Some(elem);
                self.trace_end(traced, None, mark, out);
                if out.effects.len() == mark + 1
                    && let Some(Emission::Emit(port, _)) = out.effects.last()
                {
                    let next = self.out_edge(to.node, *port);
                    if let Some(Emission::Emit(_, q)) = out.effects.pop() {
                        if !next.is_some() {
                            out.drop(ElemId(to.node), limits::UNCONNECTED, q);
                            break;
                        }
                        (to, p, hops) = (next, q, hops + 1);
                        continue;
                    }
                    break;
                }
                self.effects_to_stack(to.node, mark, hops + 1, out);
                break;
            }
        }
        out.batched = batched;
    }

    /// Carries out what `node` left among the effects since `mark`.
    pub fn settle(&mut self, node: u32, mark: usize, out: &mut Outbox, store: &mut StateStore) {
        if out.effects.len() > mark {
            let base = self.stack.len();
            self.effects_to_stack(node, mark, 1, out);
            self.run_stack(base, out, store);
        }
    }

    /// Packets and calls that had to wait for a busy element; called when none is at work.
    pub fn run_late(&mut self, out: &mut Outbox, store: &mut StateStore) {
        let mut calls = 0;
        while !self.late.is_empty() || !self.late_calls.is_empty() {
            // a packet that comes back here again and again runs out of steps
            while let Some((to, p, hops)) = self.late.pop_front() {
                self.push(to, p, hops + 1, out, store);
            }
            let Some(c) = self.late_calls.pop_front() else {
                continue;
            };
            calls += 1;
            if calls <= limits::DEFERRED_CALLS {
                let _ = self.write_element(c.element, &c.handler, &c.value, out, store);
            }
        }
    }

    /// Prints at once.
    pub fn print(&mut self, stream: LogStream, bytes: &[u8]) {
        match self.log {
            Log::Discard => {}
            Log::Keep => match self.printed.last_mut() {
                Some((s, text)) if *s == stream => text.extend_from_slice(bytes),
                _ => self.printed.push((stream, bytes.to_vec())),
            },
            // a closed pipe is no reason to stop processing packets
            Log::Stdio => match stream {
                LogStream::Stdout => {
                    let mut o = std::io::stdout().lock();
                    let _ = o.write_all(bytes);
                    let _ = o.flush();
                }
                LogStream::Stderr => {
                    let _ = std::io::stderr().lock().write_all(bytes);
                }
            },
        }
    }

    fn wake_all(&mut self, which: &[u32]) {
        for e in which {
            self.run_list.wake(*e);
        }
    }
}

impl Host for Core {
    fn pull(
        &mut self,
        elem: ElemId,
        port: usize,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Option<Pkt> {
        let base = self.nodes.get(elem.0 as usize)?.in_base as usize;
        let up = *self.topo.in_edge.get(base + port)?;
        if !up.is_some() || self.pull_depth > MAX_PULL_PATH + 16 {
            return None;
        }
        let up = self.pull_source(up)?;
        let batched = std::mem::replace(&mut out.batched, false);
        let mark = out.effects.len();
        self.pull_depth += 1;
        let traced = self.trace_begin(up.node, Entry::Pull(up.port as usize), None, out);
        let p = self.with(up.node, out, store, |e, cx| e.pull(up.port as usize, cx));
        let gave = p.as_ref().and_then(|p| p.as_deref());
        self.trace_end(traced, gave, mark, out);
        self.pull_depth -= 1;
        // what left at its push outputs meanwhile
        self.settle(up.node, mark, out, store);
        out.batched = batched;
        let p = p.flatten();
        if p.is_some() {
            self.activity += 1;
        }
        p
    }
    fn set_timer(&mut self, elem: ElemId, timer: TimerId, at: Timestamp) {
        self.timers.set(elem.0, timer, at);
    }
    fn clear_timer(&mut self, elem: ElemId, timer: TimerId) {
        self.timers.clear(elem.0, timer);
    }
    fn wake_task(&mut self, elem: ElemId) {
        if self.nodes.get(elem.0 as usize).is_some_and(|n| n.has_task) {
            self.wake_all(&[elem.0]);
        }
    }
    fn task_woken(&self, elem: ElemId) -> bool {
        self.run_list.is_scheduled(elem.0)
    }
    fn notify_nonempty(&mut self, elem: ElemId) {
        let i = elem.0 as usize;
        let list = match self.wake_pullers.get(i) {
            Some(Some(l)) => l.clone(),
            Some(None) => {
                let l: Arc<[u32]> = self.topo.pullers(i, |e| self.nodes[e].has_task).into();
                self.wake_pullers[i] = Some(l.clone());
                l
            }
            None => return,
        };
        self.wake_all(&list);
    }
    fn notify_nonfull(&mut self, elem: ElemId) {
        let i = elem.0 as usize;
        let list = match self.wake_pushers.get(i) {
            Some(Some(l)) => l.clone(),
            Some(None) => {
                let l: Arc<[u32]> = self.topo.pushers(i, |e| self.nodes[e].has_task).into();
                self.wake_pushers[i] = Some(l.clone());
                l
            }
            None => return,
        };
        self.wake_all(&list);
    }
    fn downstream_full(&mut self, elem: ElemId, port: usize) -> bool {
        let key = (elem.0, port as u32);
        let queues = match self.full_queues.get(&key) {
            Some(q) => q.clone(),
            None => {
                let is_queue = |e: usize| {
                    let e = self.nodes.get(e).and_then(|n| n.elem.as_ref());
                    e.is_some_and(|e| e.full().is_some())
                };
                let q = self.topo.queues_below(elem.0 as usize, port, is_queue);
                let q: Option<Arc<[u32]>> = q.map(Into::into);
                self.full_queues.insert(key, q.clone());
                q
            }
        };
        queues.is_some_and(|q| {
            q.iter().all(|e| {
                let e = self.nodes.get(*e as usize).and_then(|n| n.elem.as_ref());
                e.is_some_and(|e| e.full() == Some(true))
            })
        })
    }
    fn storage(&self, elem: ElemId) -> Option<usize> {
        self.nodes.get(elem.0 as usize)?.elem.as_ref()?.storage()
    }
    fn read_handler(
        &mut self,
        from: ElemId,
        call: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<String, HandlerError> {
        let batched = std::mem::replace(&mut out.batched, false);
        let r = self.read_call(from, call, out, store);
        out.batched = batched;
        r
    }
    fn write_handler(
        &mut self,
        from: ElemId,
        call: &str,
        value: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<(), HandlerError> {
        let batched = std::mem::replace(&mut out.batched, false);
        let r = self.write_call(from, call, value, out, store);
        out.batched = batched;
        r
    }
    fn log(&mut self, stream: LogStream, text: &str) {
        self.write(stream, text.as_bytes());
    }
    fn log_of(&mut self, order: u64, stream: LogStream, text: &str) {
        self.print_of(Some(order), stream, text.as_bytes());
    }
    fn write(&mut self, stream: LogStream, bytes: &[u8]) {
        self.print_of(None, stream, bytes);
    }
    fn stop(&mut self) {
        self.adjust_run_count(-1);
    }
    fn adjust_run_count(&mut self, delta: i32) {
        self.run_count = self.run_count.saturating_add(delta);
        if self.run_count <= 0 {
            self.stop_flag = true;
        }
    }
    fn has_handler(&self, from: ElemId, call: &str, writable: bool) -> bool {
        self.handler_exists(from, call, writable)
    }
    fn random(&mut self, elem: ElemId) -> u32 {
        let Some(n) = self.nodes.get_mut(elem.0 as usize) else {
            return 0;
        };
        n.draws += 1;
        random::draw(self.seed, elem.0, n.draws)
    }
    #[inline]
    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        for n in &mut self.nodes {
            n.draws = 0;
        }
    }
    fn tracing(&self) -> bool {
        self.trace.as_ref().is_some_and(|t| t.visits.is_none())
    }
    fn trace(&mut self, elem: ElemId, argument: Option<usize>, text: String) {
        let topo = self.topo.clone();
        let Some(step) = self.trace_step(elem) else {
            return;
        };
        let loc = match argument {
            Some(i) => topo.spec.arg_loc(elem.0 as usize, i),
            None => step.loc.clone(),
        };
        step.decisions.push(Decision {
            argument,
            loc,
            text,
        });
    }
    fn trace_missed(&mut self, elem: ElemId, rules: Vec<(usize, String)>, more: usize) {
        let topo = self.topo.clone();
        let Some(step) = self.trace_step(elem) else {
            return;
        };
        step.more_missed += more;
        step.missed
            .extend(rules.into_iter().map(|(argument, text)| Decision {
                argument: Some(argument),
                loc: topo.spec.arg_loc(elem.0 as usize, argument),
                text,
            }));
    }
    fn ingress(&self) -> Option<ElemId> {
        self.ingress
    }
    fn upstream_queues(&self, elem: ElemId) -> Vec<(usize, bool)> {
        self.queues_above(elem)
    }
    fn upstream_idle(&self, elem: ElemId, port: usize) -> bool {
        self.never_gives(elem, port)
    }
    fn element_name(&self, elem: ElemId) -> String {
        let name = self.topo.names.get(elem.0 as usize);
        name.cloned().unwrap_or_default()
    }
    fn names(&self) -> Arc<NameDb> {
        self.names.clone()
    }
    fn find_element(&self, from: ElemId, name: &str) -> Option<ElemId> {
        let from = self.topo.names.get(from.0 as usize);
        find_element(&self.topo.names, from.map_or("", |n| n.as_str()), name)
    }
}
