//! What a model means: its cases executed on one packet.
//!
//! This is the yardstick that models are held against: tests push a packet into the element and give a copy of it to
//! [`apply`], and compare. It is written for clearness, not for speed; nothing in it trusts the model. A case that
//! reads or writes a field that is not there, a list that no case of matches, bytes pushed and not written: all are a
//! [`ModelError`].

use super::{
    AT_ZERO, Base, Bind, BindKind, BindPacket, Binding, Case, Checksum, Cond, DstAnno, Exit,
    FieldRef, Fix, HeaderCheck, Model, Op, Read, TypeOf, Value, max_of,
};
use crate::DropReason;
use crate::Port;
use onefold_packet::wire::ipv4::proto;
use onefold_packet::wire::{ethernet, ipv4};
use onefold_packet::{Packet, Pkt, Timestamp, checksum};

/// A model that says something about what is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A condition or a value reads it.
    #[error("reads {0:?}, which the packet does not have")]
    Absent(Read),
    /// An operation cannot take place.
    #[error("cannot do {0:?} on this packet")]
    Impossible(Op),
    /// The list of cases is not exhaustive.
    #[error("no case holds")]
    NoCase,
    /// A field of more than 128 bits or of none, or an annotation outside the annotation area.
    #[error("{0:?} is no sensible place")]
    Place(Read),
    /// A case that hands the packet over to the element must not have changed it.
    #[error("a case that asks or punts has operations")]
    OpsBefore,
    /// What a table says is not told by a packet and a model.
    #[error("asks a table: {0:?}")]
    Table(Read),
    /// Copies to no output at all.
    #[error("copies to no output")]
    NoOutputs,
}

type R<T> = Result<T, ModelError>;

