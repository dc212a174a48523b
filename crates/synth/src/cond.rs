//! A model's condition, read in the state of a path, as alternatives over the epoch's dimensions.

use crate::layout::Layout;
use crate::program::{Dim, Expr, Filter};
use crate::state::{Got, Need, State};
use onefold_element::model::{Cond, FieldRef, Read, ValueSet, max_of};

/// Most intervals that a mask may turn into before its bits become dimensions of their own.
const MASK_INTERVALS: usize = 256;

/// Why a condition has no alternatives here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// What the path needs first.
    Need(Need),
    /// More alternatives than the budget allows.
    TooBig,
}

impl From<Need> for Trouble {
    fn from(n: Need) -> Self {
        Trouble::Need(n)
    }
}

type Terms = Vec<Filter>;

/// The width of a dimension on this path.
pub fn width(s: &State, d: Dim) -> u8 {
    match d {
        Dim::Slot(slot) => s
            .slots
            .iter()
            .find(|p| p.slot == slot)
            .map_or(128, |p| p.bits),
        d => d.width(),
    }
}

/// The alternatives in which `c` holds; none: never; one that is empty: always.
pub fn terms(c: &Cond, s: &State, hint: Layout, limit: usize) -> Result<Terms, Trouble> {
    let start = vec![Filter::default()];
    extend(start, c, false, s, hint, limit)
}

/// Adds a condition (or its opposite) to every alternative.
fn extend(
    base: Terms,
    c: &Cond,
    negated: bool,
    s: &State,
    hint: Layout,
    limit: usize,
) -> Result<Terms, Trouble> {
    if base.is_empty() {
        return Ok(base);
    }
    let add = match (c, negated) {
        (Cond::Always, false) | (Cond::Never, true) => return Ok(base),
        (Cond::Always, true) | (Cond::Never, false) => return Ok(Vec::new()),
        (Cond::Not(c), _) => return extend(base, c, !negated, s, hint, limit),
        (Cond::All(list), false) | (Cond::Any(list), true) => {
            let mut t = base;
            for c in list {
                t = extend(t, c, negated, s, hint, limit)?;
            }
            return Ok(t);
        }
        (Cond::Any(list), false) | (Cond::All(list), true) => {
            let mut all: Terms = Vec::new();
            for c in list {
                for t in extend(base.clone(), c, negated, s, hint, limit)? {
                    // an alternative that an earlier one covers adds nothing
                    if !(all.len() < 64 && all.iter().any(|a| a.covers(&t))) {
                        all.push(t);
                    }
                }
                if all.len() > limit {
                    return Err(Trouble::TooBig);
                }
            }
            return Ok(all);
        }
        (Cond::In(r, set), _) => {
            let set = match negated {
                true => set.complement(r.width()),
                false => set.clone(),
            };
            read_in(*r, &set, s, hint, &base)?
        }
        (Cond::Masked { field, mask, value }, _) => {
            masked(*field, *mask, *value, negated, s, hint, &base)?
        }
    };
    let mut out = Vec::new();
    for b in &base {
        for a in &add {
            let mut f = b.clone();
            if a.0.iter().all(|(d, set)| f.narrow(*d, set, width(s, *d))) {
                out.push(f);
            }
        }
        if out.len() > limit {
            return Err(Trouble::TooBig);
        }
    }
    Ok(out)
}

fn always() -> Terms {
    vec![Filter::default()]
}

fn when(b: bool) -> Terms {
    if b { always() } else { Vec::new() }
}

fn one(d: Dim, set: ValueSet) -> Terms {
    if set.is_empty() {
        Vec::new()
    } else {
        vec![Filter(vec![(d, set)])]
    }
}

/// What the alternatives so far say of the layout (all the same, or nothing).
fn layout(s: &State, hint: Layout, base: &[Filter]) -> Layout {
    if s.layout() != Layout::Unknown {
        return s.layout();
    }
    if hint != Layout::Unknown {
        return hint;
    }
    let mut all = base.iter().map(Layout::of);
    match all.next() {
        Some(l) if all.all(|o| o == l) => l,
        _ => Layout::Unknown,
    }
}

