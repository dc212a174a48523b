//! Flows of which one packet was seen: a flood of single packets makes no entries.

use onefold_table::{HugeVec, prefetch};

/// Flows of which one packet was seen, by a part of their hash: one place for each, the last one stays.
#[derive(Debug)]
pub(crate) struct SeenFilter {
    seen: HugeVec<u16>,
}

impl SeenFilter {
    /// For about so many flows.
    pub fn new(flows: usize) -> SeenFilter {
        let n = flows
            .saturating_mul(2)
            .clamp(1 << 10, 1 << 26)
            .next_power_of_two();
        SeenFilter {
            seen: HugeVec::filled(n),
        }
    }

    /// [`SeenFilter::again`] is about to be asked.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(place) = self.seen.get(self.place(hash)) {
            prefetch(place);
        }
    }
    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.seen.len() - 1)
    }

    /// Was this flow seen before? From now on it was.
    pub fn again(&mut self, hash: u64) -> bool {
        let at = self.place(hash);
        let tag = (hash >> 44) as u16 | 1;
        match self.seen.get_mut(at) {
            Some(s) if *s == tag => true,
            Some(s) => {
                *s = tag;
                false
            }
            None => true,
        }
    }

    /// [`SeenFilter::again`] where that cannot be foreseen: without a branch.
    #[inline(always)]
    pub fn meet(&mut self, hash: u64) -> bool {
        let at = self.place(hash);
        let tag = (hash >> 44) as u16 | 1;
        match self.seen.get_mut(at) {
            Some(s) => std::mem::replace(s, tag) == tag,
            None => true,
        }
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.seen.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_seen_once() {
        let mut o = SeenFilter::new(4096);
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (0..1000).filter(|i| o.again(hash(*i))).count();
        let second = (0..1000).filter(|i| o.meet(hash(*i))).count();
        assert!(first < 10 && second > 700, "{first} {second}");
        assert_eq!(o.memory_bytes(), 16_384);
    }
}
