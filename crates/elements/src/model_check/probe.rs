//! Packets at which a model decides: for every condition of every case, and both sides of every boundary that it has,
//! packets of which this condition alone makes the difference. Random ones rarely meet them.
//!
//! A condition is decisive where all before it in the list fail, what stands beside it in the same case holds (or, of
//! alternatives, fails), and the packet would fare differently without it. Such values are searched
//! ([`onefold_element::model::solve`]), and a random packet is given them.

use super::samples::Sample;
use onefold_element::model::rng::Rng;
use onefold_element::model::solve::{self, Known, axioms, plainly};
use onefold_element::model::{
    AT_ZERO, Base, Case, Cond, HeaderCheck, Model, Read, ValueSet, field, interp, max_of,
};
use onefold_packet::wire::ipv4;
use onefold_packet::{Packet, PacketType, checksum};
use std::collections::BTreeSet;

/// Packets that are tried before a set of values is given up.
const TRIES: usize = 4;
/// Packets per boundary value.
const WANTED: usize = 2;
/// Packets per case, whatever made it be taken.
const REACHED: usize = 3;
/// Longest packet that a length is probed with.
const MAX_LEN: u128 = 3000;
/// Alternatives that are looked at for one boundary value.
const BUDGET: u32 = 400;
/// Cases behind one that packets are sent to, to tell it from them.
const OTHERS: usize = 3;

fn resize(p: &mut Packet, have: usize, want: u128) -> bool {
    if want > MAX_LEN {
        return false;
    }
    let want = want as usize;
    match have.checked_sub(want) {
        Some(less) => p.take(less),
        None => p.put(want - have),
    }
    true
}

/// Length of the header that starts with these bits.
fn header_len(p: &Packet) -> usize {
    match p.network().and_then(|n| n.first()) {
        Some(b) if b >> 4 == 6 => 40,
        Some(b) => usize::from(b & 15) * 4,
        None => 20,
    }
}

/// Gives a packet this value there; false if it has no such place.
fn set(p: &mut Packet, r: Read, v: u128) -> bool {
    match r {
        Read::Field(f) => interp::write(p, f, v).is_some(),
        Read::Anno(a) => {
            let (start, n) = (usize::from(a.offset), usize::from(a.size));
            let bytes = v.to_be_bytes();
            match (
                p.anno.bytes_mut().get_mut(start..start + n),
                bytes.get(16 - n..),
            ) {
                (Some(to), Some(from)) => {
                    to.copy_from_slice(from);
                    true
                }
                _ => false,
            }
        }
        Read::PacketType => {
            let types = [
                PacketType::Host,
                PacketType::Broadcast,
                PacketType::Multicast,
                PacketType::OtherHost,
                PacketType::Outgoing,
                PacketType::Loopback,
                PacketType::FastRoute,
            ];
            let t = usize::try_from(v).ok().and_then(|v| types.get(v));
            t.map(|t| p.anno.packet_type = *t).is_some()
        }
        Read::Len => resize(p, p.len(), v),
        Read::NetLen => {
            let have = p.network().map(<[u8]>::len);
            have.is_some_and(|have| resize(p, have, v))
        }
        Read::TransportLen => {
            let have = p.transport().map(<[u8]>::len);
            have.is_some_and(|have| resize(p, have, v))
        }
        Read::HasNet | Read::At(Base::Net) if v == 0 => {
            p.clear_network_header();
            true
        }
        Read::HasMac | Read::At(Base::Mac) if v == 0 => {
            p.clear_mac_header();
            true
        }
        Read::HasNet => {
            if p.network_header_offset().is_none() {
                p.set_network_header(0, 20);
            }
            true
        }
        Read::HasMac => {
            if p.mac_header_offset().is_none() {
                p.set_mac_header(0);
            }
            true
        }
        Read::At(base) => {
            let at = v as isize - AT_ZERO as isize;
            // a header before the first byte lies in what was stripped
            if at < -2000 {
                return false;
            }
            let room = p.data_offset() as isize;
            if at + room < 0 {
                let n = (-(at + room)) as usize;
                p.push(n);
                p.pull(n);
            }
            match base {
                Base::Data => {}
                Base::Mac => p.set_mac_header(at),
                Base::Net => p.set_network_header(at, header_len(p)),
                Base::Transport if v == 0 => {
                    let net = p.network_header_offset();
                    p.clear_network_header();
                    if let Some(net) = net {
                        p.move_network_header(net);
                    }
                }
                Base::Transport => {
                    let len = header_len(p);
                    p.set_network_header(at - len as isize, len);
                }
            }
            true
        }
        Read::Check {
            check,
            base,
            offset,
        } => {
            let at = match base {
                Base::Data => Some(isize::from(offset as i16)),
                _ => p.network_header_offset().map(|o| o + offset as isize),
            };
            let at = at.and_then(|a| usize::try_from(a).ok());
            at.and_then(|at| answer(p.data_mut().get_mut(at..)?, check, v == 1))
                .is_some()
        }
        // no packet says what a table has
        Read::Route { .. } => false,
    }
}

