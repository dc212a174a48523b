//! A packet at some place of the chain or of the program, symbolically: every bit a function of what the packet was
//! when the epoch began, and of what bindings have given since.

use super::bits;
use super::dd::{Dd, NO, Ref, YES};
use super::sum::Sum;
use super::vars::{Bit, Vars};
use onefold_element::ElemId;
use onefold_element::model::{HeaderCheck, RouteWhat, ValueSet, max_of};
use onefold_synth::program::{EndAt, SumKind};
use std::collections::BTreeMap;

/// Bits of the annotations.
pub const ANNO_BITS: usize = 384;

/// What differs, in words, where it is a checksum: it may be that it does not.
pub const CHECKSUM: &str = "a checksum";

/// Why something cannot be said.
pub type Cause = &'static str;

/// What is known of a bit of the annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnnoBit {
    /// This is its value.
    Is(bool),
    /// It is this bit of the packet, counted from its first byte.
    Packet(i32),
}

/// What is known of the packet when an epoch begins, besides its bytes. Numbers that are not known are variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Facts {
    /// The network header: first byte and length; without length where nothing behind it is marked.
    pub net: Option<(i32, Option<u8>)>,
    /// The MAC header: first byte.
    pub mac: Option<i32>,
    /// Bits of annotations that are known.
    pub annos: Vec<Option<AnnoBit>>,
    /// Bits of the packet type that are known.
    pub kind: Vec<Option<bool>>,
    /// The packet ends where this IP header says.
    pub ends: EndAt,
    /// Checksums (first byte) that the program's packet may have otherwise than the reference graph's.
    pub apart: Vec<i32>,
    /// Bits of the destination address that have one value, which the annotations have, too: a route table is asked
    /// the same by either.
    pub fixed: Vec<(i32, bool)>,
}

impl Facts {
    /// A packet from outside.
    pub fn entry() -> Facts {
        Facts {
            net: None,
            mac: None,
            annos: vec![Some(AnnoBit::Is(false)); ANNO_BITS],
            kind: vec![Some(false); 8],
            ends: EndAt::Same,
            apart: Vec::new(),
            fixed: Vec::new(),
        }
    }
}

/// A checksum that follows what was written, and is not computed before the epoch ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pending {
    /// Which.
    pub kind: SumKind,
    /// First byte of its IP header.
    pub header: i32,
    /// Its own first byte.
    pub at: i32,
    /// Computed over the packet as it is now.
    pub anew: bool,
    /// Else: updates, in order.
    pub groups: Vec<Sum>,
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sym {
    /// First byte.
    pub start: i32,
    /// End.
    pub end: EndAt,
    /// Bits that are not what they were.
    pub bits: BTreeMap<i32, Ref>,
    /// Checksums, ascending.
    pub sums: Vec<Pending>,
    /// Network header.
    pub net: Option<(i32, Option<u8>)>,
    /// MAC header.
    pub mac: Option<i32>,
    /// Annotations.
    pub annos: Vec<Ref>,
    /// Packet type.
    pub kind: Vec<Ref>,
    /// Written, and the IP header's checksum did not follow: bits from, to.
    pub stale_ip: Vec<(i32, i32)>,
    /// Written, and the checksum of the IP header at this byte did follow.
    pub followed: Vec<(i32, i32, i32)>,
}

/// Everything that functions are made with.
pub struct World {
    /// The functions.
    pub dd: Dd,
    /// What variables mean.
    pub vars: Vars,
    /// Of the epoch.
    pub facts: Facts,
}

/// How much of two packets is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// What leaves: bytes from the first to the last.
    Bytes,
    /// Everything that somebody behind may look at.
    All,
}

fn overlap(a: i32, a_bits: i32, b: i32, b_bits: i32) -> bool {
    a < b + b_bits && b < a + a_bits
}

