//! Elements that want packets in order, tell their times apart, or make several of one.

use crate::graph::batch::drop_all;
use crate::graph::batch::number;
use crate::graph::batch::plan::Plan;
use crate::graph::batch::waiting::Going;
use crate::graph::core::Core;
use crate::graph::limits;
use crate::graph::topology::Edge;
use onefold_element::{Cx, ElemId, Emission, Outbox, StateStore};
use onefold_packet::Pkt;

/// Of packets that take turns, so many before each one its memory is asked for.
const AHEAD: usize = 4;

impl Core {
    /// What waits at these ranks is taken up in order: all of it is there. Something waits at `rank` and nothing
    /// before it.
    pub(crate) fn in_order(
        &mut self,
        plan: &Plan,
        (first, end): (u32, u32),
        rank: u32,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let waiting = &mut self.together.waiting;
        debug_assert!(first <= rank && rank < end);
        let mut going = waiting.take(rank, batch);
        if waiting.next_from(rank + 1, end).is_none() {
            if !std::mem::replace(&mut going.sorted, true) {
                batch.sort_unstable_by_key(|p| p.order);
            }
            return self.batch_to(plan, plan.input[rank as usize], batch, going, out, store);
        }
        let mut all = std::mem::take(&mut self.together.merged);
        all.extend(batch.drain(..).map(|p| (rank, p)));
        let waiting = &mut self.together.waiting;
        // Bound: each rank once.
        while let Some(r) = waiting.next_from(rank + 1, end) {
            let hops = waiting.take(r, batch).hops;
            let fewer = hops.abs_diff(going.hops);
            match hops < going.hops {
                true => batch.iter_mut().for_each(|p| p.behind += fewer),
                false => all.iter_mut().for_each(|(_, p)| p.behind += fewer),
            }
            going.hops = going.hops.max(hops);
            all.extend(batch.drain(..).map(|p| (r, p)));
        }
        going.sorted = true;
        all.sort_unstable_by_key(|(_, p)| p.order);
        let mut left = all.drain(..).peekable();
        // Bound: each round takes at least one packet.
        while let Some((r, p)) = left.next() {
            batch.push(p);
            while let Some((_, p)) = left.next_if(|(next, _)| *next == r) {
                batch.push(p);
            }
            self.batch_to(plan, plan.input[r as usize], batch, going, out, store);
        }
        drop(left);
        self.together.merged = all;
    }

    /// In a cycle, where nothing else waits: the first packet of all that wait for their turn is given to its
    /// element, and those behind it that wait for the same one, until something that follows stays in the cycle.
    pub(crate) fn take_turn(
        &mut self,
        plan: &Plan,
        cycle: u32,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let cycle = plan.cycles[cycle as usize];
        let waiting = &mut self.together.waiting;
        let (mut best, mut second) = ((u64::MAX, u32::MAX), u64::MAX);
        let mut from = cycle.first;
        // Bound: each rank once.
        while let Some(rank) = waiting.next_from(from, cycle.end) {
            from = rank + 1;
            let slot = waiting.slot(rank);
            slot.sort_turns();
            let order = slot.turns.front().map_or(u64::MAX, |p| p.order);
            if order < best.0 || best.1 == u32::MAX {
                second = best.0;
                best = (order, rank);
            } else {
                second = second.min(order);
            }
        }
        let rank = best.1;
        let Some(&to) = plan.input.get(rank as usize) else {
            return;
        };
        let hops = waiting.slot(rank).hops;
        let node = &self.nodes[to.node as usize];
        let (noutputs, out_base) = (node.noutputs as usize, node.out_base as usize);
        let outputs = &plan.rank_of_output[out_base..out_base + noutputs];
        let stays = |rank: u32| (cycle.from..cycle.end).contains(&rank);
        // Bound: each round takes a packet.
        while let Some(p) = self.next_turn(rank, second) {
            // the packets before it take longer than its memory takes to come
            let ahead = self.together.waiting.slot(rank).turns.get(AHEAD);
            if let Some(net) = ahead.and_then(|p| p.network()) {
                let elem = self
                    .nodes
                    .get(to.node as usize)
                    .and_then(|n| n.elem.as_ref());
                if let Some(e) = elem {
                    e.prefetch_packet(net, store);
                }
            }
            self.one(plan, to, p, hops, &mut [], out, store);
            let lanes = outputs.iter().zip(&out.lanes);
            if lanes.clone().any(|(r, lane)| stays(*r) && !lane.is_empty()) {
                break;
            }
        }
        let going = Going {
            hops: hops + 1,
            sorted: true,
        };
        for port in 0..noutputs.min(out.lanes.len()) {
            if !out.lanes[port].is_empty() {
                self.lane_to_waiting(plan, to.node, out_base, port, going, out);
            }
        }
    }

