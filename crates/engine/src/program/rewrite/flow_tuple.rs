//! What a rewriter wants to know of a packet, read where it stands.
//!
//! An image says how a packet looks at some place of the chain. All that a rewriter looks at there is a protocol, two lengths, addresses, ports and
//! a few bits, and of these earlier functions have written, if anything, addresses and ports as a whole. Then no image needs to be made.

use crate::program::rewrite::value::{FieldWrite, Sum, Value};
use onefold_element::model::BindPacket;
use onefold_nat::{FlowId, FlowPacket, HEADER_BYTES};
use onefold_packet::Packet;
use onefold_synth::program::{EndAt, Mark};

/// Bytes of the IP header, and of what is behind it, that are looked at.
pub(crate) const WINDOW: usize = HEADER_BYTES as usize;
/// Bytes of a packet's first ones that are read without being asked for.
const NEAR: usize = 64;
/// Bits of addresses and ports: first, how many.
const FIELDS: [(i64, i64); 4] = [(96, 32), (128, 32), (160, 16), (176, 16)];
/// Bytes that somebody looks at: total length, protocol, addresses, the first eight behind the header, TCP's length and flags.
const LOOKED_AT: [(i64, i64); 4] = [(2, 4), (9, 10), (12, 28), (32, 34)];
/// Where the checksum of UDP stands: among them, and told by whoever has the image.
const UDP_SUM: i64 = 26;

/// The fields of an image that a rewriter of flows looks at.
#[derive(Debug, Clone)]
pub(crate) struct Tuple {
    /// The IP header, from the packet's first byte.
    net: u16,
    /// Addresses and ports that have been written.
    written: [Option<Value>; 4],
}

