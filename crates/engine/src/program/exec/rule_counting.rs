//! Packets are counted with the rules of programs that take them.

use crate::graph::rule_counts::RuleLedger;
use crate::program::code::{Action, Cut};
use crate::program::headers::registers::end_of;
use onefold_packet::Packet;

/// A packet of a rule is counted, as long as it is and as lists of rules see it.
#[inline(always)]
pub(crate) fn count(ledger: &mut RuleLedger, action: &Action, rule: usize, p: &Packet) {
    ledger.class(rule, p.len());
    let end = |e| end_of(e, p.buffer(), p.data_offset()) as usize;
    match action.cut {
        Cut::No => {}
        Cut::At(e) => {
            let end = end(e);
            if end < p.len() {
                ledger.padded(rule, p.len() - end);
            }
        }
        Cut::Several => ledger.padded_each(rule, p, end),
    }
}

/// A packet that has been counted leaves its action at a binding.
pub(crate) fn left(ledger: &mut RuleLedger, rule: usize, bind: u16, p: &Packet) {
    let end = |e| end_of(e, p.buffer(), p.data_offset()) as usize;
    ledger.left(rule, bind, (1, p.len() as u64), |e| {
        (p.len() - end(e)) as u64
    });
}
