//! Packets of flows that nobody has opened: headers that have not been seen before, of strangers or of attackers.
//!
//! There is not enough memory for so many templates. So some thousand packets at a time are written before the clock
//! starts ([`super::unseen_frames`]): copies of templates in which addresses and ports are others, from the number of
//! the packet, checksums included. The ceiling and the MAC swap get such packets, too.

use crate::rng::mix;
use onefold_packet::checksum;

/// Which bits of a header are different in every packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vary {
    /// Of the source address.
    pub src: u32,
    /// Of the destination address.
    pub dst: u32,
    /// Of the source port: what it is and a number, another one in each round of the templates, so that a template's
    /// header does not come again before all of its ports were there.
    pub sport: u16,
    /// Of the destination port.
    pub dport: u16,
}

/// Packets of flows that were not opened, in a lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Unseen {
    /// Templates before this one are of flows that were opened.
    pub known: usize,
    /// Share of packets that are strangers.
    pub share: f64,
    /// How they differ.
    pub vary: Vary,
}

/// Spreads numbers that follow each other.
const ODD: u16 = 0x9e37;
/// Bytes of an Ethernet header.
const ETHER: usize = 14;

#[inline(always)]
fn be16(f: &[u8], at: usize) -> u16 {
    f.get(at..)
        .and_then(|f| f.first_chunk())
        .map_or(0, |b| u16::from_be_bytes(*b))
}

#[inline(always)]
fn put16(f: &mut [u8], at: usize, v: u16) {
    if let Some(to) = f.get_mut(at..).and_then(|f| f.first_chunk_mut()) {
        *to = v.to_be_bytes();
    }
}

fn be32(f: &[u8], at: usize) -> u32 {
    u32::from(be16(f, at)) << 16 | u32::from(be16(f, at + 2))
}

/// A port's number in a round: another one in each, and of two templates that differ in nothing else two. (Numbers of
/// the round alone made one header of all that fit one rule: a tenth of the packets came twice.)
#[inline(always)]
fn turned(port: u16, round: u64) -> u16 {
    port.wrapping_add((round as u16).wrapping_add(1).wrapping_mul(ODD))
}

/// The random bits of packet number `n`: those of addresses, and those of a port, which are no part of the others.
#[inline(always)]
fn drawn(n: u64) -> (u64, u16) {
    let a = mix(n);
    (a, (a.wrapping_mul(0x5bd1_e995_97f4_a7c1) >> 48) as u16)
}

impl Vary {
    /// Writes the header of packet number `n`, which is in round `round` of the templates, into an untagged IPv4 frame
    /// without options; others stay as they are. A checksum that was right is right afterwards; a UDP checksum of zero
    /// stays zero, and none becomes zero.
    #[inline]
    pub fn apply(&self, f: &mut [u8], n: u64, round: u64) {
        if f.len() < ETHER + 28 || be16(f, 12) != 0x0800 || f.get(ETHER) != Some(&0x45) {
            return;
        }
        let (a, b) = drawn(n);
        let fresh32 = |old: u32, mask: u32, r: u32| (old & !mask) | (r & mask);
        let fresh16 = |old: u16, mask: u16, r: u16| (old & !mask) | (r & mask);
        let (src, dst) = (be32(f, ETHER + 12), be32(f, ETHER + 16));
        let ports = be32(f, ETHER + 20);
        let (sport, dport) = ((ports >> 16) as u16, ports as u16);
        let new_src = fresh32(src, self.src, a as u32);
        let new_dst = fresh32(dst, self.dst, (a >> 32) as u32);
        let protocol = f.get(ETHER + 9).copied().unwrap_or(0);
        let sum_at = match protocol {
            6 if f.len() >= ETHER + 40 => Some(ETHER + 36),
            17 => Some(ETHER + 26),
            _ => None,
        };
        let (new_sport, new_dport) = match sum_at {
            Some(_) => (
                fresh16(sport, self.sport, turned(sport, round)),
                fresh16(dport, self.dport, b),
            ),
            None => (sport, dport),
        };
        let addresses = |sum: u16| {
            let sum = checksum::update32(sum, src, new_src);
            checksum::update32(sum, dst, new_dst)
        };
        // all ones are the same sum as zero
        let full = |sum: u16| if sum == 0 { 0xffff } else { sum };
        if (self.src, self.dst) != (0, 0) {
            put16(f, ETHER + 10, full(addresses(be16(f, ETHER + 10))));
        }
        for (at, v) in [(12, new_src), (16, new_dst)] {
            put16(f, ETHER + at, (v >> 16) as u16);
            put16(f, ETHER + at + 2, v as u16);
        }
        let Some(at) = sum_at else { return };
        put16(f, ETHER + 20, new_sport);
        put16(f, ETHER + 22, new_dport);
        let old = be16(f, at);
        if protocol == 17 && old == 0 {
            return;
        }
        let new = u32::from(new_sport) << 16 | u32::from(new_dport);
        let sum = checksum::update32(addresses(old), ports, new);
        put16(f, at, full(sum));
    }
}

