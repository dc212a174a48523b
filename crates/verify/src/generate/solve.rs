//! A packet for a filter: a point that no earlier rule takes, and a frame that has it.

use super::read::Seen;
use super::tables::Tables;
use crate::cubes::PER_STEP;
use crate::frame::{self, Keep, Shape};
use crate::gap::rank;
use crate::rng::Rng;
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::{Dim, Filter};

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// A region was accepted.
    Found,
    /// Everything is covered.
    Covered,
    /// Regions there were, but none was accepted.
    Refused,
    /// The bound on steps was reached.
    TooLong,
}

/// Looks for a part of `cube` that none of `earlier` overlaps; each is offered to `accept` until it says yes. Exact,
/// but for the bound on steps, each of which pays for [`PER_STEP`] filters that are looked at.
pub fn uncovered(
    cube: &Filter,
    earlier: &[&Filter],
    width: &dyn Fn(Dim) -> u8,
    steps: &mut usize,
    accept: &mut dyn FnMut(&Filter) -> bool,
) -> Search {
    let mut i = 0;
    while let Some(e) = earlier.get(i)
        && cube.is_disjoint(e)
    {
        i += 1;
    }
    let Some(e) = earlier.get(i) else {
        let Some(cube) = consistent(cube) else {
            return Search::Covered;
        };
        return match accept(&cube) {
            true => Search::Found,
            false => Search::Refused,
        };
    };
    let rest = earlier.get(i + 1..).unwrap_or(&[]);
    let mut order: Vec<&(Dim, ValueSet)> = e.0.iter().collect();
    order.sort_by_key(|(d, _)| rank(d));
    let mut cube = cube.clone();
    let mut result = Search::Covered;
    for (d, set) in order {
        let w = width(*d);
        if let Some(part) = cube.and(*d, &set.complement(w), w) {
            if *steps == 0 {
                return Search::TooLong;
            }
            *steps = steps.saturating_sub(1 + rest.len() / PER_STEP);
            match uncovered(&part, rest, width, steps, accept) {
                Search::Found => return Search::Found,
                Search::TooLong => return Search::TooLong,
                Search::Refused => result = Search::Refused,
                Search::Covered => {}
            }
        }
        if !cube.narrow(*d, set, w) {
            break;
        }
    }
    result
}

/// What lengths say of each other: bits behind the packet's end are zero, an IP packet that fits is no longer than the
/// frame. `None` when no frame can be like that.
pub(super) fn consistent(cube: &Filter) -> Option<Filter> {
    let mut out = cube.clone();
    let lowest = |f: &Filter, d: Dim| {
        let set = f.get(d)?;
        set.intervals().first().map(|i| i.0)
    };
    let highest = |f: &Filter, d: Dim, all: u128| match f.get(d) {
        Some(set) => set.intervals().last().map_or(0, |i| i.1),
        None => all,
    };
    for (d, set) in &cube.0 {
        let Dim::Check { check, at, .. } = *d else {
            continue;
        };
        let (field, more) = match check {
            HeaderCheck::Ip4Fits => (at + 2, 0u128),
            HeaderCheck::Ip6Fits => (at + 4, 40),
            _ => continue,
        };
        let (Ok(at), true) = (u128::try_from(at), set.contains(1) && !set.contains(0)) else {
            continue;
        };
        let field = Dim::Bits {
            bit: field * 8,
            bits: 16,
        };
        let room = highest(&out, Dim::Len, 1 << 20).checked_sub(at + more)?;
        if !out.narrow(field, &ValueSet::range(0, room.min(0xffff)), 16) {
            return None;
        }
        let least = at + more + lowest(&out, field).unwrap_or(0);
        if !out.narrow(Dim::Len, &ValueSet::range(least, max_of(32)), 32) {
            return None;
        }
    }
    let end = highest(&out, Dim::Len, 1 << 20).saturating_mul(8);
    for (d, set) in &cube.0 {
        if let Dim::Bits { bit, .. } = d
            && u128::try_from(*bit).is_ok_and(|b| b >= end)
            && !set.contains(0)
        {
            return None;
        }
    }
    Some(out)
}

