//! Packets that go on behind write-outs and asked elements: in waves.
//!
//! Packets of a group whose actions end at an [exit](crate::flow::exit) wait until the group's other packets have had
//! their actions applied; then they are looked up together in the cache behind it, and so on. What becomes of the
//! group is what becomes of its packets one by one: before a packet is given to the program, or the clock moves, all
//! packets in front of it have gone all their ways ([`FlowRunner::flush`]); what they may meet behind an exit is not
//! met by others in front of it ([`crate::flow::wave_order`]); and what leaves is put in order in the end.

use crate::flow::apply::Applied;
use crate::flow::batch_drain::BatchDrain;
use crate::flow::exit::{Exit, Next, Output};
use crate::flow::flow_action::Place;
use crate::flow::ingress_cache::{IngressCache, Seat};
use crate::flow::rewrite_template::{EXIT, NO_SINK};
use crate::flow::runner::FlowRunner;
use crate::flow::steps::{self, Steps};
use crate::flow::wave::{LONGEST, Wave, label, place, put_in_order};
use crate::flow::wave_order::MAX_WAVES;
use crate::flow::windows::{self, Windows};
use crate::program::code::{self, Span};
use crate::program::enter::Resume;
use crate::program::exec::general::UNCONNECTED;
use crate::program::exec::state::Stopped;
use crate::program::path::{Path, PathEnd};
use crate::simd::{GROUP, HEAD_AT};
use onefold_element::{ElemId, Emission};
use onefold_packet::Pkt;

/// Caches, at most: of entries, and of places where epochs begin.
const MAX_CACHES: usize = 64;

/// Caches whose packets wait at the same time.
const MAX_LANES: usize = 4;

/// In what waits: the exit has been applied.
const DONE: u32 = 1 << 31;

impl FlowRunner {
    /// Do packets of this cache go on, some of them?
    #[inline(always)]
    pub(crate) fn has_exits(&self, cache: usize) -> bool {
        self.ingress.get(cache).is_some_and(|l| l.exits)
    }

    /// As many packets as there are sinks leave at these, are dropped, or wait at their exits. `from`: the number of
    /// the first one in its group.
    #[inline(never)]
    pub(crate) fn transmit_or_wait(
        &mut self,
        from: usize,
        packets: &mut BatchDrain<'_>,
        sinks: &[u32],
    ) {
        self.begin_run();
        let first = (self.depth == 0).then_some(from);
        let now = self.runner.graph.core.now;
        let out = &mut self.runner.graph.out;
        let Some(wave) = self.waves.get_mut(self.depth) else {
            return;
        };
        let mut waiting = 0;
        for (i, sink) in sinks.iter().enumerate() {
            let Some(mut p) = packets.next() else { break };
            if let Some(first) = first {
                p.order = place(first + i);
            }
            match *sink {
                // the reason is told later
                NO_SINK => out.pool.recycle(p),
                sink if sink & EXIT != 0 => {
                    waiting += 1;
                    wave.pending.push((sink & !EXIT, p));
                }
                sink => {
                    // an element that was asked may have taken it away
                    if !p.anno.timestamp.is_set() {
                        p.anno.timestamp = now;
                    }
                    out.transmitted.push((ElemId(sink), p));
                }
            }
        }
        out.sent -= waiting;
    }

    /// What leaves from here on is to be put in order.
    #[inline]
    fn begin_run(&mut self) {
        if self.run.is_none() {
            self.run = Some(self.runner.graph.out.transmitted.len());
        }
    }

    /// A packet of a cache is about to leave: others may wait that came before it. `i`: its number in the group.
    pub(crate) fn number(&mut self, cache: usize, i: usize, p: &mut Pkt) {
        if self.has_exits(cache) || self.depth > 0 {
            self.begin_run();
            if self.depth == 0 {
                p.order = place(i);
            }
        }
    }

    /// A packet waits at its exit, which may have been applied already. `i`: its number in the group.
    fn wait(&mut self, exit: u32, i: usize, mut p: Pkt) {
        self.begin_run();
        if self.depth == 0 {
            p.order = place(i);
        }
        if let Some(w) = self.waves.get_mut(self.depth) {
            w.pending.push((exit, p));
        }
    }

    /// A packet to which an action has been applied that ends at this exit.
    pub(crate) fn wait_at(&mut self, sink: u32, i: usize, p: Pkt) {
        self.wait(sink & !EXIT, i, p);
    }

