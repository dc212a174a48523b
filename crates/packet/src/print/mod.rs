//! A packet in a line, as `tcpdump -nn -S -t` prints it.
//!
//! What is printed is compared with what tcpdump prints in `tests/print.rs`. Deliberate differences: VLAN tags are
//! printed in front (tcpdump does that with `-e` only); what is in UDP and TCP payloads is not taken apart (tcpdump
//! knows protocols by ports); of tunnels, routing protocols and other rare kinds it is said which they are, and how
//! long. What tcpdump says with `-v` only and elements change, or decide by, is [`details`].
//!
//! **No-panic contract.** Any bytes can be printed; what is cut off is said to be, in tcpdump's way: `[|tcp]`.

mod icmp;
mod ip;
mod transport;

pub use transport::flags as tcp_flags;

use crate::Packet;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Most VLAN tags that are read.
const MAX_TAGS: usize = 8;
/// Most headers within headers (IP in IP) that are read.
const MAX_NESTED: usize = 4;

/// Big-endian, if it is there.
fn be16(b: &[u8], at: usize) -> Option<u16> {
    let c = b.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*c))
}

/// Big-endian, if it is there.
fn be32(b: &[u8], at: usize) -> Option<u32> {
    let c = b.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*c))
}

fn ip4(b: &[u8], at: usize) -> Option<Ipv4Addr> {
    be32(b, at).map(Ipv4Addr::from)
}

fn mac(b: &[u8]) -> String {
    let all: Vec<String> = b.iter().map(|x| format!("{x:02x}")).collect();
    all.join(":")
}

/// Bytes in hexadecimal.
fn hex(b: &[u8]) -> String {
    b.iter().fold(String::new(), |mut s, x| {
        // writing to a String cannot fail
        let _ = write!(s, "{x:02x}");
        s
    })
}

/// The tags of a frame, the type behind them, and where that which has this type begins.
fn tags(b: &[u8]) -> Option<(String, u16, usize)> {
    let (mut kind, mut at, mut text) = (be16(b, 12)?, 14, String::new());
    for _ in 0..MAX_TAGS {
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
            break;
        }
        let tci = be16(b, at)?;
        let dei = if tci & 0x1000 != 0 { ", DEI" } else { "" };
        let _ = write!(text, "vlan {}, p {}{dei}, ", tci & 0xfff, tci >> 13);
        kind = be16(b, at + 2)?;
        at += 4;
    }
    Some((text, kind, at))
}

/// An Ethernet frame.
pub fn frame(b: &[u8]) -> String {
    let Some((tags, kind, at)) = tags(b) else {
        return "[|ether]".to_string();
    };
    let rest = b.get(at..).unwrap_or(&[]);
    let text = match kind {
        0x0800 | 0x86dd => network(rest),
        0x0806 => arp(rest),
        k if k <= 1500 => format!("802.3, length {k}"),
        k => format!(
            "{} > {}, ethertype Unknown (0x{k:04x}), length {}",
            mac(&b[6..12]),
            mac(&b[..6]),
            b.len()
        ),
    };
    tags + &text
}

/// An IPv4 or IPv6 packet, without a frame.
pub fn network(b: &[u8]) -> String {
    ip::print(b, 0)
}

/// A packet's bytes, and what they begin with.
enum Start<'a> {
    Frame(&'a [u8]),
    Network(&'a [u8]),
}

impl Start<'_> {
    /// As its header annotations say: its IP header where that is where its data begins, else its frame.
    fn of(p: &Packet) -> Start<'_> {
        match (p.network_header_offset(), p.mac_header_offset(), p.mac()) {
            (Some(0), ..) => Start::Network(p.data()),
            (_, Some(..=0), Some(f)) if f.len() >= 14 => Start::Frame(f),
            // no annotation says what it is
            _ => match p.data().first().map(|f| f >> 4) {
                Some(4 | 6) if !looks_like_frame(p.data()) => Start::Network(p.data()),
                _ => Start::Frame(p.data()),
            },
        }
    }
}

