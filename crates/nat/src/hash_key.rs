//! The secret key of a flow table's hashes.

use crate::flow_id::FlowId;
use onefold_table::hash_words;
use std::hash::{BuildHasher, RandomState};

/// Secret numbers. They are the table's own and no part of the run's seed: nobody who sends packets can know which of
/// them collide, and nothing that can be seen depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashKey([u64; 4]);

impl HashKey {
    /// From the system's random numbers.
    pub fn new() -> HashKey {
        let key = || RandomState::new().hash_one(0u64);
        HashKey([key(), key(), key() | 1, key() | 1])
    }

    /// Of four numbers; see [`hash_words`].
    #[inline(always)]
    pub fn hash(&self, [a, b, c, d]: [u32; 4]) -> u32 {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        hash_words(&self.0, word(a, b), word(c, d)) as u32
    }

    /// Of a flow in a map.
    #[inline(always)]
    pub fn of(&self, map: u16, k: &FlowId) -> u32 {
        self.hash([k.saddr, k.daddr, k.ports(), map.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of flows that differ in little, as an attacker's or a scanner's do, no bucket gets many.
    #[test]
    fn neighbours_are_spread() {
        for (what, step) in [
            ("address", [1, 0, 0]),
            ("other", [0, 256, 0]),
            ("port", [0, 0, 0x1_0000]),
            ("both", [3, 1 << 16, 1]),
        ] {
            let seed = HashKey::new();
            let mut buckets = vec![0u32; 1 << 12];
            let mut tags = vec![0u32; 1 << 12];
            for n in 0..1u32 << 14 {
                let [a, b, c] = step.map(|s: u32| s.wrapping_mul(n));
                let address = |from: u32, n| from.wrapping_add(n);
                let h = seed.hash([address(0x0a00_0000, a), address(0xc0a8_0000, b), c, 1]);
                buckets[h as usize & 0xfff] += 1;
                tags[h as usize >> 20] += 1;
            }
            // four on average; more than thirty of a random function come once in ten to the fourteenth
            for n in buckets.iter().chain(&tags) {
                assert!(*n < 31, "{what}: {n}");
            }
        }
    }
}
