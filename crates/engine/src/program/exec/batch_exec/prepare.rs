//! What rewriters will be asked about a batch's packets, worked out before the first of them is carried out: docs/decisions/0032.

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::program::code::Code;
use crate::program::exec::batch_exec::actions::{BatchAction, BatchActions, Outcome};
use crate::program::exec::batch_exec::may;
use crate::program::exec::batch_exec::prepared::Prepared;
use crate::program::exec::nat_action::{NatAction, NatWrite};
use crate::program::exec::state::State;
use crate::program::headers::rows::{ROW, Row, WINDOW};
use crate::simd::dispatch::{Work, one_by_one, widely};
use onefold_element::StateStore;
use onefold_nat::{Binder, COLUMNS, Columns, HEADER_BYTES, HEADER_WORDS, ROW as ASKED};
use onefold_packet::Packet;
use onefold_synth::program::EndAt;
use std::ops::Deref;

/// Before a batch is carried out: of all packets that will be bound here, what is to be asked about them is worked out, and the memory of it asked for.
/// `rules`: of the stage whose first rule this is. False where some packets are bound elsewhere, too.
pub(crate) fn prefetch_bindings<P: Deref<Target = Packet>>(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    first_rule: u32,
    packets: &[P],
    rules: &[u32],
) -> bool {
    st.prepared.clear();
    if !may(st, g) {
        return false;
    }
    let batch_actions = &mut st.batch_actions;
    let mut prepared = std::mem::take(&mut st.prepared);
    let all = widely(Foresee {
        code,
        batch_actions,
        core: &g.core,
        store: &mut g.store,
        first_rule,
        packets,
        rules,
        prepared: &mut prepared,
    });
    st.prepared = prepared;
    all
}

/// Is nobody asked for a binding by an action that is not short?
#[cold]
#[inline(never)]
fn binds_nowhere(code: &Code, number: usize) -> bool {
    let action = code.actions.get(number);
    action.is_none_or(|a| a.binds.of(&code.binds).is_empty())
}

/// What [`prefetch_bindings`] goes through.
struct Foresee<'a, P> {
    code: &'a Code,
    batch_actions: &'a BatchActions,
    core: &'a Core,
    store: &'a mut StateStore,
    first_rule: u32,
    packets: &'a [P],
    rules: &'a [u32],
    prepared: &'a mut Prepared,
}

// rows of headers are rows of what is asked
const _: () = assert!(ROW == ASKED);

/// No action: of a packet that no rule takes, and that is not sure yet.
const NONE: u32 = u32::MAX;
const NOT_YET: u32 = u32::MAX - 1;

/// What packets have to have to be read sixteen at a time.
#[derive(Debug, Clone, Copy)]
struct Alike {
    /// Where the IP header is, which says where they end.
    net: u32,
    /// Bytes that what is written takes.
    least: u32,
}

impl Alike {
    fn of(batch_action: &BatchAction, nat: &NatAction) -> Option<Alike> {
        let net = nat.tuple.transport() - 20;
        let all_alike = nat.tuple.says(nat.end)
            && (batch_action.end == EndAt::Same || batch_action.alike.is_some())
            && (net + HEADER_BYTES) as usize <= WINDOW;
        let least = match &nat.write {
            NatWrite::BatchAction(w) => w.least as u32,
            NatWrite::Image { .. } => 0,
        };
        all_alike.then_some(Alike { net, least })
    }

    /// Reads a row's packets into columns. False, and nothing is to be relied on, where one is too short.
    #[inline(always)]
    fn read<P: Deref<Target = Packet>>(
        self,
        packets: &[P; ROW],
        c: &mut Columns,
        row: usize,
    ) -> bool {
        let Some(r) = Row::of(packets, self.net + HEADER_BYTES) else {
            return false;
        };
        let mut words = [[0; ROW]; HEADER_WORDS.len()];
        // loops over indices: adapters may not be inlined
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            one_by_one();
            let h = r.windows[i].get(self.net as usize..);
            let Some(h) = h.and_then(|h| h.first_chunk::<{ HEADER_BYTES as usize }>()) else {
                return false;
            };
            for w in 0..words.len() {
                let at = HEADER_WORDS[w];
                words[w][i] = u32::from_ne_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
            }
        }
        c.put_row(row, &words, &r.lens, (self.net, self.least))
    }
}

/// What a batch's packets are bound by, as far as that has been met.
struct Met<'a> {
    core: &'a Core,
    store: Option<&'a mut StateStore>,
    batch_actions: &'a BatchActions,
    /// The first rewriter's input.
    place: Option<(u32, u16)>,
    binder: Option<Binder<'a>>,
    floods: bool,
    /// In a flood actions that want whatever the rewriter makes of flows: most often one for each protocol, in no order.
    sure: [u32; 2],
    /// What packets of both have in common.
    alike: Option<Alike>,
}

impl<'a> Met<'a> {
    /// A packet is to be bound here.
    #[inline(always)]
    fn place(&mut self, here: (u32, u16)) {
        if self.place.is_none() {
            self.first(here);
        }
    }
    #[inline(never)]
    fn first(&mut self, here: (u32, u16)) {
        let elem = self.core.nodes.get(here.0 as usize);
        let elem = elem.and_then(|n| n.elem.as_ref()).zip(self.store.take());
        self.binder = elem.and_then(|(e, store)| e.binder(usize::from(here.1), store));
        self.place = Some(here);
        self.floods = self.binder.as_ref().is_some_and(Binder::floods);
    }