/// Makes the answer to a question about the header that these bytes start with the one that is wanted.
fn answer(b: &mut [u8], check: HeaderCheck, yes: bool) -> Option<()> {
    let len = b.len();
    let word = |b: &[u8], at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *b.get(at)?,
            *b.get(at + 1)?,
        ])))
    };
    let put = |b: &mut [u8], at: usize, v: usize| {
        b.get_mut(at..at + 2)?
            .copy_from_slice(&(v as u16).to_be_bytes());
        Some(())
    };
    match check {
        HeaderCheck::Ip4Fits => match (word(b, 2)? <= len, yes) {
            (false, true) => put(b, 2, len),
            (true, false) => put(b, 2, len + 1),
            _ => Some(()),
        },
        HeaderCheck::Ip6Fits => match (word(b, 4)? + 40 <= len, yes) {
            (false, true) => put(b, 4, len.checked_sub(40)?),
            (true, false) => put(b, 4, len.checked_sub(39)?),
            _ => Some(()),
        },
        HeaderCheck::Ip4Checksum => {
            let mut h = ipv4::Header::parse(&mut *b)?;
            h.fill_checksum();
            if !yes {
                *b.get_mut(11)? ^= 1;
            }
            Some(())
        }
        HeaderCheck::UdpFits => {
            let room = word(b, 2)?.checked_sub(20)?;
            put(b, 24, if yes { room } else { room + 1 })
        }
        HeaderCheck::TcpChecksum | HeaderCheck::UdpChecksum | HeaderCheck::IcmpChecksum => {
            let (proto, at) = match check {
                HeaderCheck::TcpChecksum => (6, 16),
                HeaderCheck::UdpChecksum => (17, 6),
                _ => (1, 2),
            };
            let h = ipv4::Header::parse(&mut *b)?;
            let (src, dst) = (h.src(), h.dst());
            let end = match check {
                HeaderCheck::UdpChecksum => 20 + word(b, 24)?,
                _ => word(b, 2)?,
            };
            let t = b.get_mut(20..end)?;
            let pseudo = match proto {
                1 => 0,
                p => checksum::pseudo_v4(src, dst, p, t.len() as u16),
            };
            t.get_mut(at..at + 2)?.fill(0);
            let c = !checksum::fold(checksum::sum(t, pseudo));
            let c = if c == 0 && proto == 17 { 0xffff } else { c };
            put(t, at, usize::from(if yes { c } else { c ^ 0x0100 }))
        }
    }
}

/// A header is marked as long as it says.
fn remark(p: &mut Packet, k: &Known) {
    if k.contains_key(&Read::At(Base::Transport)) {
        return;
    }
    if let (Some(at), Some(_)) = (p.network_header_offset(), p.transport_header_offset()) {
        let first = p.network().and_then(|n| n.first()).copied();
        let len = match first {
            // an element of IPv4 looks at it, whatever its version: one of IPv4 has marked it
            Some(b) if k.contains_key(&Read::Field(field::IP_IHL)) => usize::from(b & 15) * 4,
            _ => header_len(p),
        };
        p.set_network_header(at, len);
    }
}

