//! Longest prefix: a multibit trie whose nodes are compressed by counting bits.
//!
//! After Asai & Ohara, "Poptrie" (SIGCOMM 2015), section 3: a table for the first 18 bits, then nodes for 6 bits each,
//! with a bit vector of the slots that have a child and one of where runs of equal values begin; a child or a value is
//! found by counting bits. Other than there, and as in Eatherton et al., "Tree Bitmap" (CCR 2004), values are *not*
//! pushed down to the leaves: a node knows only prefixes that end within its six bits, and a look-up remembers where it
//! last saw one. So a change of a route touches one node, or, if the route is short, its slots in the table.
//!
//! Keys of a batch go down together, level by level, with prefetch in between. Values are read once, at the end.

mod arena;
mod routes;
mod update;

pub use routes::{RouteChange, RouteError, Routes};

use crate::simd::{self, Isa, Kernel, prefetch};
use crate::{Classifier, Keys, Kind, NO_MATCH};
use arena::Arena;
use std::collections::BTreeMap;

/// Bits of the first table, at most.
const FIRST: u8 = 18;
/// Bits of a node.
const STRIDE: u8 = 6;
/// Keys in flight.
const STAGE: usize = 64;
const NONE: u32 = u32::MAX;

/// What the first table has for a value of the first bits.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Node for the next bits.
    node: u32,
    /// Value of the longest prefix that ends within the first bits.
    value: u32,
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
struct Node {
    /// Slots with a child.
    kids: u64,
    /// Slots that a prefix of this node covers.
    has: u64,
    /// Slots where another value begins than before.
    runs: u64,
    kid: u32,
    value: u32,
}

/// A table of prefixes of one field.
#[derive(Debug, Clone)]
pub struct PrefixTrie {
    /// Bits of the field.
    bits: u8,
    /// Bits of the first table.
    first: u8,
    /// Where the field stands in keys.
    word: usize,
    table: Vec<Slot>,
    nodes: Arena<Node>,
    values: Arena<u32>,
    /// For changes: whose value each slot of the table has (its length, plus one).
    owner: Vec<u8>,
    /// Prefixes that end in the table. A tree, here and below: a hash table that grows would delay a change by
    /// milliseconds.
    short: BTreeMap<(u8, u128), u32>,
    /// Prefixes by the node in which they end: place (1 followed by the bits within the node) and value, in order of
    /// places.
    long: BTreeMap<(u8, u128), Vec<(u8, u32)>>,
    len: usize,
    budget: usize,
}

impl PrefixTrie {
    /// How many prefixes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No prefix.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The field's value of one key, left-aligned.
    #[inline(always)]
    fn key(&self, keys: Keys<'_>, i: usize) -> u128 {
        let words = usize::from(self.bits.div_ceil(32));
        let v =
            (self.word..self.word + words).fold(0u128, |v, w| v << 32 | u128::from(keys.at(w, i)));
        v << (128 - self.bits)
    }

    #[inline(always)]
    fn lookup_narrow(&self, keys: Keys<'_>, out: &mut [u32]) {
        let shift = 64 - u32::from(self.bits);
        let high = keys.word(self.word);
        // a field of one word or of two
        match self.bits <= 32 {
            true => self.walk(keys.len(), |i| u64::from(high[i]) << shift, out),
            false => {
                let low = keys.word(self.word + 1);
                let key = |i: usize| (u64::from(high[i]) << 32 | u64::from(low[i])) << shift;
                self.walk(keys.len().min(low.len()), key, out);
            }
        }
    }

