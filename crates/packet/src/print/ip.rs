//! IPv4 and IPv6.

use super::{MAX_NESTED, be16, be32, icmp, ip4, transport};
use std::fmt::Write;
use std::net::Ipv6Addr;

/// Most extension headers that are read.
const MAX_EXTENSIONS: usize = 32;

/// What a transport header is told with.
pub(super) struct Ends<'a> {
    /// Source.
    pub src: &'a str,
    /// Destination.
    pub dst: &'a str,
    /// Addresses have been printed already (behind extension headers).
    pub told: bool,
    /// More fragments follow.
    pub fragment: bool,
}

impl Ends<'_> {
    /// `10.0.0.1.1024 > 10.0.0.2.80: `, or without addresses where those have been printed.
    pub fn ports(&self, from: u16, to: u16) -> String {
        match self.told {
            true => format!("{from} > {to}: "),
            false => format!("{}.{from} > {}.{to}: ", self.src, self.dst),
        }
    }
    /// `10.0.0.1 > 10.0.0.2: `
    fn addresses(&self) -> String {
        match self.told {
            true => String::new(),
            false => format!("{} > {}: ", self.src, self.dst),
        }
    }
}

/// A packet; `depth`: so many are around it.
pub(super) fn print(b: &[u8], depth: usize) -> String {
    if depth >= MAX_NESTED {
        return format!("IP, nested more than {MAX_NESTED} deep, length {}", b.len());
    }
    match b.first().map(|f| f >> 4) {
        Some(4) => v4(b, depth).unwrap_or_else(|| "IP [|ip]".to_string()),
        Some(6) => v6(b, depth).unwrap_or_else(|| "IP6 [|ip6]".to_string()),
        Some(n) => format!("IP, version {n} (invalid), length {}", b.len()),
        None => "IP [|ip]".to_string(),
    }
}

fn v4(b: &[u8], depth: usize) -> Option<String> {
    let header = usize::from(b.first()? & 15) * 4;
    let (src, dst) = (ip4(b, 12)?.to_string(), ip4(b, 16)?.to_string());
    let (protocol, total) = (*b.get(9)?, usize::from(be16(b, 2)?));
    let fragment = be16(b, 6)?;
    if header < 20 {
        return Some(format!("IP bad-hlen {header}"));
    }
    // zero: segmentation offloaded, all that is there
    let total = if total == 0 { b.len() } else { total };
    if total < header {
        return Some(format!("IP bad-len {total}"));
    }
    let mut text = "IP ".to_string();
    if b.len() < total {
        let _ = write!(text, "truncated-ip - {} bytes missing! ", total - b.len());
    }
    let body = b.get(header..total.min(b.len())).unwrap_or(&[]);
    if fragment & 0x1fff != 0 {
        let _ = write!(text, "{src} > {dst}: ip-proto-{protocol}");
        return Some(text);
    }
    let ends = Ends {
        src: &src,
        dst: &dst,
        told: false,
        fragment: fragment & 0x2000 != 0,
    };
    text += &upper(&ends, protocol, (body, total - header), depth);
    Some(text)
}

fn address6(b: &[u8], at: usize) -> Option<String> {
    let a: [u8; 16] = *b.get(at..)?.first_chunk()?;
    Some(text6(a))
}

/// An IPv6 address as tcpdump writes it.
pub(super) fn text6(a: [u8; 16]) -> String {
    Ipv6Addr::from(a).to_string()
}

