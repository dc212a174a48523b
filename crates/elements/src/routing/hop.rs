//! What a router does to every packet that it forwards: DropBroadcasts, DecIPTTL, FixIPSrc.

use super::options::store_checksum;
use crate::ip4;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{
    AnnoKey, Case, Checksum, Cond, Exit, Fix, Model, ModelCx, Op, Read, Value, ValueSet, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
    pass_while,
};
use onefold_packet::{Packet, PacketType, Pkt, Timestamp, anno_field};
use std::net::Ipv4Addr;

/// Did the packet arrive as link-level broadcast or multicast?
#[inline]
pub(crate) fn is_group(p: &Packet) -> bool {
    matches!(
        p.anno.packet_type,
        PacketType::Broadcast | PacketType::Multicast
    )
}

/// `DropBroadcasts`.
pub const DROP_BROADCASTS: ElementClass = ElementClass {
    name: "DropBroadcasts",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "",
    summary: "drops packets that arrived as link-level broadcast or multicast",
    new: || Box::new(DropBroadcasts { drops: 0 }),
};

#[derive(Debug, Clone)]
struct DropBroadcasts {
    drops: u32,
}

const GROUP: DropReason = "DropBroadcasts: link-level broadcast or multicast";

/// [`is_group`], of a model.
pub(super) fn when_group() -> Cond {
    let set = ValueSet::range(PacketType::Broadcast as u128, PacketType::Multicast as u128);
    Cond::In(Read::PacketType, set)
}

impl DropBroadcasts {
    #[inline]
    fn count(&mut self, packets: u64, cx: &mut Cx<'_>) {
        if self.drops == 0 && packets != 0 {
            cx.chatter("DropBroadcasts: dropped a packet\n");
        }
        self.drops = self.drops.wrapping_add(packets as u32);
    }
}

impl Element for DropBroadcasts {
    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if is_group(&p) {
            self.count(1, cx);
            cx.decide(None, || {
                "arrived as link-level broadcast or multicast".into()
            });
            cx.emit_or_drop(1, p, GROUP);
        } else {
            cx.emit(0, p);
        }
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        pass_while(batch, |p| !is_group(p))
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::Cases(vec![
            Case::new(when_group(), Exit::PortOrDrop(1, GROUP)).with([Op::Count(0)]),
            Case::new(Cond::Always, Exit::Port(0)),
        ])
    }
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        self.count(packets, cx);
    }
    /// A line about the first one, and numbers.
    fn tells_later(&self, _: u16) -> bool {
        true
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `DecIPTTL`.
pub const DEC_IP_TTL: ElementClass = ElementClass {
    name: "DecIPTTL",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[keywords ACTIVE, MULTICAST]",
    summary: "decrements the time to live, sends expired packets to output 1",
    new: || {
        Box::new(DecIpTtl {
            active: true,
            multicast: true,
            drops: 0,
        })
    },
};

/// As Click. Packets without an IP header are dropped (Click stops there).
#[derive(Debug, Clone)]
struct DecIpTtl {
    active: bool,
    multicast: bool,
    drops: u32,
}

const NO_HEADER: DropReason = "DecIPTTL: no IP header";
const EXPIRED: DropReason = "DecIPTTL: time to live expired";

/// One less, and the checksum with it.
pub(super) const DECREMENT: Op = Op::Write {
    field: field::IP_TTL,
    value: Value::Plus(Read::Field(field::IP_TTL), 0xff),
    fix: Fix::Ip4,
};

/// The checksum after the time to live was decremented: RFC 1624, as Click does it.
#[inline]
pub(super) fn decremented_checksum(sum: u16) -> u16 {
    let s = u32::from(!sum) + 0xfeff;
    !((s + (s >> 16)) as u16)
}

impl Element for DecIpTtl {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.multicast = args.keyword("MULTICAST").unwrap_or(true);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(mut h) = ip4::header_mut(&mut p) else {
            return cx.drop(p, NO_HEADER);
        };
        let leave = !self.active || !self.multicast && h.dst()[0] & 0xf0 == 0xe0;
        let ttl = h.ttl();
        if leave {
            cx.emit(0, p);
        } else if ttl <= 1 {
            self.drops = self.drops.wrapping_add(1);
            cx.decide(None, || format!("time to live is {ttl}"));
            cx.emit_or_drop(1, p, EXPIRED);
        } else {
            h.set_ttl(ttl - 1);
            h.set_checksum(decremented_checksum(h.checksum()));
            cx.emit(0, p);
        }
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            let Some(mut h) = ip4::header_mut(p) else {
                return false;
            };
            let ttl = h.ttl();
            if ttl <= 1 || !e.active || !e.multicast {
                return false;
            }
            h.set_ttl(ttl - 1);
            h.set_checksum(decremented_checksum(h.checksum()));
            true
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(ip4::unless_header(Exit::Drop(NO_HEADER)));
        if !self.active {
            cases.push(Case::new(Cond::Always, Exit::Port(0)));
            return Model::Cases(cases);
        }
        if !self.multicast {
            let group = Cond::between(field::IP_DST, 0xe000_0000, 0xefff_ffff);
            cases.push(Case::new(group, Exit::Port(0)));
        }
        let expired = Cond::between(field::IP_TTL, 0, 1);
        cases.push(Case::new(expired, Exit::PortOrDrop(1, EXPIRED)).with([Op::Count(0)]));
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([DECREMENT]));
        Model::Cases(cases)
    }
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.drops = self.drops.wrapping_add(packets as u32);
    }
    /// Numbers only.
    fn tells_later(&self, _: u16) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops"), HandlerInfo::rw("active")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "active" => {
                self.active = parse_bool(value)?;
                Ok(())
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `FixIPSrc`.
pub const FIX_IP_SRC: ElementClass = ElementClass {
    name: "FixIPSrc",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "IPADDR",
    summary: "sets the source address of packets whose annotation asks for it",
    new: || Box::new(FixIpSrc { addr: [0; 4] }),
};

