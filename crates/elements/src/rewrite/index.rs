//! The hash index of a flow table: buckets of a cache line each.

use onefold_packet::{Roomy, equal_to, prefetch, spread};

/// References of a bucket.
const WAYS: usize = 7;
/// Buckets that are made at first. A power of two.
const FIRST: usize = 16;
/// References for each bucket, on average, at most: more buckets are made then.
const LOAD: usize = 5;

/// Hashes and references, side by side; a hash of zero is free.
///
/// Seven hashes are compared without a branch between them, so that where a reference stands, and how many there are, is nothing that a processor has to
/// guess. The eighth number says how many references that belong here, or came by, stand in a bucket behind: a look-up seldom goes on.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    hashes: [u32; WAYS + 1],
    references: [u32; WAYS + 1],
}

/// Of [`Bucket::hashes`]: how many went by.
const BY: usize = WAYS;

impl Bucket {
    /// Which hashes are equal to this one, a bit each.
    #[inline(always)]
    fn equal(&self, hash: u32) -> u32 {
        equal_to(&self.hashes, hash) & ((1 << WAYS) - 1)
    }

    /// Where the reference stands that has this hash, and for which `is_it` holds.
    #[inline(always)]
    fn place(&self, hash: u32, is_it: &impl Fn(u32) -> bool) -> Option<usize> {
        let mut m = self.equal(kept(hash));
        // Bound: a bit less each time.
        while m != 0 {
            let i = m.trailing_zeros() as usize;
            if is_it(self.references[i & 7]) {
                return Some(i);
            }
            m &= m - 1;
        }
        None
    }
}

/// Maps 32-bit hashes to 32-bit references; the caller says which reference has the key that is looked for. What finds its bucket full stands
/// in the next one that is not, and is counted in those that it went by, so that there are no tombstones and a long-lived table does not decay.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Roomy<Bucket>,
    used: usize,
}

impl Clone for Index {
    fn clone(&self) -> Self {
        Index {
            buckets: self.buckets.clone(),
            used: self.used,
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Index {
            buckets: spread(FIRST),
            used: 0,
        }
    }
}

/// As it is kept: never zero. The lower bits say the bucket.
#[inline(always)]
fn kept(hash: u32) -> u32 {
    hash | 1 << 31
}

impl Index {
    #[inline(always)]
    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }

    /// Bucket and place in it.
    #[inline]
    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize)> {
        let at = hash as usize & self.mask();
        let b = self.buckets.get(at)?;
        if let Some(i) = b.place(hash, &is_it) {
            return Some((at, i));
        }
        match b.hashes[BY] {
            0 => None,
            _ => self.behind(hash, is_it),
        }
    }

    /// The same in the buckets behind the first one.
    #[cold]
    #[inline(never)]
    fn behind(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize)> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Bound: each bucket once.
        for _ in 0..mask {
            at = (at + 1) & mask;
            let b = self.buckets.get(at)?;
            if let Some(i) = b.place(hash, &is_it) {
                return Some((at, i));
            }
            if b.hashes[BY] == 0 {
                return None;
            }
        }
        None
    }

    /// The reference with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (at, i) = self.position(hash, is_it)?;
        Some(self.buckets.get(at)?.references[i & 7])
    }

    /// A look-up of `hash` is about to come.
    #[inline]
    pub fn expect(&self, hash: u32) {
        if let Some(b) = self.buckets.get(hash as usize & self.mask()) {
            prefetch(b);
        }
    }

    /// The first reference with this hash, whatever its key.
    #[inline]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Puts a reference in the place of the one for which `is_it` holds, which is returned, or adds it.
    pub fn set(&mut self, hash: u32, reference: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some((at, i)) = self.position(hash, is_it)
            && let Some(b) = self.buckets.get_mut(at)
        {
            return Some(std::mem::replace(&mut b.references[i & 7], reference));
        }
        self.add(hash, reference);
        None
    }

    /// Adds a reference whose key is not in.
    #[inline]
    pub fn add(&mut self, hash: u32, reference: u32) {
        if self.used >= self.buckets.len() * LOAD {
            self.grow();
        }
        self.place(hash, reference);
        self.used += 1;
    }

    #[inline]
    fn place(&mut self, hash: u32, reference: u32) {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Bound: there is room, on average in every bucket.
        while let Some(b) = self.buckets.get_mut(at) {
            let free = b.equal(0);
            if free != 0 {
                let i = free.trailing_zeros() as usize;
                (b.hashes[i & 7], b.references[i & 7]) = (kept(hash), reference);
                return;
            }
            b.hashes[BY] += 1;
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = spread(self.buckets.len() * 2);
        let old = std::mem::replace(&mut self.buckets, bigger);
        for b in old.iter() {
            for (h, r) in b.hashes.iter().zip(&b.references).take(WAYS) {
                if *h != 0 {
                    self.place(*h, *r);
                }
            }
        }
    }

    /// Takes out exactly this reference, if it is in.
    #[inline]
    pub fn remove(&mut self, hash: u32, reference: u32) -> bool {
        let Some((at, i)) = self.position(hash, |r| r == reference) else {
            return false;
        };
        if let Some(b) = self.buckets.get_mut(at) {
            b.hashes[i & 7] = 0;
        }
        // those that it went by
        let mask = self.mask();
        let mut by = hash as usize & mask;
        while by != at
            && let Some(b) = self.buckets.get_mut(by)
        {
            b.hashes[BY] -= 1;
            by = (by + 1) & mask;
        }
        self.used -= 1;
        true
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// References in it.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.used
    }

    /// How many went by a bucket, in all.
    #[cfg(test)]
    fn by(&self) -> u32 {
        self.buckets.iter().map(|b| b.hashes[BY]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        /// Against an ordered map, with hashes that collide a lot.
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0u8..3, 0u32..200), 0..600), spread in 0u32..4) {
            let hash = |key: u32| (key % 7) << (spread * 8) | if spread == 3 { key } else { 0 };
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            // a reference is 1000 * version + key
            for (version, (op, key)) in ops.into_iter().enumerate() {
                let is_it = |r: u32| r % 1000 == key;
                match op {
                    0 => {
                        let r = version as u32 * 1000 + key;
                        proptest::prop_assert_eq!(index.set(hash(key), r, is_it), model.insert(key, r));
                    }
                    1 => {
                        let r = model.remove(&key).unwrap_or(key);
                        index.remove(hash(key), r);
                    }
                    _ => {}
                }
                proptest::prop_assert_eq!(index.find(hash(key), is_it), model.get(&key).copied());
                proptest::prop_assert_eq!(index.len(), model.len());
            }
            for (key, r) in &model {
                proptest::prop_assert_eq!(index.find(hash(*key), |x| x % 1000 == *key), Some(*r));
            }
            for (key, r) in model {
                proptest::prop_assert!(index.remove(hash(key), r));
            }
            proptest::prop_assert_eq!((index.len(), index.by()), (0, 0));
        }
    }

    #[test]
    fn removes_only_the_very_reference() {
        let mut index = Index::default();
        index.set(5, 10, |_| false);
        assert!(!index.remove(5, 11));
        assert!(index.remove(5, 10));
        assert_eq!((index.len(), index.candidate(5)), (0, None));
    }
}