/// In which order values are given: marks before what lies in headers, lengths behind fields, answers last.
fn turn(r: Read) -> u8 {
    match r {
        Read::HasNet | Read::HasMac => 0,
        Read::At(Base::Transport) => 2,
        Read::At(_) => 1,
        Read::Anno(_) | Read::PacketType => 3,
        Read::Route { .. } => 4,
        Read::Field(_) => 5,
        Read::Len | Read::NetLen | Read::TransportLen => 6,
        Read::Check { check, .. } => match check {
            HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits | HeaderCheck::UdpFits => 7,
            HeaderCheck::TcpChecksum | HeaderCheck::UdpChecksum | HeaderCheck::IcmpChecksum => 8,
            HeaderCheck::Ip4Checksum => 9,
        },
    }
}

/// A value of the set: an end of an interval, or any.
fn member(s: &ValueSet, rng: &mut Rng) -> Option<u128> {
    let all = s.intervals();
    let (lo, hi) = *all.get(rng.below(all.len() as u64) as usize)?;
    Some(match rng.below(4) {
        0 => lo,
        1 => hi,
        _ => match (hi - lo).checked_add(1) {
            Some(n) => {
                let r = u128::from(rng.next()) << 64 | u128::from(rng.next());
                lo + r % n
            }
            None => u128::from(rng.next()),
        },
    })
}

/// A packet with these values, made of another one; `None` where they do not go together.
fn build(base: &Sample, k: &Known, update_checksums: bool, rng: &mut Rng) -> Option<Sample> {
    let mut p = base.packet.clone();
    let mut all: Vec<(&Read, &ValueSet)> = k.iter().collect();
    all.sort_by_key(|(r, _)| turn(**r));
    // long enough for the fields first
    let ends = k.keys().filter_map(|r| match r {
        Read::Field(f) => Some((
            f.base,
            (usize::from(f.bit) + usize::from(f.bits)).div_ceil(8),
        )),
        _ => None,
    });
    // twice: what one value needs, another one may undo
    for _ in 0..2 {
        for (base, end) in ends.clone() {
            let have = match base {
                Base::Data => Some(p.len()),
                Base::Mac => p.mac().map(<[u8]>::len),
                Base::Net => p.network().map(<[u8]>::len),
                Base::Transport => p.transport().map(<[u8]>::len),
            };
            if let Some(short) = have.and_then(|h| end.checked_sub(h)) {
                p.put(short);
            }
        }
        let mut marked = false;
        for (r, s) in &all {
            if turn(**r) > 5 && !marked {
                marked = true;
                remark(&mut p, k);
            }
            if interp::read(**r, &p).is_ok_and(|v| s.contains(v)) {
                continue;
            }
            if let Some(v) = member(s, rng) {
                set(&mut p, **r, v);
            }
        }
        if !marked {
            remark(&mut p, k);
        }
        if update_checksums {
            let at = p
                .network_header_offset()
                .and_then(|o| usize::try_from(o).ok());
            for at in at.into_iter().chain([0, 14]) {
                if let Some(b) = p.data_mut().get_mut(at..)
                    && b.first() == Some(&0x45)
                {
                    let _ = answer(b, HeaderCheck::Ip4Checksum, true);
                    break;
                }
            }
        }
    }
    let good = |(r, s): &(&Read, &ValueSet)| match interp::read(**r, &p) {
        Ok(v) => s.contains(v),
        // what is not there is not asked about, or the case list is wrong
        Err(_) => true,
    };
    all.iter().all(good).then_some(Sample {
        packet: p,
        plain: false,
    })
}

/// The conditions of a list, as they are and turned round.
struct Lists {
    yes: Vec<Cond>,
    no: Vec<Cond>,
}

/// A condition inside a case, and what must hold for it to decide.
struct Leaf<'a> {
    read: Read,
    set: &'a ValueSet,
    beside: Vec<Cond>,
}

