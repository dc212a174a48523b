//! Frames: headers, payload, checksums.

use onefold_packet::checksum;

use super::params::LinkAddresses;
use super::payload::PayloadStore;
use crate::sizes::MIN_FRAME;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMP6: u8 = 58;

pub(crate) mod tcp_flag {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
}

/// Addresses of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IpAddresses {
    V4 { src: u32, dst: u32 },
    V6 { src: u128, dst: u128 },
}

impl IpAddresses {
    pub fn is_v6(self) -> bool {
        matches!(self, Self::V6 { .. })
    }

    pub fn swapped(self) -> Self {
        match self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }
}

/// What follows the IP header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp {
        sport: u16,
        dport: u16,
        seq: u32,
        ack: u32,
        flags: u8,
    },
    Udp {
        sport: u16,
        dport: u16,
    },
    /// `kind` and `code` as in the packet, `rest` the four bytes after the checksum.
    Icmp {
        kind: u8,
        code: u8,
        rest: [u8; 4],
    },
    /// Payload only.
    Other(u8),
}

impl Transport {
    fn header_len(&self) -> usize {
        match self {
            Self::Tcp { flags, .. } if flags & tcp_flag::SYN != 0 => 24,
            Self::Tcp { .. } => 20,
            Self::Udp { .. } | Self::Icmp { .. } => 8,
            Self::Other(_) => 0,
        }
    }

    fn protocol(&self, v6: bool) -> u8 {
        match self {
            Self::Tcp { .. } => TCP,
            Self::Udp { .. } => UDP,
            Self::Icmp { .. } if v6 => ICMP6,
            Self::Icmp { .. } => ICMP,
            Self::Other(p) => *p,
        }
    }
}

/// All about a frame but its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSpec {
    pub link: LinkAddresses,
    pub vlan: Option<u16>,
    pub addresses: IpAddresses,
    pub ttl: u8,
    pub dscp: u8,
    /// IPv4 identification.
    pub id: u16,
    pub dont_fragment: bool,
    pub transport: Transport,
}

/// Where things are in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The IP header.
    pub ip: usize,
    /// The transport header.
    pub transport: usize,
    /// The payload.
    pub payload: usize,
    /// The end of the IP packet; padding may follow.
    pub end: usize,
}

/// How long the payload is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    /// The frame has this size, headers permitting.
    Frame(u32),
    /// As [`Fill::Frame`], and at least this many bytes of payload.
    FrameAtLeast(u32, usize),
    /// No payload.
    Empty,
}

