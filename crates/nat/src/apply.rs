//! Writing a binding into a packet: addresses, ports, checksums, sequence numbers.
//!
//! Checksums are only ever updated (RFC 1624), so a wrong one stays wrong; a UDP checksum of zero stays zero.

use crate::flow_id::{FlowId, checksum_shift, checksum_step};
use crate::kind::RewriterKind;
use crate::record::{Record, TCP_DATA, TCP_DONE};
use crate::sequence_shifts::SequenceShifts;
use onefold_packet::Packet;
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::wire::tcp::flag;

/// DCCP's protocol number.
pub const DCCP: u8 = 33;

/// Bytes of a TCP header that a rewriter needs: up to the checksum.
pub const TCP_NEEDED: usize = 18;
/// Bytes of a UDP header, and of an ICMP echo message.
pub const UDP_NEEDED: usize = 8;

/// The bit of flags and fragment offset that says so.
const MORE_FRAGMENTS: u16 = 0x2000;

/// What a rewriter needs to know of an arriving packet.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// IP protocol.
    pub proto: u8,
    /// Not a fragment, or the first one.
    pub first: bool,
    /// More fragments of the packet follow.
    pub more: bool,
    /// The packet's identification, which its fragments have in common.
    pub id: u16,
    /// Bytes from the transport header to the end of the packet.
    pub transport_len: usize,
    /// Source address.
    pub saddr: u32,
    /// Destination address.
    pub daddr: u32,
    /// The first eight bytes of the transport header; zero where there are fewer.
    pub head: [u8; 8],
}

impl Arrival {
    /// `None` when there is no IP header (none marked, or less than 20 bytes of it).
    #[inline]
    pub fn of(p: &Packet) -> Option<Arrival> {
        let ip = ipv4::Header::parse(p.network()?)?;
        let t = p.transport().unwrap_or(&[]);
        let mut head = [0; 8];
        match t.first_chunk::<8>() {
            Some(h) => head = *h,
            None => head[..t.len()].copy_from_slice(t),
        }
        Some(Arrival {
            proto: ip.protocol(),
            first: ip.is_first_fragment(),
            more: ip.frag_word() & MORE_FRAGMENTS != 0,
            id: ip.id(),
            transport_len: t.len(),
            saddr: u32::from_be_bytes(ip.src()),
            daddr: u32::from_be_bytes(ip.dst()),
            head,
        })
    }

    /// Addresses and ports.
    #[inline]
    pub fn flow(&self) -> FlowId {
        let h = &self.head;
        FlowId {
            saddr: self.saddr,
            daddr: self.daddr,
            sport: u16::from_be_bytes([h[0], h[1]]),
            dport: u16::from_be_bytes([h[2], h[3]]),
        }
    }
}

/// Which annotations a rewriter sets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Annos {
    /// The destination address annotation.
    pub dst: bool,
    /// The one-byte annotation at this offset: replies get the value that the flow's first packet had.
    pub reply: Option<u8>,
}

#[inline]
fn get16(b: &[u8], at: usize) -> u16 {
    match b.get(at..).and_then(|s| s.first_chunk::<2>()) {
        Some(c) => u16::from_be_bytes(*c),
        None => 0,
    }
}

#[inline]
fn put16(b: &mut [u8], at: usize, v: u16) {
    if let Some(c) = b.get_mut(at..).and_then(|s| s.first_chunk_mut::<2>()) {
        *c = v.to_be_bytes();
    }
}

#[inline]
fn get32(b: &[u8], at: usize) -> u32 {
    match b.get(at..).and_then(|s| s.first_chunk::<4>()) {
        Some(c) => u32::from_be_bytes(*c),
        None => 0,
    }
}

/// Replaces 32 bits and updates a checksum that covers them.
fn replace32(b: &mut [u8], at: usize, v: u32, checksum: usize) {
    let old = get32(b, at);
    let mut sum = get16(b, checksum);
    sum = checksum_step(sum, (old >> 16) as u16, (v >> 16) as u16);
    sum = checksum_step(sum, old as u16, v as u16);
    put16(b, checksum, sum);
    put16(b, at, (v >> 16) as u16);
    put16(b, at + 2, v as u16);
}

#[inline]
fn shift_at(b: &mut [u8], at: usize, delta: u16, reply: bool) {
    let sum = get16(b, at);
    put16(b, at, checksum_shift(sum, delta, reply));
}

