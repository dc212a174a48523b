//! The hash index of a flow table: open addressing, eight bytes a slot.

use onefold_packet::{prefetch, spread};

/// Slots that are made at first. A power of two.
const FIRST_SLOTS: usize = 64;

/// Maps 32-bit hashes to 32-bit references; the caller says which reference has the key that is looked for. Linear probing
/// with backward-shift deletion, so there are no tombstones and a long-lived table does not decay. At most three quarters of
/// the slots are in use, so every probe ends.
#[derive(Debug)]
pub(super) struct Index {
    /// Hash in the upper half, reference plus one in the lower; zero is free.
    slots: Vec<u64>,
    used: usize,
}

impl Clone for Index {
    fn clone(&self) -> Self {
        let mut slots = spread(self.slots.len());
        slots.copy_from_slice(&self.slots);
        Index {
            slots,
            used: self.used,
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Index {
            slots: vec![0; FIRST_SLOTS],
            used: 0,
        }
    }
}

#[inline]
fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

#[inline]
fn pack(hash: u32, reference: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(reference + 1)
}

impl Index {
    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline]
    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.mask();
        let mut i = hash as usize & mask;
        loop {
            let s = self.slots[i];
            if s == 0 {
                return None;
            }
            if hash_of(s) == hash && is_it(s as u32 - 1) {
                return Some(i);
            }
            i = (i + 1) & mask;
        }
    }

    /// The reference with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|i| self.slots[i] as u32 - 1)
    }

    /// The first slot that a look-up of `hash` reads.
    #[cfg(test)]
    pub fn peek(&self, hash: u32) -> u64 {
        self.slots[hash as usize & self.mask()]
    }
    /// A look-up of `hash` is about to come.
    #[inline]
    pub fn expect(&self, hash: u32) {
        if let Some(slot) = self.slots.get(hash as usize & self.mask()) {
            prefetch(slot);
        }
    }

    /// The first reference with this hash, whatever its key.
    #[inline]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Puts a reference in the place of the one for which `is_it` holds, which is returned, or adds it.
    pub fn set(&mut self, hash: u32, reference: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(i) = self.position(hash, is_it) {
            let old = self.slots[i] as u32 - 1;
            self.slots[i] = pack(hash, reference);
            return Some(old);
        }
        self.add(hash, reference);
        None
    }

    /// Adds a reference whose key is not in.
    #[inline]
    pub fn add(&mut self, hash: u32, reference: u32) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.place(pack(hash, reference));
        self.used += 1;
    }

    fn place(&mut self, slot: u64) {
        let mask = self.mask();
        let mut i = hash_of(slot) as usize & mask;
        while self.slots[i] != 0 {
            i = (i + 1) & mask;
        }
        self.slots[i] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = spread(self.slots.len() * 2);
        let old = std::mem::replace(&mut self.slots, bigger);
        for s in old.into_iter().filter(|s| *s != 0) {
            self.place(s);
        }
    }

    /// Takes out exactly this reference, if it is in.
    pub fn remove(&mut self, hash: u32, reference: u32) -> bool {
        let Some(mut hole) = self.position(hash, |r| r == reference) else {
            return false;
        };
        let mask = self.mask();
        let mut i = hole;
        // every following slot that would no longer be found moves into the hole
        loop {
            i = (i + 1) & mask;
            let s = self.slots[i];
            if s == 0 {
                break;
            }
            let home = hash_of(s) as usize & mask;
            if i.wrapping_sub(home) & mask >= i.wrapping_sub(hole) & mask {
                self.slots[hole] = s;
                hole = i;
            }
        }
        self.slots[hole] = 0;
        self.used -= 1;
        true
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.slots[..])
    }

    /// References in it.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.used
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
            for (key, r) in model {
                proptest::prop_assert_eq!(index.find(hash(key), |x| x % 1000 == key), Some(r));
            }
        }
    }

    #[test]
    fn removes_only_the_very_reference() {
        let mut index = Index::default();
        index.set(5, 10, |_| false);
        assert!(!index.remove(5, 11));
        assert!(index.remove(5, 10));
        assert_eq!((index.len(), index.peek(5)), (0, 0));
    }
}
