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
