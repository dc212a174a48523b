//! Frames: where their headers are, and how they are made well-formed.

use crate::solicitation;
use onefold_packet::checksum;

/// Longest stack of VLAN tags that is looked through.
const MAX_TAGS: usize = 4;

/// Where a frame's headers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Ethernet type behind all tags.
    pub ether_type: u16,
    /// First byte behind the Ethernet header and its tags.
    pub net: usize,
    /// Behind the IP header, if there is one whose length makes sense and which is no later fragment.
    pub transport: Option<usize>,
    /// IP protocol, or 0.
    pub proto: u8,
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

fn put16(b: &mut [u8], at: usize, v: u16) {
    if let Some(s) = b.get_mut(at..at + 2) {
        s.copy_from_slice(&v.to_be_bytes());
    }
}

/// Looks at a frame.
pub fn view(b: &[u8]) -> Option<View> {
    let mut net = 14;
    let mut ether_type = be16(b, 12)?;
    for _ in 0..MAX_TAGS {
        if !matches!(ether_type, 0x8100 | 0x88a8) {
            break;
        }
        ether_type = be16(b, net + 2)?;
        net += 4;
    }
    let mut v = View {
        ether_type,
        net,
        transport: None,
        proto: 0,
    };
    match ether_type {
        0x0800 => {
            let ihl = usize::from(b.get(net)? & 15) * 4;
            v.proto = *b.get(net + 9)?;
            let later = be16(b, net + 6)? & 0x1fff != 0;
            if ihl >= 20 && !later && b.len() >= net + ihl {
                v.transport = Some(net + ihl);
            }
        }
        0x86dd => {
            v.proto = *b.get(net + 6)?;
            if b.len() >= net + 40 {
                v.transport = Some(net + 40);
            }
        }
        _ => {}
    }
    Some(v)
}

/// What packets of one flow have in common: addresses, protocol, ports; the Ethernet header where there is no IP.
pub fn flow_key(b: &[u8]) -> Vec<u8> {
    let Some(v) = view(b) else {
        return b.to_vec();
    };
    let mut key = v.ether_type.to_be_bytes().to_vec();
    let addresses = match v.ether_type {
        0x0800 => b.get(v.net + 12..v.net + 20),
        0x86dd => b.get(v.net + 8..v.net + 40),
        _ => None,
    };
    match addresses {
        Some(a) => {
            key.extend_from_slice(a);
            key.push(v.proto);
            if let (6 | 17, Some(t)) = (v.proto, v.transport)
                && let Some(p) = b.get(t..t + 4)
            {
                key.extend_from_slice(p);
            }
            // messages of different kinds are different flows, and so are pings with different identifiers
            if let (1 | 58, Some(t)) = (v.proto, v.transport)
                && let Some(p) = b.get(t..t + 6)
            {
                key.extend_from_slice(&p[..2]);
                if matches!(p[0], 0 | 8 | 128 | 129) {
                    key.extend_from_slice(&p[4..]);
                } else if let Some(quoted) = b.get(t + 8..) {
                    // an error belongs to the flow of the packet that it quotes
                    key.extend_from_slice(quoted.get(9..24).unwrap_or(quoted));
                }
            }
        }
        None => {
            key.extend_from_slice(b.get(..14).unwrap_or(b));
            // who is asked for whom (RFC 826: protocol addresses): questions about different addresses are different
            // flows
            if v.ether_type == 0x0806 {
                for at in [14, 24] {
                    key.extend_from_slice(b.get(v.net + at..v.net + at + 4).unwrap_or(&[]));
                }
            }
        }
    }
    key
}

/// What packets have in common that came as one flow: [`flow_key`], and their VLAN tags if they have any, since each
/// VLAN is a network of its own.
pub fn came_key(b: &[u8]) -> Vec<u8> {
    let mut key = flow_key(b);
    let tags = view(b).and_then(|v| b.get(12..v.net - 2));
    key.extend_from_slice(tags.unwrap_or(&[]));
    key
}

