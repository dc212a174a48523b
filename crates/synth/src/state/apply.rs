//! What operations of models do to a packet on its way.

use super::{Need, State, end_of};
use crate::program::{Dim, EndAt, Expr, Mark, SumKind, SumTerm, SumWrite, TypeExpr, Write};
use onefold_element::model::{AnnoKey, Checksum, Fix, Op, TypeOf, max_of};

impl State {
    /// Writes bits, whatever stood there; checksum bookkeeping is the caller's.
    pub fn put(&mut self, bit: i32, bits: u8, value: Expr) -> Result<(), Need> {
        let end = end_of(bit, bits);
        let mut kept = Vec::with_capacity(self.writes.len() + 1);
        for w in &self.writes {
            let w_end = end_of(w.bit, w.bits);
            if w_end <= bit || end <= w.bit {
                kept.push(*w);
                continue;
            }
            if bit <= w.bit && w_end <= end {
                continue;
            }
            let Expr::Const(v) = w.value else {
                return Err(Need::Write);
            };
            if w.bit < bit {
                kept.push(Write {
                    bit: w.bit,
                    bits: (bit - w.bit) as u8,
                    value: Expr::Const(v >> (w_end - bit)),
                });
            }
            if end < w_end {
                let n = (w_end - end) as u8;
                kept.push(Write {
                    bit: end,
                    bits: n,
                    value: Expr::Const(v & max_of(n)),
                });
            }
        }
        // what a field held at the start of the epoch needs no writing
        if value != Expr::Of(Dim::Bits { bit, bits }, 0) {
            kept.push(Write { bit, bits, value });
        }
        kept.sort_unstable_by_key(|w| w.bit);
        self.writes = kept;
        Ok(())
    }

    /// Another update of a checksum.
    pub fn add_sum(
        &mut self,
        kind: SumKind,
        header: i32,
        at: i32,
        terms: Vec<SumTerm>,
    ) -> Result<(), Need> {
        if terms.is_empty() {
            return Ok(());
        }
        if self.overwritten(at) {
            return Err(Need::Write);
        }
        let Some(s) = self.sums.iter_mut().find(|s| s.at == at) else {
            self.sums.push(SumWrite {
                kind,
                header,
                at,
                anew: false,
                groups: vec![terms],
            });
            return Ok(());
        };
        if s.kind != kind {
            return Err(Need::Write);
        }
        if s.anew {
            // UDP's zero is written as all ones when computed, not when updated
            return match kind {
                SumKind::Udp => Err(Need::Write),
                _ => Ok(()),
            };
        }
        if matches!(kind, SumKind::Udp | SumKind::Icmp) {
            s.groups.push(terms);
            return Ok(());
        }
        // one's complement addition: one group does for all, and successive changes of a field are one change
        let Some(group) = s.groups.first_mut() else {
            s.groups.push(terms);
            return Ok(());
        };
        for t in terms {
            if let SumTerm::Change { bit, bits, from, to } = t
                && let Some(SumTerm::Change { to: last, .. }) = group.iter_mut().rev().find(|g| {
                    matches!(g, SumTerm::Change { bit: b, bits: n, to: last, .. } if (*b, *n) == (bit, bits) && *last == from)
                })
            {
                *last = to;
                continue;
            }
            group.push(t);
        }
        Ok(())
    }

    /// The checksum of the transport protocol: kind and place. `proto` is the packet's.
    pub fn transport_sum(&self, proto: u128) -> Result<Option<(SumKind, i32)>, Need> {
        let t = self.transport_at()?;
        Ok(match proto {
            6 => Some((SumKind::Tcp, t + 16)),
            17 => Some((SumKind::Udp, t + 6)),
            _ => None,
        })
    }

