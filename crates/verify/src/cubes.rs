//! Sets of packets as cubes: a [`Filter`] is a conjunction of one value set per dimension. Dimensions are not
//! independent (fields overlap, an IP packet that fits is no longer than the frame, there are no bits behind the end);
//! what they say of each other is worked out here.
//!
//! Everything errs on one side: a cube that is said to be empty is empty, one packet that fits a cube fits what
//! [`tightened`] makes of it.

mod lengths;

use lengths::lengths;
use onefold_element::model::{ValueSet, max_of};
use onefold_synth::program::{Dim, EndAt, Filter, Program};

/// Rounds in which dimensions narrow each other.
const MAX_ROUNDS: usize = 6;
/// Sets of more intervals are not narrowed by fields that they overlap.
const MAX_INTERVALS: usize = 128;
/// Longest packet that is thought of: what a buffer's length can be.
const MAX_LEN: u128 = 1 << 31;

/// Width of a dimension in a program.
pub fn width(p: &Program, d: Dim) -> u8 {
    match d {
        Dim::Slot(s) => p.slots.get(usize::from(s.0)).map_or(128, |i| i.bits),
        d => d.width(),
    }
}

/// From the smallest value to the largest.
pub fn hull(set: &ValueSet) -> ValueSet {
    match (set.intervals().first(), set.intervals().last()) {
        (Some((lo, _)), Some((_, hi))) => ValueSet::range(*lo, *hi),
        _ => ValueSet::empty(),
    }
}

/// The values that `bits` bits have which are followed by `low` bits, in numbers of this set.
pub fn bits_of(set: &ValueSet, low: u32, bits: u8) -> ValueSet {
    let max = max_of(bits);
    let shr = |v: u128| v.checked_shr(low).unwrap_or(0);
    let mut parts = Vec::with_capacity(set.intervals().len() + 1);
    for (lo, hi) in set.intervals() {
        let (a, b) = (shr(*lo), shr(*hi));
        if b - a >= max {
            return ValueSet::full(bits);
        }
        let (a, b) = (a & max, b & max);
        if a <= b {
            parts.push((a, b));
        } else {
            parts.push((a, max));
            parts.push((0, b));
        }
    }
    ValueSet::from_intervals(parts)
}

/// A field within wider numbers.
#[derive(Clone, Copy)]
struct Part<'a> {
    /// Bits behind it.
    low: u32,
    /// Its own.
    bits: u8,
    /// What it may be.
    set: &'a ValueSet,
    /// Width of the whole.
    whole: u8,
}

impl Part<'_> {
    fn split(&self, v: u128) -> (u128, u128) {
        let field = v.checked_shr(self.low).unwrap_or(0) & max_of(self.bits);
        let top = self.low + u32::from(self.bits);
        (v.checked_shr(top).unwrap_or(0), field)
    }
    fn join(&self, high: u128, field: u128, rest: u128) -> u128 {
        let top = self.low + u32::from(self.bits);
        let high = high.checked_shl(top).unwrap_or(0);
        high | field.checked_shl(self.low).unwrap_or(0) | rest
    }
    fn low_ones(&self) -> u128 {
        match self.low {
            0 => 0,
            n => max_of(n.min(128) as u8),
        }
    }
    /// The smallest number from `v` on whose field is in the set.
    fn from(&self, v: u128) -> Option<u128> {
        let (high, field) = self.split(v);
        if self.set.contains(field) {
            return Some(v);
        }
        let next = self.set.intervals().iter().find(|(lo, _)| *lo > field);
        if let Some((lo, _)) = next {
            return Some(self.join(high, *lo, 0));
        }
        let room = u32::from(self.whole).saturating_sub(self.low + u32::from(self.bits));
        let most = if room == 0 { 0 } else { max_of(room as u8) };
        let (first, _) = self.set.intervals().first()?;
        (high < most).then(|| self.join(high + 1, *first, 0))
    }
    /// The largest number up to `v` whose field is in the set.
    fn until(&self, v: u128) -> Option<u128> {
        let (high, field) = self.split(v);
        if self.set.contains(field) {
            return Some(v);
        }
        let ones = self.low_ones();
        let before = self
            .set
            .intervals()
            .iter()
            .rev()
            .find(|(_, hi)| *hi < field);
        if let Some((_, hi)) = before {
            return Some(self.join(high, *hi, ones));
        }
        let (_, last) = self.set.intervals().last()?;
        (high > 0).then(|| self.join(high - 1, *last, ones))
    }
}