impl Sym {
    /// Is a checksum pending among these bits?
    pub fn sum_in(&self, bit: i32, bits: i32) -> bool {
        self.sums.iter().any(|s| overlap(s.at * 8, 16, bit, bits))
    }
    /// Was any of these bits written?
    pub fn touched(&self, bit: i32, bits: i32) -> bool {
        self.sum_in(bit, bits) || self.bits.range(bit..bit + bits).next().is_some()
    }
    /// The pending checksum at this byte, made if there is none.
    pub fn pending(&mut self, kind: SumKind, header: i32, at: i32) -> Result<&mut Pending, Cause> {
        let i = match self.sums.binary_search_by_key(&at, |s| s.at) {
            Ok(i) => i,
            Err(i) => {
                if self.sum_in(at * 8, 16) {
                    return Err("checksums overlap");
                }
                let new = Pending {
                    kind,
                    header,
                    at,
                    anew: false,
                    groups: Vec::new(),
                };
                self.sums.insert(i, new);
                i
            }
        };
        match self.sums.get_mut(i) {
            Some(s) if s.kind == kind && s.header == header => Ok(s),
            _ => Err("one field is the checksum of two protocols"),
        }
    }
}

impl World {
    /// The packet as the epoch finds it.
    pub fn fresh(&mut self) -> Sym {
        let facts = self.facts.clone();
        let anno = |(i, k): (usize, &Option<AnnoBit>)| match k {
            Some(AnnoBit::Is(true)) => YES,
            Some(AnnoBit::Is(false)) => NO,
            Some(AnnoBit::Packet(at)) => self.vars.var(&mut self.dd, Bit::Packet(*at)),
            None => self.vars.var(&mut self.dd, Bit::Anno(i as u16)),
        };
        let annos = facts.annos.iter().enumerate().map(anno).collect();
        let mut all = |known: &[Option<bool>], bit: &dyn Fn(usize) -> Bit| -> Vec<Ref> {
            let f = |(i, k): (usize, &Option<bool>)| match k {
                Some(true) => YES,
                Some(false) => NO,
                None => self.vars.var(&mut self.dd, bit(i)),
            };
            known.iter().enumerate().map(f).collect()
        };
        let kind = all(&facts.kind, &|i| Bit::Type(i as u8));
        Sym {
            start: 0,
            end: EndAt::Same,
            bits: BTreeMap::new(),
            sums: Vec::new(),
            net: facts.net,
            mac: facts.mac,
            annos,
            kind,
            stale_ip: Vec::new(),
            followed: Vec::new(),
        }
    }

    /// The same in the reference graph: checksums that may be others are.
    pub fn fresh_apart(&mut self) -> Sym {
        let mut s = self.fresh();
        for at in self.facts.apart.clone() {
            let bits = at * 8..at * 8 + 16;
            for i in bits.clone() {
                let v = self.vars.var(&mut self.dd, Bit::Apart(i));
                s.bits.insert(i, v);
            }
            s.stale_ip.push((bits.start, bits.end));
        }
        s
    }

    /// A place where the packet ends, one name for each.
    pub fn end(&self, e: EndAt) -> EndAt {
        match e {
            EndAt::Same => self.facts.ends,
            e => e,
        }
    }

    /// Where the packet ends: a number that has to be added, and a function.
    fn end_vec(&mut self, e: EndAt) -> (Vec<Ref>, i64) {
        match self.end(e) {
            EndAt::Same => {
                let v = (0..32).map(|i| self.vars.var(&mut self.dd, Bit::Len(i)));
                (v.collect(), 0)
            }
            EndAt::Ip4(at) => (
                self.vars.packet(&mut self.dd, (at + 2) * 8, 16),
                i64::from(at),
            ),
            EndAt::Ip6(at) => (
                self.vars.packet(&mut self.dd, (at + 4) * 8, 16),
                i64::from(at) + 40,
            ),
        }
    }
    /// Is the number of bytes from `from` to the end in the set? None are there if the end lies before.
    pub fn length_in(&mut self, from: i32, end: EndAt, set: &ValueSet) -> Ref {
        let (v, off) = self.end_vec(end);
        let less = i128::from(from) - i128::from(off);
        let max = max_of(v.len() as u8) as i128;
        let up = |n: u128| i128::try_from(n).unwrap_or(i128::MAX).saturating_add(less);
        let mut out: Vec<(u128, u128)> = Vec::new();
        for (l, h) in set.intervals() {
            // nothing is less than zero
            let low = if *l == 0 { 0 } else { up(*l).max(0) };
            // "or longer" has no end: that of the numbers is further than any packet grows
            let high = match *h >= u128::from(u32::MAX) {
                true => max,
                false => up(*h).min(max),
            };
            if low <= high {
                out.push((low as u128, high as u128));
            }
        }
        bits::is_in(&mut self.dd, &v, &ValueSet::from_intervals(out))
    }
    /// The number of bytes from `from` to the end, in 32 bits.
    pub fn length(&mut self, from: i32, end: EndAt) -> Vec<Ref> {
        let (v, off) = self.end_vec(end);
        let v = bits::resize(&v, 32);
        let add = (i128::from(off) - i128::from(from)).rem_euclid(1 << 32);
        bits::plus(&mut self.dd, &v, add as u128)
    }

