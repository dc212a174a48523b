//! The batched engine: the same graph, a batch of packets at a time, and what comes of it is what comes of the same
//! packets one by one, each at its own time: bytes, sinks, the order in which packets leave, drops, counters, states,
//! what is printed.
//!
//! A batch goes through an element in one call; what it emits is collected per output. What waits at an element's
//! input is taken up in the order of ranks ([`plan`]), so that batches that were split by a look-up come together
//! again where the ways meet, and an element is called once for all of them. Most elements do not mind in which order
//! packets come to them; those that do are given them in order of arrival, for which packets have numbers
//! ([`number`]), and from where tasks or timers may follow, packets go one by one ([`alone`]). What has left is put
//! in order at the end.
//!
//! What a hop costs matters most where a look-up has split a batch into small ones, ten of three packets for ten
//! routes, say. Elements that usually change packets in place and send them on ([`onefold_element::Element::pass`])
//! are therefore called one after the other with the same slice of packets: no context is made, nothing is moved, and
//! an input that only one output leads to needs no look at what waits elsewhere, because nothing can come together
//! there.

pub(crate) mod alone;
pub(crate) mod arrive;
pub(crate) mod number;
pub(crate) mod ordered;
pub(crate) mod plan;
pub(crate) mod waiting;

pub(crate) use crate::graph::batch::plan::Plan;
pub(crate) use crate::graph::batch::waiting::Waiting;

use crate::graph::batch::plan::OutputTarget;
use crate::graph::batch::plan::Place;
use crate::graph::batch::waiting::Going;
use crate::graph::core::Core;
use crate::graph::limits;
use crate::graph::topology::Edge;
use onefold_element::{Cx, ElemId, LogStream, Outbox, StateStore};
use onefold_packet::{Pkt, Timestamp};
use std::sync::Arc;

/// Outputs that are collected in lanes; packets for higher ones go through the ordered list.
pub(crate) const MAX_LANES: usize = 1024;

/// What the engine works with while a batch is on its way, and keeps for the next one.
#[derive(Debug, Default)]
pub(crate) struct Together {
    /// What the graph lets it do; found out when it is first needed.
    plan: Option<Arc<Plan>>,
    /// [`Core::changes`] when the plan was made.
    changes: u64,
    /// Batches not processed yet.
    waiting: Waiting,
    /// An empty vector for batches.
    spare: Vec<Pkt>,
    /// When each packet of the batch arrives; empty when all do at one time.
    times: Vec<Timestamp>,
    /// First and last of the times of those that are on their way now, and where in `times` the first one stands.
    span: (Timestamp, Timestamp),
    base: usize,
    /// Elements that packets may pass together before the rest is dropped.
    most_steps: u64,
    /// What has left since then is of this batch, and is in order.
    sent_from: usize,
    sent_sorted: bool,
    /// A batch is on its way: what is printed waits, with the numbers of the packets that it is about.
    printing: bool,
    printed: Vec<(u64, LogStream, Vec<u8>)>,
    /// For putting what waits at several inputs in order.
    merged: Vec<(u32, Pkt)>,
    /// For putting what has left in order.
    places: Vec<u32>,
    sent: Vec<Option<(ElemId, Pkt)>>,
    /// The number that goes for what is printed by none of them in particular, and leaves by tasks and timers.
    label: u64,
}

impl Clone for Together {
    /// Nothing is on its way between injections.
    fn clone(&self) -> Self {
        Together {
            plan: self.plan.clone(),
            changes: self.changes,
            ..Together::default()
        }
    }
}

impl Together {
    /// Do some of these packets arrive in different steps of the clock, this long in nanoseconds?
    #[inline]
    fn tells_apart(&self, step: i64) -> bool {
        let (first, last) = self.span;
        step > 0 && first != last && first.0.div_euclid(step) != last.0.div_euclid(step)
    }

    /// When the packet with this number, or what it was made of, arrived.
    fn time_of(&self, order: u64) -> Timestamp {
        let i = self.base + crate::graph::batch::number::arrival(order);
        self.times.get(i).copied().unwrap_or(self.span.1)
    }

    /// Something has left since there had `before`, of a batch that is in order or not.
    #[inline]
    fn note_sent(&mut self, before: usize, sorted: bool, out: &Outbox) {
        if let Some((_, first)) = out.transmitted.get(before) {
            let last = before.checked_sub(1).filter(|l| *l >= self.sent_from);
            let last = last.and_then(|l| out.transmitted.get(l));
            self.sent_sorted &= sorted && last.is_none_or(|(_, l)| l.order <= first.order);
        }
    }
}

/// What became of a batch on its straight way.
enum Onward {
    /// It stands before an element that is for [`Core::batch_to`]; that many packets, from the first on, have passed
    /// it already and leave at this output.
    Here(usize, usize),
    /// It waits for others.
    Waits,
}

