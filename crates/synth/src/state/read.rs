//! What a packet on its way holds: bits, annotations, answers of header checks.

use super::{Got, Need, State, end_of};
use crate::program::{Address, Dim, EndAt, Expr, Mark, SumKind, SumWrite, TypeExpr};
use onefold_element::model::{AT_ZERO, AnnoKey, Base, HeaderCheck, Read, Value, max_of};

impl State {
    /// What these bits hold now.
    pub fn bits_now(&self, bit: i32, bits: u8) -> Result<Expr, Need> {
        let end = end_of(bit, bits);
        if self
            .sums
            .iter()
            .any(|s| s.at * 8 < end && bit < s.at * 8 + 16)
        {
            return Err(Need::Write);
        }
        let mut over = self.overlapping(bit, bits);
        let Some(first) = over.next() else {
            return Ok(Expr::Of(Dim::Bits { bit, bits }, 0));
        };
        if first.bit == bit && first.bits == bits {
            return Ok(first.value);
        }
        // constants that cover everything between them
        let mut value = 0u128;
        let mut next = bit;
        for w in std::iter::once(first).chain(over) {
            let Expr::Const(v) = w.value else {
                return Err(Need::Write);
            };
            if w.bit > next {
                return Err(Need::Write);
            }
            let (from, to) = (w.bit.max(bit), end_of(w.bit, w.bits).min(end));
            let n = (to - from) as u32;
            let below = (end_of(w.bit, w.bits) - to) as u32;
            let part = (v >> below) & max_of(n.min(128) as u8);
            value = value.checked_shl(n).unwrap_or(0) | part;
            next = to;
        }
        if next < end {
            return Err(Need::Write);
        }
        Ok(Expr::Const(value))
    }

    /// What a reading comes to here.
    pub fn read(&self, r: Read) -> Result<Got, Need> {
        let length = |from: i32| match self.end {
            EndAt::Same => Ok(Got::Less(Dim::Len, i64::from(from))),
            EndAt::Ip4(at) => Ok(Got::Less(
                Dim::Bits {
                    bit: (at + 2) * 8,
                    bits: 16,
                },
                i64::from(from - at),
            )),
            EndAt::Ip6(at) => Ok(Got::Less(
                Dim::Bits {
                    bit: (at + 4) * 8,
                    bits: 16,
                },
                i64::from(from - at - 40),
            )),
        };
        let flag = |m: Mark| match m {
            Mark::None => Ok(Got::Expr(Expr::Const(0))),
            Mark::At(..) | Mark::Alone(_) => Ok(Got::Expr(Expr::Const(1))),
            Mark::Same => Err(Need::Punt("header marks are not known")),
        };
        #[allow(unreachable_patterns)]
        match r {
            Read::Field(f) => Ok(Got::Expr(self.bits_now(self.place(f)?, f.bits)?)),
            Read::Anno(k) => self.read_anno(k).map(Got::Expr),
            Read::PacketType => Ok(match self.packet_type {
                TypeExpr::Is(t) => Got::Expr(Expr::Const(u128::from(t))),
                TypeExpr::Same => Got::Expr(Expr::Of(Dim::PacketType, 0)),
                TypeExpr::Destination(e, d) => Got::Type(e, d),
            }),
            Read::Len => length(self.start),
            Read::NetLen => length(self.net_at()?),
            Read::TransportLen if matches!(self.net, Mark::Alone(_)) => {
                Ok(Got::Expr(Expr::Const(0)))
            }
            Read::TransportLen => length(self.transport_at()?),
            Read::HasNet => flag(self.net),
            Read::HasMac => flag(self.mac),
            Read::At(base) => {
                let (mark, behind) = match base {
                    Base::Data => (Mark::At(self.start, 0), false),
                    Base::Mac => (self.mac, false),
                    Base::Net => (self.net, false),
                    Base::Transport => (self.net, true),
                };
                match mark {
                    Mark::None => Ok(Got::Expr(Expr::Const(0))),
                    Mark::Alone(_) if behind => Ok(Got::Expr(Expr::Const(0))),
                    Mark::At(at, _) | Mark::Alone(at) => {
                        let len = match mark {
                            Mark::At(_, len) if behind => i32::from(len),
                            _ => 0,
                        };
                        let at = at - self.start + len;
                        let at = (AT_ZERO as i32 + at).clamp(1, u16::MAX.into());
                        Ok(Got::Expr(Expr::Const(at as u128)))
                    }
                    Mark::Same => Err(Need::Punt("header marks are not known")),
                }
            }
            Read::Check {
                check,
                base,
                offset,
            } => {
                let at = self.base(base)? + i32::from(offset);
                self.read_check(check, at).map(Got::Expr)
            }
            Read::Route { table, anno, what } => {
                let bits = anno.size.saturating_mul(8);
                let of = match self.read_anno(anno)? {
                    Expr::Const(value) => Address::Is { value, bits },
                    Expr::Of(Dim::Bits { bit, bits: n }, 0) if n == bits => {
                        Address::Bits { bit, bits }
                    }
                    Expr::Of(Dim::Anno(k), 0) if k.size == anno.size => Address::Anno(k),
                    // a binding's address, or another table's: written out, it is an annotation
                    Expr::Of(..) => return Err(Need::Write),
                };
                Ok(Got::Expr(Expr::Of(Dim::Route { table, of, what }, 0)))
            }
            _ => Err(Need::Punt("a reading that the synthesizer does not know")),
        }
    }

