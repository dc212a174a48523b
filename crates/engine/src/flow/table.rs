//! The flow table: entries of one cache line, found through buckets of tags.
//!
//! A bucket is eight tags of 16 bits, and the place of a tag is the place of its entry: a look-up reads one or two buckets (16 bytes
//! each) and one entry, and a miss seldom reads an entry at all. Two-choice cuckoo hashing: an entry lives in one of two buckets, each
//! of which is known from the other and the tag, so that entries can be moved without their keys. The hash is keyed. Memory is taken
//! once. The tags' low bits together count a bucket's entries that had to go to their other bucket: where there are none, which is the rule,
//! a key that is not there costs one bucket and not two ([F14](https://engineering.fb.com/2019/04/25/developer-tools/f14/) counts so). When both buckets of a new entry are full and nothing can be moved, the one goes that has not been used for longest, by a bit
//! for each that hits set ([CLOCK](https://en.wikipedia.org/wiki/Page_replacement_algorithm#Clock)): entries that a flood has made
//! and nobody uses go first.
//!
//! A table that is larger than its contents costs: each look-up reads lines that no other one does. So it begins small and doubles
//! when it is full, up to its bound, which need not be a power of two: memory for sixteen million flows is not rounded up to that for thirty-three.
//!
//! No key's first word is zero.
//!
//! Bounds: a look-up reads at most 2 buckets and the entries whose tags are equal, an insertion moves at most one entry.

use crate::flow::bucket::Bucket;
use crate::simd::any::Any;
use crate::simd::hash::{Secrets, scaled, tag};
use crate::simd::{TAGS, Wide, ZERO_SUM_WORDS};
use onefold_table::{HugeVec, prefetch};

/// Entries of a bucket.
const WAYS: usize = TAGS;
/// Fewest and most entries.
const CAPACITY: (usize, usize) = (64, 1 << 25);
/// Buckets to begin with.
const FIRST: usize = 128;
/// Words of a key, at most.
pub(crate) const KEY: usize = 5;

/// An entry: its key and what the owner keeps with it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Entry(pub [u64; 8]);

/// Where an entry is.
pub(crate) type Slot = u32;
/// No entry.
pub(crate) const NO_SLOT: Slot = Slot::MAX;

#[derive(Debug)]
pub(crate) struct Table {
    buckets: HugeVec<Bucket>,
    pub(super) lines: HugeVec<Entry>,
    /// By bucket: which entries have been used since somebody wanted their places.
    used: HugeVec<u8>,
    seed: Secrets,
    len: usize,
    /// Most buckets.
    bound: usize,
    /// Some entry has had dangers ([`crate::simd::ZERO_SUM_WORDS`]) since the table was empty.
    zero_sums_known: bool,
}

/// Bit of a key's first word: all of its words count, not just two.
pub(crate) const LONG: u64 = 1 << 63;

/// Does an entry have this key of two words?
#[inline(always)]
pub(crate) fn same_short(l: &Entry, key: &[u64; 2]) -> bool {
    l.0[0] == key[0] && l.0[1] == key[1]
}

/// Does an entry have this key?
#[inline(always)]
pub(crate) fn same(l: &Entry, key: &[u64; KEY]) -> bool {
    let [a, b, rest @ ..] = key;
    l.0[0] == *a && l.0[1] == *b && (a & LONG == 0 || l.0[2..KEY] == rest[..])
}