/// Addresses (source, destination; `None` leaves one alone), IP checksum, annotations.
#[inline]
pub fn addresses(p: &mut Packet, r: &Record, reply: bool, annos: Annos, src: bool, dst: bool) {
    let to = r.rewritten(reply);
    let Some(ip) = p.network_mut() else { return };
    if let Some(b) = ip.get_mut(..20) {
        if src {
            b[12..16].copy_from_slice(&to.saddr.to_be_bytes());
        }
        if dst {
            b[16..20].copy_from_slice(&to.daddr.to_be_bytes());
        }
        shift_at(b, 10, r.ip_delta, reply);
    }
    if annos.dst && dst {
        p.anno.set_dst_ip(to.daddr.to_be_bytes());
    }
    if reply && let Some(offset) = annos.reply {
        p.anno.set_u8(usize::from(offset), r.reply_anno);
    }
}

#[inline]
fn ports(t: &mut [u8], to: FlowId) {
    put16(t, 0, to.sport);
    put16(t, 2, to.dport);
}

/// TCP: everything but sequence numbers. Returns the connection's flags after this packet. A header of less than 18
/// bytes keeps its ports, as in Click.
#[inline]
pub fn tcp(p: &mut Packet, r: &Record, reply: bool, annos: Annos, acks: u8) -> u8 {
    addresses(p, r, reply, annos, true, true);
    let Some(t) = p.transport_mut().filter(|t| t.len() >= 18) else {
        return r.flags;
    };
    ports(t, r.rewritten(reply));
    shift_at(t, 16, r.port_delta, reply);
    let (words, control) = (usize::from(t[12] >> 4), t[13]);
    // read only now, as in Click: where the header lies about its length, the ports may be in it
    let payload = p
        .network()
        .and_then(ipv4::Header::parse)
        .is_some_and(|ip| ip.header_len() + words * 4 < usize::from(ip.total_len()));
    tcp_flags(r.flags, reply, control, payload, acks)
}

/// A connection's flags after a segment with these control bits, with or without payload. `acks`: bits that count as
/// data; see [`Member::acks`](crate::Member::acks).
#[inline]
pub fn tcp_flags(mut flags: u8, reply: bool, control: u8, payload: bool, acks: u8) -> u8 {
    let side = u8::from(reply);
    if control & flag::RST != 0 {
        flags |= TCP_DONE | TCP_DONE << 1;
    } else if control & flag::FIN != 0 {
        flags |= TCP_DONE << side;
    } else if control & flag::SYN != 0 || payload {
        flags &= !(TCP_DONE << side);
    }
    if payload || control & acks != 0 {
        flags |= TCP_DATA << side;
    }
    flags
}

/// Has this side of a connection sent data (or what counts as such)?
#[inline]
pub fn tcp_has_data(flags: u8, reply: bool) -> bool {
    flags & TCP_DATA << u8::from(reply) != 0
}

/// TCP sequence and acknowledgment numbers, and those in SACK options.
pub fn sequence_numbers(p: &mut Packet, shifts: &mut SequenceShifts, reply: bool) {
    let Some(t) = p.transport_mut().filter(|t| t.len() >= 18) else {
        return;
    };
    let header = usize::from(t[12] >> 4) * 4;
    if t.len() < header {
        return;
    }
    shifts.seen(reply, get32(t, 4));
    if shifts.active(reply) {
        let v = shifts.sequence(reply, get32(t, 4));
        replace32(t, 4, v, 16);
    }
    if shifts.active(!reply) {
        let v = shifts.acknowledgment(reply, get32(t, 8));
        replace32(t, 8, v, 16);
        // a header whose only option is the usual time stamp has no SACK
        if header > 32 || header == 32 && get32(t, 20) != 0x0101_080a {
            sack(&mut t[..header], shifts, reply);
        }
    }
}

/// `t` is the TCP header with its options.
fn sack(t: &mut [u8], shifts: &SequenceShifts, reply: bool) {
    let mut changed = 0u32;
    let mut at = 20;
    // Bound: every round goes at least one byte on.
    while at < t.len() {
        let (kind, len) = (t[at], usize::from(t.get(at + 1).copied().unwrap_or(0)));
        match kind {
            0 => break,
            1 => at += 1,
            5 => {
                let end = at + len;
                if end > t.len() || len % 8 != 2 {
                    break;
                }
                // whole words, counted from the start of the options
                let words = 20 + ((at + 2 - 20) & !1)..end;
                for w in words.clone().step_by(2) {
                    changed += u32::from(!get16(t, w));
                }
                for edge in (at + 2..end).step_by(4) {
                    let v = shifts.acknowledgment(reply, get32(t, edge));
                    put16(t, edge, (v >> 16) as u16);
                    put16(t, edge + 2, v as u16);
                }
                for w in words.step_by(2) {
                    changed += u32::from(get16(t, w));
                }
                at = end;
            }
            _ if len < 2 => break,
            _ => at += len,
        }
    }
    if changed != 0 {
        let sum = u32::from(!get16(t, 16)) + changed;
        let sum = (sum & 0xffff) + (sum >> 16);
        put16(t, 16, !((sum + (sum >> 16)) as u16));
    }
}

