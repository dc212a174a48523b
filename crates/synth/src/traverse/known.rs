//! What is known of packets: where ways join, and behind a write-out.

use crate::program::{Dim, EndAt, Expr, Filter};
use crate::state::State;
use onefold_elements::model::{HeaderCheck, ValueSet};

/// Most intervals of a set in what is known of a stage.
const KNOWN_INTERVALS: usize = 256;

/// What both allow at most: per dimension the union, where both have one.
pub(super) fn hull(a: &Filter, b: &Filter) -> Filter {
    let mut out = Vec::new();
    for (d, s) in &a.0 {
        if let Some(o) = b.get(*d) {
            let u = if o.is_subset(s) {
                s.clone()
            } else {
                s.union(o)
            };
            let u = match u.intervals() {
                [(lo, _), .., (_, hi)] if u.intervals().len() > KNOWN_INTERVALS => {
                    ValueSet::range(*lo, *hi)
                }
                _ => u,
            };
            if !u.is_full(d.width()) {
                out.push((*d, u));
            }
        }
    }
    Filter(out)
}

/// What is known of the packets of a group, said of the epoch that begins when they are written out in this state.
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
            // a header checksum is as right or wrong as before where all that changed was followed
            Dim::Check {
                check: check @ HeaderCheck::Ip4Checksum,
                at,
                end: EndAt::Same,
            } if !s.ip_dirty && !s.overwritten(at + 10) && !s.sums.iter().any(|s| s.anew) => {
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
    let (length, less) = match s.end {
        EndAt::Same => (Dim::Len, s.start),
        EndAt::Ip4(at) => {
            let fits = Dim::Check {
                check: HeaderCheck::Ip4Fits,
                at: at - s.start,
                end: EndAt::Same,
            };
            f.narrow(fits, &ValueSet::one(1), 1);
            let bits = (at + 2) * 8;
            (
                Dim::Bits {
                    bit: bits,
                    bits: 16,
                },
                s.start - at,
            )
        }
        EndAt::Ip6(at) => {
            let fits = Dim::Check {
                check: HeaderCheck::Ip6Fits,
                at: at - s.start,
                end: EndAt::Same,
            };
            f.narrow(fits, &ValueSet::one(1), 1);
            let bits = (at + 4) * 8;
            (
                Dim::Bits {
                    bit: bits,
                    bits: 16,
                },
                s.start - at - 40,
            )
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
    for w in &s.writes {
        if let Expr::Const(c) = w.value {
            let d = Dim::Bits {
                bit: w.bit - shift,
                bits: w.bits,
            };
            f.narrow(d, &ValueSet::one(c), w.bits);
        }
    }
    f
}
