//! What keys the hashes of a flow table.

use super::flowid::FlowId;
use std::hash::{BuildHasher, RandomState};

/// Secret numbers. They are the table's own and no part of the run's seed: nobody who sends packets can know which of them collide, and nothing that can be
/// seen depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed {
    add: [u32; 4],
    /// Odd.
    times: [u64; 2],
}

impl Seed {
    /// Nobody knows which.
    pub fn new() -> Seed {
        let key = || RandomState::new().hash_one(0u64);
        let (a, b) = (key(), key());
        Seed {
            add: [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32],
            times: [key() | 1, key() | 1],
        }
    }

    /// Products of pairs of numbers, each with a secret added, which meet for two keys with a chance of 2^-32 whatever these are
    /// (NH of [UMAC](https://www.rfc-editor.org/rfc/rfc4418#section-5.2.2)); then mixed, so that every bit depends on all. No product is of more than 32 times
    /// 32 bits, or more than the lower half of one: sixteen hashes at once take about as many instructions as three one by one.
    #[inline(always)]
    pub fn hash(&self, [a, b, c, d]: [u32; 4]) -> u32 {
        let pair = |x: u32, y: u32, i: usize| {
            let (x, y) = (x.wrapping_add(self.add[i]), y.wrapping_add(self.add[i + 1]));
            u64::from(x) * u64::from(y)
        };
        let mut h = pair(a, b, 0).wrapping_add(pair(c, d, 2));
        h = (h ^ h >> 32).wrapping_mul(self.times[0]);
        h = (h ^ h >> 32).wrapping_mul(self.times[1]);
        (h >> 32) as u32 ^ h as u32
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
            let seed = Seed::new();
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
