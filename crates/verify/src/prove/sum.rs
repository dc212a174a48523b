//! Checksums that follow, in ones'-complement arithmetic.
//!
//! A checksum field `c` is updated (RFC 1624, equation 3) to `~fold(~c + t1 + t2 + ...)`, where a 16-bit word that
//! changes from `m` to `n` adds `~m + n`. With `x = ~c`: `fold` of a positive number is its representative modulo 65535
//! in 1..=65535, and zero only of zero. So
//!
//! - updates one after the other are one update with all terms, `fold(fold(a) + b) = fold(a + b)`; only where something
//!   looks at the field in between (UDP: zero means none) does the order matter;
//! - the result depends on the terms' sum modulo 65535 and on whether all terms are zero; on the latter only where `x`
//!   is zero, which is where the field is 0xffff.
//!
//! The sum is linear in the bits of the words: a [`Sum`] is a number and a coefficient for each bit that is not known;
//! what is added and taken away again is gone, whatever it is.

use super::dd::{Dd, NO, Ref, YES};
use std::collections::BTreeMap;

/// Ones'-complement numbers repeat after these.
const MODULUS: u32 = 65_535;
/// Most bits whose values are tried one by one.
const MAX_BITS: usize = 24;
/// Most combinations of them.
const MAX_LEAVES: usize = 4_096;

/// Terms added up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sum {
    /// Of functions, modulo 65535, none of them zero.
    bits: BTreeMap<Ref, u32>,
    number: u32,
    /// Where every term is zero.
    pub zero: Ref,
}

impl Default for Sum {
    fn default() -> Self {
        Sum {
            bits: BTreeMap::new(),
            number: 0,
            zero: YES,
        }
    }
}

fn modulo(n: u64) -> u32 {
    (n % u64::from(MODULUS)) as u32
}

impl Sum {
    fn number(&mut self, n: u32) {
        self.number = modulo(u64::from(self.number) + u64::from(n));
    }
    fn bit(&mut self, dd: &mut Dd, f: Ref, weight: u32) {
        let minus = |n: u32| modulo(u64::from(MODULUS - n % MODULUS));
        let (f, weight) = match f {
            NO => return,
            YES => return self.number(weight),
            f => {
                // a function and its opposite are one unknown
                let opposite = dd.not(f);
                match opposite < f {
                    true => {
                        self.number(weight);
                        (opposite, minus(weight))
                    }
                    false => (f, weight % MODULUS),
                }
            }
        };
        let w = self.bits.entry(f).or_insert(0);
        *w = modulo(u64::from(*w) + u64::from(weight));
        if *w == 0 {
            self.bits.remove(&f);
        }
    }

    /// A word of 16 bits changes.
    pub fn change(&mut self, dd: &mut Dd, from: &[Ref], to: &[Ref]) {
        let mut zero = YES;
        for (i, (a, b)) in from.iter().rev().zip(to.iter().rev()).enumerate() {
            let weight = 1u32 << i.min(15);
            self.bit(dd, *b, weight);
            self.bit(dd, *a, MODULUS - weight);
            let not = dd.not(*b);
            zero = dd.and(zero, *a);
            zero = dd.and(zero, not);
        }
        self.zero = dd.and(self.zero, zero);
    }
    /// A word is added.
    pub fn add(&mut self, dd: &mut Dd, word: &[Ref]) {
        let mut zero = YES;
        for (i, b) in word.iter().rev().enumerate() {
            self.bit(dd, *b, 1u32 << i.min(15));
            let not = dd.not(*b);
            zero = dd.and(zero, not);
        }
        self.zero = dd.and(self.zero, zero);
    }
    /// All terms of both.
    pub fn join(&mut self, dd: &mut Dd, o: &Sum) {
        self.number(o.number);
        for (f, w) in &o.bits {
            self.bit(dd, *f, *w);
        }
        self.zero = dd.and(self.zero, o.zero);
    }

    /// What is between the two: where it is not zero, they make different checksums of a field.
    pub fn minus(&self, dd: &mut Dd, o: &Sum) -> Sum {
        let mut d = self.clone();
        d.number(MODULUS - o.number);
        for (f, w) in &o.bits {
            d.bit(dd, *f, MODULUS - w);
        }
        d
    }

    /// Functions with their weights, and the number.
    pub fn terms(&self) -> (impl Iterator<Item = (Ref, u32)>, u32) {
        (self.bits.iter().map(|(f, w)| (*f, *w)), self.number)
    }

    /// Is a sum of so much none at all?
    pub fn is_nothing(n: u64) -> bool {
        modulo(n) == 0
    }

