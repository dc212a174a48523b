//! Images applied: all that is different about a packet, written once.

use crate::program::headers::registers::{end_of, write_bits};
use crate::program::rewrite::compiled::Quick;
use crate::program::rewrite::flow_tuple::Tuple;
use crate::program::rewrite::value::{CONST, FieldWrite, Sum, Value};
use onefold_element::model::BindPacket;
use onefold_packet::{Packet, PacketType, checksum};
use onefold_synth::program::{EndAt, LenAt, Mark, SumKind, TypeExpr};

/// The packet type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Same,
    Is(PacketType),
    Destination(Value, Option<[u8; 6]>),
}

/// An annotation that is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnoWrite {
    pub offset: u8,
    pub size: u8,
    pub value: Value,
}

/// An annotation byte that a binding has set; no program says so in advance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateAnno {
    pub at: u8,
    pub value: u8,
    /// Annotations had been cleared when it was set.
    pub cleared: bool,
}

/// [`onefold_synth::program::Image`], prepared.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub start: i32,
    pub end: EndAt,
    pub writes: Box<[FieldWrite]>,
    pub sums: Box<[Sum]>,
    pub net: Mark,
    pub mac: Mark,
    pub cleared: bool,
    pub annos: Box<[AnnoWrite]>,
    pub kind: Kind,
    /// How rewriters of flows see it, if that is simple.
    pub tuple: Option<Tuple>,
    /// Writes and sums, where they are quickly done.
    pub quick: Option<Quick>,
}

/// The packet type with this number.
pub(crate) fn packet_type(n: u8) -> Option<PacketType> {
    use PacketType::*;
    let all = [
        Host, Broadcast, Multicast, OtherHost, Outgoing, Loopback, FastRoute,
    ];
    all.into_iter().find(|t| *t as u8 == n)
}

/// Bytes between two places of the packet as it was when the epoch began.
#[inline]
pub(crate) fn length(len: LenAt, p: &Packet) -> u64 {
    let end = end_of(len.end, p.buffer(), p.data_offset());
    u64::try_from(end - i64::from(len.start)).unwrap_or(0)
}

impl Image {
    /// Makes the packet what the image says. Registers hold what its values read.
    pub fn apply(&self, p: &mut Packet, regs: &[u128], late: &[LateAnno]) {
        let len = p.len() as i64;
        if self.end != EndAt::Same {
            let end = end_of(self.end, p.buffer(), p.data_offset());
            p.take((len - end) as usize);
        }
        // the place in the buffer of the byte that was the first one; whether the packet begins where it is to begin
        let n = self.start.unsigned_abs() as usize;
        let before = p.len();
        let (base, begins) = if self.start >= 0 {
            let base = p.data_offset();
            p.pull(n);
            (base, n <= before)
        } else {
            p.push(n);
            let pushed = p.len() - before;
            (p.data_offset() + pushed, pushed == n)
        };
        if let Some(q) = &self.quick
            && begins
            && q.least <= p.len()
            && let Some(w) = p.window_mut()
        {
            q.write(w, regs);
            return self.mark(p, regs, late);
        }
        let base = base as isize;
        self.write(p.buffer_mut(), base, regs);
        for s in &self.sums {
            s.apply(p.buffer_mut(), base, regs);
        }
        self.mark(p, regs, late);
    }

    /// Is anything changed that is not in the packet's bytes?
    pub fn marks(&self) -> bool {
        let same = self.mac == Mark::Same && self.net == Mark::Same && !self.cleared;
        !(same && self.annos.is_empty() && matches!(self.kind, Kind::Same))
    }

    /// Where MAC, network and transport header are put, in bytes from where the packet began, if that is all that [`Image::mark`] does, and the packet begins there.
    pub fn sets_headers_alone(&self) -> Option<[u16; 3]> {
        let plain = self.annos.is_empty() && matches!(self.kind, Kind::Same);
        if self.cleared || !plain || self.start != 0 {
            return None;
        }
        let (Mark::At(mac, _) | Mark::Alone(mac)) = self.mac else {
            return None;
        };
        let Mark::At(net, len) = self.net else {
            return None;
        };
        let place = |at: i64| u16::try_from(at).ok();
        let (mac, net) = (i64::from(mac), i64::from(net));
        Some([place(mac)?, place(net)?, place(net + i64::from(len))?])
    }

