//! Writing translated ends into packets: addresses, ports, identifiers, and all checksums over them.
//!
//! Checksums are updated (RFC 1624), so a wrong one stays wrong; a UDP checksum of zero stays zero. Of ICMP errors the
//! quoted packet is translated back (RFC 5508 REQ-4), the error's own address as well, and the error's checksum is
//! computed anew.
//!
//! Source: Linux, net/netfilter/nf_nat_proto.c (`nf_nat_manip_pkt`, `nf_nat_icmp_reply_translation`).

use super::headers::{place_of_upper, read_ends};
use super::key::Place;
use super::range::Side;
use super::translate::Rewrite;
use onefold_packet::checksum;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const SCTP: u8 = 132;

/// Does an ICMP error quote enough of its packet to be translated: eight bytes behind the IP header, where there is
/// anything to write? With fewer the kernel drops it.
pub(super) fn quotes_enough(net: &[u8]) -> bool {
    let quoted = || {
        let (six, _, upper) = place_of_upper(net, false)?;
        let end = end_of(net, six)?.min(net.len());
        let quoted = net.get(upper + 8..end)?;
        let (_, protocol, at) = place_of_upper(quoted, true)?;
        let written = matches!(protocol, ICMP | TCP | UDP | ICMP6);
        Some(!written || quoted.len() >= at + 8)
    };
    quoted() == Some(true)
}

/// Is it an ICMP redirect (RFC 792)? Of a translated connection it would have both ends talk to each other directly.
pub(super) fn redirects(net: &[u8]) -> bool {
    let found = place_of_upper(net, false);
    found.is_some_and(|(six, protocol, at)| !six && protocol == ICMP && net.get(at) == Some(&5))
}

/// Writes one side of a packet that begins with its IP header. False, and nothing is written, if it is another packet
/// than is expected.
pub(super) fn write(net: &mut [u8], side: Side, r: &Rewrite) -> bool {
    match r.error {
        false => write_packet(net, side, r),
        true => write_error(net, side, r),
    }
}

fn write_packet(net: &mut [u8], side: Side, r: &Rewrite) -> bool {
    let Some((ends, upper)) = read_ends(net, false) else {
        return false;
    };
    if ends.src != r.from.src || ends.dst != r.from.dst || ends.protocol != r.from.protocol {
        return false;
    }
    let six = ends.v6;
    if ends.is_icmp() && r.from.src.port != r.to.src.port {
        write_identifier(net, upper, ends.protocol, r.to.src.port);
    }
    let to = side.of(&r.to);
    write_place(net, (six, side), upper, ends.protocol, &to);
    true
}

fn write_error(net: &mut [u8], side: Side, r: &Rewrite) -> bool {
    let Some((six, protocol, upper)) = place_of_upper(net, false) else {
        return false;
    };
    let inner = upper + 8;
    let Some(quoted) = net.get_mut(inner..) else {
        return false;
    };
    let Some((ends, at)) = read_ends(quoted, true) else {
        return false;
    };
    // the quoted packet went the other way
    let (back, from) = (ends, &r.from);
    let same = match ends.is_icmp() {
        true => {
            back.src.address == from.dst.address
                && back.dst.address == from.src.address
                && back.src.port == from.src.port
        }
        false => back.src == from.dst && back.dst == from.src,
    };
    if !same || ends.protocol != from.protocol {
        return false;
    }
    let icmp = ends.is_icmp();
    let (was, to) = (side.of(&r.from), side.of(&r.to));
    if icmp && r.from.src.port != r.to.src.port {
        write_identifier(quoted, at, ends.protocol, r.to.src.port);
    }
    let changes = was.address != to.address || !icmp && was.port != to.port;
    if changes {
        let other = match side {
            Side::Src => Side::Dst,
            Side::Dst => Side::Src,
        };
        write_place(quoted, (six, other), at, ends.protocol, &to);
        // the pseudo-header's part of the checksum is computed anew below
        write_address(net, (six, side), &to);
    }
    write_icmp_checksum(net, six, upper, protocol);
    true
}

/// Where a source or destination address stands.
fn address_at(six: bool, side: Side) -> std::ops::Range<usize> {
    match (six, side) {
        (false, Side::Src) => 12..16,
        (false, Side::Dst) => 16..20,
        (true, Side::Src) => 8..24,
        (true, Side::Dst) => 24..40,
    }
}

/// Writes an address, and what follows from it in the IP header; gives back the one that was there.
fn write_address(net: &mut [u8], (six, side): (bool, Side), to: &Place) -> [u8; 16] {
    let mut old = [0; 16];
    let at = address_at(six, side);
    let n = at.len();
    let Some(field) = net.get_mut(at) else {
        return old;
    };
    old[..n].copy_from_slice(field);
    field.copy_from_slice(&to.address[..n]);
    if !six {
        update_at(net, 10, &old[..n], &to.address[..n]);
    }
    old
}

