//! Where to look for packets that show a difference: at the stage where both sides part, in the terms of its epoch,
//! the values that bindings give included.

use super::dd::{NO, Ref, YES};
use super::packet::World;
use super::search::Told;
use super::sum::Sum;
use super::vars::Bit;
use super::witness::likely;
use crate::generate::read::Seen;
use crate::rng::Rng;
use onefold_element::model::{AnnoKey, ValueSet, max_of};
use onefold_synth::program::{Dim, Filter, StageId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Filters for one place.
const WANTS: u64 = 10;
/// Largest set that is taken along.
const MAX_NODES: usize = 100_000;
/// Most intervals of a condition.
const INTERVALS: usize = 64;

/// A place of the program where both sides part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seek {
    /// Stage.
    pub stage: StageId,
    /// Its action.
    pub action: Option<u32>,
    /// Some packets that would show it, in the epoch's terms.
    pub wants: Vec<Filter>,
    /// All of them, where models and program contradict each other, or do so where sums differ.
    pub set: Option<Set>,
    /// Terms of a checksum that make the difference; without any, the set says it all.
    pub sum: Option<Sums>,
}

/// Terms in ones'-complement arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    terms: Vec<(Set, u32)>,
    number: u32,
}

impl Sums {
    /// Do they come to anything?
    fn differ(&self, seen: &Seen) -> Option<bool> {
        let mut n = u64::from(self.number);
        for (f, weight) in &self.terms {
            if f.holds(seen)? {
                n += u64::from(*weight);
            }
        }
        Some(!Sum::is_nothing(n))
    }
}

impl Seek {
    /// Is a packet with which the program is there certainly one of those that are treated differently?
    pub fn certain(&self, seen: &Seen) -> bool {
        let sum = (self.sum.as_ref()).map_or(Some(true), |s| s.differ(seen));
        let here = self.set.as_ref().and_then(|s| s.holds(seen));
        (here, sum) == (Some(true), Some(true))
    }
}

/// A set of packets, to be asked without the diagrams that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Dimension, place of the bit from the least significant one, what holds for 0 and for 1: "no", "yes", or a
    /// place plus two.
    nodes: Vec<(Dim, u8, u32, u32)>,
    root: u32,
}

impl Set {
    /// Is the packet one of them? `None` where that needs what is not known.
    pub fn holds(&self, seen: &Seen) -> Option<bool> {
        let mut at = self.root;
        // Bound: every step leads to a later variable.
        loop {
            let i = match at {
                0 => return Some(false),
                1 => return Some(true),
                n => n as usize - 2,
            };
            let (d, bit, lo, hi) = *self.nodes.get(i)?;
            let v = seen.value(d)?;
            at = if v >> bit & 1 == 1 { hi } else { lo };
        }
    }
}

/// What variables are in a program's terms.
struct Terms {
    /// Levels of what slots hold.
    slots: HashMap<u32, (Dim, u8)>,
}

impl Terms {
    fn of(w: &World, t: &Told) -> Terms {
        let mut slots = HashMap::new();
        for (s, v) in &t.slots {
            for (i, f) in v.iter().rev().enumerate() {
                if let Some(level) = w.dd.is_var(*f)
                    && matches!(w.vars.bit(level), Some(Bit::Bound(..)))
                {
                    slots
                        .entry(level)
                        .or_insert((Dim::Slot(*s), i.min(127) as u8));
                }
            }
        }
        Terms { slots }
    }

    fn dim(&self, w: &World, level: u32) -> Option<(Dim, u8)> {
        Some(match w.vars.bit(level)? {
            Bit::Packet(bit) => (Dim::Bits { bit, bits: 1 }, 0),
            Bit::Len(i) => (Dim::Len, 31 - i.min(31)),
            Bit::Check((check, at, end)) => (Dim::Check { check, at, end }, 0),
            Bit::Anno(i) => {
                let key = AnnoKey {
                    offset: (i / 8) as u8,
                    size: 1,
                };
                (Dim::Anno(key), 7 - (i % 8) as u8)
            }
            Bit::Type(i) => (Dim::PacketType, 7 - i.min(7)),
            Bit::Bound(..) => *self.slots.get(&level)?,
            Bit::Apart(_) | Bit::Route(..) | Bit::Decided(..) => return None,
        })
    }
}

/// Where to look for the packets of something that was told.
pub fn seek(w: &mut World, t: &Told) -> Seek {
    let terms = Terms::of(w, t);
    let mut wants = Vec::new();
    for i in 0..WANTS {
        let mut rng = Rng::new(0x5eec ^ i << 8);
        let mut f = t.here;
        if i % 5 < 4 {
            for l in likely(w, (i % 5) as usize) {
                let both = w.dd.and(f, l);
                if both != NO {
                    f = both;
                }
            }
        }
        let picked = match i < 4 {
            true => w.dd.pick(f),
            false => w.dd.pick_by(f, &mut |_| rng.one_in(2)),
        };
        let Some(picked) = picked else { continue };
        let filter = filter(w, &terms, &picked, &mut rng);
        if !wants.contains(&filter) {
            wants.push(filter);
        }
    }
    let sum = t.sum.as_ref().and_then(|s| sums(w, &terms, s));
    Seek {
        stage: t.stage,
        action: t.action,
        wants,
        set: match t.contradicts || sum.is_some() {
            true => set(w, &terms, t.here),
            false => None,
        },
        sum,
    }
}