fn overlap(a: (i64, i64), b: (i64, i64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

impl Tuple {
    /// `None` where it takes the image.
    pub fn of(net: Mark, writes: &[FieldWrite], sums: &[Sum]) -> Option<Tuple> {
        let Mark::At(at, 20) = net else { return None };
        let net = u16::try_from(at).ok()?;
        let mut written = [None; 4];
        for w in writes {
            let from = i64::from(w.bit) - i64::from(net) * 8;
            let bits = (from, from + i64::from(w.bits));
            let is = |f: &(i64, i64)| *f == (from, i64::from(w.bits));
            if let Some(i) = FIELDS.iter().position(is) {
                *written.get_mut(i)? = Some(w.value);
            } else if LOOKED_AT.iter().any(|b| overlap(bits, (b.0 * 8, b.1 * 8))) {
                return None;
            }
        }
        for s in sums {
            let from = i64::from(s.at) - i64::from(net);
            let here = |b: &(i64, i64)| overlap((from, from + 2), *b);
            if from != UDP_SUM && LOOKED_AT.iter().any(here) {
                return None;
            }
        }
        Some(Tuple { net, written })
    }

    /// Has nothing been written to it? Then it can be read before anything has been done.
    pub fn as_it_came(&self) -> bool {
        self.written.iter().all(Option::is_none)
    }

    /// Does a packet end where this header says?
    pub fn says(&self, end: EndAt) -> bool {
        end == EndAt::Ip4(self.net.into())
    }
    /// Where the transport header begins.
    pub fn transport(&self) -> u32 {
        u32::from(self.net) + 20
    }

    #[inline(always)]
    fn window<'p>(&self, p: &'p Packet) -> Option<&'p [u8; WINDOW]> {
        let at = p.data_offset() + usize::from(self.net);
        p.buffer().get(at..)?.first_chunk()
    }

    /// The packet as a rewriter of flows wants it, put where it is wanted: what is written in parts and then copied as a whole is waited
    /// for. `None` if that takes the image. `end`: where the packet ends. Annotations are left to [`Image::bind_packet`](crate::program::rewrite::image::Image::bind_packet).
    #[inline(always)]
    pub fn packet(&self, end: i64, p: &Packet, regs: &[u128], to: &mut BindPacket) -> Option<()> {
        let h = self.window(p)?;
        let transport_len = usize::try_from(end - i64::from(self.net) - 20).ok()?;
        if transport_len < 14 {
            return None;
        }
        // as one word: bytes that are put together and then loaded at once are waited for
        let mut head = u64::from_be_bytes([h[20], h[21], h[22], h[23], h[24], h[25], h[26], h[27]]);
        let [saddr, daddr, sport, dport] = &self.written;
        let value = |v: &Option<Value>| v.as_ref().map(|v| v.get(regs));
        if let Some(v) = value(sport) {
            head = head << 16 >> 16 | u64::from(v as u16) << 48;
        }
        if let Some(v) = value(dport) {
            head = head & !(0xffff << 32) | u64::from(v as u16) << 32;
        }
        let address = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        to.proto = h[9];
        to.saddr = value(saddr).map_or_else(|| address(12), |v| v as u32);
        to.daddr = value(daddr).map_or_else(|| address(16), |v| v as u32);
        to.head = head.to_be_bytes();
        to.tcp = [h[32], h[33]];
        to.transport_len = transport_len;
        to.total_len = u16::from_be_bytes([h[2], h[3]]);
        Some(())
    }

    /// As [`Tuple::packet`], what a binder looks at, as it came; `end` is where the packet ends, unless its header [says](Tuple::says) so.
    #[inline(always)]
    pub fn as_came(&self, p: &Packet, end: Option<usize>) -> Option<FlowPacket> {
        let net = usize::from(self.net);
        // most often all of it is in what can be read of any packet, and it is enough to know that the packet is so long
        let h: &[u8; WINDOW] = match p.window::<NEAR>() {
            Some(w) if net <= NEAR - WINDOW => w.get(net..)?.first_chunk()?,
            _ => self.window(p)?,
        };
        let total_len = u16::from_be_bytes([h[2], h[3]]);
        let end = match end {
            Some(end) => end,
            // as `end_of`
            None => (net + usize::from(total_len)).min(p.len()),
        };
        // a packet that has these bytes has all that is looked at
        if end < net + WINDOW {
            return None;
        }
        let (proto, flow) = Self::flow_in(h);
        Some(FlowPacket {
            proto,
            flow,
            tcp: [h[32], h[33]],
            transport_len: (end - net - 20) as u32,
            total_len,
        })
    }

    /// Protocol, addresses and ports as they came.
    #[inline(always)]
    pub fn flow(&self, p: &Packet) -> Option<(u8, FlowId)> {
        Some(Self::flow_in(self.window(p)?))
    }

    #[inline(always)]
    fn flow_in(h: &[u8; WINDOW]) -> (u8, FlowId) {
        let flow = FlowId {
            saddr: u32::from_be_bytes([h[12], h[13], h[14], h[15]]),
            daddr: u32::from_be_bytes([h[16], h[17], h[18], h[19]]),
            sport: u16::from_be_bytes([h[20], h[21]]),
            dport: u16::from_be_bytes([h[22], h[23]]),
        };
        (h[9], flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::rewrite::value::CONST;
    use onefold_synth::program::SumKind;

    fn write(bit: i32, bits: u8) -> FieldWrite {
        let value = Value {
            reg: CONST,
            add: 0x0102_0304,
            mask: u128::MAX,
        };
        FieldWrite { bit, bits, value }
    }
    fn sum(at: i32) -> Sum {
        Sum {
            kind: SumKind::Udp,
            header: 14,
            at,
            anew: false,
            groups: Box::new([]),
        }
    }

    #[test]
    fn whole_addresses_and_ports_may_have_been_written_nothing_else_that_is_looked_at() {
        let of = |writes: &[FieldWrite], sums: &[Sum]| Tuple::of(Mark::At(14, 20), writes, sums);
        // time to live, MAC addresses, checksums
        let t = of(
            &[write(22 * 8, 8), write(0, 48), write(26 * 8, 32)],
            &[sum(24), sum(40), sum(50)],
        );
        let t = t.unwrap();
        assert!(!t.as_it_came() && t.written[0].is_some() && t.written[1].is_none());
        assert!(of(&[], &[sum(24)]).unwrap().as_it_came());
        for w in [
            write(16 * 8, 16),
            write(26 * 8, 16),
            write(26 * 8 + 4, 32),
            write(46 * 8, 8),
        ] {
            assert!(of(&[w], &[]).is_none(), "{w:?}");
        }
        assert!(of(&[], &[sum(36)]).is_none(), "ICMP");
        assert!(Tuple::of(Mark::Same, &[], &[]).is_none());
        assert!(Tuple::of(Mark::At(14, 24), &[], &[]).is_none());
    }
}
