//! What rewriters will be asked about a batch's packets, worked out before the first of them is carried out: docs/decisions/0032.

use super::super::code::Code;
use super::super::exec::State;
use super::super::wider::{Work, one_by_one, widely};
use super::{Fate, Shorts, may};
use crate::core::Core;
use crate::graph::Graph;
use onefold_elements::StateStore;
use onefold_elements::rewrite::{Binder, COLUMNS, Columns};
use onefold_packet::Packet;
use std::ops::Deref;

/// What is to be asked about a batch's packets, by number in it, and of which rewriter's input.
#[derive(Debug, Clone, Default)]
pub(super) struct Ahead {
    columns: Vec<Columns>,
    packets: usize,
    place: (u32, u16),
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
    /// There is nothing to be asked.
    pub fn clear(&mut self) {
        self.packets = 0;
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
        let mut place = None;
        let mut asked = 0;
        let mut all = true;
        let batch = self.packets.chunks(COLUMNS).zip(self.rules.chunks(COLUMNS));
        for ((packets, rules), c) in batch.zip(&mut ahead.columns) {
            for (i, (p, rule)) in packets.iter().zip(rules).enumerate() {
                one_by_one();
                let at = self.first_rule.saturating_add(*rule) as usize;
                let action = self.code.rule_action.get(at).map(|a| *a as usize);
                let short = action.and_then(|a| self.shorts.all.get(a));
                let Some(Some(short)) = short else {
                    let binds = action.and_then(|a| self.code.actions.get(a));
                    all &= binds.is_none_or(|a| a.binds.of(&self.code.binds).is_empty());
                    c.put(i, None);
                    continue;
                };
                let Fate::Bound(tie) = &short.fate else {
                    c.put(i, None);
                    continue;
                };
                let here = (tie.elem, tie.port);
                let same = *place.get_or_insert(here) == here;
                let flow = tie.flow(p).filter(|_| same);
                all &= flow.is_some();
                asked += usize::from(flow.is_some());
                c.put(i, flow);
            }
        }
        let Some(place) = place else {
            return all;
        };
        let elem = self.core.nodes.get(place.0 as usize);
        let elem = elem.and_then(|n| n.elem.as_ref());
        let binder = elem.and_then(|e| e.binder(usize::from(place.1), self.store));
        let Some(mut binder): Option<Binder<'_>> = binder else {
            return false;
        };
        for (c, from) in ahead.columns.iter_mut().zip((0..n).step_by(COLUMNS)) {
            binder.ask_all(c, COLUMNS.min(n - from));
        }
        all &= binder.foresee(&ahead.columns, n) == asked;
        (ahead.packets, ahead.place) = (n, place);
        all
    }
}
