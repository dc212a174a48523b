//! Changing fields of IP headers: SetIPDSCP, SetIPECN, MarkIPCE, IPMirror.
//!
//! The TOS setters update the header checksum incrementally, so that a wrong one stays wrong. Packets without a whole
//! IP header behind the header annotation are dropped (Click stops). MarkIPCE's `drops` counts (in Click it stays 0).

use super::arg::Spelled;
use super::{ip_header, one_to_one};
use onefold_element::args::{ArgScope, Args, FromArg};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{CUT_OFF, Cases, copy};
use onefold_element::model::{
    Base, Cond, Exit, Fix, Model, ModelCx, Op, Read, Value, bytes, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4::{Header, proto};
use onefold_packet::{Packet, Pkt, checksum};

/// Writes the TOS byte and updates the checksum. `None` without a whole IP header.
#[inline]
fn set_tos(p: &mut Packet, change: impl FnOnce(u8) -> u8) -> Option<()> {
    let ip = p.network_mut().filter(|d| d.len() >= 20)?;
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] = change(ip[1]);
    let new = u16::from_be_bytes([ip[0], ip[1]]);
    let mut h = Header::parse(ip)?;
    h.set_checksum(checksum::update(h.checksum(), old, new));
    Some(())
}

/// `SetIPDSCP`.
pub const SET_IP_DSCP: ElementClass = one_to_one(
    "SetIPDSCP",
    Effect::Pure,
    "DSCP",
    "sets the differentiated services code point",
    || Box::new(SetIpDscp::default()),
);

/// A code point, 0 to 63.
#[derive(Debug, Clone, Copy, Default)]
struct Dscp(u8);

