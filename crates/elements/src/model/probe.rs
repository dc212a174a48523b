//! Packets on both sides of every boundary that a model has: random ones rarely meet them.

use super::interp;
use super::samples::{Rng, Sample};
use super::{Cond, Model, Read, ValueSet, max_of};
use onefold_packet::wire::ipv4;
use onefold_packet::{Packet, PacketType};

/// Packets that are tried before a boundary is given up.
const TRIES: usize = 12;
/// Packets per boundary value.
const WANTED: usize = 2;
/// Longest packet that a length is probed with.
const MAX_LEN: u128 = 3000;

/// A field and the values that a condition wants of it.
type Leaf<'a> = (Read, &'a ValueSet);

/// The cases, which of them is wanted, what its condition reads, which of that is set, and to what.
type Goal<'a> = (&'a [super::Case], usize, Vec<Leaf<'a>>, usize, u128);

fn leaves<'a>(c: &'a Cond, out: &mut Vec<Leaf<'a>>) {
    match c {
        Cond::In(r, s) => out.push((*r, s)),
        Cond::All(l) | Cond::Any(l) => l.iter().for_each(|c| leaves(c, out)),
        Cond::Not(c) => leaves(c, out),
        _ => {}
    }
}

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

/// Gives a packet this value there; false if it has no such place.
fn set(p: &mut Packet, r: Read, v: u128) -> bool {
    match r {
        Read::Field(f) => interp::write(p, f, v).is_some(),
        Read::Anno(a) => {
            let (start, n) = (usize::from(a.offset), usize::from(a.size));
            let bytes = v.to_be_bytes();
            match (p.anno.bytes.get_mut(start..start + n), bytes.get(16 - n..)) {
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
        _ => false,
    }
}

/// Whoever marked the header marked its length as it says it now.
fn mark(p: &mut Packet) {
    let first = p.network().and_then(|n| n.first().copied());
    if let (Some(at), Some(first)) = (p.network_header_offset(), first) {
        let len = match first >> 4 {
            6 => 40,
            _ => usize::from(first & 15) * 4,
        };
        p.set_network_header(at, len);
    }
}

/// The header checksum, so that the packet is not refused for that.
fn mend(p: &mut Packet) {
    let at = p
        .network_header_offset()
        .and_then(|o| usize::try_from(o).ok());
    for at in at.into_iter().chain([0, 14]) {
        if let Some(mut h) = p.data_mut().get_mut(at..).and_then(ipv4::Header::parse)
            && h.version() == 4
            && h.header_len() == 20
        {
            h.fill_checksum();
            return;
        }
    }
}

/// Up to about `limit` packets near the boundaries of these models, made of `base`.
pub fn probes(models: &[Model], base: &[Sample], seed: u64, limit: usize) -> Vec<Sample> {
    let mut rng = Rng::new(seed ^ 0x5bd1_e995);
    let mut out = Vec::new();
    let mut wanted: Vec<Goal<'_>> = Vec::new();
    for m in models {
        let Model::Cases(cases) = m else { continue };
        for (i, c) in cases.iter().enumerate() {
            let mut all = Vec::new();
            leaves(&c.when, &mut all);
            for (j, (r, s)) in all.iter().enumerate() {
                let n = s.intervals().len();
                let ends = s.intervals().iter().enumerate();
                let max = max_of(r.width());
                for (_, (lo, hi)) in ends.filter(|(i, _)| *i < 2 || i + 1 == n) {
                    let near = [lo.checked_sub(1), Some(*lo), Some(*hi), hi.checked_add(1)];
                    for v in near.into_iter().flatten().filter(|v| *v <= max) {
                        wanted.push((cases, i, all.clone(), j, v));
                    }
                }
            }
        }
    }
    let every = (wanted.len() * WANTED).div_ceil(limit.max(1)).max(1);
    for (cases, i, all, j, v) in wanted.into_iter().step_by(every) {
        let mut found = 0;
        for n in 0..TRIES {
            let Some(s) = base.get(rng.below(base.len() as u64) as usize) else {
                break;
            };
            let mut p = s.packet.clone();
            // what else the condition wants first, then the value itself
            let others = all.iter().enumerate().filter(|(k, _)| *k != j);
            for (_, (r, s)) in others {
                let member = s.intervals().first().map(|(lo, _)| *lo);
                if let Some(m) = member {
                    set(&mut p, *r, m);
                }
            }
            let there = all.get(j).is_some_and(|(r, _)| set(&mut p, *r, v));
            mark(&mut p);
            if n % 2 == 0 {
                mend(&mut p);
            }
            if there && interp::chosen(cases, &p).is_ok_and(|c| c >= i) {
                out.push(Sample {
                    packet: p,
                    plain: false,
                });
                found += 1;
                if found == WANTED {
                    break;
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::samples::{Layer, samples};
    use crate::model::{Case, Exit, field};

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