    /// Does none of that follow from what registers hold?
    pub fn reads_nothing_for_marks(&self) -> bool {
        let kind = match self.kind {
            Kind::Destination(v, _) => v.reg == CONST,
            _ => true,
        };
        kind && self.annos.iter().all(|a| a.value.reg == CONST)
    }

    /// All that is not in the packet's bytes.
    #[inline(always)]
    pub fn mark(&self, p: &mut Packet, regs: &[u128], late: &[LateAnno]) {
        match self.mac {
            Mark::Same => {}
            Mark::None => p.clear_mac_header(),
            Mark::At(at, _) | Mark::Alone(at) => {
                p.set_mac_header(at as isize - self.start as isize);
            }
        }
        match self.net {
            Mark::Same => {}
            Mark::None => p.clear_network_header(),
            Mark::At(at, len) => {
                p.set_network_header(at as isize - self.start as isize, usize::from(len));
            }
            Mark::Alone(at) => {
                p.clear_network_header();
                p.move_network_header(at as isize - self.start as isize);
            }
        }
        if self.cleared || !self.annos.is_empty() || !late.is_empty() {
            self.annotate(p, regs, late);
        }
        match self.kind {
            Kind::Same => {}
            Kind::Is(t) => p.anno.packet_type = t,
            Kind::Destination(v, device) => {
                let b = v.get(regs).to_be_bytes();
                let dst = [b[10], b[11], b[12], b[13], b[14], b[15]];
                p.anno.packet_type = TypeExpr::of_address(dst, device);
            }
        }
    }

    /// Writes all fields into a buffer in which the packet's first byte stands (or would stand) at `base`.
    #[inline]
    fn write(&self, buf: &mut [u8], base: isize, regs: &[u128]) {
        for w in &self.writes {
            write_bits(buf, base, w.bit, w.bits, w.value.get(regs));
        }
    }

    fn annotate(&self, p: &mut Packet, regs: &[u128], late: &[LateAnno]) {
        if self.cleared {
            p.anno.clear_bytes();
        }
        for a in &self.annos {
            set_anno(p.anno.bytes_mut(), a, regs);
        }
        for l in late {
            let since = self.cleared && !l.cleared;
            let covers =
                |a: &AnnoWrite| (a.offset..a.offset.saturating_add(a.size)).contains(&l.at);
            if !since && !self.annos.iter().any(covers) {
                p.anno.set_u8(usize::from(l.at), l.value);
            }
        }
    }

    /// The annotation area as the image has it.
    #[inline(always)]
    pub fn annotations(&self, p: &Packet, regs: &[u128], bytes: &mut [u8; 48]) {
        *bytes = match self.cleared {
            true => [0; 48],
            false => *p.anno.bytes(),
        };
        for a in &self.annos {
            set_anno(bytes, a, regs);
        }
    }

    /// The packet as a rewriter of flows wants it, if nothing else of it needs the image.
    #[inline(always)]
    pub fn bind_packet(&self, p: &Packet, regs: &[u128], to: &mut BindPacket) -> Option<()> {
        let tuple = self.tuple.as_ref()?;
        tuple.packet(self.end(p), p, regs, to)?;
        // what has been written in front has changed the checksum of UDP, which stands in the head
        let base = isize::try_from(tuple.transport()).ok()?;
        for s in self.sums.iter().filter(|s| s.kind == SumKind::Udp) {
            if s.anew {
                return None;
            }
            s.apply(&mut to.head, -base, regs);
        }
        self.annotations(p, regs, &mut to.anno);
        Some(())
    }

    /// Fills `out` with the bytes from position `from` on, as the image has them; zeros where there is no packet.
    pub fn window(&self, p: &Packet, regs: &[u128], from: i64, out: &mut [u8]) {
        if self.sums.iter().any(|s| s.anew) {
            // rare, and only a packet as a whole tells
            let mut q = p.clone();
            self.apply(&mut q, regs, &[]);
            let base = q.data_offset() as i64 - i64::from(self.start);
            copy_from(q.buffer(), base + from, out);
            return;
        }
        copy_from(p.buffer(), p.data_offset() as i64 + from, out);
        let base = isize::try_from(-from).unwrap_or(isize::MIN / 2);
        self.write(out, base, regs);
        for s in &self.sums {
            s.apply(out, base, regs);
        }
    }

    /// Where the packet ends in the image.
    pub fn end(&self, p: &Packet) -> i64 {
        end_of(self.end, p.buffer(), p.data_offset())
    }
}

