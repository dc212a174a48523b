//! Packets that leave the fast path, or that must not pass at all.

use onefold_packet::checksum;
use serde::Serialize;

use super::frame::{ICMP, ICMP6, Layout, TCP, UDP};
use crate::rng::Rng;

/// How a packet is exceptional.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ExceptionKind {
    /// IPv4 options (record route, router alert, timestamps or padding); in IPv6 a hop-by-hop router alert.
    Options,
    /// TTL or hop limit 1: it expires at the first router.
    Ttl,
    /// A datagram in two fragments, one after the other.
    Fragments,
    /// A wrong IPv4 header checksum; in IPv6, which has none, a wrong transport checksum.
    IpChecksum,
    /// A wrong TCP, UDP or ICMP checksum.
    TransportChecksum,
    /// The capture ends within the packet.
    Truncated,
    /// An IP length beyond the end of the frame.
    Length,
    /// An ARP request instead.
    Arp,
}

impl ExceptionKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Options,
        Self::Ttl,
        Self::Fragments,
        Self::IpChecksum,
        Self::TransportChecksum,
        Self::Truncated,
        Self::Length,
        Self::Arp,
    ];

    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::Ttl => "ttl",
            Self::Fragments => "fragments",
            Self::IpChecksum => "ip-checksum",
            Self::TransportChecksum => "transport-checksum",
            Self::Truncated => "truncated",
            Self::Length => "length",
            Self::Arp => "arp",
        }
    }
}

/// Makes a well-formed frame exceptional. Returns a second frame if there is one (the rest of a fragmented datagram).
/// The frame's length on the wire is its length before the call, except for options and fragments, where it is the
/// length after it.
pub(crate) fn distort(
    kind: ExceptionKind,
    frame: &mut Vec<u8>,
    at: Layout,
    rng: &mut Rng,
) -> Option<Vec<u8>> {
    let v6 = at.transport - at.ip == 40;
    match kind {
        ExceptionKind::Options if v6 => {
            // Next header, length 0 (8 bytes), router alert "MLD", PadN.
            let next = frame.get(at.ip + 6).copied().unwrap_or(0);
            insert(frame, at, &[next, 0, 5, 2, 0, 0, 1, 0]);
            put(frame, at.ip + 6, &[0]);
        }
        ExceptionKind::Options => {
            let options: &[u8] = match rng.below(4) {
                0 => &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                1 => &[0x94, 4, 0, 0],
                2 => &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                _ => &[1, 1, 1, 0],
            };
            insert(frame, at, options);
            put(frame, at.ip, &[0x45 + (options.len() / 4) as u8]);
            fix_ip_checksum(frame, at.ip, 20 + options.len());
        }
        ExceptionKind::Ttl if v6 => put(frame, at.ip + 7, &[1]),
        ExceptionKind::Ttl => {
            put(frame, at.ip + 8, &[1]);
            fix_ip_checksum(frame, at.ip, 20);
        }
        ExceptionKind::Fragments => return fragment(frame, at, v6, rng),
        ExceptionKind::IpChecksum if !v6 => flip(frame, at.ip + 10, rng),
        ExceptionKind::IpChecksum | ExceptionKind::TransportChecksum => {
            let protocol = frame.get(at.ip + if v6 { 6 } else { 9 }).copied();
            let offset = match protocol {
                Some(TCP) => 16,
                Some(UDP) => 6,
                Some(ICMP | ICMP6) => 2,
                // No checksum to damage: the payload has none either.
                _ => return None,
            };
            flip(frame, at.transport + offset, rng);
        }
        ExceptionKind::Truncated => {
            let len = rng.between(14, frame.len().saturating_sub(1) as u64) as usize;
            frame.truncate(len);
        }
        ExceptionKind::Length => {
            let beyond = frame.len() - at.ip + rng.between(1, 400) as usize;
            let claim = if v6 {
                beyond.saturating_sub(40)
            } else {
                beyond
            };
            let field = if v6 { at.ip + 4 } else { at.ip + 2 };
            put(frame, field, &(claim.min(65_535) as u16).to_be_bytes());
            if !v6 {
                fix_ip_checksum(frame, at.ip, 20);
            }
        }
        ExceptionKind::Arp => {
            let source_mac: Vec<u8> = frame.get(6..12).unwrap_or_default().to_vec();
            let (src, dst): ([u8; 4], [u8; 4]) = if v6 {
                ([192, 0, 2, 1], [192, 0, 2, 2])
            } else {
                (four(frame, at.ip + 12), four(frame, at.ip + 16))
            };
            frame.truncate(at.ip);
            put(frame, 0, &[0xff; 6]);
            put(frame, at.ip - 2, &[0x08, 0x06]);
            frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend_from_slice(&source_mac);
            frame.extend_from_slice(&src);
            frame.extend_from_slice(&[0; 6]);
            frame.extend_from_slice(&dst);
            frame.resize(frame.len().max(60), 0);
        }
    }
    None
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(hole) = frame.get_mut(at..at + bytes.len()) {
        hole.copy_from_slice(bytes);
    }
}