fn read_in(
    r: Read,
    set: &ValueSet,
    s: &State,
    hint: Layout,
    base: &[Filter],
) -> Result<Terms, Trouble> {
    let full = set.is_full(r.width());
    if full {
        return Ok(always());
    }
    if set.is_empty() {
        return Ok(Vec::new());
    }
    if let Read::Field(f) = r
        && let Some(v) = set.single()
        && f.bits < 128
    {
        // one value of bits that may be parts of several fields
        return masked(f, max_of(f.bits), v, false, s, hint, base);
    }
    match s.read(r)? {
        Got::Expr(e) => expr_in(e, set, s, hint, base),
        Got::Less(d, less) => {
            let max = max_of(d.width()) as i128;
            let moved = set.intervals().iter().filter_map(|(l, h)| {
                let up = |v: &u128| {
                    i128::try_from(*v)
                        .unwrap_or(i128::MAX)
                        .saturating_add(i128::from(less))
                };
                // no upper bound is none for a packet that has grown since either: no length comes near it
                let h = match *h >= u128::from(u32::MAX) {
                    true => max,
                    false => up(h).min(max),
                };
                let l = up(l).max(0);
                (l <= h).then_some((l as u128, h as u128))
            });
            Ok(one_unless_full(
                d,
                ValueSet::from_intervals(moved),
                d.width(),
            ))
        }
        Got::Type(e, device) => packet_type(e, device, set, s, hint, base),
    }
}

fn one_unless_full(d: Dim, set: ValueSet, bits: u8) -> Terms {
    match set.is_full(bits) {
        true => always(),
        false => one(d, set),
    }
}

fn expr_in(
    e: Expr,
    set: &ValueSet,
    s: &State,
    hint: Layout,
    base: &[Filter],
) -> Result<Terms, Trouble> {
    let (d, add) = match e {
        Expr::Const(c) => return Ok(when(set.contains(c))),
        Expr::Of(d, add) => (d, add),
    };
    if let Dim::Slot(slot) = d {
        let Some(p) = s.slots.iter().find(|p| p.slot == slot) else {
            return Err(Need::Punt("a slot that nothing fills").into());
        };
        let set = set.shifted_back(add, p.bits);
        if p.set.is_subset(&set) {
            return Ok(always());
        }
        if p.set.is_disjoint(&set) {
            return Ok(Vec::new());
        }
        if !p.readable {
            return Err(Need::Stage.into());
        }
        return Ok(one(d, set));
    }
    let bits = d.width();
    let set = match add {
        0 => set.intersect(&ValueSet::full(bits)),
        n => set.shifted_back(n, bits),
    };
    let Dim::Bits { bit, bits } = d else {
        return Ok(one_unless_full(d, set, bits));
    };
    // part of a field: the condition is one on the field where that takes few intervals
    let l = layout(s, hint, base);
    let (f_bit, f_bits) = match l {
        // behind an Ethernet header anything may stand
        Layout::Unknown if bit >= 112 => (bit, bits),
        l => l.field_at(bit),
    };
    let f_end = f_bit + i32::from(f_bits);
    let end = bit + i32::from(bits);
    if l != Layout::Unknown
        && f_bit == bit
        && f_end < end
        && let Some((high, low)) = product(&set, bits, f_bits)
        && !s.touched(bit, bits)
    {
        // a word of several fields (flags and fragment offset): a condition on each
        let rest = Dim::Bits {
            bit: f_end,
            bits: bits - f_bits,
        };
        let first = Dim::Bits {
            bit: f_bit,
            bits: f_bits,
        };
        let mut out = one_unless_full(first, high, f_bits);
        for t in &mut out {
            t.narrow(rest, &low, bits - f_bits);
        }
        return Ok(out);
    }
    if (f_bit, f_bits) == (bit, bits) || end > f_end || s.touched(f_bit, f_bits) {
        return Ok(one_unless_full(d, set, bits));
    }
    let (above, below) = ((bit - f_bit) as u32, (f_end - end) as u32);
    let copies = 1u128.checked_shl(above).unwrap_or(u128::MAX);
    let widened = |(l, h): &(u128, u128), top: u128| {
        // nothing is above where the field's first bits are meant, of fields of 128 bits too
        let t = top.checked_shl(u32::from(bits) + below).unwrap_or(0);
        let ones = (1u128 << below) - 1;
        (t | l << below, t | h << below | ones)
    };
    if copies.saturating_mul(set.intervals().len() as u128) > MASK_INTERVALS as u128 {
        return Ok(one_unless_full(d, set, bits));
    }
    let all = (0..copies).flat_map(|top| set.intervals().iter().map(move |i| widened(i, top)));
    let whole = Dim::Bits {
        bit: f_bit,
        bits: f_bits,
    };
    Ok(one_unless_full(
        whole,
        ValueSet::from_intervals(all),
        f_bits,
    ))
}

