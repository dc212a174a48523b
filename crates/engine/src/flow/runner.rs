//! The program with a flow table in front of it: what it has, and what can be asked of it.

use crate::flow::action_table::ActionTable;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::composed::ComposedTable;
use crate::flow::exit::Exits;
use crate::flow::flow_action::{Count, FlowAction, Pending};
use crate::flow::in_place_way::Headers;
use crate::flow::ingress_cache::IngressCache;
use crate::flow::lease::LeasePool;
use crate::flow::neighbors::Neighbors;
use crate::flow::packet_meta::{PacketMeta, UNKNOWN};
use crate::flow::patience::Patience;
use crate::flow::policy::admission::Admission;
use crate::flow::policy::admission::SETTLES;
use crate::flow::policy::level_choice::Pace;
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::rule_cache::RuleCache;
use crate::flow::stats::FlowStats;
use crate::flow::table::{Slot, Table};
use crate::flow::wave::Wave;
use crate::flow::wave_order::WaveOrder;
use crate::graph::reference::{DropCount, Graph, Totals};
use crate::level::{Level, Stopwatch};
use crate::program::ProgramRunner;
use crate::program::code::Cut;
use crate::program::error::LoadError;
use crate::program::path::{Path, PathEnd};
use crate::program::plan::Plan;
use crate::program::report::Report;
use crate::simd::GROUP;
use crate::simd::dispatch::Isa;
use onefold_element::{ElemId, Emission, StateId};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_synth::program::Program;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Entries unless told otherwise.
pub const DEFAULT_FLOWS: usize = 1 << 17;

/// A program with a flow table; see the module's text.
pub struct FlowRunner {
    pub(super) runner: ProgramRunner,
    pub(super) table: Table,
    pub(super) pool: LeasePool,
    pub(super) flows: usize,
    pub(super) actions: ActionTable,
    /// Actions with packets that have not been accounted for: to anyone, and at this moment.
    pub(super) dirty: Vec<u32>,
    pub(super) moments: Vec<u32>,
    pub(super) ingress: Vec<IngressCache>,
    pub(super) next_match: u32,
    /// Which of them stand on what tables of neighbours said.
    pub(super) neighbors: Neighbors,
    /// There are too many actions, some of which stand on neighbours: all that is known is forgotten before the next
    /// batch.
    pub(super) outgrown: bool,
    /// Where packets of actions go on.
    pub(super) exits: Exits,
    /// Actions that are composed of others.
    pub(super) composed: ComposedTable,
    /// More is to be asked of packets at an entry, so that their actions may be composed.
    pub(super) widened: bool,
    /// Why others are not, and how often.
    pub(super) not_composed: Vec<(&'static str, u64)>,
    pub(super) order: WaveOrder,
    /// By how many epochs packets have behind them.
    pub(super) waves: Vec<Wave>,
    /// What packets at hand have behind them.
    pub(super) depth: usize,
    /// Packets of a run have left at their sinks from this number on, in no order yet.
    pub(super) run: Option<usize>,
    /// What the element that was asked last finds in the packet.
    pub(super) headers: Option<Headers>,
    /// What an element that was asked has emitted.
    pub(super) emissions: Vec<Emission>,
    /// Tables that are attached.
    pub(super) tables: Vec<StateId>,
    /// [`Graph::changes`] that entries were made under; `None` before the first packet and after a program has been
    /// loaded.
    pub(super) seen: Option<u64>,
    /// Elements call each other's handlers.
    pub(super) calls: bool,
    pub(super) path: Option<Box<Path>>,
    /// A packet as it came.
    pub(super) original: Packet,
    /// Packets between the steps.
    pub(super) group: Box<[PacketMeta]>,
    /// The same in short.
    pub(super) meta: Box<BatchMeta>,
    /// Rules of a group's packets.
    pub(super) rules: Vec<u32>,
    /// Flows that may be worth an entry.
    pub(super) seen_filter: SeenFilter,
    pub(super) adaptive: bool,
    /// The level of all packets, if somebody wants it so.
    pub(super) forced: Option<Level>,
    pub(super) pace: Pace,
    /// What levels cost is read from it.
    pub(super) stopwatch: Stopwatch,
    /// Of what nobody may foresee: which flows share a bucket, and which packets are timed.
    pub(super) seed: u64,
    /// How much time unknown flows may take; all of it if there is none.
    pub(super) admission: Option<Admission>,
    /// The same while no packets queue up ([`FlowRunner::press`]).
    relaxed: Option<Admission>,
    /// The share is for batches before which packets queue up.
    pressed_alone: bool,
    pub(super) isa: Isa,
    /// Counts what comes to be known: matches, actions, entries.
    pub(super) news: u64,
    pub(super) stats: FlowStats,
    pub(super) causes: Vec<(&'static str, u64)>,
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
        // Nobody's seed: which flows collide cannot be computed from a configuration, and nothing but costs depends
        // on it.
        let seed = RandomState::new().hash_one(0u64);
        FlowRunner::with_seed(runner, flows, seed)
    }

    /// What costs lead to, and which flows meet in the table, follow from this seed, not from clocks and chance; and
    /// levels are changed often. For comparisons that are to come again.
    pub fn seeded(runner: ProgramRunner, flows: usize, seed: u64) -> FlowRunner {
        let mut r = FlowRunner::with_seed(runner, flows, seed);
        (r.pace, r.stopwatch) = (Pace::HASTY, Stopwatch::seeded(seed));
        r
    }

    fn with_seed(runner: ProgramRunner, flows: usize, seed: u64) -> FlowRunner {
        let calls = runner.graph.core.calls_handlers();
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
            neighbors: Neighbors::default(),
            outgrown: false,
            exits: Exits::default(),
            composed: ComposedTable::default(),
            widened: false,
            not_composed: Vec::new(),
            order: WaveOrder::default(),
            waves: Vec::new(),
            depth: 0,
            run: None,
            headers: None,
            emissions: Vec::new(),
            tables: Vec::new(),
            seen: None,
            calls,
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
            relaxed: None,
            pressed_alone: false,
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
        let plan = Plan::new(&self.runner.graph, program, self.runner.using())?;
        self.install(plan)
    }

    /// As [`ProgramRunner::install`].
    ///
    /// # Errors
    /// As there.
    pub fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        self.sync();
        self.clear();
        self.seen = None;
        self.runner.install(plan)
    }

