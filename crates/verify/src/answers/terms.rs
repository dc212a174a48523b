//! The condition of a model's case as filters, with headers at fixed places of a frame.

use onefold_element::model::{Base, Cond, FieldRef, Read, ValueSet, max_of};
use onefold_synth::program::{Dim, EndAt, Filter};

/// Most filters that one condition may be.
const MAX_TERMS: usize = 4096;
/// Most intervals that a mask may be.
const MASK_INTERVALS: usize = 256;

/// Where headers are in the frame.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The packet's first byte.
    pub data: i32,
    /// The network header's.
    pub net: i32,
    /// The transport header's.
    pub transport: i32,
}

impl Place {
    fn field(&self, f: FieldRef) -> Option<i32> {
        let base = match f.base {
            Base::Data => self.data,
            Base::Net => self.net,
            Base::Transport => self.transport,
            Base::Mac => return None,
        };
        Some(base * 8 + i32::from(f.bit))
    }
}

/// The alternatives of a condition. `None` where it cannot be said, or in too many only.
pub fn terms(c: &Cond, at: Place) -> Option<Vec<Filter>> {
    extend(vec![Filter::default()], c, false, at)
}

fn extend(base: Vec<Filter>, c: &Cond, negated: bool, at: Place) -> Option<Vec<Filter>> {
    let add = match (c, negated) {
        (Cond::Always, false) | (Cond::Never, true) => return Some(base),
        (Cond::Always, true) | (Cond::Never, false) => return Some(Vec::new()),
        (Cond::Not(c), _) => return extend(base, c, !negated, at),
        (Cond::All(list), false) | (Cond::Any(list), true) => {
            let mut all = base;
            for c in list {
                all = extend(all, c, negated, at)?;
            }
            return Some(all);
        }
        (Cond::Any(list), false) | (Cond::All(list), true) => {
            let mut all = Vec::new();
            for c in list {
                all.extend(extend(base.clone(), c, negated, at)?);
                if all.len() > MAX_TERMS {
                    return None;
                }
            }
            return Some(all);
        }
        (Cond::In(r, set), _) => {
            let set = match negated {
                true => set.complement(r.width()),
                false => set.clone(),
            };
            read_in(*r, &set, at)?
        }
        (Cond::Masked { field, mask, value }, _) => masked(*field, *mask, *value, negated, at)?,
    };
    if base.len().saturating_mul(add.len()) > MAX_TERMS {
        return None;
    }
    let mut out = Vec::with_capacity(base.len() * add.len());
    for b in &base {
        for a in &add {
            let mut f = b.clone();
            if a.0.iter().all(|(d, set)| f.narrow(*d, set, d.width())) {
                out.push(f);
            }
        }
    }
    Some(out)
}

fn one(d: Dim, set: ValueSet) -> Vec<Filter> {
    match (set.is_empty(), set.is_full(d.width())) {
        (true, _) => Vec::new(),
        (_, true) => vec![Filter::default()],
        _ => vec![Filter(vec![(d, set)])],
    }
}

fn read_in(r: Read, set: &ValueSet, at: Place) -> Option<Vec<Filter>> {
    let behind = |start: i32| {
        let moved = set.intervals().iter().map(|(l, h)| {
            let up = |v: u128| {
                v.saturating_add(start.unsigned_abs().into())
                    .min(max_of(32))
            };
            (up(*l), if *h >= max_of(32) { *h } else { up(*h) })
        });
        one(Dim::Len, ValueSet::from_intervals(moved))
    };
    Some(match r {
        Read::Field(f) => {
            let bit = at.field(f)?;
            one(Dim::Bits { bit, bits: f.bits }, set.clone())
        }
        Read::Len => behind(at.data),
        Read::NetLen => behind(at.net),
        Read::TransportLen => behind(at.transport),
        Read::Anno(a) => one(Dim::Anno(a), set.clone()),
        Read::PacketType => one(Dim::PacketType, set.clone()),
        Read::Check {
            check,
            base,
            offset,
        } => {
            let start = match base {
                Base::Data => at.data,
                _ => at.net,
            };
            let d = Dim::Check {
                check,
                at: start + i32::from(offset),
                end: EndAt::Same,
            };
            one(d, set.clone())
        }
        Read::HasNet => match set.contains(1) {
            true => vec![Filter::default()],
            false => Vec::new(),
        },
        Read::HasMac | Read::At(_) | Read::Route { .. } => return None,
    })
}

/// `field & mask == value`, as intervals where they are few, else run by run of the mask's bits.
fn masked(f: FieldRef, mask: u128, value: u128, negated: bool, at: Place) -> Option<Vec<Filter>> {
    let bit = at.field(f)?;
    let whole = Dim::Bits { bit, bits: f.bits };
    if let Some(set) = ValueSet::masked(mask, value, f.bits, MASK_INTERVALS) {
        let set = if negated { set.complement(f.bits) } else { set };
        return Some(one(whole, set));
    }
    let is = |i: u8, of: u128| of >> (f.bits - 1 - i) & 1 == 1;
    let mut runs: Vec<(Dim, ValueSet)> = Vec::new();
    let mut i = 0;
    // Bound: the field's bits
    while i < f.bits {
        let (first, mut v) = (i, 0u128);
        while i < f.bits && is(i, mask) {
            v = v << 1 | u128::from(is(i, value));
            i += 1;
        }
        if i > first {
            let d = Dim::Bits {
                bit: bit + i32::from(first),
                bits: i - first,
            };
            runs.push((d, ValueSet::one(v)));
        } else {
            i += 1;
        }
    }
    if !negated {
        return Some(vec![Filter(runs)]);
    }
    let differs = |(d, s): (Dim, ValueSet)| one(d, s.complement(d.width()));
    Some(runs.into_iter().flat_map(differs).collect())
}
