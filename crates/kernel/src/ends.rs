//! Both ends of a packet's connection: read, and written with all checksums over them.

use onefold_packet::checksum;
use onefold_verify::frame::view;
use std::net::IpAddr;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// IPv6 fragments (RFC 8200 4.5).
const FRAGMENT: u8 = 44;

/// As a packet has them in its own direction. Of ICMP, the identifier is the source's port, type and code are the
/// destination's, as in the kernel's nf_conntrack_tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub src: Place,
    pub dst: Place,
    pub protocol: u8,
    pub v6: bool,
}

/// One of them; an IPv4 address is the first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub address: [u8; 16],
    pub port: u16,
}

impl Ends {
    /// Is this the source's address?
    pub fn comes_from(&self, address: &IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => !self.v6 && self.src.address[..4] == a.octets(),
            IpAddr::V6(a) => self.v6 && self.src.address == a.octets(),
        }
    }

    /// Those of packets that answer.
    pub fn inverse(&self) -> Ends {
        let (mut src, mut dst) = (self.dst, self.src);
        if self.is_icmp() {
            let [kind, code] = self.dst.port.to_be_bytes();
            let kind = match (self.protocol, kind) {
                (ICMP, 8) => 0,
                (ICMP, 0) => 8,
                (ICMP, 13 | 15 | 17) | (ICMP6, 128 | 139) => kind + 1,
                (ICMP, 14 | 16 | 18) | (ICMP6, 129 | 140) => kind - 1,
                _ => kind,
            };
            (src.port, dst.port) = (self.src.port, u16::from_be_bytes([kind, code]));
        }
        Ends { src, dst, ..*self }
    }

    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, ICMP | ICMP6)
    }

    /// Are addresses and protocol the same, whatever the ports are?
    pub fn alike(&self, other: &Ends) -> bool {
        let of = |e: &Ends| (e.src.address, e.dst.address, e.protocol, e.v6);
        of(self) == of(other)
    }
}

/// The ends of a frame's packet, or of the packet that it quotes if it is an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub ends: Ends,
    /// They are those of a packet that an ICMP error quotes.
    pub quoted: bool,
    /// Flags of TCP.
    pub flags: u8,
    /// Where the frame's own upper-layer header begins.
    outer: usize,
    /// Where the packet with these ends begins, and its upper-layer header.
    ip: usize,
    upper: usize,
}

/// Protocol, and where the upper-layer header of a packet begins. `None`: it is a fragment (of a quoted packet: a later
/// one), or there is none.
fn upper(ip: &[u8], quoted: bool) -> Option<(u8, usize)> {
    match ip.first()? >> 4 {
        4 => {
            let word = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]);
            let word = word & if quoted { 0x1fff } else { 0x3fff };
            let head = usize::from(ip.first()? & 15) * 4;
            (word == 0 && head >= 20).then_some((*ip.get(9)?, head))
        }
        6 => {
            let (mut next, mut at) = (*ip.get(6)?, 40);
            // Bound: each header has eight bytes at least
            while matches!(next, 0 | 43 | 51 | 60) {
                let [n, len] = *ip.get(at..)?.first_chunk::<2>()?;
                at += match next {
                    51 => (usize::from(len) + 2) * 4,
                    _ => (usize::from(len) + 1) * 8,
                };
                next = n;
            }
            (next != FRAGMENT).then_some((next, at))
        }
        _ => None,
    }
}

/// Where a packet ends, as its header says.
fn end(ip: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes(
            *ip.get(at..)?.first_chunk()?,
        )))
    };
    match ip.first()? >> 4 {
        4 => word(2),
        _ => Some(40 + word(4)?),
    }
}

fn place(address: &[u8], port: u16) -> Place {
    let mut a = [0; 16];
    for (to, from) in a.iter_mut().zip(address) {
        *to = *from;
    }
    Place { address: a, port }
}

/// Ends of a packet that begins with its IP header, and where its upper-layer header begins.
fn ends(ip: &[u8], quoted: bool) -> Option<(Ends, usize)> {
    let (protocol, at) = upper(ip, quoted)?;
    let head = ip.get(at..)?.first_chunk::<4>();
    let two = |i: usize| Some(u16::from_be_bytes(*ip.get(at + i..)?.first_chunk()?));
    let (sport, dport) = match protocol {
        TCP | UDP => (head.and(two(0))?, two(2)?),
        ICMP | ICMP6 => (two(4)?, two(0)?),
        _ => (0, 0),
    };
    let v6 = ip.first()? >> 4 == 6;
    let (src, dst) = match v6 {
        false => (ip.get(12..16)?, ip.get(16..20)?),
        true => (ip.get(8..24)?, ip.get(24..40)?),
    };
    let ends = Ends {
        src: place(src, sport),
        dst: place(dst, dport),
        protocol,
        v6,
    };
    Some((ends, at))
}

