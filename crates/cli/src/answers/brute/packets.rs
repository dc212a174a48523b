//! All packets of the small space that the rulesets are about, as frames, and frames read again.

use super::ruleset::{DST_PORTS, HOSTS, ICMP, Packet, SRC_PORTS, TCP, UDP};
use onefold_packet::checksum;

/// A protocol that no rule names.
const OTHER: u8 = 47;

/// All packets that rules tell apart, and some that they do not.
pub fn all() -> Vec<Packet> {
    let mut out = Vec::new();
    for src in 0..HOSTS {
        for dst in 0..HOSTS {
            let plain = Packet {
                src,
                dst,
                proto: OTHER,
                sport: 0,
                dport: 0,
                later: false,
            };
            out.push(plain);
            for proto in [TCP, UDP, ICMP] {
                let later = true;
                out.push(Packet {
                    proto,
                    later,
                    ..plain
                });
                let ports = |sport| {
                    DST_PORTS.into_iter().map(move |dport| Packet {
                        proto,
                        sport,
                        dport,
                        ..plain
                    })
                };
                match proto {
                    ICMP => out.push(Packet { proto, ..plain }),
                    _ => out.extend(SRC_PORTS.into_iter().flat_map(ports)),
                }
            }
        }
    }
    out
}

/// An IP packet in a frame, one that may begin a connection.
pub fn frame(p: &Packet) -> Vec<u8> {
    let mut body = match p.proto {
        TCP => {
            let mut b = [p.sport.to_be_bytes(), p.dport.to_be_bytes()].concat();
            b.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]);
            b
        }
        // without a checksum
        UDP => {
            let mut b = [p.sport.to_be_bytes(), p.dport.to_be_bytes()].concat();
            b.extend([0, 20, 0, 0]);
            b.extend([0; 12]);
            b
        }
        ICMP => [&[8, 0, 0, 0, 0, 1, 0, 1][..], &[0; 12]].concat(),
        _ => vec![0; 20],
    };
    let mut ip = vec![
        0x45, 0, 0, 40, 0, 0, 0, 0, 64, p.proto, 0, 0, 10, 0, 1, p.src, 10, 0, 2, p.dst,
    ];
    if p.later {
        ip[7] = 4;
    }
    let sum = checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let sum = match p.proto {
        ICMP => Some((2, checksum::internet(&body))),
        TCP => {
            let pseudo = [&ip[12..20], &[0, TCP, 0, 20], &body].concat();
            Some((16, checksum::internet(&pseudo)))
        }
        _ => None,
    };
    if let Some((at, sum)) = sum {
        body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip, &body].concat()
}

/// What rules see of a frame that was made of their conditions; hosts of other networks are none.
pub fn read(frame: &[u8]) -> Packet {
    let ip = &frame[14..];
    let host = |at: usize, net: u8| match ip[at..at + 3] == [10, 0, net] {
        true => ip[at + 3],
        false => 255,
    };
    let later = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0;
    let body = &ip[usize::from(ip[0] & 15) * 4..];
    let port = |at: usize| match matches!(ip[9], TCP | UDP) && !later {
        true => body
            .get(at..at + 2)
            .map_or(0, |b| u16::from_be_bytes([b[0], b[1]])),
        false => 0,
    };
    Packet {
        src: host(12, 1),
        dst: host(16, 2),
        proto: ip[9],
        sport: port(0),
        dport: port(2),
        later,
    }
}
