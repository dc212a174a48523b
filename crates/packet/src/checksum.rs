//! The Internet checksum: computed (RFC 1071) and updated incrementally (RFC 1624).
//!
//! All values are the 16-bit field as it stands in the packet, read big-endian.

/// Adds the 16-bit big-endian words of `data` to a running sum; an odd last byte is padded with zero.
///
/// Eight bytes at a time, in the processor's order and with the carry of one step added in the next: a sum of words
/// whose bytes are exchanged is the sum with its bytes exchanged (RFC 1071). What stands behind the last eight bytes
/// is read with some of them.
#[inline]
pub fn sum(data: &[u8], acc: u64) -> u64 {
    let (chunks, rest) = data.as_chunks::<8>();
    let mut s = 0u64;
    for c in chunks {
        s = plus(s, u64::from_le_bytes(*c));
    }
    if !rest.is_empty() {
        let last = match data.last_chunk::<8>() {
            Some(c) => u64::from_le_bytes(*c) >> (64 - 8 * (rest.len() as u32 % 8)),
            None => {
                let of = |v, b: &u8| v << 8 | u64::from(*b);
                rest.iter().rev().fold(0, of)
            }
        };
        s = plus(s, last);
    }
    acc + u64::from(fold(s).swap_bytes())
}

/// The sum in one's complement.
#[inline(always)]
fn plus(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Folds a running sum to 16 bits (not complemented).
#[inline]
pub fn fold(mut acc: u64) -> u16 {
    acc = (acc >> 32) + (acc & 0xffff_ffff);
    acc = (acc >> 16) + (acc & 0xffff);
    acc = (acc >> 16) + (acc & 0xffff);
    acc = (acc >> 16) + (acc & 0xffff);
    acc as u16
}

/// [`fold`] of a sum of few numbers.
#[inline(always)]
pub fn fold_few(acc: u32) -> u16 {
    let acc = (acc >> 16) + (acc & 0xffff);
    ((acc >> 16) + acc) as u16
}

/// The checksum field's value for `data` (whose own checksum field is zero); 0 over data that holds a right one.
pub fn internet(data: &[u8]) -> u16 {
    !fold(sum(data, 0))
}

/// Is the checksum of an IPv4 header without options right? The same as `internet(h) == 0`: a sum is all ones whichever
/// way round its bytes are added.
#[inline]
pub fn header_ok(h: &[u8; 20]) -> bool {
    // Five numbers of 32 bits: a sum of 16-bit words is all ones or nothing if and only if this one is a multiple of
    // 65,535. The quotient by an odd number is a product with its inverse; what is no multiple comes out above every
    // quotient.
    const INVERSE: u64 = {
        // each step doubles the bits that are right; 3 at first
        let mut x: u64 = 0xffff;
        let mut i = 0;
        while i < 5 {
            x = x.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(0xffff)));
            i += 1;
        }
        x
    };
    let mut sum = 0u64;
    for b in h.as_chunks::<4>().0 {
        sum += u64::from(u32::from_ne_bytes(*b));
    }
    sum != 0 && sum.wrapping_mul(INVERSE) <= u64::MAX / 0xffff
}

/// The IPv4 pseudo-header's sum: addresses, protocol, transport length.
pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> u64 {
    sum(&src, sum(&dst, u64::from(proto) + u64::from(len)))
}

/// The IPv6 pseudo-header's sum (RFC 8200 section 8.1).
pub fn pseudo_v6(src: &[u8; 16], dst: &[u8; 16], next: u8, len: u32) -> u64 {
    sum(src, sum(dst, u64::from(next) + u64::from(len)))
}

/// RFC 1624 equation 3: the checksum `hc` after one 16-bit word changed from `old` to `new`: HC' = ~(~HC + ~m + m').
pub fn update(hc: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!hc) + u64::from(!old) + u64::from(new))
}

/// [`update`] for a 32-bit value.
pub fn update32(hc: u16, old: u32, new: u32) -> u16 {
    let o = !old;
    !fold(
        u64::from(!hc)
            + u64::from(o >> 16)
            + u64::from(o & 0xffff)
            + u64::from(new >> 16)
            + u64::from(new & 0xffff),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of RFC 1624 section 4: 0xDD2F, 0x5555 -> 0x3285 gives 0x0000.
    #[test]
    fn rfc1624_example() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn matches_definition_for_every_length() {
        let data: Vec<u8> = (0..67u8).map(|i| i.wrapping_mul(37) ^ 0xa5).collect();
        for n in 0..data.len() {
            let mut acc = 0u32;
            for c in data[..n].chunks(2) {
                acc += u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0));
            }
            while acc >> 16 != 0 {
                acc = (acc >> 16) + (acc & 0xffff);
            }
            assert_eq!(internet(&data[..n]), !(acc as u16), "length {n}");
        }
    }

    /// Where carries run far, and of nothing but zeros, which alone come to zero.
    #[test]
    fn sums_of_all_ones_and_zeros() {
        for n in 0..80 {
            for (byte, more) in [(0xff, 0), (0xff, 1), (0, 0), (0, 0xffff), (0xff, 0xfffe)] {
                let data = vec![byte; n];
                let mut want = more;
                for c in data.chunks(2) {
                    want += u64::from(c[0]) << 8 | u64::from(*c.get(1).unwrap_or(&0));
                }
                assert_eq!(fold(sum(&data, more)), fold(want), "{n} {byte} {more}");
            }
        }
    }

    #[test]
    fn few_numbers_fold_alike() {
        for acc in [
            0,
            1,
            0xffff,
            0x1_0000,
            0x1_ffff,
            0xffff_0000,
            u32::MAX,
            0xfffe_0001,
        ] {
            assert_eq!(fold_few(acc), fold(acc.into()), "{acc:x}");
        }
        let mut x = 1u32;
        for _ in 0..100_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            assert_eq!(fold_few(x), fold(x.into()), "{x:x}");
        }
    }

    #[test]
    fn header_ok_is_the_definition() {
        let mut x = 1u64;
        let mut step = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) as u32
        };
        assert!(!header_ok(&[0; 20]));
        assert!(header_ok(&[0xff; 20]));
        for round in 0..20_000 {
            // also many bytes of all ones and of zeros, where carries run far
            let mut h = [0u8; 20];
            for b in &mut h {
                *b = match round % 3 {
                    0 => step() as u8,
                    1 => [0, 0xff][step() as usize & 1],
                    _ => [0, 0xff, 0xfe, 1][step() as usize & 3],
                };
            }
            assert_eq!(header_ok(&h), internet(&h) == 0, "{h:?}");
            h[10..12].fill(0);
            let sum = internet(&h);
            h[10..12].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(header_ok(&h), internet(&h) == 0, "{h:?}");
            h[step() as usize % 20] ^= 1;
            assert_eq!(header_ok(&h), internet(&h) == 0, "{h:?}");
        }
    }

    #[test]
    fn incremental_equals_recomputed() {
        let mut d = [
            0x45, 0, 0, 40, 0x12, 0x34, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let c = internet(&d);
        let old = u32::from_be_bytes([d[12], d[13], d[14], d[15]]);
        d[12..16].copy_from_slice(&[192, 168, 7, 9]);
        let new = u32::from_be_bytes([192, 168, 7, 9]);
        assert_eq!(update32(c, old, new), internet(&d));
    }
}
