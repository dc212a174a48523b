//! Keys drawn from rules.

use crate::{KeyBuf, Table};

/// At most `n` keys, each anywhere within the hull of an entry; all entries alike, in no order.
pub(crate) fn drawn(table: &Table, n: usize) -> KeyBuf {
    let mut keys = KeyBuf::new(table.layout(), n);
    if table.is_empty() {
        return keys;
    }
    let bits = table.layout().word_bits();
    let mut x = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        x = (x.wrapping_mul(0x5851_f42d_4c95_7f2d)).wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 32) ^ (x >> 59)
    };
    let mut key = Vec::with_capacity(bits.len());
    for _ in 0..n {
        let e = (next() * table.len() as u64) >> 32;
        key.clear();
        for (t, bits) in table.row(e as usize).iter().zip(bits) {
            let r = next() as u32;
            key.push(match t.is_mask() {
                true => t.lo | r & !t.mask & crate::layout::word_max(*bits),
                false => t.lo + ((u64::from(r) * (u64::from(t.span) + 1)) >> 32) as u32,
            });
        }
        keys.push_words(&key);
    }
    keys
}
