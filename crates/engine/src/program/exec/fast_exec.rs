//! Packets whose way is one stage: read, counted, written and sent at once, where their class needs no more than that.
//!
//! What a program does in general ([`crate::program::exec::general`]) is made for packets that are split, bound, handed over or asked about. Most
//! classes of most chains count, write and send, or count and drop; for their packets nothing has to be put off, and nobody is called.

use crate::graph::reference::Graph;
use crate::program::code::{Code, End, Step};
use crate::program::exec::rule_counting;
use crate::program::exec::state::State;
use crate::program::rewrite::image;
use onefold_element::ElemId;
use onefold_packet::Pkt;

/// Carries out what becomes of a packet that this rule (among all) takes at the entry, if it is that simple and nobody looks on;
/// otherwise answers the packet, with which nothing has happened.
#[inline]
pub(crate) fn run(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    at: usize,
    mut p: Pkt,
) -> Option<Pkt> {
    let number = code.rule_action.get(at).map_or(usize::MAX, |a| *a as usize);
    let Some(action) = code.actions.get(number) else {
        return Some(p);
    };
    if !st.deferred.fast(number)
        || st.recorder.is_some()
        || st.watched.is_some()
        || st.path.is_some()
    {
        return Some(p);
    }
    g.core.steps = 1;
    if let Some(ledger) = &mut g.core.rules {
        rule_counting::count(ledger, action, at, &p);
    }
    for s in action.steps.of(&code.steps) {
        if let Step::Count { len, number, .. } = s {
            // it waits, as has been asked
            st.deferred.add(*number, image::length(*len, &p));
        }
    }
    match action.end {
        End::Output { sink, image } => {
            if !code.tables.is_empty() {
                let core = &g.core;
                (st.regs.tables).take(&code.tables, &g.store, core.changes, core.now);
            }
            st.regs.begin();
            for r in action.needs.of(&code.lists) {
                st.regs.fill(*r, &code.sources, &p);
            }
            if !st.regs.tables.batch {
                st.regs.tables.release();
            }
            if let Some(m) = code.images.get(image as usize) {
                m.apply(&mut p, &st.regs.v, &[]);
            }
            g.out.sent += 1;
            g.out.transmitted.push((ElemId(sink), p));
        }
        End::Drop { elem, reason } => g.out.drop(ElemId(elem), reason, p),
        // not straight
        _ => return Some(p),
    }
    None
}
