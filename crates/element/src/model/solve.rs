//! Which values of what is read satisfy a list of conditions: a small search, for tests.
//!
//! Conditions are brought to a form without negation; what must hold narrows the values, alternatives are tried one
//! after the other. Everything that is read counts as independent of everything else, so "nothing satisfies it" is a
//! proof, and what is found may still be no packet (whoever makes packets of it tries).

use super::rng::Rng;
use super::{Base, Cond, Read, ValueSet, bits, max_of};
use onefold_packet::MAX_PACKET_LEN;
use std::collections::BTreeMap;

/// Intervals that a masked comparison may be written as; else its runs of bits are fields of their own.
const MAX_INTERVALS: usize = 64;

/// The values that something read may have; what is not listed may have any.
pub type Known = BTreeMap<Read, ValueSet>;

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// What was found was taken.
    Taken,
    /// Nothing, or nothing that was taken; all alternatives have been tried.
    Exhausted,
    /// Too many alternatives.
    GivenUp,
}

/// The same condition, or its opposite, without `Not` and `Masked`.
pub fn plainly(c: &Cond, wanted: bool) -> Cond {
    let all = |l: &[Cond]| l.iter().map(|c| plainly(c, wanted)).collect::<Vec<_>>();
    match c {
        Cond::Always | Cond::Never => match matches!(c, Cond::Always) == wanted {
            true => Cond::Always,
            false => Cond::Never,
        },
        Cond::In(r, s) => match wanted {
            true => Cond::In(*r, s.clone()),
            false => Cond::In(*r, s.complement(r.width())),
        },
        Cond::Not(c) => plainly(c, !wanted),
        Cond::All(l) if wanted => Cond::All(all(l)),
        Cond::Any(l) if !wanted => Cond::All(all(l)),
        Cond::All(l) | Cond::Any(l) => Cond::Any(all(l)),
        Cond::Masked { field, mask, value } => {
            if let Some(s) = ValueSet::masked(*mask, *value, field.bits, MAX_INTERVALS) {
                return plainly(&Cond::In(Read::Field(*field), s), wanted);
            }
            let bit = |of: u128, i: u8| of >> (field.bits - 1 - i) & 1;
            let mut runs = Vec::new();
            let mut i = 0;
            // Bound: the field's bits
            while i < field.bits {
                let (first, mut v) = (i, 0);
                while i < field.bits && bit(*mask, i) == 1 {
                    v = v << 1 | bit(*value, i);
                    i += 1;
                }
                if i > first {
                    let f = bits(field.base, field.bit + u16::from(first), i - first);
                    runs.push(Cond::In(Read::Field(f), ValueSet::one(v)));
                } else {
                    i += 1;
                }
            }
            plainly(&Cond::All(runs), wanted)
        }
    }
}

/// What holds of every packet.
pub fn axioms() -> Known {
    let longest = ValueSet::range(0, MAX_PACKET_LEN as u128);
    let lengths = [Read::Len, Read::NetLen, Read::TransportLen];
    let data = (Read::At(Base::Data), ValueSet::one(super::AT_ZERO));
    lengths
        .into_iter()
        .map(|r| (r, longest.clone()))
        .chain([data, (Read::PacketType, ValueSet::range(0, 6))])
        .collect()
}

/// Whether it certainly holds, or certainly does not.
fn status(c: &Cond, k: &Known) -> Option<bool> {
    match c {
        Cond::Always => Some(true),
        Cond::Never => Some(false),
        Cond::In(_, s) if s.is_empty() => Some(false),
        Cond::In(r, s) => match k.get(r) {
            Some(have) if have.is_disjoint(s) => Some(false),
            Some(have) if have.is_subset(s) => Some(true),
            Some(_) => None,
            None => s.is_full(r.width()).then_some(true),
        },
        Cond::All(l) => {
            let mut sure = Some(true);
            for c in l {
                match status(c, k) {
                    Some(false) => return Some(false),
                    None => sure = None,
                    Some(true) => {}
                }
            }
            sure
        }
        Cond::Any(l) => {
            let mut sure = Some(false);
            for c in l {
                match status(c, k) {
                    Some(true) => return Some(true),
                    None => sure = None,
                    Some(false) => {}
                }
            }
            sure
        }
        // brought to another form before
        Cond::Not(_) | Cond::Masked { .. } => None,
    }
}

/// Narrows `k` by what must hold. What is left are alternatives. `None`: nothing satisfies it.
fn narrow<'a>(k: &mut Known, mut todo: Vec<&'a Cond>) -> Option<Vec<&'a Cond>> {
    let mut open: Vec<&Cond> = Vec::new();
    loop {
        let mut narrowed = false;
        while let Some(c) = todo.pop() {
            match (status(c, k), c) {
                (Some(false), _) => return None,
                (Some(true), _) => {}
                (None, Cond::In(r, s)) => {
                    let both = match k.get(r) {
                        Some(have) => have.intersect(s),
                        None => s.clone(),
                    };
                    k.insert(*r, both);
                    marks(k, *r)?;
                    narrowed = true;
                }
                (None, Cond::All(l)) => todo.extend(l),
                (None, Cond::Any(l)) => {
                    let mut left = l.iter().filter(|c| status(c, k) != Some(false));
                    match (left.next(), left.next()) {
                        (Some(c), None) => todo.push(c),
                        _ => open.push(c),
                    }
                }
                (None, _) => return None,
            }
        }
        if !narrowed {
            return Some(open);
        }
        todo = std::mem::take(&mut open);
    }
}

