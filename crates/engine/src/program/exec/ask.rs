//! An element is asked: its packet goes on at the stage behind the output that it leaves at.

use crate::graph::core::Node;
use crate::graph::topology::Edge;
use crate::graph::trace::Entry;
use crate::program::code::{Next, Span};
use crate::program::exec::general::Exec;
use crate::program::exec::state::{Job, PacketState};
#[cfg(debug_assertions)]
use crate::program::lookup;
use onefold_element::{ElemId, Emission};
use onefold_packet::Pkt;

impl Exec<'_> {
    /// A packet that an element has been asked about by a rule, after so many stages, comes to this one: an epoch
    /// begins. Its rule there, if that was looked up ahead.
    pub(super) fn comes_to(&mut self, stage: u32, from: (usize, u32), p: &Pkt) -> Option<u32> {
        self.st.regs.begin();
        let known = self.st.lookahead.learn(from, stage);
        #[cfg(debug_assertions)]
        if let (Some(rule), Some(s)) = (known, self.code.stages.get(stage as usize)) {
            let found = lookup::first_rule(self.code.lookup_of(s), &mut self.st.regs, p);
            debug_assert_eq!(rule, found, "what was looked up ahead for stage {stage}");
            self.st.regs.begin();
        }
        let _ = p;
        known
    }

    /// Calls an element. A single packet that it emits goes on at once, with the stage that it comes to.
    pub(super) fn ask(
        &mut self,
        p: Pkt,
        to: Edge,
        outputs: Span,
        packet_state: PacketState,
    ) -> Option<(Pkt, u32)> {
        let busy = |n: &Node| n.elem.is_none();
        if self.core.nodes.get(to.node as usize).is_none_or(busy) {
            self.core.late.push_back((to, p, packet_state.hops));
            return None;
        }
        let outputs = outputs.of(&self.code.nexts);
        let mark = self.out.effects.len();
        let port = to.port as usize;
        // who only tells reads nobody's counts
        let told = match self.core.trace {
            None => (self.core).with(to.node, self.out, self.store, |e, cx| e.tell(port, &p, cx)),
            Some(_) => None,
        };
        match told.flatten() {
            Some(Ok(port)) => match outputs.get(port) {
                Some(Next::Stage(s)) => return Some((p, *s)),
                _ => self.out.effects.push(Emission::Emit(port, p)),
            },
            Some(Err(reason)) => {
                self.out.drop(ElemId(to.node), reason, p);
                return None;
            }
            None => {
                self.tell();
                let entry = Entry::Push(port);
                let traced = (self.core).trace_begin(to.node, entry, Some(&p), self.out);
                (self.core).with(to.node, self.out, self.store, |e, cx| e.push(port, p, cx));
                self.core.trace_end(traced, None, mark, self.out);
            }
        }
        if self.out.effects.len() == mark + 1
            && let Some(Emission::Emit(port, _)) = self.out.effects.last()
            && let Some(Next::Stage(s)) = outputs.get(*port).copied()
        {
            return match self.out.effects.pop() {
                Some(Emission::Emit(_, q)) => Some((q, s)),
                _ => None,
            };
        }
        // the last one below the others: each goes all its way before the next
        while self.out.effects.len() > mark {
            let job = match self.out.effects.pop() {
                Some(Emission::Emit(port, q)) => match outputs.get(port) {
                    Some(Next::Stage(s)) => Job::Stage(q, *s, true, packet_state),
                    Some(Next::Unconnected(e)) => Job::Unconnected(q, *e),
                    None | Some(Next::Never) => match self.core.out_edge(to.node, port) {
                        edge if edge.is_some() => Job::Reference(q, edge, packet_state.hops),
                        _ => Job::Unconnected(q, to.node),
                    },
                },
                Some(Emission::Again(port, q)) => {
                    let back = Edge {
                        node: to.node,
                        port: port as u32,
                    };
                    Job::Reference(q, back, packet_state.hops)
                }
                Some(Emission::Call(c)) => Job::Call(to.node, c),
                None => break,
            };
            self.st.put_off(self.code, job);
        }
        None
    }
}
