//! Random numbers that stay the same for a seed, so that a difference can be found again.

use onefold_element::model::ValueSet;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed ^ 0x5851_f42d_4c95_7f2d)
    }
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Uniform in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }
    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// One of them; `None` of nothing.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
    /// 128 random bits.
    pub fn wide(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }
    /// A value of a set, each interval as likely as another; 0 of an empty set.
    pub fn value_of(&mut self, set: &ValueSet) -> u128 {
        let Some((lo, hi)) = self.pick(set.intervals()).copied() else {
            return 0;
        };
        match (hi - lo).checked_add(1) {
            Some(n) => lo + self.wide() % n,
            None => self.wide(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_set_and_repeat_for_a_seed() {
        let set = ValueSet::from_intervals([(3, 5), (9, 9), (100, 200)]);
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let v = a.value_of(&set);
            assert_eq!(v, b.value_of(&set));
            assert!(set.contains(v));
            seen.insert(v);
        }
        assert!(seen.contains(&9) && seen.contains(&3) && seen.len() > 50);
        assert!(ValueSet::full(128).contains(a.value_of(&ValueSet::full(128))));
    }
}