/// As Click. A packet that asks for it but has no whole IP header is passed on unchanged.
#[derive(Debug, Clone)]
struct FixIpSrc {
    addr: [u8; 4],
}

impl Element for FixIpSrc {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(a) = args.mandatory::<Ipv4Addr>("IPADDR") {
            self.addr = a.octets();
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let fix = usize::from(anno_field::FIX_IP_SRC.offset);
        if p.anno.u8(fix) != 0
            && let Some(len) = ip4::whole_header_len(&p)
        {
            p.anno.set_u8(fix, 0);
            if let Some(mut h) = ip4::header_mut(&mut p) {
                h.set_src(self.addr);
            }
            if let Some(b) = p.network_mut() {
                store_checksum(b, len);
            }
            cx.decide(None, || {
                format!("source set to {}", Ipv4Addr::from(self.addr))
            });
        }
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let fix = usize::from(anno_field::FIX_IP_SRC.offset);
        pass_while(batch, |p| p.anno.u8(fix) == 0)
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = vec![Case::new(fix_asked(0), Exit::Port(0))];
        cases.extend(ip4::unless_header(Exit::Port(0)));
        cases.push(ip4::unless_ihl(Exit::Port(0)));
        cases.push(ip4::punt_options());
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with(fix_source(self.addr)));
        Model::Cases(cases)
    }
    element_any!();
}

/// The fix-source annotation has this value.
pub(super) fn fix_asked(value: u128) -> Cond {
    let key = AnnoKey::from(anno_field::FIX_IP_SRC);
    Cond::In(Read::Anno(key), ValueSet::one(value))
}

