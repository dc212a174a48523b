//! Filters of a list, by number, as bits.

/// Sixty-four of them a word.
pub type Bits = Vec<u64>;

/// Bits for the first `n`.
pub fn some(n: usize) -> Bits {
    let mut all = vec![u64::MAX; n.div_ceil(64)];
    if let Some(w) = all.last_mut()
        && !n.is_multiple_of(64)
    {
        *w = (1 << (n % 64)) - 1;
    }
    all
}

/// Sets a bit.
pub fn set_bit(bits: &mut Bits, i: usize) {
    if let Some(w) = bits.get_mut(i / 64) {
        *w |= 1 << (i % 64);
    }
}

/// Takes a bit away.
pub fn clear_bit(bits: &mut Bits, i: usize) {
    if let Some(w) = bits.get_mut(i / 64) {
        *w &= !(1 << (i % 64));
    }
}

/// Is a bit set?
pub fn has(bits: &Bits, i: usize) -> bool {
    bits.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
}

/// Takes all bits away that are not in `of`.
pub fn keep(bits: &mut Bits, of: &Bits) {
    for (i, w) in bits.iter_mut().enumerate() {
        *w &= of.get(i).copied().unwrap_or(0);
    }
}

/// The numbers of the bits that are set, ascending.
pub fn ones(bits: &Bits) -> impl Iterator<Item = usize> + '_ {
    bits.iter().enumerate().flat_map(|(w, bits)| {
        let mut rest = *bits;
        std::iter::from_fn(move || {
            let i = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                w * 64 + i
            })
        })
    })
}