fn sums(w: &World, terms: &Terms, s: &Sum) -> Option<Sums> {
    let (list, number) = s.terms();
    let list: Option<Vec<(Set, u32)>> = list.map(|(f, n)| Some((set(w, terms, f)?, n))).collect();
    Some(Sums {
        terms: list?,
        number,
    })
}

fn set(w: &World, terms: &Terms, here: Ref) -> Option<Set> {
    let mut nodes = Vec::new();
    let mut places: HashMap<Ref, u32> = HashMap::from([(NO, 0), (YES, 1)]);
    // sides before what looks at them
    let mut stack = vec![here];
    while let Some(&f) = stack.last() {
        if places.contains_key(&f) {
            stack.pop();
            continue;
        }
        let (level, lo, hi) = w.dd.parts(f)?;
        match (places.get(&lo), places.get(&hi)) {
            (Some(a), Some(b)) => {
                let (d, bit) = terms.dim(w, level)?;
                nodes.push((d, bit, *a, *b));
                if nodes.len() > MAX_NODES {
                    return None;
                }
                places.insert(f, nodes.len() as u32 + 1);
                stack.pop();
            }
            (None, _) => stack.push(lo),
            (_, None) => stack.push(hi),
        }
    }
    Some(Set {
        nodes,
        root: *places.get(&here)?,
    })
}

/// Fields of a packet whose network header is at this byte: first bit and bits.
fn fields(net: i32, v6: bool) -> Vec<(i32, u8)> {
    let mut all = Vec::new();
    let mut at = (net - 14) * 8;
    let v4: &[u8] = &[8, 8, 16, 16, 16, 8, 8, 16, 32, 32];
    let ip: &[u8] = if v6 {
        &[4, 8, 20, 16, 8, 8, 128, 128]
    } else {
        v4
    };
    for bits in [48, 48, 16]
        .iter()
        .chain(ip)
        .chain(&[16, 16, 32, 32, 8, 8, 16, 16])
    {
        all.push((at, *bits));
        at += i32::from(*bits);
    }
    all
}

/// Values of variables as a packet filter, field by field, so that what is written to a field can be undone.
fn filter(w: &World, terms: &Terms, picked: &[(u32, bool)], rng: &mut Rng) -> Filter {
    let mut dims: BTreeMap<Dim, (u128, u128)> = BTreeMap::new();
    let mut bits: BTreeMap<i32, bool> = BTreeMap::new();
    for (level, v) in picked {
        match terms.dim(w, *level) {
            Some((Dim::Bits { bit, .. }, _)) => {
                bits.insert(bit, *v);
            }
            Some((d, i)) => {
                let (mask, value) = dims.entry(d).or_default();
                *mask |= 1 << i;
                *value |= u128::from(*v) << i;
            }
            None => {}
        }
    }
    let (net, len) = w.facts.net.unwrap_or((14, Some(20)));
    let bit_of = |i: i32| bits.get(&i).copied();
    let kind = (0..16).try_fold(0u32, |v, i| {
        Some(v << 1 | u32::from(bit_of((net - 2) * 8 + i)?))
    });
    let table = fields(net, len == Some(40) || kind == Some(0x86dd));
    let mut fields: BTreeSet<(i32, u8)> = BTreeSet::new();
    for i in bits.keys() {
        let field = table
            .iter()
            .find(|(at, n)| (*at..*at + i32::from(*n)).contains(i));
        fields.insert(field.copied().unwrap_or((i.div_euclid(8) * 8, 8)));
    }
    for (at, n) in fields {
        let (mut mask, mut value) = (0u128, 0u128);
        for i in 0..i32::from(n) {
            let v = bit_of(at + i);
            mask = mask << 1 | u128::from(v.is_some());
            value = value << 1 | u128::from(v == Some(true));
        }
        dims.insert(Dim::Bits { bit: at, bits: n }, (mask, value));
    }
    let mut f = Filter::default();
    for (d, (mask, value)) in dims {
        let width = match d {
            Dim::Slot(s) => t_bits(terms, s),
            d => d.width(),
        };
        let all = max_of(width);
        let (mask, value) = (mask & all, value & all);
        let set = ValueSet::masked(mask, value, width, INTERVALS);
        let set = set.unwrap_or_else(|| ValueSet::one(value | (rng.wide() & !mask & all)));
        f.narrow(d, &set, width);
    }
    f
}

/// A slot's bits, as far as they are variables.
fn t_bits(terms: &Terms, s: onefold_synth::program::Slot) -> u8 {
    let mine = terms.slots.values().filter(|(d, _)| *d == Dim::Slot(s));
    mine.map(|(_, i)| i + 1).max().unwrap_or(1)
}
