//! What an element sees while it works: [`Cx`]; what it answers with: [`Outbox`]; who carries it out: [`Host`].

use crate::args::{ArgScope, FromArg};
use crate::handler::HandlerError;
use crate::names::NameDb;
use crate::{DropReason, ElemId, Port, StateStore};
use onefold_packet::{Pkt, Pool, Timestamp};
use std::sync::Arc;

/// A timer of an element; an element numbers its own.
pub type TimerId = u32;

/// Where printed text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error, where Click's Print, IPPrint and messages go.
    Stderr,
}

/// One thing that an element did, in order.
#[derive(Debug)]
pub enum Effect {
    /// A packet leaves at an output.
    Emit(Port, Pkt),
    /// A write handler is to be called, after what was emitted before has been processed.
    Call(Box<(String, String)>),
    /// The packet comes back to the element itself, at this input.
    Again(Port, Pkt),
}

/// Collects what elements do. One per engine; it also owns the packet pool and the drop counters.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Effects not yet carried out, oldest first.
    pub effects: Vec<Effect>,
    /// What is emitted while `batched` is set, by output port: a batch per port, each in the order emitted. The engine
    /// provides as many as its widest element has outputs.
    pub lanes: Vec<Vec<Pkt>>,
    /// Set by the batched engine: what is emitted goes to `lanes`, since the order across outputs does not matter then.
    pub batched: bool,
    /// Set by the batched engine where packets of several times go together: the engine gives those that leave without
    /// a time theirs.
    pub coarse: bool,
    /// [`onefold_packet::Packet::order`] of the packet that an element is at work on: what it makes and prints has the
    /// same.
    pub order: u64,
    /// [`onefold_packet::Packet::behind`] of the same packet.
    pub behind: u32,
    /// The batch that [`crate::Element::push_batch`] was called with leaves at this output, as it stands; see
    /// [`Cx::pass_on`].
    pub passed: Option<u32>,
    /// A trace is being taken.
    pub traced: bool,
    /// Packets that left through a sink, with the sink.
    pub transmitted: Vec<(ElemId, Pkt)>,
    /// Recycled packets.
    pub pool: Pool,
    /// Drops by element and reason. Few entries: searched linearly.
    pub drops: Vec<(ElemId, DropReason, u64)>,
    /// Packets made by elements (copies, fragments, errors, generated traffic).
    pub created: u64,
    /// Packets dropped in all.
    pub dropped: u64,
    /// Packets sent in all.
    pub sent: u64,
}

impl Outbox {
    /// Counts a drop and recycles the packet.
    #[inline]
    pub fn drop(&mut self, elem: ElemId, reason: DropReason, p: Pkt) {
        self.count_drops(elem, reason, 1);
        self.pool.recycle(p);
    }

    /// A packet leaves at an output, which is connected.
    #[inline]
    pub fn emit(&mut self, port: Port, p: Pkt) {
        if self.batched
            && let Some(lane) = self.lanes.get_mut(port)
        {
            lane.push(p);
        } else {
            self.effects.push(Effect::Emit(port, p));
        }
    }

    /// Drops a whole batch for one reason; leaves `batch` empty.
    pub fn drop_batch(&mut self, elem: ElemId, reason: DropReason, batch: &mut Vec<Pkt>) {
        if !batch.is_empty() {
            self.count_drops(elem, reason, batch.len() as u64);
            self.pool.recycle_all(batch);
        }
    }

    #[inline]
    /// Counts so many drops.
    pub fn count_drops(&mut self, elem: ElemId, reason: DropReason, n: u64) {
        self.dropped += n;
        let found = self
            .drops
            .iter_mut()
            .find(|d| d.0 == elem && std::ptr::eq(d.1, reason));
        match found {
            Some(d) => d.2 += n,
            None => self.drops.push((elem, reason, n)),
        }
    }
}

/// Of so many rules that did not match, a trace says why.
pub const MAX_MISSED: usize = 20;

