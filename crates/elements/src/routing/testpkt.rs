//! Packets for the tests of this family.

use onefold_packet::{Packet, Pkt, checksum};

/// An IPv4 packet with a right checksum; options must have a length that is a multiple of four.
pub(crate) fn ip(src: [u8; 4], dst: [u8; 4], proto: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let hlen = 20 + options.len();
    let mut b = vec![0u8; 20];
    b[0] = 0x40 | (hlen / 4) as u8;
    b[2..4].copy_from_slice(&((hlen + payload.len()) as u16).to_be_bytes());
    b[4..6].copy_from_slice(&[0x12, 0x34]);
    b[8] = 64;
    b[9] = proto;
    b[12..16].copy_from_slice(&src);
    b[16..20].copy_from_slice(&dst);
    b.extend_from_slice(options);
    fix(&mut b);
    b.extend_from_slice(payload);
    b
}

/// Recomputes the header checksum.
pub(crate) fn fix(b: &mut [u8]) {
    let hlen = usize::from(b[0] & 15) * 4;
    b[10..12].fill(0);
    let c = checksum::internet(&b[..hlen]);
    b[10..12].copy_from_slice(&c.to_be_bytes());
}

/// The header checksum is right.
pub(crate) fn sound(b: &[u8]) -> bool {
    let hlen = usize::from(b[0] & 15) * 4;
    checksum::internet(&b[..hlen]) == 0
}

/// A packet with its IP header annotation set and its destination annotation filled from the header.
pub(crate) fn marked(b: &[u8]) -> Pkt {
    let mut p = Box::new(Packet::from_slice(b));
    let hlen = b.first().map_or(20, |v| usize::from(v & 15) * 4);
    p.set_network_header(0, hlen);
    if let Some(d) = b.get(16..20).and_then(|d| d.first_chunk::<4>()) {
        p.anno.set_dst_ip(*d);
    }
    p
}

pub(crate) const A: [u8; 4] = [10, 0, 0, 1];
pub(crate) const B: [u8; 4] = [10, 0, 0, 2];
