//! IPv6 packets for the tests of this family.

use onefold_packet::{Packet, Pkt};
use std::net::Ipv6Addr;

pub(crate) fn addr(s: &str) -> [u8; 16] {
    s.parse::<Ipv6Addr>().unwrap().octets()
}

pub(crate) fn ip6(src: &str, dst: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut d = vec![0x60, 0, 0, 0];
    d.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    d.extend_from_slice(&[next, 64]);
    d.extend_from_slice(&addr(src));
    d.extend_from_slice(&addr(dst));
    d.extend_from_slice(payload);
    d
}

/// A packet whose IPv6 header annotation is set.
pub(crate) fn marked(b: &[u8]) -> Pkt {
    let mut p = Box::new(Packet::from_slice(b));
    p.set_network_header(0, 40);
    p
}

/// The sum that a right checksum makes 0xffff, word by word as RFC 8200 8.1 has it.
fn sum(d: &[u8]) -> u16 {
    let m = &d[40..];
    let mut words: Vec<u8> = d[8..40].to_vec();
    words.extend_from_slice(&(m.len() as u32).to_be_bytes());
    words.extend_from_slice(&[0, 0, 0, d[6]]);
    words.extend_from_slice(m);
    let mut acc = 0u32;
    for w in words.chunks(2) {
        acc += u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

/// Sets the checksum at `at` of a packet without extension headers.
pub(crate) fn put_checksum(d: &mut [u8], at: usize) {
    d[at..at + 2].fill(0);
    let c = !sum(d);
    d[at..at + 2].copy_from_slice(&c.to_be_bytes());
}

pub(crate) fn checksum_ok(d: &[u8]) -> bool {
    sum(d) == 0xffff
}