/// A header that is marked has a place, and the other way round.
fn marks(k: &mut Known, r: Read) -> Option<()> {
    let (other, base) = match r {
        Read::HasNet => (Read::At(Base::Net), true),
        Read::HasMac => (Read::At(Base::Mac), true),
        Read::At(Base::Net) => (Read::HasNet, false),
        Read::At(Base::Mac) => (Read::HasMac, false),
        _ => return Some(()),
    };
    let marked = match k.get(&r)? {
        s if !s.contains(0) => true,
        s if s.single() == Some(0) => false,
        _ => return Some(()),
    };
    let set = match (marked, base) {
        (false, _) => ValueSet::one(0),
        (true, true) => ValueSet::range(1, max_of(16)),
        (true, false) => ValueSet::one(1),
    };
    let both = match k.get(&other) {
        Some(have) => have.intersect(&set),
        None => set,
    };
    let some = !both.is_empty();
    k.insert(other, both);
    some.then_some(())
}

/// Looks for values for which all of `todo` holds, and offers them to `found` until it takes some. `budget` counts
/// alternatives tried.
pub fn search(
    mut k: Known,
    todo: Vec<&Cond>,
    budget: &mut u32,
    rng: &mut Rng,
    found: &mut dyn FnMut(&Known) -> bool,
) -> Ended {
    let Some(mut open) = narrow(&mut k, todo) else {
        return Ended::Exhausted;
    };
    let alternatives = |c: &Cond, k: &Known| match c {
        Cond::Any(l) => l.iter().filter(|c| status(c, k) != Some(false)).count(),
        _ => 0,
    };
    let least = (0..open.len()).min_by_key(|i| alternatives(open[*i], &k));
    let Some(at) = least else {
        return match found(&k) {
            true => Ended::Taken,
            false => Ended::Exhausted,
        };
    };
    let Cond::Any(list) = open.swap_remove(at) else {
        return Ended::GivenUp;
    };
    let mut list: Vec<&Cond> = list
        .iter()
        .filter(|c| status(c, &k) != Some(false))
        .collect();
    let turn = rng.below(list.len() as u64) as usize;
    list.rotate_left(turn);
    let mut all = Ended::Exhausted;
    // Bound: `budget`
    for c in list {
        match budget.checked_sub(1) {
            Some(b) => *budget = b,
            None => return Ended::GivenUp,
        }
        let todo = open.iter().copied().chain([c]).collect();
        match search(k.clone(), todo, budget, rng, found) {
            Ended::Taken => return Ended::Taken,
            Ended::GivenUp => all = Ended::GivenUp,
            Ended::Exhausted => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field;

    fn ended(list: &[Cond]) -> (Ended, Option<Known>) {
        let list: Vec<Cond> = list.iter().map(|c| plainly(c, true)).collect();
        let mut known = None;
        let mut found = |k: &Known| {
            known = Some(k.clone());
            true
        };
        let todo = list.iter().collect();
        let e = search(axioms(), todo, &mut 1000, &mut Rng::new(1), &mut found);
        (e, known)
    }

    #[test]
    fn what_cannot_be_is_proven_and_what_can_be_found() {
        let tcp = || Cond::eq(field::IP_PROTO, 6);
        let port = |lo, hi| Cond::between(field::DPORT, lo, hi);
        let rule = tcp().and(port(10, 20).or(port(30, 40)));
        let (e, k) = ended(&[rule.clone(), port(15, 35), port(0, 20).not()]);
        assert_eq!(e, Ended::Taken);
        let k = k.unwrap();
        assert_eq!(k[&Read::Field(field::DPORT)], ValueSet::range(30, 35));
        assert_eq!(ended(&[rule.clone(), port(21, 29)]).0, Ended::Exhausted);
        assert_eq!(ended(&[rule, tcp().not()]).0, Ended::Exhausted);
        let long = Cond::at_least(Read::Len, MAX_PACKET_LEN as u128 + 1);
        assert_eq!(ended(&[long]).0, Ended::Exhausted);
        let net = Cond::In(Read::At(Base::Net), ValueSet::one(0));
        assert_eq!(ended(&[net, Cond::has_net()]).0, Ended::Exhausted);
    }

    #[test]
    fn masks_with_holes() {
        let m = Cond::Masked {
            field: field::IP_SRC,
            mask: 0xff0f_0ff0,
            value: 0x0a01_0230,
        };
        let (e, k) = ended(std::slice::from_ref(&m));
        assert_eq!((e, k.unwrap().len()), (Ended::Taken, axioms().len() + 3));
        assert_eq!(ended(&[m.clone(), m.not()]).0, Ended::Exhausted);
    }
}
