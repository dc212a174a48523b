//! The flow table's level of execution: what the chain did to a flow's packet is done to the next one without asking.
//!
//! A [`FlowRunner`] is a [`ProgramRunner`] with a table in front of it. For a packet that the table does not know, the program runs
//! and its way is written down ([`Path`]); what can be repeated becomes an entry: the composed [`FlowAction`] of the whole chain, with
//! the flow's own addresses, ports and checksum differences, under a key of addresses, ports and guards ([`guard`]). The
//! next packet of the flow costs one look-up and one write, however long the chain is.
//!
//! What stays as it would be without the table, and how:
//!
//! - **Bindings**: an entry has a lease on every record that it stands for ([`lease`]); a hit writes the flow's last use once, for all of
//!   them, in the order of packets. A record that goes or changes state ends the lease, and the entry with it.
//! - **Changes**: a handler that is written to empties the table before the next packet.
//! - **Counts** are told to elements before anyone can ask ([`FlowRunner::sync`]); those that look at the clock, at the end of each
//!   batch; those that print, packet by packet (`Accounts::Now`).
//! - **Order**: packets of a batch are taken in the order in which they came, those that the program runs among them.
//!
//! Every entry is tried on the packet that it was made of: should the outcome not be the packet that the program sent, there is
//! no entry, and [`FlowStats::refused`] counts it.
//!
//! Per packet of a known flow there is no allocation, no lock and no system call. A batch goes through in three steps, so that memory
//! comes while others are looked at: headers and hashes, buckets, entries.

pub(crate) mod action_table;
pub(crate) mod apply;
pub(crate) mod apply_grouped;
pub(crate) mod batch;
pub(crate) mod batch_drain;
pub(crate) mod batch_meta;
pub(crate) mod bucket;
pub(crate) mod extract;
pub(crate) mod flow_action;
pub(crate) mod interval_table;
pub(crate) mod key;
pub(crate) mod learn;
pub(crate) mod lease;
pub(crate) mod lookup;
pub(crate) mod mask_match;
pub(crate) mod masked_match;
pub(crate) mod overload;
pub(crate) mod policy;
pub(crate) mod rewrite_template;
pub(crate) mod rule_cache;
pub(crate) mod steps;
pub(crate) mod table;
pub(crate) mod taken;
pub(crate) mod windows;

use crate::flow::action_table::ActionTable;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::flow_action::{Count, FlowAction, Pending};
use crate::flow::lease::LeasePool;
use crate::flow::masked_match::{IngressCache, PacketMeta};
use crate::flow::policy::admission::Admission;
pub use crate::flow::policy::admission::OVERLOAD;
use crate::flow::policy::admission::SETTLES;
use crate::flow::policy::level_choice::Pace;
use crate::flow::policy::monitor::Monitor;
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::rule_cache::RuleCache;
use crate::flow::table::{Slot, Table};
pub use crate::flow::taken::Taken;
use crate::graph::arrival::Arrival;
use crate::graph::reference::{DropCount, Graph, Totals};
use crate::level::{Level, Stopwatch};
use crate::program::ProgramRunner;
use crate::program::code::Cut;
use crate::program::error::LoadError;
use crate::program::path::{Path, PathEnd};
use crate::program::report::Report;
use crate::simd::GROUP;
use crate::simd::dispatch::Isa;
use onefold_elements::rewrite::FlowTable;
use onefold_elements::{ElemId, StateId};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_synth::program::Program;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Entries unless told otherwise.
pub const DEFAULT_FLOWS: usize = 1 << 17;
/// Different ways; what would need more is not remembered.
pub(crate) const MAX_ACTIONS: usize = 1 << 16;

