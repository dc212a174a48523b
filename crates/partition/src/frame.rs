//! What the function reads of a frame: addresses, ports, fragments, quoted packets. Nothing in a frame makes it fail.

use crate::{Forward, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A frame as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// IPv4 or IPv6.
    Ip(Packet),
    /// An ARP reply, or a neighbour advertisement.
    NeighbourReply,
    /// Anything else, or cut off in front of the addresses.
    Other,
}

/// A packet's place in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// It is the whole datagram.
    Whole,
    /// The first one of several; with its identification.
    First(u32),
    /// One behind the first one.
    Later(u32),
}

/// An IP packet as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Behind extension headers.
    pub protocol: u8,
    pub fragment: Fragment,
    /// TCP's or UDP's destination port.
    pub port: Option<u16>,
    /// TCP's or UDP's source port.
    pub source_port: Option<u16>,
    /// Of an ICMP echo message.
    pub identifier: Option<u16>,
    /// The packet that an ICMP error is about.
    pub quoted: Option<Box<Packet>>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
pub(crate) const ICMP6: u8 = 58;
/// VLAN tags, or extension headers, that are passed over.
const MOST_TAGS: usize = 2;
const MOST_EXTENSIONS: usize = 8;

impl Packet {
    /// The same packet the other way round.
    pub fn exchanged(&self) -> Packet {
        Packet {
            source: self.destination,
            destination: self.source,
            port: self.source_port,
            source_port: self.port,
            ..self.clone()
        }
    }

    /// Is it for more than one host?
    pub fn is_to_several(&self) -> bool {
        match self.destination {
            IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
            IpAddr::V6(a) => a.is_multicast(),
        }
    }

    /// Does a NAT let it in by this forward?
    pub fn is_for(&self, f: &Forward) -> bool {
        let transport = match f.transport {
            Transport::Tcp => TCP,
            Transport::Udp => UDP,
        };
        self.protocol == transport
            && self.destination == IpAddr::V4(f.address)
            && self.port == Some(f.port)
    }
}

fn byte(b: &[u8], at: usize) -> Option<u8> {
    b.get(at).copied()
}

fn half(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

fn word(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

/// Reads an Ethernet frame.
pub(crate) fn parse(frame: &[u8]) -> Frame {
    parsed(frame).unwrap_or(Frame::Other)
}

fn parsed(frame: &[u8]) -> Option<Frame> {
    let mut at = 12;
    for _ in 0..MOST_TAGS {
        match half(frame, at)? {
            0x8100 | 0x88a8 => at += 4,
            _ => break,
        }
    }
    let rest = frame.get(at + 2..)?;
    match half(frame, at)? {
        0x0800 => Some(Frame::Ip(v4(rest, true)?)),
        0x86dd => v6(rest, true),
        // RFC 826: the operation
        0x0806 if half(rest, 6)? == 2 => Some(Frame::NeighbourReply),
        _ => None,
    }
}

fn v4(b: &[u8], may_quote: bool) -> Option<Packet> {
    let first = byte(b, 0)?;
    if first >> 4 != 4 {
        return None;
    }
    let mut p = Packet {
        source: Ipv4Addr::from(word(b, 12)?).into(),
        destination: Ipv4Addr::from(word(b, 16)?).into(),
        protocol: byte(b, 9)?,
        fragment: Fragment::Whole,
        port: None,
        source_port: None,
        identifier: None,
        quoted: None,
    };
    let (id, flags) = (u32::from(half(b, 4)?), half(b, 6)?);
    p.fragment = match (flags & 0x1fff, flags & 0x2000) {
        (0, 0) => Fragment::Whole,
        (0, _) => Fragment::First(id),
        _ => Fragment::Later(id),
    };
    let header = usize::from(first & 0xf) * 4;
    if header >= 20
        && let Some(rest) = b.get(header..)
    {
        upper(&mut p, rest, may_quote);
    }
    Some(p)
}

fn v6(b: &[u8], may_quote: bool) -> Option<Frame> {
    if byte(b, 0)? >> 4 != 6 {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let bits: [u8; 16] = *b.get(at..)?.first_chunk()?;
        Some(Ipv6Addr::from(bits).into())
    };
    let mut p = Packet {
        source: address(8)?,
        destination: address(24)?,
        protocol: byte(b, 6)?,
        fragment: Fragment::Whole,
        port: None,
        source_port: None,
        identifier: None,
        quoted: None,
    };
    let mut at = 40;
    for _ in 0..MOST_EXTENSIONS {
        let next = byte(b, at);
        let length = byte(b, at + 1).map(usize::from);
        match (p.protocol, next, length) {
            // hop by hop, routing, destination: eight bytes are not counted
            (0 | 43 | 60, Some(next), Some(n)) => {
                p.protocol = next;
                at += (n + 1) * 8;
            }
            // authentication: in words, two are not counted (RFC 4302)
            (51, Some(next), Some(n)) => {
                p.protocol = next;
                at += (n + 2) * 4;
            }
            (44, Some(next), Some(_)) => {
                let (Some(place), Some(id)) = (half(b, at + 2), word(b, at + 4)) else {
                    break;
                };
                p.protocol = next;
                p.fragment = match (place >> 3, place & 1) {
                    (0, 0) => Fragment::Whole,
                    (0, _) => Fragment::First(id),
                    _ => Fragment::Later(id),
                };
                at += 8;
                if matches!(p.fragment, Fragment::Later(_)) {
                    break;
                }
            }
            _ => break,
        }
    }
    if let Some(rest) = b.get(at..) {
        // RFC 4861: a neighbour advertisement
        if p.protocol == ICMP6 && p.fragment == Fragment::Whole && byte(rest, 0) == Some(136) {
            return Some(Frame::NeighbourReply);
        }
        upper(&mut p, rest, may_quote);
    }
    Some(Frame::Ip(p))
}

/// What is behind the IP headers.
fn upper(p: &mut Packet, b: &[u8], may_quote: bool) {
    if matches!(p.fragment, Fragment::Later(_)) {
        return;
    }
    match p.protocol {
        TCP | UDP => {
            p.source_port = half(b, 0);
            p.port = half(b, 2);
        }
        ICMP => match byte(b, 0) {
            // RFC 792: echo and its reply; errors quote behind eight bytes
            Some(0 | 8) => p.identifier = half(b, 4),
            Some(3 | 4 | 5 | 11 | 12) if may_quote => {
                p.quoted = b.get(8..).and_then(|q| v4(q, false)).map(Box::new);
            }
            _ => {}
        },
        // RFC 4443: errors are below 128
        ICMP6 if may_quote && byte(b, 0).is_some_and(|t| t < 128) => {
            if let Some(Frame::Ip(q)) = b.get(8..).and_then(|q| v6(q, false)) {
                p.quoted = Some(Box::new(q));
            }
        }
        _ => {}
    }
}