    /// Carries out an operation. `before` is the state that values are read in; `proto` the IP protocol, where it is
    /// known.
    pub fn apply(&mut self, op: &Op, before: &State, proto: Option<u128>) -> Result<(), Need> {
        #[allow(unreachable_patterns)]
        match *op {
            Op::Write { field, value, fix } => {
                let bit = self.place(field)?;
                let value = before.value(value, field.bits)?;
                let value = match value {
                    Expr::Const(c) => Expr::Const(c & max_of(field.bits)),
                    v => v,
                };
                self.write(bit, field.bits, value, fix, proto)
            }
            Op::Recompute(which) => self.recompute(which),
            Op::SetAnno(k, v) => {
                let v = before.value(v, k.size.saturating_mul(8))?;
                self.put_anno(k, v)
            }
            Op::ClearAnnos => {
                self.annos.clear();
                self.annos_zero = true;
                self.cleared = true;
                self.net = Mark::None;
                self.mac = Mark::None;
                self.packet_type = TypeExpr::Is(0);
                Ok(())
            }
            Op::SetPacketType(t) => {
                self.packet_type = match t {
                    TypeOf::Is(t) => TypeExpr::Is(t as u8),
                    TypeOf::Destination(device) => {
                        let device = device.map(|d| d.0);
                        match self.bits_now(self.start * 8, 48)? {
                            Expr::Const(c) => {
                                let b = c.to_be_bytes();
                                let mut dst = [0; 6];
                                dst.copy_from_slice(&b[10..]);
                                TypeExpr::Is(TypeExpr::of_address(dst, device) as u8)
                            }
                            e => TypeExpr::Destination(e, device),
                        }
                    }
                };
                Ok(())
            }
            Op::Pull(n) => {
                self.start += i32::from(n);
                Ok(())
            }
            Op::Push(n) | Op::Unpull(n) => {
                self.start -= i32::from(n);
                Ok(())
            }
            Op::TrimToIp4 { at } => {
                let at = self.start + i32::from(at);
                if self.touched((at + 2) * 8, 16) {
                    return Err(Need::Write);
                }
                self.ends_at(EndAt::Ip4(at))
            }
            Op::TrimToIp6 { at } => {
                let at = self.start + i32::from(at);
                if self.touched((at + 4) * 8, 16) {
                    return Err(Need::Write);
                }
                self.ends_at(EndAt::Ip6(at))
            }
            Op::SetNet { at, len } => {
                self.net = Mark::At(self.start + i32::from(at), len);
                Ok(())
            }
            Op::MoveNet { at } => {
                let to = self.start + i32::from(at);
                self.net = match self.net {
                    Mark::At(net, len) => {
                        let apart = "a network header is marked away from what follows it";
                        let len = u8::try_from(net + i32::from(len) - to);
                        Mark::At(to, len.map_err(|_| Need::Punt(apart))?)
                    }
                    Mark::None | Mark::Alone(_) => Mark::Alone(to),
                    Mark::Same => return Err(Need::Punt("header marks are not known")),
                };
                Ok(())
            }
            Op::StartAt(base) => {
                self.start = self.base(base)?;
                Ok(())
            }
            Op::SetTime(_) => Err(Need::Punt("the time stamp is set")),
            Op::SetMac { at } => {
                self.mac = Mark::At(self.start + i32::from(at), 14);
                Ok(())
            }
            Op::ClearNet => {
                self.net = Mark::None;
                Ok(())
            }
            Op::ClearMac => {
                self.mac = Mark::None;
                Ok(())
            }
            // the traversal turns these into steps
            Op::Count(_) => Ok(()),
            _ => Err(Need::Punt(
                "an operation that the synthesizer does not know",
            )),
        }
    }

    /// Sets an annotation.
    pub fn put_anno(&mut self, k: AnnoKey, v: Expr) -> Result<(), Need> {
        let end = |k: AnnoKey| k.offset + k.size;
        let mut kept = Vec::with_capacity(self.annos.len() + 1);
        let mut over = false;
        for (o, old) in &self.annos {
            if end(*o) <= k.offset || end(k) <= o.offset {
                kept.push((*o, *old));
                continue;
            }
            over = true;
            if !(k.offset <= o.offset && end(*o) <= end(k)) {
                return Err(Need::Write);
            }
        }
        // zero where nothing stands says nothing, and makes no state another one
        if self.annos_zero && !over && v == Expr::Const(0) {
            return Ok(());
        }
        kept.push((k, v));
        kept.sort_unstable_by_key(|(k, _)| *k);
        self.annos = kept;
        Ok(())
    }

