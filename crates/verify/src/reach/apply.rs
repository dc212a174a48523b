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

/// Does an update of a checksum speak of all that is written of what it covers? Then a right one stays right, a wrong
/// one wrong. Terms of slots stand for addresses and ports of a binding.
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

/// Where a header's total length is, in bits: an IPv6 header's (`six`), or an IPv4 header's.
fn total(at: i32, six: bool) -> i32 {
    (at + if six { 4 } else { 2 }) * 8
}

/// A set of packets while an image is written to it.
struct Rewrite<'a> {
    p: &'a Program,
    a: &'a Arrived,
    image: &'a Image,
    /// Bits that are written, checksums among them: the first one, and how many.
    written: Vec<(i32, i32)>,
    /// Where packets end, in bytes from the old epoch's first one.
    end: ValueSet,
    /// Bits from here on may be behind the packet's end.
    sure: i32,
    /// What is known so far of the packets as they will be.
    cube: Filter,
}

/// The packets as the image writes them, in the new epoch's terms.
pub fn after(p: &Program, a: &Arrived, image: &Image) -> Arrived {
    let fields = image.writes.iter().map(|w| (w.bit, i32::from(w.bits)));
    let sums = image.sums.iter().map(|s| (s.at * 8, 16));
    let end = end_of(a, image.end);
    let sure = match image.end {
        EndAt::Same => i32::MAX,
        _ => shortest(&end).saturating_mul(8).min(i64::from(i32::MAX)) as i32,
    };
    let mut r = Rewrite {
        p,
        a,
        image,
        written: fields.chain(sums).collect(),
        end,
        sure,
        cube: Filter::default(),
    };
    r.keep();
    r.write();
    let tight = r.tight();
    r.fits(tight);
    let set = r.annotations();
    r.packet_type();
    Arrived {
        cube: r.cube,
        tight,
        zero: a.zero || image.cleared,
        set,
        from: a.from,
    }
}

/// The least of the places where packets end.
fn shortest(end: &ValueSet) -> i64 {
    end.intervals().first().map_or(0, |i| i.0 as i64)
}

