//! In which order masked matches are looked at: those that most packets are in come first, as a row of packets is done
//! when each of them has one.
//!
//! No packet is in two masked matches of a cache; if one ever were, each would be right for it.

use crate::simd::GROUP;
use crate::simd::bits::each_bit;

/// One of so many groups is counted.
const COUNTED: u32 = 64;
/// What a packet counts. A quarter of it is forgotten each time, so that no weight is above [`GROUP`] * 4 * this.
const WEIGHT: u32 = 16;

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub(crate) struct MatchOrder {
    order: Vec<u8>,
    /// How many packets were in each, lately; by number.
    weights: Vec<u32>,
    groups: u32,
}

impl MatchOrder {
    /// The number of the masked match that is looked at as number `k`.
    #[inline(always)]
    pub fn number(&self, k: usize) -> usize {
        self.order.get(k).map_or(usize::MAX, |n| usize::from(*n))
    }

    /// One more masked match, which is looked at last.
    pub fn push(&mut self) {
        self.order.push(self.order.len() as u8);
        self.weights.push(0);
    }

    /// A group has been looked at: of which of its packets it is known in which masked matches they are, a bit each,
    /// and the numbers of these.
    #[inline(always)]
    pub fn group(&mut self, matches: &[u16; GROUP], some: u64) {
        self.groups = self.groups.wrapping_add(1);
        if self.groups.is_multiple_of(COUNTED) && self.order.len() > 1 {
            self.sort(matches, some);
        }
    }

    #[inline(never)]
    fn sort(&mut self, matches: &[u16; GROUP], some: u64) {
        for w in &mut self.weights {
            *w -= w.div_ceil(4);
        }
        each_bit!(some, i, {
            if let Some(w) = self.weights.get_mut(usize::from(matches[i])) {
                *w += WEIGHT;
            }
        });
        let weight = |i: &u8| self.weights.get(usize::from(*i)).copied().unwrap_or(0);
        self.order.sort_by_key(|i| std::cmp::Reverse(weight(i)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_packets_are_in_is_looked_at_first() {
        let mut order = MatchOrder::default();
        (0..3).for_each(|_| order.push());
        assert_eq!(order.order, [0, 1, 2]);
        let matches = std::array::from_fn(|i| [2, 1, 2, 0][i % 4]);
        let groups = |order: &mut MatchOrder, n: u32, some: u64| {
            (0..n * COUNTED).for_each(|_| order.group(&matches, some));
        };
        groups(&mut order, 1, 7);
        assert_eq!(order.order, [2, 1, 0]);
        groups(&mut order, 1, 8);
        groups(&mut order, 2, 8);
        assert_eq!(order.order, [0, 2, 1], "what was long ago counts less");
        groups(&mut order, 20, 0);
        assert_eq!(order.weights, [0; 3]);
    }
}