/// Is it an ICMP error, which tells of another packet?
pub fn is_error(b: &[u8]) -> bool {
    view(b).is_some_and(|v| {
        let kind = v.transport.and_then(|t| b.get(t).copied());
        match (v.ether_type, v.proto) {
            (0x0800, 1) => matches!(kind, Some(3 | 4 | 5 | 11 | 12)),
            (0x86dd, 58) => matches!(kind, Some(1..=4)),
            _ => false,
        }
    })
}

/// The frame; of an ICMP error without the IPv4 identification and the header checksum that covers it.
pub fn without_error_id(b: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let error = view(b).filter(|v| v.ether_type == 0x0800 && is_error(b));
    match error {
        None => b.into(),
        Some(v) => {
            let mut b = b.to_vec();
            put16(&mut b, v.net + 4, 0);
            put16(&mut b, v.net + 10, 0);
            b.into()
        }
    }
}

/// Which lengths and checksums [`finish`] leaves as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// IPv4 total length, IPv6 payload length.
    pub ip_len: bool,
    /// UDP length.
    pub udp_len: bool,
    /// IPv4 header checksum.
    pub ip_sum: bool,
    /// TCP, UDP, ICMP checksum.
    pub transport_sum: bool,
}

/// Bytes that the IP packet claims to have behind `net`, if they are there.
fn ip_end(b: &[u8], v: &View) -> Option<usize> {
    let len = match v.ether_type {
        0x0800 => usize::from(be16(b, v.net + 2)?),
        0x86dd => 40 + usize::from(be16(b, v.net + 4)?),
        _ => return None,
    };
    Some((v.net + len).min(b.len()))
}

/// Fills in lengths and checksums.
pub fn finish(b: &mut [u8], keep: Keep) {
    let Some(v) = view(b) else { return };
    match v.ether_type {
        0x0800 => {
            if !keep.ip_len {
                let len = (b.len() - v.net.min(b.len())).min(65535) as u16;
                put16(b, v.net + 2, len);
            }
            finish_transport(b, &v, keep);
            let ihl = usize::from(b.get(v.net).copied().unwrap_or(0) & 15) * 4;
            if !keep.ip_sum && ihl >= 20 && b.len() >= v.net + ihl {
                put16(b, v.net + 10, 0);
                let c = checksum::internet(&b[v.net..v.net + ihl]);
                put16(b, v.net + 10, c);
            }
        }
        0x86dd => {
            if !keep.ip_len {
                let len = b.len().saturating_sub(v.net + 40).min(65535) as u16;
                put16(b, v.net + 4, len);
            }
            finish_transport(b, &v, keep);
        }
        _ => {}
    }
}

/// The pseudo-header's sum.
fn pseudo(b: &[u8], v: &View, len: usize) -> Option<u64> {
    if v.ether_type == 0x0800 {
        let src: [u8; 4] = b.get(v.net + 12..v.net + 16)?.try_into().ok()?;
        let dst: [u8; 4] = b.get(v.net + 16..v.net + 20)?.try_into().ok()?;
        return Some(checksum::pseudo_v4(src, dst, v.proto, len as u16));
    }
    let src: [u8; 16] = b.get(v.net + 8..v.net + 24)?.try_into().ok()?;
    let dst: [u8; 16] = b.get(v.net + 24..v.net + 40)?.try_into().ok()?;
    Some(checksum::pseudo_v6(&src, &dst, v.proto, len as u32))
}