    /// All packets that wait go all their ways.
    #[inline]
    pub(crate) fn flush(&mut self) {
        let waits = |w: &Wave| !w.pending.is_empty();
        if self.waves.get(self.depth).is_some_and(waits) {
            self.flush_pending();
        }
        if self.depth == 0
            && let Some(from) = self.run.take()
        {
            let left = &mut self.runner.graph.out.transmitted;
            put_in_order(left.get_mut(from..).unwrap_or_default());
        }
    }

    #[inline(never)]
    fn flush_pending(&mut self) {
        let depth = self.depth;
        let Some(wave) = self.waves.get_mut(depth) else {
            return;
        };
        let mut pending = std::mem::take(&mut wave.pending);
        let Some(code) = self.runner.loaded.as_ref().map(|l| l.code.clone()) else {
            return;
        };
        self.runner.graph.out.batched = false;
        for (exit, mut p) in pending.drain(..) {
            let Some(x) = self.exits.all.get_mut((exit & !DONE) as usize) else {
                continue;
            };
            if exit & DONE == 0 {
                x.apply(&code, &mut p);
            }
            match x.next {
                Next::Cache(cache) => self.put(cache, p),
                Next::Ask {
                    node,
                    port,
                    outputs,
                    site,
                } => {
                    if let Some(l) = &mut self.runner.loaded {
                        l.state.counts.site(site);
                    }
                    self.ask((node, port), outputs, p);
                }
            }
        }
        self.run_lanes();
        if let Some(w) = self.waves.get_mut(depth) {
            w.pending = pending;
        }
    }

    /// An element is given a packet, and what it gives back is put where its outputs lead.
    #[inline]
    fn ask(&mut self, (node, port): (u32, u32), outputs: (u32, u32), p: Pkt) {
        let g = &mut self.runner.graph;
        let (mark, order) = (g.out.effects.len(), p.order);
        g.out.order = order;
        (g.core).with(node, &mut g.out, &mut g.store, |e, cx| {
            e.push(port as usize, p, cx);
        });
        if g.out.effects.len() == mark + 1
            && let Some(Emission::Emit(port, _)) = g.out.effects.last()
            && let Some(Output::Cache(cache)) = self.exits.output(outputs, *port)
            && let Some(Emission::Emit(_, mut p)) = g.out.effects.pop()
        {
            p.order = order;
            return self.put(cache, p);
        }
        if g.out.effects.len() > mark {
            self.emitted(node, outputs, mark, order);
        }
    }

    /// What an element has done that was asked, other than to give back one packet that goes on: several, or one that
    /// goes nowhere.
    #[cold]
    pub(crate) fn emitted(&mut self, node: u32, outputs: (u32, u32), mark: usize, order: u64) {
        let mut all = std::mem::take(&mut self.emissions);
        all.extend(self.runner.graph.out.effects.drain(mark..));
        // a digit for each part of the way: what follows from one packet leaves in its place, one behind the other
        let digit = 8 * (MAX_WAVES.saturating_sub(1 + self.depth));
        for (i, e) in all.drain(..).enumerate() {
            let order = order + ((i.min(0xff) as u64) << digit);
            if i > 0xff {
                self.run_lanes();
            }
            match e {
                Emission::Emit(port, mut p) => match self.exits.output(outputs, port) {
                    Some(Output::Cache(cache)) => {
                        p.order = order;
                        self.put(cache, p);
                    }
                    Some(Output::Unconnected) => {
                        (self.runner.graph.out).drop(ElemId(node), UNCONNECTED, p);
                    }
                    None => self.emitted_elsewhere(node, Emission::Emit(port, p), order),
                },
                e => self.emitted_elsewhere(node, e, order),
            }
        }
        self.emissions = all;
    }

    /// What the program knows nothing of is the reference graph's, behind all others.
    fn emitted_elsewhere(&mut self, node: u32, e: Emission, order: u64) {
        self.run_lanes();
        let g = &mut self.runner.graph;
        let from = g.out.transmitted.len();
        let mark = g.out.effects.len();
        g.out.effects.push(e);
        g.core.settle(node, mark, &mut g.out, &mut g.store);
        label(&mut g.out.transmitted, from, order);
    }

