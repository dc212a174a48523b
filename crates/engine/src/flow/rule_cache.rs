//! Actions of classes: where the entry stage's rule that takes a packet says all that becomes of it.
//!
//! A packet whose flow the table does not know goes to the program, which looks for its first rule, together with those of the packets around it, and then does the
//! rest one packet at a time. Where that rule's action is the end (what is written does not follow from the flow's own addresses, and nothing is bound), all
//! packets that one [masked match](crate::flow::masked_match::MaskedMatch) and one rule have in common have one action: it is noted by rule, and the next of these packets goes it as those do
//! that have an entry. Headers that never come again cost their look-up among the rules then, and little else.

use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};

/// Rules of all masked matches of an entry port together, at most: four bytes each.
const MOST: usize = 1 << 20;
/// The rule says not enough.
const NEVER: u32 = BY_FLOW;

/// By rule of the entry stage.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleCache {
    actions: Box<[u32]>,
    known: usize,
}

impl RuleCache {
    /// The action of packets that this rule takes, if it is known.
    #[inline(always)]
    pub fn get(&self, rule: u32) -> Option<u32> {
        let action = self.actions.get(rule as usize).copied();
        action.filter(|w| *w < NEVER)
    }
    /// Has nothing been found out about this rule?
    pub fn open(&self, rule: u32) -> bool {
        let action = self.actions.get(rule as usize);
        action.is_none_or(|w| *w == UNKNOWN)
    }
    /// Notes what was found out about one of so many rules; `None`: it says not enough. `taken`: rules that the tables of all masked matches have. Where they have too
    /// many, nothing is noted.
    pub fn set(&mut self, rule: u32, of: usize, taken: usize, action: Option<u32>) {
        if self.actions.is_empty() {
            if taken.saturating_add(of) > MOST {
                return;
            }
            self.actions = vec![UNKNOWN; of].into();
        }
        if let Some(to) = self.actions.get_mut(rule as usize) {
            self.known += usize::from(action.is_some() && *to >= NEVER);
            *to = action.unwrap_or(NEVER);
        }
    }
    /// Rules that there is room for.
    pub fn len(&self) -> usize {
        self.actions.len()
    }
    /// Rules whose actions are known.
    pub fn known(&self) -> usize {
        self.known
    }
    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = RuleCache::default();
    }
    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.actions[..])
    }
    /// The most that all masked matches of an entry port take.
    pub fn most_bytes() -> usize {
        MOST * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_is_noted_by_rule() {
        let mut w = RuleCache::default();
        assert!(w.open(3) && w.get(3).is_none() && w.memory_bytes() == 0);
        w.set(3, 10, 0, Some(7));
        w.set(4, 10, 0, None);
        assert_eq!(
            (w.get(3), w.get(4), w.get(5), w.get(10)),
            (Some(7), None, None, None)
        );
        assert!(!w.open(3) && !w.open(4) && w.open(5));
        assert_eq!((w.known(), w.len(), w.memory_bytes()), (1, 10, 40));
        w.clear();
        assert!(w.open(3) && w.known() == 0);
    }

    #[test]
    fn there_is_no_more_room_than_is_said() {
        let mut w = RuleCache::default();
        w.set(0, 10, MOST - 9, Some(1));
        assert_eq!((w.get(0), w.len()), (None, 0));
        w.set(0, 10, MOST - 10, Some(1));
        assert_eq!((w.get(0), w.len()), (Some(1), 10));
        assert!(w.memory_bytes() <= RuleCache::most_bytes());
    }
}
