//! IPv6 packets with right checksums, and what to look for in those that leave.

use onefold_packet::checksum;

pub type Addr6 = [u8; 16];
pub type End6 = (Addr6, u16);

/// An address.
pub fn a6(text: &str) -> Addr6 {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// An IPv6 packet.
pub fn ip6(src: Addr6, dst: Addr6, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut b = vec![0x60, 0, 0, 0];
    b.extend((payload.len() as u16).to_be_bytes());
    b.extend([next, 64]);
    b.extend(src);
    b.extend(dst);
    b.extend(payload);
    b
}

/// The frame of an IPv6 packet.
pub fn frame6(packet: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    f.extend(packet);
    f
}

/// A packet whose checksum stands at `at` of its payload.
fn summed(src: Addr6, dst: Addr6, next: u8, mut payload: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = checksum::pseudo_v6(&src, &dst, next, payload.len() as u32);
    let sum = !checksum::fold(checksum::sum(&payload, sum));
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    ip6(src, dst, next, &payload)
}

/// A TCP segment with these flags.
pub fn segment6(src: End6, dst: End6, flags: u8) -> Vec<u8> {
    let mut t = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    t.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    summed(src.0, dst.0, 6, t, 16)
}

/// A SYN.
pub fn tcp6(src: End6, dst: End6) -> Vec<u8> {
    segment6(src, dst, 2)
}

/// A UDP datagram.
pub fn udp6(src: End6, dst: End6) -> Vec<u8> {
    let mut t = [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    t.extend([0, 13, 0, 0]);
    t.extend(b"hello");
    summed(src.0, dst.0, 17, t, 6)
}

/// An echo request (128) or reply (129).
pub fn echo6(src: Addr6, dst: Addr6, kind: u8, id: u16) -> Vec<u8> {
    let mut t = vec![kind, 0, 0, 0];
    t.extend(id.to_be_bytes());
    t.extend([0, 1, 5, 6]);
    summed(src, dst, 58, t, 2)
}

/// An ICMPv6 error that quotes the first `n` bytes of a packet.
pub fn error6(src: Addr6, dst: Addr6, kind: u8, about: &[u8], n: usize) -> Vec<u8> {
    let mut t = vec![kind, 0, 0, 0, 0, 0, 5, 0];
    t.extend(&about[..n.min(about.len())]);
    summed(src, dst, 58, t, 2)
}

/// Source and destination.
pub fn ends6(p: &[u8]) -> (Addr6, Addr6) {
    let at = |n: usize| *p[n..].first_chunk::<16>().unwrap();
    (at(8), at(24))
}

/// The same with ports.
pub fn flow6(p: &[u8]) -> (End6, End6) {
    let (src, dst) = ends6(p);
    let port = |n: usize| u16::from_be_bytes([p[n], p[n + 1]]);
    ((src, port(40)), (dst, port(42)))
}

/// What an error quotes.
pub fn quoted6(p: &[u8]) -> &[u8] {
    &p[48..]
}

/// Length and checksum are right.
pub fn check6(p: &[u8]) {
    let (src, dst) = ends6(p);
    assert_eq!(usize::from(u16::from_be_bytes([p[4], p[5]])), p.len() - 40);
    let sum = checksum::pseudo_v6(&src, &dst, p[6], (p.len() - 40) as u32);
    let sum = checksum::fold(checksum::sum(&p[40..], sum));
    assert_eq!(sum, 0xffff, "{p:02x?}");
}