/// What a flow table has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets whose way was known.
    pub hits: u64,
    /// Of these, those whose class has one way for all, so that no entry is needed.
    pub by_class: u64,
    /// Packets that an entry could have been there for.
    pub misses: u64,
    /// Packets that went to the program at once, as next to none was known before.
    pub passed_by: u64,
    /// Packets that cannot have one: no IP, options, fragments, lengths that lie, too many kinds.
    pub others: u64,
    /// Entries made.
    pub made: u64,
    /// Entries that had to make room.
    pub evicted: u64,
    /// Entries that did not hold any more when they were met.
    pub ended: u64,
    /// Entries that would have been wrong. A defect, and harmless.
    pub refused: u64,
    /// Packets of unknown flows that were dropped because these had had their share of time ([`FlowRunner::protect`]).
    pub shed: u64,
    /// Times that all entries went.
    pub cleared: u64,
    /// Entries at present, and places for them.
    pub entries: usize,
    /// See [`FlowStats::entries`].
    pub places: usize,
    /// Classes whose packets all go one way.
    pub classes: usize,
    /// Leases in use.
    pub leases: usize,
    /// Bytes of the table.
    pub bytes: usize,
    /// The most that they can be, whatever arrives.
    pub most_bytes: usize,
}

/// A program with a flow table; see the module's text.
pub struct FlowRunner {
    runner: ProgramRunner,
    table: Table,
    pool: LeasePool,
    flows: usize,
    actions: ActionTable,
    /// ActionTable with packets that have not been accounted for: to anyone, and at this moment.
    dirty: Vec<u32>,
    moments: Vec<u32>,
    ingress: Vec<IngressCache>,
    next_match: u32,
    /// Tables that are attached.
    tables: Vec<StateId>,
    /// [`Graph::changes`] that entries were made under; `None` before the first packet and after a program has been loaded.
    seen: Option<u64>,
    /// Elements call each other's handlers.
    scripts: bool,
    path: Option<Box<Path>>,
    /// A packet as it came.
    original: Packet,
    /// Packets between the steps.
    group: Box<[PacketMeta]>,
    /// The same in short.
    meta: Box<BatchMeta>,
    /// Rules of a group's packets.
    rules: Vec<u32>,
    /// Flows that may be worth an entry.
    seen_filter: SeenFilter,
    adaptive: bool,
    /// The level of all packets, if somebody wants it so.
    forced: Option<Level>,
    pace: Pace,
    /// What levels cost is read from it.
    stopwatch: Stopwatch,
    /// Of what nobody may foresee: which flows share a bucket, and which packets are timed.
    seed: u64,
    /// How much time unknown flows may take; all of it if there is none.
    admission: Option<Admission>,
    isa: Isa,
    /// Counts what comes to be known: boxes, ways, entries.
    news: u64,
    stats: FlowStats,
    causes: Vec<(&'static str, u64)>,
}

impl std::fmt::Debug for FlowRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowRunner")
            .field("runner", &self.runner)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl FlowRunner {
    /// With room for about so many flows.
    pub fn new(runner: ProgramRunner, flows: usize) -> FlowRunner {
        // Nobody's seed: which flows collide cannot be computed from a configuration, and nothing but costs depends on it.
        let seed = RandomState::new().hash_one(0u64);
        FlowRunner::with_seed(runner, flows, seed)
    }

    /// What costs lead to, and which flows meet in the table, follow from this seed, not from clocks and chance; and levels are changed
    /// often. For comparisons that are to come again.
    pub fn seeded(runner: ProgramRunner, flows: usize, seed: u64) -> FlowRunner {
        let mut r = FlowRunner::with_seed(runner, flows, seed);
        (r.pace, r.stopwatch) = (Pace::HASTY, Stopwatch::seeded(seed));
        r
    }

    fn with_seed(runner: ProgramRunner, flows: usize, seed: u64) -> FlowRunner {
        let scripts = runner.graph.core.topo.classes.iter().any(|c| c == "Script");
        let table = Table::new(flows, seed);
        let pool = LeasePool::new(table.bound());
        FlowRunner {
            runner,
            table,
            pool,
            flows,
            actions: ActionTable::default(),
            dirty: Vec::new(),
            moments: Vec::new(),
            ingress: Vec::new(),
            // no key is zero
            next_match: 1,
            tables: Vec::new(),
            seen: None,
            scripts,
            path: Some(Box::default()),
            original: Packet::from_slice(&[]),
            group: vec![PacketMeta::default(); GROUP].into(),
            meta: Box::default(),
            rules: Vec::with_capacity(GROUP),
            seen_filter: SeenFilter::new(flows),
            adaptive: true,
            forced: None,
            pace: Pace::USUAL,
            stopwatch: Stopwatch::real(),
            seed,
            admission: None,
            isa: Isa::detect(),
            news: 0,
            stats: FlowStats::default(),
            causes: Vec::new(),
        }
    }

    /// Goes on with this program, as [`ProgramRunner::load`].
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed; the old one stays then.
    pub fn load(&mut self, program: &Program) -> Result<(), LoadError> {
        self.sync();
        self.clear();
        self.seen = None;
        self.runner.load(program)
    }

    /// Packets are looked up and flows remembered however few are known: for comparisons, which want all that the table does to be done.
    pub fn always(mut self) -> FlowRunner {
        self.adaptive = false;
        self.forced = Some(Level::Flow);
        self
    }

    /// From now on, packets of unknown flows get at most this share of the time that passes, 0 to 1; those beyond it are dropped
    /// ([`OVERLOAD`]). For sources that do not wait, while packets queue up; `None`, as in the beginning: whatever they need. Packets are looked up
    /// however few are known, then.
    pub fn protect(&mut self, share: Option<f64>) {
        if self.admission.as_ref().map(Admission::share) != share {
            self.admission = share.map(|s| Admission::new(s, self.seed));
        }
    }

    /// How long unknown flows may get more time than their share, in the beginning: where a share is set, they have time to open until others are dropped for them.
    pub fn settles(&self) -> Duration {
        self.admission.as_ref().map_or(Duration::ZERO, |_| SETTLES)
    }

    /// All packets take this level, or, with `None`, which is how it begins, the one that costs least. Packets that the flow table is in vain
    /// for go to the program at [`Level::Flow`]. Where there is no program for the graph as it is, the reference graph takes them in any case.
    pub fn force(&mut self, level: Option<Level>) {
        self.forced = level;
        for ingress in &mut self.ingress {
            ingress.monitor.choice.open = level.is_none();
        }
    }

    /// The level of all packets, if levels are not chosen.
    pub fn forced(&self) -> Option<Level> {
        self.forced
    }

    /// Packets by the level that took them at the entry, in the order of [`Level::ALL`].
    pub fn levels(&self) -> [u64; 3] {
        let r = self.runner.counts();
        let flow = self.stats.hits;
        [r.0, r.1.saturating_sub(flow), flow]
    }

    /// As [`ProgramRunner::needs_synthesis`].
    pub fn needs_synthesis(&mut self) -> bool {
        self.runner.needs_synthesis()
    }

    /// The program without the table. Elements may not have been told of the last packets.
    pub fn program(&self) -> &ProgramRunner {
        &self.runner
    }

    /// The program without the table, everything accounted for.
    pub fn runner(&mut self) -> &mut ProgramRunner {
        self.sync();
        &mut self.runner
    }
    /// The graph, everything accounted for.
    pub fn graph_mut(&mut self) -> &mut Graph {
        self.sync();
        &mut self.runner.graph
    }
    /// The graph. Elements may not have been told of the last packets: for what does not depend on these, such as what was printed.
    pub fn peek_graph_mut(&mut self) -> &mut Graph {
        &mut self.runner.graph
    }
    /// The graph. Elements may not have been told of the last packets ([`FlowRunner::sync`]).
    pub fn graph(&self) -> &Graph {
        &self.runner.graph
    }
    /// The account of packets, which is always complete.
    pub fn totals(&self) -> Totals {
        self.runner.graph.totals()
    }
    /// See [`ProgramRunner::report`].
    pub fn report(&self) -> Report {
        let mut r = self.runner.report();
        for (w, n) in self.waiting() {
            for rule in &w.name.rules {
                // all stages' rules, one after the other
                if let Some(c) = r.rules.get_mut(*rule as usize) {
                    c.packets += n.packets;
                    c.bytes += n.bytes;
                }
            }
        }
        r
    }
    /// See [`Graph::drops`].
    pub fn drops(&self) -> Vec<DropCount> {
        let mut all = self.runner.graph.drops();
        for (w, n) in self.waiting() {
            let PathEnd::Drop(elem, reason) = w.name.end else {
                continue;
            };
            let element = self.runner.graph.name(ElemId(elem)).to_string();
            let d = DropCount {
                element,
                reason,
                packets: n.packets,
            };
            let at = all.binary_search_by(|x| (&x.element, x.reason).cmp(&(&d.element, d.reason)));
            match at {
                Ok(i) => all[i].packets += d.packets,
                Err(i) => all.insert(i, d),
            }
        }
        all
    }
    /// ActionTable with packets that have not been accounted for.
    fn waiting(&self) -> impl Iterator<Item = (&FlowAction, Pending)> {
        let listed = self.dirty.iter().filter_map(|i| self.actions.get(*i));
        // one that was about to be gone may be listed already
        (listed.map(|(w, t)| (w, t.pending()))).filter(|(_, n)| n.packets > 0)
    }
    /// See [`Graph::make_packet`].
    pub fn make_packet(&mut self, data: &[u8]) -> Pkt {
        self.runner.graph.make_packet(data)
    }
    /// See [`Graph::lend_packets`].
    pub fn lend_packets(&mut self, to: &mut Vec<Pkt>, n: usize) {
        self.runner.graph.lend_packets(to, n);
    }
    /// See [`Graph::drain_transmitted`].
    pub fn drain_transmitted(&mut self, f: impl FnMut(ElemId, &Pkt)) {
        self.runner.graph.drain_transmitted(f);
    }
    /// See [`Graph::append_transmitted`].
    pub fn append_transmitted(&mut self, into: &mut Vec<(ElemId, Pkt)>) {
        self.runner.graph.append_transmitted(into);
    }
    /// See [`Graph::recycle_all`].
    pub fn recycle_all(&mut self, packets: std::vec::Drain<'_, Pkt>) {
        self.runner.graph.recycle_all(packets);
    }
    /// See [`Graph::collect_transmitted`].
    pub fn collect_transmitted(&mut self, into: &mut Vec<Pkt>) {
        self.runner.graph.collect_transmitted(into);
    }
    /// What the table has done.
    pub fn stats(&self) -> FlowStats {
        let matches = || self.ingress.iter().flat_map(|l| &l.matches);
        // there are no lanes before the first packet
        let entries = self
            .runner
            .loaded
            .as_ref()
            .map_or(0, |l| l.code.reads.len());
        FlowStats {
            entries: self.table.len(),
            places: self.table.places(),
            classes: matches()
                .map(|b| b.interval_table.as_ref().map_or(0, |d| d.known()) + b.rules.known())
                .sum(),
            leases: self.pool.len(),
            bytes: self.table.memory_bytes()
                + self.pool.memory_bytes()
                + self.seen_filter.memory_bytes()
                + matches().map(|b| b.rules.memory_bytes()).sum::<usize>(),
            most_bytes: self.table.most_bytes()
                + self.pool.most_bytes()
                + self.seen_filter.memory_bytes()
                + entries * RuleCache::most_bytes(),
            ..self.stats
        }
    }
    /// A copy of everything but what the table remembers.
    pub fn fork(&self) -> FlowRunner {
        let mut copy = FlowRunner::with_seed(self.runner.fork(), self.flows, self.seed);
        (copy.adaptive, copy.forced, copy.pace) = (self.adaptive, self.forced, self.pace);
        copy.stopwatch = self.stopwatch.clone();
        copy.protect(self.admission.as_ref().map(Admission::share));
        for (w, n) in self.waiting() {
            account(w, n, &mut copy.runner);
        }
        copy
    }

    /// As [`ProgramRunner::advance_to`].
    pub fn advance_to(&mut self, at: Timestamp) {
        self.sync();
        self.runner.advance_to(at);
    }

    /// As [`ProgramRunner::inject`].
    pub fn inject(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        let mut p = self.runner.graph.make_packet(data);
        p.anno.timestamp = at;
        let mut one = vec![p];
        self.inject_batch(source, &mut one, at);
    }

    /// Packets that arrive at a source at one moment: what [`ProgramRunner::inject_batch`] does. Leaves `batch` empty.
    pub fn inject_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        if self.scripts {
            self.sync();
        }
        self.runner.arrive(at);
        self.enter_batch(source, batch, Arrival::Together);
    }

