//! Invariants 6 to 8: what an image says can be written.

use super::Checker;
use crate::program::*;
use onefold_element::model::AnnoKey;

impl Checker<'_> {
    pub(super) fn image(&mut self, image: &Image) {
        self.near(image.start);
        self.end_at(image.end);
        for m in [image.net, image.mac] {
            if let Some(at) = m.start() {
                self.near(at);
            }
        }
        if matches!(image.mac, Mark::Alone(_)) {
            self.wrong(6, "a MAC header has nothing behind it to be marked");
        }
        for w in &image.writes {
            self.bits(6, w.bit, w.bits);
            self.expr(w.value, w.bits);
        }
        let end = |bit: i32, bits: u8| i64::from(bit) + i64::from(bits);
        if !image
            .writes
            .is_sorted_by(|a, b| end(a.bit, a.bits) <= i64::from(b.bit))
        {
            self.wrong(6, "the writes do not ascend, or overlap");
        }
        self.sums(image);
        for (a, e) in &image.annos {
            self.anno(8, *a);
            self.expr(*e, a.size.saturating_mul(8));
        }
        let after = |a: AnnoKey| u16::from(a.offset) + u16::from(a.size);
        if !image
            .annos
            .is_sorted_by(|a, b| after(a.0) <= u16::from(b.0.offset))
        {
            self.wrong(8, "the annotations do not ascend, or overlap");
        }
        if let TypeExpr::Destination(e, _) = image.packet_type {
            self.expr(e, 48);
        }
    }

    fn sums(&mut self, image: &Image) {
        let mut places: Vec<i64> = Vec::new();
        for s in &image.sums {
            self.near(s.header);
            self.near(s.at);
            // behind the IPv4 header without options, or behind the IPv6 header
            let fits = match (s.kind, i64::from(s.at) - i64::from(s.header)) {
                (SumKind::Ip4, 10) => true,
                (SumKind::Tcp, n) => n == 36 || n == 56,
                (SumKind::Udp, n) => n == 26 || n == 46,
                (SumKind::Icmp, n) => n == 22 || n == 42,
                _ => false,
            };
            if !fits {
                let message = format!(
                    "no {:?} checksum stands at {} behind a header at {}",
                    s.kind, s.at, s.header
                );
                self.wrong(7, message);
            }
            let (from, to) = (i64::from(s.at) * 8, i64::from(s.at) * 8 + 16);
            let hit =
                |w: &Write| i64::from(w.bit) < to && i64::from(w.bit) + i64::from(w.bits) > from;
            if image.writes.iter().any(hit) {
                self.wrong(7, format!("the checksum at {} is written, too", s.at));
            }
            let near = |p: &i64| (p - i64::from(s.at)).abs() < 2;
            if places.iter().any(near) {
                self.wrong(7, format!("two checksums at {}", s.at));
            }
            places.push(s.at.into());
            for t in s.groups.iter().flatten() {
                match *t {
                    SumTerm::Slot(s) => self.slot(s),
                    SumTerm::Change {
                        bit,
                        bits,
                        from,
                        to,
                    } => {
                        self.bits(7, bit, bits);
                        self.expr(from, bits);
                        self.expr(to, bits);
                    }
                }
            }
        }
    }
}