/// What the annotation asks for, of a header without options.
pub(super) fn fix_source(addr: [u8; 4]) -> [Op; 3] {
    let source = Op::Write {
        field: field::IP_SRC,
        value: Value::Const(u32::from_be_bytes(addr).into()),
        fix: Fix::Nothing,
    };
    let asked = AnnoKey::from(anno_field::FIX_IP_SRC);
    [
        source,
        Op::Recompute(Checksum::Ip4),
        Op::SetAnno(asked, Value::Const(0)),
    ]
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::PacketType;

    #[test]
    fn group_frames_are_dropped_or_leave_at_1() {
        for (outputs, want) in [(1, None), (2, Some(1))] {
            let mut b = Bench::new("DropBroadcasts", "", 1, outputs).unwrap();
            for t in [PacketType::Broadcast, PacketType::Multicast] {
                let mut p = marked(&[]);
                p.anno.packet_type = t;
                assert_eq!(b.push_packet(0, p).first().map(|o| o.0), want);
            }
            for t in [
                PacketType::Host,
                PacketType::OtherHost,
                PacketType::Outgoing,
            ] {
                let mut p = marked(&[]);
                p.anno.packet_type = t;
                assert_eq!(b.push_packet(0, p)[0].0, 0);
            }
            assert_eq!(b.read("drops").unwrap(), "2");
        }
    }

    #[test]
    fn ttl_is_decremented_with_its_checksum() {
        let mut b = Bench::new("DecIPTTL", "", 1, 2).unwrap();
        for ttl in 0..=255u8 {
            let mut d = ip(A, B, 17, &[], &[]);
            d[8] = ttl;
            fix(&mut d);
            let out = b.push_packet(0, marked(&d));
            let (port, q) = (out[0].0, out[0].1.data());
            if ttl <= 1 {
                assert_eq!((port, q), (1, &d[..]));
            } else {
                assert_eq!((port, q[8]), (0, ttl - 1));
                assert!(sound(q));
            }
        }
        assert_eq!(b.read("drops").unwrap(), "2");
        assert!(b.push(0, &[0x45; 20]).is_empty(), "no header annotation");
        assert!(b.push_packet(0, marked(&[0x45; 19])).is_empty());
        b.write("active", "false").unwrap();
        let d = ip(A, B, 17, &[], &[]);
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data(), d);
    }

    /// RFC 1624: 0xffff and 0x0000 are the same number, and the update must not turn a right checksum into a wrong one.
    #[test]
    fn ttl_checksum_corner_cases() {
        let mut b = Bench::new("DecIPTTL", "", 1, 1).unwrap();
        for id in 0..=u16::MAX {
            let mut d = ip(A, B, 17, &[], &[]);
            d[4..6].copy_from_slice(&id.to_be_bytes());
            fix(&mut d);
            assert!(sound(b.push_packet(0, marked(&d))[0].1.data()), "{id}");
        }
    }

    #[test]
    fn multicast_may_be_spared() {
        let d = ip(A, [224, 0, 0, 5], 17, &[], &[]);
        let mut b = Bench::new("DecIPTTL", "MULTICAST false", 1, 1).unwrap();
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data()[8], 64);
        let mut b = Bench::new("DecIPTTL", "", 1, 1).unwrap();
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data()[8], 63);
        let e = Bench::new("DecIPTTL", "MULTICAST x", 1, 1).err().unwrap();
        assert_eq!(
            e,
            ["MULTICAST: expected a boolean (true or false), found 'x'"]
        );
    }

    #[test]
    fn source_is_set_where_the_annotation_asks() {
        let mut b = Bench::new("FixIPSrc", "1.2.3.4", 1, 1).unwrap();
        let mut d = ip(A, B, 17, &[1, 1, 1, 0], &[]);
        d[10] ^= 1; // the checksum is recomputed, not updated
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data(), d);
        let mut p = marked(&d);
        p.anno.set_u8(19, 1);
        let out = b.push_packet(0, p);
        assert_eq!(out[0].1.data()[12..16], [1, 2, 3, 4]);
        assert!(sound(out[0].1.data()));
        assert_eq!(out[0].1.anno.u8(19), 0);
        let mut p = marked(&d[..10]);
        p.anno.set_u8(19, 1);
        assert_eq!(b.push_packet(0, p)[0].1.data(), &d[..10]);
        assert!(Bench::new("FixIPSrc", "", 1, 1).is_err());
    }
}
