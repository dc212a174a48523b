//! The [`Element`] trait: one node of a graph.

use crate::args::Args;
use crate::batch::{Batching, Clock};
use crate::class::Processing;
use crate::config_error::ConfigErrors;
use crate::cx::{Cx, TimerId};
use crate::handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult};
use crate::inspect::{BatchNeeds, InspectCx, Inspected, InspectedBatch};
use crate::lease::{FlowLeases, NO_FLOW_LEASE};
use crate::model::{BindPacket, Binding, Bound, Case, Model, ModelCx};
use crate::names::NameDb;
use crate::rule_counts::RuleCounters;
use crate::spec::GraphSpec;
use crate::{DropReason, ElemId, Port};
use crate::{StateStore, Takes};
use onefold_nat::{Binder, LastingBinding, PrefetchPacket};
use onefold_packet::{Packet, Pkt, Timestamp};
use std::any::Any;

/// What is known while an element is configured.
pub struct ConfigCx<'a> {
    /// This element.
    pub elem: ElemId,
    /// Its full name (`compound/name`).
    pub name: &'a str,
    /// Connected inputs (highest connected port plus one).
    pub ninputs: usize,
    /// Connected outputs (highest connected port plus one).
    pub noutputs: usize,
    /// Named addresses, ports, annotations (AddressInfo and the built-in tables).
    pub names: &'a NameDb,
    /// All elements' full names, in graph order: an element argument is resolved against these.
    pub elements: &'a [String],
    /// All elements' class names, in graph order.
    pub classes: &'a [String],
    /// Shared state; an element that owns some allocates it here.
    pub store: &'a mut StateStore,
    /// Seed of the run, for elements that draw random numbers.
    pub seed: u64,
}

impl ConfigCx<'_> {
    /// Finds an element by the name used in this element's scope: innermost compound first, as Click does.
    pub fn find_element(&self, name: &str) -> Option<ElemId> {
        find_element(self.elements, self.name, name)
    }
}

/// Finds `name` among full `elements` names from inside the compound that element `from` stands in.
pub fn find_element(elements: &[String], from: &str, name: &str) -> Option<ElemId> {
    let mut prefix = from.rsplit_once('/').map_or("", |(p, _)| p);
    // Bound: the depth of compound nesting.
    loop {
        let found = elements.iter().position(|e| {
            if prefix.is_empty() {
                e == name
            } else {
                e.strip_prefix(prefix)
                    .and_then(|r| r.strip_prefix('/'))
                    .is_some_and(|r| r == name)
            }
        });
        if let Some(i) = found {
            return Some(ElemId(i as u32));
        }
        if prefix.is_empty() {
            return None;
        }
        prefix = prefix.rsplit_once('/').map_or("", |(p, _)| p);
    }
}

/// What is known while an element is initialized: every element has been configured.
pub struct InitCx<'a> {
    /// This element.
    pub elem: ElemId,
    /// Its full name.
    pub name: &'a str,
    /// All elements' full names, in graph order.
    pub elements: &'a [String],
    /// All elements' class names, in graph order.
    pub classes: &'a [String],
    /// Shared state. Elements publish what others look up with [`StateStore::publish`] during configuration.
    pub store: &'a mut StateStore,
    /// Whether the engine has bound this element to a port or file of its own ([`IoRole`]): it then injects or collects
    /// packets, and the element must not open its device or file.
    pub bound: bool,
    /// The current time.
    pub now: onefold_packet::Timestamp,
    /// Push or pull of each connected input, after resolution: [`Processing::Push`] or [`Processing::Pull`].
    pub inputs: &'a [Processing],
    /// Push or pull of each connected output, after resolution.
    pub outputs: &'a [Processing],
    /// The graph as written, for elements that look for neighbours.
    pub graph: &'a GraphSpec,
    /// Bytes for standard output that stand before anything the run prints (a dump's header); the engine prints them.
    pub stdout: &'a mut Vec<u8>,
}

impl InitCx<'_> {
    /// Is input `port` a pull input? False when it is not connected.
    pub fn input_is_pull(&self, port: Port) -> bool {
        self.inputs.get(port) == Some(&Processing::Pull)
    }
    /// Is output `port` a pull output? False when it is not connected.
    pub fn output_is_pull(&self, port: Port) -> bool {
        self.outputs.get(port) == Some(&Processing::Pull)
    }
    /// Is output `port` a push output? False when it is not connected.
    pub fn output_is_push(&self, port: Port) -> bool {
        self.outputs.get(port) == Some(&Processing::Push)
    }
    /// Finds an element by the name used in this element's scope.
    pub fn find_element(&self, name: &str) -> Option<ElemId> {
        find_element(self.elements, self.name, name)
    }
}