impl Core {
    /// Takes up what waits, up to where packets go alone.
    fn run_batches(&mut self, plan: &Plan, out: &mut Outbox, store: &mut StateStore) {
        let mut batch = std::mem::take(&mut self.together.spare);
        while let Some(rank) = self.together.waiting.lowest() {
            match plan.place[rank as usize] {
                Place::Free => {
                    let going = self.together.waiting.take(rank, &mut batch);
                    let to = plan.input[rank as usize];
                    self.batch_to(plan, to, &mut batch, going, out, store);
                }
                Place::InOrder(first, end) => {
                    self.in_order(plan, (first, end), rank, &mut batch, out, store);
                }
                Place::Turns(cycle) => self.take_turn(plan, cycle, out, store),
                Place::Alone => break,
            }
        }
        self.together.spare = batch;
    }

    /// Gives a batch to an element, and goes on with what it emits as long as that is a single batch whose turn it
    /// is; other batches wait. Leaves `batch` empty.
    fn batch_to(
        &mut self,
        plan: &Plan,
        mut to: Edge,
        batch: &mut Vec<Pkt>,
        mut going: Going,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        loop {
            let passed = match self.pass_along(plan, &mut to, &mut going, batch) {
                Onward::Here(n, port) => (n, port),
                Onward::Waits => return,
            };
            let n = batch.len();
            self.steps += n as u64;
            if let Some(why) = self.too_much(going.hops) {
                if why == limits::LOOP {
                    going.hops = drop_looping(to.node, going.hops, batch, out);
                } else {
                    drop_all(to.node, why, batch, out);
                }
                if batch.is_empty() {
                    return;
                }
            }
            let Some(node) = self.nodes.get_mut(to.node as usize) else {
                drop_all(to.node, limits::UNCONNECTED, batch, out);
                return;
            };
            let (ninputs, noutputs) = (node.ninputs as usize, node.noutputs as usize);
            let out_base = node.out_base as usize;
            let nature = plan.natures[to.node as usize];
            if nature.multiplies || self.together.tells_apart(nature.step) {
                for p in batch.drain(..passed.0) {
                    self.send(plan, to.node, passed.1, p, going.hops + 1, out);
                }
                self.piecemeal(plan, to, batch, going, out, store);
            } else {
                let Some(mut elem) = node.elem.take() else {
                    // no element is at work between two others
                    drop_all(to.node, limits::FORGOTTEN, batch, out);
                    return;
                };
                let (mark, sent) = (out.effects.len(), out.transmitted.len());
                out.batched = true;
                let mut cx = Cx {
                    elem: ElemId(to.node),
                    now: self.now,
                    ninputs,
                    noutputs,
                    store,
                    out,
                    host: self,
                };
                for p in batch.drain(..passed.0) {
                    cx.emit(passed.1, p);
                }
                elem.push_batch(to.port as usize, batch, &mut cx);
                out.batched = false;
                self.nodes[to.node as usize].elem = Some(elem);
                if out.transmitted.len() > sent {
                    self.together.note_sent(sent, going.sorted, out);
                }
                if out.effects.len() > mark {
                    self.spread_rest(plan, to.node, mark, going.hops + 1, out, store);
                }
            }
            debug_assert!(
                nature.multiplies
                    || batch.len() + out.lanes.iter().map(Vec::len).sum::<usize>() <= n,
                "{} multiplies packets and does not say so",
                self.topo.names[to.node as usize]
            );
            going.hops += 1;
            if let Some(port) = out.passed.take() {
                let port = port as usize;
                match self.pass_on(plan, to.node, out_base, noutputs, port, going, batch, out) {
                    Some(next) => to = next,
                    None => return,
                }
                continue;
            }
            if !batch.is_empty() {
                // an element that forgets packets would break the account
                drop_all(to.node, limits::FORGOTTEN, batch, out);
            }
            match self.lanes_to_waiting(plan, to.node, out_base, noutputs, going, batch, out) {
                Some(next) => to = next,
                None => return,
            }
        }
    }