    /// The next packet that waits for its turn there, unless one before it waits elsewhere.
    fn next_turn(&mut self, rank: u32, before: u64) -> Option<Pkt> {
        let waiting = &mut self.together.waiting;
        let slot = waiting.slot(rank);
        let p = match slot.turns.front() {
            Some(p) if p.order <= before => slot.turns.pop_front(),
            _ => None,
        };
        if slot.turns.is_empty() {
            waiting.done(rank);
        }
        p
    }

    /// Gives a batch to an element that tells the times of its packets apart, or makes several packets of one. What
    /// it emits is in lanes; leaves `batch` empty.
    pub(crate) fn piecemeal(
        &mut self,
        plan: &Plan,
        to: Edge,
        batch: &mut Vec<Pkt>,
        going: Going,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let tells_apart = self
            .together
            .tells_apart(plan.natures[to.node as usize].step);
        // the last one first, so that the next can be taken off
        batch.reverse();
        if !tells_apart {
            return self.multiplied(plan, to, batch, going, out, store);
        }
        // Bound: each round takes a packet.
        while let Some(p) = batch.pop() {
            self.one(plan, to, p, going.hops, batch, out, store);
        }
    }

    /// [`Core::piecemeal`] at one moment, of packets the last of which comes first: most of them leave as one packet, without
    /// more than that being asked.
    fn multiplied(
        &mut self,
        plan: &Plan,
        to: Edge,
        batch: &mut Vec<Pkt>,
        going: Going,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let node = &mut self.nodes[to.node as usize];
        let passes = node.passes;
        let (ninputs, noutputs) = (node.ninputs as usize, node.noutputs as usize);
        let Some(mut elem) = node.elem.take() else {
            return drop_all(to.node, limits::FORGOTTEN, batch, out);
        };
        let lanes = noutputs.min(out.lanes.len());
        let mark = out.effects.len();
        let mut sent = out.transmitted.len();
        // Bound: each round takes a packet.
        while let Some(mut p) = batch.pop() {
            if passes {
                let (port, done) = elem.pass(std::slice::from_mut(&mut p), self.now);
                if done > 0 {
                    self.send(plan, to.node, port, p, going.hops + 1, out);
                    continue;
                }
            }
            let order = p.order;
            (out.order, out.behind) = (order, p.behind);
            let mut cx = Cx {
                elem: ElemId(to.node),
                now: self.now,
                ninputs,
                noutputs,
                store,
                out,
                host: self,
            };
            elem.push(to.port as usize, p, &mut cx);
            if out.transmitted.len() > sent {
                self.together.note_sent(sent, true, out);
                sent = out.transmitted.len();
            }
            let single = match out.effects.last() {
                Some(Emission::Emit(port, _)) => out.effects.len() == mark + 1 && *port < lanes,
                _ => false,
            };
            if single && let Some(Emission::Emit(port, mut p)) = out.effects.pop() {
                p.order = order;
                out.lanes[port].push(p);
            } else if out.effects.len() > mark {
                self.spread(plan, to.node, mark, order, going.hops + 1, batch, out);
            }
        }
        self.nodes[to.node as usize].elem = Some(elem);
    }

    /// A packet leaves at an output: it goes to a lane, or waits where there is none for it.
    pub(crate) fn send(
        &mut self,
        plan: &Plan,
        node: u32,
        port: usize,
        p: Pkt,
        hops: u32,
        out: &mut Outbox,
    ) {
        let n = &self.nodes[node as usize];
        let rank = match port < n.noutputs as usize {
            true => plan.rank_of_output.get(n.out_base as usize + port).copied(),
            false => None,
        };
        match rank {
            Some(rank) if rank != u32::MAX => match out.lanes.get_mut(port) {
                Some(lane) => lane.push(p),
                None => self.together.waiting.add_one(rank, p, hops),
            },
            _ => out.drop(ElemId(node), limits::UNCONNECTED, p),
        }
    }

