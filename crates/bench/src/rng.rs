//! Random numbers that stay the same for a seed: for ever, on every machine.
//!
//! The generators of the `rand` crate may change their sequences between releases, and a capture that a test or a
//! paper refers to by its seed must not. This is xoshiro256++ (Blackman and Vigna, public domain), seeded by
//! SplitMix64.

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

/// One step of SplitMix64: a good mixture of the bits of `x`.
pub(crate) fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            let value = mix(x);
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            value
        };
        Self {
            s: [next(), next(), next(), next()],
        }
    }

    /// An independent sequence of the same seed, told apart by `purpose`.
    pub fn stream(seed: u64, purpose: u64) -> Self {
        Self::new(mix(seed ^ mix(purpose)))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..n`; 0 if `n` is 0. The bias of at most n / 2^64 is below anything that a test can see.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `lo..=hi`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        match hi.saturating_sub(lo).checked_add(1) {
            Some(n) => lo + self.below(n),
            None => self.bits(),
        }
    }

    /// Uniform in `lo..=hi`.
    pub fn between_u128(&mut self, lo: u128, hi: u128) -> u128 {
        let span = hi.saturating_sub(lo);
        if let Ok(span) = u64::try_from(span) {
            return lo + u128::from(self.between(0, span));
        }
        let bits = u128::from(self.bits()) << 64 | u128::from(self.bits());
        match span.checked_add(1) {
            // The bias is below 2^-64 where the span is below 2^64, and at most a factor of two for
            // spans close to 2^128, which no prefix shorter than /1 has.
            Some(n) => lo + bits % n,
            None => bits,
        }
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// A uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// One of the items; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }

    /// The index of one of the weights, with probability proportional to it; 0 if all are zero.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let total: f64 = weights.clone().sum();
        let mut at = self.unit() * total;
        let mut last = 0;
        for (i, w) in weights.enumerate() {
            if w > 0.0 {
                last = i;
                if at < w {
                    return i;
                }
                at -= w;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_reference_vector() {
        let mut r = Rng { s: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| r.bits()).collect();
        assert_eq!(
            first,
            [41943041, 58720359, 3588806011781223, 3591011842654386]
        );
    }

    #[test]
    fn ranges_are_uniform_and_closed() {
        let mut r = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[(r.between(5, 14) - 5) as usize] += 1;
        }
        // The standard deviation is 95.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 500), "{seen:?}");
        assert_eq!(r.between(3, 3), 3);
        assert_eq!(r.between_u128(u128::MAX, u128::MAX), u128::MAX);
        r.between(0, u64::MAX);
        r.between_u128(0, u128::MAX);
        let weighted = (0..10_000)
            .filter(|_| r.weighted([0.0, 3.0, 0.0, 1.0].into_iter()) == 1)
            .count();
        assert!(weighted.abs_diff(7_500) < 250, "{weighted}");
    }

    #[test]
    fn a_seed_is_a_sequence() {
        let take = |mut r: Rng| (0..8).map(|_| r.bits()).collect::<Vec<_>>();
        assert_eq!(take(Rng::new(1)), take(Rng::new(1)));
        assert_ne!(take(Rng::new(1)), take(Rng::new(2)));
        assert_ne!(take(Rng::stream(1, 0)), take(Rng::stream(1, 1)));
    }
}
