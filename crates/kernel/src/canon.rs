//! Frames as they are compared.
//!
//! Both executions are brought into one form before they are compared. What it leaves out is said where it is done;
//! each of these rules is listed in docs/compare.md.

use onefold_verify::frame::{is_error, view};

/// What is known of the way that a frame has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// It left by a router.
    pub routed: bool,
    /// The frame that was sent came in at a firewall with the greatest TTL: a hop cannot be given back.
    pub topmost: bool,
    /// Addresses are translated on the way: of checksums counts what they come to.
    pub translated: bool,
}

/// A frame in the form in which it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// A packet that went through.
    Packet(Vec<u8>),
    /// An ICMP error about the packet that was sent: to whom, type, code, MTU.
    Error(Vec<u8>),
    /// A reset of its connection.
    Reset(Vec<u8>),
}

fn be16(b: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([
        *b.get(at)?,
        *b.get(at + 1)?,
    ])))
}

/// Addresses and protocol of an IP header.
pub(crate) fn ends(ip: &[u8]) -> Option<(&[u8], &[u8], u8)> {
    match ip.first()? >> 4 {
        4 => Some((ip.get(12..16)?, ip.get(16..20)?, *ip.get(9)?)),
        6 => Some((ip.get(8..24)?, ip.get(24..40)?, *ip.get(6)?)),
        _ => None,
    }
}

/// Does an ICMP error quote this packet: the same addresses and protocol?
fn quotes(error: &[u8], sent: &[u8]) -> bool {
    let quoted = || {
        let v = view(error)?;
        let inner = error.get(v.transport? + 8..)?;
        let s = view(sent)?;
        Some(ends(inner)? == ends(sent.get(s.net..)?)?)
    };
    quoted() == Some(true)
}

/// Is it a reset of the connection of the frame that was sent?
fn resets(b: &[u8], sent: &[u8]) -> bool {
    let back = || {
        let (v, s) = (view(b)?, view(sent)?);
        let (a, z) = (b.get(v.net..)?, sent.get(s.net..)?);
        let ((src, dst, p), (was_src, was_dst, was_p)) = (ends(a)?, ends(z)?);
        let flags = *b.get(v.transport? + 13)?;
        Some(p == 6 && was_p == 6 && src == was_dst && dst == was_src && flags & 4 != 0)
    };
    back() == Some(true)
}

/// Is it an answer to the ping over IPv4 that was sent? A router's own: there are no hosts.
fn answers_ping(b: &[u8], sent: &[u8]) -> bool {
    let back = || {
        let (v, s) = (view(b)?, view(sent)?);
        let ((src, dst, p), (was_src, was_dst, was_p)) =
            (ends(b.get(v.net..)?)?, ends(sent.get(s.net..)?)?);
        let types = (*b.get(v.transport?)?, *sent.get(s.transport?)?);
        Some(p == 1 && was_p == 1 && src == was_dst && dst == was_src && types == (0, 8))
    };
    back() == Some(true)
}

