//! What becomes of a set of packets when an image begins a new epoch.

use super::Arrived;
use crate::cubes::{bits_in, bits_of, values, width};
use onefold_element::model::{AnnoKey, HeaderCheck, ValueSet, max_of};
use onefold_synth::program::{
    Dim, EndAt, Expr, Filter, Image, Program, SumKind, SumTerm, SumWrite, TypeExpr, Write,
};

/// Longest packet.
const MAX_LEN: i64 = 1 << 31;

fn overlap(a: i32, an: i32, b: i32, bn: i32) -> bool {
    a < b + bn && b < a + an
}

/// The values of an annotation.
fn anno(a: &Arrived, key: AnnoKey) -> ValueSet {
    let bits = key.size.saturating_mul(8);
    let near = |k: &AnnoKey| {
        overlap(
            k.offset.into(),
            k.size.into(),
            key.offset.into(),
            key.size.into(),
        )
    };
    let mut said = false;
    for (d, set) in &a.cube.0 {
        if let Dim::Anno(k) = d {
            if *k == key {
                return set.clone();
            }
            said |= near(k);
        }
    }
    match a.zero && !said && !a.set.iter().any(near) {
        true => ValueSet::one(0),
        false => ValueSet::full(bits),
    }
}

/// The values of a dimension.
pub fn values_of(p: &Program, a: &Arrived, d: Dim) -> ValueSet {
    match d {
        Dim::Anno(key) => anno(a, key),
        d => values(p, &a.cube, d),
    }
}

/// The values of an expression, cut to a width.
pub fn value(p: &Program, a: &Arrived, e: Expr, bits: u8) -> ValueSet {
    let cut = |s: ValueSet| match s.intervals().last() {
        Some((_, hi)) if *hi > max_of(bits) => bits_of(&s, 0, bits),
        _ => s,
    };
    match e {
        Expr::Const(c) => ValueSet::one(c & max_of(bits)),
        Expr::Of(Dim::Slot(_), plus) if plus != 0 => ValueSet::full(bits),
        Expr::Of(d, plus) => {
            let w = width(p, d);
            let back = plus.wrapping_neg() & max_of(w);
            cut(values_of(p, a, d).shifted_back(back, w))
        }
    }
}

/// Where the packet ends, from the epoch's first byte: least and most.
fn end_of(a: &Arrived, end: EndAt) -> ValueSet {
    let (at, field, more) = match end {
        EndAt::Same => {
            let all = || ValueSet::range(0, MAX_LEN as u128);
            return a.cube.get(Dim::Len).cloned().unwrap_or_else(all);
        }
        EndAt::Ip4(at) => (i64::from(at), at + 2, 0),
        EndAt::Ip6(at) => (i64::from(at), at + 4, 40),
    };
    let says = bits_in(&a.cube, field * 8, 16);
    let moved = says.intervals().iter().map(|(l, h)| {
        let go = |v: u128| (v as i64 + at + more).max(0) as u128;
        (go(*l), go(*h))
    });
    ValueSet::from_intervals(moved)
}

/// Does an update of a checksum speak of all that is written of what it covers? Then a right one stays right, a wrong one
/// wrong. Terms of slots stand for addresses and ports of a binding.
fn follows(image: &Image, kind: SumKind, header: i32) -> bool {
    let covers = |w: &Write| {
        let (h, t) = (header * 8, (header + 20) * 8);
        let at = |from: i32, n: i32| overlap(w.bit, w.bits.into(), from, n);
        match kind {
            SumKind::Ip4 => at(h, 160),
            // the pseudo header, and all that follows
            _ => at(h + 72, 8) || at(h + 96, 64) || w.bit + i32::from(w.bits) > t,
        }
    };
    let written: Vec<&Write> = image.writes.iter().filter(|w| covers(w)).collect();
    let sum = image
        .sums
        .iter()
        .find(|s| s.kind == kind && s.header == header);
    let Some(s) = sum else {
        return written.is_empty();
    };
    let bound = s
        .groups
        .iter()
        .flatten()
        .any(|t| matches!(t, SumTerm::Slot(_)));
    let told = |w: &Write| {
        s.groups.iter().flatten().any(|t| match t {
            SumTerm::Change { bit, bits, .. } => *bit == w.bit && *bits == w.bits,
            SumTerm::Slot(_) => false,
        })
    };
    let of_flow = |w: &Write| bound && w.bit >= (header + 12) * 8 && w.bit < (header + 26) * 8;
    !s.anew && written.iter().all(|w| told(w) || of_flow(w))
}

