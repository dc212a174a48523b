//! What header checks, lengths and bits say of each other.

use super::{MAX_INTERVALS, MAX_LEN, Part, bits_in, highest, lowest, with_part};
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::{Dim, EndAt, Filter};

/// What the packet's length, lengths in headers, questions about headers and bits behind the end say of each other.
pub(super) fn lengths(f: &mut Filter, tight: Option<EndAt>) -> Option<()> {
    let checks: Vec<(Dim, Option<u128>)> =
        f.0.iter()
            .filter(|(d, _)| matches!(d, Dim::Check { .. }))
            .map(|(d, s)| (*d, s.single()))
            .collect();
    for (d, yes) in checks {
        match (d, yes) {
            (Dim::Check { check, at, end }, Some(1)) => passed(f, check, at, end)?,
            (Dim::Check { check, at, end }, Some(0)) => failed(f, check, at, end)?,
            _ => {}
        }
    }
    told(f, tight)?;
    behind(f)
}

/// The packet has at least so many bytes.
fn at_least(f: &mut Filter, n: u128) -> Option<()> {
    let ok = n == 0 || f.narrow(Dim::Len, &ValueSet::range(n, max_of(32)), 32);
    ok.then_some(())
}

/// A field of 16 bits.
fn field(at: i32) -> Dim {
    Dim::Bits {
        bit: at.saturating_mul(8),
        bits: 16,
    }
}

/// What a check looks at: the header's bytes, its field for the length, and the bytes that this does not count.
fn looks_at(check: HeaderCheck, at: i32) -> (u128, Dim, u128) {
    match check {
        HeaderCheck::Ip6Fits => (40, field(at + 4), 40),
        _ => (20, field(at + 2), 0),
    }
}

/// Least and most bytes that a header's field for the length says.
fn total(f: &Filter, length: Dim, more: u128) -> (u128, u128) {
    let Dim::Bits { bit, bits } = length else {
        return (0, 0xffff);
    };
    let s = bits_in(f, bit, bits);
    let first = s.intervals().first().map_or(0, |i| i.0);
    let last = s.intervals().last().map_or(0, |i| i.1);
    (first + more, last + more)
}

/// What follows from a check that packets pass.
fn passed(f: &mut Filter, check: HeaderCheck, at: i32, end: EndAt) -> Option<()> {
    // an epoch's first bytes only: what lies before them has a length of its own
    let Ok(from) = u128::try_from(at) else {
        return Some(());
    };
    let (header, length, more) = looks_at(check, at);
    let longest = highest(f, Dim::Len, MAX_LEN);
    at_least(f, from + header)?;
    // all but this one look at all that the total length says, behind a header of 20 bytes
    if check == HeaderCheck::Ip4Checksum || end != EndAt::Same {
        return Some(());
    }
    let room = longest.checked_sub(from + more)?;
    if !f.narrow(length, &ValueSet::range(0, room.min(0xffff)), 16) {
        return None;
    }
    let (least, most) = total(f, length, more);
    if least > most {
        return None;
    }
    at_least(f, from + least)?;
    if !matches!(check, HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits) {
        let ihl = Dim::Bits {
            bit: at * 8 + 4,
            bits: 4,
        };
        let whole = ValueSet::range(20, 0xffff);
        if !f.narrow(ihl, &ValueSet::one(5), 4) || !f.narrow(length, &whole, 16) {
            return None;
        }
    }
    Some(())
}

/// What follows from a check that packets do not pass: if there is a header, it says more than there is.
fn failed(f: &mut Filter, check: HeaderCheck, at: i32, end: EndAt) -> Option<()> {
    let Ok(from) = u128::try_from(at) else {
        return Some(());
    };
    let (header, length, more) = looks_at(check, at);
    let fits = matches!(check, HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits);
    if end != EndAt::Same || !fits || lowest(f, Dim::Len) < from + header {
        return Some(());
    }
    let over = (lowest(f, Dim::Len) + 1).saturating_sub(from + more);
    if !f.narrow(length, &ValueSet::range(over, 0xffff), 16) {
        return None;
    }
    let (_, most) = total(f, length, more);
    let short = (from + most).checked_sub(1)?;
    let ok = f.narrow(Dim::Len, &ValueSet::range(0, short), 32);
    ok.then_some(())
}

/// The packet ends where a header says: its length and that header's field follow from each other.
fn told(f: &mut Filter, tight: Option<EndAt>) -> Option<()> {
    let (at, field, more) = match tight {
        Some(EndAt::Ip4(at)) => (at, field(at + 2), 0i64),
        Some(EndAt::Ip6(at)) => (at, field(at + 4), 40),
        _ => return Some(()),
    };
    let Dim::Bits { bit, bits } = field else {
        return Some(());
    };
    let shift = i64::from(at) + more;
    let says = bits_in(f, bit, bits);
    let moved = says.intervals().iter().map(|(l, h)| {
        let go = |v: u128| (v as i64 + shift).max(0) as u128;
        (go(*l), go(*h))
    });
    if !f.narrow(Dim::Len, &ValueSet::from_intervals(moved), 32) {
        return None;
    }
    if let Some(len) = f.get(Dim::Len) {
        let back = len.intervals().iter().filter_map(|(l, h)| {
            let hi = (*h).min(MAX_LEN) as i64 - shift;
            let lo = ((*l).min(MAX_LEN) as i64 - shift).max(0);
            (hi >= 0).then_some((lo as u128, (hi as u128).min(0xffff)))
        });
        let back = ValueSet::from_intervals(back);
        if !f.narrow(field, &back, bits) {
            return None;
        }
    }
    Some(())
}

/// Bits behind the end are zero.
fn behind(f: &mut Filter) -> Option<()> {
    let end = highest(f, Dim::Len, MAX_LEN).saturating_mul(8);
    let mut least = 0;
    for (d, set) in &mut f.0 {
        let Dim::Bits { bit, bits } = *d else {
            continue;
        };
        let Ok(bit) = u128::try_from(bit) else {
            continue;
        };
        let stop = bit + u128::from(bits);
        if bit >= end {
            if !set.contains(0) {
                return None;
            }
            *set = ValueSet::one(0);
            continue;
        }
        if stop > end && set.intervals().len() <= MAX_INTERVALS {
            let zero = ValueSet::one(0);
            let behind = Part {
                low: 0,
                bits: (stop - end) as u8,
                set: &zero,
                whole: bits,
            };
            *set = with_part(set, behind);
            if set.is_empty() {
                return None;
            }
        }
        // the last bit that is not zero is there
        match set.single() {
            Some(0) => {}
            Some(v) => {
                let last = stop - u128::from(v.trailing_zeros());
                least = least.max(last.div_ceil(8));
            }
            None if !set.contains(0) => least = least.max(bit / 8 + 1),
            None => {}
        }
    }
    at_least(f, least)
}
