//! A packet as a program's filters see it: an interpreter of dimensions and images of its own, for the account of what
//! was hit.

use onefold_element::model::{HeaderCheck, max_of};
use onefold_packet::checksum;
use onefold_synth::program::{Dim, EndAt, Expr, Filter, Image, TypeExpr};

/// Most bytes that an image may put in front of a packet.
const MAX_FRONT: i64 = 4096;

/// A packet within an epoch.
#[derive(Debug, Clone)]
pub struct Seen {
    buf: Vec<u8>,
    /// Where the epoch's first byte is in `buf`.
    head: i64,
    /// Where the packet ends in `buf`.
    end: i64,
    anno: [u8; 48],
    packet_type: u8,
    /// Values of bindings, where known.
    pub slots: Vec<Option<u128>>,
}

impl Seen {
    /// A frame at an entry.
    pub fn arrive(frame: &[u8], slots: usize) -> Seen {
        Seen {
            buf: frame.to_vec(),
            head: 0,
            end: frame.len() as i64,
            anno: [0; 48],
            packet_type: 0,
            slots: vec![None; slots],
        }
    }

    fn byte(&self, i: i64) -> u8 {
        let in_packet = i < self.end;
        let b = usize::try_from(i).ok().and_then(|i| self.buf.get(i));
        b.copied().filter(|_| in_packet).unwrap_or(0)
    }

    /// Bits of the packet; zero where there is none.
    pub fn bits(&self, bit: i32, bits: u8) -> u128 {
        let (first, n) = (i64::from(bit), i64::from(bits.min(128)));
        let from = first.div_euclid(8);
        let to = (first + n - 1).div_euclid(8);
        let mut v = 0u128;
        let mut high = 0u128;
        for i in from..=to {
            // up to 17 bytes: what is shifted out comes back below
            high = v >> 120;
            v = (v << 8) | u128::from(self.byte(self.head + i));
        }
        let low = ((to + 1) * 8 - (first + n)) as u32;
        let mut out = v >> low;
        if low > 0 && to - from == 16 {
            out |= high << (128 - low);
        }
        out & max_of(bits)
    }

    /// The value of a dimension; `None` where it is not known.
    pub fn value(&self, d: Dim) -> Option<u128> {
        Some(match d {
            Dim::Len => (self.end - self.head).max(0) as u128,
            Dim::Bits { bit, bits } => self.bits(bit, bits),
            Dim::Check { check, at, end } => u128::from(self.check(check, at, end)),
            Dim::Slot(s) => (*self.slots.get(usize::from(s.0))?)?,
            Dim::Anno(a) => {
                let at = usize::from(a.offset);
                let bytes = self.anno.get(at..at + usize::from(a.size))?;
                bytes.iter().fold(0, |v, b| (v << 8) | u128::from(*b))
            }
            Dim::PacketType => u128::from(self.packet_type),
            Dim::Route { .. } => return None,
        })
    }

    /// The value of an expression.
    pub fn expr(&self, e: Expr) -> Option<u128> {
        match e {
            Expr::Const(c) => Some(c),
            Expr::Of(d, plus) => Some(self.value(d)?.wrapping_add(plus) & max_of(d.width())),
        }
    }

    /// Does every known dimension fit? The index of the first that does not.
    pub fn fits(&self, f: &Filter) -> Result<(), usize> {
        for (i, (d, set)) in f.0.iter().enumerate() {
            if self.value(*d).is_some_and(|v| !set.contains(v)) {
                return Err(i);
            }
        }
        Ok(())
    }

    fn end_of(&self, end: EndAt) -> i64 {
        match end {
            EndAt::Same => self.end,
            EndAt::Ip4(at) => {
                let total = self.bits(at.saturating_add(2).saturating_mul(8), 16) as i64;
                (self.head + i64::from(at) + total).min(self.end)
            }
            EndAt::Ip6(at) => {
                let payload = self.bits(at.saturating_add(4).saturating_mul(8), 16) as i64;
                (self.head + i64::from(at) + 40 + payload).min(self.end)
            }
        }
    }

    fn check(&self, check: HeaderCheck, at: i32, end: EndAt) -> bool {
        let (Ok(start), Ok(stop)) = (
            usize::try_from(self.head + i64::from(at)),
            usize::try_from(self.end_of(end)),
        ) else {
            return false;
        };
        self.buf
            .get(start..stop.max(start))
            .and_then(|h| holds(check, h))
            .unwrap_or(false)
    }

