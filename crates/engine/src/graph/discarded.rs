//! Packets that somebody in front of the chain has discarded in its place, as it would have: they are counted here.

use crate::graph::reference::Graph;
use onefold_element::{ElemId, reason};

/// Packets that the chain would have dropped at one element for one reason, counted in the same places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded<'a> {
    /// Who would have dropped them.
    pub elem: ElemId,
    /// Why.
    pub reason: &'a str,
    /// How many.
    pub packets: u64,
    /// Elements that count them, with their tag, and the bytes of all of them there.
    pub counts: Vec<(ElemId, u16, u64)>,
    /// Arguments of lists of rules that decide about them (`None`: the policy), and the bytes of all of them there.
    pub decisions: Vec<(ElemId, Option<u32>, u64)>,
}

impl Graph {
    /// May an element be told later of what would have passed it, with this tag
    /// ([`onefold_element::Element::tells_later`])?
    pub fn tells_later(&self, e: ElemId, tag: u16) -> bool {
        let node = self.core.nodes.get(e.0 as usize);
        let elem = node.and_then(|n| n.elem.as_ref());
        elem.is_some_and(|e| e.tells_later(tag))
    }

    /// Accounts for packets that never came in, as if they had come and been dropped. False, and nothing happens, where
    /// the reason is one too many ([`reason::intern`]).
    pub fn account_discarded(&mut self, d: &Discarded<'_>) -> bool {
        let Some(reason) = reason::intern(d.reason) else {
            return false;
        };
        if d.packets == 0 {
            return true;
        }
        self.packets_in += d.packets;
        self.out.count_drops(d.elem, reason, d.packets);
        for (elem, tag, bytes) in &d.counts {
            let (out, store) = (&mut self.out, &mut self.store);
            let mark = out.effects.len();
            self.core.with(elem.0, out, store, |e, cx| {
                e.account(*tag, d.packets, *bytes, cx);
            });
            self.core.settle(elem.0, mark, out, store);
        }
        for (elem, arg, bytes) in &d.decisions {
            let node = self.core.nodes.get_mut(elem.0 as usize);
            let elem = node.and_then(|n| n.elem.as_mut());
            if let Some(c) = elem.and_then(|e| e.rule_counters_mut()) {
                c.add(arg.map(|a| a as usize), d.packets, *bytes);
            }
        }
        true
    }
}