/// Who decides after the case's operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nobody: what is predicted is all.
    Done,
    /// A binding: the packet is in [`Predicted::packet`].
    Bind(Box<Bind>),
    /// The element: the packet, untouched, is in [`Predicted::packet`].
    Ask(&'static str),
    /// The reference graph: the packet, untouched, is in [`Predicted::packet`].
    Punt(&'static str),
}

/// What a model says becomes of a packet.
#[derive(Debug)]
pub struct Predicted {
    /// Which case was taken; `None` for an element without model.
    pub case: Option<usize>,
    /// What leaves where, in order.
    pub emitted: Vec<(Port, Pkt)>,
    /// Why packets (the packet, or copies for outputs that are not connected) are dropped.
    pub dropped: Vec<DropReason>,
    /// What leaves the graph.
    pub transmitted: Option<Pkt>,
    /// Tags of [`Op::Count`] and the length that the packet had, in order.
    pub counts: Vec<(u16, usize)>,
    /// Who goes on.
    pub next: Next,
    /// The packet that somebody goes on with.
    pub packet: Option<Pkt>,
}

impl Predicted {
    fn new(case: Option<usize>, next: Next, packet: Option<Pkt>) -> Self {
        Predicted {
            case,
            emitted: Vec::new(),
            dropped: Vec::new(),
            transmitted: None,
            counts: Vec::new(),
            next,
            packet,
        }
    }
    fn emit(&mut self, port: Port, p: Pkt, noutputs: usize, reason: DropReason) {
        if port < noutputs {
            self.emitted.push((port, p));
        } else {
            self.dropped.push(reason);
        }
    }
}

const UNCONNECTED: DropReason = "unconnected output";

/// What becomes of `p` at an input with this model, of an element with so many connected outputs, at time `now`.
pub fn apply(model: &Model, p: Pkt, noutputs: usize, now: Timestamp) -> R<Predicted> {
    match model {
        Model::Cases(cases) => apply_cases(cases, p, noutputs, now),
        Model::None(cause) => Ok(Predicted::new(None, Next::Punt(cause), Some(p))),
    }
}

/// The same for a list of cases.
pub fn apply_cases(cases: &[Case], mut p: Pkt, noutputs: usize, now: Timestamp) -> R<Predicted> {
    let mut chosen = None;
    for (i, c) in cases.iter().enumerate() {
        if holds(&c.when, &p)? {
            chosen = Some((i, c));
            break;
        }
    }
    let (i, case) = chosen.ok_or(ModelError::NoCase)?;
    let counts = run_ops(&case.ops, &mut p, now)?;
    let handed_over = |next: Next, p: Pkt| match case.ops.is_empty() {
        true => Ok(Predicted::new(Some(i), next, Some(p))),
        false => Err(ModelError::OpsBefore),
    };
    let mut out = Predicted::new(Some(i), Next::Done, None);
    out.counts = counts;
    match &case.exit {
        Exit::Port(port) => out.emit(*port, p, noutputs, UNCONNECTED),
        Exit::PortOrDrop(port, reason) => out.emit(*port, p, noutputs, reason),
        Exit::Each(ports) => {
            let (last, before) = ports.split_last().ok_or(ModelError::NoOutputs)?;
            for port in before {
                out.emit(*port, p.clone(), noutputs, UNCONNECTED);
            }
            out.emit(*last, p, noutputs, UNCONNECTED);
        }
        Exit::Drop(reason) => out.dropped.push(reason),
        Exit::Transmit => out.transmitted = Some(p),
        Exit::Bind(b) => {
            out.next = Next::Bind(b.clone());
            out.packet = Some(p);
        }
        Exit::Ask(cause) => return handed_over(Next::Ask(cause), p),
        Exit::Punt(cause) => return handed_over(Next::Punt(cause), p),
    }
    Ok(out)
}

/// The bytes from `base` to the packet's end; `None` if there is no such header.
fn bytes_of(p: &Packet, base: Base) -> Option<&[u8]> {
    match base {
        Base::Data => Some(p.data()),
        // a header that is marked behind the packet's end has no bytes
        Base::Mac => p.mac_header_offset().map(|_| p.mac().unwrap_or(&[])),
        Base::Net => p
            .network_header_offset()
            .map(|_| p.network().unwrap_or(&[])),
        Base::Transport => p
            .transport_header_offset()
            .map(|_| p.transport().unwrap_or(&[])),
    }
}

fn bytes_of_mut(p: &mut Packet, base: Base) -> Option<&mut [u8]> {
    match base {
        Base::Data => Some(p.data_mut()),
        Base::Mac => p.mac_mut(),
        Base::Net => p.network_mut(),
        Base::Transport => p.transport_mut(),
    }
}

/// First and last byte of a field, and how far its last bit is from the last byte's end.
fn place(f: FieldRef) -> Option<(usize, usize, u32)> {
    if f.bits == 0 || f.bits > 128 {
        return None;
    }
    let end = usize::from(f.bit) + usize::from(f.bits);
    let last = end.div_ceil(8);
    Some((usize::from(f.bit) / 8, last, (last * 8 - end) as u32))
}

fn read_field(b: &[u8], f: FieldRef) -> Option<u128> {
    let (first, last, shift) = place(f)?;
    let mut v = 0u128;
    let bytes = b.get(first..last)?;
    // a field of 128 bits that does not begin at a byte reaches over 17: bit by bit then
    if bytes.len() > 16 {
        for i in 0..usize::from(f.bits) {
            let at = usize::from(f.bit) + i;
            v = v << 1 | u128::from(b[at / 8] >> (7 - at % 8) & 1);
        }
        return Some(v);
    }
    for byte in bytes {
        v = v << 8 | u128::from(*byte);
    }
    Some(v >> shift & max_of(f.bits))
}

fn write_field(b: &mut [u8], f: FieldRef, v: u128) -> Option<()> {
    let (first, last, _) = place(f)?;
    b.get(first..last)?;
    for i in 0..usize::from(f.bits) {
        let at = usize::from(f.bit) + i;
        let bit = (v >> (usize::from(f.bits) - 1 - i) & 1) as u8;
        let mask = 1 << (7 - at % 8);
        let byte = &mut b[at / 8];
        *byte = if bit == 1 {
            *byte | mask
        } else {
            *byte & !mask
        };
    }
    Some(())
}

/// Writes a field, where the packet has it.
pub fn write(p: &mut Packet, f: FieldRef, v: u128) -> Option<()> {
    write_field(bytes_of_mut(p, f.base)?, f, v)
}

/// The first case that holds.
pub fn chosen(cases: &[Case], p: &Packet) -> R<usize> {
    for (i, c) in cases.iter().enumerate() {
        if holds(&c.when, p)? {
            return Ok(i);
        }
    }
    Err(ModelError::NoCase)
}

fn anno_range(r: Read) -> R<std::ops::Range<usize>> {
    match r {
        Read::Anno(a) if matches!(a.size, 1 | 2 | 4 | 8 | 16) => {
            let start = usize::from(a.offset);
            let end = start + usize::from(a.size);
            if end > 48 {
                return Err(ModelError::Place(r));
            }
            Ok(start..end)
        }
        _ => Err(ModelError::Place(r)),
    }
}

/// The value that a packet has there.
pub fn read(r: Read, p: &Packet) -> R<u128> {
    let absent = || ModelError::Absent(r);
    Ok(match r {
        Read::Field(f) => {
            if place(f).is_none() {
                return Err(ModelError::Place(r));
            }
            let b = bytes_of(p, f.base).ok_or_else(absent)?;
            read_field(b, f).ok_or_else(absent)?
        }
        Read::Anno(_) => {
            let bytes = p.anno.bytes().get(anno_range(r)?).ok_or_else(absent)?;
            bytes.iter().fold(0, |v, b| v << 8 | u128::from(*b))
        }
        Read::PacketType => p.anno.packet_type as u128,
        Read::Len => p.len() as u128,
        Read::NetLen => bytes_of(p, Base::Net).ok_or_else(absent)?.len() as u128,
        Read::TransportLen => {
            let _net = bytes_of(p, Base::Net).ok_or_else(absent)?;
            bytes_of(p, Base::Transport).unwrap_or(&[]).len() as u128
        }
        Read::At(base) => {
            let at = match base {
                Base::Data => Some(0),
                Base::Mac => p.mac_header_offset(),
                Base::Net => p.network_header_offset(),
                Base::Transport => p.transport_header_offset(),
            };
            let limit = AT_ZERO as isize - 1;
            at.map_or(0, |o| (o.clamp(-limit, limit) + limit + 1) as u128)
        }
        Read::HasNet => u128::from(p.network_header_offset().is_some()),
        Read::HasMac => u128::from(p.mac_header_offset().is_some()),
        Read::Check {
            check,
            base,
            offset,
        } => {
            let b = bytes_of(p, base).and_then(|b| b.get(usize::from(offset)..));
            u128::from(checked(check, b.ok_or_else(absent)?).ok_or_else(absent)?)
        }
        Read::Route { .. } => return Err(ModelError::Table(r)),
    })
}

/// The answer to a question about the header at the start of these bytes; `None` where its header is not there.
fn checked(check: HeaderCheck, b: &[u8]) -> Option<bool> {
    if check == HeaderCheck::Ip6Fits {
        b.get(..40)?;
        let plen = usize::from(u16::from_be_bytes([b[4], b[5]]));
        return Some(plen + 40 <= b.len());
    }
    let h = ipv4::Header::parse(b)?;
    let total = usize::from(h.total_len());
    let segment = || {
        // option-free, and the length is known to fit
        (h.header_len() == 20 && total >= 20).then(|| b.get(20..total))?
    };
    let sums = |s: &[u8], pseudo: u64| checksum::fold(checksum::sum(s, pseudo)) == 0xffff;
    let pseudo = |len: usize| checksum::pseudo_v4(h.src(), h.dst(), h.protocol(), len as u16);
    Some(match check {
        HeaderCheck::Ip4Fits => total <= b.len(),
        HeaderCheck::Ip4Checksum => {
            b.get(..h.header_len().max(20))?;
            h.checksum_ok()
        }
        HeaderCheck::TcpChecksum => {
            let s = segment()?;
            sums(s, pseudo(s.len()))
        }
        HeaderCheck::UdpChecksum => {
            let s = segment()?;
            let len = usize::from(u16::from_be_bytes([*s.get(4)?, *s.get(5)?]));
            let s = s.get(..len)?;
            sums(s, pseudo(len))
        }
        HeaderCheck::IcmpChecksum => checksum::internet(segment()?) == 0,
        HeaderCheck::UdpFits => {
            let u = (h.header_len() == 20).then(|| b.get(20..28))??;
            let len = usize::from(u16::from_be_bytes([u[4], u[5]]));
            len >= 8 && len + 20 <= total
        }
        HeaderCheck::Ip6Fits => return None,
    })
}

/// Does a condition hold?
pub fn holds(c: &Cond, p: &Packet) -> R<bool> {
    Ok(match c {
        Cond::Always => true,
        Cond::Never => false,
        Cond::In(r, set) => set.contains(read(*r, p)?),
        Cond::Masked { field, mask, value } => read(Read::Field(*field), p)? & mask == *value,
        // lazily, from left to right: what stands before guards what stands behind
        Cond::All(list) => {
            for c in list {
                if !holds(c, p)? {
                    return Ok(false);
                }
            }
            true
        }
        Cond::Any(list) => {
            for c in list {
                if holds(c, p)? {
                    return Ok(true);
                }
            }
            false
        }
        Cond::Not(c) => !holds(c, p)?,
    })
}

fn value(v: Value, width: u8, p: &Packet) -> R<u128> {
    Ok(match v {
        Value::Const(n) => n,
        Value::Of(r) => read(r, p)?,
        Value::Plus(r, n) => read(r, p)?.wrapping_add(n),
    } & max_of(width))
}

/// Bytes that were pushed and not written look like this.
const POISON: u8 = 0xa5;

/// Carries operations out, in order; values are those before the first of them.
fn run_ops(ops: &[Op], p: &mut Packet, now: Timestamp) -> R<Vec<(u16, usize)>> {
    let before: Vec<u128> = ops
        .iter()
        .map(|op| match op {
            Op::Write {
                field, value: v, ..
            } => value(*v, field.bits, p),
            Op::SetAnno(a, v) => value(*v, a.size.saturating_mul(8), p),
            _ => Ok(0),
        })
        .collect::<R<_>>()?;
    let mut counts = Vec::new();
    for (op, v) in ops.iter().zip(before) {
        match op {
            Op::Count(tag) => counts.push((*tag, p.len())),
            Op::SetTime(t) => p.anno.timestamp = t.unwrap_or(now),
            op => run_op(*op, v, p)?,
        }
    }
    Ok(counts)
}

fn run_op(op: Op, v: u128, p: &mut Packet) -> R<()> {
    let impossible = || ModelError::Impossible(op);
    match op {
        Op::Write { field, fix, .. } => {
            let b = bytes_of_mut(p, field.base).ok_or_else(impossible)?;
            // the header's 16-bit words that the field touches
            let (first, last, _) = place(field).ok_or_else(impossible)?;
            let span = (first & !1, (last + 1) & !1);
            let old: Vec<u8> = b.get(span.0..span.1.min(b.len())).unwrap_or(&[]).to_vec();
            write_field(b, field, v).ok_or_else(impossible)?;
            let new: Vec<u8> = b.get(span.0..span.1.min(b.len())).unwrap_or(&[]).to_vec();
            if matches!(fix, Fix::Ip4 | Fix::Both) {
                let ip = p.network_mut().filter(|b| b.len() >= 20);
                follow(ip.ok_or_else(impossible)?, 10, &old, &new);
            }
            if matches!(fix, Fix::Transport | Fix::Both)
                && let Some(at) = transport_sum(p)
            {
                follow(p.transport_mut().ok_or_else(impossible)?, at, &old, &new);
            }
        }
        Op::Recompute(c) => recompute(c, p).ok_or_else(impossible)?,
        Op::SetAnno(a, _) => {
            let range = anno_range(Read::Anno(a))?;
            let bytes = v.to_be_bytes();
            let from = bytes.len() - range.len();
            p.anno.bytes_mut()[range].copy_from_slice(&bytes[from..]);
        }
        Op::ClearAnnos => {
            let (timestamp, ingress) = (p.anno.timestamp, p.anno.ingress);
            p.clear_annotations();
            p.anno.timestamp = timestamp;
            p.anno.ingress = ingress;
        }
        Op::SetPacketType(TypeOf::Is(t)) => p.anno.packet_type = t,
        Op::SetPacketType(TypeOf::Destination(own)) => {
            let h = ethernet::Header::parse(p.data()).ok_or_else(impossible)?;
            p.anno.packet_type = h.packet_type(own);
        }
        Op::Pull(n) => {
            if usize::from(n) > p.len() {
                return Err(impossible());
            }
            p.pull(usize::from(n));
        }
        Op::Push(n) => {
            p.push(usize::from(n));
            p.data_mut()
                .get_mut(..usize::from(n))
                .ok_or_else(impossible)?
                .fill(POISON);
        }
        Op::Unpull(n) => p.push(usize::from(n)),
        Op::TrimToIp4 { at } => {
            let b = p.data().get(usize::from(at)..).ok_or_else(impossible)?;
            let total = ipv4::Header::parse(b).ok_or_else(impossible)?.total_len();
            let excess = b.len().checked_sub(usize::from(total));
            p.take(excess.ok_or_else(impossible)?);
        }
        Op::TrimToIp6 { at } => {
            let b = p.data().get(usize::from(at)..).ok_or_else(impossible)?;
            let payload = b.get(4..6).ok_or_else(impossible)?;
            let total = usize::from(u16::from_be_bytes([payload[0], payload[1]])) + 40;
            let excess = b.len().checked_sub(total);
            p.take(excess.ok_or_else(impossible)?);
        }
        Op::SetNet { at, len } => p.set_network_header(isize::from(at), usize::from(len)),
        Op::SetMac { at } => p.set_mac_header(isize::from(at)),
        Op::MoveNet { at } => p.move_network_header(isize::from(at)),
        Op::StartAt(base) => {
            let at = match base {
                Base::Net => p.network_header_offset(),
                Base::Transport => p.transport_header_offset(),
                Base::Data | Base::Mac => None,
            };
            match at.ok_or_else(impossible)? {
                o if o < 0 => p.push(o.unsigned_abs()),
                o if o.unsigned_abs() > p.len() => return Err(impossible()),
                o => p.pull(o.unsigned_abs()),
            }
        }
        Op::ClearNet => p.clear_network_header(),
        Op::ClearMac => p.clear_mac_header(),
        Op::Count(_) | Op::SetTime(_) => {}
    }
    Ok(())
}

/// RFC 1624, equation 3, for each 16-bit word.
fn follow(b: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let word = |b: &[u8]| u16::from_be_bytes([b[0], b.get(1).copied().unwrap_or(0)]);
    for (o, n) in old.chunks(2).zip(new.chunks(2)) {
        if let Some(c) = b.get(at..).and_then(|b| b.first_chunk::<2>()) {
            let sum = checksum::update(u16::from_be_bytes(*c), word(o), word(n));
            b[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Where the transport checksum stands in the transport header; `None` if there is none to keep right.
fn transport_sum(p: &Packet) -> Option<usize> {
    let t = p.transport()?;
    match *p.network()?.get(9)? {
        proto::TCP if t.len() >= 18 => Some(16),
        proto::UDP if t.len() >= 8 && t[6..8] != [0, 0] => Some(6),
        _ => None,
    }
}

fn recompute(c: Checksum, p: &mut Packet) -> Option<()> {
    let (src, dst, total, header_len) = {
        let mut h = p.network_mut().and_then(ipv4::Header::parse)?;
        if c == Checksum::Ip4 {
            let len = h.header_len();
            if len < 20 || len > h.bytes().len() {
                return None;
            }
            h.fill_checksum();
            return Some(());
        }
        (h.src(), h.dst(), usize::from(h.total_len()), h.header_len())
    };
    let (protocol, at) = match c {
        Checksum::Tcp => (proto::TCP, 16),
        _ => (proto::UDP, 6),
    };
    let t = p.transport_mut()?;
    let len = match c {
        Checksum::Tcp => total.checked_sub(header_len)?,
        _ => usize::from(u16::from_be_bytes([*t.get(4)?, *t.get(5)?])),
    };
    let t = t.get_mut(..len)?;
    t.get_mut(at..at + 2)?.fill(0);
    let sum = checksum::sum(t, checksum::pseudo_v4(src, dst, protocol, len as u16));
    t[at..at + 2].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
    Some(())
}

/// The packet as [`crate::Element::bind`] wants it; `None` without a whole IPv4 header or without eight bytes behind
/// it.
pub fn bind_packet(p: &Packet) -> Option<BindPacket> {
    let h = ipv4::Header::parse(p.network()?)?;
    let t = p.transport()?;
    Some(BindPacket {
        proto: h.protocol(),
        saddr: u32::from_be_bytes(h.src()),
        daddr: u32::from_be_bytes(h.dst()),
        head: *t.first_chunk()?,
        tcp: match t.get(12..14) {
            Some(b) => [b[0], b[1]],
            None => [0; 2],
        },
        transport_len: t.len(),
        total_len: h.total_len(),
        anno: *p.anno.bytes(),
    })
}

/// A checksum with a difference added to its one's complement.
fn shifted(b: &mut [u8], at: usize, delta: u16) {
    if let Some(c) = b.get(at..).and_then(|b| b.first_chunk::<2>()) {
        let sum = u64::from(!u16::from_be_bytes(*c)) + u64::from(delta);
        let sum = if delta == 0 {
            *c
        } else {
            (!checksum::fold(sum)).to_be_bytes()
        };
        b[at..at + 2].copy_from_slice(&sum);
    }
}

/// Writes a binding into a packet.
pub fn apply_binding(p: &mut Packet, bind: &Bind, b: &Binding) {
    let Some(ip) = p.network_mut().filter(|b| b.len() >= 20) else {
        return;
    };
    ip[12..16].copy_from_slice(&b.saddr.to_be_bytes());
    ip[16..20].copy_from_slice(&b.daddr.to_be_bytes());
    shifted(ip, 10, b.ip_sum);
    let set = match bind.dst_anno {
        DstAnno::Kept => false,
        DstAnno::Rewritten => true,
        DstAnno::OfReplies => b.reply,
    };
    if set {
        p.anno.set_dst_ip(b.daddr.to_be_bytes());
    }
    if let Some((at, v)) = b.anno {
        p.anno.set_u8(usize::from(at), v);
    }
    let sum = transport_sum(p);
    let Some(t) = p.transport_mut() else { return };
    match bind.kind {
        BindKind::Flow => {
            if let Some(d) = t.get_mut(..4) {
                d[..2].copy_from_slice(&b.sport.to_be_bytes());
                d[2..].copy_from_slice(&b.dport.to_be_bytes());
            }
            if let Some(at) = sum {
                shifted(t, at, b.transport_sum);
            }
        }
        BindKind::Addresses => {
            if let Some(at) = sum {
                shifted(t, at, b.transport_sum);
            }
        }
        BindKind::Ping => {
            if let Some(d) = t.get_mut(4..6) {
                d.copy_from_slice(&b.sport.to_be_bytes());
            }
            shifted(t, 2, b.transport_sum);
            // nothing but zeros: its checksum is all ones, which an update takes for zero
            if t.iter().all(|b| *b == 0) && t.len() >= 4 {
                t[2..4].fill(0xff);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{bits, bytes, field};
    use super::*;
    const NOW: Timestamp = Timestamp::ZERO;
    use crate::model::ValueSet;
    use onefold_packet::PacketType;

    fn ip() -> Pkt {
        let mut d = vec![0u8; 14];
        d.extend([
            0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        d.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        let mut p = Box::new(Packet::from_slice(&d));
        p.set_network_header(14, 20);
        ipv4::Header::parse(p.network_mut().unwrap())
            .unwrap()
            .fill_checksum();
        p
    }
    fn ops(ops: impl IntoIterator<Item = Op>, p: Pkt) -> R<Pkt> {
        let mut out = apply(&Model::pass(ops), p, 1, NOW)?;
        Ok(out.emitted.remove(0).1)
    }
    fn write(field: FieldRef, value: Value, fix: Fix) -> Op {
        Op::Write { field, value, fix }
    }

    #[test]
    fn fields_at_odd_places() {
        let b: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(83)).collect();
        for bit in 0..64u16 {
            for n in [1u8, 3, 8, 13, 32, 127, 128] {
                let f = bits(Base::Data, bit, n);
                let mut naive = 0u128;
                for i in usize::from(bit)..usize::from(bit) + usize::from(n) {
                    naive = naive << 1 | u128::from(b[i / 8] >> (7 - i % 8) & 1);
                }
                assert_eq!(read_field(&b, f), Some(naive), "{bit} {n}");
                let mut c = b.clone();
                write_field(&mut c, f, !naive & max_of(n)).unwrap();
                assert_eq!(read_field(&c, f), Some(!naive & max_of(n)));
                write_field(&mut c, f, naive).unwrap();
                assert_eq!(c, b);
            }
        }
        assert_eq!(read_field(&b, bits(Base::Data, 313, 8)), None);
    }

    #[test]
    fn values_are_read_first_and_checksums_follow() {
        let p = ip();
        let swapped = ops(
            [
                write(
                    field::IP_SRC,
                    Value::Of(Read::Field(field::IP_DST)),
                    Fix::Both,
                ),
                write(
                    field::IP_DST,
                    Value::Of(Read::Field(field::IP_SRC)),
                    Fix::Both,
                ),
                write(
                    field::IP_TTL,
                    Value::Plus(Read::Field(field::IP_TTL), 255),
                    Fix::Ip4,
                ),
                Op::SetAnno(
                    onefold_packet::anno_field::DST_IP.into(),
                    Value::Of(Read::Field(field::IP_DST)),
                ),
            ],
            p,
        )
        .unwrap();
        let h = ipv4::Header::parse(swapped.network().unwrap()).unwrap();
        assert_eq!(
            (h.src(), h.dst(), h.ttl()),
            ([10, 0, 0, 2], [10, 0, 0, 1], 63)
        );
        assert!(h.checksum_ok());
        assert_eq!(swapped.anno.dst_ip(), [10, 0, 0, 2]);
        // UDP without a checksum stays without
        assert_eq!(swapped.transport().unwrap()[6..8], [0, 0]);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let short = || Box::new(Packet::from_slice(&[0; 10]));
        let case = |c| Model::Cases(vec![Case::new(c, Exit::Port(0))]);
        assert_eq!(
            apply(&case(Cond::eq(field::ETH_TYPE, 8)), short(), 1, NOW).unwrap_err(),
            ModelError::Absent(Read::Field(field::ETH_TYPE))
        );
        assert_eq!(
            apply(
                &case(Cond::In(Read::NetLen, ValueSet::full(32))),
                short(),
                1,
                NOW
            )
            .unwrap_err(),
            ModelError::Absent(Read::NetLen)
        );
        assert_eq!(
            apply(&case(Cond::has_net()), short(), 1, NOW).unwrap_err(),
            ModelError::NoCase
        );
        assert!(ops([Op::Pull(11)], short()).is_err());
        assert!(
            ops(
                [write(
                    bytes(Base::Data, 9, 2),
                    Value::Const(0),
                    Fix::Nothing
                )],
                short()
            )
            .is_err()
        );
        assert!(
            ops(
                [write(bytes(Base::Data, 0, 1), Value::Const(0), Fix::Ip4)],
                short()
            )
            .is_err()
        );
        assert!(ops([Op::Recompute(Checksum::Ip4)], short()).is_err());
        let none = Model::Cases(vec![
            Case::new(Cond::Always, Exit::Punt("x")).with([Op::Pull(1)]),
        ]);
        assert_eq!(
            apply(&none, short(), 1, NOW).unwrap_err(),
            ModelError::OpsBefore
        );
    }

    #[test]
    fn guards_protect_what_stands_behind() {
        let m = Model::Cases(vec![
            Case::new(
                Cond::at_least(Read::Len, 14).and(Cond::eq(field::ETH_TYPE, 0)),
                Exit::PortOrDrop(1, "no"),
            ),
            Case::new(Cond::Always, Exit::Each(vec![0, 2, 0])).with([Op::Count(3)]),
        ]);
        let out = apply(&m, Box::new(Packet::from_slice(&[0; 10])), 2, NOW).unwrap();
        assert_eq!(out.case, Some(1));
        assert_eq!((out.emitted.len(), out.dropped.len()), (2, 1));
        assert_eq!(out.counts, [(3, 10)]);
        let out = apply(&m, Box::new(Packet::from_slice(&[0; 14])), 1, NOW).unwrap();
        assert_eq!(out.dropped, ["no"]);
    }

    #[test]
    fn layers_come_and_go() {
        let p = ops(
            [
                Op::TrimToIp4 { at: 14 },
                Op::Pull(14),
                Op::SetNet { at: 0, len: 20 },
                Op::Push(2),
                write(bytes(Base::Data, 0, 1), Value::Const(7), Fix::Nothing),
                Op::SetMac { at: 0 },
                Op::SetPacketType(TypeOf::Is(PacketType::Multicast)),
            ],
            {
                let mut p = ip();
                p.put(9);
                p
            },
        )
        .unwrap();
        assert_eq!((p.len(), p.data()[0], p.data()[1]), (30, 7, POISON));
        assert_eq!(p.network_header_offset(), Some(2));
        let p = ops([Op::ClearNet, Op::ClearMac, Op::Pull(2), Op::Unpull(2)], p).unwrap();
        assert_eq!(
            (p.network_header_offset(), p.mac_header_offset()),
            (None, None)
        );
        assert_eq!(p.data()[0], 7);
        let p = ops([Op::ClearAnnos], p).unwrap();
        assert_eq!(p.anno.packet_type, PacketType::Host);
    }
}
