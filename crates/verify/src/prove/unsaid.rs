//! Where a condition holds although some of what it reads cannot be said (Kleene's logic): a checksum that is not
//! written yet lies where UDP has its ports, and is no matter where the packet is no UDP.

use super::dd::{NO, Ref, YES};
use super::element::{Got, holds};
use super::packet::{Cause, World};
use onefold_element::model::{Cond, Read};
use std::collections::HashMap;

/// A condition's value.
pub(super) struct Partly {
    /// It holds here.
    pub holds: Ref,
    /// It cannot be said whether it holds here; nowhere that [`Partly::holds`] is.
    pub unsaid: Ref,
    /// Why.
    pub cause: Option<Cause>,
}

/// A condition's value, for these readings.
pub(super) fn partly(w: &mut World, c: &Cond, by: &HashMap<Read, &Got>) -> Partly {
    let (list, all) = match c {
        Cond::All(l) => (l, true),
        Cond::Any(l) => (l, false),
        Cond::Not(c) => {
            let c = partly(w, c, by);
            let maybe = w.dd.or(c.holds, c.unsaid);
            return Partly {
                holds: w.dd.not(maybe),
                ..c
            };
        }
        c => {
            let f = holds(w, c, by);
            return Partly {
                holds: f.unwrap_or(NO),
                unsaid: if f.is_ok() { NO } else { YES },
                cause: f.err(),
            };
        }
    };
    // where all hold that have been asked, or one; and where that may be
    let start = if all { YES } else { NO };
    let (mut holds, mut maybe, mut cause) = (start, start, None);
    for c in list {
        let c = partly(w, c, by);
        let may = w.dd.or(c.holds, c.unsaid);
        (holds, maybe) = match all {
            true => (w.dd.and(holds, c.holds), w.dd.and(maybe, may)),
            false => (w.dd.or(holds, c.holds), w.dd.or(maybe, may)),
        };
        cause = cause.or(c.cause);
        // whatever the others are
        let decided = if all { maybe == NO } else { holds == YES };
        if decided {
            break;
        }
    }
    let does_not = w.dd.not(holds);
    Partly {
        holds,
        unsaid: w.dd.and(maybe, does_not),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits;
    use super::super::dd::Dd;
    use super::super::packet::{Facts, World};
    use super::super::vars::Vars;
    use super::*;
    use crate::Rng;
    use onefold_element::model::{Base, FieldRef, ValueSet};

    /// A bit of the packet, or something that cannot be said.
    fn field(bit: u16) -> FieldRef {
        FieldRef {
            base: Base::Mac,
            bit,
            bits: 1,
        }
    }

    fn random(rng: &mut Rng, depth: u32) -> Cond {
        let some = |rng: &mut Rng| {
            let n = rng.below(4);
            (0..n).map(|_| random(rng, depth - 1)).collect()
        };
        match rng.below(if depth == 0 { 2 } else { 8 }) {
            0 => {
                let read = Read::Field(field(rng.below(4) as u16));
                Cond::In(read, ValueSet::range(1, 1))
            }
            1 if rng.one_in(2) => Cond::Always,
            1 => Cond::Never,
            2 | 3 => Cond::Any(some(rng)),
            4 => Cond::Not(Box::new(random(rng, depth - 1))),
            _ => Cond::All(some(rng)),
        }
    }

    /// Kleene's value of a condition for these bits; `None`: it cannot be said.
    fn value(c: &Cond, bits: [Option<bool>; 4]) -> Option<bool> {
        let any = |l: &[Cond], wanted: bool| {
            let all: Vec<_> = l.iter().map(|c| value(c, bits)).collect();
            match all.contains(&Some(wanted)) {
                true => Some(wanted),
                false => (!all.contains(&None)).then_some(!wanted),
            }
        };
        match c {
            Cond::Always => Some(true),
            Cond::Never => Some(false),
            Cond::In(Read::Field(f), _) => bits[f.bit as usize],
            Cond::Any(l) => any(l, true),
            Cond::All(l) => any(l, false),
            Cond::Not(c) => value(c, bits).map(|v| !v),
            _ => unreachable!("no other conditions are drawn"),
        }
    }

    /// Two of four readings cannot be said: everywhere the condition has Kleene's value.
    #[test]
    fn what_is_said_is_so_whatever_cannot_be() {
        let mut rng = Rng::new(7);
        for _ in 0..2000 {
            let mut w = World {
                dd: Dd::new(1 << 16, None),
                vars: Vars::default(),
                facts: Facts::entry(),
            };
            let known: Vec<_> = (0..2).map(|b| w.vars.packet(&mut w.dd, b, 1)).collect();
            let mut got: Vec<Got> = known.iter().cloned().map(Got::Is).collect();
            got.extend([Got::Not("the third"), Got::Not("the fourth")]);
            let reads: Vec<_> = (0..4).map(|b| Read::Field(field(b))).collect();
            let by = reads.iter().copied().zip(&got).collect();
            let c = random(&mut rng, 3);
            let p = partly(&mut w, &c, &by);
            assert!(p.unsaid == NO || p.cause.is_some());
            for n in 0..4u128 {
                let bits = [Some(n & 1 == 1), Some(n & 2 == 2), None, None];
                let here = (known.iter().enumerate()).fold(YES, |here, (i, v)| {
                    let is = bits::is_in(&mut w.dd, v, &ValueSet::range(n >> i & 1, n >> i & 1));
                    w.dd.and(here, is)
                });
                let [holds, unsaid] = [p.holds, p.unsaid].map(|f| w.dd.and(f, here) == here);
                let want = value(&c, bits);
                assert_eq!(
                    (holds, unsaid),
                    (want == Some(true), want.is_none()),
                    "{c:?}"
                );
            }
        }
    }
}