/// Writes address and port of one side.
fn write_place(net: &mut [u8], (six, side): (bool, Side), upper: usize, protocol: u8, to: &Place) {
    let old = write_address(net, (six, side), to);
    let n = if six { 16 } else { 4 };
    let mut was = [0; 18];
    let mut is = [0; 18];
    was[..n].copy_from_slice(&old[..n]);
    is[..n].copy_from_slice(&to.address[..n]);
    let mut len = n;
    if matches!(protocol, TCP | UDP | SCTP) {
        let at = upper + if side == Side::Src { 0 } else { 2 };
        if let Some(port) = net.get_mut(at..at + 2) {
            was[n..n + 2].copy_from_slice(port);
            port.copy_from_slice(&to.port.to_be_bytes());
            is[n..n + 2].copy_from_slice(&to.port.to_be_bytes());
            len = n + 2;
        }
    }
    match protocol {
        // of a quoted packet, it may be cut off: the checksum is looked at in a whole header only
        TCP if net.len() >= upper + 20 => update_at(net, upper + 16, &was[..len], &is[..len]),
        UDP => {
            let check = net.get(upper + 6..).and_then(|b| b.first_chunk::<2>());
            if check.is_some_and(|c| *c != [0; 2]) {
                update_at(net, upper + 6, &was[..len], &is[..len]);
                if net.get(upper + 6..upper + 8) == Some(&[0, 0]) {
                    net[upper + 6..upper + 8].copy_from_slice(&[0xff; 2]);
                }
            }
        }
        // the checksum is over the pseudo-header
        ICMP6 => update_at(net, upper + 2, &was[..n], &is[..n]),
        SCTP => write_crc(net, upper, six),
        _ => {}
    }
}

/// The identifier of a message that asks or answers.
fn write_identifier(net: &mut [u8], upper: usize, protocol: u8, to: u16) {
    let Some(field) = net.get_mut(upper + 4..upper + 6) else {
        return;
    };
    let old = [field[0], field[1]];
    field.copy_from_slice(&to.to_be_bytes());
    debug_assert!(matches!(protocol, ICMP | ICMP6));
    update_at(net, upper + 2, &old, &to.to_be_bytes());
}

/// A checksum after some bytes that it is over have changed.
fn update_at(net: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(field) = net.get_mut(at..at + 2) else {
        return;
    };
    let mut check = u16::from_be_bytes([field[0], field[1]]);
    for (o, n) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
        let (o, n) = (
            u16::from_be_bytes([o[0], o[1]]),
            u16::from_be_bytes([n[0], n[1]]),
        );
        check = checksum::update(check, o, n);
    }
    field.copy_from_slice(&check.to_be_bytes());
}

/// The checksum of an ICMP or ICMPv6 message, anew.
fn write_icmp_checksum(net: &mut [u8], six: bool, upper: usize, protocol: u8) {
    let Some(end) = end_of(net, six) else { return };
    let Some(field) = net.get_mut(upper + 2..upper + 4) else {
        return;
    };
    field.copy_from_slice(&[0; 2]);
    let (Some(message), Some(addresses)) = (net.get(upper..end), net.get(8..40)) else {
        return;
    };
    let pseudo = match six {
        true => checksum::sum(addresses, u64::from(protocol) + message.len() as u64),
        false => 0,
    };
    let check = !checksum::fold(checksum::sum(message, pseudo));
    net[upper + 2..upper + 4].copy_from_slice(&check.to_be_bytes());
}

/// Where the packet ends, as its IP header says.
fn end_of(net: &[u8], six: bool) -> Option<usize> {
    let word = |at: usize| {
        let b = net.get(at..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*b)))
    };
    match six {
        false => word(2),
        true => Some(40 + word(4)?),
    }
}

/// The checksum of an SCTP packet (RFC 9260 section 6.8): CRC32c, in the bytes' own order. A quoted packet's is left.
fn write_crc(net: &mut [u8], upper: usize, six: bool) {
    let Some(end) = end_of(net, six).filter(|e| *e <= net.len()) else {
        return;
    };
    let Some(all) = net.get_mut(upper..end).filter(|a| a.len() >= 12) else {
        return;
    };
    all[8..12].copy_from_slice(&[0; 4]);
    let crc = crc32c(all);
    all[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// CRC32c, bit by bit: SCTP behind address translation is rare.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for b in data {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// RFC 3720 section B.4.
    #[test]
    fn crc_of_known_texts() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
