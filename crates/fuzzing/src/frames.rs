//! Frames of our own making: valid ones of every kind that the example chains look at, and answers to what left a
//! chain.

use onefold_packet::checksum::{fold, sum, update};

/// Destination and source addresses to choose from: clients, servers, translators' pools, routers' own, and odd ones.
pub const V4: [[u8; 4]; 24] = [
    [10, 1, 0, 1],
    [198, 18, 0, 80],
    [10, 80, 0, 1],
    [192, 0, 2, 1],
    [204, 152, 184, 9],
    [167, 1, 2, 3],
    [203, 0, 113, 1],
    [203, 0, 113, 2],
    [198, 51, 100, 1],
    [198, 18, 1, 1],
    [10, 25, 0, 7],
    [172, 16, 1, 1],
    [172, 16, 0, 2],
    [172, 16, 3, 1],
    [172, 16, 2, 1],
    [10, 0, 0, 22],
    [10, 0, 0, 1],
    [192, 168, 0, 9],
    [198, 19, 130, 1],
    [127, 0, 0, 1],
    [255, 255, 255, 255],
    [224, 0, 0, 5],
    [0, 0, 0, 0],
    [10, 255, 255, 255],
];

/// The same for IPv6.
pub const V6: [[u16; 8]; 10] = [
    [0x2001, 0xdb8, 0, 1, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, 9],
    [0x2001, 0xdb8, 0, 0xbad, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0xdead, 0, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1],
    [0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 2],
    [0xfe80, 0, 0, 0, 0, 0, 0, 1],
    [0xff02, 0, 0, 0, 0, 0, 0, 1],
    [0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 1],
];

/// Ports to choose from.
pub const PORTS: [u16; 16] = [
    5000, 80, 443, 53, 123, 1234, 22, 25, 21, 1024, 1025, 8080, 0, 65535, 9, 5001,
];

/// Payloads that somebody looks for, and some that nobody does.
pub const PAYLOADS: [&[u8]; 12] = [
    b"payload of a packet",
    b"",
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"GET /a/../../etc/passwd",
    b"GET /?q=1 UNION ALL select",
    b"..ONEFOLD-EVIL..",
    b"MZ\x90\x00",
    b"\x7fELF\x02\x01",
    b"PORT 10,1,0,1,4,1\r\n",
    b"x",
    b"\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01",
    b"0123456789abcdef0123456789abcdef0123456789abcdef",
];

/// What a frame is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    Udp,
    Icmp,
    /// Protocol number that is none of these.
    Other,
    Arp,
}

/// A frame to be made. All values are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub kind: Kind,
    pub six: bool,
    pub mac: [u8; 6],
    pub vlan: Option<u16>,
    pub src: u8,
    pub dst: u8,
    pub sport: u8,
    pub dport: u8,
    /// TCP flags, or ICMP type.
    pub flags: u8,
    pub ttl: u8,
    pub payload: u8,
    /// The payload is filled up by so many times 16 bytes.
    pub fill: u8,
    /// 0 none; IPv4 options, or IPv6 extension headers.
    pub options: u8,
    /// 0 whole; else first, middle or last fragment; 0x80 is "don't fragment".
    pub fragment: u8,
}

impl Frame {
    /// A plain datagram.
    pub fn new(kind: Kind) -> Frame {
        Frame {
            kind,
            six: false,
            mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            src: 0,
            dst: 1,
            sport: 0,
            dport: 1,
            flags: 2,
            ttl: 64,
            payload: 0,
            fill: 0,
            options: 0,
            fragment: 0,
        }
    }

    fn v4(n: u8) -> [u8; 4] {
        V4[usize::from(n) % V4.len()]
    }

    fn v6(n: u8) -> [u8; 16] {
        let mut a = [0; 16];
        for (i, w) in V6[usize::from(n) % V6.len()].iter().enumerate() {
            a[2 * i..2 * i + 2].copy_from_slice(&w.to_be_bytes());
        }
        a
    }

    fn pseudo(&self, proto: u8, len: usize) -> u32 {
        let mut b = Vec::new();
        if self.six {
            b.extend(Self::v6(self.src));
            b.extend(Self::v6(self.dst));
        } else {
            b.extend(Self::v4(self.src));
            b.extend(Self::v4(self.dst));
        }
        let words = b.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        words.sum::<u32>() + u32::from(proto) + len as u32
    }