    /// A packet that is not looked up because of its length: the program goes on with it, behind all others.
    #[cold]
    fn too_long(&mut self, cache: u32, p: Pkt) {
        self.run_lanes();
        let Some(seat) = self.ingress.get(cache as usize).map(|l| l.seat) else {
            return;
        };
        let (order, from) = (p.order, self.runner.graph.out.transmitted.len());
        self.stats.resumed += 1;
        let changes = self.seen.unwrap_or(self.runner.graph.core.changes);
        (self.runner).resume(Resume::Stage(p, seat.stage), changes);
        label(&mut self.runner.graph.out.transmitted, from, order);
    }

    /// A packet is to be looked up in a cache, after those that came before it and may meet what it meets.
    #[inline]
    pub(crate) fn put(&mut self, cache: u32, p: Pkt) {
        // most packets go where the one before went
        if let Some(w) = self.waves.get_mut(self.depth)
            && let Some((c, batch)) = w.lanes.get_mut(w.last)
            && *c == cache
            && !batch.is_empty()
            && p.len() <= LONGEST
        {
            return batch.push(p);
        }
        match p.len() <= LONGEST {
            true => self.put_elsewhere(cache, p),
            false => self.too_long(cache, p),
        }
    }

    fn put_elsewhere(&mut self, cache: u32, p: Pkt) {
        let lane = |r: &FlowRunner| {
            let lanes = &r.waves.get(r.depth)?.lanes;
            (lanes.iter()).position(|(c, b)| *c == cache && !b.is_empty())
        };
        let mut at = lane(self);
        if at.is_none() && self.crowded(cache) {
            self.run_lanes();
            at = lane(self);
        }
        let Some(w) = self.waves.get_mut(self.depth) else {
            return;
        };
        let at = match at {
            Some(at) => at,
            // one that nobody uses at the moment
            None => match w.lanes.iter().position(|(_, b)| b.is_empty()) {
                Some(at) => at,
                None => {
                    w.lanes.push((cache, Vec::with_capacity(GROUP)));
                    w.lanes.len() - 1
                }
            },
        };
        if let Some((c, batch)) = w.lanes.get_mut(at) {
            *c = cache;
            batch.push(p);
            w.last = at;
        }
    }

    /// Must packets that wait for other caches be looked up before one of this cache waits with them?
    fn crowded(&self, cache: u32) -> bool {
        let Some(w) = self.waves.get(self.depth) else {
            return false;
        };
        let node = |c: u32| {
            let stage = self.ingress.get(c as usize)?.seat.stage;
            let code = &self.runner.loaded.as_ref()?.code;
            Some(code.stages.get(stage as usize)?.at.node)
        };
        let apart = |c: u32| match (node(c), node(cache)) {
            (Some(a), Some(b)) => self.order.apart(a, b),
            _ => false,
        };
        let waiting = || w.lanes.iter().filter(|(_, b)| !b.is_empty());
        waiting().count() >= MAX_LANES || !waiting().all(|(c, _)| apart(*c))
    }

    /// All that is to be looked up is.
    pub(crate) fn run_lanes(&mut self) {
        let depth = self.depth;
        let mut i = 0;
        // Bound: `MAX_LANES`
        while let Some((cache, batch)) =
            (self.waves.get_mut(depth)).and_then(|w| w.lanes.get_mut(i))
        {
            let (cache, mut batch) = (*cache, std::mem::take(batch));
            if !batch.is_empty() {
                self.depth = depth + 1;
                self.exchange();
                steps::wave(self.isa, self, cache as usize, &mut batch);
                self.exchange();
                self.depth = depth;
            }
            if let Some((_, b)) = self.waves.get_mut(depth).and_then(|w| w.lanes.get_mut(i)) {
                *b = batch;
            }
            i += 1;
        }
    }

    /// Room for what is known of packets: that of this depth, and that of those before it.
    fn exchange(&mut self) {
        if let Some(w) = self.waves.get_mut(self.depth) {
            std::mem::swap(&mut self.meta, &mut w.meta);
            std::mem::swap(&mut self.group, &mut w.group);
        }
    }

