//! Computing checksums anew: SetIPChecksum, SetTCPChecksum, SetUDPChecksum, ResetIPChecksum.
//!
//! These repair: whatever the checksum was, it is right afterwards. A computed UDP checksum of zero is written as zero,
//! as Click does.
//!
//! ResetIPChecksum is FastClick's request that a DPDK device computes checksums; here it computes them at once. Packets
//! without the header annotation that an element needs are dropped where Click reads through a null pointer.
//! SetUDPChecksum says once per element, not once per router, that it met a packet it cannot treat.

use super::{ip_header, one_to_one, with_refusals};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, OPTIONS, fails, ne, no_net, set};
use onefold_element::model::{
    Base, Checksum, Cond, Exit, FieldRef, HeaderCheck, Model, ModelCx, Op, Read, bits, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4;
use onefold_packet::{Packet, Pkt, checksum};

const DROPS: &[HandlerInfo] = &[HandlerInfo::r("drops")];

/// `SetIPChecksum`.
pub const SET_IP_CHECKSUM: ElementClass = one_to_one(
    "SetIPChecksum",
    Effect::CommutativeCount,
    "",
    "computes the IP header checksum",
    || Box::new(SetIpChecksum { drops: 0 }),
);

#[derive(Debug, Clone)]
struct SetIpChecksum {
    drops: u64,
}

/// Recomputes the header checksum of `ip`; false if there is no whole header.
fn set_ip_checksum(ip: &mut [u8]) -> bool {
    let have = ip.len();
    match ipv4::Header::parse(ip) {
        Some(mut h) if (ipv4::LEN..=have).contains(&h.header_len()) => {
            h.fill_checksum();
            true
        }
        _ => false,
    }
}

impl Element for SetIpChecksum {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        // without annotation the IP header is at the start of the data
        let done = if p.network_header_offset().is_some() {
            p.network_mut().is_some_and(set_ip_checksum)
        } else {
            set_ip_checksum(p.data_mut())
        };
        if done {
            return cx.emit(0, p);
        }
        self.account(0, 1, 0, cx);
        cx.drop(p, "SetIPChecksum: bad input packet");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const BAD: Exit = Exit::Drop("SetIPChecksum: bad input packet");
        // without annotation: marked for the computation only
        let marked_for = [
            Op::SetNet { at: 0, len: 20 },
            Op::Recompute(Checksum::Ip4),
            Op::ClearNet,
        ];
        let unmarked = |c: Cond| no_net().and(c);
        let ihl = bits(Base::Data, 4, 4);
        Cases::new()
            .case(unmarked(Cond::less(Read::Len, 20)), [Op::Count(0)], BAD)
            .case(unmarked(Cond::between(ihl, 0, 4)), [Op::Count(0)], BAD)
            .punt(unmarked(Cond::between(ihl, 6, 15)), OPTIONS)
            .case(no_net(), marked_for, Exit::Port(0))
            .case(Cond::less(Read::NetLen, 20), [Op::Count(0)], BAD)
            .case(Cond::between(field::IP_IHL, 0, 4), [Op::Count(0)], BAD)
            .no_options()
            .otherwise([Op::Recompute(Checksum::Ip4)], Exit::Port(0))
    }
    /// Tag 0: no whole header.
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        if self.drops == 0 {
            cx.chatter("SetIPChecksum: bad input packet\n");
        }
        self.drops += packets;
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        DROPS
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// "More fragments follow".
const MORE: FieldRef = bits(Base::Net, 50, 1);
/// Cause of punts.
const UDP_LENGTH: &str = "UDP length beyond the IP length";

/// Does the TCP header end behind what the IPv4 total length says? (Without IP options; the total length is at least
/// 40.)
fn beyond(offset: FieldRef) -> Cond {
    let end =
        |words: u128| Cond::eq(offset, words).and(Cond::between(field::IP_LEN, 0, 19 + 4 * words));
    Cond::Any((6..=15).map(end).collect())
}

/// What the transport checksum needs of the IP header.
struct Pseudo {
    src: [u8; 4],
    dst: [u8; 4],
    protocol: u8,
    /// Total length less header length; negative if the header lies.
    payload: i32,
    fragment: bool,
}

fn pseudo(p: &Packet) -> Option<Pseudo> {
    let h = ip_header(p)?;
    Some(Pseudo {
        src: h.src(),
        dst: h.final_dst(),
        protocol: h.protocol(),
        payload: i32::from(h.total_len()) - h.header_len() as i32,
        fragment: h.is_fragment(),
    })
}

/// Writes the checksum of the first `len` bytes of `t` at `at`. False if they are not there.
fn fill(t: &mut [u8], len: usize, at: usize, ps: &Pseudo) -> bool {
    if t.len() < len.max(at + 2) {
        return false;
    }
    t[at..at + 2].fill(0);
    let start = checksum::pseudo_v4(ps.src, ps.dst, ps.protocol, len as u16);
    let c = !checksum::fold(checksum::sum(&t[..len], start));
    t[at..at + 2].copy_from_slice(&c.to_be_bytes());
    true
}

/// `SetTCPChecksum`.
pub const SET_TCP_CHECKSUM: ElementClass = one_to_one(
    "SetTCPChecksum",
    Effect::Pure,
    "[FIXOFF]",
    "computes the TCP checksum",
    || Box::new(SetTcpChecksum { fix_offset: false }),
);

#[derive(Debug, Clone)]
struct SetTcpChecksum {
    /// Mend a data offset that is below 20 or beyond the segment.
    fix_offset: bool,
}

impl SetTcpChecksum {
    fn set(&self, p: &mut Packet) -> Option<()> {
        let ps = pseudo(p)?;
        let len = usize::try_from(ps.payload).ok().filter(|l| *l >= 20)?;
        let t = p.transport_mut().filter(|t| t.len() >= len)?;
        if self.fix_offset {
            let offset = usize::from(t[12] >> 4) * 4;
            let fixed = if offset < 20 {
                Some(5)
            } else if offset > len && !ps.fragment {
                Some((len / 4) as u8)
            } else {
                None
            };
            if let Some(words) = fixed {
                t[12] = words << 4 | t[12] & 15;
            }
        }
        fill(t, len, 16, &ps).then_some(())
    }
}

impl Element for SetTcpChecksum {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.fix_offset = args.optional("FIXOFF").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if self.set(&mut p).is_some() {
            return cx.emit(0, p);
        }
        self.account(0, 1, 0, cx);
        cx.drop(p, "SetTCPChecksum: bad lengths");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const BAD: Exit = Exit::Drop("SetTCPChecksum: bad lengths");
        let bad = || [Op::Count(0)];
        let mut c = Cases::new()
            .no_ip(bad(), BAD)
            .no_options()
            .case(Cond::less(Read::TransportLen, 20), bad(), BAD)
            .case(Cond::between(field::IP_LEN, 0, 39), bad(), BAD)
            .case(fails(HeaderCheck::Ip4Fits), bad(), BAD)
            .punt(ne(field::IP_PROTO, 6), "not TCP");
        if self.fix_offset {
            let offset = bits(Base::Transport, 96, 4);
            c = c
                .punt(beyond(offset), "TCP data offset beyond the segment")
                .case(
                    Cond::between(offset, 0, 4),
                    [set(offset, 5), Op::Recompute(Checksum::Tcp)],
                    Exit::Port(0),
                );
        }
        c.otherwise([Op::Recompute(Checksum::Tcp)], Exit::Port(0))
    }
    /// Tag 0: bad lengths, said each time.
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        for _ in 0..packets {
            cx.chatter("SetTCPChecksum: bad lengths\n");
        }
    }
    element_any!();
}

