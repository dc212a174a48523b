//! What elements have said of flows that they have inspected ([`onefold_element::InspectCx::hint`]): entries of
//! composed actions keep it.
//!
//! It stands where other entries have checksums that come to zero; those of composed actions have none.

use crate::flow::composed::ComposedTable;
use crate::flow::exit::Next;
use crate::flow::in_place_way::HINTS;
use crate::flow::runner::FlowRunner;
use crate::flow::table::{Entry, Slot, Table};
use crate::simd::ZERO_SUM_WORDS;
use onefold_element::NO_HINT;

/// Which of an entry's words hints are.
const WORD: usize = ZERO_SUM_WORDS[2];

/// What one of [`HINTS`] elements has said of an entry's flow.
#[inline(always)]
pub(crate) fn hint(table: &Table, slot: Slot, which: u8) -> u32 {
    table.get(slot).map_or(NO_HINT, |l| hint_of(l, which))
}

/// Which of an entry's hints is in fact a [lease](onefold_element::FlowLease), of a way whose only element gives them.
pub(crate) const LEASE: u8 = 1;

/// What one of them has said of the flow of an entry at hand.
#[inline(always)]
pub(crate) fn hint_of(entry: &Entry, which: u8) -> u32 {
    (entry.0[WORD] >> shift(which)) as u32
}

/// Both of an entry's hints.
#[inline(always)]
pub(crate) fn hints(entry: &Entry) -> u64 {
    entry.0[WORD]
}

/// Where what is noted of a flow is, and its [lease](LEASE), by its entry's [hints].
#[inline(always)]
pub(crate) fn leased(hints: u64) -> (usize, u32) {
    let at = (hints as u32).wrapping_sub(1);
    (at as usize, (hints >> 32) as u32)
}

/// It says something else. Nothing happens to an entry of any other action.
///
/// A [lease](LEASE) that the flow had is over with the first hint: its number is one of the place that the hint led to,
/// and the new place may have given the same one to another flow, or to the other direction.
#[inline(never)]
pub(crate) fn set_hint(table: &mut Table, slot: Slot, which: u8, hint: u32) {
    if let Some(l) = table.lines.get_mut(slot as usize)
        && ComposedTable::is(l.0[5] as u32)
    {
        let other = which == 0 && l.0[WORD] as u32 != hint;
        let rest = match other {
            true => 0,
            false => l.0[WORD] & !(u64::from(u32::MAX) << shift(which)),
        };
        l.0[WORD] = rest | u64::from(hint) << shift(which);
    }
}

impl FlowRunner {
    /// Is an element asked at this exit that says where it finds flows? Packets of the cache have entries then, even
    /// where their class has one action for all: the entry keeps what the element has said.
    ///
    /// With the record asked for ahead, a tracker takes 44% of such a chain's time; the loop over packets one by one is
    /// the most of the rest (decision 78).
    pub(crate) fn hints_at(&self, cache: usize, exit: Option<u32>) -> bool {
        let at_entry = self.ingress.get(cache).is_some_and(|l| l.seat.depth == 0);
        let exit = exit.and_then(|e| self.exits.all.get(e as usize));
        match exit.map(|e| e.next) {
            Some(Next::Ask { node, .. }) => at_entry && self.runner.graph.core.hints(node),
            _ => false,
        }
    }
}

#[inline(always)]
fn shift(which: u8) -> u32 {
    u32::from(which % HINTS) * 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::composed::COMPOSED;

    #[test]
    fn entries_of_composed_actions_have_room_for_two() {
        let mut t = Table::new(64, 1);
        let key = |i: u64| [i, 2, 0, 0, 0];
        for (i, action) in [(1, COMPOSED + 3), (7, 3)] {
            let entry = Entry([i, 2, 0, 0, 0, u64::from(action), 0, 0]);
            t.insert(t.hash(&key(i)), entry, &mut |_| ());
        }
        let [composed, other] = [1, 7].map(|i| t.find(t.hash(&key(i)), &key(i)));
        for slot in [composed, other, u32::MAX] {
            set_hint(&mut t, slot, 0, 5);
            set_hint(&mut t, slot, 1, u32::MAX);
            set_hint(&mut t, slot, 0, 5);
        }
        assert_eq!([0, 1].map(|k| hint(&t, composed, k)), [5, u32::MAX]);
        // a lease goes with the place that it is of
        set_hint(&mut t, composed, 0, 6);
        assert_eq!([0, 1].map(|k| hint(&t, composed, k)), [6, NO_HINT]);
        assert_eq!([0, 1].map(|k| hint(&t, other, k)), [NO_HINT; 2]);
    }
}