    /// One bit as it is now.
    fn bit(&mut self, s: &Sym, at: i32) -> Ref {
        match s.bits.get(&at) {
            Some(f) => *f,
            None => self.vars.var(&mut self.dd, Bit::Packet(at)),
        }
    }
    /// Bits as they are now.
    pub fn read(&mut self, s: &Sym, bit: i32, n: i32) -> Result<Vec<Ref>, Cause> {
        if s.sum_in(bit, n) {
            return Err("a checksum is read that has not been written yet");
        }
        Ok((bit..bit + n).map(|i| self.bit(s, i)).collect())
    }
    /// Writes bits; pending checksums are the caller's.
    pub fn put(&mut self, s: &mut Sym, bit: i32, v: &[Ref]) {
        for (i, f) in (bit..).zip(v) {
            let raw = self.vars.var(&mut self.dd, Bit::Packet(i));
            match *f == raw {
                true => s.bits.remove(&i),
                false => s.bits.insert(i, *f),
            };
        }
    }

    /// The answer to a question about the header at byte `at`, in a packet that is as when the epoch began, and ends
    /// there.
    pub fn question(&mut self, check: HeaderCheck, at: i32, end: EndAt) -> Ref {
        let end = match (check, self.end(end)) {
            // where a packet ends is nothing to the checksum of its IP header
            (HeaderCheck::Ip4Checksum, _) => EndAt::Same,
            (HeaderCheck::Ip4Fits, EndAt::Ip4(n)) | (HeaderCheck::Ip6Fits, EndAt::Ip6(n))
                if n == at =>
            {
                return YES;
            }
            (_, e) => e,
        };
        self.vars.var(&mut self.dd, Bit::Check((check, at, end)))
    }

    /// What a route table says of an address: nothing is known of it but that it says the same of the same address.
    pub fn route(
        &mut self,
        table: ElemId,
        what: RouteWhat,
        address: Vec<Ref>,
    ) -> Result<Vec<Ref>, Cause> {
        let address = address.into_iter().map(|f| self.fixed(f)).collect();
        let said = self.vars.route(&mut self.dd, (table, what, address));
        said.ok_or("too many questions to route tables")
    }

    /// A bit of the packet that is known to have one value, as that.
    fn fixed(&self, f: Ref) -> Ref {
        let bit = self.dd.is_var(f).and_then(|level| self.vars.bit(level));
        let value = (self.facts.fixed.iter()).find(|(at, _)| bit == Some(Bit::Packet(*at)));
        match value {
            Some((_, true)) => YES,
            Some((_, false)) => NO,
            None => f,
        }
    }

    /// The same question now, `here`.
    pub fn check(&mut self, s: &Sym, check: HeaderCheck, at: i32, here: Ref) -> Result<Ref, Cause> {
        let at8 = at * 8;
        match check {
            HeaderCheck::Ip4Fits if !s.touched(at8 + 16, 16) => {}
            HeaderCheck::Ip6Fits if !s.touched(at8 + 32, 16) => {}
            HeaderCheck::UdpFits if !s.touched(at8 + 16, 16) && !s.touched(at8 + 192, 16) => {}
            HeaderCheck::Ip4Checksum => return self.header_check(s, at, here),
            HeaderCheck::TcpChecksum | HeaderCheck::UdpChecksum | HeaderCheck::IcmpChecksum => {
                let behind = s.bits.range(at8 + 96..).next().is_some();
                let sums = s.sums.iter().any(|p| p.header == at && p.at >= at + 20);
                if behind || sums || s.touched(at8 + 16, 16) || s.touched(at8 + 72, 8) {
                    return Err("a transport checksum is asked about that changes have touched");
                }
            }
            _ => return Err("a length is asked about that was written"),
        }
        Ok(self.question(check, at, s.end))
    }