fn finish_transport(b: &mut [u8], v: &View, keep: Keep) {
    let (Some(t), Some(end)) = (v.transport, ip_end(b, v)) else {
        return;
    };
    if end <= t {
        return;
    }
    let first_fragment = v.ether_type == 0x0800 && be16(b, v.net + 6).unwrap_or(0) & 0x2000 != 0;
    let (at, with_pseudo) = match v.proto {
        6 => (16, true),
        17 => (6, true),
        1 if v.ether_type == 0x0800 => (2, false),
        58 if v.ether_type == 0x86dd => (2, true),
        _ => return,
    };
    let mut end = end;
    if v.proto == 17 {
        if !keep.udp_len && !first_fragment {
            put16(b, t + 4, (end - t).min(65535) as u16);
        }
        // the checksum covers what the UDP length says
        let len = usize::from(be16(b, t + 4).unwrap_or(0));
        if len >= 8 && t + len <= end {
            end = t + len;
        }
    }
    if keep.transport_sum || t + at + 2 > end {
        return;
    }
    put16(b, t + at, 0);
    let start = match with_pseudo {
        true => pseudo(b, v, end - t).unwrap_or(0),
        false => 0,
    };
    let mut c = !checksum::fold(checksum::sum(&b[t..end], start));
    if v.proto == 17 && c == 0 {
        c = 0xffff;
    }
    put16(b, t + at, c);
}

/// Which of the checks of a frame hold: IPv4 header checksum, transport checksum; `None` where there is none.
pub fn sums_right(b: &[u8]) -> (Option<bool>, Option<bool>) {
    let Some(v) = view(b) else {
        return (None, None);
    };
    let mut again = b.to_vec();
    let keep = Keep {
        ip_len: true,
        udp_len: true,
        ..Keep::default()
    };
    finish(&mut again, keep);
    let ip = (v.ether_type == 0x0800)
        .then(|| be16(b, v.net + 10).is_some() && be16(b, v.net + 10) == be16(&again, v.net + 10));
    let at = match v.proto {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return (ip, None),
    };
    let transport = v
        .transport
        .and_then(|t| Some(be16(b, t + at)? == be16(&again, t + at)?));
    (ip, transport)
}

/// The answer to a frame that has left: addresses and ports exchanged, echo requests become replies, ARP requests get
/// a reply. `None` where there is nothing to answer.
pub fn answer(b: &[u8]) -> Option<Vec<u8>> {
    let v = view(b)?;
    let mut r = b.to_vec();
    r.get_mut(..6)?.copy_from_slice(b.get(6..12)?);
    r.get_mut(6..12)?.copy_from_slice(b.get(..6)?);
    match v.ether_type {
        0x0806 => {
            if be16(b, v.net + 6)? != 1 {
                return None;
            }
            put16(&mut r, v.net + 6, 2);
            // who was asked answers with an address of its own
            let asked = b.get(v.net + 24..v.net + 28)?.to_vec();
            let mac = [2, 0xaa, asked[0], asked[1], asked[2], asked[3]];
            r.get_mut(v.net + 18..v.net + 28)?
                .copy_from_slice(b.get(v.net + 8..v.net + 18)?);
            r.get_mut(v.net + 8..v.net + 14)?.copy_from_slice(&mac);
            r.get_mut(v.net + 14..v.net + 18)?.copy_from_slice(&asked);
            r.get_mut(6..12)?.copy_from_slice(&mac);
            return Some(r);
        }
        0x0800 => {
            r.get_mut(v.net + 12..v.net + 16)?
                .copy_from_slice(b.get(v.net + 16..v.net + 20)?);
            r.get_mut(v.net + 16..v.net + 20)?
                .copy_from_slice(b.get(v.net + 12..v.net + 16)?);
            *r.get_mut(v.net + 8)? = 64;
        }
        0x86dd => {
            r.get_mut(v.net + 8..v.net + 24)?
                .copy_from_slice(b.get(v.net + 24..v.net + 40)?);
            r.get_mut(v.net + 24..v.net + 40)?
                .copy_from_slice(b.get(v.net + 8..v.net + 24)?);
            *r.get_mut(v.net + 7)? = 64;
        }
        _ => return None,
    }
    if let Some(t) = v.transport {
        match v.proto {
            6 | 17 => {
                if let (Some(s), Some(d)) = (be16(b, t), be16(b, t + 2)) {
                    put16(&mut r, t, d);
                    put16(&mut r, t + 2, s);
                }
                // SYN is answered with SYN and ACK
                if v.proto == 6
                    && let Some(f) = r.get_mut(t + 13)
                {
                    *f |= 0x10;
                }
            }
            1 if v.ether_type == 0x0800 => match b.get(t)? {
                8 => *r.get_mut(t)? = 0,
                _ => return None,
            },
            58 => match b.get(t)? {
                128 => *r.get_mut(t)? = 129,
                135 => solicitation::advertise(b, &mut r, (v.net, t))?,
                _ => return None,
            },
            _ => {}
        }
    }
    let keep = Keep {
        ip_len: true,
        udp_len: true,
        ..Keep::default()
    };
    finish(&mut r, keep);
    Some(r)
}