    /// Packets at a place behind a write-out or an asked element go all their ways: as [`FlowRunner::groups`],
    /// without what is for entries alone. Leaves `batch` empty.
    #[inline(always)]
    pub(crate) fn wave(&mut self, wide: impl Steps, cache: usize, batch: &mut Vec<Pkt>) {
        let shift = self.ingress.get(cache).map_or(0, |l| l.seat.shift) as usize;
        let mut places = windows::places();
        // Bound: each round takes at least one packet.
        while !batch.is_empty() {
            let n = batch.len().min(GROUP);
            for p in batch.iter_mut().take(n) {
                p.push(shift);
            }
            let news = self.news;
            let now = self.runner.graph.core.now;
            let mut windows = Windows::of(batch, &mut self.meta.lens, &mut places);
            let seen = self.look_up(wide, cache, &windows);
            let at_once = match (seen.by_flow, seen.keyed) {
                (true, true) => self.apply_all::<true>(wide, &mut windows, u64::MAX, now),
                (false, _) if seen.unknown == 0 => {
                    self.apply_all::<false>(wide, &mut windows, u64::MAX, now)
                }
                _ => Applied::default(),
            };
            let mut packets = BatchDrain::of(batch, n);
            let mut i = at_once.upto;
            self.transmit_noted(cache, &mut packets, i, at_once.dropped);
            if i < n {
                self.meta.fill(u64::MAX, &self.actions, &mut self.group);
            }
            let mut stale = i > 0 || seen.keyed;
            // Bound: each round takes at least one packet.
            while i < n {
                i += match stale {
                    false => wide.go::<false>(self, (cache, i), n, &mut packets, now),
                    true => wide.go::<true>(self, (cache, i), n, &mut packets, now),
                };
                if i == n {
                    break;
                }
                let next = packets.next();
                if let Some(p) = next.and_then(|p| self.known(cache, i, p, now, news)) {
                    self.flush();
                    self.unknown_later(cache, i, p);
                    stale = true;
                }
                i += 1;
            }
            self.flush();
        }
    }

    /// A packet that a later cache does not know. What leaves has its place.
    #[cold]
    fn unknown_later(&mut self, cache: usize, i: usize, p: Pkt) {
        let (order, from) = (p.order, self.runner.graph.out.transmitted.len());
        self.unknown(ElemId(u32::MAX), cache, i, p, None);
        label(&mut self.runner.graph.out.transmitted, from, order);
    }

    /// The program takes a packet that a later cache does not know, from its stage on.
    pub(crate) fn resume(&mut self, cache: usize, mut p: Pkt) {
        let Some(seat) = self.ingress.get(cache).map(|l| l.seat) else {
            return;
        };
        self.stats.resumed += 1;
        p.pull(seat.shift as usize);
        let changes = self.seen.unwrap_or(self.runner.graph.core.changes);
        (self.runner).resume(Resume::Stage(p, seat.stage), changes);
    }

    /// A packet that has stopped at the end of its epoch goes on: with others at this exit, if it has one, or all its
    /// way at once.
    pub(crate) fn go_on(&mut self, stopped: Stopped, exit: Option<u32>, i: usize) {
        let quiet = self.runner.graph.core.is_quiet();
        match exit.filter(|_| quiet) {
            Some(exit) => {
                self.wait(exit | DONE, i, stopped.p);
                if self.is_alone(exit) {
                    self.flush();
                }
            }
            None => {
                let changes = self.seen.unwrap_or(self.runner.graph.core.changes);
                self.runner.resume(Resume::Stopped(stopped), changes);
            }
        }
    }

