//! What rewriters will be asked about a batch's packets, worked out before the first of them is carried out: docs/decisions/0032.

use super::super::code::Code;
use super::super::exec::State;
use super::super::wider::{Work, one_by_one, widely};
use super::{Fate, Shorts, may};
use crate::core::Core;
use crate::graph::Graph;
use onefold_elements::StateStore;
use onefold_elements::rewrite::{Binder, COLUMNS, Columns, ROW};
use onefold_packet::{Packet, Timestamp};
use std::ops::Deref;

/// What is to be asked about a batch's packets, by number in it, and of which rewriter's input.
#[derive(Debug, Clone, Default)]
pub(super) struct Ahead {
    columns: Vec<Columns>,
    packets: usize,
    place: (u32, u16),
    /// The action of each packet.
    numbers: Vec<u32>,
    /// Of each set of columns the packets that are bound and written here whatever the rewriter makes of a new flow, a bit each. None where few flows are new.
    ready: Vec<u64>,
}

impl Ahead {
    /// The columns that a packet is in.
    #[inline(always)]
    pub fn of(&self, place: (u32, u16), i: usize) -> Option<&Columns> {
        match i < self.packets && place == self.place {
            true => self.columns.get(i / COLUMNS),
            false => None,
        }
    }
    /// The action of a packet that is [bound with others](Ahead::bind).
    #[inline(always)]
    pub fn number(&self, i: usize) -> usize {
        self.numbers.get(i).map_or(usize::MAX, |n| *n as usize)
    }
    /// There is nothing to be asked.
    pub fn clear(&mut self) {
        self.packets = 0;
        self.numbers.clear();
        self.ready.clear();
    }

    /// Binds a packet whose turn it is, and those behind it up to the end of its columns, as long as their flows are new and it is plain what is done with them: how many. All of
    /// them are to be carried out next, with their [bindings](Columns::binding).
    #[inline(always)]
    pub fn bind<'s>(
        &self,
        place: (u32, u16),
        i: usize,
        b: &mut Binder<'s>,
        now: Timestamp,
    ) -> usize {
        let column = i / COLUMNS;
        let ready = self.ready.get(column).map_or(0, |r| r >> (i % COLUMNS));
        if ready & 1 == 0 || place != self.place {
            return 0;
        }
        let n = (!ready).trailing_zeros() as usize;
        match self.columns.get(column) {
            Some(c) => b.bind_new(c, i % COLUMNS, n, now),
            None => 0,
        }
    }
}

/// Before a batch is carried out: of all packets that will be bound here, what is to be asked about them is worked out, and the memory of it asked for.
/// `rules`: of the stage whose first rule this is. False where some packets are bound elsewhere, too.
pub(in super::super) fn foresee<P: Deref<Target = Packet>>(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    first_rule: u32,
    packets: &[P],
    rules: &[u32],
) -> bool {
    st.later.shorts.ahead.clear();
    if !may(st, g) {
        return false;
    }
    let shorts = &mut st.later.shorts;
    let mut ahead = std::mem::take(&mut shorts.ahead);
    let all = widely(Foresee {
        code,
        shorts,
        core: &g.core,
        store: &mut g.store,
        first_rule,
        packets,
        rules,
        ahead: &mut ahead,
    });
    shorts.ahead = ahead;
    all
}

/// Is nobody asked for a binding by an action that is not short?
#[cold]
#[inline(never)]
fn binds_nowhere(code: &Code, number: usize) -> bool {
    let action = code.actions.get(number);
    action.is_none_or(|a| a.binds.of(&code.binds).is_empty())
}

/// What [`foresee`] goes through.
struct Foresee<'a, P> {
    code: &'a Code,
    shorts: &'a Shorts,
    core: &'a Core,
    store: &'a mut StateStore,
    first_rule: u32,
    packets: &'a [P],
    rules: &'a [u32],
    ahead: &'a mut Ahead,
}

impl<P: Deref<Target = Packet>> Work for Foresee<'_, P> {
    /// Is nobody else asked?
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let ahead = self.ahead;
        let n = self.packets.len().min(self.rules.len());
        if ahead.columns.len() < n.div_ceil(COLUMNS) {
            ahead
                .columns
                .resize_with(n.div_ceil(COLUMNS), Columns::default);
        }
        let mut binder: Option<Binder<'_>> = None;
        // actions that are known to want whatever the rewriter makes of flows: most often one for each protocol, in no order
        let mut sure = [usize::MAX; 2];
        let mut floods = false;
        let mut place = None;
        let mut asked = 0;
        let mut all = true;
        let (core, store) = (self.core, self.store);
        let batch = self.packets.chunks(COLUMNS).zip(self.rules.chunks(COLUMNS));
        let mut new = 0;
        for ((packets, rules), c) in batch.zip(&mut ahead.columns) {
            let mut ready = 0;
            let rows = packets.chunks(ROW).zip(rules.chunks(ROW)).enumerate();
            for (row, (some, rules)) in rows {
                for (i, (p, rule)) in (row * ROW..).zip(some.iter().zip(rules)) {
                    one_by_one();
                    let at = self.first_rule.saturating_add(*rule) as usize;
                    let number = match self.code.rule_action.get(at) {
                        Some(a) => *a as usize,
                        None => usize::MAX,
                    };
                    ahead.numbers.push(number as u32);
                    let Some(Some(short)) = self.shorts.all.get(number) else {
                        all &= binds_nowhere(self.code, number);
                        c.put(i, None);
                        continue;
                    };
                    let Fate::Bound(tie) = &short.fate else {
                        c.put(i, None);
                        continue;
                    };
                    let here = (tie.elem, tie.port);
                    if place.is_none() {
                        let elem = core.nodes.get(here.0 as usize);
                        let elem = elem.and_then(|n| n.elem.as_ref());
                        binder = elem.and_then(|e| e.binder(usize::from(here.1), &mut *store));
                        place = Some(here);
                        floods = binder.as_ref().is_some_and(Binder::floods);
                    }
                    let Some(flow) = tie.flow(p).filter(|_| place == Some(here)) else {
                        all = false;
                        c.put(i, None);
                        continue;
                    };
                    asked += 1;
                    if floods {
                        let end = short.end(p, Some(flow.transport_len));
                        let mut is = short.fits(tie, p, end);
                        if (number != sure[0]) & (number != sure[1]) {
                            is &= binder
                                .as_mut()
                                .is_some_and(|b| b.always_as_wanted(&tie.wanted));
                            if is {
                                sure = [number, sure[0]];
                            }
                        }
                        ready |= u64::from(is) << i;
                    }
                    c.put(i, Some(flow));
                }
                match &binder {
                    Some(b) => new += b.ask_row(c, row, some.len(), new),
                    None => c.forget(row),
                }
            }
            ahead.ready.push(ready);
        }
        let Some(place) = place else {
            return all;
        };
        let Some(mut binder) = binder else {
            return false;
        };
        all &= binder.foresee(&ahead.columns, n, new) == asked;
        (ahead.packets, ahead.place) = (n, place);
        if !binder.floods() {
            ahead.ready.clear();
        }
        all
    }
}