/// `SetUDPChecksum`.
pub const SET_UDP_CHECKSUM: ElementClass = with_refusals(
    "SetUDPChecksum",
    Effect::Pure,
    "",
    "computes the UDP checksum; fragments and short packets leave at output 1",
    || Box::new(SetUdpChecksum { told: false }),
);

#[derive(Debug, Clone)]
struct SetUdpChecksum {
    told: bool,
}

fn set_udp_checksum(p: &mut Packet) -> Option<()> {
    let ps = pseudo(p).filter(|ps| !ps.fragment)?;
    let t = p.transport_mut()?;
    let len = usize::from(u16::from_be_bytes([*t.get(4)?, *t.get(5)?]));
    fill(t, len, 6, &ps).then_some(())
}

impl Element for SetUdpChecksum {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if set_udp_checksum(&mut p).is_some() {
            return cx.emit(0, p);
        }
        self.account(0, 1, 0, cx);
        cx.decide(None, || "fragment or short packet".to_string());
        cx.emit_or_drop(1, p, "SetUDPChecksum: fragment or short packet");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const BAD: Exit = Exit::PortOrDrop(1, "SetUDPChecksum: fragment or short packet");
        let bad = || [Op::Count(0)];
        Cases::new()
            .no_ip(bad(), BAD)
            .case(ne(MORE, 0), bad(), BAD)
            .case(ne(field::IP_FRAGOFF, 0), bad(), BAD)
            .no_options()
            .case(Cond::less(Read::TransportLen, 8), bad(), BAD)
            .punt(ne(field::IP_PROTO, 17), "not UDP")
            .punt(fails(HeaderCheck::Ip4Fits), UDP_LENGTH)
            .punt(fails(HeaderCheck::UdpFits), UDP_LENGTH)
            .otherwise([Op::Recompute(Checksum::Udp)], Exit::Port(0))
    }
    /// Tag 0: fragment or short packet; said once.
    fn account(&mut self, _: u16, _: u64, _: u64, cx: &mut Cx<'_>) {
        if cx.noutputs == 1 && !self.told {
            self.told = true;
            let name = cx.host.element_name(cx.elem);
            cx.chatter(&format!(
                "{name} :: SetUDPChecksum: fragment or short packet\n"
            ));
        }
    }
    element_any!();
}

