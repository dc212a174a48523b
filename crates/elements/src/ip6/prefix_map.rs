//! The mapping of RFC 6296: an address gets another prefix, and one of its 16-bit words makes up for what that does to
//! the one's complement sum of the address, so that no checksum over it changes.
//!
//! With prefixes of at most 48 bits that word is the subnet (bits 48 to 63), so that interface identifiers stay; with
//! longer ones it is the first word of the interface identifier that is not 0xffff. A word never becomes 0xffff, which
//! is zero once more in one's complement arithmetic.
//!
//! Sources: RFC 6296 sections 3.1 to 3.7; Linux, net/ipv6/netfilter/ip6t_NPT.c.

use onefold_element::args::Ip6Prefix;
use onefold_element::model::{Base, Case, Cond, Exit, FieldRef, Fix, Op, Read, Value, bits};
use onefold_packet::checksum::{fold, sum};

/// Longest prefix: what is behind is the interface identifier.
const LONGEST: u8 = 64;
/// Longest prefix with which the subnet is adjusted.
const SUBNET: u8 = 48;
/// Zero of one's complement arithmetic, once more.
const ALL_ONES: u16 = 0xffff;
/// First bits of the words that may be adjusted, of prefixes up to [`SUBNET`] and of longer ones, in their order.
const SUBNET_WORD: &[u16] = &[48];
const IDENTIFIER_WORDS: &[u16] = &[64, 80, 96, 112];

/// From one prefix to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrefixMap {
    from: u128,
    /// So many bits say whether an address has the prefix.
    from_len: u8,
    to: u128,
    /// So many bits are replaced: the longer prefix is as long.
    len: u8,
    /// What is added to a word: below 0xffff.
    adjust: u16,
    /// As Linux: see [`PrefixMap::new`].
    netfilter: bool,
}

/// The first bits of an address.
fn first_bits(len: u8) -> u128 {
    !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}

/// The word of an address that begins at this bit.
fn word(a: u128, bit: u16) -> u16 {
    (a >> (112 - u32::from(bit))) as u16
}

impl PrefixMap {
    /// `netfilter`: the subnet 0xffff is mapped as the subnet 0 is, and addresses have a prefix that is shorter than
    /// the other one by its own length; else such a subnet is not mapped, and the shorter prefix is made as long as
    /// the other one with zeros.
    ///
    /// # Errors
    /// A prefix is of no length that can be mapped, or has bits behind its end.
    pub fn new(from: &Ip6Prefix, to: &Ip6Prefix, netfilter: bool) -> Result<PrefixMap, String> {
        let (from, from_len) = prefix(from)?;
        let (to, to_len) = prefix(to)?;
        let len = from_len.max(to_len);
        let [ours, theirs] = [from, to].map(|p| fold(sum(&p.to_be_bytes(), 0)));
        let adjust = (u32::from(ours) + u32::from(!theirs)) % u32::from(ALL_ONES);
        Ok(PrefixMap {
            from,
            from_len: if netfilter { from_len } else { len },
            to,
            len,
            adjust: adjust as u16,
            netfilter,
        })
    }

    /// Has an address the prefix that is mapped?
    pub fn has(&self, a: u128) -> bool {
        a & first_bits(self.from_len) == self.from
    }

