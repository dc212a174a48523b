//! What a summary says about a packet: its headers as far as they are sound, and the values of fields.

use super::field::Field;
use onefold_packet::{Packet, Timestamp, anno_field};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A time.
    Time(Timestamp),
    /// An address, options or payload.
    Bytes(&'a [u8]),
}

/// The first thing found wrong with a packet, for `!bad` lines.
#[derive(Debug, Default)]
pub struct Bad {
    /// Are such lines wanted?
    pub wanted: bool,
    /// The line's text behind `!bad `.
    pub text: Option<String>,
}

impl Bad {
    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.wanted && self.text.is_none() {
            self.text = Some(text());
        }
    }
}

/// What a missing field belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Ethernet,
    Ip,
    Protocol(u8),
    TcpOrUdp,
}

/// A packet seen by a summary.
pub struct View<'a> {
    p: &'a Packet,
    /// The IP header, if there is a sound one: everything from there to the end of the IP packet.
    ip: Option<&'a [u8]>,
    /// Bytes from the transport header to the end of the IP packet; negative if it ends before.
    transport_len: isize,
    transport: Option<&'a [u8]>,
    tcp: bool,
    udp: bool,
    icmp: bool,
    /// Bytes behind the IP packet.
    tail: usize,
    extra: u32,
    /// Lengths include the extra length annotation.
    extra_counts: bool,
}

fn half(b: &[u8], at: usize) -> Option<u16> {
    let h = b.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*h))
}

fn word(b: &[u8], at: usize) -> Option<u32> {
    let h = b.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*h))
}

fn first_fragment(ip: &[u8]) -> bool {
    half(ip, 6).is_none_or(|f| f & 0x1fff == 0)
}

fn header_len(ip: &[u8]) -> usize {
    ip.first().map_or(0, |b| usize::from(b & 15) * 4)
}

const EXTRA: usize = anno_field::EXTRA_LENGTH.offset as usize;

/// What [`prepare`] found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared {
    ip: bool,
    tcp: bool,
    tail: usize,
}

/// Checks the headers of a packet and brings its extra length annotation in line with the IP length.
pub fn prepare(p: &mut Packet, careful: bool, bad: &mut Bad) -> Prepared {
    let mut out = Prepared::default();
    let extra = p.anno.u32(EXTRA);
    let Some(ip) = p.network() else {
        return out;
    };
    let len = ip.len();
    let (Some(first), Some(ip_len)) = (ip.first().copied(), half(ip, 2)) else {
        bad.say(|| "truncated IP header".to_string());
        return out;
    };
    let (hl, ip_len) = (header_len(ip), usize::from(ip_len));
    if first >> 4 != 4 {
        bad.say(|| format!("IP version {}", first >> 4));
        return out;
    }
    if hl < 20 {
        bad.say(|| format!("IP header length {}", first & 15));
        return out;
    }
    if ip_len < hl {
        bad.say(|| format!("IP length {ip_len}"));
        return out;
    }
    out.ip = true;
    let mut extra_now = extra;
    if len > ip_len {
        out.tail = len - ip_len;
        extra_now = extra.wrapping_add(out.tail as u32);
    } else if careful && len as u64 + u64::from(extra) < ip_len as u64 {
        bad.say(|| {
            format!(
                "truncated IP missing {}",
                ip_len as u64 - len as u64 - u64::from(extra)
            )
        });
    }
    let kept = len - out.tail;
    let tcp = kept > hl && ip.get(9) == Some(&TCP) && first_fragment(ip);
    if let Some(t) = p
        .transport()
        .filter(|_| tcp && p.transport_header_offset().is_some())
    {
        out.tcp = true;
        let t_len = t.len().saturating_sub(out.tail);
        let offset = t.get(12).map_or(0, |b| b >> 4);
        if t_len > 12 && offset < 5 {
            bad.say(|| format!("TCP header length {offset}"));
            out.tcp = false;
        }
    }
    if extra_now > 0 {
        // lengths are counted by the IP header from here on
        let full = kept as u64 + u64::from(extra_now);
        let left = match ip_len {
            0xffff => full.saturating_sub(0xffff),
            _ => 0,
        };
        p.anno
            .set_u32(EXTRA, u32::try_from(left).unwrap_or(u32::MAX));
    }
    out
}

