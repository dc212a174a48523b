//! Packets enter a program: one by one, or in batches whose first rules are looked up together.

use crate::graph::arrival::Arrival;
use crate::program::code::NONE;
use crate::program::exec::batch_exec;
use crate::program::exec::batch_exec::Left;
use crate::program::exec::fast_exec;
use crate::program::exec::general;
use crate::program::exec::lookahead::look_ahead;
use crate::program::exec::prefetch;
use crate::program::exec::resume;
use crate::program::exec::state::Stopped;
use crate::program::lookup::columns::Scratch;
use crate::program::lookup::tree::NO_RULE;
use crate::program::runner::{First, Loaded, ProgramRunner};
use onefold_element::ElemId;
use onefold_packet::{Packet, Pkt, Timestamp};

/// Programs with at most so many rules have all that is known of them in the nearest caches.
const NEAR: usize = 512;

/// Where a packet goes on.
pub(crate) enum Resume {
    /// At this stage, where an epoch begins.
    Stage(Pkt, u32),
    Stopped(Stopped),
}

impl ProgramRunner {
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

    /// Packets that arrive at a source at one moment, one after the other: what [`ProgramRunner::inject_packet`] does
    /// for each. Leaves `batch` empty.
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

    /// Packets that arrive each at its own time, those of one tick together as far as no timer is due between them;
    /// the clock stands at the first one's time. Leaves `batch` empty, as `f` leaves what it gets.
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
                let core = &g.core;
                (l.state.regs.tables).take(&l.code.tables, &g.store, core.changes, core.now);
                l.state.deferred.gathering = true;
            }
        }
        self.graph.core.now = self.graph.core.now.max(at);
    }

    /// Packets go in, one after the other: at the present time, or each at its own, all of which are of one tick
    /// then. Leaves `batch` empty.
    pub(crate) fn enter_batch(&mut self, source: ElemId, batch: &mut Vec<Pkt>, arrival: Arrival) {
        let stamped = arrival == Arrival::Stamped;
        let last = batch.last().map_or(Timestamp::ZERO, |p| p.anno.timestamp);
        let last = if stamped { last } else { Timestamp::ZERO };
        let mut rules = std::mem::take(&mut self.rules);
        self.gather();
        if let Some(l) = &mut self.loaded {
            l.state.regs.tables.batch = true;
        }
        let stage = match batch.len() {
            0 | 1 => None,
            _ => self.first_rules(source, batch, last, &mut rules),
        };
        if let Some(stage) = stage {
            self.prefetch_rules(stage, rules.iter().copied());
            self.prefetch_bindings(stage, batch, &rules);
            self.prefetch_asked(stage, batch, &rules);
            self.look_ahead(stage, batch, &rules);
        }
        // nothing that happens to a packet changes the bytes of another one; a handler that it calls may end the
        // program's time, and then what was found is worth nothing
        let changes = self.graph.core.changes;
        let falsified = self.falsified();
        let mut packets = Left::new(batch.drain(..), &rules);
        // Bound: each time a packet is taken, if there is one.
        loop {
            let as_found = self.graph.core.changes == changes && self.falsified() == falsified;
            let mut stage = stage.filter(|_| as_found);
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
            let Some((p, rule, number)) = next else { break };
            if stamped {
                self.meet(p.anno.timestamp);
                let as_found = self.graph.core.changes == changes && self.falsified() == falsified;
                stage = stage.filter(|_| as_found);
            }
            if let Some(l) = &mut self.loaded {
                l.state.lookahead.begin(stage.map(|_| number));
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
            l.state.lookahead.begin(None);
            l.state.regs.tables.batch = false;
            l.state.regs.tables.release();
        }
        self.tell();
        self.rules = rules;
    }

    /// A number that is another one if what tables of neighbours have said may not be so any more.
    pub(crate) fn falsified(&mut self) -> u64 {
        let Some(l) = &mut self.loaded else { return 0 };
        let tables = &mut l.state.regs.tables;
        if !tables.of_neighbors() {
            return 0;
        }
        let core = &self.graph.core;
        tables.take(&l.code.tables, &self.graph.store, core.changes, core.now);
        let falsified = tables.falsified();
        if !tables.batch {
            tables.release();
        }
        falsified
    }

    /// Packets go through the reference graph, because that costs least (`chosen`) or no program is valid. Leaves
    /// `batch` empty.
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

    /// For each of up to 256 packets at a source the first rule that fits, or `u32::MAX`: what the program's entry
    /// stage, which comes back, would find. Nothing changes by it. `None` while no program is valid for them. `last`:
    /// when the last of them arrives, if that is later than now: neighbours that are not known up to then are not.
    pub(crate) fn first_rules<P: std::ops::Deref<Target = Packet>>(
        &mut self,
        source: ElemId,
        packets: &[P],
        last: Timestamp,
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
        let core = &self.graph.core;
        let until = core.now.max(last);
        (st.regs.tables).take(&l.code.tables, &self.graph.store, core.changes, until);
        crate::program::lookup::first_rules(
            l.code.lookup_of(stage),
            &mut st.regs,
            scratch,
            packets,
            out,
        );
        // foresight is about to read the actions of all of them
        if !l.code.binds.is_empty() && l.code.rule_action.len() > NEAR {
            for rule in out.iter().filter(|r| **r != NO_RULE) {
                let action = l.code.rule_action.get((stage.rules + rule) as usize);
                action.map(onefold_table::prefetch);
            }
        }
        if !st.regs.tables.batch {
            st.regs.tables.release();
        }
        Some(number)
    }

    /// Packets with these rules of a stage are about to go through the program in one batch: memory that rewriters
    /// will need is asked for.
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

    /// The same of elements that are asked first.
    pub(crate) fn prefetch_asked<P: std::ops::Deref<Target = Packet>>(
        &self,
        stage: u32,
        packets: &[P],
        rules: &[u32],
    ) {
        if let Some(l) = &self.loaded {
            prefetch::prefetch_asked(&l.code, &self.graph, stage, packets, rules);
        }
    }

    /// What the stages behind elements that are asked will say is looked up.
    fn look_ahead(&mut self, stage: u32, batch: &mut [Pkt], rules: &[u32]) {
        let Some(l) = &mut self.loaded else { return };
        if let Some(s) = l
            .code
            .stages
            .get(stage as usize)
            .filter(|_| l.code.asks_elements)
        {
            let st = &mut l.state;
            let tools = (&mut st.regs, &mut st.scratch);
            let program = (&*l.code, &self.graph.core);
            look_ahead(program, &mut st.lookahead, tools, batch, (s.rules, rules));
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

    /// The program is about to do what these rules of a stage say: with many of them, what is known of each is far
    /// away.
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
            l.code.rule_action.get(at).map(onefold_table::prefetch);
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
        let core = &self.graph.core;
        (l.state.regs.tables).take(&l.code.tables, &self.graph.store, core.changes, core.now);
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

    /// A packet goes on at the beginning of an epoch, at a stage or from where it [stopped](Stopped). `changes`:
    /// [`Graph::changes`] when its batch entered.
    pub(crate) fn resume(&mut self, from: Resume, changes: u64) {
        let Some(l) = &mut self.loaded else { return };
        let g = &mut self.graph;
        g.core.steps = 0;
        match from {
            Resume::Stage(p, stage) => {
                resume::run_from(&l.code, &mut l.state, g, stage, p, changes);
            }
            Resume::Stopped(s) => resume::go_on(&l.code, &mut l.state, g, s, changes),
        }
        if !g.core.is_quiet() && l.state.stopped.is_none() {
            (l.state.deferred).tell(&l.code, &mut g.core, &mut g.out, &mut g.store);
            l.state.regs.tables.elements_write();
            g.core.quiesce(&mut g.out, &mut g.store);
        }
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
                // one that stopped is not done yet
                if !g.core.is_quiet() && l.state.stopped.is_none() {
                    (l.state.deferred).tell(&l.code, &mut g.core, &mut g.out, &mut g.store);
                    l.state.regs.tables.elements_write();
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
}