/// The form of a frame that left when `sent` was sent.
pub(crate) fn form(b: &[u8], sent: &[u8], way: Way) -> Form {
    let Some(v) = view(b) else {
        return Form::Packet(b.to_vec());
    };
    let to = b.get(v.net..).and_then(ends).map_or(&[][..], |e| e.1);
    if let Some(t) = v.transport {
        if is_error(b) && quotes(b, sent) {
            // source, identification, TTL and how much is quoted are the router's choice (RFC 1812 4.3.2)
            let head = b.get(t..t + 2).unwrap_or_default();
            let mtu = match (v.proto, head) {
                (1, [3, 4]) => b.get(t + 6..t + 8),
                (58, [2, _]) => b.get(t + 4..t + 8),
                _ => None,
            };
            return Form::Error([to, head, mtu.unwrap_or_default()].concat());
        }
        if resets(b, sent) {
            return Form::Reset(to.to_vec());
        }
    }
    let mut p = b.to_vec();
    if way.translated
        && let Some(found) = crate::ends::read(b)
    {
        found.settle(&mut p);
    }
    // the destination is the neighbour's: in the kernel it has the interface's own
    let macs = if way.routed { 0..6 } else { 0..12 };
    if let Some(m) = p.get_mut(macs) {
        m.fill(0);
    }
    match v.ether_type {
        0x0800 => {
            // what is behind the packet is padding
            if let Some(len) = be16(b, v.net + 2) {
                p.truncate(v.net + len.max(20));
            }
            if way.topmost
                && let Some(ttl) = p.get_mut(v.net + 8)
            {
                *ttl = 0;
            }
            // identification, flags of fragmentation and TTL are those of who answers
            if answers_ping(b, sent) {
                if let Some(own) = p.get_mut(v.net + 4..v.net + 9) {
                    own.fill(0);
                }
                // of a message of zeros, two checksums are right
                let at = v.transport.map_or(0..0, |t| t + 2..t + 4);
                if let Some(both) = p.get_mut(at).filter(|c| **c == [0xff; 2]) {
                    both.fill(0);
                }
            }
            // right, or how it is wrong
            let head = usize::from(b.get(v.net).copied().unwrap_or(0) & 15) * 4;
            let sum = b.get(v.net..v.net + head).map_or(0, sum);
            if let Some(s) = p.get_mut(v.net + 10..v.net + 12) {
                s.copy_from_slice(&(if sum == 0xffff { 0 } else { sum }).to_be_bytes());
            }
        }
        0x86dd => {
            if let Some(len) = be16(b, v.net + 4) {
                p.truncate(v.net + 40 + len);
            }
            if way.topmost
                && let Some(hops) = p.get_mut(v.net + 7)
            {
                *hops = 0;
            }
        }
        _ => {}
    }
    Form::Packet(p)
}

/// The one's complement sum of a header.
fn sum(b: &[u8]) -> u16 {
    let words = b
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(c.get(1).copied().unwrap_or(0)));
    let mut s: u32 = words.sum();
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}