/// The smallest value of `set`, at least `from`, whose bits under `mask` are those of `value`.
fn fitting(set: &ValueSet, mask: u128, value: u128, bits: u8) -> Option<u128> {
    let max = max_of(bits);
    for (lo, hi) in set.intervals().iter().map(|(l, h)| (*l, (*h).min(max))) {
        if let Some(v) = next_with(lo, mask & max, value & mask & max, bits)
            && v <= hi
        {
            return Some(v);
        }
    }
    None
}

/// The smallest v >= lo with v & mask == value.
fn next_with(lo: u128, mask: u128, value: u128, bits: u8) -> Option<u128> {
    let base = (lo & !mask) | value;
    if base >= lo && {
        // every free bit of lo is kept: the smallest, unless a fixed bit went up, which frees those below it
        let up = base ^ lo;
        up == 0
    } {
        return Some(base);
    }
    // the highest bit at which the result is larger than lo: above it equal to lo, at it one, below it as small as can
    // be
    let mut best = None;
    for i in 0..u32::from(bits) {
        let bit = 1u128 << i;
        let above = if i + 1 >= 128 {
            0
        } else {
            !((1u128 << (i + 1)) - 1)
        };
        let can = lo & bit == 0
            && (mask & bit == 0 || value & bit != 0)
            && (lo ^ value) & mask & above & max_of(bits) == 0;
        if can {
            let v = (lo & above & max_of(bits)) | bit | (value & mask & (bit - 1));
            best = Some(best.map_or(v, |b: u128| b.min(v)));
        }
    }
    best
}

/// Frames to begin with.
fn templates() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for tags in 0..3 {
        for (version, proto) in [(4, 6), (4, 17), (4, 1), (6, 6), (6, 17), (6, 58), (4, 47)] {
            all.push(frame::make(Shape {
                version,
                proto,
                tags,
                payload: 22,
            }));
        }
    }
    all.push(frame::arp_request(
        [2, 0, 0, 0, 0, 1],
        [10, 0, 0, 1],
        [10, 0, 0, 2],
    ));
    let mut other = vec![0; 60];
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    all.push(other);
    all
}

/// Makes frames.
pub struct Maker {
    templates: Vec<Vec<u8>>,
    /// Route tables that filters speak of.
    pub tables: Tables,
}

impl Default for Maker {
    fn default() -> Self {
        Maker {
            templates: templates(),
            tables: Tables::default(),
        }
    }
}

impl Maker {
    /// A frame that fits the filter, slots and annotations aside; as much as can be like a usual one.
    pub fn frame(&self, cube: &Filter, rng: &mut Rng) -> Option<Vec<u8>> {
        self.make(cube, rng, [false, true])
    }

    /// The same, random where it may choose.
    pub fn random_frame(&self, cube: &Filter, rng: &mut Rng) -> Option<Vec<u8>> {
        self.make(cube, rng, [true, false])
    }

    fn make(&self, cube: &Filter, rng: &mut Rng, ways: [bool; 2]) -> Option<Vec<u8>> {
        let settled = match self.tables.is_empty() {
            true => None,
            false => Some(self.tables.settled(cube, rng)?),
        };
        let cube = settled.as_ref().unwrap_or(cube);
        let bits = |d: &Dim| matches!(d, Dim::Bits { .. });
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(self.templates.len());
        for (i, t) in self.templates.iter().enumerate() {
            let seen = Seen::arrive(t, 0);
            let wrong = |(d, s): &&(Dim, ValueSet)| {
                bits(d) && seen.value(*d).is_some_and(|v| !s.contains(v))
            };
            // fields that say what a header is count more: narrow ones and the Ethernet type
            let cost = |(d, _): &(Dim, ValueSet)| match d {
                Dim::Bits { bits, bit } if *bits <= 8 || *bit == 96 => 4,
                _ => 1,
            };
            order.push((cube.0.iter().filter(wrong).map(cost).sum(), i));
        }
        order.sort_unstable();
        for (_, i) in order.iter().take(4) {
            for random in ways {
                if let Some(f) = self.templates.get(*i)
                    && let Some(f) = place(f.clone(), cube, rng, random)
                {
                    return Some(f);
                }
            }
        }
        None
    }
}