fn four(frame: &[u8], at: usize) -> [u8; 4] {
    frame
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .unwrap_or_default()
}

/// Changes a 16-bit checksum to one that is wrong: neither equal, nor equal in ones' complement arithmetic.
fn flip(frame: &mut [u8], at: usize, rng: &mut Rng) {
    if let Some(b) = frame.get_mut(at) {
        *b ^= 1 << rng.below(8);
    }
    // In UDP, zero would say "no checksum".
    if let Some(field @ [0, 0]) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&[0, 1]);
    }
}

fn fix_ip_checksum(frame: &mut [u8], ip: usize, len: usize) {
    put(frame, ip + 10, &[0, 0]);
    let c = checksum::internet(frame.get(ip..ip + len).unwrap_or_default());
    put(frame, ip + 10, &c.to_be_bytes());
}

/// Puts bytes between the IP header and the transport header, without the padding at the end, and corrects the length.
fn insert(frame: &mut Vec<u8>, at: Layout, bytes: &[u8]) {
    frame.truncate(at.end);
    let rest = frame.split_off(at.transport);
    frame.extend_from_slice(bytes);
    frame.extend_from_slice(&rest);
    set_length(frame, at.ip, at.transport - at.ip == 40);
    frame.resize(frame.len().max(60), 0);
}

/// Sets the IP length from the end of the frame.
fn set_length(frame: &mut [u8], ip: usize, v6: bool) {
    let (field, header) = if v6 { (4, 40) } else { (2, 0) };
    let len = (frame.len() - ip - header).min(65_535) as u16;
    put(frame, ip + field, &len.to_be_bytes());
}

/// Cuts a datagram in two: the first fragment stays in `frame`.
fn fragment(frame: &mut Vec<u8>, at: Layout, v6: bool, rng: &mut Rng) -> Option<Vec<u8>> {
    let body = at.end.checked_sub(at.transport)?;
    // Eight bytes at least in each fragment; the first one holds a multiple of eight.
    let blocks = (body.checked_sub(1)? / 8) as u64;
    if blocks == 0 {
        return None;
    }
    let cut = rng.between(1, blocks) as usize * 8;
    frame.truncate(at.end);
    let tail = frame.split_off(at.transport + cut);
    let mut second = frame.get(..at.transport).unwrap_or_default().to_vec();
    let offset = (cut / 8) as u16;
    if v6 {
        let next = frame.get(at.ip + 6).copied().unwrap_or(0);
        let id = (rng.bits() as u32).to_be_bytes();
        let extension = |offset_and_more: u16| {
            let o = offset_and_more.to_be_bytes();
            [next, 0, o[0], o[1], id[0], id[1], id[2], id[3]]
        };
        let head = frame.split_off(at.transport);
        frame.extend_from_slice(&extension(1));
        frame.extend_from_slice(&head);
        second.extend_from_slice(&extension(offset << 3));
        second.extend_from_slice(&tail);
        for f in [&mut *frame, &mut second] {
            put(f, at.ip + 6, &[44]);
            set_length(f, at.ip, true);
        }
    } else {
        second.extend_from_slice(&tail);
        put(frame, at.ip + 6, &0x2000u16.to_be_bytes());
        put(&mut second, at.ip + 6, &offset.to_be_bytes());
        for f in [&mut *frame, &mut second] {
            set_length(f, at.ip, false);
            fix_ip_checksum(f, at.ip, 20);
        }
    }
    for f in [&mut *frame, &mut second] {
        f.resize(f.len().max(60), 0);
    }
    Some(second)
}