impl Table {
    /// For so many entries, at a load of 7/8 at most. `seed` keys the hash.
    pub fn new(entries: usize, seed: u64) -> Table {
        let wanted = entries.clamp(CAPACITY.0, CAPACITY.1);
        let bound = (wanted * 8).div_ceil(7 * WAYS);
        let buckets = bound.min(FIRST);
        let mix = |i: u64| {
            let z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) | 1
        };
        Table {
            buckets: HugeVec::filled(buckets),
            lines: HugeVec::filled(buckets * WAYS),
            used: HugeVec::filled(buckets),
            seed: Secrets {
                short: [mix(1), mix(2), mix(3), mix(4)],
                more: [mix(5), mix(6), mix(7)],
            },
            len: 0,
            bound,
            zero_sums_known: false,
        }
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Places at present.
    pub fn places(&self) -> usize {
        self.lines.len()
    }
    /// Places, at most.
    pub fn bound(&self) -> usize {
        self.bound * WAYS
    }
    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.bytes() + self.lines.bytes() + self.used.bytes()
    }

    /// The most that [`Table::memory_bytes`] can be.
    pub fn most_bytes(&self) -> usize {
        let lines = HugeVec::<Entry>::bytes_for(self.bound * WAYS);
        HugeVec::<Bucket>::bytes_for(self.bound) + lines + HugeVec::<u8>::bytes_for(self.bound)
    }

    /// Hash of a key: two words, or all of them if it is [`LONG`].
    #[inline(always)]
    pub fn hash(&self, k: &[u64; KEY]) -> u64 {
        if k[0] & LONG == 0 {
            return self.hash_short(k[0], k[1]);
        }
        self.seed.hash_long(k)
    }

    /// [`Table::hash`] of a key of two words.
    #[inline(always)]
    pub fn hash_short(&self, a: u64, b: u64) -> u64 {
        onefold_table::hash_words(&self.seed.short, a, b)
    }

    /// What [`Table::hash`] and the number of a bucket are computed with: secrets, and how many buckets there are.
    #[inline(always)]
    pub fn hashing(&self) -> (&Secrets, u32) {
        (&self.seed, self.buckets.len() as u32)
    }

    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        self.scaled(hash as u32)
    }
    /// The bucket where an entry is looked for first.
    #[inline(always)]
    pub fn first_bucket(&self, hash: u64) -> u32 {
        self.first(hash) as u32
    }
    /// 32 bits as one of the buckets, whatever their number is.
    #[inline(always)]
    fn scaled(&self, bits: u32) -> usize {
        scaled(bits, self.buckets.len() as u32) as usize
    }
    /// The other bucket of an entry: both add up to what the tag says, as numbers modulo that of buckets.
    #[inline(always)]
    fn other(&self, bucket: usize, tag: u16) -> usize {
        let sum = self.scaled((u64::from(tag).wrapping_mul(0xc6a4_a793_5bd1_e995) >> 20) as u32);
        let more = if sum < bucket { self.buckets.len() } else { 0 };
        (sum + more).wrapping_sub(bucket)
    }

    /// Asks for the bucket that [`Table::candidate`] reads first. The other one is for few: new entries go to the first if there is room.
    #[inline(always)]
    pub fn ask_bucket(&self, hash: u64) {
        self.ask(self.first_bucket(hash));
    }
    /// Asks for a bucket by its number.
    #[inline(always)]
    pub fn ask(&self, bucket: u32) {
        if let Some(x) = self.buckets.get(bucket as usize) {
            prefetch(x);
        }
    }

    /// Which of a bucket's tags are equal to this one, a bit each.
    #[inline(always)]
    fn equal(b: &Bucket, tag: u16) -> u32 {
        Any.equal(&b.0, tag)
    }

    /// The first entry with the right tag, or [`NO_SLOT`]; the entry is asked for.
    #[inline(always)]
    pub fn candidate(&self, wide: impl Wide, hash: u64) -> Slot {
        self.candidate_in(wide, self.first_bucket(hash), tag(hash))
    }

    /// [`Table::candidate`], where the number of the first bucket is known, and the [tag].
    #[inline(always)]
    pub fn candidate_in(&self, wide: impl Wide, first: u32, tag: u16) -> Slot {
        let b = first as usize;
        let mut at = b;
        let bucket = self.buckets.get(b);
        let mut m = bucket.map_or(0, |x| wide.equal(&x.0, tag));
        if m == 0 {
            match bucket {
                Some(x) if x.any_elsewhere(wide) => {}
                _ => return NO_SLOT,
            }
            at = self.other(b, tag);
            m = self.buckets.get(at).map_or(0, |x| wide.equal(&x.0, tag));
            if m == 0 {
                return NO_SLOT;
            }
        }
        let slot = at * WAYS + m.trailing_zeros() as usize;
        if let Some(l) = self.lines.get(slot) {
            prefetch(l);
        }
        slot as Slot
    }

    /// What [`Table::candidate`] finds in the first bucket, without a branch; the entry is asked for. Whether it may be in the other one.
    #[inline(always)]
    pub fn in_first(&self, wide: impl Wide, first: u32, tag: u16) -> (Slot, bool) {
        let first = first as usize;
        let slot = self.in_bucket(wide, first, tag);
        let more = match self.buckets.get(first) {
            Some(x) => x.any_elsewhere(wide),
            None => false,
        };
        (slot, more)
    }
    /// What it finds in the other one.
    #[inline(always)]
    pub fn in_other(&self, wide: impl Wide, hash: u64) -> Slot {
        let tag = tag(hash);
        self.in_bucket(wide, self.other(self.first(hash), tag), tag)
    }
    /// Asks for the other bucket.
    #[inline(always)]
    pub fn ask_other(&self, hash: u64) {
        let tag = tag(hash);
        if let Some(x) = self.buckets.get(self.other(self.first(hash), tag)) {
            prefetch(x);
        }
    }
    #[inline(always)]
    fn in_bucket(&self, wide: impl Wide, at: usize, tag: u16) -> Slot {
        let m = self.buckets.get(at).map_or(0, |b| wide.equal(&b.0, tag));
        let slot = at * WAYS + m.trailing_zeros() as usize % WAYS;
        // where there is none the first one of all, which is here
        if let Some(l) = self.lines.get(if m == 0 { 0 } else { slot }) {
            prefetch(l);
        }
        if m == 0 { NO_SLOT } else { slot as Slot }
    }

    /// The entry with this key, or [`NO_SLOT`].
    pub fn find(&self, hash: u64, key: &[u64; KEY]) -> Slot {
        let tag = tag(hash);
        let b = self.first(hash);
        let other = self.other(b, tag);
        let more = (self.buckets.get(b)).is_some_and(|x| x.any_elsewhere(Any));
        let both = [b, other];
        for at in both.into_iter().take(1 + usize::from(more)) {
            let mut m = self.buckets.get(at).map_or(0, |x| Self::equal(x, tag));
            while m != 0 {
                let slot = at * WAYS + m.trailing_zeros() as usize;
                if self.lines.get(slot).is_some_and(|l| same(l, key)) {
                    return slot as Slot;
                }
                m &= m - 1;
            }
        }
        NO_SLOT
    }

    /// An entry.
    #[inline(always)]
    pub fn get(&self, slot: Slot) -> Option<&Entry> {
        self.lines.get(slot as usize)
    }
    /// May any entry have dangers? Which ones do cannot be foreseen where some protocols' entries have and others' have not.
    #[inline(always)]
    pub fn zero_sums_known(&self) -> bool {
        self.zero_sums_known
    }
    /// Is it so full that it is good to know which entries are in use? Before, none has to make room for another.
    #[inline(always)]
    pub fn crowded(&self) -> bool {
        self.len >= self.bound() / 4 * 3
    }
    /// It has been used.
    #[inline(always)]
    pub fn mark(&mut self, slot: Slot) {
        if let Some(u) = self.used.get_mut(slot as usize / WAYS) {
            let with = *u | 1 << (slot as usize % WAYS);
            // a line that is only read stays where it is
            if *u != with {
                *u = with;
            }
        }
    }

    fn put(&mut self, slot: usize, tag: u16, entry: Entry) {
        if let (Some(b), Some(l)) = (self.buckets.get_mut(slot / WAYS), self.lines.get_mut(slot)) {
            b.set_tag(slot % WAYS, tag);
            *l = entry;
        }
        if let Some(u) = self.used.get_mut(slot / WAYS) {
            *u &= !(1 << (slot % WAYS));
        }
    }

    fn count(&mut self, bucket: usize, more: bool) {
        if let Some(b) = self.buckets.get_mut(bucket) {
            b.count(more);
        }
    }
    /// The bucket that an entry is looked for in first.
    fn home(&self, l: &Entry) -> usize {
        let [a, b, c, d, e, ..] = l.0;
        self.first(self.hash(&[a, b, c, d, e]))
    }
    /// This entry is about to be in a bucket: its own one counts those that are not there.
    fn arrives(&mut self, bucket: usize, l: &Entry) {
        let home = self.home(l);
        if home != bucket {
            self.count(home, true);
        }
    }
    /// It is not in that bucket any more.
    fn leaves(&mut self, bucket: usize, l: &Entry) {
        let home = self.home(l);
        if home != bucket {
            self.count(home, false);
        }
    }

    fn free_in(&self, bucket: usize) -> Option<usize> {
        let m = self.buckets.get(bucket).map_or(0, |b| Self::equal(b, 0));
        (m != 0).then(|| bucket * WAYS + m.trailing_zeros() as usize)
    }

    /// Twice the size, or all there may be. The few entries that find no place are gone; they are given to `gone`.
    #[cold]
    fn grow(&mut self, gone: &mut dyn FnMut(Entry)) {
        let n = (self.buckets.len() * 2).min(self.bound);
        let old = Table {
            buckets: std::mem::replace(&mut self.buckets, HugeVec::filled(n)),
            lines: std::mem::replace(&mut self.lines, HugeVec::filled(n * WAYS)),
            used: std::mem::replace(&mut self.used, HugeVec::filled(n)),
            ..*self
        };
        self.len = 0;
        for (slot, l) in old.lines.iter().enumerate() {
            let there = old
                .buckets
                .get(slot / WAYS)
                .map_or(0, |b| b.tag(slot % WAYS))
                != 0;
            if let (true, Some(key)) = (there, l.0.first_chunk::<KEY>())
                && let Some(out) = self.place(self.hash(key), *l)
            {
                gone(out);
            }
        }
    }

    /// Puts in an entry whose key is not there. Those that had to make room are given to `gone`.
    pub fn insert(&mut self, hash: u64, entry: Entry, gone: &mut dyn FnMut(Entry)) {
        self.zero_sums_known |= entry.0[0] & LONG == 0 && entry.0[ZERO_SUM_WORDS[0]] != 0;
        let mut small = self.buckets.len() < self.bound;
        if small && self.len >= self.places() / 8 * 7 {
            self.grow(gone);
            small = self.buckets.len() < self.bound;
        }
        if self.settle(hash, entry) {
            return;
        }
        if small {
            self.grow(gone);
        }
        if let Some(out) = self.place(hash, entry) {
            gone(out);
        }
    }

    /// Where there is room for it, another entry having moved if need be. The one that had to go if there is none.
    fn place(&mut self, hash: u64, entry: Entry) -> Option<Entry> {
        if self.settle(hash, entry) {
            return None;
        }
        Some(self.replace(hash, entry))
    }

    /// Puts an entry in if there is room for it, another one having moved if need be.
    fn settle(&mut self, hash: u64, entry: Entry) -> bool {
        let tag = tag(hash);
        let b = self.first(hash);
        let other = self.other(b, tag);
        if let Some(slot) = self.free_in(b).or_else(|| self.free_in(other)) {
            if slot / WAYS != b {
                self.count(b, true);
            }
            self.put(slot, tag, entry);
            self.len += 1;
            return true;
        }
        // one of sixteen moves to its other place, if that is free
        for at in [b, other] {
            for i in 0..WAYS {
                let slot = at * WAYS + i;
                let Some(t) = self.buckets.get(at).map(|x| x.tag(i)) else {
                    continue;
                };
                if let Some(to) = self.free_in(self.other(at, t))
                    && let Some(moved) = self.lines.get(slot).copied()
                {
                    let used = self.used.get(at).is_some_and(|u| u >> i & 1 == 1);
                    self.leaves(at, &moved);
                    self.arrives(to / WAYS, &moved);
                    self.put(to, t, moved);
                    if used {
                        self.mark(to as Slot);
                    }
                    self.arrives(at, &entry);
                    self.put(slot, tag, entry);
                    self.len += 1;
                    return true;
                }
            }
        }
        false
    }

    /// Puts an entry in the place of another of its two full buckets.
    fn replace(&mut self, hash: u64, entry: Entry) -> Entry {
        let tag = tag(hash);
        let b = self.first(hash);
        let other = self.other(b, tag);
        let used = |at: usize| self.used.get(at).copied().unwrap_or(0);
        let at = match (used(b), used(other)) {
            (u8::MAX, u8::MAX) => {
                for x in [b, other] {
                    if let Some(u) = self.used.get_mut(x) {
                        *u = 0;
                    }
                }
                b
            }
            (u8::MAX, _) => other,
            _ => b,
        };
        // not always the first one of those that may go
        let turn = (hash >> 40) as u32 % WAYS as u32;
        let old = !self.used.get(at).copied().unwrap_or(0);
        let i = (old.rotate_right(turn).trailing_zeros() + turn) as usize % WAYS;
        let slot = at * WAYS + i;
        let victim = self.lines.get(slot).copied().unwrap_or_default();
        self.leaves(at, &victim);
        self.arrives(at, &entry);
        self.put(slot, tag, entry);
        victim
    }

    /// Takes an entry out. Nothing has its key any more, so that a place found before is known to be empty.
    pub fn remove(&mut self, slot: Slot) -> Option<Entry> {
        let slot = slot as usize;
        let b = self.buckets.get_mut(slot / WAYS)?;
        if b.tag(slot % WAYS) == 0 {
            return None;
        }
        b.set_tag(slot % WAYS, 0);
        self.len -= 1;
        let entry = self.lines.get_mut(slot).map(std::mem::take)?;
        self.leaves(slot / WAYS, &entry);
        Some(entry)
    }

    /// Takes all entries out.
    pub fn clear(&mut self) {
        self.buckets.fill(Bucket::default());
        self.used.fill(0);
        self.len = 0;
        self.zero_sums_known = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key(i: u64) -> [u64; KEY] {
        match i % 3 {
            0 => [i | LONG, i * 7, i * 11, 1, i],
            _ => [i, !i, 0, 0, 0],
        }
    }
    fn entry(i: u64) -> Entry {
        let k = key(i);
        Entry([k[0], k[1], k[2], k[3], k[4], i, 0, 0])
    }

    #[test]
    fn holds_what_it_has_room_for() {
        let mut t = Table::new(10_000, 5);
        for i in 0..10_000 {
            t.insert(t.hash(&key(i)), entry(i), &mut |_| panic!("{i}"));
        }
        assert_eq!(t.len(), 10_000);
        for i in 0..10_000 {
            let s = t.find(t.hash(&key(i)), &key(i));
            assert_eq!(t.get(s).map(|l| l.0[5]), Some(i));
            assert_ne!(t.candidate(Any, t.hash(&key(i))), NO_SLOT);
        }
        assert_eq!(t.find(t.hash(&key(10_000)), &key(10_000)), NO_SLOT);
    }

    #[test]
    fn both_buckets_are_there_and_tell_each_other() {
        for n in [64, 100, 1000, 5000, 16_000] {
            let mut t = Table::new(n, 3);
            for i in 0..n as u64 {
                t.insert(t.hash(&key(i)), entry(i), &mut |_| ());
                let h = t.hash(&key(i * 7));
                let (b, tag) = (t.first(h), tag(h));
                let other = t.other(b, tag);
                assert!(b < t.buckets.len() && other < t.buckets.len());
                assert_eq!(t.other(other, tag), b);
            }
        }
    }

    /// At the load that is promised, and no more places than that takes.
    #[test]
    fn full() {
        for n in [1000, 60_000, 131_072] {
            let mut t = Table::new(n, 11);
            assert!(t.bound() <= n * 8 / 7 + WAYS, "{n}: {}", t.bound());
            let mut gone = 0;
            for i in 0..n as u64 {
                t.insert(t.hash(&key(i)), entry(i), &mut |_| gone += 1);
            }
            assert!(gone * 5_000 <= n, "{gone} of {n}");
        }
    }

    #[test]
    fn those_in_use_stay_in_a_flood() {
        let mut t = Table::new(4096, 9);
        for i in 0..1000 {
            t.insert(t.hash(&key(i)), entry(i), &mut |_| ());
        }
        let mut gone = 0;
        for i in 1000..100_000u64 {
            t.insert(t.hash(&key(i)), entry(i), &mut |_| ());
            // as the thousand are used again and again
            let u = i % 1000;
            let s = t.find(t.hash(&key(u)), &key(u));
            match s {
                NO_SLOT => {
                    gone += 1;
                    t.insert(t.hash(&key(u)), entry(u), &mut |_| ());
                }
                _ => t.mark(s),
            }
        }
        assert!(gone < 1000, "{gone} of 99,000 look-ups missed");
        assert!(t.len() <= t.places());
    }

    /// Each bucket counts those of its entries that are in their other one.
    fn counts_right(t: &Table) {
        let mut elsewhere = vec![0; t.buckets.len()];
        for (slot, l) in t.lines.iter().enumerate() {
            if t.buckets[slot / WAYS].tag(slot % WAYS) != 0 && t.home(l) != slot / WAYS {
                elsewhere[t.home(l)] += 1;
            }
        }
        let counted: Vec<u32> = t.buckets.iter().map(Bucket::elsewhere).collect();
        assert_eq!(counted, elsewhere);
    }

    #[test]
    fn most_keys_that_are_not_there_take_one_bucket() {
        let mut t = Table::new(60_000, 7);
        for i in 0..40_000u64 {
            t.insert(t.hash(&key(i)), entry(i), &mut |_| ());
        }
        counts_right(&t);
        let more = t.buckets.iter().filter(|b| b.any_elsewhere(Any)).count();
        assert!(more * 5 < t.buckets.len(), "{more} of {}", t.buckets.len());
    }

    proptest::proptest! {
        /// Against a map: what is found is what was put in last; what is missing was pushed out or taken out.
        #[test]
        fn as_a_map(ops in proptest::collection::vec((0u8..4, 0u64..200), 1..600)) {
            let mut t = Table::new(64, 3);
            let mut m: HashMap<u64, ()> = HashMap::new();
            for (op, i) in ops {
                let h = t.hash(&key(i));
                let s = t.find(h, &key(i));
                proptest::prop_assert_eq!(s != NO_SLOT, m.contains_key(&i));
                match op {
                    0 | 1 if s == NO_SLOT => {
                        m.insert(i, ());
                        t.insert(h, entry(i), &mut |out| {
                            assert!(m.remove(&out.0[5]).is_some());
                        });
                    }
                    2 if s != NO_SLOT => {
                        proptest::prop_assert_eq!(t.remove(s).map(|l| l.0[5]), Some(i));
                        m.remove(&i);
                    }
                    _ => t.mark(s),
                }
                proptest::prop_assert_eq!(t.len(), m.len());
                counts_right(&t);
            }
        }
    }
}
