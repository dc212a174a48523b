//! The batched engine: the same graph, a batch of packets at a time.
//!
//! A batch goes through an element in one call; what it emits is collected per output. What waits at an element's input is
//! taken up in topological order, so that batches that were split by a look-up come together again where the ways meet, and
//! an element is called once for all of them. The order of packets that take the same way, and so within a flow, is that of
//! the scalar engine; the order across ways is not. `now` is one per batch.
//!
//! What a hop costs matters most where a look-up has split a batch into small ones, ten of three packets for ten routes, say.
//! Elements that usually change packets in place and send them on ([`onefold_elements::Element::pass`]) are therefore called
//! one after the other with the same slice of packets: no context is made, nothing is moved, and an input that only
//! one output leads to needs no look at what waits elsewhere, because nothing can come together there.

use crate::core::Core;
use crate::limits;
use crate::topology::{Edge, Topology};
use onefold_elements::{Cx, ElemId, Outbox, StateStore};
use onefold_packet::Pkt;

/// Outputs that are collected in lanes; packets for higher ones go through the ordered list.
pub(crate) const MAX_LANES: usize = 1024;

/// What waits where, and in which order inputs are taken up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    /// Rank of the input that each output leads to; `u32::MAX` for none.
    rank_of_output: Box<[u32]>,
    /// The same, with more about the input; see [`Core::straight`].
    way_of_output: Box<[Way]>,
    /// Rank of each input.
    rank_of_input: Box<[u32]>,
    /// The input at each rank.
    input: Box<[Edge]>,
    /// Packets that wait there.
    slots: Vec<Slot>,
    /// Ranks at which something waits, one bit each.
    ready: Vec<u64>,
    /// No word of `ready` before this one is set.
    first: usize,
}

/// Where an output leads.
#[derive(Debug, Clone, Copy)]
struct Way {
    to: Edge,
    /// The input's rank; `u32::MAX` for an output that leads nowhere.
    rank: u32,
    /// No other output leads to the input.
    alone: bool,
}

/// What became of a batch on its straight way.
enum Straight {
    /// It stands before an element that is for [`Core::batch_to`]; that many packets, from the first on, have passed it
    /// already and leave at this output.
    Here(usize, usize),
    /// It waits for others.
    Waits,
}

#[derive(Debug, Default)]
struct Slot {
    batch: Vec<Pkt>,
    hops: u32,
}

impl Clone for Slot {
    /// Nothing waits between injections.
    fn clone(&self) -> Self {
        Slot::default()
    }
}

impl Waiting {
    /// Ranks the inputs of a graph.
    pub fn new(topo: &Topology) -> Self {
        let order = push_order(topo);
        let inputs: usize = topo.ports.iter().map(|p| p.ninputs).sum();
        let mut rank_of_input = vec![u32::MAX; inputs].into_boxed_slice();
        let mut input = Vec::with_capacity(inputs);
        for node in order {
            let p = topo.ports[node as usize];
            for port in 0..p.ninputs {
                rank_of_input[p.in_base + port] = input.len() as u32;
                input.push(Edge {
                    node,
                    port: port as u32,
                });
            }
        }
        let rank_of_output: Box<[u32]> = (topo.out_edge.iter())
            .map(|e| match e.is_some() {
                true => rank_of_input[topo.ports[e.node as usize].in_base + e.port as usize],
                false => u32::MAX,
            })
            .collect();
        let mut feeders = vec![0u32; input.len()];
        for rank in &rank_of_output {
            if let Some(n) = feeders.get_mut(*rank as usize) {
                *n += 1;
            }
        }
        let way_of_output = (topo.out_edge.iter().zip(&rank_of_output))
            .map(|(to, rank)| Way {
                to: *to,
                rank: *rank,
                alone: feeders.get(*rank as usize) == Some(&1),
            })
            .collect();
        Waiting {
            rank_of_output,
            way_of_output,
            rank_of_input,
            slots: std::iter::repeat_with(Slot::default)
                .take(input.len())
                .collect(),
            ready: vec![0; input.len().div_ceil(64)],
            first: 0,
            input: input.into(),
        }
    }

    /// Adds packets to those that wait at a rank. Leaves `batch` empty.
    #[inline]
    fn add(&mut self, rank: u32, batch: &mut Vec<Pkt>, hops: u32) {
        let rank = rank as usize;
        let slot = &mut self.slots[rank];
        if slot.batch.is_empty() {
            std::mem::swap(&mut slot.batch, batch);
            slot.hops = hops;
        } else {
            slot.batch.append(batch);
            slot.hops = slot.hops.max(hops);
        }
        self.ready[rank / 64] |= 1 << (rank % 64);
        self.first = self.first.min(rank / 64);
    }

    /// Does anything wait at this rank?
    #[inline]
    fn has(&self, rank: u32) -> bool {
        let word = self.ready.get(rank as usize / 64).copied().unwrap_or(0);
        word >> (rank % 64) & 1 != 0
    }

