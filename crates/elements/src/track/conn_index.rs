//! Where connections are found: an index of a line of the cache for each look-up, upon huge pages, that can be asked for
//! ahead.

use super::table::{ConnTable, Record, SWEPT};
use onefold_table::{IndexKeys, TagIndex, prefetch};
use std::hash::BuildHasher;

/// Connections that give way are foreseen so far: a look-up from far away takes about as long as a new connection does.
const FORESEEN: usize = 3;

/// Entries by the hashes of their keys. Which keys these are is the table's to say.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnIndex(TagIndex);

/// What the index knows of a hash.
#[inline(always)]
fn short(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// See [`ConnIndex::insert`].
struct Keys<'a, F>(F, &'a [Record]);

impl<F: Fn(u32) -> u64> IndexKeys for Keys<'_, F> {
    fn hash(&self, entry: u32) -> u32 {
        short((self.0)(entry))
    }
    fn prefetch(&self, entry: u32) {
        if let Some(r) = self.1.get(entry as usize) {
            prefetch(r);
        }
    }
}

impl ConnIndex {
    /// An entry whose key has this hash, and for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.find(short(hash), is_it)
    }

    /// One more. `hash_of`: the hash of an entry's key, for those that are in; most of these are numbers of `records`.
    #[inline]
    pub fn insert(
        &mut self,
        hash: u64,
        entry: u32,
        hash_of: impl Fn(u32) -> u64,
        records: &[Record],
    ) {
        self.0.add(short(hash), entry, &Keys(hash_of, records));
    }

    /// Takes out exactly this one, if it is in.
    #[inline]
    pub fn remove(&mut self, hash: u64, entry: u32) {
        self.0.take_out(short(hash), entry);
    }

    /// The entry with this hash will be looked for, or put in, or taken out.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.0.prefetch(short(hash));
    }
}

impl ConnTable {
    /// A connection has given way at this place of the table. While the table is full, and few connections are assured,
    /// the ones that are next follow at equal distances: their memory is asked for. It is a matter of speed alone.
    #[inline]
    pub(super) fn foresee_way(&self, i: u32) {
        let next = |n: usize| {
            let at = i as usize + n * (SWEPT + 1);
            let len = self.records.len();
            // behind the last one comes the first one
            self.records
                .get(if at < len { at } else { at.wrapping_sub(len) })
        };
        if let Some(r) = next(FORESEEN) {
            self.index.prefetch(self.hasher.hash_one(r.key));
        }
        if let Some(r) = next(2 * FORESEEN) {
            prefetch(r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_until_they_are_taken_out() {
        let hash = |n: u32| u64::from(n) << 31 | u64::from(n % 7);
        let mut index = ConnIndex::default();
        for n in 0..1000 {
            index.insert(hash(n), n, hash, &[]);
        }
        for n in 0..1000 {
            assert_eq!(index.find(hash(n), |e| e == n), Some(n));
            index.remove(hash(n), n);
            assert_eq!(index.find(hash(n), |e| e == n), None);
        }
    }
}