fn leaves<'a>(c: &'a Cond, beside: &[Cond], out: &mut Vec<Leaf<'a>>) {
    match c {
        Cond::In(r, s) => out.push(Leaf {
            read: *r,
            set: s,
            beside: beside.to_vec(),
        }),
        Cond::All(l) | Cond::Any(l) => {
            let all = matches!(c, Cond::All(_));
            for (i, part) in l.iter().enumerate() {
                let others = l.iter().enumerate().filter(|(j, _)| *j != i);
                let mut beside = beside.to_vec();
                beside.extend(others.map(|(_, o)| plainly(o, all)));
                leaves(part, &beside, out);
            }
        }
        _ => {}
    }
}

/// Values at the ends of a set: inside and outside.
fn ends(s: &ValueSet, bits: u8) -> Vec<u128> {
    let n = s.intervals().len();
    let max = max_of(bits);
    let some = s.intervals().iter().enumerate();
    let some = some.filter(|(i, _)| *i < 2 || i + 1 == n);
    let near =
        some.flat_map(|(_, (lo, hi))| [lo.checked_sub(1), Some(*lo), Some(*hi), hi.checked_add(1)]);
    let values: BTreeSet<u128> = near.flatten().filter(|v| *v <= max).collect();
    values.into_iter().collect()
}

/// The neighbour of a field: looking there instead is a likely mistake.
fn neighbour(r: Read) -> Option<Read> {
    match r {
        Read::Field(mut f) => {
            f.bit = f.bit.checked_add(u16::from(f.bits).div_ceil(8) * 8)?;
            Some(Read::Field(f))
        }
        _ => None,
    }
}

/// Do two cases mean the same for a packet that either of them takes?
pub fn same_end(a: &Case, b: &Case) -> bool {
    a.exit == b.exit && a.ops == b.ops && a.origin == b.origin
}

struct Prober<'a> {
    cases: &'a [Case],
    lists: Lists,
    base: &'a [Sample],
    rng: Rng,
    out: Vec<Sample>,
}

impl Prober<'_> {
    /// Packets for which case `i` and `more` hold or not, and none of the cases before it.
    fn goal(&mut self, i: usize, known: Known, more: &[&Cond], wanted: usize) -> usize {
        let before = self.lists.no.get(..i).unwrap_or(&[]);
        let todo = before.iter().chain(more.iter().copied()).collect();
        let (mut found, mut rng) = (Vec::new(), self.rng.clone());
        let mut tries = TRIES * wanted;
        let (base, cases) = (self.base, self.cases);
        let mut inner = Rng::new(rng.next());
        solve::search(known, todo, &mut { BUDGET }, &mut rng, &mut |k| {
            for _ in 0..TRIES {
                let Some(s) = base.get(inner.below(base.len() as u64) as usize) else {
                    return true;
                };
                tries = tries.saturating_sub(1);
                let update_checksums = inner.one_in(2);
                let p = build(s, k, update_checksums, &mut inner);
                let p = p.filter(|p| interp::chosen(cases, &p.packet).is_ok_and(|c| c >= i));
                found.extend(p);
                if found.len() >= wanted || tries == 0 {
                    return true;
                }
            }
            false
        });
        self.rng = inner;
        let n = found.len();
        self.out.append(&mut found);
        n
    }

    /// Cases behind this one that end differently: those whose packets show whether it holds.
    fn others(&self, i: usize) -> Vec<usize> {
        let Some(this) = self.cases.get(i) else {
            return Vec::new();
        };
        let behind = self.cases.iter().enumerate().skip(i + 1);
        let mut all: Vec<usize> = behind
            .filter(|(_, c)| !same_end(this, c))
            .map(|(j, _)| j)
            .collect();
        let last = all.last().copied();
        all.truncate(OTHERS);
        all.retain(|k| Some(*k) != last);
        // what nothing takes first: mostly the farthest from this one
        last.into_iter().chain(all).collect()
    }

    fn leaf(&mut self, i: usize, leaf: &Leaf<'_>, v: u128) {
        let mut known = axioms();
        let one = Cond::In(leaf.read, ValueSet::one(v));
        let inside = leaf.set.contains(v);
        let beside: Vec<&Cond> = leaf.beside.iter().chain([&one]).collect();
        // the neighbouring field says the opposite
        let opposite = neighbour(leaf.read).map(|r| match inside {
            true => Cond::In(r, leaf.set.complement(leaf.read.width())),
            false => Cond::In(r, leaf.set.clone()),
        });
        let mut made = 0;
        for k in self.others(i) {
            let mut goal: Vec<Cond> = self.lists.no.get(i + 1..k).unwrap_or(&[]).to_vec();
            goal.extend(self.lists.yes.get(k).cloned());
            let with: Vec<&Cond> = beside.iter().copied().chain(&goal).collect();
            if let Some(o) = &opposite {
                let with: Vec<&Cond> = with.iter().copied().chain([o]).collect();
                made += self.goal(i, known.clone(), &with, 1);
            }
            made += self.goal(i, known.clone(), &with, 1);
            if made >= WANTED {
                return;
            }
        }
        if made == 0 {
            known = axioms();
            self.goal(i, known, &beside, 1);
        }
    }
}

