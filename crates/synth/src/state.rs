//! A packet on its way, symbolically: what is different from the start of the epoch.

use crate::layout::Layout;
use crate::program::{
    Dim, EndAt, Expr, Image, LenAt, Mark, Slot, Step, SumKind, SumTerm, SumWrite, TypeExpr, Write,
};
use onefold_elements::model::{
    AT_ZERO, AnnoKey, Base, Checksum, FieldRef, Fix, HeaderCheck, Op, Read, TypeOf, Value,
    ValueSet, max_of,
};
use std::sync::Arc;

/// Why an operation or a reading cannot go on in this stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A value known at run time only is read: a new stage.
    Stage,
    /// What was written must be written out first.
    Write,
    /// Cannot be expressed: the reference graph.
    Punt(&'static str),
}

/// A slot as this path knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathSlot {
    /// Which.
    pub slot: Slot,
    /// Width.
    pub bits: u8,
    /// What it may hold here.
    pub set: ValueSet,
    /// Filled before the stage began.
    pub readable: bool,
}

/// A packet at some place of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// First byte.
    pub start: i32,
    /// End.
    pub end: EndAt,
    /// Disjoint, ascending.
    pub writes: Vec<Write>,
    /// In order of their first use.
    pub sums: Vec<SumWrite>,
    /// Network header.
    pub net: Mark,
    /// MAC header.
    pub mac: Mark,
    /// Annotations were forgotten since the epoch began.
    pub cleared: bool,
    /// Annotations that are not listed are zero.
    pub annos_zero: bool,
    /// Annotations; ascending, disjoint.
    pub annos: Vec<(AnnoKey, Expr)>,
    /// Packet type.
    pub packet_type: TypeExpr,
    /// A field of the IP header was written without its checksum.
    pub ip_dirty: bool,
    /// A field that the transport checksum covers was written without it.
    pub transport_dirty: bool,
    /// Slots filled on this path.
    pub slots: Vec<PathSlot>,
    /// Done since the stage began.
    pub steps: Vec<Step>,
}

/// What a reading comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// A number or a dimension plus a number.
    Expr(Expr),
    /// A dimension less a number, no wrapping round: lengths.
    Less(Dim, i64),
    /// The type of a destination address.
    Type(Expr, Option<[u8; 6]>),
}

fn end_of(bit: i32, bits: u8) -> i32 {
    bit + i32::from(bits)
}

