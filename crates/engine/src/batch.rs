//! The batched engine: the same graph, a batch of packets at a time.
//!
//! A batch goes through an element in one call; what it emits is collected per output and goes on as one batch per output,
//! lowest output first, depth first. The order of packets at one output, and so within a flow, is that of the scalar engine;
//! the order across outputs is not. `now` is one per batch.

use crate::core::Core;
use crate::limits;
use crate::topology::Edge;
use onefold_elements::{Cx, ElemId, Outbox, StateStore};
use onefold_packet::Pkt;

/// Batch vectors kept for reuse.
const SPARE: usize = 256;
/// Outputs that are collected in lanes; packets for higher ones go through the ordered list.
pub(crate) const MAX_LANES: usize = 1024;

impl Core {
    /// Pushes a batch and everything that follows from it. Leaves `batch` empty.
    pub fn push_batch(
        &mut self,
        to: Edge,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let base = self.batches.len();
        let mut first = self.spare.pop().unwrap_or_default();
        std::mem::swap(&mut first, batch);
        self.batches.push((to, first, 0));
        self.run_batches(base, out, store);
    }

    fn run_batches(&mut self, base: usize, out: &mut Outbox, store: &mut StateStore) {
        while self.batches.len() > base {
            let Some((mut to, mut batch, mut hops)) = self.batches.pop() else {
                break;
            };
            loop {
                let n = batch.len() as u64;
                self.steps += n;
                self.activity += n;
                if hops >= limits::MAX_HOPS || self.steps > limits::MAX_STEPS {
                    let why = match hops >= limits::MAX_HOPS {
                        true => limits::LOOP,
                        false => limits::WORK,
                    };
                    for p in batch.drain(..) {
                        out.drop(ElemId(to.node), why, p);
                    }
                    break;
                }
                let Some(node) = self.nodes.get_mut(to.node as usize) else {
                    for p in batch.drain(..) {
                        out.drop(ElemId(to.node), limits::UNCONNECTED, p);
                    }
                    break;
                };
                let Some(mut elem) = node.elem.take() else {
                    for p in batch.drain(..) {
                        self.late.push_back((to, p, hops));
                    }
                    break;
                };
                let (ninputs, noutputs) = (node.ninputs as usize, node.noutputs as usize);
                let mark = out.effects.len();
                out.batched = true;
                elem.push_batch(
                    to.port as usize,
                    &mut batch,
                    &mut Cx {
                        elem: ElemId(to.node),
                        now: self.now,
                        ninputs,
                        noutputs,
                        store,
                        out,
                        host: self,
                    },
                );
                out.batched = false;
                self.nodes[to.node as usize].elem = Some(elem);
                // an element that forgets packets would break the account
                for p in batch.drain(..) {
                    out.drop(ElemId(to.node), limits::FORGOTTEN, p);
                }
                // calls and what was emitted outside of the lanes
                self.settle(to.node, mark, out, store);
                match self.take_lanes(to.node, noutputs, &mut batch, hops + 1, out) {
                    Some(next) => (to, hops) = (next, hops + 1),
                    None => break,
                }
            }
            if self.spare.len() < SPARE {
                self.spare.push(batch);
            }
        }
    }

    /// Moves what an element emitted to the work list. The lowest output's batch comes back in `batch`, its destination as
    /// the result; the others go to the stack.
    #[inline]
    fn take_lanes(
        &mut self,
        node: u32,
        noutputs: usize,
        batch: &mut Vec<Pkt>,
        hops: u32,
        out: &mut Outbox,
    ) -> Option<Edge> {
        let lanes = noutputs.min(out.lanes.len());
        let first = out.lanes[..lanes].iter().position(|l| !l.is_empty())?;
        for port in (first + 1..lanes).rev() {
            if out.lanes[port].is_empty() {
                continue;
            }
            let to = self.out_edge(node, port);
            let mut b = self.spare.pop().unwrap_or_default();
            std::mem::swap(&mut b, &mut out.lanes[port]);
            if to.is_some() {
                self.batches.push((to, b, hops));
            } else {
                for p in b.drain(..) {
                    out.drop(ElemId(node), limits::UNCONNECTED, p);
                }
            }
        }
        std::mem::swap(batch, &mut out.lanes[first]);
        let to = self.out_edge(node, first);
        if !to.is_some() {
            for p in batch.drain(..) {
                out.drop(ElemId(node), limits::UNCONNECTED, p);
            }
            return None;
        }
        Some(to)
    }
}