    /// Packets are looked up and flows remembered however few are known: for comparisons, which want all that the
    /// table does to be done.
    pub fn always(mut self) -> FlowRunner {
        self.adaptive = false;
        self.forced = Some(Level::Flow);
        self
    }

    /// From now on, packets of unknown flows get at most this share of the time that passes, 0 to 1; those beyond it
    /// are dropped ([`OVERLOAD`]). For sources that do not wait, while packets queue up; `None`, as in the beginning:
    /// whatever they need. Packets are looked up however few are known, then.
    pub fn protect(&mut self, share: Option<f64>) {
        (self.relaxed, self.pressed_alone) = (None, false);
        if self.admission.as_ref().map(Admission::share) != share {
            self.admission = share.map(|s| Admission::new(s, self.seed));
        }
    }

    /// [`FlowRunner::protect`], but only for batches before which it is said that packets queue up
    /// ([`FlowRunner::press`]).
    pub fn protect_under_pressure(&mut self, share: f64) {
        self.admission = None;
        self.relaxed = Some(Admission::new(share, self.seed));
        self.pressed_alone = true;
    }

    /// From now on packets queue up, or do not any more: unknown flows get their share of the time, or whatever they
    /// need. Nothing happens unless [`FlowRunner::protect_under_pressure`] has set a share.
    #[inline]
    pub fn press(&mut self, queued_up: bool) {
        let (from, to) = match queued_up {
            true => (&mut self.relaxed, &mut self.admission),
            false => (&mut self.admission, &mut self.relaxed),
        };
        if to.is_none() && self.pressed_alone {
            *to = from.take();
        }
    }

    /// How long unknown flows may get more time than their share, in the beginning: where a share is set, they have
    /// time to open until others are dropped for them.
    pub fn settles(&self) -> Duration {
        self.admission.as_ref().map_or(Duration::ZERO, |_| SETTLES)
    }