impl Rewrite<'_> {
    fn put(&mut self, d: Dim, set: &ValueSet) {
        self.cube.narrow(d, set, width(self.p, d));
    }

    fn is_written(&self, bit: i32, n: i32) -> bool {
        self.written.iter().any(|(b, m)| overlap(*b, *m, bit, n))
    }

    /// What was known and stays true.
    fn keep(&mut self) {
        for (d, set) in &self.a.cube.0 {
            match *d {
                Dim::Bits { bit, bits } => self.keep_bits(bit, bits, set),
                Dim::Check { check, at, end } if self.stays(check, at, end) => {
                    let at = at - self.image.start;
                    self.put(Dim::Check { check, at, end }, set);
                }
                Dim::Len | Dim::Slot(_) | Dim::Check { .. } => {}
                Dim::Anno(_) | Dim::PacketType | Dim::Route { .. } => {}
            }
        }
    }

    /// What is left of a field between fields that are written.
    fn keep_bits(&mut self, bit: i32, bits: u8, set: &ValueSet) {
        let shift = self.image.start.saturating_mul(8);
        let (mut from, stop) = (bit, bit + i32::from(bits));
        while from < stop {
            let written = &self.written;
            let hit = |at: i32| written.iter().find(|(b, m)| *b <= at && at < *b + *m);
            if let Some((b, m)) = hit(from) {
                from = b + m;
                continue;
            }
            let next = written.iter().map(|(b, _)| *b).filter(|b| *b > from).min();
            let to = next.unwrap_or(stop).min(stop);
            // of a field that the new end may cut, the bits before it
            let kept = to.min(self.sure);
            if kept > from {
                let n = (kept - from) as u8;
                let part = bits_of(set, (stop - kept) as u32, n);
                let bit = from - shift;
                self.put(Dim::Bits { bit, bits: n }, &part);
            }
            from = to;
        }
    }

    /// Does a question about a header keep its answer?
    fn stays(&self, check: HeaderCheck, at: i32, end: EndAt) -> bool {
        let image = self.image;
        let same = image.end == EndAt::Same;
        let same_or_own = same || image.end == EndAt::Ip4(at);
        let transport =
            |kind| same_or_own && !self.is_written(at * 8, 32) && follows(image, kind, at);
        end == EndAt::Same
            && match check {
                HeaderCheck::Ip4Fits => same && !self.is_written(total(at, false), 16),
                HeaderCheck::Ip6Fits => same && !self.is_written(total(at, true), 16),
                HeaderCheck::Ip4Checksum => same_or_own && follows(image, SumKind::Ip4, at),
                HeaderCheck::UdpFits => {
                    same_or_own
                        && !self.is_written(at * 8, 32)
                        && !self.is_written((at + 24) * 8, 16)
                }
                HeaderCheck::TcpChecksum => transport(SumKind::Tcp),
                HeaderCheck::UdpChecksum => transport(SumKind::Udp),
                HeaderCheck::IcmpChecksum => transport(SumKind::Icmp),
            }
    }

    /// Fields, the length, and checksums that are made right.
    fn write(&mut self) {
        let start = self.image.start;
        for w in &self.image.writes {
            let d = Dim::Bits {
                bit: w.bit - start.saturating_mul(8),
                bits: w.bits,
            };
            if w.bit.saturating_add(w.bits.into()) <= self.sure {
                self.put(d, &value(self.p, self.a, w.value, w.bits));
            }
        }
        let moved = self.end.intervals().iter().map(|(l, h)| {
            let go = |v: u128| (v.min(MAX_LEN as u128) as i64 - i64::from(start)).max(0) as u128;
            (go(*l), go(*h))
        });
        let length = ValueSet::from_intervals(moved);
        self.put(Dim::Len, &length);
        for s in self.image.sums.iter().filter(|s| made_right(self.a, s)) {
            let d = Dim::Check {
                check: HeaderCheck::Ip4Checksum,
                at: s.header - start,
                end: EndAt::Same,
            };
            self.put(d, &ValueSet::one(1));
        }
    }

    /// The header whose length says where the packet ends, in the new epoch's bytes.
    fn tight(&self) -> Option<EndAt> {
        let told = match self.image.end {
            EndAt::Same => self.a.tight,
            e => Some(e),
        };
        let move_end = |at: i32, six: bool| {
            let unwritten = !self.is_written(total(at, six), 16);
            unwritten.then_some(at - self.image.start)
        };
        match told? {
            EndAt::Ip4(at) => move_end(at, false).map(EndAt::Ip4),
            EndAt::Ip6(at) => move_end(at, true).map(EndAt::Ip6),
            EndAt::Same => None,
        }
    }

    /// Packets that were cut to the length that their header says fit it.
    fn fits(&mut self, tight: Option<EndAt>) {
        if self.image.end == EndAt::Same {
            return;
        }
        // the header itself is there only where the length that it says is long enough for it
        let (check, at, header) = match tight {
            Some(EndAt::Ip4(at)) => (HeaderCheck::Ip4Fits, at, 20),
            Some(EndAt::Ip6(at)) => (HeaderCheck::Ip6Fits, at, 0),
            _ => return,
        };
        if shortest(&self.end) >= i64::from(at + self.image.start) + header {
            let end = EndAt::Same;
            self.put(Dim::Check { check, at, end }, &ValueSet::one(1));
        }
    }

    /// Annotations that stay, and those that are written; which have ever been.
    fn annotations(&mut self) -> Vec<AnnoKey> {
        let mut set = Vec::new();
        if !self.image.cleared {
            let hit = |o: &AnnoKey, k: &AnnoKey| {
                let (at, n) = (o.offset.into(), o.size.into());
                overlap(at, n, k.offset.into(), k.size.into())
            };
            set.extend(self.a.set.iter().copied());
            for (d, s) in &self.a.cube.0 {
                if let Dim::Anno(k) = d
                    && !self.image.annos.iter().any(|(o, _)| hit(o, k))
                {
                    self.put(*d, s);
                }
            }
        }
        for (k, e) in &self.image.annos {
            let v = value(self.p, self.a, *e, k.size.saturating_mul(8));
            self.put(Dim::Anno(*k), &v);
            set.push(*k);
        }
        set.sort_unstable();
        set.dedup();
        set
    }

    fn packet_type(&mut self) {
        match self.image.packet_type {
            TypeExpr::Same => {
                if let Some(s) = self.a.cube.get(Dim::PacketType) {
                    self.put(Dim::PacketType, s);
                }
            }
            TypeExpr::Is(t) => self.put(Dim::PacketType, &ValueSet::one(t.into())),
            TypeExpr::Destination(e, device) => {
                let kinds = match value(self.p, self.a, e, 48).single() {
                    Some(v) => {
                        let b = v.to_be_bytes();
                        let mac = [b[10], b[11], b[12], b[13], b[14], b[15]];
                        ValueSet::one(TypeExpr::of_address(mac, device) as u128)
                    }
                    None => ValueSet::range(0, 3),
                };
                self.put(Dim::PacketType, &kinds);
            }
        }
    }
}