    /// Gives one packet to an element, at its own time. What it emits is in lanes, or waits; several packets are
    /// numbered one behind the other. `rest` are packets that are neither in lanes nor wait.
    #[allow(clippy::too_many_arguments)]
    fn one(
        &mut self,
        plan: &Plan,
        to: Edge,
        p: Pkt,
        hops: u32,
        rest: &mut [Pkt],
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        self.steps += 1;
        if let Some(why) = self.too_much(hops.saturating_sub(p.behind)) {
            return out.drop(ElemId(to.node), why, p);
        }
        let nature = plan.natures[to.node as usize];
        if nature.step > 0 {
            self.now = self.together.time_of(p.order);
        }
        let order = p.order;
        (out.order, out.behind) = (order, p.behind);
        out.batched = !nature.multiplies;
        let (mark, sent) = (out.effects.len(), out.transmitted.len());
        let done = self.with(to.node, out, store, |e, cx| {
            e.push(to.port as usize, p, cx);
        });
        debug_assert!(done.is_some(), "no element is at work between two others");
        out.batched = false;
        if out.transmitted.len() > sent {
            self.together.note_sent(sent, true, out);
        }
        if out.effects.len() > mark {
            match nature.multiplies {
                true => self.spread(plan, to.node, mark, order, hops + 1, rest, out),
                false => self.spread_rest(plan, to.node, mark, hops + 1, out, store),
            }
        }
    }

    /// Numbers what a packet has become, in the order in which it was emitted, and puts it in lanes.
    #[allow(clippy::too_many_arguments)]
    fn spread(
        &mut self,
        plan: &Plan,
        node: u32,
        mark: usize,
        order: u64,
        hops: u32,
        rest: &mut [Pkt],
        out: &mut Outbox,
    ) {
        let n = out.effects.len() - mark;
        let (mut next, step) = match n {
            1 => (order, 0),
            _ => match number::split(order, n) {
                Some(numbers) => numbers,
                None => self.split_anew(order, n, rest, out),
            },
        };
        let mut effects = std::mem::take(&mut out.effects);
        for e in effects.drain(mark..) {
            let Emission::Emit(port, mut p) = e else {
                debug_assert!(
                    false,
                    "elements that call handlers are given packets one by one"
                );
                continue;
            };
            p.order = next;
            next += step;
            self.send(plan, node, port, p, hops, out);
        }
        // keeps its allocation
        out.effects = effects;
    }

    /// What an element emitted that lanes did not take: outputs beyond their number. Calls, of which there are none
    /// here, would be carried out at once.
    #[cold]
    pub(crate) fn spread_rest(
        &mut self,
        plan: &Plan,
        node: u32,
        mark: usize,
        hops: u32,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        for e in out.effects.split_off(mark) {
            match e {
                Emission::Emit(port, p) => self.send(plan, node, port, p, hops, out),
                other => {
                    out.effects.push(other);
                    self.settle(node, mark, out, store);
                }
            }
        }
    }

    /// There is no room for so many numbers behind this one: all that has come of its arrival is numbered anew.
    #[cold]
    fn split_anew(
        &mut self,
        mut order: u64,
        n: usize,
        rest: &mut [Pkt],
        out: &mut Outbox,
    ) -> (u64, u64) {
        let arrival = number::arrival(order);
        let from = self.together.sent_from.min(out.transmitted.len());
        let t = &mut self.together;
        let packets = (t.waiting.packets())
            .chain(out.lanes.iter_mut().flatten())
            .chain(rest)
            .chain(out.transmitted[from..].iter_mut().map(|(_, p)| p));
        let mut all: Vec<&mut u64> = packets
            .map(|p| &mut p.order)
            .chain(t.printed.iter_mut().map(|(order, ..)| order))
            .chain(std::iter::once(&mut order))
            .filter(|o| number::arrival(**o) == arrival)
            .collect();
        number::anew(&mut all);
        number::split(order, n).unwrap_or((order, 0))
    }

    /// What waits where packets go alone, in order.
    pub(crate) fn take_alone(&mut self, plan: &Plan, out: &mut Outbox) -> Vec<(Edge, Pkt, u32)> {
        let mut all = Vec::new();
        let mut batch = std::mem::take(&mut self.together.spare);
        let end = plan.input.len() as u32;
        let waiting = &mut self.together.waiting;
        // Bound: each rank once.
        while let Some(rank) = waiting.lowest().filter(|r| *r < end) {
            let going = waiting.take(rank, &mut batch);
            let to = plan.input[rank as usize];
            if rank < plan.alone_from {
                // everything before has been taken up
                debug_assert!(false, "a batch was left behind");
                drop_all(to.node, limits::FORGOTTEN, &mut batch, out);
            }
            let hops = |p: &Pkt| going.hops.saturating_sub(p.behind);
            all.extend(
                batch
                    .drain(..)
                    .map(|p| (to, hops(&p), p))
                    .map(|(to, h, p)| (to, p, h)),
            );
        }
        self.together.spare = batch;
        all.sort_by_key(|(_, p, _)| p.order);
        all
    }
}