    /// Is the IP header's checksum right? Updates keep a right one right and a wrong one wrong, if no header is all
    /// zeros.
    fn header_check(&mut self, s: &Sym, at: i32, here: Ref) -> Result<Ref, Cause> {
        let at8 = at * 8;
        let ihl: Vec<Ref> = (at8 + 4..at8 + 8).map(|i| self.bit(s, i)).collect();
        let five = bits::masked(&mut self.dd, &ihl, 15, 5);
        let plain = self.dd.minus(here, five) == NO;
        let header = if plain { 160 } else { 480 };
        let pending = s.sums.iter().find(|p| p.at == at + 10);
        if s.stale_ip
            .iter()
            .any(|(a, b)| overlap(*a, b - a, at8, header))
        {
            return Err("the checksum of an IP header is asked about that did not follow");
        }
        match pending {
            Some(p) if p.anew && p.header == at && plain => return Ok(YES),
            Some(p) if p.anew || p.header != at || p.kind != SumKind::Ip4 => {
                return Err("the checksum of an IP header is asked about that did not follow");
            }
            _ => {}
        }
        let mut changed = pending.is_some();
        for (a, b, of) in &s.followed {
            if overlap(*a, b - a, at8, header) {
                if *of != at {
                    return Err("the checksum of an IP header is asked about that did not follow");
                }
                changed = true;
            } else if *of == at && pending.is_some() {
                return Err("something elsewhere has changed the checksum of an IP header");
            }
        }
        if changed {
            // the first byte is not zero, before and now
            let now: Vec<Ref> = (at8..at8 + 8).map(|i| self.bit(s, i)).collect();
            let then = self.vars.packet(&mut self.dd, at8, 8);
            for v in [now, then] {
                let zero = bits::masked(&mut self.dd, &v, 255, 0);
                if self.dd.and(zero, here) != NO {
                    return Err("an IP header that may be all zeros");
                }
            }
        }
        Ok(self.question(HeaderCheck::Ip4Checksum, at, EndAt::Same))
    }

    /// Some packets (within `here`) for which two differ, and in what; none only if they never do. (Where they differ
    /// in many bits, all of them together may be a function too big to make: one bit is told.)
    pub fn differ(&mut self, a: &Sym, b: &Sym, here: Ref, scope: Scope) -> (Ref, &'static str) {
        if a.start != b.start {
            return (here, "where the packet begins");
        }
        if self.end(a.end) != self.end(b.end) {
            return (here, "where the packet ends");
        }
        if scope == Scope::All {
            if a.net != b.net {
                return (here, "the network header mark");
            }
            if a.mac != b.mac {
                return (here, "the MAC header mark");
            }
        }
        let sums: Vec<i32> = a.sums.iter().chain(&b.sums).map(|s| s.at).collect();
        let from = match scope {
            Scope::Bytes => a.start * 8,
            Scope::All => i32::MIN,
        };
        let in_sum = |i: i32| sums.iter().any(|at| overlap(at * 8, 16, i, 1));
        for i in a.bits.keys().chain(b.bits.keys()) {
            if *i < from || in_sum(*i) {
                continue;
            }
            let (x, y) = (self.bit(a, *i), self.bit(b, *i));
            if x != y {
                let d = self.dd.xor(x, y);
                let d = self.dd.and(d, here);
                if d != NO {
                    return (d, "a field");
                }
            }
        }
        for at in sums {
            if at * 8 + 16 <= from {
                continue;
            }
            let of = |s: &Sym| s.sums.iter().find(|p| p.at == at).cloned();
            let d = self.sums_differ(a, of(a), b, of(b), at, here);
            let d = self.dd.and(d, here);
            if d != NO {
                return (d, CHECKSUM);
            }
        }
        if scope == Scope::All {
            let annos = a.annos.iter().zip(&b.annos).map(|p| (p, "an annotation"));
            let kinds = a.kind.iter().zip(&b.kind).map(|p| (p, "the packet type"));
            for ((x, y), text) in annos.chain(kinds).filter(|((x, y), _)| x != y) {
                let d = self.dd.xor(*x, *y);
                let d = self.dd.and(d, here);
                if d != NO {
                    return (d, text);
                }
            }
        }
        (NO, "")
    }