/// A frame in words: `IPv4 10.0.0.1 > 10.0.0.2 proto 17 ttl 64, 60 bytes`.
pub(crate) fn told(b: &[u8]) -> String {
    let Some(v) = view(b) else {
        return format!("{} bytes", b.len());
    };
    let ip = b.get(v.net..).unwrap_or_default();
    let port = |at: usize| v.transport.and_then(|t| be16(b, t + at));
    let address = |a: &[u8]| match a.len() {
        4 => <[u8; 4]>::try_from(a)
            .map_or(String::new(), |a| std::net::Ipv4Addr::from(a).to_string()),
        _ => <[u8; 16]>::try_from(a)
            .map_or(String::new(), |a| std::net::Ipv6Addr::from(a).to_string()),
    };
    let Some((src, dst, proto)) = ends(ip) else {
        return format!("Ethernet type {:04x}, {} bytes", v.ether_type, b.len());
    };
    let (ports, what) = match proto {
        6 | 17 => {
            let name = if proto == 6 { "TCP" } else { "UDP" };
            let p = port(0).zip(port(2));
            (
                p.map_or(String::new(), |(a, z)| format!(" ports {a} > {z}")),
                name.to_string(),
            )
        }
        1 | 58 => {
            let t = v.transport.and_then(|t| b.get(t..t + 2));
            let t = t.map_or(String::new(), |t| format!(" type {} code {}", t[0], t[1]));
            (t, "ICMP".to_string())
        }
        p => (String::new(), format!("protocol {p}")),
    };
    let ttl = ip
        .get(if ip[0] >> 4 == 4 { 8 } else { 7 })
        .copied()
        .unwrap_or(0);
    let later = ip[0] >> 4 == 4 && be16(ip, 6).is_some_and(|f| f & 0x3fff != 0);
    let fragment = if later { ", fragment" } else { "" };
    format!(
        "{} > {} {what}{ports}, TTL {ttl}{fragment}, {} bytes",
        address(src),
        address(dst),
        b.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this IPv4 header behind 14 bytes of Ethernet header, and these bytes behind it.
    fn frame(ttl: u8, behind: &[u8]) -> Vec<u8> {
        let mut f = vec![2; 12];
        f.extend([8, 0]);
        let len = (20 + behind.len()) as u16;
        f.extend([0x45, 0]);
        f.extend(len.to_be_bytes());
        f.extend([0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend(behind);
        let c = !sum(&f[14..34]);
        f[24..26].copy_from_slice(&c.to_be_bytes());
        f
    }

    const WAY: Way = Way {
        routed: false,
        topmost: false,
        translated: false,
    };

    #[test]
    fn what_counts_and_what_does_not() {
        let sent = frame(9, &[0, 1, 0, 2, 0, 8, 0, 0]);
        let same = |a: &[u8], b: &[u8], way| form(a, &sent, way) == form(b, &sent, way);
        let mut other = sent.clone();
        other[..12].fill(9);
        other.extend([0; 10]);
        assert!(same(&sent, &other, WAY), "addresses of frames, padding");
        let routed = Way {
            routed: true,
            ..WAY
        };
        assert!(
            !same(&sent, &other, routed),
            "a router's own address counts"
        );
        let less = frame(8, &[0, 1, 0, 2, 0, 8, 0, 0]);
        assert!(!same(&sent, &less, WAY), "a hop");
        assert!(same(
            &sent,
            &less,
            Way {
                topmost: true,
                ..WAY
            }
        ));
        let mut wrong = sent.clone();
        wrong[24] ^= 1;
        assert!(!same(&sent, &wrong, WAY), "a wrong checksum");
        let mut payload = sent.clone();
        payload[40] ^= 1;
        assert!(!same(&sent, &payload, WAY), "a byte behind the header");
    }

    #[test]
    fn answers_to_pings_are_who_answers() {
        let ping = |ttl, kind, (src, dst)| {
            let mut f = frame(ttl, &[kind, 0, 0, 0, 0, 7, 0, 1]);
            (f[23], f[29], f[33]) = (1, src, dst);
            f[24..26].fill(0);
            let c = !sum(&f[14..34]);
            f[24..26].copy_from_slice(&c.to_be_bytes());
            f
        };
        let sent = ping(64, 8, (1, 2));
        let same = |a: &[u8], b: &[u8]| form(a, &sent, WAY) == form(b, &sent, WAY);
        assert!(same(&ping(254, 0, (2, 1)), &ping(64, 0, (2, 1))));
        // one that nobody has asked for passes through
        assert!(!same(&ping(254, 0, (3, 1)), &ping(64, 0, (3, 1))));
        assert!(!same(&ping(254, 8, (2, 1)), &ping(64, 8, (2, 1))));
    }

    #[test]
    fn errors_are_classes() {
        let sent = frame(1, &[0, 1, 0, 2, 0, 8, 0, 0]);
        let error = |kind: u8, from: u8, quoted: usize| {
            let mut e = frame(
                64,
                &[&[kind, 0, 0, 0, 0, 0, 0, 0], &sent[14..14 + quoted]].concat(),
            );
            e[23] = 1;
            e[29] = from;
            e
        };
        let f = |e: &[u8]| form(e, &sent, WAY);
        assert_eq!(
            f(&error(11, 7, 28)),
            f(&error(11, 8, 28)),
            "from another address"
        );
        assert_ne!(f(&error(11, 7, 28)), f(&error(3, 7, 28)), "another type");
        assert!(matches!(f(&error(11, 7, 28)), Form::Error(_)));
        // one that quotes nothing is a packet as any other
        assert!(matches!(f(&error(11, 7, 0)), Form::Packet(_)));
        assert!(told(&sent).contains("10.0.0.1 > 10.0.0.2 UDP ports 1 > 2, TTL 1"));
    }
}