    /// Does anything wait at this rank or before it?
    #[inline]
    fn any_before(&mut self, rank: u32) -> bool {
        while let Some(word) = self.ready.get(self.first) {
            if *word != 0 {
                let lowest = self.first as u32 * 64 + word.trailing_zeros();
                return lowest <= rank;
            }
            self.first += 1;
        }
        false
    }

    /// Takes up the lowest rank at which something waits; its packets come in `batch`, which has to be empty.
    #[inline]
    fn take(&mut self, batch: &mut Vec<Pkt>) -> Option<(Edge, u32)> {
        while let Some(word) = self.ready.get_mut(self.first) {
            if *word != 0 {
                let rank = self.first * 64 + word.trailing_zeros() as usize;
                *word &= *word - 1;
                let slot = &mut self.slots[rank];
                std::mem::swap(&mut slot.batch, batch);
                return Some((self.input[rank], slot.hops));
            }
            self.first += 1;
        }
        None
    }
}

/// Elements in an order in which a push goes forwards, except in cycles.
fn push_order(topo: &Topology) -> Vec<u32> {
    let n = topo.ports.len();
    let mut fed = vec![false; n];
    for e in topo.out_edge.iter().filter(|e| e.is_some()) {
        fed[e.node as usize] = true;
    }
    let roots = (0..n)
        .filter(|i| !fed[*i])
        .chain((0..n).filter(|i| fed[*i]));
    let mut seen = vec![false; n];
    let mut finished = Vec::with_capacity(n);
    // the last root first, because the whole order is turned round at the end
    for root in roots.rev() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        // (element, outputs still to be followed), highest output first
        let mut stack = vec![(root, topo.ports[root].noutputs)];
        while let Some((node, left)) = stack.pop() {
            if left == 0 {
                finished.push(node as u32);
                continue;
            }
            stack.push((node, left - 1));
            let e = topo.out_edge[topo.ports[node].out_base + left - 1];
            if e.is_some() && !std::mem::replace(&mut seen[e.node as usize], true) {
                let to = e.node as usize;
                stack.push((to, topo.ports[to].noutputs));
            }
        }
    }
    finished.reverse();
    finished
}

impl Core {
    /// Pushes a batch and everything that follows from it. Leaves `batch` empty.
    pub fn push_batch(
        &mut self,
        to: Edge,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let p = self.topo.ports.get(to.node as usize);
        match p.filter(|p| (to.port as usize) < p.ninputs) {
            Some(p) => {
                let rank = self.waiting.rank_of_input[p.in_base + to.port as usize];
                self.waiting.add(rank, batch, 0);
            }
            // an input that the graph does not have: packets enter here from outside
            None => self.batch_to(to, batch, 0, out, store),
        }
        self.run_batches(out, store);
    }

    fn run_batches(&mut self, out: &mut Outbox, store: &mut StateStore) {
        let mut batch = std::mem::take(&mut self.spare);
        while let Some((to, hops)) = self.waiting.take(&mut batch) {
            self.batch_to(to, &mut batch, hops, out, store);
        }
        self.spare = batch;
    }

    /// Gives a batch to an element, and goes on with what it emits as long as that is a single batch whose turn it is; other
    /// batches wait. Leaves `batch` empty.
    fn batch_to(
        &mut self,
        mut to: Edge,
        batch: &mut Vec<Pkt>,
        mut hops: u32,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        loop {
            let mut passed = (0, 0);
            if !out.traced {
                match self.straight(&mut to, &mut hops, batch) {
                    Straight::Here(n, port) => passed = (n, port),
                    Straight::Waits => return,
                }
            }
            let n = batch.len() as u64;
            self.steps += n;
            if hops >= limits::MAX_HOPS || self.steps > limits::MAX_STEPS {
                let why = match hops >= limits::MAX_HOPS {
                    true => limits::LOOP,
                    false => limits::WORK,
                };
                drop_all(to.node, why, batch, out);
                return;
            }
            let Some(node) = self.nodes.get_mut(to.node as usize) else {
                drop_all(to.node, limits::UNCONNECTED, batch, out);
                return;
            };
            let Some(mut elem) = node.elem.take() else {
                for p in batch.drain(..) {
                    self.late.push_back((to, p, hops));
                }
                return;
            };
            let (ninputs, noutputs) = (node.ninputs as usize, node.noutputs as usize);
            let out_base = node.out_base as usize;
            let mark = out.effects.len();
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
            if let Some(port) = out.passed.take() {
                hops += 1;
                match self.pass_on(to.node, out_base, noutputs, port as usize, hops, batch, out) {
                    Some(next) if out.effects.len() == mark => {
                        to = next;
                        continue;
                    }
                    Some(next) => {
                        let base = self.topo.ports[next.node as usize].in_base;
                        let rank = self.waiting.rank_of_input[base + next.port as usize];
                        self.waiting.add(rank, batch, hops);
                    }
                    None => {}
                }
                self.settle(to.node, mark, out, store);
                return;
            }
            if !batch.is_empty() {
                // an element that forgets packets would break the account
                drop_all(to.node, limits::FORGOTTEN, batch, out);
            }
            hops += 1;
            let next = self.lanes_to_waiting(to.node, out_base, noutputs, hops, batch, out);
            if out.effects.len() > mark {
                // calls, and what was emitted outside of the lanes; what goes on waits for them
                if let Some((rank, _)) = next {
                    self.waiting.add(rank, batch, hops);
                }
                self.settle(to.node, mark, out, store);
                return;
            }
            match next {
                Some((_, edge)) => to = edge,
                None => return,
            }
        }
    }