impl State {
    /// A packet from outside.
    pub fn entry() -> State {
        State {
            start: 0,
            end: EndAt::Same,
            writes: Vec::new(),
            sums: Vec::new(),
            net: Mark::None,
            mac: Mark::None,
            cleared: false,
            annos_zero: true,
            annos: Vec::new(),
            packet_type: TypeExpr::Is(0),
            ip_dirty: false,
            transport_dirty: false,
            slots: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The same packet at the beginning of a new stage of the same epoch: everything bound so far can be read.
    pub fn at_stage(mut self) -> State {
        self.steps.clear();
        for s in &mut self.slots {
            s.readable = true;
        }
        self
    }

    /// The same packet at the beginning of a new epoch, written out.
    pub fn written(&self) -> State {
        let shift = |m: Mark| match m {
            Mark::At(at, len) => Mark::At(at - self.start, len),
            m => m,
        };
        let annos = self.annos.iter().map(|(k, v)| match v {
            Expr::Const(_) => (*k, *v),
            Expr::Of(..) => (*k, Expr::Of(Dim::Anno(*k), 0)),
        });
        State {
            net: shift(self.net),
            mac: shift(self.mac),
            annos_zero: self.annos_zero,
            annos: annos.collect(),
            packet_type: match self.packet_type {
                TypeExpr::Is(t) => TypeExpr::Is(t),
                _ => TypeExpr::Same,
            },
            ..State::entry()
        }
    }

    /// What is different, for execution. `annotations`: somebody will look at them.
    pub fn image(&self, annotations: bool) -> Arc<Image> {
        Arc::new(Image {
            start: self.start,
            end: self.end,
            writes: self.writes.clone(),
            sums: self.sums.clone(),
            net: self.net,
            mac: self.mac,
            cleared: annotations && self.cleared,
            annos: if annotations {
                self.annos.clone()
            } else {
                Vec::new()
            },
            packet_type: if annotations {
                self.packet_type
            } else {
                TypeExpr::Same
            },
        })
    }

    /// The layout that the marked network header tells.
    pub fn layout(&self) -> Layout {
        match self.net {
            Mark::At(n, 20) => Layout::Ip4(n),
            Mark::At(n, 40) => Layout::Ip6(n),
            _ => Layout::Unknown,
        }
    }

    /// The length at this place.
    pub fn len_at(&self) -> LenAt {
        LenAt {
            start: self.start,
            end: self.end,
        }
    }

    /// First byte of the network header.
    pub fn net_at(&self) -> Result<i32, Need> {
        match self.net {
            Mark::At(n, _) => Ok(n),
            _ => Err(Need::Punt("no network header is marked")),
        }
    }

    /// First byte of what follows the network header.
    pub fn transport_at(&self) -> Result<i32, Need> {
        match self.net {
            Mark::At(n, len) => Ok(n + i32::from(len)),
            _ => Err(Need::Punt("no network header is marked")),
        }
    }

    fn base(&self, b: Base) -> Result<i32, Need> {
        match b {
            Base::Data => Ok(self.start),
            Base::Net => self.net_at(),
            Base::Transport => self.transport_at(),
            Base::Mac => match self.mac {
                Mark::At(m, _) => Ok(m),
                _ => Err(Need::Punt("no MAC header is marked")),
            },
        }
    }

    /// First bit of a field.
    pub fn place(&self, f: FieldRef) -> Result<i32, Need> {
        Ok(self.base(f.base)? * 8 + i32::from(f.bit))
    }

    fn overlapping(&self, bit: i32, bits: u8) -> impl Iterator<Item = &Write> {
        let end = end_of(bit, bits);
        self.writes
            .iter()
            .filter(move |w| w.bit < end && bit < end_of(w.bit, w.bits))
    }

    /// Is there anything written among these bits?
    pub fn touched(&self, bit: i32, bits: u8) -> bool {
        let end = end_of(bit, bits);
        let sums = self
            .sums
            .iter()
            .any(|s| s.at * 8 < end && bit < s.at * 8 + 16);
        sums || self.overlapping(bit, bits).next().is_some()
    }

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
            Mark::At(..) => Ok(Got::Expr(Expr::Const(1))),
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
                    Mark::At(at, len) => {
                        let at = at - self.start + if behind { i32::from(len) } else { 0 };
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
                if self.ip_dirty || self.overwritten(at + 10) {
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
                if self.transport_dirty || self.touched((at + 2) * 8, 16) {
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

    /// Was the checksum field itself written?
    pub fn overwritten(&self, byte: i32) -> bool {
        self.overlapping(byte * 8, 16).next().is_some()
    }

    fn value(&self, v: Value, bits: u8) -> Result<Expr, Need> {
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

    /// Carries out an operation. `before` is the state that values are read in; `proto` the IP protocol, where it is known.
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
                let end = |k: AnnoKey| k.offset + k.size;
                let mut kept = Vec::with_capacity(self.annos.len() + 1);
                for (o, old) in &self.annos {
                    if end(*o) <= k.offset || end(k) <= o.offset {
                        kept.push((*o, *old));
                    } else if !(k.offset <= o.offset && end(*o) <= end(k)) {
                        return Err(Need::Write);
                    }
                }
                kept.push((k, v));
                kept.sort_unstable_by_key(|(k, _)| *k);
                self.annos = kept;
                Ok(())
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
                self.end = EndAt::Ip4(at);
                Ok(())
            }
            Op::TrimToIp6 { at } => {
                let at = self.start + i32::from(at);
                if self.touched((at + 4) * 8, 16) {
                    return Err(Need::Write);
                }
                self.end = EndAt::Ip6(at);
                Ok(())
            }
            Op::SetNet { at, len } => {
                self.net = Mark::At(self.start + i32::from(at), len);
                Ok(())
            }
            Op::MoveNet { at } => match self.net {
                Mark::At(net, len) => {
                    let to = self.start + i32::from(at);
                    let len = u8::try_from(net + i32::from(len) - to);
                    let len = len.map_err(|_| Need::Punt("a network header alone is marked"))?;
                    self.net = Mark::At(to, len);
                    Ok(())
                }
                _ => Err(Need::Punt("a network header alone is marked")),
            },
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
        }
        self.put(bit, bits, value)
    }

    fn recompute(&mut self, which: Checksum) -> Result<(), Need> {
        let n = self.net_at()?;
        let t = self.transport_at()?;
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