    /// Transport header and payload.
    fn transport(&self) -> (u8, Vec<u8>) {
        let (s, d) = (
            PORTS[usize::from(self.sport) % PORTS.len()],
            PORTS[usize::from(self.dport) % PORTS.len()],
        );
        let mut payload = PAYLOADS[usize::from(self.payload) % PAYLOADS.len()].to_vec();
        payload.resize(payload.len() + usize::from(self.fill) * 16, b'.');
        let mut t = Vec::new();
        let (proto, at, with_pseudo) = match self.kind {
            Kind::Tcp => {
                t.extend(s.to_be_bytes());
                t.extend(d.to_be_bytes());
                t.extend([
                    0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 0x20, 0, 0, 0, 0, 0,
                ]);
                (6, 16, true)
            }
            Kind::Udp => {
                t.extend(s.to_be_bytes());
                t.extend(d.to_be_bytes());
                t.extend(((8 + payload.len()) as u16).to_be_bytes());
                t.extend([0, 0]);
                (17, 6, true)
            }
            Kind::Icmp if self.six => {
                t.extend([self.flags, 0, 0, 0, 1, 2, 0, self.sport]);
                (58, 2, true)
            }
            Kind::Icmp => {
                t.extend([self.flags, 0, 0, 0, 1, 2, 0, self.sport]);
                if matches!(self.flags, 3 | 4 | 5 | 11 | 12) {
                    // an error, about a packet the other way
                    let about = Frame {
                        kind: Kind::Udp,
                        src: self.dst,
                        dst: self.src,
                        sport: self.dport,
                        dport: self.sport,
                        options: 0,
                        fragment: 0,
                        vlan: None,
                        fill: 0,
                        ..*self
                    };
                    payload = about.network().1;
                    payload.truncate(28);
                }
                (1, 2, false)
            }
            Kind::Other | Kind::Arp => (89, usize::MAX, false),
        };
        t.extend(payload);
        if let Some(place) = t.get(at..at.saturating_add(2)).map(|_| at) {
            let start = if with_pseudo {
                self.pseudo(proto, t.len())
            } else {
                0
            };
            let c = !fold(sum(&t, start.into()));
            t[place..place + 2].copy_from_slice(&c.to_be_bytes());
        }
        (proto, t)
    }

    /// Ether type and what follows.
    fn network(&self) -> (u16, Vec<u8>) {
        if self.kind == Kind::Arp {
            let mut a = vec![0, 1, 8, 0, 6, 4, 0, 1 + (self.flags & 1)];
            a.extend([2, 0, 0, 0, 0, 1]);
            a.extend(Self::v4(self.src));
            a.extend([0; 6]);
            a.extend(Self::v4(self.dst));
            return (0x0806, a);
        }
        let (proto, t) = self.transport();
        if self.six {
            let mut next = proto;
            let mut body = Vec::new();
            let cut = 8.min(t.len());
            let t = match self.fragment & 3 {
                0 => t,
                n => {
                    let (offset, more, part): (u16, u16, &[u8]) = match n {
                        1 => (0, 1, &t[..cut]),
                        2 => (8, 1, &t[..cut]),
                        _ => (cut as u16, 0, &t[cut..]),
                    };
                    let mut f = vec![next, 0];
                    f.extend((offset | more).to_be_bytes());
                    f.extend([0, 0, 0, 7]);
                    f.extend(part);
                    next = 44;
                    f
                }
            };
            for kind in [(1, 60), (2, 43), (4, 0)] {
                if self.options & kind.0 != 0 {
                    body.extend([next, 0, 1, 4, 0, 0, 0, 0]);
                    next = kind.1;
                }
            }
            // the last one put there comes first
            let mut headers: Vec<u8> = body.chunks(8).rev().flatten().copied().collect();
            headers.extend(t);
            let mut p = vec![0x60, 0, 0, 0];
            p.extend((headers.len() as u16).to_be_bytes());
            p.extend([next, self.ttl]);
            p.extend(Self::v6(self.src));
            p.extend(Self::v6(self.dst));
            p.extend(headers);
            return (0x86dd, p);
        }
        let options: &[u8] = match self.options % 6 {
            0 => &[],
            1 => &[1, 1, 1, 0],
            // record route
            2 => &[7, 7, 4, 0, 0, 0, 0, 0],
            // strict source route
            3 => &[137, 7, 4, 198, 18, 0, 80, 0],
            // time stamps
            4 => &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            // a length that reaches behind the header
            _ => &[7, 40, 4, 0],
        };
        let cut = 8.min(t.len());
        let (word, t) = match self.fragment & 3 {
            0 => (0u16, &t[..]),
            1 => (0x2000, &t[..cut]),
            2 => (0x2001, &t[..cut]),
            _ => (0x0001, &t[cut..]),
        };
        let word = word | if self.fragment & 0x80 != 0 { 0x4000 } else { 0 };
        let hl = 20 + options.len();
        let mut p = vec![0x40 | (hl / 4) as u8, 0];
        p.extend(((hl + t.len()) as u16).to_be_bytes());
        p.extend([0, 1]);
        p.extend(word.to_be_bytes());
        p.extend([self.ttl, proto, 0, 0]);
        p.extend(Self::v4(self.src));
        p.extend(Self::v4(self.dst));
        p.extend(options);
        let c = !fold(sum(&p, 0));
        p[10..12].copy_from_slice(&c.to_be_bytes());
        p.extend(t);
        (0x0800, p)
    }

    /// The IPv4 or IPv6 packet, or the ARP message, without an Ethernet header.
    pub fn packet(&self) -> Vec<u8> {
        self.network().1
    }

