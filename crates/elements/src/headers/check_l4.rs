//! CheckTCPHeader, CheckUDPHeader, CheckICMPHeader.
//!
//! All need the IP header annotation; without it (or with less than a whole IP header behind it) a packet is "not TCP"
//! and so on. Causes of refusal are the drop reasons `CheckTCPHeader: not TCP`, `... bad packet length`, `... bad TCP
//! checksum`, and alike for UDP and ICMP. FastClick's CHECKSUM keyword is taken.
//!
//! Different from Click: an ICMP packet whose header annotation lies past its end has a bad length (Click reads there).

use super::refusal::{Cause, Lead, Refusals, causes};
use super::{ip_header, with_refusals};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, fails, ne, no_net};
use onefold_element::model::{
    Base, Cond, Exit, HeaderCheck, Model, ModelCx, Read, ValueSet, bits, bytes, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4::{Header, proto};
use onefold_packet::{Packet, Pkt, checksum};

const NOT_IT: usize = 0;
const LENGTH: usize = 1;
const CHECKSUM: usize = 2;

const TCP: &[Cause] = causes!("CheckTCPHeader": "not TCP", "bad packet length", "bad TCP checksum");
const UDP: &[Cause] = causes!("CheckUDPHeader": "not UDP", "bad packet length", "bad UDP checksum");
const ICMP: &[Cause] =
    causes!("CheckICMPHeader": "not ICMP", "bad packet length", "bad ICMP checksum");

/// `CheckTCPHeader`.
pub const CHECK_TCP_HEADER: ElementClass = with_refusals(
    "CheckTCPHeader",
    Effect::CommutativeCount,
    "[keywords CHECKSUM, VERBOSE, DETAILS]",
    "checks the TCP header's lengths and checksum",
    || {
        CheckL4::boxed(
            tcp,
            CheckL4::tcp,
            "TCP",
            Lead::NameAndClass("CheckTCPHeader"),
            TCP,
        )
    },
);

/// `CheckUDPHeader`.
pub const CHECK_UDP_HEADER: ElementClass = with_refusals(
    "CheckUDPHeader",
    Effect::CommutativeCount,
    "[keywords CHECKSUM, VERBOSE, DETAILS]",
    "checks the UDP header's length and checksum",
    || CheckL4::boxed(udp, CheckL4::udp, "UDP", Lead::Bare, UDP),
);

/// `CheckICMPHeader`.
pub const CHECK_ICMP_HEADER: ElementClass = with_refusals(
    "CheckICMPHeader",
    Effect::CommutativeCount,
    "[keywords VERBOSE, DETAILS]",
    "checks an ICMP message's length and checksum",
    || {
        CheckL4::boxed(
            icmp,
            CheckL4::icmp,
            "ICMP",
            Lead::NameAndClass("CheckICMPHeader"),
            ICMP,
        )
    },
);

/// A protocol's check: the packet, and whether to verify the checksum; the cause number if it is refused.
type Check = fn(&Packet, bool) -> Result<(), usize>;

#[derive(Debug, Clone)]
struct CheckL4 {
    check: Check,
    model: fn(&CheckL4) -> Model,
    checksum: bool,
    refusals: Refusals,
}

impl CheckL4 {
    fn boxed(
        check: Check,
        model: fn(&CheckL4) -> Model,
        protocol: &'static str,
        lead: Lead,
        causes: &'static [Cause],
    ) -> Box<dyn Element> {
        Box::new(CheckL4 {
            check,
            model,
            checksum: true,
            refusals: Refusals::new(protocol, lead, causes),
        })
    }
}

/// Models.
impl CheckL4 {
    fn refuse(&self, c: Cases, when: Cond, cause: usize) -> Cases {
        let (count, exit) = self.refusals.refusal(cause);
        c.case(when, [count], exit)
    }
    fn other_protocol(&self, protocol: u8) -> Cases {
        let mut c = self.refuse(Cases::new(), no_net(), NOT_IT);
        c = self.refuse(c, Cond::less(Read::NetLen, 20), NOT_IT);
        self.refuse(c, ne(field::IP_PROTO, protocol.into()), NOT_IT)
    }

    fn tcp(&self) -> Model {
        let mut c = self.other_protocol(proto::TCP);
        c = c.no_options().punt(
            Cond::between(field::IP_LEN, 0, 19),
            "IP length below the header's",
        );
        c = self.refuse(c, Cond::less(Read::TransportLen, 13), LENGTH);
        let offset = bits(Base::Transport, 96, 4);
        c = self.refuse(c, Cond::between(offset, 0, 4), LENGTH);
        let beyond = |words: u128| {
            Cond::eq(offset, words).and(Cond::between(field::IP_LEN, 0, 19 + 4 * words))
        };
        c = self.refuse(c, Cond::Any((5..=15).map(beyond).collect()), LENGTH);
        c = self.refuse(c, fails(HeaderCheck::Ip4Fits), LENGTH);
        if self.checksum {
            c = self.refuse(c, fails(HeaderCheck::TcpChecksum), CHECKSUM);
        }
        c.otherwise([], Exit::Port(0))
    }

    fn udp(&self) -> Model {
        const ODD: &str = "UDP length beyond the IP length";
        let mut c = self.other_protocol(proto::UDP).no_options();
        c = self.refuse(c, Cond::less(Read::TransportLen, 8), LENGTH);
        let length = bytes(Base::Transport, 4, 2);
        c = self.refuse(c, Cond::between(length, 0, 7), LENGTH);
        c = c
            .punt(fails(HeaderCheck::Ip4Fits), ODD)
            .punt(fails(HeaderCheck::UdpFits), ODD);
        if self.checksum {
            c = c.case(Cond::eq(bytes(Base::Transport, 6, 2), 0), [], Exit::Port(0));
            c = self.refuse(c, fails(HeaderCheck::UdpChecksum), CHECKSUM);
        }
        c.otherwise([], Exit::Port(0))
    }

    /// The checksum goes to the packet's end, wherever the IP packet ends: the element itself looks at it.
    fn icmp(&self) -> Model {
        let mut c = self.other_protocol(proto::ICMP).no_options();
        c = self.refuse(c, Cond::less(Read::TransportLen, 8), LENGTH);
        let is = |kinds: &[u128]| {
            let set = ValueSet::from_intervals(kinds.iter().map(|k| (*k, *k)));
            Cond::In(Read::Field(field::ICMP_TYPE), set)
        };
        let not_of_length = |n: u128| {
            let wrong = ValueSet::one(n).complement(Read::TransportLen.width());
            Cond::In(Read::TransportLen, wrong)
        };
        let lengths = [
            (is(&[3, 4, 5, 11, 12]), Cond::less(Read::TransportLen, 36)),
            (is(&[13, 14]), not_of_length(20)),
            (is(&[15, 16]), not_of_length(8)),
        ];
        for (kind, wrong) in lengths {
            c = self.refuse(c, kind.and(wrong), LENGTH);
        }
        match self.checksum {
            true => c.otherwise([], Exit::Ask("CheckICMPHeader: sums the message")),
            false => c.otherwise([], Exit::Port(0)),
        }
    }
}

impl Element for CheckL4 {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.refusals.configure(args);
        self.checksum = args.keyword("CHECKSUM").unwrap_or(true);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        match (self.check)(&p, self.checksum) {
            Ok(()) => cx.emit(0, p),
            Err(cause) => self.refusals.refuse(cause, p, cx),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        (self.model)(self)
    }
    /// Tags: the causes of refusal, from 0: another protocol, bad length, bad checksum.
    fn account(&mut self, tag: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        self.refusals.account(tag.into(), packets, cx);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        self.refusals.handlers()
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        self.refusals.read(name)
    }
    element_any!();
}

/// Is the packet shorter than `len` bytes of transport behind the IP header? 32-bit arithmetic that wraps, as Click's.
fn too_short(p: &Packet, h: &Header<&[u8]>, len: u32) -> bool {
    let net = p.network_header_offset().unwrap_or(0) as u32;
    let need = len.wrapping_add(h.header_len() as u32).wrapping_add(net);
    (p.len() as u32) < need
}

/// Does the checksum of `segment` and its pseudo-header come to all ones?
fn sum_ok(h: &Header<&[u8]>, segment: &[u8], len: u32) -> bool {
    let pseudo = checksum::pseudo_v4(h.src(), h.final_dst(), h.protocol(), len as u16);
    checksum::fold(checksum::sum(segment, pseudo)) == 0xffff
}

fn tcp(p: &Packet, verify: bool) -> Result<(), usize> {
    let h = ip_header(p)
        .filter(|h| h.protocol() == proto::TCP)
        .ok_or(NOT_IT)?;
    let len = u32::from(h.total_len()).wrapping_sub(h.header_len() as u32);
    let t = p.transport().unwrap_or(&[]);
    let header = t.get(12).map_or(0, |b| u32::from(b >> 4) * 4);
    if header < 20 || len < header || too_short(p, &h, len) {
        return Err(LENGTH);
    }
    // A total length below the header length makes `len` huge; Click then sums no bytes at all.
    let segment = if len > i32::MAX as u32 {
        Some(&t[..0])
    } else {
        t.get(..len as usize)
    };
    let segment = segment.ok_or(LENGTH)?;
    if verify && !sum_ok(&h, segment, len) {
        return Err(CHECKSUM);
    }
    Ok(())
}

fn udp(p: &Packet, verify: bool) -> Result<(), usize> {
    let h = ip_header(p)
        .filter(|h| h.protocol() == proto::UDP)
        .ok_or(NOT_IT)?;
    let t = p.transport().unwrap_or(&[]);
    let Some(u) = t.first_chunk::<8>() else {
        return Err(LENGTH);
    };
    let len = u32::from(u16::from_be_bytes([u[4], u[5]]));
    if len < 8 || too_short(p, &h, len) {
        return Err(LENGTH);
    }
    let datagram = t.get(..len as usize).ok_or(LENGTH)?;
    if verify && u[6..8] != [0, 0] && !sum_ok(&h, datagram, len) {
        return Err(CHECKSUM);
    }
    Ok(())
}

fn icmp(p: &Packet, verify: bool) -> Result<(), usize> {
    ip_header(p)
        .filter(|h| h.protocol() == proto::ICMP)
        .ok_or(NOT_IT)?;
    let m = p.transport().filter(|m| m.len() >= 8).ok_or(LENGTH)?;
    let ok = match m[0] {
        // errors: an IP header and 64 bits of the packet follow
        3 | 4 | 5 | 11 | 12 => m.len() >= 8 + 28,
        // time stamps
        13 | 14 => m.len() == 20,
        // information request and reply
        15 | 16 => m.len() == 8,
        _ => true,
    };
    if !ok {
        return Err(LENGTH);
    }
    if verify && checksum::internet(m) != 0 {
        return Err(CHECKSUM);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, checksum};

    /// An IP packet 10.0.0.1 -> 10.0.0.2 with this payload and a right transport checksum at `sum_at`.
    fn ip(proto: u8, payload: &[u8], sum_at: usize) -> Vec<u8> {
        let mut d = vec![
            0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        d[3] = (20 + payload.len()) as u8;
        d.extend(payload);
        let pseudo = if proto == 1 {
            0
        } else {
            checksum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], proto, payload.len() as u16)
        };
        let c = !checksum::fold(checksum::sum(payload, pseudo));
        d[20 + sum_at..22 + sum_at].copy_from_slice(&c.to_be_bytes());
        d
    }
    fn marked(d: &[u8]) -> Box<Packet> {
        let mut p = Packet::from_slice(d);
        p.set_network_header(0, d.first().map_or(0, |b| usize::from(b & 15) * 4));
        Box::new(p)
    }
    fn tcp() -> Vec<u8> {
        let mut t = vec![0u8; 25];
        t[12] = 0x50;
        t[20..].copy_from_slice(b"hello");
        ip(6, &t, 16)
    }

    #[test]
    fn tcp_causes() {
        let mut b = Bench::new("CheckTCPHeader", "DETAILS true", 1, 2).unwrap();
        let ok = tcp();
        assert_eq!(b.push_packet(0, marked(&ok))[0].0, 0);
        // bytes after the IP packet do not matter
        let mut long = ok.clone();
        long.extend([1, 2, 3]);
        assert_eq!(b.push_packet(0, marked(&long))[0].0, 0);
        let with = |i: usize, v: u8| {
            let mut d = ok.clone();
            d[i] = v;
            marked(&d)
        };
        assert_eq!(b.push(0, &ok)[0].0, 1); // no annotation
        for p in [
            with(9, 17),
            marked(&ok[..12]),
            with(32, 0x40),
            with(32, 0x70),
            with(3, 46),
            marked(&ok[..44]),
            with(44, 0),
        ] {
            assert_eq!(b.push_packet(0, p)[0].0, 1);
        }
        assert_eq!(
            b.read("drop_details").unwrap(),
            "3\tnot TCP\n4\tbad packet length\n1\tbad TCP checksum\n"
        );
        assert_eq!(
            b.host.log,
            "e0 :: CheckTCPHeader: TCP header check failed: not TCP\n"
        );
        let mut lax = Bench::new("CheckTCPHeader", "CHECKSUM false", 1, 1).unwrap();
        assert_eq!(lax.push_packet(0, with(44, 0)).len(), 1);
        // an IP length below the header length must not make the sum run away
        let mut d = ok.clone();
        d[3] = 3;
        assert!(lax.push_packet(0, marked(&d)).len() <= 1);
    }

    #[test]
    fn tcp_checksum_uses_the_source_routes_last_address() {
        let mut t = vec![0u8; 20];
        t[12] = 0x50;
        let pseudo = checksum::pseudo_v4([10, 0, 0, 1], [1, 2, 3, 4], 6, 20);
        let c = !checksum::fold(checksum::sum(&t, pseudo));
        t[16..18].copy_from_slice(&c.to_be_bytes());
        let mut d = vec![
            0x47, 0, 0, 48, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        d.extend([131, 7, 4, 1, 2, 3, 4, 0]);
        d.extend(&t);
        let mut b = Bench::new("CheckTCPHeader", "", 1, 1).unwrap();
        assert_eq!(b.push_packet(0, marked(&d)).len(), 1);
    }

    #[test]
    fn udp_causes() {
        let mut b = Bench::new("CheckUDPHeader", "VERBOSE true", 1, 1).unwrap();
        let ok = ip(17, &[0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c'], 6);
        assert_eq!(b.push_packet(0, marked(&ok)).len(), 1);
        let with = |i: usize, v: u8| {
            let mut d = ok.clone();
            d[i] = v;
            marked(&d)
        };
        let mut no_sum = ok.clone();
        no_sum[26..28].fill(0);
        assert_eq!(b.push_packet(0, marked(&no_sum)).len(), 1);
        for p in [
            with(9, 6),
            with(25, 12),
            with(25, 7),
            marked(&ok[..27]),
            with(30, 0),
        ] {
            assert!(b.push_packet(0, p).is_empty());
        }
        let d = b.drops();
        assert_eq!(d["CheckUDPHeader: not UDP"], 1);
        assert_eq!(d["CheckUDPHeader: bad packet length"], 3);
        assert_eq!(d["CheckUDPHeader: bad UDP checksum"], 1);
        assert!(b.host.log.starts_with("UDP header check failed: not UDP\n"));
        assert!(b.read("drop_details").is_err());
    }

    #[test]
    fn icmp_lengths_by_type() {
        let mut b = Bench::new("CheckICMPHeader", "", 1, 1).unwrap();
        for (kind, len, good) in [
            (8u8, 8usize, true),
            (8, 7, false),
            (0, 30, true),
            (3, 35, false),
            (3, 36, true),
            (11, 8, false),
            (13, 20, true),
            (13, 21, false),
            (15, 8, true),
            (15, 9, false),
            (99, 8, true),
        ] {
            let mut m = vec![0u8; len];
            m[0] = kind;
            let p = marked(&ip(1, &m, 2));
            assert_eq!(
                b.push_packet(0, p).len() == 1,
                good,
                "type {kind}, {len} bytes"
            );
        }
        let mut d = ip(1, &[8, 0, 0, 0, 0, 0, 0, 0], 2);
        d[25] = 1;
        assert!(b.push_packet(0, marked(&d)).is_empty());
        assert_eq!(b.drops()["CheckICMPHeader: bad ICMP checksum"], 1);
        assert!(b.push(0, &d).is_empty());
        assert_eq!(b.drops()["CheckICMPHeader: not ICMP"], 1);
    }
}
