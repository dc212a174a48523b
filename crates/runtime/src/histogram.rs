//! Counts of durations, with a bound on memory and on the relative error.
//!
//! Buckets are 64 to each power of two: a value is known to 1 part in 64 (1.6%), whatever its size is. Values from 2^40
//! nanoseconds (18 minutes) on are counted as the longest.

use serde::Serialize;

/// Bits that are kept of a value.
const BITS: u32 = 6;
/// Buckets for each power of two.
const SUB: u64 = 1 << BITS;
/// Values have fewer bits.
const LONGEST: u32 = 40;
/// Buckets in all.
const BUCKETS: usize = ((LONGEST - BITS + 1) as usize) << BITS;

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into(),
            total: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

/// The bucket of a value.
fn bucket(v: u64) -> usize {
    let v = v.min((1 << LONGEST) - 1);
    // of values below 2 * SUB each has its own
    let shift = (64 - v.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (v >> shift)) as usize
}

/// The greatest value of a bucket.
fn greatest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match bucket < 2 * SUB {
        true => bucket,
        false => {
            let shift = (bucket >> BITS) - 1;
            (((bucket & (SUB - 1)) + SUB + 1) << shift) - 1
        }
    }
}

impl Histogram {
    /// One more value, in nanoseconds.
    #[inline]
    pub fn record(&mut self, v: u64) {
        self.record_many(v, 1);
    }

    /// The same value so many times.
    #[inline]
    pub fn record_many(&mut self, v: u64, times: u64) {
        if times == 0 {
            return;
        }
        if let Some(c) = self.counts.get_mut(bucket(v)) {
            *c += times;
        }
        self.total += times;
        self.sum += u128::from(v) * u128::from(times);
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    /// All values of another one, too.
    pub fn add(&mut self, other: &Histogram) {
        for (c, o) in self.counts.iter_mut().zip(&other.counts) {
            *c += o;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Values.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// None yet.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The value that this share (0 to 1) of all values does not exceed, to 1.6% above; `None` without values.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        for (b, n) in self.counts.iter().enumerate() {
            passed += n;
            if passed >= rank {
                return Some(greatest(b).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// Buckets with values in them, from the shortest to the longest: the greatest value of each, and how many it has.
    /// What is counted twice of one histogram can be told apart by their difference.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        all.map(|(b, n)| (greatest(b), *n))
    }

    /// What is told of it; `None` without values.
    pub fn told(&self) -> Option<Percentiles> {
        let p = |share| self.percentile(share);
        Some(Percentiles {
            min: self.min,
            p50: p(0.5)?,
            p90: p(0.9)?,
            p99: p(0.99)?,
            p999: p(0.999)?,
            max: self.max,
            mean: self.sum as f64 / self.total as f64,
        })
    }
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// The least value.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// 90%.
    pub p90: u64,
    /// 99%.
    pub p99: u64,
    /// 99.9%.
    pub p999: u64,
    /// The greatest value.
    pub max: u64,
    /// The arithmetic mean.
    pub mean: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that looks like chance (SplitMix64's finish).
    fn mix(n: u64) -> u64 {
        let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    #[test]
    fn the_same_value_many_times_is_as_often_as_it_is_said() {
        let (mut once, mut many) = (Histogram::default(), Histogram::default());
        (0..5).for_each(|_| once.record(700));
        once.record(9);
        many.record_many(700, 5);
        many.record_many(9, 1);
        many.record_many(1, 0);
        assert_eq!(once.told(), many.told());
        assert_eq!((many.len(), many.percentile(0.0)), (6, Some(9)));
    }

    #[test]
    fn every_value_is_in_a_bucket_that_is_no_wider_than_said() {
        let mut values: Vec<u64> = (0..5000).collect();
        for shift in 0..64 {
            for d in [-1i64, 0, 1] {
                values.push((1u64 << shift).wrapping_add_signed(d));
            }
        }
        for v in values {
            let b = bucket(v);
            assert!(b < BUCKETS, "{v}");
            let (lo, hi) = (b.checked_sub(1).map_or(0, |b| greatest(b) + 1), greatest(b));
            if v < 1 << LONGEST {
                assert!((lo..=hi).contains(&v), "{v}: {lo} to {hi}");
                assert!((hi - lo) as f64 <= v as f64 / 64.0, "{v}: {lo} to {hi}");
            } else {
                assert_eq!(b, BUCKETS - 1);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut h = Histogram::default();
        assert_eq!((h.told(), h.percentile(0.5)), (None, None));
        let mut values: Vec<u64> = (0..10_000u64).map(|i| mix(i) % (1 << (i % 35))).collect();
        values.iter().for_each(|v| h.record(*v));
        values.sort_unstable();
        for share in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            let rank = ((share * 10_000.0f64).ceil() as usize).max(1);
            let (right, got) = (values[rank - 1], h.percentile(share).unwrap());
            assert!(got >= right && (got - right) as f64 <= right as f64 / 64.0 + 1.0);
        }
        let told = h.told().unwrap();
        assert_eq!(told.max, values[9_999]);
        assert_eq!(told.min, values[0]);
        let mean = values.iter().sum::<u64>() as f64 / 10_000.0;
        assert!((told.mean - mean).abs() < 1.0);
    }

    #[test]
    fn two_together_are_as_one() {
        let (mut a, mut b, mut both) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for v in 0..1000 {
            match v % 3 {
                0 => a.record(v * v),
                _ => b.record(v * v),
            }
            both.record(v * v);
        }
        a.add(&b);
        assert_eq!((a.told(), a.len()), (both.told(), 1000));
    }
}