/// UDPRewriter's and IPRewriter's UDP flows (UDPRewriter takes TCP and DCCP as well). Returns the flow's flags.
#[inline]
pub fn udp(p: &mut Packet, r: &Record, reply: bool, annos: Annos, protocol: u8) -> u8 {
    addresses(p, r, reply, annos, true, true);
    if let Some(t) = p.transport_mut() {
        ports(t, r.rewritten(reply));
    }
    let header = p.network_header_offset().zip(p.transport_header_offset());
    let protocol = match header {
        // the header ends before its protocol field: Click reads the protocol where the ports are now
        Some((n, t)) if t - n < 10 => p.network().and_then(|n| n.get(9).copied()),
        _ => Some(protocol),
    };
    if let (Some(t), Some(protocol)) = (p.transport_mut(), protocol) {
        transport_checksum(t, r, reply, protocol);
    }
    udp_flags(r.flags, reply)
}

/// A flow's flags after a datagram.
#[inline]
pub fn udp_flags(flags: u8, reply: bool) -> u8 {
    let flags = flags | u8::from(reply);
    if flags < 6 { flags + 2 } else { flags }
}

#[inline]
fn transport_checksum(t: &mut [u8], r: &Record, reply: bool, protocol: u8) {
    match protocol {
        proto::TCP if t.len() >= 18 => shift_at(t, 16, r.port_delta, reply),
        proto::UDP if t.len() >= 8 && get16(t, 6) != 0 => shift_at(t, 6, r.port_delta, reply),
        _ => {}
    }
}

/// Addresses only: both, or for IPAddrRewriter the source forward and the destination of replies.
#[inline]
pub fn addresses_only(
    p: &mut Packet,
    r: &Record,
    reply: bool,
    annos: Annos,
    a: &Arrival,
    pair: bool,
) {
    addresses(p, r, reply, annos, pair || !reply, pair || reply);
    if a.first
        && let Some(t) = p.transport_mut()
    {
        transport_checksum(t, r, reply, a.proto);
    }
}

/// ICMP echo: addresses and identifier.
pub fn ping(p: &mut Packet, r: &Record, reply: bool, annos: Annos) {
    addresses(p, r, reply, annos, true, true);
    // the identifier is the source port of the forward flow, and so the destination port of its reverse
    let to = r.rewritten(reply);
    let id = if reply { to.dport } else { to.sport };
    if let Some(t) = p.transport_mut() {
        put16(t, 4, id);
        shift_at(t, 2, r.port_delta, reply);
        avoid_zero_checksum(t);
    }
}

/// The ICMP checksum of nothing but zeros is all ones, where incremental updates may have come to zero.
fn avoid_zero_checksum(t: &mut [u8]) {
    if get16(t, 2) == 0 && t.iter().all(|b| *b == 0) {
        put16(t, 2, 0xffff);
    }
}

/// Types of ICMP messages that are about a packet.
pub const ERRORS: &[u8] = &[3, 4, 5, 11, 12];

/// The part of an ICMP error that says which packet it is about.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// IP protocol of the embedded packet.
    pub proto: u8,
    /// The embedded packet's flow, reversed: what a reply to it would look like. For a ping the identifier is the
    /// source port.
    pub reply: FlowId,
    /// It is an echo reply: what would be a reply to it is the request.
    pub answer: bool,
    /// Ports (or the identifier) are there and were used.
    ports: bool,
    /// Offset of the embedded transport header from the ICMP header.
    transport: usize,
}