impl FromArg for Dscp {
    const WANTS: &'static str = "a code point from 0 to 63";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        match u32::from_arg(s, scope)? {
            v @ 0..=63 => Ok(Dscp(v as u8)),
            _ => Err(Some(format!(
                "diffserv code point '{s}' out of range, 0 to 63"
            ))),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct SetIpDscp {
    dscp: Spelled<Dscp>,
}

impl Element for SetIpDscp {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.dscp = args.mandatory("DSCP").unwrap_or_default();
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let dscp = self.dscp.value.0 << 2;
        match set_tos(&mut p, |t| t & 3 | dscp) {
            Some(()) => cx.emit(0, p),
            None => cx.drop(p, "SetIPDSCP: no IP header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let (field, fix) = (field::IP_DSCP, Fix::Ip4);
        let value = Value::Const(self.dscp.value.0.into());
        Cases::new()
            .no_ip([], Exit::Drop("SetIPDSCP: no IP header"))
            .otherwise([Op::Write { field, value, fix }], Exit::Port(0))
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("dscp").sets(0, "DSCP")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "dscp" => Ok(self.dscp.text.clone()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "dscp" => self.dscp = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `SetIPECN`.
pub const SET_IP_ECN: ElementClass = one_to_one(
    "SetIPECN",
    Effect::Pure,
    "ECN",
    "sets the explicit congestion notification bits",
    || Box::new(SetIpEcn::default()),
);

/// The two ECN bits, in Click's spellings.
#[derive(Debug, Clone, Copy, Default)]
struct Ecn(u8);

impl FromArg for Ecn {
    const WANTS: &'static str = "an ECN value (0 to 3, no, -, ect1, ECT(1), ect2, ECT(0), ce, CE)";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Ok(Ecn(match s {
            "0" | "no" | "-" => 0,
            "1" | "ect1" | "ECT(1)" => 1,
            "2" | "ect2" | "ECT(0)" => 2,
            "3" | "ce" | "CE" => 3,
            _ => return Err(None),
        }))
    }
}

#[derive(Debug, Clone, Default)]
struct SetIpEcn {
    ecn: Spelled<Ecn>,
}

impl Element for SetIpEcn {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.ecn = args.mandatory("ECN").unwrap_or_default();
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let ecn = self.ecn.value.0;
        match set_tos(&mut p, |t| t & 0xfc | ecn) {
            Some(()) => cx.emit(0, p),
            None => cx.drop(p, "SetIPECN: no IP header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let (field, fix) = (field::IP_ECN, Fix::Ip4);
        let value = Value::Const(self.ecn.value.0.into());
        Cases::new()
            .no_ip([], Exit::Drop("SetIPECN: no IP header"))
            .otherwise([Op::Write { field, value, fix }], Exit::Port(0))
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("ecn").sets(0, "ECN")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "ecn" => Ok(self.ecn.text.clone()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "ecn" => self.ecn = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `MarkIPCE`.
pub const MARK_IP_CE: ElementClass = one_to_one(
    "MarkIPCE",
    Effect::CommutativeCount,
    "[FORCE]",
    "marks packets Congestion Experienced; drops those that are not ECN-capable",
    || {
        Box::new(MarkIpCe {
            force: false,
            drops: 0,
        })
    },
);

#[derive(Debug, Clone)]
struct MarkIpCe {
    force: bool,
    drops: u64,
}

impl Element for MarkIpCe {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.force = args.optional("FORCE").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match ip_header(&p).map(|h| h.tos() & 3) {
            None => cx.drop(p, "MarkIPCE: no IP header"),
            Some(0) if !self.force => {
                self.drops += 1;
                cx.decide(None, || "not ECN-capable".to_string());
                cx.drop(p, "MarkIPCE: not ECN-capable");
            }
            Some(3) => cx.emit(0, p),
            Some(_) => {
                // the header is there, so this cannot fail
                let _ = set_tos(&mut p, |t| t | 3);
                cx.emit(0, p);
            }
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut c = Cases::new().no_ip([], Exit::Drop("MarkIPCE: no IP header"));
        if !self.force {
            c = c.case(
                Cond::eq(field::IP_ECN, 0),
                [Op::Count(0)],
                Exit::Drop("MarkIPCE: not ECN-capable"),
            );
        }
        let mark = Op::Write {
            field: field::IP_ECN,
            value: Value::Const(3),
            fix: Fix::Ip4,
        };
        c.case(Cond::eq(field::IP_ECN, 3), [], Exit::Port(0))
            .otherwise([mark], Exit::Port(0))
    }
    /// Tag 0: not ECN-capable.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.drops += packets;
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

/// `IPMirror`.
pub const IP_MIRROR: ElementClass = one_to_one(
    "IPMirror",
    Effect::Pure,
    "[DST_ANNO]",
    "swaps IP addresses, TCP and UDP ports, TCP sequence numbers",
    || Box::new(IpMirror { dst_anno: true }),
);

#[derive(Debug, Clone)]
struct IpMirror {
    dst_anno: bool,
}

impl Element for IpMirror {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.dst_anno = args.optional("DST_ANNO").unwrap_or(true);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(mut h) = p.network_mut().and_then(Header::parse) else {
            return cx.drop(p, "IPMirror: no IP header");
        };
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
        let protocol = h.protocol();
        let ports = matches!(protocol, proto::TCP | proto::UDP) && h.is_first_fragment();
        if self.dst_anno {
            p.anno.set_dst_ip(src);
        }
        if ports && let Some(t) = p.transport_mut().filter(|t| t.len() >= 8) {
            let (a, b) = t.split_at_mut(2);
            a.swap_with_slice(&mut b[..2]);
            // the acknowledgement may be cut off; what is there of it is swapped (Click takes the rest from behind the
            // end)
            if protocol == proto::TCP {
                let mut seq_ack = [0u8; 8];
                let n = (t.len() - 4).min(8);
                seq_ack[..n].copy_from_slice(&t[4..4 + n]);
                seq_ack.rotate_left(4);
                t[4..4 + n].copy_from_slice(&seq_ack[..n]);
            }
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const PASS: Exit = Exit::Port(0);
        let mut ops = vec![
            copy(field::IP_SRC, field::IP_DST),
            copy(field::IP_DST, field::IP_SRC),
        ];
        if self.dst_anno {
            let src = Value::Of(Read::Field(field::IP_SRC));
            ops.push(Op::SetAnno(onefold_packet::anno_field::DST_IP.into(), src));
        }
        let ports = [
            copy(field::SPORT, field::DPORT),
            copy(field::DPORT, field::SPORT),
        ];
        let (seq, ack) = (bytes(Base::Transport, 4, 4), bytes(Base::Transport, 8, 4));
        let first = |protocol: u8, n: u128| {
            Cond::All(vec![
                Cond::eq(field::IP_PROTO, protocol.into()),
                Cond::eq(field::IP_FRAGOFF, 0),
                Cond::at_least(Read::TransportLen, n),
            ])
        };
        let with = |more: &[Op]| [&ops[..], &ports[..], more].concat();
        Cases::new()
            .no_ip([], Exit::Drop("IPMirror: no IP header"))
            .no_options()
            .case(
                first(proto::TCP, 12),
                with(&[copy(seq, ack), copy(ack, seq)]),
                PASS,
            )
            .punt(first(proto::TCP, 8), CUT_OFF)
            .case(first(proto::UDP, 8), with(&[]), PASS)
            .otherwise(ops, PASS)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, wire::ipv4};

    fn packet(tos: u8) -> Box<Packet> {
        let mut d = vec![
            0x45, tos, 0, 44, 0, 0, 0x40, 0, 0x40, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        d.extend(1..25);
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, 20);
        ipv4::Header::parse(p.data_mut()).unwrap().fill_checksum();
        Box::new(p)
    }
    fn good(p: &Packet) -> bool {
        ipv4::Header::parse(&p.data()[..20]).unwrap().checksum_ok()
    }

    #[test]
    fn dscp_and_ecn() {
        let mut b = Bench::new("SetIPDSCP", "0x2e", 1, 1).unwrap();
        let p = b.push_packet(0, packet(3)).remove(0).1;
        assert!(p.data()[1] == 0xbb && good(&p));
        assert_eq!(b.read("dscp").unwrap(), "0x2e");
        b.write("dscp", "1").unwrap();
        assert_eq!(b.push_packet(0, packet(0))[0].1.data()[1], 4);
        assert!(b.write("dscp", "64").is_err());
        assert!(b.push(0, &[0x45; 40]).is_empty());
        assert_eq!(b.drops()["SetIPDSCP: no IP header"], 1);
        // a wrong checksum stays wrong
        let mut bad = packet(0);
        bad.data_mut()[10] ^= 1;
        assert!(!good(&b.push_packet(0, bad)[0].1));
        for (ecn, bits) in [("ce", 3), ("ECT(1)", 1), ("ect2", 2), ("-", 0)] {
            let mut b = Bench::new("SetIPECN", ecn, 1, 1).unwrap();
            let p = b.push_packet(0, packet(0xfe)).remove(0).1;
            assert!(p.data()[1] == 0xfc | bits && good(&p));
            assert_eq!(b.read("ecn").unwrap(), ecn);
        }
        let e = Bench::new("SetIPECN", "4", 1, 1).err().unwrap();
        assert!(e[0].starts_with("ECN: expected an ECN value"), "{e:?}");
        let e = Bench::new("SetIPDSCP", "64", 1, 1).err().unwrap();
        assert_eq!(e, ["DSCP: diffserv code point '64' out of range, 0 to 63"]);
    }

    #[test]
    fn congestion_experienced() {
        let mut b = Bench::new("MarkIPCE", "", 1, 1).unwrap();
        assert!(b.push_packet(0, packet(0xfc)).is_empty());
        for tos in [1, 2, 3] {
            let p = b.push_packet(0, packet(tos)).remove(0).1;
            assert!(p.data()[1] == 3 && good(&p));
        }
        assert_eq!(b.read("drops").unwrap(), "1");
        let mut b = Bench::new("MarkIPCE", "true", 1, 1).unwrap();
        let p = b.push_packet(0, packet(0xfc)).remove(0).1;
        assert!(p.data()[1] == 0xff && good(&p));
        assert!(b.push(0, b"").is_empty());
    }

    #[test]
    fn mirror() {
        let mut b = Bench::new("IPMirror", "", 1, 1).unwrap();
        let p = b.push_packet(0, packet(0)).remove(0).1;
        assert_eq!(p.data()[12..20], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(p.anno.dst_ip(), [10, 0, 0, 1]);
        assert_eq!(p.data()[20..32], [3, 4, 1, 2, 9, 10, 11, 12, 5, 6, 7, 8]);
        assert!(good(&p));
        // UDP: ports only; a later fragment or a cut one: addresses only
        let with = |f: &dyn Fn(&mut Packet)| {
            let mut p = packet(0);
            f(&mut p);
            p
        };
        let p = b
            .push_packet(0, with(&|p| p.data_mut()[9] = 17))
            .remove(0)
            .1;
        assert_eq!(p.data()[20..28], [3, 4, 1, 2, 5, 6, 7, 8]);
        let p = b.push_packet(0, with(&|p| p.data_mut()[7] = 1)).remove(0).1;
        assert_eq!(p.data()[20..24], [1, 2, 3, 4]);
        let p = b.push_packet(0, with(&|p| p.take(17))).remove(0).1;
        assert_eq!(p.data()[20..], [1, 2, 3, 4, 5, 6, 7]);
        let p = b.push_packet(0, with(&|p| p.take(14))).remove(0).1;
        assert_eq!(p.data()[20..26], [3, 4, 1, 2, 9, 10]);
        let mut b = Bench::new("IPMirror", "false", 1, 1).unwrap();
        assert_eq!(b.push_packet(0, packet(0))[0].1.anno.dst_ip(), [0; 4]);
        assert!(b.push(0, &[0; 40]).is_empty());
    }
}