    /// All keys of a batch; `key` gives the field left-aligned.
    #[inline(always)]
    fn walk<K: Key>(&self, n: usize, key: impl Fn(usize) -> K, out: &mut [u32]) {
        let n = n.min(out.len());
        let mut from = 0;
        while from < n {
            let len = STAGE.min(n - from);
            let out = &mut out[from..from + len];
            let mut k = [K::default(); STAGE];
            let mut index = [0u32; STAGE];
            for (i, (k, x)) in k.iter_mut().zip(&mut index).enumerate().take(len) {
                *k = key(from + i);
                *x = k.top(self.first);
                prefetch(&self.table, *x as usize);
            }
            let mut node = [NONE; STAGE];
            // where the value of the longest prefix so far stands
            let mut at = [NONE; STAGE];
            let mut active = [0u8; STAGE];
            let mut walking = 0;
            for i in 0..len {
                let none = Slot {
                    node: NONE,
                    value: NO_MATCH,
                };
                let s = *self.table.get(index[i] as usize).unwrap_or(&none);
                out[i] = s.value;
                node[i] = s.node;
                active[walking] = i as u8;
                walking += usize::from(s.node != NONE);
                prefetch(self.nodes.all(), s.node as usize);
            }
            let mut base = self.first;
            // Bound: one turn per level, of which a field has at most 19.
            while walking > 0 && base < self.bits {
                let mut left = 0;
                for a in 0..walking {
                    let i = active[a];
                    let lane = usize::from(i) % STAGE;
                    let Some(n) = self.nodes.get(node[lane] as usize) else {
                        continue;
                    };
                    let bit = 1u64 << k[lane].six(base);
                    let upto = bit | (bit - 1);
                    let rank = (n.runs & upto).count_ones();
                    let value = (n.value + rank).wrapping_sub(1);
                    at[lane] = if n.has & bit != 0 { value } else { at[lane] };
                    let kid = n.kid + (n.kids & (bit - 1)).count_ones();
                    node[lane] = kid;
                    active[left] = i;
                    left += usize::from(n.kids & bit != 0);
                    prefetch(self.nodes.all(), kid as usize);
                    prefetch(self.values.all(), at[lane] as usize);
                }
                walking = left;
                base += STRIDE;
            }
            for (o, at) in out.iter_mut().zip(at) {
                if let Some(v) = self.values.get(at as usize) {
                    *o = *v;
                }
            }
            from += len;
        }
    }
}

/// A left-aligned number, from which bits are taken.
trait Key: Copy + Default {
    /// The first `n` bits, 1 to 31.
    fn top(self, n: u8) -> u32;
    /// Six bits from bit `base` on; zeros where the number ends.
    fn six(self, base: u8) -> u32;
}

impl Key for u64 {
    #[inline(always)]
    fn top(self, n: u8) -> u32 {
        (self >> (64 - u32::from(n))) as u32
    }

    #[inline(always)]
    fn six(self, base: u8) -> u32 {
        ((self << (base & 63)) >> 58) as u32
    }
}

impl Key for u128 {
    #[inline(always)]
    fn top(self, n: u8) -> u32 {
        (self >> (128 - u32::from(n))) as u32
    }

    #[inline(always)]
    fn six(self, base: u8) -> u32 {
        ((self << (base & 127)) >> 122) as u32
    }
}

struct Lookup<'a> {
    trie: &'a PrefixTrie,
    keys: Keys<'a>,
    out: &'a mut [u32],
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<S: Isa>(self, _: S) {
        let (t, keys) = (self.trie, self.keys);
        if keys.word(t.word).is_empty() {
            // keys without the field
            self.out.fill(NO_MATCH);
        } else if t.bits <= 64 {
            t.lookup_narrow(keys, self.out);
        } else {
            t.walk(keys.len(), |i| t.key(keys, i), self.out);
        }
    }
}

impl Classifier for PrefixTrie {
    fn kind(&self) -> Kind {
        Kind::PrefixTrie
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        simd::dispatch(Lookup {
            trie: self,
            keys,
            out,
        });
    }

    fn memory_bytes(&self) -> usize {
        // what changes need is counted, too
        let long = |l: &Vec<(u8, u32)>| l.capacity() * size_of::<(u8, u32)>();
        self.table.capacity() * size_of::<Slot>()
            + self.nodes.memory_bytes()
            + self.values.memory_bytes()
            + self.owner.capacity()
            + self.short.len() * 48
            + self.long.len() * 64
            + self.long.values().map(long).sum::<usize>()
    }

    fn shape(&self) -> String {
        format!(
            "{} prefixes of {} bits, {} KiB of slots, {} KiB of nodes, {} KiB of values",
            self.len,
            self.bits,
            self.table.len() * size_of::<Slot>() / 1024,
            self.nodes.bytes() / 1024,
            self.values.bytes() / 1024
        )
    }
}
