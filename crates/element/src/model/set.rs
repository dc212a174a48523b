//! Sets of unsigned field values: unions of disjoint intervals (SNF's field filter; thesis ch. 7).

use std::fmt;
use std::sync::Arc;

/// A set of unsigned numbers of up to 128 bits: disjoint inclusive intervals, ascending, never adjacent. Cheap to
/// clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueSet(Arc<[(u128, u128)]>);

/// The largest value of `bits` bits (1 to 128).
#[inline]
pub const fn max_of(bits: u8) -> u128 {
    if bits == 0 || bits >= 128 {
        u128::MAX
    } else {
        (1u128 << bits) - 1
    }
}

impl ValueSet {
    /// No value.
    pub fn empty() -> Self {
        ValueSet(Arc::new([]))
    }
    /// Every value of `bits` bits.
    pub fn full(bits: u8) -> Self {
        Self::range(0, max_of(bits))
    }
    /// One value.
    pub fn one(v: u128) -> Self {
        Self::range(v, v)
    }
    /// From `lo` to `hi`, both included; empty if `lo > hi`.
    pub fn range(lo: u128, hi: u128) -> Self {
        if lo > hi {
            return Self::empty();
        }
        ValueSet(Arc::new([(lo, hi)]))
    }
    /// The values of `bits` bits whose `len` leading bits are those of `value`.
    pub fn prefix(value: u128, len: u8, bits: u8) -> Self {
        let host = max_of(bits).checked_shr(u32::from(len)).unwrap_or(0);
        let host = if len >= bits { 0 } else { host };
        Self::range(value & !host & max_of(bits), (value | host) & max_of(bits))
    }
    /// From intervals in any order, overlapping or not; those with `lo > hi` count for nothing.
    pub fn from_intervals(it: impl IntoIterator<Item = (u128, u128)>) -> Self {
        let mut v: Vec<(u128, u128)> = it.into_iter().filter(|(l, h)| l <= h).collect();
        v.sort_unstable();
        let mut out: Vec<(u128, u128)> = Vec::with_capacity(v.len());
        for (l, h) in v {
            match out.last_mut() {
                Some(last) if l <= last.1.saturating_add(1) => last.1 = last.1.max(h),
                _ => out.push((l, h)),
            }
        }
        ValueSet(out.into())
    }
    /// The values `v` of `bits` bits with `v & mask == value`. `None` when that takes more than `limit` intervals.
    pub fn masked(mask: u128, value: u128, bits: u8, limit: usize) -> Option<Self> {
        let all = max_of(bits);
        let (mask, value) = (mask & all, value);
        if value & !mask != 0 {
            return Some(Self::empty());
        }
        let free = all & !mask;
        // the lowest run of free bits makes one interval; every free bit above doubles their number
        let low = free.trailing_ones();
        let low_mask = if low >= 128 {
            u128::MAX
        } else {
            (1u128 << low) - 1
        };
        let high_free = free & !low_mask;
        let n = high_free.count_ones();
        if n >= 32 || 1usize << n > limit {
            return None;
        }
        let mut v = Vec::with_capacity(1 << n);
        let mut bits_set = 0u128;
        loop {
            let base = value | bits_set;
            v.push((base, base | low_mask));
            // the next subset of the free bits above
            bits_set = (bits_set | !high_free).wrapping_add(1) & high_free;
            if bits_set == 0 {
                break;
            }
        }
        Some(Self::from_intervals(v))
    }