/// The set of values of `bits` bits as one of the `above` first bits and one of the others, where it is all pairs of
/// both.
fn product(set: &ValueSet, bits: u8, above: u8) -> Option<(ValueSet, ValueSet)> {
    let below = bits.checked_sub(above).filter(|b| *b > 0)?;
    if set.intervals().len() > MASK_INTERVALS {
        return None;
    }
    let max = max_of(below);
    let high = ValueSet::from_intervals(
        set.intervals()
            .iter()
            .map(|(l, h)| (l >> below, h >> below)),
    );
    let low = ValueSet::from_intervals(set.intervals().iter().flat_map(|(l, h)| {
        match (h >> below) - (l >> below) {
            0 => [(l & max, h & max); 2],
            1 => [(l & max, max), (0, h & max)],
            _ => [(0, max); 2],
        }
    }));
    let pairs = high.count()?.checked_mul(low.count()?)?;
    (Some(pairs) == set.count()).then_some((high, low))
}

/// `field & mask == value` (or the opposite), piece by piece.
fn masked(
    field: FieldRef,
    mask: u128,
    value: u128,
    negated: bool,
    s: &State,
    hint: Layout,
    base: &[Filter],
) -> Result<Terms, Trouble> {
    let at = s.place(field)?;
    let end = at + i32::from(field.bits);
    let l = layout(s, hint, base);
    let mut pieces: Vec<Terms> = Vec::new();
    let mut bit = at;
    while bit < end {
        let (f_bit, f_bits) = l.field_at(bit);
        // pieces end where fields end, and where something written begins or ends
        let mut stop = (f_bit + i32::from(f_bits)).min(end);
        for w in &s.writes {
            for edge in [w.bit, w.bit + i32::from(w.bits)] {
                if bit < edge && edge < stop {
                    stop = edge;
                }
            }
        }
        let n = (stop - bit) as u8;
        let shift = (end - stop) as u32;
        let m = (mask >> shift) & max_of(n);
        let v = (value >> shift) & max_of(n);
        if m != 0 {
            pieces.extend(piece(bit, n, m, v, negated, s, hint, base)?);
        } else if v != 0 {
            return Ok(when(negated));
        }
        bit = stop;
    }
    if negated {
        return Ok(pieces.into_iter().flatten().collect());
    }
    let mut out = always();
    for p in pieces {
        let mut next = Vec::new();
        for b in &out {
            for a in &p {
                let mut f: Filter = b.clone();
                if a.0.iter().all(|(d, set)| f.narrow(*d, set, width(s, *d))) {
                    next.push(f);
                }
            }
        }
        out = next;
    }
    Ok(out)
}

