//! Packets enter: the level that takes a batch is chosen.

use crate::flow::ingress_cache::{IngressCache, Seat};
use crate::flow::policy::monitor::Monitor;
use crate::flow::runner::FlowRunner;
use crate::flow::steps;
use crate::flow::wave_order::WaveOrder;
use crate::graph::arrival::Arrival;
use crate::level::Level;
use crate::program::code::NONE;
use onefold_element::ElemId;
use onefold_nat::{FlowTable, RecordLeases};
use onefold_packet::{Pkt, Timestamp};

impl FlowRunner {
    /// As [`ProgramRunner::inject`].
    pub fn inject(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        let mut p = self.runner.graph.make_packet(data);
        p.anno.timestamp = at;
        let mut one = vec![p];
        self.inject_batch(source, &mut one, at);
    }

    /// Packets that arrive at a source at one moment: what [`ProgramRunner::inject_batch`] does. Leaves `batch` empty.
    pub fn inject_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        if self.calls {
            self.sync();
        }
        self.runner.arrive(at);
        self.enter_batch(source, batch, Arrival::Together);
    }

    /// Packets that arrive at a source, each at the time of its annotation: what [`ProgramRunner::inject_stamped`]
    /// does. Leaves `batch` empty.
    pub fn inject_stamped(&mut self, source: ElemId, batch: &mut Vec<Pkt>) {
        let Some((first, last)) = batch.first().zip(batch.last()) else {
            return;
        };
        let (first, last) = (first.anno.timestamp, last.anno.timestamp);
        if self.calls || self.runner.graph.timer_due(first) {
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
                if !self.calls {
                    self.runner.gather();
                }
                steps::run(self.isa, self, source, ingress, batch, arrival);
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
        if self.seen != Some(changes) || self.outgrown {
            self.begin(changes);
        } else if self.widened {
            self.ask_more();
        }
        true
    }

    /// A monitor that has seen nothing yet.
    pub(super) fn new_monitor(&self) -> Monitor {
        let mut monitor = Monitor::new(self.flows, self.pace);
        monitor.choice.open = self.forced.is_none();
        monitor
    }

    /// Packets of entries are asked what later caches ask as well, from now on: what is known is forgotten.
    #[cold]
    fn ask_more(&mut self) {
        self.widened = false;
        self.sync();
        self.clear();
        // exits are of masked matches, by number
        self.exits.clear();
        if let Some(l) = &self.runner.loaded {
            for cache in &mut self.ingress {
                cache.make_plans(&l.code);
            }
        }
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
            } else if let Some(t) = store.part_mut::<RecordLeases>(id) {
                t.attach(&self.pool.leases);
            }
        }
        self.ingress.clear();
        self.exits.clear();
        self.widened = false;
        let monitor = self.new_monitor();
        if let Some(l) = &self.runner.loaded {
            let seat = |source: u32| {
                let stage = l.code.entries.get(source as usize).copied();
                let stage = stage.unwrap_or(NONE);
                Seat {
                    entry: stage,
                    stage,
                    depth: 0,
                    shift: 0,
                }
            };
            self.ingress = (l.code.reads.iter())
                .map(|r| IngressCache::new(&l.code, r, seat(r.source), monitor))
                .collect();
            self.order = WaveOrder::of(&self.runner.graph.core, &l.code);
        }
    }
}