/// A packet on its way through elements, with its [`details`].
pub fn packet(p: &Packet) -> String {
    match Start::of(p) {
        Start::Frame(b) => frame(b) + &frame_details(b),
        Start::Network(b) => network(b) + &details(b),
    }
}

/// Does it have a type that frames have?
fn looks_like_frame(b: &[u8]) -> bool {
    tags(b).is_some_and(|(_, kind, _)| matches!(kind, 0x0800 | 0x0806 | 0x86dd))
}

/// What tcpdump prints with `-v` and is decided by, or changed, on the way: time to live, DSCP, fragments, options;
/// with a comma in front of each. `b` begins with the IP header.
pub fn details(b: &[u8]) -> String {
    ip::details(b)
}

/// [`details`] of an Ethernet frame's IP packet.
pub fn frame_details(b: &[u8]) -> String {
    match tags(b) {
        Some((_, 0x0800 | 0x86dd, at)) => details(b.get(at..).unwrap_or(&[])),
        _ => String::new(),
    }
}

fn arp(b: &[u8]) -> String {
    let (Some(hardware), Some(protocol), Some(op)) = (be16(b, 0), be16(b, 2), be16(b, 6)) else {
        return "ARP, [|arp]".to_string();
    };
    let lengths = (b.get(4).copied(), b.get(5).copied());
    if (hardware, protocol, lengths) != (1, 0x0800, (Some(6), Some(4))) {
        return format!(
            "ARP, hardware {hardware}, protocol 0x{protocol:04x}, operation {op}, length {}",
            b.len()
        );
    }
    let (Some(from), Some(asked)) = (ip4(b, 14), ip4(b, 24)) else {
        return "ARP, [|arp]".to_string();
    };
    let what = match op {
        1 => {
            let whom = match &b[18..24] {
                [0, 0, 0, 0, 0, 0] => String::new(),
                to => format!(" ({})", mac(to)),
            };
            format!("Request who-has {asked}{whom} tell {from}")
        }
        2 => format!("Reply {from} is-at {}", mac(&b[8..14])),
        3 => format!(
            "Reverse Request who-is {} tell {}",
            mac(&b[18..24]),
            mac(&b[8..14])
        ),
        4 => format!("Reverse Reply {} at {asked}", mac(&b[18..24])),
        n => format!("Unknown ({n})"),
    };
    format!("ARP, {what}, length {}", b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_that_is_not_there() {
        let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0];
        b.extend([
            0x46, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0,
        ]);
        b.extend([
            4, 0, 0, 22, 0, 0, 0, 1, 0, 0, 0, 0, 0xa0, 2, 2, 0, 0, 0, 0, 0,
        ]);
        b.extend([2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0]);
        for kind in [[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0], [0, 9]] {
            for protocol in 0..=255 {
                for n in 0..b.len() {
                    let mut b = b[..n].to_vec();
                    if let Some(k) = b.get_mut(12..14) {
                        k.copy_from_slice(&kind);
                    }
                    // IPv4's protocol, IPv6's next header, and a version that fits
                    for (at, value) in [(23, protocol), (20, protocol)] {
                        if let Some(x) = b.get_mut(at) {
                            *x = value;
                        }
                    }
                    if let (0x86, Some(x)) = (kind[0], b.get_mut(14)) {
                        *x = 0x60;
                    }
                    assert!(!frame(&b).is_empty());
                    frame_details(&b);
                }
            }
        }
    }

    #[test]
    fn a_packet_is_told_from_where_its_data_begins() {
        let mut ip = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip.extend([4, 0, 0, 53, 0, 8, 0, 0]);
        let told = "IP 10.0.0.1.1024 > 10.0.0.2.53: UDP, length 0, ttl 64";
        let frame = [&[2; 12][..], &[8, 0], &ip].concat();
        let mut p = Packet::from_slice(&frame);
        assert_eq!(packet(&p), told);
        p.set_mac_header(0);
        assert_eq!(packet(&p), told);
        p.pull(14);
        assert_eq!(packet(&p), told);
        p.set_network_header(0, 20);
        assert_eq!(packet(&p), told);
        assert_eq!(packet(&Packet::from_slice(&ip)), told);
    }
}
