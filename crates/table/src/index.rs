//! A hash index: 32-bit hashes to 32-bit references, in buckets of a cache line each.
//!
//! It does not hold keys: whoever asks says which reference has the key ([`IndexKeys`] says a reference's hash where
//! the index grows).

use crate::{HugeVec, equal_to, prefetch};

/// References of a bucket.
const WAYS: usize = 10;
/// Buckets that are made at first. A power of two.
const FIRST: usize = 16;
/// References for each bucket, on average, at most: more buckets are made then.
const LOAD: usize = 6;
/// Of a table that grows: how many buckets ahead records are asked for.
const AHEAD: usize = 8;

/// Tags and references, side by side; a tag of zero is free.
///
/// Ten tags are compared without a branch between them, so that where a reference stands, and how many there are, is
/// nothing that a processor has to guess. Another number says how many references that belong here, or came by, stand
/// in a bucket behind: a look-up seldom goes on (with four references for each bucket on average, one of 350 buckets is
/// full; with whole hashes there would be room for seven, and one of twenty was).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// The last two: how many went by.
    tags: [u16; WAYS + 2],
    references: [u32; WAYS],
}

// a look-up reads one line
const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Which tags are equal to this one, a bit each.
    #[inline(always)]
    fn equal(&self, tag: u16) -> u32 {
        equal_to(&self.tags, tag) & ((1 << WAYS) - 1)
    }

    /// How many references that belong here, or came by, stand behind.
    #[inline(always)]
    fn by(&self) -> u32 {
        u32::from(self.tags[WAYS]) | u32::from(self.tags[WAYS + 1]) << 16
    }
    #[inline(always)]
    fn set_by(&mut self, n: u32) {
        self.tags[WAYS] = n as u16;
        self.tags[WAYS + 1] = (n >> 16) as u16;
    }

    /// Where the reference stands that has this tag, and for which `is_it` holds; and the reference.
    #[inline(always)]
    fn place(&self, tag: u16, is_it: &impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut m = self.equal(tag);
        // Bound: a bit less each time.
        while m != 0 {
            let i = m.trailing_zeros() as usize;
            if let Some(r) = self.references.get(i)
                && is_it(*r)
            {
                return Some((i, *r));
            }
            m &= m - 1;
        }
        None
    }
}

/// A free place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacancy {
    bucket: usize,
    way: usize,
}

/// What references stand for.
pub trait IndexKeys {
    /// The hash of a reference's key.
    fn hash(&self, reference: u32) -> u32;
    /// Asks for the memory that [`IndexKeys::hash`] of this reference will read.
    fn prefetch(&self, reference: u32);
}

/// Maps 32-bit hashes to 32-bit references; the caller says which reference has the key that is looked for. What finds
/// its bucket full stands in the next one that is not, and is counted in those that it went by, so that there are no
/// tombstones and a long-lived table does not decay.
#[derive(Debug)]
pub struct TagIndex {
    buckets: HugeVec<Bucket>,
    used: usize,
}

impl Clone for TagIndex {
    fn clone(&self) -> Self {
        TagIndex {
            buckets: self.buckets.clone(),
            used: self.used,
        }
    }
}

impl Default for TagIndex {
    fn default() -> Self {
        TagIndex {
            buckets: HugeVec::filled(FIRST),
            used: 0,
        }
    }
}

/// What is kept of a hash: its upper half, never zero. The lower bits say the bucket.
#[inline(always)]
fn tag(hash: u32) -> u16 {
    let t = (hash >> 16) as u16;
    t + u16::from(t == 0)
}