/// Builds a frame in `buf`: checksums valid, padded to the Ethernet minimum. `choice` picks the payload; `needle` is
/// put into it at a place that `choice` picks, if it fits.
pub(crate) fn build(
    buf: &mut Vec<u8>,
    spec: &FrameSpec,
    fill: Fill,
    store: &PayloadStore,
    choice: u64,
    needle: Option<&[u8]>,
) -> Layout {
    buf.clear();
    buf.extend_from_slice(&spec.link.dst.0);
    buf.extend_from_slice(&spec.link.src.0);
    if let Some(tag) = spec.vlan {
        buf.extend_from_slice(&[0x81, 0x00]);
        buf.extend_from_slice(&tag.to_be_bytes());
    }
    let v6 = spec.addresses.is_v6();
    buf.extend_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });

    let ip = buf.len();
    let ip_header = if v6 { 40 } else { 20 };
    let transport_header = spec.transport.header_len();
    let headers = ip + ip_header + transport_header;
    let room = 65_535 - transport_header - if v6 { 0 } else { ip_header };
    let (size, least) = match fill {
        Fill::Frame(size) => (size as usize, 0),
        Fill::FrameAtLeast(size, least) => (size as usize, least),
        Fill::Empty => (0, 0),
    };
    let payload_len = size.saturating_sub(headers).max(least).min(room);
    let (payload, payload_sum) = store.cut(payload_len, choice);
    let transport_len = (transport_header + payload_len) as u16;
    let protocol = spec.transport.protocol(v6);

    let pseudo = match spec.addresses {
        IpAddresses::V4 { src, dst } => {
            let total = ip_header as u16 + transport_len;
            let [t0, t1] = total.to_be_bytes();
            let [i0, i1] = spec.id.to_be_bytes();
            let fragment = if spec.dont_fragment { 0x40 } else { 0 };
            let (s, d) = (src.to_be_bytes(), dst.to_be_bytes());
            let tos = spec.dscp << 2;
            let mut h = [
                0x45, tos, t0, t1, i0, i1, fragment, 0, spec.ttl, protocol, 0, 0, s[0], s[1], s[2],
                s[3], d[0], d[1], d[2], d[3],
            ];
            let c = checksum::internet(&h).to_be_bytes();
            h[10..12].copy_from_slice(&c);
            buf.extend_from_slice(&h);
            checksum::pseudo_v4(s, d, protocol, transport_len)
        }
        IpAddresses::V6 { src, dst } => {
            let (s, d) = (src.to_be_bytes(), dst.to_be_bytes());
            let first = 6u32 << 28 | u32::from(spec.dscp) << 22;
            buf.extend_from_slice(&first.to_be_bytes());
            buf.extend_from_slice(&transport_len.to_be_bytes());
            buf.extend_from_slice(&[protocol, spec.ttl]);
            buf.extend_from_slice(&s);
            buf.extend_from_slice(&d);
            checksum::pseudo_v6(&s, &d, protocol, u32::from(transport_len))
        }
    };

    let at = buf.len();
    // Where in the transport header its checksum is, and whether the pseudo-header belongs to it.
    let (checksum_at, with_pseudo) = match spec.transport {
        Transport::Tcp {
            sport,
            dport,
            seq,
            ack,
            flags,
        } => {
            buf.extend_from_slice(&sport.to_be_bytes());
            buf.extend_from_slice(&dport.to_be_bytes());
            buf.extend_from_slice(&seq.to_be_bytes());
            buf.extend_from_slice(&ack.to_be_bytes());
            let words = (transport_header as u8 / 4) << 4;
            buf.extend_from_slice(&[words, flags, 0xff, 0xff, 0, 0, 0, 0]);
            if flags & tcp_flag::SYN != 0 {
                // Maximum segment size: 1460, or 1440 over IPv6.
                buf.extend_from_slice(&[2, 4, 5, if v6 { 0xa0 } else { 0xb4 }]);
            }
            (Some(16), true)
        }
        Transport::Udp { sport, dport } => {
            buf.extend_from_slice(&sport.to_be_bytes());
            buf.extend_from_slice(&dport.to_be_bytes());
            buf.extend_from_slice(&transport_len.to_be_bytes());
            buf.extend_from_slice(&[0, 0]);
            (Some(6), true)
        }
        Transport::Icmp { kind, code, rest } => {
            buf.extend_from_slice(&[kind, code, 0, 0]);
            buf.extend_from_slice(&rest);
            (Some(2), v6)
        }
        Transport::Other(_) => (None, false),
    };
    let body = buf.len();
    buf.extend_from_slice(payload);
    let end = buf.len();

    let mut body_sum = payload_sum;
    if let Some(needle) = needle
        && let Some(spare) = payload_len.checked_sub(needle.len())
    {
        let place = body + (choice.rotate_left(32) % (spare as u64 + 1)) as usize;
        if let Some(hole) = buf.get_mut(place..place + needle.len()) {
            hole.copy_from_slice(needle);
        }
        body_sum = checksum::sum(buf.get(body..).unwrap_or_default(), 0);
    }
    if let Some(offset) = checksum_at {
        let acc = if with_pseudo { pseudo } else { 0 };
        let header = buf.get(at..body).unwrap_or_default();
        let mut c = !checksum::fold(checksum::sum(header, acc) + body_sum);
        if c == 0 && protocol == UDP {
            // Zero means "no checksum".
            c = 0xffff;
        }
        if let Some(field) = buf.get_mut(at + offset..at + offset + 2) {
            field.copy_from_slice(&c.to_be_bytes());
        }
    }
    if buf.len() < MIN_FRAME as usize {
        buf.resize(MIN_FRAME as usize, 0);
    }
    Layout {
        ip,
        transport: at,
        payload: body,
        end,
    }
}