    /// Packets that arrive at a source, each at the time of its annotation: what [`ProgramRunner::inject_stamped`] does. Leaves
    /// `batch` empty.
    pub fn inject_stamped(&mut self, source: ElemId, batch: &mut Vec<Pkt>) {
        let Some((first, last)) = batch.first().zip(batch.last()) else {
            return;
        };
        let (first, last) = (first.anno.timestamp, last.anno.timestamp);
        if self.scripts || self.runner.graph.timer_due(first) {
            self.sync();
        }
        self.runner.arrive(first);
        self.enter_batch(source, batch, Arrival::Stamped);
        self.meet(last);
    }

    /// Packets go in, the first of them at the present time. Leaves `batch` empty.
    fn enter_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, arrival: Arrival) {
        let ingress = match self.usable() {
            true => self.ingress.iter().position(|l| l.source == source.0),
            false => None,
        };
        let Some(ingress) = ingress else {
            if !self.runner.valid() {
                self.sync();
                return self.runner.take_reference(source, batch, arrival, false);
            }
            for p in batch.drain(..) {
                if arrival == Arrival::Stamped {
                    self.meet(p.anno.timestamp);
                }
                self.runner.enter(source, p, None);
            }
            return;
        };
        let n = batch.len();
        let (level, begun) = match self.ingress.get_mut(ingress) {
            Some(l) => {
                let choice = &mut l.monitor.choice;
                let level = match (self.forced, &self.admission) {
                    (Some(Level::Flow) | None, None) if self.adaptive => choice.next(n),
                    (Some(level), _) => level,
                    (None, _) => Level::Flow,
                };
                let timed = choice.times(n);
                (level, timed.then(|| self.stopwatch.read()))
            }
            None => (Level::Flow, None),
        };
        match level {
            Level::Flow => {
                if !self.scripts {
                    self.runner.gather();
                }
                crate::flow::steps::run(self.isa, self, source, ingress, batch, arrival);
                self.runner.tell();
            }
            Level::Program => {
                self.stats.passed_by += n as u64;
                // what comes due on the way may ask elements
                self.sync();
                match arrival {
                    Arrival::Together => self.runner.enter_batch(source, batch, arrival),
                    Arrival::Stamped => self.runner.inject_stamped(source, batch),
                }
            }
            Level::Reference => {
                self.stats.passed_by += n as u64;
                self.sync();
                self.runner.take_reference(source, batch, arrival, true);
            }
        }
        if let (Some(l), Some(begun)) = (self.ingress.get_mut(ingress), begun) {
            let took = self.stopwatch.read().saturating_sub(begun);
            l.monitor.choice.took(level, n, took);
        }
        self.end_moment();
    }

    /// May packets be taken from the table? Makes it ready.
    fn usable(&mut self) -> bool {
        if !self.runner.valid() {
            return false;
        }
        let g = &self.runner.graph;
        let changes = g.core.changes;
        let Some(l) = &self.runner.loaded else {
            return false;
        };
        // a task that never comes to rest gets its turns with every packet
        let restless = g.core.overruns > 0;
        if restless
            || g.core.trace.is_some()
            || l.state.recorder.is_some()
            || l.state.watched.is_some()
        {
            return false;
        }
        if self.seen != Some(changes) {
            self.begin(changes);
        }
        true
    }

    /// Nothing that was known holds any more.
    #[cold]
    fn begin(&mut self, changes: u64) {
        self.sync();
        self.clear();
        self.seen = Some(changes);
        let states = self.runner.graph.states();
        let store = &mut self.runner.graph.store;
        self.tables.clear();
        for id in states {
            if let Some(t) = store.get_mut::<FlowTable>(id) {
                t.attach(&self.pool.leases);
                self.tables.push(id);
            }
        }
        self.ingress.clear();
        if let Some(l) = &self.runner.loaded {
            let reads = &l.code.reads;
            let mut monitor = Monitor::new(self.flows, self.pace);
            monitor.choice.open = self.forced.is_none();
            self.ingress = reads
                .iter()
                .map(|r| IngressCache::new(&l.code, r, monitor))
                .collect();
        }
    }

    /// Forgets everything. Counts must have been told.
    fn clear(&mut self) {
        if self.table.len() > 0 || !self.actions.is_empty() {
            self.stats.cleared += 1;
        }
        if let Some(a) = &mut self.admission {
            a.forgot(self.table.len());
        }
        self.pool.clear(&mut self.runner.graph.store);
        self.table.clear();
        for ingress in &mut self.ingress {
            for b in &mut ingress.matches {
                b.rules.clear();
                if let Some(d) = &mut b.interval_table {
                    d.clear();
                }
            }
        }
        self.actions.clear();
    }

    #[cold]
    fn drop_entry(&mut self, slot: Slot) {
        if let Some(l) = self.table.remove(slot) {
            let lease = (l.0[5] >> 32) as u32;
            self.pool.give_back(lease, &mut self.runner.graph.store);
        }
    }

    /// The clock may move on: elements that look at it are told.
    #[inline]
    fn end_moment(&mut self) {
        while let Some(i) = self.moments.pop() {
            let Some((w, _)) = self.actions.get_mut(i) else {
                continue;
            };
            let n = std::mem::take(&mut w.moment);
            let (late, moment) = w.late;
            for c in w.name.counts.get(late..late + moment).unwrap_or_default() {
                tell(&mut self.runner.graph, c, n.packets, n.bytes, n.ip_bytes);
            }
        }
    }

    /// Tells elements and classes of all packets that have passed.
    pub fn sync(&mut self) {
        self.end_moment();
        while let Some(i) = self.dirty.pop() {
            let Some((w, t)) = self.actions.get_mut(i) else {
                continue;
            };
            let n = t.take();
            if n.packets > 0 {
                account(w, n, &mut self.runner);
            }
        }
    }
}