impl TagIndex {
    #[inline(always)]
    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }

    /// Bucket, place in it, and the reference.
    #[inline(always)]
    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize, u32)> {
        let at = hash as usize & self.mask();
        let b = self.buckets.get(at)?;
        if let Some((i, r)) = b.place(tag(hash), &is_it) {
            return Some((at, i, r));
        }
        match b.by() {
            0 => None,
            _ => self.behind(hash, is_it),
        }
    }

    /// The same in the buckets behind the first one.
    #[cold]
    #[inline(never)]
    fn behind(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<(usize, usize, u32)> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Bound: each bucket once.
        for _ in 0..mask {
            at = (at + 1) & mask;
            let b = self.buckets.get(at)?;
            if let Some((i, r)) = b.place(tag(hash), &is_it) {
                return Some((at, i, r));
            }
            if b.by() == 0 {
                return None;
            }
        }
        None
    }

    /// The reference with this hash for which `is_it` holds.
    #[inline(always)]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|(_, _, r)| r)
    }

    /// Asks for the bucket that a look-up of `hash` will read.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        if let Some(b) = self.buckets.get(hash as usize & self.mask()) {
            prefetch(b);
        }
    }

    /// The first reference that may have this hash, whatever its key.
    #[inline]
    pub fn candidate(&self, hash: u32) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// Puts a reference in the place of the one for which `is_it` holds, which is returned, or adds it.
    pub fn set(
        &mut self,
        hash: u32,
        reference: u32,
        is_it: impl Fn(u32) -> bool,
        keys: &impl IndexKeys,
    ) -> Option<u32> {
        if let Some((at, i, _)) = self.position(hash, is_it)
            && let Some(r) = (self.buckets.get_mut(at)).and_then(|b| b.references.get_mut(i))
        {
            return Some(std::mem::replace(r, reference));
        }
        self.add(hash, reference, keys);
        None
    }

    /// Adds a reference whose key is not in. `keys`: of those that are in.
    #[inline(always)]
    pub fn add(&mut self, hash: u32, reference: u32, keys: &impl IndexKeys) {
        if self.used >= self.buckets.len() * LOAD {
            self.grow(keys);
        }
        self.place(hash, reference);
        self.used += 1;
    }

    /// Where references with this hash would be put, if none that may be one is in, and its bucket is not full; `None`
    /// also where another one is in that has this hash by chance.
    #[inline(always)]
    pub fn vacancy(&self, hash: u32) -> Option<Vacancy> {
        const PLACES: u32 = (1 << WAYS) - 1;
        let bucket = hash as usize & self.mask();
        let b = self.buckets.get(bucket)?;
        let (free, same) = (equal_to(&b.tags, 0), equal_to(&b.tags, tag(hash)));
        let plain = (same & PLACES == 0) & (free & PLACES != 0);
        // most often nobody went by: both halves of that number are zero
        if !plain || (free >> WAYS != 3 && self.is_behind(hash)) {
            return None;
        }
        Some(Vacancy {
            bucket,
            way: free.trailing_zeros() as usize,
        })
    }
    /// May a reference with this hash be in a bucket behind?
    #[cold]
    #[inline(never)]
    fn is_behind(&self, hash: u32) -> bool {
        self.behind(hash, |_| true).is_some()
    }
    /// [`TagIndex::vacancy`] of two hashes that are put in together.
    #[inline(always)]
    pub fn vacancies(&self, [a, b]: [u32; 2]) -> Option<[Vacancy; 2]> {
        let (a, b) = (self.vacancy(a)?, self.vacancy(b)?);
        let grows = self.used + 2 > self.buckets.len() * LOAD;
        (a.bucket != b.bucket && !grows).then_some([a, b])
    }
    /// Puts a reference where [`TagIndex::vacancy`] has said; others may have gone since, but none come.
    #[inline(always)]
    pub fn fill(&mut self, at: Vacancy, hash: u32, reference: u32) {
        if let Some(b) = self.buckets.get_mut(at.bucket)
            && let (Some(r), Some(t)) = (b.references.get_mut(at.way), b.tags.get_mut(at.way))
        {
            (*r, *t) = (reference, tag(hash));
            self.used += 1;
        }
    }

    #[inline(always)]
    fn place(&mut self, hash: u32, reference: u32) {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        // Bound: there is room, on average in every bucket.
        while let Some(b) = self.buckets.get_mut(at) {
            let i = b.equal(0).trailing_zeros() as usize;
            if let (Some(r), Some(t)) = (b.references.get_mut(i), b.tags.get_mut(i)) {
                (*r, *t) = (reference, tag(hash));
                return;
            }
            b.set_by(b.by() + 1);
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self, keys: &impl IndexKeys) {
        let bigger = HugeVec::filled(self.buckets.len() * 2);
        let old = std::mem::replace(&mut self.buckets, bigger);
        let of = |b: &Bucket| {
            let some = b.tags.into_iter().zip(b.references);
            some.filter(|(t, _)| *t != 0).map(|(_, r)| r)
        };
        for (at, b) in old.iter().enumerate() {
            let ahead = old.get(at + AHEAD).map(of).into_iter().flatten();
            ahead.for_each(|r| keys.prefetch(r));
            of(b).for_each(|r| self.place(keys.hash(r), r));
        }
    }

    /// [`TagIndex::remove`] where most often the first one with this hash is the one.
    #[inline(always)]
    pub fn take_out(&mut self, hash: u32, reference: u32) {
        let at = hash as usize & self.mask();
        if let Some(b) = self.buckets.get_mut(at) {
            let i = b.equal(tag(hash)).trailing_zeros() as usize;
            if let (Some(r), Some(t)) = (b.references.get(i), b.tags.get_mut(i))
                && *r == reference
            {
                *t = 0;
                self.used -= 1;
                return;
            }
        }
        self.remove(hash, reference);
    }

    /// Takes out exactly this reference, if it is in.
    #[inline]
    pub fn remove(&mut self, hash: u32, reference: u32) -> bool {
        let Some((at, i, _)) = self.position(hash, |r| r == reference) else {
            return false;
        };
        if let Some(t) = self.buckets.get_mut(at).and_then(|b| b.tags.get_mut(i)) {
            *t = 0;
        }
        // those that it went by
        let mask = self.mask();
        let mut by = hash as usize & mask;
        while by != at
            && let Some(b) = self.buckets.get_mut(by)
        {
            b.set_by(b.by() - 1);
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
    pub fn len(&self) -> usize {
        self.used
    }

    /// Is no reference in it?
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// How many went by a bucket, in all.
    #[cfg(test)]
    fn by(&self) -> u32 {
        self.buckets.iter().map(Bucket::by).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// References are 1000 * version + key.
    struct Mod<F>(F);
    impl<F: Fn(u32) -> u32> IndexKeys for Mod<F> {
        fn hash(&self, reference: u32) -> u32 {
            self.0(reference % 1000)
        }
        fn prefetch(&self, _: u32) {}
    }

    proptest::proptest! {
        /// Against an ordered map, with hashes that collide a lot.
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((0u8..4, 0u32..200), 0..600), spread in 0u32..5) {
            let hash = |key: u32| match spread {
                // not at all, so that places are found for two together
                4 => key.wrapping_mul(0x9e37_79b9),
                3 => (key % 7) << 24 | key,
                _ => (key % 7) << (spread * 8),
            };
            let mut index = TagIndex::default();
            let mut model = BTreeMap::new();
            let (mut filled, twos) = (0, ops.iter().filter(|o| o.0 == 2).count());
            for (version, (op, key)) in ops.into_iter().enumerate() {
                let is_it = |r: u32| r % 1000 == key;
                match op {
                    0 => {
                        let r = version as u32 * 1000 + key;
                        proptest::prop_assert_eq!(index.set(hash(key), r, is_it, &Mod(hash)), model.insert(key, r));
                    }
                    1 => {
                        let r = model.remove(&key).unwrap_or(key);
                        match r % 2 {
                            0 => index.take_out(hash(key), r),
                            _ => {
                                index.remove(hash(key), r);
                            }
                        }
                    }
                    // this one and another one, where both find a plain place
                    2 => {
                        let other = key ^ 1;
                        let places = index.vacancies([hash(key), hash(other)]);
                        let new = !model.contains_key(&key) && !model.contains_key(&other);
                        proptest::prop_assert!(new || places.is_none());
                        for (at, k) in places.into_iter().flatten().zip([key, other]) {
                            let r = version as u32 * 1000 + k;
                            index.fill(at, hash(k), r);
                            model.insert(k, r);
                            filled += 1;
                        }
                    }
                    _ => {}
                }
                proptest::prop_assert_eq!(index.find(hash(key), is_it), model.get(&key).copied());
                proptest::prop_assert_eq!(index.len(), model.len());
            }
            // where nobody collides, at least the first two find places if nobody came before
            proptest::prop_assert!(spread < 4 || filled > 0 || twos < 20);
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
        let mut index = TagIndex::default();
        index.set(5, 10, |_| false, &Mod(|_| 5));
        assert!(!index.remove(5, 11));
        assert!(index.remove(5, 10));
        assert_eq!((index.len(), index.candidate(5)), (0, None));
    }
}
