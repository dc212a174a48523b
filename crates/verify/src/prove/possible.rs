//! What lengths say of each other: sets of packets without those that there cannot be.
//!
//! To a proof the answer to "does the IP packet fit?" is a variable like others. Where something differs, it is looked
//! at whether the packets for which it does exist: a header that fits is there, a packet is at least as long as its IP
//! packet, and what lies behind its end is read as zero.

use super::dd::{Dd, NO, Ref, YES};
use super::packet::World;
use super::vars::Bit;
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::EndAt;
use std::collections::{BTreeSet, HashMap};

/// Larger sets are left as they are.
const MAX_SIZE: usize = 50_000;
/// Longest frame that is made to show something.
const MAX_FRAME: u128 = 2_047;

impl World {
    /// Can there be such a packet, as far as lengths tell? "No" is certain.
    pub fn may_be(&mut self, here: Ref) -> bool {
        if here == NO || self.facts.ends != EndAt::Same || self.dd.size(here, MAX_SIZE) >= MAX_SIZE
        {
            return here != NO;
        }
        let mut set = here;
        for p in self.bits_of(here) {
            set = self.there(set, p);
        }
        for (check, at) in self.checks_of(set) {
            let (field, more, header) = match check {
                HeaderCheck::Ip4Fits => (at + 2, at, at + 20),
                HeaderCheck::Ip6Fits => (at + 4, at + 40, at + 40),
                _ => continue,
            };
            let yes = self.question(check, at, EndAt::Same);
            let head = self.longer(header);
            let with = self.dd.and(set, yes);
            let with = self.dd.and(with, head);
            let without = self.dd.minus(set, yes);
            let tiny = self.dd.minus(without, head);
            let possible = tiny != NO
                || self.extreme(with, field, more, true)
                || self.extreme(without, field, more, false);
            if !possible {
                return false;
            }
        }
        set != NO
    }

    /// Is there a packet among these whose field and `more` are at most its length (`fits`), or are not?
    fn extreme(&mut self, set: Ref, field: i32, more: i32, fits: bool) -> bool {
        let is_len = |w: &World, l: u32| matches!(w.vars.bit(l), Some(Bit::Len(_)));
        let bits = field * 8..field * 8 + 16;
        let is_field =
            |w: &World, l: u32| matches!(w.vars.bit(l), Some(Bit::Packet(p)) if bits.contains(&p));
        let others = self.dd.support(set).into_iter();
        let others = others
            .filter(|l| !is_len(self, *l) && !is_field(self, *l))
            .collect();
        let set = self.dd.exists(set, &others);
        // the longest packet (or the shortest) for each function of the field, with the smallest field (or the
        // greatest)
        let mut stack = vec![(set, 0u128, 0u32)];
        let mut best: HashMap<Ref, u128> = HashMap::new();
        let mut steps = MAX_SIZE;
        while let Some((f, len, done)) = stack.pop() {
            steps = steps.saturating_sub(1);
            if f == NO || steps == 0 {
                continue;
            }
            let free = |from: u32, to: u32| match fits {
                // bits that are not looked at are as good as can be
                true => (from..to).fold(0u128, |v, i| v | 1 << (31 - i)),
                false => 0,
            };
            match self.dd.parts(f) {
                Some((level, lo, hi)) if is_len(self, level) => {
                    let Some(Bit::Len(i)) = self.vars.bit(level) else {
                        continue;
                    };
                    let i = u32::from(i.min(31));
                    let len = len | free(done, i);
                    stack.push((lo, len, i + 1));
                    stack.push((hi, len | 1 << (31 - i), i + 1));
                }
                _ => {
                    let len = len | free(done, 32);
                    let b = best.entry(f).or_insert(len);
                    *b = if fits { len.max(*b) } else { len.min(*b) };
                }
            }
        }
        if steps == 0 {
            return true;
        }
        best.into_iter().any(|(f, len)| {
            let value = self.outermost(f, field, !fits);
            let needs = value + u128::from(more.unsigned_abs());
            (needs <= len) == fits
        })
    }

    /// The smallest or greatest value of a field for which a function of it holds.
    fn outermost(&mut self, f: Ref, field: i32, greatest: bool) -> u128 {
        let mut f = f;
        let mut value = 0u128;
        for v in self.vars.packet(&mut self.dd, field * 8, 16) {
            let level = self.dd.is_var(v).unwrap_or(0);
            let (lo, hi) = (
                self.dd.cofactor(f, level, false),
                self.dd.cofactor(f, level, true),
            );
            let one = match greatest {
                true => hi != NO,
                false => lo == NO,
            };
            value = value << 1 | u128::from(one);
            f = if one { hi } else { lo };
        }
        value
    }

    fn bits_of(&self, f: Ref) -> Vec<i32> {
        let all = self
            .dd
            .support(f)
            .into_iter()
            .filter_map(|l| self.vars.bit(l));
        all.filter_map(|b| match b {
            Bit::Packet(p) if p >= 0 => Some(p),
            _ => None,
        })
        .collect()
    }
    fn checks_of(&self, f: Ref) -> Vec<(HeaderCheck, i32)> {
        let all = self
            .dd
            .support(f)
            .into_iter()
            .filter_map(|l| self.vars.bit(l));
        all.filter_map(|b| match b {
            Bit::Check((check, at, EndAt::Same)) if at >= 0 => Some((check, at)),
            _ => None,
        })
        .collect()
    }
    /// A bit that is set is there.
    fn there(&mut self, set: Ref, p: i32) -> Ref {
        let there = self.longer(p / 8 + 1);
        if self.dd.minus(set, there) == NO {
            return set;
        }
        let bit = self.vars.var(&mut self.dd, Bit::Packet(p));
        let missing = self.dd.minus(bit, there);
        self.dd.minus(set, missing)
    }

