//! What addresses and ports usually are, and values of sets of them.

use crate::rng::Rng;
use onefold_element::model::ValueSet;

/// A value of a set: of the part that is usual, if there is one.
pub(super) fn draw(set: Option<&ValueSet>, usual: &ValueSet, rng: &mut Rng) -> u128 {
    let part = match set {
        None => usual.clone(),
        Some(s) => match s.intersect(usual) {
            both if both.is_empty() => s.clone(),
            both => both,
        },
    };
    let count = part.count().unwrap_or(u128::MAX).max(1);
    let mut left = rng.between_u128(0, count - 1);
    for (lo, hi) in part.intervals() {
        match hi - lo {
            size if left <= size => return lo + left,
            size => left -= size + 1,
        }
    }
    0
}

/// What addresses and ports usually are, as of `onefold gen`: 10/8 to 198.18/15 (RFC 2544), 2001:db8::/48 to
/// 2001:2::/48.
pub(super) struct Usual {
    pub v4: [ValueSet; 2],
    pub v6: [ValueSet; 2],
    pub ports: [ValueSet; 2],
}

impl Usual {
    pub fn new() -> Usual {
        let well_known = [22, 25, 53, 80, 123, 443, 1234, 8080];
        Usual {
            v4: [
                ValueSet::range(0x0a00_0001, 0x0aff_fffe),
                ValueSet::range(0xc612_0001, 0xc613_fffe),
            ],
            v6: [
                ValueSet::prefix(0x2001_0db8_0000u128 << 80, 48, 128),
                ValueSet::prefix(0x2001_0002_0000u128 << 80, 48, 128),
            ],
            ports: [
                ValueSet::range(1024, 65_535),
                ValueSet::from_intervals(well_known.map(|p| (p, p))),
            ],
        }
    }
}