/// What an element may ask of the engine. Methods are off the fast path, except [`Host::pull`].
pub trait Host {
    /// Pulls a packet from what is connected to input `port` of `elem`.
    fn pull(
        &mut self,
        elem: ElemId,
        port: Port,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Option<Pkt>;
    /// Sets (or moves) a timer.
    fn set_timer(&mut self, elem: ElemId, timer: TimerId, at: Timestamp);
    /// Clears a timer.
    fn clear_timer(&mut self, elem: ElemId, timer: TimerId);
    /// Makes an element's task runnable.
    fn wake_task(&mut self, elem: ElemId);
    /// Has the task of `elem`, which is running, been woken since its turn began? After a vain pull: is there a queue
    /// upstream that does not count as empty yet (Click's upstream empty signal)?
    fn task_woken(&self, elem: ElemId) -> bool {
        let _ = elem;
        false
    }
    /// `elem` (a queue) has become non-empty: wakes the tasks that pull from it.
    fn notify_nonempty(&mut self, elem: ElemId);
    /// `elem` (a queue) has room again: wakes the tasks that push into it.
    fn notify_nonfull(&mut self, elem: ElemId);
    /// Are all queues that packets pushed at output `port` of `elem` come to full? True only if every push path from
    /// there ends at a queue whose [`crate::Element::full`] answers `Some(true)`; a path that ends anywhere else makes
    /// it false (Click's downstream full signal). The task of `elem` is woken by a [`Host::notify_nonfull`] of any of
    /// those queues.
    fn downstream_full(&mut self, elem: ElemId, port: Port) -> bool;
    /// Packets stored in a queue ([`crate::Element::storage`]); `None` for other elements.
    fn storage(&self, elem: ElemId) -> Option<usize> {
        let _ = elem;
        None
    }
    /// Queues that `elem` pulls packets from, through any element, by their number among all queues of the graph; and
    /// whether who pulls from each may expect a packet ([`crate::Element::is_awake`]).
    fn upstream_queues(&self, elem: ElemId) -> Vec<(usize, bool)> {
        let _ = elem;
        Vec::new()
    }
    /// Is input `port` of `elem` connected to what never gives packets (Click's idle signal)?
    fn upstream_idle(&self, elem: ElemId, port: Port) -> bool {
        let _ = (elem, port);
        false
    }
    /// Calls a read handler (`"element.handler param"`) in the scope of `from`.
    fn read_handler(
        &mut self,
        from: ElemId,
        call: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<String, HandlerError>;
    /// Calls a write handler at once (scripts). Elements on a packet's path use [`Cx::call_write`].
    fn write_handler(
        &mut self,
        from: ElemId,
        call: &str,
        value: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<(), HandlerError>;
    /// Prints.
    fn log(&mut self, stream: LogStream, text: &str);
    /// Prints what an element says of a packet with this [`onefold_packet::Packet::order`]: in a batch, texts are put
    /// in the packets' order.
    fn log_of(&mut self, order: u64, stream: LogStream, text: &str) {
        let _ = order;
        self.log(stream, text);
    }
    /// Prints bytes that need not be text (captures and binary dumps on standard output).
    fn write(&mut self, stream: LogStream, bytes: &[u8]) {
        self.log(stream, &String::from_utf8_lossy(bytes));
    }
    /// Asks the run to end.
    fn stop(&mut self);
    /// Adds to the number of stop requests that the run still survives (Click's run count): the run ends when it
    /// falls to zero. [`Host::stop`] is the same as adding -1.
    fn adjust_run_count(&mut self, delta: i32) {
        if delta < 0 {
            self.stop();
        }
    }
    /// Is there a handler `"element.handler"`, seen from `from`, that can be written (or else read)?
    fn has_handler(&self, from: ElemId, call: &str, writable: bool) -> bool {
        let _ = (from, call, writable);
        false
    }
    /// A 32-bit random number: PRF(seed, element, number of the draw).
    fn random(&mut self, elem: ElemId) -> u32;
    /// Begins all sequences of random numbers anew, with another seed.
    fn set_seed(&mut self, seed: u64) {
        let _ = seed;
    }
    /// Is a trace being taken?
    fn tracing(&self) -> bool;
    /// Adds a decision to the trace; `argument` is the configuration argument (rule, route) that made it.
    fn trace(&mut self, elem: ElemId, argument: Option<usize>, text: String);
    /// Adds to the trace why rules, by argument, did not match, and how many more there were.
    fn trace_missed(&mut self, elem: ElemId, rules: Vec<(usize, String)>, more: usize) {
        let _ = (elem, rules, more);
    }
    /// Where the packets entered that are on their way, if they came with the last batch: unknown of what a task or a
    /// timer lets go.
    fn ingress(&self) -> Option<ElemId> {
        None
    }
    /// An element's full name.
    fn element_name(&self, elem: ElemId) -> String;
    /// The configuration's names of addresses and ports.
    fn names(&self) -> Arc<NameDb> {
        Arc::default()
    }
    /// Finds an element by name in the scope of `from`.
    fn find_element(&self, from: ElemId, name: &str) -> Option<ElemId>;
}

/// An element's view of the engine while it handles a packet, a task, a timer or a handler call.
pub struct Cx<'a> {
    /// This element.
    pub elem: ElemId,
    /// The time; the same for everything that happens to a packet. In a batch, it is that of every packet as closely as
    /// the element looks at it ([`crate::Element::clock`]).
    pub now: Timestamp,
    /// Connected inputs.
    pub ninputs: usize,
    /// Connected outputs.
    pub noutputs: usize,
    /// Shared state.
    pub store: &'a mut StateStore,
    /// Where effects go; use the methods of `Cx` instead where there is one.
    pub out: &'a mut Outbox,
    /// The engine.
    pub host: &'a mut dyn Host,
}

/// The names that texts are understood with while the graph runs; see [`Cx::names`].
#[derive(Debug, Clone)]
pub struct Names {
    db: Arc<NameDb>,
    element: String,
}

impl Names {
    /// For reading arguments. Names of elements are not among them.
    pub fn scope(&self) -> ArgScope<'_> {
        ArgScope {
            names: &self.db,
            element: &self.element,
            elements: &[],
        }
    }
}

/// The emitting half of a [`Cx`]; see [`Cx::split`].
pub struct Emitter<'a> {
    elem: ElemId,
    noutputs: usize,
    out: &'a mut Outbox,
}