/// Numbers of `set` whose field may be in `part`: every interval is cut at both ends to where it is.
fn with_part(set: &ValueSet, part: Part<'_>) -> ValueSet {
    let cut = |(lo, hi): &(u128, u128)| {
        let (a, b) = (part.from(*lo)?, part.until(*hi)?);
        (a <= b).then_some((a, b))
    };
    ValueSet::from_intervals(set.intervals().iter().filter_map(cut))
}

/// What can be said of some bits by a cube, from all its dimensions that overlap them.
pub fn bits_in(cube: &Filter, bit: i32, bits: u8) -> ValueSet {
    let mut out = ValueSet::full(bits);
    let end = bit + i32::from(bits);
    for (d, set) in &cube.0 {
        let Dim::Bits { bit: b, bits: n } = *d else {
            continue;
        };
        let e = b + i32::from(n);
        if b >= end || e <= bit {
            continue;
        }
        if b <= bit && e >= end {
            out = out.intersect(&bits_of(set, (e - end) as u32, bits));
        } else if set.intervals().len() <= MAX_INTERVALS {
            // the bits in common
            let (from, to) = (b.max(bit), e.min(end));
            let common = bits_of(set, (e - to) as u32, (to - from) as u8);
            let part = Part {
                low: (end - to) as u32,
                bits: (to - from) as u8,
                set: &common,
                whole: bits,
            };
            out = with_part(&out, part);
        }
    }
    out
}

/// The values of a dimension that a cube allows.
pub fn values(p: &Program, cube: &Filter, d: Dim) -> ValueSet {
    match d {
        Dim::Bits { bit, bits } => bits_in(cube, bit, bits),
        d => (cube.get(d).cloned()).unwrap_or_else(|| ValueSet::full(width(p, d))),
    }
}

fn lowest(f: &Filter, d: Dim) -> u128 {
    f.get(d)
        .and_then(|s| s.intervals().first())
        .map_or(0, |i| i.0)
}

fn highest(f: &Filter, d: Dim, all: u128) -> u128 {
    f.get(d)
        .and_then(|s| s.intervals().last())
        .map_or(all, |i| i.1)
}

/// The cube with all that its dimensions say of each other; `None` when no packet fits. `tight`: the packet is known to
/// end where the IP packet ends whose header is there.
pub fn tightened(cube: &Filter, tight: Option<EndAt>) -> Option<Filter> {
    let mut out = cube.clone();
    for _ in 0..MAX_ROUNDS {
        let before = out.clone();
        overlaps(&mut out)?;
        lengths(&mut out, tight)?;
        if out == before {
            break;
        }
    }
    Some(out)
}

/// Fields that overlap agree on the bits in common.
fn overlaps(f: &mut Filter) -> Option<()> {
    let fields = |f: &Filter, i: usize| match f.0.get(i) {
        Some((Dim::Bits { bit, bits }, _)) => Some((*bit, bit + i32::from(*bits))),
        _ => None,
    };
    for i in 0..f.0.len() {
        let Some((a, a_end)) = fields(f, i) else {
            continue;
        };
        for j in i + 1..f.0.len() {
            let Some((b, b_end)) = fields(f, j) else {
                break;
            };
            if b >= a_end {
                break;
            }
            let (from, to) = (a.max(b), a_end.min(b_end));
            if from >= to {
                continue;
            }
            let bits = (to - from) as u8;
            let (sa, sb) = (&f.0[i].1, &f.0[j].1);
            let one = bits_of(sa, (a_end - to) as u32, bits);
            let other = bits_of(sb, (b_end - to) as u32, bits);
            let both = one.intersect(&other);
            if both.is_empty() {
                return None;
            }
            if both.intervals().len() > MAX_INTERVALS {
                continue;
            }
            let narrow = |s: &ValueSet, start: i32, end: i32, known: &ValueSet| {
                if *known == both || s.intervals().len() > MAX_INTERVALS {
                    return s.clone();
                }
                let part = Part {
                    low: (end - to) as u32,
                    bits,
                    set: &both,
                    whole: (end - start) as u8,
                };
                with_part(s, part)
            };
            let (na, nb) = (narrow(sa, a, a_end, &one), narrow(sb, b, b_end, &other));
            if na.is_empty() || nb.is_empty() {
                return None;
            }
            f.0[i].1 = na;
            f.0[j].1 = nb;
        }
    }
    Some(())
}