    /// Takes a batch through elements one after the other as long as each passes on all of it at one output, and nothing has to
    /// be waited for.
    #[inline]
    fn straight(&mut self, to: &mut Edge, hops: &mut u32, batch: &mut Vec<Pkt>) -> Straight {
        let n = batch.len();
        loop {
            let Some(node) = self.nodes.get_mut(to.node as usize) else {
                return Straight::Here(0, 0);
            };
            if !node.passes || *hops >= limits::MAX_HOPS || self.steps > limits::MAX_STEPS {
                return Straight::Here(0, 0);
            }
            let Some(elem) = node.elem.as_mut() else {
                return Straight::Here(0, 0);
            };
            let (port, done) = elem.pass(batch, self.now);
            let way = self
                .waiting
                .way_of_output
                .get(node.out_base as usize + port);
            let onward =
                |w: &&Way| done >= n && port < node.noutputs as usize && w.rank != u32::MAX;
            let Some(&way) = way.filter(onward) else {
                return Straight::Here(done.min(n), port);
            };
            self.steps += n as u64;
            *hops += 1;
            *to = way.to;
            // what waits at that very input came before
            if self.waiting.has(way.rank) || !way.alone && self.waiting.any_before(way.rank) {
                self.waiting.add(way.rank, batch, *hops);
                return Straight::Waits;
            }
        }
    }

    /// Sends the batch as it stands to where output `port` leads: at once if its turn has come and nothing else was emitted.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn pass_on(
        &mut self,
        node: u32,
        out_base: usize,
        noutputs: usize,
        port: usize,
        hops: u32,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
    ) -> Option<Edge> {
        let lanes = noutputs.min(out.lanes.len());
        let mut alone = true;
        for other in 0..lanes {
            if !out.lanes[other].is_empty() {
                alone = false;
                self.lane_to_waiting(node, out_base, other, hops, out);
            }
        }
        let rank = *self.waiting.rank_of_output.get(out_base + port)?;
        if rank == u32::MAX {
            drop_all(node, limits::UNCONNECTED, batch, out);
            return None;
        }
        if batch.is_empty() {
            return None;
        }
        if alone && !self.waiting.any_before(rank) {
            return Some(self.waiting.input[rank as usize]);
        }
        self.waiting.add(rank, batch, hops);
        None
    }

    /// Moves what `node` emitted to the inputs that it goes to. If that is a single batch and nothing before its input
    /// waits, it comes back in `batch` instead, with the input's rank.
    #[inline]
    fn lanes_to_waiting(
        &mut self,
        node: u32,
        out_base: usize,
        noutputs: usize,
        hops: u32,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
    ) -> Option<(u32, Edge)> {
        let lanes = noutputs.min(out.lanes.len());
        let mut only: Option<usize> = None;
        for port in 0..lanes {
            if out.lanes[port].is_empty() {
                continue;
            }
            if let Some(before) = only.replace(port) {
                self.lane_to_waiting(node, out_base, before, hops, out);
            }
        }
        let port = only?;
        let rank = *self.waiting.rank_of_output.get(out_base + port)?;
        if rank == u32::MAX || self.waiting.any_before(rank) {
            self.lane_to_waiting(node, out_base, port, hops, out);
            return None;
        }
        std::mem::swap(batch, &mut out.lanes[port]);
        Some((rank, self.waiting.input[rank as usize]))
    }

    fn lane_to_waiting(
        &mut self,
        node: u32,
        out_base: usize,
        port: usize,
        hops: u32,
        out: &mut Outbox,
    ) {
        match self.waiting.rank_of_output.get(out_base + port) {
            Some(&rank) if rank != u32::MAX => {
                self.waiting.add(rank, &mut out.lanes[port], hops);
            }
            _ => {
                let mut lane = std::mem::take(&mut out.lanes[port]);
                drop_all(node, limits::UNCONNECTED, &mut lane, out);
            }
        }
    }

    /// Carries out what a task left in the lanes.
    pub fn settle_lanes(&mut self, node: u32, out: &mut Outbox, store: &mut StateStore) {
        let n = &self.nodes[node as usize];
        let (out_base, noutputs) = (n.out_base as usize, n.noutputs as usize);
        for port in 0..noutputs.min(out.lanes.len()) {
            if !out.lanes[port].is_empty() {
                self.lane_to_waiting(node, out_base, port, 1, out);
            }
        }
        self.run_batches(out, store);
    }
}

#[cold]
fn drop_all(node: u32, why: &'static str, batch: &mut Vec<Pkt>, out: &mut Outbox) {
    for p in batch.drain(..) {
        out.drop(ElemId(node), why, p);
    }
}