impl Emitter<'_> {
    /// See [`Cx::emit_or_drop`].
    #[inline]
    pub fn emit_or_drop(&mut self, port: Port, p: Pkt, reason: DropReason) {
        if port >= self.noutputs {
            self.out.drop(self.elem, reason, p);
        } else {
            self.out.emit(port, p);
        }
    }
    /// See [`Cx::drop`].
    #[inline]
    pub fn drop(&mut self, p: Pkt, reason: DropReason) {
        self.out.drop(self.elem, reason, p);
    }
}

impl Cx<'_> {
    /// The packet leaves at output `port`, which must be connected (`port < noutputs`); if it is not, it is dropped as
    /// `"unconnected output"`.
    #[inline]
    pub fn emit(&mut self, port: Port, p: Pkt) {
        self.emit_or_drop(port, p, "unconnected output");
    }

    /// A whole batch leaves at output `port`, in order; leaves `batch` empty. Costs next to nothing when nothing has
    /// been emitted at `port` before.
    #[inline]
    pub fn emit_batch(&mut self, port: Port, batch: &mut Vec<Pkt>) {
        if port < self.noutputs
            && self.out.batched
            && let Some(lane) = self.out.lanes.get_mut(port)
        {
            match lane.is_empty() {
                true => std::mem::swap(lane, batch),
                false => lane.append(batch),
            }
            return;
        }
        for p in batch.drain(..) {
            self.emit(port, p);
        }
    }

    /// In [`crate::Element::push_batch`]: what is left in the batch leaves at output `port`, which has to be connected,
    /// behind what was emitted there before. Nothing may be emitted after it.
    #[inline]
    pub fn pass_on(&mut self, port: Port, batch: &mut Vec<Pkt>) {
        if self.out.batched && port < self.noutputs && port < self.out.lanes.len() {
            self.out.passed = Some(port as u32);
        } else {
            self.emit_batch(port, batch);
        }
    }

    /// The packet leaves at output `port` if that is connected; else it is dropped for `reason`
    /// (Click's `checked_output_push`).
    #[inline]
    pub fn emit_or_drop(&mut self, port: Port, p: Pkt, reason: DropReason) {
        self.split().1.emit_or_drop(port, p, reason);
    }

    /// Shared state and, beside it, what is needed to emit: for batches that read the state packet by packet.
    #[inline]
    pub fn split(&mut self) -> (&mut StateStore, Emitter<'_>) {
        let emitter = Emitter {
            elem: self.elem,
            noutputs: self.noutputs,
            out: self.out,
        };
        (self.store, emitter)
    }

    /// The packet goes no further.
    #[inline]
    pub fn drop(&mut self, p: Pkt, reason: DropReason) {
        self.out.drop(self.elem, reason, p);
    }

    /// A whole batch goes no further; leaves `batch` empty.
    #[inline]
    pub fn drop_batch(&mut self, batch: &mut Vec<Pkt>, reason: DropReason) {
        self.out.drop_batch(self.elem, reason, batch);
    }

    /// The packet leaves the graph through this sink. One that nobody has given a time leaves at the present one.
    #[inline]
    pub fn transmit(&mut self, mut p: Pkt) {
        if !p.anno.timestamp.is_set() && !self.out.coarse {
            p.anno.timestamp = self.now;
        }
        self.out.sent += 1;
        self.out.transmitted.push((self.elem, p));
    }

    /// A new packet with a copy of `data`; counted as created.
    pub fn make(&mut self, data: &[u8]) -> Pkt {
        self.out.created += 1;
        let mut p = self.out.pool.make(data);
        (p.order, p.behind) = (self.out.order, self.out.behind);
        p
    }

    /// A copy of a packet, annotations and all; counted as created.
    pub fn copy(&mut self, p: &Pkt) -> Pkt {
        self.out.created += 1;
        p.clone()
    }

    /// Position in the list of effects; see [`Cx::take_emitted`].
    pub fn mark(&self) -> usize {
        self.out.effects.len()
    }

    /// Takes out the first packet that was emitted at `port` since `mark`. Others stay and are pushed by the engine.
    pub fn take_emitted(&mut self, mark: usize, port: Port) -> Option<Pkt> {
        let tail = self.out.effects.get(mark..)?;
        let i = tail
            .iter()
            .position(|e| matches!(e, Effect::Emit(q, _) if *q == port))?;
        match self.out.effects.remove(mark + i) {
            Effect::Emit(_, p) => Some(p),
            Effect::Call(_) | Effect::Again(..) => None,
        }
    }

    /// Pulls a packet from input `port`.
    #[inline]
    pub fn pull(&mut self, port: Port) -> Option<Pkt> {
        self.host.pull(self.elem, port, self.out, self.store)
    }

    /// The configuration's names, as this element sees them.
    pub fn names(&self) -> Names {
        Names {
            db: self.host.names(),
            element: self.host.element_name(self.elem),
        }
    }

    /// Reads a value written to handler `name` like an argument, with the configuration's names.
    ///
    /// # Errors
    /// A text that says what was expected.
    pub fn value<T: FromArg>(&self, name: &str, value: &str) -> Result<T, HandlerError> {
        let value = value.trim();
        T::from_arg(value, &self.names().scope()).map_err(|why| {
            let why = why.unwrap_or_else(|| {
                let shown: String = value.chars().take(60).collect();
                format!("expected {}, found '{shown}'", T::WANTS)
            });
            HandlerError::BadValue(format!("{name}: {why}"))
        })
    }

    /// Calls a write handler once everything emitted so far has been processed.
    pub fn call_write(&mut self, call: &str, value: &str) {
        let c = Box::new((call.to_string(), value.to_string()));
        self.out.effects.push(Effect::Call(c));
    }

    /// The packet comes back to this element at input `port` (one that the graph does not have, to know it by) once
    /// everything emitted and called so far has been processed. Only where packets are pushed.
    pub fn again(&mut self, port: Port, p: Pkt) {
        self.out.effects.push(Effect::Again(port, p));
    }

    /// Sets (or moves) a timer to fire at `at`.
    pub fn set_timer(&mut self, timer: TimerId, at: Timestamp) {
        self.host.set_timer(self.elem, timer, at);
    }
    /// Sets (or moves) a timer to fire `delay` from now.
    pub fn set_timer_after(&mut self, timer: TimerId, delay: Timestamp) {
        self.host.set_timer(self.elem, timer, self.now + delay);
    }
    /// Clears a timer.
    pub fn clear_timer(&mut self, timer: TimerId) {
        self.host.clear_timer(self.elem, timer);
    }
    /// Makes this element's task runnable.
    pub fn wake_task(&mut self) {
        self.host.wake_task(self.elem);
    }
    /// Would packets emitted at push output `port` find nothing but full queues? See [`Host::downstream_full`].
    pub fn downstream_full(&mut self, port: Port) -> bool {
        self.host.downstream_full(self.elem, port)
    }
    /// This queue has become non-empty.
    pub fn notify_nonempty(&mut self) {
        self.host.notify_nonempty(self.elem);
    }
    /// This queue has room again.
    pub fn notify_nonfull(&mut self) {
        self.host.notify_nonfull(self.elem);
    }
    /// Prints a line's text (with its newline) on standard error, as Click's `click_chatter`.
    pub fn chatter(&mut self, text: &str) {
        self.host.log_of(self.out.order, LogStream::Stderr, text);
    }
    /// A 32-bit random number of this element's own sequence.
    pub fn random(&mut self) -> u32 {
        self.host.random(self.elem)
    }
    /// Adds a decision to the trace, if one is taken. `argument` is the configuration argument that made it.
    #[inline]
    pub fn decide(&mut self, argument: Option<usize>, text: impl FnOnce() -> String) {
        if self.out.traced {
            let t = text();
            self.host.trace(self.elem, argument, t);
        }
    }
    /// See [`Host::ingress`].
    pub fn ingress(&self) -> Option<ElemId> {
        self.host.ingress()
    }
    /// Adds to the trace, if one is taken, why rules did not match that stand before the one that decided. `why` gives
    /// a rule's argument, and the condition that failed; it is asked for the first [`MAX_MISSED`], others are counted.
    #[inline]
    pub fn missed<R>(
        &mut self,
        rules: impl ExactSizeIterator<Item = R>,
        why: impl FnMut(R) -> (usize, String),
    ) {
        if self.out.traced {
            let more = rules.len().saturating_sub(MAX_MISSED);
            let told = rules.take(MAX_MISSED).map(why).collect();
            self.host.trace_missed(self.elem, told, more);
        }
    }
}
