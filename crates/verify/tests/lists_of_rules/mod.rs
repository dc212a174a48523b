//! Random lists of rules about a small space of packets, and all of its packets.
#![allow(dead_code)]

use onefold_verify::Rng;

/// A rule about four sources, four destinations, two protocols, some ports, and fragments.
pub fn rule(rng: &mut Rng) -> String {
    let net = |rng: &mut Rng, n: usize| match rng.below(3) {
        0 => format!("host 10.0.{n}.{}", rng.below(4)),
        1 => format!("net 10.0.{n}.{}/31", rng.below(2) * 2),
        _ => format!("net 10.0.{n}.0/30"),
    };
    let mut all = Vec::new();
    if rng.below(3) > 0 {
        let n = net(rng, 1);
        all.push(format!("src {n}"));
    }
    if rng.below(3) > 0 {
        let n = net(rng, 2);
        all.push(format!("dst {n}"));
    }
    match rng.below(7) {
        0 => all.push("tcp".into()),
        1 => all.push("udp".into()),
        2 => all.push(format!("dst tcp port {}", 80 + rng.below(3))),
        3 => all.push(format!("(tcp dst port >= {} or udp)", 80 + rng.below(4))),
        4 => all.push(format!("not (dst port {})", 80 + rng.below(3))),
        5 if rng.one_in(3) => all.push("ip frag".into()),
        _ => {}
    }
    let action = if rng.one_in(2) { "allow" } else { "deny" };
    match all.is_empty() {
        true => format!("{action} all"),
        false => format!("{action} {}", all.join(" && ")),
    }
}

/// A list of two to nine.
pub fn list(rng: &mut Rng) -> Vec<String> {
    (0..2 + rng.below(8)).map(|_| rule(rng)).collect()
}

/// A packet of the space.
#[derive(Debug, Clone)]
pub struct Packet {
    pub src: u8,
    pub dst: u8,
    pub proto: u8,
    pub port: u16,
    /// As the header has it: 0x2000 a first fragment, 1 a later one.
    pub fragment: u16,
    /// The IP packet.
    pub bytes: Vec<u8>,
}

/// All packets that those rules tell apart, and some that they do not: whole ones, first and later fragments.
pub fn packets() -> Vec<Packet> {
    let mut all = Vec::new();
    for src in 0..5u8 {
        for dst in 0..5u8 {
            for proto in [6u8, 17, 1] {
                for port in [79u16, 80, 81, 82, 83] {
                    for fragment in [0u16, 0x2000, 1] {
                        let mut p = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, proto, 0, 0];
                        p[6..8].copy_from_slice(&fragment.to_be_bytes());
                        p.extend([10, 0, 1, src, 10, 0, 2, dst]);
                        p.extend(1000u16.to_be_bytes());
                        p.extend(port.to_be_bytes());
                        p.extend([0; 16]);
                        let sum = onefold_packet::checksum::internet(&p[..20]);
                        p[10..12].copy_from_slice(&sum.to_be_bytes());
                        all.push(Packet {
                            src,
                            dst,
                            proto,
                            port,
                            fragment,
                            bytes: p,
                        });
                    }
                }
            }
        }
    }
    all
}