    /// The packet is written out: a new epoch begins. Checksums that were right stay right, wrong ones wrong.
    pub fn apply(&mut self, image: &Image) {
        let values: Vec<Option<u128>> = image.writes.iter().map(|w| self.expr(w.value)).collect();
        let annos: Vec<Option<u128>> = image.annos.iter().map(|(_, e)| self.expr(*e)).collect();
        let packet_type = match image.packet_type {
            TypeExpr::Same => Some(self.packet_type),
            TypeExpr::Is(t) => Some(t),
            TypeExpr::Destination(e, device) => self.expr(e).map(|v| {
                let b = v.to_be_bytes();
                TypeExpr::of_address([b[10], b[11], b[12], b[13], b[14], b[15]], device) as u8
            }),
        };
        let end = self.end_of(image.end);
        let missing = -(self.head + i64::from(image.start));
        if (1..=MAX_FRONT).contains(&missing) {
            self.buf
                .splice(0..0, std::iter::repeat_n(0, missing as usize));
            self.head += missing;
            self.end += missing;
        }
        let end = end + missing.clamp(0, MAX_FRONT);
        // which checksums are right now: those that a group updates stay so
        let before: Vec<Option<bool>> = image
            .sums
            .iter()
            .map(|s| self.sum_right(s.header))
            .collect();
        for (w, v) in image.writes.iter().zip(values) {
            if let Some(v) = v {
                self.put(w.bit, w.bits, v);
            }
        }
        for (s, was) in image.sums.iter().zip(before) {
            if s.anew || was == Some(true) {
                self.update_checksum(s.header);
            }
        }
        if image.cleared {
            self.anno = [0; 48];
        }
        for ((key, _), v) in image.annos.iter().zip(annos) {
            let bytes = v.unwrap_or(0).to_be_bytes();
            let (at, n) = (usize::from(key.offset), usize::from(key.size).min(16));
            if let Some(to) = self.anno.get_mut(at..at + n) {
                to.copy_from_slice(&bytes[16 - n..]);
            }
        }
        self.packet_type = packet_type.unwrap_or(0);
        self.end = end;
        self.head += i64::from(image.start);
    }

    fn put(&mut self, bit: i32, bits: u8, v: u128) {
        for i in 0..i64::from(bits) {
            let at = self.head * 8 + i64::from(bit) + i;
            let on = (v >> (i64::from(bits) - 1 - i)) & 1 == 1;
            let Ok(byte) = usize::try_from(at.div_euclid(8)) else {
                continue;
            };
            if let Some(b) = self.buf.get_mut(byte) {
                let m = 0x80u8 >> at.rem_euclid(8);
                *b = if on { *b | m } else { *b & !m };
            }
        }
    }

    /// A frame whose IP header stands at the usual place, for the checksum routines of frames.
    fn as_frame(&self, header: i32) -> Option<Vec<u8>> {
        let at = usize::try_from(self.head + i64::from(header)).ok()?;
        let ip = self.buf.get(at..usize::try_from(self.end).ok()?)?;
        let mut f = vec![0; 14];
        let v6 = ip.first()? >> 4 == 6;
        f[12..].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
        f.extend_from_slice(ip);
        Some(f)
    }
    fn sum_right(&self, header: i32) -> Option<bool> {
        let (ip, transport) = crate::frame::sums_right(&self.as_frame(header)?);
        Some(ip != Some(false) && transport != Some(false))
    }
    fn update_checksum(&mut self, header: i32) {
        let Some(mut f) = self.as_frame(header) else {
            return;
        };
        let keep = crate::frame::Keep {
            ip_len: true,
            udp_len: true,
            ..Default::default()
        };
        crate::frame::finish(&mut f, keep);
        let at = usize::try_from(self.head + i64::from(header)).unwrap_or(usize::MAX);
        let n = f.len() - 14;
        if let Some(to) = self.buf.get_mut(at..at.saturating_add(n)) {
            to.copy_from_slice(&f[14..]);
        }
    }
}