    #[inline(always)]
    fn is_sure(&self, number: u32) -> bool {
        (number == self.sure[0]) | (number == self.sure[1])
    }

    /// An action of a row is none of those that are sure; it becomes one if it can be, and there are not two yet.
    #[inline(never)]
    fn meet(&mut self, number: u32) {
        let Some(Some(batch_action)) = self.batch_actions.all.get(number as usize) else {
            return;
        };
        let Outcome::Bound(nat) = &batch_action.outcome else {
            return;
        };
        let here = (nat.elem, nat.port);
        self.place(here);
        if !self.floods || self.place != Some(here) || self.sure[1] != NOT_YET {
            return;
        }
        let Some(b) = &mut self.binder else { return };
        if b.always_as_wanted(&nat.wanted) {
            let alike = Alike::of(batch_action, nat);
            self.alike = match self.sure {
                [NOT_YET, NOT_YET] => alike,
                _ => alike
                    .zip(self.alike)
                    .filter(|(a, b)| a.net == b.net)
                    .map(|(a, b)| Alike {
                        net: a.net,
                        least: a.least.max(b.least),
                    }),
            };
            self.sure = [number, self.sure[0]];
        }
    }
}

impl<P: Deref<Target = Packet>> Work for Foresee<'_, P> {
    /// Is nobody else asked?
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let prepared = self.prepared;
        let n = self.packets.len().min(self.rules.len());
        if prepared.columns.len() < n.div_ceil(COLUMNS) {
            prepared
                .columns
                .resize_with(n.div_ceil(COLUMNS), Columns::default);
        }
        let mut met = Met {
            core: self.core,
            store: Some(self.store),
            batch_actions: self.batch_actions,
            place: None,
            binder: None,
            floods: false,
            sure: [NOT_YET; 2],
            alike: None,
        };
        let mut asked = 0;
        let mut all = true;
        let batch = self.packets.chunks(COLUMNS).zip(self.rules.chunks(COLUMNS));
        let mut new = 0;
        for ((packets, rules), c) in batch.zip(&mut prepared.columns) {
            let mut ready = 0;
            let rows = packets.chunks(ROW).zip(rules.chunks(ROW)).enumerate();
            for (row, (some, rules)) in rows {
                let mut numbers = [NONE; ROW];
                let mut sure = true;
                for (number, rule) in numbers.iter_mut().zip(rules) {
                    one_by_one();
                    let at = self.first_rule.saturating_add(*rule) as usize;
                    if let Some(a) = self.code.rule_action.get(at) {
                        *number = *a;
                    }
                    sure &= met.is_sure(*number);
                }
                prepared.numbers.extend_from_slice(&numbers[..some.len()]);
                if !sure && met.sure[1] == NOT_YET && (met.floods || met.place.is_none()) {
                    sure = true;
                    for number in numbers {
                        if !met.is_sure(number) {
                            met.meet(number);
                            sure &= met.is_sure(number);
                        }
                    }
                }
                if sure
                    && let (Some(alike), Some(b)) = (met.alike, &met.binder)
                    && let Some(some) = some.first_chunk()
                    && alike.read(some, c, row)
                {
                    asked += ROW;
                    ready |= 0xffff << (row * ROW);
                    new += b.ask_row(c, row, ROW, new);
                    continue;
                }
                for (i, (p, number)) in (row * ROW..).zip(some.iter().zip(numbers)) {
                    one_by_one();
                    let Some(Some(batch_action)) = self.batch_actions.all.get(number as usize)
                    else {
                        all &= binds_nowhere(self.code, number as usize);
                        c.put(i, None);
                        continue;
                    };
                    let Outcome::Bound(nat) = &batch_action.outcome else {
                        c.put(i, None);
                        continue;
                    };
                    let here = (nat.elem, nat.port);
                    met.place(here);
                    let Some(flow) = nat.flow(p).filter(|_| met.place == Some(here)) else {
                        all = false;
                        c.put(i, None);
                        continue;
                    };
                    asked += 1;
                    if met.floods {
                        let end = batch_action.end(p, Some(flow.transport_len));
                        let mut is = batch_action.fits(nat, p, end);
                        if !met.is_sure(number) {
                            is &= (met.binder.as_mut())
                                .is_some_and(|b| b.always_as_wanted(&nat.wanted));
                        }
                        ready |= u64::from(is) << i;
                    }
                    c.put(i, Some(flow));
                }
                match &met.binder {
                    Some(b) => new += b.ask_row(c, row, some.len(), new),
                    None => c.forget(row),
                }
            }
            prepared.ready.push(ready);
        }
        let Some(place) = met.place else {
            return all;
        };
        let Some(mut binder) = met.binder else {
            return false;
        };
        all &= binder.batch_prepare(&prepared.columns, n, new) == asked;
        (prepared.packets, prepared.place) = (n, place);
        if !binder.floods() {
            prepared.ready.clear();
        }
        all
    }
}