    fn write(
        &mut self,
        bit: i32,
        bits: u8,
        value: Expr,
        fix: Fix,
        proto: Option<u128>,
    ) -> Result<(), Need> {
        let end = end_of(bit, bits);
        // a checksum that is computed or updated is written over: what was pending there is void
        if self
            .sums
            .iter()
            .any(|s| s.at * 8 < end && bit < s.at * 8 + 16)
        {
            let whole = |s: &SumWrite| bit <= s.at * 8 && s.at * 8 + 16 <= end;
            if self
                .sums
                .iter()
                .any(|s| s.at * 8 < end && bit < s.at * 8 + 16 && !whole(s))
            {
                return Err(Need::Write);
            }
            self.sums.retain(|s| !whole(s));
        }
        if self.sums.iter().any(|s| s.kind == SumKind::Icmp) && self.is_summed(bit, bits) {
            return Err(Need::Write);
        }
        if let Mark::At(n, len) = self.net {
            let in_header = bit < (n + i32::from(len)) * 8 && n * 8 < end;
            let addresses = in_header && bit < (n + 20) * 8 && (n + 12) * 8 < end;
            let behind = end > (n + i32::from(len)) * 8;
            let (ip, transport) = match fix {
                Fix::Nothing => (false, false),
                Fix::Ip4 => (true, false),
                Fix::Transport => (false, true),
                Fix::Both => (true, true),
            };
            let anew = |s: &State, kinds: &[SumKind]| {
                s.sums.iter().any(|s| s.anew && kinds.contains(&s.kind))
            };
            let l4 = [SumKind::Tcp, SumKind::Udp, SumKind::Icmp];
            if in_header && !ip && len == 20 {
                if anew(self, &[SumKind::Ip4]) {
                    return Err(Need::Write);
                }
                self.ip_dirty = true;
            }
            if (behind || addresses) && !transport {
                if anew(self, &l4) {
                    return Err(Need::Write);
                }
                self.transport_dirty = true;
            }
            if !in_header && !transport {
                if self.is_summed(bit, bits) {
                    return Err(Need::Write);
                }
                self.loosen(bit, bits);
            }
            if ip || transport {
                let from = self.bits_now(bit, bits)?;
                let term = SumTerm::Change {
                    bit,
                    bits,
                    from,
                    to: value,
                };
                if ip {
                    self.add_sum(SumKind::Ip4, n, n + 10, vec![term])?;
                }
                if transport {
                    let proto = proto.ok_or(Need::Punt("checksum of an unknown protocol"))?;
                    if let Some((kind, at)) = self.transport_sum(proto)? {
                        self.add_sum(kind, n, at, vec![term])?;
                    }
                }
            }
        } else if fix != Fix::Nothing {
            return Err(Need::Punt("no network header is marked"));
        } else if self.is_summed(bit, bits) {
            return Err(Need::Write);
        } else {
            self.loosen(bit, bits);
        }
        self.put(bit, bits, value)
    }

    fn loosen(&mut self, bit: i32, bits: u8) {
        let (mut from, mut to) = (bit.div_euclid(8), (end_of(bit, bits) + 7).div_euclid(8));
        self.loose.retain(|(a, b)| {
            let apart = *b < from || to < *a;
            if !apart {
                (from, to) = (from.min(*a), to.max(*b));
            }
            apart
        });
        self.loose.push((from, to));
        self.loose.sort_unstable();
    }

    /// Would writing these bits change what a checksum that is still to be written looks at?
    fn is_summed(&self, bit: i32, bits: u8) -> bool {
        let end = end_of(bit, bits);
        self.sums.iter().any(|s| {
            let (from, to) = match (s.kind, s.anew) {
                (SumKind::Ip4, true) => (s.header * 8, s.at * 8 + 80),
                // nothing but zeros?
                (SumKind::Icmp, _) => (s.at * 8 - 16, i32::MAX),
                (_, true) => (s.header * 8 + 96, i32::MAX),
                (_, false) => return false,
            };
            bit < to && from < end
        })
    }

    /// Bytes go at the end: does a checksum that is still to be written look at them?
    fn ends_at(&mut self, end: EndAt) -> Result<(), Need> {
        let looked_at = self.sums.iter().any(|s| s.kind == SumKind::Icmp);
        if looked_at && self.end != end {
            return Err(Need::Write);
        }
        self.end = end;
        Ok(())
    }

    fn recompute(&mut self, which: Checksum) -> Result<(), Need> {
        let n = self.net_at()?;
        let t = self.transport_at()?;
        if which != Checksum::Ip4 && t != n + 20 {
            return Err(Need::Punt(
                "a transport header behind another network header",
            ));
        }
        let (kind, at) = match which {
            Checksum::Ip4 => (SumKind::Ip4, n + 10),
            Checksum::Tcp => (SumKind::Tcp, t + 16),
            Checksum::Udp => (SumKind::Udp, t + 6),
        };
        self.sums.retain(|s| s.at != at);
        // a plain value there would count while the checksum is computed; it does not
        self.writes
            .retain(|w| !(w.bit >= at * 8 && end_of(w.bit, w.bits) <= at * 8 + 16));
        if self.overwritten(at) {
            return Err(Need::Write);
        }
        self.sums.push(SumWrite {
            kind,
            header: n,
            at,
            anew: true,
            groups: Vec::new(),
        });
        match which {
            Checksum::Ip4 => self.ip_dirty = false,
            _ => self.transport_dirty = false,
        }
        Ok(())
    }
}