    /// First bits of the words of which the first one that is not 0xffff is adjusted.
    fn words(&self) -> &'static [u16] {
        match self.len {
            0..=SUBNET => SUBNET_WORD,
            _ => IDENTIFIER_WORDS,
        }
    }

    /// Is the subnet 0xffff mapped, too?
    fn takes_all_ones(&self) -> bool {
        self.netfilter && self.len <= SUBNET
    }

    /// The address with the other prefix, and nothing made up for.
    pub fn replaced(&self, a: u128) -> u128 {
        self.to | a & !first_bits(self.len)
    }

    /// What an address becomes. `None`: all words that could make up for the prefix are 0xffff.
    pub fn map(&self, a: u128) -> Option<u128> {
        let fits = |bit: &&u16| word(a, **bit) != ALL_ONES || self.takes_all_ones();
        let bit = *self.words().iter().find(fits)?;
        let sum = u32::from(word(a, bit)) + u32::from(self.adjust);
        let new = u128::from(sum % u32::from(ALL_ONES));
        let at = 112 - u32::from(bit);
        let rest = self.replaced(a) & !(u128::from(ALL_ONES) << at);
        Some(rest | new << at)
    }

    /// Does the address at this bit behind the network header have the prefix? (A field of its own, which the word
    /// that is adjusted is no part of.)
    pub fn condition(&self, address: u16) -> Cond {
        let field = bits(Base::Net, address, self.from_len);
        Cond::eq(field, self.from >> (128 - u32::from(self.from_len)))
    }

    /// The cases of a model for addresses that fit `when` and stand at this bit behind the network header: one for each
    /// way that a word can go. A sum below 0xffff stays; of a larger one 0xffff is taken away, which is one more in 16
    /// bits.
    pub fn cases(&self, when: &Cond, address: u16, unmapped: &Exit) -> Vec<Case> {
        let top = u128::from(ALL_ONES) - 1;
        let adjust = u128::from(self.adjust);
        let mut cases = Vec::new();
        for bit in self.words() {
            let at: FieldRef = bits(Base::Net, address + bit, 16);
            let mut one = |here: Cond, plus: u128| {
                let prefix = Op::Write {
                    field: bits(Base::Net, address, self.len),
                    value: Value::Const(self.to >> (128 - u32::from(self.len))),
                    fix: Fix::Nothing,
                };
                let word = Op::Write {
                    field: at,
                    value: Value::Plus(Read::Field(at), plus),
                    fix: Fix::Nothing,
                };
                cases.push(Case::new(here, Exit::Port(0)).with([prefix, word]));
            };
            let stays = Cond::between(at, 0, top - adjust);
            one(when.clone().and(stays), adjust);
            match self.takes_all_ones() {
                true => one(when.clone(), adjust + 1),
                // with nothing to add there is none
                false if adjust == 0 => {}
                false => {
                    let carries = Cond::between(at, top + 1 - adjust, top);
                    one(when.clone().and(carries), adjust + 1);
                }
            }
        }
        if !self.takes_all_ones() {
            cases.push(Case::new(when.clone(), unmapped.clone()));
        }
        cases
    }

    /// The prefixes: the one that is mapped, the one that it becomes.
    #[cfg(test)]
    fn ends(&self) -> (u128, u128) {
        (self.from, self.to)
    }
}