    fn read_anno(&self, k: AnnoKey) -> Result<Expr, Need> {
        let end = |k: AnnoKey| k.offset + k.size;
        let mut over = self
            .annos
            .iter()
            .filter(|(o, _)| o.offset < end(k) && k.offset < end(*o));
        match over.next() {
            Some((o, v)) if *o == k => return Ok(*v),
            Some(_) => {}
            None if self.annos_zero => return Ok(Expr::Const(0)),
            None => return Ok(Expr::Of(Dim::Anno(k), 0)),
        }
        // byte by byte, where everything is constant
        let mut value = 0u128;
        for i in k.offset..end(k) {
            let byte = match self
                .annos
                .iter()
                .find(|(o, _)| o.offset <= i && i < end(*o))
            {
                Some((o, Expr::Const(v))) => (v >> (8 * u32::from(end(*o) - 1 - i))) & 255,
                None if self.annos_zero => 0,
                _ => return Err(Need::Write),
            };
            value = value << 8 | byte;
        }
        Ok(Expr::Const(value))
    }

    fn read_check(&self, check: HeaderCheck, at: i32) -> Result<Expr, Need> {
        use HeaderCheck::*;
        // these questions are about what follows an IPv4 header without options
        if matches!(check, TcpChecksum | UdpChecksum | IcmpChecksum | UdpFits)
            && matches!(self.net, Mark::At(n, len) if n == at && len != 20)
        {
            return Err(Need::Punt(
                "a transport header behind another network header",
            ));
        }
        let dim = |end| Ok(Expr::Of(Dim::Check { check, at, end }, 0));
        let sum = |kind: &[SumKind]| {
            self.sums
                .iter()
                .find(|s| s.header == at && kind.contains(&s.kind))
        };
        match check {
            HeaderCheck::Ip4Fits | HeaderCheck::Ip6Fits => {
                let (bit, bits) = match check {
                    HeaderCheck::Ip4Fits => ((at + 2) * 8, 16),
                    _ => ((at + 4) * 8, 16),
                };
                if self.touched(bit, bits) {
                    return Err(Need::Write);
                }
                match (check, self.end) {
                    (HeaderCheck::Ip4Fits, EndAt::Ip4(n)) if n == at => Ok(Expr::Const(1)),
                    (HeaderCheck::Ip6Fits, EndAt::Ip6(n)) if n == at => Ok(Expr::Const(1)),
                    (_, end) => dim(end),
                }
            }
            HeaderCheck::Ip4Checksum => {
                if !self.is_followed(at) {
                    return Err(Need::Write);
                }
                match sum(&[SumKind::Ip4]) {
                    Some(s) if s.anew => Ok(Expr::Const(1)),
                    // incremental updates keep a right checksum right and a wrong one wrong; where the packet ends is
                    // nothing to a header's checksum
                    _ => dim(EndAt::Same),
                }
            }
            HeaderCheck::TcpChecksum | HeaderCheck::UdpChecksum | HeaderCheck::IcmpChecksum => {
                let kinds = [SumKind::Tcp, SumKind::Udp, SumKind::Icmp];
                let loose = self.is_loose(at + 12, i32::MAX);
                if self.transport_dirty || loose || self.touched((at + 2) * 8, 16) {
                    return Err(Need::Write);
                }
                match sum(&kinds) {
                    // zeros need care: written out first
                    Some(_) => Err(Need::Write),
                    None => dim(self.end),
                }
            }
            HeaderCheck::UdpFits => {
                if self.touched((at + 2) * 8, 16) || self.touched((at + 24) * 8, 16) {
                    return Err(Need::Write);
                }
                dim(self.end)
            }
        }
    }

    /// Has the checksum of the IPv4 header that starts at this byte followed all that was written there?
    pub fn is_followed(&self, at: i32) -> bool {
        let kept = |s: &SumWrite| s.header == at && s.kind == SumKind::Ip4;
        let dirty = self.ip_dirty || self.overwritten(at + 10) || self.is_loose(at, at + 20);
        !dirty && (self.sums.iter().any(kept) || !self.touched(at * 8, 160))
    }

    /// Was any of these bytes written while no header was marked there?
    fn is_loose(&self, from: i32, to: i32) -> bool {
        self.loose.iter().any(|(a, b)| *a < to && from < *b)
    }

    /// Was the checksum field itself written?
    pub fn overwritten(&self, byte: i32) -> bool {
        self.overlapping(byte * 8, 16).next().is_some()
    }

    pub(super) fn value(&self, v: Value, bits: u8) -> Result<Expr, Need> {
        let of = |r: Read| match self.read(r)? {
            Got::Expr(e) => Ok((e, r.width())),
            _ => Err(Need::Punt("a length is copied into a field")),
        };
        match v {
            Value::Const(c) => Ok(Expr::Const(c & max_of(bits))),
            Value::Of(r) => of(r).map(|(e, _)| e),
            Value::Plus(r, n) => match of(r)? {
                (Expr::Const(c), w) => Ok(Expr::Const(c.wrapping_add(n) & max_of(w))),
                (Expr::Of(d @ Dim::Bits { bits, .. }, m), _) => {
                    Ok(Expr::Of(d, m.wrapping_add(n) & max_of(bits)))
                }
                // other dimensions know no width of their own that the sum would wrap at
                _ => Err(Need::Write),
            },
        }
    }
}