/// Changes a frame so that it fits; lengths and checksums follow unless the filter speaks of them.
pub fn place(mut f: Vec<u8>, cube: &Filter, rng: &mut Rng, random: bool) -> Option<Vec<u8>> {
    let lengths: Vec<&ValueSet> = cube.get(Dim::Len).into_iter().collect();
    if let Some(set) = lengths.first() {
        let n = f.len() as u128;
        if !set.contains(n) {
            let near = set.intervals().iter().map(|(l, h)| n.clamp(*l, *h));
            let n = near.min_by_key(|v| v.abs_diff(n))?;
            f.resize(usize::try_from(n).ok().filter(|n| *n <= 65_600)?, 0);
        }
    }
    let mut fixed = vec![0u8; f.len()];
    // single values first: they leave no choice
    let mut fields: Vec<(i32, u8, &ValueSet)> = Vec::new();
    for (d, set) in &cube.0 {
        if let Dim::Bits { bit, bits } = d {
            fields.push((*bit, *bits, set));
        }
    }
    fields.sort_by_key(|(_, bits, set)| (set.single().is_none(), std::cmp::Reverse(*bits)));
    for (bit, bits, set) in fields {
        let seen = Seen::arrive(&f, 0);
        let mask = Seen::arrive(&fixed, 0).bits(bit, bits);
        let now = seen.bits(bit, bits);
        let v = match set.contains(now) {
            true if !(random && mask == 0 && set.single().is_none()) => now,
            _ if mask == 0 && random => rng.value_of(set),
            _ => fitting(set, mask, now, bits)?,
        };
        if (v ^ now) & mask != 0 || !write_bits(&mut f, bit, bits, v) {
            return None;
        }
        write_bits(&mut fixed, bit, bits, max_of(bits));
    }
    let is_fixed = |at: usize| {
        let two = fixed.get(at..at + 2);
        two.is_some_and(|b| b.iter().any(|b| *b != 0))
    };
    // where a filter asks about an IP header behind another Ethernet type, the header is made all the same
    let asked = cube.0.iter().find_map(|(d, _)| match d {
        Dim::Check { check, at, .. } => {
            let kind: [u8; 2] = match check {
                HeaderCheck::Ip6Fits => [0x86, 0xdd],
                _ => [8, 0],
            };
            Some((usize::try_from(*at).ok()?.checked_sub(2)?, kind))
        }
        _ => None,
    });
    let mut real_type = None;
    if let Some((at, kind)) = asked
        && let Some(b) = f.get_mut(at..at + 2)
    {
        real_type = Some((at, [b[0], b[1]]));
        b.copy_from_slice(&kind);
    }
    let v = frame::view(&f);
    let net = v.map_or(14, |v| v.net);
    let v6 = v.is_some_and(|v| v.ether_type == 0x86dd);
    let transport = v.and_then(|v| v.transport).unwrap_or(net + 20);
    let sum_at = match v.map_or(0, |v| v.proto) {
        6 => transport + 16,
        17 => transport + 6,
        _ => transport + 2,
    };
    let wants = |check: HeaderCheck, yes: bool| {
        cube.0.iter().any(|(d, s)| match d {
            Dim::Check { check: c, .. } => {
                *c == check && s.contains(u128::from(yes)) && !s.contains(u128::from(!yes))
            }
            _ => false,
        })
    };
    let length_at = if v6 { net + 4 } else { net + 2 };
    let keep = Keep {
        ip_len: is_fixed(length_at),
        udp_len: is_fixed(transport + 4),
        ip_sum: is_fixed(net + 10),
        transport_sum: is_fixed(sum_at),
    };
    if keep.ip_len && lengths.is_empty() {
        // as long as it says that it is
        let says = Seen::arrive(&f, 0).bits(length_at as i32 * 8, 16) as usize;
        let want = net + says + if v6 { 40 } else { 0 };
        let fits = wants(HeaderCheck::Ip4Fits, true) || wants(HeaderCheck::Ip6Fits, true);
        if fits || want > net {
            f.resize(want.max(f.len().min(60)).min(65_550), 0);
        }
    }
    frame::finish(&mut f, keep);
    let add = |f: &mut Vec<u8>, at: usize, n: u16| {
        if let Some(s) = f.get_mut(at..at + 2) {
            let old = u16::from_be_bytes([s[0], s[1]]);
            s.copy_from_slice(&old.wrapping_add(n).to_be_bytes());
        }
    };
    let again = Keep {
        ip_len: true,
        udp_len: true,
        ..keep
    };
    if wants(HeaderCheck::Ip4Fits, false) || wants(HeaderCheck::Ip6Fits, false) {
        if !keep.ip_len {
            add(&mut f, length_at, 9);
        } else if lengths.is_empty() {
            let n = f.len().saturating_sub(1);
            f.truncate(n);
        }
        frame::finish(&mut f, again);
    }
    if wants(HeaderCheck::UdpFits, false) && !keep.udp_len {
        add(&mut f, transport + 4, 1000);
        frame::finish(&mut f, again);
    }
    if wants(HeaderCheck::Ip4Checksum, false) && !keep.ip_sum {
        add(&mut f, net + 10, 0x0101);
    }
    let bad = [
        HeaderCheck::TcpChecksum,
        HeaderCheck::UdpChecksum,
        HeaderCheck::IcmpChecksum,
    ];
    if bad.iter().any(|c| wants(*c, false)) && !keep.transport_sum {
        add(&mut f, sum_at, 0x0101);
    }
    if let Some((at, kind)) = real_type
        && let Some(b) = f.get_mut(at..at + 2)
    {
        b.copy_from_slice(&kind);
    }
    let seen = Seen::arrive(&f, 0);
    let ignore = |d: &Dim| {
        matches!(
            d,
            Dim::Slot(_) | Dim::Anno(_) | Dim::PacketType | Dim::Route { .. }
        )
    };
    let fits =
        (cube.0.iter()).all(|(d, s)| ignore(d) || seen.value(*d).is_some_and(|v| s.contains(v)));
    fits.then_some(f)
}