    /// The frame.
    pub fn bytes(&self) -> Vec<u8> {
        let (kind, p) = self.network();
        let mut f = self.mac.to_vec();
        f.extend([2, 0, 0, 0, 0, 1]);
        if let Some(v) = self.vlan {
            f.extend([0x81, 0]);
            f.extend(v.to_be_bytes());
        }
        f.extend(kind.to_be_bytes());
        f.extend(p);
        f
    }
}

/// Where the network header starts, and the ether type.
fn network_at(f: &[u8]) -> Option<(usize, u16)> {
    let mut at = 12;
    // two tags at most
    for _ in 0..3 {
        let kind = u16::from_be_bytes([*f.get(at)?, *f.get(at + 1)?]);
        if kind != 0x8100 && kind != 0x88a8 {
            return Some((at + 2, kind));
        }
        at += 4;
    }
    None
}

/// Computes the IPv4 header's checksum again, so that damage elsewhere in the header is looked at.
pub fn repair(f: &mut [u8]) {
    let Some((at, 0x0800)) = network_at(f) else {
        return;
    };
    let Some(first) = f.get(at) else { return };
    let len = usize::from(first & 15) * 4;
    if let Some(h) = f.get_mut(at..at + len).filter(|h| h.len() >= 20) {
        h[10..12].fill(0);
        let c = !fold(sum(h, 0));
        h[10..12].copy_from_slice(&c.to_be_bytes());
    }
}

/// Brings the checksum at `at` up to date with a word that has changed.
fn recheck(f: &mut [u8], at: usize, old: u16, new: u16) {
    if let Some([a, b]) = f.get_mut(at..at + 2) {
        let c = update(u16::from_be_bytes([*a, *b]), old, new);
        [*a, *b] = c.to_be_bytes();
    }
}

/// The frame the other way: addresses and ports exchanged, an echo request answered. Checksums stay right.
pub fn answer(f: &[u8]) -> Vec<u8> {
    let mut f = f.to_vec();
    if f.len() >= 12 {
        let (a, b) = f.split_at_mut(6);
        a.swap_with_slice(&mut b[..6]);
    }
    let Some((at, kind)) = network_at(&f) else {
        return f;
    };
    let (proto, addresses, len, transport) = match kind {
        0x0800 if f.len() >= at + 20 => {
            let hl = usize::from(f[at] & 15) * 4;
            (f[at + 9], at + 12, 4, at + hl)
        }
        0x86dd if f.len() >= at + 40 => (f[at + 6], at + 8, 16, at + 40),
        _ => return f,
    };
    let (a, b) = f[addresses..addresses + 2 * len].split_at_mut(len);
    a.swap_with_slice(b);
    match proto {
        6 | 17 if f.len() >= transport + 4 => {
            let (a, b) = f[transport..transport + 4].split_at_mut(2);
            a.swap_with_slice(b);
            if proto == 6 && f.len() > transport + 13 && f[transport + 13] == 2 {
                // a SYN is acknowledged
                f[transport + 13] = 0x12;
                let offset = u16::from(f[transport + 12]) << 8;
                recheck(&mut f, transport + 16, offset | 0x02, offset | 0x12);
            }
        }
        1 if f.len() >= transport + 4 && f[transport] == 8 => {
            f[transport] = 0;
            let code = u16::from(f[transport + 1]);
            recheck(&mut f, transport + 2, 0x0800 | code, code);
        }
        _ => {}
    }
    f
}

/// What packets have to have in common for the engine to promise that one does not overtake the other: all that
/// elements look at to choose a way. For ICMP errors, that of the packet that they are about as well.
pub fn way(f: &[u8]) -> Vec<u8> {
    let Some((at, kind)) = network_at(f) else {
        return f.get(..14).unwrap_or(f).to_vec();
    };
    let mut key = f[..at].to_vec();
    let (mut at, mut kind) = (at, kind);
    // an error about an error about ...: more than a frame can hold does not occur
    for _ in 0..8 {
        let get = |from: usize, to: usize| f.get(from..to.min(f.len()).max(from)).unwrap_or(&[]);
        let (transport, error) = match kind {
            0x0800 => {
                let hl = usize::from(f.get(at).copied().unwrap_or(0) & 15) * 4;
                key.extend(get(at, at + 2));
                // flags, offset, time to live, protocol; addresses and options
                key.extend(get(at + 6, at + 10));
                key.extend(get(at + 12, at + hl));
                key.extend(get(at + hl, at + hl + 4));
                key.extend(get(at + hl + 13, at + hl + 14));
                let kind = f.get(at + hl).copied();
                (
                    at + hl,
                    f.get(at + 9) == Some(&1) && matches!(kind, Some(3 | 4 | 5 | 11 | 12)),
                )
            }
            0x86dd => {
                key.extend(get(at, at + 4));
                key.extend(get(at + 6, at + 44));
                let kind = f.get(at + 40).copied();
                (
                    at + 40,
                    f.get(at + 6) == Some(&58) && kind.is_some_and(|k| k < 128),
                )
            }
            _ => break,
        };
        if !error {
            break;
        }
        at = transport + 8;
        kind = match f.get(at).map(|b| b >> 4) {
            Some(4) => 0x0800,
            Some(6) => 0x86dd,
            _ => break,
        };
    }
    key
}
