//! What a hash says: a tag, and one of so many places.

/// What a bucket says of an entry with this hash.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u16 {
    ((hash >> 48) as u16 & !1).max(2)
}

/// 32 bits as one of so many.
#[inline(always)]
pub(crate) fn scaled(bits: u32, of: u32) -> u32 {
    ((u64::from(bits) * u64::from(of)) >> 32) as u32
}

/// Pairs of 32-bit numbers that a long key has more than a short one.
pub(crate) const MORE: usize = 3;

/// What hashes are computed with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secrets {
    /// Of [`onefold_table::hash_words`].
    pub short: [u64; 4],
    /// What is added to the further words of long keys.
    pub more: [u64; MORE],
}

impl Secrets {
    /// Hash of a key of five words: sums of products, as [`onefold_table::hash_words`] has them of two. Two different
    /// keys have the same sum with a chance of 2^-32, whatever they are (NH, of UMAC: RFC 4418 5.2).
    #[inline(always)]
    pub fn hash_long(&self, key: &[u64; 2 + MORE]) -> u64 {
        let pair = |x: u64, s: u64| {
            let low = (x as u32).wrapping_add(s as u32);
            let high = ((x >> 32) as u32).wrapping_add((s >> 32) as u32);
            u64::from(low) * u64::from(high)
        };
        let [a, b, more @ ..] = key;
        let [p, q, mix @ ..] = self.short;
        let mut h = pair(*a, p).wrapping_add(pair(*b, q));
        for (x, s) in more.iter().zip(self.more) {
            h = h.wrapping_add(pair(*x, s));
        }
        for s in mix {
            h = (h ^ h >> 32).wrapping_mul(s);
        }
        h ^ h >> 32
    }
}