/// `ResetIPChecksum`.
pub const RESET_IP_CHECKSUM: ElementClass = one_to_one(
    "ResetIPChecksum",
    Effect::CommutativeCount,
    "[L4]",
    "computes the IP checksum, and the TCP or UDP checksum if L4",
    || {
        Box::new(ResetIpChecksum {
            l4: false,
            drops: 0,
        })
    },
);

#[derive(Debug, Clone)]
struct ResetIpChecksum {
    l4: bool,
    drops: u64,
}

impl Element for ResetIpChecksum {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.l4 = args.optional("L4").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if !p.network_mut().is_some_and(set_ip_checksum) {
            self.account(0, 1, 0, cx);
            return cx.drop(p, "ResetIPChecksum: bad input packet");
        }
        if self.l4 {
            match ip_header(&p).map(|h| h.protocol()) {
                // a packet whose transport cannot be summed passes on with its IP checksum set
                Some(ipv4::proto::TCP) => {
                    let _ = SetTcpChecksum { fix_offset: false }.set(&mut p);
                }
                Some(ipv4::proto::UDP) => {
                    let _ = set_udp_checksum(&mut p);
                }
                _ => {}
            }
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const BAD: Exit = Exit::Drop("ResetIPChecksum: bad input packet");
        const PASS: Exit = Exit::Port(0);
        let sum = Op::Recompute(Checksum::Ip4);
        let c = Cases::new()
            .no_ip([Op::Count(0)], BAD)
            .case(Cond::between(field::IP_IHL, 0, 4), [Op::Count(0)], BAD)
            .no_options();
        if !self.l4 {
            return c.otherwise([sum], PASS);
        }
        let tcp = |c: Cond| Cond::eq(field::IP_PROTO, 6).and(c);
        let udp = |c: Cond| Cond::eq(field::IP_PROTO, 17).and(c);
        c.case(tcp(Cond::less(Read::TransportLen, 20)), [sum], PASS)
            .case(tcp(Cond::between(field::IP_LEN, 0, 39)), [sum], PASS)
            .case(tcp(fails(HeaderCheck::Ip4Fits)), [sum], PASS)
            .case(
                Cond::eq(field::IP_PROTO, 6),
                [sum, Op::Recompute(Checksum::Tcp)],
                PASS,
            )
            .case(ne(field::IP_PROTO, 17), [sum], PASS)
            .case(udp(ne(MORE, 0)), [sum], PASS)
            .case(udp(ne(field::IP_FRAGOFF, 0)), [sum], PASS)
            .case(udp(Cond::less(Read::TransportLen, 8)), [sum], PASS)
            .punt(fails(HeaderCheck::Ip4Fits), UDP_LENGTH)
            .punt(fails(HeaderCheck::UdpFits), UDP_LENGTH)
            .otherwise([sum, Op::Recompute(Checksum::Udp)], PASS)
    }
    /// Tag 0: no whole header.
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        if self.drops == 0 {
            cx.chatter("ResetIPChecksum: bad input packet\n");
        }
        self.drops += packets;
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        DROPS
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, wire::ipv4};

    fn marked(d: &[u8]) -> Box<Packet> {
        let mut p = Packet::from_slice(d);
        p.set_network_header(0, d.first().map_or(0, |b| usize::from(b & 15) * 4));
        Box::new(p)
    }

    #[test]
    fn ip_checksum_with_and_without_annotation() {
        let mut d = vec![
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        let mut b = Bench::new("SetIPChecksum", "", 1, 1).unwrap();
        let p = b.push(0, &d).remove(0).1;
        assert_eq!(p.data()[10..12], [0xb8, 0x61]);
        let mut e = vec![0u8; 14];
        e.extend(&d);
        let mut p = Packet::from_slice(&e);
        p.set_network_header(14, 20);
        let p = b.push_packet(0, Box::new(p)).remove(0).1;
        assert_eq!(p.data()[24..26], [0xb8, 0x61]);
        d[0] = 0x46;
        assert!(b.push(0, &d).is_empty());
        assert!(b.push(0, &[]).is_empty());
        assert_eq!(b.read("drops").unwrap(), "2");
        assert_eq!(b.host.log, "SetIPChecksum: bad input packet\n");
    }

    fn tcp() -> Vec<u8> {
        let mut d = vec![
            0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        d.extend([0u8; 24]);
        d[32] = 0x60;
        d
    }

    /// Sum by hand: addresses 0a00+0001+0a00+0002, protocol 6, length 24 (0x18), data offset word 0x6000:
    /// 1400+0003+001e+6000 = 0x7421, complement 0x8bde.
    #[test]
    fn tcp_checksum() {
        let mut b = Bench::new("SetTCPChecksum", "", 1, 1).unwrap();
        let p = b.push_packet(0, marked(&tcp())).remove(0).1;
        assert_eq!(p.data()[36..38], [0x8b, 0xde]);
        let mut check = Bench::new("CheckTCPHeader", "", 1, 1).unwrap();
        assert_eq!(check.push_packet(0, p).len(), 1);
        let mut short = tcp();
        short[3] = 39;
        for p in [
            marked(&short),
            marked(&tcp()[..43]),
            marked(b"E"),
            Box::new(Packet::from_slice(&tcp())),
        ] {
            assert!(b.push_packet(0, p).is_empty());
        }
        assert_eq!(b.drops()["SetTCPChecksum: bad lengths"], 4);
        assert_eq!(b.host.log.lines().count(), 4);
    }

    #[test]
    fn tcp_offset_is_mended() {
        let mut b = Bench::new("SetTCPChecksum", "true", 1, 1).unwrap();
        for (offset, want) in [(0x41, 0x51), (0xf0, 0x60), (0x60, 0x60)] {
            let mut d = tcp();
            d[32] = offset;
            let p = b.push_packet(0, marked(&d)).remove(0).1;
            assert_eq!(p.data()[32], want);
        }
        assert!(Bench::new("SetTCPChecksum", "maybe", 1, 1).is_err());
    }

    #[test]
    fn udp_checksum() {
        let mut d = vec![
            0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        d.extend([0, 7, 0, 7, 0, 10, 0xff, 0xff, 1, 2]);
        let mut b = Bench::new("SetUDPChecksum", "", 1, 1).unwrap();
        let p = b.push_packet(0, marked(&d)).remove(0).1;
        // 1400+0003 + 0011+000a + 0007+0007+000a+0102 = 0x1538
        assert_eq!(p.data()[26..28], (!0x1538u16).to_be_bytes());
        d[6] = 0x20;
        assert!(b.push_packet(0, marked(&d)).is_empty());
        assert!(b.push_packet(0, marked(&d)).is_empty());
        assert_eq!(
            b.host.log,
            "e0 :: SetUDPChecksum: fragment or short packet\n"
        );
        let mut b = Bench::new("SetUDPChecksum", "", 1, 2).unwrap();
        d[6] = 0;
        d[25] = 11;
        assert_eq!(b.push_packet(0, marked(&d))[0].0, 1);
        assert_eq!(b.push_packet(0, marked(&d[..27]))[0].0, 1);
        assert_eq!(b.push(0, &d)[0].0, 1);
    }

    #[test]
    fn reset_does_both() {
        let mut b = Bench::new("ResetIPChecksum", "L4 true", 1, 1).unwrap();
        let p = b.push_packet(0, marked(&tcp())).remove(0).1;
        assert!(ipv4::Header::parse(p.data()).unwrap().checksum_ok());
        assert_eq!(p.data()[36..38], [0x8b, 0xde]);
        assert!(b.push(0, &tcp()).is_empty());
        assert_eq!(b.read("drops").unwrap(), "1");
    }
}
