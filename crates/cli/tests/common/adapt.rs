//! Makes a stranger's capture fit a chain: link headers, addresses, answers. What was wrong with a packet stays wrong.

use super::judge::{Layout, Sum, ones};
use onefold_capture::LinkType;

/// The MAC address that adapted frames come from.
const FROM: [u8; 6] = [2, 0, 0, 0, 0xfe, 1];

/// The Ethernet type and the network packet of a frame of any link type that we know.
pub fn network(frame: &[u8], link: LinkType) -> Option<(u16, &[u8])> {
    let be = |at: usize| {
        frame
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let by_version = |at: usize| match frame.get(at)? >> 4 {
        4 => Some((0x0800, &frame[at..])),
        6 => Some((0x86dd, &frame[at..])),
        _ => None,
    };
    match link {
        LinkType::ETHERNET => {
            let mut at = 12;
            // VLAN tags: at most what fits the frame
            while matches!(be(at)?, 0x8100 | 0x88a8 | 0x9100) {
                at += 4;
            }
            Some((be(at)?, frame.get(at + 2..)?))
        }
        LinkType::NULL | LinkType::LOOP => by_version(4),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => by_version(0),
        LinkType::LINUX_SLL => Some((be(14)?, frame.get(16..)?)),
        LinkType::LINUX_SLL2 => Some((be(0)?, frame.get(20..)?)),
        _ => None,
    }
}

/// An Ethernet frame.
pub fn frame(to: [u8; 6], kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut f = Vec::with_capacity(14 + packet.len());
    f.extend_from_slice(&to);
    f.extend_from_slice(&FROM);
    f.extend_from_slice(&kind.to_be_bytes());
    f.extend_from_slice(packet);
    f
}

/// Replaces bytes and updates a checksum field (RFC 1624) that covers them: a wrong one stays as wrong as it was.
fn replace(ip: &mut [u8], at: usize, new: &[u8], fields: &[usize]) {
    let old = ip[at..at + new.len()].to_vec();
    ip[at..at + new.len()].copy_from_slice(new);
    for &f in fields {
        if f + 2 > ip.len() {
            continue;
        }
        let sum = [!ip[f], !ip[f + 1]];
        let not_old: Vec<u8> = old.iter().map(|b| !b).collect();
        let v = !ones(&[&sum, &not_old, new]);
        ip[f..f + 2].copy_from_slice(&v.to_be_bytes());
    }
}

/// Where the transport checksum is, if it covers the addresses.
fn field(ip: &[u8], l: &Layout) -> Option<usize> {
    let at = match (l.proto, l.v6) {
        (6, _) => l.transport + 16,
        (17, _) => l.transport + 6,
        (58, true) => l.transport + 2,
        _ => return None,
    };
    let first = l.v6 || (ip[6] & 0x1f, ip[7]) == (0, 0);
    let there = at + 2 <= l.end && first;
    // no checksum is no checksum
    (there && !(l.proto == 17 && ip[at..at + 2] == [0, 0])).then_some(at)
}

/// Moves the source address into a prefix, its other bytes kept.
pub fn source_within(ip: &mut [u8], v4: &[u8], v6: &[u8]) {
    let Some(l) = Layout::of(ip) else { return };
    let mut fields: Vec<usize> = field(ip, &l).into_iter().collect();
    if l.v6 {
        replace(ip, 8, v6, &fields);
    } else {
        fields.push(10);
        // an odd number of bytes would shift the words
        let mut new = v4.to_vec();
        if new.len() % 2 == 1 {
            new.push(ip[12 + new.len()]);
        }
        replace(ip, 12, &new, &fields);
    }
    fix_udp_zero(ip, &l, &fields);
}

/// A UDP checksum that came out as zero is written as its other form.
fn fix_udp_zero(ip: &mut [u8], l: &Layout, fields: &[usize]) {
    if let (17, Some(&f)) = (l.proto, fields.first())
        && f != 10
        && ip[f..f + 2] == [0, 0]
    {
        ip[f..f + 2].copy_from_slice(&[0xff, 0xff]);
    }
}

/// The same packet on its way back: addresses and ports exchanged, echo requests become replies. `None` if it is no
/// packet that can be answered (a fragment, another protocol).
pub fn answer(ip: &[u8]) -> Option<Vec<u8>> {
    let l = Layout::of(ip)?;
    if l.fragment || l.routed {
        return None;
    }
    let mut b = ip[..l.end].to_vec();
    let (src, dst, n) = if l.v6 { (8, 24, 16) } else { (12, 16, 4) };
    for i in 0..n {
        b.swap(src + i, dst + i);
    }
    // as from far away
    if l.v6 {
        b[7] = 64;
    } else {
        let proto = b[9];
        replace(&mut b, 8, &[64, proto], &[10]);
    }
    let t = l.transport;
    match (l.proto, l.v6) {
        (6 | 17, _) if l.end >= t + 8 => {
            b.swap(t, t + 2);
            b.swap(t + 1, t + 3);
        }
        (1, false) if l.end >= t + 8 && b[t] == 8 => {
            let code = b[t + 1];
            replace(&mut b, t, &[0, code], &[t + 2]);
        }
        (58, true) if l.end >= t + 8 && b[t] == 128 => {
            let code = b[t + 1];
            replace(&mut b, t, &[129, code], &[t + 2]);
        }
        _ => return None,
    }
    Some(b)
}

/// An ICMP error (destination unreachable) about a packet, from where it was going to. Errors are not reported.
pub fn error_about(ip: &[u8]) -> Option<Vec<u8>> {
    let l = Layout::of(ip)?;
    let t = ip.get(l.transport..l.end)?;
    let plain = match (l.proto, l.v6) {
        (6 | 17, _) => true,
        (1, false) => t.first() == Some(&8),
        (58, true) => t.first()? >= &128,
        _ => false,
    };
    if !plain || l.fragment || l.routed {
        return None;
    }
    let quote = &ip[..l.end.min(if l.v6 { 1200 } else { 548 })];
    let mut b = if l.v6 {
        let mut h = vec![0x60, 0, 0, 0, 0, 0, 58, 64];
        h.extend_from_slice(&ip[24..40]);
        h.extend_from_slice(&ip[8..24]);
        h
    } else {
        let mut h = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, 1, 0, 0];
        h.extend_from_slice(&ip[16..20]);
        h.extend_from_slice(&ip[12..16]);
        h
    };
    let at = b.len();
    b.extend_from_slice(&[if l.v6 { 1 } else { 3 }, 1, 0, 0, 0, 0, 0, 0]);
    b.extend_from_slice(quote);
    let len = (b.len() - at) as u16;
    if l.v6 {
        b[4..6].copy_from_slice(&len.to_be_bytes());
        let sum = !ones(&[&b[8..40], &len.to_be_bytes(), &[0, 58], &b[at..]]);
        b[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    } else {
        b[2..4].copy_from_slice(&(len + 20).to_be_bytes());
        let sum = !ones(&[&b[..20]]);
        b[10..12].copy_from_slice(&sum.to_be_bytes());
        let sum = !ones(&[&b[at..]]);
        b[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
    Some(b)
}

/// A packet that a router and a NAT have no reason to keep: whole, right, with hops left, between hosts.
pub fn ordinary(ip: &[u8]) -> bool {
    let Some(l) = Layout::of(ip) else {
        return false;
    };
    let t = &ip[l.transport..l.end];
    let known = match (l.proto, l.v6) {
        (6, _) => l.transport_sum(ip) == Some((Sum::Tcp, true)),
        (17, _) => t.len() >= 8 && !matches!(l.transport_sum(ip), Some((_, false))),
        (1, false) => t.first() == Some(&8) && l.transport_sum(ip) == Some((Sum::Icmp, true)),
        (58, true) => t.first() == Some(&128) && l.transport_sum(ip) == Some((Sum::Icmp6, true)),
        _ => false,
    };
    if !known || l.fragment || l.routed {
        return false;
    }
    if l.v6 {
        ip[7] > 1 && ip[8] != 0xff && ip[24] != 0xff && l.transport == 40
    } else {
        let host = |a: u8| a != 0 && a != 127 && a < 224;
        ip[8] > 1
            && host(ip[12])
            && host(ip[16])
            && l.transport == 20
            && ones(&[&ip[..20]]) == 0xffff
    }
}
