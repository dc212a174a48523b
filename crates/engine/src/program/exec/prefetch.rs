//! Bindings foreseen: what rewriters will need of memory is asked for, for a batch of packets at once, before the first of them is carried out.
//!
//! A look-up reads a place of an index and a record, both where memory has not been read for long; one after the other, packet by packet, that
//! is most of what a chain with a translator costs. Here all first places are asked for, then all records; records say what the
//! next rewriter on the way will be asked about. It is a matter of speed alone: whatever is guessed, what happens is found out
//! later, packet by packet.

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::program::code::{Code, End, Span};
use crate::program::lookup::tree::NO_RULE;
use onefold_element::{ElemId, StateStore};
use onefold_nat::PrefetchPacket;
use onefold_packet::Packet;
use onefold_synth::program::Mark;
use std::ops::Deref;

/// Packets at a stage, with the rules that take them: elements that are asked about them next ask for what that takes.
pub(crate) fn prefetch_asked<P: Deref<Target = Packet>>(
    code: &Code,
    graph: &Graph,
    stage: u32,
    packets: &[P],
    rules: &[u32],
) {
    if !code.asks_elements {
        return;
    }
    let Some(s) = code.stages.get(stage as usize) else {
        return;
    };
    for (p, rule) in packets.iter().zip(rules).filter(|(_, r)| **r != NO_RULE) {
        let action = code.action_of(s.rules.saturating_add(*rule));
        let Some(End::Ask { to, image, .. }) = action.map(|a| a.end) else {
            continue;
        };
        if let Some(Mark::At(at, _)) = code.images.get(image as usize).map(|m| m.net)
            && let Some(net) = usize::try_from(at).ok().and_then(|at| p.data().get(at..))
        {
            (graph.core).prefetch_packet(to.node, net, &graph.store);
        }
    }
}

/// Fewer packets have little to gain.
const LEAST: usize = 3;
/// Rewriters on one way that are foreseen.
const MAX_DEEP: usize = 16;

/// What is foreseen of a batch.
#[derive(Debug, Default)]
pub(crate) struct Prefetcher {
    packets: Vec<PrefetchPacket>,
    /// Of each: its rewriters, in [`Code::binds`].
    binds: Vec<Span>,
}

impl Prefetcher {
    /// Packets at a stage, with the rules that take them.
    pub fn of<P: Deref<Target = Packet>>(
        &mut self,
        code: &Code,
        graph: &Graph,
        stage: u32,
        packets: &[P],
        rules: &[u32],
    ) {
        let Some(s) = code.stages.get(stage as usize) else {
            return;
        };
        if packets.len() < LEAST {
            return;
        }
        if code.binds.is_empty() {
            return;
        }
        self.packets.clear();
        self.binds.clear();
        for (p, rule) in packets.iter().zip(rules).filter(|(_, r)| **r != NO_RULE) {
            let action = code.rule_action.get(s.rules as usize + *rule as usize);
            let action = action.and_then(|a| code.actions.get(*a as usize));
            let binds = action.map_or(Span::default(), |a| a.binds);
            let Some((elem, port, image)) = binds.of(&code.binds).first() else {
                continue;
            };
            let image = code.images.get(*image as usize);
            let tuple = image.and_then(|m| m.tuple.as_ref());
            if let Some((proto, flow)) = tuple.and_then(|t| t.flow(p)) {
                self.packets
                    .push(PrefetchPacket::new(*elem, *port, proto, flow));
                self.binds.push(binds);
            }
        }
        if self.packets.len() < LEAST {
            return;
        }
        for deep in 0..MAX_DEEP {
            let mut any = false;
            for (f, binds) in self.packets.iter_mut().zip(&self.binds) {
                match binds.of(&code.binds).get(deep) {
                    Some((elem, port, _)) if f.goes_on => {
                        (f.elem, f.port) = (*elem, *port);
                        any = true;
                    }
                    _ => f.goes_on = false,
                }
            }
            if !any {
                break;
            }
            self.ask(&graph.core, &graph.store);
        }
    }

    /// All rewriters that packets are at, each once.
    fn ask(&mut self, core: &Core, store: &StateStore) {
        let mut asked = [u32::MAX; 4];
        // Bound: others are not foreseen.
        for i in 0..asked.len() {
            let done = asked.get(..i).unwrap_or_default();
            let other = |f: &&PrefetchPacket| f.goes_on && !done.contains(&f.elem);
            let Some(elem) = self.packets.iter().find(other).map(|f| f.elem) else {
                return;
            };
            let node = core.nodes.get(elem as usize);
            if let Some(e) = node.and_then(|n| n.elem.as_ref()) {
                e.prefetch_bindings(ElemId(elem), &mut self.packets, store);
            }
            if let Some(place) = asked.get_mut(i) {
                *place = elem;
            }
        }
    }
}