fn v6(b: &[u8], depth: usize) -> Option<String> {
    let (src, dst) = (address6(b, 8)?, address6(b, 24)?);
    let mut next = *b.get(6)?;
    let payload = usize::from(be16(b, 4)?);
    let mut text = "IP6 ".to_string();
    if b.len() - 40 < payload {
        let missing = payload - (b.len() - 40);
        let _ = write!(text, "truncated-ip6 - {missing} bytes missing!");
    }
    let mut ends = Ends {
        src: &src,
        dst: &dst,
        told: false,
        fragment: false,
    };
    let end = b.len().min(40 + payload);
    let mut at = 40;
    for _ in 0..MAX_EXTENSIONS {
        let name = match next {
            0 => "HBH ",
            60 => "DSTOPT ",
            43 => "srcrt ",
            44 => "",
            _ => break,
        };
        text += &ends.addresses();
        ends.told = true;
        let Some(kind) = b.get(at..end).and_then(|b| b.first()) else {
            text.push_str("[|ip6]");
            return Some(text);
        };
        if next == 44 {
            let Some(word) = be16(b, at + 2).filter(|_| at + 8 <= end) else {
                text.push_str("[|frag]");
                return Some(text);
            };
            let length = (40 + payload).saturating_sub(at + 8);
            let _ = write!(text, "frag ({}|{length})", word & 0xfff8);
            if word & 0xfff8 != 0 {
                return Some(text);
            }
            text.push(' ');
            ends.fragment = word & 1 != 0;
            at += 8;
        } else {
            text.push_str(name);
            at += 8 + 8 * usize::from(b.get(at + 1).copied().unwrap_or(0));
        }
        next = *kind;
    }
    let body = b.get(at..end).unwrap_or(&[]);
    let length = (40 + payload).saturating_sub(at);
    text += &upper(&ends, next, (body, length), depth);
    Some(text)
}

/// What is behind the IP header: its bytes, as many as are there, and how many there should be.
fn upper(ends: &Ends<'_>, protocol: u8, (b, length): (&[u8], usize), depth: usize) -> String {
    let rest = match protocol {
        6 => return transport::tcp(ends, b, length),
        17 => return transport::udp(ends, b, length),
        1 => icmp::v4(b, length),
        58 => icmp::v6(b, length),
        4 | 41 => print(b, depth + 1),
        47 => gre(b, length, depth),
        50 => match (be32(b, 0), be32(b, 4)) {
            (Some(spi), Some(seq)) => {
                format!("ESP(spi=0x{spi:08x},seq=0x{seq:x}), length {length}")
            }
            _ => "ESP[|esp]".to_string(),
        },
        59 => "no next header".to_string(),
        p => format!(" ip-proto-{p} {length}"),
    };
    ends.addresses() + &rest
}

fn gre(b: &[u8], length: usize, depth: usize) -> String {
    let (Some(flags), Some(kind)) = (be16(b, 0), be16(b, 2)) else {
        return "GREv0 [|gre]".to_string();
    };
    if flags & 7 != 0 {
        return format!("GREv{}, length {length}", flags & 7);
    }
    // checksum, key, sequence number
    let more: usize = [0x8000, 0x2000, 0x1000]
        .iter()
        .filter(|f| flags & **f != 0)
        .count();
    let key = match flags & 0x2000 {
        0 => String::new(),
        _ => {
            let at = if flags & 0x8000 != 0 { 8 } else { 4 };
            be32(b, at).map_or(String::new(), |k| format!(", key=0x{k:x}"))
        }
    };
    let inner = b.get(4 + 4 * more..).unwrap_or(&[]);
    match kind {
        0x0800 | 0x86dd => format!("GREv0{key}, length {length}: {}", print(inner, depth + 1)),
        k => format!("GREv0{key}, length {length}: gre-proto-0x{k:x}"),
    }
}

/// See [`super::details`].
pub(super) fn details(b: &[u8]) -> String {
    let mut text = String::new();
    let Some(first) = b.first() else {
        return text;
    };
    match first >> 4 {
        4 if b.len() >= 20 => {
            if b[1] != 0 {
                let _ = write!(text, ", tos 0x{:x}", b[1]);
            }
            let word = be16(b, 6).unwrap_or(0);
            let _ = write!(text, ", ttl {}", b[8]);
            if word & 0x3fff != 0 {
                let more = if word & 0x2000 != 0 { "+" } else { "none" };
                let length = usize::from(be16(b, 2).unwrap_or(0));
                let length = length.saturating_sub(usize::from(first & 15) * 4);
                let offset = u32::from(word & 0x1fff) * 8;
                let _ = write!(text, ", offset {offset}, flags [{more}], {length} bytes");
            }
            if first & 15 > 5 {
                text.push_str(", options");
            }
        }
        6 if b.len() >= 40 => {
            let class = (be16(b, 0).unwrap_or(0) >> 4) & 0xff;
            if class != 0 {
                let _ = write!(text, ", class 0x{class:02x}");
            }
            let _ = write!(text, ", hlim {}", b[7]);
        }
        _ => {}
    }
    text
}