    /// The intervals, ascending.
    pub fn intervals(&self) -> &[(u128, u128)] {
        &self.0
    }
    /// Has it no value?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The only value, if there is exactly one.
    pub fn single(&self) -> Option<u128> {
        match *self.0 {
            [(l, h)] if l == h => Some(l),
            _ => None,
        }
    }
    /// Does it have every value of `bits` bits?
    pub fn is_full(&self, bits: u8) -> bool {
        matches!(*self.0, [(0, h)] if h >= max_of(bits))
    }
    /// Is `v` in it?
    pub fn contains(&self, v: u128) -> bool {
        let i = self.0.partition_point(|(_, h)| *h < v);
        self.0.get(i).is_some_and(|(l, _)| *l <= v)
    }
    /// Values in both.
    pub fn intersect(&self, o: &ValueSet) -> ValueSet {
        if Arc::ptr_eq(&self.0, &o.0) {
            return self.clone();
        }
        let (a, b) = (&self.0, &o.0);
        if let ([(al, ah)], [(bl, bh)]) = (&a[..], &b[..]) {
            if al >= bl && ah <= bh {
                return self.clone();
            }
            if bl >= al && bh <= ah {
                return o.clone();
            }
            return Self::range(*al.max(bl), *ah.min(bh));
        }
        let (mut i, mut j) = (0, 0);
        let mut out = Vec::new();
        while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
            let (l, h) = (x.0.max(y.0), x.1.min(y.1));
            if l <= h {
                out.push((l, h));
            }
            if x.1 < y.1 { i += 1 } else { j += 1 }
        }
        ValueSet(out.into())
    }
    /// Values in one of them.
    pub fn union(&self, o: &ValueSet) -> ValueSet {
        Self::from_intervals(self.0.iter().chain(o.0.iter()).copied())
    }
    /// The values of `bits` bits that are not in it.
    pub fn complement(&self, bits: u8) -> ValueSet {
        let max = max_of(bits);
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0u128);
        for (l, h) in self.0.iter() {
            if let Some(n) = next
                && *l > n
            {
                out.push((n, (*l - 1).min(max)));
            }
            next = h.checked_add(1).filter(|n| *n <= max);
        }
        if let Some(n) = next
            && n <= max
        {
            out.push((n, max));
        }
        Self::from_intervals(out)
    }
    /// Values of this that are not in `o`.
    pub fn minus(&self, o: &ValueSet, bits: u8) -> ValueSet {
        self.intersect(&o.complement(bits))
    }
    /// Is every value of this in `o`?
    pub fn is_subset(&self, o: &ValueSet) -> bool {
        self.0.iter().all(|(l, h)| {
            let i = o.0.partition_point(|(_, oh)| *oh < *l);
            o.0.get(i).is_some_and(|(ol, oh)| ol <= l && h <= oh)
        })
    }
    /// Have they no value in common?
    pub fn is_disjoint(&self, o: &ValueSet) -> bool {
        let (few, many) = match self.0.len() <= o.0.len() {
            true => (&self.0, &o.0),
            false => (&o.0, &self.0),
        };
        if let [(l, h)] = few[..] {
            let i = many.partition_point(|(_, oh)| *oh < l);
            return many.get(i).is_none_or(|(ol, _)| *ol > h);
        }
        let (mut i, mut j) = (0, 0);
        while let (Some(x), Some(y)) = (few.get(i), many.get(j)) {
            if x.0 <= y.1 && y.0 <= x.1 {
                return false;
            }
            if x.1 < y.1 { i += 1 } else { j += 1 }
        }
        true
    }
    /// The values `v` of `bits` bits for which `v + delta` (modulo `2^bits`) is in this: the pre-image of an addition.
    pub fn shifted_back(&self, delta: u128, bits: u8) -> ValueSet {
        let max = max_of(bits);
        let sub = |v: u128| v.wrapping_sub(delta) & max;
        let mut out = Vec::with_capacity(self.0.len() + 1);
        for (l, h) in self.0.iter().filter(|(l, _)| *l <= max) {
            let (a, b) = (sub(*l), sub((*h).min(max)));
            if a <= b && (*h).min(max) - *l == b - a {
                out.push((a, b));
            } else {
                out.push((a, max));
                out.push((0, b));
            }
        }
        Self::from_intervals(out)
    }
    /// The number of values; `None` when it is `2^128`.
    pub fn count(&self) -> Option<u128> {
        let mut n = 0u128;
        for (l, h) in self.0.iter() {
            n = n.checked_add((h - l).checked_add(1)?)?;
        }
        Some(n)
    }
}

impl fmt::Debug for ValueSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `{1, 5-9}`; a single value or interval stands without braces.
impl fmt::Display for ValueSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let braces = self.0.len() != 1;
        if braces {
            f.write_str("{")?;
        }
        for (i, (l, h)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            if l == h {
                write!(f, "{l}")?;
            } else {
                write!(f, "{l}-{h}")?;
            }
        }
        if braces {
            f.write_str("}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute(s: &ValueSet) -> Vec<u128> {
        (0..256).filter(|v| s.contains(*v)).collect()
    }

    fn any_set() -> impl Strategy<Value = ValueSet> {
        proptest::collection::vec((0u128..256, 0u128..40), 0..6).prop_map(|v| {
            ValueSet::from_intervals(v.into_iter().map(|(l, n)| (l, (l + n).min(255))))
        })
    }

    proptest! {
        #[test]
        fn algebra(a in any_set(), b in any_set(), d in 0u128..256) {
            let (x, y) = (brute(&a), brute(&b));
            let both: Vec<_> = x.iter().copied().filter(|v| y.contains(v)).collect();
            prop_assert_eq!(brute(&a.intersect(&b)), both.clone());
            prop_assert_eq!(a.is_disjoint(&b), both.is_empty());
            prop_assert_eq!(a.is_subset(&b), x.iter().all(|v| y.contains(v)));
            let not: Vec<_> = (0..256).filter(|v| !x.contains(v)).collect();
            prop_assert_eq!(brute(&a.complement(8)), not);
            prop_assert_eq!(brute(&a.minus(&b, 8)), x.iter().copied().filter(|v| !y.contains(v)).collect::<Vec<_>>());
            prop_assert_eq!(brute(&a.union(&b)), (0..256).filter(|v| x.contains(v) || y.contains(v)).collect::<Vec<_>>());
            let back: Vec<_> = (0..256).filter(|v| x.contains(&((v + d) & 255))).collect();
            prop_assert_eq!(brute(&a.shifted_back(d, 8)), back);
            prop_assert_eq!(a.count(), Some(x.len() as u128));
        }
        #[test]
        fn masks(mask in 0u128..256, value in 0u128..256) {
            let s = ValueSet::masked(mask, value & mask, 8, 256).unwrap();
            prop_assert_eq!(brute(&s), (0..256).filter(|v| v & mask == value & mask).collect::<Vec<_>>());
        }
    }

    #[test]
    fn edges() {
        assert!(ValueSet::full(128).is_full(128));
        assert!(ValueSet::full(128).complement(128).is_empty());
        assert_eq!(ValueSet::empty().complement(128), ValueSet::full(128));
        assert_eq!(
            ValueSet::prefix(0x0a00_0000, 8, 32),
            ValueSet::range(0x0a00_0000, 0x0aff_ffff)
        );
        assert_eq!(ValueSet::prefix(5, 0, 32), ValueSet::full(32));
        assert_eq!(ValueSet::prefix(5, 32, 32), ValueSet::one(5));
        assert_eq!(ValueSet::masked(0, 0, 32, 1), Some(ValueSet::full(32)));
        assert_eq!(ValueSet::masked(0xaaaa_aaaa, 0, 32, 16), None);
        assert_eq!(ValueSet::one(7).single(), Some(7));
        assert_eq!(ValueSet::full(128).count(), None);
    }
}
