//! Numbers whose bits are functions: most significant bit first.

use super::dd::{Dd, NO, Ref, YES};
use onefold_element::model::{ValueSet, max_of};

/// A number that is known.
pub fn constant(v: u128, bits: u8) -> Vec<Ref> {
    (0..bits)
        .rev()
        .map(|i| if v >> i & 1 == 1 { YES } else { NO })
        .collect()
}

/// The low bits of a number, with zeros in front where it has fewer.
pub fn resize(v: &[Ref], bits: u8) -> Vec<Ref> {
    let n = usize::from(bits);
    let mut out = vec![NO; n.saturating_sub(v.len())];
    out.extend_from_slice(v.get(v.len().saturating_sub(n)..).unwrap_or(v));
    out
}

/// Plus a number, modulo two to its width.
pub fn plus(dd: &mut Dd, v: &[Ref], n: u128) -> Vec<Ref> {
    if n & max_of(v.len().min(128) as u8) == 0 {
        return v.to_vec();
    }
    let mut out = v.to_vec();
    let mut carry = NO;
    for (i, b) in out.iter_mut().rev().enumerate() {
        let x = *b;
        let add = i < 128 && n >> i & 1 == 1;
        let half = dd.xor(x, carry);
        *b = if add { dd.not(half) } else { half };
        carry = match add {
            true => dd.or(x, carry),
            false => dd.and(x, carry),
        };
    }
    out
}

/// Is the number in the set?
pub fn is_in(dd: &mut Dd, v: &[Ref], set: &ValueSet) -> Ref {
    let bits = v.len().min(128);
    let v = v.get(v.len() - bits..).unwrap_or(v);
    within(dd, v, 0, set.intervals())
}

/// The numbers that begin with the bits in front of `v` lie from `base` on.
fn within(dd: &mut Dd, v: &[Ref], base: u128, set: &[(u128, u128)]) -> Ref {
    let last = base | max_of_0(v.len());
    // intervals that reach into base..=last
    let from = set.partition_point(|(_, h)| *h < base);
    let to = set.partition_point(|(l, _)| *l <= last);
    let set = match set.get(from..to) {
        None | Some([]) => return NO,
        Some(s) => s,
    };
    if let [(l, h)] = set
        && *l <= base
        && *h >= last
    {
        return YES;
    }
    let Some((first, rest)) = v.split_first() else {
        return YES;
    };
    let half = 1u128 << (v.len() - 1);
    let lo = match *first {
        YES => NO,
        _ => within(dd, rest, base, set),
    };
    let hi = match *first {
        NO => NO,
        _ => within(dd, rest, base | half, set),
    };
    dd.ite(*first, hi, lo)
}

fn max_of_0(bits: usize) -> u128 {
    match bits {
        0 => 0,
        n => max_of(n.min(128) as u8),
    }
}

/// Are these bits (under the mask) that number?
pub fn masked(dd: &mut Dd, v: &[Ref], mask: u128, value: u128) -> Ref {
    let mut r = YES;
    for (i, b) in v.iter().rev().enumerate() {
        if i < 128 && mask >> i & 1 == 1 {
            let lit = match value >> i & 1 == 1 {
                true => *b,
                false => dd.not(*b),
            };
            r = dd.and(r, lit);
        } else if i < 128 && value >> i & 1 == 1 {
            return NO;
        }
    }
    r
}

/// Where two numbers of the same width differ.
pub fn differ(dd: &mut Dd, a: &[Ref], b: &[Ref]) -> Ref {
    let mut r = NO;
    for (x, y) in a.iter().zip(b) {
        if x != y {
            let d = dd.xor(*x, *y);
            r = dd.or(r, d);
        }
    }
    r
}

/// The packet type of a destination address of 48 bits, as a device sees it.
pub fn packet_type(dd: &mut Dd, dst: &[Ref], device: Option<[u8; 6]>) -> Vec<Ref> {
    let group = dst.get(7).copied().unwrap_or(NO);
    let broadcast = dd.all(dst.iter().copied());
    let other = match device {
        None => NO,
        Some(d) => {
            let own = d.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
            let same = masked(dd, dst, max_of(48), own);
            dd.not(same)
        }
    };
    // broadcast 1, multicast 2, another host 3, else 0
    let not_broadcast = dd.not(broadcast);
    let multicast = dd.and(group, not_broadcast);
    let not_group = dd.not(group);
    let other = dd.and(other, not_group);
    let high = dd.or(multicast, other);
    let low = dd.or(broadcast, other);
    let mut out = vec![NO; 8];
    out[6] = high;
    out[7] = low;
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where a function holds, over eight variables.
    fn table(dd: &mut Dd, f: Ref) -> Vec<bool> {
        (0..256u32)
            .map(|v| {
                let by = (0..8).map(|i| (i, if v >> (7 - i) & 1 == 1 { YES } else { NO }));
                dd.put(f, &by.collect()) == YES
            })
            .collect()
    }

    proptest! {
        #[test]
        fn sets_and_sums(list in proptest::collection::vec((0u128..256, 0u128..40), 0..6), add in 0u128..256, mask in 0u128..256, value in 0u128..256) {
            let mut dd = Dd::new(1 << 20, None);
            let x: Vec<Ref> = (0..8).map(|i| dd.var(i)).collect();
            let set = ValueSet::from_intervals(list.into_iter().map(|(l, n)| (l, (l + n).min(255))));
            let f = is_in(&mut dd, &x, &set);
            let want: Vec<bool> = (0..256).map(|v| set.contains(v)).collect();
            prop_assert_eq!(table(&mut dd, f), want);
            let sum = plus(&mut dd, &x, add);
            let f = is_in(&mut dd, &sum, &set);
            let want: Vec<bool> = (0..256).map(|v| set.contains((v + add) & 255)).collect();
            prop_assert_eq!(table(&mut dd, f), want);
            let f = masked(&mut dd, &x, mask, value);
            let want: Vec<bool> = (0..256).map(|v| v & mask == value).collect();
            prop_assert_eq!(table(&mut dd, f), want);
        }
    }
}