/// Tells elements and classes of packets that have gone this way.
fn account(w: &FlowAction, n: Pending, runner: &mut ProgramRunner) {
    let g = &mut runner.graph;
    if let (Some(l), Some(ledger)) = (&runner.loaded, &mut g.core.rules) {
        let ends = n.ip_bytes + u64::from(w.l3) * n.packets;
        let padding = n.bytes.saturating_sub(ends);
        for r in &w.name.rules {
            let cut = l.code.action_of(*r).is_some_and(|a| a.cut != Cut::No);
            let padding = if cut { padding } else { 0 };
            ledger.classes(*r as usize, n.packets, n.bytes, padding);
        }
        for (rule, bind) in &w.left {
            let here = (n.packets, n.bytes);
            ledger.left(*rule as usize, *bind, here, |_| padding);
        }
    }
    for c in w.name.counts.get(..w.late.0).unwrap_or_default() {
        tell(g, c, n.packets, n.bytes, n.ip_bytes);
    }
    if let PathEnd::Drop(elem, reason) = w.name.end {
        g.out.dropped -= n.packets;
        g.out.count_drops(ElemId(elem), reason, n.packets);
    }
}

/// An element accounts for packets.
fn tell(g: &mut Graph, c: &Count, packets: u64, bytes: u64, ip_bytes: u64) {
    let bytes = c.bytes(packets, bytes, ip_bytes);
    let mark = g.out.effects.len();
    (g.core).with(c.elem, &mut g.out, &mut g.store, |e, cx| {
        e.account(c.tag, packets, bytes, cx);
    });
    g.core.settle(c.elem, mark, &mut g.out, &mut g.store);
}