    /// The packets of a set that there can be, among those of which frames are made; all of it where none is left.
    pub fn possible(&mut self, here: Ref) -> Ref {
        if here == NO || self.facts.ends != EndAt::Same || self.dd.size(here, MAX_SIZE) >= MAX_SIZE
        {
            return here;
        }
        let short = self.length_in(0, EndAt::Same, &ValueSet::range(0, MAX_FRAME));
        let mut set = self.dd.and(here, short);
        for p in self.bits_of(here) {
            set = self.there(set, p);
        }
        for (check, at) in self.checks_of(here) {
            let yes = self.question(check, at, EndAt::Same);
            let (field, header) = match check {
                HeaderCheck::Ip4Fits => (at + 2, 0),
                HeaderCheck::Ip6Fits => (at + 4, 40),
                _ => {
                    let there = self.longer(at + 20);
                    let missing = self.dd.minus(yes, there);
                    set = self.dd.minus(set, missing);
                    continue;
                }
            };
            let head = self.longer(at + header.max(20));
            let fits = self.fits(set, field, at + header);
            let fits = self.dd.and(head, fits);
            let differs = self.dd.xor(yes, fits);
            set = self.dd.minus(set, differs);
            if set == NO {
                break;
            }
        }
        match set {
            NO => here,
            set => set,
        }
    }

    /// The packet has at least so many bytes.
    fn longer(&mut self, bytes: i32) -> Ref {
        let least = u128::from(bytes.unsigned_abs());
        self.length_in(0, EndAt::Same, &ValueSet::range(least, max_of(32)))
    }

    /// Where the 16 bits at `field` plus `more` are at most the packet's length, for lengths that occur in `care`.
    fn fits(&mut self, care: Ref, field: i32, more: i32) -> Ref {
        let len: Vec<Ref> = (0..32)
            .map(|i| self.vars.var(&mut self.dd, Bit::Len(i)))
            .collect();
        let levels: BTreeSet<u32> = len.iter().filter_map(|f| self.dd.is_var(*f)).collect();
        let others: BTreeSet<u32> = (self.dd.support(care).into_iter())
            .filter(|l| !levels.contains(l))
            .collect();
        let care = self.dd.exists(care, &others);
        let field = self.vars.packet(&mut self.dd, field * 8, 16);
        let mut at_most: HashMap<u128, Ref> = HashMap::new();
        let more = u128::from(more.unsigned_abs());
        threshold(&mut self.dd, care, &len, 0, &field, more, &mut at_most)
    }
}

/// Numbers from `base` on whose other bits are `len`: where the field plus `more` is at most that.
fn threshold(
    dd: &mut Dd,
    care: Ref,
    len: &[Ref],
    base: u128,
    field: &[Ref],
    more: u128,
    known: &mut HashMap<u128, Ref>,
) -> Ref {
    let last = base | (1u128 << len.len()).wrapping_sub(1);
    if care == NO || last < more {
        return NO;
    }
    if base >= more + 0xffff {
        return YES;
    }
    let Some((first, rest)) = len.split_first() else {
        return match known.get(&(base - more)) {
            Some(f) => *f,
            None => {
                let f = super::bits::is_in(dd, field, &ValueSet::range(0, base - more));
                known.insert(base - more, f);
                f
            }
        };
    };
    let half = 1u128 << rest.len();
    let level = dd.is_var(*first).unwrap_or(0);
    let (without, with) = (
        dd.cofactor(care, level, false),
        dd.cofactor(care, level, true),
    );
    let lo = threshold(dd, without, rest, base, field, more, known);
    let hi = threshold(dd, with, rest, base | half, field, more, known);
    dd.ite(*first, hi, lo)
}

#[cfg(test)]
mod tests {
    use super::super::dd::Dd;
    use super::super::packet::{Facts, World};
    use super::super::vars::Vars;
    use super::*;

    #[test]
    fn lengths_bound_each_other() {
        let mut w = World {
            dd: Dd::new(1 << 22, None),
            vars: Vars::default(),
            facts: Facts::entry(),
        };
        let fits = w.question(HeaderCheck::Ip4Fits, 14, EndAt::Same);
        let len = |w: &mut World, l, h| w.length_in(0, EndAt::Same, &ValueSet::range(l, h));
        let field = |w: &mut World, l, h| {
            let v = w.vars.packet(&mut w.dd, 16 * 8, 16);
            super::super::bits::is_in(&mut w.dd, &v, &ValueSet::range(l, h))
        };
        let cases = [
            // frame, IP packet, is one with a header that fits possible?
            ((33, 33), (20, 0xffff), false),
            ((34, 34), (20, 0xffff), true),
            ((34, 34), (21, 0xffff), false),
            ((0, 99), (86, 0xffff), false),
            ((0, 100), (86, 0xffff), true),
        ];
        for ((a, b), (c, d), want) in cases {
            let l = len(&mut w, a, b);
            let f = field(&mut w, c, d);
            let set = w.dd.all([fits, l, f]);
            assert_eq!(w.may_be(set), want, "{a}-{b} {c}-{d}");
            // what is left of it is the same
            let left = w.possible(set);
            assert!(w.may_be(left) == want);
        }
        // it fits, and is said not to
        let l = len(&mut w, 100, 2000);
        let f = field(&mut w, 20, 86);
        let both = w.dd.and(l, f);
        let set = w.dd.minus(both, fits);
        assert!(!w.may_be(set));
        // a byte that is not there is zero
        let l = len(&mut w, 0, 16);
        let f = field(&mut w, 1, 0xffff);
        let set = w.dd.and(l, f);
        assert!(!w.may_be(set));
    }
}