/// An element that stands for the outside world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IoRole {
    /// Packets enter here: FromDevice, FromDPDKDevice, FromDump ... The engine injects a packet by pushing it into
    /// input 0 although the element has no input in the graph.
    Source {
        /// Device or file name.
        name: String,
    },
    /// Packets leave here: ToDevice, ToDump ... through [`Cx::transmit`].
    Sink {
        /// Device or file name.
        name: String,
    },
    /// Both: KernelTun, KernelTap. The engine injects into input [`ENTRY`], which no graph has.
    Both {
        /// Device name.
        name: String,
    },
}

/// The input that packets enter [`IoRole::Both`] through; its other inputs are the graph's.
pub const ENTRY: Port = u16::MAX as Port;

/// What a task did and when it wants to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// Did something; run again in the same turn after what it emitted has been processed (a burst of single packets).
    Again,
    /// Done for this turn; schedule again.
    Reschedule,
    /// Nothing to do until woken ([`Cx::wake_task`], a notifier upstream or downstream). A wake-up that came while the
    /// task ran counts: it runs again.
    Sleep,
}

/// One node of a graph.
///
/// Agnostic elements implement [`Element::push`] only. In a pull context the engine pulls a packet upstream, gives it
/// to `push`, takes what was emitted at the pulled output as the answer, and pushes whatever left at other outputs.
#[allow(unused_variables)]
pub trait Element: ElementClone + Send + 'static {
    /// Reads the configuration. Errors are collected in `args` and reported together; return what else is wrong.
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        Ok(())
    }

    /// Order of configuration: lower first (AddressInfo and other information elements 0, others 100), as Click's
    /// phases.
    fn configure_phase(&self) -> i32 {
        100
    }

    /// Names that this element defines for others (AddressInfo). Asked just before it is configured, in the order of
    /// configuration; `name` is the element's full name, `args` its arguments.
    fn define_names(
        &self,
        name: &str,
        args: &[String],
        names: &mut NameDb,
    ) -> Result<(), ConfigErrors> {
        Ok(())
    }

    /// Called once all elements are configured: resolves references to others, schedules tasks and timers.
    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        Ok(())
    }

    /// Scheduling tickets that this element gives to the tasks of others (ScheduleInfo): element names, seen from its
    /// own compound, and tickets; 1024 is what a task has unless told otherwise. Asked after initialization.
    fn tickets(&self) -> &[(String, u32)] {
        &[]
    }

    /// Called once the whole graph is initialized, in the order of configuration, before the first packet.
    fn started(&mut self, cx: &mut Cx<'_>) {}

    /// Is this the script that decides what happens when the run is asked to stop (DriverManager)?
    fn is_driver_script(&self) -> bool {
        false
    }

    /// The run has been asked to stop and this is its driver script: takes a step. True when the step was a plain one,
    /// so that another may follow while the run is still asked to stop.
    fn driver_step(&mut self, cx: &mut Cx<'_>) -> bool {
        false
    }

    /// A packet arrives at input `port`. It must be emitted, dropped, transmitted or kept; never just forgotten.
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>);

    /// A batch arrives at input `port`, in order; leaves `batch` empty. The default passes on what [`Element::pass`]
    /// takes, and calls `push` for the others.
    fn push_batch(&mut self, port: Port, batch: &mut Vec<Pkt>, cx: &mut Cx<'_>) {
        if self.passes() && !cx.out.traced {
            // taking out one packet moves those behind it: not for more than a few
            for _ in 0..8 {
                let (to, done) = self.pass(batch, cx.now);
                if done >= batch.len() {
                    cx.pass_on(to, batch);
                    return;
                }
                for p in batch.drain(..done) {
                    cx.emit(to, p);
                }
                let p = batch.remove(0);
                (cx.out.order, cx.out.behind) = (p.order, p.behind);
                self.push(port, p, cx);
                if batch.is_empty() {
                    return;
                }
            }
        }
        for p in batch.drain(..) {
            (cx.out.order, cx.out.behind) = (p.order, p.behind);
            self.push(port, p, cx);
        }
    }

    /// What the batched engine may do here. `class` is what follows from the class's [`crate::Effect`], see
    /// [`Batching::of`]; an element that is more, or less, particular as it is configured now says so. Asked when the
    /// graph is built, and again when a write handler has been called.
    fn batching(&self, class: Batching) -> Batching {
        class
    }

    /// How closely this element looks at the clock ([`Cx::now`]) when it is given packets. `class` is what follows from
    /// the class's [`crate::Effect`], see [`Clock::of`]. Asked as [`Element::batching`].
    fn clock(&self, class: Clock) -> Clock {
        class
    }

    /// Can several packets leave for one that came (copies, fragments, packets that waited)? In a batch, these are then
    /// put in order one behind the other.
    fn multiplies(&self) -> bool {
        false
    }

    /// Does this element implement [`Element::pass`]? Asked once, when the graph is built; it must then have a single
    /// input.
    fn passes(&self) -> bool {
        false
    }

    /// The way of nearly every packet through an element that changes packets where they are: does what
    /// [`Element::push`] would do to the first `n` packets, if all of them leave at one output, and says which output
    /// that is, and `n`. It stops at the first packet that leaves at another output, is dropped or copied, or of which
    /// anything has to be said; this one and those behind it are untouched and go through [`Element::push`]. Whole
    /// batches go from one such element to the next without being moved, and without anything else that a [`Cx`] stands
    /// for: that is what makes a hop of a small batch cheap. Not called while a trace is taken.
    fn pass(&mut self, batch: &mut [Pkt], now: Timestamp) -> (Port, usize) {
        (0, 0)
    }

    /// Does this element implement [`Element::inspect`]? Asked once, when the graph is built; it must then have a
    /// single input.
    fn inspects(&self) -> bool {
        false
    }

    /// Looks at a packet that nobody has taken apart for the element: no annotations, no [`Cx`]. True:
    /// [`Element::push`] would give the packet back at output 0, alone and as it is, and would do nothing else that
    /// anybody could tell; it has been counted as if `push` had been called. False: nothing has been done, and the
    /// packet goes through `push`. That is always right, so whatever is not certain, or seldom, is left to `push`. Not
    /// called while a trace is taken.
    fn inspect(&mut self, p: &Inspected<'_>, cx: &mut InspectCx<'_>) -> bool {
        false
    }

    /// Does [`Element::inspect`] say where it has found a packet's flow ([`InspectCx::hint`])? Asked once, when the
    /// graph is built. Whoever calls it then keeps that with the flow, so that its next packet need not be looked
    /// for. Of several elements on a flow's way one is asked for hints.
    fn hints(&self) -> bool {
        false
    }

    /// Does [`Element::push`] never change a packet, and emit each that it does not drop at once, as it came? Then it
    /// only says which way packets go.
    fn only_tells(&self) -> bool {
        false
    }

    /// Of an element that [only tells](Element::only_tells), and asks nobody but the state that it uses: what
    /// [`Element::push`] would do with a packet, which leaves at an output, or is dropped for a reason. `None`: nothing
    /// has happened, and it is to be pushed.
    fn tell(
        &mut self,
        port: Port,
        p: &Packet,
        cx: &mut Cx<'_>,
    ) -> Option<Result<Port, DropReason>> {
        None
    }

    /// Packets of flows with these hints will be inspected soon: their memory may be asked for.
    fn prefetch_flows(&self, hints: &[u32], store: &StateStore) {}

    /// A packet whose IP header begins these bytes (or that has none there) will most likely come to [`Element::push`]
    /// soon: what it is about to look for may be asked for. Nothing changes by it.
    fn prefetch_packet(&self, net: &[u8], store: &StateStore) {}

    /// Does this element implement [`Element::inspect_batch`], and what does it need for it? Asked when a way of
    /// packets has been found; it must have [hints](Element::hints).
    fn inspects_batches(&self, store: &StateStore) -> Option<BatchNeeds> {
        None
    }

    /// [`Element::inspect`] of packets that come one behind the other: how many of them, from the first one on, have
    /// been let pass, with their hints as they are. With all others nothing has been done, whether `inspect` would let
    /// them pass or not; 0 is always right. [`InspectCx::hint`] is `None`. Not called while a trace is taken.
    fn inspect_batch(&mut self, b: &InspectedBatch<'_>, cx: &mut InspectCx<'_>) -> usize {
        0
    }

    /// The [leases](crate::FlowLease) that this element gives, if any. Asked for each batch, of an element that has
    /// said that it [gives some](BatchNeeds::leases).
    fn leases<'a>(&self, store: &'a mut StateStore) -> Option<FlowLeases<'a>> {
        None
    }

    /// A lease for packets that go as one that has just been let pass in [`Element::inspect_batch`], with this hint:
    /// until it ends, `inspect` would let each plain one of them pass, and would do nothing but what
    /// [`FlowLease::note`](crate::FlowLease::note) does, and count it. [`NO_FLOW_LEASE`] if there is none. What runs
    /// goes on: asking again is no change.
    fn lease(&mut self, p: &Inspected<'_>, hint: u32, cx: &mut InspectCx<'_>) -> u32 {
        NO_FLOW_LEASE
    }

    /// Output `port` is asked for a packet. Only elements with a pull output of their own kind (queues, schedulers)
    /// override this; the default pulls input 0 and applies `push`.
    ///
    /// Who answers `None` promises to call [`Cx::notify_nonempty`] once there may be a packet again (a push into a
    /// queue, a rate limiter's timer, a handler that switches something on): the tasks that pull sleep until then and
    /// nobody polls. Elements that merely passed the `None` of their input on need not.
    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let mark = cx.mark();
        let p = cx.pull(0)?;
        self.push(0, p, cx);
        let answer = cx.take_emitted(mark, port);
        if answer.is_none() {
            // Dropped, or it left elsewhere: there may be more behind it, so the puller must not fall asleep.
            cx.notify_nonempty();
        }
        answer
    }

    /// Does this element have a task? Asked after initialization.
    fn has_task(&self) -> bool {
        false
    }

    /// Is the task scheduled from the start? Asked after initialization.
    fn task_active(&self) -> bool {
        self.has_task()
    }

    /// The task's turn.
    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        TaskStatus::Sleep
    }

    /// A timer set with [`Cx::set_timer`] has expired.
    fn run_timer(&mut self, timer: TimerId, cx: &mut Cx<'_>) {}

    /// Timers to set at start: `(timer, delay)`.
    fn initial_timers(&self) -> Vec<(TimerId, onefold_packet::Timestamp)> {
        Vec::new()
    }

    /// For queues that tell sources when they are full: are they? `None` for everything else. A queue that answers
    /// calls [`Cx::notify_nonfull`] when it has room again; see [`Cx::downstream_full`].
    fn full(&self) -> Option<bool> {
        None
    }

    /// For elements that store packets for others to see (queues, emulated links): how many are stored. `None` for
    /// everything else.
    fn storage(&self) -> Option<usize> {
        None
    }

    /// Of an element with [`Element::storage`]: may whoever pulls from it expect a packet, as far as has been found
    /// out (Click's notifier signal)?
    fn is_awake(&self) -> bool {
        self.storage().is_some_and(|n| n > 0)
    }

    /// For elements that do nothing where packets are pulled but to say from which of `ninputs` inputs: where a pull of
    /// output `port` goes on to. Such a way may lead through the element more than once.
    fn pulls_through(&self, port: Port, ninputs: usize) -> Option<Port> {
        let _ = (port, ninputs);
        None
    }

    /// Called once when a run has ended, before the element is dropped: flushes files.
    fn cleanup(&mut self, cx: &mut Cx<'_>) {}

    /// Packets kept inside (queues, ARP waiting lists, reassembly).
    fn held(&self) -> usize {
        0
    }

    /// Takes out everything held, so that the end of a run can account for it.
    fn drain_held(&mut self, cx: &mut Cx<'_>) -> Vec<Pkt> {
        Vec::new()
    }

    /// Handlers beyond the ones that every element has (`class`, `name`, `config`, `ports`, `handlers`).
    fn handlers(&self) -> &'static [HandlerInfo] {
        &[]
    }

    /// Handlers that depend on the configuration, beyond [`Element::handlers`].
    fn dynamic_handlers(&self) -> Vec<(String, HandlerFlags)> {
        Vec::new()
    }

    /// Calls a read handler of this element; `param` is what stood behind its name.
    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        Err(HandlerError::NoSuchHandler(name.to_string()))
    }

    /// Calls a write handler of this element.
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        Err(HandlerError::NoSuchHandler(name.to_string()))
    }

    /// The outside world's side of this element, if it is one.
    fn io_role(&self) -> Option<IoRole> {
        None
    }

    /// Can this element be told, while running, that its configuration is `config`? (Click's live reconfiguration.)
    fn can_live_reconfigure(&self) -> bool {
        false
    }

    /// The symbolic model of input `port`, as configured now; see [`crate::model`]. Asked after initialization, and
    /// again when a write handler has been called.
    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        Model::None("no model")
    }

    /// What becomes of packets that the model hands over, as far as it can be told at all: cases that hold for packets
    /// which the model punts, and hand over the others. Too many for a program; a proof asks for them where a program
    /// does not hand over.
    fn finer(&self, port: Port, cx: &ModelCx<'_>) -> Option<Vec<Case>> {
        None
    }

    /// Does for `packets` packets of `bytes` bytes together what `push` does besides deciding their way, where the
    /// model has [`crate::model::Op::Count`] with `tag`: counters, messages.
    fn account(&mut self, tag: u16, packets: u64, bytes: u64, cx: &mut Cx<'_>) {}

    /// For lists of rules: how many packets each argument has decided about. Whoever executes a program adds to it what
    /// packets have done that did not come to the element, before anybody reads.
    fn rule_counters(&self) -> Option<&RuleCounters> {
        None
    }

    /// The same, to be added to.
    fn rule_counters_mut(&mut self) -> Option<&mut RuleCounters> {
        None
    }

    /// When [`Element::account`] must be told of what has passed, with this tag.
    fn accounts(&self, tag: u16) -> Accounts {
        Accounts::Now
    }

    /// May it be told some time later of packets that have not come, as a sum, with nothing else coming of it than that
    /// what it prints about them comes later, too? Asked where somebody in front of the chain drops packets for it.
    fn tells_later(&self, tag: u16) -> bool {
        self.accounts(tag) == Accounts::Later
    }

    /// For rewriters, when `bind` has just answered [`Bound::To`] for a packet: is the binding one that further packets
    /// like it (same addresses, ports, protocol; same SYN, FIN and RST; with or without TCP payload as this one) do
    /// nothing to but refresh?
    fn lasting(&mut self, p: &BindPacket, cx: &mut Cx<'_>) -> Option<LastingBinding> {
        None
    }

    /// For rewriters, where the model has [`crate::model::Exit::Bind`]: finds or makes the binding of a packet. The
    /// answer is [`Bound::To`] only after `may` has been asked about that binding; where it says no, the answer is
    /// [`Bound::Punt`], and nothing has happened but that a binding may be new.
    fn bind(
        &mut self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        Bound::Punt("no bindings here")
    }

    /// For rewriters: who binds many packets of an input one after the other, if they are of the usual kinds. What it
    /// does is what [`Element::bind`] would have done; see [`Binder`].
    fn binder<'s>(&self, port: Port, store: &'s mut StateStore) -> Option<Binder<'s>> {
        None
    }

    /// For rewriters: packets that [`Element::bind`] will soon be asked about. Memory that this will take is asked for,
    /// for all of them at once, and what the bindings will make of their addresses and ports is told as far as it can
    /// be guessed. Nothing changes by it, and nothing may be concluded from it. Only packets for this element, `me`,
    /// are looked at.
    fn prefetch_bindings(&self, me: ElemId, all: &mut [PrefetchPacket], store: &StateStore) {}

    /// `old` is the element of the same name, class and configuration in the graph that this one's graph replaces
    /// (Click's hot swapping). [`Takes::Whole`], the default: `old` itself, with all that it has learnt and counted,
    /// is used in the place of this one. An element that holds numbers of elements or states keeps these, which are
    /// the new graph's, and takes what it has counted. Shared states go on by themselves
    /// ([`crate::State::take_state`]).
    fn take_state(&mut self, old: &mut dyn Element) -> Takes {
        Takes::Whole
    }

    /// Shared state that this element uses, for forks, comparison and reports.
    fn states(&self) -> Vec<crate::StateId> {
        Vec::new()
    }

    /// For code that must reach a concrete element (tests, the engine's special elements).
    fn as_any(&self) -> &dyn Any;
    /// See [`Element::as_any`].
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// How late [`Element::account`] may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accounts {
    /// At any time before somebody asks: it only adds up.
    Later,
    /// At the same moment on the clock: it adds up, and looks at the clock.
    Moment,
    /// At once, packet by packet: it prints, or the order matters.
    Now,
}

/// Cloning behind `dyn Element`; implemented for every `Element` that is `Clone`.
pub trait ElementClone {
    /// A copy, state and all.
    fn clone_box(&self) -> Box<dyn Element>;
}

impl<T: Element + Clone> ElementClone for T {
    fn clone_box(&self) -> Box<dyn Element> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Element> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}
