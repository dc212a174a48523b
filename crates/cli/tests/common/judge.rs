//! Which checksums of a frame are wrong, by their definitions (RFC 791, 768, 792, 9293, 4443, 8200): arithmetic of its
//! own, so that the project's is not judged by itself.

/// A checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sum {
    /// IPv4 header.
    Ip,
    Tcp,
    Udp,
    Icmp,
    Icmp6,
    /// The IPv4 header that an ICMP error quotes.
    QuotedIp,
    /// The transport checksum of a packet that an ICMP error quotes as a whole.
    QuotedTransport,
}

/// What was found. What cannot be judged (truncated, a fragment, a source route, UDP without a checksum) is in neither
/// list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opinion {
    pub right: Vec<Sum>,
    pub wrong: Vec<Sum>,
}

impl Opinion {
    fn add(&mut self, sum: Sum, right: bool) {
        if right {
            self.right.push(sum);
        } else {
            self.wrong.push(sum);
        }
    }

    /// Whether an error of this packet's excuses that one in what came out of it.
    pub fn excuses(&self, sum: Sum) -> bool {
        let from: &[Sum] = match sum {
            // an error about the packet quotes what was wrong with it
            Sum::QuotedIp => &[Sum::Ip, Sum::QuotedIp],
            Sum::QuotedTransport => &[
                Sum::Tcp,
                Sum::Udp,
                Sum::Icmp,
                Sum::Icmp6,
                Sum::QuotedTransport,
            ],
            ref s => std::slice::from_ref(s),
        };
        from.iter().any(|s| self.wrong.contains(s))
    }
}

/// The ones' complement sum over parts of even length (the last one may be odd).
pub fn ones(parts: &[&[u8]]) -> u16 {
    let mut acc = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            acc += u64::from(pair[0]) * 256 + pair.get(1).map_or(0, |b| u64::from(*b));
        }
    }
    while acc > 0xffff {
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

fn be16(b: &[u8], at: usize) -> usize {
    usize::from(b[at]) * 256 + usize::from(b[at + 1])
}

/// Where things are in a packet whose lengths hold: offsets from the start of the IP header.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub v6: bool,
    pub proto: u8,
    /// Start of the transport header.
    pub transport: usize,
    /// End of the IP packet.
    pub end: usize,
    pub fragment: bool,
    /// The pseudo-header's destination is not the header's.
    pub routed: bool,
}

impl Layout {
    /// `None` if the lengths do not hold: nothing can be said then.
    pub fn of(ip: &[u8]) -> Option<Self> {
        match ip.first()? >> 4 {
            4 => Self::v4(ip),
            6 => Self::v6(ip),
            _ => None,
        }
    }

    fn v4(ip: &[u8]) -> Option<Self> {
        if ip.len() < 20 {
            return None;
        }
        let (header, end) = (usize::from(ip[0] & 15) * 4, be16(ip, 2));
        if header < 20 || header > end || end > ip.len() {
            return None;
        }
        Some(Self {
            v6: false,
            proto: ip[9],
            transport: header,
            end,
            fragment: be16(ip, 6) & 0x3fff != 0,
            routed: ip[20..header].iter().any(|o| matches!(o, 131 | 137)),
        })
    }

    fn v6(ip: &[u8]) -> Option<Self> {
        if ip.len() < 40 || 40 + be16(ip, 4) > ip.len() {
            return None;
        }
        let end = 40 + be16(ip, 4);
        let mut l = Self {
            v6: true,
            proto: ip[6],
            transport: 40,
            end,
            fragment: false,
            routed: false,
        };
        while matches!(l.proto, 0 | 43 | 44 | 51 | 60) {
            let h = ip.get(l.transport..l.end)?;
            if h.len() < 8 {
                return None;
            }
            let len = match l.proto {
                44 => {
                    l.fragment |= be16(h, 2) & 0xfff9 != 0;
                    8
                }
                51 => (usize::from(h[1]) + 2) * 4,
                _ => (usize::from(h[1]) + 1) * 8,
            };
            l.routed |= l.proto == 43 && h[3] != 0;
            l.proto = h[0];
            l.transport += len;
            if l.transport > l.end {
                return None;
            }
        }
        Some(l)
    }

    /// The pseudo-header for a transport part of a length.
    fn pseudo(&self, ip: &[u8], len: usize) -> Vec<u8> {
        let addresses = if self.v6 { &ip[8..40] } else { &ip[12..20] };
        let mut p = addresses.to_vec();
        p.extend_from_slice(&(len as u32).to_be_bytes());
        p.extend_from_slice(&[0, self.proto]);
        p
    }

    /// The transport checksum: which, and whether it is right.
    pub fn transport_sum(&self, ip: &[u8]) -> Option<(Sum, bool)> {
        let t = &ip[self.transport..self.end];
        if self.fragment || self.routed {
            return None;
        }
        match (self.proto, self.v6) {
            (6, _) if t.len() >= 20 => Some((Sum::Tcp, self.holds(ip, t))),
            (17, _) if t.len() >= 8 && be16(t, 6) != 0 => {
                let len = be16(t, 4);
                (len >= 8 && len <= t.len()).then(|| (Sum::Udp, self.holds(ip, &t[..len])))
            }
            (1, false) if t.len() >= 8 => Some((Sum::Icmp, ones(&[t]) == 0xffff)),
            (58, true) if t.len() >= 4 => Some((Sum::Icmp6, self.holds(ip, t))),
            _ => None,
        }
    }

    fn holds(&self, ip: &[u8], t: &[u8]) -> bool {
        ones(&[&self.pseudo(ip, t.len()), t]) == 0xffff
    }

    /// The packet that an ICMP error quotes.
    fn quoted<'a>(&self, ip: &'a [u8]) -> Option<&'a [u8]> {
        let t = &ip[self.transport..self.end];
        let error = match (self.proto, self.v6) {
            (1, false) => matches!(t.first()?, 3 | 4 | 5 | 11 | 12),
            (58, true) => *t.first()? < 128,
            _ => false,
        };
        (error && !self.fragment).then(|| t.get(8..)).flatten()
    }
}

/// Judges an IP packet.
pub fn judge_ip(ip: &[u8]) -> Opinion {
    let mut o = Opinion::default();
    let Some(l) = Layout::of(ip) else { return o };
    if !l.v6 {
        o.add(Sum::Ip, ones(&[&ip[..l.transport]]) == 0xffff);
    }
    if let Some((sum, right)) = l.transport_sum(ip) {
        o.add(sum, right);
    }
    if let Some(q) = l.quoted(ip) {
        let header = q.first().map_or(0, |b| usize::from(b & 15) * 4);
        if !l.v6 && q[..1] == [q[0] & 0x0f | 0x40] && header >= 20 && header <= q.len() {
            o.add(Sum::QuotedIp, ones(&[&q[..header]]) == 0xffff);
        }
        if let Some((_, right)) = Layout::of(q).and_then(|i| i.transport_sum(q)) {
            o.add(Sum::QuotedTransport, right);
        }
    }
    o
}

/// Judges an Ethernet frame; frames of other types have no checksums.
pub fn judge(frame: &[u8]) -> Opinion {
    match frame.get(12..14) {
        Some([0x08, 0x00] | [0x86, 0xdd]) => judge_ip(&frame[14..]),
        _ => Opinion::default(),
    }
}