impl<'a> View<'a> {
    /// Over a packet whose headers have been prepared, or are of no interest.
    pub fn new(p: &'a Packet, prepared: Prepared, extra_counts: bool) -> Self {
        let cut = |b: &'a [u8]| b.get(..b.len().saturating_sub(prepared.tail)).unwrap_or(b);
        let ip = p.network().filter(|_| prepared.ip).map(cut);
        let transport = p.transport().map(cut);
        let end = p.len() as isize - prepared.tail as isize;
        let transport_len = p.transport_header_offset().map_or(0, |o| end - o);
        let is = |proto: u8| {
            transport.is_some()
                && ip.is_some_and(|ip| {
                    ip.len() > header_len(ip) && ip.get(9) == Some(&proto) && first_fragment(ip)
                })
        };
        View {
            p,
            ip,
            transport_len,
            transport,
            tcp: prepared.tcp,
            udp: is(UDP),
            icmp: is(ICMP),
            tail: prepared.tail,
            extra: p.anno.u32(EXTRA),
            extra_counts,
        }
    }

    /// Says why a field is missing; a packet of another protocol is no bad packet.
    fn missing<T>(&self, part: Part, len: isize, bad: &mut Bad) -> Option<T> {
        let name = match part {
            Part::Ethernet => {
                bad.say(|| "Ethernet header".to_string());
                return None;
            }
            Part::Ip | Part::Protocol(_) | Part::TcpOrUdp => match part {
                Part::Protocol(TCP) => "TCP",
                Part::Protocol(UDP) => "UDP",
                Part::Protocol(ICMP) => "ICMP",
                Part::TcpOrUdp => "TCP/UDP",
                _ => "?",
            },
        };
        let Some(ip) = self.ip else {
            bad.say(|| "no IP header".to_string());
            return None;
        };
        if part == Part::Ip {
            bad.say(|| "truncated IP header capture".to_string());
            return None;
        }
        if let Some(&p) = ip.get(9) {
            let other = match part {
                Part::Protocol(q) => p != q,
                _ => p != TCP && p != UDP,
            };
            if other {
                return None;
            }
        }
        let captured = self.transport_len as i64 + i64::from(self.extra);
        bad.say(|| {
            if !first_fragment(ip) {
                format!("fragmented {name} header")
            } else if captured >= len as i64 {
                format!("truncated {name} header capture")
            } else {
                format!("truncated {name} header")
            }
        });
        None
    }

