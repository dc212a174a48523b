//! What rewriters will be asked about a batch's packets, worked out before the first of them is carried out: docs/decisions/0031.

use super::super::code::Code;
use super::super::exec::State;
use super::super::wider::{Work, widely};
use super::{Fate, Shorts, may};
use crate::core::Core;
use crate::graph::Graph;
use onefold_elements::StateStore;
use onefold_elements::rewrite::{Asked, Binder};
use onefold_packet::Packet;
use std::ops::Deref;

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
    st.later.shorts.asked.clear();
    if !may(st, g) {
        return false;
    }
    let shorts = &mut st.later.shorts;
    let mut asked = std::mem::take(&mut shorts.asked);
    let (place, all) = widely(Foresee {
        code,
        shorts,
        core: &g.core,
        store: &mut g.store,
        first_rule,
        packets,
        rules,
        asked: &mut asked,
    });
    (shorts.asked, shorts.asks) = (asked, place);
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
    asked: &'a mut Vec<Asked>,
}

impl<P: Deref<Target = Packet>> Work for Foresee<'_, P> {
    /// Which input is asked, and whether nobody else is.
    type Out = ((u32, u16), bool);

    #[inline(always)]
    fn run(self) -> Self::Out {
        let mut binder: Option<((u32, u16), Binder<'_>)> = None;
        let mut store = Some(self.store);
        let mut all = true;
        self.asked.resize(self.packets.len(), Asked::NOTHING);
        // each where it will be read: what is moved as a whole after it was written in parts is waited for
        for ((p, rule), to) in self.packets.iter().zip(self.rules).zip(&mut *self.asked) {
            let at = self.first_rule.saturating_add(*rule) as usize;
            let action = self.code.rule_action.get(at).map(|a| *a as usize);
            let short = action.and_then(|a| self.shorts.all.get(a));
            let Some(Some(short)) = short else {
                let binds = action.and_then(|a| self.code.actions.get(a));
                all &= binds.is_none_or(|a| a.binds.of(&self.code.binds).is_empty());
                continue;
            };
            let Fate::Bound(tie) = &short.fate else {
                continue;
            };
            let place = (tie.elem, tie.port);
            if binder.is_none()
                && let Some(store) = store.take()
            {
                let elem = self.core.nodes.get(tie.elem as usize);
                let elem = elem.and_then(|n| n.elem.as_ref());
                let made = elem.and_then(|e| e.binder(usize::from(tie.port), store));
                binder = made.map(|b| (place, b));
            }
            match (&binder, tie.flow(p)) {
                (Some((at, b)), Some(flow)) if *at == place => *to = b.ask(flow),
                _ => {}
            }
            all &= !to.is_nothing();
        }
        let Some((place, b)) = binder else {
            return ((0, 0), all);
        };
        let mut new = 0;
        for a in self.asked.iter().filter(|a| !a.is_nothing()) {
            b.foresee(a, &mut new);
        }
        b.foreseen(new);
        (place, all)
    }
}