/// A prefix's bits and length.
fn prefix(p: &Ip6Prefix) -> Result<(u128, u8), String> {
    let (bits, len) = (u128::from(p.addr), p.len);
    if !(1..=LONGEST).contains(&len) {
        return Err(format!(
            "{}/{len}: a prefix is from 1 to {LONGEST} bits long",
            p.addr
        ));
    }
    if bits & !first_bits(len) != 0 {
        return Err(format!("{}/{len}: bits behind the prefix are set", p.addr));
    }
    Ok((bits, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    fn net(s: &str) -> Ip6Prefix {
        let (addr, len) = s.split_once('/').unwrap();
        Ip6Prefix {
            addr: addr.parse().unwrap(),
            len: len.parse().unwrap(),
        }
    }

    fn pair(from: &str, to: &str) -> PrefixMap {
        PrefixMap::new(&net(from), &net(to), false).unwrap()
    }

    fn becomes(m: &PrefixMap, a: &str) -> Option<String> {
        let a: Ipv6Addr = a.parse().unwrap();
        m.map(a.into()).map(|a| Ipv6Addr::from(a).to_string())
    }

    /// RFC 6296 section 3.6, and the values that it names on the way (its erratum 3033).
    #[test]
    fn the_rfcs_example() {
        let out = pair("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(out.adjust, 0xd54f);
        let mapped = becomes(&out, "fd01:203:405:1::1234");
        assert_eq!(mapped.as_deref(), Some("2001:db8:1:d550::1234"));
        let back = pair("2001:db8:1::/48", "fd01:203:405::/48");
        let mapped = becomes(&back, "2001:db8:1:d550::1234");
        assert_eq!(mapped.as_deref(), Some("fd01:203:405:1::1234"));
    }

    #[test]
    fn words_that_are_all_ones() {
        let out = pair("fd01:203:405::/48", "2001:db8:1::/48");
        assert_eq!(becomes(&out, "fd01:203:405:ffff::1"), None);
        // what would be 0xffff is 0
        let mapped = becomes(&out, "fd01:203:405:2ab0::1");
        assert_eq!(mapped.as_deref(), Some("2001:db8:1::1"));
        let long = pair("fd01:203:405:100::/56", "2001:db8:1:200::/56");
        let word = |a: &str| becomes(&long, a).unwrap();
        assert_eq!(
            word("fd01:203:405:1ff:ffff:ffff:1:ffff"),
            "2001:db8:1:2ff:ffff:ffff:d450:ffff"
        );
        assert_eq!(becomes(&long, "fd01:203:405:1ff:ffff:ffff:ffff:ffff"), None);
        let as_linux = |from: &str, to: &str| PrefixMap::new(&net(from), &net(to), true).unwrap();
        let linux = as_linux("fd01:203:405::/48", "2001:db8:1::/48");
        let [zero, ones] = ["0", "ffff"].map(|w| becomes(&linux, &format!("fd01:203:405:{w}::1")));
        assert!(zero.is_some() && zero == ones);
    }

    #[test]
    fn prefixes_of_two_lengths() {
        let m = pair("fd01:203::/32", "2001:db8:1::/48");
        let has = |m: &PrefixMap, a: &str| m.has(a.parse::<Ipv6Addr>().unwrap().into());
        // made longer with zeros
        assert!(has(&m, "fd01:203:0:9::1") && !has(&m, "fd01:203:1::1"));
        let linux = PrefixMap::new(&net("fd01:203::/32"), &net("2001:db8:1::/48"), true).unwrap();
        assert!(has(&linux, "fd01:203:1::1") && !has(&linux, "fd01:204::1"));
        for (from, to) in [
            ("::/0", "2001:db8::/48"),
            ("fd00::/65", "2001:db8::/48"),
            ("fd00::1/64", "2001:db8::/64"),
            ("fd00::/64", "2001:db8:0:0:8000::/64"),
        ] {
            let (from, to) = (net(from), net(to));
            assert!(PrefixMap::new(&from, &to, false).is_err());
        }
    }

    /// The sum of the words of an address, in one's complement arithmetic: from 0 to 0xfffe.
    fn naive_sum(a: u128) -> u32 {
        let words = (0..8).map(|i| (a >> (16 * i)) as u32 & 0xffff);
        words.fold(0, |s, w| (s + w) % 0xffff)
    }

    /// The mapping as its definition has it: replace the prefix, then look for the only word that makes the sum what it
    /// was and is not 0xffff.
    fn naive(a: u128, to: u128, len: u8) -> Option<u128> {
        let keep = u128::MAX >> len;
        let replaced = to | a & keep;
        let shifts: &[u32] = if len <= 48 { &[64] } else { &[48, 32, 16, 0] };
        let shift = shifts.iter().find(|s| (a >> **s) & 0xffff != 0xffff)?;
        let without = replaced & !(0xffff << shift);
        let rest = naive_sum(without);
        let right = |w: &u128| (rest + *w as u32) % 0xffff == naive_sum(a);
        let mut all = (0..0xffff).filter(right);
        let found = all.next();
        assert_eq!(all.next(), None);
        found.map(|w| without | w << shift)
    }

    proptest! {
        #![proptest_config(cases(200))]
        #[test]
        fn there_and_back_and_as_the_definition_has_it(
            from: u128, to: u128, host: u128, ones in 0u32..4, len in 1u8..=64,
        ) {
            let mask = first_bits(len);
            let cut = |a: u128| Ip6Prefix { addr: Ipv6Addr::from(a & mask), len };
            let out = PrefixMap::new(&cut(from), &cut(to), false).unwrap();
            let back = PrefixMap::new(&cut(to), &cut(from), false).unwrap();
            // identifiers that begin with words of all ones
            let shift = if len <= 48 { 64 } else { 128 - 64 - 16 * ones };
            let high = if ones == 0 { 0 } else { (u128::MAX >> 64) & !(u128::MAX >> (64 + 16 * ones)) };
            let a = out.ends().0 | (host | high | (u128::from(ones == 1) * (0xffff << shift))) & !mask;
            let mapped = out.map(a);
            prop_assert_eq!(mapped, naive(a, to & mask, len));
            if let Some(b) = mapped {
                prop_assert!(back.has(b));
                prop_assert_eq!(naive_sum(a), naive_sum(b));
                prop_assert_eq!(back.map(b), Some(a));
            }
        }
    }
}
