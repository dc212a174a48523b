//! Packets with right checksums, and what to look for in those that leave.

use onefold_packet::checksum;

pub type Addr = [u8; 4];

/// The first word of a fragment's flags and offset: more follow.
pub const MORE: u16 = 0x2000;

/// An address.
pub fn a(text: &str) -> Addr {
    text.parse::<std::net::Ipv4Addr>().unwrap().octets()
}

/// An IP packet.
pub fn ip(src: Addr, dst: Addr, proto: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut b = vec![0x45, 0];
    b.extend((20 + payload.len() as u16).to_be_bytes());
    b.extend(id.to_be_bytes());
    b.extend(fragment.to_be_bytes());
    b.extend([64, proto, 0, 0]);
    b.extend(src);
    b.extend(dst);
    let sum = checksum::internet(&b);
    b[10..12].copy_from_slice(&sum.to_be_bytes());
    b.extend(payload);
    b
}

/// The frame of an IP packet.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend(packet);
    f
}

fn transport(src: (Addr, u16), dst: (Addr, u16), proto: u8, payload: &[u8]) -> Vec<u8> {
    let mut t = Vec::new();
    t.extend(src.1.to_be_bytes());
    t.extend(dst.1.to_be_bytes());
    let at = match proto {
        6 => {
            t.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
            16
        }
        _ => {
            t.extend((8 + payload.len() as u16).to_be_bytes());
            t.extend([0, 0]);
            6
        }
    };
    t.extend(payload);
    let sum = checksum::pseudo_v4(src.0, dst.0, proto, t.len() as u16);
    let sum = !checksum::fold(checksum::sum(&t, sum));
    t[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    t
}

/// A TCP segment.
pub fn tcp(src: (Addr, u16), dst: (Addr, u16)) -> Vec<u8> {
    ip(src.0, dst.0, 6, 7, 0, &transport(src, dst, 6, b"segment"))
}

/// A UDP datagram.
pub fn udp(src: (Addr, u16), dst: (Addr, u16)) -> Vec<u8> {
    ip(
        src.0,
        dst.0,
        17,
        7,
        0,
        &transport(src, dst, 17, b"a datagram of several fragments"),
    )
}

/// The same in fragments of sixteen bytes, the last one shorter.
pub fn fragments(packet: &[u8], id: u16) -> Vec<Vec<u8>> {
    let (src, dst) = (ends(packet).0, ends(packet).1);
    let parts: Vec<&[u8]> = packet[20..].chunks(16).collect();
    let last = parts.len() - 1;
    let part = |(n, part): (usize, &&[u8])| {
        let word = (n as u16 * 2) | if n < last { MORE } else { 0 };
        ip(src, dst, packet[9], id, word, part)
    };
    parts.iter().enumerate().map(part).collect()
}

/// An ICMP message, its type and the four bytes behind the checksum.
pub fn icmp(src: Addr, dst: Addr, kind: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut b = vec![kind, u8::from(kind == 3) * 4, 0, 0];
    b.extend(rest);
    b.extend(payload);
    let sum = checksum::internet(&b);
    b[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(src, dst, 1, 9, 0, &b)
}

/// An echo request (8) or reply (0).
pub fn echo(src: Addr, dst: Addr, kind: u8, id: u16) -> Vec<u8> {
    let id = id.to_be_bytes();
    let mut p = icmp(src, dst, kind, [id[0], id[1], 0, 1], b"payload of a ping");
    // no code
    p[21] = 0;
    p[22..24].fill(0);
    let sum = checksum::internet(&p[20..]);
    p[22..24].copy_from_slice(&sum.to_be_bytes());
    p
}

/// "Fragmentation needed", next hop 1400 bytes, about the first bytes of a packet.
pub fn error(from: Addr, to: Addr, about: &[u8], bytes: usize) -> Vec<u8> {
    let about = &about[..bytes.min(about.len())];
    icmp(from, to, 3, [0, 0, 0x05, 0x78], about)
}

/// Source and destination.
pub fn ends(p: &[u8]) -> (Addr, Addr) {
    (p[12..16].try_into().unwrap(), p[16..20].try_into().unwrap())
}

/// Source and destination port.
pub fn ports(p: &[u8]) -> (u16, u16) {
    let w = |at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
    (w(20), w(22))
}

/// Source and destination, with ports.
pub fn flow(p: &[u8]) -> ((Addr, u16), (Addr, u16)) {
    let ((s, d), (sp, dp)) = (ends(p), ports(p));
    ((s, sp), (d, dp))
}

/// What an ICMP error is about.
pub fn quoted(p: &[u8]) -> Vec<u8> {
    assert_eq!((p[9], p[20]), (1, 3));
    p[28..].to_vec()
}

/// All checksums are right, those of a quoted packet too, as far as it is there.
pub fn check(p: &[u8]) {
    assert_eq!(checksum::internet(&p[..20]), 0, "IP header of {p:02x?}");
    let len = usize::from(u16::from_be_bytes([p[2], p[3]]));
    let fragment = u16::from_be_bytes([p[6], p[7]]) & 0x3fff != 0;
    if p.len() < len || fragment {
        return;
    }
    let (t, (src, dst)) = (&p[20..len], ends(p));
    match p[9] {
        1 => {
            assert_eq!(checksum::internet(t), 0, "ICMP of {p:02x?}");
            if t[0] == 3 {
                check(&t[8..]);
            }
        }
        17 if t[6..8] == [0, 0] => {}
        6 | 17 => {
            let sum = checksum::pseudo_v4(src, dst, p[9], t.len() as u16);
            let sum = checksum::fold(checksum::sum(t, sum));
            assert_eq!(sum, 0xffff, "transport of {p:02x?}");
        }
        _ => {}
    }
}