    /// Why packets that have come so far go no further, if they do not.
    #[inline]
    fn too_much(&self, hops: u32) -> Option<&'static str> {
        if hops >= limits::MAX_HOPS {
            return Some(limits::LOOP);
        }
        (self.steps > self.together.most_steps).then_some(limits::WORK)
    }

    /// Takes a batch through elements one after the other as long as each passes on all of it at one output, and
    /// nothing has to be waited for.
    #[inline]
    fn pass_along(
        &mut self,
        plan: &Plan,
        to: &mut Edge,
        going: &mut Going,
        batch: &mut Vec<Pkt>,
    ) -> Onward {
        let n = batch.len();
        loop {
            let Some(node) = self.nodes.get_mut(to.node as usize) else {
                return Onward::Here(0, 0);
            };
            let enough = going.hops >= limits::MAX_HOPS || self.steps > self.together.most_steps;
            if !node.passes || enough {
                return Onward::Here(0, 0);
            }
            let step = plan.natures[to.node as usize].step;
            if step > 0 && self.together.tells_apart(step) {
                return Onward::Here(0, 0);
            }
            let Some(elem) = node.elem.as_mut() else {
                return Onward::Here(0, 0);
            };
            let (port, done) = elem.pass(batch, self.now);
            let way = plan.ways.get(node.out_base as usize + port);
            let onward = |w: &&OutputTarget| {
                done >= n && port < node.noutputs as usize && w.rank != u32::MAX
            };
            let Some(&way) = way.filter(onward) else {
                return Onward::Here(done.min(n), port);
            };
            self.steps += n as u64;
            going.hops += 1;
            *to = way.to;
            let waiting = &mut self.together.waiting;
            // what waits at that very input came before
            if !way.free || waiting.has(way.rank) || !way.alone && waiting.any_before(way.rank) {
                waiting.add(way.rank, batch, *going);
                return Onward::Waits;
            }
        }
    }

    /// Sends the batch as it stands to where output `port` leads: at once if its turn has come and nothing else was
    /// emitted.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn pass_on(
        &mut self,
        plan: &Plan,
        node: u32,
        out_base: usize,
        noutputs: usize,
        port: usize,
        going: Going,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
    ) -> Option<Edge> {
        let lanes = noutputs.min(out.lanes.len());
        let mut alone = true;
        for other in 0..lanes {
            if !out.lanes[other].is_empty() {
                alone = false;
                self.lane_to_waiting(plan, node, out_base, other, going, out);
            }
        }
        let way = *plan.ways.get(out_base + port)?;
        if way.rank == u32::MAX {
            drop_all(node, limits::UNCONNECTED, batch, out);
            return None;
        }
        if batch.is_empty() {
            return None;
        }
        if alone && way.free && !self.together.waiting.any_before(way.rank) {
            return Some(way.to);
        }
        self.together.waiting.add(way.rank, batch, going);
        None
    }

    /// Moves what `node` emitted to the inputs that it goes to. If that is a single batch and nothing before its
    /// input waits, it comes back in `batch` instead, with the input.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn lanes_to_waiting(
        &mut self,
        plan: &Plan,
        node: u32,
        out_base: usize,
        noutputs: usize,
        going: Going,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
    ) -> Option<Edge> {
        let lanes = noutputs.min(out.lanes.len());
        let mut only: Option<usize> = None;
        for port in 0..lanes {
            if out.lanes[port].is_empty() {
                continue;
            }
            if let Some(before) = only.replace(port) {
                self.lane_to_waiting(plan, node, out_base, before, going, out);
            }
        }
        let port = only?;
        let way = *plan.ways.get(out_base + port)?;
        let waiting = &mut self.together.waiting;
        if way.rank == u32::MAX || !way.free || waiting.any_before(way.rank) {
            self.lane_to_waiting(plan, node, out_base, port, going, out);
            return None;
        }
        std::mem::swap(batch, &mut out.lanes[port]);
        Some(way.to)
    }

    fn lane_to_waiting(
        &mut self,
        plan: &Plan,
        node: u32,
        out_base: usize,
        port: usize,
        going: Going,
        out: &mut Outbox,
    ) {
        match plan.rank_of_output.get(out_base + port) {
            Some(&rank) if rank != u32::MAX => {
                self.together.waiting.add(rank, &mut out.lanes[port], going);
            }
            _ => {
                let mut lane = std::mem::take(&mut out.lanes[port]);
                drop_all(node, limits::UNCONNECTED, &mut lane, out);
            }
        }
    }
}

/// Drops packets that have passed as many elements as they may; how many the others have.
#[cold]
fn drop_looping(node: u32, hops: u32, batch: &mut Vec<Pkt>, out: &mut Outbox) -> u32 {
    let mut fewest = u32::MAX;
    for p in std::mem::take(batch) {
        match hops.saturating_sub(p.behind) >= limits::MAX_HOPS {
            true => out.drop(ElemId(node), limits::LOOP, p),
            false => {
                fewest = fewest.min(p.behind);
                batch.push(p);
            }
        }
    }
    // the batch counts what the foremost of its packets has passed
    for p in batch.iter_mut() {
        p.behind -= fewest;
    }
    hops.saturating_sub(fewest)
}

#[cold]
fn drop_all(node: u32, why: &'static str, batch: &mut Vec<Pkt>, out: &mut Outbox) {
    for p in batch.drain(..) {
        out.drop(ElemId(node), why, p);
    }
}