/// Writes bits; false when some that are not zero are not in the frame.
fn write_bits(f: &mut [u8], bit: i32, bits: u8, v: u128) -> bool {
    let mut all = true;
    for i in 0..i32::from(bits) {
        let at = bit + i;
        let on = (v >> (i32::from(bits) - 1 - i)) & 1 == 1;
        match usize::try_from(at.div_euclid(8))
            .ok()
            .and_then(|i| f.get_mut(i))
        {
            Some(b) => {
                let m = 0x80u8 >> at.rem_euclid(8);
                *b = if on { *b | m } else { *b & !m };
            }
            // bits behind the end are read as zero
            None => all &= !on,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use onefold_synth::program::EndAt;
    use proptest::prelude::*;

    fn byte(i: i32) -> Dim {
        Dim::Bits {
            bit: i * 8,
            bits: 8,
        }
    }

    fn filter(parts: &[(Dim, ValueSet)]) -> Filter {
        let mut f = Filter::default();
        for (d, s) in parts {
            f.narrow(*d, s, d.width());
        }
        f
    }

    proptest! {
        #[test]
        fn next_with_is_the_smallest(lo in 0u128..256, mask in 0u128..256, value in 0u128..256) {
            let brute = (lo..256).find(|v| v & mask == value & mask);
            prop_assert_eq!(next_with(lo, mask, value & mask, 8), brute);
        }

        #[test]
        fn a_search_finds_what_there_is(cubes in proptest::collection::vec((0u128..16, 0u128..16, 0u128..16, 0u128..16), 1..12)) {
            let all: Vec<Filter> = cubes.iter().map(|(a, b, c, d)| {
                filter(&[
                    (byte(0), ValueSet::range(*a.min(b), *a.max(b))),
                    (byte(1), ValueSet::range(*c.min(d), *c.max(d))),
                ])
            }).collect();
            let (last, earlier) = all.split_last().unwrap();
            let earlier: Vec<&Filter> = earlier.iter().collect();
            let inside = |f: &Filter, x: u128, y: u128| {
                let ok = |d, v| f.get(d).is_none_or(|s| s.contains(v));
                ok(byte(0), x) && ok(byte(1), y)
            };
            let brute = (0..256u128).any(|n| {
                let (x, y) = (n / 16, n % 16);
                inside(last, x, y) && !earlier.iter().any(|e| inside(e, x, y))
            });
            let mut point = None;
            let mut steps = 10_000;
            let found = uncovered(last, &earlier, &Dim::width, &mut steps, &mut |c| {
                let low = |d| c.get(d).map_or(0, |s| s.intervals()[0].0);
                point = Some((low(byte(0)), low(byte(1))));
                true
            });
            prop_assert_eq!(found, if brute { Search::Found } else { Search::Covered });
            if let Some((x, y)) = point {
                prop_assert!(inside(last, x, y));
                prop_assert!(!earlier.iter().any(|e| inside(e, x, y)));
            }
        }
    }

    #[test]
    fn frames_are_what_filters_want() {
        let ip = |b: i32, bits: u8| Dim::Bits {
            bit: 14 * 8 + b,
            bits,
        };
        let check = |check| Dim::Check {
            check,
            at: 14,
            end: EndAt::Same,
        };
        let eth = (Dim::Bits { bit: 96, bits: 16 }, ValueSet::one(0x0800));
        let wants = [
            vec![
                eth.clone(),
                (ip(0, 8), ValueSet::one(0x45)),
                (ip(72, 8), ValueSet::one(17)),
            ],
            vec![
                eth.clone(),
                (ip(72, 8), ValueSet::one(6)),
                (ip(128, 32), ValueSet::range(0xc0a8_0100, 0xc0a8_01ff)),
                (ip(176, 16), ValueSet::one(443)),
                (check(HeaderCheck::TcpChecksum), ValueSet::one(1)),
            ],
            vec![
                eth.clone(),
                (check(HeaderCheck::Ip4Checksum), ValueSet::one(0)),
            ],
            vec![
                eth.clone(),
                (check(HeaderCheck::Ip4Fits), ValueSet::one(0)),
                (check(HeaderCheck::Ip4Checksum), ValueSet::one(1)),
            ],
            vec![eth.clone(), (Dim::Len, ValueSet::range(0, 33))],
            vec![
                eth.clone(),
                (Dim::Len, ValueSet::one(1514)),
                (check(HeaderCheck::Ip4Fits), ValueSet::one(1)),
            ],
            vec![
                eth.clone(),
                (ip(16, 16), ValueSet::one(1501)),
                (check(HeaderCheck::Ip4Fits), ValueSet::one(1)),
            ],
            vec![
                (Dim::Bits { bit: 96, bits: 16 }, ValueSet::one(0x86dd)),
                (ip(48, 8), ValueSet::one(58)),
                (check(HeaderCheck::Ip6Fits), ValueSet::one(1)),
            ],
            vec![
                (Dim::Bits { bit: 96, bits: 16 }, ValueSet::one(0x07ff)),
                (check(HeaderCheck::Ip4Checksum), ValueSet::one(1)),
                (check(HeaderCheck::Ip4Fits), ValueSet::one(1)),
            ],
            vec![
                (Dim::Bits { bit: 96, bits: 16 }, ValueSet::one(0x8100)),
                (Dim::Bits { bit: 116, bits: 12 }, ValueSet::one(42)),
            ],
            vec![
                eth,
                (ip(72, 8), ValueSet::one(17)),
                (check(HeaderCheck::UdpFits), ValueSet::one(0)),
                (check(HeaderCheck::UdpChecksum), ValueSet::one(0)),
            ],
        ];
        let (maker, mut rng) = (Maker::default(), Rng::new(1));
        for w in wants {
            let f = filter(&w);
            let frame = maker.frame(&f, &mut rng);
            let frame = frame.unwrap_or_else(|| panic!("{f:?}"));
            assert_eq!(Seen::arrive(&frame, 0).fits(&f), Ok(()));
        }
    }
}