/// Is this type of ICMP an error?
fn errs(protocol: u8, kind: u8) -> bool {
    match protocol {
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ICMP6 => kind < 128,
        _ => false,
    }
}

/// Reads a frame. `None`: it has no ends that tell connections apart.
pub(crate) fn read(frame: &[u8]) -> Option<Found> {
    let v = view(frame).filter(|v| matches!(v.ether_type, 0x0800 | 0x86dd))?;
    let ip = frame.get(v.net..)?;
    let ip = ip.get(..end(ip)?)?;
    let (own, at) = ends(ip, false)?;
    let outer = v.net + at;
    let flags = match own.protocol {
        TCP => *ip.get(at + 13)?,
        _ => 0,
    };
    if own.is_icmp() && errs(own.protocol, *ip.get(at)?) {
        let (inner, behind) = ends(ip.get(at + 8..)?, true)?;
        return Some(Found {
            ends: inner,
            quoted: true,
            flags: 0,
            outer,
            ip: outer + 8,
            upper: outer + 8 + behind,
        });
    }
    Some(Found {
        ends: own,
        quoted: false,
        flags,
        outer,
        ip: v.net,
        upper: outer,
    })
}

impl Found {
    /// What is behind the frame's own IP headers.
    pub fn upper_layer<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.outer..).unwrap_or(&[])
    }

    /// Writes other ports, or another identifier, into the frame that was read, and all checksums over them.
    pub fn write(&self, frame: &mut [u8], to: &Ends) {
        let at = self.upper;
        let mut fields = Vec::with_capacity(2);
        match self.ends.protocol {
            TCP | UDP => {
                fields.push((at, self.ends.src.port, to.src.port));
                fields.push((at + 2, self.ends.dst.port, to.dst.port));
            }
            ICMP | ICMP6 => fields.push((at + 4, self.ends.src.port, to.src.port)),
            _ => {}
        }
        fields.retain(|(_, old, new)| old != new);
        let check = match self.ends.protocol {
            TCP => at + 16,
            UDP => at + 6,
            _ => at + 2,
        };
        // of a quoted packet, a header that is cut off keeps its checksum
        let whole = self.ends.protocol != TCP || self.packet_end(frame) >= at + 20;
        let before = word(frame, check).filter(|c| whole && (self.ends.protocol != UDP || *c != 0));
        let mut sum = before;
        for (field, old, new) in &fields {
            put(frame, *field, *new);
            sum = sum.map(|s| checksum::update(s, *old, *new));
        }
        if let (Some(before), Some(mut sum)) = (before, sum.filter(|_| !fields.is_empty())) {
            if self.ends.protocol == UDP && sum == 0 {
                sum = 0xffff;
            }
            put(frame, check, sum);
            fields.push((check, before, sum));
        }
        if self.quoted
            && let Some(mut outer) = word(frame, self.outer + 2)
        {
            for (_, old, new) in &fields {
                outer = checksum::update(outer, *old, *new);
            }
            put(frame, self.outer + 2, outer);
        }
    }

    /// Where the frame's packet ends.
    fn packet_end(&self, frame: &[u8]) -> usize {
        let net = view(frame).map_or(14, |v| v.net);
        let end = frame.get(net..).and_then(end);
        end.map_or(frame.len(), |e| (net + e).min(frame.len()))
    }

    /// Writes what a checksum comes to in its place: 0xffff where it is right. Which of both zeros of the one's
    /// complement a checksum is says nothing (RFC 1624).
    pub fn settle(&self, frame: &mut [u8]) {
        let packet_end = self.packet_end(frame);
        let net = view(frame).map_or(14, |v| v.net);
        let (protocol, check) = match (self.quoted, self.ends.protocol, self.ends.v6) {
            (true, _, false) => (ICMP, self.outer + 2),
            (true, _, true) => (ICMP6, self.outer + 2),
            (_, TCP, _) => (TCP, self.upper + 16),
            (_, UDP, _) => (UDP, self.upper + 6),
            (_, p @ (ICMP | ICMP6), _) => (p, self.upper + 2),
            _ => return,
        };
        if self.quoted {
            self.settle_quoted(frame, packet_end);
        }
        let addresses = match self.ends.v6 {
            false => frame.get(net + 12..net + 20),
            true => frame.get(net + 8..net + 40),
        };
        let (Some(addresses), Some(all)) = (addresses, frame.get(self.outer..packet_end)) else {
            return;
        };
        let pseudo = match protocol {
            ICMP => 0,
            p => checksum::sum(addresses, u64::from(p) + all.len() as u64),
        };
        let sum = checksum::fold(checksum::sum(all, pseudo));
        match word(frame, check) {
            // none
            Some(0) if protocol == UDP => {}
            _ => put(frame, check, sum),
        }
    }

    /// The same of a quoted packet, whose end is not there: of its upper layer, zeros are made one.
    fn settle_quoted(&self, frame: &mut [u8], packet_end: usize) {
        if !self.ends.v6
            && let Some(head) = frame.get(self.ip..self.upper)
        {
            let sum = checksum::fold(checksum::sum(head, 0));
            put(frame, self.ip + 10, sum);
        }
        let check = match self.ends.protocol {
            TCP => self.upper + 16,
            ICMP | ICMP6 => self.upper + 2,
            _ => return,
        };
        if check + 2 <= packet_end && word(frame, check) == Some(0xffff) {
            put(frame, check, 0);
        }
    }
}