/// Both; `None` when no packet fits.
pub fn both(p: &Program, a: &Filter, b: &Filter) -> Option<Filter> {
    let (big, small) = match a.0.len() >= b.0.len() {
        true => (a, b),
        false => (b, a),
    };
    let mut out = big.clone();
    for (d, set) in &small.0 {
        if !out.narrow(*d, set, width(p, *d)) {
            return None;
        }
    }
    Some(out)
}

/// All packets of either, and perhaps more.
pub fn either(p: &Program, a: &Filter, b: &Filter, limit: usize) -> Filter {
    let mut out = Filter::default();
    for (d, x) in &a.0 {
        let Some(y) = b.get(*d) else { continue };
        let mut set = x.union(y);
        if set.intervals().len() > limit {
            set = hull(&set);
        }
        if !set.is_full(width(p, *d)) {
            out.0.push((*d, set));
        }
    }
    out
}

/// What a search for packets that earlier rules leave came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// There are none.
    Nothing,
    /// There may be: no rule takes this part.
    Something,
    /// The bound was reached.
    TooLong,
}

/// Filters that one step of a search looks at.
pub const PER_STEP: usize = 16;

/// Is there a packet in `cube` that none of `earlier` takes? Exact as far as [`tightened`] is, within `steps` (each
/// pays for [`PER_STEP`] filters that are looked at); each part that is left is told to `part`, which ends the search
/// with true.
pub fn left(
    p: &Program,
    cube: &Filter,
    tight: Option<EndAt>,
    earlier: &[&Filter],
    steps: &mut usize,
    part: &mut dyn FnMut(&Filter) -> bool,
) -> Left {
    let Some(cube) = tightened(cube, tight) else {
        return Left::Nothing;
    };
    if earlier.iter().any(|e| e.covers(&cube)) {
        return Left::Nothing;
    }
    let rest: Vec<&Filter> = (earlier.iter().copied())
        .filter(|e| !e.is_disjoint(&cube))
        .collect();
    // the one that asks the least beyond what is known leaves the fewest parts
    let asks = |e: &Filter| {
        let more = |(d, s): &&(Dim, ValueSet)| cube.get(*d).is_none_or(|c| !c.is_subset(s));
        e.0.iter().filter(more).count()
    };
    let Some((i, e)) = (rest.iter().enumerate()).min_by_key(|(_, e)| asks(e)) else {
        return match part(&cube) {
            true => Left::Something,
            false => Left::Nothing,
        };
    };
    let others: Vec<&Filter> = (rest.iter().enumerate())
        .filter(|(j, _)| *j != i)
        .map(|(_, e)| *e)
        .collect();
    let mut inside = cube;
    let mut result = Left::Nothing;
    for (d, set) in &e.0 {
        let w = width(p, *d);
        if let Some(outside) = inside.and(*d, &set.complement(w), w) {
            if *steps == 0 {
                return Left::TooLong;
            }
            *steps = steps.saturating_sub(1 + others.len() / PER_STEP);
            match left(p, &outside, tight, &others, steps, part) {
                Left::Something => return Left::Something,
                Left::TooLong => result = Left::TooLong,
                Left::Nothing => {}
            }
            if result == Left::TooLong {
                return result;
            }
        }
        if !inside.narrow(*d, set, w) {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::HeaderCheck;
    use proptest::prelude::*;

    fn bits(bit: i32, bits: u8) -> Dim {
        Dim::Bits { bit, bits }
    }

    fn cube(parts: &[(Dim, ValueSet)]) -> Filter {
        let mut f = Filter::default();
        for (d, s) in parts {
            f.narrow(*d, s, d.width());
        }
        f
    }

    fn check(check: HeaderCheck, at: i32, yes: u128) -> (Dim, ValueSet) {
        let end = EndAt::Same;
        (Dim::Check { check, at, end }, ValueSet::one(yes))
    }

    proptest! {
        /// Twelve bits, looked at through three windows.
        #[test]
        fn what_overlaps_agrees(
            windows in proptest::collection::vec((0i32..12, 1i32..12, 0u128..4096, 0u128..4096), 1..4),
        ) {
            let parts: Vec<(Dim, ValueSet)> = windows.iter().map(|(at, n, a, b)| {
                let n = (*n).min(12 - at) as u8;
                let (a, b) = (a & max_of(n), b & max_of(n));
                (bits(*at, n), ValueSet::range(a.min(b), a.max(b)))
            }).collect();
            let mut f = Filter::default();
            let possible = parts.iter().all(|(d, s)| f.narrow(*d, s, d.width()));
            let read = |v: u128, d: Dim| match d {
                Dim::Bits { bit, bits } => (v >> (12 - bit - i32::from(bits))) & max_of(bits),
                _ => 0,
            };
            let fits = |f: &Filter, v: u128| f.0.iter().all(|(d, s)| s.contains(read(v, *d)));
            let any = (0..4096).any(|v| possible && fits(&f, v));
            // a packet of two bytes, so that no bit is behind the end
            let mut with_len = f.clone();
            with_len.narrow(Dim::Len, &ValueSet::one(2), 32);
            match tightened(&with_len, None).filter(|_| possible) {
                None => prop_assert!(!any),
                Some(t) => for v in (0..4096).filter(|v| fits(&f, *v)) {
                    let mut t = t.clone();
                    t.0.retain(|(d, _)| *d != Dim::Len);
                    prop_assert!(fits(&t, v));
                    prop_assert!(bits_in(&f, 3, 5).contains(read(v, bits(3, 5))));
                },
            }
        }
    }

    #[test]
    fn lengths_are_understood() {
        let len = |l, h| (Dim::Len, ValueSet::range(l, h));
        let total = bits(16 * 8, 16);
        let fits = |yes| check(HeaderCheck::Ip4Fits, 14, yes);
        let none = |parts: &[_]| assert_eq!(tightened(&cube(parts), None), None, "{parts:?}");
        none(&[len(34, 60), fits(1), (total, ValueSet::range(47, 100))]);
        none(&[len(14, 33), fits(1)]);
        none(&[len(34, 99), fits(0), (total, ValueSet::range(0, 20))]);
        none(&[len(0, 20), (bits(14 * 8 + 64, 8), ValueSet::one(7))]);
        none(&[len(13, 13), (bits(96, 16), ValueSet::one(0x0806))]);
        let f = cube(&[
            (Dim::Len, ValueSet::range(0, 13)),
            (bits(96, 16), ValueSet::one(0x0800)),
        ]);
        let f = tightened(&f, None);
        assert_eq!(
            f.and_then(|f| f.get(Dim::Len).cloned()),
            Some(ValueSet::one(13))
        );
        none(&[
            len(54, 54),
            check(HeaderCheck::TcpChecksum, 14, 1),
            (bits(14 * 8 + 4, 4), ValueSet::one(6)),
        ]);
        let some = tightened(&cube(&[len(34, 60), fits(1)]), None);
        assert_eq!(
            some.and_then(|f| f.get(total).cloned()),
            Some(ValueSet::range(0, 46))
        );
        // a packet that ends where its IP packet ends
        let tight = Some(EndAt::Ip4(0));
        let f = cube(&[len(28, 1500), (bits(16, 16), ValueSet::range(1501, 65535))]);
        assert_eq!(tightened(&f, tight), None);
        // the type of service, length and identification at once, against the length alone
        let wide = bits(0, 48);
        let f = cube(&[
            (wide, ValueSet::one(0x4500_0000_0000)),
            (bits(16, 16), ValueSet::range(28, 65535)),
        ]);
        assert_eq!(tightened(&f, None), None);
    }

    #[test]
    fn earlier_rules_leave_something_or_nothing() {
        let p = Program::default();
        let f = |l: u128, h: u128| cube(&[(bits(0, 8), ValueSet::range(l, h))]);
        let (a, b, c) = (f(0, 99), f(100, 200), f(150, 255));
        let ask = |all: &[&Filter]| {
            let mut steps = 100;
            left(&p, &f(50, 255), None, all, &mut steps, &mut |_| true)
        };
        assert_eq!(ask(&[&a, &b]), Left::Something);
        assert_eq!(ask(&[&a, &b, &c]), Left::Nothing);
        assert_eq!(either(&p, &a, &b, 8), f(0, 200));
        assert_eq!(both(&p, &b, &c), Some(f(150, 200)));
        assert_eq!(both(&p, &a, &c), None);
    }
}
