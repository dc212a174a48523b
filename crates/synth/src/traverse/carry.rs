//! What is known of packets, said of the epoch that begins when they are written out.

use crate::program::{Dim, EndAt, Expr, Filter};
use crate::state::State;
use onefold_element::model::{HeaderCheck, ValueSet, max_of};

/// What `known` (of the packets before) says of packets written out in this state.
pub(super) fn carried(known: &Filter, s: &State) -> Filter {
    let mut f = Filter::default();
    let shift = s.start * 8;
    for (d, set) in &known.0 {
        match *d {
            Dim::Bits { bit, bits } if !s.touched(bit, bits) => {
                let d = Dim::Bits {
                    bit: bit - shift,
                    bits,
                };
                f.narrow(d, set, bits);
            }
            Dim::Check { check, at, end } if holds(check, at, end, s) => {
                let d = Dim::Check {
                    check,
                    at: at - s.start,
                    end: EndAt::Same,
                };
                f.narrow(d, set, 1);
            }
            _ => {}
        }
    }
    length(known, s, &mut f);
    for w in &s.writes {
        if let Some(set) = value(w.value, w.bits, known, s) {
            let d = Dim::Bits {
                bit: w.bit - shift,
                bits: w.bits,
            };
            f.narrow(d, &set, w.bits);
        }
    }
    for (k, v) in &s.annos {
        let bits = k.size.saturating_mul(8);
        // constants are part of the state
        if let Expr::Of(..) = v
            && let Some(set) = value(*v, bits, known, s)
        {
            f.narrow(Dim::Anno(*k), &set, bits);
        }
    }
    f
}

/// Is the answer of a header check still the same?
fn holds(check: HeaderCheck, at: i32, end: EndAt, s: &State) -> bool {
    match check {
        // as right or wrong as before where all that changed was followed
        HeaderCheck::Ip4Checksum => {
            end == EndAt::Same && s.is_followed(at) && !s.sums.iter().any(|s| s.anew)
        }
        // the end of the packet counts: still the same one
        HeaderCheck::Ip4Fits => end == s.end && !s.touched((at + 2) * 8, 16),
        HeaderCheck::Ip6Fits => end == s.end && !s.touched((at + 4) * 8, 16),
        _ => end == s.end && s.writes.is_empty() && s.sums.is_empty(),
    }
}

/// What is known of the length.
fn length(known: &Filter, s: &State, f: &mut Filter) {
    let (length, less) = match s.end {
        EndAt::Same => (Dim::Len, s.start),
        EndAt::Ip4(at) => {
            fits(HeaderCheck::Ip4Fits, at, (at + 2) * 8, s, f);
            let field = Dim::Bits {
                bit: (at + 2) * 8,
                bits: 16,
            };
            (field, s.start - at)
        }
        EndAt::Ip6(at) => {
            fits(HeaderCheck::Ip6Fits, at, (at + 4) * 8, s, f);
            let field = Dim::Bits {
                bit: (at + 4) * 8,
                bits: 16,
            };
            (field, s.start - at - 40)
        }
    };
    if let Some(set) = known.get(length) {
        let moved = set.intervals().iter().filter_map(|(l, h)| {
            let down = |v: &u128| i128::try_from(*v).unwrap_or(i128::MAX) - i128::from(less);
            let (l, h) = (down(l).max(0), down(h).min(i128::from(u32::MAX)));
            (l <= h).then_some((l as u128, h as u128))
        });
        f.narrow(Dim::Len, &ValueSet::from_intervals(moved), 32);
    }
}

/// A packet that was cut to its length has the length that its header says, unless that was written since.
fn fits(check: HeaderCheck, at: i32, field: i32, s: &State, f: &mut Filter) {
    if !s.touched(field, 16) {
        let d = Dim::Check {
            check,
            at: at - s.start,
            end: EndAt::Same,
        };
        f.narrow(d, &ValueSet::one(1), 1);
    }
}

/// What a value may be that is written into `bits` bits; `None`: anything.
pub(super) fn value(e: Expr, bits: u8, known: &Filter, s: &State) -> Option<ValueSet> {
    let (d, add) = match e {
        Expr::Const(c) => return Some(ValueSet::one(c)),
        Expr::Of(d, add) => (d, add),
    };
    let (set, own) = match d {
        Dim::Slot(slot) => {
            let p = s.slots.iter().find(|p| p.slot == slot)?;
            let set = match known.get(d) {
                Some(k) => k.intersect(&p.set),
                None => p.set.clone(),
            };
            (set, p.bits)
        }
        d => (known.get(d)?.clone(), d.width()),
    };
    // what is cut off says nothing about the rest
    if own > bits || set.is_empty() {
        return None;
    }
    let set = match add & max_of(own) {
        0 => set,
        n => set.shifted_back(max_of(own) - n + 1, own),
    };
    (!set.is_full(bits)).then_some(set)
}
