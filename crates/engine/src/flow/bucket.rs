//! A bucket of the flow table: eight tags, and the number of entries that would be here and are not.

use crate::simd::any::Any;
use crate::simd::{TAGS, Wide};

/// Tags without their low bits, which are a number: how many entries that would be here are in their other bucket, [`MANY`] at most.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(16))]
pub(crate) struct Bucket(pub [u16; TAGS]);

/// As many entries elsewhere as a bucket can count. It stays so, then.
const MANY: u32 = (1 << TAGS) - 1;

impl Bucket {
    /// How many entries that would be here are in their other bucket.
    pub fn elsewhere(&self) -> u32 {
        Any.odd(&self.0)
    }
    /// Is there any?
    #[inline(always)]
    pub fn any_elsewhere(&self, wide: impl Wide) -> bool {
        wide.odd(&self.0) != 0
    }
    fn set_elsewhere(&mut self, n: u32) {
        for (i, t) in self.0.iter_mut().enumerate() {
            *t = *t & !1 | (n >> i & 1) as u16;
        }
    }
    /// One more of them, or one less.
    pub fn count(&mut self, more: bool) {
        let n = self.elsewhere();
        match more {
            true if n < MANY => self.set_elsewhere(n + 1),
            false if (1..MANY).contains(&n) => self.set_elsewhere(n - 1),
            _ => {}
        }
    }
    /// The tag at a place; nothing is there if it is zero.
    pub fn tag(&self, i: usize) -> u16 {
        self.0.get(i).map_or(0, |t| t & !1)
    }
    pub fn set_tag(&mut self, i: usize, tag: u16) {
        if let Some(t) = self.0.get_mut(i) {
            *t = *t & 1 | tag;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_up_to_its_bound_and_stays_there() {
        let mut b = Bucket([40; TAGS]);
        for n in 1..=MANY + 3 {
            b.count(true);
            assert_eq!(b.elsewhere(), n.min(MANY));
            assert!(b.any_elsewhere(Any) && (0..TAGS).all(|i| b.tag(i) == 40));
        }
        b.count(false);
        assert_eq!(b.elsewhere(), MANY);
        let mut b = Bucket::default();
        b.count(false);
        assert!(!b.any_elsewhere(Any));
        b.count(true);
        b.count(false);
        assert!(!b.any_elsewhere(Any));
    }
}