fn copy_from(buf: &[u8], at: i64, out: &mut [u8]) {
    for (i, o) in out.iter_mut().enumerate() {
        let from = usize::try_from(at + i as i64).ok();
        *o = from.and_then(|i| buf.get(i)).copied().unwrap_or(0);
    }
}

#[inline]
fn set_anno(bytes: &mut [u8; 48], a: &AnnoWrite, regs: &[u128]) {
    let (from, n) = (usize::from(a.offset), usize::from(a.size));
    // the usual ones without a call
    if let (1, Some(to)) = (n, bytes.get_mut(from)) {
        *to = a.value.get(regs) as u8;
        return;
    }
    if n == 4
        && let Some(to) = bytes.get_mut(from..).and_then(|b| b.first_chunk_mut())
    {
        *to = (a.value.get(regs) as u32).to_be_bytes();
        return;
    }
    if let (Some(to), Some(rest)) = (bytes.get_mut(from..from + n), 16usize.checked_sub(n)) {
        to.copy_from_slice(&a.value.get(regs).to_be_bytes()[rest..]);
    }
}

/// Two bytes at a position, if they are there.
fn word_at(buf: &mut [u8], base: isize, at: i32) -> Option<&mut [u8; 2]> {
    let i = usize::try_from(base + at as isize).ok()?;
    buf.get_mut(i..)?.first_chunk_mut()
}

impl Sum {
    fn apply(&self, buf: &mut [u8], base: isize, regs: &[u128]) {
        if self.anew {
            // what is not there cannot be summed: left alone
            let _ = self.compute(buf, base);
            return;
        }
        let Some(field) = word_at(buf, base, self.at) else {
            return;
        };
        let mut c = u16::from_be_bytes(*field);
        for g in &self.groups {
            if self.kind == SumKind::Udp && c == 0 {
                break;
            }
            let terms: u64 = g.iter().map(|t| t.sum(regs)).sum();
            c = !checksum::fold(u64::from(!c) + terms);
        }
        *field = c.to_be_bytes();
        if self.kind == SumKind::Icmp && c == 0 && !self.groups.is_empty() {
            self.mend_zero(buf, base);
        }
    }

    /// An ICMP message of nothing but zeros has a checksum of all ones. Where an element has left it at zero in between, the
    /// next update gives the same: one's complement zero has two forms, and a sum with anything else loses the difference.
    fn mend_zero(&self, buf: &mut [u8], base: isize) {
        let start = usize::try_from(base + self.at as isize - 2).ok();
        let message = start.and_then(|s| buf.get_mut(s..));
        if let Some(m) = message
            && m.iter().all(|b| *b == 0)
            && let Some(sum) = m.get_mut(2..4)
        {
            sum.fill(0xff);
        }
    }

    /// Computes it over the packet as it is written now.
    fn compute(&self, buf: &mut [u8], base: isize) -> Option<()> {
        let h = usize::try_from(base + self.header as isize).ok()?;
        let at = usize::try_from(base + self.at as isize).ok()?;
        let header = buf.get(h..h + 20)?;
        let header_len = usize::from(header[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let addresses = checksum::sum(&header[12..20], 0);
        let (start, len, pseudo) = match self.kind {
            SumKind::Ip4 => (h, header_len.max(20), None),
            SumKind::Tcp => {
                let t = at.checked_sub(16)?;
                (t, total.checked_sub(t.checked_sub(h)?)?, Some(6))
            }
            SumKind::Udp => {
                let len = buf.get(at.checked_sub(2)?..)?.first_chunk::<2>()?;
                let len = usize::from(u16::from_be_bytes(*len));
                (at.checked_sub(6)?, len, Some(17))
            }
            SumKind::Icmp => {
                let t = at.checked_sub(2)?;
                (t, total.checked_sub(t.checked_sub(h)?)?, None)
            }
        };
        let end = start.checked_add(len)?;
        if at + 2 > end {
            return None;
        }
        let summed = buf.get_mut(start..end)?;
        summed.get_mut(at - start..at - start + 2)?.fill(0);
        let begin = pseudo.map_or(0, |proto: u64| addresses + proto + len as u64);
        let c = !checksum::fold(checksum::sum(summed, begin));
        buf.get_mut(at..at + 2)?.copy_from_slice(&c.to_be_bytes());
        Some(())
    }
}