impl Embedded {
    /// From an ICMP error's bytes, the ICMP header first. `None` when it is no error, or its packet cannot be read.
    /// `answers`: echo replies are known by their identifier, too.
    pub fn parse(t: &[u8], answers: bool) -> Option<Embedded> {
        if !ERRORS.contains(t.first()?) {
            return None;
        }
        let ip = ipv4::Header::parse(t.get(8..)?)?;
        if ip.version() != 4 || ip.header_len() < 20 {
            return None;
        }
        let transport = 8 + ip.header_len();
        let mut reply =
            FlowId::addresses(u32::from_be_bytes(ip.dst()), u32::from_be_bytes(ip.src()));
        let (proto, first) = (ip.protocol(), ip.is_first_fragment());
        let (mut ports, mut answer) = (false, false);
        if matches!(proto, proto::TCP | proto::UDP | DCCP) && first && transport + 8 <= t.len() {
            reply.sport = get16(t, transport + 2);
            reply.dport = get16(t, transport);
            ports = true;
        } else if proto == proto::ICMP
            && first
            && transport + 6 <= t.len()
            && let Some(kind) = t.get(transport)
            && (*kind == 8 || answers && *kind == 0)
        {
            reply.sport = get16(t, transport + 4);
            ports = true;
            answer = *kind == 0;
        }
        Some(Embedded {
            proto,
            reply,
            answer,
            ports,
            transport,
        })
    }

    /// What a rewriter of addresses makes of it: ports stay, and the address that it does not know.
    pub fn of_addresses(mut self, kind: RewriterKind, mut to: FlowId) -> (Embedded, FlowId) {
        if kind == RewriterKind::Addr {
            let known = |a: u32, other: u32| if a == 0 { other } else { a };
            to.saddr = known(to.saddr, self.reply.saddr);
            to.daddr = known(to.daddr, self.reply.daddr);
        }
        (to.sport, to.dport) = (self.reply.sport, self.reply.dport);
        self.ports &= self.proto != proto::ICMP;
        (self, to)
    }

    /// Makes the embedded packet one of flow `to` reversed, with all its checksums and the ICMP checksum.
    pub fn rewrite(&self, t: &mut [u8], to: FlowId) {
        // the words that change, in the order in which they are folded into the ICMP checksum
        let mut words: [(u16, u16); 8] = [(0, 0); 8];
        let old_sum = get16(t, 18);
        let mut sum = old_sum;
        let mut n = 1;
        for (at, v) in [(20, to.daddr), (24, to.saddr)] {
            for (at, v) in [(at, (v >> 16) as u16), (at + 2, v as u16)] {
                words[n] = (get16(t, at), v);
                sum = checksum_step(sum, words[n].0, words[n].1);
                put16(t, at, v);
                n += 1;
            }
        }
        put16(t, 18, sum);
        words[0] = (old_sum, sum);
        let at = self.transport;
        if self.ports && self.proto == proto::ICMP {
            let id = if self.answer { to.sport } else { to.dport };
            words[n] = (get16(t, at + 4), id);
            put16(t, at + 4, id);
            let old = get16(t, at + 2);
            put16(t, at + 2, checksum_step(old, words[n].0, words[n].1));
            if let Some(inner) = t.get_mut(at..) {
                avoid_zero_checksum(inner);
            }
            words[n + 1] = (old, get16(t, at + 2));
            n += 2;
        } else if self.ports {
            for (at, v) in [(at, to.dport), (at + 2, to.sport)] {
                words[n] = (get16(t, at), v);
                put16(t, at, v);
                n += 1;
            }
            let checksum = match self.proto {
                proto::TCP if at + 18 <= t.len() => Some(at + 16),
                proto::UDP if get16(t, at + 6) != 0 => Some(at + 6),
                _ => None,
            };
            if let Some(c) = checksum {
                let old = get16(t, c);
                let changed = words.get(1..n).unwrap_or(&[]);
                let new = changed.iter().fold(old, |s, w| checksum_step(s, w.0, w.1));
                // zero says that a datagram has none (RFC 768)
                let new = if new == 0 && self.proto == proto::UDP {
                    0xffff
                } else {
                    new
                };
                put16(t, c, new);
                words[n] = (old, new);
                n += 1;
            }
        }
        let outer = words.iter().take(n);
        let sum = outer.fold(get16(t, 2), |s, w| checksum_step(s, w.0, w.1));
        put16(t, 2, sum);
    }
}

/// Sets the source of an ICMP error's own IP header, with its checksum.
pub fn set_source(p: &mut Packet, saddr: u32) {
    if let Some(ip) = p.network_mut().and_then(|n| n.get_mut(..20)) {
        replace32(ip, 12, saddr, 10);
    }
}

/// Sets the destination of an ICMP error's own IP header, with its checksum.
pub fn set_destination(p: &mut Packet, daddr: u32) {
    if let Some(ip) = p.network_mut().and_then(|n| n.get_mut(..20)) {
        replace32(ip, 16, daddr, 10);
    }
}
