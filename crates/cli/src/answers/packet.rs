//! A packet in a line, as tcpdump prints it: what it is, from where to where, and what of its headers matters.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

fn be32(b: &[u8], at: usize) -> Option<u32> {
    Some((u32::from(be16(b, at)?) << 16) | u32::from(be16(b, at + 2)?))
}

/// A frame in a line. What is cut off is said to be.
pub fn line(frame: &[u8]) -> String {
    ethernet(frame).unwrap_or_else(|| format!("{} bytes, cut off", frame.len()))
}

fn ethernet(b: &[u8]) -> Option<String> {
    let mut kind = be16(b, 12)?;
    let (mut at, mut tags) = (14, String::new());
    // Bound: a frame's tags
    for _ in 0..4 {
        if !matches!(kind, 0x8100 | 0x88a8) {
            break;
        }
        let _ = write!(tags, "vlan {}, ", be16(b, at)? & 0xfff);
        kind = be16(b, at + 2)?;
        at += 4;
    }
    let rest = b.get(at..)?;
    let text = match kind {
        0x0800 => ip4(rest),
        0x86dd => ip6(rest),
        0x0806 => arp(rest),
        k => Some(format!("ethertype 0x{k:04x}, length {}", rest.len())),
    };
    Some(format!(
        "{tags}{}",
        text.unwrap_or_else(|| "IP, cut off".into())
    ))
}

fn arp(b: &[u8]) -> Option<String> {
    let ip = |at: usize| be32(b, at).map(Ipv4Addr::from);
    let (from, asked) = (ip(14)?, ip(24)?);
    Some(match be16(b, 6)? {
        1 => format!(
            "ARP, Request who-has {asked} tell {from}, length {}",
            b.len()
        ),
        2 => {
            let mac: Vec<String> = b.get(8..14)?.iter().map(|x| format!("{x:02x}")).collect();
            format!(
                "ARP, Reply {from} is-at {}, length {}",
                mac.join(":"),
                b.len()
            )
        }
        n => format!("ARP, operation {n}, length {}", b.len()),
    })
}

fn ip4(b: &[u8]) -> Option<String> {
    let first = *b.first()?;
    let header = usize::from(first & 15) * 4;
    let (src, dst) = (Ipv4Addr::from(be32(b, 12)?), Ipv4Addr::from(be32(b, 16)?));
    let fragment = be16(b, 6)?;
    let offset = u32::from(fragment & 0x1fff) * 8;
    let total = usize::from(be16(b, 2)?);
    let body = b
        .get(header..total.clamp(header, b.len().max(header)))
        .unwrap_or(&[]);
    let (proto, ttl) = (*b.get(9)?, *b.get(8)?);
    let mut text = match offset {
        0 => transport((&src.to_string(), &dst.to_string()), proto, body, "IP"),
        n => format!(
            "IP {src} > {dst}: proto {proto}, fragment at {n}, length {}",
            body.len()
        ),
    };
    if fragment & 0x2000 != 0 {
        text.push_str(", more fragments");
    }
    if header > 20 {
        text.push_str(", options");
    }
    let _ = write!(text, ", ttl {ttl}");
    Some(text)
}

fn ip6(b: &[u8]) -> Option<String> {
    let address = |at: usize| -> Option<Ipv6Addr> {
        let b: [u8; 16] = b.get(at..at + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(b))
    };
    let (src, dst) = (address(8)?.to_string(), address(24)?.to_string());
    let body = b.get(40..).unwrap_or(&[]);
    let text = transport((&src, &dst), *b.get(6)?, body, "IP6");
    Some(format!("{text}, hlim {}", b.get(7)?))
}

const FLAGS: [(u8, char); 6] = [
    (0x02, 'S'),
    (0x01, 'F'),
    (0x08, 'P'),
    (0x04, 'R'),
    (0x20, 'U'),
    (0x10, '.'),
];

fn transport((src, dst): (&str, &str), proto: u8, b: &[u8], ip: &str) -> String {
    let plain = |what: &str| format!("{ip} {src} > {dst}: {what}, length {}", b.len());
    let ports = || Some((be16(b, 0)?, be16(b, 2)?));
    match proto {
        6 => match (ports(), b.get(12), b.get(13)) {
            (Some((s, d)), Some(offset), Some(flags)) => {
                let all = FLAGS.iter().filter(|(bit, _)| flags & bit != 0);
                let all: String = all.map(|(_, c)| *c).collect();
                let all = if all.is_empty() { "none".into() } else { all };
                let len = b.len().saturating_sub(usize::from(offset >> 4) * 4);
                format!("{ip} {src}.{s} > {dst}.{d}: Flags [{all}], length {len}")
            }
            _ => plain("TCP, cut off"),
        },
        17 => match ports() {
            Some((s, d)) => {
                format!(
                    "{ip} {src}.{s} > {dst}.{d}: UDP, length {}",
                    b.len().saturating_sub(8)
                )
            }
            None => plain("UDP, cut off"),
        },
        1 => match (b.first(), b.get(1)) {
            (Some(8), _) => plain("ICMP echo request"),
            (Some(0), _) => plain("ICMP echo reply"),
            (Some(t), Some(c)) => plain(&format!("ICMP type {t} code {c}")),
            _ => plain("ICMP, cut off"),
        },
        58 => match (b.first(), b.get(1)) {
            (Some(128), _) => plain("ICMP6, echo request"),
            (Some(129), _) => plain("ICMP6, echo reply"),
            (Some(135), _) => plain("ICMP6, neighbor solicitation"),
            (Some(136), _) => plain("ICMP6, neighbor advertisement"),
            (Some(t), Some(c)) => plain(&format!("ICMP6, type {t} code {c}")),
            _ => plain("ICMP6, cut off"),
        },
        p => plain(&format!("proto {p}")),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    fn frame(kind: [u8; 2], ip: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind, ip].concat()
    }

    #[test]
    fn packets_are_told_as_tcpdump_does() {
        let mut ip = vec![
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip.extend([
            4, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0,
        ]);
        let told = line(&frame([8, 0], &ip));
        assert_eq!(
            told,
            "IP 10.0.0.1.1024 > 10.0.0.2.22: Flags [S], length 0, ttl 64"
        );
        ip[9] = 17;
        let told = line(&frame([8, 0], &ip));
        assert_eq!(
            told,
            "IP 10.0.0.1.1024 > 10.0.0.2.22: UDP, length 12, ttl 64"
        );
        ip[7] = 2;
        let told = line(&frame([8, 0], &ip));
        assert_eq!(
            told,
            "IP 10.0.0.1 > 10.0.0.2: proto 17, fragment at 16, length 20, ttl 64"
        );
        let tagged = [&[0, 7, 8, 6][..], &[0; 28]].concat();
        let told = line(&frame([0x81, 0], &tagged));
        assert_eq!(told, "vlan 7, ARP, operation 0, length 28");
        // nothing is read that is not there
        for n in 0..54 {
            let whole = frame([8, 0], &ip);
            assert!(!line(&whole[..n]).is_empty());
        }
    }
}