/// A question about the header at the start of `b`; `None` where it is not there, which counts as no.
fn holds(check: HeaderCheck, b: &[u8]) -> Option<bool> {
    let word = |b: &[u8], i: usize| -> Option<usize> {
        Some(usize::from(*b.get(i)?) << 8 | usize::from(*b.get(i + 1)?))
    };
    if check == HeaderCheck::Ip6Fits {
        b.get(..40)?;
        return Some(word(b, 4)? + 40 <= b.len());
    }
    b.get(..20)?;
    let total = word(b, 2)?;
    let ihl = usize::from(b[0] & 15) * 4;
    let segment = || match ihl == 20 && total >= 20 {
        true => b.get(20..total),
        false => None,
    };
    let right = |s: &[u8]| {
        let pseudo = checksum::sum(&b[12..20], u64::from(b[9]) + s.len() as u64);
        checksum::fold(checksum::sum(s, pseudo)) == 0xffff
    };
    Some(match check {
        HeaderCheck::Ip4Fits => total <= b.len(),
        HeaderCheck::Ip4Checksum => checksum::internet(b.get(..ihl.max(20))?) == 0,
        HeaderCheck::TcpChecksum => right(segment()?),
        HeaderCheck::UdpChecksum => {
            let s = segment()?;
            right(s.get(..word(s, 4)?)?)
        }
        HeaderCheck::IcmpChecksum => checksum::internet(segment()?) == 0,
        HeaderCheck::UdpFits => {
            let s = segment()?;
            (8..=s.len()).contains(&word(s, 4)?)
        }
        HeaderCheck::Ip6Fits => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Keep, Shape, finish, make};
    use onefold_synth::program::Write;

    fn udp() -> Vec<u8> {
        let mut f = make(Shape {
            version: 4,
            proto: 17,
            tags: 0,
            payload: 9,
        });
        finish(&mut f, Keep::default());
        f
    }

    #[test]
    fn dimensions_are_read() {
        let f = udp();
        let p = Seen::arrive(&f, 1);
        assert_eq!(p.value(Dim::Len), Some(f.len() as u128));
        assert_eq!(p.bits(96, 16), 0x0800);
        assert_eq!(p.bits(8 * 14, 4), 4);
        // the time to live is 64: bit 1 of that byte
        assert_eq!(p.bits(8 * 22 + 1, 3), 4);
        assert_eq!(p.bits(8 * 1000, 8), 0);
        assert_eq!(p.bits(-16, 24), 2);
        let wide: u128 = f[14..30].iter().fold(0, |v, b| v << 8 | u128::from(*b));
        assert_eq!(p.bits(14 * 8, 128), wide);
        assert_eq!(p.bits(14 * 8 + 4, 128), wide << 4 | u128::from(f[30] >> 4));
        assert_eq!(p.value(Dim::Slot(onefold_synth::program::Slot(0))), None);
        for c in [
            HeaderCheck::Ip4Fits,
            HeaderCheck::Ip4Checksum,
            HeaderCheck::UdpChecksum,
            HeaderCheck::UdpFits,
        ] {
            let ask = |p: &Seen| {
                p.value(Dim::Check {
                    check: c,
                    at: 14,
                    end: EndAt::Same,
                })
            };
            assert_eq!(ask(&p), Some(1), "{c:?}");
            assert_eq!(ask(&Seen::arrive(&f[..30], 0)), Some(0), "{c:?}");
        }
    }

    #[test]
    fn an_image_begins_a_new_epoch() {
        let mut p = Seen::arrive(&udp(), 0);
        let sum = onefold_synth::program::SumWrite {
            kind: onefold_synth::program::SumKind::Ip4,
            header: 14,
            at: 24,
            anew: false,
            groups: vec![],
        };
        p.apply(&Image {
            start: 14,
            writes: vec![Write {
                bit: 8 * 22,
                bits: 8,
                value: Expr::Of(
                    Dim::Bits {
                        bit: 8 * 22,
                        bits: 8,
                    },
                    255,
                ),
            }],
            sums: vec![sum],
            ..Image::default()
        });
        assert_eq!(p.bits(64, 8), 63);
        assert_eq!(p.bits(-16, 16), 0x0800);
        let check = HeaderCheck::Ip4Checksum;
        let end = EndAt::Same;
        assert_eq!(p.value(Dim::Check { check, at: 0, end }), Some(1));
        p.apply(&Image {
            start: -34,
            ..Image::default()
        });
        assert_eq!(p.bits(8 * 34, 4), 4);
    }
}