    /// Where packets go on that went this way in a cache, in this masked match of it, if they may go on together.
    /// `None` where they leave or are dropped.
    pub(crate) fn exit_of(
        &mut self,
        cache: usize,
        guard: u16,
        path: &Path,
    ) -> Result<Option<u32>, &'static str> {
        let image = match path.end {
            PathEnd::Write { image, .. } | PathEnd::Ask { image, .. } => image,
            _ => return Ok(None),
        };
        if self.order.calls() {
            return Err("handlers may be called under way");
        }
        let of = (cache as u32, path.end, u32::from(guard));
        if let Some(known) = self.exits.find(of) {
            return Ok(Some(known));
        }
        let mut alone = self.ingress.get(cache).is_some_and(|l| l.alone);
        let seat = self.ingress.get(cache).ok_or(GONE)?.seat;
        let code = self.runner.loaded.as_ref().ok_or(GONE)?.code.clone();
        let start = code.images.get(image as usize).ok_or(GONE)?.start;
        // where the next cache's packets have their IP headers
        let l3 = |l: &IngressCache| Some(l.matches.get(usize::from(guard))?.shape.l3 as i32);
        let l3 = self.ingress.get(cache).and_then(l3).ok_or(GONE)?;
        let at = l3 - seat.shift - start;
        let next = Seat {
            depth: seat.depth + 1,
            shift: (HEAD_AT as i32 - at).clamp(0, HEAD_AT as i32),
            ..seat
        };
        let next = match path.end {
            PathEnd::Ask {
                node,
                port,
                outputs,
                site,
                ..
            } => {
                if !self.order.may_be_asked(node) {
                    return Err("an element is asked that must see its packets alone");
                }
                let outputs = Span {
                    from: outputs.0,
                    to: outputs.1,
                };
                let mut to = Vec::new();
                for n in outputs.of(&code.nexts) {
                    to.push(match *n {
                        code::Next::Stage(stage) => {
                            Output::Cache(self.cache(cache, Seat { stage, ..next }, &mut alone)?)
                        }
                        code::Next::Unconnected(_) => Output::Unconnected,
                        code::Next::Never => return Err("an output of an element that is asked"),
                    });
                }
                let from = self.exits.outputs.len() as u32;
                let outputs = (from, from + to.len() as u32);
                self.exits.outputs.extend(to);
                Next::Ask {
                    node,
                    port,
                    outputs,
                    site,
                }
            }
            PathEnd::Write { next: stage, .. } => {
                Next::Cache(self.cache(cache, Seat { stage, ..next }, &mut alone)?)
            }
            _ => return Ok(None),
        };
        let its = self.ingress.get(cache).map(|l| &l.matches[..]);
        let its = its.and_then(|b| b.get(usize::from(guard))).ok_or(GONE)?;
        let mut exit = Exit::new(&code, (path, image), (its, seat.shift), next, of)?;
        exit.alone = alone;
        let exit = self.exits.add(exit).ok_or("too many exits")?;
        if let Some(l) = self.ingress.get_mut(cache) {
            l.exits = true;
        }
        while self.waves.len() < MAX_WAVES {
            self.waves.push(Wave::new());
        }
        Ok(Some(exit))
    }

    /// The cache of a place, which is made if there is none; packets come from the cache `from`, and one by one if
    /// there is `alone` reason to.
    ///
    /// # Errors
    /// When there are too many, or packets do not come one by one yet that have to.
    fn cache(&mut self, from: usize, seat: Seat, alone: &mut bool) -> Result<u32, &'static str> {
        if seat.depth >= MAX_WAVES {
            return Err("too many write-outs and asked elements");
        }
        let code = self.runner.loaded.as_ref().ok_or(GONE)?.code.clone();
        let node = code.stages.get(seat.stage as usize).ok_or(GONE)?.at.node;
        if !(self.order).may_go_on(seat.entry, seat.depth - 1, node) {
            if !self.comes_alone(from) {
                return Err(
                    "what must see packets in order is in front of others and behind this one",
                );
            }
            *alone = true;
        }
        if let Some(known) = self.ingress.iter().position(|l| l.seat == seat) {
            *alone |= self.ingress.get(known).is_some_and(|l| l.alone);
            return Ok(known as u32);
        }
        if self.ingress.len() >= MAX_CACHES {
            return Err("too many places behind write-outs and asked elements");
        }
        let later = code.later.as_ref().ok_or(GONE)?;
        let reads = later.at(seat.stage, seat.shift);
        let monitor = self.new_monitor();
        let mut cache = IngressCache::new(&code, &reads, seat, monitor);
        cache.alone = *alone;
        self.ingress.push(cache);
        let entry = |l: &&mut IngressCache| l.seat.depth == 0 && l.seat.entry == seat.entry;
        if let Some(l) = self.ingress.iter_mut().find(entry) {
            l.widen(&reads);
            self.widened = true;
        }
        Ok(self.ingress.len() as u32 - 1)
    }

    /// What an action of a cache is made with.
    pub(crate) fn place(&self, cache: usize, exit: Option<u32>) -> Place {
        let shift = self.ingress.get(cache).map_or(0, |l| l.seat.shift);
        Place { shift, exit }
    }
}

/// What a graph had a moment ago.
const GONE: &str = "not there any more";