/// The frame goes to the address and port that another one comes from (or has the identifier of that one's ping).
/// Checksums that were right stay so. Frames of other kinds stay as they are.
pub fn send_to_source_of(b: &mut [u8], from: &[u8]) {
    let (Some(v), Some(f)) = (view(b), view(from)) else {
        return;
    };
    if (v.ether_type, v.proto) != (f.ether_type, f.proto) {
        return;
    }
    let (ip, transport) = sums_right(b);
    let (to, src, n) = match v.ether_type {
        0x0800 => (v.net + 16, f.net + 12, 4),
        0x86dd => (v.net + 24, f.net + 8, 16),
        _ => return,
    };
    let mut copy = |to: usize, src: usize, n: usize| {
        if let (Some(to), Some(src)) = (b.get_mut(to..to + n), from.get(src..src + n)) {
            to.copy_from_slice(src);
        }
    };
    copy(to, src, n);
    if let (Some(t), Some(s)) = (v.transport, f.transport) {
        match v.proto {
            6 | 17 => copy(t + 2, s, 2),
            1 => copy(t + 4, s + 4, 2),
            _ => {}
        }
    }
    let keep = Keep {
        ip_len: true,
        udp_len: true,
        ip_sum: ip == Some(false),
        transport_sum: transport == Some(false),
    };
    finish(b, keep);
}

/// Is it an IP packet without options, in one piece, with a whole TCP or UDP header and a time to live that lasts?
pub fn is_plain(b: &[u8]) -> bool {
    let at = |i: usize| b.get(i).copied().unwrap_or(0);
    view(b).is_some_and(|v| match v.ether_type {
        0x0800 => {
            let header = match v.proto {
                6 => 40,
                17 => 28,
                _ => 20,
            };
            at(v.net) == 0x45
                && be16(b, v.net + 2).is_some_and(|n| n >= header)
                && at(v.net + 6) & 0x3f == 0
                && at(v.net + 7) == 0
                && at(v.net + 8) > 16
        }
        0x86dd => at(v.net + 7) > 16,
        _ => false,
    })
}

/// Do two frames go to the same address and port?
pub fn same_destination(a: &[u8], b: &[u8]) -> bool {
    let destination = |f: &[u8]| {
        let v = view(f)?;
        let mut key = match v.ether_type {
            0x0800 => f.get(v.net + 16..v.net + 20)?.to_vec(),
            0x86dd => f.get(v.net + 24..v.net + 40)?.to_vec(),
            _ => return None,
        };
        let port = match v.proto {
            6 | 17 => v.transport? + 2,
            _ => v.transport? + 4,
        };
        key.push(v.proto);
        key.extend_from_slice(f.get(port..port + 2)?);
        Some(key)
    };
    destination(a).is_some() && destination(a) == destination(b)
}

/// What a new frame is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// IP version: 4 or 6.
    pub version: u8,
    /// IP protocol.
    pub proto: u8,
    /// VLAN tags, at most two.
    pub tags: usize,
    /// Bytes behind the transport header.
    pub payload: usize,
}