    /// Where two packets that differ do so in checksums alone: their first bytes.
    pub fn sums_apart(&mut self, a: &Sym, b: &Sym, here: Ref, scope: Scope) -> Option<Vec<i32>> {
        let mut like = b.clone();
        let mut all: Vec<i32> = a.sums.iter().chain(&b.sums).map(|s| s.at).collect();
        all.extend(&self.facts.apart);
        all.sort_unstable();
        all.dedup();
        like.sums.clone_from(&a.sums);
        for at in &all {
            for i in at * 8..at * 8 + 16 {
                match a.bits.get(&i) {
                    Some(f) => like.bits.insert(i, *f),
                    None => like.bits.remove(&i),
                };
            }
        }
        (self.differ(a, &like, here, scope).0 == NO).then_some(all)
    }

    /// What is between two packets' updates of a checksum, of the first for which that can be said.
    pub fn between(&mut self, a: &Sym, b: &Sym) -> Option<Sum> {
        let places: Vec<i32> = a.sums.iter().chain(&b.sums).map(|s| s.at).collect();
        for at in places {
            let of = |s: &Sym| s.sums.iter().find(|p| p.at == at).cloned();
            let (x, y) = (of(a), of(b));
            let plain = |p: &Option<Pending>| {
                (p.as_ref()).is_none_or(|p| !p.anew && p.kind != SumKind::Udp)
            };
            let base = |w: &mut World, s: &Sym| -> Vec<Ref> {
                (at * 8..at * 8 + 16).map(|i| w.bit(s, i)).collect()
            };
            if x == y || !plain(&x) || !plain(&y) || base(self, a) != base(self, b) {
                continue;
            }
            let mut total = |p: Option<Pending>| {
                let mut t = Sum::default();
                for g in p.iter().flat_map(|p| &p.groups) {
                    t.join(&mut self.dd, g);
                }
                t
            };
            let (x, y) = (total(x), total(y));
            return Some(x.minus(&mut self.dd, &y));
        }
        None
    }

    fn sums_differ(
        &mut self,
        a: &Sym,
        x: Option<Pending>,
        b: &Sym,
        y: Option<Pending>,
        at: i32,
        here: Ref,
    ) -> Ref {
        if x == y && x.as_ref().is_some_and(|p| p.anew) {
            return NO;
        }
        let base = |w: &mut World, s: &Sym| -> Vec<Ref> {
            (at * 8..at * 8 + 16).map(|i| w.bit(s, i)).collect()
        };
        let (base_a, base_b) = (base(self, a), base(self, b));
        let mut out = match base_a == base_b {
            true => NO,
            false => {
                let d = bits::differ(&mut self.dd, &base_a, &base_b);
                self.dd.and(d, here)
            }
        };
        let anew = |p: &Option<Pending>| p.as_ref().is_some_and(|p| p.anew);
        if anew(&x) || anew(&y) {
            return here;
        }
        let kind = |p: &Option<Pending>| p.as_ref().map(|p| p.kind);
        let groups = |p: Option<Pending>| p.map_or(Vec::new(), |p| p.groups);
        let udp = |k: Option<SumKind>| k == Some(SumKind::Udp);
        let (kx, ky) = (kind(&x), kind(&y));
        let (gx, gy) = (groups(x), groups(y));
        let ones = self.dd.all(base_a.iter().copied());
        if udp(kx) || udp(ky) {
            if kx.is_some() && ky.is_some() && kx != ky {
                return here;
            }
            // zero ends the updates: they are compared one by one, and only for the first one is the field known
            let n = gx.len().max(gy.len());
            let zero = bits::masked(&mut self.dd, &base_a, 0xffff, 0);
            let live = self.dd.minus(here, zero);
            for i in 0..n {
                let g = |l: &[Sum]| l.get(i).cloned().unwrap_or_default();
                let ones = if i == 0 { ones } else { YES };
                let d = g(&gx).differ(&mut self.dd, &g(&gy), live, ones);
                out = self.dd.or(out, d);
            }
            return out;
        }
        let total = |dd: &mut Dd, l: &[Sum]| {
            let mut t = Sum::default();
            for g in l {
                t.join(dd, g);
            }
            t
        };
        let (tx, ty) = (total(&mut self.dd, &gx), total(&mut self.dd, &gy));
        let d = tx.differ(&mut self.dd, &ty, here, ones);
        self.dd.or(out, d)
    }
}
