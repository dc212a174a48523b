//! What lengths say of each other: sets of packets without those that there cannot be.
//!
//! To a proof the answer to "does the IP packet fit?" is a variable like others. Where something differs, it is looked at
//! whether the packets for which it does exist: a header that fits is there, a packet is at least as long as its IP packet, and
//! what lies behind its end is read as zero.

use super::dd::{Dd, NO, Ref, YES};
use super::packet::World;
use super::vars::Bit;
use onefold_elements::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::EndAt;
use std::collections::{BTreeSet, HashMap};

/// Larger sets are left as they are.
const MAX_SIZE: usize = 50_000;

impl World {
    /// The packets of a set that there can be, as far as lengths tell.
    pub fn possible(&mut self, here: Ref) -> Ref {
        if here == NO || self.facts.ends != EndAt::Same || self.dd.size(here, MAX_SIZE) >= MAX_SIZE
        {
            return here;
        }
        let mut set = here;
        let (mut checks, mut last) = (Vec::new(), BTreeSet::new());
        for level in self.dd.support(here) {
            match self.vars.bit(level) {
                Some(Bit::Check((check, at, EndAt::Same))) if at >= 0 => checks.push((check, at)),
                Some(Bit::Packet(p)) if p >= 0 => {
                    last.insert(p);
                }
                _ => {}
            }
        }
        for p in last {
            // there is no such bit in a shorter packet
            let there = self.longer(p / 8 + 1);
            let bit = self.vars.var(&mut self.dd, Bit::Packet(p));
            let zero = self.dd.not(bit);
            let fine = self.dd.or(there, zero);
            set = self.dd.and(set, fine);
        }
        for (check, at) in checks {
            let yes = self.question(check, at, EndAt::Same);
            let (field, header) = match check {
                HeaderCheck::Ip4Fits => (at + 2, 0),
                HeaderCheck::Ip6Fits => (at + 4, 40),
                _ => {
                    let there = self.longer(at + 20);
                    let no = self.dd.not(yes);
                    let fine = self.dd.or(there, no);
                    set = self.dd.and(set, fine);
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
        set
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
            assert_eq!(w.possible(set) != NO, want, "{a}-{b} {c}-{d}");
        }
        // it fits, and is said not to
        let l = len(&mut w, 100, 200);
        let f = field(&mut w, 20, 86);
        let both = w.dd.and(l, f);
        let set = w.dd.minus(both, fits);
        assert_eq!(w.possible(set), NO);
        // a byte that is not there is zero
        let l = len(&mut w, 0, 16);
        let f = field(&mut w, 1, 0xffff);
        let set = w.dd.and(l, f);
        assert_eq!(w.possible(set), NO);
    }
}
