//! Counts that can wait: elements that only add up are told at the end of a batch, once for all of its packets.

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::program::code::Code;
use onefold_element::{Accounts, Outbox, StateStore};

/// What is counted, and has not been told.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeferredCounters {
    /// By number of what is counted ([`Code::counts`]): may it wait?
    waits: Box<[bool]>,
    /// By action: see [`fast`].
    fast: Box<[bool]>,
    /// Packets and bytes.
    sums: Box<[(u64, u64)]>,
    /// Those with packets.
    some: Vec<u32>,
    /// A batch is under way: somebody tells in the end.
    pub gathering: bool,
}

impl DeferredCounters {
    /// Nothing is counted yet.
    pub fn new(code: &Code, g: &Graph) -> DeferredCounters {
        let waits = |(elem, tag): &(u32, u16)| {
            let n = g.core.nodes.get(*elem as usize);
            let elem = n.and_then(|n| n.elem.as_ref());
            elem.is_some_and(|e| e.accounts(*tag) == Accounts::Later)
        };
        let waits: Box<[bool]> = code.counts.iter().map(waits).collect();
        let fast = |a| code.is_fast(a, &waits);
        DeferredCounters {
            fast: code.actions.iter().map(fast).collect(),
            waits,
            sums: vec![(0, 0); code.counts.len()].into(),
            some: Vec::new(),
            gathering: false,
        }
    }

    /// By number of what is counted: may it wait?
    pub fn waits(&self) -> &[bool] {
        &self.waits
    }

    /// May this action be carried out at once?
    #[inline(always)]
    pub fn fast(&self, action: usize) -> bool {
        self.gathering && self.fast.get(action) == Some(&true)
    }

    /// A packet of so many bytes; false, and nothing is counted, where its element is to be told at once.
    #[inline(always)]
    pub fn add(&mut self, number: u32, bytes: u64) -> bool {
        let i = number as usize;
        if !self.gathering || self.waits.get(i) != Some(&true) {
            return false;
        }
        let Some(s) = self.sums.get_mut(i) else {
            return false;
        };
        if s.0 == 0 {
            self.some.push(number);
        }
        (s.0, s.1) = (s.0 + 1, s.1 + bytes);
        true
    }

    /// So many packets of so many bytes in all, of something that may wait.
    pub fn add_all(&mut self, number: u32, packets: u64, bytes: u64) {
        let Some(s) = self.sums.get_mut(number as usize) else {
            return;
        };
        if s.0 == 0 && packets > 0 {
            self.some.push(number);
        }
        (s.0, s.1) = (s.0 + packets, s.1 + bytes);
    }

    /// Elements are told.
    #[inline]
    pub fn tell(&mut self, code: &Code, core: &mut Core, out: &mut Outbox, store: &mut StateStore) {
        if !self.some.is_empty() {
            self.tell_all(code, core, out, store);
        }
    }

    #[inline(never)]
    fn tell_all(&mut self, code: &Code, core: &mut Core, out: &mut Outbox, store: &mut StateStore) {
        while let Some(i) = self.some.pop() {
            let sum = self.sums.get_mut(i as usize).map(std::mem::take);
            let what = code.counts.get(i as usize).copied();
            if let (Some((elem, tag)), Some((packets, bytes))) = (what, sum) {
                let mark = out.effects.len();
                core.with(elem, out, store, |e, cx| {
                    e.account(tag, packets, bytes, cx);
                });
                core.settle(elem, mark, out, store);
            }
        }
    }
}
