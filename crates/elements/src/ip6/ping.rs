//! ICMP6PingResponder answers ICMPv6 echo requests (RFC 4443 4.2).

use super::{checksum, header, header_mut, unless_header};
use onefold_element::args::Args;
use onefold_element::model::{
    Base, Case, Cond, Exit, Model, ModelCx, Read, ValueSet, bytes, field,
};
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any,
};
use onefold_packet::wire::ipv4::proto::ICMP6;
use onefold_packet::wire::ipv6;
use onefold_packet::{Packet, Pkt};
use std::net::Ipv6Addr;

/// `ICMP6PingResponder`.
pub const ICMP6_PING_RESPONDER: ElementClass = ElementClass {
    name: "ICMP6PingResponder",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "[ADDR]",
    summary: "turns ICMPv6 echo requests into replies, those to multicast addresses into replies from ADDR",
    new: || Box::new(Icmp6PingResponder::default()),
};

/// Echo request and reply (RFC 4443 4.1, 4.2).
const REQUEST: u8 = 128;
const REPLY: u8 = 129;
/// Header of an echo message.
const ECHO_LEN: usize = 8;
/// Hop limit of replies, as other packets that routers originate here have it.
const HOP_LIMIT: u8 = 255;

/// Ours: Click has none. What is no whole echo request directly behind an IPv6 header, has a wrong checksum, or comes
/// from what is no single host (RFC 4443 2.4 e.6) leaves at output 1 or is dropped. Without ADDR, so are requests to
/// multicast addresses.
#[derive(Debug, Clone, Default)]
struct Icmp6PingResponder {
    /// Source of replies to requests that went to a multicast address (RFC 4443 4.2).
    addr: Option<[u8; 16]>,
}

const NO_ECHO: DropReason = "ICMP6PingResponder: no echo request that it answers";

impl Icmp6PingResponder {
    /// Source and destination of the reply, and where the request's message ends.
    fn check(&self, p: &Packet) -> Option<([u8; 16], [u8; 16], usize)> {
        let h = header(p)?;
        let end = ipv6::LEN + usize::from(h.payload_len());
        let m = h.bytes().get(ipv6::LEN..end)?;
        if h.next_header() != ICMP6 || m.len() < ECHO_LEN || m[..2] != [REQUEST, 0] {
            return None;
        }
        let (src, dst) = (h.src(), h.dst());
        let from = Ipv6Addr::from(src);
        if from.is_unspecified() || from.is_multicast() || from.is_loopback() {
            return None;
        }
        let me = if dst[0] == 0xff { self.addr? } else { dst };
        // over a message with its own right checksum, the checksum is zero
        (checksum(&src, &dst, ICMP6, m) == 0).then_some((me, src, end))
    }
}

impl Element for Icmp6PingResponder {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let addr: Option<Ipv6Addr> = args.optional("ADDR");
        if addr.is_some_and(|a| a.is_unspecified() || a.is_multicast()) {
            args.error("ADDR: must be a unicast address");
        }
        self.addr = addr.map(|a| a.octets());
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some((src, dst, end)) = self.check(&p) else {
            return cx.emit_or_drop(1, p, NO_ECHO);
        };
        let Some(mut h) = header_mut(&mut p) else {
            return cx.drop(p, NO_ECHO);
        };
        let class = h.traffic_class();
        h.set_version_class_label(class, 0);
        h.set_hop_limit(HOP_LIMIT);
        h.set_src(src);
        h.set_dst(dst);
        p.anno.set_dst_ip6(dst);
        p.anno.timestamp = cx.now;
        p.anno.set_paint(0);
        if let Some(m) = p.network_mut().and_then(|b| b.get_mut(ipv6::LEN..end))
            && let Some(head) = m.first_chunk_mut::<4>()
        {
            *head = [REPLY, 0, 0, 0];
            let sum = checksum(&src, &dst, ICMP6, m).to_be_bytes();
            m[2..4].copy_from_slice(&sum);
        }
        cx.decide(None, || format!("answers {}", Ipv6Addr::from(dst)));
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let other = || Exit::PortOrDrop(1, NO_ECHO);
        let mut cases = Vec::from(unless_header(other()));
        let icmp = ValueSet::one(ICMP6.into());
        let next = Cond::In(Read::Field(field::IP6_NEXT), icmp.complement(8));
        cases.push(Case::new(next, other()));
        let short = Cond::less(Read::NetLen, (ipv6::LEN + ECHO_LEN) as u128);
        cases.push(Case::new(short, other()));
        let request = bytes(Base::Net, ipv6::LEN as u16, 2);
        let request = Cond::eq(request, u128::from(REQUEST) << 8);
        cases.push(Case::new(request, Exit::Punt("answers an echo request")));
        cases.push(Case::new(Cond::Always, other()));
        Model::Cases(cases)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::ip6::testpkt::*;
    use crate::testing::Bench;