/// A TCP (with these flags) or UDP frame of `len` bytes, checksums right.
pub fn frame_of(
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    tcp: Option<u8>,
    len: usize,
) -> Vec<u8> {
    use onefold_verify::frame::{Keep, Shape, finish, make};
    let proto = if tcp.is_some() { 6 } else { 17 };
    let headers = if tcp.is_some() { 54 } else { 42 };
    let mut f = make(Shape {
        version: 4,
        proto,
        tags: 0,
        payload: len.saturating_sub(headers),
    });
    for (at, v) in [
        (12, src),
        (16, dst),
        (20, u32::from(sport) << 16 | u32::from(dport)),
    ] {
        put16(&mut f, ETHER + at, (v >> 16) as u16);
        put16(&mut f, ETHER + at + 2, v as u16);
    }
    if let (Some(flags), Some(b)) = (tcp, f.get_mut(ETHER + 33)) {
        *b = flags;
    }
    finish(&mut f, Keep::default());
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn headers_are_new_and_checksums_right() {
        for tcp in [None, Some(0x02)] {
            let f = frame_of(0x0a00_0001, 0xc612_0001, 1000, 80, tcp, 64);
            assert_eq!(f.len(), 64);
            let vary = Vary {
                src: 0x00ff_ffff,
                sport: 0xffff,
                ..Vary::default()
            };
            let mut seen = HashSet::new();
            for n in 0..2000 {
                let mut g = f.clone();
                vary.apply(&mut g, n, n);
                assert_eq!(g[26], 10, "{n}: bits outside of the mask stay");
                assert_eq!((&g[30..34], &g[36..38]), (&f[30..34], &f[36..38]));
                let (ip, transport) = onefold_verify::frame::sums_right(&g);
                assert_eq!((ip, transport), (Some(true), Some(true)), "{n}");
                seen.insert(g[26..38].to_vec());
            }
            assert!(seen.len() > 1990, "{}", seen.len());
        }
    }

    #[test]
    fn headers_of_templates_that_differ_in_ports_alone_do() {
        let vary = Vary {
            sport: 0xffff,
            ..Vary::default()
        };
        let ports = [1000, 1001, 40_000, 65_535];
        let mut seen: HashSet<Vec<u8>> = ports
            .map(|p| frame_of(1, 2, p, 80, None, 64)[26..38].to_vec())
            .into();
        for round in 0..5000 {
            for port in ports {
                let mut f = frame_of(1, 2, port, 80, None, 64);
                vary.apply(&mut f, round, round);
                seen.insert(f[26..38].to_vec());
            }
        }
        let most = ports.len() * 5001;
        assert!(seen.len() > most - most / 100, "{} of {most}", seen.len());
    }

    #[test]
    fn what_is_not_understood_stays() {
        let vary = Vary {
            src: !0,
            dst: !0,
            sport: !0,
            dport: !0,
        };
        for mut f in [Vec::new(), vec![0; 30], vec![0xff; 64]] {
            let before = f.clone();
            vary.apply(&mut f, 7, 1);
            assert_eq!(f, before);
        }
        // no checksum stays none, and pings have no ports
        let mut f = frame_of(1, 2, 3, 4, None, 64);
        f[40..42].fill(0);
        vary.apply(&mut f, 9, 1);
        assert_eq!(&f[40..42], &[0, 0]);
        assert_ne!(&f[26..34], &[0, 0, 0, 1, 0, 0, 0, 2]);
    }
}
