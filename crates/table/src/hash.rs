//! A hash that is keyed: nobody who sends packets can know which of them collide.

/// Hash of two words, four numbers: products of pairs of them, each with a secret added, which meet for two keys with a
/// chance of 2^-32 whatever these are (NH of [UMAC](https://www.rfc-editor.org/rfc/rfc4418#section-5.2.2)); then mixed,
/// so that every bit depends on all. The secrets' last two words are odd.
///
/// No product is of more than 32 times 32 bits, or more than the lower half of one: sixteen of them in vectors take
/// about as many instructions as a few one by one.
#[inline(always)]
pub fn hash_words(s: &[u64; 4], a: u64, b: u64) -> u64 {
    let pair = |x: u64, s: u64| {
        let low = (x as u32).wrapping_add(s as u32);
        let high = ((x >> 32) as u32).wrapping_add((s >> 32) as u32);
        u64::from(low) * u64::from(high)
    };
    let mut h = pair(a, s[0]).wrapping_add(pair(b, s[1]));
    h = (h ^ h >> 32).wrapping_mul(s[2]);
    h = (h ^ h >> 32).wrapping_mul(s[3]);
    h ^ h >> 32
}