fn word(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

fn put(b: &mut [u8], at: usize, value: u16) {
    if let Some(to) = b.get_mut(at..at + 2) {
        to.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame with an IPv4 packet, checksums right.
    pub(crate) fn frame(src: [u8; 4], dst: [u8; 4], protocol: u8, upper: &[u8]) -> Vec<u8> {
        let mut f = vec![2; 12];
        f.extend([8, 0, 0x45, 0]);
        f.extend((20 + upper.len() as u16).to_be_bytes());
        f.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
        f.extend(src);
        f.extend(dst);
        let sum = !checksum::fold(checksum::sum(&f[14..34], 0));
        put(&mut f, 24, sum);
        f.extend(upper);
        let (at, pseudo) = match protocol {
            ICMP => (36, 0),
            TCP => (50, checksum::sum(&f[26..34], 6 + upper.len() as u64)),
            _ => (40, checksum::sum(&f[26..34], 17 + upper.len() as u64)),
        };
        let sum = !checksum::fold(checksum::sum(&f[34..], pseudo));
        put(&mut f, at, sum);
        f
    }

    pub(crate) fn udp(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16) -> Vec<u8> {
        let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
        frame(src, dst, UDP, &[&ports[..], &[0, 10, 0, 0, 7, 7]].concat())
    }

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [192, 0, 2, 1];

    #[test]
    fn ports_are_written_with_checksums() {
        let mut f = udp(A, 1000, B, 53);
        let found = read(&f).unwrap();
        assert_eq!((found.ends.src.port, found.ends.dst.port), (1000, 53));
        let mut to = found.ends;
        to.src.port = 2000;
        found.write(&mut f, &to);
        assert_eq!(f, udp(A, 2000, B, 53));
        // a ping's identifier
        let ping = |id: u8| frame(A, B, ICMP, &[8, 0, 0, 0, 0, id, 0, 1]);
        let mut f = ping(7);
        let found = read(&f).unwrap();
        to = found.ends;
        to.src.port = 9;
        found.write(&mut f, &to);
        assert_eq!(f, ping(9));
        assert_eq!(to.inverse().inverse(), to);
        assert_eq!(to.inverse().dst.port, 0, "an answer");
    }

    #[test]
    fn of_errors_the_quoted_packet() {
        let about = |port: u16| {
            let quoted = &udp(A, port, B, 53)[14..];
            frame(
                B,
                A,
                ICMP,
                &[&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat(),
            )
        };
        let mut f = about(1000);
        let found = read(&f).unwrap();
        assert!(found.quoted);
        assert_eq!(found.ends.src.port, 1000);
        let mut to = found.ends;
        to.src.port = 4000;
        found.write(&mut f, &to);
        assert_eq!(f, about(4000));
    }

    #[test]
    fn right_and_wrong_checksums_are_told_apart() {
        let right = udp(A, 1000, B, 53);
        let mut settled = right.clone();
        read(&right).unwrap().settle(&mut settled);
        assert_eq!(word(&settled, 40), Some(0xffff));
        let mut wrong = right.clone();
        wrong[41] ^= 1;
        read(&wrong).unwrap().settle(&mut wrong);
        assert_ne!(settled, wrong);
        // without a checksum it stays so
        let mut none = right;
        put(&mut none, 40, 0);
        read(&none).unwrap().settle(&mut none);
        assert_eq!(word(&none, 40), Some(0));
    }
}