/// Is a checksum made right?
fn made_right(a: &Arrived, s: &SumWrite) -> bool {
    let ihl = bits_in(&a.cube, s.header * 8 + 4, 4);
    s.kind == SumKind::Ip4 && s.anew && ihl.single() == Some(5)
}

/// The packets as the image writes them, in the new epoch's terms.
pub fn after(p: &Program, a: &Arrived, image: &Image) -> Arrived {
    let mut cube = Filter::default();
    let shift = image.start.saturating_mul(8);
    let end = end_of(a, image.end);
    let shortest = end.intervals().first().map_or(0, |i| i.0 as i64);
    let cut = image.end != EndAt::Same;
    let mut put = |d: Dim, set: &ValueSet| {
        cube.narrow(d, set, width(p, d));
    };
    // fields and checksums that are written
    let mut written: Vec<(i32, i32)> = (image.writes.iter())
        .map(|w| (w.bit, i32::from(w.bits)))
        .collect();
    written.extend(image.sums.iter().map(|s| (s.at * 8, 16)));
    let is_written = |bit: i32, n: i32| written.iter().any(|(b, m)| overlap(*b, *m, bit, n));
    let sure = match cut {
        true => shortest.saturating_mul(8).min(i64::from(i32::MAX)) as i32,
        false => i32::MAX,
    };
    let behind = |bit: i32, n: i32| bit.saturating_add(n) > sure;
    let total = |at: i32, six: bool| (at + if six { 4 } else { 2 }) * 8;
    for (d, set) in &a.cube.0 {
        match *d {
            Dim::Len | Dim::Slot(_) => {}
            Dim::Bits { bit, bits } => {
                // what is left of it between fields that are written
                let (mut from, stop) = (bit, bit + i32::from(bits));
                while from < stop {
                    let hit = |at: i32| written.iter().find(|(b, m)| *b <= at && at < *b + *m);
                    if let Some((b, m)) = hit(from) {
                        from = b + m;
                        continue;
                    }
                    let next = written.iter().map(|(b, _)| *b).filter(|b| *b > from).min();
                    let to = next.unwrap_or(stop).min(stop);
                    // of a field that the new end may cut, the bits before it
                    let kept = to.min(sure);
                    if kept > from {
                        let n = (kept - from) as u8;
                        let part = bits_of(set, (stop - kept) as u32, n);
                        let bit = from - shift;
                        put(Dim::Bits { bit, bits: n }, &part);
                    }
                    from = to;
                }
            }
            Dim::Check { check, at, end } => {
                let same = image.end == EndAt::Same;
                let stays = end == EndAt::Same
                    && match check {
                        HeaderCheck::Ip4Fits => same && !is_written(total(at, false), 16),
                        HeaderCheck::Ip6Fits => same && !is_written(total(at, true), 16),
                        HeaderCheck::Ip4Checksum => {
                            same && follows(image, SumKind::Ip4, at)
                                || image.end == EndAt::Ip4(at) && follows(image, SumKind::Ip4, at)
                        }
                        HeaderCheck::UdpFits => {
                            (same || image.end == EndAt::Ip4(at))
                                && !is_written(at * 8, 32)
                                && !is_written((at + 24) * 8, 16)
                        }
                        HeaderCheck::TcpChecksum
                        | HeaderCheck::UdpChecksum
                        | HeaderCheck::IcmpChecksum => {
                            let kind = match check {
                                HeaderCheck::TcpChecksum => SumKind::Tcp,
                                HeaderCheck::UdpChecksum => SumKind::Udp,
                                _ => SumKind::Icmp,
                            };
                            (same || image.end == EndAt::Ip4(at))
                                && !is_written(at * 8, 32)
                                && follows(image, kind, at)
                        }
                    };
                if stays {
                    let at = at - image.start;
                    put(Dim::Check { check, at, end }, set);
                }
            }
            Dim::Anno(_) | Dim::PacketType | Dim::Route { .. } => {}
        }
    }
    for w in &image.writes {
        let d = Dim::Bits {
            bit: w.bit - shift,
            bits: w.bits,
        };
        if !behind(w.bit, w.bits.into()) {
            put(d, &value(p, a, w.value, w.bits));
        }
    }
    let moved = end.intervals().iter().map(|(l, h)| {
        let go = |v: u128| (v.min(MAX_LEN as u128) as i64 - i64::from(image.start)).max(0) as u128;
        (go(*l), go(*h))
    });
    put(Dim::Len, &ValueSet::from_intervals(moved));
    for s in image.sums.iter().filter(|s| made_right(a, s)) {
        let d = Dim::Check {
            check: HeaderCheck::Ip4Checksum,
            at: s.header - image.start,
            end: EndAt::Same,
        };
        put(d, &ValueSet::one(1));
    }
    let told = match image.end {
        EndAt::Same => a.tight,
        e => Some(e),
    };
    let move_end = |at: i32, six: bool| {
        let unwritten = !is_written(total(at, six), 16);
        unwritten.then_some(at - image.start)
    };
    let tight = told.and_then(|e| match e {
        EndAt::Ip4(at) => move_end(at, false).map(EndAt::Ip4),
        EndAt::Ip6(at) => move_end(at, true).map(EndAt::Ip6),
        EndAt::Same => None,
    });
    if cut {
        let fits = match tight {
            Some(EndAt::Ip4(at)) => Some((HeaderCheck::Ip4Fits, at)),
            Some(EndAt::Ip6(at)) => Some((HeaderCheck::Ip6Fits, at)),
            _ => None,
        };
        if let Some((check, at)) = fits {
            let end = EndAt::Same;
            // the header itself is there only where the length that it says is long enough for it
            let header = if check == HeaderCheck::Ip4Fits { 20 } else { 0 };
            if shortest >= i64::from(at + image.start) + header {
                put(Dim::Check { check, at, end }, &ValueSet::one(1));
            }
        }
    }
    let mut set = Vec::new();
    if !image.cleared {
        let near = |k: &AnnoKey| {
            let hit = |(o, _): &(AnnoKey, Expr)| {
                overlap(
                    o.offset.into(),
                    o.size.into(),
                    k.offset.into(),
                    k.size.into(),
                )
            };
            image.annos.iter().any(hit)
        };
        set.extend(a.set.iter().copied());
        for (d, s) in &a.cube.0 {
            if let Dim::Anno(k) = d
                && !near(k)
            {
                put(*d, s);
            }
        }
    }
    for (k, e) in &image.annos {
        put(Dim::Anno(*k), &value(p, a, *e, k.size.saturating_mul(8)));
        set.push(*k);
    }
    set.sort_unstable();
    set.dedup();
    match image.packet_type {
        TypeExpr::Same => {
            if let Some(s) = a.cube.get(Dim::PacketType) {
                put(Dim::PacketType, s);
            }
        }
        TypeExpr::Is(t) => put(Dim::PacketType, &ValueSet::one(t.into())),
        TypeExpr::Destination(e, device) => {
            let v = value(p, a, e, 48);
            let kinds = match v.single() {
                Some(v) => {
                    let b = v.to_be_bytes();
                    let mac = [b[10], b[11], b[12], b[13], b[14], b[15]];
                    ValueSet::one(TypeExpr::of_address(mac, device) as u128)
                }
                None => ValueSet::range(0, 3),
            };
            put(Dim::PacketType, &kinds);
        }
    }
    Arrived {
        cube,
        tight,
        zero: a.zero || image.cleared,
        set,
        from: a.from,
    }
}