/// Up to about `limit` boundary values of these models are looked at, with packets made of `base`.
pub fn probes(models: &[Model], base: &[Sample], seed: u64, limit: usize) -> Vec<Sample> {
    let mut out = Vec::new();
    for m in models {
        let Model::Cases(cases) = m else { continue };
        let lists = Lists {
            yes: cases.iter().map(|c| plainly(&c.when, true)).collect(),
            no: cases.iter().map(|c| plainly(&c.when, false)).collect(),
        };
        let mut goals: Vec<(usize, usize, u128)> = Vec::new();
        let yes = lists.yes.clone();
        let of = |i: usize| {
            let mut all = Vec::new();
            if let Some(c) = yes.get(i) {
                leaves(c, &[], &mut all);
            }
            all
        };
        for i in 0..cases.len() {
            for (j, leaf) in of(i).iter().enumerate() {
                let values = ends(leaf.set, leaf.read.width());
                goals.extend(values.into_iter().map(|v| (i, j, v)));
            }
        }
        let mut p = Prober {
            cases,
            lists,
            base,
            rng: Rng::new(seed ^ 0x5bd1_e995),
            out: Vec::new(),
        };
        let every = cases.len().div_ceil(limit.max(1)).max(1);
        for i in (0..cases.len()).step_by(every) {
            let holds = p.lists.yes.get(i).cloned().unwrap_or(Cond::Never);
            p.goal(i, axioms(), &[&holds], REACHED);
        }
        let every = goals.len().div_ceil(limit.max(1)).max(1);
        for (i, j, v) in goals.into_iter().step_by(every) {
            if let Some(leaf) = of(i).get(j) {
                p.leaf(i, leaf, v);
            }
        }
        out.append(&mut p.out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_check::samples::{Layer, samples};
    use onefold_element::model::Exit;

    #[test]
    fn both_sides_of_a_boundary_are_met() {
        let m = Model::Cases(vec![
            Case::new(Cond::In(Read::HasNet, ValueSet::one(0)), Exit::Drop("x")),
            Case::new(Cond::less(Read::NetLen, 20), Exit::Drop("x")),
            Case::new(
                Cond::between(field::IP_DST, 0x0a01_0203, 0x0a01_0209),
                Exit::Port(1),
            ),
            Case::new(Cond::Always, Exit::Port(0)),
        ]);
        let base = samples(Layer::Ip4, "", 1, 100);
        let all = probes(&[m], &base, 1, 1000);
        let has = |v: u32| {
            let at = |s: &Sample| {
                s.packet
                    .network()
                    .and_then(|n| n.get(16..20).map(<[u8]>::to_vec))
            };
            all.iter().any(|s| at(s) == Some(v.to_be_bytes().to_vec()))
        };
        for v in [0x0a01_0202, 0x0a01_0203, 0x0a01_0209, 0x0a01_020a] {
            assert!(has(v), "{v:x}");
        }
        let len = |n| {
            all.iter()
                .any(|s| s.packet.network().is_some_and(|b| b.len() == n))
        };
        assert!(len(19) && len(20));
    }
}