    /// All packets take this level, or, with `None`, which is how it begins, the one that costs least. Packets that
    /// the flow table is in vain for go to the program at [`Level::Flow`]. Where there is no program for the graph as
    /// it is, the reference graph takes them in any case.
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
    /// The graph. Elements may not have been told of the last packets: for what does not depend on these, such as
    /// what was printed.
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
                    c.bytes += w.bytes(n);
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
    /// Actions with packets that have not been accounted for.
    fn waiting(&self) -> impl Iterator<Item = (&FlowAction, Pending)> {
        let listed = self.dirty.iter().filter_map(|i| self.actions.get(*i));
        let listed = listed.map(|(w, t)| (w, t.pending()));
        let fused = self.composed.fused.waiting();
        let fused = fused.filter_map(|(i, n)| Some((self.actions.get(i)?.0, n)));
        // one that was about to be gone may be listed already
        listed.chain(fused).filter(|(_, n)| n.packets > 0)
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
        let by_place = |l: &IngressCache| {
            let tables = l.matches.iter().filter_map(|b| b.interval_table.as_ref());
            tables.map(|d| d.known(&l.places)).sum::<usize>()
        };
        // there are no lanes before the first packet
        let entries = self
            .runner
            .loaded
            .as_ref()
            .map_or(0, |l| l.code.reads.len());
        FlowStats {
            entries: self.table.len(),
            places: self.table.places(),
            classes: self.ingress.iter().map(by_place).sum::<usize>()
                + matches().map(|b| b.rules.known()).sum::<usize>(),
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
        let share = self.admission.as_ref().or(self.relaxed.as_ref());
        match (share.map(Admission::share), self.pressed_alone) {
            (Some(share), true) => copy.protect_under_pressure(share),
            (share, _) => copy.protect(share),
        }
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
    /// Forgets everything. Counts must have been told.
    pub(super) fn clear(&mut self) {
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
            }
            ingress.places.fill(UNKNOWN);
        }
        self.actions.clear();
        self.composed.clear();
        for l in &mut self.ingress {
            (l.composed, l.patience) = (false, Patience::default());
        }
        self.neighbors.clear();
        self.outgrown = false;
    }

    /// Actions that stand on what tables of neighbours do not say any more at this time lose their templates.
    #[inline(always)]
    pub(super) fn look_at_neighbors(&mut self, now: Timestamp) {
        if !self.neighbors.current(now)
            && let Some(l) = &self.runner.loaded
        {
            let tables = (&l.code.tables[..], &self.runner.graph.store);
            self.neighbors.look(&mut self.actions, tables, now);
        }
    }

    #[cold]
    pub(super) fn drop_entry(&mut self, slot: Slot) {
        if let Some(l) = self.table.remove(slot) {
            let lease = (l.0[5] >> 32) as u32;
            self.pool.give_back(lease, &mut self.runner.graph.store);
        }
    }

    /// The clock may move on: elements that look at it are told.
    #[inline]
    pub(super) fn end_moment(&mut self) {
        self.end_fused_moment();
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
        self.tell_fused();
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

/// Tells elements and classes of packets that have this action.
fn account(w: &FlowAction, n: Pending, runner: &mut ProgramRunner) {
    let g = &mut runner.graph;
    if let (Some(l), Some(ledger)) = (&runner.loaded, &mut g.core.rules) {
        let ends = n.ip_bytes + u64::from(w.l3) * n.packets;
        let padding = n.bytes.saturating_sub(ends);
        let bytes = w.bytes(n);
        for r in &w.name.rules {
            let cut = l.code.action_of(*r).is_some_and(|a| a.cut != Cut::No);
            let padding = if cut { padding } else { 0 };
            ledger.classes(*r as usize, n.packets, bytes, padding);
        }
        for (rule, bind) in &w.left {
            let here = (n.packets, bytes);
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
pub(super) fn tell(g: &mut Graph, c: &Count, packets: u64, bytes: u64, ip_bytes: u64) {
    let bytes = c.bytes(packets, bytes, ip_bytes);
    let mark = g.out.effects.len();
    (g.core).with(c.elem, &mut g.out, &mut g.store, |e, cx| {
        e.account(c.tag, packets, bytes, cx);
    });
    g.core.settle(c.elem, mark, &mut g.out, &mut g.store);
}