    const ME: &str = "2001:db8::1";
    const THEM: &str = "2001:db8::2";

    fn ping(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
        let m = [&[128, 0, 0, 0, 1, 2, 0, 9][..], data].concat();
        let mut d = ip6(src, dst, 58, &m);
        d[1] = 0xb7; // low bits of the traffic class, and a flow label
        put_checksum(&mut d, 42);
        d
    }

    #[test]
    fn a_reply_byte_for_byte() {
        let mut b = Bench::new("ICMP6PingResponder", "", 1, 2).unwrap();
        for data in [&b""[..], b"hello", &[0xff; 1400]] {
            let mut p = marked(&ping(THEM, ME, data));
            p.anno.set_paint(3);
            let out = b.push_packet(0, p);
            let q = &out[0].1;
            let m = [&[129, 0, 0, 0, 1, 2, 0, 9][..], data].concat();
            let mut want = ip6(ME, THEM, 58, &m);
            (want[1], want[7]) = (0xb0, 255);
            put_checksum(&mut want, 42);
            assert_eq!((out[0].0, q.data()), (0, &want[..]));
            assert_eq!((q.anno.dst_ip6(), q.anno.paint()), (addr(THEM), 0));
            assert_eq!(q.anno.timestamp, b.now);
        }
    }

    #[test]
    fn multicast_is_answered_from_the_given_address() {
        let d = ping("fe80::2", "ff02::1", b"x");
        let mut b = Bench::new("ICMP6PingResponder", "", 1, 2).unwrap();
        assert_eq!(b.push_packet(0, marked(&d))[0].0, 1);
        let mut b = Bench::new("ICMP6PingResponder", ME, 1, 2).unwrap();
        let out = b.push_packet(0, marked(&d));
        let q = out[0].1.data();
        assert_eq!(
            (&q[8..24], &q[24..40]),
            (&addr(ME)[..], &addr("fe80::2")[..])
        );
        assert_eq!(q[40], 129);
        assert!(checksum_ok(q));
        // a unicast destination answers for itself
        let out = b.push_packet(0, marked(&ping(THEM, "2001:db8::7", b"")));
        assert_eq!(out[0].1.data()[8..24], addr("2001:db8::7"));
        for bad in ["::", "ff02::1", "x"] {
            assert!(Bench::new("ICMP6PingResponder", bad, 1, 1).is_err());
        }
    }

    #[test]
    fn answers_nothing_else() {
        let mut b = Bench::new("ICMP6PingResponder", ME, 1, 2).unwrap();
        let mut other = |d: &[u8]| b.push_packet(0, marked(d))[0].0 == 1;
        for src in ["::", "::1", "ff02::1"] {
            assert!(other(&ping(src, ME, b"")), "{src}");
        }
        let good = ping(THEM, ME, b"abc");
        for at in [6, 40, 41, 43, 50] {
            let mut d = good.clone();
            d[at] ^= 1;
            assert!(other(&d), "{at}");
        }
        for n in 0..good.len() {
            assert!(other(&good[..n]), "{n}");
        }
        let mut short = ip6(THEM, ME, 58, &[128, 0, 0, 0, 0, 0, 0]);
        put_checksum(&mut short, 42);
        assert!(other(&short));
        assert_eq!(b.push(0, &good)[0].0, 1, "no header annotation");
    }
}