/// One or more conditions (all of which must hold; one of which must not, if negated) on bits of one field.
#[allow(clippy::too_many_arguments)]
fn piece(
    bit: i32,
    bits: u8,
    mask: u128,
    value: u128,
    negated: bool,
    s: &State,
    hint: Layout,
    base: &[Filter],
) -> Result<Vec<Terms>, Trouble> {
    let e = s.bits_now(bit, bits)?;
    if let Expr::Const(c) = e {
        return Ok(vec![when((c & mask == value) != negated)]);
    }
    let flip = |set: ValueSet, bits: u8| if negated { set.complement(bits) } else { set };
    if let Some(set) = ValueSet::masked(mask, value, bits, MASK_INTERVALS) {
        return Ok(vec![expr_in(e, &flip(set, bits), s, hint, base)?]);
    }
    // runs of bits that count, each a dimension of its own
    if !matches!(e, Expr::Of(Dim::Bits { .. }, 0)) {
        return Err(Need::Write.into());
    }
    let mut out = Vec::new();
    let mut low = 0u32;
    while low < u32::from(bits) {
        let rest = mask >> low;
        if rest == 0 {
            break;
        }
        low += rest.trailing_zeros();
        let run = (mask >> low).trailing_ones();
        let d = Dim::Bits {
            bit: bit + i32::from(bits) - (low + run) as i32,
            bits: run as u8,
        };
        let v = (value >> low) & max_of(run as u8);
        out.push(one(d, flip(ValueSet::one(v), run as u8)));
        low += run;
    }
    Ok(out)
}

/// The packet type of an address that is not constant.
fn packet_type(
    e: Expr,
    device: Option<[u8; 6]>,
    set: &ValueSet,
    s: &State,
    hint: Layout,
    base: &[Filter],
) -> Result<Terms, Trouble> {
    const BROADCAST: u128 = 0xffff_ffff_ffff;
    let Expr::Of(Dim::Bits { bit, .. }, 0) = e else {
        return Err(Need::Write.into());
    };
    let group = Dim::Bits {
        bit: bit + 7,
        bits: 1,
    };
    let is_group = |yes: bool| (group, ValueSet::one(u128::from(yes)));
    let address = |v: ValueSet| expr_in(e, &v, s, hint, base);
    let mut out = Vec::new();
    let mut push = |first: Option<(Dim, ValueSet)>, more: Terms| {
        for m in more {
            let mut f = m;
            if first.as_ref().is_none_or(|(d, v)| f.narrow(*d, v, 1)) {
                out.push(f);
            }
        }
    };
    let own = device.map(|d| {
        let mut b = [0u8; 16];
        b[10..].copy_from_slice(&d);
        u128::from_be_bytes(b)
    });
    match (set.contains(1), set.contains(2)) {
        (true, true) => push(Some(is_group(true)), always()),
        (true, false) => push(None, address(ValueSet::one(BROADCAST))?),
        (false, true) => push(
            Some(is_group(true)),
            address(ValueSet::one(BROADCAST).complement(48))?,
        ),
        (false, false) => {}
    }
    match (set.contains(0), set.contains(3), own) {
        (true, true, _) | (true, false, None) => push(Some(is_group(false)), always()),
        (true, false, Some(a)) => push(Some(is_group(false)), address(ValueSet::one(a))?),
        (false, true, Some(a)) => push(
            Some(is_group(false)),
            address(ValueSet::one(a).complement(48))?,
        ),
        (false, _, _) => {}
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_are_products() {
        // any of three flags, a fragment offset of zero
        let zero = ValueSet::from_intervals((0..8u128).map(|f| (f << 13, f << 13)));
        let (high, low) = product(&zero, 16, 3).unwrap();
        assert!(high.is_full(3) && low.single() == Some(0));
        let (high, low) = product(&zero.complement(16), 16, 3).unwrap();
        assert!(high.is_full(3));
        assert_eq!(low, ValueSet::range(1, 0x1fff));
        let (high, low) = product(&ValueSet::range(0x2000, 0x5fff), 16, 3).unwrap();
        assert_eq!((high, low.is_full(13)), (ValueSet::range(1, 2), true));
        for not in [
            ValueSet::range(5, 0x2001),
            ValueSet::from_intervals([(0, 5), (0x2000, 0x2006)]),
        ] {
            assert_eq!(product(&not, 16, 3), None, "{not:?}");
        }
    }
}