    /// The IP header with at least `len` bytes.
    fn ip(&self, len: usize, bad: &mut Bad) -> Option<&'a [u8]> {
        match self.ip.filter(|h| h.len() >= len) {
            Some(h) => Some(h),
            None => self.missing(Part::Ip, 0, bad),
        }
    }

    /// The transport header of a protocol with at least `len` bytes.
    fn transport(&self, proto: u8, len: usize, bad: &mut Bad) -> Option<&'a [u8]> {
        let is = match proto {
            TCP => self.tcp,
            UDP => self.udp,
            _ => self.icmp,
        };
        match self.transport.filter(|h| is && h.len() >= len) {
            Some(h) => Some(h),
            None => self.missing(Part::Protocol(proto), len as isize, bad),
        }
    }

    fn len(&self) -> u32 {
        self.p.len().saturating_sub(self.tail) as u32
    }

    /// The ICMP type that a code belongs to.
    pub fn icmp_type(&self) -> u8 {
        self.transport.and_then(|t| t.first()).copied().unwrap_or(0)
    }

    /// The value of a field, if the packet has one.
    pub fn value(&self, field: Field, bad: &mut Bad) -> Option<Value<'a>> {
        use Field as F;
        let anno = &self.p.anno;
        let number = match field {
            F::Timestamp | F::NanoTimestamp => return Some(Value::Time(anno.timestamp)),
            F::FirstTimestamp | F::FirstNanoTimestamp => {
                return Some(Value::Time(first_timestamp(self.p)));
            }
            F::Sec => u64::from(anno.timestamp.sec() as u32),
            F::Usec => u64::from(anno.timestamp.subsec_nanos() / 1000),
            F::Usec1 => anno.timestamp.0.div_euclid(1000) as u64,
            F::Count => 1 + u64::from(anno.u32(usize::from(anno_field::EXTRA_PACKETS.offset))),
            F::Link | F::Direction => u64::from(anno.paint()),
            F::Aggregate => u64::from(anno.u32(usize::from(anno_field::AGGREGATE.offset))),
            F::WireLen => self.p.len() as u64,
            F::EthSrc => return self.ethernet(bad)?.get(6..12).map(Value::Bytes),
            F::EthDst => return self.ethernet(bad)?.get(..6).map(Value::Bytes),
            F::EthType => u64::from(half(self.ethernet(bad)?, 12)?),
            F::IpSrc => return self.ip(16, bad)?.get(12..16).map(Value::Bytes),
            F::IpDst => return self.ip(20, bad)?.get(16..20).map(Value::Bytes),
            F::IpTos => u64::from(*self.ip(2, bad)?.get(1)?),
            F::IpDscp => u64::from(self.ip(2, bad)?.get(1)? >> 2),
            F::IpEcn => u64::from(self.ip(2, bad)?.get(1)? & 3),
            F::IpTtl => u64::from(*self.ip(9, bad)?.get(8)?),
            F::IpFrag => {
                let f = half(self.ip(8, bad)?, 6)?;
                u64::from(match (f & 0x3fff != 0, f & 0x1fff == 0) {
                    (true, true) => b'F',
                    (true, false) => b'f',
                    (false, _) if f & 0x4000 != 0 => b'!',
                    _ => b'.',
                })
            }
            F::IpFragOff => u64::from(half(self.ip(8, bad)?, 6)?),
            F::IpId => u64::from(half(self.ip(6, bad)?, 4)?),
            F::IpSum => u64::from(half(self.ip(12, bad)?, 10)?),
            F::IpProto => u64::from(*self.ip(10, bad)?.get(9)?),
            F::IpHl => header_len(self.ip(1, bad)?) as u64,
            F::IpLen => {
                let len = self
                    .ip
                    .and_then(|h| half(h, 2))
                    .map_or(self.len(), u32::from);
                let extra = if self.extra_counts { self.extra } else { 0 };
                u64::from(len.wrapping_add(extra))
            }
            F::IpCaptureLen => match self.ip {
                Some(h) => (h.len() as u64).min(u64::from(half(h, 2)?)),
                None => u64::from(self.len()),
            },
            F::IpOpt => {
                let h = self.ip(1, bad)?;
                let hl = header_len(h);
                return match h.get(20..hl.max(20)) {
                    Some(o) => Some(Value::Bytes(o)),
                    None if hl <= 20 => Some(Value::Bytes(&[])),
                    None => self.missing(Part::Ip, 0, bad),
                };
            }
            F::Sport | F::Dport => u64::from(self.port(field == F::Dport, bad)?),
            F::TcpSeq => u64::from(word(self.transport(TCP, 8, bad)?, 4)?),
            F::TcpAck => u64::from(word(self.transport(TCP, 12, bad)?, 8)?),
            F::TcpOff => u64::from(self.transport(TCP, 13, bad)?.get(12)? >> 4) * 4,
            F::TcpFlags => u64::from(half(self.transport(TCP, 14, bad)?, 12)? & 0xfff),
            F::TcpWindow => u64::from(half(self.transport(TCP, 16, bad)?, 14)?),
            F::TcpUrp => u64::from(half(self.transport(TCP, 20, bad)?, 18)?),
            F::TcpOpt | F::TcpNtOpt | F::TcpSack => {
                return self.tcp_options(field == F::TcpOpt, bad).map(Value::Bytes);
            }
            F::UdpLen => u64::from(half(self.transport(UDP, 6, bad)?, 4)?),
            F::IcmpType | F::IcmpTypeName => u64::from(*self.transport(ICMP, 1, bad)?.first()?),
            F::IcmpCode | F::IcmpCodeName => u64::from(*self.transport(ICMP, 2, bad)?.get(1)?),
            F::IcmpFlowId | F::IcmpSeq => {
                let kind = *self.transport(ICMP, 1, bad)?.first()?;
                if !icmp_has_flow(kind) {
                    return None;
                }
                let (at, len) = if field == F::IcmpSeq { (6, 8) } else { (4, 6) };
                u64::from(half(self.transport(ICMP, len, bad)?, at)?)
            }
            F::IcmpNextMtu => {
                if !self.transport(ICMP, 2, bad)?.starts_with(&[3, 4]) {
                    return None;
                }
                u64::from(half(self.transport(ICMP, 8, bad)?, 6)?)
            }
            F::PayloadLen => {
                let (_, len) = self.payload();
                let counts = self.ip.is_none() || self.extra_counts;
                u64::from(len.wrapping_add(if counts { self.extra } else { 0 }))
            }
            F::Payload | F::PayloadMd5 | F::PayloadMd5Hex => {
                let (at, len) = self.payload();
                let all = usize::try_from(self.len()).unwrap_or(0);
                let at = usize::try_from(at)
                    .ok()
                    .filter(|at| len == 0 || *at < self.p.len())?;
                let end = at.saturating_add(len as usize).min(all);
                return Some(Value::Bytes(self.p.data().get(at..end).unwrap_or_default()));
            }
            F::Ignored => return None,
        };
        Some(Value::Number(number))
    }

    /// The Ethernet header, if the network header stands right behind it.
    fn ethernet(&self, bad: &mut Bad) -> Option<&'a [u8]> {
        let network = self.p.network_header_offset();
        let mac = match (self.p.mac_header_offset(), network) {
            (Some(m), _) => Some((m, self.p.mac())),
            (None, Some(n)) if n <= 0 => None,
            (None, _) => Some((0, Some(self.p.data()))),
        };
        let network = network.unwrap_or(self.p.len() as isize);
        match mac {
            Some((m, Some(bytes))) if m + 14 == network && bytes.len() >= 14 => Some(bytes),
            _ => self.missing(Part::Ethernet, 0, bad),
        }
    }

    fn port(&self, dst: bool, bad: &mut Bad) -> Option<u16> {
        let at = if dst { 2 } else { 0 };
        let found = self.ip.and_then(|ip| {
            let has_ports = ip.get(9).is_some_and(|p| has_ports(*p));
            if ip.len() <= header_len(ip) || !first_fragment(ip) || !has_ports {
                return None;
            }
            half(self.transport?, at)
        });
        match found {
            Some(v) => Some(v),
            None => self.missing(Part::TcpOrUdp, at as isize + 2, bad),
        }
    }

    /// TCP options; none for those of interest if there is nothing but a time stamp in its usual place.
    fn tcp_options(&self, all: bool, bad: &mut Bad) -> Option<&'a [u8]> {
        let missing =
            |bad: &mut Bad| self.missing(Part::Protocol(TCP), self.transport_len + 1, bad);
        let Some(h) = self.transport.filter(|h| self.tcp && h.len() >= 13) else {
            return missing(bad);
        };
        let off = usize::from(h[12] >> 4) * 4;
        let usual = !all && off == 32 && h.get(20..24) == Some(&[1, 1, 8, 10]);
        if off <= 20 || usual {
            return Some(&[]);
        }
        match h.get(20..off) {
            Some(o) => Some(o),
            None => missing(bad),
        }
    }

    /// Where the payload starts in the data, and how long it is by the IP header.
    fn payload(&self) -> (i64, u32) {
        let Some(ip) = self.ip else {
            return (0, self.len());
        };
        let network = self.p.network_header_offset().unwrap_or(0) as i64;
        let mut at = self.p.transport_header_offset().unwrap_or(0) as i64;
        if first_fragment(ip) {
            let off = self
                .transport
                .and_then(|t| t.get(12))
                .map(|b| i64::from(b >> 4) * 4);
            at += match ip.get(9) {
                Some(&TCP) => off.filter(|o| *o >= 20).unwrap_or(20),
                Some(&UDP | &136) => 8,
                _ => 0,
            };
        }
        let ip_len = i64::from(half(ip, 2).unwrap_or(0));
        // a length that lies wraps around, as a 32-bit number does
        (at, (ip_len - (at - network)) as u32)
    }
}

/// The time stamp of the first of the packets that a packet stands for.
pub fn first_timestamp(p: &Packet) -> Timestamp {
    let at = usize::from(anno_field::FIRST_TIMESTAMP.offset);
    let bytes = p.anno.bytes().get(at..).and_then(|b| b.first_chunk::<8>());
    Timestamp(bytes.map_or(0, |b| i64::from_ne_bytes(*b)))
}

/// Sets [`first_timestamp`].
pub fn set_first_timestamp(bytes: &mut [u8; 48], t: Timestamp) {
    let at = usize::from(anno_field::FIRST_TIMESTAMP.offset);
    if let Some(b) = bytes.get_mut(at..at + 8) {
        b.copy_from_slice(&t.0.to_ne_bytes());
    }
}

/// Protocols whose header starts with two ports: TCP, UDP, DCCP, UDP-Lite.
pub fn has_ports(proto: u8) -> bool {
    matches!(proto, TCP | UDP | 33 | 136)
}

/// ICMP types with identifier and sequence number: echo, time stamp, information.
pub fn icmp_has_flow(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13 | 14 | 15 | 16)
}