    /// Where (within `here`) the two make different checksums of a field; `ones` is where that is 0xffff before. Never
    /// less than that; more, only where there are too many unknowns.
    pub fn differ(&self, dd: &mut Dd, o: &Sum, here: Ref, ones: Ref) -> Ref {
        if self == o {
            return NO;
        }
        let mut d = self.minus(dd, o);
        let mut left: Vec<(Ref, u32)> = Vec::new();
        for (f, w) in &d.bits {
            let with = dd.and(here, *f);
            let without = dd.minus(here, *f);
            match (with, without) {
                (NO, _) => {}
                (_, NO) => d.number = modulo(u64::from(d.number) + u64::from(*w)),
                _ => left.push((*f, *w)),
            }
        }
        let unequal = match left.len() {
            0 if d.number == 0 => NO,
            0..=MAX_BITS => {
                let mut leaves = MAX_LEAVES;
                nonzero(dd, &left, d.number, here, &mut leaves)
            }
            _ => here,
        };
        // the same but for the sign of zero
        let signs = dd.xor(self.zero, o.zero);
        let signs = dd.and(signs, ones);
        let signs = dd.and(signs, here);
        dd.or(unequal, signs)
    }
}

/// Where the sum is not zero, by trying all values of its bits.
fn nonzero(dd: &mut Dd, bits: &[(Ref, u32)], sum: u32, here: Ref, leaves: &mut usize) -> Ref {
    if here == NO {
        return NO;
    }
    let Some(((f, w), rest)) = bits.split_first() else {
        *leaves = leaves.saturating_sub(1);
        return if sum == 0 { NO } else { here };
    };
    if *leaves == 0 {
        return here;
    }
    let with = dd.and(here, *f);
    let without = dd.minus(here, *f);
    let more = modulo(u64::from(sum) + u64::from(*w));
    let a = nonzero(dd, rest, more, with, leaves);
    let b = nonzero(dd, rest, sum, without, leaves);
    dd.or(a, b)
}

#[cfg(test)]
mod tests {
    use super::super::bits;
    use super::*;
    use onefold_packet::checksum;
    use proptest::prelude::*;

    /// What terms make of a field.
    fn updated(c: u16, terms: &[(u16, u16)]) -> u16 {
        let t = terms.iter().map(|(m, n)| u64::from(!m) + u64::from(*n));
        !checksum::fold(u64::from(!c) + t.sum::<u64>())
    }
    fn sum(dd: &mut Dd, terms: &[(u16, u16)]) -> Sum {
        let mut s = Sum::default();
        for (m, n) in terms {
            let word = |w: u16| bits::constant(w.into(), 16);
            s.change(dd, &word(*m), &word(*n));
        }
        s
    }
    fn any_word() -> impl Strategy<Value = u16> {
        prop_oneof![
            Just(0u16),
            Just(0xffff),
            Just(1),
            Just(0xfffe),
            any::<u16>()
        ]
    }
    fn any_terms() -> impl Strategy<Value = Vec<(u16, u16)>> {
        proptest::collection::vec((any_word(), any_word()), 0..4)
    }

    proptest! {
        /// With everything known, the verdict is what arithmetic says, for each value of the field.
        #[test]
        fn numbers(a in any_terms(), b in any_terms(), c in any_word()) {
            let mut dd = Dd::new(1 << 16, None);
            let (x, y) = (sum(&mut dd, &a), sum(&mut dd, &b));
            let ones = if c == 0xffff { YES } else { NO };
            let differ = x.differ(&mut dd, &y, YES, ones) != NO;
            prop_assert_eq!(differ, updated(c, &a) != updated(c, &b));
        }
        /// Step by step is all at once.
        #[test]
        fn steps(a in any_terms(), c in any_word()) {
            let one_by_one = a.iter().fold(c, |c, t| checksum::update(c, t.0, t.1));
            prop_assert_eq!(one_by_one, updated(c, &a));
        }
    }

    #[test]
    fn unknown_words_cancel() {
        let mut dd = Dd::new(1 << 16, None);
        let mut word = |first: u32| (0..16).map(|i| dd.var(first + i)).collect::<Vec<_>>();
        let (a, b, c) = (word(0), word(16), word(32));
        let mut steps = Sum::default();
        steps.change(&mut dd, &a, &b);
        steps.change(&mut dd, &b, &c);
        let mut once = Sum::default();
        once.change(&mut dd, &a, &c);
        let all = |dd: &mut Dd, w: &[Ref]| dd.all(w.iter().copied());
        assert_eq!(steps.differ(&mut dd, &once, YES, NO), NO);
        // but for a field of 0xffff, where a word goes from all ones to all zeros: some b is in between
        let corner = steps.differ(&mut dd, &once, YES, YES);
        let from = all(&mut dd, &a);
        assert_ne!(corner, NO);
        assert_eq!(dd.minus(corner, from), NO);
        // a word that stays is not the same as no change, there
        let mut stays = Sum::default();
        stays.change(&mut dd, &a, &a);
        assert_eq!(stays.differ(&mut dd, &Sum::default(), YES, NO), NO);
        assert_eq!(stays.differ(&mut dd, &Sum::default(), YES, YES), YES);
        // another delta is another checksum
        let mut other = once.clone();
        other.add(&mut dd, &bits::constant(1, 16));
        assert_eq!(other.differ(&mut dd, &once, YES, NO), YES);
    }
}