/// A well-formed frame but for its checksums: call [`finish`] when the addresses are in.
pub fn make(s: Shape) -> Vec<u8> {
    let tags = s.tags.min(2);
    let mut b = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
    for i in 0..tags {
        b.extend_from_slice(&[0x81, 0, 0, 42 + i as u8]);
    }
    let transport: &[u8] = match s.proto {
        6 => &[
            0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
        ],
        17 => &[0x10, 0, 0, 53, 0, 8, 0, 0],
        1 => &[8, 0, 0, 0, 0, 7, 0, 1],
        58 => &[128, 0, 0, 0, 0, 7, 0, 1],
        _ => &[0, 0, 0, 0, 0, 0, 0, 0],
    };
    if s.version == 6 {
        b.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, s.proto, 64]);
        for host in [1, 2] {
            b.extend_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
    } else {
        b.extend_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, s.proto, 0, 0]);
        b.extend_from_slice(&[10, 0, 0, 1, 198, 18, 0, 1]);
    }
    b.extend_from_slice(transport);
    b.extend((0..s.payload.min(9000)).map(|i| b'a' + (i % 26) as u8));
    b
}

/// An ARP request from one IPv4 address for another.
pub fn arp_request(from: [u8; 6], ip: [u8; 4], asked: [u8; 4]) -> Vec<u8> {
    let mut b = vec![0xff; 6];
    b.extend_from_slice(&from);
    b.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    b.extend_from_slice(&from);
    b.extend_from_slice(&ip);
    b.extend_from_slice(&[0; 6]);
    b.extend_from_slice(&asked);
    b.resize(60, 0);
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> impl Iterator<Item = Shape> {
        let versions = [(4, 6), (4, 17), (4, 1), (4, 47), (6, 6), (6, 17), (6, 58)];
        versions.into_iter().flat_map(|(version, proto)| {
            (0..3).map(move |tags| Shape {
                version,
                proto,
                tags,
                payload: 13 * tags + 1,
            })
        })
    }

    #[test]
    fn made_frames_are_well_formed_and_their_answers_too() {
        for s in shapes() {
            let mut b = make(s);
            finish(&mut b, Keep::default());
            let v = view(&b).unwrap();
            assert_eq!(v.net, 14 + 4 * s.tags);
            assert_eq!(v.proto, s.proto);
            let (ip, transport) = sums_right(&b);
            assert_ne!(ip, Some(false), "{s:?}");
            assert_ne!(transport, Some(false), "{s:?}");
            assert_eq!(ip_end(&b, &v), Some(b.len()));
            let a = answer(&b).unwrap();
            assert_ne!(sums_right(&a).1, Some(false), "{s:?}");
            assert_ne!(flow_key(&a), flow_key(&b));
            if !matches!(s.proto, 1 | 58) {
                assert_eq!(flow_key(&answer(&a).unwrap()), flow_key(&b));
            }
            let mut bad = b.clone();
            *bad.last_mut().unwrap() ^= 1;
            if s.proto != 47 {
                assert_eq!(sums_right(&bad).1, Some(false), "{s:?}");
            }
        }
    }

    #[test]
    fn nothing_panics_on_short_frames() {
        for s in shapes() {
            let whole = make(s);
            for n in 0..whole.len() {
                let mut b = whole[..n].to_vec();
                finish(&mut b, Keep::default());
                let _ = (sums_right(&b), answer(&b), flow_key(&b));
            }
        }
    }

    #[test]
    fn frames_are_sent_elsewhere() {
        for s in shapes().filter(|s| s.proto != 47) {
            let mut a = make(s);
            finish(&mut a, Keep::default());
            let mut b = a.clone();
            let v = view(&b).unwrap();
            // another source of what is answered
            let at = v.net + if s.version == 4 { 15 } else { 23 };
            b[at] ^= 0x40;
            finish(&mut b, Keep::default());
            let mut r = answer(&a).unwrap();
            send_to_source_of(&mut r, &b);
            assert_eq!(r, answer(&b).unwrap(), "{s:?}");
        }
    }

    #[test]
    fn arp_requests_are_answered() {
        let q = arp_request([2, 0, 0, 0, 0, 9], [10, 0, 0, 1], [10, 0, 0, 2]);
        let a = answer(&q).unwrap();
        assert_eq!(&a[..6], &[2, 0, 0, 0, 0, 9]);
        assert_eq!(&a[20..22], &[0, 2]);
        assert_eq!(&a[28..32], &[10, 0, 0, 2]);
        assert_eq!(&a[38..42], &[10, 0, 0, 1]);
        assert_eq!(answer(&a), None);
    }
}
